//! What it costs that bodies are sealed: `cargo bench --bench sealing -- [ROUNDS [REQUESTS]]` (default 15
//! and 20,000).
//!
//! Each round does the same work in two new homes, one with sealed bodies and one without, and begins with
//! the other one each time. It takes in REQUESTS lines, completes them with items of about 2,500 bytes,
//! replays the log, and opens every body. It prints the middle of the ratios of the two, so a machine that does
//! other work in some rounds changes little.

#![allow(missing_docs, clippy::print_stdout, reason = "a program that prints figures")]

#[path = "support/mod.rs"]
mod support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use summarizer::contract::ids::Seq;
use summarizer::log::{Options, Store};
use summarizer::os::Machine;
use summarizer::replay::{Compare, Until, rebuild};
use summarizer::state::event::Event;
use support::{Bench, Random, measured, numbers, scratch, write_queue};

/// The parts that are timed.
const PARTS: [&str; 4] = ["intake", "completion", "replay", "opening every body"];
/// Bytes of an item, as a published summary has them.
const ITEM_BYTES: usize = 2_500;

fn main() {
    let numbers = if measured() { numbers() } else { vec![2, 40] };
    let rounds = numbers.first().copied().unwrap_or(15).max(1);
    let requests = numbers.get(1).copied().unwrap_or(20_000).max(1);
    let mut ratios: [Vec<f64>; 4] = Default::default();
    let mut together = Vec::new();
    for round in 0..rounds {
        let sealed_first = round % 2 == 0;
        let one = times(sealed_first, requests);
        let other = times(!sealed_first, requests);
        let (sealed, open) = if sealed_first { (one, other) } else { (other, one) };
        for (part, ratios) in ratios.iter_mut().enumerate() {
            ratios.push(sealed[part] / open[part]);
        }
        // From the line to the durable end.
        together.push((sealed[0] + sealed[1]) / (open[0] + open[1]));
    }
    println!("{rounds} rounds of {requests} requests: time with sealed bodies / without");
    for (part, ratios) in PARTS.iter().zip(&mut ratios) {
        println!("{part:<28} {}", told(ratios));
    }
    println!("{:<28} {}", "intake and completion", told(&mut together));
}

/// The middle of the ratios, and between which values the middle half of them lies.
fn told(ratios: &mut [f64]) -> String {
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios[(ratios.len() - 1) * part / 4];
    format!("{:.3} ({:.3} to {:.3})", at(2), at(1), at(3))
}

/// Seconds of each part, in a home of its own.
fn times(seals: bool, requests: u64) -> [f64; 4] {
    let dir = scratch(if seals { "sealed" } else { "open" });
    let mut bench = Bench::open_with(&dir, |options| options.seals_bodies = seals);
    let queue = bench.home.queue.clone();
    write_queue(&queue, 0, requests).expect("write the queue");
    let taken = bench.ingest();
    let completed = bench.finish_all_with(&mut item);
    let store = bench.home.store();
    bench.close();
    let [replayed, opened] = read_again(&store, completed.lines);
    std::fs::remove_dir_all(&dir).expect("remove the scratch directory");
    [taken.elapsed.as_secs_f64(), completed.elapsed.as_secs_f64(), replayed, opened]
}

/// Seconds of a replay, and of opening every body.
fn read_again(path: &Path, bodies: u64) -> [f64; 2] {
    let disk = Machine::real().disk;
    let store = Store::open(Arc::clone(&disk), path, Options::beside(path), [7; 16], &mut |_| {})
        .expect("open the store");
    let log = store.reader();
    let started = Instant::now();
    rebuild(&log, Until::Head, Compare::Nothing, &mut |_| {}).expect("replay");
    let replayed = started.elapsed().as_secs_f64();
    let mut with_body = Vec::new();
    log.scan(Seq(1), None, &mut |entry| {
        let is_item = matches!(entry.event(), Ok(Event::SummaryProduced { .. }));
        with_body.extend(is_item.then_some(entry.seq));
        ControlFlow::Continue(())
    })
    .expect("scan");
    let started = Instant::now();
    let mut read = 0;
    for seq in with_body {
        let body = log.body(seq).expect("read a body").expect("nothing was forgotten");
        read += u64::from(body.len() >= ITEM_BYTES);
    }
    let opened = started.elapsed().as_secs_f64();
    assert_eq!(read, bodies, "each completed request has an item");
    store.close().expect("close the store");
    [replayed, opened]
}

/// An item with words that no other item has in this order, so that it compresses as a text does.
fn item(request: Seq) -> Vec<u8> {
    const PARTS: [&str; 16] = [
        "the", "meeting", "garden", "rent", "decided", "ra", "lo", "mi", "ten", "was", "on", "ber",
        "sto", "pump", "ing", "failed",
    ];
    let mut random = Random(request.0);
    let mut text = format!("{{\"summary_id\":\"sum_{:032x}\",\"outputs\":\"", request.0);
    while text.len() < ITEM_BYTES {
        let mut bits = random.next();
        for _ in 0..6 {
            text.push_str(PARTS[(bits % 16) as usize]);
            bits >>= 4;
            if bits % 4 == 0 {
                text.push(' ');
            }
            bits >>= 2;
        }
    }
    text.push_str("\"}");
    text.into_bytes()
}
