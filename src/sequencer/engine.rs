//! The engine: inputs become events, and events become commits.
//!
//! Contract. Inputs are decided one after another, each against the state that the earlier ones left.
//! Their events are applied in memory immediately and collected in a batch. [`Engine::seal`] closes the
//! batch and hands it to the writer, with the queue position it consumed and with a checkpoint when
//! one is due. While it is made durable the next one can be filled, and a few can wait for the
//! writer. [`Engine::finish`] waits for the oldest, and [`Engine::commit`] is both. The caller may
//! act only on the events that these return. After any error memory may be ahead of the disk: the
//! engine refuses every further input, and the process must end and recover.
//!
//! One thread owns the engine. It opens no file but the store, and gets the time from its callers.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use parking_lot::MutexGuard;

use crate::compaction::agent_runs::MakeNotes;
use crate::compaction::agent_runs::facts::RunHeads;
use crate::config::Config;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::export::{Committed, quarantine};
use crate::facts::queue::ConsumedBatch;
use crate::facts::session::{Host, PauseCause, SessionReport};
use crate::log::checkpoint::{self, RestoreError, chain_digest, tables};
use crate::log::codec::{self, CodecError, Cursor};
use crate::log::{Checkpoint, LogError, ReadError, Reader, Store};
use crate::registry::Mutation;
use crate::sequencer::foresight::Foresight;
use crate::sequencer::line::Line;
use crate::sequencer::mark::MarkError;
use crate::sequencer::past::{PastView, Pending, Sealed};
use crate::sequencer::recent_heads::RecentHeads;
use crate::sequencer::view::View;
use crate::sequencer::writer::{Agreement, Alone, BATCHES, StartError, Writer, Written};
use crate::state::decide::{Arrival, FlowStanding, Refused, Report, RetryPolicy};
use crate::state::event::{BadLine, Event, Note, RawLine, SessionEnd, TakenRequest};
use crate::state::{Impossible, State};

/// Parked requests that are settled before one commit.
const SETTLED_AT_ONCE: usize = 256;
/// Changed rows, keys and ids after which a checkpoint is due, at any number of events: they are in
/// memory until then.
const CHANGES_MAX: usize = 1_000_000;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("commit a batch to the log")]
    Commit(#[source] LogError),
    #[error(transparent)]
    Mark(#[from] MarkError),
    #[error("restore the state from the last checkpoint")]
    Restore(#[from] RestoreError),
    #[error("read the stored position of a projection")]
    Cursor(#[from] CodecError),
    /// The log is damaged, or this is a bug.
    #[error("apply an event to the state")]
    Impossible(#[from] Impossible),
    #[error("start the threads that write the log")]
    Writer(#[from] StartError),
    #[error("an earlier error stopped the engine; end this process, and the next start recovers")]
    Poisoned,
}

impl From<LogError> for EngineError {
    fn from(error: LogError) -> EngineError {
        EngineError::Read(error.into())
    }
}

/// An operator's order that was refused, or an engine that had to stop.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error(transparent)]
    Refused(Refused<ReadError>),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A session that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStart {
    pub run_id: String,
    pub command: String,
    /// Of the program.
    pub version: String,
    pub config: Digest,
    pub host: Host,
}

/// How many attempts may start, by the urgency of their requests.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    pub now: usize,
    pub scheduled: usize,
}

impl Slots {
    /// The same number for each urgency.
    pub fn of(each: usize) -> Slots {
        Slots { now: each, scheduled: each }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineOptions {
    pub retry: RetryPolicy,
    /// Events after which a checkpoint is due.
    pub checkpoint_every: u64,
}

impl EngineOptions {
    /// The options that a configuration sets.
    pub fn of(config: &Config) -> EngineOptions {
        EngineOptions {
            retry: RetryPolicy {
                attempts_max: config.attempts_max,
                base_delay_ms: config.retry_base_delay_ms,
                delay_ms_max: config.retry_delay_ms_max,
            },
            checkpoint_every: config.checkpoint_every_events,
        }
    }
}

pub struct Engine {
    writer: Writer,
    log: Reader,
    state: State,
    runs: RunHeads,
    options: EngineOptions,
    /// The batch that is being filled.
    pending: Vec<Pending>,
    bytes: usize,
    /// The batches that the writer has, oldest first.
    writing: VecDeque<Sealed>,
    /// The empty list of a finished batch, for the next one.
    spare: Vec<Pending>,
    heads: RecentHeads,
    mark: Vec<u8>,
    state_digest: Digest,
    checkpoint_at: Seq,
    poisoned: bool,
}

impl Engine {
    /// Brings the state up to the end of the log: first the tables of the last checkpoint, then the
    /// events after it. `progress` gets the share of those that is replayed, from 0 to 1.
    pub fn open(
        store: Store,
        options: EngineOptions,
        now: Timestamp,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Engine, EngineError> {
        Engine::open_agreed(store, Box::new(Alone), options, now, progress)
    }

    /// The same for a log that other hosts share: each batch needs their agreement.
    pub fn open_agreed(
        store: Store,
        agreement: Box<dyn Agreement>,
        options: EngineOptions,
        now: Timestamp,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Engine, EngineError> {
        let log = store.reader();
        let (state, runs, state_digest) = load(&log, now, progress)?;
        let checkpoint_at = log.applied();
        Ok(Engine {
            writer: Writer::start(store, agreement)?,
            log,
            state,
            runs,
            options,
            pending: Vec::new(),
            bytes: 0,
            writing: VecDeque::with_capacity(BATCHES),
            spare: Vec::new(),
            heads: RecentHeads::default(),
            mark: Vec::new(),
            state_digest,
            checkpoint_at,
            poisoned: false,
        })
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The agent runs and their snapshots.
    pub fn runs(&self) -> &RunHeads {
        &self.runs
    }

    /// A reader of committed records, for any thread.
    pub fn log(&self) -> &Reader {
        &self.log
    }

    /// Batches and log as one past.
    pub fn past(&self) -> PastView<'_> {
        PastView::new(&self.log, &self.writing, &self.pending, &self.heads)
    }

    /// What this home knows.
    pub fn view(&self) -> View<'_> {
        View::new(&self.state, &self.log, &self.runs, self.past())
    }

    /// Events of the open batch.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The position of the checkpoint whose tables memory adds to.
    #[cfg(test)]
    pub(crate) fn checkpoint_at(&self) -> Seq {
        self.checkpoint_at
    }

    /// About how many payload bytes the open batch has.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn retune(&mut self, options: EngineOptions) {
        self.options = options;
    }

    /// Begins a session. An earlier session without an end is closed as crashed first.
    pub fn begin_session(
        &mut self,
        start: SessionStart,
        now: Timestamp,
    ) -> Result<Seq, EngineError> {
        if let Some(open) = self.state.session().cloned() {
            self.end_lost_requests(now)?;
            let event = Event::SessionFinished {
                run_id: open.run_id,
                started: open.started,
                end: SessionEnd::Crashed,
                report: Box::default(),
            };
            self.push(event, None, now)?;
        }
        let SessionStart { run_id, command, version, config, host } = start;
        let host = Box::new(host);
        self.push(Event::SessionStarted { run_id, command, version, config, host }, None, now)
    }

    /// Ends requests whose last attempt was under way when the process ended.
    fn end_lost_requests(&mut self, now: Timestamp) -> Result<(), EngineError> {
        let lost = self.state.lost_for_good(&self.past(), &self.options.retry, now)?;
        self.push_all(lost, now).map(|_| ())
    }

    pub fn end_session(
        &mut self,
        end: SessionEnd,
        report: SessionReport,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let Some(open) = self.state.session().cloned() else { return Ok(()) };
        let (run_id, started, report) = (open.run_id, open.started, Box::new(report));
        let event = Event::SessionFinished { run_id, started, end, report };
        self.push(event, None, now).map(|_| ())
    }

    /// Takes a line that is not a request.
    pub fn bad_line(&mut self, line: BadLine, now: Timestamp) -> Result<(), EngineError> {
        self.push(Event::LineQuarantined(Box::new(line)), None, now).map(|_| ())
    }

    /// Takes the lines of a queue batch. The look-up that was made ahead is used if it still holds, and
    /// made again otherwise.
    pub fn lines(
        &mut self,
        lines: Vec<Line>,
        foresight: Foresight,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let foresight = if foresight.holds(self.checkpoint_at) {
            foresight
        } else {
            Foresight::of(&self.log, &lines)?
        };
        let mut events = Vec::with_capacity(1);
        for (number, line) in lines.into_iter().enumerate() {
            match line {
                Line::Bad(line) => events.push(Event::LineQuarantined(line)),
                Line::Request(arrival) => {
                    let past = foresight.past(number, &arrival.request, self.past());
                    self.state.arrival(&past, arrival, now, &mut events)?;
                }
            }
            for event in events.drain(..) {
                self.push(event, None, now)?;
            }
        }
        Ok(())
    }

    /// Says that the lines of a part of a queue are taken. The part is remembered beside a record, so a
    /// batch without one gets a record of its own.
    pub(crate) fn lines_taken(
        &mut self,
        part: &ConsumedBatch,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        if !self.pending.is_empty() {
            return Ok(());
        }
        let ConsumedBatch { start, end, .. } = *part;
        self.push(Event::LinesPassed { start, end }, None, now).map(drop)
    }

    /// Takes a request line.
    pub fn arrival(&mut self, arrival: Arrival, now: Timestamp) -> Result<(), EngineError> {
        let mut events = Vec::with_capacity(1);
        let past = self.past();
        self.state.arrival(&past, arrival, now, &mut events)?;
        self.push_all(events, now)
    }

    /// Takes a report of a worker. Returns whether it was about the attempt under way.
    pub fn report(&mut self, report: Report, now: Timestamp) -> Result<bool, EngineError> {
        let mut notes = Vec::with_capacity(1);
        let past = self.past();
        self.state.report(&past, report, &self.options.retry, now, &mut notes)?;
        let counted = !notes.is_empty();
        for note in notes {
            self.push(note.event, note.body, now)?;
        }
        Ok(counted)
    }

    /// A fact with its body.
    pub fn note(&mut self, note: Note, now: Timestamp) -> Result<Seq, EngineError> {
        self.push(note.event, note.body, now)
    }

    /// Facts about agent runs, made once the position of the first is known.
    pub fn note_all(&mut self, make: MakeNotes, now: Timestamp) -> Result<Seq, EngineError> {
        let first = self.state.applied.next();
        for note in make(first) {
            self.note(note, now)?;
        }
        Ok(first)
    }

    /// A fact without a body: a reload, a release, an adoption.
    pub fn record(&mut self, event: Event, now: Timestamp) -> Result<Seq, EngineError> {
        self.push(event, None, now)
    }

    /// Binds changed flows to the packs they are registered with now.
    pub(crate) fn accept_packs(
        &mut self,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<(), EngineError> {
        for Mutation { flow_id, variant, first_used, now: pack } in mutations {
            let (flow_id, variant) = (flow_id.clone(), variant.clone());
            let (pack_hash, replaces) = (*pack, Some(*first_used));
            self.record(Event::FlowUsed { flow_id, variant, pack_hash, replaces }, now)?;
        }
        Ok(())
    }

    /// Pauses or resumes intake for one cause. Returns whether that changed anything.
    pub fn pause(
        &mut self,
        cause: PauseCause,
        pause: bool,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let mut events = Vec::new();
        self.state.pause(cause, pause, &mut events);
        let changed = !events.is_empty();
        self.push_all(events, now)?;
        Ok(changed)
    }

    /// Cancels a request for an operator.
    pub fn cancel(&mut self, request_id: &str, now: Timestamp) -> Result<(), OperatorError> {
        let mut events = Vec::new();
        let past = self.past();
        self.state.cancel(&past, request_id, &mut events).map_err(OperatorError::Refused)?;
        Ok(self.push_all(events, now)?)
    }

    /// Lets a delayed request run now, or accepts an ended one again, for an operator.
    pub fn retry(
        &mut self,
        request_id: &str,
        flow_of: impl Fn(&TakenRequest) -> FlowStanding,
        now: Timestamp,
    ) -> Result<(), OperatorError> {
        let mut events = Vec::new();
        let past = self.past();
        self.state
            .retry(&past, request_id, flow_of, now, &mut events)
            .map_err(OperatorError::Refused)?;
        Ok(self.push_all(events, now)?)
    }

    /// Lets those of the requests that the budget held back run now. Returns how many there are.
    pub(crate) fn free_of_budget(
        &mut self,
        now: Timestamp,
        is_meant: impl Fn(Seq) -> bool,
    ) -> Result<usize, EngineError> {
        let held: Vec<Seq> = self.state.held_by_budget(now).filter(|one| is_meant(*one)).collect();
        for request in &held {
            self.push(Event::DelayEnded { request: *request }, None, now)?;
        }
        Ok(held.len())
    }

    /// Settles parked requests whose holder has ended, up to a bound. Returns whether any are left.
    pub fn settle(&mut self, now: Timestamp) -> Result<bool, EngineError> {
        let mut events = Vec::new();
        let past = PastView::new(&self.log, &self.writing, &self.pending, &self.heads);
        self.state.settle(&past, SETTLED_AT_ONCE, &mut events)?;
        self.push_all(events, now)?;
        Ok(self.state.has_unsettled())
    }

    /// Starts up to `slots` attempts in the order of the schedule.
    pub fn start_ready(&mut self, mut slots: Slots, now: Timestamp) -> Result<usize, EngineError> {
        self.state.advance(now);
        let mut started = 0;
        let mut events = Vec::with_capacity(1);
        loop {
            self.state.hold_back(now);
            // A scheduled request has its turn only when no `now` request is ready.
            let slots = match self.state.next_gives_way() {
                Some(true) => &mut slots.scheduled,
                Some(false) => &mut slots.now,
                None => break,
            };
            if *slots == 0 || self.state.waits_to_be_alone() {
                break;
            }
            *slots -= 1;
            if self.state.start_next(&mut events).is_none() {
                break;
            }
            self.push_all(std::mem::take(&mut events), now)?;
            started += 1;
        }
        Ok(started)
    }

    /// Makes the batch durable, with the queue position after it, and with a checkpoint when one is due
    /// or wanted. `cursors` say how far the append-only projections are durable. Earlier batches must
    /// be finished.
    pub fn commit(
        &mut self,
        mark: Option<Vec<u8>>,
        checkpoint: CheckpointWhen,
        cursors: &[(&str, Cursor)],
        now: Timestamp,
    ) -> Result<Arc<Vec<Committed>>, EngineError> {
        let alone = self.poisoned || !self.is_writing();
        assert!(alone, "the committed batch is not the oldest sealed batch");
        self.seal(mark, checkpoint, cursors, now)?;
        self.finish()
    }

    /// The first half of [`Engine::commit`]: closes the batch and hands it to the writer, which must
    /// have room. Returns whether there was anything to write. One checkpoint is under way at a time:
    /// one that is due waits for it, and one that is wanted needs earlier batches finished.
    pub fn seal(
        &mut self,
        mark: Option<Vec<u8>>,
        checkpoint: CheckpointWhen,
        cursors: &[(&str, Cursor)],
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        if self.poisoned {
            return Err(EngineError::Poisoned);
        }
        assert!(self.has_room(), "a batch is sealed when the writer has room");
        if let Some(mark) = mark {
            self.mark = mark;
        }
        let under_way = self.writing.iter().any(|sealed| sealed.checkpoint.is_some());
        let wanted = match checkpoint {
            CheckpointWhen::Due => !under_way && self.checkpoint_is_due(),
            CheckpointWhen::Changed => {
                assert!(!under_way, "one checkpoint is under way at a time");
                !self.state.changed().is_empty() || self.state.applied > self.checkpoint_at
            }
            CheckpointWhen::Always => {
                assert!(!under_way, "one checkpoint is under way at a time");
                true
            }
        };
        let checkpoint = if wanted { Some(self.checkpoint(cursors, now)?) } else { None };
        if self.pending.is_empty() && self.mark.is_empty() {
            return Ok(false);
        }
        // The next batch gets the capacity of this one, because batches under load are of like size.
        let mut next = std::mem::take(&mut self.spare);
        next.reserve(self.pending.len());
        let events = std::mem::replace(&mut self.pending, next);
        let applied = checkpoint.as_ref().map(|checkpoint| checkpoint.applied);
        let mark = std::mem::take(&mut self.mark);
        self.bytes = 0;
        let sent = self.writer.seal(mark, checkpoint);
        self.poisoned = sent.is_err();
        sent.map_err(EngineError::Commit)?;
        self.writing.push_back(Sealed { events, checkpoint: applied });
        Ok(true)
    }

    /// Whether nothing failed that ends all writing.
    #[cfg(feature = "cluster")]
    pub(crate) fn can_write(&self) -> bool {
        !self.poisoned
    }

    /// Whether the writer has a batch that is not finished.
    pub fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// Whether the writer takes another batch.
    pub fn has_room(&self) -> bool {
        self.writing.len() < BATCHES
    }

    /// Receiver that yields one answer for each written batch, oldest first. It goes to
    /// [`Engine::finished`].
    pub fn written(&self) -> &Receiver<Written> {
        self.writer.written()
    }

    /// The second half of [`Engine::commit`]: waits until the oldest batch that the writer has is
    /// durable, and returns its events. Without such a batch the list is empty.
    pub fn finish(&mut self) -> Result<Arc<Vec<Committed>>, EngineError> {
        if !self.is_writing() {
            return Ok(Arc::default());
        }
        let written = self.writer.written().recv();
        self.finished(written.unwrap_or(Err(LogError::Poisoned)))
    }

    /// Takes the writer's answer to its oldest batch, and returns the events.
    pub fn finished(&mut self, written: Written) -> Result<Arc<Vec<Committed>>, EngineError> {
        let Some(Sealed { mut events, checkpoint }) = self.writing.pop_front() else {
            return Ok(Arc::default());
        };
        self.poisoned |= written.is_err();
        let hashes = written.map_err(EngineError::Commit)?.hashes;
        if let Some(applied) = checkpoint {
            self.state.checkpointed();
            self.runs.checkpointed();
            self.checkpoint_at = applied;
        }
        let committed = events.drain(..).zip(hashes).map(|(pending, hash)| {
            let Pending { seq, at, event } = pending;
            Committed { seq, at, hash, event }
        });
        let committed = Arc::new(committed.collect());
        self.spare = events;
        Ok(committed)
    }

    /// Closes the store in order.
    pub fn close(self) -> Result<(), EngineError> {
        self.writer.close().map_err(EngineError::Commit)
    }

    /// The store, for maintenance between batches.
    pub fn store(&mut self) -> MutexGuard<'_, Store> {
        self.writer.store()
    }

    fn checkpoint_is_due(&self) -> bool {
        self.state.applied.0 - self.checkpoint_at.0 >= self.options.checkpoint_every
            || self.state.changed().len() >= CHANGES_MAX
    }

    fn checkpoint(
        &mut self,
        cursors: &[(&str, Cursor)],
        now: Timestamp,
    ) -> Result<Checkpoint, EngineError> {
        // The tables are those before the checkpoint's own event, so that a replay which meets the
        // event can compute the same digest from the state it has.
        let mut checkpoint = tables(&self.state);
        self.state_digest = chain_digest(&self.state_digest, &checkpoint);
        let applied = self.state.applied.next();
        let rows = checkpoint.rows.len() as u64;
        self.push(Event::CheckpointTaken { applied, state: self.state_digest, rows }, None, now)?;
        checkpoint.applied = applied;
        add_documents(&mut checkpoint, &self.state_digest, &self.runs, cursors);
        // From here on memory collects the changes after this checkpoint apart. The older ones stay
        // readable in memory until the tables have them.
        self.state.checkpoint_begun();
        self.runs.checkpoint_begun();
        Ok(checkpoint)
    }

    fn push_all(&mut self, events: Vec<Event>, now: Timestamp) -> Result<(), EngineError> {
        for event in events {
            self.push(event, None, now)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        event: Event,
        body: Option<Vec<u8>>,
        now: Timestamp,
    ) -> Result<Seq, EngineError> {
        if self.poisoned {
            return Err(EngineError::Poisoned);
        }
        let seq = self.state.applied.next();
        let applied = self.state.apply(seq, now, &event).map_err(EngineError::from);
        let applied = applied.and_then(|()| Ok(self.runs.apply(&self.log, seq, &event)?));
        if let Err(error) = applied {
            // The state may be half changed, so no further decision can be trusted.
            self.poisoned = true;
            return Err(error);
        }
        if let Event::RequestAccepted(taken) | Event::RequestParked { request: taken, .. } = &event
        {
            self.heads.note(seq, &taken.head);
        }
        self.bytes += weight(&event) + body.as_ref().map_or(0, Vec::len);
        // A line that may hold words of a text is sealed beside its record.
        let added = match event.without_line().or_else(|| quarantine::without_line(&event)) {
            Some((stored, line)) => self.writer.add(now, &stored, Some(line)),
            None => self.writer.add(now, &event, body),
        };
        self.poisoned = added.is_err();
        added.map_err(EngineError::Commit)?;
        self.pending.push(Pending { seq, at: now, event });
        Ok(seq)
    }
}

/// Adds what stands beside the tables: their digest, the agent runs, and how far projections are durable.
pub(super) fn add_documents(
    checkpoint: &mut Checkpoint,
    state: &Digest,
    runs: &RunHeads,
    cursors: &[(&str, Cursor)],
) {
    let documents = &mut checkpoint.documents;
    documents.extend(checkpoint::identity(state));
    documents.extend(runs.documents());
    documents.extend(cursor_documents(cursors));
}

/// About how long an event's payload is: its long parts, and a fixed number for the rest.
fn weight(event: &Event) -> usize {
    let long = match (event.taken(), event) {
        (Some(taken), _) => taken.line.len(),
        (None, Event::LineQuarantined(bad)) => match &bad.raw {
            RawLine::Whole(bytes) | RawLine::Prefix(bytes) => bytes.len(),
            RawLine::Away { .. } => 0,
        },
        (None, Event::InputResolved { sources, .. }) => sources.weight(),
        _ => 0,
    };
    long + 256
}

/// When a commit also writes a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointWhen {
    /// When enough events or changes came since the last one.
    Due,
    /// When anything changed since the last one.
    Changed,
    /// In any case, because the cursors must be kept.
    Always,
}

pub(super) fn load(
    log: &Reader,
    now: Timestamp,
    progress: &mut dyn FnMut(f64),
) -> Result<(State, RunHeads, Digest), EngineError> {
    let (mut state, digest) = checkpoint::restore(log, now)?;
    let from = state.applied;
    // Without usable tables everything is folded again from the first record.
    let mut runs = if from == Seq(0) { RunHeads::default() } else { RunHeads::open(log)? };
    let (head, _) = log.head();
    let total = (head.0 - from.0).max(1) as f64;
    log.try_scan::<EngineError>(from.next(), None, |entry| {
        let event = entry.event()?;
        state.apply(entry.seq, entry.at, &event)?;
        runs.apply(log, entry.seq, &event)?;
        if entry.seq.0 % 65_536 == 0 {
            progress((entry.seq.0 - from.0) as f64 / total);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((state, runs, digest))
}

/// Cursors as a checkpoint stores them.
pub(crate) fn cursor_documents(
    cursors: &[(&str, Cursor)],
) -> impl Iterator<Item = (String, Option<Vec<u8>>)> {
    let encoded = |(name, cursor): &(&str, Cursor)| {
        (format!("cursor.{name}"), Some(codec::encode_cursor(cursor)))
    };
    cursors.iter().map(encoded)
}

/// The position up to which an append-only projection was durable at the last checkpoint.
pub fn cursor(log: &Reader, name: &str) -> Result<Cursor, EngineError> {
    match log.document(&format!("cursor.{name}"))? {
        Some(bytes) => Ok(codec::decode_cursor(&bytes)?),
        None => Ok(Cursor::default()),
    }
}
