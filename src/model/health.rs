//! What the failures of a provider mean: whether it gets no calls for a time, and how many calls a
//! minute it allows when it does not say so.
//!
//! Contract: calls that were under way together when a provider failed are one failure. So are the
//! failures of one prompt, where the prompt may be the cause. A rate that a server refuses without a
//! hint is halved, and grows by one call a minute with each answer. Calls are known by their number in
//! the order in which they were sent.
//!
//! See docs/adr/0105-incidents-and-learned-rates.md.

use std::collections::VecDeque;

use crate::contract::hash::Digest;
use crate::contract::time::Timestamp;

/// Failures in a row after which a provider gets no calls for a time.
pub(super) const FAILURES_TO_OPEN: u32 = 5;
/// The least first guess of a rate, in calls a minute.
const FIRST_RATE: f64 = 60.0;
/// An answer lets a rate grow by this part of it, and by one call a minute at least.
const GROWTH_PART: f64 = 50.0;
/// A learned rate above this many calls a minute limits nothing.
const RATE_MAX: f64 = 6_000.0;
/// Most answers of the last minute that are remembered.
const ANSWERS_MAX: usize = 8_192;
const MINUTE_MS: i64 = 60_000;

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    /// The prompts that failed.
    prompts: Vec<Digest>,
    /// How many calls had been sent when the last failure was counted.
    counted_at: u64,
}

impl Failures {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the provider gets no calls for a time.
    pub(super) fn are_many(&self) -> bool {
        self.count >= FAILURES_TO_OPEN
    }

    /// Call `number` failed, `sent` calls were sent so far. `prompt` is given where the prompt may be
    /// the cause. True when the failure counts.
    pub(super) fn add(&mut self, number: u64, sent: u64, prompt: Option<Digest>) -> bool {
        let together = number <= self.counted_at;
        let known = prompt.is_some_and(|prompt| self.prompts.contains(&prompt));
        if together || known && !self.are_many() {
            return false;
        }
        if !self.are_many() {
            self.prompts.extend(prompt);
        }
        self.count = self.count.saturating_add(1);
        self.counted_at = sent;
        true
    }

    pub(super) fn end(&mut self) {
        self.count = 0;
        self.prompts.clear();
    }
}

/// How many calls a minute a provider allows, learned from its refusals.
#[derive(Debug, Default)]
pub(super) struct LearnedRate {
    /// Calls a minute; `None` until a call is refused.
    rate: Option<f64>,
    /// When the next call may be sent.
    next: Timestamp,
    /// The answers of the last minute.
    answers: VecDeque<Timestamp>,
    /// How many calls had been sent when the rate was lowered last.
    lowered_at: u64,
}

impl LearnedRate {
    pub(super) fn wait_ms(&self, now: Timestamp) -> i64 {
        self.rate.map_or(0, |_| self.next.ms_since(now).max(0))
    }

    pub(super) fn sent(&mut self, now: Timestamp) {
        if let Some(rate) = self.rate {
            self.next = self.next.max(now).plus_ms(gap_ms(rate));
        }
    }

    pub(super) fn answered(&mut self, now: Timestamp) {
        self.forget_before(now);
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back(now);
        }
        let grown = |rate: f64| rate + (rate / GROWTH_PART).max(1.0);
        self.rate = self.rate.map(grown).filter(|rate| *rate < RATE_MAX);
    }

    /// Call `number` was refused, `sent` calls were sent so far. Calls that were under way together are
    /// one refusal.
    pub(super) fn refused(&mut self, number: u64, sent: u64, now: Timestamp) {
        if number <= self.lowered_at {
            return;
        }
        self.lowered_at = sent;
        self.forget_before(now);
        let rate = self.rate.map_or_else(|| self.answers_a_minute(now), |rate| rate / 2.0).max(1.0);
        self.rate = Some(rate);
        self.next = now.plus_ms(gap_ms(rate));
    }

    /// The rate of the answers so far. A burst says little, and its answers often come after its refusals,
    /// so the first guess is high: halving it costs a few refused calls, and no attempt.
    fn answers_a_minute(&self, now: Timestamp) -> f64 {
        let Some(first) = self.answers.front() else { return FIRST_RATE };
        #[allow(clippy::cast_precision_loss, reason = "a few thousand at most, in a minute")]
        let (count, span) = (self.answers.len() as f64, now.ms_since(*first).max(1_000) as f64);
        (count * 60_000.0 / span).clamp(FIRST_RATE, RATE_MAX)
    }

    fn forget_before(&mut self, now: Timestamp) {
        while self.answers.front().is_some_and(|at| now.ms_since(*at) >= MINUTE_MS) {
            self.answers.pop_front();
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "at most a minute")]
fn gap_ms(rate: f64) -> i64 {
    (60_000.0 / rate).ceil() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;

    #[test]
    fn calls_that_fail_together_are_one_failure() {
        let mut failures = Failures::default();
        let counted: Vec<bool> = (1..=6).map(|number| failures.add(number, 6, None)).collect();
        assert_eq!(counted, [true, false, false, false, false, false]);
        assert_eq!(failures.count(), 1);
        for number in 7..=10 {
            assert!(!failures.are_many());
            assert!(failures.add(number, number, None));
        }
        assert!(failures.are_many());
        failures.end();
        assert_eq!(failures.count(), 0);
    }

    #[test]
    fn one_prompt_that_fails_again_and_again_is_one_failure() {
        let mut failures = Failures::default();
        for number in 1..=20 {
            failures.add(number, number, Some(sha256("one prompt")));
        }
        assert_eq!(failures.count(), 1);
        for number in 21..=24 {
            failures.add(number, number, Some(sha256(number.to_string())));
        }
        assert!(failures.are_many());
        assert!(failures.add(25, 25, Some(sha256("one prompt"))), "the call that tests it counts");
    }

    /// A server that allows so many calls a minute, a burst of so many, and says nothing about it.
    fn minutes_for(calls: usize, allowed: f64, burst: f64) -> f64 {
        let (mut rate, mut now, mut tokens, mut sent) = (LearnedRate::default(), 0, burst, 0);
        let mut done = 0;
        while done < calls {
            let wait = rate.wait_ms(Timestamp(now)).max(50);
            now += wait;
            tokens = (tokens + wait as f64 * allowed / 60_000.0).min(burst);
            sent += 1;
            rate.sent(Timestamp(now));
            if tokens >= 1.0 {
                tokens -= 1.0;
                done += 1;
                rate.answered(Timestamp(now));
            } else {
                rate.refused(sent, sent, Timestamp(now));
            }
        }
        now as f64 / 60_000.0
    }

    #[test]
    fn a_rate_without_hints_is_learned() {
        // The best that any client can do is (24 - 5) / 5 = 3.8 minutes.
        let minutes = minutes_for(24, 5.0, 5.0);
        assert!(minutes < 5.5, "{minutes}");
        // 396 calls behind the burst at 240 a minute take 1.65 minutes.
        let minutes = minutes_for(400, 240.0, 4.0);
        assert!(minutes < 2.75, "{minutes}");
    }

    #[test]
    fn refusals_that_come_before_the_answers_of_their_burst_do_not_stop_a_provider() {
        let mut rate = LearnedRate::default();
        (1..=8).for_each(|_| rate.sent(Timestamp(0)));
        (5..=8).for_each(|number| rate.refused(number, 8, Timestamp(10)));
        assert!(rate.wait_ms(Timestamp(10)) <= 1_000, "{}", rate.wait_ms(Timestamp(10)));
    }
}
