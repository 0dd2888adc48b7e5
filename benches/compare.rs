//! Intake beside a SQLite queue, in one run: `cargo bench --bench compare -- [LINES] [ROUNDS]`.
//!
//! Both read the same file with the same reading and parsing threads, so they validate the same.
//! Both check two things for each request: was its id used with another idempotency key, and is its
//! key taken. SQLite uses WAL, synchronous=FULL, one transaction for each batch of 4,096 lines, one
//! index for each check, a table for bad lines, and stores the queue position in the same
//! transaction. It writes no acks and keeps neither history nor hash chain, which favours it.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that prints figures"
)]

#[path = "support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _, params};
use summarizer::sequencer::{intake::IntakeMessage, line::Line};
use support::{Bench, numbers, scratch, write_queue};

fn main() {
    let numbers = numbers();
    let lines = numbers.first().copied().unwrap_or(200_000);
    let rounds = numbers.get(1).copied().unwrap_or(3);
    println!("{lines} lines, every commit durable, {rounds} rounds; lines/s");
    let mut ratios = Vec::new();
    for round in 1..=rounds {
        let ours = time_ours(lines);
        let theirs = time_sqlite(lines);
        let (a, b) = (lines as f64 / ours.as_secs_f64(), lines as f64 / theirs.as_secs_f64());
        println!("round {round}: ours {a:>9.0}   sqlite {b:>9.0}   ratio {:.2}", a / b);
        ratios.push(a / b);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.2}", ratios[ratios.len() / 2]);
}

fn time_ours(lines: u64) -> Duration {
    let dir = scratch("ours");
    let mut bench = Bench::open(&dir, None);
    write_queue(&bench.home.queue.clone(), 0, lines).expect("write the queue");
    let ingested = bench.ingest();
    assert_eq!(ingested.lines, lines, "every line was taken in");
    bench.close();
    let _ = std::fs::remove_dir_all(&dir);
    ingested.elapsed
}

fn time_sqlite(lines: u64) -> Duration {
    let dir = scratch("sqlite");
    // Only its reading and parsing threads are used.
    let bench = Bench::open(&dir, None);
    write_queue(&bench.home.queue.clone(), 0, lines).expect("write the queue");
    let mut connection = open_sqlite(&dir.join("queue.sqlite"));
    let started = Instant::now();
    let intake = bench.intake();
    let mut taken = 0;
    while let Ok(IntakeMessage::Batch(promise)) = intake.messages.recv() {
        let arrived = promise.recv().expect("a parser answers");
        taken += arrived.lines.len() as u64;
        insert(&mut connection, &arrived.lines, arrived.end.offset);
    }
    let elapsed = started.elapsed();
    intake.stop();
    assert_eq!(taken, lines, "every line was taken in");
    bench.close();
    let _ = std::fs::remove_dir_all(&dir);
    elapsed
}

fn open_sqlite(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("open SQLite");
    connection
        .execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536;
             CREATE TABLE queue(seq INTEGER PRIMARY KEY, request_id TEXT NOT NULL,
               key BLOB NOT NULL UNIQUE, state INTEGER NOT NULL, priority INTEGER NOT NULL,
               line BLOB NOT NULL);
             CREATE INDEX queue_by_id ON queue(request_id);
             CREATE TABLE bad(seq INTEGER PRIMARY KEY, reason TEXT NOT NULL, raw BLOB);
             CREATE TABLE position(id INTEGER PRIMARY KEY CHECK(id = 1), offset INTEGER);
             INSERT INTO position VALUES(1, 0);",
        )
        .expect("make the tables");
    connection
}

fn insert(connection: &mut Connection, lines: &[Line], offset: u64) {
    let transaction = connection.transaction().expect("begin");
    {
        let sql = "SELECT key FROM queue WHERE request_id = ?1 ORDER BY seq DESC LIMIT 1";
        let mut newest = transaction.prepare_cached(sql).expect("prepare");
        let sql = "INSERT INTO queue(request_id, key, state, priority, line)
                   VALUES(?1, ?2, 0, ?3, ?4) ON CONFLICT(key) DO NOTHING";
        let mut queue = transaction.prepare_cached(sql).expect("prepare");
        let sql = "INSERT INTO bad(reason, raw) VALUES(?1, ?2)";
        let mut bad = transaction.prepare_cached(sql).expect("prepare");
        for line in lines {
            match line {
                Line::Request(arrival) => {
                    let request = &arrival.request;
                    let id = &request.head.request_id;
                    let before: Option<Vec<u8>> =
                        newest.query_row(params![id], |row| row.get(0)).optional().expect("look");
                    if before.is_some_and(|key| key != request.key.0) {
                        let reason = "request_id_conflict";
                        bad.execute(params![reason, &*request.line]).expect("insert");
                        continue;
                    }
                    queue
                        .execute(params![id, &request.key.0[..], request.priority, &*request.line])
                        .expect("insert");
                }
                Line::Bad(line) => {
                    let raw = match &line.raw {
                        summarizer::state::event::RawLine::Whole(raw)
                        | summarizer::state::event::RawLine::Prefix(raw) => raw,
                    };
                    bad.execute(params![line.reason.as_str(), raw]).expect("insert");
                }
            }
        }
        transaction
            .execute("UPDATE position SET offset = ?1", params![offset as i64])
            .expect("update");
    }
    transaction.commit().expect("commit");
}
