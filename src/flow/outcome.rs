//! What running a flow gives: an outcome with its provenance, or an error with its class.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::project::SummaryOutputs;
use super::tree::{Coverage, Hierarchy};
use crate::contract::schema::Violation;
use crate::model::{ErrorClass, Message, ModelError, ModelIdentity, ModelReply, StopReason, Usage};

/// One try of one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The node that asked.
    pub node: String,
    /// 0 for the question itself, then one for each repair or raised limit.
    pub turn: u32,
    /// Hash of everything the answer depends on.
    pub request_hash: String,
    /// Hash of the rendered prompt.
    pub rendered_sha256: String,
    /// True when the answer came from the reply cache and cost nothing.
    pub reused: bool,
    /// Tokens of this try.
    pub usage: Usage,
    /// Why the model stopped.
    pub stop: StopReason,
    /// Who answered.
    pub identity: ModelIdentity,
    /// The answer as received.
    pub text: String,
    /// The conversation, when prompts are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
}

/// A place in a source that says what the output says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceRef {
    /// JSON pointer into the structured output.
    pub pointer: String,
    /// The quoted text.
    pub quote: String,
    /// Whether the quote stands verbatim in a source.
    pub located: bool,
    /// The source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<String>,
    /// First byte in the normalized text of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<usize>,
    /// One past the last byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
}

/// How sound the output is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quality {
    /// Checks that were made and held.
    pub checks: Vec<String>,
    /// Whether the model had to be shown its errors.
    pub repaired: bool,
    /// Whether the model ran into its limit and the text is cut off.
    pub truncated: bool,
}

/// What a flow gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowOutcome {
    /// The outputs the flow declares.
    pub outputs: Map<String, Value>,
    /// The fields of a summary.
    pub summary: SummaryOutputs,
    /// The structured output.
    pub structured: Value,
    /// Name of its schema.
    pub schema_id: Option<String>,
    /// The synthesis tree, when one was built.
    pub hierarchy: Option<Hierarchy>,
    /// Which sources were used, and why others were not.
    pub coverage: Coverage,
    /// Where the output's statements come from.
    pub evidence: Vec<EvidenceRef>,
    /// How sound it is.
    pub quality: Quality,
    /// Who answered last.
    pub model: ModelIdentity,
    /// False when every word was taken from the sources by a deterministic provider.
    pub model_generated: bool,
    /// Identity of the prompt.
    pub prompt_hash: String,
    /// Hash of what was rendered.
    pub rendered_prompt_sha256: String,
    /// Name of the template engine.
    pub engine: &'static str,
    /// Its version.
    pub engine_version: &'static str,
    /// Tokens over every try that was paid now.
    pub usage: Usage,
    /// Warnings: `unknown_param` and others.
    pub warnings: Vec<String>,
    /// Every try.
    pub calls: Vec<CallRecord>,
    /// Metrics logged by aggregation nodes.
    pub metrics: Map<String, Value>,
    /// What aggregation nodes want from this line, by reference.
    #[serde(skip)]
    pub(crate) for_aggregation: Map<String, Value>,
}

/// What went wrong, in the words of the flow.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FlowProblem {
    /// An input or parameter cannot be used.
    #[error("bind the inputs: {0}")]
    Input(String),
    /// A template failed on these values.
    #[error(transparent)]
    Template(#[from] super::render::TemplateError),
    /// A rendered prompt is no conversation.
    #[error("node {node}: {source}")]
    Roles {
        /// The node.
        node: String,
        /// What is missing.
        #[source]
        source: super::roles::NoConversation,
    },
    /// The model gave no answer.
    #[error("node {node}: {source}")]
    Model {
        /// The node.
        node: String,
        /// What happened.
        #[source]
        source: ModelError,
    },
    /// The answer does not fit the schema, and repair did not help.
    #[error("node {node}: the answer does not fit the output schema: {}", first(errors))]
    Schema {
        /// The node.
        node: String,
        /// Every violation.
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
        /// The node.
        node: String,
        /// The answer as received.
        raw: String,
    },
    /// A Python node failed.
    #[error("node {node}: {reason}")]
    Python {
        /// The node.
        node: String,
        /// What happened.
        reason: String,
        /// True when it took too long.
        timed_out: bool,
    },
    /// A node cannot run here.
    #[error("node {node} cannot run here: {reason}")]
    Unsupported {
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
    /// A reference led nowhere.
    #[error("{0}")]
    Reference(String),
    /// Somebody asked to stop.
    #[error("stopped")]
    Cancelled,
}

impl FlowProblem {
    /// Whether a shorter input may help: the answer stayed cut off, or the prompt was too
    /// long for the model or for any.
    pub(super) fn is_for_want_of_room(&self) -> bool {
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
        [only] => format!("at `{}`: {}", only.pointer, only.message),
        [one, more @ ..] => {
            format!("at `{}`: {} (and {} more)", one.pointer, one.message, more.len())
        }
    }
}

/// A flow that gave nothing. What it cost and what was said is kept.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{problem}")]
pub struct FlowError {
    /// What went wrong.
    #[source]
    pub problem: Box<FlowProblem>,
    /// Tokens that were paid all the same.
    pub usage: Usage,
    /// Every try.
    pub calls: Vec<CallRecord>,
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
    /// What to do about it.
    pub fn class(&self) -> FlowErrorClass {
        match &*self.problem {
            FlowProblem::Input(_) => FlowErrorClass::InvalidParams,
            FlowProblem::Schema { .. } => FlowErrorClass::OutputSchemaViolation,
            FlowProblem::Python { timed_out: true, .. } | FlowProblem::Cancelled => {
                FlowErrorClass::Transient
            }
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

    /// The reason code of the acknowledgement.
    pub fn reason_code(&self) -> &'static str {
        match &*self.problem {
            FlowProblem::Input(_) => "invalid_params",
            FlowProblem::Schema { .. } => "output_schema_violation",
            FlowProblem::Python { timed_out: true, .. } => "timeout",
            FlowProblem::Model { source, .. } => match source {
                ModelError::Paused { .. } | ModelError::Budget { .. } => "rate_limited",
                ModelError::Transient { .. } => "unavailable",
                ModelError::Timeout { .. } => "timeout",
                _ => "model_error",
            },
            FlowProblem::Cancelled => "unavailable",
            _ => "model_error",
        }
    }
}

/// Answers that were received before. A reply is put here before anything is made of it, so
/// that a crash afterwards costs nothing.
pub trait ReplyCache: Send + Sync {
    /// The reply to a request with this hash.
    fn get(&self, request_hash: &str) -> Option<ModelReply>;
    /// Keeps a reply.
    fn put(&self, request_hash: &str, reply: &ModelReply);
}
