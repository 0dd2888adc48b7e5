//! Sorted segments: the shape of a random-key index.
//!
//! A segment is a sorted sequence of (digest, value) entries cut into chunks. In memory a segment is its
//! fences (the first digest of each chunk) and one Bloom filter a chunk, about 11 bits an entry;
//! the chunks stay on disk. Newer segments win over older ones. Which segments are merged is decided here
//! (`pick`), as a pure function of their sizes; reading and writing chunks is the store's.
//!
//! See docs/adr/0002-key-indexes-as-sorted-segments.md.

use std::sync::Arc;

use super::bloom::BloomFilter;
use super::frame::{array, read_u64};
use crate::contract::bytes;

/// Bytes of one entry: a 16-byte digest and a value.
pub(crate) const ENTRY: usize = 24;
/// Entries in a full chunk: with key and leaf header it fits a 16 KiB page.
pub(crate) const CHUNK_ENTRIES: usize = 680;
/// 64-bit words in the filter of one chunk: ten bits an entry.
const FILTER_WORDS: usize = CHUNK_ENTRIES * 10 / 64 + 1;
/// Fewest neighbours that are worth merging.
const MERGE_MIN: usize = 4;
/// The most neighbouring segments in one merge.
const MERGE_MAX: usize = 12;

/// A digest as a number: comparing numbers compares bytes.
pub(crate) type Key = u128;

pub(crate) fn key_of(digest: &[u8; 16]) -> Key {
    u128::from_be_bytes(*digest)
}

/// The filter of one chunk.
pub(crate) type ChunkFilter = BloomFilter<[u64; FILTER_WORDS], 6>;

pub(crate) fn empty_filter() -> ChunkFilter {
    BloomFilter::of([0; FILTER_WORDS])
}

/// The stored form of a chunk's fence and filter.
pub(crate) fn encode_fence(fence: Key, filter: &ChunkFilter) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + FILTER_WORDS * 8);
    out.extend_from_slice(&fence.to_be_bytes());
    for word in filter.words() {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

fn decode_fence(stored: &[u8]) -> Option<(Key, ChunkFilter)> {
    if stored.len() != 16 + FILTER_WORDS * 8 {
        return None;
    }
    let words = std::array::from_fn(|index| read_u64(stored, 16 + index * 8));
    Some((key_of(&array(&stored[..16])), BloomFilter::of(words)))
}

/// Entries of a stored chunk.
pub(crate) fn entry_count(entries: &[u8]) -> usize {
    entries.len() / ENTRY
}

/// One entry of a stored chunk.
pub(crate) fn entry(entries: &[u8], index: usize) -> (Key, u64) {
    let at = index * ENTRY;
    (key_of(&array(&entries[at..at + 16])), read_u64(entries, at + 16))
}

/// Appends one entry to a chunk.
pub(crate) fn push_entry(entries: &mut Vec<u8>, key: Key, value: u64) {
    entries.extend_from_slice(&key.to_be_bytes());
    entries.extend_from_slice(&value.to_le_bytes());
}

/// Position of the first entry that is not below `key`.
pub(crate) fn lower_bound(entries: &[u8], key: Key) -> usize {
    bytes::lower_bound(entry_count(entries), |at| entry(entries, at).0 < key)
}

/// What is known of a segment without reading its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexSegmentInfo {
    /// Its number, never reused.
    pub id: u64,
    /// Its place in age: larger is newer.
    pub age: u64,
    pub entries: u64,
    pub chunks: u32,
    /// Empty for a live segment; the segments it replaces while it is being merged, newest first.
    pub sources: Vec<u64>,
    /// True when no segment is older than the sources, so the merge drops released keys.
    pub(crate) drop_released: bool,
}

impl IndexSegmentInfo {
    pub(crate) fn is_live(&self) -> bool {
        self.sources.is_empty()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(21 + self.sources.len() * 8);
        out.extend_from_slice(&self.age.to_le_bytes());
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.chunks.to_le_bytes());
        out.push(u8::from(self.drop_released));
        for source in &self.sources {
            out.extend_from_slice(&source.to_le_bytes());
        }
        out
    }

    pub(super) fn decode(id: u64, stored: &[u8]) -> Option<IndexSegmentInfo> {
        if stored.len() < 21 || !(stored.len() - 21).is_multiple_of(8) {
            return None;
        }
        Some(IndexSegmentInfo {
            id,
            age: read_u64(stored, 0),
            entries: read_u64(stored, 8),
            chunks: u32::from_le_bytes(array(&stored[16..20])),
            drop_released: stored[20] != 0,
            sources: stored[21..].chunks_exact(8).map(|word| read_u64(word, 0)).collect(),
        })
    }
}

/// A live segment as readers use it.
pub(crate) struct IndexSegment {
    pub(crate) info: IndexSegmentInfo,
    pub fences: Vec<Key>,
    filters: Vec<ChunkFilter>,
}

impl IndexSegment {
    /// A segment whose fences are added chunk by chunk.
    pub(super) fn new(info: IndexSegmentInfo) -> IndexSegment {
        let chunks = info.chunks as usize;
        IndexSegment {
            info,
            fences: Vec::with_capacity(chunks),
            filters: Vec::with_capacity(chunks),
        }
    }

    pub(super) fn push(&mut self, fence: Key, filter: ChunkFilter) {
        self.fences.push(fence);
        self.filters.push(filter);
    }

    /// Adds the stored form of the next chunk's fence; false when it is malformed.
    pub(crate) fn push_stored(&mut self, stored: &[u8]) -> bool {
        match decode_fence(stored) {
            Some((fence, filter)) => {
                self.push(fence, filter);
                true
            }
            None => false,
        }
    }

    /// The chunk that may hold the key.
    pub(crate) fn chunk_for(&self, key: Key) -> Option<u32> {
        let chunk = self.fences_up_to(key).checked_sub(1)?;
        self.filters[chunk].may_hold(key).then_some(chunk as u32)
    }

    /// The chunk from which entries above `key` are found.
    pub(crate) fn chunk_after(&self, key: Key) -> u32 {
        self.fences_up_to(key).saturating_sub(1) as u32
    }

    /// How many fences are not above the key. Digests are spread evenly, so the place is all but
    /// known beforehand; halving is for whatever is not.
    fn fences_up_to(&self, key: Key) -> usize {
        const STEPS: usize = 8;
        let fences = &self.fences[..];
        let mut at = (((key >> 64) * fences.len() as u128) >> 64) as usize;
        for _ in 0..STEPS {
            if fences.get(at).is_some_and(|fence| *fence <= key) {
                at += 1;
            } else if at > 0 && fences[at - 1] > key {
                at -= 1;
            } else {
                return at;
            }
        }
        fences.partition_point(|fence| *fence <= key)
    }

    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        self.fences.capacity() * size_of::<Key>()
            + self.filters.capacity() * size_of::<ChunkFilter>()
    }
}

/// The segments of one index, newest first.
pub(crate) type Tier = Vec<Arc<IndexSegment>>;

/// Neighbouring segments worth merging: `sizes` are newest first, 0 for a segment already in a merge.
///
/// A window grows while the next older segment is not larger than the window, so small new segments gather
/// among themselves and an entry is rewritten once for each time its segment grows by `MERGE_MIN`.
pub(crate) fn pick(sizes: &[u64]) -> Option<std::ops::Range<usize>> {
    (0..sizes.len()).find_map(|start| {
        let mut total = sizes[start];
        let mut end = start + 1;
        if total == 0 {
            return None;
        }
        while end < sizes.len() && end - start < MERGE_MAX && sizes[end] != 0 && sizes[end] <= total
        {
            total += sizes[end];
            end += 1;
        }
        (end - start >= MERGE_MIN).then_some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;

    fn key(number: u64) -> Key {
        key_of(&sha256(number.to_le_bytes()).head())
    }

    #[test]
    fn a_full_filter_answers_wrongly_for_one_key_of_fifty_and_survives_its_encoding() {
        let mut filter = empty_filter();
        (0..CHUNK_ENTRIES as u64).for_each(|number| filter.add(key(number)));
        let wrong = (10_000..110_000).filter(|number| filter.may_hold(key(*number))).count();
        assert!(wrong < 2_000, "{wrong} false answers of 100000");
        assert_eq!(decode_fence(&encode_fence(key(3), &filter)), Some((key(3), filter)));
        assert!(decode_fence(&[0; 40]).is_none());
    }

    #[test]
    fn a_chunk_is_found_wherever_its_keys_lie() {
        let info = IndexSegmentInfo {
            id: 1,
            age: 1,
            entries: 0,
            chunks: 0,
            sources: Vec::new(),
            drop_released: false,
        };
        let even: Vec<Key> = (0..500).map(key).collect();
        let crowded: Vec<Key> = (0..500).map(|number| 7 + number * 3).collect();
        for mut fences in [even, crowded, Vec::new()] {
            fences.sort_unstable();
            let mut segment = IndexSegment::new(info.clone());
            fences.iter().for_each(|fence| segment.push(*fence, empty_filter()));
            let near = fences.iter().flat_map(|fence| [fence - 1, *fence, fence + 1]);
            for wanted in
                near.chain((0..1000).map(|number| key(number + 9_999))).chain([0, Key::MAX])
            {
                let expected = fences.iter().filter(|fence| **fence <= wanted).count();
                assert_eq!(segment.fences_up_to(wanted), expected);
            }
        }
    }

    #[test]
    fn small_new_segments_gather_before_they_touch_a_large_one() {
        assert_eq!(pick(&[]), None);
        assert_eq!(pick(&[1, 1, 1, 1_000_000]), None);
        assert_eq!(pick(&[1, 1, 1, 1, 1_000_000]), Some(0..4));
        assert_eq!(pick(&[1, 4, 4, 4, 4, 64]), Some(1..5));
        assert_eq!(pick(&[1, 1, 0, 0, 1, 1]), None);
        assert_eq!(pick(&[50, 1, 1, 1]), Some(0..4));
        assert_eq!(pick(&[1; 40]), Some(0..MERGE_MAX));
    }

    #[test]
    fn the_number_of_segments_stays_logarithmic() {
        let mut sizes: Vec<u64> = Vec::new();
        let mut rewritten = 0;
        for _ in 0..20_000 {
            sizes.insert(0, 10);
            while let Some(window) = pick(&sizes) {
                let total = sizes[window.clone()].iter().sum();
                rewritten += total;
                sizes.splice(window, [total]);
            }
            assert!(sizes.len() <= 30, "{sizes:?}");
        }
        assert!(rewritten < 20_000 * 10 * 9, "{rewritten}");
    }

    #[test]
    fn run_info_survives_its_encoding() {
        let info = IndexSegmentInfo {
            id: 9,
            age: 4,
            entries: 70,
            chunks: 2,
            sources: vec![8, 3],
            drop_released: true,
        };
        assert_eq!(IndexSegmentInfo::decode(9, &info.encode()), Some(info));
        assert_eq!(IndexSegmentInfo::decode(9, &[0; 20]), None);
        assert_eq!(IndexSegmentInfo::decode(9, &[0; 22]), None);
    }
}
