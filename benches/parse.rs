//! How fast queue lines become requests: parsing alone, with the effective key, and from the file.
//! It syncs no file; `scale` measures the durable commit.
#![allow(missing_docs, reason = "criterion's macro makes a public function")]
#![allow(clippy::disallowed_methods, reason = "the bench writes its own queue file")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use summarizer::contract::request::{Request, SCHEMA};
use summarizer::contract::schema;
use summarizer::contract::time::Timestamp;
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use summarizer::seam::line::{LineContent, parse_batch};
use summarizer::seam::position::Position;
use summarizer::seam::tail::{TailOptions, Tailer};

/// Requests as callers send them, about 800 bytes each; 1 % are bad.
fn queue_lines(count: usize) -> Vec<String> {
    (0..count).map(|index| if index % 100 == 57 { bad_line(index) } else { line(index) }).collect()
}

fn line(index: usize) -> String {
    let ids: Vec<String> = (0..3 + index % 5).map(|id| format!("evt_{index:08}_{id:04}")).collect();
    json!({
        "schema_version": "summary_request.v1",
        "request_id": format!("3f1a50c6-61d4-4f1d-8a42-{index:012x}"),
        "created_at": "2026-02-11T23:02:11Z",
        "requested_by": {"repo": "job_pipeline", "component": "scorer", "version": "0.7.2",
            "git_commit": "abc1234def5678900fedcba9876543210abcdef0"},
        "urgency": "now",
        "work": {
            "output_bus": "summary_bus", "output_kind": "summary_item",
            "summary_kind": "event_summary", "summary_subkind": "ops_brief",
            "flow_ref": {"kind": "registry", "flow_id": "gpt.session.summarize.parsed_message.v3"},
            "params": {"max_tokens": 350, "tone": "plain"},
        },
        "input": {"mode": "ids", "bus": "event_bus", "ids": ids},
        "priority": 1 + index % 5,
        "idempotency_key": format!("b1b6d6a4b9c2d8e0-{index}"),
        "trace": {"run_id": format!("run-{}", index / 50), "host": "worker-1", "user": "svc"},
        "notes": "summarize the latest scoring decisions for the operations review",
    })
    .to_string()
}

fn bad_line(index: usize) -> String {
    let mut text = line(index);
    match index % 4 {
        0 => text.truncate(text.len() / 2),
        1 => text = text.replacen("\"now\"", "\"soon\"", 1),
        2 => text = text.replacen("\"ids\":[", "\"ids\":[7,", 1),
        _ => text = text.replacen("\"notes\"", "\"request_id\"", 1),
    }
    text
}

fn derived(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| line.replacen("idempotency_key", "x_key", 1)).collect()
}

fn requests(criterion: &mut Criterion) {
    // Without `--bench` this is a test run: once, and small.
    let count = if std::env::args().any(|arg| arg == "--bench") { 20_000 } else { 200 };
    let lines = queue_lines(count);
    let keyless = derived(&lines);
    let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
    assert!((800..900).contains(&(bytes / count)), "the lines are as long as real ones");
    let accepted = lines.iter().filter(|line| Request::parse(line.as_bytes()).is_ok()).count();
    assert_eq!(accepted, count - count / 100);

    let mut group = criterion.benchmark_group("queue");
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function("parse", |bencher| {
        bencher.iter(|| {
            lines
                .iter()
                .map(|line| Request::parse(line.as_bytes()))
                .for_each(|r| drop(black_box(r)))
        });
    });
    group.bench_function("parse, given key and id digests", |bencher| {
        bencher.iter(|| lines.iter().for_each(|line| digests(line)));
    });
    group.bench_function("parse, derived key and id digests", |bencher| {
        bencher.iter(|| keyless.iter().for_each(|line| digests(line)));
    });
    group.bench_function("parse to a tree and validate (for comparison)", |bencher| {
        let validator = schema::validator(SCHEMA);
        let valid = |line: &String| {
            serde_json::from_str::<Value>(line).is_ok_and(|value| validator.is_valid(&value))
        };
        bencher.iter(|| black_box(lines.iter().filter(|line| valid(line)).count()));
    });

    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("queue.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").expect("the queue can be written");
    group.bench_function("tail: read, split, hash", |bencher| {
        bencher.iter(|| assert_eq!(tail(&path, |batch| batch.lines.len()), count));
    });
    group.bench_function("tail and parse, one thread", |bencher| {
        let good = |batch: &_| {
            let is_request = |content: &LineContent| matches!(content, LineContent::Request(_));
            parse_batch(batch).iter().filter(|line| is_request(&line.content)).count()
        };
        bencher.iter(|| assert_eq!(tail(&path, good), accepted));
    });
    group.finish();
}

fn digests(line: &str) {
    if let Ok(request) = Request::parse(line.as_bytes()) {
        black_box((request.effective_key().digest, request.id_digest()));
    }
}

fn tail(path: &Path, mut each: impl FnMut(&summarizer::seam::tail::Batch) -> usize) -> usize {
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let mut tailer = Tailer::open(disk, path, Position::START, TailOptions::default())
        .expect("the queue can be opened");
    let mut sum = 0;
    while let Some(batch) = tailer.next_batch(Timestamp(0), 4096, 8 << 20).expect("it can be read")
    {
        sum += each(&batch);
    }
    sum
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = requests
}
criterion_main!(benches);
