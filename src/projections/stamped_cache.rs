//! Rows of a projection in a cache file, with the stamp of the last event that they cover.
//!
//! Contract: opening reads every row. When a row is damaged, or the stamp is of another log or of
//! another version of the fold, the file is made anew and the projection reads the log from its
//! beginning. When a row cannot be read or written later, the error is a [`CacheFailed`]: the projection
//! then [gives the file up](StampedCache::give_up) and reads the log from its beginning. So a lost, damaged or failing
//! file costs time and never makes a wrong byte.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::projection::{Outcome, Site};
use crate::contract::ids::Seq;
use crate::log::{Cache, LogError, LogStamp, Reader};
use crate::os::Disk;

/// The row that holds the stamp.
const STAMP: &str = "at";
/// After every key.
const END: &str = "~";
/// Rows in one read.
const PAGE_ROWS: usize = 256;

/// A row could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the cache of a projection fails")]
pub(super) struct CacheFailed(#[from] LogError);

/// Whether an error is one of a cache, and not of the log or of a published file.
pub(super) fn is_of_cache(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error.is::<CacheFailed>()
}

/// The rows; without a file nothing is kept.
#[derive(Default)]
pub(super) struct StampedCache {
    cache: Option<Cache>,
    reducer: u32,
    /// The keys of all rows: a row that is not found is no row, or it is lost.
    names: Mutex<BTreeSet<String>>,
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
            Ok((keys, seq)) => {
                opened.names.lock().extend(keys.iter().cloned());
                Ok((opened, keys, seq))
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), error, "a cache is made anew");
                drop(opened);
                let opened = match site.disk.remove_file(path) {
                    Ok(()) => Self::open_as_is(&site.disk, path, layout, reducer),
                    Err(_) => StampedCache::default(),
                };
                Ok((opened, Vec::new(), Seq::ZERO))
            }
        }
    }

    /// Goes on without a file. The next start makes it anew.
    pub(super) fn give_up(&mut self, site: &Site, path: &Path) {
        if self.cache.take().is_some() {
            tracing::warn!(path = %path.display(), "a cache fails: the log is read instead");
            if let Err(error) = site.disk.remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "a failing cache cannot be removed");
            }
        }
    }

    fn open_as_is(disk: &Arc<dyn Disk>, path: &Path, layout: &str, reducer: u32) -> StampedCache {
        let cache = Cache::open(disk, path, layout)
            .inspect_err(|error| tracing::info!(%error, "the log is read each time"))
            .ok();
        StampedCache { cache, reducer, names: Mutex::default() }
    }

    fn keys(&self, log: &Reader) -> Outcome<(Vec<String>, Seq)> {
        let nothing = Ok(Default::default());
        let Some(cache) = &self.cache else { return nothing };
        let Some(stamp) = cache.get(STAMP)? else {
            let is_empty = cache.page("", END, 1)?.is_empty();
            return if is_empty { nothing } else { Err("its stamp is lost".into()) };
        };
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
        match cache.rows()? == keys.len() as u64 + 1 {
            true => Ok((keys, stamp.seq)),
            false => Err("some of its rows are lost".into()),
        }
    }

    /// Whether rows are kept.
    pub(super) fn keeps(&self) -> bool {
        self.cache.is_some()
    }

    pub(super) fn get(&self, key: &str) -> Outcome<Option<Vec<u8>>> {
        let Some(cache) = &self.cache else { return Ok(None) };
        match cache.get(key).map_err(CacheFailed)? {
            None if self.names.lock().contains(key) => {
                Err(CacheFailed(LogError::Corrupt(format!("row {key:?} of a cache is lost")))
                    .into())
            }
            row => Ok(row),
        }
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
        let changes = rows.iter().map(|(key, row)| (key.as_str(), Some(row.as_slice())));
        cache.change(changes).and_then(|()| cache.sync()).map_err(CacheFailed)?;
        self.names.lock().extend(rows.into_iter().map(|(key, _)| key));
        Ok(true)
    }
}
