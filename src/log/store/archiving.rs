//! Retention: old frames move into segment files, and the store's file is made small again.
//!
//! A segment is written, synced, read back and verified before one transaction lists it and drops
//! its frames. A crash before that transaction leaves a file that no store lists: it is deleted at
//! the next open. A crash after it leaves nothing to do.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableTable};

use crate::contract::ids::Seq;
use crate::log::error::LogError;
use crate::log::frame::{Frame, Unpacker, dropped_body};
use crate::log::segment::{Segment, SegmentInfo, SegmentWriter};
use crate::os::Disk;

use super::failure::{engine, guarded};
use super::tables::{BODIES, Bytes, FRAMES, SEGMENTS};
use super::{SharedStore, Store};

/// Stored frame bytes after which a segment is closed; bounds the transaction that drops them.
const SEGMENT_BYTES: usize = 64 << 20;

/// Bodies dropped in one transaction.
const DROPPED_AT_ONCE: usize = 10_000;

/// What was moved to the archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Archived {
    /// Segments written.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes their frames took in the store.
    pub frame_bytes: u64,
    /// Bytes of the segments.
    pub segment_bytes: u64,
}

impl Store {
    /// Moves whole frames of records before `before` into the archive. Only what a checkpoint
    /// stands for can go, and the frame with the last record stays. `progress` hears the part
    /// done, from 0 to 1.
    pub fn archive(
        &mut self,
        before: Seq,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Archived, LogError> {
        self.shared.usable()?;
        let published = self.shared.published();
        if before > published.applied.next() {
            return Err(LogError::Invalid("archive records that no checkpoint covers yet"));
        }
        let mut done = Archived::default();
        let mut start = None;
        loop {
            let written = guarded("archive", || self.write_segment(before))?;
            let Some((info, frame_bytes)) = written else {
                return Ok(done);
            };
            let committed = guarded("archive", || self.list_segment(&info));
            committed.inspect_err(|_| self.shared.poison())?;
            done.segments += 1;
            done.records += info.last.0 + 1 - info.first.0;
            done.frame_bytes += frame_bytes;
            done.segment_bytes += info.bytes;
            let from = *start.get_or_insert(info.first.0);
            let all = before.0.saturating_sub(from).max(1) as f64;
            progress(((info.last.0 + 1 - from) as f64 / all).min(1.0));
        }
    }

    /// Writes and verifies the next segment; with the bytes its frames take now.
    fn write_segment(&self, before: Seq) -> Result<Option<(SegmentInfo, u64)>, LogError> {
        let disk = &*self.shared.disk;
        let dir = &self.options.archive_dir;
        let txn = self.shared.begin_read()?;
        let frames = txn.open_table(FRAMES).map_err(engine("archive"))?;
        let keep = frames.last().map_err(engine("archive"))?.map(|(first, _)| first.value());
        let mut unpacker = Unpacker::new()?;
        let mut frame = Frame::default();
        let mut writer = None;
        let mut bytes = 0;
        for row in frames.range::<u64>(..).map_err(engine("archive"))? {
            let (first, stored) = row.map_err(engine("archive"))?;
            unpacker.frame(Seq(first.value()), stored.value(), &mut frame)?;
            if frame.last() >= before || Some(first.value()) == keep || bytes >= SEGMENT_BYTES {
                break;
            }
            bytes += stored.value().len();
            if writer.is_none() {
                let id = self.shared.store_id;
                let made = SegmentWriter::create(disk, dir, id, frame.first, frame.previous)?;
                writer = Some((made, frame.previous));
            }
            if let Some((writer, _)) = &mut writer {
                writer.add(&frame)?;
            }
        }
        let Some((writer, previous)) = writer else { return Ok(None) };
        let hash = writer.hash();
        let info = writer.finish(disk)?;
        let written = Segment::open(disk, dir, info)?;
        written.check_bytes()?;
        if written.check_chain(previous)? != hash {
            let what = "the archived chain ends in another hash".into();
            return Err(LogError::Damaged { seq: info.last, what });
        }
        Ok(Some((info, bytes as u64)))
    }

    fn list_segment(&self, info: &SegmentInfo) -> Result<(), LogError> {
        self.shared.with_db(|db| {
            let mut txn = db.begin_write().map_err(engine("archive"))?;
            txn.set_quick_repair(self.options.quick_repair);
            {
                let mut segments = txn.open_table(SEGMENTS).map_err(engine("archive"))?;
                segments.insert(info.first.0, &*info.encode()).map_err(engine("archive"))?;
                let mut frames = txn.open_table(FRAMES).map_err(engine("archive"))?;
                frames
                    .retain_in(info.first.0..=info.last.0, |_, _| false)
                    .map_err(engine("archive"))?;
            }
            txn.commit().map_err(engine("archive"))
        })
    }

    /// Drops bodies that a policy no longer wants; the events keep their hashes, so a
    /// dropped body is not taken for a lost one.
    pub(crate) fn drop_bodies(&mut self, seqs: &[Seq]) -> Result<(), LogError> {
        self.shared.usable()?;
        for some in seqs.chunks(DROPPED_AT_ONCE) {
            let dropped = guarded("drop bodies", || {
                self.shared.with_db(|db| {
                    let mut txn = db.begin_write().map_err(engine("drop bodies"))?;
                    txn.set_quick_repair(self.options.quick_repair);
                    {
                        let mut bodies = txn.open_table(BODIES).map_err(engine("drop bodies"))?;
                        for seq in some {
                            let mark = dropped_body(*seq);
                            bodies.insert(seq.0, &*mark).map_err(engine("drop bodies"))?;
                        }
                    }
                    txn.commit().map_err(engine("drop bodies"))
                })
            });
            dropped.inspect_err(|_| self.shared.poison())?;
        }
        Ok(())
    }

    /// Makes bodies unreadable for ever: destroys their keys, and then drops what is stored of them. A
    /// crash in between leaves bodies that nobody can open, and doing it again does the rest.
    pub(crate) fn forget(&mut self, seqs: &[Seq]) -> Result<(), LogError> {
        self.shared.usable()?;
        self.shared.keys.destroy(seqs)?;
        self.drop_bodies(seqs)
    }

    /// Gives the free pages of the file back to the disk; true when it became smaller. Needs as
    /// much free space as the file has, and no reader in the middle of something.
    pub fn compact_file(&mut self) -> Result<bool, LogError> {
        self.shared.usable()?;
        let disk = &self.shared.disk;
        let needed = self.reader().file_bytes()?;
        let free = disk.free_bytes(&self.shared.path).map_err(LogError::io("ask for space"))?;
        if free < needed {
            return Err(LogError::NoRoom { needed, free });
        }
        let compacted = guarded("compact the store", || {
            let mut db = self.shared.db.write();
            let db = db.as_mut().ok_or(LogError::Closed)?;
            let smaller = db.compact().map_err(engine("compact the store"))?;
            // Compaction itself saves nothing for a quick recovery; the next commit does.
            let mut txn = db.begin_write().map_err(engine("compact the store"))?;
            txn.set_quick_repair(self.options.quick_repair);
            txn.commit().map_err(engine("compact the store"))?;
            Ok(smaller)
        });
        self.poison_unless_in_use(compacted)
    }

    /// Lets the engine check every page of its file. False is never returned for a store that
    /// was only ever written by us.
    #[cfg(any(test, feature = "internals"))]
    pub fn check_pages(&mut self) -> Result<(), LogError> {
        self.shared.usable()?;
        let checked = guarded("check the pages", || {
            let mut db = self.shared.db.write();
            let db = db.as_mut().ok_or(LogError::Closed)?;
            match db.check_integrity().map_err(engine("check the pages"))? {
                true => Ok(()),
                false => Err(LogError::Corrupt("a page differs from what was written".into())),
            }
        });
        self.poison_unless_in_use(checked)
    }

    fn poison_unless_in_use<T>(&self, result: Result<T, LogError>) -> Result<T, LogError> {
        result.inspect_err(|error| {
            if !matches!(error, LogError::InUse) {
                self.shared.poison();
            }
        })
    }
}

/// All listed segments, oldest first.
pub(super) fn listed(txn: &ReadTransaction) -> Result<Vec<SegmentInfo>, LogError> {
    let segments = txn.open_table(SEGMENTS).map_err(engine("read the archive"))?;
    let rows = segments.range::<u64>(..).map_err(engine("read the archive"))?;
    rows.map(|row| {
        let (first, stored) = row.map_err(engine("read the archive"))?;
        SegmentInfo::decode(Seq(first.value()), stored.value())
    })
    .collect()
}

/// Deletes segments no store lists, and opens each listed one to see that it is there and whole.
pub(super) fn reconcile(
    disk: &dyn Disk,
    dir: &Path,
    txn: &ReadTransaction,
) -> Result<(), LogError> {
    let listed = listed(txn)?;
    let names: BTreeSet<String> = listed.iter().map(SegmentInfo::name).collect();
    let present = disk.stat(dir).map_err(LogError::io("look for the archive"))?;
    if present.is_some() {
        for name in disk.list(dir).map_err(LogError::io("list the archive"))? {
            if name.ends_with(".seg") && !names.contains(&name) {
                disk.remove_file(&dir.join(name))
                    .map_err(LogError::io("remove an unlisted segment"))?;
            }
        }
    }
    listed.iter().try_for_each(|info| Segment::open(disk, dir, *info).map(drop))
}

impl SharedStore {
    /// The listed segment that holds a position, open for reading.
    pub(super) fn segment(
        &self,
        txn: &ReadTransaction,
        seq: Seq,
    ) -> Result<Option<Arc<Segment>>, LogError> {
        let cached = self.segment.lock().clone();
        if let Some(segment) = cached
            && (segment.info.first..=segment.info.last).contains(&seq)
        {
            return Ok(Some(segment));
        }
        let segments = txn.open_table(SEGMENTS).map_err(engine("read the archive"))?;
        let Some((first, stored)) = last_at_most(&segments, seq)? else { return Ok(None) };
        let info = SegmentInfo::decode(first, &stored)?;
        if info.last < seq {
            return Ok(None);
        }
        let segment = Arc::new(Segment::open(&*self.disk, &self.archive_dir, info)?);
        *self.segment.lock() = Some(segment.clone());
        Ok(Some(segment))
    }
}

fn last_at_most(
    table: &impl ReadableTable<u64, Bytes>,
    seq: Seq,
) -> Result<Option<(Seq, Vec<u8>)>, LogError> {
    let mut range = table.range(..=seq.0).map_err(engine("read the archive"))?;
    let row = range.next_back().transpose().map_err(engine("read the archive"))?;
    Ok(row.map(|(first, stored)| (Seq(first.value()), stored.value().to_vec())))
}
