//! One bag of the Digest Bus: its files, their hashes, and the way back to its summaries.
//!
//! The same check looks at a staged bag before it is published and at a published one afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde_json::Value;

use super::Report;
use super::files::{self, KnownSummaries};
use super::rules::{self, Rule};
use crate::contract::digest_bus::{
    BAG_VERSION, BagIdentity, MEMO_INDEX_VERSION, MEMO_META_VERSION, TRACE_VERSION, bag_dir_sha256,
    bag_id,
};
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs_hash;
use crate::contract::schema;
use crate::contract::stable_id::list_hash;
use crate::contract::time::Day;
use crate::facts::digest::WindowType;
use crate::facts::window::Window;
use crate::os::Disk;

/// Largest file of a bag that is looked at.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What an index says about a bag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// Its folder, relative to the bus home.
    pub path: String,
    pub bag_id: String,
    pub bag_type: String,
    /// Hash of its `bag.json`, where an index says it.
    pub bag_meta_sha256: Option<String>,
    /// Hash of its `trace.json`, where an index says it.
    pub trace_sha256: Option<String>,
    /// Its memos, where an index says it.
    pub published_memos: Option<u64>,
    /// What else its entry in the registry says, and `bag.json` must say too.
    pub entry: Value,
}

/// Members of a registry entry, each with its place in `bag.json`.
const ENTRY_MEMBERS: &[(&str, &str)] = &[
    ("level", "/level"),
    ("window_label", "/window/label"),
    ("start_day", "/window/start_day"),
    ("end_day", "/window/end_day"),
    ("selector_id", "/selector/selector_id"),
    ("created_at", "/created_at"),
];

/// Checks a bag in a folder, which need not be the one it will be published in.
pub fn verify_bag(
    disk: &dyn Disk,
    folder: &Path,
    expected: &Expected,
    known: Option<&KnownSummaries>,
    report: &mut Report,
) -> io::Result<()> {
    let mut files = BTreeMap::new();
    files::read_files(disk, folder, "", FILE_BYTES_MAX, &mut files)?;
    report.file(files.values().map(|bytes| bytes.len() as u64).sum());
    let real = disk.real_path(folder)?;
    for name in files.keys() {
        if disk.real_path(&folder.join(name))? != real.join(name) {
            let message = "it is a link to another place".to_owned();
            let file = format!("{}/{name}", expected.path);
            report.break_rule(&rules::BAG_LINK, &file, None, "", message);
        }
    }
    let mut check = BagCheck { expected, files: &files, known, report };
    check.run();
    Ok(())
}

struct BagCheck<'a> {
    expected: &'a Expected,
    files: &'a BTreeMap<String, Vec<u8>>,
    known: Option<&'a KnownSummaries>,
    report: &'a mut Report,
}

impl BagCheck<'_> {
    fn broken(&mut self, rule: &'static Rule, file: &str, pointer: &str, message: String) {
        let path = format!("{}/{file}", self.expected.path);
        self.report.break_rule(rule, &path, None, pointer, message);
    }

    fn run(&mut self) {
        let bag = self.record("meta/bag.json", BAG_VERSION);
        let trace = self.record("meta/trace.json", TRACE_VERSION);
        let index = self.record("memo/index.json", MEMO_INDEX_VERSION);
        self.hashes();
        for (file, record) in
            [("meta/bag.json", &bag), ("meta/trace.json", &trace), ("memo/index.json", &index)]
        {
            self.is_about_this_bag(file, record.as_ref());
        }
        if let Some(bag) = &bag {
            self.entry(bag);
            self.window(&bag["window"]);
        }
        if let Some(trace) = &trace {
            self.trace(trace, bag.as_ref());
        }
        if let (Some(bag), Some(trace)) = (&bag, &trace) {
            self.identity(bag, trace);
        }
        if let Some(index) = &index {
            self.memos(index, bag.as_ref(), trace.as_ref());
        }
    }

    /// A record of the bag that satisfies its schema.
    fn record(&mut self, file: &str, version: &str) -> Option<Value> {
        let Some(bytes) = self.files.get(file) else {
            self.broken(&rules::BAG_FILE, file, "", "it is missing".to_owned());
            return None;
        };
        let value: Value = match serde_json::from_slice(bytes) {
            Ok(value) => value,
            Err(error) => {
                self.broken(&rules::BAG_SCHEMA, file, "", error.to_string());
                return None;
            }
        };
        let found = schema::check(version, &value);
        for violation in &found {
            self.broken(&rules::BAG_SCHEMA, file, &violation.pointer, violation.message.clone());
        }
        found.is_empty().then_some(value)
    }

    fn hashes(&mut self) {
        let expected = self.expected;
        for (file, hash) in [
            ("meta/bag.json", &expected.bag_meta_sha256),
            ("meta/trace.json", &expected.trace_sha256),
        ] {
            let (Some(hash), Some(bytes)) = (hash, self.files.get(file)) else { continue };
            let actual = sha256(bytes);
            if hash.parse() != Ok(actual) {
                let message = format!("the registry says {hash}, the file has {actual}");
                self.broken(&rules::BAG_HASH, file, "", message);
            }
        }
    }

    fn is_about_this_bag(&mut self, file: &str, record: Option<&Value>) {
        let Some(record) = record else { return };
        let expected = self.expected;
        let mut wanted = vec![("bag_id", &expected.bag_id)];
        if record.get("bag_type").is_some() {
            wanted.push(("bag_type", &expected.bag_type));
        }
        for (name, value) in wanted {
            if record[name] != value.as_str() {
                let message =
                    format!("the {name} of this bag is {value}, the file says {}", record[name]);
                self.broken(&rules::BAG_NAME, file, &format!("/{name}"), message);
            }
        }
    }

    /// The entry of the registry against `bag.json`. A member that the entry lacks says nothing.
    fn entry(&mut self, bag: &Value) {
        let expected = self.expected;
        let group = bag.get("group").map(|group| group.get("key").unwrap_or(&Value::Null));
        let group = ("group", group.unwrap_or(&Value::Null));
        let members = ENTRY_MEMBERS
            .iter()
            .map(|(name, pointer)| (*name, bag.pointer(pointer).unwrap_or(&Value::Null)));
        for (name, said) in members.chain([group]) {
            if let Some(entry) = expected.entry.get(name).filter(|entry| *entry != said) {
                let message =
                    format!("the registry says that {name} is {entry}, this file says {said}");
                self.broken(&rules::BAG_ENTRY, "meta/bag.json", "", message);
            }
        }
    }

    /// First day, last day and label follow from each other for the windows that we know.
    fn window(&mut self, window: &Value) {
        let kind = WindowType::ALL.iter().find(|kind| window["window_type"] == kind.as_str());
        let Some(kind) = kind else { return };
        let first = window["start_day"].as_str().and_then(|day| day.parse().ok());
        let meant = match (kind, first) {
            (WindowType::All, _) => Window { kind: *kind, start: None, end: None },
            (_, Some(day)) => Window::of(*kind, day),
            (_, None) => return self.broken_window("a window of days has a first day"),
        };
        let day = |day: Option<Day>| day.map_or(Value::Null, |day| day.to_string().into());
        let label = window["label"].as_str().unwrap_or_default();
        // Others may name their windows in other ways; only a label of ours says which days it has.
        if Window::type_of_label(label).is_some() && meant.label() != label {
            return self.broken_window("the label is that of another window");
        }
        if window["start_day"] != day(meant.start) || window["end_day"] != day(meant.end) {
            self.broken_window("these are not the first and the last day of such a window");
        }
    }

    fn broken_window(&mut self, message: &str) {
        self.broken(&rules::BAG_WINDOW, "meta/bag.json", "/window", message.to_owned());
    }

    fn trace(&mut self, trace: &Value, bag: Option<&Value>) {
        let file = "meta/trace.json";
        let ids = texts(&trace["upstream"]["summary_ids"]);
        self.summary_ids(file, "/upstream/summary_ids", &ids);
        if let Some(known) = self.known
            && let Some(missing) = ids.iter().find(|id| !known.holds(id))
        {
            let message = format!("{missing} is not on the Summary Bus");
            self.broken(&rules::TRACE_KNOWN, file, "/upstream/summary_ids", message);
        }
        let upstream = &trace["upstream"];
        if ids.is_empty() {
            let message = "it leads to no summary".to_owned();
            self.broken(&rules::TRACE_LINKAGE, file, "/upstream/summary_ids", message);
        }
        if upstream["source_ids_union"].is_array() {
            let sources = texts(&upstream["source_ids_union"]);
            let hash = upstream["source_ids_union_hash"].as_str().unwrap_or_default();
            if hash.parse::<Digest>() != list_hash(&sources).parse() {
                let message = "it is not the hash of source_ids_union".to_owned();
                self.broken(
                    &rules::TRACE_LINKAGE,
                    file,
                    "/upstream/source_ids_union_hash",
                    message,
                );
            }
        }
        self.tree_hash(trace);
        self.counts(trace, bag, ids.len() as u64);
        self.rules(trace, bag);
    }

    fn summary_ids(&mut self, file: &str, pointer: &str, ids: &[&str]) {
        let mut seen = BTreeSet::new();
        for id in ids {
            let plain =
                id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
            if id.is_empty() || id.len() > 200 || !plain {
                let message = format!("{id:?} is not a summary id");
                self.broken(&rules::TRACE_IDS, file, pointer, message);
            } else if !seen.insert(id) {
                self.broken(&rules::TRACE_IDS, file, pointer, format!("{id} occurs twice"));
            }
        }
    }

    fn tree_hash(&mut self, trace: &Value) {
        let actual = bag_dir_sha256(self.files);
        let recorded = trace["integrity"]["bag_dir_sha256"].as_str().unwrap_or_default();
        if recorded.parse::<Digest>() != actual.parse() {
            let message = format!("it says {recorded}, the files have {actual}");
            let pointer = "/integrity/bag_dir_sha256";
            self.broken(&rules::BAG_TREE, "meta/trace.json", pointer, message);
        }
    }

    fn counts(&mut self, trace: &Value, bag: Option<&Value>, listed: u64) {
        let coverage = &trace["coverage"];
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let reasons = coverage["drop_reasons"].as_object().into_iter().flatten();
        let reasons: u64 = reasons.map(|(_, count)| number(count)).sum();
        let selected = number(&coverage["selected_summary_ids"]);
        let dropped = number(&coverage["dropped_summary_ids"]);
        let mut wrong = Vec::new();
        if selected != listed {
            wrong
                .push(format!("{selected} summaries are counted as selected, {listed} are listed"));
        }
        if dropped != reasons {
            wrong.push(format!(
                "{dropped} summaries are counted as dropped, {reasons} have a reason"
            ));
        }
        if let Some(bag) = bag {
            let counts = &bag["counts"];
            let (candidate, chosen) = (number(&counts["candidate"]), number(&counts["selected"]));
            if chosen != selected || candidate != selected + dropped {
                wrong.push(format!(
                    "bag.json counts {chosen} of {candidate}, the trace {selected} of {}",
                    selected + dropped
                ));
            }
        }
        for message in wrong {
            self.broken(&rules::BAG_COUNTS, "meta/trace.json", "/coverage", message);
        }
    }

    fn rules(&mut self, trace: &Value, bag: Option<&Value>) {
        let traced = &trace["rules"];
        if let Some(bag) = bag {
            for name in ["selector_id", "selector_hash"] {
                if traced[name] != bag["selector"][name] {
                    let message = format!("bag.json says {}", bag["selector"][name]);
                    let pointer = format!("/rules/{name}");
                    self.broken(&rules::TRACE_RULES, "meta/trace.json", &pointer, message);
                }
            }
        }
        let Some(selector) = traced["selector"].as_object() else { return };
        let mut selector = selector.clone();
        selector.shift_remove("selector_hash");
        let actual = jcs_hash(&Value::Object(selector));
        let recorded = traced["selector_hash"].as_str().unwrap_or_default();
        if recorded.parse() != Ok(actual) {
            let message = format!("the selector in the trace has {actual}");
            let pointer = "/rules/selector_hash";
            self.broken(&rules::TRACE_RULES, "meta/trace.json", pointer, message);
        }
    }

    /// The id again, for bags that say how theirs was made.
    fn identity(&mut self, bag: &Value, trace: &Value) {
        if bag["identity"]["scheme"] != "stable_id:v1" {
            return;
        }
        let ids = texts(&trace["upstream"]["summary_ids"]);
        let closed = texts(&trace["upstream"]["closed_task_ids"]);
        let closed_hash = list_hash(&closed);
        let projects = texts(&trace["upstream"]["projects"]);
        let projects_hash = list_hash(&projects);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (window, selector) = (&bag["window"], &bag["selector"]);
        let actual = bag_id(&BagIdentity {
            bag_type: &text(&bag["bag_type"]),
            window_type: &text(&window["window_type"]),
            tz: &text(&window["tz"]),
            label: &text(&window["label"]),
            selector_id: &text(&selector["selector_id"]),
            selector_hash: &text(&selector["selector_hash"]),
            group: bag["group"]["key"].as_str(),
            summaries_hash: &list_hash(&ids),
            closed_tasks_hash: (!closed.is_empty()).then_some(closed_hash.as_str()),
            projects_hash: (!projects.is_empty()).then_some(projects_hash.as_str()),
        });
        if bag["bag_id"] != actual.as_str() {
            let message = format!("its content gives the id {actual}");
            self.broken(&rules::BAG_ID, "meta/bag.json", "/bag_id", message);
        }
    }

    fn memos(&mut self, index: &Value, bag: Option<&Value>, trace: Option<&Value>) {
        let memos = index["memos"].as_array().map(Vec::as_slice).unwrap_or_default();
        let listed = memos.len() as u64;
        let counts = [
            bag.and_then(|bag| bag["counts"]["published_memos"].as_u64()),
            self.expected.published_memos,
        ];
        if let Some(count) = counts.into_iter().flatten().find(|count| *count != listed) {
            let message = format!("{count} are counted, {listed} are listed");
            self.broken(&rules::BAG_MEMOS, "memo/index.json", "/memos", message);
        }
        let mut named: BTreeSet<String> = BTreeSet::from(["memo/index.json".to_owned()]);
        for (place, memo) in memos.iter().enumerate() {
            let (path, meta_path) = (text(&memo["path"]), text(&memo["meta_path"]));
            self.memo(place, memo, path, meta_path, trace);
            named.extend([path.to_owned(), meta_path.to_owned()]);
        }
        let strays: Vec<String> = self
            .files
            .keys()
            .filter(|path| path.starts_with("memo/") && !named.contains(*path))
            .cloned()
            .collect();
        for stray in strays {
            let message = "the memo index does not name it".to_owned();
            self.broken(&rules::MEMO_SIDECAR, &stray, "", message);
        }
    }

    fn memo(
        &mut self,
        place: usize,
        memo: &Value,
        path: &str,
        meta_path: &str,
        trace: Option<&Value>,
    ) {
        let Some(markdown) = self.files.get(path) else {
            self.broken(&rules::BAG_FILE, path, "", "it is missing".to_owned());
            return;
        };
        let actual = sha256(markdown);
        if text(&memo["md_sha256"]).parse() != Ok(actual) {
            let pointer = format!("/memos/{place}/md_sha256");
            let message = format!("the text has {actual}");
            self.broken(&rules::MEMO_HASH, "memo/index.json", &pointer, message);
        }
        if !self.files.contains_key(meta_path) {
            let message = format!("its sidecar {meta_path} is missing");
            self.broken(&rules::MEMO_SIDECAR, path, "", message);
            return;
        }
        let Some(sidecar) = self.record(meta_path, MEMO_META_VERSION) else { return };
        self.is_about_this_bag(meta_path, Some(&sidecar));
        if text(&sidecar["integrity"]["md_sha256"]).parse() != Ok(actual) {
            let message = format!("the text has {actual}");
            self.broken(&rules::MEMO_HASH, meta_path, "/integrity/md_sha256", message);
        }
        if sidecar["memo_slug"] != memo["memo_slug"]
            || path != format!("memo/{}.md", text(&sidecar["memo_slug"]))
        {
            let message = "slug and path are not those of the memo index".to_owned();
            self.broken(&rules::MEMO_SIDECAR, meta_path, "/memo_slug", message);
        }
        let ids = texts(&sidecar["summary_ids"]);
        self.summary_ids(meta_path, "/summary_ids", &ids);
        let Some(trace) = trace else { return };
        let traced: BTreeSet<&str> = texts(&trace["upstream"]["summary_ids"]).into_iter().collect();
        if let Some(foreign) = ids.iter().find(|id| !traced.contains(*id)) {
            let message = format!("{foreign} is not in the trace");
            self.broken(&rules::MEMO_TRACE, meta_path, "/summary_ids", message);
        }
        if ids.is_empty() {
            let message = "it names no summary".to_owned();
            self.broken(&rules::MEMO_TRACE, meta_path, "/summary_ids", message);
        }
        for name in ["selector_id", "selector_hash"] {
            if sidecar[name] != trace["rules"][name] {
                let message = format!("the trace says {}", trace["rules"][name]);
                self.broken(&rules::TRACE_RULES, meta_path, &format!("/{name}"), message);
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
