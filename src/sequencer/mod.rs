//! Inputs become events, and events become durable batches.

pub mod engine;
pub mod foresight;
pub mod intake;
pub mod log_meter;
pub mod mark;
pub mod past;
pub(crate) mod writer;
