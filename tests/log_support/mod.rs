//! Shared by the tests of the log: records whose content depends on their number.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its part, and stops at surprises"
)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use summarizer::contract::hash::Digest;
use summarizer::contract::ids::Seq;
use summarizer::contract::time::Timestamp;
use summarizer::log::{Commit, LogError, NewRecord, Options, Reader, Store, genesis, record_hash};
use summarizer::os::Disk;

pub const ID: [u8; 16] = [7; 16];

pub fn open_on(disk: Arc<dyn Disk>, path: &Path) -> Result<Store, LogError> {
    // A commit of a few hundred records is one frame, so that tests can say where frames end.
    let options = Options { frame_bytes: 128 << 10, ..Options::beside(path) };
    Store::open(disk, path, options, ID, &mut |_| {})
}

pub fn record(number: u64, body: bool) -> NewRecord {
    let payload = format!("{{\"number\":{number},\"text\":\"{}\"}}", "lorem ipsum ".repeat(20));
    NewRecord {
        at: Timestamp(1_000 + number as i64),
        tag: (number % 7) as u16,
        version: 1,
        payload: payload.into_bytes(),
        body: body.then(|| format!("body of {number} ").repeat(40).into_bytes()),
    }
}

pub fn records(range: std::ops::RangeInclusive<u64>, body_every: u64) -> Vec<NewRecord> {
    range.map(|number| record(number, number % body_every == 0)).collect()
}

pub fn commit<'a>(first: u64, records: &'a [NewRecord], mark: &'a [u8]) -> Commit<'a> {
    Commit { first: Seq(first), records, mark, checkpoint: None }
}

/// The hashes of the chain, computed without the store.
pub fn chain(records: &[NewRecord]) -> Vec<Digest> {
    let mut hash = genesis(ID);
    let mut seq = Seq(0);
    records
        .iter()
        .map(|record| {
            seq = seq.next();
            hash = record_hash(&hash, seq, record.at, record.tag, record.version, &record.payload);
            hash
        })
        .collect()
}

pub fn payloads(reader: &Reader, from: u64, until: Option<u64>) -> Vec<(u64, Vec<u8>)> {
    let mut seen = Vec::new();
    reader
        .scan(Seq(from), until.map(Seq), &mut |entry| {
            seen.push((entry.seq.0, entry.payload.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    seen
}
