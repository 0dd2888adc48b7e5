//! Lives of the service, played as facts.

use super::super::evidence::{Span, SpanUnit, evidence_id};
use super::super::snapshot::FailureAction;
use super::*;

fn pointer(chunk: &str, start: u64, exact: bool) -> CitedSpan {
    let span = Span { start, end: start + 40, unit: SpanUnit::Utf8Byte };
    let evidence = EvidencePointer {
        evidence_id: evidence_id("corp:session_bus", chunk, span, None).into(),
        chunk_id: chunk.into(),
        span,
        source_id: format!("src_{chunk}").as_str().into(),
        quote_sha256: None,
        evidence_namespace: Some("corp:session_bus".into()),
    };
    CitedSpan { evidence, exact }
}

fn request(number: u64, pointers: Vec<CitedSpan>) -> Vec<Fact> {
    let request_id = SharedText::from(format!("req_{number}"));
    let chunk = SharedText::from(format!("chk_{number}"));
    let sources =
        vec![SourceRead { source_id: format!("src_{chunk}").into(), chunk_ids: vec![chunk] }];
    let summary_id = SharedText::from(format!("sum_{number:032}"));
    vec![
        Fact::Resolved { request_id: request_id.clone(), sources },
        Fact::Answered {
            request_id: request_id.clone(),
            cost_usd: Some(0.01),
            latency_ms: Some(5.0),
        },
        Fact::Produced { request_id, summary_id, what: "note by f".into(), sources: 1, pointers },
    ]
}

fn play(run: &mut ServiceRun, facts: impl IntoIterator<Item = Fact>) -> Vec<Emitted> {
    let mut at = Timestamp(1_770_000_000_000);
    let mut out = Vec::new();
    for fact in facts {
        at = at.plus_ms(7);
        out.extend(run.apply(at, &fact, &mut |_, _| None));
    }
    out
}

fn snapshots(out: &[Emitted]) -> Vec<&BuiltSnapshot> {
    out.iter()
        .filter_map(|emitted| match emitted {
            Emitted::Snapshot(built) => Some(&**built),
            _ => None,
        })
        .collect()
}

fn life(requests: u64, pointers: u64) -> Vec<Fact> {
    let body = (0..requests).flat_map(|number| {
        let chunk = format!("chk_{number}");
        request(number, (0..pointers).map(|start| pointer(&chunk, start, start == 0)).collect())
    });
    body.chain([Fact::Finished]).collect()
}

#[test]
fn segments_end_after_their_requests_and_hold_one_snapshot() {
    let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    let out = play(&mut run, life(70, 0));
    let taken = snapshots(&out);
    let ids: Vec<&str> = taken.iter().map(|built| &*built.snapshot.run_id).collect();
    assert_eq!(ids, ["run_a.1", "run_a.2"]);
    assert_eq!(taken[0].snapshot.state.claims.len(), 64);
    assert_eq!(taken[1].snapshot.state.claims.len(), 6);
    assert_eq!(taken[0].snapshot.counts.counted_events_since_last_compaction, 3 * 64);
    assert!(out.iter().all(|emitted| !matches!(emitted, Emitted::SegmentFailed { .. })));
}

#[test]
fn a_segment_ends_before_its_state_is_too_big() {
    let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    let out = play(&mut run, life(64, 5));
    let taken = snapshots(&out);
    assert!(taken.len() > 1);
    for built in taken {
        let state = serde_json::to_string_pretty(&built.snapshot.state).unwrap();
        assert!(state.len() <= SEGMENT_STATE_BYTES_MAX, "{}", state.len());
    }
}

#[test]
fn events_are_a_valid_dense_log_that_compacts_to_the_same_snapshot() {
    let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    let out = play(&mut run, life(5, 2));
    let mut compactor = Compactor::new(AT_CLOSE_ONLY);
    let mut compared = 0;
    for emitted in &out {
        match emitted {
            Emitted::Event(event) => {
                let line = event.to_line();
                let again = RunEvent::parse(line.trim_end().as_bytes()).unwrap();
                assert_eq!(again, *event);
                compactor.fold(&again).unwrap();
            }
            Emitted::Snapshot(built) => {
                compactor.tell_session(run.figures());
                let again = compactor.build(BuildPass::First, SnapshotForm::Full).unwrap();
                assert_eq!(again, **built);
                compactor.adopt(again.previous);
                compared += 1;
            }
            Emitted::SegmentFailed { message, .. } => panic!("{message}"),
        }
    }
    assert_eq!(compared, 1);
}

#[test]
fn a_claim_is_verified_by_an_exact_pointer_only() {
    let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    let facts = request(1, vec![pointer("chk_1", 0, true)])
        .into_iter()
        .chain(request(2, vec![pointer("chk_2", 0, false)]))
        .chain([Fact::Finished]);
    let out = play(&mut run, facts);
    let claims = &snapshots(&out)[0].snapshot.state.claims;
    let statuses: Vec<String> = claims.iter().map(|claim| format!("{:?}", claim.status)).collect();
    assert_eq!(statuses, ["Verified", "Candidate"]);
    assert_eq!(&*claims[0].statement, "note by f, from 1 source");
}

#[test]
fn interleaved_attempts_become_whole_steps() {
    let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    let (a, b) = (request(1, vec![]), request(2, vec![]));
    let order = [&a[0], &b[0], &b[1], &a[1], &b[2], &a[2]];
    let out = play(&mut run, order.into_iter().cloned().chain([Fact::Finished]));
    let steps: Vec<u64> = out
        .iter()
        .filter_map(|emitted| match emitted {
            Emitted::Event(event) => event.step_id,
            _ => None,
        })
        .collect();
    assert!(steps.is_sorted(), "{steps:?}");
    assert_eq!(snapshots(&out)[0].snapshot.counts.steps_since_last_compaction, 2);
}

#[test]
fn a_failed_attempt_is_a_step_without_an_observation() {
    let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    let failed = Fact::Failed {
        request_id: "req_1".into(),
        signal_type: "TOOL_RUNTIME_ERROR".into(),
        severity: FailureSeverity::High,
        fingerprint: "model_error|anthropic".into(),
        place: "attempt 1".into(),
        why: "the model refused".into(),
    };
    let facts = request(1, vec![]).into_iter().take(1).chain([failed, Fact::Finished]);
    let out = play(&mut run, facts);
    let snapshot = &snapshots(&out)[0].snapshot;
    assert_eq!(snapshot.state.failures.len(), 1);
    assert_eq!(snapshot.counts.counted_events_since_last_compaction, 1);
}

#[test]
fn a_segment_that_fails_its_gate_is_reported_and_the_next_one_opens() {
    let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    // Texts are shortened, and a fingerprint is not a text.
    let huge = SharedText::from("x".repeat(5000));
    let failed = Fact::Failed {
        request_id: "req_1".into(),
        signal_type: "TOOL_RUNTIME_ERROR".into(),
        severity: FailureSeverity::High,
        fingerprint: huge,
        place: "attempt 1".into(),
        why: "it broke".into(),
    };
    let out = play(&mut run, [failed, Fact::Finished]);
    let Some(Emitted::SegmentFailed { run_id, message, .. }) = out.last() else {
        panic!("{out:?}")
    };
    assert_eq!((&**run_id, message.as_str()), ("run_a.1", "its snapshot failed pointers_only"));
    let stopped = out.iter().any(|emitted| {
        matches!(emitted, Emitted::Event(event)
            if matches!(&event.body, Body::RunStopped(stopped)
                if stopped.stop_reason == RunStopReason::SystemError))
    });
    assert!(stopped);
    let out = play(&mut run, request(2, vec![]).into_iter().chain([Fact::Finished]));
    assert_eq!(&*snapshots(&out)[0].snapshot.run_id, "run_a.2");
}

#[test]
fn a_snapshot_on_demand_is_followed_by_one_at_the_close() {
    let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    play(&mut run, request(1, vec![]));
    let out = run.snapshot_now(&mut |_, _| None);
    assert_eq!(snapshots(&out)[0].snapshot.sequence, 1);
    let out = play(&mut run, request(2, vec![]).into_iter().chain([Fact::Finished]));
    assert_eq!(snapshots(&out)[0].snapshot.sequence, 2);
}

/// A compactor that is derived from the facts again, as a later process derives it from the log.
fn derived_anew(facts: &[Fact], segment: &SharedText, seq: u64) -> Option<Compactor> {
    let mut refold = Refold::new(segment, seq);
    let emitted = play(
        &mut ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default()),
        facts.iter().cloned(),
    );
    emitted.iter().for_each(|emitted| refold.take(emitted));
    refold.finish()
}

#[test]
fn the_second_build_pass_uses_the_segment_derived_again() {
    let before = request(1, vec![pointer("chk_1", 0, true)]);
    let facts = before;
    let at = Timestamp(1_770_000_000_028);
    let mut healthy = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    play(&mut healthy, facts.clone());
    let expected = healthy.apply(at, &Fact::Finished, &mut |_, _| None);
    let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
    play(&mut run, facts.clone());
    run.forget_evidence();
    let mut asked = Vec::new();
    let out = run.apply(at, &Fact::Finished, &mut |segment, seq| {
        asked.push((segment.to_string(), seq));
        derived_anew(&facts, segment, seq)
    });
    assert_eq!(asked, [("run_a.1".to_owned(), 9)]);
    let (built, clean) = (snapshots(&out)[0], snapshots(&expected)[0]);
    assert!(built.snapshot.passes());
    assert_eq!(built.snapshot.validation.failure_action_taken, FailureAction::Retry);
    assert_eq!(built.snapshot.snapshot_id, clean.snapshot.snapshot_id);
    assert_eq!(built.snapshot.state, clean.snapshot.state);
    let ends = |out: &[Emitted]| format!("{:?}", out.last());
    assert_eq!(ends(&out), ends(&expected), "it continues with the same events");
}

#[test]
fn a_segment_that_fails_again_ends() {
    let facts = request(1, vec![pointer("chk_1", 0, true)]);
    for derivable in [true, false] {
        let mut run = ServiceRun::resumed("run_a", AT_CLOSE_ONLY, 0, SessionFigures::default());
        play(&mut run, facts.clone());
        run.forget_evidence();
        let out = run.apply(Timestamp(1_770_000_000_028), &Fact::Finished, &mut |segment, seq| {
            let mut derived = derived_anew(&facts, segment, seq).filter(|_| derivable)?;
            derived.forget_evidence();
            Some(derived)
        });
        let Some(Emitted::SegmentFailed { message, snapshot, .. }) = out.last() else {
            panic!("{out:?}")
        };
        assert_eq!(message, "its snapshot failed evidence_refs_resolve");
        let action = snapshot.as_ref().unwrap().validation.failure_action_taken;
        assert_eq!(action, FailureAction::SystemError);
    }
}

#[test]
fn a_segment_can_be_derived_again_up_to_any_event() {
    let mut run = ServiceRun::resumed(
        "run_a",
        Thresholds { event_threshold: 6, step_fallback: 9 },
        0,
        SessionFigures::default(),
    );
    let out = play(&mut run, life(5, 2));
    let mut compactor = Compactor::new(AT_CLOSE_ONLY);
    let mut places = 0;
    for emitted in &out {
        match emitted {
            Emitted::Event(event) => compactor.fold(event).unwrap(),
            Emitted::Snapshot(built) => compactor.adopt(built.previous.clone()),
            Emitted::SegmentFailed { .. } => unreachable!(),
        }
        if let Emitted::Event(event) = emitted {
            let mut refold = Refold::new(&event.run_id, event.seq);
            out.iter().for_each(|emitted| refold.take(emitted));
            assert_eq!(refold.finish().as_ref(), Some(&compactor), "{}", event.seq);
            places += 1;
        }
    }
    assert!(places > 20);
    let mut beyond = Refold::new(&"run_a.1".into(), 1000);
    out.iter().for_each(|emitted| beyond.take(emitted));
    assert!(beyond.finish().is_none());
}
