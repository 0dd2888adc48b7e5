//! From the lines of a batch to requests and quarantined lines. Pure, so any thread may do it.
//!
//! A bad line never stops the next one: it becomes a [`BadLine`] with its reason, every violation
//! by place, and its bytes.

use super::tail::{Batch, LineForm, LineSpan};
use crate::contract::hash::{Digest, sha256};
use crate::contract::request::{Refusal, Request};
use crate::contract::vocabulary::QuarantineReason;
use crate::state::event::{BadLine, RawLine};

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line of a batch, read.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedLine {
    pub span: LineSpan,
    pub content: LineContent,
}

/// What a line turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub enum LineContent {
    /// Nothing but white space: skipped and counted.
    Blank,
    Request(Box<Request>),
    Quarantined(Box<BadLine>),
}

/// Reads every line of a batch, in order.
#[cfg(any(test, feature = "internals"))]
pub fn parse_batch(batch: &Batch) -> Vec<ParsedLine> {
    batch.lines.iter().map(|span| parse_line(batch, span)).collect()
}

/// Reads one line of a batch.
pub(crate) fn parse_line(batch: &Batch, span: &LineSpan) -> ParsedLine {
    parse_as(batch, span, Request::parse)
}

/// Reads a line that was accepted as a request, perhaps before a rule of today was there.
pub(crate) fn parse_accepted(batch: &Batch, span: &LineSpan) -> ParsedLine {
    parse_as(batch, span, Request::parse_stored)
}

fn parse_as(batch: &Batch, span: &LineSpan, read: Read) -> ParsedLine {
    let raw = batch.raw(span);
    let content = match span.form {
        LineForm::Whole => read_whole(span, raw, read),
        LineForm::Partial => {
            let message = "the line has no end and the file did not grow for the grace period";
            set_aside(
                span,
                raw,
                sha256(raw),
                Refusal::whole_line(QuarantineReason::PartialLine, message.into()),
            )
        }
        LineForm::TooLong(hash) => {
            let message = format!("the line has {} bytes, more than are allowed", span.length);
            set_aside(span, raw, hash, Refusal::whole_line(QuarantineReason::LineTooLong, message))
        }
    };
    ParsedLine { span: span.clone(), content }
}

/// How the words of a line become a request.
type Read = fn(&[u8]) -> Result<Request, Refusal>;

fn read_whole(span: &LineSpan, raw: &[u8], read: Read) -> LineContent {
    let mut text = raw.strip_suffix(b"\r").unwrap_or(raw);
    if span.offset == 0 {
        text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    }
    if text.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
        return LineContent::Blank;
    }
    match read(text) {
        Ok(request) => LineContent::Request(Box::new(request)),
        Err(refusal) => set_aside(span, raw, sha256(raw), refusal),
    }
}

fn set_aside(span: &LineSpan, raw: &[u8], sha256: Digest, refusal: Refusal) -> LineContent {
    let whole = raw.len() as u64 == span.length;
    LineContent::Quarantined(Box::new(BadLine {
        line: span.number,
        offset: span.offset,
        length: span.length,
        sha256,
        reason: refusal.reason,
        request_id: refusal.request_id,
        errors: refusal.errors,
        errors_omitted: refusal.errors_omitted,
        raw: if whole { RawLine::Whole(raw.to_vec()) } else { RawLine::Prefix(raw.to_vec()) },
    }))
}
