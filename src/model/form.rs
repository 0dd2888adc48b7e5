//! The form of an answer in words, for a server that cannot be asked for it otherwise.
//!
//! Contract: the packs of this program describe the form in their prompts. An imported flow only
//! requests it; where the request does not reach the server, its form stands behind the system text.

use std::borrow::Cow;

use serde_json::Value;

use super::call::{Message, ModelCall, ResponseFormat, Role};

/// The schema that an answer must fit: that of the call, or that of the node.
pub(super) fn schema_of<'a>(call: &'a ModelCall<'_>) -> Option<&'a Value> {
    let own = call.settings.extra.get("response_format");
    call.schema.or_else(|| own?.get("json_schema")?.get("schema"))
}

/// Whether the model learns a form only from words: the flow requests one, the prompt is silent about it,
/// and the server is asked for no JSON or for a weaker form.
pub(super) fn needs_words(call: &ModelCall<'_>, sent: ResponseFormat) -> bool {
    let is_told = match call.settings.response_format {
        ResponseFormat::Text => true,
        ResponseFormat::JsonObject => sent != ResponseFormat::Text,
        ResponseFormat::JsonSchema => sent == ResponseFormat::JsonSchema,
    };
    call.settings.silent_form && !is_told
}

/// The conversation with the form in words at the end of its first system text.
pub(super) fn in_words<'a>(call: &ModelCall<'a>) -> Cow<'a, [Message]> {
    let mut words = "Answer with one JSON object only, without any other text.".to_owned();
    if let Some(schema) = schema_of(call).filter(|schema| schema.get("properties").is_some()) {
        words.push_str(&format!(" It must fit this JSON Schema:\n{schema}"));
    }
    let mut messages = call.messages.to_vec();
    match messages.iter_mut().find(|message| message.role == Role::System) {
        Some(system) => system.text = format!("{}\n\n{words}", system.text.trim_end()),
        None => messages.insert(0, Message::new(Role::System, words)),
    }
    Cow::Owned(messages)
}
