//! What it costs that bodies are sealed: `cargo bench --bench sealing -- [ROUNDS [REQUESTS]]` (default 15
//! and 20,000).
//!
//! Each round does the same work in two new homes, one with sealed bodies and one without, and begins with
//! the other one each time. It takes in REQUESTS lines, completes them with items of about 2,500 bytes,
//! replays the log, and opens every body. In two more homes it takes in lines with a question in words, which are
//! sealed as a body each. It prints the middle of the ratios of the two, for the time on the clock and
//! for the time of the processors, which other work on the machine changes little.

#![allow(missing_docs, clippy::print_stdout, reason = "a program that prints figures")]

#[path = "support/mod.rs"]
mod support;

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use summarizer::contract::ids::Seq;
use summarizer::log::{Options, Store};
use summarizer::os::Machine;
use summarizer::replay::{Compare, Until, rebuild};
use summarizer::state::event::Event;
use support::{Bench, Random, line, measured, numbers, scratch, write_queue};

/// The parts that are timed.
const PARTS: [&str; 5] =
    ["intake", "completion", "replay", "opening every body", "intake of lines with words"];
/// Bytes of an item, as a published summary has them.
const ITEM_BYTES: usize = 2_500;

fn main() {
    let numbers = if measured() { numbers() } else { vec![2, 40] };
    let rounds = numbers.first().copied().unwrap_or(15).max(1);
    let requests = numbers.get(1).copied().unwrap_or(20_000).max(1);
    let mut ratios: [[Vec<f64>; 2]; PARTS.len()] = Default::default();
    let mut together: [Vec<f64>; 2] = Default::default();
    for round in 0..rounds {
        let sealed_first = round % 2 == 0;
        let one = times(sealed_first, requests);
        let other = times(!sealed_first, requests);
        let (sealed, open) = if sealed_first { (one, other) } else { (other, one) };
        for kind in 0..2 {
            for (part, ratios) in ratios.iter_mut().enumerate() {
                ratios[kind].push(sealed[part][kind] / open[part][kind]);
            }
            // From the line to the durable end.
            let both = |times: &[[f64; 2]; PARTS.len()]| times[0][kind] + times[1][kind];
            together[kind].push(both(&sealed) / both(&open));
        }
    }
    println!("{rounds} rounds of {requests} requests: time with sealed bodies / without");
    println!("{:<28} {:<26} processors", "", "clock");
    let rows = PARTS.iter().zip(ratios).chain([(&"intake and completion", together)]);
    for (part, [mut clock, mut processors]) in rows {
        println!("{part:<28} {:<26} {}", told(&mut clock), told(&mut processors));
    }
}

/// The middle of the ratios, and between which values the middle half of them lies.
fn told(ratios: &mut [f64]) -> String {
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios[(ratios.len() - 1) * part / 4];
    format!("{:.3} ({:.3} to {:.3})", at(2), at(1), at(3))
}

/// When the clock began.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Seconds of the clock, and of the processors: all threads, in hundredths.
fn now() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    [START.elapsed().as_secs_f64(), ticks / 100.0]
}

/// What passed since then; never zero, so that ratios are numbers.
fn since(then: [f64; 2]) -> [f64; 2] {
    let now = now();
    [0, 1].map(|kind| (now[kind] - then[kind]).max(0.01))
}

/// Seconds of each part.
fn times(seals: bool, requests: u64) -> [[f64; 2]; PARTS.len()] {
    let dir = scratch(if seals { "sealed" } else { "open" });
    let mut bench = Bench::open_with(&dir, |options| options.seals_bodies = seals);
    let queue = bench.home.queue.clone();
    write_queue(&queue, 0, requests).expect("write the queue");
    let then = now();
    bench.ingest();
    let taken = since(then);
    let then = now();
    let lines = bench.finish_all_with(&mut item).lines;
    let completed = since(then);
    let store = bench.home.store();
    bench.close();
    let [replayed, opened] = read_again(&store, lines);
    std::fs::remove_dir_all(&dir).expect("remove the scratch directory");
    [taken, completed, replayed, opened, taken_with_words(seals, requests)]
}

/// Seconds of an intake of lines that have a question in words.
fn taken_with_words(seals: bool, requests: u64) -> [f64; 2] {
    let dir = scratch(if seals { "words_sealed" } else { "words_open" });
    let mut bench = Bench::open_with(&dir, |options| options.seals_bodies = seals);
    let lines: String = (0..requests).map(with_words).collect();
    let mut file = std::fs::File::create(&bench.home.queue).expect("create the queue");
    file.write_all(lines.as_bytes()).and_then(|()| file.sync_all()).expect("write the queue");
    let then = now();
    bench.ingest();
    let taken = since(then);
    bench.close();
    std::fs::remove_dir_all(&dir).expect("remove the scratch directory");
    taken
}

/// One line of the queue, whose question no other line has.
fn with_words(number: u64) -> String {
    let language = r#""language":"es""#;
    let question = format!(r#"{language},"focus":"What was decided about house {number}?""#);
    line(number).replace(language, &question)
}

/// Seconds of a replay, and of opening every body.
fn read_again(path: &Path, bodies: u64) -> [[f64; 2]; 2] {
    let disk = Machine::real().disk;
    let store = Store::open(Arc::clone(&disk), path, Options::beside(path), [7; 16], &mut |_| {})
        .expect("open the store");
    let log = store.reader();
    let then = now();
    rebuild(&log, Until::Head, Compare::Nothing, &mut |_| {}).expect("replay");
    let replayed = since(then);
    let mut with_body = Vec::new();
    log.scan(Seq(1), None, &mut |entry| {
        let is_item = matches!(entry.event(), Ok(Event::SummaryProduced { .. }));
        with_body.extend(is_item.then_some(entry.seq));
        ControlFlow::Continue(())
    })
    .expect("scan");
    let then = now();
    let mut read = 0;
    for seq in with_body {
        let body = log.body(seq).expect("read a body").expect("nothing was forgotten");
        read += u64::from(body.len() >= ITEM_BYTES);
    }
    let opened = since(then);
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
            if bits.is_multiple_of(4) {
                text.push(' ');
            }
            bits >>= 2;
        }
    }
    text.push_str("\"}");
    text.into_bytes()
}
