//! Work on a host that follows: it claims jobs, runs their attempts on its own threads, and reports.
//!
//! Contract. A job names the record that started an attempt. The attempt begins once this host has that record
//! and its own state says that it is under way; all that it needs is in the log of this host. What an attempt
//! waits for, that its input or an answer is durable, comes with the commits that this host applies. An attempt
//! that this host cannot carry out as the leader would is given back before it reports anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use crate::contract::ids::Seq;
use crate::export::Committed;
use crate::log::{ReadError, Reader};
use crate::registry::SharedFlows;
use crate::state::decide::{Outcome, Report};
use crate::state::event::{Event, TakenRequest};
use crate::state::{State, Status};
use crate::work::pool::{Pool, PoolSize, StartedAttempt};
use crate::work::worker::Worker;

use super::claimer::Claimer;
use super::lister::is_last;
use super::outcomes::{WorkerReport, pack};
use super::shared_jobs::SharedJobs;
use super::shared_log::SharedError;

/// Attempts of a worker thread: one under way, and one that waits for it.
const PLACES_PER_THREAD: usize = 2;
/// A job whose record does not come for so long is given back.
const BEHIND_MAX: Duration = Duration::from_secs(5);
/// The same for a job whose source this host may be the only one to have.
const ASKED_BEHIND_MAX: Duration = Duration::from_secs(60);

/// How much this host works, and how often it says so.
#[derive(Debug, Clone, Copy)]
pub struct HostWorkSize {
    pub threads: usize,
    pub paid_threads: usize,
    /// Longest time of one step of an attempt.
    pub timeout: Duration,
    pub hold_every: Duration,
    pub claim_every: Duration,
    /// Questions of scheduled requests would wait here for a batch, which only the host that leads sends.
    pub has_batches: bool,
}

/// Whether an attempt begins here.
enum Begins {
    With(StartedAttempt),
    /// Its flow was never used, as far as this host knows.
    WithUnknownFlow,
    Not,
}

/// An attempt that runs here.
struct UnderWay {
    request: Seq,
    attempt: u32,
    has_reported: bool,
}

pub struct HostWork<J> {
    claimer: Claimer<J>,
    worker: Arc<dyn Worker>,
    pool: Pool,
    reports: Receiver<Report>,
    stops: Arc<AtomicBool>,
    flows: SharedFlows,
    size: HostWorkSize,
    /// Jobs whose record this host does not have yet, and since when.
    waiting: Vec<(u64, Instant)>,
    under_way: BTreeMap<u64, UnderWay>,
    hold_at: Instant,
    claim_at: Instant,
    winds_down: bool,
}

impl<J: SharedJobs> HostWork<J> {
    pub fn start(
        claimer: Claimer<J>,
        worker: Arc<dyn Worker>,
        flows: SharedFlows,
        log: &Reader,
        size: HostWorkSize,
    ) -> std::io::Result<HostWork<J>> {
        let places = places(&size);
        let (sender, reports) = bounded(places * 16);
        let stops = Arc::<AtomicBool>::default();
        let HostWorkSize { threads, paid_threads, timeout, .. } = size;
        let pool_size = PoolSize { threads, paid_threads, slots: places, timeout };
        let pool = Pool::start(Arc::clone(&worker), log, pool_size, sender, &stops)?;
        let now = Instant::now();
        let (waiting, under_way) = (Vec::new(), BTreeMap::new());
        Ok(HostWork {
            claimer,
            worker,
            pool,
            reports,
            stops,
            flows,
            size,
            waiting,
            under_way,
            hold_at: now,
            claim_at: now,
            winds_down: false,
        })
    }

    /// What follows here from a commit that this host applied.
    pub fn observe(&mut self, events: &[Committed], state: &State) {
        for Committed { event, .. } in events {
            match event {
                Event::InputResolved { request, attempt, .. } if self.has(*request, *attempt) => {
                    self.pool.proceed(*request, *attempt);
                }
                Event::ModelResponded { request, call, .. } => self.pool.answered(*request, call),
                Event::WorkHeld { request, .. }
                | Event::RequestCancelled { request, .. }
                | Event::RequestDuplicated { request, .. }
                | Event::SummaryProduced { request, .. }
                | Event::RequestSkipped { request, .. }
                | Event::AttemptFailed { request, .. } => self.forget(*request),
                Event::ModelCharged { .. } => {
                    if let Some(charged) = &state.flows().charged {
                        self.worker.charged(charged);
                    }
                }
                Event::SessionStarted { .. } => {
                    let all: Vec<Seq> = self.under_way.values().map(|one| one.request).collect();
                    all.into_iter().for_each(|request| self.forget(request));
                }
                _ => {}
            }
        }
    }

    /// Whether an attempt is under way here. Another host may carry out one with the same number.
    fn has(&self, request: Seq, attempt: u32) -> bool {
        self.under_way.values().any(|one| (one.request, one.attempt) == (request, attempt))
    }

    /// The attempt of a request is over. The leader removes its job.
    fn forget(&mut self, request: Seq) {
        let count = self.under_way.len();
        self.under_way.retain(|_, one| one.request != request);
        if self.under_way.len() < count {
            self.pool.forget(request);
        }
    }

    /// Reports, holds, claims and begins. True when it did anything.
    pub fn step(&mut self, state: &State, log: &Reader) -> Result<bool, SharedError> {
        self.take_reports();
        self.watch_timeouts();
        let sent = self.send();
        let now = Instant::now();
        if now >= self.hold_at {
            self.hold_at = now + self.size.hold_every;
            let changes = self.claimer.hold(self.places())?;
            for job in changes.lost {
                self.waiting.retain(|(one, _)| *one != job);
                if let Some(one) = self.under_way.remove(&job) {
                    self.pool.forget(one.request);
                }
            }
            self.waiting.extend(changes.begun.into_iter().map(|job| (job, now)));
        }
        // A report that the database refuses must not cost the leases of the other jobs.
        let mut did = sent?;
        let free = self.places().saturating_sub(self.claimer.open());
        // A host that is behind takes no more than it already has.
        if free > 0 && self.waiting.is_empty() && now >= self.claim_at {
            self.claim_at = now + self.size.claim_every;
            let claimed = self.claimer.claim(free)?;
            did |= !claimed.is_empty();
            self.waiting.extend(claimed.into_iter().map(|job| (job, now)));
        }
        self.begin_waiting(state, log);
        Ok(did)
    }

    fn send(&mut self) -> Result<bool, SharedError> {
        let mut did = false;
        while self.claimer.send()? {
            did = true;
        }
        Ok(did)
    }

    fn begin_waiting(&mut self, state: &State, log: &Reader) {
        let head = log.head().0.0;
        let claimer = &self.claimer;
        let longest = |job| if claimer.is_asked(job) { ASKED_BEHIND_MAX } else { BEHIND_MAX };
        let is_due =
            |(job, since): &(u64, Instant)| *job <= head || since.elapsed() > longest(*job);
        let (due, waiting): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_due);
        self.waiting = waiting;
        for (job, since) in due {
            if self.winds_down || job > head {
                self.leave(job);
                continue;
            }
            match self.started(job, state, log) {
                Ok(Begins::With(started)) => {
                    let StartedAttempt { request, attempt, .. } = started;
                    let has_reported = false;
                    self.under_way.insert(job, UnderWay { request, attempt, has_reported });
                    self.pool.begin(started);
                }
                // The host that leads says it when it asks for the attempt, and its commit may still be on its way.
                Ok(Begins::WithUnknownFlow)
                    if self.claimer.is_asked(job) && since.elapsed() < ASKED_BEHIND_MAX =>
                {
                    self.waiting.push((job, since));
                }
                Ok(Begins::WithUnknownFlow) => self.leave(job),
                Ok(Begins::Not) => self.give_back(job),
                Err(error) => {
                    tracing::warn!(%error, job, "an attempt is given back to the host that leads");
                    self.leave(job);
                }
            }
        }
    }

    /// This host cannot carry it out. Where each host is asked in turn, the next one is.
    fn give_back(&mut self, job: u64) {
        if !self.claimer.pass_on(job) {
            self.claimer.report(job, pack(WorkerReport::GivenBack), true);
        }
    }

    /// This host did not look whether it can carry it out, which the host that leads must know.
    fn leave(&mut self, job: u64) {
        self.claimer.leave(job, pack(WorkerReport::GivenBack));
    }

    /// The attempt of a job, unless it is over, or this host would use another pack than others.
    fn started(&self, job: u64, state: &State, log: &Reader) -> Result<Begins, ReadError> {
        let started = Seq(job);
        let Some(Event::AttemptStarted { request, attempt }) = log.event(started)? else {
            return Ok(Begins::Not);
        };
        let epoch = state.epoch();
        let current = state.open_request(request).filter(|open| {
            open.row.status == Status::Running && open.row.attempts == attempt && epoch < started
        });
        let Some(open) = current else { return Ok(Begins::Not) };
        let gives_way = state.gives_way(request);
        if gives_way && self.size.has_batches {
            return Ok(Begins::Not);
        }
        let Some(Event::SessionStarted { run_id, .. }) = log.event(epoch)? else {
            return Ok(Begins::Not);
        };
        let taken = match log.event(request)? {
            Some(Event::RequestAccepted(taken) | Event::RequestParked { request: taken, .. }) => {
                taken
            }
            _ => return Ok(Begins::Not),
        };
        match self.has_same_pack(&taken, state) {
            None => return Ok(Begins::WithUnknownFlow),
            Some(false) => return Ok(Begins::Not),
            Some(true) => {}
        }
        Ok(Begins::With(StartedAttempt {
            request,
            attempt,
            started,
            epoch,
            run_id,
            replies: open.particulars().replies.clone(),
            gives_way,
        }))
    }

    /// Whether this host has the pack that the flow of a request was used with; `None` when it was never used.
    fn has_same_pack(&self, taken: &TakenRequest, state: &State) -> Option<bool> {
        let (flow_id, variant) = (taken.flow_id.as_str(), taken.variant.as_deref());
        let used = state.flows().pack_of(flow_id, variant)?;
        Some(self.flows.read().pack(flow_id, variant) == Some(used))
    }

    fn take_reports(&mut self) {
        let reports: Vec<Report> = self.reports.try_iter().collect();
        for Report { request, attempt, outcome, .. } in reports {
            self.take_report(request, attempt, outcome);
        }
    }

    fn take_report(&mut self, request: Seq, attempt: u32, outcome: Outcome) {
        let mut of = self.under_way.iter_mut();
        let of = of.find(|(_, one)| (one.request, one.attempt) == (request, attempt));
        let Some((&job, one)) = of else {
            // The attempt has ended. No event of it will come, so what would wait for one is released.
            match outcome {
                Outcome::Resolved { .. } => self.pool.drop_attempt(request, attempt),
                Outcome::Responded { call, .. } => self.pool.answered(request, &call),
                _ => {}
            }
            return;
        };
        match outcome {
            // The log has the pack already.
            Outcome::FlowUsed { .. } => {}
            // Another host may have the source, the pack or the provider that is missing here.
            Outcome::Failed(_) if !one.has_reported => {
                self.under_way.remove(&job);
                self.give_back(job);
            }
            outcome => {
                one.has_reported = true;
                let is_last = is_last(&outcome);
                if is_last {
                    self.under_way.remove(&job);
                }
                self.claimer.report(job, pack(WorkerReport::Outcome(outcome)), is_last);
            }
        }
    }

    /// Fails attempts whose worker did not notice its own timeout.
    fn watch_timeouts(&mut self) {
        for (request, attempt, outcome) in self.pool.take_overdue(self.size.timeout) {
            let mut of = self.under_way.values_mut();
            if let Some(one) = of.find(|one| (one.request, one.attempt) == (request, attempt)) {
                one.has_reported = true;
            }
            self.take_report(request, attempt, outcome);
        }
    }

    /// How many attempts this host takes at a time now.
    fn places(&self) -> usize {
        if self.winds_down { 0 } else { places(&self.size) }
    }

    /// Begins nothing any more. What is under way goes on.
    pub fn wind_down(&mut self) {
        self.winds_down = true;
        self.hold_at = Instant::now();
        for (job, _) in std::mem::take(&mut self.waiting) {
            self.leave(job);
        }
    }

    /// Whether nothing is under way, and the leader can read all reports.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty() && self.claimer.has_sent_all()
    }

    /// Ends without waiting for attempts, and gives them back as far as the database answers.
    pub fn finish(mut self) {
        self.stops.store(true, Ordering::Release);
        self.take_reports();
        let open: Vec<u64> =
            self.waiting.iter().map(|(job, _)| job).chain(self.under_way.keys()).copied().collect();
        for one in std::mem::take(&mut self.under_way).into_values() {
            self.pool.forget(one.request);
        }
        open.into_iter().for_each(|job| self.leave(job));
        if let Err(error) = self.send() {
            tracing::debug!(%error, "attempts were not given back; their leases end");
        }
        self.pool.abandon();
    }
}

fn places(size: &HostWorkSize) -> usize {
    (size.threads + size.paid_threads) * PLACES_PER_THREAD
}
