//! Files of any kind into the buses of a home, and what is to be asked about each.
//!
//! Documents become chunks, mails and feed items events, chats events and sessions. Contract: as every
//! import, it only appends, and the same file a second time adds nothing; what it names to be asked is
//! the same each time.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::archive_parts::{Part, is_of_chats, parts};
use super::chats::{self, Beside, Conversation, Standing, Turn};
use super::collect::NamedFile;
use super::documents::{self, Described};
use super::export_archive::InArchive;
use super::kind::{FileKind, Group, Refusal, extension};
use super::partition::{Appender, RecordKey, partition_of, partition_of_folder};
use super::read::{self, Readers};
use super::sessions::{self, Talk};
use super::stream::each_record;
use super::turn_record::{event_id_of, record_of};
use super::{
    DatesRead, Days, ImportError, LeftOut, NewRecord, Report, Target, decode, disk_error, feed,
    fields, mail, name_of, note_folder, talks,
};
use crate::contract::hash::sha256;
use crate::contract::privacy::LOCAL_ONLY;
use crate::contract::publish::{said, together};
use crate::contract::stable_id::document_id;
use crate::contract::time::{Day, Timestamp};
use crate::contract::versions::{day_name, file_of_item, item_name, shown_name};
use crate::contract::vocabulary::{Bus, SummaryKind};
use crate::markup::document::{Document, FEED_ITEM, is_known_by_title};
use crate::markup::members::FILED_UNDER;
use crate::os::{Disk, InPlace};
use crate::upstream::dated;
use crate::upstream::index::IdKey;
use crate::upstream::moment::Moment;

/// The number of a whole file that is refused, where its parts are counted from 1.
const WHOLE: u64 = 0;

/// A message of a chat: its time, and what finds its id.
type Message = (Timestamp, RecordKey);

/// What one part of a file holds: an event at its time, or the reason why it is no event.
type Read = Result<(Timestamp, NewRecord), LeftOut>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub kind: SummaryKind,
    pub bus: Bus,
    pub id: String,
    /// The name a person knows it by.
    pub name: String,
    pub group: Group,
    /// The day that a document says it is of, of a list the first one.
    pub day: Option<Day>,
    /// Parts of a document that a person took back, where others are left. The question about these is a new one.
    pub forgotten: u64,
}

/// What an intake is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub readers: Readers,
    /// The project of everything that names none.
    pub project: Option<String>,
    /// A pause this long in a chat begins another session.
    pub gap_ms: i64,
    /// Whether only chats and the projects of Claude are taken from the archive of an export.
    pub only_chats: bool,
}

/// Takes files into a home.
pub(crate) struct Intake<'a> {
    target: Target<'a>,
    settings: Settings,
    days: Days<'a>,
    sessions: Appender<'a>,
    chunks: Appender<'a>,
    order: i64,
    /// The lists that became several documents, one for each day or each project, with the names of these.
    lists: BTreeMap<String, BTreeSet<String>>,
    /// Everything that was found, in order; events with the keys under which their ids are found at the end.
    subjects: Vec<(Subject, Option<RecordKey>)>,
}

/// What a file holds that becomes documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileContent {
    OneText,
    /// The records of a list.
    Records,
    /// The projects of an export of Claude, each with its documents.
    Projects,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(target: Target<'a>, settings: Settings) -> Intake<'a> {
        Intake {
            target,
            settings,
            days: Days::new(target),
            sessions: Appender::sessions(target),
            chunks: Appender::chunks(target),
            order: 0,
            lists: BTreeMap::new(),
            subjects: Vec::new(),
        }
    }

    /// Takes one file; what cannot be read is in the report, and so is a file that cannot be opened.
    pub(crate) fn take(
        &mut self,
        file: &NamedFile,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let (subjects, refused) = (self.subjects.len(), report.refused());
        let all = self.target.disk;
        let in_place = InPlace(all, None);
        self.take_or_name(file.disk(all, &in_place), file, report)?;
        report.count_file(self.subjects.len() > subjects, refused);
        Ok(())
    }

    /// Takes a file, or names it in the report where it cannot be opened.
    fn take_or_name(
        &mut self,
        disk: &dyn Disk,
        file: &NamedFile,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        match self.take_file(disk, file, report) {
            Err(ImportError::Disk { operation, path, source })
                if path == file.path.display().to_string() =>
            {
                report.reject(&file.name, WHOLE, format!("cannot {operation} it: {source}"));
                Ok(())
            }
            taken => taken,
        }
    }

    /// Takes the files in the archive of an export.
    fn archive(
        &mut self,
        disk: &dyn Disk,
        file: &NamedFile,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let archive = InArchive::open(disk, &file.path);
        let archive = archive.map_err(disk_error("read", &file.path))?;
        for part in parts(&archive, file) {
            match part {
                Part::File(inner) if self.settings.only_chats && !is_of_chats(&archive, &inner) => {
                    *report.passed_over.entry(extension(&inner.path)).or_default() += 1;
                }
                Part::File(inner) => self.take_or_name(&archive, &inner, report)?,
                Part::Refused(name, Refusal(why)) => {
                    report.leave_out(&file.name, WHOLE, LeftOut::Entry { name, why });
                }
            }
        }
        Ok(())
    }

    fn take_file(
        &mut self,
        disk: &dyn Disk,
        file: &NamedFile,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        match file.kind {
            FileKind::ChatArchive => self.archive(disk, file, report),
            FileKind::Mail => {
                let mut found = Vec::new();
                mail::each_event(
                    disk,
                    self.target.zone,
                    &self.settings.readers,
                    &file.path,
                    &file.name,
                    &mut |number, event| {
                        found.push((number, event));
                        Ok(())
                    },
                )?;
                // A draft without a date is still a document with words.
                let is_unread = |(_, event): &(u64, Read)| matches!(event, Err(LeftOut::Unread(_)));
                if found.iter().all(|(_, event)| event.is_err()) && found.iter().any(is_unread) {
                    found.retain(|one| !is_unread(one));
                    self.document(disk, file, report)?;
                }
                found
                    .into_iter()
                    .try_for_each(|(number, event)| self.event(file, number, event, report))
            }
            FileKind::Mailbox => {
                let zone = self.target.zone;
                let readers = self.settings.readers.clone();
                mail::each_event(
                    disk,
                    zone,
                    &readers,
                    &file.path,
                    &file.name,
                    &mut |number, event| self.event(file, number, event, report),
                )
            }
            FileKind::ChatGpt | FileKind::Claude => self.conversations(disk, file, report),
            FileKind::ChatLines => {
                let mapping = fields::Mapping::chat_export();
                self.loose_messages(disk, &file.path, (&file.name, None), &mapping, report)
            }
            FileKind::ChatText | FileKind::ChatJson => {
                let bytes = disk.read(&file.path);
                let bytes = bytes.map_err(disk_error("read", &file.path))?;
                let found = talks::exported(disk, file, &bytes, self.target.clock());
                let beside = talks::beside(disk, file, &found);
                beside.for_each(|why| report.leave_out(&file.name, 1, why));
                match found {
                    // A chat without a day is still a text with speakers.
                    found if found.is_empty() => self.document(disk, file, report),
                    found => found.into_iter().zip(1..).try_for_each(|(one, place)| match one {
                        Ok(one) => self.conversation(file, place, one, report),
                        Err((number, why)) => {
                            report.leave_out(&file.name, number, why);
                            Ok(())
                        }
                    }),
                }
            }
            FileKind::JsonFeed => {
                let mapping = fields::Mapping::feed();
                let mut undated = Vec::new();
                let zone = self.target.zone;
                fields::each_event(
                    disk,
                    zone,
                    &mapping,
                    &file.path,
                    &file.name,
                    &mut |number, item| self.feed_item(file, number, item, &mut undated, report),
                )?;
                self.undated(file, undated, report)
            }
            FileKind::XmlFeed => {
                let bytes = disk.read(&file.path);
                let bytes = bytes.map_err(disk_error("read", &file.path))?;
                let text = decode::marked_up(&bytes).unwrap_or_default();
                match feed::read(&file.name, &text, self.target.zone) {
                    Ok(feed) => {
                        let (mut items, mut undated) = ((1..).zip(feed.items), Vec::new());
                        items.try_for_each(|(number, item)| {
                            self.feed_item(file, number, item, &mut undated, report)
                        })?;
                        self.undated(file, undated, report)
                    }
                    Err(why) => {
                        report.reject(&file.name, WHOLE, why);
                        Ok(())
                    }
                }
            }
            _ => self.document(disk, file, report),
        }
    }

    /// The documents that were ever taken from below a folder, each with its newest content.
    pub(crate) fn documents_below(
        &mut self,
        folder: &str,
        report: &mut Report,
    ) -> Result<Vec<(String, IdKey)>, ImportError> {
        let below = format!("{folder}/");
        let mut known = self.chunks.files(&partition_of(&below), report)?;
        known.retain(|(name, _)| name.starts_with(&below));
        Ok(known)
    }

    /// Shows everything that was taken. Sessions come last: they name events.
    pub(crate) fn finish(self, report: &mut Report) -> Result<Vec<Subject>, ImportError> {
        self.chunks.finish(report)?;
        self.days.finish(report)?;
        self.sessions.finish(report)?;
        let subjects = self.subjects.into_iter().map(|(subject, key)| match key {
            Some(key) => Subject { id: report.id_of(key), ..subject },
            None => subject,
        });
        Ok(subjects.filter(|subject| !report.refused.contains(&subject.id)).collect())
    }

    fn document(
        &mut self,
        disk: &dyn Disk,
        file: &NamedFile,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let bytes = disk.read(&file.path).map_err(disk_error("read", &file.path))?;
        let (parts, held) = match read::guarded(|| self.parts(file, &bytes)) {
            Ok((mut parts, held)) => {
                dated::set_heads(&mut parts, &file.name);
                (parts, held)
            }
            Err(why) => {
                report.reject(&file.name, WHOLE, why);
                return Ok(());
            }
        };
        let beside = read::beside_text(file.kind, &bytes);
        beside.into_iter().for_each(|why| report.leave_out(&file.name, 1, why));
        let stands = self.standing(&file.name, None, report)?.is_some();
        if held == FileContent::Projects && !stands {
            return self.projects(&file.name, parts, report);
        }
        let is_list = held == FileContent::Records;
        let has_days = is_list && parts.iter().any(|part| self.day_of(part).is_some());
        // A list that is there as one document stays one.
        if !has_days || stands {
            return self.parts_of_document(&file.name, &sha256(&bytes).hex(), &parts, report);
        }
        self.days_of_list(&file.name, parts, report)
    }

    /// The projects of an export, each a document of its own: what one holds says nothing of the others.
    fn projects(
        &mut self,
        file: &str,
        parts: Vec<Document>,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let mut projects: BTreeMap<String, Vec<Document>> = BTreeMap::new();
        for part in parts {
            let name = part.members["project"].as_str().unwrap_or_default().to_owned();
            projects.entry(name).or_default().push(part);
        }
        let mut names = BTreeSet::new();
        for (project, parts) in projects {
            let said: Vec<Value> = parts.iter().map(said_by_part).collect();
            let checksum = sha256(json!(said).to_string()).hex();
            let name = item_name(file, &project);
            self.parts_of_document(&name, &checksum, &parts, report)?;
            names.insert(name);
            if let Some((subject, _)) = self.subjects.last_mut() {
                subject.name = project;
            }
        }
        self.lists.insert(file.to_owned(), names);
        Ok(())
    }

    /// The items of a list, each on its own day: those of a day are a document, and so are those without one.
    fn days_of_list(
        &mut self,
        file: &str,
        parts: Vec<Document>,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let mut days: BTreeMap<Option<Day>, Vec<Document>> = BTreeMap::new();
        for part in parts {
            days.entry(self.day_of(&part)).or_default().push(part);
        }
        let mut names = BTreeSet::new();
        for (day, parts) in days {
            let name = day_name(file, day);
            // What a day says, so that a new row changes no other day.
            let said: Vec<Value> = parts.iter().map(said_by_part).collect();
            let checksum = sha256(json!(said).to_string()).hex();
            self.parts_of_document(&name, &checksum, &parts, report)?;
            names.insert(name);
        }
        self.lists.insert(file.to_owned(), names);
        Ok(())
    }

    /// The days and projects of the lists of this intake that are in their files no more.
    pub(crate) fn parts_gone(&mut self, report: &mut Report) -> Result<Vec<String>, ImportError> {
        let mut gone = Vec::new();
        for (file, names) in &self.lists {
            let known = self.chunks.files(&partition_of(file), report)?;
            let parts = known.into_iter().map(|(name, _)| name);
            gone.extend(parts.filter(|name| {
                let is_part = name != file && file_of_item(name) == file;
                is_part && !names.contains(name)
            }));
        }
        Ok(gone)
    }

    /// The parts of a document whose content has this hash.
    fn parts_of_document(
        &mut self,
        name: &str,
        checksum: &str,
        parts: &[Document],
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let standing = self.standing(name, Some(checksum), report)?;
        let (partition, uri) = standing.unwrap_or_else(|| (partition_of(name), name.to_owned()));
        let returned = self.chunks.returned(&partition, &uri, checksum, report)?;
        let id = document_id(&uri, checksum, returned);
        let project = self.settings.project.as_deref();
        let described = Described { uri: &uri, folder: None, checksum, returned, id: &id, project };
        let chunks = documents::chunks_of(&described, parts, self.order);
        self.order += chunks.len() as i64;
        let (mut forgotten, all) = (0, chunks.len() as u64);
        for chunk in &chunks {
            forgotten += u64::from(self.chunks.is_forgotten(&partition, &chunk.id, report)?);
        }
        self.chunks.take(&partition, chunks, report)?;
        let subject = Subject {
            kind: SummaryKind::DocumentSummary,
            bus: Bus::ChunkBus,
            id,
            name: title_as_name(parts).map_or_else(|| shown_name(name), str::to_owned),
            group: Group::Document,
            // A list that is one document begins with the first day of its items, as its summary says.
            day: parts.iter().filter_map(|one| self.day_of(one)).min(),
            forgotten: if forgotten < all { forgotten } else { 0 },
        };
        self.subjects.push((subject, None));
        Ok(())
    }

    /// An item of a feed: an event, or kept aside when it has no date.
    fn feed_item(
        &mut self,
        file: &NamedFile,
        number: u64,
        item: Read,
        undated: &mut Vec<UndatedItem>,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        match item {
            Err(LeftOut::Undated(record)) => {
                undated.push(UndatedItem::of(record.value));
                Ok(())
            }
            item => self.event(file, number, item, report),
        }
    }

    /// The items of a feed that have no date: each is a document, because an event has a day.
    fn undated(
        &mut self,
        file: &NamedFile,
        items: Vec<UndatedItem>,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let mut known = HashSet::new();
        for UndatedItem { mut id, document } in items {
            let content = json!([document.title, document.text]).to_string();
            let checksum = sha256(&content).hex();
            if known.contains(&id) {
                // Another item with the same id; the same item a second time says nothing new.
                id = checksum.clone();
            }
            if known.insert(id.clone()) {
                let name = item_name(&file.name, &id);
                self.parts_of_document(&name, &checksum, &[document], report)?;
            }
        }
        Ok(())
    }

    /// The day of a document in the zone of the home.
    fn day_of(&self, document: &Document) -> Option<Day> {
        let date = json!(document.date.as_deref()?);
        Moment::read(&date, self.target.zone).map(|moment| moment.day_in(self.target.zone))
    }

    /// The partition and the name under which a document is there already. `import text` names a file by its path
    /// below the folder that it was given.
    fn standing(
        &mut self,
        name: &str,
        content: Option<&str>,
        report: &mut Report,
    ) -> Result<Option<(String, String)>, ImportError> {
        let own = (partition_of(name), name.to_owned());
        if self.chunks.holds(&own.0, name, None, report)? {
            return Ok(Some(own));
        }
        let Some(content) = content else { return Ok(None) };
        // What was unpacked before or since has the same content and another name.
        for other in names_unpacked(name) {
            if self.chunks.holds(&partition_of(&other), &other, Some(content), report)? {
                return Ok(Some((partition_of(&other), other)));
            }
        }
        let below = name.match_indices('/').map(|(at, _)| (&name[..at], &name[at + 1..]));
        let file = name.rsplit('/').next().unwrap_or(name);
        for (folder, rest) in below.chain([(file, file)]) {
            let folder = folder.rsplit('/').next().unwrap_or(folder);
            let partition = partition_of_folder(folder);
            if self.chunks.holds(&partition, rest, Some(content), report)? {
                return Ok(Some((partition, rest.to_owned())));
            }
        }
        Ok(None)
    }

    /// The items of a list, or the whole of another file, and what the file holds; why it cannot be read.
    fn parts(
        &self,
        file: &NamedFile,
        bytes: &[u8],
    ) -> Result<(Vec<Document>, FileContent), String> {
        // A list without items that say something is read as one text.
        let items = read::items(file.kind, &file.path, bytes)?.filter(|items| !items.is_empty());
        if let Some(items) = items {
            let has_projects = file.kind == FileKind::Json && read::holds_projects(bytes);
            return Ok((
                items,
                if has_projects { FileContent::Projects } else { FileContent::Records },
            ));
        }
        let whole = read::document(&self.settings.readers, file.kind, &file.path, bytes)?;
        match read::has_words(&whole.text) {
            false => Err("no words".to_owned()),
            true => Ok((vec![whole], FileContent::OneText)),
        }
    }

    fn event(
        &mut self,
        file: &NamedFile,
        number: u64,
        event: Read,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let Some((at, record)) = self.readable(&file.name, number, event, report) else {
            return Ok(());
        };
        let title = record.value["title"].as_str();
        let subject = Subject {
            kind: SummaryKind::EventSummary,
            bus: Bus::EventBus,
            id: record.id.clone(),
            name: title.unwrap_or(&file.name).to_owned(),
            group: file.kind.group(),
            day: None,
            forgotten: 0,
        };
        self.subjects.push((subject, Some(record.key())));
        self.days.take(at, record, report)
    }

    /// The event under its project; the report names one that cannot be read.
    fn readable(
        &self,
        file: &str,
        number: u64,
        event: Read,
        report: &mut Report,
    ) -> Option<(Timestamp, NewRecord)> {
        match event {
            Ok((at, mut record)) => {
                self.file_under_project(&mut record.value);
                Some((at, record))
            }
            Err(why) => {
                report.leave_out(file, number, why);
                None
            }
        }
    }

    fn file_under_project(&self, record: &mut Value) {
        if let Some(project) = &self.settings.project
            && record["project"].is_null()
        {
            record["project"] = json!(project);
        }
    }

    fn conversations(
        &mut self,
        disk: &dyn Disk,
        file: &NamedFile,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let mut beside = Beside::default();
        each_record(disk, &file.path, &mut |number, record| match record
            .and_then(|record| chats::conversation(&record))
            .inspect(|one| beside.add(one))
        {
            Ok(conversation) => self.conversation(file, number, conversation, report),
            Err(why) => {
                report.reject(&file.name, number, why);
                Ok(())
            }
        })?;
        beside.left_out(disk, file.place()).for_each(|why| report.leave_out(&file.name, 1, why));
        Ok(())
    }

    fn conversation(
        &mut self,
        file: &NamedFile,
        number: u64,
        mut one: Conversation,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        if one.turns.iter().all(|turn| turn.standing != Standing::Shown) {
            // What its person does not see is kept beside.
            report.found_empty(&file.name, number);
        }
        let earlier = self.keep_reading(&mut one, report)?;
        if let Some(order) = one.dates_read {
            report.dates_read.push(DatesRead { source: file.name.clone(), order, earlier });
        }
        let project = one.project.clone().or_else(|| self.settings.project.clone());
        let mut talk = Talk {
            id: Some(one.id.clone()),
            title: one.title.clone(),
            project: project.clone(),
            publish: one.publish,
            ..Talk::default()
        };
        let mut messages = Vec::new();
        for turn in &one.turns {
            let mut record = record_of(&one, turn, &file.name, self.target.zone);
            self.file_under_project(&mut record.value);
            let publish = said(record.value.get("publish"));
            match turn.standing {
                Standing::Shown => talk.publish = together([talk.publish, publish]),
                Standing::Hidden => record.value["standing"] = json!("hidden"),
                Standing::OtherBranch => record.value["standing"] = json!("other_branch"),
            }
            if turn.standing == Standing::Shown {
                messages.push((turn.at, record.key()));
            }
            self.days.take(turn.at, record, report)?;
        }
        self.talk(&file.name, talk, messages, report)
    }

    /// Reads the dates of a chat as its first import did, so that no message is there twice. Gives the reading
    /// of that import where this file shows that it was wrong.
    fn keep_reading(
        &mut self,
        one: &mut Conversation,
        report: &mut Report,
    ) -> Result<Option<&'static str>, ImportError> {
        let Some(other) = one.other_reading.take() else { return Ok(None) };
        if self.has_one(one, &one.turns, &other.turns, report)?
            || !self.has_one(one, &other.turns, &one.turns, report)?
        {
            return Ok(None);
        }
        if other.is_possible {
            (one.turns, one.dates_read) = (other.turns, Some(other.order));
            return Ok(None);
        }
        one.dates_read = Some(other.instead_of);
        Ok(Some(other.order))
    }

    /// Whether one of these messages was imported, as far as it is not one of the others too.
    fn has_one(
        &mut self,
        chat: &Conversation,
        turns: &[Turn],
        others: &[Turn],
        report: &mut Report,
    ) -> Result<bool, ImportError> {
        let others: HashSet<&str> = others.iter().map(|turn| turn.id.as_str()).collect();
        for turn in turns.iter().filter(|turn| !others.contains(turn.id.as_str())) {
            if self.days.has(turn.at, &event_id_of(chat, turn), report)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the messages of a file, whose conversations become sessions.
    pub(crate) fn take_messages(
        &mut self,
        (file, folder): (&Path, Option<&str>),
        mapping: &fields::Mapping,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let (subjects, refused) = (self.subjects.len(), report.refused());
        let named = (name_of(file), folder);
        self.loose_messages(self.target.disk, file, (&named.0, named.1), mapping, report)?;
        report.count_file(self.subjects.len() > subjects, refused);
        Ok(())
    }

    /// Messages that stand alone: their conversation is the one they name, or their file.
    fn loose_messages(
        &mut self,
        disk: &dyn Disk,
        path: &Path,
        (name, folder): (&str, Option<&str>),
        mapping: &fields::Mapping,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        let mut talks: BTreeMap<String, (Talk, Vec<Message>)> = BTreeMap::new();
        fields::each_event(disk, self.target.zone, mapping, path, name, &mut |number, event| {
            let Some((at, mut record)) = self.readable(name, number, event, report) else {
                return Ok(());
            };
            note_folder(&mut record, folder);
            let word = |member: &str| record.value[member].as_str().map(str::to_owned);
            let id = word("conversation_id");
            let (talk, messages) =
                talks.entry(id.clone().unwrap_or_default()).or_insert_with(|| {
                    let title = Some(word("title").unwrap_or_else(|| name.to_owned()));
                    (Talk { id, title, project: word("project"), ..Talk::default() }, Vec::new())
                });
            talk.publish = together([talk.publish, said(record.value.get("publish"))]);
            messages.push((at, record.key()));
            self.days.take(at, record, report)
        })?;
        talks.into_values().try_for_each(|(talk, messages)| self.talk(name, talk, messages, report))
    }

    fn talk(
        &mut self,
        file: &str,
        mut talk: Talk,
        messages: Vec<Message>,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        // The ids of messages are known when they are put in their places.
        self.days.put(report)?;
        for (at, key) in messages {
            let id = report.id_of(key);
            // A session that named a text that a person took back could not be read.
            if !self.days.is_forgotten(at, &id, report)? {
                talk.messages.push((at, id));
            }
        }
        let mut by_day: BTreeMap<Day, Vec<NewRecord>> = BTreeMap::new();
        for (day, record) in sessions::cut(talk, self.settings.gap_ms, self.target.zone) {
            let name = record.value["title_candidates"][0].as_str().unwrap_or(file).to_owned();
            let subject = Subject {
                kind: SummaryKind::SessionSummary,
                bus: Bus::SessionBus,
                id: record.id.clone(),
                name,
                group: Group::Chat,
                day: None,
                forgotten: 0,
            };
            self.subjects.push((subject, None));
            by_day.entry(day).or_default().push(record);
        }
        for (day, records) in by_day {
            self.sessions.take(&day.to_string(), records, report)?;
        }
        Ok(())
    }
}

/// The names that a file in an archive has in the unpacked folder, and the other way round: `export.zip#ID` and
/// `export/projects.json#ID`, `export.zip/plan.txt` and `export/plan.txt`.
fn names_unpacked(name: &str) -> Vec<String> {
    const ARCHIVE: &str = ".zip";
    const PROJECTS: &str = "/projects.json";
    let file = file_of_item(name);
    let item = &name[file.len()..];
    let mut names = Vec::new();
    if let Some(folder) = file.strip_suffix(ARCHIVE) {
        names.push(format!("{folder}{PROJECTS}{item}"));
    }
    names.extend(file.strip_suffix(PROJECTS).map(|folder| format!("{folder}{ARCHIVE}{item}")));
    for (at, _) in name.match_indices('/') {
        let (above, rest) = name.split_at(at);
        match above.strip_suffix(ARCHIVE) {
            Some(folder) => {
                names.push(format!("{folder}{rest}"));
                // An archive of one folder is unpacked as this folder.
                let beside = folder.rsplit_once('/').map(|(beside, _)| format!("{beside}{rest}"));
                names.push(beside.unwrap_or_else(|| rest[1..].to_owned()));
            }
            None => names.push(format!("{above}{ARCHIVE}{rest}")),
        }
    }
    names
}

/// Everything that a part says, and what is known of it.
fn said_by_part(part: &Document) -> Value {
    json!([part.title, part.text, part.date, part.labels, part.members, part.publish])
}

/// The name of a document that people know by its title.
fn title_as_name(parts: &[Document]) -> Option<&str> {
    let [only] = parts else { return None };
    only.title.as_deref().filter(|_| is_known_by_title(only.kind))
}

/// An event as a document: its text, and what is known of it.
fn as_document(mut event: Value) -> Document {
    let publish = said(event.get("publish"));
    let mut taken = |name: &str| event.get_mut(name).map(Value::take);
    let text = taken("content").and_then(|text| text.as_str().map(str::to_owned));
    let title = taken("title").and_then(|title| title.as_str().map(str::to_owned));
    let labels = taken("labels").and_then(|labels| serde_json::from_value(labels).ok());
    let mut members = Map::new();
    for name in ["author", "from", "url", "feed", "project", LOCAL_ONLY, FILED_UNDER] {
        members.extend(taken(name).map(|value| (name.to_owned(), value)));
    }
    let (text, labels) = (text.unwrap_or_default(), labels.unwrap_or_default());
    Document { kind: FEED_ITEM, text, title, date: None, labels, members, publish }
}

/// An item of a feed without a date: what it is known by, and its text.
struct UndatedItem {
    /// Its own id, or a hash of what it says.
    id: String,
    document: Document,
}

impl UndatedItem {
    fn of(event: Value) -> UndatedItem {
        let id = event["source"]["source_record_id"].as_str().filter(|id| !id.is_empty());
        let id = id.map_or_else(|| sha256(event["content"].to_string()).hex(), str::to_owned);
        UndatedItem { id, document: as_document(event) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::import::{TakenBack, find_taken_back, take_back};
    use crate::os::real::HostDisk;
    use crate::upstream::Family;

    #[test]
    fn a_file_that_cannot_be_opened_is_named_and_the_others_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("buses");
        let disk: &dyn Disk = &HostDisk;
        let target = Target { disk, root: &root, zone: chrono_tz::UTC, now: Timestamp(0) };
        let mut intake = Intake::new(target, Settings::default());
        let mut report = Report::default();
        let roof = dir.path().join("roof.txt");
        disk.replace(&roof, b"The roof leaks.", 0o640).unwrap();
        let kinds = [FileKind::Text, FileKind::Mail, FileKind::ChatJson, FileKind::Claude];
        for kind in kinds {
            let path = dir.path().join("gone");
            let file = NamedFile { path, in_folder: None, name: "gone".to_owned(), kind };
            intake.take(&file, &mut report).unwrap();
        }
        let name = "roof.txt".to_owned();
        let file = NamedFile { path: roof, in_folder: None, name, kind: FileKind::Text };
        intake.take(&file, &mut report).unwrap();
        let named: Vec<&str> = report.rejected.iter().map(|one| one.file.as_str()).collect();
        assert_eq!((named, report.faults), (vec!["gone"; 3], 4));
        assert_eq!(intake.finish(&mut report).unwrap().len(), 1);
    }

    /// A session that names a text that is gone cannot be read, and its request never ends.
    #[test]
    fn a_chat_that_grew_after_a_person_was_forgotten_names_what_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let (file, root) = (dir.path().join("chat.jsonl"), dir.path().join("buses"));
        let disk: &dyn Disk = &HostDisk;
        let target = Target { disk, root: &root, zone: chrono_tz::UTC, now: Timestamp(0) };
        let row = |minute: u8, author: &str| {
            let at = format!("2026-02-11T10:{minute:02}:00Z");
            let text = format!("{author} speaks at {minute}.");
            let row = json!({"id": minute.to_string(), "timestamp": at, "text": text,
                "author": author, "conversation_id": "c"});
            format!("{row}\n")
        };
        let take = |rows: &[String]| {
            disk.replace(&file, rows.concat().as_bytes(), 0o640).unwrap();
            let mut report = Report::default();
            let gap_ms = 3_600_000;
            let mut intake = Intake::new(target, Settings { gap_ms, ..Settings::default() });
            let mapping = fields::Mapping::chat_export();
            intake.take_messages((&file, None), &mapping, &mut report).unwrap();
            intake.finish(&mut report).unwrap().len()
        };
        let words = |path: &str, member: &str| -> Vec<Value> {
            let data = disk.read(&root.join(path)).unwrap();
            let records = data.split(|byte| *byte == b'\n');
            let records = records.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
            records.map(|record| record[member].clone()).collect()
        };
        let mut rows = vec![row(1, "Ana"), row(2, "Eve"), row(3, "Ana")];
        assert_eq!(take(&rows), 1);
        let authors = BTreeSet::from(["Eve".to_owned()]);
        let mut back = TakenBack { authors, ..TakenBack::default() };
        find_taken_back(target, &mut back).unwrap();
        assert_eq!(take_back(target, &back).unwrap(), 2, "her message and its session");
        rows.push(row(4, "Ana"));
        assert_eq!(take(&rows), 1);
        let events = words(&Family::Events.data_path("2026-02-11"), "event_id");
        assert_eq!(events, ["1", "3", "4"]);
        let sessions = words(&Family::Sessions.data_path("2026-02-11"), "event_ids");
        assert_eq!(sessions, [json!(["1", "3", "4"])]);
        // Of a chat that only she wrote nothing is left.
        let hers = [row(2, "Eve")];
        assert_eq!(take(&hers), 0);
    }
}
