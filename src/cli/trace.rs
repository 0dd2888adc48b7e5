//! `trace`: from an upstream id to every summary that used it, and to every bag that holds one of
//! those.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::Context;
use super::failure::{Exit, Failure};
use super::file_events::{items_of_file, items_of_stem, may_hold_items, records_called};
use super::settings::load_config;
use super::source_files::known_name;
use crate::bus::digests::{BagEntry, DigestBus};
use crate::bus::{BusError, SummaryBus};
use crate::contract::places::folded;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;

/// List every published summary that used an event, session, chunk or document, and its bags
///
/// It exits with 1 when there is no such summary.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The upstream id; the name or title of a source; the file that holds the source; or the id of a
    /// summary, to list its bags
    id: String,
}

/// A summary that used the id.
struct TracedUse {
    summary_id: String,
    stream: Stream,
    day: Day,
    line: u64,
    /// The name of its source.
    source: String,
}

/// Whether an item is about the file, mail or chat that a person calls so, or has this title.
fn is_named(item: &crate::bus::Item, word: &str) -> bool {
    let word = folded(word);
    let is_title = item.value["title"].as_str().is_some_and(|title| folded(title) == word);
    let Some(name) = item.value["meta"]["source_name"].as_str() else { return is_title };
    let name = folded(name);
    let before = name.strip_suffix(word.trim_start_matches("./"));
    is_title || before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Whether a word names a source: by its id, or by the file that it is or that holds it.
fn is_or_holds(word: &str, id: &str) -> bool {
    let file = word.strip_prefix("other:").unwrap_or(word);
    let rest = id.strip_prefix("other:").and_then(|id| id.strip_prefix(file));
    id == word || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

impl TraceArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        // Says what is wrong with a home that has no summaries.
        super::published::open_bus(context)?;
        let root = context.home.join(&load_config(context)?.bus_home);
        let called = known_name(context, &self.id);
        let failed = |error: BusError| unread("Summary", &error);
        let mut found =
            self.summaries(context, &root, &called, &BTreeSet::new()).map_err(failed)?;
        if found.is_empty() || may_hold_items(&called) {
            let mut records = items_of_file(context, &called);
            if found.is_empty() && records.is_empty() {
                records = records_called(context, &called).closest().into_keys().collect();
            }
            if found.is_empty() && records.is_empty() {
                records = items_of_stem(context, &called);
            }
            if !records.is_empty() {
                found = self.summaries(context, &root, &called, &records).map_err(failed)?;
            }
        }
        let ids: BTreeSet<&str> = found.iter().map(|one| one.summary_id.as_str()).collect();
        let bags = bags_of(context, &root, &ids).map_err(|error| unread("Digest", &error))?;
        if context.ui.json {
            for one in &found {
                let bags: Vec<Value> = bags.iter().filter_map(|bag| bag.as_json(one)).collect();
                context.ui.json(&json!({
                    "summary_id": one.summary_id, "stream": one.stream,
                    "day": one.day.to_string(), "line": one.line, "source": one.source,
                    "bags": bags,
                }));
            }
            return Ok(if found.is_empty() { Exit::Wrong } else { Exit::Done });
        }
        if found.is_empty() {
            let bus = super::published::open_bus(context)?;
            let near = super::read::nearest_name(&bus, &self.id);
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            context.ui.talk(format!("no published summary used {}{near}", self.id));
            return Ok(Exit::Wrong);
        }
        let rows = found.iter().map(|one| {
            let (stream, day) = (one.stream.to_string(), one.day.to_string());
            vec![one.summary_id.clone(), one.source.clone(), day, stream, one.line.to_string()]
        });
        context
            .ui
            .table(&["SUMMARY", "SOURCE", "DAY", "STREAM", "LINE"], &rows.collect::<Vec<_>>());
        let rows: Vec<Vec<String>> = bags.iter().flat_map(Holding::rows).collect();
        if !rows.is_empty() {
            context.ui.table(&["SUMMARY", "SELECTOR", "WINDOW", "BAG"], &rows);
        }
        Ok(Exit::Done)
    }

    /// The summaries of an id, of what a person calls so, or of the events of a file.
    fn summaries(
        &self,
        context: &Context,
        root: &Path,
        called: &str,
        events: &BTreeSet<String>,
    ) -> Result<Vec<TracedUse>, BusError> {
        let bus = SummaryBus::open(root)?;
        let mut days = Vec::new();
        for stream in Stream::ALL {
            days.extend(bus.days(*stream)?.into_iter().map(|day| (*stream, day)));
        }
        let bar = context.ui.progress("searching", days.len() as u64);
        let mut found = Vec::new();
        for (stream, day) in days {
            let partition = bus.partition(stream, day)?;
            for item in partition.items() {
                let item = item?;
                let summary_id = item.summary_id();
                let named = || is_named(&item, called);
                let used = || {
                    item.upstream_ids().any(|id| is_or_holds(&self.id, id) || events.contains(id))
                };
                if summary_id == self.id || used() || named() {
                    let summary_id = summary_id.to_owned();
                    let source = item.value["meta"]["source_name"].as_str();
                    let source = super::prose::plain_line(source.unwrap_or("-"));
                    found.push(TracedUse { summary_id, stream, day, line: item.line, source });
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(found)
    }
}

/// A bag with summaries that were looked for, and its memos that name each of them.
struct Holding {
    bag: BagEntry,
    memos: BTreeMap<String, Vec<String>>,
}

impl Holding {
    fn as_json(&self, one: &TracedUse) -> Option<Value> {
        let memos = self.memos.get(&one.summary_id)?;
        Some(json!({
            "bag_id": self.bag.bag_id, "bag_type": self.bag.bag_type,
            "window": self.bag.window_label, "path": self.bag.path, "memos": memos,
        }))
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.memos.keys().map(|id| {
            let BagEntry { bag_id, selector_id, window_label, .. } = &self.bag;
            vec![id.clone(), selector_id.clone(), window_label.clone(), bag_id.clone()]
        })
    }
}

/// Every published bag that holds one of the summaries. A home without digests has none.
fn bags_of(context: &Context, root: &Path, ids: &BTreeSet<&str>) -> Result<Vec<Holding>, BusError> {
    let bus = match DigestBus::open(root) {
        _ if ids.is_empty() => return Ok(Vec::new()),
        Err(BusError::Missing { .. }) => return Ok(Vec::new()),
        opened => opened?,
    };
    let entries = bus.indexes()?.entries();
    let bar = context.ui.progress("searching bags", entries.len() as u64);
    let mut holding = Vec::new();
    for entry in entries {
        bar.inc(1);
        let bag = match bus.bag(&entry) {
            // It was retired while we looked.
            Err(BusError::Missing { .. }) => continue,
            bag => bag?,
        };
        let mut memos: BTreeMap<String, Vec<String>> =
            named(&bag.trace["upstream"]["summary_ids"], ids).map(|id| (id, Vec::new())).collect();
        if memos.is_empty() {
            continue;
        }
        for memo in bag.memos()? {
            for id in named(&memo.meta["summary_ids"], ids) {
                memos.entry(id).or_default().push(memo.slug.clone());
            }
        }
        holding.push(Holding { bag: entry, memos });
    }
    bar.finish_and_clear();
    Ok(holding)
}

/// Those of the ids that a list names.
fn named<'a>(list: &'a Value, ids: &'a BTreeSet<&str>) -> impl Iterator<Item = String> + 'a {
    let listed = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    listed.filter(|id| ids.contains(id)).map(str::to_owned)
}

fn unread(bus: &str, error: &BusError) -> Failure {
    Failure::new(Exit::Input, format!("cannot read the {bus} Bus"))
        .because(error)
        .hint("summarizer verify names what is wrong with it")
}
