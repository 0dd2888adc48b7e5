//! The source text hash again, from nothing but ids and upstream: what a checker does.

use super::defect::Defect;
use super::family::Family;
use super::index::Section;
use super::sources::{Gathered, found};
use super::text::SourceTextHasher;
use super::view::Upstream;
use crate::contract::hash::Digest;
use crate::contract::vocabulary::{Bus, Stream};

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
    let mut gathered = Gathered::default();
    let sources = match bus {
        Bus::EventBus => gathered.events(upstream, ids, &[], title_as_text)?,
        Bus::Other => gathered.other(upstream, ids)?,
        Bus::ChunkBus | Bus::SessionBus => {
            let hits = found(upstream, Family::Chunks, Section::Records, ids, &[])?;
            let chunks = gathered.chunks(upstream, &hits)?;
            chunks.into_iter().map(|chunk| chunk.source).collect()
        }
    };
    let mut hasher = SourceTextHasher::new();
    sources.iter().for_each(|source| hasher.push(&source.id, &source.text));
    Ok(hasher.finish())
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
