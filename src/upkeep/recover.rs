//! A lost or damaged log made again from what is left: the records that still read, the queue, the
//! acks and the published summaries.
//!
//! Contract. Records that are intact keep their bytes and hashes; what comes after them is rebuilt
//! from evidence and stamped with the moment of the recovery. Every published summary that is what
//! its manifest says stays known under the key it was made for, so nothing is summarized twice:
//! one whose request is not known is kept under a request id of its own. A request that had ended
//! stays ended; one that had not is open again. Whatever could not be known is counted in the
//! [`Report`], never guessed.
//!
//! Nothing here touches the old files: the new store is built beside them, and the caller puts it
//! in their place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::bus::SummaryBus;
use crate::contract::hash::{Digest, Hasher, sha256};
use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::Bus;
use crate::contract::vocabulary::{
    AckStatus, QuarantineReason, ReasonCode, Stream, SummaryKind, Urgency, Warning, Warnings,
};
use crate::facts::attempt::{InputFacts, Recovered, SelectionInput, UpstreamInput};
use crate::facts::recovery::RecoveryReport;
use crate::facts::session::SessionReport;
use crate::log::{LogError, Reader, Store};
use crate::os::{Disk, Machine, Open};
use crate::registry::SharedFlows;
use crate::seam::arrival::arrival;
use crate::seam::line::{LineContent, parse_line};
use crate::seam::position::describe_change;
use crate::seam::position::{AdoptAt, Change, Position, QueueError, adopt_position};
use crate::seam::tail::{Batch, LineForm, LineSpan, TailOptions, Tailer};
use crate::sequencer::engine::{CheckpointWhen, Engine, EngineError, OperatorError, RunStart};
use crate::sequencer::mark::{MarkError, QueueMark};
use crate::state::apply::item_digest;
use crate::state::decide::{Again, Arrival, Failed, FlowStanding, Outcome, Report as Said};
use crate::state::event::{AckHead, Event, RunEnd, SummaryPointer, TakenRequest};
use crate::state::{Past as _, Status};
use crate::upkeep::copy::{CopyError, LogCopy, Page};
use crate::upstream::lines::Lines;

/// Queue lines taken in between two commits.
const LINES_AT_ONCE: usize = 1000;
/// Bytes of them.
const BYTES_AT_ONCE: usize = 4 << 20;
/// Request ids listed for one kind of loss; the rest are counted.
const LISTED_MAX: usize = 100;

/// The log cannot be made again.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The records that are left.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The store.
    #[error("use the log")]
    Log(#[from] LogError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An operator's order that was repeated.
    #[error("repeat a cancellation")]
    Operator(#[from] OperatorError),
    /// The queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The stored queue position.
    #[error("read the queue position")]
    Mark(#[from] MarkError),
    /// A file of evidence.
    #[error("read {path}")]
    Evidence {
        /// Which one.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// Counts one more loss of a kind.
fn lose(report: &mut RecoveryReport, kind: &str, means: &str, example: &str) {
    let loss = report.unknown.entry(kind.to_owned()).or_default();
    means.clone_into(&mut loss.means);
    loss.count += 1;
    if !example.is_empty() && loss.examples.len() < LISTED_MAX {
        loss.examples.push(example.to_owned());
    }
}

/// Where everything is.
pub struct Places<'a> {
    /// The queue.
    pub queue: &'a Path,
    /// The acks as they are.
    pub acks: &'a Path,
    /// The quarantine as it is.
    pub quarantine: &'a Path,
    /// The bus home.
    pub buses: &'a Path,
}

/// Copies every record of a log that still reads into a new store; says why it ends, if early.
pub fn salvage(
    disk: &Arc<dyn Disk>,
    log: &Reader,
    store: &Path,
    progress: &mut dyn FnMut(f64),
) -> Result<(Store, Option<String>), CopyError> {
    let mut copy = LogCopy::create(disk, store, log.store_id())?;
    let head = log.head().0;
    let mut damage = None;
    while damage.is_none() && copy.last().0 < head {
        let mut page = Page::read(log, copy.last().0.next(), head);
        damage = page.damage.take();
        if page.records.is_empty() {
            let at = copy.last().0.next();
            damage.get_or_insert_with(|| format!("no record {at} is left"));
            break;
        }
        if let Err(error) = copy.take(page) {
            match error {
                CopyError::Hash { .. } | CopyError::Event { .. } | CopyError::Impossible(_) => {
                    damage = Some(error.to_string());
                }
                error => return Err(error),
            }
        }
        progress(copy.last().0.0 as f64 / head.0.max(1) as f64);
    }
    Ok((copy.into_store(), damage))
}

/// What lines are read by.
pub struct Rules<'a> {
    /// Flows as registered.
    pub flows: &'a SharedFlows,
    /// How the run names itself.
    pub run: RunStart,
    /// Bounds of a line.
    pub tail: TailOptions,
}

/// Rebuilds what came after the records the engine has.
pub fn rebuild(
    machine: &Machine,
    places: &Places<'_>,
    engine: Engine,
    by: Rules<'_>,
    report: &mut RecoveryReport,
    progress: &mut dyn FnMut(f64),
) -> Result<Engine, RecoverError> {
    let disk = &machine.disk;
    let now = machine.clock.now();
    let Rules { flows, run, tail } = by;
    report.records_kept = engine.log().head().0.0;
    let evidence = Evidence::read(disk, places, engine.log().head().0, report)?;
    let mut recovery =
        Recovery { engine, evidence, report, now, flows, later: Vec::new(), lost: BTreeSet::new() };
    recovery.engine.begin_run(run, now)?;
    recovery.commit(None)?;
    recovery.earlier_requests()?;
    recovery.queue_lines(disk, places, tail, progress)?;
    recovery.what_had_to_wait()?;
    recovery.acks_without_lines()?;
    recovery.adopt_outputs()?;
    recovery.finish()
}

/// The last word of the acks on one request or line.
#[derive(Debug, Clone)]
struct Fate {
    ack: Ack,
    /// Whether it was taken in for work before it ended.
    accepted: bool,
    used: bool,
}

#[derive(Debug, Clone, Deserialize)]
struct Ack {
    ack_seq: u64,
    at: String,
    idempotency_key: Option<String>,
    line: Option<u64>,
    log_head: String,
    message: Option<String>,
    offset: Option<u64>,
    reason_code: Option<String>,
    request_id: Option<String>,
    status: String,
    summary: Option<AckSummary>,
    warnings: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct AckSummary {
    day: String,
    stream: String,
    summary_id: String,
}

impl Ack {
    fn status(&self) -> Option<AckStatus> {
        AckStatus::parse(&self.status)
    }

    fn reason(&self) -> Option<ReasonCode> {
        self.reason_code.as_deref().and_then(ReasonCode::parse)
    }

    fn warnings(&self) -> Warnings {
        let known = Warning::ALL.iter().filter(|w| self.warnings.iter().any(|s| s == w.as_str()));
        known.fold(Warnings::default(), |set, warning| set.with(*warning))
    }

    fn pointer(&self) -> Option<SummaryPointer> {
        let AckSummary { day, stream, summary_id } = self.summary.as_ref()?;
        Some(SummaryPointer {
            summary_id: summary_id.clone(),
            stream: Stream::parse(stream)?,
            day: day.parse().ok()?,
        })
    }

    fn is_open(&self) -> bool {
        matches!(self.status(), Some(AckStatus::Accepted | AckStatus::FailedTransient))
    }

    /// What the log that is lost said of it.
    fn origin(&self) -> Recovered {
        let log_head = self.log_head.parse().ok();
        Recovered { ack_seq: Seq(self.ack_seq), log_head, at: self.at.clone() }
    }

    /// What is known of the input of an attempt that only the ack tells of.
    fn input(&self) -> Box<InputFacts> {
        Box::new(InputFacts { recovered: Some(self.origin()), ..InputFacts::default() })
    }
}

/// A published summary.
struct Output {
    pointer: SummaryPointer,
    line: Vec<u8>,
}

/// What the files say.
struct Evidence {
    /// By place in the queue; a place without an ack was parked or never read.
    fates: BTreeMap<u64, Fate>,
    outputs: BTreeMap<String, Output>,
    /// Inputs of each partition, as its manifest lists them; taken by the first item of it.
    inputs: BTreeMap<(Stream, String), Value>,
    /// Where unfinished lines were cut off.
    cuts: BTreeSet<u64>,
    /// The end of the last line anything tells of; 0 when nothing does.
    consumed: u64,
}

impl Evidence {
    fn read(
        disk: &Arc<dyn Disk>,
        places: &Places<'_>,
        kept: Seq,
        report: &mut RecoveryReport,
    ) -> Result<Evidence, RecoverError> {
        let mut evidence = Evidence {
            fates: BTreeMap::new(),
            outputs: BTreeMap::new(),
            inputs: BTreeMap::new(),
            cuts: BTreeSet::new(),
            consumed: 0,
        };
        each_line(disk, places.acks, &mut |line| match serde_json::from_slice::<Ack>(line) {
            Ok(ack) if ack.ack_seq <= kept.0 => {}
            Ok(ack) => {
                report.acks_read += 1;
                evidence.note(ack);
            }
            Err(_) => report.acks_unreadable += 1,
        })?;
        each_line(disk, places.quarantine, &mut |line| evidence.note_bad_line(line))?;
        evidence.read_bus(places.buses, report);
        Ok(evidence)
    }

    fn note(&mut self, ack: Ack) {
        let Some(offset) = ack.offset else { return };
        self.consumed = self.consumed.max(offset + 1);
        let accepted = ack.status() == Some(AckStatus::Accepted);
        match self.fates.get_mut(&offset) {
            Some(fate) => {
                fate.accepted |= accepted;
                fate.ack = ack;
            }
            None => drop(self.fates.insert(offset, Fate { ack, accepted, used: false })),
        }
    }

    fn note_bad_line(&mut self, line: &[u8]) {
        let Ok(record) = serde_json::from_slice::<Value>(line) else { return };
        let (Some(offset), Some(length)) = (record["offset"].as_u64(), record["length"].as_u64())
        else {
            return;
        };
        self.consumed = self.consumed.max(offset + 1);
        if record["reason"] == QuarantineReason::PartialLine.as_str() {
            self.cuts.insert(offset + length);
        }
    }

    /// Partitions that are what their manifest says. Of one that is not, nothing is trusted.
    fn read_bus(&mut self, buses: &Path, report: &mut RecoveryReport) {
        let Ok(bus) = SummaryBus::open(buses) else { return };
        for stream in Stream::ALL {
            for day in bus.days(*stream).unwrap_or_default() {
                let partition = match bus.partition(*stream, day) {
                    Ok(partition) => partition,
                    Err(error) => {
                        let what = format!("{stream} {day}: {error}");
                        let means = "a published day that is not what its manifest says; its \
                                     summaries are made again";
                        lose(report, "damaged_partitions", means, &what);
                        continue;
                    }
                };
                let inputs = partition.manifest["inputs"].clone();
                self.inputs.insert((*stream, day.to_string()), inputs);
                for line in partition.data().split(|byte| *byte == b'\n') {
                    let Ok(value) = serde_json::from_slice::<Value>(line) else { continue };
                    let Some(summary_id) = value["summary_id"].as_str() else { continue };
                    let pointer =
                        SummaryPointer { summary_id: summary_id.to_owned(), stream: *stream, day };
                    let output = Output { pointer, line: line.to_vec() };
                    self.outputs.insert(summary_id.to_owned(), output);
                }
            }
        }
    }

    /// Stream, day and, for the first item of a day, the inputs its manifest names.
    fn input(&mut self, pointer: &SummaryPointer, recovered: Option<Recovered>) -> Box<InputFacts> {
        let day = pointer.day.to_string();
        let listed = self.inputs.remove(&(pointer.stream, day)).unwrap_or_default();
        let listed = listed.as_array().cloned().unwrap_or_default();
        let (selections, inputs): (Vec<Value>, Vec<Value>) =
            listed.into_iter().partition(|input| input["bus"] == "selection_manifests");
        Box::new(InputFacts {
            stream: Some(pointer.stream),
            day: Some(pointer.day),
            inputs: inputs.iter().filter_map(input_fact).collect(),
            selection: selections.first().and_then(selection_fact),
            recovered,
            ..InputFacts::default()
        })
    }
}

/// A selection manifest as a manifest lists it.
fn selection_fact(selection: &Value) -> Option<SelectionInput> {
    let text = |name: &str| selection[name].as_str();
    Some(SelectionInput {
        path: text("path")?.to_owned(),
        sha256: text("data_hash")?.parse().ok()?,
        selection_hash: text("selection_hash").unwrap_or_default().to_owned(),
    })
}

/// An input as a manifest lists it, in the words of the events.
fn input_fact(input: &Value) -> Option<UpstreamInput> {
    let known = |name: &str| input[name].as_str().filter(|text| !text.is_empty());
    Some(UpstreamInput {
        path: known("path")?.to_owned(),
        bus: Bus::parse(known("bus")?)?,
        partition: known("partition").unwrap_or_default().to_owned(),
        data_sha256: known("data_hash").and_then(|hash| hash.parse().ok()),
        data_bytes: None,
        manifest_path: known("manifest_path").map(str::to_owned),
        manifest_sha256: known("manifest_hash").and_then(|hash| hash.parse().ok()),
        schema_version: known("schema_version_emitted").map(str::to_owned),
    })
}

/// Looks at the lines of a file, if there is one, a line at a time.
fn each_line(
    disk: &Arc<dyn Disk>,
    path: &Path,
    look: &mut dyn FnMut(&[u8]),
) -> Result<(), RecoverError> {
    let failed = |source| RecoverError::Evidence { path: path.display().to_string(), source };
    let Some(stat) = disk.stat(path).map_err(failed)? else { return Ok(()) };
    let mut lines = Lines::new(disk.open(path, Open::Read).map_err(failed)?, stat.len);
    while let Some((_, line)) = lines.next_line().map_err(failed)? {
        if !line.is_empty() {
            look(line);
        }
    }
    Ok(())
}

struct Recovery<'a> {
    engine: Engine,
    evidence: Evidence,
    report: &'a mut RecoveryReport,
    now: Timestamp,
    flows: &'a SharedFlows,
    /// Requests that ended as duplicates of work that may not be known yet.
    later: Vec<(Seq, Ack)>,
    /// Summaries that acks name and nobody publishes.
    lost: BTreeSet<String>,
}

impl Recovery<'_> {
    fn commit(&mut self, mark: Option<Vec<u8>>) -> Result<(), RecoverError> {
        while self.engine.state().has_unsettled() {
            self.engine.settle(self.now)?;
        }
        self.engine.commit(mark, CheckpointWhen::Due, &[], self.now)?;
        Ok(())
    }

    /// Acks about requests that the kept records still hold open.
    fn earlier_requests(&mut self) -> Result<(), RecoverError> {
        let position = QueueMark::decode(&self.engine.log().mark())?.position;
        // By place: one request id may have been taken in more than once.
        let mut open = BTreeMap::new();
        {
            let past = self.engine.past();
            for (seq, _) in self.engine.state().open_from(Seq(0)) {
                let head = past.head(seq).map_err(EngineError::from)?;
                open.insert((head.offset, head.request_id), seq);
            }
        }
        let before: Vec<u64> =
            self.evidence.fates.range(..position.offset).map(|(offset, _)| *offset).collect();
        for offset in before {
            let Some(fate) = self.evidence.fates.get_mut(&offset) else { continue };
            fate.used = true;
            let ack = fate.ack.clone();
            let Some(request_id) = ack.request_id.clone() else { continue };
            let Some(seq) = open.get(&(offset, request_id)).copied() else { continue };
            match self.engine.state().open_request(seq).map(|open| open.row.status) {
                Some(Status::Parked | Status::Held) => self.later.push((seq, ack)),
                Some(_) => self.end(seq, ack)?,
                None => {}
            }
        }
        self.commit(None)
    }

    fn queue_lines(
        &mut self,
        disk: &Arc<dyn Disk>,
        places: &Places<'_>,
        tail: TailOptions,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(), RecoverError> {
        let old = QueueMark::decode(&self.engine.log().mark())?.position;
        let start = self.where_to_read(disk, places.queue, &old)?;
        let until = self.evidence.consumed;
        // A line is cut off only where it is known to have been.
        let len = disk.stat(places.queue).ok().flatten().map_or(0, |stat| stat.len);
        let ends_cut = self.evidence.cuts.contains(&len);
        let grace = if ends_cut { 0 } else { i64::MAX / 4 };
        let tail = TailOptions { partial_line_grace_ms: grace, ..tail };
        let mut tailer = Tailer::open(Arc::clone(disk), places.queue, start, tail)?;
        let mut shift = 0;
        while tailer.position().offset < until {
            // What nobody told of is new: the next run takes it in. So exactly up to the last
            // line that is known, whose first byte is the last one before `until`.
            let left = until - tailer.position().offset;
            let lines = if left == 1 { 1 } else { LINES_AT_ONCE };
            let bytes = usize::try_from(left).unwrap_or(BYTES_AT_ONCE).min(BYTES_AT_ONCE);
            let Some(mut batch) = tailer.next_batch(self.now, lines, bytes)? else { break };
            shift = cut_where_cut(&mut batch, &self.evidence.cuts, shift);
            self.take(&batch)?;
            tailer.sync()?;
            let mark = QueueMark { position: batch.end, consumed: Some(batch.consumed) };
            self.commit(Some(mark.encode()))?;
            progress(tailer.position().offset as f64 / until.max(1) as f64);
        }
        Ok(())
    }

    /// Where to go on in the queue as it is now.
    fn where_to_read(
        &mut self,
        disk: &Arc<dyn Disk>,
        queue: &Path,
        old: &Position,
    ) -> Result<Position, RecoverError> {
        let Some(change) = describe_change(disk, queue, old)? else { return Ok(old.clone()) };
        self.report.queue_change = Some(format!("the queue file {change}"));
        let at = match change {
            Change::Replaced { same_bytes: true } => AdoptAt::SameOffset,
            _ => AdoptAt::Start,
        };
        if at == AdoptAt::Start {
            // Places mean something else now; ids and keys still make known lines duplicates.
            self.evidence.fates.values_mut().for_each(|fate| fate.used = true);
            self.evidence.consumed = 0;
        }
        let adopted = adopt_position(disk, queue, old, at)?;
        let offset = adopted.position.offset;
        let event = Event::QueueAdopted { change: change.to_string(), offset };
        self.engine.record(event, self.now)?;
        let mark = QueueMark { position: adopted.position.clone(), consumed: adopted.passed };
        self.commit(Some(mark.encode()))?;
        Ok(adopted.position)
    }

    fn take(&mut self, batch: &Batch) -> Result<(), RecoverError> {
        for span in &batch.lines {
            self.report.lines += 1;
            match parse_line(batch, span).content {
                LineContent::Blank => {}
                LineContent::Quarantined(line) => {
                    if let Some(fate) = self.evidence.fates.get_mut(&span.offset) {
                        fate.used = true;
                    }
                    self.engine.bad_line(*line, self.now)?;
                }
                LineContent::Request(request) => {
                    let flows = Arc::clone(&self.flows.read());
                    let text = crate::seam::arrival::request_bytes(batch, span);
                    let place = (span.number, span.offset);
                    let arrived = arrival(*request, place, text, flows.as_ref());
                    self.request(arrived, span.offset)?;
                }
            }
        }
        Ok(())
    }

    /// A request comes in as it did, and ends as it ended.
    fn request(&mut self, mut arrived: Arrival, offset: u64) -> Result<(), RecoverError> {
        let id = arrived.request.head.request_id.clone();
        let fate = self.evidence.fates.get_mut(&offset).filter(|fate| !fate.used);
        let fate = fate.filter(|fate| fate.ack.request_id.as_deref() == Some(&id)).map(|fate| {
            fate.used = true;
            fate.clone()
        });
        if let Some(fate) = &fate {
            as_it_was(&mut arrived, fate);
        }
        self.engine.arrival(arrived, self.now)?;
        let seq = self.engine.state().applied;
        let Some(status) = self.engine.state().open_request(seq).map(|open| open.row.status) else {
            self.report.ended += 1;
            return Ok(());
        };
        match fate {
            Some(fate) if status == Status::Parked => self.later.push((seq, fate.ack)),
            Some(fate) => self.end(seq, fate.ack)?,
            None => {}
        }
        Ok(())
    }

    /// Ends an open request the way its last ack says.
    fn end(&mut self, seq: Seq, ack: Ack) -> Result<(), RecoverError> {
        if ack.is_open() {
            return Ok(());
        }
        match ack.status() {
            Some(AckStatus::Completed) => match ack.pointer() {
                Some(pointer) => self.produced(seq, &ack, pointer),
                None => {
                    let reason = ack.reason().unwrap_or(ReasonCode::SkippedEmptyContent);
                    self.day_unknown(&ack);
                    self.tried(seq, Outcome::Skipped { reason, input: ack.input() })
                }
            },
            Some(AckStatus::Duplicate) => {
                self.later.push((seq, ack));
                Ok(())
            }
            Some(AckStatus::FailedPermanent) if ack.reason() == Some(ReasonCode::Cancelled) => {
                self.report.ended += 1;
                let id = ack.request_id.clone().unwrap_or_default();
                Ok(self.engine.cancel(&id, self.now)?)
            }
            Some(AckStatus::FailedPermanent) => self.failed(seq, &ack, Again::Never),
            Some(AckStatus::RejectedInvalidInput) => self.failed(seq, &ack, Again::InvalidInput),
            _ => Ok(()),
        }
    }

    fn failed(&mut self, seq: Seq, ack: &Ack, again: Again) -> Result<(), RecoverError> {
        self.day_unknown(ack);
        let message = ack.message.clone().unwrap_or_default();
        let (reason, input) = (ack.reason(), ack.input());
        self.tried(seq, Outcome::Failed(Failed { again, reason, message, input, error: None }))
    }

    fn day_unknown(&mut self, ack: &Ack) {
        let means = "skipped and failed requests whose day is not known: they count on the day \
                     they were made";
        lose(self.report, "days", means, ack.request_id.as_deref().unwrap_or_default());
    }

    fn produced(
        &mut self,
        seq: Seq,
        ack: &Ack,
        pointer: SummaryPointer,
    ) -> Result<(), RecoverError> {
        let Some(output) = self.evidence.outputs.get(&pointer.summary_id) else {
            let means = "summaries that are no longer published: their requests are open again";
            if self.lost.insert(pointer.summary_id.clone()) {
                lose(self.report, "outputs", means, &pointer.summary_id);
            }
            return Ok(());
        };
        let (summary, item) = (output.pointer.clone(), output.line.clone());
        let input = self.evidence.input(&summary, Some(ack.origin()));
        self.report.outputs_recognized += 1;
        let warnings = ack.warnings();
        self.tried(seq, Outcome::Produced { summary, item, warnings, input, provenance: None })
    }

    /// One try that came to this.
    fn tried(&mut self, seq: Seq, outcome: Outcome) -> Result<(), RecoverError> {
        let Some(open) = self.engine.state().open_request(seq) else { return Ok(()) };
        let attempt = open.row.attempts + 1;
        if !matches!(open.row.status, Status::Waiting | Status::Backoff) {
            return Ok(());
        }
        if !matches!(outcome, Outcome::Produced { .. }) {
            self.report.ended += 1;
        }
        self.engine.record(Event::AttemptStarted { request: seq, attempt }, self.now)?;
        let epoch = self.engine.state().epoch();
        self.engine.report(Said { request: seq, attempt, epoch, outcome }, self.now)?;
        Ok(())
    }

    /// Identical work and taken keys: the other request may have come later in the queue, or may
    /// have ended without an output.
    fn what_had_to_wait(&mut self) -> Result<(), RecoverError> {
        self.commit(None)?;
        for (seq, ack) in std::mem::take(&mut self.later) {
            if ack.status() != Some(AckStatus::Duplicate) {
                self.end(seq, ack)?;
                self.commit(None)?;
                continue;
            }
            let Some(pointer) = ack.pointer() else { continue };
            if !self.knows(&pointer.summary_id)? {
                // Nobody known made it: it counts as this request's own.
                self.produced(seq, &ack, pointer)?;
                continue;
            }
            let (input, warnings) = (ack.input(), ack.warnings());
            let sources = Box::default();
            self.tried(seq, Outcome::Resolved { summary: pointer, warnings, input, sources })?;
        }
        self.commit(None)
    }

    fn knows(&self, summary_id: &str) -> Result<bool, RecoverError> {
        let past = self.engine.past();
        let item = item_digest(summary_id).head();
        let found = self.engine.state().find(&past, KeyIndex::SummaryId, &item);
        Ok(found.map_err(EngineError::from)?.is_some_and(|seq| seq != Seq(0)))
    }

    /// Requests whose line is gone but whose ack names a summary keep their id and key.
    fn acks_without_lines(&mut self) -> Result<(), RecoverError> {
        let fates = std::mem::take(&mut self.evidence.fates);
        for fate in fates.into_values().filter(|fate| !fate.used) {
            let ack = fate.ack;
            let id = ack.request_id.clone().unwrap_or_default();
            let completed = ack.status() == Some(AckStatus::Completed);
            let output = ack.pointer().filter(|_| completed);
            let Some(pointer) = output else {
                let means = "requests known only by their acks: their queue lines are gone";
                lose(self.report, "requests", means, &id);
                continue;
            };
            if !self.evidence.outputs.contains_key(&pointer.summary_id)
                || self.knows(&pointer.summary_id)?
            {
                continue;
            }
            let means = "completed requests whose text is gone with the queue; id, key and \
                         summary are known";
            lose(self.report, "request_texts", means, &id);
            let key = ack.idempotency_key.clone().unwrap_or_else(|| id.clone());
            let head = AckHead {
                request_id: id,
                key,
                line: ack.line.unwrap_or(0),
                offset: ack.offset.unwrap_or(0),
            };
            self.made_by(head, &pointer.summary_id, Some(ack.origin()), ack.warnings())?;
            self.report.outputs_recognized += 1;
        }
        self.commit(None)
    }

    /// Published summaries that nobody is known to have asked for.
    fn adopt_outputs(&mut self) -> Result<(), RecoverError> {
        let ids: Vec<String> = self.evidence.outputs.keys().cloned().collect();
        for (index, summary_id) in ids.iter().enumerate() {
            if self.knows(summary_id)? {
                continue;
            }
            let name = format!("recovered:{summary_id}");
            let head = AckHead { request_id: name.clone(), key: name, line: 0, offset: 0 };
            self.made_by(head, summary_id, None, Warnings::default())?;
            self.report.outputs_adopted += 1;
            if index % LINES_AT_ONCE == 0 {
                self.commit(None)?;
            }
        }
        self.commit(None)
    }

    /// A request that is known by what came of it.
    fn made_by(
        &mut self,
        head: AckHead,
        summary_id: &str,
        origin: Option<Recovered>,
        warnings: Warnings,
    ) -> Result<(), RecoverError> {
        let Some(output) = self.evidence.outputs.get(summary_id) else { return Ok(()) };
        let item: Value = serde_json::from_slice(&output.line).unwrap_or_default();
        let template = item["prompt"]["template_id"].as_str().unwrap_or_default();
        let (flow_id, variant) = match template.split_once('@') {
            Some((flow, variant)) => (flow.to_owned(), Some(variant.to_owned())),
            None => (template.to_owned(), None),
        };
        let kind = match output.pointer.stream {
            Stream::Events => SummaryKind::EventSummary,
            Stream::Sessions => SummaryKind::SessionSummary,
            Stream::Documents => SummaryKind::DocumentSummary,
            Stream::ChunkSets => SummaryKind::ChunkSetSummary,
        };
        let created_at = item["ts_abs_ms"].as_i64().map_or(self.now, Timestamp);
        let (summary, line) = (output.pointer.clone(), output.line.clone());
        let request = TakenRequest {
            key: key_digest(&head.key),
            id: sha256(&head.request_id),
            work: sha256(format!("recovered:{summary_id}")).head(),
            producer: "recovered".to_owned(),
            flow_id,
            variant,
            kind,
            bus: None,
            priority: 5,
            urgency: Urgency::Now,
            created_at,
            not_before: None,
            deadline: None,
            warnings: Warnings::default(),
            previous: None,
            supersedes: None,
            // What was asked is not known; nothing is made up for it.
            line: b"{}".to_vec().into(),
            head,
        };
        let request = Box::new(request);
        self.engine
            .arrival(Arrival { request, flow: FlowStanding::Active, refused: None }, self.now)?;
        let seq = self.engine.state().applied;
        let input = self.evidence.input(&summary, origin);
        self.tried(
            seq,
            Outcome::Produced { summary, item: line, warnings, input, provenance: None },
        )
    }

    fn finish(mut self) -> Result<Engine, RecoverError> {
        self.report.open = self.engine.state().open_count() as u64;
        if self.report.records_lost {
            let means = "histories of tries, paid answers without a summary, run and digest \
                         records of the lost part: only files tell of them";
            self.report.unknown.entry("histories".to_owned()).or_default().means = means.to_owned();
        }
        let report = Box::new(self.report.clone());
        self.engine.record(Event::LogRecovered(report), self.now)?;
        self.engine.finish_run(RunEnd::Clean, SessionReport::default(), self.now)?;
        self.commit(None)?;
        self.engine.commit(None, CheckpointWhen::Changed, &[], self.now)?;
        Ok(self.engine)
    }
}

/// The registry and the rules may have changed since: what was refused stays refused for the
/// reason it was given, and what was taken in stays taken in.
fn as_it_was(arrived: &mut Arrival, fate: &Fate) {
    arrived.request.warnings = arrived.request.warnings.union(fate.ack.warnings());
    let message = fate.ack.message.clone().unwrap_or_default();
    match (fate.ack.status(), fate.accepted) {
        (Some(AckStatus::RejectedUnknownFlow), _) => {
            arrived.flow = match fate.ack.reason() {
                Some(ReasonCode::FlowDisabled) => FlowStanding::Disabled,
                Some(ReasonCode::UnknownVariant) => FlowStanding::UnknownVariant,
                _ => FlowStanding::Unknown,
            };
        }
        (Some(AckStatus::RejectedInvalidInput), false)
            if fate.ack.reason() != Some(ReasonCode::RequestIdConflict) =>
        {
            arrived.refused = fate.ack.reason().map(|reason| (reason, message));
        }
        _ => {
            arrived.refused = None;
            arrived.flow = FlowStanding::Active;
        }
    }
}

/// The digest of a key that is known by its text.
fn key_digest(text: &str) -> Digest {
    let derived = text.strip_prefix("derived:").and_then(|hex| hex.parse().ok());
    derived.unwrap_or_else(|| Hasher::new().update("given:").update(text).finish())
}

/// Splits lines where an unfinished one had been cut off before more was appended. `shift` is how
/// many lines earlier cuts made of one.
fn cut_where_cut(batch: &mut Batch, cuts: &BTreeSet<u64>, mut shift: u64) -> u64 {
    let mut lines = Vec::with_capacity(batch.lines.len());
    for mut line in std::mem::take(&mut batch.lines) {
        let end = line.offset + line.length;
        let inside: Vec<u64> = match line.form {
            LineForm::Whole => cuts.range(line.offset + 1..=end).copied().collect(),
            _ => Vec::new(),
        };
        line.number += shift;
        for cut in inside {
            let length = cut - line.offset;
            let middle = line.range.start + length as usize;
            lines.push(LineSpan {
                number: line.number,
                offset: line.offset,
                length,
                range: line.range.start..middle,
                form: LineForm::Partial,
            });
            line = LineSpan {
                number: line.number + 1,
                offset: cut,
                length: line.length - length,
                range: middle..line.range.end,
                form: LineForm::Whole,
            };
            shift += 1;
        }
        lines.push(line);
    }
    batch.lines = lines;
    batch.end.lines += shift;
    shift
}
