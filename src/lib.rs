//! `summarizer`: a summarizer service for one host.

pub mod cli;
pub mod config;
pub mod contract;
pub mod export;
pub mod flow;
pub mod limits;
pub mod log;
pub mod model;
pub mod os;
pub mod registry;
pub mod replay;
pub mod seam;
pub mod service;
pub mod state;
