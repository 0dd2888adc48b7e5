//! The whole core at growing sizes: `cargo bench --bench scale -- [REQUESTS]` (default 1,000,000).
//!
//! In slices of up to a million requests: ingest (read, validate, deduplicate, durable commit, ack
//! projected), then complete them all, and print the rates, the longest time a commit (with its
//! checkpoint) held the sequencer, memory and file sizes after each slice.
//! At the end: open after a clean close, and replay from the log alone. `--ingest-only` leaves the
//! requests open and stops after the last slice, for a profiler.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that prints figures"
)]

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Instant;

use summarizer::log::{Options, Store};
use summarizer::os::Machine;
use summarizer::replay::{Compare, Until, rebuild};
use support::{Bench, rate, resident, scratch, write_queue};

fn main() {
    let wanted = std::env::args().skip(1).find_map(|text| text.replace('_', "").parse().ok());
    let total: u64 = wanted.unwrap_or(1_000_000);
    let slice = total.min(1_000_000);
    let only = std::env::args().any(|text| text == "--ingest-only");
    let dir = scratch("scale");
    let mut bench = Bench::open(&dir, None);
    println!(
        "requests   ingest/s   finish/s   longest stall ms   resident MB   store MB   acks MB"
    );
    let mut done = 0;
    while done < total {
        write_queue(&bench.home.queue.clone(), done, slice).expect("write the queue");
        let ingested = bench.ingest();
        let finished = if only { Default::default() } else { bench.finish_all() };
        done += slice;
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
    if only {
        return;
    }
    let started = Instant::now();
    let reopened = Bench::open(&dir, None);
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
    drop(store);
    let _ = std::fs::remove_dir_all(&dir);
}
