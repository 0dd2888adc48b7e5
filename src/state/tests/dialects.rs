//! What models accept: learned once, known to replay, spoken for a week.

use super::super::decide::Outcome;
use super::super::dialects::KnownDialects;
use super::world::World;
use crate::contract::time::Timestamp;
use crate::facts::dialect::{Dialect, KEPT_FOR_MS, LearnedDialect};

fn learned(model: &str, server: &str, answer_max: u32) -> LearnedDialect {
    LearnedDialect {
        provider: "p".into(),
        server: server.into(),
        model: model.into(),
        dialect: Dialect { answer_max: Some(answer_max), ..Dialect::default() },
    }
}

fn report(learned: &LearnedDialect) -> Outcome {
    Outcome::Learned(Box::new(learned.clone()))
}

#[test]
fn several_calls_that_learn_the_same_make_one_event() {
    let mut world = World::new();
    let request = world.accept("a", "k");
    world.start();
    let first = learned("m", "http://h", 10);
    assert_eq!(world.report(request, report(&first)), ["DialectLearned"]);
    assert!(world.report(request, report(&first)).is_empty());
    for other in [learned("m", "http://h", 9), learned("m", "http://i", 9), learned("n", "", 9)] {
        assert_eq!(world.report(request, report(&other)), ["DialectLearned"]);
        assert!(world.report(request, report(&other)).is_empty());
    }
    world.now = world.now.plus_ms(KEPT_FOR_MS);
    let again = learned("m", "http://i", 9);
    assert_eq!(world.report(request, report(&again)), ["DialectLearned"], "it is renewed");
    assert_eq!(world.replayed().dialects(), world.state.dialects());
    let known = world.state.dialects().unwrap();
    let spoken: Vec<_> = known.spoken(world.now).collect();
    assert_eq!(spoken, [(again, KEPT_FOR_MS as u64)], "the dialect of n is a week old");
}

#[test]
fn the_dialects_of_many_models_are_bounded() {
    let mut known = KnownDialects::default();
    for number in 0..1_000 {
        known.learned(Timestamp(number), &learned(&format!("m{number}"), "", 1));
    }
    assert_eq!(known.by_model.len(), 256);
    let oldest = known.by_model.values().map(|known| known.learned_at).min();
    assert_eq!(oldest, Some(Timestamp(744)));
}
