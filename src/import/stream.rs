//! The records of a file, one at a time: JSON lines, one JSON array, or an object with a list of
//! items.
//!
//! Contract: memory holds one record and never the file. One pass over the file finds its form: one
//! JSON value with a list is a list, and everything else is lines. So each damaged line of a list is
//! reported. A mark as private beside a list holds for each of its items, and each item of a feed has the name of
//! the feed as `feed_title` and its authors as `feed_authors`.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{ImportError, disk_error};
use crate::contract::json::exact;
use crate::contract::privacy::{LOCAL_ONLY, names_local_only, says_local_only};
use crate::contract::publish;
use crate::markup::records::{AUTHORS_OF_FEEDS, OF_FEEDS, feed_authors, feed_name};
use crate::os::{Disk, DiskFile, Open};
use crate::upstream::lines::{BUS_LINE_BYTES_MAX, Lines};

/// Members of an object that may hold its records; the first of them counts.
const LISTS: [&str; 4] = ["items", "articles", "entries", "results"];
/// The name of its feed, as an item gets it. Unlike `feed`, which names a conversation, it is part of no id.
pub(super) const FEED_TITLE: &str = "feed_title";
/// The authors of its feed, as an item without an author gets them. They are part of no id.
pub(super) const FEED_AUTHORS: &str = "feed_authors";
const MARK: &[u8] = b"\xef\xbb\xbf";
const READ_BYTES: usize = 256 << 10;

/// Takes a record, or the reason why it is no record, with its number, counted from 1.
pub(super) type Take<'t> = dyn FnMut(u64, Result<Value, String>) -> Result<(), ImportError> + 't;

/// Hands over the records of a file in order.
pub(super) fn each_record(
    disk: &dyn Disk,
    file: &Path,
    take: &mut Take<'_>,
) -> Result<(), ImportError> {
    let opened = disk.open(file, Open::Read).map_err(disk_error("open", file))?;
    let read = |error| disk_error("read", file)(error);
    let start = start_of(opened.as_ref()).map_err(read)?;
    let mut head = Map::new();
    let shape = shape_of(&opened, start, &mut head).map_err(read)?;
    let is_private = publish::said_by_record(&head) == Some(false);
    let is_local_only = says_local_only(&head);
    let feed = feed_name(&head);
    let authors = feed_authors(&head);
    if matches!(shape, Shape::Lines) {
        return each_line(&opened, file, take);
    }
    let (mut number, mut failure) = (0, None);
    let walked = walk(&opened, start, shape, &mut Map::new(), &mut |mut record| {
        number += 1;
        if let Some(members) = record.as_object_mut() {
            members.extend(is_private.then(|| ("publish".to_owned(), false.into())));
            members.extend(is_local_only.then(|| (LOCAL_ONLY.to_owned(), true.into())));
            if let Some(feed) = &feed {
                members.entry(FEED_TITLE).or_insert_with(|| feed.as_str().into());
            }
            if let Some(authors) = authors {
                members.insert(FEED_AUTHORS.to_owned(), authors.clone());
            }
        }
        take(number, Ok(record)).map_err(|error| failure = Some(error)).is_ok()
    });
    match (failure, walked) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) if error.is_io() => Err(read(error.into())),
        // It was whole a moment ago.
        (None, Err(error)) => take(number + 1, Err(format!("not JSON any more: {error}"))),
        (None, Ok(_)) => Ok(()),
    }
}

fn each_line(
    opened: &Arc<dyn DiskFile>,
    file: &Path,
    take: &mut Take<'_>,
) -> Result<(), ImportError> {
    let stat = opened.stat().map_err(disk_error("inspect", file))?;
    let mut lines = Lines::new(Arc::clone(opened), stat.len);
    while let Some((at, line)) = lines.next_line().map_err(disk_error("read", file))? {
        let line = if at.offset == 0 { line.strip_prefix(MARK).unwrap_or(line) } else { line };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let record = str::from_utf8(line)
            .map_err(|error| error.to_string())
            .and_then(|text| exact(text).map_err(|error| error.to_string()));
        let record = record.map_err(|error| match line.len() {
            len if len >= BUS_LINE_BYTES_MAX => format!("longer than {} MiB", len >> 20),
            _ => format!("not JSON: {error}"),
        });
        take(at.line, record)?;
    }
    Ok(())
}

/// Where the text begins.
fn start_of(file: &dyn DiskFile) -> io::Result<u64> {
    let mut first = [0; MARK.len()];
    let mut filled = 0;
    while filled < first.len() {
        match file.read_at(&mut first[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(if first == MARK { MARK.len() as u64 } else { 0 })
}

/// Where the records of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// In a list that is the whole file.
    List,
    /// In this member of the object that is the whole file.
    Member(usize),
    /// One a line.
    Lines,
}

/// Looks at the whole file, keeping only what stands beside a list and may mark it as private or name it.
fn shape_of(
    file: &Arc<dyn DiskFile>,
    start: u64,
    head: &mut Map<String, Value>,
) -> io::Result<Shape> {
    match walk(file, start, Shape::Lines, head, &mut |_| true) {
        Ok(shape) => Ok(shape),
        Err(error) if error.is_io() => Err(error.into()),
        Err(_) => Ok(Shape::Lines),
    }
}

/// Reads one JSON value to its end and hands over the records where they are said to be. Gives
/// where they could be.
fn walk(
    file: &Arc<dyn DiskFile>,
    start: u64,
    wanted: Shape,
    head: &mut Map<String, Value>,
    take: &mut dyn FnMut(Value) -> bool,
) -> serde_json::Result<Shape> {
    let reader = BufReader::with_capacity(READ_BYTES, From { file: Arc::clone(file), at: start });
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let shape = WholeFile { wanted, head, take }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(shape)
}

struct From {
    file: Arc<dyn DiskFile>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Visits what may hold nothing but other things.
macro_rules! nothing_else {
    ($value:expr) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON value")
        }
    };
}

struct WholeFile<'t> {
    wanted: Shape,
    head: &'t mut Map<String, Value>,
    take: &'t mut dyn FnMut(Value) -> bool,
}

impl<'de> DeserializeSeed<'de> for WholeFile<'_> {
    type Value = Shape;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for WholeFile<'_> {
    type Value = Shape;

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Shape, A::Error> {
        List { wanted: self.wanted == Shape::List, take: self.take }.visit_seq(list)?;
        Ok(Shape::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut first: Option<usize> = None;
        while let Some(key) = map.next_key::<String>()? {
            let Some(number) = LISTS.iter().position(|name| *name == key) else {
                let name = key.as_str();
                let is_mark =
                    OF_FEEDS.contains(&name) || AUTHORS_OF_FEEDS.contains(&name) || is_mark(&key);
                let said = map.next_value_seed(Marks { is_mark })?;
                self.head.extend(said.map(|said| (key, said)));
                continue;
            };
            let wanted = self.wanted == Shape::Member(number);
            if map.next_value_seed(List { wanted, take: &mut *self.take })? {
                first = Some(first.map_or(number, |first| first.min(number)));
            }
        }
        Ok(first.map_or(Shape::Lines, Shape::Member))
    }

    nothing_else!(Shape::Lines);
}

/// Whether a member with this name may say that what stands beside it is private, or is one of the two
/// members of a pair.
fn is_mark(name: &str) -> bool {
    publish::may_say(name) || names_local_only(name) || publish::is_pair(name)
}

/// What lies in a member and may mark its file as private. Nothing else of it is kept.
struct Marks {
    is_mark: bool,
}

impl<'de> DeserializeSeed<'de> for Marks {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.is_mark {
            return Value::deserialize(deserializer).map(Some);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Marks {
    type Value = Option<Value>;

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut kept = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let said = map.next_value_seed(Marks { is_mark: is_mark(&key) })?;
            kept.extend(said.map(|said| (key, said)));
        }
        let names_mark = |one: &Value| one.as_str().is_some_and(is_mark);
        let says = |(key, said): (&String, &Value)| !publish::is_pair(key) || names_mark(said);
        Ok(kept.iter().any(says).then_some(Value::Object(kept)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(said) = list.next_element_seed(Marks { is_mark: false })? {
            kept.extend(said);
        }
        Ok((!kept.is_empty()).then_some(Value::Array(kept)))
    }

    nothing_else!(None);
}

/// A list of records, where it is one.
struct List<'t> {
    wanted: bool,
    take: &'t mut dyn FnMut(Value) -> bool,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = bool;

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        while let Some(record) = list.next_element::<Box<RawValue>>()? {
            let record = exact(record.get()).map_err(A::Error::custom)?;
            if self.wanted && !(self.take)(record) {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    nothing_else!(false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;
    use serde_json::json;

    /// The numbers of the records with the records; `None` for a part that is no record.
    fn records(text: &[u8]) -> Vec<(u64, Option<Value>)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&path, text, 0o640).unwrap();
        let mut found = Vec::new();
        each_record(disk, &path, &mut |number, record| {
            found.push((number, record.ok()));
            Ok(())
        })
        .unwrap();
        found
    }

    fn all(values: &[Value]) -> Vec<(u64, Option<Value>)> {
        (1..).zip(values.iter().cloned().map(Some)).collect()
    }

    #[test]
    fn lines_lists_and_members_are_told_apart() {
        let (a, b) = (json!({"a": 1}), json!({"b": [2]}));
        let both = all(&[a.clone(), b.clone()]);
        assert_eq!(records(b"{\"a\":1}\n{\"b\":[2]}\n"), both);
        assert_eq!(records(b"\xef\xbb\xbf{\"a\":1}\r\n\r\n{\"b\":[2]}"), {
            vec![(1, Some(a.clone())), (3, Some(b.clone()))]
        });
        assert_eq!(records(b" [ {\"a\":1},\n{\"b\":[2]}\n]\n"), both);
        assert_eq!(records(b"\xef\xbb\xbf[{\"a\":1},{\"b\":[2]}]"), both);
        assert_eq!(records(b"{\"x\":[9],\"entries\":[{\"a\":1},{\"b\":[2]}]}"), both);
        // The first name that holds a list counts, wherever it stands.
        let private = br#"{"items":[{"a":1},2],"meta":{"flags":{"private":"yes"}}}"#;
        assert_eq!(records(private), all(&[json!({"a": 1, "publish": false}), json!(2)]));
        let below = br#"{"items":[{"a":1}],"_x":{"b":[{"key":"private","value":"yes"}]}}"#;
        assert_eq!(records(below), all(&[json!({"a": 1, "publish": false})]));
        let kept = br#"{"localOnly":true,"items":[{"a":1}]}"#;
        assert_eq!(records(kept), all(&[json!({"a": 1, "local_only": true})]));
        let two = br#"{"results":[{"a":1},{"b":[2]}],"items":{"no":"list"},"entries":3}"#;
        assert_eq!(records(two), both);
        let two = br#"{"results":[{"no":1}],"items":[{"a":1},{"b":[2]}]}"#;
        assert_eq!(records(two), both);
        let feed =
            br#"{"version":"https://jsonfeed.org/version/1","title":"Town","items":[{"a":1}]}"#;
        assert_eq!(records(feed), all(&[json!({"a": 1, "feed_title": "Town"})]));
        assert_eq!(records(br#"{"title":"Town","items":[{"a":1}]}"#), all(&[json!({"a": 1})]));
        let feed = br#"{"version":"https://jsonfeed.org/version/1","author":{"name":"Ana"},"items":[{"a":1}]}"#;
        assert_eq!(records(feed), all(&[json!({"a": 1, "feed_authors": {"name": "Ana"}})]));
        let other = br#"{"author":{"name":"Ana"},"items":[{"a":1}]}"#;
        assert_eq!(records(other), all(&[json!({"a": 1})]));
        // One record that is the only line of its file.
        assert_eq!(records(b"{\n\"a\":\n1}"), [(1, None), (2, None), (3, None)]);
        assert_eq!(records(b"{\"a\":1}"), all(std::slice::from_ref(&a)));
        assert_eq!(records(b""), []);
        assert_eq!(records(b"[]"), []);
        assert_eq!(records(b"7"), all(&[json!(7)]));
        // Lines that have lists are lines, when there are several.
        let rows = [json!({"items": [1]}), json!({"items": [2]})];
        assert_eq!(records(b"{\"items\":[1]}\n{\"items\":[2]}"), all(&rows));
        assert_eq!(records(b"[1]\n[2]"), all(&[json!([1]), json!([2])]));
    }

    #[test]
    fn each_damaged_line_is_reported() {
        assert_eq!(records(b"[{\"a\":1},\n{\"b\""), [(1, None), (2, None)]);
        assert_eq!(records(b"{\"a\":1}\nno\n"), [(1, Some(json!({"a": 1}))), (2, None)]);
        assert_eq!(records(b"\xff\n{\"a\":1}"), [(1, None), (2, Some(json!({"a": 1})))]);
        let deep = "[".repeat(300) + &"]".repeat(300);
        assert_eq!(records(deep.as_bytes()), [(1, None)]);
    }

    #[test]
    fn the_receiver_may_stop_the_reading() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let disk: &dyn Disk = &HostDisk;
        for text in ["[1,2,3]", "1\n2\n3"] {
            disk.replace(&path, text.as_bytes(), 0o640).unwrap();
            let mut seen = 0;
            let stopped = each_record(disk, &path, &mut |number, _| {
                seen = number;
                let path = String::new();
                if number == 2 { Err(ImportError::Missing { path }) } else { Ok(()) }
            });
            assert!(matches!(stopped, Err(ImportError::Missing { .. })));
            assert_eq!(seen, 2);
        }
    }
}
