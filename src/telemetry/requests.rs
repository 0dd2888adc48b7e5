//! Spans of requests and attempts, from committed events. A span is sent when it has ended.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::calls::{CallParent, batched_call};
use super::exporter::Telemetry;
use super::span::{SpanKind, TraceId, TraceSpan, count, text};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{AckStatus, Urgency};
use crate::export::Committed;
use crate::log::Reader;
use crate::state::State;
use crate::state::event::{Event, OF_BATCH, TakenRequest};

/// A request with an attempt under way.
struct TracedRequest {
    taken: Arc<TakenRequest>,
    trace: TraceId,
    taken_at: Timestamp,
    /// The attempt under way, the event that started it, and when.
    attempt: Option<(u32, Seq, Timestamp)>,
    attempts: u32,
}

/// How something ended.
struct SpanEnd<'a> {
    status: &'a str,
    error: Option<&'a str>,
}

/// Follows committed events.
pub(crate) struct RequestSpans {
    telemetry: Arc<Telemetry>,
    log: Reader,
    /// At most as many as attempts can be under way.
    open: HashMap<Seq, TracedRequest>,
}

impl RequestSpans {
    pub(crate) fn new(telemetry: Arc<Telemetry>, log: Reader) -> RequestSpans {
        RequestSpans { telemetry, log, open: HashMap::new() }
    }

    pub(crate) fn observe(&mut self, events: &[Committed], state: &State) {
        for committed in events {
            self.take(committed, state);
        }
    }

    fn take(&mut self, committed: &Committed, state: &State) {
        let (seq, at) = (committed.seq, committed.at);
        match &committed.event {
            Event::AttemptStarted { request, attempt } => {
                self.ensure(*request, at, state);
                if let Some(open) = self.open.get_mut(request) {
                    (open.attempt, open.attempts) = (Some((*attempt, seq, at)), *attempt);
                }
            }
            Event::ModelResponded { request, attempt: OF_BATCH, call, answer, .. } => {
                self.batched(*request, call, answer, at, state);
            }
            Event::AttemptFailed { request, status, reason, cause, retry_at, .. } => {
                let reason = reason.map(|reason| reason.as_str());
                let error = cause.map(|cause| cause.as_str()).or(reason).or(Some("failed"));
                let end = SpanEnd { status: status.as_str(), error };
                self.attempt_ended(*request, at, &end);
                match retry_at {
                    None => self.request_ended(*request, at, state, &end),
                    Some(_) => drop(self.open.remove(request)),
                }
            }
            Event::SummaryProduced { request, .. } => {
                let end = SpanEnd { status: AckStatus::Completed.as_str(), error: None };
                self.both_ended(*request, at, state, &end);
            }
            Event::RequestSkipped { request, reason, .. } => {
                self.both_ended(
                    *request,
                    at,
                    state,
                    &SpanEnd { status: reason.as_str(), error: None },
                );
            }
            Event::RequestDuplicated { request, reason, .. } => {
                self.both_ended(
                    *request,
                    at,
                    state,
                    &SpanEnd { status: reason.as_str(), error: None },
                );
            }
            Event::RequestCancelled { request, .. } => {
                self.both_ended(*request, at, state, &SpanEnd { status: "cancelled", error: None });
            }
            // It waits for another request, and no attempt is under way.
            Event::WorkHeld { request, .. } => {
                self.attempt_ended(*request, at, &SpanEnd { status: "held", error: None });
                self.open.remove(request);
            }
            Event::RequestRejected { request: taken, status, reason, .. } => {
                let reason = reason.map(|reason| reason.as_str());
                let end = SpanEnd { status: status.as_str(), error: reason.or(Some("rejected")) };
                self.at_once(seq, taken, at, &end);
            }
            Event::DuplicateReceived { request: taken, reason, .. } => {
                self.at_once(seq, taken, at, &SpanEnd { status: reason.as_str(), error: None });
            }
            _ => {}
        }
    }

    /// Reads what is known of a request when its attempt begins.
    fn ensure(&mut self, request: Seq, at: Timestamp, state: &State) {
        if self.open.contains_key(&request) {
            return;
        }
        let taken = match self.log.event(request) {
            Ok(Some(Event::RequestAccepted(taken))) => taken,
            Ok(Some(Event::RequestParked { request: taken, .. })) => taken,
            _ => return,
        };
        if !self.telemetry.traces(&taken.flow_id, taken.variant.as_deref()) {
            return;
        }
        let row = state.open_request(request).map(|open| open.row);
        // A request that has ended already has no row in memory; when it was made is known.
        let taken_at = row.map_or(taken.created_at.min(at), |row| row.taken_at);
        let (trace, taken) = (TraceId::of(request, &taken), Arc::from(taken));
        let attempts = row.map_or(0, |row| row.attempts);
        let open = TracedRequest { taken, trace, taken_at, attempt: None, attempts };
        self.open.insert(request, open);
    }

    fn batched(
        &mut self,
        request: Seq,
        call: &crate::contract::hash::Digest,
        answer: &crate::facts::model::AnswerFacts,
        at: Timestamp,
        state: &State,
    ) {
        let was_open = self.open.contains_key(&request);
        self.ensure(request, at, state);
        if let Some(open) = self.open.get(&request) {
            let parent = CallParent {
                trace: open.trace,
                request,
                attempt: OF_BATCH,
                started: Seq(0),
                flow_id: open.taken.flow_id.clone(),
                variant: open.taken.variant.clone(),
            };
            let who = (&answer.identity, answer.usage, answer.stop);
            self.telemetry.offer(&batched_call(&self.telemetry, &parent, call, who, at));
        }
        if !was_open {
            self.open.remove(&request);
        }
    }

    fn both_ended(&mut self, request: Seq, at: Timestamp, state: &State, end: &SpanEnd<'_>) {
        self.attempt_ended(request, at, end);
        self.request_ended(request, at, state, end);
    }

    fn attempt_ended(&mut self, request: Seq, at: Timestamp, end: &SpanEnd<'_>) {
        let Some(open) = self.open.get_mut(&request) else { return };
        let Some((attempt, started, start)) = open.attempt.take() else { return };
        let mut attributes = attributes_of(request, &open.taken);
        attributes.push(count("summarizer.attempt", attempt));
        let span = TraceSpan {
            id: open.trace.attempt(started),
            parent: Some(open.trace.request()),
            name: format!("attempt {attempt}"),
            kind: SpanKind::Internal,
            ..span_of(open.trace, (start, at), attributes, end)
        };
        self.telemetry.offer(&span);
    }

    fn request_ended(&mut self, request: Seq, at: Timestamp, state: &State, end: &SpanEnd<'_>) {
        self.ensure(request, at, state);
        let Some(open) = self.open.remove(&request) else { return };
        self.ended(request, &open, at, end);
    }

    /// A request that ends in the moment it is read.
    fn at_once(&mut self, request: Seq, taken: &TakenRequest, at: Timestamp, end: &SpanEnd<'_>) {
        if !self.telemetry.traces(&taken.flow_id, taken.variant.as_deref()) {
            return;
        }
        let (trace, taken) = (TraceId::of(request, taken), Arc::new(taken.clone()));
        let open = TracedRequest { taken, trace, taken_at: at, attempt: None, attempts: 0 };
        self.ended(request, &open, at, end);
    }

    fn ended(&self, request: Seq, open: &TracedRequest, at: Timestamp, end: &SpanEnd<'_>) {
        let taken = &open.taken;
        let mut attributes = attributes_of(request, taken);
        // An id that a producer chose may hold a name, so it stays on this machine.
        if self.telemetry.is_local() {
            attributes.push(text("summarizer.request.id", &taken.head.request_id));
        }
        let urgency = if taken.urgency == Urgency::Now { "now" } else { "scheduled" };
        attributes.push(text("summarizer.request.urgency", urgency));
        attributes.push(count("summarizer.request.attempts", open.attempts));
        let span = TraceSpan {
            id: open.trace.request(),
            name: format!("summarize {}", taken.flow_id),
            kind: SpanKind::Consumer,
            ..span_of(open.trace, (open.taken_at, at), attributes, end)
        };
        self.telemetry.offer(&span);
    }
}

fn attributes_of(request: Seq, taken: &TakenRequest) -> Vec<Value> {
    let mut attributes = vec![
        count("summarizer.request.seq", request.0),
        text("summarizer.flow.id", &taken.flow_id),
    ];
    let variant = taken.variant.as_deref();
    attributes.extend(variant.map(|variant| text("summarizer.flow.variant", variant)));
    attributes
}

fn span_of(
    trace: TraceId,
    (start, at): (Timestamp, Timestamp),
    mut attributes: Vec<Value>,
    end: &SpanEnd<'_>,
) -> TraceSpan {
    attributes.push(text("summarizer.status", end.status));
    attributes.extend(end.error.map(|error| text("error.type", error)));
    TraceSpan {
        trace,
        id: String::new(),
        parent: None,
        name: String::new(),
        kind: SpanKind::Internal,
        start,
        end: at,
        attributes,
        events: Vec::new(),
        failed: end.error.is_some(),
    }
}
