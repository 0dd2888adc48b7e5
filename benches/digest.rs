//! Digests at scale: `cargo bench --bench digest -- [SUMMARIES] [WEEKS] [SELECTORS]` (default
//! 1,000,000 summaries over 156 weeks and 50 selectors).
//!
//! Most selectors take one tag or one project of a week; the others take its most frequent tags, its
//! projects or its pairs. Measured are: reading the log without a cache, building everything,
//! building without a change, building after one new summary (in the same process, and in a new
//! process with the cache), and parsing the index as a reader. Bags, events and indexes are synced as
//! in the service. The Summary Bus and the opening of the log are not measured.
//!
//! Without `--bench` it runs once on a tiny load.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program that prints figures"
)]

#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use summarizer::contract::hash::sha256;
use summarizer::contract::ids::Seq;
use summarizer::contract::time::{Day, Timestamp};
use summarizer::contract::vocabulary::{Stream, Warnings};
use summarizer::digest::build::{
    BuildOrder, BuildReport, BuildSettings, Journal, JournalError, build,
};
use summarizer::digest::cache::DigestCache;
use summarizer::digest::library::Library;
use summarizer::digest::publish::Digests;
use summarizer::digest::selector::Selectors;
use summarizer::export::run_record::Environment;
use summarizer::export::summary_bus::PartitionKey;
use summarizer::log::{Commit, NewRecord, Options, Store, codec};
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use summarizer::state::event::Note;
use summarizer::state::event::{AckHead, Event, SummaryPointer};
use support::{Random, measured, numbers, resident, scratch};

/// 2023-01-02T00:00:00Z, a Monday.
const START: i64 = 1_672_617_600_000;
const WEEK: u64 = 7 * 86_400_000;
const TAGS: u64 = 3_000;
const PROJECTS: u64 = 12;

struct Log {
    store: Store,
    now: Timestamp,
}

impl Log {
    fn append(&mut self, records: &[NewRecord]) -> Seq {
        let first = self.store.head().0.next();
        self.store.append(Commit { first, records, mark: &[], checkpoint: None }).unwrap();
        first
    }
}

impl Journal for Log {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn note(&mut self, notes: Vec<Note>) -> Result<(Seq, Timestamp), JournalError> {
        let record = |note: Note| {
            let (tag, version, payload) = codec::encode(&note.event);
            NewRecord { at: self.now, tag, version, payload, body: note.body }
        };
        let records: Vec<NewRecord> = notes.into_iter().map(record).collect();
        Ok((self.append(&records), self.now))
    }
}

/// A tag: a few are frequent, most are rare.
fn tag(random: &mut Random) -> String {
    let bound = 1 + random.below(TAGS);
    format!("tag {}", random.below(bound))
}

/// A summary in one of the weeks, with a text of a few kilobytes.
fn summary(number: u64, weeks: u64, random: &mut Random) -> NewRecord {
    let at = Timestamp(START + random.below(weeks * WEEK) as i64);
    let day = at.day_in(chrono_tz::UTC);
    let summary_id = format!("sum_{}", &sha256(number.to_le_bytes()).hex()[..32]);
    let tags: Vec<String> = (0..5).map(|_| tag(random)).collect();
    let words: Vec<String> = (0..220).map(|_| format!("word{}", random.below(5_000))).collect();
    let line = json!({
        "schema_version": "session_summary.v1", "summary_id": summary_id, "day": day.to_string(),
        "source_ids": [format!("ses_{number}")], "title": format!("Summary {number}"),
        "ts_abs_ms": at.0, "ts_abs": at.to_string(),
        "outputs": {"summary_text": words.join(" "), "tags": tags, "model_generated": false,
                    "actions": [format!("do {number}")]},
        "meta": {"project": format!("project {}", random.below(PROJECTS)),
                 "conversation_id": format!("conversation {number}")},
    });
    let body = line.to_string().into_bytes();
    let event = Event::SummaryProduced {
        request: Seq(1),
        attempt: 1,
        head: AckHead { request_id: String::new(), key: String::new(), line: 1, offset: 0 },
        summary: SummaryPointer { summary_id, stream: Stream::Sessions, day },
        body_sha256: sha256(&body),
        warnings: Warnings::default(),
        supersedes: None,
        input: Box::default(),
        provenance: None,
    };
    let (tag, version, payload) = codec::encode(&event);
    NewRecord { at: Timestamp(START), tag, version, payload, body: Some(body) }
}

fn selectors(count: usize) -> Selectors {
    let lines: String = (0..count)
        .map(|number| {
            let (kind, matching, group) = match number {
                0..=1 => ("pairbag", json!({}), json!({"by": "pair", "top": 5})),
                2..=5 => ("tagbag", json!({}), json!({"by": "tag", "top": 5, "min_items": 3})),
                6..=8 => ("cohort", json!({}), json!({"by": "project", "top": 5})),
                _ if number % 4 == 0 => {
                    let project = format!("project {}", number as u64 % PROJECTS);
                    ("cohort", json!({"projects": [project]}), json!({"by": "none"}))
                }
                _ => {
                    let tag = format!("tag {number}");
                    ("cohort", json!({"tags_any": [tag]}), json!({"by": "none"}))
                }
            };
            let record = json!({
                "schema_version": "selector.v1", "selector_id": format!("s.{number:03}"),
                "selector_version": "1", "bag_type": kind, "window": {"type": "iso_week"},
                "match": matching, "group": group, "pairs": {"min_count": 3},
                "caps": {"total": 200}, "memo": {"channels": ["digest"], "max_items": 50},
            });
            format!("{record}\n")
        })
        .collect();
    Selectors::parse(lines.as_bytes()).unwrap()
}

/// Manifests that cover all summaries of the load.
fn write_manifests(buses: &Path, days: &BTreeSet<Day>) {
    let disk: &dyn Disk = &HostDisk;
    for day in days {
        let key = PartitionKey { stream: Stream::Sessions, day: *day };
        let path = buses.join("summaries").join(key.manifest_file());
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, json!({"sequence": u64::MAX}).to_string()).unwrap();
    }
}

struct Bench {
    log: Log,
    library: Library,
    digests: Digests,
    selectors: Selectors,
    runs: u32,
}

impl Bench {
    fn build(&mut self, all: bool) -> (Duration, BuildReport) {
        self.runs += 1;
        let run_id = format!("run_{}", self.runs);
        let order =
            BuildOrder { run_id, trigger: "bench".to_owned(), all, ..BuildOrder::default() };
        let stop = AtomicBool::new(false);
        let settings = BuildSettings {
            selectors: &self.selectors,
            zone: chrono_tz::UTC,
            threads: 2,
            keeps_free: 0,
            engine_version: "bench",
            environment: Environment {
                hostname: None,
                os: "linux".to_owned(),
                arch: "any".to_owned(),
                config_fingerprint: sha256("").hex(),
                timezone: "UTC".to_owned(),
            },
            stop: &stop,
            progress: &|_, _| {},
        };
        let reader = self.log.store.reader();
        let started = Instant::now();
        self.library.read(&reader, None, 2, &mut |_| {}).unwrap();
        let report =
            build(&mut self.digests, &self.library, &reader, &settings, &mut self.log, &order);
        (started.elapsed(), report.unwrap())
    }
}

fn main() {
    let numbers = numbers();
    let tiny = !measured();
    let default = if tiny { (400, 3, 12) } else { (1_000_000, 156, 50) };
    let summaries = numbers.first().copied().unwrap_or(default.0);
    let weeks = numbers.get(1).copied().unwrap_or(default.1).max(1);
    let count = numbers.get(2).copied().unwrap_or(default.2) as usize;
    let dir = scratch("digest");
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let path = dir.join("log.redb");
    let options = Options::beside(&path);
    let store = Store::open(Arc::clone(&disk), &path, options, [7; 16], &mut |_| {}).unwrap();
    let mut log = Log { store, now: Timestamp(START) };
    let mut random = Random(7);
    let mut days = BTreeSet::new();
    for day in 0..weeks * 7 {
        days.insert(Timestamp(START + (day * 86_400_000) as i64).day_in(chrono_tz::UTC));
    }
    let buses = dir.join("buses");
    write_manifests(&buses, &days);
    let started = Instant::now();
    let mut made = 0;
    while made < summaries {
        let next = (made + 4096).min(summaries);
        let records: Vec<NewRecord> =
            (made..next).map(|number| summary(number, weeks, &mut random)).collect();
        log.append(&records);
        made = next;
    }
    let bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    println!(
        "{summaries} summaries in {weeks} weeks, {count} selectors; the log has {} MB, made in {:.1?}",
        bytes >> 20,
        started.elapsed()
    );
    let before = resident();
    let reader = log.store.reader();
    let started = Instant::now();
    let selectors = selectors(count);
    let mut library = Library::with_rules(selectors.fields(), selectors.rules());
    library.read(&reader, None, 2, &mut |_| {}).unwrap();
    let more = resident().saturating_sub(before) >> 20;
    println!("cold library              {:>10.2?}   {more} MB resident more", started.elapsed());
    let digests = Digests::open(&disk, &buses, &reader);
    let mut bench = Bench { log, library, digests, selectors, runs: 0 };
    let (took, report) = bench.build(true);
    let (bags, memos, mb) = (report.published, report.memos, resident() >> 20);
    println!(
        "build of everything       {took:>10.2?}   {bags} bags, {memos} memos; {mb} MB resident"
    );
    assert!(report.published > 0);
    let (took, report) = bench.build(true);
    println!("nothing new, all windows  {took:>10.2?}   {} windows", report.windows);
    assert!(report.unchanged, "{report:?}");
    for number in summaries..summaries + 3 {
        let record = summary(number, weeks, &mut random);
        bench.log.append(&[record]);
        let (took, report) = bench.build(false);
        let (windows, bags) = (report.windows, report.published);
        println!("after one new summary     {took:>10.2?}   {windows} windows, {bags} bags");
    }
    let place = dir.join("kept.redb");
    let keep = |kept: &mut DigestCache, bench: &Bench| {
        kept.keep_library(&bench.library);
        kept.keep_catalog(bench.digests.catalog(), bench.digests.in_place(), true);
    };
    let started = Instant::now();
    let mut kept = DigestCache::open(&disk, &place, &bench.log.store.reader());
    keep(&mut kept, &bench);
    drop(kept);
    let bytes = std::fs::metadata(&place).map_or(0, |meta| meta.len());
    println!("keep all of it            {:>10.2?}   {} MB", started.elapsed(), bytes >> 20);
    for number in summaries + 3..summaries + 6 {
        let record = summary(number, weeks, &mut random);
        bench.log.append(&[record]);
        let reader = bench.log.store.reader();
        let started = Instant::now();
        let mut kept = DigestCache::open(&disk, &place, &reader);
        let (catalog, in_place) = kept.catalog().unwrap();
        bench.digests = Digests::open(&disk, &buses, &reader);
        bench.digests.go_on_from(catalog, in_place);
        bench.library =
            kept.library(&bench.selectors.fields(), &bench.selectors.rules(), 2).unwrap();
        let begun = started.elapsed();
        bench.digests.publish(None, None).unwrap();
        let (took, report) = bench.build(false);
        let built = started.elapsed();
        keep(&mut kept, &bench);
        drop(kept);
        let (whole, bags) = (started.elapsed(), report.published);
        println!(
            "one new, from a cold start {whole:>9.2?}   {bags} bags; {begun:.2?} to begin, {took:.2?} \
             to build, {:.2?} to keep",
            whole - built
        );
    }
    let bytes = std::fs::read(buses.join("index/l2_by_window.json")).unwrap();
    let started = Instant::now();
    let index: Value = serde_json::from_slice(&bytes).unwrap();
    let took = started.elapsed();
    assert!(index["windows"].is_object());
    println!("parse l2_by_window.json   {took:>10.2?}   {} KB", bytes.len() >> 10);
    drop(bench);
    let _ = std::fs::remove_dir_all(&dir);
}
