//! The test machine: a clock that is set by hand and a disk in memory that can lose power, tear
//! writes, fail and fill up.
//!
//! What the disk promises is what a strict POSIX file system promises and no more:
//!
//! - Bytes written are on the platter after a successful `sync` of the file. Before that each
//!   512-byte sector may or may not be there, in any combination, and the write that was under way
//!   may end in the middle of a sector. A changed length may or may not be there.
//! - A created, linked, renamed or removed name is durable after `sync_dir` of its directory.
//!   Before that each such operation may or may not be there, in any combination, but one rename
//!   or exchange happens as a whole or not at all.
//! - After a failed `sync` the dirty sectors count as clean: reading shows them, a later `sync`
//!   succeeds without writing them, and a power loss may take them.
//!
//! [`SimDisk::crash`] draws one of the many disks a power loss may leave, by seed. Everything is
//! deterministic. Disks are shared by cloning; a crashed disk answers every call with an error.

mod state;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Clock, Disk, DiskFile, Open, Stat};
use crate::contract::time::Timestamp;

use state::State;

/// A clock that moves when told to.
#[derive(Debug, Default)]
pub struct SimClock(AtomicI64);

impl SimClock {
    /// A clock that shows `at`.
    pub fn at(at: Timestamp) -> SimClock {
        SimClock(AtomicI64::new(at.0))
    }

    /// Moves on by some milliseconds; negative steps back.
    pub fn advance_ms(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// Jumps, in either direction.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.0, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// What goes wrong, and when. Operations are counted from 1 since the disk was made or since
/// [`SimDisk::reset_counts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Power fails at this sync (of a file or a directory), before it has any effect.
    pub crash_at_sync: Option<u64>,
    /// Power fails in the middle of this write.
    pub crash_at_write: Option<u64>,
    /// This write fails with EIO after half of its bytes.
    pub fail_write: Option<u64>,
    /// This write stores a wrong bit and succeeds.
    pub flip_write: Option<u64>,
    /// This sync fails with EIO and the dirty sectors count as clean from then on.
    pub fail_sync: Option<u64>,
    /// From this growth of a file on the disk is full.
    pub full_at_growth: Option<u64>,
    /// Bytes all files together may have.
    pub capacity: Option<u64>,
}

/// How often the disk was asked for something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub writes: u64,
    /// Bytes in them.
    pub(crate) written_bytes: u64,
    /// Syncs of files and directories.
    pub syncs: u64,
    /// Writes and length changes that made a file longer.
    pub growths: u64,
}

struct SharedDisk {
    state: Mutex<State>,
    unlocked: Condvar,
    handles: AtomicU64,
}

/// A disk in memory.
#[derive(Clone)]
pub struct SimDisk(Arc<SharedDisk>);

impl Default for SimDisk {
    fn default() -> SimDisk {
        SimDisk::new()
    }
}

impl SimDisk {
    /// An empty disk with a root directory.
    pub fn new() -> SimDisk {
        SimDisk::with(State::new())
    }

    fn with(state: State) -> SimDisk {
        SimDisk(Arc::new(SharedDisk {
            state: Mutex::new(state),
            unlocked: Condvar::new(),
            handles: AtomicU64::new(1),
        }))
    }

    /// Replaces the fault plan; the default has none.
    pub fn set_faults(&self, faults: Faults) {
        self.0.state.lock().faults = faults;
    }

    /// How often the disk was asked for something.
    pub fn counts(&self) -> Counts {
        self.0.state.lock().counts
    }

    /// Starts counting from nothing again.
    pub fn reset_counts(&self) {
        self.0.state.lock().counts = Counts::default();
    }

    /// True after a planned power failure.
    pub fn has_crashed(&self) -> bool {
        self.0.state.lock().crashed
    }

    /// One of the disks that a power loss at this moment may leave, chosen by `seed`: 0 keeps
    /// only what was synced, 1 keeps everything, others keep any part. Without faults,
    /// locks or open files. This disk stays as it is.
    pub fn crash(&self, seed: u64) -> SimDisk {
        SimDisk::with(self.0.state.lock().survivor(seed))
    }

    /// The same content with everything durable: a machine that was shut down in order.
    pub fn reboot(&self) -> SimDisk {
        self.crash(1)
    }

    /// Flips bits of one stored byte, durably: what a failing disk does.
    pub fn corrupt(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        self.0.state.lock().corrupt(path, offset, mask)
    }

    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.0.state.lock();
        state.powered()?;
        Ok(state)
    }

    fn handle(&self, inode: u64, writable: bool) -> Arc<dyn DiskFile> {
        let id = self.0.handles.fetch_add(1, Ordering::Relaxed);
        Arc::new(SimFile { disk: self.clone(), inode, id, writable })
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.state()?.open(path, how)?;
        Ok(self.handle(inode, !matches!(how, Open::Read | Open::ReadInPlace)))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let state = self.state()?;
        state.lookup(path)?.map(|inode| state.stat(inode)).transpose()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.state()?.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.state()?.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state()?.rename(from, to)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.state()?.exchange(a, b)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.state()?.hard_link(existing, new)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.state()?.remove(path, false)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.state()?.remove(dir, true)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.state()?.sync_dir(dir)
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.state()?.free_bytes())
    }
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
    id: u64,
    writable: bool,
}

impl SimFile {
    fn for_writing(&self) -> io::Result<MutexGuard<'_, State>> {
        if self.writable { self.disk.state() } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl DiskFile for SimFile {
    fn stat(&self) -> io::Result<Stat> {
        self.disk.state()?.stat(self.inode)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.state()?.read(self.inode, buffer, offset)
    }

    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.for_writing()?.write(self.inode, data, Some(offset))
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        self.for_writing()?.write(self.inode, data, None)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.for_writing()?.set_len(self.inode, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state()?.sync(self.inode)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.disk.state()?.try_lock(self.inode, self.id)
    }

    fn lock(&self) -> io::Result<()> {
        let mut state = self.disk.state()?;
        while !state.try_lock(self.inode, self.id)? {
            self.disk.0.unlocked.wait(&mut state);
            state.powered()?;
        }
        Ok(())
    }

    fn unlock(&self) -> io::Result<()> {
        self.disk.0.state.lock().unlock(self.inode, self.id);
        self.disk.0.unlocked.notify_all();
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.0.state.lock().unlock(self.inode, self.id);
        self.disk.0.unlocked.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(disk: &SimDisk, path: &str) -> Option<String> {
        let disk: &dyn Disk = disk;
        let bytes = disk.read_if_present(Path::new(path)).unwrap()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn synced_bytes_survive_a_crash_and_others_may_not() {
        let disk = SimDisk::new();
        let file = disk.open(Path::new("a"), Open::ReadWrite).unwrap();
        file.append(b"one").unwrap();
        file.sync().unwrap();
        assert_eq!(text(&disk.crash(0), "a"), None, "its name was not synced");
        disk.sync_dir(Path::new("")).unwrap();
        file.append(b"two").unwrap();
        assert_eq!(text(&disk.crash(0), "a").unwrap(), "one");
        assert_eq!(text(&disk.crash(1), "a").unwrap(), "onetwo");
        let mut seen = std::collections::BTreeSet::new();
        for seed in 2..200 {
            seen.insert(text(&disk.crash(seed), "a").unwrap());
        }
        assert!(seen.contains("one") && seen.contains("onetwo"), "{seen:?}");
        assert!(seen.contains("onetw\0"), "torn inside a sector: {seen:?}");
        assert!(seen.iter().all(|content| content.starts_with("one")), "{seen:?}");
    }

    #[test]
    fn a_replaced_file_is_the_old_one_or_the_new_one() {
        let disk = SimDisk::new();
        let shown: &dyn Disk = &disk;
        shown.replace(Path::new("/d.json"), b"old", 0o640).unwrap();
        disk.reset_counts();
        shown.replace(Path::new("/d.json"), b"newer", 0o640).unwrap();
        let syncs = disk.counts().syncs;
        for at in 1..=syncs {
            let disk = SimDisk::new();
            let shown: &dyn Disk = &disk;
            shown.replace(Path::new("/d.json"), b"old", 0o640).unwrap();
            disk.reset_counts();
            disk.set_faults(Faults { crash_at_sync: Some(at), ..Faults::default() });
            assert!(shown.replace(Path::new("/d.json"), b"newer", 0o640).is_err());
            assert!(disk.has_crashed() && disk.stat(Path::new("/")).is_err());
            for seed in 0..100 {
                let content = text(&disk.crash(seed), "/d.json").unwrap();
                assert!(content == "old" || content == "newer", "{at} {seed}: {content}");
            }
        }
    }

    #[test]
    fn a_failed_sync_is_not_made_good_by_a_second_one() {
        let disk = SimDisk::new();
        let file = disk.open(Path::new("a"), Open::ReadWrite).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        disk.reset_counts();
        disk.set_faults(Faults { fail_sync: Some(1), ..Faults::default() });
        file.append(b"lost").unwrap();
        assert!(file.sync().is_err());
        file.sync().unwrap();
        assert_eq!(text(&disk, "a").unwrap(), "lost");
        assert_eq!(text(&disk.crash(0), "a").unwrap(), "\0\0\0\0");
    }

    #[test]
    fn a_full_disk_says_so_and_can_be_freed() {
        let disk = SimDisk::new();
        disk.set_faults(Faults { capacity: Some(10), ..Faults::default() });
        let file = disk.open(Path::new("a"), Open::ReadWrite).unwrap();
        file.append(b"12345678").unwrap();
        assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 2);
        assert_eq!(file.append(b"901").unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.set_len(1).unwrap();
        file.append(b"901").unwrap();
        disk.set_faults(Faults { full_at_growth: Some(1), ..Faults::default() });
        file.write_all_at(b"x", 0).unwrap();
        assert_eq!(file.set_len(99).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(text(&disk, "a").unwrap(), "x901");
    }

    #[test]
    fn a_cut_file_that_grows_again_is_zero_there() {
        let disk = SimDisk::new();
        let file = disk.open(Path::new("a"), Open::ReadWrite).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        file.append(&[b'x'; 2000]).unwrap();
        file.sync().unwrap();
        file.set_len(10).unwrap();
        file.set_len(1500).unwrap();
        file.sync().unwrap();
        let expected = ["x".repeat(10), "\0".repeat(1490)].concat();
        assert_eq!(text(&disk.crash(0), "a").unwrap(), expected);
    }

    #[test]
    fn names_links_and_exchanges_work_as_on_the_host() {
        let disk = SimDisk::new();
        let shown: &dyn Disk = &disk;
        disk.create_dir_all(Path::new("/a/b")).unwrap();
        disk.create_dir_all(Path::new("/c")).unwrap();
        shown.replace(Path::new("/a/b/f"), b"f", 0o640).unwrap();
        disk.hard_link(Path::new("/a/b/f"), Path::new("/c/g")).unwrap();
        disk.exchange(Path::new("/a/b"), Path::new("/c")).unwrap();
        assert_eq!(disk.list(Path::new("/c")).unwrap(), ["f"]);
        assert_eq!(text(&disk, "/a/b/g").unwrap(), "f");
        assert!(disk.rename(Path::new("/nowhere"), Path::new("/c/h")).is_err());
        assert!(disk.open(Path::new("/c/f"), Open::CreateNew(0o640)).is_err());
        assert!(disk.open(Path::new("/no/dir"), Open::ReadWrite).is_err());
        disk.remove_dir_all(Path::new("/a")).unwrap();
        disk.remove_file(Path::new("/a/b/g")).unwrap();
        assert_eq!(disk.list(Path::new("")).unwrap(), ["c"]);
        assert_eq!(text(&disk, "/c/f").unwrap(), "f");
    }

    #[test]
    fn locks_belong_to_handles() {
        let disk = SimDisk::new();
        let first = disk.open(Path::new("l"), Open::ReadWrite).unwrap();
        let second = disk.open(Path::new("l"), Open::ReadWrite).unwrap();
        assert!(first.try_lock().unwrap() && first.try_lock().unwrap());
        assert!(!second.try_lock().unwrap());
        drop(first);
        second.lock().unwrap();
        let clock = SimClock::at(Timestamp(5));
        clock.advance_ms(-7);
        assert_eq!(clock.now(), Timestamp(-2));
    }
}
