//! Removes the folders of bags that are no longer wanted: retired ones, staged files of failed builds, and
//! bags that the log does not know.
//!
//! Contract. Staged files go before anything is written, so that a full disk does not stop it. The log says
//! first which bags are removed, then their folders go. Readers of a retired bag have until the next `gc`,
//! unless a source of the bag [became private](super::became_private).
//!
//! See docs/adr/0045-retired-bags.md.

use super::build::{BuildError, Journal, remove_bags};
use super::publish::Digests;

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
    let staged = digests.staged()?;
    if !wanted.dry_run {
        digests.sweep_staging(true)?;
    }
    digests.publish(None, None)?;
    let retired = digests.catalog().entries().values().filter(|entry| entry.retired.is_some());
    let collected = CollectionReport {
        dry_run: wanted.dry_run,
        removed: retired.map(|entry| entry.facts.bag_id.clone()).collect(),
        staged,
        orphans: if wanted.orphans { digests.orphans()? } else { Vec::new() },
    };
    if wanted.dry_run {
        return Ok(collected);
    }
    // An index of another log may still name these folders, so a reader must not find them gone.
    if digests.catalog().change().is_none() && !collected.orphans.is_empty() {
        return Err(BuildError::IndexIsForeign);
    }
    remove_bags(digests, journal, &wanted.run_id, &collected.removed)?;
    digests.remove_folders(&collected.orphans)?;
    Ok(collected)
}
