//! Keeping a home in order: retention, recovery, copies, and watched folders.

pub mod copy;
pub mod kinship;
pub mod recover;
pub mod retention;
pub mod run_watch;
