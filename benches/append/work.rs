//! The load for the log benches: records like requests, and checkpoints with random keys.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use summarizer::contract::hash::sha256;
use summarizer::contract::ids::{KeyIndex, Seq};
use summarizer::contract::time::Timestamp;
use summarizer::log::{Checkpoint, Commit, LogError, NewRecord, Options, Store};
use summarizer::os::real::HostDisk;

pub fn open(path: &Path, quick_repair: bool) -> Result<Store, LogError> {
    let options = Options { quick_repair, ..Options::beside(path) };
    Store::open(Arc::new(HostDisk), path, options, [7; 16], &mut |_| {})
}

/// A record of about `bytes` bytes: one half repeats the same words, as requests do; the other half
/// differs in each record.
pub fn record(number: u64, bytes: usize) -> NewRecord {
    let mut payload = Vec::with_capacity(bytes + 64);
    let mut round = 0u64;
    while payload.len() < bytes {
        let digest = sha256([number.to_le_bytes(), round.to_le_bytes()].concat());
        payload.extend_from_slice(&digest.hex().as_bytes()[..24]);
        payload.extend_from_slice(
            b"\",\"schema\":\"summary_request.v1\",\"flow_id\":\"email.summarize.body\"",
        );
        round += 1;
    }
    payload.truncate(bytes);
    NewRecord {
        at: Timestamp(1_770_000_000_000 + number as i64),
        tag: (number % 5) as u16,
        version: 1,
        payload,
        body: None,
    }
}

/// Records with the given numbers.
pub fn records(from: u64, count: u64, bytes: usize) -> Vec<NewRecord> {
    (from..from + count).map(|number| record(number, bytes)).collect()
}

/// The key of a number in the indexes.
pub fn digest(number: u64) -> [u8; 16] {
    sha256(number.to_le_bytes()).head()
}

/// A checkpoint that adds a row and a key in each index for every record in a range.
pub fn checkpoint(from: u64, to: u64) -> Checkpoint {
    let mut keys: Vec<_> = (from..=to).map(|seq| (digest(seq), seq)).collect();
    keys.sort_unstable();
    Checkpoint {
        rows: (from..=to).map(|seq| (Seq(seq), vec![seq as u8; 120])).collect(),
        open: Vec::new(),
        keys: KeyIndex::ALL.map(|index| (index, keys.clone())).to_vec(),
        documents: Vec::new(),
        applied: Seq(to),
    }
}

/// Appends prepared records in commits of `batch`, each durable when `append` returns.
pub fn append(store: &mut Store, records: &[NewRecord], batch: usize) {
    for chunk in records.chunks(batch) {
        let first = store.head().0.next();
        store
            .append(Commit { first, records: chunk, mark: b"mark", checkpoint: None })
            .expect("the benchmark's disk works");
    }
}

/// Reads every record and returns the number of bytes.
pub fn scan(store: &Store) -> u64 {
    let mut bytes = 0;
    store
        .reader()
        .scan(Seq(1), None, &mut |entry| {
            bytes += entry.payload.len() as u64;
            ControlFlow::Continue(())
        })
        .expect("the benchmark's store is whole");
    bytes
}
