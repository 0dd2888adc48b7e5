//! Counts over all events of the log as a file for Prometheus: `run/metrics.prom`.
//!
//! Contract. The file is a function of the log up to the event that it names in
//! `summarizer_log_position`. It is replaced as a whole. A collector of text files reads it, so
//! counts continue over restarts and need no open port. `exports.metrics = true` turns it on.
//!
//! The counts lie in a cache file with the stamp of the last event that they cover. The status page
//! shows the same counts since the start of the service.

use std::path::PathBuf;

use super::counts::Counts;
use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site, follow};
use super::stamped_cache::{StampedCache, is_of_cache};
use crate::contract::ids::Seq;
use crate::export::Committed;
use crate::export::exposition::Exposition;
use crate::log::Cache;
use crate::log::codec::Cursor;

pub(crate) const EXPORTER: Exporter = Exporter {
    name: "metrics",
    files: &[FILE],
    folders: &[],
    paced: true,
    is_on: |site| site.exports.metrics,
    open: |site| Box::new(Metrics::new(site)),
};

/// Relative to the home.
const FILE: &str = "run/metrics.prom";
const MODE: u32 = 0o640;
/// Layout of the cache file.
const LAYOUT: &str = "metrics.v1";
/// Version of the fold.
const REDUCER: u32 = 1;
/// The row of the counts.
const COUNTS: &str = "counts";
/// The metric that names the last event that is counted.
const POSITION: &str = "log_position";

struct Metrics {
    site: Site,
    /// Opened when it is first needed.
    cache: StampedCache,
    is_open: bool,
    position: Seq,
    /// The position of the cached row.
    kept: Seq,
    counts: Counts,
}

impl Metrics {
    fn new(site: &Site) -> Metrics {
        Metrics {
            site: site.clone(),
            cache: StampedCache::default(),
            is_open: false,
            position: Seq::ZERO,
            kept: Seq::ZERO,
            counts: Counts::default(),
        }
    }

    fn path(&self) -> PathBuf {
        self.site.home.root.join(FILE)
    }

    fn open(&mut self) -> Outcome<()> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        let path = self.site.home.metrics_index();
        let (cache, _, position) = StampedCache::open(&self.site, &path, LAYOUT, REDUCER)?;
        self.cache = cache;
        match self.cache.get(COUNTS) {
            Ok(Some(row)) => {
                self.counts = serde_json::from_slice(&row)?;
                (self.position, self.kept) = (position, position);
            }
            Ok(None) => {}
            // The log is counted from its beginning.
            Err(_) => self.cache.give_up(&self.site, &path),
        }
        Ok(())
    }

    fn render(&self) -> Vec<u8> {
        let mut out = Exposition::default();
        let help = "the last event that is counted";
        out.one(POSITION, "gauge", help, self.position.0 as f64);
        self.counts.expose("the log began", &mut out);
        out.0.into_bytes()
    }
}

/// The position that a file names.
fn position_of(text: &[u8]) -> Option<Seq> {
    let text = std::str::from_utf8(text).ok()?;
    let prefix = format!("summarizer_{POSITION} ");
    text.lines().find_map(|line| line.strip_prefix(&prefix))?.parse().ok().map(Seq)
}

impl Projection for Metrics {
    fn position(&self) -> Seq {
        self.position
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        self.open()?;
        let after = self.position;
        batch.iter().filter(|one| one.seq > after).for_each(|one| self.counts.take(one));
        if let Some(last) = batch.last() {
            self.position = self.position.max(last.seq);
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
        let (path, bytes) = (self.path(), self.render());
        let differs = self.site.disk.read_if_present(&path)?.as_ref() != Some(&bytes);
        if differs {
            self.site.disk.replace(&path, &bytes, MODE)?;
        }
        // The row comes after the file: a crash in between writes the same file again.
        if differs || self.kept != self.position {
            let row = (COUNTS.to_owned(), serde_json::to_vec(&self.counts)?);
            match self.cache.keep(&self.site.log, self.position, vec![row]) {
                // All counts are in memory too.
                Err(error) if is_of_cache(error.as_ref()) => {
                    self.cache.give_up(&self.site, &self.site.home.metrics_index());
                }
                kept => drop(kept?),
            }
            self.kept = self.position;
        }
        Ok(Cursor { applied: self.position, bytes: 0 })
    }

    /// Compares with the log up to the position that the file names. A changed position does not
    /// fit the number of events, so that change is found as well.
    fn compare(&mut self) -> Outcome<Comparison> {
        let found = self.site.disk.read_if_present(&self.path())?;
        let index = self.site.home.metrics_index();
        if found.is_none() && Cache::damage(&self.site.disk, &index)?.is_none() {
            self.open()?;
            if self.kept == Seq::ZERO {
                // A process that was killed before its first checkpoint wrote no file.
                return Ok(Comparison::default());
            }
        }
        let until = found.as_deref().and_then(position_of);
        let mut again = Metrics { is_open: true, ..Metrics::new(&self.site) };
        again.advance(until)?;
        let mut comparison = Comparison::default();
        comparison.file(FILE, Some(&again.render()), found.as_deref());
        Ok(comparison)
    }

    fn repair(&mut self) -> Outcome<usize> {
        let differences = self.compare()?.differences.len();
        let (index, path) = (self.site.home.metrics_index(), self.path());
        *self = Metrics::new(&self.site);
        self.site.disk.remove_file(&index)?;
        if differences > 0 {
            self.site.disk.remove_file(&path)?;
        }
        self.advance(None)?;
        self.checkpoint()?;
        Ok(differences)
    }
}
