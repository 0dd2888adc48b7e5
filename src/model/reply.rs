//! What a model answered, which model it was, and what the answer cost.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::ModelError;

use super::thoughts;
use crate::contract::time::Day;
use crate::facts::dialect::LearnedDialect;
pub use crate::facts::model::{ModelIdentity, StopReason, Usage};

/// The cost of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    /// The provider and model that bill.
    pub identity: ModelIdentity,
    /// The day whose budget it counts against.
    pub day: Day,
    /// Tokens that were counted or, for an estimate, reserved.
    pub usage: Usage,
    /// In the currency of the prices.
    pub cost: f64,
    /// True when no count arrived: the answer was lost, or the server does not count.
    pub estimated: bool,
}

/// Receives the cost of every call, lost calls included, before the answer is used.
pub trait Bill: Send + Sync {
    fn charge(&self, charge: Charge);

    /// Hears of each provider that failed before one of its fallbacks answered.
    fn passed_over(&self, failed: &ModelIdentity, error: &ModelError, answered_by: &str);

    /// Hears how the dialect of a model changed.
    fn learned(&self, learned: LearnedDialect);

    /// Hears why the call waits before it is sent, and how long.
    fn waits(&self, why: &ModelError, time: Duration);
}

/// A stretch of one source: `start..end` are UTF-8 byte offsets into `sources[source].text`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceSpan {
    /// Index into the sources of the call.
    pub source: usize,
    pub start: usize,
    pub end: usize,
}

/// The source span that a part of the output comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// JSON pointer to the string in the output; empty when the output is plain text.
    pub pointer: String,
    /// First byte inside that string.
    pub(crate) output_start: usize,
    /// One past the last byte inside that string.
    pub(crate) output_end: usize,
    pub span: SourceSpan,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    pub text: String,
    pub stop: StopReason,
    pub usage: Usage,
    /// Exact provenance, where the provider knows it (the embedded one does).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// The model that answered. With fallbacks it may differ from the model that was asked first.
    pub identity: ModelIdentity,
    /// The whole message object of the protocol, when the call offered tools or functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Value>,
    /// The response as received, where the call wanted it and the provider has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// How many addresses, numbers and keys were removed from the question.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redacted: u64,
    /// Parameters that the server refuses and that were not sent, or were sent with another value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Tokens of the prompt that the server read from its cache or wrote into it, at other prices.
    #[serde(default, skip_serializing_if = "Cached::is_none")]
    pub cached: Cached,
}

/// Tokens of a prompt that have the prices of a cache. They are part of the tokens of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cached {
    pub read: u64,
    pub written: u64,
}

impl Cached {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_none(&self) -> bool {
        *self == Cached::default()
    }
}

impl ModelReply {
    /// Whether it has no text and calls no tool. Thoughts are no text.
    pub(crate) fn says_nothing(&self) -> bool {
        let calls = ["tool_calls", "function_call"];
        let has_call = |message: &Value| {
            calls.iter().any(|key| message.get(key).is_some_and(|call| !call.is_null()))
        };
        let said = thoughts::after(&self.text).unwrap_or(&self.text);
        said.trim().is_empty() && !self.message.as_ref().is_some_and(has_call)
    }

    /// A complete answer without evidence, message or raw response.
    pub fn plain(text: String, usage: Usage, identity: ModelIdentity) -> ModelReply {
        ModelReply {
            text,
            stop: StopReason::End,
            usage,
            evidence: Vec::new(),
            identity,
            message: None,
            raw: None,
            redacted: 0,
            left_out: Vec::new(),
            cached: Cached::default(),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
