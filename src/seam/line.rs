//! From the lines of a batch to requests and quarantined lines. Pure, so any thread may do it.
//!
//! A bad line never stops the next one: it becomes a [`QuarantinedLine`] with its reason, every
//! violation by place, and its bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::tail::{Batch, LineForm, LineSpan};
use crate::contract::hash::{Digest, sha256};
use crate::contract::request::{Refusal, Request};
use crate::contract::schema::Violation;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::QuarantineReason;
use crate::limits::QUARANTINE_PREFIX_BYTES;

/// The exact `schema_version` of a quarantine record.
pub const QUARANTINE_SCHEMA: &str = "summary_request_quarantine.v1";

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line of a batch, read.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedLine {
    /// Where it is.
    pub span: LineSpan,
    /// What it is.
    pub content: LineContent,
}

/// What a line turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub enum LineContent {
    /// Nothing but white space: skipped and counted.
    Blank,
    /// A valid request.
    Request(Box<Request>),
    /// Set aside.
    Quarantined(Box<QuarantinedLine>),
}

/// A line that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedLine {
    /// Line number, from 1.
    pub number: u64,
    /// Where it begins in the queue file.
    pub offset: u64,
    /// How many bytes it has, `\n` excluded.
    pub length: u64,
    /// Hash of all of them.
    pub sha256: Digest,
    /// Why.
    pub reason: QuarantineReason,
    /// Its request id, when it has one.
    pub request_id: Option<String>,
    /// What is wrong, by place.
    pub errors: Vec<Violation>,
    /// How many more violations there are.
    pub errors_omitted: u64,
    /// The bytes, or the first of them when the line is over-long.
    pub raw: Vec<u8>,
}

/// Reads every line of a batch, in order.
pub fn parse_batch(batch: &Batch) -> Vec<ParsedLine> {
    batch.lines.iter().map(|span| parse_line(batch, span)).collect()
}

/// Reads one line of a batch.
pub fn parse_line(batch: &Batch, span: &LineSpan) -> ParsedLine {
    let raw = batch.raw(span);
    let content = match span.form {
        LineForm::Whole => read_whole(span, raw),
        LineForm::Partial => {
            let message = "the line has no end and the file did not grow for the grace period";
            set_aside(span, raw, sha256(raw), lone(QuarantineReason::PartialLine, message.into()))
        }
        LineForm::TooLong(hash) => {
            let message = format!("the line has {} bytes, more than are allowed", span.length);
            set_aside(span, raw, hash, lone(QuarantineReason::LineTooLong, message))
        }
    };
    ParsedLine { span: span.clone(), content }
}

fn read_whole(span: &LineSpan, raw: &[u8]) -> LineContent {
    let mut text = raw.strip_suffix(b"\r").unwrap_or(raw);
    if span.offset == 0 {
        text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    }
    if text.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
        return LineContent::Blank;
    }
    match Request::parse(text) {
        Ok(request) => LineContent::Request(Box::new(request)),
        Err(refusal) => set_aside(span, raw, sha256(raw), refusal),
    }
}

fn lone(reason: QuarantineReason, message: String) -> Refusal {
    let errors = vec![Violation { pointer: String::new(), message }];
    Refusal { reason, request_id: None, errors, errors_omitted: 0 }
}

fn set_aside(span: &LineSpan, raw: &[u8], sha256: Digest, refusal: Refusal) -> LineContent {
    LineContent::Quarantined(Box::new(QuarantinedLine {
        number: span.number,
        offset: span.offset,
        length: span.length,
        sha256,
        reason: refusal.reason,
        request_id: refusal.request_id,
        errors: refusal.errors,
        errors_omitted: refusal.errors_omitted,
        raw: raw.to_vec(),
    }))
}

/// The `summary_request_quarantine.v1` record of a line, given the event that set it aside.
///
/// The bytes are in exactly one of three members: `raw` when they are text, `raw_base64` when
/// not, and `raw_prefix` when only the first of them are kept, with what is not text replaced.
pub fn record(line: &QuarantinedLine, seq: u64, log_head: Digest, at: Timestamp) -> Value {
    let mut record = json!({
        "schema_version": QUARANTINE_SCHEMA,
        "seq": seq,
        "log_head": log_head.hex(),
        "at": at.to_string(),
        "line": line.number,
        "offset": line.offset,
        "length": line.length,
        "sha256": line.sha256.hex(),
        "reason": line.reason,
        "request_id": line.request_id,
        "errors": line.errors,
        "errors_omitted": line.errors_omitted,
    });
    let (name, bytes) = if line.raw.len() as u64 != line.length {
        ("raw_prefix", prefix_text(&line.raw))
    } else {
        match std::str::from_utf8(&line.raw) {
            Ok(text) => ("raw", text.to_owned()),
            Err(_) => ("raw_base64", STANDARD.encode(&line.raw)),
        }
    };
    record[name] = bytes.into();
    record
}

/// The prefix as text; a character that the cut split is left out.
fn prefix_text(prefix: &[u8]) -> String {
    let prefix = &prefix[..prefix.len().min(QUARANTINE_PREFIX_BYTES)];
    match std::str::from_utf8(prefix) {
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&prefix[..error.valid_up_to()]).into_owned()
        }
        _ => String::from_utf8_lossy(prefix).into_owned(),
    }
}
