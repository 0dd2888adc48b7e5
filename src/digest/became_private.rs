//! Retired bags that must not stay readable, because a source of them became private.
//!
//! See docs/adr/0110-the-newest-version-of-a-source.md.

use std::collections::HashSet;

use serde_json::Value;

use super::library::{Library, Publish, Unit};
use super::publish::{DigestError, Digests};
use crate::contract::digest_bus::TRACE_FILE;

/// The retired bags that hold a summary of a source that became private since the summary was made. The
/// files of all retired bags are read only when a source became private after the last build that considered
/// everything; else those of the bags that `just_retired` names.
pub(super) fn retired_bags(
    digests: &Digests,
    library: &Library,
    just_retired: &HashSet<String>,
) -> Result<Vec<String>, DigestError> {
    let considered = digests.catalog().considered();
    let became_private =
        |unit: &&Unit| unit.publish != Publish::No && library.publish(unit) == Publish::No;
    let private: Vec<&Unit> = library.units().iter().filter(became_private).collect();
    let is_news = private.iter().any(|unit| library.moved_after(unit, considered));
    let private: HashSet<String> = private.into_iter().map(Unit::summary_id).collect();
    if private.is_empty() {
        return Ok(Vec::new());
    }
    let mut bags = Vec::new();
    let retired = digests.catalog().entries().values().filter(|entry| entry.retired.is_some());
    for entry in retired.filter(|one| is_news || just_retired.contains(&one.facts.bag_id)) {
        let files = digests.files_in_log(entry.seq, &entry.facts)?;
        let trace = files.get(TRACE_FILE).map_or("null", String::as_str);
        let trace: Value = serde_json::from_str(trace)?;
        let ids = trace["upstream"]["summary_ids"].as_array();
        let mut ids = ids.into_iter().flatten().filter_map(Value::as_str);
        if ids.any(|id| private.contains(id)) {
            bags.push(entry.facts.bag_id.clone());
        }
    }
    Ok(bags)
}
