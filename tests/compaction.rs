//! The worked example byte for byte, its negative vectors, and the properties every run keeps.

use summarizer::compaction::build::{Attempt, Built, Form};
use summarizer::compaction::compactor::Compactor;
use summarizer::compaction::event::RunEvent;
use summarizer::compaction::narrative;
use summarizer::compaction::snapshot::{CheckStatus, Snapshot};
use summarizer::compaction::trigger::Thresholds;
use summarizer::contract::hash::sha256;

const LOG: &str = include_str!("fixtures/compaction/worked_example.jsonl");
const SNAPSHOT: &str = include_str!("fixtures/compaction/worked_example.snapshot.json");
const NARRATIVE: &str = include_str!("fixtures/compaction/worked_example.md");
const SIX: Thresholds = Thresholds { event_threshold: 6, step_fallback: 8 };

/// Renumbers the lines from 1.
fn renumbered<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<RunEvent> {
    lines
        .into_iter()
        .enumerate()
        .map(|(index, line)| {
            let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["seq"] = (index as u64 + 1).into();
            RunEvent::parse(value.to_string().as_bytes()).unwrap()
        })
        .collect()
}

/// Every snapshot the trigger asks for, and the state after the last event.
fn compact(events: &[RunEvent], thresholds: Thresholds) -> Result<(Vec<Built>, Compactor), String> {
    let mut compactor = Compactor::new(thresholds);
    let mut taken = Vec::new();
    let mut take = |compactor: &mut Compactor| {
        let built = compactor.build(Attempt::First, Form::Full).unwrap();
        if built.snapshot.passes() {
            compactor.adopt(built.previous.clone());
        }
        taken.push(built);
    };
    for event in events {
        if compactor.due_before(event) {
            take(&mut compactor);
        }
        compactor.fold(event).map_err(|error| format!("{event}: {error}"))?;
        if compactor.due() {
            take(&mut compactor);
        }
    }
    Ok((taken, compactor))
}

fn without(seqs: &[usize]) -> Vec<RunEvent> {
    let kept = LOG.lines().enumerate().filter(|(index, _)| !seqs.contains(&(index + 1)));
    renumbered(kept.map(|(_, line)| line))
}

fn failed(built: &Built) -> Vec<(String, String)> {
    let failed = built.snapshot.failed_checks();
    failed.map(|check| (check.name.clone(), check.message.clone())).collect()
}

#[test]
fn the_worked_example_to_the_byte() {
    let (taken, _) = compact(&without(&[]), SIX).unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(String::from_utf8_lossy(&taken[0].bytes), SNAPSHOT);
    assert_eq!(taken[0].narrative, NARRATIVE);
    assert_eq!(
        sha256(&taken[0].bytes).hex(),
        "f4747e5bcb181d5802445089137f2f76a8149d520889c3cc2922fe0eaf434335"
    );
    assert_eq!(
        sha256(&taken[0].narrative).hex(),
        "2ada872eed8a03a0817346e549b77e0af5fb461e3f6f353faffce8356ee18709"
    );
    let stored: Snapshot = serde_json::from_str(SNAPSHOT).unwrap();
    assert_eq!(stored, taken[0].snapshot);
    assert_eq!(stored.computed_id(), stored.snapshot_id);
    assert_eq!(narrative::render(&stored), NARRATIVE);
}

#[test]
fn a_verified_claim_without_evidence_fails() {
    let (taken, _) = compact(&without(&[8, 18]), SIX).unwrap();
    let expected = ("verified_claims_have_evidence", "1 verified, 1 without evidence: clm_001");
    assert_eq!(failed(&taken[0]), [(expected.0.to_owned(), expected.1.to_owned())]);
    assert_eq!(taken[0].snapshot.validation.status, CheckStatus::Fail);
}

#[test]
fn a_one_sided_conflict_fails() {
    let line = r#""side_b_evidence_ids":["ev_888f5224054eef8fa8a487884bc5964b"]"#;
    let log = LOG.replace(line, r#""side_b_evidence_ids":[]"#);
    assert_ne!(log, LOG);
    let (taken, _) = compact(&renumbered(log.lines()), SIX).unwrap();
    let expected = ("conflicts_two_sided", "1 conflicts, 1 one-sided: cnf_001");
    assert_eq!(failed(&taken[0]), [(expected.0.to_owned(), expected.1.to_owned())]);
}

#[test]
fn a_conflict_over_unknown_evidence_is_an_input_error() {
    let error = compact(&without(&[8]), SIX).unwrap_err();
    assert_eq!(
        error,
        "CONFLICT_RECORDED at seq 17: unknown evidence id ev_b76ed95ef5b285d7eaaafbecf3dcaf8e"
    );
}

#[test]
fn five_counted_events_do_not_trigger() {
    let (taken, compactor) = compact(&without(&[20]), SIX).unwrap();
    assert!(taken.is_empty());
    assert_eq!(compactor.fold_state().window.counted.len(), 5);
}
