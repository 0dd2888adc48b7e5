//! The people whom a text about its authors names: `Dr. Ana Ruiz (Univ. X) and Bob` names two.
//!
//! Contract: pure. A name that is missed lets a text out, so what may be a name is one: `Ruiz, Ana` is one person in two
//! orders, and may be two people.

use std::sync::OnceLock;

use serde::Deserialize;

/// Longer texts are no names of people.
const NAMES_BYTES_MAX: usize = 4 << 10;
/// Words of the family name that stands first.
const NAME_WORDS_MAX: usize = 4;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    joins: Vec<String>,
    titles: Vec<String>,
}

fn words() -> &'static Words {
    static WORDS: OnceLock<Words> = OnceLock::new();
    WORDS.get_or_init(|| toml::from_str(include_str!("people.toml")).unwrap_or_default())
}

/// The parts of a text that stand for one person each, beside commas and semicolons, which [`super::source::Person`] reads.
pub(super) fn parts_of(written: &str) -> Vec<String> {
    if written.len() > NAMES_BYTES_MAX {
        return Vec::new();
    }
    let mut parts = Vec::new();
    for one in links_as_names(written).split(['\n', '\r', ';', '&', '/', '|', '+', '•', '·']) {
        let mut part: Vec<&str> = Vec::new();
        for word in one.split_whitespace() {
            if words().joins.iter().any(|join| join == word) {
                parts.push(part.join(" "));
                part.clear();
            } else {
                part.push(word);
            }
        }
        parts.push(part.join(" "));
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// `[Ana](mailto:ana@example.org)` as `Ana;ana@example.org`.
fn links_as_names(written: &str) -> String {
    written.replace("](mailto:", ";").replace("](", ";")
}

/// `Ruiz, Ana` as `Ana Ruiz`.
pub(super) fn turned(part: &str) -> Option<String> {
    let (family, given) = part.split_once(',')?;
    let (family, given) = (family.trim(), given.trim());
    let is_name = |name: &str| (1..=NAME_WORDS_MAX).contains(&name.split_whitespace().count());
    let is_one = is_name(family) && is_name(given) && !given.contains(',');
    is_one.then(|| format!("{given} {family}"))
}

/// A name without what stands around it: signs, a title, what brackets add.
pub(super) fn bare(name: &str) -> &str {
    let is_sign = |c: char| c.is_whitespace() || "@[]{}<>()*_\"'“”„«»,.:–—-".contains(c);
    let name = name.trim_matches(is_sign);
    let mut name = name.split_once(" (").map_or(name, |(name, _)| name).trim_end();
    while let Some((first, rest)) = name.split_once(char::is_whitespace) {
        let word = first.trim_end_matches('.').to_lowercase();
        if !words().titles.contains(&word) {
            break;
        }
        name = rest.trim_start();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::super::source::Person;
    use super::*;

    #[test]
    fn each_form_of_a_name_is_that_of_its_person() {
        assert!(words().joins.len() > 5 && words().titles.len() > 5, "the file parses");
        for written in [
            "Ana Ruiz",
            "ANA   RUIZ",
            "Ana\u{a0}Ruiz",
            "Ana Ruiz and Bob",
            "Bob y Ana Ruiz",
            "Bob Other und Dr. Ana Ruiz",
            "Ana Ruiz & Bob",
            "Bob / Ana Ruiz",
            "Bob with Ana Ruiz",
            "Bob\nAna Ruiz\n",
            "Ruiz, Ana",
            "Other, Bob; Ruiz, Ana",
            "Bob, Ana Ruiz",
            "[[Ana Ruiz]]",
            "[[people/Ana Ruiz|Ana]]",
            "[Ana Ruiz](mailto:ana@example.org)",
            "Dr. Ana Ruiz",
            "Prof. Dr. Ana Ruiz, PhD",
            "Ana Ruiz (Univ. X)",
            "@Ana Ruiz",
            "By Ana Ruiz and Bob Other",
            "\"Ruiz, Ana\" <ana@example.org>",
            "Ana Ruiz via All <all@list.example>",
            "'Ana Ruiz' via All <all@list.example>",
        ] {
            assert!(Person::names_in(written).contains("ana ruiz"), "{written:?}");
        }
        for written in ["[Ana](mailto:ana@example.org)", "Bob & ana@example.org"] {
            assert!(Person::names_in(written).contains("ana@example.org"), "{written:?}");
        }
        for written in ["Mariana Ruiz", "Ana Ruizo", "Ana Maria Ruiz", "Andana Ruiz and Bob"] {
            assert!(!Person::names_in(written).contains("ana ruiz"), "{written:?}");
        }
    }
}
