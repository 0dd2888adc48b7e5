//! One partition of the Summary Bus: every line, the manifest, and that they speak of each other.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::line::SummaryLine;
use super::spread::{self, Helpers, LineBlock};
use super::{Report, rules};
use crate::contract::hash::Digest;
use crate::contract::schema;
use crate::contract::vocabulary::{Bus, ErrorClass, ReasonCode};
use crate::export::item::LineFacts;
use crate::export::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::os::{Disk, Open};
use crate::upstream::defect::Defect;
use crate::upstream::index::IdKey;
use crate::upstream::lines::Lines;
use crate::upstream::text::{NORMALIZATION_NAME, NORMALIZATION_VERSION};
use crate::upstream::{Upstream, is_summary_id, recompute};

/// What the data file turned out to be.
struct Data {
    lines: u64,
    bytes: u64,
    sha256: Digest,
}

/// Checks a partition under `summaries`; texts are recomputed where upstream is given.
pub(super) fn check<'t>(
    disk: &dyn Disk,
    summaries: &Path,
    key: PartitionKey,
    upstream: Option<&'t Upstream>,
    helpers: &Helpers<'t>,
    report: &mut Report,
) -> io::Result<()> {
    let data_path = format!("{SUMMARIES_DIR}/{}", key.data_file());
    let manifest_path = format!("{SUMMARIES_DIR}/{}", key.manifest_file());
    let data = match disk.open(&summaries.join(key.data_file()), Open::Read) {
        Ok(file) => {
            let lines = Lines::new(Arc::clone(&file), file.stat()?.len);
            let (path, day) = (data_path.as_str().into(), key.day.to_string().into());
            let check = LineCheck { key, path, day, upstream };
            Some(check.run(lines, helpers, report)?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let manifest = disk.read_if_present(&summaries.join(key.manifest_file()))?;
    match (&data, &manifest) {
        (None, _) => {
            let message = format!("{data_path} is missing");
            report.break_rule(&rules::NO_DATA, &manifest_path, None, "", message);
        }
        (Some(_), None) => {
            let message = format!("{manifest_path} is missing");
            report.break_rule(&rules::NO_MANIFEST, &data_path, None, "", message);
        }
        (Some(data), Some(bytes)) => {
            report.file(bytes.len() as u64);
            check_manifest(key, &manifest_path, bytes, data, report);
        }
    }
    Ok(())
}

/// Checks the lines of a partition before there is a file of them, and then its manifest: what
/// `verify` would say of the files, without reading a line twice.
pub struct Gate(LineCheck<'static>);

impl Gate {
    /// For one partition.
    pub fn new(key: PartitionKey) -> Gate {
        let path = format!("{SUMMARIES_DIR}/{}", key.data_file()).into();
        Gate(LineCheck { key, path, day: key.day.to_string().into(), upstream: None })
    }

    /// Checks a line, given without its terminator, and hands over its facts if it can be read as
    /// one.
    pub fn line(
        &self,
        number: u64,
        line: &[u8],
        report: &mut Report,
        take: &mut dyn FnMut(&LineFacts<'_>),
    ) {
        self.0.line(number, line, report, &mut |line| take(&line.facts()));
    }

    /// Checks a manifest against what its data turned out to be.
    pub fn manifest(&self, manifest: &[u8], lines: u64, data: (u64, Digest), report: &mut Report) {
        let path = format!("{SUMMARIES_DIR}/{}", self.0.key.manifest_file());
        let data = Data { lines, bytes: data.0, sha256: data.1 };
        check_manifest(self.0.key, &path, manifest, &data, report);
    }
}

#[derive(Clone)]
struct LineCheck<'t> {
    key: PartitionKey,
    path: Arc<str>,
    day: Arc<str>,
    upstream: Option<&'t Upstream>,
}

/// What a block of a file turned out to be.
#[derive(Default)]
struct Checked {
    report: Report,
    /// The ids of valid lines, one after the other; of each its line, its end and its key.
    ids: String,
    ends: Vec<(u64, usize, IdKey)>,
}

impl<'t> LineCheck<'t> {
    fn run(self, lines: Lines, helpers: &Helpers<'t>, report: &mut Report) -> io::Result<Data> {
        let (path, before) = (Arc::clone(&self.path), report.lines);
        let mut seen: HashSet<IdKey> = HashSet::new();
        let check = move |block: &LineBlock| {
            let mut checked = Checked::default();
            let Checked { report, ids, ends } = &mut checked;
            for (number, bytes) in block.lines() {
                report.lines += 1;
                self.line(number, bytes, report, &mut |line| {
                    let id = line.summary_id.0.as_ref();
                    ids.push_str(id);
                    ends.push((number, ids.len(), IdKey::of(id)));
                });
            }
            checked
        };
        let (bytes, sha256) = spread::over(lines, helpers, check, &mut |checked: Checked| {
            report.merge(checked.report);
            let mut start = 0;
            for (number, end, key) in checked.ends {
                let id = &checked.ids[start..end];
                start = end;
                if !seen.insert(key) {
                    let (rule, message) = (&rules::SUMMARY_DUPLICATE, format!("{id} occurs twice"));
                    report.break_rule(rule, &path, Some(number), "/summary_id", message);
                }
            }
        })?;
        report.file(bytes);
        Ok(Data { lines: report.lines - before, bytes, sha256 })
    }

    /// Checks a line and hands it over if it can be read as one.
    fn line(
        &self,
        number: u64,
        bytes: &[u8],
        report: &mut Report,
        valid: &mut dyn FnMut(&SummaryLine<'_>),
    ) {
        let Ok(text) = std::str::from_utf8(bytes) else {
            let rule = &rules::SUMMARY_LINE_JSON;
            return self.broken(rule, number, "", "not UTF-8".into(), report);
        };
        let fast = SummaryLine::accept(text, self.key.stream);
        let Some(line) = fast.or_else(|| self.slowly(number, text, report)) else { return };
        valid(&line);
        self.in_place(number, &line, report);
    }

    /// What the schema itself says of a line; the line, where it has nothing to say.
    fn slowly<'a>(
        &self,
        number: u64,
        text: &'a str,
        report: &mut Report,
    ) -> Option<SummaryLine<'a>> {
        let mut not_json = |message: String| {
            self.broken(&rules::SUMMARY_LINE_JSON, number, "", message, report);
            None
        };
        let value: Value = match serde_json::from_str(text) {
            Ok(value @ Value::Object(_)) => value,
            Ok(_) => return not_json("not a JSON object".to_owned()),
            Err(error) => return not_json(error.to_string()),
        };
        let found = schema::check(self.key.stream.item_version(), &value);
        for violation in &found {
            let hierarchy = violation.pointer.starts_with("/outputs/hierarchy");
            let rule =
                if hierarchy { &rules::SUMMARY_HIERARCHY } else { &rules::SUMMARY_LINE_SCHEMA };
            self.broken(rule, number, &violation.pointer, violation.message.clone(), report);
        }
        if !found.is_empty() {
            return None;
        }
        for (pointer, message) in hierarchy_faults(&value["outputs"]) {
            self.broken(&rules::SUMMARY_HIERARCHY, number, &pointer, message, report);
        }
        SummaryLine::read(text)
    }

    /// Rules beyond the schema: the line is in its partition and fits its sources. The caller has all
    /// ids and checks that they are unique.
    fn in_place(&self, number: u64, line: &SummaryLine<'_>, report: &mut Report) {
        let id = line.summary_id.0.as_ref();
        if *line.day.0 != *self.day {
            let message = format!("{} is in the partition of {}", line.day.0, self.day);
            self.broken(&rules::SUMMARY_DAY, number, "/day", message, report);
        }
        if let Some(expected) = line.expected_id(self.key.stream)
            && expected != id
        {
            let message = format!("expected {expected}");
            self.broken(&rules::SUMMARY_ID, number, "/summary_id", message, report);
        }
        self.sources(number, line, report);
    }

    fn sources(&self, number: u64, line: &SummaryLine<'_>, report: &mut Report) {
        let Some(upstream) = self.upstream else { return };
        let normalization = &line.selection.normalization;
        if normalization.name.0 != NORMALIZATION_NAME
            || normalization.version.0 != NORMALIZATION_VERSION
        {
            // Somebody else's rules: we cannot recompute what they hashed.
            return;
        }
        let (ids, other) = line.text_ids(self.key.stream);
        let ids: Vec<&str> = ids.iter().map(|id| id.0.as_ref()).collect();
        let bus = recompute::bus_of(self.key.stream, other);
        let title = line.selection.title_as_text.unwrap_or(false);
        match recompute::source_text_hash(upstream, bus, &ids, title) {
            Ok(hash) => {
                let recorded = line.selection.source_text_hash.0.parse::<Digest>();
                if recorded != Ok(hash) {
                    let message = format!("upstream gives {hash}");
                    let pointer = "/selection/source_text_hash";
                    self.broken(&rules::SUMMARY_HASH, number, pointer, message, report);
                }
            }
            Err(defect) if defect.reason == ReasonCode::UnknownSourceId => {
                let message = defect.message;
                self.broken(&rules::SUMMARY_SOURCES, number, "/source_ids", message, report);
            }
            Err(defect) => self.unread(number, bus, &ids, defect, report),
        }
    }

    /// Sources that cannot be read. A plain file is told here, because no other check looks at it. The rest is told where it
    /// lies, as a broken partition or as a failure of the disk.
    fn unread(&self, line: u64, bus: Bus, ids: &[&str], defect: Defect, report: &mut Report) {
        let is_plain = bus == Bus::Other && !ids.iter().any(|id| is_summary_id(id));
        if is_plain && defect.class == ErrorClass::StorageUnavailable {
            report.failed.get_or_insert(defect.message);
            return;
        }
        let mut told = Report::default();
        self.broken(&rules::SUMMARY_SOURCES, line, "/source_ids", defect.message, &mut told);
        match is_plain {
            true => report.merge(told),
            false => report.unread.append(&mut told.violations),
        }
    }

    fn broken(
        &self,
        rule: &'static rules::Rule,
        line: u64,
        pointer: &str,
        message: String,
        report: &mut Report,
    ) {
        report.break_rule(rule, &self.path, Some(line), pointer, message);
    }
}

/// `tree.v1`: one root, every child a node of the level below, every other node somebody's child.
fn hierarchy_faults(outputs: &Value) -> Vec<(String, String)> {
    if outputs["hierarchy_version"] != "tree.v1" {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let Some(nodes) = outputs["hierarchy"]["nodes"].as_array() else { return faults };
    let place = |index: usize, field: &str| format!("/outputs/hierarchy/nodes/{index}/{field}");
    let mut levels = std::collections::BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let id = node["node_id"].as_str().unwrap_or_default();
        if levels.insert(id, node["level"].as_u64().unwrap_or_default()).is_some() {
            faults.push((place(index, "node_id"), format!("{id} occurs twice")));
        }
    }
    let root = outputs["hierarchy"]["root"].as_str().unwrap_or_default();
    let mut children = HashSet::from([root]);
    for (index, node) in nodes.iter().enumerate() {
        for child in node["children"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let below =
                levels.get(child).is_some_and(|level| Some(*level) < node["level"].as_u64());
            if !below || !children.insert(child) {
                faults.push((
                    place(index, "children"),
                    format!("this item cannot have the child {child}"),
                ));
            }
        }
    }
    for (index, node) in nodes.iter().enumerate() {
        let id = node["node_id"].as_str().unwrap_or_default();
        if !children.contains(id) {
            faults.push((place(index, "node_id"), format!("{id} hangs nowhere")));
        }
    }
    if !levels.contains_key(root) {
        faults.push(("/outputs/hierarchy/root".to_owned(), format!("there is no node {root}")));
    }
    let leaves = nodes.iter().filter(|node| node["level"] == 0).count() as u64;
    for (field, count) in [("node_count", nodes.len() as u64), ("leaf_count", leaves)] {
        if outputs[field].as_u64().is_some_and(|declared| declared != count) {
            faults.push((format!("/outputs/{field}"), format!("there are {count}")));
        }
    }
    faults
}

fn check_manifest(key: PartitionKey, path: &str, bytes: &[u8], data: &Data, report: &mut Report) {
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => {
            let message = format!("not JSON: {error}");
            return report.break_rule(&rules::MANIFEST_SCHEMA, path, None, "", message);
        }
    };
    let found = schema::check(key.stream.manifest_version(), &value);
    for violation in &found {
        let (pointer, message) = (&violation.pointer, violation.message.clone());
        report.break_rule(&rules::MANIFEST_SCHEMA, path, None, pointer, message);
    }
    if !found.is_empty() {
        return;
    }
    check_names(key, path, &value, report);
    check_data(path, &value, data, report);
    check_counts(path, &value, data, report);
    check_twins(path, &value, report);
}

fn check_names(key: PartitionKey, path: &str, value: &Value, report: &mut Report) {
    let data_file = key.data_file();
    let names_data = |text: &str| text == data_file || text.ends_with(&format!("/{data_file}"));
    if value["day"] != key.day.to_string().as_str() {
        let message = format!("the file name says {}", key.day);
        report.break_rule(&rules::MANIFEST_NAME, path, None, "/day", message);
    }
    if !value["paths"]["summaries_path"].as_str().is_some_and(names_data) {
        let message = format!("does not name {data_file}");
        report.break_rule(&rules::MANIFEST_NAME, path, None, "/paths/summaries_path", message);
    }
}

fn check_data(path: &str, value: &Value, data: &Data, report: &mut Report) {
    let declared = value["integrity"]["sha256"].as_str().unwrap_or_default();
    if declared.to_ascii_lowercase().parse::<Digest>() != Ok(data.sha256) {
        let message = format!("the data has {}", data.sha256);
        report.break_rule(&rules::MANIFEST_HASH, path, None, "/integrity/sha256", message);
    }
    if value["integrity"]["bytes"] != data.bytes {
        let message = format!("the data has {} bytes", data.bytes);
        report.break_rule(&rules::MANIFEST_BYTES, path, None, "/integrity/bytes", message);
    }
}

fn check_counts(path: &str, value: &Value, data: &Data, report: &mut Report) {
    let counts = &value["counts"];
    for pointer in ["/counts/produced", "/counts/records_total", "/integrity/lines"] {
        if value.pointer(pointer).and_then(Value::as_u64).is_some_and(|count| count != data.lines) {
            let message = format!("the data has {} lines", data.lines);
            report.break_rule(&rules::MANIFEST_COUNTS, path, None, pointer, message);
        }
    }
    let count = |key: &str| counts[key].as_u64().unwrap_or_default();
    let sum = count("produced").saturating_add(count("skipped")).saturating_add(count("failed"));
    if count("eligible") != sum {
        let message = format!("produced + skipped + failed is {sum}");
        report.break_rule(&rules::SUMMARY_RECONCILE, path, None, "/counts/eligible", message);
    }
    for (rule, reasons, total) in [
        (&rules::SUMMARY_SKIPS, "skip_reasons", "skipped"),
        (&rules::SUMMARY_FAILS, "fail_reasons", "failed"),
    ] {
        let Some(map) = value[reasons].as_object() else { continue };
        let sum = map.values().filter_map(Value::as_u64).fold(0_u64, u64::saturating_add);
        if sum != count(total) {
            let message = format!("add up to {sum}, {total} is {}", count(total));
            report.break_rule(rule, path, None, &format!("/{reasons}"), message);
        }
    }
}

fn check_twins(path: &str, value: &Value, report: &mut Report) {
    for (one, other) in [
        ("/hashes/data_hash", "/integrity/sha256"),
        ("/byte_size", "/integrity/bytes"),
        ("/data_path", "/paths/summaries_path"),
        ("/schema_version_emitted", "/bus_schema_version"),
        ("/run_id", "/producer/run_id"),
    ] {
        let (left, right) = (value.pointer(one), value.pointer(other));
        if left.is_some() && left != right {
            let message = format!("differs from {other}");
            report.break_rule(&rules::MANIFEST_TWINS, path, None, one, message);
        }
    }
}
