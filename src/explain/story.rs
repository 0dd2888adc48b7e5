//! What the log says about the request that made a summary.

use std::ops::ControlFlow;

use serde_json::Value;

use super::{Answered, Attempt, ExplainError};
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::export::{Committed, ack};
use crate::facts::attempt::{InputFacts, SourcePlaces};
use crate::facts::model::Provenance;
use crate::log::codec;
use crate::log::{LogError, ReadError, Reader};
use crate::state::event::{Event, SummaryPointer, TakenRequest};

/// Events of one request that are kept; a summary needs few.
const EVENTS_MAX: usize = 10_000;

/// The record that holds the item.
pub(crate) struct ProducedAt {
    pub seq: Seq,
    pub at: Timestamp,
    pub hash: Digest,
}

/// One request from its line to its item.
pub(crate) struct Story {
    pub request: Seq,
    pub taken: TakenRequest,
    pub summary: SummaryPointer,
    pub(crate) produced_at: ProducedAt,
    pub body_sha256: Digest,
    pub body: Vec<u8>,
    pub item: Value,
    /// The place of every source.
    pub places: SourcePlaces,
    pub input: InputFacts,
    /// How the item was made; `None` for one of a log that was lost.
    pub provenance: Option<Provenance>,
    pub answers: Vec<Answered>,
    pub attempts: Vec<Attempt>,
    pub events: Vec<Committed>,
}

/// The day on which a person took a summary back.
pub(crate) fn forgotten_on(log: &Reader, made: Seq) -> Result<String, ReadError> {
    let mut at = None;
    log.try_scan::<ReadError>(made, None, |entry| {
        if entry.tag == codec::FORGOTTEN
            && let Event::Forgotten(fact) = entry.event()?
            && fact.bodies.contains(&made)
        {
            at = Some(entry.at);
        }
        Ok(if at.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    // The log may be older than its keys.
    let unknown = || "a day that this log does not know".to_owned();
    Ok(at.map_or_else(unknown, |at| at.day_in(chrono_tz::UTC).to_string()))
}

impl Story {
    pub(super) fn read(log: &Reader, request: Seq, last: Seq) -> Result<Story, ExplainError> {
        let events = events(log, request, last)?;
        let taken = events.first().and_then(|first| first.event.taken()).cloned();
        let damaged = |what: &str| LogError::Damaged { seq: request, what: what.to_owned() };
        let taken = taken.ok_or_else(|| damaged("no request"))?;
        let mut produced = None;
        let mut places = SourcePlaces::default();
        let mut answers = Vec::new();
        let mut attempts: Vec<Attempt> = Vec::new();
        for one in &events {
            attempted(&mut attempts, one);
            match &one.event {
                Event::InputResolved { sources, .. } => places = (**sources).clone(),
                Event::ModelResponded { attempt, call, body_sha256, answer, .. } => {
                    answers.push(Answered {
                        seq: one.seq.0,
                        attempt: *attempt,
                        call: call.hex(),
                        body_sha256: body_sha256.hex(),
                        facts: (**answer).clone(),
                    });
                }
                Event::SummaryProduced { summary, body_sha256, input, provenance, .. } => {
                    let at = ProducedAt { seq: one.seq, at: one.at, hash: one.hash };
                    let made = ((**input).clone(), provenance.as_deref().cloned());
                    produced = Some((at, summary.clone(), *body_sha256, made));
                }
                _ => {}
            }
        }
        let Some((produced_at, summary, body_sha256, (input, provenance))) = produced else {
            return Err(ExplainError::NoSummary(taken.head.request_id, standing(&events)));
        };
        let seq = produced_at.seq;
        let Some(body) = log.kept_body(seq)? else {
            let day = forgotten_on(log, seq)?;
            return Err(ExplainError::Forgotten(summary.summary_id, day));
        };
        let item = serde_json::from_slice(&body).map_err(ExplainError::Item)?;
        Ok(Story {
            request,
            taken,
            summary,
            produced_at,
            body_sha256,
            body,
            item,
            places,
            input,
            provenance,
            answers,
            attempts,
            events,
        })
    }
}

/// How far a request is, as its last ack says it.
fn standing(events: &[Committed]) -> String {
    let last = events.iter().rev().find_map(ack::line);
    let last: Value = last.and_then(|line| serde_json::from_str(&line).ok()).unwrap_or_default();
    let text = |name: &str| last[name].as_str();
    let mut said = match text("status") {
        None | Some("accepted") => "it has not ended".to_owned(),
        Some(status) => status.to_owned(),
    };
    for (name, before, after) in
        [("reason_code", ": ", ""), ("cause", " (", ")"), ("message", ": ", "")]
    {
        if let Some(text) = text(name) {
            said.push_str(&format!("{before}{text}{after}"));
        }
    }
    said
}

fn events(log: &Reader, request: Seq, last: Seq) -> Result<Vec<Committed>, ExplainError> {
    let mut events = Vec::new();
    log.try_scan::<ReadError>(request, Some(last), |entry| {
        let event = entry.event()?;
        if entry.seq == request || event.request() == Some(request) {
            let (seq, at, hash) = (entry.seq, entry.at, entry.hash());
            let event = log.with_line(seq, event)?;
            events.push(Committed { seq, at, hash, event });
        }
        let enough = events.len() >= EVENTS_MAX;
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(events)
}

fn attempted(attempts: &mut Vec<Attempt>, one: &Committed) {
    let mut end = |attempt: u32, outcome: &str, message: Option<&String>| {
        if let Some(open) = attempts.iter_mut().rev().find(|open| open.attempt == attempt) {
            open.ended_at = Some(one.at.to_string());
            open.outcome = outcome.to_owned();
            open.message = message.cloned();
        }
    };
    match &one.event {
        Event::AttemptStarted { attempt, .. } => attempts.push(Attempt {
            attempt: *attempt,
            started_at: one.at.to_string(),
            ended_at: None,
            outcome: "interrupted".to_owned(),
            message: None,
        }),
        Event::AttemptFailed { attempt, status, message, .. } => {
            end(*attempt, status.as_str(), Some(message));
        }
        Event::SummaryProduced { attempt, .. } => end(*attempt, "completed", None),
        Event::RequestSkipped { attempt, reason, .. } => end(*attempt, reason.as_str(), None),
        Event::WorkHeld { attempt, .. } => end(*attempt, "held", None),
        _ => {}
    }
}
