//! One upstream partition: its manifest, its lines, and what they refer to.

use std::collections::{BTreeMap, HashSet};
use std::io;

use serde_json::Value;

use super::rules::{self, Rule};
use super::{Report, Tree};
use crate::contract::hash::Digest;
use crate::contract::schema;
use crate::contract::vocabulary::{ErrorClass, ReasonCode};
use crate::os::Open;
use crate::upstream::index::IdKey;
use crate::upstream::lines::Lines;
use crate::upstream::manifest::{self, PartitionManifest};
use crate::upstream::record::{BadRecord, ChunkRecord, EventHead, SessionRecord};
use crate::upstream::{Family, recompute};

/// The rules of one family.
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
    }
}

/// Checks one partition.
pub(super) fn check(
    tree: &Tree<'_>,
    family: Family,
    partition: &str,
    report: &mut Report,
) -> io::Result<()> {
    let data_path = family.data_path(partition);
    let mut found = None;
    for name in family.manifest_names(partition) {
        let path = tree.root.join(family.manifest_dir()).join(&name);
        if let Some(bytes) = tree.disk.read_if_present(&path)? {
            found = Some((name, bytes));
            break;
        }
    }
    let manifest = match &found {
        None => {
            let message = format!("{} is missing", family.manifest_path(partition));
            report.break_rule(&rules::UPSTREAM_NO_MANIFEST, &data_path, None, "", message);
            None
        }
        Some((name, bytes)) => read_manifest(family, partition, name, bytes, report),
    };
    let file = match tree.disk.open(&tree.root.join(&data_path), Open::Read) {
        Ok(file) => file,
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
    let mut check = Checker {
        tree,
        rules: rules_of(family),
        family,
        partition,
        path: &data_path,
        manifest: manifest.as_ref(),
        seen: HashSet::new(),
        observed: BTreeMap::new(),
        lines: 0,
    };
    let mut lines = Lines::new(file, readable);
    while let Some((at, bytes)) = lines.next_line()? {
        if !bytes.iter().all(u8::is_ascii_whitespace) {
            check.line(at.line, bytes, report);
        }
    }
    let (bytes, sha256) = lines.finish()?;
    report.file(bytes);
    if let Some(manifest) = &manifest {
        check.against(manifest, len, sha256, report);
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

struct Checker<'a> {
    tree: &'a Tree<'a>,
    rules: FamilyRules,
    family: Family,
    partition: &'a str,
    path: &'a str,
    manifest: Option<&'a PartitionManifest>,
    seen: HashSet<IdKey>,
    observed: BTreeMap<String, BTreeMap<String, u64>>,
    lines: u64,
}

impl Checker<'_> {
    fn line(&mut self, number: u64, bytes: &[u8], report: &mut Report) {
        self.lines += 1;
        report.lines += 1;
        let id = match self.family {
            Family::Events => EventHead::parse(bytes).map(|head| {
                self.event(number, &head, report);
                IdKey::of(&head.event_id.0)
            }),
            Family::Sessions => self.session(number, bytes, report),
            Family::Chunks => ChunkRecord::parse(bytes).map(|chunk| IdKey::of(&chunk.chunk_id.0)),
        };
        match id {
            Ok(id) => {
                if !self.seen.insert(id) {
                    let message = "an id that was there before".to_owned();
                    report.break_rule(self.rules.duplicate, self.path, Some(number), "", message);
                }
            }
            Err(error) => self.bad(number, bytes, error, report),
        }
    }

    fn event(&mut self, number: u64, head: &EventHead<'_>, report: &mut Report) {
        let Some(manifest) = self.manifest else { return };
        for (field, allowed) in
            [("event_kind", &manifest.allowed_kinds), ("event_subkind", &manifest.allowed_subkinds)]
        {
            if let (Some(allowed), Some(word)) = (allowed, head.field(field))
                && word != "other"
                && !allowed.iter().any(|one| one == word)
            {
                let message = format!("{word} is not in the manifest's kind registry");
                let pointer = format!("/{field}");
                report.break_rule(&rules::EVENT_KIND, self.path, Some(number), &pointer, message);
            }
        }
        for field in manifest.breakdowns.keys() {
            if let Some(word) = head.field(field) {
                let counts = self.observed.entry(field.clone()).or_default();
                *counts.entry(word.to_owned()).or_default() += 1;
            }
        }
    }

    fn session(&self, number: u64, bytes: &[u8], report: &mut Report) -> Result<IdKey, BadRecord> {
        let session = SessionRecord::parse_any(bytes)?;
        let mut broken = |rule, pointer: &str, message| {
            report.break_rule(rule, self.path, Some(number), pointer, message);
        };
        if session.day.0 != self.partition {
            let message = format!("{} lies in the partition of {}", session.day.0, self.partition);
            broken(&rules::SESSION_DAY, "/day", message);
        }
        if session.event_count() != session.event_ids.len() as u64 {
            let message = format!("there are {}", session.event_ids.len());
            broken(&rules::SESSION_COUNT, "/event_count", message);
        }
        if let Some(upstream) = self.tree.upstream {
            let ids: Vec<&str> = session.event_ids.iter().map(String::as_str).collect();
            let prefer = [self.partition.to_owned()];
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
                return report.break_rule(rule, self.path, Some(number), "", message);
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
            report.break_rule(rule, self.path, Some(number), "", message);
        }
        for violation in found {
            let pointer = violation.pointer;
            report.break_rule(rule, self.path, Some(number), &pointer, violation.message);
        }
    }

    fn against(&self, manifest: &PartitionManifest, len: u64, sha256: Digest, report: &mut Report) {
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
        for (pointer, declared) in
            [("/counts", manifest.records), ("/integrity/lines", manifest.lines)]
        {
            if declared.is_some_and(|declared| declared != self.lines) {
                let message = format!("the data has {} records", self.lines);
                broken(&rules::MANIFEST_COUNTS, pointer, message);
            }
        }
        for (field, declared) in &manifest.breakdowns {
            let mut declared = declared.clone();
            declared.retain(|_, count| *count > 0);
            let observed = self.observed.get(field).cloned().unwrap_or_default();
            if declared != observed {
                let message = format!("by {field} there are {observed:?}");
                broken(&rules::EVENT_BREAKDOWN, "/counts", message);
            }
        }
    }
}
