//! Appending to partitions of ours: what is there stays, what is new goes to the end, and the
//! manifest is written again. Without new records no file changes.
//!
//! Contract: memory follows the number of records, never their length: of what is there already
//! only a key of each id is held, and beyond a bound not even that. What is new goes into a
//! temporary file beside the partition, which takes its place when the import is finished; an
//! import that fails leaves every partition that was not finished as it was.
//!
//! See docs/adr/0012-imports-only-append.md.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use serde_json::{Value, json};

use super::{ImportError, PRODUCER, Report, Target, disk_error};
use crate::contract::hash::{Digest, Hasher, sha256};
use crate::contract::json::{line, to_file};
use crate::contract::places::folded;
use crate::contract::privacy::{LOCAL_ONLY, says_local_only};
use crate::contract::publish::said;
use crate::contract::source::{FOLDER, Person};
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::Day;
use crate::contract::versions::file_of_item;
use crate::markup::members::people_of;
use crate::os::{DiskFile, Open};
use crate::upstream::Family;
use crate::upstream::index::IdKey;
use crate::upstream::lines::{BUS_LINE_BYTES_MAX, Lines};

/// The partition of documents that lie in no folder.
const NO_FOLDER: &str = "files";
/// The name of the rule that cuts documents into chunks, in manifests.
pub(super) const CHUNKING_POLICY: &str = "headings_or_paragraphs.4000.v2";
const MODE: u32 = 0o640;
const EVENT_ID: &str = "event_id";
/// The member of the source of an event whose own id another record of the file has: the line of that record.
pub(super) const SAME_ID_AS_LINE: &str = "same_id_as_line";
/// Ids that are held before what was begun is finished.
const IDS_MAX: usize = if cfg!(test) { 50 } else { 4 << 20 };
/// A longer line of a partition is read by nobody, and its partition with it.
const LINE_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { BUS_LINE_BYTES_MAX };
/// Bytes written in one call.
const WRITE_BYTES: usize = 1 << 20;

/// A record that is to be written into a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    /// What new records of a partition are sorted by.
    pub order: i64,
    pub id: String,
    pub value: Value,
}

impl NewRecord {
    /// What a person knows it by.
    pub(super) fn name(&self) -> &str {
        self.value["title"].as_str().unwrap_or(&self.id)
    }

    pub(super) fn key(&self) -> RecordKey {
        let (content, place) = (content_of_event(&self.value), Place::of(&self.value));
        RecordKey { id: self.id.clone(), at: self.order, content, place }
    }
}

/// What a record is known by before it is put on a bus: there another record may have its id already.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordKey {
    pub(super) id: String,
    at: i64,
    content: u64,
    place: Place,
}

/// How a record is like another one that has its id on another day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    Same,
    /// Of the same feed or file, with another content.
    Newer,
    Other,
}

/// A number for what an event says. A mail is the same with another footer, so its number is that of its sender
/// and time.
fn content_of_event(event: &Value) -> u64 {
    let is_mail = event["source"]["source_system"] == "mail";
    let members = if is_mail { ["from", "timestamp_ms"] } else { ["title", "content"] };
    number_of(members.map(|name| &event[name]))
}

/// Where an event belongs, as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Its conversation or its feed.
    Named(u64),
    /// Its file, where it names neither.
    File(u64),
    /// A mail has one id wherever it lies.
    Anywhere,
}

impl Place {
    fn of(event: &Value) -> Place {
        if event["source"]["source_system"] == "mail" {
            return Place::Anywhere;
        }
        let named = ["conversation_id", "feed"].map(|name| &event[name]);
        match named.iter().all(|one| one.is_null()) {
            true => Place::File(number_of([&event["source"]["source_uri"]])),
            false => Place::Named(number_of(named)),
        }
    }
}

impl Place {
    /// Reads what `to_string` writes.
    fn parse(text: &str) -> Option<Place> {
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        match text.split_once(' ') {
            None => (text == "anywhere").then_some(Place::Anywhere),
            Some(("named", digits)) => number(digits).map(Place::Named),
            Some(("file", digits)) => number(digits).map(Place::File),
            Some(_) => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Named(number) => write!(f, "named {number:016x}"),
            Place::File(number) => write!(f, "file {number:016x}"),
            Place::Anywhere => f.write_str("anywhere"),
        }
    }
}

fn number_of<const N: usize>(parts: [&Value; N]) -> u64 {
    let mut hasher = Hasher::new();
    for part in parts {
        hasher.update(line(part)).update(b"\n");
    }
    let [a, b, c, d, e, f, g, h, ..] = hasher.finish().0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Letters of a partition. Its files have endings of their own, and 255 bytes are the most that a file name has.
const PARTITION_LETTERS: usize = 180;

/// A name in the letters that partitions may have; `None` when no letter is left. Long names that begin alike stay apart.
fn in_partition_letters(name: &str) -> Option<String> {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' };
    let safe: String = name.to_lowercase().chars().map(safe).collect();
    let safe = safe.trim_matches('-');
    match safe.len() {
        0 => None,
        1..=PARTITION_LETTERS => Some(safe.to_owned()),
        _ => {
            let hash = sha256(name).hex();
            Some(format!("{}-{}", &safe[..PARTITION_LETTERS - 17], &hash[..16]))
        }
    }
}

/// The partition of a document: the first folder of its name, in the letters partitions may have.
pub(crate) fn partition_of(name: &str) -> String {
    let folder = name.split_once('/').map_or(NO_FOLDER, |(folder, _)| folder);
    in_partition_letters(folder).unwrap_or_else(|| NO_FOLDER.to_owned())
}

/// The partition of a folder that is imported.
pub(crate) fn partition_of_folder(folder: &str) -> String {
    in_partition_letters(folder).unwrap_or_else(|| "imported".to_owned())
}

/// Partitions of one family that grow.
pub(crate) struct Appender<'a> {
    target: Target<'a>,
    family: Family,
    growing: BTreeMap<String, Growing>,
}

impl<'a> Appender<'a> {
    /// Appends events to days.
    pub(crate) fn events(target: Target<'a>) -> Appender<'a> {
        Appender { target, family: Family::Events, growing: BTreeMap::new() }
    }

    /// Appends sessions to days.
    pub(super) fn sessions(target: Target<'a>) -> Appender<'a> {
        Appender { target, family: Family::Sessions, growing: BTreeMap::new() }
    }

    pub(crate) fn chunks(target: Target<'a>) -> Appender<'a> {
        Appender { target, family: Family::Chunks, growing: BTreeMap::new() }
    }

    /// Takes records of a partition, those that are new in order. They are shown by `finish`.
    pub(crate) fn take(
        &mut self,
        partition: &str,
        mut records: Vec<NewRecord>,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let target = self.target;
        // Stable: what has the same time stays in the order of its file.
        records.sort_by_key(|record| record.order);
        let id = id_member(self.family);
        let beside = match self.family {
            Family::Events => beside_in_file(&records),
            _ => HashSet::new(),
        };
        let growing = self.growing(partition, report)?;
        let mut lines = String::new();
        for record in records {
            let file = file_of_record(&record.value).to_owned();
            let is_beside = !beside.is_empty() && beside.contains(&(record.id.clone(), file));
            let Some(record) = growing.new_record(record, (id, is_beside), report) else {
                report.known += 1;
                continue;
            };
            let line = line(&record.value);
            if line.len() >= LINE_BYTES_MAX {
                report.refuse(record);
                continue;
            }
            growing.tally.add(&record.value);
            lines.push_str(&line);
            lines.push('\n');
            growing.added += 1;
            if lines.len() >= WRITE_BYTES {
                growing.write(target, &lines)?;
                lines.clear();
            }
        }
        growing.write(target, &lines)
    }

    /// The number of a content of a file: 0 for one that was never there before. A content that comes back
    /// after another one has a number of its own, so that it is the newest again.
    pub(super) fn returned(
        &mut self,
        partition: &str,
        file: &str,
        content: &str,
        report: &mut Report,
    ) -> Result<u64, ImportError> {
        let growing = self.growing(partition, report)?;
        let newest = growing.files.get(file);
        let was_there = growing.contents.contains(&content_of(file, content));
        Ok(match newest {
            Some(newest) if newest.content == IdKey::of(content) => newest.returned,
            Some(newest) if was_there => newest.changes + 1,
            _ => 0,
        })
    }

    /// Whether a partition of ours has a document of this file; with `content`, whether that is its newest.
    pub(super) fn holds(
        &mut self,
        partition: &str,
        file: &str,
        content: Option<&str>,
        report: &mut Report,
    ) -> Result<bool, ImportError> {
        let is_it = |content: &str, newest: &NewestContent| newest.content == IdKey::of(content);
        self.in_ours(partition, report, |growing| {
            let newest = growing.files.get(file);
            newest.is_some_and(|newest| content.is_none_or(|content| is_it(content, newest)))
        })
    }

    /// Whether a partition of ours has a record with this id, or had one that a person took back.
    pub(super) fn has(
        &mut self,
        partition: &str,
        id: &str,
        report: &mut Report,
    ) -> Result<bool, ImportError> {
        self.in_ours(partition, report, |growing| growing.known.contains_key(&IdKey::of(id)))
    }

    /// Whether a person took the record with this id out of a partition of ours.
    pub(super) fn is_forgotten(
        &mut self,
        partition: &str,
        id: &str,
        report: &mut Report,
    ) -> Result<bool, ImportError> {
        self.in_ours(partition, report, |growing| growing.gone.contains_key(id))
    }

    /// What a partition of ours says; of one that is not ours nothing is said here. The program that writes there
    /// gets the error.
    fn in_ours(
        &mut self,
        partition: &str,
        report: &mut Report,
        says: impl FnOnce(&Growing) -> bool,
    ) -> Result<bool, ImportError> {
        match self.growing(partition, report) {
            Ok(growing) => Ok(says(growing)),
            Err(ImportError::Foreign { .. } | ImportError::Damaged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn target(&self) -> Target<'a> {
        self.target
    }

    /// How a record is like the one that has its id in a partition.
    pub(super) fn likeness(
        &mut self,
        partition: &str,
        key: &RecordKey,
        report: &mut Report,
    ) -> Result<Likeness, ImportError> {
        match self.growing(partition, report) {
            Ok(growing) => Ok(growing.likeness(key)),
            Err(ImportError::Foreign { .. } | ImportError::Damaged { .. }) => Ok(Likeness::Other),
            Err(error) => Err(error),
        }
    }

    /// The files whose documents are in a partition, each with its newest content.
    pub(super) fn files(
        &mut self,
        partition: &str,
        report: &mut Report,
    ) -> Result<Vec<(String, IdKey)>, ImportError> {
        let files = self.growing(partition, report)?.files.iter();
        Ok(files.map(|(name, newest)| (name.clone(), newest.content)).collect())
    }

    fn growing(
        &mut self,
        partition: &str,
        report: &mut Report,
    ) -> Result<&mut Growing, ImportError> {
        if !self.growing.contains_key(partition) {
            if self.growing.values().map(|one| one.known.len()).sum::<usize>() >= IDS_MAX {
                self.show(report)?;
            }
            let growing = Growing::open(self.target, self.family, partition)?;
            self.growing.insert(partition.to_owned(), growing);
        }
        Ok(self.growing.get_mut(partition).expect("it was put there"))
    }

    /// Shows everything that was taken.
    pub(crate) fn finish(mut self, report: &mut Report) -> Result<(), ImportError> {
        self.show(report)
    }

    fn show(&mut self, report: &mut Report) -> Result<(), ImportError> {
        while let Some((partition, growing)) = self.growing.pop_first() {
            if growing.temporary.is_some() {
                let added = growing.added;
                growing.show(self.target, self.family, &partition)?;
                report.added += added;
                report.changed(self.family.data_path(&partition));
            }
        }
        Ok(())
    }
}

impl Drop for Appender<'_> {
    fn drop(&mut self) {
        for growing in self.growing.values() {
            if let Some((path, _)) = &growing.temporary {
                // The rest is hidden, is never read, and blocks no later import.
                let _ = self.target.disk.remove_file(path);
            }
        }
    }
}

/// What a file held when it was imported last.
struct NewestContent {
    content: IdKey,
    /// Its number, as [`Appender::returned`] gave it.
    returned: u64,
    /// How many contents the file had before.
    changes: u64,
}

/// Records that a person took back, by their ids: of events the numbers of their content and place. An id alone
/// does not name a text: many programs count their records from 1.
type Gone = BTreeMap<String, Option<(u64, Place)>>;

/// One partition, as it is and as it is about to be.
struct Growing {
    data: PathBuf,
    /// The ids that are there.
    known: HashMap<IdKey, Known>,
    /// The records that a person took back, by their ids. The same text does not come again.
    gone: Gone,
    /// The newest content of each file, by its name.
    files: BTreeMap<String, NewestContent>,
    /// Every content of every file.
    contents: HashSet<IdKey>,
    /// Contents that were read before this import. What a reader finds in the same bytes may change with the reader,
    /// and adds nothing to a document that is there.
    read_before: HashSet<IdKey>,
    tally: Tally,
    /// Over everything that the next manifest covers.
    hasher: Hasher,
    bytes: u64,
    added: u64,
    /// Where what is new was written, and its bytes so far.
    temporary: Option<(PathBuf, u64)>,
}

impl Growing {
    fn of(data: PathBuf) -> Growing {
        Growing {
            data,
            known: HashMap::new(),
            gone: Gone::new(),
            files: BTreeMap::new(),
            contents: HashSet::new(),
            read_before: HashSet::new(),
            tally: Tally::default(),
            hasher: Hasher::new(),
            bytes: 0,
            added: 0,
            temporary: None,
        }
    }

    /// What the manifest of a partition of ours covers; no manifest covers the bytes after that.
    fn open(target: Target<'_>, family: Family, partition: &str) -> Result<Growing, ImportError> {
        let path = family.data_path(partition);
        let data = target.root.join(&path);
        let mut growing = Growing::of(data.clone());
        let file = match target.disk.open_beneath(target.root, &data) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(disk_error("open", &data)(error)),
        };
        let foreign = || ImportError::Foreign { path: path.clone() };
        let manifest = target.root.join(family.manifest_path(partition));
        let manifest = target
            .disk
            .read_beneath(target.root, &manifest)
            .map_err(disk_error("read", &manifest))?;
        let Some(manifest) = manifest else {
            // Data without a manifest: a first import that was interrupted, or somebody at work.
            let stat = file.map(|file| file.stat()).transpose();
            let stat = stat.map_err(disk_error("inspect", &data))?;
            return match stat.is_some_and(|stat| stat.len > 0) {
                true => Err(foreign()),
                false => Ok(growing),
            };
        };
        let manifest: Value = serde_json::from_slice(&manifest).map_err(|_| foreign())?;
        if manifest["producer"]["name"] != PRODUCER {
            return Err(foreign());
        }
        let damaged = || ImportError::Damaged { path: path.clone() };
        growing.gone = gone_of(&manifest);
        let known = growing.gone.iter().filter_map(|(id, numbers)| {
            let (content, place) = (*numbers)?;
            // No mark makes it another record.
            let marks = Marks { private: true, local_only: true };
            Some((IdKey::of(id), Known { marks, content, place, text: 0, project: 0 }))
        });
        growing.known = known.collect();
        let covered = manifest["integrity"]["bytes"].as_u64().ok_or_else(damaged)?;
        let id = id_member(family);
        let lines = Lines::new(file.ok_or_else(damaged)?, covered);
        growing.read(lines, id).map_err(disk_error("read", &data))?;
        let declared = manifest["integrity"]["sha256"].as_str().unwrap_or_default();
        match declared.parse::<Digest>() == Ok(growing.hasher.finish()) {
            true => Ok(growing),
            false => Err(damaged()),
        }
    }

    fn read(&mut self, mut lines: Lines, id: &str) -> io::Result<()> {
        while let Some((_, line)) = lines.next_line()? {
            // Every line of ours ends; of one that does not, the hash is another.
            self.hasher.update(line).update(b"\n");
            self.bytes += line.len() as u64 + 1;
            if let Ok(record) = serde_json::from_slice::<Value>(line) {
                if let Some(id) = record[id].as_str() {
                    self.known.insert(IdKey::of(id), Known::of(&record));
                }
                self.take_file(&record);
                self.read_before.extend(content_read(&record));
                self.tally.add(&record);
            }
        }
        Ok(())
    }

    /// A record that is not there yet. What is there is never changed: an event that got a mark, and one that
    /// says something else under the same id, get another id, which the report names. The event of before is the older
    /// version, unless its file has both.
    fn new_record(
        &mut self,
        mut record: NewRecord,
        (id, is_beside): (&str, bool),
        report: &mut Report,
    ) -> Option<NewRecord> {
        let known = Known::of(&record.value);
        if id == EVENT_ID {
            let key = record.key();
            let first = self.id_in_place(&key);
            let content = self.content_id(&first, &key);
            let is_of_another =
                first != key.id || key.place == Place::Anywhere && content != key.id;
            let own = self.marked_id(&content, known.marks);
            // A mail never replaces another one: anybody can send one with the id of another.
            // A version of one of another day names that one. Two texts that a file has beside each other are none.
            let is_of_its_file = is_beside && content != first && own == content;
            let first = if key.place == Place::Anywhere { &content } else { &first };
            let is_version = own != *first && !is_of_its_file;
            if is_version && record.value["source"]["version_of"].is_null() {
                record.value["source"]["version_of"] = first.as_str().into();
            }
            if own != record.id {
                record.value[id] = own.as_str().into();
                report.renamed.insert(key, own.clone());
                record.id = own;
            }
            let is_new = !self.known.contains_key(&IdKey::of(&record.id));
            if !is_new || !record.value["source"][SAME_ID_AS_LINE].is_null() {
                // It is there already, or its file said so.
            } else if is_of_another {
                report.repeats(&record, "another text of its day");
            } else if is_of_its_file {
                report.repeats(&record, "another text of its file");
            }
        }
        let is_gone = self.gone.contains_key(&record.id);
        let content = content_read(&record.value);
        let was_read = content.is_some_and(|content| self.read_before.contains(&content));
        let there = self.known.get(&IdKey::of(&record.id));
        let is_new = !is_gone && !was_read && there.is_none();
        if let Some(there) = there.filter(|_| !is_gone) {
            if Place::of(&record.value) == Place::Anywhere && there.text != known.text {
                report.keeps_first(&record);
            }
            if !project_of(&record.value).is_null() && there.project != known.project {
                let file = file_of_item(file_of_record(&record.value));
                // A session names its messages, whose files are told.
                if !file.is_empty() {
                    report.other_projects.insert(file.to_owned());
                }
            }
        }
        if is_new {
            self.known.insert(IdKey::of(&record.id), known);
            self.take_file(&record.value);
        }
        is_new.then_some(record)
    }

    /// The id of the source of a record: its own, unless a record of another place has it. A file may have
    /// got another name since: a record of it with a content that is known is the same.
    fn id_in_place(&self, key: &RecordKey) -> String {
        let holds = |id: &str| self.known.contains_key(&IdKey::of(id));
        let known = self.known.get(&IdKey::of(&key.id)).map(|known| known.place);
        let number = match (key.place, known) {
            (place, Some(known)) if place == known => return key.id.clone(),
            (_, None) | (Place::Anywhere, _) => return key.id.clone(),
            (Place::File(_), Some(Place::File(_))) if holds(&self.content_id(&key.id, key)) => {
                return key.id.clone();
            }
            (Place::Named(number) | Place::File(number), Some(_)) => number,
        };
        let place = format!("{number:016x}");
        stable_id("evt", &[Part::Labelled("place", &place), Part::Opaque(&key.id)])
    }

    fn likeness(&self, key: &RecordKey) -> Likeness {
        let known = self.known.get(&IdKey::of(&key.id));
        let holds = |id: &str| self.known.contains_key(&IdKey::of(id));
        match known {
            Some(known) if known.place == key.place => {
                let content = self.content_id(&key.id, key);
                let is_mail = key.place == Place::Anywhere;
                match holds(&content) {
                    true => Likeness::Same,
                    false if is_mail => Likeness::Other,
                    false => Likeness::Newer,
                }
            }
            _ => Likeness::Other,
        }
    }

    /// The id of a source with this content: its own, unless it was another content that came first.
    fn content_id(&self, id: &str, key: &RecordKey) -> String {
        match self.known.get(&IdKey::of(id)) {
            Some(known) if known.content != key.content => {
                let content = format!("{:016x}", key.content);
                stable_id("evt", &[Part::Labelled("content", &content), Part::Opaque(id)])
            }
            _ => id.to_owned(),
        }
    }

    /// The id of a record with these marks: another one for each mark that the record did not have when it came.
    fn marked_id(&self, id: &str, marks: Marks) -> String {
        let known = |id: &str| self.known.get(&IdKey::of(id)).map(|known| known.marks);
        let mut id = id.to_owned();
        if marks.private && known(&id).is_some_and(|known| !known.private) {
            id = stable_id("evt", &[Part::Text("private"), Part::Opaque(&id)]);
        }
        if marks.local_only && known(&id).is_some_and(|known| !known.local_only) {
            id = stable_id("evt", &[Part::Text(LOCAL_ONLY), Part::Opaque(&id)]);
        }
        id
    }

    /// Remembers the content of the file that a chunk is of.
    fn take_file(&mut self, record: &Value) {
        let word = |name: &str| record["provenance"][name].as_str();
        let (Some(file), Some(content)) = (word("source_uri"), word("source_checksum")) else {
            return;
        };
        let returned = record["provenance"]["returned"].as_u64().unwrap_or(0);
        self.contents.insert(content_of(file, content));
        let content = IdKey::of(content);
        let first = NewestContent { content, returned, changes: 0 };
        let newest = self.files.entry(file.to_owned()).or_insert(first);
        if (newest.content, newest.returned) != (content, returned) {
            *newest = NewestContent { content, returned, changes: newest.changes + 1 };
        }
    }

    /// Lines that follow.
    fn write(&mut self, target: Target<'_>, lines: &str) -> Result<(), ImportError> {
        if lines.is_empty() {
            return Ok(());
        }
        let (path, at) = match self.temporary.take() {
            Some(temporary) => temporary,
            None => (self.begin(target)?, self.bytes),
        };
        let written = target.disk.open(&path, Open::ReadWrite);
        let written = written.and_then(|file| file.write_all_at(lines.as_bytes(), at));
        self.temporary = Some((path.clone(), at + lines.len() as u64));
        written.map_err(disk_error("write", &path))?;
        self.hasher.update(lines);
        Ok(())
    }

    /// A copy of what is there.
    fn begin(&self, target: Target<'_>) -> Result<PathBuf, ImportError> {
        let name = self.data.file_name().unwrap_or_default().to_string_lossy();
        let path = self.data.with_file_name(format!(".{name}.tmp"));
        let folder = self.data.parent().unwrap_or(target.root);
        target.disk.create_dir_all(folder).map_err(disk_error("create", folder))?;
        target.disk.remove_file(&path).map_err(disk_error("remove", &path))?;
        let new = target.disk.open(&path, Open::CreateNew(MODE));
        let new = new.map_err(disk_error("create", &path))?;
        if self.bytes > 0 {
            let old = target.disk.open_beneath(target.root, &self.data);
            let copied = old.and_then(|old| copy(&old, &new, self.bytes));
            copied.map_err(disk_error("copy", &self.data))?;
        }
        Ok(path)
    }

    /// Replaces the data file by the written one, and then its manifest.
    fn show(&self, target: Target<'_>, family: Family, partition: &str) -> Result<(), ImportError> {
        self.show_data(target)?;
        self.show_manifest(target, family, partition)
    }

    fn show_data(&self, target: Target<'_>) -> Result<(), ImportError> {
        let Some((temporary, _)) = &self.temporary else { return Ok(()) };
        let synced = target.disk.open(temporary, Open::ReadWrite).and_then(|file| file.sync());
        synced.map_err(disk_error("sync", temporary))?;
        let renamed = target.disk.rename(temporary, &self.data);
        renamed.map_err(disk_error("rename", &self.data))?;
        let folder = self.data.parent().unwrap_or(target.root);
        target.disk.sync_dir(folder).map_err(disk_error("sync", folder))
    }

    fn show_manifest(
        &self,
        target: Target<'_>,
        family: Family,
        partition: &str,
    ) -> Result<(), ImportError> {
        let Some((_, bytes)) = &self.temporary else { return Ok(()) };
        let hash = self.hasher.finish().hex();
        let mut manifest = match family {
            Family::Chunks => self.tally.chunk_manifest(target, partition, &hash, *bytes),
            Family::Sessions => self.tally.session_manifest(target, partition, &hash, *bytes),
            _ => self.tally.event_manifest(target, partition, &hash, *bytes),
        };
        if !self.gone.is_empty() {
            manifest["forgotten"] = forgotten(&self.gone);
        }
        let manifest = to_file(&manifest).expect("a JSON value always serializes");
        let path = target.root.join(family.manifest_path(partition));
        let folder = path.parent().unwrap_or(target.root);
        target.disk.create_dir_all(folder).map_err(disk_error("create", folder))?;
        let replaced = target.disk.replace(&path, manifest.as_bytes(), MODE);
        replaced.map_err(disk_error("write", &path))
    }
}

/// Bytes of a text that is not likely to stand in two places by chance.
const SAME_TEXT_BYTES: usize = 32;

/// Records that a person takes back.
#[derive(Debug, Default)]
pub(crate) struct TakenBack {
    /// Their ids, those of their documents included.
    pub ids: BTreeSet<String>,
    /// Sessions that go because one of their events does. Their other events stay.
    pub broken: BTreeSet<String>,
    /// The names of the files of which all of it goes.
    pub files: BTreeSet<String>,
    /// Authors, as people write them.
    pub authors: BTreeSet<String>,
    /// Events and sessions of earlier days.
    pub before: Option<Day>,
    /// Documents and events of which one version names an author, by file and own id: all versions go.
    pub versions: BTreeSet<(String, String)>,
    /// Files that hold texts of these authors and of others, such as the rows of a table: no text of others goes.
    pub shared: BTreeSet<String>,
}

/// The file of a chunk, whichever part of it its document is.
fn file_of_chunk(record: &Value) -> Option<&str> {
    record["provenance"]["source_uri"].as_str().map(file_of_item)
}

/// What all versions of a record have in common: its file, and its id there. A chunk has no id of its own, so
/// all chunks of its file are one document.
fn version_key(family: Family, record: &Value) -> Option<(String, String)> {
    let source = match family {
        Family::Chunks => &record["provenance"],
        Family::Events => &record["source"],
        _ => return None,
    };
    // What is attached to a mail has the id of the mail, and may be by somebody else.
    let attached = record["file_name"].as_str().map(|name| format!("\n{name}"));
    let id = match family {
        Family::Chunks => String::new(),
        _ => source["source_record_id"].as_str()?.to_owned() + attached.as_deref().unwrap_or(""),
    };
    Some((source["source_uri"].as_str()?.to_owned(), id))
}

impl TakenBack {
    /// The names of the documents of which every version goes.
    pub(crate) fn documents(&self) -> impl Iterator<Item = String> + '_ {
        self.versions.iter().filter(|(_, id)| id.is_empty()).map(|(file, _)| file.clone())
    }

    fn is_version(&self, family: Family, record: &Value) -> bool {
        !self.versions.is_empty()
            && version_key(family, record).is_some_and(|key| self.versions.contains(&key))
    }

    /// Whether a record is named.
    fn means(&self, family: Family, partition: &str, record: &Value) -> bool {
        let is = |set: &BTreeSet<String>, value: &Value| {
            value.as_str().is_some_and(|word| set.contains(word))
        };
        let file = match family {
            Family::Chunks => &record["provenance"]["source_uri"],
            _ => &record["source"]["source_uri"],
        };
        let is_earlier = |before: Day| partition.parse::<Day>().is_ok_and(|day| day < before);
        is(&self.ids, &record[id_member(family)])
            || is(&self.ids, &record["document_id"])
            || is(&self.files, file)
            || self.before.is_some_and(is_earlier)
            || self.is_by_author(record)
            || self.is_version(family, record)
    }

    fn goes(&self, family: Family, partition: &str, record: &Value) -> bool {
        let id = record[id_member(family)].as_str();
        self.means(family, partition, record) || id.is_some_and(|id| self.broken.contains(id))
    }

    fn is_by_author(&self, record: &Value) -> bool {
        if self.authors.is_empty() {
            return false;
        }
        let authors: BTreeSet<String> = self.authors.iter().map(|one| folded(one)).collect();
        [record, &record["metadata"], &record["meta"]].into_iter().any(|of| {
            let people = of.as_object().into_iter().flat_map(people_of);
            people
                .flat_map(|written| Person::names_in(&written))
                .any(|name| authors.contains(&name))
        })
    }

    /// Whether a record is one of several texts of a file that others wrote too.
    fn is_shared(&self, record: &Value) -> bool {
        file_of_chunk(record).is_some_and(|file| self.shared.contains(file))
    }

    /// Finds the files that these authors share with others: one of their documents has parts of both.
    fn find_shared(&mut self, target: Target<'_>) -> Result<(), ImportError> {
        if self.authors.is_empty() {
            return Ok(());
        }
        let mut documents: BTreeMap<String, (bool, bool)> = BTreeMap::new();
        let mut shared = BTreeSet::new();
        for partition in partitions(target, Family::Chunks)? {
            each_record(target, Family::Chunks, &partition, false, &mut |_, record| {
                let Some(document) = record["document_id"].as_str() else { return };
                let (own, others) = documents.entry(document.to_owned()).or_default();
                let by_author = self.is_by_author(record);
                (*own, *others) = (*own || by_author, *others || !by_author);
                if *own && *others {
                    shared.extend(file_of_chunk(record).map(str::to_owned));
                }
            })?;
        }
        self.shared = shared;
        Ok(())
    }
}

/// The names of imported files that are a word or end with it.
pub(crate) fn files_named(target: Target<'_>, word: &str) -> Result<BTreeSet<String>, ImportError> {
    let mut found = BTreeSet::new();
    each_file(target, &mut |file, _| {
        let before = file.strip_suffix(word);
        if before.is_some_and(|before| before.is_empty() || before.ends_with('/')) {
            found.insert(file.to_owned());
        }
    })?;
    Ok(found)
}

/// Gives each imported record with the name of its file.
fn each_file(target: Target<'_>, f: &mut dyn FnMut(&str, &Value)) -> Result<(), ImportError> {
    for family in Family::ALL {
        for partition in partitions(target, family)? {
            each_record(target, family, &partition, true, &mut |_, record| {
                let file = match family {
                    Family::Chunks => &record["provenance"]["source_uri"],
                    _ => &record["source"]["source_uri"],
                };
                f(file_of_item(file.as_str().unwrap_or_default()), record);
            })?;
        }
    }
    Ok(())
}

/// The files of imported records that have no folder on record, each with the number of its records.
pub(crate) fn files_without_folder(
    target: Target<'_>,
) -> Result<BTreeMap<String, u64>, ImportError> {
    let mut found = BTreeMap::new();
    each_file(target, &mut |file, record| {
        // A session is that of its messages.
        let is_session = !record["event_ids"].is_null();
        let has_folder = file.contains('/') || !record["source"][FOLDER].is_null();
        if !file.is_empty() && !has_folder && !is_session {
            *found.entry(file.to_owned()).or_default() += 1;
        }
    })?;
    Ok(found)
}

/// The files of which records are there, among these.
pub(crate) fn files_held(
    target: Target<'_>,
    files: &BTreeSet<String>,
) -> Result<BTreeSet<String>, ImportError> {
    let mut found = BTreeSet::new();
    each_file(target, &mut |file, _| found.extend(files.get(file).cloned()))?;
    Ok(found)
}

/// Gives the text of each record that goes.
pub(crate) fn each_text_that_goes(
    target: Target<'_>,
    back: &TakenBack,
    f: &mut dyn FnMut(&str),
) -> Result<(), ImportError> {
    for family in [Family::Events, Family::Chunks] {
        for partition in partitions(target, family)? {
            each_record(target, family, &partition, false, &mut |_, record| {
                if back.goes(family, &partition, record) {
                    f(record["text"].as_str().or(record["content"].as_str()).unwrap_or_default());
                }
            })?;
        }
    }
    Ok(())
}

/// Adds the ids of all records that go: those named, those of a file, an author or an earlier day, the events of
/// a session that is named, and each session that loses an event. Of a text that an author wrote all versions go,
/// also those that name no author. Nothing is changed. Returns how many records go.
pub(crate) fn find_taken_back(
    target: Target<'_>,
    back: &mut TakenBack,
) -> Result<u64, ImportError> {
    back.find_shared(target)?;
    // An event breaks its session, and a session brings its events; so this ends when nothing is added.
    loop {
        let size = |back: &TakenBack| back.ids.len() + back.broken.len() + back.versions.len();
        let (before, mut found) = (size(back), 0);
        for family in Family::ALL {
            for partition in partitions(target, family)? {
                each_record(target, family, &partition, false, &mut |_, record| {
                    let words = |name: &str| record[name].as_array().into_iter().flatten();
                    let events: Vec<&str> = words("event_ids").filter_map(Value::as_str).collect();
                    let own = [id_member(family), "document_id"];
                    let own = own.into_iter().filter_map(|name| record[name].as_str());
                    if back.means(family, &partition, record) {
                        found += 1;
                        let by_author = back.is_by_author(record);
                        // Of a row of a table only the row goes. Its document loses its summary by that.
                        let count =
                            if by_author && back.is_shared(record) { 1 } else { usize::MAX };
                        back.ids.extend(own.take(count).chain(events).map(str::to_owned));
                        if by_author && !back.is_shared(record) {
                            back.versions.extend(version_key(family, record));
                        }
                    } else if events.iter().any(|id| back.ids.contains(*id)) {
                        found += 1;
                        back.broken.extend(own.map(str::to_owned));
                    }
                })?;
            }
        }
        if size(back) == before {
            return Ok(found);
        }
    }
}

/// The files with other records that have the same text as a record that goes.
pub(crate) fn same_text_elsewhere(
    target: Target<'_>,
    back: &TakenBack,
) -> Result<BTreeSet<String>, ImportError> {
    let text_of = |record: &Value| {
        let text =
            record["text"].as_str().or(record["content"].as_str()).unwrap_or_default().trim();
        (text.len() >= SAME_TEXT_BYTES).then(|| IdKey::of(text))
    };
    let mut gone = BTreeSet::new();
    let each = |f: &mut dyn FnMut(bool, &Value)| {
        for family in [Family::Events, Family::Chunks] {
            for partition in partitions(target, family)? {
                each_record(target, family, &partition, false, &mut |_, record| {
                    f(back.goes(family, &partition, record), record);
                })?;
            }
        }
        Ok(())
    };
    each(&mut |goes, record| gone.extend(text_of(record).filter(|_| goes)))?;
    let mut files = BTreeSet::new();
    each(&mut |goes, record| {
        if !goes && text_of(record).is_some_and(|text| gone.contains(&text)) {
            let file = record["source"]["source_uri"].as_str();
            let file = file.or(record["provenance"]["source_uri"].as_str());
            // A list has one document for each day, and one name.
            files.extend(file.map(|file| file_of_item(file).to_owned()));
        }
    })?;
    Ok(files)
}

/// Takes records out of our partitions; how many those were. A line of blanks as long as the record stays in
/// its place, so that the places of all others still hold.
pub(crate) fn take_back(target: Target<'_>, back: &TakenBack) -> Result<u64, ImportError> {
    let mut count = 0;
    for family in Family::ALL {
        for partition in partitions(target, family)? {
            let mut gone = BTreeSet::new();
            each_record(target, family, &partition, true, &mut |offset, record| {
                if back.goes(family, &partition, record) {
                    gone.insert(offset);
                }
            })?;
            if !gone.is_empty() || !is_shown(target, family, &partition)? {
                count += gone.len() as u64;
                blank(target, family, &partition, &gone)?;
            }
        }
    }
    Ok(count)
}

/// Whether an import made a file of the buses.
pub(crate) fn is_ours(target: Target<'_>, path: &str) -> Result<bool, ImportError> {
    let partition = |family: Family| {
        let name = path.strip_prefix(family.data_dir())?.strip_prefix('/')?;
        Some((family, family.partition_of_data(name)?))
    };
    match Family::ALL.into_iter().find_map(partition) {
        Some((family, partition)) => Ok(our_manifest(target, family, partition)?.is_some()),
        None => Ok(false),
    }
}

/// The manifest of a partition that an import made.
fn our_manifest(
    target: Target<'_>,
    family: Family,
    partition: &str,
) -> Result<Option<Value>, ImportError> {
    let path = target.root.join(family.manifest_path(partition));
    let manifest =
        target.disk.read_beneath(target.root, &path).map_err(disk_error("read", &path))?;
    let manifest = manifest.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    Ok(manifest.filter(|one| one["producer"]["name"] == PRODUCER))
}

/// The partitions of a bus that lie there.
fn partitions(target: Target<'_>, family: Family) -> Result<Vec<String>, ImportError> {
    let folder = target.root.join(family.data_dir());
    let names = match target.disk.list(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(disk_error("list", &folder))?,
    };
    let partition = |name: &String| family.partition_of_data(name).map(str::to_owned);
    Ok(names.iter().filter_map(partition).collect())
}

/// Calls `f` with each record of a partition, and its first byte. With `only_ours` a partition that no import
/// made has none.
fn each_record(
    target: Target<'_>,
    family: Family,
    partition: &str,
    only_ours: bool,
    f: &mut dyn FnMut(u64, &Value),
) -> Result<(), ImportError> {
    let data = target.root.join(family.data_path(partition));
    let file = target.disk.open_beneath(target.root, &data).map_err(disk_error("open", &data))?;
    let len = match our_manifest(target, family, partition)? {
        Some(manifest) => manifest["integrity"]["bytes"].as_u64().unwrap_or(0),
        None if only_ours => return Ok(()),
        None => file.stat().map_err(disk_error("inspect", &data))?.len,
    };
    let mut lines = Lines::new(file, len);
    while let Some((at, line)) = lines.next_line().map_err(disk_error("read", &data))? {
        if let Ok(record) = serde_json::from_slice::<Value>(line) {
            f(at.offset, &record);
        }
    }
    Ok(())
}

/// Whether a partition is as its manifest says, or the manifest is not of one from which something was taken.
fn is_shown(target: Target<'_>, family: Family, partition: &str) -> Result<bool, ImportError> {
    let Some(manifest) = our_manifest(target, family, partition)? else { return Ok(true) };
    match manifest["forgotten"].is_null() {
        true => Ok(true),
        false => Ok(hash_of(target, family, partition, &manifest)? == declared_hash(&manifest)),
    }
}

fn declared_hash(manifest: &Value) -> Option<Digest> {
    manifest["integrity"]["sha256"].as_str().unwrap_or_default().parse().ok()
}

/// The hash of what a manifest covers.
fn hash_of(
    target: Target<'_>,
    family: Family,
    partition: &str,
    manifest: &Value,
) -> Result<Option<Digest>, ImportError> {
    let data = target.root.join(family.data_path(partition));
    let file = target.disk.open_beneath(target.root, &data).map_err(disk_error("open", &data))?;
    let lines = Lines::new(file, manifest["integrity"]["bytes"].as_u64().unwrap_or(0));
    let (_, hash) = lines.finish().map_err(disk_error("read", &data))?;
    Ok(Some(hash))
}

/// Writes a partition again with blanks in the place of some records. Its manifest comes first and names what is
/// gone: after a crash before the data follows, doing it again leads to the bytes that the manifest names.
fn blank(
    target: Target<'_>,
    family: Family,
    partition: &str,
    gone: &BTreeSet<u64>,
) -> Result<(), ImportError> {
    let path = family.data_path(partition);
    let Some(manifest) = our_manifest(target, family, partition)? else { return Ok(()) };
    let (data, id) = (target.root.join(&path), id_member(family));
    let mut after = Growing::of(data.clone());
    after.gone = gone_of(&manifest);
    let whole = hash_of(target, family, partition, &manifest)? == declared_hash(&manifest);
    let file = target.disk.open_beneath(target.root, &data).map_err(disk_error("open", &data))?;
    let mut lines = Lines::new(file, manifest["integrity"]["bytes"].as_u64().unwrap_or(0));
    let mut block = String::new();
    while let Some((at, line)) = lines.next_line().map_err(disk_error("read", &data))? {
        let record = serde_json::from_slice::<Value>(line).ok();
        let id = record.as_ref().and_then(|record| record[id].as_str());
        // After a crash the manifest names records that are still there.
        let goes =
            gone.contains(&at.offset) || !whole && id.is_some_and(|id| after.gone.contains_key(id));
        if goes {
            block.extend(std::iter::repeat_n(' ', line.len()));
            let known = record.as_ref().filter(|_| family == Family::Events).map(Known::of);
            let numbers = known.map(|known| (known.content, known.place));
            after.gone.extend(id.map(|id| (id.to_owned(), numbers)));
        } else {
            block.push_str(&String::from_utf8_lossy(line));
            record.iter().for_each(|record| after.tally.add(record));
        }
        block.push('\n');
        if block.len() >= WRITE_BYTES {
            after.write(target, &std::mem::take(&mut block))?;
        }
    }
    after.write(target, &block)?;
    // What differs from its manifest for another reason stays as it is.
    if !whole && Some(after.hasher.finish()) != declared_hash(&manifest) {
        return Err(ImportError::Damaged { path });
    }
    after.show_manifest(target, family, partition)?;
    after.show_data(target)
}

/// What a manifest says of the records that a person took back.
fn gone_of(manifest: &Value) -> Gone {
    let forgotten = &manifest["forgotten"];
    let ids = forgotten["ids"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let numbers = |id: &str| {
        let text = &forgotten["texts"][id];
        let content = u64::from_str_radix(text["content"].as_str()?, 16).ok()?;
        Some((content, Place::parse(text["place"].as_str()?)?))
    };
    ids.map(|id| (id.to_owned(), numbers(id))).collect()
}

/// The same for a manifest.
fn forgotten(gone: &Gone) -> Value {
    let texts: BTreeMap<&String, Value> = gone
        .iter()
        .filter_map(|(id, numbers)| {
            let (content, place) = (*numbers)?;
            Some((id, json!({"content": format!("{content:016x}"), "place": place.to_string()})))
        })
        .collect();
    let ids: Vec<&String> = gone.keys().collect();
    let mut forgotten = json!({"records": gone.len(), "ids": ids});
    if !texts.is_empty() {
        forgotten["texts"] = json!(texts);
    }
    forgotten
}

/// The ids of the records that a person took out of a partition of ours.
pub(super) fn forgotten_ids(
    target: Target<'_>,
    family: Family,
    partition: &str,
) -> Result<Vec<String>, ImportError> {
    let manifest = our_manifest(target, family, partition)?;
    Ok(manifest.map(|manifest| gone_of(&manifest).into_keys().collect()).unwrap_or_default())
}

/// The member that holds the id of a record.
fn id_member(family: Family) -> &'static str {
    match family {
        Family::Events => EVENT_ID,
        Family::Sessions => "session_id",
        Family::Chunks => "chunk_id",
        Family::Summaries(_) => "summary_id",
    }
}

/// The content of the file that a chunk was read from, and which time that content was there.
fn content_read(record: &Value) -> Option<IdKey> {
    let provenance = &record["provenance"];
    let (file, content) =
        (provenance["source_uri"].as_str()?, provenance["source_checksum"].as_str()?);
    Some(content_of(file, &format!("{content} {}", provenance["returned"].as_u64().unwrap_or(0))))
}

fn content_of(file: &str, content: &str) -> IdKey {
    IdKey::of(&format!("{file}\n{content}"))
}

/// What a record says of its privacy.
#[derive(Debug, Clone, Copy)]
struct Marks {
    private: bool,
    local_only: bool,
}

impl Marks {
    fn of(record: &Value) -> Marks {
        Marks {
            private: said(record.get("publish")) == Some(false),
            local_only: record.as_object().is_some_and(says_local_only),
        }
    }
}

/// What is known of a record that is there.
struct Known {
    marks: Marks,
    content: u64,
    place: Place,
    /// A number for its whole text; of a record that a person took back nothing is known.
    text: u64,
    /// A number for its project.
    project: u64,
}

impl Known {
    fn of(record: &Value) -> Known {
        Known {
            marks: Marks::of(record),
            content: content_of_event(record),
            place: Place::of(record),
            text: number_of([&record["content"]]),
            project: number_of([project_of(record)]),
        }
    }
}

/// The project that a record is filed under.
fn project_of(record: &Value) -> &Value {
    match &record["project"] {
        Value::Null => &record["metadata"]["project"],
        project => project,
    }
}

/// The ids of events of one file that have another event of it beside them, with another content: none of them is a
/// version of another. With each stands its file.
fn beside_in_file(records: &[NewRecord]) -> HashSet<(String, String)> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for record in records {
        *times.entry(&record.id).or_default() += 1;
    }
    let mut contents: BTreeMap<(String, String), BTreeSet<(Place, u64)>> = BTreeMap::new();
    for record in records.iter().filter(|record| times[record.id.as_str()] > 1) {
        let key = record.key();
        let places = contents.entry((key.id, file_of_record(&record.value).to_owned()));
        places.or_default().insert((key.place, key.content));
    }
    let several = |all: &BTreeSet<(Place, u64)>| {
        let places: BTreeSet<&Place> = all.iter().map(|(place, _)| place).collect();
        all.len() > places.len()
    };
    contents.into_iter().filter(|(_, all)| several(all)).map(|(key, _)| key).collect()
}

/// The file that a record was taken from.
fn file_of_record(record: &Value) -> &str {
    let places = ["/source/source_uri", "/provenance/source_uri"];
    places.iter().find_map(|place| record.pointer(place)?.as_str()).unwrap_or_default()
}

fn copy(from: &Arc<dyn DiskFile>, to: &Arc<dyn DiskFile>, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; WRITE_BYTES];
    let mut at = 0;
    while at < bytes {
        let wanted = buffer.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        match from.read_at(&mut buffer[..wanted], at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                to.write_all_at(&buffer[..count], at)?;
                at += count as u64;
            }
        }
    }
    Ok(())
}

/// What a manifest says of its records.
#[derive(Default)]
struct Tally {
    records: u64,
    by_field: BTreeMap<&'static str, BTreeMap<String, u64>>,
    subkinds: BTreeSet<String>,
    documents: HashSet<IdKey>,
    referenced: u64,
}

impl Tally {
    fn add(&mut self, record: &Value) {
        self.records += 1;
        for field in ["role", "event_kind", "domain_family"] {
            let Some(word) = record[field].as_str() else { continue };
            let counts = self.by_field.entry(field).or_default();
            match counts.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(counts.insert(word.to_owned(), 1)),
            }
        }
        if let Some(subkind) = record["event_subkind"].as_str()
            && !self.subkinds.contains(subkind)
        {
            self.subkinds.insert(subkind.to_owned());
        }
        self.documents.extend(record["document_id"].as_str().map(IdKey::of));
        self.referenced += record["event_count"].as_u64().unwrap_or_default();
    }

    fn event_manifest(&self, target: Target<'_>, day: &str, hash: &str, bytes: u64) -> Value {
        let other = || BTreeSet::from(["other"]);
        let count = |field: &str| self.by_field.get(field).cloned().unwrap_or_default();
        let by_kind = count("event_kind");
        let mut kinds = other();
        kinds.extend(by_kind.keys().map(String::as_str));
        let mut subkinds = other();
        subkinds.extend(self.subkinds.iter().map(String::as_str));
        json!({
            "schema_version": "event_manifest.v2",
            "bus_schema_version": "event.v1",
            "day": day,
            "daily_path": Family::Events.data_path(day),
            "counts": {
                "events_total": self.records,
                "events_by_role": count("role"),
                "events_by_kind": by_kind,
                "events_by_domain": count("domain_family"),
            },
            "kind_registry": {"allowed_kinds": kinds, "allowed_subkinds": subkinds},
            "integrity": {"sha256": hash, "bytes": bytes, "lines": self.records},
            "producer": producer(),
            "generated_at": target.now.to_string(),
            "warnings": [],
        })
    }

    fn session_manifest(&self, target: Target<'_>, day: &str, hash: &str, bytes: u64) -> Value {
        json!({
            "schema_version": "sessions_manifest.v1",
            "bus_schema_version": "session.v1",
            "day": day,
            "sessions_path": Family::Sessions.data_path(day),
            "counts": {
                "sessions_total": self.records,
                "events_total_referenced": self.referenced,
            },
            "integrity": {"sha256": hash, "bytes": bytes, "lines": self.records},
            "producer": producer(),
            "generated_at": target.now.to_string(),
            "warnings": [],
        })
    }

    fn chunk_manifest(&self, target: Target<'_>, partition: &str, hash: &str, bytes: u64) -> Value {
        json!({
            "schema_version": "chunks_manifest.v1",
            "partition_key": partition,
            "created_at": target.now.to_string(),
            "producer": producer(),
            "counts": {
                "documents_processed": self.documents.len(),
                "chunks_emitted": self.records,
                "failures": 0,
            },
            "checksums": {Family::Chunks.data_path(partition): hash},
            "integrity": {"sha256": hash, "bytes": bytes, "lines": self.records},
            "idempotency": {"skipped": 0},
            "errors": {},
            "chunking_policy_id": CHUNKING_POLICY,
        })
    }
}

fn producer() -> Value {
    json!({"name": PRODUCER, "repo": "summarizer", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::contract::time::Timestamp;
    use crate::os::Disk;
    use crate::os::real::HostDisk;

    #[test]
    fn long_names_give_partitions_whose_files_have_room_for_their_endings() {
        let long = "x".repeat(250);
        let [first, second] = ["a", "b"].map(|end| partition_of_folder(&format!("{long}{end}")));
        assert!(first != second && first.len() == PARTITION_LETTERS, "{first} {second}");
        assert_eq!(partition_of_folder(&long[..PARTITION_LETTERS]), long[..PARTITION_LETTERS]);
    }

    fn take(root: &Path, marks: Value, content: &str) -> Report {
        let disk: &dyn Disk = &HostDisk;
        let target = Target { disk, root, zone: chrono_tz::UTC, now: Timestamp(0) };
        let mut value =
            json!({"event_id": "evt_a", "content": content, "source": {"source_uri": "a.eml"}});
        value.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
        let record = NewRecord { order: 0, id: "evt_a".to_owned(), value };
        let mut report = Report::default();
        let mut appender = Appender::events(target);
        appender.take("2026-03-01", vec![record], &mut report).unwrap();
        appender.finish(&mut report).unwrap();
        report
    }

    fn records(root: &Path) -> Vec<Value> {
        let disk: &dyn Disk = &HostDisk;
        let data = disk.read(&root.join("eventbus/daily/2026-03-01.jsonl")).unwrap();
        let lines = data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    #[test]
    fn a_record_that_gets_a_mark_is_put_beside_the_one_without_it() {
        let dir = tempfile::tempdir().unwrap();
        let local = json!({"local_only": true});
        let private = json!({"publish": false});
        let both = json!({"publish": false, "local_only": true});
        for (marks, added) in [
            (json!({}), 1),
            (json!({}), 0),
            (local.clone(), 1),
            (local, 0),
            (private, 1),
            (both.clone(), 1),
            (both, 0),
            (json!({}), 0),
        ] {
            assert_eq!(take(dir.path(), marks.clone(), "x").added, added, "{marks}");
        }
        let all = records(dir.path());
        let ids: BTreeSet<&str> = all.iter().map(|one| one["event_id"].as_str().unwrap()).collect();
        assert_eq!((all.len(), ids.len()), (4, 4));
        assert!(all[1..].iter().all(|one| one["source"]["version_of"] == "evt_a"));
    }

    #[test]
    fn a_record_that_no_line_can_hold_is_refused_and_the_day_stays_readable() {
        let dir = tempfile::tempdir().unwrap();
        let report = take(dir.path(), json!({}), &"x".repeat(LINE_BYTES_MAX));
        assert_eq!((report.added, report.faults), (0, 1));
        assert_eq!(report.rejected[0].file, "a.eml");
        assert!(report.refused.contains("evt_a"));
        assert_eq!(take(dir.path(), json!({}), &"x".repeat(LINE_BYTES_MAX / 2)).added, 1);
        assert_eq!(take(dir.path(), json!({}), "x").added, 1);
    }

    #[test]
    fn another_text_under_a_known_id_is_put_beside_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let from = |file: &str| json!({"source": {"source_uri": file}});
        let (old, other) = (from("a.jsonl"), from("b.jsonl"));
        for (place, text, added) in [
            (&old, "The bridge is closed.", 1),
            (&old, "The bridge is open.", 1),
            (&old, "The bridge is closed.", 0),
            (&old, "The bridge is open.", 0),
            (&other, "The bridge is open.", 0),
            (&other, "Bread costs more.", 1),
            (&other, "Bread costs more.", 0),
        ] {
            assert_eq!(take(dir.path(), place.clone(), text).added, added, "{text}");
        }
        let versions: Vec<Value> =
            records(dir.path()).iter().map(|one| one["source"]["version_of"].clone()).collect();
        // The text of another file is no version of it, although it has the same id.
        assert_eq!(versions, [json!(null), json!("evt_a"), json!(null)]);
    }

    /// A feed may have two items with one id. A reader who sees only the second loses the first.
    #[test]
    fn two_texts_under_one_id_in_one_file_are_two_records_and_no_versions() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let target = Target { disk, root: dir.path(), zone: chrono_tz::UTC, now: Timestamp(0) };
        let import = |file: &str, texts: &[&str]| {
            let record = |text: &&str| {
                let value = json!({"event_id": "evt_a", "content": text, "title": "Status", "feed": "F",
                    "source": {"source_uri": file, "source_record_id": "g1"}});
                NewRecord { order: 0, id: "evt_a".to_owned(), value }
            };
            let mut report = Report::default();
            let mut appender = Appender::events(target);
            let records = texts.iter().map(record).collect();
            appender.take("2026-03-01", records, &mut report).unwrap();
            appender.finish(&mut report).unwrap();
            (report.added, report.known, report.ids_repeated)
        };
        let (down, slow, up) = ("Login is down.", "Mail is slow.", "Login works.");
        assert_eq!(import("a.xml", &[down, slow]), (2, 0, 1));
        assert_eq!(import("a.xml", &[down, slow, down]), (0, 3, 0));
        assert_eq!(import("a.xml", &[slow]), (0, 1, 0));
        assert_eq!(import("b.xml", &[up, down]), (1, 1, 1), "the feed of the next day");
        let all = records(dir.path());
        assert!(all.iter().all(|one| one["source"]["version_of"].is_null()), "{all:?}");
        assert_eq!(import("c.xml", &["Login is slow."]), (1, 0, 0), "the text was changed");
        assert_eq!(records(dir.path())[3]["source"]["version_of"], "evt_a");
    }

    /// What the import leaves out is said.
    #[test]
    fn what_is_kept_as_it_was_is_counted_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let mail = |project: &str| {
            let source = json!({"source_system": "mail", "source_uri": "in/a.eml"});
            json!({"from": "ana@x.example", "title": "Rent", "project": project, "source": source})
        };
        let report = take(dir.path(), mail("home"), "The rent is paid.");
        assert_eq!((report.other_texts, report.other_projects.len()), (0, 0));
        let report = take(dir.path(), mail("home"), "The rent is due.");
        assert_eq!((report.known, report.other_texts), (1, 1));
        assert!(report.kept_texts().is_some_and(|told| told.contains("in/a.eml: Rent")));
        let report = take(dir.path(), mail("work"), "The rent is paid.");
        assert_eq!((report.known, report.other_texts), (1, 0));
        assert_eq!(report.other_projects, BTreeSet::from(["in/a.eml".to_owned()]));
        let mut without = mail("work");
        without.as_object_mut().unwrap().remove("project");
        assert_eq!(take(dir.path(), without, "The rent is paid.").other_projects.len(), 0);
    }

    #[test]
    fn the_same_id_and_text_in_another_conversation_or_feed_is_another_record() {
        for member in ["conversation_id", "feed"] {
            let dir = tempfile::tempdir().unwrap();
            for (place, text, added) in [
                ("one", "Yes.", 1),
                ("two", "Yes.", 1),
                ("two", "Yes.", 0),
                ("one", "Yes.", 0),
                ("two", "No.", 1),
                ("two", "No.", 0),
            ] {
                let marks = json!({ member: place });
                assert_eq!(take(dir.path(), marks, text).added, added, "{member} {place}: {text}");
            }
            let all = records(dir.path());
            let versions: Vec<&Value> =
                all.iter().map(|one| &one["source"]["version_of"]).collect();
            assert_eq!(versions, [&json!(null), &json!(null), &all[1]["event_id"]]);
        }
    }

    #[test]
    fn an_id_that_was_taken_back_keeps_out_the_same_text_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let target = Target { disk, root: dir.path(), zone: chrono_tz::UTC, now: Timestamp(0) };
        let from = |file: &str| json!({"source": {"source_uri": file}});
        let private = json!({"publish": false, "source": {"source_uri": "a.jsonl"}});
        let forget = |file: &str| {
            let files = BTreeSet::from([file.to_owned()]);
            take_back(target, &TakenBack { files, ..TakenBack::default() }).unwrap()
        };
        assert_eq!(take(dir.path(), from("a.jsonl"), "The bridge is closed.").added, 1);
        assert_eq!(forget("a.jsonl"), 1);
        for (marks, text, added) in [
            (from("a.jsonl"), "The bridge is closed.", 0),
            (private, "The bridge is closed.", 0),
            (from("b.jsonl"), "Bread costs more.", 1),
            (from("b.jsonl"), "Bread costs more.", 0),
            (from("a.jsonl"), "The bridge is open.", 1),
            (from("a.jsonl"), "The bridge is open.", 0),
        ] {
            assert_eq!(take(dir.path(), marks.clone(), text).added, added, "{marks} {text}");
        }
        assert_eq!(forget("b.jsonl"), 1);
        assert_eq!(take(dir.path(), from("b.jsonl"), "Bread costs more.").added, 0);
        let ids = forgotten_ids(target, Family::Events, "2026-03-01").unwrap();
        assert_eq!((ids.len(), records_left(dir.path())), (2, 1));
        for place in [Place::Named(1), Place::File(u64::MAX), Place::Anywhere] {
            assert_eq!(Place::parse(&place.to_string()), Some(place));
        }
    }

    fn records_left(root: &Path) -> usize {
        let disk: &dyn Disk = &HostDisk;
        let data = disk.read(&root.join("eventbus/daily/2026-03-01.jsonl")).unwrap();
        let lines = data.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        lines.count()
    }

    #[test]
    fn of_a_table_only_the_rows_of_an_author_go() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn crate::os::Disk = &crate::os::real::HostDisk;
        let target = Target { disk, root: dir.path(), zone: chrono_tz::UTC, now: Timestamp(0) };
        let chunk = |id: &str, document: &str, file: &str, author: &str| {
            let value = json!({"chunk_id": id, "document_id": document, "text": id,
                "metadata": {"author": author}, "provenance": {"source_uri": file}});
            NewRecord { order: 0, id: id.to_owned(), value }
        };
        let mut chunks = Appender::chunks(target);
        let records = vec![
            chunk("c1", "d1", "a.csv#2026-03-10", "Ana"),
            chunk("c2", "d1", "a.csv#2026-03-10", "Ben"),
            chunk("c3", "d2", "a.csv#2026-03-11", "Ana"),
            chunk("c4", "d3", "note.md", "Ana"),
            chunk("c5", "d4", "note.md", ""),
        ];
        let mut report = Report::default();
        chunks.take("p", records, &mut report).unwrap();
        chunks.finish(&mut report).unwrap();
        let authors = BTreeSet::from(["ana".to_owned()]);
        let mut back = TakenBack { authors, ..TakenBack::default() };
        assert_eq!(find_taken_back(target, &mut back).unwrap(), 4);
        let ids: Vec<&str> = back.ids.iter().map(String::as_str).collect();
        assert_eq!(
            ids,
            ["c1", "c3", "c4", "c5", "d3", "d4"],
            "all versions of a text go, and no row of another"
        );
    }

    #[test]
    fn a_mail_that_has_the_id_of_another_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let from = |author: &str| json!({"from": author, "source": {"source_system": "mail"}});
        assert_eq!(take(dir.path(), from("ana@x.example"), "The rent is paid.").added, 1);
        let with_footer = "The rent is paid.\n--\nList of the house";
        assert_eq!(take(dir.path(), from("ana@x.example"), with_footer).known, 1);
        assert_eq!(take(dir.path(), from("eve@x.example"), "Pay the rent to me.").added, 1);
        assert_eq!(take(dir.path(), from("eve@x.example"), "Pay the rent to me.").known, 1);
        assert!(records(dir.path()).iter().all(|one| one["source"]["version_of"].is_null()));
    }
}
