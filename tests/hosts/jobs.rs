//! Leaders that list attempts and workers that carry them out, with lost answers, late calls, workers that end,
//! leaders that are deposed and go on, and a database that fails over. Each attempt ends once, its reports come
//! in order and from one worker, and nothing is left at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use summarizer::cluster::claimer::Claimer;
use summarizer::cluster::lister::Lister;
use summarizer::cluster::outcomes::{WorkerReport, pack};
use summarizer::cluster::shared_log::{Member, SharedLog as _};
use summarizer::contract::ids::Seq;
use summarizer::contract::time::Timestamp;
use summarizer::state::decide::{Failed, Outcome, RetryHint};
use summarizer::state::event::Charge;
use summarizer::work::other_workers::{FromOthers, Unasked};
use summarizer::work::pool::StartedAttempt;

use super::plain::GENESIS;
use super::simulated::{Connection, Database};
use crate::support::{Rng, deep};

const STEPS: u64 = 500;
const LEASE: Duration = Duration::from_millis(100);
const PLACES: usize = 4;

/// What a leader knows of an attempt that it listed.
#[derive(Debug, Default)]
struct Attempt {
    /// Who reported, and how often.
    by: Option<String>,
    reports: u64,
    is_over: bool,
    /// It came back once, and all hosts are asked for it.
    is_asked: bool,
}

struct Leader {
    lister: Lister<Connection>,
    attempts: BTreeMap<u64, Attempt>,
}

struct Worker {
    name: String,
    starts: u64,
    claimer: Option<Claimer<Connection>>,
    /// Reports that each job under way still makes.
    under_way: BTreeMap<u64, u64>,
    /// Everything that this start began.
    begun: BTreeSet<u64>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    finished: u64,
    lost: u64,
    returned: u64,
    given_back: u64,
    passed_on: u64,
    deposed: u64,
}

struct History {
    seed: u64,
    rng: Rng,
    database: Arc<Mutex<Database>>,
    leader: Leader,
    /// Leaders that do not know that they lead no more.
    deposed: Vec<Leader>,
    leaders: u64,
    workers: Vec<Worker>,
    jobs: u64,
    tally: Tally,
}

/// How many reports come before the last one.
fn reports_of(job: u64) -> u64 {
    job % 3
}

fn charge(by: &str, number: u64) -> Outcome {
    Outcome::Charged(Charge {
        provider: by.to_owned(),
        model: String::new(),
        day: Timestamp(1_790_000_000_000).day_in(chrono_tz::Tz::UTC),
        input_tokens: number,
        output_tokens: 0,
        cost_nanos: 0,
        estimated: false,
    })
}

fn last(by: &str) -> Outcome {
    let again = RetryHint::Never;
    let (message, input) = (by.to_owned(), Box::default());
    Outcome::Failed(Failed { again, reason: None, cause: None, message, input, error: None })
}

fn started(job: u64) -> StartedAttempt {
    StartedAttempt {
        request: Seq(job),
        attempt: 1,
        started: Seq(job),
        epoch: Seq(1),
        run_id: String::new(),
        replies: Vec::new(),
        gives_way: false,
    }
}

impl Leader {
    fn new(database: &Arc<Mutex<Database>>, start: u64) -> Leader {
        let me = Member { host: "leader".to_owned(), start };
        let mut list = Connection(Arc::clone(database));
        loop {
            database.lock().clock_ms += 500;
            if let Ok(Some(_)) = list.claim(&me, LEASE) {
                break;
            }
        }
        let lister = Lister::new(Connection(Arc::clone(database)), me);
        Leader { lister, attempts: BTreeMap::new() }
    }

    fn list(&mut self, job: u64, asks: bool) {
        match asks {
            true => self.lister.ask(started(job)),
            false => self.lister.list(started(job)),
        }
        self.attempts.insert(job, Attempt::default());
    }

    fn step(&mut self, looks: bool, seed: u64, tally: &mut Tally) {
        let mut found = Vec::new();
        let _ = match looks {
            true => self.lister.look(&mut found),
            false => self.lister.step(&mut found),
        };
        for told in found {
            match told {
                FromOthers::Returned(started) | FromOthers::NotFound { started, .. } => {
                    let attempt = self.attempts.get_mut(&started.started.0).unwrap();
                    assert!(!attempt.is_over && attempt.reports == 0, "seed {seed}: {attempt:?}");
                    if attempt.is_asked {
                        attempt.is_over = true;
                        tally.returned += 1;
                    } else {
                        attempt.is_asked = true;
                        attempt.by = None;
                        self.lister.ask(started);
                    }
                }
                FromOthers::Report(report) => {
                    let job = report.request.0;
                    let attempt = self.attempts.get_mut(&job).unwrap();
                    assert!(!attempt.is_over, "seed {seed}: {job} goes on after its end");
                    match report.outcome {
                        Outcome::Charged(charge) => {
                            let by = attempt.by.get_or_insert(charge.provider.clone());
                            assert_eq!(*by, charge.provider, "seed {seed}: two workers report");
                            assert_eq!(charge.input_tokens, attempt.reports, "seed {seed}");
                            attempt.reports += 1;
                        }
                        Outcome::Failed(failed) if failed.again == RetryHint::Never => {
                            assert_eq!(attempt.reports, reports_of(job), "seed {seed}");
                            let by = attempt.by.get_or_insert(failed.message.clone());
                            assert_eq!(*by, failed.message, "seed {seed}: two workers report");
                            attempt.is_over = true;
                            tally.finished += 1;
                        }
                        _ => {
                            attempt.is_over = true;
                            tally.lost += 1;
                        }
                    }
                }
            }
        }
    }
}

impl Worker {
    fn step(&mut self, database: &Arc<Mutex<Database>>, rng: &mut Rng, tally: &mut Tally) {
        let by = format!("{}/{}", self.name, self.starts);
        let Some(claimer) = &mut self.claimer else {
            self.starts += 1;
            let me = Member { host: self.name.clone(), start: self.starts };
            let connection = Connection(Arc::clone(database));
            self.claimer = Some(Claimer::new(connection, me, LEASE));
            (self.under_way, self.begun) = (BTreeMap::new(), BTreeSet::new());
            return;
        };
        let mut begun = Vec::new();
        match rng.below(4) {
            0 => {
                let free = PLACES.saturating_sub(claimer.open());
                begun.extend(claimer.claim(free).unwrap_or_default());
            }
            1 => {
                let changes = claimer.hold(PLACES).unwrap_or_default();
                for job in changes.lost {
                    self.under_way.remove(&job);
                }
                begun.extend(changes.begun);
            }
            2 => drop(claimer.send()),
            _ => {
                let next = self.under_way.keys().next().copied();
                if let Some(job) = next {
                    let made = self.under_way.get_mut(&job).unwrap();
                    let is_last = *made == reports_of(job);
                    let outcome = if is_last { last(&by) } else { charge(&by, *made) };
                    *made += 1;
                    if is_last {
                        self.under_way.remove(&job);
                    }
                    claimer.report(job, pack(WorkerReport::Outcome(outcome)), is_last);
                }
            }
        }
        for job in begun {
            assert!(self.begun.insert(job), "{job} is begun twice by {by}");
            if rng.chance(30) && claimer.pass_on(job) {
                tally.passed_on += 1;
            } else if rng.chance(10) {
                tally.given_back += 1;
                claimer.report(job, pack(WorkerReport::GivenBack), true);
            } else {
                self.under_way.insert(job, 0);
            }
        }
    }
}

impl History {
    fn new(seed: u64) -> History {
        let mut rng = Rng::new(seed);
        let database = Arc::new(Mutex::new(Database::new(seed, GENESIS)));
        let leader = Leader::new(&database, 1);
        database.lock().faults = rng.below(30);
        let worker = |name: &str| Worker {
            name: name.to_owned(),
            starts: 0,
            claimer: None,
            under_way: BTreeMap::new(),
            begun: BTreeSet::new(),
        };
        let workers = ["a", "b"].map(worker).into();
        let (deposed, tally) = (Vec::new(), Tally::default());
        History { seed, rng, database, leader, deposed, leaders: 1, workers, jobs: 10, tally }
    }

    fn step(&mut self) {
        let mut database = self.database.lock();
        database.clock_ms += self.rng.below(8);
        if self.rng.chance(20) {
            database.land_late();
        }
        if self.rng.chance(1) {
            database.fail_over();
        }
        drop(database);
        if self.rng.chance(20) {
            self.jobs += 1;
            let asks = self.rng.chance(30);
            self.leader.list(self.jobs, asks);
        }
        if self.rng.chance(2) {
            let over = self.rng.below(self.jobs - 9) + 10;
            if let Some(attempt) = self.leader.attempts.get_mut(&over) {
                attempt.is_over = true;
                self.leader.lister.end(Seq(over));
            }
        }
        if self.rng.chance(1) {
            self.leaders += 1;
            let next = Leader::new(&self.database, self.leaders);
            self.deposed.push(std::mem::replace(&mut self.leader, next));
            self.tally.deposed += 1;
        }
        let looks = self.rng.chance(30);
        match self.rng.below(6) {
            0 | 1 => self.leader.step(looks, self.seed, &mut self.tally),
            2 => {
                for leader in &mut self.deposed {
                    leader.step(looks, self.seed, &mut self.tally);
                }
            }
            _ => {
                let at = self.rng.below(2) as usize;
                if self.rng.chance(2) {
                    self.workers[at].claimer = None;
                } else {
                    self.workers[at].step(&self.database, &mut self.rng, &mut self.tally);
                }
            }
        }
    }

    fn run(mut self) -> Tally {
        for _ in 0..STEPS {
            self.step();
        }
        self.heal();
        self.tally
    }

    /// Without faults everything that the leader listed ends, and nothing is left.
    fn heal(&mut self) {
        self.database.lock().faults = 0;
        while self.leader.attempts.values().any(|attempt| !attempt.is_over)
            || !self.leader.lister.is_idle()
        {
            self.database.lock().clock_ms += 1;
            self.database.lock().land_late();
            for at in 0..2 {
                self.workers[at].step(&self.database, &mut self.rng, &mut self.tally);
            }
            let looks = self.rng.chance(30);
            self.leader.step(looks, self.seed, &mut self.tally);
            let steps = self.database.lock().clock_ms;
            assert!(steps < 1_000_000, "seed {}: {:?}", self.seed, self.leader.attempts);
        }
        // What deposed leaders left, and what landed late.
        for _ in 0..50 {
            self.leader.step(true, self.seed, &mut self.tally);
            self.leader.step(false, self.seed, &mut self.tally);
        }
        assert_eq!(self.database.lock().jobs_left(), (0, 0), "seed {}", self.seed);
    }
}

#[test]
fn each_attempt_that_was_listed_ends_once() {
    if let Some(seed) = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", History::new(seed).run());
        return;
    }
    let seeds = if deep() { 50_000 } else { 2000 };
    let mut sum = Tally::default();
    for seed in 0..seeds {
        let Tally { finished, lost, returned, given_back, passed_on, deposed } =
            History::new(seed).run();
        sum.finished += finished;
        sum.lost += lost;
        sum.returned += returned;
        sum.given_back += given_back;
        sum.passed_on += passed_on;
        sum.deposed += deposed;
    }
    println!("{seeds} histories: {sum:?}");
    // Without these the histories would prove nothing.
    let seen = [sum.finished, sum.lost, sum.returned, sum.given_back, sum.passed_on, sum.deposed];
    assert!(seen.iter().all(|count| *count > seeds / 10), "{sum:?}");
}

/// A leader without a source, and the hosts that may have it.
struct Asker {
    database: Arc<Mutex<Database>>,
    lister: Lister<Connection>,
}

impl Asker {
    fn new() -> Asker {
        let database = Arc::new(Mutex::new(Database::new(1, GENESIS)));
        let lister = Leader::new(&database, 1).lister;
        Asker { database, lister }
    }

    /// Looks so often, and says which hosts could not be asked, once the attempt comes back.
    fn looks(&mut self, count: u32) -> Option<Vec<Unasked>> {
        for _ in 0..count {
            let mut found = Vec::new();
            self.lister.step(&mut found).unwrap();
            self.lister.look(&mut found).unwrap();
            if let Some(told) = found.pop() {
                let FromOthers::NotFound { unasked, .. } = told else { panic!("{told:?}") };
                return Some(unasked);
            }
        }
        None
    }

    /// The host looks for the source, and does not have it.
    fn passes_on(&self, host: &str) {
        let me = Member { host: host.to_owned(), start: 1 };
        let mut claimer = Claimer::new(Connection(Arc::clone(&self.database)), me, LEASE);
        let jobs = claimer.claim(PLACES).unwrap();
        assert!(!jobs.is_empty(), "{host} was not asked");
        assert!(jobs.into_iter().all(|job| claimer.pass_on(job)));
        claimer.send().unwrap();
    }

    fn pass(&self, time: Duration) {
        self.database.lock().clock_ms += time.as_millis() as u64;
    }
}

fn unasked(host: &str, away: Option<u64>) -> Vec<Unasked> {
    vec![Unasked { host: host.to_owned(), away: away.map(Duration::from_secs) }]
}

/// A host that has just started has not said how much it takes, and may be the only one with the source.
#[test]
fn every_host_is_asked_before_a_source_is_missing() {
    // Nobody else works.
    let mut asker = Asker::new();
    asker.lister.ask(started(10));
    assert_eq!(asker.looks(5), Some(Vec::new()));

    asker.database.lock().begins("a");
    asker.lister.ask(started(11));
    assert_eq!(asker.looks(20), None, "it waits for the host that has just started");
    asker.passes_on("a");
    // Another one starts meanwhile, and is asked too.
    asker.database.lock().begins("b");
    assert_eq!(asker.looks(20), None);
    asker.passes_on("b");
    assert_eq!(asker.looks(3), Some(Vec::new()), "all were asked");

    // One that runs and does not look is named.
    asker.lister.ask(started(12));
    assert_eq!(asker.looks(3), None);
    asker.passes_on("a");
    assert_eq!(asker.looks(200), Some(unasked("b", None)));

    // So is one that is away, for a time.
    asker.pass(Duration::from_secs(30));
    asker.database.lock().begins("a");
    asker.lister.ask(started(13));
    asker.looks(3);
    asker.passes_on("a");
    assert_eq!(asker.looks(3), Some(unasked("b", Some(30))));
    asker.pass(Duration::from_secs(600));
    asker.lister.ask(started(14));
    assert_eq!(asker.looks(3), Some(Vec::new()), "nobody waits for ever");
}

/// A host that is behind gives a job back without a look. When it is asked for the source, it looks.
#[test]
fn a_host_that_did_not_look_is_asked_and_looks() {
    let mut asker = Asker::new();
    asker.database.lock().begins("a");
    let me = Member { host: "a".to_owned(), start: 1 };
    let mut claimer = Claimer::new(Connection(Arc::clone(&asker.database)), me, LEASE);
    for (job, looks) in [(10, false), (11, true)] {
        asker.lister.list(started(job));
        asker.lister.step(&mut Vec::new()).unwrap();
        assert_eq!(claimer.claim(PLACES).unwrap(), [job]);
        match looks {
            true => claimer.report(job, pack(WorkerReport::GivenBack), true),
            false => claimer.leave(job, pack(WorkerReport::GivenBack)),
        }
        claimer.send().unwrap();
        let mut found = Vec::new();
        asker.lister.step(&mut found).unwrap();
        assert!(matches!(found[..], [FromOthers::Returned(_)]), "{found:?}");
        asker.lister.ask(started(job));
        asker.looks(3);
        let begun = claimer.claim(PLACES).unwrap();
        assert_eq!(begun.is_empty(), looks, "job {job}");
    }
}
