//! Anthropic's messages API. JSON by schema is asked for as the input of one forced tool.
//!
//! A long beginning of a prompt that comes again is marked for the server's cache, where it costs a
//! tenth. The first question marks nothing, because writing into the cache costs more.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::anthropic_tools::{self, Offered, is_about_tools};
use super::batch_api::{BatchApi, BatchLine};
use super::call::{Message, ModelCall, ResponseFormat, Role};
use super::dialect::{Asked, Dialect, Dialects, ENABLED_THINKING, says_nothing};
use super::error::ModelError;
use super::form;
use super::http::{Endpoint, Headers};
use super::provider::Provider;
use super::reply::{Cached, ModelIdentity, ModelReply, StopReason, Usage};
use super::secret::Secret;
use super::stream::STREAM;
use super::tls::Certificate;
use crate::config::{Profile, ProviderConfig};
use crate::contract::hash::{Digest, sha256};
use crate::contract::vocabulary::FailureCause;
use crate::facts::dialect::LearnedDialect;

const API_VERSION: &str = "2023-06-01";
/// The API requires a limit; this one is used when neither the node nor the configuration sets one.
const MAX_TOKENS: u32 = 4_096;
const CONTEXT_TOKENS: usize = 200_000;
/// The tool whose input is the structured answer.
const ANSWER_TOOL: &str = "answer";

/// Parameters that are sent as the flow gives them.
const PASSED_ON: [&str; 3] = ["thinking", "top_k", "metadata"];
/// Parameters that the protocol has, in whatever form.
const KNOWN_PARAMETERS: [&str; 5] =
    ["thinking", "top_k", "metadata", "reasoning_effort", "response_format"];

#[derive(Debug)]
pub struct Anthropic {
    pub(super) endpoint: Endpoint,
    pub(super) config: ProviderConfig,
    pub(super) dialects: Dialects,
    /// The beginnings of prompts that were asked a short time ago.
    asked: Mutex<HashMap<Digest, Instant>>,
}

/// What the member of a request is called that asks the server to keep the beginning of a prompt.
const CACHE_CONTROL: &str = "cache_control";
/// How long the server keeps it.
const KEPT_FOR: Duration = Duration::from_secs(300);
/// A shorter beginning is not kept by any model.
const KEPT_BYTES_MIN: usize = 4_096;
/// The largest number of prompt beginnings that are remembered.
const BEGINNINGS_MAX: usize = 256;

impl Anthropic {
    /// `name` is the provider's name in the configuration.
    pub fn new(name: &str, config: &ProviderConfig, key: Option<Secret>) -> Anthropic {
        let endpoint = Endpoint::new(name, config, key);
        Anthropic {
            endpoint,
            config: config.clone(),
            dialects: Dialects::default(),
            asked: Mutex::default(),
        }
    }

    /// The same with a server whose certificate comes from one of these.
    pub(super) fn trusting(mut self, certificates: Option<&[Certificate<'static>]>) -> Anthropic {
        self.endpoint = self.endpoint.trusting(certificates);
        self
    }

    /// Whether the beginning of a prompt (tools and system text) was asked so short a time ago that it
    /// is likely to be asked again. To keep it costs a quarter more once, so a single question does not.
    fn comes_again(&self, body: &Map<String, Value>) -> bool {
        let beginning = json!([body.get("model"), body.get("tools"), body.get("system")]);
        let beginning = beginning.to_string();
        if beginning.len() < KEPT_BYTES_MIN {
            return false;
        }
        let now = Instant::now();
        let mut asked = self.asked.lock();
        asked.retain(|_, at| now.duration_since(*at) < KEPT_FOR);
        if asked.len() >= BEGINNINGS_MAX {
            asked.clear();
        }
        asked.insert(sha256(beginning), now).is_some()
    }

    /// The path of a resource below an address that may already end with the version.
    pub(super) fn path(&self, resource: &str) -> String {
        let version = if self.endpoint.path_ends_with("/v1") { "" } else { "/v1" };
        format!("{version}/{resource}")
    }

    pub(super) fn headers(&self) -> Headers {
        let endpoint = &self.endpoint;
        let mut headers = vec![("anthropic-version", API_VERSION.to_owned())];
        headers.extend(endpoint.key.iter().map(|key| ("x-api-key", key.expose().to_owned())));
        headers.extend(endpoint.basic());
        headers
    }

    pub(super) fn body(
        &self,
        call: &ModelCall<'_>,
        dialect: &Dialect,
        comes_again: &OnceCell<bool>,
    ) -> Map<String, Value> {
        let settings = &call.settings;
        let tool = answer_tool(call);
        let thinks = settings.extra.get("thinking");
        // A model that thinks may not be forced to use a tool.
        let is_forced = tool.is_some() && thinks.is_none();
        let sent = if is_forced { settings.response_format } else { ResponseFormat::Text };
        let offered = offered(call);
        let calls = offered.as_ref().is_some_and(|offered| !offered.tools.is_empty());
        let (system, messages) = match form::needs_words(call, sent) {
            true => conversation(&form::in_words(call), calls),
            false => conversation(call.messages, calls),
        };
        let mut body = Map::new();
        body.insert("model".into(), self.model(call).into());
        let limit = settings.max_tokens.or(self.config.max_tokens).unwrap_or(MAX_TOKENS);
        body.insert("max_tokens".into(), limit.into());
        body.insert("messages".into(), messages);
        body.insert(STREAM.into(), true.into());
        if !system.is_empty() {
            body.insert("system".into(), system.into());
        }
        let thinks_freely = is_enabled(thinks) && dialect.leaves_out(ENABLED_THINKING);
        let budget = thinks.and_then(|thinks| thinks["budget_tokens"].as_u64());
        if let Some(budget) = budget.filter(|budget| *budget >= u64::from(limit)) {
            // The budget counts within the limit; the answer needs its own part.
            body.insert("max_tokens".into(), budget.saturating_add(u64::from(limit)).into());
        }
        if let Some(effort) = settings.extra.get("reasoning_effort").and_then(Value::as_str) {
            let effort = if matches!(effort, "minimal" | "none") { "low" } else { effort };
            body.insert("output_config".into(), json!({"effort": effort}));
        }
        let temperature = settings.temperature.or(self.config.temperature);
        // The API accepts one of both. `top_p` 1 changes nothing, and PromptFlow always sends it.
        let top_p =
            settings.extra.get("top_p").and_then(Value::as_f64).filter(|top_p| *top_p < 1.0);
        match (temperature, top_p) {
            (Some(temperature), _) => {
                body.insert("temperature".into(), temperature.clamp(0.0, 1.0).into());
            }
            (None, Some(top_p)) => {
                body.insert("top_p".into(), top_p.into());
            }
            (None, None) => {}
        }
        if !settings.stop.is_empty() {
            body.insert("stop_sequences".into(), json!(settings.stop));
        }
        for name in PASSED_ON {
            if let Some(value) = settings.extra.get(name) {
                body.insert(name.into(), value.clone());
            }
        }
        if thinks_freely {
            body.insert("thinking".into(), json!({"type": "adaptive"}));
        }
        if let Some(tool) = tool {
            body.insert("tools".into(), json!([tool]));
            let choice = match is_forced {
                true => json!({"type": "tool", "name": ANSWER_TOOL}),
                false => json!({"type": "auto"}),
            };
            body.insert("tool_choice".into(), choice);
        } else if let Some(offered) = offered.filter(|_| calls) {
            body.insert("tools".into(), offered.tools.into());
            body.extend(offered.choice.map(|choice| ("tool_choice".to_owned(), choice)));
        }
        // Once for each call: the same question after a refusal is no other question.
        let comes_again = *comes_again.get_or_init(|| self.comes_again(&body));
        if comes_again && !dialect.leaves_out(CACHE_CONTROL) {
            keep_beginning(&mut body);
        }
        dialect.speak(body, call.prompt_tokens())
    }

    /// Parameters of a question that this protocol does not have.
    fn unknown_parameters(&self, call: &ModelCall<'_>) -> Vec<String> {
        let settings = &call.settings;
        let has_temperature = settings.temperature.or(self.config.temperature).is_some();
        let is_idle = |name: &str, value: &Value| {
            says_nothing(name, value) || name == "top_p" && !has_temperature
        };
        let seed = settings.seed.or(self.config.seed).map(|_| "seed".to_owned());
        let extra = settings.extra.iter().filter(|(name, value)| {
            let is_known = KNOWN_PARAMETERS.contains(&name.as_str()) || is_about_tools(name);
            !is_known && !is_idle(name, value)
        });
        extra.map(|(name, _)| name.clone()).chain(seed).collect()
    }

    /// What the answer cannot heed, because it is not sent.
    pub(super) fn left_out(&self, call: &ModelCall<'_>, dialect: &Dialect) -> Vec<String> {
        let mut left_out = dialect.not_sent(&call.settings, &self.config, call.prompt_tokens());
        left_out.extend(self.unknown_parameters(call));
        let of_tools = offered(call).map(|offered| offered.left_out).unwrap_or_default();
        left_out.extend(of_tools.into_iter().map(str::to_owned));
        let thinks = call.settings.extra.get("thinking");
        if is_enabled(thinks) && dialect.leaves_out(ENABLED_THINKING) {
            left_out.push("thinking.budget_tokens".to_owned());
        }
        let has_effort = call.settings.extra.contains_key("reasoning_effort");
        if has_effort && dialect.leaves_out("output_config") {
            left_out.push("reasoning_effort".to_owned());
        }
        if answer_tool(call).is_none() && form::needs_words(call, ResponseFormat::Text) {
            left_out.push("response_format".to_owned());
        }
        let wanted = call.settings.temperature.or(self.config.temperature);
        if let (Some(wanted), Some(sent)) = (wanted, self.asked(call, dialect).temperature)
            && wanted != sent
        {
            left_out.push(format!("temperature {wanted} ({sent} was sent)"));
        }
        left_out
    }

    pub(super) fn model<'a>(&'a self, call: &'a ModelCall<'_>) -> &'a str {
        let named = call.model.or(self.config.model.as_deref());
        named.or(call.settings.model.as_deref()).unwrap_or_default()
    }

    /// Who is asked, and with what: a parameter that is left out has no effect on the answer.
    pub(super) fn asked(&self, call: &ModelCall<'_>, dialect: &Dialect) -> ModelIdentity {
        let (settings, own) = (&call.settings, self.identity());
        let temperature = settings.temperature.or(own.temperature).map(|it| it.clamp(0.0, 1.0));
        ModelIdentity {
            model_name: self.model(call).to_owned(),
            temperature: temperature.filter(|_| !dialect.leaves_out("temperature")),
            max_tokens: dialect
                .answer_limit(settings.max_tokens.or(own.max_tokens), call.prompt_tokens()),
            ..own
        }
    }

    pub(super) fn reply(
        &self,
        call: &ModelCall<'_>,
        dialect: &Dialect,
        value: &Value,
    ) -> Result<ModelReply, ModelError> {
        let Some(parts) = value.get("content").and_then(Value::as_array) else {
            let advice = self.endpoint.other_address();
            let reason = format!("the response has no content list; {advice}");
            return Err(self.endpoint.transient(FailureCause::InvalidAnswer, reason, None));
        };
        let stop = match value.get("stop_reason").and_then(Value::as_str) {
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
            Some("refusal") => {
                let provider = self.endpoint.provider.clone();
                return Err(ModelError::Refused { provider, reason: "refusal".into() });
            }
            _ => StopReason::End,
        };
        let offered = offered(call);
        let answer = parts.iter().find(|part| {
            offered.is_none() && part["name"] == ANSWER_TOOL && part.get("input").is_some()
        });
        let text: String = match answer {
            Some(tool) => tool["input"].to_string(),
            None => {
                parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
            }
        };
        let count = |key: &str| value["usage"][key].as_u64().unwrap_or(0);
        let mut identity = self.asked(call, dialect);
        let answered = value.get("model").and_then(Value::as_str).unwrap_or_default();
        if answered != identity.model_name {
            identity.model_version = answered.to_owned();
        }
        let left_out = self.left_out(call, dialect);
        let counts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
        let input = counts.into_iter().map(count).fold(0, u64::saturating_add);
        let usage = Usage::counted(input, count("output_tokens"));
        let (written, read) = (count(counts[1]), count(counts[2]));
        let cached = Cached { read, written };
        let message = offered.map(|offered| offered.message(parts, &text));
        let plain = ModelReply::plain(text, usage, identity);
        Ok(ModelReply { stop, cached, left_out, message, ..plain })
    }
}

impl Provider for Anthropic {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity {
            provider: self.endpoint.provider.clone(),
            model_name: self.config.model.clone().unwrap_or_default(),
            model_version: String::new(),
            temperature: self.config.temperature,
            max_tokens: self.config.max_tokens,
            deterministic_mode: None,
            seed: None,
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

    fn context_of(&self, model: &str) -> (usize, bool) {
        let configured = self.config.context_tokens.map(|tokens| tokens as usize);
        let known = [configured, self.dialects.context(model)].into_iter().flatten().min();
        (known.unwrap_or(CONTEXT_TOKENS), known.is_some())
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let (path, headers) = (self.path("messages"), self.headers());
        let comes_again = OnceCell::new();
        let body = |dialect: &Dialect| self.body(call, dialect, &comes_again);
        let (endpoint, headers, timeout) = (&self.endpoint, &headers, call.timeout);
        let (listener, bill) = (call.listener, call.bill);
        let asked = Asked { endpoint, path: &path, headers, timeout, listener, bill };
        let model = self.model(call);
        let (value, dialect) = self.dialects.ask(&asked, model, call.prompt_tokens(), body)?;
        self.reply(call, &dialect, &value)
    }

    fn batch_line(&self, call: &ModelCall<'_>) -> Option<BatchLine> {
        self.as_line(call)
    }

    fn batches(&self) -> Option<&dyn BatchApi> {
        Some(self)
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
        self.endpoint.models(&self.path("models"), &self.headers(), model, within)
    }
}

fn is_enabled(thinking: Option<&Value>) -> bool {
    thinking.is_some_and(|thinking| thinking["type"] == "enabled")
}

/// The functions that the flow offers.
fn offered(call: &ModelCall<'_>) -> Option<Offered> {
    let parameters = &call.settings.extra;
    Offered::of(parameters, parameters.contains_key("thinking"))
}

/// The tool whose input is the answer in the form that the call asks for. An object without members
/// would be an empty input. A model that may call functions of the flow is not forced to answer.
fn answer_tool(call: &ModelCall<'_>) -> Option<Value> {
    if offered(call).is_some() {
        return None;
    }
    let has_form = |schema: &&Value| {
        schema["type"] == "object" && !(call.settings.silent_form && schema["properties"].is_null())
    };
    let schema = form::schema_of(call).filter(has_form)?;
    Some(json!({"name": ANSWER_TOOL, "description": "Give the answer.", "input_schema": schema}))
}

/// Asks the server to keep tools and system text for the next questions.
fn keep_beginning(body: &mut Map<String, Value>) {
    let keep = json!({"type": "ephemeral"});
    if let Some(Value::String(system)) = body.get_mut("system") {
        let text = std::mem::take(system);
        let part = json!({"type": "text", "text": text, CACHE_CONTROL: keep});
        body.insert("system".into(), json!([part]));
    } else if let Some(tool) = body.get_mut("tools").and_then(last_of) {
        tool[CACHE_CONTROL] = keep;
    }
}

fn last_of(list: &mut Value) -> Option<&mut Value> {
    list.as_array_mut()?.last_mut()
}

/// Separates the system text and joins neighbouring turns of one role, because the API requires
/// turns to alternate. Calls of tools are told as such only where tools are offered.
fn conversation(messages: &[Message], calls: bool) -> (String, Value) {
    let mut system = Vec::new();
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    let mut called = BTreeSet::new();
    let text = |text: &str| json!({"type": "text", "text": text});
    for message in messages {
        let role = match message.role {
            Role::System => {
                system.push(message.text.as_str());
                continue;
            }
            Role::Assistant => "assistant",
            Role::User | Role::Function | Role::Tool => "user",
        };
        let of_tools = calls.then(|| anthropic_tools::parts(message, &mut called)).flatten();
        let has_text = !message.text.is_empty();
        let parts =
            of_tools.unwrap_or_else(|| has_text.then(|| text(&message.text)).into_iter().collect());
        match turns.last_mut().filter(|(last, _)| *last == role) {
            Some((_, known)) => known.extend(parts),
            None if parts.is_empty() => {}
            None => turns.push((role, parts)),
        }
    }
    let mut system = system.join("\n\n");
    if turns.is_empty() {
        // The API requires a turn of the user, so a prompt of system text alone becomes one.
        turns.push(("user", vec![text(&std::mem::take(&mut system))]));
    }
    let turns =
        turns.into_iter().map(|(role, parts)| json!({"role": role, "content": content(parts)}));
    (system, turns.collect())
}

/// One text where a turn has only texts.
fn content(parts: Vec<Value>) -> Value {
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part.get("text")?.as_str()).collect();
    match texts {
        Some(texts) => texts.join("\n\n").into(),
        None => parts.into(),
    }
}
