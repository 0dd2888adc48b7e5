//! Ids become sources: the records behind them, read by byte range, with their normalized text.
//!
//! See docs/adr/0085-summaries-as-sources.md.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::dated::with_day;
use super::defect::{Defect, too_much};
use super::family::Family;
use super::index::{IdKey, RecordAt, Section, file_key};
use super::moment::Moment;
use super::other::{Content, Items, OTHER_DIR, OtherFile, OtherFiles, absent, parts_of};
use super::partition::bad_record;
use super::record::{
    BadRecord, ChunkOrder, ChunkRecord, EventRecord, SessionRecord, SummaryRecord, version_of,
};
use super::source::{RESOLVE_IDS_MAX, Source, SourceFile, Sources, UpstreamRef};
use super::text::normalize;
use super::view::{Hit, Partition, Upstream};
use chrono_tz::Tz;
use serde_json::{Map, Value};

use crate::contract::hash::{Digest, sha256};
use crate::contract::json::exact;
use crate::contract::publish;
use crate::contract::time::Day;
use crate::contract::vocabulary::{Bus, ReasonCode, Stream};
use crate::facts::failure::ErrorDetails;
use crate::facts::note::InputNote;
use crate::markup::members::{TITLES, named};
use crate::os::DiskFile;

/// Everything that was read for one request.
#[derive(Default)]
pub(super) struct Gathered {
    pub sources: Sources,
    pub upstream: BTreeMap<String, UpstreamRef>,
    /// Warnings for the run record.
    pub notes: Vec<InputNote>,
    /// Documents that files have now, where a chunk is of an earlier content.
    pub later: BTreeSet<String>,
    /// Ids that were asked for, by those of the newer versions that stand in their places.
    pub replaced: BTreeMap<String, String>,
    /// The zone of clock times without an offset; UTC when absent.
    pub zone: Option<Tz>,
}

/// A session with the place it takes among others.
pub(super) struct OrderedSession {
    pub id: String,
    pub start_ms: i64,
    pub end_ms: i64,
    pub partition: String,
    pub event_ids: Vec<String>,
    pub title: Option<String>,
    pub conversation_id: Option<String>,
    pub project: Option<String>,
    pub labels: Vec<String>,
    pub timezone: Option<String>,
    pub publish: Option<bool>,
    input_day: Option<String>,
    input_anchor: Option<String>,
}

/// Files a reader keeps open.
const OPEN_MAX: usize = 64;

/// Reads records. Callers go through them partition by partition, so that each is opened once.
struct Reader<'a> {
    upstream: &'a Upstream,
    open: BTreeMap<String, Arc<dyn DiskFile>>,
    others: OtherFiles,
}

impl<'a> Reader<'a> {
    fn new(upstream: &'a Upstream) -> Reader<'a> {
        Reader { upstream, open: BTreeMap::new(), others: OtherFiles::default() }
    }

    /// A plain file, or one item of a list in it: its text, and what it says beside.
    fn plain(&mut self, source_id: &str) -> Result<(String, Map<String, Value>), Defect> {
        let (path, key) = parts_of(plain_id(source_id));
        let file = self.others.read(self.upstream.disk(), self.upstream.root(), path)?;
        match (&file.content, key) {
            (Content::Document(document), None) => {
                let mut members = with_day(document.members.clone(), document.date.as_deref());
                if let Some(title) = &document.title {
                    members.insert("title".to_owned(), title.as_str().into());
                }
                Ok((document.text.clone(), members))
            }
            (Content::Items(items), Some(key)) => {
                let item = items.get(key).ok_or_else(|| absent(source_id))?;
                let members = with_day(item.record.members, item.date.as_deref());
                Ok((item.record.text, members))
            }
            _ => Err(absent(source_id)),
        }
    }

    fn read(&mut self, partition: &Partition, at: RecordAt) -> Result<Vec<u8>, Defect> {
        let path = &partition.manifest.data_path;
        if let Some(file) = self.open.get(path) {
            return self.upstream.read(file.as_ref(), partition, at);
        }
        if self.open.len() >= OPEN_MAX {
            self.open.clear();
        }
        let file = self.upstream.open(partition)?;
        let line = self.upstream.read(file.as_ref(), partition, at)?;
        self.open.insert(path.clone(), file);
        Ok(line)
    }
}

/// A source of a partition, without what only its record knows.
fn blank<'a>(id: &'a str, at: RecordAt) -> Source<'a> {
    Source {
        id,
        text_bytes: 0,
        // These three are those of its file.
        bus: Bus::Other,
        file: "",
        partition: "",
        line: u64::from(at.line),
        offset: at.offset,
        len: u64::from(at.len),
        title: None,
        conversation_id: None,
        document_id: None,
        time_ms: None,
        index_id: None,
        publish: None,
    }
}

impl Sources {
    fn file_of(&mut self, partition: &Partition) -> u32 {
        let manifest = &partition.manifest;
        self.shared_file(&manifest.data_path, || SourceFile {
            bus: manifest.family.bus(),
            path: manifest.data_path.as_str().into(),
            name: manifest.partition.as_str().into(),
            partition: Some(partition.clone()),
        })
    }

    /// Hands over every source with its text, in order, one text in memory at a time unless all
    /// are held.
    pub(super) fn each_text(
        &self,
        upstream: &Upstream,
        title_allowed: bool,
        take: &mut dyn FnMut(Source<'_>, &str),
    ) -> Result<(), Defect> {
        let mut reader = Reader::new(upstream);
        for (source, text) in self.texts() {
            match text {
                Ok(text) => take(source, text),
                Err(file) => {
                    let text = text_again(&mut reader, &source, file, title_allowed)?;
                    take(source, &text);
                }
            }
        }
        Ok(())
    }
}

impl Sources {
    /// Hands over every source with its record, in order, one record in memory at a time. The record
    /// of a file is what its reader finds in it beside the text.
    pub(super) fn each_record(
        &self,
        upstream: &Upstream,
        take: &mut dyn FnMut(Source<'_>, &Value),
    ) -> Result<(), Defect> {
        let mut reader = Reader::new(upstream);
        for (source, file) in self.places() {
            let Some(partition) = &file.partition else {
                let (_, members) = reader.plain(source.id)?;
                take(source, &Value::Object(members));
                continue;
            };
            let (offset, len) = (source.offset, source.len as u32);
            let at = RecordAt { offset, len, line: source.line as u32 };
            let line = reader.read(partition, at)?;
            // An id beyond 64 bits stays the text that it is.
            let record = match std::str::from_utf8(&line) {
                Ok(text) => exact(text),
                Err(_) => serde_json::from_slice(&line),
            };
            let record: Value = record.map_err(|error| {
                bad_record(&partition.manifest, source.line, BadRecord::from(error))
            })?;
            take(source, &record);
        }
        Ok(())
    }
}

/// A text that was read before and is not held.
fn text_again(
    reader: &mut Reader<'_>,
    source: &Source<'_>,
    file: &SourceFile,
    title_allowed: bool,
) -> Result<String, Defect> {
    let upstream = reader.upstream;
    let Some(partition) = &file.partition else {
        return Ok(normalize(&reader.plain(source.id)?.0).into_owned());
    };
    let at = RecordAt { offset: source.offset, len: source.len as u32, line: source.line as u32 };
    let line = reader.read(partition, at)?;
    match partition.manifest.family {
        Family::Chunks => {
            return Ok(normalize(&chunk(partition, at, &line)?.text.0).into_owned());
        }
        Family::Summaries(stream) => {
            let summary = summary(partition, at, &line, stream)?;
            return Ok(normalize(&summary.outputs.summary_text.0).into_owned());
        }
        Family::Events | Family::Sessions => {}
    }
    let event = event(partition, at, &line)?;
    match event.own_text(title_allowed) {
        Some(text) => Ok(text),
        None => Ok(Gathered::default().pointed_text(upstream, &event)?.0),
    }
}

/// Which version of an event an id stands for, when its source changed or got a mark later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Versions {
    /// The one that has the id.
    Named,
    /// The one that was imported last.
    Newest,
}

/// Puts the newest version of its partition in the place of each event, the last one there, and leaves out those that
/// then stand twice. A version of another day, of an item of a feed that got another date, stands for itself. Returns
/// the ids that were asked for, by those that stand in their places.
fn newest(
    reader: &mut Reader<'_>,
    hits: &mut Vec<Hit>,
) -> Result<BTreeMap<String, String>, Defect> {
    let mut replaced = BTreeMap::new();
    for hit in hits.iter_mut().filter(|hit| hit.partition.index.has_wholes()) {
        let line = reader.read(&hit.partition, hit.places[0])?;
        let asked = event(&hit.partition, hit.places[0], &line)?.event_id.0.into_owned();
        let first = version_of(&line).unwrap_or_else(|| asked.clone());
        let last = reader.upstream.last_part(&hit.partition, &first)?;
        if let Some((partition, last)) = last.filter(|(_, at)| at.offset > hit.places[0].offset) {
            let line = reader.read(&partition, last)?;
            let id = event(&partition, last, &line)?.event_id.0.into_owned();
            *hit = Hit { partition, places: [last].into() };
            replaced.insert(id, asked);
        }
    }
    if !replaced.is_empty() {
        let mut seen = HashSet::new();
        let place = |hit: &Hit| (hit.partition.manifest.data_path.clone(), hit.places[0].offset);
        hits.retain(|hit| seen.insert(place(hit)));
    }
    Ok(replaced)
}

impl Gathered {
    /// Puts events by id after what is there, in the order of the ids, each once.
    pub(super) fn events(
        &mut self,
        upstream: &Upstream,
        ids: &[&str],
        prefer: &[String],
        title_allowed: bool,
        versions: Versions,
    ) -> Result<(), Defect> {
        let mut hits = found(upstream, Family::Events, Section::Records, ids, prefer)?;
        let mut reader = Reader::new(upstream);
        if versions == Versions::Newest {
            self.replaced.extend(newest(&mut reader, &mut hits)?);
        }
        // As they lie on disk, whatever the order of the ids.
        let mut order: Vec<usize> = (0..hits.len()).collect();
        order.sort_unstable_by_key(|index| {
            let hit = &hits[*index];
            (&hit.partition.manifest.data_path, hit.places[0].offset)
        });
        let first = self.sources.len();
        self.sources.rows_expected(order.len());
        for index in &order {
            let hit = &hits[*index];
            let at = hit.places[0];
            let line = reader.read(&hit.partition, at)?;
            let event = event(&hit.partition, at, &line)?;
            let (text, pointed) = match event.own_text(title_allowed) {
                Some(text) => (text, None),
                None => self.pointed_text(upstream, &event)?,
            };
            let (title, conversation) = (event.title(), event.conversation_id());
            let source = Source {
                title: title.as_deref(),
                conversation_id: conversation.as_deref(),
                time_ms: Some(event.timestamp_ms),
                publish: publish::together([publish::said_in_line(&line), pointed]),
                ..blank(&event.event_id.0, at)
            };
            let file = self.sources.file_of(&hit.partition);
            self.sources.push(file, &source, &text)?;
            self.note(&hit.partition);
        }
        drop(hits);
        self.sources.rows_mut(first).to(order);
        Ok(())
    }

    /// The text of the chunks an event points to, one blank line between them, and what they say
    /// about being shown.
    pub(crate) fn pointed_text(
        &mut self,
        upstream: &Upstream,
        event: &EventRecord<'_>,
    ) -> Result<(String, Option<bool>), Defect> {
        let pointers = event.chunk_pointers();
        if pointers.is_empty() {
            return Ok((String::new(), None));
        }
        let ids: Vec<&str> = pointers.iter().map(String::as_str).collect();
        let hits = found(upstream, Family::Chunks, Section::Records, &ids, &[])?;
        let mut reader = Reader::new(upstream);
        let (mut texts, mut flags) = (Vec::new(), Vec::new());
        for hit in &hits {
            let line = reader.read(&hit.partition, hit.places[0])?;
            let chunk = chunk(&hit.partition, hit.places[0], &line)?;
            flags.push(publish::said_in_line(&line));
            self.note_later(&mut reader, &hit.partition, &chunk)?;
            texts.push(chunk.text.0.into_owned());
            self.note(&hit.partition);
        }
        Ok((normalize(&texts.join("\n\n")).into_owned(), publish::together(flags)))
    }

    /// Notes the document that the file of a chunk has now. What it says of privacy counts for the earlier ones.
    fn note_later(
        &mut self,
        reader: &mut Reader<'_>,
        partition: &Partition,
        of: &ChunkRecord<'_>,
    ) -> Result<(), Defect> {
        let Some(uri) = of.source_uri() else { return Ok(()) };
        let last = reader.upstream.last_part(partition, &file_key(&uri))?;
        let Some((partition, last)) = last else { return Ok(()) };
        let line = reader.read(&partition, last)?;
        let document = chunk(&partition, last, &line)?.document_id.0.into_owned();
        if document != of.document_id.0 {
            self.later.insert(document);
        }
        Ok(())
    }

    /// Sessions by id, in canonical order: by start, then id.
    pub(super) fn sessions(
        &mut self,
        upstream: &Upstream,
        ids: &[&str],
        prefer: &[String],
    ) -> Result<Vec<OrderedSession>, Defect> {
        let hits = found(upstream, Family::Sessions, Section::Records, ids, prefer)?;
        let mut reader = Reader::new(upstream);
        let mut sessions = Vec::with_capacity(ids.len());
        for hit in &hits {
            let manifest = &hit.partition.manifest;
            let line = reader.read(&hit.partition, hit.places[0])?;
            let session = SessionRecord::parse(&line, &manifest.partition)
                .map_err(|error| bad_record(manifest, u64::from(hit.places[0].line), error))?;
            sessions.push(OrderedSession {
                id: session.session_id.0.clone().into_owned(),
                start_ms: session.window.start_ts_ms,
                end_ms: session.window.end_ts_ms,
                partition: manifest.partition.clone(),
                title: session.title().map(str::to_owned),
                conversation_id: session.conversation_id().map(str::to_owned),
                project: session.project().map(str::to_owned),
                labels: session.labels(),
                timezone: session.window.timezone.clone(),
                publish: publish::said_in_line(&line),
                input_day: session.input_day().map(str::to_owned),
                input_anchor: session.input_anchor().map(str::to_owned),
                event_ids: session.event_ids,
            });
            self.note(&hit.partition);
        }
        for session in &sessions {
            self.check_anchor(upstream, session);
        }
        Ok(sessions)
    }

    /// Whether the events of a session are still those it was cut from: it names them by the hash
    /// of their manifest, or of the data, as its producer understood the field. That they changed
    /// since is worth a warning and no more: the ids are what counts.
    fn check_anchor(&mut self, upstream: &Upstream, session: &OrderedSession) {
        let (Some(day), Some(anchor)) = (&session.input_day, &session.input_anchor) else { return };
        let Ok(events) = upstream.known(Family::Events, day) else { return };
        let anchor = anchor.parse::<Digest>().ok();
        let known = [events.manifest.sha256, events.manifest.data_sha256];
        if !anchor.is_some_and(|anchor| known.contains(&anchor)) {
            let path = Family::Sessions.data_path(&session.partition);
            let session = session.id.clone();
            self.notes.push(InputNote::SessionCutFromOtherEvents { path, session });
        }
    }

    /// Puts the events of one session after what is there, by time, those that are there already left
    /// out. Events of one moment come in the order of the session. They are looked for first around its
    /// day, on both sides of midnight.
    pub(crate) fn session_events(
        &mut self,
        upstream: &Upstream,
        session: &OrderedSession,
        title_allowed: bool,
        seen: &mut HashSet<IdKey>,
    ) -> Result<(), Defect> {
        let mut named = HashSet::new();
        let ids: Vec<&str> = session.event_ids.iter().map(String::as_str).collect();
        let ids: Vec<&str> = ids.into_iter().filter(|id| named.insert(*id)).collect();
        let prefer = days_around(session);
        let first = self.sources.len();
        let events = self.events(upstream, &ids, &prefer, title_allowed, Versions::Newest);
        events.map_err(|defect| dangling(upstream, session, defect))?;
        self.sources.retain_from(first, |id| seen.insert(IdKey::of(id)));
        self.sources.rows_mut(first).by_time_alone();
        Ok(())
    }

    fn zone(&self) -> Tz {
        self.zone.unwrap_or(Tz::UTC)
    }

    /// Puts chunks after what is there, in the order of the places, each once, and gives the
    /// positions they state.
    pub(super) fn chunks(
        &mut self,
        upstream: &Upstream,
        hits: &[Hit],
    ) -> Result<Vec<[Option<i64>; 3]>, Defect> {
        let mut reader = Reader::new(upstream);
        let zone = self.zone();
        let mut positions = Vec::new();
        let mut seen = HashSet::new();
        for hit in hits {
            for at in &hit.places {
                let line = reader.read(&hit.partition, *at)?;
                let record = chunk(&hit.partition, *at, &line)?;
                if !seen.insert(IdKey::of(&record.chunk_id.0)) {
                    continue;
                }
                self.note_later(&mut reader, &hit.partition, &record)?;
                let source = Source {
                    title: record.title(),
                    document_id: Some(&record.document_id.0),
                    index_id: record.index_id(),
                    time_ms: record
                        .metadata
                        .as_object()
                        .and_then(|members| time_of(members, None, zone)),
                    publish: publish::said_in_line(&line),
                    ..blank(&record.chunk_id.0, *at)
                };
                let file = self.sources.file_of(&hit.partition);
                self.sources.push(file, &source, &normalize(&record.text.0))?;
                positions.push(record.positions());
            }
            self.note(&hit.partition);
        }
        Ok(positions)
    }

    /// Puts sources of the bus `other` after what is there, in the order of the ids, each once: plain
    /// files, items of lists, and summaries of our own. The name of a list stands for all its items.
    pub(super) fn other(&mut self, upstream: &Upstream, ids: &[&str]) -> Result<(), Defect> {
        let (mut reader, mut seen) = (Reader::new(upstream), HashSet::new());
        let groups = ids.chunk_by(|a, b| is_summary_id(a) == is_summary_id(b));
        for group in groups {
            if group.first().is_some_and(|id| is_summary_id(id)) {
                self.summaries(upstream, group, &mut seen)?;
                continue;
            }
            for id in group {
                self.plain(&mut reader, plain_id(id), &mut seen)?;
            }
        }
        Ok(())
    }

    fn plain(
        &mut self,
        reader: &mut Reader<'_>,
        id: &str,
        seen: &mut HashSet<IdKey>,
    ) -> Result<(), Defect> {
        let (path, key) = parts_of(id);
        let (upstream, zone) = (reader.upstream, self.zone());
        let read = reader.others.read(upstream.disk(), upstream.root(), path)?;
        if !self.upstream.contains_key(&read.path) {
            self.upstream.insert(read.path.clone(), plain_ref(read));
        }
        let file = self.sources.next_file(&read.path, || SourceFile {
            bus: Bus::Other,
            path: read.path.as_str().into(),
            name: "other".into(),
            partition: None,
        });
        let items = match (&read.content, key) {
            (Content::Document(document), None) => {
                let source_id = format!("other:{path}");
                if !seen.insert(IdKey::of(&source_id)) {
                    return Ok(());
                }
                let source = Source {
                    title: document.title.as_deref(),
                    document_id: Some(&source_id),
                    time_ms: time_of(&document.members, document.date.as_deref(), zone),
                    publish: document.publish,
                    len: read.bytes,
                    ..blank(&source_id, RecordAt { offset: 0, len: 0, line: 1 })
                };
                return self.sources.push(file, &source, &normalize(&document.text));
            }
            (Content::Document(_), Some(_)) => return Err(absent(id)),
            (Content::Items(items), _) => items,
        };
        let keys = match key {
            None => items.keys(),
            Some(key) => items.named(key).ok_or_else(|| no_item(path, key, items))?,
        };
        for key in keys {
            let source_id = format!("other:{path}#{key}");
            if !seen.insert(IdKey::of(&source_id)) {
                continue;
            }
            let item = items.get(key).ok_or_else(|| no_item(path, key, items))?;
            let title = named(&item.record.members, TITLES).find_map(Value::as_str);
            let source = Source {
                title: title.map(str::trim).filter(|title| !title.is_empty()),
                document_id: Some(&source_id),
                time_ms: time_of(&item.record.members, item.date.as_deref(), zone),
                publish: item.publish,
                line: item.line,
                offset: item.offset,
                len: item.len,
                ..blank(&source_id, RecordAt { offset: 0, len: 0, line: 1 })
            };
            self.sources.push(file, &source, &normalize(&item.record.text))?;
            if self.sources.len() > RESOLVE_IDS_MAX {
                return Err(too_much(format!("more than {RESOLVE_IDS_MAX} sources")));
            }
        }
        Ok(())
    }

    /// Puts summaries of our own Summary Bus. A summary never changes, and the file of its day grows:
    /// what is recorded is the hash of its line.
    fn summaries(
        &mut self,
        upstream: &Upstream,
        ids: &[&str],
        seen: &mut HashSet<IdKey>,
    ) -> Result<(), Defect> {
        let mut reader = Reader::new(upstream);
        for hit in found_summaries(upstream, ids)? {
            let (at, manifest) = (hit.places[0], &hit.partition.manifest);
            let Family::Summaries(stream) = manifest.family else { continue };
            let line = reader.read(&hit.partition, at)?;
            let summary = summary(&hit.partition, at, &line, stream)?;
            let id = summary.summary_id.0.as_ref();
            if !seen.insert(IdKey::of(id)) {
                continue;
            }
            let source = Source {
                title: summary.title.as_ref().map(AsRef::as_ref),
                document_id: Some(id),
                time_ms: summary.ts_abs_ms,
                publish: publish::said_in_line(&line),
                ..blank(id, at)
            };
            let file = self.sources.file_of(&hit.partition);
            self.sources.push(file, &source, &normalize(&summary.outputs.summary_text.0))?;
            let path = format!("{}#{id}", manifest.data_path);
            self.upstream.insert(path.clone(), summary_ref(path, &line, stream));
        }
        Ok(())
    }

    pub(super) fn note(&mut self, partition: &Partition) {
        let manifest = &partition.manifest;
        if self.upstream.contains_key(&manifest.data_path) {
            return;
        }
        self.upstream.insert(
            manifest.data_path.clone(),
            UpstreamRef {
                bus: manifest.family.bus(),
                partition: manifest.partition.clone(),
                manifest_path: Some(manifest.path.clone()),
                manifest_sha256: Some(manifest.sha256),
                data_path: manifest.data_path.clone(),
                data_sha256: manifest.data_sha256,
                data_bytes: manifest.bytes.unwrap_or_default(),
                schema_version: Some(manifest.family.bus_schema_version().to_owned()),
                appended: partition.index.appended,
            },
        );
    }
}

/// The canonical order of chunks: by document, position and id. A document uses the first rule
/// that gives all its chunks a position. Gives which chunk comes when, and the rules used, in
/// order of documents.
pub(super) fn chunk_order(
    chunks: &Sources,
    positions: &[[Option<i64>; 3]],
) -> (Vec<usize>, Vec<ChunkOrder>) {
    let document = |at: usize| chunks.get(at).and_then(|chunk| chunk.document_id);
    let line = |at: usize| chunks.get(at).map(|chunk| chunk.line);
    let id = |at: usize| chunks.get(at).map(|chunk| chunk.id);
    let mut order: Vec<usize> = (0..chunks.len()).collect();
    order.sort_by_key(|at| (document(*at), line(*at)));
    let mut rules = Vec::new();
    for group in order.chunk_by_mut(|a, b| document(*a) == document(*b)) {
        let stated = (0..3).find(|rule| group.iter().all(|at| positions[*at][*rule].is_some()));
        if let Some(rule) = stated {
            group.sort_by_key(|at| (positions[*at][rule], id(*at)));
        }
        rules.push(stated.map_or(ChunkOrder::FileOrder, |rule| ChunkOrder::STATED[rule]));
    }
    (order, rules)
}

/// Finds every id or says why not.
pub(super) fn found(
    upstream: &Upstream,
    family: Family,
    section: Section,
    ids: &[&str],
    prefer: &[String],
) -> Result<Vec<Hit>, Defect> {
    let hits = upstream.find(family, section, ids, prefer)?;
    match hits.iter().position(Option::is_none) {
        Some(absent) => Err(upstream.explain_absence(family, ids[absent])),
        None => Ok(hits.into_iter().flatten().collect()),
    }
}

/// A file of the bus `other` that was read.
fn plain_ref(read: &OtherFile) -> UpstreamRef {
    UpstreamRef {
        bus: Bus::Other,
        partition: "other".to_owned(),
        manifest_path: None,
        manifest_sha256: None,
        data_path: read.path.clone(),
        data_sha256: read.sha256,
        data_bytes: read.bytes,
        schema_version: None,
        appended: false,
    }
}

fn summary_ref(path: String, line: &[u8], stream: Stream) -> UpstreamRef {
    UpstreamRef {
        bus: Bus::Other,
        partition: "other".to_owned(),
        manifest_path: None,
        manifest_sha256: None,
        data_path: path,
        data_sha256: sha256(line),
        data_bytes: line.len() as u64,
        schema_version: Some(stream.item_version().to_owned()),
        appended: false,
    }
}

/// Whether an id of the bus `other` names a summary of our own.
pub(crate) fn is_summary_id(id: &str) -> bool {
    let digits = id.strip_prefix("sum_").unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

pub(super) fn plain_id(id: &str) -> &str {
    id.strip_prefix("other:").unwrap_or(id)
}

fn time_of(members: &Map<String, Value>, day: Option<&str>, zone: Tz) -> Option<i64> {
    let day = || Moment::read(&day?.into(), zone);
    let moment = Moment::of(members, zone).or_else(day);
    moment.map(|moment| moment.event_millis(zone)).filter(|ms| *ms > 0)
}

/// Finds summaries in whichever stream they are.
pub(super) fn found_summaries(upstream: &Upstream, ids: &[&str]) -> Result<Vec<Hit>, Defect> {
    let mut hits: Vec<Option<Hit>> = vec![None; ids.len()];
    for stream in Stream::ALL {
        let open: Vec<usize> = (0..ids.len()).filter(|at| hits[*at].is_none()).collect();
        let left: Vec<&str> = open.iter().map(|at| ids[*at]).collect();
        if left.is_empty() {
            break;
        }
        let found = upstream.find(Family::Summaries(*stream), Section::Records, &left, &[])?;
        for (at, hit) in open.into_iter().zip(found) {
            hits[at] = hit;
        }
    }
    match hits.iter().position(Option::is_none) {
        Some(at) => Err(absent_summary(ids[at])),
        None => Ok(hits.into_iter().flatten().collect()),
    }
}

/// The text of a summary, and its line.
pub(super) fn summary_text(upstream: &Upstream, id: &str) -> Result<(String, Vec<u8>), Defect> {
    let hits = found_summaries(upstream, &[id])?;
    let Some(hit) = hits.first() else { return Err(absent_summary(id)) };
    let (at, family) = (hit.places[0], hit.partition.manifest.family);
    let line = Reader::new(upstream).read(&hit.partition, at)?;
    let Family::Summaries(stream) = family else { return Err(absent_summary(id)) };
    let summary = summary(&hit.partition, at, &line, stream)?;
    let text = normalize(&summary.outputs.summary_text.0).into_owned();
    Ok((text, line))
}

/// Keys that a message about an unknown item lists.
const KEYS_SHOWN: usize = 5;

fn no_item(path: &str, key: &str, items: &Items) -> Defect {
    let mut defect = absent(&format!("{OTHER_DIR}/{path}"));
    let known = items.keys().iter().take(KEYS_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let more = if items.keys().len() > KEYS_SHOWN { ", …" } else { "" };
    defect.message = match known.is_empty() {
        true => format!("{OTHER_DIR}/{path} has no item {key}: its list is empty"),
        false => format!("{OTHER_DIR}/{path} has no item {key}; its items are {known}{more}"),
    };
    if let ErrorDetails::Input { source_id, .. } = &mut defect.details {
        *source_id = Some(format!("other:{path}#{key}"));
    }
    defect
}

fn absent_summary(id: &str) -> Defect {
    let mut defect = absent("summaries");
    defect.message = format!("the Summary Bus of this home holds no {id}");
    if let ErrorDetails::Input { source_id, .. } = &mut defect.details {
        *source_id = Some(id.to_owned());
    }
    defect
}

fn summary<'a>(
    partition: &Partition,
    at: RecordAt,
    line: &'a [u8],
    stream: Stream,
) -> Result<SummaryRecord<'a>, Defect> {
    SummaryRecord::parse(line, stream)
        .map_err(|error| bad_record(&partition.manifest, u64::from(at.line), error))
}

fn event<'a>(
    partition: &Partition,
    at: RecordAt,
    line: &'a [u8],
) -> Result<EventRecord<'a>, Defect> {
    EventRecord::parse(line)
        .map_err(|error| bad_record(&partition.manifest, u64::from(at.line), error))
}

fn chunk<'a>(
    partition: &Partition,
    at: RecordAt,
    line: &'a [u8],
) -> Result<ChunkRecord<'a>, Defect> {
    ChunkRecord::parse(line)
        .map_err(|error| bad_record(&partition.manifest, u64::from(at.line), error))
}

fn days_around(session: &OrderedSession) -> Vec<String> {
    let mut days: Vec<String> = session.input_day.iter().cloned().collect();
    days.push(session.partition.clone());
    if let Ok(Day(day)) = session.partition.parse::<Day>() {
        days.extend(
            [day.pred_opt(), day.succ_opt()].into_iter().flatten().map(|day| Day(day).to_string()),
        );
    }
    days
}

/// A session that names an event that no day has is a broken session, not an unknown request id.
fn dangling(upstream: &Upstream, session: &OrderedSession, defect: Defect) -> Defect {
    if defect.reason != ReasonCode::UnknownSourceId {
        return defect;
    }
    if let Some(day) = &session.input_day
        && upstream.partitions(Family::Events).is_ok_and(|days| !days.contains(day))
    {
        let (path, manifest) = (Family::Events.data_path(day), Family::Events.manifest_path(day));
        let reason = ReasonCode::MissingUpstreamManifest;
        let name = format!("the event day of session {}", session.id);
        return Defect::missing("MISSING_EVENTBUS_RANGE", &name, &path, &manifest, reason);
    }
    let message = format!("session {}: {}", session.id, defect.message);
    let path = Family::Sessions.manifest_path(&session.partition);
    let subtype = "SESSIONS_REFERENCE_UNKNOWN_EVENT_ID";
    Defect::integrity(subtype, &path, (None, None), (None, None), message)
        .with_reason(ReasonCode::UnknownSourceId)
}
