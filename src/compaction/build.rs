//! Builds, judges and encodes a snapshot of a folded run. Pure: the same fold, baseline and build
//! pass give the same bytes.
//!
//! When the file form exceeds its size limit, the list of seen chunk ids moves to an artifact
//! beside the snapshot and only the cited ids stay inline. The artifact lists the ids first seen
//! since the last spilled snapshot and points to that snapshot's artifact, so a long run writes
//! each id once. A snapshot that is still too large fails `pointers_only`.
//!
//! See docs/adr/0023-failed-snapshots.md.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::checks::{self, Baseline};
use super::evidence::EvidenceRef;
use super::fold::{Invariants, RunFold};
use super::narrative;
use super::payload::{CheckStatus, RunStarted};
use super::previous::Previous;
use super::snapshot::*;
use super::state::{Refs, RunState};
use super::text::SharedText;
use crate::contract::hash::sha256;

/// A snapshot that fails its checks is built a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildPass {
    /// From memory.
    First,
    /// After everything was read again.
    Second,
}

impl BuildPass {
    fn action(self, passes: bool) -> FailureAction {
        match (self, passes) {
            (BuildPass::First, true) => FailureAction::None,
            (BuildPass::First, false) | (BuildPass::Second, true) => FailureAction::Retry,
            (BuildPass::Second, false) => FailureAction::SystemError,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotForm {
    /// The contract's fields and `ext`.
    #[default]
    Full,
    /// The contract's fields only. This form has no field for spilled coverage, so it contains the
    /// whole list.
    StrictV1,
}

/// A snapshot with everything that is written with it.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltSnapshot {
    /// The record, in the requested form.
    pub snapshot: Snapshot,
    pub bytes: Vec<u8>,
    /// The narrative of these bytes.
    pub narrative: String,
    /// The coverage artifact, if coverage did not fit.
    pub spill: Option<Spill>,
    /// What the next snapshot depends on.
    pub previous: Previous,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    pub reference: SpillRef,
    pub bytes: Arc<Vec<u8>>,
}

/// Builds and judges a snapshot. The run must have started.
pub(super) fn build(
    fold: &RunFold,
    started: &RunStarted,
    first: &Invariants,
    previous: Option<&Previous>,
    attempt: BuildPass,
) -> BuiltSnapshot {
    let sequence = previous.map_or(1, |previous| previous.sequence + 1);
    let baseline = Baseline {
        invariants: previous.map_or(first, |previous| &previous.invariants),
        previous_sequence: previous.map(|previous| previous.sequence),
    };
    // Each id adds at least quotes, a comma and a line end. When that sum exceeds the limit,
    // encoding is skipped.
    let coverage = &fold.state.coverage;
    let surely_too_big = coverage.chunk_bytes + 4 * coverage.chunks.len() > SNAPSHOT_BYTES_MAX;
    let mut snapshot = draft(fold, started, previous, sequence);
    let mut spill = None;
    if !surely_too_big {
        snapshot.state.source_coverage.chunk_ids_seen = coverage.chunks.iter().cloned().collect();
        seal(&mut snapshot, fold, &baseline, attempt);
        let bytes = snapshot.to_bytes();
        if bytes.len() <= SNAPSHOT_BYTES_MAX {
            return finish(snapshot, bytes, None);
        }
    }
    if !coverage.chunks.is_empty() {
        let spilled = spill_of(fold, previous, sequence);
        let state = &mut snapshot.state.source_coverage;
        state.chunk_ids_seen.clone_from(&state.chunk_ids_cited);
        if let Some(ext) = &mut snapshot.ext {
            ext.coverage_spill = Some(spilled.reference.clone());
        }
        spill = Some(spilled);
        seal(&mut snapshot, fold, &baseline, attempt);
    }
    let mut bytes = snapshot.to_bytes();
    if bytes.len() > SNAPSHOT_BYTES_MAX {
        fail_for_size(&mut snapshot, bytes.len(), attempt);
        bytes = snapshot.to_bytes();
    }
    finish(snapshot, bytes, spill)
}

fn finish(snapshot: Snapshot, bytes: Vec<u8>, spill: Option<Spill>) -> BuiltSnapshot {
    let narrative = narrative::render(&snapshot);
    let previous = Previous::of(&snapshot);
    BuiltSnapshot { snapshot, bytes, narrative, spill, previous }
}

/// Converts a built snapshot to its strict form. `chunks` are all seen chunk ids.
pub(super) fn strict(built: &BuiltSnapshot, chunks: &BTreeSet<SharedText>) -> BuiltSnapshot {
    let mut snapshot = built.snapshot.clone();
    snapshot.ext = None;
    snapshot.state.source_coverage.chunk_ids_seen = chunks.iter().cloned().collect();
    let bytes = snapshot.to_bytes();
    // The spill chain continues as in the full form, so both forms of a run have the same ids.
    BuiltSnapshot { previous: built.previous.clone(), ..finish(snapshot, bytes, None) }
}

/// Everything except digest, verdict, id and the seen chunk ids.
fn draft(
    fold: &RunFold,
    started: &RunStarted,
    previous: Option<&Previous>,
    sequence: u64,
) -> Snapshot {
    let window = &fold.window;
    Snapshot {
        snapshot_id: String::new(),
        run_id: fold.run_id.clone().unwrap_or_else(|| SharedText::from("")),
        sequence,
        created_at: fold.last_ts.to_string(),
        objective: started.objective.clone(),
        done_definition: started.done_definition.clone(),
        provenance_mode: started.provenance_mode,
        policy_snapshot_ref: started.policy_snapshot_ref.clone(),
        counts: SnapshotCounts {
            steps_since_last_compaction: window.steps.len() as u64,
            counted_events_since_last_compaction: window.counted.len() as u64,
        },
        latest_context_manifest_ids: window.manifest_ids.clone(),
        state: state(&fold.state),
        retrieval_diagnostics: diagnostics(fold),
        validation: Validation {
            status: CheckStatus::Fail,
            checks: Vec::new(),
            failure_action_taken: FailureAction::None,
        },
        ext: Some(ext(fold, started, previous)),
    }
}

/// Fills in what depends on the rest: digest, verdict and id.
fn seal(snapshot: &mut Snapshot, fold: &RunFold, baseline: &Baseline<'_>, attempt: BuildPass) {
    let digest = snapshot.state.digest();
    if let Some(ext) = &mut snapshot.ext {
        ext.state_digest = digest;
    }
    let checks = checks::run(snapshot, baseline, fold);
    let status = checks::overall(&checks);
    let failure_action_taken = attempt.action(status == CheckStatus::Pass);
    snapshot.validation = Validation { status, checks, failure_action_taken };
    snapshot.snapshot_id = snapshot.computed_id();
}

fn fail_for_size(snapshot: &mut Snapshot, bytes: usize, attempt: BuildPass) {
    let verdict = checks::pointers_only(snapshot, Some(bytes));
    for check in &mut snapshot.validation.checks {
        if check.name == verdict.name {
            check.clone_from(&verdict);
        }
    }
    snapshot.validation.status = CheckStatus::Fail;
    snapshot.validation.failure_action_taken = attempt.action(false);
}

fn pointers(refs: &Refs) -> Vec<EvidenceRef> {
    refs.iter()
        .map(|(id, place)| EvidenceRef {
            evidence_id: id.clone(),
            chunk_id: place.chunk_id.clone(),
            span: place.span,
        })
        .collect()
}

fn state(state: &RunState) -> SnapshotState {
    let claims = state.claims.iter().map(|(id, claim)| ClaimRecord {
        claim_id: id.clone(),
        status: claim.status,
        statement: claim.statement.clone(),
        evidence_refs: pointers(&claim.refs),
        supersedes: claim.supersedes.clone(),
    });
    let conflicts = state.conflicts.iter().map(|(id, conflict)| ConflictRecord {
        conflict_id: id.clone(),
        description: conflict.description.clone(),
        side_a_refs: pointers(&conflict.side_a),
        side_b_refs: pointers(&conflict.side_b),
        resolution: conflict.resolution.clone(),
    });
    let failures = state.failures.iter().map(|(id, failure)| FailureEntry {
        failure_id: id.clone(),
        category: failure.category.clone(),
        place: failure.place.clone(),
        why: failure.why.clone(),
        severity: failure.severity,
        status: if failure.active { FailureStatus::Active } else { FailureStatus::Resolved },
        occurrence_count: failure.occurrences,
        fingerprint: failure.fingerprint.clone(),
    });
    SnapshotState {
        claims: claims.collect(),
        conflicts: conflicts.collect(),
        open_questions: state.questions.iter().map(|(_, text)| text.clone()).collect(),
        failures: failures.collect(),
        source_coverage: SourceCoverage {
            source_ids_seen: state.coverage.sources.iter().cloned().collect(),
            chunk_ids_seen: Vec::new(),
            chunk_ids_cited: cited(state).into_iter().cloned().collect(),
        },
    }
}

fn cited(state: &RunState) -> BTreeSet<&SharedText> {
    let claims = state.claims.values().map(|claim| &claim.refs);
    let conflicts =
        state.conflicts.values().flat_map(|conflict| [&conflict.side_a, &conflict.side_b]);
    claims.chain(conflicts).flat_map(|refs| refs.values()).map(|place| &place.chunk_id).collect()
}

fn diagnostics(fold: &RunFold) -> RetrievalDiagnostics {
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

fn ext(fold: &RunFold, started: &RunStarted, previous: Option<&Previous>) -> Ext {
    let constraints = fold.state.constraints.iter().map(|(id, held)| ConstraintRecord {
        constraint_id: id.clone(),
        text: held.text.clone(),
        violations: held.violations,
    });
    let constraints: Vec<ConstraintRecord> = constraints.collect();
    let roles = &fold.window.roles;
    let warnings = warnings(fold);
    Ext {
        prev_snapshot_id: previous.map(|previous| previous.snapshot_id.clone()),
        state_digest: String::new(),
        budgets: started.budgets.clone(),
        deltas: fold.window.deltas,
        next_actions: fold.window.next_actions.clone(),
        agent_roles: (!roles.is_empty()).then(|| roles.clone()),
        coverage_spill: None,
        constraints: (!constraints.is_empty()).then_some(constraints),
        warnings: (!warnings.is_empty()).then_some(warnings),
    }
}

fn warnings(fold: &RunFold) -> Vec<String> {
    let mut warnings = Vec::new();
    let missing = checks::steps_without_manifest(fold);
    if !missing.is_empty() {
        let count = missing.len();
        let first: Vec<String> =
            missing.iter().take(checks::OFFENDERS_NAMED_MAX).map(u64::to_string).collect();
        let more = if count > first.len() { ", …" } else { "" };
        let steps = first.join(", ");
        warnings.push(format!("{count} steps without a context manifest: {steps}{more}"));
    }
    if fold.namespace_missing {
        warnings.push("evidence namespace unknown: ids were not checked".to_owned());
    }
    warnings
}

fn spill_of(fold: &RunFold, previous: Option<&Previous>, sequence: u64) -> Spill {
    let coverage = &fold.state.coverage;
    let chain = previous.and_then(|previous| previous.spill.clone());
    let fresh = coverage.fresh.as_ref().filter(|_| chain.is_some()).unwrap_or(&coverage.chunks);
    let count = coverage.chunks.len() as u64;
    let artifact = CoverageArtifact {
        schema_version: COVERAGE_SCHEMA.to_owned(),
        run_id: fold.run_id.clone().unwrap_or_else(|| SharedText::from("")),
        sequence,
        previous: chain,
        count,
        chunk_ids: fresh.iter().cloned().collect(),
    };
    let bytes = crate::contract::json::to_file(&artifact)
        .expect("a coverage artifact holds strings and numbers")
        .into_bytes();
    let reference =
        SpillRef { artifact: artifact_name(sequence), sha256: sha256(&bytes).hex(), count };
    Spill { reference, bytes: Arc::new(bytes) }
}

/// File name of a coverage artifact, beside its snapshot.
pub fn artifact_name(sequence: u64) -> String {
    format!("{sequence}.coverage.json")
}
