//! What retention removed or moved.

use serde::{Serialize, Serializer};

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;

/// A step of retention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "facts", rename_all = "snake_case")]
pub enum RetentionFact {
    /// Answers of models are dropped after this record.
    AnswersDropped(AnswersDropped),
    /// Acks are in an archive file; the ack file loses them after this record.
    AcksMoved(AcksMoved),
    /// A pass over everything that the settings name ended.
    Applied(RetentionApplied),
}

/// Answers of models that were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnswersDropped {
    pub dropped: u64,
    pub bytes: u64,
    /// All of them are older than this.
    #[serde(serialize_with = "text")]
    pub before: Timestamp,
}

/// Acks that are in an archive file now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcksMoved {
    /// The last event that they report.
    pub through: Seq,
    pub lines: u64,
    /// The archive file, in `run/archive`.
    pub file: String,
    /// Of its bytes.
    pub hash: Digest,
}

impl AcksMoved {
    /// The name of the file with the acks up to an event.
    pub(crate) fn file_of(through: Seq) -> String {
        format!("{ACKS_TO}{:020}.jsonl", through.0)
    }
}

/// Whether a file of `run/archive` holds acks.
pub(crate) fn is_archive_of_acks(name: &str) -> bool {
    name.starts_with(ACKS_TO) && name.ends_with(".jsonl")
}

/// What the names of files with archived acks begin with.
const ACKS_TO: &str = "acks-to-";

/// What one pass did. A part that the settings keep for good is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RetentionApplied {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswersDropped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<AcksArchived>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<FramesArchived>,
    /// The command that asked, or `service`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// Acks that left the ack file in one pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcksArchived {
    pub moved: u64,
    pub bytes: u64,
    #[serde(serialize_with = "text")]
    pub before: Timestamp,
}

/// Frames of the log that went into archive segments in one pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FramesArchived {
    pub records: u64,
    /// Segments made and their bytes; `None` before the frames are archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(serialize_with = "text")]
    pub before: Timestamp,
}

fn text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}
