//! What the names of members usually mean, read once from `members.toml`.

use std::sync::OnceLock;

use serde::Deserialize;

use super::super::lexicon::{Purpose, Words};
use super::rule::Rule;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Members {
    pub(crate) headlines: Ordered,
    pub texts: Words,
    pub(crate) speakers: Ordered,
    pub(crate) sayings: Ordered,
    pub times: Ordered,
    pub days: Ordered,
    id_endings: Ordered,
    pub(crate) modest: Vec<String>,
    pub(crate) dull_links: Vec<String>,
    purposes: Vec<Named>,
    best: Ordered,
    confidence: Ordered,
    lists: Vec<Named>,
    numbers: Vec<Named>,
    strings: Vec<Named>,
}

/// Words in the order of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "String")]
pub(crate) struct Ordered(pub Vec<String>);

impl From<String> for Ordered {
    fn from(text: String) -> Ordered {
        Ordered(text.split_whitespace().map(str::to_string).collect())
    }
}

impl Ordered {
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|word| word == name)
    }

    fn are_in(&self, name: &str) -> bool {
        self.0.iter().any(|word| name.contains(word.as_str()))
    }
}

/// Names, and what serves a member of such a name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(default)]
    is: Words,
    #[serde(default)]
    has: Ordered,
    purpose: Option<Purpose>,
    rule: Option<Rule>,
}

/// The usual meanings. A file that does not read means nothing here; a test refuses it.
pub(super) fn members() -> &'static Members {
    static MEMBERS: OnceLock<Members> = OnceLock::new();
    MEMBERS.get_or_init(|| read().unwrap_or_default())
}

fn read() -> Result<Members, toml::de::Error> {
    toml::from_str(include_str!("members.toml"))
}

fn find<'m>(all: &'m [Named], name: &str) -> Option<&'m Named> {
    all.iter().find(|named| named.is.contains(name) || named.has.are_in(name))
}

impl Members {
    /// Whether a member only names its object.
    pub(crate) fn is_id(&self, name: &str) -> bool {
        name == "id" || self.id_endings.0.iter().any(|ending| name.ends_with(ending.as_str()))
    }

    /// What the sentences of a member do.
    pub(super) fn purpose(&self, name: &str) -> Option<Purpose> {
        find(&self.purposes, name)?.purpose
    }

    pub(crate) fn is_list_of_the_best(&self, name: &str) -> bool {
        self.best.are_in(name)
    }

    pub(crate) fn is_confidence(&self, name: &str) -> bool {
        self.confidence.are_in(name)
    }

    /// The rule for a list of texts.
    pub(super) fn list(&self, name: &str) -> Option<&Rule> {
        find(&self.lists, name)?.rule.as_ref()
    }

    /// The rule for one text, or one number.
    pub(super) fn value(&self, name: &str, numeric: bool) -> Option<&Rule> {
        find(if numeric { &self.numbers } else { &self.strings }, name)?.rule.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_members_reads() {
        let members = read().unwrap();
        assert!(members.strings.iter().all(|named| named.rule.is_some()));
        assert!(members.is_id("source_ids") && !members.is_id("idea"));
    }
}
