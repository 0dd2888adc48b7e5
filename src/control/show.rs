//! Everything about one request or one summary.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Day;
use crate::control::question::Answer;
use crate::explain::event_json::{event_json, taken_json};
use crate::explain::{Around, ExplainError, Wanted, explain, forgotten_on};
use crate::export::{Committed, ack};
use crate::facts::note::InputNote;
use crate::log::Reader;
use crate::sequencer::engine::EngineError;
use crate::sequencer::mark::QueueMark;
use crate::sequencer::view::View;
use crate::state::event::Event;
use crate::state::{Past as _, Row};
use crate::telemetry::trace_id;

use super::quarantine;
use super::reply::{AnswerError, QuestionContext, Reply, later, not_found};
use super::requests::open_word;
use super::source_names::SourceNames;
use super::waits::waits_of;

/// Events of one request that are listed.
const HISTORY_EVENTS_MAX: usize = 1000;
/// Events of the log that are looked through for them.
const HISTORY_SCAN_MAX: u64 = 5_000_000;
/// Acceptances of one request id that are shown.
const ACCEPTANCES_MAX: usize = 100;

/// Everything about one id: a request with all its acceptances, or the request behind a summary.
pub(super) fn show(
    view: &View<'_>,
    around: &QuestionContext<'_>,
    id: &str,
) -> Result<Reply, EngineError> {
    let (now, state, past) = (around.now, view.state(), view.past());
    let mut chain = Vec::new();
    let mut cursor = state.newest_of_id(past, id)?;
    if cursor.is_none() {
        let item = crate::state::apply::item_digest(id).head();
        if let Some(seq) = state.find(past, KeyIndex::SummaryId, &item)? {
            cursor = state.row(past, seq)?.map(|row| (seq, row));
        }
    }
    while let Some((seq, row)) = cursor {
        let open = state.open_request(seq);
        let word = open.map_or(row.status.as_str(), |open| open_word(state, open, now));
        let waits = match open {
            Some(open) => waits_of(state, past, (seq, open), &around.waiting_calls, now)?,
            None => None,
        };
        let made = match row.output_of {
            Seq(0) => row.last,
            of => state.row(past, of)?.map_or(row.last, |of| of.last),
        };
        chain.push((seq, word, row, waits, made));
        cursor = match row.previous {
            Seq(0) => None,
            _ if chain.len() >= ACCEPTANCES_MAX => None,
            previous => state.row(past, previous)?.map(|row| (previous, row)),
        };
    }
    if chain.is_empty() {
        let nothing = format!("no request or summary {id}{}", unread(view, around)?);
        let (log, id) = (view.log().clone(), id.to_owned());
        return Ok(later(move || {
            Ok(Answer::NotFound(quarantine::told(&log, &id)?.unwrap_or(nothing)))
        }));
    }
    let latest = chain[0].0;
    if past.taken(latest).is_err() {
        return Ok(not_found(format!("no request or summary {id}")));
    }
    let (log, names) = (view.log().clone(), SourceNames::of(around));
    Ok(later(move || {
        let mut acceptances = Vec::new();
        for (seq, word, row, waits, made) in chain {
            let mut history = history((&log, &names), seq, word, &row)?;
            let made = log.event(made)?;
            history["missing_days"] = missing_days(made.as_ref());
            history["ignored_params"] = ignored_params(made.as_ref()).into();
            history["waits"] = waits.map(|waits| waits.told(&log)).transpose()?.into();
            acceptances.push(history);
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
        processes: around.processes.clone(),
    };
    Ok(later(move || match explain(&around, request, row.last, wanted) {
        Ok(explanation) => Ok(Answer::Ok(serde_json::to_value(explanation)?)),
        Err(error @ (ExplainError::NoSummary(..) | ExplainError::Forgotten(..))) => {
            Ok(Answer::NotFound(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }))
}

/// What else may explain that nothing has an id: its line may be one that nobody has read.
fn unread(view: &View<'_>, around: &QuestionContext<'_>) -> Result<String, EngineError> {
    let read = QueueMark::of_host(&around.config.queue_host(), &view.log().mark())?.position.offset;
    let left = around.queue_bytes.saturating_sub(read);
    if left == 0 {
        return Ok(String::new());
    }
    let causes: Vec<&str> = view.state().paused().iter().map(|cause| cause.as_str()).collect();
    let why = match (causes.is_empty(), view.state().session().is_some()) {
        (false, _) => format!(" (paused: {})", causes.join(", ")),
        (true, true) => String::new(),
        (true, false) => " (no process works on it)".to_owned(),
    };
    Ok(format!("; {left} bytes of the queue are not read yet{why}"))
}

/// The days of the range that were not published when an output was made.
fn missing_days(made: Option<&Event>) -> Value {
    let notes = match made {
        Some(Event::SummaryProduced { input, .. } | Event::RequestSkipped { input, .. }) => {
            &input.notes[..]
        }
        _ => &[],
    };
    let missing = notes.iter().find_map(|note| match note {
        InputNote::DaysMissing(missing) => Some(missing),
        _ => None,
    });
    missing.map_or(Value::Null, |missing| {
        let days: Vec<String> = missing.listed.iter().map(Day::to_string).collect();
        json!({
            "bus": missing.bus, "days": days, "count": days.len() as u64 + missing.more,
            "message": missing.to_string(),
        })
    })
}

/// Which parameters an output did not use, in words.
fn ignored_params(made: Option<&Event>) -> Option<&str> {
    match made {
        Some(Event::SummaryProduced { provenance: Some(provenance), .. }) => {
            provenance.ignored_params()
        }
        _ => None,
    }
}

/// One acceptance of a request: its line, its events and its acks.
fn history(
    (log, names): (&Reader, &SourceNames),
    seq: Seq,
    word: &str,
    row: &Row,
) -> Result<Value, AnswerError> {
    let mut events = Vec::new();
    let mut acks = Vec::new();
    let (mut request, mut source, mut trace, mut forgotten) = (Value::Null, None, None, None);
    let last = Seq(row.last.0.min(seq.0 + HISTORY_SCAN_MAX));
    log.try_scan::<AnswerError>(seq, Some(last), |entry| {
        let event = entry.event()?;
        if entry.seq != seq && event.request() != Some(seq) {
            return Ok(ControlFlow::Continue(()));
        }
        let event = log.with_line(entry.seq, event)?;
        if entry.seq == seq
            && let Some(taken) = event.taken()
        {
            request = taken_json(taken);
            source = names.name(&taken.line);
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
        "seq": seq.0, "state": word, "source": source, "reason_code": row.reason, "cause": row.cause, "attempts": row.attempts,
        "taken_at": row.taken_at.to_string(), "trace_id": trace,
        "forgotten_on": forgotten, "request": request, "acks": acks, "events": events,
    }))
}
