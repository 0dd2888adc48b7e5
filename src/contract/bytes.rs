//! Bytes that are read once and shared: a batch of the queue and the lines in it.
//!
//! Contract. A line shares the buffer of its batch, so no bytes are copied between reading a line and
//! encoding it for the log. When the last line of a batch is dropped, in any thread, the buffer goes
//! back to its pool. Reuse matters: the system clears fresh memory, and that costs as much as the
//! work on the bytes.
//!
//! See docs/adr/0079-lines-share-their-batch-buffer.md.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use parking_lot::Mutex;

/// Most unused buffers in a pool.
const KEPT: usize = 4;

/// The place of the first of `count` sorted entries that is not below what is looked for.
pub(crate) fn lower_bound(count: usize, is_below: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_below(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Buffers that are used again.
#[derive(Clone, Default)]
pub(crate) struct BufferPool(Arc<Mutex<Vec<Vec<u8>>>>);

impl BufferPool {
    /// An empty buffer: a used one if the pool has one, otherwise a new one.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut buffer = self.0.lock().pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Makes a filled buffer shareable. It comes back to this pool after its last use.
    pub(crate) fn lend(&self, bytes: Vec<u8>) -> SharedBytes {
        SharedBytes::whole(PooledBuffer { bytes, pool: Some(self.clone()) })
    }

    /// Frees the unused buffers.
    pub(crate) fn drain(&self) {
        self.0.lock().clear();
    }
}

struct PooledBuffer {
    bytes: Vec<u8>,
    pool: Option<BufferPool>,
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(BufferPool(kept)) = &self.pool {
            let mut kept = kept.lock();
            if kept.len() < KEPT {
                kept.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

/// A range of a shared buffer.
#[derive(Clone)]
pub struct SharedBytes {
    of: Arc<PooledBuffer>,
    range: Range<usize>,
}

impl SharedBytes {
    fn whole(lent: PooledBuffer) -> SharedBytes {
        SharedBytes { range: 0..lent.bytes.len(), of: Arc::new(lent) }
    }

    /// A part of these bytes, which shares the same buffer.
    pub fn slice(&self, range: Range<usize>) -> SharedBytes {
        let range = self.range.start + range.start..self.range.start + range.end;
        assert!(range.end <= self.range.end, "the range is within these bytes");
        SharedBytes { of: Arc::clone(&self.of), range }
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> SharedBytes {
        SharedBytes::whole(PooledBuffer { bytes, pool: None })
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.of.bytes[self.range.clone()]
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &SharedBytes) -> bool {
        **self == **other
    }
}

impl Eq for SharedBytes {}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_with_its_last_slice() {
        let pool = BufferPool::default();
        let whole = pool.lend(b"one two".to_vec());
        let at = whole.as_ptr();
        let two = whole.slice(4..7).slice(1..3);
        assert_eq!((&*two, format!("{two:?}").as_str()), (&b"wo"[..], "b\"wo\""));
        drop(whole);
        assert_eq!(pool.take().capacity(), 0, "a slice still uses the buffer");
        drop(two);
        let again = pool.take();
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
    }

    #[test]
    fn a_pool_keeps_a_few_unused_buffers() {
        let pool = BufferPool::default();
        let lent: Vec<SharedBytes> = (0..KEPT + 3).map(|_| pool.lend(vec![7; 64])).collect();
        drop(lent);
        assert_eq!(pool.0.lock().len(), KEPT);
        pool.drain();
        assert!(pool.0.lock().is_empty());
    }

    #[test]
    #[should_panic(expected = "within these bytes")]
    fn a_slice_does_not_reach_beyond_its_bytes() {
        let line = SharedBytes::from(b"abcdef".to_vec()).slice(1..3);
        drop(line.slice(0..4));
    }
}
