//! Ids become sources: the records behind them, read by byte range, with their normalized text.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::defect::Defect;
use super::family::Family;
use super::index::{RecordAt, Section};
use super::other;
use super::partition::bad_record;
use super::record::{ChunkOrder, ChunkRecord, EventRecord, SessionRecord};
use super::resolve::{Source, UpstreamRef};
use super::text::normalize;
use super::view::{Hit, Partition, Upstream};
use crate::contract::hash::Digest;
use crate::contract::publish;
use crate::contract::time::Day;
use crate::contract::vocabulary::{Bus, ReasonCode};
use crate::os::DiskFile;

/// Everything that was read for one request.
#[derive(Default)]
pub(super) struct Gathered {
    pub sources: Vec<Source>,
    pub upstream: BTreeMap<String, UpstreamRef>,
    /// Warnings for the run record.
    pub notes: Vec<String>,
}

/// A session with the place it takes among others.
pub(super) struct Session {
    pub id: String,
    pub start_ms: i64,
    pub end_ms: i64,
    pub partition: String,
    pub event_ids: Vec<String>,
    pub title: Option<String>,
    pub conversation_id: Option<String>,
    pub project: Option<String>,
    pub labels: Vec<String>,
    pub publish: Option<bool>,
    input_day: Option<String>,
    input_anchor: Option<String>,
}

/// Files a reader keeps open.
const OPEN_MAX: usize = 64;

/// Reads records; whoever reads many does it partition by partition, so that each is opened once.
struct Reader<'a> {
    upstream: &'a Upstream,
    open: BTreeMap<String, Opened>,
}

/// A data file, and its names as its sources share them.
struct Opened {
    file: Arc<dyn DiskFile>,
    path: Arc<str>,
    partition: Arc<str>,
}

impl<'a> Reader<'a> {
    fn new(upstream: &'a Upstream) -> Reader<'a> {
        Reader { upstream, open: BTreeMap::new() }
    }

    fn read(&mut self, partition: &Partition, at: RecordAt) -> Result<Vec<u8>, Defect> {
        let file = Arc::clone(&self.opened(partition)?.file);
        self.upstream.read(file.as_ref(), partition, at)
    }

    /// A source without anything but its place.
    fn source(&mut self, partition: &Partition, at: RecordAt) -> Result<Source, Defect> {
        let opened = self.opened(partition)?;
        Ok(Source {
            id: String::new(),
            text: String::new(),
            bus: partition.manifest.family.bus(),
            file: Arc::clone(&opened.path),
            line: u64::from(at.line),
            offset: at.offset,
            len: u64::from(at.len),
            partition: Arc::clone(&opened.partition),
            label: None,
            title: None,
            conversation_id: None,
            document_id: None,
            time_ms: None,
            index_id: None,
            publish: None,
        })
    }

    fn opened(&mut self, partition: &Partition) -> Result<&Opened, Defect> {
        let path = &partition.manifest.data_path;
        if !self.open.contains_key(path) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let opened = Opened {
                file: self.upstream.open(partition)?,
                path: path.as_str().into(),
                partition: partition.manifest.partition.as_str().into(),
            };
            self.open.insert(path.clone(), opened);
        }
        Ok(&self.open[path])
    }
}

impl Gathered {
    /// Events by id, in the order of the ids.
    pub fn events(
        &mut self,
        upstream: &Upstream,
        ids: &[&str],
        prefer: &[String],
        title_allowed: bool,
    ) -> Result<Vec<Source>, Defect> {
        let hits = found(upstream, Family::Events, Section::Records, ids, prefer)?;
        let mut reader = Reader::new(upstream);
        // As they lie on disk, whatever the order of the ids.
        let mut order: Vec<usize> = (0..hits.len()).collect();
        order.sort_unstable_by_key(|index| {
            let hit = &hits[*index];
            (&hit.partition.manifest.data_path, hit.places[0].offset)
        });
        let mut sources = Vec::with_capacity(ids.len());
        for index in order {
            let hit = &hits[index];
            let at = hit.places[0];
            let line = reader.read(&hit.partition, at)?;
            let event = EventRecord::parse(&line)
                .map_err(|error| bad_record(&hit.partition.manifest, u64::from(at.line), error))?;
            let (text, pointed) = match event.own_text(title_allowed) {
                Some(text) => (text, None),
                None => self.pointed_text(upstream, &event)?,
            };
            let mut source = reader.source(&hit.partition, at)?;
            source.publish = publish::together([event.publish(), pointed]);
            source.id = event.event_id.0.clone().into_owned();
            source.text = text;
            source.label = event.label();
            source.title = event.title();
            source.conversation_id = event.conversation_id();
            source.time_ms = Some(event.timestamp_ms);
            sources.push((index, source));
            self.note(&hit.partition);
        }
        sources.sort_unstable_by_key(|(index, _)| *index);
        Ok(sources.into_iter().map(|(_, source)| source).collect())
    }

    /// The text of the chunks an event points to, one blank line between them, and what they say
    /// about being shown.
    pub fn pointed_text(
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
            flags.push(chunk.publish());
            texts.push(chunk.text.0.into_owned());
            self.note(&hit.partition);
        }
        Ok((normalize(&texts.join("\n\n")).into_owned(), publish::together(flags)))
    }

    /// Sessions by id, in canonical order: by start, then id.
    pub fn sessions(
        &mut self,
        upstream: &Upstream,
        ids: &[&str],
        prefer: &[String],
    ) -> Result<Vec<Session>, Defect> {
        let hits = found(upstream, Family::Sessions, Section::Records, ids, prefer)?;
        let mut reader = Reader::new(upstream);
        let mut sessions = Vec::with_capacity(ids.len());
        for hit in &hits {
            let manifest = &hit.partition.manifest;
            let line = reader.read(&hit.partition, hit.places[0])?;
            let session = SessionRecord::parse(&line, &manifest.partition)
                .map_err(|error| bad_record(manifest, u64::from(hit.places[0].line), error))?;
            sessions.push(Session {
                id: session.session_id.0.clone().into_owned(),
                start_ms: session.window.start_ts_ms,
                end_ms: session.window.end_ts_ms,
                partition: manifest.partition.clone(),
                title: session.title().map(str::to_owned),
                conversation_id: session.conversation_id().map(str::to_owned),
                project: session.project().map(str::to_owned),
                labels: session.labels(),
                publish: session.publish(),
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
    fn check_anchor(&mut self, upstream: &Upstream, session: &Session) {
        let (Some(day), Some(anchor)) = (&session.input_day, &session.input_anchor) else { return };
        let Ok(events) = upstream.known(Family::Events, day) else { return };
        let anchor = anchor.parse::<Digest>().ok();
        let known = [events.manifest.sha256, events.manifest.data_sha256];
        if !anchor.is_some_and(|anchor| known.contains(&anchor)) {
            let path = Family::Sessions.data_path(&session.partition);
            self.notes.push(format!("SESSION_CUT_FROM_OTHER_EVENTS: {path}, {}", session.id));
        }
    }

    /// The events of one session, by time then id. They are looked for first around its day, on
    /// both sides of midnight.
    pub fn session_events(
        &mut self,
        upstream: &Upstream,
        session: &Session,
        title_allowed: bool,
    ) -> Result<Vec<Source>, Defect> {
        let mut ids: Vec<&str> = session.event_ids.iter().map(String::as_str).collect();
        ids.sort_unstable();
        ids.dedup();
        let prefer = days_around(session);
        let events = self.events(upstream, &ids, &prefer, title_allowed);
        let mut events = events.map_err(|defect| dangling(session, defect))?;
        by_time(&mut events);
        Ok(events)
    }

    /// Chunks by their own ids, in the order of the ids.
    pub fn chunks(&mut self, upstream: &Upstream, hits: &[Hit]) -> Result<Vec<Chunk>, Defect> {
        let mut reader = Reader::new(upstream);
        let mut chunks = Vec::new();
        for hit in hits {
            for at in &hit.places {
                let line = reader.read(&hit.partition, *at)?;
                let record = chunk(&hit.partition, *at, &line)?;
                let mut source = reader.source(&hit.partition, *at)?;
                source.id = record.chunk_id.0.clone().into_owned();
                source.text = normalize(&record.text.0).into_owned();
                source.title = record.title().map(str::to_owned);
                source.document_id = Some(record.document_id.0.clone().into_owned());
                source.index_id = record.index_id().map(str::to_owned);
                source.publish = record.publish();
                chunks.push(Chunk { positions: record.positions(), source });
            }
            self.note(&hit.partition);
        }
        Ok(chunks)
    }

    /// Files of the bus `other`, by path.
    pub fn other(&mut self, upstream: &Upstream, ids: &[&str]) -> Result<Vec<Source>, Defect> {
        let mut sources = Vec::with_capacity(ids.len());
        let partition: Arc<str> = "other".into();
        for id in ids {
            let id = id.strip_prefix("other:").unwrap_or(id);
            let file = other::read(upstream.disk(), upstream.root(), id)?;
            let source_id = format!("other:{id}");
            self.upstream.insert(
                file.path.clone(),
                UpstreamRef {
                    bus: Bus::Other,
                    partition: "other".to_owned(),
                    manifest_path: None,
                    manifest_sha256: None,
                    data_path: file.path.clone(),
                    data_sha256: file.sha256,
                    data_bytes: file.bytes,
                    schema_version: None,
                    appended: false,
                },
            );
            sources.push(Source {
                text: normalize(&file.text).into_owned(),
                title: file.title,
                document_id: Some(source_id.clone()),
                id: source_id,
                bus: Bus::Other,
                file: file.path.into(),
                line: 1,
                offset: 0,
                len: file.bytes,
                partition: Arc::clone(&partition),
                label: None,
                conversation_id: None,
                time_ms: None,
                index_id: None,
                publish: file.publish,
            });
        }
        Ok(sources)
    }

    fn note(&mut self, partition: &Partition) {
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

/// A chunk with what is needed to put it in order.
pub(super) struct Chunk {
    pub source: Source,
    positions: [Option<i64>; 3],
}

/// Puts chunks in canonical order: by document, position and id. A document uses the first rule
/// that gives all its chunks a position. Returns the rules used, in order of documents.
pub(super) fn order_chunks(chunks: &mut [Chunk]) -> Vec<ChunkOrder> {
    let document = |chunk: &Chunk| chunk.source.document_id.clone().unwrap_or_default();
    chunks.sort_by_cached_key(|chunk| (document(chunk), chunk.source.line));
    let mut rules = Vec::new();
    for group in chunks.chunk_by_mut(|a, b| a.source.document_id == b.source.document_id) {
        let stated = (0..3).find(|rule| group.iter().all(|one| one.positions[*rule].is_some()));
        if let Some(rule) = stated {
            group.sort_by_cached_key(|one| (one.positions[rule], one.source.id.clone()));
        }
        rules.push(stated.map_or(ChunkOrder::FileOrder, |rule| ChunkOrder::STATED[rule]));
    }
    rules
}

/// Sources by time, then id.
pub(super) fn by_time(sources: &mut [Source]) {
    sources.sort_by(|a, b| (a.time_ms, &a.id).cmp(&(b.time_ms, &b.id)));
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
    let mut all = Vec::with_capacity(ids.len());
    for (hit, id) in hits.into_iter().zip(ids) {
        all.push(hit.ok_or_else(|| upstream.explain_absence(family, id))?);
    }
    Ok(all)
}

fn chunk<'a>(
    partition: &Partition,
    at: RecordAt,
    line: &'a [u8],
) -> Result<ChunkRecord<'a>, Defect> {
    ChunkRecord::parse(line)
        .map_err(|error| bad_record(&partition.manifest, u64::from(at.line), error))
}

fn days_around(session: &Session) -> Vec<String> {
    let mut days: Vec<String> = session.input_day.iter().cloned().collect();
    days.push(session.partition.clone());
    if let Ok(Day(day)) = session.partition.parse::<Day>() {
        days.extend(
            [day.pred_opt(), day.succ_opt()].into_iter().flatten().map(|day| Day(day).to_string()),
        );
    }
    days
}

/// A session that names an event nobody has is a broken session, not an unknown request id.
fn dangling(session: &Session, defect: Defect) -> Defect {
    if defect.reason != ReasonCode::UnknownSourceId {
        return defect;
    }
    let message = format!("session {}: {}", session.id, defect.message);
    let path = Family::Sessions.manifest_path(&session.partition);
    let subtype = "SESSIONS_REFERENCE_UNKNOWN_EVENT_ID";
    Defect::integrity(subtype, &path, (None, None), (None, None), message)
        .with_reason(ReasonCode::UnknownSourceId)
}
