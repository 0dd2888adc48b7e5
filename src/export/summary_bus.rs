//! One partition of the Summary Bus: its lines, in order, and the manifest that accounts for them.
//!
//! Contract: pure. Lines come in ascending order of `summary_id`, each rendered once when its
//! summary was produced; the writer passes them on, hashes what went by and ends with the manifest.
//! Counts that do not reconcile are an error here, never a file. Everything in a manifest that
//! names a run or a time comes from the caller, who takes it from the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::item::ItemFacts;
use crate::contract::hash::{Digest, Hasher};
use crate::contract::json::{jcs_hash, to_file};
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{Bus, Stream};

/// The folder of the Summary Bus, relative to the bus home.
pub const SUMMARIES_DIR: &str = "summaries";
const CANONICALIZATION: &str = "exact_bytes/jsonl/utf8/lf";

/// One day of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey {
    /// The stream.
    pub stream: Stream,
    /// The day.
    pub day: Day,
}

impl PartitionKey {
    /// The data file, relative to the `summaries` folder.
    pub fn data_file(&self) -> String {
        format!("{0}/{1}.{0}.summary.jsonl", self.stream, self.day)
    }

    /// The manifest, relative to the `summaries` folder.
    pub fn manifest_file(&self) -> String {
        format!("manifest/{}.{}.summary.manifest.json", self.day, self.stream)
    }

    /// The partition a manifest belongs to, by its file name.
    pub fn of_manifest(name: &str) -> Option<PartitionKey> {
        PartitionKey::of(name.strip_suffix(".summary.manifest.json")?)
    }

    /// The partition a data file belongs to, by its file name.
    pub fn of_data(name: &str) -> Option<PartitionKey> {
        PartitionKey::of(name.strip_suffix(".summary.jsonl")?)
    }

    fn of(stem: &str) -> Option<PartitionKey> {
        let (day, stream) = stem.split_once('.')?;
        Some(PartitionKey { stream: Stream::parse(stream)?, day: day.parse().ok()? })
    }
}

/// How the requests of a partition ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests that reached an end.
    pub eligible: u64,
    /// Those that gave a summary.
    pub produced: u64,
    /// Those that rightly gave none.
    pub skipped: u64,
    /// Those that failed.
    pub failed: u64,
}

/// An upstream partition or file that fed a partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionInput {
    /// The data file, relative to the bus home.
    pub path: String,
    /// The bus.
    pub bus: Bus,
    /// The upstream partition; `other` for plain files.
    pub partition: String,
    /// Hash of the data.
    pub data_sha256: Option<Digest>,
    /// The manifest, relative to the bus home.
    pub manifest_path: Option<String>,
    /// Hash of the manifest file.
    pub manifest_sha256: Option<Digest>,
    /// Version of its records.
    pub schema_version: Option<String>,
}

/// A selection manifest that fed a partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectionInput {
    /// Its path, relative to the bus home.
    pub path: String,
    /// Hash of the file.
    pub sha256: Digest,
    /// The hash recorded in it.
    pub selection_hash: String,
}

/// The last event that changed a byte of the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Its run.
    pub run_id: String,
    /// Its time.
    pub at: Timestamp,
    /// Its sequence.
    pub sequence: u64,
    /// The log's head there.
    pub log_head: String,
    /// Version of this program in that run.
    pub summarizer_version: String,
}

/// What the log knows of a partition besides its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionFacts {
    /// How its requests ended.
    pub counts: Counts,
    /// Skipped requests by reason.
    pub skip_reasons: BTreeMap<String, u64>,
    /// Failed requests by reason.
    pub fail_reasons: BTreeMap<String, u64>,
    /// The upstream it was made from.
    pub inputs: Vec<PartitionInput>,
    /// The selections it was made from.
    pub selections: Vec<SelectionInput>,
    /// Who changed it last.
    pub stamp: Stamp,
}

/// A partition that must not be published.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The sink failed.
    #[error("write the lines of a partition")]
    Write(#[from] io::Error),
    /// Lines came out of order or twice.
    #[error("line {next} does not come after {previous}")]
    Order {
        /// The line before.
        previous: String,
        /// The offending line.
        next: String,
    },
    /// A line is not an item.
    #[error("read back an item")]
    NotAnItem(#[source] serde_json::Error),
    /// Counts, reasons and lines disagree.
    #[error("counts of {partition} do not reconcile: {what}")]
    Unreconciled {
        /// Which partition.
        partition: String,
        /// What disagrees.
        what: String,
    },
}

/// Writes the lines of one partition and ends with its manifest.
pub struct PartitionWriter<W: Write> {
    key: PartitionKey,
    sink: W,
    hasher: Hasher,
    bytes: u64,
    lines: u64,
    last_id: String,
    models: BTreeSet<String>,
    prompts: BTreeSet<String>,
    first_ms: Option<i64>,
    last_ms: Option<i64>,
    sources: BTreeMap<&'static str, u64>,
    source_skips: BTreeMap<String, u64>,
}

impl<W: Write> PartitionWriter<W> {
    /// A partition without lines.
    pub fn new(key: PartitionKey, sink: W) -> PartitionWriter<W> {
        PartitionWriter {
            key,
            sink,
            hasher: Hasher::new(),
            bytes: 0,
            lines: 0,
            last_id: String::new(),
            models: BTreeSet::new(),
            prompts: BTreeSet::new(),
            first_ms: None,
            last_ms: None,
            sources: BTreeMap::from([("sources", 0), ("used", 0), ("skipped", 0)]),
            source_skips: BTreeMap::new(),
        }
    }

    /// Appends a line, given without its terminator.
    pub fn push(&mut self, line: &[u8]) -> Result<(), RenderError> {
        let facts = ItemFacts::of(line).map_err(RenderError::NotAnItem)?;
        self.push_known(line, &facts)
    }

    /// Appends a line whose facts the caller kept.
    pub fn push_known(&mut self, line: &[u8], facts: &ItemFacts) -> Result<(), RenderError> {
        if self.lines > 0 && facts.summary_id <= self.last_id {
            let previous = std::mem::take(&mut self.last_id);
            return Err(RenderError::Order { previous, next: facts.summary_id.clone() });
        }
        self.last_id.clone_from(&facts.summary_id);
        self.sink.write_all(line)?;
        self.sink.write_all(b"\n")?;
        self.hasher.update(line).update(b"\n");
        self.bytes += line.len() as u64 + 1;
        self.lines += 1;
        remember(&mut self.models, &facts.model.model_name);
        remember(&mut self.prompts, &facts.prompt.prompt_hash);
        if let Some(ms) = facts.source_time_ms {
            self.first_ms = Some(self.first_ms.map_or(ms, |first| first.min(ms)));
            self.last_ms = Some(self.last_ms.map_or(ms, |last| last.max(ms)));
        }
        let counts = facts.selection.counts;
        for (key, count) in
            [("sources", counts.sources), ("used", counts.used), ("skipped", counts.skipped)]
        {
            *self.sources.entry(key).or_default() += count;
        }
        for (reason, count) in &facts.selection.skip_reasons {
            *self.source_skips.entry(reason.clone()).or_default() += count;
        }
        Ok(())
    }

    /// Ends the partition: the sink and the manifest's bytes.
    pub fn finish(self, facts: &PartitionFacts) -> Result<(W, Vec<u8>), RenderError> {
        self.reconcile(facts)?;
        let manifest = self.manifest(facts);
        let text = to_file(&manifest).map_err(RenderError::NotAnItem)?;
        Ok((self.sink, text.into_bytes()))
    }

    fn reconcile(&self, facts: &PartitionFacts) -> Result<(), RenderError> {
        let counts = facts.counts;
        let sum = |reasons: &BTreeMap<String, u64>| reasons.values().sum::<u64>();
        for (what, left, right) in [
            ("produced is not the number of lines", counts.produced, self.lines),
            ("skip_reasons do not add up", sum(&facts.skip_reasons), counts.skipped),
            ("fail_reasons do not add up", sum(&facts.fail_reasons), counts.failed),
            (
                "eligible is not produced + skipped + failed",
                counts.eligible,
                counts.produced + counts.skipped + counts.failed,
            ),
        ] {
            if left != right {
                return Err(RenderError::Unreconciled {
                    partition: self.key.data_file(),
                    what: format!("{what} ({left}, {right})"),
                });
            }
        }
        Ok(())
    }

    fn manifest(&self, facts: &PartitionFacts) -> Value {
        let (stream, counts, stamp) = (self.key.stream, facts.counts, &facts.stamp);
        let data_path = format!("{SUMMARIES_DIR}/{}", self.key.data_file());
        let hash = self.hasher.finish().hex();
        let time = |ms: Option<i64>| ms.map(|ms| Timestamp(ms).to_string());
        let inputs = sorted(&facts.inputs);
        let mut manifest = json!({
            "schema_version": stream.manifest_version(),
            "bus_schema_version": stream.item_version(),
            "manifest_version": "summary_manifest.v1",
            "artifact_family": "summary_bus",
            "artifact_kind": "daily",
            "schema_version_emitted": stream.item_version(),
            "day": self.key.day.to_string(),
            "data_path": data_path,
            "manifest_path": format!("{SUMMARIES_DIR}/{}", self.key.manifest_file()),
            "paths": {"summaries_path": data_path},
            "run_id": stamp.run_id,
            "created_at": stamp.at.to_string(),
            "sequence": stamp.sequence,
            "log_head": stamp.log_head,
            "producer_name": "summarizer",
            "producer_version": stamp.summarizer_version,
            "producer": {
                "name": "summarizer",
                "summarizer_version": stamp.summarizer_version,
                "run_id": stamp.run_id,
                "model_name": one_or_mixed(&self.models),
                "prompt_hash": one_or_mixed(&self.prompts),
                "model_names": self.models,
                "prompt_hashes": self.prompts,
            },
            "counts": {
                "eligible": counts.eligible,
                "produced": counts.produced,
                "skipped": counts.skipped,
                "failed": counts.failed,
                "records_total": self.lines,
                "records_valid": self.lines,
                "records_invalid": 0,
                "records_dropped": counts.skipped + counts.failed,
            },
            "skip_reasons": facts.skip_reasons,
            "fail_reasons": facts.fail_reasons,
            "source_counts": self.sources,
            "source_skip_reasons": self.source_skips,
            "input": self.input(facts, &inputs),
            "inputs": inputs_value(&inputs, &facts.selections),
            "time_range": {"min_ts": time(self.first_ms), "max_ts": time(self.last_ms)},
            "hashes": {
                "data_hash": hash, "hash_alg": "sha256", "canonicalization": CANONICALIZATION,
            },
            "integrity": {
                "sha256": hash, "bytes": self.bytes, "lines": self.lines,
                "complete": true, "validation_status": "valid",
            },
            "byte_size": self.bytes,
        });
        if inputs.is_empty() && facts.selections.is_empty() {
            manifest["warnings"] = json!(["no upstream manifest was read for this day"]);
        }
        manifest
    }

    /// The stream's own account of its input: one value where all agree, else `mixed` and lists.
    fn input(&self, facts: &PartitionFacts, inputs: &[&PartitionInput]) -> Value {
        let (bus, prefix) = match self.key.stream {
            Stream::Events => (Bus::EventBus, "eventbus_manifest"),
            Stream::Sessions => (Bus::SessionBus, "sessions_manifest"),
            Stream::Documents | Stream::ChunkSets => (Bus::ChunkBus, "chunk_manifest"),
        };
        let mut anchors: BTreeMap<String, String> = inputs
            .iter()
            .filter(|input| input.bus == bus)
            .filter_map(|input| Some((input.partition.clone(), input.manifest_sha256?.hex())))
            .collect();
        let plain = inputs.iter().filter(|input| input.bus == Bus::Other);
        let plain: Vec<_> =
            plain.filter_map(|input| Some((input.path.as_str(), input.data_sha256?))).collect();
        if !plain.is_empty() {
            let hash = listing_hash(plain);
            anchors.insert("other".to_owned(), hash.hex());
        }
        let mut input = serde_json::Map::new();
        let mut put = |key: String, value: Value| {
            input.insert(key, value);
        };
        let days: BTreeSet<String> = anchors.keys().cloned().collect();
        let hashes: Vec<&String> = anchors.values().collect();
        let day = match days.len() {
            0 => self.key.day.to_string(),
            _ => one_or_mixed(&days),
        };
        put(format!("{prefix}_day"), json!(day));
        let hash = match hashes.as_slice() {
            [] => "",
            [only] => only.as_str(),
            _ => "mixed",
        };
        put(format!("{prefix}_sha256"), json!(hash));
        if days.len() > 1 {
            put(format!("{prefix}_days"), json!(days));
            put(format!("{prefix}_sha256s"), json!(hashes));
            if self.key.stream == Stream::Events {
                let range = json!({"start_day": days.first(), "end_day": days.last()});
                put("eventbus_range".to_owned(), range);
            }
        }
        self.selection_input(facts, &mut put);
        Value::Object(input)
    }

    fn selection_input(&self, facts: &PartitionFacts, put: &mut impl FnMut(String, Value)) {
        if facts.selections.is_empty() {
            return;
        }
        for (key, values) in [
            ("selection_manifest_path", distinct(&facts.selections, |one| one.path.clone())),
            ("selection_manifest_sha256", distinct(&facts.selections, |one| one.sha256.hex())),
            ("selection_hash", distinct(&facts.selections, |one| one.selection_hash.clone())),
        ] {
            put(key.to_owned(), json!(one_or_mixed(&values)));
            if values.len() > 1 {
                let plural = format!("{key}{}", if key.ends_with("hash") { "es" } else { "s" });
                put(plural, json!(values));
            }
        }
    }
}

/// Renders a small partition in memory; `lines` in ascending order of id.
pub fn render<'a>(
    key: PartitionKey,
    lines: impl IntoIterator<Item = &'a [u8]>,
    facts: &PartitionFacts,
) -> Result<(Vec<u8>, Vec<u8>), RenderError> {
    let mut writer = PartitionWriter::new(key, Vec::new());
    for line in lines {
        writer.push(line)?;
    }
    writer.finish(facts)
}

/// The hash that stands for a manifest where plain files were read: over their path-sorted list.
pub fn listing_hash<'a>(files: impl IntoIterator<Item = (&'a str, Digest)>) -> Digest {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort();
    files.dedup();
    let list: Vec<_> =
        files.iter().map(|(path, digest)| json!({"path": path, "sha256": digest.hex()})).collect();
    jcs_hash(&json!(list))
}

fn remember(set: &mut BTreeSet<String>, word: &str) {
    // A day has a handful of models and prompts and very many lines.
    if !set.contains(word) {
        set.insert(word.to_owned());
    }
}

fn one_or_mixed(values: &BTreeSet<String>) -> String {
    match values.len() {
        0 => String::new(),
        1 => values.first().cloned().unwrap_or_default(),
        _ => "mixed".to_owned(),
    }
}

fn distinct(
    inputs: &[SelectionInput],
    field: impl Fn(&SelectionInput) -> String,
) -> BTreeSet<String> {
    inputs.iter().map(field).collect()
}

fn sorted(inputs: &[PartitionInput]) -> Vec<&PartitionInput> {
    let mut inputs: Vec<&PartitionInput> = inputs.iter().collect();
    inputs.sort();
    inputs.dedup();
    inputs
}

fn inputs_value(inputs: &[&PartitionInput], selections: &[SelectionInput]) -> Value {
    let mut rows: Vec<(String, Value)> = inputs
        .iter()
        .map(|input| {
            let row = json!({
                "path": input.path,
                "bus": input.bus,
                "partition": input.partition,
                "data_hash": input.data_sha256.map(|hash| hash.hex()).unwrap_or_default(),
                "manifest_path": input.manifest_path.clone().unwrap_or_default(),
                "manifest_hash": input.manifest_sha256.map(|hash| hash.hex()).unwrap_or_default(),
                "schema_version_emitted": input.schema_version,
            });
            (input.path.clone(), row)
        })
        .collect();
    let selections: BTreeSet<&SelectionInput> = selections.iter().collect();
    rows.extend(selections.into_iter().map(|one| {
        let row = json!({
            "path": one.path,
            "bus": "selection_manifests",
            "data_hash": one.sha256.hex(),
            "selection_hash": one.selection_hash,
            "schema_version_emitted": "selection_manifest.v1",
        });
        (one.path.clone(), row)
    }));
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Array(rows.into_iter().map(|(_, row)| row).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::item::tests::sample;
    use super::*;
    use crate::contract::hash::sha256;
    use crate::contract::schema;

    pub(crate) fn facts(produced: u64, inputs: Vec<PartitionInput>) -> PartitionFacts {
        PartitionFacts {
            counts: Counts { eligible: produced + 1, produced, skipped: 1, failed: 0 },
            skip_reasons: BTreeMap::from([("empty_content".to_owned(), 1)]),
            fail_reasons: BTreeMap::new(),
            inputs,
            selections: Vec::new(),
            stamp: Stamp {
                run_id: "run_20260211T000000Z_00000000".to_owned(),
                at: Timestamp(1_770_768_000_000),
                sequence: 9,
                log_head: sha256("head").hex(),
                summarizer_version: "0.1.0".to_owned(),
            },
        }
    }

    fn input(day: &str) -> PartitionInput {
        PartitionInput {
            path: format!("eventbus/daily/{day}.jsonl"),
            bus: Bus::EventBus,
            partition: day.to_owned(),
            data_sha256: Some(sha256("data")),
            manifest_path: Some(format!("eventbus/manifest/{day}.manifest.json")),
            manifest_sha256: Some(sha256(day)),
            schema_version: Some("event.v1".to_owned()),
        }
    }

    pub(crate) fn lines(stream: Stream, count: u32) -> Vec<String> {
        let mut items: Vec<_> = (0..count).map(|number| sample(stream, number)).collect();
        items.sort_by(|a, b| a.summary_id.cmp(&b.summary_id));
        items.iter().map(|item| item.to_line().unwrap()).collect()
    }

    fn key(stream: Stream) -> PartitionKey {
        PartitionKey { stream, day: "2026-02-11".parse().unwrap() }
    }

    #[test]
    fn every_stream_has_a_valid_manifest_full_and_empty() {
        for stream in Stream::ALL {
            for count in [0, 3] {
                let lines = lines(*stream, count);
                let facts = facts(u64::from(count), Vec::new());
                let bytes = lines.iter().map(|line| line.as_bytes());
                let (data, manifest) = render(key(*stream), bytes, &facts).unwrap();
                let manifest: Value = serde_json::from_slice(&manifest).unwrap();
                assert_eq!(schema::check(stream.manifest_version(), &manifest), [], "{stream}");
                assert_eq!(manifest["integrity"]["sha256"], sha256(&data).hex());
                assert_eq!(manifest["counts"]["records_total"], count);
                assert_eq!(manifest["warnings"].as_array().map(Vec::len), Some(1));
                let model = if count == 0 { "" } else { "extractive" };
                assert_eq!(manifest["producer"]["model_name"], model);
            }
        }
    }

    #[test]
    fn several_days_are_mixed_and_listed() {
        let lines = lines(Stream::Events, 1);
        let days = vec![input("2026-02-11"), input("2026-02-10"), input("2026-02-11")];
        let bytes = lines.iter().map(|line| line.as_bytes());
        let (_, manifest) = render(key(Stream::Events), bytes, &facts(1, days)).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let input = &manifest["input"];
        assert_eq!(input["eventbus_manifest_day"], "mixed");
        assert_eq!(input["eventbus_manifest_days"], json!(["2026-02-10", "2026-02-11"]));
        assert_eq!(input["eventbus_range"]["start_day"], "2026-02-10");
        assert_eq!(manifest["inputs"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn disorder_and_unreconciled_counts_are_refused() {
        let lines = lines(Stream::Events, 2);
        let reversed = lines.iter().rev().map(|line| line.as_bytes());
        let error = render(key(Stream::Events), reversed, &facts(2, Vec::new())).unwrap_err();
        assert!(matches!(error, RenderError::Order { .. }), "{error}");
        let twice = [lines[0].as_bytes(), lines[0].as_bytes()];
        let error = render(key(Stream::Events), twice, &facts(2, Vec::new())).unwrap_err();
        assert!(matches!(error, RenderError::Order { .. }), "{error}");
        let bytes = lines.iter().map(|line| line.as_bytes());
        let error = render(key(Stream::Events), bytes, &facts(3, Vec::new())).unwrap_err();
        assert!(matches!(error, RenderError::Unreconciled { .. }), "{error}");
    }

    #[test]
    fn names_lead_back_to_their_partition() {
        for stream in Stream::ALL {
            let key = key(*stream);
            let name = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
            assert_eq!(PartitionKey::of_data(&name(key.data_file())), Some(key));
            assert_eq!(PartitionKey::of_manifest(&name(key.manifest_file())), Some(key));
        }
        assert_eq!(PartitionKey::of_data("2026-02-31.events.summary.jsonl"), None);
    }
}
