//! The Summary Bus of a home, kept true to the log.
//!
//! Contract. Every file is a function of the log: what ended on a day of a stream, in which order
//! of ids, from which inputs, and by which event last. A publication shows all changed days at
//! once, after the staged files were read back and compared. At the start, days whose published
//! manifest is missing or is not of the last event that changed them are published again.
//!
//! It decides nothing about requests and is never asked by whoever does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use serde::Deserialize;
use serde_json::Value;

use super::flow_facts::stream_of;
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::schema;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{Bus, Stream, SummaryKind};
use crate::export::publish::{Fallback, PublishError, Publisher};
use crate::export::summary_bus::{
    Counts, PartitionFacts, PartitionInput, PartitionKey, PartitionWriter, RenderError,
    SUMMARIES_DIR, SelectionInput, Stamp,
};
use crate::log::codec::{self, CodecError};
use crate::log::{LogError, Reader};
use crate::os::Disk;
use crate::state::event::{Event, TakenRequest};

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
    /// The published files could not be looked at.
    #[error("look at the published summaries")]
    Disk(#[from] std::io::Error),
    /// The thread could not go on.
    #[error("the publisher ended early")]
    Ended,
}

/// The bus and how far into the log it is.
pub struct Summaries {
    log: Reader,
    disk: Arc<dyn Disk>,
    publisher: Publisher,
    book: Book,
    compared: bool,
}

impl Summaries {
    /// Takes charge of `BUSES/summaries`. Nothing is published yet.
    pub fn open(
        disk: &Arc<dyn Disk>,
        buses: &Path,
        log: &Reader,
    ) -> Result<Summaries, SummariesError> {
        let publisher =
            Publisher::open(Arc::clone(disk), buses, SUMMARIES_DIR, Fallback::DataThenManifest)?;
        let (disk, log) = (Arc::clone(disk), log.clone());
        Ok(Summaries { log, disk, publisher, book: Book::default(), compared: false })
    }

    /// Publishes what the log says up to an event, and returns how many days of streams changed.
    pub fn publish(&mut self, until: Option<Seq>) -> Result<usize, SummariesError> {
        self.book.read(&self.log, until)?;
        if !self.compared {
            self.compare()?;
            self.compared = true;
        }
        let changed: Vec<PartitionKey> =
            self.book.days.iter().filter(|(_, day)| day.changed).map(|(key, _)| *key).collect();
        if changed.is_empty() {
            return Ok(0);
        }
        let mut publication = self.publisher.begin()?;
        let mut staged = Vec::with_capacity(changed.len());
        for key in &changed {
            let day = &self.book.days[key];
            let mut writer = PartitionWriter::new(*key, publication.create(&key.data_file())?);
            for seq in day.items.values() {
                let line = self.log.body(*seq)?.ok_or(SummariesError::NoItem(*seq))?;
                writer.push(&line)?;
            }
            let (data, manifest) = writer.finish(&day.facts())?;
            publication.finish(data)?;
            publication.put(&key.manifest_file(), &manifest)?;
            staged.push((*key, manifest));
        }
        let disk = Arc::clone(&self.disk);
        publication.commit(|tree| {
            staged.iter().try_for_each(|(key, manifest)| check(disk.as_ref(), tree, *key, manifest))
        })?;
        for key in changed {
            if let Some(day) = self.book.days.get_mut(&key) {
                day.changed = false;
            }
        }
        Ok(staged.len())
    }

    /// Publishes every day again, whatever the files say.
    pub fn publish_all(&mut self) -> Result<usize, SummariesError> {
        self.compared = true;
        self.book.read(&self.log, None)?;
        self.book.days.values_mut().for_each(|day| day.changed = true);
        self.publish(None)
    }

    /// Manifests that should be published and are not. Nothing is touched.
    pub fn missing(
        disk: &Arc<dyn Disk>,
        buses: &Path,
        log: &Reader,
    ) -> Result<Vec<String>, SummariesError> {
        let mut book = Book::default();
        book.read(log, None)?;
        let live = buses.join(SUMMARIES_DIR);
        let mut missing = Vec::new();
        for key in book.days.keys() {
            if disk.stat(&live.join(key.manifest_file()))?.is_none() {
                missing.push(key.manifest_file());
            }
        }
        Ok(missing)
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
        for (key, day) in &mut self.book.days {
            let manifest = self.disk.read_if_present(&live.join(key.manifest_file()))?;
            let data = self.disk.stat(&live.join(key.data_file()))?;
            let published = manifest.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let Some::<Published>(published) = published else { continue };
            day.changed = published.sequence != day.stamp.sequence
                || published.log_head != day.stamp.log_head
                || data.is_none_or(|data| data.len != published.byte_size);
        }
        Ok(())
    }
}

/// What is about to be shown is what was meant.
fn check(disk: &dyn Disk, tree: &Path, key: PartitionKey, manifest: &[u8]) -> Result<(), String> {
    let read = |path: PathBuf| disk.read(&path).map_err(|error| format!("read back: {error}"));
    let value: Value = serde_json::from_slice(manifest).map_err(|error| error.to_string())?;
    if let Some(first) = schema::check(key.stream.manifest_version(), &value).first() {
        let (file, at) = (key.manifest_file(), &first.pointer);
        return Err(format!("{file} at `{at}`: {}", first.message));
    }
    let data = read(tree.join(key.data_file()))?;
    if value["integrity"]["sha256"] != sha256(&data).hex().as_str() {
        return Err(format!("{} is not what was written", key.data_file()));
    }
    match read(tree.join(key.manifest_file()))? == manifest {
        true => Ok(()),
        false => Err(format!("{} is not what was written", key.manifest_file())),
    }
}

/// What is on each day of each stream, folded from the log.
#[derive(Default)]
struct Book {
    read_to: Seq,
    run: (String, String),
    zone: Option<chrono_tz::Tz>,
    open: BTreeMap<Seq, Asked>,
    /// Endings without an item, so that one that starts over stops counting.
    ended: BTreeMap<Seq, (PartitionKey, Ending)>,
    days: BTreeMap<PartitionKey, DayOfStream>,
}

#[derive(Clone, Copy)]
struct Asked {
    kind: SummaryKind,
    bus: Option<Bus>,
    created_at: Timestamp,
}

#[derive(Clone)]
enum Ending {
    Skipped(String),
    Failed(String),
}

struct DayOfStream {
    items: BTreeMap<String, Seq>,
    skipped: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    inputs: BTreeSet<PartitionInput>,
    selections: BTreeSet<SelectionInput>,
    stamp: Stamp,
    changed: bool,
}

impl DayOfStream {
    fn facts(&self) -> PartitionFacts {
        let skipped = self.skipped.values().sum();
        let failed = self.failed.values().sum();
        let produced = self.items.len() as u64;
        PartitionFacts {
            counts: Counts { eligible: produced + skipped + failed, produced, skipped, failed },
            skip_reasons: self.skipped.clone(),
            fail_reasons: self.failed.clone(),
            inputs: self.inputs.iter().cloned().collect(),
            selections: self.selections.iter().cloned().collect(),
            stamp: self.stamp.clone(),
        }
    }
}

/// What events say about where they count, as far as it was known.
#[derive(Default, Deserialize)]
struct Facts {
    stream: Option<Stream>,
    day: Option<String>,
    #[serde(default)]
    inputs: Vec<InputFact>,
    selection: Option<SelectionFact>,
}

#[derive(Deserialize)]
struct InputFact {
    path: String,
    bus: Bus,
    partition: String,
    data_sha256: Option<String>,
    manifest_path: Option<String>,
    manifest_sha256: Option<String>,
    schema_version: Option<String>,
}

#[derive(Deserialize)]
struct SelectionFact {
    path: String,
    sha256: String,
    selection_hash: String,
}

impl Book {
    fn read(&mut self, log: &Reader, until: Option<Seq>) -> Result<(), SummariesError> {
        let mut failure = None;
        log.scan(self.read_to.next(), until, &mut |entry| match codec::decode(
            entry.tag,
            entry.version,
            entry.payload,
        ) {
            Ok(event) => {
                let stamp = Stamp {
                    run_id: self.run.0.clone(),
                    at: entry.at,
                    sequence: entry.seq.0,
                    log_head: entry.hash().hex(),
                    summarizer_version: self.run.1.clone(),
                };
                self.take(entry.seq, &event, stamp);
                self.read_to = entry.seq;
                ControlFlow::Continue(())
            }
            Err(source) => {
                failure = Some(SummariesError::Event { seq: entry.seq, source });
                ControlFlow::Break(())
            }
        })?;
        failure.map_or(Ok(()), Err)
    }

    fn take(&mut self, seq: Seq, event: &Event, stamp: Stamp) {
        match event {
            Event::RunStarted { run_id, version, environment, .. } => {
                self.run = (run_id.clone(), version.clone());
                let environment: Value = serde_json::from_str(environment).unwrap_or_default();
                self.zone = environment["timezone"].as_str().and_then(|zone| zone.parse().ok());
            }
            Event::RequestAccepted(request) | Event::RequestParked { request, .. } => {
                self.taken(seq, request, &stamp);
            }
            Event::SummaryProduced { request, summary, supersedes, facts, .. } => {
                self.uncount(*supersedes, &stamp);
                self.open.remove(request);
                let key = PartitionKey { stream: summary.stream, day: summary.day };
                let day = self.touch(key, facts, stamp);
                day.items.insert(summary.summary_id.clone(), seq);
            }
            Event::RequestSkipped { request, reason, supersedes, facts, .. } => {
                let reason = reason.as_str();
                let reason = reason.strip_prefix("skipped_").unwrap_or(reason).to_owned();
                self.end(seq, *request, *supersedes, facts, Ending::Skipped(reason), stamp);
            }
            Event::AttemptFailed { retry_at: Some(_), .. } => {}
            Event::AttemptFailed { request, status, reason, supersedes, facts, .. } => {
                let reason = reason.map_or(status.as_str(), |reason| reason.as_str()).to_owned();
                self.end(seq, *request, *supersedes, facts, Ending::Failed(reason), stamp);
            }
            Event::RequestCancelled { request, supersedes, .. } => {
                let ending = Ending::Failed("cancelled".to_owned());
                self.end(seq, *request, *supersedes, "{}", ending, stamp);
            }
            Event::RequestDuplicated { request, .. } => drop(self.open.remove(request)),
            _ => {}
        }
    }

    fn taken(&mut self, seq: Seq, request: &TakenRequest, stamp: &Stamp) {
        self.uncount(request.supersedes.map(|earlier| earlier.ack), stamp);
        let TakenRequest { kind, bus, created_at, .. } = *request;
        self.open.insert(seq, Asked { kind, bus, created_at });
    }

    fn end(
        &mut self,
        seq: Seq,
        request: Seq,
        supersedes: Option<Seq>,
        facts: &str,
        ending: Ending,
        stamp: Stamp,
    ) {
        self.uncount(supersedes, &stamp);
        // Kept: an operator may have it tried again.
        let Some(asked) = self.open.get(&request).copied() else { return };
        let known: Facts = serde_json::from_str(facts).unwrap_or_default();
        let zone = self.zone.unwrap_or(chrono_tz::UTC);
        let key = PartitionKey {
            stream: known.stream.unwrap_or_else(|| stream_of(asked.kind, asked.bus)),
            day: match known.day.and_then(|day| day.parse().ok()) {
                Some(day) => day,
                None => asked.created_at.day_in(zone),
            },
        };
        let day = self.touch(key, facts, stamp);
        let (reasons, reason) = match &ending {
            Ending::Skipped(reason) => (&mut day.skipped, reason),
            Ending::Failed(reason) => (&mut day.failed, reason),
        };
        *reasons.entry(reason.clone()).or_default() += 1;
        self.ended.insert(seq, (key, ending));
    }

    /// An earlier ending that started over stops counting.
    fn uncount(&mut self, ended: Option<Seq>, stamp: &Stamp) {
        let Some((key, ending)) = ended.and_then(|seq| self.ended.remove(&seq)) else { return };
        let Some(day) = self.days.get_mut(&key) else { return };
        let (reasons, reason) = match ending {
            Ending::Skipped(reason) => (&mut day.skipped, reason),
            Ending::Failed(reason) => (&mut day.failed, reason),
        };
        if let Some(count) = reasons.get_mut(&reason) {
            *count -= 1;
            if *count == 0 {
                reasons.remove(&reason);
            }
        }
        day.stamp.clone_from(stamp);
        day.changed = true;
    }

    /// The day of a stream that an event changes, with its inputs noted. A day exists for all
    /// streams, and the day of every upstream manifest that was read exists too.
    fn touch(&mut self, key: PartitionKey, facts: &str, stamp: Stamp) -> &mut DayOfStream {
        let known: Facts = serde_json::from_str(facts).unwrap_or_default();
        let read = known.inputs.iter().filter_map(|input| input.partition.parse::<Day>().ok());
        let days: BTreeSet<Day> = read.chain([key.day]).collect();
        for day in days {
            for stream in Stream::ALL {
                let key = PartitionKey { stream: *stream, day };
                self.days.entry(key).or_insert_with(|| empty_day(stamp.clone()));
            }
        }
        let day = self.days.entry(key).or_insert_with(|| empty_day(stamp.clone()));
        day.stamp = stamp;
        day.changed = true;
        let hash = |text: Option<String>| text.and_then(|text| text.parse::<Digest>().ok());
        day.inputs.extend(known.inputs.into_iter().map(|input| PartitionInput {
            path: input.path,
            bus: input.bus,
            partition: input.partition,
            data_sha256: hash(input.data_sha256),
            manifest_path: input.manifest_path,
            manifest_sha256: hash(input.manifest_sha256),
            schema_version: input.schema_version,
        }));
        if let Some(selection) = known.selection
            && let Ok(sha256) = selection.sha256.parse()
        {
            let SelectionFact { path, selection_hash, .. } = selection;
            day.selections.insert(SelectionInput { path, sha256, selection_hash });
        }
        day
    }
}

fn empty_day(stamp: Stamp) -> DayOfStream {
    DayOfStream {
        items: BTreeMap::new(),
        skipped: BTreeMap::new(),
        failed: BTreeMap::new(),
        inputs: BTreeSet::new(),
        selections: BTreeSet::new(),
        stamp,
        changed: true,
    }
}

/// Publishes beside a running service, not more often than it is told to.
pub struct SummariesThread {
    stop: Sender<()>,
    thread: JoinHandle<Summaries>,
}

impl SummariesThread {
    /// Starts publishing.
    pub fn start(mut summaries: Summaries, every: Duration) -> std::io::Result<SummariesThread> {
        let (stop, stopped) = bounded::<()>(1);
        let thread = std::thread::Builder::new().name("summaries".to_owned());
        let thread = thread.spawn(move || {
            loop {
                if let Err(error) = summaries.publish(None) {
                    tracing::warn!(%error, "the summaries are not published yet");
                }
                match stopped.recv_timeout(every) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return summaries,
                }
            }
        })?;
        Ok(SummariesThread { stop, thread })
    }

    /// Ends the thread and publishes everything that is left.
    pub fn finish(self) -> Result<(), SummariesError> {
        drop(self.stop);
        let mut summaries = self.thread.join().map_err(|_| SummariesError::Ended)?;
        summaries.publish(None).map(|_| ())
    }
}
