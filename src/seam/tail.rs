//! Reads the queue forward in batches of lines.
//!
//! A line ends with `\n`; a `\r` before it belongs to the end. The unfinished last line waits
//! until the file has not grown for the grace period and is then cut off as it is; the next byte
//! starts a new line, with the next number. A line over the limit is passed over without being
//! held in memory: only its first bytes and its hash remain.
//!
//! Every batch carries the position after it. The tailer itself remembers nothing durably: after a
//! restart it is opened at the position of the last commit and gives the same lines again. Before
//! a batch is given out, both ends of the consumed part are compared with the file, so that a file
//! that was rewritten in place is noticed however long it is.
//!
//! See docs/adr/0007-blank-torn-and-long-lines.md.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::position::{
    CHUNK_BYTES, Change, ConsumedBatch, Edges, Located, Position, QueueError, QueueFile, locate,
};
use crate::contract::bytes::{BufferPool, SharedBytes};
use crate::contract::hash::{Digest, Hasher, sha256};
use crate::contract::time::Timestamp;
use crate::limits::{LINE_BYTES_MAX, QUARANTINE_PREFIX_BYTES};
use crate::os::{Disk, DiskFile};

/// What a user may configure.
#[derive(Debug, Clone, Copy)]
pub struct TailOptions {
    /// Longest line, its end excluded.
    pub max_line_bytes: usize,
    /// How long an unfinished line waits, in milliseconds.
    pub partial_line_grace_ms: i64,
}

impl Default for TailOptions {
    fn default() -> Self {
        TailOptions { max_line_bytes: LINE_BYTES_MAX, partial_line_grace_ms: 10_000 }
    }
}

/// Some consecutive lines and the position after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The bytes the spans point into. Not more than that: of an over-long line they may hold
    /// only the beginning.
    pub bytes: SharedBytes,
    /// The lines, in order.
    pub lines: Vec<LineSpan>,
    /// What was consumed, to be remembered for [`super::position::verify_prefix`].
    pub consumed: ConsumedBatch,
    /// The position after the last line.
    pub end: Position,
}

impl Batch {
    /// The bytes of a line without its `\n`; of an over-long line its first bytes.
    pub fn raw(&self, line: &LineSpan) -> &[u8] {
        &self.bytes[line.range.clone()]
    }
}

/// One line of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSpan {
    /// Counted from 1 over the whole queue.
    pub number: u64,
    /// Where it begins in the queue file.
    pub offset: u64,
    /// How many bytes it has, `\n` excluded.
    pub length: u64,
    /// Where its bytes are in the batch.
    pub range: Range<usize>,
    /// What sort of line it is.
    pub form: LineForm,
}

/// What sort of line was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineForm {
    /// Finished and not too long.
    Whole,
    /// Cut off by the end of the file.
    Partial,
    /// Over the limit; the hash of all its bytes.
    TooLong(Digest),
}

/// When the file last grew, by the clock we are given.
#[derive(Default)]
struct Growth {
    len: u64,
    since: Timestamp,
}

impl Growth {
    fn observe(&mut self, len: u64, now: Timestamp) {
        // A clock that stepped back starts the wait again rather than ending it early.
        if len != self.len || now < self.since {
            *self = Growth { len, since: now };
        }
    }
}

/// The open queue file and its length.
type OpenQueue = (Arc<dyn DiskFile>, u64);

/// An over-long line whose end has not been seen.
struct LongLine {
    start: u64,
    scanned: u64,
    hasher: Hasher,
    prefix: Vec<u8>,
    edges: Edges,
}

/// Reads one queue file forward.
pub struct Tailer {
    queue: QueueFile,
    options: TailOptions,
    position: Position,
    located: Option<Located>,
    growth: Option<Growth>,
    unfinished: bool,
    long: Option<LongLine>,
    /// The inode whose name is known to be durable.
    name_synced: Option<u64>,
    /// Room for the next batches.
    pool: BufferPool,
}

impl Tailer {
    /// Opens the queue at its stored position. At the start of a queue the file may be missing.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        position: Position,
        options: TailOptions,
    ) -> Result<Tailer, QueueError> {
        let queue = QueueFile { disk, path: path.to_owned() };
        let located = match (locate(&queue, &position)?, position.offset) {
            (Ok(located), _) => Some(located),
            (Err(_), 0) => None,
            (Err(change), _) => return Err(queue.changed(change)),
        };
        Ok(Tailer {
            queue,
            options,
            position,
            located,
            growth: None,
            unfinished: false,
            long: None,
            name_synced: None,
            pool: BufferPool::default(),
        })
    }

    /// Holds no memory for batches that may never come.
    pub fn rest(&self) {
        self.pool.drain();
    }

    /// The position after the last batch given out.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// When the unfinished last line will be cut off if the file does not grow.
    pub fn partial_due(&self) -> Option<Timestamp> {
        let growth = self.growth.as_ref().filter(|_| self.unfinished)?;
        Some(growth.since.plus_ms(self.options.partial_line_grace_ms))
    }

    /// Makes the bytes given out so far durable, and once the name of their file. To be called
    /// before they are committed as consumed: callers need not sync, and a committed offset must
    /// never pass durable bytes.
    pub fn sync(&mut self) -> Result<(), QueueError> {
        let Some(located) = &self.located else { return Ok(()) };
        located.file.sync().map_err(self.queue.io("sync the queue file"))?;
        if self.name_synced != Some(located.inode) {
            let parent = self.queue.path.parent().unwrap_or(Path::new("."));
            let synced = self.queue.disk.sync_dir(parent);
            synced.map_err(self.queue.io("sync the directory of the queue file"))?;
            self.name_synced = Some(located.inode);
        }
        Ok(())
    }

    /// The next lines, at least one and at most as many as asked for, or `None` when there is no
    /// finished line yet. One line may take the batch over `max_bytes`.
    pub fn next_batch(
        &mut self,
        now: Timestamp,
        max_lines: usize,
        max_bytes: usize,
    ) -> Result<Option<Batch>, QueueError> {
        let Some((file, len)) = self.find_file()? else { return Ok(None) };
        self.growth.get_or_insert(Growth { len, since: now }).observe(len, now);
        self.unfinished = false;
        if len == self.position.offset {
            return Ok(None);
        }
        self.drop_stale_long_line(&file, len)?;
        if self.long.is_some() {
            return self.pass_long_line(&file, len, now);
        }
        let bounds = Bounds {
            lines: max_lines.max(1),
            bytes: max_bytes,
            line_bytes: self.options.max_line_bytes,
        };
        let mut lines = self.collect(&file, len, bounds)?;
        if lines.spans.is_empty() {
            if lines.cut_at_long {
                self.long = Some(self.begin_long_line());
                return self.pass_long_line(&file, len, now);
            }
            if lines.bytes.is_empty() || !self.may_cut(now) {
                self.unfinished = !lines.bytes.is_empty();
                return Ok(None);
            }
            lines.cut_partial(&self.position);
        }
        self.check_prefix(&file)?;
        let Collected { mut bytes, spans, end, .. } = lines;
        bytes.truncate(end);
        Ok(Some(self.hand_out(bytes, spans, end as u64, None)))
    }

    /// The open file and its length, after checking that the path still means it.
    fn find_file(&mut self) -> Result<Option<OpenQueue>, QueueError> {
        let inspect = || self.queue.io("inspect the queue file");
        let named = self.queue.disk.stat(&self.queue.path).map_err(inspect())?;
        let fresh = self.position.offset == 0;
        let same = match (&named, &self.located) {
            (Some(stat), Some(located)) => stat.inode == located.inode,
            _ => false,
        };
        if !same {
            // Nothing was taken from the old file, so the new one is simply the queue.
            match locate(&self.queue, &self.position)? {
                Ok(located) => self.located = Some(located),
                Err(_) if fresh => {
                    self.located = None;
                    return Ok(None);
                }
                Err(change) => return Err(self.queue.changed(change)),
            }
            self.long = None;
        }
        let Some(located) = &self.located else { return Ok(None) };
        let len = located.file.stat().map_err(inspect())?.len;
        if len < self.position.offset {
            let consumed = self.position.offset;
            return Err(self.queue.changed(Change::Shrunk { consumed, len }));
        }
        Ok(Some((Arc::clone(&located.file), len)))
    }

    fn may_cut(&self, now: Timestamp) -> bool {
        self.growth
            .as_ref()
            .is_some_and(|growth| now.ms_since(growth.since) >= self.options.partial_line_grace_ms)
    }

    fn check_prefix(&self, file: &Arc<dyn DiskFile>) -> Result<(), QueueError> {
        let Some(located) = &self.located else { return Ok(()) };
        match located.edges.compare(&self.queue, file.as_ref(), self.position.offset)? {
            Some(change) => Err(self.queue.changed(change)),
            None => Ok(()),
        }
    }

    /// Reads finished lines, in pieces until there are enough.
    fn collect(
        &mut self,
        file: &Arc<dyn DiskFile>,
        len: u64,
        bounds: Bounds,
    ) -> Result<Collected, QueueError> {
        let mut found = Collected { bytes: self.pool.take(), ..Collected::default() };
        let available = usize::try_from(len - self.position.offset).unwrap_or(usize::MAX);
        found.bytes.reserve(available.min(bounds.bytes).min(CHUNK_BYTES * 16));
        loop {
            let scanned = found.bytes.len();
            let room = bounds.bytes.checked_sub(scanned).filter(|room| *room > 0);
            let want = (available - scanned).min(room.unwrap_or(CHUNK_BYTES)).min(CHUNK_BYTES);
            let at = self.position.offset + scanned as u64;
            let got = self.queue.read(file.as_ref(), &mut found.bytes, at, want)?;
            found.split(scanned, &self.position, bounds);
            if found.full {
                return Ok(found);
            }
            // One byte more than the limit may still be the `\r` of the line's end.
            if found.bytes.len() - found.end > bounds.line_bytes + 1 {
                found.cut_at_long = true;
                return Ok(found);
            }
            let enough = found.spans.len() == bounds.lines
                || (found.bytes.len() >= bounds.bytes && !found.spans.is_empty());
            if enough || got < want || found.bytes.len() == available {
                return Ok(found);
            }
        }
    }

    /// What was scanned but not consumed may have changed; it is then looked at afresh.
    fn drop_stale_long_line(
        &mut self,
        file: &Arc<dyn DiskFile>,
        len: u64,
    ) -> Result<(), QueueError> {
        if let Some(long) = &self.long
            && (len < long.scanned
                || long.edges.compare(&self.queue, file.as_ref(), long.scanned)?.is_some())
        {
            self.long = None;
        }
        Ok(())
    }

    fn begin_long_line(&self) -> LongLine {
        LongLine {
            start: self.position.offset,
            scanned: self.position.offset,
            hasher: Hasher::new(),
            prefix: Vec::new(),
            edges: self.located.as_ref().map(|located| located.edges.clone()).unwrap_or_default(),
        }
    }

    /// Looks for the end of an over-long line, holding one piece of it at a time.
    fn pass_long_line(
        &mut self,
        file: &Arc<dyn DiskFile>,
        len: u64,
        now: Timestamp,
    ) -> Result<Option<Batch>, QueueError> {
        let Some(mut long) = self.long.take() else { return Ok(None) };
        let ended = long.scan(&self.queue, file.as_ref(), len)?;
        if !ended && !self.may_cut(now) {
            self.unfinished = true;
            self.long = Some(long);
            return Ok(None);
        }
        self.check_prefix(file)?;
        Ok(Some(self.hand_out_long(long, ended)))
    }

    fn hand_out_long(&mut self, mut long: LongLine, ended: bool) -> Batch {
        let length = long.scanned - long.start;
        let form = LineForm::TooLong(long.hasher.finish());
        if ended {
            long.take(b"\n");
        }
        let range = 0..long.prefix.len().min(length as usize);
        let number = self.position.lines + 1;
        let span = LineSpan { number, offset: long.start, length, range, form };
        let consumed = long.scanned - long.start;
        let passed = (long.hasher.finish(), long.edges);
        self.hand_out(long.prefix, vec![span], consumed, Some(passed))
    }

    /// Moves the position over the bytes and wraps them up. What was already hashed piece by
    /// piece comes with its hash and its edges.
    fn hand_out(
        &mut self,
        bytes: Vec<u8>,
        lines: Vec<LineSpan>,
        length: u64,
        passed: Option<(Digest, Edges)>,
    ) -> Batch {
        let start = self.position.offset;
        let located = self.located.as_mut().expect("lines were read from a file");
        let hash = match passed {
            Some((hash, edges)) => {
                located.edges = edges;
                hash
            }
            None => {
                located.edges.feed(&bytes);
                sha256(&bytes)
            }
        };
        let consumed = ConsumedBatch { start, end: start + length, hash };
        let count = lines.len() as u64;
        self.position =
            located.edges.advance(&self.position, &consumed, count, located.device, located.inode);
        let bytes = self.pool.lend(bytes);
        Batch { bytes, lines, consumed, end: self.position.clone() }
    }
}

impl LongLine {
    /// Scans to the end of the line or of the file; true when it was the line's end.
    fn scan(
        &mut self,
        queue: &QueueFile,
        file: &dyn DiskFile,
        len: u64,
    ) -> Result<bool, QueueError> {
        let mut piece = Vec::new();
        while self.scanned < len {
            piece.clear();
            let want = (len - self.scanned).min(CHUNK_BYTES as u64) as usize;
            if queue.read(file, &mut piece, self.scanned, want)? == 0 {
                return Ok(false);
            }
            let newline = memchr::memchr(b'\n', &piece);
            self.take(&piece[..newline.unwrap_or(piece.len())]);
            if newline.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
        self.edges.feed(piece);
        self.scanned += piece.len() as u64;
        let room = QUARANTINE_PREFIX_BYTES - self.prefix.len();
        self.prefix.extend_from_slice(&piece[..room.min(piece.len())]);
    }
}

/// How much a batch may take.
#[derive(Clone, Copy)]
struct Bounds {
    lines: usize,
    bytes: usize,
    line_bytes: usize,
}

/// Lines being collected for a batch.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    spans: Vec<LineSpan>,
    /// Where the first unfinished line begins in `bytes`.
    end: usize,
    /// There are finished lines for which the batch has no room.
    full: bool,
    /// The unfinished line is already over the limit.
    cut_at_long: bool,
}

impl Collected {
    /// Cuts the bytes from `scanned` on into lines.
    fn split(&mut self, scanned: usize, from: &Position, bounds: Bounds) {
        for newline in memchr::memchr_iter(b'\n', &self.bytes[scanned..]) {
            let end = scanned + newline + 1;
            let over = !self.spans.is_empty() && end > bounds.bytes;
            if over || self.spans.len() == bounds.lines {
                self.full = true;
                return;
            }
            let range = self.end..end - 1;
            self.spans.push(span_of(&self.bytes, range, from, self.spans.len(), bounds.line_bytes));
            self.end = end;
        }
    }

    fn cut_partial(&mut self, from: &Position) {
        let length = self.bytes.len() as u64;
        let (number, range) = (from.lines + 1, 0..self.bytes.len());
        let form = LineForm::Partial;
        self.spans.push(LineSpan { number, offset: from.offset, length, range, form });
        self.end = self.bytes.len();
    }
}

fn span_of(
    bytes: &[u8],
    range: Range<usize>,
    from: &Position,
    before: usize,
    max_bytes: usize,
) -> LineSpan {
    let line = &bytes[range.clone()];
    let content = line.strip_suffix(b"\r").unwrap_or(line);
    let number = from.lines + before as u64 + 1;
    let offset = from.offset + range.start as u64;
    let length = line.len() as u64;
    if content.len() <= max_bytes {
        return LineSpan { number, offset, length, range, form: LineForm::Whole };
    }
    let kept = range.start..range.start + line.len().min(QUARANTINE_PREFIX_BYTES);
    LineSpan { number, offset, length, range: kept, form: LineForm::TooLong(sha256(line)) }
}
