//! The index files. A reader learns that a bag exists only from them.
//!
//! Contract. A pure function of the catalog. Times and the log head are those of the event that
//! changed the catalog last. `index.sha256` lists the hashes of all other index files in the format
//! of `sha256sum`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::catalog::{Catalog, CatalogEntry};
use crate::contract::digest_bus::{
    BY_WINDOW_FILE, LATEST_FILE, LEVEL, PAIRS_FILE, REGISTRY_FILE, SHA256_FILE, TAGS_FILE,
};
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::to_file;
use crate::contract::time::Day;
use crate::facts::digest::{BagFacts, BagType, PairFacts, WindowType};

#[derive(Serialize)]
struct RegistryIndex<'a> {
    schema_version: &'a str,
    updated_at: &'a str,
    sequence: u64,
    log_head: &'a str,
    entries: Vec<RegistryEntry<'a>>,
    retired: Vec<RetiredEntry<'a>>,
    #[serde(skip_serializing_if = "is_none")]
    forgotten: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

#[derive(Serialize)]
struct RegistryEntry<'a> {
    level: &'a str,
    bag_type: BagType,
    bag_id: &'a str,
    window_label: &'a str,
    start_day: Option<Day>,
    end_day: Option<Day>,
    selector_id: &'a str,
    group: Option<&'a str>,
    path: String,
    bag_meta_sha256: Digest,
    trace_sha256: Digest,
    published_memos: usize,
    created_at: &'a str,
}

#[derive(Serialize)]
struct RetiredEntry<'a> {
    level: &'a str,
    bag_type: BagType,
    bag_id: &'a str,
    window_label: &'a str,
    selector_id: &'a str,
    path: String,
    reason: &'a str,
    superseded_by: Option<&'a str>,
    retired_at: String,
}

#[derive(Serialize)]
struct ByWindow<'a> {
    schema_version: &'a str,
    updated_at: &'a str,
    windows: BTreeMap<&'a str, WindowEntry<'a>>,
}

#[derive(Serialize)]
struct WindowEntry<'a> {
    window_type: WindowType,
    start_day: Option<Day>,
    end_day: Option<Day>,
    bag_refs: Vec<BagRef<'a>>,
}

#[derive(Serialize)]
struct BagRef<'a> {
    bag_type: BagType,
    bag_id: &'a str,
    path: String,
    published_memos: usize,
    created_at: &'a str,
    selector_id: &'a str,
    group: Option<&'a str>,
}

#[derive(Serialize)]
struct Latest<'a> {
    schema_version: &'a str,
    updated_at: &'a str,
    latest: Vec<LatestEntry<'a>>,
}

#[derive(Serialize)]
struct LatestEntry<'a> {
    selector_id: &'a str,
    group: Option<&'a str>,
    window_label: &'a str,
    bag_type: BagType,
    bag_id: &'a str,
    path: String,
    published_memos: usize,
    created_at: &'a str,
}

#[derive(Serialize)]
struct Tags<'a> {
    schema_version: &'a str,
    updated_at: &'a str,
    tags: BTreeMap<&'a str, TagEntry<'a>>,
}

#[derive(Default, Serialize)]
struct TagEntry<'a> {
    bag_refs: Vec<TagRef<'a>>,
}

#[derive(Serialize)]
struct TagRef<'a> {
    window_label: &'a str,
    bag_type: BagType,
    bag_id: &'a str,
    path: String,
}

#[derive(Serialize)]
struct Pairs<'a> {
    schema_version: &'a str,
    updated_at: &'a str,
    pairs: Vec<PairEntry<'a>>,
}

#[derive(Serialize)]
struct PairEntry<'a> {
    tags: &'a [String],
    window_label: &'a str,
    bag_id: &'a str,
    path: String,
    #[serde(flatten)]
    score: &'a PairFacts,
}

fn group(facts: &BagFacts) -> Option<&str> {
    facts.group.as_ref().map(|group| group.key.as_str())
}

/// The order of bags in every index: by window, selector, group and id.
fn place(facts: &BagFacts) -> (Option<Day>, &str, &str, Option<&str>, &str) {
    let window = &facts.window;
    (window.start_day, &window.label, &facts.selector_id, group(facts), &facts.bag_id)
}

/// Every index file by name; empty when no build was published.
pub fn render(catalog: &Catalog) -> serde_json::Result<BTreeMap<&'static str, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let Some(change) = catalog.change() else { return Ok(files) };
    let updated_at = change.at.to_string();
    let mut live: Vec<&BagFacts> = catalog.live().map(|entry| &entry.facts).collect();
    live.sort_by(|a, b| place(a).cmp(&place(b)));
    let registry = RegistryIndex {
        schema_version: "digest_registry.v1",
        updated_at: &updated_at,
        sequence: change.seq.0,
        log_head: &change.log_head,
        entries: live.iter().map(|facts| registry_entry(facts)).collect(),
        retired: retired(catalog),
        forgotten: catalog.forgotten(),
    };
    files.insert(REGISTRY_FILE, to_file(&registry)?.into_bytes());
    files.insert(BY_WINDOW_FILE, by_window(&updated_at, &live)?);
    files.insert(LATEST_FILE, latest(&updated_at, &live)?);
    files.insert(TAGS_FILE, tags(&updated_at, &live)?);
    files.insert(PAIRS_FILE, pairs(&updated_at, &live)?);
    let sums: String =
        files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect();
    files.insert(SHA256_FILE, sums.into_bytes());
    Ok(files)
}

fn registry_entry(facts: &BagFacts) -> RegistryEntry<'_> {
    RegistryEntry {
        level: LEVEL,
        bag_type: facts.bag_type,
        bag_id: &facts.bag_id,
        window_label: &facts.window.label,
        start_day: facts.window.start_day,
        end_day: facts.window.end_day,
        selector_id: &facts.selector_id,
        group: group(facts),
        path: facts.path(),
        bag_meta_sha256: facts.bag_meta_sha256,
        trace_sha256: facts.trace_sha256,
        published_memos: facts.memos.len(),
        created_at: &facts.created_at,
    }
}

fn retired(catalog: &Catalog) -> Vec<RetiredEntry<'_>> {
    let entries = catalog.entries().values();
    let mut retired: Vec<(&CatalogEntry, RetiredEntry<'_>)> = entries
        .filter_map(|entry| {
            let (facts, retired) = (&entry.facts, entry.retired.as_ref()?);
            let row = RetiredEntry {
                level: LEVEL,
                bag_type: facts.bag_type,
                bag_id: &facts.bag_id,
                window_label: &facts.window.label,
                selector_id: &facts.selector_id,
                path: facts.path(),
                reason: retired.reason.as_str(),
                superseded_by: retired.superseded_by.as_deref(),
                retired_at: retired.at.to_string(),
            };
            Some((entry, row))
        })
        .collect();
    retired.sort_by(|(a, _), (b, _)| place(&a.facts).cmp(&place(&b.facts)));
    retired.into_iter().map(|(_, row)| row).collect()
}

fn by_window(updated_at: &str, live: &[&BagFacts]) -> serde_json::Result<Vec<u8>> {
    let mut windows: BTreeMap<&str, WindowEntry<'_>> = BTreeMap::new();
    for facts in live {
        let window = &facts.window;
        let entry = windows.entry(&window.label).or_insert_with(|| WindowEntry {
            window_type: window.window_type,
            start_day: window.start_day,
            end_day: window.end_day,
            bag_refs: Vec::new(),
        });
        entry.bag_refs.push(BagRef {
            bag_type: facts.bag_type,
            bag_id: &facts.bag_id,
            path: facts.path(),
            published_memos: facts.memos.len(),
            created_at: &facts.created_at,
            selector_id: &facts.selector_id,
            group: group(facts),
        });
    }
    let schema_version = "l2_by_window.v1";
    Ok(to_file(&ByWindow { schema_version, updated_at, windows })?.into_bytes())
}

fn latest(updated_at: &str, live: &[&BagFacts]) -> serde_json::Result<Vec<u8>> {
    let mut newest: BTreeMap<(&str, Option<&str>), &BagFacts> = BTreeMap::new();
    // Bags are sorted by window, so the last insertion for each key is the newest.
    for facts in live {
        newest.insert((&facts.selector_id, group(facts)), facts);
    }
    let latest = newest
        .into_iter()
        .map(|((selector_id, group), facts)| LatestEntry {
            selector_id,
            group,
            window_label: &facts.window.label,
            bag_type: facts.bag_type,
            bag_id: &facts.bag_id,
            path: facts.path(),
            published_memos: facts.memos.len(),
            created_at: &facts.created_at,
        })
        .collect();
    let schema_version = "l2_latest.v1";
    Ok(to_file(&Latest { schema_version, updated_at, latest })?.into_bytes())
}

fn tags(updated_at: &str, live: &[&BagFacts]) -> serde_json::Result<Vec<u8>> {
    let mut tags: BTreeMap<&str, TagEntry<'_>> = BTreeMap::new();
    for facts in live {
        for tag in &facts.tags {
            tags.entry(tag).or_default().bag_refs.push(TagRef {
                window_label: &facts.window.label,
                bag_type: facts.bag_type,
                bag_id: &facts.bag_id,
                path: facts.path(),
            });
        }
    }
    let schema_version = "tags_index.v1";
    Ok(to_file(&Tags { schema_version, updated_at, tags })?.into_bytes())
}

fn pairs(updated_at: &str, live: &[&BagFacts]) -> serde_json::Result<Vec<u8>> {
    let pairs = live
        .iter()
        .filter_map(|facts| {
            Some(PairEntry {
                tags: &facts.tags,
                window_label: &facts.window.label,
                bag_id: &facts.bag_id,
                path: facts.path(),
                score: facts.pair.as_ref()?,
            })
        })
        .collect();
    let schema_version = "pairs_index.v1";
    Ok(to_file(&Pairs { schema_version, updated_at, pairs })?.into_bytes())
}
