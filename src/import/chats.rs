//! Conversations of a ChatGPT or Claude export, one at a time.
//!
//! ChatGPT stores a conversation as a tree: a message that was edited or answered again has several
//! children. The way from `current_node` to the root is what the person saw last. Messages of other
//! branches are kept and marked. Contract: every message with words is returned. Messages without words
//! are counted.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, FixedOffset};
use chrono_tz::Tz;
use serde::Serialize;
use serde_json::{Map, Value};

use super::LeftOut;
use super::attached::{self, Attached};
use super::cited::without_marks;
use super::fields::time;
use crate::contract::privacy::says_local_only;
use crate::contract::publish::said_by_record;
use crate::contract::source::TimePrecision;
use crate::contract::time::Timestamp;
use crate::os::Disk;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conversation {
    pub id: String,
    pub title: Option<String>,
    /// The project it was filed under.
    pub project: Option<String>,
    /// Whether its export says that it may be shown to others.
    pub publish: Option<bool>,
    /// What the exporting program is called in provenance.
    pub system: &'static str,
    /// Messages with words, oldest first.
    pub turns: Vec<Turn>,
    /// Messages of people without words, such as pictures. Those of programs mean nothing.
    pub empty: u64,
    /// What a model thought before it answered, in messages that say something else too.
    pub thoughts: u64,
    /// The files that messages with words have attached, and whose words are not in the messages.
    pub attached: Vec<Attached>,
    /// Parts of messages with words that no reader knows, by the kind that the export names.
    pub unknown: BTreeMap<String, u64>,
    /// How dates that allow two readings were read.
    pub dates_read: Option<&'static str>,
    /// The same messages on the days that an earlier import may have given them.
    pub other_reading: Option<OtherReading>,
}

/// The messages of a chat whose dates are read in the other order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OtherReading {
    /// `day/month/year` or `month/day/year`.
    pub order: &'static str,
    /// The order in which the chat is read.
    pub instead_of: &'static str,
    /// Whether every date is a day then, and the messages are as much in the order of time.
    pub is_possible: bool,
    /// Those whose date is a day then.
    pub turns: Vec<Turn>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub id: String,
    pub role: String,
    /// The name of the person who wrote it, where the export gives one.
    pub author: Option<String>,
    /// Who wrote it first, where its author only passed it on.
    pub forwarded_from: Option<String>,
    /// The author of the message that it answers.
    pub reply_to_author: Option<String>,
    pub at: Timestamp,
    pub text: String,
    pub standing: Standing,
    /// Whether it may be shown to others.
    pub publish: Option<bool>,
    /// Whether it stays on this machine.
    pub local_only: bool,
    /// How exactly the export gives its time. Without an offset, `at` is on the clock of the home.
    pub precision: TimePrecision,
    /// Its time as the export writes it, where it has an offset.
    pub written: Option<DateTime<FixedOffset>>,
}

impl Turn {
    /// A message of which nothing else is known.
    pub(super) fn new(
        id: String,
        role: String,
        at: Timestamp,
        text: String,
        standing: Standing,
    ) -> Turn {
        Turn {
            id,
            role,
            at,
            text,
            standing,
            author: None,
            forwarded_from: None,
            reply_to_author: None,
            publish: None,
            local_only: false,
            precision: TimePrecision::Moment,
            written: None,
        }
    }

    /// A message without a time has that of the one before it, which only gives its place.
    pub(super) fn timed(self, has_time: bool) -> Turn {
        let precision = if has_time { self.precision } else { TimePrecision::Unknown };
        Turn { precision, written: self.written.filter(|_| has_time), ..self }
    }

    /// The marks that the record of a message has.
    pub(super) fn marked_by(self, message: &Value) -> Turn {
        let members = message.as_object();
        Turn {
            publish: members.and_then(said_by_record),
            local_only: members.is_some_and(says_local_only),
            ..self
        }
    }
}

impl Conversation {
    /// The marks that the record of a conversation has, beside those of its messages.
    pub(super) fn marked_by(mut self, record: &Value) -> Conversation {
        let members = record.as_object();
        self.publish = members.and_then(said_by_record);
        let is_local_only = members.is_some_and(says_local_only);
        self.turns.iter_mut().for_each(|turn| turn.local_only |= is_local_only);
        self
    }
}

/// Messages of chats that are part of no summary, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct UnusedMessages {
    /// Edited away or answered again.
    pub other_branch: u64,
    /// Instructions to a model and notes of a program: what it does not show as messages.
    pub hidden: u64,
    /// What a model thought before it answered.
    pub thoughts: u64,
}

impl UnusedMessages {
    /// Those of a conversation.
    pub(crate) fn of(one: &Conversation) -> UnusedMessages {
        let count = |wanted| one.turns.iter().filter(|turn| turn.standing == wanted).count() as u64;
        let (other_branch, hidden) = (count(Standing::OtherBranch), count(Standing::Hidden));
        UnusedMessages { other_branch, hidden, thoughts: one.thoughts }
    }

    pub(crate) fn add(&mut self, other: UnusedMessages) {
        self.other_branch += other.other_branch;
        self.hidden += other.hidden;
        self.thoughts += other.thoughts;
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == UnusedMessages::default()
    }

    /// How many there are and why: `2 messages edited away or answered again, 1 hidden`.
    pub(crate) fn told(&self) -> Option<String> {
        let many = |count: u64, one: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {one}s"),
        };
        let all = [
            (self.other_branch, "message", " edited away or answered again"),
            (self.hidden, "message", " hidden or of the program itself"),
            (self.thoughts, "thought", " of a model"),
        ];
        let told = all.iter().filter(|(count, ..)| *count > 0);
        let told = told.map(|(count, what, why)| format!("{}{why}", many(*count, what)));
        let told = told.collect::<Vec<_>>().join(", ");
        (!told.is_empty()).then_some(told)
    }
}

/// What the messages of an export hold beside the words that are summarized.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    attached: Vec<Attached>,
    unknown: BTreeMap<String, u64>,
    empty: u64,
    unused: UnusedMessages,
}

impl Beside {
    pub(crate) fn add(&mut self, one: &Conversation) {
        self.attached.extend(one.attached.iter().cloned());
        self.empty += one.empty;
        self.unused.add(UnusedMessages::of(one));
        for (kind, count) in &one.unknown {
            *self.unknown.entry(kind.clone()).or_default() += count;
        }
    }

    /// What is said of it, with the file of the messages.
    pub(crate) fn left_out(
        &self,
        disk: &dyn Disk,
        place: attached::Place<'_>,
    ) -> impl Iterator<Item = LeftOut> + use<> {
        let silent = LeftOut::without_words(self.empty);
        let unknown = LeftOut::of_unknown_kinds(&self.unknown);
        let files = attached::told(disk, place, &self.attached);
        let unused = Some(LeftOut::Messages(self.unused)).filter(|_| !self.unused.is_none());
        silent.into_iter().chain(files).chain(unknown).chain(unused)
    }
}

/// What a message is in its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Part of what the person saw last.
    Shown,
    /// Instructions, thoughts and other messages that the program does not show.
    Hidden,
    /// An earlier version that was edited or answered again.
    OtherBranch,
}

/// Reads a conversation of either export.
pub(crate) fn conversation(value: &Value) -> Result<Conversation, String> {
    let read = if value["mapping"].is_object() {
        chatgpt(value)
    } else if value["chat_messages"].is_array() {
        claude(value)
    } else {
        Err("it is not a conversation: it has neither `mapping` nor `chat_messages`".to_owned())
    };
    read.map(|conversation| conversation.marked_by(value))
}

fn word(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn chatgpt(value: &Value) -> Result<Conversation, String> {
    let nodes = value["mapping"].as_object().ok_or("`mapping` is not an object")?;
    let id = word(&value["conversation_id"]).or_else(|| word(&value["id"]));
    let begun =
        time(&value["create_time"], Tz::UTC).or_else(|| time(&value["update_time"], Tz::UTC));
    let (order, shown) = (tree_order(nodes), way_to_root(nodes, value["current_node"].as_str()));
    let mut found = Conversation {
        title: word(&value["title"]),
        project: word(&value["project_name"]),
        system: "chatgpt_export",
        ..Conversation::default()
    };
    let mut last = begun;
    for node in order {
        let message = &nodes[node]["message"];
        if message.is_null() {
            continue;
        }
        let mut unknown = Vec::new();
        let text = without_marks(&chatgpt_text(message, &mut unknown));
        if text.trim().is_empty() {
            let content = &message["content"];
            unknown.extend(says_more(content).then(|| kind_of(content, "content_type")));
        }
        count(&mut found.unknown, unknown);
        if text.trim().is_empty() {
            found.empty += u64::from(message["author"]["role"] == "user");
            continue;
        }
        let sent = time(&message["create_time"], Tz::UTC);
        last = sent.or(last);
        let Some(at) = last else { return Err("no message has a time".to_owned()) };
        let role = word(&message["author"]["role"]).unwrap_or_else(|| "other".to_owned());
        let kind = message["content"]["content_type"].as_str().unwrap_or_default();
        let hidden = message["metadata"]["is_visually_hidden_from_conversation"] == true
            || role == "system"
            || ["thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"]
                .contains(&kind);
        let standing = match (shown.contains(node), hidden) {
            (false, _) => Standing::OtherBranch,
            (true, true) => Standing::Hidden,
            (true, false) => Standing::Shown,
        };
        let id = word(&message["id"]).unwrap_or_else(|| node.to_owned());
        let turn = Turn::new(id, role, at, text, standing).timed(sent.is_some());
        let files = message["metadata"]["attachments"].as_array().into_iter().flatten();
        found.attached.extend(files.filter_map(|file| {
            Some(Attached { name: word(&file["name"])?, id: word(&file["id"]) })
        }));
        found.turns.push(turn.marked_by(message));
    }
    let first = found.turns.first().map(|turn| turn.id.clone());
    found.id = id.or(first).ok_or("it has no id and no message with words")?;
    Ok(found)
}

/// All nodes, each after its parent, children in the order their parent lists them.
fn tree_order(nodes: &Map<String, Value>) -> Vec<&str> {
    let parent = |id: &str| nodes[id]["parent"].as_str().filter(|id| nodes.contains_key(*id));
    let mut open: Vec<&str> =
        nodes.keys().map(String::as_str).filter(|id| parent(id).is_none()).collect();
    open.reverse();
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        order.push(id);
        let children = nodes[id]["children"].as_array().into_iter().flatten();
        let children: Vec<&str> = children
            .filter_map(Value::as_str)
            .filter_map(|child| nodes.get_key_value(child).map(|(key, _)| key.as_str()))
            .collect();
        open.extend(children.into_iter().rev());
    }
    // A tree with a circle or a lost parent still keeps its messages.
    order.extend(nodes.keys().map(String::as_str).filter(|id| !seen.contains(id)));
    order
}

/// The nodes from the current one to the root. Without a current node, the last leaf counts.
fn way_to_root<'a>(nodes: &'a Map<String, Value>, current: Option<&'a str>) -> BTreeSet<&'a str> {
    let is_leaf = |id: &&str| nodes[*id]["children"].as_array().is_none_or(Vec::is_empty);
    let last_leaf = || tree_order(nodes).into_iter().rev().find(is_leaf);
    let mut next = current.filter(|id| nodes.contains_key(*id)).or_else(last_leaf);
    let mut way = BTreeSet::new();
    while let Some(id) = next {
        if !nodes.contains_key(id) || !way.insert(id) {
            break;
        }
        next = nodes[id]["parent"].as_str();
    }
    way
}

/// The words of a message, whatever its content is made of.
fn chatgpt_text(message: &Value, unknown: &mut Vec<String>) -> String {
    let content = &message["content"];
    let mut parts: Vec<String> = Vec::new();
    for part in content["parts"].as_array().into_iter().flatten() {
        match part {
            Value::String(text) => parts.push(text.clone()),
            part => {
                let read = word(&part["text"]).or_else(|| media(part));
                if read.is_none() && says_more(part) {
                    unknown.push(kind_of(part, "content_type"));
                }
                parts.extend(read);
            }
        }
    }
    for thought in content["thoughts"].as_array().into_iter().flatten() {
        parts.extend(word(&thought["summary"]));
        parts.extend(word(&thought["content"]));
    }
    for name in ["text", "result", "user_profile", "user_instructions", "model_set_context"] {
        parts.extend(word(&content[name]));
    }
    parts.extend(word(&content["content"]));
    if content["content_type"] == "tether_quote" {
        parts.extend(word(&content["title"]));
        parts.extend(word(&content["url"]));
    }
    let is_code = content["content_type"] == "code";
    // What an assistant writes to a tool is said to nobody.
    let to_tool = message["author"]["role"] == "assistant"
        && message["recipient"].as_str().is_some_and(|name| name != "all");
    if (is_code || to_tool) && !parts.is_empty() {
        let language = content["language"].as_str().filter(|name| *name != "unknown" && is_code);
        let what = language.unwrap_or(if to_tool { TOOL_CALL } else { "" });
        parts = vec![fenced(what, &parts.join("\n"))];
    }
    let has_words = parts.iter().any(|part| !part.trim().is_empty());
    for file in message["metadata"]["attachments"].as_array().into_iter().flatten() {
        parts.extend(word(&file["name"]).map(|name| format!("[attachment: {name}]")));
    }
    if !has_words && parts.iter().all(|part| part.trim().is_empty()) {
        return String::new();
    }
    joined(&parts)
}

fn count(counts: &mut BTreeMap<String, u64>, kinds: Vec<String>) {
    kinds.into_iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
}

/// What an export calls the kind of a part.
fn kind_of(part: &Value, member: &str) -> String {
    word(&part[member]).unwrap_or_else(|| "of no kind".to_owned())
}

/// Whether a part that gave no text holds words, beside what says how it is to be shown.
fn says_more(part: &Value) -> bool {
    const OF_SHOWING: [&str; 5] =
        ["content_type", "type", "language", "response_format_name", "tether_id"];
    match part {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(parts) => parts.iter().any(says_more),
        Value::Object(members) => {
            members.iter().any(|(name, one)| !OF_SHOWING.contains(&name.as_str()) && says_more(one))
        }
        _ => false,
    }
}

/// A part that holds a picture or a sound is named, because its words are elsewhere.
fn media(part: &Value) -> Option<String> {
    let kind = part["content_type"].as_str()?;
    let name = kind.strip_suffix("_asset_pointer").or(kind.strip_suffix("_pointer"))?;
    Some(format!("[{}]", name.replace('_', " ")))
}

fn joined(parts: &[String]) -> String {
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

fn claude(value: &Value) -> Result<Conversation, String> {
    let id = word(&value["uuid"]).ok_or("it has no `uuid`")?;
    let messages = value["chat_messages"].as_array().ok_or("`chat_messages` is not a list")?;
    let begun = time(&value["created_at"], Tz::UTC);
    let shown = last_branch(messages);
    let project = &value["project"];
    let mut found = Conversation {
        id: id.clone(),
        title: word(&value["name"]),
        project: word(&project["name"]).or_else(|| word(project)),
        system: "claude_export",
        ..Conversation::default()
    };
    let mut last = begun;
    for (index, message) in messages.iter().enumerate() {
        let mut unknown = Vec::new();
        let text = claude_text(message, &mut unknown);
        count(&mut found.unknown, unknown);
        let blocks = message["content"].as_array().into_iter().flatten();
        found.thoughts += blocks.filter(|block| block["type"] == "thinking").count() as u64;
        if text.is_empty() {
            found.empty += u64::from(message["sender"] == "human");
            continue;
        }
        let sent = time(&message["created_at"], Tz::UTC);
        last = sent.or(last);
        let Some(at) = last else { return Err("no message has a time".to_owned()) };
        let role = match message["sender"].as_str() {
            Some("human") => "user",
            Some(other) => other,
            None => "other",
        };
        let message_id = word(&message["uuid"]).unwrap_or_else(|| format!("{id}/{index}"));
        let standing = match shown.as_ref().is_none_or(|shown| shown.contains(&index)) {
            true => Standing::Shown,
            false => Standing::OtherBranch,
        };
        let (id, role) = (message_id, role.to_owned());
        let turn = Turn::new(id, role, at, text, standing).timed(sent.is_some());
        let files = ["attachments", "files"].into_iter();
        let files = files.filter_map(|name| message[name].as_array()).flatten();
        let unread = files.filter(|file| word(&file["extracted_content"]).is_none());
        let named = |file: &Value| Some(Attached { name: word(&file["file_name"])?, id: None });
        found.attached.extend(unread.filter_map(named));
        found.turns.push(turn.marked_by(message));
    }
    Ok(found)
}

/// The positions of the messages on the branch that ends with the last message. `None` when the export does
/// not say which message each one answers.
fn last_branch(messages: &[Value]) -> Option<BTreeSet<usize>> {
    let place_of: BTreeMap<&str, usize> = messages
        .iter()
        .enumerate()
        .filter_map(|(place, message)| Some((message["uuid"].as_str()?, place)))
        .collect();
    let parents = messages.iter().filter(|message| message["parent_message_uuid"].is_string());
    if parents.count() < messages.len() {
        return None;
    }
    let mut way = BTreeSet::new();
    let mut next = messages.len().checked_sub(1);
    while let Some(place) = next {
        if !way.insert(place) {
            break;
        }
        let parent = messages[place]["parent_message_uuid"].as_str();
        next = parent.and_then(|id| place_of.get(id).copied());
    }
    Some(way)
}

/// The words behind a fence: what the program asked a tool, what the tool answered, and what is attached.
const TOOL_CALL: &str = "tool_call";
const TOOL_RESULT: &str = "tool_result";
const ATTACHMENT: &str = "attachment";

/// Words that nobody said in the chat. The fence is longer than any in them.
fn fenced(what: &str, text: &str) -> String {
    let longest = text.lines().map(|line| {
        let line = line.trim_start();
        line.len() - line.trim_start_matches('`').len()
    });
    let fence = "`".repeat(longest.max().unwrap_or(0).max(2) + 1);
    format!("{fence}{what}\n{}\n{fence}", text.trim_end())
}

fn claude_text(message: &Value, unknown: &mut Vec<String>) -> String {
    let mut parts: Vec<String> = Vec::new();
    for block in message["content"].as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("tool_use") => {
                let name = block["name"].as_str().unwrap_or("tool");
                let input = serde_json::to_string(&block["input"]).unwrap_or_default();
                parts.push(fenced(TOOL_CALL, &format!("{name}: {input}")));
            }
            Some("tool_result") => {
                let inner = block["content"].as_array().into_iter().flatten();
                let texts = inner.filter_map(|one| word(&one["text"]));
                let text = word(&block["content"]).into_iter().chain(texts).collect::<Vec<_>>();
                parts.extend((!text.is_empty()).then(|| fenced(TOOL_RESULT, &text.join("\n\n"))));
            }
            kind => {
                let text = word(&block["text"]);
                // What a program thought before it answered is said to nobody.
                if text.is_none() && kind != Some("thinking") && says_more(block) {
                    unknown.push(kind_of(block, "type"));
                }
                parts.extend(text);
            }
        }
    }
    if parts.is_empty() {
        parts.extend(word(&message["text"]));
    }
    let has_words = !parts.is_empty();
    for file in message["attachments"].as_array().into_iter().flatten() {
        let name = word(&file["file_name"]).unwrap_or_else(|| "text".to_owned());
        parts.push(format!("[attachment: {name}]"));
        // The words of a file are said by nobody, unless its sender wrote nothing else: then they were pasted.
        let read = |text: String| if has_words { fenced(ATTACHMENT, &text) } else { text };
        parts.extend(word(&file["extracted_content"]).map(read));
    }
    for file in message["files"].as_array().into_iter().flatten() {
        parts.extend(word(&file["file_name"]).map(|name| format!("[attachment: {name}]")));
    }
    joined(&parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(id: &str, parent: Option<&str>, children: &[&str], message: Value) -> (String, Value) {
        let value = json!({"id": id, "parent": parent, "children": children, "message": message});
        (id.to_owned(), value)
    }

    fn said(id: &str, role: &str, at: f64, text: &str) -> Value {
        json!({"id": id, "author": {"role": role}, "create_time": at,
               "content": {"content_type": "text", "parts": [text]}, "metadata": {}})
    }

    fn tree() -> Value {
        let picture = json!({"id": "m4", "author": {"role": "user"}, "create_time": null,
            "content": {"content_type": "multimodal_text", "parts": [
                {"content_type": "image_asset_pointer", "asset_pointer": "file-x"}, "and this?"]},
            "metadata": {"attachments": [{"name": "bill.pdf"}]}});
        let code = json!({"id": "m5", "author": {"role": "assistant"}, "create_time": 1770800300.5,
            "content": {"content_type": "code", "language": "python", "text": "print(1)"}});
        let nodes: Map<String, Value> = [
            node("root", None, &["sys"], Value::Null),
            node("sys", Some("root"), &["a"], said("s", "system", 1770800000.0, "")),
            node("a", Some("sys"), &["old", "new"], said("m1", "user", 1770800100.0, "How much?")),
            node("old", Some("a"), &[], said("m2", "assistant", 1770800110.0, "A wrong answer.")),
            node("new", Some("a"), &["b"], said("m3", "assistant", 1770800120.0, "40 EUR.")),
            node("b", Some("new"), &["c"], picture),
            node("c", Some("b"), &[], code),
        ]
        .into_iter()
        .collect();
        json!({"title": "Prices", "create_time": 1770800000.0, "conversation_id": "c1",
               "current_node": "c", "mapping": nodes})
    }

    #[test]
    fn parts_of_an_unknown_kind_are_named_and_counted() {
        let message = |id: &str, content: Value| json!({"id": id, "author": {"role": "assistant"}, "create_time": 1770800000.0, "content": content});
        let parts = json!([{"content_type": "map", "place": "Porto"}, "It rains \u{e200}cite\u{e202}turn0search1\u{e201}."]);
        let nodes: Map<String, Value> = [
            node(
                "a",
                None,
                &["b"],
                message("m1", json!({"content_type": "multimodal_text", "parts": parts})),
            ),
            node(
                "b",
                Some("a"),
                &["c"],
                message("m2", json!({"content_type": "plan", "steps": ["Go."]})),
            ),
            node(
                "c",
                Some("b"),
                &[],
                message("m3", json!({"content_type": "code", "language": "x", "text": ""})),
            ),
        ]
        .into_iter()
        .collect();
        let read = json!({"id": "c1", "create_time": 1770800000.0, "mapping": nodes});
        let read = conversation(&read).unwrap();
        assert_eq!(
            read.turns.iter().map(|one| one.text.as_str()).collect::<Vec<_>>(),
            ["It rains."]
        );
        let mut beside = Beside::default();
        beside.add(&read);
        let blocks =
            json!([{"type": "thinking", "thinking": "Hm."}, {"type": "map", "place": "Porto"}]);
        let claude = json!({"uuid": "c", "created_at": "2026-02-11T09:00:00Z", "chat_messages": [
            {"uuid": "m", "sender": "assistant", "content": blocks}]});
        beside.add(&conversation(&claude).unwrap());
        let disk = crate::os::Machine::real().disk;
        let place = attached::Place { path: "c.json".as_ref(), is_found: false };
        let told = beside.left_out(disk.as_ref(), place);
        let told: Vec<String> = told.map(|one| one.to_string()).collect();
        assert_eq!(
            told,
            ["3 parts of messages without a reader: 2 map, 1 plan", "1 thought of a model"]
        );
    }

    #[test]
    fn a_chatgpt_tree_keeps_every_message_and_knows_what_was_seen_last() {
        let read = conversation(&tree()).unwrap();
        let turns: Vec<(&str, &str, Standing)> = read
            .turns
            .iter()
            .map(|turn| (turn.id.as_str(), turn.text.as_str(), turn.standing))
            .collect();
        assert_eq!(
            turns,
            [
                ("m1", "How much?", Standing::Shown),
                ("m2", "A wrong answer.", Standing::OtherBranch),
                ("m3", "40 EUR.", Standing::Shown),
                ("m4", "[image]\n\nand this?\n\n[attachment: bill.pdf]", Standing::Shown),
                ("m5", "```python\nprint(1)\n```", Standing::Shown),
            ]
        );
        assert_eq!(read.turns[3].at, read.turns[2].at, "the one before gives the place");
        let untimed = |turn: &Turn| turn.precision == TimePrecision::Unknown;
        assert_eq!(
            read.turns.iter().map(untimed).collect::<Vec<_>>(),
            [false, false, false, true, false]
        );
        assert_eq!((read.id.as_str(), read.title.as_deref()), ("c1", Some("Prices")));
        assert_eq!(read.turns[0].at.0, 1_770_800_100_000);
    }

    #[test]
    fn a_message_stays_on_this_machine_where_it_or_its_conversation_says_so() {
        let kept = |value: &Value| -> Vec<bool> {
            conversation(value).unwrap().turns.iter().map(|turn| turn.local_only).collect()
        };
        let mut chat = tree();
        assert_eq!(kept(&chat), [false; 5]);
        chat["mapping"]["a"]["message"]["metadata"]["local_only"] = json!(true);
        assert_eq!(kept(&chat), [true, false, false, false, false]);
        chat["local_only"] = json!("yes");
        assert_eq!(kept(&chat), [true; 5]);
        let claude = json!({"uuid": "c", "name": "n", "local_only": true, "chat_messages": [
            {"uuid": "m", "sender": "human", "text": "Hello", "created_at": "2026-02-11T10:00:00Z"}]});
        assert_eq!(kept(&claude), [true]);
    }

    #[test]
    fn a_damaged_tree_loses_no_message() {
        let mut broken = tree();
        broken["mapping"]["a"]["parent"] = json!("gone");
        broken["mapping"]["b"]["children"] = json!(["b", "nowhere"]);
        broken["current_node"] = json!("nowhere");
        let read = conversation(&broken).unwrap();
        assert_eq!(read.turns.len(), 5);
        assert!(conversation(&json!({"mapping": {}})).is_err());
        assert!(conversation(&json!([])).is_err());
    }

    #[test]
    fn a_claude_conversation_keeps_attachments_tools_and_branches() {
        let message = |id: &str, parent: &str, sender: &str, text: &str| {
            json!({"uuid": id, "parent_message_uuid": parent, "sender": sender,
                   "created_at": "2026-02-11T10:00:00.000000Z", "text": text,
                   "content": [{"type": "text", "text": text}], "attachments": [], "files": []})
        };
        let mut first = message("1", "0", "human", "Read this.");
        first["attachments"] = json!([{"file_name": "a.txt", "extracted_content": "Inner words."}]);
        let mut last = message("3", "1", "assistant", "Done.");
        last["content"] = json!([{"type": "tool_use", "name": "search", "input": {"q": "x"}},
            {"type": "tool_result", "content": [{"type": "text", "text": "found"}]},
            {"type": "text", "text": "Done."}]);
        let value = json!({"uuid": "c", "name": "Files", "project": {"name": "Home"},
            "created_at": "2026-02-11T10:00:00Z",
            "chat_messages": [first, message("2", "1", "assistant", "Earlier."), last]});
        let read = conversation(&value).unwrap();
        let attached = "[attachment: a.txt]\n\n```attachment\nInner words.\n```";
        assert_eq!(read.turns[0].text, format!("Read this.\n\n{attached}"));
        assert_eq!((read.turns[0].role.as_str(), read.project.as_deref()), ("user", Some("Home")));
        assert_eq!(read.turns[1].standing, Standing::OtherBranch);
        let call = "```tool_call\nsearch: {\"q\":\"x\"}\n```";
        let answer = "```tool_result\nfound\n```";
        assert_eq!(read.turns[2].text, format!("{call}\n\n{answer}\n\nDone."));
        assert_eq!(fenced("x", "a\n  ```\nb"), "````x\na\n  ```\nb\n````");
    }
}
