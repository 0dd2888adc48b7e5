//! Compacts a run log file: takes the snapshots that are due, resumes after existing snapshots, or
//! rebuilds them and compares.
//!
//! A snapshot that fails its checks is built a second time after events, ledger and snapshots were
//! read again from disk. If it fails again the run stops, and the snapshots in force stay. Log
//! positions are not stored, because verbose events would move them. The place of a stored snapshot
//! is found by its content. Beside it is the hash of all events that it covers, verbose ones left out,
//! so that a log whose known lines changed is refused.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::agent_runs::facts::DIFFERS;
use super::build::{BuildPass, BuiltSnapshot, SnapshotForm};
use super::compactor::{Compactor, stop_events};
use super::event::{Class, RunEvent};
use super::files::{Put, SnapshotStore, StoreError, Stored};
use super::fold::InputError;
use super::previous::Previous;
use super::reader::{RunLogReadError, RunLogReader};
use super::snapshot::{FailureAction, Snapshot};
use super::spill;
use super::trigger::Thresholds;
use crate::contract::hash::{Digest, sha256};
use crate::export::difference::Difference;
use crate::os::Disk;

/// What to do with a run log.
pub struct CompactionJob<'a> {
    /// Where the log is read from.
    pub disk: &'a dyn Disk,
    pub log: PathBuf,
    pub store: SnapshotStore,
    pub thresholds: Thresholds,
    pub form: SnapshotForm,
    /// Take one at the end, due or not.
    pub now: bool,
    /// Continue after the stored snapshots instead of starting at the beginning.
    pub resume: bool,
}

/// Why a run log was not compacted to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunLogError {
    /// The log is missing, damaged or not a run log.
    #[error(transparent)]
    Log(#[from] RunLogReadError),
    /// An event makes no sense where it stands.
    #[error("line {line}: {event}: {source}")]
    Input { line: u64, event: String, source: InputError },
    /// Snapshots cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored snapshot was not made from this log.
    #[error("snapshot {sequence} of run {run_id} was not made from this log")]
    Foreign { run_id: String, sequence: u64 },
    /// An event that a stored snapshot covers is not what it was.
    #[error(
        "an event of run {run_id} up to line {line} is not the one that its snapshot was made from"
    )]
    Changed { run_id: String, line: u64 },
    /// There is no event in the log.
    #[error("read the run log: it has no events")]
    Empty,
}

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenSnapshot {
    pub snapshot_id: String,
    /// Its place in the run.
    pub sequence: u64,
    /// The last event it covers.
    pub to_seq: u64,
    /// Size of its file.
    pub bytes: u64,
    /// False when it was there already.
    pub written: bool,
    /// True when it passed only after everything was read again.
    pub retried: bool,
}

/// A run stopped by its gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateFailure {
    /// The snapshot that did not pass; it has no place in the sequence.
    pub snapshot: Snapshot,
    /// What to append to the run's log.
    pub events: [RunEvent; 2],
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompactionReport {
    pub run_id: String,
    pub events: u64,
    /// Snapshots that were in force before.
    pub resumed_after: u64,
    pub taken: Vec<TakenSnapshot>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// How it stopped, when it did not reach the end.
    pub failed: Option<GateFailure>,
}

/// The hash of all that the events so far say, one over the other, and how many they are. Verbose
/// events may come and go.
struct Covered {
    events: u64,
    hash: Digest,
    /// What stored snapshots say they cover, by how many events that is and by their place.
    stored: BTreeMap<(u64, u64), String>,
    /// Snapshots whose file says something else, and those without one.
    unreadable: Vec<u64>,
    missing: Vec<u64>,
}

impl Covered {
    fn new() -> Covered {
        Covered {
            events: 0,
            hash: sha256(""),
            stored: BTreeMap::new(),
            unreadable: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Reads what the snapshots of a run cover.
    fn load(
        &mut self,
        store: &SnapshotStore,
        run_id: &str,
        snapshots: u64,
    ) -> Result<(), StoreError> {
        for sequence in 1..=snapshots {
            let Some(bytes) = store.beside(run_id, &covered_name(sequence))? else {
                self.missing.push(sequence);
                continue;
            };
            let text = String::from_utf8(bytes).unwrap_or_default();
            let events = text.trim_end().split_once("  ").and_then(|(_, count)| count.parse().ok());
            match events {
                Some(events) => _ = self.stored.insert((events, sequence), text),
                None => self.unreadable.push(sequence),
            }
        }
        Ok(())
    }

    /// Takes in an event with the hash of all that its line says. Returns the stored snapshots that
    /// cover other events than those up to this one.
    fn add(&mut self, event: &RunEvent, whole: Option<Digest>) -> Vec<u64> {
        let Some(whole) = whole.filter(|_| event.class() != Class::Verbose) else {
            return Vec::new();
        };
        let before = self.hash.hex();
        self.hash = sha256(format!("{before}\n{}", whole.hex()));
        self.events += 1;
        let mut others = Vec::new();
        while let Some(first) = self.stored.first_entry()
            && first.key().0 <= self.events
        {
            let ((events, sequence), text) = first.remove_entry();
            if events < self.events || text != self.text() {
                others.push(sequence);
            }
        }
        others
    }

    fn text(&self) -> String {
        format!("{}  {}\n", self.hash.hex(), self.events)
    }
}

/// The file beside a snapshot that says which events it covers, behind the place of the snapshot.
const COVERED: &str = "events.sha256";
const NO_COVERAGE: &str = "it does not say which events the snapshot covers";

fn covered_name(sequence: u64) -> String {
    format!("{sequence}.{COVERED}")
}

/// Compacts a run log; `progress` gets the bytes read.
pub fn compact(
    job: &CompactionJob<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<CompactionReport, RunLogError> {
    let mut pass = Pass {
        job,
        compactor: Compactor::new(job.thresholds),
        pending: None,
        cuts: Vec::new(),
        covered: Covered::new(),
        report: CompactionReport::default(),
    };
    let mut reader = RunLogReader::open(job.disk, &job.log)?;
    while let Some(event) = reader.next_event()? {
        progress(reader.bytes_read());
        if pass.step(&event, reader.line(), reader.whole())? == Flow::Stop {
            return Ok(pass.finish(&reader));
        }
    }
    pass.end(reader.line())?;
    Ok(pass.finish(&reader))
}

#[derive(PartialEq, Eq)]
enum Flow {
    GoOn,
    Stop,
}

/// One pass over a log, taking snapshots.
struct Pass<'a> {
    job: &'a CompactionJob<'a>,
    compactor: Compactor,
    /// Stored snapshots whose place was not reached yet; `None` before the run is known.
    pending: Option<VecDeque<Stored>>,
    /// The last event each snapshot in force covers.
    cuts: Vec<u64>,
    covered: Covered,
    report: CompactionReport,
}

impl Pass<'_> {
    fn step(
        &mut self,
        event: &RunEvent,
        line: u64,
        whole: Option<Digest>,
    ) -> Result<Flow, RunLogError> {
        if self.pending.is_none() {
            self.begin(event)?;
        }
        self.pass_stored(Some(event));
        if self.is_live() && self.compactor.due_before(event) && self.take()? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        fold(&mut self.compactor, event, line)?;
        if !self.covered.add(event, whole).is_empty() {
            return Err(RunLogError::Changed { run_id: self.report.run_id.clone(), line });
        }
        self.report.events += 1;
        if self.is_live() && self.compactor.due() {
            return self.take();
        }
        Ok(Flow::GoOn)
    }

    fn begin(&mut self, event: &RunEvent) -> Result<(), RunLogError> {
        let store = &self.job.store;
        self.report.run_id = event.run_id.to_string();
        store.sweep(&event.run_id)?;
        let mut pending = VecDeque::new();
        if self.job.resume {
            for sequence in 1..=store.count(&event.run_id)? {
                let stored = store.load(&event.run_id, sequence)?;
                if let Some(reason) = stored.fault {
                    let path = store.snapshot_path(&event.run_id, sequence);
                    return Err(StoreError::Damaged { path, reason }.into());
                }
                pending.push_back(stored);
            }
        }
        self.report.resumed_after = pending.len() as u64;
        self.covered.load(store, &event.run_id, pending.len() as u64)?;
        // A snapshot without the file agrees with every log.
        if let Some(sequence) = self.covered.unreadable.first() {
            let path = store.beside_path(&event.run_id, &covered_name(*sequence));
            return Err(StoreError::Damaged { path, reason: NO_COVERAGE.to_owned() }.into());
        }
        self.pending = Some(pending);
        Ok(())
    }

    fn is_live(&self) -> bool {
        self.pending.as_ref().is_some_and(VecDeque::is_empty)
    }

    /// Puts the next stored snapshot in force when this is its place.
    fn pass_stored(&mut self, next: Option<&RunEvent>) {
        let Some(stored) = self.pending.as_ref().and_then(VecDeque::front) else { return };
        if !is_place(stored, &self.compactor, next) {
            return;
        }
        let previous = previous_of(stored, &self.compactor);
        self.cuts.push(self.compactor.fold_state().seq);
        self.compactor.adopt(previous);
        if let Some(pending) = &mut self.pending {
            pending.pop_front();
        }
    }

    fn end(&mut self, line: u64) -> Result<(), RunLogError> {
        if self.pending.is_none() {
            return Err(RunLogError::Empty);
        }
        self.pass_stored(None);
        if let Some(stored) = self.pending.as_ref().and_then(VecDeque::front) {
            let sequence = stored.snapshot.sequence;
            return Err(RunLogError::Foreign { run_id: self.report.run_id.clone(), sequence });
        }
        // A snapshot that covers more events than there are.
        if !self.covered.stored.is_empty() {
            return Err(RunLogError::Changed { run_id: self.report.run_id.clone(), line });
        }
        if self.job.now && self.compactor.has_news() {
            self.take()?;
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Flow, RunLogError> {
        let Some(mut built) = self.compactor.build(BuildPass::First, self.job.form) else {
            return Ok(Flow::GoOn);
        };
        let retried = !built.snapshot.passes();
        if retried {
            let to_seq = self.compactor.fold_state().seq;
            let (again, covered) = reread(self.job, &self.cuts, to_seq)?;
            let stored = std::mem::take(&mut self.covered.stored);
            self.covered = Covered { stored, ..covered };
            let second = again.build(BuildPass::Second, self.job.form);
            let Some(second) = second else { return Ok(Flow::GoOn) };
            self.compactor = again;
            built = second;
        }
        if !built.snapshot.passes() {
            let events = stop_events(&built.snapshot, self.compactor.fold_state());
            self.report.failed = Some(GateFailure { snapshot: built.snapshot, events });
            return Ok(Flow::Stop);
        }
        let covered = (covered_name(built.snapshot.sequence), self.covered.text());
        let put = self.job.store.put(&built, &covered)?;
        let to_seq = self.compactor.fold_state().seq;
        self.report.taken.push(TakenSnapshot {
            snapshot_id: built.snapshot.snapshot_id.clone(),
            sequence: built.snapshot.sequence,
            to_seq,
            bytes: built.bytes.len() as u64,
            written: put == Put::Written,
            retried,
        });
        self.cuts.push(to_seq);
        self.compactor.adopt(built.previous);
        Ok(Flow::GoOn)
    }

    fn finish(mut self, reader: &RunLogReader) -> CompactionReport {
        let notices = &self.compactor.fold_state().notices;
        let mut warn = |count: u64, what: &str| {
            if count > 0 {
                self.report.warnings.push(format!("{count} {what}"));
            }
        };
        warn(notices.unknown_types, "events of unknown types were left in the log, unfolded");
        warn(notices.mismatched_evidence, "evidence ids do not match their chunk and span");
        warn(reader.repeats(), "events repeat an earlier event_id and were not counted");
        warn(u64::from(reader.unfinished), "unfinished last line was left for later");
        self.report
    }
}

fn fold(compactor: &mut Compactor, event: &RunEvent, line: u64) -> Result<(), RunLogError> {
    compactor.fold(event).map_err(|source| RunLogError::Input {
        line,
        event: event.to_string(),
        source,
    })
}

/// Folds the log again from the disk up to `to_seq`, with the snapshots in force read again too.
fn reread(
    job: &CompactionJob<'_>,
    cuts: &[u64],
    to_seq: u64,
) -> Result<(Compactor, Covered), RunLogError> {
    let (mut compactor, mut covered) = (Compactor::new(job.thresholds), Covered::new());
    let mut reader = RunLogReader::open(job.disk, &job.log)?;
    let mut cuts = cuts.iter().zip(1..).peekable();
    while compactor.fold_state().seq < to_seq {
        let Some(event) = reader.next_event()? else { break };
        fold(&mut compactor, &event, reader.line())?;
        covered.add(&event, reader.whole());
        if let Some((_, sequence)) = cuts.next_if(|(cut, _)| **cut == event.seq) {
            let stored = job.store.load(&event.run_id, sequence)?;
            let previous = previous_of(&stored, &compactor);
            compactor.adopt(previous);
        }
    }
    Ok((compactor, covered))
}

fn previous_of(stored: &Stored, compactor: &Compactor) -> Previous {
    let rebuilt = match stored.form() {
        SnapshotForm::Full => None,
        SnapshotForm::StrictV1 => compactor.build(BuildPass::First, SnapshotForm::StrictV1),
    };
    stored.previous(rebuilt.as_ref())
}

/// True when a stored snapshot was taken here, before `next` was folded. Between steps is the
/// natural place; inside a step it is the last place where it still says the truth.
fn is_place(stored: &Stored, compactor: &Compactor, next: Option<&RunEvent>) -> bool {
    let Some(next) = next else { return says_truth(stored, compactor) };
    if next.class() == Class::Verbose || !says_truth(stored, compactor) {
        return false;
    }
    let fold = compactor.fold_state();
    if fold.at_step_end || fold.begins_newer_step(next) || next.ts != fold.last_ts {
        return true;
    }
    let mut later = compactor.clone();
    later.fold(next).is_err() || !says_truth(stored, &later)
}

fn says_truth(stored: &Stored, compactor: &Compactor) -> bool {
    is_roughly_here(stored, compactor)
        && compactor.build(BuildPass::First, stored.form()).is_some_and(|built| {
            built.snapshot.latest_context_manifest_ids
                == stored.snapshot.latest_context_manifest_ids
                && built.snapshot.state.digest() == stored.state_digest
        })
}

fn is_roughly_here(stored: &Stored, compactor: &Compactor) -> bool {
    let (fold, counts) = (compactor.fold_state(), &stored.snapshot.counts);
    counts.steps_since_last_compaction == fold.window.steps.len() as u64
        && counts.counted_events_since_last_compaction == fold.window.counted.len() as u64
        && stored.snapshot.created_at == fold.last_ts.to_string()
}

/// Rebuilds every stored snapshot from the log and compares bytes. Returns how many were compared
/// and everything that differs.
pub fn verify(
    job: &CompactionJob<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(String, u64, Vec<Difference>), RunLogError> {
    let mut reader = RunLogReader::open(job.disk, &job.log)?;
    let mut audit: Option<Audit<'_>> = None;
    while let Some(event) = reader.next_event()? {
        progress(reader.bytes_read());
        if audit.is_none() {
            audit = Some(Audit::begin(job, &event.run_id)?);
        }
        let Some(audit) = &mut audit else { continue };
        audit.look(Some(&event))?;
        fold(&mut audit.compactor, &event, reader.line())?;
        for sequence in audit.covered.add(&event, reader.whole()) {
            audit.differ(sequence, COVERED, DIFFERS);
        }
    }
    let mut audit = audit.ok_or(RunLogError::Empty)?;
    audit.look(None)?;
    // These say that they cover more events than there are.
    for (_, sequence) in std::mem::take(&mut audit.covered.stored).into_keys() {
        audit.differ(sequence, COVERED, DIFFERS);
    }
    let unplaced = std::mem::take(&mut audit.pending);
    for sequence in unplaced {
        audit.differ(sequence, "snapshot.json", "no place in the log agrees with it");
    }
    Ok((audit.run_id, audit.count, audit.differences))
}

struct Audit<'a> {
    job: &'a CompactionJob<'a>,
    run_id: String,
    count: u64,
    compactor: Compactor,
    covered: Covered,
    pending: VecDeque<u64>,
    front: Option<Stored>,
    differences: Vec<Difference>,
}

impl<'a> Audit<'a> {
    fn begin(job: &'a CompactionJob<'a>, run_id: &str) -> Result<Audit<'a>, RunLogError> {
        let count = job.store.count(run_id)?;
        let mut audit = Audit {
            job,
            run_id: run_id.to_owned(),
            count,
            compactor: Compactor::new(job.thresholds),
            covered: Covered::new(),
            pending: (1..=count).collect(),
            front: None,
            differences: Vec::new(),
        };
        audit.covered.load(&job.store, run_id, count)?;
        for sequence in std::mem::take(&mut audit.covered.unreadable) {
            audit.differ(sequence, COVERED, DIFFERS);
        }
        for sequence in std::mem::take(&mut audit.covered.missing) {
            audit.differ(sequence, COVERED, "it is missing");
        }
        audit.load_front()?;
        Ok(audit)
    }

    /// Loads the next stored snapshot. One that cannot even be read ends the audit: where it was
    /// taken is unknown, and so is the window of every later one.
    fn load_front(&mut self) -> Result<(), RunLogError> {
        self.front = None;
        let Some(sequence) = self.pending.front().copied() else { return Ok(()) };
        match self.job.store.load(&self.run_id, sequence) {
            Ok(stored) => self.front = Some(stored),
            Err(StoreError::Damaged { reason, .. }) => {
                self.differ(sequence, "snapshot.json", &reason);
                self.pending.pop_front();
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn differ(&mut self, sequence: u64, file: &str, problem: &str) {
        self.differences.push(Difference::new(format!("{sequence}.{file}"), problem));
    }

    fn look(&mut self, next: Option<&RunEvent>) -> Result<(), RunLogError> {
        let Some(stored) = &self.front else { return Ok(()) };
        let last_chance = next.is_none_or(|next| {
            next.class() != Class::Verbose && next.ts != self.compactor.fold_state().last_ts
        });
        let here = is_place(stored, &self.compactor, next)
            || (last_chance && is_roughly_here(stored, &self.compactor));
        if !here {
            return Ok(());
        }
        let attempt = match stored.snapshot.validation.failure_action_taken {
            FailureAction::Retry => BuildPass::Second,
            FailureAction::None | FailureAction::SystemError => BuildPass::First,
        };
        let sequence = stored.snapshot.sequence;
        let (stored_bytes, form) = (stored.bytes.clone(), stored.form());
        let previous = previous_of(stored, &self.compactor);
        if let Some(built) = self.compactor.build(attempt, form) {
            self.compare(sequence, &built, &stored_bytes)?;
        }
        self.compactor.adopt(previous);
        self.pending.pop_front();
        self.load_front()
    }

    fn compare(
        &mut self,
        sequence: u64,
        built: &BuiltSnapshot,
        stored: &[u8],
    ) -> Result<(), RunLogError> {
        if built.bytes != stored {
            self.differ(sequence, "snapshot.json", DIFFERS);
        }
        let narrative = self.job.store.beside(&self.run_id, &format!("{sequence}.md"))?;
        self.compare_beside(sequence, "md", narrative, built.narrative.as_bytes());
        if let Some(spill) = &built.spill {
            let there = self.job.store.beside(&self.run_id, &spill::file_name(sequence))?;
            self.compare_beside(sequence, "spill.json", there, &spill.bytes);
        }
        Ok(())
    }

    fn compare_beside(&mut self, sequence: u64, file: &str, there: Option<Vec<u8>>, due: &[u8]) {
        match there {
            None => self.differ(sequence, file, "it is missing"),
            Some(bytes) if bytes != due => {
                self.differ(sequence, file, DIFFERS);
            }
            Some(_) => {}
        }
    }
}

/// The size of a log, for a progress bar.
pub(crate) fn log_bytes(disk: &dyn Disk, log: &Path) -> u64 {
    disk.stat(log).ok().flatten().map_or(0, |stat| stat.len)
}
