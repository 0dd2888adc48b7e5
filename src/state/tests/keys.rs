//! Idempotency in all its cases: a key never has two outputs, and no request waits for ever.

use super::super::Status;
use super::super::decide::{Arrival, RetryHint};
use super::super::event::Event;
use super::world::{World, ask};
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{
    AckStatus, FailureCause, ReasonCode, Urgency, Warning, Warnings,
};

#[test]
fn a_key_with_an_output_answers_with_it() {
    let mut world = World::new();
    let first = world.complete("a", "k");
    for checkpointed in [false, true] {
        if checkpointed {
            world.checkpoint();
        }
        let id = format!("b{checkpointed}");
        assert_eq!(world.arrive(ask(&id, "k")), ["DuplicateReceived"]);
        let Event::DuplicateReceived { of, of_request_id, summary, reason, .. } = world.last()
        else {
            panic!()
        };
        assert_eq!((*of, of_request_id.as_str()), (first, "a"));
        assert_eq!((summary.summary_id.as_str(), *reason), ("k", ReasonCode::OutputExists));
    }
    assert_eq!(world.arrive(ask("a", "k")), ["DuplicateReceived"], "the same line again");
}

#[test]
fn a_key_in_flight_parks_and_ends_with_the_first() {
    let mut world = World::new();
    let first = world.accept("a", "k");
    assert_eq!(world.arrive(ask("b", "k")), ["RequestParked"]);
    assert_eq!(world.arrive(ask("a", "k")), ["RequestParked"], "the same id waits as well");
    assert_eq!(world.arrive(ask("c", "k")), ["RequestParked"]);
    assert_eq!(world.start(), Some(first));
    assert_eq!(world.start(), None, "parked requests never start");
    world.produce(first, "sum");
    assert_eq!(world.settle(), ["RequestDuplicated"; 3]);
    let Event::RequestDuplicated { reason, of, .. } = world.last() else { panic!() };
    assert_eq!((*reason, *of), (ReasonCode::KeyInFlight, first));
    assert_eq!(world.state.open_count(), 0);
}

fn at(id: &str, not_before: Timestamp) -> super::world::Asked {
    ask(id, "k").with(|taken| {
        taken.urgency = Urgency::Scheduled;
        taken.not_before = Some(not_before);
    })
}

#[test]
fn now_never_waits_behind_a_scheduled_twin() {
    let mut world = World::new();
    let later = world.now.plus_ms(1_000_000_000);
    assert_eq!(world.arrive(at("scheduled", later)), ["RequestAccepted"]);
    let scheduled = world.last_seq();
    world.checkpoint();
    assert_eq!(world.arrive(ask("now", "k")), ["KeyYielded", "RequestAccepted"]);
    let now = world.last_seq();
    let Event::KeyYielded { request, behind, behind_request_id, .. } =
        &world.past.events[now.0 as usize - 2]
    else {
        panic!()
    };
    assert_eq!((*request, *behind, behind_request_id.as_str()), (scheduled, now, "now"));
    assert_eq!(world.status(scheduled), "parked");
    assert_eq!(world.start(), Some(now), "it is eligible immediately");
    world.produce(now, "sum");
    assert_eq!(world.settle(), ["RequestDuplicated"]);
    let Event::RequestDuplicated { request, of, .. } = world.last() else { panic!() };
    assert_eq!((*request, *of), (scheduled, now), "the work is done, so nothing runs early");
}

#[test]
fn a_request_that_gave_its_key_away_keeps_its_time_when_it_gets_it_back() {
    let mut world = World::new();
    let later = world.now.plus_ms(1_000_000);
    world.arrive(at("scheduled", later));
    let scheduled = world.last_seq();
    world.arrive(ask("now", "k"));
    let now = world.last_seq();
    assert_eq!(world.start(), Some(now));
    // A third one comes while the second runs.
    assert_eq!(world.arrive(ask("third", "k")), ["RequestParked"]);
    let third = world.last_seq();
    world.fail(now, RetryHint::Never);
    assert_eq!(world.settle(), ["ParkedAccepted"]);
    assert_eq!(
        world.start(),
        Some(third),
        "the request that may start first takes the key, not the older one"
    );
    world.fail(third, RetryHint::Never);
    assert_eq!(world.settle(), ["ParkedAccepted"]);
    assert_eq!(world.start(), None, "the scheduled one still waits for its time");
    world.now = later;
    assert_eq!(world.start(), Some(scheduled));
    world.produce(scheduled, "sum");
    assert_eq!(world.replayed().ledger(), world.state.ledger());
}

#[test]
fn only_a_request_that_has_not_begun_gives_its_key_away() {
    let mut world = World::new();
    let (soon, later) = (world.now.plus_ms(1_000), world.now.plus_ms(1_000_000));
    world.arrive(at("a", soon));
    let first = world.last_seq();
    assert_eq!(world.arrive(at("b", later)), ["RequestParked"], "it starts no sooner");
    assert_eq!(world.row_of(world.last_seq()).reason, Some(ReasonCode::KeyInFlight));
    world.now = soon;
    assert_eq!(world.start(), Some(first));
    assert_eq!(world.arrive(ask("d", "k")), ["RequestParked"], "it runs");
    assert_eq!(world.resolve(first, "sum"), ["InputResolved"]);
    world.fail(first, RetryHint::After(900_000));
    let parked = world.arrive(ask("e", "k"));
    assert_eq!(parked[0], "RequestParked", "it has begun");
    let row = world.row_of(first);
    assert_eq!(row.cause, Some(FailureCause::ServerError));
}

/// A scheduled request that resolved its input and failed: it waits for its next attempt.
fn in_backoff(world: &mut World, id: &str, key: &str, item: &str) -> crate::contract::ids::Seq {
    let soon = world.now.plus_ms(1_000);
    let scheduled = ask(id, key).with(|taken| {
        (taken.urgency, taken.not_before) = (Urgency::Scheduled, Some(soon));
    });
    world.arrive(scheduled);
    let request = world.last_seq();
    world.now = soon;
    assert_eq!(world.start(), Some(request));
    assert_eq!(world.resolve(request, item), ["InputResolved"]);
    world.fail(request, RetryHint::After(900_000));
    assert_eq!((world.status(request), world.start()), ("backoff", None));
    request
}

#[test]
fn now_ends_the_wait_of_a_scheduled_twin_that_has_begun() {
    let mut world = World::new();
    let scheduled = in_backoff(&mut world, "scheduled", "k", "sum");
    assert_eq!(world.arrive(ask("now", "k")), ["RequestParked", "DelayEnded"]);
    assert_eq!(world.start(), Some(scheduled), "its paid answers stay its own");
    world.fail(scheduled, RetryHint::After(900_000));
    assert_eq!(world.arrive(ask("more", "k")), ["RequestParked"], "only the first ends the wait");
    assert_eq!(world.start(), None);
    world.now = world.now.plus_ms(900_000);
    assert_eq!(world.start(), Some(scheduled));
    world.produce(scheduled, "sum");
    assert_eq!(world.settle(), ["RequestDuplicated"; 2]);
    assert_eq!(world.replayed().ledger(), world.state.ledger());
}

#[test]
fn now_ends_the_wait_of_a_scheduled_request_that_makes_the_same_item() {
    let mut world = World::new();
    let scheduled = in_backoff(&mut world, "scheduled", "k1", "sum");
    let now = world.accept("now", "k2");
    assert_eq!(world.start(), Some(now));
    assert_eq!(world.resolve(now, "sum"), ["WorkHeld", "DelayEnded"]);
    assert_eq!(world.start(), Some(scheduled));
    world.produce(scheduled, "sum");
    assert_eq!(world.settle(), ["RequestDuplicated"]);
}

#[test]
fn now_ends_the_wait_of_the_request_that_its_scheduled_twin_waits_for() {
    let mut world = World::new();
    let maker = in_backoff(&mut world, "maker", "k1", "sum");
    let soon = world.now;
    let twin = ask("twin", "k2").with(|taken| {
        (taken.urgency, taken.not_before) = (Urgency::Scheduled, Some(soon));
    });
    world.arrive(twin);
    let twin = world.last_seq();
    assert_eq!(world.start(), Some(twin));
    assert_eq!(world.resolve(twin, "sum"), ["WorkHeld"], "scheduled work ends no wait");
    assert_eq!(world.arrive(ask("now", "k2")), ["RequestParked", "DelayEnded"]);
    assert!(!world.state.gives_way(maker));
    assert_eq!(world.start(), Some(maker));
    world.produce(maker, "sum");
    assert_eq!(world.settle(), ["RequestDuplicated"; 2]);
    assert_eq!(world.state.open_count(), 0);
}

#[test]
fn a_scheduled_request_that_failed_without_input_gives_its_key_away() {
    let mut world = World::new();
    let soon = world.now.plus_ms(1_000);
    world.arrive(at("scheduled", soon));
    let scheduled = world.last_seq();
    world.now = soon;
    world.start();
    world.fail(scheduled, RetryHint::After(900_000));
    assert_eq!(world.arrive(ask("now", "k")), ["KeyYielded", "RequestAccepted"]);
    let now = world.last_seq();
    assert_eq!(world.start(), Some(now));
    world.produce(now, "sum");
    assert_eq!(world.settle(), ["RequestDuplicated"]);
    assert_eq!(world.replayed().ledger(), world.state.ledger());
}

#[test]
fn a_scheduled_request_that_is_due_gives_its_key_to_a_now_request() {
    let mut world = World::new();
    let soon = world.now.plus_ms(1_000);
    world.arrive(at("scheduled", soon));
    world.now = soon.plus_ms(5_000);
    assert_eq!(world.arrive(ask("now", "k")), ["KeyYielded", "RequestAccepted"]);
    let now = world.last_seq();
    assert_eq!(world.start(), Some(now));
}

#[test]
fn a_scheduled_request_that_has_begun_goes_first_while_a_now_request_waits_for_it() {
    let mut world = World::new();
    let soon = world.now.plus_ms(1_000);
    let other = ask("other", "x").with(|taken| {
        (taken.urgency, taken.not_before, taken.priority) = (Urgency::Scheduled, Some(soon), 1);
    });
    world.arrive(at("scheduled", soon));
    let scheduled = world.last_seq();
    world.now = soon;
    assert_eq!(world.start(), Some(scheduled));
    assert_eq!(world.resolve(scheduled, "sum"), ["InputResolved"]);
    world.fail(scheduled, RetryHint::After(900_000));
    world.arrive(other);
    world.now = soon.plus_ms(10_000_000);
    assert_eq!(world.arrive(ask("now", "k")), ["RequestParked"], "it has begun");
    assert!(!world.state.gives_way(scheduled));
    assert_eq!(world.start(), Some(scheduled));
}

#[test]
fn a_duplicate_of_changed_text_warns() {
    let mut world = World::new();
    let arrive = |world: &mut World, id: &str| {
        let request = Box::new(ask(id, "k").taken);
        let flow = super::super::decide::FlowStanding::Active;
        let arrival = Arrival {
            request,
            flow,
            refused: None,
            source: Warnings::default().with(Warning::SourceChanged),
        };
        world.arrive_as(arrival)
    };
    assert_eq!(arrive(&mut world, "a"), ["RequestAccepted"]);
    let first = world.last_seq();
    let Event::RequestAccepted(taken) = world.last() else { panic!() };
    assert!(!taken.warnings.contains(Warning::SourceChanged), "it reads the text as it is");
    world.start();
    world.produce(first, "sum");
    assert_eq!(arrive(&mut world, "b"), ["DuplicateReceived"]);
    let Event::DuplicateReceived { request, .. } = world.last() else { panic!() };
    assert!(request.warnings.contains(Warning::SourceChanged));
}

#[test]
fn a_request_that_waits_keeps_the_warning_until_the_text_is_read_again() {
    let source = Warnings::default().with(Warning::SourceChanged).with(Warning::SourcePrivate);
    let arrive = |world: &mut World, id: &str| {
        let request = Box::new(ask(id, "k").taken);
        let flow = super::super::decide::FlowStanding::Active;
        world.arrive_as(Arrival { request, flow, refused: None, source })
    };
    let warnings_of_ending = |world: &mut World| {
        world.settle();
        let ending = world.past.events.iter().rev().find_map(|event| match event {
            Event::RequestDuplicated { warnings, .. } => Some(*warnings),
            _ => None,
        });
        (ending.unwrap(), matches!(world.last(), Event::SourceBecamePrivate { .. }))
    };
    for fails in [false, true] {
        let mut world = World::new();
        arrive(&mut world, "a");
        let first = world.last_seq();
        // It has not read its text yet.
        assert_eq!(arrive(&mut world, "early"), ["RequestParked"]);
        let Event::RequestParked { request, .. } = world.last() else { panic!() };
        assert_eq!(request.warnings, Warnings::default());
        world.start();
        assert_eq!(arrive(&mut world, "late"), ["RequestParked"]);
        if fails {
            world.fail(first, RetryHint::Later);
            world.now = world.now.plus_ms(10_000_000);
            world.start();
        }
        world.produce(first, "sum");
        let (warnings, names_it) = warnings_of_ending(&mut world);
        assert_eq!(warnings, if fails { Warnings::default() } else { source });
        assert_eq!(names_it, !fails);
    }
}

#[test]
fn a_duplicate_of_a_text_that_became_private_names_the_event_of_the_summary() {
    let mut world = World::new();
    let arrive = |world: &mut World, id: &str, key: &str, source: Warnings| {
        let request = Box::new(ask(id, key).taken);
        let flow = super::super::decide::FlowStanding::Active;
        world.arrive_as(Arrival { request, flow, refused: None, source })
    };
    let none = Warnings::default();
    arrive(&mut world, "a", "k", none);
    let first = world.last_seq();
    world.start();
    world.produce(first, "sum");
    let produced = world.last_seq();
    let private = none.with(Warning::SourcePrivate);
    for id in ["b", "c"] {
        let events = arrive(&mut world, id, "k", private);
        assert_eq!(events, ["DuplicateReceived", "SourceBecamePrivate"]);
        let asked = Seq(world.last_seq().0 - 1);
        let Event::SourceBecamePrivate { request, made, .. } = world.last() else { panic!() };
        assert_eq!((*request, *made), (asked, produced));
    }
    assert_eq!(arrive(&mut world, "d", "k", none), ["DuplicateReceived"]);
}

#[test]
fn an_ended_request_shows_no_cause_of_an_earlier_attempt() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    world.start();
    world.fail(request, RetryHint::After(0));
    assert!(world.row_of(request).cause.is_some());
    world.start();
    world.produce(request, "sum");
    let row = world.row_of(request);
    assert_eq!((row.reason, row.cause), (None, None));
}

#[test]
fn when_the_first_fails_the_next_takes_its_place() {
    let mut world = World::new();
    let first = world.accept("a", "k");
    world.arrive(ask("b", "k"));
    let second = world.last_seq();
    world.arrive(ask("c", "k"));
    let third = world.last_seq();
    world.start();
    world.fail(first, RetryHint::Never);
    assert_eq!(world.settle(), ["ParkedAccepted"], "one of them; the others keep waiting");
    assert_eq!(world.start(), Some(second));
    assert_eq!(world.cancel("b").unwrap(), ["RequestCancelled"]);
    assert_eq!(world.settle(), ["ParkedAccepted"]);
    assert_eq!(world.start(), Some(third));
    world.produce(third, "sum");
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(world.arrive(ask("d", "k")), ["DuplicateReceived"]);
}

#[test]
fn a_newcomer_never_passes_those_who_wait() {
    let mut world = World::new();
    let first = world.accept("a", "k");
    world.arrive(ask("b", "k"));
    let second = world.last_seq();
    world.start();
    world.fail(first, RetryHint::Never);
    assert_eq!(world.arrive(ask("c", "k")), ["RequestParked"], "before the key was handed over");
    assert_eq!(world.settle(), ["ParkedAccepted"]);
    assert_eq!(world.start(), Some(second));
    world.produce(second, "sum");
    assert_eq!(world.settle(), ["RequestDuplicated"]);
}

#[test]
fn a_duplicate_after_a_failure_names_the_ack_it_replaces() {
    let mut world = World::new();
    let first = world.accept("a", "k");
    world.start();
    world.fail(first, RetryHint::Never);
    let failed = world.last_seq();
    world.complete("other", "k2");
    let again = world.accept("a", "k");
    world.start();
    assert_eq!(world.resolve(again, "k2"), ["RequestDuplicated"]);
    let Event::RequestDuplicated { supersedes, .. } = world.last() else { panic!() };
    assert_eq!(*supersedes, Some(failed));
}

#[test]
fn a_request_that_cannot_take_over_does_not_wait() {
    let mut world = World::new();
    let first = world.accept("a", "k");
    let unknown = || ask("b", "k").flow(super::super::decide::FlowStanding::Unknown);
    assert_eq!(world.arrive(unknown()), ["RequestRejected"]);
    world.start();
    world.produce(first, "sum");
    assert_eq!(world.arrive(unknown()), ["DuplicateReceived"], "an output answers anybody");
}

#[test]
fn cancelling_a_parked_request_does_not_free_the_key() {
    let mut world = World::new();
    let first = world.accept("a", "k");
    world.arrive(ask("b", "k"));
    world.cancel("b").unwrap();
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(world.arrive(ask("c", "k")), ["RequestParked"], "the key is still in flight");
    world.start();
    world.produce(first, "sum");
    assert_eq!(world.settle(), ["RequestDuplicated"]);
}

#[test]
fn a_failure_releases_its_key_also_across_checkpoints() {
    let mut world = World::new();
    for (id, checkpoint) in [("a", false), ("b", true), ("c", false)] {
        let request = world.accept(id, "k");
        world.start();
        world.fail(request, RetryHint::Never);
        if checkpoint {
            world.checkpoint();
        }
    }
    world.complete("d", "k");
}

#[test]
fn the_same_request_may_come_again_after_a_failure() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    world.start();
    world.fail(request, RetryHint::Never);
    let failed = world.last_seq();
    let again = world.accept("a", "k");
    let Event::RequestAccepted(taken) = world.last() else { panic!() };
    assert_eq!(taken.supersedes.map(|superseded| superseded.ack), Some(failed));
    world.start();
    world.produce(again, "sum");
    assert_eq!(world.state.totals().by_status[&Status::Failed], 0);
}

#[test]
fn one_id_with_two_keys_is_a_conflict_unless_nothing_was_ever_accepted() {
    let mut world = World::new();
    world.complete("a", "k1");
    for checkpointed in [false, true] {
        if checkpointed {
            world.checkpoint();
        }
        assert_eq!(world.arrive(ask("a", "k2")), ["RequestRejected"]);
        let Event::RequestRejected { status, reason, .. } = world.last() else { panic!() };
        let conflict = (AckStatus::RejectedInvalidInput, Some(ReasonCode::RequestIdConflict));
        assert_eq!((*status, *reason), conflict);
    }
    assert_eq!(world.arrive(ask("a", "k1")), ["DuplicateReceived"], "its own key still works");
    let unknown = ask("typo", "k3").flow(super::super::decide::FlowStanding::Unknown);
    assert_eq!(world.arrive(unknown), ["RequestRejected"]);
    assert_eq!(world.arrive(ask("typo", "k4")), ["RequestAccepted"], "a rejection binds nobody");
}

#[test]
fn a_key_used_for_other_work_is_answered_and_warned_of() {
    let mut world = World::new();
    world.complete("a", "k");
    world.arrive(ask("b", "k").with(|taken| taken.work = sha256("else").head()));
    let Event::DuplicateReceived { request, .. } = world.last() else { panic!() };
    assert!(request.warnings.contains(Warning::IdempotencyKeyReusedWithDifferentWork));
}

#[test]
fn identical_work_under_another_key_is_made_once() {
    let mut world = World::new();
    let first = world.accept("a", "k1");
    let second = world.accept("b", "k2");
    assert_eq!((world.start(), world.start()), (Some(first), Some(second)));
    assert_eq!(world.resolve(first, "sum"), ["InputResolved"]);
    assert_eq!(world.resolve(second, "sum"), ["WorkHeld"]);
    assert_eq!(world.start(), None, "held requests do not start");
    assert_eq!(world.produce(first, "sum"), ["SummaryProduced"]);
    assert_eq!(world.settle(), ["RequestDuplicated"]);
    let Event::RequestDuplicated { reason, .. } = world.last() else { panic!() };
    assert_eq!(*reason, ReasonCode::IdenticalWork);
    assert_eq!(world.arrive(ask("c", "k2")), ["DuplicateReceived"], "its key points there too");
    world.checkpoint();
    let third = world.accept("d", "k3");
    world.start();
    assert_eq!(world.resolve(third, "sum"), ["RequestDuplicated"], "found in the tables");
}

#[test]
fn held_work_goes_on_when_its_maker_fails() {
    let mut world = World::new();
    let first = world.accept("a", "k1");
    let second = world.accept("b", "k2");
    world.start();
    world.start();
    world.resolve(first, "sum");
    world.resolve(second, "sum");
    world.fail(first, RetryHint::Never);
    assert_eq!(world.settle(), ["WorkReleased"]);
    assert_eq!(world.start(), Some(second));
    assert_eq!(world.state.open_request(second).unwrap().row.attempts, 1, "waiting was no try");
    assert_eq!(world.resolve(second, "sum"), ["InputResolved"]);
    assert_eq!(world.produce(second, "sum"), ["SummaryProduced"]);
}

#[test]
fn a_request_that_turns_to_another_item_releases_the_waiters_of_the_first() {
    let mut world = World::new();
    let first = world.accept("a", "k1");
    let second = world.accept("b", "k2");
    world.start();
    world.start();
    assert_eq!(world.resolve(first, "sum1"), ["InputResolved"]);
    assert_eq!(world.resolve(second, "sum2"), ["InputResolved"]);
    assert_eq!(world.resolve(second, "sum1"), ["WorkHeld"], "its upstream changed meanwhile");
    assert_eq!(world.resolve(first, "sum2"), ["InputResolved"], "nobody makes that one now");
    assert_eq!(world.settle(), ["WorkReleased"], "and nobody makes the other");
    assert_eq!(world.produce(first, "sum2"), ["SummaryProduced"]);
    assert_eq!(world.start(), Some(second));
    assert_eq!(world.produce(second, "sum1"), ["SummaryProduced"]);
}

#[test]
fn a_fallback_that_changes_the_item_is_checked_again() {
    let mut world = World::new();
    world.complete("a", "sum2");
    let second = world.accept("b", "k2");
    world.start();
    assert_eq!(world.resolve(second, "sum1"), ["InputResolved"]);
    assert_eq!(world.produce(second, "sum2"), ["RequestDuplicated"]);
}

#[test]
fn waiters_are_found_again_after_a_restart() {
    let mut world = World::new();
    let first = world.accept("a", "k");
    world.arrive(ask("b", "k"));
    world.start();
    world.produce(first, "sum");
    // The service dies before the waiter is settled.
    world.checkpoint();
    let open: Vec<_> =
        world.state.open_from(first).map(|(seq, open)| (seq, open.clone())).collect();
    let (applied, ledger, now) = (world.state.applied, world.state.ledger(), world.now);
    let flows = world.state.flows().clone();
    world.state = super::super::State::restore(applied, ledger, flows, open, now);
    world.restart();
    assert_eq!(world.settle(), ["RequestDuplicated"]);
}
