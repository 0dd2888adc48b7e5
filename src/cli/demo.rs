//! `demo`: makes a home with sample data, and processes it, in one command.
//!
//! Mails, chats, news, job posts and documents, in English and Spanish, are imported onto the buses.
//! Requests over all of them go into the queue, among them a repeat, an empty text, an unknown flow and
//! an invalid line. The embedded provider answers. The overview is read from the published files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::serve::run_service;
use super::session::Session;
use super::settings::load_config;
use super::{Context, ui};
use crate::bus::SummaryBus;
use crate::contract::hash::sha256;
use crate::contract::json::{jcs, to_file};
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::Stream;
use crate::control::question::Question;
use crate::home::Home;
use crate::import::{ImportError, Report, Target, documents, fields, mail};
use crate::os::Open;
use crate::projections::runs::RunQuestion;
use crate::service::Until;
use crate::upstream::Family;
use crate::verify::{Options, verify_tree};

/// The sample files to be imported: name, bytes.
const SOURCES: &[(&str, &str)] = &[
    ("mails.mbox", include_str!("demo/mails.mbox")),
    ("chats.jsonl", include_str!("demo/chats.jsonl")),
    ("news.json", include_str!("demo/news.json")),
    ("documents/handbook.md", include_str!("demo/handbook.md")),
    ("documents/guia.md", include_str!("demo/guia.md")),
];

/// Files of the bus `other`, which has no manifests.
const OTHER: &[(&str, &str)] = &[
    ("job-rust.txt", include_str!("demo/job-rust.txt")),
    ("puesto-datos.txt", include_str!("demo/puesto-datos.txt")),
    ("noticias.txt", include_str!("demo/noticias.txt")),
    ("empty.txt", "\n"),
];

/// The log of an agent run, to be compacted into a snapshot.
const RUN: &str = include_str!("demo/run.jsonl");
const RUN_ID: &str = "run_evidence_demo";

const BRIEF: &str = "docs.chunk_set.summarize.brief.v1";
/// Characters of a line of the overview.
const LINE_CHARS: usize = 84;

/// Make a home with sample data and requests, process them, and show the results
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The directory; must be absent or empty [default: a new directory under the temporary directory]
    dir: Option<PathBuf>,
}

impl DemoArgs {
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let root = self.root(context)?;
        let demo = Context { home: root.clone(), config_file: None, ..context.clone() };
        let config = load_config(&demo)?;
        let home = Home::new(&root, &config);
        let failed = |error: &std::io::Error| {
            Failure::new(Exit::Storage, format!("cannot write the demo to {}", root.display()))
                .because(error)
        };
        let disk = demo.machine.disk.as_ref();
        home.create(disk).map_err(|error| failed(&error))?;
        write(&demo, &home, config.timezone).map_err(|error| {
            Failure::new(Exit::Storage, "cannot import the sample data").because(&error)
        })?;
        let now = demo.machine.clock.now();
        let queue = disk.open(&home.queue, Open::ReadWrite).map_err(|error| failed(&error))?;
        let lines = requests(&demo, &home, now).map_err(|error| failed(&error))?;
        queue.append(lines.as_bytes()).map_err(|error| failed(&error))?;
        queue.sync().map_err(|error| failed(&error))?;
        let by = now.plus_ms(5_000);
        run_service(&demo, "demo", Until::Drained(Some(by)))?;
        let digests = super::digest::build(&demo)?;
        let snapshots = fold_run(&demo)?;
        let shown = Shown::read(&demo, &home, digests, snapshots)?;
        if demo.ui.json {
            demo.ui.json(&shown.to_json(&home));
        } else {
            shown.print(&demo, &home);
        }
        Ok(if shown.violations == 0 { Exit::Done } else { Exit::Wrong })
    }

    fn root(&self, context: &Context) -> Result<PathBuf, Failure> {
        let Some(dir) = &self.dir else {
            let made = tempfile::Builder::new().prefix("summarizer-demo-").tempdir();
            return made.map(tempfile::TempDir::keep).map_err(|error| {
                Failure::new(Exit::Storage, "cannot make a temporary directory").because(&error)
            });
        };
        match context.machine.disk.list(dir) {
            Ok(names) if !names.is_empty() => {
                Err(Failure::new(Exit::Usage, format!("{} is not empty", dir.display()))
                    .hint("name an absent or empty directory"))
            }
            _ => Ok(dir.clone()),
        }
    }
}

/// Writes the sample data, as files to import and on the buses.
fn write(context: &Context, home: &Home, zone: chrono_tz::Tz) -> Result<(), ImportError> {
    let disk = context.machine.disk.as_ref();
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| ImportError::Disk { operation: "write", path, source }
    };
    let own = home.root.join("own-data");
    let other = home.buses.join("other");
    let files = SOURCES.iter().map(|(name, text)| (own.join(name), text));
    for (path, text) in files.chain(OTHER.iter().map(|(name, text)| (other.join(name), text))) {
        let folder = path.parent().unwrap_or(&own).to_owned();
        disk.create_dir_all(&folder).map_err(failed(&folder))?;
        disk.replace(&path, text.as_bytes(), 0o640).map_err(failed(&path))?;
    }
    let target = Target { disk, root: &home.buses, zone, now: context.machine.clock.now() };
    let mut report = Report::default();
    mail::import_file(target, &own.join("mails.mbox"), &mut report)?;
    let chats = fields::Mapping::chat_export();
    fields::import_file(target, &chats, &own.join("chats.jsonl"), &mut report)?;
    fields::import_file(target, &fields::Mapping::feed(), &own.join("news.json"), &mut report)?;
    documents::import_folder(target, &own.join("documents"), "documents", &mut report, || {})?;
    sessions(target)
}

/// Writes the conversations of the event bus as sessions, one for each day.
fn sessions(target: Target<'_>) -> Result<(), ImportError> {
    let events = events(target.disk, target.root).map_err(|source| ImportError::Disk {
        operation: "read",
        path: "eventbus".to_owned(),
        source,
    })?;
    let mut days: BTreeMap<String, BTreeMap<String, Vec<&Event>>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.kind == "chat_turn") {
        let day = days.entry(event.day.clone()).or_default();
        day.entry(event.conversation.clone()).or_default().push(event);
    }
    for (day, conversations) in days {
        let mut data = String::new();
        for (name, turns) in &conversations {
            let (Some(first), Some(last)) = (turns.first(), turns.last()) else { continue };
            let ids: Vec<&str> = turns.iter().map(|turn| turn.id.as_str()).collect();
            let id = stable_id("ses", &[Part::Text("session"), Part::Labelled("chat", name)]);
            let session = json!({
                "schema_version": "session.v1", "session_id": id, "day": day,
                "window": {"window_type": "conversation", "start_ts_ms": first.at,
                           "end_ts_ms": last.at, "timezone": target.zone.name()},
                "event_ids": ids, "event_count": ids.len(), "title_candidates": [first.title],
                "source": {"input_manifest_day": day, "input_manifest_sha256": "",
                           "sessionizer_version": "demo.v1"},
            });
            data.push_str(&jcs(&session));
            data.push('\n');
        }
        let path = Family::Sessions.data_path(&day);
        let manifest = json!({
            "schema_version": "sessions_manifest.v1", "bus_schema_version": "session.v1",
            "day": day, "created_at": target.now.to_string(), "sessions_path": path,
            "producer": {"name": "summarizer-demo", "version": env!("CARGO_PKG_VERSION")},
            "counts": {"sessions_total": conversations.len(),
                       "events_total_referenced": conversations.values().map(Vec::len).sum::<usize>()},
            "integrity": {"sha256": sha256(&data).hex(), "bytes": data.len()},
        });
        let manifest = to_file(&manifest).unwrap_or_default();
        for (path, bytes) in [(path, data), (Family::Sessions.manifest_path(&day), manifest)] {
            let path = target.root.join(path);
            let failed = |source| ImportError::Disk {
                operation: "write",
                path: path.display().to_string(),
                source,
            };
            let folder = path.parent().unwrap_or(target.root);
            target.disk.create_dir_all(folder).map_err(failed)?;
            target.disk.replace(&path, bytes.as_bytes(), 0o640).map_err(failed)?;
        }
    }
    Ok(())
}

struct Event {
    id: String,
    day: String,
    at: i64,
    kind: String,
    title: String,
    conversation: String,
}

/// The events that were imported, in order.
fn events(disk: &dyn crate::os::Disk, buses: &Path) -> std::io::Result<Vec<Event>> {
    let mut found = Vec::new();
    let dir = buses.join(Family::Events.data_dir());
    for name in disk.list(&dir)? {
        let day = name.split('.').next().unwrap_or_default().to_owned();
        for line in String::from_utf8_lossy(&disk.read(&dir.join(&name))?).lines() {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
            found.push(Event {
                id: text("event_id"),
                day: day.clone(),
                at: value["timestamp_ms"].as_i64().unwrap_or(0),
                kind: text("event_kind"),
                title: text("title"),
                conversation: text("conversation_id"),
            });
        }
    }
    found.sort_by_key(|event| event.at);
    Ok(found)
}

/// The sample queue: every bus and stream, now and scheduled, a repeat, an empty text, an unknown
/// flow, a broken line.
fn requests(context: &Context, home: &Home, now: Timestamp) -> std::io::Result<String> {
    let disk = context.machine.disk.as_ref();
    let events = events(disk, &home.buses)?;
    let titled = |word: &str| -> Vec<String> {
        let found = events.iter().filter(|event| event.title.contains(word));
        found.map(|event| event.id.clone()).collect()
    };
    let news: Vec<String> =
        events.iter().filter(|event| event.id.starts_with("news-")).map(|e| e.id.clone()).collect();
    let session =
        |chat: &str| vec![stable_id("ses", &[Part::Text("session"), Part::Labelled("chat", chat)])];
    let document = |title: &str| -> std::io::Result<Vec<String>> {
        let path = home.buses.join(Family::Chunks.data_path("documents"));
        let text = disk.read(&path)?;
        let chunks = String::from_utf8_lossy(&text).into_owned();
        let found = chunks.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut found = found.filter(|chunk| chunk["metadata"]["title"] == title);
        let id = found.next().and_then(|chunk| chunk["document_id"].as_str().map(str::to_owned));
        Ok(id.into_iter().collect())
    };
    let file = |name: &str| vec![name.to_owned()];
    let request = |id: &str, flow: &str, kind: &str, bus: &str, ids: Vec<String>| {
        json!({
            "schema_version": "summary_request.v1", "request_id": id,
            "created_at": now.to_string(), "urgency": "now",
            "requested_by": {"repo": "demo", "component": "sample", "version": "1.0.0"},
            "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                     "summary_kind": kind, "summary_subkind": "sample",
                     "flow_ref": {"kind": "registry", "flow_id": flow}, "params": {}},
            "input": {"mode": "ids", "bus": bus, "ids": ids},
        })
    };
    let (event, document_kind) = ("event_summary", "document_summary");
    let task = "email.triage.extract_task.task_item.v1";
    let appointment = "email.triage.extract_event.calendar_event.v1";
    let gatekeeper = "email.gatekeeper.classify.gatekeeper_item.v1";
    let clusters = "news.articles.parse_and_cluster.topic_clusters.v1";
    let talk = "gpt.session.summarize.parsed_message.v3";
    let screening = "jobs.posting.screen.job_screening.v2";
    let mut lines = vec![
        request("mail-kitchen", task, event, "event_bus", titled("Kitchen")),
        request("mail-reunion", appointment, event, "event_bus", titled("Reunión")),
        request("mail-promotion", gatekeeper, event, "event_bus", titled("Save 40")),
        request("news-clusters", clusters, event, "event_bus", news),
        request("chat-release", talk, "session_summary", "session_bus", session("release")),
        request("chat-viaje", talk, "session_summary", "session_bus", session("viaje")),
        request("job-rust", screening, document_kind, "other", file("job-rust.txt")),
        request("puesto-datos", screening, document_kind, "other", file("puesto-datos.txt")),
        request("handbook", BRIEF, document_kind, "chunk_bus", document("Backup handbook")?),
        request(
            "guia",
            BRIEF,
            "chunk_set_summary",
            "chunk_bus",
            document("Guía de la biblioteca")?,
        ),
        request("noticias-later", BRIEF, document_kind, "other", file("noticias.txt")),
        request("mail-kitchen-again", task, event, "event_bus", titled("Kitchen")),
        request("empty", BRIEF, document_kind, "other", file("empty.txt")),
        request("unknown-flow", "no.such.flow.v1", document_kind, "other", file("job-rust.txt")),
    ];
    for line in &mut lines {
        if line["request_id"] == "noticias-later" {
            line["urgency"] = "scheduled".into();
            line["not_before"] = now.plus_ms(1_000).to_string().into();
        }
    }
    let mut queue: String = lines.iter().map(|line| format!("{}\n", jcs(line))).collect();
    queue.push_str("{\"schema_version\":\"summary_request.v1\",\"request_id\":\"broken\"\n");
    Ok(queue)
}

/// Makes the sample run part of the log and takes a snapshot of it.
fn fold_run(context: &Context) -> Result<usize, Failure> {
    let mut session = Session::open(context)?;
    let append = RunQuestion::Append { text: RUN.to_owned(), first_line: 1, thresholds: None };
    session.ask(context, &Question::Run(append))?;
    let taken = Question::Run(RunQuestion::Snapshot { run_id: RUN_ID.to_owned() });
    session.ask(context, &taken)?;
    let home = Home::new(&context.home, &load_config(context)?);
    session.close()?;
    let files = context.machine.disk.list(&home.snapshots().join(RUN_ID)).unwrap_or_default();
    Ok(files.iter().filter(|name| name.ends_with(".md")).count())
}

/// The content of the overview.
struct Shown {
    acks: Vec<Value>,
    /// Summaries by stream: request, text.
    streams: Vec<(Stream, Vec<(String, String)>)>,
    /// The report of the digest build.
    digests: Value,
    snapshots: usize,
    files: u64,
    violations: u64,
}

impl Shown {
    fn read(
        context: &Context,
        home: &Home,
        digests: Value,
        snapshots: usize,
    ) -> Result<Shown, Failure> {
        let disk = &context.machine.disk;
        let acks = disk
            .read(&home.acks())
            .map_err(|error| Failure::new(Exit::Storage, "cannot read the acks").because(&error))?;
        let mut acks: Vec<Value> = String::from_utf8_lossy(&acks)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|ack: &Value| ack["status"] != "accepted")
            .collect();
        acks.sort_by_key(|ack| ack["line"].as_u64());
        let unreadable = |error: &(dyn std::error::Error + 'static)| {
            Failure::new(Exit::Storage, "cannot read the summaries").because(error)
        };
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        let bus = SummaryBus::open(&home.buses).map_err(|error| unreadable(&error))?;
        let mut places: Vec<(Stream, Day)> = Vec::new();
        for stream in Stream::ALL {
            let days = bus.days(*stream).map_err(|error| unreadable(&error))?;
            places.extend(days.into_iter().map(|day| (*stream, day)));
        }
        for (stream, day) in places {
            let partition = bus.partition(stream, day).map_err(|error| unreadable(&error))?;
            for item in partition.items() {
                let item = item.map_err(|error| unreadable(&error))?;
                texts.insert(item.summary_id().to_owned(), item.summary_text().to_owned());
            }
        }
        let streams = Stream::ALL
            .iter()
            .map(|stream| {
                let made = acks.iter().filter(|ack| {
                    ack["status"] == "completed" && ack["summary"]["stream"] == stream.as_str()
                });
                let rows = made.filter_map(|ack| {
                    let text = texts.get(ack["summary"]["summary_id"].as_str()?)?;
                    Some((ack["request_id"].as_str()?.to_owned(), text.clone()))
                });
                (*stream, rows.collect())
            })
            .collect();
        let options = Options { threads: 1, sources: true };
        let report = verify_tree(disk, &home.buses, options, &|_| {});
        let report = report.map_err(|error| unreadable(&error))?;
        let (files, violations) = (report.files, report.violations_total);
        Ok(Shown { acks, streams, digests, snapshots, files, violations })
    }

    fn to_json(&self, home: &Home) -> Value {
        let streams: serde_json::Map<String, Value> = self
            .streams
            .iter()
            .map(|(stream, rows)| (stream.as_str().to_owned(), rows.len().into()))
            .collect();
        json!({
            "home": home.root, "acks": self.acks, "summaries": streams,
            "digests": self.digests, "snapshots": self.snapshots,
            "verified": {"files": self.files, "violations": self.violations},
        })
    }

    fn print(&self, context: &Context, home: &Home) {
        let out = |line: String| context.ui.out(line);
        for (stream, rows) in self.streams.iter().filter(|(_, rows)| !rows.is_empty()) {
            out(format!("{} {}", ui::bold(stream.as_str()), ui::dim(&rows.len().to_string())));
            for (request, text) in rows {
                out(format!("  {request:<18} {}", one_line(text, LINE_CHARS)));
            }
        }
        out(String::new());
        out(ui::bold("the rest"));
        for ack in &self.acks {
            let summary = !ack["summary"].is_null() && ack["status"] == "completed";
            if !summary {
                out(format!("  {}", outcome(ack)));
            }
        }
        let bags = self.digests["bags"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(title) = bags.first().and_then(|bag| bag[1].as_str()) {
            let what =
                format!("{} with a memo each, such as {title}", ui::count(bags.len(), "bag"));
            out(format!("  {:<18} {what}", "digests"));
        }
        if self.snapshots > 0 {
            let what = "a run of an agent, folded into a checked snapshot and a narrative";
            out(format!("  {:<18} {what}", "snapshot"));
        }
        out(String::new());
        let made: usize = self.streams.iter().map(|(_, rows)| rows.len()).sum();
        let verdict = match self.violations {
            0 => ui::green("every hash and reference verified"),
            count => ui::red(&ui::count(count, "violation")),
        };
        out(format!(
            "{} in four streams, {}, {verdict}",
            ui::count(made, "summary"),
            ui::count(self.files, "file")
        ));
        out(String::new());
        out(ui::bold("Try next"));
        let at = path_for_shell(&home.root);
        for (command, what) in [
            ("explain mail-kitchen", "where each sentence comes from"),
            ("show noticias-later", "a request with its whole history"),
            ("digest preview --selector overview.daily", "what a digest takes and drops, and why"),
        ] {
            out(format!(
                "  summarizer --home {at} {command:<40} {}",
                ui::dim(&format!("# {what}"))
            ));
        }
    }
}

/// The first words of a text, on one line.
fn one_line(text: &str, chars: usize) -> String {
    let words = text.split_whitespace().filter(|word| !word.chars().all(|c| c == '#'));
    let line = words.collect::<Vec<_>>().join(" ");
    if line.chars().count() <= chars {
        return line;
    }
    let cut: String = line.chars().take(chars - 1).collect();
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{}…", &cut[..end])
}

fn outcome(ack: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let id = match ack["request_id"].as_str() {
        Some(id) => id.to_owned(),
        None => format!("line {}", ack["line"]),
    };
    let status = text(&ack["status"]);
    let status = match status.as_str() {
        "completed" => ui::green("skipped"),
        "duplicate" => status,
        _ => ui::yellow(&status),
    };
    let why = match (ack["duplicate_of"].as_str(), ack["reason_code"].as_str()) {
        (Some(of), _) => format!("its summary is that of {of}"),
        (None, Some(reason)) => reason.trim_start_matches("skipped_").replace('_', " "),
        (None, None) => text(&ack["message"]),
    };
    format!("{id:<18} {status}: {why}")
}

fn path_for_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_be_pasted() {
        assert_eq!(path_for_shell(Path::new("/tmp/a-b_c.d")), "/tmp/a-b_c.d");
        assert_eq!(path_for_shell(Path::new("/tmp/it's")), "'/tmp/it'\\''s'");
    }

    #[test]
    fn long_texts_end_at_a_word() {
        assert_eq!(one_line("### two  words\nhere", 20), "two words here");
        assert_eq!(one_line("a sentence that is too long", 12), "a sentence…");
    }
}
