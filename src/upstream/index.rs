//! Where each id of a partition lies: a sorted table per partition, rebuildable at any time.
//!
//! Contract: a table belongs to one manifest (by hash) and one data file (by length, inode and
//! modification time); when either changed it is built again, which verifies the file again. The
//! bytes go to an [`IndexStore`] that may forget anything: what it loses is rebuilt, what it
//! damages is noticed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::contract::hash::{Digest, sha256};
use crate::log::Cache;
use crate::os::{Disk, Stat};

/// Version of the table layout; another version is rebuilt.
const LAYOUT: &[u8; 8] = b"sumidx01";
const ENTRY_BYTES: usize = 32;
const HEADER_BYTES: usize = 8 + 32 + 32 + 8 * 4 + 8 + 8 + 1;
const SEAL_BYTES: usize = 32;

/// Keeps opaque bytes by key. Losing them costs time, never correctness.
pub trait IndexStore: Send + Sync {
    /// The bytes under a key.
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>>;
    /// Puts bytes under a key.
    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()>;
}

/// An index store that lives as long as the process.
#[derive(Default)]
pub struct MemoryIndex(Mutex<BTreeMap<String, Vec<u8>>>);

impl IndexStore for MemoryIndex {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().get(key).cloned())
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().insert(key.to_owned(), bytes.to_vec());
        Ok(())
    }
}

impl IndexStore for Cache {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        Cache::get(self, key).map_err(io::Error::other)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        Cache::put(self, key, bytes).map_err(io::Error::other)
    }
}

/// The store of a home: its own file, or memory when somebody else has the file or the disk will
/// not have one.
pub fn index_of_home(disk: &Arc<dyn Disk>, path: &Path) -> Arc<dyn IndexStore> {
    match Cache::open(disk, path) {
        Ok(cache) => Arc::new(cache),
        Err(error) => {
            tracing::info!(%error, "upstream ids are indexed in memory");
            Arc::new(MemoryIndex::default())
        }
    }
}

/// What a file looked like when it was verified: enough to notice that it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMark {
    len: u64,
    inode: u64,
    modified_ns: i128,
}

impl From<Stat> for FileMark {
    fn from(stat: Stat) -> FileMark {
        FileMark { len: stat.len, inode: stat.inode, modified_ns: stat.modified_ns }
    }
}

/// Where one record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordAt {
    /// First byte of its line.
    pub offset: u64,
    /// Bytes of its line.
    pub len: u32,
    /// 1-based line number.
    pub line: u32,
}

/// The key of an id in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdKey([u8; 16]);

impl IdKey {
    /// The key of an id.
    pub fn of(id: &str) -> IdKey {
        IdKey(sha256(id).head())
    }
}

/// The two tables of a partition. Only chunks have a second id, their document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// By the record's own id.
    Records,
    /// By the document a chunk belongs to.
    Documents,
}

/// The ids of one verified partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionIndex {
    /// Hash of the manifest the table was built under.
    pub manifest_sha256: Digest,
    /// Hash of the data bytes it describes.
    pub data_sha256: Digest,
    /// What the data file looked like.
    pub mark: FileMark,
    /// Whether bytes were appended after the manifest was written.
    pub appended: bool,
    records: Vec<(IdKey, RecordAt)>,
    documents: Vec<(IdKey, RecordAt)>,
}

impl PartitionIndex {
    /// Sorts the tables of a verified partition.
    pub fn build(
        manifest_sha256: Digest,
        data_sha256: Digest,
        mark: FileMark,
        appended: bool,
        mut records: Vec<(IdKey, RecordAt)>,
        mut documents: Vec<(IdKey, RecordAt)>,
    ) -> PartitionIndex {
        let order = |(key, at): &(IdKey, RecordAt)| (*key, at.offset);
        records.sort_unstable_by_key(order);
        documents.sort_unstable_by_key(order);
        PartitionIndex { manifest_sha256, data_sha256, mark, appended, records, documents }
    }

    /// How many records the partition holds.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True for an empty partition.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes it takes in memory.
    pub fn weight(&self) -> usize {
        (self.records.len() + self.documents.len()) * size_of::<(IdKey, RecordAt)>()
    }

    /// Every place of an id, in file order.
    pub fn find(&self, section: Section, key: IdKey) -> impl Iterator<Item = RecordAt> {
        let table = self.table(section);
        let start = table.partition_point(|(other, _)| *other < key);
        table[start..].iter().take_while(move |(other, _)| *other == key).map(|(_, at)| *at)
    }

    /// All entries of a table, sorted by key.
    pub fn table(&self, section: Section) -> &[(IdKey, RecordAt)] {
        match section {
            Section::Records => &self.records,
            Section::Documents => &self.documents,
        }
    }

    /// The bytes for an [`IndexStore`].
    pub fn encode(&self) -> Vec<u8> {
        let entries = self.records.len() + self.documents.len();
        let mut out = Vec::with_capacity(HEADER_BYTES + entries * ENTRY_BYTES + SEAL_BYTES);
        out.extend_from_slice(LAYOUT);
        out.extend_from_slice(&self.manifest_sha256.0);
        out.extend_from_slice(&self.data_sha256.0);
        out.extend_from_slice(&self.mark.len.to_le_bytes());
        out.extend_from_slice(&self.mark.inode.to_le_bytes());
        out.extend_from_slice(&self.mark.modified_ns.to_le_bytes());
        out.extend_from_slice(&(self.records.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.documents.len() as u64).to_le_bytes());
        out.push(u8::from(self.appended));
        for (key, at) in self.records.iter().chain(&self.documents) {
            out.extend_from_slice(&key.0);
            out.extend_from_slice(&at.offset.to_le_bytes());
            out.extend_from_slice(&at.len.to_le_bytes());
            out.extend_from_slice(&at.line.to_le_bytes());
        }
        let seal = sha256(&out);
        out.extend_from_slice(&seal.0);
        out
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` for anything damaged or of another layout.
    pub fn decode(bytes: &[u8]) -> Option<PartitionIndex> {
        let (body, seal) = bytes.split_at_checked(bytes.len().checked_sub(SEAL_BYTES)?)?;
        if sha256(body).0 != seal {
            return None;
        }
        let mut cursor = Cursor(body);
        if cursor.take::<8>()? != *LAYOUT {
            return None;
        }
        let manifest_sha256 = Digest(cursor.take()?);
        let data_sha256 = Digest(cursor.take()?);
        let mark = FileMark {
            len: u64::from_le_bytes(cursor.take()?),
            inode: u64::from_le_bytes(cursor.take()?),
            modified_ns: i128::from_le_bytes(cursor.take()?),
        };
        let records = u64::from_le_bytes(cursor.take()?);
        let documents = u64::from_le_bytes(cursor.take()?);
        let appended = cursor.take::<1>()? == [1];
        let wanted = records.checked_add(documents)?.checked_mul(ENTRY_BYTES as u64)?;
        if cursor.0.len() as u64 != wanted {
            return None;
        }
        let records = cursor.entries(records)?;
        let documents = cursor.entries(documents)?;
        Some(PartitionIndex { manifest_sha256, data_sha256, mark, appended, records, documents })
    }
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn entries(&mut self, count: u64) -> Option<Vec<(IdKey, RecordAt)>> {
        (0..count)
            .map(|_| {
                let key = IdKey(self.take()?);
                let offset = u64::from_le_bytes(self.take()?);
                let len = u32::from_le_bytes(self.take()?);
                let line = u32::from_le_bytes(self.take()?);
                Some((key, RecordAt { offset, len, line }))
            })
            .collect()
    }
}

/// The tables in memory, never more than a bound: the least recently used goes first.
pub(super) struct IndexCache {
    limit: usize,
    weight: usize,
    tick: u64,
    tables: BTreeMap<String, (u64, Arc<PartitionIndex>)>,
}

impl IndexCache {
    pub(super) fn new(limit: usize) -> IndexCache {
        IndexCache { limit, weight: 0, tick: 0, tables: BTreeMap::new() }
    }

    pub(super) fn get(&mut self, key: &str) -> Option<Arc<PartitionIndex>> {
        self.tick += 1;
        let (used, table) = self.tables.get_mut(key)?;
        *used = self.tick;
        Some(Arc::clone(table))
    }

    pub(super) fn put(&mut self, key: &str, table: Arc<PartitionIndex>) {
        self.remove(key);
        self.tick += 1;
        self.weight += table.weight();
        self.tables.insert(key.to_owned(), (self.tick, table));
        while self.weight > self.limit && self.tables.len() > 1 {
            let oldest = self.tables.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some((_, table)) = self.tables.remove(key) {
            self.weight -= table.weight();
        }
    }
}

/// The key of a partition's table in the store.
pub(super) fn store_key(data_path: &Path) -> String {
    format!("upstream/{}", data_path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    fn sample(count: u32) -> PartitionIndex {
        let at = |line| RecordAt { offset: u64::from(line) * 10, len: 9, line };
        let records = (0..count).map(|line| (IdKey::of(&format!("id{line}")), at(line))).collect();
        let documents = (0..count).map(|line| (IdKey::of("doc"), at(line))).collect();
        let mark = FileMark { len: 5, inode: 6, modified_ns: -7 };
        PartitionIndex::build(sha256("m"), sha256("d"), mark, true, records, documents)
    }

    #[test]
    fn a_table_survives_its_bytes_and_damage_is_noticed() {
        let index = sample(50);
        let bytes = index.encode();
        assert_eq!(PartitionIndex::decode(&bytes), Some(index));
        for position in [0, 8, 100, bytes.len() / 2, bytes.len() - 1] {
            let mut bad = bytes.clone();
            bad[position] ^= 1;
            assert_eq!(PartitionIndex::decode(&bad), None, "byte {position}");
        }
        assert_eq!(PartitionIndex::decode(&bytes[..40]), None);
        assert_eq!(PartitionIndex::decode(b""), None);
    }

    #[test]
    fn ids_are_found_in_file_order() {
        let index = sample(50);
        let one: Vec<_> = index.find(Section::Records, IdKey::of("id7")).collect();
        assert_eq!(one, [RecordAt { offset: 70, len: 9, line: 7 }]);
        assert_eq!(index.find(Section::Records, IdKey::of("id50")).count(), 0);
        let lines: Vec<_> =
            index.find(Section::Documents, IdKey::of("doc")).map(|at| at.line).collect();
        assert_eq!(lines, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn stores_give_back_what_they_were_given() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(HostDisk);
        let stores: [Box<dyn IndexStore>; 2] = [
            Box::new(MemoryIndex::default()),
            Box::new(Cache::open(&disk, &dir.path().join("cache")).unwrap()),
        ];
        for store in stores {
            assert_eq!(store.get("a/b").unwrap(), None);
            store.put("a/b", b"1").unwrap();
            store.put("a/b", b"2").unwrap();
            assert_eq!(store.get("a/b").unwrap().as_deref(), Some(&b"2"[..]));
        }
    }

    #[test]
    fn the_cache_forgets_the_least_recently_used() {
        let table = Arc::new(sample(10));
        let mut cache = IndexCache::new(table.weight() * 2);
        cache.put("a", Arc::clone(&table));
        cache.put("b", Arc::clone(&table));
        assert!(cache.get("a").is_some());
        cache.put("c", Arc::clone(&table));
        assert_eq!(["a", "b", "c"].map(|key| cache.get(key).is_some()), [true, false, true]);
    }
}
