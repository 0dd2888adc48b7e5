//! Any OpenAI-compatible endpoint: Ollama, llama.cpp, vLLM, hosted ones. Conversations go to
//! `chat/completions`; the texts of flows that say `api: completion` go to `completions`.
//!
//! JSON is requested in the strongest form that the endpoint accepts: by schema, as any object, or
//! only in the words of the prompt. After a refusal of one form the next weaker form is sent, and
//! remembered for later calls. A refused request has no answer, so no call is paid twice.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::call::{Api, Message, ModelCall, ResponseFormat};
use super::error::ModelError;
use super::http::Endpoint;
use super::provider::Provider;
use super::refusal::Refusal;
use super::reply::{ModelIdentity, ModelReply, StopReason, Usage};
use super::secret::Secret;
use crate::config::ProviderConfig;

/// Context where the configuration names none.
const CONTEXT_TOKENS: usize = 8_192;
/// The forms of a request for JSON, the strongest first.
const SCHEMA: u8 = 0;
const OBJECT: u8 = 1;
const WORDS: u8 = 2;

/// An OpenAI-compatible endpoint.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    config: ProviderConfig,
    /// The strongest form of a request for JSON that was not refused yet.
    json_form: AtomicU8,
}

impl OpenAi {
    /// `name` is the provider's name in the configuration.
    pub fn new(name: &str, config: &ProviderConfig, key: Option<Secret>) -> OpenAi {
        let endpoint = Endpoint::new(name, config, key);
        OpenAi { endpoint, config: config.clone(), json_form: AtomicU8::new(SCHEMA) }
    }

    fn body(&self, call: &ModelCall<'_>, form: u8) -> Value {
        let settings = &call.settings;
        let mut body = Map::new();
        body.insert("model".into(), self.model(call).into());
        let text = settings.api == Api::Completion;
        if text {
            let texts: Vec<&str> =
                call.messages.iter().map(|message| message.text.as_str()).collect();
            body.insert("prompt".into(), texts.join("\n\n").into());
        } else {
            body.insert("messages".into(), call.messages.iter().map(message).collect());
        }
        body.insert("stream".into(), false.into());
        let mut put = |key: &str, value: Option<Value>| {
            value.map(|value| body.insert(key.to_owned(), value));
        };
        put("temperature", settings.temperature.or(self.config.temperature).map(Value::from));
        put("max_tokens", settings.max_tokens.or(self.config.max_tokens).map(Value::from));
        put("seed", settings.seed.or(self.config.seed).map(Value::from));
        put("stop", (!settings.stop.is_empty()).then(|| json!(settings.stop)));
        put("response_format", response_format(call, form).filter(|_| !text));
        for (key, value) in settings.extra.iter().filter(|(key, _)| *key != "response_format") {
            put(key, Some(value.clone()));
        }
        Value::Object(body)
    }

    /// The model of the flow's configuration, else of the provider's, else of the node.
    fn model<'a>(&'a self, call: &'a ModelCall<'_>) -> &'a str {
        let named = call.model.or(self.config.model.as_deref());
        named.or(call.settings.model.as_deref()).unwrap_or_default()
    }

    fn reply(&self, call: &ModelCall<'_>, value: &Value) -> Result<ModelReply, ModelError> {
        let provider = || self.endpoint.provider.clone();
        let text = call.settings.api == Api::Completion;
        let said = if text { "text" } else { "message" };
        let is_said = |choice: &&Value| match choice.get(said) {
            Some(Value::String(_)) => text,
            Some(Value::Object(_)) => !text,
            _ => false,
        };
        let choice = value.pointer("/choices/0").filter(is_said);
        let Some(choice) = choice else {
            let reason = format!("the response is JSON, but has no choice with a {said}");
            return Err(self.endpoint.transient(reason, None));
        };
        let message = &choice["message"];
        if let Some(reason) = message.get("refusal").and_then(Value::as_str) {
            let reason = reason.chars().take(200).collect();
            return Err(ModelError::Refused { provider: provider(), reason });
        }
        let stop = match choice.get("finish_reason").and_then(Value::as_str) {
            Some("length") => StopReason::Length,
            Some("content_filter") => StopReason::Filtered,
            _ => StopReason::End,
        };
        let count = |key: &str| value["usage"][key].as_u64().unwrap_or(0);
        let mut identity = self.identity();
        match call.model {
            Some(model) => identity.model_name = model.to_owned(),
            None if identity.model_name.is_empty() => {
                identity.model_name = call.settings.model.clone().unwrap_or_default();
            }
            None => {}
        }
        let answered = value.get("model").and_then(Value::as_str).unwrap_or_default();
        if answered != identity.model_name {
            identity.model_version = answered.to_owned();
        }
        identity.temperature = call.settings.temperature.or(identity.temperature);
        identity.max_tokens = call.settings.max_tokens.or(identity.max_tokens);
        let offers = |key: &str| call.settings.extra.contains_key(key);
        Ok(ModelReply {
            text: content(if text { &choice["text"] } else { &message["content"] }),
            stop,
            usage: Usage::counted(count("prompt_tokens"), count("completion_tokens")),
            evidence: Vec::new(),
            identity,
            message: (offers("tools") || offers("functions")).then(|| message.clone()),
            raw: call.settings.whole_reply.then(|| value.to_string()),
            redacted: 0,
        })
    }

    /// The next weaker form, when the refusal is about the form of the request for JSON.
    fn weaker(&self, refusal: &Refusal, form: u8) -> Option<u8> {
        let words = refusal.words.to_ascii_lowercase();
        let about_format = ["response_format", "json_schema", "json_object", "schema", "grammar"]
            .iter()
            .any(|sign| words.contains(sign));
        (matches!(refusal.status, 400 | 404 | 422 | 501) && about_format && form < WORDS)
            .then_some(form + 1)
    }
}

impl Provider for OpenAi {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity {
            provider: self.endpoint.provider.clone(),
            model_name: self.config.model.clone().unwrap_or_default(),
            model_version: String::new(),
            temperature: self.config.temperature,
            max_tokens: self.config.max_tokens,
            deterministic_mode: self.config.seed.map(|_| true),
            seed: self.config.seed,
        }
    }

    fn context_tokens(&self) -> usize {
        self.config.context_tokens.map_or(CONTEXT_TOKENS, |tokens| tokens as usize)
    }

    fn context_is_known(&self) -> bool {
        self.config.context_tokens.is_some()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let headers = self.endpoint.bearer();
        let wants_json = call.settings.response_format != ResponseFormat::Text;
        let mut form = self.json_form.load(Ordering::Relaxed);
        let path = match call.settings.api {
            Api::Chat => "/chat/completions",
            Api::Completion => "/completions",
        };
        loop {
            let body = self.body(call, form);
            match self.endpoint.post(path, &body, &headers, call.timeout)? {
                Ok(value) => return self.reply(call, &value),
                Err(refusal) => match self.weaker(&refusal, form).filter(|_| wants_json) {
                    Some(weaker) => {
                        form = weaker;
                        self.json_form.fetch_max(weaker, Ordering::Relaxed);
                    }
                    None => return Err(self.endpoint.judge(&refusal, self.model(call))),
                },
            }
        }
    }

    fn models(&self, within: Duration) -> Result<Option<Vec<String>>, ModelError> {
        let model = self.config.model.as_deref().unwrap_or_default();
        self.endpoint.models("/models", &self.endpoint.bearer(), model, within)
    }
}

fn response_format(call: &ModelCall<'_>, form: u8) -> Option<Value> {
    let object = Some(json!({"type": "json_object"}));
    match (call.settings.response_format, form) {
        (ResponseFormat::Text, _) | (_, WORDS) => None,
        (ResponseFormat::JsonObject, _) | (ResponseFormat::JsonSchema, OBJECT) => object,
        (ResponseFormat::JsonSchema, _) => {
            match (call.settings.extra.get("response_format"), call.schema) {
                (Some(own), _) => Some(own.clone()),
                (None, Some(schema)) => Some(json!({
                    "type": "json_schema",
                    "json_schema": {"name": "output", "schema": schema, "strict": false},
                })),
                (None, None) => object,
            }
        }
    }
}

fn message(message: &Message) -> Value {
    let mut object = Map::new();
    object.insert("role".into(), message.role.name().into());
    object.insert("content".into(), message.text.clone().into());
    object.extend(message.fields.clone());
    Value::Object(object)
}

/// The text of a content field, which is a string, `null`, or a list of parts.
fn content(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}
