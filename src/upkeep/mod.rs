//! Keeping a home in order: retention, recovery, copies, and watched folders.

pub mod copy;
pub mod kinship;
pub mod log_meter;
pub mod recover;
pub mod retention;
pub mod run_watch;
