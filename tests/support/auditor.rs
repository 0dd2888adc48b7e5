//! An auditor that knows the published contract and no part of the implementation.
//!
//! It reads three files: the queue, the acks and the quarantine. It finds the lines of the queue by
//! itself and compares every ack with them. It uses no log, state or table, so an error there cannot
//! hide here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use summarizer::contract::hash::sha256;
use summarizer::contract::schema;
use summarizer::contract::time::parse_instant;

/// The files to compare.
pub struct Evidence<'a> {
    pub queue: &'a [u8],
    pub acks: &'a [u8],
    pub quarantine: &'a [u8],
    /// All work is done: every line must have ended.
    pub finished: bool,
    /// The clock never went back, so times of acks can be compared with requested times.
    pub steady_clock: bool,
}

/// The result of an audit.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Lines that are not blank.
    pub lines: u64,
    /// The outcome that counts, by line.
    pub endings: BTreeMap<u64, String>,
    /// Items, each with the line that made it.
    pub items: BTreeMap<String, u64>,
    /// Acks by status.
    pub statuses: BTreeMap<String, u64>,
    /// The violations of the contract.
    pub complaints: Vec<String>,
}

impl Verdict {
    /// Fails the test on any violation.
    pub fn assert_clean(&self, told: &str) {
        assert!(
            self.complaints.is_empty(),
            "{told}: {} complaints\n{}",
            self.complaints.len(),
            self.complaints.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
        );
    }

    pub fn count(&self, status: &str) -> u64 {
        self.statuses.get(status).copied().unwrap_or(0)
    }
}

/// A line of the queue as the auditor reads it.
struct QueueLine<'a> {
    number: u64,
    offset: u64,
    bytes: &'a [u8],
    /// Unfinished at the end of the file and cut off.
    partial: bool,
}

struct Ack {
    seq: u64,
    at: i64,
    line: u64,
    status: String,
    request_id: Option<String>,
    attempt: bool,
    supersedes: Option<u64>,
    summary_id: Option<String>,
    value: Value,
}

const ENDINGS: [&str; 6] = [
    "completed",
    "rejected_invalid_schema",
    "rejected_unknown_flow",
    "rejected_invalid_input",
    "failed_permanent",
    "duplicate",
];

pub fn audit(evidence: &Evidence<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let quarantined = records(evidence.quarantine, "quarantine", &mut verdict);
    let acks = read_acks(evidence.acks, &mut verdict);
    let lines = split(evidence.queue, &quarantined, &acks, &mut verdict);
    let by_number: BTreeMap<u64, &QueueLine<'_>> =
        lines.iter().map(|line| (line.number, line)).collect();
    verdict.lines = lines.len() as u64;
    check_quarantine(&quarantined, &acks, &by_number, &mut verdict);
    for ack in &acks {
        *verdict.statuses.entry(ack.status.clone()).or_default() += 1;
        check_place(ack, &by_number, evidence.steady_clock, &mut verdict);
    }
    check_lives(&acks, &lines, evidence.finished, &mut verdict);
    check_outputs(&acks, &mut verdict);
    check_superseded(&acks, &mut verdict);
    verdict
}

fn records(bytes: &[u8], what: &str, verdict: &mut Verdict) -> Vec<Value> {
    if bytes.last().is_some_and(|last| *last != b'\n') {
        verdict.complaints.push(format!("{what}: the last line has no end"));
    }
    let mut found = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => found.push(value),
            Err(error) => {
                verdict.complaints.push(format!("{what} line {}: {error}", index + 1));
            }
        }
    }
    found
}

fn read_acks(bytes: &[u8], verdict: &mut Verdict) -> Vec<Ack> {
    let mut acks: Vec<Ack> = Vec::new();
    for value in records(bytes, "ack", verdict) {
        for violation in schema::check("summary_ack.v1", &value) {
            verdict.complaints.push(format!("ack {}: {violation:?}", value["ack_seq"]));
        }
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let at = parse_instant(value["at"].as_str().unwrap_or_default());
        let ack = Ack {
            seq: value["ack_seq"].as_u64().unwrap_or(0),
            at: at.map_or(i64::MIN, |instant| instant.at.0),
            line: value["line"].as_u64().unwrap_or(0),
            status: text("status").unwrap_or_default(),
            request_id: text("request_id"),
            attempt: !value["attempt"].is_null(),
            supersedes: value["supersedes"].as_u64(),
            summary_id: value["summary"]["summary_id"].as_str().map(str::to_owned),
            value,
        };
        if acks.last().is_some_and(|last| last.seq >= ack.seq) {
            verdict.complaints.push(format!("ack_seq {} does not increase", ack.seq));
        }
        acks.push(ack);
    }
    acks
}

/// The lines that are not blank. Where quarantine says that bytes without an end were cut off, as
/// a partial line or an over-long one, the next byte starts a line.
fn split<'a>(
    queue: &'a [u8],
    quarantined: &[Value],
    acks: &[Ack],
    verdict: &mut Verdict,
) -> Vec<QueueLine<'a>> {
    let numbers: BTreeMap<u64, u64> =
        acks.iter().filter_map(|ack| Some((ack.value["offset"].as_u64()?, ack.line))).collect();
    let mut cuts: BTreeMap<u64, u64> = BTreeMap::new();
    for record in quarantined {
        let place = ["offset", "length", "line"].map(|name| record[name].as_u64().unwrap_or(0));
        let [offset, length, number] = place;
        let end = offset + length;
        // An over-long line may have been cut off too, and its end written after all: then that
        // end is a blank line of its own, and the line behind it says so by its number.
        let ended = queue.get(end as usize) == Some(&b'\n')
            && numbers.get(&(end + 1)).is_none_or(|next| *next != number + 2);
        let reason = record["reason"].as_str().unwrap_or_default();
        if reason == "partial_line" || (reason == "line_too_long" && !ended) {
            cuts.insert(offset, length);
        }
    }
    let mut seen = BTreeSet::new();
    let (mut at, mut number, mut lines) = (0, 0, Vec::new());
    while at < queue.len() {
        number += 1;
        let rest = &queue[at..];
        let newline = rest.iter().position(|byte| *byte == b'\n');
        let (length, step, partial) = match (cuts.get(&(at as u64)), newline) {
            (Some(cut), _) => {
                seen.insert(at as u64);
                (*cut as usize, *cut as usize, true)
            }
            (None, Some(newline)) => (newline, newline + 1, false),
            // Unfinished and not cut off: it needs no ack yet.
            (None, None) => break,
        };
        if length > rest.len() || rest[..length].contains(&b'\n') {
            verdict.complaints.push(format!("the partial line at byte {at} is no part of a line"));
            break;
        }
        let bytes = &rest[..length];
        let content =
            if number == 1 { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) } else { bytes };
        let blank = content.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
        if partial || !blank {
            lines.push(QueueLine { number, offset: at as u64, bytes, partial });
        }
        at += step.max(1);
    }
    for offset in cuts.keys().filter(|offset| !seen.contains(*offset)) {
        verdict.complaints.push(format!("the partial line at byte {offset} starts inside a line"));
    }
    lines
}

fn check_quarantine(
    quarantined: &[Value],
    acks: &[Ack],
    lines: &BTreeMap<u64, &QueueLine<'_>>,
    verdict: &mut Verdict,
) {
    let mut last = 0;
    let acked: BTreeMap<u64, &Ack> = acks
        .iter()
        .filter(|ack| ack.status == "rejected_invalid_schema")
        .map(|ack| (ack.seq, ack))
        .collect();
    let mut seen = BTreeSet::new();
    for record in quarantined {
        for violation in schema::check("summary_request_quarantine.v1", record) {
            verdict.complaints.push(format!("quarantine {}: {violation:?}", record["seq"]));
        }
        let seq = record["seq"].as_u64().unwrap_or(0);
        if seq <= last {
            verdict.complaints.push(format!("quarantine seq {seq} does not increase"));
        }
        last = seq;
        seen.insert(seq);
        match acked.get(&seq) {
            None => verdict.complaints.push(format!("quarantine {seq} has no ack")),
            Some(ack) => {
                for name in ["line", "offset", "request_id", "log_head", "at"] {
                    if ack.value[name] != record[name] {
                        verdict
                            .complaints
                            .push(format!("quarantine {seq} and its ack differ in {name}"));
                    }
                }
            }
        }
        let Some(line) = record["line"].as_u64().and_then(|number| lines.get(&number)) else {
            verdict.complaints.push(format!("quarantine {seq} is about a line that is not there"));
            continue;
        };
        let same = record["offset"] == line.offset
            && record["length"] == line.bytes.len() as u64
            && record["sha256"] == sha256(line.bytes).hex();
        if !same {
            verdict
                .complaints
                .push(format!("quarantine {seq} is not what line {} is", line.number));
        }
        let whole = record["raw"].as_str().is_none_or(|raw| raw.as_bytes() == line.bytes);
        if !whole {
            verdict.complaints.push(format!("quarantine {seq} does not preserve the line"));
        }
    }
    for seq in acked.keys().filter(|seq| !seen.contains(*seq)) {
        verdict.complaints.push(format!("ack {seq} of a bad line without a quarantine record"));
    }
}

/// The request on a line, if the line is a JSON object.
fn request_on(line: &QueueLine<'_>) -> Option<Value> {
    let text = line.bytes.strip_suffix(b"\r").unwrap_or(line.bytes);
    let text =
        if line.number == 1 { text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text) } else { text };
    serde_json::from_slice::<Value>(text).ok().filter(Value::is_object)
}

fn check_place(
    ack: &Ack,
    lines: &BTreeMap<u64, &QueueLine<'_>>,
    steady_clock: bool,
    verdict: &mut Verdict,
) {
    let mut complain = |what: String| verdict.complaints.push(format!("ack {}: {what}", ack.seq));
    let Some(line) = lines.get(&ack.line) else {
        return complain(format!("is about line {}, which is not there", ack.line));
    };
    if ack.value["offset"].as_u64() != Some(line.offset) {
        complain(format!("line {} does not begin there", ack.line));
    }
    if ack.status == "rejected_invalid_schema" {
        return;
    }
    let Some(request) = request_on(line).filter(|_| !line.partial) else {
        return complain("treats bytes that are no request as one".to_owned());
    };
    if request["request_id"].as_str() != ack.request_id.as_deref() {
        complain(format!("names {:?}, the line {}", ack.request_id, request["request_id"]));
    }
    let key = ack.value["idempotency_key"].as_str().unwrap_or_default();
    match request["idempotency_key"].as_str() {
        Some(given) if given != key => complain(format!("key {key:?} is not the given {given:?}")),
        None if !key.starts_with("derived:") => complain(format!("key {key:?} is not derived")),
        _ => {}
    }
    let due = request["not_before"].as_str().and_then(|text| parse_instant(text).ok());
    if let Some(due) = due.filter(|_| request["urgency"] == "scheduled")
        && steady_clock
        && ack.attempt
        && ack.at < due.at.0
    {
        complain("something ran before the request's not_before".to_owned());
    }
}

/// Each line may be accepted, may have attempts, and ends once. After an outcome without output it may
/// start again; its new outcome then replaces the old one.
fn check_lives(acks: &[Ack], lines: &[QueueLine<'_>], finished: bool, verdict: &mut Verdict) {
    let mut by_line: BTreeMap<u64, Vec<&Ack>> = BTreeMap::new();
    for ack in acks {
        by_line.entry(ack.line).or_default().push(ack);
    }
    for line in lines {
        let life = by_line.remove(&line.number).unwrap_or_default();
        let mut ended: Option<&Ack> = None;
        let (mut accepted, mut open) = (false, false);
        let mut complain =
            |what: String| verdict.complaints.push(format!("line {}: {what}", line.number));
        for ack in life {
            match ack.status.as_str() {
                // A request waits for another with the same key, also when it gives its key to an urgent
                // one. It is accepted again when it has the key.
                "accepted" if ack.value["reason_code"] == "key_in_flight" => {
                    (accepted, open) = (false, true);
                }
                // It waits for another request with the same work, and may continue without another ack.
                "accepted" if accepted && ack.value["reason_code"] == "identical_work" => {
                    open = true;
                }
                "accepted" if accepted => complain(format!("accepted twice, ack {}", ack.seq)),
                "accepted" => (accepted, open) = (true, true),
                "failed_transient" if !accepted => {
                    complain(format!("tried but never accepted, ack {}", ack.seq));
                }
                "failed_transient" => {}
                status if ENDINGS.contains(&status) => {
                    let again = ended.is_some_and(|ended| {
                        ended.summary_id.is_some() || ack.supersedes != Some(ended.seq)
                    });
                    if again {
                        complain(format!("ended again as {status}, ack {}", ack.seq));
                    }
                    if ack.attempt && !accepted {
                        complain(format!("ran but never accepted, ack {}", ack.seq));
                    }
                    (ended, accepted, open) = (Some(ack), false, false);
                }
                status => complain(format!("unknown status {status}")),
            }
        }
        match ended {
            Some(ended) if !open => {
                verdict.endings.insert(line.number, ended.status.clone());
            }
            _ if finished => complain("never ended".to_owned()),
            _ => {}
        }
    }
    for number in by_line.keys() {
        verdict.complaints.push(format!("acks of line {number}, which is not there or blank"));
    }
}

/// A key has at most one item, an item has one maker, and every duplicate points at an existing item.
fn check_outputs(acks: &[Ack], verdict: &mut Verdict) {
    let mut by_key: BTreeMap<&str, &str> = BTreeMap::new();
    let mut makers: BTreeMap<&str, &Ack> = BTreeMap::new();
    for ack in acks {
        let mut complain = |what: String| {
            verdict.complaints.push(format!("ack {}: {what}", ack.seq));
        };
        let Some(summary_id) = ack.summary_id.as_deref() else {
            let skipped = ack.value["reason_code"].as_str();
            let is_skip = skipped.is_some_and(|reason| reason.starts_with("skipped_"));
            if ack.status == "duplicate" || (ack.status == "completed" && !is_skip) {
                complain("has no item and says no reason".to_owned());
            }
            continue;
        };
        let key = ack.value["idempotency_key"].as_str().unwrap_or_default();
        match ack.status.as_str() {
            "completed" => {
                if let Some(other) = by_key.insert(key, summary_id).filter(|o| *o != summary_id) {
                    complain(format!("key {key} has items {other} and {summary_id}"));
                }
                if makers.insert(summary_id, ack).is_some() {
                    complain(format!("item {summary_id} was made twice"));
                }
                verdict.items.insert(summary_id.to_owned(), ack.line);
            }
            "duplicate" => match makers.get(summary_id) {
                None => complain(format!("points at {summary_id}, which nobody made yet")),
                Some(maker) => {
                    if ack.value["duplicate_of"].as_str() != maker.request_id.as_deref() {
                        complain(format!("{summary_id} was not made by its duplicate_of"));
                    }
                    if ack.value["summary"] != maker.value["summary"] {
                        complain(format!("points at {summary_id} elsewhere than its maker"));
                    }
                    if let Some(own) = by_key.get(key).filter(|own| **own != summary_id) {
                        complain(format!("key {key} has items {own} and {summary_id}"));
                    }
                }
            },
            status => complain(format!("is {status} and has an item")),
        }
    }
}

/// A superseded ack must be an earlier outcome of the same request without an item, superseded only
/// once.
fn check_superseded(acks: &[Ack], verdict: &mut Verdict) {
    let by_seq: BTreeMap<u64, &Ack> = acks.iter().map(|ack| (ack.seq, ack)).collect();
    let mut replaced = BTreeSet::new();
    for ack in acks {
        let Some(old) = ack.supersedes else { continue };
        let right = by_seq.get(&old).is_some_and(|older| {
            older.seq < ack.seq
                && ENDINGS.contains(&older.status.as_str())
                && older.summary_id.is_none()
                && older.request_id == ack.request_id
        });
        if !right || !replaced.insert(old) {
            verdict.complaints.push(format!("ack {} wrongly supersedes {old}", ack.seq));
        }
    }
}
