//! The seam between the service and whoever makes summaries.
//!
//! Contract. A [`Worker`] gets a [`Job`] and says what happened; it never touches the log, the
//! queue or a published file. It works in two steps, so that work which exists or is in the
//! making is found out before anything is paid for: [`Worker::begin`] finds the input and names
//! the item, and what costs money is a [`Paid`] continuation that runs only once that fact is
//! committed. Work that costs nothing reports both at once.
//!
//! A worker may be called again for the same request after a crash or a failure. It then finds the
//! answers that were already paid for in [`Job::replies`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, RwLock};

use super::past::{PastError, event_at};
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::ReasonCode;
use crate::log::Reader;
use crate::state::decide::{Again, Failed, FlowStanding, Outcome, Report};
use crate::state::event::{Event, TakenRequest};

/// Says how a flow stands, for the moment a request arrives.
pub trait FlowDirectory: Send + Sync {
    /// Whether the flow may run.
    fn standing(&self, flow_id: &str, variant: Option<&str>) -> FlowStanding;
}

/// A directory that a reload can replace.
pub type SharedFlows = Arc<RwLock<Arc<dyn FlowDirectory>>>;

/// One try.
#[derive(Debug, Clone)]
pub struct Job {
    /// The request, by its acceptance.
    pub request: Seq,
    /// The try, from 1.
    pub attempt: u32,
    /// The epoch in which it was started.
    pub epoch: Seq,
    /// The run it belongs to.
    pub run_id: String,
    /// When it was started.
    pub started_at: Timestamp,
    /// Longest time it may take.
    pub timeout: Duration,
    /// The request as it was taken in.
    pub taken: Arc<TakenRequest>,
    /// Answers already paid for: what was asked, and the event that holds the answer.
    pub replies: BTreeMap<Digest, Seq>,
}

/// What a worker may do while it works.
pub struct Desk<'a> {
    log: &'a Reader,
    report: &'a (dyn Fn(Outcome) + Sync),
}

impl Desk<'_> {
    /// Makes an answer a fact at once, so that a crash right after does not pay for it twice.
    pub fn responded(&self, call: Digest, body: Vec<u8>, facts: String) {
        (self.report)(Outcome::Responded { call, body, facts });
    }

    /// The text of an answer that was paid for earlier.
    pub fn reply(&self, job: &Job, call: &Digest) -> Result<Option<Vec<u8>>, PastError> {
        match job.replies.get(call) {
            Some(seq) => Ok(self.log.body(*seq)?),
            None => Ok(None),
        }
    }
}

/// The part of a try that costs something.
pub type Paid = Box<dyn FnOnce(&Desk<'_>) -> Outcome + Send>;

/// What the first step of a try came to.
pub enum Begun {
    /// It is over: one or more outcomes, the last of them final.
    Done(Vec<Outcome>),
    /// The input is known, as the outcome says; the rest costs something.
    Resolved(Outcome, Paid),
}

/// Makes summaries.
pub trait Worker: Send + Sync {
    /// Finds the input of a request and names its item.
    fn begin(&self, job: &Job, desk: &Desk<'_>) -> Begun;
}

enum Task {
    Begin(Ticket),
    Continue(Seq, u32),
}

/// What the pool needs to know to make a job.
#[derive(Debug, Clone)]
pub struct Ticket {
    /// The request.
    pub request: Seq,
    /// The try.
    pub attempt: u32,
    /// The epoch.
    pub epoch: Seq,
    /// The run.
    pub run_id: String,
    /// When it was started.
    pub started_at: Timestamp,
    /// Answers already paid for.
    pub replies: Vec<Seq>,
}

type Waiting = Arc<Mutex<BTreeMap<(Seq, u32), (Ticket, Paid)>>>;

/// The threads that work.
pub struct Pool {
    tasks: Sender<Task>,
    waiting: Waiting,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Pool {
    /// Starts `threads` workers that take at most `slots` tries at a time.
    pub fn start(
        worker: Arc<dyn Worker>,
        log: &Reader,
        threads: usize,
        slots: usize,
        timeout: Duration,
        reports: Sender<Report>,
    ) -> std::io::Result<Pool> {
        // Each try has at most two tasks waiting, so sending one never blocks the sequencer.
        let (tasks, inbox) = bounded(slots * 2);
        let waiting = Waiting::default();
        let mut handles = Vec::with_capacity(threads);
        for number in 0..threads {
            let bench = Bench {
                worker: Arc::clone(&worker),
                log: log.clone(),
                timeout,
                waiting: Arc::clone(&waiting),
                inbox: inbox.clone(),
                reports: reports.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            handles.push(thread.spawn(move || bench.run())?);
        }
        Ok(Pool { tasks, waiting, threads: handles })
    }

    /// Begins a try.
    pub fn begin(&self, ticket: Ticket) {
        // The workers are gone only when the service is ending.
        let _ = self.tasks.send(Task::Begin(ticket));
    }

    /// Lets a try go on that waits for its input to be committed.
    pub fn proceed(&self, request: Seq, attempt: u32) {
        if self.waiting.lock().contains_key(&(request, attempt)) {
            let _ = self.tasks.send(Task::Continue(request, attempt));
        }
    }

    /// Forgets a try that will not go on.
    pub fn forget(&self, request: Seq) {
        self.waiting.lock().retain(|(waiting, _), _| *waiting != request);
    }

    /// Waits for the threads, which end when nothing is left to do.
    pub fn join(self) {
        drop(self.tasks);
        for thread in self.threads {
            // A panic in a worker was reported as the failure of its try.
            let _ = thread.join();
        }
    }

    /// Leaves the threads to the end of the process.
    pub fn abandon(self) {}
}

struct Bench {
    worker: Arc<dyn Worker>,
    log: Reader,
    timeout: Duration,
    waiting: Waiting,
    inbox: Receiver<Task>,
    reports: Sender<Report>,
}

impl Bench {
    fn run(self) {
        while let Ok(task) = self.inbox.recv() {
            match task {
                Task::Begin(ticket) => self.begin(ticket),
                Task::Continue(request, attempt) => {
                    let waiting = self.waiting.lock().remove(&(request, attempt));
                    if let Some((ticket, paid)) = waiting {
                        self.guarded(&ticket, |desk| Some(paid(desk)));
                    }
                }
            }
        }
    }

    fn begin(&self, ticket: Ticket) {
        let job = match self.job(&ticket) {
            Ok(job) => job,
            Err(error) => {
                return self
                    .send(&ticket, vec![broken(format!("cannot read the request: {error}"))]);
            }
        };
        self.guarded(&ticket, |desk| match self.worker.begin(&job, desk) {
            Begun::Done(mut outcomes) => {
                let last = outcomes.pop();
                outcomes.into_iter().for_each(|outcome| (desk.report)(outcome));
                last
            }
            Begun::Resolved(outcome, paid) => {
                // Before the report: the commit of the report is what lets it go on.
                let key = (ticket.request, ticket.attempt);
                self.waiting.lock().insert(key, (ticket.clone(), paid));
                Some(outcome)
            }
        });
    }

    /// Runs one step; a panic in it is the failure of this try and of nothing else.
    fn guarded(&self, ticket: &Ticket, step: impl FnOnce(&Desk<'_>) -> Option<Outcome>) {
        let report = |outcome| self.send(ticket, vec![outcome]);
        let desk = Desk { log: &self.log, report: &report };
        let step = std::panic::AssertUnwindSafe(|| step(&desk));
        match std::panic::catch_unwind(step) {
            Ok(Some(outcome)) => self.send(ticket, vec![outcome]),
            Ok(None) => {}
            Err(_) => self.send(ticket, vec![broken("the worker panicked".to_owned())]),
        }
    }

    fn send(&self, ticket: &Ticket, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            let Ticket { request, attempt, epoch, .. } = *ticket;
            // Nobody listens any more only when the service is ending.
            let _ = self.reports.send(Report { request, attempt, epoch, outcome });
        }
    }

    fn job(&self, ticket: &Ticket) -> Result<Job, PastError> {
        let unexpected = || PastError::Unexpected { seq: ticket.request, expected: "a request" };
        let event = event_at(&self.log, ticket.request)?.ok_or_else(unexpected)?;
        let taken = match event {
            Event::RequestAccepted(request) | Event::RequestParked { request, .. } => request,
            _ => return Err(unexpected()),
        };
        let mut replies = BTreeMap::new();
        for seq in &ticket.replies {
            if let Some(Event::ModelResponded { call, .. }) = event_at(&self.log, *seq)? {
                replies.insert(call, *seq);
            }
        }
        Ok(Job {
            request: ticket.request,
            attempt: ticket.attempt,
            epoch: ticket.epoch,
            run_id: ticket.run_id.clone(),
            started_at: ticket.started_at,
            timeout: self.timeout,
            taken: Arc::from(taken),
            replies,
        })
    }
}

/// A try that failed in us, not in the request: worth another try.
fn broken(message: String) -> Outcome {
    Outcome::Failed(Failed {
        again: Again::Later,
        reason: Some(ReasonCode::Unavailable),
        message,
        facts: "{}".to_owned(),
    })
}
