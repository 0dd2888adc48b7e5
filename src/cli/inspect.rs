//! `status`, `requests` and `show`: the state of the home, its requests, and one request's history.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use chrono_tz::Tz;
use clap::Args;
use serde_json::{Value, json};

use super::acks::reason_words;
use super::failure::{Exit, Failure};
use super::held_home::warn_of_forgetting;
use super::home_access::HomeAccess;
use super::plain::plain_line;
use super::prose::{Prose, shortened};
use super::published::{PRIVATE, Published, VersionChoice, named, one_named, open_bus};
use super::read::{forgotten_in, nearest_name, summary_lines, was_forgotten};
use super::registry::HomeNames;
use super::settings::load_config;
use super::since::since;
use super::source_files::known_name;
use super::watch::left_out;
use super::{Context, names, ui};
use crate::bus::{Item, SummaryBus};
use crate::contract::time::{Day, parse_instant};
use crate::contract::vocabulary::{FailureCause, Stream, Warning};
use crate::control::question::Question;
use crate::control::waits::WaitsFor;
use crate::facts::dialect::LearnedDialect;
use crate::home::Home;
use crate::state::Status;

/// Columns of a message in `status`.
const MESSAGE_COLUMNS: usize = 200;
/// A host of a cluster that serves is heard of more often.
const SILENT_SECONDS: f64 = 10.0;

/// Show the state of the home
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Refresh every second until interrupted
    #[arg(long)]
    watch: bool,
}

/// List requests, newest first
#[derive(Debug, Args)]
pub(crate) struct RequestsArgs {
    /// Only this state: ready, waiting, running, backoff, completed, failed_permanent, …
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only this flow
    #[arg(long, value_name = "FLOW_ID")]
    flow: Option<String>,
    /// Only requests taken in since this day or time, or within this time: 2026-02-01, 7d
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Most requests to list; 0 for all
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
}

/// Show one request or summary with its whole history
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A request id, a summary id or the name of a source
    id: String,
}

impl StatusArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut before: Option<(Instant, Value)> = None;
        loop {
            let mut session = HomeAccess::open(context)?;
            let status = session.ask(context, &Question::Status);
            session.close()?;
            let mut status = status?;
            warn_of_forgetting(context);
            name_failures(context, &mut status);
            name_left_out(context, &mut status);
            if context.ui.json {
                context.ui.json(&status);
            } else {
                if self.watch {
                    context.ui.raw(b"\x1b[2J\x1b[H");
                }
                status_lines(&status).iter().for_each(|line| context.ui.out(line));
                if let Some((at, before)) = &before {
                    rate_lines(at.elapsed(), before, &status)
                        .iter()
                        .for_each(|line| context.ui.out(line));
                }
            }
            before = Some((Instant::now(), status));
            if !self.watch {
                return Ok(Exit::Done);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

/// Adds the files of watched folders that a person took back.
fn name_left_out(context: &Context, status: &mut Value) {
    let Ok(config) = load_config(context) else { return };
    if config.watches.is_empty() {
        return;
    }
    let names = left_out(context, &config, &Home::new(&context.home, &config));
    status["watched"] = json!({"forgotten": names});
}

/// Adds the names of sources to the failures of a status.
fn name_failures(context: &Context, status: &mut Value) {
    let failures = status.pointer_mut("/requests/failures").and_then(Value::as_array_mut);
    let Some(failures) = failures else { return };
    let ids: Vec<String> = failures.iter().map(|one| text(&one["request_id"])).collect();
    let names = sources_of(context, ids.iter().map(String::as_str));
    for (failure, id) in failures.iter_mut().zip(&ids) {
        failure["source"] = names.get(id).cloned().into();
    }
}

/// A value as people read it: texts without quotes, null as `-`.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => plain_line(text),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

/// The change for each second since the last refresh.
fn rate_lines(passed: Duration, before: &Value, now: &Value) -> Vec<String> {
    let change = |pointer: &str| {
        let of = |status: &Value| status.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0);
        (of(now) - of(before)) / passed.as_secs_f64().max(0.001)
    };
    let mut rates = Vec::new();
    for (pointer, name) in [
        ("/queue/lines", "lines taken in"),
        ("/requests/by_status/completed", "completed"),
        ("/log/head", "events"),
    ] {
        rates.push(format!("{:.1} {name}", change(pointer)));
    }
    vec![format!("{:<12} {}", ui::dim("a second"), rates.join(", "))]
}

fn status_lines(status: &Value) -> Vec<String> {
    if let Some(starting) = status["starting"].as_str() {
        return vec![format!("starting: {starting}")];
    }
    let mut lines = StatusLines::default();
    lines.session_and_queue(status);
    lines.requests(status);
    lines.agent_runs(&status["compaction"]);
    lines.digests(&status["digests"]);
    lines.watched(&status["watched"]);
    lines.log_and_disk(status);
    lines.0
}

/// How far a host of a cluster is, in words.
fn host_words(host: &Value) -> String {
    let far = match (host["leads"].as_bool(), host["behind"].as_u64()) {
        (Some(true), _) => "leads".to_owned(),
        (_, Some(0)) => "level".to_owned(),
        (_, Some(commits)) => format!("{} behind", ui::count(commits, "commit")),
        (_, None) => "never heard of".to_owned(),
    };
    let silent = host["silent_seconds"].as_f64().unwrap_or_default();
    let heard = match silent > SILENT_SECONDS {
        true => format!(", {}", ui::yellow(&format!("silent for {silent:.0} s"))),
        false => String::new(),
    };
    let differs = match host["agrees"].as_bool() {
        Some(false) => format!(", {}", ui::red("its log is no part of the list")),
        _ => String::new(),
    };
    format!("{} {far}{heard}{differs}", text(&host["host"]))
}

/// The lines of `status`, one section after the other.
#[derive(Default)]
struct StatusLines(Vec<String>);

impl StatusLines {
    fn line(&mut self, name: &str, what: String) {
        self.0.push(format!("{:<12} {what}", ui::dim(name)));
    }

    fn cluster(&mut self, cluster: &Value) {
        let Some(role) = cluster["role"].as_str() else { return };
        let mut what = format!("{} as the host {}", plain_line(role), text(&cluster["host"]));
        if let Some(count) = cluster["attempts_elsewhere"].as_u64().filter(|count| *count > 0) {
            let attempts = ui::count(count, "attempt");
            what = format!("{what}; other hosts carry out {attempts}");
        }
        for (trouble, name) in [
            ("unreached", "hears nothing of the shared log"),
            ("unshipped", "the lines of its queue wait here"),
        ] {
            if let Some(why) = cluster[trouble]["message"].as_str() {
                let since = cluster[trouble]["since"].as_str();
                let since = since.map(|since| format!(" since {}", plain_line(since)));
                let told = format!("{name}{}: {}", since.unwrap_or_default(), plain_line(why));
                what = format!("{what}; {}", ui::yellow(&told));
            }
        }
        self.line("cluster", what);
        let hosts = cluster["hosts"].as_array().into_iter().flatten();
        let hosts: Vec<String> = hosts.map(host_words).collect();
        if !hosts.is_empty() {
            self.line("hosts", hosts.join("; "));
        }
    }

    /// The files of watched folders that were forgotten.
    fn watched(&mut self, watched: &Value) {
        let names: Vec<String> =
            watched["forgotten"].as_array().into_iter().flatten().map(text).collect();
        let Some(first) = names.first() else { return };
        let what = match names.len() {
            1 => format!("{first} was forgotten and is left out"),
            count => format!("{first} and {} more were forgotten and are left out", count - 1),
        };
        self.line(
            "watched",
            ui::yellow(&format!("{what}; `summarizer add` takes a file in again")),
        );
    }

    fn session_and_queue(&mut self, status: &Value) {
        match &status["session"] {
            Value::Null => self.line("session", "none; no process holds the home".to_owned()),
            session => self.line(
                "session",
                format!(
                    "{} ({}, since {})",
                    text(&session["run_id"]),
                    text(&session["command"]),
                    text(&session["started_at"])
                ),
            ),
        }
        self.cluster(&status["cluster"]);
        if let Some(causes) = status["paused"].as_array().filter(|causes| !causes.is_empty()) {
            let causes: Vec<String> = causes.iter().map(text).collect();
            self.line("paused", ui::yellow(&causes.join(", ")));
        }
        let queue = &status["queue"];
        self.line(
            "queue",
            format!(
                "{} consumed, {} behind",
                ui::told(&queue["lines"], "line"),
                ui::told(&queue["lag_bytes"], "byte")
            ),
        );
    }

    /// How much models read, where their servers showed it, and what they refuse.
    fn learned(&mut self, all: &Value) {
        let all: Vec<LearnedDialect> = serde_json::from_value(all.clone()).unwrap_or_default();
        for LearnedDialect { provider, model, dialect, .. } in all {
            let context = dialect.context.map(|tokens| {
                format!("it reads {} of a prompt and its answer", ui::count(tokens, "token"))
            });
            let facts: Vec<String> = context.into_iter().chain(dialect.told()).collect();
            if !facts.is_empty() {
                self.line("learned", format!("{provider} {model}: {}", facts.join("; ")));
            }
        }
    }

    /// What models cost on the latest day with paid calls.
    fn charged(&mut self, charged: &Value) {
        let Some(providers) = charged["providers"].as_object() else { return };
        let cost = |one: &Value| one["cost"].as_f64().unwrap_or(0.0);
        let all: f64 = providers.values().map(cost).sum();
        if all <= 0.0 {
            return;
        }
        let each: Vec<String> = providers
            .iter()
            .filter(|(_, one)| cost(one) > 0.0)
            .map(|(name, one)| {
                format!("{name} {:.4} for {}", cost(one), ui::told(&one["calls"], "call"))
            })
            .collect();
        let day = text(&charged["day"]);
        self.line("cost", format!("{all:.4} on {day} ({})", each.join(", ")));
    }

    fn requests(&mut self, status: &Value) {
        let requests = &status["requests"];
        self.line(
            "open",
            format!(
                "{} ({} ready, {} delayed, {} running)",
                requests["open"], requests["ready"], requests["delayed"], requests["running"]
            ),
        );
        if let Some(states) = requests["by_status"].as_object() {
            for (state, count) in states.iter().filter(|(_, count)| count.as_u64() != Some(0)) {
                self.line("", format!("{count:>8} {state}"));
            }
        }
        for trouble in requests["troubles"].as_array().into_iter().flatten() {
            let reason = reason_words(trouble).unwrap_or_default();
            let next = trouble["next_attempt"].as_str().map(|at| format!(", next attempt at {at}"));
            let (count, state) = (&trouble["requests"], text(&trouble["state"]));
            let next = next.unwrap_or_default();
            self.line("", ui::yellow(&format!("{count:>8} {state}: {reason}{next}")));
        }
        // The troubles tell the others.
        for wait in requests["waits"].as_array().into_iter().flatten() {
            if WaitsFor::of(wait).is_some_and(WaitsFor::is_merely_early) {
                let (count, what) = (&wait["requests"], plain_line(&text(&wait["for"])));
                let next = wait["next"].as_str().map(|at| format!(", next at {at}"));
                self.line("", format!("{count:>8} waiting: {what}{}", next.unwrap_or_default()));
            }
        }
        for failure in requests["failures"].as_array().into_iter().flatten() {
            let reason = reason_words(failure).unwrap_or_default();
            let (count, state) = (&failure["requests"], text(&failure["state"]));
            let kind = format!("{count:>8} {state}: {reason}");
            let (id, why) = (text(&failure["request_id"]), text(&failure["message"]));
            let why = shortened(&why, MESSAGE_COLUMNS);
            let source = failure["source"].as_str().map(|name| format!("{}, ", plain_line(name)));
            let source = source.unwrap_or_default();
            self.line("", format!("{}: {why} ({source}{id})", ui::red(&kind)));
        }
        for resting in status["resting_providers"].as_array().into_iter().flatten() {
            let [provider, cause, until, why] =
                ["provider", "cause", "until", "message"].map(|name| text(&resting[name]));
            let told = format!("{provider}: {cause}; it gets no calls until {until}");
            self.line("resting", ui::yellow(&told));
            self.line("", format!("its last answer: {}", shortened(&why, MESSAGE_COLUMNS)));
        }
        for failing in status["failing_providers"].as_array().into_iter().flatten() {
            let (provider, cause) = (text(&failing["provider"]), text(&failing["cause"]));
            let (instead, last) = (text(&failing["answered_by"]), text(&failing["last"]));
            let calls = ui::told(&failing["calls"], "call");
            let why = text(&failing["message"]);
            self.line("failing", ui::yellow(&format!("{provider}: {cause}, last at {last}")));
            self.line("", format!("{why}; {instead} answered {calls} instead"));
        }
        self.learned(&status["learned"]);
        self.charged(&status["charged"]);
        if let Some(traces) = status["telemetry"].as_object() {
            let count = |name: &str| text(&traces[name]);
            let (sent, lost) = (count("sent"), [count("dropped"), count("refused")]);
            let is_lost = lost.iter().any(|count| count != "0");
            let [dropped, refused] = lost;
            let told = format!("{sent} spans sent, {dropped} dropped, {refused} refused");
            self.line("traces", if is_lost { ui::yellow(&told) } else { told });
            self.line("", format!("to {}", text(&traces["endpoint"])));
            if let Some(why) = traces["last_error"].as_str().filter(|_| is_lost) {
                self.line("", why.to_owned());
            }
        }
        for (provider, speed) in status["tokens_per_second"].as_object().into_iter().flatten() {
            self.line("speed", format!("{provider} writes {speed} tokens a second"));
        }
        for batch in status["batches"].as_array().into_iter().flatten() {
            let questions = ui::told(&batch["questions"], "question");
            let (provider, model) = (text(&batch["provider"]), text(&batch["model"]));
            let place = match batch["server_id"].as_str() {
                Some(id) => format!("at the server as {id}"),
                None => "not known to be at the server".to_owned(),
            };
            let since = text(&batch["prepared_at"]);
            self.line("batch", format!("{questions} to {provider} ({model}), since {since}"));
            self.line("", place);
        }
        if let Some(finished) = status["finished_batches"].as_object() {
            let batches = ui::told(&finished["batches"], "batch");
            let answers = ui::told(&finished["answered"], "answer");
            let saved = finished["saved"].as_f64().unwrap_or_default();
            let saved = match saved > 0.0 {
                true => format!(", {saved:.4} saved"),
                false => String::new(),
            };
            self.line("batches", format!("{batches} ended with {answers}{saved}"));
            let newest = &finished["recent"][0];
            let (end, at) = (text(&newest["end"]), text(&newest["ended_at"]));
            let of = format!("{} of {}", text(&newest["answered"]), text(&newest["questions"]));
            let message = text(&newest["message"]);
            let why = if message.is_empty() { String::new() } else { format!(": {message}") };
            self.line("", format!("the newest: {end} at {at}, {of} answered{why}"));
        }
        if status["quarantined"].as_u64() != Some(0) {
            self.line("quarantined", ui::red(&status["quarantined"].to_string()));
        }
        if let Some(oldest) = status["oldest_open"].as_object() {
            self.line("oldest", format!("taken at {}", text(&oldest["taken_at"])));
        }
        if !status["next_eligible"].is_null() {
            self.line("next", format!("may start at {}", text(&status["next_eligible"])));
        }
    }

    fn agent_runs(&mut self, runs: &Value) {
        for (name, of) in [("snapshot", &runs["service"]), ("", &runs["latest"])] {
            if let Some(id) = of["snapshot_id"].as_str() {
                self.line(name, format!("{id} of run {}", text(&of["run_id"])));
            }
        }
        if let Some(failure) = runs["last_failure"].as_object() {
            let (run, why) = (text(&failure["run_id"]), text(&failure["message"]));
            self.line("stopped", ui::red(&format!("run {run}: {why}")));
        }
        for (file, why) in runs["set_aside"].as_object().into_iter().flatten() {
            self.line("skipped", ui::yellow(&format!("{file}: {}", text(why))));
        }
    }

    fn digests(&mut self, digests: &Value) {
        if let Some(updated) = digests["updated_at"].as_str() {
            let (bags, memos) =
                (ui::told(&digests["bags"], "bag"), ui::told(&digests["memos"], "memo"));
            self.line("digests", format!("{bags} with {memos}, as of {updated}"));
        }
        if digests["retired"].as_u64().is_some_and(|retired| retired > 0) {
            self.line(
                "",
                format!(
                    "{} to be removed by `digest gc`",
                    ui::told(&digests["retired"], "retired bag")
                ),
            );
        }
        if digests["last_build"]["ok"] == false {
            let (run, record) =
                (&digests["last_build"]["run_id"], &digests["last_build"]["record"]);
            self.line("", ui::red(&format!("build {} failed: see {}", text(run), text(record))));
        }
        for failed in digests["failed"].as_array().into_iter().flatten() {
            self.line("", ui::yellow(&format!("a failed build left {}", text(&failed["staged"]))));
        }
    }

    fn log_and_disk(&mut self, status: &Value) {
        let log = &status["log"];
        self.line(
            "log",
            format!(
                "{}, {}, head {}",
                ui::told(&log["head"], "event"),
                ui::told(&log["bytes"], "byte"),
                &text(&log["hash"])[..12]
            ),
        );
        if let Some(free) = status["disk"]["free_bytes"].as_u64() {
            self.line("disk", format!("{} MiB free", free >> 20));
        }
    }
}

impl RequestsArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let since_ms = self.since.as_deref().map(|when| since(context, when)).transpose()?;
        let since_ms = since_ms.map(|at| at.0);
        let states = || std::iter::once("ready").chain(Status::ALL.iter().map(|one| one.as_str()));
        if let Some(state) = self.state.as_deref().filter(|state| states().all(|one| one != *state))
        {
            return Err(names::unknown("state", state, states()));
        }
        let flow = self.flow.as_deref().map(|flow| names::flow_id(context, flow)).transpose()?;
        let zone = load_config(context)?.timezone;
        let mut session = HomeAccess::open(context)?;
        let mut before = None;
        let mut left = if self.limit == 0 { usize::MAX } else { self.limit };
        let (mut rows, mut names) = (Vec::new(), SourceNames::new(context));
        // Each `add` of the same files asks for the same again.
        let (hides, mut hidden) = (self.state.is_none() && !context.ui.json, 0);
        while left > 0 {
            let question = Question::Requests {
                state: self.state.clone(),
                flow: flow.clone(),
                since_ms,
                before,
                limit: Some(left),
                names: true,
            };
            let page = session.ask(context, &question)?;
            let mut found = page["requests"].as_array().cloned().unwrap_or_default();
            if hides {
                let before = found.len();
                found.retain(|row| row["state"] != Status::Duplicate.as_str());
                hidden += before - found.len();
            }
            left = left.saturating_sub(found.len());
            for mut row in found {
                row["source"] = names.of(&row).into();
                match context.ui.json {
                    true => context.ui.json(&row),
                    false => rows.push(request_row(&row, zone)),
                }
            }
            before = page["next"].as_u64();
            if before.is_none() {
                break;
            }
        }
        // A short id names a request only among the newest ones.
        let known = match context.ui.json || rows.is_empty() {
            true => BTreeSet::new(),
            false => session.newest_requests(context),
        };
        session.close()?;
        if !context.ui.json {
            // A narrow terminal shows the first ones.
            let header =
                ["REQUEST", "STATE", "SOURCE", "REASON", "NEXT", "TAKEN", "FLOW", "TRIES", "REPO"];
            context.ui.table_of_known(&header, &rows, &|id| known.contains(id));
            if hidden > 0 {
                let all = ui::count(hidden as u64, "duplicate");
                context.ui.talk(format!("{all} left out: see `--state duplicate`"));
            }
            let has_trouble = |row: &Vec<String>| row[3] != "-" && row[1] != "completed";
            if rows.iter().any(has_trouble) {
                context.ui.talk("`summarizer show REQUEST` shows the reason and what to do");
            }
        }
        Ok(Exit::Done)
    }
}

/// The names of the sources of requests, as their people know them.
struct SourceNames {
    /// `None` while nothing is published.
    bus: Option<SummaryBus>,
    /// By the day files that were read: the names by the ids of summaries.
    read: BTreeMap<(String, String), BTreeMap<String, String>>,
}

impl SourceNames {
    fn new(context: &Context) -> SourceNames {
        SourceNames { bus: open_bus(context).ok(), read: BTreeMap::new() }
    }

    /// The name in the published summary; before there is one, what the request says.
    fn of(&mut self, row: &Value) -> Option<String> {
        let known = row["source"].as_str().map(str::to_owned);
        self.published(&row["summary"]).or(known).or_else(|| {
            let first = row["input"].as_str()?;
            Some(match row["inputs"].as_u64() {
                Some(many) if many > 1 => format!("{first} and {} more", many - 1),
                _ => first.to_owned(),
            })
        })
    }

    fn published(&mut self, summary: &Value) -> Option<String> {
        let word = |name: &str| summary[name].as_str();
        let (id, stream, day) = (word("summary_id")?, word("stream")?, word("day")?);
        let bus = self.bus.as_ref()?;
        let names = self.read.entry((stream.to_owned(), day.to_owned())).or_insert_with(|| {
            let place = Stream::parse(stream).zip(day.parse::<Day>().ok());
            let partition = place.and_then(|(stream, day)| bus.partition(stream, day).ok());
            let items = partition.iter().flat_map(|found| found.items().flatten());
            let named = |item: Item| Some((item.summary_id().to_owned(), name_of(&item)?));
            items.filter_map(named).collect()
        });
        names.get(id).cloned()
    }
}

/// Requests whose sources are looked up for one answer.
const SOURCES_NAMED: usize = 50;

/// The names of the sources of some requests, by their ids. One that cannot be found has none.
pub(super) fn sources_of<'i>(
    context: &Context,
    ids: impl Iterator<Item = &'i str>,
) -> BTreeMap<String, String> {
    let ids: BTreeSet<&str> = ids.filter(|id| !id.is_empty()).take(SOURCES_NAMED).collect();
    if ids.is_empty() {
        return BTreeMap::new();
    }
    let Ok(mut session) = HomeAccess::open(context) else { return BTreeMap::new() };
    let named = ids.into_iter().filter_map(|id| {
        let shown = session.ask(context, &Question::Show { id: id.to_owned() }).ok()?;
        Some((id.to_owned(), plain_line(shown["latest"]["source"].as_str()?)))
    });
    let named = named.collect();
    // Names are help: what was asked for is told without them.
    let _ = session.close();
    named
}

fn name_of(item: &Item) -> Option<String> {
    let known = item.value["meta"]["source_name"].as_str();
    known.or_else(|| item.value["title"].as_str()).map(str::to_owned)
}

/// A time as a person reads it: day, hour and minute on the clock of the home.
fn time_shown(time: &Value, zone: Tz) -> String {
    match time.as_str().and_then(|text| parse_instant(text).ok()) {
        Some(moment) => format!("{} {}", moment.at.day_in(zone), moment.at.clock_in(zone)),
        None => text(time),
    }
}

fn request_row(row: &Value, zone: Tz) -> Vec<String> {
    let mut cells: Vec<String> =
        ["request_id", "state", "source", "reason_code", "taken_at", "flow_id", "attempts", "repo"]
            .iter()
            .map(|name| text(&row[*name]))
            .collect();
    if row["cause"].is_string() {
        cells[3] = reason_words(row).unwrap_or_default();
    }
    if let Some(what) = row["waits"]["for"].as_str().filter(|_| row["reason_code"].is_null()) {
        cells[3] = what.to_owned();
    }
    cells[4] = time_shown(&row["taken_at"], zone);
    cells.insert(4, time_shown(&row["waits"]["next"], zone));
    cells
}

impl ShowArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut shown = ask_by_name(context, &self.id, &|id| Question::Show { id })?;
        if context.ui.json {
            if let Some(one) = summary_of(context, &shown["latest"]) {
                shown[PRIVATE] = one.is_private().into();
                shown["replaced_by"] = one.replaced_by().into();
            }
            context.ui.json(&shown);
            return Ok(Exit::Done);
        }
        show_text(context, &shown["latest"]);
        show_one(context, &shown["latest"]);
        for earlier in shown["earlier"].as_array().into_iter().flatten() {
            context.ui.out("");
            context.ui.out(ui::dim("earlier:"));
            show_one(context, earlier);
        }
        context.ui.talk(ui::dim(&next_command(&shown["latest"])));
        Ok(Exit::Done)
    }
}

/// The next command for a request, by its state.
fn next_command(shown: &Value) -> String {
    let id = text(&shown["request"]["request_id"]);
    match shown["state"].as_str().unwrap_or_default() {
        "completed" | "duplicate" => {
            format!("next: `summarizer explain {id}` shows where each sentence comes from")
        }
        state if state.starts_with("failed") => {
            format!("next: `summarizer retry {id}` asks again")
        }
        "ready" | "parked" | "waiting" | "running" | "backoff" | "held" => {
            "next: `summarizer status` says what is under way".to_owned()
        }
        _ => "next: `summarizer requests` lists the requests".to_owned(),
    }
}

/// Asks about an id. When nothing has it, about the summary whose source has this name.
pub(super) fn ask_by_name(
    context: &Context,
    word: &str,
    question: &dyn Fn(String) -> Question,
) -> Result<Value, Failure> {
    let mut session = HomeAccess::open(context)?;
    let mut answer = session.ask(context, &question(word.to_owned()));
    if matches!(&answer, Err(failure) if failure.exit == Exit::Input) {
        match newest_named(context, word) {
            Ok(Some(id)) => answer = session.ask(context, &question(id)),
            Ok(None) => {
                if let Some(day) = forgotten_in(context, &mut session, word) {
                    session.close()?;
                    return Err(was_forgotten(word, &day));
                }
                if let Some(id) = session.request_of(context, word) {
                    answer = session.ask(context, &question(id));
                }
            }
            Err(several) => {
                session.close()?;
                return Err(several);
            }
        }
    }
    session.close()?;
    answer.map_err(|failure| {
        let has_near = failure.advice().is_some_and(|advice| advice.starts_with("did you mean"));
        let near = || nearest_name(&open_bus(context).ok()?, word);
        // A request that is known was named rightly.
        let is_known = failure.in_short().starts_with("request ");
        match failure.exit == Exit::Input && !has_near && !is_known {
            true => match near() {
                Some(near) => failure.hint(format!("did you mean {near}?")),
                None => failure,
            },
            false => failure,
        }
    })
}

/// The newest summary of a source, when the bus can be read.
fn newest_named(context: &Context, word: &str) -> Result<Option<String>, Failure> {
    let Ok(bus) = open_bus(context) else { return Ok(None) };
    Ok(one_named(context, &bus, &known_name(context, word))?.map(|one| one.id().to_owned()))
}

/// The text of the summary that a request made, before everything else.
fn show_text(context: &Context, shown: &Value) {
    if let Some(mut one) = summary_of(context, shown) {
        one.look_for_file(context);
        let names = HomeNames::of(context);
        let lines = summary_lines(Prose::of_stdout(), &one, &names, false, false);
        lines.iter().for_each(|line| context.ui.out(line));
        one.kept_by().iter().for_each(|reason| context.ui.out(format!("  {reason}")));
        if let Some(by) = one.replaced_by() {
            context.ui.out(format!("  the summary in its place: {by}"));
        }
        context.ui.out("");
    }
}

/// The summary that a request made, when it is published.
fn summary_of(context: &Context, shown: &Value) -> Option<Published> {
    let events = shown["events"].as_array().into_iter().flatten();
    let id = events.filter_map(|event| event["summary_id"].as_str()).next_back()?;
    named(&open_bus(context).ok()?, id, VersionChoice::Newest).ok()?.into_iter().next()
}

fn show_one(context: &Context, shown: &Value) {
    let request = &shown["request"];
    context.ui.out(format!(
        "{} {}",
        ui::bold(&text(&request["request_id"])),
        text(&shown["state"])
    ));
    if let Some(day) = shown["forgotten_on"].as_str() {
        context.ui.out(format!("  {} forgotten on {day}, by request", ui::yellow("summary")));
    }
    if let Some(why) = shown["waits"]["message"].as_str() {
        context.ui.out(format!("  {}  {}", ui::yellow("waits"), plain_line(why)));
    }
    if let Some(name) = shown["source"].as_str() {
        context.ui.out(format!("  source {}", plain_line(name)));
    }
    context.ui.out(format!("  flow   {}", text(&request["flow_id"])));
    context.ui.out(format!("  from   {}", text(&request["repo"])));
    context.ui.out(format!("  queue  line {} at byte {}", request["line"], request["offset"]));
    context.ui.out(format!("  key    {}", text(&request["idempotency_key"])));
    context.ui.out(format!("  trace  {}", text(&shown["trace_id"])));
    for warning in Warning::ALL.iter().filter(|warning| acks_warn_of(shown, **warning)) {
        let which = match warning {
            Warning::UpstreamDaysMissing => shown["missing_days"]["message"].as_str(),
            Warning::ParamIgnored => shown["ignored_params"].as_str(),
            _ => None,
        };
        let which = which.map(|which| format!(": {}", plain_line(which))).unwrap_or_default();
        context.ui.out(format!("  {} {}{which}", ui::yellow("warning:"), in_words(*warning)));
    }
    for event in shown["events"].as_array().into_iter().flatten() {
        if event["cause"] == FailureCause::Batch.as_str() {
            let (at, seq) = (text(&event["at"]), &event["seq"]);
            context.ui.out(format!("  {at}  {seq:>8}  waits for a batch"));
            continue;
        }
        let mut line =
            format!("  {}  {:>8}  {}", text(&event["at"]), event["seq"], text(&event["event"]));
        for name in [
            "attempt",
            "status",
            "reason_code",
            "cause",
            "message",
            "retry_at",
            "path",
            "behind_request_id",
        ] {
            if !event[name].is_null() {
                line.push_str(&format!("  {}={}", ui::dim(name), text(&event[name])));
            }
        }
        context.ui.out(line);
    }
}

fn acks_warn_of(shown: &Value, warning: Warning) -> bool {
    let acks = shown["acks"].as_array().into_iter().flatten();
    let mut warnings = acks.flat_map(|ack| ack["warnings"].as_array().into_iter().flatten());
    warnings.any(|one| one == warning.as_str())
}

/// What a warning of an ack says, for a person.
fn in_words(warning: Warning) -> &'static str {
    match warning {
        Warning::FlowDeprecated => "the registry calls this flow deprecated",
        Warning::DeadlineMissed => "the deadline of the request passed before it ended",
        Warning::IdempotencyKeyReusedWithDifferentWork => {
            "its idempotency key was used before for other work, whose summary it got"
        }
        Warning::NotBeforeIsSoft => {
            "its deadline is not after its `not_before`, so it may start earlier"
        }
        Warning::UnknownParam => "the flow does not know one of its parameters",
        Warning::ParamIgnored => "a parameter was not used",
        Warning::ForeignSelectionManifest => "another program wrote its selection manifest",
        Warning::TimestampWithoutOffset => "one of its times has no offset and counts as UTC",
        Warning::RepeatedIds => "it names an id more than once",
        Warning::UpstreamDaysMissing => "days of its range are not published",
        Warning::SourceChanged => {
            "the source changed since this summary was made: `summarizer submit --flow … --again` \
             asks anew"
        }
        Warning::SourceMissing => {
            "a source of this summary is not there any more; the summary stays as it is"
        }
        Warning::SourcePrivate => {
            "the source became private since this summary was made, so no list, digest, feed or \
             selection for others has the summary any more; `summarizer submit --flow … --again` \
             asks anew"
        }
    }
}
