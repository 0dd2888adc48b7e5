//! Attempts that workers on all hosts carry out, and what they report.
//!
//! Contract. Each call either answers, or its outcome is unclear, as in [`super::shared_log`]. What is here
//! only carries work: the log alone says which attempts are under way, and the leader takes a report in only
//! for an attempt that it listed itself. So whatever is lost, doubled or late here costs time, and at most an
//! attempt.

use std::time::Duration;

use super::shared_log::{Member, SharedError};

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobStanding {
    /// No worker has it.
    Free,
    Held,
    /// The lease of its worker has ended.
    Over,
    /// No worker has it, and these hosts have not looked yet. Without one, every host that was asked has passed it on.
    Asks(Vec<String>),
}

/// Another host that carries attempts out, as it last said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkHost {
    pub host: String,
    /// How many attempts it takes at a time; `None` before a service that starts has said it, and after one has ended.
    pub places: Option<usize>,
    /// Since it was heard of.
    pub silent: Duration,
    /// It has other rules about data, so it takes no job of this leader.
    pub has_other_rules: bool,
}

/// A job of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimedJob {
    pub job: u64,
    /// It was listed for hosts that are asked in turn: this one passes it on instead of giving it back.
    pub is_asked: bool,
}

/// A report of a worker about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReport {
    /// The event that started the attempt.
    pub job: u64,
    /// Counted from 0 for each job.
    pub number: u64,
    /// As `cluster::outcomes` writes it.
    pub bytes: Vec<u8>,
}

/// The jobs of one log, by the event that started their attempt.
pub trait SharedJobs: Send {
    /// Forgets all that other leaders listed, with their reports. Only the leader of the list does that.
    fn forget_others(&mut self, me: &Member) -> Result<(), SharedError>;

    /// Lists jobs that are not listed yet.
    fn list(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError>;

    /// Lists jobs for these hosts, each of which may take a job once. A job that is listed already is listed for them
    /// when every host that was asked before has passed it on.
    fn ask(&mut self, me: &Member, jobs: &[u64], hosts: &[String]) -> Result<(), SharedError>;

    /// Leaves jobs that this worker was asked for to the other hosts.
    fn pass_on(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError>;

    /// How each job stands that this leader listed.
    fn standing(&mut self, me: &Member) -> Result<Vec<(u64, JobStanding)>, SharedError>;

    /// Removes jobs of this leader that no worker has.
    fn withdraw(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError>;

    /// Removes jobs of this leader, with their reports.
    fn remove(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError>;

    /// Some reports about jobs of this leader, by job and number.
    fn reports(&mut self, me: &Member) -> Result<Vec<JobReport>, SharedError>;

    /// Removes reports that were taken in, by job and number.
    fn drop_reports(&mut self, taken: &[(u64, u64)]) -> Result<(), SharedError>;

    /// The other hosts of the list that work, also those that are not heard of now.
    fn work_hosts(&mut self, me: &Member) -> Result<Vec<WorkHost>, SharedError>;

    /// Takes free jobs of the host that leads, the oldest first, and holds them for so long.
    fn claim_jobs(
        &mut self,
        me: &Member,
        count: usize,
        lease: Duration,
    ) -> Result<Vec<ClaimedJob>, SharedError>;

    /// Holds the jobs of this worker for so long from now, `except` some, and says which it holds. Tells how
    /// many attempts it takes at a time.
    fn hold_jobs(
        &mut self,
        me: &Member,
        places: usize,
        lease: Duration,
        except: &[u64],
    ) -> Result<Vec<ClaimedJob>, SharedError>;

    /// Adds reports about jobs that this worker holds. What is there already is not added again.
    fn report(&mut self, me: &Member, reports: &[JobReport]) -> Result<(), SharedError>;
}
