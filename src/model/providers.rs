//! The providers of a configuration: how each is built, and which one answers for a flow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::anthropic::Anthropic;
use super::batch_lane::{BatchLane, BatchPrice, Batched};
use super::budget::Budget;
use super::call::{CallSettings, Listener, Message, ModelCall, ResponseFormat, Role};
use super::command::CommandProvider;
use super::error::ModelError;
use super::fallback::{Fallback, WithModel};
use super::gate::{Gate, Limits, RealTime};
use super::openai::OpenAi;
use super::provider::{BUILTIN, Provider, Resting};
use super::recorded::{self, Recorded};
use super::redact::{Redacting, Redaction};
use super::reply::{ModelReply, StopReason};
use super::secret::Secret;
use super::thoughts;
use super::tls::{Certificate, certificates};
use crate::config::{Config, ProviderConfig, ProviderKind, Reach};
use crate::contract::privacy::Confinement;
use crate::contract::vocabulary::FailureCause;
use crate::facts::dialect::{Dialect, LearnedDialect};
use crate::os::{Clock, Machine};

/// Most tokens of the answer to a probe, and of the second one to a model that uses them all to think.
pub(crate) const PROBE_TOKENS: [u32; 2] = [1_024, 4_096];

/// A provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    #[error("find the provider {name}: the configuration has no section [provider.{name}]")]
    Unknown { name: String },
    #[error("set up the provider {name}: {reason}")]
    Setup { name: String, reason: String },
    #[error(
        "run {flow_id} with the provider {name}: the flow is local_only, and the provider or one of \
         its fallbacks is not on this machine"
    )]
    NotLocal { flow_id: String, name: String },
    #[error(
        "run {flow_id} with the provider {name}: the data must stay on this machine \
         (privacy.local_only: {because}), and {}",
        match asked_for {
            true => "this provider is elsewhere",
            false => "neither this provider nor a fallback of it is here; give the flow a provider on \
                      this machine, or set privacy.local_provider",
        }
    )]
    DataNotLocal { flow_id: String, name: String, because: String, asked_for: bool },
}

impl ProviderError {
    /// Whether a text must stay on this machine and no provider here can take it.
    pub(crate) fn keeps_text_here(&self) -> bool {
        matches!(self, ProviderError::NotLocal { .. } | ProviderError::DataNotLocal { .. })
    }
}

/// All providers of a configuration.
pub(crate) struct Providers {
    /// Each provider behind its gate, without its fallbacks.
    gated: BTreeMap<String, Arc<dyn Provider>>,
    /// Whether no text leaves this machine when the provider and its fallbacks answer.
    local: BTreeMap<String, bool>,
    /// The same without the fallbacks.
    local_alone: BTreeMap<String, bool>,
    config: Config,
    budget: Arc<Budget>,
    lane: Arc<BatchLane>,
    clock: Arc<dyn Clock>,
}

impl Providers {
    /// Sets up every provider of a configuration and reads their keys from the environment. A
    /// provider whose key is absent is set up without a key; its server will refuse the question.
    pub(crate) fn new(
        config: &Config,
        builtin: Arc<dyn Provider>,
        machine: &Machine,
    ) -> Result<Providers, ProviderError> {
        let (cost, tokens) = (config.cost_per_day_max, config.tokens_per_day_max);
        let budget = Arc::new(Budget::new(cost, tokens, config.timezone));
        let lane = Arc::new(BatchLane::new(Arc::clone(&budget), Arc::clone(&machine.clock)));
        Self::set_up(config, builtin, machine, (budget, lane), None)
    }

    /// Sets up a changed configuration. The budget of the day stays, and so does every provider with
    /// unchanged settings, with its pauses, its rates and its connections.
    pub(crate) fn reconfigured(
        &self,
        config: &Config,
        builtin: Arc<dyn Provider>,
        machine: &Machine,
    ) -> Result<Providers, ProviderError> {
        let shared = (Arc::clone(&self.budget), Arc::clone(&self.lane));
        let providers = Self::set_up(config, builtin, machine, shared, Some(self))?;
        let (cost, tokens) = (config.cost_per_day_max, config.tokens_per_day_max);
        providers.budget.set_limits(cost, tokens, config.timezone);
        Ok(providers)
    }

    fn set_up(
        config: &Config,
        builtin: Arc<dyn Provider>,
        machine: &Machine,
        (budget, lane): (Arc<Budget>, Arc<BatchLane>),
        before: Option<&Providers>,
    ) -> Result<Providers, ProviderError> {
        let redaction = Redaction::of(&config.redact).unwrap_or_default();
        let mut gated: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
        let mut local_alone = BTreeMap::from([(BUILTIN.to_owned(), true)]);
        for (name, section) in &config.providers {
            let kept = before.and_then(|before| before.unchanged(name, config));
            let inner = if kept.is_some() { None } else { configured(name, section, machine) };
            let provider = match (kept, inner) {
                (Some(kept), _) => kept,
                (None, None) => Arc::clone(&builtin),
                (None, Some(inner)) => {
                    let mut inner = inner?;
                    if !redaction.is_off() && !section.is_local() {
                        inner = Arc::new(Redacting::new(inner, redaction));
                    }
                    let limits = limits(config, section);
                    let price = BatchPrice::of(limits.price_in, limits.price_out);
                    let gate: Arc<dyn Provider> = Arc::new(Gate::new(
                        inner,
                        limits,
                        Arc::clone(&budget),
                        machine.clock.clone(),
                        Arc::new(RealTime),
                    ));
                    match section.batch {
                        Some(true) if gate.batches().is_some() => {
                            let lane = Arc::clone(&lane);
                            Arc::new(Batched { inner: gate, lane, price })
                        }
                        _ => gate,
                    }
                }
            };
            local_alone.insert(name.clone(), section.is_local());
            gated.insert(name.clone(), provider);
        }
        gated.entry(BUILTIN.to_owned()).or_insert(builtin);
        let mut local = BTreeMap::from([(BUILTIN.to_owned(), true)]);
        for (name, section) in &config.providers {
            let names = section.fallback.iter().flatten();
            if let Some(name) = names.clone().find(|other| !gated.contains_key(*other)) {
                return Err(ProviderError::Unknown { name: name.clone() });
            }
            let all_local = names.clone().all(|other| local_alone.get(other) == Some(&true));
            local.insert(name.clone(), local_alone[name] && all_local);
        }
        let clock = Arc::clone(&machine.clock);
        Ok(Providers { gated, local, local_alone, config: config.clone(), budget, lane, clock })
    }

    /// The provider of this name, if another configuration does not change it.
    fn unchanged(&self, name: &str, config: &Config) -> Option<Arc<dyn Provider>> {
        let same_section = self.config.providers.get(name) == config.providers.get(name);
        let key = |config: &Config| limits(config, &ProviderConfig::default());
        let same_limits = key(&self.config) == key(config) && self.config.redact == config.redact;
        // What answers inside this process is always set up anew: the file of recordings may have
        // changed while its section stayed the same.
        let inside =
            config.providers.get(name).is_some_and(|one| one.kind.reach() == Reach::Inside);
        let same = same_section && same_limits && !inside;
        self.gated.get(name).filter(|_| same).cloned()
    }

    /// A provider and its fallbacks, by name.
    fn names<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let section = self.config.providers.get(name);
        let fallbacks = section.and_then(|section| section.fallback.as_ref()).into_iter().flatten();
        std::iter::once(name).chain(fallbacks.map(String::as_str))
    }

    /// The providers of these names, one after the other. The first is asked for `model` if one is given.
    fn chain(
        &self,
        names: &[&str],
        model: Option<&str>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let unknown = |name: &str| ProviderError::Unknown { name: name.to_owned() };
        let named = |name: &&str| self.gated.get(*name).cloned().ok_or_else(|| unknown(name));
        let mut all = names.iter().map(named).collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut first = all.next().ok_or_else(|| unknown(""))?;
        if let Some(model) = model.filter(|_| !first.is_free()) {
            first = Arc::new(WithModel::new(first, model));
        }
        let others: Vec<_> = all.collect();
        match others.is_empty() {
            true => Ok(first),
            false => Ok(Arc::new(Fallback::new(first, others, Arc::clone(&self.clock)))),
        }
    }

    /// The providers that may answer about data: the chosen one with its fallbacks. For data that stays
    /// here only those on this machine, or else `privacy.local_provider`.
    fn allowed<'a>(
        &'a self,
        flow_id: &str,
        chosen: &'a str,
        asked_for: bool,
        data: &Confinement,
    ) -> Result<Vec<&'a str>, ProviderError> {
        if !data.is_local_only() {
            return Ok(self.names(chosen).collect());
        }
        let is_here = |name: &&str| self.local_alone.get(*name) == Some(&true);
        let refused = || ProviderError::DataNotLocal {
            flow_id: flow_id.to_owned(),
            name: chosen.to_owned(),
            because: Confinement::shown(&data.local_only),
            asked_for,
        };
        // A person who names a provider means that one.
        if asked_for && !is_here(&chosen) {
            return Err(refused());
        }
        let own: Vec<&str> = self.names(chosen).filter(is_here).collect();
        if !own.is_empty() {
            return Ok(own);
        }
        let named = self.config.local_provider.as_deref().filter(is_here).ok_or_else(refused)?;
        Ok(self.names(named).filter(is_here).collect())
    }

    /// The provider for a flow: the provider and the model of `[flow."ID@VARIANT"]`, then of
    /// `[flow."ID"]`, else the default provider with its own model. `asked_for` names another provider
    /// for this one call. A `local_only` flow is refused where the provider or one of its fallbacks is
    /// on another machine. About `data` that stays here, only providers on this machine answer. This is the
    /// one place where a text gets its provider.
    ///
    /// See docs/adr/0118-rules-about-data.md.
    pub(crate) fn for_flow(
        &self,
        flow_id: &str,
        variant: Option<&str>,
        asked_for: Option<&str>,
        data: &Confinement,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let chosen = self.chosen(flow_id, variant, asked_for)?;
        let names = self.allowed(flow_id, &chosen.name, asked_for.is_some(), data)?;
        let model = chosen.model.filter(|_| names.first() == Some(&chosen.name.as_str()));
        self.chain(&names, model)
    }

    /// The same provider without its fallbacks, for a file of questions: a person sends it to one server.
    pub(crate) fn for_file(
        &self,
        flow_id: &str,
        variant: Option<&str>,
        asked_for: Option<&str>,
        data: &Confinement,
    ) -> Result<(String, Arc<dyn Provider>), ProviderError> {
        let ChosenProvider { name, model } = self.chosen(flow_id, variant, asked_for)?;
        if data.is_local_only() && self.local_alone.get(&name) != Some(&true) {
            let because = Confinement::shown(&data.local_only);
            let flow_id = flow_id.to_owned();
            return Err(ProviderError::DataNotLocal { flow_id, name, because, asked_for: true });
        }
        let unknown = || ProviderError::Unknown { name: name.clone() };
        let provider = self.gated.get(&name).cloned().ok_or_else(unknown)?;
        Ok(match model.filter(|_| !provider.is_free()) {
            Some(model) => (name, Arc::new(WithModel::new(provider, model))),
            None => (name, provider),
        })
    }

    fn chosen<'a>(
        &'a self,
        flow_id: &str,
        variant: Option<&str>,
        asked_for: Option<&str>,
    ) -> Result<ChosenProvider<'a>, ProviderError> {
        let own =
            variant.and_then(|variant| self.config.flows.get(&format!("{flow_id}@{variant}")));
        let general = self.config.flows.get(flow_id);
        let sections = || own.into_iter().chain(general);
        let configured = || sections().find_map(|section| section.provider.clone());
        let name = asked_for.map(str::to_owned).or_else(configured);
        let name = name.unwrap_or_else(|| self.config.provider_default.clone());
        if !self.gated.contains_key(&name) {
            return Err(ProviderError::Unknown { name });
        }
        let local_only = sections().any(|section| section.local_only);
        if local_only && self.local.get(&name) != Some(&true) {
            return Err(ProviderError::NotLocal { flow_id: flow_id.to_owned(), name });
        }
        let model = sections().find_map(|section| section.model.as_deref());
        Ok(ChosenProvider { name, model: model.filter(|_| asked_for.is_none()) })
    }

    /// Tokens a second of the newest answers of each provider that has answered.
    pub(crate) fn speeds(&self) -> BTreeMap<String, f64> {
        let speeds = self.gated.iter();
        speeds.filter_map(|(name, one)| Some((name.clone(), one.tokens_per_second()?))).collect()
    }

    /// The providers that get no calls for a time.
    pub(crate) fn resting(&self) -> BTreeMap<String, Resting> {
        let gated = self.gated.iter();
        gated.filter_map(|(name, one)| Some((name.clone(), one.rests()?))).collect()
    }

    /// Speaks a dialect that the log knows, for the time that is left of it.
    pub(crate) fn recall(&self, learned: &LearnedDialect, left: Duration) {
        if let Some(provider) = self.gated.get(&learned.provider) {
            provider.recall(learned, left);
        }
    }

    /// Where scheduled questions wait for their batch.
    pub(crate) fn lane(&self) -> Arc<BatchLane> {
        Arc::clone(&self.lane)
    }

    /// The provider of this name, without its fallbacks.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.gated.get(name).cloned()
    }

    /// The budget that all providers share.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }
}

/// The provider that a flow is configured with.
struct ChosenProvider<'a> {
    name: String,
    /// The model that the flow names.
    model: Option<&'a str>,
}

fn limits(config: &Config, section: &ProviderConfig) -> Limits {
    let price_in = section.price_in.unwrap_or(0.0);
    let cache = section.kind.cache_shares();
    Limits {
        concurrency: config.in_flight_per_provider,
        requests_per_minute: section.requests_per_minute,
        tokens_per_minute: section.tokens_per_minute,
        price_in,
        price_cached: section.price_cached.unwrap_or(price_in * cache.read),
        price_cache_write: price_in * cache.write,
        price_out: section.price_out.unwrap_or(0.0),
        patience: Duration::from_millis(config.attempt_timeout_ms.max(0).unsigned_abs() / 2),
    }
}

/// The models that the server of a provider lists; `None` where it lists none or where the provider has
/// no server. Sends no text and costs nothing.
pub(crate) fn listed_models(
    name: &str,
    section: &ProviderConfig,
    machine: &Machine,
    within: Duration,
) -> Result<Option<Vec<String>>, ModelError> {
    match configured(name, section, machine) {
        Some(Ok(provider)) => provider.models(within),
        None => Ok(None),
        Some(Err(error)) => Err(ModelError::Permanent {
            provider: name.to_owned(),
            reason: error.to_string().into(),
            cause: FailureCause::Configuration,
        }),
    }
}

/// What one tiny call showed of a provider.
pub(crate) struct Probed {
    pub reply: ModelReply,
    /// Whether the answer arrived as a stream.
    pub streamed: bool,
    /// Whether the answer was the JSON that was asked for.
    pub is_json: bool,
    /// Whether it used up a usual limit before its first word.
    pub thinks_long: bool,
    /// What was learned on the way.
    pub learned: Vec<String>,
    /// How many tokens a prompt and its answer may have; `None` when neither the configuration nor the server says it.
    pub context: Option<usize>,
}

/// Asks a provider for a few words of JSON. `None` where it answers inside this process.
pub(crate) fn probed(
    name: &str,
    section: &ProviderConfig,
    machine: &Machine,
    within: Duration,
    learned: &[LearnedDialect],
) -> Result<Option<Probed>, ModelError> {
    let provider = match configured(name, section, machine) {
        Some(Ok(provider)) => provider,
        None => return Ok(None),
        Some(Err(error)) => {
            let (provider, cause) = (name.to_owned(), FailureCause::Configuration);
            return Err(ModelError::Permanent {
                provider,
                reason: error.to_string().into(),
                cause,
            });
        }
    };
    // What it accepts is tried anew. How much it reads shows only in long prompts.
    for LearnedDialect { dialect, server, model, .. } in
        learned.iter().filter(|one| one.provider == name)
    {
        let dialect = Dialect { context: dialect.context, ..Dialect::default() };
        let (server, model) = (server.clone(), model.clone());
        let known = LearnedDialect { provider: name.to_owned(), server, model, dialect };
        provider.recall(&known, within);
    }
    let schema = json!({
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": false,
    });
    let messages = [Message::new(Role::User, "Answer only with this JSON object: {\"ok\": true}")];
    let heard = Heard::default();
    let ask = |max_tokens: u32| {
        provider.call(&ModelCall {
            flow_id: "doctor.probe.v1",
            variant: None,
            node: "probe",
            messages: &messages,
            inputs: &Map::new(),
            sources: &[],
            schema: Some(&schema),
            validator: None,
            hints: None,
            settings: CallSettings {
                temperature: Some(0.0),
                max_tokens: Some(max_tokens),
                response_format: ResponseFormat::JsonSchema,
                ..CallSettings::default()
            },
            timeout: within,
            bill: None,
            listener: Some(&heard),
            model: None,
            apart: false,
            speakers: None,
            kept_as: "",
        })
    };
    let [few, more] = PROBE_TOKENS;
    let mut reply = ask(few)?;
    let thinks_long = reply.stop == StopReason::Length && reply.text.trim().is_empty();
    if thinks_long {
        reply = ask(more)?;
    }
    let text = thoughts::after(&reply.text).unwrap_or(&reply.text);
    let json = text.find('{').zip(text.rfind('}')).and_then(|(start, end)| text.get(start..=end));
    let is_json = json
        .and_then(|json| serde_json::from_str::<Value>(json).ok())
        .is_some_and(|value| value["ok"].is_boolean());
    Ok(Some(Probed {
        is_json,
        thinks_long,
        streamed: heard.0.load(Ordering::Relaxed),
        learned: provider.learned(),
        context: provider.context_is_known().then(|| provider.context_tokens()),
        reply,
    }))
}

/// Whether a part of an answer was heard.
#[derive(Default)]
struct Heard(AtomicBool);

impl Listener for Heard {
    fn heard(&self, _: &str) -> bool {
        self.0.store(true, Ordering::Relaxed);
        true
    }
}

/// Builds a provider from its section; `None` for the embedded provider, which every section of its
/// kind shares.
fn configured(
    name: &str,
    section: &ProviderConfig,
    machine: &Machine,
) -> Option<Result<Arc<dyn Provider>, ProviderError>> {
    let setup = |reason: String| ProviderError::Setup { name: name.to_owned(), reason };
    let provider: Result<Arc<dyn Provider>, ProviderError> = match section.kind {
        ProviderKind::Builtin => return None,
        ProviderKind::OpenAi => trusted(name, section, machine).map_err(setup).map(|trusted| {
            let provider = OpenAi::new(name, section, key_of(section));
            Arc::new(provider.trusting(trusted.as_deref())) as Arc<dyn Provider>
        }),
        ProviderKind::Anthropic => trusted(name, section, machine).map_err(setup).map(|trusted| {
            let provider = Anthropic::new(name, section, key_of(section));
            Arc::new(provider.trusting(trusted.as_deref())) as Arc<dyn Provider>
        }),
        ProviderKind::Command => {
            let argv = section.command.clone().filter(|argv| !argv.is_empty());
            let missing = || setup(format!("set provider.{name}.command to the program"));
            argv.ok_or_else(missing).map(|argv| {
                let provider = CommandProvider::new(name, argv, section, key_of(section));
                Arc::new(provider) as Arc<dyn Provider>
            })
        }
        ProviderKind::Recorded => recordings(name, section, machine).map_err(setup).map(|lines| {
            Arc::new(Recorded::new(name, section.profile, lines)) as Arc<dyn Provider>
        }),
    };
    Some(provider)
}

/// The certificates that the server's certificate must come from, where the section names a file.
fn trusted(
    name: &str,
    section: &ProviderConfig,
    machine: &Machine,
) -> Result<Option<Vec<Certificate<'static>>>, String> {
    let Some(path) = &section.ca_file else { return Ok(None) };
    let bad = |what: String| format!("provider.{name}.ca_file {path}: {what}");
    let bytes = machine.disk.read(std::path::Path::new(path));
    let bytes = bytes.map_err(|error| bad(error.to_string()))?;
    let found = certificates(&bytes).map_err(bad)?;
    Ok(Some(found))
}

fn recordings(
    name: &str,
    section: &ProviderConfig,
    machine: &Machine,
) -> Result<Vec<recorded::Recording>, String> {
    let missing = || format!("set provider.{name}.recordings to the file of recorded answers");
    let path = section.recordings.as_ref().ok_or_else(missing)?;
    let bytes = machine.disk.read(std::path::Path::new(path));
    let bytes = bytes.map_err(|error| format!("read {path}: {error}"))?;
    let lines = recorded::parse(&String::from_utf8_lossy(&bytes));
    lines.map_err(|error| format!("{path}: {error}"))
}

/// The key in the environment variable of a provider, unless it is empty.
fn key_of(section: &ProviderConfig) -> Option<Secret> {
    let key = std::env::var(section.api_key_env.as_ref()?).ok()?;
    let key = key.trim();
    (!key.is_empty()).then(|| Secret::new(key))
}
