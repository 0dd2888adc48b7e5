//! The records that an import made of what a person names otherwise than their summaries are named: the events of
//! a file (mails, messages, feed items), whose summaries are named by subject or title; documents and rows of lists by
//! their title, id or address, whose summaries are named by file. And who said what, for events that a person knows by
//! neither.
//!
//! Contract: it reads the buses as they are, without their manifests, because the answer only finds a summary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use memchr::memmem;
use serde_json::Value;

use super::Context;
use super::prose::plain_line;
use super::settings::load_config;
use crate::contract::places::folded;
use crate::contract::time::Timestamp;
use crate::contract::versions::file_of_item;
use crate::markup::document::is_known_by_title;
use crate::upstream::Family;
use crate::upstream::context::of_event;
use crate::upstream::record_names::{has_cell, is_called, is_row, own_names, shown_row};

/// Ends of names of files that hold one text, and no events with names of their own.
const TEXTS: [&str; 8] = ["md", "markdown", "org", "html", "htm", "tex", "pdf", "docx"];

/// Whether a word may name a file with several items.
pub(super) fn may_hold_items(word: &str) -> bool {
    let end = Path::new(word).extension().unwrap_or_default().to_string_lossy().to_lowercase();
    !end.is_empty() && !TEXTS.contains(&end.as_str())
}

/// Ids of records, each with its text where it is a row of a list.
pub(super) type FoundRecords = BTreeMap<String, Option<String>>;

/// The records that a person means by a word that is no name of a file.
#[derive(Debug, Default)]
pub(super) struct CalledRecords {
    /// Those that have it for their title, their id or their address.
    pub own: FoundRecords,
    /// Those that have it for a heading, or for a cell of their row.
    pub within: FoundRecords,
}

impl CalledRecords {
    /// The closest kind of match decides.
    pub(super) fn closest(self) -> FoundRecords {
        if self.own.is_empty() { self.within } else { self.own }
    }
}

/// Finds the records that are called so.
pub(super) fn records_called(context: &Context, word: &str) -> CalledRecords {
    let mut found = CalledRecords::default();
    // A Message-ID may stand in brackets here, and without them there.
    let word = word.trim().trim_start_matches('<').trim_end_matches('>');
    if word.is_empty() {
        return found;
    }
    // As JSON writes it.
    let written = folded(&Value::from(word).to_string());
    let written = written.trim_matches('"');
    for (family, id) in [(Family::Events, "event_id"), (Family::Chunks, "chunk_id")] {
        each_line(context, family, &mut |line| {
            if !folded(line).contains(written) {
                return;
            }
            let Ok(record) = serde_json::from_str::<Value>(line) else { return };
            let Some(id) = record[id].as_str() else { return };
            let row = row_of(&record);
            let row = row.zip(record["metadata"].as_object());
            let row = row.map(|(row, of)| shown_row(of, file_of(&record), row));
            if is_own_name(&record, word) {
                found.own.insert(id.to_owned(), row);
            } else if is_within(&record, word) {
                found.within.insert(id.to_owned(), row);
            }
        });
    }
    found
}

/// Whether a word is the title, the id or the address of a record.
fn is_own_name(record: &Value, word: &str) -> bool {
    let places = [record, &record["metadata"], &record["source"]];
    let mut names = places
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(|members| own_names(members, file_of(record)));
    names.any(|name| is_called(name, word))
}

/// Whether a word is a heading of a text, or a cell of a row.
fn is_within(record: &Value, word: &str) -> bool {
    let headings = record["metadata"]["header_path"].as_array().into_iter().flatten();
    let mut headings = headings.filter_map(Value::as_str);
    headings.any(|name| is_called(name, word))
        || row_of(record).is_some_and(|text| has_cell(text, word))
}

fn file_of(record: &Value) -> &str {
    record["source"]["source_uri"].as_str().unwrap_or_default()
}

/// The text of a record that is a row of a list.
fn row_of(record: &Value) -> Option<&str> {
    record["text"].as_str().filter(|_| record["source"]["source_type"].as_str().is_some_and(is_row))
}

/// The ids of the events of a file, and of what else people know by a title and not by its file, by its name in the
/// home or the end of it. A word that is no name of a file has none. What cannot be read has no items here.
pub(super) fn items_of_file(context: &Context, word: &str) -> BTreeSet<String> {
    let word = word.trim_start_matches("./");
    if !word.contains(['.', '/']) {
        return BTreeSet::new();
    }
    items_of(context, word, |file| file)
}

/// As [`items_of_file`], by a name without what stands behind its last dot.
pub(super) fn items_of_stem(context: &Context, word: &str) -> BTreeSet<String> {
    items_of(context, word, |file| file.rsplit_once('.').map_or(file, |(stem, _)| stem))
}

/// The items of the files whose name, as `named` takes it, is or ends with a word.
fn items_of(context: &Context, word: &str, named: fn(&str) -> &str) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    // As JSON writes it, without what may stand behind it.
    let end = Value::from(word).to_string();
    let end = memmem::Finder::new(&end.as_bytes()[1..end.len() - 1]);
    for (family, id) in [(Family::Events, "event_id"), (Family::Chunks, "chunk_id")] {
        each_line(context, family, &mut |line| {
            let Some(record) =
                end.find(line.as_bytes()).and_then(|_| serde_json::from_str::<Value>(line).ok())
            else {
                return;
            };
            let kind = record["source"]["source_type"].as_str().unwrap_or_default();
            let uri = record["source"]["source_uri"].as_str().unwrap_or_default();
            let file = file_of_item(uri);
            let is_item = file.len() < uri.len();
            let has_name = family == Family::Events || is_item || is_known_by_title(kind);
            let before = named(file).strip_suffix(word);
            if has_name && before.is_some_and(|before| before.is_empty() || before.ends_with('/')) {
                ids.extend(record[id].as_str().map(str::to_owned));
            }
        });
    }
    ids
}

/// Who said what of these events, and when: `2026-02-11 10:00 assistant`.
pub(super) fn messages(context: &Context, ids: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Ok(config) = load_config(context) else { return found };
    each_line(context, Family::Events, &mut |line| {
        let id = line.split_once("\"event_id\":\"").and_then(|(_, rest)| rest.split('"').next());
        if !id.is_some_and(|id| ids.contains(id)) {
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let at = event["timestamp_ms"].as_i64().map(Timestamp);
        let mut said = of_event(&event, config.timezone);
        said.set_filed(&event, at, config.timezone);
        let told = plain_line(&said.when_and_who(config.timezone));
        found.insert(id.unwrap_or_default().to_owned(), told);
    });
    found.retain(|_, said| !said.is_empty());
    found
}

/// Hands over the lines of a bus.
fn each_line(context: &Context, family: Family, take: &mut dyn FnMut(&str)) {
    let Ok(config) = load_config(context) else { return };
    let folder = context.home.join(&config.bus_home).join(family.data_dir());
    let disk = context.machine.disk.as_ref();
    for name in disk.list(&folder).unwrap_or_default() {
        let bytes = disk.read(&folder.join(name)).unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        lines.filter_map(|line| std::str::from_utf8(line).ok()).for_each(&mut *take);
    }
}
