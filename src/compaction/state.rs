//! The working state of a run as the fold keeps it: claims, conflicts, questions, failures,
//! constraints and coverage, ordered the way snapshots list them. And the ledger: what the events
//! themselves said about claims and evidence, against which every snapshot is checked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::evidence::Place;
use super::payload::FailureSeverity;
use super::text::SharedText;

/// How far a claim is.
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

/// One claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimState {
    /// How far it is.
    pub status: ClaimStatus,
    /// Its wording.
    pub statement: SharedText,
    /// What supports it.
    pub refs: Refs,
    /// The claim whose wording it replaces.
    pub supersedes: Option<SharedText>,
}

/// One contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictState {
    /// What contradicts what.
    pub description: SharedText,
    /// Evidence for one side.
    pub side_a: Refs,
    /// Evidence for the other.
    pub side_b: Refs,
    /// How it was resolved, if it was.
    pub resolution: Option<SharedText>,
}

/// One failure, counted by fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureState {
    /// Its kind.
    pub category: SharedText,
    /// Where it first happened.
    pub place: SharedText,
    /// What first happened.
    pub why: SharedText,
    /// The worst severity seen.
    pub severity: FailureSeverity,
    /// False once resolved, until it recurs.
    pub active: bool,
    /// How often it was recorded.
    pub occurrences: u64,
    /// What makes it the same failure.
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

/// A constraint in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintState {
    /// Its wording.
    pub text: SharedText,
    /// How often it was violated while in force.
    pub violations: u64,
}

/// What the run has looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CoverageState {
    /// Sources seen.
    pub sources: BTreeSet<SharedText>,
    /// Chunks seen: selected for a prompt, reported seen, or cited.
    pub chunks: BTreeSet<SharedText>,
    /// Bytes of all chunk ids: a quick lower bound for what listing them takes.
    pub chunk_bytes: usize,
    /// Chunks first seen since the last spilled snapshot; `None` while nothing is spilled.
    pub fresh: Option<BTreeSet<SharedText>>,
}

impl CoverageState {
    /// Notes a chunk.
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

    /// Notes a source.
    pub fn see_source(&mut self, source: &SharedText) {
        if !self.sources.contains(source) {
            self.sources.insert(source.clone());
        }
    }
}

/// Everything a run knows at one point of its log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunState {
    /// Claims by id.
    pub claims: BTreeMap<SharedText, ClaimState>,
    /// Conflicts by id.
    pub conflicts: BTreeMap<SharedText, ConflictState>,
    /// Open questions.
    pub questions: Questions,
    /// Failures by the id they were first recorded under.
    pub failures: BTreeMap<SharedText, FailureState>,
    /// Every other id a failure was recorded under.
    pub failure_aliases: BTreeMap<SharedText, SharedText>,
    /// First id by fingerprint.
    pub failures_by_fingerprint: BTreeMap<SharedText, SharedText>,
    /// Constraints in force by id.
    pub constraints: BTreeMap<SharedText, ConstraintState>,
    /// What was looked at.
    pub coverage: CoverageState,
}

/// What the ledger says about a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerClaim {
    /// Its wording.
    pub statement: SharedText,
    /// How far it is.
    pub status: ClaimStatus,
}

/// The evidence ledger: claims and evidence exactly as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvidenceLedger {
    /// Claims by id.
    pub claims: HashMap<SharedText, LedgerClaim>,
    /// Places by evidence id.
    pub evidence: HashMap<SharedText, Place>,
}
