//! Renders a snapshot as Markdown for people, by a fixed template and from the snapshot alone. No
//! model writes it and no program reads it. Equal snapshots give equal bytes.

use serde_json::Value;

use super::evidence::EvidenceRef;
use super::page::{Page, flat};
use super::session_narrative;
use super::snapshot::{Snapshot, StateCounts};
use super::state::ClaimStatus;
use crate::contract::json::jcs;

const NOT_RECORDED: &str = "not recorded";

pub fn render(snapshot: &Snapshot) -> String {
    if let Some(figures) = snapshot.ext.as_ref().and_then(|ext| ext.session.as_ref()) {
        return session_narrative::render(snapshot, figures);
    }
    let mut page = Page::default();
    page.line(format_args!(
        "# Run {} snapshot {} ({})",
        snapshot.run_id, snapshot.sequence, snapshot.snapshot_id
    ));
    objective(&mut page, snapshot);
    changes(&mut page, snapshot);
    verified_claims(&mut page, snapshot);
    conflicts(&mut page, snapshot);
    page.section("5. Failures", &snapshot.state.failures, |page, failure| {
        page.line(format_args!(
            "- {} [{}] at {}: {}",
            flat(&failure.failure_id),
            flat(&failure.category),
            flat(&failure.place),
            flat(&failure.why)
        ));
    });
    rest(&mut page, snapshot, snapshot.state.failures.len(), |counts| counts.failures);
    page.section("6. Open questions", &snapshot.state.open_questions, |page, question| {
        page.line(format_args!("- {}", flat(question)));
    });
    rest(&mut page, snapshot, snapshot.state.open_questions.len(), |counts| counts.open_questions);
    next_actions(&mut page, snapshot);
    let manifests = &snapshot.latest_context_manifest_ids;
    page.section("8. Context manifests", manifests, |page, id| {
        page.line(format_args!("- {}", flat(id)));
    });
    let all = snapshot.retrieval_diagnostics.since_last.manifests;
    rest(&mut page, snapshot, manifests.len(), |_| all);
    page.text()
}

/// Says how many records of a list the snapshot does not show, and where they are.
fn rest(page: &mut Page, snapshot: &Snapshot, shown: usize, all: impl Fn(&StateCounts) -> u64) {
    let Some(spill) = snapshot.ext.as_ref().and_then(|ext| ext.spill.as_ref()) else { return };
    let more = all(&spill.counts).saturating_sub(shown as u64);
    if more > 0 {
        let file = &spill.artifact;
        page.line(format_args!("- {more} more: see {file} and the files that it names"));
    }
}

fn objective(page: &mut Page, snapshot: &Snapshot) {
    page.heading("1. Objective");
    page.line(format_args!("- Objective: {}", flat(&snapshot.objective)));
    page.line(format_args!("- Done definition: {}", plain(&snapshot.done_definition.0)));
    let budgets = snapshot.ext.as_ref().and_then(|ext| ext.budgets.as_ref());
    let budgets = match budgets {
        None => NOT_RECORDED.to_owned(),
        Some(budgets) if budgets.is_empty() => "none".to_owned(),
        Some(budgets) => pairs(budgets.iter().map(|(name, value)| (flat(name), plain(value)))),
    };
    page.line(format_args!("- Budgets: {budgets}"));
    page.line(format_args!("- Provenance mode: {}", snapshot.provenance_mode.name()));
    let policy = snapshot.policy_snapshot_ref.as_deref().map_or("none".to_owned(), flat);
    page.line(format_args!("- Policy snapshot: {policy}"));
}

fn changes(page: &mut Page, snapshot: &Snapshot) {
    page.heading("2. Changes since last snapshot");
    let counts = &snapshot.counts;
    page.line(format_args!(
        "- Steps: {}; counted events: {}",
        counts.steps_since_last_compaction, counts.counted_events_since_last_compaction
    ));
    let deltas = snapshot.ext.as_ref().map_or(NOT_RECORDED.to_owned(), |ext| {
        let deltas = &ext.deltas;
        let named = [
            ("claims_added", deltas.claims_added),
            ("claims_verified", deltas.claims_verified),
            ("claims_retracted", deltas.claims_retracted),
            ("conflicts_added", deltas.conflicts_added),
            ("questions_opened", deltas.questions_opened),
            ("questions_closed", deltas.questions_closed),
            ("failures_added", deltas.failures_added),
            ("evidence_attached", deltas.evidence_attached),
        ];
        pairs(named.into_iter().map(|(name, count)| (name.to_owned(), count.to_string())))
    });
    page.line(format_args!("- Deltas: {deltas}"));
}

fn verified_claims(page: &mut Page, snapshot: &Snapshot) {
    let verified: Vec<_> = snapshot
        .state
        .claims
        .iter()
        .filter(|claim| claim.status == ClaimStatus::Verified)
        .collect();
    page.section("3. Verified claims", &verified, |page, claim| {
        page.line(format_args!("- {}: {}", flat(&claim.claim_id), flat(&claim.statement)));
        page.pointers(&claim.evidence_refs, "");
        more_pointers(page, "", &claim.evidence_refs, claim.evidence_ref_count);
    });
    rest(page, snapshot, verified.len(), |counts| counts.verified_claims);
}

fn conflicts(page: &mut Page, snapshot: &Snapshot) {
    page.section("4. Conflicts", &snapshot.state.conflicts, |page, conflict| {
        page.line(format_args!(
            "- {}: {}",
            flat(&conflict.conflict_id),
            flat(&conflict.description)
        ));
        page.pointers(&conflict.side_a_refs, "A: ");
        more_pointers(page, "A: ", &conflict.side_a_refs, conflict.side_a_ref_count);
        page.pointers(&conflict.side_b_refs, "B: ");
        more_pointers(page, "B: ", &conflict.side_b_refs, conflict.side_b_ref_count);
        if let Some(resolution) = &conflict.resolution {
            page.line(format_args!("  - Resolved: {}", flat(resolution)));
        }
    });
    rest(page, snapshot, snapshot.state.conflicts.len(), |counts| counts.conflicts);
}

fn more_pointers(page: &mut Page, label: &str, shown: &[EvidenceRef], all: Option<u64>) {
    let more = all.map_or(0, |all| all.saturating_sub(shown.len() as u64));
    if more > 0 {
        page.line(format_args!("  - {label}{more} more pointers"));
    }
}

fn next_actions(page: &mut Page, snapshot: &Snapshot) {
    page.heading("7. Next actions");
    match &snapshot.ext {
        None => page.line(format_args!("- {NOT_RECORDED}")),
        Some(ext) if ext.next_actions.is_empty() => page.none(),
        Some(ext) => {
            for (index, action) in ext.next_actions.iter().enumerate() {
                page.line(format_args!("{}. {}", index + 1, flat(action)));
            }
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => flat(text),
        other => jcs(other),
    }
}

fn pairs(named: impl Iterator<Item = (String, String)>) -> String {
    let mut pairs: Vec<(String, String)> = named.collect();
    pairs.sort();
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(", ")
}
