//! Reads committed data from any thread while the writer continues.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use redb::{ReadTransaction, TableDefinition};

use crate::contract::hash::Digest;
use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Timestamp;
use crate::log::error::{LogError, ReadError};
use crate::log::frame::{Entry, Frame, Record, Unpacker, dropped_body, event_of};
use crate::log::index_segment::key_of;
use crate::state::event::Event;

use super::failure::{engine, guarded};
use super::tables::{BODIES, Bytes, CHUNKS, DOCUMENTS, FRAMES, OPEN, ROWS};
use super::tiers::value_in;
use super::{Published, SharedStore};

/// Bytes of decoded frames kept for point reads.
const CACHE_BYTES: usize = 8 << 20;

/// Reads committed data. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<SharedStore>,
}

impl Reader {
    pub(super) fn new(shared: Arc<SharedStore>) -> Reader {
        Reader { shared }
    }

    pub(super) fn shared(&self) -> &SharedStore {
        &self.shared
    }

    /// The bytes the hash chain starts from.
    pub fn store_id(&self) -> [u8; 16] {
        self.shared.store_id
    }

    /// The last record and its hash; the genesis hash in an empty log.
    pub fn head(&self) -> (Seq, Digest) {
        self.shared.published().head
    }

    /// The newest mark; empty before the first.
    pub fn mark(&self) -> Vec<u8> {
        self.shared.published().mark.clone()
    }

    /// The position the rows, keys and documents stand for.
    pub fn applied(&self) -> Seq {
        self.shared.published().applied
    }

    /// One record.
    pub fn get(&self, seq: Seq) -> Result<Option<Record>, LogError> {
        self.shared.usable()?;
        if seq == Seq::ZERO || seq > self.head().0 {
            return Ok(None);
        }
        Ok(Some(self.cached_frame(seq)?.record(seq)))
    }

    /// Looks at the tag, version and payload of one record, without a copy and without its hash.
    pub fn look<T>(
        &self,
        seq: Seq,
        f: impl FnOnce(u16, u32, &[u8]) -> T,
    ) -> Result<Option<T>, LogError> {
        self.shared.usable()?;
        if seq == Seq::ZERO || seq > self.head().0 {
            return Ok(None);
        }
        let cached = self.cached_frame(seq)?;
        let part = cached.frame.parts().nth(cached.index(seq));
        Ok(part.map(|part| f(part.tag, part.version, part.payload)))
    }

    /// One event; `None` when the log does not reach this far.
    pub fn event(&self, seq: Seq) -> Result<Option<Event>, ReadError> {
        let decoded =
            self.look(seq, |tag, version, payload| event_of(seq, tag, version, payload))?;
        decoded.transpose()?.map(|event| self.with_line(seq, event)).transpose()
    }

    /// An event with the line that lies sealed beside its record. A line that was taken back stays away.
    pub(crate) fn with_line(&self, seq: Seq, mut event: Event) -> Result<Event, ReadError> {
        if event.has_line_beside()
            && let Some(bytes) = self.kept_body(seq)?
        {
            event.put_line(bytes);
        }
        Ok(event)
    }

    /// Frames that point reads have decoded and that are still in memory.
    #[cfg(test)]
    pub(crate) fn frames_in_memory(&self) -> usize {
        self.shared.frames.frames.lock().len()
    }

    fn cached_frame(&self, seq: Seq) -> Result<Arc<CachedFrame>, LogError> {
        if let Some(frame) = self.shared.frames.find(seq) {
            return Ok(frame);
        }
        let frame = guarded("read a record", || {
            let txn = self.shared.begin_read()?;
            let mut frame = Frame::default();
            self.shared.unpacking(|unpacker| self.load_frame(&txn, unpacker, seq, &mut frame))?;
            Ok(frame)
        })?;
        let cached = Arc::new(CachedFrame { hashes: OnceLock::new(), frame });
        self.shared.frames.keep(cached.clone());
        Ok(cached)
    }

    /// Calls `f` for each record from `from` up to and including `until`, or the head at the time of
    /// the call. One frame is in memory at a time. The first error of `f` ends the scan.
    pub fn try_scan<E: From<LogError>>(
        &self,
        from: Seq,
        until: Option<Seq>,
        mut f: impl FnMut(Entry<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let mut failure = None;
        self.scan(from, until, &mut |entry| {
            f(entry).unwrap_or_else(|error| {
                failure = Some(error);
                ControlFlow::Break(())
            })
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// The same for a function that cannot fail.
    pub fn scan(
        &self,
        from: Seq,
        until: Option<Seq>,
        f: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let until = until.unwrap_or(Seq(u64::MAX)).min(self.head().0);
        self.frames(from, until, &mut |frame| {
            let chain = frame.chain();
            for entry in frame.entries(&chain, from) {
                if entry.seq > until {
                    break;
                }
                f(entry)?;
            }
            ControlFlow::Continue(())
        })
    }

    /// Calls `f` with each mark that is kept beside the records, in order; archived frames have
    /// none.
    pub fn marks(&self, f: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>) -> Result<(), LogError> {
        self.marks_in(Seq(1), self.head().0, f)
    }

    /// The same for commits that end within a range.
    pub(crate) fn marks_in(
        &self,
        from: Seq,
        until: Seq,
        f: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        self.frames(from, until.min(self.head().0), &mut |frame| {
            if frame.mark.is_empty() || frame.last() > until {
                ControlFlow::Continue(())
            } else {
                f(frame.last(), &frame.mark)
            }
        })
    }

    /// Calls `f` for each frame that holds records of the range, in order and without a gap.
    pub(super) fn frames(
        &self,
        from: Seq,
        until: Seq,
        f: &mut dyn FnMut(&Frame) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let mut wanted = from.max(Seq(1));
        if wanted > until {
            return self.shared.usable();
        }
        let txn = guarded("begin to read", || self.shared.begin_read())?;
        let mut unpacker = Unpacker::new()?;
        let mut frame = Frame::default();
        while wanted <= until {
            guarded("read a frame", || self.load_frame(&txn, &mut unpacker, wanted, &mut frame))?;
            if f(&frame).is_break() {
                break;
            }
            wanted = frame.last().next();
        }
        Ok(())
    }

    /// Bytes stored beside a record; `None` when the record has none, retention dropped them, or their key
    /// was destroyed.
    pub fn body(&self, seq: Seq) -> Result<Option<Vec<u8>>, LogError> {
        match self.value("read a body", BODIES, seq)? {
            Some(stored) => {
                self.shared.unpacking(|unpacker| unpacker.body(seq, &stored, &self.shared.keys))
            }
            None => Ok(None),
        }
    }

    /// The bytes that a record must have; `None` when a person took them back.
    pub(crate) fn kept_body(&self, seq: Seq) -> Result<Option<Vec<u8>>, ReadError> {
        match self.body(seq)? {
            Some(body) => Ok(Some(body)),
            None if self.body_is_dropped(seq)? => Ok(None),
            None => Err(ReadError::no_body(seq)),
        }
    }

    /// Whether a person took back the bytes beside a record.
    pub(crate) fn is_forgotten(&self, seq: Seq) -> bool {
        self.shared.keys.is_destroyed(seq)
    }

    /// Whether the bytes beside a record were dropped, or their key was destroyed.
    pub(crate) fn body_is_dropped(&self, seq: Seq) -> Result<bool, LogError> {
        let stored = self.value("read a body", BODIES, seq)?;
        let is_dropped = stored.is_some_and(|stored| stored == dropped_body(seq));
        Ok(is_dropped || self.shared.keys.is_destroyed(seq))
    }

    /// The records up to this one whose keys were destroyed.
    pub(crate) fn has_destroyed_keys(&self) -> bool {
        self.shared.keys.has_destroyed()
    }

    pub(crate) fn destroyed_keys(&self, until: Seq) -> Vec<Seq> {
        self.shared.keys.destroyed(until)
    }

    /// The keys of the bodies, for another copy of the log: the bytes of their file.
    pub fn keys(&self) -> Vec<u8> {
        self.shared.keys.to_bytes()
    }

    /// Bytes that the body of a record takes in the store.
    pub(crate) fn body_bytes(&self, seq: Seq) -> Result<u64, LogError> {
        Ok(self.value("read a body", BODIES, seq)?.map_or(0, |stored| stored.len() as u64))
    }

    pub fn row(&self, seq: Seq) -> Result<Option<Vec<u8>>, LogError> {
        self.value("read a row", ROWS, seq)
    }

    /// Calls `f` for each row from `from` on, in order.
    #[cfg(any(test, feature = "internals"))]
    pub fn rows(
        &self,
        from: Seq,
        f: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        self.walk("read rows", ROWS, from, f)
    }

    /// Calls `f` for each row before `before`, newest first.
    pub(crate) fn rows_back(
        &self,
        before: Seq,
        f: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let doing = "read rows";
        let table =
            guarded(doing, || self.shared.begin_read()?.open_table(ROWS).map_err(engine(doing)))?;
        for row in table.range(..before.0).map_err(engine(doing))?.rev() {
            let (seq, value) = row.map_err(engine(doing))?;
            if f(Seq(seq.value()), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Calls `f` for each record of what is open, in order.
    pub fn open_rows(
        &self,
        f: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        self.walk("read what is open", OPEN, Seq::ZERO, f)
    }

    /// The value of a digest; `None` when it was never added or was released.
    pub fn find(&self, index: KeyIndex, digest: &[u8; 16]) -> Result<Option<u64>, LogError> {
        loop {
            self.shared.usable()?;
            let before = self.shared.checkpoints.load(Ordering::SeqCst);
            let published = self.shared.published();
            match self.find_in(&published, index, digest)? {
                Looked::At(value) => return Ok(value.filter(|value| *value != 0)),
                Looked::TooLate => {
                    let quiet = before.is_multiple_of(2)
                        && before == self.shared.checkpoints.load(Ordering::SeqCst);
                    if quiet {
                        return Err(LogError::Corrupt(format!("a chunk of {index:?} is missing")));
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    fn find_in(
        &self,
        published: &Published,
        index: KeyIndex,
        digest: &[u8; 16],
    ) -> Result<Looked, LogError> {
        let key = key_of(digest);
        let mut txn = None;
        for segment in &published.tiers[index.slot()] {
            let Some(chunk) = segment.chunk_for(key) else { continue };
            let txn = match &mut txn {
                Some(txn) => txn,
                none => none.insert(self.shared.begin_read()?),
            };
            let found = guarded("look up a key", || {
                let chunks = txn.open_table(CHUNKS).map_err(engine("look up a key"))?;
                let stored = chunks
                    .get((index.number(), segment.info.id, chunk))
                    .map_err(engine("look up a key"))?;
                Ok(stored.map(|stored| value_in(stored.value(), key)))
            })?;
            match found {
                // Merged away by a checkpoint after `published` was read.
                None => return Ok(Looked::TooLate),
                Some(None) => {}
                Some(found) => return Ok(Looked::At(found)),
            }
        }
        Ok(Looked::At(None))
    }

    pub fn document(&self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        guarded("read a document", || {
            let table = self.shared.begin_read()?.open_table(DOCUMENTS);
            let table = table.map_err(engine("read a document"))?;
            let stored = table.get(name).map_err(engine("read a document"))?;
            Ok(stored.map(|stored| stored.value().to_vec()))
        })
    }

    /// Bytes of the store's file; cheap.
    pub fn file_bytes(&self) -> Result<u64, LogError> {
        let stat = self.shared.disk.stat(&self.shared.path);
        Ok(stat.map_err(LogError::io("read the size of the log file"))?.map_or(0, |stat| stat.len))
    }

    /// Decodes the frame that holds `seq`, from the store or else from the archive.
    fn load_frame(
        &self,
        txn: &ReadTransaction,
        unpacker: &mut Unpacker,
        seq: Seq,
        frame: &mut Frame,
    ) -> Result<(), LogError> {
        let frames = txn.open_table(FRAMES).map_err(engine("read a frame"))?;
        let mut range = frames.range(..=seq.0).map_err(engine("read a frame"))?;
        let row = range.next_back().transpose().map_err(engine("read a frame"))?;
        if let Some((first, stored)) = row {
            unpacker.frame(Seq(first.value()), stored.value(), frame)?;
            if frame.last() >= seq {
                return Ok(());
            }
        }
        match self.shared.segment(txn, seq)? {
            Some(segment) => segment.frame(unpacker, seq, frame),
            None => Err(LogError::Damaged { seq, what: "no frame holds it".into() }),
        }
    }

    fn value(
        &self,
        doing: &'static str,
        table: TableDefinition<'_, u64, Bytes>,
        seq: Seq,
    ) -> Result<Option<Vec<u8>>, LogError> {
        guarded(doing, || {
            let table = self.shared.begin_read()?.open_table(table).map_err(engine(doing))?;
            let stored = table.get(seq.0).map_err(engine(doing))?;
            Ok(stored.map(|stored| stored.value().to_vec()))
        })
    }

    fn walk(
        &self,
        doing: &'static str,
        table: TableDefinition<'_, u64, Bytes>,
        from: Seq,
        f: &mut dyn FnMut(Seq, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let table =
            guarded(doing, || self.shared.begin_read()?.open_table(table).map_err(engine(doing)))?;
        for row in table.range(from.0..).map_err(engine(doing))? {
            let (seq, value) = row.map_err(engine(doing))?;
            if f(Seq(seq.value()), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

enum Looked {
    At(Option<u64>),
    TooLate,
}

/// A decoded frame with the hashes of its records, once somebody asked for one.
pub(super) struct CachedFrame {
    frame: Frame,
    hashes: OnceLock<Vec<Digest>>,
}

impl CachedFrame {
    fn holds(&self, seq: Seq) -> bool {
        self.frame.first <= seq && seq <= self.frame.last()
    }

    fn index(&self, seq: Seq) -> usize {
        (seq.0 - self.frame.first.0) as usize
    }

    fn record(&self, seq: Seq) -> Record {
        let index = self.index(seq);
        let part = self.frame.parts().nth(index);
        let (at, tag, version, payload) = part.map_or((Timestamp(0), 0, 0, Vec::new()), |part| {
            (part.at, part.tag, part.version, part.payload.to_vec())
        });
        let hash = self.hashes.get_or_init(|| self.frame.hashes())[index];
        Record { seq, at, tag, version, payload, hash }
    }
}

/// The frames used last, newest first.
#[derive(Default)]
pub(super) struct FrameCache {
    frames: Mutex<VecDeque<Arc<CachedFrame>>>,
}

impl FrameCache {
    fn find(&self, seq: Seq) -> Option<Arc<CachedFrame>> {
        let mut frames = self.frames.lock();
        let at = frames.iter().position(|frame| frame.holds(seq))?;
        let frame = frames.remove(at)?;
        frames.push_front(frame.clone());
        Some(frame)
    }

    fn keep(&self, frame: Arc<CachedFrame>) {
        let mut frames = self.frames.lock();
        frames.retain(|kept| kept.frame.first != frame.frame.first);
        frames.push_front(frame);
        let mut bytes = 0;
        let keep = frames
            .iter()
            .take_while(|frame| {
                bytes += frame.frame.weight() + frame.frame.count as usize * size_of::<Digest>();
                bytes <= CACHE_BYTES
            })
            .count();
        frames.truncate(keep.max(1));
    }

    /// Forgets everything: frames moved.
    pub(super) fn clear(&self) {
        self.frames.lock().clear();
    }
}
