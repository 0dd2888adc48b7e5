//! Bytes by key in a file of their own, beside the log: what can be made again and is dear to make.
//!
//! Contract: what is put is found again, also by the next process, unless it was lost; losing it
//! costs time, never correctness. A file that is damaged, or of another layout, is thrown away.
//! It is no part of the log: the log's one writer never waits for it.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use redb::{Database, Durability, ReadableDatabase as _, TableDefinition};

use super::backend::Backend;
use super::failure::{engine, guarded};
use super::tables::Bytes;
use crate::log::error::LogError;
use crate::os::{Disk, Open};

/// The one table.
const KEPT: TableDefinition<&str, Bytes> = TableDefinition::new("kept.v1");
/// Bytes put after which they are made durable: a sync for each would cost more than they do.
const DURABLE_AFTER: usize = 16 << 20;
/// Memory for pages.
const CACHE_BYTES: usize = 8 << 20;

/// The file. One process at a time has it.
pub struct Cache {
    db: Database,
    path: PathBuf,
    /// Bytes put since the last durable commit.
    loose: Mutex<usize>,
}

impl Cache {
    /// Opens the file, making it anew when it is missing or damaged. `Busy` when another process
    /// has it.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<Cache, LogError> {
        match Cache::open_as_is(disk, path) {
            Err(LogError::Busy) => Err(LogError::Busy),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a cache is made anew");
                disk.remove_file(path).map_err(LogError::io("remove a damaged cache"))?;
                Cache::open_as_is(disk, path)
            }
            opened => opened,
        }
    }

    fn open_as_is(disk: &Arc<dyn Disk>, path: &Path) -> Result<Cache, LogError> {
        let doing = "open a cache";
        let file = disk.open(path, Open::ReadWrite).map_err(LogError::io(doing))?;
        if !file.try_lock().map_err(LogError::io("lock a cache"))? {
            return Err(LogError::Busy);
        }
        let db = guarded(doing, || {
            let mut builder = Database::builder();
            let db = builder.set_cache_size(CACHE_BYTES).create_with_backend(Backend(file));
            let db = db.map_err(engine(doing))?;
            // So that a reader finds the table, whatever was put before.
            let txn = db.begin_write().map_err(engine(doing))?;
            txn.open_table(KEPT).map_err(engine(doing))?;
            txn.commit().map_err(engine(doing))?;
            Ok(db)
        })?;
        Ok(Cache { db, path: path.to_owned(), loose: Mutex::new(0) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes under a key.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, LogError> {
        let doing = "read a cache";
        guarded(doing, || {
            let txn = self.db.begin_read().map_err(engine(doing))?;
            let table = txn.open_table(KEPT).map_err(engine(doing))?;
            let stored = table.get(key).map_err(engine(doing))?;
            Ok(stored.map(|stored| stored.value().to_vec()))
        })
    }

    /// The first rows after a key and below another, at most so many, in order of their keys.
    pub fn page(
        &self,
        after: &str,
        below: &str,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, LogError> {
        let doing = "read a cache";
        guarded(doing, || {
            let txn = self.db.begin_read().map_err(engine(doing))?;
            let table = txn.open_table(KEPT).map_err(engine(doing))?;
            let range = (Bound::Excluded(after), Bound::Excluded(below));
            let rows = table.range::<&str>(range).map_err(engine(doing))?.take(limit);
            rows.map(|row| {
                let (key, stored) = row.map_err(engine(doing))?;
                Ok((key.value().to_owned(), stored.value().to_vec()))
            })
            .collect()
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
                    Some(value) => drop(table.insert(key, value)?),
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
        guarded(doing, || {
            let mut txn = self.db.begin_write().map_err(engine(doing))?;
            let durable = {
                let mut table = txn.open_table(KEPT).map_err(engine(doing))?;
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

impl Drop for Cache {
    fn drop(&mut self) {
        if let Err(error) = self.sync() {
            tracing::warn!(%error, "what was cached last is made again by the next start");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    fn what_was_put_is_there_the_next_time_and_damage_is_thrown_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept.redb");
        let disk: Arc<dyn Disk> = Arc::new(HostDisk);
        let cache = Cache::open(&disk, &path).unwrap();
        assert_eq!(cache.get("a").unwrap(), None);
        cache.change([("a", Some(&b"one"[..])), ("gone", Some(b"x"))]).unwrap();
        cache.change([("a", Some(&b"two"[..])), ("gone", None)]).unwrap();
        cache.change([("big", Some(&vec![7; DURABLE_AFTER][..]))]).unwrap();
        cache.change([("b", Some(&b""[..]))]).unwrap();
        assert!(matches!(Cache::open(&disk, &path), Err(LogError::Busy)));
        drop(cache);
        let cache = Cache::open(&disk, &path).unwrap();
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
        let cache = Cache::open(&disk, &path).unwrap();
        assert_eq!(cache.get("a").unwrap(), None);
        cache.change([("a", Some(&b"three"[..]))]).unwrap();
        assert_eq!(cache.get("a").unwrap().as_deref(), Some(&b"three"[..]));
        assert_eq!(cache.path(), path);
    }
}
