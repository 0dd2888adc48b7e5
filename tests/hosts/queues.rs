//! Producers on every host: each byte of each queue is taken in once, in order, whichever host leads and
//! whatever is lost, doubled or late on the way.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use summarizer::cluster::collector::Collector;
use summarizer::cluster::following::{Attempt, Following, MemberError, Replica};
use summarizer::cluster::leadership::{LeadError, Leadership};
use summarizer::cluster::shared_lines::SharedLines as _;
use summarizer::cluster::shared_log::{LeaseHeld, Member, Outgoing, SharedLog as _};
use summarizer::cluster::shipper::{Did, OwnQueue, ShipError, Shipper};
use summarizer::cluster::standby::{Connect, Standby, Step, Terms};
use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::ids::Seq;
use summarizer::contract::time::Timestamp;
use summarizer::log::{Options, Store};
use summarizer::os::sim::SimDisk;
use summarizer::os::{Disk, Open};
use summarizer::seam::tail::{Batch, TailOptions, Tailer};
use summarizer::sequencer::mark::QueueMarks;

use super::simulated::{Connection, Database};
use crate::support::{Rng, deep};

const GENESIS: Digest = Digest([7; 32]);
const LEASE: Duration = Duration::from_millis(100);
const STEPS: u64 = 250;
const QUEUE: &str = "/queue.jsonl";

/// A log whose commits say which bytes of which queue they take in.
#[derive(Debug, Clone, Default)]
struct Taken {
    hashes: Vec<Digest>,
    marks: Vec<u8>,
    batches: Vec<(String, Vec<u8>)>,
}

impl Taken {
    fn next(&self, marks: &QueueMarks, host: &str, bytes: &[u8]) -> Outgoing {
        let (seq, before) = self.head();
        let marks = marks.encode();
        let mut shipped = before.0.to_vec();
        for part in [marks.as_slice(), host.as_bytes(), bytes] {
            shipped.extend_from_slice(&(part.len() as u32).to_le_bytes());
            shipped.extend_from_slice(part);
        }
        let hash = sha256(&shipped);
        Outgoing { from: (seq, before), last: seq.next(), hash, shipped }
    }

    fn marks(&self) -> QueueMarks {
        QueueMarks::decode(&self.marks).unwrap()
    }

    /// What was taken in of the queue of a host.
    fn of(&self, host: &str) -> Vec<u8> {
        let batches = self.batches.iter().filter(|(of, _)| of == host);
        batches.flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    }
}

impl Replica for Taken {
    type Error = Infallible;

    fn head(&self) -> (Seq, Digest) {
        (Seq(self.hashes.len() as u64), self.hashes.last().copied().unwrap_or(GENESIS))
    }

    fn take(&mut self, shipped: &[u8]) -> Result<(), Infallible> {
        let (before, mut rest) = shipped.split_at(32);
        assert_eq!(before, self.head().1.0, "a commit is applied where it continues the log");
        let mut part = || {
            let (length, after) = rest.split_at(4);
            let (part, after) =
                after.split_at(u32::from_le_bytes(length.try_into().unwrap()) as usize);
            rest = after;
            part.to_vec()
        };
        self.marks = part();
        self.batches.push((String::from_utf8(part()).unwrap(), part()));
        self.hashes.push(sha256(shipped));
        Ok(())
    }
}

/// What a host that leads has in memory.
struct Reign {
    leadership: Leadership<Connection>,
    marks: QueueMarks,
    own: Tailer,
    others: Collector<Connection>,
}

#[allow(clippy::large_enum_variant, reason = "there are few hosts")]
enum Role {
    Down,
    Follows(Following<Connection>, Shipper<Connection>),
    Leads(Box<Reign>),
    /// Its commit is in the list and not yet in its own log.
    Applies(Box<Reign>, Outgoing),
}

struct Host {
    name: String,
    starts: u64,
    disk: SimDisk,
    log: Taken,
    role: Role,
    stopped: u64,
    produced: u64,
}

impl Host {
    fn queue(&self) -> OwnQueue {
        OwnQueue {
            disk: Arc::new(self.disk.clone()),
            path: PathBuf::from(QUEUE),
            adopted: PathBuf::from("/queue.adopted"),
            tail: TailOptions { max_line_bytes: 60, partial_line_grace_ms: 40 },
            lines_max: 3,
            bytes_max: 1000,
            ahead_max: 40,
        }
    }

    fn file(&self) -> Vec<u8> {
        let disk: &dyn Disk = &self.disk;
        disk.read_if_present(Path::new(QUEUE)).unwrap().unwrap_or_default()
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    own: u64,
    from_others: u64,
    takeovers: u64,
    begun_again: u64,
}

struct History {
    seed: u64,
    rng: Rng,
    database: Arc<Mutex<Database>>,
    hosts: Vec<Host>,
    tally: Tally,
}

impl History {
    fn new(seed: u64) -> History {
        let mut rng = Rng::new(seed);
        let database = Arc::new(Mutex::new(Database::new(seed, GENESIS)));
        database.lock().faults = rng.below(30);
        let host = |number| Host {
            name: format!("host{number}"),
            starts: 0,
            disk: SimDisk::new(),
            log: Taken::default(),
            role: Role::Down,
            stopped: 0,
            produced: 0,
        };
        let hosts = (0..2 + rng.below(2)).map(host).collect();
        History { seed, rng, database, hosts, tally: Tally::default() }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.database.lock().clock_ms as i64)
    }

    fn run(mut self) -> Tally {
        for _ in 0..STEPS {
            self.world();
            let at = self.rng.below(self.hosts.len() as u64) as usize;
            self.produce(at);
            self.host(at);
        }
        self.heal();
        self.tally
    }

    fn world(&mut self) {
        let mut database = self.database.lock();
        database.clock_ms += self.rng.below(25);
        if self.rng.chance(20) {
            database.land_late();
        }
        if self.rng.chance(2) {
            database.fail_over();
        }
        drop(database);
        let at = self.rng.below(self.hosts.len() as u64) as usize;
        let host = &mut self.hosts[at];
        if self.rng.chance(3) {
            host.role = Role::Down;
        }
        if self.rng.chance(1) {
            host.role = Role::Down;
            host.disk = host.disk.crash(self.rng.next());
        }
        if self.rng.chance(3) {
            host.stopped = self.rng.below(40);
        }
    }

    /// Lines of every form: finished, unfinished, too long, blank.
    fn produce(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        for _ in 0..self.rng.below(4) {
            host.produced += 1;
            let mut line = format!("{} {}", host.name, host.produced);
            match self.rng.below(12) {
                0 => line.push_str(&"x".repeat(80)),
                1 => line.clear(),
                _ => {}
            }
            if !self.rng.chance(10) {
                line.push('\n');
            }
            let file = host.disk.open(Path::new(QUEUE), Open::ReadWrite).unwrap();
            file.append(line.as_bytes()).unwrap();
            if self.rng.chance(50) {
                file.sync().unwrap();
            }
        }
    }

    fn host(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        if host.stopped > 0 {
            host.stopped -= 1;
            return;
        }
        let role = std::mem::replace(&mut host.role, Role::Down);
        self.hosts[at].role = match role {
            Role::Down => self.follows_anew(at),
            Role::Follows(following, shipper) => self.follows(at, following, shipper),
            Role::Leads(reign) => self.leads(at, reign),
            Role::Applies(reign, commit) => {
                let Ok(_) = self.hosts[at].log.take(&commit.shipped);
                Role::Leads(reign)
            }
        };
    }

    fn me(&self, at: usize) -> Member {
        Member { host: self.hosts[at].name.clone(), start: self.hosts[at].starts }
    }

    fn follows_anew(&mut self, at: usize) -> Role {
        self.hosts[at].starts += 1;
        let (me, host) = (self.me(at), &self.hosts[at]);
        let connection = || Connection(Arc::clone(&self.database));
        let shipper = Shipper::new(connection(), me.clone(), host.queue());
        Role::Follows(Following::new(connection(), me), shipper)
    }

    fn follows(
        &mut self,
        at: usize,
        mut following: Following<Connection>,
        mut shipper: Shipper<Connection>,
    ) -> Role {
        let now = self.now();
        let log = &mut self.hosts[at].log;
        match self.rng.below(4) {
            0 => match following.step(log) {
                Ok(_) | Err(MemberError::Shared(_)) => Role::Follows(following, shipper),
                Err(error) => panic!("seed {}: {error}", self.seed),
            },
            1 | 2 => match shipper.step(&log.marks(), now) {
                Ok(_) | Err(ShipError::Shared(_)) => Role::Follows(following, shipper),
                // An earlier start that is still under way began late.
                Err(ShipError::Doubled(_)) => {
                    self.tally.begun_again += 1;
                    Role::Down
                }
                Err(error) => panic!("seed {}: {error}", self.seed),
            },
            _ => {
                let mut tries = 3;
                let patience = Box::new(move || {
                    tries -= 1;
                    tries > 0
                });
                match following.try_to_lead(log, LEASE, patience) {
                    Ok(Attempt::Held(following)) => Role::Follows(following, shipper),
                    Ok(Attempt::Leads(leadership)) => self.begins_to_lead(at, leadership),
                    Err(MemberError::Shared(_)) => Role::Down,
                    Err(error) => panic!("seed {}: {error}", self.seed),
                }
            }
        }
    }

    fn begins_to_lead(&mut self, at: usize, leadership: Leadership<Connection>) -> Role {
        self.tally.takeovers += 1;
        let (host, database) = (&self.hosts[at], Connection(Arc::clone(&self.database)));
        let (marks, queue) = (host.log.marks(), host.queue());
        let place = queue.place(&host.name, &marks).unwrap();
        let disk = Arc::clone(&queue.disk);
        let own = Tailer::open(disk, &queue.path, place, queue.tail).unwrap();
        let others = Collector::new(database, host.name.clone(), marks.clone(), Some(queue));
        Role::Leads(Box::new(Reign { leadership, marks, own, others }))
    }

    fn next_batch(&mut self, at: usize, reign: &mut Reign) -> Option<(String, Batch)> {
        let now = self.now();
        if self.rng.chance(50) {
            let batch = reign.own.next_batch(now, 3, 1000).unwrap()?;
            reign.own.sync().unwrap();
            self.tally.own += 1;
            return Some((self.hosts[at].name.clone(), batch));
        }
        if self.rng.chance(10) {
            let _ = reign.others.tidy(&self.hosts[at].log.marks());
        }
        let found = reign.others.next_batch().ok().flatten()?;
        self.tally.from_others += 1;
        Some(found)
    }

    fn leads(&mut self, at: usize, mut reign: Box<Reign>) -> Role {
        let Some((host, batch)) = self.next_batch(at, &mut reign) else {
            // A leader with nothing to append learns by its renewals that another one leads.
            let mut list = Connection(Arc::clone(&self.database));
            return match list.renew(&self.me(at), LEASE) {
                Ok(LeaseHeld::Deposed) => Role::Down,
                Ok(_) | Err(_) => Role::Leads(reign),
            };
        };
        let continues = reign.marks.advance(&host, batch.end.clone(), batch.consumed);
        assert!(continues, "seed {}: {host} was given out of order", self.seed);
        let bytes = self.bytes_of(&host, &batch);
        let commit = self.hosts[at].log.next(&reign.marks, &host, &bytes);
        match reign.leadership.append(&commit) {
            Ok(()) => Role::Applies(reign, commit),
            Err(LeadError::Deposed | LeadError::GaveUp) => Role::Down,
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }

    /// All bytes that a batch consumes; of a line that is too long it has only the beginning.
    fn bytes_of(&self, host: &str, batch: &Batch) -> Vec<u8> {
        let host = self.hosts.iter().find(|known| known.name == host).unwrap();
        let (start, end) = (batch.consumed.start as usize, batch.consumed.end as usize);
        let bytes = host.file()[start..end].to_vec();
        assert_eq!(sha256(&bytes), batch.consumed.hash, "seed {}: other bytes", self.seed);
        bytes
    }

    /// Without faults everything is taken in, and all logs are the same.
    fn heal(&mut self) {
        self.database.lock().faults = 0;
        for host in &mut self.hosts {
            host.stopped = 0;
            let file = host.disk.open(Path::new(QUEUE), Open::ReadWrite).unwrap();
            file.append(b"\nthe end\n").unwrap();
        }
        for round in 0..2000 {
            self.database.lock().clock_ms += 30;
            if self.rng.chance(2) {
                // A call of an earlier time may still be under way.
                self.database.lock().land_late();
            }
            for at in 0..self.hosts.len() {
                if !self.rng.chance(5) {
                    self.host(at);
                }
            }
            if round % 20 == 0 && self.is_level() {
                return;
            }
        }
        let told = self.hosts.iter().map(|host| {
            let of = self.hosts[0].log.of(&host.name).len();
            let role = match &host.role {
                Role::Down => "down",
                Role::Follows(..) => "follows",
                Role::Leads(_) => "leads",
                Role::Applies(..) => "applies",
            };
            let (file, head) = (host.file().len(), host.log.head().0);
            format!("{} {role} at {head}: {of} of {file} bytes", host.name)
        });
        panic!("seed {}: not all is taken in: {:?}", self.seed, told.collect::<Vec<_>>());
    }

    /// Whether all is taken in. What is taken in is always the beginning of each queue.
    fn is_level(&self) -> bool {
        for host in &self.hosts {
            for Host { name, disk: _, .. } in &self.hosts {
                let of = host.log.of(name);
                let file = self.hosts.iter().find(|known| known.name == *name).unwrap().file();
                assert!(
                    file.starts_with(&of),
                    "seed {}: the log of {} has other bytes of {name} than its queue",
                    self.seed,
                    host.name
                );
            }
        }
        let first = &self.hosts[0].log;
        self.hosts.iter().all(|host| {
            host.log.hashes == first.hashes && first.of(&host.name).len() == host.file().len()
        })
    }
}

#[test]
fn each_line_is_taken_in_once_from_whichever_host_it_was_written_on() {
    if let Some(seed) = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", History::new(seed).run());
        return;
    }
    let seeds = if deep() { 20_000 } else { 600 };
    let mut sum = Tally::default();
    for seed in 0..seeds {
        let Tally { own, from_others, takeovers, begun_again } = History::new(seed).run();
        sum.own += own;
        sum.from_others += from_others;
        sum.takeovers += takeovers;
        sum.begun_again += begun_again;
    }
    println!("{seeds} histories: {sum:?}");
    assert!(sum.from_others > seeds && sum.own > seeds && sum.takeovers > seeds, "{sum:?}");
}

#[test]
fn lines_that_were_shipped_are_taken_in_after_their_host_has_ended() {
    let mut history = History::new(5);
    history.database.lock().faults = 0;
    history.hosts[1]
        .disk
        .open(Path::new(QUEUE), Open::ReadWrite)
        .unwrap()
        .append(b"one\n")
        .unwrap();
    let Role::Follows(_, mut shipper) = history.follows_anew(1) else { unreachable!() };
    assert_eq!(shipper.step(&QueueMarks::default(), Timestamp(0)).unwrap(), Did::Shipped);
    assert_eq!(shipper.behind(), 4);
    drop(shipper);
    for _ in 0..200 {
        history.host(0);
    }
    assert_eq!(history.hosts[0].log.of("host1"), b"one\n");
}

#[test]
fn lines_that_a_late_call_removed_are_shipped_again() {
    let mut history = History::new(5);
    history.database.lock().faults = 0;
    history.hosts[1]
        .disk
        .open(Path::new(QUEUE), Open::ReadWrite)
        .unwrap()
        .append(b"one\n")
        .unwrap();
    let Role::Follows(_, mut shipper) = history.follows_anew(1) else { unreachable!() };
    let mut step = || shipper.step(&QueueMarks::default(), Timestamp(0)).unwrap();
    assert_eq!(step(), Did::Shipped);
    // A beginning that had no answer is carried out after the lines were shipped.
    Connection(Arc::clone(&history.database)).begin(&history.me(1), 0).unwrap();
    assert_eq!(step(), Did::Nothing);
    assert_eq!(step(), Did::Shipped);
    for _ in 0..200 {
        history.host(0);
    }
    assert_eq!(history.hosts[0].log.of("host1"), b"one\n");
}

/// Two batches that begin alike, and are shipped before either host knows of the other.
#[test]
fn of_copies_that_come_together_one_is_taken_in_however_far_each_has_grown() {
    let first = "the line that both files begin with\n";
    for (copies, is_led) in [([1, 2], false), ([2, 1], false), ([0, 1], true)] {
        let mut history = History::new(5);
        while history.hosts.len() < 3 {
            history = History::new(history.seed + 1);
        }
        history.database.lock().faults = 0;
        for (at, more) in copies.into_iter().zip(["", "one\ntwo\n"]) {
            let file = history.hosts[at].disk.open(Path::new(QUEUE), Open::ReadWrite).unwrap();
            file.append(format!("{first}{more}").as_bytes()).unwrap();
        }
        for at in copies.into_iter().filter(|at| !is_led || *at > 0) {
            let Role::Follows(_, mut shipper) = history.follows_anew(at) else { unreachable!() };
            assert_eq!(shipper.step(&QueueMarks::default(), Timestamp(0)).unwrap(), Did::Shipped);
        }
        for _ in 0..200 {
            history.host(0);
        }
        let log = &history.hosts[0].log;
        let taken: Vec<&str> = ["host0", "host1", "host2"]
            .into_iter()
            .filter(|host| log.of(host).starts_with(first.as_bytes()))
            .collect();
        assert_eq!(taken.len(), 1, "{copies:?}: {taken:?}");
    }
}

#[test]
fn no_more_is_shipped_than_may_wait() {
    let mut history = History::new(5);
    history.database.lock().faults = 0;
    let file = history.hosts[1].disk.open(Path::new(QUEUE), Open::ReadWrite).unwrap();
    let queue: String = (0..30).map(|number| format!("line {number}\n")).collect();
    file.append(queue.as_bytes()).unwrap();
    let Role::Follows(_, mut shipper) = history.follows_anew(1) else { unreachable!() };
    let mut count = 0;
    while shipper.step(&QueueMarks::default(), Timestamp(0)).unwrap() == Did::Shipped {
        count += 1;
        assert!(count < 30, "it never stops");
    }
    // Three lines are a batch, and 40 bytes may wait before the last one.
    assert!((40..80).contains(&shipper.behind()), "{}", shipper.behind());
    drop(shipper);
    for _ in 0..200 {
        history.host(0);
    }
    for _ in 0..2000 {
        history.host(0);
        history.host(1);
    }
    assert_eq!(history.hosts[0].log.of("host1"), queue.as_bytes());
}

#[test]
fn a_host_that_is_behind_ships_meanwhile() {
    let history = History::new(5);
    history.database.lock().faults = 0;
    let database = Arc::clone(&history.database);
    let connect: Connect<Connection> = Arc::new(move || Ok(Connection(Arc::clone(&database))));
    let (terms, now) = (
        Terms { lease: LEASE, patience: LEASE, may_lead: false, ships: true, works: false },
        Timestamp(0),
    );
    let log: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let options = Options::beside(Path::new("/log.redb"));
    let store = Store::open(log, Path::new("/log.redb"), options, [7; 16], &mut |_| {}).unwrap();
    let log = store.reader();
    let mut standby =
        Standby::new(Arc::clone(&connect), history.me(1), terms, history.hosts[1].queue());
    let produce = |line: &[u8]| {
        history.hosts[1]
            .disk
            .open(Path::new(QUEUE), Open::ReadWrite)
            .unwrap()
            .append(line)
            .unwrap();
    };
    let shipped = || connect().unwrap().ends().unwrap().first().map_or(0, |(_, end)| *end);
    let mut own = Taken::default();
    produce(b"one\n");
    assert!(matches!(standby.step(&mut own, &log, now), Ok(Step::Did)));
    assert_eq!(shipped(), 4);

    let (mut list, leader) = (connect().unwrap(), history.me(0));
    let mut claim = list.claim(&leader, LEASE).unwrap().unwrap();
    let mut leads = Taken::default();
    for line in [b"a\n", b"b\n"] {
        let commit = leads.next(&QueueMarks::default(), "host0", line);
        list.append(&claim, &commit, LEASE).unwrap();
        let Ok(()) = leads.take(&commit.shipped);
        claim.end = claim.end.after(&commit);
    }
    produce(b"two\n");
    assert!(matches!(standby.step(&mut own, &log, now), Ok(Step::Did)));
    assert!(!own.hashes.is_empty(), "it followed");
    assert_eq!(shipped(), 8, "and it did not wait until it is level");
}
