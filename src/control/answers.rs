//! Answers to the questions of [`crate::control::socket`], the same in process and over the socket.
//!
//! What needs memory is taken while the sequencer waits, and is small; what needs reading is
//! handed back as [`Reply::Later`] and read by whoever asked, beside the running service.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::contract::hash::{Digest, push_hex};
use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Timestamp;
use crate::control::question::{Answer, Question, done};
use crate::explain::event_json::{event_json, pause_word, taken_json};
use crate::explain::{Around, ExplainError, Wanted, explain};
use crate::export::{Committed, ack, quarantine};
use crate::facts::publication::DayOpened;
use crate::home::Home;
use crate::limits::QUERY_PAGE_ROWS;
use crate::log::codec::{self, CodecError};
use crate::log::{LogError, ReadError, Reader, Record};
use crate::os::Machine;
use crate::registry::SharedFlows;
use crate::sequencer::engine::{Engine, EngineError, OperatorError};
use crate::sequencer::mark::QueueMark;
use crate::state::decide::Refused;
use crate::state::event::{Event, PauseCause, TakenRequest};
use crate::state::{Open, Past as _, Row, State, Status};
use crate::upkeep::copy::Page;
use crate::upkeep::retention;
use crate::upstream::IndexStore;

/// Rows looked at for one page when a filter passes few.
const SCANNED_PER_PAGE: usize = 20_000;
/// Events of one request that are listed.
const HISTORY_EVENTS_MAX: usize = 1000;
/// Events looked through for them.
const HISTORY_SCAN_MAX: u64 = 5_000_000;

/// Events of the log that are looked through for one page of quarantined lines, newest first, and
/// how many of them at once.
const QUARANTINE_SCAN_MAX: u64 = 1_000_000;
const QUARANTINE_PIECE: u64 = 20_000;

/// An answer, or the work that leads to one.
pub enum Reply {
    /// Ready.
    Now(Answer),
    /// To be read from the log, by any thread.
    Later(Box<dyn FnOnce() -> Answer + Send>),
}

/// What an answer can depend on beside the engine.
pub struct Surroundings<'a> {
    /// The moment of asking.
    pub now: Timestamp,
    /// Clock and disk.
    pub machine: &'a Machine,
    /// Where things lie.
    pub home: &'a Home,
    /// Settings.
    pub config: &'a Config,
    /// Where upstream ids are looked up.
    pub index: &'a Arc<dyn IndexStore>,
    /// Flows as registered.
    pub flows: &'a SharedFlows,
    /// Bytes of the queue file.
    pub queue_bytes: u64,
    /// Bytes free on its disk.
    pub free_bytes: Option<u64>,
}

/// Answers a question. Orders leave their events in the batch: the caller commits before replying.
pub fn answer(
    engine: &mut Engine,
    around: &Surroundings<'_>,
    question: Question,
) -> Result<Reply, EngineError> {
    let now = around.now;
    match question {
        Question::Status => Ok(Reply::Now(Answer::Ok(status(engine, around)?))),
        Question::Requests { state, flow, since_ms, before, limit } => {
            let filter = match Filter::new(state.as_deref(), flow, since_ms) {
                Ok(filter) => filter,
                Err(why) => return Ok(Reply::Now(Answer::Refused(why))),
            };
            let before = Seq(before.unwrap_or(u64::MAX));
            let limit = limit.unwrap_or(QUERY_PAGE_ROWS).clamp(1, QUERY_PAGE_ROWS);
            Ok(requests(engine, now, filter, before, limit))
        }
        Question::Show { id } => show(engine, now, &id),
        Question::Explain { id, verify, prompts, texts } => {
            explained(engine, around, &id, Wanted { verify, prompts, texts })
        }
        Question::DayOpen { day, inputs } => {
            engine.record(Event::DayOpened(Box::new(DayOpened { day, inputs })), now)?;
            Ok(Reply::Now(done("opened")))
        }
        Question::Quarantine { after, limit } => {
            let log = engine.log().clone();
            let limit = limit.unwrap_or(QUERY_PAGE_ROWS).clamp(1, QUERY_PAGE_ROWS);
            Ok(later(move || quarantined(&log, Seq(after), limit)))
        }
        Question::QuarantineBack { before, limit } => {
            let log = engine.log().clone();
            let before = Seq(before.unwrap_or(u64::MAX));
            let limit = limit.unwrap_or(QUERY_PAGE_ROWS).clamp(1, QUERY_PAGE_ROWS);
            Ok(later(move || quarantined_back(&log, before, limit)))
        }
        Question::QuarantineShow { seq } => {
            let log = engine.log().clone();
            Ok(later(move || quarantined_one(&log, Seq(seq))))
        }
        Question::QuarantineReleased { seq, request_id } => {
            let quarantined = Seq(seq);
            if !matches!(engine.log().event(quarantined)?, Some(Event::LineQuarantined(_))) {
                return Ok(not_found(format!("no quarantined line {seq}")));
            }
            engine.record(Event::QuarantineReleased { quarantined, request_id }, now)?;
            Ok(Reply::Now(done("released")))
        }
        Question::Retry { request_id } => {
            let flows = Arc::clone(&around.flows.read());
            let flow_of =
                |taken: &TakenRequest| flows.standing(&taken.flow_id, taken.variant.as_deref());
            granted(engine.retry(&request_id, flow_of, now), "retry")
        }
        Question::Cancel { request_id } => granted(engine.cancel(&request_id, now), "cancelled"),
        Question::Pause => {
            let changed = engine.pause(PauseCause::Operator, true, now)?;
            Ok(Reply::Now(done(if changed { "paused" } else { "paused already" })))
        }
        Question::Resume => {
            let changed = engine.pause(PauseCause::Operator, false, now)?;
            Ok(Reply::Now(done(if changed { "resumed" } else { "not paused" })))
        }
        Question::Reload { accept_mutations: false } => {
            let why = "reload is for a running service; a command reads its settings at start";
            Ok(Reply::Now(Answer::Refused(why.to_owned())))
        }
        Question::Reload { accept_mutations: true } => {
            let found = around.flows.read().mutations(engine.state().flows());
            engine.accept_packs(&found, now)?;
            Ok(Reply::Now(done(&format!("{} accepted", found.len()))))
        }
        Question::FlowsUsed => {
            let used = engine.state().flows().used.iter();
            let used: Vec<Value> = used
                .map(|((flow_id, variant), pack)| {
                    json!({"flow_id": flow_id, "variant": variant, "pack_hash": pack.hex()})
                })
                .collect();
            Ok(Reply::Now(Answer::Ok(json!({"flows": used}))))
        }
        Question::Run(_) => {
            let why = "this command does not keep runs";
            Ok(Reply::Now(Answer::Refused(why.to_owned())))
        }
        Question::Digest { .. } | Question::DigestAnswer { .. } => {
            let why = "digests are built by a running service or by the command itself";
            Ok(Reply::Now(Answer::Refused(why.to_owned())))
        }
        Question::LogStats => {
            let log = engine.log().clone();
            Ok(later(move || Ok(log_stats(&log)?)))
        }
        Question::LogVerify { anchors } => {
            let log = engine.log().clone();
            Ok(later(move || log_verify(&log, &anchors)))
        }
        Question::LogDump { from, limit } => {
            let log = engine.log().clone();
            let limit = limit.unwrap_or(QUERY_PAGE_ROWS).clamp(1, QUERY_PAGE_ROWS);
            Ok(later(move || log_page(&log, Seq(from), limit)))
        }
        Question::LogCopy { from, until } => {
            let log = engine.log().clone();
            Ok(later(move || Ok(copy_page(&log, Seq(from), until.map(Seq)))))
        }
    }
}

fn copy_page(log: &Reader, from: Seq, until: Option<Seq>) -> Answer {
    let head = log.head();
    let until = until.unwrap_or(head.0).min(head.0);
    let page = Page::read(log, from, until).to_wire();
    let mut store_id = String::new();
    push_hex(&mut store_id, &log.store_id());
    Answer::Ok(json!({
        "store_id": store_id, "head": head.0.0, "hash": head.1.hex(), "page": page,
    }))
}

/// An answer could not be read.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Past(#[from] ReadError),
    #[error("read event {seq}")]
    Event { seq: Seq, source: CodecError },
    #[error("read a row")]
    Row(#[from] CodecError),
    #[error(transparent)]
    Explain(#[from] ExplainError),
    #[error("show the explanation")]
    Json(#[from] serde_json::Error),
}

fn later(work: impl FnOnce() -> Result<Answer, AnswerError> + Send + 'static) -> Reply {
    Reply::Later(Box::new(move || {
        work().unwrap_or_else(|error| {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            Answer::Refused(text)
        })
    }))
}

fn not_found(what: String) -> Reply {
    Reply::Now(Answer::NotFound(what))
}

fn granted(result: Result<(), OperatorError>, what: &str) -> Result<Reply, EngineError> {
    match result {
        Ok(()) => Ok(Reply::Now(done(what))),
        Err(OperatorError::Engine(error)) => Err(error),
        Err(OperatorError::Refused(Refused::Past(error))) => Err(error.into()),
        Err(OperatorError::Refused(refused @ Refused::NoSuchRequest(_))) => {
            Ok(not_found(refused.to_string()))
        }
        Err(OperatorError::Refused(refused)) => {
            Ok(Reply::Now(Answer::Refused(refused.to_string())))
        }
    }
}

fn status(engine: &Engine, around: &Surroundings<'_>) -> Result<Value, EngineError> {
    let state = engine.state();
    let (head, hash) = engine.log().head();
    let mark = QueueMark::decode(&engine.log().mark()).map(|mark| mark.position);
    let (offset, lines) = mark.map_or((0, 0), |position| (position.offset, position.lines));
    let run = state.run().map(|run| {
        json!({"run_id": run.run_id, "command": run.command, "started_at": run.started_at.to_string()})
    });
    let totals = state.totals();
    let by_status: Map<String, Value> = Status::ALL
        .into_iter()
        .map(|status| {
            let count = totals.by_status.get(&status).copied().unwrap_or(0);
            (status.as_str().to_owned(), count.into())
        })
        .collect();
    let by_reason: Map<String, Value> = totals
        .by_reason
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| (reason.as_str().to_owned(), (*count).into()))
        .collect();
    let oldest = state.open_from(Seq(0)).next().map(|(_, open)| {
        json!({"taken_at": open.row.taken_at.to_string(),
               "waited_ms": around.now.ms_since(open.row.taken_at)})
    });
    let paused: Vec<&str> = state.paused().iter().map(pause_word).collect();
    Ok(json!({
        "at": around.now.to_string(),
        "run": run,
        "paused": paused,
        "queue": {
            "offset": offset, "lines": lines, "bytes": around.queue_bytes,
            "lag_bytes": around.queue_bytes.saturating_sub(offset),
        },
        "requests": {
            "taken": totals.taken, "open": state.open_count(), "ready": state.ready_count(),
            "delayed": state.delayed_count(), "running": state.running_count(),
            "by_status": by_status, "by_reason": by_reason,
        },
        "quarantined": totals.quarantined,
        "oldest_open": oldest,
        "next_eligible": state.next_eligible().map(|at| at.to_string()),
        "log": {
            "head": head.0, "hash": hash.hex(), "checkpoint": engine.log().applied().0,
            "bytes": engine.log().file_bytes().unwrap_or(0),
        },
        "compaction": engine.runs().overview(),
        "disk": {"free_bytes": around.free_bytes},
        "charged": charged(state),
        "retention": {
            "daily": around.config.retention_daily, "last": retention::last_json(engine.log())?,
        },
        "today": around.now.day_in(around.config.timezone).to_string(),
        "limits": {
            "cost_per_day": around.config.cost_per_day_max,
            "tokens_per_day": around.config.tokens_per_day_max,
            "event_threshold": around.config.event_threshold,
            "step_fallback": around.config.step_fallback,
            "service_event_threshold": around.config.service_event_threshold,
            "service_step_fallback": around.config.service_step_fallback,
        },
        "flows_mutated": around.flows.read().mutations(state.flows()).iter()
            .map(|one| json!({"flow_id": one.flow_id, "variant": one.variant}))
            .collect::<Vec<_>>(),
    }))
}

/// What models cost on the latest day on which they cost anything.
fn charged(state: &State) -> Value {
    let Some(charged) = &state.flows().charged else { return Value::Null };
    let providers: Map<String, Value> = charged
        .by_provider
        .iter()
        .map(|(name, one)| {
            let value = json!({
                "calls": one.calls, "input_tokens": one.input_tokens,
                "output_tokens": one.output_tokens, "cost": one.cost_nanos as f64 / 1e9,
            });
            (name.clone(), value)
        })
        .collect();
    json!({"day": charged.day.to_string(), "providers": providers})
}

/// Which requests a listing wants.
struct Filter {
    status: Option<Status>,
    ready: Option<bool>,
    flow: Option<String>,
    since: Option<Timestamp>,
}

impl Filter {
    fn new(
        state: Option<&str>,
        flow: Option<String>,
        since_ms: Option<i64>,
    ) -> Result<Filter, String> {
        let (status, ready) = match state {
            None => (None, None),
            Some("ready") => (Some(Status::Waiting), Some(true)),
            Some("waiting") => (Some(Status::Waiting), Some(false)),
            Some(word) => {
                let status = Status::parse(word).ok_or_else(|| {
                    let words: Vec<&str> = Status::ALL.iter().map(|s| s.as_str()).collect();
                    format!("no state {word}; there are ready, {}", words.join(", "))
                })?;
                (Some(status), None)
            }
        };
        Ok(Filter { status, ready, flow, since: since_ms.map(Timestamp) })
    }

    fn row(&self, row: &Row) -> bool {
        self.status.is_none_or(|status| status == row.status)
            && self.since.is_none_or(|since| row.taken_at >= since)
    }

    fn open(&self, open: &Open, now: Timestamp) -> bool {
        self.row(&open.row) && self.ready.is_none_or(|ready| ready == (open.eligible_at <= now))
    }
}

/// What a listing knows of one request before it reads the request itself.
struct Listed {
    row: Row,
    word: &'static str,
    eligible_at: Option<Timestamp>,
}

fn requests(engine: &Engine, now: Timestamp, filter: Filter, before: Seq, limit: usize) -> Reply {
    let state = engine.state();
    // Which flow a request wants is not known before it is read: more of them may be needed.
    let needed = if filter.flow.is_some() { SCANNED_PER_PAGE } else { limit };
    let mut recent: BTreeMap<Seq, Listed> = BTreeMap::new();
    // Whoever gave as many as were needed may have older ones: nothing below is known in full.
    let mut lowest = None;
    let mut gave = |count: usize, oldest: Option<Seq>| {
        if count == needed {
            lowest = lowest.max(oldest);
        }
    };
    let is_over = filter.status.is_some_and(|status| !status.is_open());
    let open = state.open_back(before).filter(|(_, open)| filter.open(open, now));
    let (mut count, mut oldest) = (0, None);
    for (seq, open) in open.take(if is_over { 0 } else { needed }) {
        let word = open_word(open, now);
        let eligible_at = Some(open.eligible_at).filter(|at| *at > now);
        recent.insert(seq, Listed { row: open.row, word, eligible_at });
        (count, oldest) = (count + 1, Some(seq));
    }
    gave(count, oldest);
    for rows in state.recent_rows() {
        let ended = rows.range(..before).rev().filter(|(_, row)| filter.row(row));
        let (mut count, mut oldest) = (0, None);
        for (seq, row) in ended.take(needed) {
            recent.insert(*seq, Listed { row: *row, word: row.status.as_str(), eligible_at: None });
            (count, oldest) = (count + 1, Some(*seq));
        }
        gave(count, oldest);
    }
    let log = engine.log().clone();
    later(move || {
        let (mut scanned, mut passed) = (0, 0);
        let mut failure = None;
        let mut reached = Seq(0);
        let mut enough = false;
        log.rows_back(before, &mut |seq, bytes| {
            scanned += 1;
            reached = seq;
            match codec::decode_row(bytes) {
                Ok(row) if filter.row(&row) => {
                    passed += 1;
                    let listed = Listed { row, word: row.status.as_str(), eligible_at: None };
                    recent.entry(seq).or_insert(listed);
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
            enough = scanned == SCANNED_PER_PAGE || passed == needed || failure.is_some();
            if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(error) = failure {
            return Err(error.into());
        }
        let lowest = lowest.max(enough.then_some(reached));
        page(&log, recent, &filter, limit, lowest)
    })
}

fn page(
    log: &Reader,
    recent: BTreeMap<Seq, Listed>,
    filter: &Filter,
    limit: usize,
    reached: Option<Seq>,
) -> Result<Answer, AnswerError> {
    let mut rows = Vec::new();
    let mut next = reached;
    for (seq, listed) in recent.into_iter().rev() {
        if rows.len() == limit {
            break;
        }
        if reached.is_some_and(|reached| seq < reached) {
            break;
        }
        let Some(event) = log.event(seq)? else { continue };
        let Some(taken) = event.taken() else { continue };
        if filter.flow.as_ref().is_some_and(|flow| *flow != taken.flow_id) {
            continue;
        }
        rows.push(listing(seq, &listed, taken));
        if rows.len() == limit {
            next = Some(seq);
        }
    }
    Ok(Answer::Ok(json!({"requests": rows, "next": next.map(|seq| seq.0)})))
}

fn listing(seq: Seq, listed: &Listed, taken: &TakenRequest) -> Value {
    json!({
        "seq": seq.0,
        "request_id": taken.head.request_id,
        "state": listed.word,
        "reason_code": listed.row.reason,
        "flow_id": taken.flow_id,
        "variant": taken.variant,
        "repo": taken.producer,
        "priority": taken.priority,
        "attempts": listed.row.attempts,
        "taken_at": listed.row.taken_at.to_string(),
        "eligible_at": listed.eligible_at.map(|at| at.to_string()),
        "line": taken.head.line,
    })
}

fn open_word(open: &Open, now: Timestamp) -> &'static str {
    match open.row.status {
        Status::Waiting if open.eligible_at <= now => "ready",
        status => status.as_str(),
    }
}

/// Everything about one id: a request with all its acceptances, or the request behind a summary.
fn show(engine: &Engine, now: Timestamp, id: &str) -> Result<Reply, EngineError> {
    let state = engine.state();
    let past = engine.past();
    let mut chain = Vec::new();
    let mut cursor = state.newest_of_id(&past, id)?;
    if cursor.is_none() {
        let item = crate::state::apply::item_digest(id).head();
        if let Some(seq) = state.find(&past, KeyIndex::SummaryId, &item)? {
            cursor = state.row(&past, seq)?.map(|row| (seq, row));
        }
    }
    while let Some((seq, row)) = cursor {
        chain.push((seq, describe(state, seq, &row, now)));
        cursor = match row.previous {
            Seq(0) => None,
            _ if chain.len() >= 100 => None,
            previous => state.row(&past, previous)?.map(|row| (previous, row)),
        };
    }
    if chain.is_empty() {
        return Ok(not_found(format!("no request or summary {id}")));
    }
    let latest = chain[0].0;
    if past.taken(latest).is_err() {
        return Ok(not_found(format!("no request or summary {id}")));
    }
    let log = engine.log().clone();
    Ok(later(move || {
        let mut acceptances = Vec::new();
        for (seq, (word, row)) in chain {
            acceptances.push(history(&log, seq, word, &row)?);
        }
        let latest = acceptances.first().cloned().unwrap_or(Value::Null);
        let earlier: Vec<Value> = acceptances.into_iter().skip(1).collect();
        Ok(Answer::Ok(json!({"latest": latest, "earlier": earlier})))
    }))
}

/// Where a summary comes from; found by its own id or by that of a request that made or shares it.
fn explained(
    engine: &Engine,
    around: &Surroundings<'_>,
    id: &str,
    wanted: Wanted,
) -> Result<Reply, EngineError> {
    let (state, past) = (engine.state(), engine.past());
    let item = crate::state::apply::item_digest(id).head();
    let mut found = match state.find(&past, KeyIndex::SummaryId, &item)? {
        Some(seq) => state.row(&past, seq)?.map(|row| (seq, row)),
        None => state.newest_of_id(&past, id)?,
    };
    if let Some((_, row)) = found
        && row.output_of != Seq(0)
    {
        found = state.row(&past, row.output_of)?.map(|of| (row.output_of, of));
    }
    let Some((request, row)) = found else {
        return Ok(not_found(format!("no summary {id}")));
    };
    let around = Around {
        log: engine.log().clone(),
        machine: around.machine.clone(),
        home: around.home.clone(),
        config: around.config.clone(),
        index: Arc::clone(around.index),
    };
    Ok(later(move || match explain(&around, request, row.last, wanted) {
        Ok(explanation) => Ok(Answer::Ok(serde_json::to_value(explanation)?)),
        Err(error @ ExplainError::NoSummary(_)) => Ok(Answer::NotFound(error.to_string())),
        Err(error) => Err(error.into()),
    }))
}

fn describe(state: &State, seq: Seq, row: &Row, now: Timestamp) -> (&'static str, Row) {
    let word = state.open_request(seq).map_or(row.status.as_str(), |open| open_word(open, now));
    (word, *row)
}

/// One acceptance: the request, what happened to it, and the acks it got.
fn history(log: &Reader, seq: Seq, word: &str, row: &Row) -> Result<Value, AnswerError> {
    let mut events = Vec::new();
    let mut acks = Vec::new();
    let mut request = Value::Null;
    let mut failure = None;
    let last = Seq(row.last.0.min(seq.0 + HISTORY_SCAN_MAX));
    log.scan(seq, Some(last), &mut |entry| {
        let event = match codec::decode(entry.tag, entry.version, entry.payload) {
            Ok(event) => event,
            Err(source) => {
                failure = Some(AnswerError::Event { seq: entry.seq, source });
                return ControlFlow::Break(());
            }
        };
        if entry.seq != seq && event.request() != Some(seq) {
            return ControlFlow::Continue(());
        }
        if entry.seq == seq
            && let Some(taken) = event.taken()
        {
            request = taken_json(taken);
        }
        let committed = Committed { seq: entry.seq, at: entry.at, hash: entry.hash(), event };
        if let Some(line) = ack::line(&committed) {
            acks.push(serde_json::from_str::<Value>(&line).unwrap_or(Value::Null));
        }
        events.push(event_json(&committed));
        let enough = events.len() >= HISTORY_EVENTS_MAX;
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    Ok(json!({
        "seq": seq.0, "state": word, "reason_code": row.reason, "attempts": row.attempts,
        "taken_at": row.taken_at.to_string(), "request": request, "acks": acks, "events": events,
    }))
}

fn committed(record: &Record) -> Result<Committed, AnswerError> {
    let event = codec::decode(record.tag, record.version, &record.payload)
        .map_err(|source| AnswerError::Event { seq: record.seq, source })?;
    Ok(Committed { seq: record.seq, at: record.at, hash: record.hash, event })
}

fn quarantined(log: &Reader, after: Seq, limit: usize) -> Result<Answer, AnswerError> {
    let mut rows = Vec::new();
    let mut next = None;
    let mut failure = None;
    log.scan(after.next(), None, &mut |entry| {
        // Only bad lines are decoded; the scan itself is cheap.
        if entry.tag != codec::LINE_QUARANTINED {
            return ControlFlow::Continue(());
        }
        if rows.len() == limit {
            return ControlFlow::Break(());
        }
        match committed(&entry.to_record()) {
            Ok(committed) => {
                let line = quarantine::line(&committed).unwrap_or_default();
                rows.push(serde_json::from_str::<Value>(&line).unwrap_or(Value::Null));
                next = Some(entry.seq.0);
            }
            Err(error) => {
                failure = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    match failure {
        Some(error) => Err(error),
        None => {
            let next = next.filter(|_| rows.len() == limit);
            Ok(Answer::Ok(json!({"lines": rows, "next": next})))
        }
    }
}

/// The newest quarantined lines before an event. The log is read backwards in pieces, and only so
/// much of it for one page: a page may be empty and still lead on.
fn quarantined_back(log: &Reader, before: Seq, limit: usize) -> Result<Answer, AnswerError> {
    let mut end = before.min(log.head().0.next());
    let lowest = Seq(end.0.saturating_sub(QUARANTINE_SCAN_MAX).max(1));
    let mut rows = Vec::new();
    while end > lowest && rows.len() < limit {
        let start = Seq(end.0.saturating_sub(QUARANTINE_PIECE)).max(lowest);
        // The newest of this piece, as many as are still wanted.
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
            let line = quarantine::line(&committed(record)?).unwrap_or_default();
            rows.push(serde_json::from_str::<Value>(&line).unwrap_or(Value::Null));
        }
        end = match found.front() {
            Some(oldest) if rows.len() == limit => oldest.seq,
            _ => start,
        };
    }
    let next = (end > Seq(1)).then_some(end.0);
    Ok(Answer::Ok(json!({"lines": rows, "next": next})))
}

fn quarantined_one(log: &Reader, seq: Seq) -> Result<Answer, AnswerError> {
    let found = match log.get(seq)? {
        Some(record) => quarantine::line(&committed(&record)?),
        None => None,
    };
    Ok(match found {
        Some(line) => Answer::Ok(serde_json::from_str(&line).unwrap_or(Value::Null)),
        None => Answer::NotFound(format!("no quarantined line {}", seq.0)),
    })
}

fn log_stats(log: &Reader) -> Result<Answer, LogError> {
    let stats = log.stats()?;
    let tables: Vec<Value> = stats
        .tables
        .iter()
        .map(|table| {
            json!({"name": table.name, "entries": table.entries, "stored_bytes": table.stored_bytes})
        })
        .collect();
    Ok(Answer::Ok(json!({
        "head": stats.head.0, "checkpoint": stats.applied.0, "file_bytes": stats.file_bytes,
        "frames": stats.frames, "raw_bytes": stats.raw_bytes, "frame_bytes": stats.frame_bytes,
        "runs": stats.runs, "index_memory_bytes": stats.index_memory_bytes, "tables": tables,
    })))
}

fn log_verify(log: &Reader, anchors: &[(u64, String)]) -> Result<Answer, AnswerError> {
    let mut damage = None;
    let report = match log.verify(Seq(1), None, &mut |_| {}) {
        Ok(report) => Some(report),
        Err(error @ (LogError::Damaged { .. } | LogError::Corrupt(_))) => {
            damage = Some(error.to_string());
            None
        }
        Err(error) => return Err(error.into()),
    };
    for (seq, hash) in anchors {
        let checked = match hash.parse::<Digest>() {
            Ok(hash) => log.verify_anchor(Seq(*seq), hash).map_err(|error| error.to_string()),
            Err(error) => Err(format!("anchor {seq}: {error}")),
        };
        if let Err(error) = checked
            && damage.is_none()
        {
            damage = Some(error);
        }
    }
    let last = report.as_ref().map_or((Seq(0), Digest::ZERO), |report| report.last);
    Ok(Answer::Ok(json!({
        "ok": damage.is_none(), "damage": damage,
        "records": report.as_ref().map(|report| report.records),
        "bodies": report.as_ref().map(|report| report.bodies),
        "head": last.0.0, "hash": last.1.hex(), "anchors": anchors.len(),
    })))
}

fn log_page(log: &Reader, from: Seq, limit: usize) -> Result<Answer, AnswerError> {
    let mut events = Vec::new();
    let mut failure = None;
    let mut next = None;
    log.scan(from, None, &mut |entry| {
        if events.len() == limit {
            next = Some(entry.seq.0);
            return ControlFlow::Break(());
        }
        match committed(&entry.to_record()) {
            Ok(committed) => events.push(event_json(&committed)),
            Err(error) => {
                failure = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    match failure {
        Some(error) => Err(error),
        None => Ok(Answer::Ok(json!({"events": events, "next": next}))),
    }
}
