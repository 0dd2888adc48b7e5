//! The service.

pub mod control;
pub mod engine;
pub mod home;
pub mod intake;
pub mod mark;
pub mod operate;
pub mod past;
pub mod projector;
pub mod worker;
