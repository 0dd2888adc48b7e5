//! The `publish` flag: whether what is told here may be shown to others.
//!
//! Contract. A flag says nothing, yes or no. What is there and does not clearly say yes is a no, and
//! of several flags one no decides: what was marked private somewhere stays private.
//!
//! See docs/adr/0047-privacy-flag.md.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;

/// What a flag says.
pub fn said(flag: Option<&Value>) -> Option<bool> {
    match flag? {
        Value::Null => None,
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => Some(is_clear_yes(text)),
        number => Some(*number == 1),
    }
}

fn is_clear_yes(word: &str) -> bool {
    let word = word.trim().to_lowercase();
    matches!(word.as_str(), "true" | "yes" | "y" | "on" | "1" | "s\u{ed}" | "si" | "ja" | "oui")
}

fn is_clear_no(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::String(text) => {
            let word = text.trim().to_lowercase();
            matches!(word.as_str(), "false" | "no" | "n" | "off" | "0" | "nein" | "non")
        }
        number => *number == 0,
    }
}

/// What a member of a record says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PublishMark {
    /// Yes or no.
    Publish,
    /// Yes or no, or the date of publication.
    Published,
    /// Silent where it is yes: what is public where it comes from may still be nobody's to pass on.
    Public,
    /// Silent where it is no.
    Private,
    /// Names its readers: `public`, `private`.
    Visibility,
    /// How far its publication is.
    Status,
    /// Words that it is filed under.
    Labels,
}

/// Words for what is not meant for others, in the languages that are read.
const PRIVATE_WORDS: [&str; 17] = [
    "private",
    "draft",
    "unlisted",
    "confidential",
    "secret",
    "unpublished",
    "privado",
    "privada",
    "borrador",
    "confidencial",
    "privat",
    "entwurf",
    "vertraulich",
    "geheim",
    "priv\u{e9}",
    "brouillon",
    "confidentiel",
];

fn is_private_word(word: &str) -> bool {
    let word = word.trim().trim_start_matches('#').to_lowercase();
    PRIVATE_WORDS.contains(&word.as_str())
}

/// Whether a label or one of its levels is such a word: `private/family`, `status:private`.
fn is_private_label(label: &str) -> bool {
    label.split(['/', ':']).any(is_private_word)
}

/// The labels of a text. Those without a sign between them are separated by blanks.
fn labels_of(text: &str) -> Vec<&str> {
    let signs = [',', ';', '|'];
    match text.contains(signs) {
        true => text.split(signs).collect(),
        false => text.split_whitespace().collect(),
    }
}

/// What a member with this name says, in the spellings people use.
fn sign_of(name: &str) -> Option<PublishMark> {
    let kept = name.nfkc().filter(|c| !matches!(c, '_' | '-' | ' '));
    let folded: String = kept.flat_map(char::to_lowercase).collect();
    Some(match folded.as_str() {
        "publish" | "publishable" | "publicar" | "publier" | "ver\u{f6}ffentlichen" => {
            PublishMark::Publish
        }
        "published" | "ispublished" | "publicado" | "publi\u{e9}" | "ver\u{f6}ffentlicht" => {
            PublishMark::Published
        }
        "public" | "ispublic" | "p\u{fa}blico" => PublishMark::Public,
        "isprivate" | "isdraft" | "isconfidential" | "nopublish" | "dontpublish"
        | "donotpublish" | "noindex" => PublishMark::Private,
        "visibility" | "privacy" | "sensitivity" => PublishMark::Visibility,
        "status" | "poststatus" | "state" | "access" | "estado" | "zustand" | "\u{e9}tat" => {
            PublishMark::Status
        }
        "tags" | "tag" | "labels" | "label" | "keywords" | "keyword" | "categories"
        | "category" | "flag" | "flags" | "gmaillabels" | "etiquetas" | "etiqueta"
        | "schlagw\u{f6}rter" | "schlagworte" | "\u{e9}tiquettes" | "motscl\u{e9}s" => {
            PublishMark::Labels
        }
        word if is_private_word(word) => PublishMark::Private,
        _ => return None,
    })
}

/// Whether a member with this name may say something.
pub(crate) fn is_sign(name: &str) -> bool {
    sign_of(name).is_some()
}

/// Whether a member with this name, or one that lies in it, may say something of a record.
pub(crate) fn may_say(name: &str) -> bool {
    is_sign(name) || is_nested(name)
}

/// What the members of an object say together, in the spellings people use.
pub(crate) fn said_by_members(object: &Map<String, Value>) -> Option<bool> {
    together(object.iter().map(|(name, value)| said_by_member(name, value)))
}

/// What a record says, in its own members or in those of its metadata.
pub(crate) fn said_by_record(record: &Map<String, Value>) -> Option<bool> {
    let nested = record.iter().filter(|(name, _)| is_nested(name));
    let nested = nested.filter_map(|(_, value)| value.as_object());
    // Metadata may have metadata of its own, such as `meta.flags`. The bound of JSON nesting ends this.
    together(nested.map(said_by_record).chain([said_by_members(record)]))
}

/// What a value says with all that lies in it. Only the whole can say yes, and any part can say no.
pub(crate) fn said_within(value: &Value) -> Option<bool> {
    fn is_private(value: &Value) -> bool {
        match value {
            Value::Object(object) => {
                said_by_record(object) == Some(false) || object.values().any(is_private)
            }
            Value::Array(items) => items.iter().any(is_private),
            _ => false,
        }
    }
    if is_private(value) { Some(false) } else { value.as_object().and_then(said_by_record) }
}

/// What a record says that is one line of JSON. Only the members that say something are read.
pub(crate) fn said_in_line(line: &[u8]) -> Option<bool> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(line).ok()?;
    together(members.iter().map(|(name, raw)| {
        if is_nested(name) {
            let inner: Option<Map<String, Value>> = serde_json::from_str(raw.get()).ok();
            if let Some(inner) = inner {
                return said_by_record(&inner);
            }
        }
        sign_of(name)?;
        said_by_member(name, &serde_json::from_str(raw.get()).ok()?)
    }))
}

/// Members in which upstream keeps what it says about a record.
fn is_nested(name: &str) -> bool {
    const NESTED: [&str; 9] = [
        "meta",
        "flags",
        "metadata",
        "front_matter",
        "payload",
        "summary",
        // Where generators of sites keep what is not theirs.
        "extra",
        "params",
        "taxonomies",
    ];
    let name = name.trim_start_matches('_');
    NESTED.iter().any(|nested| name.eq_ignore_ascii_case(nested))
}

/// What one member of an object says. Only `publish` and `published` can say yes.
pub(crate) fn said_by_member(name: &str, value: &Value) -> Option<bool> {
    let sign = sign_of(name)?;
    let word = value.as_str().map(|text| text.trim().to_lowercase());
    match sign {
        PublishMark::Publish => said(Some(value)),
        PublishMark::Published => said(Some(value)).filter(|_| match &word {
            Some(word) => word.chars().all(char::is_alphabetic),
            None => value.is_boolean(),
        }),
        PublishMark::Public => said(Some(value)).filter(|yes| !yes),
        PublishMark::Private => {
            let is_silent = value.is_null() || is_clear_no(value);
            (!is_silent).then_some(false)
        }
        PublishMark::Visibility => {
            let is_open = matches!(word.as_deref(), Some("public" | "normal" | "everyone"));
            (!value.is_null() && !is_open).then_some(false)
        }
        PublishMark::Status => {
            word.is_some_and(|word| is_private_word(&word) || word == "pending").then_some(false)
        }
        PublishMark::Labels => {
            let words = match value {
                Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
                Value::String(text) => labels_of(text),
                _ => Vec::new(),
            };
            words.into_iter().any(is_private_label).then_some(false)
        }
    }
}

/// What several flags say together.
pub fn together(flags: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    flags.into_iter().flatten().reduce(|one, other| one && other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_clear_word_publishes() {
        for (flag, expected) in [
            (json!(null), None),
            (json!(true), Some(true)),
            (json!("Yes"), Some(true)),
            (json!(""), Some(false)),
            (json!(false), Some(false)),
            (json!("false"), Some(false)),
            (json!("maybe"), Some(false)),
            (json!(0), Some(false)),
            (json!(1), Some(true)),
            (json!("S\u{ed}"), Some(true)),
            (json!([true]), Some(false)),
        ] {
            assert_eq!(said(Some(&flag)), expected, "{flag}");
        }
        assert_eq!(said(None), None);
    }

    #[test]
    fn the_flag_is_known_in_the_spellings_people_use() {
        for (object, expected) in [
            (json!({"Publish": true}), Some(true)),
            (json!({"PUBLISH": "no"}), Some(false)),
            (json!({"published": "yes"}), Some(true)),
            (json!({"published": "2026-02-11"}), None),
            (json!({"public": true}), None),
            (json!({"public": false}), Some(false)),
            (json!({"private": "yes"}), Some(false)),
            (json!({"private": false}), None),
            (json!({"visibility": "friends"}), Some(false)),
            (json!({"publish": true, "draft": true}), Some(false)),
            (json!({"is_private": "0"}), None),
            (json!({"Is Private": 1}), Some(false)),
            (json!({"isPublic": "no"}), Some(false)),
            (json!({"publicar": "no"}), Some(false)),
            (json!({"privado": "s\u{ed}"}), Some(false)),
            (json!({"Sensitivity": "Normal"}), None),
            (json!({"do-not-publish": true}), Some(false)),
            (json!({"title": "publish"}), None),
            (json!({"dont_publish": true}), Some(false)),
            (json!({"privat": "ja"}), Some(false)),
            (json!({"privat": "nein"}), None),
            (json!({"private": " "}), Some(false)),
            (json!({"private": null}), None),
            (json!({"flags": ["private"]}), Some(false)),
            (json!({"Brouillon": true}), Some(false)),
            (json!({"publish": "oui"}), Some(true)),
            (json!({"status": "draft"}), Some(false)),
            (json!({"status": "done"}), None),
            (json!({"post_status": "Private"}), Some(false)),
            (json!({"tags": ["garden", "#Private"]}), Some(false)),
            (json!({"keywords": "garden, borrador"}), Some(false)),
            (json!({"labels": ["private property"]}), None),
            (json!({"tags": "work private"}), Some(false)),
            (json!({"tags": "private garden, work"}), None),
            (json!({"Tag": "Private"}), Some(false)),
            (json!({"tags": ["private/family"]}), Some(false)),
            (json!({"X-Gmail-Labels": "Inbox,Private"}), None),
            (json!({"Gmail-Labels": "Inbox,Private"}), Some(false)),
            (json!({"Labels": "private;work"}), Some(false)),
            (json!({"Schlagw\u{f6}rter": ["Privat"]}), Some(false)),
            (json!({"publier": "non"}), Some(false)),
            (json!({"ver\u{f6}ffentlichen": "nein"}), Some(false)),
            (json!({"state": "draft"}), Some(false)),
            (json!({"state": "open"}), None),
            (json!({"access": "private"}), Some(false)),
            (json!({"noindex": true}), Some(false)),
            (json!({"\u{ff50}rivate": true}), Some(false)),
            (json!({"_meta": {"private": true}}), None),
        ] {
            assert_eq!(said_by_members(object.as_object().unwrap()), expected, "{object}");
        }
    }

    #[test]
    fn a_line_says_what_its_members_and_its_metadata_say() {
        for (line, expected) in [
            (json!({"content": "publish: false"}), None),
            (json!({"publish": null}), None),
            (json!({"Publish": "no"}), Some(false)),
            (json!({"publish": true, "meta": {"draft": true}}), Some(false)),
            (json!({"payload": {"publish": "yes"}}), Some(true)),
            (json!({"metadata": ["private"], "summary": "private"}), None),
            (json!({"_meta": {"private": true}}), Some(false)),
            (json!({"meta": {"flags": {"private": true}}}), Some(false)),
            (json!({"meta": {"flags": ["draft"]}}), Some(false)),
            (json!({"flags": {"draft": false}}), None),
            (json!({"taxonomies": {"tags": ["private"]}}), Some(false)),
            (json!({"extra": {"private": true}}), Some(false)),
        ] {
            assert_eq!(said_in_line(line.to_string().as_bytes()), expected, "{line}");
            assert_eq!(said_by_record(line.as_object().unwrap()), expected, "{line}");
        }
        assert_eq!(said_in_line(b"no JSON"), None);
    }

    #[test]
    fn one_no_decides() {
        assert_eq!(together([None, None]), None);
        assert_eq!(together([None, Some(true)]), Some(true));
        assert_eq!(together([Some(true), None, Some(false)]), Some(false));
    }
}
