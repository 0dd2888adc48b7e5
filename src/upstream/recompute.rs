//! The source text hash again, from nothing but ids and upstream: what a checker does.

use super::beneath;
use super::defect::Defect;
use super::family::Family;
use super::index::Section;
use super::lines::read_range;
use super::other::{Content, OtherFiles, absent, conversation_of, parts_of};
use super::record::{ChunkRecord, EventRecord};
use super::source::{Source, Sources};
use super::sources::{Gathered, Versions, found, is_summary_id, plain_id, summary_text};
use super::text::{SourceTextHasher, normalize};
use super::view::Upstream;
use serde_json::{Map, Value};

use crate::contract::hash::Digest;
use crate::contract::vocabulary::{Bus, ReasonCode, Stream};

/// The bus whose records carry the texts of a stream.
pub fn bus_of(stream: Stream, plain_files: bool) -> Bus {
    match stream {
        _ if plain_files => Bus::Other,
        Stream::Events | Stream::Sessions => Bus::EventBus,
        Stream::Documents | Stream::ChunkSets => Bus::ChunkBus,
    }
}

/// Hashes the texts behind `ids`, in that order.
pub fn source_text_hash(
    upstream: &Upstream,
    bus: Bus,
    ids: &[&str],
    title_as_text: bool,
) -> Result<Digest, Defect> {
    let sources = sources_of(upstream, bus, ids, title_as_text)?;
    let mut hasher = SourceTextHasher::new();
    let mut push = |source: Source<'_>, text: &str| hasher.push(source.id, text);
    sources.each_text(upstream, title_as_text, &mut push)?;
    Ok(hasher.finish())
}

/// Where the sources behind `ids` lie, in that order.
pub(crate) fn sources_of(
    upstream: &Upstream,
    bus: Bus,
    ids: &[&str],
    title_as_text: bool,
) -> Result<Sources, Defect> {
    let mut gathered = Gathered::default();
    match bus {
        Bus::EventBus => gathered.events(upstream, ids, &[], title_as_text, Versions::Named)?,
        Bus::Other => gathered.other(upstream, ids)?,
        Bus::ChunkBus | Bus::SessionBus => {
            let hits = found(upstream, Family::Chunks, Section::Records, ids, &[])?;
            drop(gathered.chunks(upstream, &hits)?);
        }
    }
    Ok(gathered.sources)
}

/// Where the text of one source was when it was read.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The family of its file; none for a plain file.
    pub family: Option<Family>,
    pub id: &'a str,
    /// The file, relative to the bus home.
    pub file: &'a str,
    /// First byte of the record.
    pub offset: u64,
    /// Bytes of the record.
    pub len: u64,
    /// Whether a title counts as text.
    pub title_as_text: bool,
}

/// What is at a place now.
pub(crate) struct ReadText {
    pub text: String,
    /// The record, or the whole plain file.
    pub record: Vec<u8>,
    /// Whether it is a whole plain file.
    pub is_file: bool,
    /// What a message of a file says beside its text.
    pub message: Option<Map<String, Value>>,
}

/// Reads one source from where it was, without looking it up.
pub(crate) fn text_at(
    upstream: &Upstream,
    files: &mut OtherFiles,
    at: &Place<'_>,
) -> Result<ReadText, Defect> {
    let storage = |error| Defect::storage("read", at.file, &error);
    let Some(family) = at.family else { return plain_at(upstream, files, at) };
    let gone = || storage(std::io::ErrorKind::NotFound.into());
    let file = beneath::open(upstream.disk(), upstream.root(), at.file)?.ok_or_else(gone)?;
    let record = read_range(file.as_ref(), at.offset, at.len as usize).map_err(storage)?;
    let another = |what: String| {
        let message = format!("{} at byte {}: {what}", at.file, at.offset);
        let none = (None, None);
        Defect::integrity(family.mismatch_subtype(), "", none, (None, None), message)
            .with_reason(ReasonCode::ManifestMismatch)
    };
    let (id, text) = match family {
        Family::Chunks => {
            let chunk =
                ChunkRecord::parse(&record).map_err(|error| another(format!("{error:?}")))?;
            (chunk.chunk_id.0.into_owned(), normalize(&chunk.text.0).into_owned())
        }
        Family::Events | Family::Sessions | Family::Summaries(_) => {
            let event =
                EventRecord::parse(&record).map_err(|error| another(format!("{error:?}")))?;
            let text = match event.own_text(at.title_as_text) {
                Some(text) => text,
                None => Gathered::default().pointed_text(upstream, &event)?.0,
            };
            (event.event_id.0.into_owned(), text)
        }
    };
    if id != at.id {
        return Err(another(format!("the record is {id} and not {}", at.id)));
    }
    Ok(ReadText { text, record, is_file: false, message: None })
}

/// Reads a source of the bus `other`. A summary is looked up by its id: the file of its day grows.
fn plain_at(
    upstream: &Upstream,
    files: &mut OtherFiles,
    at: &Place<'_>,
) -> Result<ReadText, Defect> {
    if is_summary_id(at.id) {
        let (text, line) = summary_text(upstream, at.id)?;
        return Ok(ReadText { text, record: line, is_file: false, message: None });
    }
    let (path, key) = parts_of(plain_id(at.id));
    let read = files.read(upstream.disk(), upstream.root(), path)?;
    let gone = || absent(at.id);
    match (&read.content, key) {
        (Content::Document(document), None) => {
            let file = upstream.root().join(&read.path);
            let record = upstream.disk().read(&file);
            let record = record.map_err(|error| Defect::storage("read", &read.path, &error))?;
            let text = normalize(&document.text).into_owned();
            Ok(ReadText { text, record, is_file: true, message: None })
        }
        (Content::Items(items), Some(key)) => {
            let item = items.get(key).ok_or_else(gone)?;
            let record = items.raw(key).ok_or_else(gone)?.as_bytes().to_vec();
            let text = normalize(&item.record.text).into_owned();
            let members = item.record.members;
            let message = conversation_of(at.id, &members).is_some().then_some(members);
            Ok(ReadText { text, record, is_file: false, message })
        }
        _ => Err(gone()),
    }
}

/// The line of a summary that was an input, as it is now. `None` for any other input.
pub(crate) fn summary_line(upstream: &Upstream, path: &str) -> Option<Result<Vec<u8>, Defect>> {
    let (_, id) = path.rsplit_once('#').filter(|(_, id)| is_summary_id(id))?;
    Some(summary_text(upstream, id).map(|(_, line)| line))
}

/// Those of `ids` that no readable event has.
pub(crate) fn unknown_events<'a>(
    upstream: &Upstream,
    ids: &[&'a str],
    prefer: &[String],
) -> Result<Vec<&'a str>, Defect> {
    let hits = upstream.find(Family::Events, Section::Records, ids, prefer)?;
    let open = ids.iter().zip(hits).filter(|(_, hit)| hit.is_none());
    Ok(open.map(|(id, _)| *id).collect())
}
