//! Every registered flow through the queue, offline. Each request completes with an item that fits
//! its schema. A second home publishes the same bytes, and so does an export from the log.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes what it is about to process"
)]

mod bus_support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};
use summarizer::contract::schema;
use summarizer::registry::Registry;

fn summarizer(home: &Path, args: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_summarizer"))
        .env_clear()
        .env("SUMMARIZER_TEST_RUN_ID", "run_20260220T000000Z_00000000")
        .env("SUMMARIZER_TEST_NOW", "2026-02-20T00:00:00Z")
        .args(["--json", "--home"])
        .arg(home)
        .args(args)
        .output()
        .unwrap();
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    // Requests may fail on purpose: then `drain` exits with 1.
    let is_drained = args.contains(&"drain") && output.status.code() == Some(1);
    assert!(output.status.success() || is_drained, "{args:?}: {wrong}");
    output.stdout
}

fn request(id: &str, flow: (&str, Option<&str>), kind: &str, bus: &str, ids: &[&str]) -> Value {
    let mut flow_ref = json!({"kind": "registry", "flow_id": flow.0});
    if let Some(variant) = flow.1 {
        flow_ref["variant"] = variant.into();
    }
    json!({
        "schema_version": "summary_request.v1", "request_id": id,
        "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
        "requested_by": {"repo": "tests", "component": "flows", "version": "dev"},
        "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                 "summary_kind": kind, "summary_subkind": "test", "flow_ref": flow_ref,
                 "params": {}},
        "input": {"mode": "ids", "bus": bus, "ids": ids},
    })
}

/// The text for the main input of a flow: the text that the flow's own test uses.
fn sample_text(flow_id: &str, main: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/packs")
        .join(flow_id)
        .join("input.json");
    let input: Map<String, Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    match input.get(main) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(value) if !value.is_null() && value.as_str() != Some("") => value.to_string(),
        _ => Value::Object(input).to_string(),
    }
}

/// A home with every bus, and a request for every flow, variant and kind.
fn prepare(home: &Path) -> Vec<String> {
    let buses = home.join("buses");
    bus_support::home(&buses);
    let registry = Registry::embedded().unwrap();
    let mut queue = Vec::new();
    for (number, record) in registry.records().iter().enumerate() {
        let file = format!("{}.txt", record.flow_id);
        let main = record.io_contract.inputs.iter().find(|input| input.main).unwrap();
        bus_support::write(
            &buses,
            &format!("other/{file}"),
            sample_text(&record.flow_id, &main.name),
        );
        let flow = (record.flow_id.as_str(), record.variant.as_deref());
        let id = format!("flow-{number}");
        queue.push(request(&id, flow, "document_summary", "other", &[&file]));
    }
    let brief = ("docs.chunk_set.summarize.brief.v1", None);
    let session = ("gpt.session.summarize.parsed_message.v3", None);
    for (id, flow, kind, bus, ids) in [
        ("event", brief, "event_summary", "event_bus", &["evt_1", "evt_3"][..]),
        ("session", session, "session_summary", "session_bus", &["ses_1"]),
        ("sessions", session, "session_summary", "session_bus", &["ses_1", "ses_0"]),
        ("document", brief, "document_summary", "chunk_bus", &["doc_a"]),
        ("chunks", brief, "chunk_set_summary", "chunk_bus", &["chk_a2", "chk_b1"]),
    ] {
        queue.push(request(id, flow, kind, bus, ids));
    }
    write_queue(home, &queue);
    queue.iter().map(|line| line["request_id"].as_str().unwrap().to_owned()).collect()
}

fn write_queue(home: &Path, requests: &[Value]) {
    let text: String = requests.iter().map(|line| format!("{line}\n")).collect();
    std::fs::create_dir_all(home.join("run")).unwrap();
    std::fs::write(home.join("run/queue.jsonl"), text).unwrap();
}

/// The last ack of each request.
fn acks(home: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(home.join("run/ack.jsonl")).unwrap();
    let acks = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    acks.map(|ack| (ack["request_id"].as_str().unwrap().to_owned(), ack)).collect()
}

/// The items in the log, by id.
fn items(home: &Path) -> BTreeMap<String, Value> {
    let path = home.join("run/summarizer.redb");
    let disk = summarizer::os::Machine::real().disk;
    let options = summarizer::log::Options::beside(&path);
    let store = summarizer::log::Store::open(disk, &path, options, [7; 16], &mut |_| {}).unwrap();
    let mut found = BTreeMap::new();
    let reader = store.reader();
    let mut produced = Vec::new();
    reader
        .scan(summarizer::contract::ids::Seq(1), None, &mut |entry| {
            let event =
                summarizer::log::codec::decode(entry.tag, entry.version, entry.payload).unwrap();
            if let summarizer::state::event::Event::SummaryProduced { summary, .. } = event {
                produced.push((entry.seq, summary.summary_id));
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    for (seq, id) in produced {
        let item: Value = serde_json::from_slice(&reader.body(seq).unwrap().unwrap()).unwrap();
        assert_eq!(item["summary_id"], id.as_str());
        found.insert(id, item);
    }
    store.close().unwrap();
    found
}

/// The files below a bus home, or below an export.
fn published(buses: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<_> =
        ["summaries", "artifacts", "run_records"].iter().map(|name| buses.join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(buses).unwrap().display().to_string();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The published summaries without the record that changed a manifest last, which differs from log
/// to log.
fn without_the_log(tree: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let summaries = tree.into_iter().filter(|(path, _)| path.starts_with("summaries/"));
    let plain = summaries.map(|(path, bytes)| {
        if !path.ends_with(".manifest.json") {
            return (path, bytes);
        }
        let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
        for name in ["sequence", "log_head"] {
            assert!(!manifest[name].take().is_null(), "{path} has no {name}");
        }
        (path, manifest.to_string().into_bytes())
    });
    plain.collect()
}

/// With another order of requests, more workers, and flows in processes, every flow gives the same items and the same
/// published bytes, and an export from the log gives them too.
#[test]
fn every_flow_completes_offline_and_a_second_home_publishes_the_same_bytes() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut all = Vec::new();
    for (number, home) in homes.iter().enumerate() {
        let wanted = prepare(home.path());
        let isolation = ["thread", "process"][number];
        let count = 1 + 3 * number;
        let workers = format!("[workers]\ncount = {count}\nisolation = \"{isolation}\"\n");
        std::fs::write(home.path().join("summarizer.toml"), workers).unwrap();
        if number == 1 {
            let queue = std::fs::read_to_string(home.path().join("run/queue.jsonl")).unwrap();
            let turned: String = queue.lines().rev().map(|line| format!("{line}\n")).collect();
            std::fs::write(home.path().join("run/queue.jsonl"), turned).unwrap();
        }
        summarizer(home.path(), &["drain"]);
        summarizer(home.path(), &["verify"]);
        let exported = tempfile::tempdir().unwrap();
        summarizer(home.path(), &["export", "--to", exported.path().to_str().unwrap()]);
        let live = published(&home.path().join("buses"));
        let again = published(&exported.path().join("buses"));
        assert_eq!(live.keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>());
        for (path, bytes) in &live {
            assert!(*bytes == again[path], "{path} is not what the log says");
        }
        let acks = acks(home.path());
        for id in &wanted {
            let ack = &acks[id];
            assert_eq!(ack["status"], "completed", "{ack}");
            assert!(ack["summary"].is_object(), "{ack}");
        }
        let items = items(home.path());
        assert_eq!(items.len(), wanted.len());
        for item in items.values() {
            let version = item["schema_version"].as_str().unwrap();
            assert_eq!(schema::check(version, item), [], "{item}");
            assert!(!item["outputs"]["summary_text"].as_str().unwrap().is_empty(), "{item}");
            assert_eq!(item["outputs"]["model_generated"], false);
        }
        let streams: std::collections::BTreeSet<&str> =
            items.values().map(|item| item["source_type"].as_str().unwrap()).collect();
        assert_eq!(
            streams.into_iter().collect::<Vec<_>>(),
            ["chunk_set", "document", "event", "session"]
        );
        let lines = live.iter().filter(|(path, _)| path.ends_with(".summary.jsonl"));
        let lines: usize = lines.map(|(_, b)| b.iter().filter(|b| **b == b'\n').count()).sum();
        assert_eq!(lines, wanted.len());
        all.push((items, without_the_log(live)));
    }
    assert!(all[0].0 == all[1].0, "the homes made different items");
    let [first, second] = [&all[0].1, &all[1].1];
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (path, bytes) in first {
        let both = [bytes, &second[path]].map(|bytes| String::from_utf8_lossy(bytes));
        assert_eq!(both[0], both[1], "{path}");
    }
}

#[test]
fn a_request_that_cannot_be_summarized_gets_the_reason() {
    let home = tempfile::tempdir().unwrap();
    bus_support::home(&home.path().join("buses"));
    bus_support::write(&home.path().join("buses"), "other/empty.txt", "\n \n");
    let brief = ("docs.chunk_set.summarize.brief.v1", None);
    let day = |id: &str, day: Value, param: &str| {
        let mut line = request(id, brief, "document_summary", "other", &["notes/a.md"]);
        line["work"]["params"][param] = day;
        line
    };
    write_queue(
        home.path(),
        &[
            request("empty", brief, "document_summary", "other", &["empty.txt"]),
            request("no-text", brief, "event_summary", "event_bus", &["evt_2"]),
            request("nobody", brief, "event_summary", "event_bus", &["evt_99"]),
            request("outside", brief, "document_summary", "other", &["../run/queue.jsonl"]),
            day("bad-day", "2026-02-30".into(), "day"),
            day("own-day", "2026-01-31".into(), "day"),
            day("odd-param", 1.into(), "nobody_declared_this"),
        ],
    );
    summarizer(home.path(), &["drain"]);
    let acks = acks(home.path());
    for (id, status, reason) in [
        ("empty", "completed", json!("skipped_empty_content")),
        ("no-text", "completed", json!("skipped_empty_content")),
        ("nobody", "rejected_invalid_input", json!("unknown_source_id")),
        ("outside", "rejected_invalid_input", json!("path_outside_bus_home")),
        ("bad-day", "rejected_invalid_input", json!("invalid_params")),
        ("own-day", "completed", Value::Null),
        ("odd-param", "completed", Value::Null),
    ] {
        let ack = &acks[id];
        assert_eq!((&ack["status"], &ack["reason_code"]), (&status.into(), &reason), "{ack}");
    }
    assert_eq!(acks["own-day"]["summary"]["day"], "2026-01-31");
    assert_eq!(acks["odd-param"]["summary"]["day"], "2026-02-19");
    assert_eq!(acks["odd-param"]["warnings"], json!(["unknown_param"]));
}

/// Texts that no pack was written for.
fn odd_texts() -> Vec<(&'static str, String)> {
    let code =
        "fn main() {\n    let x = vec![1, 2, 3];\n    println!(\"{x:?}\");\n}\n// note: ask Ana\n";
    let html = "<!doctype html><table><tr><td>Lunes</td><td>9:00</td></tr></table><p>Se ruega silencio &amp; paciencia.<script>x()</script>";
    let mail = "Asunto: Cambio de sala\nDe: Lucía Gómez <lucia@example.org>\nPara: equipo@example.org\n\nHola a todos:\n\nLa reunión del jueves 5 de marzo pasa a las 16:30 en la sala 2. Por favor, confirmad antes del miércoles. El presupuesto sube a 1.250,50 €.\n\nUn saludo,\nLucía\n--\nEnviado desde mi teléfono";
    let list: String = (0..1_500).map(|n| format!("- item {n}: value {}\n", n * 7 % 13)).collect();
    let numbers = "1 2 3 5 8 13 21 34 55 89 144 233 377 610 987 1597\n3.14159 2.71828\n";
    vec![
        ("a single letter", "x".into()),
        ("one word", "Antidisestablishmentarianism".into()),
        ("emoji", "🙂🎉 🚀🚀🚀 👩‍👩‍👧 ❤️".into()),
        ("a Spanish mail", mail.into()),
        ("a huge list", list),
        ("code", code.into()),
        ("html", html.into()),
        ("numbers", numbers.into()),
        ("one endless line", "palabra ".repeat(4_000)),
        ("punctuation", "... --- !!! ??? ;;; :::".into()),
        (
            "another script",
            "会議は金曜日に移動しました。予算は一万円です。\nהפגישה נדחתה ליום שישי.".into(),
        ),
        ("rows", "| a | b |\n|---|---|\n| 1 | 2 |\n\nname,age\nAna,31\nBob,29\n".into()),
    ]
}

/// The odd inputs of the packs as requests: flow, name, text of the source, parameters.
fn odd_cases() -> Vec<(String, String, String, Value)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/flow/odd.jsonl");
    let registry = Registry::embedded().unwrap();
    let mut cases = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let flow = case["flow"].as_str().unwrap();
        let record = registry.records().iter().find(|record| record.flow_id == flow).unwrap();
        let main = record.io_contract.inputs.iter().find(|input| input.main).unwrap();
        let mut params = case["inputs"].as_object().unwrap().clone();
        let text = match params.remove(&main.name) {
            Some(Value::String(text)) => text,
            Some(value) => value.to_string(),
            None => String::new(),
        };
        params.retain(|_, value| !value.is_null());
        // A source without a word is skipped with any parameters.
        if !text.trim().is_empty() {
            let name = case["name"].as_str().unwrap();
            cases.push((flow.to_owned(), name.to_owned(), text, Value::Object(params)));
        }
    }
    assert!(cases.len() > 40);
    cases
}

#[test]
fn every_flow_summarizes_texts_it_was_not_written_for() {
    let home = tempfile::tempdir().unwrap();
    let buses = home.path().join("buses");
    let texts = odd_texts();
    for (number, (_, text)) in texts.iter().enumerate() {
        bus_support::write(&buses, &format!("other/odd-{number}.txt"), text);
    }
    let registry = Registry::embedded().unwrap();
    let flows: Vec<_> =
        registry.records().iter().filter(|record| record.variant.is_none()).collect();
    assert!(flows.len() >= 20);
    let mut queue = Vec::new();
    for (of, record) in flows.iter().enumerate() {
        for number in 0..texts.len() {
            let id = format!("{of}-{number}");
            let file = format!("odd-{number}.txt");
            let flow = (record.flow_id.as_str(), None);
            queue.push(request(&id, flow, "document_summary", "other", &[&file]));
        }
    }
    let cases = odd_cases();
    for (number, (flow, _, main, params)) in cases.iter().enumerate() {
        let file = format!("case-{number}.txt");
        bus_support::write(&buses, &format!("other/{file}"), main);
        let id = format!("case-{number}");
        let mut line = request(&id, (flow.as_str(), None), "document_summary", "other", &[&file]);
        line["work"]["params"] = params.clone();
        queue.push(line);
    }
    write_queue(home.path(), &queue);
    summarizer(home.path(), &["drain"]);
    let (acks, items) = (acks(home.path()), items(home.path()));
    for (number, (flow, name, _, _)) in cases.iter().enumerate() {
        let told = format!("{flow} of {name}");
        let ack = &acks[&format!("case-{number}")];
        assert_eq!(ack["status"], "completed", "{told}: {ack}");
        let item = &items[ack["summary"]["summary_id"].as_str().unwrap_or_default()];
        assert!(!item["outputs"]["summary_text"].as_str().unwrap().trim().is_empty(), "{told}");
        assert_eq!(schema::check("document_summary.v1", item), [], "{told}");
        for said in [&item["outputs"]["summary_text"], &item["outputs"]["structured"]] {
            let said = said.to_string();
            assert!(!said.contains("&nbsp;") && !said.contains("</"), "{told}: {said}");
        }
    }
    for (of, record) in flows.iter().enumerate() {
        let disk = summarizer::os::real::HostDisk;
        let files = registry.verified_files(&disk, record).unwrap();
        let schema = record.declared_outputs.output_schema_path.as_ref().map(|path| {
            let (_, bytes) = files.iter().find(|(name, _)| name == path).unwrap();
            let schema: Value = serde_json::from_slice(bytes).unwrap();
            (jsonschema::validator_for(&schema).unwrap(), schema)
        });
        for (number, (name, _)) in texts.iter().enumerate() {
            let told = format!("{} of {name}", record.flow_id);
            let ack = &acks[&format!("{of}-{number}")];
            assert_eq!(ack["status"], "completed", "{told}: {ack}");
            let item = &items[ack["summary"]["summary_id"].as_str().unwrap_or_default()];
            let outputs = &item["outputs"];
            let said = outputs["summary_text"].as_str().unwrap();
            assert!(!said.trim().is_empty(), "{told}: {item}");
            assert_eq!(schema::check("document_summary.v1", item), [], "{told}");
            if let Some((validator, schema)) = &schema {
                let mut answer = outputs["structured"].clone();
                // A text that `outputs` has is not repeated in the answer.
                for name in ["summary_text", "rendered_short", "rendered_medium", "rendered_long"] {
                    if answer[name].is_null() && schema["properties"][name].is_object() {
                        // A missing rendering is the text.
                        let said = outputs.get(name).unwrap_or(&outputs["summary_text"]);
                        answer[name] = said.clone();
                    }
                }
                let wrong = validator.iter_errors(&answer).next();
                assert!(wrong.is_none(), "{told}: {wrong:?}");
            }
        }
    }
}

#[test]
fn every_flow_runs_from_the_command_line_on_an_odd_text() {
    let home = tempfile::tempdir().unwrap();
    let texts = odd_texts();
    for (number, (_, text)) in texts.iter().enumerate() {
        std::fs::write(home.path().join(format!("odd-{number}.txt")), text).unwrap();
    }
    let registry = Registry::embedded().unwrap();
    for (number, record) in registry.records().iter().enumerate() {
        let file = home.path().join(format!("odd-{}.txt", number % texts.len()));
        let mut args =
            vec!["flow", "run", record.flow_id.as_str(), "--input", file.to_str().unwrap()];
        if let Some(variant) = &record.variant {
            args.extend(["--variant", variant]);
        }
        let report: Value = serde_json::from_slice(&summarizer(home.path(), &args)).unwrap();
        assert_eq!(report["flow_id"], record.flow_id.as_str());
        assert_eq!(report["variant"], json!(record.variant));
        assert!(!report["outputs"]["summary_text"].as_str().unwrap().is_empty(), "{report}");
        assert_eq!(report["model"]["provider"], "builtin");
    }
}
