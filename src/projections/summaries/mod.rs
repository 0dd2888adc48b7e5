//! The Summary Bus of a home, kept true to the log.
//!
//! Contract. Every file is a function of the log: what ended on a day of a stream, in which order
//! of ids, from which inputs, and by which event last. A publication shows all changed days at
//! once, after every line was checked on its way into its file and the staged files were read back and
//! compared. At the start, days whose published
//! manifest is missing or is not of the last event that changed them are published again. What is
//! known of the log lies in a file beside it (see `shelf`), so a start reads only what is newer, and
//! memory follows what is new; without the file everything comes from the log.
//!
//! It decides nothing about requests and is never asked by whoever does.

mod book;
mod press;
mod runs;
mod shelf;
mod thread;

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::export::fingerprint::Fingerprint;
use crate::export::outcome_facts::OutcomeFacts;
use crate::export::publish::{Fallback, PublishError, Publisher};
use crate::export::run_book::Promoted;
use crate::export::run_record::Promotion;
use crate::export::summary_bus::{
    PartitionFacts, PartitionKey, PartitionWriter, RenderError, SUMMARIES_DIR, Stamp, Written,
};
use crate::log::codec;
use crate::log::{LogError, ReadError, Reader};
use crate::os::{Disk, Open};
use crate::state::event::Event;
use crate::verify::spread::Helpers;
use crate::verify::{Gate, Report};
use book::Book;
use press::{press, told};
use runs::Runs;
use shelf::{At, Shelf};

pub use book::DAY_OPENED;
pub use thread::{Pace, Publishing, SummariesThread, Trouble};

/// Records read since the shelf was visited after which it is visited again.
const RECORDS_MAX: u64 = if cfg!(test) { 100 } else { 1 << 18 };

/// Bytes that are read back at once.
const READ_BYTES: usize = 256 << 10;

/// Threads that read and check the lines of a large day.
const THREADS: usize = 2;
/// Lines from which on a day is large.
const LARGE_LINES: u64 = if cfg!(test) { 20 } else { 4096 };

/// The bus could not be published.
#[derive(Debug, thiserror::Error)]
pub enum SummariesError {
    /// The log, or a record of it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A day that does not add up.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The files.
    #[error("publish the summaries")]
    Publish(#[from] PublishError),
    /// The published files could not be looked at or written.
    #[error("write the published files")]
    Disk(#[from] io::Error),
    /// A run record or a row that is no JSON.
    #[error("render a run record")]
    Record(#[from] serde_json::Error),
    /// What is kept beside the log.
    #[error("remember what was published")]
    Shelf(#[source] LogError),
    /// The thread could not go on.
    #[error("the publisher ended early")]
    Ended,
}

impl From<LogError> for SummariesError {
    fn from(error: LogError) -> SummariesError {
        SummariesError::Read(error.into())
    }
}

impl SummariesError {
    /// Whether what was to be published is wrong, rather than the disk.
    pub fn is_violation(&self) -> bool {
        matches!(
            self,
            SummariesError::Render(RenderError::Order { .. } | RenderError::Unreconciled { .. })
                | SummariesError::Render(RenderError::NotAnItem(_))
                | SummariesError::Publish(PublishError::Invalid(_))
                | SummariesError::Read(ReadError::Unexpected { .. })
        )
    }
}

/// The bus and how far into the log it is.
pub struct Summaries {
    log: Reader,
    disk: Arc<dyn Disk>,
    publisher: Publisher,
    shelf: Shelf,
    book: Book,
    runs: Runs,
    read_to: Seq,
    /// Where the shelf stands.
    kept_at: Seq,
    compared: bool,
    /// The only day and the only stream to show, and no run records.
    only: Option<(Option<Day>, Option<Stream>)>,
    /// What was shown since somebody last asked.
    promoted: BTreeMap<PartitionKey, Digest>,
}

impl Summaries {
    /// Takes charge of `BUSES/summaries` and of the run records, and remembers what it knows of the
    /// log in a file, where one is given. Nothing is published yet.
    pub fn open(
        disk: &Arc<dyn Disk>,
        buses: &Path,
        log: &Reader,
        remember: Option<&Path>,
    ) -> Result<Summaries, SummariesError> {
        let publisher =
            Publisher::open(Arc::clone(disk), buses, SUMMARIES_DIR, Fallback::DataThenManifest)?;
        let shelf = Shelf::open(disk, remember);
        let mut summaries = Summaries {
            log: log.clone(),
            disk: Arc::clone(disk),
            publisher,
            book: Book::open(shelf.clone(), None),
            runs: Runs::open(disk, buses, shelf.clone())?,
            shelf,
            read_to: Seq::ZERO,
            kept_at: Seq::ZERO,
            compared: false,
            only: None,
            promoted: BTreeMap::new(),
        };
        match summaries.recall() {
            Err(SummariesError::Shelf(error)) => summaries.forget(error)?,
            recalled => recalled?,
        }
        Ok(summaries)
    }

    /// Takes up what the shelf knows.
    fn recall(&mut self) -> Result<(), SummariesError> {
        let Some(at) = self.shelf.at(&self.log)? else { return Ok(()) };
        if !self.runs.recall(&self.log, &at)? {
            // Records are written from the events of their runs alone.
            tracing::info!("a run record is missing: the log is read from its beginning");
            return self.shelf.clear();
        }
        self.book = Book::open(self.shelf.clone(), Some(&at));
        (self.read_to, self.kept_at) = (Seq(at.seq), Seq(at.seq));
        Ok(())
    }

    /// Goes on without a shelf that failed.
    fn forget(&mut self, error: LogError) -> Result<(), SummariesError> {
        tracing::warn!(%error, "what is published is remembered in memory from now on");
        self.shelf = Shelf::default();
        self.start_over()
    }

    /// Forgets everything the log can tell again.
    fn start_over(&mut self) -> Result<(), SummariesError> {
        self.shelf.clear()?;
        self.book = Book::open(self.shelf.clone(), None);
        self.runs.start_over(self.shelf.clone());
        (self.read_to, self.kept_at, self.compared) = (Seq::ZERO, Seq::ZERO, false);
        Ok(())
    }

    /// From here on shows nothing but a day, or a stream, or both; no run records.
    pub fn only(&mut self, day: Option<Day>, stream: Option<Stream>) {
        self.only = Some((day, stream));
    }

    /// Publishes what the log says up to an event, and returns how many days of streams changed.
    pub fn publish(&mut self, until: Option<Seq>) -> Result<usize, SummariesError> {
        match self.publish_once(until) {
            Err(SummariesError::Shelf(error)) => {
                self.forget(error)?;
                self.publish_once(until)
            }
            published => published,
        }
    }

    fn publish_once(&mut self, until: Option<Seq>) -> Result<usize, SummariesError> {
        self.read(until)?;
        if !self.compared {
            self.compare()?;
            self.compared = true;
        }
        let mut changed = self.book.changed();
        if let Some((day, stream)) = self.only {
            changed.retain(|key| day.is_none_or(|day| key.day == day));
            changed.retain(|key| stream.is_none_or(|stream| key.stream == stream));
        }
        if !changed.is_empty() {
            self.show(&changed)?;
        }
        if self.only.is_none() {
            self.runs.publish(&self.log)?;
        }
        if self.read_to.0 - self.kept_at.0 >= RECORDS_MAX {
            self.keep()?;
        }
        Ok(changed.len())
    }

    /// Remembers everything for the next start.
    pub fn close(mut self) -> Result<(), SummariesError> {
        match self.keep().and_then(|()| self.shelf.sync()) {
            Err(SummariesError::Shelf(error)) => {
                tracing::warn!(%error, "the next start reads the log again");
                Ok(())
            }
            kept => kept,
        }
    }

    /// Brings the shelf up to what was read.
    fn keep(&mut self) -> Result<(), SummariesError> {
        if !self.shelf.keeps() || self.read_to == self.kept_at {
            return Ok(());
        }
        let mut at = At::of(self.read_to);
        let mut rows = Vec::new();
        self.book.leave(&self.log, &mut at, &mut rows)?;
        self.runs.leave(&mut at, &mut rows)?;
        self.shelf.keep(&self.log, at, rows)?;
        self.book.left();
        self.runs.left();
        self.kept_at = self.read_to;
        Ok(())
    }

    /// What was shown since the last call, and what could not be.
    pub fn take_promoted(&mut self) -> Vec<Promoted> {
        let shown = std::mem::take(&mut self.promoted);
        let shown = shown.into_iter().map(|(key, hash)| (key, Some(hash)));
        let hidden = self.book.changed().into_iter().map(|key| (key, None));
        let all: BTreeMap<PartitionKey, Option<Digest>> = shown.chain(hidden).collect();
        all.into_iter()
            .map(|(key, hash)| Promoted {
                path: format!("{SUMMARIES_DIR}/{}", key.data_file()),
                manifest_path: format!("{SUMMARIES_DIR}/{}", key.manifest_file()),
                data_hash: hash.map(|hash| hash.hex()),
                schema_version: key.stream.item_version().to_owned(),
                promotion_status: match hash {
                    Some(_) => Promotion::Promoted,
                    None => Promotion::NotWritten,
                },
            })
            .collect()
    }

    /// Publishes every day again, whatever the files say and whatever was remembered.
    pub fn publish_all(&mut self) -> Result<usize, SummariesError> {
        self.start_over()?;
        self.read(None)?;
        let all = self.book.keys()?;
        self.book.change(all);
        self.compared = true;
        self.publish(None)
    }

    /// Manifests that should be published and are not. Nothing is touched.
    pub fn missing(
        disk: &Arc<dyn Disk>,
        buses: &Path,
        log: &Reader,
    ) -> Result<Vec<String>, SummariesError> {
        let mut book = Book::open(Shelf::default(), None);
        fold(log, Seq::ZERO, None, &mut |seq, stamp, event, facts| {
            book.take(log, seq, event, facts, stamp).map(ControlFlow::Continue)
        })?;
        let live = buses.join(SUMMARIES_DIR);
        let mut missing = Vec::new();
        for key in book.keys()? {
            if disk.stat(&live.join(key.manifest_file()))?.is_none() {
                missing.push(key.manifest_file());
            }
        }
        Ok(missing)
    }

    /// Folds what the log holds beyond what was read before, with visits to the shelf in between.
    fn read(&mut self, until: Option<Seq>) -> Result<(), SummariesError> {
        loop {
            let Summaries { book, runs, read_to, log, .. } = self;
            let (from, mut full) = (*read_to, false);
            fold(log, from, until, &mut |seq, stamp, event, facts| {
                runs.take(seq, stamp.at, &event, &facts)?;
                book.take(log, seq, event, facts, stamp)?;
                *read_to = seq;
                full = book.is_full() || runs.is_full();
                Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if !full {
                return Ok(());
            }
            self.runs.publish(&self.log)?;
            self.keep()?;
        }
    }

    fn show(&mut self, changed: &[PartitionKey]) -> Result<(), SummariesError> {
        let facts: Vec<(PartitionKey, PartitionFacts)> = changed
            .iter()
            .filter_map(|key| {
                Some(self.book.facts(&self.log, key).transpose()?.map(|facts| (*key, facts)))
            })
            .collect::<Result<_, SummariesError>>()?;
        let most = facts.iter().map(|(_, facts)| facts.counts.produced).max().unwrap_or_default();
        let threads = if most < LARGE_LINES { 1 } else { THREADS };
        let days: Vec<_> =
            facts.iter().map(|(key, facts)| (Gate::new(*key), *key, facts)).collect();
        let hashes = std::thread::scope(|scope| {
            let helpers = Helpers::of(threads);
            for _ in 1..threads {
                let helpers = helpers.clone();
                scope.spawn(move || helpers.help());
            }
            stage(&self.log, &self.book, &mut self.publisher, &self.disk, &days, helpers)
        })?;
        self.promoted.extend(hashes);
        self.book.shown(changed);
        Ok(())
    }

    /// Days that are published as they should be need not be published again.
    fn compare(&mut self) -> Result<(), SummariesError> {
        #[derive(Deserialize)]
        struct Published {
            sequence: u64,
            log_head: String,
            byte_size: u64,
        }
        let live = self.publisher.live();
        for key in self.book.keys()? {
            let Some(facts) = self.book.facts(&self.log, &key)? else { continue };
            let manifest = self.disk.read_if_present(&live.join(key.manifest_file()))?;
            let data = self.disk.stat(&live.join(key.data_file()))?;
            let published: Option<Published> =
                manifest.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let as_it_should = published.is_some_and(|published| {
                published.sequence == facts.stamp.sequence
                    && published.log_head == facts.stamp.log_head
                    && data.is_some_and(|data| data.len == published.byte_size)
            });
            match as_it_should {
                true => self.book.shown(&[key]),
                false => self.book.change([key]),
            }
        }
        Ok(())
    }
}

/// Whether to go on.
type Taken = Result<ControlFlow<()>, SummariesError>;

/// Hands over every event after `from` with what its record knows of itself.
fn fold(
    log: &Reader,
    from: Seq,
    until: Option<Seq>,
    take: &mut dyn FnMut(Seq, Stamp, Event, OutcomeFacts) -> Taken,
) -> Result<(), SummariesError> {
    let mut failure = None;
    log.scan(from.next(), until, &mut |entry| {
        let taken = codec::decode(entry.tag, entry.version, entry.payload)
            .map_err(|source| ReadError::Event { seq: entry.seq, source }.into())
            .and_then(|event| {
                let facts = book::facts_of(&event);
                let stamp = Stamp {
                    run_id: String::new(),
                    at: entry.at,
                    sequence: entry.seq.0,
                    // Only the last of a day lends it its hash: see the book.
                    log_head: String::new(),
                    summarizer_version: String::new(),
                };
                take(entry.seq, stamp, event, facts)
            });
        taken.unwrap_or_else(|error| {
            failure = Some(error);
            ControlFlow::Break(())
        })
    })?;
    failure.map_or(Ok(()), Err)
}

/// Writes these days, and shows them when they are what was meant. Gives the hashes of their data.
fn stage<'t>(
    log: &'t Reader,
    book: &Book,
    publisher: &mut Publisher,
    disk: &Arc<dyn Disk>,
    days: &'t [(Gate, PartitionKey, &PartitionFacts)],
    helpers: Helpers<'t>,
) -> Result<Vec<(PartitionKey, Digest)>, SummariesError> {
    let mut publication = publisher.begin()?;
    let mut staged = Vec::with_capacity(days.len());
    for (gate, key, facts) in days {
        let mut writer = PartitionWriter::new(*key, publication.create(&key.data_file())?);
        press(log, gate, &helpers, book.items(key), &mut writer)?;
        let Written { sink, bytes, sha256, fingerprint, manifest } = writer.finish(facts)?;
        publication.finish(sink)?;
        publication.put(&key.manifest_file(), &manifest)?;
        let lines = facts.counts.produced;
        staged.push((gate, *key, Staged { lines, bytes, sha256, fingerprint, manifest }));
    }
    drop(helpers);
    let mut hashes = Vec::with_capacity(staged.len());
    publication.commit(|tree| {
        for (gate, key, staged) in &staged {
            check(disk.as_ref(), tree, gate, *key, staged)?;
            hashes.push((*key, staged.sha256));
        }
        Ok::<(), String>(())
    })?;
    Ok(hashes)
}

/// What was written for a day of a stream.
struct Staged {
    lines: u64,
    bytes: u64,
    sha256: Digest,
    fingerprint: Fingerprint,
    manifest: Vec<u8>,
}

/// What is about to be shown is what was written, and what was written adds up. Every line was
/// checked, and all were hashed, on their way into the file.
fn check(
    disk: &dyn Disk,
    tree: &Path,
    gate: &Gate,
    key: PartitionKey,
    staged: &Staged,
) -> Result<(), String> {
    let unread = |error| format!("read back {}: {error}", key.data_file());
    let written = disk.read(&tree.join(key.manifest_file())).map_err(unread)?;
    if written != staged.manifest {
        return Err(format!("{} is not what was written", key.manifest_file()));
    }
    let found = read_back(disk, &tree.join(key.data_file())).map_err(unread)?;
    if found.finish() != staged.fingerprint.finish() {
        return Err(format!("{} is not what was written", key.data_file()));
    }
    let mut report = Report::default();
    gate.manifest(&staged.manifest, staged.lines, (staged.bytes, staged.sha256), &mut report);
    report.violations.first().map_or(Ok(()), |first| Err(told(first)))
}

fn read_back(disk: &dyn Disk, path: &Path) -> io::Result<Fingerprint> {
    let file = disk.open(path, Open::Read)?;
    let len = file.stat()?.len;
    let mut buffer = vec![0; usize::try_from(len).unwrap_or(READ_BYTES).min(READ_BYTES)];
    let (mut found, mut at) = (Fingerprint::default(), 0);
    while at < len {
        match file.read_at(&mut buffer, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                found.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
