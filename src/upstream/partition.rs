//! Verifying one partition: manifest first, then every byte and every line of its data, in one
//! pass that also builds the id table.
//!
//! Contract: what comes out is either a table over bytes that match their manifest, or the defect
//! that stops every request needing the partition. Bytes appended after the manifest are ignored
//! with a warning; any other difference is a defect.
//!
//! See docs/adr/0009-upstream-lookup-by-verified-partition.md.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::beneath;
use super::defect::Defect;
use super::family::Family;
use super::index::{IdKey, RecordAt, Tables, file_key};
use super::lines::{LineAt, Lines};
use super::manifest::{PARQUET, PartitionManifest, UNSUPPORTED_FORMAT};
use super::record::{BadRecord, ChunkRecord, EventHead, SessionRecord, SummaryRecord, version_of};
use crate::contract::vocabulary::ReasonCode;
use crate::os::{Disk, DiskFile, FileVersion};

/// Verifies the data of a manifest and finds its ids.
pub fn verify(
    disk: &dyn Disk,
    root: &Path,
    manifest: &PartitionManifest,
) -> Result<Tables, Defect> {
    let (file, mark, len) = open(disk, root, manifest)?;
    if let Some(declared) = manifest.bytes
        && len < declared
    {
        let message =
            format!("{} has {len} bytes, its manifest declares {declared}", manifest.data_path);
        return Err(mismatch(manifest, None, (Some(len), Some(declared)), message));
    }
    let readable = manifest.bytes.unwrap_or(len);
    let storage = |error| Defect::storage("read", &manifest.data_path, &error);

    let mut lines = Lines::new(file, readable);
    let mut check = Checker::new(manifest);
    while check.first.is_none() {
        match lines.next_line().map_err(storage)? {
            Some((at, line)) => check.line(at, line),
            None => break,
        }
    }
    let (read, observed) = lines.finish().map_err(storage)?;
    // The hash is the stronger statement: bytes that are not the manifest's explain everything.
    if read != readable || observed != manifest.data_sha256 {
        let message = format!("{} does not match its manifest", manifest.data_path);
        let hash = Some(observed.hex());
        return Err(mismatch(manifest, hash, (Some(read), manifest.bytes), message));
    }
    if let Some(defect) = check.first.take() {
        return Err(defect);
    }
    check.unique()?;
    check.counts()?;
    Ok(Tables {
        manifest_sha256: manifest.sha256,
        data_sha256: observed,
        mark,
        appended: len > readable,
        records: check.records,
        wholes: check.wholes,
    })
}

fn open(
    disk: &dyn Disk,
    root: &Path,
    manifest: &PartitionManifest,
) -> Result<(Arc<dyn DiskFile>, FileVersion, u64), Defect> {
    let file = beneath::open(disk, root, &manifest.data_path)?;
    let file = file.ok_or_else(|| no_data(disk, root, manifest))?;
    let stat =
        file.stat().map_err(|error| Defect::storage("inspect", &manifest.data_path, &error))?;
    if stat.is_dir {
        // Its length means nothing, and is another on every file system.
        let error = std::io::ErrorKind::IsADirectory.into();
        return Err(Defect::storage("read", &manifest.data_path, &error));
    }
    Ok((file, stat.into(), stat.len))
}

/// Missing, or there in a format that is not read.
fn no_data(disk: &dyn Disk, root: &Path, manifest: &PartitionManifest) -> Defect {
    let (family, path) = (manifest.family, &manifest.data_path);
    let other = path.strip_suffix(".jsonl").map(|stem| format!("{stem}{PARQUET}"));
    if let Some(other) = other
        && disk.stat(&root.join(&other)).is_ok_and(|stat| stat.is_some())
    {
        let (name, supported) = (family.artifact_family(), family.record_versions());
        let summary = format!("only JSON lines are read; publish {path}");
        return Defect::schema(UNSUPPORTED_FORMAT, name, None, supported, summary, other);
    }
    let subtype = family.missing_data_subtype();
    Defect::missing(subtype, "data file", path, &manifest.path, ReasonCode::ManifestMismatch)
}

fn mismatch(
    manifest: &PartitionManifest,
    observed_hash: Option<String>,
    counts: (Option<u64>, Option<u64>),
    message: String,
) -> Defect {
    let hashes = (observed_hash, Some(manifest.data_sha256.hex()));
    Defect::integrity(manifest.family.mismatch_subtype(), &manifest.path, hashes, counts, message)
}

struct Checker<'a> {
    manifest: &'a PartitionManifest,
    records: Vec<(IdKey, RecordAt)>,
    wholes: Vec<(IdKey, RecordAt)>,
    /// The last document of each file.
    documents: HashMap<IdKey, IdKey>,
    lines: u64,
    breakdowns: BTreeMap<&'a str, BTreeMap<String, u64>>,
    first: Option<Defect>,
}

impl<'a> Checker<'a> {
    fn new(manifest: &'a PartitionManifest) -> Checker<'a> {
        let breakdowns = manifest.breakdowns.keys().map(|field| (field.as_str(), BTreeMap::new()));
        Checker {
            manifest,
            records: Vec::new(),
            wholes: Vec::new(),
            documents: HashMap::new(),
            lines: 0,
            breakdowns: breakdowns.collect(),
            first: None,
        }
    }

    fn line(&mut self, at: LineAt, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        self.lines += 1;
        if let Err(defect) = self.record(at, line) {
            self.first = Some(defect);
        }
    }

    fn record(&mut self, at: LineAt, line: &[u8]) -> Result<(), Defect> {
        let bad = |error| bad_record(self.manifest, at.line, error);
        let place = RecordAt {
            offset: at.offset,
            len: u32::try_from(at.len).unwrap_or(u32::MAX),
            line: u32::try_from(at.line).unwrap_or(u32::MAX),
        };
        let key = match self.manifest.family {
            Family::Events => {
                let head = EventHead::parse(line).map_err(bad)?;
                self.check_kind(&head, at.line)?;
                for (field, counts) in &mut self.breakdowns {
                    if let Some(word) = head.field(field) {
                        match counts.get_mut(word) {
                            Some(count) => *count += 1,
                            None => drop(counts.insert(word.to_owned(), 1)),
                        }
                    }
                }
                self.wholes.extend(version_of(line).map(|first| (IdKey::of(&first), place)));
                IdKey::of(&head.event_id.0)
            }
            Family::Sessions => {
                let session = SessionRecord::parse(line, &self.manifest.partition).map_err(bad)?;
                IdKey::of(&session.session_id.0)
            }
            Family::Chunks => {
                let chunk = ChunkRecord::parse(line).map_err(bad)?;
                let document = IdKey::of(&chunk.document_id.0);
                self.wholes.push((document, place));
                if let Some(uri) = chunk.source_uri() {
                    let file = IdKey::of(&file_key(&uri));
                    let before = self.documents.insert(file, document);
                    let is_later = before.is_some_and(|before| before != document);
                    self.wholes.extend(is_later.then_some((file, place)));
                }
                IdKey::of(&chunk.chunk_id.0)
            }
            Family::Summaries(stream) => {
                let summary = SummaryRecord::parse(line, stream).map_err(bad)?;
                IdKey::of(&summary.summary_id.0)
            }
        };
        self.records.push((key, place));
        Ok(())
    }

    fn check_kind(&self, head: &EventHead<'_>, line: u64) -> Result<(), Defect> {
        for (field, allowed) in [
            ("event_kind", &self.manifest.allowed_kinds),
            ("event_subkind", &self.manifest.allowed_subkinds),
        ] {
            if let (Some(allowed), Some(word)) = (allowed, head.field(field))
                && word != "other"
                && !allowed.iter().any(|one| one == word)
            {
                let summary = format!("{field} {word} is not in the manifest's kind registry");
                return Err(bad_record(self.manifest, line, BadRecord::Shape(summary)));
            }
        }
        Ok(())
    }

    fn counts(&self) -> Result<(), Defect> {
        for (what, declared) in [("records", self.manifest.records), ("lines", self.manifest.lines)]
        {
            if let Some(declared) = declared
                && declared != self.lines
            {
                let path = &self.manifest.data_path;
                let message =
                    format!("{path} holds {} {what}, its manifest declares {declared}", self.lines);
                return Err(mismatch(
                    self.manifest,
                    None,
                    (Some(self.lines), Some(declared)),
                    message,
                ));
            }
        }
        for (field, observed) in &self.breakdowns {
            // A manifest may list words that do not occur.
            let mut declared = self.manifest.breakdowns[*field].clone();
            declared.retain(|_, count| *count > 0);
            if declared != *observed {
                let message = format!(
                    "{}: counts by {field} are {observed:?}, its manifest declares {declared:?}",
                    self.manifest.data_path
                );
                return Err(mismatch(self.manifest, None, (None, None), message));
            }
        }
        Ok(())
    }

    /// No id occurs twice; the records are sorted for it.
    fn unique(&mut self) -> Result<(), Defect> {
        self.records.sort_unstable_by_key(|(key, at)| (*key, at.offset));
        let twice = self.records.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let Some(line) = twice.map(|pair| pair[1].1.line).min() else { return Ok(()) };
        let subtype = self.manifest.family.duplicate_subtype();
        let message = format!("{}:{line}: repeats an id", self.manifest.data_path);
        let (none, path) = ((None, None), &self.manifest.path);
        Err(Defect::integrity(subtype, path, none, (None, None), message))
    }
}

/// The defect of one line.
pub(crate) fn bad_record(manifest: &PartitionManifest, line: u64, error: BadRecord) -> Defect {
    let family = manifest.family;
    let (subtype, seen, summary) = match error {
        BadRecord::Malformed(summary) => (family.malformed_subtype().to_owned(), None, summary),
        BadRecord::Shape(summary) => (family.schema_subtype().to_owned(), None, summary),
        BadRecord::Time(ms) => {
            ("TIMESTAMP_OUT_OF_RANGE".to_owned(), None, format!("timestamp_ms is {ms}"))
        }
        BadRecord::Provenance(what) => {
            (format!("PROVENANCE_INVALID:{what}"), None, what.replace('_', " "))
        }
        BadRecord::Version(seen) => {
            let summary = format!("record version {seen} is not supported");
            ("SCHEMA_VERSION_UNSUPPORTED".to_owned(), Some(seen), summary)
        }
    };
    let evidence = format!("{}:{line}", manifest.data_path);
    let supported = family.record_versions();
    Defect::schema(
        &subtype,
        family.artifact_family(),
        seen.as_deref(),
        supported,
        summary,
        evidence,
    )
}
