//! How far the queue is consumed, and the proof that the consumed part is still what it was.
//!
//! A [`Position`] is plain data that is stored with every commit. It names the file (device,
//! inode, hash of its first bytes) and holds two proofs: the hash of the last consumed bytes,
//! compared at every start and before every batch, and a chain over the hashes of all consumed
//! batches, which [`verify_prefix`] checks in full.
//!
//! A device number may change when a machine restarts, so another device with the same inode and
//! the same bytes is the same file. Another inode is another file, even if its bytes are equal:
//! somebody may still be appending to the old one.
//!
//! See docs/adr/0006-queue-position.md.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::contract::hash::{Digest, Hasher, sha256};
pub use crate::facts::queue::{ConsumedBatch, Identity, Position};
use crate::os::{Disk, DiskFile};

/// How many bytes at each end of the consumed part are compared at every start.
pub(crate) const EDGE_BYTES: usize = 64 << 10;

/// Bytes of one read.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// The chain after one more batch: sha256(chain ‖ u64 LE start ‖ u64 LE end ‖ hash).
pub fn link(chain: Digest, batch: &ConsumedBatch) -> Digest {
    Hasher::new()
        .update(chain.0)
        .update(batch.start.to_le_bytes())
        .update(batch.end.to_le_bytes())
        .update(batch.hash.0)
        .finish()
}

/// Why the queue cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("could not {action} {}", path.display())]
    Io {
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The consumed part is not what it was.
    #[error(
        "the queue file {} {change}; nothing more is read from it. If that was intended, \
         `summarizer queue adopt` continues with the file as it is now",
        path.display()
    )]
    Changed {
        path: PathBuf,
        /// What happened to it.
        change: Change,
    },
    /// Another host has taken these lines in.
    #[error(
        "the first {bytes} bytes of the queue file {} are lines of the queue of the host {host}, which were taken in; \
         nothing is read from it. Move it away: lines of this host go to a file of its own. What stands behind those \
         bytes and in no other queue, append again",
        path.display()
    )]
    Copied { path: PathBuf, host: String, bytes: u64 },
}

/// What happened to the consumed part of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The file is gone.
    Missing,
    /// It is shorter than what was consumed.
    Shrunk {
        /// Bytes that were consumed.
        consumed: u64,
        /// Bytes there are.
        len: u64,
    },
    /// Another file has its name.
    Replaced {
        /// True when it begins with the consumed bytes, as a copy does.
        same_bytes: bool,
    },
    /// Its consumed bytes are others; so few were consumed that nothing says which.
    Rewritten,
    /// Its first bytes are others.
    HeadRewritten,
    /// The bytes before the position are others.
    TailRewritten,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Missing => f.write_str("is gone, though part of it was consumed"),
            Change::Shrunk { consumed, len } => {
                write!(f, "shrank: {consumed} bytes were consumed, it has {len}")
            }
            Change::Replaced { same_bytes: true } => {
                f.write_str("was replaced by another file with the same consumed bytes")
            }
            Change::Replaced { same_bytes: false } => {
                f.write_str("was replaced by another file with other bytes")
            }
            Change::Rewritten => f.write_str("was rewritten: the consumed bytes changed"),
            Change::HeadRewritten => f.write_str("was rewritten: its first bytes changed"),
            Change::TailRewritten => f.write_str("was rewritten: the bytes consumed last changed"),
        }
    }
}

/// Opens a queue file to read it. Its name may be a link within its folder only: with a link out of it, whoever may write
/// to the folder could make the service read, and quote in its quarantine, what only the service may read.
pub(crate) fn open_queue(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.open_beneath(path.parent().unwrap_or(path), path)?;
    match file.stat()?.is_dir {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a folder")),
        false => Ok(file),
    }
}

/// The queue file of a position, with its errors worded.
#[derive(Clone)]
pub(super) struct QueueFile {
    pub disk: Arc<dyn Disk>,
    pub path: PathBuf,
}

impl QueueFile {
    pub(super) fn io(&self, action: &'static str) -> impl FnOnce(io::Error) -> QueueError {
        let path = self.path.clone();
        move |source| QueueError::Io { action, path, source }
    }

    pub(super) fn changed(&self, change: Change) -> QueueError {
        QueueError::Changed { path: self.path.clone(), change }
    }

    pub(super) fn open(&self) -> Result<Option<Arc<dyn DiskFile>>, QueueError> {
        match open_queue(self.disk.as_ref(), &self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io("open the queue file")(error)),
        }
    }

    /// Appends up to `want` bytes from `offset` to `bytes`; fewer only at the end of the file.
    pub(super) fn read(
        &self,
        file: &dyn DiskFile,
        bytes: &mut Vec<u8>,
        offset: u64,
        want: usize,
    ) -> Result<usize, QueueError> {
        let before = bytes.len();
        bytes.resize(before + want, 0);
        let mut got = 0;
        while got < want {
            let at = offset + got as u64;
            match file.read_at(&mut bytes[before + got..], at) {
                Ok(0) => break,
                Ok(count) => got += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.io("read the queue file")(error)),
            }
        }
        bytes.truncate(before + got);
        Ok(got)
    }
}

/// The bytes at both ends of the consumed part, held to compare them with the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Edges {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Edges {
    /// Reads the edges of the first `offset` bytes, whatever they hash to.
    fn load(
        queue: &QueueFile,
        file: &dyn DiskFile,
        head_len: usize,
        offset: u64,
        tail_len: usize,
    ) -> Result<Edges, QueueError> {
        let mut edges = Edges::default();
        queue.read(file, &mut edges.head, 0, head_len)?;
        let tail_start = offset.saturating_sub(tail_len as u64);
        queue.read(file, &mut edges.tail, tail_start, tail_len)?;
        Ok(edges)
    }

    /// What the file now has otherwise before `offset`, if anything.
    pub(super) fn compare(
        &self,
        queue: &QueueFile,
        file: &dyn DiskFile,
        offset: u64,
    ) -> Result<Option<Change>, QueueError> {
        let now = Edges::load(queue, file, self.head.len(), offset, self.tail.len())?;
        let is_short = offset <= self.head.len() as u64;
        Ok(rewritten(now.head != self.head, now.tail != self.tail, is_short))
    }

    fn mismatch(&self, at: &Position) -> Option<Change> {
        let head = at.identity.as_ref().map(|identity| identity.head);
        let is_head = head.is_some_and(|head| sha256(&self.head) != head);
        let is_tail = at.tail_len > 0 && sha256(&self.tail) != at.tail;
        rewritten(is_head, is_tail, at.offset <= self.head.len() as u64)
    }

    /// Moves on over consumed bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let room = EDGE_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
        let fresh = &bytes[bytes.len().saturating_sub(EDGE_BYTES)..];
        let surplus = (self.tail.len() + fresh.len()).saturating_sub(EDGE_BYTES);
        self.tail.drain(..surplus);
        self.tail.extend_from_slice(fresh);
    }

    /// The position these edges prove, after one more batch.
    pub(super) fn advance(
        &self,
        from: &Position,
        batch: &ConsumedBatch,
        lines: u64,
        device: u64,
        inode: u64,
    ) -> Position {
        let known = from.identity.as_ref().filter(|id| id.head_len as usize == self.head.len());
        let head = known.map_or_else(|| sha256(&self.head), |identity| identity.head);
        let head_len = self.head.len() as u32;
        Position {
            offset: batch.end,
            lines: from.lines + lines,
            identity: Some(Identity { device, inode, head_len, head }),
            chain: link(from.chain, batch),
            tail_len: self.tail.len() as u32,
            tail: sha256(&self.tail),
        }
    }
}

/// What changed. In a `short` queue both ends are the same bytes.
fn rewritten(head: bool, tail: bool, short: bool) -> Option<Change> {
    match (head, tail) {
        (true, true) if short => Some(Change::Rewritten),
        (true, _) => Some(Change::HeadRewritten),
        (false, true) => Some(Change::TailRewritten),
        (false, false) => None,
    }
}

/// A file in which a position was found to hold.
pub(super) struct Located {
    pub file: Arc<dyn DiskFile>,
    pub edges: Edges,
    pub device: u64,
    pub inode: u64,
}

/// Opens the file of a position and checks it; `Ok(Err(change))` when it does not hold.
pub(super) fn locate(
    queue: &QueueFile,
    at: &Position,
) -> Result<Result<Located, Change>, QueueError> {
    let Some(file) = queue.open()? else { return Ok(Err(Change::Missing)) };
    let stat = file.stat().map_err(queue.io("inspect the queue file"))?;
    let head_len = at.identity.as_ref().map_or(0, |identity| identity.head_len as usize);
    let edges = Edges::load(queue, file.as_ref(), head_len, at.offset, at.tail_len as usize)?;
    let mismatch = edges.mismatch(at);
    let (device, inode) = (stat.device, stat.inode);
    if at.identity.as_ref().is_some_and(|identity| identity.inode != inode) {
        return Ok(Err(Change::Replaced { same_bytes: mismatch.is_none() }));
    }
    if stat.len < at.offset {
        return Ok(Err(Change::Shrunk { consumed: at.offset, len: stat.len }));
    }
    Ok(match mismatch {
        Some(change) => Err(change),
        None => Ok(Located { file, edges, device, inode }),
    })
}

/// Says what happened to the consumed part of the queue, if anything did.
pub fn describe_change(
    disk: &Arc<dyn Disk>,
    path: &Path,
    at: &Position,
) -> Result<Option<Change>, QueueError> {
    let queue = QueueFile { disk: Arc::clone(disk), path: path.to_owned() };
    if at.offset == 0 {
        // Nothing of it was taken, so it may be any file; it must be one.
        queue.open()?;
        return Ok(None);
    }
    Ok(locate(&queue, at)?.err())
}

/// Notes that a file with the consumed bytes goes on as the queue of a host that shares its log. The log itself says
/// nothing of it: its chain does not change, and the next lines that are taken in name the file.
pub fn note_adopted(disk: &dyn Disk, queue: &Path, note: &Path) -> io::Result<()> {
    let inode = disk.stat(queue)?.map_or(0, |stat| stat.inode);
    disk.replace(note, format!("{inode}\n").as_bytes(), 0o600)
}

/// The position, in the file that [`note_adopted`] named if it is that one.
pub fn as_adopted(
    disk: &Arc<dyn Disk>,
    queue: &Path,
    at: Position,
    note: &Path,
) -> Result<Position, QueueError> {
    let replaced = Some(Change::Replaced { same_bytes: true });
    if at.offset == 0 || describe_change(disk, queue, &at)? != replaced {
        return Ok(at);
    }
    let file = QueueFile { disk: Arc::clone(disk), path: queue.to_owned() };
    let here = disk.stat(queue).map_err(file.io("inspect the queue file"))?;
    let named = disk.read(note).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let named = named.and_then(|text| text.trim().parse::<u64>().ok());
    match here.filter(|here| Some(here.inode) == named) {
        Some(_) => adopt_position(disk, queue, &at, AdoptAt::SameOffset).map(|it| it.position),
        None => Ok(at),
    }
}

/// Where to continue in a queue file that was not consumed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptAt {
    /// Read all of it. Lines that were consumed before come again; their request ids and keys
    /// make them duplicates.
    Start,
    /// After the last finished line: what is in the file now counts as consumed.
    End,
    /// Where the old position was: right for a copy of the consumed file with more behind it.
    SameOffset,
}

/// A new position after an adoption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Where reading continues. Its chain starts anew at this adoption unless the offset is kept.
    pub position: Position,
    /// What was passed over unread, to be remembered as the first batch of the new chain.
    pub passed: Option<ConsumedBatch>,
}

/// The position that continues with the file as it is now.
///
/// `SameOffset` fails with the change when the consumed bytes are not there.
pub fn adopt_position(
    disk: &Arc<dyn Disk>,
    path: &Path,
    old: &Position,
    at: AdoptAt,
) -> Result<Adopted, QueueError> {
    let queue = QueueFile { disk: Arc::clone(disk), path: path.to_owned() };
    match at {
        AdoptAt::Start => Ok(Adopted { position: Position::START, passed: None }),
        AdoptAt::End => pass_over(&queue),
        AdoptAt::SameOffset => {
            let here = queue.disk.stat(path).map_err(queue.io("inspect the queue file"))?;
            let here = here.ok_or_else(|| queue.changed(Change::Missing))?;
            let mut position = old.clone();
            if let Some(identity) = &mut position.identity {
                (identity.device, identity.inode) = (here.device, here.inode);
            }
            match locate(&queue, &position)? {
                Ok(_) => Ok(Adopted { position, passed: None }),
                Err(change) => Err(queue.changed(change)),
            }
        }
    }
}

fn pass_over(queue: &QueueFile) -> Result<Adopted, QueueError> {
    let Some(file) = queue.open()? else {
        return Ok(Adopted { position: Position::START, passed: None });
    };
    let stat = file.stat().map_err(queue.io("inspect the queue file"))?;
    let mut edges = Edges::default();
    let mut hasher = Hasher::new();
    let (mut lines, mut end) = (0, 0);
    // Bytes of a line are held back until its end is seen: an unfinished one stays unread.
    let mut held = Hasher::new();
    let mut held_edges = Edges::default();
    let mut chunk = Vec::new();
    let mut offset = 0;
    while offset < stat.len {
        chunk.clear();
        let got = queue.read(file.as_ref(), &mut chunk, offset, CHUNK_BYTES)?;
        if got == 0 {
            break;
        }
        let finished = memchr::memrchr(b'\n', &chunk).map_or(0, |newline| newline + 1);
        held.update(&chunk[..finished]);
        held_edges.feed(&chunk[..finished]);
        if finished > 0 {
            hasher = held.clone();
            edges = held_edges.clone();
            lines += memchr::memchr_iter(b'\n', &chunk).count() as u64;
            end = offset + finished as u64;
        }
        held.update(&chunk[finished..]);
        held_edges.feed(&chunk[finished..]);
        offset += got as u64;
    }
    if end == 0 {
        return Ok(Adopted { position: Position::START, passed: None });
    }
    let passed = ConsumedBatch { start: 0, end, hash: hasher.finish() };
    let position = edges.advance(&Position::START, &passed, lines, stat.device, stat.inode);
    Ok(Adopted { position, passed: Some(passed) })
}

/// Compares the whole consumed part with what the log remembers of it, since the last adoption.
///
/// Gives the first batch that differs or does not join the one before it.
pub fn verify_prefix(
    disk: &Arc<dyn Disk>,
    path: &Path,
    batches: &[ConsumedBatch],
) -> Result<Option<ConsumedBatch>, QueueError> {
    let queue = QueueFile { disk: Arc::clone(disk), path: path.to_owned() };
    let Some(file) = queue.open()? else { return Ok(batches.first().copied()) };
    let mut chunk = Vec::new();
    let mut offset = batches.first().map_or(0, |batch| batch.start);
    for batch in batches {
        if batch.start != offset || batch.end < batch.start {
            return Ok(Some(*batch));
        }
        let mut hasher = Hasher::new();
        while offset < batch.end {
            chunk.clear();
            let want = (batch.end - offset).min(CHUNK_BYTES as u64) as usize;
            if queue.read(file.as_ref(), &mut chunk, offset, want)? < want {
                return Ok(Some(*batch));
            }
            hasher.update(&chunk);
            offset += want as u64;
        }
        if hasher.finish() != batch.hash {
            return Ok(Some(*batch));
        }
    }
    Ok(None)
}
