//! The threads on which attempts run.
//!
//! What costs money mostly waits for somebody else, so it has threads of its own: a slow model
//! holds up neither the finding of inputs nor work that costs nothing. The clock of a step runs
//! while a thread is at it, never while the step waits for a thread. It begins again with
//! each part of an answer that arrives as a stream.
//!
//! Steps of attempts that give way, which are those of scheduled requests, wait until no other step is
//! there. A step that a thread has begun is not interrupted, but its calls that wait for a limit of
//! their provider end when a step that goes first waits for the thread.
//!
//! After a stop no thread begins a step, and a step under way begins no call to a model. What was not done
//! is not reported: the attempt stays open, and the next session starts it.
//!
//! See docs/adr/0068-attempt-timeouts.md.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use parking_lot::Mutex;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::vocabulary::{FailureCause, ReasonCode};
use crate::log::{ReadError, Reader};
use crate::model::{CallEnd, RightOfWay};
use crate::state::decide::{Failed, Outcome, Report, RetryHint};
use crate::state::event::Event;

use super::replies::UncommittedReplies;
use super::task_queue::TaskQueue;
use super::worker::{AttemptRecorder, Begun, Job, Paid, Worker};

/// Time that a worker gets beyond its timeout, because it should notice the timeout itself.
const TIMEOUT_SLACK: Duration = Duration::from_secs(5);

enum Task {
    Begin(StartedAttempt),
    Continue(Seq, u32),
}

/// An attempt that the log says has started.
#[derive(Debug, Clone)]
pub struct StartedAttempt {
    pub request: Seq,
    pub attempt: u32,
    /// The event that started it.
    pub started: Seq,
    /// The session that started it, by its first event.
    pub epoch: Seq,
    pub run_id: String,
    /// The events of responses already paid for.
    pub replies: Vec<Seq>,
    /// Whether the attempts of other requests go before this one.
    pub gives_way: bool,
}

/// Which attempts have as many of their kind before them as there are paid threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BackedUp {
    pub now: bool,
    pub scheduled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolSize {
    /// Threads that find inputs and do what costs nothing.
    pub threads: usize,
    /// Threads that wait for what costs something.
    pub(crate) paid_threads: usize,
    /// Attempts under way at a time.
    pub slots: usize,
    /// Longest time of one step of an attempt.
    pub timeout: Duration,
}

/// Attempts whose input is reported and not committed yet, with their paid part.
type Waiting = Arc<Mutex<BTreeMap<(Seq, u32), (StartedAttempt, Paid)>>>;
/// Steps that a thread is at.
type AtWork = Arc<Mutex<BTreeMap<(Seq, u32), StepUnderWay>>>;

struct StepUnderWay {
    /// When it began, or when the last part of an answer arrived.
    since: Instant,
    gives_way: bool,
    /// Ends its call to a model.
    end: Arc<CallEnd>,
}

pub(crate) struct Pool {
    tasks: Arc<TaskQueue<Task>>,
    paid: Arc<TaskQueue<Task>>,
    paid_threads: usize,
    waiting: Waiting,
    at_work: AtWork,
    replies: Arc<UncommittedReplies>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Pool {
    /// `stops` is set by a stop.
    pub(crate) fn start(
        worker: Arc<dyn Worker>,
        log: &Reader,
        size: PoolSize,
        reports: Sender<Report>,
        stops: &Arc<AtomicBool>,
    ) -> std::io::Result<Pool> {
        let queue = || Arc::<TaskQueue<Task>>::new(TaskQueue::new(Arc::clone(stops)));
        let (tasks, paid) = (queue(), queue());
        let (waiting, at_work) = (Waiting::default(), AtWork::default());
        let replies = Arc::<UncommittedReplies>::default();
        let mut handles = Vec::with_capacity(size.threads + size.paid_threads);
        let kinds = [("worker", size.threads, &tasks), ("paid", size.paid_threads, &paid)];
        for (kind, count, inbox) in kinds {
            for number in 0..count {
                let pool_thread = PoolThread {
                    worker: Arc::clone(&worker),
                    log: log.clone(),
                    timeout: size.timeout,
                    waiting: Arc::clone(&waiting),
                    at_work: Arc::clone(&at_work),
                    replies: Arc::clone(&replies),
                    inbox: Arc::clone(inbox),
                    reports: reports.clone(),
                };
                let thread = std::thread::Builder::new().name(format!("{kind}-{number}"));
                handles.push(thread.spawn(move || pool_thread.run())?);
            }
        }
        let paid_threads = size.paid_threads;
        Ok(Pool { tasks, paid, paid_threads, waiting, at_work, replies, threads: handles })
    }

    pub(crate) fn begin(&self, started: StartedAttempt) {
        let (request, gives_way) = (started.request, started.gives_way);
        self.tasks.push(Task::Begin(started), request, gives_way);
    }

    /// Continues an attempt whose input is committed.
    pub(crate) fn proceed(&self, request: Seq, attempt: u32) {
        let waiting = self.waiting.lock();
        if let Some((started, _)) = waiting.get(&(request, attempt)) {
            self.paid.push(Task::Continue(request, attempt), request, started.gives_way);
        }
    }

    /// An attempt does not give way any more.
    pub(crate) fn raise(&self, request: Seq) {
        let mut waiting = self.waiting.lock();
        for ((waits, _), (started, _)) in waiting.iter_mut() {
            started.gives_way &= *waits != request;
        }
        for ((working, _), step) in self.at_work.lock().iter_mut() {
            step.gives_way &= *working != request;
        }
        self.tasks.raise(request);
        self.paid.raise(request);
    }

    /// A response is durable, or never will be because its attempt has ended.
    pub(crate) fn answered(&self, request: Seq, call: &Digest) {
        self.replies.settle(request, call);
    }

    /// Whether as many attempts wait for a paid thread as there are paid threads. Starting more
    /// would only take the choice away from requests that arrive later and are more urgent. Attempts
    /// that give way do not count for those that go before them.
    pub(crate) fn backed_up(&self) -> BackedUp {
        let waiting = self.waiting.lock();
        let give_way = waiting.values().filter(|(started, _)| started.gives_way).count();
        BackedUp {
            now: waiting.len() - give_way >= self.paid_threads,
            scheduled: waiting.len() >= self.paid_threads,
        }
    }

    /// How many attempts are under way here.
    pub(crate) fn load(&self) -> usize {
        let ((tasks, begun), (_, paid)) = (self.tasks.load(), self.paid.load());
        // What waits for a paid thread is among those whose input was resolved.
        tasks + begun + paid + self.waiting.lock().len()
    }

    /// How many steps of attempts run at a time.
    pub(crate) fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Drops attempts whose worker did not notice its own timeout, and says what became of them. What such a
    /// worker reports later does not count.
    pub(crate) fn take_overdue(&self, timeout: Duration) -> Vec<(Seq, u32, Outcome)> {
        let late: Vec<(Seq, u32)> = {
            let at_work = self.at_work.lock();
            let late =
                at_work.iter().filter(|(_, step)| step.since.elapsed() > timeout + TIMEOUT_SLACK);
            late.map(|(which, _)| *which).collect()
        };
        let timed_out = |(request, attempt)| {
            self.forget(request);
            let failed = Failed {
                again: RetryHint::Later,
                reason: Some(ReasonCode::Timeout),
                cause: Some(FailureCause::Timeout),
                message: "the attempt took longer than its timeout".to_owned(),
                input: Box::default(),
                error: None,
            };
            (request, attempt, Outcome::Failed(failed))
        };
        late.into_iter().map(timed_out).collect()
    }

    /// Drops the paid part of one attempt, whose input was reported too late to count.
    pub(crate) fn drop_attempt(&self, request: Seq, attempt: u32) {
        self.waiting.lock().remove(&(request, attempt));
    }

    /// Drops all attempts of a request that has ended, and ends their calls.
    pub(crate) fn forget(&self, request: Seq) {
        self.waiting.lock().retain(|(waiting, _), _| *waiting != request);
        self.at_work.lock().retain(|(working, _), step| {
            if *working == request {
                step.end.end();
            }
            *working != request
        });
    }

    /// Whether threads are at steps, or will be. When not, everything was reported.
    pub(crate) fn is_busy(&self) -> bool {
        self.tasks.is_busy() || self.paid.is_busy()
    }

    /// Waits for the threads, which end when no task is left, or with a stop.
    pub(crate) fn join(mut self) {
        self.close();
        for thread in std::mem::take(&mut self.threads) {
            // A panic in a worker was reported as the failure of its attempt.
            let _ = thread.join();
        }
    }

    /// Leaves the threads behind. Each ends after its step.
    pub(crate) fn abandon(self) {}

    fn close(&self) {
        self.tasks.close();
        self.paid.close();
    }
}

/// A process may begin another session, so no thread may wait for tasks that never come.
impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

struct PoolThread {
    worker: Arc<dyn Worker>,
    log: Reader,
    timeout: Duration,
    waiting: Waiting,
    at_work: AtWork,
    replies: Arc<UncommittedReplies>,
    inbox: Arc<TaskQueue<Task>>,
    reports: Sender<Report>,
}

impl PoolThread {
    fn run(self) {
        while let Some(task) = self.inbox.pop() {
            match task {
                Task::Begin(started) => self.begin(started),
                Task::Continue(request, attempt) => {
                    let waiting = self.waiting.lock().remove(&(request, attempt));
                    if let Some((started, paid)) = waiting {
                        self.guarded(&started, |recorder| Some(paid(recorder)));
                    }
                }
            }
            self.inbox.done();
        }
    }

    fn begin(&self, started: StartedAttempt) {
        let job = match self.job(&started) {
            Ok(job) => job,
            Err(error) => {
                self.send(&started, vec![broken(format!("cannot read the request: {error}"))]);
                return;
            }
        };
        self.guarded(&started, |recorder| match self.worker.begin(&job, recorder) {
            Begun::Done(mut outcomes) => {
                let last = outcomes.pop();
                for outcome in outcomes {
                    (recorder.report)(outcome);
                }
                last
            }
            Begun::Resolved(outcome, paid) => {
                // Before the report: the commit of the report continues this attempt.
                let key = (started.request, started.attempt);
                self.waiting.lock().insert(key, (started.clone(), paid));
                Some(outcome)
            }
        });
    }

    /// Runs one step. A panic in it fails this attempt and nothing else.
    fn guarded(
        &self,
        started: &StartedAttempt,
        step: impl FnOnce(&AttemptRecorder<'_>) -> Option<Outcome>,
    ) {
        let report = |outcome| self.send(started, vec![outcome]);
        let (request, replies) = (started.request, self.replies.as_ref());
        let which = (started.request, started.attempt);
        let go_on = || match self.at_work.lock().get_mut(&which) {
            Some(step) => {
                step.since = Instant::now();
                true
            }
            None => false,
        };
        let right_of_way = || {
            let gives_way = self.at_work.lock().get(&which).is_some_and(|step| step.gives_way);
            match gives_way {
                false if self.inbox.stops() => RightOfWay::Ends,
                false => RightOfWay::First,
                true if self.inbox.stops() => RightOfWay::ScheduledEnds,
                true if self.inbox.first_waits() => RightOfWay::InTheWay,
                true => RightOfWay::GivesWay,
            }
        };
        let end = Arc::<CallEnd>::default();
        let recorder = AttemptRecorder {
            log: &self.log,
            request,
            replies,
            report: &report,
            go_on: &go_on,
            right_of_way: &right_of_way,
            timeout: self.timeout,
            end: &end,
        };
        let step = std::panic::AssertUnwindSafe(|| step(&recorder));
        let (since, gives_way) = (Instant::now(), started.gives_way);
        let step_under_way = StepUnderWay { since, gives_way, end: Arc::clone(&end) };
        self.at_work.lock().insert(which, step_under_way);
        let stepped = std::panic::catch_unwind(step);
        self.at_work.lock().remove(&which);
        match stepped {
            Ok(Some(outcome)) if self.inbox.stops() && is_put_off(&outcome) => true,
            Ok(Some(outcome)) => self.send(started, vec![outcome]),
            Ok(None) => true,
            Err(_) => self.send(started, vec![broken("the worker panicked".to_owned())]),
        };
    }

    /// False when the receiver is gone, which is only when the service ends.
    fn send(&self, started: &StartedAttempt, outcomes: Vec<Outcome>) -> bool {
        let StartedAttempt { request, attempt, epoch, .. } = *started;
        let mut reports =
            outcomes.into_iter().map(|outcome| Report { request, attempt, epoch, outcome });
        reports.all(|report| self.reports.send(report).is_ok())
    }

    fn job(&self, started: &StartedAttempt) -> Result<Job, ReadError> {
        let unexpected = || ReadError::unexpected(started.request, "it should be a request");
        let event = self.log.event(started.request)?.ok_or_else(unexpected)?;
        let taken = match event {
            Event::RequestAccepted(request) | Event::RequestParked { request, .. } => request,
            _ => return Err(unexpected()),
        };
        let mut replies = BTreeMap::new();
        for seq in &started.replies {
            if let Some(Event::ModelResponded { call, .. }) = self.log.event(*seq)? {
                replies.insert(call, *seq);
            }
        }
        Ok(Job {
            run_id: started.run_id.clone(),
            attempt: started.attempt,
            started: started.started,
            timeout: self.timeout,
            taken: Arc::from(taken),
            replies,
        })
    }
}

/// Whether a limit of the provider or a stop kept a call back, and nothing went wrong.
fn is_put_off(outcome: &Outcome) -> bool {
    let Outcome::Failed(failed) = outcome else { return false };
    matches!(failed.again, RetryHint::After(_)) && failed.cause == Some(FailureCause::RateLimit)
}

/// A failure of this program, not of the request: another attempt may succeed.
fn broken(message: String) -> Outcome {
    Outcome::Failed(Failed {
        again: RetryHint::Later,
        reason: Some(ReasonCode::Unavailable),
        cause: Some(FailureCause::Program),
        message,
        input: Box::default(),
        error: None,
    })
}
