//! The work that `benches/compaction.rs` measures, as plain functions with a result that can be
//! checked, so that a test runs the same code at a tiny size.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use summarizer::compaction::build::{BuildPass, SnapshotForm};
use summarizer::compaction::compactor::Compactor;
use summarizer::compaction::event::{Body, RunEvent};
use summarizer::compaction::files::SnapshotStore;
use summarizer::compaction::run_log::{self, CompactionJob};
use summarizer::compaction::trigger::Thresholds;
use summarizer::compaction::tuning::choose::choose;
use summarizer::compaction::tuning::cost::CostWeights;
use summarizer::compaction::tuning::search::search;
use summarizer::compaction::tuning::shapes;
use summarizer::compaction::tuning::sweep::Generated;
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;

/// Thresholds that no run reaches, so that one snapshot is taken at the end.
pub const NEVER: Thresholds = Thresholds { event_threshold: u64::MAX, step_fallback: u64::MAX };

/// One run of about `events` events whose state stays within its limits: short runs joined and
/// renumbered, with the claims of the first one only.
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

/// Parses and validates every line and returns the number of events.
pub fn parse(lines: &[String]) -> usize {
    lines.iter().filter(|line| black_box(RunEvent::parse(line.as_bytes())).is_ok()).count()
}

/// Folds every event, no snapshots.
pub fn fold(run: &[RunEvent]) -> Compactor {
    let mut compactor = Compactor::new(NEVER);
    for event in run {
        compactor.fold(event).expect("a generated run folds");
    }
    compactor
}

/// Folds every event and takes the snapshots that are due. Returns the compactor just before the last
/// one.
pub fn fold_to_last_snapshot(run: &[RunEvent]) -> Compactor {
    let mut compactor = Compactor::new(Thresholds::default());
    let mut ready = None;
    for event in run {
        compactor.fold(event).expect("a generated run folds");
        if compactor.due() {
            ready = Some(compactor.clone());
            let built =
                compactor.build(BuildPass::First, SnapshotForm::Full).expect("it has started");
            assert!(built.snapshot.passes(), "{:?}", built.snapshot.validation);
            compactor.adopt(built.previous);
        }
    }
    ready.expect("a snapshot was due")
}

/// Builds, checks and encodes one snapshot and returns its bytes.
pub fn snapshot(compactor: &Compactor) -> usize {
    let built = compactor.build(BuildPass::First, SnapshotForm::Full).expect("it has started");
    assert!(built.snapshot.passes());
    built.bytes.len() + built.narrative.len()
}

/// Runs a whole search and returns the chosen event threshold.
pub fn tune(runs: usize, events: usize) -> u64 {
    let weights = CostWeights::default();
    let swept = search(&Generated { seed: 1, runs, events }, &weights, &|| {});
    let choice = choose(&swept.rows, swept.rows.len(), &weights).expect("there are settings");
    swept.rows[choice.chosen].thresholds.event_threshold
}

/// The log of a run whose events are all folded and fit into one snapshot: without context manifests,
/// which a snapshot lists one by one.
pub fn folded_log(events: usize) -> String {
    let run = long_run(events + events / 5);
    let told = run.into_iter().filter(|event| !matches!(event.body, Body::Manifest(_)));
    numbered(told.take(events))
}

/// The same with seven verbose events for each folded event, as in real logs.
pub fn wordy_log(events: usize) -> String {
    let words = Body::Verbose { name: "TOOL_CALLED".into(), known: true };
    let lines = long_run(events.div_ceil(8)).into_iter().flat_map(|event| {
        let verbose = RunEvent { body: words.clone(), ..event.clone() };
        std::iter::once(event).chain(std::iter::repeat_n(verbose, 7))
    });
    let payload = r#""payload":{"tool":"search","arguments":{"query":"liver injury","top_n":40}}"#;
    numbered(lines.take(events)).replace(r#""payload":{}"#, payload)
}

fn numbered(events: impl Iterator<Item = RunEvent>) -> String {
    let line = |(mut event, seq): (RunEvent, u64)| {
        event.seq = seq;
        event.to_line()
    };
    events.zip(1..).map(line).collect()
}

/// A run that repeats what it has seen: its history grows and its state does not.
pub fn level_run(events: usize) -> Vec<RunEvent> {
    let first = long_run(600);
    let looks = |body: &Body| {
        let terminal = matches!(body, Body::PlanDone(_) | Body::ActDone(_) | Body::ObserveDone(_));
        terminal || matches!(body, Body::Manifest(_) | Body::ChunksSeen(_))
    };
    let again = first.iter().filter(|event| event.step_id > Some(1) && looks(&event.body));
    let again: Vec<RunEvent> = again.cloned().collect();
    let steps = |events: &[RunEvent]| events.iter().filter_map(|event| event.step_id).max();
    let mut run = first.clone();
    while run.len() < events {
        let before = steps(&run).unwrap_or(0);
        run.extend(again.iter().map(|event| RunEvent {
            step_id: event.step_id.map(|step| step - 1 + before),
            ..event.clone()
        }));
    }
    run.truncate(events);
    (1..).zip(&mut run).for_each(|(seq, event)| event.seq = seq);
    run
}

/// A run that never stops claiming: half of its events add a claim, and its state never fits into a
/// snapshot after the first steps.
pub fn claiming_run(events: usize) -> Vec<RunEvent> {
    let line = |kind: &str, payload: &str| {
        let line = format!(
            r#"{{"schema":"run_event.v1","run_id":"claims","seq":1,"ts":"2026-01-14T09:00:00.000Z","step_id":1,"phase":"OBSERVE","type":"{kind}","payload":{payload}}}"#
        );
        RunEvent::parse(line.as_bytes()).expect("a written event parses")
    };
    let step = [
        line("PLAN_DONE", r#"{"plan_id":"p","action_type":"SEARCH"}"#),
        line("ACT_DONE", r#"{"plan_id":"p","outcome":"ok"}"#),
        line("OBSERVE_DONE", r#"{"progress":true}"#),
    ];
    let claim = |number: usize| {
        let payload = format!(
            r#"{{"claim_id":"claim-{number:06}","statement":"Patient {number} of the registry had raised liver enzymes after {} days."}}"#,
            number % 90
        );
        line("CLAIM_ADDED", &payload)
    };
    let evidence = |number: usize| {
        let payload = format!(
            r#"{{"claim_id":"claim-{number:06}","evidence":{{"evidence_id":"ev-{number:06}","chunk_id":"chunk-{number:06}","span":{{"start":0,"end":64,"unit":"utf8_byte"}},"source_id":"source-{:04}"}}}}"#,
            number / 50
        );
        line("EVIDENCE_ATTACHED", &payload)
    };
    let verified =
        |number: usize| line("CLAIM_VERIFIED", &format!(r#"{{"claim_id":"claim-{number:06}"}}"#));
    let start = r#"{"objective":"Read the registry","done_definition":"every patient","provenance_mode":"audit_only","policy_snapshot_ref":null,"evidence_namespace":null}"#;
    let mut run = vec![line("RUN_STARTED", start)];
    let mut claims = 0;
    // Of the 20 events of a step, ten add claims. The start takes the place of one other event.
    while run.len() < events {
        run.push(step[0].clone());
        let first = claims;
        for _ in 0..10 {
            run.push(claim(claims));
            claims += 1;
        }
        for number in [first, first + 3, first + 6] {
            run.push(evidence(number));
            run.push(verified(number));
        }
        // The claims of a step long ago find more evidence.
        if run.len() > 20 {
            run.push(evidence(first / 2 + 1));
        }
        run.push(step[1].clone());
        run.push(step[2].clone());
    }
    run.truncate(events);
    let mut step = 0;
    for (seq, event) in (1..).zip(&mut run) {
        let is_plan = matches!(event.body, Body::PlanDone(_));
        step += u64::from(is_plan);
        event.seq = seq;
        event.step_id = (step > 0).then_some(step);
    }
    run
}

/// Folds a run and takes the snapshots that are due. Gives the compactor as of the last one, how many
/// were taken, the largest, and the bytes written for all of them.
pub fn compact_in_memory(run: &[RunEvent]) -> (Compactor, usize, usize, usize) {
    let mut compactor = Compactor::new(Thresholds::default());
    let (mut taken, mut largest, mut written) = (0, 0, 0);
    for event in run {
        compactor.fold(event).expect("a generated run folds");
        if compactor.due() {
            let built =
                compactor.build(BuildPass::First, SnapshotForm::Full).expect("it has started");
            assert!(built.snapshot.passes(), "{:?}", built.snapshot.validation);
            taken += 1;
            largest = largest.max(built.bytes.len());
            let spilled = built.spill.as_ref().map_or(0, |spill| spill.bytes.len());
            written += built.bytes.len() + built.narrative.len() + spilled;
            compactor.adopt(built.previous);
        }
    }
    (compactor, taken, largest, written)
}

/// What `compact RUN_LOG --out DIR` does: read, parse, fold, check, write. Gives the snapshots
/// taken and their bytes.
pub fn compact(log: &Path, out: &Path, thresholds: Thresholds) -> (usize, u64) {
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let job = CompactionJob {
        disk: &*disk,
        log: log.to_owned(),
        store: SnapshotStore::new(Arc::clone(&disk), out.to_owned()),
        thresholds,
        form: SnapshotForm::Full,
        now: true,
        resume: false,
    };
    let report = run_log::compact(&job, &mut |_| {}).expect("a generated run compacts");
    assert!(report.failed.is_none(), "{:?}", report.failed);
    (report.taken.len(), report.taken.iter().map(|taken| taken.bytes).sum())
}
