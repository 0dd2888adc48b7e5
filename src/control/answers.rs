//! Answers to questions, the same in process and over the socket.
//!
//! What needs memory is taken while the service loop waits, and is small. What needs reading is
//! handed back as [`Reply::Later`] and read by another thread, beside the running service.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::contract::ids::Seq;
use crate::control::question::{Answer, Question, done};
use crate::explain::Wanted;
use crate::facts::publication::DayOpened;
use crate::facts::session::PauseCause;
use crate::limits::QUERY_PAGE_ROWS;
use crate::sequencer::engine::{Engine, EngineError, OperatorError};
use crate::sequencer::view::View;
use crate::state::decide::Refused;
use crate::state::event::{Event, TakenRequest};
use crate::upkeep::forget::forgotten_at;

use super::reply::{QuestionContext, Reply, later, not_found, refused};
use super::requests::{Filter, requests};
use super::show::{explained, show};
use super::status::status;
use super::{log_queries, quarantine};

/// Answers a question. Orders leave their events in the batch: the caller commits before it replies,
/// so that an order that was answered survives a crash.
pub fn answer(
    engine: &mut Engine,
    around: &QuestionContext<'_>,
    question: Question,
) -> Result<Reply, EngineError> {
    let now = around.now;
    let order = match answer_about(engine.view(), around, question)? {
        Asked::Answered(reply) => return Ok(reply),
        Asked::Order(order) => order,
    };
    match order {
        Question::DayOpen { day, inputs } => {
            engine.record(Event::DayOpened(Box::new(DayOpened { day, inputs })), now)?;
            Ok(Reply::Now(done("opened")))
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
        Question::Reload { accept_mutations: true } => {
            let found = around.flows.read().mutations(engine.state().flows());
            engine.accept_packs(&found, now)?;
            Ok(Reply::Now(done(&format!("{} accepted", found.len()))))
        }
        Question::Reload { accept_mutations: false } => {
            let why = "reload is for a running service; a command reads its settings at start";
            Ok(refused(why))
        }
        Question::Page => {
            let why = "the command that holds this home shows no page; ask when it has ended";
            Ok(refused(why))
        }
        Question::Forget { .. } | Question::ForgetAnswer { .. } => {
            let why = "the command that holds this home forgets nothing; ask when it has ended";
            Ok(refused(why))
        }
        Question::Run(_) => {
            let why = "the command that holds this home takes no agent runs; ask when it has ended";
            Ok(refused(why))
        }
        _ => {
            let why = "digests are built by a running service or by the command itself";
            Ok(refused(why))
        }
    }
}

/// What became of a question that may be an order.
pub(crate) enum Asked {
    Answered(Reply),
    /// Only whoever may change the log can answer it.
    Order(Question),
}

/// Answers a question that changes nothing.
pub(crate) fn answer_about(
    view: View<'_>,
    around: &QuestionContext<'_>,
    question: Question,
) -> Result<Asked, EngineError> {
    let log = view.log().clone();
    let reply = match question {
        // A command that holds the home publishes when it ends.
        Question::Publish => Reply::Now(done("asked")),
        Question::Status => Reply::Now(Answer::Ok(status(&view, around)?)),
        Question::Requests { state, flow, since_ms, before, limit, names } => {
            match Filter::new(state.as_deref(), flow, since_ms) {
                Ok(filter) => {
                    let before = Seq(before.unwrap_or(u64::MAX));
                    requests(&view, around, filter, before, (page_rows(limit), names))?
                }
                Err(why) => refused(why),
            }
        }
        Question::Show { id } => show(&view, around, &id)?,
        Question::ForgottenOn { name } => later(move || {
            let at = forgotten_at(&log, &name)?;
            let day = at.map(|at| at.day_in(chrono_tz::UTC).to_string());
            Ok(Answer::Ok(json!({"forgotten_on": day})))
        }),
        Question::Explain { id, verify, prompts, texts } => {
            explained(&view, around, &id, Wanted { verify, prompts, texts })?
        }
        Question::Quarantine { after, limit } => {
            let limit = page_rows(limit);
            later(move || quarantine::oldest_first(&log, Seq(after), limit))
        }
        Question::QuarantineBack { before, limit } => {
            let before = Seq(before.unwrap_or(u64::MAX));
            let limit = page_rows(limit);
            later(move || quarantine::newest_first(&log, before, limit))
        }
        Question::QuarantineShow { seq } => later(move || quarantine::one(&log, Seq(seq))),
        Question::FlowsUsed => {
            let used = view.state().flows().used.iter();
            let used: Vec<Value> = used
                .map(|((flow_id, variant), pack)| {
                    json!({"flow_id": flow_id, "variant": variant, "pack_hash": pack.hex()})
                })
                .collect();
            Reply::Now(Answer::Ok(json!({"flows": used})))
        }
        Question::LogStats => later(move || Ok(log_queries::stats(&log)?)),
        Question::LogVerify { anchors } => later(move || log_queries::verify(&log, &anchors)),
        Question::LogDump { from, limit } => {
            let limit = page_rows(limit);
            later(move || log_queries::event_page(&log, Seq(from), limit))
        }
        Question::LogCopy { from, until } => {
            later(move || Ok(log_queries::record_page(&log, Seq(from), until.map(Seq))))
        }
        order @ (Question::DayOpen { .. }
        | Question::QuarantineReleased { .. }
        | Question::Retry { .. }
        | Question::Cancel { .. }
        | Question::Pause
        | Question::Resume
        | Question::Reload { .. }
        | Question::Page
        | Question::Run(_)
        | Question::Digest { .. }
        | Question::DigestAnswer { .. }
        | Question::Forget { .. }
        | Question::ForgetAnswer { .. }) => return Ok(Asked::Order(order)),
    };
    Ok(Asked::Answered(reply))
}

fn page_rows(limit: Option<usize>) -> usize {
    limit.unwrap_or(QUERY_PAGE_ROWS).clamp(1, QUERY_PAGE_ROWS)
}

fn granted(result: Result<(), OperatorError>, what: &str) -> Result<Reply, EngineError> {
    match result {
        Ok(()) => Ok(Reply::Now(done(what))),
        Err(OperatorError::Engine(error)) => Err(error),
        Err(OperatorError::Refused(Refused::Past(error))) => Err(error.into()),
        Err(OperatorError::Refused(why @ Refused::NoSuchRequest(_))) => {
            Ok(not_found(why.to_string()))
        }
        Err(OperatorError::Refused(why)) => Ok(refused(why.to_string())),
    }
}
