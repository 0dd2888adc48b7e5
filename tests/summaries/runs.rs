//! Run records, skips and opened days: nothing that came in is left out of the account.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::process::{ProcessHome, Running};
use super::support::requests::lines;
use super::support::running::until;
use super::*;

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
    independent::agrees(home.root(), &["events"]);
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

/// A part of an export is that part of the whole, byte for byte.
#[test]
fn a_day_or_a_stream_can_be_exported_alone() {
    let home = home();
    home.append(&lines(&of_every_stream()));
    home.expect(0, &["drain"]);
    let whole = tree(&home.path("buses"));
    for (args, day, stream) in [
        (&["--day", "2026-02-11"][..], Some("2026-02-11"), None),
        (&["--stream", "documents"], None, Some("documents")),
        (&["--day", "2026-02-10", "--stream", "sessions"], Some("2026-02-10"), Some("sessions")),
    ] {
        let to = tempfile::tempdir().unwrap();
        let mut all = vec!["export", "--to", to.path().to_str().unwrap()];
        all.extend(args);
        home.expect(0, &all);
        let part = tree(&to.path().join("buses"));
        let meant = |path: &PathBuf| {
            let text = path.to_str().unwrap();
            text.starts_with("summaries/")
                && day.is_none_or(|day| text.contains(day))
                && stream.is_none_or(|stream| text.contains(&format!(".{stream}.")))
        };
        let expected: BTreeMap<PathBuf, Vec<u8>> = whole
            .iter()
            .filter(|(path, _)| meant(path))
            .map(|(p, b)| (p.clone(), b.clone()))
            .collect();
        assert!(expected.len() >= 2, "{args:?}");
        assert_eq!(part.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        assert!(part == expected, "{args:?}");
        assert!(!to.path().join("run").exists(), "nothing else of the home is written");
    }
    home.expect(2, &["export", "--to", "/nowhere", "--stream", "clouds"]).says(&["chunk_sets"]);
}

/// From any id upstream to the summaries that used it, and on to the bags that hold those.
#[test]
fn trace_leads_from_every_kind_of_id_to_summaries_and_bags() {
    let home = home();
    home.append(&lines(&of_every_stream()));
    home.expect(0, &["drain"]);
    let traced = |id: &str| home.expect(0, &["--json", "trace", id]).json_lines();
    let made_of = |id: &str| -> Vec<String> {
        traced(id).iter().map(|one| one["summary_id"].as_str().unwrap().to_owned()).collect()
    };
    let of = |request: &str| made(&home, request)["summary_id"].as_str().unwrap().to_owned();
    let cases = [
        ("evt_1", vec!["event", "session"]),
        ("evt_4", vec!["session"]),
        ("ses_1", vec!["session"]),
        ("ses_0", vec!["session"]),
        ("doc_a", vec!["document", "chunks"]),
        ("chk_a1", vec!["document"]),
        ("chk_b1", vec!["chunks"]),
        ("other:notes/a.md", vec!["file"]),
    ];
    for (id, requests) in cases {
        let (mut found, mut expected) =
            (made_of(id), requests.into_iter().map(of).collect::<Vec<_>>());
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{id}");
    }
    assert!(home.expect(1, &["--json", "trace", "evt_99"]).json_lines().is_empty());
    assert!(traced("evt_1").iter().all(|one| one["bags"] == json!([])));
    home.expect(0, &["digest", "build", "--all"]);
    let mut holding = 0;
    for one in traced("evt_1") {
        for bag in list(&one["bags"]) {
            let folder = format!("buses/{}", bag["path"].as_str().unwrap());
            let trace: Value =
                serde_json::from_slice(&home.read(&format!("{folder}/meta/trace.json"))).unwrap();
            assert!(list(&trace["upstream"]["summary_ids"]).contains(&one["summary_id"]));
            for memo in list(&bag["memos"]) {
                let path = format!("{folder}/memo/{}.meta.json", memo.as_str().unwrap());
                let meta: Value = serde_json::from_slice(&home.read(&path)).unwrap();
                assert!(list(&meta["summary_ids"]).contains(&one["summary_id"]));
            }
            holding += 1;
        }
        // A summary leads to the same bags by its own id.
        let id = one["summary_id"].as_str().unwrap();
        assert_eq!(traced(id), std::slice::from_ref(&one));
    }
    assert!(holding > 0, "no bag holds a summary of evt_1");
}
