//! The sample data of `demo`: files to import, sessions, documents and the queue.

use super::super::Context;
use crate::contract::hash::sha256;
use crate::contract::json::{jcs, to_file};
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::Timestamp;
use crate::home::Home;
use crate::import::read::Readers;
use crate::import::{ImportError, Report, Target, documents, fields, mail};
use crate::upstream::Family;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const BRIEF: &str = "docs.chunk_set.summarize.brief.v1";

/// The sample files to be imported: name, bytes.
const SOURCES: &[(&str, &str)] = &[
    ("mails.mbox", include_str!("mails.mbox")),
    ("chats.jsonl", include_str!("chats.jsonl")),
    ("news.json", include_str!("news.json")),
    ("documents/handbook.md", include_str!("handbook.md")),
    ("documents/guia.md", include_str!("guia.md")),
];

/// Files of the bus `other`, which has no manifests.
const OTHER: &[(&str, &str)] = &[
    ("job-rust.txt", include_str!("job-rust.txt")),
    ("puesto-datos.txt", include_str!("puesto-datos.txt")),
    ("noticias.txt", include_str!("noticias.txt")),
    ("empty.txt", "\n"),
];

/// Writes the sample data, as files to import and on the buses.
pub(super) fn write(
    context: &Context,
    home: &Home,
    zone: chrono_tz::Tz,
) -> Result<(), ImportError> {
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
    mail::import_file(target, &Readers::default(), (&own.join("mails.mbox"), None), &mut report)?;
    let chats = fields::Mapping::chat_export();
    fields::import_file(target, &chats, (&own.join("chats.jsonl"), None), &mut report)?;
    let news = own.join("news.json");
    fields::import_file(target, &fields::Mapping::feed(), (&news, None), &mut report)?;
    let placing = documents::Placing {
        partition: "documents",
        is_chosen: true,
        name_of: &|file: &std::path::Path| file.display().to_string(),
    };
    documents::import_folder(target, &own.join("documents"), &placing, &mut report, || true)?;
    sessions(target)
}

/// Writes the conversations of the event bus as sessions, one for each day.
pub(super) fn sessions(target: Target<'_>) -> Result<(), ImportError> {
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

pub(super) struct Event {
    id: String,
    day: String,
    at: i64,
    kind: String,
    title: String,
    conversation: String,
}

/// The events that were imported, in order.
pub(super) fn events(disk: &dyn crate::os::Disk, buses: &Path) -> std::io::Result<Vec<Event>> {
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
pub(super) fn requests(context: &Context, home: &Home, now: Timestamp) -> std::io::Result<String> {
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
