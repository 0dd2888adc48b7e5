//! Events as JSON, for `log dump`, `show` and `explain`.

use serde_json::{Value, json};

use crate::export::Committed;
use crate::facts::attempt::{SourcePlace, SourcePlaces};
use crate::state::event::{Event, TakenRequest};

/// A request as it was taken in, with its line as JSON.
pub(crate) fn taken_json(taken: &TakenRequest) -> Value {
    json!({
        "request_id": taken.head.request_id,
        "idempotency_key": taken.head.key,
        "line": taken.head.line,
        "offset": taken.head.offset,
        "repo": taken.producer,
        "flow_id": taken.flow_id,
        "variant": taken.variant,
        "record": line_json(&taken.line),
    })
}

/// The line of a request as JSON: null when `recover` could not bring it back, and text when it is
/// no JSON.
pub(crate) fn line_json(line: &[u8]) -> Value {
    if line.is_empty() {
        return Value::Null;
    }
    let parsed = serde_json::from_slice(line);
    parsed.unwrap_or_else(|_| String::from_utf8_lossy(line).into())
}

/// An event as `log dump` and `show` print it.
pub(crate) fn event_json(committed: &Committed) -> Value {
    let mut value = json!({
        "seq": committed.seq.0,
        "at": committed.at.to_string(),
        "event": committed.event.name(),
        "hash": committed.hash.hex(),
    });
    if let Value::Object(object) = details(&committed.event)
        && let Value::Object(target) = &mut value
    {
        target.extend(object);
    }
    value
}

fn details(event: &Event) -> Value {
    match event {
        Event::SessionStarted { run_id, command, version, config, host } => json!({
            "run_id": run_id, "command": command, "version": version, "config": config.hex(),
            "host": host,
        }),
        Event::SessionFinished { run_id, started, end, report } => json!({
            "run_id": run_id, "started": started.0, "report": report,
            "end": format!("{end:?}").to_lowercase(),
        }),
        Event::LineQuarantined(line) => json!({
            "line": line.line, "offset": line.offset, "reason": line.reason,
            "request_id": line.request_id, "errors": line.errors,
        }),
        Event::RequestAccepted(request) => taken_json(request),
        Event::RequestParked { request, behind, behind_request_id } => {
            let value = with(taken_json(request), "behind", behind.0);
            with(value, "behind_request_id", behind_request_id.as_str())
        }
        Event::KeyYielded { request, behind, behind_request_id, .. } => json!({
            "request": request.0, "behind": behind.0, "behind_request_id": behind_request_id,
        }),
        Event::RequestRejected { request, status, reason, message } => {
            let value = with(taken_json(request), "status", status.as_str());
            with(with(value, "reason_code", json!(reason)), "message", message.as_str())
        }
        Event::DuplicateReceived { request, of, reason, summary, .. } => {
            let value = with(taken_json(request), "of", of.0);
            with(
                with(value, "reason_code", json!(reason)),
                "summary_id",
                summary.summary_id.as_str(),
            )
        }
        Event::RequestDuplicated { request, of, reason, summary, .. } => json!({
            "request": request.0, "of": of.0, "reason_code": reason,
            "summary_id": summary.summary_id,
        }),
        Event::ParkedAccepted { request, .. }
        | Event::WorkReleased { request }
        | Event::DelayEnded { request }
        | Event::RequestCancelled { request, .. } => json!({"request": request.0}),
        Event::AttemptStarted { request, attempt } => {
            json!({"request": request.0, "attempt": attempt})
        }
        Event::InputResolved { request, attempt, summary, input, sources, .. } => {
            let mut facts = json!(input);
            facts["sources"] = places_json(sources);
            facts["sources_omitted"] = sources.omitted.into();
            json!({
                "request": request.0, "attempt": attempt, "summary_id": summary.summary_id,
                "facts": facts,
            })
        }
        Event::WorkHeld { request, attempt, behind, summary, .. } => json!({
            "request": request.0, "attempt": attempt, "behind": behind.0,
            "summary_id": summary.summary_id,
        }),
        Event::ModelResponded { request, attempt, call, body_sha256, answer } => json!({
            "request": request.0, "attempt": attempt, "call": call.hex(),
            "body_sha256": body_sha256.hex(), "facts": answer,
        }),
        Event::SummaryProduced {
            request,
            attempt,
            summary,
            body_sha256,
            input,
            provenance,
            ..
        } => json!({
            "request": request.0, "attempt": attempt, "summary_id": summary.summary_id,
            "path": summary.path(), "body_sha256": body_sha256.hex(),
            "facts": with(json!(input), "provenance", json!(provenance)),
        }),
        Event::AttemptFailed {
            request,
            attempt,
            status,
            reason,
            cause,
            message,
            retry_at,
            input,
            error,
            ..
        } => {
            json!({
                "request": request.0, "attempt": attempt, "status": status, "reason_code": reason,
                "cause": cause,
                "message": message, "retry_at": retry_at.map(|at| at.to_string()),
                "facts": with(json!(input), "error", json!(error)),
            })
        }
        Event::RequestSkipped { request, attempt, reason, input, .. } => json!({
            "request": request.0, "attempt": attempt, "reason_code": reason,
            "facts": input,
        }),
        Event::IntakePaused { cause } | Event::IntakeResumed { cause } => {
            json!({"cause": cause})
        }
        Event::ConfigReloaded { config } => json!({"config": config.hex()}),
        Event::QuarantineReleased { quarantined, request_id } => {
            json!({"quarantined": quarantined.0, "request_id": request_id})
        }
        Event::QueueAdopted { change, offset } => json!({"change": change, "offset": offset}),
        Event::LinesPassed { start, end } => json!({"start": start, "end": end}),
        Event::CheckpointTaken { applied, state, rows } => {
            json!({"applied": applied.0, "state_digest": state.prefixed(), "rows": rows})
        }
        Event::FlowUsed { flow_id, variant, pack_hash, replaces } => json!({
            "flow_id": flow_id, "variant": variant, "pack_hash": pack_hash.hex(),
            "replaces": replaces.map(|pack| pack.hex()),
        }),
        Event::ModelCharged { request, attempt, charge } => json!({
            "request": request.0, "attempt": attempt, "provider": charge.provider,
            "model": charge.model, "day": charge.day.to_string(),
            "input_tokens": charge.input_tokens, "output_tokens": charge.output_tokens,
            "cost": charge.cost_nanos as f64 / 1e9, "estimated": charge.estimated,
        }),
        Event::ProviderPassedOver { request, attempt, failure } => json!({
            "request": request.0, "attempt": attempt, "provider": failure.provider,
            "model": failure.model, "cause": failure.cause, "message": failure.message,
            "answered_by": failure.answered_by,
        }),
        Event::DayOpened(opened) => json!({"facts": opened}),
        Event::PublishFailed(failed) => json!({"facts": failed}),
        Event::WorkLeft(left) => json!({"facts": left}),
        Event::AgentRun(fact) => json!(fact),
        Event::Digest(fact) => json!(fact),
        Event::Batch(fact) => json!(fact),
        Event::DialectLearned(learned) => json!({"facts": learned}),
        Event::Forgotten(forgotten) => json!({"facts": {
            "sources": forgotten.sources,
            "files": forgotten.files,
            "summaries": forgotten.summaries.iter().map(|one| &one.summary_id).collect::<Vec<_>>(),
            "bags": forgotten.bags,
            "bodies": forgotten.bodies,
        }}),
        Event::SourceBecamePrivate { request, made, summary } => json!({
            "request": request.0, "made": made.0, "summary_id": summary.summary_id,
        }),
        Event::Retention(fact) => json!(fact),
        Event::LogRecovered(report) => json!({"facts": report}),
        Event::RunRecordKept(kept) => json!({"facts": kept}),
        Event::ReceiptKept { body_sha256 } => json!({"body_sha256": body_sha256}),
    }
}

/// Every source with its file, as people look for it.
fn places_json(places: &SourcePlaces) -> Value {
    let place = |(file, source): (&str, &SourcePlace)| with(json!(source), "file", file);
    places.iter().map(place).collect()
}

fn with(mut value: Value, name: &str, member: impl Into<Value>) -> Value {
    value[name] = member.into();
    value
}
