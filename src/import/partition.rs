//! Appending to partitions of ours: what is there stays, what is new goes to the end, and the
//! manifest is written again. Without new records no file changes.
//!
//! Contract: memory follows the number of records, never their length: of what is there already
//! only a key of each id is held, and beyond a bound not even that. What is new goes into a
//! temporary file beside the partition, which takes its place when the import is finished; an
//! import that fails leaves every partition that was not finished as it was.
//!
//! See docs/adr/0012-imports-only-append.md.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{ImportError, PRODUCER, Report, Target, disk_error};
use crate::contract::hash::{Digest, Hasher};
use crate::contract::json::{line, to_file};
use crate::os::{DiskFile, Open};
use crate::upstream::Family;
use crate::upstream::index::IdKey;
use crate::upstream::lines::Lines;

/// The name of the rule that cuts documents into chunks, in manifests.
pub(super) const CHUNKING_POLICY: &str = "headings_or_paragraphs.4000.v2";
const MODE: u32 = 0o640;
/// Ids that are held before what was begun is finished.
const IDS_MAX: usize = if cfg!(test) { 50 } else { 4 << 20 };
/// Bytes written in one call.
const WRITE_BYTES: usize = 1 << 20;

/// A record that is to be written into a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    /// What new records of a partition are sorted by.
    pub order: i64,
    pub id: String,
    pub value: Value,
}

/// Partitions of one family that grow.
pub(crate) struct Appender<'a> {
    target: Target<'a>,
    family: Family,
    growing: BTreeMap<String, Growing>,
}

impl<'a> Appender<'a> {
    /// Appends events to days.
    pub fn events(target: Target<'a>) -> Appender<'a> {
        Appender { target, family: Family::Events, growing: BTreeMap::new() }
    }

    /// Appends sessions to days.
    pub(super) fn sessions(target: Target<'a>) -> Appender<'a> {
        Appender { target, family: Family::Sessions, growing: BTreeMap::new() }
    }

    /// Appends chunks.
    pub fn chunks(target: Target<'a>) -> Appender<'a> {
        Appender { target, family: Family::Chunks, growing: BTreeMap::new() }
    }

    /// Takes records of a partition, those that are new in order. They are shown by `finish`.
    pub fn take(
        &mut self,
        partition: &str,
        mut records: Vec<NewRecord>,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        if !self.growing.contains_key(partition) {
            if self.growing.values().map(|one| one.known.len()).sum::<usize>() >= IDS_MAX {
                self.show(report)?;
            }
            let growing = Growing::open(self.target, self.family, partition)?;
            self.growing.insert(partition.to_owned(), growing);
        }
        let growing = self.growing.get_mut(partition).expect("it was put there");
        records.sort_by(|a, b| (a.order, &a.id).cmp(&(b.order, &b.id)));
        let mut lines = String::new();
        for record in records {
            if !growing.known.insert(IdKey::of(&record.id)) {
                report.known += 1;
                continue;
            }
            growing.tally.add(&record.value);
            lines.push_str(&line(&record.value));
            lines.push('\n');
            growing.added += 1;
            if lines.len() >= WRITE_BYTES {
                growing.write(self.target, &lines)?;
                lines.clear();
            }
        }
        growing.write(self.target, &lines)
    }

    /// Shows everything that was taken.
    pub fn finish(mut self, report: &mut Report) -> Result<(), ImportError> {
        self.show(report)
    }

    fn show(&mut self, report: &mut Report) -> Result<(), ImportError> {
        while let Some((partition, growing)) = self.growing.pop_first() {
            if growing.temporary.is_some() {
                let added = growing.added;
                growing.show(self.target, self.family, &partition)?;
                report.added += added;
                report.changed(self.family.data_path(&partition));
            }
        }
        Ok(())
    }
}

impl Drop for Appender<'_> {
    fn drop(&mut self) {
        for growing in self.growing.values() {
            if let Some((path, _)) = &growing.temporary {
                // What stays is hidden, never read, and in the way of nobody.
                let _ = self.target.disk.remove_file(path);
            }
        }
    }
}

/// One partition, as it is and as it is about to be.
struct Growing {
    data: PathBuf,
    known: HashSet<IdKey>,
    tally: Tally,
    /// Over everything that the next manifest covers.
    hasher: Hasher,
    bytes: u64,
    added: u64,
    /// Where what is new was written, and its bytes so far.
    temporary: Option<(PathBuf, u64)>,
}

impl Growing {
    /// What the manifest of a partition of ours covers; bytes after that are of nobody.
    fn open(target: Target<'_>, family: Family, partition: &str) -> Result<Growing, ImportError> {
        let path = family.data_path(partition);
        let data = target.root.join(&path);
        let mut growing = Growing {
            data: data.clone(),
            known: HashSet::new(),
            tally: Tally::default(),
            hasher: Hasher::new(),
            bytes: 0,
            added: 0,
            temporary: None,
        };
        let file = match target.disk.open(&data, Open::Read) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(disk_error("open", &data)(error)),
        };
        let foreign = || ImportError::Foreign { path: path.clone() };
        let manifest = target.root.join(family.manifest_path(partition));
        let manifest =
            target.disk.read_if_present(&manifest).map_err(disk_error("read", &manifest))?;
        let Some(manifest) = manifest else {
            // Data without a manifest: a first import that was interrupted, or somebody at work.
            let stat = file.map(|file| file.stat()).transpose();
            let stat = stat.map_err(disk_error("inspect", &data))?;
            return match stat.is_some_and(|stat| stat.len > 0) {
                true => Err(foreign()),
                false => Ok(growing),
            };
        };
        let manifest: Value = serde_json::from_slice(&manifest).map_err(|_| foreign())?;
        if manifest["producer"]["name"] != PRODUCER {
            return Err(foreign());
        }
        let damaged = || ImportError::Damaged { path: path.clone() };
        let covered = manifest["integrity"]["bytes"].as_u64().ok_or_else(damaged)?;
        let id = match family {
            Family::Events => "event_id",
            Family::Sessions => "session_id",
            Family::Chunks => "chunk_id",
            Family::Summaries(_) => "summary_id",
        };
        let lines = Lines::new(file.ok_or_else(damaged)?, covered);
        growing.read(lines, id).map_err(disk_error("read", &data))?;
        let declared = manifest["integrity"]["sha256"].as_str().unwrap_or_default();
        match declared.parse::<Digest>() == Ok(growing.hasher.finish()) {
            true => Ok(growing),
            false => Err(damaged()),
        }
    }

    fn read(&mut self, mut lines: Lines, id: &str) -> io::Result<()> {
        while let Some((_, line)) = lines.next_line()? {
            // Every line of ours ends; of one that does not, the hash is another.
            self.hasher.update(line).update(b"\n");
            self.bytes += line.len() as u64 + 1;
            if let Ok(record) = serde_json::from_slice::<Value>(line) {
                self.known.extend(record[id].as_str().map(IdKey::of));
                self.tally.add(&record);
            }
        }
        Ok(())
    }

    /// Lines that follow.
    fn write(&mut self, target: Target<'_>, lines: &str) -> Result<(), ImportError> {
        if lines.is_empty() {
            return Ok(());
        }
        let (path, at) = match self.temporary.take() {
            Some(temporary) => temporary,
            None => (self.begin(target)?, self.bytes),
        };
        let written = target.disk.open(&path, Open::ReadWrite);
        let written = written.and_then(|file| file.write_all_at(lines.as_bytes(), at));
        self.temporary = Some((path.clone(), at + lines.len() as u64));
        written.map_err(disk_error("write", &path))?;
        self.hasher.update(lines);
        Ok(())
    }

    /// A copy of what is there.
    fn begin(&self, target: Target<'_>) -> Result<PathBuf, ImportError> {
        let name = self.data.file_name().unwrap_or_default().to_string_lossy();
        let path = self.data.with_file_name(format!(".{name}.tmp"));
        let folder = self.data.parent().unwrap_or(target.root);
        target.disk.create_dir_all(folder).map_err(disk_error("create", folder))?;
        target.disk.remove_file(&path).map_err(disk_error("remove", &path))?;
        let new = target.disk.open(&path, Open::CreateNew(MODE));
        let new = new.map_err(disk_error("create", &path))?;
        if self.bytes > 0 {
            let old = target.disk.open(&self.data, Open::Read);
            let copied = old.and_then(|old| copy(&old, &new, self.bytes));
            copied.map_err(disk_error("copy", &self.data))?;
        }
        Ok(path)
    }

    /// Puts what was written in the place of what is there, and its manifest after it.
    fn show(&self, target: Target<'_>, family: Family, partition: &str) -> Result<(), ImportError> {
        let Some((temporary, bytes)) = &self.temporary else { return Ok(()) };
        let hash = self.hasher.finish().hex();
        let manifest = match family {
            Family::Chunks => self.tally.chunk_manifest(target, partition, &hash, *bytes),
            Family::Sessions => self.tally.session_manifest(target, partition, &hash, *bytes),
            _ => self.tally.event_manifest(target, partition, &hash, *bytes),
        };
        let manifest = to_file(&manifest).expect("a JSON value always serializes");
        let synced = target.disk.open(temporary, Open::ReadWrite).and_then(|file| file.sync());
        synced.map_err(disk_error("sync", temporary))?;
        let renamed = target.disk.rename(temporary, &self.data);
        renamed.map_err(disk_error("rename", &self.data))?;
        let folder = self.data.parent().unwrap_or(target.root);
        target.disk.sync_dir(folder).map_err(disk_error("sync", folder))?;
        let path = target.root.join(family.manifest_path(partition));
        let folder = path.parent().unwrap_or(target.root);
        target.disk.create_dir_all(folder).map_err(disk_error("create", folder))?;
        let replaced = target.disk.replace(&path, manifest.as_bytes(), MODE);
        replaced.map_err(disk_error("write", &path))
    }
}

fn copy(from: &Arc<dyn DiskFile>, to: &Arc<dyn DiskFile>, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; WRITE_BYTES];
    let mut at = 0;
    while at < bytes {
        let wanted = buffer.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        match from.read_at(&mut buffer[..wanted], at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                to.write_all_at(&buffer[..count], at)?;
                at += count as u64;
            }
        }
    }
    Ok(())
}

/// What a manifest says of its records.
#[derive(Default)]
struct Tally {
    records: u64,
    by_field: BTreeMap<&'static str, BTreeMap<String, u64>>,
    subkinds: BTreeSet<String>,
    documents: HashSet<IdKey>,
    referenced: u64,
}

impl Tally {
    fn add(&mut self, record: &Value) {
        self.records += 1;
        for field in ["role", "event_kind", "domain_family"] {
            let Some(word) = record[field].as_str() else { continue };
            let counts = self.by_field.entry(field).or_default();
            match counts.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(counts.insert(word.to_owned(), 1)),
            }
        }
        if let Some(subkind) = record["event_subkind"].as_str()
            && !self.subkinds.contains(subkind)
        {
            self.subkinds.insert(subkind.to_owned());
        }
        self.documents.extend(record["document_id"].as_str().map(IdKey::of));
        self.referenced += record["event_count"].as_u64().unwrap_or_default();
    }

    fn event_manifest(&self, target: Target<'_>, day: &str, hash: &str, bytes: u64) -> Value {
        let other = || BTreeSet::from(["other"]);
        let count = |field: &str| self.by_field.get(field).cloned().unwrap_or_default();
        let by_kind = count("event_kind");
        let mut kinds = other();
        kinds.extend(by_kind.keys().map(String::as_str));
        let mut subkinds = other();
        subkinds.extend(self.subkinds.iter().map(String::as_str));
        json!({
            "schema_version": "event_manifest.v2",
            "bus_schema_version": "event.v1",
            "day": day,
            "daily_path": Family::Events.data_path(day),
            "counts": {
                "events_total": self.records,
                "events_by_role": count("role"),
                "events_by_kind": by_kind,
                "events_by_domain": count("domain_family"),
            },
            "kind_registry": {"allowed_kinds": kinds, "allowed_subkinds": subkinds},
            "integrity": {"sha256": hash, "bytes": bytes, "lines": self.records},
            "producer": producer(),
            "generated_at": target.now.to_string(),
            "warnings": [],
        })
    }

    fn session_manifest(&self, target: Target<'_>, day: &str, hash: &str, bytes: u64) -> Value {
        json!({
            "schema_version": "sessions_manifest.v1",
            "bus_schema_version": "session.v1",
            "day": day,
            "sessions_path": Family::Sessions.data_path(day),
            "counts": {
                "sessions_total": self.records,
                "events_total_referenced": self.referenced,
            },
            "integrity": {"sha256": hash, "bytes": bytes, "lines": self.records},
            "producer": producer(),
            "generated_at": target.now.to_string(),
            "warnings": [],
        })
    }

    fn chunk_manifest(&self, target: Target<'_>, partition: &str, hash: &str, bytes: u64) -> Value {
        json!({
            "schema_version": "chunks_manifest.v1",
            "partition_key": partition,
            "created_at": target.now.to_string(),
            "producer": producer(),
            "counts": {
                "documents_processed": self.documents.len(),
                "chunks_emitted": self.records,
                "failures": 0,
            },
            "checksums": {Family::Chunks.data_path(partition): hash},
            "integrity": {"sha256": hash, "bytes": bytes, "lines": self.records},
            "idempotency": {"skipped": 0},
            "errors": {},
            "chunking_policy_id": CHUNKING_POLICY,
        })
    }
}

fn producer() -> Value {
    json!({"name": PRODUCER, "repo": "summarizer", "version": env!("CARGO_PKG_VERSION")})
}
