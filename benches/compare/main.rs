//! Our queue beside three others, in one run: `cargo bench --bench compare -- [LINES] [ROUNDS]`.
//!
//! All read the same file with the same reading and parsing threads, so they validate the same. All check two
//! things for each request: was its id used with another idempotency key, and is its key taken. Then all complete
//! every request with the same item of 300 bytes, which stands for work that answers immediately. `lines/s` is the
//! intake; `requests/s` counts from the first line to the last durable end. Every commit is durable: SQLite has
//! WAL and synchronous=FULL, Redis appends its file with fsync always, PostgreSQL commits synchronously.
//!
//! The others take a batch in, or claim and finish a batch, in one transaction each, with the position of the
//! reader in it. They write no acks and keep neither history nor hash chain, which favours them. A server that is
//! not installed is left out, with a line that says so.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that prints figures"
)]

mod postgres;
mod redis;
mod sqlite;
#[path = "../support/mod.rs"]
mod support;

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use summarizer::sequencer::{intake::IntakeMessage, line::Line};
use summarizer::state::event::RawLine;
use support::{BATCH, Bench, measured, numbers, scratch, write_queue};

/// A line that was read and checked, as another queue takes it in.
pub(crate) enum Row<'a> {
    Request { id: &'a str, key: &'a [u8], priority: i32, line: &'a [u8] },
    Bad { reason: &'a str, raw: &'a [u8] },
}

impl<'a> Row<'a> {
    fn of(line: &'a Line) -> Row<'a> {
        match line {
            Line::Request(arrival) => Row::Request {
                id: &arrival.request.head.request_id,
                key: &arrival.request.key.0,
                priority: i32::from(arrival.request.priority),
                line: &arrival.request.line,
            },
            Line::Bad(bad) => {
                let raw: &[u8] = match &bad.raw {
                    RawLine::Whole(raw) | RawLine::Prefix(raw) => raw,
                    RawLine::Away { .. } => &[],
                };
                Row::Bad { reason: bad.reason.as_str(), raw }
            }
        }
    }
}

/// Another queue that does the same work.
pub(crate) trait Queue {
    /// Takes lines in, durably, with the place in the file where reading continues.
    fn take_in(&mut self, rows: &[Row<'_>], offset: u64);

    /// Claims up to so many waiting requests and completes them with this item. Returns how many.
    fn complete(&mut self, most: usize, item: &[u8]) -> u64;
}

/// How long taking in and completing took, and how many requests were completed.
struct Took {
    taking_in: Duration,
    completing: Duration,
    completed: u64,
}

fn main() {
    let numbers = numbers();
    let (lines, rounds) = if measured() { (200_000, 3) } else { (3_000, 1) };
    let lines = numbers.first().copied().unwrap_or(lines);
    let rounds = numbers.get(1).copied().unwrap_or(rounds);
    println!("{lines} lines, every commit durable, {rounds} rounds");
    let mut all: Vec<(String, Vec<Took>)> = Vec::new();
    for _ in 0..rounds {
        let mut round = vec![("ours".to_owned(), time_ours(lines))];
        let dir = scratch("sqlite");
        round.push(("sqlite".to_owned(), time(&dir, lines, BATCH, sqlite::Sqlite::open(&dir))));
        let dir = scratch("redis");
        match redis::Redis::start(&dir) {
            Ok(redis) => round.push(("redis".to_owned(), time(&dir, lines, BATCH, redis))),
            Err(why) => println!("LEFT OUT: redis: {why}"),
        }
        for batch in [256, BATCH] {
            let dir = scratch("postgres");
            match postgres::Postgres::start(&dir) {
                Ok(postgres) => {
                    let name = format!("postgresql by {batch}");
                    round.push((name, time(&dir, lines, batch, postgres)));
                }
                Err(why) => println!("LEFT OUT: postgresql: {why}"),
            }
        }
        for (name, took) in round {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, rounds)) => rounds.push(took),
                None => all.push((name, vec![took])),
            }
        }
    }
    println!("{:<20}  {:>9}  {:>6}  {:>10}  {:>6}", "", "lines/s", "ratio", "requests/s", "ratio");
    let ours = medians(lines, &all[0].1);
    for (name, rounds) in &all {
        let (taken_in, completed) = medians(lines, rounds);
        let [first, second] = [ours.0 / taken_in, ours.1 / completed];
        println!("{name:<20}  {taken_in:>9.0}  {first:>6.2}  {completed:>10.0}  {second:>6.2}");
    }
}

/// Lines a second, and requests from line to end a second.
fn medians(lines: u64, rounds: &[Took]) -> (f64, f64) {
    let median = |rate: &dyn Fn(&Took) -> f64| {
        let mut rates: Vec<f64> = rounds.iter().map(rate).collect();
        rates.sort_by(f64::total_cmp);
        rates[(rates.len() - 1) / 2]
    };
    let taken_in = median(&|took| lines as f64 / took.taking_in.as_secs_f64());
    let completed =
        |took: &Took| took.completed as f64 / (took.taking_in + took.completing).as_secs_f64();
    (taken_in, median(&completed))
}

fn time_ours(lines: u64) -> Took {
    let dir = scratch("ours");
    let mut bench = Bench::open(&dir, None);
    write_queue(&bench.home.queue.clone(), 0, lines).expect("write the queue");
    let ingested = bench.ingest();
    assert_eq!(ingested.lines, lines, "every line was taken in");
    let finished = bench.finish_all();
    bench.close();
    let _ = std::fs::remove_dir_all(&dir);
    Took { taking_in: ingested.elapsed, completing: finished.elapsed, completed: finished.lines }
}

fn time(dir: &Path, lines: u64, batch: usize, mut queue: impl Queue) -> Took {
    // Only its reading and parsing threads are used.
    let bench = Bench::open(dir, None);
    write_queue(&bench.home.queue.clone(), 0, lines).expect("write the queue");
    let started = Instant::now();
    let intake = bench.intake();
    let mut taken = 0;
    while let Ok(IntakeMessage::Batch(promise)) = intake.messages.recv() {
        let arrived = promise.recv().expect("a parser answers");
        taken += arrived.lines.len() as u64;
        let rows: Vec<Row<'_>> = arrived.lines.iter().map(Row::of).collect();
        for rows in rows.chunks(batch) {
            queue.take_in(rows, arrived.end.offset);
        }
    }
    let taking_in = started.elapsed();
    intake.stop();
    assert_eq!(taken, lines, "every line was taken in");
    let started = Instant::now();
    let (item, mut completed) = ([b'x'; 300], 0);
    loop {
        match queue.complete(batch, &item) {
            0 => break,
            count => completed += count,
        }
    }
    let completing = started.elapsed();
    bench.close();
    drop(queue);
    let _ = std::fs::remove_dir_all(dir);
    Took { taking_in, completing, completed }
}

/// A port of loopback that nobody uses.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Where a server writes what it says.
pub(crate) fn log_file(dir: &Path) -> std::io::Result<File> {
    File::create(dir.join("server.log"))
}
