//! The interface between the pool and the code that makes summaries.
//!
//! Contract. A [`Worker`] gets a [`Job`] and reports what happened; it never touches the queue or a
//! published file. It works in two steps, so that existing work, or work under way for another
//! request, is found before a model is paid. [`Worker::begin`] finds the input and
//! names the item. What costs money is a [`Paid`] continuation, which runs only once that name is
//! committed. Work that costs nothing reports both steps together.
//!
//! A worker may be called again for the same request after a crash or a failure. It then finds the
//! responses that were already paid for in [`Job::replies`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::Warnings;
use crate::facts::dialect::LearnedDialect;
use crate::facts::model::AnswerFacts;
use crate::log::{ReadError, Reader};
use crate::model::{CallEnd, ModelReply, Resting, RightOfWay};
use crate::state::Digest16;
use crate::state::decide::Outcome;
use crate::state::event::{Charge, PassedOver, TakenRequest};
use crate::state::flows::DayCharged;

use super::isolation::processes::Client;
use super::replies::UncommittedReplies;

#[derive(Debug, Clone)]
pub struct Job {
    /// The session it belongs to.
    pub run_id: String,
    /// Counted from 1. An attempt that does not count has the number of the one after it.
    pub attempt: u32,
    /// The event that started it.
    pub started: Seq,
    /// Longest time one step may take.
    pub timeout: Duration,
    pub taken: Arc<TakenRequest>,
    /// Responses already paid for: the call, and the event that holds the response.
    pub replies: BTreeMap<Digest, Seq>,
}

/// What a worker may record while it works.
pub struct AttemptRecorder<'a> {
    pub(super) log: &'a Reader,
    pub(super) request: Seq,
    pub(super) replies: &'a UncommittedReplies,
    /// False when the receiver is gone, which is only when the service ends.
    pub(super) report: &'a (dyn Fn(Outcome) -> bool + Sync),
    /// Starts the time of the step again. False when the attempt has timed out.
    pub(super) go_on: &'a (dyn Fn() -> bool + Sync),
    pub(super) right_of_way: &'a (dyn Fn() -> RightOfWay + Sync),
    /// Longest time of one step of the attempt.
    pub(super) timeout: Duration,
    /// Ends the call of the attempt when nobody waits for it any more.
    pub(super) end: &'a Arc<CallEnd>,
}

impl AttemptRecorder<'_> {
    /// Records a response and returns once it is durable, so that a crash right after does not pay
    /// for it twice.
    pub(crate) fn responded(&self, call: Digest, body: Vec<u8>, answer: AnswerFacts) {
        self.replies.wait_for(self.request, call, || {
            let answer = Box::new(answer);
            (self.report)(Outcome::Responded { call, body, answer })
        });
    }

    /// Records that something was paid for.
    pub fn charged(&self, charge: Charge) {
        (self.report)(Outcome::Charged(charge));
    }

    /// Records that a provider failed while one of its fallbacks answered.
    pub(crate) fn passed_over(&self, failure: PassedOver) {
        (self.report)(Outcome::PassedOver(Box::new(failure)));
    }

    /// Records what a model was found to accept.
    pub(crate) fn learned(&self, learned: LearnedDialect) {
        (self.report)(Outcome::Learned(Box::new(learned)));
    }

    /// A part of an answer arrived. False when the attempt has timed out.
    pub(crate) fn goes_on(&self) -> bool {
        (self.go_on)()
    }

    /// Whether the calls of this attempt go before those of others.
    pub(crate) fn right_of_way(&self) -> RightOfWay {
        (self.right_of_way)()
    }

    /// What ends the call of this attempt when nobody waits for it any more.
    pub(crate) fn end(&self) -> &Arc<CallEnd> {
        self.end
    }

    /// Records the pack that a flow is used with.
    pub(crate) fn used_flow(&self, flow_id: &str, variant: Option<&str>, pack_hash: Digest) {
        let (flow_id, variant) = (flow_id.to_owned(), variant.map(str::to_owned));
        (self.report)(Outcome::FlowUsed { flow_id, variant, pack_hash });
    }

    /// A response that an earlier attempt paid for. `None` when there was no such call, or when
    /// retention dropped the response.
    pub(crate) fn reply(&self, job: &Job, call: &Digest) -> Result<Option<ModelReply>, ReadError> {
        let Some(seq) = job.replies.get(call) else { return Ok(None) };
        let Some(body) = self.log.body(*seq)? else { return Ok(None) };
        let reply = serde_json::from_slice(&body);
        reply.map(Some).map_err(|error| ReadError::unexpected(*seq, error))
    }
}

/// The part of an attempt that costs something.
pub(crate) type Paid = Box<dyn FnOnce(&AttemptRecorder<'_>) -> Outcome + Send>;

/// What the first step of an attempt came to.
pub enum Begun {
    /// It has ended: one or more outcomes, the last of them final.
    Done(Vec<Outcome>),
    /// The input is known, as the outcome says; the rest costs something.
    Resolved(Outcome, Paid),
}

pub trait Worker: Send + Sync {
    /// Finds the input of a request and names its item.
    fn begin(&self, job: &Job, recorder: &AttemptRecorder<'_>) -> Begun;

    /// Tokens a second of the newest answers of each provider that has answered.
    fn speeds(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// The providers that get no calls for a time.
    fn resting(&self) -> BTreeMap<String, Resting> {
        BTreeMap::new()
    }

    /// The calls of attempts under way that wait before they are sent.
    fn waiting_calls(&self) -> BTreeMap<Seq, (Timestamp, String)> {
        BTreeMap::new()
    }

    /// What all hosts that share the log have spent on its latest day.
    fn charged(&self, all: &DayCharged) {
        let _ = all;
    }

    /// What became of the traces, where there are any.
    fn telemetry(&self) -> Option<serde_json::Value> {
        None
    }

    /// The output of a key was made by this event. It tells what the worker did not see: what another
    /// process made and the tables do not know yet.
    fn was_made(&self, key: Digest16, ended: Seq) {
        let _ = (key, ended);
    }

    /// What became upstream of the sources of an output since it was made, for a request with its key.
    /// `ended` is the event that ended the maker of that output, where the tables know it.
    fn source_since(&self, log: &Reader, request: &TakenRequest, ended: Option<Seq>) -> Warnings {
        let _ = (log, request, ended);
        Warnings::default()
    }
}

impl Client for AttemptRecorder<'_> {
    fn waits(&self) -> bool {
        self.goes_on()
    }

    fn is_wanted(&self) -> bool {
        !self.end.has_come()
    }
}
