//! Positions in the log.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A position in the log: dense, from 1. `Seq(0)` stands before everything.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first record.
    pub const ZERO: Seq = Seq(0);

    /// The position after this one.
    pub fn next(self) -> Seq {
        Seq(self.0 + 1)
    }

    /// The position `count` further on.
    pub(crate) fn plus(self, count: u64) -> Seq {
        Seq(self.0 + count)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The random-key indexes over the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum KeyIndex {
    /// Effective idempotency key: the request that holds it; 0 when released.
    Idempotency = 1,
    /// Request id: its newest row.
    RequestId = 2,
    /// Summary id: the request that produced the item.
    SummaryId = 3,
}

impl KeyIndex {
    pub const ALL: [KeyIndex; 3] =
        [KeyIndex::Idempotency, KeyIndex::RequestId, KeyIndex::SummaryId];
}
