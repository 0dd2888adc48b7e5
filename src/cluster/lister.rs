//! Listing: the host that leads lets workers on other hosts carry attempts out, and takes their reports in.
//!
//! Contract. An attempt that was listed ends in one of three ways: with the last report of the worker that had
//! it, with a failure when that worker was lost, or it is given back because no worker took it or could carry
//! it out. The reports of a job come in their order and once, all from one worker. When this host lacks the source of
//! an attempt, every host that works is asked, also one that has just started, and the hosts that could not be asked
//! are named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::contract::ids::Seq;
use crate::contract::vocabulary::{FailureCause, ReasonCode};
use crate::state::decide::{Failed, Outcome, Report, RetryHint};
use crate::work::other_hosts::SeenHost;
use crate::work::other_workers::{FromOthers, OtherWorkers, Unasked};
use crate::work::pool::StartedAttempt;

use super::lookout::Lookout;
use super::outcomes::{WorkerReport, unpack};
use super::shared_jobs::{JobStanding, SharedJobs, WorkHost};
use super::shared_log::{Member, SharedError};

/// A job that no worker took in so many looks is given back.
const FREE_LOOKS_MAX: u32 = 3;
/// The same for a job that this host cannot carry out, when the hosts that are asked are busy or have just started.
const ASKED_LOOKS_MAX: u32 = 60;
/// A host takes work for so long after it was heard of.
const HEARD: Duration = Duration::from_secs(5);
/// A host that is not heard of for so long is not waited for.
const AWAY_MAX: Duration = Duration::from_secs(600);
/// How often what other leaders left is removed, in looks.
const TIDY_EVERY: u32 = 20;

#[derive(Debug)]
struct OpenJob {
    started: StartedAttempt,
    is_listed: bool,
    /// Each host is asked in turn, because the source is not here.
    asking: Option<Asking>,
    /// The number of its next report.
    next: u64,
    /// Looks since it was listed in which no worker had it.
    free_looks: u32,
}

/// The hosts that are asked for a source.
#[derive(Debug)]
struct Asking {
    /// Looks at the other hosts before. Only a newer one knows a host that has just started.
    since: u32,
    asked: BTreeSet<String>,
    /// Those of them that have not looked yet.
    left: Vec<String>,
}

pub struct Lister<J> {
    jobs: J,
    me: Member,
    open: BTreeMap<u64, OpenJob>,
    /// Jobs that are over here and may still be listed.
    ended: Vec<u64>,
    taken: Vec<(u64, u64)>,
    looks: u32,
    /// The other hosts that work, as the last look found them.
    others: Vec<WorkHost>,
    /// Looks that found them.
    looked: u32,
    /// Nothing is listed any more, and what no worker has is given back.
    finishes: bool,
}

impl<J: SharedJobs> Lister<J> {
    pub fn new(jobs: J, me: Member) -> Lister<J> {
        let (open, ended, taken) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (others, looks, looked, finishes) = (Vec::new(), 0, 0, false);
        Lister { jobs, me, open, ended, taken, looks, others, looked, finishes }
    }

    /// The attempt is listed with the next step.
    pub fn list(&mut self, started: StartedAttempt) {
        self.add(started, None);
    }

    /// The attempt is listed with the next step for each host in turn, until one can carry it out.
    pub fn ask(&mut self, started: StartedAttempt) {
        let (since, asked, left) = (self.looked, BTreeSet::new(), Vec::new());
        self.add(started, Some(Asking { since, asked, left }));
    }

    fn add(&mut self, started: StartedAttempt, asking: Option<Asking>) {
        let job = started.started.0;
        let open = OpenJob { started, is_listed: false, asking, next: 0, free_looks: 0 };
        self.open.insert(job, open);
    }

    /// The attempt of a request is over, whatever workers still do.
    pub fn end(&mut self, request: Seq) {
        let is_of = |open: &OpenJob| open.started.request == request;
        let jobs: Vec<u64> =
            self.open.iter().filter(|(_, open)| is_of(open)).map(|(job, _)| *job).collect();
        jobs.into_iter().for_each(|job| self.close(job));
    }

    /// Gives back what no worker has begun, from the next look on.
    pub fn finish(&mut self) {
        self.finishes = true;
    }

    /// How many attempts the workers of other hosts take at a time.
    pub fn places(&self) -> usize {
        let heard = self.heard();
        heard.map(|host| host.places.unwrap_or(0)).fold(0, usize::saturating_add)
    }

    /// Hosts that are heard of and take work of this leader.
    fn heard(&self) -> impl Iterator<Item = &WorkHost> {
        let takes_work = |host: &&WorkHost| host.silent < HEARD && !host.has_other_rules;
        self.others.iter().filter(takes_work)
    }

    /// Hosts that may have a source and could not be asked.
    fn unasked(&self, Asking { asked, left, .. }: &Asking) -> Vec<Unasked> {
        let could_not = |host: &&WorkHost| {
            let is_known = host.silent < AWAY_MAX && !host.has_other_rules;
            is_known && (!asked.contains(&host.host) || left.contains(&host.host))
        };
        let unasked = self.others.iter().filter(could_not);
        let told = |host: &WorkHost| Unasked {
            host: host.host.clone(),
            away: Some(host.silent).filter(|silent| *silent >= HEARD),
        };
        unasked.map(told).collect()
    }

    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.ended.is_empty() && self.taken.is_empty()
    }

    fn close(&mut self, job: u64) {
        if self.open.remove(&job).is_some() {
            self.ended.push(job);
        }
    }

    /// Lists, removes, and takes reports in. After an error it is repeated; what was found before the error
    /// is in `found`.
    pub fn step(&mut self, found: &mut Vec<FromOthers>) -> Result<(), SharedError> {
        // First, because a job that came back may be listed again.
        if !self.ended.is_empty() {
            self.jobs.remove(&self.me, &self.ended)?;
            self.taken.retain(|(job, _)| !self.ended.contains(job));
            self.ended.clear();
        }
        if self.finishes {
            // Nobody else knows of them.
            for job in self.unlisted(|_| true) {
                let open = self.open.remove(&job);
                // An earlier try without an answer may have listed it.
                self.ended.push(job);
                found.extend(open.map(|open| self.returned(open)));
            }
        } else {
            let fresh = self.unlisted(|open| open.asking.is_none());
            if !fresh.is_empty() {
                self.jobs.list(&self.me, &fresh)?;
                self.listed(&fresh);
            }
            self.ask_others(found)?;
        }
        if !self.taken.is_empty() {
            self.jobs.drop_reports(&self.taken)?;
            self.taken.clear();
        }
        if !self.open.is_empty() {
            self.take_reports(found)?;
        }
        Ok(())
    }

    /// Lists what is asked for, once it is known whom to ask. Without anybody it comes back.
    fn ask_others(&mut self, found: &mut Vec<FromOthers>) -> Result<(), SharedError> {
        let looked = self.looked;
        let asked =
            self.unlisted(|open| open.asking.as_ref().is_some_and(|asking| asking.since < looked));
        if asked.is_empty() {
            return Ok(());
        }
        let hosts: Vec<String> = self.heard().map(|host| host.host.clone()).collect();
        if hosts.is_empty() {
            asked.into_iter().for_each(|job| self.give_back(job, RetryHint::After(0), found));
            return Ok(());
        }
        self.ask_for(&asked, &hosts)?;
        self.listed(&asked);
        Ok(())
    }

    fn ask_for(&mut self, jobs: &[u64], hosts: &[String]) -> Result<(), SharedError> {
        self.jobs.ask(&self.me, jobs, hosts)?;
        for job in jobs {
            let open = self.open.get_mut(job);
            if let Some(asking) = open.and_then(|open| open.asking.as_mut()) {
                asking.asked.extend(hosts.iter().cloned());
                asking.left = hosts.to_vec();
            }
        }
        Ok(())
    }

    fn unlisted(&self, which: impl Fn(&OpenJob) -> bool) -> Vec<u64> {
        let of = |(_, open): &(&u64, &OpenJob)| !open.is_listed && which(open);
        self.open.iter().filter(of).map(|(job, _)| *job).collect()
    }

    fn listed(&mut self, jobs: &[u64]) {
        for job in jobs {
            if let Some(open) = self.open.get_mut(job) {
                open.is_listed = true;
            }
        }
    }

    fn take_reports(&mut self, found: &mut Vec<FromOthers>) -> Result<(), SharedError> {
        for report in self.jobs.reports(&self.me)? {
            self.taken.push((report.job, report.number));
            let Some(open) = self.open.get_mut(&report.job) else { continue };
            if report.number != open.next {
                continue;
            }
            open.next += 1;
            let StartedAttempt { request, attempt, epoch, .. } = open.started;
            match unpack(&report.bytes) {
                Ok(WorkerReport::Outcome(outcome)) => {
                    let is_last = is_last(&outcome);
                    found.push(FromOthers::Report(Report { request, attempt, epoch, outcome }));
                    if is_last {
                        self.close(report.job);
                    }
                }
                Ok(WorkerReport::GivenBack) => {
                    open.next -= 1;
                    self.give_back(report.job, RetryHint::After(0), found);
                }
                Err(error) => {
                    open.next -= 1;
                    tracing::warn!(%error, job = report.job, "a report of another host cannot be read");
                    // The next try may end like this one, so it counts and waits.
                    self.give_back(report.job, RetryHint::Later, found);
                }
            }
        }
        Ok(())
    }

    fn give_back(&mut self, job: u64, again: RetryHint, found: &mut Vec<FromOthers>) {
        if let Some(open) = self.open.remove(&job) {
            self.ended.push(job);
            // An attempt that has reported cannot begin again; another one follows it.
            found.push(match open.next {
                0 => self.returned(open),
                _ => FromOthers::Report(lost(&open.started, again)),
            });
        }
    }

    /// Hosts that were not heard of when the others were asked.
    fn new_hosts(&self, job: u64) -> Vec<String> {
        let Some(Asking { asked, .. }) = self.open.get(&job).and_then(|open| open.asking.as_ref())
        else {
            return Vec::new();
        };
        let is_new = |host: &&WorkHost| !asked.contains(&host.host);
        self.heard().filter(is_new).map(|host| host.host.clone()).collect()
    }

    fn returned(&self, open: OpenJob) -> FromOthers {
        match &open.asking {
            None => FromOthers::Returned(open.started),
            Some(asking) => {
                FromOthers::NotFound { unasked: self.unasked(asking), started: open.started }
            }
        }
    }

    /// Looks after jobs whose worker was lost, or that have none. Less often than [`Lister::step`].
    pub fn look(&mut self, found: &mut Vec<FromOthers>) -> Result<(), SharedError> {
        if self.looks.is_multiple_of(TIDY_EVERY) {
            self.jobs.forget_others(&self.me)?;
        }
        self.looks += 1;
        self.others = self.jobs.work_hosts(&self.me)?;
        self.looked += 1;
        if self.open.is_empty() {
            return Ok(());
        }
        let standing = self.jobs.standing(&self.me)?;
        // A report may have come before the lease ended.
        self.take_reports(found)?;
        let listed: BTreeMap<u64, JobStanding> = standing.into_iter().collect();
        let (mut free, mut again) = (Vec::new(), Vec::new());
        let heard: BTreeSet<String> = self.heard().map(|host| host.host.clone()).collect();
        let known: Vec<u64> =
            self.open.iter().filter(|(_, open)| open.is_listed).map(|(job, _)| *job).collect();
        for job in known {
            let Some(open) = self.open.get_mut(&job) else { continue };
            match (listed.get(&job), &mut open.asking) {
                (Some(JobStanding::Held), _) => open.free_looks = 0,
                (Some(JobStanding::Asks(left)), Some(asking)) if left.is_empty() => {
                    asking.left.clear();
                    again.push(job);
                }
                (Some(JobStanding::Asks(left)), Some(asking)) => {
                    open.free_looks += 1;
                    asking.left.clone_from(left);
                    let somebody_comes = left.iter().any(|host| heard.contains(host));
                    let waits = somebody_comes && open.free_looks < ASKED_LOOKS_MAX;
                    if self.finishes || !waits {
                        free.push(job);
                    }
                }
                (Some(JobStanding::Free | JobStanding::Asks(_)), _) => {
                    open.free_looks += 1;
                    if self.finishes || open.free_looks >= FREE_LOOKS_MAX {
                        free.push(job);
                    }
                }
                (Some(JobStanding::Over), _) => {
                    found.push(FromOthers::Report(lost(&open.started, RetryHint::Later)));
                    self.close(job);
                }
                // It was withdrawn, or the database lost it.
                (None, _) => self.give_back(job, RetryHint::After(0), found),
            }
        }
        for job in again {
            let hosts = self.new_hosts(job);
            match hosts.is_empty() || self.finishes {
                true => free.push(job),
                false => self.ask_for(&[job], &hosts)?,
            }
        }
        let unknown = listed.into_keys().filter(|job| !self.open.contains_key(job));
        self.ended.extend(unknown);
        if !free.is_empty() {
            self.jobs.withdraw(&self.me, &free)?;
        }
        Ok(())
    }
}

/// Whether no further report of the attempt counts.
pub(super) fn is_last(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Produced { .. } | Outcome::Skipped { .. } | Outcome::Failed(_))
}

fn lost(started: &StartedAttempt, again: RetryHint) -> Report {
    let StartedAttempt { request, attempt, epoch, .. } = *started;
    let outcome = Outcome::Failed(Failed {
        again,
        reason: Some(ReasonCode::Unavailable),
        cause: Some(FailureCause::Program),
        message: "the host that carried out the attempt did not finish it".to_owned(),
        input: Box::default(),
        error: None,
    });
    Report { request, attempt, epoch, outcome }
}

/// How often reports are looked for while other hosts have attempts.
const STEP_EVERY: Duration = Duration::from_millis(5);
/// How long nothing is tried after an error.
const REST: Duration = Duration::from_millis(500);

enum Order {
    Begin(StartedAttempt),
    Ask(StartedAttempt),
    End(Seq),
    Finish,
}

/// A lister beside a running service.
pub struct Listing {
    orders: Sender<Order>,
    inbox: Receiver<FromOthers>,
    places: Arc<AtomicUsize>,
    come_first: bool,
    lookout: Option<Lookout>,
}

impl Listing {
    /// Looks after lost workers so often. `come_first`: other hosts come before the threads of this one.
    pub fn start<J: SharedJobs + 'static>(
        lister: Lister<J>,
        look_every: Duration,
        come_first: bool,
        lookout: Option<Lookout>,
    ) -> std::io::Result<Listing> {
        let ((orders, incoming), (found, inbox)) = (unbounded(), unbounded());
        let places = Arc::<AtomicUsize>::default();
        let told = Arc::clone(&places);
        let thread = std::thread::Builder::new().name("jobs".to_owned());
        thread.spawn(move || serve(lister, look_every, &incoming, &found, &told))?;
        Ok(Listing { orders, inbox, places, come_first, lookout })
    }
}

/// Until the service drops its end.
fn serve<J: SharedJobs>(
    mut lister: Lister<J>,
    look_every: Duration,
    incoming: &Receiver<Order>,
    out: &Sender<FromOthers>,
    places: &AtomicUsize,
) {
    let mut look_at = Instant::now();
    loop {
        let until_look = look_at.saturating_duration_since(Instant::now());
        let wait = if lister.is_idle() { until_look } else { until_look.min(STEP_EVERY) };
        let first = match incoming.recv_timeout(wait) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for order in first.into_iter().chain(incoming.try_iter()) {
            match order {
                Order::Begin(started) => lister.list(started),
                Order::Ask(started) => lister.ask(started),
                Order::End(request) => lister.end(request),
                Order::Finish => lister.finish(),
            }
        }
        let mut found = Vec::new();
        let mut done = lister.step(&mut found);
        if done.is_ok() && Instant::now() >= look_at {
            look_at = Instant::now() + look_every;
            done = lister.look(&mut found);
            places.store(lister.places(), Ordering::Release);
        }
        for told in found {
            if out.send(told).is_err() {
                return;
            }
        }
        if let Err(error) = done {
            tracing::debug!(%error, "the jobs of other hosts wait");
            places.store(0, Ordering::Release);
            look_at = Instant::now() + REST;
            std::thread::sleep(REST.min(look_every));
        }
    }
}

impl OtherWorkers for Listing {
    fn places(&self) -> usize {
        self.places.load(Ordering::Acquire)
    }

    fn come_first(&self) -> bool {
        self.come_first
    }

    fn begin(&self, started: StartedAttempt) {
        let _ = self.orders.send(Order::Begin(started));
    }

    fn ask(&self, started: StartedAttempt) {
        let _ = self.orders.send(Order::Ask(started));
    }

    fn end(&self, request: Seq) {
        let _ = self.orders.send(Order::End(request));
    }

    fn finish(&self) {
        let _ = self.orders.send(Order::Finish);
    }

    fn inbox(&self) -> &Receiver<FromOthers> {
        &self.inbox
    }

    fn hosts(&self) -> Option<Vec<SeenHost>> {
        self.lookout.as_ref()?.hosts()
    }
}
