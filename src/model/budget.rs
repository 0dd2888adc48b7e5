//! What may be spent in one day, shared by all providers.
//!
//! Money and tokens are reserved before a call and settled after it with what the call really took.
//! A reservation is not spent money. When a call would fit without the reservations of running
//! calls, it waits until they are settled. When it would not fit even then, it is refused before any
//! text is sent.
//!
//! See docs/adr/0067-model-costs-as-events.md.

use std::time::{Duration, Instant};

use chrono_tz::Tz;
use parking_lot::{Condvar, Mutex};

use super::call::{GIVE_WAY_SLICE, RightOfWay};
use super::error::ModelError;
use crate::contract::time::{Day, Timestamp};

/// Money and tokens of one day, or of one call.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Spent {
    /// In the currency of the prices.
    pub cost: f64,
    /// Prompt and answer together.
    pub tokens: u64,
}

/// The budget of a day.
#[derive(Debug)]
pub(crate) struct Budget {
    state: Mutex<BudgetState>,
    settled: Condvar,
}

/// Why a call may not begin.
#[derive(Debug)]
pub(super) enum NotReserved {
    /// The day's budget is spent.
    Spent(ModelError),
    /// The calls under way have reserved what is left, and no call ended in time.
    Reserved(String),
    /// It does not fit into the budget of any day.
    Never(String),
}

#[derive(Debug)]
struct BudgetState {
    cost_max: Option<f64>,
    tokens_max: Option<u64>,
    zone: Tz,
    day: Option<Day>,
    spent: Spent,
    reserved: Spent,
    /// Calls that hold a reservation.
    under_way: usize,
    /// Calls that go first and wait for a reservation.
    first_waits: usize,
}

impl Budget {
    /// A budget for days of a time zone. `None` means unlimited.
    pub(crate) fn new(cost_max: Option<f64>, tokens_max: Option<u64>, zone: Tz) -> Budget {
        let (spent, reserved) = (Spent::default(), Spent::default());
        let day = None;
        let (under_way, first_waits) = (0, 0);
        let state = BudgetState {
            cost_max,
            tokens_max,
            zone,
            day,
            spent,
            reserved,
            under_way,
            first_waits,
        };
        Budget { state: Mutex::new(state), settled: Condvar::new() }
    }

    /// Replaces the limits. The sums of the day stay.
    pub(crate) fn set_limits(&self, cost_max: Option<f64>, tokens_max: Option<u64>, zone: Tz) {
        let mut state = self.state.lock();
        (state.cost_max, state.tokens_max, state.zone) = (cost_max, tokens_max, zone);
        drop(state);
        self.settled.notify_all();
    }

    /// Continues where an earlier process stopped.
    pub(crate) fn restore(&self, day: Day, spent: Spent) {
        let mut state = self.state.lock();
        (state.day, state.spent) = (Some(day), spent);
    }

    /// Others that share the budget may have spent more than this process knows.
    pub(crate) fn catch_up(&self, day: Day, all: Spent) {
        let mut state = self.state.lock();
        match state.day {
            Some(known) if known > day => {}
            Some(known) if known == day => {
                state.spent.cost = state.spent.cost.max(all.cost);
                state.spent.tokens = state.spent.tokens.max(all.tokens);
            }
            _ => (state.day, state.spent) = (Some(day), all),
        }
    }

    #[cfg(test)]
    pub fn spent(&self, now: Timestamp) -> Spent {
        let mut state = self.state.lock();
        state.start_day(now);
        state.spent
    }

    /// Reserves the most that a call may take. When only the reservations of running calls prevent
    /// this, it waits at most `patience` until they are settled. A call that gives way also waits for
    /// the calls that go first.
    pub(super) fn reserve(
        &self,
        wanted: Spent,
        patience: Duration,
        now: &dyn Fn() -> Timestamp,
        right_of_way: &dyn Fn() -> RightOfWay,
    ) -> Result<(), NotReserved> {
        let until = Instant::now() + patience;
        let mut state = self.state.lock();
        if let Some(reason) = state.over_the_day(wanted) {
            return Err(NotReserved::Never(reason));
        }
        loop {
            let now = now();
            state.start_day(now);
            if let Some(reason) = state.over_with(Spent::default(), wanted) {
                let retry_after = until_tomorrow(now, state.zone);
                return Err(NotReserved::Spent(ModelError::Budget {
                    reason: reason.into(),
                    retry_after,
                }));
            }
            let right = right_of_way();
            let is_first = right == RightOfWay::First;
            let over = state.over_with(state.reserved, wanted);
            let waits = || "calls of urgent requests wait for the budget".to_owned();
            let waits = (!is_first && state.first_waits > 0).then(waits);
            let Some(reason) = over.or(waits) else {
                state.reserved = state.reserved.plus(wanted);
                state.under_way += 1;
                return Ok(());
            };
            if right.must_not_wait() || Instant::now() >= until {
                return Err(NotReserved::Reserved(reason));
            }
            // A wait that gives way is short, because it may go first or be in the way meanwhile.
            let slice = if is_first { until } else { until.min(Instant::now() + GIVE_WAY_SLICE) };
            state.first_waits += usize::from(is_first);
            self.settled.wait_until(&mut state, slice);
            state.first_waits -= usize::from(is_first);
        }
    }

    /// Reserves for a call that an earlier process has sent.
    pub(super) fn adopt(&self, wanted: Spent) {
        let mut state = self.state.lock();
        state.reserved = state.reserved.plus(wanted);
        state.under_way += 1;
    }

    /// Releases a reservation and adds what was used; returns the day it counts on.
    pub(super) fn settle(&self, reserved: Spent, used: Spent, now: Timestamp) -> Day {
        let mut state = self.state.lock();
        let today = state.start_day(now);
        state.under_way = state.under_way.saturating_sub(1);
        state.reserved = match state.under_way {
            // Sums of fractions leave a rest, which would be reserved for ever.
            0 => Spent::default(),
            _ => Spent {
                cost: (state.reserved.cost - reserved.cost).max(0.0),
                tokens: state.reserved.tokens.saturating_sub(reserved.tokens),
            },
        };
        state.spent = state.spent.plus(used);
        drop(state);
        self.settled.notify_all();
        today
    }
}

impl Spent {
    fn plus(self, more: Spent) -> Spent {
        let tokens = self.tokens.saturating_add(more.tokens);
        Spent { cost: self.cost + more.cost, tokens }
    }
}

impl BudgetState {
    /// Clears the sums when a new day has begun.
    fn start_day(&mut self, now: Timestamp) -> Day {
        let today = now.day_in(self.zone);
        if self.day != Some(today) {
            (self.day, self.spent) = (Some(today), Spent::default());
        }
        today
    }

    /// Why a call is larger than the budget of a whole day, if it is.
    fn over_the_day(&self, wanted: Spent) -> Option<String> {
        let cost_max = self.cost_max.filter(|max| wanted.cost > *max);
        let tokens_max = self.tokens_max.filter(|max| wanted.tokens > *max);
        let (may, name, max) = match (cost_max, tokens_max) {
            (Some(max), _) => {
                (format!("cost {:.4}", wanted.cost), "max_cost_per_day", max.to_string())
            }
            (None, Some(max)) => {
                (format!("take {} tokens", wanted.tokens), "max_tokens_per_day", max.to_string())
            }
            (None, None) => return None,
        };
        Some(format!(
            "this call may {may}, which is more than budget.{name} = {max} allows on any day; raise \
             it, or lower max_tokens of the provider; `summarizer retry` then asks again"
        ))
    }

    /// Why a call does not fit beside what is spent and what is reserved, if it does not.
    fn over_with(&self, reserved: Spent, wanted: Spent) -> Option<String> {
        let sum = self.spent.plus(reserved).plus(wanted);
        let cost_max = self.cost_max.filter(|max| sum.cost > *max);
        let tokens_max = self.tokens_max.filter(|max| sum.tokens > *max);
        let beside = match reserved == Spent::default() {
            true => "",
            false => ", calls under way have reserved the rest,",
        };
        match (cost_max, tokens_max) {
            (Some(max), _) => Some(format!(
                "{:.4} of {max} are spent today{beside} and this call may cost {:.4}",
                self.spent.cost, wanted.cost
            )),
            (None, Some(max)) => Some(format!(
                "{} of {max} tokens are used today{beside} and this call may take {}",
                self.spent.tokens, wanted.tokens
            )),
            (None, None) => None,
        }
    }
}

/// Searches for the next change of day. A day has 23 to 25 hours where clocks change, so adding 24
/// hours to midnight would be wrong.
fn until_tomorrow(now: Timestamp, zone: Tz) -> Duration {
    let today = now.day_in(zone);
    let (mut same, mut other) = (0i64, 26 * 3_600_000);
    while other - same > 1000 {
        let middle = (same + other) / 2;
        if now.plus_ms(middle).day_in(zone) == today { same = middle } else { other = middle }
    }
    Duration::from_millis(other.unsigned_abs())
}
