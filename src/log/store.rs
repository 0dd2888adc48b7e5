//! The store: one writer, many readers, one file.
//!
//! Contract: `append` makes a commit durable as a whole or poisons the store; readers see whole
//! commits only. The store never interprets a payload, a row, a document or a mark. Nothing of the
//! engine underneath shows in this interface.

mod archiving;
mod backend;
mod cache;
mod checked_pages;
mod failure;
mod gather;
mod lookup;
mod opening;
mod packing;
mod reader;
#[cfg(feature = "cluster")]
mod shipping;
mod stats;
mod tables;
mod tiers;
mod verifying;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use redb::{Database, ReadTransaction, ReadableDatabase as _};

use crate::contract::hash::Digest;
use crate::contract::ids::{KeyIndex, Seq};
use crate::limits;
use crate::os::Disk;

use super::error::LogError;
use super::frame::{NewRecord, Unpacker};
use super::index_segment::Tier;
use super::keys::{HomeKey, Keys};
use super::segment::Segment;

pub use cache::Cache;
pub(crate) use gather::Gathered;
pub(crate) use gather::HELD_BYTES;
pub(crate) use lookup::Lookup;
pub use packing::Packed;
pub(crate) use packing::Packing;
pub use reader::Reader;
#[cfg(feature = "cluster")]
pub(crate) use shipping::Shipment;
pub use verifying::ChainReport;

use failure::{engine, guarded};
use reader::FrameCache;
use tiers::Index;

/// Newest format this program writes. A file with a newer major version is refused.
pub(crate) const FORMAT_MAJOR: u32 = 2;
/// Additive changes within the major version.
pub(crate) const FORMAT_MINOR: u32 = 0;

impl KeyIndex {
    /// Its place in arrays of one entry an index.
    fn slot(self) -> usize {
        self as usize - 1
    }
}

/// Sorted digests with their values.
pub(crate) type Digests = Vec<([u8; 16], u64)>;

/// What is brought into the tables at a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Rows to write, by sequence.
    pub rows: Vec<(Seq, Vec<u8>)>,
    /// Records of what is open: written, or removed with `None`, by sequence.
    pub open: Vec<(Seq, Option<Vec<u8>>)>,
    /// Keys by index, sorted by digest; of several values the last counts; 0 releases the key.
    pub keys: Vec<(KeyIndex, Digests)>,
    /// Named documents: written, or removed with `None`.
    pub documents: Vec<(String, Option<Vec<u8>>)>,
    /// The position all of this stands for.
    pub applied: Seq,
}

/// One durable step of the log.
#[derive(Debug, Clone)]
pub struct Commit<'a> {
    /// The position the first record must get; with no records, the next free one.
    pub first: Seq,
    pub records: &'a [NewRecord],
    /// Where the input stands after this commit; empty when unchanged.
    pub mark: &'a [u8],
    /// A checkpoint that becomes durable with the records.
    pub checkpoint: Option<Checkpoint>,
}

/// What a commit got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Hash of each record.
    pub hashes: Vec<Digest>,
    /// The last record and its hash; the genesis hash in an empty log.
    pub head: (Seq, Digest),
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Memory for pages.
    pub cache_bytes: usize,
    /// zstd level of frames and bodies.
    pub compression_level: i32,
    /// Payload bytes after which a frame is closed.
    pub frame_bytes: usize,
    /// Save what recovery needs with every commit: one more sync a commit, and after a kill a store of
    /// any size opens immediately. Without it recovery reads the whole file.
    pub quick_repair: bool,
    /// Where archived segments lie.
    pub archive_dir: PathBuf,
    /// What the file of the keys is sealed with.
    pub home_key: HomeKey,
    /// Somebody only looks: the keys and the format stay as they are.
    pub only_looks: bool,
    /// Other hosts have the same keys, so this one makes none anew.
    pub keys_are_shared: bool,
    /// Whether new bodies are sealed. A bench measures what that costs; every home seals them.
    #[cfg(any(test, feature = "internals"))]
    pub seals_bodies: bool,
}

impl Options {
    /// The defaults, with the archive in `archive` beside the store.
    pub fn beside(path: &Path) -> Options {
        Options {
            cache_bytes: limits::STORE_CACHE_BYTES,
            compression_level: 1,
            frame_bytes: limits::FRAME_BYTES,
            quick_repair: true,
            archive_dir: path.with_file_name("archive"),
            home_key: HomeKey::default(),
            only_looks: false,
            keys_are_shared: false,
            #[cfg(any(test, feature = "internals"))]
            seals_bodies: true,
        }
    }
}

/// What readers see: replaced as a whole after each commit.
#[derive(Clone)]
struct Published {
    head: (Seq, Digest),
    applied: Seq,
    mark: Vec<u8>,
    tiers: [Tier; 3],
}

/// What the writer and its readers share.
struct SharedStore {
    db: RwLock<Option<Database>>,
    published: RwLock<Arc<Published>>,
    poisoned: AtomicBool,
    /// Odd while a checkpoint may be committed and is not yet published.
    checkpoints: AtomicU64,
    frames: FrameCache,
    /// Set up and idle: setting one up costs as much as a small frame.
    unpackers: Mutex<Vec<Unpacker>>,
    /// The segment read last.
    segment: Mutex<Option<Arc<Segment>>>,
    archive_dir: PathBuf,
    keys: Arc<Keys>,
    store_id: [u8; 16],
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl SharedStore {
    fn published(&self) -> Arc<Published> {
        self.published.read().clone()
    }

    /// Runs `work` with an unpacker of the pool.
    fn unpacking<T>(
        &self,
        work: impl FnOnce(&mut Unpacker) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let idle = self.unpackers.lock().pop();
        let mut unpacker = match idle {
            Some(unpacker) => unpacker,
            None => Unpacker::new()?,
        };
        let done = work(&mut unpacker);
        self.unpackers.lock().push(unpacker);
        done
    }

    fn usable(&self) -> Result<(), LogError> {
        if self.poisoned.load(Ordering::Acquire) { Err(LogError::Poisoned) } else { Ok(()) }
    }

    fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
    }

    fn with_db<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        self.usable()?;
        self.db.read().as_ref().map_or(Err(LogError::Closed), work)
    }

    fn begin_read(&self) -> Result<ReadTransaction, LogError> {
        self.with_db(|db| db.begin_read().map_err(engine("begin to read")))
    }
}

/// The log, open for writing.
pub struct Store {
    shared: Arc<SharedStore>,
    packing: Packing,
    options: Options,
    indexes: [Index; 3],
}

impl Store {
    /// A reader of committed data, for any thread.
    pub fn reader(&self) -> Reader {
        Reader::new(self.shared.clone())
    }

    /// The bytes the hash chain starts from.
    #[cfg(any(test, feature = "internals"))]
    pub fn store_id(&self) -> [u8; 16] {
        self.shared.store_id
    }

    /// The file with the keys of its bodies, without which no body can be read.
    pub(crate) fn keys_file(&self) -> PathBuf {
        self.shared.keys.path().to_owned()
    }

    #[cfg(test)]
    pub(crate) fn shared_keys(&self) -> &Keys {
        &self.shared.keys
    }

    /// The last record and its hash.
    pub fn head(&self) -> (Seq, Digest) {
        self.shared.published().head
    }

    /// The position the tables stand for.
    pub fn applied(&self) -> Seq {
        self.shared.published().applied
    }

    /// Packs commits that continue the log from here, for another thread.
    pub(crate) fn packing(&self) -> Result<Packing, LogError> {
        Packing::new(&self.options, &self.shared.keys, self.head())
    }

    /// Closes the store in order, so that the next open has nothing to recover.
    pub fn close(self) -> Result<(), LogError> {
        let db = self.shared.db.write().take();
        match db {
            Some(db) if !self.shared.poisoned.load(Ordering::Acquire) => {
                // It puts freed pages in order once more, and so meets damage that no read found.
                let doing = "close the store";
                guarded(doing, || db.close().map_err(engine(doing)))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Readers may outlive the store; the file must not stay locked because of them.
        let db = self.shared.db.write().take();
        // A caller that needs the outcome of closing has called `close`.
        let _ = guarded("close the store", || {
            drop(db);
            Ok(())
        });
        self.shared.frames.clear();
    }
}
