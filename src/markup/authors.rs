//! How members, columns and labels name who wrote a text, in several languages: `authors.toml`.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use serde::Deserialize;

use crate::contract::places::without_accents;

/// What a name says of somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The author, as the head of a text names one.
    Label,
    /// The author, as a member or a column names one.
    Column,
    /// Who sent it.
    Sender,
    /// Who wrote a part of it, or changed it.
    Part,
    /// Who gets it.
    Receiver,
}

/// The words of one language.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Language {
    labels: Vec<String>,
    columns: Vec<String>,
    senders: Vec<String>,
    parts: Vec<String>,
    receivers: Vec<String>,
}

fn words() -> &'static HashMap<String, Naming> {
    static WORDS: OnceLock<HashMap<String, Naming>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let languages: BTreeMap<String, Language> =
            toml::from_str(include_str!("authors.toml")).unwrap_or_default();
        let mut all = HashMap::new();
        for one in languages.into_values() {
            let Language { labels, columns, senders, parts, receivers } = one;
            for (names, naming) in [
                (labels, Naming::Label),
                (columns, Naming::Column),
                (senders, Naming::Sender),
                (parts, Naming::Part),
                (receivers, Naming::Receiver),
            ] {
                all.extend(names.iter().map(|name| (bare(name), naming)));
            }
        }
        all
    })
}

/// A name without case, accents, blanks and signs: `Créé par`, `cree_par` and `CréePar` are one.
fn bare(name: &str) -> String {
    without_accents(name).chars().filter(|c| c.is_alphanumeric()).collect()
}

/// What a name says of somebody, if anything. A sign of the plural behind it does not count: `author(s)`.
pub(crate) fn naming(name: &str) -> Option<Naming> {
    // Most names are none of these, and long ones never are.
    const NAME_BYTES_MAX: usize = 48;
    let name = Some(name).filter(|name| name.len() <= NAME_BYTES_MAX)?;
    words().get(&bare(name)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_authors_are_known_in_all_their_spellings() {
        assert!(words().len() > 100, "the file parses");
        for name in [
            "Author Name",
            "author(s)",
            "Author/s",
            "created_by",
            "createdBy",
            "Créé par",
            "CRÉÉ_PAR",
            "dc:creator",
        ] {
            assert!(matches!(naming(name), Some(Naming::Label | Naming::Column)), "{name}");
        }
        assert_eq!(naming("Von"), Some(Naming::Sender));
        assert_eq!(naming("Last modified by"), Some(Naming::Part));
        assert_eq!(naming("authority"), None);
    }
}
