//! Compares the published Summary Bus and the run records with the log, byte for byte.
//!
//! The whole log is folded again; of what the publisher remembers, only its position counts. A day
//! whose manifest is of an earlier event is no difference, and neither is a missing day that began, or a
//! missing record of a session that ended, after that position: the publisher has yet to come to them.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::day_index::DayIndex;
use super::day_writer::write_lines;
use super::error::SummariesError;
use super::fold::fold;
use super::publication::read_back;
use super::run_records::RunRecords;
use super::spill_cache::SpillCache;
use crate::contract::ids::Seq;
use crate::export::difference::Comparison;
use crate::export::summary_bus::{PartitionKey, PartitionWriter, SUMMARIES_DIR, Written};
use crate::log::{Cache, Reader};
use crate::os::Disk;
use crate::verify::Gate;
use crate::verify::spread::Helpers;

/// Everything on the Summary Bus that is not what the log says.
pub(super) fn compare_summaries(
    disk: &Arc<dyn Disk>,
    buses: &Path,
    log: &Reader,
    cache: &Path,
) -> Result<Comparison, SummariesError> {
    let shown_to = shown_to(disk, buses, log, cache)?;
    let mut index = DayIndex::open(SpillCache::default(), None);
    fold(log, Seq::ZERO, None, &mut |seq, stamp, event| {
        index.take(log, seq, event, stamp).map(ControlFlow::Continue)
    })?;
    let (mut found, live) = (Comparison::default(), buses.join(SUMMARIES_DIR));
    for key in index.keys()? {
        if let Some((path, what)) = day(disk.as_ref(), &live, log, &index, key, Some(shown_to))? {
            found.differs(format!("{SUMMARIES_DIR}/{path}"), what);
        }
    }
    Ok(found)
}

/// Every run record that is not what the log says, and apart from them those that only files had.
pub(super) fn compare_records(
    disk: &Arc<dyn Disk>,
    buses: &Path,
    log: &Reader,
    cache: &Path,
) -> Result<(Comparison, Comparison), SummariesError> {
    let mut records = RunRecords::to_compare(disk, buses);
    fold(log, Seq::ZERO, None, &mut |seq, stamp, event| {
        records.take(seq, stamp.at, &event).map(ControlFlow::Continue)
    })?;
    let of_log = records.compare(log, shown_to(disk, buses, log, cache)?)?;
    Ok((of_log, records.compare_kept()?))
}

/// An event that the publisher came to for certain. It notes its position when it ends, so a process that was
/// killed published more.
fn shown_to(
    disk: &Arc<dyn Disk>,
    buses: &Path,
    log: &Reader,
    cache: &Path,
) -> Result<Seq, SummariesError> {
    let is_there = disk.stat(cache)?.is_some();
    if !is_there && disk.stat(&buses.join(SUMMARIES_DIR))?.is_none() {
        // No publisher has worked here yet.
        return Ok(Seq::ZERO);
    }
    if is_there && matches!(Cache::damage(disk, cache), Ok(None)) {
        match SpillCache::open(disk, Some(cache)).position(log) {
            // A publisher that never ended in an orderly way has stored no position.
            Ok(at) => return Ok(at.map_or(Seq::ZERO, |at| at.seq())),
            Err(SummariesError::Cache(error)) => {
                tracing::warn!(%error, "the cache of the publisher is not read");
            }
            Err(error) => return Err(error),
        }
    }
    // Without a sound cache it is unknown how far the publisher came, so every file must exist.
    Ok(log.head().0)
}

#[derive(Deserialize)]
struct Published {
    sequence: u64,
}

/// What is wrong with a day. A publisher that came to `shown_to` may have to write it yet; without one it is as the whole
/// log says, or wrong.
pub(super) fn day(
    disk: &dyn Disk,
    live: &Path,
    log: &Reader,
    index: &DayIndex,
    key: PartitionKey,
    shown_to: Option<Seq>,
) -> Result<Option<(String, &'static str)>, SummariesError> {
    let Some(facts) = index.facts(log, &key)? else { return Ok(None) };
    let Some(manifest) = disk.read_if_present(&live.join(key.manifest_file()))? else {
        // The first event that made an item of the day is the beginning of the day file.
        let first = index.items(&key).min().unwrap_or(Seq(facts.stamp.sequence));
        if shown_to.is_some_and(|shown_to| first > shown_to) {
            return Ok(None);
        }
        return Ok(Some((key.manifest_file(), "is missing")));
    };
    let published = serde_json::from_slice::<Published>(&manifest);
    let is_older = published.is_ok_and(|published| published.sequence < facts.stamp.sequence);
    if shown_to.is_some() && is_older {
        return Ok(None);
    }
    let gate = Gate::new(key);
    let mut writer = PartitionWriter::new(key, io::sink());
    write_lines(log, &gate, &Helpers::of(1), index.items(&key), &mut writer)?;
    let Written { fingerprint, manifest: meant, .. } = writer.finish(&facts)?;
    if manifest != meant {
        return Ok(Some((key.manifest_file(), "differs from the log")));
    }
    match read_back(disk, &live.join(key.data_file())) {
        Ok(found) if found.finish() == fingerprint.finish() => Ok(None),
        Ok(_) => Ok(Some((key.data_file(), "differs from the log"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Some((key.data_file(), "is missing")))
        }
        Err(error) => Err(error.into()),
    }
}
