//! What one summary is made of, read straight from a file without any home: a document, a mail, a
//! conversation, a feed.

use chrono_tz::Tz;

use super::chats::{self, Conversation, Standing};
use super::collect::NamedFile;
use super::kind::FileKind;
use super::read::{self, Readers};
use super::stream::each_record;
use super::{
    Clock, ImportError, LeftOut, NewRecord, decode, disk_error, feed, fields, mail, talks,
};
use crate::contract::places::DataPlaces;
use crate::contract::publish::{said_by_record, together};
use crate::contract::source::{
    InputContext, Labels, Origin, Person, SourceContext, SourceKind, Window, zoned,
};
use crate::contract::time::Timestamp;
use crate::model::SourceText;
use crate::os::Disk;
use crate::upstream::context::of_event;
use crate::upstream::dated;
use crate::upstream::moment::Moment;
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
        let one_each = |unit: Unit| if several { unit.into_one() } else { unit };
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
    let zone = clock.zone;
    let (path, name) = (file.path.as_path(), file.name.as_str());
    match file.kind {
        FileKind::Mail | FileKind::Mailbox => {
            let many = file.kind == FileKind::Mailbox;
            // A mail with what is attached to it.
            let (mut under_way, mut held) = (0, Vec::new());
            mail::each_event(disk, readers, path, name, &mut |number, found| {
                if number != under_way {
                    let before = std::mem::take(&mut held);
                    of_mail(file, many, before, zone).into_iter().for_each(|unit| take(Ok(unit)));
                    under_way = number;
                }
                match found {
                    Ok((_, record)) => held.push(record),
                    // A draft has no date; alone in its file it still is a mail with words.
                    Err(LeftOut::Unread(_)) if !many => {
                        take(document(disk, readers, file, zone).map_err(LeftOut::Unread));
                    }
                    Err(LeftOut::Unread(why)) => {
                        take(Err(LeftOut::Unread(format!("message {number}: {why}"))));
                    }
                    Err(why) => take(Err(why)),
                }
                Ok(())
            })?;
            of_mail(file, many, held, zone).into_iter().for_each(|unit| take(Ok(unit)));
            Ok(())
        }
        FileKind::ChatGpt | FileKind::Claude => each_record(disk, path, &mut |number, record| {
            let read = record.and_then(|record| chats::conversation(&record));
            match read.map(|one| of_conversation(file, one, zone)) {
                Ok(Some(unit)) => take(Ok(unit)),
                Ok(None) => take(Err(LeftOut::EmptyConversation)),
                Err(why) => take(Err(LeftOut::Unread(format!("conversation {number}: {why}")))),
            }
            Ok(())
        }),
        FileKind::ChatText | FileKind::ChatJson => {
            let bytes = disk.read(path).map_err(disk_error("read", path))?;
            let found = talks::exported(disk, file, &bytes, clock);
            if found.is_empty() {
                take(document(disk, readers, file, zone).map_err(LeftOut::Unread));
            }
            let units = found.into_iter().filter_map(|one| of_conversation(file, one, zone));
            units.for_each(|unit| take(Ok(unit)));
            Ok(())
        }
        FileKind::ChatLines => {
            let mapping = fields::Mapping::chat_export();
            let (mut events, mut problems) = (Vec::new(), Vec::new());
            fields::each_event(disk, zone, &mapping, path, name, &mut |number, found| {
                match found {
                    Ok((_, record)) => events.push(record),
                    Err(why) => problems.push(format!("line {number}: {why}")),
                }
                Ok(())
            })?;
            problems.into_iter().for_each(|why| take(Err(LeftOut::Unread(why))));
            // A session has a window: its events are messages of who says them.
            let times = || events.iter().map(|event| event.order);
            let (start, end) = (times().min().map(Timestamp), times().max().map(Timestamp));
            let window = Window { start, end, timezone: Some(zone.name().to_owned()) };
            let unit = of_events(file, events, zone);
            unit.into_iter().for_each(|mut unit| {
                unit.context.window = Some(window.clone());
                take(Ok(unit));
            });
            Ok(())
        }
        FileKind::JsonFeed => {
            let mapping = fields::Mapping::feed();
            let mut events = Vec::new();
            fields::each_event(disk, zone, &mapping, path, name, &mut |number, found| {
                match found {
                    Ok((_, record)) => events.push(record),
                    Err(LeftOut::Undated(record)) => events.push(*record),
                    Err(why) => take(Err(LeftOut::Unread(format!("item {number}: {why}")))),
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
            take(document(disk, readers, file, zone).map_err(LeftOut::Unread));
            Ok(())
        }
    }
}

fn document(
    disk: &dyn Disk,
    readers: &Readers,
    file: &NamedFile,
    zone: Tz,
) -> Result<Unit, String> {
    let bytes = disk.read(&file.path).map_err(|error| error.to_string())?;
    let mut read = read::whole(readers, file.kind, &file.path, &bytes)?;
    dated::set_days(std::slice::from_mut(&mut read), &file.name);
    let is_local_only = read.is_local_only();
    let text = normalize(&read.text).into_owned();
    if text.trim().is_empty() {
        return Err("no words".to_owned());
    }
    let moment = read.date.as_ref().and_then(|date| Moment::read(&date.as_str().into(), zone));
    let author = ["author", "from"].iter().find_map(|name| read.members.get(*name)?.as_str());
    let mut context = SourceContext {
        id: file.name.clone(),
        kind: SourceKind::Document,
        title: read.title,
        author: author.and_then(Person::parse),
        origin: Origin { path: Some(file.name.clone()), ..Origin::default() },
        labels: Labels { tags: read.labels, ..Labels::default() },
        ..SourceContext::default()
    };
    context.set_moment(moment, zone);
    context.local_only = is_local_only;
    Ok(Unit { publish: read.publish, ..one(file, file.name.clone(), text, context) })
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
    if context.ts.is_none()
        && context.day.is_none()
        && let Some(at) = at.and_then(|at| zoned(at, zone))
    {
        context.set_time(at, zone);
    }
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

/// A conversation as the person saw it last; `None` when nothing in it has words.
fn of_conversation(file: &NamedFile, one: Conversation, zone: Tz) -> Option<Unit> {
    let (mut texts, mut sources) = (Vec::new(), Vec::new());
    for turn in one.turns.iter().filter(|turn| turn.standing == Standing::Shown) {
        let mut context = SourceContext {
            id: turn.id.clone(),
            role: Some(turn.role.clone()),
            author: turn.author.as_deref().and_then(Person::parse),
            local_only: turn.local_only,
            ..SourceContext::default()
        };
        if let Some(at) = zoned(turn.at, zone) {
            context.set_time(at, zone);
            context.is_zone_assumed = turn.is_local;
        }
        texts.push(SourceText { id: turn.id.clone(), text: normalize(&turn.text).into_owned() });
        sources.push(context);
    }
    let shown = one.turns.iter().filter(|turn| turn.standing == Standing::Shown);
    let publish = together(shown.map(|turn| turn.publish).chain([one.publish]));
    let (first, last) = (one.turns.first()?.at, one.turns.last()?.at);
    let title = one.title.unwrap_or_else(|| "untitled conversation".to_owned());
    let mut whole = SourceContext {
        id: one.id,
        kind: SourceKind::Session,
        title: Some(title.clone()),
        origin: Origin { path: Some(file.name.clone()), ..Origin::default() },
        labels: Labels { project: one.project, ..Labels::default() },
        ..SourceContext::default()
    };
    if let Some(begin) = sources.iter().min_by_key(|source| source.time()) {
        (whole.ts, whole.day) = (begin.ts.clone(), begin.day.clone());
        whole.is_zone_assumed = begin.is_zone_assumed;
    }
    let window =
        Window { start: Some(first), end: Some(last), timezone: Some(zone.name().to_owned()) };
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
    use crate::os::real::HostDisk;

    /// The units of one mail, and what was left out of it.
    fn read(mail: &str) -> (Vec<Unit>, Vec<LeftOut>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.eml");
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&path, mail.replace('\n', "\r\n").as_bytes(), 0o640).unwrap();
        let file = NamedFile { path, name: "a.eml".to_owned(), kind: FileKind::Mail };
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
    fn a_draft_is_read_and_what_is_attached_to_it_is_named() {
        let (units, left) = read(&format!("From: a@x\nSubject: Minutes\n{PARTS}"));
        let texts = units.iter().flat_map(|unit| &unit.texts).map(|text| text.text.trim());
        assert_eq!(texts.collect::<Vec<_>>(), ["The minutes are attached."]);
        assert_eq!(left, [LeftOut::Attachment("m.md (of a mail without a date)".to_owned())]);
    }
}
