//! Inodes, names and what of both is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use super::super::{Open, Stat};
use super::{Counts, Faults};

const SECTOR: u64 = 512;
const ROOT: u64 = 1;
/// What an endless disk says it has left.
const PLENTY: u64 = 1 << 50;

#[derive(Clone, Default)]
struct FileData {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors to be written by the next sync.
    dirty: BTreeSet<u64>,
    /// Sectors that a failed sync dropped.
    dropped: BTreeSet<u64>,
    /// A length change waits for a sync.
    resized: bool,
}

#[derive(Clone, Default)]
struct DirData {
    now: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
}

#[derive(Clone)]
enum Inode {
    File(FileData),
    Dir(DirData),
}

/// A change of names that survives as a whole or not at all: (directory, name, new target).
type NameChange = Vec<(u64, String, Option<u64>)>;

pub(super) struct State {
    pub faults: Faults,
    pub counts: Counts,
    pub(crate) crashed: bool,
    inodes: BTreeMap<u64, Inode>,
    modified: BTreeMap<u64, i128>,
    pending: Vec<NameChange>,
    locks: BTreeMap<u64, u64>,
    last_write: Option<(u64, u64, u64)>,
    next_inode: u64,
    ticks: i128,
}

fn fails(kind: ErrorKind) -> io::Error {
    kind.into()
}

fn input_output() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// The next number of a small deterministic sequence (splitmix64).
fn next_random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What a power loss keeps of the things that were not synced.
enum PowerLossOutcome {
    Nothing,
    Everything,
    Some(u64),
}

impl PowerLossOutcome {
    fn keeps(&mut self) -> bool {
        match self {
            PowerLossOutcome::Nothing => false,
            PowerLossOutcome::Everything => true,
            PowerLossOutcome::Some(seed) => next_random(seed) & 1 == 1,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        match self {
            PowerLossOutcome::Nothing => 0,
            PowerLossOutcome::Everything => bound,
            PowerLossOutcome::Some(seed) => next_random(seed) % (bound + 1),
        }
    }
}

impl State {
    pub(super) fn new() -> State {
        State {
            faults: Faults::default(),
            counts: Counts::default(),
            crashed: false,
            inodes: BTreeMap::from([(ROOT, Inode::Dir(DirData::default()))]),
            modified: BTreeMap::new(),
            pending: Vec::new(),
            locks: BTreeMap::new(),
            last_write: None,
            next_inode: ROOT + 1,
            ticks: 0,
        }
    }

    pub(crate) fn powered(&self) -> io::Result<()> {
        if self.crashed { Err(io::Error::other("the machine has no power")) } else { Ok(()) }
    }

    fn file(&mut self, inode: u64) -> io::Result<&mut FileData> {
        match self.inodes.get_mut(&inode) {
            Some(Inode::File(file)) => Ok(file),
            Some(Inode::Dir(_)) => Err(fails(ErrorKind::IsADirectory)),
            None => Err(fails(ErrorKind::NotFound)),
        }
    }

    fn dir(&self, inode: u64) -> io::Result<&DirData> {
        match self.inodes.get(&inode) {
            Some(Inode::Dir(dir)) => Ok(dir),
            Some(Inode::File(_)) => Err(fails(ErrorKind::NotADirectory)),
            None => Err(fails(ErrorKind::NotFound)),
        }
    }

    fn names(path: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
                Component::ParentDir => drop(names.pop()),
                _ => {}
            }
        }
        names
    }

    pub(super) fn lookup(&self, path: &Path) -> io::Result<Option<u64>> {
        let mut inode = ROOT;
        for name in State::names(path) {
            match self.inodes.get(&inode) {
                Some(Inode::Dir(dir)) => match dir.now.get(&name) {
                    Some(next) => inode = *next,
                    None => return Ok(None),
                },
                _ => return Ok(None),
            }
        }
        Ok(Some(inode))
    }

    fn must(&self, path: &Path) -> io::Result<u64> {
        self.lookup(path)?.ok_or_else(|| fails(ErrorKind::NotFound))
    }

    /// The directory that holds a path, and the name in it.
    fn place(&self, path: &Path) -> io::Result<(u64, String)> {
        let mut names = State::names(path);
        let name = names.pop().ok_or_else(|| fails(ErrorKind::InvalidInput))?;
        let dir = self.must(&names.iter().collect::<std::path::PathBuf>())?;
        self.dir(dir)?;
        Ok((dir, name))
    }

    fn change(&mut self, change: NameChange) {
        for (dir, name, target) in &change {
            if let Some(Inode::Dir(dir)) = self.inodes.get_mut(dir) {
                set_name(&mut dir.now, name, *target);
            }
        }
        self.pending.push(change);
    }

    fn create(&mut self, dir: u64, name: String, inode: Inode) -> u64 {
        let number = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(number, inode);
        self.touch(number);
        self.change(vec![(dir, name, Some(number))]);
        number
    }

    fn touch(&mut self, inode: u64) {
        self.ticks += 1;
        self.modified.insert(inode, self.ticks);
    }

    pub(super) fn open(&mut self, path: &Path, how: Open) -> io::Result<u64> {
        match (self.lookup(path)?, how) {
            (Some(_), Open::CreateNew(_)) => Err(fails(ErrorKind::AlreadyExists)),
            (Some(inode), _) => self.file(inode).map(|_| inode),
            (None, Open::Read | Open::ReadInPlace) => Err(fails(ErrorKind::NotFound)),
            (None, _) => {
                let (dir, name) = self.place(path)?;
                Ok(self.create(dir, name, Inode::File(FileData::default())))
            }
        }
    }

    pub(super) fn stat(&self, inode: u64) -> io::Result<Stat> {
        let (len, is_dir) = match self.inodes.get(&inode) {
            Some(Inode::File(file)) => (file.now.len() as u64, false),
            Some(Inode::Dir(_)) => (0, true),
            None => return Err(fails(ErrorKind::NotFound)),
        };
        let modified_ns = self.modified.get(&inode).copied().unwrap_or_default();
        Ok(Stat { len, device: 1, inode, modified_ns, is_dir })
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Ok(self.dir(self.must(dir)?)?.now.keys().cloned().collect())
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut inode = ROOT;
        for name in State::names(path) {
            inode = match self.dir(inode)?.now.get(&name) {
                Some(next) => *next,
                None => {
                    let made = self.create(inode, name, Inode::Dir(DirData::default()));
                    self.sync_names(inode)?;
                    made
                }
            };
        }
        self.dir(inode).map(|_| ())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.must(from)?;
        let ((from_dir, from_name), (to_dir, to_name)) = (self.place(from)?, self.place(to)?);
        if let Some(target) = self.lookup(to)? {
            if target == inode {
                return Ok(());
            }
            self.may_replace(inode, target)?;
        }
        self.change(vec![(from_dir, from_name, None), (to_dir, to_name, Some(inode))]);
        Ok(())
    }

    fn may_replace(&self, inode: u64, target: u64) -> io::Result<()> {
        match (self.inodes.get(&inode), self.inodes.get(&target)) {
            (Some(Inode::Dir(_)), Some(Inode::Dir(dir))) if dir.now.is_empty() => Ok(()),
            (Some(Inode::Dir(_)), Some(Inode::Dir(_))) => Err(fails(ErrorKind::DirectoryNotEmpty)),
            (Some(Inode::Dir(_)), _) => Err(fails(ErrorKind::NotADirectory)),
            (_, Some(Inode::Dir(_))) => Err(fails(ErrorKind::IsADirectory)),
            _ => Ok(()),
        }
    }

    pub(super) fn exchange(&mut self, a: &Path, b: &Path) -> io::Result<()> {
        let (a_inode, b_inode) = (self.must(a)?, self.must(b)?);
        let ((a_dir, a_name), (b_dir, b_name)) = (self.place(a)?, self.place(b)?);
        self.change(vec![(a_dir, a_name, Some(b_inode)), (b_dir, b_name, Some(a_inode))]);
        Ok(())
    }

    pub(super) fn hard_link(&mut self, existing: &Path, new: &Path) -> io::Result<()> {
        let inode = self.must(existing)?;
        self.file(inode)?;
        if self.lookup(new)?.is_some() {
            return Err(fails(ErrorKind::AlreadyExists));
        }
        let (dir, name) = self.place(new)?;
        self.change(vec![(dir, name, Some(inode))]);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path, tree: bool) -> io::Result<()> {
        let Some(inode) = self.lookup(path)? else { return Ok(()) };
        match self.inodes.get(&inode) {
            Some(Inode::Dir(_)) if !tree => return Err(fails(ErrorKind::IsADirectory)),
            Some(Inode::Dir(dir)) => {
                for name in dir.now.keys().cloned().collect::<Vec<_>>() {
                    self.remove(&path.join(name), true)?;
                }
            }
            _ => {}
        }
        let (dir, name) = self.place(path)?;
        self.change(vec![(dir, name, None)]);
        Ok(())
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.faults.capacity.map_or(PLENTY, |capacity| capacity.saturating_sub(self.used()))
    }

    fn used(&self) -> u64 {
        let files = self.inodes.values().map(|inode| match inode {
            Inode::File(file) => file.now.len() as u64,
            Inode::Dir(_) => 0,
        });
        files.sum()
    }

    pub(super) fn read(&mut self, inode: u64, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = self.file(inode)?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(file.now.len());
        let count = buffer.len().min(file.now.len() - from);
        buffer[..count].copy_from_slice(&file.now[from..from + count]);
        Ok(count)
    }

    fn grow(&mut self, inode: u64, len: u64) -> io::Result<()> {
        let now = self.file(inode)?.now.len() as u64;
        if len <= now {
            return Ok(());
        }
        self.counts.growths += 1;
        let full = self.faults.full_at_growth.is_some_and(|at| self.counts.growths >= at);
        if full || self.free_bytes() < len - now {
            return Err(fails(ErrorKind::StorageFull));
        }
        let file = self.file(inode)?;
        file.resized = true;
        file.now.resize(len as usize, 0);
        // What was cut off and not synced must not come back.
        file.dirty.extend(now / SECTOR..(file.durable.len() as u64).min(len).div_ceil(SECTOR));
        Ok(())
    }

    pub(super) fn write(&mut self, inode: u64, data: &[u8], offset: Option<u64>) -> io::Result<()> {
        let offset = match offset {
            Some(offset) => offset,
            None => self.file(inode)?.now.len() as u64,
        };
        self.counts.writes += 1;
        self.counts.written_bytes += data.len() as u64;
        let failing = self.faults.fail_write == Some(self.counts.writes);
        let crashing = self.faults.crash_at_write == Some(self.counts.writes);
        let flipping = self.faults.flip_write == Some(self.counts.writes);
        let data = if failing { &data[..data.len() / 2] } else { data };
        self.grow(inode, offset + data.len() as u64)?;
        let file = self.file(inode)?;
        file.now[offset as usize..offset as usize + data.len()].copy_from_slice(data);
        if flipping && let Some(byte) = file.now.get_mut(offset as usize) {
            *byte ^= 1;
        }
        if !data.is_empty() {
            let last = (offset + data.len() as u64 - 1) / SECTOR;
            file.dirty.extend(offset / SECTOR..=last);
            self.last_write = Some((inode, offset, data.len() as u64));
        }
        self.touch(inode);
        self.crashed |= crashing;
        if failing || crashing { Err(input_output()) } else { Ok(()) }
    }

    pub(super) fn set_len(&mut self, inode: u64, len: u64) -> io::Result<()> {
        self.grow(inode, len)?;
        let file = self.file(inode)?;
        if (len as usize) < file.now.len() {
            file.now.truncate(len as usize);
            file.resized = true;
            file.dirty.retain(|sector| sector * SECTOR < len);
            // The tail of the last sector reads as zero if the file grows again.
            file.dirty.insert(len / SECTOR);
        }
        self.touch(inode);
        Ok(())
    }

    /// Counts a sync; an error when it is one that fails.
    fn begin_sync(&mut self) -> io::Result<()> {
        self.counts.syncs += 1;
        if self.faults.crash_at_sync == Some(self.counts.syncs) {
            self.crashed = true;
        }
        self.powered()
    }

    pub(super) fn sync(&mut self, inode: u64) -> io::Result<()> {
        self.begin_sync()?;
        let failing = self.faults.fail_sync == Some(self.counts.syncs);
        let file = self.file(inode)?;
        let dirty = std::mem::take(&mut file.dirty);
        if failing {
            file.dropped.extend(dirty);
            return Err(input_output());
        }
        file.durable.resize(file.now.len(), 0);
        file.resized = false;
        for sector in dirty {
            copy_sector(&mut file.durable, &file.now, sector);
            file.dropped.remove(&sector);
        }
        if self.last_write.is_some_and(|(written, _, _)| written == inode) {
            self.last_write = None;
        }
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let inode = self.must(dir)?;
        self.dir(inode)?;
        self.sync_names(inode)
    }

    fn sync_names(&mut self, inode: u64) -> io::Result<()> {
        self.begin_sync()?;
        if self.faults.fail_sync == Some(self.counts.syncs) {
            return Err(input_output());
        }
        let touches = |change: &NameChange| change.iter().any(|(dir, _, _)| *dir == inode);
        let (settled, pending) = std::mem::take(&mut self.pending).into_iter().partition(touches);
        self.pending = pending;
        for change in settled {
            self.settle(&change);
        }
        Ok(())
    }

    fn settle(&mut self, change: &NameChange) {
        for (dir, name, target) in change {
            if let Some(Inode::Dir(dir)) = self.inodes.get_mut(dir) {
                set_name(&mut dir.durable, name, *target);
            }
        }
    }

    pub(super) fn try_lock(&mut self, inode: u64, handle: u64) -> io::Result<bool> {
        Ok(*self.locks.entry(inode).or_insert(handle) == handle)
    }

    pub(super) fn unlock(&mut self, inode: u64, handle: u64) {
        if self.locks.get(&inode) == Some(&handle) {
            self.locks.remove(&inode);
        }
    }

    pub(super) fn corrupt(&mut self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let inode = self.must(path)?;
        let file = self.file(inode)?;
        let at = offset as usize;
        for copy in [&mut file.now, &mut file.durable] {
            if let Some(byte) = copy.get_mut(at) {
                *byte ^= mask;
            }
        }
        Ok(())
    }

    /// What a power loss leaves.
    pub(crate) fn survivor(&self, seed: u64) -> State {
        let mut luck = match seed {
            0 => PowerLossOutcome::Nothing,
            1 => PowerLossOutcome::Everything,
            other => PowerLossOutcome::Some(other),
        };
        let mut next = State::new();
        next.next_inode = self.next_inode;
        next.inodes = self.inodes.clone();
        for change in &self.pending {
            if luck.keeps() {
                next.settle(change);
            }
        }
        for (number, inode) in &mut next.inodes {
            match inode {
                Inode::Dir(dir) => dir.now = dir.durable.clone(),
                Inode::File(file) => {
                    let torn = self.last_write.filter(|(written, _, _)| written == number);
                    let left = surviving_bytes(file, torn, &mut luck);
                    *file = FileData { now: left.clone(), durable: left, ..FileData::default() };
                }
            }
        }
        let reachable = next.reachable();
        next.inodes.retain(|number, _| reachable.contains(number));
        next
    }

    fn reachable(&self) -> BTreeSet<u64> {
        let mut seen = BTreeSet::from([ROOT]);
        let mut queue = vec![ROOT];
        while let Some(inode) = queue.pop() {
            if let Some(Inode::Dir(dir)) = self.inodes.get(&inode) {
                queue.extend(dir.now.values().filter(|child| seen.insert(**child)));
            }
        }
        seen
    }
}

fn set_name(names: &mut BTreeMap<String, u64>, name: &str, target: Option<u64>) {
    match target {
        Some(inode) => names.insert(name.to_owned(), inode),
        None => names.remove(name),
    };
}

fn copy_sector(to: &mut [u8], from: &[u8], sector: u64) {
    let start = (sector * SECTOR) as usize;
    let end = (start + SECTOR as usize).min(to.len()).min(from.len());
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}

/// The bytes of one file after a power loss; `torn` is the write that was under way.
fn surviving_bytes(
    file: &FileData,
    torn: Option<(u64, u64, u64)>,
    luck: &mut PowerLossOutcome,
) -> Vec<u8> {
    let mut left = file.durable.clone();
    if file.resized && luck.keeps() {
        left.resize(file.now.len(), 0);
    }
    for sector in file.dirty.union(&file.dropped) {
        if luck.keeps() {
            copy_sector(&mut left, &file.now, *sector);
        }
    }
    if let Some((_, offset, len)) = torn {
        let cut = (offset + luck.below(len)) as usize;
        let (start, end) = (offset as usize, (offset + len) as usize);
        for at in start..end.min(left.len()).min(file.now.len()) {
            let old = file.durable.get(at).copied().unwrap_or(0);
            left[at] = if at < cut { file.now[at] } else { old };
        }
    }
    left
}
