//! Texts put together from findings: sentences of our own with found values, lists as one text,
//! Markdown sections. What was quoted keeps its spans.

use std::collections::BTreeMap;

use super::super::rank::select::{Quoted, shorten};
use super::super::text::words::fold;
use super::filled::Filled;
use super::rule::{Rule, SectionHint};
use super::scene::{Focus, Scene, plain};

/// Longest tag, in bytes.
const TAG_BYTES_MAX: usize = 48;

/// A text with `{part}`s. A missing part makes it nothing, unless the name of the part ends in `?`.
pub(super) fn text(
    scene: &Scene<'_, '_>,
    text: &str,
    parts: &BTreeMap<String, Rule>,
    focus: &Focus,
) -> Filled {
    let mut quoted = Quoted::default();
    let mut rest = text;
    while let Some((before, name, after)) = next_part(rest) {
        quoted.push_plain(before);
        rest = after;
        let (name, optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        let found = parts.get(name).map(|rule| scene.eval(rule, focus)).unwrap_or_default();
        match found {
            Filled::Text(said) => quoted.push(&said),
            found if optional || !found.is_empty() => quoted.push_plain(&text_of(found)),
            _ => return Filled::Nothing,
        }
    }
    quoted.push_plain(rest);
    Filled::quoted(quoted)
}

fn next_part(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

/// A list as one text.
pub(super) fn joined(found: Filled, between: &str) -> Filled {
    let mut quoted = Quoted::default();
    for element in elements(found) {
        if !quoted.text.is_empty() {
            quoted.push_plain(between);
        }
        push(&mut quoted, element);
    }
    Filled::quoted(quoted)
}

/// Headed bullets; sections without content are left out.
pub(super) fn compose(scene: &Scene<'_, '_>, sections: &[SectionHint], focus: &Focus) -> Filled {
    let mut quoted = Quoted::default();
    let found = sections.iter().map(|section| scene.eval(&section.of, focus)).collect();
    for (section, found) in sections.iter().zip(each_once(found)) {
        let other = section.headings.get(scene.text.language.code());
        let heading = other.unwrap_or(&section.heading);
        let bullets = match &found {
            Filled::List(_) => {
                let mut bullets = Quoted::default();
                bullets.push_plain("- ");
                match joined(found, "\n- ") {
                    Filled::Text(list) => bullets.push(&list),
                    _ => continue,
                }
                bullets
            }
            _ => match joined(found, "") {
                Filled::Text(text) => text,
                _ => continue,
            },
        };
        if !quoted.text.is_empty() {
            quoted.push_plain("\n\n");
        }
        quoted.push_plain(&format!("### {heading}\n\n"));
        quoted.push(&bullets);
    }
    Filled::quoted(quoted)
}

/// Removes from a list each sentence that a single text says, or that a later list says.
fn each_once(mut found: Vec<Filled>) -> Vec<Filled> {
    let said = |filled: &Filled| -> Vec<String> {
        match filled {
            Filled::List(list) => list.iter().map(words_of).collect(),
            other => vec![words_of(other)],
        }
    };
    let all: Vec<(bool, Vec<String>)> =
        found.iter().map(|one| (matches!(one, Filled::List(_)), said(one))).collect();
    for (at, one) in found.iter_mut().enumerate() {
        let Filled::List(list) = one else { continue };
        let told = |text: &String| {
            all.iter().enumerate().any(|(other, (is_list, texts))| {
                other != at && (other > at || !is_list) && texts.contains(text)
            })
        };
        let mut places = all[at].1.iter();
        list.retain(|_| places.next().is_none_or(|text| !told(text)));
    }
    found
}

/// What a finding says, without the name of its speaker.
fn words_of(found: &Filled) -> String {
    match found {
        Filled::Text(Quoted { text, pieces }) if !pieces.is_empty() => {
            fold(&text[pieces[0].output_start..])
        }
        other => fold(&text_of(other.clone())),
    }
}

/// The elements of a list that say something; any other value is one element.
pub(crate) fn elements(found: Filled) -> Vec<Filled> {
    let mut list = match found {
        Filled::List(list) => list,
        Filled::Value(serde_json::Value::Array(list)) => {
            list.into_iter().map(Filled::Value).collect()
        }
        other => vec![other],
    };
    list.retain(|element| !element.is_empty());
    list
}

fn push(quoted: &mut Quoted, element: Filled) {
    match element {
        Filled::Text(text) => quoted.push(&text),
        other => quoted.push_plain(&text_of(other)),
    }
}

/// The text of a finding.
pub(super) fn text_of(found: Filled) -> String {
    match found {
        Filled::Text(quoted) => quoted.text,
        Filled::Value(value) => plain(&value),
        _ => String::new(),
    }
}

/// A slug in the style of tags: folded, words joined by `_`.
pub(super) fn tag(text: &str) -> String {
    let folded = fold(text);
    let words: Vec<&str> =
        folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    shorten(&words.join(" "), TAG_BYTES_MAX).replace(' ', "_")
}

/// The text with its first letter in upper case.
pub(crate) fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_slugs_and_titles_begin_with_a_capital() {
        assert_eq!(tag("Gestión Ágil / CI"), "gestion_agil_ci");
        assert_eq!(capitalize("ñandú"), "Ñandú");
    }

    #[test]
    fn the_parts_of_a_text_are_found_in_order() {
        assert_eq!(next_part("a {b?} c"), Some(("a ", "b?", " c")));
        assert_eq!(next_part("a } b {c"), None);
    }
}
