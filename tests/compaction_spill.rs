//! Snapshots of runs whose state does not fit into one: every list spills to a chain of files, no
//! record is lost, and the cost of a snapshot does not grow with the run.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use summarizer::compaction::build::{BuildPass, BuiltSnapshot, SnapshotForm};
use summarizer::compaction::compactor::Compactor;
use summarizer::compaction::event::RunEvent;
use summarizer::compaction::resume;
use summarizer::compaction::snapshot::Snapshot;
use summarizer::compaction::spill::SpillFile;
use summarizer::compaction::trigger::Thresholds;
use summarizer::contract::hash::sha256;
use summarizer::contract::schema;

#[path = "../benches/compaction/body.rs"]
#[allow(dead_code, reason = "the bench uses the rest")]
mod body;

const SNAPSHOT_BYTES_MAX: usize = 65_536;

fn build(compactor: &Compactor) -> BuiltSnapshot {
    compactor.build(BuildPass::First, SnapshotForm::Full).unwrap()
}

/// The snapshots of a run and what a resumed run needs.
struct Taken {
    compactor: Compactor,
    files: BTreeMap<String, Vec<u8>>,
    snapshots: u64,
    largest: usize,
    link_bytes: Vec<usize>,
}

impl Taken {
    fn new(thresholds: Thresholds) -> Taken {
        let compactor = Compactor::new(thresholds);
        Taken {
            compactor,
            files: BTreeMap::new(),
            snapshots: 0,
            largest: 0,
            link_bytes: Vec::new(),
        }
    }

    fn fold(&mut self, event: &RunEvent) {
        self.compactor.fold(event).unwrap_or_else(|error| panic!("{event}: {error}"));
        if self.compactor.due() {
            self.take();
        }
    }

    fn take(&mut self) -> BuiltSnapshot {
        let built = build(&self.compactor);
        assert!(built.snapshot.passes(), "{:?}", built.snapshot.validation);
        self.snapshots += 1;
        self.largest = self.largest.max(built.bytes.len());
        if let Some(spill) = &built.spill {
            self.link_bytes.push(spill.bytes.len());
            self.files.insert(spill.reference.artifact.clone(), spill.bytes.to_vec());
        }
        self.compactor.adopt(built.previous.clone());
        built
    }

    /// The files that a snapshot leads to, oldest first, each with the digest that names it.
    fn chain(&self, built: &BuiltSnapshot) -> Vec<SpillFile> {
        let mut links = Vec::new();
        let mut next = built.snapshot.ext.as_ref().unwrap().spill.clone();
        while let Some(link) = next.take() {
            let bytes = &self.files[&link.artifact];
            assert_eq!(sha256(bytes).hex(), link.sha256);
            let read: SpillFile = serde_json::from_slice(bytes).unwrap();
            next.clone_from(&read.previous);
            links.push(read);
        }
        links.reverse();
        links
    }
}

#[test]
fn a_run_of_50_000_claims_compacts_without_end() {
    // Six steps of 20 events for each snapshot.
    let mut taken = Taken::new(Thresholds { event_threshold: 180, step_fallback: u64::MAX });
    for event in body::claiming_run(100_000) {
        taken.fold(&event);
    }
    assert!(taken.snapshots > 80, "{}", taken.snapshots);
    assert!(taken.largest <= SNAPSHOT_BYTES_MAX, "{}", taken.largest);
    let state = &taken.compactor.fold_state().state;
    assert_eq!(state.claims.len(), 50_000);
    // A link holds the changes since the one before it, however long the run is.
    let links = &taken.link_bytes;
    let early: usize = links[1..11].iter().sum();
    let late: usize = links[links.len() - 10..].iter().sum();
    assert!(late < early + early / 5, "{early} bytes in ten early links, {late} in ten late ones");
}

#[test]
fn a_spilled_run_resumes_from_its_files_with_the_same_result() {
    let thresholds = Thresholds { event_threshold: 18, step_fallback: 8 };
    let events = body::claiming_run(4_000);
    let mut taken = Taken::new(thresholds);
    let mut resumed: Vec<Compactor> = Vec::new();
    for event in &events {
        for one in &mut resumed {
            one.fold(event).unwrap();
        }
        taken.compactor.fold(event).unwrap();
        if !taken.compactor.due() {
            continue;
        }
        let sidecar = resume::sidecar(&taken.compactor, &build(&taken.compactor), 1, None);
        let built = taken.take();
        for one in &mut resumed {
            let again = build(one);
            assert_eq!(again.bytes, built.bytes, "snapshot {}", taken.snapshots);
            assert_eq!(again.spill, built.spill);
            assert_eq!(again.narrative, built.narrative);
            one.adopt(again.previous);
        }
        if taken.snapshots % 7 == 1 {
            let stored: Snapshot = serde_json::from_slice(&built.bytes).unwrap();
            let chain = taken.chain(&built);
            let mut lacking = chain.clone();
            if lacking.pop().is_some() {
                assert!(resume::restore(&stored, &sidecar, lacking, thresholds).is_err());
            }
            resumed.push(resume::restore(&stored, &sidecar, chain, thresholds).unwrap());
        }
    }
    assert!(resumed.len() >= 4 && taken.link_bytes.len() >= 20, "{}", taken.link_bytes.len());
}

/// A run of one step whose events are `each`, then the end of the step.
fn one_step(each: impl Iterator<Item = (&'static str, Value)>) -> Vec<RunEvent> {
    let started = json!({"objective": "o", "done_definition": "d", "provenance_mode": "audit_only",
        "policy_snapshot_ref": null, "evidence_namespace": "idx:i"});
    let plan = json!({"plan_id": "p", "action_type": "SEARCH"});
    let done = json!({"progress": true});
    let events = [("RUN_STARTED", started), ("PLAN_DONE", plan)].into_iter();
    let events = events.chain(each).chain([("OBSERVE_DONE", done)]);
    let line = |(at, (kind, payload)): (u64, (&str, Value))| {
        let line = json!({"schema": "run_event.v1", "run_id": "r", "seq": at,
            "ts": "2026-01-14T10:00:00.000Z", "step_id": 1, "phase": "OBSERVE", "type": kind,
            "payload": payload});
        RunEvent::parse(line.to_string().as_bytes()).unwrap()
    };
    (1..).zip(events).map(line).collect()
}

fn attached(claim: &str, number: u64) -> (&'static str, Value) {
    let evidence = json!({"evidence_id": format!("e{number}"), "chunk_id": format!("chunk-{number}"),
        "span": {"start": 0, "end": 9, "unit": "utf8_byte"}, "source_id": "s"});
    ("EVIDENCE_ATTACHED", json!({"claim_id": claim, "evidence": evidence}))
}

#[test]
fn a_snapshot_that_does_not_fit_shows_verified_claims_first_and_then_the_newest() {
    let claim = |n: u64| {
        (
            "CLAIM_ADDED",
            json!({"claim_id": format!("c{n}"), "statement": "a claim of many".repeat(9)}),
        )
    };
    let verified = |id: &str| ("CLAIM_VERIFIED", json!({"claim_id": id}));
    let ruled = [attached("c5", 1), attached("c17", 2), verified("c17"), verified("c5")];
    let more = (3_000..3_012).map(claim);
    let events = one_step((0..3_000).map(claim).chain(ruled).chain(more));
    let mut compactor = Compactor::new(Thresholds { event_threshold: 1_000, step_fallback: 8 });
    events.iter().for_each(|event| compactor.fold(event).unwrap());
    let built = build(&compactor);
    assert!(built.snapshot.passes() && built.spill.is_some());
    let shown = built.snapshot.state.claims.iter().map(|claim| claim.claim_id.to_string());
    let shown: Vec<String> = shown.take(6).collect();
    assert_eq!(shown, ["c5", "c17", "c3011", "c3010", "c3009", "c3008"]);
    assert!(built.narrative.contains("- c5: "), "{}", built.narrative);
}

/// One run for each list of a snapshot, with the name of the list and the number of its records.
fn long_lists() -> Vec<(&'static str, &'static str, u64, Vec<RunEvent>)> {
    let many = || 0..3_000_u64;
    let words = "so that a list of such records is long";
    let claim = |n: u64| ("CLAIM_ADDED", json!({"claim_id": format!("c{n}"), "statement": words}));
    let claims = one_step(many().map(claim));
    let evidence = [claim(0)].into_iter().chain(many().map(|n| attached("c0", n)));
    let evidence = one_step(evidence.chain([("CLAIM_VERIFIED", json!({"claim_id": "c0"}))]));
    let sides = |n: u64| {
        let conflict = json!({"conflict_id": format!("k{n}"), "description": words,
            "side_a_evidence_ids": ["e1"], "side_b_evidence_ids": ["e2"]});
        ("CONFLICT_RECORDED", conflict)
    };
    let two = [claim(0), attached("c0", 1), attached("c0", 2)].into_iter();
    let conflicts = one_step(two.chain(many().map(sides)));
    let question =
        |n: u64| ("QUESTION_OPENED", json!({"question_id": format!("q{n}"), "text": words}));
    let questions = one_step(many().map(question));
    let failure = |n: u64| {
        let failure = json!({"failure_id": format!("f{n}"), "signal_type": "TOOL_RUNTIME_ERROR",
            "severity": "low", "fingerprint": format!("p{}", n / 2), "where": "x", "why": words});
        ("FAILURE_RECORDED", failure)
    };
    let failures = one_step(many().map(failure));
    let constraint =
        |n: u64| ("CONSTRAINT_SET", json!({"constraint_id": format!("x{n}"), "text": words}));
    let constraints = one_step(many().map(constraint));
    let source = |n: u64| {
        let source = json!({"source_id": format!("source-{n}-of-a-long-list"),
            "chunk_ids": [format!("chunk-{n}-of-a-long-list")]});
        ("CHUNKS_SEEN", source)
    };
    let sources = one_step(many().map(source));
    let manifest = |n: u64| {
        let manifest = json!({"manifest_id": format!("manifest-{n}"), "candidate_chunk_ids": [],
            "selected_chunk_ids": [], "excluded": [{"item_id": "i", "reason": format!("r{n}")}],
            "filters": {"from": n}, "reranker": {"model": "m", "version": format!("{n}")},
            "acceptance_threshold": n, "max_score": 1});
        ("CONTEXT_MANIFEST_WRITTEN", manifest)
    };
    let manifests = one_step(many().map(manifest));
    vec![
        ("claims", "/claims", 3_000, claims),
        ("pointers of a claim", "/claims/0/evidence_refs", 3_000, evidence),
        ("conflicts", "/conflicts", 3_000, conflicts),
        ("questions", "/questions_opened", 3_000, questions),
        ("failures", "/failures", 1_500, failures),
        ("constraints", "/constraints", 3_000, constraints),
        ("sources", "/source_ids", 3_000, sources.clone()),
        ("chunks", "/chunk_ids", 3_000, sources),
        ("manifests", "/since_last/manifest_ids", 3_000, manifests.clone()),
        ("filters", "/since_last/since_last/filters_applied", 3_000, manifests.clone()),
        ("rerankers", "/since_last/since_last/rerankers", 3_000, manifests),
    ]
}

#[test]
fn every_list_spills_and_loses_nothing() {
    let never = Thresholds { event_threshold: u64::MAX, step_fallback: u64::MAX };
    for (name, place, count, events) in long_lists() {
        let mut taken = Taken::new(never);
        events.iter().for_each(|event| taken.fold(event));
        let sidecar = resume::sidecar(&taken.compactor, &build(&taken.compactor), 1, None);
        let built = taken.take();
        assert!(built.bytes.len() <= SNAPSHOT_BYTES_MAX, "{name}: {}", built.bytes.len());
        // The room is used: what fits is shown.
        assert!(
            built.bytes.len() > SNAPSHOT_BYTES_MAX / 3 || name == "pointers of a claim",
            "{name}"
        );
        let value: Value = serde_json::from_slice(&built.bytes).unwrap();
        assert_eq!(schema::check("compaction_snapshot.v1", &value), [], "{name}");
        assert!(built.narrative.len() < 2 * SNAPSHOT_BYTES_MAX, "{name}");
        let link = &taken.files["1.spill.json"];
        let value: Value = serde_json::from_slice(link).unwrap();
        assert_eq!(schema::check("compaction_spill.v1", &value), [], "{name}");
        let listed = value.pointer(place).unwrap().as_array().unwrap();
        assert_eq!(listed.len() as u64, count, "{name}");
        let stored: Snapshot = serde_json::from_slice(&built.bytes).unwrap();
        let restored = resume::restore(&stored, &sidecar, taken.chain(&built), never).unwrap();
        // The strict form lists everything, so equal bytes mean an equal state.
        let whole = |compactor: &Compactor| {
            compactor.build(BuildPass::First, SnapshotForm::StrictV1).unwrap().bytes
        };
        assert!(whole(&restored) == whole(&taken.compactor), "{name}");
    }
}

#[test]
fn a_text_over_its_limit_spills_with_its_hash_and_loses_nothing() {
    let never = Thresholds { event_threshold: u64::MAX, step_fallback: u64::MAX };
    for bytes in [2_100, 5_000, 60_000] {
        let long = "word ".repeat(bytes / 5);
        let long = long.trim_end();
        let manifest = |id: &str, reason: &str, query: &str| {
            let manifest = json!({"manifest_id": id, "candidate_chunk_ids": [],
                "selected_chunk_ids": [], "excluded": [{"item_id": "i", "reason": reason}],
                "filters": {"query": query}, "reranker": null, "acceptance_threshold": null,
                "max_score": null});
            ("CONTEXT_MANIFEST_WRITTEN", manifest)
        };
        let events = one_step(
            [
                ("CLAIM_ADDED", json!({"claim_id": "c0", "statement": long})),
                attached("c0", 1),
                attached("c0", 2),
                ("CLAIM_VERIFIED", json!({"claim_id": "c0"})),
                (
                    "CONFLICT_RECORDED",
                    json!({"conflict_id": "k", "description": long,
                        "side_a_evidence_ids": ["e1"], "side_b_evidence_ids": ["e2"]}),
                ),
                ("QUESTION_OPENED", json!({"question_id": "q", "text": long})),
                (
                    "FAILURE_RECORDED",
                    json!({"failure_id": "f", "signal_type": "TOOL_RUNTIME_ERROR",
                        "severity": "low", "fingerprint": "p", "where": "x", "why": long}),
                ),
                ("CONSTRAINT_SET", json!({"constraint_id": "x", "text": long})),
                manifest("m1", "short", long),
                manifest("m2", long, "short"),
            ]
            .into_iter(),
        );
        let mut taken = Taken::new(never);
        events.iter().for_each(|event| taken.fold(event));
        let sidecar = resume::sidecar(&taken.compactor, &build(&taken.compactor), 1, None);
        let built = taken.take();
        assert!(built.bytes.len() <= SNAPSHOT_BYTES_MAX, "{bytes}");
        let value: Value = serde_json::from_slice(&built.bytes).unwrap();
        let shown = value["state"]["claims"][0]["statement"].as_str().unwrap();
        let hash = sha256(long).prefixed();
        assert!(shown.ends_with(&format!("({} bytes, {hash})", long.len())), "{shown}");
        let chain = taken.chain(&built);
        assert_eq!(*chain[0].claims[0].statement, *long);
        let stored: Snapshot = serde_json::from_slice(&built.bytes).unwrap();
        let mut restored = resume::restore(&stored, &sidecar, chain, never).unwrap();
        // A later snapshot shows the claim of this one, whose text is in the earlier link.
        let mut later = events.last().unwrap().clone();
        later.seq += 1;
        later.step_id = Some(2);
        for one in [&mut restored, &mut taken.compactor] {
            one.fold(&later).unwrap();
        }
        let (again, built) = (build(&restored), build(&taken.compactor));
        assert!(built.snapshot.passes(), "{:?}", built.snapshot.validation);
        assert_eq!(again.bytes, built.bytes);
    }
}

#[test]
fn a_narrative_names_everything_its_snapshot_leaves_out() {
    let never = Thresholds { event_threshold: u64::MAX, step_fallback: u64::MAX };
    let (_, _, _, events) = long_lists().remove(3);
    let mut taken = Taken::new(never);
    events.iter().for_each(|event| taken.fold(event));
    let built = taken.take();
    let value: Value = serde_json::from_slice(&built.bytes).unwrap();
    let shown = value["state"]["open_questions"].as_array().unwrap().len();
    assert!(shown > 50);
    let expected =
        "- 3000 in all, 50 listed here, 2950 not: see 1.snapshot.json, 1.spill.json and the files";
    assert!(built.narrative.contains(expected), "{}", built.narrative);
}
