//! The settings and the flow registry of a home.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;

use super::Context;
use super::failure::{Exit, Failure};
use crate::config::{Config, ConfigError, Origin};
use crate::contract::places::HomePaths;
use crate::registry::{FlowDirectory, Registry, SharedFlows};

/// Whether the log of the home is shared with other hosts.
pub(super) fn is_shared(context: &Context) -> bool {
    load_config(context).is_ok_and(|config| config.cluster.is_some())
}

/// The settings file of a home.
pub(super) fn config_path(context: &Context) -> std::path::PathBuf {
    context.config_file.clone().unwrap_or_else(|| context.home.join("summarizer.toml"))
}

/// Reads the configuration that is in force for a home.
pub(crate) fn load_config(context: &Context) -> Result<Config, Failure> {
    let path = config_path(context);
    let bytes = context.machine.disk.read_if_present(&path).map_err(|error| {
        Failure::new(Exit::Config, format!("cannot read {}", path.display())).because(&error)
    })?;
    if bytes.is_none() && context.config_file.is_some() {
        let what = format!("there is no configuration file {}", path.display());
        return Err(Failure::new(Exit::Config, what));
    }
    let text = match bytes.map(String::from_utf8).transpose() {
        Ok(text) => text,
        Err(error) => {
            let what = format!("{} is not UTF-8", path.display());
            return Err(Failure::new(Exit::Config, what).because(&error));
        }
    };
    let read = parse_config(text.as_deref()).map(|mut config| {
        if !config.privacy.is_empty() {
            config.privacy.set_home(&home_paths(context));
        }
        config
    });
    read.map_err(|error| {
        let what = match &error {
            // The error names the variable; the file may not even exist.
            ConfigError::BadValue { origin: Origin::Environment(_), .. } => {
                "the configuration is invalid".to_owned()
            }
            _ => format!("the configuration {} is invalid", path.display()),
        };
        Failure::new(Exit::Config, what)
            .because(&error)
            .hint("correct it; `summarizer config --defaults` lists every key with its default")
    })
}

/// The paths of the home, as it is given and without links.
fn home_paths(context: &Context) -> HomePaths {
    let given = std::path::absolute(&context.home).unwrap_or_else(|_| context.home.clone());
    let real = context.machine.disk.real_path(&context.home);
    let home = std::iter::once(given).chain(real).map(|path| path.display().to_string());
    let person = std::env::var_os("HOME").map(|person| PathBuf::from(person).display().to_string());
    HomePaths { home: home.collect(), person }
}

/// The settings of a home without a configuration file.
pub(crate) fn default_config() -> Result<Config, Failure> {
    Config::load(None, &BTreeMap::new(), cores())
        .map_err(|error| Failure::new(Exit::Bug, "the defaults are invalid").because(&error))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn parse_config(text: Option<&str>) -> Result<Config, ConfigError> {
    let environment: BTreeMap<String, String> = std::env::vars()
        .filter(|(name, _)| name.starts_with("SUMMARIZER_") || name == "BUS_HOME")
        .collect();
    Config::load(text, &environment, cores())
}

/// The registry of a home, or the embedded one.
pub(crate) fn load_registry(context: &Context) -> Result<Registry, Failure> {
    Registry::of_home(context.machine.disk.as_ref(), &context.home).map_err(|error| {
        Failure::new(Exit::Config, "the flow registry is invalid")
            .because(&error)
            .hint("`summarizer registry check` lists all its errors")
    })
}

/// The flows of a registry, replaceable by a reload.
pub(crate) fn shared_flows(registry: Registry) -> SharedFlows {
    let flows: Arc<dyn FlowDirectory> = Arc::new(registry);
    Arc::new(RwLock::new(flows))
}
