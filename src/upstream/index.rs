//! Where each id of a partition lies: sorted pages on disk, found through a small head in memory.
//!
//! Contract: an index belongs to one manifest (by hash) and one data file (by length, inode and
//! modification time); when either changed it is built again, which verifies the file again. Head
//! and pages go to an [`IndexStore`] that may forget anything: what it loses or damages is noticed
//! by its seal and rebuilt. A head takes about one and a quarter bytes an id (a filter, and the
//! first id of each page), so an id that is absent costs no read; pages are read when they are
//! needed and kept within a bound. Memory thus follows what is asked for, not what upstream holds.
//!
//! See docs/adr/0051-upstream-index-file.md.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::contract::bytes;
use crate::contract::hash::{Digest, Hasher, sha256};
use crate::log::bloom::BloomFilter;
use crate::log::{Cache, LogError};
use crate::os::{Disk, FileVersion};

/// Version of the layout; another version is rebuilt.
const LAYOUT: &str = "upstream-index.v6";
const ENTRY_BYTES: usize = 32;
/// Entries of a page: with its seal it fits a page of the store.
const PAGE_ENTRIES: usize = 120;
const SEAL_BYTES: usize = 16;
/// Ids for each word of the filter: one absent id in 40 is looked for in vain.
const FILTER_IDS_PER_WORD: usize = 8;
/// Pages put into the store in one call.
const PAGES_PUT: usize = 256;
/// Memory for pages that were read.
const PAGES_BYTES_MAX: usize = 8 << 20;

/// Keeps opaque bytes by key. Losing them costs time, never correctness.
pub trait IndexStore: Send + Sync {
    /// The bytes under a key.
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>>;
    /// Puts bytes under keys, all or none.
    fn put(&self, rows: &[(String, Vec<u8>)]) -> io::Result<()>;
    /// What is damaged, if anything.
    fn damage(&self) -> io::Result<Option<String>> {
        Ok(None)
    }
}

/// An index store that lives as long as the process.
#[derive(Default)]
pub struct MemoryIndex(Mutex<BTreeMap<String, Vec<u8>>>);

impl IndexStore for MemoryIndex {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().get(key).cloned())
    }

    fn put(&self, rows: &[(String, Vec<u8>)]) -> io::Result<()> {
        self.0.lock().extend(rows.iter().cloned());
        Ok(())
    }
}

/// The file of a home. A row that is damaged or lost is made again. A file that fails is removed, and ids are indexed
/// in memory until the next start: a failing disk costs time, never an attempt.
struct IndexFile {
    cache: Cache,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    failing: Mutex<Failing>,
}

/// What went wrong with an index file.
#[derive(Default)]
struct Failing {
    /// Rows that were damaged once. One that is damaged again, after it was made anew, is no accident.
    damaged: HashSet<String>,
    /// What takes the place of a file that failed.
    instead: Option<Arc<MemoryIndex>>,
}

impl IndexFile {
    /// The file, or what took its place.
    fn instead(&self) -> Option<Arc<MemoryIndex>> {
        self.failing.lock().instead.clone()
    }

    /// Puts memory in the place of the file.
    fn replaced(&self, error: &LogError) -> Arc<MemoryIndex> {
        let mut failing = self.failing.lock();
        let instead = failing.instead.get_or_insert_with(|| {
            tracing::warn!(%error, "the file of upstream ids fails: they are indexed in memory");
            if let Err(error) = self.disk.remove_file(&self.path) {
                tracing::warn!(%error, "the file of upstream ids cannot be removed");
            }
            Arc::default()
        });
        Arc::clone(instead)
    }
}

impl IndexStore for IndexFile {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        if let Some(instead) = self.instead() {
            return instead.get(key);
        }
        match self.cache.get(key) {
            Ok(row) => Ok(row),
            Err(LogError::Corrupt(what)) if self.failing.lock().damaged.insert(key.to_owned()) => {
                tracing::warn!(what, "an upstream partition is indexed again");
                Ok(None)
            }
            Err(error) => self.replaced(&error).get(key),
        }
    }

    fn put(&self, rows: &[(String, Vec<u8>)]) -> io::Result<()> {
        if let Some(instead) = self.instead() {
            return instead.put(rows);
        }
        let changes = rows.iter().map(|(key, bytes)| (key.as_str(), Some(bytes.as_slice())));
        match self.cache.change(changes) {
            Ok(()) => Ok(()),
            Err(error) => self.replaced(&error).put(rows),
        }
    }

    fn damage(&self) -> io::Result<Option<String>> {
        match self.instead() {
            Some(instead) => instead.damage(),
            None => Ok(self.cache.damaged_rows()),
        }
    }
}

/// The store of a home: its own file, or memory when somebody else has the file or the disk will
/// not have one.
pub fn index_of_home(disk: &Arc<dyn Disk>, path: &Path) -> Arc<dyn IndexStore> {
    match Cache::open(disk, path, LAYOUT) {
        Ok(cache) => Arc::new(IndexFile {
            cache,
            disk: Arc::clone(disk),
            path: path.to_owned(),
            failing: Mutex::default(),
        }),
        Err(error) => {
            tracing::info!(%error, "upstream ids are indexed in memory");
            Arc::new(MemoryIndex::default())
        }
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

    fn as_number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

/// What finds the document that a file has since its content changed, in the table of wholes. No id has such a
/// beginning.
pub(super) fn file_key(uri: &str) -> String {
    format!("\0file\n{uri}")
}

/// The two tables of a partition. A chunk has a second id, its document, and the later version of an event has that of
/// the first version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// By the record's own id.
    Records,
    /// By what a record belongs to: a chunk to its document, the later version of an event to the first, and a
    /// chunk of a later document of a file to the file.
    Wholes,
}

/// The ids of a partition that was just verified, in no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Hash of the manifest it was verified under.
    pub manifest_sha256: Digest,
    /// Hash of the data bytes.
    pub data_sha256: Digest,
    /// What the data file looked like.
    pub mark: FileVersion,
    /// Whether bytes were appended after the manifest was written.
    pub appended: bool,
    /// Every record by its id.
    pub records: Vec<(IdKey, RecordAt)>,
    /// Every chunk by its document, and every later version of an event by the first.
    pub wholes: Vec<(IdKey, RecordAt)>,
}

/// What is known of a verified partition without reading its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionIndex {
    /// Hash of the manifest it was built under.
    pub manifest_sha256: Digest,
    /// Hash of the data bytes it describes.
    pub data_sha256: Digest,
    /// What the data file looked like.
    pub mark: FileVersion,
    /// Whether bytes were appended after the manifest was written.
    pub appended: bool,
    records: Table,
    wholes: Table,
    /// What the pages are sealed with.
    seal: Digest,
}

type IdFilter = BloomFilter<Vec<u64>, 4>;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Table {
    count: usize,
    /// The first id of each page.
    fences: Vec<IdKey>,
    filter: IdFilter,
}

impl Table {
    fn of(sorted: &[(IdKey, RecordAt)]) -> Table {
        let fences = sorted.chunks(PAGE_ENTRIES).map(|page| page[0].0).collect();
        let mut filter = IdFilter::of(vec![0; sorted.len().div_ceil(FILTER_IDS_PER_WORD)]);
        sorted.iter().for_each(|(key, _)| filter.add(key.as_number()));
        Table { count: sorted.len(), fences, filter }
    }

    fn may_hold(&self, key: IdKey) -> bool {
        self.filter.may_hold(key.as_number())
    }
}

/// A page that is not what its head knows, or is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

impl PartitionIndex {
    /// Sorts the tables of a verified partition into pages and keeps them under a key.
    pub fn keep(mut tables: Tables, key: &str, store: &dyn IndexStore) -> io::Result<Self> {
        let order = |(key, at): &(IdKey, RecordAt)| (*key, at.offset);
        tables.records.sort_unstable_by_key(order);
        tables.wholes.sort_unstable_by_key(order);
        let mut index = PartitionIndex {
            manifest_sha256: tables.manifest_sha256,
            data_sha256: tables.data_sha256,
            mark: tables.mark,
            appended: tables.appended,
            records: Table::of(&tables.records),
            wholes: Table::of(&tables.wholes),
            seal: Digest::ZERO,
        };
        let head = index.encode();
        index.seal = sha256(&head);
        let mut rows = Vec::with_capacity(PAGES_PUT);
        for (section, table) in
            [(Section::Records, &tables.records), (Section::Wholes, &tables.wholes)]
        {
            for (number, entries) in table.chunks(PAGE_ENTRIES).enumerate() {
                let page = index.page(section, number, entries);
                rows.push((page_key(key, section, number), page));
                if rows.len() == PAGES_PUT {
                    store.put(&rows)?;
                    rows.clear();
                }
            }
        }
        // The head comes last: without its pages it would promise too much.
        rows.push((key.to_owned(), head));
        store.put(&rows)?;
        Ok(index)
    }

    /// The index kept under a key; `None` when it is missing or damaged.
    pub fn load(key: &str, store: &dyn IndexStore) -> io::Result<Option<Self>> {
        Ok(store.get(key)?.and_then(|bytes| PartitionIndex::decode(&bytes)))
    }

    /// Bytes it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        let table =
            |table: &Table| size_of_val(&table.fences[..]) + size_of_val(table.filter.words());
        table(&self.records) + table(&self.wholes) + size_of::<PartitionIndex>()
    }

    /// Whether a record belongs to a whole.
    pub(crate) fn has_wholes(&self) -> bool {
        self.wholes.count > 0
    }

    fn table(&self, section: Section) -> &Table {
        match section {
            Section::Records => &self.records,
            Section::Wholes => &self.wholes,
        }
    }

    fn page(&self, section: Section, number: usize, entries: &[(IdKey, RecordAt)]) -> Vec<u8> {
        let mut out = Vec::with_capacity(entries.len() * ENTRY_BYTES + SEAL_BYTES);
        for (key, at) in entries {
            out.extend_from_slice(&key.0);
            out.extend_from_slice(&at.offset.to_le_bytes());
            out.extend_from_slice(&at.len.to_le_bytes());
            out.extend_from_slice(&at.line.to_le_bytes());
        }
        let seal = self.seal_of(section, number, &out);
        out.extend_from_slice(&seal);
        out
    }

    fn seal_of(&self, section: Section, number: usize, entries: &[u8]) -> [u8; SEAL_BYTES] {
        let mut hasher = Hasher::new();
        hasher.update(self.seal.0).update([section as u8]).update(number.to_le_bytes());
        hasher.update(entries).finish().head()
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.weight() + 64);
        out.extend_from_slice(&self.manifest_sha256.0);
        out.extend_from_slice(&self.data_sha256.0);
        out.extend_from_slice(&self.mark.len.to_le_bytes());
        out.extend_from_slice(&self.mark.inode.to_le_bytes());
        out.extend_from_slice(&self.mark.modified_ns.to_le_bytes());
        out.push(u8::from(self.appended));
        for table in [&self.records, &self.wholes] {
            out.extend_from_slice(&(table.count as u64).to_le_bytes());
            table.fences.iter().for_each(|fence| out.extend_from_slice(&fence.0));
            table.filter.words().iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<PartitionIndex> {
        let mut cursor = Cursor(bytes);
        let index = PartitionIndex {
            manifest_sha256: Digest(cursor.take()?),
            data_sha256: Digest(cursor.take()?),
            mark: FileVersion {
                len: u64::from_le_bytes(cursor.take()?),
                inode: u64::from_le_bytes(cursor.take()?),
                modified_ns: i128::from_le_bytes(cursor.take()?),
            },
            appended: cursor.take::<1>()? == [1],
            records: cursor.table()?,
            wholes: cursor.table()?,
            seal: sha256(bytes),
        };
        cursor.0.is_empty().then_some(index)
    }
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn table(&mut self) -> Option<Table> {
        let count = usize::try_from(u64::from_le_bytes(self.take()?)).ok()?;
        let pages = count.div_ceil(PAGE_ENTRIES);
        let words = count.div_ceil(FILTER_IDS_PER_WORD);
        let bytes = words.checked_mul(size_of::<u64>())?;
        if self.0.len() < pages.checked_mul(size_of::<IdKey>())?.checked_add(bytes)? {
            return None;
        }
        let fences = (0..pages).map(|_| Some(IdKey(self.take()?))).collect::<Option<_>>()?;
        let filter = (0..words).map(|_| Some(u64::from_le_bytes(self.take()?)));
        let filter = IdFilter::of(filter.collect::<Option<_>>()?);
        Some(Table { count, fences, filter })
    }
}

/// The entries of a page, as they are stored.
type Page = Arc<[u8]>;

/// Reads pages, and keeps those that were read last: a page that was not asked for since half of
/// the bound was read again is forgotten.
pub(super) struct Pages {
    store: Arc<dyn IndexStore>,
    limit: usize,
    weight: usize,
    young: HashMap<PageId, Page>,
    old: HashMap<PageId, Page>,
}

/// Which index, section and page.
type PageId = ([u8; 16], u8, usize);

impl Pages {
    pub(super) fn new(store: Arc<dyn IndexStore>) -> Pages {
        let (young, old) = (HashMap::new(), HashMap::new());
        Pages { store, limit: PAGES_BYTES_MAX / 2, weight: 0, young, old }
    }

    /// Every place of an id, in file order.
    pub(super) fn find(
        &mut self,
        key: &str,
        index: &PartitionIndex,
        section: Section,
        id: IdKey,
    ) -> io::Result<Result<Vec<RecordAt>, Lost>> {
        let mut places = Vec::new();
        let table = index.table(section);
        if !table.may_hold(id) {
            return Ok(Ok(places));
        }
        // Entries of an id may begin on the page before the first page whose first id it is.
        let first = table.fences.partition_point(|fence| *fence < id).saturating_sub(1);
        for number in first..table.fences.len() {
            if table.fences[number] > id {
                break;
            }
            let Some(page) = self.page(key, index, section, number, true)? else {
                return Ok(Err(Lost));
            };
            let count = page.len() / ENTRY_BYTES;
            let start = lower_bound(&page, id);
            let run = (start..count).map(|at| entry(&page, at)).take_while(|(key, _)| *key == id);
            places.extend(run.map(|(_, at)| at));
        }
        Ok(Ok(places))
    }

    /// Hands over all entries of a table, sorted by id.
    pub(super) fn walk(
        &mut self,
        key: &str,
        index: &PartitionIndex,
        section: Section,
        take: &mut dyn FnMut(IdKey, RecordAt),
    ) -> io::Result<Result<(), Lost>> {
        for number in 0..index.table(section).fences.len() {
            // Not into the cache: one full pass would evict the pages that lookups use often.
            let Some(page) = self.page(key, index, section, number, false)? else {
                return Ok(Err(Lost));
            };
            (0..page.len() / ENTRY_BYTES)
                .map(|at| entry(&page, at))
                .for_each(|(id, at)| take(id, at));
        }
        Ok(Ok(()))
    }

    /// Whether it is cheaper to walk a table than to look so many ids up in it.
    pub(super) fn walks(index: &PartitionIndex, section: Section, wanted: usize) -> bool {
        wanted.saturating_mul(PAGE_ENTRIES) >= index.table(section).count.saturating_mul(8)
    }

    fn page(
        &mut self,
        key: &str,
        index: &PartitionIndex,
        section: Section,
        number: usize,
        keep: bool,
    ) -> io::Result<Option<Page>> {
        let id = (index.seal.head(), section as u8, number);
        if let Some(page) = self.young.get(&id) {
            return Ok(Some(Arc::clone(page)));
        }
        let known = self.old.remove(&id);
        let page = match known {
            Some(page) => page,
            None => {
                let stored = self.store.get(&page_key(key, section, number))?;
                let Some(page) = stored.and_then(|bytes| {
                    let (entries, seal) = bytes.split_last_chunk::<SEAL_BYTES>()?;
                    let whole = index.seal_of(section, number, entries) == *seal;
                    (whole && !entries.is_empty()).then(|| Page::from(entries))
                }) else {
                    return Ok(None);
                };
                if !keep {
                    return Ok(Some(page));
                }
                page
            }
        };
        if self.weight >= self.limit {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        self.weight += page.len();
        self.young.insert(id, Arc::clone(&page));
        Ok(Some(page))
    }
}

fn entry(page: &[u8], index: usize) -> (IdKey, RecordAt) {
    let mut cursor = Cursor(&page[index * ENTRY_BYTES..]);
    let (id, offset, len, line) = (cursor.take(), cursor.take(), cursor.take(), cursor.take());
    let at = RecordAt {
        offset: u64::from_le_bytes(offset.unwrap_or_default()),
        len: u32::from_le_bytes(len.unwrap_or_default()),
        line: u32::from_le_bytes(line.unwrap_or_default()),
    };
    (IdKey(id.unwrap_or_default()), at)
}

/// The first entry of a page that is not below an id.
fn lower_bound(page: &[u8], id: IdKey) -> usize {
    bytes::lower_bound(page.len() / ENTRY_BYTES, |at| entry(page, at).0 < id)
}

/// The key of a partition's index in the store.
pub(super) fn store_key(data_path: &str) -> String {
    format!("upstream/{data_path}")
}

fn page_key(key: &str, section: Section, number: usize) -> String {
    let letter = match section {
        Section::Records => 'r',
        Section::Wholes => 'd',
    };
    format!("{key}#{letter}{number:08}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    const KEY: &str = "upstream/day.jsonl";

    fn tables(count: u32) -> Tables {
        let at = |line| RecordAt { offset: u64::from(line) * 10, len: 9, line };
        let records = (0..count).map(|line| (IdKey::of(&format!("id{line}")), at(line))).collect();
        let document = |line| IdKey::of(if line % 2 == 0 { "doc" } else { "other" });
        let wholes = (0..count).map(|line| (document(line), at(line))).collect();
        Tables {
            manifest_sha256: sha256("m"),
            data_sha256: sha256("d"),
            mark: FileVersion { len: 5, inode: 6, modified_ns: -7 },
            appended: true,
            records,
            wholes,
        }
    }

    fn kept(count: u32) -> (Arc<MemoryIndex>, PartitionIndex, Pages) {
        let store = Arc::new(MemoryIndex::default());
        let index = PartitionIndex::keep(tables(count), KEY, store.as_ref()).unwrap();
        let pages = Pages::new(Arc::clone(&store) as Arc<dyn IndexStore>);
        (store, index, pages)
    }

    #[test]
    fn an_index_is_read_back_and_a_page_of_another_place_is_refused() {
        let (store, index, mut pages) = kept(1000);
        assert_eq!(PartitionIndex::load(KEY, store.as_ref()).unwrap(), Some(index.clone()));
        assert_eq!(index.records.count, 1000);
        let head = store.get(KEY).unwrap().unwrap();
        assert_eq!(PartitionIndex::decode(&head[..40]), None);
        assert_eq!(PartitionIndex::decode(b""), None);
        // A page that was stored under the key of another page is refused.
        let ids: Vec<IdKey> = (0..1000).map(|line| IdKey::of(&format!("id{line}"))).collect();
        let find = |pages: &mut Pages| -> Vec<bool> {
            let found =
                ids.iter().map(|id| pages.find(KEY, &index, Section::Records, *id).unwrap());
            found.map(|found| found.is_ok_and(|places| places.len() == 1)).collect()
        };
        assert!(find(&mut pages).iter().all(|found| *found));
        let page = store.get(&page_key(KEY, Section::Records, 1)).unwrap().unwrap();
        store.put(&[(page_key(KEY, Section::Records, 2), page)]).unwrap();
        let mut again = Pages::new(store);
        let lost = find(&mut again).iter().filter(|found| !**found).count();
        // The first id of the next page might begin on this one.
        assert!((PAGE_ENTRIES..=PAGE_ENTRIES + 1).contains(&lost), "{lost}");
        assert_eq!(again.walk(KEY, &index, Section::Records, &mut |_, _| {}).unwrap(), Err(Lost));
    }

    #[test]
    fn ids_are_found_in_file_order_over_all_pages() {
        let (_, index, mut pages) = kept(1000);
        let mut find =
            |section, id: &str| pages.find(KEY, &index, section, IdKey::of(id)).unwrap().unwrap();
        assert_eq!(find(Section::Records, "id7"), [RecordAt { offset: 70, len: 9, line: 7 }]);
        assert_eq!(find(Section::Records, "id1000"), []);
        for (id, first) in [("doc", 0), ("other", 1)] {
            let lines: Vec<u32> = find(Section::Wholes, id).into_iter().map(|at| at.line).collect();
            assert_eq!(lines, (first..1000).step_by(2).collect::<Vec<_>>(), "{id}");
        }
        let mut walked = Vec::new();
        pages
            .walk(KEY, &index, Section::Records, &mut |id, at| walked.push((id, at.line)))
            .unwrap()
            .unwrap();
        let mut expected: Vec<(IdKey, u32)> =
            (0..1000).map(|line| (IdKey::of(&format!("id{line}")), line)).collect();
        expected.sort_unstable();
        assert_eq!(walked, expected);
    }

    #[test]
    fn a_filter_spares_most_reads_and_pages_stay_within_their_bound() {
        let (_, index, mut pages) = kept(20_000);
        let absent = |number| IdKey::of(&format!("absent{number}"));
        let passed = (0..10_000).filter(|number| index.records.may_hold(absent(*number))).count();
        assert!(passed < 400, "{passed} of 10,000");
        assert!(index.weight() < 20_000 * 3, "{}", index.weight());
        pages.limit = 40 * PAGE_ENTRIES * ENTRY_BYTES;
        for line in 0..20_000 {
            let id = IdKey::of(&format!("id{line}"));
            let found = pages.find(KEY, &index, Section::Records, id).unwrap().unwrap();
            assert_eq!(found.len(), 1);
            assert!(pages.young.len() + pages.old.len() <= 82);
        }
    }

    #[test]
    fn stores_give_back_what_they_were_given() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(HostDisk);
        let stores: [Arc<dyn IndexStore>; 2] =
            [Arc::new(MemoryIndex::default()), index_of_home(&disk, &dir.path().join("cache"))];
        let row = |key: &str, bytes: &[u8]| (key.to_owned(), bytes.to_vec());
        for store in stores {
            assert_eq!(store.get("a/b").unwrap(), None);
            store.put(&[row("a/b", b"1"), row("c", b"3")]).unwrap();
            store.put(&[row("a/b", b"2")]).unwrap();
            assert_eq!(store.get("a/b").unwrap().as_deref(), Some(&b"2"[..]));
            assert_eq!(store.get("c").unwrap().as_deref(), Some(&b"3"[..]));
        }
    }
}
