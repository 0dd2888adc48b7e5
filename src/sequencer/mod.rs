//! Inputs become events, and events become durable batches.
//!
//! `intake` reads and parses queue lines beside the engine, `foresight` looks up their ids and keys
//! ahead, `engine` decides and applies, `past` and `recent_heads` answer the questions of the decision, and
//! `writer` makes batches durable. `mark` is the queue position that a batch carries, `copies` knows a queue that is a copy of another one, `view` is what anybody may ask, and `log_meter` measures
//! engine and store for `tune`.

pub mod copies;
pub mod engine;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(feature = "cluster")]
pub mod follower;
pub mod foresight;
pub mod intake;
pub mod line;
pub mod log_meter;
pub mod mark;
pub mod past;
mod recent_heads;
pub mod view;
pub mod writer;
