//! One partition of the Summary Bus: its lines, in order, and the manifest that accounts for them.
//!
//! Contract: pure. Lines come in ascending order of `summary_id`, each rendered once when its
//! summary was produced; the writer passes them on, hashes what went by and ends with the manifest.
//! Counts that do not reconcile are an error here, never a file. Everything in a manifest that
//! names a run or a time comes from the caller, who takes it from the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::fingerprint::Fingerprint;
use super::item::LineFacts;
use crate::contract::hash::{Digest, Hasher};
use crate::contract::json::{jcs_hash, to_file};
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{Bus, Stream};
use crate::facts::attempt::{SelectionInput, SourceCounts, UpstreamInput};

/// The folder of the Summary Bus, relative to the bus home.
pub(crate) const SUMMARIES_DIR: &str = "summaries";
const CANONICALIZATION: &str = "exact_bytes/jsonl/utf8/lf";

/// One day of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey {
    pub stream: Stream,
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
    pub(crate) fn of_manifest(name: &str) -> Option<PartitionKey> {
        PartitionKey::of(name.strip_suffix(".summary.manifest.json")?)
    }

    /// The partition a data file belongs to, by its file name.
    pub(crate) fn of_data(name: &str) -> Option<PartitionKey> {
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

/// The last event that changed a byte of the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    pub run_id: String,
    pub at: Timestamp,
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
    /// The ids of summaries that a person took back, sorted.
    pub forgotten: Vec<String>,
    /// The upstream it was made from.
    pub inputs: Vec<UpstreamInput>,
    /// The selections it was made from.
    pub selections: Vec<SelectionInput>,
    /// Who changed it last.
    pub stamp: Stamp,
}

/// A partition that must not be published.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("write the lines of a partition")]
    Write(#[from] io::Error),
    /// Lines came out of order or twice.
    #[error("line {next} does not come after {previous}")]
    Order { previous: String, next: String },
    /// A line is not an item.
    #[error("read back an item")]
    NotAnItem(#[source] serde_json::Error),
    /// Counts, reasons and lines disagree.
    #[error("the counts of {partition} do not agree: {what}")]
    Unreconciled { partition: String, what: String },
}

/// What a manifest says of lines in ascending order of their ids.
#[derive(Debug, Default)]
struct Tally {
    lines: u64,
    first_id: String,
    last_id: String,
    models: BTreeSet<String>,
    prompts: BTreeSet<String>,
    first_ms: Option<i64>,
    last_ms: Option<i64>,
    sources: SourceCounts,
    source_skips: BTreeMap<String, u64>,
}

impl Tally {
    fn add(&mut self, facts: &LineFacts<'_>) -> Result<(), RenderError> {
        self.comes_next(facts.summary_id)?;
        if self.lines == 0 {
            facts.summary_id.clone_into(&mut self.first_id);
        }
        facts.summary_id.clone_into(&mut self.last_id);
        self.lines += 1;
        remember(&mut self.models, facts.model_name);
        remember(&mut self.prompts, facts.prompt_hash);
        self.at(facts.source_time_ms, facts.source_time_ms);
        self.count(facts.counts);
        for (reason, count) in facts.skip_reasons.into_iter().flatten() {
            *self.source_skips.entry(reason.clone()).or_default() += count;
        }
        Ok(())
    }

    /// The lines that follow.
    fn join(&mut self, next: Tally) -> Result<(), RenderError> {
        if next.lines == 0 {
            return Ok(());
        }
        self.comes_next(&next.first_id)?;
        if self.lines == 0 {
            self.first_id = next.first_id;
        }
        self.last_id = next.last_id;
        self.lines += next.lines;
        next.models.iter().for_each(|model| remember(&mut self.models, model));
        next.prompts.iter().for_each(|prompt| remember(&mut self.prompts, prompt));
        self.at(next.first_ms, next.last_ms);
        self.count(next.sources);
        for (reason, count) in next.source_skips {
            *self.source_skips.entry(reason).or_default() += count;
        }
        Ok(())
    }

    fn comes_next(&self, id: &str) -> Result<(), RenderError> {
        match self.lines > 0 && id <= self.last_id.as_str() {
            true => Err(RenderError::Order { previous: self.last_id.clone(), next: id.to_owned() }),
            false => Ok(()),
        }
    }

    fn at(&mut self, first: Option<i64>, last: Option<i64>) {
        // `None < Some(_)`: `max` works on the options, and `min` must skip `None`.
        self.first_ms = [self.first_ms, first].into_iter().flatten().min();
        self.last_ms = self.last_ms.max(last);
    }

    fn count(&mut self, more: SourceCounts) {
        self.sources.sources += more.sources;
        self.sources.used += more.used;
        self.sources.skipped += more.skipped;
    }
}

/// Lines of a partition that follow each other, as they lie in the file, and what a manifest says
/// of them. Blocks may be made anywhere; a writer takes them in order.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    tally: Tally,
}

impl Block {
    /// A block without lines, in a buffer that may have been used before.
    pub(crate) fn in_buffer(mut bytes: Vec<u8>) -> Block {
        bytes.clear();
        Block { bytes, tally: Tally::default() }
    }

    /// Appends a line, given without its terminator.
    pub fn push(&mut self, line: &[u8], facts: &LineFacts<'_>) -> Result<(), RenderError> {
        self.tally.add(facts)?;
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        Ok(())
    }
}

/// A partition that was written.
pub struct Written<W> {
    /// Where its lines went.
    pub sink: W,
    /// Bytes of the lines.
    pub bytes: u64,
    /// Their hash, as the manifest says.
    pub sha256: Digest,
    /// What they come to when they are read again.
    pub fingerprint: Fingerprint,
    pub manifest: Vec<u8>,
}

/// Writes the lines of one partition and ends with its manifest.
pub struct PartitionWriter<W: Write> {
    key: PartitionKey,
    sink: W,
    hasher: Hasher,
    fingerprint: Fingerprint,
    bytes: u64,
    tally: Tally,
}

impl<W: Write> PartitionWriter<W> {
    /// A partition without lines.
    pub fn new(key: PartitionKey, sink: W) -> PartitionWriter<W> {
        let (hasher, fingerprint) = (Hasher::new(), Fingerprint::default());
        PartitionWriter { key, sink, hasher, fingerprint, bytes: 0, tally: Tally::default() }
    }

    /// Appends a line, given without its terminator.
    #[cfg(any(test, feature = "internals"))]
    pub fn push(&mut self, line: &[u8]) -> Result<(), RenderError> {
        let facts = super::item::ItemFacts::of(line).map_err(RenderError::NotAnItem)?;
        self.tally.add(&facts.line())?;
        self.write(line)?;
        self.write(b"\n")
    }

    /// Appends lines, and gives their buffer back.
    pub(crate) fn push_block(&mut self, block: Block) -> Result<Vec<u8>, RenderError> {
        self.tally.join(block.tally)?;
        self.write(&block.bytes)?;
        Ok(block.bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RenderError> {
        self.sink.write_all(bytes)?;
        self.hasher.update(bytes);
        self.fingerprint.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub fn finish(self, facts: &PartitionFacts) -> Result<Written<W>, RenderError> {
        self.reconcile(facts)?;
        let sha256 = self.hasher.finish();
        let manifest = self.manifest(facts, sha256);
        let manifest = to_file(&manifest).map_err(RenderError::NotAnItem)?.into_bytes();
        let PartitionWriter { sink, bytes, fingerprint, .. } = self;
        Ok(Written { sink, bytes, sha256, fingerprint, manifest })
    }

    fn reconcile(&self, facts: &PartitionFacts) -> Result<(), RenderError> {
        let counts = facts.counts;
        let sum = |reasons: &BTreeMap<String, u64>| reasons.values().sum::<u64>();
        for (what, left, right) in [
            ("produced is not the number of lines", counts.produced, self.tally.lines),
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

    fn manifest(&self, facts: &PartitionFacts, sha256: Digest) -> Value {
        let (stream, counts, stamp) = (self.key.stream, facts.counts, &facts.stamp);
        let data_path = format!("{SUMMARIES_DIR}/{}", self.key.data_file());
        let hash = sha256.hex();
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
                "model_name": one_or_mixed(&self.tally.models),
                "prompt_hash": one_or_mixed(&self.tally.prompts),
                "model_names": self.tally.models,
                "prompt_hashes": self.tally.prompts,
            },
            "counts": {
                "eligible": counts.eligible,
                "produced": counts.produced,
                "skipped": counts.skipped,
                "failed": counts.failed,
                "records_total": self.tally.lines,
                "records_valid": self.tally.lines,
                "records_invalid": 0,
                "records_dropped": counts.skipped + counts.failed,
            },
            "skip_reasons": facts.skip_reasons,
            "fail_reasons": facts.fail_reasons,
            "source_counts": {
                "skipped": self.tally.sources.skipped,
                "sources": self.tally.sources.sources,
                "used": self.tally.sources.used,
            },
            "source_skip_reasons": self.tally.source_skips,
            "input": self.input(facts, &inputs),
            "inputs": inputs_value(&inputs, &facts.selections),
            "time_range": {"min_ts": time(self.tally.first_ms), "max_ts": time(self.tally.last_ms)},
            "hashes": {
                "data_hash": hash, "hash_alg": "sha256", "canonicalization": CANONICALIZATION,
            },
            "integrity": {
                "sha256": hash, "bytes": self.bytes, "lines": self.tally.lines,
                "complete": true, "validation_status": "valid",
            },
            "byte_size": self.bytes,
        });
        if !facts.forgotten.is_empty() {
            manifest["counts"]["forgotten"] = facts.forgotten.len().into();
            manifest["forgotten"] = json!(facts.forgotten);
        }
        if inputs.is_empty() && facts.selections.is_empty() {
            manifest["warnings"] = json!(["no upstream manifest was read for this day"]);
        }
        manifest
    }

    /// The stream's own account of its input: one value where all agree, else `mixed` and lists.
    fn input(&self, facts: &PartitionFacts, inputs: &[&UpstreamInput]) -> Value {
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
#[cfg(any(test, feature = "internals"))]
pub fn render<'a>(
    key: PartitionKey,
    lines: impl IntoIterator<Item = &'a [u8]>,
    facts: &PartitionFacts,
) -> Result<(Vec<u8>, Vec<u8>), RenderError> {
    let mut writer = PartitionWriter::new(key, Vec::new());
    for line in lines {
        writer.push(line)?;
    }
    let written = writer.finish(facts)?;
    Ok((written.sink, written.manifest))
}

/// The hash that stands for a manifest where plain files were read: over their path-sorted list.
pub(crate) fn listing_hash<'a>(files: impl IntoIterator<Item = (&'a str, Digest)>) -> Digest {
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

fn sorted(inputs: &[UpstreamInput]) -> Vec<&UpstreamInput> {
    let mut inputs: Vec<&UpstreamInput> = inputs.iter().collect();
    inputs.sort();
    inputs.dedup();
    inputs
}

fn inputs_value(inputs: &[&UpstreamInput], selections: &[SelectionInput]) -> Value {
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

    pub(crate) fn facts(produced: u64, inputs: Vec<UpstreamInput>) -> PartitionFacts {
        PartitionFacts {
            counts: Counts { eligible: produced + 1, produced, skipped: 1, failed: 0 },
            forgotten: Vec::new(),
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

    fn input(day: &str) -> UpstreamInput {
        UpstreamInput {
            path: format!("eventbus/daily/{day}.jsonl"),
            bus: Bus::EventBus,
            partition: day.to_owned(),
            data_sha256: Some(sha256("data")),
            manifest_path: Some(format!("eventbus/manifest/{day}.manifest.json")),
            manifest_sha256: Some(sha256(day)),
            schema_version: Some("event.v1".to_owned()),
            data_bytes: None,
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
