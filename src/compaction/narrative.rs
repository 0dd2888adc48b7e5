//! Renders a snapshot as Markdown for people, by a fixed template and from the snapshot alone. No
//! model writes it and no program reads it. Equal snapshots give equal bytes.

use serde_json::Value;

use super::evidence::EvidenceRef;
use super::page::{Page, flat};
use super::session_narrative;
use super::snapshot::{Snapshot, StateCounts};
use super::state::ClaimStatus;
use crate::contract::json::jcs;

/// Most records of a list in a narrative.
const LISTED_MAX: usize = 50;
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
    let failures = &snapshot.state.failures;
    let all = counted(snapshot, |counts| counts.failures);
    list(&mut page, snapshot, "5. Failures", failures, all, |page, failure| {
        page.line(format_args!(
            "- {} [{}] at {}: {}",
            flat(&failure.failure_id),
            flat(&failure.category),
            flat(&failure.place),
            flat(&failure.why)
        ));
    });
    let questions = &snapshot.state.open_questions;
    let all = counted(snapshot, |counts| counts.open_questions);
    list(&mut page, snapshot, "6. Open questions", questions, all, |page, question| {
        page.line(format_args!("- {}", flat(question)));
    });
    next_actions(&mut page, snapshot);
    let manifests = &snapshot.latest_context_manifest_ids;
    let all = Some(snapshot.retrieval_diagnostics.since_last.manifests);
    list(&mut page, snapshot, "8. Context manifests", manifests, all, |page, id| {
        page.line(format_args!("- {}", flat(id)));
    });
    page.text()
}

/// How many records the whole state has, when the snapshot does not show all of them.
fn counted(snapshot: &Snapshot, all: impl Fn(&StateCounts) -> u64) -> Option<u64> {
    let spill = snapshot.ext.as_ref().and_then(|ext| ext.spill.as_ref())?;
    Some(all(&spill.counts))
}

/// The first records of a list. When there are more, it begins with how many there are and where the
/// others are. `all` is their number when the snapshot does not show all of them.
fn list<T>(
    page: &mut Page,
    snapshot: &Snapshot,
    heading: &str,
    items: &[T],
    all: Option<u64>,
    each: impl Fn(&mut Page, &T),
) {
    let listed = &items[..items.len().min(LISTED_MAX)];
    let all = all.unwrap_or(0).max(items.len() as u64);
    if all == listed.len() as u64 {
        return page.section(heading, listed, each);
    }
    page.heading(heading);
    let (shown, more) = (listed.len(), all - listed.len() as u64);
    let sequence = snapshot.sequence;
    let spill = snapshot.ext.as_ref().and_then(|ext| ext.spill.as_ref());
    let rest = spill
        .filter(|_| all > items.len() as u64)
        .map_or(String::new(), |spill| format!(", {} and the files that it names", spill.artifact));
    page.line(format_args!(
        "- {all} in all, {shown} listed here, {more} not: see {sequence}.snapshot.json{rest}"
    ));
    listed.iter().for_each(|item| each(page, item));
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
    let all = counted(snapshot, |counts| counts.verified_claims);
    list(page, snapshot, "3. Verified claims", &verified, all, |page, claim| {
        page.line(format_args!("- {}: {}", flat(&claim.claim_id), flat(&claim.statement)));
        page.pointers(&claim.evidence_refs, "");
        more_pointers(page, "", &claim.evidence_refs, claim.evidence_ref_count);
    });
}

fn conflicts(page: &mut Page, snapshot: &Snapshot) {
    let all = counted(snapshot, |counts| counts.conflicts);
    list(page, snapshot, "4. Conflicts", &snapshot.state.conflicts, all, |page, conflict| {
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
