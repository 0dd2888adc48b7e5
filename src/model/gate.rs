//! Limits around one provider: calls in flight, rates, pauses and a circuit breaker.
//!
//! Contract:
//! - Requests and tokens a minute are token buckets that start full. A call waits here for at most
//!   [`Limits::patience`], then fails with [`ModelError::Paused`], which uses no attempt.
//! - `Retry-After` pauses the whole provider: no call is sent before the pause ends. From the second
//!   pause in a row, a pause has a least length that doubles, so that a server that answers
//!   `Retry-After: 0` for ever cannot keep the machine busy.
//! - The day's [`Budget`] is reserved before a call and settled after it. A fallback reserves on its
//!   own. Every settled amount goes to the call's [`Bill`](super::Bill), so that it becomes a fact.
//! - A call and all its waits end within the time that the call is allowed.
//! - After [`FAILURES_TO_OPEN`] failures in a row the provider is left alone, longer each time. Then
//!   one call tests whether it answers again.
//!
//! Time comes from the machine's clock and waits from a [`Waiter`], so that tests need neither.
//!
//! See docs/adr/0015-provider-gate.md.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::budget::{Budget, Spent};
use super::call::ModelCall;
use super::deadline::time_left;
use super::error::{ErrorClass, ModelError};
use super::provider::Provider;
use super::reply::{Charge, ModelIdentity, ModelReply, Usage};
use crate::contract::time::Timestamp;
use crate::os::Clock;

/// Failures in a row after which the circuit breaker opens.
const FAILURES_TO_OPEN: u32 = 5;
const REST_FIRST_MS: i64 = 30_000;
const REST_LONGEST_MS: i64 = 300_000;
/// Least length of the second pause in a row. It doubles with each further pause.
const PAUSE_LEAST: Duration = Duration::from_millis(100);
/// Tokens reserved for an answer without a limit.
const ANSWER_TOKENS: u64 = 1_500;
const TOKENS_PER_PRICE: f64 = 1_000_000.0;

/// Waits for a time.
pub trait Waiter: Send + Sync {
    fn wait(&self, time: Duration);
}

/// Waits in real time.
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
    /// Longest time a call waits here.
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

/// A provider behind its limits.
pub struct Gate {
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
    requests: Bucket,
    tokens: Bucket,
    paused_until: Option<Timestamp>,
    /// Failures in a row.
    failures: u32,
    /// Pauses in a row that the provider asked for.
    pauses: u32,
    /// Whether the one call that tests a failing provider is under way.
    testing: bool,
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
}

impl Gate {
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

    /// Admits one call, or returns the wait until it can be admitted and the reason.
    fn admit(&self, tokens: u64) -> Result<(), (Duration, &'static str)> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let paused = state.paused_until.map_or(0, |until| until.ms_since(now));
        let open = state.failures >= FAILURES_TO_OPEN;
        #[allow(clippy::cast_precision_loss, reason = "token counts are small")]
        let tokens = tokens as f64;
        let waits = [
            (
                paused,
                if open { "it failed too often and is left alone" } else { "it asked for a pause" },
            ),
            (
                if open && state.testing { 1_000 } else { 0 },
                "one call tests whether it answers again",
            ),
            (
                state.requests.wait_ms(self.limits.requests_per_minute, 1.0, now),
                "the requests of this minute are used",
            ),
            (
                state.tokens.wait_ms(self.limits.tokens_per_minute, tokens, now),
                "the tokens of this minute are used",
            ),
        ];
        if let Some((ms, reason)) = waits.into_iter().filter(|(ms, _)| *ms > 0).max_by_key(|w| w.0)
        {
            return Err((Duration::from_millis(ms.unsigned_abs()), reason));
        }
        state.requests.take(1.0);
        state.tokens.take(tokens);
        state.testing |= open;
        Ok(())
    }

    fn paused(&self, reason: &str, retry_after: Duration) -> ModelError {
        let provider = self.inner.identity().provider;
        ModelError::Paused { provider, reason: reason.to_owned(), retry_after }
    }

    /// Waits and takes the time from `left`; fails when too little is left.
    fn wait_within(
        &self,
        left: &mut Duration,
        time: Duration,
        reason: &str,
    ) -> Result<(), ModelError> {
        *left = left.checked_sub(time).ok_or_else(|| self.paused(reason, time))?;
        self.waiter.wait(time);
        Ok(())
    }

    fn take_place(&self, timeout: Duration) -> Result<InFlight<'_>, ModelError> {
        let mut state = self.state.lock();
        let full = |state: &mut GateState| state.in_flight >= self.limits.concurrency.max(1);
        if self.place_free.wait_while_for(&mut state, full, timeout).timed_out() {
            return Err(
                self.paused("as many calls as it may have are under way", Duration::from_secs(1))
            );
        }
        state.in_flight += 1;
        Ok(InFlight(self))
    }

    /// Updates pauses and failures; returns the pause that the provider asked for.
    fn note(&self, result: &Result<ModelReply, ModelError>) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let was_open = state.failures >= FAILURES_TO_OPEN;
        state.testing = false;
        let paused = matches!(result, Err(ModelError::Transient { retry_after: Some(_), .. }));
        if !paused {
            state.pauses = 0;
        }
        match result {
            Err(ModelError::Transient { retry_after: Some(pause), .. }) => {
                // The first pause is obeyed as it is; further ones have a least length.
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
            // Any other result shows that the provider answers.
            _ => {
                state.failures = 0;
                if was_open {
                    state.paused_until = None;
                }
            }
        }
        None
    }

    fn too_late(&self, call: &ModelCall<'_>) -> ModelError {
        ModelError::Timeout { provider: self.inner.identity().provider, limit: call.timeout }
    }

    /// Settles the budget with what a call took and sends the amount to its bill.
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
            // The server may have answered, and billed, after the timeout.
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

/// One of the calls in flight; frees its place when dropped.
struct InFlight<'a>(&'a Gate);

impl Drop for InFlight<'_> {
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
                self.wait_within(&mut left, time, reason)?;
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
                Some(pause) => self.wait_within(&mut left, pause, "it asked for a pause")?,
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
        ModelError::Transient { provider: "p".into(), reason: "x".into(), retry_after }
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
    fn repeated_pauses_of_zero_length_are_lengthened() {
        let zero = || Err(transient(Some(0)));
        let s = scene((0..40).map(|_| zero()).collect(), Limits::default(), no_budget());
        assert_eq!(ask(&s.gate).unwrap_err().class(), ErrorClass::Pause);
        let calls = s.provider.calls.lock().clone();
        assert_eq!(calls[..5], [0, 1, 101, 301, 701]);
        assert!(calls.len() < 16, "{calls:?}");
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
        let s = scene(Vec::new(), limits, no_budget());
        for _ in 0..3 {
            ask(&s.gate).unwrap();
        }
        assert_eq!(*s.provider.calls.lock(), [0, 0, 30_000], "20 tokens a call");
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

        let priced = Limits { price_in: 1e6, price_out: 1e6, ..Limits::default() };
        let s = scene(vec![Ok(20)], priced, Budget::new(Some(25.0), None, Tz::UTC));
        ask(&s.gate).unwrap();
        assert!(matches!(ask(&s.gate), Err(ModelError::Budget { .. })));
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
        assert_eq!(ask(&chain).unwrap_err(), transient(None), "the first error is returned");
        assert!(calls.calls.lock().is_empty(), "the fallback stays within its budget");
    }

    #[test]
    fn after_repeated_failures_one_call_tests_the_provider() {
        let script = (0..6).map(|_| Err(transient(None))).collect();
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
                Err(ModelError::Permanent { provider: String::new(), reason: String::new() })
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
