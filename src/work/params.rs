//! Parameters and settings of a flow, from the configuration and from the request.
//!
//! See docs/adr/0071-configured-flow-parameters.md.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::config::{Config, FlowConfig};
use crate::contract::request::{Input, Request};
use crate::contract::time::Day;
use crate::flow::{self, LoadedPack, PythonSettings};
use crate::registry::label;

/// The day that a request names. A request with another value was refused when it arrived.
pub(super) fn wanted_day(request: &Request) -> Option<Day> {
    request.work.params.get("day")?.as_str()?.parse().ok()
}

/// The last day that a query asks for: what it finds or misses counts there.
pub(super) fn asked_day(request: &Request) -> Option<Day> {
    match &request.input {
        Input::Query { query, .. } => Some(query.days.last()),
        _ => None,
    }
}

/// Configured parameters that the flow has. Any other is a mistake in the configuration, so the log
/// gets a warning and the request does not.
pub(super) fn known_params(
    configured: Map<String, Value>,
    pack: &LoadedPack,
) -> Map<String, Value> {
    let is_known = |name: &str| {
        flow::COMMON_PARAMS.contains(&name) || pack.inputs().iter().any(|input| input.name == name)
    };
    let mut params = Map::new();
    for (name, value) in configured {
        if is_known(&name) && pack.main_input() != Some(name.as_str()) {
            params.insert(name, value);
        } else {
            let flow = pack.record().template_id();
            tracing::warn!(%flow, %name, "the configuration sets a parameter the flow does not have");
        }
    }
    params
}

/// Configured parameters with those of the request, which win and stay exactly as given.
pub(crate) fn with_request(
    mut configured: Map<String, Value>,
    request: &Request,
) -> Map<String, Value> {
    configured.extend(request.work.params.clone());
    configured
}

/// The sections of the configuration about a flow, the one of its variant first.
pub(super) fn flow_sections<'a>(
    config: &'a Config,
    request: &Request,
) -> impl Iterator<Item = &'a FlowConfig> + use<'a> {
    let work = &request.work;
    let own = work.variant.as_deref().and_then(|variant| {
        let name = label(&work.flow_id, Some(variant));
        config.flows.get(&name)
    });
    own.into_iter().chain(config.flows.get(&work.flow_id))
}

/// How the configuration lets Python nodes run, if at all.
pub(crate) fn python_of(config: &Config) -> Option<PythonSettings> {
    config.python_allowed.then(|| python_settings(config))
}

/// How a Python node runs where it may.
pub(crate) fn python_settings(config: &Config) -> PythonSettings {
    PythonSettings {
        interpreter: config.python_interpreter.clone().into(),
        timeout: Duration::from_millis(config.python_timeout_ms.max(1).unsigned_abs()),
    }
}
