//! The service.

pub mod control;
pub mod daemon;
pub mod engine;
pub mod flows;
pub mod home;
pub mod intake;
pub mod lead;
pub mod mark;
pub mod operate;
pub mod past;
pub mod projector;
pub mod worker;
