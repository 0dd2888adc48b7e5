//! The log itself: sizes, verification, events and records.

use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::contract::hash::{Digest, push_hex};
use crate::contract::ids::Seq;
use crate::control::question::Answer;
use crate::explain::event_json::event_json;
use crate::export::Committed;
use crate::log::{LogError, ReadError, Reader};
use crate::state::event::Event;
use crate::upkeep::copy::Page;

use super::reply::AnswerError;

pub(super) fn stats(log: &Reader) -> Result<Answer, LogError> {
    let stats = log.stats()?;
    let tables: Vec<Value> = stats
        .tables
        .iter()
        .map(|table| {
            json!({"name": table.name, "entries": table.entries, "stored_bytes": table.stored_bytes})
        })
        .collect();
    Ok(Answer::Ok(json!({
        "head": stats.head.0, "checkpoint": stats.applied.0, "file_bytes": stats.file_bytes,
        "frames": stats.frames, "raw_bytes": stats.raw_bytes, "frame_bytes": stats.frame_bytes,
        "index_segments": stats.index_segments, "index_memory_bytes": stats.index_memory_bytes, "tables": tables,
    })))
}

pub(super) fn verify(log: &Reader, anchors: &[(u64, String)]) -> Result<Answer, AnswerError> {
    let mut damage = None;
    let report = match log.verify(Seq(1), None, &mut |_| {}) {
        Ok(report) => Some(report),
        Err(error @ (LogError::Damaged { .. } | LogError::Corrupt(_))) => {
            damage = Some(error.to_string());
            None
        }
        Err(error) => return Err(error.into()),
    };
    for (seq, hash) in anchors {
        let checked = match hash.parse::<Digest>() {
            Ok(hash) => log.verify_anchor(Seq(*seq), hash).map_err(|error| error.to_string()),
            Err(error) => Err(format!("anchor {seq}: {error}")),
        };
        if let Err(error) = checked
            && damage.is_none()
        {
            damage = Some(error);
        }
    }
    let last = report.as_ref().map_or((Seq(0), Digest::ZERO), |report| report.last);
    Ok(Answer::Ok(json!({
        "ok": damage.is_none(), "damage": damage,
        "records": report.as_ref().map(|report| report.records),
        "bodies": report.as_ref().map(|report| report.bodies),
        "head": last.0.0, "hash": last.1.hex(), "anchors": anchors.len(),
    })))
}

pub(super) fn event_page(log: &Reader, from: Seq, limit: usize) -> Result<Answer, AnswerError> {
    let mut events = Vec::new();
    let mut receipts = Vec::new();
    let mut next = None;
    log.try_scan::<AnswerError>(from, None, |entry| {
        if events.len() == limit {
            next = Some(entry.seq.0);
            return Ok(ControlFlow::Break(()));
        }
        let mut committed = Committed::of(&entry, log)?;
        committed.event = log.with_line(entry.seq, committed.event)?;
        if matches!(committed.event, Event::ReceiptKept { .. }) {
            receipts.push((events.len(), committed.seq));
        }
        events.push(event_json(&committed));
        Ok(ControlFlow::Continue(()))
    })?;
    // A receipt is short and all that its event says, so it is shown with it.
    for (at, seq) in receipts {
        if let Some(body) = log.body(seq)? {
            let receipt: Value = serde_json::from_slice(&body)
                .map_err(|error| ReadError::unexpected(seq, format!("its receipt: {error}")))?;
            events[at]["receipt"] = receipt;
        }
    }
    Ok(Answer::Ok(json!({"events": events, "next": next})))
}

pub(super) fn record_page(log: &Reader, from: Seq, until: Option<Seq>) -> Answer {
    let head = log.head();
    let until = until.unwrap_or(head.0).min(head.0);
    let page = Page::read(log, from, until).to_wire();
    let mut store_id = String::new();
    push_hex(&mut store_id, &log.store_id());
    // They are large where much was forgotten, and a copy needs them once.
    let keys = (from <= Seq(1)).then(|| STANDARD.encode(log.keys()));
    Answer::Ok(json!({
        "store_id": store_id, "keys": keys, "head": head.0.0, "hash": head.1.hex(), "page": page,
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::contract::time::Timestamp;
    use crate::log::{Commit, NewRecord, Options, Store};
    use crate::os::sim::SimDisk;

    #[test]
    fn only_the_first_page_of_a_copy_has_the_keys() {
        let path = Path::new("/log.redb");
        let options = Options::beside(path);
        let disk = Arc::new(SimDisk::new());
        let mut store = Store::open(disk, path, options, [7; 16], &mut |_| {}).unwrap();
        let record =
            NewRecord { at: Timestamp(5), tag: 1, version: 1, payload: vec![1], body: None };
        let records = [record.clone(), record];
        let commit = Commit { first: Seq(1), records: &records, mark: b"", checkpoint: None };
        store.append(commit).unwrap();
        let keys = |from| match record_page(&store.reader(), Seq(from), None) {
            Answer::Ok(page) => page["keys"].is_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!((keys(1), keys(2)), (true, false));
    }
}
