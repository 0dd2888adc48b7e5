//! The one rule for the order in which ready requests start.
//!
//! Requests with urgency `now` go before scheduled ones, whatever their priority, age or producer.
//! Within each urgency a request has a level: its priority, one better for every ten minutes it has
//! been ready, never better than 1. The lowest level goes first; in it the producer whose last start
//! is oldest; in that the earliest due (its deadline, or one hour after it was accepted, whichever is
//! first); then the order of acceptance. So old requests of one urgency do not starve, and one
//! producer's backfill of 50,000 lines does not hold up another's single mail.
//!
//! The clock comes in as data. The structure holds no facts of its own: it is rebuilt from the
//! open requests, and replay never asks it anything.
//!
//! See docs/adr/0034-soft-delays.md.
//! See docs/adr/0039-readiness-from-the-clock.md.
//! See docs/adr/0107-now-before-scheduled.md.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;

/// Waiting this long makes a request one level more urgent.
pub(crate) const AGING_STEP_MS: i64 = 10 * 60 * 1000;
/// Without a deadline a request is due this long after it was accepted.
pub(crate) const DUE_AFTER_MS: i64 = 60 * 60 * 1000;
/// The least urgent level.
pub(crate) const LEVELS: usize = 5;

/// What the order of one request depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub request: Seq,
    /// 1 to 5.
    pub priority: u8,
    /// Whether it waits for every ready request with urgency `now`.
    pub scheduled: bool,
    /// Index of its producer.
    pub producer: u32,
    /// It may not start before this.
    pub eligible_at: Timestamp,
    /// Its waiting time counts from here.
    pub since: Timestamp,
    /// The earlier of its deadline and an hour after acceptance.
    pub due: Timestamp,
}

/// Where a claim stands; kept with the request so that it can be found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// Not in the schedule.
    #[default]
    Nowhere,
    /// Its time has not come. The time stands here because that of the claim may have changed since.
    Delayed(Timestamp),
    /// Ready, at this rank: 1 to 5 are the levels of `now`, 6 to 10 those of scheduled requests.
    Ready(u8),
}

#[derive(Debug, Default)]
struct Level {
    /// Producers with ready requests at this level, by their last start.
    turns: BTreeSet<(Seq, u32)>,
    queues: BTreeMap<u32, BTreeSet<(Timestamp, Seq)>>,
}

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    delayed: BTreeSet<(Timestamp, Seq)>,
    ranks: [Level; 2 * LEVELS],
    aging: BTreeSet<(Timestamp, Seq)>,
    ready: usize,
}

/// The level of a claim at a moment.
pub fn level(priority: u8, since: Timestamp, now: Timestamp) -> u8 {
    let steps = now.ms_since(since).max(0) / AGING_STEP_MS;
    let better = u8::try_from(steps).unwrap_or(u8::MAX);
    priority.clamp(1, LEVELS as u8).saturating_sub(better).max(1)
}

impl Schedule {
    /// How many requests could start now, as of the last `advance`.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// How many requests wait for their time.
    pub(crate) fn delayed(&self) -> usize {
        self.delayed.len()
    }

    /// The next moment at which something changes by itself.
    pub(crate) fn next_change(&self) -> Option<Timestamp> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// Puts a claim where it belongs at `now`.
    #[must_use]
    pub(crate) fn insert(&mut self, claim: &Claim, last_start: Seq, now: Timestamp) -> Place {
        if claim.eligible_at > now {
            self.delayed.insert((claim.eligible_at, claim.request));
            return Place::Delayed(claim.eligible_at);
        }
        let at = level(claim.priority, claim.since, now) + first_rank(claim);
        self.enqueue(claim, last_start, at);
        Place::Ready(at)
    }

    /// Takes a claim out.
    pub(crate) fn remove(&mut self, claim: &Claim, place: Place, last_start: Seq) {
        match place {
            Place::Nowhere => {}
            Place::Delayed(until) => {
                self.delayed.remove(&(until, claim.request));
            }
            Place::Ready(at) => self.dequeue(claim, last_start, at),
        }
    }

    /// Claims whose time has come or whose level changes at `now`; the caller re-inserts each.
    /// At most `limit` in one call, so that a backlog cannot hold the writer.
    pub(crate) fn due_for_change(&self, now: Timestamp, limit: usize) -> Vec<Seq> {
        let come = self.delayed.iter().take_while(|(at, _)| *at <= now);
        let aged = self.aging.iter().take_while(|(at, _)| *at <= now);
        come.chain(aged).map(|(_, request)| *request).take(limit).collect()
    }

    /// The request that starts next.
    pub(crate) fn pick(&self) -> Option<Seq> {
        let level = self.ranks.iter().find(|level| !level.turns.is_empty())?;
        let (_, producer) = level.turns.first()?;
        level.queues.get(producer)?.first().map(|(_, request)| *request)
    }

    /// Moves a producer behind all producers that started earlier.
    pub(crate) fn producer_started(&mut self, producer: u32, before: Seq, now: Seq) {
        for level in &mut self.ranks {
            if level.turns.remove(&(before, producer)) {
                level.turns.insert((now, producer));
            }
        }
    }

    fn enqueue(&mut self, claim: &Claim, last_start: Seq, at: u8) {
        let level = &mut self.ranks[usize::from(at) - 1];
        level.turns.insert((last_start, claim.producer));
        level.queues.entry(claim.producer).or_default().insert((claim.due, claim.request));
        if let Some(next) = next_step(claim, at) {
            self.aging.insert((next, claim.request));
        }
        self.ready += 1;
    }

    fn dequeue(&mut self, claim: &Claim, last_start: Seq, at: u8) {
        let level = &mut self.ranks[usize::from(at) - 1];
        if let Some(queue) = level.queues.get_mut(&claim.producer) {
            queue.remove(&(claim.due, claim.request));
            if queue.is_empty() {
                level.queues.remove(&claim.producer);
                level.turns.remove(&(last_start, claim.producer));
            }
        }
        if let Some(next) = next_step(claim, at) {
            self.aging.remove(&(next, claim.request));
        }
        self.ready -= 1;
    }
}

/// How many ranks go before all ranks of this claim's urgency.
fn first_rank(claim: &Claim) -> u8 {
    if claim.scheduled { LEVELS as u8 } else { 0 }
}

/// When a claim at a rank becomes more urgent.
fn next_step(claim: &Claim, rank: u8) -> Option<Timestamp> {
    let at = (rank - 1) % LEVELS as u8 + 1;
    let steps = i64::from(claim.priority.clamp(1, LEVELS as u8)) - i64::from(at) + 1;
    (at > 1).then(|| claim.since.plus_ms(steps * AGING_STEP_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    fn claim(request: u64, priority: u8, producer: u32, since: i64) -> Claim {
        let since = Timestamp(since);
        let due = since.plus_ms(DUE_AFTER_MS);
        Claim {
            request: Seq(request),
            priority,
            scheduled: false,
            producer,
            eligible_at: since,
            since,
            due,
        }
    }

    #[test]
    fn levels_improve_every_ten_minutes_and_stop_at_one() {
        let at = |minutes: i64| level(3, Timestamp(0), Timestamp(minutes * MINUTE));
        assert_eq!([at(-60), at(0), at(9), at(10), at(20), at(1000)], [3, 3, 3, 2, 1, 1]);
    }

    #[test]
    fn the_more_urgent_level_goes_first_then_the_producer_that_waited_longest() {
        let mut schedule = Schedule::default();
        let now = Timestamp(0);
        let starts = [Seq(50), Seq(40)];
        for (claim, producer) in
            [(claim(1, 3, 0, 0), 0), (claim(2, 3, 1, 0), 1), (claim(3, 5, 1, 0), 1)]
        {
            assert_eq!(
                schedule.insert(&claim, starts[producer], now),
                Place::Ready(claim.priority)
            );
        }
        assert_eq!(schedule.pick(), Some(Seq(2)), "producer 1 started longer ago");
        schedule.producer_started(1, Seq(40), Seq(60));
        assert_eq!(schedule.pick(), Some(Seq(1)));
        let urgent = claim(4, 1, 0, 0);
        assert_eq!(schedule.insert(&urgent, Seq(50), now), Place::Ready(1));
        assert_eq!(schedule.pick(), Some(Seq(4)));
    }

    #[test]
    fn now_goes_before_scheduled_work_of_any_priority_age_or_producer() {
        let mut schedule = Schedule::default();
        let moment = Timestamp(100 * MINUTE);
        let old = Claim { scheduled: true, ..claim(1, 1, 0, 0) };
        let place = schedule.insert(&old, Seq(0), moment);
        assert_eq!(place, Place::Ready(6));
        assert_eq!(schedule.pick(), Some(Seq(1)));
        let new = claim(2, 5, 1, 100 * MINUTE);
        assert_eq!(schedule.insert(&new, Seq(90), moment), Place::Ready(5));
        assert_eq!(schedule.pick(), Some(Seq(2)));
        // A scheduled request ages too, and leaves no trace behind.
        let young = Claim { scheduled: true, ..claim(3, 2, 0, 100 * MINUTE) };
        let place = schedule.insert(&young, Seq(0), moment);
        assert_eq!(place, Place::Ready(7));
        let aged = moment.plus_ms(AGING_STEP_MS);
        assert_eq!(schedule.due_for_change(aged, 10), [Seq(2), Seq(3)]);
        schedule.remove(&young, place, Seq(0));
        assert_eq!(schedule.insert(&young, Seq(0), aged), Place::Ready(6));
        for (claim, place, start) in [(&old, 6, Seq(0)), (&young, 6, Seq(0)), (&new, 5, Seq(90))] {
            schedule.remove(claim, Place::Ready(place), start);
        }
        assert_eq!((schedule.ready(), schedule.pick()), (0, None));
        assert_eq!(schedule.due_for_change(Timestamp(i64::MAX), 10), []);
    }

    #[test]
    fn due_decides_between_requests_of_one_producer() {
        let mut schedule = Schedule::default();
        let late = claim(1, 3, 0, 0);
        let soon = Claim { due: Timestamp(5), ..claim(2, 3, 0, 0) };
        for claim in [&late, &soon] {
            assert_eq!(schedule.insert(claim, Seq(0), Timestamp(0)), Place::Ready(3));
        }
        assert_eq!(schedule.pick(), Some(Seq(2)));
    }

    /// The answer of a batch lets a request start before its time.
    #[test]
    fn a_claim_whose_time_changed_leaves_nothing_behind() {
        let mut schedule = Schedule::default();
        let later = Claim { eligible_at: Timestamp(100), ..claim(1, 3, 0, 100) };
        let place = schedule.insert(&later, Seq(0), Timestamp(0));
        let sooner = Claim { eligible_at: Timestamp(10), ..later };
        schedule.remove(&sooner, place, Seq(0));
        assert_eq!(schedule.insert(&sooner, Seq(0), Timestamp(10)), Place::Ready(3));
        assert_eq!((schedule.ready(), schedule.delayed(), schedule.next_change()), (1, 0, None));
    }

    #[test]
    fn delayed_and_aging_claims_ask_for_a_change_at_their_time() {
        let mut schedule = Schedule::default();
        let later = Claim { eligible_at: Timestamp(100), ..claim(1, 3, 0, 100) };
        let place = schedule.insert(&later, Seq(0), Timestamp(0));
        assert_eq!(place, Place::Delayed(Timestamp(100)));
        assert_eq!(schedule.due_for_change(Timestamp(99), 10), []);
        assert_eq!(schedule.due_for_change(Timestamp(100), 10), [Seq(1)]);
        schedule.remove(&later, place, Seq(0));
        let place = schedule.insert(&later, Seq(0), Timestamp(100));
        assert_eq!(place, Place::Ready(3));
        let aged = Timestamp(100 + AGING_STEP_MS);
        assert_eq!(schedule.due_for_change(aged, 10), [Seq(1)]);
        schedule.remove(&later, place, Seq(0));
        assert_eq!(schedule.insert(&later, Seq(0), aged), Place::Ready(2));
        assert_eq!((schedule.ready(), schedule.delayed()), (1, 0));
        schedule.remove(&later, Place::Ready(2), Seq(0));
        assert_eq!((schedule.ready(), schedule.pick()), (0, None));
        assert_eq!(schedule.due_for_change(Timestamp(i64::MAX), 10), []);
    }
}
