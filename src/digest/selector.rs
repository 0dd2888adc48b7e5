//! Selectors: the records that say which summaries become which bags.
//!
//! Contract. The dataset `registry.selectors.v1.jsonl` of the home is used, else the embedded one.
//! A selector is identified by its id and by the hash of its whole record, so each edit of a record
//! makes new bags. A member that the schema does not know is an error: a mistyped condition must not
//! match everything.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::project::{ProjectRules, RULES_VERSION};
use super::tags::canonical;
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs_hash;
use crate::contract::schema;
use crate::contract::vocabulary::{Stream, spellings};
use crate::export::item::META_NAMES;
use crate::facts::digest::{BagType, Channel, WindowType};
use crate::flow::lint::{Finding, Severity};
use crate::os::Disk;
use crate::registry::{HOME_FOLDER, Registry};

pub(crate) const SELECTOR_VERSION: &str = "selector.v1";
pub const SELECTORS: &str = "registry.selectors.v1.jsonl";
/// Most selectors in one dataset.
pub(crate) const SELECTORS_MAX: usize = 1000;

/// Whether a selector is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectorStatus {
    #[default]
    Active,
    /// It makes no bags, and its existing bags retire.
    Disabled,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WindowRule {
    #[serde(rename = "type")]
    pub kind: WindowType,
    /// The time zone of their days. Without it the home's zone applies.
    #[serde(default)]
    pub tz: Option<String>,
}

/// How a selector treats the publish flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PublishRule {
    /// Leave out what is marked `publish: false`.
    #[default]
    Public,
    /// Ignore the flag.
    Any,
    /// Only what is marked `publish: false`.
    Private,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MatchRule {
    pub streams: Vec<Stream>,
    pub(crate) tags_all: Vec<String>,
    pub tags_any: Vec<String>,
    pub(crate) tags_none: Vec<String>,
    pub projects: Vec<String>,
    pub meta: BTreeMap<String, Vec<Value>>,
    pub(crate) min_confidence: Option<f64>,
    pub(crate) has_tasks: bool,
    pub publish: PublishRule,
}

spellings! {
    /// The property that summaries are grouped by.
    GroupBy {
        None "none",
        Tag "tag",
        Pair "pair",
        Combo "combo",
        Project "project",
        Stream "stream",
        Meta "meta",
    }
}

/// How the matching summaries of a window become bags.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GroupRule {
    pub by: GroupBy,
    #[serde(default)]
    pub field: Option<String>,
    #[serde(default)]
    pub keys: Vec<String>,
    #[serde(default = "two")]
    pub(crate) combo_size: usize,
    #[serde(default = "fifty")]
    pub top: usize,
    #[serde(default = "one")]
    pub min_items: usize,
}

fn one() -> usize {
    1
}

fn two() -> usize {
    2
}

fn fifty() -> usize {
    50
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default)]
pub struct PairRule {
    pub vocabulary: usize,
    pub min_count: u64,
    pub min_npmi: f64,
}

impl Default for PairRule {
    fn default() -> PairRule {
        PairRule { vocabulary: 300, min_count: 5, min_npmi: 0.05 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Caps {
    pub total: usize,
    #[serde(default)]
    pub(crate) per_tag: Option<usize>,
    #[serde(default)]
    pub(crate) per_project: Option<usize>,
}

/// The order of the summaries in a bag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum OrderKey {
    #[serde(rename = "time")]
    Time,
    #[serde(rename = "-time")]
    TimeDown,
    #[serde(rename = "confidence")]
    Confidence,
    #[serde(rename = "-confidence")]
    ConfidenceDown,
    #[serde(rename = "tasks")]
    Tasks,
    #[serde(rename = "-tasks")]
    TasksDown,
}

/// Which memos are written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MemoRule {
    pub channels: Vec<Channel>,
    pub max_items: usize,
    pub audience: Vec<String>,
}

impl Default for MemoRule {
    fn default() -> MemoRule {
        MemoRule { channels: vec![Channel::Digest], max_items: 100, audience: Vec::new() }
    }
}

/// A file under `data/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Export {
    #[serde(rename = "items.jsonl")]
    ItemsJsonl,
    #[serde(rename = "items.csv")]
    ItemsCsv,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Selector {
    pub selector_id: String,
    pub selector_version: String,
    #[serde(default)]
    pub status: SelectorStatus,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    pub bag_type: BagType,
    pub window: WindowRule,
    #[serde(default, rename = "match")]
    pub matching: MatchRule,
    #[serde(default)]
    group: Option<GroupRule>,
    #[serde(default)]
    pub pairs: PairRule,
    pub caps: Caps,
    #[serde(default)]
    pub order: Vec<OrderKey>,
    #[serde(default)]
    pub memo: MemoRule,
    #[serde(default)]
    pub exports: Vec<Export>,
    /// The record as written, unknown members included.
    #[serde(skip)]
    pub record: Value,
}

impl Selector {
    /// The hash of the record without its member `selector_hash`.
    pub fn hash(&self) -> Digest {
        let mut record = self.record.clone();
        if let Value::Object(members) = &mut record {
            members.shift_remove("selector_hash");
        }
        jcs_hash(&record)
    }

    pub fn group(&self) -> GroupRule {
        self.group.clone().unwrap_or(GroupRule {
            by: match self.bag_type {
                BagType::Tagbag => GroupBy::Tag,
                BagType::Pairbag => GroupBy::Pair,
                BagType::Cohort => GroupBy::None,
            },
            field: None,
            keys: Vec::new(),
            combo_size: two(),
            top: fifty(),
            min_items: one(),
        })
    }

    pub fn zone(&self, home: Tz) -> Result<Tz, String> {
        match &self.window.tz {
            None => Ok(home),
            Some(name) => name.parse().map_err(|_| format!("{name} is not an IANA time zone")),
        }
    }

    pub(crate) fn title_of(&self, group: Option<&str>, window: &str) -> String {
        let pattern = self.title.as_deref().unwrap_or("{group}, {window}");
        let group = group.unwrap_or("All");
        pattern.replace("{group}", group).replace("{window}", window)
    }

    /// The members of `meta` that it names and that nothing writes, each with its place.
    pub(crate) fn unknown_meta(&self, known: &BTreeSet<String>) -> Vec<Finding> {
        let matched = self.matching.meta.keys().map(|name| (format!("match.meta.{name}"), name));
        let grouped = self.group.iter().filter_map(|group| group.field.as_ref());
        let grouped = grouped.map(|name| ("group.field".to_owned(), name));
        let unknown = matched.chain(grouped).filter(|(_, name)| !known.contains(*name));
        let names = || known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let finding = |(place, name): (String, &String)| {
            let message =
                format!("no summary has a member {name:?} of meta; known are {}", names());
            Finding { severity: Severity::Error, place, message }
        };
        unknown.map(finding).collect()
    }

    /// Errors in the record, and members that probably do not mean what their author expects.
    pub(crate) fn lint(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut say = |severity, place: &str, message: String| {
            findings.push(Finding { severity, place: place.to_owned(), message });
        };
        let (error, warning) = (Severity::Error, Severity::Warning);
        if let Err(message) = self.zone(chrono_tz::UTC) {
            say(error, "window.tz", message);
        }
        if let Some(given) = self.record.get("selector_hash").and_then(Value::as_str)
            && given.parse() != Ok(self.hash())
        {
            say(error, "selector_hash", format!("the hash of this record is {}", self.hash()));
        }
        let group = self.group();
        let fits = match self.bag_type {
            BagType::Tagbag => group.by == GroupBy::Tag,
            BagType::Pairbag => group.by == GroupBy::Pair,
            BagType::Cohort => !matches!(group.by, GroupBy::Tag | GroupBy::Pair),
        };
        if !fits {
            let (kind, by) = (self.bag_type.as_str(), group.by.as_str());
            say(error, "group.by", format!("a {kind} is not grouped by {by}"));
        }
        if (group.by == GroupBy::Meta) != group.field.is_some() {
            say(
                error,
                "group.field",
                "a field is required when grouping by meta and not allowed otherwise".into(),
            );
        }
        if !group.keys.is_empty() && group.by != GroupBy::Tag {
            say(error, "group.keys", "keys are allowed only when grouping by tag".into());
        }
        let rule = &self.matching;
        let tags = |list: &[String]| -> BTreeSet<String> {
            list.iter().map(|tag| canonical(tag)).collect()
        };
        let none = tags(&rule.tags_none);
        if let Some(tag) = tags(&rule.tags_all).intersection(&none).next() {
            say(
                error,
                "match.tags_none",
                format!("{tag} is both required and excluded: nothing matches"),
            );
        }
        let any = tags(&rule.tags_any);
        if !any.is_empty() && any.is_subset(&none) {
            say(error, "match.tags_any", "every tag is also excluded: nothing matches".into());
        }
        let spelled = [
            ("match.tags_all", &rule.tags_all),
            ("match.tags_any", &rule.tags_any),
            ("match.tags_none", &rule.tags_none),
            ("group.keys", &group.keys),
        ];
        for (place, list) in spelled {
            for tag in list.iter().filter(|tag| tag.contains(':')) {
                let read = canonical(tag);
                if read != **tag {
                    say(warning, place, format!("{tag:?} is read as {read:?}"));
                }
            }
        }
        if group.min_items > self.caps.total {
            say(
                error,
                "group.min_items",
                "it is larger than caps.total: no bag can be that large".into(),
            );
        }
        for (place, cap) in
            [("caps.per_tag", self.caps.per_tag), ("caps.per_project", self.caps.per_project)]
        {
            if cap.is_some_and(|cap| cap > self.caps.total) {
                say(warning, place, "has no effect above caps.total".into());
            }
        }
        if self.memo.max_items > self.caps.total {
            say(warning, "memo.max_items", "has no effect above caps.total".into());
        }
        if self.memo.channels.is_empty() && self.exports.is_empty() {
            say(warning, "memo.channels", "the bags have neither memos nor data".into());
        }
        unknown_members(&self.record, &mut say);
        findings
    }
}

/// Refuses members that the schema does not know. A mistyped condition would otherwise match every
/// summary.
fn unknown_members(record: &Value, say: &mut impl FnMut(Severity, &str, String)) {
    let text = schema::text(SELECTOR_VERSION).unwrap_or("{}");
    let known: Value = serde_json::from_str(text).unwrap_or_default();
    unknown_below("", record, &known, say);
}

fn unknown_below(
    place: &str,
    value: &Value,
    declared: &Value,
    say: &mut impl FnMut(Severity, &str, String),
) {
    if let Some(items) = value.as_array() {
        for (number, item) in items.iter().enumerate() {
            unknown_below(&format!("{place}[{number}]"), item, &declared["items"], say);
        }
    }
    let Some(known) = declared["properties"].as_object() else { return };
    for (name, value) in value.as_object().into_iter().flatten() {
        let below = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        match known.get(name) {
            Some(declared) => unknown_below(&below, value, declared, say),
            None => {
                let names: Vec<&str> = known.keys().map(String::as_str).collect();
                let message = format!("is unknown; known members are {}", names.join(", "));
                say(Severity::Error, &below, message);
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SelectorsError {
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("read line {line} of the selectors: {reason}")]
    Line { line: usize, reason: String },
    /// A selector names a member of `meta` that no summary has.
    #[error("read the selectors: {selector_id}: {place}: {reason}")]
    UnknownMeta { selector_id: String, place: String, reason: String },
}

fn embedded_dataset() -> &'static [u8] {
    schema::REGISTRY.iter().find(|(path, _)| *path == SELECTORS).map_or(&[], |(_, bytes)| bytes)
}

/// Reads one line of a dataset, or says everything that is wrong with it.
fn read_line(
    line: &[u8],
    selectors: &mut Vec<Selector>,
    rules: &mut Option<ProjectRules>,
) -> Result<(), Vec<String>> {
    if selectors.len() == SELECTORS_MAX {
        return Err(vec![format!("a dataset has at most {SELECTORS_MAX} selectors")]);
    }
    let unread = |error: serde_json::Error| vec![error.to_string()];
    let record: Value = serde_json::from_slice(line).map_err(unread)?;
    let is_rules = record["schema_version"] == RULES_VERSION;
    let version = if is_rules { RULES_VERSION } else { SELECTOR_VERSION };
    let broken: Vec<String> =
        schema::check(version, &record).iter().map(ToString::to_string).collect();
    if !broken.is_empty() {
        return Err(broken);
    }
    if is_rules {
        let read = serde_json::from_value(record).map_err(unread)?;
        return match rules.replace(read) {
            None => Ok(()),
            Some(_) => Err(vec!["a dataset has one line of project rules".to_owned()]),
        };
    }
    let mut selector: Selector = serde_json::from_value(record.clone()).map_err(unread)?;
    selector.record = record;
    let mut wrong = Vec::new();
    if selectors.iter().any(|known| known.selector_id == selector.selector_id) {
        wrong.push(format!("{} appears twice", selector.selector_id));
    }
    let errors = selector.lint().into_iter().filter(|one| one.severity == Severity::Error);
    wrong.extend(errors.map(|one| format!("{}: {}", one.place, one.message)));
    if wrong.is_empty() {
        selectors.push(selector);
        return Ok(());
    }
    Err(wrong)
}

#[derive(Debug, Clone, PartialEq)]
pub struct Selectors {
    selectors: Vec<Selector>,
    /// How summaries get their project.
    rules: Option<ProjectRules>,
    hash: Digest,
}

impl Selectors {
    #[cfg(any(test, feature = "internals"))]
    pub fn embedded() -> Result<Selectors, SelectorsError> {
        Selectors::parse(embedded_dataset())
    }

    /// The selectors of a home: its own dataset, else the embedded one.
    pub fn of_home(disk: &dyn Disk, home: &Path) -> Result<Selectors, SelectorsError> {
        let (selectors, faults) = Selectors::of_home_with_faults(disk, home)?;
        faults.into_iter().next().map_or(Ok(selectors), Err)
    }

    /// The selectors of a home for a build. A name that no summary can have is an error too: a build
    /// with it would retire every bag of the selector.
    pub(crate) fn for_build(disk: &dyn Disk, home: &Path) -> Result<Selectors, SelectorsError> {
        let selectors = Selectors::of_home(disk, home)?;
        let own = META_NAMES.iter().map(|name| (*name).to_owned()).collect();
        let unknown = |known: &BTreeSet<String>| {
            let found = |one: &Selector| {
                let finding = one.unknown_meta(known).into_iter().next()?;
                Some((one.selector_id.clone(), finding))
            };
            selectors.all().iter().find_map(found)
        };
        // Packs are read only where a selector names a member that the program does not write.
        if unknown(&own).is_some()
            && let Ok((registry, _)) = Registry::of_home_with_faults(disk, home)
            && let Some((selector_id, finding)) = unknown(&registry.meta_names(disk))
        {
            let Finding { place, message: reason, .. } = finding;
            return Err(SelectorsError::UnknownMeta { selector_id, place, reason });
        }
        Ok(selectors)
    }

    /// The usable selectors of a home, and everything that is wrong with the others.
    pub(crate) fn of_home_with_faults(
        disk: &dyn Disk,
        home: &Path,
    ) -> Result<(Selectors, Vec<SelectorsError>), SelectorsError> {
        let path = home.join(HOME_FOLDER).join(SELECTORS);
        match disk.read_if_present(&path) {
            Ok(bytes) => Ok(Selectors::read(bytes.as_deref().unwrap_or(embedded_dataset()))),
            Err(source) => Err(SelectorsError::Read { path, source }),
        }
    }

    #[cfg(any(test, feature = "internals"))]
    pub fn parse(bytes: &[u8]) -> Result<Selectors, SelectorsError> {
        let (selectors, faults) = Selectors::read(bytes);
        faults.into_iter().next().map_or(Ok(selectors), Err)
    }

    fn read(bytes: &[u8]) -> (Selectors, Vec<SelectorsError>) {
        let (mut selectors, mut rules, mut faults) = (Vec::new(), None, Vec::new());
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let reasons = read_line(line, &mut selectors, &mut rules).err().unwrap_or_default();
            let fault = |reason| SelectorsError::Line { line: index + 1, reason };
            faults.extend(reasons.into_iter().map(fault));
        }
        selectors.sort_by(|a, b| a.selector_id.cmp(&b.selector_id));
        (Selectors { selectors, rules, hash: sha256(bytes) }, faults)
    }

    /// No selectors, for a build that cannot begin.
    pub(crate) fn none() -> Selectors {
        Selectors { selectors: Vec::new(), rules: None, hash: sha256(b"") }
    }

    /// All selectors, by id.
    pub fn all(&self) -> &[Selector] {
        &self.selectors
    }

    pub fn active(&self) -> impl Iterator<Item = &Selector> {
        self.selectors.iter().filter(|selector| selector.status == SelectorStatus::Active)
    }

    pub fn find(&self, selector_id: &str) -> Option<&Selector> {
        self.selectors.iter().find(|selector| selector.selector_id == selector_id)
    }

    /// The message for a name that is not an active selector.
    pub(crate) fn none_is(&self, wanted: &str) -> String {
        let names: Vec<&str> = self.active().map(|one| one.selector_id.as_str()).collect();
        format!("there is no active selector {wanted}; active selectors are {}", names.join(", "))
    }

    /// The fields of `meta` that the selectors use.
    pub fn fields(&self) -> BTreeSet<String> {
        let matched = self.selectors.iter().flat_map(|one| one.matching.meta.keys().cloned());
        let grouped = self.selectors.iter().filter_map(|one| one.group().field);
        // Tags that a flow puts on all its outputs are found by the flow.
        matched.chain(grouped).chain(["flow_id".to_owned()]).collect()
    }

    /// How summaries get their project. A dataset without rules has the default ones.
    pub fn rules(&self) -> ProjectRules {
        self.rules.clone().unwrap_or_default()
    }

    pub fn hash(&self) -> Digest {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(change: impl FnOnce(&mut Value)) -> Value {
        let mut record = json!({
            "schema_version": "selector.v1", "selector_id": "s", "selector_version": "1",
            "bag_type": "cohort", "window": {"type": "day"}, "caps": {"total": 10},
            "memo": {"max_items": 10},
        });
        change(&mut record);
        record
    }

    fn parse(record: &Value) -> Result<Selectors, SelectorsError> {
        Selectors::parse(record.to_string().as_bytes())
    }

    #[test]
    fn the_embedded_selectors_have_no_findings() {
        let selectors = Selectors::embedded().unwrap();
        assert!(selectors.all().len() >= 9);
        let active: Vec<&str> = selectors.active().map(|one| one.selector_id.as_str()).collect();
        assert_eq!(active, ["overview.daily", "overview.weekly", "project.weekly", "tasks.open"]);
        assert_eq!(
            selectors.rules(),
            ProjectRules::default(),
            "the file says what the program does"
        );
        for selector in selectors.all() {
            assert_eq!(selector.lint(), [], "{}", selector.selector_id);
        }
        let types: BTreeSet<&str> =
            selectors.all().iter().map(|selector| selector.bag_type.as_str()).collect();
        assert_eq!(types.len(), 3);
    }

    #[test]
    fn every_fault_of_a_dataset_is_named_with_its_line() {
        let good = record(|_| {}).to_string();
        let other = record(|r| {
            r["selector_id"] = "two".into();
            r["window"]["tz"] = "Mars/Base".into();
            r["group"] = json!({"by": "meta"});
        });
        let text = format!("{good}\nno json\n{other}\n{good}\n");
        let (selectors, faults) = Selectors::read(text.as_bytes());
        assert_eq!(selectors.all().len(), 1);
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        for (told, words) in
            told.iter().zip(["line 2 ", "window.tz", "group.field", "s appears twice"])
        {
            assert!(told.contains(words), "{told}");
        }
        assert!(Selectors::parse(text.as_bytes()).is_err());
    }

    #[test]
    fn a_member_of_meta_that_nothing_writes_is_found() {
        let known = BTreeSet::from(["flow_id".to_owned(), "stage".to_owned()]);
        let wrong = record(|r| {
            r["match"] = json!({"meta": {"stage": ["a"], "flowid": ["b"]}});
            r["group"] = json!({"by": "meta", "field": "nosuch"});
        });
        let found = parse(&wrong).unwrap().all()[0].unknown_meta(&known);
        let places: Vec<&str> = found.iter().map(|one| one.place.as_str()).collect();
        assert_eq!(places, ["match.meta.flowid", "group.field"]);
        assert!(found[0].message.contains("known are flow_id, stage"), "{}", found[0].message);
    }

    #[test]
    fn the_hash_ignores_the_order_of_members() {
        let plain = parse(&record(|_| {})).unwrap();
        let hash = plain.all()[0].hash();
        let text = r#"{"window":{"type":"day"},"selector_version":"1","selector_id":"s","schema_version":"selector.v1","memo":{"max_items":10},"caps":{"total":10},"bag_type":"cohort"}"#;
        assert_eq!(Selectors::parse(text.as_bytes()).unwrap().all()[0].hash(), hash);
        let sealed = record(|r| r["selector_hash"] = hash.hex().into());
        assert_eq!(parse(&sealed).unwrap().all()[0].hash(), hash);
        let later = record(|r| r["description"] = "another".into());
        assert_ne!(parse(&later).unwrap().all()[0].hash(), hash);
        let wrong = record(|r| r["selector_hash"] = "0".repeat(64).into());
        assert!(parse(&wrong).unwrap_err().to_string().contains("the hash of this record is"));
    }

    #[test]
    fn invalid_selectors_are_refused() {
        for (change, place) in [
            (json!({"window": {"type": "day", "tz": "Mars/Base"}}), "window.tz"),
            (json!({"bag_type": "tagbag", "group": {"by": "project"}}), "group.by"),
            (json!({"group": {"by": "meta"}}), "group.field"),
            (json!({"group": {"by": "none", "min_items": 11}}), "group.min_items"),
            (json!({"match": {"tags_all": ["A"], "tags_none": ["a"]}}), "match.tags_none"),
            (json!({"match": {"tags_any": ["a"], "tags_none": ["a"]}}), "match.tags_any"),
        ] {
            let bad = record(|r| {
                for (key, value) in change.as_object().unwrap() {
                    r[key] = value.clone();
                }
            });
            let error = parse(&bad).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("read line 1 of the selectors: {place}:")),
                "{error}"
            );
        }
        let error = parse(&record(|r| r["window"]["type"] = "year".into())).unwrap_err();
        assert!(error.to_string().contains("/window/type"), "{error}");
        let twice = format!("{0}\n{0}\n", record(|_| {}));
        let error = Selectors::parse(twice.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "read line 2 of the selectors: s appears twice");
    }

    #[test]
    fn members_without_effect_are_reported() {
        let loose = record(|r| {
            r["match"] = json!({"tags_any": ["Topics: AI"]});
            r["caps"]["per_tag"] = 11.into();
        });
        let findings = parse(&loose).unwrap().all()[0].lint();
        let places: Vec<&str> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["match.tags_any", "caps.per_tag"]);
    }

    #[test]
    fn a_mistyped_member_is_an_error_at_every_depth() {
        for (change, place) in [
            (json!({"mach": {"tags_any": ["x"]}}), "mach"),
            (json!({"match": {"tag_any": ["x"]}}), "match.tag_any"),
            (json!({"match": {"stream": ["events"]}}), "match.stream"),
            (json!({"group": {"by": "project", "min_item": 2}}), "group.min_item"),
            (json!({"caps": {"total": 10, "perproject": 2}}), "caps.perproject"),
            (json!({"memo": {"channel": ["tasks"]}}), "memo.channel"),
            (json!({"window": {"type": "day", "timezone": "UTC"}}), "window.timezone"),
            (json!({"pairs": {"minimum": 1}}), "pairs.minimum"),
        ] {
            let bad = record(|r| {
                for (key, value) in change.as_object().unwrap() {
                    r[key] = value.clone();
                }
            });
            let error = parse(&bad).unwrap_err().to_string();
            let expected = format!("read line 1 of the selectors: {place}: is unknown;");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
