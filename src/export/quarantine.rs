//! `summary_request_quarantine.v1`: every line that could not be accepted, preserved and explained.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::Committed;
use crate::contract::json;
use crate::state::event::{BadLine, Event, RawLine, RawMember};

/// The exact `schema_version` of a quarantine record.
pub const QUARANTINE_SCHEMA: &str = "summary_request_quarantine.v1";

/// The quarantine record an event projects to, terminator included.
pub fn line(committed: &Committed) -> Option<String> {
    let Event::LineQuarantined(bad) = &committed.event else { return None };
    let mut record = facts(bad);
    record.insert("schema_version".into(), QUARANTINE_SCHEMA.into());
    record.insert("seq".into(), committed.seq.0.into());
    record.insert("log_head".into(), committed.hash.hex().into());
    record.insert("at".into(), committed.at.to_string().into());
    Some(format!("{}\n", json::line(&Value::Object(record))))
}

fn facts(bad: &BadLine) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("line".into(), bad.line.into());
    record.insert("offset".into(), bad.offset.into());
    record.insert("length".into(), bad.length.into());
    record.insert("sha256".into(), bad.sha256.hex().into());
    record.insert("reason".into(), bad.reason.as_str().into());
    record.insert("request_id".into(), json!(bad.request_id));
    record.insert("errors".into(), json!(bad.errors));
    record.insert("errors_omitted".into(), bad.errors_omitted.into());
    let (member, value) = raw(&bad.raw);
    record.insert(member.as_str().into(), value.into());
    record
}

/// The bytes of a line that are to be sealed beside the record of its event, and the event without them.
pub(crate) fn without_line(event: &Event) -> Option<(Event, Vec<u8>)> {
    let Event::LineQuarantined(bad) = event else { return None };
    let (RawLine::Whole(bytes) | RawLine::Prefix(bytes)) = &bad.raw else { return None };
    let (member, value) = raw(&bad.raw);
    // Two of them are quotation marks.
    let shown = json::line(&value.into()).len() as u64 - 2;
    let away = BadLine { raw: RawLine::Away { member, shown }, ..(**bad).clone() };
    Some((Event::LineQuarantined(Box::new(away)), bytes.clone()))
}

/// Whether blanks stand in the place of the line of a record. A line of blanks is no request and not quarantined either, and
/// bytes of zero are text.
pub(crate) fn is_taken_back(record: &Value) -> bool {
    let all = |member: RawMember, blank: char| {
        let shown = record[member.as_str()].as_str().unwrap_or_default();
        !shown.is_empty() && shown.chars().all(|sign| sign == blank)
    };
    all(RawMember::Text, ' ') || all(RawMember::Prefix, ' ') || all(RawMember::Base64, 'A')
}

/// The bytes are in exactly one of three members: `raw` when they are text, `raw_base64` when not,
/// and `raw_prefix` when only the first of them are kept, with what is not text replaced. Blanks stand in the place of a
/// line that was taken back.
fn raw(raw: &RawLine) -> (RawMember, String) {
    match raw {
        RawLine::Whole(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => (RawMember::Text, text.to_owned()),
            Err(_) => (RawMember::Base64, BASE64.encode(bytes)),
        },
        RawLine::Prefix(bytes) => (RawMember::Prefix, prefix_text(bytes)),
        RawLine::Away { member, shown } => {
            let blank = if *member == RawMember::Base64 { "A" } else { " " };
            (*member, blank.repeat(usize::try_from(*shown).unwrap_or(0)))
        }
    }
}

/// The prefix as text; a character that the cut split is left out.
fn prefix_text(prefix: &[u8]) -> String {
    match std::str::from_utf8(prefix) {
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&prefix[..error.valid_up_to()]).into_owned()
        }
        _ => String::from_utf8_lossy(prefix).into_owned(),
    }
}
