//! The source text hash again, from nothing but ids and upstream: what a checker does.

use super::defect::Defect;
use super::family::Family;
use super::index::Section;
use super::lines::read_range;
use super::other;
use super::record::{ChunkRecord, EventRecord};
use super::source::{Source, Sources};
use super::sources::{Gathered, found};
use super::text::{SourceTextHasher, normalize};
use super::view::Upstream;
use crate::contract::hash::Digest;
use crate::contract::vocabulary::{Bus, ReasonCode, Stream};
use crate::os::Open;

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
pub fn sources_of(
    upstream: &Upstream,
    bus: Bus,
    ids: &[&str],
    title_as_text: bool,
) -> Result<Sources, Defect> {
    let mut gathered = Gathered::default();
    match bus {
        Bus::EventBus => gathered.events(upstream, ids, &[], title_as_text)?,
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
    /// Its id.
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
pub struct ReadText {
    /// The normalized text.
    pub text: String,
    /// The record, or the whole plain file.
    pub record: Vec<u8>,
}

/// Reads one source from where it was, without looking it up.
pub fn text_at(upstream: &Upstream, at: &Place<'_>) -> Result<ReadText, Defect> {
    let storage = |error| Defect::storage("read", at.file, &error);
    let path = upstream.root().join(at.file);
    let Some(family) = at.family else {
        let id = at.id.strip_prefix("other:").unwrap_or(at.id);
        let read = other::read(upstream.disk(), upstream.root(), id)?;
        let record = upstream.disk().read(&path).map_err(storage)?;
        return Ok(ReadText { text: normalize(&read.document.text).into_owned(), record });
    };
    let file = upstream.disk().open(&path, Open::Read).map_err(storage)?;
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
        Family::Events | Family::Sessions => {
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
    Ok(ReadText { text, record })
}

/// Those of `ids` that no readable event has.
pub fn unknown_events<'a>(
    upstream: &Upstream,
    ids: &[&'a str],
    prefer: &[String],
) -> Result<Vec<&'a str>, Defect> {
    let hits = upstream.find(Family::Events, Section::Records, ids, prefer)?;
    let open = ids.iter().zip(hits).filter(|(_, hit)| hit.is_none());
    Ok(open.map(|(id, _)| *id).collect())
}
