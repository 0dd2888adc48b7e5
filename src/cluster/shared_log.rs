//! The ordered list of commits that hosts share, as they see it.
//!
//! Contract. Each call either answers, or its outcome is unclear: then it was carried out, or not, or
//! will be later. What a call answered before is durable where the list is kept.

use std::fmt;
use std::time::Duration;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::log::Packed;

/// One start of the program on one host. A new start is another one, so that no claim outlives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub host: String,
    /// Chosen at random at each start.
    pub start: u64,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:016x}", self.host, self.start)
    }
}

/// Where a list ends: the number of its commits, the last record and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub n: u64,
    pub seq: Seq,
    pub hash: Digest,
}

impl End {
    /// The end after one more commit.
    pub fn after(&self, commit: &Outgoing) -> End {
        End { n: self.n + 1, seq: commit.last, hash: commit.hash }
    }
}

/// The right to append, as long as nobody claimed it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub epoch: u64,
    /// Where the list ended when it was made, or ends after the appends since.
    pub end: End,
}

/// A commit on its way to the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The record it continues, and the hash of that one.
    pub from: (Seq, Digest),
    pub last: Seq,
    /// Of the last record.
    pub hash: Digest,
    pub shipped: Vec<u8>,
}

impl Outgoing {
    pub(super) fn of(packed: &Packed, mark: &[u8]) -> Outgoing {
        let (last, hash) = packed.head();
        Outgoing { from: packed.from(), last, hash, shipped: packed.shipped(mark) }
    }
}

/// A commit in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The end of the list after it.
    pub end: End,
    pub shipped: Vec<u8>,
}

/// What came of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    Landed,
    /// Another epoch is in force, or the list ends elsewhere. Nothing was appended.
    Deposed,
}

/// What a reading found behind a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// The commits behind it, in order; none when the list ends there.
    Behind(Vec<Listed>),
    /// The list has another commit at that place, or ends before it.
    Differs,
}

/// What came of holding the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseHeld {
    Mine,
    /// The lease is held, and this other host should lead next.
    For(String),
    /// Another claim is in force.
    Deposed,
}

#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// The call was carried out, or not, or will be later.
    #[error("no answer from the shared log: {0}")]
    Unclear(String),
    /// It was not carried out, and never will be as things are.
    #[error("the shared log refused: {0}")]
    Refused(String),
}

/// For how many leases after the end of the last one only the successor may claim.
pub const PREFERENCE: u32 = 2;

/// The list of one log.
pub trait SharedLog: Send {
    /// Finds the first commit that ends with this record.
    fn find(&mut self, seq: Seq, hash: Digest) -> Result<Option<End>, SharedError>;

    /// Reads on from a place, about so many bytes.
    fn read_after(&mut self, place: &End, bytes: usize) -> Result<Reading, SharedError>;

    /// Says that the log of this host, which ends with this hash, is no part of the list. It is for people.
    fn tell_difference(&mut self, hash: Digest) -> Result<(), SharedError> {
        let _ = hash;
        Ok(())
    }

    /// Makes a write of its own. Once it is confirmed, so is everything that was read before.
    fn settle(&mut self) -> Result<(), SharedError>;

    /// Appends, and holds the lease for so long.
    fn append(
        &mut self,
        claim: &Claim,
        commit: &Outgoing,
        lease: Duration,
    ) -> Result<Appended, SharedError>;

    /// Claims the list when its lease has ended; `None` while another holds it. A host that was named as the
    /// successor goes before others for [`PREFERENCE`] leases.
    fn claim(&mut self, me: &Member, lease: Duration) -> Result<Option<Claim>, SharedError>;

    /// Claims it under a higher epoch, for whoever has it with at least this one; `None` for all others.
    fn claim_again(
        &mut self,
        me: &Member,
        epoch: u64,
        lease: Duration,
    ) -> Result<Option<Claim>, SharedError>;

    /// Holds the lease for so long from now.
    fn renew(&mut self, me: &Member, lease: Duration) -> Result<LeaseHeld, SharedError>;

    /// Ends the lease of this start now, if it has one. It appends nothing any more.
    fn release(&mut self, me: &Member) -> Result<(), SharedError>;

    /// Waits until commits or jobs were added, at most for so long. True when there may be some; a hint, which can
    /// be missed.
    fn wait_for_word(&mut self, longest: Duration) -> Result<bool, SharedError>;

    /// Keeps the file of the keys, for hosts that join later: without those that were destroyed by the fact at this
    /// record and before. False when this start does not lead, or newer ones are kept.
    fn keep_keys(&mut self, me: &Member, forgotten: Seq, keys: &[u8]) -> Result<bool, SharedError>;

    /// Names the host that should lead next, or none. Its claim takes the name away again.
    fn name_successor(&mut self, host: Option<&str>) -> Result<(), SharedError>;
}
