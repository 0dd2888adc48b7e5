//! The bus `other`: plain files under `other/` in the bus home, named by relative path. They have
//! no manifests; what was read is recorded by its hash.
//!
//! A file that holds a list is read item by item: `other:<path>#<key>` names one of them.
//!
//! See docs/adr/0084-items-of-lists-as-sources.md.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use super::beneath::{open_named, outside};
use super::dated::{day_of, set_heads, words};
use super::defect::Defect;
use super::moment::Moment;
use super::source::RESOLVE_IDS_MAX;
use super::text::normalize;
use crate::contract::hash::{Digest, sha256};
use crate::contract::publish::{said_by_record, together};
use crate::contract::vocabulary::ReasonCode;
use crate::markup::document::{self, Document};
use crate::markup::records::{LIST_KINDS, List, Message, Record, Slot, conversation};
use crate::model::builtin::extract::written::{Order, order_of};
use crate::os::{Disk, read_up_to};
use serde_json::{Map, Value};

/// The folder, relative to the bus home.
pub(crate) const OTHER_DIR: &str = "other";
/// Largest file that is read.
pub(crate) const OTHER_BYTES_MAX: u64 = 64 << 20;
/// Bytes of the items of a list that are looked through for how it writes dates.
const SAMPLE_BYTES_MAX: usize = 64 << 10;
/// Hex digits of the hash that names an item without an id.
const KEY_DIGITS: usize = 16;

/// The member of a message that names the item it is a message of.
pub(crate) const CONVERSATION: &str = "conversation_id";

/// The item that a source is a message of, by its id and what is known of it.
pub(crate) fn conversation_of<'i>(id: &'i str, members: &Map<String, Value>) -> Option<&'i str> {
    let (talk, number) = id.rsplit_once('#')?;
    let name = members.get(CONVERSATION)?.as_str()?;
    let is_message = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'~');
    let is_of = talk.strip_suffix(name).is_some_and(|path| path.ends_with('#'));
    (is_message && is_of).then_some(talk)
}

/// One file as it was read.
pub struct OtherFile {
    /// Path relative to the bus home, `other/…`.
    pub path: String,
    pub bytes: u64,
    /// Hash of its bytes.
    pub sha256: Digest,
    pub(crate) content: Content,
}

/// What a file holds.
pub(crate) enum Content {
    Document(Document),
    Items(Items),
}

/// The items of a list, with the names they have as sources.
pub(crate) struct Items {
    /// Which number of a date is the day, as all items say together.
    order: Option<Order>,
    text: String,
    /// Bytes of the file before its text.
    mark: usize,
    list: List,
    /// One for each source, in their order: an item, or a message of an item that is a conversation.
    keys: Vec<String>,
    parts: Vec<Part>,
    places: HashMap<String, usize>,
    /// The messages of each conversation, by the name of its item.
    talks: HashMap<String, Talk>,
}

/// What a source is: an item of the list, or a message of it.
struct Part {
    /// The place of the item in the list.
    slot: usize,
    /// The message, and whether its conversation and itself may be shown to others.
    message: Option<(Message, Option<bool>)>,
}

/// An item that is a conversation: its messages among the sources, and its place in the list.
struct Talk {
    messages: Range<usize>,
    slot: usize,
}

pub(crate) struct Item {
    pub record: Record,
    /// Its line in the file, from 1.
    pub line: u64,
    /// Its first byte in the file, and how many it has.
    pub offset: u64,
    pub len: u64,
    pub publish: Option<bool>,
    /// The day that it says it is of, where its members name no time.
    pub date: Option<String>,
}

impl Items {
    fn new(text: String, mark: usize, list: List) -> Items {
        let (mut keys, mut places) = (Vec::with_capacity(list.slots.len()), HashMap::new());
        let (mut parts, mut talks) = (Vec::new(), HashMap::new());
        let (mut sample, mut sampled) = (Vec::new(), 0);
        for (at, slot) in list.slots.iter().enumerate() {
            let record = list.record(&text, slot);
            if sampled < SAMPLE_BYTES_MAX {
                sample.extend(words(&record.text, &record.members).map(str::to_owned));
                sampled += record.text.len();
            }
            let key = record.id.unwrap_or_else(|| {
                let own_text = record.own_text.as_ref().unwrap_or(&record.text);
                let hash = sha256(normalize(own_text).as_bytes()).hex();
                hash[..KEY_DIGITS].to_owned()
            });
            // Several items may have one name: the later ones are counted.
            let unique =
                |key: String, places: &HashMap<String, usize>, talks: &HashMap<String, Talk>| {
                    let mut name = key.clone();
                    let mut count = 1;
                    while places.contains_key(&name) || talks.contains_key(&name) {
                        count += 1;
                        name = format!("{key}~{count}");
                    }
                    name
                };
            let name = unique(key, &places, &talks);
            let talk = list.is_json().then(|| conversation(&record.members)).flatten();
            let Some(messages) = talk else {
                places.insert(name.clone(), keys.len());
                keys.push(name);
                parts.push(Part { slot: at, message: None });
                continue;
            };
            let publish = said_by_record(&record.members);
            let first = keys.len();
            for mut message in messages {
                let key = unique(format!("{name}#{}", message.number), &places, &talks);
                message.members.insert(CONVERSATION.to_owned(), name.as_str().into());
                places.insert(key.clone(), keys.len());
                keys.push(key);
                let publish = together([publish, said_by_record(&message.members)]);
                parts.push(Part { slot: at, message: Some((message, publish)) });
            }
            talks.insert(name, Talk { messages: first..keys.len(), slot: at });
        }
        let order = order_of(sample.iter().map(String::as_str));
        Items { order, text, mark, list, keys, parts, places, talks }
    }

    /// The names of the sources, in the order of the file.
    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The names of the sources that this name stands for: one, or the messages of a conversation.
    pub(crate) fn named(&self, key: &str) -> Option<&[String]> {
        let range = match (self.talks.get(key), self.places.get(key)) {
            (Some(talk), _) => talk.messages.clone(),
            (None, Some(at)) => *at..at + 1,
            (None, None) => return None,
        };
        Some(&self.keys[range])
    }

    /// The place of the item behind a name. Summaries made before have a conversation as one item.
    fn slot(&self, key: &str) -> Option<&Slot> {
        let place = self.places.get(key).map(|at| self.parts[*at].slot);
        let slot = place.or_else(|| self.talks.get(key).map(|talk| talk.slot))?;
        Some(&self.list.slots[slot])
    }

    /// The item with this name. A message is kept as it was read, so that its conversation is read once.
    pub(crate) fn get(&self, key: &str) -> Option<Item> {
        let slot = self.slot(key)?;
        let message = self.places.get(key).and_then(|at| self.parts[*at].message.as_ref());
        let (record, own) = match message {
            Some((message, publish)) => {
                let (text, members) = (message.text.clone(), message.members.clone());
                (Record { text, members, ..Record::default() }, *publish)
            }
            None => {
                let record = self.list.record(&self.text, slot);
                let own = said_by_record(&record.members);
                (record, own)
            }
        };
        Some(Item {
            date: match Moment::of(&record.members, chrono_tz::UTC) {
                Some(_) => None,
                None => day_of(&record.text, None, &record.members, self.order, None),
            },
            publish: together([own, self.list.publish]),
            record,
            line: slot.line,
            offset: (self.mark + slot.bytes.start) as u64,
            len: slot.bytes.len() as u64,
        })
    }

    /// The item as it is written.
    pub(crate) fn raw(&self, key: &str) -> Option<&str> {
        Some(&self.text[self.slot(key)?.bytes.clone()])
    }
}

/// The file and, for one item of a list, its key.
pub(crate) fn parts_of(id: &str) -> (&str, Option<&str>) {
    let is_list = |path: &str| LIST_KINDS.contains(&document::extension_of(path).as_str());
    let mut signs = id.match_indices('#').map(|(at, _)| (&id[..at], &id[at + 1..]));
    match signs.find(|(path, _)| is_list(path)) {
        Some((path, key)) => (path, Some(key)),
        None => (id, None),
    }
}

/// The files of one request, the last of them in memory: its items follow one another.
#[derive(Default)]
pub(crate) struct OtherFiles {
    last: Option<(String, OtherFile)>,
}

impl OtherFiles {
    /// Reads a file by its id, the path relative to `other/`.
    pub(crate) fn read(
        &mut self,
        disk: &dyn Disk,
        root: &Path,
        id: &str,
    ) -> Result<&OtherFile, Defect> {
        let kept = self.last.take().filter(|(known, _)| known == id);
        let file = match kept {
            Some((_, file)) => file,
            None => read(disk, root, id)?,
        };
        Ok(&self.last.insert((id.to_owned(), file)).1)
    }
}

/// Reads one file by its id, the path relative to `other/`.
pub fn read(disk: &dyn Disk, root: &Path, id: &str) -> Result<OtherFile, Defect> {
    let dir = root.join(OTHER_DIR);
    let relative = format!("{OTHER_DIR}/{id}");
    let file = open_named(disk, std::slice::from_ref(&dir), &dir.join(plain(id)?), &relative)?
        .ok_or_else(|| absent(&relative))?;
    let storage = |error| Defect::of_named_path("read", &relative, &error);
    // What is true of the open file: another one may have its name meanwhile.
    let stat = file.stat().map_err(storage)?;
    if stat.is_dir {
        return Err(absent(&relative));
    }
    let too_many = |count| unreadable(&relative, format!("{count} bytes are too many"));
    if stat.len > OTHER_BYTES_MAX {
        return Err(too_many(stat.len));
    }
    let bytes = read_up_to(file.as_ref(), OTHER_BYTES_MAX).map_err(storage)?;
    if bytes.len() as u64 > OTHER_BYTES_MAX {
        return Err(too_many(bytes.len() as u64));
    }
    let content = content(id, &bytes).map_err(|why| unreadable(&relative, why))?;
    let (length, sha256) = (bytes.len() as u64, sha256(&bytes));
    Ok(OtherFile { path: relative, bytes: length, sha256, content })
}

pub(super) fn content(name: &str, bytes: &[u8]) -> Result<Content, String> {
    let kind = document::extension_of(name);
    if LIST_KINDS.contains(&kind.as_str()) {
        let text = document::text_of(bytes)?;
        let list = List::of(&kind, text)?;
        if let Some(list) = list.or_else(|| List::of_conversation(text).filter(|_| kind == "json"))
        {
            if list.slots.len() > RESOLVE_IDS_MAX {
                let count = list.slots.len();
                return Err(format!("{count} items are too many: split it at {RESOLVE_IDS_MAX}"));
            }
            return Ok(Content::Items(Items::new(text.to_owned(), bytes.len() - text.len(), list)));
        }
    }
    let mut document = document::read(name, bytes)?;
    set_heads(std::slice::from_mut(&mut document), name);
    Ok(Content::Document(document))
}

/// The path of a file below the folder, from its id: relative, and without any way out.
pub(crate) fn plain(id: &str) -> Result<PathBuf, Defect> {
    let path = Path::new(id);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && !id.is_empty() { Ok(path.to_owned()) } else { Err(outside(id)) }
}

pub(super) fn absent(path: &str) -> Defect {
    Defect::missing("UNKNOWN_SOURCE_ID", "file", path, path, ReasonCode::UnknownSourceId)
}

fn unreadable(path: &str, why: String) -> Defect {
    Defect::schema("UNSUPPORTED_FORMAT", "other", None, &[], why, path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    fn home(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        for (name, bytes) in files {
            let path = dir.path().join(name);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.replace(&path, bytes, 0o640).unwrap();
        }
        dir
    }

    #[test]
    fn each_kind_of_file_gives_its_text() {
        let home = home(&[
            ("other/a.txt", b"plain"),
            ("other/sub/b.md", b"# Title\n\nBody"),
            ("other/c.html", b"<html><head><title>T &amp; t</title><style>x{}</style></head><body><p>One</p><script>bad()</script><p>Two</p></body></html>"),
            ("other/d.eml", b"From: a@example.org\r\nTo: b@example.org\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\nDate: Wed, 11 Feb 2026 10:00:00 +0000\r\n\r\nHello there\r\n"),
        ]);
        let read = |id| document(home.path(), id);
        assert_eq!(read("a.txt").text, "plain");
        assert_eq!(read("sub/b.md").title.as_deref(), Some("Title"));
        let html = read("c.html");
        assert_eq!((html.text.as_str(), html.title.as_deref()), ("One\n\nTwo", Some("T & t")));
        let mail = read("d.eml");
        assert_eq!(mail.title.as_deref(), Some("Caf\u{e9}"));
        assert_eq!(mail.text, "Hello there", "headers are no text");
        assert_eq!(mail.members["from"], "a@example.org");
    }

    fn document(root: &Path, id: &str) -> Document {
        match read(&HostDisk, root, id).unwrap().content {
            Content::Document(document) => document,
            Content::Items(_) => panic!("{id} is a list"),
        }
    }

    fn items(root: &Path, id: &str) -> Items {
        match read(&HostDisk, root, id).unwrap().content {
            Content::Items(items) => items,
            Content::Document(_) => panic!("{id} is no list"),
        }
    }

    /// `tests/tools/source_text.py` computes the same vectors by itself.
    #[test]
    fn the_vectors_of_lists_hold() {
        let vectors = include_str!("../../tests/golden/markup/lists.json");
        let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
        for vector in vectors {
            let text = |member: &str| vector[member].as_str().unwrap();
            let name = format!("x.{}", text("kind"));
            let found: Vec<Value> = match content(&name, text("source").as_bytes()).unwrap() {
                Content::Document(_) => Vec::new(),
                Content::Items(items) => {
                    let item = |key: &String| {
                        let item = items.get(key).unwrap();
                        serde_json::json!([key, item.line, normalize(&item.record.text)])
                    };
                    items.keys().iter().map(item).collect()
                }
            };
            assert_eq!(Value::Array(found), vector["items"], "{}", text("name"));
        }
    }

    #[test]
    fn items_have_names_that_stay_when_others_come_before_them() {
        let home = home(&[
            ("other/a.jsonl", b"\"x\"\n{\"id\": 7, \"n\": 1}\n\"x\"\n{\"id\": \"7\"}\n"),
            ("other/b.jsonl", b"{\"new\": 1}\n\"x\"\n"),
        ]);
        let (a, b) = (items(home.path(), "a.jsonl"), items(home.path(), "b.jsonl"));
        let x = sha256("x").hex()[..KEY_DIGITS].to_owned();
        assert_eq!(a.keys(), [x.clone(), "7".to_owned(), format!("{x}~2"), "7~2".to_owned()]);
        assert_eq!(b.keys()[1], x);
        let item = a.get("7").unwrap();
        assert_eq!((item.line, item.offset, item.len), (2, 4, 17));
        assert_eq!(a.raw("7~2"), Some("{\"id\": \"7\"}"));
        assert!(a.get("8").is_none());
        assert_eq!(parts_of("a.jsonl#x#y"), ("a.jsonl", Some("x#y")));
        assert_eq!(parts_of("a#b.csv#1"), ("a#b.csv", Some("1")));
        assert_eq!(parts_of("c#1.md"), ("c#1.md", None));
    }

    #[test]
    fn files_may_say_that_they_are_private() {
        let home = home(&[
            ("other/a.md", b"---\ntitle: A\npublish: false\n---\n# A\n"),
            ("other/b.md", b"publish: false\n"),
            ("other/c.json", br#"{"publish": true, "text": "x"}"#),
            ("other/d.jsonl", b"{\"publish\": true}\n{\"Publish\": \"no\"}\n{}\n"),
            ("other/e.txt", b"publish: false"),
        ]);
        let says = |id| document(home.path(), id).publish;
        let all = ["a.md", "b.md", "c.json", "e.txt"].map(says);
        assert_eq!(all, [Some(false), Some(false), Some(true), Some(false)]);
        let lines = items(home.path(), "d.jsonl");
        let says = |key: &String| lines.get(key).unwrap().publish;
        let all: Vec<Option<bool>> = lines.keys().iter().map(says).collect();
        assert_eq!(all, [Some(true), Some(false), None], "each item speaks for itself");
    }

    #[test]
    fn a_path_that_leads_out_of_the_bus_home_is_refused() {
        let home = home(&[("other/a.txt", b"in"), ("secret.txt", b"out")]);
        std::os::unix::fs::symlink("../secret.txt", home.path().join("other/link.txt")).unwrap();
        for id in ["../secret.txt", "/etc/passwd", "", "a/../../secret.txt", "link.txt"] {
            let Err(defect) = read(&HostDisk, home.path(), id) else { panic!("{id} was read") };
            assert_eq!(defect.reason, ReasonCode::PathOutsideBusHome, "{id}");
        }
        for id in ["nope.txt", "a.txt/b.txt"] {
            assert!(read(&HostDisk, home.path(), id).is_err(), "{id}");
        }
    }
}
