//! Removes the folders of bags that are no longer wanted: retired ones, staged files of failed builds, and
//! bags that the log does not know.
//!
//! Contract. The log says first which bags are removed, then their folders go. Readers of a retired bag
//! have until the next `gc`, unless a source of the bag became private.
//!
//! See docs/adr/0045-retired-bags.md and docs/adr/0110-the-newest-version-of-a-source.md.

use std::collections::HashSet;

use serde_json::Value;

use super::build::{BuildError, Journal, to_json};
use super::library::{Library, Publish, Unit};
use super::publish::{DigestError, Digests};
use crate::facts::digest::{BagsCollected, DigestFact};
use crate::state::event::{Event, Note};

/// What a bag was made of, in its folder.
const TRACE: &str = "meta/trace.json";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collection {
    pub run_id: String,
    /// Reports what would be removed and removes nothing.
    pub dry_run: bool,
    /// Also removes bag folders that no event of the log names.
    pub orphans: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct CollectionReport {
    pub dry_run: bool,
    pub removed: Vec<String>,
    /// Staging folders, by run id.
    pub staged: Vec<String>,
    /// Bag folders that no event of the log names. Empty unless orphans were asked for.
    pub orphans: Vec<String>,
}

/// Removes retired bags, leftover staging folders and, on request, bag folders that the log does
/// not know, such as those of a log that was lost.
pub fn collect(
    digests: &mut Digests,
    journal: &mut dyn Journal,
    wanted: &Collection,
) -> Result<CollectionReport, BuildError> {
    digests.publish(None, None)?;
    let retired = digests.catalog().entries().values().filter(|entry| entry.retired.is_some());
    let collected = CollectionReport {
        dry_run: wanted.dry_run,
        removed: retired.map(|entry| entry.facts.bag_id.clone()).collect(),
        staged: digests.staged()?,
        orphans: if wanted.orphans { digests.orphans()? } else { Vec::new() },
    };
    if wanted.dry_run {
        return Ok(collected);
    }
    // An index of another log may still name these folders, so a reader must not find them gone.
    if digests.catalog().change().is_none() && !collected.orphans.is_empty() {
        return Err(BuildError::IndexIsForeign);
    }
    remove(digests, journal, &wanted.run_id, &collected.removed)?;
    digests.remove_folders(&collected.orphans)?;
    digests.sweep_staging(true)?;
    Ok(collected)
}

/// Removes retired bags that hold a summary of a source that became private since. Readers of other
/// retired bags have until the next `gc`. Returns how many were removed.
pub(crate) fn collect_private(
    digests: &mut Digests,
    library: &Library,
    journal: &mut dyn Journal,
    run_id: &str,
) -> Result<u64, BuildError> {
    let became_private =
        |unit: &&Unit| unit.publish != Publish::No && library.publish(unit) == Publish::No;
    let private: HashSet<String> =
        library.units().iter().filter(became_private).map(Unit::summary_id).collect();
    if private.is_empty() {
        return Ok(0);
    }
    let mut removed = Vec::new();
    for entry in digests.catalog().entries().values().filter(|entry| entry.retired.is_some()) {
        let files = digests.files_in_log(entry.seq, &entry.facts)?;
        let trace: Value = serde_json::from_str(files.get(TRACE).map_or("null", String::as_str))
            .map_err(DigestError::Record)?;
        let ids = trace["upstream"]["summary_ids"].as_array();
        let mut ids = ids.into_iter().flatten().filter_map(Value::as_str);
        if ids.any(|id| private.contains(id)) {
            removed.push(entry.facts.bag_id.clone());
        }
    }
    remove(digests, journal, run_id, &removed)?;
    Ok(removed.len() as u64)
}

/// Records that retired bags are removed, and removes them.
fn remove(
    digests: &mut Digests,
    journal: &mut dyn Journal,
    run_id: &str,
    bags: &[String],
) -> Result<(), BuildError> {
    if bags.is_empty() {
        return Ok(());
    }
    let collected = BagsCollected { run_id: run_id.to_owned(), bags: bags.len() as u64 };
    let fact = DigestFact::Collected(collected);
    journal.note(vec![Note::with_body(Event::Digest(fact), to_json(&bags)?)])?;
    digests.publish(None, None)?;
    Ok(())
}
