//! What the publisher knows of the log, kept in a cache file so that memory holds only what is new
//! and a start need not read the whole log again.
//!
//! Contract: the rows stand for the log up to one record and change together with its stamp. Rows
//! whose stamp does not hold are removed, and the log is read from its beginning. Without a file
//! nothing is kept, and what is known stays in memory.

use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::SummariesError;
use crate::contract::ids::Seq;
use crate::log::{Cache, LogError, LogStamp, Reader};
use crate::os::Disk;

/// Layout of the rows; a file of another layout is made anew.
const LAYOUT: &str = "summaries.v3";
/// Version of the fold that fills the rows; rows of another version are removed.
pub(super) const REDUCER: u32 = 4;
/// The row that holds the position.
const POSITION: &str = "at";
/// Rows that one step reads or removes.
const PAGE_ROWS: usize = 4096;
/// After every key.
pub(super) const END: &str = "~";

/// Whether a row could be taken.
type RowResult = Result<(), SummariesError>;

/// A key and its value.
pub(super) type Row = (String, Vec<u8>);

/// A key and its new value; none takes the row away.
pub(super) type Change = (String, Option<Vec<u8>>);

/// Up to where the rows stand for the log, and what is too small for rows of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Position {
    stamp: LogStamp,
    /// The first record of the session that was open there.
    pub(crate) run_from: Option<u64>,
    /// The id of the session that was open there, and its version of the program.
    pub run: (String, String),
    /// Where the time zone changed.
    pub(crate) zones: Vec<(u64, String)>,
}

impl Position {
    /// The last record that the rows stand for.
    pub(super) fn seq(&self) -> Seq {
        self.stamp.seq
    }
}

#[derive(Clone, Default)]
pub(super) struct SpillCache(Option<Arc<Cache>>);

impl SpillCache {
    /// Opens the file; without one, or where somebody else has it, nothing is kept.
    pub(super) fn open(disk: &Arc<dyn Disk>, path: Option<&Path>) -> SpillCache {
        let Some(path) = path else { return SpillCache(None) };
        match Cache::open(disk, path, LAYOUT) {
            Ok(cache) => SpillCache(Some(Arc::new(cache))),
            Err(error) => {
                tracing::info!(%error, "the publisher works without a cache file");
                SpillCache(None)
            }
        }
    }

    /// What a row says. One that says nothing is damage of the file.
    pub(super) fn said<T: DeserializeOwned>(row: &[u8]) -> Result<T, SummariesError> {
        serde_json::from_slice(row).map_err(|error| {
            SummariesError::Cache(LogError::Corrupt(format!("a row of a cache: {error}")))
        })
    }

    /// Whether anything is kept.
    pub(super) fn keeps(&self) -> bool {
        self.0.is_some()
    }

    /// The place in the log that the rows stand for. Rows whose stamp does not hold are removed.
    pub(super) fn position(&self, log: &Reader) -> Result<Option<Position>, SummariesError> {
        let row = self.get(POSITION)?;
        if let Some(position) = row.and_then(|row| serde_json::from_slice::<Position>(&row).ok())
            && position.stamp.holds(log, REDUCER)?
        {
            return Ok(Some(position));
        }
        self.clear()?;
        Ok(None)
    }

    /// Changes rows, and the record they stand for.
    pub(super) fn keep(
        &self,
        log: &Reader,
        seq: Seq,
        mut position: Position,
        mut rows: Vec<Change>,
    ) -> Result<(), SummariesError> {
        let Some(stamp) = LogStamp::of(log, seq, REDUCER)? else { return Ok(()) };
        position.stamp = stamp;
        rows.push((POSITION.to_owned(), Some(serde_json::to_vec(&position)?)));
        self.change(&rows)
    }

    fn change(&self, rows: &[Change]) -> Result<(), SummariesError> {
        let Some(cache) = &self.0 else { return Ok(()) };
        let rows = rows.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
        cache.change(rows).map_err(SummariesError::Cache)
    }

    /// Makes durable what was kept.
    pub(super) fn sync(&self) -> Result<(), SummariesError> {
        self.0.as_ref().map_or(Ok(()), |cache| cache.sync()).map_err(SummariesError::Cache)
    }

    /// Throws everything away.
    pub(super) fn clear(&self) -> Result<(), SummariesError> {
        loop {
            let rows = self.page("", END)?;
            if rows.is_empty() {
                return Ok(());
            }
            // The name of the record goes with the first of them: keys are in order.
            let gone: Vec<Change> = rows.into_iter().map(|(key, _)| (key, None)).collect();
            self.change(&gone)?;
        }
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, SummariesError> {
        match &self.0 {
            Some(cache) => cache.get(key).map_err(SummariesError::Cache),
            None => Ok(None),
        }
    }

    /// Some of the rows after a key and below another, in order.
    fn page(&self, after: &str, below: &str) -> Result<Vec<Row>, SummariesError> {
        match &self.0 {
            Some(cache) => cache.page(after, below, PAGE_ROWS).map_err(SummariesError::Cache),
            None => Ok(Vec::new()),
        }
    }

    /// The first row after a key and below another.
    pub(super) fn next(&self, after: &str, below: &str) -> Result<Option<Row>, SummariesError> {
        let Some(cache) = &self.0 else { return Ok(None) };
        let mut rows = cache.page(after, below, 1).map_err(SummariesError::Cache)?;
        Ok(rows.pop())
    }

    /// Hands over all rows whose key begins with a prefix, in order.
    pub(super) fn each(
        &self,
        prefix: &str,
        take: &mut dyn FnMut(&str, Vec<u8>) -> RowResult,
    ) -> Result<(), SummariesError> {
        let (mut after, below) = (prefix.to_owned(), format!("{prefix}{END}"));
        loop {
            let rows = self.page(&after, &below)?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            after.clone_from(last);
            for (key, row) in rows {
                take(&key[prefix.len()..], row)?;
            }
        }
    }
}
