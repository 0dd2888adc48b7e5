//! From a valid request line to the input that the core decides about.

use serde_json::Value;

use super::line::BYTE_ORDER_MARK;
use super::tail::{Batch, LineSpan};
use crate::contract::bytes::SharedBytes;
use crate::contract::request::Request;
use crate::contract::schema::is_quotable;
use crate::contract::time::Day;
use crate::contract::vocabulary::{ReasonCode, Urgency, Warning, Warnings};
use crate::registry::FlowDirectory;
use crate::state::decide::Arrival;
use crate::state::event::{AckHead, RequestLine, TakenRequest};

/// The bytes of a request: its line without a byte-order mark and without a final `\r`.
pub(crate) fn request_bytes(batch: &Batch, span: &LineSpan) -> SharedBytes {
    let (raw, mut range) = (batch.raw(span), span.range.clone());
    range.end -= usize::from(raw.ends_with(b"\r"));
    range.start += if raw.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    batch.bytes.slice(range)
}

/// A valid request as the core takes it: with its digests, the standing of its flow, and the reason
/// for which it is refused, if there is one.
pub(crate) fn arrival(
    request: Request,
    (line, offset): (u64, u64),
    text: SharedBytes,
    flows: &dyn FlowDirectory,
) -> Arrival {
    let key = request.effective_key();
    let work = if key.derived { key.digest } else { request.work_digest() };
    let id = request.id_digest();
    let flow = flows.standing(&request.work.flow_id, request.work.variant.as_deref());
    let refused = refusal(&request);
    let soft = request.urgency == Urgency::Now;
    let text = if request.may_hold_words() { RequestLine::to_seal(text) } else { text.into() };
    let mut warnings = request.warnings;
    if soft && request.not_before.is_some() {
        warnings = warnings.with(Warning::NotBeforeIsSoft);
    }
    let taken = TakenRequest {
        head: AckHead { request_id: request.request_id, key: key.text, line, offset },
        key: key.digest,
        id,
        work: work.head(),
        producer: request.requested_by.repo,
        flow_id: request.work.flow_id,
        variant: request.work.variant,
        kind: request.work.kind,
        bus: request.input.bus(),
        priority: request.priority,
        urgency: request.urgency,
        created_at: request.created_at,
        not_before: request.not_before,
        deadline: request.deadline,
        warnings,
        previous: None,
        supersedes: None,
        line: text,
    };
    Arrival { request: Box::new(taken), flow, refused, source: Warnings::default() }
}

/// The rules that refuse a request by its own words, without a look at the log or the registry.
fn refusal(request: &Request) -> Option<(ReasonCode, String)> {
    if !request.kind_fits() {
        let bus = request.input.bus().map_or("", |bus| bus.as_str());
        let message = format!("{} takes no input from {bus}", request.work.kind);
        return Some((ReasonCode::KindBusMismatch, message));
    }
    // A parameter that is null is absent.
    let param = |name: &str| request.work.params.get(name).filter(|value| !value.is_null());
    if let Some(flag) = param("publish").filter(|flag| !flag.is_boolean()) {
        let message = format!("params.publish must be true or false, not {}", kept(flag));
        return Some((ReasonCode::InvalidParams, message));
    }
    if let Some(project) = param("project").filter(|project| !project.is_string()) {
        let message = format!("params.project must be a text, not {}", kept(project));
        return Some((ReasonCode::InvalidParams, message));
    }
    let day = param("day")?;
    let is_day = day.as_str().is_some_and(|text| text.parse::<Day>().is_ok());
    (!is_day).then(|| {
        (
            ReasonCode::InvalidParams,
            format!("params.day must be a calendar date, not {}", kept(day)),
        )
    })
}

/// A value as a message shows it that is kept for ever: words of a text are not quoted.
fn kept(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        value if is_quotable(value) => value.to_string(),
        _ => "this text".to_owned(),
    }
}
