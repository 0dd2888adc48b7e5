//! Renders a snapshot of the service's own session for people, by a fixed template and from the
//! snapshot alone. It answers what came in, what was made, what failed and why, what it cost and
//! what waits, for the session and for its day so far; ids and hashes come last. A number means one thing
//! wherever it stands: the rows of a section add up to the figure at its head, which is that of the glance.
//! What is private is counted and has no name.
//!
//! See docs/adr/0099-narrative-of-a-session.md.

use std::collections::BTreeMap;

use super::page::{Page, flat};
use super::session_figures::{Counts, FailureFigures, SessionFigures};
use super::snapshot::Snapshot;
use super::state::ClaimStatus;
use super::text::SharedText;
use crate::digest::said;

/// Most summaries whose first words are told.
const TOLD_MAX: usize = 20;

/// The narrative of a snapshot with figures.
pub(super) fn render(snapshot: &Snapshot, figures: &SessionFigures) -> String {
    let mut page = Page::default();
    let part = snapshot.run_id.rsplit_once('.').map_or("1", |(_, part)| part);
    page.line(format_args!("# Session of `{}`, part {part}", flat(&figures.command)));
    page.line(format_args!("\nFrom {} to {}.", figures.began_at, snapshot.created_at));
    at_a_glance(&mut page, figures);
    the_day(&mut page, figures);
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

/// Outcomes in words, of a session or of a day.
struct Outcomes {
    came_in: String,
    made: String,
    failed: String,
    cost: String,
}

impl Outcomes {
    fn of(figures: &Counts, calls: u64, cost_nanos: u64) -> Outcomes {
        let requests =
            |number: u64, what: &str| (number, format!("{}{what}", count(number, "request")));
        let made = match figures.made {
            1 => "1 summary".to_owned(),
            made => format!("{} summaries", grouped(made)),
        };
        let refused = [
            requests(figures.rejected, " rejected"),
            (
                figures.lines_set_aside,
                format!("{} set aside", count(figures.lines_set_aside, "queue line")),
            ),
        ];
        let mut came_in = vec![
            requests(figures.accepted, ""),
            requests(figures.duplicates, " whose summary existed already"),
        ];
        came_in.extend(refused.clone());
        let mut failed = vec![requests(figures.failed, "")];
        failed.extend(refused);
        let again = format!("{} that another follows", count(figures.retries, "attempt"));
        failed.push((figures.retries, again));
        let made = joined(vec![
            (figures.made, made),
            requests(figures.shared, " that got the summary of another request"),
            requests(figures.skipped, " skipped"),
            requests(figures.cancelled, " cancelled"),
        ]);
        let cost = match calls {
            0 => "nothing; no call was charged".to_owned(),
            calls => format!("{} for {}", cost(cost_nanos), count(calls, "call")),
        };
        Outcomes { came_in: joined(came_in), made, failed: joined(failed), cost }
    }

    fn lines(&self, page: &mut Page) {
        page.line(format_args!("- Came in: {}", self.came_in));
        page.line(format_args!("- Made: {}", self.made));
        page.line(format_args!("- Failed: {}", self.failed));
        page.line(format_args!("- Cost: {}", self.cost));
    }
}

fn at_a_glance(page: &mut Page, figures: &SessionFigures) {
    page.heading("1. At a glance");
    let spent = figures.spent();
    Outcomes::of(&figures.counts, spent.calls, spent.cost_nanos).lines(page);
    let before = match figures.waited_before() {
        0 => String::new(),
        before => format!("; {} at the beginning", grouped(before)),
    };
    let waiting = joined(vec![(figures.waiting, count(figures.waiting, "request"))]);
    page.line(format_args!("- Waiting: {waiting}{before}"));
}

/// Writes the totals of the day over all its sessions. For the first session of a day they equal those of the
/// session and are left out.
fn the_day(page: &mut Page, figures: &SessionFigures) {
    let day = &figures.day;
    if day.sessions < 2 && figures.began_at.starts_with(&*day.day) {
        return;
    }
    page.line(format_args!(
        "\nThe day {} (UTC) so far, of which this is session {}:\n",
        day.day,
        grouped(day.sessions)
    ));
    Outcomes::of(&day.counts, day.calls, day.cost_nanos).lines(page);
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
    let Counts { accepted, made, skipped, failed, cancelled, shared, .. } = figures.counts;
    let [accepted, made, skipped, failed] = [accepted, made, skipped, failed].map(grouped);
    page.line(format_args!("| all | {accepted} | {made} | {skipped} | {failed} |"));
    let others = [
        (shared, format!("{} that got the summary of another request", count(shared, "request"))),
        (cancelled, format!("{} cancelled", count(cancelled, "request"))),
    ];
    if shared + cancelled > 0 {
        page.line(format_args!("\nEnded without a column: {}.", joined(others.to_vec())));
    }
}

/// How early a summary is told, by its words behind its source and its flow.
fn rank(statement: &str) -> u8 {
    said::rank(statement.split_once(": ").map_or(statement, |(_, told)| told))
}

fn made(page: &mut Page, snapshot: &Snapshot, figures: &SessionFigures) {
    page.heading("3. What was made");
    let kinds: Vec<String> = figures
        .kinds
        .iter()
        .map(|(kind, made)| {
            let kind = flat(kind).replace('_', " ");
            match kind.strip_suffix("summary").filter(|_| *made != 1) {
                Some(of) => format!("{} {of}summaries", grouped(*made)),
                None => format!("{} {kind}", grouped(*made)),
            }
        })
        .collect();
    if !kinds.is_empty() {
        page.line(format_args!("- By kind: {}", kinds.join(", ")));
    }
    let Counts { made, private, .. } = figures.counts;
    if private > 0 {
        page.line(format_args!("- {} of private sources, which are not named", grouped(private)));
    }
    let mut statements: Vec<String> =
        snapshot.state.claims.iter().map(|claim| flat(&claim.statement)).collect();
    statements.sort_by_cached_key(|statement| (rank(statement), statement.clone()));
    let shown = statements.len().min(TOLD_MAX);
    for statement in &statements[..shown] {
        page.line(format_args!("- {statement}"));
    }
    if statements.len() > shown {
        let more = grouped((statements.len() - shown) as u64);
        page.line(format_args!("- {more} more of this part: see section 7"));
    }
    match made.saturating_sub(private + statements.len() as u64) {
        0 if made == 0 => page.none(),
        0 => {}
        earlier => page.line(format_args!("- {} more in the other parts", grouped(earlier))),
    }
}

fn failures(page: &mut Page, figures: &SessionFigures) {
    page.heading("4. What failed");
    kinds_of_failures(page, &figures.failures, &figures.counts);
    let day = &figures.day;
    if day.failures != figures.failures {
        page.line(format_args!("\nThe day {} (UTC) so far:\n", day.day));
        kinds_of_failures(page, &day.failures, &day.counts);
    }
}

/// How often something failed for good, and how often another attempt follows.
fn failed_times(ended: u64, retries: u64) -> String {
    joined(vec![
        (ended, format!("{} for good", grouped(ended))),
        (retries, format!("{} to be tried again", grouped(retries))),
    ])
}

fn kinds_of_failures(
    page: &mut Page,
    failures: &BTreeMap<SharedText, FailureFigures>,
    counts: &Counts,
) {
    let mut failures: Vec<(&SharedText, &FailureFigures)> = failures.iter().collect();
    failures.sort_by_key(|(kind, failure)| {
        (std::cmp::Reverse((failure.ended, failure.retries)), (*kind).clone())
    });
    if failures.len() > 1 {
        let ended = counts.failed + counts.rejected + counts.lines_set_aside;
        let of = Outcomes::of(counts, 0, 0).failed;
        page.line(format_args!("- Together: {} ({of})", failed_times(ended, counts.retries)));
    }
    for (kind, failure) in &failures {
        let times = failed_times(failure.ended, failure.retries);
        page.line(format_args!("- {}, {times}: {}", flat(kind), flat(&failure.why)));
        if let Some(flow) = &failure.last_flow {
            page.line(format_args!("  - last: a request for {}", flat(flow)));
        }
    }
    if failures.is_empty() {
        page.none();
    }
}

fn spent(page: &mut Page, figures: &SessionFigures) {
    page.heading("5. What it cost");
    if figures.models.len() > 1 {
        let all = figures.spent();
        page.line(format_args!(
            "- Together: {} for {}",
            cost(all.cost_nanos),
            count(all.calls, "call")
        ));
    }
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
    for request in &figures.waiting_requests {
        let until = request.until.as_deref().unwrap_or("no set time");
        page.line(format_args!(
            "- {}, since {}, until {until}: {} (request `{}`)",
            flat(&request.flow),
            request.since,
            flat(&request.why),
            flat(&request.request_id)
        ));
    }
    let more = figures.waiting.saturating_sub(figures.waiting_requests.len() as u64);
    match (figures.waiting, more) {
        (0, _) => page.none(),
        (_, 0) => {}
        (_, more) => {
            let more = count(more, "more request");
            page.line(format_args!("- {more}: `summarizer requests` lists them"));
        }
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

    /// The number before a word in a line that begins with `start`.
    fn said(text: &str, start: &str, word: &str) -> u64 {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        let at = words.iter().position(|one| one.starts_with(word));
        at.map_or(0, |at| words[at - 1].replace(',', "").parse().unwrap())
    }

    fn section<'t>(text: &'t str, heading: &str) -> &'t str {
        let text = &text[text.find(heading).unwrap()..];
        &text[..text[2..].find("\n## ").map_or(text.len(), |end| end + 2)]
    }

    #[test]
    fn the_rows_of_each_section_add_up_to_the_figures_of_the_glance() {
        use super::super::session_figures::{FailureTally, Tally, WaitingRequest};
        use crate::contract::time::Timestamp;
        let at = Timestamp(1_773_662_400_000);
        let mut figures = SessionFigures::default();
        let request = |record: u64| WaitingRequest {
            record,
            request_id: format!("r{record}").into(),
            flow: format!("flow-{}", record % 30).into(),
            since: "t".into(),
            until: None,
            why: "its turn".into(),
        };
        let failure = |kind: u64| FailureTally {
            kind: format!("kind-{}", kind % 5).into(),
            why: "because".into(),
            flow: None,
            request_id: None,
        };
        // One request waits from before.
        figures.count(&Tally::Accepted { request: request(1_000) }, at);
        let mut figures = SessionFigures::begun("s", "serve", at, &figures);
        let flow = |record: u64| SharedText::from(format!("flow-{}", record % 30));
        for record in 0..400_u64 {
            figures.count(&Tally::Accepted { request: request(record) }, at);
            let charged = Tally::Charged {
                model: format!("model-{}", record % 3).into(),
                input_tokens: 3,
                output_tokens: 2,
                cost_nanos: record,
                estimated: false,
            };
            figures.count(&charged, at);
            let flow = flow(record);
            let tally = match record % 10 {
                0..4 => {
                    let kind = format!("kind_{}_summary", record % 4).into();
                    Tally::Made { record, flow, kind, is_private: record % 4 == 0 }
                }
                4 => Tally::Skipped { record, flow },
                5 => Tally::Cancelled { record },
                6 => Tally::GotAnothers { record },
                7 => Tally::Failed { record, flow, failure: failure(record) },
                8 => Tally::WillRetry { record, until: "t".into(), failure: failure(record) },
                _ => continue,
            };
            figures.count(&tally, at);
        }
        for number in 0..7 {
            figures.count(&Tally::Duplicate, at);
            figures.count(&Tally::Rejected(failure(number)), at);
            figures.count(&Tally::LineSetAside(failure(number)), at);
        }
        let mut page = Page::default();
        at_a_glance(&mut page, &figures);
        flows(&mut page, &figures);
        failures(&mut page, &figures);
        spent(&mut page, &figures);
        waits(&mut page, &figures);
        let text = page.text();
        let glance = |start: &str, word: &str| said(&text, start, word);
        let accepted = glance("- Came in:", "requests");
        let (made, failed) = (glance("- Made:", "summaries"), glance("- Failed:", "requests"));
        assert_eq!((accepted, made, failed), (400, 160, 40), "{text}");
        // What waited and came in has ended or waits.
        let [shared, skipped, cancelled] =
            ["40 requests that got", "40 requests skipped", "40 requests cancelled"]
                .map(|said| u64::from(text.contains(said)) * 40);
        let waiting = glance("- Waiting:", "request");
        let before = glance("- Waiting:", "at");
        assert_eq!(
            before + accepted,
            made + shared + skipped + cancelled + failed + waiting,
            "{text}"
        );
        // The rows of the table add up to its last one, and that is the glance.
        let table = section(&text, "## 2.");
        let rows: Vec<Vec<u64>> = table
            .lines()
            .filter(|line| line.starts_with("| "))
            .skip(1)
            .map(|line| {
                let cells = line.trim_matches('|').split('|').skip(1);
                cells.map(|cell| cell.trim().replace(',', "").parse().unwrap()).collect()
            })
            .collect();
        let (all, flows) = rows.split_last().unwrap();
        assert_eq!(all[..], [accepted, made, skipped, failed], "{table}");
        for (column, all) in all.iter().enumerate() {
            assert_eq!(flows.iter().map(|row| row[column]).sum::<u64>(), *all, "{table}");
        }
        // Failures: the kinds add up to the line above them, and that to the glance.
        let told = section(&text, "## 4.");
        let all = |word: &str| said(told, "- Together:", word);
        let kinds = |word: &str| -> u64 {
            told.lines()
                .filter(|line| line.starts_with("- kind-"))
                .map(|line| said(line, "- ", word))
                .sum()
        };
        assert_eq!(kinds("for"), all("for"), "{told}");
        assert_eq!(kinds("to"), all("to"), "{told}");
        assert_eq!(all("for"), failed + 14, "requests, 7 rejected and 7 lines: {told}");
        assert_eq!(all("to"), glance("- Failed:", "attempts"), "{told}");
        // Calls.
        let told = section(&text, "## 5.");
        let models = told.lines().filter(|line| line.starts_with("- model-"));
        assert_eq!(
            models.map(|line| said(line, "- ", "calls")).sum::<u64>(),
            glance("- Cost:", "calls")
        );
        assert_eq!(said(told, "- Together:", "calls"), glance("- Cost:", "calls"), "{told}");
        // What waits: the named ones and the rest.
        let told = section(&text, "## 6.");
        let named = told.lines().filter(|line| line.contains("(request `")).count() as u64;
        let more = told.lines().find(|line| line.contains(" more request")).unwrap();
        assert_eq!(named + said(more, "- ", "more"), waiting, "{told}");
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!([7, 1_000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
    }
}
