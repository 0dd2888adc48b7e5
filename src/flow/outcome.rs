//! The result of a flow: an outcome with its provenance, or an error with its class.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hierarchy::{Coverage, Hierarchy};
use super::project::SummaryOutputs;
use super::render::{ENGINE, ENGINE_VERSION};
use crate::contract::hash::Digest;
use crate::contract::schema::Violation;
use crate::contract::told::ToldFailure;
use crate::contract::vocabulary::FailureCause;
use crate::model::{ErrorClass, Message, ModelError, ModelIdentity, ModelReply, StopReason, Usage};

/// One call to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    pub node: String,
    /// 0 for the question itself, then one for each repair or raised limit.
    pub turn: u32,
    /// Hash of everything the answer depends on.
    pub request_hash: String,
    /// Hash of the rendered prompt.
    pub rendered_sha256: Digest,
    /// True when the answer came from the reply cache and cost nothing.
    pub reused: bool,
    pub usage: Usage,
    pub stop: StopReason,
    /// The model that answered.
    pub identity: ModelIdentity,
    /// The answer as received.
    pub text: String,
    /// The conversation, when prompts are kept; none where the embedded summarizer condensed a part by rule that
    /// no prompt shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
}

/// A passage of a source that a statement of the output quotes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceRef {
    /// JSON pointer into the structured output.
    pub pointer: String,
    pub quote: String,
    /// Whether a source holds the quote verbatim.
    pub located: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<String>,
    /// First byte in the normalized text of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<usize>,
    /// One past the last byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
}

/// An id that was removed from an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedId {
    /// JSON pointer into the answer as the model gave it.
    pub pointer: String,
    pub id: String,
}

/// A quote that was removed from an answer, because no source has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedQuote {
    /// JSON pointer into the answer as the model gave it.
    pub pointer: String,
    /// Its beginning.
    pub quote: String,
}

/// A label of a source in an answer, such as `[2]`, for which the ids of the source were put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedLabel {
    /// JSON pointer into the answer as the model gave it.
    pub pointer: String,
    pub label: String,
    /// The first of the ids that it stands for.
    pub ids: Vec<String>,
}

/// What was checked, and what had to be corrected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quality {
    /// The checks that the output passed.
    pub checks: Vec<String>,
    /// Whether the model was asked to correct its answer.
    pub repaired: bool,
    /// Whether the token limit cut the text off.
    pub truncated: bool,
    /// Whether the condensed text that the flow read was cut, because even that did not fit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub condensed_cut: bool,
    /// Ids that the model named, that the request does not have, and that were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_ids: Vec<RemovedId>,
    /// How many ids were removed; the list is bounded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub removed_ids_count: usize,
    /// Quotes that no source has, and that were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_quotes: Vec<RemovedQuote>,
    /// How many quotes were removed; the list is bounded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub removed_quotes_count: usize,
    /// Labels of sources that ids replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_labels: Vec<ReplacedLabel>,
    /// How many labels were replaced; the list is bounded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replaced_labels_count: usize,
    /// Why members of the output are null, where some are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null_means: Option<String>,
    /// Inputs for facts that a parameter gave: of the sources, because they do not say them, or of the day of the
    /// request and of the profile of the home, in whose place it stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts_from_params: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Parameters with the name of an input that is bound to a fact of the sources, of the request or of the home.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ParamFacts {
    /// The input got the parameter.
    pub used: Vec<String>,
    /// The input got what the sources say, or the zone of the home.
    pub ignored: Vec<String>,
    /// Those of them that are the zone.
    pub(crate) zones: Vec<String>,
    /// The zone of the home, which they got.
    pub(crate) zone: String,
}

impl ParamFacts {
    /// Which parameters were not used, and what was used instead.
    pub(super) fn why_ignored(&self) -> String {
        let of_sources = self.ignored.iter().filter(|name| !self.zones.contains(name));
        let of_sources: Vec<&str> = of_sources.map(String::as_str).collect();
        let said = match of_sources.as_slice() {
            [] => None,
            names => Some(format!("the sources say it: {}", names.join(", "))),
        };
        let zone = match self.zones.as_slice() {
            [] => None,
            names => Some(format!(
                "the times of the sources are written in {}, the time zone of the home: {}",
                self.zone,
                names.join(", ")
            )),
        };
        said.into_iter().chain(zone).collect::<Vec<_>>().join("; because ")
    }
}

/// The result of a flow that succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// The outputs the flow declares.
    pub outputs: Map<String, Value>,
    /// The fields of a summary.
    pub summary: SummaryOutputs,
    pub structured: Value,
    /// Id of the schema of `structured`.
    pub(crate) schema_id: Option<String>,
    /// The synthesis tree, when one was built.
    pub hierarchy: Option<Hierarchy>,
    /// Which sources were used, and why others were not.
    pub coverage: Coverage,
    pub evidence: Vec<EvidenceRef>,
    pub quality: Quality,
    /// The model of the last call.
    pub model: ModelIdentity,
    /// False when every word was taken from the sources by a deterministic provider.
    pub model_generated: bool,
    /// Identity of the prompt.
    pub prompt_hash: Digest,
    /// Hash of what was rendered.
    pub rendered_prompt_sha256: Digest,
    /// Name of the template engine. Outcomes that are read were written by this program.
    #[serde(skip_deserializing, default = "engine")]
    pub engine: &'static str,
    #[serde(skip_deserializing, default = "engine_version")]
    pub engine_version: &'static str,
    /// Tokens of all calls that were not answered from the reply cache.
    pub usage: Usage,
    /// Warnings: `unknown_param` and others.
    pub warnings: Vec<String>,
    /// Parameters beside what the sources say themselves.
    #[serde(default)]
    pub(crate) param_facts: ParamFacts,
    pub calls: Vec<CallRecord>,
    /// Metrics logged by aggregation nodes.
    pub metrics: Map<String, Value>,
    /// The values of this line that aggregation nodes read, by reference.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub for_aggregation: Map<String, Value>,
}

fn engine() -> &'static str {
    ENGINE
}

fn engine_version() -> &'static str {
    ENGINE_VERSION
}

/// Why a flow failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub enum FlowProblem {
    /// An input or parameter cannot be used.
    #[error("{0}")]
    Input(ToldFailure),
    /// A template failed on these values.
    #[error(transparent)]
    Template(#[from] super::render::TemplateError),
    /// A rendered prompt is not a conversation.
    #[error("node {node}: {source}")]
    Roles {
        node: String,
        #[source]
        source: super::roles::NoConversation,
    },
    /// The model gave no answer.
    #[error("node {node}: {source}")]
    Model {
        node: String,
        #[source]
        source: ModelError,
    },
    /// The answer does not fit the schema, and repair did not help.
    #[error("node {node}: the answer does not fit the output schema: {}", first(errors))]
    Schema {
        node: String,
        errors: Vec<Violation>,
        /// The last answer as received.
        raw: String,
    },
    /// The answer is cut off, and a higher limit did not help.
    #[error(
        "node {node}: the answer was cut off at the token limit, also at a raised one; give it more \
         with max_tokens and context_tokens of the provider, or ask for less"
    )]
    CutOff {
        node: String,
        /// The answer as received.
        raw: String,
    },
    /// The answer has no text, and a higher limit did not help.
    #[error(
        "node {node}: the model answered {tokens} tokens and no text{}",
        match cut_off {
            true => "; it used up the limit before its first word, as models do that think: raise \
                     max_tokens, or lower reasoning_effort",
            false => "; ask again, or try another model",
        }
    )]
    Empty { node: String, tokens: u64, cut_off: bool },
    /// An answer that was paid for is kept and cannot be read.
    #[error("node {node}: read the answer that the log keeps: {reason}")]
    Kept { node: String, reason: String },
    /// A Python node failed.
    #[error("node {node}: {reason}")]
    Python { node: String, reason: ToldFailure, timed_out: bool },
    /// A node cannot run here.
    #[error("node {node} cannot run here: {reason}")]
    Unsupported { node: String, reason: String },
    /// A reference names a value that does not exist.
    #[error("{0}")]
    Reference(String),
    /// The text must stay on this machine, and no provider here can take it.
    #[error("{0}")]
    KeptHere(String),
    #[error("stopped")]
    Cancelled,
    /// The process that ran the flow ended, or was ended.
    #[error("run the flow in its process: {reason}")]
    Stopped { by: StoppedBy, reason: ToldFailure },
}

/// What ended the process that ran a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoppedBy {
    /// The process did not start, ended by a signal that was not sent on purpose, or aborted.
    Crash,
    /// The process needed more memory than its limit.
    Memory,
    /// The process needed more time than its limit.
    Time,
}

impl FlowProblem {
    /// The same problem with other words in the place of those of others. The words of a schema and of a role are ours, and
    /// a violation quotes nothing.
    pub(crate) fn rewritten(mut self, rewritten: &dyn Fn(&str) -> String) -> FlowProblem {
        match &mut self {
            FlowProblem::Input(reason)
            | FlowProblem::Template(super::render::TemplateError { reason, .. })
            | FlowProblem::Python { reason, .. }
            | FlowProblem::Stopped { reason, .. } => reason.rewrite(rewritten),
            FlowProblem::Model { node, source } => {
                let (node, source) = (std::mem::take(node), source.clone().rewritten(rewritten));
                return FlowProblem::Model { node, source };
            }
            FlowProblem::Roles { .. }
            | FlowProblem::Schema { .. }
            | FlowProblem::CutOff { .. }
            | FlowProblem::Empty { .. }
            | FlowProblem::Kept { .. }
            | FlowProblem::Unsupported { .. }
            | FlowProblem::Reference(_)
            | FlowProblem::KeptHere(_)
            | FlowProblem::Cancelled => {}
        }
        self
    }

    /// Whether its answer comes with a batch.
    pub(crate) fn waits_for_batch(&self) -> bool {
        matches!(self, FlowProblem::Model { source, .. } if source.waits_for_batch())
    }

    /// Whether a shorter input may help: the answer stayed cut off, or the prompt was too long.
    pub(super) fn needs_shorter_input(&self) -> bool {
        match self {
            FlowProblem::CutOff { .. } => true,
            FlowProblem::Model { source, .. } => source.class() == ErrorClass::OverLimit,
            FlowProblem::Template(error) => error.too_long,
            _ => false,
        }
    }
}

fn first(errors: &[Violation]) -> String {
    match errors {
        [] => String::new(),
        [only] => only.to_string(),
        [one, more @ ..] => format!("{one} (and {} more)", more.len()),
    }
}

/// A flow that failed, with the calls it made and their cost.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("{problem}")]
pub struct FlowError {
    #[source]
    pub problem: Box<FlowProblem>,
    /// Tokens that were paid before the failure.
    pub usage: Usage,
    /// The calls that were answered.
    pub calls: Vec<CallRecord>,
    /// The number of calls that were tried and got no answer.
    pub unanswered: u64,
}

/// What to do about a [`FlowError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowErrorClass {
    /// Wait; no attempt is used.
    Pause,
    /// Try again later; an attempt is used.
    Transient,
    /// Give up.
    Permanent,
    /// Give up: the model declines.
    Refused,
    /// Give up: `output_schema_violation`.
    OutputSchemaViolation,
    /// Reject: `invalid_params`.
    InvalidParams,
}

impl FlowError {
    /// A failure before the first call.
    pub(crate) fn without_calls(problem: FlowProblem) -> FlowError {
        let (problem, usage) = (Box::new(problem), Usage::default());
        FlowError { problem, usage, calls: Vec::new(), unanswered: 0 }
    }

    /// The process of the flow gave no answer.
    pub(crate) fn stopped(reason: &str) -> FlowError {
        let (by, reason) = (StoppedBy::Crash, reason.into());
        FlowError::without_calls(FlowProblem::Stopped { by, reason })
    }

    pub fn class(&self) -> FlowErrorClass {
        match &*self.problem {
            FlowProblem::Input(_) => FlowErrorClass::InvalidParams,
            FlowProblem::Schema { .. } => FlowErrorClass::OutputSchemaViolation,
            FlowProblem::Python { timed_out: true, .. }
            | FlowProblem::Cancelled
            | FlowProblem::Stopped { .. } => FlowErrorClass::Transient,
            FlowProblem::Model { source, .. } => match source.class() {
                ErrorClass::Pause => FlowErrorClass::Pause,
                ErrorClass::Transient => FlowErrorClass::Transient,
                ErrorClass::Refused => FlowErrorClass::Refused,
                ErrorClass::Permanent | ErrorClass::OverLimit => FlowErrorClass::Permanent,
            },
            _ => FlowErrorClass::Permanent,
        }
    }

    /// How long to wait, when known.
    pub fn retry_after(&self) -> Option<Duration> {
        match &*self.problem {
            FlowProblem::Model { source, .. } => source.retry_after(),
            _ => None,
        }
    }

    /// What the flow met, where it is more than the reason says.
    pub fn cause(&self) -> Option<FailureCause> {
        match &*self.problem {
            FlowProblem::Model { source, .. } => Some(source.cause()),
            FlowProblem::Schema { .. } => Some(FailureCause::Schema),
            FlowProblem::CutOff { .. } | FlowProblem::Empty { cut_off: true, .. } => {
                Some(FailureCause::CutOff)
            }
            FlowProblem::Empty { .. } | FlowProblem::Kept { .. } => {
                Some(FailureCause::InvalidAnswer)
            }
            FlowProblem::Python { timed_out: true, .. } => Some(FailureCause::Timeout),
            FlowProblem::Python { .. } => Some(FailureCause::Program),
            FlowProblem::Unsupported { .. } => Some(FailureCause::Configuration),
            FlowProblem::KeptHere(_) => Some(FailureCause::NotLocal),
            FlowProblem::Stopped { by, .. } => Some(match by {
                StoppedBy::Crash => FailureCause::WorkerCrashed,
                StoppedBy::Memory => FailureCause::OutOfMemory,
                StoppedBy::Time => FailureCause::Timeout,
            }),
            _ => None,
        }
    }

    /// The reason code of the acknowledgement.
    pub fn reason_code(&self) -> &'static str {
        match &*self.problem {
            FlowProblem::Input(_) => "invalid_params",
            FlowProblem::Schema { .. } => "output_schema_violation",
            FlowProblem::Python { timed_out: true, .. } => "timeout",
            FlowProblem::Model { source, .. } => match source {
                ModelError::Paused { cause, .. } if !cause.puts_off() => "unavailable",
                ModelError::Paused { .. } | ModelError::Budget { .. } => "rate_limited",
                ModelError::Transient { .. } => "unavailable",
                ModelError::Timeout { .. } => "timeout",
                _ => "model_error",
            },
            FlowProblem::Cancelled => "unavailable",
            FlowProblem::Stopped { by: StoppedBy::Time, .. } => "timeout",
            FlowProblem::Stopped { .. } => "unavailable",
            _ => "model_error",
        }
    }
}

/// Answers that were received before. A reply is stored here before it is used, so that a crash
/// afterwards does not pay for it again.
pub trait ReplyCache: Send + Sync {
    /// An answer that is kept and cannot be read is an error: it was paid for.
    fn get(&self, request_hash: &str) -> Result<Option<ModelReply>, String>;
    fn put(&self, request_hash: &str, reply: &ModelReply);
}
