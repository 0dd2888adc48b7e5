//! What the indexes say about each bag: every index repeats facts of the registry or of `bag.json`,
//! and each repetition is compared.
//!
//! An index of somebody else may lack optional members; a member that is not there says nothing.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Map, Value, json};

use super::rules;
use super::{Report, Tree};
use crate::contract::digest_bus::{
    BY_WINDOW_FILE, INDEX_DIR, LATEST_FILE, PAIRS_FILE, REGISTRY_FILE, TAGS_FILE,
};

/// Members that a reference to a bag repeats from its registry entry.
const REPEATED: &[&str] = &[
    "level",
    "bag_type",
    "bag_id",
    "path",
    "published_memos",
    "created_at",
    "selector_id",
    "group",
    "window_label",
];
/// Members that a window repeats from the registry entries of its bags.
const OF_WINDOW: &[&str] = &["start_day", "end_day"];

/// One index that is compared with the registry.
struct IndexCheck<'a> {
    name: &'a str,
    report: &'a mut Report,
}

impl IndexCheck<'_> {
    fn differs(&mut self, pointer: &str, message: String) {
        let file = format!("{INDEX_DIR}/{}", self.name);
        self.report.break_rule(&rules::DIGEST_ENTRY, &file, None, pointer, message);
    }

    /// Members that two records share must be equal.
    fn same(&mut self, pointer: &str, found: &Value, wanted: &Value, names: &[&str], who: &str) {
        for name in names {
            if let (Some(found), Some(wanted)) = (found.get(name), wanted.get(name))
                && found != wanted
            {
                self.differs(
                    &format!("{pointer}/{name}"),
                    format!("it says {found}, {who} says {wanted}"),
                );
            }
        }
    }
}

fn entries(registry: &Value) -> impl Iterator<Item = &Value> {
    registry["entries"].as_array().into_iter().flatten()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Escapes a name for a JSON pointer.
fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Compares the other indexes with the registry.
pub(super) fn check(registry: &Value, others: &BTreeMap<&str, Value>, report: &mut Report) {
    let known: BTreeMap<&str, &Value> =
        entries(registry).map(|entry| (text(entry, "bag_id"), entry)).collect();
    for (name, index) in others {
        let mut check = IndexCheck { name, report };
        check.same("", index, registry, &["updated_at"], "the registry");
        match *name {
            BY_WINDOW_FILE => by_window(&mut check, index, &known),
            LATEST_FILE => latest(&mut check, index, registry, &known),
            TAGS_FILE => tags(&mut check, index, &known),
            PAIRS_FILE => each(&mut check, "/pairs", &index["pairs"], &known),
            _ => {}
        }
    }
    retired(registry, &mut IndexCheck { name: REGISTRY_FILE, report });
}

/// References to bags against the registry.
fn each(check: &mut IndexCheck<'_>, pointer: &str, refs: &Value, known: &BTreeMap<&str, &Value>) {
    for (place, one) in refs.as_array().into_iter().flatten().enumerate() {
        if let Some(entry) = known.get(text(one, "bag_id")) {
            check.same(&format!("{pointer}/{place}"), one, entry, REPEATED, "the registry");
        }
    }
}

fn by_window(check: &mut IndexCheck<'_>, index: &Value, known: &BTreeMap<&str, &Value>) {
    for (label, window) in index["windows"].as_object().into_iter().flatten() {
        let pointer = format!("/windows/{}", token(label));
        let refs = format!("{pointer}/bag_refs");
        each(check, &refs, &window["bag_refs"], known);
        for one in window["bag_refs"].as_array().into_iter().flatten() {
            let Some(entry) = known.get(text(one, "bag_id")) else { continue };
            if text(entry, "window_label") != label {
                let message = format!("the registry has {} in another window", entry["bag_id"]);
                check.differs(&refs, message);
            }
            check.same(&pointer, window, entry, OF_WINDOW, "the registry");
        }
    }
}

/// The newest bag of each selector and group.
fn latest(
    check: &mut IndexCheck<'_>,
    index: &Value,
    registry: &Value,
    known: &BTreeMap<&str, &Value>,
) {
    each(check, "/latest", &index["latest"], known);
    let key = |entry: &Value| (text(entry, "selector_id").to_owned(), entry["group"].to_string());
    let place = |entry: &Value| {
        let name = |name: &str| text(entry, name).to_owned();
        (name("start_day"), name("window_label"), name("bag_id"))
    };
    let mut newest: BTreeMap<_, &Value> = BTreeMap::new();
    for entry in entries(registry).filter(|entry| entry.get("selector_id").is_some()) {
        let held = newest.entry(key(entry)).or_insert(entry);
        if place(held) < place(entry) {
            *held = entry;
        }
    }
    let listed = index["latest"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (at, one) in listed.iter().enumerate() {
        match newest.remove(&key(one)) {
            Some(entry) if entry["bag_id"] == one["bag_id"] => {}
            _ => check.differs(
                &format!("/latest/{at}"),
                format!("{} is not the newest bag of its selector and group", one["bag_id"]),
            ),
        }
    }
    for entry in newest.values() {
        check.differs("/latest", format!("{} is the newest bag and is missing", entry["bag_id"]));
    }
}

fn tags(check: &mut IndexCheck<'_>, index: &Value, known: &BTreeMap<&str, &Value>) {
    for (tag, entry) in index["tags"].as_object().into_iter().flatten() {
        let pointer = format!("/tags/{}/bag_refs", token(tag));
        each(check, &pointer, &entry["bag_refs"], known);
    }
}

/// A retired bag names the bag that replaced it, and only one that was replaced does.
fn retired(registry: &Value, check: &mut IndexCheck<'_>) {
    for (place, entry) in registry["retired"].as_array().into_iter().flatten().enumerate() {
        let replaced = entry["superseded_by"].is_string();
        if entry.get("superseded_by").is_some() && replaced != (entry["reason"] == "superseded") {
            let message = "reason and superseded_by contradict each other".to_owned();
            check.differs(&format!("/retired/{place}"), message);
        }
    }
}

/// Compares what indexes take from `bag.json` with the bags, by their path.
pub(super) fn check_against_bags(
    tree: &Tree<'_>,
    registry: &Value,
    bags: &BTreeMap<&str, Value>,
    report: &mut Report,
) -> io::Result<()> {
    let live: BTreeMap<&str, &Value> = entries(registry)
        .filter_map(|entry| Some((text(entry, "bag_id"), bags.get(text(entry, "path"))?)))
        .collect();
    let read = |name: &str| -> io::Result<Option<Value>> {
        let bytes = tree.disk.read_if_present(&tree.root.join(INDEX_DIR).join(name))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    };
    if let Some(index) = read(BY_WINDOW_FILE)? {
        let mut check = IndexCheck { name: BY_WINDOW_FILE, report };
        for (label, window) in index["windows"].as_object().into_iter().flatten() {
            for one in window["bag_refs"].as_array().into_iter().flatten() {
                let Some(bag) = live.get(text(one, "bag_id")) else { continue };
                let pointer = format!("/windows/{}", token(label));
                check.same(&pointer, window, &bag["window"], &["window_type"], "bag.json");
            }
        }
    }
    if let Some(index) = read(TAGS_FILE)? {
        tags_of_bags(&mut IndexCheck { name: TAGS_FILE, report }, &index, &live);
    }
    if let Some(index) = read(PAIRS_FILE)? {
        pairs_of_bags(&mut IndexCheck { name: PAIRS_FILE, report }, &index, &live);
    }
    Ok(())
}

fn tags_of_bags(check: &mut IndexCheck<'_>, index: &Value, live: &BTreeMap<&str, &Value>) {
    let mut wanted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (bag_id, bag) in live {
        for tag in bag["tags"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            wanted.entry(tag).or_default().push(bag_id);
        }
    }
    let nothing = Map::new();
    let listed = index["tags"].as_object().unwrap_or(&nothing);
    let named = wanted.keys().copied().chain(listed.keys().map(String::as_str));
    let named: std::collections::BTreeSet<&str> = named.collect();
    for tag in named {
        let refs = listed.get(tag).and_then(|entry| entry["bag_refs"].as_array());
        let mut found: Vec<&str> =
            refs.into_iter().flatten().map(|one| text(one, "bag_id")).collect();
        found.retain(|bag_id| live.contains_key(bag_id));
        found.sort_unstable();
        if found != wanted.get(tag).map(Vec::as_slice).unwrap_or_default() {
            let message = "the bags with this tag are others".to_owned();
            check.differs(&format!("/tags/{}", token(tag)), message);
        }
    }
}

fn pairs_of_bags(check: &mut IndexCheck<'_>, index: &Value, live: &BTreeMap<&str, &Value>) {
    let mut missing: BTreeMap<&str, &Value> = live
        .iter()
        .filter(|(_, bag)| bag["pair"].is_object())
        .map(|(bag_id, bag)| (*bag_id, *bag))
        .collect();
    for (place, one) in index["pairs"].as_array().into_iter().flatten().enumerate() {
        let Some(bag) = missing.remove(text(one, "bag_id")) else { continue };
        let pointer = format!("/pairs/{place}");
        let scores = ["count", "lift", "npmi", "edge_score"];
        check.same(&pointer, one, &bag["pair"], &scores, "bag.json");
        let tags = json!({"tags": bag["tags"]});
        check.same(&pointer, one, &tags, &["tags"], "bag.json");
    }
    for bag_id in missing.keys() {
        check.differs("/pairs", format!("{bag_id} is a bag of a pair and is missing"));
    }
}
