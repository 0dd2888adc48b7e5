//! One question to a model: the conversation, the texts it is about, and the limits of the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::builtin::fill::hints::Hints;
use super::ending::CallEnd;
use super::error::ModelError;
use super::reply::{Bill, ModelReply};
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::json::jcs;

/// Who speaks in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
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
    pub role: Role,
    pub text: String,
    /// `name`, `tool_calls`, `tool_call_id` of tool conversations; nearly always empty.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl Message {
    pub fn new(role: Role, text: impl Into<String>) -> Message {
        Message { role, text: text.into(), fields: Map::new() }
    }
}

/// The normalized text of one source. Spans are half-open UTF-8 byte offsets into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceText {
    /// The upstream id, byte for byte.
    pub id: String,
    pub text: String,
}

/// Who says each source and on which day, by the id of the source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Speakers(pub BTreeMap<String, Speaker>);

/// The speaker of a text, and the day of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Speaker {
    /// `user`, `assistant`, …; only in a session.
    pub role: Option<String>,
    /// Only in a session.
    pub name: Option<String>,
    /// The day on which the text was written, by the clock of its writer: `2026-03-02`.
    pub day: Option<String>,
    /// The subject of a mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// The shape the answer must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that fits the schema of the call.
    JsonSchema,
}

/// The protocol of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// The model writes the next message of a conversation.
    #[default]
    Chat,
    /// The model continues one text. Providers that only know conversations send the text as a
    /// message of the user.
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
    pub temperature: Option<f64>,
    /// Most tokens of the answer.
    pub max_tokens: Option<u32>,
    /// The answer ends before the first of these texts.
    #[serde(default)]
    pub stop: Vec<String>,
    pub seed: Option<i64>,
    #[serde(default)]
    pub response_format: ResponseFormat,
    /// Whether only the request for JSON tells the form: the prompt may be silent about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent_form: bool,
    /// Whether the limit was raised already, because an earlier answer reached it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raised: bool,
    #[serde(default, skip_serializing_if = "Api::is_chat")]
    pub api: Api,
    /// Model or deployment that the node names; used where the provider's configuration names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the reply must keep the response as the server sent it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_reply: bool,
    /// Further parameters of the node (`top_p`, `tools`, `logit_bias`, …), passed through where the
    /// provider knows them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// How often a waiting call that gives way looks at its right of way.
pub(super) const GIVE_WAY_SLICE: Duration = Duration::from_millis(200);

/// The right of way of a call while it waits for a limit of its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RightOfWay {
    /// It goes before calls that give way.
    First,
    /// It waits until no call that goes first waits.
    GivesWay,
    /// It gives way, and an attempt that goes first waits for its thread: it must not wait at all.
    InTheWay,
    /// It went first, and the service ends: it must not begin.
    Ends,
    /// It gave way, and the service ends: it must not begin.
    ScheduledEnds,
}

impl RightOfWay {
    /// Whether a call may not wait for anything.
    pub(crate) fn must_not_wait(self) -> bool {
        self == RightOfWay::InTheWay || self.ends()
    }

    /// Whether the service ends, so that no call may begin.
    pub(crate) fn ends(self) -> bool {
        matches!(self, RightOfWay::Ends | RightOfWay::ScheduledEnds)
    }

    /// Whether its request is scheduled, and not for now.
    pub(crate) fn is_scheduled(self) -> bool {
        matches!(self, RightOfWay::GivesWay | RightOfWay::InTheWay | RightOfWay::ScheduledEnds)
    }
}

/// The attempt behind a call. It hears the answer while it arrives.
pub trait Listener: Send + Sync {
    /// A part of the answer arrived; it may be empty while the model thinks. False ends the call,
    /// because its answer is not wanted any more.
    fn heard(&self, text: &str) -> bool;

    /// The same for a node of a flow. `is_data` says that its answer must be JSON.
    fn heard_of(&self, _node: &str, _is_data: bool, text: &str) -> bool {
        self.heard(text)
    }

    /// The right of way of the attempt at this moment.
    fn right_of_way(&self) -> RightOfWay {
        RightOfWay::First
    }

    /// How another thread ends the call, also while nothing arrives.
    fn end(&self) -> Option<&Arc<CallEnd>> {
        None
    }

    /// The answer of the embedded summarizer, where another process reads the texts of this call; `None` where
    /// this one does.
    fn read_elsewhere(&self, _call: &ModelCall<'_>) -> Option<Result<ModelReply, ModelError>> {
        None
    }

    /// The request whose answer may come hours later with a batch.
    fn batch_for(&self) -> Option<Seq> {
        None
    }
}

/// One question to a model.
#[derive(Clone)]
pub struct ModelCall<'a> {
    pub flow_id: &'a str,
    pub variant: Option<&'a str>,
    /// The node of the flow (`<node>#leaf` and the like inside a hierarchical synthesis).
    pub node: &'a str,
    pub messages: &'a [Message],
    /// The inputs of the flow.
    pub inputs: &'a Map<String, Value>,
    /// The texts the answer is about.
    pub sources: &'a [SourceText],
    /// The schema the answer must fit, when the answer must be JSON.
    pub schema: Option<&'a Value>,
    /// The same schema, compiled.
    pub validator: Option<&'a Validator>,
    /// The pack's `hints.json`.
    pub hints: Option<&'a Hints>,
    pub settings: CallSettings,
    /// Most time the call may take, including the wait for a free place. The time begins again with
    /// each part of an answer that arrives as a stream.
    pub timeout: Duration,
    /// Hears the answer while it arrives.
    pub listener: Option<&'a dyn Listener>,
    /// Receives the cost of the call.
    pub bill: Option<&'a dyn Bill>,
    /// The model that the configuration names for this flow. It goes before every other choice.
    pub model: Option<&'a str>,
    /// Whether the sources are texts of their own rather than parts of one: each has its say.
    pub apart: bool,
    /// Who says the sources, and on which days. The messages show the same.
    pub speakers: Option<&'a Speakers>,
    /// The name under which the caller keeps the answer; empty when it keeps none.
    pub kept_as: &'a str,
}

impl ModelCall<'_> {
    /// Hash of everything an answer depends on except the provider. Recorded answers are found by it.
    pub fn request_hash(&self) -> Digest {
        self.request_hash_with(self.schema.map(jcs).as_deref())
    }

    /// The same hash, given the canonical form of the schema. A pack's schema never changes, and
    /// canonicalizing it for every call takes longer than the rest of the hash.
    pub(crate) fn request_hash_with(&self, schema: Option<&str>) -> Digest {
        // The canonical form of an object is the canonical forms of its members in order of name.
        let rest = |value: Value| jcs(&value);
        let (flow_id, node) = (rest(json!(self.flow_id)), rest(json!(self.node)));
        let (messages, settings) = (rest(json!(self.messages)), rest(json!(self.settings)));
        let (schema, variant) = (schema.unwrap_or("null"), rest(json!(self.variant)));
        sha256(format!(
            "{{\"flow_id\":{flow_id},\"messages\":{messages},\"node\":{node},\"schema\":{schema},\
             \"settings\":{settings},\"variant\":{variant}}}"
        ))
    }

    /// The right of way at this moment. A call without an attempt goes first.
    pub(super) fn right_of_way(&self) -> RightOfWay {
        self.listener.map_or(RightOfWay::First, Listener::right_of_way)
    }

    /// How another thread ends this call.
    pub(super) fn end(&self) -> Option<&Arc<CallEnd>> {
        self.listener.and_then(Listener::end)
    }

    /// Estimated tokens of the prompt: one for three bytes.
    pub fn prompt_tokens(&self) -> u64 {
        let bytes: usize = self.messages.iter().map(|message| message.text.len() + 12).sum();
        (bytes as u64).div_ceil(3)
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
                listener: None,
                model: None,
                apart: false,
                speakers: None,
                kept_as: "",
            };
            let whole = json!({
                "flow_id": "a.b.v1", "variant": variant, "node": "ask", "messages": messages,
                "settings": settings, "schema": schema,
            });
            assert_eq!(call.request_hash(), jcs_hash(&whole));
        }
    }
}
