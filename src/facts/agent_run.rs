//! Agent runs that the home's log holds: batches of run events, snapshots, and stops by the gate.

use serde::{Deserialize, Serialize};

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;

/// A fact about one agent run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "facts", rename_all = "snake_case")]
pub enum AgentRunFact {
    /// A batch of run events; their lines are the record's body.
    EventsAppended(EventsAppended),
    /// A snapshot came into force; the record's body holds its files.
    SnapshotTaken(SnapshotTaken),
    /// The gate stopped the run; the snapshot that failed is the record's body.
    CompactionFailed(CompactionFailed),
}

impl AgentRunFact {
    pub fn run_id(&self) -> &str {
        match self {
            AgentRunFact::EventsAppended(fact) => &fact.run_id,
            AgentRunFact::SnapshotTaken(fact) => &fact.run_id,
            AgentRunFact::CompactionFailed(fact) => &fact.run_id,
        }
    }
}

/// Run events became part of the home's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsAppended {
    pub run_id: String,
    /// The first and the last run event of the batch.
    pub first_seq: u64,
    pub last_seq: u64,
    /// The record of the batch before; `Seq(0)` for the first.
    pub previous: Seq,
    /// Hash of the lines.
    pub sha256: Digest,
    /// The watched file the lines came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<FileMark>,
}

/// How much of a watched file is in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    /// Its name in the watched folder.
    pub file: String,
    /// The byte after the last line taken.
    pub end: u64,
    /// How many lines that is.
    pub lines: u64,
    /// How many bytes before `end` the hash covers: all of them. Earlier versions covered the last
    /// line only.
    #[serde(rename = "line_bytes")]
    pub covered: u64,
    /// The proof that the file is still the same up to here.
    #[serde(rename = "line_sha256")]
    pub sha256: Digest,
}

/// A snapshot came into force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotTaken {
    pub run_id: String,
    /// Its place in the run.
    pub sequence: u64,
    pub snapshot_id: String,
    /// The last run event it covers.
    pub to_seq: u64,
    /// The record of the snapshot before; `Seq(0)` for the first.
    pub previous: Seq,
    /// Hash of the snapshot's file form.
    pub sha256: Digest,
    /// For the service's own session: the last event of this log that the snapshot covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<Seq>,
    /// For the service's own session: the first event of this log that the rest depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<Seq>,
    /// For the service's own session: whether this ended the segment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closes: bool,
}

/// A run was stopped because its snapshot failed its checks twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionFailed {
    pub run_id: String,
    /// The place the snapshot would have had.
    pub sequence: u64,
    /// The run event after which the snapshot was tried.
    pub after_seq: u64,
    /// What failed, for a person.
    pub message: String,
    /// For the service's own session: the last event of this log the snapshot would have covered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<Seq>,
    /// For the service's own session: the first event of this log that the rest depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<Seq>,
}

/// Names one snapshot and the record that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotPointer {
    pub run_id: String,
    /// Its place in the run.
    pub sequence: u64,
    pub snapshot_id: String,
    pub seq: Seq,
}
