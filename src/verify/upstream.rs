//! One upstream partition: its manifest, its lines, and what they refer to.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;

use serde_json::Value;

use super::rules::{self, Rule};
use super::spread::{self, Helpers, LineBlock};
use super::{Report, Tree};
use crate::contract::hash::Digest;
use crate::contract::schema;
use crate::contract::vocabulary::{ErrorClass, ReasonCode};
use crate::upstream::index::IdKey;
use crate::upstream::lines::Lines;
use crate::upstream::manifest::{self, PartitionManifest};
use crate::upstream::record::{BadRecord, ChunkRecord, EventHead, SessionRecord, SummaryRecord};
use crate::upstream::{Family, recompute};

/// The rules of one family.
#[derive(Clone, Copy)]
struct FamilyRules {
    json: &'static Rule,
    schema: &'static Rule,
    duplicate: &'static Rule,
    record: &'static str,
}

fn rules_of(family: Family) -> FamilyRules {
    match family {
        Family::Events => FamilyRules {
            json: &rules::EVENT_LINE_JSON,
            schema: &rules::EVENT_LINE_SCHEMA,
            duplicate: &rules::EVENT_DUPLICATE,
            record: "event.v1",
        },
        Family::Sessions => FamilyRules {
            json: &rules::SESSION_LINE_JSON,
            schema: &rules::SESSION_LINE_SCHEMA,
            duplicate: &rules::SESSION_DUPLICATE,
            record: "session.v1",
        },
        Family::Chunks => FamilyRules {
            json: &rules::CHUNK_LINE_JSON,
            schema: &rules::CHUNK_LINE_SCHEMA,
            duplicate: &rules::CHUNK_DUPLICATE,
            record: "chunks.v1",
        },
        Family::Summaries(stream) => FamilyRules {
            json: &rules::SUMMARY_LINE_JSON,
            schema: &rules::SUMMARY_LINE_SCHEMA,
            duplicate: &rules::SUMMARY_DUPLICATE,
            record: stream.item_version(),
        },
    }
}

pub(super) fn check<'t>(
    tree: &'t Tree<'t>,
    family: Family,
    partition: &str,
    helpers: &Helpers<'t>,
    report: &mut Report,
) -> io::Result<()> {
    let data_path = family.data_path(partition);
    let mut found = None;
    for name in family.manifest_names(partition) {
        let path = tree.root.join(family.manifest_dir()).join(&name);
        match tree.disk.read_beneath(tree.root, &path) {
            Ok(Some(bytes)) => {
                found = Some((name, bytes));
                break;
            }
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => return Err(error),
            Err(error) => {
                let path = format!("{}/{name}", family.manifest_dir());
                let message = format!("{path} cannot be read: {error}");
                report.break_rule(&rules::UPSTREAM_NO_MANIFEST, &path, None, "", message);
                return Ok(());
            }
            Ok(None) => {}
        }
    }
    let manifest = match &found {
        None => {
            let message = format!("{} is missing", family.manifest_path(partition));
            report.break_rule(&rules::UPSTREAM_NO_MANIFEST, &data_path, None, "", message);
            None
        }
        Some((name, bytes)) => read_manifest(family, partition, name, bytes, report).map(Arc::new),
    };
    let file = match tree.disk.open_beneath(tree.root, &tree.root.join(&data_path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let message = format!("{data_path} cannot be read: {error}");
            report.break_rule(&rules::UPSTREAM_NO_DATA, &data_path, None, "", message);
            return Ok(());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = found.map_or_else(
                || family.manifest_path(partition),
                |(name, _)| format!("{}/{name}", family.manifest_dir()),
            );
            let message = format!("{data_path} is missing");
            report.break_rule(&rules::UPSTREAM_NO_DATA, &path, None, "", message);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let len = file.stat()?.len;
    // What was appended after the manifest was written is not part of the partition yet.
    let declared = manifest.as_ref().and_then(|manifest| manifest.bytes);
    let readable = declared.map_or(len, |declared| declared.min(len));
    let check = Checker {
        tree,
        rules: rules_of(family),
        family,
        partition: partition.into(),
        path: data_path.as_str().into(),
        manifest: manifest.clone(),
    };
    let mut all = AllBlocks::default();
    let duplicate = check.rules.duplicate;
    let block = move |block: &LineBlock| {
        let mut found = Checked::default();
        block.lines().for_each(|(number, bytes)| check.line(number, bytes, &mut found));
        found
    };
    let (bytes, sha256) = spread::over(Lines::new(file, readable), helpers, block, &mut |found| {
        all.take(found, duplicate, &data_path, report);
    })?;
    report.file(bytes);
    if let Some(manifest) = &manifest {
        against(manifest, len, sha256, &all, report);
    }
    Ok(())
}

fn read_manifest(
    family: Family,
    partition: &str,
    name: &str,
    bytes: &[u8],
    report: &mut Report,
) -> Option<PartitionManifest> {
    report.file(bytes.len() as u64);
    let path = format!("{}/{name}", family.manifest_dir());
    match manifest::parse(family, partition, name, bytes) {
        Ok(manifest) => Some(manifest),
        Err(defect) => {
            let rule = match defect.class {
                ErrorClass::IntegrityMismatch => &rules::MANIFEST_NAME,
                _ => &rules::MANIFEST_SCHEMA,
            };
            report.break_rule(rule, &path, None, "", defect.message);
            None
        }
    }
}

#[derive(Clone)]
struct Checker<'t> {
    tree: &'t Tree<'t>,
    rules: FamilyRules,
    family: Family,
    partition: Arc<str>,
    path: Arc<str>,
    manifest: Option<Arc<PartitionManifest>>,
}

/// Counts of words by field.
type Breakdown = BTreeMap<String, BTreeMap<String, u64>>;

/// What a block of a file turned out to be.
#[derive(Default)]
struct Checked {
    report: Report,
    ids: Vec<(u64, IdKey)>,
    observed: Breakdown,
}

/// What all blocks together are.
#[derive(Default)]
struct AllBlocks {
    lines: u64,
    seen: HashSet<IdKey>,
    observed: Breakdown,
}

impl AllBlocks {
    fn take(&mut self, found: Checked, duplicate: &'static Rule, path: &str, report: &mut Report) {
        self.lines += found.report.lines;
        report.merge(found.report);
        for (number, id) in found.ids {
            if !self.seen.insert(id) {
                let message = "an id that was there before".to_owned();
                report.break_rule(duplicate, path, Some(number), "", message);
            }
        }
        for (field, counts) in found.observed {
            let sum = self.observed.entry(field).or_default();
            for (word, count) in counts {
                *sum.entry(word).or_default() += count;
            }
        }
    }
}

impl Checker<'_> {
    fn line(&self, number: u64, bytes: &[u8], found: &mut Checked) {
        found.report.lines += 1;
        let id = match self.family {
            Family::Events => EventHead::parse(bytes).map(|head| {
                self.event(number, &head, found);
                IdKey::of(&head.event_id.0)
            }),
            Family::Sessions => self.session(number, bytes, &mut found.report),
            Family::Chunks => ChunkRecord::parse(bytes).map(|chunk| IdKey::of(&chunk.chunk_id.0)),
            Family::Summaries(stream) => {
                SummaryRecord::parse(bytes, stream).map(|one| IdKey::of(&one.summary_id.0))
            }
        };
        match id {
            Ok(id) => found.ids.push((number, id)),
            Err(error) => self.bad(number, bytes, error, &mut found.report),
        }
    }

    fn event(&self, number: u64, head: &EventHead<'_>, found: &mut Checked) {
        let Some(manifest) = &self.manifest else { return };
        for (field, allowed) in
            [("event_kind", &manifest.allowed_kinds), ("event_subkind", &manifest.allowed_subkinds)]
        {
            if let (Some(allowed), Some(word)) = (allowed, head.field(field))
                && word != "other"
                && !allowed.iter().any(|one| one == word)
            {
                let message = format!("{word} is not in the manifest's kind registry");
                let pointer = format!("/{field}");
                let (rule, report) = (&rules::EVENT_KIND, &mut found.report);
                report.break_rule(rule, &self.path, Some(number), &pointer, message);
            }
        }
        for field in manifest.breakdowns.keys() {
            if let Some(word) = head.field(field) {
                let counts = found.observed.entry(field.clone()).or_default();
                *counts.entry(word.to_owned()).or_default() += 1;
            }
        }
    }

    fn session(&self, number: u64, bytes: &[u8], report: &mut Report) -> Result<IdKey, BadRecord> {
        let session = SessionRecord::parse_any(bytes)?;
        let mut broken = |rule, pointer: &str, message| {
            report.break_rule(rule, &self.path, Some(number), pointer, message);
        };
        if *session.day.0 != *self.partition {
            let message = format!("{} is in the partition of {}", session.day.0, self.partition);
            broken(&rules::SESSION_DAY, "/day", message);
        }
        if session.event_count() != session.event_ids.len() as u64 {
            let message = format!("there are {}", session.event_ids.len());
            broken(&rules::SESSION_COUNT, "/event_count", message);
        }
        if let Some(upstream) = self.tree.upstream {
            let ids: Vec<&str> = session.event_ids.iter().map(String::as_str).collect();
            let prefer = [self.partition.to_string()];
            let unknown = recompute::unknown_events(upstream, &ids, &prefer).unwrap_or_default();
            for id in unknown {
                // An event in a broken partition is the fault of that partition.
                let why = upstream.explain_absence(Family::Events, id);
                if why.reason == ReasonCode::UnknownSourceId {
                    broken(&rules::SESSION_EVENTS, "/event_ids", why.message);
                }
            }
        }
        Ok(IdKey::of(&session.session_id.0))
    }

    fn bad(&self, number: u64, bytes: &[u8], error: BadRecord, report: &mut Report) {
        let message = match error {
            BadRecord::Malformed(message) => {
                let rule = self.rules.json;
                return report.break_rule(rule, &self.path, Some(number), "", message);
            }
            BadRecord::Shape(message) => message,
            BadRecord::Version(seen) => format!("record version {seen} is not supported"),
            BadRecord::Time(ms) => format!("{ms} is outside the plausible window"),
            BadRecord::Provenance(what) => what.replace('_', " "),
        };
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let found = schema::check(self.rules.record, &value);
        let rule = self.rules.schema;
        if found.is_empty() {
            report.break_rule(rule, &self.path, Some(number), "", message);
        }
        for violation in found {
            let pointer = violation.pointer;
            report.break_rule(rule, &self.path, Some(number), &pointer, violation.message);
        }
    }
}

/// Holds the data against its manifest.
fn against(
    manifest: &PartitionManifest,
    len: u64,
    sha256: Digest,
    all: &AllBlocks,
    report: &mut Report,
) {
    let path = &manifest.path;
    let mut broken =
        |rule, pointer: &str, message| report.break_rule(rule, path, None, pointer, message);
    if let Some(declared) = manifest.bytes
        && len < declared
    {
        broken(&rules::MANIFEST_BYTES, "/integrity/bytes", format!("the data has {len} bytes"));
    } else if sha256 != manifest.data_sha256 {
        broken(&rules::MANIFEST_HASH, "/integrity/sha256", format!("the data has {sha256}"));
    }
    for (pointer, declared) in [("/counts", manifest.records), ("/integrity/lines", manifest.lines)]
    {
        if declared.is_some_and(|declared| declared != all.lines) {
            let message = format!("the data has {} records", all.lines);
            broken(&rules::MANIFEST_COUNTS, pointer, message);
        }
    }
    for (field, declared) in &manifest.breakdowns {
        let mut declared = declared.clone();
        declared.retain(|_, count| *count > 0);
        let observed = all.observed.get(field).cloned().unwrap_or_default();
        if declared != observed {
            let message = format!("by {field} there are {observed:?}");
            broken(&rules::EVENT_BREAKDOWN, "/counts", message);
        }
    }
}
