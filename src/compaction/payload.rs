//! The payloads of `run_event.v1`, one struct per event type that carries state. Unknown members
//! are ignored; a member listed without `default` or `Option` must be there.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::evidence::Span;
use super::object::{object, object_or_null, objects};
use super::text::SharedText;

/// How hard provenance gaps are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvenanceMode {
    /// A gap is a warning.
    AuditOnly,
    /// A gap fails the snapshot.
    Strict,
}

impl ProvenanceMode {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            ProvenanceMode::AuditOnly => "audit_only",
            ProvenanceMode::Strict => "strict",
        }
    }
}

/// `RUN_STARTED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// What the run is for; never changes inside a run.
    pub objective: SharedText,
    /// When the run is done; an object or a string, never changes inside a run.
    pub done_definition: DoneDefinition,
    /// How hard provenance gaps are judged.
    pub provenance_mode: ProvenanceMode,
    /// The policy document in force.
    #[serde(deserialize_with = "Option::deserialize")]
    pub policy_snapshot_ref: Option<SharedText>,
    /// Which corpus or index evidence ids belong to: `idx:…` or `corp:…`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub evidence_namespace: Option<SharedText>,
    /// Limits of the run, as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<serde_json::Map<String, Value>>,
}

/// An object or a string, kept as given.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct DoneDefinition(pub Value);

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

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunStopReason {
    /// The done definition is met.
    ObjectiveAchieved,
    /// A hard limit was hit.
    BudgetExceeded,
    /// Nothing in the corpus supports an answer.
    NoEvidence,
    /// A person ended it.
    HumanRequested,
    /// The run could not go on with valid state.
    SystemError,
}

/// `RUN_STOPPED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStopped {
    /// Why.
    pub stop_reason: RunStopReason,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<SharedText>,
}

/// `PLAN_DONE`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanDone {
    /// Which plan.
    pub plan_id: SharedText,
    /// What kind of action it chose.
    pub action_type: SharedText,
    /// What makes two actions the same action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_signature: Option<SharedText>,
}

/// How an action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActOutcome {
    /// As planned.
    Ok,
    /// Some of it.
    Partial,
    /// Not at all.
    Error,
    /// Not tried.
    Skipped,
}

/// `ACT_DONE`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActDone {
    /// Which plan was carried out.
    pub plan_id: SharedText,
    /// How it ended.
    pub outcome: ActOutcome,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
}

/// `OBSERVE_DONE`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObserveDone {
    /// Did the step bring the run forward.
    pub progress: bool,
    /// What to do next; snapshots keep the first three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_actions: Vec<SharedText>,
}

/// `CONTEXT_MANIFEST_WRITTEN`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextManifest {
    /// Which manifest.
    pub manifest_id: SharedText,
    /// What retrieval returned.
    pub candidate_chunk_ids: Vec<SharedText>,
    /// What entered the prompt.
    pub selected_chunk_ids: Vec<SharedText>,
    /// What was left out, and why.
    #[serde(deserialize_with = "objects")]
    pub excluded: Vec<Excluded>,
    /// The filters applied, as given.
    pub filters: Value,
    /// The reranker, when there was one.
    #[serde(deserialize_with = "object_or_null")]
    pub reranker: Option<Reranker>,
    /// Below this score nothing counts as evidence.
    #[serde(deserialize_with = "Option::deserialize")]
    pub acceptance_threshold: Option<f64>,
    /// The best score retrieved.
    #[serde(deserialize_with = "Option::deserialize")]
    pub max_score: Option<f64>,
}

/// One item a manifest left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Excluded {
    /// Which item.
    pub item_id: SharedText,
    /// Why.
    pub reason: SharedText,
}

/// A reranker's identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reranker {
    /// Model name.
    pub model: SharedText,
    /// Model version.
    pub version: SharedText,
}

/// `CHUNKS_SEEN`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunksSeen {
    /// The source the chunks belong to.
    pub source_id: SharedText,
    /// The chunks.
    pub chunk_ids: Vec<SharedText>,
}

/// `CLAIM_ADDED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimAdded {
    /// Which claim.
    pub claim_id: SharedText,
    /// Its wording, which never changes.
    pub statement: SharedText,
    /// The claim whose wording it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<SharedText>,
}

/// `CLAIM_VERIFIED`, `CLAIM_RETRACTED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimRuled {
    /// Which claim.
    pub claim_id: SharedText,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<SharedText>,
}

/// `EVIDENCE_ATTACHED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceAttached {
    /// The claim it supports.
    pub claim_id: SharedText,
    /// The pointer.
    #[serde(deserialize_with = "object")]
    pub evidence: EvidencePointer,
}

/// An evidence pointer as events carry it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidencePointer {
    /// Stable identifier.
    pub evidence_id: SharedText,
    /// The chunk it points into.
    pub chunk_id: SharedText,
    /// Where in the chunk.
    pub span: Span,
    /// The source the chunk belongs to.
    pub source_id: SharedText,
    /// Digest of the quoted words, when they were part of the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_sha256: Option<SharedText>,
    /// The namespace of this id where it is not the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_namespace: Option<SharedText>,
}

/// `CONFLICT_RECORDED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictRecorded {
    /// Which conflict.
    pub conflict_id: SharedText,
    /// What contradicts what.
    pub description: SharedText,
    /// Evidence for one side.
    pub side_a_evidence_ids: Vec<SharedText>,
    /// Evidence for the other.
    pub side_b_evidence_ids: Vec<SharedText>,
}

/// `CONFLICT_RESOLVED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictResolved {
    /// Which conflict.
    pub conflict_id: SharedText,
    /// How.
    pub resolution: SharedText,
}

/// `QUESTION_OPENED`, `QUESTION_CLOSED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionPayload {
    /// Which question.
    pub question_id: SharedText,
    /// Its wording; an opening without one is shown by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<SharedText>,
}

/// `CONSTRAINT_SET`, `CONSTRAINT_VIOLATED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConstraintPayload {
    /// Which constraint.
    pub constraint_id: SharedText,
    /// Its wording; a setting without one is shown by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<SharedText>,
}

/// How bad a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureSeverity {
    /// Hardly.
    Low,
    /// Somewhat.
    Medium,
    /// Badly.
    High,
    /// The run is in danger.
    Critical,
}

/// `FAILURE_RECORDED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureRecorded {
    /// Which failure.
    pub failure_id: SharedText,
    /// Its kind.
    pub signal_type: SharedText,
    /// How bad it is.
    pub severity: FailureSeverity,
    /// What makes two failures the same failure.
    pub fingerprint: SharedText,
    /// Where it happened.
    #[serde(rename = "where")]
    pub place: SharedText,
    /// What happened.
    pub why: SharedText,
}

/// `FAILURE_RESOLVED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureResolved {
    /// Which failure.
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
    /// Which snapshot.
    pub snapshot_id: SharedText,
    /// Its place in the run.
    pub sequence: u64,
}

/// `COMPACTION_FAILED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactionFailed {
    /// How often it was tried.
    pub attempt: u64,
    /// Every check and how it ended.
    #[serde(deserialize_with = "objects")]
    pub checks: Vec<Check>,
}

/// How a check, or all of them, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckStatus {
    /// Holds.
    Pass,
    /// Does not hold.
    Fail,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Which.
    pub name: String,
    /// How it ended.
    pub status: CheckStatus,
    /// The figures behind it.
    pub message: String,
}
