//! A span, its ids, and its form in JSON.
//!
//! The JSON form of OTLP writes ids as hex and 64-bit numbers as text.

use serde_json::{Value, json};

use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::state::event::TakenRequest;

/// Bytes of the ids of a trace and of a span.
const TRACE_BYTES: usize = 16;
const SPAN_BYTES: usize = 8;
/// Longest text of an attribute.
const TEXT_CHARS: usize = 256;

/// The trace of a request. It follows from its line and its place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceId(Digest);

/// The id of a span in its trace.
pub(super) type SpanId = String;

impl TraceId {
    pub(super) fn of(request: Seq, taken: &TakenRequest) -> TraceId {
        let line = taken.line.sha256();
        TraceId(sha256(format!("trace {} {}", request.0, line.hex())))
    }

    pub(super) fn hex(self) -> String {
        self.0.hex()[..2 * TRACE_BYTES].to_owned()
    }

    fn span(self, what: &str) -> SpanId {
        sha256(format!("{} {what}", self.0.hex())).hex()[..2 * SPAN_BYTES].to_owned()
    }

    /// The span of the request, which has no parent.
    pub(super) fn request(self) -> SpanId {
        self.span("request")
    }

    /// The span of the attempt that this event started. Attempts that do not count share their number.
    pub(super) fn attempt(self, started: Seq) -> SpanId {
        self.span(&format!("attempt {}", started.0))
    }

    /// The span of a call: in which attempt, what is asked, and how often it was asked there.
    pub(super) fn call(self, started: Seq, call: &Digest, times: u64) -> SpanId {
        self.span(&format!("call {} {} {times}", started.0, call.hex()))
    }
}

/// The trace id of a request, for people who look it up.
pub(crate) fn trace_id(request: Seq, taken: &TakenRequest) -> String {
    TraceId::of(request, taken).hex()
}

/// What stands behind the numbers of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SpanKind {
    Internal = 1,
    Client = 3,
    /// It takes work from a queue.
    Consumer = 5,
}

#[derive(Debug, Clone)]
pub(super) struct TraceSpan {
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: SpanKind,
    pub start: Timestamp,
    pub end: Timestamp,
    pub attributes: Vec<Value>,
    pub events: Vec<Value>,
    /// Whether it stands for a failure.
    pub failed: bool,
}

impl TraceSpan {
    pub(super) fn to_json(&self) -> Value {
        let mut span = json!({
            "traceId": self.trace.hex(), "spanId": self.id, "name": shortened(&self.name),
            "kind": self.kind as u8, "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(self.end.max(self.start)), "attributes": self.attributes,
            // 0 says nothing, 2 is an error. Its words are left out: a server may repeat a question.
            "status": {"code": if self.failed { 2 } else { 0 }},
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = parent.as_str().into();
        }
        if !self.events.is_empty() {
            span["events"] = self.events.clone().into();
        }
        span
    }
}

pub(super) fn nanos(at: Timestamp) -> String {
    (i128::from(at.0.max(0)) * 1_000_000).to_string()
}

pub(super) fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": shortened(value)}})
}

pub(super) fn texts(key: &str, values: &[&str]) -> Value {
    let values: Vec<Value> = values.iter().map(|value| json!({"stringValue": value})).collect();
    json!({"key": key, "value": {"arrayValue": {"values": values}}})
}

pub(super) fn count(key: &str, value: impl TryInto<i64>) -> Value {
    let value = value.try_into().unwrap_or(i64::MAX);
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

pub(super) fn number(key: &str, value: f64) -> Value {
    json!({"key": key, "value": {"doubleValue": value}})
}

pub(super) fn flag(key: &str, value: bool) -> Value {
    json!({"key": key, "value": {"boolValue": value}})
}

fn shortened(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_CHARS).collect()
}
