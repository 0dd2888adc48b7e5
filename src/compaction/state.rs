//! The working state of a run: claims, conflicts, questions, failures, constraints and coverage, in
//! the order in which snapshots list them. The ledger holds claims and evidence exactly as events
//! recorded them; every snapshot is checked against it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::evidence::Place;
use super::payload::FailureSeverity;
use super::text::SharedText;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimStatus {
    /// Stated, not yet verified.
    Candidate,
    /// Verified by the run.
    Verified,
    /// Withdrawn; final.
    Retracted,
}

/// Pointers by evidence id.
pub type Refs = BTreeMap<SharedText, Place>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimState {
    pub status: ClaimStatus,
    pub statement: SharedText,
    pub refs: Refs,
    /// The claim whose wording it replaces.
    pub supersedes: Option<SharedText>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictState {
    pub description: SharedText,
    pub side_a: Refs,
    pub side_b: Refs,
    pub resolution: Option<SharedText>,
}

/// One failure, counted by fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureState {
    pub category: SharedText,
    pub place: SharedText,
    pub why: SharedText,
    pub severity: FailureSeverity,
    /// False once resolved; true again when it recurs.
    pub active: bool,
    pub occurrences: u64,
    /// Two failures with the same fingerprint are one failure.
    pub fingerprint: SharedText,
}

/// Open questions in opening order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Questions {
    next: u64,
    by_order: BTreeMap<u64, (SharedText, SharedText)>,
    by_id: BTreeMap<SharedText, u64>,
}

impl Questions {
    /// The text of an open question.
    pub fn get(&self, id: &str) -> Option<&SharedText> {
        self.by_id.get(id).and_then(|order| self.by_order.get(order)).map(|(_, text)| text)
    }

    /// Adds a question at the end.
    pub fn open(&mut self, id: SharedText, text: SharedText) {
        self.by_id.insert(id.clone(), self.next);
        self.by_order.insert(self.next, (id, text));
        self.next += 1;
    }

    /// Removes a question; false when it is not open.
    pub fn close(&mut self, id: &str) -> bool {
        self.by_id.remove(id).and_then(|order| self.by_order.remove(&order)).is_some()
    }

    /// Ids and texts in opening order.
    pub fn iter(&self) -> impl Iterator<Item = &(SharedText, SharedText)> {
        self.by_order.values()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintState {
    pub text: SharedText,
    /// Violations while the constraint was in force.
    pub violations: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CoverageState {
    pub sources: BTreeSet<SharedText>,
    /// Chunks that were selected for a prompt, reported as seen, or cited.
    pub chunks: BTreeSet<SharedText>,
    /// Bytes of all chunk ids: a cheap lower bound of the size of their list.
    pub chunk_bytes: usize,
    /// Chunks first seen since the last spilled snapshot; `None` while nothing is spilled.
    pub fresh: Option<BTreeSet<SharedText>>,
}

impl CoverageState {
    pub fn see_chunk(&mut self, chunk: &SharedText) {
        if self.chunks.contains(chunk) {
            return;
        }
        self.chunk_bytes += chunk.len();
        self.chunks.insert(chunk.clone());
        if let Some(fresh) = &mut self.fresh {
            fresh.insert(chunk.clone());
        }
    }

    pub fn see_source(&mut self, source: &SharedText) {
        if !self.sources.contains(source) {
            self.sources.insert(source.clone());
        }
    }
}

/// The working state at one position of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunState {
    pub claims: BTreeMap<SharedText, ClaimState>,
    pub conflicts: BTreeMap<SharedText, ConflictState>,
    pub questions: Questions,
    /// Failures by the first id that each was recorded under.
    pub failures: BTreeMap<SharedText, FailureState>,
    /// Maps the later ids of a failure to its first one.
    pub failure_aliases: BTreeMap<SharedText, SharedText>,
    /// First id by fingerprint.
    pub failures_by_fingerprint: BTreeMap<SharedText, SharedText>,
    pub constraints: BTreeMap<SharedText, ConstraintState>,
    pub coverage: CoverageState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerClaim {
    pub statement: SharedText,
    pub status: ClaimStatus,
}

/// The evidence ledger: claims and evidence exactly as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvidenceLedger {
    pub claims: HashMap<SharedText, LedgerClaim>,
    pub evidence: HashMap<SharedText, Place>,
}
