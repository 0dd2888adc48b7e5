//! The providers of a configuration, each behind its gate, with fallbacks, and who answers for which flow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::gate::{Budget, Fallback, Gate, Limits, RealTime, WithModel};
use super::http::Secret;
use super::recorded::{self, Recorded};
use super::redact::{Redacting, Redaction};
use super::{Anthropic, BUILTIN, CommandProvider, ModelIdentity, OpenAi, Provider};
use crate::config::{Config, ProviderConfig};
use crate::os::{Clock, Machine};

/// A provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Nobody has this name.
    #[error("find the provider {name}: the configuration has none of that name")]
    Unknown {
        /// The name.
        name: String,
    },
    /// Its section lacks something.
    #[error("set up the provider {name}: {reason}")]
    Setup {
        /// The name.
        name: String,
        /// What is missing.
        reason: String,
    },
    /// The flow may not leave this machine.
    #[error(
        "run {flow_id} with the provider {name}: the flow is local_only and the provider is not on this machine"
    )]
    NotLocal {
        /// The flow.
        flow_id: String,
        /// The provider.
        name: String,
    },
}

/// All providers of a configuration.
pub struct Providers {
    /// Each behind its gate, without its fallbacks.
    gated: BTreeMap<String, Arc<dyn Provider>>,
    /// Whether no text leaves this machine, fallbacks included.
    local: BTreeMap<String, bool>,
    config: Config,
    budget: Arc<Budget>,
    clock: Arc<dyn Clock>,
}

impl Providers {
    /// Sets up every provider of a configuration. Keys are read from the environment here, once.
    /// A provider whose key is absent is set up without; its server will say so.
    pub fn new(
        config: &Config,
        builtin: Arc<dyn Provider>,
        machine: &Machine,
    ) -> Result<Providers, ProviderError> {
        let (cost, tokens) = (config.cost_per_day_max, config.tokens_per_day_max);
        let budget = Arc::new(Budget::new(cost, tokens, config.timezone));
        Self::set_up(config, builtin, machine, budget, None)
    }

    /// The same for another configuration: the budget of the day goes on, and so does every
    /// provider whose settings are the same, with its pauses, its rates and its connections.
    pub fn reconfigured(
        &self,
        config: &Config,
        builtin: Arc<dyn Provider>,
        machine: &Machine,
    ) -> Result<Providers, ProviderError> {
        let budget = Arc::clone(&self.budget);
        let providers = Self::set_up(config, builtin, machine, budget, Some(self))?;
        let (cost, tokens) = (config.cost_per_day_max, config.tokens_per_day_max);
        providers.budget.set_limits(cost, tokens, config.timezone);
        Ok(providers)
    }

    fn set_up(
        config: &Config,
        builtin: Arc<dyn Provider>,
        machine: &Machine,
        budget: Arc<Budget>,
        before: Option<&Providers>,
    ) -> Result<Providers, ProviderError> {
        let redaction = Redaction::of(&config.redact).unwrap_or_default();
        let mut gated: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
        let mut local_alone = BTreeMap::new();
        for (name, section) in &config.providers {
            let kept = before.and_then(|before| before.unchanged(name, config));
            let provider = match (section.kind.as_str(), kept) {
                ("builtin", _) => Arc::clone(&builtin),
                (_, Some(kept)) => kept,
                _ => {
                    let mut inner = remote(name, section, machine)?;
                    if !redaction.is_nothing() && !is_local(section) {
                        inner = Arc::new(Redacting::new(inner, redaction));
                    }
                    let limits = limits(config, section);
                    Arc::new(Gate::new(
                        inner,
                        limits,
                        Arc::clone(&budget),
                        machine.clock.clone(),
                        Arc::new(RealTime),
                    ))
                }
            };
            local_alone.insert(name.clone(), is_local(section));
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
        Ok(Providers { gated, local, config: config.clone(), budget, clock })
    }

    /// The provider of this name, if another configuration leaves it as it is.
    fn unchanged(&self, name: &str, config: &Config) -> Option<Arc<dyn Provider>> {
        let same_section = self.config.providers.get(name) == config.providers.get(name);
        let key = |config: &Config| limits(config, &ProviderConfig::default());
        let same_limits = key(&self.config) == key(config) && self.config.redact == config.redact;
        // Recordings are a file, which may have changed without the section.
        let recorded = config.providers.get(name).is_some_and(|one| one.kind == "recorded");
        let same = same_section && same_limits && !recorded;
        self.gated.get(name).filter(|_| same).cloned()
    }

    /// The provider of this name, asked for another model, with those that stand in for it.
    fn chain(&self, name: &str, model: Option<&str>) -> Result<Arc<dyn Provider>, ProviderError> {
        let unknown = || ProviderError::Unknown { name: name.to_owned() };
        let mut first = self.gated.get(name).cloned().ok_or_else(unknown)?;
        if let Some(model) = model.filter(|_| !first.is_free()) {
            first = Arc::new(WithModel::new(first, model));
        }
        let section = self.config.providers.get(name);
        let names = section.and_then(|section| section.fallback.as_ref()).into_iter().flatten();
        let others: Vec<_> = names.filter_map(|other| self.gated.get(other).cloned()).collect();
        match others.is_empty() {
            true => Ok(first),
            false => Ok(Arc::new(Fallback::new(first, others, Arc::clone(&self.clock)))),
        }
    }

    /// Who answers for a flow: the provider and the model its section names (for this variant,
    /// `[flow."ID@VARIANT"]` first), else the default provider and the model that it is set up with.
    /// A provider that is asked for by name answers instead, but never for a flow that may not
    /// leave this machine if the provider, or one that stands in for it, is elsewhere.
    pub fn for_flow(
        &self,
        flow_id: &str,
        variant: Option<&str>,
        asked_for: Option<&str>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let own =
            variant.and_then(|variant| self.config.flows.get(&format!("{flow_id}@{variant}")));
        let general = self.config.flows.get(flow_id);
        let sections = || own.into_iter().chain(general);
        let configured = || sections().find_map(|section| section.provider.clone());
        let name = asked_for.map(str::to_owned).or_else(configured);
        let name = name.unwrap_or_else(|| self.config.provider_default.clone());
        let model = sections().find_map(|section| section.model.as_deref());
        let model = model.filter(|_| asked_for.is_none());
        let provider = self.chain(&name, model)?;
        let local_only = sections().any(|section| section.local_only);
        if local_only && self.local.get(&name) != Some(&true) {
            return Err(ProviderError::NotLocal { flow_id: flow_id.to_owned(), name });
        }
        Ok(provider)
    }

    /// Names and identities, sorted.
    pub fn list(&self) -> impl Iterator<Item = (&str, ModelIdentity)> {
        self.gated.iter().map(|(name, provider)| (name.as_str(), provider.identity()))
    }

    /// The budget they share.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
}

fn limits(config: &Config, section: &ProviderConfig) -> Limits {
    Limits {
        concurrency: config.in_flight_per_provider,
        requests_per_minute: section.requests_per_minute,
        tokens_per_minute: section.tokens_per_minute,
        price_in: section.price_in.unwrap_or(0.0),
        price_out: section.price_out.unwrap_or(0.0),
        patience: Duration::from_millis(config.attempt_timeout_ms.max(0).unsigned_abs() / 2),
    }
}

fn remote(
    name: &str,
    section: &ProviderConfig,
    machine: &Machine,
) -> Result<Arc<dyn Provider>, ProviderError> {
    let setup = |reason: String| ProviderError::Setup { name: name.to_owned(), reason };
    let key = key_of(section);
    match section.kind.as_str() {
        "openai" => Ok(Arc::new(OpenAi::new(name, section, key))),
        "anthropic" => Ok(Arc::new(Anthropic::new(name, section, key))),
        "command" => {
            let argv = section.command.clone().filter(|argv| !argv.is_empty());
            let argv = argv.ok_or_else(|| setup("it has no command".to_owned()))?;
            Ok(Arc::new(CommandProvider::new(name, argv, section, key)))
        }
        "recorded" => {
            let path = section
                .recordings
                .as_ref()
                .ok_or_else(|| setup("it has no recordings".to_owned()))?;
            let bytes = machine
                .disk
                .read(std::path::Path::new(path))
                .map_err(|error| setup(format!("read {path}: {error}")))?;
            let recordings = recorded::parse(&String::from_utf8_lossy(&bytes));
            let recordings = recordings.map_err(|error| setup(format!("{path}: {error}")))?;
            Ok(Arc::new(Recorded::new(name, recordings)))
        }
        kind => Err(setup(format!("there is no kind {kind}"))),
    }
}

/// What its variable holds, unless that is nothing.
pub(super) fn key_of(section: &ProviderConfig) -> Option<Secret> {
    let key = std::env::var(section.api_key_env.as_ref()?).ok()?;
    let key = key.trim();
    (!key.is_empty()).then(|| Secret::new(key))
}

/// True when no text leaves this machine, as far as the configuration tells. What a command does
/// with its input nobody knows but who configured it.
fn is_local(section: &ProviderConfig) -> bool {
    if let Some(local) = section.local {
        return local;
    }
    match section.kind.as_str() {
        "builtin" | "recorded" => true,
        "openai" | "anthropic" => {
            let base = section.base_url.as_deref().unwrap_or_default();
            let host = base.split("://").nth(1).unwrap_or_default();
            let host = host.split(['/', '?', '#']).next().unwrap_or_default();
            let host = host.rsplit('@').next().unwrap_or_default();
            let name = match host.strip_prefix('[') {
                Some(rest) => rest.split(']').next().unwrap_or_default(),
                None => host.split(':').next().unwrap_or_default(),
            };
            let loopback = name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
            name == "localhost" || loopback
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_means_this_machine() {
        let of = |base: &str| {
            is_local(&ProviderConfig {
                kind: "openai".into(),
                base_url: Some(base.into()),
                ..Default::default()
            })
        };
        assert!(
            of("http://127.0.0.1:11434/v1") && of("http://localhost/v1") && of("http://[::1]:8080")
        );
        assert!(
            !of("https://api.openai.com/v1")
                && !of("http://127.0.0.1.evil.example/")
                && !of("http://localhost@evil.example")
        );
        assert!(!is_local(&ProviderConfig { kind: "openai".into(), ..Default::default() }));
        let command = ProviderConfig { kind: "command".into(), ..Default::default() };
        assert!(!is_local(&command));
        assert!(is_local(&ProviderConfig { local: Some(true), ..command }));
    }
}
