//! Models behind one trait: what is asked, what comes back, and what can go wrong.
//!
//! Contract: a [`Provider`] gets one finished conversation and answers once. It never retries, never
//! sleeps, never counts money: rates, budgets, pauses and fallbacks are one concern of all providers
//! and live in [`gate`]. It reads its key from the environment variable its configuration names,
//! and no error, reply or record of it ever holds that key.
//!
//! Deliberately not here: prompts (rendered in `flow`), validation of answers (`flow`), persistence
//! (a reply is data; whoever runs the flow stores it).

mod anthropic;
pub mod builtin;
mod command;
pub mod gate;
mod http;
mod openai;
pub mod probe;
mod providers;
pub mod recorded;
pub mod redact;

pub use anthropic::Anthropic;
pub use command::CommandProvider;
pub use http::Secret;
pub use openai::OpenAi;
pub use providers::{ProviderError, Providers};

use std::time::Duration;

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs;
use crate::contract::time::Day;

use builtin::fill::hints::Hints;

/// Name of the embedded provider.
pub const BUILTIN: &str = "builtin";

/// Most tokens that anybody can mean to have counted in one call.
const TOKENS_MAX: u64 = 1 << 30;

/// Who speaks in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions of the pack.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
    /// The result of a function, in the older tool protocol.
    Function,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// The role as the chat protocols spell it.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Function => "function",
            Role::Tool => "tool",
        }
    }
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: String,
    /// `name`, `tool_calls`, `tool_call_id` of tool conversations; nearly always empty.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl Message {
    /// A plain message.
    pub fn new(role: Role, text: impl Into<String>) -> Message {
        Message { role, text: text.into(), fields: Map::new() }
    }
}

/// The normalized text of one source. Spans are half-open UTF-8 byte offsets into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceText {
    /// The upstream id, byte for byte.
    pub id: String,
    /// The text after normalization.
    pub text: String,
}

/// A stretch of one source: `start..end` are UTF-8 byte offsets into `sources[source].text`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Index into the sources of the call.
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// How the answer is to be shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that fits the schema of the call.
    JsonSchema,
}

/// What is asked: the next message of a conversation, or how a text goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// A conversation.
    #[default]
    Chat,
    /// One text. Providers that only know conversations take it as what the user says.
    Completion,
}

impl Api {
    fn is_chat(&self) -> bool {
        *self == Api::Chat
    }
}

/// Sampling and limits of one call. `None` leaves the choice to the provider's configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CallSettings {
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Most tokens of the answer.
    pub max_tokens: Option<u32>,
    /// Texts at which the answer ends.
    #[serde(default)]
    pub stop: Vec<String>,
    /// Sampling seed.
    pub seed: Option<i64>,
    /// Shape of the answer.
    #[serde(default)]
    pub response_format: ResponseFormat,
    /// Conversation or text.
    #[serde(default, skip_serializing_if = "Api::is_chat")]
    pub api: Api,
    /// Model or deployment the node names; used where the provider's configuration names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the reply is wanted as the server sent it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_reply: bool,
    /// Further parameters of the node (`top_p`, `tools`, `logit_bias`, …), passed through where the
    /// provider knows them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// What one call cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    /// Who bills, and for which model.
    pub identity: ModelIdentity,
    /// The day it counts on.
    pub day: Day,
    /// Tokens that were counted or, for an estimate, reserved.
    pub usage: Usage,
    /// In the currency of the prices.
    pub cost: f64,
    /// True when nobody counted: a lost answer, or a server that does not count.
    pub estimated: bool,
}

/// Hears what every call costs, the lost ones too, before its answer is used.
pub trait Bill: Send + Sync {
    /// A call was paid for.
    fn charge(&self, charge: Charge);
}

/// One question to a model.
#[derive(Clone)]
pub struct ModelCall<'a> {
    /// The flow that asks.
    pub flow_id: &'a str,
    /// Its variant, if any.
    pub variant: Option<&'a str>,
    /// The node of the flow (`<node>#leaf` and the like inside a hierarchical synthesis).
    pub node: &'a str,
    /// The rendered conversation.
    pub messages: &'a [Message],
    /// The inputs of the flow.
    pub inputs: &'a Map<String, Value>,
    /// The texts the answer is about.
    pub sources: &'a [SourceText],
    /// The schema the answer must fit, when it must be JSON.
    pub schema: Option<&'a Value>,
    /// The same, ready to be held against an answer.
    pub validator: Option<&'a Validator>,
    /// The pack's `hints.json`.
    pub hints: Option<&'a Hints>,
    /// Sampling and limits.
    pub settings: CallSettings,
    /// Most time the call may take, waiting for its turn included.
    pub timeout: Duration,
    /// Who hears what it costs.
    pub bill: Option<&'a dyn Bill>,
    /// The model the configuration wants for this flow, before every other choice.
    pub model: Option<&'a str>,
}

impl ModelCall<'_> {
    /// Hash of what an answer depends on, whoever gives it: the key recorded answers are found by.
    pub fn request_hash(&self) -> Digest {
        self.request_hash_with(self.schema.map(jcs).as_deref())
    }

    /// The same, given the canonical form of the schema: that of a pack never changes, and writing it anew
    /// with every call takes longer than everything else about a call.
    pub fn request_hash_with(&self, schema: Option<&str>) -> Digest {
        // The canonical form of an object is made of those of its members, by name.
        let rest = |value: Value| jcs(&value);
        let (flow_id, node) = (rest(json!(self.flow_id)), rest(json!(self.node)));
        let (messages, settings) = (rest(json!(self.messages)), rest(json!(self.settings)));
        let (schema, variant) = (schema.unwrap_or("null"), rest(json!(self.variant)));
        sha256(format!(
            "{{\"flow_id\":{flow_id},\"messages\":{messages},\"node\":{node},\"schema\":{schema},\
             \"settings\":{settings},\"variant\":{variant}}}"
        ))
    }

    /// Roughly how many tokens the prompt has: one for three bytes.
    pub fn prompt_tokens(&self) -> u64 {
        let bytes: usize = self.messages.iter().map(|message| message.text.len() + 12).sum();
        (bytes as u64).div_ceil(3)
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done.
    End,
    /// It ran into the token limit: the answer is cut off.
    Length,
    /// The provider withheld the answer.
    Filtered,
}

/// Tokens of a call, as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
}

impl Usage {
    /// What a server counted, within reason: no answer has more tokens, and sums of them must hold.
    pub fn counted(input_tokens: u64, output_tokens: u64) -> Usage {
        let within = |count: u64| count.min(TOKENS_MAX);
        Usage { input_tokens: within(input_tokens), output_tokens: within(output_tokens) }
    }

    /// Both together.
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds another call's tokens.
    pub fn add(&mut self, other: Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// Where a piece of the output comes from, exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// JSON pointer to the string in the output; empty when the output is plain text.
    pub pointer: String,
    /// First byte inside that string.
    pub output_start: usize,
    /// One past the last byte inside that string.
    pub output_end: usize,
    /// The stretch of the source that says it.
    pub span: Span,
}

/// Which model answered, as the Summary Bus records it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelIdentity {
    /// Name of the provider in the configuration.
    pub provider: String,
    /// Model name.
    pub model_name: String,
    /// Model version; empty when unavailable.
    pub model_version: String,
    /// Sampling temperature; `None` when unknown.
    pub temperature: Option<f64>,
    /// Most tokens of an answer; `None` when unknown.
    pub max_tokens: Option<u32>,
    /// Whether a deterministic mode is on; `None` when the provider has none.
    pub deterministic_mode: Option<bool>,
    /// Sampling seed, when one is set.
    pub seed: Option<i64>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The answer.
    pub text: String,
    /// Why it ended.
    pub stop: StopReason,
    /// What it cost.
    pub usage: Usage,
    /// Exact provenance, where the provider knows it (the embedded one does).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Who answered: with a fallback chain not necessarily who was asked.
    pub identity: ModelIdentity,
    /// The whole message object of the protocol, when the call offered tools or functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Value>,
    /// The response as received, where the call wanted it and the provider has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// How many addresses, numbers and keys were taken out of what was asked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redacted: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why there is no answer. Every message is safe to log: no key, no prompt text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The provider asked for a pause, or a rate or the circuit breaker demands one. Waiting it out
    /// is not an attempt.
    #[error("wait for {provider}: {reason}")]
    Paused {
        /// The provider that pauses.
        provider: String,
        /// Why.
        reason: String,
        /// How long.
        retry_after: Duration,
    },
    /// Trying again later may help.
    #[error("reach {provider}: {reason}")]
    Transient {
        /// The provider.
        provider: String,
        /// What happened.
        reason: String,
        /// How long the provider wants to be left alone, when it says so.
        retry_after: Option<Duration>,
    },
    /// No answer within the time allowed.
    #[error(
        "wait for {provider}: no answer within {} s; workers.attempt_timeout is what a try may take",
        limit.as_secs_f64()
    )]
    Timeout {
        /// The provider.
        provider: String,
        /// The time allowed.
        limit: Duration,
    },
    /// Trying the same again cannot help.
    #[error("ask {provider}: {reason}")]
    Permanent {
        /// The provider.
        provider: String,
        /// What happened.
        reason: String,
    },
    /// The model or its guard declined to answer.
    #[error("ask {provider}: declined: {reason}")]
    Refused {
        /// The provider.
        provider: String,
        /// What it said.
        reason: String,
    },
    /// The conversation does not fit the model.
    #[error("ask {provider}: the prompt does not fit: {reason}")]
    OverLimit {
        /// The provider.
        provider: String,
        /// What it said.
        reason: String,
    },
    /// The day's budget is spent. Nothing was sent.
    #[error("stay within the budget: {reason}")]
    Budget {
        /// Which limit, and how far along it is.
        reason: String,
        /// Until a new day begins.
        retry_after: Duration,
    },
}

/// What to do about a [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Wait, then ask again; no attempt is used.
    Pause,
    /// Ask again later; an attempt is used.
    Transient,
    /// Give up.
    Permanent,
    /// Give up: the model declines.
    Refused,
    /// Split the input or give up.
    OverLimit,
}

impl ModelError {
    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            ModelError::Paused { .. } | ModelError::Budget { .. } => ErrorClass::Pause,
            ModelError::Transient { .. } | ModelError::Timeout { .. } => ErrorClass::Transient,
            ModelError::Permanent { .. } => ErrorClass::Permanent,
            ModelError::Refused { .. } => ErrorClass::Refused,
            ModelError::OverLimit { .. } => ErrorClass::OverLimit,
        }
    }

    /// How long to wait before asking again, when known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ModelError::Paused { retry_after, .. } | ModelError::Budget { retry_after, .. } => {
                Some(*retry_after)
            }
            ModelError::Transient { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// A model that answers.
pub trait Provider: Send + Sync {
    /// Who will answer, as far as that is known before asking.
    fn identity(&self) -> ModelIdentity;

    /// How many tokens a prompt and its answer may have together.
    fn context_tokens(&self) -> usize;

    /// False when that number is a cautious guess, because nobody configured one.
    fn context_is_known(&self) -> bool {
        true
    }

    /// Asks once.
    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError>;

    /// True when an answer costs nothing and is always the same, so that keeping it is pointless.
    fn is_free(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::json::jcs_hash;

    #[test]
    fn a_request_hash_is_that_of_the_canonical_object() {
        let schema = json!({"type": "object", "properties": {"é": {"const": 1.0}, "a": {}}});
        let messages = [Message::new(Role::User, "line\n\u{1}\u{7f} \"é\" \\")];
        let mut settings = CallSettings { temperature: Some(1.0), ..CallSettings::default() };
        settings.extra.insert("z".to_owned(), json!({"b": 1e30, "a": null}));
        for (variant, schema) in [(None, None), (Some("strict"), Some(&schema))] {
            let call = ModelCall {
                flow_id: "a.b.v1",
                variant,
                node: "ask",
                messages: &messages,
                inputs: &Map::new(),
                sources: &[],
                schema,
                validator: None,
                hints: None,
                settings: settings.clone(),
                timeout: Duration::from_secs(1),
                bill: None,
                model: None,
            };
            let whole = json!({
                "flow_id": "a.b.v1", "variant": variant, "node": "ask", "messages": messages,
                "settings": settings, "schema": schema,
            });
            assert_eq!(call.request_hash(), jcs_hash(&whole));
        }
    }
}
