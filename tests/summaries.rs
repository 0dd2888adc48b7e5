//! The Summary Bus of the real program: what it publishes, what it says about it, and what holds
//! while it is killed.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes what it is about to break"
)]

mod bus_support;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use support::Rng;
use support::process::{ProcessHome, Running, until};
use support::requests::{ACTIVE, lines};

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

fn selected(home: &ProcessHome) -> Value {
    let selection = json!({"bus": "chunk_bus", "ordering": "as_listed",
        "items": [{"id": "chk_b1"}, {"id": "chk_a1"}]});
    let hash = summarizer::contract::json::jcs_hash(&selection).prefixed();
    let manifest = json!({"schema_version": "selection_manifest.v1",
        "created_at": "2026-02-11T12:00:00Z", "selection": selection, "selection_hash": hash,
        "created_by": {"repo": "tests", "component": "summaries", "version": "dev"}});
    let path = "selection_manifests/two.json";
    bus_support::write(&home.path("buses"), path, manifest.to_string());
    let mut asked = ask("selected", "chunk_set_summary", "chunk_bus", &[]);
    asked["input"] =
        json!({"mode": "selection_manifest", "manifest_path": path, "selection_hash": hash});
    asked
}

/// The summary that a request made.
fn made(home: &ProcessHome, request_id: &str) -> Value {
    let acks = home.acks();
    let ack = acks.iter().rev().find(|ack| ack["request_id"] == request_id).unwrap();
    assert_eq!(ack["status"], "completed", "{ack}");
    ack["summary"].clone()
}

fn explained(home: &ProcessHome, exit: i32, id: &str, more: &[&str]) -> Value {
    let args: Vec<&str> =
        ["--json", "explain", id].into_iter().chain(more.iter().copied()).collect();
    home.expect(exit, &args).json()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

/// The links that do not hold.
fn loose(explained: &Value) -> Vec<(String, String)> {
    let links = list(&explained["links"]).iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let loose = links.filter(|link| link["standing"] != "holds");
    loose.map(|link| (text(&link["link"]), text(&link["standing"]))).collect()
}

#[test]
fn every_sentence_leads_to_its_words_and_every_link_holds() {
    let home = home();
    let mut asked = of_every_stream();
    asked.push(selected(&home));
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    for request in &asked {
        let request_id = request["request_id"].as_str().unwrap();
        let summary = made(&home, request_id);
        let id = summary["summary_id"].as_str().unwrap();
        let found = explained(&home, 0, id, &["--verify", "--show-prompts"]);
        assert_eq!(found["summary_id"], id);
        assert_eq!(loose(&found), [], "{request_id}");
        assert!(list(&found["links"]).len() >= 13, "{found}");
        assert_eq!(found, explained(&home, 0, request_id, &["--verify", "--show-prompts"]));

        let queue = home.read("run/queue.jsonl");
        let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let offset = number(&found["request"]["offset"]);
        let line = &queue[offset..offset + number(&found["request"]["length"])];
        assert_eq!(serde_json::from_slice::<Value>(line).unwrap(), *request);

        let published = std::fs::read_to_string(
            home.path("buses").join(found["published"]["path"].as_str().unwrap()),
        );
        let line = number(&found["published"]["line"]);
        let item: Value =
            serde_json::from_str(published.unwrap().lines().nth(line - 1).unwrap()).unwrap();
        assert_eq!(item["summary_id"], id);

        let text = item["outputs"]["summary_text"].as_str().unwrap();
        assert!(!list(&found["sentences"]).is_empty());
        for sentence in list(&found["sentences"]) {
            assert_eq!(sentence["basis"], "exact", "{request_id}: {sentence}");
            let range = number(&sentence["start"])..number(&sentence["end"]);
            assert_eq!(sentence["text"], text[range]);
            for span in list(&sentence["spans"]) {
                stands_there(&home, span);
            }
        }
        for source in list(&found["sources"]) {
            let bytes = home.read(&format!("buses/{}", source["file"].as_str().unwrap()));
            let (offset, len) = (number(&source["offset"]), number(&source["len"]));
            let record = &bytes[offset..offset + len];
            let hash = summarizer::contract::hash::sha256(record).hex();
            assert_eq!(source["record_sha256"], hash.as_str());
        }
        assert_eq!(found["prompts"]["as_recorded"], true);
        assert!(found["prompts"]["calls"][0]["messages"][0]["text"].is_string(), "{found}");
        assert_eq!(found["attempts"][0]["outcome"], "completed");
        let names: Vec<&str> =
            list(&found["events"]).iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["RequestAccepted", "AttemptStarted", "InputResolved", "SummaryProduced"]
        );
    }
    // People read it too.
    let id = made(&home, "session")["summary_id"].as_str().unwrap().to_owned();
    home.expect(0, &["explain", &id, "--verify"]).says(&[
        "Before midnight.",
        "eventbus/daily/2026-02-10.jsonl:1",
        "source_text_hash",
        "holds",
    ]);
    home.expect(5, &["explain", "sum_00000000000000000000000000000000"]).says(&["no summary"]);
}

#[test]
fn a_running_service_explains_the_same() {
    let home = home();
    home.append(&lines(&of_every_stream()));
    home.expect(0, &["drain"]);
    let alone = explained(&home, 0, "session", &["--verify"]);
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    let beside = explained(&home, 0, "session", &["--verify"]);
    assert_eq!(service.terminate(), Some(0));
    assert_eq!(alone, beside);
}

/// The words of a span are in the line of the file that it names.
fn stands_there(home: &ProcessHome, span: &Value) {
    let file = span["file"].as_str().unwrap();
    let text = std::fs::read_to_string(home.path("buses").join(file)).unwrap();
    let line = usize::try_from(span["line"].as_u64().unwrap()).unwrap();
    let first = span["quote"].as_str().unwrap().lines().next().unwrap();
    let line = text.lines().nth(line - 1).unwrap();
    // Upstream may write é as e with an accent after it.
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    let first: String = first.chars().take_while(char::is_ascii).collect();
    assert!(plain(line).contains(&plain(&first)), "{span}: {line}");
}

/// Changes one byte of a file.
fn flip(path: &Path, what: &str, with: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(what), "{} holds no {what}", path.display());
    std::fs::write(path, text.replacen(what, with, 1)).unwrap();
}

#[test]
fn a_broken_link_is_named() {
    let home = home();
    let mut asked = of_every_stream();
    asked.push(selected(&home));
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    let path = |relative: &str| home.path("buses").join(relative);
    let day = |id: &str| home.path("buses").join(made(&home, id)["path"].as_str().unwrap());
    let cases: Vec<(&str, PathBuf, &str, &str, &[&str])> = vec![
        ("event", day("event"), "Before", "before", &["published.line", "published.manifest"]),
        ("file", home.path("run/queue.jsonl"), "notes/a.md", "notes/b.md", &["queue.line"]),
        (
            "event",
            path("eventbus/daily/2026-02-11.jsonl"),
            "After",
            "Later",
            &["upstream.data", "source_text_hash", "evidence", "prompt.rendered", "outputs"],
        ),
        (
            "event",
            path("eventbus/daily/2026-02-11.jsonl"),
            "Fourth.",
            "Forth..",
            &["upstream.data"],
        ),
        (
            "session",
            path("sessions/manifest/2026-02-10.sessions.manifest.json"),
            "sessions_total\":2",
            "sessions_total\":3",
            &["upstream.manifest"],
        ),
        (
            "document",
            path("chunks/canonical/books.jsonl"),
            "chk_a1",
            "chk_a9",
            &["upstream.data", "upstream.records"],
        ),
        (
            "selected",
            path("selection_manifests/two.json"),
            "\"dev\"",
            "\"1.0\"",
            &["selection.manifest"],
        ),
        (
            "file",
            path("other/notes/a.md"),
            "# Note",
            "# Vote",
            &["upstream.data", "source_text_hash", "evidence"],
        ),
        (
            "chunks",
            home.path("flow_registry/packs/notes/brief.jinja2"),
            "the",
            "The",
            &["flow.pack"],
        ),
    ];
    for (id, file, what, with, broken) in cases {
        let before = std::fs::read(&file).unwrap();
        flip(&file, what, with);
        let found = explained(&home, 1, id, &["--verify"]);
        let loose = loose(&found);
        for name in broken {
            let named = loose.iter().any(|(link, standing)| link == name && standing == "broken");
            assert!(named, "{}: {name} is not broken: {loose:?}", file.display());
        }
        let meant = |link: &String| broken.contains(&link.as_str());
        let others = loose.iter().filter(|(link, standing)| standing == "broken" && !meant(link));
        let allowed = ["evidence", "prompt.rendered", "outputs"];
        for (link, _) in others {
            assert!(allowed.contains(&link.as_str()), "{}: {loose:?}", file.display());
        }
        std::fs::write(&file, before).unwrap();
        assert_eq!(self::loose(&explained(&home, 0, id, &["--verify"])), []);
    }
    // What upstream appends later was not read and breaks nothing.
    let events = path("eventbus/daily/2026-02-11.jsonl");
    let mut grown = std::fs::read(&events).unwrap();
    grown.extend_from_slice(b"{\"more\":1}\n");
    std::fs::write(&events, grown).unwrap();
    assert_eq!(loose(&explained(&home, 0, "event", &["--verify"])), []);
}

#[test]
fn what_a_model_wrote_is_aligned_and_labelled_and_its_answers_are_in_the_log() {
    let home = home();
    let answer = json!({
        "summary_text": "Before midnight. There were two lines, after all. Penguins swim.",
        "one_line": "Midnight.", "rendered_short": "Midnight.", "rendered_medium": "Midnight.",
        "rendered_long": "Midnight.", "key_points": [], "uncertainties": [], "warnings": [],
        "confidence": "low", "research_question": null, "data": null, "method": null,
        "main_contribution": null, "limitations": null, "relevance_to_thesis": null,
        "suggested_tags": {"method_tags": [], "data_tags": []},
    });
    std::fs::write(home.path("answer.json"), answer.to_string()).unwrap();
    let command = format!("cat > /dev/null; cat {}", home.path("answer.json").display());
    let config = format!(
        "[provider]\ndefault = \"local\"\n[provider.local]\nkind = \"command\"\ncommand = {}\n",
        json!(["/bin/sh", "-c", command])
    );
    std::fs::write(home.path("summarizer.toml"), config).unwrap();
    home.append(&lines(&[ask("event", "event_summary", "event_bus", &["evt_1", "evt_3"])]));
    home.expect(0, &["drain"]);
    let found = explained(&home, 0, "event", &["--verify", "--show-prompts"]);
    assert_eq!(found["model_generated"], true);
    let bases: Vec<&str> = list(&found["sentences"])
        .iter()
        .map(|sentence| sentence["basis"].as_str().unwrap())
        .collect();
    assert_eq!(bases, ["verbatim", "lexical", "none"], "{:#}", found["sentences"]);
    assert!(!list(&found["answers"]).is_empty());
    assert_eq!(loose(&found), []);
    assert_eq!(found["prompts"]["as_recorded"], true);
    // Without the provider the answers are still proved, and what cannot be is said.
    std::fs::remove_file(home.path("summarizer.toml")).unwrap();
    let found = explained(&home, 0, "event", &["--verify"]);
    let unknown = |link: &str| (link.to_owned(), "unknown".to_owned());
    assert_eq!(loose(&found), [unknown("prompt.rendered"), unknown("outputs")]);
}

/// Every file under a folder, by path.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found
                    .insert(path.strip_prefix(root).unwrap().into(), std::fs::read(&path).unwrap());
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

#[test]
fn every_run_has_its_record_also_one_that_failed_or_was_killed() {
    let home = home();
    home.expect(0, &["drain"]);
    let mut asked = of_every_stream();
    asked.push(ask("empty", "event_summary", "event_bus", &["evt_2"]));
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    let nobody = ask("nobody", "event_summary", "event_bus", &["evt_99"]);
    home.append(&lines(&[nobody, ask("again", "event_summary", "event_bus", &["evt_4"])]));
    home.append(b"no request\n");
    home.expect(0, &["drain"]);
    home.append(&lines(&[ask("lost", "event_summary", "event_bus", &["evt_98"])]));
    home.expect(0, &["drain"]);
    // Killed, and noticed by the next.
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    service.kill();
    // Stopped by a queue that shrank.
    let queue = home.read("run/queue.jsonl");
    std::fs::write(home.path("run/queue.jsonl"), &queue[..queue.len() / 2]).unwrap();
    home.expect(5, &["drain"]);
    std::fs::write(home.path("run/queue.jsonl"), &queue).unwrap();
    home.expect(0, &["drain"]);

    let (records, rows) = run_records(&home);
    let field = |records: &[Value], name: &str| -> Vec<String> {
        records.iter().map(|record| record[name].as_str().unwrap_or("-").to_owned()).collect()
    };
    let statuses =
        ["empty_success", "success", "partial_success", "error", "error", "error", "empty_success"];
    assert_eq!(field(&records, "status"), statuses);
    assert_eq!(field(&rows, "run_status"), statuses);
    assert_eq!(field(&rows, "status"), ["OK", "OK", "WARN", "FAIL", "FAIL", "FAIL", "OK"]);
    assert_eq!(
        field(&rows, "error_code"),
        ["-", "-", "UNKNOWN_SOURCE_ID", "UNKNOWN_SOURCE_ID", "RUN_CRASHED", "RUN_FAILED", "-"]
    );
    assert_eq!(field(&records, "run_id"), field(&rows, "run_id"));

    let full = &records[1];
    assert_eq!(full["counters"]["records_seen"], 6);
    assert_eq!(full["counters"]["records_processed"], 5);
    assert_eq!(full["counters"]["records_skipped"], 1);
    assert_eq!(full["counters"]["files_seen"], 5, "{:#}", full["inputs"]);
    let stages: Vec<&str> =
        list(&full["stages"]).iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(
        stages,
        [
            "queue_read",
            "input_resolution",
            "model_execute",
            "promote",
            "ack_emit",
            "run_record_emit"
        ]
    );
    let outputs = list(&full["outputs"]);
    // Three days were read or counted on, each has four streams.
    assert_eq!(outputs.len() % 4, 0);
    assert_eq!(full["counters"]["artifacts_written"], outputs.len());
    for output in outputs {
        assert_eq!(output["promotion_status"], "promoted");
        assert!(home.path("buses").join(output["path"].as_str().unwrap()).exists());
    }
    let inputs = list(&full["inputs"]);
    let events =
        inputs.iter().find(|one| one["path"] == "eventbus/daily/2026-02-10.jsonl").unwrap();
    let hash =
        summarizer::contract::hash::sha256(home.read("buses/eventbus/daily/2026-02-10.jsonl"));
    assert_eq!(
        (&events["data_hash"], &events["resolution"]),
        (&hash.hex().into(), &"present".into())
    );

    let partial = &records[2];
    assert_eq!(partial["counters"]["errors_count"], 1);
    assert_eq!(partial["errors"][0]["type"], "INPUT_MISSING");
    assert_eq!(partial["warnings"][0]["type"], "malformed_json");
    assert_eq!(records[4]["completed_at"], Value::Null, "a killed run has no end");
    assert_eq!(records[4]["errors"][0]["severity"], "fatal");
    assert!(records[5]["errors"][0]["message"].as_str().unwrap().contains("queue"));
    check_published(&home);

    // Deleted, they come back.
    let before = published(&home.path("buses"));
    std::fs::remove_dir_all(home.path("buses/artifacts")).unwrap();
    std::fs::remove_dir_all(home.path("buses/run_records")).unwrap();
    home.expect(0, &["drain"]);
    let after = published(&home.path("buses"));
    let kept = |tree: &BTreeMap<PathBuf, Vec<u8>>| -> Vec<PathBuf> {
        tree.keys().filter(|path| path.starts_with("artifacts")).cloned().collect()
    };
    assert_eq!(kept(&after).len(), kept(&before).len() + 1);
    for path in kept(&before) {
        assert_eq!(before[&path], after[&path]);
    }
    check_published(&home);
}

#[test]
fn most_events_are_empty_and_every_one_is_accounted_for() {
    let home = ProcessHome::new();
    let buses = home.path("buses");
    let count = 2_200;
    let empty = |number: usize| number % 20 < 11;
    let events: Vec<Value> = (0..count)
        .map(|number| {
            let at = bus_support::MIDNIGHT + number as i64 * 1000;
            let text = format!("The pump of hall {number} ran dry and was filled again.");
            let text = if empty(number) { "" } else { &text };
            bus_support::event(&format!("evt_{number:05}"), at, text)
        })
        .collect();
    bus_support::events_day(&buses, "2026-02-11", &events);
    let asked: Vec<Value> = (0..count)
        .map(|number| {
            let id = format!("evt_{number:05}");
            ask(&format!("r{number}"), "event_summary", "event_bus", &[&id])
        })
        .collect();
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    let skipped = (0..count).filter(|number| empty(*number)).count();
    let manifest: Value = serde_json::from_slice(
        &home.read("buses/summaries/manifest/2026-02-11.events.summary.manifest.json"),
    )
    .unwrap();
    assert_eq!(manifest["counts"]["eligible"], count);
    assert_eq!(manifest["counts"]["produced"], count - skipped);
    assert_eq!(manifest["counts"]["skipped"], skipped);
    assert_eq!(manifest["skip_reasons"], json!({"empty_content": skipped}));
    let acks = home.acks();
    let ended = acks.iter().filter(|ack| ack["reason_code"] == "skipped_empty_content").count();
    assert_eq!(ended, skipped);
    let (records, _) = run_records(&home);
    assert_eq!(records[0]["counters"]["records_skipped"], skipped);
    let run_id = records[0]["run_id"].as_str().unwrap();
    let path = format!("artifacts/skip_reports/{run_id}.skips.jsonl");
    let named =
        list(&records[0]["stages"]).iter().any(|stage| stage["evidence"][0]["path"] == *path);
    assert!(named, "{:#}", records[0]["stages"]);
    let report = String::from_utf8(home.read(&format!("buses/{path}"))).unwrap();
    assert_eq!(report.lines().count(), skipped);
    for line in report.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(summarizer::contract::schema::check("skip_report.v1", &line), []);
        assert_eq!(line["reason"], "empty_content");
    }
    check_published(&home);
}

#[test]
fn an_opened_day_exists_on_every_stream_and_opening_it_again_changes_nothing() {
    let home = home();
    home.expect(0, &["day", "open", "2026-02-11"]);
    let files = tree(&home.path("buses/summaries"));
    assert_eq!(files.len(), 8, "{:?}", files.keys());
    let manifest = |stream: &str| -> Value {
        let path = format!("manifest/2026-02-11.{stream}.summary.manifest.json");
        serde_json::from_slice(&files[Path::new(&path)]).unwrap()
    };
    let upstream = home.read("buses/eventbus/manifest/2026-02-11.manifest.json");
    let upstream = summarizer::contract::hash::sha256(upstream).hex();
    assert_eq!(manifest("events")["input"]["eventbus_manifest_sha256"], upstream.as_str());
    assert_eq!(manifest("events")["warnings"], Value::Null);
    assert_eq!(manifest("sessions")["input"]["sessions_manifest_sha256"], "");
    assert_eq!(list(&manifest("sessions")["warnings"]).len(), 1);
    assert_eq!(manifest("events")["counts"]["eligible"], 0);
    home.expect(0, &["day", "open", "2026-02-11"]);
    assert!(files == tree(&home.path("buses/summaries")), "opening it again changed a file");
    home.expect(2, &["day", "open", "2026-02-31"]);
    let (records, _) = run_records(&home);
    assert_eq!(records[0]["entrypoint"], "summarizer day open");
    assert_eq!(records[0]["status"], "empty_success");
    assert_eq!(list(&records[0]["outputs"]).len(), 4);
    check_published(&home);

    // Beside a running service it is the service that opens and publishes it.
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    home.expect(0, &["day", "open", "2026-02-10"]);
    let path = "buses/summaries/manifest/2026-02-10.sessions.summary.manifest.json";
    until("the day is published", || home.path(path).exists());
    assert_eq!(service.terminate(), Some(0));
    check_published(&home);
    flip(&home.path("buses/eventbus/daily/2026-02-11.jsonl"), "Fourth", "Forged");
    home.expect(5, &["day", "open", "2026-02-11"]).says(&["MANIFEST_MISMATCH"]);
}

/// A class and a finer code, and how the request that meets them ends.
type Meets = (&'static str, &'static str, &'static str);

#[test]
fn every_defect_upstream_ends_what_needs_it_and_nothing_else() {
    let home = home();
    let buses = home.path("buses");
    let day = |number: usize| format!("2026-03-{:02}", number + 1);
    let data = |number: usize| format!("eventbus/daily/{}.jsonl", day(number));
    let manifest = |number: usize| format!("eventbus/manifest/{}.manifest.json", day(number));
    let good = |number: usize| {
        let id = format!("evt_day{number}");
        vec![
            bus_support::event(&id, bus_support::MIDNIGHT, "Something."),
            bus_support::event(&format!("{id}_b"), bus_support::MIDNIGHT, "More."),
        ]
    };
    let seal =
        |number: usize, events: &[Value]| bus_support::events_day(&buses, &day(number), events);
    let changed = |number: usize, member: &str, value: Value| {
        let mut events = good(number);
        events[0][member] = value;
        seal(number, &events);
    };
    let mismatch = "manifest_mismatch";
    let (missing, schema, integrity) = ("INPUT_MISSING", "SCHEMA_MISMATCH", "INTEGRITY_MISMATCH");
    let mut cases: Vec<(String, &str, &str, Meets)> = Vec::new();
    let mut event_case = |number: usize, damage: &dyn Fn(usize), meets: Meets| {
        seal(number, &good(number));
        damage(number);
        cases.push((format!("evt_day{number}"), "event_summary", "event_bus", meets));
    };
    event_case(
        0,
        &|number| std::fs::remove_file(buses.join(manifest(number))).unwrap(),
        ("missing_upstream_manifest", missing, "MISSING_EVENTBUS_MANIFEST"),
    );
    event_case(
        1,
        &|number| flip(&buses.join(data(number)), "Something", "Somewhere"),
        (mismatch, integrity, "MANIFEST_MISMATCH"),
    );
    event_case(
        2,
        &|number| flip(&buses.join(manifest(number)), "event_manifest.v2", "event_manifest.v9"),
        (mismatch, schema, "SCHEMA_VERSION_UNSUPPORTED"),
    );
    event_case(
        3,
        &|number| changed(number, "schema_version", "event.v9".into()),
        (mismatch, schema, "SCHEMA_VERSION_UNSUPPORTED"),
    );
    event_case(
        4,
        &|number| changed(number, "timestamp_ms", (-5).into()),
        (mismatch, schema, "TIMESTAMP_OUT_OF_RANGE"),
    );
    event_case(
        5,
        &|number| {
            let events = good(number);
            seal(number, &[events[0].clone(), events[0].clone()]);
        },
        (mismatch, integrity, "DUPLICATE_EVENT_ID"),
    );
    event_case(
        6,
        &|number| flip(&buses.join(manifest(number)), "events_total\":2", "events_total\":3"),
        (mismatch, integrity, "MANIFEST_MISMATCH"),
    );
    event_case(
        7,
        &|number| changed(number, "event_subkind", "invented".into()),
        (mismatch, schema, "EVENTBUS_SCHEMA_MISMATCH"),
    );
    event_case(
        8,
        &|number| {
            let mut bytes = bus_support::jsonl(&good(number));
            bytes.push_str("{\"event_id\": \n");
            bus_support::write(&buses, &data(number), &bytes);
            let path = buses.join(manifest(number));
            let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let hash = summarizer::contract::hash::sha256(&bytes).hex();
            value["integrity"] = json!({"sha256": hash, "bytes": bytes.len(), "lines": 3});
            std::fs::write(&path, value.to_string()).unwrap();
        },
        (mismatch, schema, "MALFORMED_JSONL"),
    );
    let session = |id: &str, day: &str, events: &[&str]| {
        bus_support::session(id, day, bus_support::MIDNIGHT, events)
    };
    bus_support::sessions_day(
        &buses,
        "2026-03-20",
        false,
        &[session("ses_x", "2026-03-20", &["evt_none"])],
    );
    let twice = session("ses_y", "2026-03-21", &["evt_1"]);
    bus_support::sessions_day(&buses, "2026-03-21", false, &[twice.clone(), twice]);
    bus_support::sessions_day(
        &buses,
        "2026-03-22",
        false,
        &[session("ses_z", "2026-03-22", &["evt_1"])],
    );
    std::fs::remove_file(buses.join("sessions/manifest/2026-03-22.sessions.manifest.json"))
        .unwrap();
    let chunk = |id: &str, document: &str| bus_support::chunk(id, document, 0, "Words.");
    let mut bare = chunk("chk_bare", "doc_bare");
    bare["provenance"].as_object_mut().unwrap().remove("source_checksum");
    bus_support::chunks(&buses, "bare", &[bare]);
    bus_support::chunks(&buses, "edited", &[chunk("chk_edited", "doc_edited")]);
    flip(&buses.join("chunks/canonical/edited.jsonl"), "Words", "Wards");
    bus_support::chunks(&buses, "alone", &[chunk("chk_alone", "doc_alone")]);
    std::fs::remove_file(buses.join("chunks/manifest/alone.manifest.json")).unwrap();
    let session_case = |id: &str, meets| (id.to_owned(), "session_summary", "session_bus", meets);
    let chunk_case = |id: &str, meets| (id.to_owned(), "chunk_set_summary", "chunk_bus", meets);
    cases.extend([
        session_case(
            "ses_x",
            ("unknown_source_id", integrity, "SESSIONS_REFERENCE_UNKNOWN_EVENT_ID"),
        ),
        session_case("ses_y", (mismatch, integrity, "SESSIONS_DUPLICATE_SESSION_ID")),
        session_case("ses_z", ("missing_upstream_manifest", missing, "MISSING_SESSIONS_MANIFEST")),
        chunk_case("chk_bare", (mismatch, schema, "PROVENANCE_INVALID:missing_source_checksum")),
        chunk_case("chk_edited", (mismatch, integrity, "INTEGRITY_VIOLATION:manifest_mismatch")),
        chunk_case("chk_alone", ("missing_upstream_manifest", missing, "MISSING_CHUNK_MANIFEST")),
    ]);
    let mut asked: Vec<Value> =
        cases.iter().map(|(id, kind, bus, _)| ask(id, kind, bus, &[id])).collect();
    asked.extend(of_every_stream());
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    let acks = home.acks();
    let last = |id: &str| acks.iter().rev().find(|ack| ack["request_id"] == id).unwrap();
    for (id, _, _, (reason, class, subtype)) in &cases {
        let ack = last(id);
        assert_eq!(ack["status"], "rejected_invalid_input", "{ack}");
        assert_eq!(ack["reason_code"], *reason, "{ack}");
        let shown = home.expect(0, &["--json", "show", id]).json();
        let events = list(&shown["latest"]["events"]);
        let error = &events.last().unwrap()["facts"]["error"];
        assert_eq!((&error["class"], &error["subtype"]), (&json!(class), &json!(subtype)), "{id}");
    }
    for asked in of_every_stream() {
        assert_eq!(last(asked["request_id"].as_str().unwrap())["status"], "completed");
    }
    // The same, where the data itself is gone: then nobody can say which ids it held.
    seal(9, &good(9));
    std::fs::remove_file(buses.join(data(9))).unwrap();
    home.append(&lines(&[ask("gone", "event_summary", "event_bus", &["evt_day9"])]));
    home.expect(0, &["drain"]);
    let shown = home.expect(0, &["--json", "show", "gone"]).json();
    let events = list(&shown["latest"]["events"]);
    assert_eq!(events.last().unwrap()["facts"]["error"]["subtype"], "MISSING_DAILY_FILE");
    // The record of the run lists each kind of error, with what its class requires.
    let (records, _) = run_records(&home);
    let known = list(&records[0]["errors"]);
    for (_, _, _, (_, class, subtype)) in &cases {
        let of_kind = |error: &&Value| error["type"] == *class && error["subtype"] == *subtype;
        let error = known.iter().find(of_kind).unwrap_or_else(|| panic!("{subtype} is not listed"));
        assert!(error["details"].is_object(), "{error}");
    }
    check_exported(&home);
}

/// A home with a queue of short events over some days, all of them answered differently.
fn many(count: usize, seed: u64, workers: usize) -> (ProcessHome, Vec<Value>) {
    let home = ProcessHome::new();
    let buses = home.path("buses");
    let per_day = count / 4;
    for day in 0..4 {
        let events: Vec<Value> = (day * per_day..(day + 1) * per_day)
            .map(|number| {
                let at = bus_support::MIDNIGHT + day as i64 * 86_400_000 + number as i64;
                let text = match number % 20 {
                    0..11 => String::new(),
                    _ => format!("Pump {number} ran dry. It was filled again."),
                };
                bus_support::event(&format!("evt_{number:05}"), at, &text)
            })
            .collect();
        bus_support::events_day(&buses, &format!("2026-02-{}", 11 + day), &events);
    }
    let config = format!(
        "[workers]\ncount = {workers}\n[export]\nmin_interval = \"5 ms\"\nmax_share_of_time = 0.9\n"
    );
    std::fs::write(home.path("summarizer.toml"), config).unwrap();
    let mut asked: Vec<Value> = (0..per_day * 4)
        .map(|number| {
            let ids: Vec<String> = (number..(number + number % 3 + 1).min(per_day * 4))
                .map(|n| format!("evt_{n:05}"))
                .collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            ask(&format!("r{number}"), "event_summary", "event_bus", &ids)
        })
        .collect();
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

#[test]
fn two_homes_with_the_same_work_in_another_order_publish_the_same() {
    let mut published = Vec::new();
    for (seed, workers) in [(1, 1), (2, 4)] {
        let (home, asked) = many(120, seed, workers);
        // In pieces, with a run each.
        for piece in asked.chunks(50) {
            home.append(&lines(piece));
            home.expect(0, &["drain"]);
        }
        check_published(&home);
        published.push((lines_of(&home), manifests_of(&home)));
    }
    assert!(published[0].0.values().any(|lines| lines.len() > 5));
    assert_eq!(published[0].0, published[1].0);
    assert_eq!(published[0].1, published[1].1);
}

/// Follows the documented reader rule, knowing nothing of the program: open `summaries` once,
/// resolve manifest and data relative to that, and on a mismatch open it again. Returns how many
/// partitions were read and how often it opened again.
fn watch(summaries: &Path, stop: &AtomicBool) -> (u64, u64) {
    use std::os::fd::AsRawFd as _;
    let (mut read, mut reopened) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let Ok(dir) = std::fs::File::open(summaries) else { continue };
        let held = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        let Ok(names) = std::fs::read_dir(held.join("manifest")) else { continue };
        let names: Vec<String> = names
            .flatten()
            .map(|name| name.file_name().to_string_lossy().into_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        for name in names {
            let mut at = held.clone();
            let mut again = None;
            let mut tries = 0;
            while let Err(why) = whole(&at, &name) {
                tries += 1;
                assert!(tries < 20, "{name}: {why}");
                let dir = std::fs::File::open(summaries).unwrap();
                at = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
                again = Some(dir);
                reopened += 1;
            }
            drop(again);
            read += 1;
        }
    }
    (read, reopened)
}

fn whole(at: &Path, name: &str) -> Result<(), String> {
    let bytes = std::fs::read(at.join("manifest").join(name)).map_err(|e| e.to_string())?;
    let manifest: Value = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
    let path = manifest["paths"]["summaries_path"].as_str().unwrap();
    let path = path.strip_prefix("summaries/").unwrap();
    let data = std::fs::read(at.join(path)).map_err(|e| e.to_string())?;
    let hash = summarizer::contract::hash::sha256(&data).hex();
    let lines = data.iter().filter(|byte| **byte == b'\n').count();
    let fits =
        manifest["integrity"]["sha256"] == hash.as_str() && manifest["counts"]["produced"] == lines;
    if fits { Ok(()) } else { Err("data and manifest do not match".to_owned()) }
}

#[test]
fn a_watcher_never_sees_a_mismatch_while_the_service_is_killed() {
    let rounds = if support::deep() { 40 } else { 6 };
    let (home, asked) = many(240, 3, 2);
    let summaries = home.path("buses/summaries");
    let stop = AtomicBool::new(false);
    let mut random = Rng::new(11);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&summaries, &stop));
        for piece in asked.chunks(asked.len().div_ceil(rounds)) {
            let service = Running::start(&home, &["serve"]);
            until("the service answers", || home.answers());
            home.append(&lines(piece));
            std::thread::sleep(Duration::from_millis(20 + random.below(250)));
            assert!(!watcher.is_finished(), "the watcher stopped");
            service.kill();
        }
        home.expect(0, &["drain"]);
        stop.store(true, Ordering::Relaxed);
        let (read, _) = watcher.join().unwrap();
        assert!(read > 20, "the watcher read {read} partitions only");
    });
    check_published(&home);
    let (clean, mut asked) = many(240, 3, 1);
    asked.sort_by_key(|request| request["request_id"].as_str().unwrap().to_owned());
    clean.append(&lines(&asked));
    clean.expect(0, &["drain"]);
    assert_eq!(lines_of(&home), lines_of(&clean));
    let (records, _) = run_records(&home);
    // One that was killed before its run began has none.
    let killed = records.iter().filter(|record| record["completed_at"].is_null()).count();
    assert!((1..=rounds).contains(&killed), "{killed} runs were killed");
}
