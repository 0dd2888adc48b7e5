//! What the items of a selection manifest say about their sources, compared with what is found.
//!
//! Contract: `text_hash` is the SHA-256 of the normalized text of an event, a chunk or a file, or of the
//! text as its record has it. `partition` names the partition that holds the record, `day` its day, or the day of the source itself where the
//! partition is no day, and `document_id` its document. An item
//! that says something else, or whose text has no hash or no day of its own, stops the request.
//!
//! See docs/adr/0090-missing-days-and-selected-items.md.

use std::collections::BTreeMap;

use chrono_tz::Tz;
use serde_json::Value;

use super::defect::Defect;
use super::selection::{Claim, Selection};
use super::source::Sources;
use super::view::Upstream;
use crate::contract::hash::{Digest, sha256};
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::ReasonCode;

/// Compares what the items say with the sources. Sessions come with their partitions. `replaced` has the
/// ids that were asked for, by those of the newer versions that stand in their places.
pub(super) fn compare<'a>(
    upstream: &Upstream,
    selection: &Selection,
    sources: &Sources,
    replaced: &BTreeMap<String, String>,
    sessions: impl Iterator<Item = (&'a String, &'a String)>,
    zone: Tz,
) -> Result<(), Defect> {
    if selection.claims.is_empty() {
        return Ok(());
    }
    fn asked_in<'a>(replaced: &'a BTreeMap<String, String>, id: &'a str) -> &'a str {
        replaced.get(id).map_or(id, String::as_str)
    }
    let mut texts: BTreeMap<&str, Digest> = BTreeMap::new();
    for (id, claim) in &selection.claims {
        texts.extend(claim.text.map(|hash| (id.as_str(), hash)));
    }
    for (id, partition) in sessions {
        let days = Vec::new();
        in_place(selection, &PlacedSource { id, partition, days, document: None })?;
    }
    let mut differ = BTreeMap::new();
    sources.each_text(upstream, false, &mut |source, text| {
        let claimed = claimed_id(asked_in(replaced, source.id), |id| texts.contains_key(id));
        if let Some(claimed) = claimed.and_then(|id| texts.remove(id))
            && sha256(text) != claimed
        {
            differ.insert(asked_in(replaced, source.id).to_owned(), claimed);
        }
    })?;
    for source in sources.iter() {
        let at = source.time_ms.map(Timestamp);
        let days = at.into_iter().flat_map(|at| [at.day_in(Tz::UTC), at.day_in(zone)]).collect();
        let (id, partition, document) =
            (asked_in(replaced, source.id), source.partition, source.document_id);
        in_place(selection, &PlacedSource { id, partition, days, document })?;
    }
    if !differ.is_empty() {
        sources.each_record(upstream, &mut |source, record| {
            let id = asked_in(replaced, source.id);
            let claimed = differ.get(id);
            if claimed.is_some_and(|claimed| has_text(record, *claimed)) {
                differ.remove(id);
            }
        })?;
    }
    if let Some((id, claimed)) = differ.into_iter().next() {
        let message = format!("the text of {id} changed after it was selected");
        return Err(mismatch(selection, message, Some(claimed)));
    }
    match texts.into_iter().next() {
        None => Ok(()),
        Some((id, claimed)) => {
            let message = format!(
                "{id} stands for several texts, so its text_hash cannot be compared; leave it out"
            );
            Err(mismatch(selection, message, Some(claimed)))
        }
    }
}

/// The id as the manifest may spell it: files go without their prefix.
fn claimed_id(id: &str, known: impl Fn(&str) -> bool) -> Option<&str> {
    let bare = id.strip_prefix("other:").unwrap_or(id);
    [id, bare].into_iter().find(|id| known(id))
}

/// Whether the record itself, as it is written, has the text.
fn has_text(record: &Value, claimed: Digest) -> bool {
    let members = ["text", "content", "content_text"];
    members.iter().filter_map(|name| record[*name].as_str()).any(|text| sha256(text) == claimed)
}

/// What is found under an id of a selection.
struct PlacedSource<'a> {
    id: &'a str,
    partition: &'a str,
    /// Its own days: as it is written, and in the zone of the home.
    days: Vec<Day>,
    document: Option<&'a str>,
}

/// Whether a record lies where its item says, and is of the day and the document it names.
fn in_place(selection: &Selection, found: &PlacedSource<'_>) -> Result<(), Defect> {
    let id = found.id;
    let claim = claimed_id(id, |id| selection.claims.contains_key(id));
    let claim: Option<&Claim> = claim.and_then(|id| selection.claims.get(id));
    let Some(claim) = claim else { return Ok(()) };
    let refuse = |message: String| Err(mismatch(selection, message, None));
    if let Some(claimed) = claim.partition.as_deref().filter(|one| *one != found.partition) {
        let place = found.partition;
        return refuse(format!("{id} lies in {place}, and the selection says {claimed}"));
    }
    if let Some(claimed) = claim.day {
        // A partition that is no day says nothing of the day of its records.
        let days = match found.partition.parse::<Day>() {
            Ok(day) => vec![day],
            Err(_) => found.days.clone(),
        };
        match days.first() {
            None => {
                return refuse(format!("{id} has no day to compare with {claimed}; leave it out"));
            }
            Some(day) if !days.contains(&claimed) => {
                return refuse(format!("{id} is of {day}, and the selection says {claimed}"));
            }
            Some(_) => {}
        }
    }
    // A summary stands for itself: its item may well name the document it was made of.
    let stands_alone = found.document == Some(id) && !id.starts_with("other:");
    let Some(claimed) = claim.document.as_deref().filter(|_| !stands_alone) else { return Ok(()) };
    match found.document {
        Some(document)
            if document == claimed || document.strip_prefix("other:") == Some(claimed) =>
        {
            Ok(())
        }
        Some(document) => refuse(format!(
            "{id} belongs to the document {document}, and the selection says {claimed}"
        )),
        None => refuse(format!("{id} belongs to no document, and the selection says {claimed}")),
    }
}

fn mismatch(selection: &Selection, message: String, claimed: Option<Digest>) -> Defect {
    let hashes = (None, claimed.map(|hash| hash.prefixed()));
    let message = format!("selection manifest {}: {message}", selection.path);
    Defect::integrity("SELECTION_ITEM_MISMATCH", &selection.path, hashes, (None, None), message)
        .with_reason(ReasonCode::SelectionHashMismatch)
}
