//! Snapshot files: `DIR/<run_id>/<sequence>.snapshot.json`, its narrative `<sequence>.md`, and
//! `<sequence>.spill.json` when the records do not fit into the snapshot. Without a home,
//! `<sequence>.events.sha256` is the hash of the events that the snapshot covers.
//!
//! Contract: a snapshot is in force once its `.snapshot.json` exists. That file is written last and
//! in one step; a crash before it leaves files that are written again. An existing snapshot never
//! changes: equal bytes are accepted, other bytes are an error.
//!
//! See docs/adr/0098-spilled-lists.md.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::agent_runs::facts::SnapshotBody;
use super::build::{BuiltSnapshot, SnapshotForm};
use super::previous::Previous;
use super::snapshot::{FailureAction, Snapshot};
use super::spill;
use crate::export::difference::Difference;
use crate::facts::agent_run::SnapshotTaken;
use crate::os::Disk;

const SNAPSHOT_SUFFIX: &str = ".snapshot.json";
const FILE_MODE: u32 = 0o640;

/// Why snapshots cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{what} {}: {source}", path.display())]
    Io {
        what: &'static str,
        /// To which file.
        path: PathBuf,
        source: io::Error,
    },
    /// A stored snapshot is not what it was.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// The place of a snapshot is taken by another.
    #[error("{} holds another snapshot; snapshots are never changed", path.display())]
    Taken { path: PathBuf },
}

fn io_at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { what, path, source }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The snapshot came into force.
    Written,
    /// It was in force already.
    Unchanged,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub snapshot: Snapshot,
    pub bytes: Vec<u8>,
    /// Digest of its state as stored.
    pub(crate) state_digest: String,
    /// What contradicts itself, if anything does.
    pub fault: Option<String>,
}

impl Stored {
    /// Which form it was written in.
    pub fn form(&self) -> SnapshotForm {
        if self.snapshot.ext.is_some() { SnapshotForm::Full } else { SnapshotForm::StrictV1 }
    }

    /// What the next snapshot depends on; a strict snapshot does not say where its records went,
    /// so that comes from `rebuilt`.
    pub fn previous(&self, rebuilt: Option<&BuiltSnapshot>) -> Previous {
        let mut previous = Previous::of(&self.snapshot);
        if self.form() == SnapshotForm::StrictV1 {
            previous.spill = rebuilt.and_then(|built| built.previous.spill.clone());
        }
        previous
    }
}

/// The snapshots under one directory.
#[derive(Clone)]
pub struct SnapshotStore {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl SnapshotStore {
    /// The snapshots under `dir`, which need not exist.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> SnapshotStore {
        SnapshotStore { disk, dir }
    }

    /// Where the snapshots of a run are.
    pub fn run_dir(&self, run_id: &str) -> PathBuf {
        self.dir.join(run_id)
    }

    /// The file of one snapshot.
    pub(crate) fn snapshot_path(&self, run_id: &str, sequence: u64) -> PathBuf {
        self.run_dir(run_id).join(format!("{sequence}{SNAPSHOT_SUFFIX}"))
    }

    /// The file of one narrative.
    pub(crate) fn narrative_path(&self, run_id: &str, sequence: u64) -> PathBuf {
        self.run_dir(run_id).join(format!("{sequence}.md"))
    }

    /// How many snapshots of a run are in force: 1 to that number, without a hole.
    pub fn count(&self, run_id: &str) -> Result<u64, StoreError> {
        let dir = self.run_dir(run_id);
        let names = match self.disk.list(&dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(source) => return Err(io_at("list", &dir)(source)),
        };
        let mut sequences: Vec<u64> = names.iter().filter_map(|name| sequence_of(name)).collect();
        sequences.sort_unstable();
        for (index, sequence) in sequences.iter().enumerate() {
            let expected = index as u64 + 1;
            if *sequence != expected {
                let path = self.snapshot_path(run_id, expected);
                let reason = format!("it is missing although snapshot {sequence} exists");
                return Err(StoreError::Damaged { path, reason });
            }
        }
        Ok(sequences.len() as u64)
    }

    /// Reads one snapshot back. One that contradicts itself is returned with its fault.
    pub fn load(&self, run_id: &str, sequence: u64) -> Result<Stored, StoreError> {
        let path = self.snapshot_path(run_id, sequence);
        let bytes = self.disk.read(&path).map_err(io_at("read", &path))?;
        let damaged = |reason: String| StoreError::Damaged { path: path.clone(), reason };
        let snapshot: Snapshot =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        let state_digest = snapshot.state.digest();
        let fault = fault_of(&snapshot, run_id, sequence, &state_digest);
        Ok(Stored { snapshot, bytes, state_digest, fault })
    }

    /// Removes what interrupted writes left behind.
    pub fn sweep(&self, run_id: &str) -> Result<(), StoreError> {
        let dir = self.run_dir(run_id);
        self.disk.sweep_temporaries(&dir).map_err(io_at("sweep", &dir))
    }

    /// Puts a passing snapshot in force. First come its narrative, its spilled records and the file,
    /// by name and text, that says which events it covers.
    pub(crate) fn put(
        &self,
        built: &BuiltSnapshot,
        covered: &(String, String),
    ) -> Result<Put, StoreError> {
        let (run_id, sequence) = (&*built.snapshot.run_id, built.snapshot.sequence);
        let path = self.snapshot_path(run_id, sequence);
        let there = self.read(&path)?;
        if there.as_ref().is_some_and(|bytes| !same_but_for_retry(bytes, built)) {
            return Err(StoreError::Taken { path });
        }
        let dir = self.run_dir(run_id);
        self.disk.create_dir_all(&dir).map_err(io_at("create", &dir))?;
        if let Some(spill) = &built.spill {
            self.write(&dir.join(spill::file_name(sequence)), &spill.bytes)?;
        }
        self.write(&self.narrative_path(run_id, sequence), built.narrative.as_bytes())?;
        if there.is_some() {
            return Ok(Put::Unchanged);
        }
        self.write(&dir.join(&covered.0), covered.1.as_bytes())?;
        self.write(&path, &built.bytes)?;
        Ok(Put::Written)
    }

    /// Makes the files of a snapshot what a log holds of it, whatever they are now.
    pub fn restore(&self, fact: &SnapshotTaken, body: &SnapshotBody) -> Result<(), StoreError> {
        let dir = self.run_dir(&fact.run_id);
        self.disk.create_dir_all(&dir).map_err(io_at("create", &dir))?;
        if let Some(spill) = &body.spill {
            self.write(&dir.join(&spill.name), spill.text.as_bytes())?;
        }
        let narrative = self.narrative_path(&fact.run_id, fact.sequence);
        self.write(&narrative, body.narrative.as_bytes())?;
        self.write(&self.snapshot_path(&fact.run_id, fact.sequence), body.snapshot.as_bytes())
    }

    /// Removes the files of a snapshot that a person took back.
    pub(crate) fn remove(&self, fact: &SnapshotTaken) -> Result<(), StoreError> {
        for name in names_of(fact.sequence) {
            let path = self.beside_path(&fact.run_id, &name);
            self.disk.remove_file(&path).map_err(io_at("remove", &path))?;
        }
        Ok(())
    }

    /// The files that are still there of such a snapshot.
    pub(crate) fn left_of(&self, fact: &SnapshotTaken) -> Result<Vec<Difference>, StoreError> {
        let mut found = Vec::new();
        for name in names_of(fact.sequence) {
            if self.beside(&fact.run_id, &name)?.is_some() {
                found.push(Difference::new(name, "a person took it back"));
            }
        }
        Ok(found)
    }

    /// Where the files of a snapshot are not what a log holds of it.
    pub fn differences(
        &self,
        fact: &SnapshotTaken,
        body: &SnapshotBody,
    ) -> Result<Vec<Difference>, StoreError> {
        let sequence = fact.sequence;
        let snapshot = (format!("{sequence}{SNAPSHOT_SUFFIX}"), &body.snapshot);
        let narrative = (format!("{sequence}.md"), &body.narrative);
        let spill = body.spill.iter().map(|file| (file.name.clone(), &file.text));
        let mut found = Vec::new();
        for (file, due) in [snapshot, narrative].into_iter().chain(spill) {
            let problem = match self.beside(&fact.run_id, &file)? {
                Some(bytes) if bytes == due.as_bytes() => continue,
                Some(_) => "its bytes are not what the log holds",
                None => "it is missing",
            };
            found.push(Difference::new(file, problem));
        }
        Ok(found)
    }

    /// The bytes of a file beside the snapshots of a run, if it is there.
    pub fn beside(&self, run_id: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(&self.beside_path(run_id, name))
    }

    pub(crate) fn beside_path(&self, run_id: &str, name: &str) -> PathBuf {
        self.run_dir(run_id).join(name)
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
        self.disk.read_if_present(path).map_err(io_at("read", path))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        if self.read(path)?.as_deref() == Some(bytes) {
            return Ok(());
        }
        self.disk.replace(path, bytes, FILE_MODE).map_err(io_at("write", path))
    }
}

/// The names of the files of a snapshot.
fn names_of(sequence: u64) -> [String; 3] {
    [format!("{sequence}{SNAPSHOT_SUFFIX}"), format!("{sequence}.md"), spill::file_name(sequence)]
}

/// The place in its run of the snapshot that a file name says it is.
pub(crate) fn sequence_of(name: &str) -> Option<u64> {
    name.strip_suffix(SNAPSHOT_SUFFIX)?.parse().ok()
}

/// A snapshot that was built twice, because its first checks failed, is built once when it is
/// rebuilt. Only its note about the second build then differs.
fn same_but_for_retry(bytes: &[u8], built: &BuiltSnapshot) -> bool {
    if bytes == built.bytes {
        return true;
    }
    let with = |action: FailureAction| {
        let mut snapshot = built.snapshot.clone();
        snapshot.validation.failure_action_taken = action;
        snapshot.to_bytes()
    };
    bytes == with(FailureAction::Retry) || bytes == with(FailureAction::None)
}

fn fault_of(
    snapshot: &Snapshot,
    run_id: &str,
    sequence: u64,
    state_digest: &str,
) -> Option<String> {
    if snapshot.run_id != run_id || snapshot.sequence != sequence {
        let (run, place) = (&snapshot.run_id, snapshot.sequence);
        return Some(format!("it says it is snapshot {place} of run {run}"));
    }
    if !snapshot.passes() {
        return Some("it did not pass its checks".to_owned());
    }
    let ext = snapshot.ext.as_ref()?;
    if ext.state_digest != state_digest {
        return Some("its state does not match its state_digest".to_owned());
    }
    let computed = snapshot.computed_id();
    (computed != snapshot.snapshot_id)
        .then(|| format!("its content has the id {computed}, not {}", snapshot.snapshot_id))
}
