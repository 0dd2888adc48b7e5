//! The Summary Bus of the real program: what it publishes, what it says about it, and what holds
//! while it is killed.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes what it is about to break"
)]

mod ailing;
#[path = "../bus_support/mod.rs"]
mod bus_support;
mod defects;
mod explain;
mod exporters;
mod feeds;
mod independent;
mod large;
mod live;
mod runs;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::Rng;
use support::process::ProcessHome;
use support::requests::ACTIVE;

/// A request for something of a bus.
fn ask(id: &str, kind: &str, bus: &str, ids: &[&str]) -> Value {
    let mut asked = support::requests::request(id, ACTIVE, json!({}));
    asked["created_at"] = "2026-02-11T12:00:00Z".into();
    asked["work"]["summary_kind"] = kind.into();
    asked["input"] = json!({"mode": "ids", "bus": bus, "ids": ids});
    asked
}

/// Something of every stream, by request id.
fn of_every_stream() -> Vec<Value> {
    vec![
        ask("event", "event_summary", "event_bus", &["evt_1", "evt_3"]),
        ask("session", "session_summary", "session_bus", &["ses_1", "ses_0"]),
        ask("document", "document_summary", "chunk_bus", &["doc_a"]),
        ask("chunks", "chunk_set_summary", "chunk_bus", &["chk_a2", "chk_b1"]),
        ask("file", "document_summary", "other", &["notes/a.md"]),
    ]
}

fn home() -> ProcessHome {
    ProcessHome::prepared(|root| bus_support::home(&root.join("buses")))
}

/// The summary that a request made.
fn made(home: &ProcessHome, request_id: &str) -> Value {
    let acks = home.acks();
    let ack = acks.iter().rev().find(|ack| ack["request_id"] == request_id).unwrap();
    assert_eq!(ack["status"], "completed", "{ack}");
    ack["summary"].clone()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

/// Every file under a folder, by path.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
                continue;
            }
            match std::fs::read(&path) {
                Ok(bytes) => drop(found.insert(path.strip_prefix(root).unwrap().into(), bytes)),
                // A service that runs has given a temporary file its name since the folder was listed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => panic!("read {}: {error}", path.display()),
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

/// What the service publishes under a bus home.
fn published(buses: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let ours = ["summaries", "artifacts", "run_records"];
    let mut found = BTreeMap::new();
    for folder in ours {
        let files = tree(&buses.join(folder)).into_iter();
        found.extend(files.map(|(path, bytes)| (Path::new(folder).join(path), bytes)));
    }
    found
}

/// The published tree is valid and is what the log says, byte for byte.
fn check_published(home: &ProcessHome) {
    home.expect(0, &["verify", "--json"]);
    check_exported(home);
}

/// The published tree is what the log says, byte for byte.
fn check_exported(home: &ProcessHome) {
    let again = tempfile::tempdir().unwrap();
    home.expect(0, &["export", "--to", again.path().to_str().unwrap()]);
    let (live, exported) = (published(&home.path("buses")), published(&again.path().join("buses")));
    let names = |tree: &BTreeMap<PathBuf, Vec<u8>>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&live), names(&exported));
    for (path, bytes) in &live {
        let (live, again) =
            (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&exported[path]));
        assert_eq!(live, again, "{}", path.display());
    }
}

/// All run records, by the time they began, and the rows of the bus.
fn run_records(home: &ProcessHome) -> (Vec<Value>, Vec<Value>) {
    let read = |folder: &str| tree(&home.path("buses").join(folder)).into_values();
    let parse = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
    let mut records: Vec<Value> = read("artifacts/run_records").map(parse).collect();
    records.sort_by_key(|record| record["created_at"].as_str().unwrap().to_owned());
    for record in &records {
        assert_eq!(summarizer::contract::schema::check("run_record.v1", record), [], "{record}");
    }
    let mut rows = Vec::new();
    for (path, bytes) in tree(&home.path("buses/run_records/daily")) {
        if path.extension().is_some_and(|end| end == "jsonl") {
            let text = String::from_utf8(bytes).unwrap();
            rows.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
    }
    rows.sort_by_key(|row| row["started_at"].as_str().unwrap().to_owned());
    (records, rows)
}

/// A home with work of every stream over some days, more than half of its events empty, and some of
/// its requests for what is nowhere.
fn many(count: usize, seed: u64, workers: usize) -> (ProcessHome, Vec<Value>) {
    let home = ProcessHome::new();
    let buses = home.path("buses");
    let per_day = count / 4;
    let mut asked = Vec::new();
    let mut ask_for = |id: String, kind: &str, bus: &str, ids: &[String]| {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        asked.push(ask(&id, kind, bus, &ids));
    };
    let event_id = |number: usize| format!("evt_{number:05}");
    for day in 0..4 {
        let (name, midnight) =
            (format!("2026-02-{}", 11 + day), bus_support::MIDNIGHT + day as i64 * 86_400_000);
        let events: Vec<Value> = (day * per_day..(day + 1) * per_day)
            .map(|number| {
                let text = match number % 20 {
                    0..11 => String::new(),
                    _ => format!("Pump {number} ran dry. It was filled again."),
                };
                bus_support::event(&event_id(number), midnight + number as i64, &text)
            })
            .collect();
        bus_support::events_day(&buses, &name, &events);
        // The last session of a day continues after midnight.
        let sessions: Vec<Value> = (0..4)
            .map(|part| {
                let first = day * per_day + part * per_day / 4;
                let end = (first + per_day / 4 + 1).min(per_day * 4);
                let ids: Vec<String> = (first..end).map(event_id).collect();
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                let id = format!("ses_{day}_{part}");
                bus_support::session(&id, &name, midnight + part as i64 * 1000, &ids)
            })
            .collect();
        bus_support::sessions_day(&buses, &name, false, &sessions);
        let partition = if day % 2 == 0 { name.clone() } else { format!("library-{day}") };
        let chunks: Vec<Value> = (0..12)
            .map(|number| {
                let document = number / 3;
                let text = match document {
                    3 => String::new(),
                    _ => format!("Part {number} of {day} tells of valve {document}. It is shut."),
                };
                let id = format!("chk_{day}_{number}");
                bus_support::chunk(&id, &format!("doc_{day}_{document}"), number, &text)
            })
            .collect();
        bus_support::chunks(&buses, &partition, &chunks);
        let note = format!("note-{day}.md");
        home.note(&note, &format!("# Note {day}\n\nThe pump of day {day} is new.\n"));
        ask_for(format!("other_{day}"), "document_summary", "other", &[note]);
        for part in 0..4 {
            let session = |part: usize| format!("ses_{day}_{part}");
            let id = format!("session_{day}_{part}");
            ask_for(id, "session_summary", "session_bus", &[session(part)]);
            let id = format!("sessions_{day}_{part}");
            let two = [session(part), session((part + 1) % 4)];
            ask_for(id, "session_summary", "session_bus", &two);
            let id = format!("document_{day}_{part}");
            ask_for(id, "document_summary", "chunk_bus", &[format!("doc_{day}_{part}")]);
            let two = [format!("chk_{day}_{part}"), format!("chk_{day}_{}", 11 - part)];
            ask_for(format!("chunks_{day}_{part}"), "chunk_set_summary", "chunk_bus", &two);
        }
    }
    for (kind, bus) in [
        ("event_summary", "event_bus"),
        ("session_summary", "session_bus"),
        ("document_summary", "chunk_bus"),
        ("chunk_set_summary", "chunk_bus"),
    ] {
        ask_for(format!("gone_{kind}"), kind, bus, &["nowhere".to_owned()]);
    }
    for number in 0..per_day * 4 {
        let last = (number + number % 3 + 1).min(per_day * 4);
        let ids: Vec<String> = (number..last).map(event_id).collect();
        ask_for(format!("r{number}"), "event_summary", "event_bus", &ids);
    }
    // An attempt that ends with its service counts, and no request is to fail by it, however often one is killed.
    let config = format!(
        "[workers]\ncount = {workers}\n[retry]\nmax_attempts = 1000\n\
         [export]\nmin_interval = \"5 ms\"\nmax_share_of_time = 0.9\n"
    );
    std::fs::write(home.path("summarizer.toml"), config).unwrap();
    let mut random = Rng::new(seed);
    for at in (1..asked.len()).rev() {
        asked.swap(at, random.below(at as u64 + 1) as usize);
    }
    (home, asked)
}

/// The published lines without the run that made them.
fn lines_of(home: &ProcessHome) -> BTreeMap<PathBuf, Vec<Value>> {
    let files = tree(&home.path("buses/summaries")).into_iter();
    let data = files.filter(|(path, _)| path.extension().is_some_and(|end| end == "jsonl"));
    data.map(|(path, bytes)| {
        let text = String::from_utf8(bytes).unwrap();
        let lines = text.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line["producer"]["run_id"] = Value::Null;
            line
        });
        (path, lines.collect())
    })
    .collect()
}

/// The manifests without what names a run or the bytes of its lines.
fn manifests_of(home: &ProcessHome) -> BTreeMap<PathBuf, Value> {
    tree(&home.path("buses/summaries/manifest"))
        .into_iter()
        .map(|(path, bytes)| {
            let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
            for name in ["run_id", "created_at", "sequence", "log_head", "hashes", "integrity"] {
                manifest[name] = Value::Null;
            }
            manifest["producer"]["run_id"] = Value::Null;
            (path, manifest)
        })
        .collect()
}

/// Changes one byte of a file.
fn flip(path: &Path, what: &str, with: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(what), "{} holds no {what}", path.display());
    std::fs::write(path, text.replacen(what, with, 1)).unwrap();
}
