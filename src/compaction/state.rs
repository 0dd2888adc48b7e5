//! The working state of a run as the fold keeps it: claims, conflicts, questions, failures,
//! constraints and coverage, ordered the way snapshots list them. And the ledger: what the events
//! themselves said about claims and evidence, against which every snapshot is checked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::evidence::Place;
use super::payload::Severity;
use super::text::Text;

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
pub type Refs = BTreeMap<Text, Place>;

/// One claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// How far it is.
    pub status: ClaimStatus,
    /// Its wording.
    pub statement: Text,
    /// What supports it.
    pub refs: Refs,
    /// The claim whose wording it replaces.
    pub supersedes: Option<Text>,
}

/// One contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// What contradicts what.
    pub description: Text,
    /// Evidence for one side.
    pub side_a: Refs,
    /// Evidence for the other.
    pub side_b: Refs,
    /// How it was resolved, if it was.
    pub resolution: Option<Text>,
}

/// One failure, counted by fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub category: Text,
    /// Where it first happened.
    pub place: Text,
    /// What first happened.
    pub why: Text,
    /// The worst severity seen.
    pub severity: Severity,
    /// False once resolved, until it recurs.
    pub active: bool,
    /// How often it was recorded.
    pub occurrences: u64,
    /// What makes it the same failure.
    pub fingerprint: Text,
}

/// Open questions in opening order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Questions {
    next: u64,
    by_order: BTreeMap<u64, (Text, Text)>,
    by_id: BTreeMap<Text, u64>,
}

impl Questions {
    /// The text of an open question.
    pub fn get(&self, id: &str) -> Option<&Text> {
        self.by_id.get(id).and_then(|order| self.by_order.get(order)).map(|(_, text)| text)
    }

    /// Adds a question at the end.
    pub fn open(&mut self, id: Text, text: Text) {
        self.by_id.insert(id.clone(), self.next);
        self.by_order.insert(self.next, (id, text));
        self.next += 1;
    }

    /// Removes a question; false when it is not open.
    pub fn close(&mut self, id: &str) -> bool {
        self.by_id.remove(id).and_then(|order| self.by_order.remove(&order)).is_some()
    }

    /// Ids and texts in opening order.
    pub fn iter(&self) -> impl Iterator<Item = &(Text, Text)> {
        self.by_order.values()
    }
}

/// A constraint in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintState {
    /// Its wording.
    pub text: Text,
    /// How often it was violated while in force.
    pub violations: u64,
}

/// What the run has looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Sources seen.
    pub sources: BTreeSet<Text>,
    /// Chunks seen: selected for a prompt, reported seen, or cited.
    pub chunks: BTreeSet<Text>,
    /// Bytes of all chunk ids: a quick lower bound for what listing them takes.
    pub chunk_bytes: usize,
    /// Chunks first seen since the last spilled snapshot; `None` while nothing is spilled.
    pub fresh: Option<BTreeSet<Text>>,
}

impl Coverage {
    /// Notes a chunk.
    pub fn see_chunk(&mut self, chunk: &Text) {
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
    pub fn see_source(&mut self, source: &Text) {
        if !self.sources.contains(source) {
            self.sources.insert(source.clone());
        }
    }
}

/// Everything a run knows at one point of its log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunState {
    /// Claims by id.
    pub claims: BTreeMap<Text, Claim>,
    /// Conflicts by id.
    pub conflicts: BTreeMap<Text, Conflict>,
    /// Open questions.
    pub questions: Questions,
    /// Failures by the id they were first recorded under.
    pub failures: BTreeMap<Text, Failure>,
    /// Every other id a failure was recorded under.
    pub failure_aliases: BTreeMap<Text, Text>,
    /// First id by fingerprint.
    pub failures_by_fingerprint: BTreeMap<Text, Text>,
    /// Constraints in force by id.
    pub constraints: BTreeMap<Text, ConstraintState>,
    /// What was looked at.
    pub coverage: Coverage,
}

/// What the ledger says about a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerClaim {
    /// Its wording.
    pub statement: Text,
    /// How far it is.
    pub status: ClaimStatus,
}

/// The evidence ledger: claims and evidence exactly as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Claims by id.
    pub claims: HashMap<Text, LedgerClaim>,
    /// Places by evidence id.
    pub evidence: HashMap<Text, Place>,
}
