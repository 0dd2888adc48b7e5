//! What a run log says about the run itself, whatever the thresholds are: cost and latency per
//! verified claim, loops, violated constraints, stalls.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::event::{Body, RunEvent};
use super::super::payload::RunStopReason;
use super::super::text::SharedText;
use crate::contract::time::Timestamp;

/// Steps an action is compared with.
const LOOP_WINDOW_STEPS: usize = 3;

/// Figures of one run, or summed over many.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunMetrics {
    pub runs: u64,
    pub events: u64,
    /// Claims verified at the end.
    pub(crate) verified_claims: u64,
    /// Cost over all actions, US dollars.
    pub(crate) cost_usd: f64,
    /// First event to last, milliseconds.
    pub(crate) wall_ms: f64,
    /// Steps with an `ACT_DONE`.
    pub(crate) acted_steps: u64,
    /// Steps that repeat one of the last three actions without progress.
    pub(crate) looping_steps: u64,
    /// Violations of a constraint in force.
    pub(crate) constraint_violations: u64,
    /// Runs of consecutive steps that found nothing, and stops for want of evidence.
    pub(crate) no_evidence_stalls: u64,
}

impl RunMetrics {
    /// Dollars per verified claim; `None` without verified claims.
    pub(crate) fn cost_per_verified_claim(&self) -> Option<f64> {
        (self.verified_claims > 0).then(|| self.cost_usd / self.verified_claims as f64)
    }

    /// Milliseconds per verified claim; `None` without verified claims.
    pub(crate) fn latency_per_verified_claim_ms(&self) -> Option<f64> {
        (self.verified_claims > 0).then(|| self.wall_ms / self.verified_claims as f64)
    }

    /// Looping steps by acted steps; 0 when nothing was done.
    pub(crate) fn loop_rate(&self) -> f64 {
        if self.acted_steps == 0 {
            0.0
        } else {
            self.looping_steps as f64 / self.acted_steps as f64
        }
    }

    pub fn add(&mut self, other: &RunMetrics) {
        self.runs += other.runs;
        self.events += other.events;
        self.verified_claims += other.verified_claims;
        self.cost_usd += other.cost_usd;
        self.wall_ms += other.wall_ms;
        self.acted_steps += other.acted_steps;
        self.looping_steps += other.looping_steps;
        self.constraint_violations += other.constraint_violations;
        self.no_evidence_stalls += other.no_evidence_stalls;
    }
}

/// A violation of a constraint in force: where it was last honoured, and where it was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConstraintBreach {
    /// Index of the last event up to which it was honoured.
    pub(crate) honoured: usize,
    /// Index of the violation.
    pub(crate) violated: usize,
}

#[derive(Default)]
struct StepFacts {
    signature: Option<SharedText>,
    acted: bool,
    stuck: bool,
    weak: bool,
    evidence: bool,
}

pub fn measure(events: &[RunEvent]) -> (RunMetrics, Vec<ConstraintBreach>) {
    let mut metrics = RunMetrics { runs: 1, events: events.len() as u64, ..RunMetrics::default() };
    let mut steps: BTreeMap<u64, StepFacts> = BTreeMap::new();
    let mut verified: BTreeSet<&SharedText> = BTreeSet::new();
    let mut constraints: BTreeMap<&SharedText, usize> = BTreeMap::new();
    let mut violations = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let step = event.step_id.map(|step| steps.entry(step).or_default());
        match (&event.body, step) {
            (Body::PlanDone(plan), Some(step)) => step.signature = plan.action_signature.clone(),
            (Body::ActDone(act), Some(step)) => {
                step.acted = true;
                metrics.cost_usd += act.cost_usd.unwrap_or(0.0);
            }
            (Body::ObserveDone(observed), Some(step)) => {
                step.stuck = !observed.progress;
                constraints.values_mut().for_each(|honoured| *honoured = index);
            }
            (Body::Manifest(manifest), Some(step)) => {
                let below = matches!(
                    (manifest.max_score, manifest.acceptance_threshold),
                    (Some(score), Some(threshold)) if score < threshold
                );
                step.weak = manifest.selected_chunk_ids.is_empty() || below;
            }
            (Body::EvidenceAttached(_), Some(step)) => step.evidence = true,
            (Body::ConstraintSet(set), _) => {
                constraints.entry(&set.constraint_id).or_insert(index);
            }
            (Body::ConstraintViolated(violated), _) => {
                if let Some(honoured) = constraints.get(&violated.constraint_id) {
                    violations.push(ConstraintBreach { honoured: *honoured, violated: index });
                }
            }
            (Body::ClaimVerified(ruled), _) => {
                verified.insert(&ruled.claim_id);
            }
            (Body::ClaimRetracted(ruled), _) => {
                verified.remove(&ruled.claim_id);
            }
            (Body::RunStopped(stopped), _) if stopped.stop_reason == RunStopReason::NoEvidence => {
                metrics.no_evidence_stalls += 1;
            }
            _ => {}
        }
    }
    metrics.verified_claims = verified.len() as u64;
    metrics.constraint_violations = violations.len() as u64;
    let at = |event: Option<&RunEvent>| event.map_or(Timestamp(0), |event| event.ts);
    metrics.wall_ms = at(events.last()).ms_since(at(events.first())) as f64;
    judge_steps(&mut metrics, &steps);
    (metrics, violations)
}

fn judge_steps(metrics: &mut RunMetrics, steps: &BTreeMap<u64, StepFacts>) {
    let mut recent: VecDeque<&SharedText> = VecDeque::new();
    let mut stalling = false;
    for step in steps.values() {
        metrics.acted_steps += u64::from(step.acted);
        if let Some(signature) = &step.signature {
            if step.stuck && recent.contains(&signature) {
                metrics.looping_steps += 1;
            }
            recent.push_back(signature);
            if recent.len() > LOOP_WINDOW_STEPS {
                recent.pop_front();
            }
        }
        let stalls = step.weak && !step.evidence;
        metrics.no_evidence_stalls += u64::from(stalls && !stalling);
        stalling = stalls;
    }
}

#[cfg(test)]
mod tests {
    use super::super::shapes::generate;
    use super::*;

    #[test]
    fn stalled_runs_loop_and_stall_and_healthy_ones_do_not() {
        let (healthy, _) = measure(&generate(1, 0, 400));
        let (stalled, violations) = measure(&generate(1, 2, 400));
        assert_eq!(healthy.loop_rate(), 0.0);
        assert_eq!(healthy.no_evidence_stalls, 0);
        assert!(healthy.cost_per_verified_claim().is_some());
        assert!(stalled.loop_rate() > 0.3, "{}", stalled.loop_rate());
        assert!(stalled.no_evidence_stalls > 1);
        assert_eq!(stalled.constraint_violations, violations.len() as u64);
        assert!(violations.iter().all(|violation| violation.honoured < violation.violated));
    }

    #[test]
    fn empty_metrics_divide_by_no_zero() {
        let empty = RunMetrics::default();
        assert_eq!(empty.loop_rate(), 0.0);
        assert_eq!(empty.cost_per_verified_claim(), None);
    }
}
