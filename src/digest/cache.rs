//! What a build knows by heart: the library, the catalog and which bags are in place, in a file
//! beside the log, so that the next process reads only what is new.
//!
//! Contract. All of it follows from the log and the disk and may be deleted at any time. It is
//! believed only where the log holds, at the position it was kept for, the record it was kept with:
//! beside another log, one that was lost and made again, or one that ends earlier, the log is read
//! from its beginning. The cache file seals every row, so a damaged one costs time and never makes a
//! wrong bag. A bag counts as in place while its files are the ones that were looked at.
//!
//! The library is kept in segments that only grow: a new one for what came, merged with the ones
//! before it when those are not much larger, so one new summary writes a few dozen bytes.
//!
//! See docs/adr/0046-digest-cache.md.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::catalog::Catalog;
use super::library::{Library, Share};
use super::parallel::in_parallel;
use super::project::ProjectRules;
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::log::{Cache, LogStamp, Reader};
use crate::os::Disk;

/// Layout of the file; a file of another layout is made anew.
const LAYOUT: &str = "digest.v5";
/// Version of what is kept; data of another version is read from the log again.
const REDUCER: u32 = 3;
/// The head of the library.
const LIBRARY: &str = "digest.library";
const CATALOG: &str = "digest.catalog";
/// Events that are cheaper to read again than the catalog is to write.
const READ_AGAIN: u64 = 4096;

/// Bags in place, by their folder, each with a hash over the names and versions of its files as they
/// were when their content was compared with the log.
pub(crate) type InPlace = BTreeMap<String, String>;

/// Some units in the order of the log, with the words that were new in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Segment {
    begin: Share,
    units: usize,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
struct LibraryHead {
    mark: LogStamp,
    fields: BTreeSet<String>,
    rules: ProjectRules,
    malformed: Vec<Seq>,
    segments: Vec<Segment>,
}

#[derive(Serialize, Deserialize)]
struct CatalogPart<'a> {
    mark: LogStamp,
    catalog: Cow<'a, Catalog>,
    in_place: Cow<'a, InPlace>,
}

/// The file; without one nothing is kept and everything is read.
pub struct Kept {
    cache: Option<Cache>,
    log: Reader,
    segments: Vec<Segment>,
    /// Where the library stood when it was kept last.
    library_to: Share,
    /// Where the catalog stood when it was kept last.
    catalog_to: Seq,
}

impl Kept {
    /// Opens the file beside a log. One that cannot be had is done without.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path, log: &Reader) -> Kept {
        let cache = match Cache::open(disk, path, LAYOUT) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::info!(%error, "what digests are made of is read from the log each time");
                None
            }
        };
        let (library_to, catalog_to) = (Share::default(), Seq::ZERO);
        Kept { cache, log: log.clone(), segments: Vec::new(), library_to, catalog_to }
    }

    /// The bytes under a key, when they are what was put there.
    fn get(&self, key: &str, hash: &str) -> Option<Vec<u8>> {
        let bytes = self.cache.as_ref()?.get(key).ok()??;
        (sha256(&bytes).hex() == hash).then_some(bytes)
    }

    fn get_row(&self, key: &str) -> Option<Vec<u8>> {
        self.cache.as_ref()?.get(key).ok()?
    }

    fn stamp(&self, seq: Seq) -> Option<LogStamp> {
        LogStamp::of(&self.log, seq, REDUCER).ok()?
    }

    fn holds(&self, mark: &LogStamp) -> bool {
        mark.holds(&self.log, REDUCER).unwrap_or(false)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> bool {
        let Some(cache) = &self.cache else { return false };
        let put = cache.change([(key, Some(bytes))]);
        if let Err(error) = &put {
            tracing::warn!(%error, "what digests are made of will be read from the log again");
        }
        put.is_ok()
    }

    /// The library as it was kept, when it knows these fields of `meta` and has these rules.
    pub fn library(
        &mut self,
        fields: &BTreeSet<String>,
        rules: &ProjectRules,
        threads: usize,
    ) -> Option<Library> {
        self.segments.clear();
        self.library_to = Share::default();
        let head = self.get_row(LIBRARY)?;
        let head: LibraryHead = serde_json::from_slice(&head).ok()?;
        if !fields.is_subset(&head.fields) || head.rules != *rules || !self.holds(&head.mark) {
            return None;
        }
        let places: Vec<(usize, &Segment)> = head.segments.iter().enumerate().collect();
        let parts = in_parallel(&places, threads, |(place, segment)| {
            self.get(&segment_key(*place), &segment.sha256)
        });
        let mut library = Library::with_rules(head.fields, head.rules);
        for (segment, part) in head.segments.iter().zip(parts) {
            if library.restore(&segment.begin, &part?)? != segment.units {
                return None;
            }
        }
        library.restored(head.mark.seq, head.malformed);
        self.library_to = library.share();
        self.segments = head.segments;
        Some(library)
    }

    /// Keeps what the library has more than what was kept.
    pub fn keep_library(&mut self, library: &Library) {
        let to = library.share();
        if to.seq == self.library_to.seq || self.cache.is_none() {
            return;
        }
        let known: usize = self.segments.iter().map(|segment| segment.units).sum();
        let mut units = library.units().len().saturating_sub(known);
        let mut segments = std::mem::take(&mut self.segments);
        if units > 0 {
            let mut begin = std::mem::take(&mut self.library_to);
            // Segments that are not much larger than what comes are written again with it.
            while let Some(last) = segments.pop_if(|last| last.units <= 2 * units) {
                units += last.units;
                begin = last.begin;
            }
            let bytes = library.since(&begin);
            let key = segment_key(segments.len());
            segments.push(Segment { begin, units, sha256: sha256(&bytes).hex() });
            if !self.put(&key, &bytes) {
                return;
            }
        }
        let Some(mark) = self.stamp(to.seq) else { return };
        let (fields, malformed) = (library.fields().clone(), library.malformed().to_vec());
        let rules = library.rules().clone();
        let head = LibraryHead { mark, fields, rules, malformed, segments };
        let kept = serde_json::to_vec(&head).is_ok_and(|text| self.put(LIBRARY, &text));
        if kept {
            self.library_to = to;
            self.segments = head.segments;
        }
    }

    /// The catalog as it was kept, and the bags that were in place then.
    pub fn catalog(&mut self) -> Option<(Catalog, InPlace)> {
        let part = self.get_row(CATALOG)?;
        let part: CatalogPart<'_> = serde_json::from_slice(&part).ok()?;
        if !self.holds(&part.mark) || part.mark.seq != part.catalog.read_to() {
            return None;
        }
        self.catalog_to = part.mark.seq;
        let mut catalog = part.catalog.into_owned();
        catalog.restored();
        Some((catalog, part.in_place.into_owned()))
    }

    /// Keeps the catalog. One that hardly moved is only kept when bags `changed`.
    pub fn keep_catalog(&mut self, catalog: &Catalog, in_place: &InPlace, changed: bool) {
        let to = catalog.read_to();
        let moved = to.0.saturating_sub(self.catalog_to.0);
        if self.cache.is_none() || (!changed && moved < READ_AGAIN) {
            return;
        }
        let Some(mark) = self.stamp(to) else { return };
        let (catalog, in_place) = (Cow::Borrowed(catalog), Cow::Borrowed(in_place));
        let part = CatalogPart { mark, catalog, in_place };
        if serde_json::to_vec(&part).is_ok_and(|text| self.put(CATALOG, &text)) {
            self.catalog_to = to;
        }
    }
}

fn segment_key(place: usize) -> String {
    format!("digest.library.{place}")
}
