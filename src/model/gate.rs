//! Limits around one provider: calls in flight, rates, pauses and a circuit breaker.
//!
//! Contract:
//! - Requests and tokens a minute are token buckets that start full. A call takes what it may need
//!   and gives back what it did not use. It waits here for at most [`Limits::patience`], then fails
//!   with [`ModelError::Paused`], which uses no attempt.
//! - `Retry-After` pauses the whole provider: no call is sent before the pause ends. From the second
//!   pause in a row, a pause has a least length that doubles, so that a server that answers
//!   `Retry-After: 0` for ever cannot keep the machine busy.
//! - The day's [`Budget`] is reserved before a call and settled after it. A fallback reserves on its
//!   own. Every settled amount goes to the call's [`Bill`](super::Bill), so that it becomes a fact.
//! - When only the reservations of running calls prevent a call, it waits until they are settled.
//! - A call and all its waits end within the time that the call is allowed.
//! - Where calls wait, for a rate, a free place or the budget, a call of a `now` request goes before
//!   those that give way. A call that gives way stops waiting when a `now` request needs its thread.
//! - A call that ends without an answer after a part of it arrived, or with an answer that cannot be read,
//!   is charged as an estimate.
//! - After [`FAILURES_TO_OPEN`] failures in a row, as [`Failures`] counts them, the provider gets no
//!   calls for a time, longer each time. Then one call tests whether it answers again. A call that is
//!   held back meanwhile fails with the last failure of the provider.
//! - An account with nothing left to spend refuses every call, so it gets none for [`SPENT_REST`]. Its
//!   calls fail with [`ModelError::Paused`]: the same questions are answered once there is credit.
//! - A server that refuses calls without saying how long to wait is sent as many calls a minute as it
//!   was seen to answer. Such a refusal uses no attempt.
//!
//! Time comes from the machine's clock and waits from a [`Waiter`], so that tests need neither.
//!
//! See docs/adr/0015-provider-gate.md.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::budget::{Budget, NotReserved, Spent};
use super::call::{GIVE_WAY_SLICE, Listener, ModelCall, RightOfWay};
use super::deadline::time_left;
use super::ending::CallEnd;
use super::error::{ErrorClass, ModelError};
use super::health::{FAILURES_TO_OPEN, Failures};
use super::learned_rate::LearnedRate;
use super::provider::{Provider, Resting};
use super::reply::{Cached, Charge, ModelIdentity, ModelReply, Usage};
use super::speed::{Speed, Written};
use crate::contract::time::Timestamp;
use crate::contract::told::ToldFailure;
use crate::contract::vocabulary::FailureCause;
use crate::os::Clock;

const REST_FIRST_MS: i64 = 30_000;
const REST_LONGEST_MS: i64 = 300_000;
/// How long an account with nothing left to spend is left alone.
const SPENT_REST: Duration = Duration::from_secs(900);
/// Least length of the second pause in a row. It doubles with each further pause.
const PAUSE_LEAST: Duration = Duration::from_millis(100);
/// Tokens reserved for an answer without a limit.
const ANSWER_TOKENS: u64 = 1_500;
pub(super) const TOKENS_PER_PRICE: f64 = 1_000_000.0;
/// How long a call that gives way waits at a time for the calls that go first.
const GIVE_WAY_MS: i64 = 1_000;
/// Time after which a call is tried again that the reservations of other calls kept back.
const RESERVED_AGAIN: Duration = Duration::from_secs(5);

/// Waits for a time.
pub(crate) trait Waiter: Send + Sync {
    fn wait(&self, time: Duration);
}

/// Waits in real time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RealTime;

impl Waiter for RealTime {
    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The limits of one provider.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limits {
    /// Calls at the same time.
    pub concurrency: usize,
    /// Calls a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, prompt and answer together.
    pub tokens_per_minute: Option<u32>,
    /// Price of a million prompt tokens.
    pub price_in: f64,
    /// A million tokens that the server reads from its cache.
    pub price_cached: f64,
    /// A million tokens that it writes into its cache.
    pub price_cache_write: f64,
    /// Price of a million answer tokens.
    pub price_out: f64,
    /// Longest time a call waits here.
    pub(crate) patience: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            concurrency: 8,
            requests_per_minute: None,
            tokens_per_minute: None,
            price_in: 0.0,
            price_cached: 0.0,
            price_cache_write: 0.0,
            price_out: 0.0,
            patience: Duration::from_secs(60),
        }
    }
}

/// A provider behind its limits.
pub(super) struct Gate {
    inner: Arc<dyn Provider>,
    limits: Limits,
    budget: Arc<Budget>,
    clock: Arc<dyn Clock>,
    waiter: Arc<dyn Waiter>,
    state: Mutex<GateState>,
    place_free: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    in_flight: usize,
    /// Calls that go first and wait for a limit of the minute or the end of a pause.
    first_wait: usize,
    /// Calls that go first and wait for a place.
    first_wait_for_place: usize,
    /// Calls that took tokens of the minute and have not settled them.
    admitted: usize,
    requests: Bucket,
    tokens: Bucket,
    paused_until: Option<Timestamp>,
    /// Calls sent so far.
    sent: u64,
    failures: Failures,
    rate: LearnedRate,
    /// Pauses in a row that the provider asked for.
    pauses: u32,
    /// The number of the one call that tests a failing provider, while it is under way.
    testing: Option<u64>,
    /// What it met last, until it answers again.
    last: Option<Met>,
    speed: Speed,
}

/// A failure or a pause as the provider told it.
#[derive(Debug, Clone)]
struct Met {
    cause: FailureCause,
    words: ToldFailure,
}

impl Met {
    fn of(error: &ModelError) -> Met {
        Met { cause: error.cause(), words: error.words() }
    }
}

/// A call that may not begin yet.
#[derive(Clone)]
struct Hold {
    time: Duration,
    reason: ToldFailure,
    cause: FailureCause,
    /// Whether a call under way may end it sooner, by giving back tokens of the minute.
    may_settle: bool,
}

/// A token bucket that holds the amount of one minute. It stores what was taken out; that flows back
/// with time.
#[derive(Debug, Default)]
struct Bucket {
    taken: f64,
    at: Timestamp,
}

impl Bucket {
    /// Milliseconds until `amount` can be taken from a bucket of `size` a minute.
    fn wait_ms(&mut self, size: Option<u32>, amount: f64, now: Timestamp) -> i64 {
        let Some(size) = size.map(|size| f64::from(size.max(1))) else { return 0 };
        #[allow(clippy::cast_precision_loss, reason = "minutes, not eons")]
        let passed = now.ms_since(self.at).max(0) as f64;
        self.taken = (self.taken - passed * size / 60_000.0).max(0.0);
        self.at = now;
        // An amount larger than the bucket is let through when the bucket is full.
        let over = self.taken + amount.min(size) - size;
        #[allow(clippy::cast_possible_truncation, reason = "at most a minute")]
        let wait = (over.max(0.0) * 60_000.0 / size).ceil() as i64;
        wait
    }

    fn take(&mut self, amount: f64) {
        self.taken += amount;
    }

    /// Gives back what a call took and did not use.
    fn give_back(&mut self, amount: f64) {
        self.taken = (self.taken - amount).max(0.0);
    }
}

/// What keeps a call back.
#[derive(Clone, Copy)]
enum HoldCause {
    Paused,
    Tested,
    Requests,
    Tokens,
    Learned,
    GivesWay,
}

impl GateState {
    fn is_spent(&self) -> bool {
        self.last.as_ref().is_some_and(|met| met.cause == FailureCause::QuotaUsedUp)
    }

    fn hold(&self, time: Duration, kept: HoldCause) -> Hold {
        let open = self.failures.are_many();
        let (mut reason, mut cause): (ToldFailure, FailureCause) = match kept {
            HoldCause::Paused if self.is_spent() => {
                ("it is left alone for a while".into(), FailureCause::QuotaUsedUp)
            }
            HoldCause::Paused if open => {
                let times = self.failures.count();
                (
                    format!("it failed {times} times in a row and is left alone").into(),
                    FailureCause::Program,
                )
            }
            HoldCause::Paused => {
                let until = self.paused_until.map(|until| format!(" until {until}"));
                (
                    format!("it asked for a pause{}", until.unwrap_or_default()).into(),
                    FailureCause::RateLimit,
                )
            }
            HoldCause::Tested => {
                ("one call tests whether it answers again".into(), FailureCause::Program)
            }
            HoldCause::Requests => {
                ("the requests of this minute are used".into(), FailureCause::RateLimit)
            }
            HoldCause::Learned => (
                "it refuses more calls and does not say how many it allows; set \
                 requests_per_minute if you know the number"
                    .into(),
                FailureCause::RateLimit,
            ),
            HoldCause::GivesWay => {
                ("calls of urgent requests go first".into(), FailureCause::RateLimit)
            }
            HoldCause::Tokens => {
                ("the tokens of this minute are used".into(), FailureCause::RateLimit)
            }
        };
        // A call that gives way to others while they wait for a failing provider waits for it as well.
        let is_of_failure =
            matches!(kept, HoldCause::Paused | HoldCause::Tested | HoldCause::GivesWay);
        if let (true, Some(met)) = (is_of_failure, &self.last) {
            reason = reason.and("; the last answer was: ").and(met.words.clone());
            cause = met.cause;
        }
        let may_settle = matches!(kept, HoldCause::Tokens) && self.admitted > 0;
        Hold { time, reason, cause, may_settle }
    }
}

impl Gate {
    pub(super) fn new(
        inner: Arc<dyn Provider>,
        limits: Limits,
        budget: Arc<Budget>,
        clock: Arc<dyn Clock>,
        waiter: Arc<dyn Waiter>,
    ) -> Gate {
        let (state, place_free) = (Mutex::default(), Condvar::new());
        Gate { inner, limits, budget, clock, waiter, state, place_free }
    }

    fn cost(&self, usage: Usage, cached: Cached) -> Spent {
        let Usage { input_tokens, output_tokens } = usage;
        let read = cached.read.min(input_tokens);
        let written = cached.written.min(input_tokens - read);
        #[allow(clippy::cast_precision_loss, reason = "token counts are small")]
        let cost = ((input_tokens - read - written) as f64 * self.limits.price_in
            + read as f64 * self.limits.price_cached
            + written as f64 * self.limits.price_cache_write
            + output_tokens as f64 * self.limits.price_out)
            / TOKENS_PER_PRICE;
        Spent { cost, tokens: usage.total() }
    }

    /// Admits one call and numbers it, or says what keeps it back.
    fn admit(&self, tokens: u64, right: RightOfWay) -> Result<u64, Hold> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let paused = state.paused_until.map_or(0, |until| until.ms_since(now));
        let open = state.failures.are_many();
        #[allow(clippy::cast_precision_loss, reason = "token counts are small")]
        let tokens = tokens as f64;
        let minute = &self.limits;
        let gives_way = right != RightOfWay::First && state.first_wait > 0;
        let waits = [
            (paused, HoldCause::Paused),
            (if open && state.testing.is_some() { 1_000 } else { 0 }, HoldCause::Tested),
            (state.requests.wait_ms(minute.requests_per_minute, 1.0, now), HoldCause::Requests),
            (state.tokens.wait_ms(minute.tokens_per_minute, tokens, now), HoldCause::Tokens),
            (state.rate.wait_ms(now), HoldCause::Learned),
            (if gives_way { GIVE_WAY_MS } else { 0 }, HoldCause::GivesWay),
        ];
        if let Some((ms, kept)) = waits.into_iter().filter(|(ms, _)| *ms > 0).max_by_key(|w| w.0) {
            return Err(state.hold(Duration::from_millis(ms.unsigned_abs()), kept));
        }
        state.requests.take(1.0);
        state.tokens.take(tokens);
        state.admitted += 1;
        state.rate.sent(now);
        state.sent += 1;
        if open {
            state.testing = Some(state.sent);
        }
        Ok(state.sent)
    }

    fn paused(&self, hold: Hold) -> ModelError {
        let provider = self.inner.identity().provider;
        let Hold { time, reason, cause, .. } = hold;
        ModelError::Paused { provider, reason, retry_after: time, cause }
    }

    /// Waits and takes the time from `left`; fails when too little is left.
    fn wait_within(
        &self,
        left: &mut Duration,
        hold: Hold,
        call: &ModelCall<'_>,
    ) -> Result<(), ModelError> {
        let right = call.right_of_way();
        if right.must_not_wait() {
            return Err(self.paused(hold));
        }
        if let (Some(bill), true) = (call.bill, hold.time <= *left) {
            bill.waits(&self.paused(hold.clone()), hold.time);
        }
        if hold.may_settle {
            let slice = if right == RightOfWay::First { *left } else { GIVE_WAY_SLICE };
            let (begun, patience) = (Instant::now(), hold.time.min(*left).min(slice));
            let mut state = self.state.lock();
            let timed_out = self.place_free.wait_for(&mut state, patience).timed_out();
            drop(state);
            *left = left.saturating_sub(begun.elapsed());
            return match timed_out && left.is_zero() {
                true => Err(self.paused(hold)),
                false => Ok(()),
            };
        }
        match left.checked_sub(hold.time) {
            Some(rest) => *left = rest,
            None => return Err(self.paused(hold)),
        }
        let mut waited = Duration::ZERO;
        loop {
            let slice = GIVE_WAY_SLICE.min(hold.time - waited);
            self.waiter.wait(slice);
            waited += slice;
            if waited >= hold.time || call.right_of_way() != right {
                break;
            }
        }
        *left += hold.time.saturating_sub(waited);
        Ok(())
    }

    fn take_place(
        &self,
        timeout: Duration,
        call: &ModelCall<'_>,
    ) -> Result<InFlight<'_>, ModelError> {
        let until = Instant::now() + timeout;
        let mut state = self.state.lock();
        loop {
            let right = call.right_of_way();
            if right.ends() {
                return Err(ModelError::ends(self.inner.identity().provider));
            }
            let is_first = right == RightOfWay::First;
            let is_full = state.in_flight >= self.limits.concurrency.max(1);
            if !is_full && (is_first || state.first_wait_for_place == 0) {
                state.in_flight += 1;
                UNDER_WAY.fetch_add(1, Ordering::Relaxed);
                return Ok(InFlight(self));
            }
            if right.must_not_wait() || Instant::now() >= until {
                return Err(self.paused(Hold {
                    time: Duration::from_secs(1),
                    reason: "as many calls as it may have are under way".into(),
                    cause: FailureCause::RateLimit,
                    may_settle: false,
                }));
            }
            let slice = if is_first { until } else { until.min(Instant::now() + GIVE_WAY_SLICE) };
            state.first_wait_for_place += usize::from(is_first);
            self.place_free.wait_until(&mut state, slice);
            state.first_wait_for_place -= usize::from(is_first);
        }
    }

    /// Reserves the budget of the day for a call that was admitted.
    fn reserve(
        &self,
        wanted: Spent,
        left: &mut Duration,
        call: &ModelCall<'_>,
    ) -> Result<(), ModelError> {
        let (begun, now) = (Instant::now(), || self.clock.now());
        let reserved = self.budget.reserve(wanted, *left, &now, &|| call.right_of_way());
        *left = left.saturating_sub(begun.elapsed());
        reserved.map_err(|error| match error {
            NotReserved::Spent(error) => error,
            NotReserved::Never(reason) => ModelError::Permanent {
                provider: self.inner.identity().provider,
                reason: reason.into(),
                cause: FailureCause::Budget,
            },
            NotReserved::Reserved(reason) => self.paused(Hold {
                time: RESERVED_AGAIN,
                reason: reason.into(),
                cause: FailureCause::Budget,
                may_settle: false,
            }),
        })
    }

    /// Gives the minute back what an admitted call did not use.
    fn give_back(&self, expected: u64, used: u64) {
        let mut state = self.state.lock();
        state.admitted = state.admitted.saturating_sub(1);
        #[allow(clippy::cast_precision_loss, reason = "token counts are small")]
        match expected.checked_sub(used) {
            Some(unused) => state.tokens.give_back(unused as f64),
            None => state.tokens.take((used - expected) as f64),
        }
        drop(state);
        self.place_free.notify_all();
    }

    /// A call that was admitted and is not sent uses nothing of its minute, and tests nothing.
    fn not_sent(&self, expected: u64, number: u64) {
        self.state.lock().testing.take_if(|test| *test == number);
        self.give_back(expected, 0);
    }

    /// Updates pauses, failures and the learned rate after the call with this number; returns the
    /// pause that the provider asked for or needs.
    fn note(
        &self,
        call: &ModelCall<'_>,
        number: u64,
        result: &Result<ModelReply, ModelError>,
    ) -> Option<Hold> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let was_open = state.failures.are_many();
        let sent = state.sent;
        state.testing = None;
        let paused = matches!(result, Err(ModelError::Transient { retry_after: Some(_), .. }));
        if !paused {
            state.pauses = 0;
        }
        // While an empty account rests, only an answer says something new about it. The failure of a call
        // that was under way before does not.
        let was_spent = state.is_spent() && state.paused_until.is_some_and(|until| until > now);
        state.last = match result {
            Err(error) if is_spent(error) => Some(Met::of(error)),
            Err(_) if was_spent => state.last.take(),
            Err(error) if error.class() == ErrorClass::Transient => Some(Met::of(error)),
            _ => None,
        };
        match result {
            Err(ModelError::Transient { retry_after: Some(pause), .. }) => {
                // The first pause is obeyed as it is; further ones have a least length.
                let least = PAUSE_LEAST * 2_u32.pow(state.pauses.clamp(1, 9) - 1);
                let pause = if state.pauses == 0 { *pause } else { least.max(*pause) };
                state.pauses = state.pauses.saturating_add(1);
                let until = now.plus_ms(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
                state.paused_until = state.paused_until.max(Some(until));
                return Some(state.hold(pause, HoldCause::Paused));
            }
            Err(error) if is_spent(error) => {
                let until = now.plus_ms(i64::try_from(SPENT_REST.as_millis()).unwrap_or(i64::MAX));
                state.paused_until = state.paused_until.max(Some(until));
                return Some(state.hold(SPENT_REST, HoldCause::Paused));
            }
            Err(error @ ModelError::Transient { .. })
                if error.cause() == FailureCause::RateLimit =>
            {
                state.rate.refused(number, sent, now);
                let wait = state.rate.wait_ms(now).max(1).unsigned_abs();
                return Some(state.hold(Duration::from_millis(wait), HoldCause::Learned));
            }
            Err(error) if error.class() == ErrorClass::Transient => {
                let prompt = may_be_the_prompt(error.cause()).then(|| call.request_hash());
                let counts = state.failures.add(number, sent, prompt);
                if counts && state.failures.are_many() {
                    let rests = state.failures.count() - FAILURES_TO_OPEN;
                    let rest = (REST_FIRST_MS << rests.min(8)).min(REST_LONGEST_MS);
                    state.paused_until = state.paused_until.max(Some(now.plus_ms(rest)));
                }
            }
            // Any other result shows that the provider answers.
            _ => {
                state.failures.end();
                if result.is_ok() {
                    state.rate.answered(number, now);
                }
                if was_open || was_spent && result.is_ok() {
                    state.paused_until = None;
                }
            }
        }
        None
    }

    fn too_late(&self, call: &ModelCall<'_>) -> ModelError {
        ModelError::Timeout { provider: self.inner.identity().provider, limit: call.timeout }
    }

    /// Settles budget and minute with what a call took and sends the amount to its bill.
    fn settle(
        &self,
        call: &ModelCall<'_>,
        expected: Usage,
        is_billed: bool,
        result: &Result<ModelReply, ModelError>,
    ) {
        let (usage, estimated) = match result {
            Ok(reply) if reply.usage.total() > 0 => (reply.usage, false),
            Ok(_) => (expected, true),
            Err(_) if is_billed => (expected, true),
            Err(_) => (Usage::default(), false),
        };
        let cached = result.as_ref().map(|reply| reply.cached).unwrap_or_default();
        let used = self.cost(usage, cached);
        let expected_cost = self.cost(expected, Cached::default());
        let day = self.budget.settle(expected_cost, used, self.clock.now());
        self.give_back(expected.total(), usage.total());
        if let Some(bill) = call.bill.filter(|_| usage.total() > 0) {
            let identity = match result {
                Ok(reply) => reply.identity.clone(),
                Err(_) => self.inner.identity(),
            };
            bill.charge(Charge { identity, day, usage, cost: used.cost, estimated });
        }
    }
}

/// What is reserved for a call.
pub(super) fn expected(call: &ModelCall<'_>, asked: &ModelIdentity) -> Usage {
    let limit = call.settings.max_tokens.or(asked.max_tokens);
    let output_tokens = limit.map_or(ANSWER_TOKENS, u64::from);
    Usage { input_tokens: call.prompt_tokens(), output_tokens }
}

/// Whether the account has nothing left to spend, whatever is asked. A quota of the day says when it is
/// open again.
fn is_spent(error: &ModelError) -> bool {
    matches!(error, ModelError::Permanent { cause: FailureCause::QuotaUsedUp, .. })
}

/// Whether another prompt might not have met this.
fn may_be_the_prompt(cause: FailureCause) -> bool {
    use FailureCause::{InvalidAnswer, ServerError, Timeout};
    matches!(cause, InvalidAnswer | ServerError | Timeout)
}

/// Notes when the first part of an answer arrived, and how many there were.
struct Arrivals<'a> {
    first: OnceLock<Timestamp>,
    parts: AtomicU32,
    clock: &'a dyn Clock,
    to: Option<&'a dyn Listener>,
}

impl Arrivals<'_> {
    fn any(&self) -> bool {
        self.first.get().is_some()
    }
}

impl Listener for Arrivals<'_> {
    fn heard(&self, text: &str) -> bool {
        self.first.get_or_init(|| self.clock.now());
        self.parts.fetch_add(1, Ordering::Relaxed);
        self.to.is_none_or(|to| to.heard(text))
    }

    fn right_of_way(&self) -> RightOfWay {
        self.to.map_or(RightOfWay::First, Listener::right_of_way)
    }

    fn end(&self) -> Option<&Arc<CallEnd>> {
        self.to.and_then(Listener::end)
    }
}

/// A call that goes first and waits for a limit of the minute or the end of a pause.
struct FirstWaits<'a>(&'a Gate);

impl<'a> FirstWaits<'a> {
    fn new(gate: &'a Gate) -> FirstWaits<'a> {
        gate.state.lock().first_wait += 1;
        FirstWaits(gate)
    }
}

impl Drop for FirstWaits<'_> {
    fn drop(&mut self) {
        self.0.state.lock().first_wait -= 1;
    }
}

/// Calls under way in this process, to all providers: for a person who interrupts a command.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// How many calls to models this process waits for.
pub(crate) fn calls_under_way() -> usize {
    UNDER_WAY.load(Ordering::Relaxed)
}

/// One of the calls in flight; frees its place when dropped.
struct InFlight<'a>(&'a Gate);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.state.lock().in_flight -= 1;
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        // All of them: some wait for a place, others for tokens.
        self.0.place_free.notify_all();
    }
}

impl Provider for Gate {
    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn tokens_per_second(&self) -> Option<f64> {
        self.state.lock().speed.tokens_per_second()
    }

    fn rests(&self) -> Option<Resting> {
        let state = self.state.lock();
        let until = state.paused_until.filter(|until| *until > self.clock.now())?;
        let met = state.last.as_ref()?;
        Some(Resting { until, cause: met.cause, words: met.words.to_string() })
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let expected = expected(call, &self.identity());
        let wanted = self.cost(expected, Cached::default());
        let begun = self.clock.now();
        let mut left = self.limits.patience.min(call.timeout / 2);
        let mut first_waits = None;
        loop {
            let right = call.right_of_way();
            if right.ends() {
                return Err(ModelError::ends(self.inner.identity().provider));
            }
            let number = match self.admit(expected.total(), right) {
                Ok(number) => number,
                Err(hold) => {
                    if right == RightOfWay::First {
                        first_waits.get_or_insert_with(|| FirstWaits::new(self));
                    }
                    self.wait_within(&mut left, hold, call)?;
                    continue;
                }
            };
            first_waits = None;
            let place = self.take_place(time_left(call.timeout, begun, self.clock.now()), call);
            let reserved = place.and_then(|place| {
                self.reserve(wanted, &mut left, call)?;
                Ok(place)
            });
            let place = reserved.inspect_err(|_| self.not_sent(expected.total(), number))?;
            let timeout = time_left(call.timeout, begun, self.clock.now());
            let arrivals = Arrivals {
                first: OnceLock::new(),
                parts: AtomicU32::new(0),
                clock: &*self.clock,
                to: call.listener,
            };
            let is_ended = || call.end().is_some_and(|end| end.has_come());
            let (sent, was_ended) = (self.clock.now(), is_ended());
            let listener: Option<&dyn Listener> = Some(&arrivals);
            let result = match timeout.is_zero() {
                true => Err(self.too_late(call)),
                false => self.inner.call(&ModelCall { timeout, listener, ..call.clone() }),
            };
            // The server may have answered, and billed, after the timeout.
            let timed_out = matches!(result, Err(ModelError::Timeout { .. })) && !timeout.is_zero();
            // An answer that cannot be read was made all the same.
            let unreadable =
                matches!(&result, Err(error) if error.cause() == FailureCause::InvalidAnswer);
            let was_cut_off = result.is_err() && is_ended() && !was_ended;
            let is_billed = timed_out || unreadable || was_cut_off || arrivals.any();
            if let Ok(reply) = &result {
                let written = Written {
                    sent: sent.0,
                    first: arrivals.first.get().map(|first| first.0),
                    parts: arrivals.parts.load(Ordering::Relaxed),
                    ended: self.clock.now().0,
                    tokens: reply.usage.output_tokens,
                };
                self.state.lock().speed.add(written);
            }
            self.settle(call, expected, is_billed, &result);
            drop(place);
            match self.note(call, number, &result) {
                Some(hold) => self.wait_within(&mut left, hold, call)?,
                None => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::call::{CallSettings, Message, Role};
    use crate::model::fallback::Fallback;
    use chrono_tz::Tz;
    use serde_json::Map;
    use std::collections::VecDeque;
    use std::sync::LazyLock;
    use std::sync::atomic::AtomicBool;

    /// A clock that moves only during waits.
    #[derive(Default)]
    struct SteppedClock(Mutex<i64>);

    impl Clock for SteppedClock {
        fn now(&self) -> Timestamp {
            Timestamp(*self.0.lock())
        }
    }

    impl Waiter for SteppedClock {
        fn wait(&self, time: Duration) {
            *self.0.lock() += i64::try_from(time.as_millis()).unwrap().max(1);
        }
    }

    struct Scripted {
        name: &'static str,
        clock: Arc<SteppedClock>,
        script: Mutex<VecDeque<Result<u64, ModelError>>>,
        calls: Mutex<Vec<i64>>,
    }

    impl Provider for Scripted {
        fn identity(&self) -> ModelIdentity {
            ModelIdentity { provider: self.name.into(), ..ModelIdentity::default() }
        }

        fn context_tokens(&self) -> usize {
            1000
        }

        fn call(&self, _: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
            self.calls.lock().push(self.clock.now().0);
            let tokens = self.script.lock().pop_front().unwrap_or(Ok(10))?;
            let usage = Usage { input_tokens: tokens, output_tokens: 0 };
            Ok(ModelReply::plain("ok".into(), usage, self.identity()))
        }
    }

    fn transient(ms: Option<u64>) -> ModelError {
        let retry_after = ms.map(Duration::from_millis);
        let cause = FailureCause::ServerError;
        ModelError::Transient { provider: "p".into(), reason: "x".into(), retry_after, cause }
    }

    struct GateTest {
        clock: Arc<SteppedClock>,
        provider: Arc<Scripted>,
        budget: Arc<Budget>,
        gate: Gate,
    }

    fn scene(script: Vec<Result<u64, ModelError>>, limits: Limits, budget: Budget) -> GateTest {
        let clock = Arc::new(SteppedClock::default());
        let provider = Arc::new(Scripted {
            name: "p",
            clock: clock.clone(),
            script: Mutex::new(script.into()),
            calls: Mutex::default(),
        });
        let budget = Arc::new(budget);
        let gate =
            Gate::new(provider.clone(), limits, budget.clone(), clock.clone(), clock.clone());
        GateTest { clock, provider, budget, gate }
    }

    fn no_budget() -> Budget {
        Budget::new(None, None, Tz::UTC)
    }

    fn ask(gate: &dyn Provider) -> Result<ModelReply, ModelError> {
        ask_as(gate, None)
    }

    fn ask_as(
        gate: &dyn Provider,
        listener: Option<&dyn Listener>,
    ) -> Result<ModelReply, ModelError> {
        let messages = [Message::new(Role::User, "x".repeat(18))];
        gate.call(&call(&messages, listener))
    }

    fn call<'a>(messages: &'a [Message], listener: Option<&'a dyn Listener>) -> ModelCall<'a> {
        static NOTHING: LazyLock<Map<String, serde_json::Value>> = LazyLock::new(Map::new);
        ModelCall {
            flow_id: "f",
            variant: None,
            node: "n",
            messages,
            inputs: &NOTHING,
            sources: &[],
            schema: None,
            validator: None,
            hints: None,
            settings: CallSettings { max_tokens: Some(10), ..CallSettings::default() },
            timeout: Duration::from_secs(300),
            bill: None,
            listener,
            model: None,
            apart: false,
            speakers: None,
            kept_as: "",
        }
    }

    #[test]
    fn a_pause_is_obeyed_to_the_millisecond_and_uses_no_attempt() {
        let s = scene(vec![Err(transient(Some(7_000))), Ok(1)], Limits::default(), no_budget());
        ask(&s.gate).unwrap();
        assert_eq!(*s.provider.calls.lock(), [0, 7_000]);

        let impatient = Limits { patience: Duration::from_secs(5), ..Limits::default() };
        let s = scene(vec![Err(transient(Some(7_000)))], impatient, no_budget());
        for _ in 0..3 {
            let error = ask(&s.gate).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Pause);
            assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        }
        assert_eq!(s.provider.calls.lock().len(), 1, "no call is sent before the pause ends");
        s.clock.wait(Duration::from_secs(7));
        ask(&s.gate).unwrap();
    }

    #[test]
    fn calls_under_way_do_not_hide_that_the_account_is_empty_and_an_answer_ends_its_rest() {
        let spent = ModelError::Permanent {
            provider: "p".into(),
            reason: "status 429: no credit".into(),
            cause: FailureCause::QuotaUsedUp,
        };
        let bad = ModelError::Permanent {
            provider: "p".into(),
            reason: "status 400".into(),
            cause: FailureCause::BadRequest,
        };
        let s = scene(Vec::new(), Limits::default(), no_budget());
        let messages = [Message::new(Role::User, "x")];
        let call = call(&messages, None);
        let rest = || s.gate.rests().map(|rest| (rest.until.0, rest.cause));
        s.gate.note(&call, 1, &Err(spent));
        let whole = Some((900_000, FailureCause::QuotaUsedUp));
        for later in [bad, transient(None), transient(Some(1_000))] {
            s.gate.note(&call, 2, &Err(later));
            assert_eq!(rest(), whole);
        }
        let usage = Usage { input_tokens: 1, output_tokens: 1 };
        s.gate.note(&call, 3, &Ok(ModelReply::plain("ok".into(), usage, s.gate.identity())));
        assert_eq!(rest(), None);
        ask(&s.gate).unwrap();
    }

    #[test]
    fn an_account_with_nothing_to_spend_is_left_alone_and_its_questions_wait() {
        let spent = ModelError::Permanent {
            provider: "p".into(),
            reason: "status 429: no credit".into(),
            cause: FailureCause::QuotaUsedUp,
        };
        let s = scene(vec![Err(spent.clone()), Err(spent)], Limits::default(), no_budget());
        for _ in 0..3 {
            let error = ask(&s.gate).unwrap_err();
            assert_eq!(
                (error.class(), error.cause()),
                (ErrorClass::Pause, FailureCause::QuotaUsedUp)
            );
            assert_eq!(error.retry_after(), Some(SPENT_REST));
            assert!(error.to_string().contains("no credit"), "{error}");
            let rests = s.gate.rests().unwrap();
            assert_eq!((rests.until.0, rests.cause), (900_000, FailureCause::QuotaUsedUp));
        }
        assert_eq!(s.provider.calls.lock().len(), 1, "no call is sent before the rest ends");
        s.clock.wait(SPENT_REST);
        ask(&s.gate).unwrap_err();
        assert_eq!(s.provider.calls.lock().len(), 2);
        s.clock.wait(SPENT_REST);
        ask(&s.gate).unwrap();
        assert_eq!(s.gate.rests(), None);
        ask(&s.gate).unwrap();
    }

    #[test]
    fn repeated_pauses_of_zero_length_are_lengthened() {
        let zero = || Err(transient(Some(0)));
        let s = scene((0..40).map(|_| zero()).collect(), Limits::default(), no_budget());
        assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Pause);
        let calls = s.provider.calls.lock().clone();
        assert_eq!(calls[..5], [0, 1, 101, 301, 701]);
        assert!(calls.len() < 16, "{calls:?}");
    }

    #[test]
    fn tokens_of_a_cache_have_their_own_prices() {
        let limits = Limits {
            price_in: 10.0,
            price_cached: 1.0,
            price_cache_write: 12.5,
            price_out: 100.0,
            ..Limits::default()
        };
        let s = scene(vec![], limits, no_budget());
        let usage = Usage { input_tokens: 1_000_000, output_tokens: 0 };
        let cost = |read, written| s.gate.cost(usage, Cached { read, written }).cost;
        assert_eq!(cost(0, 0), 10.0);
        assert_eq!(cost(1_000_000, 0), 1.0);
        assert_eq!(cost(0, 1_000_000), 12.5);
        assert_eq!(cost(500_000, 100_000), 4.0 + 0.5 + 1.25);
        assert_eq!(cost(u64::MAX, u64::MAX), 1.0, "no more than the prompt has");
    }

    #[test]
    fn huge_token_counts_do_not_overflow_the_sum() {
        let s = scene(vec![Ok(u64::MAX), Ok(u64::MAX)], Limits::default(), no_budget());
        ask(&s.gate).unwrap();
        ask(&s.gate).unwrap();
        assert_eq!(s.budget.spent(s.clock.now()).tokens, u64::MAX);
    }

    #[test]
    fn requests_and_tokens_a_minute_are_limited() {
        let limits = Limits { requests_per_minute: Some(6), ..Limits::default() };
        let s = scene(Vec::new(), limits, no_budget());
        for _ in 0..9 {
            ask(&s.gate).unwrap();
        }
        assert_eq!(*s.provider.calls.lock(), [0, 0, 0, 0, 0, 0, 10_000, 20_000, 30_000]);

        let limits = Limits { tokens_per_minute: Some(40), ..Limits::default() };
        let s = scene(vec![Ok(20), Ok(20), Ok(20)], limits.clone(), no_budget());
        for _ in 0..3 {
            ask(&s.gate).unwrap();
        }
        assert_eq!(*s.provider.calls.lock(), [0, 0, 30_000], "20 tokens a call");

        let s = scene(vec![Ok(10), Ok(10), Ok(10), Ok(10)], limits, no_budget());
        for _ in 0..4 {
            ask(&s.gate).unwrap();
        }
        assert_eq!(*s.provider.calls.lock(), [0, 0, 0, 15_000], "what is not used is given back");
    }

    /// A provider whose calls wait until the test releases them.
    struct HeldProvider {
        entered: crossbeam_channel::Sender<()>,
        go: crossbeam_channel::Receiver<()>,
    }

    impl Provider for HeldProvider {
        fn identity(&self) -> ModelIdentity {
            ModelIdentity { provider: "held".into(), ..ModelIdentity::default() }
        }

        fn context_tokens(&self) -> usize {
            1000
        }

        fn call(&self, _: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
            self.entered.send(()).unwrap();
            self.go.recv().unwrap();
            let usage = Usage { input_tokens: 1, output_tokens: 0 };
            Ok(ModelReply::plain("ok".into(), usage, self.identity()))
        }
    }

    /// One call under way has taken all there is; gives how the next one ends when the first is let
    /// go, and how it ends when it is not.
    fn second_call_of(limits: Limits, tokens_per_day: Option<u64>) -> [Result<(), ModelError>; 2] {
        [true, false].map(|let_go| {
            let (entered, seen) = crossbeam_channel::unbounded();
            let (allow, go) = crossbeam_channel::unbounded();
            let clock = Arc::new(SteppedClock::default());
            let budget = Arc::new(Budget::new(None, tokens_per_day, Tz::UTC));
            let patience = Duration::from_millis(if let_go { 60_000 } else { 30 });
            let limits = Limits { patience, ..limits.clone() };
            let held = Arc::new(HeldProvider { entered, go });
            let gate = Gate::new(held, limits, budget, clock.clone(), clock);
            std::thread::scope(|scope| {
                let first = scope.spawn(|| ask(&gate).map(drop));
                seen.recv().unwrap();
                let second = scope.spawn(|| ask(&gate).map(drop));
                if !let_go {
                    let ended = second.join().unwrap();
                    allow.send(()).unwrap();
                    first.join().unwrap().unwrap();
                    return ended;
                }
                // Nothing but the settlement of the first call lets the second one in.
                assert!(seen.recv_timeout(Duration::from_millis(50)).is_err());
                (0..2).for_each(|_| allow.send(()).unwrap());
                first.join().unwrap().unwrap();
                second.join().unwrap()
            })
        })
    }

    #[test]
    fn a_call_waits_for_settlements_and_not_for_midnight() {
        // 20 tokens are reserved for a call, and each takes one.
        let [waited, gave_up] = second_call_of(Limits::default(), Some(30));
        waited.unwrap();
        let gave_up = gave_up.unwrap_err();
        assert_eq!(gave_up.retry_after(), Some(RESERVED_AGAIN), "{gave_up}");
        assert_eq!(gave_up.cause(), FailureCause::Budget);
        assert!(gave_up.to_string().contains("0 of 30 tokens are used today"), "{gave_up}");
    }

    #[test]
    fn a_call_waits_for_the_settlements_of_the_minute() {
        let limits = Limits { tokens_per_minute: Some(30), ..Limits::default() };
        let [waited, gave_up] = second_call_of(limits, None);
        waited.unwrap();
        let gave_up = gave_up.unwrap_err();
        assert_eq!(
            (gave_up.class(), gave_up.cause()),
            (ErrorClass::Pause, FailureCause::RateLimit)
        );
    }

    #[test]
    fn a_provider_that_is_left_alone_tells_its_last_failure() {
        let refused = || ModelError::Transient {
            provider: "p".into(),
            reason: "connection refused at h".into(),
            retry_after: None,
            cause: FailureCause::ConnectionRefused,
        };
        let script = (0..FAILURES_TO_OPEN).map(|_| Err(refused())).collect();
        let limits = Limits { patience: Duration::ZERO, ..Limits::default() };
        let s = scene(script, limits, no_budget());
        for _ in 0..FAILURES_TO_OPEN {
            ask(&s.gate).unwrap_err();
        }
        let error = ask(&s.gate).unwrap_err();
        assert_eq!(
            (error.class(), error.cause()),
            (ErrorClass::Pause, FailureCause::ConnectionRefused)
        );
        assert!(error.to_string().contains("connection refused at h"), "{error}");
        s.clock.wait(Duration::from_secs(30));
        ask(&s.gate).unwrap();
        assert!(s.gate.state.lock().last.is_none(), "an answer ends the story");
    }

    /// The budget of the day may be spent when the test call begins. Then it is not sent, and another one tests.
    #[test]
    fn a_test_call_that_is_not_sent_lets_another_one_test() {
        let script = (0..FAILURES_TO_OPEN).map(|_| Err(transient(None))).collect();
        let budget = Budget::new(None, Some(1_000), Tz::UTC);
        let s = scene(script, Limits::default(), budget);
        for _ in 0..FAILURES_TO_OPEN {
            ask(&s.gate).unwrap_err();
        }
        let all = Spent { cost: 0.0, tokens: 1_000 };
        s.budget.settle(Spent::default(), all, s.clock.now());
        s.clock.wait(Duration::from_secs(30));
        let spent = ask(&s.gate).unwrap_err();
        assert!(matches!(spent, ModelError::Budget { .. }), "{spent}");
        s.clock.wait(Duration::from_secs(86_400));
        ask(&s.gate).unwrap();
    }

    #[test]
    fn a_chain_waits_for_a_member_that_only_asks_for_a_wait() {
        let permanent = ModelError::Permanent {
            provider: "p".into(),
            reason: "status 401".into(),
            cause: FailureCause::Unauthorized,
        };
        let pause = Some(120_000);
        for (first, second, expected) in [
            (permanent.clone(), transient(pause), ErrorClass::Pause),
            (transient(None), permanent.clone(), ErrorClass::Transient),
            (permanent.clone(), permanent.clone(), ErrorClass::Permanent),
        ] {
            let gates: Vec<Arc<dyn Provider>> = [first, second]
                .into_iter()
                .map(|error| {
                    let gate = scene(vec![Err(error)], Limits::default(), no_budget()).gate;
                    Arc::new(gate) as Arc<dyn Provider>
                })
                .collect();
            let chain = Fallback::new(
                Arc::clone(&gates[0]),
                vec![Arc::clone(&gates[1])],
                Arc::new(SteppedClock::default()),
            );
            assert_eq!(ask(&chain).unwrap_err().class(), expected);
        }
    }

    /// An attempt that gives way.
    #[derive(Default)]
    struct Yielding {
        in_the_way: AtomicBool,
    }

    impl Listener for Yielding {
        fn heard(&self, _: &str) -> bool {
            true
        }

        fn right_of_way(&self) -> RightOfWay {
            match self.in_the_way.load(Ordering::Relaxed) {
                true => RightOfWay::InTheWay,
                false => RightOfWay::GivesWay,
            }
        }
    }

    #[test]
    fn a_call_that_gives_way_waits_for_calls_that_go_first() {
        let (entered, seen) = crossbeam_channel::unbounded();
        let (allow, go) = crossbeam_channel::unbounded();
        let clock = Arc::new(SteppedClock::default());
        let limits = Limits { concurrency: 1, ..Limits::default() };
        let held = Arc::new(HeldProvider { entered, go });
        let gate = Gate::new(held, limits, Arc::new(no_budget()), clock.clone(), clock);
        let (order, yielding) = (Mutex::new(Vec::new()), Yielding::default());
        let waiting = |first: usize| {
            while gate.state.lock().first_wait_for_place < first {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| ask(&gate).unwrap());
            seen.recv().unwrap();
            scope.spawn(|| {
                ask_as(&gate, Some(&yielding)).unwrap();
                order.lock().push("scheduled");
            });
            std::thread::sleep(Duration::from_millis(50));
            scope.spawn(|| {
                ask(&gate).unwrap();
                order.lock().push("now");
            });
            waiting(1);
            for _ in 0..3 {
                allow.send(()).unwrap();
                let _ = seen.recv_timeout(Duration::from_secs(5));
            }
        });
        assert_eq!(*order.lock(), ["now", "scheduled"]);
    }

    #[test]
    fn a_rate_goes_to_calls_that_go_first_and_a_thread_that_is_needed_is_not_held() {
        let limits = Limits { requests_per_minute: Some(6), ..Limits::default() };
        let s = scene(Vec::new(), limits, no_budget());
        (0..6).for_each(|_| drop(ask(&s.gate).unwrap()));
        let yielding = Yielding::default();
        {
            let _urgent = FirstWaits::new(&s.gate);
            s.clock.wait(Duration::from_secs(30));
            let error = ask_as(&s.gate, Some(&yielding)).unwrap_err();
            assert!(error.to_string().contains("urgent requests go first"), "{error}");
        }
        ask_as(&s.gate, Some(&yielding)).unwrap();
        let sent = s.provider.calls.lock().len();
        (sent..14).for_each(|_| drop(ask(&s.gate).unwrap()));
        yielding.in_the_way.store(true, Ordering::Relaxed);
        let before = s.clock.now();
        let error = ask_as(&s.gate, Some(&yielding)).unwrap_err();
        assert_eq!((error.class(), s.clock.now()), (ErrorClass::Pause, before));
    }

    /// A `now` call of a service that ends with the second look of the gate.
    struct Ending(AtomicBool);

    impl Listener for Ending {
        fn heard(&self, _: &str) -> bool {
            true
        }

        fn right_of_way(&self) -> RightOfWay {
            match self.0.swap(true, Ordering::Relaxed) {
                true => RightOfWay::Ends,
                false => RightOfWay::First,
            }
        }
    }

    #[test]
    fn a_call_that_waits_is_put_off_when_the_service_ends() {
        let limits = Limits { requests_per_minute: Some(1), ..Limits::default() };
        let s = scene(Vec::new(), limits, no_budget());
        ask(&s.gate).unwrap();
        let error = ask_as(&s.gate, Some(&Ending(AtomicBool::new(false)))).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Pause);
        assert!(s.clock.now().0 < 10_000, "it waited {} ms of a minute", s.clock.now().0);
        assert!(!RightOfWay::Ends.is_scheduled(), "`now` goes into no batch, also at the end");
    }

    #[test]
    fn a_call_over_the_budget_is_not_sent() {
        let s =
            scene(vec![Ok(15), Ok(15)], Limits::default(), Budget::new(None, Some(40), Tz::UTC));
        ask(&s.gate).unwrap();
        ask(&s.gate).unwrap();
        let error = ask(&s.gate).unwrap_err();
        assert!(matches!(error, ModelError::Budget { .. }), "{error}");
        assert_eq!(s.provider.calls.lock().len(), 2);
        assert_eq!(s.budget.spent(s.clock.now()).tokens, 30);
        let wait = error.retry_after().unwrap();
        assert!((86_399..=86_401).contains(&wait.as_secs()));
        s.clock.wait(wait);
        ask(&s.gate).unwrap();

        let priced =
            Limits { price_in: 1e6, price_cached: 1e6, price_out: 1e6, ..Limits::default() };
        let s = scene(vec![Ok(20)], priced, Budget::new(Some(25.0), None, Tz::UTC));
        ask(&s.gate).unwrap();
        assert!(matches!(ask(&s.gate), Err(ModelError::Budget { .. })));

        // 20 tokens are reserved for a call: no day has room for it.
        let s = scene(Vec::new(), Limits::default(), Budget::new(None, Some(19), Tz::UTC));
        let error = ask(&s.gate).unwrap_err();
        assert_eq!((error.class(), error.cause()), (ErrorClass::Permanent, FailureCause::Budget));
        assert!(error.to_string().contains("take 20 tokens"), "{error}");
    }

    #[test]
    fn a_fallback_reserves_from_its_own_budget_and_is_named() {
        let a = scene(vec![Err(transient(None))], Limits::default(), no_budget());
        let b = scene(vec![Ok(5)], Limits::default(), Budget::new(None, Some(20), Tz::UTC));
        let (a, b): (Arc<dyn Provider>, Arc<dyn Provider>) = (Arc::new(a.gate), Arc::new(b.gate));
        let chain = Fallback::new(a, vec![b], Arc::new(SteppedClock::default()));
        assert_eq!(ask(&chain).unwrap().identity.provider, "p");

        let first = scene(vec![Err(transient(None))], Limits::default(), no_budget());
        let broke = scene(Vec::new(), Limits::default(), Budget::new(None, Some(5), Tz::UTC));
        let calls = broke.provider.clone();
        let others: Vec<Arc<dyn Provider>> = vec![Arc::new(broke.gate)];
        let chain = Fallback::new(Arc::new(first.gate), others, Arc::new(SteppedClock::default()));
        let error = ask(&chain).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Transient, "the first error is returned");
        let said = error.to_string();
        assert!(said.contains("reach p: x; p: this call may take 20 tokens"), "{said}");
        assert!(calls.calls.lock().is_empty(), "the fallback stays within its budget");
    }

    #[test]
    fn a_member_that_asks_for_a_long_pause_does_not_hold_the_chain() {
        let patience = Duration::from_secs(5);
        let limits = || Limits { patience, ..Limits::default() };
        for other_fails_first in [false, true] {
            let pausing = scene(vec![Err(transient(Some(3_600_000)))], limits(), no_budget());
            let failing = scene(vec![Err(transient(None))], limits(), no_budget());
            let (a, b): (Arc<dyn Provider>, Arc<dyn Provider>) =
                (Arc::new(pausing.gate), Arc::new(failing.gate));
            let (first, second) = if other_fails_first { (b, a) } else { (a, b) };
            let chain = Fallback::new(first, vec![second], Arc::new(SteppedClock::default()));
            let error = ask(&chain).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Pause, "it costs no attempt");
            assert!(error.retry_after().unwrap() <= Duration::from_secs(60), "{error}");
            let said = error.to_string();
            assert!(said.contains("pause until 1970-01-01T01:00:00"), "{said}");
            assert!(said.contains("p: x"), "{said}");
        }
    }

    #[test]
    fn after_repeated_failures_one_call_tests_the_provider() {
        let gone = || ModelError::Transient {
            provider: "p".into(),
            reason: "x".into(),
            retry_after: None,
            cause: FailureCause::ConnectionRefused,
        };
        let script = (0..6).map(|_| Err(gone())).collect();
        let limits = Limits { patience: Duration::ZERO, ..Limits::default() };
        let s = scene(script, limits, no_budget());
        for _ in 0..FAILURES_TO_OPEN {
            assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Transient);
        }
        assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Pause);
        assert_eq!(s.provider.calls.lock().len(), 5);
        s.clock.wait(Duration::from_secs(30));
        assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Transient, "the test call fails");
        assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Pause);
        s.clock.wait(Duration::from_secs(60));
        ask(&s.gate).unwrap();
        ask(&s.gate).unwrap();
    }

    #[test]
    fn a_rate_limit_without_a_hint_costs_no_attempt() {
        let limited = || {
            Err(ModelError::Transient {
                provider: "p".into(),
                reason: "status 429".into(),
                retry_after: None,
                cause: FailureCause::RateLimit,
            })
        };
        let script = vec![Ok(1), Ok(1), limited(), limited(), Ok(1)];
        let patient = Limits { patience: Duration::from_secs(150), ..Limits::default() };
        let s = scene(script, patient, no_budget());
        for _ in 0..3 {
            ask(&s.gate).unwrap();
        }
        // Two answers at once, so two a second, then one.
        assert_eq!(*s.provider.calls.lock(), [0, 0, 0, 500, 1_500]);
        let impatient = Limits { patience: Duration::from_secs(5), ..Limits::default() };
        let s = scene((0..5).map(|_| limited()).collect(), impatient, no_budget());
        let error = ask(&s.gate).unwrap_err();
        assert_eq!((error.class(), error.cause()), (ErrorClass::Pause, FailureCause::RateLimit));
    }

    #[test]
    fn concurrent_calls_are_limited() {
        struct CallCounter(Mutex<(usize, usize)>);
        impl Provider for CallCounter {
            fn identity(&self) -> ModelIdentity {
                ModelIdentity::default()
            }
            fn context_tokens(&self) -> usize {
                1
            }
            fn call(&self, _: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
                let mut now = self.0.lock();
                now.0 += 1;
                now.1 = now.1.max(now.0);
                drop(now);
                std::thread::yield_now();
                self.0.lock().0 -= 1;
                Err(ModelError::Permanent {
                    provider: String::new(),
                    reason: "".into(),
                    cause: FailureCause::BadRequest,
                })
            }
        }
        let inner = Arc::new(CallCounter(Mutex::new((0, 0))));
        let clock = Arc::new(SteppedClock::default());
        let limits = Limits { concurrency: 2, ..Limits::default() };
        let gate = Gate::new(inner.clone(), limits, Arc::new(no_budget()), clock.clone(), clock);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| ask(&gate).unwrap_err());
            }
        });
        assert!(inner.0.lock().1 <= 2);
    }
}
