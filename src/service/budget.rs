//! A higher budget frees the requests that a lower one held back.
//!
//! Contract. Requests continue when a limit was raised and something is left of the day. A session that begins with
//! the settings of the session before it frees nothing: each try would end as the last one did.

use crate::config::Config;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::log::ReadError;
use crate::sequencer::engine::{Engine, EngineError};
use crate::state::State;
use crate::state::event::Event;

/// Events before a session in which the settings of the session before it are looked for.
const LOOKED_AT: u64 = 10_000;

/// Whether one of the limits is higher than it was.
fn is_raised(old: &Config, new: &Config) -> bool {
    fn grew<T: PartialOrd + Copy>(old: Option<T>, new: Option<T>) -> bool {
        match (old, new) {
            (Some(_), None) => true,
            (Some(old), Some(new)) => new > old,
            (None, _) => false,
        }
    }
    grew(old.cost_per_day_max, new.cost_per_day_max)
        || grew(old.tokens_per_day_max, new.tokens_per_day_max)
}

/// Whether something of the budget of the day is left.
fn has_room(state: &State, config: &Config, now: Timestamp) -> bool {
    let today = now.day_in(config.timezone);
    let Some(charged) = state.flows().charged.as_ref().filter(|charged| charged.day == today)
    else {
        return true;
    };
    let providers = || charged.by_provider.values();
    let cost: u64 = providers().map(|one| one.cost_nanos).sum();
    let tokens: u64 = providers().map(|one| one.input_tokens + one.output_tokens).sum();
    config.cost_per_day_max.is_none_or(|most| cost as f64 / 1e9 < most)
        && config.tokens_per_day_max.is_none_or(|most| tokens < most)
}

/// Other settings are in force. Returns how many requests continue.
pub(super) fn after_reload(
    engine: &mut Engine,
    old: &Config,
    new: &Config,
    now: Timestamp,
) -> Result<usize, EngineError> {
    match is_raised(old, new) && has_room(engine.state(), new, now) {
        true => engine.free_of_budget(now),
        false => Ok(0),
    }
}

/// A session has begun, and its first event is not in the log yet. Returns how many requests continue.
pub(super) fn after_start(
    engine: &mut Engine,
    config: &Config,
    now: Timestamp,
) -> Result<usize, EngineError> {
    let is_held = engine.state().held_by_budget(now).next().is_some();
    if !is_held || !has_room(engine.state(), config, now) {
        return Ok(0);
    }
    if settings_before(engine)? == Some(config.fingerprint()) {
        return Ok(0);
    }
    engine.free_of_budget(now)
}

/// The settings that were in force last, by their digest; `None` when they cannot be told.
fn settings_before(engine: &Engine) -> Result<Option<Digest>, ReadError> {
    let log = engine.log();
    let (head, _) = log.head();
    for seq in (head.0.saturating_sub(LOOKED_AT) + 1..=head.0).rev() {
        let event = log.event(Seq(seq))?;
        if let Some(Event::SessionStarted { config, .. } | Event::ConfigReloaded { config }) = event
        {
            return Ok(Some(config));
        }
    }
    Ok(None)
}
