//! Any OpenAI-compatible endpoint: Ollama, llama.cpp, vLLM, hosted ones. Conversations go to
//! `chat/completions`; the texts of flows that say `api: completion` go to `completions`.
//!
//! JSON is requested in the strongest form that the model accepts: by schema, as any object, or only
//! in the words of the prompt. The [`Dialect`] of the model knows what it accepts.
//!
//! Azure OpenAI is recognized by its host or its path. There the model is the name of a deployment.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::batch_api::{BatchApi, BatchLine};
use super::call::{Api, CallSettings, Message, ModelCall, ResponseFormat, Role};
use super::context::{self, Contexts, was_cut};
use super::dialect::{Asked, Dialect, Dialects, JSON_OBJECT, JSON_SCHEMA};
use super::error::ModelError;
use super::form;
use super::http::{Endpoint, Headers};
use super::provider::Provider;
use super::reply::{Cached, ModelIdentity, ModelReply, StopReason, Usage};
use super::secret::Secret;
use super::stream::{STREAM, STREAM_OPTIONS};
use super::tls::Certificate;
use crate::config::{Profile, ProviderConfig};
use crate::contract::told::ToldFailure;
use crate::contract::vocabulary::FailureCause;
use crate::facts::dialect::LearnedDialect;

/// Context where the configuration names none.
const CONTEXT_TOKENS: usize = 8_192;
/// How the hosts of Azure OpenAI end.
const AZURE_HOSTS: [&str; 3] =
    [".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"];
/// The path of a deployment, on whatever host a gateway puts it.
const AZURE_DEPLOYMENTS: &str = "/openai/deployments/";

/// Parameters that put more into the answer than its text.
const MORE_THAN_TEXT: [&str; 8] =
    ["tools", "functions", "logprobs", "top_logprobs", "best_of", "echo", "audio", "modalities"];

/// An OpenAI-compatible endpoint.
#[derive(Debug)]
pub struct OpenAi {
    pub(super) endpoint: Endpoint,
    pub(super) config: ProviderConfig,
    pub(super) dialects: Dialects,
    contexts: Contexts,
    pub(super) azure: bool,
}

impl OpenAi {
    /// `name` is the provider's name in the configuration.
    pub fn new(name: &str, config: &ProviderConfig, key: Option<Secret>) -> OpenAi {
        let endpoint = Endpoint::new(name, config, key);
        let azure = endpoint.address().is_some_and(|address| {
            AZURE_HOSTS.iter().any(|end| address.host().ends_with(end))
                || address.path().contains(AZURE_DEPLOYMENTS)
        });
        OpenAi {
            endpoint,
            config: config.clone(),
            dialects: Dialects::default(),
            contexts: Contexts::default(),
            azure,
        }
    }

    /// The same with a server whose certificate comes from one of these.
    pub(super) fn trusting(mut self, certificates: Option<&[Certificate<'static>]>) -> OpenAi {
        self.endpoint = self.endpoint.trusting(certificates);
        self
    }

    pub(super) fn headers(&self) -> Headers {
        match &self.endpoint.key {
            Some(key) if self.azure => vec![("api-key", key.expose().to_owned())],
            _ => self.endpoint.bearer(),
        }
    }

    /// The path of a resource below the configured address. An address of Azure that names only the
    /// host is completed: with a version in its query to the deployment, else to the newer form.
    pub(super) fn path(&self, resource: &'static str, model: &str) -> Cow<'static, str> {
        let Some(address) = self.endpoint.address().filter(|_| self.azure) else {
            return resource.into();
        };
        let below = match address.path() {
            "" => "/openai",
            "/openai" => "",
            _ => return resource.into(),
        };
        match address.has_parameter("api-version") {
            true if resource != "/models" => {
                format!("{below}/deployments/{model}{resource}").into()
            }
            true => format!("{below}{resource}").into(),
            false => format!("{below}/v1{resource}").into(),
        }
    }

    pub(super) fn body(&self, call: &ModelCall<'_>, dialect: &Dialect) -> Map<String, Value> {
        let settings = &call.settings;
        let mut body = Map::new();
        // A server that has one model needs no name, and refuses an empty one.
        if !self.model(call).is_empty() {
            body.insert("model".into(), self.model(call).into());
        }
        let text = settings.api == Api::Completion;
        let messages = match form::needs_words(call, sent_format(call, dialect)) {
            true => form::in_words(call),
            false => Cow::Borrowed(call.messages),
        };
        if text {
            let texts: Vec<&str> = messages.iter().map(|message| message.text.as_str()).collect();
            body.insert("prompt".into(), texts.join("\n\n").into());
        } else {
            let messages = match dialect.no_system {
                true => Cow::Owned(without_system(&messages)),
                false => messages,
            };
            body.insert("messages".into(), messages.iter().map(message).collect());
        }
        let streams = may_stream(settings);
        body.insert(STREAM.into(), streams.into());
        if streams {
            body.insert(STREAM_OPTIONS.into(), json!({"include_usage": true}));
        }
        let mut put = |key: &str, value: Option<Value>| {
            value.map(|value| body.insert(key.to_owned(), value));
        };
        put("temperature", settings.temperature.or(self.config.temperature).map(Value::from));
        put("max_tokens", settings.max_tokens.or(self.config.max_tokens).map(Value::from));
        put("seed", settings.seed.or(self.config.seed).map(Value::from));
        put("stop", (!settings.stop.is_empty()).then(|| json!(settings.stop)));
        put("response_format", response_format(call, dialect).filter(|_| !text));
        let own = ["response_format", STREAM, STREAM_OPTIONS];
        for (key, value) in settings.extra.iter().filter(|(key, _)| !own.contains(&key.as_str())) {
            put(key, Some(value.clone()));
        }
        dialect.speak(body, call.prompt_tokens())
    }

    /// What the answer cannot heed, because it is not sent as the flow gives it.
    pub(super) fn left_out(&self, call: &ModelCall<'_>, dialect: &Dialect) -> Vec<String> {
        let mut left_out = dialect.not_sent(&call.settings, &self.config, call.prompt_tokens());
        let sent = sent_format(call, dialect);
        if form::needs_words(call, sent) {
            left_out.push(match sent {
                ResponseFormat::JsonObject => {
                    format!("response_format {JSON_SCHEMA} ({JSON_OBJECT} was sent)")
                }
                _ => "response_format".to_owned(),
            });
        }
        left_out
    }

    /// The model of the flow's configuration, else of the provider's, else of the node.
    pub(super) fn model<'a>(&'a self, call: &'a ModelCall<'_>) -> &'a str {
        let named = call.model.or(self.config.model.as_deref());
        named.or(call.settings.model.as_deref()).unwrap_or_default()
    }

    /// Who is asked, and with what: a parameter that is left out has no effect on the answer.
    pub(super) fn asked(&self, call: &ModelCall<'_>, dialect: &Dialect) -> ModelIdentity {
        let (settings, own) = (&call.settings, self.identity());
        let seed = settings.seed.or(own.seed).filter(|_| !dialect.leaves_out("seed"));
        let temperature = settings.temperature.or(own.temperature);
        ModelIdentity {
            model_name: self.model(call).to_owned(),
            temperature: temperature.filter(|_| !dialect.leaves_out("temperature")),
            max_tokens: dialect
                .answer_limit(settings.max_tokens.or(own.max_tokens), call.prompt_tokens()),
            deterministic_mode: seed.map(|_| true),
            seed,
            ..own
        }
    }

    pub(super) fn reply(
        &self,
        call: &ModelCall<'_>,
        dialect: &Dialect,
        value: &Value,
    ) -> Result<ModelReply, ModelError> {
        let provider = || self.endpoint.provider.clone();
        let text = call.settings.api == Api::Completion;
        let said = if text { "text" } else { "message" };
        let is_said = |choice: &&Value| match choice.get(said) {
            Some(Value::String(_)) => text,
            Some(Value::Object(_)) => !text,
            _ => false,
        };
        let nothing = json!({"text": "", "message": {}});
        let choice = match value.get("choices").and_then(Value::as_array).map(Vec::as_slice) {
            // An answer without any choice is an answer without text.
            Some([]) => Some(&nothing),
            choices => choices.and_then(<[Value]>::first).filter(is_said),
        };
        let Some(choice) = choice else {
            let advice = self.endpoint.other_address();
            let reason = format!("the response is JSON, but has no choice with a {said}; {advice}");
            return Err(self.endpoint.transient(FailureCause::InvalidAnswer, reason, None));
        };
        let message = &choice["message"];
        if let Some(reason) = message.get("refusal").and_then(Value::as_str) {
            let reason = ToldFailure::by_others(reason.chars().take(200).collect::<String>());
            return Err(ModelError::Refused { provider: provider(), reason });
        }
        let stop = match choice.get("finish_reason").and_then(Value::as_str) {
            Some("length") => StopReason::Length,
            Some("content_filter") => StopReason::Filtered,
            _ => StopReason::End,
        };
        let count = |key: &str| value["usage"][key].as_u64().unwrap_or(0);
        let mut identity = self.asked(call, dialect);
        let answered = value.get("model").and_then(Value::as_str).unwrap_or_default();
        if answered != identity.model_name {
            identity.model_version = answered.to_owned();
        }
        let usage = Usage::counted(count("prompt_tokens"), count("completion_tokens"));
        let cached = value["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
        if was_cut(call.messages, usage) {
            let read = usize::try_from(usage.input_tokens).unwrap_or(usize::MAX);
            self.dialects.learn_context(&self.endpoint, call.bill, self.model(call), read);
        }
        let mut said = content(if text { &choice["text"] } else { &message["content"] });
        if dialect.leaves_out("stop") {
            let end = call.settings.stop.iter().filter_map(|stop| said.find(stop.as_str())).min();
            said.truncate(end.unwrap_or(said.len()));
        }
        let offers = |key: &str| call.settings.extra.contains_key(key);
        Ok(ModelReply {
            text: said,
            stop,
            usage,
            evidence: Vec::new(),
            identity,
            message: (offers("tools") || offers("functions")).then(|| message.clone()),
            raw: call.settings.whole_reply.then(|| value.to_string()),
            redacted: 0,
            left_out: self.left_out(call, dialect),
            cached: Cached { read: cached, written: 0 },
        })
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
        self.context_of(self.config.model.as_deref().unwrap_or_default()).0
    }

    fn profile_of(&self, model: Option<&str>) -> Profile {
        let (context, is_known) =
            self.context_of(model.or(self.config.model.as_deref()).unwrap_or_default());
        Profile::of(self.config.profile, is_known.then_some(context))
    }

    fn context_is_known(&self) -> bool {
        self.context_of(self.config.model.as_deref().unwrap_or_default()).1
    }

    /// The configured number or else the server's, unless the server refused or cut a shorter prompt.
    fn context_of(&self, model: &str) -> (usize, bool) {
        let told = || match context::of_hosted(model).filter(|_| !self.config.is_local()) {
            Some(tokens) => Some(tokens),
            None => self.contexts.of(&self.endpoint, &self.headers(), model),
        };
        let named = self.config.context_tokens.map(|tokens| tokens as usize).or_else(told);
        let known = [named, self.dialects.context(model)].into_iter().flatten().min();
        (known.unwrap_or(CONTEXT_TOKENS), known.is_some())
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let headers = self.headers();
        let model = self.model(call);
        let resource = match call.settings.api {
            Api::Chat => "/chat/completions",
            Api::Completion => "/completions",
        };
        let path = self.path(resource, model);
        let body = |dialect: &Dialect| self.body(call, dialect);
        let (endpoint, headers, timeout) = (&self.endpoint, &headers, call.timeout);
        let (listener, bill) = (call.listener, call.bill);
        let asked = Asked { endpoint, path: &path, headers, timeout, listener, bill };
        let (value, dialect) = self.dialects.ask(&asked, model, call.prompt_tokens(), body)?;
        self.reply(call, &dialect, &value)
    }

    fn batch_line(&self, call: &ModelCall<'_>) -> Option<BatchLine> {
        self.as_line(call)
    }

    fn batches(&self) -> Option<&dyn BatchApi> {
        // Below the address of one deployment Azure has no batches.
        let address = self.endpoint.address();
        let is_deployment = address.is_some_and(|address| address.is_one_deployment());
        (!(self.azure && is_deployment)).then_some(self)
    }

    fn recall(&self, learned: &LearnedDialect, left: Duration) {
        if learned.server == self.endpoint.shown("") {
            self.dialects.recall(&learned.model, &learned.dialect, left);
        }
    }

    fn learned(&self) -> Vec<String> {
        self.dialects.of(self.config.model.as_deref().unwrap_or_default()).told()
    }

    fn models(&self, within: Duration) -> Result<Option<Vec<String>>, ModelError> {
        let model = self.config.model.as_deref().unwrap_or_default();
        let path = self.path("/models", model);
        let listed = self.endpoint.models(&path, &self.headers(), model, within)?;
        // Azure lists the models of which a deployment can be made, and asked is a deployment.
        Ok(listed.filter(|_| !self.azure))
    }
}

/// Whether the answer is one text, so that nothing is lost when it is put together from parts.
pub(super) fn may_stream(settings: &CallSettings) -> bool {
    let has = |name: &str| settings.extra.get(name).is_some_and(|value| !value.is_null());
    let several = settings.extra.get("n").and_then(Value::as_u64).is_some_and(|n| n > 1);
    !settings.whole_reply && !several && !MORE_THAN_TEXT.into_iter().any(has)
}

/// The conversation with its system texts at the start of the user's first turn.
fn without_system(messages: &[Message]) -> Vec<Message> {
    let (system, mut turns): (Vec<Message>, Vec<Message>) =
        messages.iter().cloned().partition(|message| message.role == Role::System);
    let mut texts: Vec<&str> = system.iter().map(|message| message.text.as_str()).collect();
    let first = turns.iter().position(|message| message.role == Role::User);
    texts.extend(first.map(|at| turns[at].text.as_str()));
    let user = Message::new(Role::User, texts.join("\n\n"));
    match first {
        Some(at) => turns[at].text = user.text,
        None => turns.insert(0, user),
    }
    turns
}

fn response_format(call: &ModelCall<'_>, dialect: &Dialect) -> Option<Value> {
    let by_schema = || match (call.settings.extra.get("response_format"), call.schema) {
        (Some(own), _) => Some(own.clone()),
        (None, Some(schema)) => Some(json!({
            "type": JSON_SCHEMA,
            "json_schema": {"name": "output", "schema": schema, "strict": false},
        })),
        (None, None) => None,
    };
    let wanted = match call.settings.response_format {
        ResponseFormat::Text => {
            let own = call.settings.extra.get("response_format");
            let is_taken =
                |own: &&Value| own["type"].as_str().is_some_and(|it| dialect.takes_json(it));
            return own.filter(is_taken).cloned();
        }
        ResponseFormat::JsonObject => None,
        ResponseFormat::JsonSchema => by_schema().filter(|_| dialect.takes_json(JSON_SCHEMA)),
    };
    let object = || dialect.takes_json(JSON_OBJECT).then(|| json!({"type": JSON_OBJECT}));
    // A server may know JSON only by a schema.
    let any_schema = || {
        let is_object = call.settings.response_format == ResponseFormat::JsonObject;
        by_schema().filter(|_| is_object && dialect.takes_json(JSON_SCHEMA))
    };
    wanted.or_else(object).or_else(any_schema)
}

/// The form of JSON for which the server is asked.
fn sent_format(call: &ModelCall<'_>, dialect: &Dialect) -> ResponseFormat {
    let sent = response_format(call, dialect).filter(|_| call.settings.api == Api::Chat);
    match sent.as_ref().and_then(|format| format["type"].as_str()) {
        Some(JSON_OBJECT) => ResponseFormat::JsonObject,
        Some(JSON_SCHEMA) => ResponseFormat::JsonSchema,
        _ => ResponseFormat::Text,
    }
}

fn message(message: &Message) -> Value {
    let mut object = Map::new();
    object.insert("role".into(), message.role.name().into());
    // A turn that only calls tools says nothing, and servers refuse an empty text in it.
    let says_nothing = message.text.is_empty() && message.fields.contains_key("tool_calls");
    let text = (!says_nothing).then(|| message.text.clone());
    object.insert("content".into(), text.into());
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
