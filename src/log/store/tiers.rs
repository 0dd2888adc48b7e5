//! The random-key indexes on disk: new segments, bounded merging, loading.
//!
//! A checkpoint adds one segment per index and then merges no more than a fixed multiple of what it
//! added, so that the cost of a checkpoint does not grow with all the earlier ones. An unfinished
//! merge is a segment with sources. It continues after its own last entry, so no other state is needed.
//! Sources stay readable until the checkpoint that finishes the merge removes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableTable, Table, WriteTransaction};

use crate::contract::ids::{KeyIndex, Seq};
use crate::log::error::LogError;
use crate::log::frame::check;
use crate::log::index_segment::{
    CHUNK_ENTRIES, ChunkFilter, IndexSegment, IndexSegmentInfo, Key, Tier, empty_filter,
    encode_fence, entry, entry_count, key_of, lower_bound, pick, push_entry,
};

use super::failure::engine;
use super::tables::{Bytes, CHUNKS, ChunkKey, FENCES, INDEX_SEGMENTS};

/// Entries merged for each entry a checkpoint adds.
const MERGE_FACTOR: usize = 4;
/// Entries merged in any checkpoint that adds some.
const MERGE_FLOOR: usize = 16 << 10;
const CHECK: usize = 8;

/// One index as the writer knows it.
#[derive(Clone, Default)]
pub(super) struct Index {
    /// Live segments, newest first.
    pub live: Tier,
    merges: Vec<Merge>,
    /// Number of the newest segment so far; also its age when it is not the result of a merge.
    newest: u64,
}

#[derive(Clone)]
struct Merge {
    info: IndexSegmentInfo,
    last: Option<Key>,
}

struct Tables<'t> {
    index: u8,
    segments: Table<'t, (u8, u64), Bytes>,
    chunks: Table<'t, ChunkKey, Bytes>,
    fences: Table<'t, ChunkKey, Bytes>,
}

fn lost(index: u8, segment: u64, chunk: u32, what: &str) -> LogError {
    LogError::Corrupt(format!("index {index}, segment {segment}, chunk {chunk}: {what}"))
}

/// The entries of a stored chunk whose check matches.
pub(super) fn checked(key: ChunkKey, stored: &[u8]) -> Result<&[u8], LogError> {
    let entries = unchecked(stored).filter(|entries| {
        stored[..CHECK] == check(Seq(key.1), &[&[key.0], &key.2.to_le_bytes(), entries])
    });
    entries.ok_or_else(|| lost(key.0, key.1, key.2, "the check does not match"))
}

/// The entries of a stored chunk, for a look-up: its answer is confirmed by the caller.
fn unchecked(stored: &[u8]) -> Option<&[u8]> {
    stored.get(CHECK..).filter(|entries| !entries.is_empty())
}

/// The value a stored chunk has for a key, for a look-up.
pub(super) fn value_in(stored: &[u8], key: Key) -> Option<u64> {
    let entries = unchecked(stored)?;
    let at = lower_bound(entries, key);
    let hit = at < entry_count(entries) && entry(entries, at).0 == key;
    hit.then(|| entry(entries, at).1)
}

impl Tables<'_> {
    fn chunk(&self, segment: u64, chunk: u32) -> Result<Vec<u8>, LogError> {
        let key = (self.index, segment, chunk);
        let stored = self.chunks.get(key).map_err(engine("read an index"))?;
        let stored = stored.ok_or_else(|| lost(self.index, segment, chunk, "missing"))?;
        Ok(checked(key, stored.value())?.to_vec())
    }

    fn write_info(&mut self, info: &IndexSegmentInfo) -> Result<(), LogError> {
        let key = (self.index, info.id);
        self.segments.insert(key, &*info.encode()).map_err(engine("write an index"))?;
        Ok(())
    }

    fn write_chunk(
        &mut self,
        segment: u64,
        chunk: u32,
        entries: &[u8],
    ) -> Result<(Key, ChunkFilter), LogError> {
        let key = (self.index, segment, chunk);
        let mut stored = Vec::with_capacity(CHECK + entries.len());
        stored.extend_from_slice(&check(
            Seq(segment),
            &[&[self.index], &chunk.to_le_bytes(), entries],
        ));
        stored.extend_from_slice(entries);
        self.chunks.insert(key, &*stored).map_err(engine("write an index"))?;
        let mut filter = empty_filter();
        (0..entry_count(entries)).for_each(|at| filter.add(entry(entries, at).0));
        let fence = entry(entries, 0).0;
        let stored = encode_fence(fence, &filter);
        self.fences.insert(key, &*stored).map_err(engine("write an index"))?;
        Ok((fence, filter))
    }

    fn drop_segment(&mut self, segment: u64) -> Result<(), LogError> {
        let all = (self.index, segment, 0)..=(self.index, segment, u32::MAX);
        self.segments.remove((self.index, segment)).map_err(engine("shrink an index"))?;
        self.chunks.retain_in(all.clone(), |_, _| false).map_err(engine("shrink an index"))?;
        self.fences.retain_in(all, |_, _| false).map_err(engine("shrink an index"))
    }
}

/// Reads the fences of a segment.
fn load_segment(
    fences: &impl ReadableTable<ChunkKey, Bytes>,
    index: u8,
    info: IndexSegmentInfo,
) -> Result<Arc<IndexSegment>, LogError> {
    let (id, chunks) = (info.id, info.chunks);
    let mut segment = IndexSegment::new(info);
    let range = (index, id, 0)..(index, id, chunks);
    for row in fences.range(range).map_err(engine("read an index"))? {
        let (key, stored) = row.map_err(engine("read an index"))?;
        if !segment.push_stored(stored.value()) {
            return Err(lost(index, id, key.value().2, "a malformed fence"));
        }
    }
    if segment.fences.len() != chunks as usize {
        return Err(lost(index, id, segment.fences.len() as u32, "the fence is missing"));
    }
    Ok(Arc::new(segment))
}

impl Index {
    /// Reads what the writer must know of one index.
    pub(super) fn load(txn: &ReadTransaction, which: KeyIndex) -> Result<Index, LogError> {
        let index = which.number();
        let segments = txn.open_table(INDEX_SEGMENTS).map_err(engine("read an index"))?;
        let chunks = txn.open_table(CHUNKS).map_err(engine("read an index"))?;
        let fences = txn.open_table(FENCES).map_err(engine("read an index"))?;
        let mut loaded = Index::default();
        for row in
            segments.range((index, 0)..=(index, u64::MAX)).map_err(engine("read an index"))?
        {
            let (key, stored) = row.map_err(engine("read an index"))?;
            let id = key.value().1;
            let info = IndexSegmentInfo::decode(id, stored.value())
                .ok_or_else(|| lost(index, id, 0, "a malformed segment"))?;
            loaded.newest = loaded.newest.max(id);
            if info.is_live() {
                loaded.live.push(load_segment(&fences, index, info)?);
                continue;
            }
            let last = match info.chunks.checked_sub(1) {
                None => None,
                Some(chunk) => {
                    let stored = chunks.get((index, id, chunk)).map_err(engine("read an index"))?;
                    let stored = stored.ok_or_else(|| lost(index, id, chunk, "missing"))?;
                    let entries = checked((index, id, chunk), stored.value())?;
                    Some(entry(entries, entry_count(entries) - 1).0)
                }
            };
            loaded.merges.push(Merge { info, last });
        }
        loaded.live.sort_by_key(|segment| std::cmp::Reverse(segment.info.age));
        Ok(loaded)
    }

    /// Adds sorted keys and merges a bounded number of older entries.
    pub(super) fn add(
        &mut self,
        txn: &WriteTransaction,
        which: KeyIndex,
        keys: &[([u8; 16], u64)],
    ) -> Result<(), LogError> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut tables = Tables {
            index: which.number(),
            segments: txn.open_table(INDEX_SEGMENTS).map_err(engine("write an index"))?,
            chunks: txn.open_table(CHUNKS).map_err(engine("write an index"))?,
            fences: txn.open_table(FENCES).map_err(engine("write an index"))?,
        };
        self.add_segment(&mut tables, keys)?;
        self.work(&mut tables, keys.len() * MERGE_FACTOR + MERGE_FLOOR)
    }

    fn add_segment(
        &mut self,
        tables: &mut Tables<'_>,
        keys: &[([u8; 16], u64)],
    ) -> Result<(), LogError> {
        self.newest += 1;
        let mut segment = IndexSegment::new(IndexSegmentInfo {
            id: self.newest,
            age: self.newest,
            entries: 0,
            chunks: 0,
            sources: Vec::new(),
            drop_released: false,
        });
        let mut entries = Vec::with_capacity(CHUNK_ENTRIES * crate::log::index_segment::ENTRY);
        for (at, (digest, value)) in keys.iter().enumerate() {
            // Of several values for one digest the last one counts.
            if keys.get(at + 1).is_some_and(|(next, _)| next == digest) {
                continue;
            }
            push_entry(&mut entries, key_of(digest), *value);
            if entry_count(&entries) == CHUNK_ENTRIES {
                flush(tables, &mut segment, &mut entries)?;
            }
        }
        if !entries.is_empty() {
            flush(tables, &mut segment, &mut entries)?;
        }
        tables.write_info(&segment.info)?;
        self.live.insert(0, Arc::new(segment));
        Ok(())
    }

    fn work(&mut self, tables: &mut Tables<'_>, mut budget: usize) -> Result<(), LogError> {
        loop {
            self.start_merges(tables)?;
            // The smallest merge first: it reduces the number of segments soonest.
            let smallest = (0..self.merges.len()).min_by_key(|at| self.size_of(&self.merges[*at]));
            let Some(at) = smallest.filter(|_| budget > 0) else {
                return Ok(());
            };
            if self.step(tables, at, &mut budget)? {
                self.finish(tables, at)?;
            }
        }
    }

    fn size_of(&self, merge: &Merge) -> u64 {
        self.sources(merge).iter().map(|segment| segment.info.entries).sum()
    }

    fn sources(&self, merge: &Merge) -> Vec<Arc<IndexSegment>> {
        let wanted: BTreeSet<u64> = merge.info.sources.iter().copied().collect();
        self.live.iter().filter(|segment| wanted.contains(&segment.info.id)).cloned().collect()
    }

    fn start_merges(&mut self, tables: &mut Tables<'_>) -> Result<(), LogError> {
        loop {
            let busy: BTreeSet<u64> =
                self.merges.iter().flat_map(|merge| merge.info.sources.iter().copied()).collect();
            let sizes: Vec<u64> = self
                .live
                .iter()
                .map(
                    |segment| {
                        if busy.contains(&segment.info.id) { 0 } else { segment.info.entries }
                    },
                )
                .collect();
            let Some(window) = pick(&sizes) else {
                return Ok(());
            };
            self.newest += 1;
            let info = IndexSegmentInfo {
                id: self.newest,
                age: self.live[window.start].info.age,
                entries: 0,
                chunks: 0,
                sources: self.live[window.clone()].iter().map(|segment| segment.info.id).collect(),
                drop_released: window.end == self.live.len(),
            };
            tables.write_info(&info)?;
            self.merges.push(Merge { info, last: None });
        }
    }

    /// Merges up to the budget; true when the sources are exhausted.
    fn step(
        &mut self,
        tables: &mut Tables<'_>,
        at: usize,
        budget: &mut usize,
    ) -> Result<bool, LogError> {
        let mut merge = self.merges[at].clone();
        let mut cursors = Vec::new();
        for segment in self.sources(&merge) {
            cursors.push(Cursor::after(tables, segment, merge.last)?);
        }
        let mut entries = Vec::with_capacity(CHUNK_ENTRIES * crate::log::index_segment::ENTRY);
        let mut exhausted = false;
        // Only whole chunks are written before the end, so a merge continues after its last entry.
        while *budget > 0 || !entries.is_empty() {
            let Some(key) = cursors.iter().filter_map(Cursor::key).min() else {
                exhausted = true;
                break;
            };
            let mut value = None;
            for cursor in &mut cursors {
                if cursor.key() == Some(key) {
                    value = value.or(Some(cursor.value()));
                    cursor.advance(tables)?;
                    *budget = budget.saturating_sub(1);
                }
            }
            let value = value.unwrap_or_default();
            if value == 0 && merge.info.drop_released {
                continue;
            }
            push_entry(&mut entries, key, value);
            if entry_count(&entries) == CHUNK_ENTRIES {
                merge.flush(tables, &mut entries)?;
            }
        }
        if !entries.is_empty() {
            merge.flush(tables, &mut entries)?;
        }
        tables.write_info(&merge.info)?;
        self.merges[at] = merge;
        Ok(exhausted)
    }

    fn finish(&mut self, tables: &mut Tables<'_>, at: usize) -> Result<(), LogError> {
        let mut merge = self.merges.swap_remove(at);
        let replaced = std::mem::take(&mut merge.info.sources);
        for source in &replaced {
            tables.drop_segment(*source)?;
        }
        self.live.retain(|segment| !replaced.contains(&segment.info.id));
        if merge.info.entries == 0 {
            return tables.drop_segment(merge.info.id);
        }
        tables.write_info(&merge.info)?;
        self.live.push(load_segment(&tables.fences, tables.index, merge.info)?);
        self.live.sort_by_key(|segment| std::cmp::Reverse(segment.info.age));
        Ok(())
    }
}

impl Merge {
    fn flush(&mut self, tables: &mut Tables<'_>, entries: &mut Vec<u8>) -> Result<(), LogError> {
        tables.write_chunk(self.info.id, self.info.chunks, entries)?;
        self.last = Some(entry(entries, entry_count(entries) - 1).0);
        self.info.entries += entry_count(entries) as u64;
        self.info.chunks += 1;
        entries.clear();
        Ok(())
    }
}

fn flush(
    tables: &mut Tables<'_>,
    segment: &mut IndexSegment,
    entries: &mut Vec<u8>,
) -> Result<(), LogError> {
    let (fence, filter) = tables.write_chunk(segment.info.id, segment.info.chunks, entries)?;
    segment.push(fence, filter);
    segment.info.entries += entry_count(entries) as u64;
    segment.info.chunks += 1;
    entries.clear();
    Ok(())
}

/// A position in a source of a merge.
struct Cursor {
    segment: Arc<IndexSegment>,
    chunk: u32,
    entries: Vec<u8>,
    at: usize,
}

impl Cursor {
    fn after(
        tables: &Tables<'_>,
        segment: Arc<IndexSegment>,
        last: Option<Key>,
    ) -> Result<Cursor, LogError> {
        let chunk = last.map_or(0, |key| segment.chunk_after(key));
        let entries = tables.chunk(segment.info.id, chunk)?;
        let at = last.map_or(0, |key| lower_bound(&entries, key));
        let mut cursor = Cursor { segment, chunk, entries, at };
        if last.is_some() && cursor.key() == last {
            cursor.at += 1;
        }
        cursor.settle(tables)?;
        Ok(cursor)
    }

    fn key(&self) -> Option<Key> {
        (self.at < entry_count(&self.entries)).then(|| entry(&self.entries, self.at).0)
    }

    fn value(&self) -> u64 {
        entry(&self.entries, self.at).1
    }

    fn advance(&mut self, tables: &Tables<'_>) -> Result<(), LogError> {
        self.at += 1;
        self.settle(tables)
    }

    fn settle(&mut self, tables: &Tables<'_>) -> Result<(), LogError> {
        if self.at >= entry_count(&self.entries) && self.chunk + 1 < self.segment.info.chunks {
            self.chunk += 1;
            self.entries = tables.chunk(self.segment.info.id, self.chunk)?;
            self.at = 0;
        }
        Ok(())
    }
}
