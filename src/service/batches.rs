//! Batches: how one is sealed, and what follows once it is durable.

use std::sync::Arc;

use crate::contract::ids::Seq;
use crate::control::reply::Reply;
use crate::export::Committed;
use crate::log::LogError;
use crate::sequencer::engine::{CheckpointWhen, Engine};
use crate::sequencer::writer::Written;
use crate::state::Status;
use crate::state::event::Event;
use crate::work::pool::StartedAttempt;

use super::error::ServiceError;
use super::state::{AwayAttempt, ServiceLoop, Waiters};

impl ServiceLoop {
    /// Seals the batch and waits until it is durable.
    pub(super) fn commit(&mut self, checkpoint: CheckpointWhen) -> Result<(), ServiceError> {
        self.seal(checkpoint)?;
        self.finish_writing()
    }

    /// Hands the batch to the writer, if it has anything to write.
    pub(super) fn seal(&mut self, checkpoint: CheckpointWhen) -> Result<(), ServiceError> {
        let has_lines = self.batch.mark.is_some();
        if self.engine.pending() == 0 && !has_lines && checkpoint == CheckpointWhen::Due {
            return self.answer_without_events();
        }
        if checkpoint == CheckpointWhen::Changed {
            // One checkpoint is under way at a time, and this one cannot be put off.
            self.finish_writing()?;
        }
        // A full batch may wait in line, as behind a checkpoint. With less than that it is better to
        // wait here: what arrives meanwhile shares the next sync.
        let full = self.is_full();
        let must_wait = |engine: &Engine| {
            let has_no_place = if full { !engine.has_room() } else { engine.is_writing() };
            // What is durable already is acted on before anything new is sealed.
            has_no_place || !engine.written().is_empty()
        };
        while must_wait(&self.engine) {
            let committed = self.engine.finish()?;
            self.after_commit(&committed)?;
        }
        let now = self.now();
        let cursors = self.projector.cursors();
        let mark = self.batch.mark.take();
        let sealed = self.engine.seal(mark, checkpoint, &cursors, now)?;
        self.sealed.push_back(std::mem::take(&mut self.batch.waiters));
        if sealed {
            return Ok(());
        }
        // No event and no mark: no batch will be written, so no caller may wait for one.
        self.finish_writing()?;
        self.after_commit(&Arc::default())
    }

    /// Without events the waiters depend at most on the batches that are being written.
    fn answer_without_events(&mut self) -> Result<(), ServiceError> {
        let mut waiters = std::mem::take(&mut self.batch.waiters);
        match self.sealed.back_mut() {
            Some(last) => {
                last.answers.append(&mut waiters.answers);
                last.notes.append(&mut waiters.notes);
                Ok(())
            }
            None => {
                self.sealed.push_back(waiters);
                self.after_commit(&Arc::default())
            }
        }
    }

    /// Waits for all batches that the writer has.
    pub(super) fn finish_writing(&mut self) -> Result<(), ServiceError> {
        while self.engine.is_writing() {
            let committed = self.engine.finish()?;
            self.after_commit(&committed)?;
        }
        Ok(())
    }

    /// Input: the writer's answer to the oldest batch it has.
    pub(super) fn take_written(&mut self, written: Option<Written>) -> Result<(), ServiceError> {
        let committed = self.engine.finished(written.unwrap_or(Err(LogError::Poisoned)))?;
        self.after_commit(&committed)
    }

    /// The oldest sealed batch is durable, so what follows from it may happen.
    fn after_commit(&mut self, committed: &Arc<Vec<Committed>>) -> Result<(), ServiceError> {
        if !committed.is_empty() {
            self.session.counts.commits += 1;
            committed.iter().for_each(|event| self.session.counts.observe(event));
        }
        self.projector.take(committed)?;
        for event in committed.iter() {
            self.act(event);
        }
        let Waiters { answers, notes } = self.sealed.pop_front().unwrap_or_default();
        for (reply, first) in notes {
            // The thread that ordered it may have been told to end.
            let _ = reply.send(first);
        }
        for (reply, answer) in answers {
            match answer {
                // An asker that went away misses its answer; its order is carried out all the same.
                Reply::Now(answer) => drop(reply.send(answer)),
                Reply::Later(work) => {
                    let thread = std::thread::Builder::new().name("answer".to_owned());
                    thread.spawn(move || drop(reply.send(work())))?;
                }
            }
        }
        if let Some(watch) = &mut self.service.watch {
            watch(committed, &self.engine);
        }
        Ok(())
    }

    /// What one committed event sets in motion among the workers.
    fn act(&mut self, committed: &Committed) {
        self.note_made_elsewhere(committed);
        self.tell_others(&committed.event);
        let pool = &self.attempts.pool;
        match &committed.event {
            Event::AttemptStarted { request, attempt } => {
                // It may have ended already, in the same batch or in a later one that is applied but
                // not durable yet.
                let Some(open) = self.engine.state().open_request(*request) else { return };
                if open.row.status != Status::Running || open.row.attempts != *attempt {
                    return;
                }
                let started = StartedAttempt {
                    request: *request,
                    attempt: *attempt,
                    started: committed.seq,
                    epoch: self.engine.state().epoch(),
                    run_id: self.service.session.run_id.clone(),
                    replies: open.particulars().replies.clone(),
                    gives_way: self.engine.state().gives_way(*request),
                };
                self.begin(started);
            }
            // The name of the item is durable now: after a crash, the next attempt finds the paid answers. So
            // this attempt may make calls that cost money.
            Event::InputResolved { request, attempt, .. } => pool.proceed(*request, *attempt),
            Event::ModelResponded { request, call, .. } => pool.answered(*request, call),
            Event::RequestParked { behind, .. } => self.raise(*behind),
            Event::WorkHeld { request, behind, .. } => {
                pool.forget(*request);
                self.raise(*behind);
            }
            Event::RequestCancelled { request, .. } | Event::RequestDuplicated { request, .. } => {
                pool.forget(*request);
                self.forget_questions(*request);
            }
            Event::SummaryProduced { request, .. }
            | Event::RequestSkipped { request, .. }
            | Event::AttemptFailed { request, retry_at: None, .. } => {
                self.forget_questions(*request);
            }
            _ => {}
        }
    }

    /// Begins an attempt here, or on another host when the threads here have enough.
    fn begin(&mut self, started: StartedAttempt) {
        let pool = &self.attempts.pool;
        let has_enough = self.attempts.works_elsewhere() || pool.load() >= pool.thread_count();
        let stays = started.gives_way && self.service.config.has_batches();
        let goes = has_enough && !stays && self.attempts.free_elsewhere() > 0;
        match self.attempts.others.as_mut().filter(|_| goes) {
            Some(others) => {
                others.under_way.insert(started.request, AwayAttempt::of(&started));
                others.workers.begin(started);
            }
            None => self.begin_here(started),
        }
    }

    pub(super) fn begin_here(&mut self, started: StartedAttempt) {
        if let Some(others) = &mut self.attempts.others {
            others.here.insert(started.request, started.clone());
        }
        self.attempts.pool.begin(started);
    }

    /// The worker of this host did not see what another host made.
    fn note_made_elsewhere(&self, committed: &Committed) {
        let Event::SummaryProduced { request, .. } = &committed.event else { return };
        let others = self.attempts.others.as_ref();
        if others.is_some_and(|others| others.under_way.contains_key(request))
            && let Ok(Some(event)) = self.engine.log().event(*request)
            && let Some(taken) = event.taken()
        {
            self.service.worker.was_made(taken.key.head(), committed.seq);
        }
    }

    /// What other hosts must know: an attempt has ended, or money was spent there.
    fn tell_others(&mut self, event: &Event) {
        let Some(others) = &mut self.attempts.others else { return };
        match event {
            Event::SummaryProduced { request, .. }
            | Event::RequestSkipped { request, .. }
            | Event::AttemptFailed { request, .. }
            | Event::WorkHeld { request, .. }
            | Event::RequestCancelled { request, .. }
            | Event::RequestDuplicated { request, .. } => others.end(*request),
            Event::ModelCharged { request, .. } if others.under_way.contains_key(request) => {
                if let Some(charged) = &self.engine.state().flows().charged {
                    self.service.worker.charged(charged);
                }
            }
            _ => {}
        }
    }

    /// Nothing is asked for this request any more.
    fn forget_questions(&self, request: Seq) {
        if let Some(lane) = &self.service.batches {
            lane.forget(request);
        }
    }

    /// An attempt that a `now` request waits for goes before those that give way.
    fn raise(&self, request: Seq) {
        let state = self.engine.state();
        let request = state.makes_the_outcome(request);
        let running =
            state.open_request(request).is_some_and(|open| open.row.status == Status::Running);
        if running && !state.gives_way(request) {
            self.attempts.pool.raise(request);
        }
    }
}
