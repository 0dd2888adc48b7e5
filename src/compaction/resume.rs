//! Resumes a run from a snapshot without its history. It needs the snapshot, a small sidecar with
//! state that only the fold uses, and the chain of spilled records. Folding the rest of the log from here
//! gives the same snapshots as folding all of it.
//!
//! See docs/adr/0021-snapshot-files-without-log-position.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::build::BuiltSnapshot;
use super::compactor::Compactor;
use super::evidence::{EvidenceRef, Place};
use super::fold::{Invariants, Notices, RunFold};
use super::payload::RunStarted;
use super::previous::Previous;
use super::snapshot::{
    ClaimRecord, ConflictRecord, ConstraintRecord, Ext, FailureAction, FailureEntry, FailureStatus,
    Snapshot,
};
use super::spill::{self, SpillFile};
use super::state::{
    ClaimState, ClaimStatus, ConflictState, ConstraintState, EvidenceLedger, FailureState,
    LedgerClaim, RunState,
};
use super::text::SharedText;
use super::trigger::Thresholds;
use crate::contract::time::{Timestamp, parse_instant};

/// Record kind of [`Sidecar`].
pub(crate) const SIDECAR_SCHEMA: &str = "compaction_sidecar.v1";

/// Facts stored beside a snapshot and never inside it: log positions and the state that the fold
/// needs to continue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sidecar {
    pub schema_version: String,
    /// The snapshot it belongs to.
    pub snapshot_id: String,
    pub run_id: SharedText,
    /// The snapshot's place in the run.
    pub sequence: u64,
    /// First event since the snapshot before.
    pub(crate) from_seq: u64,
    /// Last event covered.
    pub to_seq: u64,
    /// Head of the hash chain that covers `to_seq`, where there is one.
    pub log_head: Option<String>,
    pub thresholds: Thresholds,
    /// 1, or 2 after a retry.
    pub attempts: u8,
    pub builder: String,
    pub(crate) carry: Carry,
}

/// The part of a fold that its snapshot does not contain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Carry {
    /// Namespace of the run's evidence ids.
    pub(crate) evidence_namespace: Option<SharedText>,
    pub(crate) namespace_missing: bool,
    /// Ids of the open questions, in the snapshot's order. Empty when the spill chain has them.
    pub(crate) question_ids: Vec<SharedText>,
    /// Further ids of failures, by the id the snapshot shows. Empty when the spill chain has them.
    pub(crate) failure_aliases: BTreeMap<SharedText, SharedText>,
    pub newest_step: u64,
    /// Unknown event types so far.
    pub unknown_types: u64,
    /// Evidence ids that do not match their place so far.
    pub(crate) mismatched_evidence: u64,
}

/// Why a run cannot resume from a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// The sidecar belongs to another snapshot.
    #[error("restore {snapshot}: the sidecar belongs to {sidecar}")]
    OtherSnapshot {
        snapshot: String,
        /// The id the sidecar names.
        sidecar: String,
    },
    /// The strict form lacks `ext`.
    #[error("restore {0}: a strict-v1 snapshot has no `ext` to continue from")]
    Strict(String),
    /// The snapshot contradicts itself, its sidecar or its spill files.
    #[error("restore {snapshot}: {reason}")]
    Inconsistent { snapshot: String, reason: &'static str },
}

/// The sidecar of a snapshot just built. Call it before the snapshot is adopted.
pub fn sidecar(
    compactor: &Compactor,
    built: &BuiltSnapshot,
    from_seq: u64,
    log_head: Option<String>,
) -> Sidecar {
    let fold = compactor.fold_state();
    let spilled = built.spill.is_some();
    let retried = built.snapshot.validation.failure_action_taken == FailureAction::Retry;
    Sidecar {
        schema_version: SIDECAR_SCHEMA.to_owned(),
        snapshot_id: built.snapshot.snapshot_id.clone(),
        run_id: built.snapshot.run_id.clone(),
        sequence: built.snapshot.sequence,
        from_seq,
        to_seq: fold.seq,
        log_head,
        thresholds: compactor.thresholds(),
        attempts: if retried { 2 } else { 1 },
        builder: concat!("summarizer/", env!("CARGO_PKG_VERSION")).to_owned(),
        carry: Carry {
            evidence_namespace: fold
                .started
                .as_ref()
                .and_then(|started| started.evidence_namespace.clone()),
            namespace_missing: fold.namespace_missing,
            question_ids: match spilled {
                true => Vec::new(),
                false => fold.state.questions.iter().map(|(id, _)| id.clone()).collect(),
            },
            failure_aliases: match spilled {
                true => BTreeMap::new(),
                false => fold.state.failure_aliases.clone(),
            },
            newest_step: fold.newest_step,
            unknown_types: fold.notices.unknown_types,
            mismatched_evidence: fold.notices.mismatched_evidence,
        },
    }
}

/// A compactor right after a snapshot. `chain` are the files of its spill chain, oldest first; none
/// when the snapshot shows everything.
pub fn restore(
    snapshot: &Snapshot,
    sidecar: &Sidecar,
    chain: Vec<SpillFile>,
    thresholds: Thresholds,
) -> Result<Compactor, ResumeError> {
    let id = || snapshot.snapshot_id.clone();
    if snapshot.snapshot_id != sidecar.snapshot_id {
        let (snapshot, sidecar) = (id(), sidecar.snapshot_id.clone());
        return Err(ResumeError::OtherSnapshot { snapshot, sidecar });
    }
    let ext = snapshot.ext.as_ref().ok_or_else(|| ResumeError::Strict(id()))?;
    let inconsistent = |reason| ResumeError::Inconsistent { snapshot: id(), reason };
    if snapshot.computed_id() != snapshot.snapshot_id {
        return Err(inconsistent("its content does not give its id"));
    }
    let last_ts = parse_instant(&snapshot.created_at)
        .map_err(|_| inconsistent("created_at is not an instant"))?
        .at;
    let mut state = match &ext.spill {
        None => {
            if sidecar.carry.question_ids.len() != snapshot.state.open_questions.len() {
                return Err(inconsistent("the sidecar names other questions"));
            }
            shown_state(snapshot, ext, &sidecar.carry)
        }
        Some(spill) => {
            let state = chained_state(chain);
            if spill::counts(&state) != spill.counts {
                return Err(inconsistent("the spill files do not add up"));
            }
            state
        }
    };
    state.snapshot_taken(None);
    let ledger = ledger(&state);
    let fold = fold(snapshot, ext, sidecar, last_ts, state, ledger);
    Ok(Compactor::resumed(thresholds, fold, Previous::of(snapshot)))
}

fn fold(
    snapshot: &Snapshot,
    ext: &Ext,
    sidecar: &Sidecar,
    last_ts: Timestamp,
    state: RunState,
    ledger: EvidenceLedger,
) -> RunFold {
    let carry = &sidecar.carry;
    RunFold {
        run_id: Some(snapshot.run_id.clone()),
        seq: sidecar.to_seq,
        stamp: snapshot.sequence + 1,
        last_ts,
        newest_step: carry.newest_step,
        step_at_snapshot: carry.newest_step,
        started: Some(RunStarted {
            objective: snapshot.objective.clone(),
            done_definition: snapshot.done_definition.clone(),
            provenance_mode: snapshot.provenance_mode,
            policy_snapshot_ref: snapshot.policy_snapshot_ref.clone(),
            evidence_namespace: carry.evidence_namespace.clone(),
            budgets: ext.budgets.clone(),
        }),
        first: Some(Invariants {
            objective: snapshot.objective.clone(),
            done_definition: snapshot.done_definition.clone(),
        }),
        at_step_end: false,
        state,
        ledger,
        window: Default::default(),
        notices: Notices {
            unknown_types: carry.unknown_types,
            mismatched_evidence: carry.mismatched_evidence,
        },
        session: ext.session.clone(),
        namespace_missing: carry.namespace_missing,
    }
}

fn places(pointers: &[EvidenceRef]) -> impl Iterator<Item = (SharedText, Place)> {
    let place =
        |evidence: &EvidenceRef| Place { chunk_id: evidence.chunk_id.clone(), span: evidence.span };
    pointers.iter().map(move |evidence| (evidence.evidence_id.clone(), place(evidence)))
}

fn ledger(state: &RunState) -> EvidenceLedger {
    let mut ledger = EvidenceLedger::default();
    for (id, claim) in &state.claims {
        let held = LedgerClaim { statement: claim.statement.clone(), status: claim.status };
        ledger.claims.insert(id.clone(), held);
        let refs = claim.refs.iter().map(|(id, place)| (id.clone(), place.clone()));
        ledger.evidence.extend(refs);
    }
    ledger
}

/// The state of a snapshot that shows everything. Its records have no order of change.
fn shown_state(snapshot: &Snapshot, ext: &Ext, carry: &Carry) -> RunState {
    let mut state = RunState::default();
    let shown = &snapshot.state;
    let coverage = &mut state.coverage;
    shown.source_coverage.source_ids_seen.iter().for_each(|source| coverage.see_source(source, 0));
    shown.source_coverage.chunk_ids_seen.iter().for_each(|chunk| coverage.see_chunk(chunk));
    shown.claims.iter().for_each(|record| put_claim(&mut state, record, 0));
    shown.conflicts.iter().for_each(|record| put_conflict(&mut state, record, 0));
    for (id, text) in carry.question_ids.iter().zip(&shown.open_questions) {
        state.questions.open(id.clone(), text.clone());
    }
    shown.failures.iter().for_each(|record| put_failure(&mut state, record, 0));
    state.failure_aliases.clone_from(&carry.failure_aliases);
    let constraints = ext.constraints.iter().flatten();
    constraints.for_each(|record| put_constraint(&mut state, record, 0));
    state.snapshot_taken(Some(0));
    state
}

/// The state that the files of a chain lead to.
fn chained_state(chain: Vec<SpillFile>) -> RunState {
    let mut state = RunState::default();
    for link in chain {
        let stamp = link.sequence;
        let coverage = &mut state.coverage;
        // The lists of a file begin with the last change.
        link.source_ids.iter().rev().for_each(|source| coverage.see_source(source, stamp));
        link.chunk_ids.iter().for_each(|chunk| coverage.see_chunk(chunk));
        link.claims.iter().rev().for_each(|record| put_claim(&mut state, record, stamp));
        link.conflicts.iter().rev().for_each(|record| put_conflict(&mut state, record, stamp));
        for id in &link.questions_closed {
            state.questions.close(id);
        }
        for question in link.questions_opened {
            state.questions.open(question.question_id, question.text);
        }
        link.failures.iter().rev().for_each(|record| put_failure(&mut state, record, stamp));
        state.failure_aliases.extend(link.failure_aliases);
        link.constraints.iter().rev().for_each(|record| put_constraint(&mut state, record, stamp));
    }
    state
}

/// Adds a claim, or changes it and adds the pointers that it lists.
fn put_claim(state: &mut RunState, record: &ClaimRecord, stamp: u64) {
    for evidence in &record.evidence_refs {
        state.coverage.cite(&evidence.chunk_id);
    }
    let is_verified = |status| u64::from(status == ClaimStatus::Verified);
    let before = state.claims.remove(&record.claim_id);
    state.verified -= before.as_ref().map_or(0, |claim| is_verified(claim.status));
    state.verified += is_verified(record.status);
    let mut refs = before.map(|claim| claim.refs).unwrap_or_default();
    refs.extend(places(&record.evidence_refs));
    let claim = ClaimState {
        status: record.status,
        statement: record.statement.clone(),
        refs,
        supersedes: record.supersedes.clone(),
    };
    state.claims.insert(record.claim_id.clone(), claim);
    state.claim_changed(&record.claim_id, stamp);
}

fn put_conflict(state: &mut RunState, record: &ConflictRecord, stamp: u64) {
    let conflict = ConflictState {
        description: record.description.clone(),
        side_a: places(&record.side_a_refs).collect(),
        side_b: places(&record.side_b_refs).collect(),
        resolution: record.resolution.clone(),
    };
    state.conflicts.insert(record.conflict_id.clone(), conflict);
    state.changes.conflicts.touch(&record.conflict_id, stamp);
}

fn put_failure(state: &mut RunState, record: &FailureEntry, stamp: u64) {
    let failure = FailureState {
        category: record.category.clone(),
        place: record.place.clone(),
        why: record.why.clone(),
        severity: record.severity,
        active: record.status == FailureStatus::Active,
        occurrences: record.occurrence_count,
        fingerprint: record.fingerprint.clone(),
    };
    let (id, fingerprint) = (record.failure_id.clone(), record.fingerprint.clone());
    state.failures_by_fingerprint.insert(fingerprint, id.clone());
    state.changes.failures.touch(&id, stamp);
    state.failures.insert(id, failure);
}

fn put_constraint(state: &mut RunState, record: &ConstraintRecord, stamp: u64) {
    let held = ConstraintState { text: record.text.clone(), violations: record.violations };
    state.constraints.insert(record.constraint_id.clone(), held);
    state.changes.constraints.touch(&record.constraint_id, stamp);
}
