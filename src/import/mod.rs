//! Own data onto the upstream buses: chat exports, mail, feeds, JSON lines and folders of text
//! become event days and chunk partitions that any reader of those buses accepts.
//!
//! Contract: these are the only writers of upstream files in this crate, and they touch only
//! partitions whose manifest names them. A partition is only ever appended to, so ids, hashes and
//! texts that a summary refers to stay where they are; importing the same thing again changes no
//! byte. Data is replaced before its manifest: a reader in between sees bytes appended after the
//! manifest and ignores them.

mod archive;
mod archive_parts;
mod attached;
#[cfg(feature = "internals")]
pub mod both_ways;
mod chat_json;
mod chat_text;
mod chats;
mod cited;
pub(crate) mod collect;
mod data_words;
mod decode;
pub mod documents;
mod entry_file;
mod export_archive;
mod extract;
mod feed;
pub mod fields;
mod head;
pub(crate) mod intake;
pub(crate) mod kind;
pub mod mail;
mod notebook;
mod office;
mod other_days;
mod partition;
mod pdf_marks;
pub(crate) mod read;
mod said;
mod sessions;
mod slack;
mod stream;
mod talks;
mod turn_record;
mod turns;
pub(crate) mod units;
mod xml;

pub(crate) use partition::{
    TakenBack, each_text_that_goes, files_held, files_named, files_without_folder, find_taken_back,
    is_ours, same_text_elsewhere, take_back,
};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::contract::source::FOLDER;
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::{Day, Timestamp};
use crate::os::{Disk, Open};

pub(crate) use chats::UnusedMessages;
use other_days::{OtherDays, may_repeat};
pub(crate) use partition::Appender;
pub use partition::NewRecord;
use partition::{Likeness, SAME_ID_AS_LINE};
pub(crate) use partition::{partition_of, partition_of_folder};

/// The producer named in manifests of imported partitions.
pub(crate) const PRODUCER: &str = "summarizer-import";
/// Deepest folder that is walked.
const FOLDER_DEPTH_MAX: usize = 32;
/// Hidden files and folders are counted under this end.
pub(crate) const HIDDEN_END: &str = ".";
/// Links are counted under this end.
pub(crate) const LINK_END: &str = "/";
/// Largest document that is imported; everything else is read record by record.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 1 << 30;
/// What was left out of one import that is listed; the rest is counted.
const REJECTED_MAX: usize = if cfg!(test) { 3 } else { 10_000 };
/// Memory of an event besides its text, about.
const RECORD_BYTES: usize = 1 << 10;
/// Memory of what is held before it is put into a partition.
const HELD_BYTES_MAX: usize = if cfg!(test) { 1 << 10 } else { 16 << 20 };

/// An import that could not continue.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{operation} {path}")]
    Disk {
        operation: &'static str,
        /// On which path.
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// A partition somebody else wrote.
    #[error("{path} was not written by an import; imports change only their own partitions")]
    Foreign { path: String },
    /// A partition of ours that is not what its manifest says.
    #[error("{path} does not match its manifest")]
    Damaged { path: String },
    #[error("there is no file or folder {path}")]
    Missing { path: String },
    /// Nothing to import.
    #[error("{path} has no data that can be imported")]
    Nothing {
        /// Where it was looked for.
        path: String,
        /// Files there whose name has another end, counted by it.
        passed_over: BTreeMap<String, u64>,
    },
}

pub(crate) fn disk_error(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> ImportError + use<> {
    let path = path.display().to_string();
    move |source| ImportError::Disk { operation, path, source }
}

/// Why a part of a file gives nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum LeftOut {
    #[error("{0}")]
    Unread(String),
    /// Nobody said anything in it. That is not an error.
    #[error("a conversation without words")]
    EmptyConversation,
    /// A mail without any text that can be read. That is not an error.
    #[error("{0}")]
    NoText(String),
    /// Something beside a text that was read: what is attached to a mail and has no reader, messages without words.
    #[error("{0}")]
    Attachment(String),
    /// Nothing: all of a table was read, and behind a quote in this line, which nothing ends, it is one cell.
    #[error("a quote in line {0} has no end, so all behind it was read as one cell")]
    OneCell(u64),
    /// A record that no day has. It cannot be an event.
    #[error("no date that can be read: {}", .0.name())]
    Undated(Box<NewRecord>),
    /// Messages of a chat that are part of no summary. That is not an error.
    #[error("{}", .0.told().unwrap_or_default())]
    Messages(UnusedMessages),
    /// A file in the archive of an export that is not read, as in its unpacked folder. That is not an error.
    #[error("{why}")]
    Entry { name: String, why: String },
    /// One of these, in a part of a file: a line, a message, an item.
    #[error("{part}: {why}")]
    InPart { part: String, why: Box<LeftOut> },
}

impl LeftOut {
    /// What is said of a part that cannot be read.
    fn of(error: &ImportError) -> LeftOut {
        LeftOut::Unread(match error {
            ImportError::Disk { operation, source, .. } => {
                format!("cannot {operation} it: {source}")
            }
            error => error.to_string(),
        })
    }

    /// What is said of messages of a file in which nobody wrote a word.
    fn without_words(messages: u64) -> Option<LeftOut> {
        let messages = match messages {
            0 => return None,
            1 => "1 message".to_owned(),
            many => format!("{many} messages"),
        };
        Some(LeftOut::Attachment(format!("{messages} without words, such as pictures")))
    }

    /// What is said of parts of messages that have no reader, by their kinds.
    fn of_unknown_kinds(kinds: &BTreeMap<String, u64>) -> Option<LeftOut> {
        let parts = match kinds.values().sum() {
            0 => return None,
            1 => "1 part of a message".to_owned(),
            many => format!("{many} parts of messages"),
        };
        let kinds = kinds.iter().map(|(kind, count)| format!("{count} {kind}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        Some(LeftOut::Attachment(format!("{parts} without a reader: {kinds}")))
    }

    /// What is said of files that messages have attached, behind the words that messages attached them.
    fn of_attached(files: &[&str], more_of_them: &str) -> Option<LeftOut> {
        const NAMED: usize = 5;
        let named = files.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match files.len() {
            0 => return None,
            count if count > NAMED => format!(" and {} more", count - NAMED),
            _ => String::new(),
        };
        let told = format!("{named}{more} (attached to messages, and {more_of_them})");
        Some(LeftOut::Attachment(told))
    }

    /// Whether it stands beside a text that was read.
    pub(crate) fn is_beside(&self) -> bool {
        matches!(self, LeftOut::Attachment(_) | LeftOut::Messages(_) | LeftOut::OneCell(_))
    }

    pub(crate) fn is_fault(&self) -> bool {
        match self {
            LeftOut::InPart { why, .. } => why.is_fault(),
            why => matches!(why, LeftOut::Unread(_) | LeftOut::Undated(_)),
        }
    }

    /// The same, with the place in the file.
    fn in_part(self, what: &str, number: u64) -> LeftOut {
        LeftOut::InPart { part: format!("{what} {number}"), why: Box::new(self) }
    }
}

/// Something that could not be imported, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejected {
    pub file: String,
    /// The line or message, counted from 1.
    pub number: u64,
    pub why: String,
    /// Whether there was nothing to import. That is not an error.
    pub is_empty: bool,
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub files: u64,
    /// Records put on a bus.
    pub added: u64,
    /// Records that were there already.
    pub known: u64,
    pub partitions: Vec<String>,
    /// What was left out, the first of it.
    pub rejected: Vec<Rejected>,
    /// Files whose name has another end, counted by it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) passed_over: BTreeMap<String, u64>,
    /// The ids of records whose own id is taken by a record without their marks or with another content.
    #[serde(skip)]
    pub(crate) renamed: BTreeMap<partition::RecordKey, String>,
    /// Ids of records that are too long for a line of a bus.
    #[serde(skip)]
    pub(crate) refused: BTreeSet<String>,
    /// How much more was left out than is listed.
    pub(crate) rejected_omitted: u64,
    /// How much of what was left out is a fault, listed or not.
    #[serde(skip)]
    pub(crate) faults: u64,
    /// How much more has no reader than is listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) not_read_omitted: u64,
    /// What is attached to mails and has no reader, the first of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_read: Vec<NotRead>,
    /// Records whose own id another record of their file has, on another day or in another conversation.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) ids_repeated: u64,
    /// The first of them, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id_repeated: Option<String>,
    /// Mails that are not the first with their Message-ID and have another text. The first is kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) other_texts: u64,
    /// The first of them.
    #[serde(skip)]
    pub(crate) other_text: Option<String>,
    /// Files that are known under another project, where they stay.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) other_projects: BTreeSet<String>,
    /// The days of the ids that are on the bus.
    #[serde(skip)]
    other_days: OtherDays,
    /// Files whose dates allow two readings.
    #[serde(skip)]
    pub(crate) dates_read: Vec<DatesRead>,
    /// Messages of chats that are part of no summary.
    #[serde(skip_serializing_if = "UnusedMessages::is_none")]
    pub(crate) messages_left_out: UnusedMessages,
    /// Tables of which the rest is one cell, each with the line of the quote that nothing ends.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) open_quotes: BTreeMap<String, u64>,
}

/// How the dates of a file were read, of which each has two readings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DatesRead {
    pub source: String,
    /// `day/month/year` or `month/day/year`.
    pub order: &'static str,
    /// How an earlier import read them, which was wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<&'static str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Something attached to a mail that was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NotRead {
    pub file: String,
    /// Its name, and in parentheses why.
    pub what: String,
}

impl Report {
    /// The id that a record has on its bus.
    pub(crate) fn id_of(&self, mut key: partition::RecordKey) -> String {
        // An id that another day has is replaced, and the new one may be that of another content.
        while let Some(id) = self.renamed.get(&key).filter(|id| **id != key.id) {
            key.id.clone_from(id);
        }
        key.id
    }

    /// In words, which records had an id that others have too.
    pub(crate) fn repeated_ids(&self) -> Option<String> {
        let first = self.id_repeated.as_ref()?;
        let records = match self.ids_repeated {
            1 => "1 record".to_owned(),
            many => format!("{many} records"),
        };
        Some(format!(
            "{records} with an id that another record has; each gets an id of its own: {first}"
        ))
    }

    /// In words, in which tables the rest is one cell.
    pub(crate) fn one_cells(&self) -> Option<String> {
        let (file, line) = self.open_quotes.first_key_value()?;
        let more = match self.open_quotes.len() {
            1 => String::new(),
            count => format!(", and the same in {} more", count - 1),
        };
        Some(format!("{file}: {}{more}", LeftOut::OneCell(*line)))
    }

    /// In words, which mails were left out because the first with their Message-ID is kept.
    pub(crate) fn kept_texts(&self) -> Option<String> {
        let first = self.other_text.as_ref()?;
        let mails = match self.other_texts {
            1 => "1 mail has".to_owned(),
            many => format!("{many} mails have"),
        };
        Some(format!(
            "{mails} another text under a known Message-ID; the first text is kept: {first}"
        ))
    }

    /// In words, which files stay under the project that they were added under.
    pub(crate) fn kept_projects(&self) -> Option<String> {
        let first = self.other_projects.first()?;
        let files = match self.other_projects.len() {
            1 => "1 file stays".to_owned(),
            many => format!("{many} files stay"),
        };
        Some(format!(
            "{files} under the project of before: {first}; a rule for projects may file them anew (see docs/digests.md)"
        ))
    }

    /// A mail has another text than the one that is there with its Message-ID.
    fn keeps_first(&mut self, record: &NewRecord) {
        let file = record.value["source"]["source_uri"].as_str().unwrap_or_default();
        self.other_texts += 1;
        self.other_text.get_or_insert_with(|| format!("{file}: {}", record.name()));
    }

    /// The id that a record has of its own is that of another text too.
    fn repeats(&mut self, record: &NewRecord, other: &str) {
        let source = &record.value["source"];
        let word = |name: &str| source[name].as_str().unwrap_or_default();
        self.ids_repeated += 1;
        self.id_repeated.get_or_insert_with(|| {
            format!("{}: {other} has the id `{}` too", word("source_uri"), word("source_record_id"))
        });
    }

    /// Something gave nothing.
    pub(crate) fn leave_out(&mut self, file: &str, number: u64, why: LeftOut) {
        match why {
            LeftOut::Attachment(what) if self.not_read.len() < REJECTED_MAX => {
                self.not_read.push(NotRead { file: file.to_owned(), what });
            }
            LeftOut::Attachment(_) => self.not_read_omitted += 1,
            LeftOut::Messages(unused) => self.messages_left_out.add(unused),
            LeftOut::OneCell(line) => {
                self.open_quotes.insert(file.to_owned(), line);
            }
            LeftOut::Entry { name, why } => self.list(&name, 0, why, true),
            why => self.list(file, number, why.to_string(), !why.is_fault()),
        }
    }

    /// Something was left out.
    pub(crate) fn reject(&mut self, file: &str, number: u64, why: String) {
        self.list(file, number, why, false);
    }

    fn list(&mut self, file: &str, number: u64, why: String, is_empty: bool) {
        self.faults += u64::from(!is_empty);
        match self.rejected.len() < REJECTED_MAX {
            true => {
                let file = file.to_owned();
                self.rejected.push(Rejected { file, number, why, is_empty });
            }
            false => self.rejected_omitted += 1,
        }
    }

    /// How much was refused so far.
    fn refused(&self) -> u64 {
        self.rejected.len() as u64 + self.rejected_omitted
    }

    /// Counts a file that was read. One of which nothing was taken, and something was refused since, was not.
    fn count_file(&mut self, is_read: bool, refused_before: u64) {
        self.files += u64::from(is_read || self.refused() == refused_before);
    }

    /// A record that no line of a bus can hold.
    fn refuse(&mut self, record: NewRecord) {
        let place = ["/source/source_uri", "/provenance/source_uri"];
        let file = place.iter().find_map(|place| record.value.pointer(place)?.as_str());
        let file = file.unwrap_or(&record.id).to_owned();
        self.reject(&file, 1, "one text is too long: split it".to_owned());
        self.refused.insert(record.id);
    }

    /// A conversation in which nobody said anything.
    pub(crate) fn found_empty(&mut self, file: &str, number: u64) {
        self.leave_out(file, number, LeftOut::EmptyConversation);
    }

    pub(crate) fn changed(&mut self, partition: String) {
        if !self.partitions.contains(&partition) {
            self.partitions.push(partition);
        }
    }
}

/// Where to and when.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub disk: &'a dyn Disk,
    pub root: &'a Path,
    /// The zone days are cut in.
    pub zone: chrono_tz::Tz,
    /// The time written into manifests of partitions that change.
    pub now: Timestamp,
}

/// The clock on which a person's files are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub zone: chrono_tz::Tz,
    pub now: Timestamp,
}

impl Target<'_> {
    fn clock(&self) -> Clock {
        Clock { zone: self.zone, now: self.now }
    }
}

/// Takes an event with its time, or the reason why it is no event, with its number, counted from 1.
type TakeEvent<'t> =
    dyn FnMut(u64, Result<(Timestamp, NewRecord), LeftOut>) -> Result<(), ImportError> + 't;

/// Events that are sorted by day and not written yet.
struct Days<'a> {
    zone: chrono_tz::Tz,
    appender: Appender<'a>,
    held: BTreeMap<Day, Vec<NewRecord>>,
    held_bytes: usize,
}

impl<'a> Days<'a> {
    fn new(target: Target<'a>) -> Days<'a> {
        let (appender, held) = (Appender::events(target), BTreeMap::new());
        Days { zone: target.zone, appender, held, held_bytes: 0 }
    }

    fn take(
        &mut self,
        at: Timestamp,
        record: NewRecord,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let source = &record.value["source"];
        if let Some(first) = source[SAME_ID_AS_LINE].as_u64() {
            let (line, id) =
                (source["line"].as_u64().unwrap_or_default(), &source["source_record_id"]);
            let file = source["source_uri"].as_str().unwrap_or_default();
            let id = id.as_str().unwrap_or_default();
            report.ids_repeated += 1;
            report.id_repeated.get_or_insert_with(|| {
                format!("{file}:{line}: line {first} has the id `{id}` too")
            });
        }
        self.held_bytes += RECORD_BYTES + record.value["content"].as_str().map_or(0, str::len);
        self.held.entry(at.day_in(self.zone)).or_default().push(record);
        if self.held_bytes < HELD_BYTES_MAX {
            return Ok(());
        }
        self.put(report)
    }

    /// Whether an event of this time is there already.
    fn has(&mut self, at: Timestamp, id: &str, report: &mut Report) -> Result<bool, ImportError> {
        self.appender.has(&at.day_in(self.zone).to_string(), id, report)
    }

    fn put(&mut self, report: &mut Report) -> Result<(), ImportError> {
        self.held_bytes = 0;
        for (day, records) in std::mem::take(&mut self.held) {
            let mut apart = Vec::with_capacity(records.len());
            for record in records {
                apart.extend(self.apart(day, record, report)?);
            }
            self.appender.take(&day.to_string(), apart, report)?;
        }
        Ok(())
    }

    /// A record with an id that no other day has; `None` where it is there already under another day.
    fn apart(
        &mut self,
        day: Day,
        mut record: NewRecord,
        report: &mut Report,
    ) -> Result<Option<NewRecord>, ImportError> {
        let own = day.to_string();
        self.keep_given_id(&own, &mut record, report)?;
        if !may_repeat(&record) || self.appender.has(&own, &record.id, report)? {
            return Ok(Some(record));
        }
        let target = self.appender.target();
        let Some(other) = report.other_days.of(target, &record.id, day)? else {
            return Ok(Some(record));
        };
        let (key, other) = (record.key(), other.to_string());
        let likeness = self.appender.likeness(&other, &key, report)?;
        let is_dated = is_dated(&record);
        if is_dated && likeness == Likeness::Same {
            report.known += 1;
            return Ok(None);
        }
        let parts = [Part::Labelled("day", &own), Part::Opaque(&record.id)];
        let id = stable_id("evt", &parts);
        let is_known = self.appender.has(&own, &id, report)?;
        if is_dated && likeness == Likeness::Newer {
            record.value["source"]["version_of"] = record.id.as_str().into();
        } else if !is_known && record.value["source"][SAME_ID_AS_LINE].is_null() {
            report.repeats(&record, &format!("a text of {other}"));
        }
        record.value["event_id"] = id.as_str().into();
        report.renamed.insert(key, id.clone());
        record.id = id;
        Ok(Some(record))
    }

    /// A record whose id another day of its file has too got an id of its day. On the bus its day may have the id
    /// that the record gives itself: an earlier file had this day alone. So the bus decides, as for any other id.
    fn keep_given_id(
        &mut self,
        own: &str,
        record: &mut NewRecord,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let source = &record.value["source"];
        let given = source["source_record_id"].as_str().filter(|given| *given != record.id);
        let given = given.filter(|_| !source[SAME_ID_AS_LINE].is_null()).map(str::to_owned);
        let Some(given) = given else { return Ok(()) };
        // Two items of one feed with one id on two days would count as versions of one.
        let is_free = !is_dated(record) && !given.starts_with("evt_");
        if !self.appender.has(own, &record.id, report)?
            && (is_free || self.appender.has(own, &given, report)?)
        {
            let key = record.key();
            record.value["event_id"] = given.as_str().into();
            report.renamed.insert(key, given.clone());
            record.id = given;
        }
        Ok(())
    }

    /// Whether a person took back the event of this time with this id.
    fn is_forgotten(
        &mut self,
        at: Timestamp,
        id: &str,
        report: &mut Report,
    ) -> Result<bool, ImportError> {
        self.appender.is_forgotten(&at.day_in(self.zone).to_string(), id, report)
    }

    fn finish(mut self, report: &mut Report) -> Result<(), ImportError> {
        self.put(report)?;
        self.appender.finish(report)
    }
}

/// Whether a record has one time, as an item of a feed or a mail: what changed is its date, or the zone of the
/// home.
fn is_dated(record: &NewRecord) -> bool {
    record.value["event_kind"] == "external_observation"
}

/// Notes the folder of the file of a record, which its name does not say. No id is made of it.
fn note_folder(record: &mut NewRecord, folder: Option<&str>) {
    folder.into_iter().for_each(|folder| record.value["source"][FOLDER] = folder.into());
}

/// Puts the events of one file, with the folder it lies in, on their days. `each` hands them over, under the name of the file.
fn import_events(
    target: Target<'_>,
    (file, folder): (&Path, Option<&str>),
    report: &mut Report,
    each: impl FnOnce(&str, &mut TakeEvent<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let (name, refused) = (name_of(file), report.refused());
    let (mut days, mut is_read) = (Days::new(target), false);
    each(&name, &mut |number, found| match found {
        Ok((at, mut record)) => {
            is_read = true;
            note_folder(&mut record, folder);
            days.take(at, record, report)
        }
        Err(why) => {
            report.leave_out(&name, number, why);
            Ok(())
        }
    })?;
    report.count_file(is_read, refused);
    days.finish(report)
}

/// A whole file; one that is too large is left out, and the report says so.
fn read(
    target: Target<'_>,
    file: &Path,
    report: &mut Report,
) -> Result<Option<Vec<u8>>, ImportError> {
    let stat = target.disk.stat(file).map_err(disk_error("inspect", file))?;
    if stat.is_some_and(|stat| stat.len > DOCUMENT_BYTES_MAX) {
        let why = format!("larger than {} MiB: split it", DOCUMENT_BYTES_MAX >> 20);
        report.reject(&name_of(file), 1, why);
        return Ok(None);
    }
    target.disk.read(file).map_err(disk_error("read", file)).map(Some)
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Files under a path.
#[derive(Debug, Default)]
pub struct FoundFiles {
    pub files: Vec<PathBuf>,
    pub(crate) others: Others,
}

/// What lies beside the files that are imported.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// Files whose name has another end, counted by it.
    passed_over: BTreeMap<String, u64>,
    /// What cannot be read.
    left_out: Vec<(String, LeftOut)>,
}

/// The files under a path with one of the extensions, sorted; a path to a file is that file. Hidden
/// files and links are passed over: a link may lead back to its folder, or out of the person's data. What cannot be read
/// below the path is left out.
pub fn files(disk: &dyn Disk, path: &Path, extensions: &[&str]) -> Result<FoundFiles, ImportError> {
    let stat = disk.stat(path).map_err(disk_error("inspect", path))?;
    let Some(stat) = stat else {
        return Err(ImportError::Missing { path: path.display().to_string() });
    };
    let mut found = FoundFiles::default();
    match stat.is_dir {
        true => walk(disk, path, extensions, 0, &mut found)?,
        false => found.files.push(path.to_owned()),
    }
    match found.files.is_empty() && found.others.left_out.is_empty() {
        true => {
            let (path, passed_over) = (path.display().to_string(), found.others.passed_over);
            Err(ImportError::Nothing { path, passed_over })
        }
        false => Ok(found),
    }
}

/// Walks a folder.
fn walk(
    disk: &dyn Disk,
    folder: &Path,
    extensions: &[&str],
    depth: usize,
    found: &mut FoundFiles,
) -> Result<(), ImportError> {
    let real = disk.real_path(folder).map_err(disk_error("inspect", folder))?;
    for name in disk.list(folder).map_err(disk_error("list", folder))? {
        let inner = folder.join(&name);
        let others = &mut found.others;
        let mut count = |end: &str| *others.passed_over.entry(end.to_owned()).or_default() += 1;
        let at = disk.real_path(&inner);
        if name.starts_with('.') {
            count(HIDDEN_END);
        } else if at.is_err() && name.contains(char::REPLACEMENT_CHARACTER) {
            others.unread(&inner, &"its name is not UTF-8");
        } else if !at.is_ok_and(|at| at == real.join(&name)) {
            count(LINK_END);
        } else if disk.stat(&inner).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_dir)) {
            if depth + 1 == FOLDER_DEPTH_MAX {
                others.unread(&inner, &format!("it is deeper than {FOLDER_DEPTH_MAX} folders"));
                continue;
            }
            match walk(disk, &inner, extensions, depth + 1, found) {
                Err(ImportError::Disk { source, .. }) => found.others.unread(&inner, &source),
                done => done?,
            }
        } else {
            let end = inner.extension().and_then(|end| end.to_str()).unwrap_or_default();
            let end = end.to_ascii_lowercase();
            // A pipe or a device is no data, whatever its name, and its reader would wait.
            match disk.open(&inner, Open::Read) {
                Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
                    others.left_out.push((shown(&inner), LeftOut::NoText(error.to_string())));
                }
                _ if !extensions.contains(&end.as_str()) => count(&end),
                Err(error) => others.unread(&inner, &error),
                Ok(_) => found.files.push(inner),
            }
        }
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl Others {
    fn unread(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        let why = format!("it cannot be read: {why}");
        self.left_out.push((shown(path), LeftOut::Unread(why)));
    }
}

impl Report {
    /// What lies beside the files that are imported is told with them.
    pub(crate) fn tell_of(&mut self, others: Others) {
        self.passed_over.extend(others.passed_over);
        others.left_out.into_iter().for_each(|(name, why)| self.leave_out(&name, 1, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_lines_are_listed_up_to_a_bound_and_counted_beyond() {
        let mut report = Report::default();
        for number in 1..=5 {
            report.reject("a.jsonl", number, "no time".to_owned());
        }
        let listed: Vec<u64> = report.rejected.iter().map(|one| one.number).collect();
        assert_eq!((listed, report.rejected_omitted), (vec![1, 2, 3], 2));
        let mut report = Report::default();
        for number in 1..=5 {
            report.leave_out("a.mbox", number, LeftOut::NoText("no text".to_owned()));
            report.leave_out("a.mbox", number, LeftOut::Attachment("p.jpg (image)".to_owned()));
        }
        assert_eq!((report.not_read.len(), report.not_read_omitted, report.faults), (3, 2, 0));
        // A fault counts where it is not listed too.
        report.leave_out("a.mbox", 6, LeftOut::Unread("no date".to_owned()));
        assert_eq!((report.rejected.len(), report.faults), (3, 1));
    }
}
