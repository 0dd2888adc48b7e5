//! Which summaries were replaced, and which are about sources that became private: a fold of the log that
//! knows of each day what its readers must know.
//!
//! Contract. Rows in a cache hold what is known; only rows that were needed since the last checkpoint are
//! in memory. One summary costs a row for its work, one for each of its sources, and one for each
//! day whose marks it changes. [`versions`](crate::contract::versions) has the rules.
//!
//! See docs/adr/0110-the-newest-version-of-a-source.md.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::projection::Outcome;
use super::stamped_cache::StampedCache;
use crate::contract::publish;
use crate::contract::time::{Day, Timestamp};
use crate::contract::versions::{SourceWord, VersionOrder, VersionedItem};
use crate::export::Committed;
use crate::export::versions::VersionMark;
use crate::log::Reader;
use crate::state::event::Event;

/// Rows of works and sources; each holds those whose keys begin alike.
const BUCKETS: u64 = 4096;
/// Entries in memory above which the rows are to be written.
const ENTRIES_MAX: usize = if cfg!(test) { 50 } else { 200_000 };

/// A summary in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MadeSummary {
    order: VersionOrder,
    id: String,
    day: Day,
    at: i64,
}

/// What is known of a source.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct KnownSource {
    /// The newest summary that says something of it, and whether it says that it is private.
    newest: Option<VersionOrder>,
    is_private: bool,
    /// Every summary about it, each once.
    summaries: Vec<SourceSummary>,
}

/// A summary about a source.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SourceSummary {
    id: String,
    day: Day,
    /// Whether the item of this summary is marked private.
    is_private: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Bucket {
    /// The newest summary of each work.
    works: BTreeMap<u64, MadeSummary>,
    sources: BTreeMap<u64, KnownSource>,
}

/// What is known about one summary beside its item.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct VersionState {
    /// The newer summary in its place, and when that one was made.
    replaced: Option<(String, i64)>,
    /// How many of its sources are private now, where its item does not say that it is private.
    private_sources: u32,
    /// Whether some of its sources, taken together, became private.
    became_private: bool,
}

impl VersionState {
    fn is_private(&self) -> bool {
        self.became_private || self.private_sources > 0
    }
}

/// The summaries of one day that were replaced or made private, by their ids.
type DayVersions = BTreeMap<String, VersionState>;

#[derive(Default)]
pub(super) struct VersionIndex {
    buckets: BTreeMap<u64, Bucket>,
    days: BTreeMap<Day, DayVersions>,
    /// Days whose marks changed since the last [`forget`](Self::forget).
    pub(super) changed: BTreeSet<Day>,
    entries: usize,
}

impl VersionIndex {
    /// The day of a row, when the row belongs to a day.
    pub(super) fn day_of(key: &str) -> Option<Day> {
        key.strip_prefix("day/")?.parse().ok()
    }

    /// Takes an event of the log.
    pub(super) fn take(
        &mut self,
        rows: &StampedCache,
        log: &Reader,
        committed: &Committed,
    ) -> Outcome<()> {
        let (request, made, summary) = match &committed.event {
            Event::SummaryProduced { request, summary, .. } => (*request, committed.seq, summary),
            Event::SourceBecamePrivate { request, made, summary } => (*request, *made, summary),
            _ => return Ok(()),
        };
        let became_private = made != committed.seq;
        let Some(body) = log.kept_body(made)? else { return Ok(()) };
        let item: VersionedItem = serde_json::from_slice(&body)?;
        let made = MadeSummary {
            order: VersionOrder { asked: request, made: committed.seq },
            id: summary.summary_id.clone(),
            day: summary.day,
            at: committed.at.0,
        };
        let is_private = publish::said(item.meta.get("publish")) == Some(false);
        let keys = if became_private { item.keys_if_private() } else { item.keys() };
        self.entries += 1 + keys.origins.len();
        match became_private {
            // It says of no single source that it is private.
            true if keys.word == SourceWord::Silent => {
                self.stand(rows, made.day, &made.id, |standing| standing.became_private = true)?;
            }
            true => {}
            false if keys.work != 0 => self.replace(rows, keys.work, &made)?,
            false => {}
        }
        for origin in keys.origins {
            self.say(rows, origin, &made, is_private, keys.word)?;
        }
        Ok(())
    }

    /// Puts a summary beside the newest one of its work.
    fn replace(&mut self, rows: &StampedCache, work: u64, made: &MadeSummary) -> Outcome<()> {
        let works = &mut self.bucket(rows, work)?.works;
        let newest = works.entry(work).or_insert_with(|| made.clone());
        if newest.order == made.order {
            return Ok(());
        }
        let (older, newer) = match newest.order < made.order {
            true => (std::mem::replace(newest, made.clone()), made.clone()),
            false => (made.clone(), newest.clone()),
        };
        if older.id == newer.id {
            return Ok(());
        }
        // A summary that was made again is the newest again.
        self.stand(rows, newer.day, &newer.id, |standing| standing.replaced = None)?;
        let by = (newer.id, newer.at);
        self.stand(rows, older.day, &older.id, |standing| standing.replaced = Some(by))
    }

    /// Takes the word of a summary on one of its sources.
    fn say(
        &mut self,
        rows: &StampedCache,
        origin: u64,
        made: &MadeSummary,
        is_private: bool,
        word: SourceWord,
    ) -> Outcome<()> {
        let sources = &mut self.bucket(rows, origin)?.sources;
        let source = sources.entry(origin).or_default();
        let was = source.is_private;
        if word != SourceWord::Silent && source.newest.is_none_or(|newest| newest <= made.order) {
            (source.newest, source.is_private) = (Some(made.order), word == SourceWord::Private);
        }
        let now = source.is_private;
        let mut changed = if was == now { Vec::new() } else { source.summaries.clone() };
        if source.summaries.iter().all(|summary| summary.id != made.id) {
            let summary = SourceSummary { id: made.id.clone(), day: made.day, is_private };
            changed.extend(now.then(|| summary.clone()));
            source.summaries.push(summary);
        }
        for summary in changed.iter().filter(|summary| !summary.is_private) {
            self.stand(rows, summary.day, &summary.id, |standing| match now {
                true => standing.private_sources += 1,
                false => standing.private_sources = standing.private_sources.saturating_sub(1),
            })?;
        }
        Ok(())
    }

    fn stand(
        &mut self,
        rows: &StampedCache,
        day: Day,
        id: &str,
        change: impl FnOnce(&mut VersionState),
    ) -> Outcome<()> {
        let known = self.day(rows, day)?;
        let mut standing = known.remove(id).unwrap_or_default();
        change(&mut standing);
        if standing.replaced.is_some() || standing.is_private() {
            known.insert(id.to_owned(), standing);
        }
        self.changed.insert(day);
        Ok(())
    }

    fn bucket(&mut self, rows: &StampedCache, key: u64) -> Outcome<&mut Bucket> {
        let number = key % BUCKETS;
        if !self.buckets.contains_key(&number) {
            let row = rows.get(&bucket_key(number))?;
            let bucket: Option<Bucket> = row.map(|row| serde_json::from_slice(&row)).transpose()?;
            let bucket = bucket.unwrap_or_default();
            self.entries += bucket.works.len() + bucket.sources.len();
            self.buckets.insert(number, bucket);
        }
        Ok(self.buckets.entry(number).or_default())
    }

    fn day(&mut self, rows: &StampedCache, day: Day) -> Outcome<&mut DayVersions> {
        if !self.days.contains_key(&day) {
            let row = rows.get(&day_key(day))?;
            let known: Option<DayVersions> =
                row.map(|row| serde_json::from_slice(&row)).transpose()?;
            let known = known.unwrap_or_default();
            self.entries += known.len();
            self.days.insert(day, known);
        }
        Ok(self.days.entry(day).or_default())
    }

    /// What readers of one day must know, ordered by id.
    pub(super) fn marks(&mut self, rows: &StampedCache, day: Day) -> Outcome<Vec<VersionMark>> {
        let marks = self.day(rows, day)?.iter().map(|(id, standing)| {
            let replaced = standing.replaced.clone();
            let replaced = replaced.map(|(by, at)| (by, Timestamp(at).to_string()));
            VersionMark::new(id, replaced, standing.is_private())
        });
        Ok(marks.collect())
    }

    /// Whether so much is in memory that the rows are to be written.
    pub(super) fn is_full(&self) -> bool {
        self.entries > ENTRIES_MAX
    }

    /// The rows that were needed since the last time.
    pub(super) fn rows(&self) -> Outcome<Vec<(String, Vec<u8>)>> {
        let buckets = self.buckets.iter();
        let buckets =
            buckets.map(|(number, row)| Ok((bucket_key(*number), serde_json::to_vec(row)?)));
        let days = self.days.iter();
        let days = days.map(|(day, row)| Ok((day_key(*day), serde_json::to_vec(row)?)));
        buckets.chain(days).collect()
    }

    /// Drops what the rows hold.
    pub(super) fn forget(&mut self) {
        *self = VersionIndex { changed: std::mem::take(&mut self.changed), ..Self::default() };
    }
}

fn bucket_key(number: u64) -> String {
    format!("keys/{number:03x}")
}

fn day_key(day: Day) -> String {
    format!("day/{day}")
}
