//! Whether a log is the one that the acks beside it tell of.
//!
//! Contract. Every ack quotes an event of the log and its hash. An ack is written after its event
//! is durable, so a log that does not hold the last ones is an older copy, and one that holds none
//! of them is another's. Going on with either would cut the acks and do work again. Lines that are
//! no acks say nothing; a single edited line does not decide.

use std::path::Path;

use serde::Deserialize;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::log::{LogError, Reader};
use crate::os::{Disk, Open};

/// Bytes looked at, at either end of the acks.
const LOOKED_AT: u64 = 64 << 10;
/// Acks held against the log, at either end.
const ACKS_MAX: usize = 4;

/// How a log stands to the acks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kinship {
    /// It is theirs, or they say nothing.
    Theirs,
    /// It is theirs as it was once: an ack is of this event, and it ends before.
    Older(Seq),
    /// It is another.
    Stranger,
}

/// Why that cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum KinshipError {
    /// The acks.
    #[error("read the acks")]
    Acks(#[from] std::io::Error),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
}

#[derive(Debug, Deserialize)]
struct Quoted {
    ack_seq: u64,
    log_head: String,
}

/// Holds the first and the last acks against the log.
pub fn kinship(disk: &dyn Disk, acks: &Path, log: &Reader) -> Result<Kinship, KinshipError> {
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

/// The whole lines that are acks, as they quote the log.
fn quoted(bytes: &[u8]) -> Vec<(Seq, Digest)> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = bytes[..whole].split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice::<Quoted>(line).ok())
        .filter_map(|ack| Some((Seq(ack.ack_seq), ack.log_head.parse().ok()?)))
        .collect()
}
