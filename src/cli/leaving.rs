//! What may leave this machine and where to, in words: provider by provider, then rule by rule.

use crate::config::{Config, ProviderConfig, Reach, shown_address};

/// One line for each provider elsewhere, for each rule, and for each other way out.
pub(super) fn what_may_leave(config: &Config) -> Vec<String> {
    let elsewhere: Vec<_> = config.providers.iter().filter(|(_, one)| !one.is_local()).collect();
    let mut lines: Vec<String> = elsewhere
        .iter()
        .map(|(name, section)| {
            format!("{name}, {}, sees the texts of {}", place_of(section), readers(config, name))
        })
        .collect();
    if lines.is_empty() {
        lines.push("no text leaves this machine: every provider is here".to_owned());
    }
    lines.extend(rules(config, !elsewhere.is_empty()));
    if !config.redact.is_empty() && !elsewhere.is_empty() {
        lines.push(format!("{} are removed before a text leaves", config.redact.join(", ")));
    }
    if let Some(endpoint) = &config.telemetry.endpoint {
        let endpoint = if endpoint == "env" { endpoint.clone() } else { shown_address(endpoint) };
        lines.push(format!("traces without texts go to the collector {endpoint}"));
    }
    let has_network = config.python_network || !config.python_jail;
    if config.python_allowed && has_network {
        let except = match config.python_jail {
            true => ", except about local_only data",
            false => ": rules do not apply to nodes without a jail",
        };
        lines.push(format!("Python nodes may use the network{except}"));
    }
    lines
}

fn place_of(section: &ProviderConfig) -> String {
    match section.kind.reach() {
        Reach::Inside => "inside this process".to_owned(),
        Reach::Server { base } => shown_address(section.base_url.as_deref().unwrap_or(base)),
        Reach::Program => {
            let program = section.command.as_deref().unwrap_or_default().first();
            format!("the program {}", program.map_or("", String::as_str))
        }
    }
}

/// The flows whose texts a provider may see.
fn readers(config: &Config, name: &str) -> String {
    let reaches = |first: &str| {
        let section = config.providers.get(first);
        let fallbacks = section.and_then(|one| one.fallback.as_ref()).into_iter().flatten();
        first == name || fallbacks.into_iter().any(|other| other == name)
    };
    let mut readers = Vec::new();
    if reaches(&config.provider_default) {
        readers.push("every flow that names no provider".to_owned());
    }
    for (flow, section) in &config.flows {
        if !section.local_only && section.provider.as_deref().is_some_and(reaches) {
            readers.push(flow.clone());
        }
    }
    let kept: Vec<&str> =
        config.flows.iter().filter(|(_, one)| one.local_only).map(|(name, _)| &**name).collect();
    match (readers.is_empty(), kept.is_empty()) {
        (true, _) => "no flow, unless a command names it".to_owned(),
        (false, true) => readers.join(", "),
        (false, false) => format!("{}, and not of {}", readers.join(", "), kept.join(", ")),
    }
}

fn rules(config: &Config, may_leave: bool) -> Vec<String> {
    let answers = match (&config.local_provider, may_leave) {
        (_, false) => "stays here, as everything does".to_owned(),
        (Some(name), true) => {
            format!("stays here: a provider here answers, {name} where the flow names none")
        }
        (None, true) => {
            "stays here: a provider here answers, and without one the request is refused".to_owned()
        }
    };
    let local_only = config.privacy.local_only.iter();
    let private = config.privacy.private.iter();
    local_only
        .map(|rule| format!("{} {answers}", rule.written()))
        .chain(private.map(|rule| format!("{} is never published", rule.written())))
        .collect()
}
