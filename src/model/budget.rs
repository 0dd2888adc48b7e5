//! What may be spent in one day, shared by all providers.
//!
//! Money and tokens are reserved before a call and settled after it with what the call really took.
//! A call that does not fit is refused before anything is sent.
//!
//! See docs/adr/0067-model-costs-as-events.md.

use std::time::Duration;

use chrono_tz::Tz;
use parking_lot::Mutex;

use super::error::ModelError;
use crate::contract::time::{Day, Timestamp};

/// Money and tokens of one day, or of one call.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// In the currency of the prices.
    pub cost: f64,
    /// Prompt and answer together.
    pub tokens: u64,
}

/// The budget of a day.
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
    /// A budget for days of a time zone. `None` means unlimited.
    pub fn new(cost_max: Option<f64>, tokens_max: Option<u64>, zone: Tz) -> Budget {
        let (spent, reserved) = (Spent::default(), Spent::default());
        let state = BudgetState { cost_max, tokens_max, zone, day: None, spent, reserved };
        Budget { state: Mutex::new(state) }
    }

    /// Replaces the limits. The sums of the day stay.
    pub fn set_limits(&self, cost_max: Option<f64>, tokens_max: Option<u64>, zone: Tz) {
        let mut state = self.state.lock();
        (state.cost_max, state.tokens_max, state.zone) = (cost_max, tokens_max, zone);
    }

    /// Continues where an earlier process stopped.
    pub fn restore(&self, day: Day, spent: Spent) {
        let mut state = self.state.lock();
        (state.day, state.spent) = (Some(day), spent);
    }

    #[cfg(test)]
    pub fn spent(&self, now: Timestamp) -> Spent {
        let mut state = self.state.lock();
        state.start_day(now);
        state.spent
    }

    pub(super) fn reserve(&self, wanted: Spent, now: Timestamp) -> Result<(), ModelError> {
        let mut state = self.state.lock();
        state.start_day(now);
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

    /// Releases a reservation and adds what was used; returns the day it counts on.
    pub(super) fn settle(&self, reserved: Spent, used: Spent, now: Timestamp) -> Day {
        let mut state = self.state.lock();
        let today = state.start_day(now);
        state.reserved.cost = (state.reserved.cost - reserved.cost).max(0.0);
        state.reserved.tokens = state.reserved.tokens.saturating_sub(reserved.tokens);
        state.spent.cost += used.cost;
        state.spent.tokens = state.spent.tokens.saturating_add(used.tokens);
        today
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
