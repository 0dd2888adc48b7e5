//! The indexes of the Digest Bus: that they agree, that what they name exists, and that nothing
//! exists that they do not name.
//!
//! See docs/adr/0095-digest-trees-that-prove-themselves.md.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::Path;

use serde_json::Value;

use super::bags::Expected;
use super::files::{KnownSummaries, read_files};
use super::{Report, Tree, index_entries, is_dir, names, rebuilt_indexes, rules};
use crate::contract::digest_bus::{
    BY_WINDOW_FILE, DIGESTS_DIR, INDEX_DIR, INDEX_VERSIONS, PROMOTION_FOLLOWS, REGISTRY_FILE,
    RUN_BAGS_LISTED_MAX, SHA256_FILE, TRACE_FILE,
};
use crate::contract::hash::sha256;
use crate::contract::schema;
use crate::contract::vocabulary::Stream;
use crate::export::run_record::RUN_RECORDS_DIR;
use crate::export::summary_bus::SUMMARIES_DIR;
use crate::os::{Disk, Open};
use crate::upstream::lines::Lines;

/// Largest index file.
const INDEX_BYTES_MAX: u64 = 1 << 30;

/// The bags that the registry names, live and retired.
pub(super) fn bags(tree: &Tree<'_>) -> io::Result<Vec<Expected>> {
    let path = tree.root.join(INDEX_DIR).join(REGISTRY_FILE);
    let Some(bytes) = tree.disk.read_if_present(&path)? else { return Ok(Vec::new()) };
    let registry: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let expected = expected(&registry);
    // What does not exist is one violation, of the index.
    Ok(expected.into_iter().filter(|bag| is_dir(tree.disk, &tree.root.join(&bag.path))).collect())
}

fn expected(registry: &Value) -> Vec<Expected> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let listed = ["entries", "retired"].iter().filter_map(|name| registry[*name].as_array());
    listed
        .flatten()
        .filter_map(|entry| {
            let path = text(&entry["path"]).filter(|path| is_bag_path(path))?;
            Some(Expected {
                path,
                bag_id: text(&entry["bag_id"])?,
                bag_type: text(&entry["bag_type"])?,
                bag_meta_sha256: text(&entry["bag_meta_sha256"]),
                trace_sha256: text(&entry["trace_sha256"]),
                published_memos: entry["published_memos"].as_u64(),
                entry: entry.clone(),
            })
        })
        .collect()
}

/// `digests/LEVEL/TYPE/ID`, and nothing that leads out of it.
fn is_bag_path(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    parts.len() == 4 && parts[0] == DIGESTS_DIR && !parts.iter().any(|part| part.starts_with('.'))
}

/// The summaries that are published; `None` when there is no Summary Bus to look at.
pub(super) fn known<'t>(tree: &'t Tree<'_>) -> io::Result<Option<&'t KnownSummaries>> {
    if let Some(known) = tree.summaries.get() {
        return Ok(known.as_ref());
    }
    let known = match is_dir(tree.disk, &tree.root.join(SUMMARIES_DIR)) {
        true => Some(read_known(tree)?),
        false => None,
    };
    Ok(tree.summaries.get_or_init(|| known).as_ref())
}

fn read_known(tree: &Tree<'_>) -> io::Result<KnownSummaries> {
    #[derive(serde::Deserialize)]
    struct Line {
        summary_id: Box<str>,
    }
    let mut known = HashSet::new();
    for stream in Stream::ALL {
        let folder = format!("{SUMMARIES_DIR}/{stream}");
        for name in names(tree, &folder)? {
            if name.starts_with('.') || !name.ends_with(".jsonl") {
                continue;
            }
            let file = tree.disk.open(&tree.root.join(&folder).join(&name), Open::Read)?;
            let mut lines = Lines::new(file, u64::MAX);
            while let Some((_, bytes)) = lines.next_line()? {
                // A line that does not read is a violation elsewhere.
                if let Ok(line) = serde_json::from_slice::<Line>(bytes) {
                    known.insert(line.summary_id);
                }
            }
        }
    }
    Ok(KnownSummaries(known))
}

/// Checks all indexes of a bus home against each other and against the folders.
pub(super) fn check(tree: &Tree<'_>, report: &mut Report) -> io::Result<()> {
    let has_bags = is_dir(tree.disk, &tree.root.join(DIGESTS_DIR));
    let index = tree.root.join(INDEX_DIR);
    if !has_bags && !is_dir(tree.disk, &index) {
        return Ok(());
    }
    let registry = verify_indexes(tree.disk, &index, report)?;
    let bags = expected(&registry);
    for bag in &bags {
        if !is_dir(tree.disk, &tree.root.join(&bag.path)) {
            let message = format!("{} does not exist", bag.path);
            let file = format!("{INDEX_DIR}/{REGISTRY_FILE}");
            report.break_rule(&rules::DIGEST_DANGLING, &file, None, "", message);
        }
    }
    let here = check_links(tree, &bags, report)?;
    let named: BTreeSet<&str> = bags.iter().map(|bag| bag.path.as_str()).collect();
    for level in folders(tree, DIGESTS_DIR, report)? {
        for bag_type in folders(tree, &level, report)? {
            for path in folders(tree, &bag_type, report)? {
                let is_hidden = path.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
                if !named.contains(path.as_str()) && !is_hidden {
                    let message = "no index names this bag".to_owned();
                    report.break_rule(&rules::DIGEST_ORPHAN, &path, None, "", message);
                }
            }
        }
    }
    let mut records = BTreeMap::new();
    for bag in here {
        let folder = tree.root.join(&bag.path);
        let Some(bytes) = tree.disk.read_if_present(&folder.join("meta/bag.json"))? else {
            continue;
        };
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        records.insert(bag.path.as_str(), value);
    }
    index_entries::check_against_bags(tree, &registry, &records, report)?;
    // A fault that has a name of its own is told once.
    if !report.violations.iter().any(|one| one.file.starts_with(INDEX_DIR)) {
        rebuilt_indexes::check(tree, &registry, &records, report)?;
        check_index_hashes(tree, &registry, report)?;
    }
    check_runs(tree, &records, report)
}

/// The published indexes against the record of the newest build that published some: so a bag that is
/// gone from its folder and from every index is seen. A collection of retired bags changes the indexes
/// and writes no record; then only the log can prove that nothing else is gone.
fn check_index_hashes(tree: &Tree<'_>, registry: &Value, report: &mut Report) -> io::Result<()> {
    let (Some(newest), last) = last_records_of_indexes(tree)? else { return Ok(()) };
    let mut differing = Vec::new();
    for indexes in last {
        differing = differing_indexes(tree, &indexes)?;
        if differing.is_empty() {
            return Ok(());
        }
    }
    if registry["updated_at"].as_str().unwrap_or_default() >= newest.as_str() {
        let what = "the indexes changed after the last build, as `digest gc` does: whether they \
                    name every bag is in the log only";
        report.unchecked.push(what.to_owned());
        return Ok(());
    }
    for path in differing {
        let message = "it is not what the last build published".to_owned();
        report.break_rule(&rules::DIGEST_RUN_HASH, &path, None, "", message);
    }
    Ok(())
}

/// When the last build ended that published indexes, and the indexes in its record. A record without an
/// end is of a build whose process died: the next start put its indexes in place, so they come with it.
/// Nothing of older records is kept: there may be one for each few minutes of years.
fn last_records_of_indexes(tree: &Tree<'_>) -> io::Result<(Option<String>, Vec<Vec<Value>>)> {
    let (mut newest, mut ended, mut endless) = (None, Vec::new(), Vec::new());
    for name in names(tree, RUN_RECORDS_DIR)? {
        if !name.ends_with(".run_record.json") || name.starts_with('.') {
            continue;
        }
        let bytes = tree.disk.read(&tree.root.join(RUN_RECORDS_DIR).join(&name))?;
        let mut record: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let is_index =
            |one: &Value| one["artifact_family"] == "digest_index" && one["data_hash"].is_string();
        let outputs = record["outputs"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let indexes: Vec<Value> = outputs.into_iter().filter(is_index).collect();
        if indexes.is_empty() {
            continue;
        }
        let at = record["completed_at"].as_str().map(str::to_owned);
        match (&at, &newest) {
            (None, _) => endless.push(indexes),
            (Some(at), Some(newest)) if at < newest => {}
            _ if at == newest => ended.push(indexes),
            _ => (newest, ended) = (at, vec![indexes]),
        }
    }
    ended.append(&mut endless);
    Ok((newest, ended))
}

/// The indexes that are not what a record says.
fn differing_indexes(tree: &Tree<'_>, indexes: &[Value]) -> io::Result<Vec<String>> {
    let mut differing = Vec::new();
    for one in indexes {
        let (path, hash) = (one["path"].as_str(), one["data_hash"].as_str());
        let (path, hash) = (path.unwrap_or_default(), hash.unwrap_or_default());
        if !INDEX_VERSIONS.iter().any(|(name, _)| path == format!("{INDEX_DIR}/{name}")) {
            continue;
        }
        let bytes = tree.disk.read_if_present(&tree.root.join(path))?.unwrap_or_default();
        if hash.parse() != Ok(sha256(bytes)) {
            differing.push(path.to_owned());
        }
    }
    Ok(differing)
}

/// The paths of the folders in a folder. A file is where no file belongs.
fn folders(tree: &Tree<'_>, folder: &str, report: &mut Report) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for name in names(tree, folder)? {
        let path = format!("{folder}/{name}");
        match is_dir(tree.disk, &tree.root.join(&path)) {
            true => found.push(path),
            false => {
                let message = "it is not a folder".to_owned();
                report.break_rule(&rules::DIGEST_STRAY, &path, None, "", message);
            }
        }
    }
    Ok(found)
}

/// The bags whose folders are where the registry says, and no links to another place.
fn check_links<'b>(
    tree: &Tree<'_>,
    bags: &'b [Expected],
    report: &mut Report,
) -> io::Result<Vec<&'b Expected>> {
    let root = tree.disk.real_path(tree.root)?;
    let mut here = Vec::new();
    for bag in bags {
        let folder = tree.root.join(&bag.path);
        if !is_dir(tree.disk, &folder) {
            continue;
        }
        if tree.disk.real_path(&folder)? == root.join(&bag.path) {
            here.push(bag);
            continue;
        }
        let message = "it is a link to another place".to_owned();
        report.break_rule(&rules::BAG_LINK, &bag.path, None, "", message);
    }
    Ok(here)
}

/// Checks the index files in a folder, which need not be the published one, and returns the
/// registry.
pub fn verify_indexes(disk: &dyn Disk, index: &Path, report: &mut Report) -> io::Result<Value> {
    let mut files = BTreeMap::new();
    read_files(disk, index, "", INDEX_BYTES_MAX, &mut files)?;
    let mut records: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, version) in INDEX_VERSIONS {
        let shown = format!("{INDEX_DIR}/{name}");
        let Some(bytes) = files.get(*name) else {
            let required = [REGISTRY_FILE, BY_WINDOW_FILE].contains(name);
            if required {
                let message = "it is missing".to_owned();
                report.break_rule(&rules::DIGEST_INDEX_MISSING, &shown, None, "", message);
            }
            continue;
        };
        report.file(bytes.len() as u64);
        match serde_json::from_slice::<Value>(bytes) {
            Ok(value) => {
                for violation in schema::check(version, &value) {
                    let (pointer, message) = (&violation.pointer, violation.message.clone());
                    report.break_rule(&rules::DIGEST_INDEX_SCHEMA, &shown, None, pointer, message);
                }
                records.insert(name, value);
            }
            Err(error) => {
                let message = error.to_string();
                report.break_rule(&rules::DIGEST_INDEX_SCHEMA, &shown, None, "", message);
            }
        }
    }
    check_sums(&files, report);
    let registry = records.remove(REGISTRY_FILE).unwrap_or_default();
    agree(&registry, &records, report);
    index_entries::check(&registry, &records, report);
    Ok(registry)
}

fn check_sums(files: &BTreeMap<String, Vec<u8>>, report: &mut Report) {
    let shown = format!("{INDEX_DIR}/{SHA256_FILE}");
    let mut wrong = |message: String| {
        report.break_rule(&rules::DIGEST_INDEX_HASH, &shown, None, "", message);
    };
    let Some(sums) = files.get(SHA256_FILE) else {
        return wrong("it is missing".to_owned());
    };
    let sums = String::from_utf8_lossy(sums);
    let mut named: Vec<&str> = Vec::new();
    for line in sums.lines() {
        let Some((hash, name)) = line.split_once("  ") else {
            wrong(format!("{line:?} is not a line of hashes"));
            continue;
        };
        // The file has one form, so that no change of it stays unseen.
        if named.last().is_some_and(|before| *before >= name) {
            wrong(format!("{name} is there twice or not in its place"));
        }
        named.push(name);
        match files.get(name).map(sha256) {
            None => wrong(format!("{name} is missing")),
            Some(actual) if hash != actual.hex() => wrong(format!("{name} has {}", actual.hex())),
            Some(_) => {}
        }
    }
    if !sums.ends_with('\n') || sums.contains('\r') {
        wrong("its last line has no end, or an end that is not ours".to_owned());
    }
    for name in files.keys().filter(|name| *name != SHA256_FILE && !named.contains(&name.as_str()))
    {
        wrong(format!("{name} is not in it"));
    }
}

fn agree(registry: &Value, others: &BTreeMap<&str, Value>, report: &mut Report) {
    let file = format!("{INDEX_DIR}/{REGISTRY_FILE}");
    let mut paths: BTreeMap<&str, &str> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for name in ["entries", "retired"] {
        for entry in registry[name].as_array().into_iter().flatten() {
            let text = |key: &str| entry[key].as_str().unwrap_or_default();
            let (bag_id, path) = (text("bag_id"), text("path"));
            if !seen.insert(bag_id) {
                let message = format!("{bag_id} is there twice");
                report.break_rule(&rules::DIGEST_DUPLICATE, &file, None, "", message);
            }
            let named = format!("{DIGESTS_DIR}/{}/{}/{bag_id}", text("level"), text("bag_type"));
            if path != named {
                let message = format!("the path of {bag_id} is {path:?}, not {named:?}");
                report.break_rule(&rules::DIGEST_INDEXES, &file, None, "", message);
            }
            if name == "entries" {
                paths.insert(bag_id, path);
            }
        }
    }
    for (name, value) in others {
        let mut refs = Vec::new();
        collect_refs(value, &mut refs);
        let shown = format!("{INDEX_DIR}/{name}");
        for (bag_id, path) in &refs {
            if paths.get(bag_id) != Some(path) {
                let message = format!("the registry has no bag {bag_id} at {path}");
                report.break_rule(&rules::DIGEST_INDEXES, &shown, None, "", message);
            }
        }
        if *name != BY_WINDOW_FILE {
            continue;
        }
        let named: BTreeSet<&str> = refs.iter().map(|(bag_id, _)| *bag_id).collect();
        for bag_id in paths.keys().filter(|bag_id| !named.contains(*bag_id)) {
            let message = format!("{bag_id} is in the registry, but no window lists it");
            report.break_rule(&rules::DIGEST_INDEXES, &shown, None, "", message);
        }
    }
}

/// Everything in an index that names a bag and its path.
fn collect_refs<'v>(value: &'v Value, refs: &mut Vec<(&'v str, &'v str)>) {
    match value {
        Value::Object(members) => {
            let named = members.get("bag_id").and_then(Value::as_str);
            let path = members.get("path").and_then(Value::as_str);
            if let (Some(bag_id), Some(path)) = (named, path) {
                refs.push((bag_id, path));
            }
            members.values().for_each(|member| collect_refs(member, refs));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_refs(item, refs)),
        _ => {}
    }
}

/// The runs that published bags say that they staged first and promoted then, and which files they
/// published.
fn check_runs(
    tree: &Tree<'_>,
    bags: &BTreeMap<&str, Value>,
    report: &mut Report,
) -> io::Result<()> {
    if !is_dir(tree.disk, &tree.root.join(RUN_RECORDS_DIR)) {
        report.unchecked.push("the tree has no run records of digest builds".to_owned());
        return Ok(());
    }
    let mut runs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, bag) in bags {
        if let Some(run_id) = bag["producer"]["run_id"].as_str() {
            runs.entry(run_id).or_default().push(path);
        }
    }
    for (run_id, bags) in runs {
        let file = format!("{RUN_RECORDS_DIR}/{run_id}.run_record.json");
        let plain = run_id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        let bytes = match plain {
            true => tree.disk.read_if_present(&tree.root.join(&file))?,
            false => None,
        };
        let bag = bags[0];
        let Some(bytes) = bytes else {
            let message = format!("it published {bag} and has no record");
            report.break_rule(&rules::DIGEST_RUN, &file, None, "", message);
            continue;
        };
        let record: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let stages = record["stages"].as_array().into_iter().flatten();
        let stages: Vec<&str> = stages.filter_map(|stage| stage["stage"].as_str()).collect();
        let at = |name: &str| stages.iter().position(|stage| *stage == name);
        let ordered = at("staging").is_some() && at("staging") < at("promotion");
        let outputs = record["outputs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let promoted = outputs.iter().any(|output| output["promotion_status"] == "promoted");
        // A build may fail after the log took its bags; then it says that others put them in place.
        let mut errors = record["errors"].as_array().into_iter().flatten();
        let follows = errors.any(|error| error["details"][PROMOTION_FOLLOWS] == true);
        if !ordered || !(promoted || (record["status"] == "error" && follows)) {
            let message =
                format!("it published {bag}, but its stages and outputs do not show the promotion");
            report.break_rule(&rules::DIGEST_RUN, &file, None, "/stages", message);
        }
        check_outputs(tree, &file, outputs, &bags, report)?;
    }
    Ok(())
}

/// Each bag of a run against the hash that the record of the run has for it. The trace of a bag
/// holds the hashes of its whole folder, so this covers every file of the bag. A record that lists
/// only the first of very many bags says nothing of the others.
fn check_outputs(
    tree: &Tree<'_>,
    file: &str,
    outputs: &[Value],
    bags: &[&str],
    report: &mut Report,
) -> io::Result<()> {
    let of_bags = outputs.iter().filter(|output| output["artifact_family"] == "digest_bus");
    let listed: BTreeMap<&str, &Value> =
        of_bags.filter_map(|output| Some((output["path"].as_str()?, output))).collect();
    for bag in bags {
        let Some(output) = listed.get(bag) else {
            // Records of others need not list what was published.
            let lists = outputs.iter().any(|output| output["artifact_family"] == "digest_index");
            if lists && listed.len() < RUN_BAGS_LISTED_MAX {
                let message = format!("bag.json of {bag} names this run, which did not publish it");
                report.break_rule(&rules::DIGEST_RUN_HASH, file, None, "/outputs", message);
            }
            continue;
        };
        let Some(hash) = output["data_hash"].as_str() else { continue };
        let hashed = tree.root.join(bag).join(TRACE_FILE);
        let Some(bytes) = tree.disk.read_if_present(&hashed)? else { continue };
        let actual = sha256(bytes);
        if hash.parse() != Ok(actual) {
            let message =
                format!("the run published {bag} with a trace of {hash}, it has {actual}");
            report.break_rule(&rules::DIGEST_RUN_HASH, file, None, "/outputs", message);
        }
    }
    Ok(())
}
