//! The same with real homes: engines that lead, followers that take their commits, disks that lose power.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use summarizer::cluster::following::{Attempt, Following};
use summarizer::cluster::leadership::Leadership;
use summarizer::cluster::shared_log::Member;
use summarizer::contract::ids::Seq;
use summarizer::os::Clock as _;
use summarizer::os::sim::Faults;
use summarizer::projections::projector::Projections;
use summarizer::sequencer::engine::{CheckpointWhen, Engine};
use summarizer::sequencer::follower::Follower;

use super::simulated::{Connection, Database};
use crate::support::requests::{ACTIVE, making, request};
use crate::support::rig::{Rig, Stop, World, open_store};
use crate::support::{Rng, deep};

const LEASE: Duration = Duration::from_millis(100);

/// A host with a home on a disk of its own.
struct Site {
    name: &'static str,
    world: World,
    starts: u64,
}

impl Site {
    fn new(name: &'static str) -> Site {
        let mut world = World::new();
        world.options.checkpoint_every = 17;
        Site { name, world, starts: 0 }
    }

    fn follower(&self) -> Result<Follower, Stop> {
        Ok(Follower::open(open_store(&self.world)?, self.world.clock.now(), &mut |_| {})?)
    }

    fn following(&mut self, database: &Arc<Mutex<Database>>) -> Following<Connection> {
        self.starts += 1;
        let me = Member { host: self.name.to_owned(), start: self.starts };
        Following::new(Connection(Arc::clone(database)), me)
    }

    /// Follows until it is level.
    fn follow(&mut self, database: &Arc<Mutex<Database>>) -> Result<(), Stop> {
        let mut follower = self.follower()?;
        let mut following = self.following(database);
        while following.step(&mut follower)? {}
        Ok(())
    }

    /// Waits for the lease and takes the lead.
    fn lead(
        &mut self,
        database: &Arc<Mutex<Database>>,
    ) -> Result<(Follower, Leadership<Connection>), Stop> {
        let mut follower = self.follower()?;
        let mut following = self.following(database);
        loop {
            database.lock().clock_ms += 200;
            let mut tries = 3;
            let patience = Box::new(move || {
                tries -= 1;
                tries > 0
            });
            match following.try_to_lead(&mut follower, LEASE, patience)? {
                Attempt::Leads(leadership) => return Ok((follower, leadership)),
                Attempt::Held(again) => following = again,
            }
        }
    }

    fn lose_power(&mut self, rng: &mut Rng) {
        self.world.disk = self.world.disk.crash(rng.next());
    }
}

/// Producers, workers and commits on the leader, until something fails.
fn reign(
    site: &mut Site,
    database: &Arc<Mutex<Database>>,
    rng: &mut Rng,
    sent: &mut u64,
) -> Result<(), Stop> {
    let (follower, leadership) = site.lead(database)?;
    let (options, now) = (site.world.options, site.world.clock.now());
    let (store, agreement) = (follower.into_store(), Box::new(leadership));
    let engine = Engine::open_agreed(store, agreement, options, now, &mut |_| {})?;
    let mut rig = Rig::on(&site.world, engine)?;
    for _ in 0..rng.below(40) {
        site.world.clock.advance_ms(rng.below(3000) as i64);
        if rng.chance(50) {
            *sent += 1;
            let word = *rng.pick(&["ok", "ok", "later", "never", "skip"]);
            let id = format!("r{sent}");
            let line =
                making(request(&id, ACTIVE, json!({"script": [word]})), &format!("i{}", *sent % 7));
            site.world.produce(format!("{line}\n\n").as_bytes(), true)?;
        }
        rig.deliver_all()?;
        rig.turn()?;
    }
    rig.commit(None, CheckpointWhen::Changed)
}

fn history(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut sites = [Site::new("a"), Site::new("b"), Site::new("c")];
    let genesis = open_store(&sites[0].world).unwrap().head().1;
    let database = Arc::new(Mutex::new(Database::new(seed, genesis)));
    let mut sent = 0;
    for _ in 0..8 {
        database.lock().faults = rng.below(12);
        let soon = |rng: &mut Rng, base: u64| Some(base + 1 + rng.below(60));
        let counts = sites[0].world.disk.counts();
        let mut faults = Faults::default();
        match rng.below(3) {
            0 => faults.crash_at_sync = soon(&mut rng, counts.syncs),
            1 => faults.fail_sync = soon(&mut rng, counts.syncs),
            _ => {}
        }
        sites[0].world.disk.set_faults(faults);
        if reign(&mut sites[0], &database, &mut rng, &mut sent).is_err() {
            sites[0].lose_power(&mut rng);
        }
        sites[0].world.disk.set_faults(Faults::default());
        for site in &mut sites[1..] {
            if rng.chance(70) && site.follow(&database).is_err() || rng.chance(20) {
                site.lose_power(&mut rng);
            }
        }
    }
    database.lock().faults = 0;
    // The last reign ends in order, and then another host leads.
    reign(&mut sites[0], &database, &mut rng, &mut sent).unwrap();
    let (follower, leadership) = sites[1].lead(&database).unwrap();
    assert_eq!(*leadership.claim(), database.lock().claim());
    let (options, now) = (sites[1].world.options, sites[1].world.clock.now());
    let (store, agreement) = (follower.into_store(), Box::new(leadership));
    let mut engine = Engine::open_agreed(store, agreement, options, now, &mut |_| {}).unwrap();
    engine.pause(summarizer::facts::session::PauseCause::Operator, true, now).unwrap();
    engine.commit(None, CheckpointWhen::Changed, &[], now).unwrap();
    engine.close().unwrap();

    let mut acks = Vec::new();
    for site in &mut sites {
        site.follow(&database).unwrap();
        let store = open_store(&site.world).unwrap();
        let end = database.lock().claim().end;
        assert_eq!(store.head(), (end.seq, end.hash), "seed {seed}: {} is not level", site.name);
        assert!(store.head().0 > Seq(20), "seed {seed}: nothing happened");
        drop(Projections::open(&site.world.shared(), &site.world.home, &store.reader()).unwrap());
        drop(store);
        site.world.check_log(&format!("seed {seed}, host {}", site.name));
        acks.push(site.world.read(&site.world.home.acks()));
    }
    assert!(!acks[0].is_empty() && acks[0] == acks[1] && acks[1] == acks[2], "seed {seed}: acks");
}

#[test]
fn all_homes_become_the_same_whatever_fails() {
    if let Some(seed) = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return history(seed);
    }
    let seeds = if deep() { 2000 } else { 24 };
    (0..seeds).for_each(history);
}
