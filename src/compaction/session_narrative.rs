//! Renders a snapshot of the service's own session for people, by a fixed template and from the
//! snapshot alone. It answers what came in, what was made, what failed and why, what it cost and
//! what waits; ids and hashes come last.
//!
//! See docs/adr/0099-narrative-of-a-session.md.

use super::page::{Page, flat};
use super::session_figures::{FailureFigures, SessionFigures};
use super::snapshot::Snapshot;
use super::state::ClaimStatus;
use super::text::SharedText;

/// The narrative of a snapshot with figures.
pub(super) fn render(snapshot: &Snapshot, figures: &SessionFigures) -> String {
    let mut page = Page::default();
    let part = snapshot.run_id.rsplit_once('.').map_or("1", |(_, part)| part);
    page.line(format_args!("# Session of `{}`, part {part}", flat(&figures.command)));
    page.line(format_args!("\nFrom {} to {}.", figures.began_at, snapshot.created_at));
    at_a_glance(&mut page, figures);
    flows(&mut page, figures);
    made(&mut page, snapshot, figures);
    failures(&mut page, figures);
    spent(&mut page, figures);
    waits(&mut page, figures);
    references(&mut page, snapshot, figures);
    page.text()
}

/// `1 request`, `2 requests`.
fn count(number: u64, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{} {one}s", grouped(number)),
    }
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A cost with as many decimals as it needs, at least two.
fn cost(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    let shortest = text.trim_end_matches('0');
    let point = text.find('.').unwrap_or(text.len());
    text[..shortest.len().max(point + 3)].to_owned()
}

/// The parts that are not zero, or `none`.
fn joined(parts: Vec<(u64, String)>) -> String {
    let said: Vec<String> =
        parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    if said.is_empty() { "nothing".to_owned() } else { said.join("; ") }
}

fn at_a_glance(page: &mut Page, figures: &SessionFigures) {
    page.heading("1. At a glance");
    let came_in = joined(vec![
        (figures.accepted, count(figures.accepted, "request")),
        (
            figures.duplicates,
            format!("{} whose summary exists already", count(figures.duplicates, "request")),
        ),
        (figures.rejected, format!("{} rejected", count(figures.rejected, "request"))),
        (
            figures.lines_set_aside,
            format!("{} set aside", count(figures.lines_set_aside, "queue line")),
        ),
    ]);
    page.line(format_args!("- Came in: {came_in}"));
    let made = match figures.made {
        1 => "1 summary".to_owned(),
        made => format!("{} summaries", grouped(made)),
    };
    let made = joined(vec![
        (figures.made, made),
        (figures.skipped, format!("{} skipped", count(figures.skipped, "request"))),
        (figures.cancelled, format!("{} cancelled", count(figures.cancelled, "request"))),
    ]);
    page.line(format_args!("- Made: {made}"));
    let failed = joined(vec![
        (figures.failed, count(figures.failed, "request")),
        (figures.retries, format!("{} that another follows", count(figures.retries, "attempt"))),
    ]);
    page.line(format_args!("- Failed: {failed}"));
    let spent = figures.spent();
    match spent.calls {
        0 => page.line(format_args!("- Cost: nothing; no call was charged")),
        calls => page.line(format_args!(
            "- Cost: {} for {}",
            cost(spent.cost_nanos),
            count(calls, "call")
        )),
    }
    match figures.waiting {
        0 => page.line(format_args!("- Waiting: nothing")),
        waiting => page.line(format_args!("- Waiting: {}", count(waiting, "request"))),
    }
}

fn flows(page: &mut Page, figures: &SessionFigures) {
    page.heading("2. What came in");
    if figures.flows.is_empty() {
        page.none();
        return;
    }
    page.line(format_args!("\n| flow | came in | made | skipped | failed |"));
    page.line(format_args!("|---|---:|---:|---:|---:|"));
    let mut flows: Vec<_> = figures.flows.iter().collect();
    flows.sort_by_key(|(name, flow)| (std::cmp::Reverse(flow.accepted), (*name).clone()));
    for (name, flow) in flows {
        page.line(format_args!(
            "| {} | {} | {} | {} | {} |",
            flat(name).replace('|', "/"),
            grouped(flow.accepted),
            grouped(flow.made),
            grouped(flow.skipped),
            grouped(flow.failed)
        ));
    }
}

fn made(page: &mut Page, snapshot: &Snapshot, figures: &SessionFigures) {
    page.heading("3. What was made");
    let mut statements: Vec<String> =
        snapshot.state.claims.iter().map(|claim| flat(&claim.statement)).collect();
    statements.sort();
    for statement in &statements {
        page.line(format_args!("- {statement}"));
    }
    let earlier = figures.made.saturating_sub(statements.len() as u64);
    match (statements.len(), earlier) {
        (0, 0) => page.none(),
        (_, 0) => {}
        (_, earlier) => page.line(format_args!("- {} more in the other parts", grouped(earlier))),
    }
}

fn failures(page: &mut Page, figures: &SessionFigures) {
    page.heading("4. What failed");
    let mut failures: Vec<(&SharedText, &FailureFigures)> = figures.failures.iter().collect();
    failures.sort_by_key(|(kind, failure)| {
        (std::cmp::Reverse((failure.ended, failure.retries)), (*kind).clone())
    });
    for (kind, failure) in &failures {
        let times = joined(vec![
            (failure.ended, format!("{} for good", grouped(failure.ended))),
            (failure.retries, format!("{} to be tried again", grouped(failure.retries))),
        ]);
        page.line(format_args!("- {}, {times}: {}", flat(kind), flat(&failure.why)));
        if let Some(last) = &failure.last_request_id {
            page.line(format_args!("  - last: request `{}`", flat(last)));
        }
    }
    if failures.is_empty() {
        page.none();
    }
}

fn spent(page: &mut Page, figures: &SessionFigures) {
    page.heading("5. What it cost");
    for (model, spent) in &figures.models {
        page.line(format_args!(
            "- {}: {} for {}, {} in and {} out",
            flat(model),
            cost(spent.cost_nanos),
            count(spent.calls, "call"),
            count(spent.input_tokens, "token"),
            count(spent.output_tokens, "token")
        ));
        if spent.estimated_calls > 0 {
            let calls = count(spent.estimated_calls, "call");
            page.line(format_args!("  - {calls} of them not counted by the server: estimated"));
        }
    }
    if figures.models.is_empty() {
        page.none();
    }
}

fn waits(page: &mut Page, figures: &SessionFigures) {
    page.heading("6. What waits");
    match figures.waiting {
        0 => page.none(),
        waiting => page.line(format_args!(
            "- {} had not ended, those of earlier sessions included",
            count(waiting, "request")
        )),
    }
}

fn references(page: &mut Page, snapshot: &Snapshot, figures: &SessionFigures) {
    page.heading("7. References");
    page.line(format_args!("- Session: `{}`", flat(&figures.session_id)));
    page.line(format_args!("- Snapshot: `{}` of `{}`", snapshot.snapshot_id, snapshot.run_id));
    page.line(format_args!("- Objective: {}", flat(&snapshot.objective)));
    for claim in &snapshot.state.claims {
        let status = match claim.status {
            ClaimStatus::Verified => "verified",
            ClaimStatus::Candidate => "not verified",
            ClaimStatus::Retracted => "withdrawn",
        };
        page.line(format_args!("- `{}`: {}; {status}", claim.claim_id, flat(&claim.statement)));
        page.pointers(&claim.evidence_refs, "");
    }
    for manifest in &snapshot.latest_context_manifest_ids {
        page.line(format_args!("- Context manifest: `{}`", flat(manifest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_keep_the_decimals_that_say_something() {
        let shown = [0, 10_000_000, 1_234_500_000, 5, 2_000_000_000].map(cost);
        assert_eq!(shown, ["0.00", "0.01", "1.2345", "0.000000005", "2.00"]);
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!([7, 1_000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
    }
}
