//! What a commit stores about the queue, as bytes and back.
//!
//! See docs/adr/0037-sealed-queue-mark.md.

use crate::log::codec::{self, CodecError};
use crate::seam::position::Position;

pub use crate::facts::queue::QueueMark;

/// The log holds a mark that is not what a commit wrote.
#[derive(Debug, thiserror::Error)]
#[error("the queue position in the log is damaged; `summarizer recover` restores it")]
pub struct MarkError(#[from] CodecError);

impl QueueMark {
    pub fn encode(&self) -> Vec<u8> {
        codec::encode_mark(self)
    }

    /// Reads a stored mark. No bytes mean that nothing of the queue was consumed.
    pub fn decode(bytes: &[u8]) -> Result<QueueMark, MarkError> {
        if bytes.is_empty() {
            return Ok(QueueMark { position: Position::START, consumed: None });
        }
        Ok(codec::decode_mark(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;
    use crate::seam::position::{ConsumedBatch, Identity};

    fn mark() -> QueueMark {
        QueueMark {
            position: Position {
                offset: 9,
                lines: 2,
                identity: Some(Identity { device: 1, inode: 2, head_len: 9, head: sha256("h") }),
                chain: sha256("c"),
                tail_len: 9,
                tail: sha256("t"),
            },
            consumed: Some(ConsumedBatch { start: 0, end: 9, hash: sha256("b") }),
        }
    }

    #[test]
    fn an_encoded_mark_decodes_to_the_same_mark() {
        assert_eq!(QueueMark::decode(&mark().encode()).unwrap(), mark());
        let start = QueueMark { position: Position::START, consumed: None };
        assert_eq!(QueueMark::decode(&start.encode()).unwrap(), start);
        assert_eq!(QueueMark::decode(b"").unwrap(), start);
    }

    #[test]
    fn a_mark_with_a_changed_or_missing_byte_is_an_error() {
        let bytes = mark().encode();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(QueueMark::decode(&changed).is_err(), "byte {at}");
            if at > 0 {
                assert!(QueueMark::decode(&bytes[..at]).is_err(), "{at} bytes");
            }
        }
    }
}
