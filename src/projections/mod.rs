//! The files and tables that follow from committed events, and the threads that keep them.

pub mod digester;
pub mod own_run;
pub mod projector;
pub mod runs;
pub mod snapshot_files;
pub mod summaries;
