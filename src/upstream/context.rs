//! What upstream knows of each source of a request beside its text.
//!
//! Contract: read from the same verified records as the texts; a record that says nothing of a
//! member gives null. Producers name things in several ways: each member has a short list of names,
//! and the first that holds a value counts. Unknown members of an event are kept in `meta`, bounded.

use std::path::Path;

use chrono_tz::Tz;
use serde_json::{Map, Value};

use super::defect::Defect;
use super::moment::Moment;
use super::other::{OTHER_DIR, conversation_of, parts_of, plain};
use super::resolve::{Resolved, only};
use super::sources::is_summary_id;
use super::view::Upstream;
use crate::contract::places::{DataPlace, DataPlaces};
use crate::contract::privacy::says_local_only;
use crate::contract::publish::{PRIVATE_MARK, mark_of};
use crate::contract::source::{
    InputContext, Labels, META_BYTES_MAX, Origin, Person, SourceContext, SourceKind, TimePrecision,
    Window, add_person, zoned,
};
use crate::contract::stable_id::document_id;
use crate::contract::time::{Day, Timestamp};
use crate::contract::versions::{file_of_item, file_origin, origin_of_summary};
use crate::contract::vocabulary::{Bus, Stream};
use crate::markup::document::{MAIL, extension_of, is_known_by_title};
use crate::markup::members::{
    self, FILED_UNDER, SAID_BY, TITLES, authors, folded, name_of_person, named,
};

/// Contexts read for one request. A request over more sources gives its flow no context.
const CONTEXTS_MAX: usize = 20_000;
/// Longest value that is kept in `meta`.
const META_VALUE_BYTES_MAX: usize = 1 << 10;
/// Milliseconds of a second: a written time may leave out what is below.
const MS_OF_SECOND: i64 = 1000;
/// Most sources that are named as the reason why a text stays here.
const MARKED_MAX: usize = 100;

/// Members that have a place of their own in a context, or that say nothing to a flow.
const PLACED: &[&str] = &[
    "schema_version",
    "event_id",
    "timestamp_ms",
    "timestamp",
    "ts_abs_ms",
    "ts_abs",
    "ts_precision",
    "title",
    "subject",
    "content",
    "text",
    "author",
    "from",
    "sender",
    "role",
    "to",
    "cc",
    "url",
    "link",
    "message_id",
    "feed",
    "mailbox",
    "project",
    "project_name",
    "labels",
    "tags",
    "list_id",
    "language",
    "lang",
    "source",
    "publish",
    PRIVATE_MARK,
    SAID_BY,
    FILED_UNDER,
    "conversation_id",
    "event_kind",
    "event_subkind",
    "domain_family",
    "chunk_ids",
    "chunk_id",
    "refs",
    "payload",
    "raw",
];

/// Reads the context of everything a request resolved to. `None` where there are too many sources.
pub(crate) fn context_of(
    resolved: &Resolved,
    upstream: &Upstream,
    zone: Tz,
) -> Result<Option<InputContext>, Defect> {
    if resolved.sources.len() > CONTEXTS_MAX {
        return Ok(None);
    }
    let mut sources = Vec::with_capacity(resolved.sources.len());
    each_context(resolved, upstream, zone, &mut |context| sources.push(context))?;
    for (place, name) in &resolved.session_begins {
        if let Some(first) = sources.get_mut(*place) {
            first.begins_session = Some(name.clone());
        }
    }
    if resolved.bus == Bus::Other {
        name_talks(&mut sources);
    }
    let (whole, window) = whole(resolved, &sources, zone);
    Ok(Some(InputContext { sources, whole, window }))
}

/// What the data of a request says of privacy.
#[derive(Debug, Default)]
pub(crate) struct DataFacts {
    /// Where it was found.
    pub places: DataPlaces,
    /// Sources that say of themselves that they stay on this machine.
    pub marked: Vec<String>,
    /// Sources that say that they are private, each with the member that says it.
    pub private: Vec<String>,
    /// The sources of those that are summaries, and the documents that their files have now.
    pub made_from: Vec<(Bus, Vec<String>)>,
}

/// Reads what the data of a request says of privacy. `context` is what is known already. Without rules
/// nobody asks for places.
pub(crate) fn data_of(
    resolved: &Resolved,
    upstream: &Upstream,
    zone: Tz,
    context: Option<&InputContext>,
    has_rules: bool,
) -> Result<DataFacts, Defect> {
    let mut facts = DataFacts::default();
    let DataFacts { places, marked, private, made_from } = &mut facts;
    places.add(DataPlace::Bus, resolved.bus.as_str());
    let common = &resolved.common;
    common.project.iter().for_each(|name| places.add(DataPlace::Project, name));
    common.labels.iter().for_each(|name| places.add(DataPlace::Label, name));
    let mut take = |source: &SourceContext| {
        if has_rules {
            source.add_places(places);
        }
        made_from.extend(source.made_from.clone());
        if source.local_only && marked.len() < MARKED_MAX {
            marked.push(source.id.clone());
        }
        if let Some(mark) = &source.private_mark
            && private.len() < MARKED_MAX
        {
            private.push(format!("{} ({mark})", source.id));
        }
    };
    match context {
        Some(context) => context.whole.iter().chain(&context.sources).for_each(&mut take),
        // So many contexts are not kept; each of them counts.
        None => each_context(resolved, upstream, zone, &mut |context| take(&context))?,
    }
    add_marked_by_text(&mut facts.private, resolved);
    facts.private.extend(resolved.private_sessions.iter().cloned());
    if !resolved.later.is_empty() {
        facts.made_from.push((Bus::ChunkBus, resolved.later.clone()));
    }
    Ok(facts)
}

/// Adds the sources whose mark is no member with a value: an empty one of front matter, a line or a tag of the text.
fn add_marked_by_text(private: &mut Vec<String>, resolved: &Resolved) {
    let names = |reason: &String, id: &str| {
        reason.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
    };
    for source in resolved.sources.iter().filter(|source| source.publish == Some(false)) {
        if private.len() >= MARKED_MAX {
            return;
        }
        if !private.iter().any(|reason| names(reason, source.id)) {
            private.push(source.id.to_owned());
        }
    }
}

/// Reads the context of each source.
fn each_context(
    resolved: &Resolved,
    upstream: &Upstream,
    zone: Tz,
    take: &mut dyn FnMut(SourceContext),
) -> Result<(), Defect> {
    let mut last: Option<(String, Option<String>)> = None;
    resolved.sources.each_record(upstream, &mut |source, record| {
        let mut context = match source.bus {
            Bus::EventBus | Bus::SessionBus => of_event(record, zone),
            Bus::ChunkBus => of_chunk(record, zone),
            Bus::Other if is_summary_id(source.id) => of_summary(record, zone),
            Bus::Other => {
                let members = record.as_object();
                let talk = members.and_then(|members| conversation_of(source.id, members));
                let kind = match parts_of(source.id) {
                    _ if talk.is_some() => SourceKind::Event,
                    (_, Some(_)) => SourceKind::Record,
                    _ => SourceKind::Document,
                };
                let context = record.as_object().map(|record| of_members(record, zone));
                SourceContext {
                    kind,
                    conversation: talk.map(str::to_owned),
                    is_known_by_title: is_known_by_title(&extension_of(source.file)),
                    ..context.unwrap_or_default()
                }
            }
        };
        context.id = source.id.to_owned();
        if context.title.is_none() {
            context.title = source.title.map(str::to_owned);
        }
        if context.kind != SourceKind::Summary {
            context.set_filed(record, source.time_ms.map(Timestamp), zone);
        }
        let members = record.as_object();
        context.local_only |= members.is_some_and(says_local_only);
        context.private_mark = members.and_then(mark_of);
        context.origin.path.iter().for_each(|path| context.places.add_file(path));
        let folder = words(record, &["source.folder"]);
        folder.iter().for_each(|folder| context.places.add_folder(folder));
        if source.bus == Bus::Other && context.kind != SourceKind::Summary {
            let named = source.file.strip_prefix("other/").unwrap_or(source.file);
            context.places.add_file(named);
            // Items of a list follow one another.
            if last.as_ref().is_none_or(|(file, _)| file != named) {
                last = Some((named.to_owned(), behind_links(upstream, named)));
            }
            let real = last.as_ref().and_then(|(_, real)| real.as_deref());
            real.into_iter().for_each(|real| context.places.add_file(real));
        }
        if context.origin.path.is_none() {
            context.origin.path = Some(source.file.to_owned());
            // The file of a day of summaries is sorted and grows, so the number of a line changes.
            let has_line = source.bus != Bus::Other
                || matches!(context.kind, SourceKind::Record | SourceKind::Event);
            context.origin.line = has_line.then_some(source.line);
        }
        take(context);
    })
}

/// The path that a file of the bus `other` has without links, where its own path is another one.
fn behind_links(upstream: &Upstream, id: &str) -> Option<String> {
    let (disk, dir) = (upstream.disk(), upstream.root().join(OTHER_DIR));
    let real = disk.real_path(&dir.join(plain(id).ok()?)).ok()?;
    let below = real.strip_prefix(disk.real_path(&dir).ok()?).ok()?;
    (below != Path::new(id)).then(|| below.to_string_lossy().into_owned())
}

/// The session or document that the sources are parts of, when they are parts of one.
fn whole(
    resolved: &Resolved,
    sources: &[SourceContext],
    zone: Tz,
) -> (Option<SourceContext>, Option<Window>) {
    let common = &resolved.common;
    let of_all = only(sources.iter().map(|source| source.labels.project.as_deref()));
    let labels = Labels {
        project: common.project.clone().or(of_all),
        tags: common.labels.clone(),
        ..Labels::default()
    };
    match resolved.bus {
        Bus::SessionBus => {
            let borders = (common.start_ms, common.end_ms);
            let known = window_of(sources, borders.0.zip(borders.1), zone);
            let window = Window {
                // Times of day are told in the zone of the home, unless the producer names another.
                timezone: common
                    .timezone
                    .clone()
                    .or_else(|| borders.0.or(borders.1).map(|_| zone.name().to_owned())),
                ..known
            };
            let id = match resolved.session_ids.as_slice() {
                [only] => only.clone(),
                _ => String::new(),
            };
            let mut session = SourceContext {
                id,
                kind: SourceKind::Session,
                title: common.title.clone(),
                labels,
                ..SourceContext::default()
            };
            session.begin(&window, sources, zone);
            (Some(session), Some(window))
        }
        Bus::ChunkBus => {
            let ([only], Some(first)) = (resolved.document_ids.as_slice(), sources.first()) else {
                return (None, None);
            };
            let origin = Origin { line: None, ..first.origin.clone() };
            // The items of a list may be by different people and of different days.
            let authors = sources.iter().all(|source| source.author == first.author);
            let time = |source: &SourceContext| {
                (source.ts.clone(), source.day.clone(), source.is_zone_assumed)
            };
            let times = sources.iter().all(|source| time(source) == time(first));
            let document = SourceContext {
                id: only.clone(),
                kind: SourceKind::Document,
                title: common.title.clone(),
                origin,
                is_known_by_title: first.is_known_by_title,
                author: first.author.clone().filter(|_| authors),
                ts: first.ts.clone().filter(|_| times),
                day: first.day.clone().filter(|_| times),
                is_zone_assumed: first.is_zone_assumed && times,
                labels,
                ..SourceContext::default()
            };
            (Some(document), None)
        }
        Bus::Other => talk(sources, zone),
        Bus::EventBus => (None, None),
    }
}

/// When the messages of a session begin and end, as far as they say it. `stated` is what the session says of itself; its
/// borders are the first and the last moment otherwise. A message of which only the day is known may be before or after
/// all others of its day, so that nobody knows the hour of a border on that day. One without a date says nothing.
pub(crate) fn window_of(
    messages: &[SourceContext],
    stated: Option<(i64, i64)>,
    zone: Tz,
) -> Window {
    let times = || messages.iter().filter_map(SourceContext::time).map(|at| at.timestamp_millis());
    let borders = stated.or_else(|| times().min().zip(times().max()));
    let Some((start, end)) = borders else { return Window::default() };
    if messages.iter().all(|one| one.ts.is_some()) {
        let (start, end) = (Some(Timestamp(start)), Some(Timestamp(end)));
        return Window { start, end, timezone: None };
    }
    let alone = messages.iter().filter(|one| one.ts.is_none());
    let days: Vec<Day> = alone.filter_map(|one| one.day.as_deref()?.parse().ok()).collect();
    let known = |ms: i64, is_beyond: fn(Day, Day) -> bool| {
        let day = Timestamp(ms).day_in(zone);
        // The time of a message without a clock time only gives its place among the others.
        let is_said = times().any(|at| at / MS_OF_SECOND == ms / MS_OF_SECOND);
        let is_hidden = days.iter().any(|other| *other == day || is_beyond(*other, day));
        (is_said && !is_hidden).then_some(Timestamp(ms))
    };
    Window {
        start: known(start, |other, day| other < day),
        end: known(end, |other, day| other > day),
        timezone: None,
    }
}

/// The session that messages of files are, when all sources are messages.
pub(super) fn talk(sources: &[SourceContext], zone: Tz) -> (Option<SourceContext>, Option<Window>) {
    let talks: Option<Vec<&str>> = sources.iter().map(|one| one.conversation.as_deref()).collect();
    let Some([first, others @ ..]) = talks.as_deref() else { return (None, None) };
    let is_one = others.iter().all(|other| other == first);
    let known = window_of(sources, None, zone);
    let timezone = known.start.map(|_| zone.name().to_owned());
    let window = Window { timezone, ..known };
    let mut session = SourceContext { kind: SourceKind::Session, ..SourceContext::default() };
    if is_one {
        let one = &sources[0];
        session.id = (*first).to_owned();
        session.title = one.title.clone();
        session.labels = one.labels.clone();
        session.origin = one.origin.clone();
    }
    session.begin(&window, sources, zone);
    (Some(session), Some(window))
}

/// Names the session that each first message begins, where messages of several conversations follow one another.
pub(super) fn name_talks(sources: &mut [SourceContext]) {
    let all = |source: &SourceContext| source.conversation.clone();
    let Some(talks) = sources.iter().map(all).collect::<Option<Vec<_>>>() else { return };
    let is_first = |at: usize| at == 0 || talks[at] != talks[at - 1];
    let firsts: Vec<usize> = (0..talks.len()).filter(|at| is_first(*at)).collect();
    for at in firsts.iter().filter(|_| firsts.len() > 1) {
        let name = sources[*at].title.clone().unwrap_or_else(|| talks[*at].clone());
        sources[*at].begins_session = Some(name);
    }
}

/// The first of these members that holds words.
fn words(record: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| {
        let value = name.split('.').try_fold(record, |value, key| value.get(key))?;
        let text = value.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    })
}

/// Somebody, as words or as an object with a name and an address.
fn person(value: &Value) -> Option<Person> {
    match value {
        Value::String(text) => Person::parse(text),
        Value::Object(_) => {
            let name = name_of_person(value);
            let address = words(value, &["address", "email", "mail"]);
            (name.is_some() || address.is_some()).then_some(Person { name, address })
        }
        _ => None,
    }
}

/// Who wrote a text. Several authors are shown together.
fn author(value: &Value) -> Option<Person> {
    match value {
        // A bare name such as `Ruiz, Ana` is one person.
        Value::String(text) if !text.contains('@') => Person::parse(text),
        value => Person::together(people_of(value)),
    }
}

/// Several people: a list, or one text with commas between.
fn people(record: &Value, name: &str) -> Vec<Person> {
    record.get(name).map(people_of).unwrap_or_default()
}

fn people_of(value: &Value) -> Vec<Person> {
    match value {
        Value::Array(items) => items.iter().filter_map(person).collect(),
        Value::String(text) => Person::all_of(text),
        one => person(one).into_iter().collect(),
    }
}

fn list(record: &Value, names: &[&str]) -> Vec<String> {
    let found = names.iter().find_map(|name| record.get(name).filter(|value| !value.is_null()));
    found.map(words_of).unwrap_or_default()
}

fn labels(record: &Value) -> Labels {
    Labels {
        project: words(record, &["project", "project_name"]),
        tags: list(record, &["labels", "tags"]),
        list_id: words(record, &["list_id"]),
        language: words(record, &["language", "lang"]),
    }
}

/// The time that upstream writes as text: with an offset, which milliseconds cannot carry, or as a day
/// without a time. For a time without an offset the milliseconds count, unless they were made from it.
fn written_time(record: &Value) -> Option<Moment> {
    let text = words(record, &["timestamp", "ts_abs", "date"])?;
    let is_day = text.parse::<Day>().is_ok();
    let moment = Moment::read(&text.into(), Tz::UTC)?;
    let is_known = match moment {
        Moment::At(_) => true,
        Moment::Local(_) => TimePrecision::of(record) == TimePrecision::Local,
        Moment::Day(_) => is_day,
    };
    is_known.then_some(moment)
}

/// The context of an event, from its record.
pub(crate) fn of_event(record: &Value, zone: Tz) -> SourceContext {
    let mut context = SourceContext {
        kind: SourceKind::Event,
        title: words(record, &["title", "subject"]),
        author: ["author", "from", "sender"].iter().find_map(|name| author(record.get(name)?)),
        role: words(record, &["role", "author.role"]),
        to: people(record, "to"),
        cc: people(record, "cc"),
        origin: Origin {
            url: words(record, &["url", "link"]),
            path: words(record, &["source.source_uri"]),
            line: record.pointer("/source/line").and_then(Value::as_u64),
            message_id: message_id(record),
            feed: words(record, &["feed"]),
            mailbox: words(record, &["mailbox"]),
        },
        labels: labels(record),
        meta: meta(record.as_object().into_iter().flatten()),
        ..SourceContext::default()
    };
    context.set_moment(written_time(record), zone);
    context.local_only = record.as_object().is_some_and(says_local_only);
    // A rule about a sender holds for what he sent too, where another person wrote it.
    let around = [Some(record), record.get("metadata"), record.get("meta")];
    let around = around.into_iter().flatten().filter_map(Value::as_object);
    around.for_each(|members| add_people(&mut context.places, members));
    record.as_object().into_iter().for_each(|members| add_labels(&mut context.places, members));
    if words(record, &["source.source_system"]).is_some_and(|system| system == "mail") {
        add_mailbox(&mut context);
    }
    // An import gives a changed record another id, and names its first id.
    context.origins = words(record, &["source.version_of"]).into_iter().collect();
    context
}

/// The file of a mail is its mailbox, unless its name says that it is that mail alone. Programs that keep mails give the
/// file of a mailbox no ending, or one of their own.
fn add_mailbox(context: &mut SourceContext) {
    let path = context.origin.path.as_deref().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or(path);
    if extension_of(name) == MAIL {
        return;
    }
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    [name, stem].iter().for_each(|name| context.places.add(DataPlace::Mailbox, name));
}

fn of_chunk(record: &Value, zone: Tz) -> SourceContext {
    let metadata = record.get("metadata").and_then(Value::as_object);
    let context = metadata.map(|members| of_members(members, zone)).unwrap_or_default();
    let path = words(record, &["provenance.source_uri", "provenance.source_ref"]);
    // An item of a file is found in that file.
    let path = path.map(|path| file_of_item(&path).to_owned());
    let origin = Origin { path, ..context.origin };
    // What else a chunker notes is about the chunk and not about what it says.
    let origins = file_of_chunk(record).into_iter().collect();
    let is_known_by_title =
        words(record, &["source.source_type"]).is_some_and(|kind| is_known_by_title(&kind));
    SourceContext {
        kind: SourceKind::Chunk,
        origin,
        meta: Map::new(),
        origins,
        is_known_by_title,
        ..context
    }
}

/// The file of a document whose id is made of its name and its content, so that another content makes
/// another id.
fn file_of_chunk(record: &Value) -> Option<String> {
    let uri = words(record, &["provenance.source_uri"])?;
    let checksum = words(record, &["provenance.source_checksum"])?;
    let returned = record.pointer("/provenance/returned").and_then(Value::as_u64).unwrap_or(0);
    let is_made = record["document_id"] == document_id(&uri, &checksum, returned).as_str();
    is_made.then(|| file_origin(&uri))
}

/// What a person knows a summary by: the name of its chat or the subject of its mail, where it has one source.
/// A file has a path for its name, and a flow gave several sources a title of their own.
fn name_of_summary(record: &Value, meta: &Value) -> Option<String> {
    let version = record.get("schema_version").and_then(Value::as_str);
    let is_said = [Stream::Sessions, Stream::Events].map(|stream| Some(stream.item_version()));
    let is_one =
        record.get("source_ids").and_then(Value::as_array).is_some_and(|ids| ids.len() == 1);
    let has_name = is_one && is_said.contains(&version);
    let name = if has_name { words(meta, &["source_name"]) } else { None };
    name.or_else(|| words(record, &["title"]))
}

/// A summary of our own.
fn of_summary(record: &Value, zone: Tz) -> SourceContext {
    let nothing = Value::Null;
    let meta = record.get("meta").unwrap_or(&nothing);
    let mut context = SourceContext {
        kind: SourceKind::Summary,
        title: name_of_summary(record, meta),
        author: words(meta, &["authors"]).and_then(|names| Person::parse(&names)),
        origin: Origin { url: words(meta, &["source_url"]), ..Origin::default() },
        labels: Labels {
            project: words(meta, &["project"]),
            tags: list(record.get("outputs").unwrap_or(&nothing), &["tags"]),
            ..Labels::default()
        },
        ..SourceContext::default()
    };
    let precision = TimePrecision::of(meta);
    let at = record.get("ts_abs_ms").and_then(Value::as_i64);
    match (precision, at.and_then(|at| zoned(Timestamp(at), zone))) {
        (TimePrecision::Moment, Some(at)) => context.set_time(at, zone),
        (TimePrecision::Local, Some(at)) => context.set_local(at.naive_local(), zone),
        (TimePrecision::Day, Some(at)) => context.day = Some(at.date_naive().to_string()),
        _ => {}
    }
    // A text may be published on another day than its own.
    if precision != TimePrecision::Unknown && context.day.is_none() {
        context.day = words(record, &["day"]);
    }
    // A summary stands for its sources: what becomes of them becomes of everything that was made of it.
    let known = ["/selection/origins", "/source_ids"];
    let known = known.iter().find_map(|pointer| record.pointer(pointer)?.as_array());
    context.origins =
        known.into_iter().flatten().filter_map(Value::as_str).map(origin_of_summary).collect();
    context.made_from = sources_of(record);
    context.local_only = record.as_object().is_some_and(says_local_only);
    context.places.add_item(&|name| words(meta, &[name]));
    let people = record.pointer("/selection/authors").map(members::names_of).unwrap_or_default();
    people.iter().for_each(|written| add_person(&mut context.places, written));
    context.places.add_origins(context.origins.iter().map(String::as_str));
    for name in ["flow_id", "category", "summary_kind"] {
        if let Some(word) = words(meta, &[name]) {
            context.meta.insert(name.to_owned(), word.into());
        }
    }
    context
}

/// The id of a message in the system it came from. The id of an item of a feed is none of a message.
fn message_id(record: &Value) -> Option<String> {
    let is_item = record.pointer("/source/source_system").is_some_and(|system| system == "rss");
    let own = || words(record, &["source.source_record_id"]).filter(|_| !is_item);
    words(record, &["message_id"]).or_else(own)
}

/// The bus and the ids that a summary was made from.
fn sources_of(record: &Value) -> Option<(Bus, Vec<String>)> {
    let ids = |pointer: &str| {
        let listed = record.pointer(pointer)?.as_array()?.iter();
        let ids: Vec<String> = listed.filter_map(Value::as_str).map(str::to_owned).collect();
        (!ids.is_empty()).then_some(ids)
    };
    let own = ids("/source_ids")?;
    Some(match record["source_type"].as_str()? {
        "event" => (Bus::EventBus, own),
        "session" => (Bus::SessionBus, ids("/selection/session_ids").unwrap_or(own)),
        _ if own.iter().all(|id| id.starts_with("other:") || is_summary_id(id)) => {
            (Bus::Other, own)
        }
        _ => (Bus::ChunkBus, own),
    })
}

/// A file or an item of a list: what it says about itself, in the usual spellings. The caller of
/// `flow run` knows its files the same way.
pub(crate) fn of_members(members: &Map<String, Value>, zone: Tz) -> SourceContext {
    let text = |names: &[&str]| {
        named(members, names).find_map(|value| match value {
            Value::String(text) => {
                Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
            }
            _ => None,
        })
    };
    let all = |names: &[&str]| named(members, names).flat_map(people_of).collect::<Vec<Person>>();
    let mut context = SourceContext {
        title: text(TITLES),
        author: author_of(members),
        role: text(&["role"]),
        to: all(&["to", "recipients"]),
        cc: all(&["cc"]),
        origin: Origin {
            url: text(&["url", "link", "externalurl", "permalink", "href"]),
            message_id: text(&["messageid", "recordid"]),
            feed: text(&["feed"]),
            mailbox: text(&["mailbox"]),
            ..Origin::default()
        },
        labels: Labels {
            project: text(&["project", "projectname"]),
            tags: tags_of(members),
            list_id: text(&["listid"]),
            language: text(&["language", "lang"]),
        },
        meta: meta(members.iter().filter(|(name, _)| !TEXTS.contains(&folded(name).as_str()))),
        ..SourceContext::default()
    };
    context.set_moment(Moment::of(members, zone), zone);
    context.local_only = says_local_only(members);
    add_people(&mut context.places, members);
    add_labels(&mut context.places, members);
    context
}

/// Everybody who wrote a text or a part of it is a place of it.
fn add_people(places: &mut DataPlaces, members: &Map<String, Value>) {
    members::people_of(members).for_each(|written| add_person(places, &written));
}

/// Every word that a text is filed under is a place of it, however it is written.
fn add_labels(places: &mut DataPlaces, members: &Map<String, Value>) {
    members::filed_under(members).iter().for_each(|label| places.add(DataPlace::Label, label));
}

/// Who wrote a text, as it says itself.
pub(crate) fn author_of(members: &Map<String, Value>) -> Option<Person> {
    authors(members).find_map(author)
}

/// What a text is filed under.
pub(crate) fn tags_of(members: &Map<String, Value>) -> Vec<String> {
    named(members, &["tags", "labels", "categories", "keywords"]).flat_map(words_of).collect()
}

/// Members that are the text of a record, or that no flow is told, under folded names.
const TEXTS: [&str; 8] = [
    "contenttext",
    "contenthtml",
    "body",
    "conversationid",
    "id",
    "private",
    "saidby",
    "filedunder",
];

/// The words of a list, or of a text with commas between.
fn words_of(value: &Value) -> Vec<String> {
    let words: Vec<&str> = match value {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        Value::String(text) => text.split([',', ';']).collect(),
        _ => Vec::new(),
    };
    words.into_iter().map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The other members, as long as they are short and few.
fn meta<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>) -> Map<String, Value> {
    let mut kept = Map::new();
    let mut bytes = 0;
    for (name, value) in members {
        if PLACED.contains(&name.to_ascii_lowercase().as_str()) || value.is_null() {
            continue;
        }
        let size = name.len() + value.to_string().len();
        if size > META_VALUE_BYTES_MAX || bytes + size > META_BYTES_MAX {
            continue;
        }
        bytes += size;
        kept.insert(name.clone(), value.clone());
    }
    kept
}

impl SourceContext {
    /// Gives a session the time at which it begins, or the day alone.
    pub(crate) fn begin(&mut self, window: &Window, messages: &[SourceContext], zone: Tz) {
        match window.start.and_then(|start| zoned(start, zone)) {
            Some(start) => {
                self.set_time(start, zone);
                self.is_zone_assumed = messages.iter().any(|message| message.is_zone_assumed);
            }
            None => self.day = messages.iter().filter_map(|message| message.day.clone()).min(),
        }
    }

    /// Sets the time that a record is filed under, where its words say none. A record may say that this time is that of a
    /// day, or only gives its place among others.
    pub(crate) fn set_filed(&mut self, record: &Value, at: Option<Timestamp>, zone: Tz) {
        if self.ts.is_some() || self.day.is_some() {
            return;
        }
        let Some(at) = at.and_then(|at| zoned(at, zone)) else { return };
        match TimePrecision::of(record) {
            TimePrecision::Unknown => {}
            TimePrecision::Day => self.day = Some(at.date_naive().to_string()),
            TimePrecision::Local => self.set_local(at.naive_local(), zone),
            TimePrecision::Moment => self.set_time(at, zone),
        }
    }

    /// Sets the moment with its day, or the day alone.
    pub(crate) fn set_moment(&mut self, moment: Option<Moment>, zone: Tz) {
        match moment {
            Some(Moment::At(at)) => self.set_time(at, zone),
            // The clock time is known, and its offset is not.
            Some(Moment::Local(local)) => self.set_local(local, zone),
            // A day without a time names no moment.
            Some(moment @ Moment::Day(_)) => self.day = Some(moment.day_in(zone).to_string()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_without_an_offset_is_as_written_and_has_no_offset_of_its_own() {
        let at = |zone, record: Value| {
            let context = of_event(&record, zone);
            (context.ts_as_written(), context.day, context.is_zone_assumed)
        };
        let local = json!({"event_id": "e", "timestamp_ms": 1_770_850_200_000_i64,
            "timestamp": "2026-02-11T23:50:00", "ts_precision": "local"});
        let written = (Some("2026-02-11T23:50:00".into()), Some("2026-02-11".into()), true);
        for zone in [chrono_tz::UTC, chrono_tz::Europe::Madrid, chrono_tz::Asia::Tokyo] {
            assert_eq!(at(zone, local.clone()), written, "{zone}");
        }
        // The milliseconds of another producer are a moment, whatever stands beside them.
        let mut other = local;
        other.as_object_mut().unwrap().remove("ts_precision");
        assert_eq!(at(chrono_tz::UTC, other), (None, None, false));
    }

    #[test]
    fn messages_that_have_only_days_give_their_session_the_first_day() {
        let message = |day: &str| SourceContext {
            conversation: Some("c".to_owned()),
            day: Some(day.to_owned()),
            ..SourceContext::default()
        };
        let (session, window) = talk(&[message("2026-03-15"), message("2026-03-14")], Tz::UTC);
        let session = session.unwrap();
        assert_eq!((session.ts, session.day.as_deref()), (None, Some("2026-03-14")));
        assert_eq!(window.unwrap().start, None);
    }

    #[test]
    fn a_session_claims_no_hour_that_its_messages_do_not_say() {
        let zone = chrono_tz::America::Bogota;
        let message = |at: &str| {
            let record = match at.len() {
                0 => json!({"ts_precision": "none"}),
                10 => json!({"date": at}),
                _ => json!({"timestamp": at}),
            };
            let mut message = of_event(&record, zone);
            let ms = Moment::read(&at.into(), zone).map_or(1, |at| at.event_millis(zone));
            message.set_filed(&record, Some(Timestamp(ms)), zone);
            (ms, message)
        };
        let (early, late) = ("2026-03-02T09:00:00-05:00", "2026-03-02T18:00:00-05:00");
        for (times, begin, end) in [
            (vec![early, late], Some("09:00"), Some("18:00")),
            (vec!["2026-03-02", "2026-03-03"], None, None),
            (vec!["2026-03-01", early, late], None, Some("18:00")),
            (vec![early, late, "2026-03-03"], Some("09:00"), None),
            // It may be before the first and behind the last of its day.
            (vec![early, "2026-03-02", late], None, None),
            (vec![early, "", late], Some("09:00"), Some("18:00")),
            (vec!["", ""], None, None),
        ] {
            let (all, messages): (Vec<i64>, Vec<_>) = times.iter().map(|at| message(at)).unzip();
            let stated = all.iter().min().copied().zip(all.iter().max().copied());
            for stated in [stated, None] {
                let window = window_of(&messages, stated.filter(|_| !times.contains(&"")), zone);
                let clock = |at: Option<Timestamp>| at.map(|at| at.clock_in(zone));
                let told = (clock(window.start), clock(window.end));
                assert_eq!((told.0.as_deref(), told.1.as_deref()), (begin, end), "{times:?}");
                let mut session = SourceContext::default();
                session.begin(&window, &messages, zone);
                assert_eq!(session.ts.is_some(), begin.is_some(), "{times:?}");
                assert_eq!(session.day.as_deref(), times[0].get(..10), "{times:?}");
            }
        }
    }

    #[test]
    fn a_record_of_which_only_the_day_is_known_has_no_time() {
        let record = json!({"ts_precision": "day"});
        let mut context = of_event(&record, chrono_tz::UTC);
        context.set_filed(&record, Some(Timestamp(1_770_638_400_000)), chrono_tz::UTC);
        assert_eq!((context.ts, context.day.as_deref()), (None, Some("2026-02-09")));
    }

    #[test]
    fn names_of_people_are_found_in_their_records() {
        for record in [
            json!({"from": {"name": "Ana"}}),
            json!({"user_profile": {"real_name": "Ana", "image": "x"}, "user": "U1"}),
            json!({"sender_name": "Ana"}),
        ] {
            let context = of_members(record.as_object().unwrap(), Tz::UTC);
            assert_eq!(context.speaker(), Some("Ana"), "{record}");
        }
    }

    #[test]
    fn an_event_says_who_when_and_where() {
        let record = json!({
            "event_id": "e", "timestamp_ms": 1_770_768_000_000_i64,
            "timestamp": "2026-02-11T01:00:00+01:00", "title": "Lease",
            "from": "Ana Ruiz <ana@example.org>", "to": "\"Gil, Marta\" <marta@example.org>, bo@x.org",
            "source": {"source_uri": "inbox.mbox", "source_record_id": "<1@x>"},
            "labels": ["home"], "project": "flat", "org": "ACME", "long": "x".repeat(5_000),
        });
        let context = of_event(&record, chrono_tz::America::Bogota);
        assert_eq!(context.title.as_deref(), Some("Lease"));
        assert_eq!(context.author.unwrap().shown(), "Ana Ruiz <ana@example.org>");
        let to: Vec<String> = context.to.iter().map(Person::shown).collect();
        assert_eq!(to, ["\"Gil, Marta\" <marta@example.org>", "bo@x.org"]);
        assert_eq!(context.ts.as_deref(), Some("2026-02-11T01:00:00+01:00"));
        assert_eq!(context.day.as_deref(), Some("2026-02-10"), "the local day of the home");
        assert_eq!(context.origin.path.as_deref(), Some("inbox.mbox"));
        assert_eq!(
            (context.labels.project.as_deref(), context.labels.tags.len()),
            (Some("flat"), 1)
        );
        assert_eq!(context.meta, *json!({"org": "ACME"}).as_object().unwrap());
    }

    #[test]
    fn a_summary_has_the_name_and_the_address_of_its_source() {
        let meta = json!({"source_name": "Trip to Salta", "source_url": "https://example.org/p"});
        let of = |members: Value| {
            let mut item = json!({"title": "I want to go to Salta.", "meta": meta});
            item.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            let context = of_summary(&item, chrono_tz::UTC);
            (context.title.unwrap(), context.origin.url)
        };
        let url = Some("https://example.org/p".to_owned());
        let (name, title) = ("Trip to Salta".to_owned(), "I want to go to Salta.".to_owned());
        for (version, ids, expected) in [
            ("session_summary.v1", json!(["ses_1"]), &name),
            ("event_summary.v1", json!(["evt_1"]), &name),
            ("event_summary.v1", json!(["evt_1", "evt_2"]), &title),
            ("document_summary.v1", json!(["doc_1"]), &title),
        ] {
            let got = of(json!({"schema_version": version, "source_ids": ids}));
            assert_eq!(got, (expected.clone(), url.clone()), "{version}");
        }
    }

    #[test]
    fn a_summary_has_the_authors_of_its_sources() {
        let of = |meta: Value| of_summary(&json!({"meta": meta}), chrono_tz::UTC).author;
        let shown = |author: Option<Person>| author.map(|author| author.shown());
        assert_eq!(shown(of(json!({"authors": "Ana Ruiz"}))).as_deref(), Some("Ana Ruiz"));
        let many = of(json!({"authors": "Ana, Bo and 2 more"})).and_then(|author| author.name);
        assert_eq!(many.as_deref(), Some("Ana, Bo and 2 more"));
        assert_eq!(of(json!({})), None);
    }

    #[test]
    fn a_summary_is_of_the_day_of_its_text_and_not_of_the_day_it_is_filed_under() {
        let of = |precision: &str| {
            let meta = json!({"ts_precision": precision});
            let at = 1_769_731_200_000_i64;
            let item = json!({"day": "2026-11-27", "ts_abs_ms": at, "meta": meta});
            let context = of_summary(&item, chrono_tz::UTC);
            (context.day, context.ts.is_some())
        };
        let own = Some("2026-01-30".to_owned());
        assert_eq!(of("day"), (own.clone(), false));
        assert_eq!(of("moment"), (own, true));
        assert_eq!(of("none"), (None, false));
    }

    #[test]
    fn facts_that_upstream_does_not_give_are_null() {
        let context = of_event(&json!({"event_id": "e", "timestamp_ms": 1}), chrono_tz::UTC);
        assert_eq!(context, SourceContext::default());
        let chunk = json!({"chunk_id": "c", "metadata": {}, "provenance": {"source_uri": "a.md"}});
        let context = of_chunk(&chunk, chrono_tz::UTC);
        assert_eq!(context.origin.shown().as_deref(), Some("a.md"));
        assert_eq!((context.author, context.ts, context.day), (None, None, None));
    }
}
