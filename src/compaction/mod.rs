//! Compaction: the append-only log of a long agent run, folded into small snapshots without drift.
//!
//! A run log is `run_event.v1`, one event a line ([`event`]). Its events are folded one by one into
//! the working state, the evidence ledger and the counts since the last snapshot ([`fold`]).
//! Between steps the [`trigger`] decides whether a snapshot is due; [`build`] makes it and
//! [`checks`] judge it. Only a snapshot that passes every check comes into force. A snapshot that
//! fails is built a second time after everything was read again. If it fails again, the run stops
//! and the snapshot before stays in force. [`narrative`] renders a snapshot for people.
//!
//! Contract: everything except [`files`], [`reader`], [`run_log`] and [`agent_runs`] is a pure
//! function of events. Equal logs give equal bytes. Verbose events change no snapshot. Folding a
//! snapshot and the events after it gives the same as folding the whole log ([`resume`]). A written
//! snapshot is never changed.
//!
//! Compaction does not call a model, does not repair logs, and does not decide what a run does.

pub mod agent_runs;
pub mod build;
pub mod checks;
pub mod compactor;
pub mod event;
mod event_parser;
pub mod evidence;
pub mod files;
pub mod fold;
pub mod lines;
pub mod narrative;
mod object;
mod page;
pub mod payload;
pub mod previous;
pub mod reader;
mod records;
pub mod resume;
pub mod run_log;
pub mod service_run;
pub mod session_figures;
mod session_narrative;
pub mod snapshot;
pub mod spill;
pub mod state;
pub mod text;
pub mod trigger;
pub mod tuning;
pub mod window;
