//! A higher budget frees the requests that a lower one held back.
//!
//! Contract. Requests continue when a limit was raised and something is left of the day. A session that begins with
//! the settings of the session before it frees nothing: each try would end as the last one did. An attempt that began
//! before a limit was raised may still be refused by the lower one; its request continues too.

use std::collections::BTreeSet;

use crate::config::Config;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::log::ReadError;
use crate::sequencer::engine::{Engine, EngineError};
use crate::state::event::Event;
use crate::state::{State, Status};

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

/// Other settings are in force. Returns how many requests continue. Those whose attempts go by the old limit are added
/// to `begun_before`.
pub(super) fn after_reload(
    engine: &mut Engine,
    begun_before: &mut BTreeSet<Seq>,
    [old, new]: [&Config; 2],
    now: Timestamp,
) -> Result<usize, EngineError> {
    if !is_raised(old, new) || !has_room(engine.state(), new, now) {
        return Ok(0);
    }
    begun_before.extend(engine.state().running().map(|(request, _)| request));
    engine.free_of_budget(now, |_| true)
}

/// An attempt has reported. When the lower limit refused it, its request continues.
pub(super) fn after_report(
    engine: &mut Engine,
    begun_before: &mut BTreeSet<Seq>,
    request: Seq,
    now: Timestamp,
) -> Result<(), EngineError> {
    let open = engine.state().open_request(request);
    if open.is_none_or(|open| open.row.status != Status::Running) && begun_before.remove(&request) {
        engine.free_of_budget(now, |one| one == request)?;
    }
    Ok(())
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
    engine.free_of_budget(now, |_| true)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::request::Request;
    use crate::contract::vocabulary::FailureCause;
    use crate::seam::arrival::arrival;
    use crate::sequencer::engine::Slots;
    use crate::sequencer::fixture::{Everything, NOW, engine, request_line};
    use crate::state::decide::{Failed, Outcome, Report, RetryHint};

    fn config(tokens: u64) -> Config {
        let text = format!("[budget]\nmax_tokens_per_day = {tokens}\n");
        Config::load(Some(&text), &Default::default(), 1).unwrap()
    }

    /// The budget refuses the attempt under way until tomorrow.
    fn refuse(engine: &mut Engine, request: Seq, attempt: u32) {
        let failed = Failed {
            again: RetryHint::After(10_000_000),
            reason: None,
            cause: Some(FailureCause::Budget),
            message: "nothing is left of the day".to_owned(),
            input: Box::default(),
            error: None,
        };
        let outcome = Outcome::Failed(failed);
        let epoch = engine.state().epoch();
        assert!(engine.report(Report { request, attempt, epoch, outcome }, NOW).unwrap());
    }

    fn held(engine: &Engine) -> usize {
        engine.state().held_by_budget(NOW).count()
    }

    #[test]
    fn an_attempt_that_the_old_budget_refused_after_a_reload_is_not_held_back() {
        let mut engine = engine(1_000);
        for id in ["one", "two"] {
            let line = request_line(id, id, id);
            let request = Request::parse(line.as_bytes()).unwrap();
            let place = (3, 90);
            let arrival = arrival(request, place, line.into_bytes().into(), &Everything);
            engine.arrival(arrival, NOW).unwrap();
        }
        engine.start_ready(Slots::of(2), NOW).unwrap();
        let running = engine.state().running().map(|(seq, open)| (seq, open.row.attempts));
        let running: Vec<(Seq, u32)> = running.collect();
        let [(before, first), (late, second)] = running[..] else { panic!("{running:?}") };
        refuse(&mut engine, before, first);
        let mut begun_before = BTreeSet::new();
        let limits = [config(10), config(20)];
        let raised = [&limits[0], &limits[1]];
        let freed = after_reload(&mut engine, &mut begun_before, raised, NOW).unwrap();
        assert_eq!((freed, held(&engine)), (1, 0));
        after_report(&mut engine, &mut begun_before, late, NOW).unwrap();
        assert_eq!(begun_before.len(), 1, "it still runs");
        refuse(&mut engine, late, second);
        assert_eq!(held(&engine), 1);
        after_report(&mut engine, &mut begun_before, late, NOW).unwrap();
        assert_eq!((held(&engine), begun_before.len()), (0, 0));
        // The next attempt goes by the new limit.
        engine.start_ready(Slots::of(2), NOW).unwrap();
        let again = engine.state().running().find(|(seq, _)| *seq == late).unwrap().1.row.attempts;
        refuse(&mut engine, late, again);
        after_report(&mut engine, &mut begun_before, late, NOW).unwrap();
        assert_eq!(held(&engine), 1);
    }
}
