//! Records of any shape to events, by naming their fields: chat exports, feeds, JSON lines.

use std::collections::HashMap;
use std::path::Path;

use chrono::NaiveDateTime;
use chrono_tz::Tz;
use serde_json::{Map, Value, json};

use super::partition::SAME_ID_AS_LINE;
use super::stream::{FEED_AUTHORS, FEED_TITLE, each_record};
use super::{ImportError, LeftOut, NewRecord, Report, TakeEvent, Target, import_events, said};
use crate::contract::hash::sha256;
use crate::contract::json::line;
use crate::contract::privacy::{LOCAL_ONLY, says_local_only};
use crate::contract::publish;
use crate::contract::source::{FORWARDED_FROM, REPLY_TO_AUTHOR, TimePrecision, local_text};
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::{Day, Timestamp, parse_instant};
use crate::markup::html;
use crate::markup::marks::Marks;
use crate::markup::members::{
    TIMES, add_people, authors, beyond_context, file_under, filed_under, folded, name_of_person,
    named, people_of, speakers,
};
use crate::model::builtin::extract::written::day_of_value;
use crate::os::Disk;
use crate::upstream::index::IdKey;
use crate::upstream::moment::Moment;

/// Which fields of a record mean what. Each is a list of dotted paths; the first that is there
/// counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// What the source is called in provenance.
    pub source_system: String,
    /// The id. A record without an id gets one derived from its content.
    pub id: Vec<String>,
    /// The address of a record. Where it has no id, the address names it together with its title and its time.
    pub address: Vec<String>,
    /// The time: milliseconds, seconds, ISO 8601 or RFC 2822.
    pub time: Vec<String>,
    pub text: Vec<String>,
    pub title: Vec<String>,
    /// Who spoke.
    pub role: Vec<String>,
    pub conversation: Vec<String>,
    /// `event_kind` and `event_subkind` of every record; chat turns derive theirs from the role.
    pub kind: Option<(String, String)>,
    /// Whether texts are HTML, except [`PLAIN_TEXT`].
    pub html: bool,
    /// What is read of a record without a text in these fields.
    pub otherwise: Otherwise,
}

/// What is read of a record whose text is in none of the named fields. No record is lost without a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// Nothing: a person named the fields.
    #[default]
    Nothing,
    /// A text under another usual name.
    Text,
    /// The same, and without one everything that it says.
    Everything,
}

/// The member of a JSON Feed that holds plain text.
const PLAIN_TEXT: &str = "content_text";

fn paths(list: &[&str]) -> Vec<String> {
    list.iter().map(|path| (*path).to_owned()).collect()
}

impl Mapping {
    /// Day files of chat events.
    pub(crate) fn chat_export() -> Mapping {
        Mapping {
            source_system: "chatgpt_export".to_owned(),
            id: paths(&["event_id", "id", "meta.message_id"]),
            address: Vec::new(),
            time: paths(&[
                "timestamp_ms",
                "timestamp",
                "ts_abs_ms",
                "ts_abs",
                "ts",
                "create_time",
                "created_at",
                "sent_at",
                "date",
                "time",
            ]),
            text: paths(&["content", "text"]),
            title: paths(&["title", "meta.title"]),
            role: paths(&["role", "author.role"]),
            conversation: paths(&["conversation_id", "meta.conversation_id"]),
            kind: None,
            html: false,
            otherwise: Otherwise::Text,
        }
    }

    /// Feed items as JSON.
    pub(crate) fn feed() -> Mapping {
        Mapping {
            source_system: "rss".to_owned(),
            id: paths(&["id", "guid", "guid.value"]),
            address: paths(&["link", "url"]),
            time: paths(&[
                "date_published",
                "published",
                "isoDate",
                "pubDate",
                "published_at",
                "date",
                "updated",
            ]),
            text: paths(&["content_text", "content_html", "content", "summary", "description"]),
            title: paths(&["title"]),
            role: Vec::new(),
            conversation: paths(&["feed", "source", "source.name"]),
            kind: Some(("external_observation".to_owned(), "other".to_owned())),
            html: true,
            otherwise: Otherwise::Everything,
        }
    }

    /// The values that may be the time of a record: those of the named fields, and then those under another usual name,
    /// such as `date_modified` of an item that says nothing else.
    fn times<'r>(&self, record: &'r Value) -> impl Iterator<Item = &'r Value> {
        let named_fields = self.time.iter().filter_map(|path| at_path(record, path));
        let members = record.as_object().filter(|_| self.otherwise != Otherwise::Nothing);
        let usual = members.into_iter().flat_map(|members| named(members, TIMES));
        named_fields.chain(usual)
    }
}

/// Imports one file of a folder: JSON lines, one JSON array, or an object with a list of items. One record and
/// some text is held at a time, however large the file is, and a hash of each id that the records give themselves.
pub(crate) fn import_file(
    target: Target<'_>,
    mapping: &Mapping,
    (file, folder): (&Path, Option<&str>),
    report: &mut Report,
) -> Result<(), ImportError> {
    import_events(target, (file, folder), report, |name, take| {
        each_event(target.disk, target.zone, mapping, file, name, take)
    })
}

/// Hands over each record of a file in order, or the reason why a part is no record. `uri` is the name a person
/// gives the file.
pub(super) fn each_event(
    disk: &dyn Disk,
    zone: Tz,
    mapping: &Mapping,
    file: &Path,
    uri: &str,
    take: &mut TakeEvent<'_>,
) -> Result<(), ImportError> {
    let mut ids = GivenIds::default();
    each_record(disk, file, &mut |number, record| {
        let record = record.map_err(LeftOut::Unread);
        let mut found = record.and_then(|record| event(mapping, uri, &record, zone));
        if let Ok((at, event)) = &mut found {
            ids.take(number, (*at, at.day_in(zone)), mapping.kind.is_none(), event);
        }
        take(number, found)
    })
}

/// The ids that the records of a file give themselves. Many programs count the messages of each day or of each
/// channel from 1, so that an id alone does not name a message.
#[derive(Default)]
struct GivenIds {
    /// The line, the day and the conversation of the first record with an id.
    first: HashMap<IdKey, (u64, Day, IdKey)>,
    /// The time of the first record with an id on a day, in its conversation.
    first_of_day: HashMap<IdKey, Timestamp>,
}

impl GivenIds {
    /// A record of another day than the first with its id gets an id of its own: two days of the bus must not
    /// share one. So does a message of another time, while an item of a feed may be a newer version. In one day, the
    /// bus keeps conversations apart.
    fn take(
        &mut self,
        number: u64,
        (at, day): (Timestamp, Day),
        is_message: bool,
        event: &mut NewRecord,
    ) {
        let conversation = event.value["conversation_id"].as_str().unwrap_or_default();
        let here = (number, day, IdKey::of(conversation));
        let (line, first_day, first_conversation) =
            *self.first.entry(IdKey::of(&event.id)).or_insert(here);
        let is_elsewhere = here.2 != first_conversation;
        let (moment, day_named) = (at.0.to_string(), day.to_string());
        let of_day = IdKey::of(&format!("{}\n{conversation}\n{day_named}", event.id));
        let is_later = is_message && *self.first_of_day.entry(of_day).or_insert(at) != at;
        let is_apart = day != first_day || is_later;
        if is_apart {
            let mut parts = Vec::new();
            parts.extend((day != first_day).then_some(Part::Labelled("day", &day_named)));
            parts.extend(is_later.then_some(Part::Labelled("at", &moment)));
            parts.push(Part::Opaque(&event.id));
            event.id = stable_id("evt", &parts);
            event.value["event_id"] = event.id.as_str().into();
        }
        if is_apart || is_elsewhere {
            event.value["source"]["line"] = number.into();
            event.value["source"][SAME_ID_AS_LINE] = line.into();
        }
    }
}

fn event(
    mapping: &Mapping,
    file: &str,
    record: &Value,
    zone: Tz,
) -> Result<(Timestamp, NewRecord), LeftOut> {
    let written = written_time(mapping.times(record), zone);
    let written = written.map(|written| with_clock(written, record));
    let at = written.as_ref().and_then(|written| time(written, zone));
    let role = word(record, &mapping.role);
    let conversation = word(record, &mapping.conversation);
    let found = mapping.text.iter().find_map(|path| {
        let path = std::slice::from_ref(path);
        word(record, path).map(|text| (text, path == [PLAIN_TEXT]))
    });
    let has_own_text = found.is_some() && mapping.otherwise == Otherwise::Everything;
    let (text, by_page) = match found {
        Some((text, false)) if mapping.html => page(&text),
        Some((text, _)) => (text, Marks::default()),
        None => match elsewhere(mapping, record)? {
            text if mapping.html && html::has_closing_tag(&text) => page(&text),
            text => (text, Marks::default()),
        },
    };
    // The items of a status page share its address.
    let addressed = || {
        let address = word(record, &mapping.address)?;
        let title = word(record, &mapping.title).unwrap_or_default();
        let written = written.as_ref().map(Value::to_string).unwrap_or_default();
        Some(format!("{address} {title} {}", written.trim_matches('"')).trim().to_owned())
    };
    let given = word(record, &mapping.id).or_else(addressed);
    let order = at.map_or(0, |at| at.0);
    let own = record.as_object().and_then(publish::said_by_record);
    let publish = publish::together([own, by_page.publish]);
    let kept: Vec<(&str, Value)> = kept(record).collect();
    let id = given.clone().unwrap_or_else(|| {
        let hash = sha256(&text).hex();
        let is_author = |(name, _): &&(&str, Value)| matches!(*name, "author" | "from");
        let authors: Vec<String> =
            kept.iter().filter(is_author).map(|(_, one)| line(one)).collect();
        let parts = [
            Part::Text("event"),
            Part::Labelled("source", &mapping.source_system),
            Part::Labelled("conversation", conversation.as_deref().unwrap_or("none")),
            Part::Integer(order),
            Part::Labelled("authors", &authors.join("\n")),
            Part::Labelled("role", role.as_deref().unwrap_or("none")),
            Part::Labelled("content", &hash),
        ];
        stable_id("evt", &parts)
    });
    let (kind, subkind) = kind(mapping, role.as_deref());
    // The text alone names an item without an id.
    let text = match has_own_text.then(|| facts_of(mapping, record)).flatten() {
        Some(facts) => format!("{}\n\n{facts}", text.trim_end()),
        None => text,
    };
    let mut value = json!({
        "schema_version": "event.v1",
        "event_id": id,
        "content": text,
        "event_kind": kind,
        "event_subkind": subkind,
        "source": {
            "source_system": mapping.source_system,
            "source_record_id": given.unwrap_or_else(|| id.clone()),
            "source_uri": file,
        },
    });
    for (key, found) in
        [("role", role), ("conversation_id", conversation), ("title", word(record, &mapping.title))]
    {
        if let Some(found) = found {
            value[key] = json!(found);
        }
    }
    for (key, found) in kept {
        value[key] = found;
    }
    let members = record.as_object();
    let is_message = mapping.kind.is_none();
    if [&value["author"], &value["from"]].iter().all(|one| one.is_null())
        && let Some(members) = members
    {
        // Programs that talk to models name a person by `name`, beside the role.
        let named = authors(members).find_map(name_of_person);
        let name = if is_message { speakers(members).next() } else { named };
        name.into_iter().for_each(|name| value["author"] = name.into());
    }
    if value["author"].is_null()
        && let Some(author) = author_of_feed(record)
    {
        value["author"] = author;
    }
    if let Some(publish) = publish {
        value["publish"] = json!(publish);
        let mark = record.as_object().and_then(publish::mark_of).filter(|_| !publish);
        mark.into_iter().for_each(|mark| value[publish::PRIVATE_MARK] = mark.into());
    }
    if record.as_object().is_some_and(says_local_only) {
        value[LOCAL_ONLY] = true.into();
    }
    if let (Some(event), Some(members)) = (value.as_object_mut(), members) {
        let said = is_message.then(|| speakers(members)).into_iter().flatten();
        add_people(event, people_of(members).chain(said));
        file_under(event, filed_under(members));
        by_page.keep_in(event);
    }
    let Some(at) = at else {
        return Err(LeftOut::Undated(Box::new(NewRecord { order, id, value })));
    };
    note_time(&mut value, at, written.as_ref());
    Ok((at, NewRecord { order, id, value }))
}

/// The text of a page, and what the page says of itself.
fn page(text: &str) -> (String, Marks) {
    let (page, mut marks) = (html::page(text), Marks::default());
    marks.members(&page.members);
    (page.text, marks)
}

/// The text of a record that has none in the named fields; or why it gives nothing.
fn elsewhere(mapping: &Mapping, record: &Value) -> Result<String, LeftOut> {
    if record.get("mapping").is_some() || record.get("chat_messages").is_some() {
        let why = "a conversation of an export: `summarizer add` reads its messages";
        return Err(LeftOut::Unread(why.to_owned()));
    }
    let is_empty = |found: &Value| found.as_str().is_some_and(str::is_empty);
    let found = match mapping.otherwise {
        Otherwise::Nothing => None,
        Otherwise::Text => said::text_within(record),
        Otherwise::Everything => said::text_within(record)
            .or_else(|| Some(titled(&word(record, &mapping.title)?, rest_of(mapping, record))))
            .or_else(|| said::said_by_all(record)),
    };
    match (found, mapping.otherwise) {
        (Some(text), _) => Ok(text),
        // A message that says that it is empty loses nothing.
        (None, Otherwise::Nothing | Otherwise::Text)
            if first(record, &mapping.text).is_some_and(is_empty) =>
        {
            Ok(String::new())
        }
        (None, Otherwise::Nothing) => {
            Err(LeftOut::Unread(format!("no text in `{}`", mapping.text.join("`, `"))))
        }
        (None, _) => Err(LeftOut::NoText("no words".to_owned())),
    }
}

/// A title with what stands beside it.
fn titled(title: &str, rest: Option<String>) -> String {
    rest.map_or_else(|| title.to_owned(), |rest| format!("{title}\n{rest}"))
}

/// Whether a member has a place of its own in an event.
fn is_placed(mapping: &Mapping, name: &str) -> bool {
    let placed =
        [&mapping.id, &mapping.address, &mapping.time, &mapping.title, &mapping.conversation];
    let is_named = |path: &String| path.split('.').next() == Some(name);
    placed.into_iter().flatten().any(is_named)
        || KEPT.iter().any(|(_, names)| names.contains(&name))
        || [FEED_TITLE, FEED_AUTHORS].contains(&name)
}

/// What an item of a feed says beside its text, without other forms of the text, addresses and what only programs read.
fn facts_of(mapping: &Mapping, record: &Value) -> Option<String> {
    let is_text = |name: &str| {
        name.starts_with(['_', '$'])
            || folded(name).starts_with("content")
            || mapping.text.iter().any(|one| one == name)
    };
    let members: Vec<(&String, &Value)> = record
        .as_object()?
        .iter()
        .filter(|(name, value)| {
            !is_placed(mapping, name) && !is_text(name) && !value.to_string().contains("://")
        })
        .collect();
    let named: Vec<(&str, bool)> =
        members.iter().map(|(name, value)| (name.as_str(), value.is_string())).collect();
    let told = members.iter().zip(beyond_context(&named)).filter(|(_, is_fact)| *is_fact);
    let facts = told.map(|((name, value), _)| ((*name).clone(), (*value).clone())).collect();
    said::said_by_all(&Value::Object(facts))
}

/// What a record says in members that have no place of their own in an event.
fn rest_of(mapping: &Mapping, record: &Value) -> Option<String> {
    let rest = record.as_object()?.iter().filter(|(name, value)| {
        // Numbers and addresses are no words.
        !is_placed(mapping, name)
            && !value.as_str().is_some_and(|text| text.contains("://"))
            && !value.is_number()
    });
    let rest = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
    said::said_by_all(&Value::Object(rest))
}

/// The members of an event, each with the names that records give it.
const KEPT: [(&str, &[&str]); 12] = [
    ("author", &["author", "authors", "creator", "by", "byline", "speaker", "user_profile"]),
    ("from", &["from", "sender_name", "sender", "username", "user"]),
    ("to", &["to"]),
    ("cc", &["cc"]),
    ("url", &["url", "link", "external_url"]),
    ("project", &["project", "project_name"]),
    ("tags", &["tags", "labels", "categories", "keywords"]),
    ("language", &["language", "lang"]),
    ("feed", &["feed", FEED_TITLE]),
    ("timestamp", &["timestamp", "date_published", "published"]),
    (FORWARDED_FROM, &[FORWARDED_FROM]),
    (REPLY_TO_AUTHOR, &[REPLY_TO_AUTHOR]),
];

/// What a record says of itself that a flow may need: who wrote it, to whom, where it is.
fn kept(record: &Value) -> impl Iterator<Item = (&'static str, Value)> {
    KEPT.into_iter().filter_map(|(key, names)| {
        let found = names.iter().find_map(|name| record.get(name).filter(|one| !one.is_null()))?;
        let found = match found {
            Value::Array(all) if key == "author" => together(all)?,
            // Of a person whose record has no address, the name is all that a flow needs.
            Value::Object(person) if matches!(key, "author" | "from") && !has_address(person) => {
                name_of_person(found)?.into()
            }
            one => one.clone(),
        };
        // A number is a time that `timestamp_ms` has already.
        (key != "timestamp" || found.is_string()).then_some((key, found))
    })
}

fn has_address(person: &Map<String, Value>) -> bool {
    named(person, &["address", "email", "mail"]).next().is_some()
}

fn kind(mapping: &Mapping, role: Option<&str>) -> (String, String) {
    if let Some(kind) = &mapping.kind {
        return kind.clone();
    }
    ("chat_turn".to_owned(), subkind_of(role.unwrap_or_default()).to_owned())
}

/// The author of an item that names none: that of its feed.
fn author_of_feed(record: &Value) -> Option<Value> {
    match record.get(FEED_AUTHORS)? {
        Value::Array(all) => together(all),
        one => together(std::slice::from_ref(one)),
    }
}

/// Several authors as one text. One alone stays as it is, with its address.
fn together(authors: &[Value]) -> Option<Value> {
    let name = |author: &Value| Some(author.get("name").unwrap_or(author).as_str()?.to_owned());
    let names: Vec<String> = authors.iter().filter_map(name).collect();
    match authors {
        [one] => Some(one.clone()),
        _ => Some(names.join(", ").into()).filter(|_| !names.is_empty()),
    }
}

/// The finer kind of a chat message, by the role of its author.
pub(super) fn subkind_of(role: &str) -> &'static str {
    match role {
        "user" => "user_message",
        "assistant" => "assistant_message",
        "tool" => "tool_result",
        "system" => "system_note",
        _ => "other",
    }
}

fn first<'a>(record: &'a Value, candidates: &[String]) -> Option<&'a Value> {
    candidates.iter().find_map(|path| at_path(record, path))
}

fn at_path<'a>(record: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(record, |value, key| value.get(key))
}

/// The first candidate that holds a non-empty scalar.
fn word(record: &Value, candidates: &[String]) -> Option<String> {
    candidates.iter().find_map(|path| {
        let value = path.split('.').try_fold(record, |value, key| value.get(key))?;
        match value {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            // A number beyond 64 bits was rounded when it was read: others share its digits.
            Value::Number(number) if !number.is_f64() => Some(number.to_string()),
            _ => None,
        }
    })
}

/// Gives an event its time, and what milliseconds cannot carry of it: its offset, that it has none, or that
/// it is a day without a time.
pub(super) fn note_time(event: &mut Value, at: Timestamp, written: Option<&Value>) {
    event["timestamp_ms"] = at.0.into();
    // What a record says beside its time may be no time.
    if Moment::read(&event["timestamp"], chrono_tz::UTC).is_none() {
        event.as_object_mut().and_then(|event| event.remove("timestamp"));
    }
    let Some(Value::String(text)) = written else { return };
    match written.and_then(|written| Moment::read(written, chrono_tz::UTC)) {
        Some(Moment::At(at)) if text.contains(['-', ':']) => {
            event["timestamp"] = at.to_rfc3339().into();
        }
        Some(Moment::Local(local)) => note_local(event, local),
        Some(Moment::Day(day)) => {
            event.as_object_mut().and_then(|event| event.remove("timestamp"));
            event["date"] = day.to_string().into();
        }
        Some(Moment::At(_)) | None => {}
    }
}

/// Says of an event that its time was written without an offset.
pub(super) fn note_local(event: &mut Value, local: NaiveDateTime) {
    let (name, word) = TimePrecision::LOCAL;
    event["timestamp"] = local_text(local).into();
    event[name] = word.into();
}

/// A day with the clock time that stands apart from it.
fn with_clock(written: Value, record: &Value) -> Value {
    let moment = Moment::read(&written, chrono_tz::UTC).filter(|_| !written.is_number());
    match (moment, record.as_object()) {
        (Some(day @ Moment::Day(_)), Some(members)) => match day.with_clock(members) {
            Moment::Local(local) => local_text(local).into(),
            _ => written,
        },
        _ => written,
    }
}

/// The first value that names a time, or a day in words: `February 11, 2026`.
pub(super) fn written_time<'v>(values: impl Iterator<Item = &'v Value>, zone: Tz) -> Option<Value> {
    let mut values = values.filter_map(|value| {
        let day = || day_of_value(value.as_str()?, None).map(|day| day.to_string().into());
        if time(value, zone).is_some() { Some(value.clone()) } else { day() }
    });
    values.next()
}

/// The time of a record. One without an offset is on the clock of the zone.
pub(super) fn time(value: &Value, zone: Tz) -> Option<Timestamp> {
    let moment = Moment::read(value, zone)?;
    let written = value.as_str().and_then(|text| parse_instant(text.trim()).ok());
    // A leap second counts to the end of its minute.
    let written = written.filter(|instant| instant.has_offset);
    let ms = written.map_or_else(|| moment.event_millis(zone), |instant| instant.at.0);
    (ms >= 0).then_some(Timestamp(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::import::{TakenBack, take_back};
    use crate::os::real::HostDisk;

    #[test]
    fn an_item_of_a_feed_has_the_only_time_that_it_names() {
        let time_of = |member: &str| {
            let item = json!({"id": "1", "title": "Roof", "content_text": "It leaks.", member: "2026-02-11T10:00:00Z"});
            let found = event(&Mapping::feed(), "f.json", &item, Tz::UTC);
            let value = found.unwrap_or_else(|why| panic!("{member}: {why}")).1.value;
            (value["timestamp_ms"].clone(), value["timestamp"].clone())
        };
        for member in [
            "date_published",
            "date_modified",
            "dateModified",
            "updated",
            "updated_at",
            "created_at",
        ] {
            let expected = (1_770_804_000_000_i64.into(), "2026-02-11T10:00:00+00:00".into());
            assert_eq!(time_of(member), expected, "{member}");
        }
        let both = json!({"id": "1", "content_text": "It leaks.", "date_modified": "2026-03-01T10:00:00Z",
            "date_published": "2026-02-11T10:00:00Z"});
        let (at, _) = event(&Mapping::feed(), "f.json", &both, Tz::UTC).unwrap();
        assert_eq!(at.0, 1_770_804_000_000);
    }

    fn tree(disk: &dyn Disk, root: &Path) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        for folder in ["eventbus/daily", "eventbus/manifest"] {
            for name in disk.list(&root.join(folder)).unwrap() {
                let path = format!("{folder}/{name}");
                found.push((path.clone(), disk.read(&root.join(path)).unwrap()));
            }
        }
        found
    }

    /// More records than memory holds, of more days than files are kept open, in no order. Every record
    /// is imported once, however often and in whatever shape it comes.
    #[test]
    fn an_item_of_a_feed_keeps_its_other_members() {
        let item = json!({"id": "1", "title": "Pump", "url": "https://x.org/1", "date_published": "2026-02-11T10:00:00Z",
            "content_text": "It leaks.", "contentSnippet": "It leaks.", "price": 40, "stock": {"left": 2},
            "image": "https://x.org/p.png", "_extra": {"a": "b"}});
        let (_, read) = event(&Mapping::feed(), "f.json", &item, chrono_tz::UTC).unwrap();
        assert_eq!(read.value["content"], "It leaks.\n\nprice: 40; left: 2.");
    }

    #[test]
    fn a_large_file_is_taken_in_parts_and_only_once() {
        let dir = tempfile::tempdir().unwrap();
        let (lines, list) = (dir.path().join("f.jsonl"), dir.path().join("f.json"));
        let root = dir.path().join("buses");
        let disk: &dyn Disk = &HostDisk;
        let target = Target { disk, root: &root, zone: chrono_tz::UTC, now: Timestamp(0) };
        let rows: Vec<Value> = (0..300_i64)
            .map(|number| {
                let place = number * 77 % 300;
                let at = 1_770_768_000_000 + place % 7 * 86_400_000 + place;
                json!({"id": format!("r{place}"), "timestamp": at, "role": "user",
                    "content": "x".repeat(100)})
            })
            .collect();
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        disk.replace(&lines, text.as_bytes(), 0o640).unwrap();
        disk.replace(&list, json!({"items": rows}).to_string().as_bytes(), 0o640).unwrap();
        let run = |file: &Path| {
            let mut report = Report::default();
            let done = import_file(target, &Mapping::chat_export(), (file, None), &mut report);
            done.map(|()| report)
        };
        let first = run(&lines).unwrap();
        assert_eq!((first.added, first.known, first.partitions.len()), (300, 0, 7));
        let before = tree(disk, &root);
        assert_eq!(before.len(), 14, "nothing temporary is left");
        let mut ids = std::collections::BTreeSet::new();
        for (path, data) in before.iter().filter(|(path, _)| path.ends_with(".jsonl")) {
            let day = path.trim_start_matches("eventbus/daily/").trim_end_matches(".jsonl");
            let manifest = format!("eventbus/manifest/{day}.manifest.json");
            let manifest: Value =
                serde_json::from_slice(&disk.read(&root.join(manifest)).unwrap()).unwrap();
            assert_eq!(manifest["integrity"]["sha256"], sha256(data).hex());
            assert_eq!(manifest["integrity"]["bytes"], data.len());
            let rows = data.split(|byte| *byte == b'\n').filter(|row| !row.is_empty());
            let rows: Vec<Value> = rows.map(|row| serde_json::from_slice(row).unwrap()).collect();
            assert_eq!(manifest["counts"]["events_by_role"]["user"], rows.len());
            assert_eq!(manifest["integrity"]["lines"], rows.len());
            ids.extend(rows.iter().map(|row| row["event_id"].as_str().unwrap().to_owned()));
        }
        assert_eq!(ids.len(), 300);
        for file in [&lines, &list] {
            let again = run(file).unwrap();
            assert_eq!((again.added, again.known), (0, 300));
            assert_eq!(again.partitions, Vec::<String>::new());
            assert!(tree(disk, &root) == before);
        }
        // One that meets somebody else's day leaves nothing behind of what it had begun with.
        let theirs = root.join("eventbus/daily/2026-03-01.jsonl");
        disk.replace(&theirs, b"theirs\n", 0o640).unwrap();
        let before = tree(disk, &root);
        let more = "{\"id\":\"new\",\"timestamp\":1770768000000,\"content\":\"more\"}\n\
                    {\"id\":\"no\",\"timestamp\":1772323200000,\"content\":\"more\"}\n";
        disk.replace(&lines, more.as_bytes(), 0o640).unwrap();
        assert!(matches!(run(&lines), Err(ImportError::Foreign { .. })));
        assert!(tree(disk, &root) == before);
    }

    #[test]
    fn the_first_date_that_can_be_read_is_the_date_of_a_record() {
        let day = |record: Value| {
            let found = event(&Mapping::feed(), "f.json", &record, chrono_tz::UTC);
            let (at, event) = found.unwrap();
            assert_eq!(event.value["timestamp_ms"], at.0);
            assert_ne!(event.value["timestamp"], "soon");
            at.day_in(chrono_tz::UTC).to_string()
        };
        for dates in [
            json!({"date_published": "soon", "updated": "2026-02-11T10:00:00Z"}),
            json!({"date_published": null, "pubDate": "Wed, 11 Feb 2026 10:00:00 GMT"}),
            json!({"published": "February 11, 2026"}),
            json!({"date": "11 de febrero de 2026"}),
            json!({"date_published": "soon", "date": 1_770_804_000_000_i64}),
        ] {
            let mut record = json!({"id": "a", "content_text": "The bridge opens."});
            record.as_object_mut().unwrap().extend(dates.as_object().unwrap().clone());
            assert_eq!(day(record.clone()), "2026-02-11", "{record}");
        }
    }

    /// Imports messages as a file, each an id, a day of February 2026 and a text. Returns how many are new.
    fn import_messages(root: &Path, name: &str, messages: &[(&str, &str, &str)]) -> u64 {
        let file = root.join(name);
        let disk: &dyn Disk = &HostDisk;
        let buses = root.join("buses");
        let target = Target { disk, root: &buses, zone: chrono_tz::UTC, now: Timestamp(0) };
        let rows = messages.iter().map(|(id, day, text)| {
            let at = format!("2026-02-{day}T10:00:00Z");
            format!("{}\n", json!({"id": id, "timestamp": at, "text": text}))
        });
        disk.replace(&file, rows.collect::<String>().as_bytes(), 0o640).unwrap();
        let mut report = Report::default();
        import_file(target, &Mapping::chat_export(), (&file, None), &mut report).unwrap();
        report.added
    }

    #[test]
    fn ids_that_count_from_one_each_day_name_the_same_messages_in_a_longer_export() {
        let dir = tempfile::tempdir().unwrap();
        let (pump, roof) = (("1", "13", "The pump is broken."), ("1", "12", "The roof leaks."));
        assert_eq!(import_messages(dir.path(), "f.jsonl", &[pump]), 1);
        for (name, messages, added) in [
            ("f.jsonl", &[roof, pump][..], 1),
            ("f.jsonl", &[pump, roof], 0),
            ("longer.jsonl", &[roof, pump], 0),
            ("f.jsonl", &[roof], 0),
            ("f.jsonl", &[pump], 0),
        ] {
            assert_eq!(import_messages(dir.path(), name, messages), added, "{name} {messages:?}");
        }
    }

    #[test]
    fn a_text_that_was_taken_back_does_not_come_again_when_another_day_had_its_id_first() {
        let dir = tempfile::tempdir().unwrap();
        let (pump, roof) = (("1", "11", "The pump is broken."), ("1", "12", "The roof leaks."));
        assert_eq!(import_messages(dir.path(), "a.jsonl", &[pump]), 1);
        assert_eq!(import_messages(dir.path(), "b.jsonl", &[roof]), 1);
        let (disk, buses): (&dyn Disk, _) = (&HostDisk, dir.path().join("buses"));
        let target = Target { disk, root: &buses, zone: chrono_tz::UTC, now: Timestamp(0) };
        let files = ["a.jsonl", "b.jsonl"].map(str::to_owned).into();
        assert_eq!(take_back(target, &TakenBack { files, ..TakenBack::default() }).unwrap(), 2);
        assert_eq!(import_messages(dir.path(), "b.jsonl", &[roof]), 0);
        assert_eq!(import_messages(dir.path(), "b.jsonl", &[("1", "12", "The roof is new.")]), 1);
    }

    #[test]
    fn each_version_of_an_item_names_the_first_one_also_that_of_another_day() {
        let dir = tempfile::tempdir().unwrap();
        let (file, root) = (dir.path().join("feed.json"), dir.path().join("buses"));
        let disk: &dyn Disk = &HostDisk;
        let target = Target { disk, root: &root, zone: chrono_tz::UTC, now: Timestamp(0) };
        for (day, text) in [("11", "It opens."), ("12", "It opens soon."), ("12", "It is open.")] {
            let at = format!("2026-02-{day}T10:00:00Z");
            let item =
                json!({"id": "a", "date_published": at, "content_text": text, "feed": "Town"});
            disk.replace(&file, item.to_string().as_bytes(), 0o640).unwrap();
            let mut report = Report::default();
            import_file(target, &Mapping::feed(), (&file, None), &mut report).unwrap();
            assert_eq!((report.added, report.ids_repeated), (1, 0), "{text}");
        }
        let later = disk.read(&root.join("eventbus/daily/2026-02-12.jsonl")).unwrap();
        let later = later.split(|byte| *byte == b'\n').filter(|row| !row.is_empty());
        let firsts = later.map(|row| {
            let row: Value = serde_json::from_slice(row).unwrap();
            row["source"]["version_of"].clone()
        });
        assert_eq!(firsts.collect::<Vec<_>>(), ["a", "a"]);
    }

    #[test]
    fn records_that_share_a_name_and_tell_of_other_things_are_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        let ids = |mapping: &Mapping, rows: &[Value]| {
            let file = dir.path().join("f.json");
            let text = json!({"items": rows}).to_string();
            let disk: &dyn Disk = &HostDisk;
            disk.replace(&file, text.as_bytes(), 0o640).unwrap();
            let mut ids = Vec::new();
            each_event(disk, chrono_tz::UTC, mapping, &file, "f.json", &mut |_, event| {
                ids.push(event.unwrap().1.id);
                Ok(())
            })
            .unwrap();
            let all = ids.len();
            ids.sort();
            ids.dedup();
            (all, ids.len())
        };
        let item = |title: &str, date: &str| json!({"title": title, "url": "https://x.example/status", "date_published": date, "content_text": title});
        let items = [
            item("Login is down", "2026-11-04T10:00:00Z"),
            item("Login works again", "2026-11-05T10:00:00Z"),
            item("Mail is slow", "2026-11-05T10:00:00Z"),
        ];
        assert_eq!(ids(&Mapping::feed(), &items), (3, 3));
        let message = |at: &str| json!({"id": "1", "timestamp": at, "role": "user", "content": at});
        let messages = [
            "2026-11-04T10:00:00Z",
            "2026-11-04T10:00:01Z",
            "2026-11-05T10:00:00Z",
            "2026-11-05T10:00:01Z",
        ];
        assert_eq!(ids(&Mapping::chat_export(), &messages.map(message)), (4, 4));
    }

    #[test]
    fn two_days_do_not_share_an_id_and_the_import_says_that_ids_repeat() {
        let dir = tempfile::tempdir().unwrap();
        let (file, root) = (dir.path().join("f.jsonl"), dir.path().join("buses"));
        let disk: &dyn Disk = &HostDisk;
        let target = Target { disk, root: &root, zone: chrono_tz::UTC, now: Timestamp(0) };
        let row = |id: &str, day: &str, channel: &str, text: &str| {
            json!({"id": id, "timestamp": format!("2026-02-{day}T10:00:00Z"), "text": text,
                "conversation_id": channel})
        };
        let rows = [
            row("1", "11", "a", "The pump is broken."),
            row("1", "12", "a", "The roof leaks."),
            row("2", "12", "a", "The roof is new."),
            row("2", "12", "b", "The door is new."),
            row("3", "12", "b", "The key is old."),
        ];
        disk.replace(&file, rows.map(|row| format!("{row}\n")).concat().as_bytes(), 0o640).unwrap();
        let run = || {
            let mut report = Report::default();
            import_file(target, &Mapping::chat_export(), (&file, None), &mut report).unwrap();
            report
        };
        let report = run();
        assert_eq!((report.added, report.ids_repeated), (5, 2));
        let first = "f.jsonl:2: line 1 has the id `1` too";
        assert_eq!(report.id_repeated.as_deref(), Some(first));
        let mut ids = std::collections::BTreeSet::new();
        for (path, data) in tree(disk, &root).into_iter().filter(|(path, _)| path.ends_with("l")) {
            for row in data.split(|byte| *byte == b'\n').filter(|row| !row.is_empty()) {
                let row: Value = serde_json::from_slice(row).unwrap();
                assert!(ids.insert(row["event_id"].as_str().unwrap().to_owned()), "{path}: {row}");
            }
        }
        assert_eq!((run().added, ids.len()), (0, 5));
        // Another file with the same ids, on a day of its own.
        let rows =
            [row("1", "13", "a", "The well is dry."), row("3", "12", "b", "The key is old.")];
        let text = rows.map(|row| format!("{row}\n")).concat();
        disk.replace(&file, text.as_bytes(), 0o640).unwrap();
        let report = run();
        assert_eq!((report.added, report.known, report.ids_repeated), (1, 1, 1));
        let first = "f.jsonl: a text of 2026-02-11 has the id `1` too";
        assert_eq!(report.id_repeated.as_deref(), Some(first));
        let again = run();
        assert_eq!((again.added, again.known, again.ids_repeated), (0, 2, 0));
    }
}
