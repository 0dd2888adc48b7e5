//! What `recover` found when it made a log again.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::contract::time::Day;

/// The row of a session or digest build whose events are lost. Its record is still on the bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunRecordKept {
    pub run_id: String,
    /// The day its row belongs to.
    pub day: Day,
    /// Its line in the run-records bus, published as it is.
    pub row: String,
}

/// What was found, what was made of it, and what could not be known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryReport {
    /// Records of the old log that are intact and were kept.
    pub records_kept: u64,
    /// Whether any of its records could not be kept.
    pub records_lost: bool,
    /// Why the old log could not be read further.
    pub damage: Option<String>,
    /// Acks of events after those records.
    pub acks_read: u64,
    /// Lines of the ack file that are not acks.
    pub acks_unreadable: u64,
    /// Queue lines that were taken in again.
    pub lines: u64,
    /// What had happened to the queue file.
    pub queue_change: Option<String>,
    /// Published summaries that were recognized by the ack of their request.
    pub outputs_recognized: u64,
    /// Published summaries without an ack: kept under `recovered:SUMMARY_ID`.
    pub outputs_adopted: u64,
    /// Run records of the lost part that are still on the bus.
    pub run_records: u64,
    /// Requests that had ended without a summary, and still have.
    pub ended: u64,
    /// Requests that are open again.
    pub open: u64,
    /// What could not be known, by kind.
    pub unknown: BTreeMap<String, Loss>,
}

/// One kind of thing that could not be known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// What the loss means, for a person.
    pub means: String,
    pub count: u64,
    /// Some of the lost things.
    pub examples: Vec<String>,
}
