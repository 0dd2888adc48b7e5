//! Verification: the log of a home is a part of the list, and the list is whole.
//!
//! Contract. Every commit is read and unpacked, and its chain followed from record to record. A log that has
//! the same hash at the end of a commit has the same records before it. Some commits are in memory at a time.

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::log::{LogError, Shipment};

use super::shared_log::{End, Listed, Reading, SharedError, SharedLog};

/// About how many bytes of commits are read at a time.
const READ_BYTES: usize = 4 << 20;

/// What was found in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Commits that were read.
    pub commits: u64,
    /// Their records.
    pub records: u64,
    /// Where the own log ends in the list.
    pub place: End,
    /// Where the list ends.
    pub end: End,
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Shared(#[from] SharedError),
    #[error("commit {n} of the list is damaged: {source}")]
    Damaged { n: u64, source: LogError },
    #[error("commit {n} of the list does not continue commit {}", n - 1)]
    Broken { n: u64 },
    #[error("the list ends or changes behind commit {n} while it is read: it has lost commits")]
    Lost { n: u64 },
    #[error("record {seq} of this home is another one than in commit {n} of the list")]
    Differs { n: u64, seq: Seq },
    #[error("this home ends at record {seq}, and the list begins later, at record {start}")]
    Before { seq: Seq, start: Seq },
    #[error("this home ends at record {seq}, and no commit of the list ends there")]
    Ahead { seq: Seq },
    #[error("read the log of this home")]
    Log(#[from] LogError),
}

/// Compares a log, which ends at `head`, with the whole list from its start. `hash_at` gives the hash of a
/// record of the log, `progress` gets the records that were read.
pub fn verify<L: SharedLog>(
    list: &mut L,
    start: End,
    head: (Seq, Digest),
    hash_at: &mut dyn FnMut(Seq) -> Result<Option<Digest>, LogError>,
    progress: &mut dyn FnMut(u64),
) -> Result<Agreed, VerifyError> {
    if head.0 < start.seq {
        return Err(VerifyError::Before { seq: head.0, start: start.seq });
    }
    let mut agreed = Agreed { commits: 0, records: 0, place: start, end: start };
    let mut is_placed = false;
    // The hash before the first record is no record of the log.
    let first = if start.seq == Seq::ZERO { None } else { hash_at(start.seq)? };
    if first.is_some_and(|hash| hash != start.hash) || (head.0 == start.seq && head.1 != start.hash)
    {
        return Err(VerifyError::Differs { n: start.n, seq: start.seq });
    }
    loop {
        is_placed |= head == (agreed.end.seq, agreed.end.hash);
        let n = agreed.end.n;
        let behind = match list.read_after(&agreed.end, READ_BYTES)? {
            Reading::Behind(behind) => behind,
            Reading::Differs => return Err(VerifyError::Lost { n }),
        };
        if behind.is_empty() {
            break;
        }
        for Listed { end, shipped } in behind {
            check(&agreed.end, &end, &shipped)?;
            if end.seq <= head.0 {
                let own = if end.seq == Seq::ZERO { Some(end.hash) } else { hash_at(end.seq)? };
                if own != Some(end.hash) {
                    return Err(VerifyError::Differs { n: end.n, seq: end.seq });
                }
                agreed.place = end;
                is_placed |= head == (end.seq, end.hash);
            }
            agreed.commits += 1;
            agreed.records += end.seq.0 - agreed.end.seq.0;
            agreed.end = end;
            progress(agreed.records);
        }
    }
    match is_placed {
        true => Ok(agreed),
        false => Err(VerifyError::Ahead { seq: head.0 }),
    }
}

/// Unpacks a commit, follows its chain, and compares both ends.
fn check(from: &End, end: &End, shipped: &[u8]) -> Result<(), VerifyError> {
    let damaged = |source| VerifyError::Damaged { n: end.n, source };
    let packed = Shipment::read(shipped).map_err(damaged)?.packed;
    let continues = packed.from() == (from.seq, from.hash) && packed.head() == (end.seq, end.hash);
    if continues { Ok(()) } else { Err(VerifyError::Broken { n: end.n }) }
}
