//! The payloads of `run_event.v1`, one struct for each event type that carries state. Unknown
//! members are ignored. A member without `default` is required.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::evidence::Span;
use super::object::{object, object_or_null, objects};
use super::text::SharedText;

/// How gaps in provenance are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProvenanceMode {
    /// A gap is a warning.
    AuditOnly,
    /// A gap fails the snapshot.
    Strict,
}

impl ProvenanceMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ProvenanceMode::AuditOnly => "audit_only",
            ProvenanceMode::Strict => "strict",
        }
    }
}

/// `RUN_STARTED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The objective of the run. It never changes inside a run.
    pub objective: SharedText,
    /// When the run is done; an object or a string, never changes inside a run.
    pub(crate) done_definition: DoneDefinition,
    /// How gaps in provenance are judged.
    pub(crate) provenance_mode: ProvenanceMode,
    /// The policy document in force.
    #[serde(deserialize_with = "Option::deserialize")]
    pub policy_snapshot_ref: Option<SharedText>,
    /// Which corpus or index evidence ids belong to: `idx:…` or `corp:…`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) evidence_namespace: Option<SharedText>,
    /// Limits of the run, as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<serde_json::Map<String, Value>>,
}

/// An object or a string, kept as given.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct DoneDefinition(pub Value);

impl<'de> Deserialize<'de> for DoneDefinition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.is_object() || value.is_string() {
            Ok(DoneDefinition(value))
        } else {
            Err(serde::de::Error::custom("done_definition must be an object or a string"))
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunStopReason {
    /// The done definition is met.
    ObjectiveAchieved,
    /// A hard limit was hit.
    BudgetExceeded,
    /// Nothing in the corpus supports an answer.
    NoEvidence,
    HumanRequested,
    /// The run could not continue with valid state.
    SystemError,
}

/// `RUN_STOPPED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStopped {
    pub stop_reason: RunStopReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<SharedText>,
}

/// `PLAN_DONE`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanDone {
    pub plan_id: SharedText,
    /// What kind of action it chose.
    pub action_type: SharedText,
    /// Two actions with the same signature are the same action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) action_signature: Option<SharedText>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActOutcome {
    Ok,
    Partial,
    Error,
    Skipped,
}

/// `ACT_DONE`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActDone {
    /// Which plan was carried out.
    pub plan_id: SharedText,
    pub outcome: ActOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency_ms: Option<f64>,
}

/// `OBSERVE_DONE`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObserveDone {
    /// True when the step brought the run forward.
    pub progress: bool,
    /// Snapshots keep the first three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_actions: Vec<SharedText>,
}

/// `CONTEXT_MANIFEST_WRITTEN`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextManifest {
    pub(crate) manifest_id: SharedText,
    pub(crate) candidate_chunk_ids: Vec<SharedText>,
    pub(crate) selected_chunk_ids: Vec<SharedText>,
    /// What was left out, and why.
    #[serde(deserialize_with = "objects")]
    pub(crate) excluded: Vec<Excluded>,
    /// The filters applied, as given.
    pub(crate) filters: Value,
    /// The reranker, when there was one.
    #[serde(deserialize_with = "object_or_null")]
    pub(crate) reranker: Option<Reranker>,
    /// Retrieval below this score is not evidence.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) acceptance_threshold: Option<f64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) max_score: Option<f64>,
}

/// One item a manifest left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Excluded {
    pub(crate) item_id: SharedText,
    pub reason: SharedText,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reranker {
    pub model: SharedText,
    pub version: SharedText,
}

/// `CHUNKS_SEEN`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunksSeen {
    /// The source the chunks belong to.
    pub source_id: SharedText,
    pub chunk_ids: Vec<SharedText>,
}

/// `CLAIM_ADDED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimAdded {
    pub claim_id: SharedText,
    /// Never changes.
    pub statement: SharedText,
    /// The claim whose wording it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<SharedText>,
}

/// `CLAIM_VERIFIED`, `CLAIM_RETRACTED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimRuled {
    pub claim_id: SharedText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<SharedText>,
}

/// `EVIDENCE_ATTACHED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceAttached {
    pub claim_id: SharedText,
    #[serde(deserialize_with = "object")]
    pub evidence: EvidencePointer,
}

/// An evidence pointer as events carry it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidencePointer {
    pub evidence_id: SharedText,
    /// The chunk it points into.
    pub chunk_id: SharedText,
    pub span: Span,
    /// The source the chunk belongs to.
    pub source_id: SharedText,
    /// Digest of the quoted words, when they were part of the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_sha256: Option<SharedText>,
    /// The namespace of this id where it is not the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evidence_namespace: Option<SharedText>,
}

/// `CONFLICT_RECORDED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictRecorded {
    pub conflict_id: SharedText,
    pub description: SharedText,
    /// Evidence for one side.
    pub side_a_evidence_ids: Vec<SharedText>,
    /// Evidence for the other.
    pub side_b_evidence_ids: Vec<SharedText>,
}

/// `CONFLICT_RESOLVED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictResolved {
    pub conflict_id: SharedText,
    pub resolution: SharedText,
}

/// `QUESTION_OPENED`, `QUESTION_CLOSED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionPayload {
    pub question_id: SharedText,
    /// Without a text the id is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<SharedText>,
}

/// `CONSTRAINT_SET`, `CONSTRAINT_VIOLATED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConstraintPayload {
    pub constraint_id: SharedText,
    /// Without a text the id is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<SharedText>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureSeverity {
    Low,
    Medium,
    High,
    Critical,
}

/// `FAILURE_RECORDED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureRecorded {
    pub failure_id: SharedText,
    pub signal_type: SharedText,
    pub severity: FailureSeverity,
    /// Two failures with the same fingerprint are one failure.
    pub fingerprint: SharedText,
    #[serde(rename = "where")]
    pub place: SharedText,
    pub why: SharedText,
}

/// `FAILURE_RESOLVED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureResolved {
    pub failure_id: SharedText,
}

/// `POLICY_CHANGED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyChanged {
    /// The policy document now in force.
    #[serde(deserialize_with = "Option::deserialize")]
    pub policy_snapshot_ref: Option<SharedText>,
}

/// `SNAPSHOT_WRITTEN`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotWritten {
    pub snapshot_id: SharedText,
    /// Its place in the run.
    pub sequence: u64,
}

/// `COMPACTION_FAILED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactionFailed {
    pub attempt: u64,
    #[serde(deserialize_with = "objects")]
    pub checks: Vec<Check>,
}

/// The result of a check, or of all checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckStatus {
    Pass,
    Fail,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub status: CheckStatus,
    pub message: String,
}
