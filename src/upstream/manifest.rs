//! Partition manifests of the upstream buses: event manifests v1 and v2, session and chunk
//! manifests. Reading is tolerant of the shapes the contract leaves open and strict about what it
//! fixes: version, partition, counts and hash.

use std::collections::BTreeMap;

use serde_json::Value;

use super::defect::Defect;
use super::family::Family;
use crate::contract::hash::{Digest, sha256};
use crate::contract::vocabulary::Stream;

/// A manifest that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionManifest {
    pub family: Family,
    /// The partition key, a day for events and sessions.
    pub partition: String,
    /// Where the manifest lies, relative to the bus home.
    pub path: String,
    /// Hash of the manifest file.
    pub sha256: Digest,
    /// Version of the manifest itself.
    pub schema_version: String,
    /// Where the data file lies, relative to the bus home.
    pub data_path: String,
    /// Declared hash of the data file.
    pub data_sha256: Digest,
    /// Declared length of the data file.
    pub bytes: Option<u64>,
    /// Declared number of lines.
    pub lines: Option<u64>,
    /// Declared number of records.
    pub records: Option<u64>,
    /// Declared counts by a field of the record, such as `role`.
    pub(crate) breakdowns: BTreeMap<String, BTreeMap<String, u64>>,
    /// The kinds this file may hold; `None` when the manifest does not close the set.
    pub allowed_kinds: Option<Vec<String>>,
    /// The subkinds this file may hold.
    pub allowed_subkinds: Option<Vec<String>>,
}

const EVENT_VERSIONS: &[&str] = &["event_manifest.v1", "event_manifest.v2"];
const SESSION_VERSIONS: &[&str] = &["sessions_manifest.v1"];
const CHUNK_VERSIONS: &[&str] = &["chunk*.v1"];
/// The subtype of data in a format that is not read.
pub(super) const UNSUPPORTED_FORMAT: &str = "UNSUPPORTED_FORMAT";
/// The ending of the other format that producers may choose.
pub(super) const PARQUET: &str = ".parquet";

/// Reads a manifest; `name` is its file name.
pub fn parse(
    family: Family,
    partition: &str,
    name: &str,
    bytes: &[u8],
) -> Result<PartitionManifest, Defect> {
    let path = format!("{}/{name}", family.manifest_dir());
    let reader = Reader { family, path: &path };
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| reader.schema(None, format!("not JSON: {error}")))?;
    if !value.is_object() {
        return Err(reader.schema(None, "not a JSON object".to_owned()));
    }
    let schema_version = reader.string(&value, "/schema_version")?;
    reader.check_version(&schema_version)?;
    reader.check_partition(&value, partition)?;
    let (data_sha256, bytes_declared) = reader.integrity(&value, partition)?;
    Ok(PartitionManifest {
        family,
        partition: partition.to_owned(),
        sha256: sha256(bytes),
        schema_version,
        data_path: family.data_path(partition),
        data_sha256,
        bytes: bytes_declared,
        lines: value.pointer("/integrity/lines").and_then(Value::as_u64),
        records: reader.records(&value)?,
        breakdowns: breakdowns(&value),
        allowed_kinds: words(value.pointer("/kind_registry/allowed_kinds")),
        allowed_subkinds: words(value.pointer("/kind_registry/allowed_subkinds")),
        path,
    })
}

struct Reader<'a> {
    family: Family,
    path: &'a str,
}

impl Reader<'_> {
    fn schema(&self, seen: Option<&str>, summary: String) -> Defect {
        self.defect(self.family.schema_subtype(), seen, summary)
    }

    fn defect(&self, subtype: &str, seen: Option<&str>, summary: String) -> Defect {
        let family = self.family.artifact_family();
        Defect::schema(subtype, family, seen, self.versions(), summary, self.path.to_owned())
    }

    fn versions(&self) -> &'static [&'static str] {
        match self.family {
            Family::Events => EVENT_VERSIONS,
            Family::Sessions => SESSION_VERSIONS,
            Family::Chunks => CHUNK_VERSIONS,
            Family::Summaries(Stream::Events) => &["events_summary_manifest.v1"],
            Family::Summaries(Stream::Sessions) => &["sessions_summary_manifest.v1"],
            Family::Summaries(Stream::Documents) => &["documents_summary_manifest.v1"],
            Family::Summaries(Stream::ChunkSets) => &["chunk_sets_summary_manifest.v1"],
        }
    }

    fn string(&self, value: &Value, pointer: &str) -> Result<String, Defect> {
        match value.pointer(pointer).and_then(Value::as_str) {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(self.schema(None, format!("{pointer} is not a non-empty string"))),
        }
    }

    fn check_version(&self, seen: &str) -> Result<(), Defect> {
        // The contract names no version for chunk manifests, so any first version of a chunk
        // manifest is taken, and nothing later.
        let supported = match self.family {
            Family::Chunks => seen.starts_with("chunk") && seen.ends_with(".v1"),
            _ => self.versions().contains(&seen),
        };
        if supported {
            return Ok(());
        }
        let summary = format!("manifest version {seen} is not supported");
        Err(self.defect("SCHEMA_VERSION_UNSUPPORTED", Some(seen), summary))
    }

    fn check_partition(&self, value: &Value, partition: &str) -> Result<(), Defect> {
        if self.family != Family::Chunks || value.get("bus_schema_version").is_some() {
            let seen = self.string(value, "/bus_schema_version")?;
            if !self.family.record_versions().contains(&seen.as_str()) {
                let summary = format!("record version {seen} is not supported");
                return Err(self.defect("SCHEMA_VERSION_UNSUPPORTED", Some(&seen), summary));
            }
        }
        let key = match self.family {
            Family::Events | Family::Sessions | Family::Summaries(_) => "/day",
            Family::Chunks => "/partition_key",
        };
        let seen = self.string(value, key)?;
        if seen != partition {
            return Err(self.mismatch(format!("{key} is {seen}, the file name says {partition}")));
        }
        let named = match self.family {
            Family::Events => value.get("daily_path"),
            Family::Sessions => value.get("sessions_path"),
            Family::Summaries(_) => value.get("data_path"),
            Family::Chunks => None,
        };
        let wanted = self.family.data_name(partition);
        match named.and_then(Value::as_str) {
            // Upstream may also publish Parquet, which this program does not read.
            Some(path) if path.ends_with(PARQUET) => {
                let summary = format!("the data file {path} is not JSON lines; publish {wanted}");
                Err(self.defect(UNSUPPORTED_FORMAT, None, summary))
            }
            // Only the name is compared: a manifest never leads us out of the bus.
            Some(path) if path.rsplit('/').next() != Some(wanted.as_str()) => {
                Err(self.mismatch(format!("the data path {path} does not name {wanted}")))
            }
            None if self.family != Family::Chunks => {
                Err(self.schema(None, "the path of the data file is missing".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn mismatch(&self, message: String) -> Defect {
        let subtype = self.family.mismatch_subtype();
        let message = format!("{}: {message}", self.path);
        Defect::integrity(subtype, self.path, (None, None), (None, None), message)
    }

    fn integrity(&self, value: &Value, partition: &str) -> Result<(Digest, Option<u64>), Defect> {
        let declared = value.pointer("/integrity/sha256").and_then(Value::as_str);
        let bytes = value.pointer("/integrity/bytes").and_then(Value::as_u64);
        if self.family != Family::Chunks && bytes.is_none() {
            return Err(self.schema(None, "/integrity/bytes is not an integer".to_owned()));
        }
        let name = self.family.data_name(partition);
        let declared = match self.family {
            Family::Chunks => checksum(value.get("checksums"), &name).or(declared),
            _ => declared,
        };
        let digest = declared.and_then(|text| text.parse().ok());
        digest
            .map(|digest| (digest, bytes))
            .ok_or_else(|| self.schema(None, "no sha256 of the data file".to_owned()))
    }

    fn records(&self, value: &Value) -> Result<Option<u64>, Defect> {
        let keys: &[&str] = match self.family {
            Family::Events => &["events_total"],
            Family::Sessions => &["sessions_total"],
            Family::Summaries(_) => &["produced"],
            Family::Chunks => &["chunks_emitted", "chunks_total", "records_total"],
        };
        let counts = value.get("counts");
        let found = keys.iter().find_map(|key| counts?.get(key)?.as_u64());
        if found.is_none() && self.family != Family::Chunks {
            return Err(self.schema(None, format!("/counts/{} is not an integer", keys[0])));
        }
        Ok(found)
    }
}

/// `checksums` comes as one string, a map from path to hash, or a list of `{path, sha256}`.
fn checksum<'a>(checksums: Option<&'a Value>, name: &str) -> Option<&'a str> {
    let names_it = |path: &str| path.rsplit('/').next() == Some(name);
    match checksums? {
        Value::String(text) => Some(text),
        Value::Object(map) => {
            let by_name = map.iter().find(|(path, _)| names_it(path)).map(|(_, hash)| hash);
            by_name.or_else(|| map.get("sha256"))?.as_str()
        }
        Value::Array(list) => list
            .iter()
            .find(|entry| entry.get("path").and_then(Value::as_str).is_some_and(names_it))?
            .get("sha256")?
            .as_str(),
        _ => None,
    }
}

fn breakdowns(value: &Value) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for (key, field) in [
        ("events_by_role", "role"),
        ("events_by_kind", "event_kind"),
        ("events_by_domain", "domain_family"),
    ] {
        let map = value.get("counts").and_then(|counts| counts.get(key)).and_then(Value::as_object);
        if let Some(map) = map {
            let counts =
                map.iter().filter_map(|(word, count)| Some((word.clone(), count.as_u64()?)));
            found.insert(field.to_owned(), counts.collect());
        }
    }
    found
}

/// A closed set comes as a list, or as a map whose values are lists.
fn words(value: Option<&Value>) -> Option<Vec<String>> {
    let strings = |list: &Vec<Value>| -> Vec<String> {
        list.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    match value? {
        Value::Array(list) => Some(strings(list)),
        Value::Object(map) => {
            Some(map.values().filter_map(Value::as_array).flat_map(strings).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::vocabulary::ErrorClass;
    use serde_json::json;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn event_v2() -> Value {
        json!({
            "schema_version": "event_manifest.v2", "bus_schema_version": "event.v1",
            "day": "2026-02-11", "daily_path": "/elsewhere/2026-02-11.jsonl",
            "counts": {"events_total": 3, "events_by_kind": {"chat_turn": 3}, "events_by_domain": {}},
            "kind_registry": {"allowed_kinds": ["chat_turn", "other"], "allowed_subkinds": {"chat_turn": ["user_message", "other"]}},
            "integrity": {"sha256": format!("sha256:{HASH}"), "bytes": 10, "lines": 3}
        })
    }

    fn read(family: Family, partition: &str, value: &Value) -> Result<PartitionManifest, Defect> {
        parse(family, partition, "m.manifest.json", value.to_string().as_bytes())
    }

    #[test]
    fn both_event_versions_are_read() {
        let v2 = read(Family::Events, "2026-02-11", &event_v2()).unwrap();
        assert_eq!((v2.records, v2.lines, v2.bytes), (Some(3), Some(3), Some(10)));
        assert_eq!(v2.data_sha256.hex(), HASH);
        assert_eq!(v2.breakdowns["event_kind"]["chat_turn"], 3);
        assert_eq!(v2.allowed_subkinds.unwrap(), ["user_message", "other"]);

        let v1 = json!({
            "schema_version": "event_manifest.v1", "bus_schema_version": "event.v1",
            "day": "2026-02-11", "daily_path": "eventbus/daily/2026-02-11.jsonl",
            "counts": {"events_total": 2, "events_by_role": {"user": 1, "assistant": 1}},
            "integrity": {"sha256": HASH, "bytes": 10}
        });
        let v1 = read(Family::Events, "2026-02-11", &v1).unwrap();
        assert_eq!((v1.lines, v1.allowed_kinds.is_none()), (None, true));
        assert_eq!(v1.breakdowns["role"].len(), 2);
    }

    #[test]
    fn chunk_checksums_come_in_three_shapes() {
        let name = "chunks/canonical/books.jsonl";
        for checksums in [
            json!(HASH),
            json!({name: format!("sha256:{HASH}")}),
            json!([{"path": name, "sha256": HASH}]),
        ] {
            let manifest = json!({
                "schema_version": "chunks_manifest.v1", "partition_key": "books",
                "created_at": "2026-02-11T00:00:00Z", "producer": "p", "checksums": checksums,
                "counts": {"chunks_emitted": 4, "documents_processed": 1, "failures": 0}
            });
            let manifest = read(Family::Chunks, "books", &manifest).unwrap();
            assert_eq!((manifest.data_sha256.hex().as_str(), manifest.records), (HASH, Some(4)));
        }
    }

    #[test]
    fn each_fault_has_its_class_and_code() {
        let cases: Vec<(&str, Value, ErrorClass, &str)> = vec![
            (
                "/schema_version",
                json!("event_manifest.v9"),
                ErrorClass::SchemaMismatch,
                "SCHEMA_VERSION_UNSUPPORTED",
            ),
            (
                "/bus_schema_version",
                json!("event.v9"),
                ErrorClass::SchemaMismatch,
                "SCHEMA_VERSION_UNSUPPORTED",
            ),
            ("/day", json!("2026-02-12"), ErrorClass::IntegrityMismatch, "MANIFEST_MISMATCH"),
            (
                "/daily_path",
                json!("other.jsonl"),
                ErrorClass::IntegrityMismatch,
                "MANIFEST_MISMATCH",
            ),
            (
                "/daily_path",
                json!("eventbus/daily/2026-02-11.parquet"),
                ErrorClass::SchemaMismatch,
                "UNSUPPORTED_FORMAT",
            ),
            (
                "/counts/events_total",
                json!("3"),
                ErrorClass::SchemaMismatch,
                "EVENTBUS_SCHEMA_MISMATCH",
            ),
            (
                "/integrity/sha256",
                json!("12"),
                ErrorClass::SchemaMismatch,
                "EVENTBUS_SCHEMA_MISMATCH",
            ),
            (
                "/integrity/bytes",
                json!(null),
                ErrorClass::SchemaMismatch,
                "EVENTBUS_SCHEMA_MISMATCH",
            ),
        ];
        for (pointer, value, class, subtype) in cases {
            let mut manifest = event_v2();
            *manifest.pointer_mut(pointer).unwrap() = value;
            let defect = read(Family::Events, "2026-02-11", &manifest).unwrap_err();
            assert_eq!((defect.class, defect.subtype.as_str()), (class, subtype), "{pointer}");
        }
        for bytes in [&b"{"[..], b"[]"] {
            let defect = parse(Family::Events, "d", "d.manifest.json", bytes).unwrap_err();
            assert_eq!(defect.class, ErrorClass::SchemaMismatch);
        }
    }
}
