//! Cache of digest builds: the library, the catalog and the list of bags in place, in a file beside
//! the log. With it, the next process reads only new events.
//!
//! Contract. The content follows from the log and the disk, so the file may be deleted at any time.
//! Each row names a position of the log and the record there. A row counts only while the log holds
//! that record at that position. Beside another log, a rebuilt log or a shorter log, a build reads
//! the log from its beginning. The cache file seals every row, so a damaged row costs time and never
//! makes a wrong bag. A bag counts as in place while its files are unchanged since they were compared
//! with the log.
//!
//! The library is stored in segments. New summaries make a new segment. It absorbs the segments
//! before it that are not much larger, so one new summary writes a few dozen bytes.
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
use super::standing::SeenPrivate;
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::log::{Cache, LogStamp, Reader};
use crate::os::Disk;

/// Layout of the file. A file of another layout is replaced.
const LAYOUT: &str = "digest.v8";
/// Version of the stored data. Data of another version is read from the log again.
const REDUCER: u32 = 15;
/// The head of the library.
const LIBRARY: &str = "digest.library";
const CATALOG: &str = "digest.catalog";
/// Reading this many events again is cheaper than writing the catalog.
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
    private: Vec<SeenPrivate>,
    segments: Vec<Segment>,
}

#[derive(Serialize, Deserialize)]
struct CatalogPart<'a> {
    mark: LogStamp,
    catalog: Cow<'a, Catalog>,
    in_place: Cow<'a, InPlace>,
}

/// The cache of one home. Without a file, every build reads the whole log.
pub struct DigestCache {
    cache: Option<Cache>,
    log: Reader,
    segments: Vec<Segment>,
    /// How far the stored library goes.
    library_to: Share,
    /// How far the stored catalog goes.
    catalog_to: Seq,
}

impl DigestCache {
    /// Opens the file beside a log. If that fails, the cache stays empty.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path, log: &Reader) -> DigestCache {
        let cache = match Cache::open(disk, path, LAYOUT) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::info!(%error, "the digest cache does not open; each build reads the whole log");
                None
            }
        };
        let (library_to, catalog_to) = (Share::default(), Seq::ZERO);
        DigestCache { cache, log: log.clone(), segments: Vec::new(), library_to, catalog_to }
    }

    /// The bytes of a key, when their hash is the expected one.
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
            tracing::warn!(%error, "the digest cache was not written; the next build reads the log again");
        }
        put.is_ok()
    }

    /// The stored library, if it was made with these fields of `meta` and these rules.
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
        library.restored(head.mark.seq, head.malformed, head.private);
        self.library_to = library.share();
        self.segments = head.segments;
        Some(library)
    }

    /// Writes what is new in the library.
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
            // The new segment absorbs segments of up to twice its size.
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
        let private = library.private().cloned().collect();
        let head = LibraryHead { mark, fields, rules, malformed, private, segments };
        let kept = serde_json::to_vec(&head).is_ok_and(|text| self.put(LIBRARY, &text));
        if kept {
            self.library_to = to;
            self.segments = head.segments;
        }
    }

    /// The stored catalog and the bags that were in place.
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

    /// Writes the catalog. With few new events it is written only when bags `changed`.
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
