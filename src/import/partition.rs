//! Appending to a partition of ours: what is there stays, what is new goes to the end, and the
//! manifest is written again. Nothing changes when nothing is new.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Value, json};

use super::{ImportError, PRODUCER, Report, Target, disk_error};
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::{jcs, to_file};
use crate::contract::time::Day;
use crate::upstream::Family;

const MODE: u32 = 0o640;

/// A record on its way into a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    /// What new records of a partition are sorted by.
    pub order: i64,
    /// Its id.
    pub id: String,
    /// The whole record.
    pub value: Value,
}

/// Appends events to their days.
pub fn append_events(
    target: Target<'_>,
    events: BTreeMap<Day, Vec<NewRecord>>,
    report: &mut Report,
) -> Result<(), ImportError> {
    for (day, records) in events {
        append(target, Family::Events, &day.to_string(), records, report)?;
    }
    Ok(())
}

/// Appends chunks to one partition.
pub fn append_chunks(
    target: Target<'_>,
    partition: &str,
    chunks: Vec<NewRecord>,
    report: &mut Report,
) -> Result<(), ImportError> {
    append(target, Family::Chunks, partition, chunks, report)
}

fn append(
    target: Target<'_>,
    family: Family,
    partition: &str,
    mut records: Vec<NewRecord>,
    report: &mut Report,
) -> Result<(), ImportError> {
    let mut data = existing(target, family, partition)?;
    let id_field = match family {
        Family::Events => "event_id",
        Family::Sessions => "session_id",
        Family::Chunks => "chunk_id",
    };
    let mut known: HashSet<String> = records_of(&data)
        .filter_map(|record| record[id_field].as_str().map(str::to_owned))
        .collect();
    records.sort_by(|a, b| (a.order, &a.id).cmp(&(b.order, &b.id)));
    let mut added = 0;
    for record in records {
        if known.insert(record.id) {
            data.push_str(&jcs(&record.value));
            data.push('\n');
            added += 1;
        } else {
            report.known += 1;
        }
    }
    if added == 0 {
        return Ok(());
    }
    let manifest = match family {
        Family::Chunks => chunk_manifest(target, partition, &data),
        _ => event_manifest(target, partition, &data),
    };
    let manifest = to_file(&manifest).expect("a JSON value always serializes");
    for (path, bytes) in [
        (family.data_path(partition), data.as_bytes()),
        (family.manifest_path(partition), manifest.as_bytes()),
    ] {
        let path = target.root.join(path);
        let folder = path.parent().unwrap_or(target.root);
        target.disk.create_dir_all(folder).map_err(disk_error("create", folder))?;
        target.disk.replace(&path, bytes, MODE).map_err(disk_error("write", &path))?;
    }
    report.added += added;
    report.changed(family.data_path(partition));
    Ok(())
}

/// What the manifest of a partition of ours covers; bytes after that are of an interrupted import.
fn existing(target: Target<'_>, family: Family, partition: &str) -> Result<String, ImportError> {
    let data_path = family.data_path(partition);
    let foreign = || ImportError::Foreign { path: data_path.clone() };
    let damaged = || ImportError::Damaged { path: data_path.clone() };
    let read = |path: &str| {
        let path = target.root.join(path);
        target.disk.read_if_present(&path).map_err(disk_error("read", &path))
    };
    let data = read(&data_path)?;
    let Some(manifest) = read(&family.manifest_path(partition))? else {
        // Data without a manifest: a first import that was interrupted, or somebody at work.
        return match data {
            Some(data) if !data.is_empty() => Err(foreign()),
            _ => Ok(String::new()),
        };
    };
    let manifest: Value = serde_json::from_slice(&manifest).map_err(|_| foreign())?;
    if manifest["producer"]["name"] != PRODUCER {
        return Err(foreign());
    }
    let mut data = data.ok_or_else(damaged)?;
    let covered = manifest["integrity"]["bytes"].as_u64().unwrap_or_default();
    data.truncate(usize::try_from(covered).unwrap_or(usize::MAX));
    let declared = manifest["integrity"]["sha256"].as_str().unwrap_or_default();
    if declared.parse::<Digest>() != Ok(sha256(&data)) {
        return Err(damaged());
    }
    String::from_utf8(data).map_err(|_| damaged())
}

fn records_of(data: &str) -> impl Iterator<Item = Value> + '_ {
    data.lines().filter_map(|line| serde_json::from_str(line).ok())
}

fn producer() -> Value {
    json!({"name": PRODUCER, "repo": "summarizer", "version": env!("CARGO_PKG_VERSION")})
}

fn event_manifest(target: Target<'_>, day: &str, data: &str) -> Value {
    let mut counts: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
    let mut kinds: BTreeSet<String> = BTreeSet::from(["other".to_owned()]);
    let mut subkinds = kinds.clone();
    let mut total = 0_u64;
    for event in records_of(data) {
        total += 1;
        for field in ["role", "event_kind", "domain_family"] {
            if let Some(word) = event[field].as_str() {
                *counts.entry(field).or_default().entry(word.to_owned()).or_default() += 1;
            }
        }
        kinds.extend(event["event_kind"].as_str().map(str::to_owned));
        subkinds.extend(event["event_subkind"].as_str().map(str::to_owned));
    }
    let count = |field: &str| counts.get(field).cloned().unwrap_or_default();
    json!({
        "schema_version": "event_manifest.v2",
        "bus_schema_version": "event.v1",
        "day": day,
        "daily_path": Family::Events.data_path(day),
        "counts": {
            "events_total": total,
            "events_by_role": count("role"),
            "events_by_kind": count("event_kind"),
            "events_by_domain": count("domain_family"),
        },
        "kind_registry": {"allowed_kinds": kinds, "allowed_subkinds": subkinds},
        "integrity": {"sha256": sha256(data).hex(), "bytes": data.len(), "lines": total},
        "producer": producer(),
        "generated_at": target.now.to_string(),
        "warnings": [],
    })
}

fn chunk_manifest(target: Target<'_>, partition: &str, data: &str) -> Value {
    let mut documents = BTreeSet::new();
    let mut total = 0_u64;
    for chunk in records_of(data) {
        total += 1;
        documents.extend(chunk["document_id"].as_str().map(str::to_owned));
    }
    let path = Family::Chunks.data_path(partition);
    let hash = sha256(data).hex();
    json!({
        "schema_version": "chunks_manifest.v1",
        "partition_key": partition,
        "created_at": target.now.to_string(),
        "producer": producer(),
        "counts": {
            "documents_processed": documents.len(), "chunks_emitted": total, "failures": 0,
        },
        "checksums": {path: hash},
        "integrity": {"sha256": hash, "bytes": data.len(), "lines": total},
        "idempotency": {"skipped": 0},
        "errors": {},
        "chunking_policy_id": super::documents::CHUNKING_POLICY,
    })
}
