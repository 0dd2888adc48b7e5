//! Rows of a projection in a cache file, with the stamp of the last event that they cover.
//!
//! Contract: opening reads every row. When a row is damaged, or the stamp is of another log or of
//! another version of the fold, the file is made anew and the projection reads the log from its
//! beginning. So a lost or damaged file costs time and never makes a wrong byte.

use std::path::Path;
use std::sync::Arc;

use super::projection::{Outcome, Site};
use crate::contract::ids::Seq;
use crate::log::{Cache, LogStamp, Reader};
use crate::os::Disk;

/// The row that holds the stamp.
const STAMP: &str = "at";
/// After every key.
const END: &str = "~";
/// Rows in one read.
const PAGE_ROWS: usize = 256;

/// The rows; without a file nothing is kept.
#[derive(Default)]
pub(super) struct StampedCache {
    cache: Option<Cache>,
    reducer: u32,
}

impl StampedCache {
    /// Opens the file of a projection. Returns the rows' keys and the last event they cover. Files
    /// elsewhere (an export, a backup) have no cache.
    pub(super) fn open(
        site: &Site,
        path: &Path,
        layout: &str,
        reducer: u32,
    ) -> Outcome<(StampedCache, Vec<String>, Seq)> {
        if !site.own {
            return Ok(Default::default());
        }
        let opened = Self::open_as_is(&site.disk, path, layout, reducer);
        let known = opened.keys(&site.log);
        match known {
            Ok((keys, seq)) => Ok((opened, keys, seq)),
            Err(error) => {
                tracing::warn!(path = %path.display(), error, "a cache is made anew");
                drop(opened);
                site.disk.remove_file(path)?;
                let opened = Self::open_as_is(&site.disk, path, layout, reducer);
                Ok((opened, Vec::new(), Seq::ZERO))
            }
        }
    }

    fn open_as_is(disk: &Arc<dyn Disk>, path: &Path, layout: &str, reducer: u32) -> StampedCache {
        let cache = Cache::open(disk, path, layout)
            .inspect_err(|error| tracing::info!(%error, "the log is read each time"))
            .ok();
        StampedCache { cache, reducer }
    }

    fn keys(&self, log: &Reader) -> Outcome<(Vec<String>, Seq)> {
        let nothing = Ok(Default::default());
        let Some(cache) = &self.cache else { return nothing };
        let Some(stamp) = cache.get(STAMP)? else { return nothing };
        let stamp: LogStamp = serde_json::from_slice(&stamp)?;
        if !stamp.holds(log, self.reducer)? {
            return Err("its rows are of another log".into());
        }
        let (mut keys, mut after) = (Vec::new(), String::new());
        loop {
            let page = cache.page(&after, END, PAGE_ROWS)?;
            let Some((last, _)) = page.last() else { break };
            after.clone_from(last);
            keys.extend(page.into_iter().map(|(key, _)| key).filter(|key| key != STAMP));
        }
        Ok((keys, stamp.seq))
    }

    /// Whether rows are kept.
    pub(super) fn keeps(&self) -> bool {
        self.cache.is_some()
    }

    pub(super) fn get(&self, key: &str) -> Outcome<Option<Vec<u8>>> {
        Ok(self.cache.as_ref().map(|cache| cache.get(key)).transpose()?.flatten())
    }

    /// Puts rows that cover the log up to an event, and makes them durable. Returns whether they
    /// are kept.
    pub(super) fn keep(
        &self,
        log: &Reader,
        seq: Seq,
        mut rows: Vec<(String, Vec<u8>)>,
    ) -> Outcome<bool> {
        let Some(cache) = &self.cache else { return Ok(false) };
        let Some(stamp) = LogStamp::of(log, seq, self.reducer)? else { return Ok(false) };
        rows.push((STAMP.to_owned(), serde_json::to_vec(&stamp)?));
        cache.change(rows.iter().map(|(key, row)| (key.as_str(), Some(row.as_slice()))))?;
        cache.sync()?;
        Ok(true)
    }
}
