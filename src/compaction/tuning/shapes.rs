//! Seeded run logs in four shapes of real runs: short and healthy, long, stalled, crashing. The
//! same seed always gives the same events.

use serde_json::json;

use super::super::event::{AgentRole, Body, Phase, RunEvent};
use super::super::evidence::{Span, SpanUnit, evidence_id};
use super::super::payload::*;
use super::super::text::SharedText;
use crate::contract::time::Timestamp;

const NAMESPACE: &str = "idx:generated-v1";
const FIRST_MS: i64 = 1_767_225_600_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunShape {
    /// Short; every step completes and most find something.
    Healthy,
    /// Like that for very long, with conflicts and closed questions.
    Long,
    /// Completes its steps, repeats its actions, finds nothing.
    Stalled,
    /// Steps break off before their end, and so does the run.
    Crashing,
}

impl RunShape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RunShape::Healthy => "healthy",
            RunShape::Long => "long",
            RunShape::Stalled => "stalled",
            RunShape::Crashing => "crashing",
        }
    }

    /// The shape of the n-th generated run: two healthy ones for each of the others.
    pub(crate) fn of(index: u64) -> RunShape {
        match index % 5 {
            0 | 3 => RunShape::Healthy,
            1 => RunShape::Long,
            2 => RunShape::Stalled,
            _ => RunShape::Crashing,
        }
    }

    fn events(self, mean: usize) -> usize {
        match self {
            RunShape::Healthy => mean / 2,
            RunShape::Long => mean * 2,
            RunShape::Stalled => mean,
            RunShape::Crashing => mean - mean / 5,
        }
        .max(16)
    }
}

/// One generated run of about the length its shape has around `mean_events`.
pub fn generate(seed: u64, index: u64, mean_events: usize) -> Vec<RunEvent> {
    let shape = RunShape::of(index);
    let mut writer = RunWriter {
        run_id: format!("gen_{}_{index:05}", shape.name()).into(),
        random: Random(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        now: Timestamp(FIRST_MS + index as i64 * 3_600_000),
        step: 0,
        claims: 0,
        evidence: Vec::new(),
        questions: Vec::new(),
        events: Vec::new(),
    };
    writer.start();
    let target = shape.events(mean_events);
    while writer.events.len() + 14 < target {
        writer.step(shape);
    }
    if shape != RunShape::Crashing {
        let stop_reason = match shape {
            RunShape::Stalled => RunStopReason::NoEvidence,
            _ => RunStopReason::ObjectiveAchieved,
        };
        writer.run_level(Body::RunStopped(RunStopped { stop_reason, message: None }));
    }
    writer.events
}

/// SplitMix64: small, seeded, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

struct RunWriter {
    run_id: SharedText,
    random: Random,
    now: Timestamp,
    step: u64,
    claims: u64,
    evidence: Vec<SharedText>,
    questions: Vec<SharedText>,
    events: Vec<RunEvent>,
}

impl RunWriter {
    fn push(&mut self, step_id: Option<u64>, phase: Phase, body: Body) {
        self.now = self.now.plus_ms(50 + self.random.below(4000) as i64);
        let agent_role = match phase {
            Phase::Plan => Some(AgentRole::Planner),
            Phase::Act | Phase::Observe => Some(AgentRole::Executor),
            _ => None,
        };
        self.events.push(RunEvent {
            run_id: self.run_id.clone(),
            seq: self.events.len() as u64 + 1,
            ts: self.now,
            step_id,
            phase,
            agent_role,
            given_id: None,
            body,
        });
    }

    fn put(&mut self, phase: Phase, body: Body) {
        self.push(Some(self.step), phase, body);
    }

    fn run_level(&mut self, body: Body) {
        self.push(None, Phase::Run, body);
    }

    fn verbose(&mut self, phase: Phase, name: &str) {
        self.put(phase, Body::Verbose { name: name.into(), known: true });
    }

    fn start(&mut self) {
        self.run_level(Body::RunStarted(Box::new(RunStarted {
            objective: "Find evidence for the effect of a treatment in recent studies".into(),
            done_definition: DoneDefinition(json!({
                "criteria": ["two independent verified claims, or stop with NO_EVIDENCE"],
                "invariants": ["one corpus only"],
            })),
            provenance_mode: ProvenanceMode::AuditOnly,
            policy_snapshot_ref: None,
            evidence_namespace: Some(NAMESPACE.into()),
            budgets: json!({"max_steps": 500, "max_wall_time_s": 86400}).as_object().cloned(),
        })));
        self.run_level(Body::ConstraintSet(ConstraintPayload {
            constraint_id: "con_corpus".into(),
            text: Some("cite the agreed corpus only".into()),
        }));
    }

    fn step(&mut self, shape: RunShape) {
        self.step += 1;
        let stalled = shape == RunShape::Stalled && !self.random.chance(15);
        let breaks_off = shape == RunShape::Crashing && self.random.chance(55);
        self.verbose(Phase::Compile, "STEP_STARTED");
        let chunks = self.manifest(stalled);
        self.plan(stalled);
        for _ in 0..self.random.below(3) {
            self.verbose(Phase::Act, "TOOL_CALLED");
        }
        if breaks_off {
            self.failure();
            return;
        }
        self.act(stalled, &chunks);
        if self.random.chance(if stalled { 12 } else { 2 }) {
            let (constraint_id, text) = ("con_corpus".into(), None);
            self.put(
                Phase::Act,
                Body::ConstraintViolated(ConstraintPayload { constraint_id, text }),
            );
        }
        if !stalled {
            self.findings(shape, &chunks);
        }
        let next = format!("look at what step {} left open", self.step);
        let progress = !stalled;
        let next_actions = vec![SharedText::from(next)];
        self.put(Phase::Observe, Body::ObserveDone(ObserveDone { progress, next_actions }));
    }

    fn manifest(&mut self, stalled: bool) -> Vec<SharedText> {
        let chunk = |number: u64| SharedText::from(format!("chk_{number:06}"));
        let first = self.random.below(40_000);
        let candidates: Vec<SharedText> =
            (0..4 + self.random.below(8)).map(|n| chunk(first + n)).collect();
        let keep = if stalled { 0 } else { 1 + self.random.below(3) as usize };
        let selected: Vec<SharedText> = candidates.iter().take(keep).cloned().collect();
        let excluded = candidates
            .iter()
            .skip(keep)
            .map(|id| Excluded { item_id: id.clone(), reason: "score_below_threshold".into() });
        let score = if stalled { 0.2 } else { 0.6 } + self.random.below(300) as f64 / 1000.0;
        let manifest = ContextManifest {
            manifest_id: format!("cm_{:05}", self.step).into(),
            candidate_chunk_ids: candidates.clone(),
            selected_chunk_ids: selected.clone(),
            excluded: excluded.collect(),
            filters: json!({"corpus_id": "generated", "date_from": "2025-01-01"}),
            reranker: Some(Reranker { model: "rr-base".into(), version: "1.2".into() }),
            acceptance_threshold: Some(0.5),
            max_score: Some(score),
        };
        self.put(Phase::Compile, Body::Manifest(Box::new(manifest)));
        selected
    }

    fn plan(&mut self, stalled: bool) {
        let signature =
            if stalled { "SEARCH|same".to_owned() } else { format!("SEARCH|{}", self.step) };
        self.put(
            Phase::Plan,
            Body::PlanDone(PlanDone {
                plan_id: format!("pl_{}", self.step).into(),
                action_type: "SEARCH".into(),
                action_signature: Some(signature.into()),
            }),
        );
    }

    fn act(&mut self, stalled: bool, chunks: &[SharedText]) {
        if !stalled {
            let source_id = SharedText::from(format!("src_{:03}", self.random.below(60)));
            let chunk_ids = chunks.to_vec();
            self.put(Phase::Act, Body::ChunksSeen(ChunksSeen { source_id, chunk_ids }));
        }
        let latency_ms = Some((300 + self.random.below(5000)) as f64);
        let cost_usd = Some((5 + self.random.below(40)) as f64 / 1000.0);
        self.put(
            Phase::Act,
            Body::ActDone(ActDone {
                plan_id: format!("pl_{}", self.step).into(),
                outcome: if stalled { ActOutcome::Partial } else { ActOutcome::Ok },
                cost_usd,
                latency_ms,
            }),
        );
    }

    fn findings(&mut self, shape: RunShape, chunks: &[SharedText]) {
        let percent = if shape == RunShape::Long { 30 } else { 60 };
        if self.random.chance(percent)
            && let Some(chunk) = chunks.first()
        {
            self.claim(chunk.clone());
        }
        if shape == RunShape::Long && self.random.chance(5) {
            self.conflict();
        }
        if self.random.chance(15) {
            let question_id = SharedText::from(format!("q_{}", self.step));
            let text = Some("Is the sample large enough for the effect that is claimed?".into());
            self.questions.push(question_id.clone());
            self.put(Phase::Observe, Body::QuestionOpened(QuestionPayload { question_id, text }));
        } else if self.random.chance(20)
            && let Some(question_id) = self.questions.pop()
        {
            let closed = QuestionPayload { question_id, text: None };
            self.put(Phase::Observe, Body::QuestionClosed(closed));
        }
    }

    fn claim(&mut self, chunk: SharedText) {
        self.claims += 1;
        let claim_id = SharedText::from(format!("clm_{:04}", self.claims));
        let count = self.random.below(200);
        let statement =
            format!("{count} of 210 patients in cohort {} improved.", self.claims).into();
        let added = ClaimAdded { claim_id: claim_id.clone(), statement, supersedes: None };
        self.put(Phase::Observe, Body::ClaimAdded(added));
        let start = self.random.below(400);
        let span = Span { start, end: start + 80, unit: SpanUnit::Utf8Byte };
        let id = SharedText::from(evidence_id(NAMESPACE, &chunk, span, None));
        self.evidence.push(id.clone());
        let evidence = EvidencePointer {
            evidence_id: id,
            chunk_id: chunk,
            span,
            source_id: format!("src_{:03}", self.random.below(60)).into(),
            quote_sha256: None,
            evidence_namespace: None,
        };
        let attached = EvidenceAttached { claim_id: claim_id.clone(), evidence };
        self.put(Phase::Observe, Body::EvidenceAttached(Box::new(attached)));
        if self.random.chance(70) {
            let ruled = ClaimRuled { claim_id, reason: None };
            self.put(Phase::Observe, Body::ClaimVerified(ruled));
        }
    }

    fn conflict(&mut self) {
        let [.., a, b] = self.evidence.as_slice() else { return };
        if a == b {
            return;
        }
        let recorded = ConflictRecorded {
            conflict_id: format!("cnf_{}", self.step).into(),
            description: "The trial reports an effect; the registry reports none.".into(),
            side_a_evidence_ids: vec![a.clone()],
            side_b_evidence_ids: vec![b.clone()],
        };
        self.put(Phase::Observe, Body::ConflictRecorded(Box::new(recorded)));
    }

    fn failure(&mut self) {
        let tool = ["fetch", "search", "rerank"][self.random.below(3) as usize];
        let step = self.step;
        let recorded = FailureRecorded {
            failure_id: format!("fail_{step}").into(),
            signal_type: "TOOL_RUNTIME_ERROR".into(),
            severity: FailureSeverity::Medium,
            fingerprint: format!("TOOL_RUNTIME_ERROR|{tool}|TIMEOUT").into(),
            place: format!("step {step} / ACT / {tool}").into(),
            why: "TIMEOUT after 5000 ms".into(),
        };
        self.put(Phase::Act, Body::FailureRecorded(Box::new(recorded)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::compactor::Compactor;
    use super::super::super::trigger::Thresholds;
    use super::*;

    #[test]
    fn generated_runs_are_valid_and_the_same_every_time() {
        for index in 0..10 {
            let events = generate(7, index, 300);
            assert_eq!(events, generate(7, index, 300));
            let mut compactor = Compactor::new(Thresholds::default());
            for event in &events {
                let line = event.to_line();
                assert_eq!(RunEvent::parse(line.trim_end().as_bytes()).unwrap(), *event);
                compactor.fold(event).unwrap();
            }
            assert_eq!(compactor.fold_state().notices, Default::default());
        }
    }

    #[test]
    fn shapes_differ_as_they_should() {
        let stops = |index: u64| {
            let events = generate(7, index, 300);
            matches!(events.last().unwrap().body, Body::RunStopped(_))
        };
        assert!(stops(0) && stops(1) && stops(2));
        assert!(!stops(4), "a crashing run breaks off");
        assert!(generate(7, 1, 300).len() > 3 * generate(7, 0, 300).len());
    }
}
