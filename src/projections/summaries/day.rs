//! One day of one stream as the log describes it, without its items.
//!
//! An item is an id and the event that holds it; the items live in [`super::items`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::error::SummariesError;
use crate::contract::hash::Digest;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::Stream;
use crate::export::outcome_facts::{InputFact, SelectionFact};
use crate::export::summary_bus::{
    Counts, PartitionFacts, PartitionInput, PartitionKey, SelectionInput, Stamp,
};

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
    pub inputs: BTreeSet<PartitionInput>,
    pub selections: BTreeSet<SelectionInput>,
    pub stamp: Stamp,
    /// Whether it differs from what is on the cache.
    pub loose: bool,
}

/// A day as it lies on the cache.
#[derive(Serialize, Deserialize)]
struct DayRow {
    produced: u64,
    skipped: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    inputs: Vec<InputFact>,
    selections: Vec<SelectionFact>,
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
            inputs: BTreeSet::new(),
            selections: BTreeSet::new(),
            stamp,
            loose: true,
        }
    }

    pub(super) fn of_row(row: &[u8]) -> Result<DayOfStream, SummariesError> {
        let row: DayRow = serde_json::from_slice(row)?;
        Ok(DayOfStream {
            produced: row.produced,
            skipped: row.skipped,
            failed: row.failed,
            inputs: inputs_of(row.inputs).into_iter().collect(),
            selections: row.selections.into_iter().filter_map(selection_of).collect(),
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
        let hex = |hash: Option<Digest>| hash.map(|hash| hash.hex());
        let inputs = self.inputs.iter().map(|input| InputFact {
            path: input.path.clone(),
            bus: input.bus,
            partition: input.partition.clone(),
            data_sha256: hex(input.data_sha256),
            manifest_path: input.manifest_path.clone(),
            manifest_sha256: hex(input.manifest_sha256),
            schema_version: input.schema_version.clone(),
        });
        let selections = self.selections.iter().map(|selection| SelectionFact {
            path: selection.path.clone(),
            sha256: selection.sha256.hex(),
            selection_hash: selection.selection_hash.clone(),
        });
        Ok(serde_json::to_vec(&DayRow {
            produced: self.produced,
            skipped: self.skipped.clone(),
            failed: self.failed.clone(),
            inputs: inputs.collect(),
            selections: selections.collect(),
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

pub(super) fn selection_of(selection: SelectionFact) -> Option<SelectionInput> {
    let SelectionFact { path, sha256, selection_hash } = selection;
    Some(SelectionInput { path, sha256: sha256.parse().ok()?, selection_hash })
}

pub(super) fn inputs_of(facts: Vec<InputFact>) -> Vec<PartitionInput> {
    let hash = |text: Option<String>| text.and_then(|text| text.parse::<Digest>().ok());
    facts
        .into_iter()
        .map(|input| PartitionInput {
            path: input.path,
            bus: input.bus,
            partition: input.partition,
            data_sha256: hash(input.data_sha256),
            manifest_path: input.manifest_path,
            manifest_sha256: hash(input.manifest_sha256),
            schema_version: input.schema_version,
        })
        .collect()
}
