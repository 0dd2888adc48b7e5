//! Every member that a record declares, however deep it lies, and which of them says that it is private.
//!
//! Contract. There are two readings. The members of a record and of its metadata are read in every
//! spelling. Members of any other object that lies in it count where they can mean nothing else: a name
//! such as `private` or `publish` with a flag, or a word such as `private` under a name such as `status`.
//! So no list of containers decides whether a mark is seen. What a record tells its readers, such as its
//! `body` or its `messages`, declares nothing about it.
//!
//! See docs/adr/0047-privacy-flag.md.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::*;

/// Members that hold what a record tells its readers, under folded names.
const CONTENT: &[&str] = &[
    "body",
    "content",
    "text",
    "contenttext",
    "contenthtml",
    "message",
    "messages",
    "conversations",
    "chatmessages",
    "mapping",
    "outputs",
];

/// The member in which importers keep which member of the text that they read is the mark.
pub(crate) const PRIVATE_MARK: &str = "private_mark";

/// Names of metadata under which a text stands too.
const TEXTS: &[&str] = &["summary", "payload", "search"];

/// Objects that tell what a record is a part of, under folded names.
const PLACES: &[&str] = &["section", "document", "doc", "chapter", "page", "source"];

/// Longest text of a member that is read as JSON, in bytes.
const JSON_TEXT_BYTES_MAX: usize = 64 << 10;

/// Longest word that answers a flag: `perhaps`.
const ANSWER_BYTES_MAX: usize = 20;

/// Longest mark that is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// Names of the two members of a pair, as lists of properties have them: `{"key": "private", "value": true}`.
const PAIR_NAMES: [&str; 5] = ["name", "key", "property", "field", "id"];
const PAIR_VALUES: [&str; 4] = ["value", "content", "checkbox", "checked"];

/// A member that lies in a record.
pub(crate) struct Declared<'a> {
    /// The names of the objects around it.
    around: &'a [String],
    pub name: &'a str,
    pub value: &'a Value,
    /// Whether it is a member of the record or of its metadata.
    is_own: bool,
}

impl Declared<'_> {
    pub(crate) fn says_no(&self) -> bool {
        match self.is_own {
            true => said_by_member(self.name, self.value) == Some(false) || self.is_mark_by_path(),
            false => {
                is_plain_mark(self.name, self.value)
                    || self.is_mark_by_path()
                    || self.is_title_of_place()
            }
        }
    }

    /// Whether it is the title of what the record is a part of, and a mark: `section.title: [Draft] The roof`.
    fn is_title_of_place(&self) -> bool {
        let is_place = self.around.last().is_some_and(|around| is_one_of(PLACES, around));
        is_place
            && sign_of(self.name) == Some(PublishMark::Title)
            && said_by_member(self.name, self.value) == Some(false)
    }

    /// Whether its name is a path, whose end is the mark: `meta.publish`, `site/private`.
    fn is_mark_by_path(&self) -> bool {
        end_of_path(self.name).is_some_and(|end| is_plain_mark(end, self.value))
    }

    /// Its place and its value, as a person writes them: `site.private: true`.
    fn shown(&self) -> String {
        let place = self.around.iter().map(String::as_str).chain([self.name]);
        let place = place.collect::<Vec<_>>().join(".");
        let shown = match self.value {
            Value::String(text) => format!("{place}: {text}"),
            value => format!("{place}: {value}"),
        };
        shown.chars().take(SHOWN_CHARS_MAX).collect()
    }
}

/// Whether a member with this name is one of the two of a pair.
pub(crate) fn is_pair(name: &str) -> bool {
    PAIR_NAMES.contains(&name) || PAIR_VALUES.contains(&name)
}

/// The last name of a path, where a table has a column for each member that lies in another.
pub(super) fn end_of_path(name: &str) -> Option<&str> {
    name.rsplit_once(['.', '/', ':']).map(|(_, end)| end.trim())
}

/// Whether something is true of a member that lies in a record, in its metadata or deeper. The bound of
/// JSON nesting ends this.
pub(crate) fn any_declared(
    record: &Map<String, Value>,
    holds: &mut dyn FnMut(&Declared<'_>) -> bool,
) -> bool {
    let mut walk = Walk { around: Vec::new(), holds };
    record.iter().any(|(name, value)| walk.member(name, value, true))
}

struct Walk<'h> {
    around: Vec<String>,
    holds: &'h mut dyn FnMut(&Declared<'_>) -> bool,
}

impl Walk<'_> {
    fn member(&mut self, name: &str, value: &Value, is_own: bool) -> bool {
        if (self.holds)(&Declared { around: &self.around, name, value, is_own }) {
            return true;
        }
        let is_content = is_one_of(CONTENT, name);
        if is_content || !may_hold(value) {
            return false;
        }
        self.around.push(name.to_owned());
        let found = self.inside(value, is_own, is_nested(name))
            || is_own && is_nested(name) && !is_one_of(TEXTS, name) && self.lines(value);
        self.around.pop();
        found
    }

    /// What lies in a member. `is_metadata`: its name is one of those that upstream gives to metadata.
    fn inside(&mut self, value: &Value, is_own: bool, is_metadata: bool) -> bool {
        match value {
            Value::Object(inner) => {
                self.pair(inner)
                    || inner
                        .iter()
                        .any(|(name, value)| self.member(name, value, is_own && is_metadata))
            }
            Value::Array(items) => items
                .iter()
                .filter(|item| may_hold(item))
                .any(|item| self.inside(item, false, false)),
            // A cell of a table, or a member of a program that keeps all as text.
            Value::String(text) if is_own => {
                json_in(text).is_some_and(|value| self.inside(&value, is_own, is_metadata))
            }
            _ => false,
        }
    }

    fn pair(&mut self, object: &Map<String, Value>) -> bool {
        let of = |names: &[&str]| names.iter().find_map(|name| object.get(*name));
        let (Some(Value::String(name)), Some(value)) = (of(&PAIR_NAMES), of(&PAIR_VALUES)) else {
            return false;
        };
        (self.holds)(&Declared { around: &self.around, name, value, is_own: false })
    }

    /// `publish: no; lang: en`, as one text.
    fn lines(&mut self, value: &Value) -> bool {
        let text = value.as_str().unwrap_or_default();
        let parts = text.split(['\n', ';', ',', '&']).take(FEW_LINES);
        parts.filter_map(|part| part.split_once([':', '='])).any(|(name, value)| {
            let (name, value) = (name.trim(), Value::from(value.trim()));
            (self.holds)(&Declared { around: &self.around, name, value: &value, is_own: false })
        })
    }
}

/// Parts of a text of metadata that are looked at.
const FEW_LINES: usize = 64;

fn may_hold(value: &Value) -> bool {
    match value {
        Value::Object(inner) => !inner.is_empty(),
        Value::Array(items) => items.iter().any(may_hold),
        Value::String(text) => text.contains(['{', ':', '=']),
        _ => false,
    }
}

/// A text that is an object or a list of JSON.
fn json_in(text: &str) -> Option<Value> {
    let text = text.trim();
    let is_one = text.starts_with(['{', '[']) && text.len() <= JSON_TEXT_BYTES_MAX;
    if is_one { serde_json::from_str(text).ok() } else { None }
}

/// Whether a member is a mark wherever it lies.
pub(crate) fn is_plain_mark(name: &str, value: &Value) -> bool {
    let Some(sign) = sign_of(name) else { return false };
    let word = value.as_str().map(str::trim);
    let is_bit = value.is_boolean() || *value == 0 || *value == 1;
    let is_answer = |word: &str| {
        word.len() <= ANSWER_BYTES_MAX && word.chars().all(char::is_alphabetic) || is_bit_word(word)
    };
    let is_flag = is_bit || word.is_some_and(is_answer);
    let names_it = |words: &[&[&str]]| {
        words_of(value).iter().any(|word| words.iter().any(|known| is_one_of(known, word)))
    };
    match sign {
        PublishMark::Publish | PublishMark::Permission | PublishMark::Published => {
            is_flag && said_by_member(name, value) == Some(false)
        }
        PublishMark::Private => is_flag && !is_clear_no(value),
        PublishMark::PrivateText => is_flag && !is_silent(value),
        PublishMark::Public | PublishMark::OpenFlag => {
            is_flag && is_clear_no(value) || names_it(&[PRIVATE_WORDS])
        }
        // Parts of a page are hidden too: `cover.hidden: true`.
        PublishMark::ClosedFlag => {
            let hides = matches!(folded(last_word(name)).as_str(), "hide" | "hidden");
            !hides && said(Some(value)) == Some(true)
        }
        PublishMark::Visibility | PublishMark::Audience | PublishMark::Readers => {
            names_it(&[PRIVATE_WORDS, RESTRICTED_WORDS, &["friends", "family", "me", "nobody"]])
        }
        PublishMark::Classification | PublishMark::Security => {
            names_it(&[PRIVATE_WORDS, RESTRICTED_WORDS])
        }
        PublishMark::Status
        | PublishMark::PublicationStatus
        | PublishMark::Kind
        | PublishMark::Permissions => names_it(&[PRIVATE_WORDS]),
        PublishMark::Labels => match word {
            // The blanks of `private label` separate no labels here.
            Some(word) => word.split([',', ';', '|']).any(is_private_label),
            None => said_by_member(name, value) == Some(false),
        },
        PublishMark::Robots => said_by_member(name, value) == Some(false),
        PublishMark::Hidden
        | PublishMark::Shared
        | PublishMark::Recipients
        | PublishMark::PublicationDate
        | PublishMark::Title => false,
    }
}

fn is_bit_word(word: &str) -> bool {
    matches!(word, "0" | "1")
}

/// Which member of a record says that it is private: `site.private: true`. Of a record that was imported,
/// it is the member that the importer saw.
pub(crate) fn mark_of(record: &Map<String, Value>) -> Option<String> {
    let kept = |members: &Map<String, Value>| Some(members.get(PRIVATE_MARK)?.as_str()?.to_owned());
    let imported = kept(record).or_else(|| kept(record.get("metadata")?.as_object()?));
    if imported.is_some() {
        return imported;
    }
    let mut shown = None;
    any_declared(record, &mut |member| {
        let says_no = member.says_no();
        if says_no {
            shown = Some(member.shown());
        }
        says_no
    });
    shown
}

/// What a record says, by all that it declares. Only its own members and those of its metadata can say
/// yes.
pub(crate) fn said_by_record(record: &Map<String, Value>) -> Option<bool> {
    if any_declared(record, &mut |member| member.says_no()) {
        return Some(false);
    }
    let is_yes = any_declared(record, &mut |member| {
        member.is_own && said_by_member(member.name, member.value) == Some(true)
    });
    is_yes.then_some(true)
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

/// What a record says that is one line of JSON. Only the members that may say something are read.
pub(crate) fn said_in_line(line: &[u8]) -> Option<bool> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(line).ok()?;
    let read = members.into_iter().filter(|(name, raw)| may_say_raw(name, raw.get()));
    let read = read.map(|(name, raw)| Some((name, serde_json::from_str(raw.get()).ok()?)));
    said_by_record(&read.collect::<Option<Map<String, Value>>>()?)
}

/// Whether a member, as it is written, may say something: by its name, or by what lies in it.
fn may_say_raw(name: &str, raw: &str) -> bool {
    let holds_objects = match raw.as_bytes().first() {
        Some(b'{') => true,
        Some(b'[') => raw.contains('{'),
        Some(b'"') => {
            raw.len() <= JSON_TEXT_BYTES_MAX && raw[1..].trim_start().starts_with(['{', '['])
        }
        _ => false,
    };
    may_say(name) || holds_objects && !is_one_of(CONTENT, name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mark_counts_at_any_depth_and_says_where_it_is() {
        for (record, mark) in [
            (json!({"site": {"private": true}}), "site.private: true"),
            (json!({"a": {"b": {"c": {"Publish": "no"}}}}), "a.b.c.Publish: no"),
            (json!({"_x": {"private": true}}), "_x.private: true"),
            (json!({"a": {"publish": "perhaps"}}), "a.publish: perhaps"),
            (json!({"a": {"status": "Draft"}}), "a.status: Draft"),
            (json!({"a": {"visibility": "friends"}}), "a.visibility: friends"),
            (json!({"a": {"tags": ["garden", "private"]}}), "a.tags: [\"garden\",\"private\"]"),
            (json!({"a": {"robots": "noindex"}}), "a.robots: noindex"),
            (json!({"a": [{"is_private": 1}]}), "a.is_private: 1"),
            (json!({"a": [{"key": "private", "value": "yes"}]}), "a.private: yes"),
            (json!({"meta.publish": "no"}), "meta.publish: no"),
            (json!({"site/private": true}), "site/private: true"),
            (json!({"extra": "{\"private\": true}"}), "extra.private: true"),
            (json!({"column": "{\"a\": {\"draft\": true}}"}), "column.a.draft: true"),
            (json!({"meta": "lang: en; publish: no"}), "meta.publish: no"),
            (json!({"meta": {"password": "x"}}), "meta.password: x"),
            (json!({"heading": "PRIVATE"}), "heading: PRIVATE"),
            (json!({"document_title": "[Draft] x"}), "document_title: [Draft] x"),
            (json!({"section": {"title": "[Draft] x"}}), "section.title: [Draft] x"),
        ] {
            let members = record.as_object().unwrap();
            assert_eq!(mark_of(members).as_deref(), Some(mark), "{record}");
            assert_eq!(said_by_record(members), Some(false), "{record}");
            assert_eq!(said_in_line(record.to_string().as_bytes()), Some(false), "{record}");
        }
    }

    #[test]
    fn data_and_texts_about_privacy_are_no_marks() {
        for record in [
            json!({"site": {"private": false}}),
            json!({"album": {"title": "Private"}, "section": {"title": "Private life of bees"}}),
            json!({"heading": "The draft"}),
            json!({"site": {"published": true}}),
            json!({"schools": {"private": 30, "public": 12}}),
            json!({"links": {"privacy": "https://example.org/privacy"}}),
            json!({"weather": {"visibility": "10 km"}}),
            json!({"order": {"status": "pending"}}),
            json!({"product": {"category": "private label"}}),
            json!({"cover": {"hidden": true}, "toc": {"show": false}}),
            json!({"account": {"locked": true}}),
            json!({"keys": {"private": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"}}),
            json!({"npm": {"publish": "npm publish --tag next"}}),
            json!({"body": {"private": true}}),
            json!({"messages": [{"private": true}]}),
            json!({"content": "{\"private\": true}"}),
            json!({"note": "private: yes"}),
            json!({"a": {"title": "Private"}}),
            json!({"a": [["private", true]]}),
        ] {
            let members = record.as_object().unwrap();
            assert_eq!(mark_of(members), None, "{record}");
            assert_eq!(said_in_line(record.to_string().as_bytes()), None, "{record}");
        }
    }
}
