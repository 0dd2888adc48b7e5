//! Checkpoints of the state: what goes into the tables, the digest over it, and the way back.
//!
//! The digest is incremental: the one before, then what this checkpoint writes, in key order. It is
//! recorded in `CheckpointTaken`, so replay can recompute it at the same place and compare.

use std::ops::ControlFlow;

use super::codec::{self, CodecError, STATE_FINGERPRINT};
use super::{Checkpoint, LogError, Reader};
use crate::contract::hash::{Digest, Hasher};
use crate::contract::ids::KeyIndex;
use crate::contract::time::Timestamp;
use crate::state::State;
use crate::state::flows::Flows;

const FINGERPRINT: &str = "fingerprint";
const LEDGER: &str = "ledger";
const FLOWS: &str = "flows";
const FAILING_PROVIDERS: &str = "failing_providers";
const BATCHES: &str = "batches";
const FINISHED_BATCHES: &str = "finished_batches";
const DIALECTS: &str = "dialects";
const STATE_DIGEST: &str = "state_digest";

/// The tables do not read.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(transparent)]
    Log(#[from] LogError),
    /// A row or document that is not what it should be.
    #[error("read the tables of the last checkpoint")]
    Codec(#[from] CodecError),
}

/// Documents that say which tables these are and what was written to them so far.
pub fn identity(state: &Digest) -> [(String, Option<Vec<u8>>); 2] {
    [
        (FINGERPRINT.into(), Some(STATE_FINGERPRINT.to_vec())),
        (STATE_DIGEST.into(), Some(state.0.to_vec())),
    ]
}

/// The digest the tables were written with last.
pub(crate) fn stored_digest(log: &Reader) -> Result<Option<Digest>, LogError> {
    let stored = log.document(STATE_DIGEST)?;
    Ok(stored.and_then(|bytes| bytes.try_into().ok()).map(Digest))
}

/// What changed in the state as table contents; `applied` is for the caller to fill in.
pub fn tables(state: &State) -> Checkpoint {
    let changed = state.changed();
    let rows = changed.rows.iter().map(|(seq, row)| (*seq, codec::encode_row(row))).collect();
    let open = changed
        .open
        .iter()
        .map(|seq| (*seq, state.open_request(*seq).map(codec::encode_open)))
        .collect();
    let keys = KeyIndex::ALL.into_iter().map(|index| (index, changed.sorted(index))).collect();
    let ledger = codec::encode_ledger(&state.ledger());
    let mut documents = vec![(LEDGER.into(), Some(ledger))];
    // A document without content is left out, so it does not change the state digest.
    if !state.flows().is_empty() {
        documents.push((FLOWS.into(), Some(codec::encode_flows(state.flows()))));
    }
    if let Some(failing) = state.failing_providers() {
        documents.push((FAILING_PROVIDERS.into(), Some(codec::encode_failing(failing))));
    }
    if let Some(batches) = state.batches() {
        documents.push((BATCHES.into(), Some(codec::encode_batches(batches))));
    }
    if let Some(finished) = state.finished_batches() {
        let bytes = codec::encode_finished_batches(finished);
        documents.push((FINISHED_BATCHES.into(), Some(bytes)));
    }
    if let Some(dialects) = state.dialects() {
        documents.push((DIALECTS.into(), Some(codec::encode_dialects(dialects))));
    }
    Checkpoint { rows, open, keys, documents, applied: state.applied }
}

/// The digest of everything checkpoints wrote: the one before, then what this one writes, in key
/// order.
pub(crate) fn chain_digest(previous: &Digest, checkpoint: &Checkpoint) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(previous.0);
    for (seq, row) in &checkpoint.rows {
        hasher.update(seq.0.to_le_bytes()).update(row);
    }
    for (seq, open) in &checkpoint.open {
        hasher.update(seq.0.to_le_bytes()).update(open.as_deref().unwrap_or_default());
    }
    for (index, keys) in &checkpoint.keys {
        hasher.update([*index as u8]);
        for (digest, value) in keys {
            hasher.update(digest).update(value.to_le_bytes());
        }
    }
    for (name, content) in &checkpoint.documents {
        hasher.update(name).update(content.as_deref().unwrap_or_default());
    }
    hasher.finish()
}

/// The state the tables stand for, and the digest of everything checkpoints wrote. A store without
/// a checkpoint, or with tables of another fingerprint, gives the empty state: the caller replays
/// the whole log on top of it.
pub fn restore(log: &Reader, now: Timestamp) -> Result<(State, Digest), RestoreError> {
    let known = log.document(FINGERPRINT)?.is_some_and(|found| found == STATE_FINGERPRINT);
    if !known {
        return Ok((State::default(), Digest::ZERO));
    }
    let ledger = match log.document(LEDGER)? {
        Some(bytes) => codec::decode_ledger(&bytes)?,
        None => return Ok((State::default(), Digest::ZERO)),
    };
    let flows = match log.document(FLOWS)? {
        Some(bytes) => codec::decode_flows(&bytes)?,
        None => Flows::default(),
    };
    let failing = log.document(FAILING_PROVIDERS)?;
    let failing = failing.map(|bytes| codec::decode_failing(&bytes)).transpose()?;
    let batches = log.document(BATCHES)?;
    let batches = batches.map(|bytes| codec::decode_batches(&bytes)).transpose()?;
    let finished = log.document(FINISHED_BATCHES)?;
    let finished = finished.map(|bytes| codec::decode_finished_batches(&bytes)).transpose()?;
    let dialects = log.document(DIALECTS)?;
    let dialects = dialects.map(|bytes| codec::decode_dialects(&bytes)).transpose()?;
    let mut digest = Digest::ZERO;
    if let Some(bytes) = log.document(STATE_DIGEST)?
        && let Ok(bytes) = bytes.try_into()
    {
        digest = Digest(bytes);
    }
    let mut open = Vec::new();
    let mut failure = None;
    log.open_rows(&mut |seq, bytes| match codec::decode_open(bytes) {
        Ok(request) => {
            open.push((seq, request));
            ControlFlow::Continue(())
        }
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    })?;
    match failure {
        Some(error) => Err(error.into()),
        None => {
            let mut state = State::restore(log.applied(), ledger, flows, open, now);
            state.restore_failing_providers(failing);
            state.restore_batches(batches, finished);
            state.restore_dialects(dialects);
            Ok((state, digest))
        }
    }
}
