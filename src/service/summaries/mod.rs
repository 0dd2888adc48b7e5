//! The Summary Bus of a home, kept true to the log.
//!
//! Contract. Every file is a function of the log: what ended on a day of a stream, in which order
//! of ids, from which inputs, and by which event last. A publication shows all changed days at
//! once, after the staged files were read back and compared. At the start, days whose published
//! manifest is missing or is not of the last event that changed them are published again.
//!
//! It decides nothing about requests and is never asked by whoever does.

mod book;
mod runs;
mod thread;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::schema;
use crate::export::outcome_facts::OutcomeFacts;
use crate::export::publish::{Fallback, PublishError, Publisher};
use crate::export::run_book::Promoted;
use crate::export::run_record::Promotion;
use crate::export::summary_bus::{
    PartitionKey, PartitionWriter, RenderError, SUMMARIES_DIR, Stamp,
};
use crate::log::codec::{self, CodecError};
use crate::log::{LogError, Reader};
use crate::os::Disk;
use crate::state::event::Event;
use book::Book;
use runs::Runs;

pub use book::DAY_OPENED;
pub use thread::{Pace, Publishing, SummariesThread, Trouble};

/// Bytes read back at once.
const READ_BYTES: usize = 1 << 20;

/// The bus could not be published.
#[derive(Debug, thiserror::Error)]
pub enum SummariesError {
    /// The log.
    #[error("read the log")]
    Log(#[from] LogError),
    /// A record that does not read.
    #[error("read event {seq}")]
    Event {
        /// Which one.
        seq: Seq,
        /// Why.
        source: CodecError,
    },
    /// An item that is not in the log any more.
    #[error("find the item of event {0}")]
    NoItem(Seq),
    /// A day that does not add up.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The files.
    #[error("publish the summaries")]
    Publish(#[from] PublishError),
    /// The published files could not be looked at or written.
    #[error("write the published files")]
    Disk(#[from] std::io::Error),
    /// A run record that is no JSON.
    #[error("render a run record")]
    Record(#[from] serde_json::Error),
    /// The thread could not go on.
    #[error("the publisher ended early")]
    Ended,
}

impl SummariesError {
    /// Whether what was to be published is wrong, rather than the disk.
    pub fn is_violation(&self) -> bool {
        matches!(
            self,
            SummariesError::Render(RenderError::Order { .. } | RenderError::Unreconciled { .. })
                | SummariesError::Render(RenderError::NotAnItem(_))
                | SummariesError::Publish(PublishError::Invalid(_))
                | SummariesError::NoItem(_)
        )
    }
}

/// The bus and how far into the log it is.
pub struct Summaries {
    log: Reader,
    disk: Arc<dyn Disk>,
    publisher: Publisher,
    book: Book,
    runs: Runs,
    read_to: Seq,
    compared: bool,
    /// What was shown since somebody last asked.
    promoted: BTreeMap<PartitionKey, Digest>,
}

impl Summaries {
    /// Takes charge of `BUSES/summaries` and of the run records. Nothing is published yet.
    pub fn open(
        disk: &Arc<dyn Disk>,
        buses: &Path,
        log: &Reader,
    ) -> Result<Summaries, SummariesError> {
        let publisher =
            Publisher::open(Arc::clone(disk), buses, SUMMARIES_DIR, Fallback::DataThenManifest)?;
        Ok(Summaries {
            log: log.clone(),
            disk: Arc::clone(disk),
            publisher,
            book: Book::default(),
            runs: Runs::open(disk, buses)?,
            read_to: Seq::ZERO,
            compared: false,
            promoted: BTreeMap::new(),
        })
    }

    /// Publishes what the log says up to an event, and returns how many days of streams changed.
    pub fn publish(&mut self, until: Option<Seq>) -> Result<usize, SummariesError> {
        self.read(until)?;
        if !self.compared {
            self.compare()?;
            self.compared = true;
        }
        let changed = self.book.changed();
        if !changed.is_empty() {
            self.show(&changed)?;
        }
        self.runs.publish(&self.log)?;
        Ok(changed.len())
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

    /// Publishes every day again, whatever the files say.
    pub fn publish_all(&mut self) -> Result<usize, SummariesError> {
        self.compared = true;
        self.read(None)?;
        self.book.change_all();
        self.publish(None)
    }

    /// Manifests that should be published and are not. Nothing is touched.
    pub fn missing(
        disk: &Arc<dyn Disk>,
        buses: &Path,
        log: &Reader,
    ) -> Result<Vec<String>, SummariesError> {
        let mut book = Book::default();
        fold(log, Seq::ZERO, None, &mut |seq, stamp, event, facts| {
            book.take(log, seq, event, facts, stamp)
        })?;
        let live = buses.join(SUMMARIES_DIR);
        let mut missing = Vec::new();
        for key in book.keys() {
            if disk.stat(&live.join(key.manifest_file()))?.is_none() {
                missing.push(key.manifest_file());
            }
        }
        Ok(missing)
    }

    /// Folds what the log holds beyond what was read before.
    fn read(&mut self, until: Option<Seq>) -> Result<(), SummariesError> {
        let Summaries { book, runs, read_to, log, .. } = self;
        let from = *read_to;
        fold(log, from, until, &mut |seq, stamp, event, facts| {
            runs.take(seq, stamp.at, &event, &facts)?;
            book.take(log, seq, event, facts, stamp)?;
            *read_to = seq;
            Ok(())
        })
    }

    fn show(&mut self, changed: &[PartitionKey]) -> Result<(), SummariesError> {
        let mut publication = self.publisher.begin()?;
        let mut staged = Vec::with_capacity(changed.len());
        for key in changed {
            let Some(day) = self.book.day(key) else { continue };
            let mut writer = PartitionWriter::new(*key, publication.create(&key.data_file())?);
            let mut pushed = Ok(());
            let missing = self.log.bodies(&mut day.items(), &mut |line| {
                pushed = writer.push(line);
                if pushed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            pushed?;
            if let Some(seq) = missing {
                return Err(SummariesError::NoItem(seq));
            }
            let (data, manifest) = writer.finish(&day.facts())?;
            publication.finish(data)?;
            publication.put(&key.manifest_file(), &manifest)?;
            staged.push((*key, manifest));
        }
        let disk = Arc::clone(&self.disk);
        let mut hashes = Vec::with_capacity(staged.len());
        publication.commit(|tree| {
            for (key, manifest) in &staged {
                hashes.push((*key, check(disk.as_ref(), tree, *key, manifest)?));
            }
            Ok::<(), String>(())
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
        let mut same = Vec::new();
        for key in self.book.changed() {
            let Some(day) = self.book.day(&key) else { continue };
            let manifest = self.disk.read_if_present(&live.join(key.manifest_file()))?;
            let data = self.disk.stat(&live.join(key.data_file()))?;
            let published = manifest.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let Some::<Published>(published) = published else { continue };
            let stamp = day.stamp();
            if published.sequence == stamp.sequence
                && published.log_head == stamp.log_head
                && data.is_some_and(|data| data.len == published.byte_size)
            {
                same.push(key);
            }
        }
        self.book.shown(&same);
        Ok(())
    }
}

/// Hands over every event after `from` with what its record knows of itself.
fn fold(
    log: &Reader,
    from: Seq,
    until: Option<Seq>,
    take: &mut dyn FnMut(Seq, Stamp, Event, OutcomeFacts) -> Result<(), SummariesError>,
) -> Result<(), SummariesError> {
    let mut failure = None;
    log.scan(from.next(), until, &mut |entry| {
        let taken = codec::decode(entry.tag, entry.version, entry.payload)
            .map_err(|source| SummariesError::Event { seq: entry.seq, source })
            .and_then(|event| {
                let facts = book::facts_of(&event);
                let stamp = Stamp {
                    run_id: String::new(),
                    at: entry.at,
                    sequence: entry.seq.0,
                    // Only an event that can change a day lends it its hash.
                    log_head: match book::concerns(&event) {
                        true => entry.hash().hex(),
                        false => String::new(),
                    },
                    summarizer_version: String::new(),
                };
                take(entry.seq, stamp, event, facts)
            });
        match taken {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failure.map_or(Ok(()), Err)
}

/// What is about to be shown is what was meant. Gives the hash of the data.
fn check(
    disk: &dyn Disk,
    tree: &Path,
    key: PartitionKey,
    manifest: &[u8],
) -> Result<Digest, String> {
    let read = |path: PathBuf| disk.read(&path).map_err(|error| format!("read back: {error}"));
    let value: Value = serde_json::from_slice(manifest).map_err(|error| error.to_string())?;
    if let Some(first) = schema::check(key.stream.manifest_version(), &value).first() {
        let (file, at) = (key.manifest_file(), &first.pointer);
        return Err(format!("{file} at `{at}`: {}", first.message));
    }
    let hash = hash_of(disk, &tree.join(key.data_file()))
        .map_err(|error| format!("read back: {error}"))?;
    if value["integrity"]["sha256"] != hash.hex().as_str() {
        return Err(format!("{} is not what was written", key.data_file()));
    }
    match read(tree.join(key.manifest_file()))? == manifest {
        true => Ok(hash),
        false => Err(format!("{} is not what was written", key.manifest_file())),
    }
}

/// The hash of a file, piece by piece.
fn hash_of(disk: &dyn Disk, path: &Path) -> std::io::Result<Digest> {
    let file = disk.open(path, crate::os::Open::Read)?;
    let mut hasher = crate::contract::hash::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = 0;
    loop {
        let count = file.read_at(&mut buffer, offset)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..count]);
        offset += count as u64;
    }
}
