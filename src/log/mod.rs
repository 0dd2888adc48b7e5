//! The durable log.

pub mod codec;
