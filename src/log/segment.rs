//! A segment of the archive: frames of old records in one file that is written once.
//!
//! ```text
//! magic "SUMSEG01" · store id (16)
//! frame value · frame value · …              the envelope of `frame`, nothing between
//! index: (first u64, offset u64, length u32) for each frame, then eight bytes of check
//! ```
//!
//! Payload bytes and hashes are those of the log; only the grouping into frames is coarser, so
//! that they compress better. Where the index lies, how long the file is and its sha256 are in the
//! store, which alone decides whether a segment counts.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::contract::hash::{Digest, Hasher};
use crate::contract::ids::Seq;
use crate::os::{Disk, DiskFile, Open};

use super::error::LogError;
use super::frame::{
    ARCHIVE_BYTES, Block, Frame, Packer, Unpacker, array, check, read_u32, read_u64,
};

const MAGIC: &[u8; 8] = b"SUMSEG01";
const HEADER: u64 = 24;
const INDEX_ROW: usize = 20;
const CHECK: usize = 8;
const MODE: u32 = 0o640;
/// zstd level: written once, read seldom.
const LEVEL: i32 = 6;
const CHUNK: usize = 1 << 20;

/// What the store keeps of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    pub first: Seq,
    pub last: Seq,
    pub bytes: u64,
    pub(crate) index_at: u64,
    pub sha256: Digest,
}

impl SegmentInfo {
    pub(super) fn name(&self) -> String {
        segment_name(self.first)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(56);
        out.extend_from_slice(&self.last.0.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.index_at.to_le_bytes());
        out.extend_from_slice(&self.sha256.0);
        out
    }

    pub(super) fn decode(first: Seq, stored: &[u8]) -> Result<SegmentInfo, LogError> {
        if stored.len() != 56 {
            return Err(damaged(first, "its entry is malformed"));
        }
        Ok(SegmentInfo {
            first,
            last: Seq(read_u64(stored, 0)),
            bytes: read_u64(stored, 8),
            index_at: read_u64(stored, 16),
            sha256: Digest(array(&stored[24..])),
        })
    }
}

fn segment_name(first: Seq) -> String {
    format!("{:020}.seg", first.0)
}

fn damaged(seq: Seq, what: impl std::fmt::Display) -> LogError {
    LogError::Damaged { seq, what: format!("archive segment: {what}") }
}

/// Writes one segment, frame by frame.
pub(crate) struct SegmentWriter {
    file: Arc<dyn DiskFile>,
    dir: PathBuf,
    packer: Packer,
    hasher: Hasher,
    offset: u64,
    index: Vec<u8>,
    first: Seq,
    next: Seq,
    /// Hash before the pending records, and after them.
    previous: Digest,
    hash: Digest,
    pending: Block,
}

impl SegmentWriter {
    /// Starts the segment of the records from `first` on, whose predecessor has hash `previous`.
    pub(super) fn create(
        disk: &dyn Disk,
        dir: &Path,
        store_id: [u8; 16],
        first: Seq,
        previous: Digest,
    ) -> Result<SegmentWriter, LogError> {
        let doing = LogError::io;
        disk.create_dir_all(dir).map_err(doing("create the archive"))?;
        let path = dir.join(segment_name(first));
        disk.remove_file(&path).map_err(doing("remove an unlisted segment"))?;
        let file =
            disk.open(&path, Open::CreateNew(MODE)).map_err(doing("create an archive segment"))?;
        let mut writer = SegmentWriter {
            file,
            dir: dir.to_path_buf(),
            packer: Packer::new(LEVEL)?,
            hasher: Hasher::new(),
            offset: 0,
            index: Vec::new(),
            first,
            next: first,
            previous,
            hash: previous,
            pending: Block::default(),
        };
        writer.put(&[&MAGIC[..], &store_id].concat())?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        self.file
            .write_all_at(bytes, self.offset)
            .map_err(LogError::io("write an archive segment"))?;
        self.hasher.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Adds the records of a frame that continues the segment.
    pub(super) fn add(&mut self, frame: &Frame) -> Result<(), LogError> {
        for part in frame.parts() {
            let seq = self.next.plus(u64::from(self.pending.count()));
            self.hash = part.hash(&self.hash, seq);
            self.pending.push(&part);
            if self.pending.len() >= ARCHIVE_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// The hash of the last record added.
    pub(super) fn hash(&self) -> Digest {
        self.hash
    }

    fn flush(&mut self) -> Result<(), LogError> {
        let count = self.pending.count();
        if count == 0 {
            return Ok(());
        }
        let stored = self.packer.frame(self.next, &self.previous, &mut self.pending, None)?;
        self.index.extend_from_slice(&self.next.0.to_le_bytes());
        self.index.extend_from_slice(&self.offset.to_le_bytes());
        self.index.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        self.put(&stored)?;
        self.next = self.next.plus(u64::from(count));
        self.previous = self.hash;
        Ok(())
    }

    /// Makes the segment and its name durable.
    pub(super) fn finish(mut self, disk: &dyn Disk) -> Result<SegmentInfo, LogError> {
        self.flush()?;
        let index_at = self.offset;
        let mut index = std::mem::take(&mut self.index);
        let check = check(self.first, &[&index]);
        index.extend_from_slice(&check);
        self.put(&index)?;
        self.file.sync().map_err(LogError::io("sync an archive segment"))?;
        disk.sync_dir(&self.dir).map_err(LogError::io("sync the archive"))?;
        Ok(SegmentInfo {
            first: self.first,
            last: Seq(self.next.0 - 1),
            bytes: self.offset,
            index_at,
            sha256: self.hasher.finish(),
        })
    }
}

/// A listed segment, open for reading.
pub(crate) struct Segment {
    pub(crate) info: SegmentInfo,
    file: Arc<dyn DiskFile>,
    index: Vec<u8>,
}

impl Segment {
    /// Opens a segment and reads its index.
    pub(super) fn open(
        disk: &dyn Disk,
        dir: &Path,
        info: SegmentInfo,
    ) -> Result<Segment, LogError> {
        let file = match disk.open(&dir.join(info.name()), Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(info.first, "the file is missing"));
            }
            other => other.map_err(LogError::io("open an archive segment"))?,
        };
        let len = file.stat().map_err(LogError::io("look at an archive segment"))?.len;
        if len != info.bytes || info.index_at < HEADER || info.index_at > len {
            return Err(damaged(info.first, format!("it has {len} bytes, not {}", info.bytes)));
        }
        let mut segment = Segment { info, file, index: Vec::new() };
        segment.index = segment.bytes(info.index_at, (len - info.index_at) as usize)?;
        let expected = segment.index.split_off(segment.index.len().saturating_sub(CHECK));
        let rows = segment.index.len() / INDEX_ROW;
        let sound = expected == check(info.first, &[&segment.index])
            && segment.index.len().is_multiple_of(INDEX_ROW)
            && (0..rows).all(|at| {
                let (first, offset, len) = segment.row(at);
                first >= info.first
                    && first <= info.last
                    && (at == 0 || segment.row(at - 1).0 < first)
                    && offset.checked_add(len as u64).is_some_and(|end| end <= info.index_at)
            });
        if rows == 0 || !sound {
            return Err(damaged(info.first, "its index is malformed"));
        }
        Ok(segment)
    }

    fn row(&self, at: usize) -> (Seq, u64, usize) {
        let row = &self.index[at * INDEX_ROW..(at + 1) * INDEX_ROW];
        (Seq(read_u64(row, 0)), read_u64(row, 8), read_u32(row, 16) as usize)
    }

    fn bytes(&self, offset: u64, len: usize) -> Result<Vec<u8>, LogError> {
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            let count = self
                .file
                .read_at(&mut bytes[done..], offset + done as u64)
                .map_err(LogError::io("read an archive segment"))?;
            if count == 0 {
                return Err(damaged(self.info.first, "the file ends early"));
            }
            done += count;
        }
        Ok(bytes)
    }

    /// Decodes the frame that holds `seq`.
    pub(super) fn frame(
        &self,
        unpacker: &mut Unpacker,
        seq: Seq,
        frame: &mut Frame,
    ) -> Result<(), LogError> {
        let rows = self.index.len() / INDEX_ROW;
        let (mut low, mut high) = (0, rows);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.row(middle).0 <= seq {
                low = middle;
            } else {
                high = middle;
            }
        }
        let (first, offset, len) = self.row(low);
        unpacker.frame(first, &self.bytes(offset, len)?, frame)?;
        if first > seq || frame.last() < seq {
            return Err(damaged(seq, "no frame of the segment holds it"));
        }
        Ok(())
    }

    /// Compares the hash of the whole file with the hash in the store, one piece at a time.
    pub(crate) fn check_bytes(&self) -> Result<(), LogError> {
        let mut hasher = Hasher::new();
        let mut offset = 0;
        while offset < self.info.bytes {
            let len = (self.info.bytes - offset).min(CHUNK as u64);
            hasher.update(self.bytes(offset, len as usize)?);
            offset += len;
        }
        if hasher.finish() != self.info.sha256 {
            return Err(damaged(self.info.first, "its bytes are not those that were written"));
        }
        Ok(())
    }

    /// Recomputes the chain through the segment; the hash of its last record.
    pub(crate) fn check_chain(&self, mut previous: Digest) -> Result<Digest, LogError> {
        let mut unpacker = Unpacker::new()?;
        let mut frame = Frame::default();
        let mut wanted = self.info.first;
        while wanted <= self.info.last {
            self.frame(&mut unpacker, wanted, &mut frame)?;
            if frame.first != wanted || frame.previous != previous {
                return Err(damaged(wanted, "its hash does not continue the chain"));
            }
            previous = frame.hashes().last().copied().unwrap_or(previous);
            wanted = frame.last().next();
        }
        Ok(previous)
    }
}
