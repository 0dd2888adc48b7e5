//! `run_event.v1`: one line of a run log, parsed and validated.
//!
//! The class of an event comes from its type, never from the line: *terminal* events are counted,
//! *state* events are folded, *verbose* events (unknown types among them) stay in the log and
//! touch nothing. A line that is not a valid event is an error, because a damaged log must not be
//! compacted around.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::payload::*;
use super::text::Text;
use crate::contract::hash::Digest;
use crate::contract::json::jcs_hash;
use crate::contract::time::{Timestamp, parse_instant};

/// The record kind of every line.
pub const SCHEMA: &str = "run_event.v1";
/// Largest payload; more belongs in an artifact with a pointer.
pub const PAYLOAD_BYTES_MAX: usize = 65_536;
/// Longest line: the payload and a generous envelope.
pub const LINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 16_384;
/// Longest id in the envelope.
pub const ID_BYTES_MAX: usize = 128;

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

/// Who acted.
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

/// A state event whose content no snapshot carries; it still makes its step a step.
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
#[allow(missing_docs, reason = "each variant is named like its event type")]
pub enum Body {
    RunStarted(Box<RunStarted>),
    RunStopped(RunStopped),
    PlanDone(PlanDone),
    ActDone(ActDone),
    ObserveDone(ObserveDone),
    Manifest(Box<Manifest>),
    ChunksSeen(ChunksSeen),
    ClaimAdded(ClaimAdded),
    EvidenceAttached(Box<EvidenceAttached>),
    ClaimVerified(ClaimRuled),
    ClaimRetracted(ClaimRuled),
    ConflictRecorded(Box<ConflictRecorded>),
    ConflictResolved(ConflictResolved),
    QuestionOpened(Question),
    QuestionClosed(Question),
    ConstraintSet(Constraint),
    ConstraintViolated(Constraint),
    FailureRecorded(Box<FailureRecorded>),
    FailureResolved(FailureResolved),
    PolicyChanged(PolicyChanged),
    SnapshotWritten(SnapshotWritten),
    CompactionFailed(CompactionFailed),
    Noted(Noted),
    /// A verbose event. Its payload is not kept in memory: nothing may depend on it.
    Verbose {
        name: Text,
        known: bool,
    },
}

const VERBOSE: [&str; 7] = [
    "STEP_STARTED",
    "PHASE_CHANGED",
    "INTENT_COMPILED",
    "RETRIEVAL_EXECUTED",
    "RERANK_EXECUTED",
    "TOOL_CALLED",
    "TOOL_RESULT_STORED",
];

/// One event of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// The run it belongs to.
    pub run_id: Text,
    /// Its place in the log, dense from 1.
    pub seq: u64,
    /// When it happened; informative, order is `seq`.
    pub ts: Timestamp,
    /// The step it belongs to; `None` at run level.
    pub step_id: Option<u64>,
    /// Where in the step.
    pub phase: Phase,
    /// Who acted.
    pub agent_role: Option<AgentRole>,
    /// The producer's idempotency key; `<run_id>:<seq>` when absent.
    pub given_id: Option<Text>,
    /// What happened.
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
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    #[serde(borrow)]
    run_id: Cow<'a, str>,
    seq: u64,
    #[serde(borrow)]
    ts: Cow<'a, str>,
    #[serde(deserialize_with = "Option::deserialize")]
    step_id: Option<u64>,
    phase: Phase,
    #[serde(borrow, rename = "type")]
    event_type: Cow<'a, str>,
    #[serde(default)]
    agent_role: Option<AgentRole>,
    #[serde(default)]
    event_id: Option<Text>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl RunEvent {
    /// Parses and validates one line, without its line end.
    pub fn parse(line: &[u8]) -> Result<RunEvent, EventError> {
        let raw: Envelope<'_> = serde_json::from_slice(line).map_err(EventError::Envelope)?;
        check_envelope(&raw)?;
        let ts = parse_instant(&raw.ts)
            .ok()
            .filter(|instant| instant.has_offset)
            .ok_or_else(|| EventError::Value(format!("ts {:?} is not a UTC instant", raw.ts)))?;
        let body = parse_body(&raw.event_type, raw.payload.get())?;
        let event = RunEvent {
            run_id: Text::from(&*raw.run_id),
            seq: raw.seq,
            ts: ts.at,
            step_id: raw.step_id,
            phase: raw.phase,
            agent_role: raw.agent_role,
            given_id: raw.event_id,
            body,
        };
        if event.step_id.is_none() && !event.may_lack_a_step() {
            return Err(EventError::Value(format!("{} needs a step_id", raw.event_type)));
        }
        Ok(event)
    }

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
        line.insert("payload".into(), self.payload());
        format!("{}\n", serde_json::Value::Object(line))
    }

    /// The idempotency key.
    pub fn event_id(&self) -> Cow<'_, str> {
        match &self.given_id {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(format!("{}:{}", self.run_id, self.seq)),
        }
    }

    /// Digest of what the event says, without its place and time: equal for a repeated append.
    pub fn content_digest(&self) -> Digest {
        jcs_hash(&serde_json::json!([
            self.type_name(),
            self.step_id,
            json_of(&self.phase),
            self.payload(),
        ]))
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

    fn may_lack_a_step(&self) -> bool {
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

    fn payload(&self) -> serde_json::Value {
        match &self.body {
            Body::RunStarted(p) => json_of(p),
            Body::RunStopped(p) => json_of(p),
            Body::PlanDone(p) => json_of(p),
            Body::ActDone(p) => json_of(p),
            Body::ObserveDone(p) => json_of(p),
            Body::Manifest(p) => json_of(p),
            Body::ChunksSeen(p) => json_of(p),
            Body::ClaimAdded(p) => json_of(p),
            Body::EvidenceAttached(p) => json_of(p),
            Body::ClaimVerified(p) | Body::ClaimRetracted(p) => json_of(p),
            Body::ConflictRecorded(p) => json_of(p),
            Body::ConflictResolved(p) => json_of(p),
            Body::QuestionOpened(p) | Body::QuestionClosed(p) => json_of(p),
            Body::ConstraintSet(p) | Body::ConstraintViolated(p) => json_of(p),
            Body::FailureRecorded(p) => json_of(p),
            Body::FailureResolved(p) => json_of(p),
            Body::PolicyChanged(p) => json_of(p),
            Body::SnapshotWritten(p) => json_of(p),
            Body::CompactionFailed(p) => json_of(p),
            Body::Noted(_) | Body::Verbose { .. } => serde_json::json!({}),
        }
    }
}

impl fmt::Display for RunEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at seq {}", self.type_name(), self.seq)
    }
}

/// True for a run id that can also be a directory name.
pub fn is_run_id(text: &str) -> bool {
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

fn check_envelope(raw: &Envelope<'_>) -> Result<(), EventError> {
    let fault = if raw.schema != SCHEMA {
        Some(format!("schema is {:?}, expected {SCHEMA:?}", raw.schema))
    } else if !is_run_id(&raw.run_id) {
        Some(format!("run_id {:?} must be 1 to 128 of A-Z a-z 0-9 . _ -", raw.run_id))
    } else if raw.seq == 0 {
        Some("seq starts at 1".to_owned())
    } else if raw.step_id == Some(0) {
        Some("step_id starts at 1".to_owned())
    } else if raw.event_type.is_empty() {
        Some("type is empty".to_owned())
    } else if raw.event_id.as_ref().is_some_and(|id| id.is_empty()) {
        Some("event_id is empty".to_owned())
    } else if !raw.payload.get().starts_with('{') {
        Some("payload is not an object".to_owned())
    } else if raw.payload.get().len() > PAYLOAD_BYTES_MAX {
        Some(format!("payload has {} bytes, over {PAYLOAD_BYTES_MAX}", raw.payload.get().len()))
    } else {
        None
    };
    fault.map_or(Ok(()), |message| Err(EventError::Value(message)))
}

fn parse_body(event_type: &str, payload: &str) -> Result<Body, EventError> {
    fn read<T: DeserializeOwned>(event_type: &str, payload: &str) -> Result<T, EventError> {
        serde_json::from_str(payload)
            .map_err(|source| EventError::Payload { event_type: event_type.to_owned(), source })
    }
    macro_rules! body {
        ($variant:ident) => {
            read(event_type, payload).map(Body::$variant)
        };
    }
    match event_type {
        "RUN_STARTED" => body!(RunStarted),
        "RUN_STOPPED" => body!(RunStopped),
        "PLAN_DONE" => body!(PlanDone),
        "ACT_DONE" => body!(ActDone),
        "OBSERVE_DONE" => body!(ObserveDone),
        "CONTEXT_MANIFEST_WRITTEN" => body!(Manifest),
        "CHUNKS_SEEN" => body!(ChunksSeen),
        "CLAIM_ADDED" => body!(ClaimAdded),
        "EVIDENCE_ATTACHED" => body!(EvidenceAttached),
        "CLAIM_VERIFIED" => body!(ClaimVerified),
        "CLAIM_RETRACTED" => body!(ClaimRetracted),
        "CONFLICT_RECORDED" => body!(ConflictRecorded),
        "CONFLICT_RESOLVED" => body!(ConflictResolved),
        "QUESTION_OPENED" => body!(QuestionOpened),
        "QUESTION_CLOSED" => body!(QuestionClosed),
        "CONSTRAINT_SET" => body!(ConstraintSet),
        "CONSTRAINT_VIOLATED" => body!(ConstraintViolated),
        "FAILURE_RECORDED" => body!(FailureRecorded),
        "FAILURE_RESOLVED" => body!(FailureResolved),
        "POLICY_CHANGED" => body!(PolicyChanged),
        "SNAPSHOT_WRITTEN" => body!(SnapshotWritten),
        "COMPACTION_FAILED" => body!(CompactionFailed),
        "OVERRIDE_SET" => Ok(Body::Noted(Noted::OverrideSet)),
        "LOOP_DETECTED" => Ok(Body::Noted(Noted::LoopDetected)),
        "BUDGET_WARNING" => Ok(Body::Noted(Noted::BudgetWarning)),
        "HANDOFF" => Ok(Body::Noted(Noted::Handoff)),
        other => Ok(Body::Verbose { name: other.into(), known: VERBOSE.contains(&other) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event_type: &str, step: &str, payload: &str) -> String {
        format!(
            r#"{{"schema":"run_event.v1","run_id":"r","seq":1,"ts":"2026-01-14T09:00:00Z","step_id":{step},"phase":"ACT","type":"{event_type}","payload":{payload}}}"#
        )
    }

    #[test]
    fn the_class_comes_from_the_type() {
        let class = |name: &str, payload: &str| {
            RunEvent::parse(line(name, "1", payload).as_bytes()).unwrap().class()
        };
        assert_eq!(
            class("PLAN_DONE", r#"{"plan_id":"p","action_type":"SEARCH"}"#),
            Class::Terminal
        );
        assert_eq!(class("HANDOFF", "{}"), Class::State);
        assert_eq!(class("TOOL_CALLED", r#"{"class":"terminal"}"#), Class::Verbose);
        assert_eq!(class("NEVER_HEARD_OF", "{}"), Class::Verbose);
    }

    #[test]
    fn faults_are_named() {
        let fault = |text: &str| RunEvent::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(fault("{").contains("envelope"));
        assert!(fault(&line("PLAN_DONE", "1", "{}")).contains("plan_id"));
        assert!(fault(&line("OBSERVE_DONE", "null", r#"{"progress":true}"#)).contains("step_id"));
        assert!(fault(&line("TOOL_CALLED", "0", "{}")).contains("step_id starts at 1"));
        assert!(fault(&line("TOOL_CALLED", "1", "[]")).contains("not an object"));
        let big = format!(r#"{{"x":"{}"}}"#, "y".repeat(PAYLOAD_BYTES_MAX));
        assert!(fault(&line("TOOL_CALLED", "1", &big)).contains("over 65536"));
        let good = line("TOOL_CALLED", "1", "{}");
        assert!(fault(&good.replace(r#""step_id":1,"#, "")).contains("step_id"));
        assert!(fault(&good.replace(r#""run_id":"r""#, r#""run_id":"../r""#)).contains("run_id"));
        assert!(fault(&good.replace("run_event.v1", "run_event.v2")).contains("schema"));
        assert!(fault(&good.replace("09:00:00Z", "09:00:00")).contains("ts"));
    }

    #[test]
    fn lines_round_trip() {
        let text = line("CLAIM_ADDED", "3", r#"{"claim_id":"c","statement":"naïve ☃"}"#);
        let event = RunEvent::parse(text.as_bytes()).unwrap();
        assert_eq!(RunEvent::parse(event.to_line().trim_end().as_bytes()).unwrap(), event);
        assert_eq!(event.event_id(), "r:1");
    }
}
