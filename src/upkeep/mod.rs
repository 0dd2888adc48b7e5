//! Keeping a home in order: retention, recovery, copies, checks of the log, and watched folders.

pub(crate) mod backups;
pub mod copy;
#[cfg(feature = "cluster")]
pub(crate) mod following;
pub mod forget;
pub(crate) mod forget_mark;
pub(crate) mod kinship;
pub mod log_check;
pub(crate) mod passages;
pub mod recover;
pub mod retention;
pub(crate) mod run_watch;
pub(crate) mod tombstones;
pub(crate) mod written_copies;
