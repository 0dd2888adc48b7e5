//! Whether a log is the log of the acks beside it.
//!
//! Contract. Every ack quotes an event of the log and its hash. An ack is written after its event
//! is durable. So a log without the events of the last acks is an older copy, and a log without the
//! events of any ack belongs to another home. Continuing with either would cut the acks and repeat
//! work. Lines that are not acks are ignored, and a single edited line does not decide.

use std::path::Path;

use serde::Deserialize;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::log::{LogError, Reader};
use crate::os::{Disk, Open};

/// Bytes that are read at either end of the acks.
const LOOKED_AT: u64 = 64 << 10;
/// Acks that are compared with the log, at either end.
const ACKS_MAX: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kinship {
    /// It is the log of the acks, or there are no acks.
    Theirs,
    /// It is an older copy: it ends before this event, which an ack quotes.
    Older(Seq),
    /// It is the log of another home.
    Stranger,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum KinshipError {
    #[error("read run/ack.jsonl")]
    Acks(#[from] std::io::Error),
    #[error(transparent)]
    Log(#[from] LogError),
}

#[derive(Debug, Deserialize)]
struct Quoted {
    ack_seq: u64,
    log_head: String,
}

/// Compares the first and the last acks with the log.
pub(crate) fn kinship(disk: &dyn Disk, acks: &Path, log: &Reader) -> Result<Kinship, KinshipError> {
    let Some(stat) = disk.stat(acks)? else { return Ok(Kinship::Theirs) };
    let file = disk.open(acks, Open::Read)?;
    let part = |from: u64| -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; (stat.len - from).min(LOOKED_AT) as usize];
        let count = file.read_at(&mut bytes, from)?;
        bytes.truncate(count);
        Ok(bytes)
    };
    let first = quoted(&part(0)?);
    let last = quoted(&part(stat.len.saturating_sub(LOOKED_AT))?);
    let first = &first[..first.len().min(ACKS_MAX)];
    let last = &last[last.len().saturating_sub(ACKS_MAX)..];
    let Some((newest, _)) = last.last() else { return Ok(Kinship::Theirs) };
    let mut agrees = false;
    for (seq, hash) in first.iter().chain(last) {
        agrees |= log.get(*seq)?.is_some_and(|record| record.hash == *hash);
    }
    Ok(match (agrees, *newest > log.head().0) {
        (false, _) => Kinship::Stranger,
        (true, true) => Kinship::Older(*newest),
        (true, false) => Kinship::Theirs,
    })
}

/// The events and hashes that the whole lines quote.
fn quoted(bytes: &[u8]) -> Vec<(Seq, Digest)> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = bytes[..whole].split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice::<Quoted>(line).ok())
        .filter_map(|ack| Some((Seq(ack.ack_seq), ack.log_head.parse().ok()?)))
        .collect()
}
