//! Published summaries for a reader: newest first, all of them or those of a day, a project or with
//! some words, and the projects there are.
//!
//! Contract: memory holds one page of rows and one line, however large a day or a home is. An answer
//! reads whole days until its page is full or its time is over; `next` names the place where the
//! next answer continues. A place is a day, a time and an id, so it holds when a day is published
//! again.
//!
//! See docs/adr/0102-newest-summaries-from-published-files.md.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::http::{HttpFailure, Request};
use super::{FileNames, Shown};
use crate::bus::SummaryBus;
use crate::bus::search::{Hit, hit_or_row, words};
use crate::bus::versions::{DayVersions, VersionMark};
use crate::contract::places::folded;
use crate::contract::publish;
use crate::contract::source::TimePrecision;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::digest::project::{ProjectRules, scalar};
use crate::export::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::os::dir::DirHandle;
use crate::upstream::file_names::KnownBy;

/// Rows of a page.
const ROWS: u64 = 20;
const ROWS_MAX: u64 = 100;
/// Characters of a summary in a list.
const TEXT_CHARS: usize = 900;
/// How long one answer reads. A day that was begun is read to its end.
const READ_FOR: Duration = Duration::from_millis(300);
/// Bytes of the longest line that is read; a longer one is passed over.
const LINE_BYTES_MAX: u64 = 8 << 20;
/// Most projects that one answer counts separately.
const PROJECTS_MAX: usize = 2000;

/// The members of a published line that a list shows.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    summary_id: Cow<'a, str>,
    #[serde(default)]
    ts_abs_ms: i64,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    source_ids: Vec<Cow<'a, str>>,
    /// Other lists of ids, which only a search reads.
    #[serde(borrow, default)]
    event_ids: Option<&'a RawValue>,
    #[serde(borrow, default)]
    chunk_ids: Option<&'a RawValue>,
    #[serde(borrow, default)]
    document_ids: Option<&'a RawValue>,
    #[serde(borrow, default)]
    document_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    meta: Meta<'a>,
    #[serde(borrow, default)]
    outputs: Outputs<'a>,
    #[serde(borrow, default)]
    model: Model<'a>,
}

/// The places of a summary that the rules for projects read, and what a list shows.
#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    source_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    project: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    project_from: Option<Cow<'a, str>>,
    #[serde(default)]
    label: Option<Value>,
    #[serde(default)]
    feed: Option<Value>,
    #[serde(default)]
    mailbox: Option<Value>,
    #[serde(default)]
    folder: Option<Value>,
    #[serde(default)]
    repo: Option<Value>,
    #[serde(borrow, default)]
    flow_id: Option<Cow<'a, str>>,
    #[serde(default)]
    publish: Option<Value>,
    #[serde(borrow, default)]
    ts_precision: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct Outputs<'a> {
    #[serde(borrow, default)]
    summary_text: Cow<'a, str>,
    #[serde(borrow, default)]
    rendered_long: Option<Cow<'a, str>>,
    #[serde(default)]
    model_generated: bool,
}

#[derive(Default, Deserialize)]
struct Model<'a> {
    #[serde(borrow, default)]
    model_name: Option<Cow<'a, str>>,
}

impl Line<'_> {
    /// The name of the source, as its person knows it.
    fn name(&self) -> &str {
        let name = self.meta.source_name.as_ref().or(self.title.as_ref());
        name.or(self.source_ids.first()).map_or(&self.summary_id, |name| name)
    }

    /// What a source of it is known by beside it, of those that a search found.
    fn known_by<'f>(&self, files: &'f FileNames) -> Option<&'f KnownBy> {
        if files.is_empty() {
            return None;
        }
        let lists = [self.event_ids, self.chunk_ids, self.document_ids].into_iter().flatten();
        let ids = |list: &RawValue| serde_json::from_str::<Vec<String>>(list.get()).ok();
        let listed = lists.filter_map(ids).flatten();
        let named = self.source_ids.iter().chain(&self.document_id).map(|id| id.to_string());
        named.chain(listed).find_map(|id| files.get(&id))
    }

    /// Its project by the rules of the home, as digests have it.
    fn project(&self, rules: &ProjectRules) -> Option<String> {
        let meta = &self.meta;
        let place = |name: &str| match name {
            "project" => meta.project.as_deref().map(str::to_owned),
            "project_from" => meta.project_from.as_deref().map(str::to_owned),
            "label" => meta.label.as_ref().and_then(scalar),
            "feed" => meta.feed.as_ref().and_then(scalar),
            "mailbox" => meta.mailbox.as_ref().and_then(scalar),
            "folder" => meta.folder.as_ref().and_then(scalar),
            "repo" => meta.repo.as_ref().and_then(scalar),
            _ => None,
        };
        rules.project_by(&place).map(|(project, _)| project)
    }

    /// Whether its source has no date: it is filed under the day on which it was asked for.
    fn is_undated(&self) -> bool {
        let (_, none) = TimePrecision::UNKNOWN;
        self.meta.ts_precision.as_deref() == Some(none)
    }

    /// The longest text of the summary.
    fn long(&self) -> &str {
        let short = self.outputs.summary_text.as_ref();
        self.outputs
            .rendered_long
            .as_deref()
            .filter(|long| long.len() >= short.len())
            .unwrap_or(short)
    }

    fn row(
        &self,
        key: PartitionKey,
        rules: &ProjectRules,
        mark: Option<&VersionMark>,
        hit: Option<&str>,
    ) -> Value {
        let (text, is_cut) = head_of(&self.outputs.summary_text);
        let is_private = mark.is_some_and(VersionMark::is_private)
            || publish::said(self.meta.publish.as_ref()) == Some(false);
        json!({
            "summary_id": self.summary_id, "name": self.name(), "title": self.title,
            "day": key.day.to_string(), "undated": self.is_undated(), "at_ms": self.ts_abs_ms, "stream": key.stream.as_str(),
            "project": self.project(rules), "flow": self.meta.flow_id, "text": text, "cut": is_cut,
            "private": is_private, "hit": hit,
            "replaced_by": mark.and_then(|mark| mark.replaced_by.as_deref()),
            "replaced_on": mark.and_then(VersionMark::replaced_on),
            "model": self.outputs.model_generated.then_some(self.model.model_name.as_deref()),
        })
    }
}

/// The beginning of a text, and whether something is left out.
fn head_of(text: &str) -> (String, bool) {
    let Some((end, _)) = text.char_indices().nth(TEXT_CHARS) else {
        return (text.to_owned(), false);
    };
    let head = &text[..end];
    let head = head.rsplit_once(char::is_whitespace).map_or(head, |(head, _)| head);
    (head.trim_end().to_owned(), true)
}

/// Order within a day: the newest first, then by id.
type Order = (Reverse<i64>, String);

/// Where an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    day: Day,
    /// The last row of the day; `None` when the whole day was read.
    row: Option<Order>,
}

impl Place {
    fn parse(text: &str) -> Option<Place> {
        let mut parts = text.splitn(3, '/');
        let day = parts.next()?.parse().ok()?;
        let row = match (parts.next(), parts.next()) {
            (Some(at), Some(id)) => Some((Reverse(at.parse().ok()?), id.to_owned())),
            _ => None,
        };
        Some(Place { day, row })
    }

    fn show(&self) -> String {
        match &self.row {
            None => self.day.to_string(),
            Some((at, id)) => format!("{}/{}/{id}", self.day, at.0),
        }
    }
}

/// What a reader asks for.
struct Wanted {
    day: Option<Day>,
    since: Option<Day>,
    project: Option<String>,
    flow: Option<String>,
    words: Vec<String>,
    /// Summaries that a newer one of the same source replaced, too.
    all_versions: bool,
    after: Option<Place>,
    rules: ProjectRules,
    files: Arc<FileNames>,
}

impl Wanted {
    fn of(request: &Request, shown: &Shown) -> Result<Wanted, HttpFailure> {
        let day = |name: &str| match request.parameter(name) {
            None => Ok(None),
            Some(day) => {
                day.parse::<Day>().map(Some).map_err(|_| (400, format!("{day} is not a day")))
            }
        };
        let after = match request.parameter("after") {
            None => None,
            Some(place) => {
                Some(Place::parse(place).ok_or((400, format!("{place} is not a place")))?)
            }
        };
        let words = words(request.parameter("q").unwrap_or_default());
        let files = match words.is_empty() {
            true => Arc::default(),
            false => (shown.files_with_words)(&words),
        };
        Ok(Wanted {
            files,
            day: day("day")?,
            since: day("since")?,
            project: request.parameter("project").map(folded),
            flow: request.parameter("flow").map(str::to_owned),
            words,
            all_versions: request.parameter("versions") == Some("all"),
            after,
            rules: (shown.project_rules)(),
        })
    }

    fn reads(&self, day: Day) -> bool {
        let after = self.after.as_ref().is_none_or(|place| match place.row {
            Some(_) => day <= place.day,
            None => day < place.day,
        });
        after
            && self.day.is_none_or(|wanted| wanted == day)
            && self.since.is_none_or(|since| since <= day)
    }

    /// The row of a line that fits; with words, with the sentence that holds them.
    fn row(&self, key: PartitionKey, line: &Line<'_>, mark: Option<&VersionMark>) -> Option<Value> {
        if !self.all_versions && mark.is_some_and(VersionMark::is_replaced) {
            return None;
        }
        if self.project.is_some() {
            let project = line.project(&self.rules).map(|project| folded(&project));
            if project != self.project {
                return None;
            }
        }
        if self.flow.is_some() && line.meta.flow_id.as_deref() != self.flow.as_deref() {
            return None;
        }
        if self.words.is_empty() {
            return Some(line.row(key, &self.rules, mark, None));
        }
        let title = line.title.as_deref().unwrap_or_default();
        let folder = line.meta.folder.as_ref().and_then(scalar).unwrap_or_default();
        let known = line.known_by(&self.files);
        let (names, row) = known.map_or(("", None), |one| (one.names.as_str(), one.row.as_deref()));
        let names = [line.name(), title, &folder, names];
        match hit_or_row(&names, line.long(), row, &self.words)? {
            (_, Hit::Sentence(sentence)) => Some(line.row(key, &self.rules, mark, Some(&sentence))),
            (_, Hit::Name) => Some(line.row(key, &self.rules, mark, None)),
        }
    }
}

/// A page of summaries, newest first.
pub(super) fn newest(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let wanted = Wanted::of(request, shown)?;
    let limit = request.number("limit").unwrap_or(ROWS).clamp(1, ROWS_MAX) as usize;
    let until = Instant::now() + READ_FOR;
    let (mut rows, mut next): (Vec<Value>, Option<Place>) = (Vec::new(), None);
    for (day, streams) in days(shown, |day| wanted.reads(day))? {
        if next.is_some() && Instant::now() >= until {
            return Ok(page(rows, next));
        }
        let after = wanted.after.as_ref().filter(|place| place.day == day);
        let after = after.and_then(|place| place.row.as_ref());
        let (left, versions) = (limit - rows.len(), versions(shown, day)?);
        let mut best: BTreeMap<Order, Value> = BTreeMap::new();
        for stream in streams {
            let key = PartitionKey { stream, day };
            each_line(shown, key, &mut |line| {
                let order = (Reverse(line.ts_abs_ms), line.summary_id.to_string());
                let is_new = after.is_none_or(|after| order > *after);
                let full = best.len() == left;
                let is_in_page =
                    !full || best.last_key_value().is_some_and(|(last, _)| order < *last);
                if is_new
                    && is_in_page
                    && let Some(row) = wanted.row(key, line, versions.mark(&line.summary_id))
                {
                    best.insert(order, row);
                    if best.len() > left {
                        best.pop_last();
                    }
                }
            })?;
        }
        let last = best.last_key_value().map(|(last, _)| last.clone());
        rows.extend(best.into_values());
        next = Some(Place { day, row: last.filter(|_| rows.len() == limit) });
        if rows.len() == limit {
            return Ok(page(rows, next));
        }
    }
    Ok(page(rows, None))
}

fn page(rows: Vec<Value>, next: Option<Place>) -> Value {
    json!({"summaries": rows, "next": next.as_ref().map(Place::show)})
}

/// One published summary as its reader sees it: the names of its source, and the whole text.
pub(super) fn published(shown: &Shown, stream: Stream, day: Day, id: &str) -> Option<Value> {
    let (mut found, rules) = (None, (shown.project_rules)());
    let key = PartitionKey { stream, day };
    let versions = versions(shown, day).unwrap_or_default();
    // A day that does not read has no summary to show; what the log holds of it is shown.
    let _ = each_line(shown, key, &mut |line| {
        if line.summary_id == id {
            let mut row = line.row(key, &rules, versions.mark(id), None);
            row["text"] = line.outputs.summary_text.as_ref().into();
            row["cut"] = false.into();
            found = Some(row);
        }
    });
    found
}

/// How many summaries each project has, and its newest day. One answer looks back only so far.
pub(super) fn projects(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let after: Option<Day> = request.parameter("after").and_then(|day| day.parse().ok());
    let until = Instant::now() + READ_FOR;
    let mut found: BTreeMap<Option<String>, (u64, Day)> = BTreeMap::new();
    let (mut next, rules): (Option<Day>, _) = (None, (shown.project_rules)());
    for (day, streams) in days(shown, |day| after.is_none_or(|after| day < after))? {
        if next.is_some() && (Instant::now() >= until || found.len() >= PROJECTS_MAX) {
            return Ok(projects_page(&found, next));
        }
        let versions = versions(shown, day)?;
        for stream in streams {
            each_line(shown, PartitionKey { stream, day }, &mut |line| {
                if versions.mark(&line.summary_id).is_some_and(VersionMark::is_replaced) {
                    return;
                }
                let project = line.project(&rules);
                if found.len() < PROJECTS_MAX || found.contains_key(&project) {
                    found.entry(project).or_insert((0, day)).0 += 1;
                }
            })?;
        }
        next = Some(day);
    }
    Ok(projects_page(&found, None))
}

fn projects_page(found: &BTreeMap<Option<String>, (u64, Day)>, next: Option<Day>) -> Value {
    let rows: Vec<Value> = found
        .iter()
        .map(|(project, (count, day))| {
            json!({"project": project, "summaries": count, "newest": day.to_string()})
        })
        .collect();
    json!({"projects": rows, "next": next.map(|day| day.to_string())})
}

/// The wanted days with their streams, newest first.
fn days(
    shown: &Shown,
    is_wanted: impl Fn(Day) -> bool,
) -> Result<Vec<(Day, Vec<Stream>)>, HttpFailure> {
    let Ok(bus) = SummaryBus::open(&shown.buses) else { return Ok(Vec::new()) };
    let mut days: BTreeMap<Reverse<Day>, Vec<Stream>> = BTreeMap::new();
    for stream in Stream::ALL {
        let of_stream = bus.days(*stream).map_err(|error| (503, error.to_string()))?;
        for day in of_stream.into_iter().filter(|day| is_wanted(*day)) {
            days.entry(Reverse(day)).or_default().push(*stream);
        }
    }
    Ok(days.into_iter().map(|(day, streams)| (day.0, streams)).collect())
}

/// Which summaries of one day are older versions, or about sources that became private.
fn versions(shown: &Shown, day: Day) -> Result<DayVersions, HttpFailure> {
    let bus = SummaryBus::open(&shown.buses).map_err(|error| (503, error.to_string()))?;
    bus.versions(day).map_err(|error| (503, error.to_string()))
}

/// Hands over the lines of one day of a stream. A day that was removed meanwhile has no line.
fn each_line(
    shown: &Shown,
    key: PartitionKey,
    take: &mut dyn FnMut(&Line<'_>),
) -> Result<(), HttpFailure> {
    let Ok(tree) = DirHandle::open(&shown.buses.join(SUMMARIES_DIR)) else { return Ok(()) };
    let Ok(file) = tree.open_file(&key.data_file()) else { return Ok(()) };
    let unread = |error: std::io::Error| (503, format!("{}: {error}", key.data_file()));
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    loop {
        line.clear();
        let most = LINE_BYTES_MAX;
        if (&mut reader).take(most).read_until(b'\n', &mut line).map_err(unread)? == 0 {
            return Ok(());
        }
        // `verify` reports damage; a list shows what it can read.
        if let Ok(line) = serde_json::from_slice::<Line<'_>>(&line) {
            take(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_as_it_is_shown() {
        let day: Day = "2026-02-11".parse().unwrap();
        for row in [None, Some((Reverse(-5), "sum_a/b".to_owned()))] {
            let place = Place { day, row };
            assert_eq!(Place::parse(&place.show()), Some(place));
        }
        for text in ["", "x", "2026-02-11/x/y"] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_text_without_a_date_says_so() {
        for (precision, is_undated) in [("none", true), ("day", false), ("local", false)] {
            let line = json!({"summary_id": "s", "meta": {"ts_precision": precision}}).to_string();
            let line: Line<'_> = serde_json::from_str(&line).unwrap();
            assert_eq!(line.is_undated(), is_undated, "{precision}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_words() {
        assert_eq!(head_of("Short. Café."), ("Short. Café.".to_owned(), false));
        let (head, is_cut) = head_of(&"é words ".repeat(1000));
        assert!(is_cut && (head.ends_with(" words") || head.ends_with(" é")), "{head}");
        assert!(head_of(&"x".repeat(5000)).0.chars().count() <= TEXT_CHARS);
    }
}
