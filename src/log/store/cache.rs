//! Bytes by key in a file beside the log, for data that can be derived again at a cost.
//!
//! Contract: a row that was put is found again, also by the next process, or it is lost; a lost row
//! costs time, never correctness. Each row is sealed with a hash over its key and its bytes, and each
//! [page](CheckedPages) with one over its place, so a read gives the rows that were put or an error,
//! never other rows. A file that is damaged or of another layout is removed and made anew. The file is no part of the log: the writer of the log
//! never waits for it.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase as _, ReadableTable as _,
    ReadableTableMetadata as _, TableDefinition,
};

use super::checked_pages::CheckedPages;
use super::failure::{engine, guarded};
use super::tables::Bytes;
use crate::contract::hash::Hasher;
use crate::log::error::LogError;
use crate::os::{Disk, Open};

const ROWS: TableDefinition<&str, Bytes> = TableDefinition::new("rows.v1");
/// The row that names the layout of all others. The empty key comes before every other key, and a
/// page begins after the key it is given, so callers never meet this row.
const LAYOUT_KEY: &str = "";
/// Bytes of the seal in front of each value.
const SEAL_BYTES: usize = 16;
/// Bytes put after which they are made durable: a sync for each would cost more than they do.
const DURABLE_AFTER: usize = 16 << 20;
/// Memory for pages.
const CACHE_BYTES: usize = 8 << 20;

/// The file. One process at a time has it.
pub struct Cache {
    /// The engine, until it is closed.
    db: Option<Database>,
    /// Bytes put since the last durable commit.
    loose: Mutex<usize>,
}

/// Gives a folder that has the name of the file another name: somebody made it, so it is not removed.
fn put_folder_aside(disk: &Arc<dyn Disk>, path: &Path) -> Result<(), LogError> {
    let stat = disk.stat(path).map_err(LogError::io("look at a cache"))?;
    if stat.is_none_or(|stat| !stat.is_dir) {
        return Ok(());
    }
    let aside = path.with_extension("redb.aside");
    tracing::warn!(path = %path.display(), aside = %aside.display(), "a folder has the name of a cache: it gets another");
    disk.rename(path, &aside)
        .map_err(LogError::io("give a folder in the place of a cache another name"))
}

impl Cache {
    /// Opens the file. One that is missing, damaged or of another layout is made anew. `Busy` when
    /// another process has it.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path, layout: &str) -> Result<Cache, LogError> {
        put_folder_aside(disk, path)?;
        Cache::create(disk, path, layout)?;
        match Cache::open_as_is(disk, path, layout) {
            Err(LogError::Busy) => Err(LogError::Busy),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a cache is made anew");
                disk.remove_file(path).map_err(LogError::io("remove a damaged cache"))?;
                Cache::create(disk, path, layout)?;
                Cache::open_as_is(disk, path, layout)
            }
            opened => opened,
        }
    }

    /// Makes the file where it is missing. It gets its name when it is whole: a process that is killed here
    /// leaves no file that looks damaged.
    fn create(disk: &Arc<dyn Disk>, path: &Path, layout: &str) -> Result<(), LogError> {
        if disk.stat(path).map_err(LogError::io("look at a cache"))?.is_some() {
            return Ok(());
        }
        let begun = path.with_extension("redb.begun");
        disk.remove_file(&begun).map_err(LogError::io("remove the beginning of a cache"))?;
        drop(Cache::open_as_is(disk, &begun, layout)?);
        disk.rename(&begun, path).map_err(LogError::io("name a cache"))
    }

    fn open_any(disk: &Arc<dyn Disk>, path: &Path) -> Result<Cache, LogError> {
        let doing = "open a cache";
        let file = disk.open(path, Open::ReadWrite).map_err(LogError::io(doing))?;
        if !file.try_lock().map_err(LogError::io("lock a cache"))? {
            return Err(LogError::Busy);
        }
        let (pages, are_known) = CheckedPages::open(file).map_err(LogError::io(doing))?;
        let db = guarded(doing, || {
            let mut builder = Database::builder();
            builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(!are_known);
            builder.create_with_backend(pages).map_err(engine(doing))
        })?;
        Ok(Cache { db: Some(db), loose: Mutex::new(0) })
    }

    /// What is damaged in a file of any layout, if anything. A file that is missing is sound. `Busy`
    /// when another process has it.
    pub fn damage(disk: &Arc<dyn Disk>, path: &Path) -> Result<Option<String>, LogError> {
        match disk.stat(path).map_err(LogError::io("look at a cache"))? {
            None => return Ok(None),
            Some(stat) if stat.is_dir => return Ok(Some("it is a folder".to_owned())),
            Some(_) => {}
        }
        match Cache::open_any(disk, path) {
            Err(LogError::Busy) => Err(LogError::Busy),
            Err(error) => Ok(Some(error.to_string())),
            Ok(cache) => Ok(cache.damaged_rows()),
        }
    }

    /// Which rows are not what was put, if any.
    pub(crate) fn damaged_rows(&self) -> Option<String> {
        let doing = "read a cache";
        let counted = self.read(|table| {
            let (mut rows, mut damaged) = (0_u64, 0_u64);
            for row in table.iter().map_err(engine(doing))? {
                let (key, stored) = row.map_err(engine(doing))?;
                rows += 1;
                damaged += u64::from(unsealed(key.value(), stored.value()).is_err());
            }
            // The table counts its rows, so a lost branch of it is seen as well.
            let known = table.len().map_err(engine(doing))?;
            Ok((damaged, known.abs_diff(rows)))
        });
        match counted {
            Ok((0, 0)) => None,
            Ok((damaged, 0)) => Some(format!("{damaged} of its rows are damaged")),
            Ok((_, lost)) => Some(format!("{lost} of its rows are lost")),
            Err(error) => Some(error.to_string()),
        }
    }

    fn open_as_is(disk: &Arc<dyn Disk>, path: &Path, layout: &str) -> Result<Cache, LogError> {
        let cache = Cache::open_any(disk, path)?;
        let mut known = None;
        cache.write(|table| {
            if table.is_empty()? {
                table.insert(LAYOUT_KEY, sealed(LAYOUT_KEY, layout.as_bytes()).as_slice())?;
            }
            known = table.get(LAYOUT_KEY)?.map(|row| row.value().to_vec());
            Ok(true)
        })?;
        match known.and_then(|row| unsealed(LAYOUT_KEY, &row).ok()) {
            Some(known) if known == layout.as_bytes() => Ok(cache),
            _ => Err(LogError::Corrupt(format!("the cache is not of layout {layout}"))),
        }
    }

    /// One look at the rows.
    fn read<T>(
        &self,
        look: impl FnOnce(&ReadOnlyTable<&'static str, Bytes>) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let doing = "read a cache";
        let db = self.db.as_ref().ok_or(LogError::Poisoned)?;
        guarded(doing, || {
            let txn = db.begin_read().map_err(engine(doing))?;
            look(&txn.open_table(ROWS).map_err(engine(doing))?)
        })
    }

    /// The bytes under a key.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, LogError> {
        let doing = "read a cache";
        self.read(|table| {
            let stored = table.get(key).map_err(engine(doing))?;
            stored.map(|stored| unsealed(key, stored.value())).transpose()
        })
    }

    /// How many rows callers have put, as the table counts them.
    pub(crate) fn rows(&self) -> Result<u64, LogError> {
        let doing = "read a cache";
        self.read(|table| Ok(table.len().map_err(engine(doing))?.saturating_sub(1)))
    }

    /// The first rows after a key and below another, at most so many, in order of their keys.
    pub fn page(
        &self,
        after: &str,
        below: &str,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, LogError> {
        let doing = "read a cache";
        self.read(|table| {
            let range = (Bound::Excluded(after), Bound::Excluded(below));
            let mut page: Vec<(String, Vec<u8>)> = Vec::new();
            for row in table.range::<&str>(range).map_err(engine(doing))?.take(limit) {
                let (key, stored) = row.map_err(engine(doing))?;
                let (key, before) = (key.value(), page.last().map_or(after, |(key, _)| key));
                if key <= before || key >= below {
                    return Err(LogError::Corrupt(format!(
                        "row {key:?} of a cache is out of order"
                    )));
                }
                page.push((key.to_owned(), unsealed(key, stored.value())?));
            }
            Ok(page)
        })
    }

    /// Puts bytes under keys, or takes keys away: all or none.
    pub fn change<'a>(
        &self,
        rows: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>,
    ) -> Result<(), LogError> {
        let mut loose = self.loose.lock();
        let mut bytes = 0;
        let wrote = self.write(|table| {
            for (key, value) in rows {
                bytes += key.len() + value.map_or(0, <[u8]>::len);
                match value {
                    Some(value) => drop(table.insert(key, sealed(key, value).as_slice())?),
                    None => drop(table.remove(key)?),
                }
            }
            Ok(*loose + bytes >= DURABLE_AFTER)
        });
        *loose = if wrote? { 0 } else { *loose + bytes };
        Ok(())
    }

    /// Makes everything that was put durable.
    pub fn sync(&self) -> Result<(), LogError> {
        let mut loose = self.loose.lock();
        if *loose > 0 {
            self.write(|_| Ok(true))?;
            *loose = 0;
        }
        Ok(())
    }

    /// One transaction, durable if the change says so.
    fn write(
        &self,
        change: impl FnOnce(&mut redb::Table<'_, &str, Bytes>) -> Result<bool, redb::StorageError>,
    ) -> Result<bool, LogError> {
        let doing = "write a cache";
        let db = self.db.as_ref().ok_or(LogError::Poisoned)?;
        guarded(doing, || {
            let mut txn = db.begin_write().map_err(engine(doing))?;
            let durable = {
                let mut table = txn.open_table(ROWS).map_err(engine(doing))?;
                change(&mut table).map_err(engine(doing))?
            };
            if !durable {
                txn.set_durability(Durability::None)
                    .map_err(|error| LogError::io(doing)(std::io::Error::other(error)))?;
            }
            txn.commit().map_err(engine(doing))?;
            Ok(durable)
        })
    }
}

fn seal(key: &str, value: &[u8]) -> [u8; SEAL_BYTES] {
    let key_bytes = (key.len() as u64).to_le_bytes();
    Hasher::new().update(key_bytes).update(key).update(value).finish().head()
}

fn sealed(key: &str, value: &[u8]) -> Vec<u8> {
    [&seal(key, value)[..], value].concat()
}

fn unsealed(key: &str, stored: &[u8]) -> Result<Vec<u8>, LogError> {
    match stored.split_first_chunk::<SEAL_BYTES>() {
        Some((found, value)) if *found == seal(key, value) => Ok(value.to_vec()),
        _ => Err(LogError::Corrupt(format!(
            "row {key:?} of a cache differs from the row that was written"
        ))),
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Err(error) = self.sync() {
            tracing::warn!(%error, "the next start computes the last cached rows again");
        }
        // The engine writes as it closes, and trusts what it read.
        let closed = guarded("close a cache", || {
            drop(self.db.take());
            Ok(())
        });
        if let Err(error) = closed {
            tracing::warn!(%error, "the next start makes a cache anew");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;
    use crate::os::sim::SimDisk;

    #[test]
    fn a_stored_value_is_there_after_a_restart_and_a_damaged_file_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept.redb");
        let disk: Arc<dyn Disk> = Arc::new(HostDisk);
        let cache = Cache::open(&disk, &path, "test.v1").unwrap();
        assert_eq!(cache.get("a").unwrap(), None);
        cache.change([("a", Some(&b"one"[..])), ("gone", Some(b"x"))]).unwrap();
        cache.change([("a", Some(&b"two"[..])), ("gone", None)]).unwrap();
        cache.change([("big", Some(&vec![7; DURABLE_AFTER][..]))]).unwrap();
        cache.change([("b", Some(&b""[..]))]).unwrap();
        assert!(matches!(Cache::open(&disk, &path, "test.v1"), Err(LogError::Busy)));
        drop(cache);
        let cache = Cache::open(&disk, &path, "test.v1").unwrap();
        assert_eq!(cache.get("a").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(cache.get("b").unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(cache.get("big").unwrap().map(|bytes| bytes.len()), Some(DURABLE_AFTER));
        assert_eq!(cache.get("gone").unwrap(), None);
        let keys = |after: &str, below: &str, limit| -> Vec<String> {
            let page = cache.page(after, below, limit).unwrap();
            page.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys("", "~", 9), ["a", "b", "big"]);
        assert_eq!(keys("a", "big", 9), ["b"]);
        assert_eq!(keys("", "~", 1), ["a"]);
        drop(cache);
        disk.replace(&path, &[1; 5000], 0o640).unwrap();
        let cache = Cache::open(&disk, &path, "test.v1").unwrap();
        assert_eq!(cache.get("a").unwrap(), None);
        cache.change([("a", Some(&b"three"[..]))]).unwrap();
        assert_eq!(cache.get("a").unwrap().as_deref(), Some(&b"three"[..]));
        drop(cache);
        let cache = Cache::open(&disk, &path, "test.v2").unwrap();
        assert_eq!(cache.get("a").unwrap(), None, "rows of another layout are not read");
    }

    const LAYOUT: &str = "test.v1";
    const PAGE: usize = 4096;

    /// A file with many rows, as it was after a first and after a second session, and as a process that is killed in
    /// the second one leaves it.
    fn three_states(disk: &Arc<dyn Disk>, path: &Path) -> [Vec<u8>; 3] {
        let put = |cache: &Cache, value: u32| {
            for part in 0..4 {
                let keys: Vec<String> =
                    (0..200).map(|key| format!("{:03}", key * 4 + part)).collect();
                let bytes = value.to_le_bytes().repeat(20);
                cache.change(keys.iter().map(|key| (key.as_str(), Some(&bytes[..])))).unwrap();
            }
            cache.sync().unwrap();
        };
        let cache = Cache::open(disk, path, LAYOUT).unwrap();
        put(&cache, 1);
        drop(cache);
        let first = disk.read(path).unwrap();
        let cache = Cache::open(disk, path, LAYOUT).unwrap();
        put(&cache, 2);
        let killed = disk.read(path).unwrap();
        drop(cache);
        [first, disk.read(path).unwrap(), killed]
    }

    /// All rows of a file, or the error that leads to a new file.
    fn rows_of(
        disk: &Arc<dyn Disk>,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Vec<(String, Vec<u8>)>, LogError> {
        disk.replace(path, bytes, 0o640).unwrap();
        let cache = Cache::open_as_is(disk, path, LAYOUT)?;
        let rows = cache.page("", "~", usize::MAX)?;
        for (key, value) in &rows {
            assert_eq!(cache.get(key)?.as_ref(), Some(value));
        }
        Ok(rows)
    }

    #[test]
    fn a_page_that_is_not_the_last_one_written_at_its_place_gives_no_row() {
        let (disk, path): (Arc<dyn Disk>, _) = (Arc::new(SimDisk::new()), Path::new("/kept.redb"));
        let [first, second, killed] = three_states(&disk, path);
        let whole = rows_of(&disk, path, &second).unwrap();
        assert_eq!((whole.len(), &whole[0].1[..4]), (800, &2_u32.to_le_bytes()[..]));
        assert_eq!(rows_of(&disk, path, &killed).unwrap(), whole, "a killed process");
        // After a kill the engine may go back to the commit before, and then as a whole.
        let before = rows_of(&disk, path, &first).unwrap();
        let mut refused = 0;
        let mut is_whole_or_refused = |what: String, bytes: &[u8]| {
            match rows_of(&disk, path, bytes) {
                Ok(rows) => assert!(
                    rows == whole || what.starts_with("killed") && rows == before,
                    "{what}: {} rows",
                    rows.len()
                ),
                Err(_) => refused += 1,
            }
            // And the file serves again.
            drop(Cache::open(&disk, path, LAYOUT).unwrap());
        };
        for (name, state) in [("closed", &second), ("killed", &killed)] {
            let pages = state.len() / PAGE;
            let used = |page: &usize| state[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0);
            let used: Vec<usize> = (0..pages).filter(used).collect();
            for (nth, a) in used.iter().enumerate() {
                for b in used[..nth].iter().skip(nth % 3).step_by(if *a < 8 { 1 } else { 23 }) {
                    let mut bytes = state.clone();
                    bytes[a * PAGE..][..PAGE].copy_from_slice(&state[b * PAGE..][..PAGE]);
                    bytes[b * PAGE..][..PAGE].copy_from_slice(&state[a * PAGE..][..PAGE]);
                    is_whole_or_refused(
                        format!("{name}: pages {a} and {b} changed places"),
                        &bytes,
                    );
                }
                let mut bytes = state.clone();
                bytes[a * PAGE + a * 97 % PAGE] ^= 1 << (a % 8);
                is_whole_or_refused(format!("{name}: a bit of page {a}"), &bytes);
                if let Some(old) = first.get(a * PAGE..(a + 1) * PAGE).filter(|_| *a > 0) {
                    let mut bytes = state.clone();
                    bytes[a * PAGE..][..PAGE].copy_from_slice(old);
                    is_whole_or_refused(format!("{name}: page {a} is old"), &bytes);
                }
            }
        }
        assert!(refused > 50, "{refused} refused");
    }

    #[test]
    fn a_row_is_what_was_put_under_its_key_or_an_error() {
        let stored = sealed("a", b"one");
        assert_eq!(unsealed("a", &stored).unwrap(), b"one");
        assert!(unsealed("b", &stored).is_err(), "a row of another key");
        for byte in 0..stored.len() {
            let mut bad = stored.clone();
            bad[byte] ^= 1;
            assert!(unsealed("a", &bad).is_err(), "byte {byte}");
        }
        assert!(unsealed("a", b"short").is_err());
    }
}
