//! The lane of scheduled questions: they wait here until they are sent as a batch.
//!
//! Contract. A question of a scheduled request is put into the lane and its call fails with a pause that
//! uses no attempt. A question that is in the lane or in a batch is not put there again. What a question
//! may cost is reserved in the budget of the day until its batch has ended. A question that a batch
//! refused is asked directly. A server that has too much under way gets no batch for a time, and then
//! smaller ones.
//!
//! See docs/adr/0114-batches-of-scheduled-questions.md.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use super::batch_api::BatchLine;
use super::budget::{Budget, NotReserved, Spent};
use super::call::{ModelCall, RightOfWay};
use super::error::ModelError;
use super::gate::{TOKENS_PER_PRICE, expected};
use super::provider::Provider;
use super::reply::{ModelIdentity, ModelReply, Usage};
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::FailureCause;
use crate::facts::batch::BatchedQuestion;
use crate::os::Clock;

/// When a request looks again for its answer, if nobody tells it before.
const LOOK_AGAIN: Duration = Duration::from_secs(900);
/// A server that takes batches of this size gets the usual ones again.
const MOST_FORGOTTEN: usize = 10_000;
/// The share of the usual price that a batch costs.
const SHARE: f64 = 0.5;

/// The prices of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BatchPrice {
    per_input: f64,
    per_output: f64,
}

impl BatchPrice {
    /// From the usual prices of a million tokens.
    pub(crate) fn of(price_in: f64, price_out: f64) -> BatchPrice {
        BatchPrice { per_input: price_in * SHARE, per_output: price_out * SHARE }
    }

    #[allow(clippy::cast_precision_loss, reason = "token counts are small")]
    pub(crate) fn spent(self, usage: Usage) -> Spent {
        let cost = usage.input_tokens as f64 * self.per_input
            + usage.output_tokens as f64 * self.per_output;
        Spent { cost: cost / TOKENS_PER_PRICE, tokens: usage.total() }
    }
}

/// A question that waits to be sent.
#[derive(Debug, Clone)]
pub(crate) struct QueuedQuestion {
    pub question: BatchedQuestion,
    pub body: Value,
    pub since: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// In the lane or in a batch, with what is reserved for it until its cost is known.
    Waits(Option<Spent>),
    /// Its answer is in the log.
    Answered,
    /// It is asked directly.
    Direct,
}

/// The questions of all providers.
pub(crate) struct BatchLane {
    state: Mutex<LaneState>,
    changed: Condvar,
    budget: Arc<Budget>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct LaneState {
    queued: Vec<QueuedQuestion>,
    places: BTreeMap<(Seq, Digest), Place>,
    /// Requests that ended since they were last asked for.
    ended: Vec<Seq>,
    /// Everything that waits is sent now, except to servers that have too much.
    flush: bool,
    /// The servers that took no further batch, by provider and model.
    rests: BTreeMap<(String, String), Rest>,
    /// The batches that an earlier process left were looked at.
    has_looked: bool,
    is_busy: bool,
    stops: bool,
}

/// What a server that has too much under way is sent.
#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Timestamp,
    /// Most questions of its next batch.
    most: usize,
    /// Batches in a row that it did not take.
    times: u32,
}

/// A batch that a server did not take because it has too much under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusedBatch {
    pub questions: usize,
    /// Whether no other batch of ours was under way there.
    pub is_alone: bool,
    pub at: Timestamp,
    /// How long the first of several such batches is waited after.
    pub first: Duration,
}

/// The provider and the model; all questions of one batch have the same.
fn kind(queued: &QueuedQuestion) -> (String, String) {
    let identity = &queued.question.identity;
    (identity.provider.clone(), identity.model_name.clone())
}

impl BatchLane {
    pub(crate) fn new(budget: Arc<Budget>, clock: Arc<dyn Clock>) -> BatchLane {
        BatchLane { state: Mutex::default(), changed: Condvar::new(), budget, clock }
    }

    /// A question in a batch of an earlier process.
    pub(crate) fn adopt(&self, request: Seq, call: Digest, reserved: Spent) {
        self.budget.adopt(reserved);
        self.state.lock().places.insert((request, call), Place::Waits(Some(reserved)));
    }

    /// A question is asked directly from now on.
    pub(crate) fn ask_directly(&self, request: Seq, call: Digest) {
        self.state.lock().places.insert((request, call), Place::Direct);
    }

    /// The cost of a question is known. Gives the day on which it counts.
    pub(crate) fn settle(&self, request: Seq, call: Digest, used: Spent) -> Day {
        let place = self.state.lock().places.insert((request, call), Place::Waits(None));
        let reserved = match place {
            Some(Place::Waits(Some(reserved))) => reserved,
            _ => {
                self.budget.adopt(Spent::default());
                Spent::default()
            }
        };
        self.budget.settle(reserved, used, self.clock.now())
    }

    /// The answer of a question is in the log.
    pub(crate) fn answered(&self, request: Seq, call: Digest) {
        self.state.lock().places.insert((request, call), Place::Answered);
    }

    /// Whether a question has no answer yet.
    pub(crate) fn waits_for(&self, request: Seq, call: Digest) -> bool {
        matches!(self.state.lock().places.get(&(request, call)), Some(Place::Waits(_)))
    }

    /// A question left the lane or its batch without an answer, if it is still there.
    pub(crate) fn release(&self, request: Seq, call: Digest) {
        let mut state = self.state.lock();
        let Some(Place::Waits(reserved)) = state.places.get(&(request, call)).copied() else {
            return;
        };
        state.places.remove(&(request, call));
        drop(state);
        if let Some(reserved) = reserved {
            self.budget.settle(reserved, Spent::default(), self.clock.now());
        }
    }

    /// A request has ended: what waits for it is not sent.
    pub(crate) fn forget(&self, request: Seq) {
        let mut state = self.state.lock();
        let every = (request, Digest::ZERO)..=(request, Digest([0xff; 32]));
        let places = state.places.range(every).map(|(key, place)| (*key, *place));
        let places: Vec<((Seq, Digest), Place)> = places.collect();
        if places.is_empty() {
            return;
        }
        let (gone, kept) = std::mem::take(&mut state.queued)
            .into_iter()
            .partition::<Vec<_>, _>(|queued| queued.question.request == request);
        state.queued = kept;
        state.ended.push(request);
        for (key, place) in places {
            // What is in a batch keeps its reservation until the batch has ended.
            if !matches!(place, Place::Waits(_)) {
                state.places.remove(&key);
            }
        }
        drop(state);
        gone.into_iter().for_each(|queued| self.release(request, queued.question.call));
        self.changed.notify_all();
    }

    /// The requests that ended since the last time.
    pub(crate) fn take_ended(&self) -> Vec<Seq> {
        std::mem::take(&mut self.state.lock().ended)
    }

    /// Takes the questions whose time has come: all of a kind, when one of them is due.
    pub(crate) fn take_due(
        &self,
        is_due: impl Fn(&str, &QueuedQuestion, usize) -> bool,
    ) -> Vec<QueuedQuestion> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for queued in &state.queued {
            *counts.entry(kind(queued)).or_default() += 1;
        }
        let flush = std::mem::take(&mut state.flush);
        counts.retain(|kind_of, count| {
            let rests = state.rests.get(kind_of).is_some_and(|rest| rest.until > now);
            let mut of_kind = state.queued.iter().filter(|queued| kind(queued) == *kind_of);
            !rests && (flush || of_kind.any(|queued| is_due(&kind_of.0, queued, *count)))
        });
        // From here on how many may go.
        for (kind_of, count) in &mut counts {
            *count = state.rests.get(kind_of).map_or(usize::MAX, |rest| rest.most);
        }
        let (due, kept) =
            std::mem::take(&mut state.queued).into_iter().partition::<Vec<_>, _>(|queued| {
                let left = counts.get_mut(&kind(queued)).filter(|left| **left > 0);
                left.map(|left| *left -= 1).is_some()
            });
        state.queued = kept;
        state.is_busy = !due.is_empty();
        due
    }

    /// A server did not take a batch: it gets the next one later. When nothing else of ours is under way
    /// there, it is a smaller one.
    pub(crate) fn rest(&self, provider: &str, model: &str, refused: RefusedBatch) {
        let RefusedBatch { questions, is_alone, at, first } = refused;
        let mut state = self.state.lock();
        let fresh = Rest { until: at, most: usize::MAX, times: 0 };
        let rest = state.rests.entry((provider.to_owned(), model.to_owned())).or_insert(fresh);
        let pause = first.saturating_mul(1 << rest.times.min(8)).min(LOOK_AGAIN).max(first);
        rest.until = at.plus_ms(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        rest.times += 1;
        rest.most = rest.most.min(if is_alone { (questions / 2).max(1) } else { questions.max(1) });
    }

    /// A server has worked through a batch, so it may take the next one, and a larger one.
    pub(crate) fn has_room(&self, provider: &str, model: &str) {
        let mut state = self.state.lock();
        let kind = (provider.to_owned(), model.to_owned());
        let Some(rest) = state.rests.get_mut(&kind) else { return };
        (rest.until, rest.times) = (self.clock.now(), 0);
        rest.most = rest.most.saturating_mul(2);
        if rest.most >= MOST_FORGOTTEN {
            state.rests.remove(&kind);
        }
    }

    /// What was taken has been sent, and earlier batches were looked at.
    pub(crate) fn is_through(&self) {
        let mut state = self.state.lock();
        (state.has_looked, state.is_busy) = (true, false);
    }

    /// Whether no question waits to be sent to a server that takes it. From now on waiting questions are
    /// sent immediately.
    pub(crate) fn is_settled(&self) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let rests = |queued| state.rests.get(&kind(queued)).is_some_and(|rest| rest.until > now);
        let waits = !state.queued.iter().all(rests);
        let settled = state.has_looked && !waits && !state.is_busy;
        if !settled {
            state.flush = true;
            drop(state);
            self.changed.notify_all();
        }
        settled
    }

    /// Waits until something may have to be done. False at the end.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        let has_work = state.flush || !state.ended.is_empty();
        if !has_work && !state.stops {
            self.changed.wait_for(&mut state, time);
        }
        !state.stops
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stops = true;
        self.changed.notify_all();
    }

    /// Takes a question in. `None`: it is asked directly.
    fn take(
        &self,
        (request, call): (Seq, Digest),
        line: impl FnOnce() -> Option<(BatchLine, Usage, Spent)>,
    ) -> Option<ModelError> {
        let place = self.state.lock().places.get(&(request, call)).copied();
        match place {
            Some(Place::Direct) => return None,
            Some(Place::Waits(_)) => return Some(waits(LOOK_AGAIN)),
            Some(Place::Answered) => {
                // The next attempt is given the answer. Once: an answer that was dropped is asked for.
                self.state.lock().places.remove(&(request, call));
                return Some(waits(Duration::ZERO));
            }
            None => {}
        }
        let (line, expected, wanted) = line()?;
        let gives_way = || RightOfWay::GivesWay;
        let now = || self.clock.now();
        if let Err(error) = self.budget.reserve(wanted, Duration::ZERO, &now, &gives_way) {
            let provider = line.identity.provider;
            let cause = FailureCause::Budget;
            return Some(match error {
                NotReserved::Spent(error) => error,
                NotReserved::Never(reason) => {
                    ModelError::Permanent { provider, reason: reason.into(), cause }
                }
                NotReserved::Reserved(reason) => ModelError::Paused {
                    provider,
                    reason: reason.into(),
                    retry_after: LOOK_AGAIN,
                    cause,
                },
            });
        }
        let BatchLine { body, identity, redacted, .. } = line;
        let question = BatchedQuestion { request, call, identity, expected, redacted };
        let now = self.clock.now();
        let queued = QueuedQuestion { question, body, since: now };
        let mut state = self.state.lock();
        let rest = state.rests.get(&kind(&queued)).map(|rest| rest.until.ms_since(now));
        state.queued.push(queued);
        state.places.insert((request, call), Place::Waits(Some(wanted)));
        // A process that ends before the next batch goes out leaves it to one that begins then.
        Some(match rest.filter(|rest| *rest > 0) {
            Some(rest) => ModelError::Paused {
                provider: "a batch".to_owned(),
                reason: "the account has enough under way; the next batch goes out later".into(),
                retry_after: Duration::from_millis(rest.unsigned_abs()).min(LOOK_AGAIN),
                cause: FailureCause::Batch,
            },
            None => waits(LOOK_AGAIN),
        })
    }
}

fn waits(retry_after: Duration) -> ModelError {
    ModelError::Paused {
        provider: "a batch".to_owned(),
        reason: "the answer comes with it; `summarizer status` shows the batches".into(),
        retry_after,
        cause: FailureCause::Batch,
    }
}

/// A provider whose scheduled questions go out as batches.
pub(super) struct Batched {
    pub inner: Arc<dyn Provider>,
    pub lane: Arc<BatchLane>,
    pub price: BatchPrice,
}

impl Provider for Batched {
    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let request = call.listener.and_then(|listener| listener.batch_for());
        let Some(request) = request.filter(|_| !call.kept_as.is_empty()) else {
            return self.inner.call(call);
        };
        let line = || {
            let line = self.inner.batch_line(call)?;
            let expected = expected(call, &line.identity);
            Some((line, expected, self.price.spent(expected)))
        };
        match self.lane.take((request, sha256(call.kept_as)), line) {
            Some(error) => Err(error),
            None => self.inner.call(call),
        }
    }
}
