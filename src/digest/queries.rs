//! Read-only questions about bags: previews of selectors, differences between two bags,
//! lists.

use std::collections::{BTreeMap, BTreeSet};

use chrono_tz::Tz;
use serde_json::{Value, json};

use super::bag::{BagState, draft_id, window_facts};
use super::build::{BuildError, read_item};
use super::catalog::{Catalog, CatalogEntry};
use super::choose::{BagDraft, DropReason, Matcher, left_out};
use super::library::Library;
use super::open_tasks::OpenTasks;
use super::publish::{DigestError, Digests};
use super::selector::Selector;
use super::tasks::{Closed, task_id};
use crate::export::run_record::RUN_RECORDS_DIR;
use crate::log::{ReadError, Reader};

/// Which bags to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BagFilter {
    pub selector: Option<String>,
    pub window: Option<String>,
    pub retired: bool,
}

/// All bags, in the order of the registry.
pub fn list(catalog: &Catalog, wanted: &BagFilter) -> Value {
    let mut entries: Vec<&CatalogEntry> = catalog
        .entries()
        .values()
        .filter(|entry| entry.retired.is_some() == wanted.retired)
        .filter(|entry| {
            let facts = &entry.facts;
            wanted.selector.as_ref().is_none_or(|id| *id == facts.selector_id)
                && wanted.window.as_ref().is_none_or(|label| *label == facts.window.label)
        })
        .collect();
    entries.sort_by(|a, b| {
        let place = |entry: &CatalogEntry| (entry.facts.window.start_day, entry.facts.key());
        place(a).cmp(&place(b))
    });
    let row = |entry: &&CatalogEntry| {
        let facts = &entry.facts;
        json!({
            "bag_id": facts.bag_id, "bag_type": facts.bag_type, "title": facts.title,
            "selector_id": facts.selector_id, "window_label": facts.window.label,
            "group": facts.group.as_ref().map(|group| &group.key), "selected": facts.selected,
            "memos": facts.memos.len(), "path": facts.path(), "created_at": facts.created_at,
            "retired": entry.retired.as_ref().map(|retired| retired.reason.as_str()),
        })
    };
    json!({"bags": entries.iter().map(row).collect::<Vec<Value>>()})
}

/// Counts of bags and memos, the last build, and failed builds with their staging folders.
pub fn overview(digests: &Digests) -> Result<Value, DigestError> {
    let catalog = digests.catalog();
    let live = catalog.live().count();
    let memos: usize = catalog.live().map(|entry| entry.facts.memos.len()).sum();
    let staged = digests.staged()?;
    let failed = staged.iter().filter(|run_id| catalog.failed().contains(*run_id));
    let failed = failed.map(|run_id| {
        json!({"run_id": run_id, "staged": digests.staged_name(run_id),
               "record": format!("{RUN_RECORDS_DIR}/{run_id}.run_record.json")})
    });
    Ok(json!({
        "bags": live, "memos": memos, "retired": catalog.entries().len() - live,
        "updated_at": catalog.change().map(|change| change.at.to_string()),
        "last_build": catalog.last().map(|last| {
            json!({"run_id": last.run_id, "ok": last.ok, "ended_at": last.at.to_string(),
                   "record": format!("{RUN_RECORDS_DIR}/{}.run_record.json", last.run_id)})
        }),
        "building": catalog.open().map(|open| open.started.run_id.clone()),
        "failed": failed.collect::<Vec<Value>>(),
    }))
}

/// What a selector would select and drop in a window, with reasons. Without a label it is the
/// newest window. The inner error is a message for an unknown window.
pub fn preview(
    library: &Library,
    log: &Reader,
    catalog: &Catalog,
    selector: &Selector,
    home: Tz,
    label: Option<&str>,
    limit: usize,
) -> Result<Result<Value, String>, BuildError> {
    let open_tasks = OpenTasks::of(library, &catalog.words());
    let matcher = Matcher::new(library, &open_tasks, selector, home);
    let windows = matcher.windows(library.units().iter());
    let window = match label {
        None => windows.last(),
        Some(label) => windows.iter().find(|window| window.label() == label),
    };
    let Some(window) = window else {
        let newest: Vec<String> = windows.iter().rev().take(5).map(|one| one.label()).collect();
        return Ok(match newest.is_empty() {
            true => Err("there are no summaries yet".to_owned()),
            false => Ok(json!({"empty_window": label, "newest_windows": newest})),
        });
    };
    let facts = window_facts(window, matcher.zone());
    let choice = matcher.choose(window);
    let hash = selector.hash().hex();
    let mut fates: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
    let mut bags = Vec::new();
    for draft in &choice.drafts {
        let group = draft.group.as_ref();
        let unit = |place: &u32| library.units()[*place as usize].summary_id();
        let ids: Vec<String> = draft.units.iter().map(unit).collect();
        let state = BagState::of(selector, library, &open_tasks, &draft.units);
        let (bag_id, _) = draft_id(selector, &hash, &facts, group, &ids, &state);
        let key = group.map(|group| group.key.clone());
        let standing = match catalog.entries().get(&bag_id) {
            Some(entry) if entry.retired.is_none() => "unchanged",
            Some(_) => "retired",
            None => "new",
        };
        for place in &draft.units {
            fates.entry(*place).or_default().push(json!(key));
        }
        bags.push(json!({
            "bag_id": bag_id, "group": key, "standing": standing, "selected": ids.len(),
            "title": selector.title_of(key.as_deref(), &window.title()),
            "dropped": reasons(draft), "closed_tasks": state.closed.len(),
            "why": why(selector, draft, &window.title()),
        }));
    }
    let mut summaries = Vec::new();
    for (place, refused) in matcher.candidates(window).into_iter().take(limit) {
        let item = read_item(library, &open_tasks, log, place)?;
        let capped = choice.drafts.iter().flat_map(|draft| &draft.capped);
        let capped =
            capped.filter(|(capped, _)| *capped == place).map(|(_, reason)| *reason).next();
        let groups = fates.get(&place);
        let reason = match groups {
            Some(_) => None,
            None => Some(refused.or(capped).unwrap_or(DropReason::OtherGroup).as_str()),
        };
        summaries.push(json!({
            "summary_id": item.memo.summary_id, "ts_abs": item.memo.at.to_string(),
            "day": item.memo.day.to_string(), "has_clock": item.memo.has_clock,
            "title": item.memo.title, "source": item.memo.source, "project": item.memo.project,
            "project_from": project_from(library, log, place)?, "tags": item.memo.tags,
            "groups": groups, "dropped": reason,
        }));
    }
    Ok(Ok(json!({
        "selector_id": selector.selector_id, "selector_hash": hash, "window": facts,
        "candidates": choice.candidates, "matched": choice.matched,
        "left_out": left_out(&choice.dropped, selector.matching.publish),
        "bags": bags, "summaries": summaries,
    })))
}

/// Why a bag exists, in words.
fn why(selector: &Selector, draft: &BagDraft, window: &str) -> String {
    let count = draft.units.len();
    let summaries = if count == 1 { "summary" } else { "summaries" };
    let shared = match draft.group.as_ref() {
        None => String::new(),
        Some(group) if group.tags.is_empty() => {
            format!(" with the {} {}", group.by.as_str(), group.key)
        }
        Some(group) => format!(" with the tags {}", group.tags.join(" and ")),
    };
    let least = selector.group().min_items;
    let least =
        if least > 1 { format!("; at least {least} sources make a bag") } else { String::new() };
    format!("{count} {summaries}{shared}, {window}{least}")
}

/// The place that gave a summary its project.
fn project_from(
    library: &Library,
    log: &Reader,
    place: u32,
) -> Result<Option<&'static str>, BuildError> {
    #[derive(serde::Deserialize)]
    struct Line {
        #[serde(default)]
        meta: serde_json::Map<String, Value>,
    }
    let unit = &library.units()[place as usize];
    let body = log.body(unit.seq).map_err(ReadError::Log)?.ok_or(ReadError::no_body(unit.seq))?;
    let line: Line =
        serde_json::from_slice(&body).map_err(|error| ReadError::unexpected(unit.seq, error))?;
    Ok(library.rules().project(&line.meta).map(|(_, from)| from.as_str()))
}

/// The tasks that summaries name, the open ones or all of them: oldest first, each once.
pub fn tasks(
    library: &Library,
    log: &Reader,
    catalog: &Catalog,
    all: bool,
) -> Result<Vec<Value>, BuildError> {
    let open_tasks = OpenTasks::of(library, &catalog.words());
    let mut seen = BTreeSet::new();
    let mut listed = Vec::new();
    for (place, unit) in library.units().iter().enumerate() {
        if unit.tasks == 0 || (!all && open_tasks.open(unit) == 0) {
            continue;
        }
        let item = read_item(library, &open_tasks, log, place as u32)?.memo;
        for task in &item.tasks {
            let open = task.closed.is_none();
            if (open || all) && seen.insert(task.id) {
                listed.push(json!({
                    "task_id": task_id(task.id), "text": task.text, "due": task.due, "open": open,
                    "closed": task.closed.map(Closed::told), "summary_id": item.summary_id,
                    "source": item.name(), "project": item.project, "named_at": item.at.to_string(),
                    "has_clock": item.has_clock,
                }));
            }
        }
    }
    Ok(listed)
}

fn reasons(draft: &BagDraft) -> BTreeMap<&'static str, u64> {
    draft.dropped.iter().map(|(reason, count)| (reason.as_str(), *count)).collect()
}

/// The differences between two bags, from their records in the log. Retired bags can be compared
/// too.
pub fn diff(
    digests: &Digests,
    first: &str,
    second: &str,
) -> Result<Result<Value, String>, DigestError> {
    let mut sides = Vec::new();
    for bag_id in [first, second] {
        let Some(entry) = digests.catalog().entries().get(bag_id) else {
            return Ok(Err(format!("there is no bag {bag_id}; it may have been removed by gc")));
        };
        let files = digests.files_in_log(entry.seq, &entry.facts)?;
        let record = |name: &str| -> Result<Value, DigestError> {
            Ok(serde_json::from_str(files.get(name).map_or("null", String::as_str))?)
        };
        sides.push((record("meta/bag.json")?, record("meta/trace.json")?));
    }
    let [(bag_a, trace_a), (bag_b, trace_b)] = &sides[..] else {
        return Ok(Err("two bags are compared".to_owned()));
    };
    let mut because = Vec::new();
    let mut changes = serde_json::Map::new();
    for (name, pointer) in [
        ("bag_type", "/bag_type"),
        ("window", "/window"),
        ("group", "/group"),
        ("selector_id", "/selector/selector_id"),
        ("selector_version", "/selector/selector_version"),
        ("selector_hash", "/selector/selector_hash"),
    ] {
        let (a, b) = (bag_a.pointer(pointer), bag_b.pointer(pointer));
        if a != b {
            changes.insert(name.to_owned(), json!({"first": a, "second": b}));
            because.push(name.to_owned());
        }
    }
    for (name, what) in [("closed_task_ids", "closed tasks"), ("projects", "projects")] {
        if trace_a["upstream"][name] != trace_b["upstream"][name] {
            because.push(what.to_owned());
        }
    }
    let rules = selector_changes(&trace_a["rules"]["selector"], &trace_b["rules"]["selector"]);
    let (ids_a, ids_b) = (ids(trace_a), ids(trace_b));
    let (set_a, set_b): (BTreeSet<&str>, BTreeSet<&str>) =
        (ids_a.iter().copied().collect(), ids_b.iter().copied().collect());
    let added: Vec<&&str> = set_b.difference(&set_a).collect();
    let removed: Vec<&&str> = set_a.difference(&set_b).collect();
    if !added.is_empty() || !removed.is_empty() {
        because.push("summaries".to_owned());
    } else if ids_a != ids_b {
        because.push("order of summaries".to_owned());
    }
    Ok(Ok(json!({
        "first": first, "second": second, "same": first == second, "because": because,
        "changes": changes, "selector": rules,
        "summaries": {
            "common": set_a.intersection(&set_b).count(), "added": added, "removed": removed,
        },
        "coverage": {"first": trace_a["coverage"], "second": trace_b["coverage"]},
    })))
}

fn ids(trace: &Value) -> Vec<&str> {
    let ids = trace["upstream"]["summary_ids"].as_array();
    ids.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The members of two selector records that differ.
fn selector_changes(a: &Value, b: &Value) -> Value {
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let all: BTreeSet<String> = names(a).union(&names(b)).cloned().collect();
    let changed = all.into_iter().filter(|name| a.get(name) != b.get(name));
    let changed = changed.map(|name| {
        let (first, second) = (a.get(&name), b.get(&name));
        (name, json!({"first": first, "second": second}))
    });
    Value::Object(changed.collect())
}
