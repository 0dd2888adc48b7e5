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
//!
//! What costs money mostly waits for somebody else, so it has threads of its own: a slow model
//! holds up neither the finding of inputs nor work that costs nothing. The clock of a step runs
//! while a thread is at it, never while it waits for one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Condvar, Mutex};

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::ReasonCode;
use crate::log::{ReadError, Reader};
use crate::state::decide::{Again, Failed, Outcome, Report};
use crate::state::event::{Charge, Event, TakenRequest};

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

/// Longest wait for an answer to be committed: a disk that takes longer has other problems, and
/// the try goes on all the same.
const COMMIT_PATIENCE: Duration = Duration::from_secs(10);

/// Answers on their way into the log.
#[derive(Default)]
struct Answers {
    open: Mutex<BTreeSet<(Seq, Digest)>>,
    settled: Condvar,
}

impl Answers {
    fn settle(&self, request: Seq, call: &Digest) {
        if self.open.lock().remove(&(request, *call)) {
            self.settled.notify_all();
        }
    }
}

/// What a worker may do while it works.
pub struct Desk<'a> {
    log: &'a Reader,
    request: Seq,
    answers: &'a Answers,
    report: &'a (dyn Fn(Outcome) -> bool + Sync),
}

impl Desk<'_> {
    /// Makes an answer a fact and returns when it is one, so that a crash right after does not pay
    /// for it twice.
    pub fn responded(&self, call: Digest, body: Vec<u8>, facts: String) {
        let which = (self.request, call);
        let mut open = self.answers.open.lock();
        open.insert(which);
        parking_lot::MutexGuard::unlocked(&mut open, || {
            if !(self.report)(Outcome::Responded { call, body, facts }) {
                self.answers.settle(self.request, &call);
            }
        });
        let is_open = |open: &mut BTreeSet<(Seq, Digest)>| open.contains(&which);
        let waited = self.answers.settled.wait_while_for(&mut open, is_open, COMMIT_PATIENCE);
        if waited.timed_out() {
            open.remove(&which);
        }
    }

    /// Tells that something was paid for.
    pub fn charged(&self, charge: Charge) {
        (self.report)(Outcome::Charged(charge));
    }

    /// Tells with which pack a flow is used.
    pub fn used_flow(&self, flow_id: &str, variant: Option<&str>, pack_hash: Digest) {
        let (flow_id, variant) = (flow_id.to_owned(), variant.map(str::to_owned));
        (self.report)(Outcome::FlowUsed { flow_id, variant, pack_hash });
    }

    /// The text of an answer that was paid for earlier.
    pub fn reply(&self, job: &Job, call: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
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

/// How many threads there are, and what they may take on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Threads that find inputs and do what costs nothing.
    pub threads: usize,
    /// Threads that wait for what costs something.
    pub paid_threads: usize,
    /// Tries taken at a time.
    pub slots: usize,
    /// Longest time of one step of a try.
    pub timeout: Duration,
}

type Waiting = Arc<Mutex<BTreeMap<(Seq, u32), (Ticket, Paid)>>>;
type AtWork = Arc<Mutex<BTreeMap<(Seq, u32), Instant>>>;

/// The threads that work.
pub struct Pool {
    tasks: Sender<Task>,
    paid: Sender<Task>,
    paid_threads: usize,
    waiting: Waiting,
    at_work: AtWork,
    answers: Arc<Answers>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Pool {
    /// Starts the threads.
    pub fn start(
        worker: Arc<dyn Worker>,
        log: &Reader,
        size: PoolSize,
        reports: Sender<Report>,
    ) -> std::io::Result<Pool> {
        // Each try has at most one task of each kind waiting, so sending never blocks the
        // sequencer.
        let (tasks, inbox) = bounded(size.slots * 2);
        let (paid, paid_inbox) = bounded(size.slots * 2);
        let (waiting, at_work) = (Waiting::default(), AtWork::default());
        let answers = Arc::<Answers>::default();
        let mut handles = Vec::with_capacity(size.threads + size.paid_threads);
        let kinds = [("worker", size.threads, inbox), ("paid", size.paid_threads, paid_inbox)];
        for (kind, count, inbox) in kinds {
            for number in 0..count {
                let bench = Bench {
                    worker: Arc::clone(&worker),
                    log: log.clone(),
                    timeout: size.timeout,
                    waiting: Arc::clone(&waiting),
                    at_work: Arc::clone(&at_work),
                    answers: Arc::clone(&answers),
                    inbox: inbox.clone(),
                    reports: reports.clone(),
                };
                let thread = std::thread::Builder::new().name(format!("{kind}-{number}"));
                handles.push(thread.spawn(move || bench.run())?);
            }
        }
        let paid_threads = size.paid_threads;
        Ok(Pool { tasks, paid, paid_threads, waiting, at_work, answers, threads: handles })
    }

    /// Begins a try.
    pub fn begin(&self, ticket: Ticket) {
        // The workers are gone only when the service is ending.
        let _ = self.tasks.send(Task::Begin(ticket));
    }

    /// Lets a try go on that waits for its input to be committed.
    pub fn proceed(&self, request: Seq, attempt: u32) {
        if self.waiting.lock().contains_key(&(request, attempt)) {
            let _ = self.paid.send(Task::Continue(request, attempt));
        }
    }

    /// An answer is a fact, or never will be one because its try is over.
    pub fn answered(&self, request: Seq, call: &Digest) {
        self.answers.settle(request, call);
    }

    /// Whether as much waits for a paid thread as there are of them: starting more would only
    /// take the choice away from what arrives later and is more urgent.
    pub fn is_backed_up(&self) -> bool {
        self.waiting.lock().len() >= self.paid_threads
    }

    /// Tries whose step has taken longer than this.
    pub fn overdue(&self, patience: Duration) -> Vec<(Seq, u32)> {
        let at_work = self.at_work.lock();
        let late = at_work.iter().filter(|(_, since)| since.elapsed() > patience);
        late.map(|(which, _)| *which).collect()
    }

    /// Forgets the rest of one try, whose input came too late to be of use.
    pub fn drop_attempt(&self, request: Seq, attempt: u32) {
        self.waiting.lock().remove(&(request, attempt));
    }

    /// Forgets a try that will not go on.
    pub fn forget(&self, request: Seq) {
        self.waiting.lock().retain(|(waiting, _), _| *waiting != request);
        self.at_work.lock().retain(|(working, _), _| *working != request);
    }

    /// Waits for the threads, which end when nothing is left to do.
    pub fn join(self) {
        drop((self.tasks, self.paid));
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
    at_work: AtWork,
    answers: Arc<Answers>,
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
                self.send(&ticket, vec![broken(format!("cannot read the request: {error}"))]);
                return;
            }
        };
        self.guarded(&ticket, |desk| match self.worker.begin(&job, desk) {
            Begun::Done(mut outcomes) => {
                let last = outcomes.pop();
                for outcome in outcomes {
                    (desk.report)(outcome);
                }
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
        let (request, answers) = (ticket.request, self.answers.as_ref());
        let desk = Desk { log: &self.log, request, answers, report: &report };
        let step = std::panic::AssertUnwindSafe(|| step(&desk));
        let which = (ticket.request, ticket.attempt);
        self.at_work.lock().insert(which, Instant::now());
        let stepped = std::panic::catch_unwind(step);
        self.at_work.lock().remove(&which);
        match stepped {
            Ok(Some(outcome)) => self.send(ticket, vec![outcome]),
            Ok(None) => true,
            Err(_) => self.send(ticket, vec![broken("the worker panicked".to_owned())]),
        };
    }

    /// False when nobody listens any more, which is only when the service is ending.
    fn send(&self, ticket: &Ticket, outcomes: Vec<Outcome>) -> bool {
        let Ticket { request, attempt, epoch, .. } = *ticket;
        let mut reports =
            outcomes.into_iter().map(|outcome| Report { request, attempt, epoch, outcome });
        reports.all(|report| self.reports.send(report).is_ok())
    }

    fn job(&self, ticket: &Ticket) -> Result<Job, ReadError> {
        let unexpected = || ReadError::unexpected(ticket.request, "it should be a request");
        let event = self.log.event(ticket.request)?.ok_or_else(unexpected)?;
        let taken = match event {
            Event::RequestAccepted(request) | Event::RequestParked { request, .. } => request,
            _ => return Err(unexpected()),
        };
        let mut replies = BTreeMap::new();
        for seq in &ticket.replies {
            if let Some(Event::ModelResponded { call, .. }) = self.log.event(*seq)? {
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
