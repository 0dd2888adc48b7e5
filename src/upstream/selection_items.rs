//! What the items of a selection manifest say about their sources, compared with what is found.
//!
//! Contract: `text_hash` is the SHA-256 of the normalized text of an event, a chunk or a file, or of the
//! text as its record has it. `day` and `partition` name the partition that holds the record. An item
//! that says something else, or whose text has no hash of its own, stops the request.
//!
//! See docs/adr/0090-missing-days-and-selected-items.md.

use std::collections::BTreeMap;

use serde_json::Value;

use super::defect::Defect;
use super::selection::{Claim, Selection};
use super::source::Sources;
use super::view::Upstream;
use crate::contract::hash::{Digest, sha256};
use crate::contract::time::Day;
use crate::contract::vocabulary::ReasonCode;

/// Compares what the items say with the sources. Sessions come with their partitions.
pub(super) fn compare<'a>(
    upstream: &Upstream,
    selection: &Selection,
    sources: &Sources,
    sessions: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<(), Defect> {
    if selection.claims.is_empty() {
        return Ok(());
    }
    let mut texts: BTreeMap<&str, Digest> = BTreeMap::new();
    for (id, claim) in &selection.claims {
        texts.extend(claim.text.map(|hash| (id.as_str(), hash)));
    }
    for (id, partition) in sessions {
        in_place(selection, id, partition)?;
    }
    let mut differ = BTreeMap::new();
    sources.each_text(upstream, false, &mut |source, text| {
        let claimed = claimed_id(source.id, |id| texts.contains_key(id));
        if let Some(claimed) = claimed.and_then(|id| texts.remove(id))
            && sha256(text) != claimed
        {
            differ.insert(source.id.to_owned(), claimed);
        }
    })?;
    for source in sources.iter() {
        in_place(selection, source.id, source.partition)?;
    }
    if !differ.is_empty() {
        sources.each_record(upstream, &mut |source, record| {
            let claimed = differ.get(source.id);
            if claimed.is_some_and(|claimed| has_text(record, *claimed)) {
                differ.remove(source.id);
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

/// Whether a record lies where its item says.
fn in_place(selection: &Selection, id: &str, found: &str) -> Result<(), Defect> {
    let claim = claimed_id(id, |id| selection.claims.contains_key(id));
    let claim: Option<&Claim> = claim.and_then(|id| selection.claims.get(id));
    let Some(claimed) = claim.and_then(|claim| claim.partition.as_deref()) else { return Ok(()) };
    // A partition that is no day cannot contradict a day.
    let comparable = claimed.parse::<Day>().is_ok() == found.parse::<Day>().is_ok();
    if claimed == found || !comparable {
        return Ok(());
    }
    let message = format!("{id} lies in {found}, and the selection says {claimed}");
    Err(mismatch(selection, message, None))
}

fn mismatch(selection: &Selection, message: String, claimed: Option<Digest>) -> Defect {
    let hashes = (None, claimed.map(|hash| hash.prefixed()));
    let message = format!("selection manifest {}: {message}", selection.path);
    Defect::integrity("SELECTION_ITEM_MISMATCH", &selection.path, hashes, (None, None), message)
        .with_reason(ReasonCode::SelectionHashMismatch)
}
