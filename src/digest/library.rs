//! The summaries as selection sees them: a few dozen bytes each, in memory.
//!
//! Contract. A pure fold over the log: what was produced, when, with which tags, in which project.
//! Texts stay in the log and are read when a memo needs them. Reading continues where it stopped, so
//! one new summary costs one record. The order of the summaries in the log says only which of several
//! about one source is the newest: units are sorted by source time and id, and words are compared as
//! words.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use chrono::{Datelike as _, NaiveDate};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::parallel::join;
use super::project::{ProjectRules, scalar};
pub use super::standing::Publish;
use super::standing::{SeenPrivate, Stand, Standing};
use super::tags;
use super::tasks::{self, TaskMarks, TaskMembers};
use crate::contract::ids::Seq;
use crate::contract::publish;
use crate::contract::time::{Day, Timestamp};
use crate::contract::versions::{SourceWord, VersionKeys, VersionOrder, VersionedItem};
use crate::contract::vocabulary::Stream;
use crate::log::codec;
use crate::log::{ReadError, Reader};
use crate::model::builtin::fill::signals;
use crate::state::event::Event;

/// Items read from the log before they are taken in.
const PAGE: usize = 4096;
/// Most tags of one summary that count.
const TAGS_MAX: usize = 200;
/// About how many bytes a kept unit takes without its words.
const UNIT_BYTES: usize = 64;
/// Columns of a record that count as tags.
pub(super) const COLUMNS: &[&str] =
    &["stage", "msg_type", "domain", "note_type", "format_type", "category", "subtopic", VERDICT];
/// The namespace of tags that say how a flow judged a text.
const VERDICT: &str = "verdict";

/// Words that were seen, each with a number.
#[derive(Default)]
pub struct Words {
    words: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Words {
    /// Adds a word that is not there yet.
    fn push(&mut self, word: &str) {
        let number = self.words.len() as u32;
        let word: Arc<str> = word.into();
        self.words.push(Arc::clone(&word));
        self.numbers.insert(word, number);
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        self.push(word);
        self.words.len() as u32 - 1
    }

    /// The number of a word, if it was ever seen.
    pub fn find(&self, word: &str) -> Option<u32> {
        self.numbers.get(word).copied()
    }

    /// The word of a number.
    pub fn word(&self, number: u32) -> &str {
        &self.words[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// All of them with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.words.iter().enumerate().map(|(number, word)| (number as u32, &**word))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Unit {
    /// The event that holds its item.
    pub seq: Seq,
    /// The id behind `sum_`.
    pub id: [u8; 16],
    /// Source time.
    pub at: Timestamp,
    /// Its confidence; not a number when it has none.
    pub confidence: f64,
    terms: u32,
    pub day: Day,
    pub project: Option<u32>,
    /// Things left to do.
    pub tasks: u16,
    /// Whether its flow looked for tasks.
    pub looked: bool,
    tags: u16,
    metas: u16,
    pub stream: Stream,
    /// Whether it may be shown.
    pub publish: Publish,
    /// The thread it belongs to: a conversation, else its sources.
    pub(crate) thread: u64,
    /// Its sources and its question, as its flow summarized them.
    pub(crate) source: u64,
    /// The request that asked for it.
    asked: Seq,
    /// Whether `source` also stands for the question, so that a newer summary can take its place.
    has_work: bool,
    word: SourceWord,
    /// Where the keys of its sources are in the list of all: their number comes first.
    origins: u32,
}

impl Unit {
    /// What decides how it stands among others.
    fn stand<'a>(&self, origins: &'a [u64]) -> Stand<'a> {
        let origins = &origins[self.origins as usize..];
        let order = VersionOrder { asked: self.asked, made: self.seq };
        let origins = match origins {
            [count, keys @ ..] => &keys[..*count as usize],
            [] => &[],
        };
        let work = if self.has_work { self.source } else { 0 };
        Stand { order, publish: self.publish, word: self.word, work, origins }
    }

    pub fn summary_id(&self) -> String {
        let mut text = String::with_capacity(36);
        text.push_str("sum_");
        crate::contract::hash::push_hex(&mut text, &self.id);
        text
    }
}

/// A summary id as 16 bytes; `None` when it is not one of ours.
pub(crate) fn parse_summary_id(text: &str) -> Option<[u8; 16]> {
    let hex = text.strip_prefix("sum_").filter(|hex| hex.len() == 32)?.as_bytes();
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(id)
}

/// How much of a library there is: up to which event, and how many words of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Share {
    pub seq: Seq,
    words: [usize; 3],
}

/// What is left of kept bytes.
struct ByteCursor<'a>(&'a [u8]);

impl<'a> ByteCursor<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }
}

#[derive(Default)]
pub struct Library {
    /// Tags that were seen.
    pub tags: Words,
    /// Projects that were seen.
    pub projects: Words,
    /// Values of the wanted fields of `meta`, as `name\0value`.
    pub metas: Words,
    /// The fields of `meta` that are kept; others may be different in every summary.
    fields: BTreeSet<String>,
    /// How an item gets its project.
    rules: ProjectRules,
    units: Vec<Unit>,
    terms: Vec<u32>,
    /// What is known about tasks, for the units that speak of some.
    tasks: HashMap<Seq, TaskMarks>,
    /// The keys of the sources of all units.
    origins: Vec<u64>,
    standing: Standing,
    /// Summaries whose sources became private later, each with the newest event that says so.
    private: BTreeMap<Seq, SeenPrivate>,
    read_to: Seq,
    /// Events whose item has no id of ours or no source time: they enter no bag.
    malformed: Vec<Seq>,
}

/// What selection needs to know of an item.
struct Facts {
    tags: Vec<String>,
    metas: Vec<String>,
    project: Option<String>,
    confidence: Option<f64>,
    marks: TaskMarks,
    looked: bool,
    publish: Publish,
    at: Option<i64>,
    thread: u64,
    source: u64,
    versions: VersionKeys,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Outputs {
    tags: Vec<Value>,
    topics: Vec<Value>,
    category: Option<Value>,
    format_type: Option<Value>,
    confidence: Option<f64>,
    actions: Value,
    summary_text: String,
    structured: Option<Box<RawValue>>,
}

/// What a page of the log says of summaries.
#[derive(Default)]
struct Page {
    made: Vec<TakenSummary>,
    private: Vec<SeenPrivate>,
}

struct TakenSummary {
    seq: Seq,
    asked: Seq,
    id: [u8; 16],
    day: Day,
    stream: Stream,
}

impl Library {
    /// An empty one that will know some fields of `meta`, with the default rules for projects.
    #[cfg(any(test, feature = "internals"))]
    pub fn with_fields(fields: BTreeSet<String>) -> Library {
        Library { fields, ..Library::default() }
    }

    /// An empty one for some selectors.
    pub fn with_rules(fields: BTreeSet<String>, rules: ProjectRules) -> Library {
        Library { fields, rules, ..Library::default() }
    }

    /// How an item gets its project.
    pub(crate) fn rules(&self) -> &ProjectRules {
        &self.rules
    }

    /// What is known about the tasks of a unit.
    pub(crate) fn task_marks(&self, unit: &Unit) -> Option<&TaskMarks> {
        self.tasks.get(&unit.seq)
    }

    /// Whether a newer summary took the place of a unit.
    pub(crate) fn is_replaced(&self, unit: &Unit) -> bool {
        self.standing.is_replaced(unit.stand(&self.origins))
    }

    /// Whether a unit may be shown, after everything that is known of its sources.
    pub(crate) fn publish(&self, unit: &Unit) -> Publish {
        self.standing.publish(unit.stand(&self.origins))
    }

    /// Whether two summaries are about the same source.
    pub(crate) fn shares_source(&self, one: &Unit, other: &Unit) -> bool {
        let other = self.origins_of(other);
        self.origins_of(one).iter().any(|origin| other.contains(origin))
    }

    /// What the sources of a unit are known by.
    pub(crate) fn origins_of(&self, unit: &Unit) -> &[u64] {
        unit.stand(&self.origins).origins
    }

    /// Whether an event after `seq` changed how a unit stands.
    pub(crate) fn moved_after(&self, unit: &Unit, seq: Seq) -> bool {
        self.standing.moved_after(unit.stand(&self.origins), seq)
    }

    /// The fields of `meta` it knows.
    pub fn fields(&self) -> &BTreeSet<String> {
        &self.fields
    }

    /// Takes in the new events of the log, up to an event; how many of them changed what it knows.
    /// `threads` threads read items.
    pub fn read(
        &mut self,
        log: &Reader,
        until: Option<Seq>,
        threads: usize,
        progress: &mut dyn FnMut(Seq),
    ) -> Result<usize, ReadError> {
        let before = self.units.len();
        let (head, _) = log.head();
        let until = until.unwrap_or(head).min(head);
        let mut private = 0;
        while self.read_to < until {
            let page = self.next_page(log, until)?;
            for (taken, facts) in items(log, &page.made, &self.fields, &self.rules, threads)? {
                self.add(&taken, &facts);
            }
            private += page.private.len();
            page.private.into_iter().for_each(|seen| self.became_private(seen));
            progress(self.read_to);
        }
        if self.units.len() > before {
            // Stable, because that is one pass over what is in order already.
            self.units.sort_by_key(|unit| (unit.at, unit.id));
        }
        Ok(self.units.len() - before + private)
    }

    fn became_private(&mut self, seen: SeenPrivate) {
        self.standing.became_private(&seen);
        self.private.insert(seen.summary, seen);
    }

    fn next_page(&mut self, log: &Reader, until: Seq) -> Result<Page, ReadError> {
        let mut page = Page::default();
        let (mut read_to, mut is_full) = (self.read_to, false);
        let malformed = &mut self.malformed;
        log.try_scan::<ReadError>(self.read_to.next(), Some(until), |entry| {
            read_to = entry.seq;
            if !matches!(entry.tag, codec::SUMMARY_PRODUCED | codec::SOURCE_BECAME_PRIVATE) {
                return Ok(ControlFlow::Continue(()));
            }
            let seq = entry.seq;
            match entry.event()? {
                Event::SummaryProduced { request, summary, .. } => {
                    match parse_summary_id(&summary.summary_id) {
                        Some(id) => {
                            let (day, stream) = (summary.day, summary.stream);
                            page.made.push(TakenSummary { seq, asked: request, id, day, stream });
                        }
                        None => malformed.push(seq),
                    }
                }
                Event::SourceBecamePrivate { request, made, .. } => {
                    let order = VersionOrder { asked: request, made: seq };
                    page.private.extend(seen_private(log, order, made)?);
                }
                _ => {}
            }
            is_full = page.made.len() + page.private.len() == PAGE;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        self.read_to = if is_full { read_to } else { until };
        Ok(page)
    }

    fn add(&mut self, taken: &TakenSummary, facts: &Facts) {
        let Some(at) = facts.at else {
            self.malformed.push(taken.seq);
            return;
        };
        let terms = self.terms.len() as u32;
        for tag in &facts.tags {
            let number = self.tags.number(tag);
            self.terms.push(number);
        }
        for meta in &facts.metas {
            let number = self.metas.number(meta);
            self.terms.push(number);
        }
        let project = facts.project.as_deref().map(|project| self.projects.number(project));
        let unit = Unit {
            seq: taken.seq,
            id: taken.id,
            at: Timestamp(at),
            confidence: facts.confidence.unwrap_or(f64::NAN),
            terms,
            day: taken.day,
            project,
            tasks: facts.marks.tasks.len() as u16,
            looked: facts.looked,
            tags: facts.tags.len() as u16,
            metas: facts.metas.len() as u16,
            stream: taken.stream,
            publish: facts.publish,
            thread: facts.thread,
            source: facts.source,
            asked: taken.asked,
            has_work: facts.versions.work != 0,
            word: facts.versions.word,
            origins: self.origins.len() as u32,
        };
        self.origins.push(facts.versions.origins.len() as u64);
        self.origins.extend(&facts.versions.origins);
        self.standing.take(unit.stand(&self.origins));
        self.units.push(unit);
        if !facts.marks.is_empty() {
            self.tasks.insert(taken.seq, facts.marks.clone());
        }
    }

    pub(super) fn share(&self) -> Share {
        let words = [&self.tags, &self.projects, &self.metas].map(Words::len);
        Share { seq: self.read_to, words }
    }

    /// The units that came after a share, in the order of the log, with the words that were new.
    pub(super) fn since(&self, share: &Share) -> Vec<u8> {
        let mut units: Vec<&Unit> = self.units.iter().filter(|unit| unit.seq > share.seq).collect();
        units.sort_unstable_by_key(|unit| unit.seq);
        let mut bytes = Vec::with_capacity(units.len() * 2 * UNIT_BYTES);
        for (words, known) in [&self.tags, &self.projects, &self.metas].into_iter().zip(share.words)
        {
            let new = &words.words[known..];
            bytes.extend_from_slice(&(new.len() as u32).to_le_bytes());
            for word in new {
                bytes.extend_from_slice(&(word.len() as u32).to_le_bytes());
                bytes.extend_from_slice(word.as_bytes());
            }
        }
        for unit in units {
            bytes.extend_from_slice(&unit.seq.0.to_le_bytes());
            bytes.extend_from_slice(&unit.id);
            bytes.extend_from_slice(&unit.at.0.to_le_bytes());
            bytes.extend_from_slice(&unit.confidence.to_bits().to_le_bytes());
            bytes.extend_from_slice(&unit.day.0.num_days_from_ce().to_le_bytes());
            bytes.extend_from_slice(&unit.project.unwrap_or(u32::MAX).to_le_bytes());
            for count in [unit.tasks, unit.tags, unit.metas] {
                bytes.extend_from_slice(&count.to_le_bytes());
            }
            bytes.push(u8::from(unit.looked));
            let stream = Stream::ALL.iter().position(|one| *one == unit.stream);
            bytes.push(stream.unwrap_or(Stream::ALL.len()) as u8);
            bytes.push(unit.publish as u8);
            bytes.extend_from_slice(&unit.thread.to_le_bytes());
            bytes.extend_from_slice(&unit.source.to_le_bytes());
            bytes.extend_from_slice(&unit.asked.0.to_le_bytes());
            bytes.push(u8::from(unit.has_work));
            bytes.push(unit.word as u8);
            let origins = unit.stand(&self.origins).origins;
            bytes.extend_from_slice(&(origins.len() as u32).to_le_bytes());
            for origin in origins {
                bytes.extend_from_slice(&origin.to_le_bytes());
            }
            let marks = self.task_marks(unit).map(TaskMarks::to_numbers).unwrap_or_default();
            bytes.extend_from_slice(&(marks.len() as u32).to_le_bytes());
            for number in marks {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            for term in self.tags_of(unit).iter().chain(self.metas_of(unit)) {
                bytes.extend_from_slice(&term.to_le_bytes());
            }
        }
        bytes
    }

    /// Takes in what [`since`](Self::since) gave for a share; how many units that were. `None` when
    /// it does not follow what is there, which leaves a library that is of no use.
    pub(super) fn restore(&mut self, begin: &Share, bytes: &[u8]) -> Option<usize> {
        if self.share().words != begin.words {
            return None;
        }
        let mut rest = ByteCursor(bytes);
        for words in [&mut self.tags, &mut self.projects, &mut self.metas] {
            for _ in 0..u32::from_le_bytes(rest.take()?) {
                let len = u32::from_le_bytes(rest.take()?) as usize;
                words.push(std::str::from_utf8(rest.bytes(len)?).ok()?);
            }
        }
        let before = self.units.len();
        while !rest.0.is_empty() {
            let unit = Unit {
                seq: Seq(u64::from_le_bytes(rest.take()?)),
                id: rest.take()?,
                at: Timestamp(i64::from_le_bytes(rest.take()?)),
                confidence: f64::from_bits(u64::from_le_bytes(rest.take()?)),
                terms: self.terms.len() as u32,
                day: Day(NaiveDate::from_num_days_from_ce_opt(i32::from_le_bytes(rest.take()?))?),
                project: Some(u32::from_le_bytes(rest.take()?)).filter(|one| *one != u32::MAX),
                tasks: u16::from_le_bytes(rest.take()?),
                tags: u16::from_le_bytes(rest.take()?),
                metas: u16::from_le_bytes(rest.take()?),
                looked: rest.take::<1>()? == [1],
                stream: *Stream::ALL.get(usize::from(rest.take::<1>()?[0]))?,
                publish: *Publish::ALL.get(usize::from(rest.take::<1>()?[0]))?,
                thread: u64::from_le_bytes(rest.take()?),
                source: u64::from_le_bytes(rest.take()?),
                asked: Seq(u64::from_le_bytes(rest.take()?)),
                has_work: rest.take::<1>()? == [1],
                word: *SourceWord::ALL.get(usize::from(rest.take::<1>()?[0]))?,
                origins: self.origins.len() as u32,
            };
            let origins = u32::from_le_bytes(rest.take()?);
            self.origins.push(u64::from(origins));
            for _ in 0..origins {
                self.origins.push(u64::from_le_bytes(rest.take()?));
            }
            let row: Option<Vec<u32>> = (0..u32::from_le_bytes(rest.take()?))
                .map(|_| rest.take().map(u32::from_le_bytes))
                .collect();
            let row = row?;
            if !row.is_empty() {
                self.tasks.insert(unit.seq, TaskMarks::from_numbers(&row)?);
            }
            let (tags, metas) = (self.tags.len() as u32, self.metas.len() as u32);
            for (count, bound) in [(unit.tags, tags), (unit.metas, metas)] {
                for _ in 0..count {
                    let term = u32::from_le_bytes(rest.take()?);
                    self.terms.push(Some(term).filter(|term| *term < bound)?);
                }
            }
            let known = self.projects.len() as u32;
            self.standing.take(unit.stand(&self.origins));
            self.units.push(Some(unit).filter(|unit| unit.project.is_none_or(|one| one < known))?);
        }
        Some(self.units.len() - before)
    }

    /// Everything that was kept is in.
    pub(super) fn restored(
        &mut self,
        read_to: Seq,
        malformed: Vec<Seq>,
        private: Vec<SeenPrivate>,
    ) {
        self.read_to = read_to;
        self.malformed = malformed;
        private.into_iter().for_each(|seen| self.became_private(seen));
        self.units.sort_by_key(|unit| (unit.at, unit.id));
    }

    /// How far into the log it is.
    pub fn read_to(&self) -> Seq {
        self.read_to
    }

    /// All units, by source time and id.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// What events say of earlier summaries whose sources became private.
    pub(super) fn private(&self) -> impl Iterator<Item = &SeenPrivate> {
        self.private.values()
    }

    /// Events whose item has no id of ours or no source time.
    pub fn malformed(&self) -> &[Seq] {
        &self.malformed
    }

    /// The units whose source time lies in a range of instants.
    pub fn between(&self, from: Option<Timestamp>, until: Option<Timestamp>) -> Range<usize> {
        let at = |bound: Timestamp| self.units.partition_point(|unit| unit.at < bound);
        from.map_or(0, at)..until.map_or(self.units.len(), at)
    }

    /// The tags of a unit, the best namespace first.
    pub fn tags_of(&self, unit: &Unit) -> &[u32] {
        let start = unit.terms as usize;
        &self.terms[start..start + usize::from(unit.tags)]
    }

    /// The fields of `meta` of a unit.
    pub fn metas_of(&self, unit: &Unit) -> &[u32] {
        let start = unit.terms as usize + usize::from(unit.tags);
        &self.terms[start..start + usize::from(unit.metas)]
    }
}

/// What an event that an earlier summary has a private source says of others.
fn seen_private(
    log: &Reader,
    order: VersionOrder,
    summary: Seq,
) -> Result<Option<SeenPrivate>, ReadError> {
    let Some(body) = log.kept_body(summary)? else { return Ok(None) };
    let item: VersionedItem =
        serde_json::from_slice(&body).map_err(|error| ReadError::unexpected(summary, error))?;
    let VersionKeys { word, origins, .. } = item.keys_if_private();
    Ok(Some(SeenPrivate { order, summary, word, origins }))
}

/// The facts of a page of items, in its order, without those that a person took back.
fn items(
    log: &Reader,
    page: &[TakenSummary],
    fields: &BTreeSet<String>,
    rules: &ProjectRules,
    threads: usize,
) -> Result<Vec<(TakenSummary, Facts)>, ReadError> {
    let share = page.len().div_ceil(threads.max(1)).max(64);
    let read = |part: &[TakenSummary]| -> Result<Vec<Option<Facts>>, ReadError> {
        part.iter().map(|taken| item(log, taken.seq, fields, rules)).collect()
    };
    let read = &read;
    let parts: Vec<Result<Vec<Option<Facts>>, ReadError>> = std::thread::scope(|scope| {
        let running: Vec<_> =
            page.chunks(share).map(|part| scope.spawn(move || read(part))).collect();
        running.into_iter().map(join).collect()
    });
    let mut facts = Vec::with_capacity(page.len());
    for part in parts {
        facts.extend(part?);
    }
    let again = |taken: &TakenSummary| TakenSummary { ..*taken };
    let kept = page.iter().zip(facts).filter_map(|(taken, facts)| Some((again(taken), facts?)));
    Ok(kept.collect())
}

fn item(
    log: &Reader,
    seq: Seq,
    fields: &BTreeSet<String>,
    rules: &ProjectRules,
) -> Result<Option<Facts>, ReadError> {
    let Some(body) = log.kept_body(seq)? else { return Ok(None) };
    facts(&body, fields, rules).map(Some).map_err(|error| ReadError::unexpected(seq, error))
}

/// The thread of an item: its conversation, else what its sources are known by, else their ids. A text that is
/// changed gets other ids, and its tasks stay those that they were.
pub(super) fn thread_of(
    meta: &Map<String, Value>,
    origins: &[String],
    source_ids: &[String],
) -> u64 {
    match meta.get("conversation_id").and_then(scalar) {
        Some(conversation) => tasks::key("conversation", &conversation),
        None if !origins.is_empty() => tasks::key("sources", &origins.join("\n")),
        None => tasks::key("sources", &source_ids.join("\n")),
    }
}

fn facts(
    body: &[u8],
    fields: &BTreeSet<String>,
    rules: &ProjectRules,
) -> serde_json::Result<Facts> {
    let line: VersionedItem<Outputs> = serde_json::from_slice(body)?;
    let (outputs, meta) = (&line.outputs, &line.meta);
    let texts = |values: &[Value]| -> Vec<String> {
        values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let structured = outputs.structured.as_deref().map_or("null", RawValue::get);
    let verdicts = tasks::verdicts(structured);
    let mut raw = texts(&outputs.tags);
    for tag in raw.iter_mut().filter(|tag| verdicts.contains(tag.as_str())) {
        *tag = format!("{VERDICT}:{tag}");
    }
    raw.extend(texts(&outputs.topics).iter().map(|topic| format!("topic:{topic}")));
    let columns = [("category", &outputs.category), ("format_type", &outputs.format_type)];
    for (name, value) in columns {
        let value = value.as_ref().and_then(Value::as_str);
        raw.extend(value.map(|value| format!("{name}:{value}")));
    }
    for name in COLUMNS {
        raw.extend(meta.get(*name).and_then(scalar).map(|value| format!("{name}:{value}")));
    }
    raw.retain(|tag| !tag.trim().is_empty());
    let mut tags = tags::of_record(raw.iter().map(String::as_str));
    tags.truncate(TAGS_MAX);
    let metas = fields
        .iter()
        .filter_map(|name| Some(format!("{name}\u{0}{}", scalar(meta.get(name)?)?)))
        .collect();
    let thread = thread_of(meta, &line.selection.origins, &line.source_ids);
    let flow = meta.get("flow_id").and_then(scalar).unwrap_or_default();
    let versions = line.keys();
    let source = match versions.work {
        0 => tasks::key("source", &format!("{flow}\n{}", line.source_ids.join("\n"))),
        work => work,
    };
    let members: TaskMembers = serde_json::from_str(structured).unwrap_or_default();
    let told = super::markdown::plain(&outputs.summary_text);
    // A line of a chat ends with its line, whatever the next one says.
    let apart = super::markdown::plain_apart(&outputs.summary_text);
    let found = members.found(&outputs.actions, &apart, meta);
    let is_message = tasks::is_message(meta);
    let doubted = members.doubts() || is_message && signals::reads_like_fraud(&told);
    let marks = TaskMarks::of(&found, doubted, thread, &apart);
    Ok(Facts {
        tags,
        metas,
        project: rules.project(meta).map(|(project, _)| project),
        confidence: outputs.confidence,
        looked: members.looked(&outputs.actions),
        marks,
        thread,
        source,
        versions,
        publish: Publish::of(publish::said(meta.get("publish"))),
        at: line.ts_abs_ms,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A library of hand-made items, for tests of selection.
    pub fn library(items: &[(u64, Value)]) -> Library {
        let fields = ["flow_id", "k", "project"].map(str::to_owned);
        let mut library = Library::with_fields(fields.into());
        for (number, body) in items {
            let mut id = [0; 16];
            id[8..].copy_from_slice(&number.to_be_bytes());
            let rules = ProjectRules::default();
            let facts = facts(body.to_string().as_bytes(), &library.fields, &rules).unwrap();
            let day = Timestamp(facts.at.unwrap_or(0)).day_in(chrono_tz::UTC);
            let taken = TakenSummary {
                seq: Seq(*number),
                asked: Seq(*number),
                id,
                day,
                stream: Stream::Sessions,
            };
            library.add(&taken, &facts);
        }
        library.units.sort_unstable_by_key(|unit| (unit.at, unit.id));
        library
    }

    #[test]
    fn only_ids_of_the_form_sum_and_hash_are_read() {
        let id = "sum_0123456789abcdef0123456789abcdef";
        let bytes = parse_summary_id(id).unwrap();
        assert_eq!(bytes[..2], [0x01, 0x23]);
        for bad in ["sum_0123", "SUM_0123456789abcdef0123456789abcdef", "", "sum_é"] {
            assert_eq!(parse_summary_id(bad), None, "{bad}");
        }
        assert_eq!(parse_summary_id(&id.to_uppercase()), None);
    }

    #[test]
    fn the_facts_of_an_item_are_read() {
        let body = json!({
            "ts_abs_ms": 5,
            "outputs": {"tags": ["AI", "free:x", 7], "topics": ["ai"], "category": "Ops",
                        "confidence": 0.5, "actions": ["a", {"text": "b"}]},
            "meta": {"project": " P ", "stage": "plan", "actionable": true, "list": []},
        });
        let fields = ["actionable", "list", "none", "project"].map(str::to_owned);
        let rules = ProjectRules::default();
        let facts = facts(body.to_string().as_bytes(), &fields.into(), &rules).unwrap();
        assert_eq!(facts.tags, ["topic:ai", "category:ops", "stage:plan", "free:x"]);
        assert_eq!(facts.metas, ["actionable\u{0}true", "project\u{0} P "]);
        assert_eq!((facts.project.as_deref(), facts.marks.tasks.len()), (Some("P"), 2));
        assert_eq!((facts.confidence, facts.at), (Some(0.5), Some(5)));
    }

    #[test]
    fn units_are_small() {
        assert!(size_of::<Unit>() <= 96, "{}", size_of::<Unit>());
    }
}
