//! One turn after another: wait, take what is ready, and seal it as a batch.

use std::time::{Duration, Instant};

use crossbeam_channel::{never, select_biased};

use crate::sequencer::engine::{CheckpointWhen, Engine};

use super::aside::Aside;
use super::counts::SessionCounts;
use super::error::ServiceError;
use super::setup::Until;
use super::state::ServiceLoop;

/// Longest sleep of an idle service.
const IDLE: Duration = Duration::from_millis(500);
/// Longest sleep while draining, which ends as soon as nothing is left.
const IDLE_DRAINING: Duration = Duration::from_millis(50);

impl ServiceLoop {
    pub(super) fn run(mut self) -> Result<(SessionCounts, Engine), ServiceError> {
        // Who gave an order in the last turn hears what became of it, and has the ticket of a forgetting before it
        // hears that the service makes room.
        let turned = self.turns().and_then(|()| self.finish_writing());
        // What is under way may take long to end, and no turn takes a question meanwhile.
        if let Some(asking) = &self.asking {
            match turned.is_ok() && self.steps_aside() {
                true => asking.report("making room to forget", 0.0),
                false => asking.end(),
            }
            // Whoever asked these asks again.
            while self.questions.try_recv().is_ok() {}
        }
        match turned {
            Ok(()) => self.finish(),
            Err(error) => Err(self.finish_failed(error)?),
        }
    }

    fn turns(&mut self) -> Result<(), ServiceError> {
        // The start of the session is durable before anything happens in its name.
        self.commit(CheckpointWhen::Due)?;
        while !self.service.stop.is_raised() {
            self.collect()?;
            self.after_inputs()?;
            self.seal(CheckpointWhen::Due)?;
            if self.until == Until::Stopped {
                self.turn_of_day()?;
            }
            if self.steps_aside() || self.is_finished() {
                return Ok(());
            }
            if self.service.lead.as_ref().is_some_and(|lead| lead.is_over_at_turn()) {
                return Err(ServiceError::Deposed);
            }
        }
        Ok(())
    }

    /// Waits for something to do and takes what is ready.
    fn collect(&mut self) -> Result<(), ServiceError> {
        if self.engine.is_writing() {
            // Whatever arrives meanwhile shares the next commit.
            self.poll()?;
            while self.engine.is_writing() && !self.is_full() && self.batch.mark.is_none() {
                self.wait()?;
                self.poll()?;
            }
        } else if self.has_work_at_once() {
            self.poll()?;
        } else {
            self.wait()?;
        }
        // Outcomes that are about to arrive may share the commit, as long as half of the attempts
        // under way have not reported. A single request never waits: half of one attempt is less than one.
        let patience = Duration::from_millis(self.service.config.commit_delay_ms.max(0) as u64);
        let deadline = Instant::now() + patience;
        loop {
            self.poll()?;
            let in_flight = self.engine.state().running_count();
            let enough = self.engine.pending() >= in_flight / 2 || in_flight == 0;
            if enough || self.batch.mark.is_some() || self.is_full() {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(report) = self.attempts.reports.recv_timeout(left) else { return Ok(()) };
            self.take_report(report)?;
        }
    }

    fn has_work_at_once(&self) -> bool {
        let state = self.engine.state();
        let unparsed = self.queue.unparsed.is_some();
        self.engine.pending() > 0 || state.has_unsettled() || self.may_start() || unparsed
    }

    /// Takes the first input that comes, or none within the time that may be slept.
    fn wait(&mut self) -> Result<(), ServiceError> {
        let timeout = self.sleep_time();
        let lines = match &self.queue.intake {
            Some(intake) if self.takes_lines() && self.queue.unparsed.is_none() => {
                intake.messages.clone()
            }
            _ => never(),
        };
        let (written, notes) = (self.engine.written().clone(), self.notes.clone());
        let from_others = self.attempts.inbox_of_others();
        // In this order: what is durable frees workers and answers people, and reports free slots.
        // Lines come late, because they make more work.
        select_biased! {
            recv(written) -> written => self.take_written(written.ok())?,
            recv(self.questions) -> asked => {
                if let Ok(asked) = asked {
                    self.take_question(asked)?;
                }
            }
            recv(self.attempts.reports) -> report => {
                if let Ok(report) = report {
                    self.take_report(report)?;
                }
            }
            recv(from_others) -> told => match told {
                Ok(told) => self.take_from_others(told)?,
                // The thread of the jobs is gone, and nobody knows how their attempts are.
                Err(_) => return Err(ServiceError::Deposed),
            },
            recv(lines) -> message => {
                if let Ok(message) = message {
                    self.take_message(message)?;
                }
            }
            recv(notes) -> order => match order {
                Ok(order) => self.take_note_order(order)?,
                // Every sender is gone. A closed channel is always ready, and the loop would spin.
                Err(_) => self.notes = never(),
            },
            default(timeout) => {}
        }
        Ok(())
    }

    /// Takes everything that is ready, without waiting, up to the bounds of a commit.
    fn poll(&mut self) -> Result<(), ServiceError> {
        self.poll_reports()?;
        self.poll_questions()?;
        self.poll_notes()?;
        self.poll_lines()
    }

    /// Whether the loop ends for a while.
    pub(super) fn steps_aside(&self) -> bool {
        let is_wanted = self.service.aside.as_ref().is_some_and(Aside::is_wanted);
        is_wanted && !self.service.stop.is_raised()
    }

    fn is_finished(&self) -> bool {
        let Until::Drained(by) = self.until else { return false };
        let state = self.engine.state();
        let lines_are_in = match self.queue.at_end {
            true => self.queue.unparsed.is_none(),
            false => !self.takes_lines(),
        };
        let paused = !state.paused().is_empty();
        let run_logs_are_in = self.service.runs.as_ref().is_none_or(|runs| runs.has_looked());
        let idle = lines_are_in
            && run_logs_are_in
            && self.engine.pending() == 0
            && !self.engine.is_writing()
            && state.running_count() == 0
            && !state.has_unsettled()
            && (state.ready_count() == 0 || paused);
        let later = match (by, state.next_eligible()) {
            (Some(by), Some(next)) => next <= by && self.now() <= by && !paused,
            _ => false,
        };
        // What waits in the lane is sent before the end.
        idle && !later && self.service.batches.as_ref().is_none_or(|lane| lane.is_settled())
    }

    fn sleep_time(&self) -> Duration {
        let now = self.now();
        let next = self.engine.state().next_eligible();
        let next = next.map(|at| Duration::from_millis(at.ms_since(now).max(1) as u64));
        let idle = match self.until {
            Until::Drained(_) => IDLE_DRAINING,
            Until::Stopped => IDLE,
        };
        next.map_or(idle, |next| next.min(idle))
    }
}
