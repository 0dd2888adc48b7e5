//! Finding ids upstream: `cargo bench --bench upstream -- [EVENTS] [IDS]` (default 1,000,000 and
//! 100,000).
//!
//! Events of about 300 bytes over a hundred days. Cold: without an index, so every partition is first
//! read, hashed, parsed and indexed. Warm: the index is in memory. Restarted: another process reads the
//! index from its file. Each time the ids are spread over all events and are resolved to their
//! ordered, normalized, hashed texts. Only the index is synced.
//!
//! Without `--bench` it runs once on a tiny upstream.

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
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::vocabulary::{Bus, SummaryKind};
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use summarizer::upstream::{InputSpec, Options, Upstream, index_of_home, resolve};
use support::{Random, measured, numbers, resident, scratch};

/// Milliseconds of 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600_000;
const DAYS: u64 = 100;

fn main() {
    let numbers = numbers();
    let tiny = !measured();
    let default = if tiny { (2_000, 200) } else { (1_000_000, 100_000) };
    let events = numbers.first().copied().unwrap_or(default.0).max(DAYS);
    let wanted = numbers.get(1).copied().unwrap_or(default.1).min(events);
    let dir = scratch("upstream");
    let bytes = write_upstream(&dir, events);
    println!("{events} events in {DAYS} days, {} MB; {wanted} ids", bytes >> 20);
    let before = resident();
    let index = dir.join("index.redb");
    let spec = spread(events, wanted);
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let open = || Upstream::new(Arc::clone(&disk), &dir, index_of_home(&disk, &index));
    let upstream = open();
    let (cold, first) = timed(&upstream, &spec);
    println!("cold, index built        {cold:>10.2?}   {:>5} MB resident more", more(before));
    let (warm, second) = timed(&upstream, &spec);
    println!("warm, index in memory    {warm:>10.2?}   {:>5} MB resident more", more(before));
    drop(upstream);
    let upstream = open();
    let (restarted, third) = timed(&upstream, &spec);
    println!("restarted, index on disk {restarted:>10.2?}   {:>5} MB resident more", more(before));
    assert!(first == second && second == third, "the same ids gave other texts");
    let (one, _) = timed(&upstream, &spread(events, 1));
    println!("one id                   {one:>10.2?}");
    let size = std::fs::metadata(&index).map_or(0, |meta| meta.len());
    println!("index file               {:>7} MB", size >> 20);
    drop(upstream);
    std::fs::remove_dir_all(&dir).unwrap();
}

fn more(before: u64) -> u64 {
    resident().saturating_sub(before) >> 20
}

fn timed(upstream: &Upstream, spec: &InputSpec) -> (Duration, Digest) {
    let started = Instant::now();
    let found = resolve(upstream, spec, SummaryKind::EventSummary, &Options::default()).unwrap();
    (started.elapsed(), found.source_text_hash)
}

/// Ids spread over all events, unsorted.
fn spread(events: u64, wanted: u64) -> InputSpec {
    let step = (events / wanted).max(1);
    let mut ids: Vec<String> = (0..wanted).map(|number| id(number * step)).collect();
    let mut random = Random(7);
    for at in (1..ids.len()).rev() {
        ids.swap(at, random.below(at as u64 + 1) as usize);
    }
    InputSpec::Ids { bus: Bus::EventBus, ids }
}

fn id(number: u64) -> String {
    format!("evt_{:016x}", Random(number).next())
}

fn write_upstream(dir: &Path, events: u64) -> u64 {
    let (daily, manifests) = (dir.join("eventbus/daily"), dir.join("eventbus/manifest"));
    std::fs::create_dir_all(&daily).unwrap();
    std::fs::create_dir_all(&manifests).unwrap();
    let (mut total, mut number) = (0, 0);
    for index in 0..DAYS {
        let at = START + index as i64 * 86_400_000;
        let day = summarizer::contract::time::Timestamp(at).day_in(chrono_tz::UTC);
        let until = events * (index + 1) / DAYS;
        let mut data = String::new();
        let first = number;
        while number < until {
            let at = at + (number - first) as i64;
            let text = "The importer finished after the manifests were verified; two files were \
                        late and were taken in the next pass, nothing was lost.";
            writeln!(
                data,
                "{{\"schema_version\":\"event.v1\",\"event_id\":\"{}\",\"timestamp_ms\":{at},\
                 \"role\":\"assistant\",\"content\":\"{number}: {text}\",\"source\":\
                 {{\"source_system\":\"bench\",\"source_record_id\":\"{number}\",\
                 \"source_uri\":\"b\"}}}}",
                id(number)
            )
            .unwrap();
            number += 1;
        }
        let manifest = serde_json::json!({
            "schema_version": "event_manifest.v1", "bus_schema_version": "event.v1",
            "day": day.to_string(), "daily_path": format!("eventbus/daily/{day}.jsonl"),
            "counts": {"events_total": number - first,
                       "events_by_role": {"assistant": number - first}},
            "integrity": {"sha256": sha256(&data).hex(), "bytes": data.len()},
        });
        total += data.len() as u64;
        std::fs::write(daily.join(format!("{day}.jsonl")), data).unwrap();
        std::fs::write(manifests.join(format!("{day}.manifest.json")), manifest.to_string())
            .unwrap();
    }
    total
}
