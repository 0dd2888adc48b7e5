//! Lists of requests, newest first.
//!
//! A request is in up to three places: open ones in memory, ended ones in memory until the next
//! checkpoint, and rows in the log. A page merges them by their sequence. Each place gives only as
//! many as a page may need, so below the oldest of a place that gave all it could, the list is not
//! complete, and the page ends there. A request that starts over after an ending without output is listed once, as it
//! is now.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::{Value, json};

use crate::contract::hash::sha256;
use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::request::{Input, Request};
use crate::contract::time::Timestamp;
use crate::control::question::Answer;
use crate::export::ack;
use crate::log::{Reader, codec};
use crate::sequencer::engine::EngineError;
use crate::sequencer::view::View;
use crate::state::event::TakenRequest;
use crate::state::{DigestMap, Open, Row, State, Status};

use super::reply::{AnswerError, QuestionContext, Reply, later};
use super::source_names::SourceNames;
use super::waits::{Waits, own_wait, waits_of};

/// Rows looked at for one page when few of them pass the filter.
const SCANNED_PER_PAGE: usize = 20_000;

/// On a page of so many, requests with a summary have the name of their source too.
pub(crate) const NAMED_ALL: usize = 100;

/// The requests that a list wants.
pub(super) struct Filter {
    status: Option<Status>,
    ready: Option<bool>,
    flow: Option<String>,
    since: Option<Timestamp>,
}

impl Filter {
    pub(super) fn new(
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
                    format!("unknown state `{word}`; the states are ready, {}", words.join(", "))
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

/// What a list knows of a request before its line is read.
struct Listed {
    row: Row,
    word: &'static str,
    eligible_at: Option<Timestamp>,
    waits: Option<Waits>,
}

impl Listed {
    fn ended(row: Row) -> Listed {
        Listed { row, word: row.status.as_str(), eligible_at: None, waits: None }
    }
}

pub(super) fn requests(
    view: &View<'_>,
    around: &QuestionContext<'_>,
    filter: Filter,
    before: Seq,
    (limit, has_names): (usize, bool),
) -> Result<Reply, EngineError> {
    let (now, state, past) = (around.now, view.state(), view.past());
    // The flow of a request is known once its line is read, so more rows than a page may be needed.
    let needed = if filter.flow.is_some() { SCANNED_PER_PAGE } else { limit };
    let mut recent: BTreeMap<Seq, Listed> = BTreeMap::new();
    // A place that gave as many as were needed may have older ones: nothing below its oldest is
    // known in full.
    let mut lowest = None;
    let mut note_given = |count: usize, oldest: Option<Seq>| {
        if count == needed {
            lowest = lowest.max(oldest);
        }
    };
    let is_over = filter.status.is_some_and(|status| !status.is_open());
    let open = state.open_back(before).filter(|(_, open)| filter.open(open, now));
    let (mut count, mut oldest) = (0, None);
    for (seq, open) in open.take(if is_over { 0 } else { needed }) {
        let word = open_word(state, open, now);
        let eligible_at = Some(open.eligible_at).filter(|at| *at > now);
        // Only a page of them is told, so no more of the requests before them are looked up. Which ones the page
        // of a flow has is not known yet.
        let waits = match count < limit || filter.flow.is_some() {
            true => waits_of(state, past, (seq, open), &around.waiting_calls, now)?,
            false => own_wait(state, (seq, open), &around.waiting_calls, now),
        };
        recent.insert(seq, Listed { row: open.row, word, eligible_at, waits });
        (count, oldest) = (count + 1, Some(seq));
    }
    note_given(count, oldest);
    for rows in state.recent_rows() {
        let ended = rows.range(..before).rev().filter(|(_, row)| filter.row(row));
        let (mut count, mut oldest) = (0, None);
        for (seq, row) in ended.take(needed) {
            recent.insert(*seq, Listed::ended(*row));
            (count, oldest) = (count + 1, Some(*seq));
        }
        note_given(count, oldest);
    }
    let log = view.log().clone();
    let ids = state.recent_ids();
    let names = has_names.then(|| SourceNames::of(around));
    Ok(later(move || {
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
                    recent.entry(seq).or_insert(Listed::ended(row));
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
        page((&log, names.as_ref(), &ids), recent, &filter, limit, lowest)
    }))
}

fn page(
    (log, names, ids): (&Reader, Option<&SourceNames>, &DigestMap<Seq>),
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
        if listed.row.status.may_start_over() && starts_over(log, ids, seq, taken)? {
            continue;
        }
        let last = if listed.row.last == seq { None } else { log.event(listed.row.last)? };
        // A duplicate ends with the event that takes it in.
        let summary = ack::summary_of(last.as_ref().unwrap_or(&event));
        let mut row = listing(seq, &listed, taken, summary);
        if let Some(names) = names.filter(|_| limit <= NAMED_ALL || row["summary"].is_null()) {
            row["source"] = names.name(&taken.line).into();
        }
        row["waits"] = listed.waits.as_ref().map(|waits| waits.told(log)).transpose()?.into();
        rows.push(row);
        if rows.len() == limit {
            next = Some(seq);
        }
    }
    Ok(Answer::Ok(json!({"requests": rows, "next": next.map(|seq| seq.0)})))
}

/// Whether a newer acceptance of the same id takes the place of this one. `ids` are the newest ones that the tables do
/// not know yet.
fn starts_over(
    log: &Reader,
    ids: &DigestMap<Seq>,
    seq: Seq,
    taken: &TakenRequest,
) -> Result<bool, AnswerError> {
    let digest = sha256(&taken.head.request_id).head();
    let mut newer = match ids.get(&digest) {
        Some(newest) => Some(*newest),
        None => log.find(KeyIndex::RequestId, &digest)?.map(Seq),
    };
    while let Some(at) = newer.filter(|newer| *newer > seq) {
        let Some(event) = log.event(at)? else { return Ok(false) };
        let Some(newest) = event.taken() else { return Ok(false) };
        if newest.previous == Some(seq) {
            return Ok(newest.supersedes.is_some());
        }
        newer = newest.previous;
    }
    Ok(false)
}

fn listing(seq: Seq, listed: &Listed, taken: &TakenRequest, summary: Option<Value>) -> Value {
    let (inputs, first) = named_inputs(&taken.line);
    json!({
        "summary": summary,
        "input": first,
        "inputs": inputs,
        "seq": seq.0,
        "request_id": taken.head.request_id,
        "state": listed.word,
        "reason_code": listed.row.reason,
        "cause": listed.row.cause,
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

/// How many sources a request names, and the first: an id, a manifest, or the query.
fn named_inputs(line: &[u8]) -> (Option<usize>, Option<String>) {
    match Request::parse_stored(line).map(|request| request.input) {
        Ok(Input::Ids { ids, .. }) => (Some(ids.len()), ids.into_iter().next()),
        Ok(Input::SelectionManifest { path, .. }) => (None, Some(path)),
        Ok(Input::Query { bus, .. }) => (None, Some(format!("a query of {bus}"))),
        Err(_) => (None, None),
    }
}

/// What keeps an open request. An attempt that a stop left waits for the next session.
pub(super) fn open_word(state: &State, open: &Open, now: Timestamp) -> &'static str {
    match open.row.status {
        Status::Running if state.session().is_none() => "ready",
        Status::Waiting if open.eligible_at <= now => "ready",
        status => status.as_str(),
    }
}
