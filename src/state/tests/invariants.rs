//! Whatever happens, in whatever order: one item a key, every request in exactly one place, and
//! replay and restart lead to the same state.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::decide::{FlowStanding, Outcome, RetryHint};
use super::super::event::Event;
use super::super::{State, Status};
use super::world::{World, ask};
use crate::contract::ids::Seq;
use crate::contract::vocabulary::{ReasonCode, Urgency, Warnings};

#[derive(Debug, Clone)]
enum Step {
    Arrive { id: u8, key: u8, flow: u8, delay: u8 },
    Start,
    Resolve { which: u8, item: u8 },
    Produce { which: u8, item: u8 },
    Skip { which: u8 },
    Fail { which: u8, how: u8 },
    Cancel { id: u8 },
    Retry { id: u8 },
    Wait { seconds: u16 },
    Settle,
    Checkpoint,
    Restart,
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..12, 0u8..5, 0u8..8, 0u8..4)
            .prop_map(|(id, key, flow, delay)| Step::Arrive { id, key, flow, delay }),
        6 => Just(Step::Start),
        3 => (any::<u8>(), 0u8..4).prop_map(|(which, item)| Step::Resolve { which, item }),
        4 => (any::<u8>(), 0u8..4).prop_map(|(which, item)| Step::Produce { which, item }),
        1 => any::<u8>().prop_map(|which| Step::Skip { which }),
        3 => (any::<u8>(), 0u8..4).prop_map(|(which, how)| Step::Fail { which, how }),
        1 => (0u8..12).prop_map(|id| Step::Cancel { id }),
        1 => (0u8..12).prop_map(|id| Step::Retry { id }),
        2 => (1u16..2000).prop_map(|seconds| Step::Wait { seconds }),
        3 => Just(Step::Settle),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Restart),
        1 => Just(Step::Restore),
    ]
}

fn running(world: &World, which: u8) -> Option<Seq> {
    let running: Vec<Seq> = world
        .state
        .open_from(Seq(0))
        .filter(|(_, open)| open.row.status == Status::Running)
        .map(|(seq, _)| seq)
        .collect();
    (!running.is_empty()).then(|| running[usize::from(which) % running.len()])
}

fn take(world: &mut World, step: &Step) {
    match step {
        Step::Arrive { id, key, flow, delay } => {
            let flow = match flow {
                0 => FlowStanding::Unknown,
                1 => FlowStanding::Deprecated,
                _ => FlowStanding::Active,
            };
            let now = world.now;
            let asked = ask(&format!("r{id}"), &format!("k{key}")).flow(flow);
            world.arrive(asked.with(|taken| {
                if *delay > 1 {
                    taken.urgency = Urgency::Scheduled;
                    taken.not_before = Some(now.plus_ms(i64::from(*delay) * 400_000));
                }
            }));
        }
        Step::Start => drop(world.start()),
        Step::Resolve { which, item } => {
            if let Some(request) = running(world, *which) {
                world.resolve(request, &format!("sum{item}"));
            }
        }
        Step::Produce { which, item } => {
            if let Some(request) = running(world, *which) {
                world.produce(request, &format!("sum{item}"));
            }
        }
        Step::Skip { which } => {
            if let Some(request) = running(world, *which) {
                let (reason, input) = (ReasonCode::SkippedByPolicy, Box::default());
                world.report(
                    request,
                    Outcome::Skipped { reason, warnings: Warnings::default(), input },
                );
            }
        }
        Step::Fail { which, how } => {
            if let Some(request) = running(world, *which) {
                let ways = [
                    RetryHint::Later,
                    RetryHint::After(900),
                    RetryHint::Never,
                    RetryHint::InvalidInput,
                ];
                let again = ways[usize::from(*how) % ways.len()];
                world.fail(request, again);
            }
        }
        Step::Cancel { id } => drop(world.cancel(&format!("r{id}"))),
        Step::Retry { id } => drop(world.retry(&format!("r{id}"))),
        Step::Wait { seconds } => world.now = world.now.plus_ms(i64::from(*seconds) * 1000),
        Step::Settle => drop(world.settle()),
        Step::Checkpoint => world.checkpoint(),
        Step::Restart => world.restart(),
        Step::Restore => restore(world),
    }
}

/// The process ends after a checkpoint and comes back.
fn restore(world: &mut World) {
    world.checkpoint();
    let open: Vec<_> =
        world.state.open_from(Seq(0)).map(|(seq, open)| (seq, open.clone())).collect();
    let ledger = world.state.ledger();
    let flows = world.state.flows().clone();
    world.state = State::restore(world.state.applied, ledger, flows, open, world.now);
    world.restart();
}

/// What every history must satisfy, checked from the events alone.
fn check(world: &World) {
    let mut items_by_key: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut made: BTreeSet<&str> = BTreeSet::new();
    let mut ended: BTreeSet<Seq> = BTreeSet::new();
    for event in &world.past.events {
        if let Event::SummaryProduced { head, summary, .. } = event {
            items_by_key.entry(&head.key).or_default().insert(&summary.summary_id);
            assert!(made.insert(&summary.summary_id), "{} was made twice", summary.summary_id);
        }
        let over = matches!(
            event,
            Event::SummaryProduced { .. }
                | Event::RequestSkipped { .. }
                | Event::RequestCancelled { .. }
                | Event::RequestDuplicated { .. }
                | Event::AttemptFailed { retry_at: None, .. }
        );
        if over && let Some(request) = event.request() {
            assert!(ended.insert(request), "request {request} ended twice");
        }
    }
    for (key, items) in items_by_key {
        assert_eq!(items.len(), 1, "key {key} has {items:?}");
    }
    let totals = &world.state.totals().by_status;
    let open: u64 =
        totals.iter().filter(|(status, _)| status.is_open()).map(|(_, count)| *count).sum();
    assert_eq!(open as usize, world.state.open_count());
}

/// Everything heals: nothing fails any more, time passes, and every request must end.
fn converge(world: &mut World) {
    for round in 0.. {
        assert!(round < 2000, "requests are stuck: {:?}", world.state.open_from(Seq(0)).next());
        world.settle();
        if world.state.open_count() == 0 {
            return;
        }
        world.now = world.now.plus_ms(700_000);
        world.start();
        if let Some(request) = running(world, 0) {
            world.produce(request, &format!("healed{}", request.0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..crate::proptests::config() })]

    #[test]
    fn histories_keep_their_promises(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            take(&mut world, step);
            check(&world);
        }
        let replayed = world.replayed();
        prop_assert_eq!(replayed.ledger(), world.state.ledger());
        let open = |state: &State| -> Vec<(Seq, Status, u32)> {
            state.open_from(Seq(0)).map(|(seq, open)| (seq, open.row.status, open.row.attempts)).collect()
        };
        prop_assert_eq!(open(&replayed), open(&world.state));
        converge(&mut world);
        check(&world);
    }
}
