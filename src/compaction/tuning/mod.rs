//! Tunes the two thresholds of the trigger by measurement. Run logs, recorded or generated, are
//! replayed under many settings ([`sweep`]) that a search finds by itself ([`search`]). An explicit
//! cost model with weights ([`cost`]) says what each setting costs, and one is recommended with how
//! sure that is ([`choose`]).
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
pub mod cost;
pub(crate) mod log_sweep;
pub mod metrics;
pub mod plot;
pub mod report;
pub mod search;
pub mod shapes;
pub mod sweep;
