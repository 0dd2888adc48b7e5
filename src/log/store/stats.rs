//! Sizes of the store and its tables.

use redb::{ReadTransaction, ReadableTableMetadata as _, TableDefinition, TableHandle as _};

use crate::contract::ids::Seq;
use crate::log::error::LogError;
use crate::log::frame::Header;

use super::Reader;
use super::archiving::listed;
use super::failure::{engine, guarded};
use super::tables::{
    BODIES, Bytes, CHUNKS, DOCUMENTS, FENCES, FRAMES, INDEX_SEGMENTS, META, OPEN, ROWS, SEGMENTS,
};

/// Sizes of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStats {
    /// Name of the table.
    pub name: String,
    /// Entries in it.
    pub entries: u64,
    /// Bytes of keys and values.
    pub(crate) stored_bytes: u64,
    /// Bytes of pages around and between them.
    pub(crate) overhead_bytes: u64,
}

/// Sizes of the store. Counting walks every table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    pub head: Seq,
    /// The position the tables stand for.
    pub applied: Seq,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Frames in the store's file.
    pub frames: u64,
    /// Bytes of records before compression, in those frames.
    pub raw_bytes: u64,
    /// Bytes of those frames as stored.
    pub frame_bytes: u64,
    /// Segments of the archive.
    pub segments: u64,
    /// Bytes of those segments.
    pub segment_bytes: u64,
    /// Segments of all indexes.
    pub index_segments: u64,
    /// Bytes of memory the fences and filters of the indexes take.
    pub index_memory_bytes: u64,
    /// Each table.
    pub tables: Vec<TableStats>,
}

impl Reader {
    /// Counts everything; walks the whole file.
    pub fn stats(&self) -> Result<Stats, LogError> {
        let published = self.shared().published();
        let file_bytes = self.file_bytes()?;
        guarded("count", || {
            let txn = self.shared().begin_read()?;
            let index_segments = published.tiers.iter().flatten();
            let segments = listed(&txn)?;
            let mut stats = Stats {
                head: published.head.0,
                applied: published.applied,
                file_bytes,
                frames: 0,
                raw_bytes: 0,
                frame_bytes: 0,
                segments: segments.len() as u64,
                segment_bytes: segments.iter().map(|segment| segment.bytes).sum(),
                index_segments: index_segments.clone().count() as u64,
                index_memory_bytes: index_segments.map(|one| one.memory() as u64).sum(),
                tables: all_stats(&txn)?,
            };
            let frames = txn.open_table(FRAMES).map_err(engine("count"))?;
            for row in frames.range::<u64>(..).map_err(engine("count"))? {
                let (first, stored) = row.map_err(engine("count"))?;
                let seq = Seq(first.value());
                let header = Header::read(seq, stored.value())
                    .map_err(|what| LogError::Damaged { seq, what: format!("frame: {what}") })?;
                stats.frames += 1;
                stats.raw_bytes += header.block_len as u64;
                stats.frame_bytes += stored.value().len() as u64;
            }
            Ok(stats)
        })
    }
}

/// Counts every table.
fn all_stats(txn: &ReadTransaction) -> Result<Vec<TableStats>, LogError> {
    Ok(vec![
        stats_of(txn, FRAMES)?,
        stats_of(txn, BODIES)?,
        stats_of(txn, ROWS)?,
        stats_of(txn, OPEN)?,
        stats_of(txn, SEGMENTS)?,
        stats_of(txn, DOCUMENTS)?,
        stats_of(txn, META)?,
        stats_of(txn, INDEX_SEGMENTS)?,
        stats_of(txn, CHUNKS)?,
        stats_of(txn, FENCES)?,
    ])
}

fn stats_of<K: redb::Key + 'static>(
    txn: &ReadTransaction,
    definition: TableDefinition<'static, K, Bytes>,
) -> Result<TableStats, LogError> {
    let table = txn.open_table(definition).map_err(engine("count"))?;
    let stats = table.stats().map_err(engine("count"))?;
    Ok(TableStats {
        name: definition.name().to_owned(),
        entries: table.len().map_err(engine("count"))?,
        stored_bytes: stats.stored_bytes(),
        overhead_bytes: stats.metadata_bytes() + stats.fragmented_bytes(),
    })
}
