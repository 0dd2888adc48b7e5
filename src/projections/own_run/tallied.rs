//! What an event adds to the figures of a session.

use std::ops::ControlFlow;

use super::said::{Item, shortened};
use crate::compaction::session_figures::{FailureTally, SessionFigures, Tally, WaitingRequest};
use crate::compaction::text::SharedText;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::FailureCause;
use crate::log::{ReadError, Reader};
use crate::state::event::{Event, TakenRequest};

/// The flow that a request asks for, as a person names it.
fn flow_of(request: &TakenRequest) -> SharedText {
    match &request.variant {
        Some(variant) => format!("{} ({variant})", request.flow_id).into(),
        None => request.flow_id.as_str().into(),
    }
}

fn taken_at(log: &Reader, request: Seq) -> Result<Option<Box<TakenRequest>>, ReadError> {
    Ok(match log.event(request)? {
        Some(Event::RequestAccepted(taken)) => Some(taken),
        Some(Event::RequestParked { request, .. }) => Some(request),
        _ => None,
    })
}

fn flow_at(log: &Reader, request: Seq) -> Result<SharedText, ReadError> {
    Ok(taken_at(log, request)?.map_or("unknown".into(), |taken| flow_of(&taken)))
}

fn asks_for_the_same(other: &str) -> SharedText {
    format!("request {other} asks for the same").into()
}

/// Why a request waits that is behind no other, and until when.
fn turn_of(taken: &TakenRequest, at: Timestamp) -> (Option<SharedText>, SharedText) {
    match taken.not_before.filter(|due| *due > at) {
        Some(due) => (Some(due.to_string().into()), "it is not due before".into()),
        None => (None, "its turn has not come".into()),
    }
}

/// A request that is taken in by a record, with what it waits for.
fn accepted(seq: Seq, at: Timestamp, taken: &TakenRequest, behind: Option<&str>) -> Tally {
    let (until, why) = match behind {
        Some(other) => (None, asks_for_the_same(other)),
        None => turn_of(taken, at),
    };
    let request = WaitingRequest {
        record: seq.0,
        request_id: taken.head.request_id.as_str().into(),
        flow: flow_of(taken),
        since: at.to_string().into(),
        until,
        why,
    };
    Tally::Accepted { request }
}

/// What a record of the log adds, which has a place and a time in it.
pub(super) fn tally_of(
    log: &Reader,
    (seq, at): (Seq, Timestamp),
    event: &Event,
) -> Result<Option<Tally>, ReadError> {
    Ok(Some(match event {
        Event::RequestAccepted(taken) => accepted(seq, at, taken, None),
        Event::RequestParked { request, behind_request_id, .. } => {
            accepted(seq, at, request, Some(behind_request_id))
        }
        Event::DuplicateReceived { .. } => Tally::Duplicate,
        Event::RequestDuplicated { request, .. } => Tally::GotAnothers { record: request.0 },
        Event::DelayEnded { request } => {
            Tally::Waits { record: request.0, until: None, why: "its turn has not come".into() }
        }
        Event::KeyYielded { request, behind_request_id, .. } => Tally::Waits {
            record: request.0,
            until: None,
            why: asks_for_the_same(behind_request_id),
        },
        Event::WorkHeld { request, behind, .. } => {
            let other = taken_at(log, *behind)?.map(|taken| taken.head.request_id);
            let other = other.as_deref().unwrap_or("unknown");
            Tally::Waits { record: request.0, until: None, why: asks_for_the_same(other) }
        }
        Event::ParkedAccepted { request, .. } | Event::WorkReleased { request } => {
            let Some(taken) = taken_at(log, *request)? else { return Ok(None) };
            let (until, why) = turn_of(&taken, at);
            Tally::Waits { record: request.0, until, why }
        }
        Event::RequestRejected { request, status, reason, message } => {
            Tally::Rejected(FailureTally {
                kind: reason.map_or(status.as_str(), |reason| reason.as_str()).into(),
                why: shortened(message).into(),
                flow: Some(flow_of(request)),
                request_id: Some(request.head.request_id.as_str().into()),
            })
        }
        Event::LineQuarantined(line) => Tally::LineSetAside(FailureTally {
            kind: line.reason.as_str().into(),
            why: match line.errors.first() {
                Some(error) => shortened(&format!("line {}: {}", line.line, error.message)).into(),
                None => format!("line {}", line.line).into(),
            },
            flow: None,
            request_id: line.request_id.as_deref().map(SharedText::from),
        }),
        Event::SummaryProduced { request, .. } => {
            let taken = taken_at(log, *request)?;
            let kind = taken.as_ref().map_or("unknown".into(), |one| one.kind.to_string().into());
            let flow = taken.map_or("unknown".into(), |taken| flow_of(&taken));
            let is_private = !Item::at(log, seq)?.is_some_and(|item| item.is_for_all());
            Tally::Made { record: request.0, flow, kind, is_private }
        }
        Event::RequestSkipped { request, .. } => {
            Tally::Skipped { record: request.0, flow: flow_at(log, *request)? }
        }
        Event::RequestCancelled { request, .. } => Tally::Cancelled { record: request.0 },
        Event::AttemptFailed {
            request, head, status, reason, cause, message, retry_at, ..
        } => {
            let flow = flow_at(log, *request)?;
            let failure = FailureTally {
                kind: reason.map_or(status.as_str(), |reason| reason.as_str()).into(),
                why: shortened(message).into(),
                flow: Some(flow.clone()),
                request_id: Some(head.request_id.as_str().into()),
            };
            match retry_at {
                // A limit was kept, and nothing failed.
                Some(again) if cause.is_some_and(FailureCause::puts_off) => Tally::Waits {
                    record: request.0,
                    until: Some(again.to_string().into()),
                    why: failure.why,
                },
                Some(again) => {
                    Tally::WillRetry { record: request.0, until: again.to_string().into(), failure }
                }
                None => Tally::Failed { record: request.0, flow, failure },
            }
        }
        Event::ModelCharged { charge, .. } => Tally::Charged {
            model: format!("{} {}", charge.provider, charge.model).into(),
            input_tokens: charge.input_tokens,
            output_tokens: charge.output_tokens,
            cost_nanos: charge.cost_nanos,
            estimated: charge.estimated,
        },
        _ => return Ok(None),
    }))
}

/// The figures of the session of a moment, from the log alone.
pub(super) fn figures_until(log: &Reader, until: Seq) -> Result<SessionFigures, ReadError> {
    let mut figures = SessionFigures::default();
    if until == Seq(0) {
        return Ok(figures);
    }
    log.try_scan(Seq(1), Some(until), |entry| {
        let event = entry.event()?;
        if let Event::SessionStarted { run_id, command, .. } = &event {
            figures = SessionFigures::begun(run_id, command, entry.at, &figures);
        }
        if let Some(tally) = tally_of(log, (entry.seq, entry.at), &event)? {
            figures.count(&tally, entry.at);
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(figures)
}
