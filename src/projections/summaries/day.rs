//! One day of one stream as the log describes it, without its items.
//!
//! An item is an id and the event that holds it; the items live in [`super::items`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::error::SummariesError;
use super::spill_cache::SpillCache;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::Stream;
use crate::export::summary_bus::{Counts, PartitionFacts, PartitionKey, Stamp};
use crate::facts::attempt::{SelectionInput, UpstreamInput};

#[derive(Clone)]
pub(super) enum Ending {
    Skipped(String),
    Failed(String),
}

/// One day of one stream, without its items.
#[derive(Clone)]
pub(super) struct DayOfStream {
    pub produced: u64,
    pub skipped: BTreeMap<String, u64>,
    pub failed: BTreeMap<String, u64>,
    pub forgotten: BTreeSet<String>,
    pub inputs: BTreeSet<UpstreamInput>,
    pub selections: BTreeSet<SelectionInput>,
    pub stamp: Stamp,
    /// Whether it differs from what is on the cache.
    pub loose: bool,
}

/// The form in which the cache stores a day.
#[derive(Serialize, Deserialize)]
struct DayRow {
    produced: u64,
    skipped: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    forgotten: BTreeSet<String>,
    inputs: BTreeSet<UpstreamInput>,
    selections: BTreeSet<SelectionInput>,
    run_id: String,
    at: i64,
    sequence: u64,
    log_head: String,
    version: String,
}

impl DayOfStream {
    pub(super) fn empty(stamp: Stamp) -> DayOfStream {
        DayOfStream {
            produced: 0,
            skipped: BTreeMap::new(),
            failed: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            inputs: BTreeSet::new(),
            selections: BTreeSet::new(),
            stamp,
            loose: true,
        }
    }

    pub(super) fn of_row(row: &[u8]) -> Result<DayOfStream, SummariesError> {
        let row: DayRow = SpillCache::said(row)?;
        Ok(DayOfStream {
            produced: row.produced,
            skipped: row.skipped,
            failed: row.failed,
            forgotten: row.forgotten,
            inputs: row.inputs,
            selections: row.selections,
            stamp: Stamp {
                run_id: row.run_id,
                at: Timestamp(row.at),
                sequence: row.sequence,
                log_head: row.log_head,
                summarizer_version: row.version,
            },
            loose: false,
        })
    }

    pub(super) fn row(&self, stamp: Stamp) -> Result<Vec<u8>, SummariesError> {
        Ok(serde_json::to_vec(&DayRow {
            produced: self.produced,
            skipped: self.skipped.clone(),
            failed: self.failed.clone(),
            forgotten: self.forgotten.clone(),
            inputs: self.inputs.clone(),
            selections: self.selections.clone(),
            run_id: stamp.run_id,
            at: stamp.at.0,
            sequence: stamp.sequence,
            log_head: stamp.log_head,
            version: stamp.summarizer_version,
        })?)
    }

    /// Everything but its lines.
    pub(super) fn facts(&self, stamp: Stamp) -> PartitionFacts {
        let (skipped, failed) = (self.skipped.values().sum(), self.failed.values().sum());
        let produced = self.produced;
        PartitionFacts {
            counts: Counts { eligible: produced + skipped + failed, produced, skipped, failed },
            skip_reasons: self.skipped.clone(),
            fail_reasons: self.failed.clone(),
            forgotten: self.forgotten.iter().cloned().collect(),
            inputs: self.inputs.iter().cloned().collect(),
            selections: self.selections.iter().cloned().collect(),
            stamp,
        }
    }

    pub(super) fn reasons(&mut self, ending: Ending) -> (&mut BTreeMap<String, u64>, String) {
        match ending {
            Ending::Skipped(reason) => (&mut self.skipped, reason),
            Ending::Failed(reason) => (&mut self.failed, reason),
        }
    }
}

/// Rows of days.
pub(super) const DAYS: &str = "day/";

pub(super) fn day_row(key: &PartitionKey) -> String {
    format!("{DAYS}{}/{}", key.stream, key.day)
}

pub(super) fn key_of(name: &str) -> Option<PartitionKey> {
    let (stream, day) = name.split_once('/')?;
    Some(PartitionKey { stream: Stream::parse(stream)?, day: day.parse().ok()? })
}

/// An input as a manifest lists it: without its length, so that one file is listed once.
pub(super) fn listed(input: &UpstreamInput) -> UpstreamInput {
    UpstreamInput { data_bytes: None, ..input.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::spill_cache::REDUCER;
    use super::*;

    /// A row that lacks a member cannot be read, and then nothing is published.
    #[test]
    fn other_members_of_a_row_of_a_day_need_another_version_of_the_fold() {
        let stamp = || Stamp {
            run_id: "run_1".to_owned(),
            at: Timestamp(5),
            sequence: 1,
            log_head: "00".to_owned(),
            summarizer_version: "0.1.0".to_owned(),
        };
        let row = DayOfStream::empty(stamp()).row(stamp()).unwrap();
        let row: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&row).unwrap();
        let names: Vec<&str> = row.keys().map(String::as_str).collect();
        let known = [
            "at",
            "failed",
            "forgotten",
            "inputs",
            "log_head",
            "produced",
            "run_id",
            "selections",
            "sequence",
            "skipped",
            "version",
        ];
        assert_eq!((REDUCER, names), (4, known.to_vec()), "raise REDUCER with the members");
    }
}
