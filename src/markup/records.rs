//! Files that hold a list: each item is a source of its own.
//!
//! Contract: `docs/source-text-hash.md` specifies which files are lists, the items of a list and the
//! text of each. A list knows the place of its items and no more; an item is read when it is needed.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::html;
use super::marks::{Marks, in_text};
use super::members::{TIMES, add_people, authors, beyond_context, folded, names_speaker, speakers};
use crate::contract::publish;

/// Members that hold the whole text of a record, the first that has words counts.
const TEXTS: [&str; 5] = ["content_text", "text", "content", "body", "content_html"];
/// The member of a record that holds the messages of a conversation.
pub(crate) const MESSAGES: &str = "messages";
/// Members of a message that hold its words.
const WORDS: [&str; 5] = ["text", "content", "message", "body", "value"];
/// Members of a conversation that say something of all of it.
const NOTES: [&str; 6] = ["notes", "note", "comment", "comments", "summary", "description"];
/// Members that name a record.
const IDS: [&str; 4] = ["id", "_id", "guid", "uuid"];
/// Longest id of a record that is used, in bytes. A longer one is no name.
const ID_BYTES_MAX: usize = 200;
/// A longer list of numbers is no fact that a person wrote.
const NUMBERS_MAX: usize = 16;
/// Levels of a value nested too deep that are looked at one by one.
const LEVELS_KEPT: usize = 16;
/// The member of an item that names its feed.
pub(crate) const FEED: &str = "feed";
/// Members of a JSON Feed that tell its name.
pub(crate) const OF_FEEDS: [&str; 2] = ["version", "title"];
/// Members of a JSON Feed that name its authors, in the newer and the older form.
pub(crate) const AUTHORS_OF_FEEDS: [&str; 2] = ["authors", "author"];
/// The first words of the version of a JSON Feed.
const JSON_FEED: &str = "https://jsonfeed.org/version/";

/// Kinds of files that are always lists, and `json`, which may be one.
pub(crate) const LIST_KINDS: [&str; 5] = ["json", "jsonl", "ndjson", "csv", "tsv"];

/// The place of one item in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    pub bytes: Range<usize>,
    /// From 1.
    pub line: u64,
}

/// How the items of a list are written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Json,
    /// Cells under these names, with this sign between them.
    Rows {
        names: Vec<String>,
        /// Where the names stand.
        head: Option<Slot>,
        delimiter: char,
    },
}

/// A file that holds a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List {
    shape: Shape,
    pub slots: Vec<Slot>,
    /// Whether the list as a whole may be shown to others.
    pub publish: Option<bool>,
    /// What the list as a whole says to rules about data.
    marks: Box<Marks>,
    /// The name of a feed.
    feed: Option<String>,
    /// The authors of a feed, for its items that name none.
    feed_authors: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    /// The name it gives itself.
    pub id: Option<String>,
    /// All that it says, before normalization.
    pub text: String,
    /// The text of the one member that holds it, where there is such a member. It names a record without an id.
    pub own_text: Option<String>,
    /// The members beside such a text that say more than its context.
    pub facts: Vec<String>,
    /// Its members, in the order of the file.
    pub members: Map<String, Value>,
}

impl List {
    /// Reads the outline of a file of one of [`LIST_KINDS`]; `None` when it holds no list.
    pub(crate) fn of(kind: &str, text: &str) -> Result<Option<List>, String> {
        match kind {
            "json" => Ok(json_list(text)),
            "jsonl" | "ndjson" => json_lines(text).map(Some),
            "csv" | "tsv" => Ok(Some(rows(kind, text))),
            _ => Ok(None),
        }
    }

    /// JSON values of which nothing is said as a whole.
    fn of_values(slots: Vec<Slot>) -> List {
        let (publish, marks, feed, feed_authors) = (None, Box::default(), None, None);
        List { shape: Shape::Json, slots, publish, marks, feed, feed_authors }
    }

    /// A file that is one conversation, as a list with this item; `None` where it is something else.
    pub(crate) fn of_conversation(text: &str) -> Option<List> {
        let record = value_of(text)?;
        conversation(record.as_object()?)?;
        let start = text.len() - text.trim_start().len();
        let line = text[..start].matches('\n').count() as u64 + 1;
        let slots = vec![Slot { bytes: start..text.trim_end().len(), line }];
        Some(List::of_values(slots))
    }

    /// Whether its items are JSON values.
    pub(crate) fn is_json(&self) -> bool {
        self.shape == Shape::Json
    }

    /// The names of the columns of a table, and the cells of its first rows.
    pub(crate) fn begin(&self, text: &str, count: usize) -> Option<(&[String], Vec<Vec<String>>)> {
        let Shape::Rows { names, delimiter, .. } = &self.shape else { return None };
        let slots = self.slots.iter().take(count);
        let rows = slots.map(|slot| cells(&text[slot.bytes.clone()], *delimiter).cells);
        Some((names, rows.collect()))
    }

    /// The same table, where its first row is an item and names nothing.
    pub(crate) fn without_names(mut self) -> List {
        if let Shape::Rows { names, head, .. } = &mut self.shape {
            names.clear();
            self.slots.splice(0..0, head.take());
        }
        self
    }

    /// Reads one item again.
    pub(crate) fn record(&self, text: &str, slot: &Slot) -> Record {
        let mut record = self.own_record(text, slot);
        if self.marks.local_only || !self.marks.filed_under.is_empty() {
            Marks::clone(&self.marks).keep_in(&mut record.members);
        }
        record
    }

    fn own_record(&self, text: &str, slot: &Slot) -> Record {
        let raw = &text[slot.bytes.clone()];
        match &self.shape {
            Shape::Json => {
                let mut record = json_record(raw);
                if let Some(feed) = &self.feed
                    && !record.members.is_empty()
                {
                    record.members.entry(FEED).or_insert_with(|| feed.as_str().into());
                }
                if let Some(names) = &self.feed_authors
                    && !record.members.is_empty()
                    && authors(&record.members).next().is_none()
                {
                    record.members.insert("authors".to_owned(), names.clone());
                }
                record
            }
            Shape::Rows { names, delimiter, .. } => {
                let cells = cells(raw, *delimiter).cells;
                let named = |(at, cell): (usize, String)| {
                    let name = names.get(at).filter(|name| !name.is_empty()).cloned();
                    (name.unwrap_or_else(|| format!("column {}", at + 1)), Shown::Words(cell))
                };
                record_of(cells.into_iter().enumerate().map(named).collect())
            }
        }
    }
}

/// A value as text: words, or JSON as it is written.
enum Shown {
    Words(String),
    Json(String),
}

impl Shown {
    fn words(&self) -> &str {
        match self {
            Shown::Words(text) | Shown::Json(text) => text,
        }
    }

    fn value(&self) -> Value {
        match self {
            Shown::Words(text) => text.as_str().into(),
            Shown::Json(text) => value_of(text).unwrap_or_default(),
        }
    }

    /// `None` where there is nothing to show.
    fn of(raw: &RawValue) -> Option<Shown> {
        let raw = raw.get();
        if let Ok(text) = serde_json::from_str::<String>(raw) {
            return Some(Shown::Words(text));
        }
        if let Ok(list) = serde_json::from_str::<Vec<String>>(raw) {
            return Some(Shown::Words(list.join(", ")));
        }
        let compact = without_blanks(raw);
        (!matches!(compact.as_str(), "null" | "[]" | "{}")).then_some(Shown::Json(compact))
    }
}

/// JSON without the white space outside its strings.
fn without_blanks(raw: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::with_capacity(raw.len()), false, false);
    for c in raw.chars() {
        if !in_string && matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        in_string ^= c == '"' && !escaped;
        escaped = in_string && c == '\\' && !escaped;
        out.push(c);
    }
    out
}

pub(crate) fn json_record(raw: &str) -> Record {
    let Ok(Members(members)) = serde_json::from_str::<Members<'_>>(raw) else {
        let shown = serde_json::from_str::<&RawValue>(raw).ok().and_then(Shown::of);
        let text = shown.map(|shown| shown.words().to_owned()).unwrap_or_default();
        return Record { own_text: Some(text.clone()), text, ..Record::default() };
    };
    // A list of words is shown as one text; its context needs the list.
    let values = value_of(raw).and_then(|value| value.as_object().cloned()).unwrap_or_default();
    let pairs = members.into_iter().filter_map(|(name, raw)| Some((name, Shown::of(raw)?)));
    Record { members: values, ..record_of(pairs.collect()) }
}

/// A message of a conversation that is one record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    /// Its place in the list, from 1; 0 for what is said of the whole conversation.
    pub number: usize,
    pub text: String,
    /// What is known of it: its own members, and those of the conversation that hold for each of its messages.
    pub members: Map<String, Value>,
}

/// The messages of a record that is a conversation; `None` where it is something else. A message without words is none.
pub(crate) fn conversation(record: &Map<String, Value>) -> Option<Vec<Message>> {
    let of_text = |name: &str| record.keys().any(|key| key.eq_ignore_ascii_case(name));
    if TEXTS.iter().any(|name| of_text(name)) {
        return None;
    }
    let all = record.get(MESSAGES)?.as_array()?;
    if !all.iter().all(Value::is_object) {
        return None;
    }
    let is_own = |name: &str| WORDS.contains(&name) || is_time(name) || NOTES.contains(&name);
    let common = record.iter().filter(|(name, _)| {
        let name = name.to_ascii_lowercase();
        name != MESSAGES
            && !IDS.contains(&name.as_str())
            && !is_own(&name)
            // The name of a conversation is its title.
            && (name == "name" || !names_speaker(&name))
    });
    let common: Map<String, Value> =
        common.map(|(name, one)| (name.clone(), one.clone())).collect();
    let times = |members: &Map<String, Value>| {
        let own = members.iter().filter(|(name, one)| is_time(name) && !one.is_null());
        own.map(|(name, one)| (name.clone(), one.clone())).collect::<Map<String, Value>>()
    };
    // The time of the conversation is that of its messages only where none says when it was sent.
    let of_record = times(record);
    let first = all.iter().filter_map(Value::as_object).map(&times).find(|time| !time.is_empty());
    let mut found = Vec::new();
    let notes =
        NOTES.iter().filter_map(|name| Some(format!("{name}: {}", said(record.get(*name)?)?)));
    let notes = notes.collect::<Vec<_>>().join("\n");
    let dated = |time: Map<String, Value>| {
        let mut members = common.clone();
        members.extend(time);
        members
    };
    if !notes.is_empty() {
        let time = first.clone().unwrap_or_else(|| of_record.clone());
        found.push(Message { number: 0, text: notes, members: dated(time) });
    }
    for (message, number) in all.iter().filter_map(Value::as_object).zip(1..) {
        let Some(text) = WORDS.iter().find_map(|name| said(message.get(*name)?)) else { continue };
        let author = speakers(message).next();
        let own = message.iter().filter(|(name, _)| {
            !is_own(name) && !names_speaker(name) && !IDS.contains(&name.as_str())
        });
        let mut members = dated(if first.is_some() { times(message) } else { of_record.clone() });
        members.extend(own.map(|(name, one)| (name.clone(), one.clone())));
        members.extend(author.map(|author| ("author".to_owned(), author.into())));
        add_people(&mut members, speakers(message));
        found.push(Message { number, text, members });
    }
    found.iter().any(|one| one.number > 0).then_some(found)
}

/// Whether a member holds a time.
fn is_time(name: &str) -> bool {
    TIMES.contains(&folded(name).as_str())
}

/// The texts of the pieces of a message. Some programs cut a line where a link or a bold word begins: these pieces
/// follow one another. Other pieces are paragraphs.
pub(crate) fn joined_pieces(pieces: &[Value]) -> String {
    let texts = pieces.iter().filter_map(|piece| piece.as_str().or(piece["text"].as_str()));
    let is_line = pieces.iter().filter(|piece| piece["text"].is_string()).any(|piece| {
        let kind = piece["type"].as_str();
        kind.is_some_and(|kind| !kind.ends_with("text"))
    });
    texts.collect::<Vec<_>>().join(if is_line { "" } else { "\n" })
}

/// Words in a value: a text, the name in an object, or the texts in the parts of a list.
fn said(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => members.get("name")?.as_str()?.to_owned(),
        Value::Array(parts) => joined_pieces(parts),
        _ => return None,
    };
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn record_of(pairs: Vec<(String, Shown)>) -> Record {
    let has_words = |shown: &Shown| !shown.words().trim().is_empty();
    let words_of = |wanted: &str| {
        let mut named = pairs.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.find_map(|(_, shown)| match shown {
            Shown::Words(text) if has_words(shown) => Some(text.as_str()),
            _ => None,
        })
    };
    let whole = TEXTS.iter().find_map(|name| words_of(name).map(|text| (*name, text)));
    let own_text = whole.map(|(name, text)| match name {
        "content_html" => html::page(text).text,
        _ => text.to_owned(),
    });
    let is_own = |name: &str| whole.is_some_and(|(own, _)| name.eq_ignore_ascii_case(own));
    let beside: Vec<&(String, Shown)> =
        pairs.iter().filter(|(name, shown)| has_words(shown) && !is_own(name)).collect();
    let kept = match whole {
        Some(_) => facts_of(&beside),
        None => beside,
    };
    let lines: Vec<String> =
        kept.iter().map(|(name, shown)| format!("{name}: {}", shown.words())).collect();
    let parts = [own_text.clone().unwrap_or_default(), lines.join("\n")];
    let parts = parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty());
    let text = parts.collect::<Vec<_>>().join("\n\n");
    let facts = match whole {
        Some(_) => kept.iter().map(|(name, _)| name.clone()).collect(),
        None => Vec::new(),
    };
    let id = IDS.iter().find_map(|wanted| {
        let named = pairs.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.map(|(_, shown)| shown).filter(|shown| names(shown)).map(|shown| shown.words().trim())
    });
    let id = id.map(str::to_owned);
    let mut members = Map::new();
    for (name, shown) in &pairs {
        // Of two columns with one name both are kept: `phone`, `phone 2`.
        let further = (2..).map(|number| format!("{name} {number}"));
        let mut free = std::iter::once(name.clone()).chain(further);
        if let Some(free) = free.find(|name| !members.contains_key(name)) {
            members.insert(free, shown.value());
        }
    }
    Record { id, text, own_text, facts, members }
}

/// What members say beside the text of their record, except its context and what is no words.
fn facts_of<'p>(beside: &[&'p (String, Shown)]) -> Vec<&'p (String, Shown)> {
    let is_words = |shown: &Shown| matches!(shown, Shown::Words(_));
    let named: Vec<(&str, bool)> =
        beside.iter().map(|(name, shown)| (name.as_str(), is_words(shown))).collect();
    let told = beside.iter().zip(beyond_context(&named));
    told.filter(|(pair, is_fact)| *is_fact && !is_vector(&pair.1)).map(|(pair, _)| *pair).collect()
}

/// Whether a value is a long list of numbers, such as the place of a text in a model.
fn is_vector(shown: &Shown) -> bool {
    let Shown::Json(json) = shown else { return false };
    serde_json::from_str::<Vec<serde_json::Number>>(json)
        .is_ok_and(|numbers| numbers.len() > NUMBERS_MAX)
}

/// Whether a value can name its record: a short text on one line, or a whole number.
fn names(shown: &Shown) -> bool {
    let text = shown.words().trim();
    let is_short = !text.is_empty() && text.len() <= ID_BYTES_MAX;
    is_short
        && match shown {
            Shown::Words(_) => !text.contains(char::is_control),
            Shown::Json(_) => {
                text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit())
            }
        }
}

/// A JSON value. Of one that is nested deeper than the reader allows, the deep parts are null and the
/// rest is kept: a mark as private must not get lost beside them. `None`: it is no JSON.
pub(crate) fn value_of(text: &str) -> Option<Value> {
    fn part(raw: &str, levels: usize) -> Value {
        if let Ok(value) = serde_json::from_str(raw) {
            return value;
        }
        let Some(levels) = levels.checked_sub(1) else { return Value::Null };
        if let Ok(Members(members)) = serde_json::from_str(raw) {
            let members = members.into_iter();
            return Value::Object(
                members.map(|(name, raw)| (name, part(raw.get(), levels))).collect(),
            );
        }
        let items = serde_json::from_str::<Vec<&RawValue>>(raw).unwrap_or_default();
        Value::Array(items.into_iter().map(|raw| part(raw.get(), levels)).collect())
    }
    serde_json::from_str::<&RawValue>(text).ok().map(|raw| part(raw.get(), LEVELS_KEPT))
}

/// The members of an object in the order of the file, as they are written.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// The array that is the whole file, or the items of a JSON Feed.
fn json_list(text: &str) -> Option<List> {
    let list = |items: Vec<&RawValue>, publish, feed| {
        let mut lines = LineCounter::default();
        let slot = |raw: &RawValue| {
            // A raw value is a part of the text it was read from.
            let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
            Slot { bytes: start..start + raw.get().len(), line: lines.at(text, start) }
        };
        let slots = items.into_iter().map(slot).collect();
        List { publish, feed, ..List::of_values(slots) }
    };
    if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text) {
        return Some(list(items, None, None));
    }
    let Members(members) = serde_json::from_str(text).ok()?;
    let member = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, raw)| raw);
    let version: String = serde_json::from_str(member("version")?.get()).ok()?;
    let items = serde_json::from_str::<Vec<&RawValue>>(member("items")?.get()).ok()?;
    let others = members.iter().filter(|(name, _)| name != "items");
    let read = |raw: &RawValue| value_of(raw.get()).unwrap_or_default();
    let said = others.map(|(name, raw)| (name.clone(), read(raw))).collect();
    let (feed, feed_authors) = (feed_name(&said), feed_authors(&said).cloned());
    let mut marks = Box::<Marks>::default();
    marks.members(&said);
    let list = || List { feed_authors, marks, ..list(items, publish::said_by_record(&said), feed) };
    version.starts_with(JSON_FEED).then(list)
}

/// The name of a JSON Feed, by the members beside its items; `None` where they are no feed's.
pub(crate) fn feed_name(members: &Map<String, Value>) -> Option<String> {
    let title = members.get("title").and_then(Value::as_str).map(str::trim);
    let title = title.filter(|title| is_feed(members) && !title.is_empty());
    title.map(str::to_owned)
}

/// The authors of a JSON Feed, by the members beside its items, in the newer and the older form.
pub(crate) fn feed_authors(members: &Map<String, Value>) -> Option<&Value> {
    AUTHORS_OF_FEEDS.iter().find_map(|name| members.get(*name)).filter(|_| is_feed(members))
}

/// Whether these members beside a list of items are those of a JSON Feed.
pub(crate) fn is_feed(members: &Map<String, Value>) -> bool {
    let version = members.get("version").and_then(Value::as_str).map(str::trim);
    version.is_some_and(|version| version.starts_with(JSON_FEED))
}

fn json_lines(text: &str) -> Result<List, String> {
    let (mut slots, mut start) = (Vec::new(), 0);
    for (line, whole) in (1..).zip(text.split('\n')) {
        let inner = whole.trim_matches([' ', '\t', '\r']);
        if !inner.is_empty() {
            serde_json::from_str::<&RawValue>(inner).map_err(|error| {
                // The place that the parser names is one within this line.
                let (what, column) = (error.to_string(), error.column());
                let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
                format!("line {line} is not JSON: {what} at column {column}")
            })?;
            let lead = inner.as_ptr() as usize - whole.as_ptr() as usize;
            let bytes = start + lead..start + lead + inner.len();
            slots.push(Slot { bytes, line });
        }
        start += whole.len() + 1;
    }
    Ok(List::of_values(slots))
}

/// Rows of cells; the first row has the names.
fn rows(kind: &str, text: &str) -> List {
    let delimiter = match kind {
        "tsv" => '\t',
        _ => delimiter_of(text),
    };
    let (mut at, mut names, mut head, mut slots) = (0, Vec::new(), None, Vec::new());
    let mut lines = LineCounter::default();
    while at < text.len() {
        let Row { cells, len, .. } = cells(&text[at..], delimiter);
        let is_empty = cells.iter().all(|cell| cell.trim().is_empty());
        let slot = Slot { bytes: at..at + len, line: lines.at(text, at) };
        match (&head, is_empty) {
            (_, true) => {}
            (None, _) => {
                names = cells.iter().map(|cell| cell.trim().to_owned()).collect();
                head = Some(slot);
            }
            (Some(_), _) => slots.push(slot),
        }
        at += len;
    }
    let shape = Shape::Rows { names, head, delimiter };
    let marks = Box::new(in_text(kind, text));
    List { shape, slots, publish: marks.publish, marks, feed: None, feed_authors: None }
}

/// The sign that stands most often between the cells of the first row.
fn delimiter_of(text: &str) -> char {
    let (mut counts, mut quoted) = ([0; 3], false);
    const SIGNS: [char; 3] = [',', ';', '\t'];
    for c in text.trim_start_matches(['\r', '\n']).chars() {
        match c {
            '"' => quoted = !quoted,
            '\n' | '\r' if !quoted => break,
            _ if !quoted => {
                if let Some(at) = SIGNS.iter().position(|sign| *sign == c) {
                    counts[at] += 1;
                }
            }
            _ => {}
        }
    }
    let most = counts.iter().max().copied().unwrap_or_default();
    let first = counts.iter().position(|count| *count == most).unwrap_or_default();
    SIGNS[first]
}

/// One row of a table.
struct Row {
    cells: Vec<String>,
    /// The bytes that it takes with its end.
    len: usize,
    /// The byte at which a quote begins that nothing ends.
    open_quote: Option<usize>,
}

/// The line of a table at which a quote begins that nothing ends, so that the rest of the table is one cell.
pub(crate) fn line_of_open_quote(kind: &str, text: &str) -> Option<u64> {
    let List { shape: Shape::Rows { head, delimiter, .. }, slots, .. } = rows(kind, text) else {
        return None;
    };
    let last = slots.last().or(head.as_ref())?;
    let row = &text[last.bytes.clone()];
    let open = cells(row, delimiter).open_quote?;
    Some(last.line + row[..open].matches('\n').count() as u64)
}

/// The cells of the first row of a text.
fn cells(text: &str, delimiter: char) -> Row {
    let (mut all, mut cell, mut quoted, mut quote) = (Vec::new(), String::new(), false, 0);
    let mut begins = true;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if quoted {
            match c {
                '"' if chars.next_if(|(_, next)| *next == '"').is_some() => cell.push('"'),
                '"' => quoted = false,
                _ => cell.push(c),
            }
            continue;
        }
        match c {
            '"' if begins => (quoted, quote) = (true, at),
            '\n' | '\r' => {
                let pair = c == '\r' && chars.next_if(|(_, next)| *next == '\n').is_some();
                all.push(cell);
                return Row { cells: all, len: at + 1 + usize::from(pair), open_quote: None };
            }
            _ if c == delimiter => {
                all.push(std::mem::take(&mut cell));
                begins = true;
                continue;
            }
            _ => cell.push(c),
        }
        begins = false;
    }
    all.push(cell);
    Row { cells: all, len: text.len(), open_quote: quoted.then_some(quote) }
}

/// Gives the line number of a byte position. Each position must be at least as large as the one before.
#[derive(Default)]
struct LineCounter {
    at: usize,
    before: u64,
}

impl LineCounter {
    fn at(&mut self, text: &str, place: usize) -> u64 {
        let between = &text.as_bytes()[self.at..place];
        self.before += between.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = place;
        self.before + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, text: &str) -> Vec<(u64, Option<String>, String)> {
        let list = List::of(kind, text).unwrap().unwrap();
        let read = |slot: &Slot| {
            let record = list.record(text, slot);
            (slot.line, record.id, record.text)
        };
        list.slots.iter().map(read).collect()
    }

    #[test]
    fn each_item_of_an_array_has_its_place_name_and_text() {
        let text = "[\n {\"id\": 7, \"title\": \"T\", \"n\": 1.50, \"tags\": [\"a\", \"b\"]},\n \"x\", null,\n {\"guid\": \"g\", \"Text\": \"body\"}]";
        let expected = [
            (2, Some("7".to_owned()), "id: 7\ntitle: T\nn: 1.50\ntags: a, b".to_owned()),
            (3, None, "x".to_owned()),
            (3, None, String::new()),
            (4, Some("g".to_owned()), "body".to_owned()),
        ];
        assert_eq!(read("json", text), expected);
        assert_eq!(List::of("json", "{\"items\": [1]}"), Ok(None), "one object is no list");
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        let nested = format!("[{{\"private\": true, \"text\": \"A\", \"x\": {deep}}}]");
        let list = List::of("json", &nested).unwrap().unwrap();
        let record = list.record(&nested, &list.slots[0]);
        let own_text = record.own_text.as_deref();
        assert_eq!((own_text, &record.members["private"]), (Some("A"), &Value::Bool(true)));
        assert_eq!(value_of("[1,"), None);
        let feed = "{\"version\": \"https://jsonfeed.org/version/1.1\", \"private\": true, \"items\": [{\"content_html\": \"<p>A<p>B\"}]}";
        assert_eq!(read("json", feed)[0].2, "A\n\nB");
        assert_eq!(List::of("json", feed).unwrap().unwrap().publish, Some(false));
        let author = |head: &str, item: &str| {
            let text = format!(
                "{{\"version\": \"https://jsonfeed.org/version/1.1\", {head}, \"items\": [{{\"text\": \"A\"{item}}}]}}"
            );
            let list = List::of("json", &text).unwrap().unwrap();
            let members = list.record(&text, &list.slots[0]).members;
            authors(&members).next().unwrap().to_string()
        };
        let (ana, bo) = ("\"authors\": [{\"name\": \"Ana\"}]", ", \"author\": {\"name\": \"Bo\"}");
        assert!(author(ana, "").contains("Ana") && author(ana, bo).contains("Bo"));
        let nested = feed.replace("\"private\": true", "\"_meta\": {\"private\": true}");
        assert_eq!(List::of("json", &nested).unwrap().unwrap().publish, Some(false));
    }

    #[test]
    fn lines_that_are_not_json_are_refused_by_number() {
        assert_eq!(
            read("jsonl", "\r\n{\"a\": {\"b\": \" \"}}\r\n\n[1, 2]"),
            [(2, None, "a: {\"b\":\" \"}".to_owned()), (4, None, "[1,2]".to_owned()),]
        );
        assert!(List::of("ndjson", "{}\nno").unwrap_err().contains("line 2"));
    }

    #[test]
    fn rows_have_the_names_of_the_first_row() {
        let text = "Name;\"No;te\"\r\nAna;\"said \"\"hi\"\"\nand left\"\r\n\r\n;\r\nBo;x;more\n";
        assert_eq!(
            read("csv", text),
            [
                (2, None, "Name: Ana\nNo;te: said \"hi\"\nand left".to_owned()),
                (6, None, "Name: Bo\nNo;te: x\ncolumn 3: more".to_owned()),
            ]
        );
        assert_eq!(read("csv", ""), []);
        assert_eq!(read("tsv", "id\ttext\n1\ta,b")[0], (2, Some("1".to_owned()), "a,b".to_owned()));
        for (text, line) in [
            ("name,note\nAna,\"fine\"\n", None),
            ("name,note\nAna,\"it leaks\nBo,a pump\n", Some(2)),
            ("name,note\nAna,\"a\nb\"\nBo,\"c\nCi,d\n", Some(4)),
            ("name,\"note\nAna,x\n", Some(1)),
            ("name,note\nAna,12\" pipe\n", None),
        ] {
            assert_eq!(line_of_open_quote("csv", text), line, "{text}");
        }
        // Of two columns with one name none is lost.
        let text = "name,phone,phone\nAna,1,2\n";
        let list = List::of("csv", text).unwrap().unwrap();
        let record = list.record(text, &list.slots[0]);
        assert_eq!(record.text, "name: Ana\nphone: 1\nphone: 2");
        assert_eq!(
            (&record.members["phone"], &record.members["phone 2"]),
            (&"1".into(), &"2".into())
        );
    }
}
