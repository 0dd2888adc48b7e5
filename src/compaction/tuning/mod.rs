//! Tunes the two thresholds of the trigger by measurement. Run logs, recorded or generated, are
//! replayed under every setting of a grid ([`sweep`]). Among the settings that no other setting
//! beats on both bytes written and events to re-read, one is chosen ([`choose`]).
//!
//! A replay measures what depends on where snapshots fall: their number, bytes and times, the tail
//! that a resume reads, and the events that a crash leaves uncovered. A replay cannot measure
//! whether an agent working from those snapshots would have looped, forgotten a constraint or
//! stalled, because the log was recorded under one setting. Those figures are reported once, as
//! facts of the logs ([`metrics`]).
//!
//! The thresholds of the log itself (checkpoint interval, commit batch) are swept through a trait,
//! by code that has a log to measure ([`log_sweep`]).

pub mod choose;
pub mod log_sweep;
pub mod metrics;
pub mod plot;
pub mod report;
pub mod shapes;
pub mod sweep;
