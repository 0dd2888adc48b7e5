//! Publishing a tree of files as one step.
//!
//! Contract: a reader that opens the tree once and resolves everything relative to that descriptor
//! sees either everything from before a publication or everything from after it, and on a mismatch
//! (it held a tree that has become the shadow) opens again. One that stalls from before one
//! publication into the next may see a partition of that next one early, never half of one. No file in a tree is ever written to:
//! names share inodes between the live tree and its shadow, so a change is a new file and a rename.
//!
//! How: `NAME` is the live tree, `.NAME.shadow` in the [`workshop`] a tree of hard links. A publication
//! brings the shadow up to date (only what the last publication changed), puts the new files in,
//! syncs them and every folder that got or lost a name since the folder was synced, and swaps the two
//! names in one rename. So each name of the tree is durable before the tree can be seen. What was live
//! becomes the next shadow and is left alone until the next publication. A power loss leaves the old
//! tree or the new one; the shadow is discarded at the next start.
//!
//! Where the file system cannot swap two names, data files are moved before manifests from a
//! staging folder, guided by a journal that the next start finishes. There a reader can for a
//! moment see data without its manifest. A caller that cannot accept that asks for
//! [`Fallback::Refuse`].
//!
//! See docs/adr/0011-exchanging-the-summary-tree.md.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};

use crate::os::{Disk, DiskFile, Open};

const MODE: u32 = 0o640;
const WRITE_BYTES: usize = 1 << 20;
/// Bytes after which the disk is asked to begin with a file.
const SYNC_AHEAD_BYTES: u64 = 16 << 20;

/// What to do where two names cannot be swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Publish data, then manifests, with a journal.
    DataThenManifest,
    /// Publish nothing.
    Refuse,
}

/// How publications become visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The whole tree in one rename.
    Exchange,
    /// Files one by one, manifests last.
    DataThenManifest,
}

/// A publication that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error("{operation} {path}")]
    Disk {
        operation: &'static str,
        /// On which path.
        path: String,
        #[source]
        source: io::Error,
    },
    /// The file system cannot swap two names, and nothing weaker was allowed.
    #[error("the file system of {path} cannot publish a tree in one step")]
    NotAtomic { path: String },
    /// A path that leaves the tree.
    #[error("{path} is not a plain relative path")]
    BadPath { path: String },
    /// The journal of an interrupted publication is damaged.
    #[error("read the journal {path}")]
    Journal {
        path: String,
        #[source]
        source: serde_json::Error,
    },
    /// What was staged is not what may be shown.
    #[error("validate the staged files: {0}")]
    Invalid(String),
}

fn disk_error(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> PublishError + use<> {
    let path = path.display().to_string();
    move |source| PublishError::Disk { operation, path, source }
}

/// The folder in which files are prepared for a bus home. It stands beside the bus home, so that a
/// reader that walks the buses finds published files only; inside the bus home where the folder above is
/// on another file system or cannot be written to.
pub(crate) fn workshop(disk: &dyn Disk, buses: &Path) -> io::Result<PathBuf> {
    let (inside, outside) = (inside(buses), outside(disk, buses)?);
    for known in outside.iter().chain([&inside]) {
        if disk.stat(known)?.is_some() {
            return Ok(known.clone());
        }
    }
    Ok(outside.into_iter().next().unwrap_or(inside))
}

fn inside(buses: &Path) -> PathBuf {
    buses.join(".publishing")
}

/// The workshops that can be beside a bus home, the best first. The folder beside it is found by its name, and
/// by where it really is: a name may be a link, or end with `.` or `..`.
fn outside(disk: &dyn Disk, buses: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let Some(own) = disk.stat(buses)? else { return Ok(found) };
    for path in [buses.to_owned(), disk.real_path(buses)?] {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let is_here = disk.stat(above)?.is_some_and(|stat| stat.device == own.device);
        let place = above.join(format!(".{}.publishing", name.to_string_lossy()));
        if is_here && !found.contains(&place) {
            found.push(place);
        }
    }
    Ok(found)
}

/// Publishes one tree. There must be only one publisher of a tree.
pub struct Publisher {
    disk: Arc<dyn Disk>,
    parent: PathBuf,
    workshop: PathBuf,
    name: String,
    mode: Mode,
    /// What the shadow lacks; `None` when nothing is known about it.
    behind: Option<BTreeSet<String>>,
    /// Folders of the shadow whose names are not all durable.
    unsynced: BTreeSet<PathBuf>,
}

impl Publisher {
    /// Takes charge of the tree `parent/name`: finishes what a crash interrupted and discards
    /// what it left behind.
    pub fn open(
        disk: Arc<dyn Disk>,
        parent: impl Into<PathBuf>,
        name: &str,
        fallback: Fallback,
    ) -> Result<Publisher, PublishError> {
        let parent = parent.into();
        disk.create_dir_all(&parent).map_err(disk_error("create", &parent))?;
        let workshop = workshop(disk.as_ref(), &parent).map_err(disk_error("inspect", &parent))?;
        let name = name.to_owned();
        let (mode, behind, unsynced) = (Mode::Exchange, None, BTreeSet::new());
        let mut publisher = Publisher { disk, parent, workshop, name, mode, behind, unsynced };
        publisher.settle_workshop()?;
        publisher.finish_journal()?;
        publisher.mode = match (publisher.can_exchange()?, fallback) {
            (true, _) => Mode::Exchange,
            (false, Fallback::DataThenManifest) => Mode::DataThenManifest,
            (false, Fallback::Refuse) => {
                let path = publisher.parent.display().to_string();
                return Err(PublishError::NotAtomic { path });
            }
        };
        publisher.discard_shadow()?;
        Ok(publisher)
    }

    /// How publications become visible here.
    #[cfg(any(test, feature = "internals"))]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The tree readers see.
    pub fn live(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// Begins a publication. Nothing is visible before it is committed.
    pub fn begin(&mut self) -> Result<Publication<'_>, PublishError> {
        let live = self.live();
        self.make_dir(&live)?;
        match self.mode {
            Mode::Exchange => self.catch_up()?,
            Mode::DataThenManifest => self.clear_shadow()?,
        }
        // Until the commit succeeds, the state of the shadow is not defined.
        self.behind = None;
        Ok(Publication { publisher: self, changed: BTreeSet::new(), removed: BTreeSet::new() })
    }

    /// Makes the workshop; inside the bus home where it cannot be beside it. One that is there stays:
    /// it may hold a journal. One inside moves out where it can, before anything else uses it.
    fn settle_workshop(&mut self) -> Result<(), PublishError> {
        let inside = inside(&self.parent);
        let known =
            self.disk.stat(&self.workshop).map_err(disk_error("inspect", &self.workshop))?;
        if known.is_some() {
            let mut outside = self.outside()?.into_iter().filter(|_| self.workshop == inside);
            if let Some(outside) = outside.find(|one| self.disk.rename(&inside, one).is_ok()) {
                self.workshop = outside;
            }
            return Ok(());
        }
        let outside = self.outside()?.into_iter().find(|one| self.can_move_out_of(one));
        self.workshop = outside.unwrap_or(inside);
        self.make_dir(&self.workshop)
    }

    fn outside(&self) -> Result<Vec<PathBuf>, PublishError> {
        outside(self.disk.as_ref(), &self.parent).map_err(disk_error("inspect", &self.parent))
    }

    /// Whether folders can be moved from this folder, which is made for it, into the bus home.
    fn can_move_out_of(&self, folder: &Path) -> bool {
        let probe = format!(".{}.moved", self.name);
        let (from, to) = (folder.join(&probe), self.parent.join(&probe));
        let moved = self.disk.create_dir_all(&from).and_then(|()| self.disk.rename(&from, &to));
        let cleared = self.disk.remove_dir_all(&to);
        if moved.is_err() {
            // Nothing is prepared there yet.
            drop(self.disk.remove_dir_all(folder));
        }
        moved.is_ok() && cleared.is_ok()
    }

    fn shadow(&self) -> PathBuf {
        self.workshop.join(format!(".{}.shadow", self.name))
    }

    fn journal(&self) -> PathBuf {
        self.workshop.join(format!(".{}.journal", self.name))
    }

    fn make_dir(&self, dir: &Path) -> Result<(), PublishError> {
        let known = self.disk.stat(dir).map_err(disk_error("inspect", dir))?;
        match known {
            Some(_) => Ok(()),
            None => self.disk.create_dir_all(dir).map_err(disk_error("create", dir)),
        }
    }

    fn can_exchange(&self) -> Result<bool, PublishError> {
        let probes =
            [".probe-a", ".probe-b"].map(|end| self.workshop.join(format!(".{}{end}", self.name)));
        for probe in &probes {
            self.make_dir(probe)?;
        }
        let outcome = self.disk.exchange(&probes[0], &probes[1]);
        for probe in &probes {
            self.disk.remove_dir_all(probe).map_err(disk_error("remove", probe))?;
        }
        match outcome {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(disk_error("swap", &probes[0])(error)),
        }
    }

    /// Makes the shadow a copy of the live tree, by links.
    fn catch_up(&mut self) -> Result<(), PublishError> {
        let (live, shadow) = (self.live(), self.shadow());
        let behind = match self.behind.take() {
            Some(behind) => behind,
            None => {
                self.clear_shadow()?;
                let mut all = BTreeSet::new();
                self.walk(&live, "", &mut all)?;
                all
            }
        };
        for relative in behind {
            let (from, to) = (live.join(&relative), shadow.join(&relative));
            self.disk.remove_file(&to).map_err(disk_error("remove", &to))?;
            self.note_change(&to);
            if self.disk.stat(&from).map_err(disk_error("inspect", &from))?.is_some() {
                self.make_dir(to.parent().unwrap_or(&shadow))?;
                self.disk.hard_link(&from, &to).map_err(disk_error("link", &to))?;
            }
        }
        Ok(())
    }

    /// A name of the shadow came or went.
    fn note_change(&mut self, path: &Path) {
        self.unsynced.extend(path.parent().map(Path::to_owned));
    }

    /// Removes the shadow. It may be the tree that was live until a moment ago, so the exchange is made
    /// durable first: a power loss would otherwise bring back the old name of a tree whose files are gone.
    fn discard_shadow(&mut self) -> Result<(), PublishError> {
        let shadow = self.shadow();
        self.unsynced.clear();
        if self.disk.stat(&shadow).map_err(disk_error("inspect", &shadow))?.is_some() {
            if self.mode == Mode::Exchange {
                self.sync_exchange()?;
            }
            self.disk.remove_dir_all(&shadow).map_err(disk_error("remove", &shadow))?;
        }
        Ok(())
    }

    /// Begins with an empty shadow.
    fn clear_shadow(&mut self) -> Result<(), PublishError> {
        self.discard_shadow()?;
        self.make_dir(&self.shadow())
    }

    /// Makes the two swapped names durable.
    fn sync_exchange(&self) -> Result<(), PublishError> {
        for folder in [&self.parent, &self.workshop] {
            self.disk.sync_dir(folder).map_err(disk_error("sync", folder))?;
        }
        Ok(())
    }

    fn walk(
        &self,
        root: &Path,
        folder: &str,
        found: &mut BTreeSet<String>,
    ) -> Result<(), PublishError> {
        let dir = root.join(folder);
        for name in self.disk.list(&dir).map_err(disk_error("list", &dir))? {
            let relative = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let path = root.join(&relative);
            match self.disk.stat(&path).map_err(disk_error("inspect", &path))? {
                Some(stat) if stat.is_dir => self.walk(root, &relative, found)?,
                Some(_) => drop(found.insert(relative)),
                None => {}
            }
        }
        Ok(())
    }

    fn sync_folders<'a>(
        &self,
        root: &Path,
        files: impl Iterator<Item = &'a String>,
    ) -> Result<(), PublishError> {
        let folders: BTreeSet<PathBuf> =
            files.filter_map(|file| root.join(file).parent().map(Path::to_owned)).collect();
        for folder in folders.iter().map(PathBuf::as_path).chain([root]) {
            if self.disk.stat(folder).map_err(disk_error("inspect", folder))?.is_some() {
                self.disk.sync_dir(folder).map_err(disk_error("sync", folder))?;
            }
        }
        Ok(())
    }

    fn exchange(&mut self, changed: BTreeSet<String>) -> Result<(), PublishError> {
        let (live, shadow) = (self.live(), self.shadow());
        let mut unsynced = Vec::with_capacity(self.unsynced.len());
        for folder in std::mem::take(&mut self.unsynced) {
            let known = self.disk.stat(&folder).map_err(disk_error("inspect", &folder))?;
            unsynced.extend(known.map(|_| folder));
        }
        self.disk.sync_dirs(&unsynced).map_err(disk_error("sync the folders of", &shadow))?;
        self.disk.exchange(&live, &shadow).map_err(disk_error("swap", &live))?;
        self.sync_exchange()?;
        self.behind = Some(changed);
        Ok(())
    }

    fn move_one_by_one(
        &mut self,
        changed: &BTreeSet<String>,
        removed: &BTreeSet<String>,
    ) -> Result<(), PublishError> {
        let shadow = self.shadow();
        self.sync_folders(&shadow, changed.iter())?;
        self.disk.sync_dir(&self.workshop).map_err(disk_error("sync", &self.workshop))?;
        let plan = serde_json::json!({"move": changed, "remove": removed}).to_string();
        let journal = self.journal();
        self.disk
            .replace(&journal, plan.as_bytes(), MODE)
            .map_err(disk_error("write", &journal))?;
        self.finish_journal()
    }

    /// Moves what an interrupted publication had staged, data before manifests. May be repeated.
    fn finish_journal(&mut self) -> Result<(), PublishError> {
        #[derive(serde::Deserialize)]
        struct Plan {
            r#move: BTreeSet<String>,
            remove: BTreeSet<String>,
        }
        let journal = self.journal();
        let bytes = self.disk.read_if_present(&journal).map_err(disk_error("read", &journal))?;
        let Some(bytes) = bytes else { return Ok(()) };
        let plan: Plan = serde_json::from_slice(&bytes).map_err(|source| {
            PublishError::Journal { path: journal.display().to_string(), source }
        })?;
        let (live, shadow) = (self.live(), self.shadow());
        let is_manifest = |path: &&String| path.ends_with(".manifest.json");
        let data: Vec<&String> = plan.r#move.iter().filter(|path| !is_manifest(path)).collect();
        let manifests: Vec<&String> = plan.r#move.iter().filter(is_manifest).collect();
        for step in [data, manifests] {
            for relative in &step {
                let (from, to) = (shadow.join(relative), live.join(relative));
                if self.disk.stat(&from).map_err(disk_error("inspect", &from))?.is_some() {
                    self.make_dir(to.parent().unwrap_or(&live))?;
                    self.disk.rename(&from, &to).map_err(disk_error("rename", &to))?;
                }
            }
            self.sync_folders(&live, step.into_iter())?;
        }
        for relative in &plan.remove {
            let path = live.join(relative);
            self.disk.remove_file(&path).map_err(disk_error("remove", &path))?;
        }
        self.sync_folders(&live, plan.remove.iter())?;
        self.disk.remove_file(&journal).map_err(disk_error("remove", &journal))?;
        self.disk.sync_dir(&self.parent).map_err(disk_error("sync", &self.parent))
    }
}

/// Staged files that become visible together. Dropping it publishes no file.
pub struct Publication<'a> {
    publisher: &'a mut Publisher,
    changed: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl Publication<'_> {
    /// Begins a file; it counts once it is finished.
    pub fn create(&mut self, relative: &str) -> Result<StagedFile, PublishError> {
        check_path(relative)?;
        let path = self.publisher.shadow().join(relative);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temporary = path.with_file_name(format!(".{name}.tmp"));
        let disk = Arc::clone(&self.publisher.disk);
        self.publisher.make_dir(path.parent().unwrap_or(Path::new(".")))?;
        disk.remove_file(&temporary).map_err(disk_error("remove", &temporary))?;
        let file = disk
            .open(&temporary, Open::CreateNew(MODE))
            .map_err(disk_error("create", &temporary))?;
        let relative = relative.to_owned();
        let (buffer, written, ahead) = (Vec::new(), 0, None);
        Ok(StagedFile { file, relative, temporary, path, buffer, written, asked: 0, ahead })
    }

    /// Ends a file: from here on it belongs to the publication.
    pub fn finish(&mut self, mut staged: StagedFile) -> Result<(), PublishError> {
        let disk = &self.publisher.disk;
        staged.flush().map_err(disk_error("write", &staged.temporary))?;
        staged.sync().map_err(disk_error("sync", &staged.temporary))?;
        // Never into the file that bears the name now: the live tree shares its inode.
        disk.rename(&staged.temporary, &staged.path).map_err(disk_error("rename", &staged.path))?;
        self.publisher.note_change(&staged.path);
        self.removed.remove(&staged.relative);
        self.changed.insert(staged.relative);
        Ok(())
    }

    /// Puts a whole file.
    pub fn put(&mut self, relative: &str, bytes: &[u8]) -> Result<(), PublishError> {
        let mut staged = self.create(relative)?;
        staged.write_all(bytes).map_err(disk_error("write", &staged.temporary))?;
        self.finish(staged)
    }

    /// Takes a file away.
    #[cfg(any(test, feature = "internals"))]
    pub fn remove(&mut self, relative: &str) -> Result<(), PublishError> {
        check_path(relative)?;
        let path = self.publisher.shadow().join(relative);
        self.publisher.disk.remove_file(&path).map_err(disk_error("remove", &path))?;
        self.publisher.note_change(&path);
        self.changed.remove(relative);
        self.removed.insert(relative.to_owned());
        Ok(())
    }

    /// Lets `validate` look at the staged tree, then shows all files in one step. A refusal publishes
    /// nothing.
    pub fn commit<E: std::fmt::Display>(
        self,
        validate: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), PublishError> {
        let shadow = self.publisher.shadow();
        validate(&shadow).map_err(|error| PublishError::Invalid(error.to_string()))?;
        match self.publisher.mode {
            Mode::Exchange => {
                let mut changed = self.changed;
                changed.extend(self.removed);
                self.publisher.exchange(changed)
            }
            Mode::DataThenManifest => self.publisher.move_one_by_one(&self.changed, &self.removed),
        }
    }
}

fn check_path(relative: &str) -> Result<(), PublishError> {
    let plain = Path::new(relative)
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    match plain && !relative.is_empty() {
        true => Ok(()),
        false => Err(PublishError::BadPath { path: relative.to_owned() }),
    }
}

/// A file being written into the shadow.
pub struct StagedFile {
    file: Arc<dyn DiskFile>,
    relative: String,
    temporary: PathBuf,
    path: PathBuf,
    buffer: Vec<u8>,
    written: u64,
    /// Bytes that were written when the disk was last asked to begin.
    asked: u64,
    ahead: Option<Ahead>,
}

/// Lets the disk begin with a large file while the rest is written.
struct Ahead {
    ask: Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl StagedFile {
    fn sync_ahead(&mut self) {
        if self.written - self.asked < SYNC_AHEAD_BYTES {
            return;
        }
        self.asked = self.written;
        if self.ahead.is_none() {
            let (ask, asked) = bounded::<()>(1);
            let file = Arc::clone(&self.file);
            let thread = std::thread::Builder::new().name("sync".to_owned());
            let thread = thread.spawn(move || asked.iter().try_for_each(|()| file.sync()));
            // Without it the disk begins at the end.
            self.ahead = thread.ok().map(|thread| Ahead { ask, thread });
        }
        if let Some(ahead) = &self.ahead {
            // While it is busy it need not be asked again.
            let _ = ahead.ask.try_send(());
        }
    }

    /// Makes everything durable that was written.
    fn sync(&mut self) -> io::Result<()> {
        if let Some(Ahead { ask, thread }) = self.ahead.take() {
            drop(ask);
            // The thread reports a failure once, so this call must return it.
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread failed")))?;
        }
        self.file.sync()
    }
}

impl Write for StagedFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.buffer.is_empty() && data.len() >= WRITE_BYTES / 4 {
            self.file.write_all_at(data, self.written)?;
            self.written += data.len() as u64;
            self.sync_ahead();
            return Ok(data.len());
        }
        self.buffer.extend_from_slice(data);
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.sync_ahead();
        Ok(())
    }
}
