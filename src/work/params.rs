//! Parameters and settings of a flow, from the configuration and from the request.
//!
//! See docs/adr/0071-configured-flow-parameters.md.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::config::keys::slip_of;
use crate::config::{Config, FlowConfig};
use crate::contract::privacy::Confinement;
use crate::contract::request::{Input, Request};
use crate::contract::time::Day;
use crate::contract::versions::COMMON_PARAMS;
use crate::flow::{PackFacts, PythonJail, PythonSettings, is_name_of_text};
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
pub(super) fn known_params(configured: Map<String, Value>, pack: &PackFacts) -> Map<String, Value> {
    let mut params = Map::new();
    for (name, value) in configured {
        let flow = pack.record().template_id();
        if pack.main_input() == Some(name.as_str()) {
            tracing::warn!(%flow, %name, "the configuration sets the input that gets the text of the sources; it is ignored");
        } else if is_known(&name, pack) {
            params.insert(name, value);
        } else {
            tracing::warn!(%flow, %name, "the configuration sets a parameter the flow does not have");
        }
    }
    params
}

fn is_known(name: &str, pack: &PackFacts) -> bool {
    COMMON_PARAMS.contains(&name) || pack.inputs().iter().any(|input| input.name == name)
}

/// What is wrong with a parameter of a request that names sources. Its text cannot be put in their place,
/// by the name of an input or by a usual one. A name that the flow does not know is no mistake of
/// itself, because producers add their own; one that is nearly a known name is.
pub(super) fn wrong_param(name: &str, pack: &PackFacts) -> Option<String> {
    let known = is_known(name, pack);
    let folded = name.to_lowercase();
    // Of a flow that gives its sources to no input, a text is read in their place.
    let may_be_one = !known || pack.main_input().is_none();
    if pack.is_text_input(name) || (may_be_one && is_name_of_text(name)) {
        return Some(format!(
            "the parameter {name} would replace the text of the sources that the request names; \
             leave it out, or put the text into a source of its own"
        ));
    }
    let declared = pack.inputs().iter().map(|input| input.name.as_str());
    let declared = declared.filter(|declared| !pack.is_text_input(declared));
    let near = slip_of(&folded, declared.chain(COMMON_PARAMS)).filter(|_| !known)?;
    Some(format!("the flow has no parameter {name}; did you mean {near}?"))
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

/// The same about data that stays on this machine: no network in the jail.
pub(crate) fn for_data(python: PythonSettings, data: &Confinement) -> PythonSettings {
    let jail = match python.jail {
        PythonJail::On { network, memory_bytes_max } => {
            PythonJail::On { network: network && !data.is_local_only(), memory_bytes_max }
        }
        PythonJail::Off => PythonJail::Off,
    };
    PythonSettings { jail, ..python }
}

/// The same for a flow that a person runs, who chose its files.
pub(crate) fn by_person(python: PythonSettings) -> PythonSettings {
    PythonSettings { by_person: true, ..python }
}

/// How a Python node runs where it may.
pub(crate) fn python_settings(config: &Config) -> PythonSettings {
    PythonSettings {
        interpreter: config.python_interpreter.clone().into(),
        timeout: Duration::from_millis(config.python_timeout_ms.max(1).unsigned_abs()),
        jail: match config.python_jail {
            true => PythonJail::On {
                network: config.python_network,
                memory_bytes_max: config.python_memory_bytes_max as u64,
            },
            false => PythonJail::Off,
        },
        variables: None,
        by_person: false,
    }
}
