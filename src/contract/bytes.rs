//! Bytes that are read once and held by many: a batch of the queue, and the lines in it.
//!
//! Contract. A line keeps the batch that it came with, so nothing is copied between reading it and
//! encoding it for the log. When the last line of a batch is gone its memory goes back to the pool
//! it was taken from, wherever that happens: memory that comes fresh from the system has to be
//! cleared, and that costs as much as what is done with it.
//!
//! See docs/adr/0079-lines-share-their-batch-buffer.md.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use parking_lot::Mutex;

/// Buffers that a pool keeps for later.
const KEPT: usize = 4;

/// Memory that is used again.
#[derive(Clone, Default)]
pub(crate) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    /// An empty buffer, used before if there is one.
    pub fn take(&self) -> Vec<u8> {
        let mut buffer = self.0.lock().pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Makes a filled buffer one that many can hold, and that comes back.
    pub(crate) fn lend(&self, bytes: Vec<u8>) -> Piece {
        Piece::whole(Lent { bytes, pool: Some(self.clone()) })
    }

    /// Gives what is kept back to the system.
    pub fn drain(&self) {
        self.0.lock().clear();
    }
}

struct Lent {
    bytes: Vec<u8>,
    pool: Option<Pool>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(Pool(kept)) = &self.pool {
            let mut kept = kept.lock();
            if kept.len() < KEPT {
                kept.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

/// A stretch of bytes that others may hold too.
#[derive(Clone)]
pub struct Piece {
    of: Arc<Lent>,
    range: Range<usize>,
}

impl Piece {
    fn whole(lent: Lent) -> Piece {
        Piece { range: 0..lent.bytes.len(), of: Arc::new(lent) }
    }

    /// A part of it.
    pub fn piece(&self, range: Range<usize>) -> Piece {
        let range = self.range.start + range.start..self.range.start + range.end;
        assert!(range.end <= self.range.end, "a piece of something is within it");
        Piece { of: Arc::clone(&self.of), range }
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Piece {
        Piece::whole(Lent { bytes, pool: None })
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.of.bytes[self.range.clone()]
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Piece {
    fn eq(&self, other: &Piece) -> bool {
        **self == **other
    }
}

impl Eq for Piece {}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_with_the_last_piece() {
        let pool = Pool::default();
        let whole = pool.lend(b"one two".to_vec());
        let at = whole.as_ptr();
        let two = whole.piece(4..7).piece(1..3);
        assert_eq!((&*two, format!("{two:?}").as_str()), (&b"wo"[..], "b\"wo\""));
        drop(whole);
        assert_eq!(pool.take().capacity(), 0, "a piece is still held");
        drop(two);
        let again = pool.take();
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
    }

    #[test]
    fn a_pool_keeps_a_few_buffers() {
        let pool = Pool::default();
        let lent: Vec<Piece> = (0..KEPT + 3).map(|_| pool.lend(vec![7; 64])).collect();
        drop(lent);
        assert_eq!(pool.0.lock().len(), KEPT);
        pool.drain();
        assert!(pool.0.lock().is_empty());
    }

    #[test]
    #[should_panic(expected = "within it")]
    fn a_piece_does_not_reach_beyond_what_it_is_of() {
        let line = Piece::from(b"abcdef".to_vec()).piece(1..3);
        drop(line.piece(0..4));
    }
}
