//! Compaction: the append-only log of a long run, folded into small snapshots without drift.
//!
//! A run log is `run_event.v1`, one event a line ([`event`]). Its events are folded one by one
//! into working state, evidence ledger and the window since the last snapshot ([`fold`]). Between
//! steps the [`trigger`] decides whether a snapshot is due; [`build`] makes it, [`checks`] judge it, and
//! only one that passes every check comes into force. A snapshot that fails is built once more
//! after everything was read again; a second failure stops the run with the snapshot before still
//! in force. [`narrative`] renders a snapshot for people.
//!
//! Contract: everything but [`files`], [`reader`] and [`run_log`] is a pure function of events. Equal logs give equal bytes;
//! verbose events change none; folding a log gives what folding a snapshot and the tail gives
//! ([`resume`]). Snapshots are never changed once written.
//!
//! It does not summarize with a model, does not repair logs, and does not decide what a run does.

pub mod agent_runs;
pub mod build;
pub mod checks;
pub mod compactor;
pub mod difference;
pub mod event;
pub mod evidence;
pub mod files;
pub mod fold;
pub mod lines;
pub mod narrative;
mod object;
pub mod payload;
pub mod previous;
pub mod reader;
pub mod resume;
pub mod run_log;
pub mod service_run;
pub mod snapshot;
pub mod state;
pub mod text;
pub mod trigger;
pub mod tuning;
pub mod window;
