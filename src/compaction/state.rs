//! The working state of a run: claims, conflicts, questions, failures, constraints and coverage, in
//! the order in which snapshots list them. The ledger holds claims and evidence exactly as events
//! recorded them; every snapshot is checked against it.

use std::cmp::{Ordering, Reverse};
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
pub(crate) type Refs = BTreeMap<SharedText, Place>;

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
    pub(crate) side_a: Refs,
    pub(crate) side_b: Refs,
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

/// Ids in the order of their last change. A change is stamped with the sequence of the first
/// snapshot that shows it; among changes of one stamp the last one counts.
#[derive(Debug, Clone, Default)]
pub struct Recency {
    stamps: BTreeMap<SharedText, Change>,
    newest_first: BTreeSet<(Reverse<Change>, SharedText)>,
    changes: u64,
}

/// The stamp of a change, and how many changes came before it.
type Change = (u64, u64);

/// Lists are equal when they hold the same ids in the same order with the same stamps: a restored run
/// does not know how many changes there were.
impl PartialEq for Recency {
    fn eq(&self, other: &Recency) -> bool {
        let listed = |of: &Recency| -> Vec<(u64, SharedText)> {
            of.newest_first.iter().map(|(Reverse((stamp, _)), id)| (*stamp, id.clone())).collect()
        };
        self.stamps.len() == other.stamps.len() && listed(self) == listed(other)
    }
}

impl Eq for Recency {}

impl Recency {
    /// Notes a change of an id, new or known.
    pub(crate) fn touch(&mut self, id: &SharedText, stamp: u64) {
        let change = (stamp, self.changes);
        self.changes += 1;
        if let Some(before) = self.stamps.insert(id.clone(), change) {
            self.newest_first.remove(&(Reverse(before), id.clone()));
        }
        self.newest_first.insert((Reverse(change), id.clone()));
    }

    /// Forgets an id.
    pub(crate) fn remove(&mut self, id: &SharedText) {
        if let Some(before) = self.stamps.remove(id) {
            self.newest_first.remove(&(Reverse(before), id.clone()));
        }
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.stamps.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.stamps.len()
    }

    /// Every id in byte order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &SharedText> {
        self.stamps.keys()
    }

    /// Every id, the last change first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &SharedText> {
        self.newest_first.iter().map(|(_, id)| id)
    }

    /// The ids that changed at a stamp or later, the last change first.
    pub(crate) fn since(&self, stamp: u64) -> impl Iterator<Item = &SharedText> {
        let changed =
            self.newest_first.iter().take_while(move |(Reverse((at, _)), _)| *at >= stamp);
        changed.map(|(_, id)| id)
    }

    /// Gives every id the same stamp. `keeps_order` tells whether their order is known; otherwise the
    /// order is that of the ids, in which `c10` is newer than `c9`.
    pub(crate) fn restamp(&mut self, stamp: u64, keeps_order: bool) {
        let mut oldest_first: Vec<SharedText> =
            self.newest_first.iter().rev().map(|(_, id)| id.clone()).collect();
        if !keeps_order {
            oldest_first.sort_by(|a, b| in_order(a, b));
        }
        *self = Recency::default();
        oldest_first.iter().for_each(|id| self.touch(id, stamp));
    }
}

/// The order of ids, in which digits count as a number.
fn in_order(a: &str, b: &str) -> Ordering {
    let (mut a_rest, mut b_rest) = (a, b);
    while !a_rest.is_empty() && !b_rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (a_digits, b_digits) = (digits(a_rest), digits(b_rest));
        let ordering = if a_digits > 0 && b_digits > 0 {
            let number = |text: &'_ str| text.trim_start_matches('0').to_owned();
            let (x, y) = (number(&a_rest[..a_digits]), number(&b_rest[..b_digits]));
            (a_rest, b_rest) = (&a_rest[a_digits..], &b_rest[b_digits..]);
            x.len().cmp(&y.len()).then_with(|| x.cmp(&y))
        } else {
            let (x, y) = (a_rest.chars().next(), b_rest.chars().next());
            let width = |c: Option<char>| c.map_or(0, char::len_utf8);
            (a_rest, b_rest) = (&a_rest[width(x)..], &b_rest[width(y)..]);
            x.cmp(&y)
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    a_rest.len().cmp(&b_rest.len()).then_with(|| a.cmp(b))
}

/// Open questions in opening order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Questions {
    next: u64,
    /// The first question opened since the last snapshot.
    fresh_from: u64,
    /// Questions closed since the last snapshot.
    closed: BTreeSet<SharedText>,
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
    pub fn close(&mut self, id: &SharedText) -> bool {
        let closed = self.by_id.remove(id).and_then(|order| self.by_order.remove(&order)).is_some();
        if closed {
            self.closed.insert(id.clone());
        }
        closed
    }

    pub(crate) fn len(&self) -> usize {
        self.by_order.len()
    }

    /// Ids and texts in opening order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &(SharedText, SharedText)> {
        self.by_order.values()
    }

    /// Ids and texts of the questions opened since the last snapshot.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = &(SharedText, SharedText)> {
        self.by_order.range(self.fresh_from..).map(|(_, question)| question)
    }

    /// Ids of the questions closed since the last snapshot.
    pub(crate) fn closed(&self) -> impl Iterator<Item = &SharedText> {
        self.closed.iter()
    }

    fn snapshot_taken(&mut self) {
        self.fresh_from = self.next;
        self.closed.clear();
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
    pub sources: Recency,
    /// Chunks that were selected for a prompt, reported as seen, or cited.
    pub chunks: BTreeSet<SharedText>,
    /// Chunks that evidence points into.
    pub(crate) cited: BTreeSet<SharedText>,
    /// Bytes of all chunk ids: a cheap lower bound of the size of their list.
    pub(crate) chunk_bytes: usize,
    /// Chunks first seen since the last snapshot.
    pub(crate) fresh: BTreeSet<SharedText>,
}

impl CoverageState {
    pub(crate) fn see_chunk(&mut self, chunk: &SharedText) {
        if self.chunks.contains(chunk) {
            return;
        }
        self.chunk_bytes += chunk.len();
        self.chunks.insert(chunk.clone());
        self.fresh.insert(chunk.clone());
    }

    pub(crate) fn see_source(&mut self, source: &SharedText, stamp: u64) {
        if !self.sources.contains(source) {
            self.sources.touch(source, stamp);
        }
    }

    /// A cited chunk counts as seen.
    pub(crate) fn cite(&mut self, chunk: &SharedText) {
        self.see_chunk(chunk);
        if !self.cited.contains(chunk) {
            self.cited.insert(chunk.clone());
        }
    }
}

/// What changed, and when, for the lists that do not fit into a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    pub claims: Recency,
    /// Those claims that are verified.
    pub verified: Recency,
    pub conflicts: Recency,
    pub failures: Recency,
    pub constraints: Recency,
    /// Claim and evidence ids of the pointers attached since the last snapshot.
    pub fresh_refs: BTreeSet<(SharedText, SharedText)>,
    /// Failure ids that became another name of a failure since the last snapshot.
    pub fresh_aliases: BTreeSet<SharedText>,
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
    pub(crate) failure_aliases: BTreeMap<SharedText, SharedText>,
    /// First id by fingerprint.
    pub(crate) failures_by_fingerprint: BTreeMap<SharedText, SharedText>,
    pub constraints: BTreeMap<SharedText, ConstraintState>,
    pub coverage: CoverageState,
    /// Number of verified claims.
    pub(crate) verified: u64,
    pub(crate) changes: Changes,
}

impl RunState {
    /// Notes that a claim changed.
    pub(crate) fn claim_changed(&mut self, id: &SharedText, stamp: u64) {
        self.changes.claims.touch(id, stamp);
        let held = self.claims.get(id);
        match held.is_some_and(|claim| claim.status == ClaimStatus::Verified) {
            true => self.changes.verified.touch(id, stamp),
            false => self.changes.verified.remove(id),
        }
    }

    /// Forgets what changed since the last snapshot. `restamp` is the one stamp that everything
    /// gets, where a restored run would have no others; with 0 it would not know the order either.
    pub(crate) fn snapshot_taken(&mut self, restamp: Option<u64>) {
        self.questions.snapshot_taken();
        self.coverage.fresh.clear();
        let changes = &mut self.changes;
        changes.fresh_refs.clear();
        changes.fresh_aliases.clear();
        let Some(stamp) = restamp else { return };
        for list in [
            &mut changes.claims,
            &mut changes.verified,
            &mut changes.conflicts,
            &mut changes.failures,
            &mut changes.constraints,
            &mut self.coverage.sources,
        ] {
            list.restamp(stamp, stamp > 0);
        }
    }
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
