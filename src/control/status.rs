//! The status of the service.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde_json::{Map, Value, json};

use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::log::codec;
use crate::sequencer::engine::EngineError;
use crate::sequencer::mark::QueueMark;
use crate::sequencer::view::View;
use crate::state::Row;
use crate::state::event::Event;
use crate::state::{State, Status};
use crate::upkeep::retention;

use super::reply::QuestionContext;
use super::waits::own_wait;

/// Newest requests whose failures are told.
const FAILURES_SCANNED: usize = 2_000;
/// Open requests that are looked at for what keeps them back, oldest first.
const TROUBLES_SCANNED: usize = 20_000;

pub(super) fn status(view: &View<'_>, around: &QuestionContext<'_>) -> Result<Value, EngineError> {
    let state = view.state();
    let (head, hash) = view.log().head();
    let position = QueueMark::of_host(&around.config.queue_host(), &view.log().mark())?.position;
    let (offset, lines) = (position.offset, position.lines);
    let session = state.session().map(|session| {
        json!({"run_id": session.run_id, "command": session.command, "started_at": session.started_at.to_string()})
    });
    let totals = state.totals();
    // Without a session nothing runs: what a stop left waits for the next one.
    let left = if session.is_none() { state.running_count() } else { 0 };
    let by_status: Map<String, Value> = Status::ALL
        .iter()
        .map(|status| {
            let count = totals.by_status.get(status).copied().unwrap_or(0);
            let count = match status {
                Status::Running => count.saturating_sub(left as u64),
                Status::Waiting => count + left as u64,
                _ => count,
            };
            (status.as_str().to_owned(), count.into())
        })
        .collect();
    let by_reason: Map<String, Value> = totals
        .by_reason
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| (reason.as_str().to_owned(), (*count).into()))
        .collect();
    let oldest = state.open_from(Seq(0)).next().map(|(_, open)| {
        json!({"taken_at": open.row.taken_at.to_string(),
               "waited_ms": around.now.ms_since(open.row.taken_at)})
    });
    let paused: Vec<&str> = state.paused().iter().map(|cause| cause.as_str()).collect();
    Ok(json!({
        "at": around.now.to_string(),
        "session": session,
        "paused": paused,
        "queue": {
            "offset": offset, "lines": lines, "bytes": around.queue_bytes,
            "lag_bytes": around.queue_bytes.saturating_sub(offset),
        },
        "requests": {
            "taken": totals.taken, "open": state.open_count(), "ready": state.ready_count() + left,
            "delayed": state.delayed_count(), "running": state.running_count() - left,
            "by_status": by_status, "by_reason": by_reason, "troubles": troubles(state),
            "waits": waits(state, around),
            "failures": failures(view)?,
        },
        "failing_providers": failing_providers(state),
        "learned": learned(state, around.now),
        "batches": batches(state, around.now),
        "finished_batches": finished_batches(state),
        "quarantined": totals.quarantined,
        "oldest_open": oldest,
        "next_eligible": state.next_eligible().map(|at| at.to_string()),
        "log": {
            "head": head.0, "hash": hash.hex(), "checkpoint": view.log().applied().0,
            "bytes": view.log().file_bytes().unwrap_or(0),
        },
        "compaction": view.runs().overview(),
        "disk": {"free_bytes": around.free_bytes},
        "charged": charged(state),
        "retention": {
            "daily": around.config.retention_daily, "last": retention::last_json(view.log())?,
        },
        "today": around.now.day_in(around.config.timezone).to_string(),
        "limits": {
            "cost_per_day": around.config.cost_per_day_max,
            "tokens_per_day": around.config.tokens_per_day_max,
            "event_threshold": around.config.event_threshold,
            "step_fallback": around.config.step_fallback,
            "service_event_threshold": around.config.service_event_threshold,
            "service_step_fallback": around.config.service_step_fallback,
        },
        "flows_mutated": around.flows.read().mutations(state.flows()).iter()
            .map(|one| json!({"flow_id": one.flow_id, "variant": one.variant}))
            .collect::<Vec<_>>(),
    }))
}

/// Why open requests wait that are not merely early: failed attempts, and requests before them.
pub(crate) fn troubles(state: &State) -> Vec<Value> {
    let mut kinds: BTreeMap<_, (u64, Option<Timestamp>)> = BTreeMap::new();
    for (_, open) in state.open_from(Seq(0)).take(TROUBLES_SCANNED) {
        let row = &open.row;
        if !matches!(row.status, Status::Backoff | Status::Parked | Status::Held) {
            continue;
        }
        let kind = (row.status, row.reason, row.cause);
        let (requests, next) = kinds.entry(kind).or_default();
        *requests += 1;
        if row.status == Status::Backoff {
            *next = Some(next.map_or(open.eligible_at, |at: Timestamp| at.min(open.eligible_at)));
        }
    }
    let troubles = kinds.into_iter().map(|((status, reason, cause), (requests, next))| {
        json!({
            "state": status.as_str(), "reason_code": reason, "cause": cause,
            "requests": requests, "next_attempt": next.map(|at| at.to_string()),
        })
    });
    troubles.collect()
}

/// What open requests wait for, also those that are merely early, with the nearest moment at which one of them
/// may continue.
fn waits(state: &State, around: &QuestionContext<'_>) -> Vec<Value> {
    let mut kinds: BTreeMap<_, (u64, Option<Timestamp>)> = BTreeMap::new();
    for about in state.open_from(Seq(0)).take(TROUBLES_SCANNED) {
        let waits = own_wait(state, about, &around.waiting_calls, around.now);
        let Some((what, next)) = waits.map(|waits| waits.kind()) else { continue };
        let (requests, nearest) = kinds.entry(what).or_default();
        *requests += 1;
        *nearest = [*nearest, next].into_iter().flatten().min();
    }
    let waits = kinds.into_iter().map(|(what, (requests, next))| {
        json!({"for": what, "requests": requests, "next": next.map(|at| at.to_string())})
    });
    waits.collect()
}

/// Why requests ended without a summary, among the newest ones, with the words of the newest of each kind.
/// A request that was asked again counts no more.
fn failures(view: &View<'_>) -> Result<Vec<Value>, EngineError> {
    let mut asked_again = BTreeSet::new();
    let mut kinds: BTreeMap<_, (u64, Seq, Row)> = BTreeMap::new();
    for (request, row) in newest_rows(view)?.into_iter().rev() {
        let again = asked_again.remove(&request);
        asked_again.insert(row.previous);
        let has_failed = matches!(
            row.status,
            Status::Failed | Status::FailedInput | Status::RejectedFlow | Status::RejectedInput
        );
        if has_failed && !again {
            let kind = (row.status, row.reason, row.cause);
            kinds.entry(kind).or_insert((0, request, row)).0 += 1;
        }
    }
    let log = view.log();
    let mut failures = Vec::with_capacity(kinds.len());
    for ((status, reason, cause), (requests, newest, row)) in kinds {
        let taken = log.event(newest)?;
        let request_id = taken.as_ref().and_then(|event| event.taken());
        let message = match log.event(row.last)? {
            Some(Event::AttemptFailed { message, .. } | Event::RequestRejected { message, .. }) => {
                Some(message)
            }
            _ => None,
        };
        failures.push(json!({
            "state": status.as_str(), "reason_code": reason, "cause": cause, "requests": requests,
            "request_id": request_id.map(|taken| taken.head.request_id.clone()), "message": message,
        }));
    }
    Ok(failures)
}

/// The newest requests, open and ended, wherever their rows are.
fn newest_rows(view: &View<'_>) -> Result<BTreeMap<Seq, Row>, EngineError> {
    let state = view.state();
    let open = state.open_back(Seq(u64::MAX)).take(FAILURES_SCANNED);
    let mut rows: BTreeMap<Seq, Row> = open.map(|(request, open)| (request, open.row)).collect();
    for recent in state.recent_rows() {
        let recent = recent.iter().rev().take(FAILURES_SCANNED);
        rows.extend(recent.map(|(request, row)| (*request, *row)));
    }
    let (mut scanned, mut failure) = (0, None);
    view.log().rows_back(Seq(u64::MAX), &mut |request, bytes| {
        scanned += 1;
        match codec::decode_row(bytes) {
            Ok(row) => drop(rows.entry(request).or_insert(row)),
            Err(error) => failure = Some(error),
        }
        match scanned == FAILURES_SCANNED || failure.is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(rows),
    }
}

/// Providers that fail while their fallbacks answer.
fn failing_providers(state: &State) -> Vec<Value> {
    let failing = state.failing_providers().into_iter().flat_map(|failing| &failing.by_name);
    let failing = failing.map(|(name, one)| {
        json!({
            "provider": name, "model": one.failure.model, "cause": one.failure.cause,
            "message": one.failure.message, "answered_by": one.failure.answered_by,
            "calls": one.times, "since": one.since.to_string(), "last": one.last.to_string(),
        })
    });
    failing.collect()
}

/// What models were found to refuse, and how much they read.
fn learned(state: &State, now: Timestamp) -> Vec<Value> {
    let known = state.dialects().into_iter().flat_map(|known| known.spoken(now));
    let told = known.map(|(learned, left_ms)| {
        let mut value = json!(learned);
        let until = now.plus_ms(i64::try_from(left_ms).unwrap_or(i64::MAX));
        value["until"] = until.to_string().into();
        value
    });
    told.collect()
}

/// Batches of questions that have not ended.
fn batches(state: &State, now: Timestamp) -> Vec<Value> {
    let open = state.batches().into_iter().flat_map(|batches| &batches.open);
    let open = open.map(|(name, batch)| {
        json!({
            "batch": name, "provider": batch.provider, "model": batch.model,
            "server_id": batch.server_id, "questions": batch.questions.len(),
            "answered": batch.answered, "prepared_at": batch.prepared_at.to_string(),
            "waited_ms": now.ms_since(batch.prepared_at).max(0),
        })
    });
    open.collect()
}

/// Batches that have ended: sums over all, and the newest ones. Answers of a batch cost half the price, so
/// as much is saved as was paid.
fn finished_batches(state: &State) -> Value {
    let Some(finished) = state.finished_batches() else { return Value::Null };
    let recent = finished.recent.iter().rev().map(|batch| {
        json!({
            "batch": batch.batch, "provider": batch.provider, "model": batch.model,
            "server_id": batch.server_id, "end": batch.end, "questions": batch.questions,
            "answered": batch.answered, "asked_directly": batch.refused,
            "prepared_at": batch.prepared_at.to_string(), "ended_at": batch.ended_at.to_string(),
            "waited_ms": batch.ended_at.ms_since(batch.prepared_at).max(0),
            "cost": money(batch.cost_nanos), "saved": money(batch.cost_nanos),
            "message": batch.message,
        })
    });
    json!({
        "batches": finished.batches, "answered": finished.answered,
        "cost": money(finished.cost_nanos), "saved": money(finished.cost_nanos),
        "recent": recent.collect::<Vec<_>>(),
    })
}

fn money(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// What models cost on the latest day on which they cost anything.
fn charged(state: &State) -> Value {
    let Some(charged) = &state.flows().charged else { return Value::Null };
    let providers: Map<String, Value> = charged
        .by_provider
        .iter()
        .map(|(name, one)| {
            let value = json!({
                "calls": one.calls, "input_tokens": one.input_tokens,
                "output_tokens": one.output_tokens, "cost": one.cost_nanos as f64 / 1e9,
            });
            (name.clone(), value)
        })
        .collect();
    json!({"day": charged.day.to_string(), "providers": providers})
}
