//! Many hosts share one log: thousands of histories in which hosts are killed, stopped and wake up, answers
//! are lost, calls land late and the database fails over. No commit that was confirmed is ever missing, none
//! is there twice, and all homes become the same.
//!
//! `CI_DEEP=1` runs many more seeds; `SIM_SEED=n` runs one.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod hosts {
    mod homes;
    mod jobs;
    mod orders;
    pub mod plain;
    mod queues;
    pub mod simulated;
    mod teams;
}
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hosts::plain::{GENESIS, Plain};
use hosts::simulated::{Connection, Database};
use parking_lot::Mutex;
use summarizer::cluster::following::{Attempt, Following, MemberError, Replica};
use summarizer::cluster::leadership::{LeadError, Leadership};
use summarizer::cluster::shared_log::{Member, Outgoing, SharedLog as _};
use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::ids::Seq;
use support::{Rng, deep};

/// Steps in which faults happen.
const STEPS: u64 = 400;
const LEASE: Duration = Duration::from_millis(100);

enum Role {
    Down,
    Follows(Following<Connection>),
    Leads(Leadership<Connection>),
    /// A leader whose commit is in the list and not yet in its own log.
    Applies(Leadership<Connection>, Outgoing),
}

struct Host {
    name: String,
    starts: u64,
    log: Plain,
    role: Role,
    /// Steps for which it does nothing, as a stopped process does.
    stopped: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    commits: usize,
    takeovers: u64,
    deposed: u64,
    failovers: u64,
    gave_up: u64,
    released: u64,
}

struct History {
    seed: u64,
    rng: Rng,
    database: Arc<Mutex<Database>>,
    hosts: Vec<Host>,
    contents: u64,
    /// The hashes of commits that a leader saw confirmed.
    confirmed: BTreeSet<Digest>,
    tally: Tally,
}

impl History {
    fn new(seed: u64) -> History {
        let mut rng = Rng::new(seed);
        let database = Arc::new(Mutex::new(Database::new(seed, GENESIS)));
        database.lock().faults = rng.below(40);
        let host = |number| Host {
            name: format!("host{number}"),
            starts: 0,
            log: Plain::default(),
            role: Role::Down,
            stopped: 0,
        };
        let hosts = (0..2 + rng.below(3)).map(host).collect();
        let (confirmed, tally) = (BTreeSet::new(), Tally::default());
        History { seed, rng, database, hosts, contents: 0, confirmed, tally }
    }

    fn run(mut self) -> Tally {
        for step in 0..STEPS {
            self.world();
            let at = self.rng.below(self.hosts.len() as u64) as usize;
            self.host(at);
            // What is wrong once stays wrong, so not every step needs a look.
            if step % 20 == 0 {
                self.check();
            }
        }
        self.heal();
        self.tally.commits = self.database.lock().rows().len();
        self.tally
    }

    /// What happens to the machines and to the database.
    fn world(&mut self) {
        let mut database = self.database.lock();
        database.clock_ms += self.rng.below(30);
        if self.rng.chance(20) {
            database.land_late();
        }
        if self.rng.chance(2) {
            database.fail_over();
            self.tally.failovers += 1;
        }
        drop(database);
        let at = self.rng.below(self.hosts.len() as u64) as usize;
        if self.rng.chance(2) {
            let successor = self.rng.chance(70).then(|| self.hosts[at].name.clone());
            let _ = Connection(Arc::clone(&self.database)).name_successor(successor.as_deref());
        }
        if self.rng.chance(3) {
            self.hosts[at].role = Role::Down;
        }
        if self.rng.chance(3) {
            self.hosts[at].stopped = self.rng.below(60);
        }
    }

    /// One step of a host.
    fn host(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        if host.stopped > 0 {
            host.stopped -= 1;
            return;
        }
        let role = std::mem::replace(&mut host.role, Role::Down);
        self.hosts[at].role = match role {
            Role::Down => self.starts(at),
            Role::Follows(following) => self.follows(at, following),
            Role::Leads(leadership) => self.leads(at, leadership),
            Role::Applies(leadership, commit) => {
                let Ok(_) = self.hosts[at].log.take(&commit.shipped);
                Role::Leads(leadership)
            }
        };
    }

    fn starts(&mut self, at: usize) -> Role {
        let host = &mut self.hosts[at];
        host.starts += 1;
        let me = Member { host: host.name.clone(), start: host.starts };
        Role::Follows(Following::new(Connection(Arc::clone(&self.database)), me))
    }

    fn follows(&mut self, at: usize, mut following: Following<Connection>) -> Role {
        let log = &mut self.hosts[at].log;
        if self.rng.chance(60) {
            return match following.step(log) {
                Ok(_) | Err(MemberError::Shared(_)) => Role::Follows(following),
                Err(error) => panic!("seed {}: {error}", self.seed),
            };
        }
        let mut tries = self.rng.below(4);
        let patience = Box::new(move || {
            tries = tries.saturating_sub(1);
            tries > 0
        });
        match following.try_to_lead(log, LEASE, patience) {
            Ok(Attempt::Held(following)) => Role::Follows(following),
            Ok(Attempt::Leads(leadership)) => {
                self.tally.takeovers += 1;
                Role::Leads(leadership)
            }
            Err(MemberError::Shared(_)) => Role::Down,
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }

    fn leads(&mut self, at: usize, mut leadership: Leadership<Connection>) -> Role {
        if self.rng.chance(4) {
            // It ends in order, and says so; the answer may be lost.
            let Host { name, starts, .. } = &self.hosts[at];
            let me = Member { host: name.clone(), start: *starts };
            let _ = Connection(Arc::clone(&self.database)).release(&me);
            self.tally.released += 1;
            return Role::Down;
        }
        self.contents += 1;
        let commit = self.hosts[at].log.next(&self.contents.to_le_bytes());
        match leadership.append(&commit) {
            Ok(()) => {
                self.confirmed.insert(commit.hash);
                Role::Applies(leadership, commit)
            }
            Err(LeadError::Deposed) => {
                self.tally.deposed += 1;
                Role::Down
            }
            Err(LeadError::GaveUp) => {
                self.tally.gave_up += 1;
                Role::Down
            }
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }

    /// What must be true at every moment.
    fn check(&self) {
        let (seed, database) = (self.seed, self.database.lock());
        let list: Vec<Digest> = database.confirmed_rows().iter().map(|row| row.end.hash).collect();
        for (at, row) in database.rows().iter().enumerate() {
            assert_eq!(row.end.n, at as u64 + 1, "seed {seed}: the list has a gap");
        }
        let epochs: Vec<u64> = database.rows().iter().map(|row| row.epoch).collect();
        assert!(epochs.is_sorted(), "seed {seed}: a deposed leader appended");
        let kept: BTreeSet<Digest> = list.iter().copied().collect();
        assert_eq!(kept.len(), list.len(), "seed {seed}: a commit is in the list twice");
        let lost = self.confirmed.difference(&kept).count();
        assert_eq!(lost, 0, "seed {seed}: commits that were confirmed are lost");
        for Host { name, log, .. } in &self.hosts {
            assert!(
                list.starts_with(&log.hashes),
                "seed {seed}: the log of {name} is no part of the list"
            );
        }
    }

    /// Without faults all hosts become the same.
    fn heal(&mut self) {
        self.database.lock().faults = 0;
        for host in &mut self.hosts {
            host.stopped = 0;
        }
        for _ in 0..20 {
            self.database.lock().clock_ms += 200;
            for at in 0..self.hosts.len() {
                self.host(at);
            }
        }
        // No leader any more, so the list is at rest.
        for host in &mut self.hosts {
            host.role = Role::Down;
        }
        for at in 0..self.hosts.len() {
            let Role::Follows(mut following) = self.starts(at) else { unreachable!() };
            following.step(&mut self.hosts[at].log).unwrap();
        }
        let end = self.hosts[0].log.head();
        assert!(end.0.0 > 0, "seed {}: nothing was ever committed", self.seed);
        assert!(self.hosts.iter().all(|host| host.log.head() == end), "seed {}", self.seed);
        self.check();
    }
}

#[test]
fn no_history_loses_doubles_or_reorders_a_commit() {
    if let Some(seed) = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", History::new(seed).run());
        return;
    }
    let seeds = if deep() { 100_000 } else { 3000 };
    let mut sum = Tally::default();
    for seed in 0..seeds {
        let Tally { commits, takeovers, deposed, failovers, gave_up, released } =
            History::new(seed).run();
        sum.commits += commits;
        sum.takeovers += takeovers;
        sum.deposed += deposed;
        sum.failovers += failovers;
        sum.gave_up += gave_up;
        sum.released += released;
    }
    println!("{seeds} histories: {sum:?}");
    // Without these the histories would prove nothing.
    let seen = [sum.takeovers, sum.deposed, sum.failovers, sum.gave_up, sum.released];
    assert!(seen.iter().all(|count| *count > seeds / 10), "{sum:?}");
}

#[test]
fn a_host_that_is_far_behind_becomes_level_before_it_leads() {
    let database = Arc::new(Mutex::new(Database::new(1, GENESIS)));
    let connection = || Connection(Arc::clone(&database));
    let member = |host: &str| Member { host: host.to_owned(), start: 1 };
    let patience = || Box::new(|| true);
    let mut log = Plain::default();
    let first = Following::new(connection(), member("a"));
    let Attempt::Leads(mut leadership) = first.try_to_lead(&mut log, LEASE, patience()).unwrap()
    else {
        panic!("nobody holds the lease");
    };
    // More than one reading takes.
    for content in 0u64..8 {
        let mut commit = log.next(&content.to_le_bytes());
        commit.shipped.resize(1 << 20, 0);
        commit.hash = sha256(&commit.shipped);
        leadership.append(&commit).unwrap();
        let Ok(_) = log.take(&commit.shipped);
    }
    database.lock().clock_ms += 1000;
    let mut behind = Plain::default();
    let second = Following::new(connection(), member("b"));
    let Attempt::Leads(mut leadership) =
        second.try_to_lead(&mut behind, LEASE, patience()).unwrap()
    else {
        panic!("the lease has ended");
    };
    assert_eq!(behind.head(), log.head());
    leadership.append(&behind.next(&[9])).unwrap();
}

#[test]
fn a_database_that_lost_confirmed_commits_is_noticed() {
    let mut database = Database::new(1, GENESIS);
    database.lies = true;
    let database = Arc::new(Mutex::new(database));
    let connection = || Connection(Arc::clone(&database));
    let member = |host: &str| Member { host: host.to_owned(), start: 1 };
    let mut log = Plain::default();
    let leads = Following::new(connection(), member("a"));
    let leads = leads.try_to_lead(&mut log, LEASE, Box::new(|| true)).unwrap();
    let Attempt::Leads(mut leadership) = leads else { panic!("nobody holds the lease") };
    for content in 0u64..3 {
        let commit = log.next(&content.to_le_bytes());
        leadership.append(&commit).unwrap();
        let Ok(_) = log.take(&commit.shipped);
    }
    let mut follower = Plain::default();
    let mut following = Following::new(connection(), member("b"));
    following.step(&mut follower).unwrap();
    assert_eq!(follower.head(), log.head());

    database.lock().fail_over();
    let behind = following.step(&mut follower);
    assert!(matches!(behind, Err(MemberError::Differs { seq: Seq(3) })), "the list is behind");
    let mut anew = Following::new(connection(), member("b"));
    assert!(matches!(anew.step(&mut follower), Err(MemberError::Differs { .. })));
}
