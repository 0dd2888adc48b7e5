//! Atom feeds of summaries: `feeds/<day>.atom.xml` in the bus home, one for each day.
//!
//! Contract. A feed is a function of the log; [`crate::export::feed`] gives its form. A summary that
//! was produced again moves to the front under the same id. Left out are private summaries, older versions, and
//! summaries of sources that became private. Each file is replaced as a whole.
//! `exports.feed = true` turns feeds on; they are off by default.
//!
//! The entries of each day lie in a cache file with the stamp of the last event that they cover.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site, follow};
use super::stamped_cache::StampedCache;
use super::version_index::VersionIndex;
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::Stream;
use crate::export::Committed;
use crate::export::feed::{ENTRIES_MAX, FEEDS_DIR, Feed, file_name};
use crate::log::codec::Cursor;
use crate::log::{Cache, ReadError, Reader};
use crate::os::Disk;
use crate::state::event::Event;

pub(crate) const EXPORTER: Exporter = Exporter {
    name: "feeds",
    files: &[],
    folders: &[FEEDS_DIR],
    paced: true,
    is_on: |site| site.exports.feed,
    open: |site| Box::new(Feeds::new(site)),
};

/// Days in memory above which they are written before more is read.
const DAYS_MAX: usize = 1024;
const MODE: u32 = 0o640;
/// Layout of the cache file.
const LAYOUT: &str = "feeds.v2";
/// Version of the fold.
const REDUCER: u32 = 2;

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

struct Feeds {
    site: Site,
    /// Opened when it is first needed.
    cache: StampedCache,
    is_open: bool,
    position: Seq,
    /// Days that were needed since the last checkpoint.
    days: BTreeMap<Day, Entries>,
    changed: BTreeSet<Day>,
    /// Which summaries are older versions, or about sources that became private: they have no entry.
    versions: VersionIndex,
}

impl Feeds {
    fn new(site: &Site) -> Feeds {
        Feeds {
            site: site.clone(),
            cache: StampedCache::default(),
            is_open: false,
            position: Seq::ZERO,
            days: BTreeMap::new(),
            changed: BTreeSet::new(),
            versions: VersionIndex::default(),
        }
    }

    fn folder(&self) -> PathBuf {
        self.site.home.buses.join(FEEDS_DIR)
    }

    fn path(&self, day: Day) -> PathBuf {
        self.folder().join(file_name(day))
    }

    /// Takes up what the cache holds. Feeds that are missing are written again from it.
    fn open(&mut self) -> Outcome<()> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        let path = self.site.home.feed_index();
        let (cache, keys, position) = StampedCache::open(&self.site, &path, LAYOUT, REDUCER)?;
        (self.cache, self.position) = (cache, position);
        for day in keys.iter().filter_map(|key| key.parse::<Day>().ok()) {
            if self.site.disk.stat(&self.path(day))?.is_none() {
                self.changed.insert(day);
            }
        }
        Ok(())
    }

    fn entries(&mut self, day: Day) -> Outcome<&mut Entries> {
        if !self.days.contains_key(&day) {
            let row = self.cache.get(&day.to_string())?;
            let entries = row.map(|row| serde_json::from_slice(&row)).transpose()?;
            self.days.insert(day, entries.unwrap_or_default());
        }
        Ok(self.days.entry(day).or_default())
    }

    fn take(&mut self, committed: &Committed) -> Outcome<()> {
        let Event::SummaryProduced { summary, .. } = &committed.event else { return Ok(()) };
        let entries = self.entries(summary.day)?;
        entries.retain(|entry| entry.summary_id != summary.summary_id);
        if entries.len() == ENTRIES_MAX {
            entries.remove(0);
        }
        entries.push(Entry {
            seq: committed.seq,
            at: committed.at.0,
            stream: summary.stream.as_str().to_owned(),
            summary_id: summary.summary_id.clone(),
        });
        self.changed.insert(summary.day);
        Ok(())
    }

    /// The feeds of all changed days, one after another.
    fn each(&mut self, show: &mut dyn FnMut(Day, Vec<u8>) -> Outcome<()>) -> Outcome<()> {
        for day in self.changed.clone() {
            let log = self.site.log.clone();
            let marks = self.versions.marks(&self.cache, day)?;
            let left_out: BTreeSet<&str> =
                marks.iter().map(|mark| mark.summary_id.as_str()).collect();
            let bytes = render(&log, day, self.entries(day)?, &left_out)?;
            show(day, bytes)?;
        }
        Ok(())
    }
}

impl Projection for Feeds {
    fn position(&self) -> Seq {
        self.position
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        self.open()?;
        let after = self.position;
        for committed in batch.iter().filter(|one| one.seq > after) {
            self.take(committed)?;
            self.versions.take(&self.cache, &self.site.log, committed)?;
            self.changed.append(&mut self.versions.changed);
        }
        if let Some(last) = batch.last() {
            self.position = self.position.max(last.seq);
        }
        // Without a cache nothing may be forgotten.
        let is_full = self.days.len() > DAYS_MAX || self.versions.is_full();
        if self.cache.keeps() && is_full {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn advance(&mut self, until: Option<Seq>) -> Outcome<()> {
        self.open()?;
        let (log, from) = (self.site.log.clone(), self.position);
        follow(&log, from, until, &mut |batch| self.fold(batch))
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        self.open()?;
        let at = Cursor { applied: self.position, bytes: 0 };
        if self.changed.is_empty() {
            return Ok(at);
        }
        let (disk, folder) = (std::sync::Arc::clone(&self.site.disk), self.folder());
        disk.create_dir_all(&folder)?;
        self.each(&mut |day, bytes| {
            let path = folder.join(file_name(day));
            if disk.read_if_present(&path)?.as_ref() != Some(&bytes) {
                disk.replace(&path, &bytes, MODE)?;
            }
            Ok(())
        })?;
        // The rows come after the files: a crash in between writes the same files again.
        let rows = self.days.iter();
        let rows = rows.map(|(day, entries)| Ok((day.to_string(), serde_json::to_vec(entries)?)));
        let mut rows = rows.collect::<Outcome<Vec<_>>>()?;
        rows.extend(self.versions.rows()?);
        if self.cache.keep(&self.site.log, self.position, rows)? {
            self.days.clear();
            self.versions.forget();
        }
        self.changed.clear();
        Ok(at)
    }

    /// Compares with what the log says up to the position of the last checkpoint: summaries that
    /// came after it wait for the publisher.
    fn compare(&mut self) -> Outcome<Comparison> {
        // Opening a damaged cache would make it anew, and a comparison writes nothing.
        let index = self.site.home.feed_index();
        if self.is_open || Cache::damage(&self.site.disk, &index)?.is_none() {
            self.open()?;
        }
        let until = (self.position > Seq::ZERO).then_some(self.position);
        let mut again = Feeds { is_open: true, ..Feeds::new(&self.site) };
        again.advance(until)?;
        let mut found = Comparison::default();
        let disk = &self.site.disk;
        let mut known = BTreeSet::new();
        again.each(&mut |day, meant| {
            let name = file_name(day);
            match disk.read_if_present(&self.path(day))? {
                None => found.differs(format!("{FEEDS_DIR}/{name}"), "is missing"),
                Some(bytes) if bytes != meant => {
                    found.differs(format!("{FEEDS_DIR}/{name}"), "differs from the log");
                }
                Some(_) => {}
            }
            known.insert(name);
            Ok(())
        })?;
        for name in listed(disk.as_ref(), &self.folder())? {
            if !name.starts_with('.') && !known.contains(&name) {
                found.differs(format!("{FEEDS_DIR}/{name}"), "is not in the log");
            }
        }
        Ok(found)
    }

    fn repair(&mut self) -> Outcome<usize> {
        let differences = self.compare()?.differences;
        for one in &differences {
            self.site.disk.remove_file(&self.site.home.buses.join(&one.path))?;
        }
        self.cache = StampedCache::default();
        self.site.disk.remove_file(&self.site.home.feed_index())?;
        *self = Feeds::new(&self.site);
        self.advance(None)?;
        self.checkpoint()?;
        Ok(differences.len())
    }
}

fn listed(disk: &dyn Disk, folder: &std::path::Path) -> std::io::Result<Vec<String>> {
    match disk.list(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
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
        let body = log.body(entry.seq)?.ok_or(ReadError::no_body(entry.seq))?;
        let stream = Stream::parse(&entry.stream).ok_or("a cached entry is of no stream")?;
        feed.entry(&entry.summary_id, Timestamp(entry.at), stream, &body)?;
    }
    Ok(feed.finish())
}
