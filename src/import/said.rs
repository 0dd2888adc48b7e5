//! What a record says, as words.
//!
//! Contract: pure. The mark that a record is private is no part of what it says.

use serde_json::{Map, Value};

use crate::contract::privacy::names_local_only;
use crate::contract::publish::said_by_member;

/// The text that a record has under a usual name; in an object or a list, the text that is in it. A bare text is its
/// own.
pub(super) fn text_within(record: &Value) -> Option<String> {
    const TEXTS: [&str; 12] = [
        "text",
        "content_text",
        "content",
        "body",
        "message",
        "content_html",
        "html",
        "value",
        "rendered",
        "summary",
        "description",
        "note",
    ];
    let has_words = |text: &String| !text.trim().is_empty();
    let text = match record {
        Value::String(text) => Some(text.clone()),
        Value::Object(members) => {
            TEXTS.iter().find_map(|name| members.get(*name).and_then(text_within))
        }
        Value::Array(pieces) => {
            let texts: Vec<String> = pieces.iter().filter_map(text_within).collect();
            Some(texts.join("\n"))
        }
        _ => None,
    };
    text.filter(has_words)
}

/// What stands beside a list of messages or items and says something about all of them.
pub(super) fn beside_list(record: &Map<String, Value>) -> Option<String> {
    const NOTES: [&str; 6] = ["notes", "note", "comment", "comments", "summary", "description"];
    let found =
        NOTES.iter().filter_map(|name| Some(((*name).to_owned(), record.get(*name)?.clone())));
    said_by_all(&Value::Object(found.collect()))
}

/// Everything that a record says.
pub(super) fn said_by_all(record: &Value) -> Option<String> {
    let text = match record {
        Value::Object(members) => sentence(members),
        other => records(std::slice::from_ref(other)),
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// The members of a record, one after another.
pub(super) fn sentence(record: &Map<String, Value>) -> String {
    let mut lines = Vec::new();
    // The mark that a record is private is no part of what it says.
    let is_mark =
        |name: &str, value: &Value| said_by_member(name, value).is_some() || names_local_only(name);
    let shown = record.iter().filter(|(name, value)| !is_mark(name, value));
    shown.for_each(|(name, value)| members(name, value, &mut lines));
    if lines.is_empty() {
        String::new()
    } else {
        format!("{}.", lines.join("; ").trim_end_matches('.'))
    }
}

/// The words of JSON records, a line for each member, a paragraph for each record.
pub(super) fn records(values: &[Value]) -> String {
    let parts = values.iter().map(|value| {
        let mut lines = Vec::new();
        members("", value, &mut lines);
        lines.join("\n")
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

fn members(name: &str, value: &Value, lines: &mut Vec<String>) {
    let line = |text: &str| match name {
        "" => text.to_owned(),
        name => format!("{}: {text}", name.replace('_', " ")),
    };
    match value {
        Value::Object(object) => {
            object.iter().for_each(|(name, value)| members(name, value, lines));
        }
        Value::Array(items) => items.iter().for_each(|item| members(name, item, lines)),
        Value::String(text) if !text.trim().is_empty() => lines.push(line(text.trim())),
        Value::Number(number) => lines.push(line(&number.to_string())),
        Value::Bool(is) => lines.push(line(&is.to_string())),
        _ => {}
    }
}
