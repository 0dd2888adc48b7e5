//! Given events, when an input arrives, then these events follow: the rules of the core, one by
//! one, without mocks.

mod dialects;
mod flows;
mod invariants;
mod keys;
mod life;
mod world;
