//! Everything about one request or one summary.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Timestamp;
use crate::control::question::Answer;
use crate::explain::event_json::{event_json, taken_json};
use crate::explain::{Around, ExplainError, Wanted, explain, forgotten_on};
use crate::export::{Committed, ack};
use crate::log::Reader;
use crate::sequencer::engine::EngineError;
use crate::sequencer::view::View;
use crate::state::event::Event;
use crate::state::{Past as _, Row, State};
use crate::telemetry::trace_id;

use super::reply::{AnswerError, QuestionContext, Reply, later, not_found};
use super::requests::open_word;

/// Events of one request that are listed.
const HISTORY_EVENTS_MAX: usize = 1000;
/// Events of the log that are looked through for them.
const HISTORY_SCAN_MAX: u64 = 5_000_000;
/// Acceptances of one request id that are shown.
const ACCEPTANCES_MAX: usize = 100;

/// Everything about one id: a request with all its acceptances, or the request behind a summary.
pub(super) fn show(view: &View<'_>, now: Timestamp, id: &str) -> Result<Reply, EngineError> {
    let state = view.state();
    let past = view.past();
    let mut chain = Vec::new();
    let mut cursor = state.newest_of_id(past, id)?;
    if cursor.is_none() {
        let item = crate::state::apply::item_digest(id).head();
        if let Some(seq) = state.find(past, KeyIndex::SummaryId, &item)? {
            cursor = state.row(past, seq)?.map(|row| (seq, row));
        }
    }
    while let Some((seq, row)) = cursor {
        chain.push((seq, describe(state, seq, &row, now)));
        cursor = match row.previous {
            Seq(0) => None,
            _ if chain.len() >= ACCEPTANCES_MAX => None,
            previous => state.row(past, previous)?.map(|row| (previous, row)),
        };
    }
    if chain.is_empty() {
        return Ok(not_found(format!("no request or summary {id}")));
    }
    let latest = chain[0].0;
    if past.taken(latest).is_err() {
        return Ok(not_found(format!("no request or summary {id}")));
    }
    let log = view.log().clone();
    Ok(later(move || {
        let mut acceptances = Vec::new();
        for (seq, (word, row)) in chain {
            acceptances.push(history(&log, seq, word, &row)?);
        }
        let latest = acceptances.first().cloned().unwrap_or(Value::Null);
        let earlier: Vec<Value> = acceptances.into_iter().skip(1).collect();
        Ok(Answer::Ok(json!({"latest": latest, "earlier": earlier})))
    }))
}

/// Where a summary comes from. It is found by its own id or by the id of a request that made it or
/// shares it.
pub(super) fn explained(
    view: &View<'_>,
    around: &QuestionContext<'_>,
    id: &str,
    wanted: Wanted,
) -> Result<Reply, EngineError> {
    let (state, past) = (view.state(), view.past());
    let item = crate::state::apply::item_digest(id).head();
    let mut found = match state.find(past, KeyIndex::SummaryId, &item)? {
        Some(seq) => state.row(past, seq)?.map(|row| (seq, row)),
        None => state.newest_of_id(past, id)?,
    };
    if let Some((_, row)) = found
        && row.output_of != Seq(0)
    {
        found = state.row(past, row.output_of)?.map(|of| (row.output_of, of));
    }
    let Some((request, row)) = found else {
        return Ok(not_found(format!("no summary {id}")));
    };
    let around = Around {
        log: view.log().clone(),
        machine: around.machine.clone(),
        home: around.home.clone(),
        config: around.config.clone(),
        index: Arc::clone(around.index),
    };
    Ok(later(move || match explain(&around, request, row.last, wanted) {
        Ok(explanation) => Ok(Answer::Ok(serde_json::to_value(explanation)?)),
        Err(error @ (ExplainError::NoSummary(..) | ExplainError::Forgotten(..))) => {
            Ok(Answer::NotFound(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }))
}

fn describe(state: &State, seq: Seq, row: &Row, now: Timestamp) -> (&'static str, Row) {
    let word =
        state.open_request(seq).map_or(row.status.as_str(), |open| open_word(state, open, now));
    (word, *row)
}

/// One acceptance of a request: its line, its events and its acks.
fn history(log: &Reader, seq: Seq, word: &str, row: &Row) -> Result<Value, AnswerError> {
    let mut events = Vec::new();
    let mut acks = Vec::new();
    let (mut request, mut trace, mut forgotten) = (Value::Null, None, None);
    let last = Seq(row.last.0.min(seq.0 + HISTORY_SCAN_MAX));
    log.try_scan::<AnswerError>(seq, Some(last), |entry| {
        let event = entry.event()?;
        if entry.seq != seq && event.request() != Some(seq) {
            return Ok(ControlFlow::Continue(()));
        }
        if entry.seq == seq
            && let Some(taken) = event.taken()
        {
            request = taken_json(taken);
            trace = Some(trace_id(seq, taken));
        }
        if matches!(event, Event::SummaryProduced { .. }) && log.kept_body(entry.seq)?.is_none() {
            forgotten = Some(forgotten_on(log, entry.seq)?);
        }
        let committed = Committed { seq: entry.seq, at: entry.at, hash: entry.hash(), event };
        if let Some(line) = ack::line(&committed) {
            acks.push(serde_json::from_str::<Value>(&line)?);
        }
        events.push(event_json(&committed));
        let enough = events.len() >= HISTORY_EVENTS_MAX;
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(json!({
        "seq": seq.0, "state": word, "reason_code": row.reason, "cause": row.cause, "attempts": row.attempts,
        "taken_at": row.taken_at.to_string(), "trace_id": trace,
        "forgotten_on": forgotten, "request": request, "acks": acks, "events": events,
    }))
}
