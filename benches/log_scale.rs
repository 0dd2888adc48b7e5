//! The log with many events: fill, look up, scan, reopen after a clean close and after a kill.
//!
//! `cargo bench --bench log_scale -- DIR EVENTS BYTES BATCH CHECKPOINT_EVERY QUICK_REPAIR(0|1)`
//! appends EVENTS records of BYTES bytes in commits of BATCH with a checkpoint of rows and three
//! random keys a record every CHECKPOINT_EVERY events, exits without closing, reopens, and prints
//! one line for each measurement. Every commit is synced before the next.
#![allow(clippy::print_stdout, reason = "a measurement prints what it found")]

#[path = "append/work.rs"]
#[allow(dead_code, reason = "shared with the append benchmark")]
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use summarizer::contract::ids::KeyIndex;
use summarizer::log::Commit;

fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let kb = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kb.unwrap_or(0) / 1024
}

fn fill(path: &Path, events: u64, bytes: usize, batch: u64, every: u64, quick_repair: bool) {
    let mut store = work::open(path, quick_repair).expect("a new store");
    let (mut appending, mut preparing) = (Duration::ZERO, Duration::ZERO);
    let (mut pauses, mut applied, mut at) = (Vec::new(), 0, 0);
    let mut slowest = Duration::ZERO;
    while at < events {
        let started = Instant::now();
        let records = work::records(at + 1, batch.min(events - at), bytes);
        let due = at + records.len() as u64 - applied >= every;
        let checkpoint = due.then(|| work::checkpoint(applied + 1, at + records.len() as u64));
        preparing += started.elapsed();
        let started = Instant::now();
        let first = store.head().0.next();
        at += records.len() as u64;
        store
            .append(Commit { first, records: &records, mark: b"m", checkpoint })
            .expect("the disk works");
        appending += started.elapsed();
        if due {
            applied = at;
            pauses.push(started.elapsed());
            slowest = slowest.max(started.elapsed());
        }
    }
    pauses.sort();
    let rate = events as f64 / appending.as_secs_f64();
    let checkpoints: Duration = pauses.iter().sum();
    println!("append: {rate:.0} events/s ({appending:.1?}, prepared apart in {preparing:.1?})");
    println!(
        "checkpoints: {} of {every}, {:.0}% of the time, median {:.1?}, slowest {slowest:.1?}",
        pauses.len(),
        100.0 * checkpoints.as_secs_f64() / appending.as_secs_f64(),
        pauses.get(pauses.len() / 2).copied().unwrap_or_default()
    );
    let started = Instant::now();
    for number in 0..100 {
        work::append(&mut store, &work::records(events + number + 1, 1, bytes), 1);
    }
    println!("commit of one record at this size: {:.2?}", started.elapsed() / 100);
    look_up(&store, applied);
    println!("resident: {} MB", memory_mb());
    // A kill: nothing is closed.
    std::process::exit(0);
}

fn look_up(store: &summarizer::log::Store, applied: u64) {
    let reader = store.reader();
    let count = 200_000;
    for (what, offset) in [("absent", 1u64 << 40), ("present", 1)] {
        let digests: Vec<_> = (0..count)
            .map(|number| {
                let spread = number * 7919 % applied.max(1);
                work::digest(if offset == 1 { spread + 1 } else { offset + number })
            })
            .collect();
        let started = Instant::now();
        let found = digests
            .iter()
            .filter(|digest| {
                reader.find(KeyIndex::Idempotency, digest).expect("a whole index").is_some()
            })
            .count();
        println!("find {what}: {:.2?} each ({found} found)", started.elapsed() / count as u32);
    }
}

fn reopen(path: &Path, how: &str, quick_repair: bool) {
    let started = Instant::now();
    let store = work::open(path, quick_repair).expect("the store recovers");
    println!("open after {how}: {:.1?}, resident {} MB", started.elapsed(), memory_mb());
    if how == "a clean close" {
        let head = store.head().0.0 as f64;
        let started = Instant::now();
        let bytes = work::scan(&store) as f64;
        let seconds = started.elapsed().as_secs_f64();
        println!("scan: {:.0} events/s, {:.0} MB/s", head / seconds, bytes / seconds / 1e6);
        let stats = store.reader().stats().expect("a whole store");
        println!(
            "file {} MB, frames {} MB of {} MB raw, {} index segments, index memory {} MB",
            stats.file_bytes >> 20,
            stats.frame_bytes >> 20,
            stats.raw_bytes >> 20,
            stats.index_segments,
            stats.index_memory_bytes >> 20
        );
    }
    store.close().expect("the store closes");
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if args.len() < 6 {
        println!("usage: DIR EVENTS BYTES BATCH CHECKPOINT_EVERY QUICK_REPAIR [fill|HOW]");
        return;
    }
    let path = PathBuf::from(&args[0]).join("store.redb");
    let number = |at: usize| args[at].parse::<u64>().expect("a number");
    let quick_repair = number(5) == 1;
    match args.get(6).map(String::as_str) {
        Some("fill") => {
            fill(&path, number(1), number(2) as usize, number(3), number(4), quick_repair);
        }
        Some(how) => reopen(&path, how, quick_repair),
        None => {
            let program = std::env::current_exe().expect("this program");
            for how in ["fill", "a kill", "a clean close"] {
                let status = Command::new(&program).args(&args).arg(how).status();
                assert!(status.expect("a child").success(), "{how} failed");
            }
        }
    }
}
