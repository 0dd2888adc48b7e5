//! The status of the service.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::explain::event_json::pause_word;
use crate::sequencer::engine::{Engine, EngineError};
use crate::sequencer::mark::QueueMark;
use crate::state::{State, Status};
use crate::upkeep::retention;

use super::reply::QuestionContext;

/// Open requests that are looked at for what keeps them back, oldest first.
const TROUBLES_SCANNED: usize = 20_000;

pub(super) fn status(engine: &Engine, around: &QuestionContext<'_>) -> Result<Value, EngineError> {
    let state = engine.state();
    let (head, hash) = engine.log().head();
    let position = QueueMark::decode(&engine.log().mark())?.position;
    let (offset, lines) = (position.offset, position.lines);
    let session = state.session().map(|session| {
        json!({"run_id": session.run_id, "command": session.command, "started_at": session.started_at.to_string()})
    });
    let totals = state.totals();
    let by_status: Map<String, Value> = Status::ALL
        .into_iter()
        .map(|status| {
            let count = totals.by_status.get(&status).copied().unwrap_or(0);
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
    let paused: Vec<&str> = state.paused().iter().map(pause_word).collect();
    Ok(json!({
        "at": around.now.to_string(),
        "session": session,
        "paused": paused,
        "queue": {
            "offset": offset, "lines": lines, "bytes": around.queue_bytes,
            "lag_bytes": around.queue_bytes.saturating_sub(offset),
        },
        "requests": {
            "taken": totals.taken, "open": state.open_count(), "ready": state.ready_count(),
            "delayed": state.delayed_count(), "running": state.running_count(),
            "by_status": by_status, "by_reason": by_reason, "troubles": troubles(state),
        },
        "failing_providers": failing_providers(state),
        "quarantined": totals.quarantined,
        "oldest_open": oldest,
        "next_eligible": state.next_eligible().map(|at| at.to_string()),
        "log": {
            "head": head.0, "hash": hash.hex(), "checkpoint": engine.log().applied().0,
            "bytes": engine.log().file_bytes().unwrap_or(0),
        },
        "compaction": engine.runs().overview(),
        "disk": {"free_bytes": around.free_bytes},
        "charged": charged(state),
        "retention": {
            "daily": around.config.retention_daily, "last": retention::last_json(engine.log())?,
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
