//! Publishing and checking: `cargo bench --bench summaries -- [ITEMS] [EVENTS]` (default 100,000
//! and 20,000).
//!
//! - render: renders and hashes the lines and manifest of one day, and writes nothing, on one core.
//! - publish: the same day published from the log, with every line checked and every file synced
//!   before the exchange; then again after one new item, and after one in each of three other days.
//! - disk: the same files written without checks and with as many syncs, before and after, to show the
//!   speed of the disk. Processor time is that of all threads; use `taskset -c 0` to measure one core.
//! - export: everything written again into an empty folder, from the log alone.
//! - verify: the published tree checked again, on one core and on all, without upstream.
//! - size: published bytes for each byte of a source.
//! - end to end: short events through the queue, the embedded summarizer and the publisher, until
//!   everything is published, with the service's own syncs.
//!
//! Without `--bench` it runs once on a tiny day.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program that prints figures"
)]

#[path = "support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::json::jcs;
use summarizer::contract::vocabulary::{Stream, SummaryKind, Warnings};
use summarizer::export::item::{ContextIdentity, SummaryIdentity, summary_id};
use summarizer::export::summary_bus::{
    Counts, PartitionFacts, PartitionKey, PartitionWriter, Stamp,
};
use summarizer::facts::session::Host;
use summarizer::log::{Options, Store};
use summarizer::os::{Disk, Machine};
use summarizer::projections::summaries::Summaries;
use summarizer::sequencer::engine::{CheckpointWhen, Engine, EngineOptions, SessionStart, Slots};
use summarizer::state::decide::{Arrival, FlowStanding, Outcome, Report};
use summarizer::state::event::SummaryPointer;
use summarizer::verify::{Options as Checks, verify_tree};
use support::{measured, numbers, scratch};

const DAY: &str = "2026-02-11";

fn main() {
    let numbers = numbers();
    let tiny = !measured();
    let default = if tiny { (300, 60) } else { (100_000, 20_000) };
    let items = numbers.first().copied().unwrap_or(default.0).max(10);
    let events = numbers.get(1).copied().unwrap_or(default.1).max(10);
    render(items);
    let dir = scratch("summaries");
    publish(&dir, items);
    std::fs::remove_dir_all(&dir).unwrap();
    let dir = scratch("end-to-end");
    end_to_end(&dir, events);
    std::fs::remove_dir_all(&dir).unwrap();
    sizes();
}

/// Bytes on the bus for each byte of a source, for notes of three sizes.
fn sizes() {
    for bytes in [208, 2_000, 20_000] {
        let dir = scratch("sizes");
        std::fs::create_dir_all(&dir).unwrap();
        let mut note = String::new();
        for number in 0.. {
            let more = format!(
                "Pump {number} ran dry on {} May because valve {} was closed. ",
                number % 28 + 1,
                number * 7 % 31
            );
            if note.len() + more.len() > bytes {
                break;
            }
            note.push_str(&more);
        }
        std::fs::write(dir.join("note.txt"), &note).unwrap();
        let ran = Command::new(env!("CARGO_BIN_EXE_summarizer"))
            .env_clear()
            .current_dir(&dir)
            .args(["--home", "home", "add", "--init", "note.txt"])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let folder = dir.join("home/buses/summaries/documents");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let published: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
        println!(
            "size      a note of {} bytes: {published} published bytes, {:.2} for each",
            note.len(),
            published as f64 / note.len() as f64
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

fn per_second(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64().max(1e-9)
}

const TEXT: &str = "The importer finished after the manifests were verified. Two files were late \
                    and were taken in the next pass. Nothing was lost.";

/// The line of an item of a usual size: about two kilobytes.
fn line(number: u64, day: &str) -> String {
    let id = id(number);
    let (text, quote) = (TEXT, sha256(TEXT).hex());
    let pointer = |at: usize| {
        json!({"evidence_id": format!("ev_{}", &quote[..32]), "namespace": "corp:event_bus",
            "chunk_id": format!("evt_{number:016x}"), "pointers": ["/outputs/key_points/0"],
            "span": {"start": at, "end": at + 50}, "quote": &text[at..at + 50]})
    };
    let item = json!({
        "schema_version": "event_summary.v1", "summary_id": id, "id": id, "source_ref": id,
        "day": day, "source_type": "event", "source_ids": [format!("evt_{number:016x}")],
        "selection": {"selection_type": "single_event", "source_text_hash": quote,
            "normalization": {"name": "summarizer.text", "version": "1"},
            "counts": {"sources": 1, "used": 1, "skipped": 0}, "skip_reasons": {}},
        "model": {"provider": "builtin", "model_name": "extractive", "model_version": "1",
            "temperature": null, "max_tokens": null},
        "prompt": {"prompt_hash": quote, "template_id": "bench.v1", "prompt_version": "v1"},
        "producer": {"name": "summarizer", "summarizer_version": "0", "run_id": "run_bench"},
        "outputs": {"summary_text": text, "model_generated": false, "tags": ["ops", "import"],
            "evidence_refs": [pointer(0), pointer(53)]},
        "title": "The importer finished", "ts_abs_ms": 1_770_768_000_000_i64 + number as i64,
        "ts_abs": "2026-02-11T00:00:00.000Z",
        "meta": {"summary_kind": "event_summary", "summary_subkind": "brief",
            "provenance": {"source_ref": id}},
    });
    jcs(&item)
}

fn id(number: u64) -> String {
    let hash = sha256(TEXT);
    summary_id(&SummaryIdentity {
        stream: Stream::Events,
        kind: SummaryKind::EventSummary,
        subkind: "brief",
        primary_ids: &[format!("evt_{number:016x}")],
        source_text_hash: &hash,
        prompt_hash: &hash.hex(),
        provider: "builtin",
        model: "extractive",
        context: ContextIdentity::default(),
    })
}

/// Processor time of all threads so far.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Writes copies of files, syncs each, then syncs their folder.
fn disk_alone(files: &[(std::path::PathBuf, Vec<u8>)], into: &Path) -> Duration {
    std::fs::create_dir_all(into).unwrap();
    let started = Instant::now();
    for (number, (_, bytes)) in files.iter().enumerate() {
        let mut file = std::fs::File::create(into.join(number.to_string())).unwrap();
        file.write_all(bytes).unwrap();
        file.sync_data().unwrap();
    }
    std::fs::File::open(into).unwrap().sync_all().unwrap();
    let took = started.elapsed();
    std::fs::remove_dir_all(into).unwrap();
    took
}

/// Every file of a tree.
fn files(root: &Path, found: &mut Vec<(std::path::PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
}

fn render(items: u64) {
    let distinct = items.min(20_000);
    let mut lines: Vec<String> = (0..distinct).map(|number| line(number, DAY)).collect();
    lines.sort();
    let key = PartitionKey { stream: Stream::Events, day: DAY.parse().unwrap() };
    let facts = PartitionFacts {
        forgotten: Vec::new(),
        counts: Counts { eligible: distinct, produced: distinct, ..Counts::default() },
        skip_reasons: Default::default(),
        fail_reasons: Default::default(),
        inputs: Vec::new(),
        selections: Vec::new(),
        stamp: Stamp {
            run_id: "run_bench".into(),
            at: summarizer::contract::time::Timestamp(0),
            sequence: 1,
            log_head: Digest::ZERO.hex(),
            summarizer_version: "0".into(),
        },
    };
    let bytes: u64 = lines.iter().map(|line| line.len() as u64 + 1).sum();
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        let mut writer = PartitionWriter::new(key, std::io::sink());
        lines.iter().for_each(|line| writer.push(line.as_bytes()).unwrap());
        writer.finish(&facts).unwrap();
        best = best.min(started.elapsed());
    }
    let each = bytes / distinct;
    println!(
        "render    {distinct} lines of {each} bytes: {:.0} MB/s on one core, hashing included",
        per_second(bytes, best)
    );
}

/// An engine on a fresh home.
struct Filled {
    engine: Engine,
    machine: Machine,
    next: u64,
}

impl Filled {
    fn open(dir: &Path) -> Filled {
        let machine = Machine::real();
        let path = dir.join("log.redb");
        let options = Options::beside(&path);
        let disk = Arc::clone(&machine.disk);
        let store = Store::open(disk, &path, options, [7; 16], &mut |_| {}).unwrap();
        let config = summarizer::config::Config::load(None, &Default::default(), 2).unwrap();
        let options = EngineOptions::of(&config);
        let mut engine = Engine::open(store, options, machine.clock.now(), &mut |_| {}).unwrap();
        let run = SessionStart {
            run_id: "run_bench".into(),
            command: "bench".into(),
            version: "0".into(),
            config: Digest::ZERO,
            host: Host { timezone: Some("UTC".into()), ..Host::default() },
        };
        engine.begin_session(run, machine.clock.now()).unwrap();
        engine.commit(None, CheckpointWhen::Due, &[], machine.clock.now()).unwrap();
        Filled { engine, machine, next: 0 }
    }

    /// Completes this many requests with an item each.
    fn add(&mut self, count: u64, day: &str) {
        let mut left = count;
        while left > 0 {
            let now = self.machine.clock.now();
            let batch = left.min(2_000);
            for _ in 0..batch {
                self.next += 1;
                let request = Box::new(taken(self.next));
                let arrival = Arrival {
                    request,
                    flow: FlowStanding::Active,
                    refused: None,
                    source: Warnings::default(),
                };
                self.engine.arrival(arrival, now).unwrap();
            }
            self.engine.start_ready(Slots::of(batch as usize), now).unwrap();
            let running: Vec<_> = self
                .engine
                .state()
                .running()
                .map(|(request, open)| (request, open.row.attempts))
                .collect();
            let epoch = self.engine.state().epoch();
            for (number, (request, attempt)) in running.into_iter().enumerate() {
                let number = self.next * 10_000 + number as u64;
                let summary = SummaryPointer {
                    summary_id: id(number),
                    stream: Stream::Events,
                    day: day.parse().unwrap(),
                };
                let outcome = Outcome::Produced {
                    summary,
                    item: line(number, day).into_bytes(),
                    warnings: Warnings::default(),
                    input: Box::default(),
                    provenance: None,
                };
                self.engine.report(Report { request, attempt, epoch, outcome }, now).unwrap();
            }
            self.engine.commit(None, CheckpointWhen::Due, &[], now).unwrap();
            left -= batch;
        }
    }
}

fn taken(number: u64) -> summarizer::state::event::TakenRequest {
    use summarizer::contract::vocabulary::{Bus, SummaryKind, Urgency};
    let key = sha256(format!("key {number}"));
    summarizer::state::event::TakenRequest {
        head: summarizer::state::event::AckHead {
            request_id: format!("r{number}"),
            key: format!("key {number}"),
            line: number,
            offset: number,
        },
        key,
        id: sha256(format!("id {number}")),
        work: key.head(),
        producer: "bench".into(),
        flow_id: "bench.v1".into(),
        variant: None,
        kind: SummaryKind::EventSummary,
        bus: Some(Bus::EventBus),
        priority: 3,
        urgency: Urgency::Now,
        created_at: summarizer::contract::time::Timestamp(1_770_768_000_000),
        not_before: None,
        deadline: None,
        warnings: Warnings::default(),
        previous: None,
        supersedes: None,
        line: b"{}".to_vec().into(),
    }
}

fn publish(dir: &Path, items: u64) {
    let mut filled = Filled::open(dir);
    filled.add(items, DAY);
    let buses = dir.join("buses");
    let disk: Arc<dyn Disk> = Arc::clone(&filled.machine.disk);
    let shelf = dir.join("publisher-index.redb");
    std::fs::create_dir_all(&buses).unwrap();
    let mut summaries = Summaries::open(&disk, &buses, filled.engine.log(), Some(&shelf)).unwrap();
    let timed = |summaries: &mut Summaries| {
        let started = Instant::now();
        summaries.publish(None).unwrap();
        started.elapsed()
    };
    let before = processor();
    let whole = timed(&mut summaries);
    let spent = processor() - before;
    let path = buses.join(format!("summaries/events/{DAY}.events.summary.jsonl"));
    let bytes = std::fs::metadata(&path).unwrap().len();
    println!(
        "publish   {items} items once: {whole:.2?}, {:.0} MB/s, checked and synced; \
         {:.0} MB for each second of processor",
        per_second(bytes, whole),
        per_second(bytes, spent)
    );
    let mut written = Vec::new();
    files(&buses.join("summaries"), &mut written);
    let alone = [(); 3].map(|()| disk_alone(&written, &dir.join("plain")));
    let rates = alone.map(|took| format!("{:.0}", per_second(bytes, took))).join(", ");
    println!("disk      the same files and syncs, plainly, three times: {rates} MB/s");
    drop(written);
    let fresh = dir.join("export");
    let (before, started) = (processor(), Instant::now());
    let mut again = Summaries::open(&disk, &fresh, filled.engine.log(), None).unwrap();
    again.publish(None).unwrap();
    let (took, spent) = (started.elapsed(), processor() - before);
    drop(again);
    println!(
        "export    everything again into an empty folder: {took:.2?}, {:.0} MB/s; \
         {:.0} MB for each second of processor",
        per_second(bytes, took),
        per_second(bytes, spent)
    );
    std::fs::remove_dir_all(&fresh).unwrap();
    filled.add(1, DAY);
    let one = timed(&mut summaries);
    let ratio = one.as_secs_f64() / whole.as_secs_f64();
    println!("publish   one more item on that day: {one:.2?}, {ratio:.2} of writing it once");
    for day in ["2026-03-01", "2026-03-02", "2026-03-03"] {
        filled.add(1, day);
    }
    let other = timed(&mut summaries);
    println!("publish   one item in each of three new days: {other:.2?}");
    drop(summaries);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for threads in [1, threads] {
        let started = Instant::now();
        let checks = Checks { threads, sources: false };
        let report = verify_tree(&disk, &buses, checks, &|_| {}).unwrap();
        let took = started.elapsed();
        assert_eq!(report.violations_total, 0, "{:?}", report.violations);
        let rate = per_second(report.bytes, took);
        println!("verify    {threads} threads: {:.0} MB/s", rate);
    }
    filled.engine.close().unwrap();
}

/// Short events, one request each, through the program's own `drain`.
fn end_to_end(dir: &Path, events: u64) {
    let buses = dir.join("buses");
    for folder in ["buses/eventbus/daily", "buses/eventbus/manifest", "run"] {
        std::fs::create_dir_all(dir.join(folder)).unwrap();
    }
    let (mut data, mut queue) = (String::new(), String::new());
    for number in 0..events {
        let id = format!("evt_{number:016x}");
        writeln!(
            data,
            "{{\"schema_version\":\"event.v1\",\"event_id\":\"{id}\",\"timestamp_ms\":{},\
             \"role\":\"assistant\",\"content\":\"Pump {number} ran dry at noon. It was filled \
             again and runs.\",\"source\":{{\"source_system\":\"bench\",\
             \"source_record_id\":\"{number}\",\"source_uri\":\"b\"}}}}",
            1_770_768_000_000 + number
        )
        .unwrap();
        let request = json!({
            "schema_version": "summary_request.v1", "request_id": format!("r{number}"),
            "created_at": "2026-02-11T12:00:00Z", "urgency": "now",
            "requested_by": {"repo": "bench", "component": "end", "version": "dev"},
            "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                "summary_kind": "event_summary", "summary_subkind": "brief", "params": {},
                "flow_ref": {"kind": "registry",
                    "flow_id": "gpt.session.summarize.parsed_message.v3"}},
            "input": {"mode": "ids", "bus": "event_bus", "ids": [id]},
        });
        writeln!(queue, "{request}").unwrap();
    }
    let manifest = json!({
        "schema_version": "event_manifest.v1", "bus_schema_version": "event.v1", "day": DAY,
        "daily_path": format!("eventbus/daily/{DAY}.jsonl"),
        "counts": {"events_total": events, "events_by_role": {"assistant": events}},
        "integrity": {"sha256": sha256(&data).hex(), "bytes": data.len()},
    });
    std::fs::write(buses.join(format!("eventbus/daily/{DAY}.jsonl")), data).unwrap();
    let path = buses.join(format!("eventbus/manifest/{DAY}.manifest.json"));
    std::fs::write(path, manifest.to_string()).unwrap();
    std::fs::write(dir.join("run/queue.jsonl"), queue).unwrap();
    let started = Instant::now();
    let ran = Command::new(env!("CARGO_BIN_EXE_summarizer"))
        .env_clear()
        .args(["--json", "--home"])
        .arg(dir)
        .arg("drain")
        .output()
        .unwrap();
    let took = started.elapsed();
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    assert_eq!(report["outcomes"]["completed"], events, "{}", String::from_utf8_lossy(&ran.stderr));
    println!(
        "end       {events} short events, queue to published summaries: {:.0} a second ({took:.2?})",
        events as f64 / took.as_secs_f64()
    );
}
