//! Records of any shape to events, by naming their fields: chat exports, feeds, JSON lines.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::{ImportError, NewRecord, Rejected, Report, Target, append_events, name_of, read};
use crate::contract::hash::sha256;
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::{Day, Timestamp, parse_instant};
use crate::upstream::markup::html_to_text;

/// Which fields of a record mean what. Each is a list of dotted paths; the first that is there
/// counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// What the source is called in provenance.
    pub source_system: String,
    /// The id; a stable one is derived where there is none.
    pub id: Vec<String>,
    /// The time: milliseconds, seconds, ISO 8601 or RFC 2822.
    pub time: Vec<String>,
    /// The text.
    pub text: Vec<String>,
    /// The title.
    pub title: Vec<String>,
    /// Who spoke.
    pub role: Vec<String>,
    /// The conversation.
    pub conversation: Vec<String>,
    /// `event_kind` and `event_subkind` of every record; chat turns derive theirs from the role.
    pub kind: Option<(String, String)>,
    /// Whether texts are HTML.
    pub html: bool,
}

fn paths(list: &[&str]) -> Vec<String> {
    list.iter().map(|path| (*path).to_owned()).collect()
}

impl Mapping {
    /// Day files of chat events.
    pub fn chat_export() -> Mapping {
        Mapping {
            source_system: "chatgpt_export".to_owned(),
            id: paths(&["event_id", "id", "meta.message_id"]),
            time: paths(&["timestamp_ms", "timestamp", "ts_abs_ms", "ts_abs", "create_time"]),
            text: paths(&["content", "text"]),
            title: paths(&["title", "meta.title"]),
            role: paths(&["role", "author.role"]),
            conversation: paths(&["conversation_id", "meta.conversation_id"]),
            kind: None,
            html: false,
        }
    }

    /// Feed items as JSON.
    pub fn feed() -> Mapping {
        Mapping {
            source_system: "rss".to_owned(),
            id: paths(&["id", "guid", "guid.value", "link", "url"]),
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
        }
    }
}

/// Imports one file: JSON lines, one JSON array, or an object with a list of items.
pub fn import_file(
    target: Target<'_>,
    mapping: &Mapping,
    file: &Path,
    report: &mut Report,
) -> Result<(), ImportError> {
    report.files += 1;
    let Some(bytes) = read(target, file, report)? else { return Ok(()) };
    let name = name_of(file);
    let mut days: BTreeMap<Day, Vec<NewRecord>> = BTreeMap::new();
    for (number, record) in records(&bytes) {
        match record.and_then(|record| event(mapping, &name, &record)) {
            Ok((at, record)) => days.entry(at.day_in(target.zone)).or_default().push(record),
            Err(why) => report.rejected.push(Rejected { file: name.clone(), number, why }),
        }
    }
    append_events(target, days, report)
}

type Numbered = (u64, Result<Value, String>);

fn records(bytes: &[u8]) -> Vec<Numbered> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Ok(whole) = serde_json::from_slice::<Value>(bytes) {
        let list = match whole {
            Value::Array(list) => Some(list),
            Value::Object(ref map) => ["items", "articles", "entries", "results"]
                .iter()
                .find_map(|key| map.get(*key)?.as_array().cloned()),
            _ => None,
        };
        if let Some(list) = list {
            return (1..).zip(list.into_iter().map(Ok)).collect();
        }
    }
    let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
    lines
        .filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace))
        .map(|(number, line)| {
            let record = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"));
            (number, record)
        })
        .collect()
}

fn event(mapping: &Mapping, file: &str, record: &Value) -> Result<(Timestamp, NewRecord), String> {
    let at = first(record, &mapping.time).and_then(time).ok_or("no time that can be read")?;
    let role = word(record, &mapping.role);
    let conversation = word(record, &mapping.conversation);
    let mut text = word(record, &mapping.text).unwrap_or_default();
    if mapping.html {
        text = html_to_text(&text);
    }
    let given = word(record, &mapping.id);
    let id = given.clone().unwrap_or_else(|| {
        let hash = sha256(&text).hex();
        stable_id(
            "evt",
            &[
                Part::Text("event"),
                Part::Labelled("source", &mapping.source_system),
                Part::Labelled("conversation", conversation.as_deref().unwrap_or("none")),
                Part::Integer(at.0),
                Part::Labelled("role", role.as_deref().unwrap_or("none")),
                Part::Labelled("content", &hash),
            ],
        )
    });
    let (kind, subkind) = kind(mapping, role.as_deref());
    let mut value = json!({
        "schema_version": "event.v1",
        "event_id": id,
        "timestamp_ms": at.0,
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
    Ok((at, NewRecord { order: at.0, id, value }))
}

fn kind(mapping: &Mapping, role: Option<&str>) -> (String, String) {
    if let Some(kind) = &mapping.kind {
        return kind.clone();
    }
    let subkind = match role {
        Some("user") => "user_message",
        Some("assistant") => "assistant_message",
        Some("tool") => "tool_result",
        Some("system") => "system_note",
        _ => "other",
    };
    ("chat_turn".to_owned(), subkind.to_owned())
}

fn first<'a>(record: &'a Value, candidates: &[String]) -> Option<&'a Value> {
    candidates.iter().find_map(|path| path.split('.').try_fold(record, |value, key| value.get(key)))
}

/// The first candidate that holds a non-empty scalar.
fn word(record: &Value, candidates: &[String]) -> Option<String> {
    candidates.iter().find_map(|path| {
        let value = path.split('.').try_fold(record, |value, key| value.get(key))?;
        match value {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    })
}

/// Seconds are below this and milliseconds above it, for every time since 1973.
const SECONDS_END: f64 = 1e11;

fn time(value: &Value) -> Option<Timestamp> {
    let ms = match value {
        Value::Number(number) => {
            let number = number.as_f64()?;
            if number.abs() < SECONDS_END { number * 1000.0 } else { number }
        }
        Value::String(text) => return text_time(text.trim()),
        _ => return None,
    };
    (ms >= 0.0).then_some(Timestamp(ms as i64))
}

fn text_time(text: &str) -> Option<Timestamp> {
    // `+00:00Z` is what some exporters write.
    let text = text.strip_suffix("+00:00Z").map_or(text.to_owned(), |head| format!("{head}Z"));
    let iso = || parse_instant(&text).ok().map(|instant| instant.at);
    let mail = || {
        let parsed = chrono::DateTime::parse_from_rfc2822(&text).ok()?;
        Some(Timestamp(parsed.timestamp_millis()))
    };
    let number = || time(&json!(text.parse::<f64>().ok()?));
    iso().or_else(mail).or_else(number).filter(|at| at.0 >= 0)
}
