//! The end of a session, and of the loop.

use std::time::{Duration, Instant};

use crossbeam_channel::{never, select};

use crate::compaction::agent_runs::{MakeNotes, NoteCommitter};
use crate::contract::ids::Seq;
use crate::model::calls_under_way;
use crate::projections::runs::described;
use crate::sequencer::engine::{CheckpointWhen, Engine};
use crate::sequencer::mark::QueueMark;
use crate::state::event::{Event, SessionEnd};

use super::counts::SessionCounts;
use super::error::ServiceError;
use super::state::ServiceLoop;
use super::work_left::work_left;

/// Longest wait for one report, so that a second stop signal and the end of the last step are noticed.
const LOOK_AT_STOP_EVERY: Duration = Duration::from_millis(50);

/// How long attempts are waited for after the last call of a model ended.
const WITHOUT_CALL_MAX: Duration = Duration::from_secs(2);

impl ServiceLoop {
    /// Ends in order: no new work, the grace period for attempts under way, everything durable.
    pub(super) fn finish(mut self) -> Result<(SessionCounts, Engine), ServiceError> {
        self.stop_intake();
        self.finish_writing()?;
        self.wait_for_attempts()?;
        // Everything that a note could still order comes after the last commit of this session.
        self.stop_notes();
        self.end_session(SessionEnd::Clean, None)?;
        let ServiceLoop { service, mut engine, projector, attempts, mut session, .. } = self;
        session.counts.add(session.earlier);
        let cursors = projector.finish()?;
        engine.commit(None, CheckpointWhen::Changed, &cursors, service.machine.clock.now())?;
        if attempts.pool.is_busy() {
            // Joining would wait for providers; the next session starts these attempts again.
            attempts.pool.abandon()
        } else {
            attempts.pool.join()
        }
        Ok((session.counts, engine))
    }

    /// Ends after an error. What failed may be the queue alone; then the session still ends in order.
    pub(super) fn finish_failed(
        mut self,
        error: ServiceError,
    ) -> Result<ServiceError, ServiceError> {
        self.stop_intake();
        if let ServiceError::Queue(queue) = &error {
            let why = queue.to_string();
            self.end_session(SessionEnd::Failed, Some(&why))?;
            self.projector.finish()?;
        }
        Ok(error)
    }

    /// Attempts that no thread is at stay open for the next session, and so do those that call no model: they lose
    /// nothing when they begin anew.
    fn wait_for_attempts(&mut self) -> Result<(), ServiceError> {
        let grace = Duration::from_millis(self.service.config.shutdown_grace_ms.max(0) as u64);
        let deadline = Instant::now() + grace;
        if let Some(others) = &self.attempts.others {
            others.workers.finish();
        }
        let mut from_others = self.attempts.inbox_of_others();
        let mut called = Instant::now();
        while self.attempts.pool.is_busy() || self.attempts.elsewhere() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if calls_under_way() > 0 || self.attempts.elsewhere() > 0 {
                called = Instant::now();
            }
            let mut came = true;
            select! {
                recv(self.attempts.reports) -> report => {
                    if let Ok(report) = report {
                        self.take_report(report)?;
                    }
                }
                recv(from_others) -> told => match told {
                    Ok(told) => self.take_from_others(told)?,
                    Err(_) => (self.attempts.others, from_others) = (None, never()),
                },
                default(left.min(LOOK_AT_STOP_EVERY)) => came = false,
            }
            if came {
                self.take_last_reports()?;
            } else if left.is_zero()
                || called.elapsed() >= WITHOUT_CALL_MAX
                || self.service.stop.is_urgent()
            {
                break;
            }
        }
        self.take_last_reports()
    }

    fn take_last_reports(&mut self) -> Result<(), ServiceError> {
        self.poll_reports()?;
        if self.engine.state().has_unsettled() {
            let now = self.now();
            self.engine.settle(now)?;
        }
        self.commit(CheckpointWhen::Due)
    }

    /// Ends the session. Everything is published first, so that its end can say what it promoted.
    pub(super) fn end_session(
        &mut self,
        end: SessionEnd,
        error: Option<&str>,
    ) -> Result<(), ServiceError> {
        let mut outputs = Vec::new();
        if let Some(publishing) = self.service.publishing.clone() {
            outputs = match publishing.flush() {
                Ok(outputs) | Err((_, outputs)) => outputs,
            };
            self.record_publish_failures()?;
        }
        self.close_own_run();
        let snapshot = self.engine.runs().overview().service.clone();
        let report = self.session.counts.report(outputs, snapshot, error);
        let now = self.now();
        let unread = self.unread_queue_bytes()?;
        if let Some(left) = work_left(self.engine.state(), unread) {
            self.engine.record(Event::WorkLeft(Box::new(left)), now)?;
        }
        self.engine.end_session(end, report, now)?;
        self.commit(CheckpointWhen::Due)
    }

    fn unread_queue_bytes(&self) -> Result<u64, ServiceError> {
        let queue = self.service.machine.disk.stat(&self.service.home.queue).ok().flatten();
        let host = self.service.config.queue_host();
        let position = QueueMark::of_host(&host, &self.engine.log().mark())?.position;
        Ok(queue.map_or(0, |stat| stat.len.saturating_sub(position.offset)))
    }

    /// Closes the service's own session with a snapshot. A failure stops nothing: the end of the
    /// session closes the run log all the same.
    fn close_own_run(&mut self) {
        let Some(runs) = self.service.runs.clone() else { return };
        if let Err(error) = runs.close_own(&mut CommitHere(self)) {
            let error = described(&error);
            tracing::warn!(error, "the service's own session has no last snapshot yet");
        }
    }
}

/// Commits notes on the thread of the loop. An order of notes would wait for the loop, which is
/// waiting here.
struct CommitHere<'a>(&'a mut ServiceLoop);

impl NoteCommitter for CommitHere<'_> {
    fn note(&mut self, make: MakeNotes) -> Result<Seq, String> {
        let now = self.0.now();
        let first = self.0.engine.note_all(make, now).map_err(|error| described(&error))?;
        self.0.commit(CheckpointWhen::Due).map_err(|error| described(&error))?;
        Ok(first)
    }
}
