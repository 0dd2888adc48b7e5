//! The compaction snapshot as a record: fields in the order of the contract, id, file form. Plain
//! data: `build` fills it and `checks` judges it.
//!
//! `ext` holds fields that version 1 of the contract lacks and the narrative needs. The strict form
//! omits it.
//!
//! See docs/adr/0020-ext-object-and-strict-v1.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event::AgentRole;
use super::evidence::EvidenceRef;
use super::payload::{Check, CheckStatus, DoneDefinition, FailureSeverity, ProvenanceMode};
use super::session_figures::SessionFigures;
use super::state::ClaimStatus;
use super::text::SharedText;
use super::window::{Deltas, Terminal};
use crate::contract::hash::sha256;
use crate::contract::json::{to_file, to_jcs};

/// Largest file form of a snapshot.
pub(crate) const SNAPSHOT_BYTES_MAX: usize = 65_536;
/// Longest statement.
pub(crate) const STATEMENT_BYTES_MAX: usize = 2 << 10;
/// Longest other string.
pub(crate) const STRING_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub snapshot_id: String,
    pub run_id: SharedText,
    pub sequence: u64,
    pub created_at: String,
    pub objective: SharedText,
    pub(crate) done_definition: DoneDefinition,
    pub(crate) provenance_mode: ProvenanceMode,
    pub policy_snapshot_ref: Option<SharedText>,
    pub counts: SnapshotCounts,
    pub(crate) latest_context_manifest_ids: Vec<SharedText>,
    pub state: SnapshotState,
    pub(crate) retrieval_diagnostics: RetrievalDiagnostics,
    pub validation: Validation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ext: Option<Ext>,
}

/// What happened since the last snapshot, as the trigger counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotCounts {
    pub steps_since_last_compaction: u64,
    pub counted_events_since_last_compaction: u64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SnapshotState {
    pub claims: Vec<ClaimRecord>,
    pub conflicts: Vec<ConflictRecord>,
    pub(crate) open_questions: Vec<SharedText>,
    pub failures: Vec<FailureEntry>,
    pub source_coverage: SourceCoverage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimRecord {
    pub claim_id: SharedText,
    pub status: ClaimStatus,
    pub statement: SharedText,
    pub evidence_refs: Vec<EvidenceRef>,
    /// Number of its pointers, when not all of them are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_ref_count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<SharedText>,
}

/// One conflict; `resolution` is there once it is resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictRecord {
    pub conflict_id: SharedText,
    pub description: SharedText,
    pub(crate) side_a_refs: Vec<EvidenceRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) side_a_ref_count: Option<u64>,
    pub(crate) side_b_refs: Vec<EvidenceRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) side_b_ref_count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<SharedText>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureEntry {
    pub failure_id: SharedText,
    pub category: SharedText,
    #[serde(rename = "where")]
    pub place: SharedText,
    pub why: SharedText,
    pub severity: FailureSeverity,
    pub status: FailureStatus,
    pub(crate) occurrence_count: u64,
    pub fingerprint: SharedText,
}

/// Whether a failure still stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureStatus {
    Active,
    /// Resolved, and not recorded again since.
    Resolved,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SourceCoverage {
    pub(crate) source_ids_seen: Vec<SharedText>,
    pub chunk_ids_seen: Vec<SharedText>,
    pub chunk_ids_cited: Vec<SharedText>,
}

/// Retrieval since the last snapshot: a summary and pointers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RetrievalDiagnostics {
    pub(crate) since_last: RetrievalSummary,
    pub(crate) manifest_ids: Vec<SharedText>,
}

/// Sums over the manifests since the last snapshot.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct RetrievalSummary {
    pub manifests: u64,
    pub(crate) candidates_retrieved: u64,
    pub(crate) candidates_selected: u64,
    pub(crate) excluded_by_reason: BTreeMap<SharedText, u64>,
    pub(crate) filters_applied: Vec<Value>,
    pub(crate) rerankers: Vec<String>,
    pub(crate) acceptance_thresholds_milli: Vec<i64>,
    pub(crate) min_max_score_milli: Option<i64>,
    pub(crate) no_evidence_steps: Vec<u64>,
}

/// What was done about a failed check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FailureAction {
    None,
    /// The snapshot was built a second time after everything was read again.
    Retry,
    SystemError,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    pub status: CheckStatus,
    pub checks: Vec<Check>,
    pub failure_action_taken: FailureAction,
}

/// Fields that version 1 of the contract lacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ext {
    pub(crate) prev_snapshot_id: Option<String>,
    pub(crate) state_digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Map<String, Value>>,
    pub(crate) deltas: Deltas,
    pub next_actions: Vec<SharedText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_roles: Option<BTreeMap<AgentRole, BTreeMap<Terminal, u64>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<SpillRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Vec<ConstraintRecord>>,
    /// What the session did so far, in a snapshot of the service's own session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionFigures>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// A pointer to the file of the records that do not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpillRef {
    /// File name beside the snapshot.
    pub artifact: String,
    /// Digest of the file's bytes.
    pub sha256: String,
    /// Records of the whole state, shown or not.
    pub counts: StateCounts,
}

/// How many records a state has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateCounts {
    pub claims: u64,
    pub verified_claims: u64,
    pub conflicts: u64,
    pub open_questions: u64,
    pub failures: u64,
    pub constraints: u64,
    pub source_ids_seen: u64,
    pub chunk_ids_seen: u64,
    pub chunk_ids_cited: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintRecord {
    pub constraint_id: SharedText,
    pub text: SharedText,
    pub violations: u64,
}

/// The content that the id identifies: the snapshot without id and verdict.
#[derive(Serialize)]
struct Identified<'a> {
    run_id: &'a SharedText,
    sequence: u64,
    created_at: &'a str,
    objective: &'a SharedText,
    done_definition: &'a DoneDefinition,
    provenance_mode: ProvenanceMode,
    policy_snapshot_ref: &'a Option<SharedText>,
    counts: SnapshotCounts,
    latest_context_manifest_ids: &'a [SharedText],
    state: &'a SnapshotState,
    retrieval_diagnostics: &'a RetrievalDiagnostics,
    #[serde(skip_serializing_if = "Option::is_none")]
    ext: &'a Option<Ext>,
}

impl Snapshot {
    pub fn computed_id(&self) -> String {
        let identified = Identified {
            run_id: &self.run_id,
            sequence: self.sequence,
            created_at: &self.created_at,
            objective: &self.objective,
            done_definition: &self.done_definition,
            provenance_mode: self.provenance_mode,
            policy_snapshot_ref: &self.policy_snapshot_ref,
            counts: self.counts,
            latest_context_manifest_ids: &self.latest_context_manifest_ids,
            state: &self.state,
            retrieval_diagnostics: &self.retrieval_diagnostics,
            ext: &self.ext,
        };
        let text = format!("snapshot.v1\n{}", canonical(&identified));
        format!("snap_{}", &sha256(text).hex()[..24])
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        to_file(self).expect("a snapshot has string keys and finite numbers").into_bytes()
    }

    /// True when every check holds.
    pub fn passes(&self) -> bool {
        self.validation.status == CheckStatus::Pass
    }

    /// The checks that do not hold.
    pub fn failed_checks(&self) -> impl Iterator<Item = &Check> {
        self.validation.checks.iter().filter(|check| check.status == CheckStatus::Fail)
    }
}

impl SnapshotState {
    /// `sha256:` and the digest of the canonical form.
    pub fn digest(&self) -> String {
        sha256(canonical(self)).prefixed()
    }
}

fn canonical<T: Serialize>(value: &T) -> String {
    to_jcs(value).expect("a snapshot has string keys and finite numbers")
}
