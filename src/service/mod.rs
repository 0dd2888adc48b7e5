//! The service.

pub mod control;
pub mod copy;
pub mod daemon;
pub mod digester;
pub mod engine;
pub mod explain;
mod flow_facts;
mod flow_item;
pub mod flow_worker;
pub mod flows;
pub mod foresight;
pub mod home;
pub mod intake;
pub mod log_meter;
pub mod mark;
pub mod operate;
pub mod own_run;
pub mod past;
pub mod projector;
pub mod recover;
pub mod retention;
pub mod run_watch;
pub mod runs;
pub mod snapshot_files;
pub mod summaries;
pub mod worker;
mod writer;
