//! Checks the feeds of a bus home: each is written again from the items on the Summary Bus.
//!
//! The files do not tell when a summary was made. So the time of an entry is checked against the
//! order of the entries only; a comparison with the log checks the time itself.

use std::collections::{HashMap, HashSet};
use std::io;

use serde::Deserialize;

use super::{Report, Tree, names, rules};
use crate::contract::time::{Day, Timestamp, parse_instant};
use crate::contract::vocabulary::Stream;
use crate::export::feed::{ENTRIES_MAX, FEEDS_DIR, Feed, OF_ENTRY, OF_FEED, day_of, entry_id};
use crate::export::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::export::versions::{VERSIONS_DIR, VersionMark, file_name};

/// The names of all feeds.
pub(super) fn feeds(tree: &Tree<'_>) -> io::Result<Vec<String>> {
    let mut found = names(tree, FEEDS_DIR)?;
    found.retain(|name| !name.starts_with('.'));
    Ok(found)
}

/// A published line for one day.
struct Line {
    summary_id: String,
    stream: Stream,
    is_private: bool,
    bytes: Vec<u8>,
}

pub(super) fn check(tree: &Tree<'_>, name: &str, report: &mut Report) -> io::Result<()> {
    let path = format!("{FEEDS_DIR}/{name}");
    let Some(found) = tree.disk.read_if_present(&tree.root.join(&path))? else { return Ok(()) };
    report.file(found.len() as u64);
    let mut wrong = |line: Option<u64>, what: String| {
        report.break_rule(&rules::FEED, &path, line, "", what);
    };
    let Some(day) = day_of(name) else {
        wrong(None, "this is not the name of a feed for one day".to_owned());
        return Ok(());
    };
    let Ok(text) = std::str::from_utf8(&found) else {
        wrong(None, "it is not UTF-8".to_owned());
        return Ok(());
    };
    let lines = lines_of(tree, day)?;
    let entries = entries_of(text);
    // A private summary has no entry, and beyond the limit it may stand for one.
    let due = lines.values().filter(|line| !line.is_private).count();
    if entries.len() > due || (lines.len() <= ENTRIES_MAX && entries.len() < due) {
        wrong(None, format!("it has {} entries, and {due} are due", entries.len()));
        return Ok(());
    }
    let Some(updated) = updated_of(text) else {
        wrong(None, "it does not say when it was updated".to_owned());
        return Ok(());
    };
    let mut feed = Feed::new(day, updated);
    let mut before = updated;
    for (number, id, at) in entries {
        let Some(line) = lines.get(id) else {
            wrong(Some(number), format!("{id} is not a summary of this day"));
            return Ok(());
        };
        if at > before {
            wrong(Some(number), "an entry is newer than what stands before it".to_owned());
        }
        before = at;
        feed.entry(&line.summary_id, at, line.stream, &line.bytes).map_err(io::Error::other)?;
    }
    let meant = feed.finish();
    if meant != found {
        let same = meant.split(|byte| *byte == b'\n').zip(found.split(|byte| *byte == b'\n'));
        let same = same.take_while(|(meant, found)| meant == found).count() as u64;
        wrong(Some(same + 1), "this line is not what the Summary Bus says".to_owned());
    }
    Ok(())
}

/// The published lines for one day over all streams, by the id of their entry.
fn lines_of(tree: &Tree<'_>, day: Day) -> io::Result<HashMap<String, Line>> {
    #[derive(Deserialize)]
    struct Named {
        summary_id: String,
        #[serde(default)]
        meta: Meta,
    }
    #[derive(Default, Deserialize)]
    struct Meta {
        #[serde(default)]
        publish: Option<bool>,
    }
    let (mut lines, left_out) = (HashMap::new(), left_out(tree, day)?);
    for stream in Stream::ALL {
        let key = PartitionKey { stream: *stream, day };
        let path = tree.root.join(SUMMARIES_DIR).join(key.data_file());
        let Some(data) = tree.disk.read_if_present(&path)? else { continue };
        for bytes in data.split(|byte| *byte == b'\n') {
            // A line that is no item breaks a rule of the Summary Bus.
            let Ok(Named { summary_id, meta }) = serde_json::from_slice(bytes) else { continue };
            let id = entry_id(&summary_id);
            let is_private = meta.publish == Some(false) || left_out.contains(&summary_id);
            let bytes = bytes.to_vec();
            lines.insert(id, Line { summary_id, stream: *stream, is_private, bytes });
        }
    }
    Ok(lines)
}

/// The older versions of one day, and its summaries of sources that became private.
fn left_out(tree: &Tree<'_>, day: Day) -> io::Result<HashSet<String>> {
    let path = tree.root.join(VERSIONS_DIR).join(file_name(day));
    let text = tree.disk.read_if_present(&path)?.unwrap_or_default();
    let marks = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let mark: VersionMark = serde_json::from_slice(line).ok()?;
        Some(mark.summary_id)
    });
    Ok(marks.collect())
}

/// The line number, the id and the time of each entry.
fn entries_of(text: &str) -> Vec<(u64, &str, Timestamp)> {
    let (mut found, mut id) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let Some(member) = line.strip_prefix(OF_ENTRY) else { continue };
        if let Some(inner) = inner(member, "<id>", "</id>") {
            id = Some(inner);
        } else if let Some(inner) = inner(member, "<updated>", "</updated>")
            && let Some(id) = id.take()
            && let Ok(instant) = parse_instant(inner)
        {
            found.push((number, id, instant.at));
        }
    }
    found
}

/// When the feed was updated.
fn updated_of(text: &str) -> Option<Timestamp> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(OF_FEED));
    let mut updated = lines.filter_map(|line| inner(line, "<updated>", "</updated>"));
    Some(parse_instant(updated.next()?).ok()?.at)
}

fn inner<'a>(member: &'a str, open: &str, close: &str) -> Option<&'a str> {
    member.strip_prefix(open)?.strip_suffix(close)
}
