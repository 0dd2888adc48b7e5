//! Whole homes with a queue each: producers on every host, a standby beside every leader that follows, ships,
//! carries out attempts and writes its acks, disks that lose power, and the lead that moves. At the end each line has one outcome,
//! no item was made twice, and all homes are the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use summarizer::cluster::claimer::Claimer;
use summarizer::cluster::collector::{Collecting, Collector};
use summarizer::cluster::following::{Attempt, Following, Replica};
use summarizer::cluster::leadership::Leadership;
use summarizer::cluster::lister::Lister;
use summarizer::cluster::outcomes::{WorkerReport, pack};
use summarizer::cluster::shared_log::Member;
use summarizer::cluster::shipper::{Did, OwnQueue, Shipper};
use summarizer::contract::hash::Digest;
use summarizer::contract::ids::Seq;
use summarizer::os::Clock as _;
use summarizer::os::sim::Faults;
use summarizer::projections::projector::Projections;
use summarizer::seam::tail::TailOptions;
use summarizer::sequencer::engine::{CheckpointWhen, Engine};
use summarizer::sequencer::follower::Follower;
use summarizer::sequencer::mark::QueueMarks;
use summarizer::state::decide::Outcome;
use summarizer::state::event::Event;
use summarizer::state::{Past as _, Status};
use summarizer::work::other_workers::FromOthers;
use summarizer::work::pool::StartedAttempt;

use super::simulated::{Connection, Database};
use crate::support::requests::{ACTIVE, making, request};
use crate::support::rig::{LINE_BYTES, Rig, Stop, Try, World, open_store, perform};
use crate::support::{Rng, deep};

const LEASE: Duration = Duration::from_millis(100);
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Acks after which a line has no other outcome.
const ENDINGS: [&str; 6] = [
    "completed",
    "rejected_invalid_schema",
    "rejected_unknown_flow",
    "rejected_invalid_input",
    "failed_permanent",
    "duplicate",
];

struct Site {
    world: World,
    starts: u64,
}

impl Site {
    fn new(name: &str) -> Site {
        let mut world = World::new();
        world.host = name.to_owned();
        world.options.checkpoint_every = 17;
        Site { world, starts: 0 }
    }

    fn me(&mut self) -> Member {
        self.starts += 1;
        Member { host: self.world.host.clone(), start: self.starts }
    }

    fn produce(&self, rng: &mut Rng, sent: &mut BTreeMap<String, u64>) -> Result<(), Stop> {
        let count = sent.entry(self.world.host.clone()).or_default();
        *count += 1;
        let word = *rng.pick(&["ok", "ok", "later", "never", "skip"]);
        let id = format!("{}{count}", self.world.host);
        let request = request(&id, ACTIVE, json!({"script": [word]}));
        // Hosts ask for the same items.
        let line = making(request, &format!("i{}", rng.below(12)));
        // A line that was torn by a crash ends here.
        Ok(self.world.produce(format!("\n{line}\n").as_bytes(), true)?)
    }
}

/// A host that follows.
struct Standby {
    copy: Copy,
    following: Following<Connection>,
    shipper: Shipper<Connection>,
    work: Work,
}

/// The attempts that it carries out for the leader.
struct Work {
    claimer: Claimer<Connection>,
    waiting: Vec<u64>,
    under_way: BTreeMap<u64, VecDeque<Outcome>>,
}

impl Work {
    fn step(&mut self, follower: &Follower, rng: &mut Rng) -> Result<(), Stop> {
        match rng.below(4) {
            0 => self.waiting.extend(self.claimer.claim(2)?),
            1 => {
                let changes = self.claimer.hold(2)?;
                self.waiting.retain(|job| !changes.lost.contains(job));
                self.under_way.retain(|job, _| !changes.lost.contains(job));
                self.waiting.extend(changes.begun);
            }
            2 => drop(self.claimer.send()?),
            _ => {
                let Some((&job, outcomes)) = self.under_way.iter_mut().next() else {
                    return Ok(());
                };
                let Some(outcome) = outcomes.pop_front() else { return Ok(()) };
                let is_last = outcomes.is_empty();
                if is_last {
                    self.under_way.remove(&job);
                }
                self.claimer.report(job, pack(WorkerReport::Outcome(outcome)), is_last);
            }
        }
        let head = follower.head().0.0;
        for job in std::mem::take(&mut self.waiting) {
            if job > head {
                self.waiting.push(job);
            } else if let Some(outcomes) = begin(follower, job)? {
                self.under_way.insert(job, outcomes);
            } else {
                self.claimer.report(job, pack(WorkerReport::GivenBack), true);
            }
        }
        Ok(())
    }
}

/// What the worker of an attempt will report; `None` when the attempt is over.
fn begin(follower: &Follower, job: u64) -> Result<Option<VecDeque<Outcome>>, Stop> {
    let (log, state) = (follower.log(), follower.state());
    let Some(Event::AttemptStarted { request, attempt }) = log.event(Seq(job))? else {
        panic!("job {job} is no attempt");
    };
    let current = state.open_request(request).is_some_and(|open| {
        open.row.status == Status::Running && open.row.attempts == attempt && state.epoch().0 < job
    });
    if !current {
        return Ok(None);
    }
    match log.event(request)? {
        Some(Event::RequestAccepted(taken) | Event::RequestParked { request: taken, .. }) => {
            Ok(Some(perform(&taken, attempt, false)))
        }
        other => panic!("{other:?} is no request"),
    }
}

/// Its log and its acks.
struct Copy {
    follower: Follower,
    projections: Projections,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct CopyError(String);

impl Replica for Copy {
    type Error = CopyError;

    fn head(&self) -> (Seq, Digest) {
        self.follower.head()
    }

    fn take(&mut self, shipped: &[u8]) -> Result<(), CopyError> {
        let events =
            self.follower.take(shipped, &[]).map_err(|error| CopyError(error.to_string()))?;
        self.projections.take(&events).map_err(|error| CopyError(error.to_string()))
    }
}

fn queue_of(world: &World) -> OwnQueue {
    OwnQueue {
        disk: world.shared(),
        path: world.home.queue.clone(),
        adopted: world.home.root.join("run/queue.adopted"),
        tail: TailOptions { max_line_bytes: LINE_BYTES, partial_line_grace_ms: 10_000 },
        lines_max: 5,
        bytes_max: 1 << 20,
        ahead_max: 1 << 30,
    }
}

impl Standby {
    fn start(site: &mut Site, database: &Arc<Mutex<Database>>) -> Result<Standby, Stop> {
        let (me, world) = (site.me(), &site.world);
        let follower = Follower::open(open_store(world)?, world.clock.now(), &mut |_| {})?;
        let (projections, _) = Projections::open(&world.shared(), &world.home, follower.log())?;
        let connection = || Connection(Arc::clone(database));
        let shipper = Shipper::new(connection(), me.clone(), queue_of(world));
        let claimer = Claimer::new(connection(), me.clone(), LEASE);
        let work = Work { claimer, waiting: Vec::new(), under_way: BTreeMap::new() };
        let copy = Copy { follower, projections };
        Ok(Standby { copy, following: Following::new(connection(), me), shipper, work })
    }

    fn follow(&mut self) -> Result<bool, Stop> {
        Ok(self.following.step(&mut self.copy)?)
    }

    fn ship(&mut self, world: &World) -> Result<Did, Stop> {
        let marks = QueueMarks::decode(&self.copy.follower.log().mark())?;
        Ok(self.shipper.step(&marks, world.clock.now())?)
    }
}

struct Team {
    rng: Rng,
    database: Arc<Mutex<Database>>,
    sites: Vec<Site>,
    standbys: Vec<Option<Standby>>,
    sent: BTreeMap<String, u64>,
    /// Reports that came from other hosts and counted.
    from_others: u64,
}

/// The attempts that a leader lists.
struct Shared {
    lister: Lister<Connection>,
    /// Events of the leader that were looked at.
    seen: usize,
}

impl Team {
    /// Waits for the lease and opens a service on a host.
    fn lead(&mut self, at: usize) -> Result<Rig, Stop> {
        self.standbys[at] = None;
        let Standby { mut copy, mut following, .. } =
            Standby::start(&mut self.sites[at], &self.database)?;
        let leadership: Leadership<Connection> = loop {
            self.database.lock().clock_ms += 200;
            let mut tries = 3;
            let patience = Box::new(move || {
                tries -= 1;
                tries > 0
            });
            match following.try_to_lead(&mut copy, LEASE, patience)? {
                Attempt::Leads(leadership) => break leadership,
                Attempt::Held(again) => following = again,
            }
        };
        let Copy { follower, projections } = copy;
        let world = &self.sites[at].world;
        // What it wrote while it followed must be all: a service goes on with these files.
        let acks = || world.read(&world.home.acks());
        let before = acks();
        drop(projections);
        drop(Projections::open(&world.shared(), &world.home, follower.log())?);
        assert!(before == acks(), "a follower left out acks");
        let marks = QueueMarks::decode(&follower.log().mark())?;
        let (log, lines) = (follower.log().clone(), Connection(Arc::clone(&self.database)));
        let own = Some(queue_of(world));
        let collector = Collector::new(lines, world.host.clone(), marks, own);
        let (store, agreement) = (follower.into_store(), Box::new(leadership));
        let now = world.clock.now();
        let engine = Engine::open_agreed(store, agreement, world.options, now, &mut |_| {})?;
        let mut rig = Rig::on(world, engine)?;
        rig.others = Some(Box::new(Collecting::new(collector, log)));
        Ok(rig)
    }

    /// One step of each host that does not lead; one that fails starts anew later.
    fn stand_by(&mut self, leader: usize) {
        for at in (0..self.sites.len()).filter(|at| *at != leader) {
            if self.rng.chance(4) {
                self.standbys[at] = None;
                if self.rng.chance(50) {
                    let disk = self.sites[at].world.disk.crash(self.rng.next());
                    self.sites[at].world.disk = disk;
                }
            }
            let site = &mut self.sites[at];
            let _ = site.produce(&mut self.rng, &mut self.sent);
            let Some(mut standby) = self.standbys[at].take() else {
                if self.rng.chance(30) {
                    self.standbys[at] = Standby::start(site, &self.database).ok();
                }
                continue;
            };
            let stepped = match self.rng.below(4) {
                0 => standby.follow().map(|_| ()),
                1 => standby.ship(&site.world).map(|_| ()),
                _ => standby.work.step(&standby.copy.follower, &mut self.rng),
            };
            self.standbys[at] = stepped.is_ok().then_some(standby);
        }
    }

    /// Producers, workers and commits on the leader, until something fails.
    fn reign(&mut self, at: usize) -> Result<(), Stop> {
        let mut rig = self.lead(at)?;
        let me = Member { host: self.sites[at].world.host.clone(), start: self.sites[at].starts };
        let lister = Lister::new(Connection(Arc::clone(&self.database)), me);
        let mut shared = Shared { lister, seen: 0 };
        for _ in 0..self.rng.below(40) {
            self.database.lock().clock_ms += self.rng.below(20);
            rig.world.clock.advance_ms(self.rng.below(3000) as i64);
            if self.rng.chance(50) {
                self.sites[at].produce(&mut self.rng, &mut self.sent)?;
            }
            // Those who work take more steps than the one who decides.
            (0..4).for_each(|_| self.stand_by(at));
            rig.deliver_all()?;
            self.share(&mut rig, &mut shared)?;
            rig.turn()?;
        }
        rig.commit(None, CheckpointWhen::Changed)
    }

    /// Lists some of the attempts that began, and takes in what came of others.
    fn share(&mut self, rig: &mut Rig, shared: &mut Shared) -> Result<(), Stop> {
        for committed in &rig.history[shared.seen..] {
            match &committed.event {
                Event::AttemptStarted { request, attempt } => {
                    let is_fresh =
                        rig.tries.get(request).is_some_and(|one| one.attempt == *attempt);
                    if !is_fresh || self.rng.chance(30) {
                        continue;
                    }
                    let Some(Try { epoch, .. }) = rig.tries.remove(request) else { continue };
                    shared.lister.list(StartedAttempt {
                        request: *request,
                        attempt: *attempt,
                        started: committed.seq,
                        epoch,
                        run_id: String::new(),
                        replies: Vec::new(),
                        gives_way: false,
                    });
                }
                Event::SummaryProduced { request, .. }
                | Event::AttemptFailed { request, .. }
                | Event::RequestSkipped { request, .. }
                | Event::RequestCancelled { request, .. }
                | Event::RequestDuplicated { request, .. }
                | Event::WorkHeld { request, .. } => shared.lister.end(*request),
                _ => {}
            }
        }
        shared.seen = rig.history.len();
        let mut found = Vec::new();
        let _ = match self.rng.chance(25) {
            true => shared.lister.look(&mut found),
            false => shared.lister.step(&mut found),
        };
        for told in found {
            match told {
                FromOthers::Report(report) => self.from_others += u64::from(rig.deliver(report)?),
                FromOthers::Returned(started) | FromOthers::NotFound { started, .. } => {
                    let StartedAttempt { request, attempt, epoch, .. } = started;
                    let open = rig.engine.state().open_request(request);
                    let current = open.is_some_and(|open| {
                        open.row.status == Status::Running && open.row.attempts == attempt
                    });
                    if current {
                        let outcomes = perform(&rig.engine.past().taken(request)?, attempt, false);
                        rig.tries.insert(request, Try { request, attempt, epoch, outcomes });
                    }
                }
            }
        }
        Ok(())
    }

    /// Without faults: every host ships all it has, and one leads until nothing is left.
    fn end(&mut self, last: usize) -> Result<(), Stop> {
        self.database.lock().faults = 0;
        self.standbys.iter_mut().for_each(|standby| *standby = None);
        for at in (0..self.sites.len()).filter(|at| *at != last) {
            let mut standby = Standby::start(&mut self.sites[at], &self.database)?;
            while standby.follow()? {}
            while standby.ship(&self.sites[at].world)? == Did::Shipped {}
        }
        let mut rig = self.lead(last)?;
        rig.run_to_end()?;
        rig.finish()
    }
}

/// Returns how many reports of other hosts counted.
fn history(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let sites: Vec<Site> = NAMES.iter().map(|name| Site::new(name)).collect();
    let genesis = open_store(&sites[0].world).unwrap().head().1;
    let database = Arc::new(Mutex::new(Database::new(seed, genesis)));
    let sent = BTreeMap::new();
    let last = rng.below(3) as usize;
    let standbys = (0..3).map(|_| None).collect();
    let mut team = Team { rng, database, sites, standbys, sent, from_others: 0 };
    for _ in 0..5 {
        team.database.lock().faults = team.rng.below(10);
        let at = team.rng.below(3) as usize;
        let counts = team.sites[at].world.disk.counts();
        let mut faults = Faults::default();
        match team.rng.below(3) {
            0 => faults.crash_at_sync = Some(counts.syncs + 1 + team.rng.below(60)),
            1 => faults.fail_sync = Some(counts.syncs + 1 + team.rng.below(60)),
            _ => {}
        }
        team.sites[at].world.disk.set_faults(faults);
        let ended = team.reign(at);
        if ended.is_err() || team.sites[at].world.disk.has_crashed() {
            let disk = team.sites[at].world.disk.crash(team.rng.next());
            team.sites[at].world.disk = disk;
        }
        team.sites[at].world.disk.set_faults(Faults::default());
    }
    team.end(last).unwrap_or_else(|error| panic!("seed {seed}: {error}"));

    let mut files = Vec::new();
    for site in &mut team.sites {
        let mut standby = Standby::start(site, &team.database).unwrap();
        while standby.follow().unwrap() {}
        drop(standby);
        let end = team.database.lock().claim().end;
        let head = open_store(&site.world).unwrap().head();
        assert_eq!(head, (end.seq, end.hash), "seed {seed}: {} is not level", site.world.host);
        site.world.check_log(&format!("seed {seed}, host {}", site.world.host));
        let home = &site.world.home;
        files.push([home.acks(), home.quarantine()].map(|path| site.world.read(&path)));
    }
    assert!(files[0] == files[1] && files[1] == files[2], "seed {seed}: the homes differ");
    check_outcomes(seed, &files[0][0], &team);
    team.from_others
}

/// Each line that is in a queue has one outcome, and no item was made twice.
fn check_outcomes(seed: u64, acks: &[u8], team: &Team) {
    let mut endings: BTreeMap<String, u64> = BTreeMap::new();
    let mut made = BTreeSet::new();
    for line in acks.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let ack: Value = serde_json::from_slice(line).unwrap();
        let status = ack["status"].as_str().unwrap();
        // A torn line has no id.
        if let (true, Some(id)) = (ENDINGS.contains(&status), ack["request_id"].as_str()) {
            *endings.entry(id.to_owned()).or_default() += 1;
        }
        if let ("completed", Some(item)) = (status, ack["summary"]["summary_id"].as_str()) {
            assert!(made.insert(item.to_owned()), "seed {seed}: {item} was made twice");
        }
    }
    let mut lines = 0;
    for site in &team.sites {
        let queue = site.world.read(&site.world.home.queue);
        for line in queue.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(request) = serde_json::from_slice::<Value>(line) else { continue };
            let id = request["request_id"].as_str().unwrap();
            assert_eq!(endings.get(id), Some(&1), "seed {seed}: outcomes of {id}");
            lines += 1;
        }
    }
    assert_eq!(lines, endings.len(), "seed {seed}: an outcome without a line");
    assert!(lines > 5 && !made.is_empty(), "seed {seed}: nothing happened");
}

#[test]
fn each_line_has_one_outcome_on_all_hosts() {
    if let Some(seed) = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        history(seed);
        return;
    }
    let seeds = if deep() { 1000 } else { 16 };
    let from_others: u64 = (0..seeds).map(history).sum();
    println!("{seeds} histories: {from_others} reports of other hosts counted");
    assert!(from_others > seeds, "other hosts did not work");
}
