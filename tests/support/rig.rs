//! The service without threads: the same parts in the same order as the real one, run step by step on
//! a machine with a set clock and a disk that fails on demand.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;
use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::ids::Seq;
use summarizer::contract::time::Timestamp;
use summarizer::contract::vocabulary::{ReasonCode, Stream, Warnings};
use summarizer::export::Committed;
use summarizer::facts::model::{AnswerFacts, ModelIdentity, StopReason, Usage};
use summarizer::facts::session::{Host, PauseCause, SessionReport};
use summarizer::home::Home;
use summarizer::log::codec::Cursor;
use summarizer::log::{LogError, Options, ReadError, Store};
use summarizer::os::sim::{SimClock, SimDisk};
use summarizer::os::{Clock as _, Disk, Open};
use summarizer::projections::projector::Projections;
use summarizer::registry::{FlowDirectory, SharedFlows};
use summarizer::replay::{self, Compare, Until};
use summarizer::seam::tail::{TailOptions, Tailer};
use summarizer::sequencer::engine::{CheckpointWhen, Engine, EngineOptions, SessionStart, Slots};
use summarizer::sequencer::foresight::Foresight;
use summarizer::sequencer::intake::{Arrived, OtherQueues, parse};
use summarizer::sequencer::mark::QueueMarks;
use summarizer::state::decide::{Failed, FlowStanding, Outcome, Report, RetryHint, RetryPolicy};
use summarizer::state::event::{Event, SessionEnd, SummaryPointer, TakenRequest};
use summarizer::state::{Past as _, Status};

use super::auditor::{Evidence, Verdict, audit};
use super::requests::{ACTIVE, DEPRECATED, DISABLED};

/// When the simulated world begins.
pub const BEGIN: Timestamp = Timestamp(1_772_359_200_000);
/// Longest queue line in these tests.
pub const LINE_BYTES: usize = 4096;

pub type Stop = Box<dyn std::error::Error + Send + Sync>;

struct Flows;

impl FlowDirectory for Flows {
    fn standing(&self, flow_id: &str, variant: Option<&str>) -> FlowStanding {
        match (flow_id, variant) {
            (ACTIVE, None) => FlowStanding::Active,
            (ACTIVE, Some(_)) => FlowStanding::UnknownVariant,
            (DEPRECATED, _) => FlowStanding::Deprecated,
            (DISABLED, _) => FlowStanding::Disabled,
            _ => FlowStanding::Unknown,
        }
    }
}

pub fn flows() -> SharedFlows {
    let flows: Arc<dyn FlowDirectory> = Arc::new(Flows);
    Arc::new(RwLock::new(flows))
}

/// The machine and the files on it; survives crashes of the service.
#[derive(Clone)]
pub struct World {
    /// The name of the host; empty when it has its log alone.
    pub host: String,
    pub disk: SimDisk,
    pub clock: Arc<SimClock>,
    pub home: Home,
    pub options: EngineOptions,
    pub lines_at_once: usize,
    pub slots: usize,
    /// Number of batches that may be at the writer while the next one is decided.
    pub unheard: usize,
}

impl World {
    pub fn new() -> World {
        let root = PathBuf::from("/home");
        let home = Home { queue: root.join("run/queue.jsonl"), buses: root.join("buses"), root };
        let disk = SimDisk::new();
        home.create(&disk).unwrap();
        let options = EngineOptions { retry: RetryPolicy::default(), checkpoint_every: 40 };
        let clock = Arc::new(SimClock::at(BEGIN));
        let host = String::new();
        World { host, disk, clock, home, options, lines_at_once: 7, slots: 4, unheard: 0 }
    }

    /// The same world with another disk and its own clock.
    pub fn on(&self, disk: SimDisk) -> World {
        let clock = Arc::new(SimClock::at(self.clock.now()));
        World { disk, clock, ..self.clone() }
    }

    pub fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }

    /// A producer appends bytes, and syncs them if it cares.
    pub fn produce(&self, bytes: &[u8], sync: bool) -> std::io::Result<()> {
        let file = self.disk.open(&self.home.queue, Open::ReadWrite)?;
        file.append(bytes)?;
        if sync {
            file.sync()?;
            self.disk.sync_dir(&self.home.run())?;
        }
        Ok(())
    }

    pub fn read(&self, path: &Path) -> Vec<u8> {
        let disk: &dyn Disk = &self.disk;
        disk.read_if_present(path).unwrap().unwrap_or_default()
    }

    pub fn audit(&self, finished: bool, steady_clock: bool) -> Verdict {
        audit(&Evidence {
            queue: &self.read(&self.home.queue),
            acks: &self.read(&self.home.acks()),
            quarantine: &self.read(&self.home.quarantine()),
            finished,
            steady_clock,
        })
    }

    /// Deletes both projections, writes them again from the log, and compares them with the originals;
    /// then replays the log and verifies it.
    pub fn check_log(&self, told: &str) {
        let before = [self.read(&self.home.acks()), self.read(&self.home.quarantine())];
        self.disk.remove_file(&self.home.acks()).unwrap();
        self.disk.remove_file(&self.home.quarantine()).unwrap();
        let store = open_store(self).unwrap_or_else(|error| panic!("{told}: {error}"));
        let reader = store.reader();
        let report = reader.verify(Seq(1), None, &mut |_| {});
        report.unwrap_or_else(|error| panic!("{told}: {error}"));
        let replayed = replay::rebuild(&reader, Until::Head, Compare::Tables, &mut |_| {});
        let replayed = replayed.unwrap_or_else(|error| panic!("{told}: {error}"));
        assert!(replayed.differences.is_empty(), "{told}: {:?}", replayed.differences);
        drop(Projections::open(&self.shared(), &self.home, &reader).unwrap());
        let after = [self.read(&self.home.acks()), self.read(&self.home.quarantine())];
        assert!(before[0] == after[0], "{told}: acks are not what the log projects to");
        assert!(before[1] == after[1], "{told}: quarantine is not what the log projects to");
    }
}

pub fn open_store(world: &World) -> Result<Store, Stop> {
    let path = world.home.store();
    Ok(Store::open(world.shared(), &path, Options::beside(&path), [7; 16], &mut |_| {})?)
}

/// A running attempt, and the remaining reports of its worker.
#[derive(Debug, Clone)]
pub struct Try {
    pub request: Seq,
    pub attempt: u32,
    pub epoch: Seq,
    pub outcomes: VecDeque<Outcome>,
}

/// The action of the worker, by the word of its request for this attempt.
pub fn perform(taken: &TakenRequest, attempt: u32, healed: bool) -> VecDeque<Outcome> {
    let request: Value = serde_json::from_slice(&taken.line).unwrap();
    let params = &request["work"]["params"];
    let script = params["script"].as_array().cloned().unwrap_or_default();
    let word = script.get(attempt as usize - 1).or(script.last());
    let word = word.and_then(Value::as_str).unwrap_or("ok");
    let item = params["item"].as_str().unwrap_or(&taken.head.key);
    let summary = SummaryPointer {
        summary_id: format!("sum_{}", &sha256(item).hex()[..32]),
        stream: Stream::Documents,
        day: "2026-03-01".parse().unwrap(),
    };
    let resolved = Outcome::Resolved {
        summary: summary.clone(),
        warnings: Warnings::default(),
        input: Box::default(),
        sources: Box::default(),
    };
    let produced = Outcome::Produced {
        summary,
        item: format!("{{\"item\":\"{item}\"}}").into_bytes(),
        warnings: Warnings::default(),
        input: Box::default(),
        provenance: None,
    };
    let answer = Outcome::Responded {
        call: sha256(format!("{item}{attempt}")),
        body: format!("the answer about {item}").into_bytes(),
        answer: Box::new(AnswerFacts {
            identity: ModelIdentity::default(),
            usage: Usage::default(),
            stop: StopReason::End,
        }),
    };
    let failed = |again, reason| {
        let message = format!("scripted: {word}");
        Outcome::Failed(Failed {
            again,
            reason,
            cause: None,
            message,
            input: Box::default(),
            error: None,
        })
    };
    let later = || failed(RetryHint::Later, Some(ReasonCode::Unavailable));
    let outcomes = match word {
        "later" | "after" | "timeout" | "lost" if healed => vec![resolved, answer, produced],
        "later" => vec![resolved, later()],
        "after" => vec![failed(RetryHint::After(1500), Some(ReasonCode::RateLimited))],
        "timeout" => vec![resolved, failed(RetryHint::Later, Some(ReasonCode::Timeout))],
        // The worker reports an answer and then disappears. The answer must not be paid for twice, and the
        // attempt ends by its timeout.
        "lost" => vec![resolved, answer, failed(RetryHint::Later, Some(ReasonCode::Timeout))],
        "never" => vec![resolved, failed(RetryHint::Never, Some(ReasonCode::ModelError))],
        "input" => vec![failed(RetryHint::InvalidInput, Some(ReasonCode::UnknownSourceId))],
        "skip" => {
            let input = Box::default();
            vec![Outcome::Skipped {
                reason: ReasonCode::SkippedEmptyContent,
                warnings: Warnings::default(),
                input,
            }]
        }
        "unresolved" => vec![produced],
        _ => vec![resolved, answer, produced],
    };
    outcomes.into()
}

pub struct Rig {
    pub world: World,
    pub engine: Engine,
    pub projections: Projections,
    pub tailer: Tailer,
    /// How far the queues of all hosts are taken in.
    queues: QueueMarks,
    /// The queues of other hosts.
    pub others: Option<Box<dyn OtherQueues>>,
    /// Lines that were read and looked up, and not decided yet.
    ahead: Option<Arrived>,
    pub tries: BTreeMap<Seq, Try>,
    /// Everything committed by this run.
    pub history: Vec<Committed>,
    /// The queue position of each commit that moved it, by its last event.
    pub marks: Vec<(Seq, Vec<u8>)>,
    pub healed: bool,
    flows: SharedFlows,
    cursors: Vec<(&'static str, Cursor)>,
    commits: u64,
    /// The queue position that goes with the batch being written.
    sealed_marks: VecDeque<Option<Vec<u8>>>,
}

impl Rig {
    pub fn open(world: &World) -> Result<Rig, Stop> {
        let now = world.clock.now();
        let store = open_store(world)?;
        Rig::on(world, Engine::open(store, world.options, now, &mut |_| {})?)
    }

    /// The same with an engine that is open.
    pub fn on(world: &World, mut engine: Engine) -> Result<Rig, Stop> {
        let now = world.clock.now();
        let (projections, _) = Projections::open(&world.shared(), &world.home, engine.log())?;
        let run = SessionStart {
            run_id: format!("run_{}", engine.log().head().0.0),
            command: "test".to_owned(),
            version: "0".to_owned(),
            config: Digest::ZERO,
            host: Host::default(),
        };
        engine.begin_session(run, now)?;
        let queues = QueueMarks::decode(&engine.log().mark())?;
        let position = queues.place_in(&world.host, &world.shared(), &world.home.queue)?;
        let options = TailOptions { max_line_bytes: LINE_BYTES, partial_line_grace_ms: 10_000 };
        let tailer = Tailer::open(world.shared(), &world.home.queue, position, options)?;
        let mut rig = Rig {
            world: world.clone(),
            engine,
            projections,
            tailer,
            queues,
            others: None,
            ahead: None,
            tries: BTreeMap::new(),
            history: Vec::new(),
            marks: Vec::new(),
            healed: false,
            flows: flows(),
            cursors: Vec::new(),
            commits: 0,
            sealed_marks: VecDeque::new(),
        };
        rig.commit(None, CheckpointWhen::Due)?;
        Ok(rig)
    }

    pub fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// Gives the engine a report of a worker; returns whether it counted.
    pub fn deliver(&mut self, report: Report) -> Result<bool, Stop> {
        let now = self.now();
        Ok(self.engine.report(report, now)?)
    }

    /// The next report of each worker.
    pub fn deliver_all(&mut self) -> Result<(), Stop> {
        for request in self.tries.keys().copied().collect::<Vec<_>>() {
            self.deliver_next(request)?;
        }
        Ok(())
    }

    /// The next report of one worker, if any is left.
    pub fn deliver_next(&mut self, request: Seq) -> Result<Option<Report>, Stop> {
        let Some(tried) = self.tries.get_mut(&request) else { return Ok(None) };
        let Some(outcome) = tried.outcomes.pop_front() else { return Ok(None) };
        let Try { request, attempt, epoch, .. } = *tried;
        let report = Report { request, attempt, epoch, outcome };
        self.deliver(report.clone())?;
        // An outcome in the same batch ends the attempt before its next report.
        let open = self.engine.state().open_request(request);
        if open.is_none_or(|open| open.row.status != Status::Running) {
            self.tries.remove(&request);
        }
        Ok(Some(report))
    }

    /// The next lines of the queue, with their look-up in the tables.
    fn read(&mut self) -> Result<Option<Arrived>, Stop> {
        let (now, lines) = (self.now(), self.world.lines_at_once);
        let others = self.others.as_mut().and_then(|others| others.next());
        let (host, batch) = match others {
            Some(shipped) => shipped,
            None => {
                let batch = self.tailer.next_batch(now, lines, 1 << 20)?;
                let Some(batch) = batch else { return Ok(None) };
                self.tailer.sync()?;
                (self.world.host.clone(), batch)
            }
        };
        let mut arrived = Arrived { host, ..parse(&batch, &self.flows) };
        arrived.foresight = Foresight::of(self.engine.log(), &arrived.lines)?;
        Ok(Some(arrived))
    }

    /// Lines, waiting requests, starts and one commit. Returns whether anything was committed.
    pub fn turn(&mut self) -> Result<bool, Stop> {
        let now = self.now();
        let paused = !self.engine.state().paused().is_empty();
        let mut mark = None;
        if !paused {
            let arrived = match self.ahead.take() {
                Some(arrived) => Some(arrived),
                None => self.read()?,
            };
            if let Some(arrived) = arrived {
                let Arrived { host, lines, foresight, end, consumed } = arrived;
                assert!(self.queues.advance(&host, end, consumed), "lines out of order");
                self.engine.lines(lines, foresight, now)?;
                mark = Some(self.queues.encode());
            }
        }
        let consumed = mark.is_some();
        if self.engine.state().has_unsettled() {
            self.engine.settle(now)?;
        }
        if !paused {
            let free = self.world.slots.saturating_sub(self.engine.state().running_count());
            self.engine.start_ready(Slots::of(free), now)?;
            // What is looked up here is used after one commit more, and may hold no longer.
            if self.world.unheard > 0 && self.ahead.is_none() {
                self.ahead = self.read()?;
            }
        }
        let did = self.engine.pending() > 0 || consumed || self.ahead.is_some();
        self.commit(mark, CheckpointWhen::Due)?;
        Ok(did)
    }

    pub fn commit(&mut self, mark: Option<Vec<u8>>, when: CheckpointWhen) -> Result<(), Stop> {
        let unheard = match when {
            CheckpointWhen::Due => self.world.unheard.saturating_sub(1),
            CheckpointWhen::Changed | CheckpointWhen::Always => 0,
        };
        self.finish_batches(unheard)?;
        self.commits += 1;
        if self.commits.is_multiple_of(5) {
            self.cursors = self.projections.sync()?;
        }
        let now = self.now();
        let cursors = self.cursors.clone();
        let sealed = match self.engine.seal(mark.clone(), when, &cursors, now) {
            Ok(sealed) => sealed,
            Err(error) => {
                self.refuses_everything();
                return Err(error.into());
            }
        };
        if !sealed {
            // Without new events the results of earlier batches are received.
            return self.finish_batches(self.sealed_marks.len().saturating_sub(1));
        }
        self.sealed_marks.push_back(mark);
        // The next step must not depend on the speed of the writer.
        while self.engine.written().len() < self.sealed_marks.len() {
            std::thread::yield_now();
        }
        self.finish_batches(self.world.unheard)
    }

    /// Receives the results of sealed batches and acts on them, until `left` batches remain.
    fn finish_batches(&mut self, unheard: usize) -> Result<(), Stop> {
        while self.sealed_marks.len() > unheard {
            self.finish_batch()?;
        }
        Ok(())
    }

    fn finish_batch(&mut self) -> Result<(), Stop> {
        let mark = self.sealed_marks.pop_front().flatten();
        let committed = match self.engine.finish() {
            Ok(committed) => committed,
            Err(error) => {
                self.refuses_everything();
                return Err(error.into());
            }
        };
        self.projections.take(&committed)?;
        if let (Some(mark), Some(last)) = (mark, committed.last()) {
            self.marks.push((last.seq, mark));
        }
        for event in committed.iter() {
            self.act(event);
            self.history.push(event.clone());
        }
        Ok(())
    }

    /// After a failed commit the content of the disk is unknown, so the service must stop.
    fn refuses_everything(&mut self) {
        let now = self.now();
        assert!(
            self.engine.record(Event::IntakePaused { cause: PauseCause::Operator }, now).is_err(),
            "a poisoned engine took an event"
        );
        let again = self.engine.commit(Some(b"x".to_vec()), CheckpointWhen::Due, &[], now);
        assert!(again.is_err(), "a poisoned engine committed");
    }

    fn act(&mut self, committed: &Committed) {
        match &committed.event {
            Event::AttemptStarted { request, attempt } => {
                let Some(open) = self.engine.state().open_request(*request) else { return };
                if open.row.status != Status::Running || open.row.attempts != *attempt {
                    return;
                }
                // A later batch may have failed by now; then this is the last that is heard.
                let taken = match self.engine.past().taken(*request) {
                    Err(ReadError::Log(LogError::Poisoned)) => return,
                    taken => taken.unwrap(),
                };
                let strict = taken.urgency == summarizer::contract::vocabulary::Urgency::Scheduled;
                let early = taken.not_before.filter(|due| strict && committed.at < *due);
                assert!(early.is_none(), "line {} ran before its time", taken.head.line);
                let tried = Try {
                    request: *request,
                    attempt: *attempt,
                    epoch: self.engine.state().epoch(),
                    outcomes: perform(&taken, *attempt, self.healed),
                };
                self.tries.insert(*request, tried);
            }
            Event::SummaryProduced { request, .. }
            | Event::AttemptFailed { request, .. }
            | Event::RequestSkipped { request, .. }
            | Event::RequestCancelled { request, .. }
            | Event::RequestDuplicated { request, .. }
            | Event::WorkHeld { request, .. } => {
                // A later start in the same batch would come after this event and win.
                self.tries.remove(request);
            }
            _ => {}
        }
    }

    /// Works until no work is left, and moves the clock to the next due time.
    pub fn run_to_end(&mut self) -> Result<(), Stop> {
        for _ in 0..20_000 {
            self.deliver_all()?;
            if self.turn()?
                || self.engine.is_writing()
                || !self.tries.is_empty()
                || self.engine.state().has_unsettled()
            {
                continue;
            }
            let next = self.engine.state().next_eligible();
            let next = next.into_iter().chain(self.tailer.partial_due()).min();
            match next.filter(|next| *next > self.now()) {
                Some(next) => self.world.clock.set(next),
                None if self.engine.state().ready_count() > 0 => {}
                None => {
                    assert_eq!(self.engine.state().open_count(), 0, "idle with open requests");
                    return Ok(());
                }
            }
        }
        panic!("no end after 20,000 turns: {:?}", self.engine.state().totals());
    }

    /// Ends in order.
    pub fn finish(mut self) -> Result<(), Stop> {
        let now = self.now();
        self.engine.end_session(SessionEnd::Clean, SessionReport::default(), now)?;
        self.commit(None, CheckpointWhen::Due)?;
        self.finish_batches(0)?;
        self.cursors = self.projections.sync()?;
        self.commit(None, CheckpointWhen::Changed)?;
        self.finish_batches(0)?;
        Ok(self.engine.close()?)
    }
}
