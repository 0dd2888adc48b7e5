//! One line of an upstream data file: what a reader must be able to rely on, and the text in it.
//!
//! A *head* is the part every line is checked for when its partition is verified; a *record* is
//! read again, by byte range, only when a request needs its text. Unknown fields are ignored.
//!
//! See docs/adr/0013-what-upstream-readers-require.md.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::text::normalize;
use crate::contract::vocabulary::{Stream, spellings};

/// First millisecond after the plausible window of source times: the year 2200.
const TIME_MS_END: i64 = 7_258_118_400_000;

/// A string that borrows from the line when it holds no escapes, also inside an `Option`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<'a>(pub Cow<'a, str>);

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;
        impl<'de> Visitor<'de> for Borrowing {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(Borrowing)
    }
}

/// Reads a member that must be an object. A derived struct alone would also accept an array of
/// its fields in order, which no contract of ours allows.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct Objects<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Objects<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_map(Objects(PhantomData))
}

/// Reads a text that is exactly one object.
pub(crate) fn whole_object<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    if text.trim_ascii_start().starts_with('{') {
        return serde_json::from_str(text);
    }
    // Malformed text and well-formed text that is no object have different errors.
    serde_json::from_str::<IgnoredAny>(text)?;
    Err(serde::de::Error::custom("not a JSON object"))
}

/// A record of the wrong shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadRecord {
    /// Not JSON.
    Malformed(String),
    /// JSON without what the contract requires.
    Shape(String),
    /// Another version than we read.
    Version(String),
    /// A time outside the plausible window.
    Time(i64),
    /// A chunk that does not say what it was cut from.
    Provenance(String),
}

impl From<serde_json::Error> for BadRecord {
    fn from(error: serde_json::Error) -> BadRecord {
        match error.classify() {
            serde_json::error::Category::Data => BadRecord::Shape(error.to_string()),
            _ => BadRecord::Malformed(error.to_string()),
        }
    }
}

/// What every event must have, and what manifests count.
#[derive(Debug, Deserialize)]
pub(crate) struct EventHead<'a> {
    #[serde(borrow)]
    schema_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub event_id: Text<'a>,
    /// Source time in milliseconds.
    pub timestamp_ms: i64,
    /// Who spoke.
    #[serde(borrow)]
    pub role: Option<Text<'a>>,
    /// What kind of event.
    #[serde(borrow)]
    pub event_kind: Option<Text<'a>>,
    /// Finer kind.
    #[serde(borrow)]
    pub event_subkind: Option<Text<'a>>,
    /// Domain the manifest counts by.
    #[serde(borrow)]
    pub(crate) domain_family: Option<Text<'a>>,
    /// Conversation, a query field.
    #[serde(borrow)]
    pub conversation_id: Option<Text<'a>>,
}

impl<'a> EventHead<'a> {
    /// Reads and checks one line.
    pub(crate) fn parse(line: &'a [u8]) -> Result<EventHead<'a>, BadRecord> {
        let head: EventHead<'a> = parse(line)?;
        check_version(head.schema_version.as_ref(), &["event.v1"])?;
        check_id("event_id", &head.event_id)?;
        if !(0..TIME_MS_END).contains(&head.timestamp_ms) {
            return Err(BadRecord::Time(head.timestamp_ms));
        }
        Ok(head)
    }

    /// The value of a field a manifest counts by or a query filters by.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let text = match name {
            "role" => &self.role,
            "event_kind" => &self.event_kind,
            "event_subkind" => &self.event_subkind,
            "domain_family" => &self.domain_family,
            "conversation_id" => &self.conversation_id,
            _ => return None,
        };
        text.as_ref().map(|text| text.0.as_ref())
    }
}

impl ChunkRecord<'_> {
    /// The file that its document was read from.
    pub(crate) fn source_uri(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Provenance {
            source_uri: String,
        }
        let provenance: Provenance = serde_json::from_str(self.provenance?.get()).ok()?;
        Some(provenance.source_uri)
    }
}

/// The id of the first version of an event, where its line is a later one.
pub(crate) fn version_of(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Head {
        source: Version,
    }
    #[derive(Deserialize)]
    struct Version {
        version_of: String,
    }
    const NAME: &[u8] = b"\"version_of\"";
    if !line.windows(NAME.len()).any(|window| window == NAME) {
        return None;
    }
    Some(serde_json::from_slice::<Head>(line).ok()?.source.version_of)
}

/// When a session began and ended; 0 stands for unknown.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SessionWindow {
    /// First millisecond.
    pub start_ts_ms: i64,
    /// Last millisecond.
    pub end_ts_ms: i64,
    /// The zone its producer names.
    #[serde(default)]
    pub timezone: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct SessionSource {
    input_manifest_day: Option<String>,
    input_manifest_sha256: Option<String>,
}

/// A session: which events belong together.
#[derive(Debug, Deserialize)]
pub(crate) struct SessionRecord<'a> {
    #[serde(borrow)]
    schema_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub session_id: Text<'a>,
    /// The partition day it says it belongs to.
    #[serde(borrow)]
    pub day: Text<'a>,
    /// Begin and end.
    #[serde(deserialize_with = "object")]
    pub window: SessionWindow,
    /// Its events, in its own order.
    pub event_ids: Vec<String>,
    event_count: u64,
    #[serde(default, deserialize_with = "object")]
    source: SessionSource,
    #[serde(default)]
    conversation_ids: Value,
    #[serde(default)]
    title: Value,
    #[serde(default)]
    title_candidates: Value,
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    labels: Value,
    #[serde(default)]
    workspace: Value,
    #[serde(default)]
    project: Value,
    #[serde(default)]
    project_name: Value,
    #[serde(default)]
    summary: Value,
}

impl<'a> SessionRecord<'a> {
    /// Reads one line of any partition, without comparing its own statements.
    pub(crate) fn parse_any(line: &'a [u8]) -> Result<SessionRecord<'a>, BadRecord> {
        let session: SessionRecord<'a> = parse(line)?;
        check_version(session.schema_version.as_ref(), &["session.v1", "sessions.v1"])?;
        check_id("session_id", &session.session_id)?;
        Ok(session)
    }

    /// Reads and checks one line of a partition.
    pub(crate) fn parse(line: &'a [u8], partition: &str) -> Result<SessionRecord<'a>, BadRecord> {
        let session = SessionRecord::parse_any(line)?;
        if session.event_count != session.event_ids.len() as u64 {
            let (count, ids) = (session.event_count, session.event_ids.len());
            return Err(BadRecord::Shape(format!("event_count is {count} for {ids} event_ids")));
        }
        if session.day.0 != partition {
            let day = &session.day.0;
            return Err(BadRecord::Shape(format!("day is {day} in partition {partition}")));
        }
        Ok(session)
    }

    /// How many events it says it has.
    pub(crate) fn event_count(&self) -> u64 {
        self.event_count
    }

    /// The event day the session was cut from.
    pub(crate) fn input_day(&self) -> Option<&str> {
        self.source.input_manifest_day.as_deref()
    }

    /// The hash of the events it was cut from; an empty one says nothing.
    pub(crate) fn input_anchor(&self) -> Option<&str> {
        self.source.input_manifest_sha256.as_deref().filter(|hash| !hash.is_empty())
    }

    /// The title somebody would recognize it by.
    pub(crate) fn title(&self) -> Option<&str> {
        let own = [Some(&self.title), self.metadata.get("title")].into_iter().flatten();
        let own = own.filter_map(Value::as_str);
        own.chain(first_string(&self.title_candidates))
            .chain(self.summary.get("name").and_then(Value::as_str))
            .map(str::trim)
            .find(|title| !title.is_empty())
    }

    /// The conversation, where there is one.
    pub(crate) fn conversation_id(&self) -> Option<&str> {
        match self.conversation_ids.as_array().map(Vec::as_slice) {
            Some([only]) => only.as_str(),
            _ => None,
        }
    }

    /// Every conversation it says it touches.
    pub(crate) fn has_conversation(&self, id: &str) -> bool {
        let ids = self.conversation_ids.as_array();
        ids.is_some_and(|ids| ids.iter().any(|one| one.as_str() == Some(id)))
    }

    /// The project it belongs to, under any of the names in use.
    pub(crate) fn project(&self) -> Option<&str> {
        [&self.project, &self.project_name, &self.workspace]
            .into_iter()
            .find_map(Value::as_str)
            .or_else(|| self.summary.get("projectName").and_then(Value::as_str))
            .filter(|project| !project.is_empty())
    }

    /// Labels, as given.
    pub(crate) fn labels(&self) -> Vec<String> {
        let own = self.labels.as_array();
        let labels = own.or_else(|| self.summary.get("labels").and_then(Value::as_array));
        let labels = labels.into_iter().flatten();
        labels.filter_map(|label| label.as_str().map(str::to_owned)).collect()
    }
}

/// What every chunk must have.
#[derive(Debug, Deserialize)]
pub(crate) struct ChunkRecord<'a> {
    #[serde(borrow)]
    schema_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub chunk_id: Text<'a>,
    /// The document it was cut from.
    #[serde(borrow)]
    pub document_id: Text<'a>,
    #[serde(borrow)]
    pub text: Text<'a>,
    #[serde(borrow)]
    provenance: Option<&'a RawValue>,
    #[serde(default)]
    span: Value,
    #[serde(default)]
    pub(super) metadata: Value,
    #[serde(default)]
    chunk_index: Value,
    /// The index it is embedded in, where upstream names one.
    #[serde(default)]
    embedding_ref: Value,
}

spellings! {
    /// How chunks of a document are put in order; the name stands in `selection.chunk_order`.
    ChunkOrder {
        /// By `span.char_range.char_start`.
        CharRange "char_range",
        /// By `span.pages.page_start`.
        Pages "pages",
        /// By `metadata.chunk_index` or `chunk_index`.
        ChunkIndex "chunk_index",
        /// By the line in the file.
        FileOrder "file_order",
    }
}

impl ChunkOrder {
    /// The rules that read a position from the chunk, the strongest first.
    pub(crate) const STATED: [ChunkOrder; 3] =
        [ChunkOrder::CharRange, ChunkOrder::Pages, ChunkOrder::ChunkIndex];
}

impl<'a> ChunkRecord<'a> {
    /// Reads and checks one line.
    pub(crate) fn parse(line: &'a [u8]) -> Result<ChunkRecord<'a>, BadRecord> {
        let chunk: ChunkRecord<'a> = parse(line)?;
        check_version(chunk.schema_version.as_ref(), &["chunks.v1", "chunk.v1"])?;
        check_id("chunk_id", &chunk.chunk_id)?;
        check_id("document_id", &chunk.document_id)?;
        check_provenance(chunk.provenance)?;
        Ok(chunk)
    }

    /// Its position in its document under each of [`ChunkOrder::STATED`].
    pub(crate) fn positions(&self) -> [Option<i64>; 3] {
        let index = self.metadata.get("chunk_index").unwrap_or(&self.chunk_index);
        [
            self.span.pointer("/char_range/char_start").and_then(Value::as_i64),
            self.span.pointer("/pages/page_start").and_then(Value::as_i64),
            index.as_i64(),
        ]
    }

    /// The title of its document.
    pub(crate) fn title(&self) -> Option<&str> {
        self.metadata.get("title").and_then(Value::as_str).filter(|title| !title.is_empty())
    }

    /// The index it is embedded in, where upstream names one.
    pub(crate) fn index_id(&self) -> Option<&str> {
        self.embedding_ref.get("index_id").and_then(Value::as_str)
    }
}

fn check_provenance(provenance: Option<&RawValue>) -> Result<(), BadRecord> {
    #[derive(Deserialize)]
    struct Provenance<'a> {
        #[serde(borrow)]
        source_uri: Option<Text<'a>>,
        #[serde(borrow)]
        source_ref: Option<Text<'a>>,
        // `None` for a missing member and for null; the check below distinguishes them.
        #[serde(borrow, default)]
        source_checksum: Option<&'a RawValue>,
    }
    let Some(raw) = provenance else {
        return Err(BadRecord::Shape("missing field `provenance`".to_owned()));
    };
    let provenance: Provenance<'_> = whole_object(raw.get())
        .map_err(|error| BadRecord::Shape(format!("provenance: {error}")))?;
    if provenance.source_uri.is_none() && provenance.source_ref.is_none() {
        return Err(BadRecord::Provenance("missing_source".to_owned()));
    }
    // A null says that none was available; leaving the member out says nothing.
    let stated = provenance.source_checksum.is_some()
        || serde_json::from_str::<Value>(raw.get())
            .is_ok_and(|value| value.get("source_checksum").is_some());
    if stated { Ok(()) } else { Err(BadRecord::Provenance("missing_source_checksum".to_owned())) }
}

/// A summary of our own Summary Bus, as a source of another.
#[derive(Debug, Deserialize)]
pub(crate) struct SummaryRecord<'a> {
    #[serde(borrow)]
    schema_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub summary_id: Text<'a>,
    #[serde(borrow)]
    pub title: Option<Text<'a>>,
    /// Time of its sources.
    pub ts_abs_ms: Option<i64>,
    #[serde(borrow, deserialize_with = "object")]
    pub outputs: SummaryOutputs<'a>,
}

/// What a summary says.
#[derive(Debug, Deserialize)]
pub(crate) struct SummaryOutputs<'a> {
    #[serde(borrow)]
    pub summary_text: Text<'a>,
}

impl<'a> SummaryRecord<'a> {
    /// Reads and checks one line.
    pub(crate) fn parse(line: &'a [u8], stream: Stream) -> Result<SummaryRecord<'a>, BadRecord> {
        let summary: SummaryRecord<'a> = parse(line)?;
        check_version(summary.schema_version.as_ref(), &[stream.item_version()])?;
        check_id("summary_id", &summary.summary_id)?;
        Ok(summary)
    }
}

/// An event with everything a summary may use of it.
#[derive(Debug, Deserialize)]
pub(crate) struct EventRecord<'a> {
    #[serde(borrow)]
    pub event_id: Text<'a>,
    /// Source time in milliseconds.
    pub timestamp_ms: i64,
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation_id: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    chunk_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    chunk_id: Option<&'a RawValue>,
    #[serde(borrow)]
    refs: Option<&'a RawValue>,
}

impl<'a> EventRecord<'a> {
    /// Reads a line that was verified with its partition.
    pub(crate) fn parse(line: &'a [u8]) -> Result<EventRecord<'a>, BadRecord> {
        parse(line)
    }

    /// The text in the event itself, normalized: the first that is not empty.
    pub(crate) fn own_text(&self, title_allowed: bool) -> Option<String> {
        [self.content, self.text].into_iter().find_map(normal_string).or_else(|| {
            let payload: Option<Value> =
                self.payload.and_then(|raw| serde_json::from_str(raw.get()).ok());
            ["text", "content", "summary"]
                .iter()
                .find_map(|key| payload.as_ref()?.get(key)?.as_str().and_then(non_empty))
                .or_else(|| title_allowed.then_some(self.title).and_then(normal_string))
        })
    }

    /// The chunks the event points to, in its order.
    pub(crate) fn chunk_pointers(&self) -> Vec<String> {
        let value = |raw: Option<&RawValue>| -> Value {
            raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
        };
        let list = value(self.chunk_ids);
        let mut ids: Vec<String> = list
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|id| id.as_str().map(str::to_owned))
            .collect();
        if ids.is_empty() {
            ids.extend(value(self.chunk_id).as_str().map(str::to_owned));
        }
        if ids.is_empty() {
            let refs = value(self.refs);
            let refs = refs.as_array().into_iter().flatten();
            ids.extend(refs.filter_map(|one| one.get("chunk_id")?.as_str().map(str::to_owned)));
        }
        ids
    }

    /// The title, as given.
    pub(crate) fn title(&self) -> Option<String> {
        string(self.title).filter(|title| !title.is_empty())
    }

    /// The conversation, as given.
    pub(crate) fn conversation_id(&self) -> Option<String> {
        string(self.conversation_id).filter(|id| !id.is_empty())
    }
}

/// The string in a raw value, or nothing when it holds something else.
fn string(raw: Option<&RawValue>) -> Option<String> {
    let text = raw?.get();
    if !text.starts_with('"') {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn normal_string(raw: Option<&RawValue>) -> Option<String> {
    let text = raw?.get();
    if !text.starts_with('"') {
        return None;
    }
    let text: Text<'_> = serde_json::from_str(text).ok()?;
    non_empty(&text.0)
}

fn non_empty(text: &str) -> Option<String> {
    let text = normalize(text);
    (!text.is_empty()).then(|| text.into_owned())
}

fn first_string(value: &Value) -> Option<&str> {
    value.as_array()?.iter().find_map(Value::as_str)
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, BadRecord> {
    // serde skips members that no field takes, so their strings are checked here.
    let text = std::str::from_utf8(line)
        .map_err(|error| BadRecord::Malformed(format!("not UTF-8: {error}")))?;
    Ok(whole_object(text)?)
}

fn check_version(seen: Option<&Text<'_>>, accepted: &[&str]) -> Result<(), BadRecord> {
    match seen {
        None => Err(BadRecord::Shape("missing field `schema_version`".to_owned())),
        Some(seen) if accepted.contains(&seen.0.as_ref()) => Ok(()),
        Some(seen) => Err(BadRecord::Version(seen.0.clone().into_owned())),
    }
}

fn check_id(name: &str, id: &Text<'_>) -> Result<(), BadRecord> {
    if id.0.is_empty() {
        return Err(BadRecord::Shape(format!("`{name}` is empty")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(fields: Value) -> String {
        let mut event =
            json!({"schema_version": "event.v1", "event_id": "evt_1", "timestamp_ms": 1});
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        event.to_string()
    }

    #[test]
    fn the_text_ladder_takes_the_first_that_is_not_empty() {
        for (fields, text) in [
            (json!({"content": "a", "text": "b"}), Some("a")),
            (json!({"content": " \n", "text": "b\r\n"}), Some("b")),
            (json!({"content": {"parts": []}, "payload": {"text": "", "content": "c"}}), Some("c")),
            (json!({"content": null, "payload": {"summary": "d"}, "title": "t"}), Some("d")),
            (json!({"title": "t"}), Some("t")),
            (json!({"payload": "x"}), None),
        ] {
            let line = event(fields.clone());
            let record = EventRecord::parse(line.as_bytes()).unwrap();
            assert_eq!(record.own_text(true).as_deref(), text, "{fields}");
        }
        let line = event(json!({"title": "t", "chunk_ids": ["c1", "c2"]}));
        let record = EventRecord::parse(line.as_bytes()).unwrap();
        assert_eq!(record.own_text(false), None);
        assert_eq!(record.chunk_pointers(), ["c1", "c2"]);
        let line = event(
            json!({"refs": [{"chunk_id": "c3"}, {"x": 1}], "event_kind": "k", "event_subkind": "s"}),
        );
        let record = EventRecord::parse(line.as_bytes()).unwrap();
        assert_eq!(record.chunk_pointers(), ["c3"]);
    }

    #[test]
    fn a_bad_head_is_refused_with_its_kind_of_defect() {
        let bad = |line: &str| EventHead::parse(line.as_bytes()).unwrap_err();
        assert!(matches!(bad("{"), BadRecord::Malformed(_)));
        assert!(matches!(bad("[1"), BadRecord::Malformed(_)));
        assert!(matches!(bad(r#"["event.v1","e",1]"#), BadRecord::Shape(_)));
        assert!(matches!(bad(r#"{"event_id":"e","timestamp_ms":1}"#), BadRecord::Shape(_)));
        assert!(matches!(bad(&event(json!({"event_id": 1}))), BadRecord::Shape(_)));
        assert!(matches!(bad(&event(json!({"timestamp_ms": 1.5}))), BadRecord::Shape(_)));
        assert_eq!(bad(&event(json!({"timestamp_ms": -1}))), BadRecord::Time(-1));
        assert_eq!(
            bad(&event(json!({"schema_version": "event.v2"}))),
            BadRecord::Version("event.v2".to_owned())
        );
        let not_utf8 = b"{\"schema_version\":\"event.v1\",\"event_id\":\"e\",\"timestamp_ms\":1,\"x\":\"\xff\"}";
        assert!(matches!(EventHead::parse(not_utf8), Err(BadRecord::Malformed(_))));
    }

    #[test]
    fn chunks_need_provenance_and_find_their_place() {
        let base = json!({"schema_version": "chunks.v1", "chunk_id": "c", "document_id": "d",
            "text": "t", "provenance": {"source_uri": "u", "source_checksum": null}});
        for (extra, positions) in [
            (json!({}), [None, None, None]),
            (
                json!({"span": {"char_range": {"char_start": 3}, "pages": {"page_start": 1}}}),
                [Some(3), Some(1), None],
            ),
            (json!({"metadata": {"chunk_index": 4}}), [None, None, Some(4)]),
            (json!({"chunk_index": 5}), [None, None, Some(5)]),
        ] {
            let mut value = base.clone();
            for (key, field) in extra.as_object().unwrap() {
                value[key] = field.clone();
            }
            let line = value.to_string();
            let found = ChunkRecord::parse(line.as_bytes()).unwrap().positions();
            assert_eq!(found, positions, "{extra}");
        }
        let mut bare = base.clone();
        bare["provenance"] = json!({"source_uri": "u"});
        assert_eq!(
            ChunkRecord::parse(bare.to_string().as_bytes()).unwrap_err(),
            BadRecord::Provenance("missing_source_checksum".to_owned())
        );
        bare["provenance"] = json!({"source_checksum": "x"});
        assert!(matches!(
            ChunkRecord::parse(bare.to_string().as_bytes()),
            Err(BadRecord::Provenance(_))
        ));
    }
}
