//! The only door to the machine: a clock and a disk behind two small traits.
//!
//! Contract: nothing else in the crate reads the wall clock or writes a file. A write is durable
//! when `sync` returned for the file and `sync_dir` for each directory whose entries changed;
//! `replace` does all of that in the right order. A failed `sync` is never retried on the same
//! file: the kernel may already have dropped the dirty pages, so the caller must treat the bytes
//! as unknown and start over.
//!
//! `real` is the host; `sim` is a machine that can lose power, tear writes and run out of space.

pub mod dir;
pub(crate) mod framed;
pub mod jail;
pub(crate) mod memory;
pub mod notify;
pub(crate) mod parent;
mod pipes;
pub mod process;
pub mod real;
pub(crate) mod rights;
pub mod signals;
#[cfg(any(test, feature = "internals"))]
pub mod sim;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::contract::time::Timestamp;

pub trait Clock: Send + Sync {
    /// The wall clock, UTC. It may step back.
    fn now(&self) -> Timestamp;
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Read an existing file. What is neither a file nor a directory is an error: it might never end.
    Read,
    /// As `Read`, and a link anywhere on the path is an error. A path that was checked before still leads
    /// to the same place.
    ReadInPlace,
    /// Read and write an existing file, or create it with mode 0640.
    ReadWrite,
    /// Create a new file with this mode for writing; fails when it exists.
    CreateNew(u32),
}

/// What the disk knows about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub len: u64,
    pub device: u64,
    pub inode: u64,
    /// Modification time in nanoseconds since the epoch: a cache key, never a fact.
    pub(crate) modified_ns: i128,
    /// True for a directory.
    pub is_dir: bool,
}

/// What a file looked like at a moment: enough to notice that it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    pub(crate) len: u64,
    pub(crate) inode: u64,
    pub(crate) modified_ns: i128,
}

impl From<Stat> for FileVersion {
    fn from(stat: Stat) -> FileVersion {
        FileVersion { len: stat.len, inode: stat.inode, modified_ns: stat.modified_ns }
    }
}

/// An open file. All positions are explicit; there is no cursor.
pub trait DiskFile: Send + Sync {
    /// Facts about the open file.
    fn stat(&self) -> io::Result<Stat>;
    /// Reads up to `buffer.len()` bytes at `offset`; 0 means end of file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `data` at `offset`.
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// Appends all of `data` with one write call where the system allows it.
    fn append(&self, data: &[u8]) -> io::Result<()>;
    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the data durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
    /// Tries to take the advisory exclusive lock; false when somebody else holds it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Waits for the advisory exclusive lock.
    fn lock(&self) -> io::Result<()>;
    /// Gives the advisory lock back.
    fn unlock(&self) -> io::Result<()>;
}

pub trait Disk: Send + Sync {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// Facts about a path, following links; `None` when nothing is there.
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>>;
    /// Where a path leads once every link is followed; an error when nothing is there. A disk
    /// without links answers with the path itself.
    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        match self.stat(path)? {
            Some(_) => Ok(path.to_path_buf()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
    /// File names in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a directory and its parents, durably.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Renames within one file system, replacing the target. Not durable before `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Swaps two paths in one step; `Unsupported` where the file system cannot.
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()>;
    /// Removes a file; fine when absent.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory tree; fine when absent.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the entries of some directories of one tree durable.
    fn sync_dirs(&self, dirs: &[PathBuf]) -> io::Result<()> {
        dirs.iter().try_for_each(|dir| self.sync_dir(dir))
    }
    /// Creates a directory and its parents, to be made durable by `sync_tree`.
    fn make_dirs(&self, dir: &Path) -> io::Result<()> {
        self.create_dir_all(dir)
    }
    /// Makes everything below a directory durable, the directory itself included.
    fn sync_tree(&self, dir: &Path) -> io::Result<()> {
        for name in self.list(dir)? {
            let path = dir.join(name);
            match self.stat(&path)? {
                Some(stat) if stat.is_dir => self.sync_tree(&path)?,
                Some(_) => self.open(&path, Open::Read)?.sync()?,
                None => {}
            }
        }
        self.sync_dir(dir)
    }
    /// Bytes an unprivileged writer can still use on the file system of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// A disk whose files are opened in place: a link anywhere on a path is an error, also one that appeared after the
/// path was checked.
pub(crate) struct InPlace<'d>(pub &'d dyn Disk);

impl Disk for InPlace<'_> {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let how = if how == Open::Read { Open::ReadInPlace } else { how };
        self.0.open(path, how)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.0.stat(path)
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.real_path(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.0.exchange(a, b)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.0.hard_link(existing, new)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.free_bytes(path)
    }
}

/// What every disk can do with the operations above.
impl dyn Disk + '_ {
    /// The whole content of a file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read_opened(path, Open::Read)
    }

    /// The same of a path without links.
    pub(crate) fn read_in_place(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read_opened(path, Open::ReadInPlace)
    }

    fn read_opened(&self, path: &Path, how: Open) -> io::Result<Vec<u8>> {
        let file = self.open(path, how)?;
        let len = file.stat()?.len;
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0).min(1 << 30));
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = file.read_at(&mut buffer, bytes.len() as u64)?;
            if count == 0 {
                return Ok(bytes);
            }
            bytes.extend_from_slice(&buffer[..count]);
        }
    }

    /// The whole content of a file, or `None` when it is absent.
    pub fn read_if_present(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces a file as a whole and durably: temporary name in the same directory, write, sync,
    /// rename, sync the directory. A crash leaves the old content or the new, and perhaps a
    /// temporary file that `sweep_temporaries` removes.
    pub fn replace(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let parent = path.parent().unwrap_or(Path::new("."));
        let temporary = temporary_name(path);
        self.remove_file(&temporary)?;
        let file = self.open(&temporary, Open::CreateNew(mode))?;
        file.write_all_at(bytes, 0)?;
        file.sync()?;
        drop(file);
        self.rename(&temporary, path)?;
        self.sync_dir(parent)
    }

    /// Makes a file of a part of another, a piece at a time, otherwise as `replace` does.
    pub(crate) fn replace_with_part(
        &self,
        path: &Path,
        source: &Path,
        part: Range<u64>,
        mode: u32,
    ) -> io::Result<()> {
        let parent = path.parent().unwrap_or(Path::new("."));
        let temporary = temporary_name(path);
        self.remove_file(&temporary)?;
        let from = self.open(source, Open::Read)?;
        let file = self.open(&temporary, Open::CreateNew(mode))?;
        let mut buffer = vec![0; 1 << 18];
        let mut at = part.start;
        while at < part.end {
            let wanted = buffer.len().min(usize::try_from(part.end - at).unwrap_or(usize::MAX));
            let count = from.read_at(&mut buffer[..wanted], at)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.write_all_at(&buffer[..count], at - part.start)?;
            at += count as u64;
        }
        file.sync()?;
        drop(file);
        self.rename(&temporary, path)?;
        self.sync_dir(parent)
    }

    /// Deletes leftovers of interrupted `replace` calls in one directory. They are never read.
    pub(crate) fn sweep_temporaries(&self, dir: &Path) -> io::Result<()> {
        let names = match self.list(dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for name in names.iter().filter(|name| name.starts_with('.') && name.ends_with(".tmp")) {
            self.remove_file(&dir.join(name))?;
        }
        Ok(())
    }
}

fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.tmp"))
}

/// Time and disk together, as everything above `os/` receives them.
#[derive(Clone)]
pub struct Machine {
    pub clock: Arc<dyn Clock>,
    pub disk: Arc<dyn Disk>,
}

impl Machine {
    pub fn real() -> Machine {
        Machine { clock: Arc::new(real::SystemClock), disk: Arc::new(real::HostDisk) }
    }
}
