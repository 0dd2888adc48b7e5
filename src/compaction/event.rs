//! `run_event.v1`: the typed event of one line of a run log.
//!
//! The type of an event decides its class, never the line. *Terminal* events are counted, *state*
//! events are folded, *verbose* events (including unknown types) stay in the log and change
//! nothing. An invalid line is an error, because compaction must not work around a damaged log.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::payload::*;
use super::text::SharedText;
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::to_jcs;
use crate::contract::time::Timestamp;

/// The record kind of every line.
pub const SCHEMA: &str = "run_event.v1";
/// Largest payload; more belongs in an artifact with a pointer.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 65_536;
/// Longest line: the payload and a generous envelope.
pub(crate) const LINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 16_384;
/// Longest id in the envelope.
pub(crate) const ID_BYTES_MAX: usize = 128;

/// Where in a step an event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Phase {
    /// Outside any step.
    Run,
    /// Gathering context.
    Compile,
    /// Choosing an action.
    Plan,
    /// Doing it.
    Act,
    /// Judging the result.
    Observe,
    /// Compaction.
    Checkpoint,
    /// Handing out results.
    Egress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AgentRole {
    /// Chooses actions.
    Planner,
    /// Carries them out.
    Executor,
}

/// What compaction does with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Counted and folded.
    Terminal,
    /// Folded.
    State,
    /// Kept in the log only.
    Verbose,
}

/// A state event that no snapshot mentions. It still counts as part of its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// A loop or budget override is in force.
    OverrideSet,
    /// The same action was repeated.
    LoopDetected,
    /// A soft limit is near.
    BudgetWarning,
    /// Work went to another role.
    Handoff,
}

/// The typed content of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    RunStarted(Box<RunStarted>),
    RunStopped(RunStopped),
    PlanDone(PlanDone),
    ActDone(ActDone),
    ObserveDone(ObserveDone),
    Manifest(Box<ContextManifest>),
    ChunksSeen(ChunksSeen),
    ClaimAdded(ClaimAdded),
    EvidenceAttached(Box<EvidenceAttached>),
    ClaimVerified(ClaimRuled),
    ClaimRetracted(ClaimRuled),
    ConflictRecorded(Box<ConflictRecorded>),
    ConflictResolved(ConflictResolved),
    QuestionOpened(QuestionPayload),
    QuestionClosed(QuestionPayload),
    ConstraintSet(ConstraintPayload),
    ConstraintViolated(ConstraintPayload),
    FailureRecorded(Box<FailureRecorded>),
    FailureResolved(FailureResolved),
    PolicyChanged(PolicyChanged),
    SnapshotWritten(SnapshotWritten),
    CompactionFailed(CompactionFailed),
    Noted(Noted),
    /// A verbose event. Its payload is not kept, because nothing may depend on it.
    Verbose {
        name: SharedText,
        known: bool,
    },
}

/// One event of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// The run it belongs to.
    pub run_id: SharedText,
    /// Its place in the log, dense from 1.
    pub seq: u64,
    /// When it happened; informative, order is `seq`.
    pub ts: Timestamp,
    /// The step it belongs to; `None` at run level.
    pub step_id: Option<u64>,
    pub phase: Phase,
    pub agent_role: Option<AgentRole>,
    /// The producer's idempotency key; `<run_id>:<seq>` when absent.
    pub given_id: Option<SharedText>,
    pub body: Body,
}

/// Why a line is not a run event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Not JSON, or a member of the envelope is missing or has the wrong type.
    #[error("read the event envelope: {0}")]
    Envelope(serde_json::Error),
    /// The payload does not fit its event type.
    #[error("read the payload of {event_type}: {source}")]
    Payload {
        /// The type that says what the payload must be.
        event_type: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A member has a value the contract does not allow.
    #[error("{0}")]
    Value(String),
    /// Longer than an envelope around the largest payload.
    #[error("longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
}

impl RunEvent {
    /// The line of this event, with its line end. A verbose event is written with an empty
    /// payload, since reading one drops it.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::Map::new();
        line.insert("schema".into(), SCHEMA.into());
        line.insert("run_id".into(), (*self.run_id).into());
        line.insert("seq".into(), self.seq.into());
        line.insert("ts".into(), self.ts.to_string().into());
        line.insert("step_id".into(), self.step_id.into());
        line.insert("phase".into(), json_of(&self.phase));
        line.insert("type".into(), self.type_name().into());
        if let Some(role) = &self.agent_role {
            line.insert("agent_role".into(), json_of(role));
        }
        if let Some(id) = &self.given_id {
            line.insert("event_id".into(), (**id).into());
        }
        line.insert("payload".into(), json_of(&Payload(&self.body)));
        format!("{}\n", serde_json::Value::Object(line))
    }

    /// Digest of type, step, phase and payload, without position and time: equal for a repeated
    /// append.
    pub(crate) fn content_digest(&self) -> Digest {
        let content = (self.type_name(), self.step_id, self.phase, Payload(&self.body));
        // Only these payloads keep members in the order they were given, so only they need the
        // canonical form.
        let text = match &self.body {
            Body::RunStarted(_) | Body::Manifest(_) => to_jcs(&content),
            _ => serde_json::to_string(&content),
        };
        sha256(text.expect("event payloads have string keys and finite numbers"))
    }

    /// What compaction does with it.
    pub fn class(&self) -> Class {
        match &self.body {
            Body::PlanDone(_) | Body::ActDone(_) | Body::ObserveDone(_) => Class::Terminal,
            Body::Verbose { .. } => Class::Verbose,
            _ => Class::State,
        }
    }

    /// The event type as written.
    pub fn type_name(&self) -> &str {
        match &self.body {
            Body::RunStarted(_) => "RUN_STARTED",
            Body::RunStopped(_) => "RUN_STOPPED",
            Body::PlanDone(_) => "PLAN_DONE",
            Body::ActDone(_) => "ACT_DONE",
            Body::ObserveDone(_) => "OBSERVE_DONE",
            Body::Manifest(_) => "CONTEXT_MANIFEST_WRITTEN",
            Body::ChunksSeen(_) => "CHUNKS_SEEN",
            Body::ClaimAdded(_) => "CLAIM_ADDED",
            Body::EvidenceAttached(_) => "EVIDENCE_ATTACHED",
            Body::ClaimVerified(_) => "CLAIM_VERIFIED",
            Body::ClaimRetracted(_) => "CLAIM_RETRACTED",
            Body::ConflictRecorded(_) => "CONFLICT_RECORDED",
            Body::ConflictResolved(_) => "CONFLICT_RESOLVED",
            Body::QuestionOpened(_) => "QUESTION_OPENED",
            Body::QuestionClosed(_) => "QUESTION_CLOSED",
            Body::ConstraintSet(_) => "CONSTRAINT_SET",
            Body::ConstraintViolated(_) => "CONSTRAINT_VIOLATED",
            Body::FailureRecorded(_) => "FAILURE_RECORDED",
            Body::FailureResolved(_) => "FAILURE_RESOLVED",
            Body::PolicyChanged(_) => "POLICY_CHANGED",
            Body::SnapshotWritten(_) => "SNAPSHOT_WRITTEN",
            Body::CompactionFailed(_) => "COMPACTION_FAILED",
            Body::Noted(Noted::OverrideSet) => "OVERRIDE_SET",
            Body::Noted(Noted::LoopDetected) => "LOOP_DETECTED",
            Body::Noted(Noted::BudgetWarning) => "BUDGET_WARNING",
            Body::Noted(Noted::Handoff) => "HANDOFF",
            Body::Verbose { name, .. } => name,
        }
    }

    /// False when an event of this type and phase must have a `step_id`.
    pub(super) fn may_lack_a_step(&self) -> bool {
        match self.class() {
            Class::Verbose => true,
            Class::Terminal => false,
            Class::State => {
                let run_level = matches!(
                    self.body,
                    Body::RunStarted(_)
                        | Body::RunStopped(_)
                        | Body::PolicyChanged(_)
                        | Body::SnapshotWritten(_)
                        | Body::CompactionFailed(_)
                        | Body::Noted(_)
                );
                run_level || (self.phase == Phase::Run && !matches!(self.body, Body::Manifest(_)))
            }
        }
    }
}

/// The payload of an event as it is written.
struct Payload<'a>(&'a Body);

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Body::RunStarted(p) => p.serialize(serializer),
            Body::RunStopped(p) => p.serialize(serializer),
            Body::PlanDone(p) => p.serialize(serializer),
            Body::ActDone(p) => p.serialize(serializer),
            Body::ObserveDone(p) => p.serialize(serializer),
            Body::Manifest(p) => p.serialize(serializer),
            Body::ChunksSeen(p) => p.serialize(serializer),
            Body::ClaimAdded(p) => p.serialize(serializer),
            Body::EvidenceAttached(p) => p.serialize(serializer),
            Body::ClaimVerified(p) | Body::ClaimRetracted(p) => p.serialize(serializer),
            Body::ConflictRecorded(p) => p.serialize(serializer),
            Body::ConflictResolved(p) => p.serialize(serializer),
            Body::QuestionOpened(p) | Body::QuestionClosed(p) => p.serialize(serializer),
            Body::ConstraintSet(p) | Body::ConstraintViolated(p) => p.serialize(serializer),
            Body::FailureRecorded(p) => p.serialize(serializer),
            Body::FailureResolved(p) => p.serialize(serializer),
            Body::PolicyChanged(p) => p.serialize(serializer),
            Body::SnapshotWritten(p) => p.serialize(serializer),
            Body::CompactionFailed(p) => p.serialize(serializer),
            Body::Noted(_) | Body::Verbose { .. } => serializer.collect_map::<&str, (), _>([]),
        }
    }
}

impl fmt::Display for RunEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at seq {}", self.type_name(), self.seq)
    }
}

/// True for a run id that can also be a directory name.
pub(crate) fn is_run_id(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !text.is_empty()
        && text.len() <= ID_BYTES_MAX
        && text.bytes().all(legal)
        && text != "."
        && text != ".."
}

fn json_of<T: Serialize + ?Sized>(value: &T) -> serde_json::Value {
    serde_json::to_value(value).expect("event payloads have string keys and finite numbers")
}
