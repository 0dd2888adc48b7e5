//! Opening: create or recover the file, check its format, find the head, load the indexes.
//!
//! A new store is made under a temporary name and renamed when its first commit is durable, so a
//! file under the final name is always whole. Recovery is the engine's: with quick repair on every
//! commit it reads the last saved allocator state and no more.
//!
//! See docs/adr/0003-instant-recovery-of-every-commit.md.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::{Mutex, RwLock};
use redb::{Database, ReadTransaction, ReadableDatabase as _};

use crate::contract::hash::Digest;
use crate::contract::ids::{KeyIndex, Seq};
use crate::log::chain::genesis;
use crate::log::error::LogError;
use crate::log::frame::{Frame, Header, Unpacker, array, read_u32, read_u64};
use crate::log::keys::{Fresh, FreshKeys, HomeKey, Keys, KeysName};
use crate::os::{Disk, DiskFile, Open};

use super::archiving::reconcile;
use super::backend::Backend;
use super::failure::{engine, guarded};
use super::reader::FrameCache;
use super::tables::{
    APPLIED, BODIES, CHUNKS, DOCUMENTS, FENCES, FORMAT, FRAMES, INDEX_SEGMENTS, KEYS, MARK, META,
    OPEN, RELEASE, ROWS, SEGMENTS, STORE_ID,
};
use super::tiers::Index;
use super::{FORMAT_MAJOR, FORMAT_MINOR, Options, Packing, Published, SharedStore, Store};

impl Store {
    /// Opens the store at `path`, or creates it with what is `fresh`. `progress` hears the part of a
    /// recovery that is done, from 0 to 1.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        options: Options,
        fresh: impl Into<Fresh>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Store, LogError> {
        let (file, fresh) = (locked_file(&disk, path)?, fresh.into());
        progress(0.0);
        let db = guarded("open the store", || match file {
            Locked::Existing(file) => open_engine(file, &options),
            Locked::Fresh(file, temporary) => {
                let db = open_engine(file, &options)?;
                // Its keys come first: a store under its name always has them.
                let keys = Keys::create(Arc::clone(&disk), path, &fresh.keys, &options.home_key)?;
                initialize(&db, fresh.store_id, keys.name())?;
                publish_file(&disk, &temporary, path)?;
                Ok(db)
            }
        })?;
        progress(0.9);
        let store = guarded("open the store", || assemble(disk, path, options, db, &fresh.keys))?;
        progress(1.0);
        Ok(store)
    }
}

enum Locked {
    Existing(Arc<dyn DiskFile>),
    Fresh(Arc<dyn DiskFile>, PathBuf),
}

/// The store's file, or a temporary one to become it, under its exclusive lock.
fn locked_file(disk: &Arc<dyn Disk>, path: &Path) -> Result<Locked, LogError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.new"));
    loop {
        let existing = disk.stat(path).map_err(LogError::io("look for the store"))?;
        let chosen = if existing.is_some() { path } else { &temporary };
        let file = disk.open(chosen, Open::ReadWrite).map_err(LogError::io("open the store"))?;
        if !file.try_lock().map_err(LogError::io("lock the store"))? {
            return Err(LogError::Busy);
        }
        // Between looking and locking another process may have renamed what we looked at.
        let ours = file.stat().map_err(LogError::io("read the size of the log file"))?;
        let now = disk.stat(chosen).map_err(LogError::io("look for the store"))?;
        if now.is_none_or(|now| (now.device, now.inode) != (ours.device, ours.inode)) {
            continue;
        }
        if existing.is_some() {
            if ours.len == 0 {
                return Err(LogError::NotAStore("it is empty".into()));
            }
            disk.remove_file(&temporary).map_err(LogError::io("remove a leftover"))?;
            return Ok(Locked::Existing(file));
        }
        if disk.stat(path).map_err(LogError::io("look for the store"))?.is_some() {
            continue;
        }
        file.set_len(0).map_err(LogError::io("create the store"))?;
        return Ok(Locked::Fresh(file, temporary));
    }
}

fn open_engine(file: Arc<dyn DiskFile>, options: &Options) -> Result<Database, LogError> {
    let opened =
        Database::builder().set_cache_size(options.cache_bytes).create_with_backend(Backend(file));
    opened.map_err(engine("open the store")).map_err(|error| match error {
        LogError::Io { source, .. } if source.kind() == std::io::ErrorKind::InvalidData => {
            LogError::NotAStore(source.to_string())
        }
        other => other,
    })
}

fn initialize(db: &Database, store_id: [u8; 16], keys: KeysName) -> Result<(), LogError> {
    let doing = "create the store";
    let mut txn = db.begin_write().map_err(engine(doing))?;
    txn.set_quick_repair(true);
    {
        let mut meta = txn.open_table(META).map_err(engine(doing))?;
        meta.insert(FORMAT, &*format()).map_err(engine(doing))?;
        meta.insert(KEYS, &keys[..]).map_err(engine(doing))?;
        meta.insert(STORE_ID, &store_id[..]).map_err(engine(doing))?;
        meta.insert(RELEASE, env!("CARGO_PKG_VERSION").as_bytes()).map_err(engine(doing))?;
        meta.insert(APPLIED, &0u64.to_le_bytes()[..]).map_err(engine(doing))?;
        for table in [FRAMES, BODIES, ROWS, OPEN, SEGMENTS] {
            txn.open_table(table).map_err(engine(doing))?;
        }
        txn.open_table(DOCUMENTS).map_err(engine(doing))?;
        txn.open_table(INDEX_SEGMENTS).map_err(engine(doing))?;
        txn.open_table(CHUNKS).map_err(engine(doing))?;
        txn.open_table(FENCES).map_err(engine(doing))?;
    }
    txn.commit().map_err(engine(doing))
}

fn format() -> Vec<u8> {
    [FORMAT_MAJOR, FORMAT_MINOR].into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Gives keys to a store of format 1. The bodies it has stay as they are; new ones are sealed.
fn add_keys(
    disk: Arc<dyn Disk>,
    path: &Path,
    db: &Database,
    fresh: &FreshKeys,
    home: &HomeKey,
) -> Result<Keys, LogError> {
    let doing = "add keys to the store";
    let keys = Keys::create(disk, path, fresh, home)?;
    let mut txn = db.begin_write().map_err(engine(doing))?;
    txn.set_quick_repair(true);
    {
        let mut meta = txn.open_table(META).map_err(engine(doing))?;
        meta.insert(FORMAT, &*format()).map_err(engine(doing))?;
        meta.insert(KEYS, &keys.name()[..]).map_err(engine(doing))?;
        meta.insert(RELEASE, env!("CARGO_PKG_VERSION").as_bytes()).map_err(engine(doing))?;
    }
    txn.commit().map_err(engine(doing))?;
    Ok(keys)
}

fn publish_file(disk: &Arc<dyn Disk>, temporary: &Path, path: &Path) -> Result<(), LogError> {
    disk.rename(temporary, path).map_err(LogError::io("create the store"))?;
    let parent = path.parent().unwrap_or(Path::new("."));
    disk.sync_dir(parent).map_err(LogError::io("create the store"))
}

fn assemble(
    disk: Arc<dyn Disk>,
    path: &Path,
    options: Options,
    db: Database,
    fresh: &FreshKeys,
) -> Result<Store, LogError> {
    let txn = db.begin_read().map_err(engine("open the store"))?;
    let meta = Meta::read(&txn)?;
    reconcile(&*disk, &options.archive_dir, &txn)?;
    let (head, mark) = find_head(&txn, &meta)?;
    let mut indexes = <[Index; 3]>::default();
    for which in KeyIndex::ALL {
        indexes[which.slot()] = Index::load(&txn, which)?;
    }
    drop(txn);
    let keys = Arc::new(match meta.keys {
        Some(name) => {
            let (disk, home) = (Arc::clone(&disk), &options.home_key);
            Keys::read(disk, path, name, home, options.only_looks)?
        }
        None if options.only_looks => {
            Keys::in_memory(Arc::clone(&disk), path, fresh, &options.home_key)?
        }
        None => add_keys(Arc::clone(&disk), path, &db, fresh, &options.home_key)?,
    });
    let may_renew = !options.only_looks && !options.keys_are_shared;
    if may_renew && keys.renew_after(head.0, fresh)? {
        let keys = keys.path().display().to_string();
        tracing::warn!(
            keys,
            "the log is older than its keys: they were destroyed for records that this log does not have, so \
             new records get new keys"
        );
    }
    let published = Published {
        head,
        applied: meta.applied,
        mark,
        tiers: [0, 1, 2].map(|slot| indexes[slot].live.clone()),
    };
    let shared = SharedStore {
        db: RwLock::new(Some(db)),
        published: RwLock::new(Arc::new(published)),
        poisoned: AtomicBool::new(false),
        checkpoints: AtomicU64::new(0),
        frames: FrameCache::default(),
        unpackers: Mutex::default(),
        segment: Mutex::new(None),
        archive_dir: options.archive_dir.clone(),
        keys: Arc::clone(&keys),
        store_id: meta.store_id,
        disk,
        path: path.to_path_buf(),
    };
    let packing = Packing::new(&options, &keys, head)?;
    Ok(Store { shared: Arc::new(shared), packing, options, indexes })
}

/// The small facts of the store.
struct Meta {
    store_id: [u8; 16],
    /// The name of the keys; none in a store of format 1.
    keys: Option<KeysName>,
    applied: Seq,
    /// Position and mark at the last checkpoint or empty commit.
    mark: (Seq, Vec<u8>),
}

impl Meta {
    fn read(txn: &ReadTransaction) -> Result<Meta, LogError> {
        let table = match txn.open_table(META) {
            Err(redb::TableError::TableDoesNotExist(_)) => {
                return Err(LogError::NotAStore("its format is not recorded".into()));
            }
            other => other.map_err(engine("read the format"))?,
        };
        let get = |key: &str, len: usize| -> Result<Option<Vec<u8>>, LogError> {
            let stored = table.get(key).map_err(engine("read the format"))?;
            match stored.map(|value| value.value().to_vec()) {
                Some(value) if value.len() < len => {
                    Err(LogError::Corrupt(format!("`{key}` is too short")))
                }
                other => Ok(other),
            }
        };
        let need = |key: &str, len: usize| {
            get(key, len)?.ok_or_else(|| LogError::NotAStore(format!("`{key}` is missing")))
        };
        let major = read_u32(&need(FORMAT, 8)?, 0);
        if major > FORMAT_MAJOR {
            let release =
                get(RELEASE, 1)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let release = release.unwrap_or_else(|| "(it does not say which)".to_owned());
            return Err(LogError::Newer { found: major, supported: FORMAT_MAJOR, release });
        }
        let mark = get(MARK, 8)?.map_or((Seq::ZERO, Vec::new()), |stored| {
            (Seq(read_u64(&stored, 0)), stored[8..].to_vec())
        });
        Ok(Meta {
            store_id: array(&need(STORE_ID, 16)?[..16]),
            keys: get(KEYS, 16)?.map(|name| array(&name[..16])),
            applied: Seq(read_u64(&need(APPLIED, 8)?, 0)),
            mark,
        })
    }
}

/// The last record with its hash, and the newest mark.
fn find_head(txn: &ReadTransaction, meta: &Meta) -> Result<((Seq, Digest), Vec<u8>), LogError> {
    let frames = txn.open_table(FRAMES).map_err(engine("find the head"))?;
    let mut head = None;
    let mut mark = None;
    for row in frames.range::<u64>(..).map_err(engine("find the head"))?.rev() {
        let (first, stored) = row.map_err(engine("find the head"))?;
        let (first, stored) = (Seq(first.value()), stored.value());
        if head.is_none() {
            let mut frame = Frame::default();
            Unpacker::new()?.frame(first, stored, &mut frame)?;
            let hash = frame.hashes().last().copied().unwrap_or(frame.previous);
            head = Some((frame.last(), hash));
        }
        if first <= meta.mark.0 {
            break;
        }
        let header = Header::read(first, stored)
            .map_err(|what| LogError::Damaged { seq: first, what: format!("frame: {what}") })?;
        if !header.mark(stored).is_empty() {
            mark = Some(header.mark(stored).to_vec());
            break;
        }
    }
    let head = head.unwrap_or((Seq::ZERO, genesis(meta.store_id)));
    Ok((head, mark.unwrap_or_else(|| meta.mark.1.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::sim::SimDisk;

    #[test]
    fn a_store_of_format_1_gets_keys_and_names_the_release_that_gave_them() {
        let (disk, path): (Arc<dyn Disk>, _) = (Arc::new(SimDisk::new()), Path::new("/log.redb"));
        let open_as = |only_looks| {
            let options = Options { only_looks, ..Options::beside(path) };
            Store::open(Arc::clone(&disk), path, options, [7; 16], &mut |_| {})
        };
        let open = || open_as(false);
        let stamp = |major: u32, release: Option<&str>| {
            let file = disk.open(path, Open::ReadWrite).unwrap();
            let db = open_engine(file, &Options::beside(path)).unwrap();
            let txn = db.begin_write().unwrap();
            let mut meta = txn.open_table(META).unwrap();
            let format: Vec<u8> = [major, 0].into_iter().flat_map(u32::to_le_bytes).collect();
            meta.insert(FORMAT, &*format).unwrap();
            if let Some(release) = release {
                meta.insert(RELEASE, release.as_bytes()).unwrap();
                meta.remove(KEYS).unwrap();
            }
            drop(meta);
            txn.commit().unwrap();
        };
        let store = open().unwrap();
        let keys = store.keys_file();
        store.close().unwrap();
        stamp(1, Some("0.0.1"));
        disk.remove_file(&keys).unwrap();
        open_as(true).unwrap().close().unwrap();
        assert!(disk.stat(&keys).unwrap().is_none(), "a look gave it keys");
        open().unwrap().close().unwrap();
        assert!(disk.stat(&keys).unwrap().is_some());
        stamp(9, None);
        let Err(LogError::Newer { release, .. }) = open() else { panic!("it opens") };
        assert_eq!(release, env!("CARGO_PKG_VERSION"));
    }
}
