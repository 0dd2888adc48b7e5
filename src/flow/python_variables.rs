//! Environment variables that hold members of a connection: those that begin with the name that a flow gives
//! to a Python node, in capitals.

use std::ffi::OsString;

use serde_json::{Map, Value};

/// Shorter names would match variables of other programs.
const NAME_MIN: usize = 4;
const NAME_MAX: usize = 64;

/// What the variables of a connection of this name begin with; `None` for a text that names none.
pub(super) fn variable_prefix(name: &str) -> Option<String> {
    let fits = (NAME_MIN..=NAME_MAX).contains(&name.len());
    let is_name = fits && name.chars().all(|c| c.is_ascii_alphanumeric() || "_- .".contains(c));
    is_name.then(|| {
        let capitals = name.chars().map(|c| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_uppercase(),
            false => '_',
        });
        format!("{}_", capitals.collect::<String>())
    })
}

/// The connections that variables of a flow take a member from: `${NAME.MEMBER}`.
pub(super) fn connections_of(environment: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let texts = environment.values().filter_map(Value::as_str);
    texts.filter_map(|text| {
        let inside = text.strip_prefix("${")?.strip_suffix('}')?;
        inside.split_once('.').map(|(name, _)| name)
    })
}

/// Those of these variables that begin with one of the prefixes.
pub(super) fn chosen(
    variables: impl Iterator<Item = (OsString, OsString)>,
    prefixes: &[String],
) -> Vec<(OsString, OsString)> {
    let is_chosen = |name: &OsString| {
        let name = name.to_string_lossy();
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    variables.filter(|(name, _)| is_chosen(name)).collect()
}

/// A variable of this process.
pub(super) fn variable_of_this_process(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok()
}

/// Those of this process.
pub(crate) fn variables_of_this_process(prefixes: &[String]) -> Vec<(OsString, OsString)> {
    match prefixes {
        [] => Vec::new(),
        prefixes => chosen(std::env::vars_os(), prefixes),
    }
}
