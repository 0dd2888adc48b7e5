//! The payloads of `run_event.v1`, one struct per event type that carries state. Unknown members
//! are ignored; a member listed without `default` or `Option` must be there.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::evidence::Span;
use super::text::Text;

/// A member that is an object. What serde derives would also take an array with the members in
/// order, which no schema of ours allows.
pub(super) struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Object::deserialize(from).map(|Object(value)| value)
}

fn object_or_null<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<Object<T>>::deserialize(from).map(|value| value.map(|Object(value)| value))
}

fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(from)?;
    Ok(objects.into_iter().map(|Object(value)| value).collect())
}

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
    pub objective: Text,
    /// When the run is done; an object or a string, never changes inside a run.
    pub done_definition: DoneDefinition,
    /// How hard provenance gaps are judged.
    pub provenance_mode: ProvenanceMode,
    /// The policy document in force.
    #[serde(deserialize_with = "Option::deserialize")]
    pub policy_snapshot_ref: Option<Text>,
    /// Which corpus or index evidence ids belong to: `idx:…` or `corp:…`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub evidence_namespace: Option<Text>,
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
pub enum StopReason {
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
    pub stop_reason: StopReason,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Text>,
}

/// `PLAN_DONE`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanDone {
    /// Which plan.
    pub plan_id: Text,
    /// What kind of action it chose.
    pub action_type: Text,
    /// What makes two actions the same action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_signature: Option<Text>,
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
    pub plan_id: Text,
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
    pub next_actions: Vec<Text>,
}

/// `CONTEXT_MANIFEST_WRITTEN`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Which manifest.
    pub manifest_id: Text,
    /// What retrieval returned.
    pub candidate_chunk_ids: Vec<Text>,
    /// What entered the prompt.
    pub selected_chunk_ids: Vec<Text>,
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
    pub item_id: Text,
    /// Why.
    pub reason: Text,
}

/// A reranker's identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reranker {
    /// Model name.
    pub model: Text,
    /// Model version.
    pub version: Text,
}

/// `CHUNKS_SEEN`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunksSeen {
    /// The source the chunks belong to.
    pub source_id: Text,
    /// The chunks.
    pub chunk_ids: Vec<Text>,
}

/// `CLAIM_ADDED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimAdded {
    /// Which claim.
    pub claim_id: Text,
    /// Its wording, which never changes.
    pub statement: Text,
    /// The claim whose wording it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<Text>,
}

/// `CLAIM_VERIFIED`, `CLAIM_RETRACTED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimRuled {
    /// Which claim.
    pub claim_id: Text,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// `EVIDENCE_ATTACHED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceAttached {
    /// The claim it supports.
    pub claim_id: Text,
    /// The pointer.
    #[serde(deserialize_with = "object")]
    pub evidence: Evidence,
}

/// An evidence pointer as events carry it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Stable identifier.
    pub evidence_id: Text,
    /// The chunk it points into.
    pub chunk_id: Text,
    /// Where in the chunk.
    pub span: Span,
    /// The source the chunk belongs to.
    pub source_id: Text,
    /// Digest of the quoted words, when they were part of the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_sha256: Option<Text>,
    /// The namespace of this id where it is not the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_namespace: Option<Text>,
}

/// `CONFLICT_RECORDED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictRecorded {
    /// Which conflict.
    pub conflict_id: Text,
    /// What contradicts what.
    pub description: Text,
    /// Evidence for one side.
    pub side_a_evidence_ids: Vec<Text>,
    /// Evidence for the other.
    pub side_b_evidence_ids: Vec<Text>,
}

/// `CONFLICT_RESOLVED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictResolved {
    /// Which conflict.
    pub conflict_id: Text,
    /// How.
    pub resolution: Text,
}

/// `QUESTION_OPENED`, `QUESTION_CLOSED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Which question.
    pub question_id: Text,
    /// Its wording; an opening without one is shown by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
}

/// `CONSTRAINT_SET`, `CONSTRAINT_VIOLATED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Constraint {
    /// Which constraint.
    pub constraint_id: Text,
    /// Its wording; a setting without one is shown by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
}

/// How bad a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
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
    pub failure_id: Text,
    /// Its kind.
    pub signal_type: Text,
    /// How bad it is.
    pub severity: Severity,
    /// What makes two failures the same failure.
    pub fingerprint: Text,
    /// Where it happened.
    #[serde(rename = "where")]
    pub place: Text,
    /// What happened.
    pub why: Text,
}

/// `FAILURE_RESOLVED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureResolved {
    /// Which failure.
    pub failure_id: Text,
}

/// `POLICY_CHANGED`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyChanged {
    /// The policy document now in force.
    #[serde(deserialize_with = "Option::deserialize")]
    pub policy_snapshot_ref: Option<Text>,
}

/// `SNAPSHOT_WRITTEN`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotWritten {
    /// Which snapshot.
    pub snapshot_id: Text,
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
    pub checks: Vec<super::snapshot::Check>,
}
