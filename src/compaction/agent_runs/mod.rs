//! The runs of a home: their events and snapshots in the home's own log.
//!
//! A run is an aggregate of its own: its events are dense from 1, appending one twice is appending
//! it once, and its snapshots are facts beside them. Lines go in through [`AgentRunWriter::append`], are
//! validated and folded one by one, and the snapshots that are due on the way are taken there; all
//! of it becomes durable in commits that hold a batch of events and the snapshots due in it.
//!
//! Contract. What is in force is what the log says: killed at any point, a run has its old snapshot
//! or the new one, and the next append takes what was due and not taken. A snapshot that fails its
//! checks is built once more after everything was read again from the log; if it fails again the
//! run is stopped for good, its events end with COMPACTION_FAILED and RUN_STOPPED, and the snapshot
//! before stays in force. Memory is bounded: a few runs are kept ready, any other is restored from
//! its snapshot and the events after it.
//!
//! It writes nothing itself: a [`Notary`] commits its notes. It does not watch files, and it does
//! not write the snapshot files, which are a projection.

pub mod facts;
mod run;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use self::facts::{
    COMPACTION_FAILED, CompactionFailed, FileMark, Note, RunFact, SNAPSHOT_TAKEN, SnapshotBody,
    batch_at, fact_at, snapshot_at,
};
use self::run::AgentRun;
use super::build::{BuildPass, SnapshotForm};
use super::compactor::stop_events;
use super::difference::Difference;
use super::event::{EventError, RunEvent};
use super::files::{SnapshotStore, StoreError};
use super::fold::InputError;
use super::run_log::TakenSnapshot;
use super::trigger::Thresholds;
use crate::contract::ids::Seq;
use crate::log::{ReadError, Reader};

/// Runs kept ready to go on.
const RUNS_READY_MAX: usize = 32;
/// Lines in one batch at most.
const BATCH_LINES_MAX: u64 = 4096;
/// Bytes of lines and snapshots after which a commit is made.
const COMMIT_BYTES: usize = 4 << 20;

/// Makes notes out of the position the first of them will get.
pub type MakeNotes = Box<dyn FnOnce(Seq) -> Vec<Note> + Send>;

/// Commits notes, all of them in one step, and says which record the first one is.
pub trait Notary {
    /// Returns once they are durable.
    fn note(&mut self, make: MakeNotes) -> Result<Seq, String>;
}

/// Why lines cannot be appended to a run.
#[derive(Debug, thiserror::Error)]
pub enum AppendEventsError {
    /// A line is no run event.
    #[error("line {line}: {source}")]
    Line {
        /// 1-based, as counted by the caller.
        line: u64,
        /// What is wrong with it.
        source: EventError,
    },
    /// An event makes no sense where it stands.
    #[error("line {line}: {event}: {source}")]
    Input {
        /// 1-based.
        line: u64,
        /// The event.
        event: String,
        /// Why.
        source: InputError,
    },
    /// The place of an event is taken by another one.
    #[error("line {line}: seq {seq} of run {run_id} is another event in the log")]
    Differs {
        /// 1-based.
        line: u64,
        /// The run.
        run_id: String,
        /// The place.
        seq: u64,
    },
    /// An event id names two different events.
    #[error("line {line}: event_id {id} was used for another event")]
    IdReused {
        /// 1-based.
        line: u64,
        /// The id.
        id: String,
    },
    /// The gate stopped the run.
    #[error("run {run_id} was stopped by its gate: {why}")]
    Stopped {
        /// The run.
        run_id: String,
        /// Which checks failed.
        why: String,
    },
    /// The run is the service's own.
    #[error("run {run_id} is a run of the service itself")]
    Derived {
        /// The run.
        run_id: String,
    },
    /// The log does not hold what it should.
    #[error(transparent)]
    Fact(#[from] ReadError),
    /// The notes could not be committed.
    #[error("commit: {0}")]
    Commit(String),
}

impl AppendEventsError {
    /// Whether the lines are at fault, not the storage.
    pub fn is_input(&self) -> bool {
        !matches!(self, AppendEventsError::Fact(_) | AppendEventsError::Commit(_))
    }
}

/// Why a run cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The log.
    #[error(transparent)]
    Fact(#[from] ReadError),
    /// The files.
    #[error(transparent)]
    Files(#[from] StoreError),
}

/// What an append did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AppendReport {
    /// The run.
    pub run_id: String,
    /// Events that became part of the log.
    pub appended: u64,
    /// Events that were there already.
    pub repeated: u64,
    /// The run's last event.
    pub last_seq: u64,
    /// Snapshots in force before.
    pub before: u64,
    /// Snapshots taken.
    pub snapshots: Vec<TakenSnapshot>,
    /// Set when the gate stopped the run here: the failed snapshot and the events that say so.
    pub failed: Option<serde_json::Value>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// The record that holds the newest of those snapshots; 0 when there is none.
    pub noted: u64,
}

/// Lines to append.
#[derive(Debug, Clone, Copy)]
pub struct EventLines<'a> {
    /// The lines, each with or without its end; blank ones are passed over.
    pub text: &'a str,
    /// The number of the first one, for messages.
    pub first_line: u64,
    /// The watched file they come from, as of their end.
    pub source: Option<&'a FileMark>,
}

/// The runs of one home.
pub struct AgentRunWriter {
    log: Reader,
    thresholds: Thresholds,
    ready: VecDeque<AgentRun>,
}

impl AgentRunWriter {
    /// The runs in a log; `thresholds` are those of the configuration.
    pub fn new(log: &Reader, thresholds: Thresholds) -> AgentRunWriter {
        AgentRunWriter { log: log.clone(), thresholds, ready: VecDeque::new() }
    }

    /// The log.
    pub fn log(&self) -> &Reader {
        &self.log
    }

    /// Puts other thresholds in force, from the next event on.
    pub fn retune(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// Appends lines of one run and takes the snapshots due on the way. On a bad line everything
    /// before it is kept, and what was done is told beside the error.
    pub fn append(
        &mut self,
        notary: &mut dyn Notary,
        lines: EventLines<'_>,
        thresholds: Option<Thresholds>,
    ) -> (AppendReport, Result<(), AppendEventsError>) {
        let mut done = AppendReport::default();
        let result = self.append_to(notary, lines, thresholds, &mut done);
        (done, result)
    }

    fn append_to(
        &mut self,
        notary: &mut dyn Notary,
        lines: EventLines<'_>,
        thresholds: Option<Thresholds>,
        done: &mut AppendReport,
    ) -> Result<(), AppendEventsError> {
        let mut numbered = (lines.first_line..).zip(lines.text.lines());
        let Some((line, first)) = numbered.find(|(_, text)| !text.trim().is_empty()) else {
            return Ok(());
        };
        let first = RunEvent::parse(first.as_bytes())
            .map_err(|source| AppendEventsError::Line { line, source })?;
        done.run_id = first.run_id.to_string();
        let mut run = self.take_run(&first.run_id, thresholds.unwrap_or(self.thresholds))?;
        done.before = run.head().sequence;
        let appended = run.append(notary, lines, done);
        done.last_seq = run.head().last_seq;
        run.warnings(&mut done.warnings);
        // After a failed commit memory may be ahead of the log: such a run is forgotten.
        if appended.as_ref().err().is_none_or(AppendEventsError::is_input) {
            self.keep(run);
        }
        appended
    }

    /// Takes a snapshot of a run now, due or not, if anything happened since the last one.
    pub fn snapshot_now(
        &mut self,
        notary: &mut dyn Notary,
        run_id: &str,
    ) -> Result<AppendReport, AppendEventsError> {
        let mut run = self.take_run(run_id, self.thresholds)?;
        let mut done = AppendReport { run_id: run_id.to_owned(), ..AppendReport::default() };
        done.before = run.head().sequence;
        run.snapshot_now(notary, &mut done)?;
        done.last_seq = run.head().last_seq;
        self.keep(run);
        Ok(done)
    }

    /// Rebuilds every snapshot of a run from its events and compares bytes. Returns how many were
    /// compared and everything that differs.
    /// The files are compared with what the log holds as well.
    pub fn verify(
        &self,
        run_id: &str,
        files: &SnapshotStore,
    ) -> Result<(u64, Vec<Difference>), VerifyError> {
        run::verify(&self.log, &facts::head_of(&self.log, run_id)?, files)
    }

    fn take_run(
        &mut self,
        run_id: &str,
        thresholds: Thresholds,
    ) -> Result<AgentRun, AppendEventsError> {
        let ready = self.ready.iter().position(|run| run.run_id() == run_id);
        let mut run = match ready.and_then(|at| self.ready.remove(at)) {
            Some(run) => run,
            None => AgentRun::open(&self.log, run_id, thresholds)?,
        };
        run.retune(thresholds);
        Ok(run)
    }

    fn keep(&mut self, run: AgentRun) {
        self.ready.push_front(run);
        self.ready.truncate(RUNS_READY_MAX);
    }
}
