//! Shared by the intake benches: a deterministic queue, a home, and the loop of the service, run step
//! by step so that each part can be timed.
//!
//! Every commit of at most 4,096 lines is one redb transaction with an immediate fsync, after the
//! queue file was synced. Acks are written without a sync, as in the service.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use summarizer::config::Config;
use summarizer::contract::hash::Digest;
use summarizer::contract::ids::Seq;
use summarizer::contract::vocabulary::{Stream, Warnings};
use summarizer::facts::session::Host;
use summarizer::home::Home;
use summarizer::log::{Options, Store};
use summarizer::os::Machine;
use summarizer::projections::projector::{Projections, Projector};
use summarizer::projections::snapshot_files::SnapshotFiles;
use summarizer::registry::{FlowDirectory, SharedFlows};
use summarizer::seam::position::Position;
use summarizer::seam::tail::TailOptions;
use summarizer::sequencer::engine::{CheckpointWhen, Engine, EngineOptions, SessionStart, Slots};
use summarizer::sequencer::intake::{Intake, IntakeMessage, IntakeOptions};
use summarizer::sequencer::mark::QueueMark;
use summarizer::state::decide::{FlowStanding, Outcome, Report};
use summarizer::state::event::SummaryPointer;

/// The allocator of the program, so that the figures apply to the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lines in one commit.
pub const BATCH: usize = 4096;

pub struct AnyFlow;

impl FlowDirectory for AnyFlow {
    fn standing(&self, _flow_id: &str, _variant: Option<&str>) -> FlowStanding {
        FlowStanding::Active
    }
}

/// A directory in which every flow is runnable.
pub fn any_flow() -> SharedFlows {
    let flows: Arc<dyn FlowDirectory> = Arc::new(AnyFlow);
    Arc::new(RwLock::new(flows))
}

/// The numbers on the command line; `1_000_000` is one.
pub fn numbers() -> Vec<u64> {
    std::env::args().skip(1).filter_map(|text| text.replace('_', "").parse().ok()).collect()
}

/// Whether this is a measurement. Tests run benches without `--bench`, on small loads.
pub fn measured() -> bool {
    std::env::args().any(|text| text == "--bench")
}

/// A small generator of reproducible numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// Appends `count` lines, numbered from `first`, and syncs them. Lines have about 800 bytes; 5 % repeat
/// an earlier key, and 1 % are no requests.
pub fn write_queue(path: &Path, first: u64, count: u64) -> std::io::Result<()> {
    let file = File::options().create(true).append(true).open(path)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    for number in first..first + count {
        out.write_all(line(number).as_bytes())?;
    }
    // Otherwise the first sync of the reader would write all of it.
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()
}

/// One line of the queue.
pub fn line(number: u64) -> String {
    let mut random = Random(number);
    let (a, b, c) = (random.next(), random.next(), random.next());
    let repeats = number > 100 && a % 20 == 0;
    let of = if repeats { random.below(number) } else { number };
    let key = Random(of ^ 0x5eed).next();
    if b % 100 == 0 {
        return format!(
            "{{\"schema_version\":\"summary_request.v1\",\"request_id\":\"cut-{number}\n"
        );
    }
    let note = "weekly triage of the inbound mail lane; batch produced by the nightly job after \
                the importer finished and all manifests were verified against their files";
    format!(
        "{{\"schema_version\":\"summary_request.v1\",\"request_id\":\"{a:016x}-{number:012}\",\
         \"created_at\":\"2026-02-11T23:{:02}:{:02}Z\",\"requested_by\":{{\"repo\":\"repo_{}\",\
         \"component\":\"scorer\",\"version\":\"0.7.{}\",\"git_commit\":\"{:08x}\"}},\
         \"urgency\":\"now\",\"priority\":{},\"work\":{{\"output_bus\":\"summary_bus\",\
         \"output_kind\":\"summary_item\",\"summary_kind\":\"event_summary\",\
         \"summary_subkind\":\"ops_brief\",\"flow_ref\":{{\"kind\":\"registry\",\
         \"flow_id\":\"gpt.session.summarize.parsed_message.v3\"}},\
         \"params\":{{\"max_tokens\":{},\"language\":\"es\"}}}},\"input\":{{\"mode\":\"ids\",\
         \"bus\":\"event_bus\",\"ids\":[\"evt_{a:016x}\",\"evt_{b:016x}\",\"evt_{c:016x}\"]}},\
         \"idempotency_key\":\"{key:016x}{of:016x}\",\"trace\":{{\"run_id\":\"run_{b:016x}\",\
         \"host\":\"ingest-host-01\",\"user\":\"svc-mail\"}},\"notes\":\"{note}\"}}\n",
        c % 60,
        b % 60,
        c % 12,
        b % 9,
        c as u32,
        1 + a % 5,
        200 + b % 400,
    )
}

/// A home in a directory, with the engine and the projections open.
pub struct Bench {
    pub machine: Machine,
    pub home: Home,
    pub config: Config,
    pub engine: Engine,
    pub projector: Projector,
}

/// How long and how much.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ingested {
    pub lines: u64,
    pub elapsed: Duration,
    pub commits: u64,
    /// Longest time the sequencer stood still for a commit; those with a checkpoint take longest.
    pub stall: Duration,
}

impl Ingested {
    /// Counts another part of the same work.
    pub fn add(&mut self, more: &Ingested) {
        self.lines += more.lines;
        self.elapsed += more.elapsed;
        self.commits += more.commits;
        self.stall = self.stall.max(more.stall);
    }
}

impl Bench {
    /// Opens a home; `checkpoint_every` overrides the default.
    pub fn open(root: &Path, checkpoint_every: Option<u64>) -> Bench {
        let mut config = Config::load(None, &BTreeMap::new(), 2).expect("the defaults are valid");
        if let Some(every) = checkpoint_every {
            config.checkpoint_every_events = every;
        }
        Bench::open_as(root, config, |_| {})
    }

    /// Opens a home with other options of its store.
    pub fn open_with(root: &Path, change: impl FnOnce(&mut Options)) -> Bench {
        let config = Config::load(None, &BTreeMap::new(), 2).expect("the defaults are valid");
        Bench::open_as(root, config, change)
    }

    fn open_as(root: &Path, mut config: Config, change: impl FnOnce(&mut Options)) -> Bench {
        config.open_requests_max = 50_000_000;
        let machine = Machine::real();
        let home = Home::new(root, &config);
        home.create(machine.disk.as_ref()).expect("make the home");
        let path = home.store();
        let disk = Arc::clone(&machine.disk);
        let mut options = Options::beside(&path);
        change(&mut options);
        let store =
            Store::open(disk, &path, options, [7; 16], &mut |_| {}).expect("open the store");
        let options = EngineOptions::of(&config);
        let engine =
            Engine::open(store, options, machine.clock.now(), &mut |_| {}).expect("open the log");
        let (projections, _) =
            Projections::open(&machine.disk, &home, engine.log()).expect("open the acks");
        let snapshots = SnapshotFiles::of_home(&machine.disk, &home, engine.log());
        let snapshots = snapshots.expect("open the snapshots");
        let projector = Projector::start(projections, snapshots).expect("start the projector");
        let mut bench = Bench { machine, home, config, engine, projector };
        bench.begin();
        bench
    }

    fn begin(&mut self) {
        let run = SessionStart {
            run_id: "run_bench".into(),
            command: "bench".into(),
            version: "0".into(),
            config: Digest::ZERO,
            host: Host::default(),
        };
        let now = self.machine.clock.now();
        self.engine.begin_session(run, now).expect("begin the run");
        self.commit(None);
    }

    fn commit(&mut self, mark: Option<Vec<u8>>) {
        let now = self.machine.clock.now();
        let cursors = self.projector.cursors();
        let committed =
            self.engine.commit(mark, CheckpointWhen::Due, &cursors, now).expect("commit");
        self.projector.take(&committed).expect("project");
    }

    /// Hears of what is written, and waits until the writer has room.
    fn finish_written(&mut self) {
        while !self.engine.has_room() || !self.engine.written().is_empty() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        let committed = self.engine.finish().expect("commit");
        self.projector.take(&committed).expect("project");
    }

    /// Reads, validates, deduplicates, commits and projects everything in the queue.
    pub fn ingest(&mut self) -> Ingested {
        let started = Instant::now();
        let mut done = Ingested::default();
        let intake = self.intake();
        while let Ok(message) = intake.messages.recv() {
            match message {
                IntakeMessage::Batch(promise) => {
                    let arrived = promise.recv().expect("a parser answers");
                    let now = self.machine.clock.now();
                    done.lines += arrived.lines.len() as u64;
                    done.commits += 1;
                    self.engine.lines(arrived.lines, arrived.foresight, now).expect("decide");
                    let mark =
                        QueueMark { position: arrived.end, consumed: Some(arrived.consumed) };
                    let standing = Instant::now();
                    self.finish_written();
                    let cursors = self.projector.cursors();
                    self.engine
                        .seal(Some(mark.encode()), CheckpointWhen::Due, &cursors, now)
                        .expect("seal");
                    done.stall = done.stall.max(standing.elapsed());
                }
                IntakeMessage::CaughtUp(_) => break,
                IntakeMessage::Failed(error) => panic!("{error}"),
            }
        }
        while self.engine.is_writing() {
            self.finish();
        }
        done.elapsed = started.elapsed();
        intake.stop();
        done
    }

    /// The position where reading continues.
    pub fn position(&self) -> Position {
        QueueMark::decode(&self.engine.log().mark()).expect("a mark of ours").position
    }

    /// The reading and parsing threads of the service.
    pub fn intake(&self) -> Intake {
        let options = IntakeOptions {
            host: String::new(),
            path: self.home.queue.clone(),
            reads_own: true,
            tail: TailOptions::default(),
            lines_max: BATCH,
            bytes_max: self.config.commit_bytes_max,
            parsers: 2,
        };
        Intake::start(
            &self.machine,
            self.position(),
            &options,
            &any_flow(),
            self.engine.log(),
            None,
            None,
        )
        .expect("read the queue")
    }

    /// Completes every open request with a small item, in commits of the usual size.
    pub fn finish_all(&mut self) -> Ingested {
        self.finish_all_with(&mut |_| vec![b'x'; 300])
    }

    /// The same with items that depend on their request.
    pub fn finish_all_with(&mut self, item: &mut dyn FnMut(Seq) -> Vec<u8>) -> Ingested {
        let started = Instant::now();
        let mut done = Ingested::default();
        while self.engine.state().open_count() > 0 {
            let now = self.machine.clock.now();
            while self.engine.settle(now).expect("settle") {}
            self.engine.start_ready(Slots::of(BATCH), now).expect("start");
            let running: Vec<(Seq, u32)> = self
                .engine
                .state()
                .running()
                .map(|(request, open)| (request, open.row.attempts))
                .collect();
            let epoch = self.engine.state().epoch();
            for (request, attempt) in running {
                let summary = SummaryPointer {
                    summary_id: format!("sum_{:032x}", request.0),
                    stream: Stream::Events,
                    day: "2026-02-11".parse().expect("a day"),
                };
                let outcome = Outcome::Produced {
                    summary,
                    item: item(request),
                    warnings: Warnings::default(),
                    input: Box::default(),
                    provenance: None,
                };
                let report = Report { request, attempt, epoch, outcome };
                self.engine.report(report, now).expect("report");
                done.lines += 1;
            }
            done.commits += 1;
            let standing = Instant::now();
            self.commit(None);
            done.stall = done.stall.max(standing.elapsed());
        }
        done.elapsed = started.elapsed();
        done
    }

    /// Ends in order.
    pub fn close(mut self) {
        let now = self.machine.clock.now();
        let cursors = self.projector.finish().expect("finish the acks");
        self.engine.commit(None, CheckpointWhen::Changed, &cursors, now).expect("checkpoint");
        self.engine.close().expect("close");
    }
}

/// Resident memory of this process in bytes.
pub fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    pages * 4096
}

/// Lines a second.
pub fn rate(done: &Ingested) -> f64 {
    done.lines as f64 / done.elapsed.as_secs_f64().max(1e-9)
}

/// A directory for a benchmark, on the disk of the working directory.
pub fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from("target").join("bench").join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("make a scratch directory");
    dir
}
