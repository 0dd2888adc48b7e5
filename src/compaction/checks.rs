//! The checks that every snapshot must pass, in their fixed order, each with the figures behind its
//! verdict. They compare a finished snapshot with the snapshot before it, the ledger and the
//! coverage. They never repair anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde_json::Value;

use super::evidence::EvidenceRef;
use super::fold::{Invariants, RunFold};
use super::payload::{Check, CheckStatus, ProvenanceMode};
use super::snapshot::{SNAPSHOT_BYTES_MAX, STATEMENT_BYTES_MAX, STRING_BYTES_MAX, Snapshot};
use super::spill;
use super::state::{ClaimStatus, EvidenceLedger};
use crate::contract::json::jcs;

/// Most offenders that a message names; the rest are counted.
pub(crate) const OFFENDERS_NAMED_MAX: usize = 20;

/// What a snapshot must agree with.
pub struct Baseline<'a> {
    /// Objective and done definition of the baseline.
    pub invariants: &'a Invariants,
    /// Sequence of the snapshot before; `None` for the first snapshot.
    pub previous_sequence: Option<u64>,
}

/// Runs every check except the size check, which needs the encoded snapshot. `snapshot` has every
/// record to judge, and `shown` is what the file shows of them.
pub fn run(
    snapshot: &Snapshot,
    shown: &Snapshot,
    baseline: &Baseline<'_>,
    fold: &RunFold,
) -> Vec<Check> {
    let mut checks = vec![
        objective_unchanged(snapshot, baseline),
        done_definition_unchanged(snapshot, baseline),
        verified_claims_have_evidence(snapshot),
        no_new_verified_claims(snapshot, &fold.ledger),
        conflicts_two_sided(snapshot),
        evidence_refs_resolve(snapshot, fold),
        coverage_consistent(snapshot, fold),
        pointers_only(shown, None),
    ];
    if snapshot.provenance_mode == ProvenanceMode::Strict {
        checks.push(manifests_present(fold));
    }
    checks
}

/// The verdict over all checks.
pub(crate) fn overall(checks: &[Check]) -> CheckStatus {
    let failed = checks.iter().any(|check| check.status == CheckStatus::Fail);
    if failed { CheckStatus::Fail } else { CheckStatus::Pass }
}

/// Checks that no string is over its limit, and, when `encoded_bytes` is known, the size of the
/// file form.
pub(crate) fn pointers_only(snapshot: &Snapshot, encoded_bytes: Option<usize>) -> Check {
    let over = Oversize::of(snapshot);
    let mut message = format!("{} inline values over limit{}", over.0.len(), named(&over.0));
    let too_big = encoded_bytes.filter(|bytes| *bytes > SNAPSHOT_BYTES_MAX);
    if let Some(bytes) = too_big {
        message.push_str(&format!("; snapshot has {bytes} bytes, over {SNAPSHOT_BYTES_MAX}"));
    }
    check("pointers_only", over.0.is_empty() && too_big.is_none(), message)
}

/// Whether no string is over its limit.
pub(super) fn strings_fit(snapshot: &Snapshot) -> bool {
    Oversize::of(snapshot).0.is_empty()
}

/// Steps since the last snapshot that have no context manifest.
pub(crate) fn steps_without_manifest(fold: &RunFold) -> Vec<u64> {
    let window = &fold.window;
    let missing =
        |step: &&u64| **step > fold.step_at_snapshot && !window.manifest_steps.contains(step);
    window.steps.iter().filter(missing).copied().collect()
}

fn check(name: &str, holds: bool, message: String) -> Check {
    let status = if holds { CheckStatus::Pass } else { CheckStatus::Fail };
    Check { name: name.to_owned(), status, message }
}

/// `: a, b, c`, or an empty text.
fn named<T: Display>(offenders: &[T]) -> String {
    if offenders.is_empty() {
        return String::new();
    }
    let shown: Vec<String> =
        offenders.iter().take(OFFENDERS_NAMED_MAX).map(ToString::to_string).collect();
    let rest = offenders.len() - shown.len();
    let tail = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!(": {}{tail}", shown.join(", "))
}

fn unchanged(name: &str, same: bool, baseline: &Baseline<'_>) -> Check {
    let what = name.trim_end_matches("_unchanged");
    let message = match (baseline.previous_sequence, same) {
        (None, true) => "first snapshot".to_owned(),
        (None, false) => format!("{what} differs from the first RUN_STARTED"),
        (Some(sequence), true) => format!("same as snapshot {sequence}"),
        (Some(sequence), false) => format!("{what} differs from snapshot {sequence}"),
    };
    check(name, same, message)
}

fn objective_unchanged(snapshot: &Snapshot, baseline: &Baseline<'_>) -> Check {
    let same = snapshot.objective == baseline.invariants.objective;
    unchanged("objective_unchanged", same, baseline)
}

fn done_definition_unchanged(snapshot: &Snapshot, baseline: &Baseline<'_>) -> Check {
    let (now, then) = (&snapshot.done_definition, &baseline.invariants.done_definition);
    let same = now == then || jcs(&now.0) == jcs(&then.0);
    unchanged("done_definition_unchanged", same, baseline)
}

fn verified_claims_have_evidence(snapshot: &Snapshot) -> Check {
    let verified =
        || snapshot.state.claims.iter().filter(|claim| claim.status == ClaimStatus::Verified);
    let bare: Vec<_> = verified()
        .filter(|claim| claim.evidence_refs.is_empty())
        .map(|claim| &claim.claim_id)
        .collect();
    let message =
        format!("{} verified, {} without evidence{}", verified().count(), bare.len(), named(&bare));
    check("verified_claims_have_evidence", bare.is_empty(), message)
}

fn no_new_verified_claims(snapshot: &Snapshot, ledger: &EvidenceLedger) -> Check {
    let mut verified = 0;
    let mut strange = Vec::new();
    for claim in &snapshot.state.claims {
        if claim.status != ClaimStatus::Verified {
            continue;
        }
        verified += 1;
        let matches = ledger.claims.get(&claim.claim_id).is_some_and(|held| {
            held.status == ClaimStatus::Verified
                && (held.statement == claim.statement
                    || spill::short(&held.statement, STATEMENT_BYTES_MAX) == claim.statement)
        });
        if !matches {
            strange.push(&claim.claim_id);
        }
    }
    let message = if strange.is_empty() {
        format!("{verified} verified claims match the ledger")
    } else {
        format!(
            "{verified} verified claims, {} not in the ledger{}",
            strange.len(),
            named(&strange)
        )
    };
    check("no_new_verified_claims", strange.is_empty(), message)
}

fn conflicts_two_sided(snapshot: &Snapshot) -> Check {
    let ids = |refs: &[EvidenceRef]| -> BTreeSet<_> {
        refs.iter().map(|evidence| evidence.evidence_id.clone()).collect()
    };
    let mut one_sided = Vec::new();
    for conflict in &snapshot.state.conflicts {
        let (a, b) = (ids(&conflict.side_a_refs), ids(&conflict.side_b_refs));
        if a.is_empty() || b.is_empty() || !a.is_disjoint(&b) {
            one_sided.push(&conflict.conflict_id);
        }
    }
    let total = snapshot.state.conflicts.len();
    let message = format!("{total} conflicts, {} one-sided{}", one_sided.len(), named(&one_sided));
    check("conflicts_two_sided", one_sided.is_empty(), message)
}

fn refs(snapshot: &Snapshot) -> impl Iterator<Item = &EvidenceRef> {
    let claims = snapshot.state.claims.iter().flat_map(|claim| &claim.evidence_refs);
    let conflicts = snapshot
        .state
        .conflicts
        .iter()
        .flat_map(|conflict| conflict.side_a_refs.iter().chain(&conflict.side_b_refs));
    claims.chain(conflicts)
}

fn evidence_refs_resolve(snapshot: &Snapshot, fold: &RunFold) -> Check {
    let mut total = 0;
    let mut lost = BTreeMap::new();
    for evidence in refs(snapshot) {
        total += 1;
        let known = fold.ledger.evidence.get(&evidence.evidence_id).is_some_and(|place| {
            place.chunk_id == evidence.chunk_id && place.span == evidence.span
        });
        if !known {
            lost.insert(&evidence.evidence_id, ());
        }
    }
    let lost: Vec<_> = lost.into_keys().collect();
    let mut message = format!("{total} refs, {} unresolved{}", lost.len(), named(&lost));
    let mut holds = lost.is_empty();
    if snapshot.provenance_mode == ProvenanceMode::Strict {
        if fold.namespace_missing {
            holds = false;
            message.push_str("; evidence namespace unknown");
        }
        if fold.notices.mismatched_evidence > 0 {
            holds = false;
            let count = fold.notices.mismatched_evidence;
            message.push_str(&format!("; {count} evidence ids do not match their place"));
        }
    }
    check("evidence_refs_resolve", holds, message)
}

fn coverage_consistent(snapshot: &Snapshot, fold: &RunFold) -> Check {
    let coverage = &snapshot.state.source_coverage;
    let listed: BTreeSet<&str> = coverage.chunk_ids_cited.iter().map(|id| &**id).collect();
    let referenced: BTreeSet<&str> = refs(snapshot).map(|evidence| &*evidence.chunk_id).collect();
    let seen = &fold.state.coverage.chunks;
    let unseen: Vec<&str> = listed.iter().copied().filter(|id| !seen.contains(*id)).collect();
    let differing: Vec<&str> = listed.symmetric_difference(&referenced).copied().collect();
    let mut message = format!("{} cited of {} seen", listed.len(), seen.len());
    if !unseen.is_empty() {
        message.push_str(&format!(", {} cited but not seen{}", unseen.len(), named(&unseen)));
    }
    if !differing.is_empty() {
        let count = differing.len();
        message.push_str(&format!(", {count} cited ids differ from the refs{}", named(&differing)));
    }
    check("coverage_consistent", unseen.is_empty() && differing.is_empty(), message)
}

fn manifests_present(fold: &RunFold) -> Check {
    let missing = steps_without_manifest(fold);
    let steps = fold.window.steps.len();
    let message = format!("{steps} steps, {} without a manifest{}", missing.len(), named(&missing));
    check("manifests_present", missing.is_empty(), message)
}

/// JSON pointers of strings over their limit.
struct Oversize(Vec<String>);

impl Oversize {
    fn of(snapshot: &Snapshot) -> Oversize {
        let mut over = Oversize(Vec::new());
        over.string(&snapshot.objective, || "/objective".into());
        over.value(&snapshot.done_definition.0, "/done_definition");
        if let Some(policy) = &snapshot.policy_snapshot_ref {
            over.string(policy, || "/policy_snapshot_ref".into());
        }
        over.strings(&snapshot.latest_context_manifest_ids, "/latest_context_manifest_ids");
        over.claims_and_conflicts(snapshot);
        over.rest_of_state(snapshot);
        for (index, filter) in
            snapshot.retrieval_diagnostics.since_last.filters_applied.iter().enumerate()
        {
            let place = format!("/retrieval_diagnostics/since_last/filters_applied/{index}");
            over.value(filter, &place);
        }
        for reason in snapshot.retrieval_diagnostics.since_last.excluded_by_reason.keys() {
            let place = "/retrieval_diagnostics/since_last/excluded_by_reason";
            over.string(reason, || place.into());
        }
        over.ext(snapshot);
        over
    }

    fn claims_and_conflicts(&mut self, snapshot: &Snapshot) {
        for (index, claim) in snapshot.state.claims.iter().enumerate() {
            let at = |field: &str| format!("/state/claims/{index}/{field}");
            if claim.statement.len() > STATEMENT_BYTES_MAX {
                self.0.push(at("statement"));
            }
            self.string(&claim.claim_id, || at("claim_id"));
            self.refs(&claim.evidence_refs, || at("evidence_refs"));
        }
        for (index, conflict) in snapshot.state.conflicts.iter().enumerate() {
            let at = |field: &str| format!("/state/conflicts/{index}/{field}");
            self.string(&conflict.conflict_id, || at("conflict_id"));
            self.string(&conflict.description, || at("description"));
            if let Some(resolution) = &conflict.resolution {
                self.string(resolution, || at("resolution"));
            }
            self.refs(&conflict.side_a_refs, || at("side_a_refs"));
            self.refs(&conflict.side_b_refs, || at("side_b_refs"));
        }
    }

    fn rest_of_state(&mut self, snapshot: &Snapshot) {
        for (index, failure) in snapshot.state.failures.iter().enumerate() {
            let at = |field: &str| format!("/state/failures/{index}/{field}");
            self.string(&failure.failure_id, || at("failure_id"));
            self.string(&failure.category, || at("category"));
            self.string(&failure.place, || at("where"));
            self.string(&failure.why, || at("why"));
            self.string(&failure.fingerprint, || at("fingerprint"));
        }
        self.strings(&snapshot.state.open_questions, "/state/open_questions");
        let coverage = &snapshot.state.source_coverage;
        self.strings(&coverage.source_ids_seen, "/state/source_coverage/source_ids_seen");
        self.strings(&coverage.chunk_ids_seen, "/state/source_coverage/chunk_ids_seen");
    }

    fn ext(&mut self, snapshot: &Snapshot) {
        let Some(ext) = &snapshot.ext else { return };
        self.strings(&ext.next_actions, "/ext/next_actions");
        for (name, budget) in ext.budgets.iter().flatten() {
            self.value(budget, &format!("/ext/budgets/{name}"));
        }
        for (index, constraint) in ext.constraints.iter().flatten().enumerate() {
            self.string(&constraint.text, || format!("/ext/constraints/{index}/text"));
        }
    }

    fn string(&mut self, text: &str, place: impl FnOnce() -> String) {
        if text.len() > STRING_BYTES_MAX {
            self.0.push(place());
        }
    }

    fn strings<T: AsRef<str>>(&mut self, texts: &[T], place: &str) {
        for (index, text) in texts.iter().enumerate() {
            self.string(text.as_ref(), || format!("{place}/{index}"));
        }
    }

    fn refs(&mut self, refs: &[EvidenceRef], place: impl Fn() -> String) {
        for (index, evidence) in refs.iter().enumerate() {
            self.string(&evidence.evidence_id, || format!("{}/{index}/evidence_id", place()));
            self.string(&evidence.chunk_id, || format!("{}/{index}/chunk_id", place()));
        }
    }

    fn value(&mut self, value: &Value, place: &str) {
        match value {
            Value::String(text) => self.string(text, || place.to_owned()),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(item, &format!("{place}/{index}"));
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.string(name, || place.to_owned());
                    self.value(member, &format!("{place}/{name}"));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
