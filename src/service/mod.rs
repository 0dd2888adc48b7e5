//! The service.

pub mod engine;
pub mod home;
pub mod intake;
pub mod mark;
pub mod past;
pub mod worker;
