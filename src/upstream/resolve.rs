//! From the input of a request to the exact, ordered, hashed text that is summarized.
//!
//! Contract: same input and same upstream give the same [`Resolved`], byte for byte. Ids given in
//! a request or found by a query are put in canonical order (events by time and place, sessions by
//! start and id, chunks by document, position and id); a selection manifest may ask for its own.
//! Sources without text stay in their place and are counted as skipped. `primary_ids` is what the
//! summary id is made of.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono_tz::Tz;
use serde_json::{Value, json};

use super::defect::{Defect, ResolveError, too_much};
use super::family::Family;
use super::index::Section;
use super::query::{Query, QueryResult};
use super::record::ChunkOrder;
use super::selection::{self, Roots, Selection, SelectionOrder};
use super::selection_items::compare;
use super::source::{RESOLVE_IDS_MAX, Source, Sources, UpstreamRef};
use super::sources::{
    Gathered, OrderedSession, Versions, chunk_order, found, is_summary_id, plain_id,
};
use super::text::{NORMALIZATION_NAME, NORMALIZATION_VERSION, SourceTextHasher};
use super::view::{CHANGED_WHILE_READ, Hit, Upstream};
use crate::contract::hash::Digest;
use crate::contract::publish;
use crate::contract::request::Input;
use crate::contract::time::Day;
use crate::contract::vocabulary::{
    AckStatus, Bus, ErrorClass, ReasonCode, Stream, SummaryKind, Warning, Warnings,
};
use crate::facts::failure::ErrorDetails;
use crate::facts::note::{DaysMissing, InputNote};

/// Times a request starts over when upstream changes under it, before it is put off.
const RACES_MAX: usize = 4;

/// Where the input of a request is.
#[derive(Debug, Clone, PartialEq)]
pub enum InputSpec {
    /// These ids on this bus.
    Ids {
        bus: Bus,
        /// The ids, byte for byte.
        ids: Vec<String>,
    },
    SelectionManifest {
        /// Its path, relative to the bus home or absolute in an allowed root.
        path: String,
        /// The hash the request expects in it.
        hash: String,
    },
    /// A `summary_request_query.v1`.
    Query { bus: Bus, query: Value },
}

impl InputSpec {
    /// The input that a request names.
    pub fn of(input: &Input) -> InputSpec {
        match input {
            Input::Ids { bus, ids } => InputSpec::Ids { bus: *bus, ids: ids.clone() },
            Input::SelectionManifest { path, hash } => {
                InputSpec::SelectionManifest { path: path.clone(), hash: hash.clone() }
            }
            Input::Query { bus, query } => InputSpec::Query { bus: *bus, query: query.to_value() },
        }
    }
}

/// What the flow and the configuration allow.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// An event without other text may be summarized by its title.
    pub title_as_text: bool,
    /// Where selection manifests may lie.
    pub roots: Roots,
    /// The zone of days of files; UTC when absent.
    pub zone: Option<Tz>,
}

/// What all sources have in common, copied, never invented.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Common {
    /// The first title there is.
    pub title: Option<String>,
    /// The conversation, when there is only one.
    pub conversation_id: Option<String>,
    /// The project, when there is only one.
    pub project: Option<String>,
    /// Labels of the sessions, in order, each once.
    pub labels: Vec<String>,
    /// The zone that the sessions name, when it is the same for all.
    pub timezone: Option<String>,
    /// What upstream says about showing it; one no decides.
    pub publish: Option<bool>,
    /// Earliest source time.
    pub start_ms: Option<i64>,
    /// Latest source time.
    pub end_ms: Option<i64>,
}

/// The input of one request, ready to be summarized.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// What was asked for.
    pub kind: SummaryKind,
    /// The bus the ids belong to.
    pub bus: Bus,
    /// The stream the summary goes to.
    pub stream: Stream,
    /// The text, in order.
    pub sources: Sources,
    /// All sessions, in order.
    pub session_ids: Vec<String>,
    /// The partition of each of them.
    pub(crate) session_partitions: Vec<String>,
    /// All documents, in order.
    pub document_ids: Vec<String>,
    /// The `selection` object of the summary.
    pub selection: Value,
    /// The anchor of what was summarized.
    pub source_text_hash: Digest,
    /// What was read, by data path.
    pub upstream: Vec<UpstreamRef>,
    /// The selection manifest, when there was one.
    pub selection_manifest: Option<Selection>,
    /// Days of the range that are not published.
    pub missing_days: Vec<Day>,
    /// Upstream days of the primary sources, sorted; empty without dates.
    pub days: Vec<Day>,
    /// Characters of all texts.
    pub chars: u64,
    /// Sources that have text.
    pub used: u64,
    /// Sources left out of the summary, by reason.
    pub skip_reasons: BTreeMap<String, u64>,
    /// Why the request is skipped, when its sources have no text to summarize.
    pub skip: Option<ReasonCode>,
    /// Warnings for the ack.
    pub warnings: Warnings,
    /// Warnings for the run record.
    pub notes: Vec<InputNote>,
    /// Documents that files have now, where a source is of an earlier content.
    pub(crate) later: Vec<String>,
    /// What the sources have in common.
    pub common: Common,
    /// Of several sessions: the place of the first message of each, and the title or id of the session.
    pub(crate) session_begins: Vec<(usize, String)>,
    /// The sessions that say that they are private.
    pub(crate) private_sessions: Vec<String>,
}

impl Resolved {
    /// What keeps it from being shown to others where no source of it says so: its selection, a session.
    pub(crate) fn private_whole(&self) -> Option<String> {
        if self.common.publish != Some(false) {
            return None;
        }
        let of_selection =
            self.selection_manifest.as_ref().filter(|one| one.publish == Some(false));
        of_selection
            .map(|one| one.path.clone())
            .or_else(|| self.session_ids.first().cloned())
            .or_else(|| self.sources.ids().first().map(|id| (*id).to_owned()))
    }

    /// The latest upstream day, which is the summary's unless the request says otherwise.
    pub fn day(&self) -> Option<Day> {
        self.days.last().copied()
    }

    /// What the summary id is made of.
    pub fn primary_ids(&self) -> Vec<&str> {
        match self.bus {
            Bus::SessionBus => borrowed(&self.session_ids),
            Bus::ChunkBus if self.stream == Stream::Documents => borrowed(&self.document_ids),
            _ => self.sources.ids(),
        }
    }

    /// `source_ids` of the summary.
    pub fn source_ids(&self) -> Vec<&str> {
        let mut ids = self.primary_ids();
        if self.bus == Bus::SessionBus {
            ids.truncate(1);
        }
        ids
    }

    /// All events of its sessions, in order.
    pub fn event_ids(&self) -> Vec<&str> {
        if self.bus == Bus::SessionBus { self.sources.ids() } else { Vec::new() }
    }

    /// All chunks, in order.
    pub fn chunk_ids(&self) -> Vec<&str> {
        if self.bus == Bus::ChunkBus { self.sources.ids() } else { Vec::new() }
    }

    /// Hands over every source with its text, in order. Where the texts are many they are read
    /// again, and it is an error when they are not what was hashed any more.
    pub fn each_text(
        &self,
        upstream: &Upstream,
        take: &mut dyn FnMut(Source<'_>, &str),
    ) -> Result<(), Defect> {
        let mut hasher = SourceTextHasher::new();
        let title = self.selection["title_as_text"] == true;
        self.sources.each_text(upstream, title, &mut |source, text| {
            hasher.push(source.id, text);
            take(source, text);
        })?;
        if hasher.finish() == self.source_text_hash {
            return Ok(());
        }
        let error = std::io::Error::other("its texts changed meanwhile");
        let storage = Defect::storage("read", self.bus.as_str(), &error);
        Err(Defect { subtype: CHANGED_WHILE_READ.to_owned(), ..storage })
    }

    /// Forgets the texts that are held: they can be read again.
    pub(crate) fn drop_texts(&mut self) {
        self.sources.drop_texts();
    }
}

fn borrowed(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}

/// Resolves the input of a request.
pub fn resolve(
    upstream: &Upstream,
    input: &InputSpec,
    kind: SummaryKind,
    options: &Options,
) -> Result<Resolved, ResolveError> {
    let mut outcome = resolve_once(upstream, input, kind, options);
    for _ in 1..RACES_MAX {
        match &outcome {
            Err(error) if error.subtype == CHANGED_WHILE_READ => {}
            _ => break,
        }
        outcome = resolve_once(upstream, input, kind, options);
    }
    outcome
}

fn resolve_once(
    upstream: &Upstream,
    input: &InputSpec,
    kind: SummaryKind,
    options: &Options,
) -> Result<Resolved, ResolveError> {
    let located = locate(upstream, input, kind, options)?;
    if !kind.fits(located.bus) {
        return Err(kind_bus_mismatch(kind, located.bus));
    }
    let gathered = Gathered { zone: options.zone, ..Gathered::default() };
    let mut work = Work { upstream, kind, options, located, gathered };
    Ok(work.run()?)
}

/// The ids of a request before anything was looked up.
struct Located<'a> {
    bus: Bus,
    ids: Cow<'a, [String]>,
    prefer: Vec<String>,
    ordering: SelectionOrder,
    selection: Option<Selection>,
    warnings: Warnings,
    /// What a query, or the upstream of an empty selection, found.
    found: QueryResult,
}

fn locate<'a>(
    upstream: &Upstream,
    input: &'a InputSpec,
    kind: SummaryKind,
    options: &Options,
) -> Result<Located<'a>, ResolveError> {
    let plain = |bus, ids| Located {
        bus,
        ids,
        prefer: Vec::new(),
        ordering: SelectionOrder::ByTime,
        selection: None,
        warnings: Warnings::default(),
        found: QueryResult::default(),
    };
    let mut located = match input {
        InputSpec::Ids { bus, ids } => plain(*bus, Cow::Borrowed(ids)),
        InputSpec::Query { bus, query } => {
            // Report a misfit before the scan, which is expensive.
            if !kind.fits(*bus) {
                return Err(kind_bus_mismatch(kind, *bus));
            }
            let zone = options.zone.unwrap_or(Tz::UTC);
            let mut found = Query::parse(*bus, query)?.run(upstream, *bus, zone)?;
            let mut located = plain(*bus, std::mem::take(&mut found.ids).into());
            if let Some(missing) = DaysMissing::of(*bus, &found.missing) {
                located.warnings = located.warnings.with(Warning::UpstreamDaysMissing);
                found.notes.push(InputNote::DaysMissing(missing));
            }
            located.found = found;
            located
        }
        InputSpec::SelectionManifest { path, hash } => {
            let bus = default_bus(kind);
            let mut selection = selection::load(upstream, &options.roots, path, hash, bus)?;
            let mut located = plain(selection.bus, std::mem::take(&mut selection.ids).into());
            located.prefer = std::mem::take(&mut selection.partitions);
            located.ordering = selection.ordering;
            if let Some(family) = Family::of(selection.bus).filter(|_| located.ids.is_empty()) {
                // An empty selection has no ids, so its day follows from the partitions it was made over.
                for name in &selection.made_over {
                    located.found.read.push(upstream.partition(family, name)?);
                }
            }
            if selection.foreign {
                located.warnings = located.warnings.with(Warning::ForeignSelectionManifest);
            }
            if let Some(missing) = DaysMissing::of(selection.bus, &selection.missing) {
                located.warnings = located.warnings.with(Warning::UpstreamDaysMissing);
                located.found.notes.push(InputNote::DaysMissing(missing));
                located.found.missing.clone_from(&selection.missing);
            }
            located.selection = Some(selection);
            located
        }
    };
    if once(&mut located.ids) {
        located.warnings = located.warnings.with(Warning::RepeatedIds);
    }
    if located.ids.len() > RESOLVE_IDS_MAX {
        return Err(too_much(format!("{} ids", located.ids.len())).into());
    }
    Ok(located)
}

/// Keeps the first of each id; tells whether there were others.
fn once(ids: &mut Cow<'_, [String]>) -> bool {
    let mut order: Vec<u32> = (0..).take(ids.len()).collect();
    order.sort_unstable_by_key(|at| (&ids[*at as usize], *at));
    let same = |pair: &[u32]| ids[pair[0] as usize] == ids[pair[1] as usize];
    let mut repeated: Vec<u32> = order.windows(2).filter(|pair| same(pair)).map(|p| p[1]).collect();
    if repeated.is_empty() {
        return false;
    }
    repeated.sort_unstable();
    let mut at = 0;
    ids.to_mut().retain(|_| {
        at += 1;
        repeated.binary_search(&(at - 1)).is_err()
    });
    true
}

fn default_bus(kind: SummaryKind) -> Bus {
    match kind {
        SummaryKind::EventSummary => Bus::EventBus,
        SummaryKind::SessionSummary => Bus::SessionBus,
        SummaryKind::DocumentSummary | SummaryKind::ChunkSetSummary => Bus::ChunkBus,
        SummaryKind::Other => Bus::Other,
    }
}

struct Work<'a> {
    upstream: &'a Upstream,
    kind: SummaryKind,
    options: &'a Options,
    located: Located<'a>,
    gathered: Gathered,
}

/// What differs from stream to stream.
#[derive(Default)]
struct Shape {
    selection_type: &'static str,
    session_ids: Vec<String>,
    document_ids: Vec<String>,
    partitions: Vec<String>,
    extra: Vec<(&'static str, Value)>,
    common: Common,
    session_begins: Vec<(usize, String)>,
    private_sessions: Vec<String>,
}

impl Work<'_> {
    fn run(&mut self) -> Result<Resolved, Defect> {
        let stream = self.kind.stream(self.located.bus);
        let shape = match self.located.bus {
            Bus::EventBus => self.events()?,
            Bus::SessionBus => self.sessions()?,
            Bus::ChunkBus if stream == Stream::Documents => self.documents()?,
            Bus::ChunkBus => self.chunk_set()?,
            Bus::Other => self.other()?,
        };
        self.finish(stream, shape)
    }

    fn events(&mut self) -> Result<Shape, Defect> {
        let ids = borrowed(&self.located.ids);
        let title = self.options.title_as_text;
        let (prefer, versions) = (&self.located.prefer, Versions::Newest);
        self.gathered.events(self.upstream, &ids, prefer, title, versions)?;
        let sources = &mut self.gathered.sources;
        match self.located.ordering {
            SelectionOrder::ByTime => sources.rows_mut(0).by_time(),
            SelectionOrder::ById => sources.rows_mut(0).by_id(),
            SelectionOrder::AsListed => {}
        }
        Ok(Shape {
            selection_type: if sources.len() == 1 { "single_event" } else { "event_slice" },
            partitions: partitions_of(sources),
            common: common(sources),
            ..Shape::default()
        })
    }

    fn sessions(&mut self) -> Result<Shape, Defect> {
        let ids = borrowed(&self.located.ids);
        let mut sessions = self.gathered.sessions(self.upstream, &ids, &self.located.prefer)?;
        match self.located.ordering {
            SelectionOrder::ByTime => {
                sessions.sort_by(|a, b| (a.start_ms, &a.id).cmp(&(b.start_ms, &b.id)))
            }
            SelectionOrder::ById => sessions.sort_by(|a, b| a.id.cmp(&b.id)),
            SelectionOrder::AsListed => {}
        }
        let mut seen = std::collections::HashSet::new();
        let title = self.options.title_as_text;
        let mut session_begins = Vec::new();
        for session in &sessions {
            if sessions.len() > 1 {
                let name = session.title.as_ref().unwrap_or(&session.id);
                session_begins.push((self.gathered.sources.len(), name.clone()));
            }
            self.gathered.session_events(self.upstream, session, title, &mut seen)?;
        }
        let private = sessions.iter().filter(|session| session.publish == Some(false));
        let private_sessions = private.map(|session| session.id.clone()).collect();
        let common = common_of_sessions(&sessions, &self.gathered.sources);
        let session_ids: Vec<String> = sessions.iter().map(|session| session.id.clone()).collect();
        let several = session_ids.len() > 1;
        Ok(Shape {
            selection_type: if several { "session_slice" } else { "session_full" },
            partitions: sessions.into_iter().map(|session| session.partition).collect(),
            extra: vec![("session_ids", json!(session_ids))],
            common,
            session_ids,
            session_begins,
            private_sessions,
            ..Shape::default()
        })
    }

    fn documents(&mut self) -> Result<Shape, Defect> {
        let hits = self.chunk_hits(Section::Wholes)?;
        let rules = self.read_chunks(hits)?;
        let chosen = &self.gathered.sources;
        let document_ids = distinct(chosen.iter().filter_map(|one| one.document_id));
        let ids = borrowed(&document_ids);
        let whole = found(self.upstream, Family::Chunks, Section::Wholes, &ids, &[])?;
        let total: usize = whole.iter().map(|hit| hit.places.len()).sum();
        let full = total == chosen.len();
        Ok(Shape {
            selection_type: if full { "document_full" } else { "document_slice" },
            partitions: partitions_of(chosen),
            extra: vec![("chunk_order", json!(rules)), ("chunks_total", json!(total))],
            common: of_documents(common(chosen), chosen),
            document_ids,
            ..Shape::default()
        })
    }

    fn chunk_set(&mut self) -> Result<Shape, Defect> {
        let hits = self.chunk_hits(Section::Records)?;
        let rules = self.read_chunks(hits)?;
        let chosen = &self.gathered.sources;
        let document_ids = distinct(chosen.iter().filter_map(|one| one.document_id));
        let selection_type = match (&self.located.selection, document_ids.len()) {
            (Some(_), _) => "selection_manifest",
            (None, 1) => "document_subset",
            (None, _) => "chunk_set",
        };
        Ok(Shape {
            selection_type,
            partitions: partitions_of(chosen),
            extra: vec![("chunk_order", json!(rules))],
            common: of_documents(common(chosen), chosen),
            document_ids,
            ..Shape::default()
        })
    }

    /// Every id as document or chunk, whichever the kind of summary prefers.
    fn chunk_hits(&self, first: Section) -> Result<Vec<Hit>, Defect> {
        let second = match first {
            Section::Records => Section::Wholes,
            Section::Wholes => Section::Records,
        };
        let ids = borrowed(&self.located.ids);
        let prefer = &self.located.prefer;
        let mut hits = self.upstream.find(Family::Chunks, first, &ids, prefer)?;
        let open: Vec<usize> = (0..hits.len()).filter(|index| hits[*index].is_none()).collect();
        if !open.is_empty() {
            let left: Vec<&str> = open.iter().map(|index| ids[*index]).collect();
            let rest = found(self.upstream, Family::Chunks, second, &left, prefer)?;
            for (index, hit) in open.into_iter().zip(rest) {
                hits[index] = Some(hit);
            }
        }
        Ok(hits.into_iter().flatten().collect())
    }

    fn read_chunks(&mut self, hits: Vec<Hit>) -> Result<Vec<&'static str>, Defect> {
        let positions = self.gathered.chunks(self.upstream, &hits)?;
        let sources = &mut self.gathered.sources;
        let (order, rules) = chunk_order(sources, &positions);
        match self.located.ordering {
            // Documents expand in their own order; what was listed chunk by chunk stays so.
            SelectionOrder::AsListed if hits.iter().all(|hit| hit.places.len() == 1) => {}
            SelectionOrder::ById => sources.rows_mut(0).by_id(),
            SelectionOrder::ByTime | SelectionOrder::AsListed => {
                let mut places = vec![0; order.len()];
                order.iter().enumerate().for_each(|(place, at)| places[*at] = place);
                sources.rows_mut(0).to(places);
            }
        }
        let rules: std::collections::BTreeSet<ChunkOrder> = rules.into_iter().collect();
        Ok(rules.into_iter().map(ChunkOrder::as_str).collect())
    }

    fn other(&mut self) -> Result<Shape, Defect> {
        let ids = borrowed(&self.located.ids);
        if self.located.ordering == SelectionOrder::AsListed {
            self.gathered.other(self.upstream, &ids)?;
        } else {
            // Summaries by time, then files by path, each list in its own order.
            let (summaries, mut files): (Vec<&str>, Vec<&str>) =
                ids.into_iter().partition(|id| is_summary_id(id));
            self.gathered.other(self.upstream, &summaries)?;
            self.gathered.sources.rows_mut(0).by_time();
            let first = self.gathered.sources.len();
            files.sort_unstable_by(|a, b| plain_id(a).cmp(plain_id(b)));
            self.gathered.other(self.upstream, &files)?;
            self.gathered.sources.rows_mut(first).by_place();
            if self.located.ordering == SelectionOrder::ById {
                self.gathered.sources.rows_mut(0).by_id();
            }
        }
        let sources = &self.gathered.sources;
        Ok(Shape {
            selection_type: "document_full",
            document_ids: sources.ids().into_iter().map(str::to_owned).collect(),
            // The days of summaries; plain files have none.
            partitions: partitions_of(sources),
            extra: vec![("anchor", json!("other"))],
            common: common(sources),
            ..Shape::default()
        })
    }

    fn finish(&mut self, stream: Stream, shape: Shape) -> Result<Resolved, Defect> {
        let sources = std::mem::take(&mut self.gathered.sources);
        let (mut hasher, mut chars) = (SourceTextHasher::new(), 0);
        sources.each_text(self.upstream, self.options.title_as_text, &mut |source, text| {
            hasher.push(source.id, text);
            chars += text.chars().count() as u64;
        })?;
        let hash = hasher.finish();

        let used = sources.iter().filter(|source| source.text_bytes > 0).count() as u64;
        let skipped = sources.len() as u64 - used;
        let mut skip_reasons = BTreeMap::new();
        if skipped > 0 {
            skip_reasons.insert("empty_content".to_owned(), skipped);
        }
        let skip = match (used, self.located.ids.is_empty()) {
            (_, true) => Some(ReasonCode::SkippedEmptySelection),
            (0, false) => Some(ReasonCode::SkippedEmptyContent),
            _ => None,
        };
        let is_empty = self.located.ids.is_empty();
        let read = std::mem::take(&mut self.located.found.read);
        for partition in read.iter().filter(|_| is_empty) {
            self.gathered.note(partition);
        }
        if let Some(selection) = &self.located.selection {
            let sessions = shape.session_ids.iter().zip(&shape.partitions);
            let zone = self.options.zone.unwrap_or(Tz::UTC);
            compare(self.upstream, selection, &sources, &self.gathered.replaced, sessions, zone)?;
        }
        let upstream: Vec<UpstreamRef> =
            std::mem::take(&mut self.gathered.upstream).into_values().collect();
        let mut notes = std::mem::take(&mut self.gathered.notes);
        notes.extend(upstream.iter().flat_map(UpstreamRef::notes));
        notes.append(&mut self.located.found.notes);
        // A query without matches is about the days it read, and one of files about those it asked.
        let read = read.iter().filter(|_| is_empty).map(|one| one.manifest.partition.as_str());
        let names = shape.partitions.iter().map(String::as_str).chain(read);
        let mut days: Vec<Day> = names.filter_map(|name| name.parse().ok()).collect();
        if days.is_empty() {
            days.extend(self.located.found.last);
        }
        days.sort();
        days.dedup();
        let of_selection = self.located.selection.as_ref().and_then(|one| one.publish);
        let publish = publish::together([shape.common.publish, of_selection]);
        Ok(Resolved {
            kind: self.kind,
            bus: self.located.bus,
            stream,
            selection: self.selection(&shape, hash, sources.len() as u64, used, &skip_reasons),
            sources,
            session_partitions: match shape.session_ids.is_empty() {
                true => Vec::new(),
                false => shape.partitions,
            },
            session_ids: shape.session_ids,
            document_ids: shape.document_ids,
            source_text_hash: hash,
            upstream,
            selection_manifest: self.located.selection.take(),
            missing_days: std::mem::take(&mut self.located.found.missing),
            days,
            chars,
            used,
            skip_reasons,
            skip,
            warnings: self.located.warnings,
            notes,
            later: std::mem::take(&mut self.gathered.later).into_iter().collect(),
            common: Common { publish, ..shape.common },
            session_begins: shape.session_begins,
            private_sessions: shape.private_sessions,
        })
    }

    fn selection(
        &self,
        shape: &Shape,
        hash: Digest,
        sources: u64,
        used: u64,
        skip_reasons: &BTreeMap<String, u64>,
    ) -> Value {
        let mut selection = json!({
            "selection_type": shape.selection_type,
            "source_text_hash": hash.hex(),
            "normalization": {"name": NORMALIZATION_NAME, "version": NORMALIZATION_VERSION},
            "counts": {"sources": sources, "used": used, "skipped": sources - used},
            "skip_reasons": skip_reasons,
        });
        for (key, value) in &shape.extra {
            selection[*key] = value.clone();
        }
        if let Some(manifest) = &self.located.selection {
            selection["selection_hash"] = json!(manifest.hash);
            selection["selection_manifest_path"] = json!(manifest.path);
        }
        let missing = &self.located.found.missing;
        if !missing.is_empty() {
            let days = missing.iter().take(DaysMissing::LISTED_MAX);
            selection["missing_days"] = days.map(Day::to_string).collect();
            selection["missing_days_count"] = missing.len().into();
        }
        if self.options.title_as_text {
            // A program that recomputes the hash must know that titles are part of the text.
            selection["title_as_text"] = json!(true);
        }
        selection
    }
}

/// The partitions of sources, each once.
fn partitions_of(sources: &Sources) -> Vec<String> {
    let names: std::collections::BTreeSet<&str> =
        sources.iter().map(|source| source.partition).collect();
    names.into_iter().map(str::to_owned).collect()
}

fn distinct<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    ids.filter(|id| seen.insert(*id)).map(str::to_owned).collect()
}

/// The chunks of a list have the titles of its items, and not the title of the document.
fn of_documents(common: Common, sources: &Sources) -> Common {
    let title = only(sources.iter().map(|source| source.title));
    Common { title, ..common }
}

fn common(sources: &Sources) -> Common {
    let times = || sources.iter().filter_map(|source| source.time_ms);
    Common {
        title: sources.iter().find_map(|source| source.title).map(str::to_owned),
        conversation_id: only(sources.iter().map(|source| source.conversation_id)),
        project: None,
        labels: Vec::new(),
        timezone: None,
        publish: publish::together(sources.iter().map(|source| source.publish)),
        start_ms: times().min(),
        end_ms: times().max(),
    }
}

fn common_of_sessions(sessions: &[OrderedSession], sources: &Sources) -> Common {
    let events = common(sources);
    // 0 stands for an unknown time.
    let known = |ms: i64| (ms > 0).then_some(ms);
    let conversation = only(sessions.iter().map(|session| session.conversation_id.as_deref()));
    // The title of one message, such as the call of a tool, is not that of the session.
    let shared = || only(sources.iter().map(|source| source.title));
    Common {
        title: title_of_sessions(sessions).or_else(shared),
        conversation_id: conversation.or(events.conversation_id),
        project: only(sessions.iter().map(|session| session.project.as_deref())),
        labels: distinct(sessions.iter().flat_map(|session| &session.labels).map(String::as_str)),
        timezone: only(sessions.iter().map(|session| session.timezone.as_deref())),
        publish: publish::together(sessions.iter().map(|one| one.publish).chain([events.publish])),
        start_ms: sessions.iter().filter_map(|one| known(one.start_ms)).min().or(events.start_ms),
        end_ms: sessions.iter().filter_map(|one| known(one.end_ms)).max().or(events.end_ms),
    }
}

/// The title of a session; of several sessions that of the first, and how many more there are.
fn title_of_sessions(sessions: &[OrderedSession]) -> Option<String> {
    let mut known = sessions.iter().filter_map(|session| session.title.as_deref());
    let first = known.next()?;
    let is_shared = sessions.iter().all(|session| session.title.as_deref() == Some(first));
    match sessions.len() {
        count if count > 1 && !is_shared => Some(format!("{first} and {} more", count - 1)),
        _ => Some(first.to_owned()),
    }
}

/// The one value all have, if they all have it.
pub(crate) fn only<'a>(mut values: impl Iterator<Item = Option<&'a str>>) -> Option<String> {
    let first = values.next()??;
    values.all(|value| value == Some(first)).then(|| first.to_owned())
}

fn kind_bus_mismatch(kind: SummaryKind, bus: Bus) -> ResolveError {
    let message = format!("{kind} cannot be made from {bus}");
    ResolveError {
        status: AckStatus::RejectedInvalidInput,
        reason_code: ReasonCode::KindBusMismatch,
        class: ErrorClass::SchemaMismatch,
        subtype: "KIND_BUS_MISMATCH".to_owned(),
        details: ErrorDetails::Schema {
            artifact_family: bus.as_str().to_owned(),
            schema_version_seen: None,
            schema_version_supported: Vec::new(),
            validation_error_summary: message.clone(),
            sample_evidence: "input.bus".to_owned(),
        },
        message,
    }
}
