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

use serde_json::{Value, json};
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
