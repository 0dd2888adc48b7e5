//! Projections that keep one file for each day of summaries, in a folder of the bus home.
//!
//! Contract. A [`DayFold`] says what a file holds; [`DayFiles`] makes a [`Projection`] of it. A day
//! without content has no file. Each file is replaced as a whole. What the fold knows lies in a
//! cache file with the stamp of the last event that it covers; only rows that were needed since the
//! last checkpoint are in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::PathBuf;

use super::projection::{Comparison, Outcome, Projection, Site, follow};
use super::stamped_cache::{StampedCache, is_of_cache};
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::export::Committed;
use crate::export::difference::{Difference, MISSING};
use crate::home::Home;
use crate::log::codec::Cursor;
use crate::log::{Cache, Reader};

const MODE: u32 = 0o640;

/// A fold of the log whose value is a file for each day.
pub(super) trait DayFold: Default + Send {
    /// Layout of the cache file.
    const LAYOUT: &'static str;
    /// Version of the fold.
    const REDUCER: u32;
    /// The folder of the files, relative to the bus home.
    const FOLDER: &'static str;

    /// Path of the cache file.
    fn index(home: &Home) -> PathBuf;

    fn file_name(day: Day) -> String;

    /// The day of a row, when the row belongs to a day.
    fn day_of(key: &str) -> Option<Day>;

    fn take(&mut self, rows: &StampedCache, log: &Reader, committed: &Committed) -> Outcome<()>;

    /// Days whose file may have changed since the last checkpoint.
    fn changed(&mut self) -> &mut BTreeSet<Day>;

    /// The content of a file; `None` when the day has none.
    fn content(&mut self, rows: &StampedCache, log: &Reader, day: Day) -> Outcome<Option<Vec<u8>>>;

    /// Whether so much is in memory that the rows are to be written.
    fn is_full(&self) -> bool;

    /// The rows that were needed since the last checkpoint.
    fn rows(&self) -> Outcome<Vec<(String, Vec<u8>)>>;

    /// Drops what the rows hold, but not the changed days.
    fn forget(&mut self);
}

pub(super) struct DayFiles<F> {
    site: Site,
    /// Opened when it is first needed.
    cache: StampedCache,
    is_open: bool,
    position: Seq,
    /// The position of the cached rows.
    kept: Seq,
    days: F,
}

impl<F: DayFold> DayFiles<F> {
    pub(super) fn new(site: &Site) -> DayFiles<F> {
        DayFiles {
            site: site.clone(),
            cache: StampedCache::default(),
            is_open: false,
            position: Seq::ZERO,
            kept: Seq::ZERO,
            days: F::default(),
        }
    }

    fn folder(&self) -> PathBuf {
        self.site.home.buses.join(F::FOLDER)
    }

    /// Takes up what the cache holds. Files that are missing are written again from it.
    fn open(&mut self) -> Outcome<()> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        let path = F::index(&self.site.home);
        let (cache, keys, position) = StampedCache::open(&self.site, &path, F::LAYOUT, F::REDUCER)?;
        (self.cache, self.position, self.kept) = (cache, position, position);
        for day in keys.iter().filter_map(|key| F::day_of(key)) {
            if self.site.disk.stat(&self.folder().join(F::file_name(day)))?.is_none() {
                self.days.changed().insert(day);
            }
        }
        Ok(())
    }

    /// Does something that needs rows. When they fail, it begins again without them, at the same event of the log.
    fn with_rows<T>(&mut self, work: impl Fn(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let at = self.position;
        match work(self) {
            Err(error) if is_of_cache(error.as_ref()) => {
                self.cache.give_up(&self.site, &F::index(&self.site.home));
                (self.position, self.kept, self.days) = (Seq::ZERO, Seq::ZERO, F::default());
                if at > Seq::ZERO {
                    self.advance(Some(at))?;
                }
                work(self)
            }
            done => done,
        }
    }

    fn content(&mut self, day: Day) -> Outcome<Option<Vec<u8>>> {
        self.days.content(&self.cache, &self.site.log, day)
    }

    /// Takes the events of a batch that are new.
    fn take(&mut self, batch: &[Committed]) -> Outcome<()> {
        let after = self.position;
        for committed in batch.iter().filter(|one| one.seq > after) {
            self.days.take(&self.cache, &self.site.log, committed)?;
            self.position = committed.seq;
            // Without a cache nothing may be forgotten.
            if self.cache.keeps() && self.days.is_full() {
                self.put()?;
            }
        }
        Ok(())
    }

    /// Writes the changed days, and keeps the rows.
    fn put(&mut self) -> Outcome<()> {
        for day in self.days.changed().clone() {
            self.write(day)?;
        }
        // The rows come after the files: a crash in between writes the same files again.
        let rows = self.days.rows()?;
        if !rows.is_empty() && self.cache.keep(&self.site.log, self.position, rows)? {
            self.kept = self.position;
            self.days.forget();
        }
        self.days.changed().clear();
        Ok(())
    }

    fn write(&mut self, day: Day) -> Outcome<()> {
        let (path, content) = (self.folder().join(F::file_name(day)), self.content(day)?);
        let disk = &self.site.disk;
        let found = disk.read_if_present(&path)?;
        match (content, found) {
            (None, None) => {}
            (None, Some(_)) => disk.remove_file(&path)?,
            (Some(meant), Some(found)) if meant == found => {}
            (Some(meant), _) => {
                disk.create_dir_all(&self.folder())?;
                disk.replace(&path, &meant, MODE)?;
            }
        }
        Ok(())
    }

    /// The files of the changed days that are not what this fold says, by name.
    fn different(&mut self) -> Outcome<BTreeMap<String, Difference>> {
        let mut different = BTreeMap::new();
        for day in self.days.changed().clone() {
            let mut one = Comparison::default();
            let (name, meant) = (F::file_name(day), self.content(day)?);
            let there = self.site.disk.read_if_present(&self.folder().join(&name))?;
            one.file(format!("{}/{name}", F::FOLDER), meant.as_deref(), there.as_deref());
            different.extend(one.differences.pop().map(|difference| (name, difference)));
        }
        Ok(different)
    }

    /// Forgets the files that are what the log says at some event after a checkpoint: a process that was killed
    /// may have written them and not its cache.
    fn forget_newer(&self, kept: Seq, different: &mut BTreeMap<String, Difference>) -> Outcome<()> {
        let mut again = DayFiles { is_open: true, ..DayFiles::<F>::new(&self.site) };
        follow(&self.site.log, Seq::ZERO, None, &mut |batch| {
            for (at, one) in batch.iter().enumerate() {
                again.fold(&batch[at..=at])?;
                if one.seq <= kept {
                    continue;
                }
                again.days.changed().retain(|day| different.contains_key(&F::file_name(*day)));
                let days = again.days.changed().clone();
                let still = again.different()?;
                for name in days.into_iter().map(F::file_name) {
                    if !still.contains_key(&name) {
                        different.remove(&name);
                    }
                }
                again.days.changed().clear();
            }
            Ok(())
        })
    }
}

impl<F: DayFold> Projection for DayFiles<F> {
    fn position(&self) -> Seq {
        self.position
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        self.open()?;
        self.with_rows(|files| files.take(batch))
    }

    fn advance(&mut self, until: Option<Seq>) -> Outcome<()> {
        self.open()?;
        let (log, from) = (self.site.log.clone(), self.position);
        follow(&log, from, until, &mut |batch| self.fold(batch))
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        self.open()?;
        self.with_rows(DayFiles::put)?;
        Ok(Cursor { applied: self.position, bytes: 0 })
    }

    /// Compares with what the log says up to the position of the last checkpoint: events that came
    /// after it wait for the publisher.
    fn compare(&mut self) -> Outcome<Comparison> {
        // Opening a damaged cache would make it anew, and a comparison writes nothing.
        let index = F::index(&self.site.home);
        let was_begun = [&index, &self.folder()].map(|path| self.site.disk.stat(path));
        let [has_index, has_folder] = was_begun.map(|stat| stat.map(|stat| stat.is_some()));
        let is_sound = self.is_open || Cache::damage(&self.site.disk, &index)?.is_none();
        if is_sound {
            self.open()?;
        }
        let until = (self.kept > Seq::ZERO).then_some(self.kept);
        let mut again = DayFiles { is_open: true, ..DayFiles::<F>::new(&self.site) };
        again.advance(until)?;
        let mut different = again.different()?;
        let known: BTreeSet<String> =
            again.days.changed().iter().map(|day| F::file_name(*day)).collect();
        let listed = match self.site.disk.list(&self.folder()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        for name in listed.into_iter().filter(|name| !name.starts_with('.')) {
            if !known.contains(&name) {
                let path = format!("{}/{name}", F::FOLDER);
                different.insert(name, Difference::new(path, "is not in the log"));
            }
        }
        // A process that was killed before its first checkpoint wrote some files or none.
        let is_first = self.kept == Seq::ZERO && is_sound && (has_index? || !has_folder?);
        if is_first {
            different.retain(|_, one| one.what != MISSING);
        }
        if !different.is_empty() {
            self.forget_newer(self.kept, &mut different)?;
        }
        Ok(Comparison { differences: different.into_values().collect(), ..Comparison::default() })
    }

    fn repair(&mut self) -> Outcome<usize> {
        let differences = self.compare()?.differences;
        for one in &differences {
            self.site.disk.remove_file(&self.site.home.buses.join(&one.path))?;
        }
        self.cache = StampedCache::default();
        self.site.disk.remove_file(&F::index(&self.site.home))?;
        *self = DayFiles::new(&self.site);
        self.advance(None)?;
        self.checkpoint()?;
        Ok(differences.len())
    }
}
