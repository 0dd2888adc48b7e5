//! Builds, judges and encodes a snapshot of a folded run. Pure: the same fold, baseline and build
//! pass give the same bytes.
//!
//! When the file form or a text exceeds its size limit, the snapshot shows the newest records of each
//! list, shortens long texts, and names a file with the rest ([`spill`]). A snapshot that is still too large fails
//! `pointers_only`.
//!
//! See docs/adr/0023-failed-snapshots.md.

use super::checks::{self, Baseline};
use super::fold::{Invariants, RunFold};
use super::narrative;
use super::payload::{CheckStatus, RunStarted};
use super::previous::Previous;
use super::records;
use super::snapshot::*;
use super::spill::{self, Spill};
use super::text::SharedText;

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
    /// The file of the records that did not fit.
    pub spill: Option<Spill>,
    /// What the next snapshot depends on.
    pub previous: Previous,
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
    let draft = draft(fold, started, previous, sequence);
    if spill::may_fit(fold) {
        let mut snapshot = whole(draft.clone(), fold);
        seal(&mut snapshot, None, fold, &baseline, attempt);
        let bytes = snapshot.to_bytes();
        if bytes.len() <= SNAPSHOT_BYTES_MAX && checks::strings_fit(&snapshot) {
            return finish(snapshot, bytes, None);
        }
    }
    let mut snapshot = draft;
    spill::shorten_actions(&mut snapshot);
    spill::show_newest(&mut snapshot, fold);
    let link = spill::link(fold, previous, &snapshot);
    let spilled = link.encode();
    if let Some(ext) = &mut snapshot.ext {
        ext.spill = Some(spilled.reference.clone());
    }
    let judged = link.judged(&snapshot, &fold.state);
    seal(&mut snapshot, Some(&judged), fold, &baseline, attempt);
    let mut bytes = snapshot.to_bytes();
    if bytes.len() > SNAPSHOT_BYTES_MAX {
        fail_for_size(&mut snapshot, bytes.len(), attempt);
        bytes = snapshot.to_bytes();
    }
    finish(snapshot, bytes, Some(spilled))
}

fn finish(snapshot: Snapshot, bytes: Vec<u8>, spill: Option<Spill>) -> BuiltSnapshot {
    let narrative = narrative::render(&snapshot);
    let previous = Previous::of(&snapshot);
    BuiltSnapshot { snapshot, bytes, narrative, spill, previous }
}

/// Converts a built snapshot to its strict form, which lists every record.
pub(super) fn strict(built: &BuiltSnapshot, fold: &RunFold) -> BuiltSnapshot {
    let mut snapshot = whole(built.snapshot.clone(), fold);
    snapshot.ext = None;
    let bytes = snapshot.to_bytes();
    // The spill chain continues as in the full form, so both forms of a run have the same ids.
    BuiltSnapshot { previous: built.previous.clone(), ..finish(snapshot, bytes, None) }
}

/// The snapshot with every list whole.
fn whole(mut snapshot: Snapshot, fold: &RunFold) -> Snapshot {
    snapshot.state = records::whole_state(&fold.state);
    snapshot.retrieval_diagnostics = records::whole_diagnostics(fold);
    snapshot.latest_context_manifest_ids.clone_from(&fold.window.manifest_ids);
    if let Some(ext) = &mut snapshot.ext {
        ext.constraints = records::whole_constraints(&fold.state);
    }
    snapshot
}

/// Everything except digest, verdict, id and the lists.
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
        latest_context_manifest_ids: Vec::new(),
        state: SnapshotState::default(),
        retrieval_diagnostics: RetrievalDiagnostics {
            since_last: RetrievalSummary {
                manifests: window.manifest_ids.len() as u64,
                candidates_retrieved: window.retrieval.candidates,
                candidates_selected: window.retrieval.selected,
                min_max_score_milli: window.retrieval.min_max_score_milli,
                ..RetrievalSummary::default()
            },
            manifest_ids: Vec::new(),
        },
        validation: Validation {
            status: CheckStatus::Fail,
            checks: Vec::new(),
            failure_action_taken: FailureAction::None,
        },
        ext: Some(ext(fold, started, previous)),
    }
}

/// Fills in what depends on the rest: digest, verdict and id. `judged` is what the checks look at, when
/// the snapshot does not show all of it.
fn seal(
    snapshot: &mut Snapshot,
    judged: Option<&Snapshot>,
    fold: &RunFold,
    baseline: &Baseline<'_>,
    attempt: BuildPass,
) {
    let digest = snapshot.state.digest();
    if let Some(ext) = &mut snapshot.ext {
        ext.state_digest = digest;
    }
    let checks = checks::run(judged.unwrap_or(snapshot), snapshot, baseline, fold);
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

fn ext(fold: &RunFold, started: &RunStarted, previous: Option<&Previous>) -> Ext {
    let roles = &fold.window.roles;
    let warnings = warnings(fold);
    Ext {
        prev_snapshot_id: previous.map(|previous| previous.snapshot_id.clone()),
        state_digest: String::new(),
        budgets: started.budgets.clone(),
        deltas: fold.window.deltas,
        next_actions: fold.window.next_actions.clone(),
        agent_roles: (!roles.is_empty()).then(|| roles.clone()),
        spill: None,
        constraints: None,
        session: fold.session.clone(),
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
