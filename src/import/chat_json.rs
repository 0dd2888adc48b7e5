//! Chats as JSON: exports of Telegram, Slack, Discord and Messenger, and records that each hold a conversation.
//!
//! Each is a list of messages with an author, a time and words; they differ in the names of members.
//! Contract: every message with words is returned. What the program says is marked, messages without
//! words are counted. A conversation whose messages have no time is an error of its own.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, FixedOffset};
use chrono_tz::Tz;
use serde_json::{Map, Value, json};

use super::LeftOut;
use super::attached::Attached;
use super::chats::{Conversation, Standing, Turn};
use super::fields::time;
use super::said::{beside_list, text_within};
use super::slack::SlackChannel;
use crate::contract::hash::sha256;
use crate::contract::privacy::says_local_only;
use crate::contract::publish::{said_by_record, together};
use crate::contract::source::TimePrecision;
use crate::contract::time::{Day, Timestamp};
use crate::markup::html::unescape;
use crate::markup::members::{self, named, speakers};
use crate::markup::records::joined_pieces;
use crate::upstream::moment::Moment;

/// Members that may hold the number of the author of a message.
const NUMBERED: &[&str] = &["author", "from", "sender", "user", "fromid"];
/// Members that hold the role of who speaks.
const ROLES: [&str; 2] = ["/role", "/author/role"];
/// Members that hold the time, the exact ones first. Others are known by their usual names.
const TIMES: [&str; 10] = [
    "date_unixtime",
    "timestamp_ms",
    "ts",
    "timestamp",
    "date",
    "created_at",
    "sent_at",
    "create_time",
    "datetime",
    "time",
];
/// Members that hold the words.
const TEXTS: [&str; 5] = ["text", "content", "message", "body", "value"];
/// Members of a conversation that hold its id.
const CHAT_IDS: [&str; 8] = [
    "/id",
    "/thread_path",
    "/channel/id",
    "/conversation_id",
    "/session_id",
    "/thread_id",
    "/chat_id",
    "/uuid",
];
/// Members of a message that say to which conversation it belongs.
const CONVERSATIONS: [&str; 4] = ["conversation_id", "session_id", "thread_id", "chat_id"];
/// Members of a file that hold its conversations.
const CHATS: [&str; 6] =
    ["/chats/list", "/chats", "/conversations", "/sessions", "/items", "/data"];
/// Members that hold who wrote a message that its author only passed on.
const FORWARDED: [&str; 2] = ["forwarded_from", "forwarded_from_id"];
/// Members that hold the id of the message that a message answers.
const ANSWERED: [&str; 3] = ["/reply_to_message_id", "/thread_ts", "/reference/messageId"];
/// Members that hold the id of a message.
const IDS: [&str; 3] = ["id", "ts", "client_msg_id"];
/// How Slack calls what its program says; other messages with a subtype are of people.
const SLACK_NOTES: [&str; 3] = ["channel_", "group_", "bot_add"];

/// Kinds of messages of Discord that hold words of their author, by name and by number; all others are notes.
const DISCORD_WORDS: [&str; 10] = [
    "Default",
    "Reply",
    "ChatInputCommand",
    "ThreadStarterMessage",
    "ContextMenuCommand",
    "0",
    "19",
    "20",
    "21",
    "23",
];
/// Kinds of messages of Messenger that are notes.
const MESSENGER_NOTES: [&str; 3] = ["Call", "Subscribe", "Unsubscribe"];

/// The conversations of an export, or for each that cannot be read its number and the reason. `name` is the name of
/// its file; `channel` is what lies beside one of Slack.
pub(super) fn conversations(
    value: &Value,
    name: &str,
    channel: &SlackChannel,
    zone: Tz,
) -> Vec<Result<Conversation, (u64, LeftOut)>> {
    let Chats { chats, around, are_listed } = chats_of(value);
    let said = around.as_ref().and_then(said_by_record);
    let is_local_only = around.as_ref().is_some_and(says_local_only);
    let mut known = HashMap::new();
    let mut found = Vec::new();
    for (chat, number) in chats.iter().zip(1..) {
        match conversation(chat, name, channel, zone) {
            Ok(mut one) => {
                if are_listed {
                    set_apart(&mut one, chat, name, &mut known);
                }
                one.publish = together([one.publish, said]);
                one.turns.iter_mut().for_each(|turn| turn.local_only |= is_local_only);
                found.push(Ok(one));
            }
            Err(why) => found.push(Err((number, why))),
        }
    }
    found
}

/// Whether a record is a whole conversation: it holds a list of messages.
pub(super) fn is_conversation(record: &Value) -> bool {
    let messages = record["messages"].as_array();
    messages.is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_object))
}

/// Whether a message says when and by whom it was sent, or its conversation says when.
pub(super) fn is_timed(message: &Value, chat_time: bool) -> bool {
    let has_role = ROLES.iter().any(|place| message.pointer(place).and_then(scalar).is_some());
    let has_voice = has_role || author_of(message).is_some();
    let has_words = TEXTS.iter().any(|name| !message[*name].is_null());
    has_voice && has_words && (chat_time || moment_of(message, Tz::UTC).is_some())
}

/// The conversations in a value.
#[derive(Default)]
struct Chats<'v> {
    chats: Vec<Cow<'v, Value>>,
    /// What stands beside their list and holds for each of them.
    around: Option<Map<String, Value>>,
    /// Whether they stand in a list, which may grow: their ids do not depend on how many there are.
    are_listed: bool,
}

fn chats_of(value: &Value) -> Chats<'_> {
    if let Some(records) = value.as_array().filter(|all| all.iter().any(is_conversation)) {
        return Chats { chats: apart(records), around: None, are_listed: true };
    }
    let whole = || Chats { chats: vec![Cow::Borrowed(value)], ..Chats::default() };
    if value["messages"].is_array() {
        return whole();
    }
    let mut lists = CHATS.iter().filter_map(|place| value.pointer(place)?.as_array());
    let listed = lists.find(|list| list.iter().any(|one| one["messages"].is_array()));
    let Some(listed) = listed else { return whole() };
    let is_list = |name: &str| CHATS.iter().any(|place| place[1..].split('/').next() == Some(name));
    let members = value.as_object().into_iter().flatten();
    let beside = members.filter(|(name, _)| !is_list(name));
    let around = beside.map(|(name, one)| (name.clone(), one.clone())).collect();
    let chats = listed.iter().map(Cow::Borrowed).collect();
    Chats { chats, around: Some(around), are_listed: true }
}

/// Records of which some are whole conversations. The others are messages: those of one conversation belong together.
fn apart(records: &[Value]) -> Vec<Cow<'_, Value>> {
    let mut chats = Vec::new();
    let mut loose: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in records {
        if record["messages"].is_array() {
            chats.push(Cow::Borrowed(record));
        } else {
            let id = CONVERSATIONS.iter().find_map(|name| scalar(&record[*name]));
            loose.entry(id.unwrap_or_default()).or_default().push(record.clone());
        }
    }
    chats.extend(loose.into_iter().map(|(id, messages)| {
        Cow::Owned(match id.as_str() {
            "" => Value::Array(messages),
            id => json!({"id": id, "messages": messages}),
        })
    }));
    chats
}

/// Tells a conversation from the others of its file: one without an id is named by its first message. `known` has the
/// first messages of the others, by their ids.
fn set_apart(
    one: &mut Conversation,
    chat: &Value,
    name: &str,
    known: &mut HashMap<String, String>,
) {
    let given = CHAT_IDS.iter().find_map(|place| scalar(chat.pointer(place)?));
    let Some(turn) = one.turns.first() else { return };
    let author = turn.author.as_deref().unwrap_or_default();
    let first = sha256(format!("{} {author} {}", turn.at.0, turn.text)).hex()[..16].to_owned();
    let is_another = |id: &String| known.get(id).is_some_and(|other| *other != first);
    if given.is_none() || is_another(&one.id) {
        one.id = format!("{}#{first}", one.id);
    }
    known.insert(one.id.clone(), first);
    // The name of the file would be the name of each.
    if one.title.as_deref() == Some(&folder_or_file(name)) {
        one.title = given.or(one.title.take());
    }
}

fn conversation(
    chat: &Value,
    name: &str,
    channel: &SlackChannel,
    zone: Tz,
) -> Result<Conversation, LeftOut> {
    let messages = chat.as_array().or_else(|| chat["messages"].as_array());
    let messages = messages.ok_or_else(|| LeftOut::Unread("it has no `messages`".to_owned()))?;
    let title = ["/name", "/title", "/subject", "/channel/name"];
    let title = title.iter().find_map(|place| word(chat.pointer(place)?));
    let id = CHAT_IDS.iter().find_map(|place| scalar(chat.pointer(place)?));
    // Telegram names the chat of a person with themselves by its kind only.
    let saved = || (chat["type"] == "saved_messages").then(|| "Saved Messages".to_owned());
    let title = title.or_else(saved);
    let id = id.or_else(|| title.clone()).unwrap_or_else(|| folder_or_file(name));
    let title = title.or_else(|| channel.between.clone()).unwrap_or_else(|| folder_or_file(name));
    let project = ["/project", "/project_name", "/project/name"];
    let project = project.iter().find_map(|place| word(chat.pointer(place)?));
    let system = "chat_export";
    let mut found =
        Conversation { id, title: Some(title), project, system, ..Conversation::default() };
    let mut people = channel.people.clone();
    people.extend(names(messages));
    let authors = authors(messages, &people);
    let times: Vec<Option<Sent>> = messages.iter().map(|one| moment_of(one, zone)).collect();
    let none_timed = times.iter().all(Option::is_none);
    // The one before it gives a message without a time its place.
    let mut last = times.iter().flatten().next().copied().or_else(|| moment_of(chat, zone));
    for (message, time) in messages.iter().zip(times) {
        last = time.or(last);
        let text = words(message, &people);
        let is_note = is_note(message);
        if text.is_empty() {
            // What the service says of itself says nothing of a person.
            found.empty += u64::from(!is_note);
            continue;
        }
        let Some(Sent { at, precision, written }) = last else {
            return Err(LeftOut::Unread("no message has a time".to_owned()));
        };
        let author = author(message, &people);
        let given = id_of(message);
        let hash = || {
            let said = format!("{} {} {text}", at.0, author.as_deref().unwrap_or_default());
            sha256(said).hex()[..16].to_owned()
        };
        let role = if is_note { "system".to_owned() } else { role(message) };
        let standing = if is_note { Standing::Hidden } else { Standing::Shown };
        let turn = Turn::new(given.unwrap_or_else(hash), role, at, text, standing);
        let turn = Turn {
            forwarded_from: FORWARDED.iter().find_map(|name| word(&message[*name])),
            reply_to_author: reply_to(message, &authors).filter(|one| Some(one) != author.as_ref()),
            author,
            precision,
            written,
            ..turn
        }
        // The time of the conversation is that of its messages only where none says when it was sent.
        .timed(time.is_some() || none_timed);
        found.attached.extend(attached(message));
        found.turns.push(turn.marked_by(message));
    }
    // Some programs write the newest message first.
    found.turns.sort_by_key(|turn| turn.at);
    let said = channel.is_private.then_some(false);
    let Some(first) = found.turns.first() else { return Err(LeftOut::EmptyConversation) };
    // What is said of the whole chat stands before its first message.
    if let Some(text) = chat.as_object().and_then(beside_list) {
        let (precision, written) = (first.precision, first.written);
        let notes = Turn::new("notes".into(), "system".into(), first.at, text, Standing::Shown);
        found.turns.insert(0, Turn { precision, written, ..notes });
    }
    let found = found.marked_by(chat);
    let publish = together([found.publish, said]);
    Ok(Conversation { publish, ..found })
}

/// The names of the files that a message has attached.
fn attached(message: &Value) -> impl Iterator<Item = Attached> {
    const NAMES: [&str; 4] = ["name", "fileName", "file_name", "title"];
    let lists = ["files", "attachments"].into_iter();
    let files = lists.filter_map(|name| message[name].as_array()).flatten();
    let named = files.filter_map(|file| NAMES.iter().find_map(|name| word(&file[*name])));
    let named = named.chain(word(&message["file_name"]));
    named.map(|name| Attached { name, id: None })
}

/// The role of who speaks, where the message says one; a person otherwise.
fn role(message: &Value) -> String {
    let said = ROLES.iter().find_map(|place| word(message.pointer(place)?));
    let said = said.map_or_else(|| "user".to_owned(), |said| said.to_lowercase());
    match said.as_str() {
        "human" | "person" => "user".to_owned(),
        "bot" | "model" | "ai" | "gpt" => "assistant".to_owned(),
        "developer" => "system".to_owned(),
        "function" => "tool".to_owned(),
        _ => said,
    }
}

/// Whether the program says it: who came, what was pinned, that somebody called.
fn is_note(message: &Value) -> bool {
    let slack = message["subtype"].as_str().unwrap_or_default();
    let kind = scalar(&message["type"]).unwrap_or_default();
    // Kinds of Discord begin with a capital, or are numbers. Others are words such as `message`.
    let is_of_discord = message["author"].is_object()
        && kind.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit());
    kind == "service"
        || SLACK_NOTES.iter().any(|note| slack.starts_with(note))
        || is_of_discord && !DISCORD_WORDS.contains(&kind.as_str())
        || message["sender_name"].is_string() && MESSENGER_NOTES.contains(&kind.as_str())
}

fn word(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned)
}

fn scalar(value: &Value) -> Option<String> {
    word(value).or_else(|| value.as_i64().map(|number| number.to_string()))
}

/// Who wrote a message, as it says itself.
fn author_of(message: &Value) -> Option<String> {
    let message = message.as_object()?;
    let number = || named(message, NUMBERED).find_map(Value::as_i64);
    speakers(message).next().or_else(|| number().map(|number| number.to_string()))
}

fn author(message: &Value, people: &BTreeMap<String, String>) -> Option<String> {
    let named = author_of(message)?;
    Some(people.get(&named).cloned().unwrap_or(named))
}

/// Whether a time is one of Slack, seconds with a fraction, which also names its message.
fn is_of_slack(ts: &Value) -> bool {
    ts.as_str().is_some_and(|ts| ts.parse::<f64>().is_ok())
}

/// The id that a message gives itself.
fn id_of(message: &Value) -> Option<String> {
    let is_id = |name: &&&str| **name != "ts" || is_of_slack(&message["ts"]);
    IDS.iter().filter(is_id).find_map(|name| scalar(&message[*name]))
}

/// The authors of messages by the ids of the messages.
fn authors(messages: &[Value], people: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let authored = |message: &Value| {
        let id = id_of(message)?;
        Some((id, author(message, people)?))
    };
    messages.iter().filter_map(authored).collect()
}

/// The author of the message that a message answers.
fn reply_to(message: &Value, authors: &BTreeMap<String, String>) -> Option<String> {
    let answered = ANSWERED.iter().find_map(|place| scalar(message.pointer(place)?))?;
    authors.get(&answered).cloned()
}

/// When a message was sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Timestamp,
    precision: TimePrecision,
    /// With the offset that it is written with.
    written: Option<DateTime<FixedOffset>>,
}

fn moment_of(message: &Value, zone: Tz) -> Option<Sent> {
    let exact = TIMES.iter().map(|name| &message[*name]);
    let usual = message.as_object().into_iter().flat_map(|members| named(members, members::TIMES));
    exact.chain(usual).find_map(|value| {
        // The offset of a number is that of the home.
        let is_number = value.is_number() || is_of_slack(value);
        let moment = Moment::read(value, zone)?;
        let moment = message.as_object().map_or(moment, |members| moment.with_clock(members));
        let (at, precision, written) = match moment {
            Moment::At(at) => (time(value, zone)?, TimePrecision::Moment, Some(at)),
            moment => {
                let is_day = matches!(moment, Moment::Day(_));
                let precision = if is_day { TimePrecision::Day } else { TimePrecision::Local };
                (Timestamp(moment.event_millis(zone)), precision, None)
            }
        };
        Some(Sent { at, precision, written: written.filter(|_| !is_number) })
    })
}

/// The words of a message: one text, or pieces of it.
fn words(message: &Value, people: &BTreeMap<String, String>) -> String {
    let text = TEXTS.iter().map(|name| &message[*name]).find(|text| !text.is_null());
    let text = match text {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(pieces)) => joined_pieces(pieces),
        Some(inner) => {
            text_within(inner).or_else(|| text_within(&inner["parts"])).unwrap_or_default()
        }
        None => String::new(),
    };
    match is_of_slack(&message["ts"]) {
        true => slack_text(&text, people),
        false => text.trim().to_owned(),
    }
}

/// The ids and names of people that messages of Slack name.
fn names(messages: &[Value]) -> impl Iterator<Item = (String, String)> {
    messages.iter().filter_map(|message| {
        let id = message["user"].as_str()?.to_owned();
        let name = author(message, &BTreeMap::new()).filter(|name| *name != id)?;
        Some((id, name))
    })
}

/// `<@U2>` is a person, `<https://…|words>` a link, `&amp;` a sign.
fn slack_text(text: &str, people: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        let Some((mark, tail)) = after.split_once('>') else {
            out.push('<');
            rest = after;
            continue;
        };
        let (target, label) = mark.split_once('|').unwrap_or((mark, ""));
        let shown = match target.split_at_checked(1) {
            Some(("@", id)) => {
                let known = people.get(id).map(String::as_str);
                known.unwrap_or(if label.is_empty() { id } else { label }).to_owned()
            }
            Some(("#", id)) => format!("#{}", if label.is_empty() { id } else { label }),
            Some(("!", name)) => format!("@{name}"),
            _ if label.is_empty() => target.to_owned(),
            _ => label.to_owned(),
        };
        out.push_str(&shown);
        rest = tail;
    }
    out.push_str(rest);
    unescape(out.trim())
}

/// The name of a file; a channel of Slack is a folder with a file for each day.
fn folder_or_file(name: &str) -> String {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let folder = folder.rsplit('/').next().unwrap_or_default();
    let is_day = stem.parse::<Day>().is_ok();
    if is_day && !folder.is_empty() { folder } else { stem }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{conversations as all, *};

    /// The conversations that can be read.
    fn conversations(
        value: &Value,
        name: &str,
        channel: &SlackChannel,
        zone: Tz,
    ) -> Vec<Conversation> {
        all(value, name, channel, zone).into_iter().filter_map(Result::ok).collect()
    }

    fn shown(value: &Value) -> Vec<String> {
        let found = conversations(
            value,
            "general/2026-03-05.json",
            &SlackChannel::default(),
            chrono_tz::UTC,
        );
        let turns = found.iter().flat_map(|one| &one.turns);
        let turns = turns.filter(|turn| turn.standing == Standing::Shown);
        turns
            .map(|turn| {
                let author = turn.author.as_deref().unwrap_or("-");
                format!("{} {author}: {}", &turn.at.to_string()[..16], turn.text)
            })
            .collect()
    }

    #[test]
    fn what_a_message_says_of_its_role_its_author_and_its_time_is_kept() {
        let chat = json!({"title": "Lease", "messages": [
            {"id": "x1", "role": "user", "author": "Ana", "ts": "2026-02-11T23:30:00-05:00", "text": "Who signs?"},
            {"id": "x2", "role": "assistant", "created_at": "2026-02-12T00:10:00-05:00", "content": "The tenant."},
            {"role": "user", "ts": "2026-02-12T00:11:00-05:00", "text": "A Vec<u8>."},
            {"role": "user", "ts": "2026-02-12T00:11:00-05:00", "text": "And a list."},
        ]});
        let found = conversations(&chat, "f.json", &SlackChannel::default(), Tz::UTC);
        let told: Vec<_> = found[0]
            .turns
            .iter()
            .filter(|turn| turn.id != "notes")
            .map(|turn| (turn.role.as_str(), turn.author.as_deref(), turn.at.to_string()))
            .collect();
        let at = |text: &str| text.to_owned();
        assert_eq!(
            told,
            [
                ("user", Some("Ana"), at("2026-02-12T04:30:00.000Z")),
                ("assistant", None, at("2026-02-12T05:10:00.000Z")),
                ("user", None, at("2026-02-12T05:11:00.000Z")),
                ("user", None, at("2026-02-12T05:11:00.000Z")),
            ]
        );
        let last = &found[0].turns[found[0].turns.len() - 2..];
        assert!(last[0].id != last[1].id && last[0].text == "A Vec<u8>.", "{last:?}");
    }

    #[test]
    fn a_message_without_a_time_claims_none() {
        let chat = json!({"title": "Lease", "messages": [
            {"role": "user", "text": "Zero."},
            {"role": "user", "ts": "2026-02-11T23:30:00-05:00", "text": "One."},
            {"role": "user", "text": "Two."},
            {"role": "user", "ts": "2026-02-12T00:10:00-05:00", "text": "Three."},
        ]});
        let found = conversations(&chat, "f.json", &SlackChannel::default(), Tz::UTC);
        let told: Vec<_> = found[0]
            .turns
            .iter()
            .map(|turn| {
                (
                    turn.text.as_str(),
                    turn.precision == TimePrecision::Unknown,
                    turn.written.is_some(),
                )
            })
            .collect();
        let expected = [
            ("Zero.", true, false),
            ("One.", false, true),
            ("Two.", true, false),
            ("Three.", false, true),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_lies_beside_a_channel_names_its_people_and_keeps_it_private() {
        let slack = json!([
            {"type": "message", "user": "U1", "ts": "1772704800.000100", "text": "Ask <@U2>"},
            {"type": "message", "user": "U3", "ts": "1772704860.000200", "text": "Fine"}]);
        let people = [("U1", "Ana Ruiz"), ("U2", "Bo Lind")];
        let channel = SlackChannel {
            people: people.map(|(id, name)| (id.to_owned(), name.to_owned())).into(),
            is_private: true,
            between: Some("Ana Ruiz, Bo Lind".to_owned()),
        };
        let found = &conversations(&slack, "D1/2026-03-05.json", &channel, chrono_tz::UTC)[0];
        let said: Vec<_> =
            found.turns.iter().map(|turn| (turn.author.as_deref(), &turn.text[..])).collect();
        assert_eq!(said, [(Some("Ana Ruiz"), "Ask Bo Lind"), (Some("U3"), "Fine")]);
        assert_eq!(found.title.as_deref(), Some("Ana Ruiz, Bo Lind"));
        assert_eq!((found.id.as_str(), found.publish), ("D1", Some(false)));
    }

    #[test]
    fn who_is_answered_and_who_wrote_what_is_passed_on_are_known() {
        let telegram = json!({"name": "Flat", "id": 1, "messages": [
            {"id": 1, "date_unixtime": "1772704800", "from": "Ana", "text": "Who pays?"},
            {"id": 2, "date_unixtime": "1772704860", "from": "Bo", "text": "I do", "reply_to_message_id": 1},
            {"id": 3, "date_unixtime": "1772704870", "from": "Bo", "text": "The rent rises",
             "forwarded_from": "Marta"},
            {"id": 4, "date_unixtime": "1772704880", "from": "Bo", "text": "Today", "reply_to_message_id": 2},
            {"id": 5, "date_unixtime": "1772704890", "from": "Bo", "text": "Now", "reply_to_message_id": 99}]});
        let slack = json!([
            {"user": "U1", "ts": "1772704800.000100", "thread_ts": "1772704800.000100",
             "user_profile": {"real_name": "Ana"}, "text": "Who pays?"},
            {"user": "U2", "ts": "1772704860.000200", "thread_ts": "1772704800.000100",
             "user_profile": {"real_name": "Bo"}, "text": "I do"}]);
        let discord = json!({"channel": {"id": "7", "name": "help"}, "messages": [
            {"id": "1", "timestamp": "2026-03-05T10:00:00+00:00", "content": "Hi", "author": {"name": "Ana"}},
            {"id": "2", "timestamp": "2026-03-05T10:01:00+00:00", "content": "Hello", "author": {"name": "Bo"},
             "reference": {"messageId": "1", "channelId": "7"}}]});
        let answered = |value: &Value| -> Vec<Option<String>> {
            let found = conversations(value, "a.json", &SlackChannel::default(), chrono_tz::UTC);
            found[0].turns.iter().map(|turn| turn.reply_to_author.clone()).collect()
        };
        let ana = Some("Ana".to_owned());
        assert_eq!(answered(&telegram), [None, ana.clone(), None, None, None]);
        assert_eq!(answered(&slack), [None, ana.clone()]);
        assert_eq!(answered(&discord), [None, ana]);
        let turns =
            &conversations(&telegram, "a.json", &SlackChannel::default(), chrono_tz::UTC)[0].turns;
        assert_eq!(turns[2].forwarded_from.as_deref(), Some("Marta"));
    }

    #[test]
    fn every_program_gives_speakers_times_and_words() {
        let telegram = json!({"name": "Garden", "id": 1, "type": "private_group", "messages": [
            {"id": 1, "type": "service", "date_unixtime": "1772704800", "actor": "Ana", "text": ""},
            {"id": 2, "type": "message", "date": "2026-03-05T10:01:00", "date_unixtime": "1772704860",
             "from": "Ana", "text": ["See ", {"type": "link", "text": "https://x.org"}]},
            {"id": 3, "type": "message", "date": "2026-03-05T10:02:00", "from": "Bo", "text": "Yes"}]});
        assert_eq!(
            shown(&telegram),
            ["2026-03-05T10:01 Ana: See https://x.org", "2026-03-05T10:02 Bo: Yes"]
        );
        assert_eq!(
            conversations(&telegram, "a.json", &SlackChannel::default(), chrono_tz::UTC)[0]
                .title
                .as_deref(),
            Some("Garden")
        );
        let slack = json!([
            {"type": "message", "user": "U1", "ts": "1772704800.000100",
             "user_profile": {"real_name": "Ana Ruiz"}, "text": "Ask <@U2> &amp; <https://x.org|the page>"},
            {"type": "message", "subtype": "channel_join", "user": "U2", "ts": "1772704850.0", "text": "joined"},
            {"type": "message", "user": "U2", "ts": "1772704860.000200",
             "user_profile": {"real_name": "Bo Lind"}, "text": "Fine"}]);
        assert_eq!(
            shown(&slack),
            ["2026-03-05T10:00 Ana Ruiz: Ask Bo Lind & the page", "2026-03-05T10:01 Bo Lind: Fine"]
        );
        let found = conversations(
            &slack,
            "general/2026-03-05.json",
            &SlackChannel::default(),
            chrono_tz::UTC,
        );
        assert_eq!(found[0].title.as_deref(), Some("general"));
        let messenger = json!({"title": "Ana", "participants": [], "messages": [
            {"sender_name": "Bo", "timestamp_ms": 1_772_704_860_000_i64, "content": "Second"},
            {"sender_name": "Ana", "timestamp_ms": 1_772_704_800_000_i64, "content": "First"},
            {"sender_name": "Ana", "timestamp_ms": 1_772_704_800_000_i64, "photos": []}]});
        assert_eq!(
            shown(&messenger),
            ["2026-03-05T10:00 Ana: First", "2026-03-05T10:01 Bo: Second"]
        );
        let discord = json!({"guild": {}, "channel": {"id": "7", "name": "help"}, "messages": [
            {"id": "1", "timestamp": "2026-03-05T10:00:00+00:00", "content": "Hi", "author": {"name": "ana"}}]});
        assert_eq!(shown(&discord), ["2026-03-05T10:00 ana: Hi"]);
    }

    #[test]
    fn a_list_that_grows_keeps_the_ids_of_its_conversations() {
        let chat = |text: &str| json!({"messages": [{"author": "Ana", "ts": "2026-03-05T10:00:00Z", "text": text}]});
        let (roof, pump) = (chat("The roof leaks."), chat("The pump is old."));
        let ids = |value: &Value| -> Vec<String> {
            let found = conversations(value, "a.json", &SlackChannel::default(), chrono_tz::UTC);
            found.into_iter().map(|one| one.id).collect()
        };
        for (one, two) in [
            (json!([roof]), json!([roof, pump])),
            (json!({"chats": {"list": [roof]}}), json!({"chats": {"list": [roof, pump]}})),
        ] {
            assert_eq!(ids(&one)[0], ids(&two)[0]);
            assert_ne!(ids(&two)[0], ids(&two)[1]);
        }
    }

    #[test]
    fn notes_of_the_service_are_no_messages_without_words_and_files_are_named() {
        let telegram = json!({"name": "Flat", "id": 1, "messages": [
            {"id": 1, "type": "service", "date_unixtime": "1772704800", "actor": "Ana", "text": ""},
            {"id": 2, "type": "message", "date_unixtime": "1772704860", "from": {"name": "Ana"}, "text": "See",
             "files": [{"name": "plan.pdf"}]},
            {"id": 3, "type": "message", "date": "2026-03-05", "time": "10:30", "from": "Bo", "photo": "p", "text": ""},
            {"id": 4, "type": "message", "date": "2026-03-05", "time": "10:30", "from": "Bo", "text": "So"}]});
        let found = conversations(&telegram, "a.json", &SlackChannel::default(), chrono_tz::UTC);
        assert_eq!(
            (found[0].empty, found[0].attached.as_slice()),
            (1, &[Attached { name: "plan.pdf".to_owned(), id: None }][..])
        );
        assert_eq!(shown(&telegram), ["2026-03-05T10:01 Ana: See", "2026-03-05T10:30 Bo: So"]);
    }

    #[test]
    fn what_a_program_says_is_no_word_of_a_person() {
        let message = |number: usize, kind: &Value| {
            json!({"id": number.to_string(), "type": kind, "author": {"id": "7", "name": "Ana"},
                   "timestamp": "2026-03-05T10:00:00+00:00", "content": format!("{kind}")})
        };
        let kinds = [
            json!("Default"),
            json!("Reply"),
            json!(19),
            json!("23"),
            json!("GuildMemberJoin"),
            json!("ChannelPinnedMessage"),
            json!("Call"),
            json!("RecipientAdd"),
            json!(7),
            json!("46"),
        ];
        let messages: Vec<Value> =
            kinds.iter().enumerate().map(|(number, kind)| message(number, kind)).collect();
        let discord = json!({"channel": {"id": "7", "name": "help"}, "messages": messages});
        assert_eq!(shown(&discord).len(), 4, "{:?}", shown(&discord));
        let found = conversations(&discord, "a.json", &SlackChannel::default(), chrono_tz::UTC);
        assert_eq!(found[0].turns.len(), kinds.len(), "notes are kept beside");
        let messenger = json!({"title": "Flat", "participants": [], "messages": [
            {"sender_name": "Bo", "timestamp_ms": 1_772_704_860_000_i64, "type": "Generic", "content": "Hi"},
            {"sender_name": "Bo", "timestamp_ms": 1_772_704_870_000_i64, "type": "Subscribe",
             "content": "Bo added Ana to the group."},
            {"sender_name": "Bo", "timestamp_ms": 1_772_704_880_000_i64, "type": "Share", "content": "See"}]});
        assert_eq!(shown(&messenger).len(), 2);
    }
}
