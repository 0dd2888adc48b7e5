//! The sources of one request, in order, each with its name and its place on disk.
//!
//! Contract: memory holds a hundred bytes for each source, and texts only while they are few. The
//! texts of many sources are read from disk again, one after the other, when they are needed. A file
//! that changed after it was verified is an error.
//!
//! See docs/adr/0055-rereading-texts-of-large-requests.md.

use std::fmt;
use std::sync::Arc;

use super::defect::{Defect, too_much};
use super::family::Family;
use super::view::Partition;
use crate::contract::hash::Digest;
use crate::contract::vocabulary::Bus;
use crate::facts::note::InputNote;

/// Texts of one request that stay in memory.
const HELD_BYTES_MAX: usize = if cfg!(test) { 64 } else { 4 << 20 };
/// Most ids one request may name, and most sources it may have.
pub(crate) const RESOLVE_IDS_MAX: usize = 200_000;
/// Most text one request may bring together.
pub(crate) const RESOLVE_TEXT_BYTES_MAX: usize = 256 << 20;
/// The most bytes of the ids and titles of one request.
const WORDS_BYTES_MAX: usize = 256 << 20;

/// One source and its place upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source<'a> {
    /// The id, byte for byte.
    pub id: &'a str,
    /// Bytes of its normalized text; 0 where it has none.
    pub text_bytes: u64,
    /// The bus it came from.
    pub bus: Bus,
    /// The file, relative to the bus home.
    pub file: &'a str,
    pub partition: &'a str,
    /// 1-based line in the file.
    pub line: u64,
    /// First byte of the line.
    pub offset: u64,
    /// Bytes of the line.
    pub len: u64,
    pub title: Option<&'a str>,
    pub conversation_id: Option<&'a str>,
    pub document_id: Option<&'a str>,
    pub(crate) time_ms: Option<i64>,
    /// The index upstream says it is in.
    pub(crate) index_id: Option<&'a str>,
    /// What upstream says about showing it.
    pub publish: Option<bool>,
}

/// A partition or file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRef {
    pub bus: Bus,
    /// The partition; `other` for files without one.
    pub partition: String,
    /// Its manifest, relative to the bus home.
    pub manifest_path: Option<String>,
    /// Hash of the manifest file.
    pub manifest_sha256: Option<Digest>,
    /// The data file, relative to the bus home.
    pub data_path: String,
    /// Hash of the data that was read.
    pub data_sha256: Digest,
    /// Length of the data that was read.
    pub data_bytes: u64,
    /// Version of its records.
    pub schema_version: Option<String>,
    /// Whether bytes after the manifest's were ignored.
    pub appended: bool,
}

impl UpstreamRef {
    /// What its producer should know, though nothing is wrong with the data.
    pub(super) fn notes(&self) -> impl Iterator<Item = InputNote> {
        let path = || self.data_path.clone();
        let appended = self.appended.then(|| InputNote::AppendedAfterManifest { path: path() });
        let preferred = Family::of(self.bus).map(|family| family.manifest_path(&self.partition));
        let odd = self.manifest_path.as_ref().filter(|path| preferred.as_ref() != Some(*path));
        let odd = odd.map(|path| InputNote::ManifestName { path: path.clone() });
        appended.into_iter().chain(odd)
    }
}

/// A file that holds sources.
#[derive(Clone)]
pub(super) struct SourceFile {
    pub bus: Bus,
    pub path: Arc<str>,
    pub name: Arc<str>,
    /// None for a plain file.
    pub partition: Option<Partition>,
}

/// Some bytes of a longer string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    start: u32,
    len: u32,
}

impl Slice {
    const NONE: Slice = Slice { start: u32::MAX, len: 0 };

    fn of(self, words: &str) -> Option<&str> {
        let start = self.start as usize;
        (self != Slice::NONE).then(|| &words[start..start + self.len as usize])
    }
}

/// A source in the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    id: Slice,
    title: Slice,
    conversation: Slice,
    document: Slice,
    index: Slice,
    text_start: u32,
    text_bytes: u32,
    file: u32,
    line: u32,
    offset: u64,
    len: u64,
    time_ms: Option<i64>,
    publish: Option<bool>,
}

#[derive(Clone, Default)]
pub struct Sources {
    rows: Vec<Row>,
    words: String,
    files: Vec<SourceFile>,
    texts: Texts,
    text_bytes: usize,
    /// The words of the row that was put last, which the next often shares.
    last: [Option<Slice>; 4],
}

/// All texts, or none.
#[derive(Clone, PartialEq, Eq)]
enum Texts {
    Held(String),
    Upstream,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts::Held(String::new())
    }
}

impl Sources {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    #[cfg(any(test, feature = "internals"))]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Source<'_>> {
        self.rows.iter().map(|row| self.source(row))
    }

    /// The one at a place.
    pub fn get(&self, place: usize) -> Option<Source<'_>> {
        self.rows.get(place).map(|row| self.source(row))
    }

    /// Their ids, in order.
    pub fn ids(&self) -> Vec<&str> {
        self.rows.iter().map(|row| self.id(row)).collect()
    }

    /// Forgets the texts, if any are held.
    pub(super) fn drop_texts(&mut self) {
        self.texts = Texts::Upstream;
    }

    /// Makes room for so many more, and no more than that.
    pub(super) fn rows_expected(&mut self, count: usize) {
        self.rows.reserve_exact(count);
    }

    /// The rows, to be put in another order.
    pub(super) fn rows_mut(&mut self, from: usize) -> Order<'_> {
        Order { words: &self.words, rows: &mut self.rows[from..] }
    }

    /// Keeps of the rows from one on those that are wanted.
    pub(super) fn retain_from(&mut self, from: usize, mut wanted: impl FnMut(&str) -> bool) {
        let words = &self.words;
        let mut kept = from;
        for at in from..self.rows.len() {
            if wanted(self.rows[at].id.of(words).unwrap_or_default()) {
                self.rows.swap(kept, at);
                kept += 1;
            }
        }
        self.rows.truncate(kept);
    }

    /// The text of each, where they are held, and the file and place of each where they are not.
    pub(super) fn texts(&self) -> impl Iterator<Item = (Source<'_>, Result<&str, &SourceFile>)> {
        self.rows.iter().map(|row| {
            let text = match &self.texts {
                Texts::Held(texts) => {
                    let start = row.text_start as usize;
                    Ok(&texts[start..start + row.text_bytes as usize])
                }
                Texts::Upstream => Err(&self.files[row.file as usize]),
            };
            (self.source(row), text)
        })
    }

    /// Each source with the file it lies in.
    pub(super) fn places(&self) -> impl Iterator<Item = (Source<'_>, &SourceFile)> {
        self.rows.iter().map(|row| (self.source(row), &self.files[row.file as usize]))
    }

    /// The number of a file that many sources may share. There are few files, and mostly it is the one
    /// that was added last, so the search goes backwards.
    pub(super) fn shared_file(&mut self, path: &str, make: impl FnOnce() -> SourceFile) -> u32 {
        let known = self.files.iter().rposition(|file| *file.path == *path);
        if let Some(at) = known {
            return at as u32;
        }
        self.files.push(make());
        (self.files.len() - 1) as u32
    }

    /// The number of a file that the last source may lie in. There may be as many as sources, so no
    /// other is searched for.
    pub(super) fn next_file(&mut self, path: &str, make: impl FnOnce() -> SourceFile) -> u32 {
        if self.files.last().is_none_or(|file| *file.path != *path) {
            self.files.push(make());
        }
        (self.files.len() - 1) as u32
    }

    /// Puts a source at the end. Its file is the one with this number.
    pub(super) fn push(
        &mut self,
        file: u32,
        source: &Source<'_>,
        text: &str,
    ) -> Result<(), Defect> {
        self.text_bytes += text.len();
        if self.text_bytes > RESOLVE_TEXT_BYTES_MAX {
            return Err(too_much(format!("{} bytes of text", self.text_bytes)));
        }
        let mut text_start = 0;
        if let Texts::Held(texts) = &mut self.texts {
            if texts.len() + text.len() > HELD_BYTES_MAX {
                self.texts = Texts::Upstream;
            } else {
                text_start = texts.len() as u32;
                texts.push_str(text);
            }
        }
        let row = Row {
            id: self.word(source.id)?,
            title: self.shared(0, source.title)?,
            conversation: self.shared(1, source.conversation_id)?,
            document: self.shared(2, source.document_id)?,
            index: self.shared(3, source.index_id)?,
            text_start,
            text_bytes: text.len() as u32,
            file,
            line: u32::try_from(source.line).unwrap_or(u32::MAX),
            offset: source.offset,
            len: source.len,
            time_ms: source.time_ms,
            publish: source.publish,
        };
        self.rows.push(row);
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<Slice, Defect> {
        let (start, len) = (self.words.len(), word.len());
        if start + len > WORDS_BYTES_MAX {
            return Err(too_much(format!("{} bytes of ids and titles", start + len)));
        }
        self.words.push_str(word);
        Ok(Slice { start: start as u32, len: len as u32 })
    }

    fn shared(&mut self, place: usize, word: Option<&str>) -> Result<Slice, Defect> {
        let Some(word) = word else { return Ok(Slice::NONE) };
        if let Some(last) = self.last[place]
            && last.of(&self.words) == Some(word)
        {
            return Ok(last);
        }
        let slice = self.word(word)?;
        self.last[place] = Some(slice);
        Ok(slice)
    }

    fn id(&self, row: &Row) -> &str {
        row.id.of(&self.words).unwrap_or_default()
    }

    fn source(&self, row: &Row) -> Source<'_> {
        let file = &self.files[row.file as usize];
        Source {
            id: self.id(row),
            text_bytes: u64::from(row.text_bytes),
            bus: file.bus,
            file: &file.path,
            partition: &file.name,
            line: u64::from(row.line),
            offset: row.offset,
            len: row.len,
            title: row.title.of(&self.words),
            conversation_id: row.conversation.of(&self.words),
            document_id: row.document.of(&self.words),
            time_ms: row.time_ms,
            index_id: row.index.of(&self.words),
            publish: row.publish,
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Sources {
    fn eq(&self, other: &Sources) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

/// Rows whose order is changed.
pub(super) struct Order<'a> {
    words: &'a str,
    rows: &'a mut [Row],
}

impl Order<'_> {
    /// By time. Those of one moment are put in the order of their file.
    pub(super) fn by_time(self) {
        self.rows.sort_by_key(|row| (row.time_ms, row.file, row.line));
    }

    /// By time. Those of one moment stay in the order they have.
    pub(super) fn by_time_alone(self) {
        self.rows.sort_by_key(|row| row.time_ms);
    }

    pub(crate) fn by_id(self) {
        let id = |row: &Row| row.id.of(self.words);
        self.rows.sort_unstable_by(|a, b| id(a).cmp(&id(b)));
    }

    /// By file, in the order in which they were put, and by line.
    pub(super) fn by_place(self) {
        self.rows.sort_by_key(|row| (row.file, row.line));
    }

    /// Each row to the place that stands where it is.
    pub(super) fn to(self, mut places: Vec<usize>) {
        for at in 0..places.len() {
            while places[at] != at {
                let to = places[at];
                self.rows.swap(at, to);
                places.swap(at, to);
            }
        }
    }
}
