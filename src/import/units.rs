//! What one summary is made of, read straight from a file without any home: a document, a mail, a
//! conversation, a feed.

use std::collections::{BTreeMap, HashSet};

use chrono_tz::Tz;
use serde_json::Value;

use super::archive_parts::{Part, parts};
use super::chats::{self, Beside, Conversation, Standing};
use super::collect::NamedFile;
use super::export_archive::InArchive;
use super::kind::{FileKind, Refusal};
use super::read::{self, Readers};
use super::stream::each_record;
use super::turn_record::record_of;
use super::{
    Clock, ImportError, LeftOut, NewRecord, decode, disk_error, feed, fields, mail, talks,
};
use crate::contract::places::DataPlaces;
use crate::contract::publish::{said_by_record, together};
use crate::contract::source::{
    InputContext, Labels, Origin, RECORD_ID, SourceContext, SourceKind, Window,
};
use crate::contract::time::Timestamp;
use crate::markup::document::{Document, PROJECT, is_known_by_title};
use crate::model::SourceText;
use crate::os::{Disk, InPlace};
use crate::upstream::context::{of_event, of_members, window_of};
use crate::upstream::dated;
use crate::upstream::resolve::only;
use crate::upstream::text::normalize;

/// The input of one summary.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// The name a person knows it by: the file, and the title inside a file that holds many.
    pub name: String,
    pub kind: FileKind,
    pub texts: Vec<SourceText>,
    pub context: InputContext,
    /// Whether its sources may be shown to others; `None` where no source says so.
    pub publish: Option<bool>,
    /// Where its sources were found.
    pub(crate) places: DataPlaces,
    /// Whether one of its sources says that it stays on this machine.
    pub(crate) local_only: bool,
}

impl Unit {
    /// Subject, headline or title.
    pub(crate) fn title(&self) -> Option<&str> {
        self.context.primary()?.title.as_deref()
    }

    /// Bytes of all its texts.
    pub(crate) fn bytes(&self) -> usize {
        self.texts.iter().map(|text| text.text.len()).sum()
    }

    /// Notes what rules about data may name it by, before its sources are put together with others. `file`
    /// is the place of its file.
    pub(crate) fn note_places(&mut self, file: &DataPlaces) {
        self.context.add_places(&mut self.places);
        self.places.extend(file);
        self.local_only |= self.context.is_local_only();
    }

    /// A conversation or a feed as one text, each message on a line behind its speaker.
    fn into_one(mut self) -> Unit {
        if self.texts.len() < 2 {
            return self;
        }
        let lines = self.texts.iter().zip(&self.context.sources).map(|(text, context)| {
            let speaker = context.speaker().or(context.title.as_deref());
            speaker.map_or(text.text.clone(), |speaker| format!("{speaker}: {}", text.text))
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        let first = self.context.sources.swap_remove(0);
        let whole = self.context.whole.take().unwrap_or_default();
        let context = SourceContext {
            id: self.name.clone(),
            kind: SourceKind::Document,
            title: whole.title,
            day: first.day,
            ..SourceContext::default()
        };
        self.texts = vec![SourceText { id: self.name.clone(), text }];
        self.context = InputContext { sources: vec![context], whole: None, window: None };
        self
    }

    /// Puts several into one.
    pub(crate) fn together(units: Vec<Unit>) -> Option<Unit> {
        let several = units.len() > 1;
        let is_list =
            |unit: &Unit| unit.context.sources.iter().all(|one| one.kind == SourceKind::Record);
        let one_each = |unit: Unit| if several && !is_list(&unit) { unit.into_one() } else { unit };
        let mut units = units.into_iter().map(one_each);
        let mut whole = units.next()?;
        let mut count = 1;
        for one in units {
            whole.texts.extend(one.texts);
            whole.context.sources.extend(one.context.sources);
            whole.publish = together([whole.publish, one.publish]);
            whole.places.extend(&one.places);
            whole.local_only |= one.local_only;
            count += 1;
        }
        if count > 1 {
            whole.name = format!("{count} sources");
            (whole.context.whole, whole.context.window) = (None, None);
        }
        Some(whole)
    }
}

/// Takes a unit, or the reason why a part is no unit.
pub(crate) type TakeUnit<'t> = dyn FnMut(Result<Unit, LeftOut>) + 't;

/// Hands over the units of a file, in its order.
pub(crate) fn each_unit(
    disk: &dyn Disk,
    readers: &Readers,
    file: &NamedFile,
    clock: Clock,
    take: &mut TakeUnit<'_>,
) -> Result<(), ImportError> {
    let in_place = InPlace(disk, None);
    let disk = file.disk(disk, &in_place);
    let zone = clock.zone;
    let (path, name) = (file.path.as_path(), file.name.as_str());
    match file.kind {
        FileKind::Mail | FileKind::Mailbox => {
            let many = file.kind == FileKind::Mailbox;
            // A mail with what is attached to it.
            let (mut under_way, mut held) = (0, Vec::new());
            mail::each_event(disk, zone, readers, path, name, &mut |number, found| {
                if number != under_way {
                    let before = std::mem::take(&mut held);
                    of_mail(file, many, before, zone).into_iter().for_each(|unit| take(Ok(unit)));
                    under_way = number;
                }
                match found {
                    Ok((_, record)) => held.push(record),
                    // A draft has no date; alone in its file it still is a mail with words.
                    Err(LeftOut::Unread(_)) if !many => {
                        let bytes = disk.read(path).map_err(disk_error("read", path))?;
                        take(document(readers, file, &bytes, zone).map_err(LeftOut::Unread));
                    }
                    Err(why @ LeftOut::Unread(_)) => take(Err(why.in_part("message", number))),
                    Err(why) => take(Err(why)),
                }
                Ok(())
            })?;
            of_mail(file, many, held, zone).into_iter().for_each(|unit| take(Ok(unit)));
            Ok(())
        }
        FileKind::ChatGpt | FileKind::Claude => {
            let mut beside = Beside::default();
            each_record(disk, path, &mut |number, record| {
                let read = record.and_then(|record| chats::conversation(&record));
                let read = read.inspect(|one| beside.add(one));
                match read.map(|one| of_conversation(file, one, zone)) {
                    Ok(unit) => take(unit.ok_or(LeftOut::EmptyConversation)),
                    Err(why) => take(Err(LeftOut::Unread(why).in_part("conversation", number))),
                }
                Ok(())
            })?;
            beside.left_out(disk, file.place()).for_each(|why| take(Err(why)));
            Ok(())
        }
        FileKind::ChatArchive => {
            let archive = InArchive::open(disk, path).map_err(disk_error("read", path))?;
            for part in parts(&archive, file) {
                let inner = match part {
                    Part::File(inner) => inner,
                    Part::Refused(name, Refusal(why)) => {
                        take(Err(LeftOut::Entry { name, why }));
                        continue;
                    }
                };
                if let Err(error) = each_unit(&archive, readers, &inner, clock, take) {
                    let part = inner.path.strip_prefix(path).unwrap_or(&inner.path);
                    let (part, why) = (part.display().to_string(), Box::new(LeftOut::of(&error)));
                    take(Err(LeftOut::InPart { part, why }));
                }
            }
            Ok(())
        }
        FileKind::ChatText | FileKind::ChatJson => {
            let bytes = disk.read(path).map_err(disk_error("read", path))?;
            let found = talks::exported(disk, file, &bytes, clock);
            talks::beside(disk, file, &found).for_each(|why| take(Err(why)));
            if found.is_empty() {
                take(document(readers, file, &bytes, zone).map_err(LeftOut::Unread));
            }
            for one in found {
                match one {
                    Ok(one) => {
                        let unit = of_conversation(file, one, zone);
                        take(unit.ok_or(LeftOut::EmptyConversation));
                    }
                    Err((number, why @ LeftOut::Unread(_))) => {
                        take(Err(why.in_part("conversation", number)));
                    }
                    Err((_, why)) => take(Err(why)),
                }
            }
            Ok(())
        }
        FileKind::ChatLines => {
            let mapping = fields::Mapping::chat_export();
            let (mut events, mut problems) = (Vec::new(), Vec::new());
            fields::each_event(disk, zone, &mapping, path, name, &mut |number, found| {
                match found {
                    Ok((_, record)) => events.push(record),
                    Err(why) => problems.push(why.in_part("line", number)),
                }
                Ok(())
            })?;
            problems.into_iter().for_each(|why| take(Err(why)));
            of_messages(file, events, zone).into_iter().for_each(|unit| take(Ok(unit)));
            Ok(())
        }
        FileKind::JsonFeed => {
            let mapping = fields::Mapping::feed();
            let mut events = Vec::new();
            fields::each_event(disk, zone, &mapping, path, name, &mut |number, found| {
                match found {
                    Ok((_, record)) => events.push(record),
                    Err(LeftOut::Undated(record)) => events.push(*record),
                    Err(why) => take(Err(why.in_part("item", number))),
                }
                Ok(())
            })?;
            let feed = events.first().and_then(|one| one.value["feed"].as_str().map(str::to_owned));
            let unit = of_events(file, events, zone);
            unit.map(|unit| titled(unit, feed)).into_iter().for_each(|unit| take(Ok(unit)));
            Ok(())
        }
        FileKind::XmlFeed => {
            let bytes = disk.read(path).map_err(disk_error("read", path))?;
            let text = decode::marked_up(&bytes).unwrap_or_default();
            match feed::read(name, &text, zone) {
                Ok(feed) => {
                    let (mut events, mut problems) = (Vec::new(), Vec::new());
                    for item in feed.items {
                        match item {
                            Ok((_, record)) => events.push(record),
                            Err(LeftOut::Undated(record)) => events.push(*record),
                            Err(why) => problems.push(why),
                        }
                    }
                    problems.into_iter().for_each(|why| take(Err(why)));
                    let unit = of_events(file, events, zone);
                    let whole = |unit: Unit| titled(unit, feed.title.clone());
                    unit.map(whole).into_iter().for_each(|unit| take(Ok(unit)));
                }
                Err(why) => take(Err(LeftOut::Unread(why))),
            }
            Ok(())
        }
        _ => {
            let bytes = disk.read(path).map_err(disk_error("read", path))?;
            let found = list(file, &bytes, zone).and_then(|found| match found {
                found if found.is_empty() => Ok(vec![document(readers, file, &bytes, zone)?]),
                found => Ok(found),
            });
            match found {
                Ok(units) => units.into_iter().for_each(|unit| take(Ok(unit))),
                Err(why) => take(Err(LeftOut::Unread(why))),
            }
            read::beside_text(file.kind, &bytes).into_iter().for_each(|why| take(Err(why)));
            Ok(())
        }
    }
}

/// A list: each of its items is a source of its own, and each project of a list of them a unit. Nothing where the file
/// is no list of items with words.
fn list(file: &NamedFile, bytes: &[u8], zone: Tz) -> Result<Vec<Unit>, String> {
    if !matches!(file.kind, FileKind::Csv | FileKind::Json | FileKind::ChatJson) {
        return Ok(Vec::new());
    }
    let items = read::guarded(|| read::items(file.kind, &file.path, bytes))?;
    let Some(mut items) = items.filter(|items| !items.is_empty()) else { return Ok(Vec::new()) };
    dated::set_heads(&mut items, &file.name);
    let mut projects: BTreeMap<Option<String>, Vec<Document>> = BTreeMap::new();
    for item in items {
        let project = item.title.clone().filter(|_| item.kind == PROJECT);
        projects.entry(project).or_default().push(item);
    }
    let units = projects.into_iter().map(|(project, items)| {
        let name = project.as_ref().map(|project| format!("{}: {project}", file.name));
        let unit = list_of(file, items, zone);
        Unit {
            name: name.unwrap_or(unit.name),
            context: titled_list(unit.context, project),
            ..unit
        }
    });
    Ok(units.collect())
}

/// The context of a list with a title.
fn titled_list(mut context: InputContext, title: Option<String>) -> InputContext {
    if let Some(whole) = context.whole.as_mut().filter(|_| title.is_some()) {
        whole.title = title;
    }
    context
}

fn list_of(file: &NamedFile, items: Vec<Document>, zone: Tz) -> Unit {
    let publish = together(items.iter().map(|item| item.publish));
    let (mut texts, mut sources, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    for (item, number) in items.into_iter().zip(1..) {
        let own = item.members.get(RECORD_ID).and_then(Value::as_str).map(str::to_owned);
        let key = own.filter(|own| !known.contains(own)).unwrap_or_else(|| number.to_string());
        let id = format!("{}#{key}", file.name);
        known.insert(key);
        texts.push(SourceText { id: id.clone(), text: normalize(&item.text).into_owned() });
        sources.push(of_document(item, id, SourceKind::Record, &file.name, zone));
    }
    let whole = (sources.len() > 1).then(|| SourceContext {
        id: file.name.clone(),
        kind: SourceKind::Document,
        origin: Origin { path: Some(file.name.clone()), ..Origin::default() },
        ..SourceContext::default()
    });
    let (name, kind) = (file.name.clone(), file.kind);
    let (places, local_only) = (DataPlaces::default(), false);
    let context = InputContext { sources, whole, window: None };
    Unit { name, kind, texts, context, publish, places, local_only }
}

fn document(readers: &Readers, file: &NamedFile, bytes: &[u8], zone: Tz) -> Result<Unit, String> {
    let mut read = read::whole(readers, file.kind, &file.path, bytes)?;
    dated::set_heads(std::slice::from_mut(&mut read), &file.name);
    let text = normalize(&read.text).into_owned();
    if !read::has_words(&text) {
        return Err("no words".to_owned());
    }
    let publish = read.publish;
    let context = of_document(read, file.name.clone(), SourceKind::Document, &file.name, zone);
    Ok(Unit { publish, ..one(file, file.name.clone(), text, context) })
}

/// The context of a document, as that of its chunks on a bus.
fn of_document(
    read: Document,
    id: String,
    kind: SourceKind,
    path: &str,
    zone: Tz,
) -> SourceContext {
    let members = dated::with_day(read.members, read.date.as_deref());
    let mut context = SourceContext { id, kind, ..of_members(&members, zone) };
    context.title = read.title.or(context.title);
    context.is_known_by_title = is_known_by_title(read.kind);
    context.origin.path = Some(path.to_owned());
    // As of a chunk: what else it notes is not about what it says.
    context.meta.clear();
    if !read.labels.is_empty() {
        context.labels.tags = read.labels;
    }
    context
}

fn one(file: &NamedFile, name: String, text: String, context: SourceContext) -> Unit {
    Unit {
        name,
        kind: file.kind,
        texts: vec![SourceText { id: context.id.clone(), text }],
        context: InputContext { sources: vec![context], whole: None, window: None },
        publish: None,
        places: DataPlaces::default(),
        local_only: false,
    }
}

/// A mail with what is attached to it; `None` when nothing in it has words.
fn of_mail(file: &NamedFile, many: bool, events: Vec<NewRecord>, zone: Tz) -> Option<Unit> {
    let mut unit = of_events(file, events, zone)?;
    let title = unit.context.sources[0].title.clone();
    if let (Some(title), true) = (&title, many) {
        unit.name = format!("{}: {title}", file.name);
    }
    // A mail is an event; what is attached to it are texts of their own.
    unit.context.sources.iter_mut().skip(1).for_each(|one| one.kind = SourceKind::Document);
    Some(if unit.texts.len() > 1 { titled(unit, title) } else { unit })
}

/// Whether an event may be shown to others.
fn said_of(record: &NewRecord) -> Option<bool> {
    record.value.as_object().and_then(said_by_record)
}

/// The text and the context of an event record.
fn event(record: &NewRecord, at: Option<Timestamp>, zone: Tz) -> (String, SourceContext) {
    let mut context = of_event(&record.value, zone);
    context.id = record.id.clone();
    context.set_filed(&record.value, at, zone);
    let text = record.value["content"].as_str().unwrap_or_default();
    (normalize(text).into_owned(), context)
}

/// Several events that are summarized together; `None` when no event has words.
fn of_events(file: &NamedFile, events: Vec<NewRecord>, zone: Tz) -> Option<Unit> {
    let (mut texts, mut sources) = (Vec::new(), Vec::new());
    let publish = together(events.iter().map(said_of));
    for record in events {
        let is_dated = record.value["timestamp_ms"].is_i64();
        let at = is_dated.then_some(Timestamp(record.order));
        let (text, context) = event(&record, at, zone);
        if !text.trim().is_empty() {
            texts.push(SourceText { id: context.id.clone(), text });
            sources.push(context);
        }
    }
    let context = InputContext { sources, whole: None, window: None };
    let (name, kind) = (file.name.clone(), file.kind);
    let places = DataPlaces::default();
    let local_only = false;
    let unit = Unit { name, kind, texts, context, publish, places, local_only };
    (!unit.texts.is_empty()).then_some(unit)
}

fn titled(mut unit: Unit, title: Option<String>) -> Unit {
    unit.context.whole = title.map(|title| SourceContext {
        id: unit.name.clone(),
        kind: SourceKind::Document,
        title: Some(title),
        origin: Origin { path: Some(unit.name.clone()), ..Origin::default() },
        ..SourceContext::default()
    });
    unit
}

/// When a session begins, and its window.
fn session_of(session: &mut SourceContext, messages: &[SourceContext], zone: Tz) -> Window {
    let window = window_of(messages, None, zone);
    session.begin(&window, messages, zone);
    Window { timezone: Some(zone.name().to_owned()), ..window }
}

/// Loose messages as a session; `None` when none has words.
fn of_messages(file: &NamedFile, events: Vec<NewRecord>, zone: Tz) -> Option<Unit> {
    let mut unit = of_events(file, events, zone)?;
    let sources = &unit.context.sources;
    let title = only(sources.iter().map(|source| source.title.as_deref()));
    let mut session = SourceContext {
        id: unit.name.clone(),
        kind: SourceKind::Session,
        title: title.or_else(|| Some(unit.name.clone())),
        origin: Origin { path: Some(file.name.clone()), ..Origin::default() },
        ..SourceContext::default()
    };
    unit.context.window = Some(session_of(&mut session, sources, zone));
    unit.context.whole = Some(session);
    Some(unit)
}

/// A conversation as the person saw it last; `None` when nothing in it has words.
fn of_conversation(file: &NamedFile, one: Conversation, zone: Tz) -> Option<Unit> {
    let (mut texts, mut sources) = (Vec::new(), Vec::new());
    for turn in one.turns.iter().filter(|turn| turn.standing == Standing::Shown) {
        let record = record_of(&one, turn, &file.name, zone);
        let (text, context) = event(&record, Some(turn.at), zone);
        texts.push(SourceText { id: turn.id.clone(), text });
        sources.push(SourceContext { id: turn.id.clone(), ..context });
    }
    let shown = one.turns.iter().filter(|turn| turn.standing == Standing::Shown);
    let publish = together(shown.map(|turn| turn.publish).chain([one.publish]));
    let title = one.title.unwrap_or_else(|| "untitled conversation".to_owned());
    let mut whole = SourceContext {
        id: one.id,
        kind: SourceKind::Session,
        title: Some(title.clone()),
        origin: Origin { path: Some(file.name.clone()), ..Origin::default() },
        labels: Labels { project: one.project, ..Labels::default() },
        ..SourceContext::default()
    };
    let window = session_of(&mut whole, &sources, zone);
    // A chat that is a file of its own has the name of its file.
    let name = match file.kind {
        FileKind::ChatText => file.name.clone(),
        _ => format!("{}: {title}", file.name),
    };
    let context = InputContext { sources, whole: Some(whole), window: Some(window) };
    let (kind, places, local_only) = (file.kind, DataPlaces::default(), false);
    let unit = Unit { name, kind, texts, context, publish, places, local_only };
    (!unit.texts.is_empty()).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::source::{FORWARDED_FROM, REPLY_TO_AUTHOR};
    use crate::os::real::HostDisk;

    /// The units of one mail, and what was left out of it.
    fn read(mail: &str) -> (Vec<Unit>, Vec<LeftOut>) {
        read_file("a.eml", FileKind::Mail, &mail.replace('\n', "\r\n"))
    }

    /// The units of a file, and what was left out of it.
    fn read_file(name: &str, kind: FileKind, text: &str) -> (Vec<Unit>, Vec<LeftOut>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&path, text.as_bytes(), 0o640).unwrap();
        let file = NamedFile { path, in_folder: None, name: name.to_owned(), kind };
        let (mut units, mut left) = (Vec::new(), Vec::new());
        let clock = Clock { zone: chrono_tz::UTC, now: Timestamp(0) };
        each_unit(disk, &Readers::default(), &file, clock, &mut |found| match found {
            Ok(unit) => units.push(unit),
            Err(why) => left.push(why),
        })
        .unwrap();
        (units, left)
    }

    const PARTS: &str = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nThe minutes are attached.\n--b\n\
        Content-Type: text/markdown; name=m.md\nContent-Disposition: attachment\n\n\
        ---\nlocal_only: true\n---\nWe buy a pump.\n--b--\n";

    #[test]
    fn a_mail_with_attachments_has_the_title_of_the_mail_and_the_marks_of_both() {
        let head = "From: a@x\nSubject: Minutes\nDate: Mon, 9 Feb 2026 10:00:00 +0000\n";
        let (units, left) = read(&format!("{head}{PARTS}"));
        let [unit] = units.as_slice() else { panic!("{} units", units.len()) };
        assert_eq!((unit.title(), left), (Some("Minutes"), Vec::new()));
        let texts: Vec<_> = unit.texts.iter().map(|text| text.text.trim()).collect();
        assert_eq!(texts, ["The minutes are attached.", "We buy a pump."]);
        assert!(unit.context.is_local_only() && unit.context.is_apart());
    }

    #[test]
    fn a_table_with_an_open_quote_is_read_and_so_it_is_said() {
        let table = "name,note\nAna,wet\nBo,\"It leaks\nEva,new\n";
        let (units, left) = read_file("t.csv", FileKind::Csv, table);
        assert_eq!(left, [LeftOut::OneCell(3)]);
        assert!(units[0].texts.iter().any(|text| text.text.contains("Eva,new")), "{units:?}");
        let mut report = crate::import::Report::default();
        left.into_iter().for_each(|why| report.leave_out("t.csv", 1, why));
        let told = "t.csv: a quote in line 3 has no end, so all behind it was read as one cell";
        assert_eq!((report.not_read.len(), report.one_cells().as_deref()), (0, Some(told)));
    }

    #[test]
    fn a_draft_is_read_and_what_is_attached_to_it_is_named() {
        let (units, left) = read(&format!("From: a@x\nSubject: Minutes\n{PARTS}"));
        let texts = units.iter().flat_map(|unit| &unit.texts).map(|text| text.text.trim());
        assert_eq!(texts.collect::<Vec<_>>(), ["The minutes are attached."]);
        assert_eq!(left, [LeftOut::Attachment("m.md (of a mail without a date)".to_owned())]);
    }

    #[test]
    fn a_mail_in_a_mail_that_has_no_date_stays_without_one() {
        let head = "From: a@x\nSubject: Minutes\nDate: Mon, 9 Feb 2026 10:00:00 +0000\n\
            Content-Type: multipart/mixed; boundary=b\n\n--b\n\nSee below.\n";
        let inner = |date: &str| {
            let mail = format!("Message-ID: <2@x>\nFrom: t@x\nSubject: Offer\n{date}\nTwo years.");
            format!("{head}--b\nContent-Type: message/rfc822\n\n{mail}\n--b--\n")
        };
        for (date, day) in
            [("", None), ("Date: Sun, 1 Feb 2026 08:00:00 +0000\n", Some("2026-02-01"))]
        {
            let (units, _) = read(&inner(date));
            let sources = &units[0].context.sources;
            assert_eq!(sources[0].day.as_deref(), Some("2026-02-09"));
            assert_eq!(
                (sources[1].title.as_deref(), sources[1].day.as_deref()),
                (Some("Offer"), day)
            );
            assert_eq!(sources[1].ts.is_some(), day.is_some());
        }
    }

    #[test]
    fn a_message_says_whom_it_answers_and_who_wrote_it_first() {
        let chat = serde_json::json!({"name": "Flat", "type": "private_group", "messages": [
            {"id": 1, "type": "message", "date_unixtime": "1772704800", "from": "Ana", "text": "Who pays?"},
            {"id": 2, "type": "message", "date_unixtime": "1772704860", "from": "Bo", "text": "I do",
             "reply_to_message_id": 1},
            {"id": 3, "type": "message", "date_unixtime": "1772704870", "from": "Bo", "text": "The rent rises.",
             "forwarded_from": "Marta"}]});
        let (units, _) = read_file("result.json", FileKind::ChatJson, &chat.to_string());
        let sources = &units[0].context.sources;
        let said = |at: usize, member: &str| sources[at].meta.get(member).and_then(Value::as_str);
        assert_eq!(said(0, REPLY_TO_AUTHOR), None);
        assert_eq!(
            (said(1, REPLY_TO_AUTHOR), said(2, FORWARDED_FROM)),
            (Some("Ana"), Some("Marta"))
        );
    }

    #[test]
    fn loose_messages_are_a_session_with_its_time() {
        let line = |id: u64, role: &str, at: &str, text: &str| {
            let at = at.to_owned();
            format!(
                "{}\n",
                serde_json::json!({"id": id, "role": role, "timestamp": at, "title": "Lease",
                "conversation_id": "c", "content": text})
            )
        };
        let chat = line(1, "user", "2026-02-11T09:30:00Z", "Who signs?")
            + &line(2, "assistant", "2026-02-11T09:31:00Z", "The tenant.");
        let (units, _) = read_file("chat.jsonl", FileKind::ChatLines, &chat);
        let (context, session) = (&units[0].context, units[0].context.primary().unwrap());
        assert_eq!((session.title.as_deref(), session.kind), (Some("Lease"), SourceKind::Session));
        assert_eq!(session.ts.as_deref(), Some("2026-02-11T09:30:00+00:00"));
        let window = context.window.as_ref().unwrap();
        let minutes = window.end.unwrap().ms_since(window.start.unwrap()) / 60_000;
        assert_eq!((session.day.as_deref(), minutes), (Some("2026-02-11"), 1));
        let days =
            line(1, "user", "2026-02-11", "Who signs?") + &line(2, "user", "2026-02-12", "I do.");
        let (units, _) = read_file("chat.jsonl", FileKind::ChatLines, &days);
        let session = units[0].context.primary().unwrap();
        assert_eq!((session.ts.as_deref(), session.day.as_deref()), (None, Some("2026-02-11")));
        let window = units[0].context.window.as_ref().unwrap();
        assert_eq!((window.start, window.end), (None, None));
    }

    #[test]
    fn each_item_of_a_list_is_a_source_with_what_it_says_of_itself() {
        let rows = [
            ("r1", "Ana", "2026-02-11", "The roof leaks."),
            ("r2", "Ben", "2026-02-12", "A pump."),
        ];
        let record = |row: &(&str, &str, &str, &str)| {
            serde_json::json!({"id": row.0, "author": row.1, "date": row.2, "tags": "house; cost",
                "text": row.3})
        };
        let all: Vec<Value> = rows.iter().map(record).collect();
        let lines: String = all.iter().map(|one| format!("{one}\n")).collect();
        let cells =
            rows.map(|row| format!("{},{},{},house; cost,{}\n", row.0, row.1, row.2, row.3));
        let table = format!("id,author,date,tags,text\n{}", cells.concat());
        for (name, kind, text) in [
            ("a.json", FileKind::Json, Value::from(all).to_string()),
            ("a.jsonl", FileKind::Json, lines),
            ("a.csv", FileKind::Csv, table),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(name);
            let file = NamedFile { path, in_folder: None, name: name.to_owned(), kind };
            let unit = list(&file, text.as_bytes(), chrono_tz::UTC).unwrap().remove(0);
            assert_eq!((unit.title(), unit.context.name()), (None, Some(name.to_owned())));
            for ((source, text), row) in unit.context.sources.iter().zip(&unit.texts).zip(rows) {
                assert_eq!((&source.id, &text.id), (&format!("{name}#{}", row.0), &source.id));
                assert_eq!((source.speaker(), source.day.as_deref()), (Some(row.1), Some(row.2)));
                assert_eq!(
                    (source.labels.tags.join(" "), text.text.trim()),
                    ("house cost".into(), row.3)
                );
                assert_eq!(source.origin.message_id.as_deref(), Some(row.0));
            }
            let other = Unit { name: "b".to_owned(), ..unit.clone() };
            assert_eq!(Unit::together(vec![unit, other]).unwrap().texts.len(), 4);
        }
    }

    #[test]
    fn instructions_to_a_model_are_named_and_no_part_of_a_project() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("projects.json");
        let disk: &dyn Disk = &HostDisk;
        let project = |name: &str, template: &str| {
            serde_json::json!({"name": name, "description": "Plans.", "prompt_template": template,
                "docs": [{"filename": "oven.txt", "content": "Clean the oven."}]})
        };
        let projects =
            Value::from(vec![project("Bakery", "Answer as a baker."), project("Well", "")]);
        disk.replace(&path, projects.to_string().as_bytes(), 0o640).unwrap();
        let (name, kind) = ("projects.json".to_owned(), FileKind::Json);
        let file = NamedFile { path, in_folder: None, name, kind };
        let clock = Clock { zone: chrono_tz::UTC, now: Timestamp(0) };
        let mut left = Vec::new();
        each_unit(disk, &Readers::default(), &file, clock, &mut |found| left.extend(found.err()))
            .unwrap();
        let told = "instructions to the model of Bakery (they are no part of a project)";
        assert_eq!(left, [LeftOut::Attachment(told.to_owned())]);
    }

    #[test]
    fn what_is_attached_to_a_mail_keeps_its_own_author_day_and_title() {
        let head = "From: Ana <a@x.example>\nSubject: Minutes\nDate: Mon, 9 Feb 2026 10:00:00 +0000\n\
            Content-Type: multipart/mixed; boundary=b\n\n--b\n\nSee below.\n";
        let part = "--b\nContent-Type: text/html; name=p.html\nContent-Disposition: attachment\n\n\
            <html><head><title>Prices</title><meta name=author content='Pump Ltd'>\
            <meta name=date content='2025-12-01'></head><p>A pump costs 300 EUR.</p></html>\n\
            --b\nContent-Type: text/plain; name=n.txt\nContent-Disposition: attachment\n\n\
            The key is under the mat.\n--b--\n";
        let (units, _) = read(&format!("{head}{part}"));
        let sources = &units[0].context.sources;
        let known = |at: usize| {
            let one: &SourceContext = &sources[at];
            (one.speaker().unwrap(), one.day.as_deref().unwrap(), one.title.as_deref().unwrap())
        };
        assert_eq!(known(0), ("Ana", "2026-02-09", "Minutes"));
        assert_eq!(known(1), ("Pump Ltd", "2025-12-01", "Prices"));
        assert_eq!(known(2), ("Ana", "2026-02-09", "Minutes › n.txt"));
        // A rule about the sender holds for everything that he sent.
        let mut named = DataPlaces::default();
        named.add(crate::contract::places::DataPlace::Author, "a@x.example");
        let mut places = DataPlaces::default();
        sources[1].add_places(&mut places);
        let before = places.clone();
        places.extend(&named);
        assert_eq!(places, before);
    }
}
