//! Tuning the two thresholds of the trigger by measurement: replay run logs, recorded or
//! generated, under every setting of a grid ([`sweep`]), find the settings that are not beaten on
//! both what they write and what they leave to re-read, and choose among those ([`choose`]).
//!
//! What a replay measures depends on where snapshots fall and nothing else: how many there are,
//! their bytes and times, the tail a resume has to read, the events a crash leaves uncovered. What
//! it cannot measure is whether an agent that worked from those snapshots would have looped,
//! forgotten a constraint or stalled: the log was recorded under one setting and says the same
//! under all of them. Those figures are reported once, as facts of the logs ([`metrics`]).
//!
//! The log's own thresholds (checkpoint interval, commit batch) are swept through a trait by
//! whoever has a log to measure ([`log_sweep`]).

pub mod choose;
pub mod log_sweep;
pub mod metrics;
pub mod plot;
pub mod report;
pub mod shapes;
pub mod sweep;
