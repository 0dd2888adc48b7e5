//! `summarizer`: a summarizer service for one host.

pub mod cli;
pub mod contract;
pub mod flow;
pub mod limits;
pub mod model;
pub mod os;
pub mod registry;
