//! Names that people type: flows by a short name, and the nearest known name of a mistyped one.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use super::failure::{Exit, Failure};
use super::settings::load_registry;
use crate::config::{Config, Origin, nearest};
use crate::model::BUILTIN;
use crate::registry::Registry;

/// The flow that a person names: its id, a word of it that no other flow has, or the folder of a pack.
pub(super) fn flow_id(context: &Context, word: &str) -> Result<String, Failure> {
    find_flow(&load_registry(context)?, word)
}

/// The same where the work goes through the queue: a folder that is not registered is no flow there.
pub(super) fn registered_flow(context: &Context, word: &str) -> Result<String, Failure> {
    registered(&load_registry(context)?, word)
}

/// The settings with every flow in them by its id. A flow that is not there is an error that names the
/// setting.
pub(super) fn with_flow_ids(context: &Context, config: Config) -> Result<Config, Failure> {
    flows_by_id(&load_registry(context)?, config)
}

fn flows_by_id(registry: &Registry, mut config: Config) -> Result<Config, Failure> {
    // A registry of one's own need not have the flows that nobody chose.
    let chosen: Vec<String> = config
        .settings()
        .iter()
        .filter(|setting| setting.origin != Origin::Default)
        .map(|setting| setting.key.clone())
        .collect();
    let name = |setting: &str, flow: &mut String| {
        let failure = match registered(registry, flow) {
            Ok(found) => {
                *flow = found;
                return Ok(());
            }
            Err(failure) => failure,
        };
        let what = format!("the setting {setting}: {}", failure.in_short());
        Err(Failure::new(Exit::Config, what).hint(failure.advice().unwrap_or_default()))
    };
    let flows = &mut config.default_flow;
    for (setting, flow) in [
        ("default_flow.document", &mut flows.document),
        ("default_flow.mail", &mut flows.mail),
        ("default_flow.chat", &mut flows.chat),
        ("default_flow.feed", &mut flows.feed),
    ] {
        if chosen.iter().any(|key| key == setting) {
            name(setting, flow)?;
        }
    }
    for watch in &mut config.watches {
        if let Some(flow) = &mut watch.flow {
            name(&format!("flow of [[watch]] {}", watch.folder), flow)?;
        }
    }
    Ok(config)
}

fn find_flow(registry: &Registry, word: &str) -> Result<String, Failure> {
    match std::path::Path::new(word).is_dir() {
        true => Ok(word.to_owned()),
        false => registered(registry, word),
    }
}

/// The registered flow of a name.
pub(super) fn registered(registry: &Registry, word: &str) -> Result<String, Failure> {
    let mut ids: Vec<&str> =
        registry.records().iter().map(|record| record.flow_id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.contains(&word) {
        return Ok(word.to_owned());
    }
    let is_named = |id: &&&str| id.split('.').any(|part| part == word);
    let begins = |id: &&&str| id.split(['.', '_']).any(|part| part == word);
    for fits in [&is_named as &dyn Fn(&&&str) -> bool, &begins] {
        let found: Vec<&&str> = ids.iter().filter(fits).collect();
        match found.as_slice() {
            [only] => return Ok((**only).to_owned()),
            [] => {}
            several => {
                let list: Vec<&str> = several.iter().map(|id| **id).collect();
                return Err(Failure::new(Exit::Usage, format!("{word} names several flows"))
                    .hint(format!("one of {}", list.join(", "))));
            }
        }
    }
    // A short name such as `brief` is a part of an id.
    let parts = || ids.iter().flat_map(|id| id.split(['.', '_'])).filter(|part| part.len() > 3);
    let near = nearest(word, ids.iter().copied()).or_else(|| nearest(word, parts()));
    let near = near.or_else(|| nearest_of(word, ids.iter().copied()));
    let failure = Failure::new(Exit::Usage, format!("there is no flow {word}"));
    Err(match near {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure.hint("`summarizer registry list` lists them"),
    })
}

/// The short names that [`flow_id`] takes: words of an id that no other has.
pub(super) fn short_names(registry: &Registry) -> Vec<String> {
    let ids: BTreeSet<&str> =
        registry.records().iter().map(|record| record.flow_id.as_str()).collect();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for id in &ids {
        let words: BTreeSet<&str> = id.split('.').collect();
        words.into_iter().for_each(|word| *count.entry(word).or_default() += 1);
    }
    let only = count.into_iter().filter(|(word, many)| *many == 1 && word.len() > 2);
    only.map(|(word, _)| word.to_owned()).collect()
}

/// The known name most like a mistyped one: by its letters, because it holds the word, or by the letters of a part.
pub(super) fn nearest_of<'a>(
    typed: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Option<String> {
    let holds = || {
        let typed = typed.to_lowercase();
        let holds = |name: &&str| typed.len() >= 3 && name.to_lowercase().contains(&typed);
        known.clone().find(holds).map(str::to_owned)
    };
    // A part of a name with dots, or of a state such as `failed_input`, mistyped.
    let part = || {
        let parts_of = |name: &'a str| name.split(['.', '_']);
        let parts = known.clone().flat_map(parts_of).filter(|part| part.len() > 3);
        let near = nearest(typed, parts)?;
        known.clone().find(|name| parts_of(name).any(|part| part == near)).map(str::to_owned)
    };
    nearest(typed, known.clone()).or_else(holds).or_else(part)
}

/// What is said of a word that is not one of a few, with the one that was meant, or with all of them.
pub(super) fn not_one_of(typed: &str, known: &[&str]) -> String {
    match nearest_of(typed, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("it is one of {}", known.join(", ")),
    }
}

/// A failure for a name that is not known, with the nearest one.
pub(super) fn unknown<'a>(
    what: &str,
    typed: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Failure {
    let failure = Failure::new(Exit::Usage, format!("there is no {what} {typed}"));
    match nearest_of(typed, known.clone()) {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => {
            let list: Vec<&str> = known.take(20).collect();
            match list.is_empty() {
                true => failure,
                false => failure.hint(format!("known: {}", list.join(", "))),
            }
        }
    }
}

/// Refuses a provider that the settings do not have, with the nearest one and the way to set one up.
pub(super) fn known_provider(config: &Config, name: &str) -> Result<(), Failure> {
    let known: BTreeSet<&str> =
        config.providers.keys().map(String::as_str).chain([BUILTIN]).collect();
    if known.contains(name) {
        return Ok(());
    }
    let failure = Failure::new(Exit::Usage, format!("there is no provider {name}"));
    Err(match nearest(name, known.iter().copied()) {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure.hint(format!(
            "known: {}; a section [provider.{name}] in summarizer.toml makes it known, as the how-tos for Ollama and \
             hosted models show",
            known.into_iter().collect::<Vec<_>>().join(", ")
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_short_names() {
        let registry = Registry::embedded().unwrap();
        let find = |word: &str| find_flow(&registry, word).map_err(|failure| failure.render());
        assert_eq!(find("brief").unwrap(), "docs.chunk_set.summarize.brief.v1");
        assert_eq!(find("task").unwrap(), "email.triage.extract_task.task_item.v1");
        assert_eq!(find("weekly_digest").unwrap(), "digest.weekly.summarize.weekly_digest.v1");
        let typo = find("docs.chunk_set.sumarize.brief.v1").unwrap_err();
        assert!(typo.contains("did you mean docs.chunk_set.summarize.brief.v1?"), "{typo}");
        assert!(find("breif").unwrap_err().contains("did you mean brief?"));
        assert!(find("email").unwrap_err().contains("several"));
        assert!(find("zzz").unwrap_err().contains("registry list"));
    }

    #[test]
    fn a_mistyped_part_of_a_name_gets_the_first_name_with_it() {
        let states = ["completed", "failed_permanent", "failed_input"];
        let near = |typed: &str| nearest_of(typed, states.iter().copied());
        assert_eq!(near("faild").as_deref(), Some("failed_permanent"));
        assert_eq!(near("zzz"), None);
    }

    #[test]
    fn a_mistyped_provider_gets_the_nearest_and_an_unknown_one_the_way_to_set_it_up() {
        let text =
            "[provider.ollama]\nkind = 'openai'\nbase_url = 'http://127.0.0.1:1/v1'\nmodel = 'm'";
        let config = Config::load(Some(text), &Default::default(), 1).unwrap();
        let said = |name: &str| known_provider(&config, name).map_err(|failure| failure.render());
        assert!(said("ollama").is_ok() && said("builtin").is_ok());
        assert!(said("olama").unwrap_err().contains("did you mean ollama?"));
        let unknown = said("zzz").unwrap_err();
        assert!(
            unknown.contains("builtin, ollama") && unknown.contains("[provider.zzz]"),
            "{unknown}"
        );
    }

    #[test]
    fn settings_may_use_short_names_and_a_wrong_one_is_named() {
        let registry = Registry::embedded().unwrap();
        let with = |text: &str| {
            let config = Config::load(Some(text), &Default::default(), 1).unwrap();
            flows_by_id(&registry, config).map_err(|failure| failure.render())
        };
        let text = "[default_flow]\nmail = 'task'\n[[watch]]\nfolder = 'notes'\nflow = 'brief'";
        let config = with(text).unwrap();
        assert_eq!(config.default_flow.mail, "email.triage.extract_task.task_item.v1");
        let watched = config.watches[0].flow.as_deref();
        assert_eq!(watched, Some("docs.chunk_set.summarize.brief.v1"));
        let wrong = with("[default_flow]\nchat = 'breif'").unwrap_err();
        assert!(wrong.contains("default_flow.chat") && wrong.contains("did you mean"), "{wrong}");
        let wrong = with("[[watch]]\nfolder = 'notes'\nflow = 'zzz'").unwrap_err();
        assert!(wrong.contains("[[watch]] notes"), "{wrong}");
    }
}
