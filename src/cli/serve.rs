//! `serve` and `drain`: the same loop, until stopped or until no request is left.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use super::acks::{AckProgress, AckTail, Ended};
use super::failure::{Exit, Failure};
use super::home_access::HomeAccess;
use super::inspect::sources_of;
use super::interrupt::stopped;
use super::outcome::{Made, Naming, made_lines, name_earlier};
use super::prose::Prose;
use super::run_home::{SessionOutcome, run_service};
use super::settings::load_config;
use super::waiting::tell_pause;
use super::watch;
use super::{Context, ui};
use crate::contract::time::{Timestamp, parse_instant};
use crate::contract::vocabulary::{FailureCause, ReasonCode, Warning};
use crate::control::question::Question;
use crate::home::Home;
use crate::service::{
    Failure as RequestFailure, FailureKind, FailureMessage, SessionCounts, Until,
};
use crate::state::event::PassedOver;

/// Summaries that a drain shows.
const SHOWN: usize = 10;
/// Requests with a summary that is older than their source, as a drain names them.
const STALE: usize = 5;

/// Run the service until it is told to stop
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {}

/// Process all requests that may run now, publish the results, and exit
///
/// It exits with 1 when one of the requests failed, also when it waits for another attempt, and with --folders
/// also when a folder or a file in it cannot be taken in. A wait for a rate or a budget is not a failure. The
/// last lines say why. Run logs in the watched folder (compaction.run_logs) are
/// read up to their present end.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Also wait for requests that may run by this time (ISO 8601)
    #[arg(long, value_name = "T")]
    wait_until: Option<String>,
    /// Exit with 1 also when a line was quarantined or a run log was rejected
    #[arg(long)]
    fail_on_error: bool,
    /// First take in new and changed files of the `[[watch]]` folders, as a service does
    #[arg(long)]
    folders: bool,
    /// Then build the digests that changed
    #[arg(long)]
    digests: bool,
}

impl ServeArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        super::supervise::start(context)?;
        // Also while the home is opened, a signal ends the service in order.
        super::run_home::stop_on_signals(context)?;
        #[cfg(feature = "cluster")]
        if let Some(cluster) = &load_config(context)?.cluster {
            super::shared_home::serve(context, cluster)?;
            context.ui.talk("stopped");
            return Ok(Exit::Done);
        }
        run_service(context, "serve", Until::Stopped)?;
        context.ui.talk("stopped");
        Ok(Exit::Done)
    }
}

impl DrainArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let by = self.wait_until.as_deref().map(moment).transpose()?;
        let config = load_config(context)?;
        if config.cluster.is_some() {
            let what = "the log of this home is shared with other hosts, and only `summarizer serve` writes to it";
            return Err(Failure::new(Exit::Config, what));
        }
        let home = Home::new(&context.home, &config);
        let mut tail = AckTail::from_end(context, home.acks());
        let all_taken = !self.folders || watch::take_once(context, &config, &home)?;
        let progress = AckProgress::start(context, &home, None);
        let ran = run_service(context, "drain", Until::Drained(by));
        drop(progress);
        let SessionOutcome { counts: report, set_aside, interrupted, waiting } = ran?;
        let earlier = earlier_failures(&report, &waiting);
        let mut ended = Ended::default();
        tail.acks()?.into_iter().for_each(|ack| ended.take(ack));
        let failures = report.failures();
        let told = failures.iter().chain(&earlier).flat_map(|(_, failure)| &failure.told);
        let told: Vec<&str> = told.map(|told| told.request_id.as_str()).collect();
        let stale = ended.acks.iter().filter(|(_, ack)| warns(ack)).map(|(id, _)| id.as_str());
        let names = sources_of(context, told.into_iter().chain(stale));
        show_counts(context, &report, &set_aside, (&earlier, &names));
        if !context.ui.json {
            show_made(context, &ended);
            name_earlier(context, &ended, Naming::All);
            tell_stale(context, &ended, &names);
            tell_failures(context, &report, &set_aside, (&earlier, &names));
        }
        if interrupted {
            return stopped_early(context, &ended);
        }
        if ended.acks.is_empty() && ended.failing.is_empty() && !context.ui.json {
            tell_pause(context)?;
            context.ui.talk(ui::dim(
                "next: `summarizer read` shows the newest summaries, `summarizer add PATH` adds texts",
            ));
        }
        if self.digests {
            let built = super::digest::build(context)?;
            let bags = built["published"].as_u64().unwrap_or_default();
            context.ui.talk(format!("{} published", ui::count(bags, "bag")));
        }
        let has_failed = report.count("failed") + report.count("rejected") > 0;
        // A request that waits for another attempt after a failure is work that was left.
        let still_fail =
            report.failures().iter().chain(&earlier).any(|(kind, _)| !kind.is_put_off());
        let passed_over = report.count("quarantined") > 0 || !set_aside.is_empty();
        let is_wrong =
            has_failed || still_fail || !all_taken || (self.fail_on_error && passed_over);
        Ok(if is_wrong { Exit::Wrong } else { Exit::Done })
    }
}

/// A moment from the command line.
pub fn moment(text: &str) -> Result<Timestamp, Failure> {
    parse_instant(text).map(|instant| instant.at).map_err(|error| {
        Failure::new(Exit::Usage, format!("cannot read the moment {text:?}")).because(&error)
    })
}

/// The names of sources by the ids of their requests.
type Names = BTreeMap<String, String>;

/// The summaries that were made, and the next command.
fn show_made(context: &Context, ended: &Ended) {
    let made = Made::of(context, ended);
    if made.is_empty() {
        return;
    }
    let shown = &made[..made.len().min(SHOWN)];
    made_lines(Prose::of_stdout(), shown).iter().for_each(|line| context.ui.out(line));
    if made.len() > SHOWN {
        context.ui.out(ui::dim(&format!("and {} more", made.len() - SHOWN)));
    }
    context.ui.talk(ui::dim(
        "next: `summarizer read` shows them, `summarizer digest build` collects them",
    ));
}

/// Names the requests that got an earlier summary although something became of their source since, and those
/// about days that are not published.
fn tell_stale(context: &Context, ended: &Ended, names: &Names) {
    let told = [
        (Warning::SourceMissing, "is gone since", "the summary stays as it is"),
        (Warning::SourceChanged, "changed since", "`summarizer submit --flow … --again` asks anew"),
        (
            Warning::SourcePrivate,
            "became private since",
            "others are not shown this summary any more",
        ),
    ];
    let name = |id: &String| names.get(id).cloned().unwrap_or_else(|| id.clone());
    let missing = ended.acks.iter().filter(|(_, ack)| asks_for_missing_days(ack));
    let missing: Vec<String> = missing.map(|(id, _)| id.clone()).collect();
    if !missing.is_empty() {
        let shown = missing.len().min(STALE);
        let more = if missing.len() > STALE { ", …" } else { "" };
        context.ui.talk(format!(
            "{} {} asked for days that are not published ({}{more}); `summarizer show` names them",
            ui::yellow("warning:"),
            ui::count(missing.len(), "request"),
            missing[..shown].join(", "),
        ));
    }
    for (warning, what, then) in told {
        let stale = ended.acks.iter().filter(|(_, ack)| became_of_source(ack) == Some(warning));
        let stale: Vec<String> = stale.map(|(id, _)| name(id)).collect();
        if stale.is_empty() {
            continue;
        }
        let (requests, shown) = (ui::count(stale.len(), "request"), stale.len().min(STALE));
        let more = if stale.len() > STALE { ", …" } else { "" };
        context.ui.talk(format!(
            "{} {requests} got an earlier summary, and the source {what} ({}{more}); {then}",
            ui::yellow("warning:"),
            stale[..shown].join(", "),
        ));
    }
}

fn asks_for_missing_days(ack: &Value) -> bool {
    let warnings = ack["warnings"].as_array().into_iter().flatten();
    warnings.into_iter().any(|told| *told == Warning::UpstreamDaysMissing.as_str())
}

/// Whether something is said of the source of a request.
fn warns(ack: &Value) -> bool {
    became_of_source(ack).is_some()
}

/// What became of the source of a summary, as its ack warns.
fn became_of_source(ack: &Value) -> Option<Warning> {
    let warnings = ack["warnings"].as_array()?;
    // A source that became private changed too, and that is what counts.
    [Warning::SourceMissing, Warning::SourcePrivate, Warning::SourceChanged]
        .into_iter()
        .find(|warning| warnings.iter().any(|told| told == warning.as_str()))
}

/// What was done before an interrupt, and what stays open after it.
pub(super) fn stopped_early(context: &Context, ended: &Ended) -> Result<Exit, Failure> {
    let mut session = HomeAccess::open(context)?;
    let status = session.ask(context, &Question::Status);
    session.close()?;
    let status = status?;
    let open = &status["requests"]["open"];
    // A line that nobody has read yet is no request, and its text is open all the same.
    let is_unread = status["queue"]["lag_bytes"].as_u64().is_some_and(|bytes| bytes > 0);
    if *open == 0 && !is_unread {
        return Ok(Exit::Done);
    }
    let counts = ended.counts();
    let count = |status: &str| counts.get(status).copied().unwrap_or(0);
    let made = match count("completed") {
        0 => "no summary was made".to_owned(),
        1 => "1 summary was made".to_owned(),
        many => format!("{} were made", ui::count(many, "summary")),
    };
    let failed = count("failed") + count("rejected");
    let failed = (failed > 0).then(|| format!("; {} failed", ui::count(failed, "request")));
    let open = match open.as_u64() {
        Some(0) => "the lines of the queue are not read yet".to_owned(),
        Some(1) => "1 request stays open".to_owned(),
        _ => format!("{} stay open", ui::told(open, "request")),
    };
    let done = format!("{made}{}; {open}", failed.unwrap_or_default());
    Err(stopped(done, "`summarizer drain` continues"))
}

/// Failures of sessions before this one that still stand: requests that wait for their next attempt.
fn earlier_failures(
    report: &SessionCounts,
    waiting: &[Value],
) -> Vec<(FailureKind, RequestFailure)> {
    let now = report.failures();
    let backoff = waiting.iter().filter(|one| one["state"] == "backoff");
    let earlier = backoff.filter_map(|one| {
        let word = |name: &str| one[name].as_str();
        let kind = FailureKind {
            has_ended: false,
            reason: word("reason_code").and_then(ReasonCode::parse),
            cause: word("cause").and_then(FailureCause::parse),
        };
        let told = now.iter().find(|(known, _)| *known == kind);
        let told = told.map_or(0, |(_, failure)| failure.requests);
        let requests = one["requests"].as_u64().unwrap_or(0).saturating_sub(told);
        let next = word("next_attempt").and_then(|at| moment(at).ok());
        let message =
            "it happened in an earlier session; `summarizer requests` shows more".to_owned();
        let told = vec![FailureMessage { message, requests, ..FailureMessage::default() }];
        let failure = RequestFailure { requests, told, untold: 0, next };
        (requests > 0).then_some((kind, failure))
    });
    earlier.collect()
}

fn show_counts(
    context: &Context,
    report: &SessionCounts,
    set_aside: &BTreeMap<String, String>,
    (earlier, names): (&[(FailureKind, RequestFailure)], &Names),
) {
    if context.ui.json {
        let failures = report.failures();
        let failures = failures.iter().chain(earlier).map(|one| failure_json(one, names));
        context.ui.json(&json!({
            "lines": report.lines, "events": report.events, "commits": report.commits,
            "outcomes": report.outcomes, "run_logs_set_aside": set_aside,
            "failing_providers": report.passed_over().map(passed_over_json).collect::<Vec<_>>(),
            "failures": failures.collect::<Vec<_>>(),
        }));
        return;
    }
    let mut line = format!("{} taken in", ui::count(report.lines, "line"));
    for (outcome, count) in &report.outcomes {
        let count = match *outcome {
            "failed" | "rejected" | "quarantined" => ui::red(&count.to_string()),
            _ => count.to_string(),
        };
        line.push_str(&format!(", {count} {}", outcome.replace('_', " ")));
    }
    context.ui.out(line);
}

/// The last lines: which run logs and providers failed, and why requests have no summary.
fn tell_failures(
    context: &Context,
    report: &SessionCounts,
    set_aside: &BTreeMap<String, String>,
    (earlier, names): (&[(FailureKind, RequestFailure)], &Names),
) {
    for (calls, failure) in report.passed_over() {
        context.ui.talk(passed_over_line(*calls, failure));
    }
    for (file, why) in set_aside {
        let warning = ui::yellow("warning:");
        context.ui.talk(format!("{warning} the run log {file} is skipped: {why}"));
    }
    if report.count("quarantined") > 0 {
        context
            .ui
            .talk(ui::dim("`summarizer quarantine list` says why these lines are not requests"));
    }
    for (kind, failure) in report.failures().iter().chain(earlier) {
        failure_lines(kind, failure, names).iter().for_each(|line| context.ui.talk(line));
    }
}

fn passed_over_json((calls, failure): &(u64, PassedOver)) -> Value {
    json!({
        "provider": failure.provider, "model": failure.model, "cause": failure.cause,
        "message": failure.message, "answered_by": failure.answered_by, "calls": calls,
    })
}

/// A provider that failed although its requests have answers.
fn passed_over_line(calls: u64, failure: &PassedOver) -> String {
    let PassedOver { provider, cause, message, answered_by, .. } = failure;
    let what = ui::yellow(&format!("the provider {provider} failed {}", ui::count(calls, "time")));
    format!("{what}: {cause}: {message}; {answered_by} answered instead")
}

fn failure_json((kind, failure): &(FailureKind, RequestFailure), names: &Names) -> Value {
    json!({
        "state": if kind.has_ended { "failed" } else { "backoff" },
        "reason_code": kind.reason, "cause": kind.cause, "requests": failure.requests,
        "request_id": failure.told.first().map(|told| &told.request_id),
        "message": failure.told.first().map(|told| &told.message),
        "messages": failure.told.iter().map(|told| json!({
            "request_id": told.request_id, "message": told.message, "requests": told.requests,
            "source": names.get(&told.request_id),
        })).collect::<Vec<_>>(),
        "next_attempt": failure.next.map(|at| at.to_string()),
    })
}

/// What still fails, why, and when it is tried again.
fn failure_lines(kind: &FailureKind, failure: &RequestFailure, names: &Names) -> Vec<String> {
    // A person knows the source. The id is what `show` takes.
    let who = |told: &FailureMessage| match names.get(&told.request_id) {
        Some(name) if told.requests > 1 => format!("{name} and {} more", told.requests - 1),
        Some(name) => format!("{name}, {}", told.request_id),
        None if told.requests == 1 => told.request_id.clone(),
        None => String::new(),
    };
    let requests = ui::count(failure.requests, "request");
    if kind.cause == Some(FailureCause::Batch) {
        let wait = if failure.requests == 1 { "waits" } else { "wait" };
        let what = ui::yellow(&format!("{requests} {wait} for a batch"));
        return vec![format!("{what}: `summarizer status` shows the batches")];
    }
    let what = match (kind.has_ended, kind.is_put_off()) {
        (true, _) => ui::red(&format!("{requests} failed")),
        (false, false) => ui::red(&format!("{requests} failed for now")),
        (false, true) => ui::yellow(&format!("{requests} put off")),
    };
    let reason = kind.reason.map_or("failed", |reason| reason.as_str());
    let cause = kind.cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
    let next = failure.next.map(|at| format!("; the next attempt: {at}")).unwrap_or_default();
    let [only] = failure.told.as_slice() else {
        let mut lines = vec![format!("{what}: {reason}{cause}{next}")];
        lines.extend(failure.told.iter().map(|told| match who(told) {
            who if who.is_empty() => {
                format!("  {}: {}", ui::count(told.requests, "request"), told.message)
            }
            who => format!("  {who}: {}", told.message),
        }));
        if failure.untold > 0 {
            let more = ui::count(failure.untold, "request");
            lines.push(format!("  and {more} with other words: see `summarizer requests`"));
        }
        return lines;
    };
    let of = match who(only) {
        who if who.is_empty() => String::new(),
        who => format!(" ({who})"),
    };
    vec![format!("{what}: {reason}{cause}: {}{of}{next}", only.message)]
}
