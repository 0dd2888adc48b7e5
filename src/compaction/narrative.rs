//! Renders a snapshot as Markdown for people, by a fixed template and from the snapshot alone. No
//! model writes it and no program reads it. Equal snapshots give equal bytes.

use std::fmt::Write as _;

use serde_json::Value;

use super::evidence::EvidenceRef;
use super::snapshot::Snapshot;
use super::state::ClaimStatus;
use crate::contract::json::jcs;

const NONE: &str = "- none\n";
const NOT_RECORDED: &str = "not recorded";

pub fn render(snapshot: &Snapshot) -> String {
    let mut page = Page(String::new());
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
    page.section("6. Open questions", &snapshot.state.open_questions, |page, question| {
        page.line(format_args!("- {}", flat(question)));
    });
    next_actions(&mut page, snapshot);
    page.section("8. Context manifests", &snapshot.latest_context_manifest_ids, |page, id| {
        page.line(format_args!("- {}", flat(id)));
    });
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(line);
        self.0.push('\n');
    }

    fn heading(&mut self, heading: &str) {
        self.line(format_args!("\n## {heading}"));
    }

    fn section<T>(&mut self, heading: &str, items: &[T], each: impl Fn(&mut Page, &T)) {
        self.heading(heading);
        for item in items {
            each(self, item);
        }
        if items.is_empty() {
            self.0.push_str(NONE);
        }
    }

    fn pointers(&mut self, refs: &[EvidenceRef], label: &str) {
        for evidence in refs {
            self.line(format_args!(
                "  - {label}`{}` chunk `{}` span {}..{}",
                flat(&evidence.evidence_id),
                flat(&evidence.chunk_id),
                evidence.span.start,
                evidence.span.end
            ));
        }
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
    });
}

fn conflicts(page: &mut Page, snapshot: &Snapshot) {
    page.section("4. Conflicts", &snapshot.state.conflicts, |page, conflict| {
        page.line(format_args!(
            "- {}: {}",
            flat(&conflict.conflict_id),
            flat(&conflict.description)
        ));
        page.pointers(&conflict.side_a_refs, "A: ");
        page.pointers(&conflict.side_b_refs, "B: ");
        if let Some(resolution) = &conflict.resolution {
            page.line(format_args!("  - Resolved: {}", flat(resolution)));
        }
    });
}

fn next_actions(page: &mut Page, snapshot: &Snapshot) {
    page.heading("7. Next actions");
    match &snapshot.ext {
        None => page.line(format_args!("- {NOT_RECORDED}")),
        Some(ext) if ext.next_actions.is_empty() => page.0.push_str(NONE),
        Some(ext) => {
            for (index, action) in ext.next_actions.iter().enumerate() {
                page.line(format_args!("{}. {}", index + 1, flat(action)));
            }
        }
    }
}

/// Runs of whitespace become one space, so that no text can open a heading or a list.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
