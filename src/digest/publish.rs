//! Keeps the digest tree of a home equal to the log.
//!
//! Contract. Every bag that the log says is published has its files. A build looks at all of them
//! again, and writes a damaged bag again from the log. Bag folders come first, each
//! moved into place by one rename; then all indexes change in one exchange. So a bag that an index
//! names is always complete. A removed bag leaves the indexes before its files are deleted.
//! Repeating a call changes nothing. After a crash the old indexes or the new ones are visible, and
//! the next call continues. Where the file system can neither rename nor exchange in one step,
//! nothing is published.
//!
//! This module does not decide what is published. The facts of a build decide.
//!
//! See docs/adr/0043-promoting-bag-folders.md.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bag::{BagFiles, bag_path};
use super::cache::InPlace;
use super::catalog::Catalog;
use super::index;
use crate::contract::digest_bus::{DIGESTS_DIR, INDEX_DIR, LEVEL, TRACE_FILE, bag_dir_sha256};
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::export::difference::Difference;
use crate::export::publish::{Fallback, PublishError, Publisher, workshop};
use crate::export::run_record::RUN_RECORDS_DIR;
use crate::export::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::facts::digest::{BagFacts, BagType};
use crate::log::{ReadError, Reader};
use crate::os::{Disk, FileVersion, Open};
use crate::verify;

/// Folder of staged builds, relative to the bus home.
const STAGING_DIR: &str = ".staging";
const MODE: u32 = 0o640;
/// Largest file of a bag that is compared with the log.
const FILE_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    #[error(transparent)]
    Log(#[from] ReadError),
    #[error("{operation} {path}")]
    Disk {
        operation: &'static str,
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("publish the indexes")]
    Index(#[from] PublishError),
    /// A record does not serialize, which is a mistake in this program.
    #[error("serialize a record")]
    Record(#[from] serde_json::Error),
    #[error("find the files of bag {0} in the log")]
    NoFiles(String),
    /// Staging and digests are on two file systems, where a rename is a copy.
    #[error("{staging} and {digests} are on different file systems; put the bus home on one")]
    NotAtomic { staging: String, digests: String },
}

pub(super) fn disk_error(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> DigestError + use<> {
    let path = path.display().to_string();
    move |source| DigestError::Disk { operation, path, source }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeChanges {
    /// Bag folders that appeared.
    pub bags: usize,
    /// Bag folders that went.
    pub removed: usize,
    /// Whether the indexes are new.
    pub indexes: bool,
}

/// The digest tree and how far into the log it is.
pub struct Digests {
    disk: Arc<dyn Disk>,
    buses: PathBuf,
    log: Reader,
    /// Opened when it is first needed, so that an overview works on a disk that cannot publish.
    index: Option<Publisher>,
    catalog: Catalog,
    /// Bag folders that are known to be there.
    present: BTreeSet<String>,
    /// Versions of their files, also from before this process.
    in_place: InPlace,
    recorded: BTreeSet<String>,
    /// Position of the change that the published indexes contain.
    published: Option<Seq>,
}

impl Digests {
    /// Manages `BUSES/digests` and `BUSES/index`. The disk is not touched yet.
    pub fn open(disk: &Arc<dyn Disk>, buses: &Path, log: &Reader) -> Digests {
        Digests {
            disk: Arc::clone(disk),
            buses: buses.to_owned(),
            log: log.clone(),
            index: None,
            catalog: Catalog::default(),
            present: BTreeSet::new(),
            in_place: InPlace::new(),
            recorded: BTreeSet::new(),
            published: None,
        }
    }

    /// Continues from the state that an earlier process kept.
    pub fn go_on_from(&mut self, catalog: Catalog, in_place: InPlace) {
        self.catalog = catalog;
        self.in_place = in_place;
    }

    pub fn in_place(&self) -> &InPlace {
        &self.in_place
    }

    fn index(&mut self) -> Result<&mut Publisher, DigestError> {
        let publisher = match self.index.take() {
            Some(publisher) => publisher,
            None => {
                let disk = Arc::clone(&self.disk);
                Publisher::open(disk, &self.buses, INDEX_DIR, Fallback::Refuse)?
            }
        };
        Ok(self.index.insert(publisher))
    }

    /// Hashes of the indexes that the catalog gives, by name.
    pub(crate) fn index_hashes(&self) -> Result<BTreeMap<&'static str, String>, DigestError> {
        let files = index::render(&self.catalog)?;
        Ok(files.into_iter().map(|(name, bytes)| (name, sha256(bytes).hex())).collect())
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Reads the log from where the last call stopped.
    pub fn read(&mut self, until: Option<Seq>) -> Result<(), DigestError> {
        Ok(self.catalog.read(&self.log, until)?)
    }

    /// Hash and sequence number of the published manifest of a partition of the Summary Bus.
    pub fn manifest(&self, key: PartitionKey) -> Result<Option<(String, u64)>, DigestError> {
        #[derive(serde::Deserialize)]
        struct ManifestSequence {
            #[serde(default)]
            sequence: u64,
        }
        let path = self.buses.join(SUMMARIES_DIR).join(key.manifest_file());
        let bytes = self.disk.read_if_present(&path).map_err(disk_error("read", &path))?;
        Ok(bytes.map(|bytes| {
            let manifest = serde_json::from_slice(&bytes);
            (
                sha256(&bytes).hex(),
                manifest.map_or(0, |manifest: ManifestSequence| manifest.sequence),
            )
        }))
    }

    pub(super) fn is_there(&self, path: &str) -> Result<bool, DigestError> {
        if self.present.contains(path) {
            return Ok(true);
        }
        let trace = self.buses.join(path).join("meta/trace.json");
        Ok(self.disk.stat(&trace).map_err(disk_error("inspect", &trace))?.is_some())
    }

    pub fn staging(&self, run_id: &str) -> PathBuf {
        self.staging_root().join(run_id)
    }

    /// The same, relative to the bus home, as records name it.
    pub(super) fn staged_name(&self, run_id: &str) -> String {
        let path = self.staging(run_id);
        let inside = path.strip_prefix(&self.buses).ok().map(Path::to_owned);
        // Else its folder is beside the bus home.
        let parts: Vec<_> = path.components().rev().take(3).collect();
        let beside = || parts.iter().rev().fold(PathBuf::from(".."), |path, part| path.join(part));
        inside.unwrap_or_else(beside).display().to_string()
    }

    /// The folder of all staging folders.
    fn staging_root(&self) -> PathBuf {
        let place = workshop(self.disk.as_ref(), &self.buses);
        place.unwrap_or_else(|_| self.buses.join(".publishing")).join(STAGING_DIR)
    }

    /// Checks that folders can be moved into place, and indexes exchanged, in one step each.
    pub(crate) fn check_atomic(&mut self) -> Result<(), DigestError> {
        self.index()?;
        let (staging, digests) = (self.staging_root(), self.buses.join(DIGESTS_DIR));
        let mut devices = BTreeSet::new();
        for folder in [&staging, &digests] {
            self.make_dir(folder)?;
            let stat = self.disk.stat(folder).map_err(disk_error("inspect", folder))?;
            devices.extend(stat.map(|stat| stat.device));
        }
        match devices.len() {
            0 | 1 => Ok(()),
            _ => Err(DigestError::NotAtomic {
                staging: staging.display().to_string(),
                digests: digests.display().to_string(),
            }),
        }
    }

    fn make_dir(&self, dir: &Path) -> Result<(), DigestError> {
        match self.disk.stat(dir).map_err(disk_error("inspect", dir))? {
            Some(_) => Ok(()),
            None => self.disk.create_dir_all(dir).map_err(disk_error("create", dir)),
        }
    }

    /// Writes again the files and folders that differ from the log, each bag in one step. Returns
    /// their number.
    pub fn repair(&mut self, differences: &[Difference]) -> Result<usize, DigestError> {
        self.read(None)?;
        let bags: BTreeSet<String> =
            self.catalog.entries().values().map(|entry| entry.facts.path()).collect();
        for difference in differences {
            let folders = Path::new(&difference.path).ancestors().filter_map(Path::to_str);
            if let Some(bag) = folders.into_iter().find_map(|folder| bags.get(folder)) {
                self.present.remove(bag);
                self.in_place.remove(bag);
            }
            if let Some(name) = difference.path.strip_prefix(&format!("{RUN_RECORDS_DIR}/")) {
                let path = self.buses.join(RUN_RECORDS_DIR).join(name);
                self.disk.remove_file(&path).map_err(disk_error("remove", &path))?;
                self.recorded.remove(name.trim_end_matches(".run_record.json"));
            }
        }
        self.publish(None, None)?;
        Ok(differences.len())
    }

    /// Brings the tree up to the log, as of event `until`. Staged folders are moved; missing ones
    /// are written from the log.
    pub fn publish(
        &mut self,
        until: Option<Seq>,
        staged: Option<&Path>,
    ) -> Result<TreeChanges, DigestError> {
        self.read(until)?;
        let mut changed = TreeChanges { bags: self.promote(staged)?, ..TreeChanges::default() };
        changed.indexes = self.publish_indexes()?;
        changed.removed = self.remove_collected()?;
        self.write_records()?;
        Ok(changed)
    }

    fn promote(&mut self, staged: Option<&Path>) -> Result<usize, DigestError> {
        let mut missing = Vec::new();
        for entry in self.catalog.entries().values() {
            let path = entry.facts.path();
            if self.present.contains(&path) {
                continue;
            }
            match self.is_intact(&path, &entry.facts)? {
                Some(mark) => {
                    self.in_place.insert(path.clone(), mark);
                    self.present.insert(path);
                }
                None => missing.push((entry.seq, entry.facts.clone())),
            }
        }
        if missing.is_empty() {
            return Ok(0);
        }
        self.check_atomic()?;
        let again = self.staging_root().join("recover");
        let mut rewritten = false;
        for (seq, facts) in &missing {
            let is_staged = match staged {
                Some(staged) => {
                    let path = staged.join(facts.path());
                    self.disk.stat(&path).map_err(disk_error("inspect", &path))?.is_some()
                }
                None => false,
            };
            if !is_staged {
                if !rewritten {
                    self.disk.remove_dir_all(&again).map_err(disk_error("remove", &again))?;
                    rewritten = true;
                }
                let files = self.files_in_log(*seq, facts)?;
                write_files(self.disk.as_ref(), &again.join(facts.path()), &files)?;
            }
        }
        if rewritten {
            self.disk.sync_tree(&again).map_err(disk_error("sync", &again))?;
        }
        let mut parents = BTreeSet::new();
        for (_, facts) in &missing {
            let target = self.buses.join(facts.path());
            let parent = target.parent().unwrap_or(&self.buses).to_owned();
            self.make_dir(&parent)?;
            let sources = staged.into_iter().chain([again.as_path()]);
            for from in sources.map(|root| root.join(facts.path())) {
                if self.disk.stat(&from).map_err(disk_error("inspect", &from))?.is_none() {
                    continue;
                }
                // The folder in the way is wrong. The exchange puts it into staging, where it is
                // removed.
                match self.disk.stat(&target).map_err(disk_error("inspect", &target))? {
                    None => self.disk.rename(&from, &target),
                    Some(_) => self.disk.exchange(&from, &target),
                }
                .map_err(disk_error("rename", &target))?;
                break;
            }
            parents.insert(parent);
        }
        for parent in &parents {
            self.disk.sync_dir(parent).map_err(disk_error("sync", parent))?;
        }
        for (_, facts) in &missing {
            let folder = self.buses.join(facts.path());
            let mark = mark_of(self.disk.as_ref(), &folder);
            self.in_place.insert(facts.path(), mark.map_err(disk_error("inspect", &folder))?);
            self.present.insert(facts.path());
        }
        if rewritten {
            self.disk.remove_dir_all(&again).map_err(disk_error("remove", &again))?;
        }
        Ok(missing.len())
    }

    /// Looks at the files of all bags again when they are published next. With `hash`, the content of
    /// files is read even where their versions did not change.
    pub(super) fn look_again(&mut self, hash: bool) {
        self.present.clear();
        self.published = None;
        if hash {
            self.in_place.clear();
        }
    }

    /// The bags whose files are not what the log says, relative to the bus home.
    pub(crate) fn damaged(&self) -> Result<Vec<String>, DigestError> {
        let mut damaged = Vec::new();
        for entry in self.catalog.entries().values() {
            let path = entry.facts.path();
            if self.is_intact(&path, &entry.facts)?.is_none() {
                damaged.push(path);
            }
        }
        Ok(damaged)
    }

    /// The index files that are missing or not what the log says, relative to the bus home.
    pub(crate) fn damaged_indexes(&self) -> Result<Vec<String>, DigestError> {
        let mut damaged = Vec::new();
        for (name, bytes) in index::render(&self.catalog)? {
            let path = self.buses.join(INDEX_DIR).join(name);
            let known = self.disk.read_if_present(&path).map_err(disk_error("read", &path))?;
            if known.as_deref() != Some(bytes.as_slice()) {
                damaged.push(format!("{INDEX_DIR}/{name}"));
            }
        }
        Ok(damaged)
    }

    /// The versions of the files of a bag when they are what the log says. Content is read where the
    /// versions are not those that were seen when it was compared last. A folder of another log, and
    /// one that is a link, is not intact.
    fn is_intact(&self, path: &str, facts: &BagFacts) -> Result<Option<String>, DigestError> {
        let (disk, folder) = (self.disk.as_ref(), self.buses.join(path));
        let inspect = || disk_error("inspect", &folder);
        if disk.stat(&folder).map_err(inspect())?.is_none()
            || !is_plain(disk, &self.buses, path).map_err(inspect())?
        {
            return Ok(None);
        }
        let mark = mark_of(disk, &folder).map_err(inspect())?;
        if self.in_place.get(path) == Some(&mark) {
            return Ok(Some(mark));
        }
        let files = verify::read_files(disk, &folder, FILE_BYTES_MAX);
        let files = files.map_err(disk_error("read", &folder))?;
        for name in files.keys() {
            if !is_plain(disk, &folder, name).map_err(inspect())? {
                return Ok(None);
            }
        }
        #[derive(Default, serde::Deserialize)]
        struct Trace {
            integrity: Integrity,
        }
        #[derive(Default, serde::Deserialize)]
        struct Integrity {
            bag_dir_sha256: String,
        }
        let Some(trace) = files.get(TRACE_FILE) else { return Ok(None) };
        let whole = sha256(trace) == facts.trace_sha256;
        let meant: Trace = serde_json::from_slice(trace).unwrap_or_default();
        let same = whole && meant.integrity.bag_dir_sha256 == bag_dir_sha256(&files);
        Ok(same.then_some(mark))
    }

    pub(crate) fn files_in_log(&self, seq: Seq, facts: &BagFacts) -> Result<BagFiles, DigestError> {
        let body = self.log.body(seq).map_err(ReadError::Log)?;
        let body = body.ok_or_else(|| DigestError::NoFiles(facts.bag_id.clone()))?;
        Ok(serde_json::from_slice(&body)?)
    }

    fn publish_indexes(&mut self) -> Result<bool, DigestError> {
        let wanted = self.catalog.change().map(|change| change.seq);
        if wanted == self.published {
            return Ok(false);
        }
        if wanted.is_none() {
            return Ok(false);
        }
        let files = index::render(&self.catalog)?;
        let live = self.buses.join(INDEX_DIR);
        let mut different = Vec::new();
        for (name, bytes) in &files {
            let path = live.join(name);
            let known = self.disk.read_if_present(&path).map_err(disk_error("read", &path))?;
            if known.as_deref() != Some(bytes.as_slice()) {
                different.push(*name);
            }
        }
        if !different.is_empty() {
            let disk = Arc::clone(&self.disk);
            let mut publication = self.index()?.begin()?;
            for name in &different {
                publication.put(name, &files[*name])?;
            }
            publication.commit(|tree| are_as_meant(disk.as_ref(), tree, &files))?;
        }
        self.published = wanted;
        Ok(!different.is_empty())
    }

    /// All bag folders, relative to the bus home, with the type and the id that their path names.
    fn folders(&self) -> Result<Vec<(String, BagType, String)>, DigestError> {
        let mut found = Vec::new();
        for &bag_type in BagType::ALL {
            let folder = self.buses.join(DIGESTS_DIR).join(LEVEL).join(bag_type.as_str());
            for name in self.list(&folder)? {
                found.push((bag_path(bag_type, &name), bag_type, name));
            }
        }
        Ok(found)
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, DigestError> {
        match self.disk.list(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(disk_error("list", folder)),
        }
    }

    /// Removes the folders of collected bags.
    fn remove_collected(&mut self) -> Result<usize, DigestError> {
        if self.catalog.removed().is_empty() {
            return Ok(0);
        }
        let folders = self.folders()?.into_iter();
        let collected: Vec<String> = folders
            .filter(|(_, bag_type, name)| self.catalog.removed().get(name) == Some(bag_type))
            .map(|(path, ..)| path)
            .collect();
        self.remove_folders(&collected)
    }

    /// Bag folders that no event of the log names, relative to the bus home.
    pub fn orphans(&self) -> Result<Vec<String>, DigestError> {
        let known: BTreeSet<String> =
            self.catalog.entries().values().map(|entry| entry.facts.path()).collect();
        let folders = self.folders()?.into_iter().map(|(path, ..)| path);
        Ok(folders.filter(|path| !known.contains(path)).collect())
    }

    /// True for the folder of a bag that `gc` removed.
    pub(super) fn was_removed(&self, path: &str) -> bool {
        let mut removed = self.catalog.removed().iter();
        removed.any(|(bag_id, bag_type)| bag_path(*bag_type, bag_id) == path)
    }

    /// Removes bag folders, each in one step.
    pub(super) fn remove_folders(&mut self, paths: &[String]) -> Result<usize, DigestError> {
        let trash = self.staging_root().join("collected");
        let mut parents = BTreeSet::new();
        for path in paths {
            let from = self.buses.join(path);
            let to = trash.join(from.file_name().unwrap_or(from.as_os_str()));
            self.make_dir(&trash)?;
            self.disk.remove_dir_all(&to).map_err(disk_error("remove", &to))?;
            self.disk.rename(&from, &to).map_err(disk_error("rename", &to))?;
            self.present.remove(path);
            self.in_place.remove(path);
            parents.extend(from.parent().map(Path::to_owned));
        }
        for parent in &parents {
            self.disk.sync_dir(parent).map_err(disk_error("sync", parent))?;
        }
        if !paths.is_empty() {
            self.disk.remove_dir_all(&trash).map_err(disk_error("remove", &trash))?;
        }
        Ok(paths.len())
    }

    /// Writes the run records that the log holds and the folder lacks.
    pub(crate) fn write_records(&mut self) -> Result<(), DigestError> {
        let folder = self.buses.join(RUN_RECORDS_DIR);
        for (run_id, seq) in self.catalog.runs() {
            if self.recorded.contains(run_id) {
                continue;
            }
            let path = folder.join(format!("{run_id}.run_record.json"));
            if self.disk.stat(&path).map_err(disk_error("inspect", &path))?.is_none() {
                let body = self.log.body(*seq).map_err(ReadError::Log)?;
                let body = body.ok_or(ReadError::no_body(*seq))?;
                self.make_dir(&folder)?;
                self.disk.replace(&path, &body, MODE).map_err(disk_error("write", &path))?;
            }
            self.recorded.insert(run_id.clone());
        }
        Ok(())
    }

    /// A folder of the disk that builds write to, and the bytes that are free there.
    pub(super) fn free_bytes(&self) -> Result<(String, u64), DigestError> {
        let free = self.disk.free_bytes(&self.buses).map_err(disk_error("inspect", &self.buses))?;
        Ok((self.buses.display().to_string(), free))
    }

    /// Names of the staging folders, which are run ids.
    pub fn staged(&self) -> Result<Vec<String>, DigestError> {
        self.list(&self.staging_root())
    }

    /// Removes staging folders. Those that failed builds left to be looked at stay unless `all`.
    pub fn sweep_staging(&self, all: bool) -> Result<usize, DigestError> {
        let mut removed = 0;
        for name in self.staged()? {
            if !all && self.catalog.failed().contains(&name) {
                continue;
            }
            let path = self.staging_root().join(name);
            self.disk.remove_dir_all(&path).map_err(disk_error("remove", &path))?;
            removed += 1;
        }
        Ok(removed)
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }
}

/// Whether a path below a folder leads there, and over no link to another place.
fn is_plain(disk: &dyn Disk, folder: &Path, path: &str) -> io::Result<bool> {
    Ok(disk.real_path(&folder.join(path))? == disk.real_path(folder)?.join(path))
}

/// A hash over the names and versions of all files below a folder.
fn mark_of(disk: &dyn Disk, folder: &Path) -> io::Result<String> {
    fn walk(disk: &dyn Disk, folder: &Path, lines: &mut String) -> io::Result<()> {
        for name in disk.list(folder)? {
            let path = folder.join(&name);
            match disk.stat(&path)? {
                Some(stat) if stat.is_dir => {
                    lines.push_str(&format!("{name}/\n"));
                    walk(disk, &path, lines)?;
                    lines.push_str("/\n");
                }
                Some(stat) => {
                    let FileVersion { len, inode, modified_ns } = FileVersion::from(stat);
                    lines.push_str(&format!("{len} {inode} {modified_ns} {name}\n"));
                }
                None => {}
            }
        }
        Ok(())
    }
    let mut lines = String::new();
    walk(disk, folder, &mut lines)?;
    Ok(sha256(lines).hex())
}

/// Writes the files of a bag into a folder that no reader uses yet. They are not synced.
pub(super) fn write_files(
    disk: &dyn Disk,
    folder: &Path,
    files: &BagFiles,
) -> Result<(), DigestError> {
    let mut made = BTreeSet::new();
    for (name, text) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent()
            && made.insert(parent.to_owned())
        {
            disk.make_dirs(parent).map_err(disk_error("create", parent))?;
        }
        disk.remove_file(&path).map_err(disk_error("remove", &path))?;
        let file = disk.open(&path, Open::CreateNew(MODE)).map_err(disk_error("create", &path))?;
        file.write_all_at(text.as_bytes(), 0).map_err(disk_error("write", &path))?;
    }
    Ok(())
}

/// Checks that the staged indexes are the rendered ones, which the build has validated as a set.
fn are_as_meant(
    disk: &dyn Disk,
    tree: &Path,
    files: &BTreeMap<&'static str, Vec<u8>>,
) -> Result<(), String> {
    for (name, bytes) in files {
        let read = disk.read(&tree.join(name)).map_err(|error| format!("read {name}: {error}"))?;
        if read != *bytes {
            return Err(format!("{name} differs from the rendered index"));
        }
    }
    Ok(())
}
