//! What is known of flows and models: first uses, accepted changes, and what a day cost.

use super::super::decide::Outcome;
use super::super::event::{Charge, Event};
use super::world::World;
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;

fn used(variant: Option<&str>, pack: &str) -> Outcome {
    Outcome::FlowUsed {
        flow_id: "f.v1".into(),
        variant: variant.map(str::to_owned),
        pack_hash: sha256(pack),
    }
}

fn charge(day: &str, provider: &str, tokens: u64) -> Outcome {
    Outcome::Charged(Charge {
        provider: provider.into(),
        model: "m".into(),
        day: day.parse().unwrap(),
        input_tokens: tokens,
        output_tokens: 1,
        cost_nanos: 10 * tokens,
        estimated: false,
    })
}

#[test]
fn only_the_first_use_of_a_flow_is_an_event() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    world.start();
    assert_eq!(world.report(request, used(None, "one")), ["FlowUsed"]);
    assert!(world.report(request, used(None, "one")).is_empty());
    assert!(world.report(request, used(None, "two")).is_empty(), "a use accepts nothing");
    assert_eq!(world.report(request, used(Some("fast"), "two")), ["FlowUsed"]);
    let flows = world.state.flows();
    assert_eq!(flows.pack_of("f.v1", None), Some(sha256("one")));
    assert_eq!(flows.pack_of("f.v1", Some("fast")), Some(sha256("two")));
    assert_eq!(flows.pack_of("f.v1", Some("strict")), None);
    assert_eq!(flows.pack_of("f.v", None), None);
    assert_eq!(world.replayed().flows(), flows);
}

#[test]
fn an_accepted_change_must_name_what_it_replaces() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    world.start();
    world.report(request, used(None, "one"));
    let accepted = |replaces: &str| Event::FlowUsed {
        flow_id: "f.v1".into(),
        variant: None,
        pack_hash: sha256("two"),
        replaces: Some(sha256(replaces)),
    };
    let next = world.state.applied.next();
    assert!(world.state.apply(next, world.now, &accepted("three")).is_err());
    let mut replayed = world.replayed();
    let next = replayed.applied.next();
    replayed.apply(next, world.now, &accepted("one")).unwrap();
    assert_eq!(replayed.flows().pack_of("f.v1", None), Some(sha256("two")));
}

#[test]
fn a_charge_counts_on_its_day_also_after_the_request_has_ended() {
    let mut world = World::new();
    let request = world.complete("a", "sum");
    assert_eq!(world.report(request, charge("2026-02-11", "p", 5)), ["ModelCharged"]);
    assert_eq!(world.report(Seq(999), charge("2026-02-11", "q", 7)), ["ModelCharged"]);
    world.report(request, charge("2026-02-11", "p", 5));
    let of =
        |world: &World, name: &str| world.state.flows().charged.clone().unwrap().by_provider[name];
    assert_eq!((of(&world, "p").calls, of(&world, "p").input_tokens), (2, 10));
    assert_eq!((of(&world, "q").output_tokens, of(&world, "q").cost_nanos), (1, 70));
    world.report(request, charge("2026-02-12", "p", 1));
    world.report(request, charge("2026-02-11", "p", 100));
    let charged = world.state.flows().charged.clone().unwrap();
    assert_eq!((charged.day.to_string().as_str(), charged.by_provider.len()), ("2026-02-12", 1));
    assert_eq!(charged.by_provider["p"].input_tokens, 1, "an older day is closed");
    assert_eq!(world.replayed().flows(), world.state.flows());
}
