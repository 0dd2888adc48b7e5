//! What a model calls things, and what it does not accept: learned from its refusals, told to whoever
//! asked, so that the log remembers it, and forgotten after a week.
//!
//! Contract: a request begins with the names most servers know. A server that refuses a parameter is
//! asked again with another name for it, or without it; each refusal changes the dialect, so the
//! retries end. A refused request has no answer, so no call is paid twice. What decides the meaning
//! of a question (the messages, the model, the tools) is never left out.
//!
//! See docs/adr/0088-dialects-are-learned.md.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde_json::{Map, Value, json};

use super::batch_api::{AskedModel, BatchAnswer};
use super::call::{CallSettings, Listener};
use super::error::ModelError;
use super::http::{Endpoint, Headers};
use super::reply::Bill;
use super::server_error::ServerError;
use super::stream::{STREAM, STREAM_OPTIONS};
use crate::config::ProviderConfig;
pub(super) use crate::facts::dialect::Dialect;
use crate::facts::dialect::{KEPT_FOR_MS, LearnedDialect};

/// The types of a request for JSON, as `response_format` spells them.
pub(super) const JSON_SCHEMA: &str = "json_schema";
pub(super) const JSON_OBJECT: &str = "json_object";
/// Most refusals of one question that change the dialect.
const REFUSALS_MAX: usize = 12;

/// What a server puts around a prompt: the marks of its turns.
const FRAME_TOKENS: u64 = 64;
/// The statuses of a refusal that another request may avoid.
const MENDABLE: [u16; 5] = [400, 404, 422, 500, 501];
/// An answer that may have fewer tokens is no answer.
const ANSWER_MIN: u64 = 256;

/// Another name for a parameter.
const OTHER_NAMES: [(&str, &str); 2] =
    [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")];
/// Members of a request that are always sent: without one the question would change.
const KEPT: [&str; 9] = [
    "model",
    "messages",
    "prompt",
    "system",
    "tools",
    "functions",
    "tool_choice",
    "function_call",
    "response_format",
];
/// Parameters that a question may have.
const USUAL: [&str; 14] = [
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "reasoning_effort",
    "verbosity",
    "user",
    "store",
    "metadata",
];
/// Where a refusal names several parameters, the one to leave out first.
const FIRST: [&str; 3] = ["top_p", "top_k", "temperature"];
/// Parameters whose names are common words: a message must quote them.
const COMMON_WORDS: [&str; 6] = ["user", "stop", "n", "stream", "store", "metadata"];
/// Signs that a value is refused and not the parameter. The user must correct it.
const BAD_VALUE: [&str; 6] = [
    "must be between",
    "above maximum",
    "below minimum",
    "greater than or equal",
    "in the range",
    "less than or equal",
];

/// A budget for thoughts, which newer models of Anthropic set themselves.
pub(super) const ENABLED_THINKING: &str = "thinking.type.enabled";
/// Members of a parameter that a refusal cannot mean alone: they are common words.
const COMMON_MEMBERS: [&str; 4] = ["type", "name", "format", "value"];

/// Where a question goes.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub endpoint: &'a Endpoint,
    pub path: &'a str,
    pub headers: &'a Headers,
    pub timeout: Duration,
    pub listener: Option<&'a dyn Listener>,
    /// Hears how the dialect changed.
    pub bill: Option<&'a dyn Bill>,
}

/// The dialects of the models of one server.
#[derive(Debug, Default)]
pub(super) struct Dialects(RwLock<BTreeMap<String, Spoken>>);

/// How long what is learned now is spoken.
fn until() -> Instant {
    Instant::now() + Duration::from_millis(KEPT_FOR_MS.unsigned_abs())
}

/// A dialect, and how long it is spoken.
#[derive(Debug)]
struct Spoken {
    dialect: Dialect,
    until: Instant,
}

impl Spoken {
    fn is_over(&self) -> bool {
        self.until <= Instant::now()
    }

    /// How long ago it changed last.
    fn age(&self) -> Duration {
        let left = self.until.saturating_duration_since(Instant::now());
        Duration::from_millis(KEPT_FOR_MS.unsigned_abs()).saturating_sub(left)
    }

    /// The dialect of a model as far as it is known; an old one begins again.
    fn renewed<'a>(all: &'a mut BTreeMap<String, Spoken>, model: &str) -> &'a mut Spoken {
        let fresh = || Spoken { dialect: Dialect::default(), until: until() };
        let spoken = all.entry(model.to_owned()).or_insert_with(fresh);
        if spoken.is_over() {
            *spoken = fresh();
        }
        spoken
    }
}

impl Dialects {
    pub(super) fn of(&self, model: &str) -> Dialect {
        let all = self.0.read();
        let spoken = all.get(model).filter(|spoken| !spoken.is_over());
        spoken.map(|spoken| spoken.dialect.clone()).unwrap_or_default()
    }

    /// Speaks a dialect that was learned earlier, unless this process learned something since.
    pub(super) fn recall(&self, model: &str, dialect: &Dialect, left: Duration) {
        let spoken = Spoken { dialect: dialect.clone(), until: Instant::now() + left };
        self.0.write().entry(model.to_owned()).or_insert(spoken);
    }

    /// The context that was learned for a model; without a model, the smallest one learned.
    pub(super) fn context(&self, model: &str) -> Option<usize> {
        let all = self.0.read();
        let context = |spoken: &Spoken| spoken.dialect.context.filter(|_| !spoken.is_over());
        let tokens = match model {
            "" => all.values().filter_map(context).min(),
            model => context(all.get(model)?),
        };
        tokens.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX))
    }

    /// Remembers the context of a model; the smallest number stands.
    pub(super) fn learn_context(
        &self,
        endpoint: &Endpoint,
        bill: Option<&dyn Bill>,
        model: &str,
        tokens: usize,
    ) {
        let before = self.of(model);
        {
            let mut all = self.0.write();
            let learned = Spoken::renewed(&mut all, model);
            let tokens = tokens as u64;
            if learned.dialect.context.is_none_or(|known| tokens < known) {
                learned.dialect.context = Some(tokens);
                learned.until = until();
            }
        }
        self.tell_change(endpoint, bill, model, &before);
    }

    /// What a batch was told about one of its questions, which is not at hand any more. A part that was
    /// refused is left out or has another name the next time. Each such answer means that the dialect has
    /// changed since the question took its form, so that it is not asked again for ever.
    pub(super) fn refused_later(
        &self,
        endpoint: &Endpoint,
        asked: AskedModel<'_>,
        error: &Value,
    ) -> BatchAnswer {
        let AskedModel { model, ago, known } = asked;
        let (error, words) =
            (ServerError::read(error.to_string().as_bytes()), endpoint.line_error(error));
        let mut all = self.0.write();
        let learned = Spoken::renewed(&mut all, model);
        if known.knows(&error) {
            return match learned.age() <= ago {
                true => BatchAnswer::Otherwise(words),
                false => BatchAnswer::Refused(words),
            };
        }
        // All questions of the batch were in the same dialect: the second of two equal refusals says
        // nothing of what the first one changed. A lower limit of the answer may not help a prompt whose
        // length is not at hand.
        let mut changed = known.clone();
        let change = (!error.words.is_empty())
            .then(|| changed.change(&known.usual(), u64::MAX, &error))
            .flatten();
        let Some(change) = change else { return BatchAnswer::Refused(words) };
        let before = learned.dialect.clone();
        learned.dialect.add(changed);
        if learned.dialect == before {
            return BatchAnswer::Otherwise(words);
        }
        learned.until = until();
        tracing::info!(model, "the model's server refuses a part of the request: {change}");
        BatchAnswer::Otherwise(format!("{words}; from now on {change}"))
    }

    /// What is known of a model, for the log.
    pub(super) fn learned(&self, endpoint: &Endpoint, model: &str) -> LearnedDialect {
        LearnedDialect {
            provider: endpoint.provider.clone(),
            server: endpoint.shown(""),
            model: model.to_owned(),
            dialect: self.of(model),
        }
    }

    /// Tells how a dialect changed, if it did.
    fn tell_change(
        &self,
        endpoint: &Endpoint,
        bill: Option<&dyn Bill>,
        model: &str,
        before: &Dialect,
    ) {
        let learned = self.learned(endpoint, model);
        if let Some(bill) = bill.filter(|_| learned.dialect != *before) {
            bill.learned(learned);
        }
    }

    /// Asks a model in its dialect; again in a better one after each refusal that changes it.
    /// Returns the answer and the dialect that was understood.
    pub(super) fn ask(
        &self,
        asked: &Asked<'_>,
        model: &str,
        prompt_tokens: u64,
        body: impl Fn(&Dialect) -> Map<String, Value>,
    ) -> Result<(Value, Dialect), ModelError> {
        let Asked { endpoint, path, headers, timeout, listener, bill } = *asked;
        let (first, mut refusals) = (self.of(model), 0);
        let mut dialect = first.clone();
        let result = loop {
            let body = Value::Object(body(&dialect));
            let refused = match endpoint.post(path, &body, headers, timeout, listener) {
                Ok(Ok(value)) => break Ok((value, dialect)),
                Ok(Err(refused)) => refused,
                Err(error) => break Err(error),
            };
            refusals += 1;
            // A failure of the server is about the request only when its error has a message.
            let status = refused.status();
            let is_about_request = matches!(status, 400 | 422) || !refused.error.words.is_empty();
            let may_help = MENDABLE.contains(&status) && is_about_request;
            let sent = body.as_object().filter(|_| may_help);
            let learned = sent.is_some_and(|sent| {
                self.learn(model, &dialect, sent, prompt_tokens, &refused.error)
            });
            if !learned || refusals > REFUSALS_MAX {
                break Err(endpoint.judge(&refused, model));
            }
            dialect = self.of(model);
        };
        if refusals > 0 {
            self.tell_change(endpoint, bill, model, &first);
        }
        result
    }

    /// Changes the dialect of a model after a refusal. `spoken` is the dialect of the refused request
    /// and `sent` its body. True when a request in the new dialect differs from the refused one.
    fn learn(
        &self,
        model: &str,
        spoken: &Dialect,
        sent: &Map<String, Value>,
        prompt_tokens: u64,
        error: &ServerError,
    ) -> bool {
        let mut all = self.0.write();
        let known = all.get(model).filter(|known| !known.is_over());
        if *spoken != known.map(|known| known.dialect.clone()).unwrap_or_default() {
            // Another call learned meanwhile; perhaps the same.
            return true;
        }
        let learned = Spoken::renewed(&mut all, model);
        let Some(change) = learned.dialect.change(sent, prompt_tokens, error) else { return false };
        learned.until = until();
        tracing::info!(model, "the model's server refuses a part of the request: {change}");
        true
    }
}

impl Dialect {
    /// The body in this dialect. The answer may have what the prompt leaves of a learned context.
    pub fn speak(&self, body: Map<String, Value>, prompt_tokens: u64) -> Map<String, Value> {
        let answer_max = self.answer_most(prompt_tokens);
        let mut spoken = Map::new();
        for (name, mut value) in body {
            let name = self.renamed.get(&name).cloned().unwrap_or(name);
            let is_idle = name == STREAM_OPTIONS && self.left_out.contains(STREAM);
            if is_idle || self.left_out.contains(&name) {
                continue;
            }
            if let (true, Some(max)) = (is_answer_limit(&name), answer_max) {
                value = value.as_u64().map_or(value, |tokens| tokens.min(u64::from(max)).into());
            }
            spoken.insert(name, value);
        }
        spoken
    }

    /// A question with every usual parameter, as it is sent in this dialect.
    fn usual(&self) -> Map<String, Value> {
        let json = [JSON_SCHEMA, JSON_OBJECT].into_iter().find(|kind| self.takes_json(kind));
        let format = json.map(|kind| ("response_format".to_owned(), json!({"type": kind})));
        let usual = USUAL.iter().map(|name| ((*name).to_owned(), Value::Null));
        self.speak(usual.chain(format).collect(), 0)
    }

    /// Takes in what was learned elsewhere.
    fn add(&mut self, other: Dialect) {
        self.left_out.extend(other.left_out);
        self.renamed.extend(other.renamed);
        self.refused_json.extend(other.refused_json);
        self.no_system |= other.no_system;
        self.answer_max = [self.answer_max, other.answer_max].into_iter().flatten().min();
        self.context = [self.context, other.context].into_iter().flatten().min();
    }

    /// Whether a refusal is about a part that is sent otherwise by now.
    fn knows(&self, error: &ServerError) -> bool {
        let words = error.words.to_ascii_lowercase();
        let mut changed = self.renamed.keys().chain(&self.left_out);
        changed.any(|name| error.param == *name || names(&words, name))
    }

    /// What was learned, one fact a line.
    pub fn told(&self) -> Vec<String> {
        let renamed =
            self.renamed.iter().map(|(name, other)| format!("`{name}` is sent as `{other}`"));
        let left_out = self.left_out.iter().map(|name| format!("`{name}` is left out"));
        let json = self.refused_json.iter().map(|kind| refused_form(kind));
        let system = self.no_system.then(|| "system texts go to the user's turn".to_owned());
        let most = self.answer_max.map(|max| format!("an answer has at most {max} tokens"));
        renamed.chain(left_out).chain(json).chain(system).chain(most).collect()
    }

    /// The parameters of a question that its answer could not heed, because they were not sent. Texts
    /// that end an answer are heeded without the server.
    pub fn not_sent(
        &self,
        settings: &CallSettings,
        config: &ProviderConfig,
        prompt_tokens: u64,
    ) -> Vec<String> {
        let own = [
            ("temperature", settings.temperature.or(config.temperature).is_some()),
            ("max_tokens", settings.max_tokens.or(config.max_tokens).is_some()),
            ("seed", settings.seed.or(config.seed).is_some()),
        ];
        let own = own.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
        let extra = settings.extra.iter().filter(|(name, value)| !says_nothing(name, value));
        let extra = extra.map(|(name, _)| name.as_str());
        let all = own.chain(extra).filter(|name| self.is_dropped(name));
        let wanted = settings.max_tokens.or(config.max_tokens);
        let sent = self.answer_limit(wanted, prompt_tokens);
        let reduced = wanted.zip(sent).filter(|(wanted, sent)| sent < wanted);
        let reduced =
            reduced.map(|(wanted, sent)| format!("max_tokens {wanted} ({sent} was sent)"));
        all.map(str::to_owned).chain(reduced).collect()
    }

    fn is_dropped(&self, name: &str) -> bool {
        let spoken = self.renamed.get(name).map_or(name, String::as_str);
        self.leaves_out(spoken)
    }

    /// The limit of an answer as the server got it.
    pub fn answer_limit(&self, wanted: Option<u32>, prompt_tokens: u64) -> Option<u32> {
        let sent = wanted.filter(|_| !self.is_dropped("max_tokens"))?;
        Some(self.answer_most(prompt_tokens).map_or(sent, |max| sent.min(max)))
    }

    /// Most tokens of an answer: the server's limit, or what the prompt leaves of a learned context.
    fn answer_most(&self, prompt_tokens: u64) -> Option<u32> {
        let prompt_tokens = prompt_tokens.saturating_add(FRAME_TOKENS);
        let left = self.context.map(|context| context.saturating_sub(prompt_tokens));
        let left =
            left.filter(|left| *left >= ANSWER_MIN).and_then(|left| u32::try_from(left).ok());
        [self.answer_max, left].into_iter().flatten().min()
    }

    /// Whether a parameter is left out, whatever it is called.
    pub fn leaves_out(&self, name: &str) -> bool {
        self.left_out.contains(name)
    }

    /// Whether a request for JSON of this type was not refused.
    pub fn takes_json(&self, kind: &str) -> bool {
        !self.refused_json.contains(kind)
    }

    fn change(
        &mut self,
        sent: &Map<String, Value>,
        prompt_tokens: u64,
        error: &ServerError,
    ) -> Option<String> {
        let words = error.words.to_ascii_lowercase();
        let json = sent.get("response_format").and_then(|format| format["type"].as_str());
        if let Some(kind) = json.filter(|_| is_about_json(&words, error)) {
            self.refused_json.insert(kind.to_owned());
            return Some(refused_form(kind));
        }
        let is_about_role = error.param.starts_with("messages") || words.contains("role");
        let refuses_system = is_about_role && words.contains("system") && words.contains("support");
        if refuses_system || words.contains("developer instruction is not enabled") {
            return (!std::mem::replace(&mut self.no_system, true))
                .then(|| "the system text goes to the user's turn".to_owned());
        }
        if error.is_too_long() {
            let context = error.context()? as u64;
            let known = self.context.replace(context);
            // Ask again only where the prompt fits and the limit of the answer was too high.
            let fits = context.saturating_sub(prompt_tokens) >= ANSWER_MIN;
            let limited = sent.keys().any(|name| is_answer_limit(name));
            return (known != Some(context) && fits && limited)
                .then(|| format!("prompt and answer have {context} tokens together"));
        }
        if refuses_stream(sent, error, &words) {
            let is_new = self.left_out.insert(STREAM.to_owned());
            return is_new.then(|| "its answers do not arrive as streams".to_owned());
        }
        if words.contains("cache_control") && !self.left_out.contains("cache_control") {
            self.left_out.insert("cache_control".to_owned());
            return Some("the beginning of a prompt is not kept in a cache".to_owned());
        }
        if refuses_enabled_thinking(sent, &words) {
            let is_new = self.left_out.insert(ENABLED_THINKING.to_owned());
            return is_new.then(|| "the model decides itself how long it thinks".to_owned());
        }
        let name = refused_parameter(sent, error, &words)?;
        if is_answer_limit(&name)
            && let Some(max) = error.answer_max()
            && self.answer_max.is_none_or(|known| max < known)
        {
            self.answer_max = Some(max);
            return Some(format!("an answer has at most {max} tokens"));
        }
        if BAD_VALUE.iter().any(|sign| words.contains(sign)) {
            return None;
        }
        let known = OTHER_NAMES.iter().find(|(one, _)| *one == name).map(|(_, other)| *other);
        let was_renamed = self.renamed.values().any(|other| *other == name);
        match known.filter(|other| !was_renamed && !sent.contains_key(*other)) {
            Some(other) => {
                self.renamed.insert(name.clone(), other.to_owned());
                Some(format!("`{name}` is sent as `{other}`"))
            }
            None => {
                let change = format!("`{name}` is left out");
                self.left_out.insert(name).then_some(change)
            }
        }
    }
}

/// What a refused type of `response_format` means for the next request.
fn refused_form(kind: &str) -> String {
    match kind {
        JSON_SCHEMA | JSON_OBJECT => format!("JSON is not requested as {kind}"),
        _ => format!("`response_format` of type {kind} is left out"),
    }
}

fn is_answer_limit(name: &str) -> bool {
    matches!(name, "max_tokens" | "max_completion_tokens")
}

/// Whether a refusal is about the form in which JSON is requested. A refused request without a
/// message may be; a failure of the server without a message is not.
fn is_about_json(words: &str, error: &ServerError) -> bool {
    const SIGNS: [&str; 7] = [
        "response_format",
        "json_schema",
        "json_object",
        "schema",
        "grammar",
        "structured output",
        // A router whose servers do not all take every parameter does not name the parameter.
        "can handle the requested parameters",
    ];
    let silent = error.words.is_empty() && error.code.is_empty();
    silent
        || error.param.starts_with("response_format")
        || SIGNS.iter().any(|sign| words.contains(sign))
}

/// Whether an answer that arrives in parts is refused, in whatever words.
fn refuses_stream(sent: &Map<String, Value>, error: &ServerError, words: &str) -> bool {
    if sent.get(STREAM) != Some(&Value::Bool(true)) || words.contains(STREAM_OPTIONS) {
        return false;
    }
    // OpenAI says: "Your organization must be verified to stream this model."
    let says_so = ["streaming", "to stream"].into_iter().any(|sign| words.contains(sign));
    error.param == STREAM || error.param.is_empty() && (says_so || names(words, STREAM))
}

/// The member of the request that a refusal names.
fn refused_parameter(
    sent: &Map<String, Value>,
    error: &ServerError,
    words: &str,
) -> Option<String> {
    let may_go = |name: &str| sent.contains_key(name) && !KEPT.contains(&name);
    let param = error.param.split(['.', '[']).next().unwrap_or_default();
    if may_go(param) {
        return Some(param.to_owned());
    }
    let named = |name: &&str| may_go(name) && names(words, name);
    let first = FIRST.iter().copied().find(|name| named(name));
    // A longer name first: `max_completion_tokens is not supported, use max_tokens`.
    let at = |name: &str| words.find(&name.to_ascii_lowercase()).unwrap_or(usize::MAX);
    let others = sent.keys().map(String::as_str).filter(named).min_by_key(|name| at(name));
    // `the effort parameter`: a member of `output_config`.
    let has_named = |value: &Value| {
        let members = value.as_object().into_iter().flat_map(Map::keys);
        let mut members = members.filter(|name| !COMMON_MEMBERS.contains(&name.as_str()));
        members.any(|name| names(words, name))
    };
    let outer = || sent.iter().find(|(name, value)| may_go(name) && has_named(value));
    first.or(others).map(str::to_owned).or_else(|| outer().map(|(name, _)| name.clone()))
}

/// Whether a model that thinks as long as it wants refuses a budget for it.
fn refuses_enabled_thinking(sent: &Map<String, Value>, words: &str) -> bool {
    let is_enabled = sent.get("thinking").is_some_and(|thinking| thinking["type"] == "enabled");
    // A refused temperature names the adaptive mode too.
    is_enabled && ["thinking.type", "adaptive thinking"].iter().any(|sign| words.contains(sign))
}

/// Whether a parameter has the value that it has without a word. PromptFlow always writes these.
pub(super) fn says_nothing(name: &str, value: &Value) -> bool {
    match (name, value.as_f64()) {
        ("top_p", Some(value)) => value >= 1.0,
        ("presence_penalty" | "frequency_penalty", Some(value)) => value == 0.0,
        _ => false,
    }
}

/// Whether words name a parameter as a word of its own, as it is sent, in one word (`presencePenalty`) or in
/// several (`reasoning.effort`).
/// Gemini calls both penalties `Penalty`.
fn names(words: &str, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    names_word(words, &name)
        || name.contains('_')
            && ["", " ", ".", "-"].iter().any(|joint| names_word(words, &name.replace('_', joint)))
        || name.ends_with("_penalty") && words.starts_with("penalty is not")
}

fn names_word(words: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let must_quote = COMMON_WORDS.contains(&name);
    words.match_indices(name).any(|(at, found)| {
        let before = words[..at].chars().next_back();
        let after = words[at + found.len()..].chars().next();
        let whole = !before.is_some_and(is_part) && !after.is_some_and(is_part);
        let quoted = before.is_some_and(|c| "'\"`".contains(c))
            || words[..at].ends_with("supplied: ")
            || words[..at].ends_with("parameter: ");
        whole && (quoted || !must_quote)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ProviderConfig, ProviderKind};

    /// What a batch teaches whose three questions are refused alike.
    fn after_three(error: &Value) -> (Dialect, Vec<bool>) {
        let kind = ProviderKind::OpenAi;
        let base_url = Some("http://127.0.0.1:9/v1".to_owned());
        let config = ProviderConfig { kind, base_url, ..ProviderConfig::default() };
        let endpoint = Endpoint::new("p", &config, None);
        let (dialects, known) = (Dialects::default(), Dialect::default());
        let asked = AskedModel { model: "m", ago: Duration::MAX, known: &known };
        let again = (0..3).map(|_| {
            matches!(dialects.refused_later(&endpoint, asked, error), BatchAnswer::Otherwise(_))
        });
        let again = again.collect();
        (dialects.of("m"), again)
    }

    #[test]
    fn equal_refusals_of_a_batch_teach_one_thing() {
        let (dialect, again) = after_three(&says("response_format json_schema is not supported"));
        assert_eq!(dialect.refused_json.into_iter().collect::<Vec<_>>(), ["json_schema"]);
        assert_eq!(again, [true; 3]);
        let most = json!({"error": {"message": "max_tokens is too large: 9000. This model supports \
            at most 4096 completion tokens", "param": "max_tokens"}});
        let (dialect, again) = after_three(&most);
        assert_eq!((dialect.answer_max, dialect.renamed.len()), (Some(4096), 0));
        assert_eq!(again, [true; 3]);
        let (dialect, again) = after_three(&says("Developer instruction is not enabled"));
        assert!(dialect.no_system && again == [true; 3]);
        let (dialect, again) = after_three(&says("your prompt was flagged"));
        assert_eq!((dialect, again), (Dialect::default(), vec![false; 3]));
    }

    /// The body to send after a refusal; `None` when the refusal names nothing that can change.
    fn after(body: &Value, refusal: &Value) -> Option<Value> {
        let dialects = Dialects::default();
        let error = ServerError::read(refusal.to_string().as_bytes());
        let sent = body.as_object().unwrap();
        let learned = dialects.learn("m", &dialects.of("m"), sent, 10, &error);
        learned.then(|| Value::Object(dialects.of("m").speak(sent.clone(), 10)))
    }

    fn says(message: &str) -> Value {
        json!({"error": {"message": message}})
    }

    #[test]
    fn a_refused_parameter_is_renamed_or_left_out() {
        let body =
            json!({"model": "m", "max_tokens": 9000, "temperature": 0.2, "top_p": 1.0, "seed": 3});
        let changed = |name: &str, to: Option<(&str, Value)>| {
            let mut body = body.clone();
            let members = body.as_object_mut().unwrap();
            let place = members.keys().position(|key| key == name).unwrap();
            members.shift_remove(name);
            if let Some((other, value)) = to {
                members.shift_insert(place, other.to_owned(), value);
            }
            Some(body)
        };
        let refuse = |refusal: Value| after(&body, &refusal);
        assert_eq!(
            refuse(
                json!({"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "param": "max_tokens"}})
            ),
            changed("max_tokens", Some(("max_completion_tokens", json!(9000))))
        );
        assert_eq!(
            refuse(
                json!({"error": {"message": "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.", "param": "temperature", "code": "unsupported_value"}})
            ),
            changed("temperature", None)
        );
        assert_eq!(
            refuse(says(
                "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
            )),
            changed("top_p", None)
        );
        assert_eq!(
            refuse(
                json!([{"error": {"code": 400, "message": "Invalid JSON payload received. Unknown name \"seed\": Cannot find field.", "status": "INVALID_ARGUMENT"}}])
            ),
            changed("seed", None)
        );
        assert_eq!(
            refuse(
                json!({"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]})
            ),
            changed("seed", None)
        );
        assert_eq!(
            refuse(says(
                "max_tokens is too large: 9000. This model supports at most 4096 completion tokens, whereas you provided 9000."
            )),
            changed("max_tokens", Some(("max_tokens", json!(4096))))
        );
        assert_eq!(
            refuse(says(
                "'max_tokens' is too large: 9000. This model's maximum context length is 4096 tokens and your request has 10 input tokens (9000 > 4096 - 10)."
            )),
            changed("max_tokens", Some(("max_tokens", json!(4022))))
        );
        for other in [
            says("Invalid 'temperature': decimal above maximum value. Expected a value <= 2"),
            says("the model m does not exist"),
            says("Invalid 'messages': empty array"),
            says("roles must alternate user/assistant"),
            says("This model's maximum context length is 128 tokens, reduce max_tokens"),
        ] {
            assert_eq!(refuse(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn a_refusal_may_spell_a_parameter_otherwise() {
        let body = json!({"model": "m", "presence_penalty": 0.5, "stop": ["a", "b", "c", "d", "e"],
            "output_config": {"effort": "low"}, "reasoning_effort": "low"});
        for (name, refusal) in [
            ("presence_penalty", says("Argument not supported on this model: presencePenalty")),
            ("presence_penalty", says("Penalty is not enabled for models/gemini-2.5-flash")),
            ("presence_penalty", json!({"Message": "extraneous key [presence_penalty]"})),
            ("presence_penalty", json!({"errors": [{"message": "no presence_penalty here"}]})),
            ("output_config", says("This model does not support the effort parameter.")),
            ("output_config", says("output_config.effort: Extra inputs are not permitted")),
            (
                "reasoning_effort",
                says("Unsupported parameter: 'reasoning.effort' is not supported"),
            ),
            ("reasoning_effort", says("reasoning effort is not supported by this model")),
            (
                "stop",
                says("Invalid 'stop': array too long. Expected an array with maximum length 4"),
            ),
        ] {
            let mut without = body.clone();
            without.as_object_mut().unwrap().shift_remove(name);
            assert_eq!(after(&body, &refusal), Some(without), "{refusal}");
        }
    }

    #[test]
    fn a_limit_that_is_reduced_is_told() {
        let settings = CallSettings { max_tokens: Some(40_000), ..CallSettings::default() };
        let told = |dialect: Dialect| dialect.not_sent(&settings, &ProviderConfig::default(), 5);
        let most = Dialect { answer_max: Some(4_000), ..Dialect::default() };
        assert_eq!(told(most), ["max_tokens 40000 (4000 was sent)"]);
        let context = Dialect { context: Some(4_096), ..Dialect::default() };
        assert_eq!(told(context), ["max_tokens 40000 (4027 was sent)"]);
        assert_eq!(told(Dialect::default()), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_is_refused_twice_is_left_out() {
        let dialects = Dialects::default();
        let body = json!({"max_tokens": 9});
        let refuse = |name: &str| {
            let error = ServerError { param: name.into(), ..ServerError::default() };
            let spoken = dialects.of("m");
            let sent = spoken.speak(body.as_object().unwrap().clone(), 10);
            dialects.learn("m", &spoken, &sent, 10, &error)
        };
        assert!(refuse("max_tokens"));
        assert!(refuse("max_completion_tokens"));
        assert!(dialects.of("m").speak(body.as_object().unwrap().clone(), 10).is_empty());
        assert!(!refuse("max_completion_tokens"), "nothing is left to change");
        assert_eq!(dialects.of("another"), Dialect::default());
    }

    #[test]
    fn a_dialect_of_an_earlier_process_is_spoken_until_its_time_is_over() {
        let dialects = Dialects::default();
        let known = Dialect { no_system: true, context: Some(4_096), ..Dialect::default() };
        dialects.recall("m", &known, Duration::from_secs(60));
        assert_eq!((dialects.of("m"), dialects.context("m")), (known.clone(), Some(4_096)));
        dialects.recall("m", &Dialect::default(), Duration::from_secs(60));
        assert_eq!(dialects.of("m"), known, "what this process knows stands");
        dialects.recall("old", &known, Duration::ZERO);
        assert_eq!((dialects.of("old"), dialects.context("old")), (Dialect::default(), None));
        let sent = json!({"seed": 3});
        let error = ServerError { param: "seed".into(), ..ServerError::default() };
        let sent = sent.as_object().unwrap();
        assert!(dialects.learn("old", &Dialect::default(), sent, 10, &error));
        assert!(dialects.of("old").leaves_out("seed"), "it is learned again");
        assert!(!dialects.of("old").no_system, "without what was known before");
    }

    #[test]
    fn a_model_without_system_texts_and_one_without_json_are_learned() {
        let dialects = Dialects::default();
        let refuse = |kind: &str, words: &str, param: &str| {
            let sent = json!({"response_format": {"type": kind}});
            let error =
                ServerError { words: words.into(), param: param.into(), ..ServerError::default() };
            dialects.learn("m", &dialects.of("m"), sent.as_object().unwrap(), 10, &error)
        };
        let role = "'messages[0].role' does not support 'system' with this model";
        assert!(refuse("", role, "messages[0].role"));
        assert!(dialects.of("m").no_system);
        let type_words = "'response_format.type' must be 'json_schema' or 'text'";
        assert!(refuse(JSON_OBJECT, type_words, ""));
        assert!(dialects.of("m").takes_json(JSON_SCHEMA), "only the refused type is left out");
        assert!(refuse(JSON_SCHEMA, "", ""), "a refusal without words may be about JSON");
        assert!(!dialects.of("m").takes_json(JSON_SCHEMA));
    }
}
