//! A seeded simulation of the whole core: producers that misbehave, workers that fail, a clock that
//! jumps both ways, a disk that loses power, fails and fills up, operators who interfere.
//!
//! One thread, no real time, no real disk: a seed determines everything. In the first phase faults
//! happen. In the second the machine is healed and the service must converge: every line has ended,
//! the auditor (which shares no code with the core) has no complaint, the log verifies, and acks and
//! quarantine are exactly its projection.
//!
//! `CI_DEEP=1` runs many seeds; `SIM_SEED=n` runs one.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::collections::VecDeque;

use serde_json::{Value, json};
use summarizer::contract::ids::Seq;
use summarizer::facts::session::PauseCause;
use summarizer::os::Clock as _;
use summarizer::os::sim::Faults;
use summarizer::sequencer::engine::{CheckpointWhen, OperatorError};
use summarizer::state::decide::{FlowStanding, Report};
use support::requests::{ACTIVE, DEPRECATED, DISABLED, from_repo, making, request, with};
use support::rig::{Rig, Stop, World};
use support::{Rng, deep};

/// Seeds that once found a bug, and some more that always run.
const KEPT: [u64; 6] = [1, 2, 3, 7, 1001, 1032];
/// How many more seeds run.
const SEEDS: u64 = 36;
const SEEDS_DEEP: u64 = 4000;
/// Steps of the first phase.
const STEPS: u64 = 260;

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    steps: u64,
    power_losses: u64,
    process_deaths: u64,
    disk_errors: u64,
    stale_reports: u64,
    lines: u64,
}

struct Sim {
    rng: Rng,
    world: World,
    rig: Option<Rig>,
    /// Lines that producers have begun to write and not finished.
    torn: Vec<u8>,
    sent: Vec<Value>,
    /// Reports that may be repeated, or arrive much too late.
    late: VecDeque<Report>,
    /// The sync that will fail.
    fail_sync: Option<u64>,
    tally: Tally,
}

impl Sim {
    fn new(seed: u64) -> Sim {
        let mut rng = Rng::new(seed);
        let mut world = World::new();
        world.lines_at_once = 1 + rng.below(9) as usize;
        world.slots = 1 + rng.below(6) as usize;
        world.unheard = [0, 0, 0, 1, 2, 5][rng.below(6) as usize];
        world.options.checkpoint_every = 5 + rng.below(120);
        world.options.retry.attempts_max = 2 + rng.below(4) as u32;
        Sim {
            rng,
            world,
            rig: None,
            torn: Vec::new(),
            sent: Vec::new(),
            late: VecDeque::new(),
            fail_sync: None,
            tally: Tally::default(),
        }
    }

    // Producers.

    fn new_request(&mut self) -> Value {
        let words = [
            "ok",
            "ok",
            "later",
            "timeout",
            "lost",
            "after",
            "never",
            "skip",
            "input",
            "unresolved",
        ];
        let script: Vec<&str> = (0..3).map(|_| *self.rng.pick(&words)).collect();
        let id = format!("r{}", self.sent.len());
        let flow = match self.rng.below(12) {
            0 => DEPRECATED,
            1 => DISABLED,
            2 => "no.such.flow.v1",
            _ => ACTIVE,
        };
        let repo = *self.rng.pick(&["mail", "docs", "ops"]);
        let mut value = from_repo(request(&id, flow, json!({"script": script})), repo);
        if self.rng.chance(30) {
            value = with(value, "idempotency_key", format!("key{}", self.rng.below(6)));
        }
        if self.rng.chance(30) {
            value = making(value, &format!("item{}", self.rng.below(6)));
        }
        if self.rng.chance(25) {
            let at = self.world.clock.now().plus_ms(self.rng.below(1_200_000) as i64 - 300_000);
            value = with(value, "not_before", at.to_string());
            value = with(value, "urgency", *self.rng.pick(&["now", "scheduled"]));
        }
        if self.rng.chance(20) {
            let at = self.world.clock.now().plus_ms(self.rng.below(600_000) as i64);
            value = with(value, "deadline", at.to_string());
        }
        if self.rng.chance(20) {
            value = with(value, "priority", 1 + self.rng.below(5));
        }
        value
    }

    fn line(&mut self) -> Vec<u8> {
        let repeat = !self.sent.is_empty() && self.rng.chance(25);
        let mut value = if repeat {
            let mut old = self.rng.pick(&self.sent).clone();
            // The same id again, sometimes with other content or under another key.
            if self.rng.chance(20) {
                old["idempotency_key"] = format!("key{}", self.rng.below(6)).into();
            }
            old
        } else {
            self.new_request()
        };
        match self.rng.below(40) {
            0 => value["work"]["summary_kind"] = "event_summary".into(),
            1 => value["work"]["params"]["day"] = "no day".into(),
            2 => value["urgency"] = "soon".into(),
            3 => value["work"]["flow_ref"]["variant"] = "none".into(),
            _ => {}
        }
        self.sent.push(value.clone());
        let mut bytes = value.to_string().into_bytes();
        match self.rng.below(40) {
            0 => bytes = b"not json at all".to_vec(),
            1 => bytes = vec![0xff, 0x00, 0xfe],
            2 => bytes = vec![b'x'; support::rig::LINE_BYTES + self.rng.below(9000) as usize],
            3 => bytes = b"{\"a\":1,\"a\":2}".to_vec(),
            4 => bytes = b" \t".to_vec(),
            5 => bytes = Vec::new(),
            6 => bytes = vec![0; self.rng.below(600) as usize],
            7 => bytes.push(b'\r'),
            8 => bytes.extend_from_within(..),
            9 => bytes = b"[".repeat(200),
            _ => {}
        }
        bytes.push(b'\n');
        bytes
    }

    fn produce(&mut self) -> Result<(), Stop> {
        let mut bytes = std::mem::take(&mut self.torn);
        for _ in 0..1 + self.rng.below(4) {
            bytes.extend(self.line());
        }
        if self.rng.chance(15) {
            // Written in two parts. The second may follow after other lines, or never.
            let cut = self.rng.below(bytes.len() as u64) as usize;
            let rest = bytes.split_off(cut);
            if self.rng.chance(60) {
                self.torn = rest;
            }
        }
        let sync = self.rng.chance(60);
        Ok(self.world.produce(&bytes, sync)?)
    }

    // Workers.

    fn work(&mut self, rig: &mut Rig) -> Result<(), Stop> {
        for request in rig.tries.keys().copied().collect::<Vec<Seq>>() {
            if !self.rng.chance(60) {
                continue;
            }
            if let Some(report) = rig.deliver_next(request)?
                && self.rng.chance(25)
            {
                self.late.push_back(report);
            }
        }
        if self.rng.chance(20)
            && let Some(report) = self.late.pop_front()
        {
            let open = rig.engine.state().open_request(report.request);
            let current = open.is_some_and(|open| {
                open.row.status == summarizer::state::Status::Running
                    && open.row.attempts == report.attempt
            }) && rig.engine.state().epoch() == report.epoch;
            // A repeated report of an attempt under way counts again; one of an ended attempt does not.
            if !current {
                self.tally.stale_reports += 1;
                assert!(!rig.deliver(report)?, "a report of an ended try counted");
            }
        }
        Ok(())
    }

    // Operators.

    fn operate(&mut self, rig: &mut Rig) -> Result<(), Stop> {
        let now = rig.now();
        if self.rng.chance(20) {
            let pause = rig.engine.state().paused().is_empty();
            rig.engine.pause(PauseCause::Operator, pause, now)?;
            return Ok(());
        }
        if self.sent.is_empty() {
            return Ok(());
        }
        let id = self.rng.pick(&self.sent)["request_id"].as_str().unwrap().to_owned();
        let flow_of = |taken: &summarizer::state::event::TakenRequest| match &*taken.flow_id {
            DISABLED => FlowStanding::Disabled,
            DEPRECATED => FlowStanding::Deprecated,
            ACTIVE => FlowStanding::Active,
            _ => FlowStanding::Unknown,
        };
        let done = if self.rng.chance(50) {
            rig.engine.cancel(&id, now)
        } else {
            rig.engine.retry(&id, flow_of, now)
        };
        match done {
            Err(OperatorError::Engine(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    // The machine.

    fn move_clock(&mut self) {
        match self.rng.below(10) {
            0 => self.world.clock.advance_ms(-(self.rng.below(3_600_000) as i64)),
            1 => self.world.clock.advance_ms(self.rng.below(3_600_000) as i64),
            _ => self.world.clock.advance_ms(self.rng.below(4_000) as i64),
        }
    }

    fn plan_faults(&mut self) {
        let counts = self.world.disk.counts();
        let mut soon = |range: u64, base: u64| Some(base + 1 + self.rng.below(range));
        let mut faults = Faults::default();
        match soon(9, 0) {
            Some(1) => faults.crash_at_sync = soon(30, counts.syncs),
            Some(2) => faults.crash_at_write = soon(120, counts.writes),
            Some(3) => faults.fail_write = soon(120, counts.writes),
            Some(4) => faults.fail_sync = soon(30, counts.syncs),
            Some(5) => faults.full_at_growth = soon(6, counts.growths),
            _ => {}
        }
        self.fail_sync = faults.fail_sync;
        self.world.disk.set_faults(faults);
    }

    fn lose_power(&mut self) {
        self.tally.power_losses += 1;
        self.rig = None;
        // A producer that was in the middle of a line died with the machine.
        self.torn.clear();
        let disk = self.world.disk.crash(self.rng.next());
        self.world.disk = disk;
    }

    /// After a disk error: either the machine went down, or only the process, which starts again once
    /// the disk works. A failed sync may have dropped bytes of the queue, which only its producers
    /// could write again; then the machine goes down.
    fn recover(&mut self) {
        self.rig = None;
        let failed_sync = self.fail_sync.is_some_and(|at| at <= self.world.disk.counts().syncs);
        self.fail_sync = None;
        if self.world.disk.has_crashed() || failed_sync || self.rng.chance(30) {
            self.lose_power();
        } else {
            self.tally.disk_errors += 1;
            self.world.disk.set_faults(Faults::default());
        }
    }

    fn step(&mut self) -> Result<(), Stop> {
        self.tally.steps += 1;
        let mut rig = match self.rig.take() {
            Some(rig) => rig,
            None => Rig::open(&self.world)?,
        };
        let result = self.step_with(&mut rig);
        self.rig = Some(rig);
        result
    }

    fn step_with(&mut self, rig: &mut Rig) -> Result<(), Stop> {
        if self.rng.chance(35) {
            self.produce()?;
        }
        self.work(rig)?;
        if self.rng.chance(6) {
            self.operate(rig)?;
        }
        rig.turn()?;
        if self.rng.chance(3) {
            rig.commit(None, CheckpointWhen::Changed)?;
        }
        Ok(())
    }

    fn inject(&mut self) {
        for _ in 0..STEPS {
            self.move_clock();
            if self.rng.chance(6) {
                self.plan_faults();
            }
            if self.step().is_err() {
                self.recover();
                continue;
            }
            match self.rng.below(60) {
                0 => self.lose_power(),
                1 => {
                    // kill -9: the disk keeps all bytes that the system had received.
                    self.tally.process_deaths += 1;
                    self.rig = None;
                }
                2 => {
                    if let Some(rig) = self.rig.take()
                        && rig.finish().is_err()
                    {
                        self.recover();
                    }
                }
                _ => {}
            }
        }
    }

    fn heal(&mut self, told: &str) {
        self.rig = None;
        if self.world.disk.has_crashed() {
            self.lose_power();
        }
        self.world.disk.set_faults(Faults::default());
        let mut rig = Rig::open(&self.world).unwrap_or_else(|error| panic!("{told}: {error}"));
        rig.healed = true;
        let now = rig.now();
        rig.engine.pause(PauseCause::Operator, false, now).unwrap();
        rig.run_to_end().unwrap_or_else(|error| panic!("{told}: {error}"));
        rig.finish().unwrap_or_else(|error| panic!("{told}: {error}"));
    }
}

fn simulate(seed: u64) -> Tally {
    let told = format!("seed {seed}");
    let mut sim = Sim::new(seed);
    sim.inject();
    sim.heal(&told);
    let verdict = sim.world.audit(true, false);
    verdict.assert_clean(&told);
    sim.world.check_log(&told);
    sim.tally.lines = verdict.lines;
    sim.tally
}

#[test]
fn the_service_converges_after_any_faults_and_the_auditor_finds_nothing() {
    let seeds: Vec<u64> = match std::env::var("SIM_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => {
            let more = if deep() { SEEDS_DEEP } else { SEEDS };
            KEPT.into_iter().chain(1000..1000 + more).collect()
        }
    };
    let mut total = Tally::default();
    for seed in &seeds {
        println!("seed {seed}");
        let tally = simulate(*seed);
        total.steps += tally.steps;
        total.power_losses += tally.power_losses;
        total.process_deaths += tally.process_deaths;
        total.disk_errors += tally.disk_errors;
        total.stale_reports += tally.stale_reports;
        total.lines += tally.lines;
    }
    println!("{} seeds: {total:?}", seeds.len());
    if seeds.len() > 20 {
        assert!(total.power_losses > 20 && total.disk_errors > 5 && total.stale_reports > 20);
    }
}

#[test]
fn the_same_seed_gives_the_same_acks() {
    let acks = || {
        let mut sim = Sim::new(11);
        sim.inject();
        sim.heal("seed 11");
        sim.world.read(&sim.world.home.acks())
    };
    let first = acks();
    assert!(!first.is_empty() && first == acks());
}
