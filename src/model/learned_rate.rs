//! How many calls a minute a provider allows when it does not say so, learned from its refusals.
//!
//! Contract: before the first refusal nothing is limited. The first guess is the rate of the answers of the
//! last minute. A refused rate is lowered a little when answers came at it, else it is halved. Then it grows,
//! slowly as long as it is near the rate that was refused, and faster the more answers have come since. The
//! first answer after a row of refusals brings back what the server was seen to answer. Calls that were under
//! way together are one refusal. Calls are known by their number in the order in which they were sent.
//!
//! See docs/adr/0105-incidents-and-learned-rates.md.

use std::collections::VecDeque;

use crate::contract::time::Timestamp;

/// The least first guess of a rate, in calls a minute.
const FIRST_RATE: f64 = 60.0;
/// The part of a rate that stays when a server refuses it after it answered some calls at it.
const KEPT: f64 = 0.85;
/// So many answers bring a lowered rate back to where it was refused. One refusal for each of them is the
/// share of refused calls that remains.
const ANSWERS_BACK: f64 = 60.0;
/// A learned rate above this many calls a minute limits nothing.
const RATE_MAX: f64 = 6_000.0;
/// Most answers of the last minute that are remembered.
const ANSWERS_MAX: usize = 8_192;
const MINUTE_MS: i64 = 60_000;

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
    /// The rate to which it was lowered then.
    lowered_to: f64,
    /// Answers to calls that were sent since.
    since: u32,
    /// Answers in the minute before the server began to refuse.
    minute_before: usize,
    /// Whether the rate is the first guess, of which nothing is known yet.
    is_guess: bool,
}

impl LearnedRate {
    pub(super) fn wait_ms(&self, now: Timestamp) -> i64 {
        self.rate.map_or(0, |_| self.next.ms_since(now).max(0))
    }

    pub(super) fn sent(&mut self, now: Timestamp) {
        if let Some(rate) = self.rate {
            // A thread that wakes up a little late loses nothing of the rate.
            let gap = gap_ms(rate);
            self.next = self.next.max(now.plus_ms(-gap / 2)).plus_ms(gap);
        }
    }

    /// Call `number` was answered.
    pub(super) fn answered(&mut self, number: u64, now: Timestamp) {
        self.forget_before(now);
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back(now);
        }
        if self.rate.is_none() {
            return;
        }
        if number <= self.lowered_at {
            // It was sent before the refusals. The answers of a burst often come after them.
            self.minute_before = self.minute_before.max(self.answers.len());
            if self.is_guess {
                self.lower(self.lowered_to.max(self.first_guess(now)));
            }
            return;
        }
        self.is_guess = false;
        if self.since == 0 {
            self.lowered_to = self.lowered_to.max(KEPT * self.seen(now));
        }
        self.since = self.since.saturating_add(1);
        let part = f64::from(self.since) / ANSWERS_BACK;
        let rate = self.lowered_to * (1.0 + (1.0 / KEPT - 1.0) * part * part);
        self.rate = Some(rate).filter(|rate| *rate < RATE_MAX);
    }

    /// Call `number` was refused, `sent` calls were sent so far. Calls that were under way together are
    /// one refusal.
    pub(super) fn refused(&mut self, number: u64, sent: u64, now: Timestamp) {
        if number <= self.lowered_at {
            return;
        }
        self.lowered_at = sent;
        self.forget_before(now);
        self.is_guess = self.rate.is_none();
        if self.is_guess || self.since > 0 {
            self.minute_before = self.answers.len();
        }
        let rate = match self.rate {
            None => self.first_guess(now),
            Some(rate) if self.since == 0 => rate / 2.0,
            Some(rate) => rate * KEPT,
        };
        self.since = 0;
        self.lower(rate.max(1.0));
        self.next = now.plus_ms(gap_ms(self.lowered_to));
    }

    fn lower(&mut self, rate: f64) {
        (self.rate, self.lowered_to) = (Some(rate), rate);
    }

    /// The rate of the answers so far. A burst says little, and its answers often come after its refusals,
    /// so the first guess is high: halving it costs a few refused calls, and no attempt.
    fn first_guess(&self, now: Timestamp) -> f64 {
        self.answers_a_minute(now).clamp(FIRST_RATE, RATE_MAX)
    }

    /// What the server was seen to answer in a minute: before it refused, or since then.
    fn seen(&self, now: Timestamp) -> f64 {
        // One answer has no rate.
        let since = if self.answers.len() > 1 { self.answers_a_minute(now) } else { 0.0 };
        #[allow(clippy::cast_precision_loss, reason = "a few thousand at most")]
        since.max(self.minute_before as f64)
    }

    fn answers_a_minute(&self, now: Timestamp) -> f64 {
        let Some(first) = self.answers.front() else { return 0.0 };
        #[allow(clippy::cast_precision_loss, reason = "a few thousand at most, in a minute")]
        let (count, span) = (self.answers.len() as f64, now.ms_since(*first).max(1_000) as f64);
        count * 60_000.0 / span
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
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    /// How long an answer and a refusal take.
    const ANSWER_MS: i64 = 100;
    const REFUSAL_MS: i64 = 20;
    /// The burst is over, and the rate has been found.
    const SETTLED_MS: i64 = 5_000;

    /// A server that allows some calls in a time, and says nothing about it.
    struct Server {
        allowed: usize,
        in_ms: i64,
        /// Whether calls that were not used are kept, up to `allowed`; else each span of time has its calls.
        is_bucket: bool,
        tokens: f64,
        at: i64,
        answered: VecDeque<i64>,
    }

    impl Server {
        fn new(allowed: usize, in_ms: i64, is_bucket: bool) -> Server {
            let tokens = allowed as f64;
            Server { allowed, in_ms, is_bucket, tokens, at: 0, answered: VecDeque::new() }
        }

        fn answers(&mut self, now: i64) -> bool {
            if self.is_bucket {
                let back = (now - self.at) as f64 * self.allowed as f64 / self.in_ms as f64;
                (self.tokens, self.at) = ((self.tokens + back).min(self.allowed as f64), now);
                let may = self.tokens >= 1.0;
                self.tokens -= f64::from(u8::from(may));
                return may;
            }
            while self.answered.front().is_some_and(|at| now - at >= self.in_ms) {
                self.answered.pop_front();
            }
            let may = self.answered.len() < self.allowed;
            self.answered.extend(may.then_some(now));
            may
        }
    }

    /// What came of the calls of a simulated time.
    #[derive(Debug, Default)]
    struct Came {
        answered: u64,
        /// After the first seconds.
        settled: u64,
        refused: u64,
    }

    /// So many callers ask one question after the other. Each waits for the rate as a gate does.
    fn simulate(mut server: Server, callers: usize, end_ms: i64) -> Came {
        let (mut rate, mut sent, mut came) = (LearnedRate::default(), 0_u64, Came::default());
        // When a caller acts, its place, and the number of its call with how that ends.
        let first = (0..callers).map(|place| Reverse((0, place, None::<(u64, bool)>)));
        let mut events: BinaryHeap<_> = first.collect();
        while let Some(Reverse((now, place, ended))) = events.pop() {
            if now > end_ms {
                break;
            }
            let at = Timestamp(now);
            match ended {
                Some((number, true)) => rate.answered(number, at),
                Some((number, false)) => rate.refused(number, sent, at),
                None => {}
            }
            let wait = rate.wait_ms(at);
            if wait > 0 {
                events.push(Reverse((now + wait, place, None)));
                continue;
            }
            sent += 1;
            rate.sent(at);
            let answers = server.answers(now);
            came.answered += u64::from(answers);
            if now >= SETTLED_MS {
                came.settled += 1;
                came.refused += u64::from(!answers);
            }
            let takes = if answers { ANSWER_MS } else { REFUSAL_MS };
            events.push(Reverse((now + takes, place, Some((sent, answers)))));
        }
        came
    }

    #[test]
    fn a_hidden_rate_is_used_and_few_calls_are_refused() {
        for is_bucket in [true, false] {
            for allowed in [1, 5, 50] {
                for callers in [1, 8, 64] {
                    let what = format!("{allowed} a second, {callers} callers, {is_bucket}");
                    let came = simulate(Server::new(allowed, 1_000, is_bucket), callers, 60_000);
                    let possible = (callers as i64 * 1_000 / ANSWER_MS).min(allowed as i64) * 60;
                    let used = came.answered as f64 / possible as f64;
                    let refused = came.refused as f64 / came.settled as f64;
                    assert!(used >= 0.8, "{what}: {used:.2} of the rate is used");
                    assert!(refused < 0.05, "{what}: {refused:.3} of the calls are refused");
                }
            }
        }
    }

    #[test]
    fn a_hidden_rate_of_a_minute_is_used() {
        for (allowed, callers) in [(5, 1), (5, 64), (60, 1), (60, 8), (60, 64), (600, 8)] {
            let came = simulate(Server::new(allowed, 60_000, true), callers, 600_000);
            let used = came.answered as f64 / (allowed * 10) as f64;
            let refused = came.refused as f64 / came.settled as f64;
            assert!(used >= 0.8, "{allowed} a minute, {callers} callers: {used:.2} is used");
            assert!(refused < 0.2, "{allowed} a minute, {callers} callers: {refused:.3} refused");
        }
    }

    #[test]
    fn a_server_that_allows_more_later_gets_more() {
        let (mut rate, mut sent, mut now) = (LearnedRate::default(), 0, 0);
        let mut ask = |server: &mut Server, until: i64| {
            let mut answered = 0_u64;
            while now < until {
                now += rate.wait_ms(Timestamp(now)).max(10);
                sent += 1;
                rate.sent(Timestamp(now));
                match server.answers(now) {
                    true => rate.answered(sent, Timestamp(now)),
                    false => rate.refused(sent, sent, Timestamp(now)),
                }
                answered += 1;
            }
            answered
        };
        let before = ask(&mut Server::new(1, 1_000, false), 60_000);
        let after = ask(&mut Server::new(1_000, 1_000, false), 360_000);
        assert!(before < 80 && after > 5_000, "{before}, then {after}");
    }

    #[test]
    fn refusals_that_come_before_the_answers_of_their_burst_do_not_stop_a_provider() {
        let mut rate = LearnedRate::default();
        (1..=8).for_each(|_| rate.sent(Timestamp(0)));
        (5..=8).for_each(|number| rate.refused(number, 8, Timestamp(10)));
        assert!(rate.wait_ms(Timestamp(10)) <= 1_000, "{}", rate.wait_ms(Timestamp(10)));
        (1..=4).for_each(|number| rate.answered(number, Timestamp(20)));
        rate.sent(Timestamp(1_010));
        assert!(rate.wait_ms(Timestamp(1_010)) <= 250, "four were answered in a second");
    }
}
