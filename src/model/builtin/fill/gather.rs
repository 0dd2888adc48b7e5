//! What a call is about, as parts of a text: its sources, the inputs that stand before them, the items
//! of a list.
//!
//! JSON that stands where text is expected is laid out as `label: value` lines (a list of messages as
//! turns), so that the rules for text apply to it; markup is taken off (see [`crate::markup::html::View`]). A
//! part that is a source, byte for byte or as a view of it, keeps its number, and only such parts can be
//! quoted as evidence.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use chrono::NaiveDate;
use serde_json::{Map, Value};

use super::super::super::call::{Speaker, Speakers};
use super::super::super::{ModelCall, SourceText};
use super::super::text::blocks::role_of;
use super::super::text::{Role, SpokenBy};
use super::hints::{Hints, ItemsHint};
use super::members::{Ordered, members};
use crate::markup::html::View;

/// Deepest JSON laid out as lines.
const DEPTH_MAX: usize = 16;
/// Most bytes of one laid-out value.
const LAID_OUT_BYTES_MAX: usize = 8 << 20;

/// A part of the text before it is analysed.
#[derive(Debug, Clone, Default)]
pub struct Gathered<'c> {
    /// The source it is.
    pub source: Option<usize>,
    /// The text, without markup.
    pub text: Cow<'c, str>,
    /// Where the text stands in what it was made from, when markup was taken off.
    pub view: Option<Box<View>>,
    /// The item it is, by index into the input list.
    pub item: Option<usize>,
    /// Who says it, when it is a message of a session.
    pub(crate) spoken_by: Option<SpokenBy>,
    /// The day on which it was written.
    pub(crate) day: Option<NaiveDate>,
    /// Its subject, when it is a mail.
    pub(crate) subject: Option<String>,
}

/// The parts of a call, in reading order.
pub fn gather<'c>(call: &ModelCall<'c>, hints: &Hints) -> Vec<Gathered<'c>> {
    let mut parts = as_given(call, hints);
    if let Some(speakers) = call.speakers {
        let between_people = are_people(speakers);
        for part in &mut parts {
            let id = part.source.and_then(|at| call.sources.get(at)).map(|source| &source.id);
            let speaker = id.and_then(|id| speakers.0.get(id));
            part.spoken_by = speaker.and_then(|speaker| spoken_by(speaker, between_people));
            part.day = speaker.and_then(|speaker| speaker.day.as_deref()?.parse().ok());
            part.subject = speaker.and_then(|speaker| speaker.subject.clone());
        }
    }
    for part in &mut parts {
        if let Some(mut view) = View::of(&part.text) {
            part.text = std::mem::take(&mut view.text).into();
            part.view = Some(Box::new(view));
        }
    }
    parts
}

/// Whether two or more speakers have names, and none is an assistant.
fn are_people(speakers: &Speakers) -> bool {
    let role = |speaker: &Speaker| speaker.role.as_deref().map_or(Role::None, role_of);
    let names: BTreeSet<&str> =
        speakers.0.values().filter_map(|speaker| speaker.name.as_deref()).collect();
    names.len() > 1 && speakers.0.values().all(|speaker| role(speaker) != Role::Assistant)
}

fn spoken_by(speaker: &Speaker, between_people: bool) -> Option<SpokenBy> {
    if speaker.role.is_none() && speaker.name.is_none() {
        return None;
    }
    let role = speaker.role.as_deref().map_or(Role::None, role_of);
    let is_person = between_people && matches!(role, Role::None | Role::User);
    let name = speaker.name.clone();
    Some(SpokenBy { role: if is_person && name.is_some() { Role::Person } else { role }, name })
}

fn as_given<'c>(call: &ModelCall<'c>, hints: &Hints) -> Vec<Gathered<'c>> {
    if let Some(parts) = hints.items.as_ref().and_then(|items| item_parts(call, items)) {
        return parts;
    }
    let mut parts: Vec<Gathered<'c>> = Vec::new();
    let holds = |text: &str| call.sources.iter().any(|source| source.text.contains(text));
    for name in &hints.text {
        let text = call.inputs.get(name).map(lay_out).unwrap_or_default();
        if !text.trim().is_empty() && !holds(&text) {
            parts.push(match is_line(&text) {
                true => headed(&text),
                false => laid_out(text),
            });
        }
    }
    if call.sources.is_empty() {
        if parts.is_empty() {
            parts.extend(call.inputs.values().map(|value| laid_out(lay_out(value))));
        }
        return parts;
    }
    parts.extend(
        call.sources
            .iter()
            .enumerate()
            .map(|(index, source)| from_source(index, source, call.inputs)),
    );
    for name in &hints.more {
        let text = call.inputs.get(name).map(lay_out).unwrap_or_default();
        if !text.trim().is_empty() && !holds(&text) {
            parts.push(laid_out(text));
        }
    }
    parts
}

/// The line of a subject.
pub(crate) fn headed<'c>(subject: &str) -> Gathered<'c> {
    laid_out(format!("Subject: {}", subject.trim()))
}

/// A part made of an input, which cannot be quoted as evidence.
fn laid_out<'c>(text: String) -> Gathered<'c> {
    Gathered { text: text.into(), ..Gathered::default() }
}

/// A source that only repeats the texts inside a structured input is replaced by that input, whose
/// labels say more.
fn from_source<'c>(
    index: usize,
    source: &'c SourceText,
    inputs: &Map<String, Value>,
) -> Gathered<'c> {
    if let Some(value) =
        inputs.get(&source.id).filter(|value| value.is_object() || value.is_array())
    {
        return laid_out(lay_out(value));
    }
    match parse_json(&source.text) {
        Some(value) => laid_out(lay_out(&value)),
        None => Gathered {
            source: Some(index),
            text: Cow::Borrowed(&source.text),
            ..Gathered::default()
        },
    }
}

/// The inputs that name the text.
pub(crate) fn titles(inputs: &Map<String, Value>) -> Vec<&str> {
    let named = inputs.iter().filter(|(name, _)| members().headlines.has(name));
    named.filter_map(|(_, value)| value.as_str()).filter(|title| is_line(title)).collect()
}

/// A title or subject, to be read as one.
fn is_line(text: &str) -> bool {
    text.trim().len() <= 300 && !text.trim().contains('\n')
}

fn parse_json(text: &str) -> Option<Value> {
    let looks = text.trim_start().starts_with(['{', '[']) && text.trim_end().ends_with(['}', ']']);
    looks
        .then(|| serde_json::from_str(text).ok())
        .flatten()
        .filter(|value: &Value| value.is_object() || value.is_array())
}

/// The elements of the list input; `None` when it is no list of objects or strings.
pub(crate) fn items_of(inputs: &Map<String, Value>, hint: &ItemsHint) -> Option<Vec<Value>> {
    let value = inputs.get(&hint.input)?;
    let parsed = value.as_str().and_then(parse_json);
    let mut list = match parsed.as_ref().unwrap_or(value) {
        Value::Array(list) => list.clone(),
        Value::Object(map) => map.values().find_map(Value::as_array)?.clone(),
        _ => return None,
    };
    list.retain(|item| !item.is_null());
    (!list.is_empty() && list.iter().all(|item| item.is_object() || item.is_string()))
        .then_some(list)
}

fn item_parts<'c>(call: &ModelCall<'c>, hint: &ItemsHint) -> Option<Vec<Gathered<'c>>> {
    let items = items_of(call.inputs, hint)?;
    // Both may be many. Of two sources alike the first is meant.
    let mut places: HashMap<(&str, &str), usize> = HashMap::with_capacity(call.sources.len());
    for (index, source) in call.sources.iter().enumerate() {
        places.entry((&source.id, &source.text)).or_insert(index);
    }
    let parts = items.iter().enumerate().map(|(index, item)| {
        let text = item_text(item, hint);
        let id = hint.id.iter().find_map(|name| item.get(name)).and_then(Value::as_str);
        let place = id.and_then(|id| places.get(&(id, text.as_str())).copied());
        let item = Some(index);
        Gathered { source: place, text: text.into(), item, ..Gathered::default() }
    });
    Some(parts.collect())
}

fn item_text(item: &Value, hint: &ItemsHint) -> String {
    let Value::Object(map) = item else { return lay_out(item) };
    let named: Vec<String> = hint
        .text
        .iter()
        .filter_map(|name| Some((name, lay_out(map.get(name)?))))
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(name, text)| {
            if members().headlines.has(name) && is_line(&text) {
                format!("# {}", text.trim())
            } else {
                text
            }
        })
        .collect();
    if !named.is_empty() {
        return named.join("\n");
    }
    // Ids, days and the like say nothing about what an empty item is about.
    let said = map.iter().filter(|(name, value)| {
        !members().is_id(name)
            && (members().texts.contains(name.as_str()) || value.is_array() || value.is_object())
    });
    lay_out(&Value::Object(said.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

/// A JSON value as lines of text.
pub(crate) fn lay_out(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::String(text) => match parse_json(text) {
            Some(parsed) => write(&parsed, "", 0, &mut out),
            None => out.push_str(text),
        },
        _ => write(value, "", 0, &mut out),
    }
    out
}

fn write(value: &Value, label: &str, depth: usize, out: &mut String) {
    if depth > DEPTH_MAX || out.len() > LAID_OUT_BYTES_MAX {
        return;
    }
    let has_text = value
        .as_object()
        .is_some_and(|map| map.keys().any(|name| members().texts.contains(name.as_str())));
    match value {
        Value::Null => {}
        Value::Object(map) if is_silent(map) => {}
        Value::Object(map) => match speaker_of(map).and_then(|speaker| turn(map, speaker)) {
            Some(line) => push_line(&line, "", out),
            None => map.iter().for_each(|(name, member)| match member {
                // Beside a text, a speaker or an id would read as a part of the text.
                _ if has_text && (members().is_id(name) || members().speakers.has(name)) => {}
                // Prose with its label before it would read as a field.
                Value::String(text) if members().texts.contains(name.as_str()) => {
                    let title = members().headlines.has(name) && !text.trim().is_empty();
                    match title && map.len() > 1 && is_line(text) {
                        true => push_line(text.trim(), "# ", out),
                        false if text.trim().is_empty() => {}
                        false => push_line(text, "", out),
                    }
                }
                _ => write(member, name, depth + 1, out),
            }),
        },
        Value::Array(list)
            if list.iter().all(|element| !element.is_object() && !element.is_array())
                && !label.is_empty() =>
        {
            let words: Vec<String> = list.iter().map(scalar).collect();
            if words.iter().any(|word| word.len() > 60) {
                list.iter().for_each(|element| push_line(&scalar(element), "- ", out));
            } else if !words.is_empty() {
                push_line(&format!("{label}: {}", words.join(", ")), "", out);
            }
        }
        Value::Array(list)
            if list.len() > 1
                && list.iter().all(|element| !element.is_object() && !element.is_array()) =>
        {
            list.iter().for_each(|element| push_line(&scalar(element), "- ", out));
        }
        Value::Array(list) if is_between_people(list) => {
            let turns = list.iter().filter_map(Value::as_object).filter(|map| !is_silent(map));
            turns.filter_map(|map| turn(map, AUTHOR)).for_each(|line| push_line(&line, "", out));
        }
        Value::Array(list) => list.iter().for_each(|element| write(element, label, depth + 1, out)),
        _ if label.is_empty() => push_line(&scalar(value), "", out),
        _ => push_line(&format!("{label}: {}", scalar(value)), "", out),
    }
}

/// A chat message without a text.
fn is_silent(map: &Map<String, Value>) -> bool {
    let is_null = |name: &String| map.get(name).is_some_and(Value::is_null);
    map.keys().any(|name| members().speakers.has(name)) && members().sayings.0.iter().any(is_null)
}

/// The member that names the author of a message, beside its role.
const AUTHOR: &str = "author";

/// Messages of two or more authors with names, none of them an assistant.
fn is_between_people(list: &[Value]) -> bool {
    let word = |message: &Value, name: &str| message[name].as_str().map(str::to_owned);
    let authors: BTreeSet<String> = list.iter().filter_map(|one| word(one, AUTHOR)).collect();
    let are_people = |one: &Value| {
        let role = word(one, "role").map_or(Role::None, |role| role_of(&role));
        one.is_object() && matches!(role, Role::None | Role::User | Role::System)
    };
    authors.len() > 1 && list.iter().all(are_people)
}

fn speaker_of(map: &Map<String, Value>) -> Option<&str> {
    map.keys().map(String::as_str).find(|name| members().speakers.has(name))
}

/// A chat message as a turn, with the member that names who speaks.
fn turn(map: &Map<String, Value>, speaker: &str) -> Option<String> {
    let first = |names: &Ordered| names.0.iter().find_map(|name| map.get(name)?.as_str());
    let (role, text) = (map.get(speaker)?.as_str()?, first(&members().sayings)?);
    let time = first(&members().times).filter(|time| time.contains(':'));
    let stamp = time.map(|time| format!("[{time}] ")).unwrap_or_default();
    Some(format!("{stamp}{role}: {text}"))
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn push_line(line: &str, prefix: &str, out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(prefix);
    out.push_str(line);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_becomes_lines_and_messages_become_turns() {
        assert_eq!(
            lay_out(
                &json!({"status": "error", "stages": [{"stage": "parse", "n": 3}], "tags": ["a", "b"]})
            ),
            "status: error\nstage: parse\nn: 3\ntags: a, b"
        );
        let messages = json!([{"role": "user", "time": "10:02", "text": "hola"}, {"role": "assistant", "content": "hi"}]);
        assert_eq!(lay_out(&messages), "[10:02] user: hola\nassistant: hi");
        let mut people = json!([{"role": "user", "author": "Ana", "text": "hola"}, {"role": "user", "author": "Bo", "text": "hi"}]);
        assert_eq!(lay_out(&people), "Ana: hola\nBo: hi");
        people[1]["role"] = json!("assistant");
        assert_eq!(lay_out(&people), "user: hola\nassistant: hi");
        assert_eq!(lay_out(&json!("{not json}")), "{not json}");
    }
}
