//! Measures engine and store under one setting, for `tune`: the same requests each time, on the real
//! disk.
//!
//! Contract: an event counts once it is durable. At several moments the file is copied as a crash
//! would leave it, and the opening of each copy is timed; copying and opening do not count as work.
//! All files lie below one folder, which the caller owns.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::compaction::tuning::log_sweep::{LogRow, LogSetting, MeasureLog};
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::request::Request;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{Stream, Warnings};
use crate::facts::session::Host;
use crate::log::{Fresh, FreshKeys, LogError, Options, Store};
use crate::os::{Disk, DiskFile, Machine, Open, Stat};
use crate::registry::FlowDirectory;
use crate::seam::arrival::arrival;
use crate::sequencer::engine::{
    CheckpointWhen, Engine, EngineError, EngineOptions, SessionStart, Slots,
};
use crate::state::decide::{FlowStanding, Outcome, Report, RetryPolicy};
use crate::state::event::{Event, SummaryPointer};

/// Of logs that hold nothing but what is measured.
const FRESH: Fresh = Fresh { store_id: [7; 16], keys: FreshKeys::Of([7; 32]) };

/// Moments at which a crash is simulated.
const CRASHES: u64 = 4;
/// Bytes of a summary item.
const ITEM_BYTES: usize = 1200;
/// Bytes in one copy.
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum MeterError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("open the log that is measured")]
    Log(#[from] LogError),
    #[error("write to the folder in which the log is measured")]
    Disk(#[from] std::io::Error),
    #[error("a request of the workload is not valid; this is a bug")]
    Workload,
}

pub(crate) struct LogMeter {
    machine: Machine,
    dir: PathBuf,
    events: u64,
}

impl LogMeter {
    /// `events` is about how many events each setting gets. `dir` is emptied.
    pub(crate) fn new(machine: &Machine, dir: &Path, events: u64) -> LogMeter {
        LogMeter { machine: machine.clone(), dir: dir.to_owned(), events }
    }

    fn open(&self, disk: Arc<dyn Disk>, path: &Path, every: u64) -> Result<Engine, MeterError> {
        let store = Store::open(disk, path, Options::beside(path), FRESH, &mut |_| {})?;
        let options = EngineOptions { retry: RetryPolicy::default(), checkpoint_every: every };
        Ok(Engine::open(store, options, self.machine.clock.now(), &mut |_| {})?)
    }

    /// Opens a copy of what a crash at this moment would leave. Returns the events that were replayed
    /// and the time it took.
    fn crash(&self, path: &Path, every: u64) -> Result<(u64, Duration), MeterError> {
        let disk = &self.machine.disk;
        let copy = self.dir.join("crashed.redb");
        disk.remove_file(&copy)?;
        let (from, to) = (disk.open(path, Open::Read)?, disk.open(&copy, Open::ReadWrite)?);
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut offset = 0;
        loop {
            let count = from.read_at(&mut chunk, offset)?;
            if count == 0 {
                break;
            }
            to.write_all_at(&chunk[..count], offset)?;
            offset += count as u64;
        }
        drop((from, to));
        let begun = Instant::now();
        let engine = self.open(Arc::clone(disk), &copy, every)?;
        let took = begun.elapsed();
        let log = engine.log();
        let tail = log.head().0.0 - log.applied().0;
        drop(engine);
        disk.remove_file(&copy)?;
        Ok((tail, took))
    }
}

impl MeasureLog for LogMeter {
    type Error = MeterError;

    fn measure(&mut self, setting: LogSetting) -> Result<LogRow, MeterError> {
        let real = &self.machine.disk;
        real.remove_dir_all(&self.dir)?;
        real.create_dir_all(&self.dir)?;
        let path = self.dir.join("measured.redb");
        let written = Arc::new(AtomicU64::new(0));
        let counting = Counting { disk: Arc::clone(real), written: Arc::clone(&written) };
        let every = setting.checkpoint_every_events;
        let engine = self.open(Arc::new(counting), &path, every)?;
        let mut work = Work::begin(engine, self.machine.clock.now())?;
        let (mut spent, mut crashes) = (Duration::ZERO, Vec::new());
        let mut checkpoint_max = Duration::ZERO;
        while work.events < self.events {
            let begun = Instant::now();
            work.fill(setting.commit_batch, self.events)?;
            let committing = Instant::now();
            let checkpointed = work.commit()?;
            if checkpointed {
                checkpoint_max = checkpoint_max.max(committing.elapsed());
            }
            spent += begun.elapsed();
            // Off round shares of the work: checkpoints fall on those, and leave nothing to replay.
            let next = (crashes.len() as u64 * 2 + 1) * self.events / (2 * CRASHES) + every / 3;
            if (crashes.len() as u64) < CRASHES && work.events >= next.min(self.events) {
                crashes.push(self.crash(&path, every)?);
            }
        }
        let count = crashes.len().max(1) as f64;
        let row = LogRow {
            setting,
            events_per_second: work.events as f64 / spent.as_secs_f64().max(1e-9),
            bytes_per_event: written.load(Ordering::Relaxed) as f64 / work.events.max(1) as f64,
            checkpoint_ms_max: checkpoint_max.as_secs_f64() * 1000.0,
            tail_events_on_open: crashes.iter().map(|(tail, _)| *tail as f64).sum::<f64>() / count,
            open_ms: crashes.iter().map(|(_, took)| took.as_secs_f64() * 1000.0).sum::<f64>()
                / count,
        };
        drop(work);
        self.machine.disk.remove_dir_all(&self.dir)?;
        Ok(row)
    }
}

/// Requests that are accepted, started and answered.
struct Work {
    engine: Engine,
    now: Timestamp,
    events: u64,
    requests: u64,
    running: Vec<(Seq, u32)>,
}

struct Everything;

impl FlowDirectory for Everything {
    fn standing(&self, _: &str, _: Option<&str>) -> FlowStanding {
        FlowStanding::Active
    }
}

impl Work {
    fn begin(mut engine: Engine, now: Timestamp) -> Result<Work, MeterError> {
        let run = SessionStart {
            run_id: "run_tune".to_owned(),
            command: "tune".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: Digest::ZERO,
            host: Host::default(),
        };
        engine.begin_session(run, now)?;
        let mut work = Work { engine, now, events: 0, requests: 0, running: Vec::new() };
        work.commit()?;
        Ok(work)
    }

    /// Fills one commit: attempts under way end first, then new requests arrive and start.
    fn fill(&mut self, batch: u64, until: u64) -> Result<(), MeterError> {
        let room = |work: &Work| (work.engine.pending() as u64) < batch;
        while room(self)
            && let Some((request, attempt)) = self.running.pop()
        {
            let epoch = self.engine.state().epoch();
            let number = request.0;
            let summary = SummaryPointer {
                summary_id: format!("sum_{}", &sha256(number.to_le_bytes()).hex()[..32]),
                stream: Stream::ALL[0],
                day: self.now.day_in(chrono_tz::UTC),
            };
            let outcome = Outcome::Produced {
                summary,
                item: item(number),
                warnings: Warnings::default(),
                input: Box::default(),
                provenance: None,
            };
            self.engine.report(Report { request, attempt, epoch, outcome }, self.now)?;
        }
        while room(self) && self.events + (self.engine.pending() as u64) < until {
            self.requests += 1;
            let line = line(self.requests);
            let request = Request::parse(&line).map_err(|_| MeterError::Workload)?;
            let place = (self.requests, self.requests * line.len() as u64);
            self.engine.arrival(arrival(request, place, line.into(), &Everything), self.now)?;
        }
        let left = batch.saturating_sub(self.engine.pending() as u64).max(1);
        self.engine
            .start_ready(Slots::of(usize::try_from(left).unwrap_or(usize::MAX)), self.now)?;
        Ok(())
    }

    /// Commits. Returns whether the commit had a checkpoint.
    fn commit(&mut self) -> Result<bool, MeterError> {
        let committed = self.engine.commit(None, CheckpointWhen::Due, &[], self.now)?;
        self.events += committed.len() as u64;
        let mut checkpointed = false;
        for one in committed.iter() {
            match &one.event {
                Event::AttemptStarted { request, attempt } => {
                    self.running.push((*request, *attempt));
                }
                Event::CheckpointTaken { .. } => checkpointed = true,
                _ => {}
            }
        }
        Ok(checkpointed)
    }
}

/// A request of a usual size.
fn line(number: u64) -> Vec<u8> {
    let name = sha256(number.to_le_bytes()).hex();
    format!(
        "{{\"schema_version\":\"summary_request.v1\",\"request_id\":\"{name}\",\
         \"created_at\":\"2026-02-11T23:00:00Z\",\"requested_by\":{{\"repo\":\"repo_{}\",\
         \"component\":\"tune\",\"version\":\"0\"}},\"urgency\":\"now\",\"work\":{{\
         \"output_bus\":\"summary_bus\",\"output_kind\":\"summary_item\",\
         \"summary_kind\":\"event_summary\",\"summary_subkind\":\"ops_brief\",\"flow_ref\":{{\
         \"kind\":\"registry\",\"flow_id\":\"tune.v1\"}},\"params\":{{}}}},\"input\":{{\
         \"mode\":\"ids\",\"bus\":\"event_bus\",\"ids\":[\"evt_{}\",\"evt_{}\"]}}}}",
        number % 12,
        &name[..16],
        &name[16..32]
    )
    .into_bytes()
}

/// Half of its bytes repeat, as words of summaries do, and half are different in each item, so that
/// compression gains about as much as on real items.
fn item(number: u64) -> Vec<u8> {
    let mut item = Vec::with_capacity(ITEM_BYTES + 128);
    let mut round = 0_u64;
    while item.len() < ITEM_BYTES {
        let digest = sha256([number.to_le_bytes(), round.to_le_bytes()].concat());
        item.extend_from_slice(digest.hex().as_bytes());
        item.extend_from_slice(b"the team agreed to move the release to the second week of May; ");
        round += 1;
    }
    item.truncate(ITEM_BYTES);
    item
}

/// A disk that counts what is written through it.
struct Counting {
    disk: Arc<dyn Disk>,
    written: Arc<AtomicU64>,
}

struct CountingFile {
    file: Arc<dyn DiskFile>,
    written: Arc<AtomicU64>,
}

impl CountingFile {
    fn count(&self, data: &[u8]) {
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
    }
}

impl DiskFile for CountingFile {
    fn stat(&self) -> std::io::Result<Stat> {
        self.file.stat()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_all_at(&self, data: &[u8], offset: u64) -> std::io::Result<()> {
        self.count(data);
        self.file.write_all_at(data, offset)
    }
    fn append(&self, data: &[u8]) -> std::io::Result<()> {
        self.count(data);
        self.file.append(data)
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.file.sync()
    }
    fn try_lock(&self) -> std::io::Result<bool> {
        self.file.try_lock()
    }
    fn lock(&self) -> std::io::Result<()> {
        self.file.lock()
    }
    fn unlock(&self) -> std::io::Result<()> {
        self.file.unlock()
    }
}

impl Disk for Counting {
    fn open(&self, path: &Path, how: Open) -> std::io::Result<Arc<dyn DiskFile>> {
        let (file, written) = (self.disk.open(path, how)?, Arc::clone(&self.written));
        Ok(Arc::new(CountingFile { file, written }))
    }
    fn stat(&self, path: &Path) -> std::io::Result<Option<Stat>> {
        self.disk.stat(path)
    }
    fn real_path(&self, path: &Path) -> std::io::Result<PathBuf> {
        self.disk.real_path(path)
    }
    fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> std::io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.disk.rename(from, to)
    }
    fn exchange(&self, a: &Path, b: &Path) -> std::io::Result<()> {
        self.disk.exchange(a, b)
    }
    fn hard_link(&self, existing: &Path, new: &Path) -> std::io::Result<()> {
        self.disk.hard_link(existing, new)
    }
    fn remove_file(&self, path: &Path) -> std::io::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir_all(&self, dir: &Path) -> std::io::Result<()> {
        self.disk.remove_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn free_bytes(&self, path: &Path) -> std::io::Result<u64> {
        self.disk.free_bytes(path)
    }
}
