//! Resumes a run from a snapshot without its history. It needs the snapshot, a small sidecar with
//! state that only the fold uses, and the spilled coverage. Folding the rest of the log from here
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
use super::snapshot::{Ext, FailureAction, FailureStatus, Snapshot};
use super::state::{
    ClaimState, ConflictState, ConstraintState, CoverageState, EvidenceLedger, FailureState,
    LedgerClaim, Refs, RunState,
};
use super::text::SharedText;
use super::trigger::Thresholds;
use crate::contract::time::{Timestamp, parse_instant};

/// Record kind of [`Sidecar`].
pub const SIDECAR_SCHEMA: &str = "compaction_sidecar.v1";

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
    pub from_seq: u64,
    /// Last event covered.
    pub to_seq: u64,
    /// Head of the hash chain that covers `to_seq`, where there is one.
    pub log_head: Option<String>,
    pub thresholds: Thresholds,
    /// 1, or 2 after a retry.
    pub attempts: u8,
    pub builder: String,
    pub carry: Carry,
}

/// The part of a fold that its snapshot does not contain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Carry {
    /// Namespace of the run's evidence ids.
    pub evidence_namespace: Option<SharedText>,
    pub namespace_missing: bool,
    /// Ids of the open questions, in the snapshot's order.
    pub question_ids: Vec<SharedText>,
    /// Further ids of failures, by the id the snapshot shows.
    pub failure_aliases: BTreeMap<SharedText, SharedText>,
    pub newest_step: u64,
    /// Unknown event types so far.
    pub unknown_types: u64,
    /// Evidence ids that do not match their place so far.
    pub mismatched_evidence: u64,
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
    #[error("restore {0}: a strict-v1 snapshot has no ext to go on from")]
    Strict(String),
    /// The snapshot contradicts itself, its sidecar or its coverage.
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
            question_ids: fold.state.questions.iter().map(|(id, _)| id.clone()).collect(),
            failure_aliases: fold.state.failure_aliases.clone(),
            newest_step: fold.newest_step,
            unknown_types: fold.notices.unknown_types,
            mismatched_evidence: fold.notices.mismatched_evidence,
        },
    }
}

/// A compactor right after a snapshot. `spilled` are the chunk ids of its coverage chain, empty
/// when coverage was not spilled.
pub fn restore(
    snapshot: &Snapshot,
    sidecar: &Sidecar,
    spilled: Vec<SharedText>,
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
    if sidecar.carry.question_ids.len() != snapshot.state.open_questions.len() {
        return Err(inconsistent("the sidecar names other questions"));
    }
    let coverage = coverage(snapshot, ext, spilled)
        .ok_or_else(|| inconsistent("the coverage artifacts do not add up"))?;
    let ledger = ledger(snapshot);
    let state = state(snapshot, ext, &sidecar.carry, coverage);
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
        namespace_missing: carry.namespace_missing,
    }
}

fn refs(pointers: &[EvidenceRef]) -> Refs {
    let place =
        |evidence: &EvidenceRef| Place { chunk_id: evidence.chunk_id.clone(), span: evidence.span };
    pointers.iter().map(|evidence| (evidence.evidence_id.clone(), place(evidence))).collect()
}

fn ledger(snapshot: &Snapshot) -> EvidenceLedger {
    let mut ledger = EvidenceLedger::default();
    for claim in &snapshot.state.claims {
        let held = LedgerClaim { statement: claim.statement.clone(), status: claim.status };
        ledger.claims.insert(claim.claim_id.clone(), held);
        ledger.evidence.extend(refs(&claim.evidence_refs));
    }
    ledger
}

fn coverage(snapshot: &Snapshot, ext: &Ext, spilled: Vec<SharedText>) -> Option<CoverageState> {
    let mut coverage = CoverageState::default();
    let listed = &snapshot.state.source_coverage;
    listed.source_ids_seen.iter().for_each(|source| coverage.see_source(source));
    match &ext.coverage_spill {
        None => listed.chunk_ids_seen.iter().for_each(|chunk| coverage.see_chunk(chunk)),
        Some(spill) => {
            spilled.iter().for_each(|chunk| coverage.see_chunk(chunk));
            if coverage.chunks.len() as u64 != spill.count {
                return None;
            }
            coverage.fresh = Some(Default::default());
        }
    }
    Some(coverage)
}

fn state(snapshot: &Snapshot, ext: &Ext, carry: &Carry, coverage: CoverageState) -> RunState {
    let mut state = RunState { coverage, ..RunState::default() };
    for record in &snapshot.state.claims {
        let claim = ClaimState {
            status: record.status,
            statement: record.statement.clone(),
            refs: refs(&record.evidence_refs),
            supersedes: record.supersedes.clone(),
        };
        state.claims.insert(record.claim_id.clone(), claim);
    }
    for record in &snapshot.state.conflicts {
        let conflict = ConflictState {
            description: record.description.clone(),
            side_a: refs(&record.side_a_refs),
            side_b: refs(&record.side_b_refs),
            resolution: record.resolution.clone(),
        };
        state.conflicts.insert(record.conflict_id.clone(), conflict);
    }
    for (id, text) in carry.question_ids.iter().zip(&snapshot.state.open_questions) {
        state.questions.open(id.clone(), text.clone());
    }
    for record in &snapshot.state.failures {
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
        state.failures.insert(id, failure);
    }
    state.failure_aliases.clone_from(&carry.failure_aliases);
    for record in ext.constraints.iter().flatten() {
        let held = ConstraintState { text: record.text.clone(), violations: record.violations };
        state.constraints.insert(record.constraint_id.clone(), held);
    }
    state
}
