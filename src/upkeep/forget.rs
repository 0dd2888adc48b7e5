//! Taking texts back: what was made of them, and making it unreadable for ever.
//!
//! Contract. `look` reads the log and changes nothing. `forget` writes the fact, and only once it is
//! durable are keys destroyed. A crash in between is found by `unfinished`, and doing it again does the
//! rest. Everything that is shown of the log is made anew by the caller, which then calls `finish`.
//!
//! A summary goes with its source, and so does everything that was made of that summary. The word of a summary
//! that its text is private goes with it. What others would see without that word goes too.
//!
//! See docs/adr/0131-forgetting.md.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;

use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::Value;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::places::folded;
use crate::contract::publish;
use crate::contract::request::given_key;
use crate::contract::source::Person;
use crate::contract::time::{Day, Timestamp};
use crate::contract::versions::{SourceWord, VersionKeys, VersionedItem, file_of};
use crate::facts::agent_run::AgentRunFact;
use crate::facts::digest::DigestFact;
use crate::log::codec::{self, Cursor};
use crate::log::{Entry, LogError, ReadError, Reader};
use crate::sequencer::engine::{CheckpointWhen, Engine, EngineError, cursor};
use crate::state::decide::{Failed, Outcome, PARAMETERS_GONE, Report, RetryHint, SOURCE_GONE};
use crate::state::event::{Event, Forgotten, SummaryPointer};
use crate::state::{Open, Status};
use crate::upstream::other::parts_of;

/// The first fact whose bodies may still be readable.
pub(crate) const BEGUN: &str = "forget_begun";
/// The last fact that was carried out.
pub(crate) const DONE: &str = "forget_done";
/// Summaries, bags and bodies in one record.
const AT_ONCE: usize = 20_000;
/// Letters of an id that mean it, as elsewhere.
const ID_BEGINS: usize = 8;
/// The length of an id of a summary.
const ID_BYTES: usize = 36;

/// What a person names.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Summaries, by id.
    pub summaries: BTreeSet<String>,
    /// Sources, by id.
    pub sources: BTreeSet<String>,
    /// Files, by the name that their person knows.
    pub files: BTreeSet<String>,
    /// Lines of requests and of the quarantine, by their hashes: a log that is made again has other numbers.
    pub lines: BTreeSet<Digest>,
}

/// Which lines of the queue are meant.
#[derive(Debug, Default)]
pub(crate) struct LinesNamed {
    /// Ids of requests, and quarantined lines as `quarantine:SEQ`.
    pub(crate) ids: BTreeSet<String>,
    /// Names or addresses that stand in the line as they are.
    pub(crate) authors: BTreeSet<String>,
    /// All that were taken in before this day.
    pub(crate) before: Option<(Day, Tz)>,
}

/// What the log holds of it.
#[derive(Debug, Default)]
pub struct Traces {
    pub summaries: BTreeMap<String, SummaryPointer>,
    /// All sources of which something goes.
    pub sources: BTreeSet<String>,
    /// The files of the buses that the sources were read from.
    pub files: BTreeSet<String>,
    /// Bags that hold some of the summaries.
    pub bags: BTreeSet<String>,
    /// Runs of other programs whose events and snapshots go.
    pub(crate) runs: BTreeSet<String>,
    /// Those that stay, although their events name a summary that goes.
    pub(crate) runs_beside: BTreeSet<String>,
    /// Answers of models.
    pub answers: u64,
    /// Records whose bodies are destroyed, answers included.
    pub bodies: Vec<Seq>,
    /// The numbers of the lines of the queue that go: those of requests and of quarantined lines.
    pub(crate) lines: BTreeSet<u64>,
    requests: BTreeSet<Seq>,
    /// Sources that are private because a summary says so that goes, and the record of that word.
    hidden: BTreeMap<u64, Seq>,
}

impl Traces {
    pub fn is_empty(&self) -> bool {
        self.summaries.is_empty() && self.bodies.is_empty()
    }
}

/// Why something cannot be forgotten.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The members of an item that say what it is of.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item {
    source_ids: Vec<String>,
    event_ids: Vec<String>,
    chunk_ids: Vec<String>,
    document_ids: Vec<String>,
    document_id: Option<String>,
    selection: Selection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Selection {
    origins: Vec<String>,
}

impl Item {
    fn ids(&self) -> impl Iterator<Item = &String> {
        let parts = self.event_ids.iter().chain(&self.chunk_ids).chain(&self.document_ids);
        self.source_ids.iter().chain(parts).chain(&self.document_id)
    }
}

impl Wanted {
    /// What a fact of the log names.
    #[cfg(feature = "cluster")]
    pub(crate) fn of(fact: &Forgotten) -> Wanted {
        Wanted {
            summaries: fact.summaries.iter().map(|one| one.summary_id.clone()).collect(),
            sources: fact.sources.iter().cloned().collect(),
            files: fact.files.iter().cloned().collect(),
            lines: BTreeSet::new(),
        }
    }

    /// Whether it names the sources and files that another one names.
    pub(crate) fn names_all_of(&self, other: &Wanted) -> bool {
        other.sources.is_subset(&self.sources) && other.files.is_subset(&self.files)
    }

    /// Everything that is named, as a request names it: an item of the bus `other` without its bus.
    fn as_requested(&self) -> HashSet<&str> {
        let ids = self.sources.iter().chain(&self.files).chain(&self.summaries);
        let bare = self.sources.iter().filter_map(|id| id.strip_prefix("other:"));
        ids.map(String::as_str).chain(bare).collect()
    }

    fn means(&self, id: &str, item: &Item, gone: &Traces) -> bool {
        let of_file =
            |origin: &String| file_of(origin).is_some_and(|name| self.files.contains(name));
        self.summaries.contains(id)
            || item.ids().any(|one| self.sources.contains(one) || gone.summaries.contains_key(one))
            || item.selection.origins.iter().any(of_file)
    }
}

/// Finds everything in the log that was made of what is named.
pub fn look(
    log: &Reader,
    wanted: &Wanted,
    progress: &mut dyn FnMut(f64),
) -> Result<Traces, ReadError> {
    let head = log.head().0.0.max(1) as f64;
    let mut told = |seq: Seq, pass: f64| {
        if seq.0.is_multiple_of(4096) {
            progress((pass + seq.0 as f64 / head) / 2.0);
        }
    };
    let mut hidden = BTreeMap::new();
    let mut found = loop {
        let mut found = Traces { hidden: hidden.clone(), ..Traces::default() };
        log.try_scan::<ReadError>(Seq(1), None, |entry| {
            told(entry.seq, 0.0);
            if matches!(
                entry.tag,
                codec::INPUT_RESOLVED | codec::SUMMARY_PRODUCED | codec::SOURCE_BECAME_PRIVATE
            ) {
                found.take_work(log, wanted, &entry)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        // An earlier summary may be private by a word that goes only later in the log.
        if found.hidden == hidden {
            break found;
        }
        hidden = found.hidden;
    };
    let same = SameRequests::of(log, &found.requests, &wanted.lines)?;
    let named = wanted.as_requested();
    // What mentions a summary may come before its last version, so it is read once all are known.
    log.try_scan::<ReadError>(Seq(1), None, |entry| {
        told(entry.seq, 1.0);
        if matches!(entry.tag, codec::MODEL_RESPONDED | codec::DIGEST | codec::AGENT_RUN) {
            found.take_mention(log, wanted, &entry)?;
        } else if entry.has_body && codec::holds_line(entry.tag) {
            found.take_line(log, (&named, &wanted.lines), &same, &entry)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    found.bodies.sort_unstable();
    Ok(found)
}

/// What requests ask for whose texts go. Another request that asks for the same has the same line.
#[derive(Default)]
struct SameRequests {
    ids: BTreeSet<String>,
    keys: HashSet<Digest>,
    works: HashSet<[u8; 16]>,
}

impl SameRequests {
    /// Those of these requests, and of the lines that are named.
    fn of(
        log: &Reader,
        requests: &BTreeSet<Seq>,
        lines: &BTreeSet<Digest>,
    ) -> Result<SameRequests, ReadError> {
        let mut same = SameRequests::default();
        for seq in requests {
            // Its line is not needed.
            let event = log.get(*seq)?.map(|record| record.event()).transpose()?;
            event.iter().for_each(|event| same.take(event));
        }
        if lines.is_empty() {
            return Ok(same);
        }
        log.try_scan::<ReadError>(Seq(1), None, |entry| {
            if entry.has_body && codec::holds_line(entry.tag) {
                let event = entry.event()?;
                if line_of(&event).is_some_and(|(_, hash)| lines.contains(&hash)) {
                    same.take(&event);
                    let line = log.body(entry.seq)?.filter(|_| event.taken().is_none());
                    same.keys.extend(line.as_deref().and_then(key_in_line));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(same)
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::LineQuarantined(bad) => self.ids.extend(bad.request_id.clone()),
            event => {
                let Some(taken) = event.taken() else { return };
                self.ids.insert(taken.head.request_id.clone());
                self.keys.insert(taken.key);
                self.works.insert(taken.work);
            }
        }
    }

    fn has(&self, event: &Event, line: &[u8]) -> bool {
        match event {
            Event::LineQuarantined(bad) => {
                bad.request_id.as_ref().is_some_and(|id| self.ids.contains(id))
                    || !self.keys.is_empty()
                        && key_in_line(line).is_some_and(|key| self.keys.contains(&key))
            }
            event => event.taken().is_some_and(|taken| {
                self.ids.contains(&taken.head.request_id)
                    || self.keys.contains(&taken.key)
                    || self.works.contains(&taken.work)
            }),
        }
    }
}

/// The key that a quarantined line gives its request, where the line is JSON.
fn key_in_line(line: &[u8]) -> Option<Digest> {
    let line: Value = serde_json::from_slice(line).ok()?;
    line["idempotency_key"].as_str().map(given_key)
}

/// The line of the queue that an event is about: its number and its hash.
pub(crate) fn line_of(event: &Event) -> Option<(u64, Digest)> {
    match event {
        Event::LineQuarantined(bad) => Some((bad.line, bad.sha256)),
        event => event.taken().map(|taken| (taken.head.line, taken.line.sha256())),
    }
}

/// Whether a word names the line that an event is about: by the id of its request, or as `quarantine:SEQ`.
fn names_line(seq: Seq, event: &Event, is_named: impl Fn(&str) -> bool) -> bool {
    match event {
        Event::LineQuarantined(bad) => {
            bad.request_id.as_deref().is_some_and(&is_named)
                || is_named(&format!("quarantine:{}", seq.0))
        }
        event => event.taken().is_some_and(|taken| is_named(&taken.head.request_id)),
    }
}

/// Whether a part of a line between two quotation marks is one of the names. A line in the quarantine may be no JSON.
fn has_part(line: &[u8], is_named: impl Fn(&str) -> bool) -> bool {
    let parts = line.split(|byte| *byte == b'"').filter_map(|part| std::str::from_utf8(part).ok());
    parts.into_iter().any(is_named)
}

/// The hashes of the lines that are meant. The log is read once.
pub(crate) fn lines_named(log: &Reader, named: &LinesNamed) -> Result<BTreeSet<Digest>, ReadError> {
    let mut found = BTreeSet::new();
    log.try_scan::<ReadError>(Seq(1), None, |entry| {
        // What is gone already is not named twice.
        if !entry.has_body || !codec::holds_line(entry.tag) || log.is_forgotten(entry.seq) {
            return Ok(ControlFlow::Continue(()));
        }
        let event = entry.event()?;
        let is_meant = names_line(entry.seq, &event, |name| named.ids.contains(name))
            || named.before.is_some_and(|(day, zone)| entry.at.day_in(zone) < day);
        let is_author = |part: &str| {
            // Longer parts are texts.
            let names = if part.len() <= 256 { Person::names_in(part) } else { BTreeSet::new() };
            named.authors.iter().any(|one| names.contains(&folded(one)))
        };
        if is_meant
            || !named.authors.is_empty()
                && log.body(entry.seq)?.is_some_and(|line| has_part(&line, is_author))
        {
            found.extend(line_of(&event).map(|(_, hash)| hash));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

impl Traces {
    fn take_line(
        &mut self,
        log: &Reader,
        (named, lines): (&HashSet<&str>, &BTreeSet<Digest>),
        same: &SameRequests,
        entry: &Entry<'_>,
    ) -> Result<(), ReadError> {
        // What is gone already is not named twice.
        let Some(line) = log.body(entry.seq)? else { return Ok(()) };
        let event = entry.event()?;
        let is_gone = |part: &str| named.contains(part) || self.summaries.contains_key(part);
        let Some((number, hash)) = line_of(&event) else { return Ok(()) };
        if lines.contains(&hash)
            || self.requests.contains(&entry.seq)
            || same.has(&event, &line)
            || has_part(&line, is_gone)
        {
            self.bodies.push(entry.seq);
            self.lines.insert(number);
        }
        Ok(())
    }

    fn take_work(
        &mut self,
        log: &Reader,
        wanted: &Wanted,
        entry: &Entry<'_>,
    ) -> Result<(), ReadError> {
        match entry.event()? {
            Event::InputResolved { request, sources, .. } => {
                let files = sources.iter().filter(|(_, place)| wanted.sources.contains(&place.id));
                let files: Vec<String> = files.map(|(file, _)| file.to_owned()).collect();
                let is_gone = |id: &String| self.summaries.contains_key(id);
                if !files.is_empty() || sources.iter().any(|(_, place)| is_gone(&place.id)) {
                    self.requests.insert(request);
                    self.files.extend(files);
                }
            }
            Event::SummaryProduced { request, summary, .. } => {
                let Some(body) = log.body(entry.seq)? else { return Ok(()) };
                let item: Item = serde_json::from_slice(&body)
                    .map_err(|error| ReadError::unexpected(entry.seq, error))?;
                let mut goes = self.requests.contains(&request)
                    || wanted.means(&summary.summary_id, &item, self);
                if goes || !self.hidden.is_empty() {
                    let said: VersionedItem = serde_json::from_slice(&body)
                        .map_err(|error| ReadError::unexpected(entry.seq, error))?;
                    goes |= self.hides(entry.seq, &said);
                    if goes {
                        self.hide(entry.seq, &said.keys());
                    }
                }
                if goes {
                    self.requests.insert(request);
                    self.bodies.push(entry.seq);
                    self.sources.extend(item.source_ids);
                    self.summaries.insert(summary.summary_id.clone(), summary);
                }
            }
            // The word on a source is that of the summary that goes.
            Event::SourceBecamePrivate { made, summary, .. }
                if self.summaries.contains_key(&summary.summary_id) =>
            {
                if let Some(body) = log.body(made)? {
                    let said: VersionedItem = serde_json::from_slice(&body)
                        .map_err(|error| ReadError::unexpected(made, error))?;
                    self.hide(entry.seq, &said.keys_if_private());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes down which text is private by the word of this record.
    fn hide(&mut self, at: Seq, VersionKeys { word, origins, .. }: &VersionKeys) {
        if *word != SourceWord::Private {
            return;
        }
        for origin in origins {
            let known = self.hidden.entry(*origin).or_insert(at);
            *known = at.max(*known);
        }
    }

    /// Whether others would see a summary once the word that makes its text private has gone.
    fn hides(&self, made: Seq, item: &VersionedItem) -> bool {
        let is_hidden = |origin: &u64| self.hidden.get(origin).is_some_and(|word| *word > made);
        publish::said(item.meta.get("publish")) != Some(false)
            && item.keys().origins.iter().any(is_hidden)
    }

    fn take_mention(
        &mut self,
        log: &Reader,
        wanted: &Wanted,
        entry: &Entry<'_>,
    ) -> Result<(), ReadError> {
        let mentions = |found: &Traces| -> Result<bool, ReadError> {
            // Retention may have dropped it. What is not there holds no words.
            Ok(log.body(entry.seq)?.is_some_and(|body| found.is_mentioned(&body)))
        };
        match entry.event()? {
            Event::ModelResponded { request, .. }
                if self.requests.contains(&request) && log.body(entry.seq)?.is_some() =>
            {
                self.answers += 1;
                self.bodies.push(entry.seq);
            }
            Event::Digest(DigestFact::Bag(bag)) if mentions(self)? => {
                self.bags.insert(bag.bag_id);
                self.bodies.push(entry.seq);
            }
            Event::Digest(DigestFact::TaskSettled(settled))
                if self.summaries.contains_key(&settled.summary_id)
                    && log.body(entry.seq)?.is_some() =>
            {
                self.bodies.push(entry.seq);
            }
            Event::AgentRun(fact) if is_own(&fact) && mentions(self)? => {
                self.bodies.push(entry.seq);
            }
            Event::AgentRun(fact)
                if wanted.sources.contains(fact.run_id()) && log.body(entry.seq)?.is_some() =>
            {
                self.runs.insert(fact.run_id().to_owned());
                self.bodies.push(entry.seq);
            }
            // The run of another program is named, and goes when its person says so.
            Event::AgentRun(fact) if !is_own(&fact) && mentions(self)? => {
                self.runs_beside.insert(fact.run_id().to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn is_mentioned(&self, text: &[u8]) -> bool {
        mentions(text, |id| self.summaries.contains_key(id))
    }
}

/// Whether a text names one of these summaries.
pub(crate) fn mentions(text: &[u8], is_one: impl Fn(&str) -> bool) -> bool {
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, b"sum_") {
        let id = rest[at..].get(..ID_BYTES).and_then(|id| std::str::from_utf8(id).ok());
        if id.is_some_and(&is_one) {
            return true;
        }
        rest = &rest[at + 4..];
    }
    false
}

/// Whether a fact is of the service's own session: a snapshot of it names what was summarized.
fn is_own(fact: &AgentRunFact) -> bool {
    match fact {
        AgentRunFact::EventsAppended(_) => false,
        AgentRunFact::SnapshotTaken(fact) => fact.covers.is_some(),
        AgentRunFact::CompactionFailed(fact) => fact.covers.is_some(),
    }
}

/// Makes it a fact, and then makes the bodies unreadable. The fact names the sources, so that a crash before
/// their texts left the home is made good. Returns what is to be made anew: with what an earlier one left.
pub fn forget(
    engine: &mut Engine,
    wanted: &Wanted,
    found: &Traces,
    now: Timestamp,
) -> Result<Wanted, ForgetError> {
    // An earlier one may not be finished: its texts go with these.
    let earlier = left(engine.log());
    let first = record(engine, wanted, found, now)?;
    engine.commit(None, CheckpointWhen::Always, &[begun(earlier.unwrap_or(first))], now)?;
    Ok(unfinished(engine)?.unwrap_or_default())
}

/// Adds the facts to the batch, each short enough for one record. Returns the first.
pub fn record(
    engine: &mut Engine,
    wanted: &Wanted,
    found: &Traces,
    now: Timestamp,
) -> Result<Seq, EngineError> {
    let sources: Vec<String> = wanted.sources.iter().cloned().collect();
    let files: Vec<String> = wanted.files.iter().cloned().collect();
    let summaries: Vec<SummaryPointer> = found.summaries.values().cloned().collect();
    let bags: Vec<String> = found.bags.iter().cloned().collect();
    let lengths = [sources.len(), files.len(), summaries.len(), bags.len(), found.bodies.len()];
    let most = lengths.into_iter().max().unwrap_or(0);
    let mut first = None;
    for number in 0..most.div_ceil(AT_ONCE).max(1) {
        let fact = Forgotten {
            sources: part(&sources, number).to_vec(),
            files: part(&files, number).to_vec(),
            summaries: part(&summaries, number).to_vec(),
            bags: part(&bags, number).to_vec(),
            bodies: part(&found.bodies, number).to_vec(),
        };
        let seq = engine.record(Event::Forgotten(Box::new(fact)), now)?;
        first.get_or_insert(seq);
    }
    Ok(first.unwrap_or_default())
}

/// The position that a checkpoint stores while the facts from here on are not carried out.
pub fn begun(first: Seq) -> (&'static str, Cursor) {
    (BEGUN, Cursor { applied: first, bytes: 0 })
}

/// The positions that a checkpoint stores once the facts up to and with this one are carried out.
pub(crate) fn carried_out(last: Seq) -> [(&'static str, Cursor); 2] {
    [begun(last), (DONE, begun(last).1)]
}

/// The first fact that a log may not have carried out. A position that cannot be read proves nothing.
pub(crate) fn left(log: &Reader) -> Option<Seq> {
    match (cursor(log, BEGUN), cursor(log, DONE)) {
        (Ok(begun), _) if begun.applied == Seq(0) => None,
        (Ok(begun), Ok(done)) => Some(begun.applied).filter(|begun| *begun > done.applied),
        (Ok(begun), Err(_)) => Some(begun.applied),
        (Err(_), _) => Some(Seq(1)),
    }
}

fn part<T>(all: &[T], number: usize) -> &[T] {
    let from = (number * AT_ONCE).min(all.len());
    &all[from..(from + AT_ONCE).min(all.len())]
}

/// What a crash or an older file of keys left to be made anew: the sources that were named, whose bodies are unreadable
/// after this call.
pub fn unfinished(engine: &mut Engine) -> Result<Option<Wanted>, ForgetError> {
    let (mut begun, mut keys_again) = (last_asked(engine.log())?, false);
    if begun <= cursor(engine.log(), DONE)?.applied {
        if !can_be_read_again(engine.log())? {
            return Ok(None);
        }
        begun = Seq(1);
        keys_again = true;
    }
    destroy(engine, begun, keys_again).map(Some)
}

/// Makes the bodies of all facts from one on unreadable. Returns what the facts name; with older keys only what no
/// other text can be named by now.
pub(crate) fn destroy(
    engine: &mut Engine,
    begun: Seq,
    keys_again: bool,
) -> Result<Wanted, ForgetError> {
    let (mut wanted, mut bodies) = (Wanted::default(), Vec::new());
    engine.log().try_scan::<ReadError>(begun, None, |entry| {
        if entry.tag == codec::FORGOTTEN
            && let Event::Forgotten(fact) = entry.event()?
        {
            wanted.summaries.extend(fact.summaries.into_iter().map(|one| one.summary_id));
            wanted.sources.extend(fact.sources);
            // Since then another text may have the name.
            wanted.files.extend(fact.files.into_iter().filter(|_| !keys_again));
            bodies.extend(fact.bodies);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    engine.store().forget(&bodies)?;
    Ok(wanted)
}

/// Those of these ids of which the log still has something: of a source a summary or an answer, of a run its events. The log
/// is read once.
pub fn known_ids(log: &Reader, ids: &BTreeSet<String>) -> Result<BTreeSet<String>, ReadError> {
    let (mut known, mut asked) = (BTreeSet::new(), BTreeMap::<Seq, BTreeSet<String>>::new());
    log.try_scan::<ReadError>(Seq(1), None, |entry| {
        let is_work = [
            codec::INPUT_RESOLVED,
            codec::MODEL_RESPONDED,
            codec::SUMMARY_PRODUCED,
            codec::AGENT_RUN,
        ];
        if !is_work.contains(&entry.tag) {
            return Ok(ControlFlow::Continue(()));
        }
        match entry.event()? {
            Event::InputResolved { request, sources, .. } => {
                let named = sources.iter().map(|(_, place)| &place.id);
                let named: BTreeSet<String> =
                    named.filter(|id| ids.contains(*id)).cloned().collect();
                if !named.is_empty() {
                    asked.entry(request).or_default().extend(named);
                }
            }
            Event::AgentRun(fact)
                if !is_own(&fact)
                    && ids.contains(fact.run_id())
                    && log.body(entry.seq)?.is_some() =>
            {
                known.insert(fact.run_id().to_owned());
            }
            Event::ModelResponded { request, .. }
                if asked.contains_key(&request) && log.body(entry.seq)?.is_some() =>
            {
                known.extend(asked.remove(&request).unwrap_or_default());
            }
            Event::SummaryProduced { request, .. } => {
                if let Some(body) = log.body(entry.seq)? {
                    known.extend(asked.remove(&request).unwrap_or_default());
                    let item: Item = serde_json::from_slice(&body)
                        .map_err(|error| ReadError::unexpected(entry.seq, error))?;
                    known.extend(item.ids().filter(|id| ids.contains(*id)).cloned());
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(known)
}

/// The moment at which a person took back what a name means: a summary or source by id, a file, or a line. Names that only the
/// texts had, such as a title, are known no more. A log in which nothing was ever forgotten is not read.
pub fn forgotten_at(log: &Reader, name: &str) -> Result<Option<Timestamp>, ForgetError> {
    if last_asked(log)? == Seq(0) && !log.has_destroyed_keys() {
        return Ok(None);
    }
    let mut at = None;
    let is_file = |file: &String| {
        let before = file.strip_suffix(name);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    // A file on the bus `other`, and the list or conversation in it that an item is a part of.
    let bare = name.strip_prefix("other:").unwrap_or(name);
    let of_list = |id: &str| {
        let whole = id.strip_prefix("other:").unwrap_or_default();
        let file = parts_of(whole).0;
        let is_part =
            file.strip_suffix(bare).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        is_part
            || whole.strip_prefix(bare).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    };
    let is_id = |id: &str| {
        id == name
            || id.starts_with("other:") && of_list(id)
            || name.len() >= ID_BEGINS && id.starts_with(name)
    };
    let mut lines = BTreeSet::new();
    log.try_scan::<ReadError>(Seq(1), None, |entry| {
        // A copy of the log has neither such a line nor its key.
        if codec::holds_line(entry.tag) {
            if names_line(entry.seq, &entry.event()?, |one| one == name) {
                lines.insert(entry.seq);
            }
        } else if entry.tag == codec::FORGOTTEN
            && let Event::Forgotten(fact) = entry.event()?
            && (fact.summaries.iter().any(|one| is_id(&one.summary_id))
                || fact.sources.iter().any(|id| is_id(id))
                || fact.files.iter().any(is_file)
                || fact.bodies.iter().any(|seq| lines.contains(seq)))
        {
            at = Some(entry.at);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(at)
}

/// What else is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GoneBeside {
    /// Lines of requests and of the quarantine.
    pub(crate) lines: u64,
    /// Runs of other programs.
    pub(crate) runs: u64,
}

/// Counts the lines and the runs that the facts name.
pub(crate) fn gone_beside(log: &Reader) -> Result<GoneBeside, ForgetError> {
    if last_asked(log)? == Seq(0) && !log.has_destroyed_keys() {
        return Ok(GoneBeside::default());
    }
    let (mut lines, mut runs) = (BTreeMap::new(), BTreeMap::new());
    let mut bodies = BTreeSet::new();
    log.try_scan::<ReadError>(Seq(1), None, |entry| {
        if codec::holds_line(entry.tag) {
            lines.extend(line_of(&entry.event()?).map(|(number, _)| (entry.seq, number)));
        } else if entry.tag == codec::AGENT_RUN
            && let Event::AgentRun(fact) = entry.event()?
            && !is_own(&fact)
        {
            runs.insert(entry.seq, fact.run_id().to_owned());
        } else if entry.tag == codec::FORGOTTEN
            && let Event::Forgotten(fact) = entry.event()?
        {
            bodies.extend(fact.bodies);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let lines: BTreeSet<u64> = bodies.iter().filter_map(|seq| lines.get(seq).copied()).collect();
    let runs: BTreeSet<&String> = bodies.iter().filter_map(|seq| runs.get(seq)).collect();
    Ok(GoneBeside { lines: lines.len() as u64, runs: runs.len() as u64 })
}

/// The moment of the last forgetting, as the log says it.
pub(crate) fn last_at(log: &Reader) -> Result<Option<Timestamp>, ForgetError> {
    let last = last_asked(log)?;
    let record = if last == Seq(0) { None } else { log.get(last)? };
    Ok(record.filter(|record| record.tag == codec::FORGOTTEN).map(|record| record.at))
}

/// The summaries that are gone and did not come again, with the moment of it.
pub(crate) fn gone(
    log: &Reader,
) -> Result<BTreeMap<String, (SummaryPointer, Timestamp)>, ForgetError> {
    let mut gone = BTreeMap::new();
    if last_asked(log)? == Seq(0) && !log.has_destroyed_keys() {
        return Ok(gone);
    }
    log.try_scan::<ReadError>(Seq(1), None, |entry| {
        match entry.tag {
            codec::FORGOTTEN | codec::SUMMARY_PRODUCED => {}
            _ => return Ok(ControlFlow::Continue(())),
        }
        match entry.event()? {
            Event::Forgotten(fact) => gone.extend(
                fact.summaries.into_iter().map(|one| (one.summary_id.clone(), (one, entry.at))),
            ),
            Event::SummaryProduced { summary, .. } if !log.is_forgotten(entry.seq) => {
                gone.remove(&summary.summary_id);
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(gone)
}

/// The first fact of the last forgetting; zero when nothing was ever forgotten here. A copy of a log does not know.
pub(crate) fn last_asked(log: &Reader) -> Result<Seq, ForgetError> {
    Ok(cursor(log, BEGUN)?.applied)
}

/// Whether a body of the last forgetting could be read again: an older file of keys was put in its place.
pub(crate) fn can_be_read_again(log: &Reader) -> Result<bool, ForgetError> {
    let can = match log.event(last_asked(log)?)? {
        Some(Event::Forgotten(fact)) => fact.bodies.iter().any(|seq| !log.is_forgotten(*seq)),
        _ => false,
    };
    if can {
        tracing::warn!(
            "the keys are older than the log: they open again what was forgotten; it is forgotten once more"
        );
    }
    Ok(can)
}

fn waits(open: &Open) -> bool {
    matches!(open.row.status, Status::Waiting | Status::Backoff)
}

/// The requests that wait and name what goes, and have no words of their own, each with the number of its line.
pub(crate) fn waiting_for(
    engine: &Engine,
    wanted: &Wanted,
    found: &Traces,
) -> Result<Vec<(Seq, u64)>, ReadError> {
    let named = wanted.as_requested();
    let is_gone = |part: &str| named.contains(part) || found.summaries.contains_key(part);
    let log = engine.log();
    let open = engine.state().open_from(Seq(0)).filter(|(_, open)| waits(open));
    let mut waiting = Vec::new();
    for seq in open.map(|(seq, _)| seq).collect::<Vec<_>>() {
        let Some(event) = log.event(seq)? else { continue };
        let Some(taken) = event.taken().filter(|_| !event.has_line_beside()) else { continue };
        if has_part(&taken.line, is_gone) {
            waiting.push((seq, taken.head.line));
        }
    }
    Ok(waiting)
}

/// Ends the requests that wait and whose lines are gone, or that name what is gone. Returns whether there were any; those
/// that waited for one of them may be next.
pub(crate) fn end_waiting(
    engine: &mut Engine,
    wanted: &Wanted,
    now: Timestamp,
) -> Result<bool, EngineError> {
    while engine.settle(now)? {}
    let log = engine.log().clone();
    let naming = waiting_for(engine, wanted, &Traces::default())?;
    let naming: HashSet<Seq> = naming.into_iter().map(|(seq, _)| seq).collect();
    let open = engine.state().open_from(Seq(0));
    let gone =
        open.filter(|(seq, open)| waits(open) && (log.is_forgotten(*seq) || naming.contains(seq)));
    let gone: Vec<(Seq, u32)> = gone.map(|(seq, open)| (seq, open.row.attempts + 1)).collect();
    for (request, attempt) in &gone {
        let (request, attempt) = (*request, *attempt);
        let why = if naming.contains(&request) { SOURCE_GONE } else { PARAMETERS_GONE };
        engine.record(Event::AttemptStarted { request, attempt }, now)?;
        let (reason, cause, error) = (None, None, None);
        let (message, input) = (why.to_owned(), Box::default());
        let failed = Failed { again: RetryHint::Never, reason, cause, message, input, error };
        let (epoch, outcome) = (engine.state().epoch(), Outcome::Failed(failed));
        engine.report(Report { request, attempt, epoch, outcome }, now)?;
    }
    Ok(!gone.is_empty())
}

/// Everything that is shown of the log was made anew.
pub fn finish(engine: &mut Engine, now: Timestamp) -> Result<(), ForgetError> {
    let done = Cursor { applied: engine.log().head().0, bytes: 0 };
    // Nothing else may have changed, and the mark must be kept all the same.
    engine.commit(None, CheckpointWhen::Always, &[(DONE, done)], now)?;
    Ok(())
}
