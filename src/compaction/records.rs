//! The records of a snapshot, made from the working state one by one.

use super::evidence::{EvidenceRef, Place};
use super::fold::RunFold;
use super::snapshot::{
    ClaimRecord, ConflictRecord, ConstraintRecord, FailureEntry, FailureStatus,
    RetrievalDiagnostics, RetrievalSummary, SnapshotState, SourceCoverage,
};
use super::state::{ClaimState, ConflictState, ConstraintState, FailureState, Refs, RunState};
use super::text::SharedText;

/// A pointer as snapshots list it.
pub(super) fn pointer((id, place): (&SharedText, &Place)) -> EvidenceRef {
    EvidenceRef { evidence_id: id.clone(), chunk_id: place.chunk_id.clone(), span: place.span }
}

/// The first pointers of a list, and the length of the list when that is not all of them.
fn pointers(refs: &Refs, most: usize) -> (Vec<EvidenceRef>, Option<u64>) {
    let listed = refs.iter().take(most).map(pointer).collect();
    (listed, (refs.len() > most).then_some(refs.len() as u64))
}

pub(super) fn claim(id: &SharedText, claim: &ClaimState, refs_max: usize) -> ClaimRecord {
    let (evidence_refs, evidence_ref_count) = pointers(&claim.refs, refs_max);
    ClaimRecord {
        claim_id: id.clone(),
        status: claim.status,
        statement: claim.statement.clone(),
        evidence_refs,
        evidence_ref_count,
        supersedes: claim.supersedes.clone(),
    }
}

pub(super) fn conflict(
    id: &SharedText,
    conflict: &ConflictState,
    refs_max: usize,
) -> ConflictRecord {
    let (side_a_refs, side_a_ref_count) = pointers(&conflict.side_a, refs_max);
    let (side_b_refs, side_b_ref_count) = pointers(&conflict.side_b, refs_max);
    ConflictRecord {
        conflict_id: id.clone(),
        description: conflict.description.clone(),
        side_a_refs,
        side_a_ref_count,
        side_b_refs,
        side_b_ref_count,
        resolution: conflict.resolution.clone(),
    }
}

pub(super) fn failure(id: &SharedText, failure: &FailureState) -> FailureEntry {
    FailureEntry {
        failure_id: id.clone(),
        category: failure.category.clone(),
        place: failure.place.clone(),
        why: failure.why.clone(),
        severity: failure.severity,
        status: if failure.active { FailureStatus::Active } else { FailureStatus::Resolved },
        occurrence_count: failure.occurrences,
        fingerprint: failure.fingerprint.clone(),
    }
}

pub(super) fn constraint(id: &SharedText, held: &ConstraintState) -> ConstraintRecord {
    ConstraintRecord {
        constraint_id: id.clone(),
        text: held.text.clone(),
        violations: held.violations,
    }
}

/// Every record of the state.
pub(super) fn whole_state(state: &RunState) -> SnapshotState {
    let claims = state.claims.iter().map(|(id, held)| claim(id, held, usize::MAX));
    let conflicts = state.conflicts.iter().map(|(id, held)| conflict(id, held, usize::MAX));
    let failures = state.failures.iter().map(|(id, held)| failure(id, held));
    SnapshotState {
        claims: claims.collect(),
        conflicts: conflicts.collect(),
        open_questions: state.questions.iter().map(|(_, text)| text.clone()).collect(),
        failures: failures.collect(),
        source_coverage: SourceCoverage {
            source_ids_seen: state.coverage.sources.ids().cloned().collect(),
            chunk_ids_seen: state.coverage.chunks.iter().cloned().collect(),
            chunk_ids_cited: state.coverage.cited.iter().cloned().collect(),
        },
    }
}

/// The constraints of a snapshot; `None` without any.
pub(super) fn constraints(records: Vec<ConstraintRecord>) -> Option<Vec<ConstraintRecord>> {
    (!records.is_empty()).then_some(records)
}

/// Every constraint of the state.
pub(super) fn whole_constraints(state: &RunState) -> Option<Vec<ConstraintRecord>> {
    constraints(state.constraints.iter().map(|(id, held)| constraint(id, held)).collect())
}

/// Retrieval since the last snapshot, with every list whole.
pub(super) fn whole_diagnostics(fold: &RunFold) -> RetrievalDiagnostics {
    let (window, retrieval) = (&fold.window, &fold.window.retrieval);
    RetrievalDiagnostics {
        since_last: RetrievalSummary {
            manifests: window.manifest_ids.len() as u64,
            candidates_retrieved: retrieval.candidates,
            candidates_selected: retrieval.selected,
            excluded_by_reason: retrieval.excluded.clone(),
            filters_applied: retrieval.filters.clone(),
            rerankers: retrieval.rerankers.iter().cloned().collect(),
            acceptance_thresholds_milli: retrieval.thresholds_milli.iter().copied().collect(),
            min_max_score_milli: retrieval.min_max_score_milli,
            no_evidence_steps: retrieval.no_evidence_steps(),
        },
        manifest_ids: window.manifest_ids.clone(),
    }
}
