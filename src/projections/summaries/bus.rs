//! The Summary Bus of a home and how far into the log it is.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::compare::day;
use super::day_index::DayIndex;
use super::error::SummariesError;
use super::fold::fold;
use super::pace::Volume;
use super::publication::stage;
use super::run_records::RunRecords;
use super::spill_cache::{Position, SpillCache};
use crate::config::Config;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::export::publish::{Fallback, Publisher};
use crate::export::summary_bus::{PartitionFacts, PartitionKey, SUMMARIES_DIR};
use crate::facts::session::{Promoted, Promotion};
use crate::log::Reader;
use crate::os::Disk;
use crate::verify::Gate;
use crate::verify::spread::Helpers;

/// Records read since the cache was visited after which it is visited again.
const RECORDS_MAX: u64 = if cfg!(test) { 100 } else { 1 << 18 };

/// Threads that read and check the lines of a large day.
const THREADS: usize = 2;
/// Lines from which on a day is large.
const LARGE_LINES: u64 = if cfg!(test) { 20 } else { 4096 };

/// Bytes of an item, before the first one was written.
const ITEM_BYTES: u64 = 3_000;

/// The bus and how far into the log it is.
pub struct Summaries {
    log: Reader,
    disk: Arc<dyn Disk>,
    publisher: Publisher,
    /// The cache file.
    remember: Option<PathBuf>,
    cache: SpillCache,
    index: DayIndex,
    records: RunRecords,
    read_to: Seq,
    /// Where the cache stands.
    kept_at: Seq,
    compared: bool,
    /// The only day and the only stream to show, and no run records.
    only: Option<(Option<Day>, Option<Stream>)>,
    /// What was shown since somebody last asked.
    promoted: BTreeMap<PartitionKey, Digest>,
    /// What was written since somebody last asked.
    volume: Volume,
    /// Bytes of an item in the last publication.
    item_bytes: u64,
    /// Free bytes that a publication leaves on the disk, for the log.
    keeps_free: u64,
}

impl Summaries {
    /// Opens the publisher of `BUSES/summaries` and of the run records. With `remember`, it stores its state
    /// in that file. This call publishes nothing.
    pub fn open(
        disk: &Arc<dyn Disk>,
        buses: &Path,
        log: &Reader,
        remember: Option<&Path>,
    ) -> Result<Summaries, SummariesError> {
        let publisher =
            Publisher::open(Arc::clone(disk), buses, SUMMARIES_DIR, Fallback::DataThenManifest)?;
        let cache = SpillCache::open(disk, remember);
        let mut summaries = Summaries {
            log: log.clone(),
            disk: Arc::clone(disk),
            publisher,
            remember: remember.map(Path::to_owned),
            index: DayIndex::open(cache.clone(), None),
            records: RunRecords::open(disk, buses, cache.clone())?,
            cache,
            read_to: Seq::ZERO,
            kept_at: Seq::ZERO,
            compared: false,
            only: None,
            promoted: BTreeMap::new(),
            volume: Volume::default(),
            item_bytes: ITEM_BYTES,
            keeps_free: 0,
        };
        match summaries.recall() {
            Err(error) if summaries.may_be_of_cache(&error) => summaries.forget(&error)?,
            recalled => recalled?,
        }
        Ok(summaries)
    }

    /// The same publisher, which does not fill the disk. Intake pauses below the headroom; the summaries
    /// that are made by then are published with its first half, and the log keeps the other one.
    pub(crate) fn keeping_room(self, config: &Config) -> Summaries {
        Summaries { keeps_free: config.disk_headroom_bytes / 2, ..self }
    }

    /// Takes up what the cache knows.
    fn recall(&mut self) -> Result<(), SummariesError> {
        let Some(at) = self.cache.position(&self.log)? else { return Ok(()) };
        if !self.records.recall(&self.log, &at)? {
            // Records are written from the events of their records alone.
            tracing::info!("a run record is missing: the log is read from its beginning");
            return self.cache.clear();
        }
        self.index = DayIndex::open(self.cache.clone(), Some(&at));
        (self.read_to, self.kept_at) = (at.seq(), at.seq());
        Ok(())
    }

    /// Whether it is worth to begin again without the cache. A row that is lost makes days that do not add up.
    fn may_be_of_cache(&self, error: &SummariesError) -> bool {
        self.cache.keeps() && (matches!(error, SummariesError::Cache(_)) || error.is_violation())
    }

    /// Continues without a cache that failed. The next start makes it anew.
    fn forget(&mut self, error: &SummariesError) -> Result<(), SummariesError> {
        tracing::warn!(%error, "the publisher continues without a cache file");
        if let Some(path) = &self.remember
            && let Err(error) = self.disk.remove_file(path)
        {
            tracing::warn!(%error, "the cache file of the publisher cannot be removed");
        }
        self.cache = SpillCache::default();
        self.start_over()
    }

    /// Does something that needs the cache, a second time without it where it fails.
    fn with_cache<T>(
        &mut self,
        work: impl Fn(&mut Self) -> Result<T, SummariesError>,
    ) -> Result<T, SummariesError> {
        match work(self) {
            Err(error) if self.may_be_of_cache(&error) => {
                self.forget(&error)?;
                work(self)
            }
            done => done,
        }
    }

    /// Forgets everything the log can tell again.
    fn start_over(&mut self) -> Result<(), SummariesError> {
        self.cache.clear()?;
        self.index = DayIndex::open(self.cache.clone(), None);
        self.records.start_over(self.cache.clone());
        (self.read_to, self.kept_at, self.compared) = (Seq::ZERO, Seq::ZERO, false);
        Ok(())
    }

    /// From here on only one day, one stream, or both are shown, and no run records.
    pub fn only(&mut self, day: Option<Day>, stream: Option<Stream>) {
        self.only = Some((day, stream));
    }

    /// Publishes what the log says up to an event, and returns how many days of streams changed.
    pub fn publish(&mut self, until: Option<Seq>) -> Result<usize, SummariesError> {
        self.with_cache(|summaries| summaries.publish_once(until))
    }

    fn publish_once(&mut self, until: Option<Seq>) -> Result<usize, SummariesError> {
        self.read_once(until)?;
        if !self.compared {
            self.compare()?;
            self.compared = true;
        }
        let mut changed = self.index.changed();
        if let Some((day, stream)) = self.only {
            changed.retain(|key| day.is_none_or(|day| key.day == day));
            changed.retain(|key| stream.is_none_or(|stream| key.stream == stream));
        }
        if !changed.is_empty() {
            self.check_room(&changed)?;
            self.show(&changed)?;
        }
        if self.only.is_none() {
            self.records.publish(&self.log)?;
        }
        if self.read_to.0 - self.kept_at.0 >= RECORDS_MAX {
            self.keep()?;
        }
        Ok(changed.len())
    }

    /// Refuses a publication that would leave too little of the disk.
    fn check_room(&self, changed: &[PartitionKey]) -> Result<(), SummariesError> {
        if self.keeps_free == 0 {
            return Ok(());
        }
        let mut needed = self.keeps_free;
        for key in changed {
            let new_items = self.index.waiting().get(key).copied().unwrap_or_default();
            needed += self.published_bytes(key)? + new_items * self.item_bytes;
        }
        let live = self.publisher.live();
        let buses = live.parent().unwrap_or(&live);
        match self.disk.free_bytes(buses)? < needed {
            true => {
                let path = buses.display().to_string();
                Err(SummariesError::NoRoom { path, keeps: self.keeps_free })
            }
            false => Ok(()),
        }
    }

    /// Remembers everything for the next start.
    pub fn close(mut self) -> Result<(), SummariesError> {
        match self.keep().and_then(|()| self.cache.sync()) {
            Err(SummariesError::Cache(error)) => {
                tracing::warn!(%error, "the next start reads the log again");
                Ok(())
            }
            kept => kept,
        }
    }

    /// Brings the cache up to what was read.
    fn keep(&mut self) -> Result<(), SummariesError> {
        if !self.cache.keeps() || self.read_to == self.kept_at {
            return Ok(());
        }
        let mut at = Position::default();
        let mut rows = Vec::new();
        self.index.leave(&self.log, self.read_to, &mut at, &mut rows)?;
        self.records.leave(&mut at, &mut rows)?;
        self.cache.keep(&self.log, self.read_to, at, rows)?;
        self.index.left();
        self.records.left();
        self.kept_at = self.read_to;
        Ok(())
    }

    /// What was shown since the last call, and what could not be.
    pub(crate) fn take_promoted(&mut self) -> Vec<Promoted> {
        let shown = std::mem::take(&mut self.promoted);
        let shown = shown.into_iter().map(|(key, hash)| (key, Some(hash)));
        let hidden = self.index.changed().into_iter().map(|key| (key, None));
        let all: BTreeMap<PartitionKey, Option<Digest>> = shown.chain(hidden).collect();
        all.into_iter()
            .map(|(key, hash)| Promoted {
                path: format!("{SUMMARIES_DIR}/{}", key.data_file()),
                manifest_path: format!("{SUMMARIES_DIR}/{}", key.manifest_file()),
                data_hash: hash,
                schema_version: key.stream.item_version().to_owned(),
                promotion_status: match hash {
                    Some(_) => Promotion::Promoted,
                    None => Promotion::NotWritten,
                },
            })
            .collect()
    }

    /// What a publication would write now, about; `None` when every day is shown as it is.
    pub(super) fn waiting(&mut self) -> Result<Option<Volume>, SummariesError> {
        self.read(None)?;
        let mut all = Volume::default();
        for (key, new_items) in self.index.waiting() {
            let shown = new_items * self.item_bytes;
            all.shown += shown;
            all.written += shown + self.published_bytes(key)?;
        }
        Ok((!self.index.waiting().is_empty()).then_some(all))
    }

    /// What was written since the last call.
    pub(super) fn take_volume(&mut self) -> Volume {
        std::mem::take(&mut self.volume)
    }

    /// The length of a day as it is published.
    fn published_bytes(&self, key: &PartitionKey) -> Result<u64, SummariesError> {
        let data = self.disk.stat(&self.publisher.live().join(key.data_file()))?;
        Ok(data.map_or(0, |data| data.len))
    }

    /// Publishes every day again whose files are not, byte for byte, what the log says, whatever was remembered.
    /// Returns how many these were.
    pub(crate) fn publish_different(&mut self) -> Result<usize, SummariesError> {
        self.with_cache(|summaries| {
            summaries.start_over()?;
            summaries.read_once(None)?;
            let live = summaries.publisher.live();
            for key in summaries.index.keys()? {
                let Summaries { disk, log, index, .. } = &*summaries;
                match day(disk.as_ref(), &live, log, index, key, None)? {
                    None => summaries.index.shown(&[key]),
                    Some(_) => summaries.index.change([key]),
                }
            }
            summaries.compared = true;
            summaries.publish_once(None)
        })
    }

    /// The last event it has folded.
    pub(super) fn read_to(&self) -> Seq {
        self.read_to
    }

    /// Folds what the log holds beyond what was read before, with visits to the cache in between.
    pub(super) fn read(&mut self, until: Option<Seq>) -> Result<(), SummariesError> {
        self.with_cache(|summaries| summaries.read_once(until))
    }

    fn read_once(&mut self, until: Option<Seq>) -> Result<(), SummariesError> {
        loop {
            let Summaries { index, records, read_to, log, .. } = self;
            let (from, mut full) = (*read_to, false);
            fold(log, from, until, &mut |seq, stamp, event| {
                records.take(seq, stamp.at, &event)?;
                index.take(log, seq, event, stamp)?;
                *read_to = seq;
                full = index.is_full() || records.is_full();
                Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if !full {
                return Ok(());
            }
            self.records.publish(&self.log)?;
            self.keep()?;
        }
    }

    fn show(&mut self, changed: &[PartitionKey]) -> Result<(), SummariesError> {
        let facts: Vec<(PartitionKey, PartitionFacts)> = changed
            .iter()
            .filter_map(|key| {
                Some(self.index.facts(&self.log, key).transpose()?.map(|facts| (*key, facts)))
            })
            .collect::<Result<_, SummariesError>>()?;
        let most = facts.iter().map(|(_, facts)| facts.counts.produced).max().unwrap_or_default();
        let threads = if most < LARGE_LINES { 1 } else { THREADS };
        let days: Vec<_> =
            facts.iter().map(|(key, facts)| (Gate::new(*key), *key, facts)).collect();
        let before = facts.iter().map(|(key, _)| self.published_bytes(key));
        let before = before.sum::<Result<u64, _>>()?;
        let staged = std::thread::scope(|scope| {
            let helpers = Helpers::of(threads);
            for _ in 1..threads {
                let helpers = helpers.clone();
                scope.spawn(move || helpers.help());
            }
            stage(&self.log, &self.index, &mut self.publisher, &self.disk, &days, helpers)
        })?;
        let written = staged.iter().map(|day| day.bytes).sum::<u64>();
        let lines = staged.iter().map(|day| day.lines).sum::<u64>();
        self.volume.written += written;
        self.volume.shown += written.saturating_sub(before);
        self.item_bytes = written.checked_div(lines).unwrap_or(self.item_bytes);
        self.promoted.extend(staged.into_iter().map(|day| (day.key, day.sha256)));
        self.index.shown(changed);
        Ok(())
    }

    /// Days that are published as they should be need not be published again.
    fn compare(&mut self) -> Result<(), SummariesError> {
        #[derive(Deserialize)]
        struct Published {
            sequence: u64,
            log_head: String,
            byte_size: u64,
        }
        let live = self.publisher.live();
        for key in self.index.keys()? {
            let Some(facts) = self.index.facts(&self.log, &key)? else { continue };
            let manifest = self.disk.read_if_present(&live.join(key.manifest_file()))?;
            let data = self.disk.stat(&live.join(key.data_file()))?;
            let published: Option<Published> =
                manifest.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let as_it_should = published.is_some_and(|published| {
                published.sequence == facts.stamp.sequence
                    && published.log_head == facts.stamp.log_head
                    && data.is_some_and(|data| data.len == published.byte_size)
            });
            match as_it_should {
                true => self.index.shown(&[key]),
                false => self.index.change([key]),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
