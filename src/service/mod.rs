//! The service.

pub mod engine;
pub mod home;
pub mod past;
