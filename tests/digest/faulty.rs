//! Builds over a disk that does something else than it is told, and what they leave.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use summarizer::digest::build::BuildError;
use summarizer::os::real::HostDisk;
use summarizer::os::{Disk, DiskFile, Open, Stat};

use crate::publishing::small_world;
use crate::world::{World, made};

/// The host's disk with a fault: bytes that change while they are written, or names that cannot be
/// exchanged.
pub struct Faulty {
    pub inner: HostDisk,
    /// Files whose path has this part are written as this makes of them, or not at all.
    pub changes: Option<Change>,
    pub can_swap: bool,
    pub fails_rename_of: Option<&'static str>,
    /// The disk is full when a file is made whose path has this part.
    pub is_full_at: Option<&'static str>,
}

impl Faulty {
    pub fn sound() -> Faulty {
        Faulty {
            inner: HostDisk,
            changes: None,
            can_swap: true,
            fails_rename_of: None,
            is_full_at: None,
        }
    }
}

/// The written bytes of a file; `None` when the file is lost.
pub type Change = (&'static str, fn(Vec<u8>) -> Option<Vec<u8>>);

struct Changing(Arc<dyn DiskFile>, PathBuf, fn(Vec<u8>) -> Option<Vec<u8>>);

impl DiskFile for Changing {
    fn stat(&self) -> io::Result<Stat> {
        self.0.stat()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        match self.2(data.to_vec()) {
            Some(data) => self.0.write_all_at(&data, offset),
            None => HostDisk.remove_file(&self.1),
        }
    }
    fn append(&self, data: &[u8]) -> io::Result<()> {
        self.0.append(data)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }
    fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }
    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

impl Disk for Faulty {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let name = path.to_string_lossy();
        let is_new = matches!(how, Open::CreateNew(_));
        if is_new && self.is_full_at.is_some_and(|part| name.contains(part)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = self.inner.open(path, how)?;
        Ok(match self.changes {
            Some((part, change))
                if name.contains(part) && !matches!(how, Open::Read | Open::ReadInPlace) =>
            {
                Arc::new(Changing(file, path.to_owned(), change))
            }
            _ => file,
        })
    }
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.inner.stat(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let part = self.fails_rename_of;
        if part.is_some_and(|part| to.to_string_lossy().contains(part)) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.inner.rename(from, to)
    }
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        match self.can_swap || !a.to_string_lossy().contains("index") {
            true => self.inner.exchange(a, b),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }
    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.inner.hard_link(existing, new)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.remove_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_bytes(path)
    }
}

/// A build on a faulty disk, over what a sound one had published.
pub fn failing(fault: Faulty) -> (tempfile::TempDir, World, BTreeMap<String, Vec<u8>>, BuildError) {
    let (home, mut world) = small_world();
    world.build().unwrap();
    let before = world.tree();
    world.produce(&[made("late", "2026-02-10T10:00:00Z", &["automation"], "site")]);
    let sound = std::mem::replace(&mut world.disk, Arc::new(fault));
    let error = world.build().unwrap_err();
    world.disk = sound;
    (home, world, before, error)
}

pub fn record_of(world: &World) -> Value {
    world.json(&format!("artifacts/run_records/run_build_{}.run_record.json", world.builds))
}

pub fn without_records(mut tree: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    tree.retain(|path, _| !path.starts_with("artifacts/"));
    tree
}
