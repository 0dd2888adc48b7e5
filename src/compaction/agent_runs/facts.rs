//! What a home's log says about runs: the facts of noted events, the bodies beside them, and the
//! head of each run, which is a fold over those facts.
//!
//! A batch of run events names the batch before it, a snapshot the snapshot before it, so that a
//! run can be walked back from its head without looking at anything else in the log.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::build::BuiltSnapshot;
use super::super::resume::Sidecar;
use super::super::service_run::segment_of;
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::export::difference::Difference;
use crate::facts::agent_run::{
    AgentRunFact, EventsAppended, FileMark, SnapshotPointer, SnapshotTaken,
};
use crate::log::codec;
use crate::log::{Entry, ReadError, Reader};
use crate::state::event::Event;

/// Everything that is kept of a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotBody {
    pub snapshot: String,
    /// The narrative of exactly these bytes.
    pub narrative: String,
    /// The file of the records that do not fit into the snapshot.
    pub spill: Option<SpillText>,
    /// What the fold needs to continue from here. A run of the service starts again instead.
    pub sidecar: Option<Sidecar>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpillText {
    /// Its file name beside the snapshot.
    pub name: String,
    pub text: String,
}

impl SnapshotBody {
    /// What is kept of a snapshot just built.
    pub fn of(built: &BuiltSnapshot, sidecar: Option<Sidecar>) -> SnapshotBody {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let spill = built.spill.as_ref().map(|spill| SpillText {
            name: spill.reference.artifact.clone(),
            text: text(&spill.bytes),
        });
        let (snapshot, narrative) = (text(&built.bytes), built.narrative.clone());
        SnapshotBody { snapshot, narrative, spill, sidecar }
    }

    /// As stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a snapshot body has string keys and finite numbers")
    }
}

/// The fact of a snapshot just built.
pub(crate) fn taken_of(built: &BuiltSnapshot, to_seq: u64, previous: Seq) -> SnapshotTaken {
    SnapshotTaken {
        run_id: built.snapshot.run_id.to_string(),
        sequence: built.snapshot.sequence,
        snapshot_id: built.snapshot.snapshot_id.clone(),
        to_seq,
        previous,
        sha256: sha256(&built.bytes),
        covers: None,
        resume_from: None,
        closes: false,
    }
}

/// Reads a scanned record as a fact about a run. Records of other kinds are not even decoded.
pub(crate) fn fact_of(entry: &Entry<'_>) -> Result<Option<AgentRunFact>, ReadError> {
    if entry.tag != codec::AGENT_RUN {
        return Ok(None);
    }
    Ok(match entry.event()? {
        Event::AgentRun(fact) => Some(*fact),
        _ => None,
    })
}

/// Where a run stands in the log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunHead {
    pub last_seq: u64,
    /// The record of its last batch of events; `Seq(0)` without one.
    pub batch: Seq,
    /// The record of its snapshot in force; `Seq(0)` without one.
    pub snapshot: Seq,
    /// That snapshot's place in the run.
    pub sequence: u64,
    /// That snapshot's id.
    pub snapshot_id: String,
    /// The last event that snapshot covers.
    pub to_seq: u64,
    /// Why the gate stopped it, if it did.
    pub stopped: Option<String>,
    /// True for a run of the service itself, whose events are not stored.
    pub derived: bool,
    /// The watched file it comes from.
    pub source: Option<FileMark>,
}

impl RunHead {
    /// Takes in the fact of one record.
    pub fn apply(&mut self, seq: Seq, fact: &AgentRunFact) {
        match fact {
            AgentRunFact::EventsAppended(fact) => {
                (self.last_seq, self.batch) = (fact.last_seq, seq);
                self.source.clone_from(&fact.source);
            }
            AgentRunFact::SnapshotTaken(fact) => {
                (self.snapshot, self.sequence, self.to_seq) = (seq, fact.sequence, fact.to_seq);
                self.snapshot_id.clone_from(&fact.snapshot_id);
                self.derived = fact.covers.is_some();
            }
            AgentRunFact::CompactionFailed(fact) => {
                self.stopped = Some(fact.message.clone());
                self.derived = fact.covers.is_some();
            }
        }
    }
}

/// The name of the document that holds a run's head as of a checkpoint.
fn document(run_id: &str) -> String {
    format!("run.{run_id}")
}

/// The document that holds the overview as of a checkpoint.
const OVERVIEW: &str = "runs";

/// What `status` says about runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overview {
    /// The newest snapshot of any run that is not the service's own.
    pub latest: Option<SnapshotPointer>,
    /// The newest snapshot of the service's own session.
    pub service: Option<SnapshotPointer>,
    /// Snapshots in force.
    pub snapshots: u64,
    /// Runs and segments stopped by the gate.
    pub failed: u64,
    pub last_failure: Option<RunFailure>,
    /// The last segment of the service's own session that ended.
    pub closed: Option<ClosedSegment>,
}

/// The end of a segment of the service's own session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedSegment {
    /// The run, without the segment's number.
    pub run_id: String,
    pub segment: u64,
    /// The last event of the log that belongs to it.
    pub covers: Seq,
    /// The first event that the rest depends on: attempts may span segments.
    pub resume_from: Seq,
    /// The record that says so.
    pub seq: Seq,
}

impl ClosedSegment {
    fn of(
        seq: Seq,
        segment: &str,
        covers: Option<Seq>,
        from: Option<Seq>,
    ) -> Option<ClosedSegment> {
        let (run_id, number) = segment_of(segment)?;
        let covers = covers?;
        let resume_from = from.unwrap_or(covers.next());
        Some(ClosedSegment { run_id, segment: number, covers, resume_from, seq })
    }
}

/// Which run was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    pub run_id: String,
    pub message: String,
    /// The record that says so.
    pub seq: Seq,
}

impl Overview {
    fn apply(&mut self, seq: Seq, fact: &AgentRunFact) {
        match fact {
            AgentRunFact::EventsAppended(_) => {}
            AgentRunFact::SnapshotTaken(fact) => {
                let pointer = SnapshotPointer {
                    run_id: fact.run_id.clone(),
                    sequence: fact.sequence,
                    snapshot_id: fact.snapshot_id.clone(),
                    seq,
                };
                self.snapshots += 1;
                if fact.closes {
                    let (covers, from) = (fact.covers, fact.resume_from);
                    self.closed = ClosedSegment::of(seq, &fact.run_id, covers, from);
                }
                match fact.covers {
                    Some(_) => self.service = Some(pointer),
                    None => self.latest = Some(pointer),
                }
            }
            AgentRunFact::CompactionFailed(fact) => {
                self.failed += 1;
                if fact.covers.is_some() {
                    let (covers, from) = (fact.covers, fact.resume_from);
                    self.closed = ClosedSegment::of(seq, &fact.run_id, covers, from);
                }
                let (run_id, message) = (fact.run_id.clone(), fact.message.clone());
                self.last_failure = Some(RunFailure { run_id, message, seq });
            }
        }
    }
}

/// The heads of the runs that changed since the last checkpoint. The next checkpoint writes them.
#[derive(Debug, Clone, Default)]
pub struct RunHeads {
    changed: BTreeMap<String, RunHead>,
    /// What a checkpoint under way is writing.
    leaving: BTreeMap<String, RunHead>,
    overview: Overview,
}

impl RunHeads {
    /// As of the last checkpoint.
    pub fn open(log: &Reader) -> Result<RunHeads, ReadError> {
        Ok(RunHeads { overview: stored_overview(log)?, ..RunHeads::default() })
    }

    /// What `status` says about runs.
    pub fn overview(&self) -> &Overview {
        &self.overview
    }

    /// Takes in the next event.
    pub fn apply(&mut self, log: &Reader, seq: Seq, event: &Event) -> Result<(), ReadError> {
        let Event::AgentRun(fact) = event else { return Ok(()) };
        self.overview.apply(seq, fact);
        if !self.changed.contains_key(fact.run_id()) {
            let head = match self.leaving.get(fact.run_id()) {
                Some(head) => head.clone(),
                None => stored_head(log, fact.run_id())?.unwrap_or_default(),
            };
            self.changed.insert(fact.run_id().to_owned(), head);
        }
        if let Some(head) = self.changed.get_mut(fact.run_id()) {
            head.apply(seq, fact);
        }
        Ok(())
    }

    /// The documents of a checkpoint.
    pub fn documents(&self) -> Vec<(String, Option<Vec<u8>>)> {
        if self.changed.is_empty() {
            return Vec::new();
        }
        let overview = (OVERVIEW.to_owned(), Some(stored(&self.overview)));
        let heads = self.changed.iter().map(|(id, head)| (document(id), Some(stored(head))));
        heads.chain([overview]).collect()
    }

    /// A checkpoint of the changes has begun.
    pub(crate) fn checkpoint_begun(&mut self) {
        self.leaving = std::mem::take(&mut self.changed);
    }

    /// The checkpoint ended: the tables hold the changes.
    pub fn checkpointed(&mut self) {
        self.leaving.clear();
    }
}

fn stored<T: Serialize>(document: &T) -> Vec<u8> {
    serde_json::to_vec(document).expect("a document of runs has string keys and whole numbers")
}

/// A document of the last checkpoint. It came into the tables with that checkpoint, so one that does
/// not read is damage there.
fn read_document<T: DeserializeOwned>(log: &Reader, name: &str) -> Result<Option<T>, ReadError> {
    let Some(bytes) = log.document(name)? else { return Ok(None) };
    let read = serde_json::from_slice(&bytes);
    read.map(Some).map_err(|error| {
        ReadError::unexpected(log.applied(), format!("document {name} cannot be read: {error}"))
    })
}

fn stored_head(log: &Reader, run_id: &str) -> Result<Option<RunHead>, ReadError> {
    read_document(log, &document(run_id))
}

fn stored_overview(log: &Reader) -> Result<Overview, ReadError> {
    Ok(read_document(log, OVERVIEW)?.unwrap_or_default())
}

/// The overview as of now; its counts may include facts twice that a checkpoint just took in.
pub(crate) fn overview_of(log: &Reader) -> Result<Overview, ReadError> {
    let applied = log.applied();
    let mut overview = stored_overview(log)?;
    scan_facts(log, applied.next(), None, &mut |seq, _, fact| {
        overview.apply(seq, &fact);
        Ok(())
    })?;
    Ok(overview)
}

/// Where a run stands now: its head as of the last checkpoint, and what was noted since.
pub fn head_of(log: &Reader, run_id: &str) -> Result<RunHead, ReadError> {
    // Read the position first: facts of a checkpoint in between are then read twice, which does not
    // change the result.
    let applied = log.applied();
    let mut head = stored_head(log, run_id)?.unwrap_or_default();
    scan_facts(log, applied.next(), None, &mut |seq, _, fact| {
        if fact.run_id() == run_id {
            head.apply(seq, &fact);
        }
        Ok(())
    })?;
    Ok(head)
}

/// The day on which a person took a run back. Where no key was ever destroyed, nothing is read.
pub(super) fn forgotten_on(
    log: &Reader,
    run_id: &str,
    head: &RunHead,
) -> Result<Option<String>, ReadError> {
    let is_gone = [head.batch, head.snapshot].iter().any(|seq| log.is_forgotten(*seq));
    // A log that was made again has no event of it.
    let is_new = head.last_seq == 0 && log.has_destroyed_keys();
    if !is_gone && !is_new {
        return Ok(None);
    }
    let mut at = None;
    log.try_scan::<ReadError>(Seq(1), None, |entry| {
        if entry.tag == codec::FORGOTTEN
            && let Event::Forgotten(fact) = entry.event()?
            && fact.sources.iter().any(|id| id == run_id)
        {
            at = Some(entry.at);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let day = at.map(|at| at.day_in(chrono_tz::UTC).to_string());
    Ok(day.or_else(|| is_gone.then(|| "a day that this log does not know".to_owned())))
}

/// Calls `f` with every fact about a run in a range, in order; the `Seq` is that of its record.
pub(crate) fn scan_facts(
    log: &Reader,
    from: Seq,
    until: Option<Seq>,
    f: &mut dyn FnMut(Seq, &Entry<'_>, AgentRunFact) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    log.try_scan(from, until, |entry| {
        if let Some(fact) = fact_of(&entry)? {
            f(entry.seq, &entry, fact)?;
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// The fact a record holds.
pub(super) fn fact_at(log: &Reader, seq: Seq) -> Result<AgentRunFact, ReadError> {
    let missing = || ReadError::unexpected(seq, "no fact about a run");
    match log.event(seq)?.ok_or_else(missing)? {
        Event::AgentRun(fact) => Ok(*fact),
        _ => Err(missing()),
    }
}

/// The same of a snapshot of the service's own session, which names what was summarized: `None` for the body
/// when a person took some of that back.
pub(crate) fn own_snapshot_at(
    log: &Reader,
    seq: Seq,
) -> Result<(SnapshotTaken, Option<SnapshotBody>), ReadError> {
    match fact_at(log, seq)? {
        AgentRunFact::SnapshotTaken(fact) if log.kept_body(seq)?.is_none() => Ok((fact, None)),
        _ => snapshot_at(log, seq).map(|(fact, body)| (fact, Some(body))),
    }
}

/// A snapshot's fact and body.
pub fn snapshot_at(log: &Reader, seq: Seq) -> Result<(SnapshotTaken, SnapshotBody), ReadError> {
    let AgentRunFact::SnapshotTaken(fact) = fact_at(log, seq)? else {
        return Err(ReadError::unexpected(seq, "not a snapshot"));
    };
    let body =
        log.body(seq)?.ok_or_else(|| ReadError::unexpected(seq, "the snapshot is missing"))?;
    let body: SnapshotBody =
        serde_json::from_slice(&body).map_err(|error| ReadError::unexpected(seq, error))?;
    if sha256(&body.snapshot) != fact.sha256 {
        return Err(ReadError::unexpected(seq, "the snapshot is not the one the fact names"));
    }
    Ok((fact, body))
}

/// A batch's fact and lines.
pub(crate) fn batch_at(log: &Reader, seq: Seq) -> Result<(EventsAppended, Vec<u8>), ReadError> {
    let AgentRunFact::EventsAppended(fact) = fact_at(log, seq)? else {
        return Err(ReadError::unexpected(seq, "not a batch of run events"));
    };
    let body = log.body(seq)?.ok_or_else(|| ReadError::unexpected(seq, "the lines are missing"))?;
    if sha256(&body) != fact.sha256 {
        return Err(ReadError::unexpected(seq, "the lines are not those the fact names"));
    }
    Ok((fact, body))
}

/// What is wrong with a file whose bytes the events do not lead to.
pub(crate) const DIFFERS: &str = "its bytes are not what the log gives";

/// Where a stored snapshot is not what it is built into again.
pub fn compared(
    sequence: u64,
    stored: &SnapshotBody,
    again: Option<&SnapshotBody>,
) -> Vec<Difference> {
    let parts = |body: Option<&SnapshotBody>| match body {
        None => [None, None, None],
        Some(body) => [
            Some(body.snapshot.clone()),
            Some(body.narrative.clone()),
            body.spill.as_ref().map(|file| file.text.clone()),
        ],
    };
    let names = ["snapshot.json", "md", "spill.json"];
    let pairs = parts(Some(stored)).into_iter().zip(parts(again)).zip(names);
    pairs
        .filter(|((stored, again), _)| stored != again)
        .map(|(_, name)| Difference::new(format!("{sequence}.{name}"), DIFFERS))
        .collect()
}
