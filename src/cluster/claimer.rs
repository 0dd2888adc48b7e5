//! Claiming: a host that follows takes jobs from the list and reports about them.
//!
//! Contract. A job is begun once in each process, also when a call that comes late lists it again: then its lease
//! is left to end. When this host is asked for a job that it had, it passes it on, unless it did not look at it then. Its reports are sent in their order until the database has
//! them; a job whose lease this host lost is dropped, and its reports with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::shared_jobs::{ClaimedJob, JobReport, SharedJobs};
use super::shared_log::{Member, SharedError};

/// Most reports in one call.
const REPORTS_MAX: usize = 256;
/// About how many bytes of reports are sent in one call.
const REPORT_BYTES: usize = 1 << 20;

/// What changed among the jobs of this host.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Jobs to begin.
    pub begun: Vec<u64>,
    /// Jobs that are no longer those of this host.
    pub lost: Vec<u64>,
}

/// Most jobs that are remembered. A call that comes so late is not waited for.
const HAD_MAX: usize = 10_000;

/// Keeps the newest ones.
fn keep(all: &mut BTreeSet<u64>, job: u64) -> bool {
    let is_new = all.insert(job);
    if all.len() > HAD_MAX {
        all.pop_first();
    }
    is_new
}

struct Job {
    /// The number of its next report.
    next: u64,
    /// Its last report was made.
    is_over: bool,
    /// It is passed on instead of given back.
    is_asked: bool,
}

pub struct Claimer<J> {
    jobs: J,
    me: Member,
    lease: Duration,
    mine: BTreeMap<u64, Job>,
    /// Reports that the database may not have.
    unsent: VecDeque<JobReport>,
    /// Jobs that are left to other hosts, as soon as the database answers.
    passed: Vec<u64>,
    /// Jobs that this process had.
    had: BTreeSet<u64>,
    /// Those of them that it got again.
    again: BTreeSet<u64>,
    /// Those of them that it did not look at.
    unseen: BTreeSet<u64>,
}

impl<J: SharedJobs> Claimer<J> {
    pub fn new(jobs: J, me: Member, lease: Duration) -> Claimer<J> {
        let (mine, unsent) = (BTreeMap::new(), VecDeque::new());
        let (passed, had, again) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let unseen = BTreeSet::new();
        Claimer { jobs, me, lease, mine, unsent, passed, had, again, unseen }
    }

    /// Jobs that are not over.
    pub fn open(&self) -> usize {
        self.mine.values().filter(|job| !job.is_over).count()
    }

    /// Takes up to so many jobs.
    pub fn claim(&mut self, count: usize) -> Result<Vec<u64>, SharedError> {
        let claimed = self.jobs.claim_jobs(&self.me, count, self.lease)?;
        Ok(claimed.into_iter().filter(|one| self.add(*one)).map(|one| one.job).collect())
    }

    fn add(&mut self, ClaimedJob { job, is_asked }: ClaimedJob) -> bool {
        // What is over here was given back, or the host that leads has not taken its last report in yet.
        let comes_again = |of: &Job| of.is_over && !of.is_asked && is_asked;
        if self.mine.get(&job).is_some_and(comes_again) {
            self.mine.remove(&job);
            self.unsent.retain(|report| report.job != job);
        }
        if self.mine.contains_key(&job) {
            return false;
        }
        let is_new = keep(&mut self.had, job) || is_asked && self.unseen.remove(&job);
        if is_new {
            self.mine.insert(job, Job { next: 0, is_over: false, is_asked });
        } else if is_asked {
            // It was here before, and was given back.
            self.passed.push(job);
        } else {
            keep(&mut self.again, job);
        }
        is_new
    }

    /// Holds the leases. A claim without an answer shows here.
    pub fn hold(&mut self, places: usize) -> Result<Changes, SharedError> {
        // When everything was said, only the host that leads still has to do something.
        let unsent: BTreeSet<u64> = self.unsent.iter().map(|report| report.job).collect();
        let said = |(job, of): &(&u64, &Job)| of.is_over && !unsent.contains(*job);
        let mut except: BTreeSet<u64> = self.again.clone();
        except.extend(self.mine.iter().filter(said).map(|(job, _)| *job));
        let except: Vec<u64> = except.into_iter().collect();
        let held = self.jobs.hold_jobs(&self.me, places, self.lease, &except)?;
        let jobs: BTreeSet<u64> = held.iter().map(|one| one.job).collect();
        let lost = self.mine.keys().filter(|job| !jobs.contains(job)).copied().collect::<Vec<_>>();
        let mut changes = Changes::default();
        for job in lost {
            let was = self.mine.remove(&job);
            self.unsent.retain(|report| report.job != job);
            // One that is over was removed by the leader.
            if was.is_some_and(|was| !was.is_over) {
                changes.lost.push(job);
            }
        }
        changes.begun = held.into_iter().filter(|one| self.add(*one)).map(|one| one.job).collect();
        Ok(changes)
    }

    /// Adds a report, which [`Claimer::send`] sends.
    pub fn report(&mut self, job: u64, bytes: Vec<u8>, is_last: bool) {
        let Some(of) = self.mine.get_mut(&job).filter(|of| !of.is_over) else { return };
        self.unsent.push_back(JobReport { job, number: of.next, bytes });
        of.next += 1;
        of.is_over = is_last;
    }

    /// Adds the last report about a job that this host did not look at. When it is asked for it, it looks.
    pub fn leave(&mut self, job: u64, bytes: Vec<u8>) {
        keep(&mut self.unseen, job);
        self.report(job, bytes, true);
    }

    /// Whether a job was listed for each host in turn.
    pub fn is_asked(&self, job: u64) -> bool {
        self.mine.get(&job).is_some_and(|of| of.is_asked)
    }

    /// Leaves a job to the other hosts when it was listed for each in turn. False when it was not: then the host
    /// that leads wants a report.
    pub fn pass_on(&mut self, job: u64) -> bool {
        let is_asked = self.mine.get(&job).is_some_and(|of| of.is_asked && of.next == 0);
        if is_asked {
            self.mine.remove(&job);
            self.passed.push(job);
        }
        is_asked
    }

    pub fn has_sent_all(&self) -> bool {
        self.unsent.is_empty() && self.passed.is_empty()
    }

    /// Sends reports, as many as one call takes; true when some are left.
    pub fn send(&mut self) -> Result<bool, SharedError> {
        if !self.passed.is_empty() {
            self.jobs.pass_on(&self.me, &self.passed)?;
            self.passed.clear();
        }
        if self.unsent.is_empty() {
            return Ok(false);
        }
        let mut bytes = 0;
        let fits = |report: &&JobReport| {
            bytes += report.bytes.len();
            bytes <= REPORT_BYTES
        };
        let count = self.unsent.iter().take(REPORTS_MAX).take_while(fits).count().max(1);
        let sent = &self.unsent.make_contiguous()[..count];
        self.jobs.report(&self.me, sent)?;
        self.unsent.drain(..count);
        Ok(!self.unsent.is_empty())
    }
}
