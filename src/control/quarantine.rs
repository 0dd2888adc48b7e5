//! Quarantined lines, read back from the log.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use serde_json::{Value, json};

use crate::contract::ids::Seq;
use crate::control::question::Answer;
use crate::explain::forgotten_on;
use crate::export::{Committed, quarantine};
use crate::log::{Reader, Record, codec};
use crate::state::event::Event;

use super::reply::AnswerError;

/// Events of the log that are looked through for one page, newest first.
const SCAN_MAX: u64 = 1_000_000;
/// How many of them one answer holds.
const SCANNED_AT_ONCE: u64 = 20_000;

pub(super) fn oldest_first(log: &Reader, after: Seq, limit: usize) -> Result<Answer, AnswerError> {
    let mut rows = Vec::new();
    let mut next = None;
    log.try_scan::<AnswerError>(after.next(), None, |entry| {
        // Only bad lines are decoded; the scan itself is cheap.
        if entry.tag != codec::LINE_QUARANTINED {
            return Ok(ControlFlow::Continue(()));
        }
        if rows.len() == limit {
            return Ok(ControlFlow::Break(()));
        }
        rows.extend(row(&Committed::of(&entry, log)?)?);
        next = Some(entry.seq.0);
        Ok(ControlFlow::Continue(()))
    })?;
    let next = next.filter(|_| rows.len() == limit);
    Ok(Answer::Ok(json!({"lines": rows, "next": next})))
}

/// The line of `run/quarantine.jsonl` that an event becomes.
fn row(committed: &Committed) -> Result<Option<Value>, AnswerError> {
    let line = quarantine::line(committed);
    let mut row: Option<Value> = line.map(|line| serde_json::from_str(&line)).transpose()?;
    if let (Some(row), true) = (&mut row, committed.event.has_line_beside()) {
        row["forgotten"] = true.into();
    }
    Ok(row)
}

/// The newest quarantined lines before an event. The log is read backwards in parts, and a bounded
/// stretch of it for one page: a page may be empty and still have a next one.
pub(super) fn newest_first(log: &Reader, before: Seq, limit: usize) -> Result<Answer, AnswerError> {
    let mut end = before.min(log.head().0.next());
    let lowest = Seq(end.0.saturating_sub(SCAN_MAX).max(1));
    let mut rows = Vec::new();
    while end > lowest && rows.len() < limit {
        let start = Seq(end.0.saturating_sub(SCANNED_AT_ONCE)).max(lowest);
        // The newest of this part, as many as are still wanted.
        let mut found: VecDeque<Record> = VecDeque::new();
        log.scan(start, Some(Seq(end.0 - 1)), &mut |entry| {
            if entry.tag == codec::LINE_QUARANTINED {
                if found.len() == limit - rows.len() {
                    found.pop_front();
                }
                found.push_back(entry.to_record());
            }
            ControlFlow::Continue(())
        })?;
        for record in found.iter().rev() {
            rows.extend(row(&Committed::of_record(record, log)?)?);
        }
        end = match found.front() {
            Some(oldest) if rows.len() == limit => oldest.seq,
            _ => start,
        };
    }
    let next = (end > Seq(1)).then_some(end.0);
    Ok(Answer::Ok(json!({"lines": rows, "next": next})))
}

/// What happened to the newest quarantined line with this request id, or with this number in the queue.
pub(super) fn told(log: &Reader, id: &str) -> Result<Option<String>, AnswerError> {
    let number: Option<u64> = id.parse().ok();
    let mut end = log.head().0.next();
    let lowest = Seq(end.0.saturating_sub(SCAN_MAX).max(1));
    while end > lowest {
        let start = Seq(end.0.saturating_sub(SCANNED_AT_ONCE)).max(lowest);
        let mut found = None;
        log.try_scan::<AnswerError>(start, Some(Seq(end.0 - 1)), |entry| {
            if entry.tag == codec::LINE_QUARANTINED
                && let Event::LineQuarantined(bad) = entry.event()?
                && (bad.request_id.as_deref() == Some(id) || number == Some(bad.line))
            {
                found = Some((entry.seq, bad));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some((seq, bad)) = found {
            let reason = bad.reason.as_str();
            let why = bad.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
            let more = match (bad.errors.len() as u64 + bad.errors_omitted).saturating_sub(1) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return Ok(Some(format!(
                "request {id} was not accepted: line {} of the queue is quarantined ({reason}){why}{more}; \
                 `summarizer quarantine show {}` shows it",
                bad.line, seq.0
            )));
        }
        end = start;
    }
    Ok(None)
}

pub(super) fn one(log: &Reader, seq: Seq) -> Result<Answer, AnswerError> {
    let found = match log.get(seq)? {
        Some(record) => row(&Committed::of_record(&record, log)?)?,
        None => None,
    };
    Ok(match found {
        Some(mut line) => {
            if line["forgotten"] == true {
                line["forgotten_on"] = forgotten_on(log, seq)?.into();
            }
            Answer::Ok(line)
        }
        None => Answer::NotFound(format!("no quarantined line {}", seq.0)),
    })
}
