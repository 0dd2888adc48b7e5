//! What all providers need around a call: how many at once, how many a minute, how much a day, pauses, a
//! circuit breaker, and who answers when one cannot.
//!
//! Contract:
//! - Requests and tokens a minute are token buckets that start full. A call that must wait waits here as long as
//!   [`Limits::patience`] allows, then fails with [`ModelError::Paused`], which uses no attempt.
//! - `Retry-After` pauses the whole provider: nobody is sent there before it is over. Pauses in a row
//!   have a least length that doubles, so that "at once" for ever is no way to keep a machine busy.
//! - Money and tokens of a day are reserved before a call, for the provider that will bill, and settled with
//!   what it really took; a fallback reserves on its own. What does not fit is refused before anything is sent.
//!   Every settled amount is told to the call's [`Bill`](super::Bill), so that it can become a fact.
//! - A call and all its waiting end within the time the call is allowed; who stands in gets what is left.
//! - After [`FAILURES_TO_OPEN`] failures in a row the provider rests, longer each time; then one
//!   call tries whether it is back.
//!
//! Time comes from the clock of the machine, waiting from a [`Waiter`], so that tests need neither.

use std::sync::Arc;
use std::time::Duration;

use chrono_tz::Tz;
use parking_lot::{Condvar, Mutex};

use super::{
    Charge, ErrorClass, ModelCall, ModelError, ModelIdentity, ModelReply, Provider, Usage,
};
use crate::contract::time::{Day, Timestamp};
use crate::os::Clock;

/// Failures in a row after which a provider rests.
pub const FAILURES_TO_OPEN: u32 = 5;
const REST_FIRST_MS: i64 = 30_000;
const REST_LONGEST_MS: i64 = 300_000;
/// Shortest pause after another, doubled with each.
const PAUSE_LEAST: Duration = Duration::from_millis(100);
/// Tokens reserved for an answer whose length nobody limits.
const ANSWER_TOKENS: u64 = 1_500;
const TOKENS_PER_PRICE: f64 = 1_000_000.0;

/// Lets time pass.
pub trait Waiter: Send + Sync {
    /// Returns after this long.
    fn wait(&self, time: Duration);
}

/// Lets real time pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealTime;

impl Waiter for RealTime {
    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The limits of one provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Calls at the same time.
    pub concurrency: usize,
    /// Calls a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, prompt and answer together.
    pub tokens_per_minute: Option<u32>,
    /// Price of a million prompt tokens.
    pub price_in: f64,
    /// Price of a million answer tokens.
    pub price_out: f64,
    /// Longest a call waits here for its turn.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            concurrency: 8,
            requests_per_minute: None,
            tokens_per_minute: None,
            price_in: 0.0,
            price_out: 0.0,
            patience: Duration::from_secs(60),
        }
    }
}

/// What was spent on one day.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// In the currency of the prices.
    pub cost: f64,
    /// Prompt and answer together.
    pub tokens: u64,
}

/// The budget of a day, shared by all providers.
#[derive(Debug)]
pub struct Budget {
    state: Mutex<BudgetState>,
}

#[derive(Debug)]
struct BudgetState {
    cost_max: Option<f64>,
    tokens_max: Option<u64>,
    zone: Tz,
    day: Option<Day>,
    spent: Spent,
    reserved: Spent,
}

impl Budget {
    /// A budget for days of a time zone; `None` is no limit.
    pub fn new(cost_max: Option<f64>, tokens_max: Option<u64>, zone: Tz) -> Budget {
        let (spent, reserved) = (Spent::default(), Spent::default());
        let state = BudgetState { cost_max, tokens_max, zone, day: None, spent, reserved };
        Budget { state: Mutex::new(state) }
    }

    /// Other limits from now on; what was spent stays spent.
    pub fn set_limits(&self, cost_max: Option<f64>, tokens_max: Option<u64>, zone: Tz) {
        let mut state = self.state.lock();
        (state.cost_max, state.tokens_max, state.zone) = (cost_max, tokens_max, zone);
    }

    /// Continues where an earlier process stopped.
    pub fn restore(&self, day: Day, spent: Spent) {
        let mut state = self.state.lock();
        (state.day, state.spent) = (Some(day), spent);
    }

    /// What was spent on the day of `now`.
    pub fn spent(&self, now: Timestamp) -> Spent {
        let mut state = self.state.lock();
        state.turn_page(now);
        state.spent
    }

    fn reserve(&self, wanted: Spent, now: Timestamp) -> Result<(), ModelError> {
        let mut state = self.state.lock();
        state.turn_page(now);
        let cost = state.spent.cost + state.reserved.cost + wanted.cost;
        let taken = state.spent.tokens.saturating_add(state.reserved.tokens);
        let tokens = taken.saturating_add(wanted.tokens);
        let reason = match (state.cost_max, state.tokens_max) {
            (Some(max), _) if cost > max => {
                format!(
                    "{:.4} of {max} are spent today and this call may cost {:.4}",
                    state.spent.cost, wanted.cost
                )
            }
            (_, Some(max)) if tokens > max => format!(
                "{} of {max} tokens are used today and this call may take {}",
                state.spent.tokens, wanted.tokens
            ),
            _ => {
                state.reserved.cost += wanted.cost;
                state.reserved.tokens = state.reserved.tokens.saturating_add(wanted.tokens);
                return Ok(());
            }
        };
        Err(ModelError::Budget { reason, retry_after: until_tomorrow(now, state.zone) })
    }

    /// Gives back what was reserved and counts what was used; returns the day it counts on.
    fn settle(&self, reserved: Spent, used: Spent, now: Timestamp) -> Day {
        let mut state = self.state.lock();
        let today = state.turn_page(now);
        state.reserved.cost = (state.reserved.cost - reserved.cost).max(0.0);
        state.reserved.tokens = state.reserved.tokens.saturating_sub(reserved.tokens);
        state.spent.cost += used.cost;
        state.spent.tokens = state.spent.tokens.saturating_add(used.tokens);
        today
    }
}

impl BudgetState {
    fn turn_page(&mut self, now: Timestamp) -> Day {
        let today = now.day_in(self.zone);
        if self.day != Some(today) {
            (self.day, self.spent) = (Some(today), Spent::default());
        }
        today
    }
}

fn until_tomorrow(now: Timestamp, zone: Tz) -> Duration {
    let today = now.day_in(zone);
    let (mut same, mut other) = (0i64, 26 * 3_600_000);
    while other - same > 1000 {
        let middle = (same + other) / 2;
        if now.plus_ms(middle).day_in(zone) == today { same = middle } else { other = middle }
    }
    Duration::from_millis(other.unsigned_abs())
}

/// A provider behind its limits.
pub struct Gate {
    inner: Arc<dyn Provider>,
    limits: Limits,
    budget: Arc<Budget>,
    clock: Arc<dyn Clock>,
    waiter: Arc<dyn Waiter>,
    state: Mutex<State>,
    place_free: Condvar,
}

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    requests: Bucket,
    tokens: Bucket,
    paused_until: Option<Timestamp>,
    failures: u32,
    /// Pauses it asked for in a row.
    pauses: u32,
    trying: bool,
}

/// A bucket that holds one minute's worth and is described by what was taken out of it.
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
        // What is larger than the bucket goes when the bucket is full.
        let over = self.taken + amount.min(size) - size;
        #[allow(clippy::cast_possible_truncation, reason = "at most a minute")]
        let wait = (over.max(0.0) * 60_000.0 / size).ceil() as i64;
        wait
    }

    fn take(&mut self, amount: f64) {
        self.taken += amount;
    }
}

impl Gate {
    /// Puts a provider behind limits.
    pub fn new(
        inner: Arc<dyn Provider>,
        limits: Limits,
        budget: Arc<Budget>,
        clock: Arc<dyn Clock>,
        waiter: Arc<dyn Waiter>,
    ) -> Gate {
        let (state, place_free) = (Mutex::default(), Condvar::new());
        Gate { inner, limits, budget, clock, waiter, state, place_free }
    }

    fn cost(&self, usage: Usage) -> Spent {
        let Usage { input_tokens, output_tokens } = usage;
        #[allow(clippy::cast_precision_loss, reason = "token counts are small")]
        let cost = (input_tokens as f64 * self.limits.price_in
            + output_tokens as f64 * self.limits.price_out)
            / TOKENS_PER_PRICE;
        Spent { cost, tokens: usage.total() }
    }

    /// Lets one call through, or says how long until it could be.
    fn admit(&self, tokens: u64) -> Result<(), (Duration, &'static str)> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let paused = state.paused_until.map_or(0, |until| until.ms_since(now));
        let resting = state.failures >= FAILURES_TO_OPEN;
        #[allow(clippy::cast_precision_loss, reason = "token counts are small")]
        let tokens = tokens as f64;
        let waits = [
            (
                paused,
                if resting { "it failed too often and rests" } else { "it asked for a pause" },
            ),
            (if resting && state.trying { 1_000 } else { 0 }, "one call tries whether it is back"),
            (
                state.requests.wait_ms(self.limits.requests_per_minute, 1.0, now),
                "requests a minute",
            ),
            (state.tokens.wait_ms(self.limits.tokens_per_minute, tokens, now), "tokens a minute"),
        ];
        if let Some((ms, reason)) = waits.into_iter().filter(|(ms, _)| *ms > 0).max_by_key(|w| w.0)
        {
            return Err((Duration::from_millis(ms.unsigned_abs()), reason));
        }
        state.requests.take(1.0);
        state.tokens.take(tokens);
        state.trying |= resting;
        Ok(())
    }

    fn paused(&self, reason: &str, retry_after: Duration) -> ModelError {
        let provider = self.inner.identity().provider;
        ModelError::Paused { provider, reason: reason.to_owned(), retry_after }
    }

    /// Waits within what is left of the patience.
    fn be_patient(
        &self,
        left: &mut Duration,
        time: Duration,
        reason: &str,
    ) -> Result<(), ModelError> {
        *left = left.checked_sub(time).ok_or_else(|| self.paused(reason, time))?;
        self.waiter.wait(time);
        Ok(())
    }

    fn take_place(&self, timeout: Duration) -> Result<Place<'_>, ModelError> {
        let mut state = self.state.lock();
        let full = |state: &mut State| state.in_flight >= self.limits.concurrency.max(1);
        if self.place_free.wait_while_for(&mut state, full, timeout).timed_out() {
            return Err(self.paused("all its places are taken", Duration::from_secs(1)));
        }
        state.in_flight += 1;
        Ok(Place(self))
    }

    fn note(&self, result: &Result<ModelReply, ModelError>) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let was_resting = state.failures >= FAILURES_TO_OPEN;
        state.trying = false;
        let paused = matches!(result, Err(ModelError::Transient { retry_after: Some(_), .. }));
        if !paused {
            state.pauses = 0;
        }
        match result {
            Err(ModelError::Transient { retry_after: Some(pause), .. }) => {
                // Whoever says "at once" again and again is not asked at once again and again.
                let least = PAUSE_LEAST * 2_u32.pow(state.pauses.clamp(1, 9) - 1);
                let pause = if state.pauses == 0 { *pause } else { least.max(*pause) };
                state.pauses = state.pauses.saturating_add(1);
                let until = now.plus_ms(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
                state.paused_until = state.paused_until.max(Some(until));
                return Some(pause);
            }
            Err(error) if error.class() == ErrorClass::Transient => {
                state.failures = state.failures.saturating_add(1);
                if state.failures >= FAILURES_TO_OPEN {
                    let rests = state.failures - FAILURES_TO_OPEN;
                    let rest = (REST_FIRST_MS << rests.min(8)).min(REST_LONGEST_MS);
                    state.paused_until = state.paused_until.max(Some(now.plus_ms(rest)));
                }
            }
            // Any other answer shows that it is alive.
            _ => {
                state.failures = 0;
                if was_resting {
                    state.paused_until = None;
                }
            }
        }
        None
    }
}

impl Gate {
    fn too_late(&self, call: &ModelCall<'_>) -> ModelError {
        ModelError::Timeout { provider: self.inner.identity().provider, limit: call.timeout }
    }

    /// Counts what a call took and tells its bill.
    fn settle(
        &self,
        call: &ModelCall<'_>,
        expected: Usage,
        timeout: Duration,
        result: &Result<ModelReply, ModelError>,
    ) {
        let (usage, estimated) = match result {
            Ok(reply) if reply.usage.total() > 0 => (reply.usage, false),
            Ok(_) => (expected, true),
            // It may have been answered after we stopped listening.
            Err(ModelError::Timeout { .. }) if !timeout.is_zero() => (expected, true),
            Err(_) => (Usage::default(), false),
        };
        let used = self.cost(usage);
        let day = self.budget.settle(self.cost(expected), used, self.clock.now());
        if let Some(bill) = call.bill.filter(|_| usage.total() > 0) {
            let identity = match result {
                Ok(reply) => reply.identity.clone(),
                Err(_) => self.inner.identity(),
            };
            bill.charge(Charge { identity, day, usage, cost: used.cost, estimated });
        }
    }
}

struct Place<'a>(&'a Gate);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.state.lock().in_flight -= 1;
        self.0.place_free.notify_one();
    }
}

impl Provider for Gate {
    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn context_is_known(&self) -> bool {
        self.inner.context_is_known()
    }

    fn is_free(&self) -> bool {
        self.inner.is_free()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let limit = call.settings.max_tokens.or(self.identity().max_tokens);
        let expected = Usage {
            input_tokens: call.prompt_tokens(),
            output_tokens: limit.map_or(ANSWER_TOKENS, u64::from),
        };
        let wanted = self.cost(expected);
        let begun = self.clock.now();
        let mut left = self.limits.patience.min(call.timeout / 2);
        loop {
            if let Err((time, reason)) = self.admit(expected.total()) {
                self.be_patient(&mut left, time, reason)?;
                continue;
            }
            let place = self.take_place(time_left(call.timeout, begun, self.clock.now()))?;
            self.budget.reserve(wanted, self.clock.now())?;
            let timeout = time_left(call.timeout, begun, self.clock.now());
            let result = match timeout.is_zero() {
                true => Err(self.too_late(call)),
                false => self.inner.call(&ModelCall { timeout, ..call.clone() }),
            };
            self.settle(call, expected, timeout, &result);
            drop(place);
            match self.note(&result) {
                Some(pause) => self.be_patient(&mut left, pause, "it asked for a pause")?,
                None => return result,
            }
        }
    }
}

/// What is left of the time a call is allowed.
fn time_left(allowed: Duration, begun: Timestamp, now: Timestamp) -> Duration {
    allowed.saturating_sub(Duration::from_millis(now.ms_since(begun).max(0).unsigned_abs()))
}

/// Providers that stand in for each other, in order.
pub struct Fallback {
    chain: Vec<Arc<dyn Provider>>,
    clock: Arc<dyn Clock>,
}

impl Fallback {
    /// A chain; the first is who is asked, the others stand in.
    pub fn new(
        first: Arc<dyn Provider>,
        others: Vec<Arc<dyn Provider>>,
        clock: Arc<dyn Clock>,
    ) -> Fallback {
        let mut chain = vec![first];
        chain.extend(others);
        Fallback { chain, clock }
    }
}

impl Provider for Fallback {
    fn identity(&self) -> ModelIdentity {
        self.chain[0].identity()
    }

    fn context_tokens(&self) -> usize {
        self.chain[0].context_tokens()
    }

    fn context_is_known(&self) -> bool {
        self.chain[0].context_is_known()
    }

    fn is_free(&self) -> bool {
        self.chain[0].is_free()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let mut first_error = None;
        let begun = self.clock.now();
        for (place, provider) in self.chain.iter().enumerate() {
            let left = time_left(call.timeout, begun, self.clock.now());
            // Whoever has somebody behind it must leave that one time to answer.
            let last = place + 1 == self.chain.len();
            let timeout = if last { left } else { left / 2 };
            match provider.call(&ModelCall { timeout, ..call.clone() }) {
                Ok(reply) => return Ok(reply),
                // A model that declines is an answer; asking around for a willing one is not our place.
                Err(error) if error.class() == ErrorClass::Refused => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.expect("a chain has at least one provider"))
    }
}

/// A provider asked for another of its models.
pub struct WithModel {
    inner: Arc<dyn Provider>,
    model: String,
}

impl WithModel {
    /// The same provider, another model.
    pub fn new(inner: Arc<dyn Provider>, model: &str) -> WithModel {
        WithModel { inner, model: model.to_owned() }
    }
}

impl Provider for WithModel {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity { model_name: self.model.clone(), ..self.inner.identity() }
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn context_is_known(&self) -> bool {
        self.inner.context_is_known()
    }

    fn is_free(&self) -> bool {
        self.inner.is_free()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        self.inner.call(&ModelCall { model: Some(&self.model), ..call.clone() })
    }
}

/// A provider that has until a moment: however many calls are made, the last ends by then.
pub struct Deadline<'a> {
    inner: &'a dyn Provider,
    clock: &'a dyn Clock,
    begun: Timestamp,
    allowed: Duration,
}

impl<'a> Deadline<'a> {
    /// From now on, for this long.
    pub fn new(inner: &'a dyn Provider, clock: &'a dyn Clock, allowed: Duration) -> Deadline<'a> {
        Deadline { inner, clock, begun: clock.now(), allowed }
    }
}

impl Provider for Deadline<'_> {
    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn context_is_known(&self) -> bool {
        self.inner.context_is_known()
    }

    fn is_free(&self) -> bool {
        self.inner.is_free()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let left = time_left(self.allowed, self.begun, self.clock.now());
        if left.is_zero() {
            let provider = self.identity().provider;
            return Err(ModelError::Timeout { provider, limit: self.allowed });
        }
        self.inner.call(&ModelCall { timeout: call.timeout.min(left), ..call.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CallSettings, Message, Role, StopReason, Usage};
    use serde_json::Map;
    use std::collections::VecDeque;

    /// A clock that moves only when somebody waits.
    #[derive(Default)]
    struct Stepped(Mutex<i64>);

    impl Clock for Stepped {
        fn now(&self) -> Timestamp {
            Timestamp(*self.0.lock())
        }
    }

    impl Waiter for Stepped {
        fn wait(&self, time: Duration) {
            *self.0.lock() += i64::try_from(time.as_millis()).unwrap().max(1);
        }
    }

    struct Scripted {
        name: &'static str,
        clock: Arc<Stepped>,
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
            Ok(ModelReply {
                text: "ok".into(),
                stop: StopReason::End,
                usage: Usage { input_tokens: tokens, output_tokens: 0 },
                evidence: Vec::new(),
                identity: self.identity(),
                message: None,
                raw: None,
                redacted: 0,
            })
        }
    }

    fn transient(ms: Option<u64>) -> ModelError {
        let retry_after = ms.map(Duration::from_millis);
        ModelError::Transient { provider: "p".into(), reason: "x".into(), retry_after }
    }

    struct Scene {
        clock: Arc<Stepped>,
        provider: Arc<Scripted>,
        budget: Arc<Budget>,
        gate: Gate,
    }

    fn scene(script: Vec<Result<u64, ModelError>>, limits: Limits, budget: Budget) -> Scene {
        let clock = Arc::new(Stepped::default());
        let provider = Arc::new(Scripted {
            name: "p",
            clock: clock.clone(),
            script: Mutex::new(script.into()),
            calls: Mutex::default(),
        });
        let budget = Arc::new(budget);
        let gate =
            Gate::new(provider.clone(), limits, budget.clone(), clock.clone(), clock.clone());
        Scene { clock, provider, budget, gate }
    }

    fn no_budget() -> Budget {
        Budget::new(None, None, Tz::UTC)
    }

    fn ask(gate: &dyn Provider) -> Result<ModelReply, ModelError> {
        let messages = [Message::new(Role::User, "x".repeat(18))];
        gate.call(&ModelCall {
            flow_id: "f",
            variant: None,
            node: "n",
            messages: &messages,
            inputs: &Map::new(),
            sources: &[],
            schema: None,
            validator: None,
            hints: None,
            settings: CallSettings { max_tokens: Some(10), ..CallSettings::default() },
            timeout: Duration::from_secs(300),
            bill: None,
            model: None,
        })
    }

    #[test]
    fn a_pause_is_kept_to_the_millisecond_and_costs_no_attempt() {
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
        assert_eq!(s.provider.calls.lock().len(), 1, "nobody is sent there before it is over");
        s.clock.wait(Duration::from_secs(7));
        ask(&s.gate).unwrap();
    }

    #[test]
    fn a_server_that_says_at_once_for_ever_is_asked_ever_more_slowly() {
        let at_once = || Err(transient(Some(0)));
        let s = scene((0..40).map(|_| at_once()).collect(), Limits::default(), no_budget());
        assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Pause);
        let calls = s.provider.calls.lock().clone();
        assert_eq!(calls[..5], [0, 1, 101, 301, 701]);
        assert!(calls.len() < 16, "{calls:?}");
    }

    #[test]
    fn what_a_server_says_it_counted_breaks_no_sum() {
        let s = scene(vec![Ok(u64::MAX), Ok(u64::MAX)], Limits::default(), no_budget());
        ask(&s.gate).unwrap();
        ask(&s.gate).unwrap();
        assert_eq!(s.budget.spent(s.clock.now()).tokens, u64::MAX);
    }

    #[test]
    fn rates_are_kept() {
        let limits = Limits { requests_per_minute: Some(6), ..Limits::default() };
        let s = scene(Vec::new(), limits, no_budget());
        for _ in 0..9 {
            ask(&s.gate).unwrap();
        }
        assert_eq!(*s.provider.calls.lock(), [0, 0, 0, 0, 0, 0, 10_000, 20_000, 30_000]);

        let limits = Limits { tokens_per_minute: Some(40), ..Limits::default() };
        let s = scene(Vec::new(), limits, no_budget());
        for _ in 0..3 {
            ask(&s.gate).unwrap();
        }
        assert_eq!(*s.provider.calls.lock(), [0, 0, 30_000], "20 tokens a call");
    }

    #[test]
    fn the_budget_is_never_passed_and_is_settled() {
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

        let priced = Limits { price_in: 1e6, price_out: 1e6, ..Limits::default() };
        let s = scene(vec![Ok(20)], priced, Budget::new(Some(25.0), None, Tz::UTC));
        ask(&s.gate).unwrap();
        assert!(matches!(ask(&s.gate), Err(ModelError::Budget { .. })));
    }

    #[test]
    fn a_fallback_reserves_on_its_own_and_is_named() {
        let a = scene(vec![Err(transient(None))], Limits::default(), no_budget());
        let b = scene(vec![Ok(5)], Limits::default(), Budget::new(None, Some(20), Tz::UTC));
        let (a, b): (Arc<dyn Provider>, Arc<dyn Provider>) = (Arc::new(a.gate), Arc::new(b.gate));
        let chain = Fallback::new(a, vec![b], Arc::new(Stepped::default()));
        assert_eq!(ask(&chain).unwrap().identity.provider, "p");

        let first = scene(vec![Err(transient(None))], Limits::default(), no_budget());
        let broke = scene(Vec::new(), Limits::default(), Budget::new(None, Some(5), Tz::UTC));
        let calls = broke.provider.clone();
        let others: Vec<Arc<dyn Provider>> = vec![Arc::new(broke.gate)];
        let chain = Fallback::new(Arc::new(first.gate), others, Arc::new(Stepped::default()));
        assert_eq!(ask(&chain).unwrap_err(), transient(None), "the first error is told");
        assert!(calls.calls.lock().is_empty(), "the fallback cannot pass its budget");
    }

    #[test]
    fn a_provider_that_keeps_failing_rests_and_one_call_tries_again() {
        let script = (0..6).map(|_| Err(transient(None))).collect();
        let limits = Limits { patience: Duration::ZERO, ..Limits::default() };
        let s = scene(script, limits, no_budget());
        for _ in 0..FAILURES_TO_OPEN {
            assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Transient);
        }
        assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Pause);
        assert_eq!(s.provider.calls.lock().len(), 5);
        s.clock.wait(Duration::from_secs(30));
        assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Transient, "the try fails");
        assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Pause);
        s.clock.wait(Duration::from_secs(60));
        ask(&s.gate).unwrap();
        ask(&s.gate).unwrap();
    }

    #[test]
    fn no_more_calls_at_once_than_allowed() {
        struct Counting(Mutex<(usize, usize)>);
        impl Provider for Counting {
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
                Err(ModelError::Permanent { provider: String::new(), reason: String::new() })
            }
        }
        let inner = Arc::new(Counting(Mutex::new((0, 0))));
        let clock = Arc::new(Stepped::default());
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
