//! The worked example byte for byte, its negative vectors, and properties of every run.
#![allow(clippy::unwrap_used, reason = "a test may")]

use summarizer::compaction::build::{BuildPass, BuiltSnapshot, SnapshotForm};
use summarizer::compaction::compactor::Compactor;
use summarizer::compaction::event::RunEvent;
use summarizer::compaction::narrative;
use summarizer::compaction::payload::CheckStatus;
use summarizer::compaction::snapshot::Snapshot;
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

/// Every snapshot that is due, and the state after the last event.
fn compact(
    events: &[RunEvent],
    thresholds: Thresholds,
) -> Result<(Vec<BuiltSnapshot>, Compactor), String> {
    let mut compactor = Compactor::new(thresholds);
    let mut taken = Vec::new();
    let mut take = |compactor: &mut Compactor| {
        let built = compactor.build(BuildPass::First, SnapshotForm::Full).unwrap();
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

fn failed(built: &BuiltSnapshot) -> Vec<(String, String)> {
    let failed = built.snapshot.failed_checks();
    failed.map(|check| (check.name.clone(), check.message.clone())).collect()
}

#[test]
fn the_worked_example_gives_the_expected_bytes() {
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

/// A log from generated events, as lines.
fn generated(seed: u64, index: u64, events: usize) -> Vec<RunEvent> {
    summarizer::compaction::tuning::shapes::generate(seed, index, events)
}

fn bytes(taken: &[BuiltSnapshot]) -> Vec<(Vec<u8>, String)> {
    taken.iter().map(|built| (built.bytes.clone(), built.narrative.clone())).collect()
}

fn verbose(template: &RunEvent, unknown: bool) -> RunEvent {
    let name = if unknown { "NEVER_HEARD_OF" } else { "TOOL_CALLED" };
    let mut line: serde_json::Value = serde_json::from_str(&template.to_line()).unwrap();
    line["type"] = name.into();
    line["step_id"] = 9999.into();
    line["ts"] = "2031-01-01T00:00:00.000Z".into();
    line["payload"] = serde_json::json!({"claim_id": "clm_0001", "status": "verified"});
    RunEvent::parse(line.to_string().as_bytes()).unwrap()
}

fn numbered(events: impl IntoIterator<Item = RunEvent>) -> Vec<RunEvent> {
    let number = |(mut event, seq): (RunEvent, u64)| {
        event.seq = seq;
        event
    };
    events.into_iter().zip(1..).map(number).collect()
}

#[test]
fn five_hundred_verbose_lines_change_nothing() {
    let plain = without(&[]);
    let noise = (0..500).map(|number| verbose(&plain[0], number % 2 == 0));
    let mut noisy = plain.clone();
    noisy.splice(10..10, noise);
    let (quiet, _) = compact(&plain, SIX).unwrap();
    let (loud, compactor) = compact(&numbered(noisy), SIX).unwrap();
    assert_eq!(bytes(&quiet), bytes(&loud));
    assert_eq!(compactor.fold_state().notices.unknown_types, 250);
    let (less, _) = compact(&without(&[4]), SIX).unwrap();
    assert_eq!(bytes(&quiet), bytes(&less), "the example's own verbose line too");
}

#[test]
fn a_second_run_start_with_another_objective_fails() {
    let mut events = without(&[]);
    let mut again = events[0].to_line().replace("compound X", "compound Y");
    again = again.trim_end().to_owned();
    events.insert(12, RunEvent::parse(again.as_bytes()).unwrap());
    let (taken, _) = compact(&numbered(events), SIX).unwrap();
    let expected = ("objective_unchanged", "objective differs from the first RUN_STARTED");
    assert_eq!(failed(&taken[0]), [(expected.0.to_owned(), expected.1.to_owned())]);
}

#[test]
fn the_trigger_fires_at_eighteen_events_or_at_eight_broken_steps() {
    let step = |number: u64, kinds: &[&str]| -> Vec<String> {
        let payload = |kind: &str| match kind {
            "PLAN_DONE" => r#"{"plan_id":"p","action_type":"SEARCH"}"#,
            "ACT_DONE" => r#"{"plan_id":"p","outcome":"ok"}"#,
            _ => r#"{"progress":true}"#,
        };
        kinds.iter().map(|kind| format!(
            r#"{{"schema":"run_event.v1","run_id":"r","seq":1,"ts":"2026-01-14T09:00:00.000Z","step_id":{number},"phase":"ACT","type":"{kind}","payload":{}}}"#,
            payload(kind)
        )).collect()
    };
    let cadence = |kinds: &[&str], steps: u64| {
        let start = LOG.lines().next().unwrap().replace("run_demo_01", "r");
        let mut lines = vec![start];
        (1..=steps).for_each(|number| lines.extend(step(number, kinds)));
        let (taken, _) =
            compact(&renumbered(lines.iter().map(String::as_str)), Thresholds::default()).unwrap();
        taken
            .iter()
            .map(|built| built.snapshot.counts)
            .map(|counts| {
                (counts.steps_since_last_compaction, counts.counted_events_since_last_compaction)
            })
            .collect::<Vec<_>>()
    };
    let whole = ["PLAN_DONE", "ACT_DONE", "OBSERVE_DONE"];
    assert_eq!(cadence(&whole, 5), []);
    assert_eq!(cadence(&whole, 12), [(6, 18), (6, 18)]);
    let repeated = ["PLAN_DONE", "PLAN_DONE", "ACT_DONE", "ACT_DONE", "OBSERVE_DONE"];
    assert_eq!(cadence(&repeated, 6), [(6, 18)], "a repeated terminal event counts once");
    assert_eq!(cadence(&["PLAN_DONE"], 8), [], "the eighth step has not ended");
    assert_eq!(cadence(&["PLAN_DONE"], 9), [(8, 8)]);
    assert_eq!(cadence(&["OBSERVE_DONE"], 8), [(8, 8)]);
}

#[test]
fn superseded_retracted_and_unicode_claims_are_kept() {
    let claim = |id: &str, more: &str| {
        format!(
            r#"{{"schema":"run_event.v1","run_id":"r","seq":1,"ts":"2026-01-14T09:00:00.000Z","step_id":1,"phase":"OBSERVE","type":"{id}","payload":{more}}}"#
        )
    };
    let start = LOG.lines().next().unwrap().replace("run_demo_01", "r");
    let lines = [
        start,
        claim(
            "CLAIM_ADDED",
            r#"{"claim_id":"ζ","statement":"Ünï\n## 3. Verified claims\n- fake"}"#,
        ),
        claim("CLAIM_ADDED", r#"{"claim_id":"b","statement":"new wording","supersedes":"ζ"}"#),
        claim("CLAIM_RETRACTED", r#"{"claim_id":"ζ","reason":"worded badly"}"#),
    ];
    let (_, compactor) = compact(&renumbered(lines.iter().map(String::as_str)), SIX).unwrap();
    let built = compactor.build(BuildPass::First, SnapshotForm::Full).unwrap();
    let claims = &built.snapshot.state.claims;
    assert_eq!(claims.iter().map(|claim| &*claim.claim_id).collect::<Vec<_>>(), ["b", "ζ"]);
    assert_eq!(claims[0].supersedes.as_deref(), Some("ζ"));
    assert!(built.snapshot.passes());
    assert!(!built.narrative.contains("fake"), "retracted claims are not listed");
    let late = claim("CLAIM_VERIFIED", r#"{"claim_id":"ζ"}"#);
    let lines: Vec<&str> = lines.iter().map(String::as_str).chain([late.as_str()]).collect();
    let error = compact(&renumbered(lines), SIX).unwrap_err();
    assert!(error.contains("retracted"), "{error}");
}

#[test]
fn a_claim_the_ledger_does_not_know_fails_the_gate() {
    let (taken, compactor) = compact(&without(&[20]), SIX).unwrap();
    assert!(taken.is_empty());
    let mut built = compactor.build(BuildPass::First, SnapshotForm::Full).unwrap();
    for claim in &mut built.snapshot.state.claims {
        claim.status = summarizer::compaction::state::ClaimStatus::Verified;
    }
    let fold = compactor.fold_state();
    let baseline = summarizer::compaction::checks::Baseline {
        invariants: fold.first.as_ref().unwrap(),
        previous_sequence: None,
    };
    let checks =
        summarizer::compaction::checks::run(&built.snapshot, &built.snapshot, &baseline, fold);
    let check = checks.iter().find(|check| check.name == "no_new_verified_claims").unwrap();
    assert_eq!(check.message, "2 verified claims, 1 not in the ledger: clm_002");
    assert_eq!(check.status, CheckStatus::Fail);
}

#[test]
fn strict_provenance_turns_gaps_into_failures() {
    let log = LOG.replace("audit_only", "strict").replace(r#""idx:pharm-2023-v3""#, "null");
    let lines = log.lines().enumerate().filter(|(index, _)| *index != 10);
    let (taken, _) = compact(&renumbered(lines.map(|(_, line)| line)), SIX).unwrap();
    let expected = [
        ("evidence_refs_resolve", "4 refs, 0 unresolved; evidence namespace unknown"),
        ("manifests_present", "2 steps, 1 without a manifest: 2"),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(name, message)| (name.to_string(), message.to_string())).collect();
    assert_eq!(failed(&taken[0]), expected);
}

/// A run with every kind of event: ids in several scripts, replaced and withdrawn claims, failures
/// that occur again under other ids, constraints, a changed policy.
fn eventful() -> Vec<RunEvent> {
    let mut lines = vec![LOG.lines().next().unwrap().replace("run_demo_01", "r")];
    let mut say = |step: u64, phase: &str, kind: &str, payload: serde_json::Value| {
        let line = serde_json::json!({
            "schema": "run_event.v1", "run_id": "r", "seq": 1,
            "ts": format!("2026-01-14T10:{:02}:{:02}.000Z", lines.len() / 60, lines.len() % 60),
            "step_id": step, "phase": phase, "type": kind, "payload": payload,
        });
        lines.push(line.to_string());
    };
    for step in 1..=7_u64 {
        let (claim, older) = (format!("клм-{step}-✓"), format!("клм-{}-✓", step - 1));
        let chunk = format!("塊_{step}");
        say(
            step,
            "PLAN",
            "PLAN_DONE",
            serde_json::json!({"plan_id": "p", "action_type": "SEARCH"}),
        );
        say(
            step,
            "ACT",
            "CHUNKS_SEEN",
            serde_json::json!({
            "source_id": format!("src ñ {}", step % 3), "chunk_ids": [chunk, format!("b{step}")]}),
        );
        say(
            step,
            "ACT",
            "FAILURE_RECORDED",
            serde_json::json!({
            "failure_id": format!("f{step}"), "signal_type": "TOOL_RUNTIME_ERROR",
            "severity": if step % 2 == 0 { "high" } else { "low" },
            "fingerprint": format!("print {}", step % 2), "where": "x", "why": "y"}),
        );
        say(step, "ACT", "ACT_DONE", serde_json::json!({"plan_id": "p", "outcome": "ok"}));
        let mut added = serde_json::json!({"claim_id": claim, "statement": format!("é {step} 😀")});
        if step > 1 {
            added["supersedes"] = older.clone().into();
        }
        say(step, "OBSERVE", "CLAIM_ADDED", added);
        let span = serde_json::json!({"start": step, "end": step + 9, "unit": "char"});
        say(
            step,
            "OBSERVE",
            "EVIDENCE_ATTACHED",
            serde_json::json!({"claim_id": claim,
            "evidence": {"evidence_id": format!("ev ß{step}"), "chunk_id": chunk, "span": span,
                "source_id": "src"}}),
        );
        say(step, "OBSERVE", "CLAIM_VERIFIED", serde_json::json!({"claim_id": claim}));
        if step > 1 {
            say(step, "OBSERVE", "CLAIM_RETRACTED", serde_json::json!({"claim_id": older}));
            say(
                step,
                "OBSERVE",
                "CONFLICT_RECORDED",
                serde_json::json!({
                "conflict_id": format!("c{step}"), "description": "a ≠ b",
                "side_a_evidence_ids": [format!("ev ß{step}")],
                "side_b_evidence_ids": [format!("ev ß{}", step - 1)]}),
            );
        }
        if step > 3 {
            let resolved = serde_json::json!({"conflict_id": format!("c{}", step - 2),
                "resolution": "ça va"});
            say(step, "OBSERVE", "CONFLICT_RESOLVED", resolved);
            let closed = serde_json::json!({"question_id": format!("q{}", step - 3)});
            say(step, "OBSERVE", "QUESTION_CLOSED", closed);
            let known = serde_json::json!({"failure_id": format!("f{}", step - 1)});
            say(step, "OBSERVE", "FAILURE_RESOLVED", known);
        }
        let opened = serde_json::json!({"question_id": format!("q{step}"), "text": "¿y?"});
        say(step, "OBSERVE", "QUESTION_OPENED", opened);
        let constraint =
            serde_json::json!({"constraint_id": format!("k{}", step % 2), "text": "≤"});
        let kind = if step < 3 { "CONSTRAINT_SET" } else { "CONSTRAINT_VIOLATED" };
        say(step, "OBSERVE", kind, constraint);
        say(step, "RUN", "POLICY_CHANGED", serde_json::json!({"policy_snapshot_ref": claim}));
        say(step, "OBSERVE", "OBSERVE_DONE", serde_json::json!({"progress": true}));
    }
    renumbered(lines.iter().map(String::as_str))
}

#[test]
fn resuming_from_a_snapshot_at_any_event_gives_the_same_result() {
    use summarizer::compaction::resume;
    let thresholds = Thresholds { event_threshold: u64::MAX, step_fallback: u64::MAX };
    for events in [without(&[]), eventful(), generated(9, 1, 60), generated(9, 4, 90)] {
        let mut whole = Compactor::new(thresholds);
        for cut in 1..events.len() {
            whole.fold(&events[cut - 1]).unwrap();
            let built = whole.build(BuildPass::First, SnapshotForm::Full).unwrap();
            if !built.snapshot.passes() {
                // In the middle of a step a claim may be verified before its evidence.
                continue;
            }
            let sidecar = resume::sidecar(&whole, &built, 1, None);
            let stored: Snapshot = serde_json::from_slice(&built.bytes).unwrap();
            let mut resumed = resume::restore(&stored, &sidecar, Vec::new(), thresholds).unwrap();
            let mut stayed = whole.clone();
            stayed.adopt(built.previous);
            for event in &events[cut..] {
                stayed.fold(event).unwrap();
                resumed.fold(event).unwrap();
            }
            let end = |compactor: &Compactor| {
                compactor.build(BuildPass::First, SnapshotForm::Full).unwrap()
            };
            let (stayed, resumed) = (end(&stayed), end(&resumed));
            assert_eq!(
                String::from_utf8_lossy(&resumed.bytes),
                String::from_utf8_lossy(&stayed.bytes),
                "cut after {cut}"
            );
            assert_eq!(resumed.narrative, stayed.narrative, "cut after {cut}");
        }
    }
}

#[test]
fn verbose_events_between_any_two_events_change_no_byte() {
    let plain = eventful();
    let (quiet, _) = compact(&plain, SIX).unwrap();
    assert!(quiet.len() >= 3 && quiet.iter().all(|built| built.snapshot.passes()));
    for place in 0..=plain.len() {
        let mut noisy = plain.clone();
        let noise = [verbose(&plain[0], true), verbose(&plain[0], false)];
        noisy.splice(place..place, noise);
        let (loud, _) = compact(&numbered(noisy), SIX).unwrap();
        assert_eq!(bytes(&loud), bytes(&quiet), "before event {}", place + 1);
    }
}

mod properties {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use summarizer::compaction::resume;

    use super::*;

    proptest! {
        // The same cases everywhere.
        #![proptest_config(ProptestConfig {
            cases: 48,
            rng_seed: RngSeed::Fixed(7),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn folding_all_is_folding_a_snapshot_and_the_tail(
            seed in any::<u64>(), index in 0u64..5, threshold in 3u64..25, fallback in 2u64..12,
        ) {
            let events = generated(seed, index, 160);
            let thresholds = Thresholds { event_threshold: threshold, step_fallback: fallback };
            let (all, _) = compact(&events, thresholds).unwrap();
            let mut compactor = Compactor::new(thresholds);
            let mut place = 0;
            let mut take = |compactor: &mut Compactor| {
                let built = compactor.build(BuildPass::First, SnapshotForm::Full).unwrap();
                assert_eq!(built.bytes, all[place].bytes);
                let sidecar = resume::sidecar(compactor, &built, 1, None);
                let text = serde_json::to_string(&sidecar).unwrap();
                let value = serde_json::from_str(&text).unwrap();
                assert_eq!(summarizer::contract::schema::check("compaction_sidecar.v1", &value), []);
                let sidecar = serde_json::from_str(&text).unwrap();
                let stored: Snapshot = serde_json::from_slice(&built.bytes).unwrap();
                *compactor = resume::restore(&stored, &sidecar, Vec::new(), thresholds).unwrap();
                place += 1;
            };
            for event in &events {
                if compactor.due_before(event) {
                    take(&mut compactor);
                }
                compactor.fold(event).unwrap();
                if compactor.due() {
                    take(&mut compactor);
                }
            }
            prop_assert_eq!(place, all.len());
        }

        #[test]
        fn verbose_events_at_any_place_change_no_byte(
            seed in any::<u64>(), index in 0u64..5, places in prop::collection::vec(0usize..150, 1..40),
        ) {
            let events = generated(seed, index, 160);
            let (quiet, _) = compact(&events, SIX).unwrap();
            let mut noisy = events.clone();
            for place in places {
                let place = place.min(noisy.len());
                noisy.insert(place, verbose(&events[0], place % 2 == 0));
            }
            let (loud, _) = compact(&numbered(noisy), SIX).unwrap();
            prop_assert_eq!(bytes(&quiet), bytes(&loud));
        }

        #[test]
        fn snapshots_survive_reading_and_writing(seed in any::<u64>(), index in 0u64..5) {
            let (taken, _) = compact(&generated(seed, index, 160), SIX).unwrap();
            for built in taken {
                let again: Snapshot = serde_json::from_slice(&built.bytes).unwrap();
                prop_assert_eq!(again.to_bytes(), built.bytes);
                prop_assert_eq!(narrative::render(&again), built.narrative);
                prop_assert_eq!(again.computed_id(), again.snapshot_id);
            }
        }
    }
}
