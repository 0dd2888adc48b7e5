//! What the loop holds. The other files of this room add what it does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, never};

use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::control::question::Answer;
use crate::control::reply::Reply;
use crate::control::socket::{Asked, Progress};
use crate::projections::projector::Projector;
use crate::projections::runs::NoteOrder;
use crate::sequencer::engine::Engine;
use crate::sequencer::intake::{Arrived, Intake};
use crate::sequencer::mark::QueueMarks;
use crate::state::decide::Report;
use crate::work::other_hosts::SeenHost;
use crate::work::other_workers::{FromOthers, OtherWorkers};
use crate::work::pool::{Pool, StartedAttempt};

use super::counts::SessionCounts;
use super::setup::{Service, Until};

/// The loop of one process.
pub(super) struct ServiceLoop {
    pub service: Service,
    pub until: Until,
    pub engine: Engine,
    pub projector: Projector,
    pub attempts: Attempts,
    pub queue: QueueLines,
    pub questions: Receiver<Asked>,
    /// Tells those who ask that the service is ending.
    pub asking: Option<Progress>,
    pub notes: Receiver<NoteOrder>,
    pub batch: Batch,
    /// The waiters of the batches that the writer has, oldest first.
    pub sealed: VecDeque<Waiters>,
    pub disk: FreeSpace,
    pub session: Session,
}

/// The batch that is being filled, beside its events, which the engine has.
#[derive(Default)]
pub(super) struct Batch {
    /// The position of the queue after the lines of this batch; `None` while it has no lines. A
    /// batch takes the lines of one queue batch at most, so one position says what it consumed.
    pub mark: Option<Vec<u8>>,
    pub(crate) waiters: Waiters,
}

/// Answers and replies that are sent when a batch is durable.
#[derive(Default)]
pub(super) struct Waiters {
    pub answers: Vec<(Sender<Answer>, Reply)>,
    /// Each order of notes, with the position of its first record.
    pub notes: Vec<(Sender<Seq>, Seq)>,
}

/// The queue as far as it is read.
pub(super) struct QueueLines {
    /// `None` once reading was stopped.
    pub intake: Option<Intake>,
    /// A queue batch that its parser still works on. It is taken into the next batch.
    pub(crate) unparsed: Option<Receiver<Arrived>>,
    /// The file ends after the lines that were handed over, without an unfinished line.
    pub(crate) at_end: bool,
    /// How far the queues are consumed by what was taken in, of all hosts that share the log.
    pub(crate) marks: QueueMarks,
    /// Why the queue of this host is not read, though it should be.
    pub waits: Option<QueueWaits>,
}

/// Since when lines wait, and why.
pub(super) type QueueWaits = (Timestamp, String);

/// The attempts under way.
pub(super) struct Attempts {
    pub pool: Pool,
    pub reports: Receiver<Report>,
    /// Attempts that may be under way at a time.
    pub slots: usize,
    /// Longest time of one step of an attempt.
    pub timeout: Duration,
    pub others: Option<Others>,
    /// Requests whose attempts began before the budget was raised.
    pub begun_before: BTreeSet<Seq>,
}

/// An attempt that another host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AwayAttempt {
    /// The event that started it.
    pub started: Seq,
    /// It was started as one that lets `now` requests go first.
    pub gives_way: bool,
}

impl AwayAttempt {
    pub(super) fn of(started: &StartedAttempt) -> AwayAttempt {
        AwayAttempt { started: started.started, gives_way: started.gives_way }
    }
}

/// The workers of other hosts.
pub(super) struct Others {
    pub workers: Box<dyn OtherWorkers>,
    /// Requests whose attempt they have.
    pub under_way: BTreeMap<Seq, AwayAttempt>,
    /// Attempts that began here, by their request.
    pub here: BTreeMap<Seq, StartedAttempt>,
    /// How an attempt ended here, while the others are asked whether they have its source.
    pub asked: BTreeMap<Seq, Report>,
}

impl Others {
    pub(super) fn new(workers: Box<dyn OtherWorkers>) -> Others {
        let (here, asked) = (BTreeMap::new(), BTreeMap::new());
        Others { workers, under_way: BTreeMap::new(), here, asked }
    }

    /// The attempt of a request is over.
    pub(super) fn end(&mut self, request: Seq) {
        self.here.remove(&request);
        self.asked.remove(&request);
        if self.under_way.remove(&request).is_some() {
            self.workers.end(request);
        }
    }

    /// Asks the others for an attempt whose source is not here; `false` when all were asked. The report counts when they
    /// do not have it either. Who the others are is not asked here: one that has just started takes no work yet.
    pub(super) fn ask(&mut self, report: &Report, has_batches: bool) -> bool {
        let is_current = |started: &&StartedAttempt| {
            (started.attempt, started.epoch) == (report.attempt, report.epoch)
                && !(started.gives_way && has_batches)
        };
        let started = self.here.get(&report.request).filter(is_current).cloned();
        let Some(started) = started else { return false };
        self.here.remove(&report.request);
        self.under_way.insert(started.request, AwayAttempt::of(&started));
        self.asked.insert(started.request, report.clone());
        self.workers.ask(started);
        true
    }

    /// An attempt comes back. False when they do not have it any more.
    pub(super) fn take_back(&mut self, started: &StartedAttempt) -> bool {
        let has_it = self.under_way.get(&started.request) == Some(&AwayAttempt::of(started));
        if has_it {
            self.under_way.remove(&started.request);
        }
        has_it
    }
}

impl Attempts {
    /// Whether this host leaves work to the others, as long as they have places.
    pub(super) fn works_elsewhere(&self) -> bool {
        let leaves = self.others.as_ref().is_some_and(|others| others.workers.come_first());
        leaves && self.has_places_elsewhere()
    }

    /// How many attempts other hosts have.
    pub(super) fn elsewhere(&self) -> usize {
        self.others.as_ref().map_or(0, |others| others.under_way.len())
    }

    /// How many of these give way to `now` requests.
    pub(super) fn scheduled_elsewhere(&self) -> usize {
        let gives_way =
            |others: &Others| others.under_way.values().filter(|attempt| attempt.gives_way).count();
        self.others.as_ref().map_or(0, gives_way)
    }

    /// How far all hosts are, if that is known.
    pub(super) fn hosts(&self) -> Option<Vec<SeenHost>> {
        self.others.as_ref().and_then(|others| others.workers.hosts())
    }

    /// How many more they take.
    pub(super) fn free_elsewhere(&self) -> usize {
        let free = |others: &Others| others.workers.places().saturating_sub(others.under_way.len());
        self.others.as_ref().map_or(0, free)
    }

    /// How many they take at a time.
    pub(super) fn places_elsewhere(&self) -> usize {
        self.others.as_ref().map_or(0, |others| others.workers.places())
    }

    pub(super) fn has_places_elsewhere(&self) -> bool {
        self.places_elsewhere() > 0
    }

    pub(super) fn inbox_of_others(&self) -> Receiver<FromOthers> {
        self.others.as_ref().map_or_else(never, |others| others.workers.inbox().clone())
    }
}

/// Free space on the disk of the home, which is looked at now and then.
pub(super) struct FreeSpace {
    pub checked: Instant,
    pub bytes: Option<u64>,
}

/// The session, which lasts a day at most.
pub(super) struct Session {
    pub counts: SessionCounts,
    /// The sessions of earlier days of this process.
    pub earlier: SessionCounts,
    /// The day of the session in the configured zone.
    pub day: Day,
    /// The next day has begun: no attempt starts until this session has ended.
    pub(crate) is_ending: bool,
}

impl ServiceLoop {
    pub(super) fn now(&self) -> Timestamp {
        self.service.machine.clock.now()
    }

    /// Whether the batch has all that one commit may have.
    pub(super) fn is_full(&self) -> bool {
        self.engine.pending() >= self.service.config.commit_inputs_max
            || self.engine.pending_bytes() >= self.service.config.commit_bytes_max
    }

    pub(crate) fn takes_lines(&self) -> bool {
        self.engine.state().paused().is_empty()
    }
}
