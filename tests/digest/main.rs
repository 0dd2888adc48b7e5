//! The Digest Bus from the log to its readers: what is built, how it becomes visible, what a crash
//! or a fault leaves behind, and what `verify` finds.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes what it is about to break"
)]

mod cache;
mod commands;
mod contract;
mod crash;
mod faulty;
mod fixtures;
mod fortnight;
mod hostile;
mod publishing;
mod readers;
#[path = "../support/running.rs"]
mod running;
mod world;
