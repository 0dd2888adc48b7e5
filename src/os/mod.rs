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
/// path was checked. Or, below a folder, one on which no link leads out of it.
pub(crate) struct InPlace<'d>(pub &'d dyn Disk, pub Option<&'d Path>);

impl Disk for InPlace<'_> {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        match (how, self.1) {
            (Open::Read, None) => self.0.open(path, Open::ReadInPlace),
            (Open::Read, Some(folder)) if path.starts_with(folder) => {
                self.0.open_beneath(folder, path)
            }
            _ => self.0.open(path, how),
        }
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
        read_up_to(self.open(path, Open::Read)?.as_ref(), u64::MAX)
    }

    /// The whole content of a file, or `None` when it is absent.
    pub fn read_if_present(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        if_present(self.read(path))
    }

    /// Where a path in a folder leads once every link is followed; an error when that is out of the folder. What is then
    /// opened in place has not become a link meanwhile.
    pub(crate) fn within(&self, folder: &Path, path: &Path) -> io::Result<PathBuf> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let real = self.real_path(path)?;
        match real.starts_with(self.real_path(folder)?) {
            true => Ok(real),
            false => {
                let why = "a link leads out of the folder";
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
        }
    }

    /// Whether a path is a link, or leads nowhere.
    pub(crate) fn is_link(&self, path: &Path) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return true };
        let meant = self.real_path(parent).map(|parent| parent.join(name));
        !matches!((meant, self.real_path(path)), (Ok(meant), Ok(real)) if meant == real)
    }

    /// Opens a file to read it, by a path in a folder of which no link leads out.
    pub(crate) fn open_beneath(&self, folder: &Path, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(&self.within(folder, path)?, Open::ReadInPlace)
    }

    /// The whole content of such a file, or `None` when it is absent.
    pub(crate) fn read_beneath(&self, folder: &Path, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = self.open_beneath(folder, path);
        if_present(file.and_then(|file| read_up_to(file.as_ref(), u64::MAX)))
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

/// Reads a file, and at most one piece more than so many bytes: then the caller sees that it is larger. The disk may say
/// something else about its length, and it may grow meanwhile.
pub(crate) fn read_up_to(file: &dyn DiskFile, limit: u64) -> io::Result<Vec<u8>> {
    let expected = usize::try_from(file.stat()?.len.min(limit)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(expected.min(1 << 30));
    let mut buffer = vec![0; 1 << 16];
    while bytes.len() as u64 <= limit {
        let count = file.read_at(&mut buffer, bytes.len() as u64)?;
        if count == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..count]);
    }
    Ok(bytes)
}

/// Whether a path is at fault, and not the disk.
pub(crate) fn can_never_be_read(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, IsADirectory, NotADirectory};
    let is_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    let of_path =
        matches!(error.kind(), InvalidFilename | InvalidInput | IsADirectory | NotADirectory);
    is_loop || of_path
}

fn if_present(read: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
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
