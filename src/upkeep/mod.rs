//! Keeping a home in order: retention, recovery, copies, and watched folders.

pub mod copy;
pub(crate) mod kinship;
pub mod recover;
pub mod retention;
pub(crate) mod run_watch;
