//! `--since`: a day, a moment, or an age.

use super::Context;
use super::failure::{Exit, Failure};
use super::settings::load_config;
use crate::config::parse_duration_ms;
use crate::contract::time::{Day, Timestamp, parse_instant};

/// The first day that `--since` takes in: a day, a moment, or an age.
pub(super) fn first_day(context: &Context, when: &str) -> Result<Day, Failure> {
    let zone = load_config(context)?.timezone;
    since(context, when).map(|at| at.day_in(zone))
}

/// The moment that `--since` names: a day, a moment, or an age such as `7d` or `12 h`.
pub(super) fn since(context: &Context, when: &str) -> Result<Timestamp, Failure> {
    if let Ok(day) = when.parse::<Day>() {
        let zone = load_config(context)?.timezone;
        return Ok(day.start_in(zone));
    }
    if let Ok(instant) = parse_instant(when) {
        return Ok(instant.at);
    }
    let age = parse_duration_ms(when).or_else(|| {
        let days: i64 = when.trim().strip_suffix(['w', 'W'])?.trim().parse().ok()?;
        days.checked_mul(7 * 86_400_000)
    });
    let age = age.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("cannot read the time {when:?}"))
            .hint("a day such as 2026-02-01, a moment, or an age such as 7d or 12h")
    })?;
    Ok(context.machine.clock.now().plus_ms(-age))
}
