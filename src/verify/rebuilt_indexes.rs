//! The indexes again, made from the bags alone.
//!
//! Contract. Where this program made every bag, each index must hold exactly what its bags give, in its
//! order: nothing less, nothing twice. Members that no schema names are not compared. Indexes of others
//! may lack members, so they are not compared here.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Map, Value, json};

use super::{Report, Tree, rules};
use crate::contract::digest_bus::{
    BY_WINDOW_FILE, INDEX_DIR, LATEST_FILE, LEVEL, PAIRS_FILE, REGISTRY_FILE, TAGS_FILE,
};

/// A bag of the registry: its path, its record and its entry.
struct LiveBag<'a> {
    path: &'a str,
    bag: &'a Value,
    registered: &'a Value,
}

impl LiveBag<'_> {
    fn group(&self) -> &Value {
        &self.bag["group"]["key"]
    }

    fn label(&self) -> &str {
        self.bag["window"]["label"].as_str().unwrap_or_default()
    }

    fn selector(&self) -> &str {
        self.bag["selector"]["selector_id"].as_str().unwrap_or_default()
    }

    /// The order of bags in every index.
    fn place(&self) -> (Option<&str>, &str, &str, Option<&str>, &str) {
        let start = self.bag["window"]["start_day"].as_str();
        let id = self.bag["bag_id"].as_str().unwrap_or_default();
        (start, self.label(), self.selector(), self.group().as_str(), id)
    }

    /// Its entry. What the registry says stands as it is: other checks compare it with the bag.
    fn entry(&self) -> Value {
        let (bag, window) = (self.bag, &self.bag["window"]);
        let mut entry = json!({
            "level": LEVEL, "bag_type": bag["bag_type"], "bag_id": bag["bag_id"],
            "window_label": window["label"], "start_day": window["start_day"],
            "end_day": window["end_day"], "selector_id": self.selector(), "group": self.group(),
            "path": self.path, "bag_meta_sha256": null, "trace_sha256": null,
            "published_memos": bag["counts"]["published_memos"], "created_at": bag["created_at"],
        });
        for (name, member) in entry.as_object_mut().into_iter().flatten() {
            if let Some(registered) = self.registered.get(name) {
                member.clone_from(registered);
            }
        }
        entry
    }

    /// A reference to it, with these members of its entry.
    fn reference(&self, names: &[&str]) -> Value {
        let entry = self.entry();
        Value::Object(names.iter().map(|name| ((*name).to_owned(), entry[*name].clone())).collect())
    }
}

pub(super) fn check(
    tree: &Tree<'_>,
    registry: &Value,
    bags: &BTreeMap<&str, Value>,
    report: &mut Report,
) -> io::Result<()> {
    let is_ours = |bag: &Value| {
        bag["producer"]["name"] == "summarizer" && bag["identity"]["scheme"] == "stable_id:v1"
    };
    if bags.is_empty() || !bags.values().all(is_ours) {
        return Ok(());
    }
    let entries = registry["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut live = Vec::new();
    for entry in entries {
        let path = entry["path"].as_str().unwrap_or_default();
        // A bag that is not there is told elsewhere.
        let Some((path, bag)) = bags.get_key_value(path) else { return Ok(()) };
        live.push(LiveBag { path, bag, registered: entry });
    }
    live.sort_by(|a, b| a.place().cmp(&b.place()));
    let retired = registry["retired"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |entry: &'_ Value| bags.get_key_value(entry["path"].as_str().unwrap_or_default());
    let mut left: Vec<LiveBag<'_>> = retired
        .iter()
        .filter_map(|entry| of(entry).map(|(path, bag)| LiveBag { path, bag, registered: entry }))
        .collect();
    left.sort_by(|a, b| a.place().cmp(&b.place()));
    let names = ["level", "bag_type", "bag_id", "window_label", "selector_id", "path"];
    let left: Vec<Value> = left.iter().map(|one| one.reference(&names)).collect();
    let wanted = [
        (
            REGISTRY_FILE,
            json!({
                "entries": live.iter().map(LiveBag::entry).collect::<Vec<_>>(),
                "retired": left,
            }),
        ),
        (BY_WINDOW_FILE, json!({"windows": by_window(&live)})),
        (LATEST_FILE, json!({"latest": latest(&live)})),
        (TAGS_FILE, json!({"tags": tags(&live)})),
        (PAIRS_FILE, json!({"pairs": pairs(&live)})),
    ];
    for (name, wanted) in wanted {
        let bytes = tree.disk.read_if_present(&tree.root.join(INDEX_DIR).join(name))?;
        let found: Value =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        if let Some((pointer, message)) = difference("", &found, &wanted) {
            let file = format!("{INDEX_DIR}/{name}");
            report.break_rule(&rules::DIGEST_ENTRY, &file, None, &pointer, message);
        }
    }
    Ok(())
}

fn by_window(live: &[LiveBag<'_>]) -> Map<String, Value> {
    const NAMES: &[&str] =
        &["bag_type", "bag_id", "path", "published_memos", "created_at", "selector_id", "group"];
    let mut windows = Map::new();
    for one in live {
        let (window, own) = (&one.bag["window"], one.entry());
        let entry = windows.entry(one.label()).or_insert_with(|| {
            json!({
                "window_type": window["window_type"], "start_day": own["start_day"],
                "end_day": own["end_day"], "bag_refs": [],
            })
        });
        push(&mut entry["bag_refs"], one.reference(NAMES));
    }
    windows
}

/// The newest bag of each selector and group.
fn latest(live: &[LiveBag<'_>]) -> Vec<Value> {
    const NAMES: &[&str] = &[
        "selector_id",
        "group",
        "window_label",
        "bag_type",
        "bag_id",
        "path",
        "published_memos",
        "created_at",
    ];
    let newest: BTreeMap<(&str, Option<&str>), &LiveBag<'_>> =
        live.iter().map(|one| ((one.selector(), one.group().as_str()), one)).collect();
    newest.into_values().map(|one| one.reference(NAMES)).collect()
}

fn tags(live: &[LiveBag<'_>]) -> Map<String, Value> {
    let mut tags = Map::new();
    for one in live {
        for tag in one.bag["tags"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let entry = tags.entry(tag).or_insert_with(|| json!({"bag_refs": []}));
            let names = ["window_label", "bag_type", "bag_id", "path"];
            push(&mut entry["bag_refs"], one.reference(&names));
        }
    }
    tags
}

fn pairs(live: &[LiveBag<'_>]) -> Vec<Value> {
    let scored = live.iter().filter(|one| one.bag["pair"].is_object());
    let pair = |one: &LiveBag<'_>| {
        let mut pair = one.reference(&["window_label", "bag_id", "path"]);
        pair["tags"] = one.bag["tags"].clone();
        for name in ["count", "lift", "npmi", "edge_score"] {
            pair[name] = one.bag["pair"][name].clone();
        }
        pair
    };
    scored.map(pair).collect()
}

fn push(list: &mut Value, item: Value) {
    if let Value::Array(items) = list {
        items.push(item);
    }
}

/// The first place where a value is not what it should be. Only the members of `windows` and `tags` are
/// names that nothing else may have.
fn difference(pointer: &str, found: &Value, wanted: &Value) -> Option<(String, String)> {
    let below = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let is_map = ["/windows", "/tags"].contains(&pointer);
            if let Some(name) = found.keys().find(|name| is_map && !wanted.contains_key(*name)) {
                return Some((below(name), "no bag gives it".to_owned()));
            }
            wanted.iter().find_map(|(name, wanted)| match found.get(name) {
                Some(found) => difference(&below(name), found, wanted),
                None => Some((below(name), format!("it is missing; the bags give {wanted}"))),
            })
        }
        (Value::Array(found), Value::Array(wanted)) => {
            let differs = |(at, (found, wanted)): (usize, (&Value, &Value))| {
                difference(&format!("{pointer}/{at}"), found, wanted)
            };
            let first = found.iter().zip(wanted).enumerate().find_map(differs);
            let lengths = || format!("it has {}, the bags give {}", found.len(), wanted.len());
            first.or_else(|| (found.len() != wanted.len()).then(|| (pointer.to_owned(), lengths())))
        }
        _ if found == wanted => None,
        _ => Some((pointer.to_owned(), format!("it says {found}, the bags give {wanted}"))),
    }
}
