//! What a commit stores about the queues, as bytes and back, and when a batch of lines may be taken in.
//!
//! Contract. A batch is taken in only when it continues the mark of its host: its chain is the chain of the
//! mark with this batch behind it. The commit that takes it in moves the mark. Commits have one order, so
//! each line is taken in once, whichever way it came here and however often.
//!
//! See docs/adr/0037-sealed-queue-mark.md and docs/adr/0129-hosts-that-follow.md.

use std::path::Path;
use std::sync::Arc;

use crate::log::codec::{self, CodecError};
use crate::os::Disk;
use crate::seam::position::{ConsumedBatch, Position, QueueError, describe_change, link};

pub use crate::facts::queue::{QueueMark, QueueMarks};

/// Fewer bytes at the beginning of a queue say nothing of whose they are: every request is longer, and blank lines are
/// everywhere the same.
pub(super) const BEGINNING_MIN: u32 = 32;

/// The log holds a mark that is not what a commit wrote.
#[derive(Debug, thiserror::Error)]
#[error("the queue position in the log is damaged; `summarizer recover` restores it")]
pub struct MarkError(#[from] CodecError);

impl QueueMark {
    /// Of a queue that was never read.
    const START: QueueMark = QueueMark { position: Position::START, consumed: None };

    pub fn encode(&self) -> Vec<u8> {
        codec::encode_mark(self)
    }

    /// Reads the stored mark of a host that has its log alone.
    pub fn decode(bytes: &[u8]) -> Result<QueueMark, MarkError> {
        QueueMark::of_host(QueueMarks::ALONE, bytes)
    }

    /// Reads the mark of a host from what a commit stored.
    pub fn of_host(host: &str, bytes: &[u8]) -> Result<QueueMark, MarkError> {
        let marks = QueueMarks::decode(bytes)?;
        let known = marks.by_host.get(host).or_else(|| marks.by_host.get(QueueMarks::ALONE));
        Ok(known.cloned().unwrap_or(QueueMark::START))
    }
}

impl QueueMarks {
    pub fn encode(&self) -> Vec<u8> {
        codec::encode_marks(self)
    }

    /// Reads stored marks. No bytes mean that nothing of any queue was consumed.
    pub fn decode(bytes: &[u8]) -> Result<QueueMarks, MarkError> {
        if bytes.is_empty() {
            return Ok(QueueMarks::default());
        }
        Ok(codec::decode_marks(bytes)?)
    }

    /// Where the queue of a host may continue, best first. A host without a mark may be the one that had
    /// the log alone before, or one that had a name before it left the others; only its file can tell.
    /// The start comes last.
    fn candidates<'a>(&'a self, host: &'a str) -> impl Iterator<Item = (&'a str, &'a Position)> {
        let own = self.by_host.get_key_value(host);
        let others = self.by_host.iter().filter(move |(name, _)| {
            own.is_none() && (host == QueueMarks::ALONE || *name == QueueMarks::ALONE)
        });
        let named =
            own.into_iter().chain(others).map(|(name, mark)| (name.as_str(), &mark.position));
        named.chain(own.is_none().then_some((host, &Position::START)))
    }

    /// Where a queue file of a host continues.
    pub fn place_in(
        &self,
        host: &str,
        disk: &Arc<dyn Disk>,
        queue: &Path,
    ) -> Result<Position, QueueError> {
        self.place(host, |at| Ok(describe_change(disk, queue, at)?.is_none()))
    }

    /// `holds` says whether the file has the consumed part of a position.
    fn place<E>(
        &self,
        host: &str,
        mut holds: impl FnMut(&Position) -> Result<bool, E>,
    ) -> Result<Position, E> {
        if let Some(mark) = self.by_host.get(host) {
            // The reader says what is wrong with a file that does not have it.
            return Ok(mark.position.clone());
        }
        for (_, position) in self.candidates(host) {
            if holds(position)? {
                return Ok(position.clone());
            }
        }
        Ok(Position::START)
    }

    /// Whether the first batch of a host begins with the same bytes as the queue of another one. Two copies of a queue
    /// may come here at the same time, before either of their hosts knows of the other.
    fn has_same_beginning(&self, host: &str, end: &Position, consumed: &ConsumedBatch) -> bool {
        let head = |at: &Position| at.identity.as_ref().map(|file| (file.head_len, file.head));
        let is_same = |mark: &QueueMark| head(&mark.position) == head(end);
        consumed.start == 0
            && head(end).is_some_and(|(len, _)| len >= BEGINNING_MIN)
            && !self.by_host.contains_key(host)
            && self.by_host.values().any(is_same)
    }

    /// Moves the mark of a host behind a batch that continues it; false when the batch does not, or is of a copy.
    pub fn advance(&mut self, host: &str, end: Position, consumed: ConsumedBatch) -> bool {
        if self.has_same_beginning(host, &end, &consumed) {
            return false;
        }
        let continues = |at: &Position| {
            at.offset == consumed.start
                && end.offset == consumed.end
                && link(at.chain, &consumed) == end.chain
        };
        let from =
            self.candidates(host).find(|(_, at)| continues(at)).map(|(name, _)| name.to_owned());
        let Some(from) = from else { return false };
        match host == QueueMarks::ALONE {
            true => self.by_host.clear(),
            false => drop(self.by_host.remove(&from)),
        }
        self.by_host.values_mut().for_each(|mark| mark.consumed = None);
        self.by_host.insert(host.to_owned(), QueueMark { position: end, consumed: Some(consumed) });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;
    use crate::seam::position::Identity;

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

    /// The batch behind a position, and the position behind the batch.
    fn next(at: &Position, len: u64) -> (Position, ConsumedBatch) {
        let end = at.offset + len;
        let batch = ConsumedBatch { start: at.offset, end, hash: sha256(format!("{end}")) };
        let position = Position { offset: end, chain: link(at.chain, &batch), ..at.clone() };
        (position, batch)
    }

    #[test]
    fn an_encoded_mark_decodes_to_the_same_mark() {
        assert_eq!(QueueMark::decode(&mark().encode()).unwrap(), mark());
        assert_eq!(QueueMark::decode(&QueueMark::START.encode()).unwrap(), QueueMark::START);
        assert_eq!(QueueMark::decode(b"").unwrap(), QueueMark::START);
    }

    #[test]
    fn marks_of_several_hosts_decode_to_the_same_marks() {
        let mut marks = QueueMarks::default();
        for host in ["a", "b"] {
            let (end, batch) = next(&Position::START, 5);
            assert!(marks.advance(host, end, batch));
        }
        assert_eq!(QueueMarks::decode(&marks.encode()).unwrap(), marks);
        assert_eq!(QueueMark::of_host("a", &marks.encode()).unwrap(), marks.by_host["a"]);
        assert!(marks.by_host["a"].consumed.is_none() && marks.by_host["b"].consumed.is_some());
    }

    #[test]
    fn a_host_alone_has_the_same_bytes_as_before() {
        assert_eq!(QueueMarks::of_one(mark()).encode(), mark().encode());
        let (end, batch) = next(&mark().position, 5);
        let mut marks = QueueMarks::of_one(mark());
        assert!(marks.advance(QueueMarks::ALONE, end.clone(), batch));
        let after = QueueMark { position: end, consumed: Some(batch) };
        assert_eq!(marks.encode(), after.encode());
    }

    #[test]
    fn a_mark_with_a_changed_or_missing_byte_is_an_error() {
        let mut several = QueueMarks::default();
        let (end, batch) = next(&Position::START, 5);
        assert!(several.advance("a", end, batch));
        for bytes in [mark().encode(), several.encode()] {
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(QueueMarks::decode(&changed).is_err(), "byte {at}");
                if at > 0 {
                    assert!(QueueMarks::decode(&bytes[..at]).is_err(), "{at} bytes");
                }
            }
        }
    }

    #[test]
    fn a_batch_is_taken_in_once_and_only_where_it_continues() {
        let mut marks = QueueMarks::default();
        let (first, one) = next(&Position::START, 5);
        let (second, two) = next(&first, 5);
        assert!(!marks.advance("a", second.clone(), two), "it does not continue the start");
        assert!(marks.advance("a", first.clone(), one));
        assert!(!marks.advance("a", first.clone(), one), "it was taken in");
        assert!(marks.advance("a", second, two));
        assert!(marks.advance("b", first.clone(), one), "another host has another queue");
        // The same bytes behind other batches are no continuation.
        let other = ConsumedBatch { start: 10, end: 15, hash: sha256("other") };
        assert!(!marks.advance("a", Position { offset: 15, ..first }, other));
    }

    #[test]
    fn the_host_that_had_the_log_alone_continues_under_its_name() {
        let mut marks = QueueMarks::of_one(mark());
        let (end, batch) = next(&Position::START, 5);
        assert!(marks.advance("new", end, batch));
        let place = |marks: &QueueMarks, host, is_its: bool| {
            let holds = |at: &Position| Ok::<_, ()>(is_its || at.offset == 0);
            marks.place(host, holds).unwrap()
        };
        assert_eq!(place(&marks, "old", true), mark().position);
        assert_eq!(place(&marks, "third", false), Position::START);
        let (end, batch) = next(&mark().position, 5);
        assert!(marks.advance("old", end.clone(), batch));
        assert!(marks.by_host.keys().eq(["new", "old"]));
        // A host that leaves finds its place, and its log becomes that of a host alone.
        let holds = |at: &Position| Ok::<_, ()>(at.offset == end.offset);
        assert_eq!(marks.place(QueueMarks::ALONE, holds).unwrap(), end);
        let (after, batch) = next(&end, 5);
        assert!(marks.advance(QueueMarks::ALONE, after, batch));
        assert!(marks.alone().is_some());
    }

    #[test]
    fn of_two_copies_of_a_queue_one_is_taken_in() {
        let identity = |inode| Some(Identity { device: 1, inode, head_len: 40, head: sha256("h") });
        let (end, batch) = next(&Position::START, 5);
        let of = |inode| Position { identity: identity(inode), ..end.clone() };
        let mut marks = QueueMarks::default();
        assert!(marks.advance("a", of(1), batch));
        assert!(!marks.advance("b", of(2), batch), "a copy, which came at the same time");
        let other = ConsumedBatch { hash: sha256("other"), ..batch };
        let chain = link(Position::START.chain, &other);
        let identity = Some(Identity { device: 1, inode: 2, head_len: 40, head: sha256("o") });
        assert!(marks.advance("b", Position { identity, chain, ..end }, other));
    }
}
