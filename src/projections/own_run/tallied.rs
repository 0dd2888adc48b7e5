//! What an event adds to the figures of a session.

use std::ops::ControlFlow;

use super::said::shortened;
use crate::compaction::session_figures::{FailureTally, SessionFigures, Tally};
use crate::compaction::text::SharedText;
use crate::contract::ids::Seq;
use crate::log::{ReadError, Reader};
use crate::state::event::{Event, TakenRequest};

/// The flow that a request asks for, as a person names it.
fn flow_of(request: &TakenRequest) -> SharedText {
    match &request.variant {
        Some(variant) => format!("{} ({variant})", request.flow_id).into(),
        None => request.flow_id.as_str().into(),
    }
}

fn flow_at(log: &Reader, request: Seq) -> Result<SharedText, ReadError> {
    Ok(match log.event(request)? {
        Some(Event::RequestAccepted(taken)) => flow_of(&taken),
        Some(Event::RequestParked { request, .. }) => flow_of(&request),
        _ => "unknown".into(),
    })
}

pub(super) fn tally_of(log: &Reader, event: &Event) -> Result<Option<Tally>, ReadError> {
    Ok(Some(match event {
        Event::RequestAccepted(taken) => Tally::Accepted { flow: flow_of(taken) },
        Event::RequestParked { request, .. } => Tally::Accepted { flow: flow_of(request) },
        Event::DuplicateReceived { .. } => Tally::Duplicate,
        Event::RequestDuplicated { .. } => Tally::GotAnothers,
        Event::RequestRejected { request, status, reason, message } => {
            Tally::Rejected(FailureTally {
                kind: reason.map_or(status.as_str(), |reason| reason.as_str()).into(),
                why: shortened(message).into(),
                request_id: Some(request.head.request_id.as_str().into()),
            })
        }
        Event::LineQuarantined(line) => Tally::LineSetAside(FailureTally {
            kind: line.reason.as_str().into(),
            why: match line.errors.first() {
                Some(error) => shortened(&format!("line {}: {}", line.line, error.message)).into(),
                None => format!("line {}", line.line).into(),
            },
            request_id: line.request_id.as_deref().map(SharedText::from),
        }),
        Event::SummaryProduced { request, .. } => Tally::Made { flow: flow_at(log, *request)? },
        Event::RequestSkipped { request, .. } => Tally::Skipped { flow: flow_at(log, *request)? },
        Event::RequestCancelled { .. } => Tally::Cancelled,
        Event::AttemptFailed { request, head, status, reason, message, retry_at, .. } => {
            let failure = FailureTally {
                kind: reason.map_or(status.as_str(), |reason| reason.as_str()).into(),
                why: shortened(message).into(),
                request_id: Some(head.request_id.as_str().into()),
            };
            match retry_at {
                Some(_) => Tally::WillRetry(failure),
                None => Tally::Failed { flow: flow_at(log, *request)?, failure },
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
            figures = SessionFigures::begun(run_id, command, entry.at.to_string(), figures.waiting);
        }
        if let Some(tally) = tally_of(log, &event)? {
            figures.count(&tally);
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(figures)
}
