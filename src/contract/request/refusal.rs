//! Says everything that is wrong with a line that was refused. Slow and thorough: it runs only
//! for bad lines.
//!
//! The reason is the first fault in this list that the line has: not UTF-8, not JSON, not an object,
//! nested too deep, a member twice, a schema violation.

use std::str::Utf8Error;

use serde::de::{DeserializeSeed as _, IgnoredAny};
use serde_json::Value;
use serde_json::error::Category;

use super::strict::Keep;
use super::{Refusal, SCHEMA};
use crate::contract::schema::{self, Violation};
use crate::contract::vocabulary::QuarantineReason;
use crate::limits::{JSON_DEPTH_MAX, VIOLATIONS_MAX};

/// The refusal of bytes that are no text.
pub(super) fn not_utf8(error: Utf8Error) -> Refusal {
    let message = format!("not UTF-8 at byte {}", error.valid_up_to());
    Refusal::whole_line(QuarantineReason::NotUtf8, message)
}

/// The refusal of a text the typed reader did not accept.
pub(super) fn explain(text: &str) -> Refusal {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return malformed(text, &error);
    }
    if !text.trim_start().starts_with('{') {
        return Refusal::whole_line(
            QuarantineReason::NotAnObject,
            "expected one JSON object".to_owned(),
        );
    }
    let depth = nesting(text);
    if depth > JSON_DEPTH_MAX {
        let message = format!("nested {depth} levels deep, {JSON_DEPTH_MAX} are allowed");
        return Refusal::whole_line(QuarantineReason::TooDeep, message).naming(text);
    }
    match Keep(1).deserialize(&mut serde_json::Deserializer::from_str(text)) {
        Ok(value) => violations(&value),
        // Here the strict reader itself can only have found a repeated member. It stops at that
        // member, so an invalid number or escape after it was not checked yet.
        Err(error) if error.classify() == Category::Data => {
            match serde_json::from_str::<Value>(text) {
                Ok(_) => Refusal::whole_line(QuarantineReason::DuplicateMember, error.to_string())
                    .naming(text),
                Err(error) => malformed(text, &error),
            }
        }
        Err(error) => malformed(text, &error),
    }
}

fn malformed(text: &str, error: &serde_json::Error) -> Refusal {
    let mut message = error.to_string();
    if text.contains('\0') {
        message.push_str("; the line has NUL bytes, as a crash of its writer leaves them");
    }
    Refusal::whole_line(QuarantineReason::MalformedJson, message)
}

/// The deepest nesting of a text that is known to be JSON.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
    }
    deepest
}

fn violations(value: &Value) -> Refusal {
    let (mut errors, errors_omitted) = schema::check_bounded(SCHEMA, value, VIOLATIONS_MAX);
    if errors.is_empty() {
        // Tests check that both readers agree. If they ever differ, the line still gets a reason.
        let message = "the typed reader refuses what the schema accepts".to_owned();
        errors.push(Violation { pointer: String::new(), message });
    }
    let request_id = value.get("request_id").and_then(Value::as_str).map(str::to_owned);
    Refusal { reason: QuarantineReason::SchemaViolation, request_id, errors, errors_omitted }
}

impl Refusal {
    /// Finds the request id of an object that cannot be kept as a tree.
    fn naming(mut self, text: &str) -> Refusal {
        self.request_id = lone_request_id(text);
        self
    }
}

fn lone_request_id(text: &str) -> Option<String> {
    // serde's derive refuses a repeated member that it knows, and ignores other repeated members.
    #[derive(serde::Deserialize)]
    struct Named {
        request_id: String,
    }
    serde_json::from_str::<Named>(text).ok().map(|named| named.request_id)
}
