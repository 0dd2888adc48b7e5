//! Everything counted since the last snapshot: the counts that trigger the next one, the deltas it
//! reports, and retrieval diagnostics. Reset when a snapshot comes into force.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::AgentRole;
use super::payload::ContextManifest;
use super::text::SharedText;
use crate::contract::json::jcs;

/// The three counted event types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Terminal {
    /// `PLAN_DONE`
    #[serde(rename = "PLAN_DONE")]
    Plan,
    /// `ACT_DONE`
    #[serde(rename = "ACT_DONE")]
    Act,
    /// `OBSERVE_DONE`
    #[serde(rename = "OBSERVE_DONE")]
    Observe,
}

/// State changes since the last snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Deltas {
    pub(crate) claims_added: u64,
    pub(crate) claims_verified: u64,
    pub(crate) claims_retracted: u64,
    pub(crate) conflicts_added: u64,
    pub(crate) questions_opened: u64,
    pub(crate) questions_closed: u64,
    pub(crate) failures_added: u64,
    pub(crate) evidence_attached: u64,
}

/// Everything counted since the last snapshot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SinceSnapshot {
    /// Steps with at least one event that is not verbose.
    pub steps: BTreeSet<u64>,
    /// Distinct terminal events.
    pub counted: BTreeSet<(u64, Terminal)>,
    /// Changes of state.
    pub(crate) deltas: Deltas,
    /// Manifests in log order.
    pub(crate) manifest_ids: Vec<SharedText>,
    /// From the last `OBSERVE_DONE`.
    pub next_actions: Vec<SharedText>,
    /// Counted events by role.
    pub roles: BTreeMap<AgentRole, BTreeMap<Terminal, u64>>,
    /// Steps with a manifest.
    pub manifest_steps: BTreeSet<u64>,
    pub(crate) retrieval: Retrieval,
    known_manifests: BTreeSet<SharedText>,
    last_step: Option<u64>,
}

/// Retrieval since the last snapshot.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Retrieval {
    /// Candidates over all manifests.
    pub candidates: u64,
    /// Selected over all manifests.
    pub selected: u64,
    /// Left out, by reason.
    pub(crate) excluded: BTreeMap<SharedText, u64>,
    /// Distinct filters, first seen first.
    pub(crate) filters: Vec<Value>,
    /// `model@version`.
    pub(crate) rerankers: BTreeSet<String>,
    /// Acceptance thresholds in thousandths.
    pub(crate) thresholds_milli: BTreeSet<i64>,
    /// The lowest best score in thousandths.
    pub(crate) min_max_score_milli: Option<i64>,
    weak_steps: BTreeSet<u64>,
    strong_steps: BTreeSet<u64>,
    evidence_steps: BTreeSet<u64>,
    known_filters: BTreeSet<String>,
}

impl SinceSnapshot {
    /// Counts a step; called for every event that is not verbose.
    pub(crate) fn enter_step(&mut self, step: Option<u64>) {
        if step.is_some() && step != self.last_step {
            self.steps.extend(step);
            self.last_step = step;
        }
    }

    /// Counts a terminal event once per step and type.
    pub fn count(&mut self, step: u64, terminal: Terminal, role: Option<AgentRole>) {
        if self.counted.insert((step, terminal))
            && let Some(role) = role
        {
            *self.roles.entry(role).or_default().entry(terminal).or_default() += 1;
        }
    }

    /// Counts a manifest once.
    pub(crate) fn note_manifest(&mut self, step: u64, manifest: &ContextManifest) {
        if !self.known_manifests.insert(manifest.manifest_id.clone()) {
            return;
        }
        self.manifest_ids.push(manifest.manifest_id.clone());
        self.manifest_steps.insert(step);
        self.retrieval.note(step, manifest);
    }

    /// Marks a step that added evidence.
    pub(crate) fn note_evidence(&mut self, step: Option<u64>) {
        self.retrieval.evidence_steps.extend(step);
    }
}

impl Retrieval {
    fn note(&mut self, step: u64, manifest: &ContextManifest) {
        self.candidates += manifest.candidate_chunk_ids.len() as u64;
        self.selected += manifest.selected_chunk_ids.len() as u64;
        for excluded in &manifest.excluded {
            *self.excluded.entry(excluded.reason.clone()).or_default() += 1;
        }
        self.note_filters(&manifest.filters);
        if let Some(reranker) = &manifest.reranker {
            self.rerankers.insert(format!("{}@{}", reranker.model, reranker.version));
        }
        self.thresholds_milli.extend(manifest.acceptance_threshold.map(milli));
        let score = manifest.max_score.map(milli);
        self.min_max_score_milli = match (self.min_max_score_milli, score) {
            (Some(lowest), Some(score)) => Some(lowest.min(score)),
            (lowest, score) => lowest.or(score),
        };
        let below = matches!(
            (manifest.max_score, manifest.acceptance_threshold),
            (Some(score), Some(threshold)) if score < threshold
        );
        if manifest.selected_chunk_ids.is_empty() || below {
            self.weak_steps.insert(step);
        } else {
            self.strong_steps.insert(step);
        }
    }

    fn note_filters(&mut self, filters: &Value) {
        // Consecutive manifests mostly repeat their filters, so this comparison avoids computing
        // the canonical form.
        if filters.is_null() || self.filters.last() == Some(filters) {
            return;
        }
        if self.known_filters.insert(jcs(filters)) {
            self.filters.push(filters.clone());
        }
    }

    /// Steps without usable results of retrieval and without new evidence.
    pub(crate) fn no_evidence_steps(&self) -> Vec<u64> {
        let found =
            |step: &&u64| !self.strong_steps.contains(step) && !self.evidence_steps.contains(step);
        self.weak_steps.iter().filter(found).copied().collect()
    }
}

/// Thousandths of a number, half rounded up. Computed on the decimal digits, so that 0.5005 gives
/// 501 although no float represents it exactly.
pub(crate) fn milli(number: f64) -> i64 {
    let text = format!("{:.1$}", number.abs(), shortest_decimals(number));
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digit =
        |index: usize| fraction.as_bytes().get(index).map_or(0, |byte| i64::from(byte - b'0'));
    let Ok(whole) = whole.parse::<i64>() else {
        return if number < 0.0 { i64::MIN } else { i64::MAX };
    };
    let thousandths =
        whole.saturating_mul(1000).saturating_add(digit(0) * 100 + digit(1) * 10 + digit(2));
    let rest_is_exactly_half = digit(3) == 5 && fraction.bytes().skip(4).all(|byte| byte == b'0');
    let away_from_zero = digit(3) > 5 || (digit(3) == 5 && (number > 0.0 || !rest_is_exactly_half));
    let magnitude = thousandths.saturating_add(i64::from(away_from_zero));
    if number < 0.0 { -magnitude } else { magnitude }
}

/// Number of decimals in the shortest exact spelling.
fn shortest_decimals(number: f64) -> usize {
    format!("{number}").split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_round_half_up() {
        for (number, expected) in [
            (0.5, 500),
            (0.91, 910),
            (0.5005, 501),
            (0.5004, 500),
            (0.50049999, 500),
            (-3.2155, -3215),
            (-3.21551, -3216),
            (0.0, 0),
            (-0.0005, 0),
            (1e-9, 0),
            (12.0, 12000),
            (1e300, i64::MAX),
        ] {
            assert_eq!(milli(number), expected, "{number}");
        }
    }
}
