//! Which summaries are older versions: `versions/<day>.versions.jsonl` in the bus home.
//!
//! Contract. A list is a function of the log; [`crate::export::versions`] gives its form, and
//! [`VersionIndex`] says what is in it. A day without older versions has no file. Each file is replaced as
//! a whole. What is known lies in a cache file with the stamp of the last event that it covers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site, follow};
use super::stamped_cache::StampedCache;
use super::version_index::VersionIndex;
use crate::contract::ids::Seq;
use crate::contract::json::line;
use crate::contract::time::Day;
use crate::export::Committed;
use crate::export::versions::{VERSIONS_DIR, file_name};
use crate::log::Cache;
use crate::log::codec::Cursor;

pub(crate) const EXPORTER: Exporter = Exporter {
    name: "versions",
    files: &[],
    folders: &[VERSIONS_DIR],
    paced: true,
    is_on: |_| true,
    open: |site| Box::new(Versions::new(site)),
};

const MODE: u32 = 0o640;
/// Layout of the cache file.
const LAYOUT: &str = "versions.v1";
/// Version of the fold.
const REDUCER: u32 = 1;

struct Versions {
    site: Site,
    /// Opened when it is first needed.
    cache: StampedCache,
    is_open: bool,
    position: Seq,
    /// The position of the cached rows.
    kept: Seq,
    index: VersionIndex,
}

impl Versions {
    fn new(site: &Site) -> Versions {
        Versions {
            site: site.clone(),
            cache: StampedCache::default(),
            is_open: false,
            position: Seq::ZERO,
            kept: Seq::ZERO,
            index: VersionIndex::default(),
        }
    }

    fn folder(&self) -> PathBuf {
        self.site.home.buses.join(VERSIONS_DIR)
    }

    /// Takes up what the cache holds. Lists that are missing are written again from it.
    fn open(&mut self) -> Outcome<()> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        let path = self.site.home.version_index();
        let (cache, keys, position) = StampedCache::open(&self.site, &path, LAYOUT, REDUCER)?;
        (self.cache, self.position, self.kept) = (cache, position, position);
        for day in keys.iter().filter_map(|key| VersionIndex::day_of(key)) {
            if self.site.disk.stat(&self.folder().join(file_name(day)))?.is_none() {
                self.index.changed.insert(day);
            }
        }
        Ok(())
    }

    /// The list of a day; empty when nothing is to be known.
    fn list(&mut self, day: Day) -> Outcome<Vec<u8>> {
        let marks = self.index.marks(&self.cache, day)?;
        let mut text = String::new();
        for mark in marks {
            text.push_str(&line(&serde_json::to_value(mark)?));
            text.push('\n');
        }
        Ok(text.into_bytes())
    }

    fn write(&mut self, day: Day) -> Outcome<()> {
        let (path, bytes) = (self.folder().join(file_name(day)), self.list(day)?);
        let disk = &self.site.disk;
        let found = disk.read_if_present(&path)?;
        match (bytes.is_empty(), found) {
            (true, None) => {}
            (true, Some(_)) => disk.remove_file(&path)?,
            (false, Some(found)) if found == bytes => {}
            (false, _) => {
                disk.create_dir_all(&self.folder())?;
                disk.replace(&path, &bytes, MODE)?;
            }
        }
        Ok(())
    }
}

impl Projection for Versions {
    fn position(&self) -> Seq {
        self.position
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        self.open()?;
        let after = self.position;
        for committed in batch.iter().filter(|one| one.seq > after) {
            self.index.take(&self.cache, &self.site.log, committed)?;
            self.position = committed.seq;
            // Without a cache nothing may be forgotten.
            if self.cache.keeps() && self.index.is_full() {
                self.checkpoint()?;
            }
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
        for day in self.index.changed.clone() {
            self.write(day)?;
        }
        // The rows come after the files: a crash in between writes the same files again.
        let rows = self.index.rows()?;
        if !rows.is_empty() && self.cache.keep(&self.site.log, self.position, rows)? {
            self.kept = self.position;
            self.index.forget();
        }
        self.index.changed.clear();
        Ok(Cursor { applied: self.position, bytes: 0 })
    }

    /// Compares with what the log says up to the position of the last checkpoint.
    fn compare(&mut self) -> Outcome<Comparison> {
        // Opening a damaged cache would make it anew, and a comparison writes nothing.
        let index = self.site.home.version_index();
        if self.is_open || Cache::damage(&self.site.disk, &index)?.is_none() {
            self.open()?;
        }
        let until = (self.kept > Seq::ZERO).then_some(self.kept);
        let mut again = Versions { is_open: true, ..Versions::new(&self.site) };
        again.advance(until)?;
        let mut found = Comparison::default();
        let mut known = BTreeSet::new();
        for day in again.index.changed.clone() {
            let (name, meant) = (file_name(day), again.list(day)?);
            let meant = Some(meant).filter(|meant| !meant.is_empty());
            let there = self.site.disk.read_if_present(&self.folder().join(&name))?;
            found.file(format!("{VERSIONS_DIR}/{name}"), meant.as_deref(), there.as_deref());
            known.insert(name);
        }
        let listed = match self.site.disk.list(&self.folder()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        for name in listed.into_iter().filter(|name| !name.starts_with('.')) {
            if !known.contains(&name) {
                found.differs(format!("{VERSIONS_DIR}/{name}"), "is not in the log");
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
        self.site.disk.remove_file(&self.site.home.version_index())?;
        *self = Versions::new(&self.site);
        self.advance(None)?;
        self.checkpoint()?;
        Ok(differences.len())
    }
}
