//! The tables and their keys. Values are opaque bytes with their own envelopes.

use redb::TableDefinition;

use crate::contract::ids::KeyIndex;

pub(super) type Bytes = &'static [u8];
pub(super) type ChunkKey = (u8, u64, u32);

/// Frames by their first sequence.
pub(super) const FRAMES: TableDefinition<u64, Bytes> = TableDefinition::new("frames");
/// Bodies by sequence.
pub(super) const BODIES: TableDefinition<u64, Bytes> = TableDefinition::new("bodies");
/// Rows by sequence.
pub(super) const ROWS: TableDefinition<u64, Bytes> = TableDefinition::new("rows");
/// Small records of what is open, by sequence.
pub(super) const OPEN: TableDefinition<u64, Bytes> = TableDefinition::new("open");
/// Named documents.
pub(super) const DOCUMENTS: TableDefinition<&str, Bytes> = TableDefinition::new("documents");
/// Format version, identity, applied position, mark.
pub(super) const META: TableDefinition<&str, Bytes> = TableDefinition::new("meta");
/// Archive segments by their first sequence.
pub(super) const SEGMENTS: TableDefinition<u64, Bytes> = TableDefinition::new("segments");
/// Segments of the random-key indexes by (index, segment).
pub(super) const INDEX_SEGMENTS: TableDefinition<(u8, u64), Bytes> =
    TableDefinition::new("index_segments");
/// Chunks of sorted entries by (index, segment, chunk).
pub(super) const CHUNKS: TableDefinition<ChunkKey, Bytes> = TableDefinition::new("chunks");
/// Fence and filter of each chunk, under the same key.
pub(super) const FENCES: TableDefinition<ChunkKey, Bytes> = TableDefinition::new("fences");

/// `meta`: major and minor format version, two u32.
pub(super) const FORMAT: &str = "format";
/// `meta`: the name of the keys that bodies are sealed with; absent in a store of format 1.
pub(super) const KEYS: &str = "keys";
/// `meta`: the release that first wrote this format, so that an older one can name it.
pub(super) const RELEASE: &str = "release";
/// `meta`: the 16 bytes the chain starts from.
pub(super) const STORE_ID: &str = "store_id";
/// `meta`: the position the rows, keys and documents stand for.
pub(super) const APPLIED: &str = "applied";
/// `meta`: position and mark, as of the last checkpoint or a commit without records.
pub(super) const MARK: &str = "mark";

impl KeyIndex {
    pub(super) fn number(self) -> u8 {
        match self {
            KeyIndex::Idempotency => 1,
            KeyIndex::RequestId => 2,
            KeyIndex::SummaryId => 3,
        }
    }
}
