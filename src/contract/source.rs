//! The context of a source: what upstream knows of a text beside the text itself.
//!
//! The text of a source is hashed (`source_text_hash`); its context is not. Flows receive it by
//! their declared bindings, and an item records its hash in `selection.context`. A member that
//! upstream does not give is null: no default stands in for it.

use std::collections::BTreeSet;

use chrono::{DateTime, FixedOffset, NaiveDateTime, TimeDelta, TimeZone as _};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hash::{Digest, sha256};
use super::json::jcs;
use super::people;
use super::places::{DataPlace, DataPlaces, folded, mailbox_of_file};
use super::time::{Day, Timestamp};
use super::vocabulary::Bus;

/// Bytes of upstream metadata that a context keeps; what is beyond is left out.
pub(crate) const META_BYTES_MAX: usize = 16 << 10;

/// The member of an item's `meta` with the day that its sources were written on, where its time does not say it.
pub(crate) const WRITTEN_DAY: &str = "written_day";
/// What stands there where the sources have several days, or one of them has none.
pub(crate) const SEVERAL_DAYS: &str = "several";
/// Bytes of `2026-03-02`.
const DAY_BYTES: usize = 10;

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// One event: a mail, a feed entry, a chat message.
    #[default]
    Event,
    /// A session of events.
    Session,
    Document,
    /// A piece of a document.
    Chunk,
    /// A summary of the Summary Bus.
    Summary,
    /// One member of a list.
    Record,
}

/// Somebody who wrote or received a text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Person {
    /// The name, as written.
    pub name: Option<String>,
    pub address: Option<String>,
}

impl Person {
    /// Reads `Ana Ruiz <ana@example.org>`, a bare address or a bare name.
    pub fn parse(text: &str) -> Option<Person> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        if let Some((name, rest)) = text.rsplit_once('<')
            && let Some(address) = rest.strip_suffix('>')
        {
            return Some(Person { name: some(&unquoted(name)), address: some(address.trim()) });
        }
        if text.contains('@') && !text.contains(char::is_whitespace) {
            return Some(Person { name: None, address: Some(text.to_owned()) });
        }
        Some(Person { name: Some(text.to_owned()), address: None })
    }

    /// Everybody whom a header names. Commas in quotes separate nobody, nor does a quote behind a
    /// backslash end one. Outlook separates with semicolons.
    pub(crate) fn all_of(header: &str) -> Vec<Person> {
        let (mut all, mut one) = (Vec::new(), String::new());
        let (mut quoted, mut escaped) = (false, false);
        for c in header.chars() {
            if matches!(c, ',' | ';') && !quoted {
                all.extend(Person::parse(&std::mem::take(&mut one)));
                continue;
            }
            quoted ^= c == '"' && !escaped;
            escaped = quoted && c == '\\' && !escaped;
            one.push(c);
        }
        all.extend(Person::parse(&one));
        all
    }

    /// Every name and address that a text about its authors may mean, of one person and of several: `Ruiz, Ana` is one
    /// name and may be two. They are folded, to be compared.
    pub(crate) fn names_in(written: &str) -> BTreeSet<String> {
        let parts = people::parts_of(written);
        let texts = std::iter::once(written).chain(parts.iter().map(String::as_str));
        let read =
            texts.flat_map(|text| Person::parse(text).into_iter().chain(Person::all_of(text)));
        let mut names = BTreeSet::from([folded(written)]);
        for name in read.flat_map(|one| [one.name, one.address]).flatten() {
            let name = unquoted(&name);
            let turned = people::turned(&name);
            for one in std::iter::once(&name).chain(&turned) {
                names.extend([folded(one), folded(people::bare(one))]);
            }
        }
        names.remove("");
        names
    }

    /// Several as one: their names, as a page shows its authors.
    pub(crate) fn together(mut people: Vec<Person>) -> Option<Person> {
        if people.len() < 2 {
            return people.pop();
        }
        let names: Vec<String> =
            people.into_iter().filter_map(|one| one.name.or(one.address)).collect();
        Some(Person { name: Some(names.join(", ")), address: None })
    }

    /// The person as a header shows it: a name such as `Ruiz, Ana` stands in quotes, so that it is not
    /// read as two.
    pub fn shown(&self) -> String {
        const SPECIAL: &[char] = &[',', ';', '<', '>', '@', '"', '(', ')'];
        match (&self.name, &self.address) {
            (Some(name), Some(address)) if name.contains(SPECIAL) => {
                let name = name.replace('\\', "\\\\").replace('"', "\\\"");
                format!("\"{name}\" <{address}>")
            }
            (Some(name), Some(address)) => format!("{name} <{address}>"),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => String::new(),
        }
    }
}

/// A name without the quotes and backslashes of a header.
fn unquoted(name: &str) -> String {
    let name = name.trim();
    let inner = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let Some(inner) = inner else { return name.to_owned() };
    let mut plain = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    plain.trim().to_owned()
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Where a person finds the source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// File, relative to the folder it was imported from or to the bus home.
    pub path: Option<String>,
    /// Line in that file, from 1.
    pub line: Option<u64>,
    /// Address on the web.
    pub url: Option<String>,
    /// Id of the message in the system it came from.
    pub(crate) message_id: Option<String>,
    /// Name of the feed.
    pub feed: Option<String>,
    /// Name of the mailbox.
    pub(crate) mailbox: Option<String>,
}

impl Origin {
    /// The one place to print: the address, else the file with its line, else the message.
    pub fn shown(&self) -> Option<String> {
        let file = || {
            let path = self.path.as_ref()?;
            Some(self.line.map_or_else(|| path.clone(), |line| format!("{path}:{line}")))
        };
        self.url.clone().or_else(file).or_else(|| self.message_id.clone())
    }
}

/// How a source is filed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Labels {
    pub project: Option<String>,
    /// Tags, as given.
    pub tags: Vec<String>,
    pub(crate) list_id: Option<String>,
    /// The language, as given.
    pub language: Option<String>,
}

/// The context of one source.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SourceContext {
    /// The id, byte for byte as in `source_ids`.
    pub id: String,
    pub kind: SourceKind,
    /// Subject, headline, heading or name.
    pub title: Option<String>,
    /// The moment, in RFC 3339 with the offset upstream gave.
    pub ts: Option<String>,
    /// The local day of that moment in the home's zone. Of a time without an offset, the day as written.
    pub day: Option<String>,
    /// Upstream gave a clock time without an offset: the offset of `ts` is that of the home's zone, which
    /// nothing in the source supports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_zone_assumed: bool,
    pub author: Option<Person>,
    /// The role of the author in a chat.
    pub role: Option<String>,
    pub to: Vec<Person>,
    /// Who received a copy.
    pub(crate) cc: Vec<Person>,
    /// Where a person finds it.
    pub origin: Origin,
    /// How it is filed.
    pub labels: Labels,
    /// What upstream says beside, untouched and bounded.
    pub meta: Map<String, Value>,
    /// What it is known by over its versions, where that is not its id. It is told to no flow.
    #[serde(skip)]
    pub(crate) origins: Vec<String>,
    /// Places that no other member names: the folders of the file, and for a summary the places of its
    /// own sources. They are told to no flow.
    #[serde(skip)]
    pub(crate) places: DataPlaces,
    /// Whether a person knows it by its title, though it lies in a file of a document: a mail without a date, a page, or
    /// an item of a feed. It is told to no flow.
    #[serde(skip)]
    pub(crate) is_known_by_title: bool,
    /// The title or id of the session that it begins, where the request has several sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) begins_session: Option<String>,
    /// Whether it says of itself that it stays on this machine. It is told to no flow.
    #[serde(skip)]
    pub(crate) local_only: bool,
    /// Which of its members says that it is private. It is told to no flow.
    #[serde(skip)]
    pub(crate) private_mark: Option<String>,
    /// The record of a file that it is a message of.
    #[serde(skip)]
    pub(crate) conversation: Option<String>,
    /// The sources of a summary. They are told to no flow.
    #[serde(skip)]
    pub(crate) made_from: Option<(Bus, Vec<String>)>,
}

impl SourceContext {
    /// Sets the moment and its day.
    pub(crate) fn set_time(&mut self, at: DateTime<FixedOffset>, zone: Tz) {
        self.ts = Some(at.to_rfc3339());
        self.day = Some(Timestamp(at.timestamp_millis()).day_in(zone).to_string());
    }

    /// Sets a clock time that has no offset, and its day.
    pub(crate) fn set_local(&mut self, local: NaiveDateTime, zone: Tz) {
        self.ts = Some(on_clock(local, zone).to_rfc3339());
        self.day = Some(Day(local.date()).to_string());
        self.is_zone_assumed = true;
    }

    /// The moment as upstream wrote it: without an offset where upstream gave none.
    pub(crate) fn ts_as_written(&self) -> Option<String> {
        match self.time() {
            Some(at) if self.is_zone_assumed => Some(local_text(at.naive_local())),
            _ => self.ts.clone(),
        }
    }

    /// The day on which it was written by the clock of its writer: `tomorrow` counts from it.
    pub(crate) fn day_as_written(&self) -> Option<String> {
        let day = |ts: &str| ts.get(..DAY_BYTES).map(str::to_owned);
        self.time().and(self.ts.as_deref()).and_then(day).or_else(|| self.day.clone())
    }

    pub fn time(&self) -> Option<DateTime<FixedOffset>> {
        DateTime::parse_from_rfc3339(self.ts.as_deref()?).ok()
    }

    fn precision(&self) -> TimePrecision {
        match (&self.ts, &self.day) {
            (Some(_), _) if self.is_zone_assumed => TimePrecision::Local,
            (Some(_), _) => TimePrecision::Moment,
            (None, Some(_)) => TimePrecision::Day,
            (None, None) => TimePrecision::Unknown,
        }
    }

    /// The millisecond it counts as: its moment, or the noon of its day.
    fn millis(&self) -> Option<i64> {
        let noon = || Some(self.day.as_deref()?.parse::<Day>().ok()?.noon().0);
        self.time().map(|at| at.timestamp_millis()).or_else(noon)
    }

    /// The name a person knows it by.
    pub(crate) fn name(&self) -> Option<String> {
        let path = self.origin.path.as_deref();
        let path = path.map(|path| path.strip_prefix("other/").unwrap_or(path).to_owned());
        if self.is_known_by_title {
            // A document without a title has the last part of its path for one.
            let is_title =
                |title: &&String| !path.as_ref().is_some_and(|path| path.ends_with(*title));
            let title = self.title.as_ref().filter(is_title).cloned();
            return title.or_else(|| self.origin.url.clone()).or(path);
        }
        match self.kind {
            SourceKind::Document | SourceKind::Chunk => path.or_else(|| self.title.clone()),
            _ => self.title.clone().or_else(|| self.origin.url.clone()).or(path),
        }
    }

    /// The name of the folder that holds the file. The folders of the bus home itself do not count.
    fn folder(&self) -> Option<String> {
        let path = self.origin.path.as_deref()?;
        let path = path.strip_prefix("other/").unwrap_or(path);
        let (folder, _) = path.rsplit_once('/')?;
        let own = ["eventbus/", "sessions/", "chunks/", "summaries/"];
        let inside = own.iter().any(|bus| path.starts_with(bus));
        let name = folder.rsplit('/').next().unwrap_or(folder);
        (!inside && !name.is_empty()).then(|| name.to_owned())
    }

    /// The mailbox, or the file of mails without its ending.
    fn mailbox(&self) -> Option<String> {
        let file = || mailbox_of_file(self.origin.path.as_deref()?).map(str::to_owned);
        self.origin.mailbox.clone().or_else(file)
    }

    /// Everything that a rule about data may name it by.
    pub(crate) fn add_places(&self, places: &mut DataPlaces) {
        let (author, mailbox) = (self.author.as_ref(), self.mailbox());
        let named = [
            (DataPlace::Mailbox, mailbox.as_deref()),
            (DataPlace::Feed, self.origin.feed.as_deref()),
            (DataPlace::Project, self.labels.project.as_deref()),
        ];
        for (place, name) in named {
            name.into_iter().for_each(|name| places.add(place, name));
        }
        let people = author.iter().flat_map(|one| [&one.name, &one.address]).flatten();
        people.for_each(|written| add_person(places, written));
        self.labels.tags.iter().for_each(|tag| places.add(DataPlace::Label, tag));
        places.extend(&self.places);
    }

    /// The author's name, else the address.
    pub(crate) fn author_name(&self) -> Option<&str> {
        let author = self.author.as_ref()?;
        author.name.as_deref().or(author.address.as_deref())
    }

    /// The author's name, else the address, else the role.
    pub(crate) fn speaker(&self) -> Option<&str> {
        self.author_name().or(self.role.as_deref())
    }

    /// When it was written, as far as that is known, and who says it: `2026-02-11 10:00 Ana`. Empty when it says neither.
    pub(crate) fn when_and_who(&self, zone: Tz) -> String {
        let clock = self.time().map(|at| Timestamp(at.timestamp_millis()).clock_in(zone));
        let who = self.speaker().map(str::to_owned);
        let parts: Vec<String> = self.day.clone().into_iter().chain(clock).chain(who).collect();
        parts.join(" ")
    }
}

/// Adds somebody who wrote a text, as it is written.
pub(crate) fn add_person(places: &mut DataPlaces, written: &str) {
    Person::names_in(written).iter().for_each(|name| places.add(DataPlace::Author, name));
}

/// The member of `source` in a record with the folder of its file, where the name of the file has none. Rules about data
/// read it.
pub(crate) const FOLDER: &str = "folder";
/// The member of an item of a list that holds the name it gives itself.
pub(crate) const RECORD_ID: &str = "record_id";
/// The member of a message that names who wrote it first, where its author passed it on.
pub(crate) const FORWARDED_FROM: &str = "forwarded_from";
/// The member of a message that names whom it answers.
pub(crate) const REPLY_TO_AUTHOR: &str = "reply_to_author";

/// Where sources were found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub folder: Option<String>,
    pub feed: Option<String>,
    pub mailbox: Option<String>,
    pub label: Option<String>,
    pub url: Option<String>,
}

/// Authors of a summary that are named.
const AUTHORS_NAMED: usize = 8;

/// When a session began and ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    /// The zone its producer names.
    pub timezone: Option<String>,
}

/// Everything a flow may be given of its input, beside the texts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InputContext {
    /// One for each source, in their order.
    pub sources: Vec<SourceContext>,
    /// The primary source, where it is not one of these: a session of events, a document of chunks.
    pub whole: Option<SourceContext>,
    /// The window of a session.
    pub window: Option<Window>,
}

impl InputContext {
    /// The source the flow is asked about: the session or document, else the only source.
    pub fn primary(&self) -> Option<&SourceContext> {
        match (&self.whole, self.sources.as_slice()) {
            (Some(whole), _) => Some(whole),
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }

    /// Whether the sources are several texts of their own, rather than parts of a session, of a document
    /// or of a stream: documents, or a mail and what is attached to it.
    pub(crate) fn is_apart(&self) -> bool {
        let is_whole = |source: &SourceContext| {
            matches!(source.kind, SourceKind::Document | SourceKind::Event)
        };
        let documents = self.sources.iter().filter(|source| source.kind == SourceKind::Document);
        self.whole.as_ref().is_none_or(|whole| whole.kind == SourceKind::Document)
            && self.window.is_none()
            && self.sources.len() > 1
            && self.sources.iter().all(is_whole)
            && documents.count() > 0
    }

    /// The project, when all sources are filed under one.
    pub(crate) fn project(&self) -> Option<&str> {
        let whole = self.whole.iter().find_map(|whole| whole.labels.project.as_deref());
        let mut each = self.sources.iter().map(|source| source.labels.project.as_deref());
        whole.or_else(|| {
            let first = each.next()??;
            each.all(|project| project == Some(first)).then_some(first)
        })
    }

    /// How precisely the time is known of which `start_ms` is the beginning: as precisely as that of the
    /// source it comes from. A day counts as its noon, and an item must not show that noon as an hour.
    pub(crate) fn time_precision(&self, start_ms: Option<i64>) -> TimePrecision {
        let all = || self.whole.iter().chain(&self.sources);
        let begin = start_ms.into_iter().flat_map(|ms| {
            let beginning = move |source: &&SourceContext| source.millis() == Some(ms);
            all().filter(beginning).map(SourceContext::precision)
        });
        let known = || all().map(SourceContext::precision);
        let most = known().min();
        // Of very many sources nothing but their time is known here.
        let unseen = start_ms.filter(|_| self.sources.is_empty()).map(|_| TimePrecision::Moment);
        let other = match &self.whole {
            // The beginning of a session may be a time that none of its messages has.
            Some(_) => most.filter(|one| *one != TimePrecision::Unknown),
            None if start_ms.is_some() => known().max(),
            None => most,
        };
        begin.min().or(other).or(unseen).unwrap_or(TimePrecision::Unknown)
    }

    /// The day from which `tomorrow` counts in all sources; `None` where they have several or one has none.
    pub(crate) fn day_as_written(&self) -> Option<String> {
        let mut days = self.sources.iter().map(SourceContext::day_as_written);
        let Some(first) = days.next() else { return self.whole.as_ref()?.day_as_written() };
        first.filter(|first| days.all(|day| day.as_ref() == Some(first)))
    }

    /// The name a person knows the source by: the path of a file, the subject of a mail, the title of
    /// a chat. Several sources have the name of the first and their count.
    pub(crate) fn name(&self) -> Option<String> {
        let Some(primary) = self.primary() else {
            if let Some(file) = self.file_of_all() {
                return Some(file.to_owned());
            }
            let first = self.sources.first()?.name()?;
            return Some(format!("{first} and {} more", self.sources.len() - 1));
        };
        primary.name()
    }

    /// The file whose items all sources are.
    fn file_of_all(&self) -> Option<&str> {
        let first = self.sources.first()?.origin.path.as_deref()?;
        let is_item = |one: &SourceContext| {
            one.kind == SourceKind::Record && one.origin.path.as_deref() == Some(first)
        };
        let file = first.strip_prefix("other/").unwrap_or(first);
        self.sources.iter().all(is_item).then_some(file)
    }

    /// Who wrote the sources, each once, by name, else by address. Of very many the rest is counted.
    pub(crate) fn authors(&self) -> Option<String> {
        let (mut names, mut known) = (Vec::new(), BTreeSet::new());
        let authors = self.whole.iter().chain(&self.sources).filter_map(|one| one.author.as_ref());
        for name in
            authors.filter_map(|author| author.name.as_deref().or(author.address.as_deref()))
        {
            if known.insert(name) && names.len() < AUTHORS_NAMED {
                names.push(name);
            }
        }
        let more = known.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| names.join(", ") + &more)
    }

    /// Everybody who wrote the sources or a part of them, by name and by address, folded.
    pub(crate) fn people(&self) -> BTreeSet<String> {
        let mut places = DataPlaces::default();
        self.add_places(&mut places);
        places.named(DataPlace::Author).map(str::to_owned).collect()
    }

    /// Where the sources were found, as far as all of them agree.
    pub(crate) fn place(&self) -> Place {
        let all: Vec<&SourceContext> = match &self.whole {
            Some(whole) if !self.sources.iter().any(|source| source.origin.path.is_some()) => {
                vec![whole]
            }
            _ => self.sources.iter().collect(),
        };
        let agreed = |of: fn(&SourceContext) -> Option<String>| {
            let first = of(all.first()?)?;
            all.iter().all(|source| of(source).as_ref() == Some(&first)).then_some(first)
        };
        Place {
            folder: agreed(SourceContext::folder),
            feed: agreed(|source| source.origin.feed.clone()),
            mailbox: agreed(SourceContext::mailbox),
            label: agreed(|source| source.labels.tags.first().cloned()),
            url: agreed(|source| source.origin.url.clone()),
        }
    }

    /// Everything that a rule about data may name the sources by.
    pub(crate) fn add_places(&self, places: &mut DataPlaces) {
        self.whole.iter().chain(&self.sources).for_each(|source| source.add_places(places));
    }

    /// Whether a source says of itself that it stays on this machine.
    pub(crate) fn is_local_only(&self) -> bool {
        self.whole.iter().chain(&self.sources).any(|source| source.local_only)
    }

    /// What the sources are known by over their versions, each once. Empty where they are known by their
    /// ids.
    pub(crate) fn origins(&self) -> BTreeSet<&str> {
        // A session is known by its conversation and its begin.
        let is_session = self.whole.as_ref().is_some_and(|one| one.kind == SourceKind::Session);
        if is_session || self.sources.iter().all(|source| source.origins.is_empty()) {
            return BTreeSet::new();
        }
        fn of(source: &SourceContext) -> Vec<&str> {
            match source.origins.as_slice() {
                [] => vec![source.id.as_str()],
                known => known.iter().map(String::as_str).collect(),
            }
        }
        self.sources.iter().flat_map(of).collect()
    }

    /// The hash an item records in `selection.context`.
    pub fn sha256(&self) -> Digest {
        let value = serde_json::json!({
            "sources": self.sources, "whole": self.whole, "window": self.window,
        });
        sha256(jcs(&value))
    }
}

/// How precisely the time of a source is known. An item says it in `meta.ts_precision`, unless it is a
/// moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimePrecision {
    Moment,
    /// A day and a clock time without an offset. The moment is that of the home's clock.
    Local,
    /// A day without a time.
    Day,
    /// No date: the time of the item only gives its place among others.
    Unknown,
}

impl TimePrecision {
    const NAME: &str = "ts_precision";
    /// The member that says that there is no date.
    pub(crate) const UNKNOWN: (&str, &str) = (TimePrecision::NAME, "none");

    /// The member that says that the time has no offset.
    pub(crate) const LOCAL: (&str, &str) = (TimePrecision::NAME, "local");

    /// Whether a clock time is known.
    pub(crate) fn has_clock(self) -> bool {
        self <= TimePrecision::Local
    }

    /// Reads the `meta` of an item.
    pub(crate) fn of(meta: &Value) -> TimePrecision {
        meta.as_object().map_or(TimePrecision::Moment, TimePrecision::of_members)
    }

    pub(crate) fn of_members(meta: &Map<String, Value>) -> TimePrecision {
        match meta.get(TimePrecision::NAME).and_then(Value::as_str) {
            Some("local") => TimePrecision::Local,
            Some("day") => TimePrecision::Day,
            Some("none") => TimePrecision::Unknown,
            _ => TimePrecision::Moment,
        }
    }

    /// The day that a summary is of: that of its source. One without a date is of the day that its summary
    /// is filed under. Every reader has this rule.
    pub(crate) fn day(self, at: Timestamp, filed: Day, zone: Tz) -> Day {
        if self == TimePrecision::Unknown { filed } else { at.day_in(zone) }
    }

    /// The member of `meta`, for what is less than a moment.
    pub(crate) fn member(self) -> Option<(&'static str, &'static str)> {
        match self {
            TimePrecision::Moment => None,
            TimePrecision::Local => Some(TimePrecision::LOCAL),
            TimePrecision::Day => Some((TimePrecision::NAME, "day")),
            TimePrecision::Unknown => Some(TimePrecision::UNKNOWN),
        }
    }
}

/// A millisecond as a moment with the offset of a zone.
pub(crate) fn zoned(at: Timestamp, zone: Tz) -> Option<DateTime<FixedOffset>> {
    let moment = zone.timestamp_millis_opt(at.0).single()?;
    Some(moment.fixed_offset())
}

/// The moment at which a clock of a zone shows a time. A time that the clock leaves out counts as the same
/// time after that gap.
pub(crate) fn on_clock(local: NaiveDateTime, zone: Tz) -> DateTime<FixedOffset> {
    let at = |local: NaiveDateTime| local.and_local_timezone(zone).earliest();
    let after_gap = || at(local.checked_add_signed(TimeDelta::hours(1))?);
    let found = at(local).or_else(after_gap).map(|at| at.fixed_offset());
    found.unwrap_or_else(|| local.and_utc().fixed_offset())
}

/// A time without an offset, as a record has it.
pub(crate) fn local_text(local: NaiveDateTime) -> String {
    local.format("%Y-%m-%dT%H:%M:%S%.f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_of_one_file_have_the_name_of_that_file() {
        let item = |path: &str| SourceContext {
            kind: SourceKind::Record,
            title: Some("Pump".to_owned()),
            origin: Origin { path: Some(path.to_owned()), ..Origin::default() },
            ..SourceContext::default()
        };
        for (files, name) in [
            (["other/a.csv", "other/a.csv"], "a.csv"),
            (["other/a.csv", "other/b.csv"], "Pump and 1 more"),
        ] {
            let sources = files.map(item).to_vec();
            let context = InputContext { sources, ..InputContext::default() };
            assert_eq!(context.name().as_deref(), Some(name));
        }
    }

    #[test]
    fn people_are_read_from_headers() {
        let ana = Person { name: Some("Ana Ruiz".into()), address: Some("ana@example.org".into()) };
        assert_eq!(Person::parse("\"Ana Ruiz\" <ana@example.org>"), Some(ana.clone()));
        assert_eq!(Person::parse("Ana Ruiz <ana@example.org>").unwrap().shown(), ana.shown());
        let bare = Person::parse(" ana@example.org ").unwrap();
        assert_eq!(
            (bare.name.as_deref(), bare.address.as_deref()),
            (None, Some("ana@example.org"))
        );
        assert_eq!(Person::parse("Ana").unwrap().shown(), "Ana");
        assert_eq!(Person::parse("  "), None);
    }

    #[test]
    fn a_moment_keeps_its_own_offset_and_gets_the_day_of_the_home() {
        let mut context = SourceContext::default();
        let at = DateTime::parse_from_rfc3339("2026-02-10T23:30:00-05:00").unwrap();
        context.set_time(at, chrono_tz::Europe::Madrid);
        assert_eq!(context.ts.as_deref(), Some("2026-02-10T23:30:00-05:00"));
        assert_eq!(context.day.as_deref(), Some("2026-02-11"));
    }

    #[test]
    fn the_time_of_an_item_is_as_precise_as_that_of_the_source_it_comes_from() {
        let at = |ts: &str| SourceContext {
            ts: Some(ts.into()),
            day: Some(ts[..10].into()),
            ..SourceContext::default()
        };
        let day = |day: &str| SourceContext { day: Some(day.into()), ..SourceContext::default() };
        let of = |sources: Vec<SourceContext>, start: &str| {
            let start = DateTime::parse_from_rfc3339(start).unwrap().timestamp_millis();
            InputContext { sources, ..InputContext::default() }.time_precision(Some(start))
        };
        let moment = || at("2026-02-11T10:00:00+00:00");
        let noon = "2026-02-10T12:00:00Z";
        assert_eq!(of(vec![day("2026-02-10"), moment()], noon), TimePrecision::Day);
        assert_eq!(of(vec![moment(), day("2026-02-10")], noon), TimePrecision::Day);
        let later = vec![day("2026-02-12"), moment(), SourceContext::default()];
        assert_eq!(of(later, "2026-02-11T10:00:00Z"), TimePrecision::Moment);
        let undated = vec![SourceContext::default(), day("2026-02-10")];
        assert_eq!(of(undated, noon), TimePrecision::Day);
        // The time of a source without a date is only its place among others.
        let placed = vec![SourceContext::default(), moment()];
        assert_eq!(of(placed, "2026-02-01T08:00:00Z"), TimePrecision::Unknown);
        assert_eq!(of(Vec::new(), noon), TimePrecision::Moment);
        let session = InputContext {
            whole: Some(moment()),
            sources: vec![SourceContext::default()],
            window: None,
        };
        assert_eq!(session.time_precision(Some(1)), TimePrecision::Moment);
        assert_eq!(InputContext::default().time_precision(None), TimePrecision::Unknown);
    }

    #[test]
    fn the_authors_of_many_sources_are_named_once_and_the_rest_is_counted() {
        let of = |headers: &[&str]| {
            let source = |header: &&str| SourceContext {
                author: Person::parse(header),
                ..SourceContext::default()
            };
            let sources = headers.iter().map(source).collect();
            InputContext { sources, ..InputContext::default() }.authors()
        };
        assert_eq!(of(&["", " "]), None);
        let three = of(&["Ana Ruiz <ana@x.example>", "bo@x.example", "Ana Ruiz"]);
        assert_eq!(three.as_deref(), Some("Ana Ruiz, bo@x.example"));
        let many = of(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "a", "j"]);
        assert_eq!(many.as_deref(), Some("a, b, c, d, e, f, g, h and 2 more"));
    }

    #[test]
    fn an_origin_shows_the_place_a_person_can_open() {
        let mut origin = Origin { message_id: Some("m1".into()), ..Origin::default() };
        assert_eq!(origin.shown().as_deref(), Some("m1"));
        (origin.path, origin.line) = (Some("notes/a.md".into()), Some(7));
        assert_eq!(origin.shown().as_deref(), Some("notes/a.md:7"));
        origin.url = Some("https://example.org/a".into());
        assert_eq!(origin.shown().as_deref(), Some("https://example.org/a"));
        assert_eq!(Origin::default().shown(), None);
    }
}
