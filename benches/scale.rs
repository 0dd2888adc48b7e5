//! Intake and completion at growing sizes: `cargo bench --bench scale -- [REQUESTS [OPEN]]` (default
//! 1,000,000 and 250,000).
//!
//! It takes in OPEN requests (read, validate, deduplicate, durable commit, ack written) and completes
//! them all, until REQUESTS are done. For each million it prints the rates, the longest time that a
//! commit with its checkpoint held the sequencer, and, two seconds after its end, memory and file
//! sizes. An open request takes about 300 bytes, so OPEN decides much of the memory. `--idle` instead
//! gives one request at a time to an idle service and prints the time until its accepted ack is
//! readable, beside the time of three syncs on the same disk.
//!
//! At the end it opens the log after a clean close and replays it. `--ingest-only` leaves the requests
//! open and stops after the last part, for a profiler.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that prints figures"
)]

#[path = "support/mod.rs"]
mod support;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use summarizer::home::Home;
use summarizer::log::{Options, Store};
use summarizer::os::Machine;
use summarizer::replay::{Compare, Until, rebuild};
use support::{Bench, Ingested, line, numbers, rate, resident, scratch, write_queue};

const MILLION: u64 = 1_000_000;

fn main() {
    let numbers = numbers();
    if std::env::args().any(|text| text == "--idle") {
        return idle(numbers.first().copied().unwrap_or(50));
    }
    let total = numbers.first().copied().unwrap_or(1_000_000);
    let open = numbers.get(1).copied().unwrap_or(250_000).clamp(1, MILLION);
    let only = std::env::args().any(|text| text == "--ingest-only");
    let dir = scratch("scale");
    let mut bench = Bench::open(&dir, None);
    println!(
        "requests   ingest/s   finish/s   longest stall ms   resident MB   store MB   acks MB"
    );
    let mut done = 0;
    while done < total {
        let until = (done + MILLION).min(total);
        let (mut ingested, mut finished) = (Ingested::default(), Ingested::default());
        while done < until {
            let slice = open.min(until - done);
            write_queue(&bench.home.queue.clone(), done, slice).expect("write the queue");
            ingested.add(&bench.ingest());
            if !only {
                finished.add(&bench.finish_all());
            }
            done += slice;
        }
        std::thread::sleep(Duration::from_secs(2));
        let size = |path| std::fs::metadata(path).map_or(0, |meta| meta.len()) >> 20;
        println!(
            "{done:>9}  {:>9.0}  {:>9.0}  {:>16}  {:>12}  {:>9}  {:>8}",
            rate(&ingested),
            rate(&finished),
            ingested.stall.max(finished.stall).as_millis(),
            resident() >> 20,
            size(bench.home.store()),
            size(bench.home.acks()),
        );
    }
    let home = bench.home.clone();
    bench.close();
    if !only {
        read_again(&dir, &home);
    }
    let _ = std::fs::remove_dir_all(&dir);
}

/// Opens the closed log, replays it and checks its chain.
fn read_again(dir: &Path, home: &Home) {
    let started = Instant::now();
    let reopened = Bench::open(dir, None);
    println!("open after a clean close: {:?}", started.elapsed());
    reopened.close();
    let machine = Machine::real();
    let path = home.store();
    let disk = Arc::clone(&machine.disk);
    let store = Store::open(disk, &path, Options::beside(&path), [7; 16], &mut |_| {});
    let store = store.expect("open the store");
    let started = Instant::now();
    let replayed = rebuild(&store.reader(), Until::Head, Compare::Nothing, &mut |_| {});
    let replayed = replayed.expect("replay");
    let elapsed = started.elapsed();
    println!(
        "replay: {} events in {elapsed:?}, {:.0}/s",
        replayed.state.applied,
        replayed.state.applied.0 as f64 / elapsed.as_secs_f64()
    );
    let started = Instant::now();
    let chain = store.reader().verify(summarizer::contract::ids::Seq(1), None, &mut |_| {});
    let chain = chain.expect("an intact chain");
    println!("chain: {} records in {:?}", chain.records, started.elapsed());
}

/// One request at a time, each submitted to an idle service.
fn idle(rounds: u64) {
    let dir = scratch("idle");
    let summarizer = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command.arg("--home").arg(&dir).args(args).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    assert!(summarizer(&["init"]).status().expect("run init").success());
    let mut service = summarizer(&["serve"]).spawn().expect("run serve");
    let acks = dir.join("run/ack.jsonl");
    while !dir.join("run/summarizer.sock").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut queue = File::options()
        .create(true)
        .append(true)
        .open(dir.join("run/queue.jsonl"))
        .expect("open the queue");
    let mut waited = Vec::new();
    let lines = (7_000_000..).map(line).filter(|line| line.contains("idempotency_key"));
    for line in lines.take(rounds as usize) {
        std::thread::sleep(Duration::from_millis(120));
        let id = line.split('"').nth(7).expect("a request id").to_owned();
        let started = Instant::now();
        queue.write_all(line.as_bytes()).expect("append to the queue");
        while !std::fs::read_to_string(&acks).is_ok_and(|text| text.contains(&id)) {
            assert!(started.elapsed() < Duration::from_secs(10), "no ack of {id}");
            std::thread::sleep(Duration::from_micros(200));
        }
        waited.push(started.elapsed());
    }
    service.kill().expect("end the service");
    let _ = service.wait();
    let mut synced = Vec::new();
    for _ in 0..rounds {
        let file = File::options().create(true).append(true).open(dir.join("sync"));
        let mut file = file.expect("open a file");
        let started = Instant::now();
        for _ in 0..3 {
            file.write_all(&[7; 4096]).expect("write");
            file.sync_data().expect("sync");
        }
        synced.push(started.elapsed());
    }
    let [waited, synced] = [waited, synced].map(|mut all| {
        all.sort_unstable();
        (all[all.len() / 2], all[all.len() - 1])
    });
    println!("idle: line appended to ack readable: median {:?}, longest {:?}", waited.0, waited.1);
    println!("      three syncs on the same disk:  median {:?}, longest {:?}", synced.0, synced.1);
    let _ = std::fs::remove_dir_all(&dir);
}
