//! The queue as of a commit: where reading continues, and what was consumed.

use std::collections::BTreeMap;

use crate::contract::hash::Digest;

/// What a commit stores about the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueMark {
    pub position: Position,
    /// What this commit consumed.
    pub consumed: Option<ConsumedBatch>,
}

/// What a commit stores about the queues of all hosts that share the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueMarks {
    /// By the name of the host. A host that has its log alone has the name [`QueueMarks::ALONE`].
    pub by_host: BTreeMap<String, QueueMark>,
}

impl QueueMarks {
    pub const ALONE: &str = "";

    pub fn of_one(mark: QueueMark) -> QueueMarks {
        QueueMarks { by_host: BTreeMap::from([(QueueMarks::ALONE.to_owned(), mark)]) }
    }

    /// The only mark, of a host that has its log alone.
    pub fn alone(&self) -> Option<&QueueMark> {
        self.by_host.get(QueueMarks::ALONE).filter(|_| self.by_host.len() == 1)
    }
}

/// How far the queue is consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The first byte that is not consumed.
    pub offset: u64,
    /// Lines before it, blank and bad ones included.
    pub lines: u64,
    /// Which file it is; none while nothing is consumed.
    pub identity: Option<Identity>,
    /// Running hash of the consumed batches: `seam::position::link`.
    pub chain: Digest,
    /// How many bytes before `offset` the tail hash covers.
    pub tail_len: u32,
    pub tail: Digest,
}

impl Position {
    /// The beginning of a queue that was never read.
    pub const START: Position = Position {
        offset: 0,
        lines: 0,
        identity: None,
        chain: Digest::ZERO,
        tail_len: 0,
        tail: Digest::ZERO,
    };
}

/// Which file a position is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    /// How many of its first bytes the head hash covers.
    pub head_len: u32,
    pub head: Digest,
}

/// One batch of consumed bytes, as the log remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumedBatch {
    /// First byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
    /// Hash of the bytes between.
    pub hash: Digest,
}
