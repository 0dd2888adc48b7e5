//! Atom feeds of summaries: `feeds/<day>.atom.xml` in the bus home, one for each day.
//!
//! Contract. A feed is a function of the log; [`crate::export::feed`] gives its form. A summary that
//! was produced again moves to the front under the same id. Left out are private summaries, older versions, and
//! summaries of sources that became private. `exports.feed = true` turns feeds on; they are off by
//! default. [`DayFiles`] keeps the files.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::day_files::{DayFiles, DayFold};
use super::exporter::Exporter;
use super::projection::Outcome;
use super::stamped_cache::StampedCache;
use super::version_index::VersionIndex;
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::Stream;
use crate::export::Committed;
use crate::export::feed::{ENTRIES_MAX, FEEDS_DIR, Feed, file_name};
use crate::home::Home;
use crate::log::Reader;
use crate::state::event::Event;

pub(crate) const EXPORTER: Exporter = Exporter {
    name: "feeds",
    files: &[],
    folders: &[FEEDS_DIR],
    paced: true,
    is_on: |site| site.exports.feed,
    open: |site| Box::new(DayFiles::<Feeds>::new(site)),
};

/// Days in memory above which they are written before more is read.
const DAYS_MAX: usize = 1024;

/// One summary in the feed for a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    seq: Seq,
    at: i64,
    stream: String,
    summary_id: String,
}

/// The newest entries for one day, oldest first.
type Entries = Vec<Entry>;

#[derive(Default)]
struct Feeds {
    /// Days that were needed since the last checkpoint.
    days: BTreeMap<Day, Entries>,
    changed: BTreeSet<Day>,
    /// Which summaries are older versions, or about sources that became private: they have no entry.
    versions: VersionIndex,
}

impl Feeds {
    fn entries(&mut self, rows: &StampedCache, day: Day) -> Outcome<&mut Entries> {
        let place = match self.days.entry(day) {
            btree_map::Entry::Occupied(known) => return Ok(known.into_mut()),
            btree_map::Entry::Vacant(place) => place,
        };
        let row = rows.get(&day.to_string())?;
        let entries = row.map(|row| serde_json::from_slice(&row)).transpose()?;
        Ok(place.insert(entries.unwrap_or_default()))
    }
}

impl DayFold for Feeds {
    const LAYOUT: &'static str = "feeds.v2";
    const REDUCER: u32 = 4;
    const FOLDER: &'static str = FEEDS_DIR;

    fn index(home: &Home) -> PathBuf {
        home.feed_index()
    }

    fn file_name(day: Day) -> String {
        file_name(day)
    }

    fn day_of(key: &str) -> Option<Day> {
        key.parse().ok()
    }

    fn take(&mut self, rows: &StampedCache, log: &Reader, committed: &Committed) -> Outcome<()> {
        if let Event::SummaryProduced { summary, .. } = &committed.event {
            let entries = self.entries(rows, summary.day)?;
            entries.retain(|entry| entry.summary_id != summary.summary_id);
            // What a person took back stands for no entry: it would push out one that is there.
            if !log.is_forgotten(committed.seq) {
                if entries.len() == ENTRIES_MAX {
                    entries.remove(0);
                }
                entries.push(Entry {
                    seq: committed.seq,
                    at: committed.at.0,
                    stream: summary.stream.as_str().to_owned(),
                    summary_id: summary.summary_id.clone(),
                });
            }
            self.changed.insert(summary.day);
        }
        self.versions.take(rows, log, committed)?;
        self.changed.append(&mut self.versions.changed);
        Ok(())
    }

    fn changed(&mut self) -> &mut BTreeSet<Day> {
        &mut self.changed
    }

    fn content(&mut self, rows: &StampedCache, log: &Reader, day: Day) -> Outcome<Option<Vec<u8>>> {
        let marks = self.versions.marks(rows, day)?;
        let left_out = marks.iter().map(|mark| mark.summary_id.as_str()).collect();
        render(log, day, self.entries(rows, day)?, &left_out).map(Some)
    }

    fn is_full(&self) -> bool {
        self.days.len() > DAYS_MAX || self.versions.is_full()
    }

    fn rows(&self) -> Outcome<Vec<(String, Vec<u8>)>> {
        let rows = self.days.iter();
        let rows = rows.map(|(day, entries)| Ok((day.to_string(), serde_json::to_vec(entries)?)));
        let mut rows = rows.collect::<Outcome<Vec<_>>>()?;
        rows.extend(self.versions.rows()?);
        Ok(rows)
    }

    fn forget(&mut self) {
        self.days.clear();
        self.versions.forget();
    }
}

/// The feed for one day.
fn render(
    log: &Reader,
    day: Day,
    entries: &[Entry],
    left_out: &BTreeSet<&str>,
) -> Outcome<Vec<u8>> {
    let updated = entries.iter().map(|entry| entry.at).max().unwrap_or_default();
    let mut feed = Feed::new(day, Timestamp(updated));
    for entry in entries.iter().rev().filter(|one| !left_out.contains(one.summary_id.as_str())) {
        let Some(body) = log.kept_body(entry.seq)? else { continue };
        let stream = Stream::parse(&entry.stream).ok_or("a cached entry is of no stream")?;
        feed.entry(&entry.summary_id, Timestamp(entry.at), stream, &body)?;
    }
    Ok(feed.finish())
}
