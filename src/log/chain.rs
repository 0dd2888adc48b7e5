//! The hash chain: every record's hash covers the hash before it.
//!
//! Suppose that somebody keeps a hash outside the home. Then the chain proves that no record before
//! it was edited, reordered or removed. It does not prove who wrote a record, and it does not show
//! that records after the last kept hash were removed.

use crate::contract::hash::{Digest, Hasher, sha256};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;

const GENESIS: &[u8] = b"summarizer.log.v1";

/// The hash before the first record of a store.
pub fn genesis(store_id: [u8; 16]) -> Digest {
    let mut bytes = GENESIS.to_vec();
    bytes.extend_from_slice(&store_id);
    sha256(bytes)
}

/// The hash of one record, given the hash of the record before it.
pub fn record_hash(
    previous: &Digest,
    seq: Seq,
    at: Timestamp,
    tag: u16,
    version: u32,
    payload: &[u8],
) -> Digest {
    let mut head = [0; 58];
    head[..32].copy_from_slice(&previous.0);
    head[32..40].copy_from_slice(&seq.0.to_le_bytes());
    head[40..48].copy_from_slice(&at.0.to_le_bytes());
    head[48..50].copy_from_slice(&tag.to_le_bytes());
    head[50..54].copy_from_slice(&version.to_le_bytes());
    head[54..58].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    Hasher::new().update(head).update(payload).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashed_bytes_are_pinned() {
        let previous = genesis([7; 16]);
        let mut expected = Vec::new();
        expected.extend_from_slice(&previous.0);
        expected.extend_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&[0xff; 8]);
        expected.extend_from_slice(&[3, 0, 4, 0, 0, 0, 2, 0, 0, 0]);
        expected.extend_from_slice(b"ab");
        let hash = record_hash(&previous, Seq(258), Timestamp(-1), 3, 4, b"ab");
        assert_eq!(hash, sha256(expected));
        assert_eq!(previous, sha256([GENESIS, &[7; 16]].concat()));
    }
}
