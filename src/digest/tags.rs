//! Canonical tags, `namespace:value`, folded so that two spellings of a word give one tag.
//!
//! Contract. A value is decomposed, reduced to ASCII, trimmed and lower-cased; space, `-` and `/`
//! become `_`. Where that loses more than accents and case (other scripts, emoji, control
//! characters, very long text) a checksum of the original is appended, so two different tags never
//! silently become one. A blank tag is `unknown`. A tag without a namespace is `free`.
//!
//! See docs/adr/0044-folding-tags.md and docs/adr/0095-digest-trees-that-prove-themselves.md.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::contract::hash::sha256;

/// Longest folded value. A longer one is cut and gets a checksum.
const VALUE_CHARS_MAX: usize = 80;
const CHECKSUM_CHARS: usize = 8;

/// Namespaces by rank. When one record spells a value with several namespaces, the first of these
/// wins.
const RANKS: &[&str] = &[
    "topic",
    "category",
    "domain",
    "stage",
    "msg_type",
    "format_type",
    "note_type",
    "rtype",
    "snippet_type",
    "free",
];

const ALIASES: &[(&str, &str)] = &[
    ("message_type", "msg_type"),
    ("msgtype", "msg_type"),
    ("messagetype", "msg_type"),
    ("format", "format_type"),
    ("fmt", "format_type"),
    ("content_type", "format_type"),
    ("formattype", "format_type"),
    ("notetype", "note_type"),
    ("response_type", "rtype"),
    ("responsetype", "rtype"),
    ("snippettype", "snippet_type"),
    ("topics", "topic"),
];

pub fn slug(text: &str) -> String {
    folded(text, false)
}

/// Folds a value. `is_apart` also counts as a loss that the value is spelled like a checksum of another.
fn folded(text: &str, is_apart: bool) -> String {
    let text = text.trim();
    let mut folded = String::with_capacity(text.len().min(2 * VALUE_CHARS_MAX));
    let mut lossy = false;
    for c in text.nfkd() {
        match c {
            'A'..='Z' => folded.push(c.to_ascii_lowercase()),
            ' ' | '-' | '/' | '\t' | '\n' | '\r' => folded.push('_'),
            '!'..='~' => folded.push(c),
            c if is_combining_mark(c) => {}
            _ => lossy = true,
        }
        if folded.len() > VALUE_CHARS_MAX {
            lossy = true;
            break;
        }
    }
    if lossy || is_apart && has_checksum(&folded) {
        folded.truncate(VALUE_CHARS_MAX - 16);
        let original: String = text.nfc().flat_map(char::to_lowercase).collect();
        let checksum = &sha256(original).hex()[..CHECKSUM_CHARS];
        let gap = if folded.is_empty() { "" } else { "_" };
        return format!("{folded}{gap}chk_{checksum}");
    }
    if folded.is_empty() { "unknown".to_owned() } else { folded }
}

/// Whether a folded value ends as one that lost something does.
fn has_checksum(folded: &str) -> bool {
    let Some((before, checksum)) = folded.rsplit_once("chk_") else { return false };
    (before.is_empty() || before.ends_with('_'))
        && checksum.len() == CHECKSUM_CHARS
        && checksum.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A tag as a person names it in a selector: a canonical tag stays as it is.
pub fn canonical(raw: &str) -> String {
    canonical_by(raw, slug)
}

/// A tag of a record. One that is spelled like the canonical form of another tag is a tag of its own.
fn of_text(raw: &str) -> String {
    canonical_by(raw, |value| folded(value, true))
}

fn canonical_by(raw: &str, folded: impl Fn(&str) -> String) -> String {
    let (namespace, value) = match raw.split_once(':') {
        Some((namespace, value)) if !namespace.trim().is_empty() => (folded(namespace), value),
        Some((_, value)) => ("free".to_owned(), value),
        None => ("free".to_owned(), raw),
    };
    let alias = ALIASES.iter().find(|(name, _)| *name == namespace);
    let namespace = alias.map_or(namespace.as_str(), |(_, name)| name);
    format!("{namespace}:{}", folded(value))
}

/// The value of a canonical tag, without its namespace.
pub(crate) fn lexeme(tag: &str) -> &str {
    tag.split_once(':').map_or(tag, |(_, value)| value)
}

/// The rank of a canonical tag among tags with the same value; less wins. Unknown namespaces come
/// last.
fn rank(tag: &str) -> usize {
    let namespace = tag.split_once(':').map_or("free", |(namespace, _)| namespace);
    RANKS.iter().position(|known| *known == namespace).unwrap_or(RANKS.len())
}

/// The canonical tags of one record: each value once, best namespace first.
pub(crate) fn of_record<'a>(raw: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut tags: Vec<String> = raw.into_iter().map(of_text).collect();
    tags.sort_by(|a, b| (lexeme(a), rank(a), a.len(), a).cmp(&(lexeme(b), rank(b), b.len(), b)));
    tags.dedup_by(|later, kept| lexeme(later) == lexeme(kept));
    tags.sort_by(|a, b| (rank(a), a.as_str()).cmp(&(rank(b), b.as_str())));
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_inputs_give_their_frozen_ids() {
        for (raw, tag) in [
            ("Knowledge Management", "free:knowledge_management"),
            ("format:Guide", "format_type:guide"),
            ("Content_Type: Code", "format_type:code"),
            ("topics:AI", "topic:ai"),
            ("Gestión Ágil", "free:gestion_agil"),
            ("Message-Type:Instruction", "msg_type:instruction"),
            ("CI/CD", "free:ci_cd"),
            ("a:b:c", "a:b:c"),
            ("", "free:unknown"),
            ("  ", "free:unknown"),
        ] {
            assert_eq!(canonical(raw), tag, "{raw:?}");
            assert_eq!(canonical(tag), tag, "canonical tags stay as they are");
        }
    }

    #[test]
    fn the_form_of_characters_makes_no_second_tag() {
        let long = "é".repeat(100);
        for raw in ["Café", "topic:Ágil/über", "éa 🚀", "Ａ日本 é", "각도", "İé", "é:é", &long]
        {
            let (composed, apart) = (raw.nfc().collect::<String>(), raw.nfd().collect::<String>());
            assert_ne!(composed, apart);
            assert_eq!(canonical(&composed), canonical(&apart), "{raw}");
            assert_eq!(of_record([composed.as_str(), apart.as_str()]).len(), 1, "{raw}");
        }
    }

    #[test]
    fn a_checksum_keeps_lossy_tags_apart() {
        let long = "x".repeat(10_000);
        let longer = "x".repeat(10_001);
        let hostile = ["🚀", "🎉", "日本", "日本 AI", "AI", "a\u{0}i", &long, &longer, ".."];
        let tags: std::collections::BTreeSet<String> =
            hostile.iter().map(|raw| canonical(raw)).collect();
        assert_eq!(tags.len(), hostile.len(), "{tags:?}");
        for tag in &tags {
            assert!(tag.len() < 100 && tag.is_ascii(), "{tag}");
            assert!(!tag.chars().any(char::is_control), "{tag:?}");
            assert_eq!(canonical(tag), *tag);
        }
        assert_eq!(canonical("Ci-Cd"), canonical("ci/cd"), "the same word is one tag");
    }

    #[test]
    fn a_tag_that_is_spelled_like_the_key_of_another_is_a_tag_of_its_own() {
        let long = "x".repeat(10_000);
        for lossy in ["🚀", "日本 AI", "topic:🚀", "🚀:a", long.as_str()] {
            let key = of_record([lossy]);
            let spelled = of_record([key[0].as_str()]);
            assert_ne!(key, spelled, "{lossy:?}");
            assert_ne!(spelled, of_record([spelled[0].as_str()]), "and so is the key of that one");
            assert_eq!(canonical(&key[0]), key[0], "a selector names the tag by its key");
            assert_eq!(canonical(&spelled[0]), spelled[0]);
        }
        assert_eq!(of_record(["chk_12", "chk_0123456z"]), ["free:chk_0123456z", "free:chk_12"]);
    }

    #[test]
    fn one_value_has_one_namespace_in_a_record() {
        let tags =
            of_record(["Automation", "category:automation", "topics: ai", "AI", "b", "a:ai"]);
        assert_eq!(tags, ["topic:ai", "category:automation", "free:b"]);
        assert_eq!(of_record(["zz:x", "x"]), ["free:x"], "unknown namespaces stand last");
    }
}
