//! The agent runs of a home: their events and snapshots in the home's own log.
//!
//! The events of a run are dense from 1. Appending an event twice equals appending it once.
//! [`AgentRunWriter::append`] validates and folds lines one by one and takes the snapshots that
//! become due. A commit holds a batch of events and the snapshots due in it.
//!
//! Contract. The log decides which snapshot is in force. After a crash at any point a run has its
//! old snapshot or the new one, and the next append takes the snapshots that were due. A snapshot
//! that fails its checks is built a second time after everything was read again from the log. If it
//! fails again the run is stopped for good: its events end with COMPACTION_FAILED and RUN_STOPPED,
//! and the snapshot before stays in force. Memory is bounded: a few runs stay in memory, and the
//! others are restored from their snapshot and the events after it.
//!
//! This module commits nothing itself; a [`NoteCommitter`] does. It does not watch files and does not
//! write snapshot files, which are a projection.
//!
//! See docs/adr/0058-run-logs-in-the-home-log.md.

pub mod facts;
mod run;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use self::facts::{SnapshotBody, batch_at, fact_at, snapshot_at};
use self::run::AgentRun;
use super::build::{BuildPass, SnapshotForm};
use super::compactor::stop_events;
use super::event::{EventError, RunEvent};
use super::files::{SnapshotStore, StoreError};
use super::fold::InputError;
use super::run_log::TakenSnapshot;
use super::trigger::Thresholds;
use crate::contract::ids::Seq;
use crate::export::difference::Difference;
use crate::facts::agent_run::FileMark;
use crate::log::{ReadError, Reader};
use crate::state::event::Note;

/// Runs kept in memory.
const RUNS_READY_MAX: usize = 32;
/// Most lines in one batch.
const BATCH_LINES_MAX: u64 = 4096;
/// A commit is made when lines and snapshots reach this size.
const COMMIT_BYTES: usize = 4 << 20;

/// Makes the notes of a commit, given the position of the first one.
pub type MakeNotes = Box<dyn FnOnce(Seq) -> Vec<Note> + Send>;

/// Commits notes in one commit and returns the position of the first one.
pub trait NoteCommitter {
    fn note(&mut self, make: MakeNotes) -> Result<Seq, String>;
}

/// Why lines cannot be appended to a run.
#[derive(Debug, thiserror::Error)]
pub enum AppendEventsError {
    /// A line is not a run event.
    #[error("line {line}: {source}")]
    Line {
        /// 1-based, counted by the caller.
        line: u64,
        source: EventError,
    },
    /// The run cannot accept the event.
    #[error("line {line}: {event}: {source}")]
    Input { line: u64, event: String, source: InputError },
    /// The log holds another event with this `seq`.
    #[error("line {line}: the log has another event at seq {seq} of run {run_id}: {what}")]
    Differs { line: u64, run_id: String, seq: u64, what: String },
    /// The event id belongs to another event.
    #[error("line {line}: event_id {id} was used for another event")]
    IdReused { line: u64, id: String },
    /// The gate stopped the run.
    #[error("run {run_id} was stopped by its checks: {why}")]
    Stopped { run_id: String, why: String },
    /// The run is derived from the service's own session.
    #[error("run {run_id} is a run of the service itself")]
    Derived { run_id: String },
    /// A person took the run back.
    #[error("run {run_id} was forgotten on {day}, by request")]
    Forgotten { run_id: String, day: String },
    /// The log could not be read.
    #[error(transparent)]
    Fact(#[from] ReadError),
    #[error("commit: {0}")]
    Commit(String),
}

impl AppendEventsError {
    /// True when the lines are wrong, false when the storage failed.
    pub fn is_input(&self) -> bool {
        !matches!(self, AppendEventsError::Fact(_) | AppendEventsError::Commit(_))
    }
}

/// Why a run cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Fact(#[from] ReadError),
    #[error(transparent)]
    Files(#[from] StoreError),
    /// A person took the run back.
    #[error("run {run_id} was forgotten on {day}, by request")]
    Forgotten { run_id: String, day: String },
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AppendReport {
    pub run_id: String,
    /// Events that are new in the log.
    pub appended: u64,
    /// Events that the log already held.
    pub repeated: u64,
    pub last_seq: u64,
    pub before: u64,
    pub snapshots: Vec<TakenSnapshot>,
    /// Set when the checks stopped the run: the failed snapshot and the two events that record it.
    pub failed: Option<serde_json::Value>,
    /// Warnings for people.
    pub warnings: Vec<String>,
    /// Position of the newest snapshot; 0 without one.
    pub noted: u64,
}

/// Lines to append.
#[derive(Debug, Clone, Copy)]
pub struct EventLines<'a> {
    /// The lines. Blank ones are skipped.
    pub text: &'a str,
    /// Number of the first line, for messages.
    pub first_line: u64,
    /// The watched file that the lines come from, as of their end.
    pub source: Option<&'a FileMark>,
}

/// Appends to the agent runs of one home and takes their snapshots.
pub struct AgentRunWriter {
    log: Reader,
    thresholds: Thresholds,
    ready: VecDeque<AgentRun>,
}

impl AgentRunWriter {
    /// `thresholds` are those of the configuration.
    pub fn new(log: &Reader, thresholds: Thresholds) -> AgentRunWriter {
        AgentRunWriter { log: log.clone(), thresholds, ready: VecDeque::new() }
    }

    pub fn log(&self) -> &Reader {
        &self.log
    }

    pub(crate) fn retune(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// Appends lines of one run and takes the snapshots that become due. On a bad line everything
    /// before it is kept; the report says what was done.
    pub fn append(
        &mut self,
        committer: &mut dyn NoteCommitter,
        lines: EventLines<'_>,
        thresholds: Option<Thresholds>,
    ) -> (AppendReport, Result<(), AppendEventsError>) {
        let mut done = AppendReport::default();
        let result = self.append_to(committer, lines, thresholds, &mut done);
        (done, result)
    }

    fn append_to(
        &mut self,
        committer: &mut dyn NoteCommitter,
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
        let appended = run.append(committer, lines, done);
        done.last_seq = run.head().last_seq;
        run.warnings(&mut done.warnings);
        // After a failed commit memory may be ahead of the log, so the run is dropped from memory.
        if appended.as_ref().err().is_none_or(AppendEventsError::is_input) {
            self.keep(run);
        }
        appended
    }

    /// Takes a snapshot now, due or not, if anything happened since the last one.
    pub fn snapshot_now(
        &mut self,
        committer: &mut dyn NoteCommitter,
        run_id: &str,
    ) -> Result<AppendReport, AppendEventsError> {
        let mut run = self.take_run(run_id, self.thresholds)?;
        let mut done = AppendReport { run_id: run_id.to_owned(), ..AppendReport::default() };
        done.before = run.head().sequence;
        run.snapshot_now(committer, &mut done)?;
        done.last_seq = run.head().last_seq;
        self.keep(run);
        Ok(done)
    }

    /// Rebuilds every snapshot of a run from its events, compares the bytes, and compares the files
    /// with the log. Returns the number of snapshots and the differences.
    pub fn verify(
        &self,
        run_id: &str,
        files: &SnapshotStore,
    ) -> Result<(u64, Vec<Difference>), VerifyError> {
        let head = facts::head_of(&self.log, run_id)?;
        if let Some(day) = facts::forgotten_on(&self.log, run_id, &head)? {
            return Err(VerifyError::Forgotten { run_id: run_id.to_owned(), day });
        }
        run::verify(&self.log, &head, files)
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
