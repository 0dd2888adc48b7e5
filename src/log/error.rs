//! What can go wrong with the log.

use std::io;

use super::codec::CodecError;
use crate::contract::ids::Seq;

/// A failed operation on the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another process holds the store.
    #[error("the store is in use by another process")]
    Busy,
    /// A newer program wrote the store.
    #[error(
        "the store has format version {found}, newer than the {supported} this program can write; \
         summarizer {release} or newer reads it"
    )]
    Newer {
        /// The release that wrote it first.
        release: String,
        /// Version in the file.
        found: u32,
        /// Newest version this program writes.
        supported: u32,
    },
    #[cfg(feature = "cluster")]
    /// A newer program on another host wrote it.
    #[error(
        "a commit of another host has form {found}, and this program reads form {supported}: update this host"
    )]
    NewerCommit { found: u8, supported: u8 },
    /// The file is there but it is no store of ours.
    #[error("the file is not a summarizer store: {0}")]
    NotAStore(String),
    /// An earlier write failed: what is on disk is unknown until the store is opened again.
    #[error("an earlier write to the store failed; it must be opened again")]
    Poisoned,
    /// The store was closed while a reader was kept.
    #[error("the store is closed")]
    Closed,
    /// Somebody appended at a position that is not the end.
    #[error("append at record {expected}, but the log continues at record {actual}")]
    Position {
        /// Where the caller believed the log continues.
        expected: Seq,
        /// Where it does continue.
        actual: Seq,
    },
    /// The commit breaks a rule of the interface.
    #[error("refuse the commit: {0}")]
    Invalid(&'static str),
    /// Bytes of the store are not what was written.
    #[error("the store is damaged at record {seq}: {what}")]
    Damaged {
        /// First record that cannot be trusted.
        seq: Seq,
        what: String,
    },
    /// A hash that somebody kept outside differs from the hash in the log.
    #[error("the anchor at record {seq} does not match the log: {what}")]
    Anchor {
        /// The record it names.
        seq: Seq,
        /// What the log has there.
        what: String,
    },
    /// Bytes outside the records are not what was written.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// Compaction needs more room than the disk has.
    #[error("not enough free space: {needed} bytes needed, {free} free")]
    NoRoom {
        /// Bytes the operation may need.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A reader still reads from the store, and this operation must not run at the same time.
    #[error("a reader still uses the store")]
    InUse,
    #[error("cannot read the keys of the log")]
    Keys(#[from] KeysError),
    #[cfg(feature = "cluster")]
    /// The hosts that share the log did not take a commit, so it is not written here either.
    #[error("the shared log did not take a commit")]
    Shared(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot {doing}")]
    Io { doing: &'static str, source: io::Error },
}

impl LogError {
    /// True when the disk ran out of space: free some and start again, nothing is lost.
    pub fn is_full(&self) -> bool {
        match self {
            LogError::NoRoom { .. } => true,
            LogError::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    /// Wraps an I/O error with what was tried.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> LogError {
        move |source| LogError::Io { doing, source }
    }
}

/// Why the keys cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error(
        "{path} is missing: it holds the keys that texts and answers in the log are sealed with"
    )]
    Missing { path: String },
    #[error("{path} is damaged: {what}")]
    Damaged { path: String, what: &'static str },
    #[error("{path} holds the keys of another log")]
    Foreign { path: String },
    #[error("{path} is sealed, and the settings name no key of the home")]
    Sealed { path: String },
    #[error("{path} is sealed with another key of the home")]
    WrongKey { path: String },
}

/// Why an event, a row or a document could not be read back from the log.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("read the log")]
    Log(#[from] LogError),
    /// A record, row or document that does not decode.
    #[error("read event {seq}")]
    Event { seq: Seq, source: CodecError },
    /// A record that is there and is not what it should be, or lacks its body.
    #[error("event {seq}: {what}")]
    Unexpected {
        seq: Seq,
        /// What is wrong with it.
        what: String,
    },
}

impl ReadError {
    /// A record that is not what it should be.
    pub(crate) fn unexpected(seq: Seq, what: impl ToString) -> ReadError {
        ReadError::Unexpected { seq, what: what.to_string() }
    }

    /// A record whose body is not in the log any more.
    pub(crate) fn no_body(seq: Seq) -> ReadError {
        ReadError::unexpected(seq, "its body is missing")
    }
}
