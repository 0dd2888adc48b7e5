//! The host: its wall clock and its file system.
#![allow(clippy::disallowed_methods, reason = "this is the one place that touches the machine")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::{Clock, Disk, DiskFile, Open, Stat};
use crate::contract::time::{Timestamp, parse_instant};

/// Files or directories that are synced one by one; more are synced with their file system.
const SYNCED_ONE_BY_ONE: usize = 64;

/// The number of `/dev/null` on Linux.
const NULL_DEVICE: u64 = 1 << 8 | 3;

/// The wall clock of the host.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still: for hermetic tests of the command line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedClock(pub Timestamp);

/// A clock that was set to a moment and runs from there.
pub(crate) struct SetClock {
    to: Timestamp,
    since: std::time::Instant,
}

impl SetClock {
    /// Set to this moment, now.
    pub(crate) fn at(to: Timestamp) -> SetClock {
        SetClock { to, since: std::time::Instant::now() }
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        let gone = i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.to.0.saturating_add(gone))
    }
}

/// A clock that reads its time from a file: a test rewrites the file to move the time.
pub(crate) struct ToldClock(pub PathBuf);

impl Clock for ToldClock {
    fn now(&self) -> Timestamp {
        let told = fs::read_to_string(&self.0).unwrap_or_default();
        parse_instant(told.trim()).map_or(Timestamp(0), |instant| instant.at)
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// The file system of the host.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostDisk;

struct HostFile(File);

fn stat_of(meta: &fs::Metadata) -> Stat {
    Stat {
        len: meta.len(),
        device: meta.dev(),
        inode: meta.ino(),
        modified_ns: i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
        is_dir: meta.is_dir(),
    }
}

/// The file, unless it is a pipe, a device or a socket: those may block, and they may never end. The
/// empty device is a usual way to name an empty file.
fn only_data(file: File) -> io::Result<File> {
    let meta = file.metadata()?;
    let is_null = meta.file_type().is_char_device() && meta.rdev() == NULL_DEVICE;
    match meta.is_file() || meta.is_dir() || is_null {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Opens a path that has no links on it.
fn open_in_place(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(file) => Ok(file.into()),
        // Kernels before 5.6 and some sandboxes do not have the call.
        Err(Errno::NOSYS | Errno::PERM) => open_step_by_step(path, flags),
        Err(error) => Err(error.into()),
    }
}

/// The same with one call for each folder on the path: none of them may be a link.
fn open_step_by_step(path: &Path, flags: OFlags) -> io::Result<File> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let start = if path.is_absolute() { "/" } else { "." };
    let mut at = openat(CWD, start, folder, Mode::empty())?;
    let is_step =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let mut steps = path.components().filter(is_step).peekable();
    while let Some(step) = steps.next() {
        let how = if steps.peek().is_some() { folder } else { flags | OFlags::NOFOLLOW };
        at = openat(&at, step.as_os_str(), how, Mode::empty())?;
    }
    Ok(at.into())
}

/// What the kernel says of a link that it was not to follow, in words that help.
fn named_link(error: io::Error) -> io::Error {
    match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        true => {
            io::Error::new(io::ErrorKind::InvalidInput, "it is a link, and links are not followed")
        }
        false => error,
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl DiskFile for HostFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(stat_of(&self.0.metadata()?))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        (&self.0).write_all(data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

/// Appends through its own O_APPEND descriptor, so that other writers are never overwritten.
struct AppendFile {
    positioned: File,
    appending: File,
}

impl DiskFile for AppendFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(stat_of(&self.positioned.metadata()?))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.positioned.read_at(buffer, offset)
    }

    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.positioned.write_all_at(data, offset)
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        (&self.appending).write_all(data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.positioned.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.positioned.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.positioned.try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn lock(&self) -> io::Result<()> {
        self.positioned.lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.positioned.unlock()
    }
}

impl Disk for HostDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        match how {
            Open::Read => {
                // Without waiting for a writer, where the path is a pipe.
                let flags = OFlags::NONBLOCK.bits().cast_signed();
                let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
                Ok(Arc::new(HostFile(only_data(file)?)))
            }
            Open::ReadInPlace => Ok(Arc::new(HostFile(only_data(open_in_place(path)?)?))),
            Open::ReadWrite => {
                // What is written must not be a file elsewhere.
                let flags = OFlags::NOFOLLOW.bits().cast_signed();
                let positioned = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o640)
                    .custom_flags(flags)
                    .open(path)
                    .map_err(named_link)?;
                let positioned = only_data(positioned)?;
                let appending = OpenOptions::new()
                    .append(true)
                    .custom_flags(flags)
                    .open(path)
                    .map_err(named_link)?;
                Ok(Arc::new(AppendFile { positioned, appending }))
            }
            Open::CreateNew(mode) => {
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .mode(mode)
                    .open(path)?;
                Ok(Arc::new(HostFile(file)))
            }
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        match fs::metadata(path) {
            Ok(meta) => Ok(Some(stat_of(&meta))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        let mut cursor = Some(dir);
        while let Some(path) = cursor {
            if path.as_os_str().is_empty() || path.is_dir() {
                break;
            }
            missing.push(path);
            cursor = path.parent();
        }
        for path in missing.into_iter().rev() {
            match fs::DirBuilder::new().mode(0o750).create(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other?,
            }
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            self.sync_dir(parent.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[cfg(target_os = "linux")]
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).map_err(|error| match error {
            rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS => {
                io::Error::new(io::ErrorKind::Unsupported, "this file system cannot swap two names")
            }
            other => other.into(),
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn exchange(&self, _a: &Path, _b: &Path) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system cannot swap two names"))
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        fs::hard_link(existing, new)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        absent_is_fine(fs::remove_file(path))
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        absent_is_fine(fs::remove_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        File::open(dir)?.sync_all()
    }

    /// One call for the whole file system where there are many directories.
    #[cfg(target_os = "linux")]
    fn sync_dirs(&self, dirs: &[PathBuf]) -> io::Result<()> {
        match dirs {
            [first, ..] if dirs.len() > SYNCED_ONE_BY_ONE => {
                Ok(rustix::fs::syncfs(File::open(first)?)?)
            }
            dirs => dirs.iter().try_for_each(|dir| self.sync_dir(dir)),
        }
    }

    fn make_dirs(&self, dir: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o750).create(dir)
    }

    /// One call for the whole file system where there are many files: what others wrote is synced
    /// too, and that is still cheaper than waiting for each file.
    #[cfg(target_os = "linux")]
    fn sync_tree(&self, dir: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        let mut folders = vec![dir.to_owned()];
        let mut next = 0;
        while let Some(folder) = folders.get(next).cloned() {
            next += 1;
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                match entry.file_type()?.is_dir() {
                    true => folders.push(entry.path()),
                    false => files.push(entry.path()),
                }
            }
            if files.len() > SYNCED_ONE_BY_ONE {
                return Ok(rustix::fs::syncfs(File::open(dir)?)?);
            }
        }
        for file in files {
            File::open(file)?.sync_data()?;
        }
        folders.iter().rev().try_for_each(|folder| self.sync_dir(folder))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::InPlace;

    #[test]
    fn replace_is_whole_and_leaves_no_temporary() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let path = dir.path().join("a.json");
        disk.replace(&path, b"one", 0o640).unwrap();
        disk.replace(&path, b"two", 0o640).unwrap();
        assert_eq!(disk.read(&path).unwrap(), b"two");
        assert_eq!(disk.list(dir.path()).unwrap(), ["a.json"]);
        let mode = fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode & 0o137, 0, "nobody else may write or execute: {mode:o}");
    }

    #[test]
    fn only_files_are_read_and_a_pipe_does_not_wait() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let error = disk.read(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
            assert!(disk.open(path, Open::ReadInPlace).is_err());
        }
        assert!(disk.open(&pipe, Open::ReadWrite).is_err());
        assert_eq!(disk.read(Path::new("/dev/null")).unwrap(), b"");
    }

    #[test]
    fn a_path_that_became_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        fs::create_dir(dir.path().join("real")).unwrap();
        fs::write(dir.path().join("real/a.txt"), "words").unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let there = root.join("real/../real/a.txt");
        assert!(disk.open(&there, Open::ReadInPlace).is_ok());
        assert!(open_step_by_step(&there, OFlags::RDONLY).is_ok());
        std::os::unix::fs::symlink("real", dir.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("real/a.txt", dir.path().join("file")).unwrap();
        for linked in ["folder/a.txt", "file"] {
            assert_eq!(disk.read(&root.join(linked)).unwrap(), b"words");
            assert!(disk.open(&root.join(linked), Open::ReadInPlace).is_err(), "{linked}");
            // As a kernel without `openat2` opens it.
            assert!(open_step_by_step(&root.join(linked), OFlags::RDONLY).is_err(), "{linked}");
        }
    }

    #[test]
    fn a_link_within_a_folder_is_followed_and_one_out_of_it_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a"), "words").unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        for (name, to) in [("near", "a"), ("far", "../secret"), ("up", "..")] {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        }
        let read = |name: &str| disk.read_beneath(&folder, &folder.join(name));
        for name in ["a", "near", "up/folder/a"] {
            assert_eq!(read(name).unwrap().unwrap(), b"words", "{name}");
        }
        assert!(read("none").unwrap().is_none());
        for name in ["far", "up/secret", "../secret", "/etc/hostname"] {
            assert_eq!(read(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        let beneath = InPlace(disk, Some(&folder));
        assert!(beneath.open(&folder.join("near"), Open::Read).is_ok());
        assert!(beneath.open(&folder.join("far"), Open::Read).is_err());
        assert!(beneath.open(&dir.path().join("secret"), Open::Read).is_ok(), "it lies elsewhere");
    }

    #[test]
    fn leftovers_are_swept_and_absent_things_are_fine() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        fs::write(dir.path().join(".a.json.tmp"), "half").unwrap();
        disk.sweep_temporaries(dir.path()).unwrap();
        assert!(disk.list(dir.path()).unwrap().is_empty());
        let nowhere = dir.path().join("nowhere");
        disk.sweep_temporaries(&nowhere).unwrap();
        disk.remove_file(&nowhere).unwrap();
        disk.remove_dir_all(&nowhere).unwrap();
        assert_eq!(disk.stat(&nowhere).unwrap(), None);
        assert_eq!(disk.read_if_present(&nowhere).unwrap(), None);
    }

    #[test]
    fn exchange_swaps_directories() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let disk: &dyn Disk = &HostDisk;
        disk.create_dir_all(&a).unwrap();
        disk.create_dir_all(&b).unwrap();
        disk.replace(&a.join("in_a"), b"", 0o640).unwrap();
        match disk.exchange(&a, &b) {
            Ok(()) => assert_eq!(disk.list(&b).unwrap(), ["in_a"]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
        }
    }

    #[test]
    fn the_lock_is_exclusive_between_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = HostDisk.open(&path, Open::ReadWrite).unwrap();
        let second = HostDisk.open(&path, Open::ReadWrite).unwrap();
        assert!(first.try_lock().unwrap());
        assert!(!second.try_lock().unwrap());
        first.unlock().unwrap();
        assert!(second.try_lock().unwrap());
    }
}
