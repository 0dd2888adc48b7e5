//! The queue from both sides: published examples, bad lines and their records, many writers.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]
#![allow(clippy::disallowed_methods, reason = "the tests write the queue as its callers do")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::ids::Seq;
use summarizer::contract::request::{Input, Request, SCHEMA};
use summarizer::contract::schema;
use summarizer::contract::time::Timestamp;
use summarizer::contract::vocabulary::{Bus, SummaryKind, Urgency};
use summarizer::export::Committed;
use summarizer::export::quarantine::{self, QUARANTINE_SCHEMA};
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use summarizer::seam::append::append;
use summarizer::seam::line::{LineContent, ParsedLine, parse_batch};
use summarizer::seam::position::Position;
use summarizer::seam::tail::{TailOptions, Tailer};
use summarizer::state::event::{BadLine, Event, RawLine};

const EXAMPLE: &str = include_str!("fixtures/seam/request_a.json");

fn read_all(path: &Path, options: TailOptions) -> Vec<ParsedLine> {
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let mut tailer = Tailer::open(disk, path, Position::START, options).unwrap();
    let mut lines = Vec::new();
    // The second moment is past the grace of an unfinished line.
    for now in [Timestamp(0), Timestamp(0), Timestamp(options.partial_line_grace_ms)] {
        while let Some(batch) = tailer.next_batch(now, 1000, 1 << 20).unwrap() {
            lines.extend(parse_batch(&batch));
        }
    }
    lines
}

fn read_bytes(bytes: &[u8]) -> Vec<ParsedLine> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.jsonl");
    std::fs::write(&path, bytes).unwrap();
    read_all(&path, TailOptions { max_line_bytes: 5000, partial_line_grace_ms: 10 })
}

fn quarantined(line: &ParsedLine) -> &BadLine {
    match &line.content {
        LineContent::Quarantined(line) => line,
        other => panic!("{other:?}"),
    }
}

/// The quarantine record of a line.
fn record(line: &BadLine, seq: u64, hash: Digest, at: Timestamp) -> Value {
    let event = Event::LineQuarantined(Box::new(line.clone()));
    let line = quarantine::line(&Committed { seq: Seq(seq), at, hash, event }).unwrap();
    serde_json::from_str(&line).unwrap()
}

fn one_line(text: &str) -> String {
    serde_json::from_str::<Value>(text).unwrap().to_string()
}

#[test]
fn the_published_examples_are_requests() {
    let parse = |text: &str| {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(schema::check(SCHEMA, &value), []);
        Request::parse(text.as_bytes()).unwrap()
    };
    let a = parse(EXAMPLE);
    assert_eq!(a.effective_key().text, "b1b6d6a4b9c2d8e0");
    assert_eq!(a.work.params["max_tokens"], 350);
    assert!(a.kind_fits());
    let b = parse(include_str!("fixtures/seam/request_b.json"));
    assert_eq!(b.urgency, Urgency::Scheduled);
    assert_eq!(b.not_before.unwrap().to_string(), "2026-02-12T09:00:00.000Z");
    assert!(matches!(b.input, Input::SelectionManifest { .. }));

    let later = [
        include_str!("fixtures/seam/later_a.json"),
        include_str!("fixtures/seam/later_b.json"),
        include_str!("fixtures/seam/later_c.json"),
        include_str!("fixtures/seam/later_d.json"),
    ]
    .map(parse);
    assert!(later.iter().all(Request::kind_fits));
    assert!(later.iter().all(|request| request.effective_key().derived));
    let keys: BTreeSet<Digest> = later.iter().map(|r| r.effective_key().digest).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(later[2].work.variant.as_deref(), Some("long_context"));
    assert_eq!(later[2].work.kind, SummaryKind::DocumentSummary);
    assert_eq!(later[2].input.bus(), Some(Bus::ChunkBus));
}

#[test]
fn one_bad_line_never_stops_the_next() {
    let good = one_line(EXAMPLE);
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    let bad: [(&[u8], &str); 8] = [
        (b"\xff\xfe{}", "not_utf8"),
        (b"{\"request_id\":", "malformed_json"),
        (b"\0\0\0\0", "malformed_json"),
        (b"[]", "not_an_object"),
        (b"{\"request_id\":\"x\",\"a\":{\"b\":1,\"b\":1}}", "duplicate_member"),
        (b"{\"request_id\":\"x\"}", "schema_violation"),
        (&[b'[', b' '].repeat(2500), "malformed_json"),
        (&[b'y'; 5001], "line_too_long"),
    ];
    for (line, _) in &bad {
        bytes.extend_from_slice(good.as_bytes());
        bytes.extend_from_slice(b"\r\n \t\r\n\n");
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(good.as_bytes());
    let lines = read_bytes(&bytes);
    assert_eq!(lines.len(), 4 * bad.len() + 1);
    for (group, (raw, reason)) in lines.chunks(4).zip(bad) {
        match &group[0].content {
            LineContent::Request(request) => {
                assert_eq!(Request::parse(good.as_bytes()), Ok(*request.clone()))
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(
            (&group[1].content, &group[2].content),
            (&LineContent::Blank, &LineContent::Blank)
        );
        let line = quarantined(&group[3]);
        assert_eq!(line.reason.as_str(), reason);
        assert_eq!((line.length, line.sha256), (raw.len() as u64, sha256(raw)));
        assert_eq!(&bytes[line.offset as usize..][..raw.len()], raw);
        assert_eq!(line.line, group[3].span.number);
        let named = matches!(reason, "duplicate_member" | "schema_violation");
        assert_eq!(line.request_id.as_deref(), named.then_some("x"));
    }
    let numbers: Vec<u64> = lines.iter().map(|line| line.span.number).collect();
    assert_eq!(numbers, (1..=lines.len() as u64).collect::<Vec<_>>());
    let last = quarantined(&lines[lines.len() - 1]);
    assert_eq!(last.reason.as_str(), "partial_line");
    assert_eq!(last.raw, RawLine::Whole(good.into_bytes()));
}

#[test]
fn a_byte_order_mark_is_tolerated_only_at_the_beginning() {
    let good = one_line(EXAMPLE);
    let marked = format!("\u{feff}{good}\n");
    let lines = read_bytes(format!("{marked}{marked}").as_bytes());
    assert!(matches!(lines[0].content, LineContent::Request(_)));
    assert_eq!(quarantined(&lines[1]).reason.as_str(), "malformed_json");
    assert_eq!(read_bytes(b"\xef\xbb\xbf\n")[0].content, LineContent::Blank);
}

#[test]
fn quarantine_records_keep_the_line_and_follow_their_schema() {
    let mut bytes = b"{\"a\":1}\n\xff\xfe\n".to_vec();
    bytes.extend_from_slice("é".repeat(4000).as_bytes());
    let ids: Vec<u32> = (0..150).collect();
    let many = json!({"request_id": "r", "input": {"mode": "ids", "bus": "other", "ids": ids}});
    bytes.extend_from_slice(format!("\n{many}\ntorn").as_bytes());
    let lines = read_bytes(&bytes);
    let records: Vec<Value> = lines
        .iter()
        .map(|line| record(quarantined(line), 7, sha256("head"), Timestamp(1_770_850_931_000)))
        .collect();
    for record in &records {
        assert_eq!(schema::check(QUARANTINE_SCHEMA, record), [], "{record}");
        assert_eq!(record["log_head"], sha256("head").hex());
        assert_eq!(
            (&record["seq"], &record["at"]),
            (&json!(7), &json!("2026-02-11T23:02:11.000Z"))
        );
    }
    assert_eq!(records[0]["raw"], "{\"a\":1}");
    assert_eq!(records[0]["request_id"], Value::Null);
    assert_eq!(records[0]["errors"][0]["pointer"], "");
    assert_eq!(records[1]["raw_base64"], "//4=");
    assert_eq!(records[2]["raw_prefix"], "é".repeat(2048));
    assert_eq!(records[2]["length"], 8000);
    assert_eq!(records[2]["sha256"], sha256("é".repeat(4000)).hex());
    assert_eq!(records[3]["errors"].as_array().unwrap().len(), 100);
    assert!(records[3]["errors_omitted"].as_u64().unwrap() > 50);
    assert_eq!(records[3]["request_id"], "r");
    assert_eq!(
        (&records[4]["reason"], &records[4]["raw"]),
        (&json!("partial_line"), &json!("torn"))
    );
}

#[test]
fn a_quarantine_record_without_its_bytes_is_refused() {
    let line = read_bytes(b"x\n");
    let mut record = record(quarantined(&line[0]), 1, Digest::ZERO, Timestamp(0));
    record.as_object_mut().unwrap().shift_remove("raw");
    assert_eq!(schema::check(QUARANTINE_SCHEMA, &record).len(), 1);
    record["raw_prefix"] = json!("x");
    assert_eq!(schema::check(QUARANTINE_SCHEMA, &record), []);
    record["raw"] = json!("x");
    assert_eq!(schema::check(QUARANTINE_SCHEMA, &record).len(), 1);
}

#[test]
fn an_ack_must_have_the_members_of_its_status() {
    let ack = json!({
        "schema_version": "summary_ack.v1", "ack_seq": 3, "log_head": "0".repeat(64),
        "at": "2026-02-11T23:02:11.000Z", "request_id": "r", "line": 1, "offset": 0,
        "status": "completed", "reason_code": null, "message": null, "attempt": 1,
        "retry_at": null, "idempotency_key": "k",
        "summary": {"summary_id": "sum_1", "stream": "events", "day": "2026-02-11", "path": "p"},
        "duplicate_of": null, "warnings": ["repeated_ids"], "cause": null,
    });
    let violations = |change: &[(&str, Value)]| {
        let mut ack = ack.clone();
        for (name, value) in change {
            ack[name] = value.clone();
        }
        schema::check("summary_ack.v1", &ack).into_iter().map(|v| v.pointer).collect::<Vec<_>>()
    };
    assert_eq!(violations(&[]), [""; 0]);
    assert_eq!(violations(&[("status", json!("accepted"))]), ["/summary"]);
    assert_eq!(violations(&[("status", json!("done"))]).last().unwrap(), "/summary");
    let retry = ("retry_at", json!("2026-02-11T23:02:11.000Z"));
    assert_eq!(violations(std::slice::from_ref(&retry)), ["/retry_at"]);
    let failed = [("status", json!("failed_transient")), ("summary", json!(null)), retry];
    assert_eq!(violations(&failed), [""; 0]);
    assert_eq!(violations(&[("warnings", json!(["odd"]))]), ["/warnings/0"]);
    assert_eq!(violations(&[("reason_code", json!("odd"))]), ["/reason_code"]);
}

const WRITERS: usize = 20;
const PER_WRITER: usize = 50;

/// Lines of very different lengths, some larger than any pipe or stdio buffer.
fn record_of(writer: usize, index: usize) -> String {
    let mut value: Value = serde_json::from_str(EXAMPLE).unwrap();
    value["request_id"] = json!(format!("w{writer}-{index}"));
    let filler = if index.is_multiple_of(10) { 150_000 } else { index * 31 };
    value["notes"] = json!("n".repeat(filler));
    serde_json::to_string_pretty(&value).unwrap()
}

fn write_as(writer: usize, path: &Path) {
    // One by one and in groups.
    let records: Vec<String> = (0..PER_WRITER).map(|index| record_of(writer, index)).collect();
    let (single, grouped) = records.split_at(PER_WRITER / 2);
    for record in single {
        append(&HostDisk, path, &[record]).unwrap();
    }
    for group in grouped.chunks(7) {
        let group: Vec<&str> = group.iter().map(String::as_str).collect();
        append(&HostDisk, path, &group).unwrap();
    }
}

fn assert_every_line_is_whole(path: &Path) {
    let lines = read_all(path, TailOptions::default());
    let ids: BTreeSet<String> = lines
        .iter()
        .map(|line| match &line.content {
            LineContent::Request(request) => request.request_id.clone(),
            other => panic!("line {}: {other:?}", line.span.number),
        })
        .collect();
    assert_eq!((lines.len(), ids.len()), (WRITERS * PER_WRITER, WRITERS * PER_WRITER));
}

#[test]
fn twenty_threads_append_whole_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/queue.jsonl");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let path = &path;
            scope.spawn(move || write_as(writer, path));
        }
    });
    assert_every_line_is_whole(&path);
}

#[test]
fn twenty_processes_append_whole_lines() {
    const VARIABLE: &str = "SEAM_TEST_WRITER";
    if let Ok(order) = std::env::var(VARIABLE) {
        let (writer, path) = order.split_once(' ').unwrap();
        return write_as(writer.parse().unwrap(), Path::new(path));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.jsonl");
    let children: Vec<_> = (0..WRITERS)
        .map(|writer| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "twenty_processes_append_whole_lines"])
                .env(VARIABLE, format!("{writer} {}", path.display()))
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_every_line_is_whole(&path);
}
