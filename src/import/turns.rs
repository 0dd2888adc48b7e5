//! Messages of a conversation as JSON without times: lines with a role, or lists of messages.
//!
//! Programs that talk to models write these. Contract: a conversation is one document, and each of its
//! messages begins with who says it. Instructions to the model and answers of tools are not shown. Without
//! a time, a message has no place on the event bus.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::said::beside_list;
use crate::contract::privacy::says_local_only;
use crate::contract::publish::{said_by_record, together};
use crate::markup::document::Document;
use crate::markup::members::{add_people, people_of, speakers};
use crate::markup::records::joined_pieces;

/// Members that hold the role of a message.
const ROLES: [&str; 3] = ["role", "from", "speaker"];
/// Members that hold its words.
const TEXTS: [&str; 4] = ["content", "text", "value", "message"];
/// Members that hold its messages.
const LISTS: [&str; 2] = ["messages", "conversations"];
/// Members that say which conversation a message belongs to.
const CONVERSATIONS: [&str; 4] = ["conversation_id", "session_id", "thread_id", "chat_id"];

/// What a message is, by its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    Said(&'static str),
    /// It stands behind the conversation.
    Hidden,
}

impl Voice {
    fn of(role: &str) -> Option<Voice> {
        Some(match role.to_ascii_lowercase().as_str() {
            "user" | "human" | "person" => Voice::Said("user"),
            "assistant" | "ai" | "model" | "bot" | "gpt" => Voice::Said("assistant"),
            "system" | "developer" | "tool" | "function" => Voice::Hidden,
            _ => return None,
        })
    }
}

struct Turn {
    voice: Voice,
    name: Option<String>,
    text: String,
}

fn word(message: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let found = names.iter().find_map(|name| message.get(*name)?.as_str()).map(str::trim);
    found.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// The name of who says a message. `from: human` is a role and no name.
fn name(message: &Map<String, Value>) -> Option<String> {
    speakers(message).find(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    Voice::of(name).is_none()
}

fn turn(message: &Map<String, Value>) -> Option<Turn> {
    turn_of(message, Voice::of(&word(message, &ROLES)?)?)
}

/// A message of a list: one whose author is named needs no role.
fn listed(message: &Map<String, Value>) -> Option<Turn> {
    let named = || name(message).map(|_| Voice::Said("user"));
    turn(message).or_else(|| turn_of(message, named()?))
}

fn turn_of(message: &Map<String, Value>, voice: Voice) -> Option<Turn> {
    let text = TEXTS.iter().find_map(|name| message.get(*name))?;
    let text = match text {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(pieces) => joined_pieces(pieces),
        Value::Null => String::new(),
        _ => return None,
    };
    Some(Turn { voice, name: name(message), text })
}

/// The messages of a record that is a whole conversation.
fn inner(record: &Map<String, Value>) -> Option<Vec<&Map<String, Value>>> {
    let messages = LISTS.iter().find_map(|name| record.get(*name)?.as_array())?;
    messages.iter().map(Value::as_object).collect()
}

/// Whether a record is a message, or a conversation.
pub(super) fn is_one(record: &Map<String, Value>) -> bool {
    match inner(record) {
        Some(messages) => {
            !messages.is_empty() && messages.into_iter().all(|one| listed(one).is_some())
        }
        None => turn(record).is_some(),
    }
}

/// The conversations of a file; `None` when its records are something else.
pub(super) fn conversations(records: &[&Map<String, Value>]) -> Option<Vec<Document>> {
    if records.is_empty() || !records.iter().all(|record| is_one(record)) {
        return None;
    }
    let mut found: Vec<Talk> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for record in records {
        match inner(record) {
            Some(messages) => {
                let title = word(record, &["title", "name", "id"]);
                let text = beside_list(record).unwrap_or_default();
                let document = Document { kind: "json", title, text, ..Document::default() };
                let people = people_of(record).collect();
                let mut talk = Talk { document: take(document, record), people };
                messages.into_iter().for_each(|one| talk.add(one));
                found.push(talk);
            }
            None => {
                let id = word(record, &CONVERSATIONS);
                let place = *places.entry(id.clone().unwrap_or_default()).or_insert(found.len());
                if place == found.len() {
                    let document = Document { kind: "json", title: id, ..Document::default() };
                    found.push(Talk { document, people: BTreeSet::new() });
                }
                found[place].add(record);
            }
        }
    }
    let mut found: Vec<Document> = found.into_iter().map(Talk::finish).collect();
    found.retain(|one| !one.text.is_empty());
    // One conversation is known by the name of its file.
    if let [only] = found.as_mut_slice()
        && !places.is_empty()
    {
        only.title = None;
    }
    Some(found)
}

/// A conversation that is read, and who speaks in it.
struct Talk {
    document: Document,
    people: BTreeSet<String>,
}

impl Talk {
    fn add(&mut self, message: &Map<String, Value>) {
        let Some(Turn { voice: Voice::Said(role), name, text }) = listed(message) else { return };
        self.document = take(std::mem::take(&mut self.document), message);
        if text.is_empty() {
            return;
        }
        let said = &mut self.document.text;
        if !said.is_empty() {
            said.push('\n');
        }
        said.push_str(&format!("{}: {text}", name.as_deref().unwrap_or(role)));
        self.people
            .extend(people_of(message).chain(speakers(message)).filter(|name| is_name(name)));
    }

    fn finish(mut self) -> Document {
        add_people(&mut self.document.members, self.people);
        self.document
    }
}

/// The marks of a record count for the whole conversation.
fn take(document: Document, record: &Map<String, Value>) -> Document {
    let publish = together([document.publish, said_by_record(record)]);
    Document { publish, ..document }.local_only_if(says_local_only(record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(records: &Value) -> Option<Vec<(Option<String>, String)>> {
        let records: Vec<&Map<String, Value>> =
            records.as_array().unwrap().iter().map(|one| one.as_object().unwrap()).collect();
        let found = conversations(&records)?;
        Some(found.into_iter().map(|one| (one.title, one.text)).collect())
    }

    #[test]
    fn messages_without_times_are_one_conversation_and_say_who_speaks() {
        let lines = json!([
            {"role": "system", "content": "You are kind."},
            {"role": "user", "content": "Book the flat for May."},
            {"role": "assistant", "content": [{"type": "text", "text": "It is booked."}]},
            {"role": "tool", "content": "{\"ok\": true}"},
            {"role": "user", "name": "Ana", "content": "Thank you."},
            {"role": "assistant", "content": null},
        ]);
        let text = "user: Book the flat for May.\nassistant: It is booked.\nAna: Thank you.";
        assert_eq!(read(&lines), Some(vec![(None, text.to_owned())]));
    }

    #[test]
    fn what_is_said_of_a_whole_conversation_stands_before_its_messages() {
        let found = read(&json!([{"title": "Roof", "notes": "Ask the owner.", "messages": [
            {"role": "user", "content": "The roof leaks."},
            {"role": "assistant", "content": "Call the roofer."},
        ]}]));
        let text = "notes: Ask the owner.\nuser: The roof leaks.\nassistant: Call the roofer.";
        assert_eq!(found, Some(vec![(Some("Roof".to_owned()), text.to_owned())]));
    }

    #[test]
    fn conversations_of_one_file_are_told_apart() {
        let lines = json!([
            {"session_id": "a", "role": "user", "content": "Order a seal."},
            {"session_id": "b", "role": "user", "content": "Write a poem."},
            {"session_id": "a", "role": "assistant", "content": "It is ordered."},
        ]);
        let a = (Some("a".to_owned()), "user: Order a seal.\nassistant: It is ordered.".to_owned());
        let b = (Some("b".to_owned()), "user: Write a poem.".to_owned());
        assert_eq!(read(&lines), Some(vec![a, b]));
        let whole = json!([
            {"messages": [{"role": "user", "content": "One?"}], "title": "First"},
            {"conversations": [{"from": "human", "value": "Two?"}, {"from": "gpt", "value": "Yes."}]},
        ]);
        let first = (Some("First".to_owned()), "user: One?".to_owned());
        let second = (None, "user: Two?\nassistant: Yes.".to_owned());
        assert_eq!(read(&whole), Some(vec![first, second]));
    }

    #[test]
    fn other_records_stay_what_they_are_and_marks_hold_for_the_whole_conversation() {
        assert_eq!(read(&json!([{"role": "manager", "text": "Ana Ruiz"}])), None);
        assert_eq!(read(&json!([{"role": "user", "text": "Hi"}, {"name": "Fence"}])), None);
        assert_eq!(read(&json!([{"messages": ["a", "b"]}])), None);
        let marked = json!([
            {"role": "user", "content": "Hi.", "publish": false},
            {"role": "assistant", "content": "Hello.", "local_only": true},
        ]);
        let records: Vec<&Map<String, Value>> =
            marked.as_array().unwrap().iter().map(|one| one.as_object().unwrap()).collect();
        let found = conversations(&records).unwrap();
        assert_eq!((found[0].publish, found[0].is_local_only()), (Some(false), true));
    }
}
