//! What a commit stores about the queue: the position after it and the bytes it consumed.
//!
//! It is stored as JSON in the last frame of the commit. That costs a few hundred bytes a commit,
//! and a person can read it in a dump.
//!
//! See docs/adr/0037-queue-mark-as-json.md.

use serde::{Deserialize, Serialize};

use crate::contract::hash::{Digest, NotADigest};
use crate::seam::position::{ConsumedBatch, Identity, Position};

#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    #[error("parse the stored queue position")]
    Json(#[from] serde_json::Error),
    #[error("parse a hash in the stored queue position")]
    Digest(#[from] NotADigest),
}

/// The queue as of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueMark {
    /// Where reading continues.
    pub position: Position,
    /// What this commit consumed.
    pub consumed: Option<ConsumedBatch>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    offset: u64,
    lines: u64,
    chain: String,
    tail_len: u32,
    tail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<WireIdentity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed: Option<WireConsumed>,
}

#[derive(Serialize, Deserialize)]
struct WireIdentity {
    device: u64,
    inode: u64,
    head_len: u32,
    head: String,
}

#[derive(Serialize, Deserialize)]
struct WireConsumed {
    start: u64,
    end: u64,
    hash: String,
}

impl QueueMark {
    pub fn encode(&self) -> Vec<u8> {
        let position = &self.position;
        let wire = Wire {
            offset: position.offset,
            lines: position.lines,
            chain: position.chain.hex(),
            tail_len: position.tail_len,
            tail: position.tail.hex(),
            identity: position.identity.as_ref().map(|identity| WireIdentity {
                device: identity.device,
                inode: identity.inode,
                head_len: identity.head_len,
                head: identity.head.hex(),
            }),
            consumed: self.consumed.map(|consumed| WireConsumed {
                start: consumed.start,
                end: consumed.end,
                hash: consumed.hash.hex(),
            }),
        };
        serde_json::to_vec(&wire).expect("a mark has string keys and whole numbers")
    }

    /// Reads a stored mark. No bytes mean that nothing of the queue was consumed.
    pub fn decode(bytes: &[u8]) -> Result<QueueMark, MarkError> {
        if bytes.is_empty() {
            return Ok(QueueMark { position: Position::START, consumed: None });
        }
        let wire: Wire = serde_json::from_slice(bytes)?;
        let identity = match wire.identity {
            None => None,
            Some(identity) => Some(Identity {
                device: identity.device,
                inode: identity.inode,
                head_len: identity.head_len,
                head: digest(&identity.head)?,
            }),
        };
        let consumed = match wire.consumed {
            None => None,
            Some(consumed) => Some(ConsumedBatch {
                start: consumed.start,
                end: consumed.end,
                hash: digest(&consumed.hash)?,
            }),
        };
        let position = Position {
            offset: wire.offset,
            lines: wire.lines,
            identity,
            chain: digest(&wire.chain)?,
            tail_len: wire.tail_len,
            tail: digest(&wire.tail)?,
        };
        Ok(QueueMark { position, consumed })
    }
}

fn digest(hex: &str) -> Result<Digest, NotADigest> {
    hex.parse()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;

    #[test]
    fn an_encoded_mark_decodes_to_the_same_mark() {
        let mark = QueueMark {
            position: Position {
                offset: 9,
                lines: 2,
                identity: Some(Identity { device: 1, inode: 2, head_len: 9, head: sha256("h") }),
                chain: sha256("c"),
                tail_len: 9,
                tail: sha256("t"),
            },
            consumed: Some(ConsumedBatch { start: 0, end: 9, hash: sha256("b") }),
        };
        assert_eq!(QueueMark::decode(&mark.encode()).unwrap(), mark);
        assert_eq!(QueueMark::decode(b"").unwrap().position, Position::START);
        assert!(QueueMark::decode(b"{}").is_err());
    }
}
