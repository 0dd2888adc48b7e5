//! A shared log in memory, with everything that a database and a network do to it: answers that are lost,
//! calls that are carried out late, and a failover that keeps only what was confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use summarizer::cluster::shared_jobs::{ClaimedJob, JobReport, JobStanding, SharedJobs, WorkHost};
use summarizer::cluster::shared_lines::{SharedLines, Shipped, ShippedLines, Sign};
use summarizer::cluster::shared_log::{
    Appended, Claim, End, LeaseHeld, Listed, Member, Outgoing, PREFERENCE, Reading, SharedError,
    SharedLog,
};
use summarizer::cluster::shared_orders::{
    GivenOrder, OrderAnswer, OrderStanding, SharedOrders, TAKEN_WITHIN,
};
use summarizer::contract::hash::Digest;
use summarizer::contract::ids::Seq;

use crate::support::Rng;

/// A commit as the list keeps it.
#[derive(Debug, Clone)]
pub struct Row {
    pub epoch: u64,
    pub end: End,
    pub shipped: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Tables {
    epoch: u64,
    leader: Option<Member>,
    successor: Option<String>,
    lease_until: u64,
    rows: Vec<Row>,
    queues: BTreeMap<String, Queue>,
    jobs: BTreeMap<u64, Job>,
    /// By job and number.
    reports: BTreeMap<(u64, u64), Vec<u8>>,
    workers: BTreeMap<String, WorkerRow>,
    orders: BTreeMap<String, OrderRow>,
    /// The fact that the kept keys are of.
    forgotten: Seq,
}

/// A host that works: the attempts that it takes, once it has said so, and when it was heard of.
#[derive(Debug, Clone)]
struct WorkerRow {
    places: Option<usize>,
    seen: u64,
}

#[derive(Debug, Clone)]
struct OrderRow {
    question: Vec<u8>,
    given: u64,
    taker: Taker,
    answer: Option<OrderAnswer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Taker {
    /// It waits.
    None,
    Leader(Member),
    /// It was withdrawn, or nobody asks for it any more.
    Nobody,
}

#[derive(Debug, Clone)]
struct Job {
    leader: Member,
    holder: Option<(Member, u64)>,
    /// Hosts that may take it; all of them where it is `None`.
    asks: Option<BTreeSet<String>>,
}

impl Job {
    fn claimed(&self, job: u64) -> ClaimedJob {
        ClaimedJob { job, is_asked: self.asks.is_some() }
    }
}

/// The shipped lines of a host, by their first byte.
#[derive(Debug, Clone, Default)]
struct Queue {
    start: u64,
    shipped: u64,
    lines: BTreeMap<u64, ShippedLines>,
}

/// A write, as the server gets it.
#[derive(Debug, Clone)]
enum Write {
    Append { claim: Claim, commit: Outgoing, lease: u64 },
    Claim { me: Member, lease: u64 },
    ClaimAgain { me: Member, epoch: u64, lease: u64 },
    Renew { me: Member, lease: u64 },
    Release { me: Member },
    KeepKeys { me: Member, forgotten: Seq },
    NameSuccessor { host: Option<String> },
    Settle,
    Begin { me: Member, from: u64 },
    Ship { me: Member, lines: ShippedLines },
    Drop { host: String, offset: u64 },
    ForgetOthers { me: Member },
    List { me: Member, jobs: Vec<u64> },
    Ask { me: Member, jobs: Vec<u64>, hosts: BTreeSet<String> },
    PassOn { me: Member, jobs: Vec<u64> },
    Withdraw { me: Member, jobs: Vec<u64> },
    Remove { me: Member, jobs: Vec<u64> },
    DropReports { taken: Vec<(u64, u64)> },
    ClaimJobs { me: Member, count: usize, lease: u64 },
    HoldJobs { me: Member, places: usize, lease: u64, except: Vec<u64> },
    Report { me: Member, reports: Vec<JobReport> },
    Give { id: String, order: Vec<u8> },
    WithdrawOrder { id: String },
    DropOrder { id: String },
    TakeOrders { me: Member },
    AnswerOrder { me: Member, id: String, answer: OrderAnswer },
}

/// What a write changed, or that it changed nothing.
enum Wrote {
    Nothing,
    Claim(Claim),
    Held(LeaseHeld),
    Jobs(Vec<ClaimedJob>),
    Orders(Vec<GivenOrder>),
    Done,
}

pub struct Database {
    rng: Rng,
    /// Calls of a hundred that go wrong in some way.
    pub faults: u64,
    pub clock_ms: u64,
    /// The end of an empty list.
    genesis: End,
    now: Tables,
    /// What a failover keeps.
    confirmed: Tables,
    late: Vec<Write>,
    /// Confirms nothing that it says it confirmed, as a server without a quorum does.
    pub lies: bool,
}

impl Database {
    pub fn new(seed: u64, genesis: Digest) -> Database {
        let (leader, rows, queues) = (None, Vec::new(), BTreeMap::new());
        let (jobs, reports, workers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let empty = Tables {
            epoch: 0,
            leader,
            successor: None,
            lease_until: 0,
            rows,
            queues,
            jobs,
            reports,
            workers,
            orders: BTreeMap::new(),
            forgotten: Seq(0),
        };
        Database {
            rng: Rng::new(seed),
            faults: 0,
            clock_ms: 0,
            genesis: End { n: 0, seq: Seq(0), hash: genesis },
            now: empty.clone(),
            confirmed: empty,
            late: Vec::new(),
            lies: false,
        }
    }

    /// A host is heard of that works, and has not said yet how much it takes.
    pub fn begins(&mut self, host: &str) {
        let row = WorkerRow { places: None, seen: self.clock_ms };
        self.now.workers.insert(host.to_owned(), row);
        self.confirmed = self.now.clone();
    }

    /// Jobs and reports that are left.
    pub fn jobs_left(&self) -> (usize, usize) {
        (self.now.jobs.len(), self.now.reports.len())
    }

    pub fn rows(&self) -> &[Row] {
        &self.now.rows
    }

    pub fn confirmed_rows(&self) -> &[Row] {
        &self.confirmed.rows
    }

    /// The claim that is in force, with the end of the list.
    pub fn claim(&self) -> Claim {
        Claim { epoch: self.now.epoch, end: self.end() }
    }

    fn end(&self) -> End {
        self.now.rows.last().map_or(self.genesis, |row| row.end)
    }

    fn end_at(&self, n: u64) -> Option<End> {
        match n {
            0 => Some(self.genesis),
            n => self.now.rows.get(n as usize - 1).map(|row| row.end),
        }
    }

    /// A standby takes over. It has what was confirmed, and what is under way is gone.
    pub fn fail_over(&mut self) {
        self.now = self.confirmed.clone();
        self.late.clear();
    }

    /// Carries out one of the calls that are still under way.
    pub fn land_late(&mut self) {
        if !self.late.is_empty() {
            let at = self.rng.below(self.late.len() as u64) as usize;
            let write = self.late.remove(at);
            self.write(write);
        }
    }

    /// Others may be served between any two calls of a host.
    fn land_some(&mut self) {
        if self.rng.chance(self.faults / 2) {
            self.land_late();
        }
    }

    fn call(&mut self, write: Write) -> Result<Wrote, SharedError> {
        let unclear = || Err(SharedError::Unclear("simulated".to_owned()));
        self.land_some();
        if self.rng.chance(self.faults) {
            match self.rng.below(4) {
                0 => {}
                1 => drop(self.write(write)),
                2 => self.late.push(write),
                _ => {
                    self.late.push(write.clone());
                    self.write(write);
                }
            }
            return unclear();
        }
        let wrote = self.write(write);
        if !self.lies {
            self.confirmed = self.now.clone();
        }
        Ok(wrote)
    }

    fn write(&mut self, write: Write) -> Wrote {
        let (end, clock) = (self.end(), self.clock_ms);
        let tables = &mut self.now;
        match write {
            Write::Settle => Wrote::Done,
            Write::KeepKeys { me, forgotten }
                if tables.leader.as_ref() == Some(&me) && tables.forgotten <= forgotten =>
            {
                tables.forgotten = forgotten;
                Wrote::Done
            }
            Write::KeepKeys { .. } => Wrote::Nothing,
            Write::Begin { me, from } => {
                let queue = Queue { start: me.start, shipped: from, lines: BTreeMap::new() };
                tables.queues.insert(me.host, queue);
                Wrote::Done
            }
            Write::Ship { me, lines } => match tables.queues.get_mut(&me.host) {
                Some(queue) if (queue.start, queue.shipped) == (me.start, lines.start) => {
                    queue.shipped = lines.end;
                    queue.lines.insert(lines.start, lines);
                    Wrote::Done
                }
                _ => Wrote::Nothing,
            },
            Write::Drop { host, offset } => {
                if let Some(queue) = tables.queues.get_mut(&host) {
                    queue.lines.retain(|_, lines| lines.end > offset);
                }
                Wrote::Done
            }
            Write::ForgetOthers { me } if tables.leader.as_ref() != Some(&me) => Wrote::Nothing,
            Write::ForgetOthers { me } => {
                tables.jobs.retain(|_, job| job.leader == me);
                let jobs = &tables.jobs;
                tables.reports.retain(|(job, _), _| jobs.contains_key(job));
                Wrote::Done
            }
            Write::List { me, jobs } => {
                for job in jobs {
                    let fresh = Job { leader: me.clone(), holder: None, asks: None };
                    tables.jobs.entry(job).or_insert(fresh);
                }
                Wrote::Done
            }
            Write::Ask { me, jobs, hosts } => {
                for id in jobs {
                    let asks = Some(hosts.clone());
                    match tables.jobs.get_mut(&id) {
                        None => {
                            tables.jobs.insert(id, Job { leader: me.clone(), holder: None, asks });
                        }
                        Some(job) => {
                            let all_passed = job.asks.as_ref().is_some_and(BTreeSet::is_empty);
                            if all_passed && job.holder.is_none() && job.leader == me {
                                job.asks = asks;
                            }
                        }
                    }
                }
                Wrote::Done
            }
            Write::PassOn { me, jobs } => {
                for job in jobs {
                    let job = tables.jobs.get_mut(&job);
                    let mine =
                        job.filter(|job| job.holder.as_ref().is_some_and(|(who, _)| *who == me));
                    let Some(job) = mine else { continue };
                    let Some(asks) = &mut job.asks else { continue };
                    asks.remove(&me.host);
                    job.holder = None;
                }
                Wrote::Done
            }
            Write::Withdraw { me, jobs } => {
                let goes = |id: &u64, job: &Job| {
                    job.leader == me && job.holder.is_none() && jobs.contains(id)
                };
                tables.jobs.retain(|id, job| !goes(id, job));
                Wrote::Done
            }
            Write::Remove { me, jobs } => {
                tables.jobs.retain(|id, job| job.leader != me || !jobs.contains(id));
                tables.reports.retain(|(job, _), _| !jobs.contains(job));
                Wrote::Done
            }
            Write::DropReports { taken } => {
                tables.reports.retain(|which, _| !taken.contains(which));
                Wrote::Done
            }
            Write::ClaimJobs { me, count, lease } => {
                let leader = tables.leader.as_ref();
                let free = tables.jobs.iter_mut();
                let free = free.filter(|(_, job)| {
                    let may = job.asks.as_ref().is_none_or(|asks| asks.contains(&me.host));
                    may && job.holder.is_none() && Some(&job.leader) == leader
                });
                let claimed = free.take(count).map(|(id, job)| {
                    job.holder = Some((me.clone(), clock + lease));
                    job.claimed(*id)
                });
                Wrote::Jobs(claimed.collect())
            }
            Write::HoldJobs { me, places, lease, except } => {
                let row = WorkerRow { places: Some(places), seen: clock };
                tables.workers.insert(me.host.clone(), row);
                let mut held = Vec::new();
                let jobs = tables.jobs.iter_mut().filter(|(id, _)| !except.contains(id));
                for (id, job) in jobs {
                    let claimed = job.claimed(*id);
                    if let Some((_, until)) = job.holder.as_mut().filter(|(who, _)| *who == me) {
                        *until = clock + lease;
                        held.push(claimed);
                    }
                }
                Wrote::Jobs(held)
            }
            Write::Report { me, reports } => {
                for JobReport { job, number, bytes } in reports {
                    let holder = tables.jobs.get(&job).and_then(|job| job.holder.as_ref());
                    if holder.is_some_and(|(who, _)| *who == me) {
                        tables.reports.entry((job, number)).or_insert(bytes);
                    }
                }
                Wrote::Done
            }
            Write::Give { id, order } => {
                let row =
                    OrderRow { question: order, given: clock, taker: Taker::None, answer: None };
                tables.orders.entry(id).or_insert(row);
                Wrote::Done
            }
            Write::WithdrawOrder { id } => match tables.orders.get_mut(&id) {
                Some(row) if row.taker == Taker::None => {
                    row.taker = Taker::Nobody;
                    Wrote::Done
                }
                _ => Wrote::Nothing,
            },
            Write::DropOrder { id } => {
                if let Some(row) = tables.orders.get_mut(&id) {
                    (row.taker, row.answer) = (Taker::Nobody, None);
                }
                Wrote::Done
            }
            Write::TakeOrders { me } if tables.leader.as_ref() != Some(&me) => Wrote::Nothing,
            Write::TakeOrders { me } => {
                let mut taken = Vec::new();
                for (id, row) in &mut tables.orders {
                    let is_old = clock >= row.given + ms(TAKEN_WITHIN);
                    let is_mine = row.taker == Taker::Leader(me.clone()) && row.answer.is_none();
                    if !is_old && (is_mine || row.taker == Taker::None) {
                        row.taker = Taker::Leader(me.clone());
                        taken.push(GivenOrder { id: id.clone(), bytes: row.question.clone() });
                    }
                }
                Wrote::Orders(taken)
            }
            Write::AnswerOrder { me, id, answer } => {
                if let Some(row) = tables.orders.get_mut(&id)
                    && row.taker == Taker::Leader(me)
                {
                    row.answer = Some(answer);
                }
                Wrote::Done
            }
            Write::Append { claim, commit, lease } => {
                if tables.epoch != claim.epoch || end != claim.end {
                    return Wrote::Nothing;
                }
                let Outgoing { from: _, last, hash, shipped } = commit;
                let end = End { n: end.n + 1, seq: last, hash };
                tables.rows.push(Row { epoch: claim.epoch, end, shipped });
                tables.lease_until = clock + lease;
                Wrote::Done
            }
            Write::Claim { me, lease } => {
                if tables.lease_until > clock && tables.leader.is_some() {
                    return Wrote::Nothing;
                }
                let is_other = tables.successor.as_ref().is_some_and(|host| *host != me.host);
                if is_other && tables.lease_until + lease * u64::from(PREFERENCE) >= clock {
                    return Wrote::Nothing;
                }
                tables.successor = None;
                tables.epoch += 1;
                tables.leader = Some(me);
                tables.lease_until = clock + lease;
                Wrote::Claim(Claim { epoch: tables.epoch, end })
            }
            Write::ClaimAgain { me, epoch, lease } => {
                if tables.leader.as_ref() != Some(&me) || tables.epoch < epoch {
                    return Wrote::Nothing;
                }
                tables.epoch += 1;
                tables.lease_until = clock + lease;
                Wrote::Claim(Claim { epoch: tables.epoch, end })
            }
            Write::Renew { me, lease } => {
                if tables.leader.as_ref() != Some(&me) {
                    return Wrote::Nothing;
                }
                tables.lease_until = clock + lease;
                let other = tables.successor.clone().filter(|host| *host != me.host);
                Wrote::Held(other.map_or(LeaseHeld::Mine, LeaseHeld::For))
            }
            Write::Release { me } => {
                if tables.leader.as_ref() == Some(&me) {
                    tables.lease_until = tables.lease_until.min(clock);
                }
                Wrote::Done
            }
            Write::NameSuccessor { host } => {
                tables.successor = host;
                Wrote::Done
            }
        }
    }

    fn read<T>(&mut self, read: impl FnOnce(&Database) -> T) -> Result<T, SharedError> {
        self.land_some();
        match self.rng.chance(self.faults) {
            true => Err(SharedError::Unclear("simulated".to_owned())),
            false => Ok(read(self)),
        }
    }
}

/// A connection to the simulated database.
#[derive(Clone)]
pub struct Connection(pub Arc<Mutex<Database>>);

impl Connection {
    fn database(&self) -> MutexGuard<'_, Database> {
        self.0.lock()
    }

    fn claimed(&self, write: Write) -> Result<Option<Claim>, SharedError> {
        Ok(match self.database().call(write)? {
            Wrote::Claim(claim) => Some(claim),
            _ => None,
        })
    }
}

fn ms(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

impl SharedLog for Connection {
    fn find(&mut self, seq: Seq, hash: Digest) -> Result<Option<End>, SharedError> {
        self.database().read(|database| {
            let ends = (0..=database.rows().len() as u64).filter_map(|n| database.end_at(n));
            let mut ends = ends.filter(|end| (end.seq, end.hash) == (seq, hash));
            ends.next()
        })
    }

    fn read_after(&mut self, place: &End, bytes: usize) -> Result<Reading, SharedError> {
        self.database().read(|database| {
            if database.end_at(place.n) != Some(*place) {
                return Reading::Differs;
            }
            let mut left = bytes;
            let mut behind = Vec::new();
            for Row { end, shipped, .. } in &database.rows()[place.n as usize..] {
                behind.push(Listed { end: *end, shipped: shipped.clone() });
                match left.checked_sub(shipped.len()) {
                    Some(rest) => left = rest,
                    None => break,
                }
            }
            Reading::Behind(behind)
        })
    }

    fn settle(&mut self) -> Result<(), SharedError> {
        self.database().call(Write::Settle).map(|_| ())
    }

    fn append(
        &mut self,
        claim: &Claim,
        commit: &Outgoing,
        lease: Duration,
    ) -> Result<Appended, SharedError> {
        let write = Write::Append { claim: *claim, commit: commit.clone(), lease: ms(lease) };
        Ok(match self.database().call(write)? {
            Wrote::Nothing => Appended::Deposed,
            _ => Appended::Landed,
        })
    }

    fn claim(&mut self, me: &Member, lease: Duration) -> Result<Option<Claim>, SharedError> {
        self.claimed(Write::Claim { me: me.clone(), lease: ms(lease) })
    }

    fn claim_again(
        &mut self,
        me: &Member,
        epoch: u64,
        lease: Duration,
    ) -> Result<Option<Claim>, SharedError> {
        self.claimed(Write::ClaimAgain { me: me.clone(), epoch, lease: ms(lease) })
    }

    fn renew(&mut self, me: &Member, lease: Duration) -> Result<LeaseHeld, SharedError> {
        let write = Write::Renew { me: me.clone(), lease: ms(lease) };
        Ok(match self.database().call(write)? {
            Wrote::Held(held) => held,
            _ => LeaseHeld::Deposed,
        })
    }

    fn release(&mut self, me: &Member) -> Result<(), SharedError> {
        self.database().call(Write::Release { me: me.clone() }).map(|_| ())
    }

    fn wait_for_word(&mut self, _: Duration) -> Result<bool, SharedError> {
        self.database().read(|_| true)
    }

    fn keep_keys(&mut self, me: &Member, forgotten: Seq, _: &[u8]) -> Result<bool, SharedError> {
        let write = Write::KeepKeys { me: me.clone(), forgotten };
        Ok(!matches!(self.database().call(write)?, Wrote::Nothing))
    }

    fn name_successor(&mut self, host: Option<&str>) -> Result<(), SharedError> {
        let host = host.map(str::to_owned);
        self.database().call(Write::NameSuccessor { host }).map(|_| ())
    }
}

impl SharedLines for Connection {
    /// Nobody here runs under the name of another one.
    fn sign(&mut self, _: &str) -> Result<Option<Sign>, SharedError> {
        self.database().read(|_| None)
    }

    fn sign_off(&mut self, _: &Member) -> Result<(), SharedError> {
        self.database().call(Write::Settle).map(|_| ())
    }

    fn begin(&mut self, me: &Member, from: u64) -> Result<(), SharedError> {
        self.database().call(Write::Begin { me: me.clone(), from }).map(|_| ())
    }

    fn ship(&mut self, me: &Member, lines: &ShippedLines) -> Result<Shipped, SharedError> {
        let write = Write::Ship { me: me.clone(), lines: lines.clone() };
        Ok(match self.database().call(write)? {
            Wrote::Nothing => Shipped::Elsewhere,
            _ => Shipped::Landed,
        })
    }

    fn shipped(&mut self, me: &Member) -> Result<Option<u64>, SharedError> {
        self.database().read(|database| {
            let queue = database.now.queues.get(&me.host);
            queue.filter(|queue| queue.start == me.start).map(|queue| queue.shipped)
        })
    }

    fn ends(&mut self) -> Result<Vec<(String, u64)>, SharedError> {
        self.database().read(|database| {
            let queues = database.now.queues.iter();
            queues.map(|(host, queue)| (host.clone(), queue.shipped)).collect()
        })
    }

    fn lines_after(
        &mut self,
        host: &str,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<ShippedLines>, SharedError> {
        self.database().read(|database| {
            let (mut left, mut found) = (bytes, Vec::new());
            let queue = database.now.queues.get(host);
            let lines = queue.into_iter().flat_map(|queue| queue.lines.values());
            for lines in lines.filter(|lines| lines.end > offset) {
                found.push(lines.clone());
                match left.checked_sub(lines.bytes.len()) {
                    Some(rest) => left = rest,
                    None => break,
                }
            }
            found
        })
    }

    fn drop_lines(&mut self, host: &str, offset: u64) -> Result<(), SharedError> {
        self.database().call(Write::Drop { host: host.to_owned(), offset }).map(|_| ())
    }
}

impl Connection {
    fn jobs_of(&self, write: Write) -> Result<Vec<ClaimedJob>, SharedError> {
        Ok(match self.database().call(write)? {
            Wrote::Jobs(jobs) => jobs,
            _ => Vec::new(),
        })
    }
}

impl SharedJobs for Connection {
    fn forget_others(&mut self, me: &Member) -> Result<(), SharedError> {
        self.database().call(Write::ForgetOthers { me: me.clone() }).map(|_| ())
    }

    fn list(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError> {
        self.database().call(Write::List { me: me.clone(), jobs: jobs.to_vec() }).map(|_| ())
    }

    fn ask(&mut self, me: &Member, jobs: &[u64], hosts: &[String]) -> Result<(), SharedError> {
        let (me, jobs, hosts) = (me.clone(), jobs.to_vec(), hosts.iter().cloned().collect());
        self.database().call(Write::Ask { me, jobs, hosts }).map(|_| ())
    }

    fn pass_on(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError> {
        self.database().call(Write::PassOn { me: me.clone(), jobs: jobs.to_vec() }).map(|_| ())
    }

    fn standing(&mut self, me: &Member) -> Result<Vec<(u64, JobStanding)>, SharedError> {
        self.database().read(|database| {
            let mine = database.now.jobs.iter().filter(|(_, job)| job.leader == *me);
            let standing = mine.map(|(id, job)| match (&job.holder, &job.asks) {
                (None, Some(asks)) => (*id, JobStanding::Asks(asks.iter().cloned().collect())),
                (None, None) => (*id, JobStanding::Free),
                (Some((_, until)), _) if *until < database.clock_ms => (*id, JobStanding::Over),
                (Some(_), _) => (*id, JobStanding::Held),
            });
            standing.collect()
        })
    }

    fn withdraw(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError> {
        self.database().call(Write::Withdraw { me: me.clone(), jobs: jobs.to_vec() }).map(|_| ())
    }

    fn remove(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError> {
        self.database().call(Write::Remove { me: me.clone(), jobs: jobs.to_vec() }).map(|_| ())
    }

    fn reports(&mut self, me: &Member) -> Result<Vec<JobReport>, SharedError> {
        self.database().read(|database| {
            let is_mine =
                |job: &u64| database.now.jobs.get(job).is_some_and(|job| job.leader == *me);
            let reports = database.now.reports.iter().filter(|((job, _), _)| is_mine(job)).take(5);
            let report = |((job, number), bytes): (&(u64, u64), &Vec<u8>)| JobReport {
                job: *job,
                number: *number,
                bytes: bytes.clone(),
            };
            reports.map(report).collect()
        })
    }

    fn drop_reports(&mut self, taken: &[(u64, u64)]) -> Result<(), SharedError> {
        self.database().call(Write::DropReports { taken: taken.to_vec() }).map(|_| ())
    }

    fn work_hosts(&mut self, me: &Member) -> Result<Vec<WorkHost>, SharedError> {
        self.database().read(|database| {
            let others = database.now.workers.iter().filter(|(host, _)| **host != me.host);
            let told = |(host, row): (&String, &WorkerRow)| WorkHost {
                host: host.clone(),
                places: row.places,
                silent: Duration::from_millis(database.clock_ms - row.seen),
                has_other_rules: false,
            };
            others.map(told).collect()
        })
    }

    fn claim_jobs(
        &mut self,
        me: &Member,
        count: usize,
        lease: Duration,
    ) -> Result<Vec<ClaimedJob>, SharedError> {
        self.jobs_of(Write::ClaimJobs { me: me.clone(), count, lease: ms(lease) })
    }

    fn hold_jobs(
        &mut self,
        me: &Member,
        places: usize,
        lease: Duration,
        except: &[u64],
    ) -> Result<Vec<ClaimedJob>, SharedError> {
        let (me, except) = (me.clone(), except.to_vec());
        self.jobs_of(Write::HoldJobs { me, places, lease: ms(lease), except })
    }

    fn report(&mut self, me: &Member, reports: &[JobReport]) -> Result<(), SharedError> {
        self.database()
            .call(Write::Report { me: me.clone(), reports: reports.to_vec() })
            .map(|_| ())
    }
}

impl SharedOrders for Connection {
    fn give(&mut self, _: &Member, id: &str, order: &[u8]) -> Result<(), SharedError> {
        let (id, order) = (id.to_owned(), order.to_vec());
        self.database().call(Write::Give { id, order }).map(|_| ())
    }

    fn order_standing(&mut self, id: &str) -> Result<OrderStanding, SharedError> {
        self.database().read(|database| {
            let Some(row) = database.now.orders.get(id) else { return OrderStanding::Lost };
            match (&row.answer, &row.taker) {
                (Some(answer), _) => OrderStanding::Answered(answer.clone()),
                (None, Taker::None) => OrderStanding::Waits,
                (None, Taker::Leader(taker)) if database.now.leader.as_ref() == Some(taker) => {
                    OrderStanding::Taken
                }
                (None, _) => OrderStanding::Lost,
            }
        })
    }

    fn withdraw_order(&mut self, id: &str) -> Result<bool, SharedError> {
        let id = id.to_owned();
        Ok(!matches!(self.database().call(Write::WithdrawOrder { id })?, Wrote::Nothing))
    }

    fn drop_order(&mut self, id: &str) -> Result<(), SharedError> {
        self.database().call(Write::DropOrder { id: id.to_owned() }).map(|_| ())
    }

    fn take_orders(&mut self, me: &Member) -> Result<Vec<GivenOrder>, SharedError> {
        Ok(match self.database().call(Write::TakeOrders { me: me.clone() })? {
            Wrote::Orders(orders) => orders,
            _ => Vec::new(),
        })
    }

    fn answer_order(
        &mut self,
        me: &Member,
        id: &str,
        answer: &OrderAnswer,
    ) -> Result<(), SharedError> {
        let (me, id, answer) = (me.clone(), id.to_owned(), answer.clone());
        self.database().call(Write::AnswerOrder { me, id, answer }).map(|_| ())
    }
}
