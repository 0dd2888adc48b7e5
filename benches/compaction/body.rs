//! The work that `benches/compaction.rs` measures, as plain functions with a result that can be
//! checked, so that a test runs the same code at a tiny size.

use std::hint::black_box;

use summarizer::compaction::build::{Attempt, Form};
use summarizer::compaction::compactor::Compactor;
use summarizer::compaction::event::RunEvent;
use summarizer::compaction::trigger::Thresholds;
use summarizer::compaction::tuning::choose::choose;
use summarizer::compaction::tuning::shapes;
use summarizer::compaction::tuning::sweep::{
    EVENT_THRESHOLDS, Generated, STEP_FALLBACKS, grid, sweep,
};

/// One run of about `events` events whose state stays inside its limits: short runs end to end,
/// renumbered, with their claims left out after the first of them.
pub fn long_run(events: usize) -> Vec<RunEvent> {
    let mut run: Vec<RunEvent> = Vec::with_capacity(events);
    let mut part = 0;
    while run.len() < events {
        let steps = run.last().and_then(|event| event.step_id).unwrap_or(0);
        for mut event in shapes::generate(1, part * 5 + 1, 500) {
            let body = event.type_name().to_owned();
            let run_level = event.step_id.is_none();
            let about_claims = ["CLAIM", "EVIDENCE", "CONFLICT", "QUESTION"];
            if part > 0 && (run_level || about_claims.iter().any(|word| body.starts_with(word))) {
                continue;
            }
            if body == "RUN_STOPPED" {
                continue;
            }
            event.run_id = "bench".into();
            event.seq = run.len() as u64 + 1;
            event.step_id = event.step_id.map(|step| step + steps);
            run.push(event);
            if run.len() == events {
                break;
            }
        }
        part += 1;
    }
    run
}

/// The lines of a run.
pub fn lines(run: &[RunEvent]) -> Vec<String> {
    run.iter().map(|event| event.to_line().trim_end().to_owned()).collect()
}

/// Parses and validates every line; gives the number of events.
pub fn parse(lines: &[String]) -> usize {
    lines.iter().filter(|line| black_box(RunEvent::parse(line.as_bytes())).is_ok()).count()
}

/// Folds every event, no snapshots.
pub fn fold(run: &[RunEvent]) -> Compactor {
    let mut compactor =
        Compactor::new(Thresholds { event_threshold: u64::MAX, step_fallback: u64::MAX });
    for event in run {
        compactor.fold(event).expect("a generated run folds");
    }
    compactor
}

/// Folds every event with snapshots adopted where they are due; gives the compactor right before
/// the last one that was due, ready to build it.
pub fn fold_to_last_snapshot(run: &[RunEvent]) -> Compactor {
    let mut compactor = Compactor::new(Thresholds::default());
    let mut ready = None;
    for event in run {
        compactor.fold(event).expect("a generated run folds");
        if compactor.due() {
            ready = Some(compactor.clone());
            let built = compactor.build(Attempt::First, Form::Full).expect("it has started");
            assert!(built.snapshot.passes(), "{:?}", built.snapshot.validation);
            compactor.adopt(built.previous);
        }
    }
    ready.expect("a snapshot was due")
}

/// Builds, checks and encodes one snapshot; gives its bytes.
pub fn snapshot(compactor: &Compactor) -> usize {
    let built = compactor.build(Attempt::First, Form::Full).expect("it has started");
    assert!(built.snapshot.passes());
    built.bytes.len() + built.narrative.len()
}

/// A whole sweep; gives the chosen event threshold.
pub fn tune(runs: usize, events: usize) -> u64 {
    let settings = grid(&EVENT_THRESHOLDS, &STEP_FALLBACKS);
    let swept = sweep(&Generated { seed: 1, runs, events }, &settings, &|| {});
    let choice = choose(&swept.rows).expect("there are settings");
    swept.rows[choice.chosen].thresholds.event_threshold
}
