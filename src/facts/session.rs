//! One life of the service process, or one command that held the home.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::agent_run::SnapshotPointer;
use crate::contract::hash::Digest;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{FailureCause, ReasonCode, words};

/// The host that a process runs on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Host {
    pub os: String,
    pub arch: String,
    pub hostname: Option<String>,
    /// The IANA name of the zone in which days are cut.
    pub timezone: Option<String>,
    pub pid: u32,
}

words! {
    /// How far an output came.
    Promotion {
        /// Written, not visible.
        Staged = 1 "staged",
        /// Visible.
        Promoted = 2 "promoted",
        NotWritten = 3 "not_written",
    }
}

/// A day file that a session published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promoted {
    /// The data file, relative to the bus home.
    pub path: String,
    /// Its manifest, relative to the bus home.
    pub manifest_path: String,
    /// Hash of its data; `None` when the file was not written.
    pub data_hash: Option<Digest>,
    /// Version of its records.
    pub schema_version: String,
    pub promotion_status: Promotion,
}

/// Work that a session leaves although its time had come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkLeft {
    pub waits: Vec<WaitingWork>,
    /// Bytes of the queue that were not read because of a pause.
    pub unread_bytes: u64,
}

words! {
    /// Why nothing new is taken in or started.
    PauseCause {
        /// Somebody said `pause`.
        Operator = 1 "operator",
        /// Too many open requests.
        OpenRequests = 2 "open_requests",
        /// Too little free space.
        DiskSpace = 3 "disk_space",
    }
}

/// What requests wait for although their time had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "waits", content = "why", rename_all = "snake_case")]
pub enum WaitReason {
    /// Attempts failed with this cause.
    Cause(FailureCause),
    /// Attempts failed with this reason, and no cause is known.
    Reason(ReasonCode),
    /// Attempts failed, and nothing is known of why.
    Unknown,
    /// The service is paused.
    Pause(PauseCause),
}

impl WaitReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            WaitReason::Cause(cause) => cause.as_str(),
            WaitReason::Reason(reason) => reason.as_str(),
            WaitReason::Unknown => "failed",
            WaitReason::Pause(cause) => cause.as_str(),
        }
    }
}

/// Requests that wait for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingWork {
    pub reason: WaitReason,
    pub requests: u64,
    /// When the next attempt of one of them may begin, if that is known.
    pub next: Option<Timestamp>,
}

/// What a session reports when it ends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionReport {
    /// Events it committed.
    pub events: u64,
    /// Queue lines it took in.
    pub lines: u64,
    pub commits: u64,
    /// Requests that ended, by the word that `status` uses.
    pub outcomes: BTreeMap<String, u64>,
    pub outputs: Vec<Promoted>,
    /// The newest snapshot of the service's own session.
    pub snapshot: Option<SnapshotPointer>,
    /// Why the session stopped, when it stopped on an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
