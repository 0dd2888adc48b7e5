//! The life of one request: acceptance, rejections, attempts, delays, endings.

use super::super::Status;
use super::super::apply::RETRY_WAIT_MS_MAX;
use super::super::decide::{
    Arrival, FlowStanding, Outcome, Refused, Report, RetryHint, backoff_ms,
};
use super::super::event::Event;
use super::world::{World, ask, item};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{AckStatus, ReasonCode, Urgency, Warning, Warnings};
use crate::facts::session::PauseCause;

#[test]
fn a_request_is_accepted_started_resolved_and_completed() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    assert_eq!(world.start(), Some(request));
    assert_eq!(world.resolve(request, "sum"), ["InputResolved"]);
    assert_eq!(world.produce(request, "sum"), ["SummaryProduced"]);
    assert_eq!(world.status(request), "completed");
    assert_eq!((world.state.open_count(), world.state.running_count()), (0, 0));
}

#[test]
fn flows_that_must_not_run_reject_and_deprecated_ones_warn() {
    let mut world = World::new();
    for (flow, reason) in [
        (FlowStanding::Unknown, None),
        (FlowStanding::Disabled, Some(ReasonCode::FlowDisabled)),
        (FlowStanding::UnknownVariant, Some(ReasonCode::UnknownVariant)),
    ] {
        assert_eq!(world.arrive(ask(&format!("{flow:?}"), "k").flow(flow)), ["RequestRejected"]);
        let Event::RequestRejected { status, reason: said, .. } = world.last() else { panic!() };
        assert_eq!((*status, *said), (AckStatus::RejectedUnknownFlow, reason));
    }
    let deprecated = ask("d", "k").flow(FlowStanding::Deprecated);
    assert_eq!(world.arrive(deprecated), ["RequestAccepted"]);
    let Event::RequestAccepted(taken) = world.last() else { panic!() };
    assert!(taken.warnings.contains(Warning::FlowDeprecated));
}

#[test]
fn a_request_that_is_refused_on_arrival_holds_no_key() {
    let mut world = World::new();
    let refused = Some((ReasonCode::KindBusMismatch, "no".to_owned()));
    let request = Box::new(ask("a", "k").taken);
    let arrival =
        Arrival { request, flow: FlowStanding::Active, refused, source: Warnings::default() };
    assert_eq!(world.arrive_as(arrival), ["RequestRejected"]);
    let Event::RequestRejected { status, reason, .. } = world.last() else { panic!() };
    let expected = (AckStatus::RejectedInvalidInput, Some(ReasonCode::KindBusMismatch));
    assert_eq!((*status, *reason), expected);
    world.accept("b", "k");
}

#[test]
fn a_strict_delay_is_kept_and_a_soft_one_gives_way_to_a_deadline() {
    let mut world = World::new();
    let later = Timestamp(world.now.0 + 1000);
    let sooner = Timestamp(world.now.0 + 500);
    world.arrive(ask("s", "s").with(|taken| {
        taken.urgency = Urgency::Scheduled;
        taken.not_before = Some(later);
        taken.deadline = Some(sooner);
    }));
    world.arrive(ask("soft", "soft").with(|taken| taken.not_before = Some(later)));
    assert_eq!(world.start(), None);
    assert_eq!(world.state.next_eligible(), Some(later));
    world.arrive(ask("tight", "tight").with(|taken| {
        taken.not_before = Some(later);
        taken.deadline = Some(sooner);
    }));
    let tight = world.last_seq();
    assert_eq!(world.start(), Some(tight));
    world.now = Timestamp(later.0 - 1);
    assert_eq!(world.start(), None);
    // A clock that jumps back brings nothing forward.
    world.now = Timestamp(0);
    assert_eq!(world.start(), None);
    world.now = later;
    assert!(world.start().is_some());
    assert!(world.start().is_some());
}

#[test]
fn a_failed_try_waits_and_the_last_one_ends_the_request() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    for attempt in 1..=world.policy.attempts_max {
        assert_eq!(world.start(), Some(request), "attempt {attempt}");
        assert_eq!(world.fail(request, RetryHint::Later), ["AttemptFailed"]);
        let Event::AttemptFailed { retry_at, status, .. } = world.last().clone() else { panic!() };
        if attempt == world.policy.attempts_max {
            assert_eq!((retry_at, status), (None, AckStatus::FailedPermanent));
            break;
        }
        let delay = backoff_ms(&world.policy, "a", attempt);
        assert_eq!(retry_at, Some(world.now.plus_ms(delay)));
        assert_eq!(world.start(), None, "not before its delay is over");
        world.now = world.now.plus_ms(delay);
    }
    let Event::AttemptFailed { reason, .. } = world.last() else { panic!() };
    assert_eq!(*reason, Some(ReasonCode::AttemptsExhausted));
    assert_eq!(world.status(request), "failed_permanent");
}

#[test]
fn a_clock_that_was_ahead_delays_a_retry_by_days_at_most() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    let today = world.now;
    world.now = today.plus_ms(400 * 24 * 60 * 60 * 1000);
    assert_eq!(world.start(), Some(request));
    world.fail(request, RetryHint::Later);
    world.now = today;
    world.restart();
    assert_eq!(world.start(), None, "not before its delay is over");
    world.now = today.plus_ms(RETRY_WAIT_MS_MAX);
    assert_eq!(world.start(), Some(request));
}

#[test]
fn backoff_doubles_up_to_a_limit_and_depends_only_on_request_and_attempt() {
    let policy = World::new().policy;
    for attempt in 1..60 {
        let nominal = (policy.base_delay_ms << (attempt - 1).min(30)).min(policy.delay_ms_max);
        let delay = backoff_ms(&policy, "r", attempt);
        assert_eq!(delay, backoff_ms(&policy, "r", attempt));
        assert!(delay >= nominal / 2 && delay <= nominal, "{attempt}: {delay}");
    }
    let spread: std::collections::BTreeSet<i64> =
        (0..50).map(|n| backoff_ms(&policy, &format!("r{n}"), 3)).collect();
    assert!(spread.len() > 40, "jitter spreads: {spread:?}");
}

#[test]
fn a_pause_asked_for_by_a_provider_uses_no_try() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    for _ in 0..20 {
        assert_eq!(world.start(), Some(request));
        assert_eq!(world.fail(request, RetryHint::After(5000)), ["AttemptFailed"]);
        assert_eq!(world.state.open_request(request).unwrap().row.attempts, 0);
        world.now = world.now.plus_ms(4999);
        assert_eq!(world.start(), None);
        world.now = world.now.plus_ms(1);
    }
}

#[test]
fn reports_of_other_attempts_and_other_epochs_are_ignored() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    world.start();
    let epoch = world.state.epoch();
    let outcome = || Outcome::Produced {
        summary: item("sum"),
        item: Vec::new(),
        warnings: Warnings::default(),
        input: Box::default(),
        provenance: None,
    };
    let none: [&str; 0] = [];
    let stale = Report { request, attempt: 2, epoch, outcome: outcome() };
    assert_eq!(world.report_as(stale), none);
    world.restart();
    assert_eq!(world.status(request), "waiting", "a new epoch releases every claim");
    assert_eq!(world.start(), Some(request));
    assert_eq!(world.state.open_request(request).unwrap().row.attempts, 1);
    let old = Report { request, attempt: 1, epoch, outcome: outcome() };
    assert_eq!(world.report_as(old), none);
    assert_eq!(world.produce(request, "sum"), ["SummaryProduced"]);
    assert_eq!(world.produce(request, "sum"), none, "an ended request hears nothing");
}

#[test]
fn a_missed_deadline_is_a_warning() {
    let mut world = World::new();
    let deadline = Timestamp(world.now.0 + 10);
    world.arrive(ask("a", "k").with(|taken| taken.deadline = Some(deadline)));
    let request = world.last_seq();
    world.start();
    world.now = Timestamp(deadline.0 + 1);
    world.produce(request, "sum");
    let Event::SummaryProduced { warnings, .. } = world.last() else { panic!() };
    assert!(warnings.contains(Warning::DeadlineMissed));
}

#[test]
fn operators_cancel_what_is_open_and_retry_what_ended_without_output() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    assert_eq!(world.cancel("a").unwrap(), ["RequestCancelled"]);
    assert!(matches!(world.cancel("a"), Err(Refused::WrongState { .. })));
    assert!(matches!(world.cancel("nobody"), Err(Refused::NoSuchRequest(_))));
    let cancelled = world.last_seq();
    assert_eq!(world.retry("a").unwrap(), ["RequestAccepted"]);
    let again = world.last_seq();
    let Event::RequestAccepted(taken) = world.last() else { panic!() };
    assert_eq!(taken.previous, Some(request));
    assert_eq!(taken.supersedes.map(|superseded| superseded.ack), Some(cancelled));
    assert_eq!(world.start(), Some(again));
    world.produce(again, "sum");
    let Event::SummaryProduced { supersedes, .. } = world.last() else { panic!() };
    assert_eq!(*supersedes, Some(cancelled));
    assert!(matches!(world.retry("a"), Err(Refused::WrongState { .. })));
    let totals = world.state.totals();
    assert_eq!(totals.by_status[&Status::Cancelled], 0, "counts are by latest state");
    assert_eq!(totals.by_status[&Status::Completed], 1);
}

#[test]
fn retry_ends_a_backoff_and_leaves_a_strict_delay_alone() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    world.start();
    world.fail(request, RetryHint::Later);
    assert_eq!(world.start(), None);
    assert_eq!(world.retry("a").unwrap(), ["DelayEnded"]);
    assert_eq!(world.start(), Some(request));
    world.arrive(ask("s", "s").with(|taken| {
        taken.urgency = Urgency::Scheduled;
        taken.not_before = Some(Timestamp(i64::MAX / 2));
    }));
    assert!(matches!(world.retry("s"), Err(Refused::WrongState { .. })));
}

#[test]
fn a_strict_delay_outlives_clocks_retries_and_operators() {
    let mut world = World::new();
    let due = Timestamp(world.now.0 + 1000);
    world.arrive(ask("s", "s").with(|taken| {
        taken.urgency = Urgency::Scheduled;
        taken.not_before = Some(due);
    }));
    let request = world.last_seq();
    world.now = due;
    world.state.advance(world.now);
    assert_eq!(world.state.ready_count(), 1);
    world.now = Timestamp(due.0 - 1);
    assert_eq!(world.start(), None, "ready once, but the clock stepped back");
    world.now = due;
    assert_eq!(world.start(), Some(request));
    world.now = Timestamp(due.0 - 1_000_000);
    world.fail(request, RetryHint::Later);
    world.now = Timestamp(due.0 - 1);
    assert_eq!(world.start(), None, "the backoff is over, the strict delay is not");
    assert_eq!(world.retry("s").unwrap(), ["DelayEnded"]);
    assert_eq!(world.start(), None, "an operator cuts the backoff, not the strict delay");
    world.now = due;
    assert_eq!(world.start(), Some(request));
}

#[test]
fn skips_and_invalid_inputs_end_a_request_without_holding_its_key() {
    let mut world = World::new();
    let skipped = world.accept("a", "k");
    world.start();
    let (reason, input) = (ReasonCode::SkippedEmptyContent, Box::default());
    assert_eq!(
        world.report(skipped, Outcome::Skipped { reason, warnings: Warnings::default(), input }),
        ["RequestSkipped"]
    );
    let invalid = world.accept("b", "k");
    world.start();
    assert_eq!(world.fail(invalid, RetryHint::InvalidInput), ["AttemptFailed"]);
    assert_eq!(world.status(invalid), "failed_input");
    world.accept("c", "k");
}

#[test]
fn pausing_twice_is_pausing_once() {
    let mut world = World::new();
    let mut out = Vec::new();
    world.state.pause(PauseCause::Operator, false, &mut out);
    assert_eq!(out, []);
    world.state.pause(PauseCause::Operator, true, &mut out);
    assert_eq!(out, [Event::IntakePaused { cause: PauseCause::Operator }]);
    world.state.apply(world.last_seq().next(), world.now, &out[0]).unwrap();
    out.clear();
    world.state.pause(PauseCause::Operator, true, &mut out);
    assert_eq!(out, []);
    world.state.pause(PauseCause::DiskSpace, true, &mut out);
    assert_eq!(out.len(), 1, "causes are independent");
}

#[test]
fn impossible_events_are_refused_in_every_status() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    let next = world.last_seq().next();
    let started = |attempt| Event::AttemptStarted { request, attempt };
    assert!(world.state.apply(Seq(next.0 + 1), world.now, &started(1)).is_err(), "a gap");
    let mut state = world.replayed();
    assert!(state.apply(next, world.now, &started(2)).is_err(), "attempts are counted from 1");
    let mut state = world.replayed();
    let released = Event::WorkReleased { request };
    assert!(state.apply(next, world.now, &released).is_err(), "it is not held");
    let mut state = world.replayed();
    let nobody = Event::AttemptStarted { request: Seq(999), attempt: 1 };
    assert!(state.apply(next, world.now, &nobody).is_err(), "nobody is there");
}

#[test]
fn a_small_producer_is_not_held_up_by_a_large_one() {
    let mut world = World::new();
    for number in 0..1000 {
        let id = format!("big{number}");
        world.arrive(ask(&id, &id).with(|taken| taken.producer = "big".into()));
    }
    assert!(world.start().is_some());
    world.arrive(ask("mail", "mail").with(|taken| taken.producer = "small".into()));
    let mail = world.last_seq();
    assert_eq!(world.start(), Some(mail));
}

#[test]
fn an_old_request_starts_before_a_newer_one_of_the_same_level() {
    let mut world = World::new();
    world.arrive(ask("old", "old").with(|taken| taken.priority = 5));
    let old = world.last_seq();
    world.now = world.now.plus_ms(39 * 60 * 1000);
    world.arrive(ask("new", "new").with(|taken| taken.priority = 2));
    let new = world.last_seq();
    assert_eq!(world.start(), Some(old), "after 39 minutes its level is 2 and it was due before");
    assert_eq!(world.start(), Some(new));
}

#[test]
fn a_request_that_ends_the_process_each_time_fails_after_its_attempts_and_takes_no_other_with_it() {
    let mut world = World::new();
    world.policy.attempts_max = 4;
    let bad = world.accept("bad", "bad");
    let good = world.accept("good", "good");
    for _ in 0..2 {
        assert!(world.start().is_some() && world.start().is_some());
        assert!(!world.state.waits_to_be_alone());
        assert_eq!(world.crash(), [""; 0]);
    }
    // After two crashes each request is attempted alone.
    assert_eq!(world.start(), Some(bad));
    assert!(world.state.waits_to_be_alone());
    world.crash();
    assert_eq!(world.start(), Some(bad));
    assert_eq!(world.crash(), ["AttemptFailed"]);
    let Event::AttemptFailed { request, attempt, status, reason, message, .. } =
        &world.past.events[world.past.events.len() - 3]
    else {
        panic!("{:?}", world.last())
    };
    assert_eq!((*request, *attempt, *status), (bad, 4, AckStatus::FailedPermanent));
    assert_eq!(*reason, Some(ReasonCode::AttemptsExhausted));
    assert!(message.contains("the service ended"), "{message}");
    assert_eq!(world.start(), Some(good));
    assert_eq!(world.resolve(good, "sum"), ["InputResolved"]);
    assert_eq!(world.produce(good, "sum"), ["SummaryProduced"]);
    assert!(!world.state.waits_to_be_alone());
}

#[test]
fn an_attempt_that_an_orderly_end_cut_short_does_not_count() {
    let mut world = World::new();
    let request = world.accept("a", "a");
    for _ in 0..20 {
        assert_eq!(world.start(), Some(request));
        world.restart();
    }
    assert_eq!(world.state.open_request(request).unwrap().row.attempts, 0);
}
