//! Names that people type: flows by a short name, and the nearest known name of a mistyped one.

use super::Context;
use super::failure::{Exit, Failure};
use super::settings::load_registry;
use crate::config::nearest;
use crate::registry::Registry;

/// The flow that a person names: its id, or a word of it that no other flow has.
pub(super) fn flow_id(context: &Context, word: &str) -> Result<String, Failure> {
    find_flow(&load_registry(context)?, word)
}

fn find_flow(registry: &Registry, word: &str) -> Result<String, Failure> {
    let mut ids: Vec<&str> =
        registry.records().iter().map(|record| record.flow_id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.contains(&word) || std::path::Path::new(word).is_dir() {
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
    let parts = || ids.iter().flat_map(|id| id.split('.')).filter(|part| part.len() > 3);
    let near = nearest_of(word, ids.iter().copied()).or_else(|| nearest(word, parts()));
    let failure = Failure::new(Exit::Usage, format!("there is no flow {word}"));
    Err(match near {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure.hint("`summarizer registry list` lists them"),
    })
}

/// The known name most like a mistyped one: by its letters, or because it holds the word.
pub(super) fn nearest_of<'a>(
    typed: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Option<String> {
    nearest(typed, known.clone()).or_else(|| {
        let typed = typed.to_lowercase();
        let holds = |name: &&str| typed.len() >= 3 && name.to_lowercase().contains(&typed);
        known.clone().find(holds).map(str::to_owned)
    })
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
}
