//! Run records on disk: a file for each run that ended, a row in the day of its start.
//!
//! Contract: a record is written once, before its row. Position the start records and rows that are
//! missing are written again; what is there and is the same is left alone. Rows of earlier days are
//! on the cache.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::SummariesError;
use super::fold::fold;
use super::spill_cache::{Change, Position, SpillCache};
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::export::publish::{Fallback, Publisher};
use crate::export::run_record::render_day;
use crate::export::session_fold::{FinishedRun, SessionFold, skip_line, skip_report_path};
use crate::facts::digest::DigestFact;
use crate::log::{ReadError, Reader, codec};
use crate::os::{Disk, DiskFile, Open};
use crate::state::event::Event;

/// The tree of the run-records bus, relative to the bus home.
const RUNS_DIR: &str = "run_records";
/// Mode of the files.
const MODE: u32 = 0o640;
/// Bytes of a skip report written at once.
const WRITE_BYTES: usize = 1 << 20;

/// The records of all runs.
pub(super) struct RunRecords {
    disk: Arc<dyn Disk>,
    buses: PathBuf,
    publisher: Publisher,
    sessions: SessionFold,
    ended: Vec<FinishedRun>,
    cache: SpillCache,
    /// Rows that are not on the cache, by day and run.
    rows: BTreeMap<(Day, String), RunRow>,
    changed: BTreeSet<Day>,
}

/// The row of a run, and the files that go with it.
#[derive(Clone, Serialize, Deserialize)]
struct RunRow {
    row: String,
    files: Vec<String>,
}

/// Rows of runs on the cache.
const RUNS: &str = "run/";
/// RunRecords that ended above which they are written before more is read.
const ENDED_MAX: usize = 256;

impl RunRecords {
    pub fn open(
        disk: &Arc<dyn Disk>,
        buses: &Path,
        cache: SpillCache,
    ) -> Result<RunRecords, SummariesError> {
        let publisher =
            Publisher::open(Arc::clone(disk), buses, RUNS_DIR, Fallback::DataThenManifest)?;
        Ok(RunRecords {
            disk: Arc::clone(disk),
            buses: buses.to_owned(),
            publisher,
            sessions: SessionFold::default(),
            ended: Vec::new(),
            cache,
            rows: BTreeMap::new(),
            changed: BTreeSet::new(),
        })
    }

    /// Forgets everything the log can tell again.
    pub fn start_over(&mut self, cache: SpillCache) {
        (self.sessions, self.cache) = (SessionFold::default(), cache);
        self.ended.clear();
        self.rows.clear();
        self.changed.clear();
    }

    /// Takes up what the cache knows, and the run that was open there. False when a file is missing
    /// that only the log can write again.
    pub fn recall(&mut self, log: &Reader, at: &Position) -> Result<bool, SummariesError> {
        let mut there = true;
        let (disk, buses, publisher) = (&self.disk, &self.buses, &self.publisher);
        let (mut looked_at, changed) = (None, &mut self.changed);
        self.cache.each(RUNS, &mut |name, row| {
            let row: RunRow = serde_json::from_slice(&row)?;
            for file in row.files {
                there = there && disk.stat(&buses.join(file))?.is_some();
            }
            let day = name.split('/').next().and_then(|day| day.parse::<Day>().ok());
            let Some(day) = day.filter(|day| looked_at.replace(*day) != Some(*day)) else {
                return Ok(());
            };
            for path in paths_of(day) {
                if disk.stat(&publisher.live().join(path))?.is_none() {
                    changed.insert(day);
                }
            }
            Ok(())
        })?;
        let Some(from) = at.run_from.filter(|_| there) else { return Ok(there) };
        let sessions = &mut self.sessions;
        fold(log, Seq(from.saturating_sub(1)), Some(at.seq()), &mut |seq, stamp, event| {
            sessions.take(seq, stamp.at, &event);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(true)
    }

    /// Whether what ended has to be written before more is read.
    pub fn is_full(&self) -> bool {
        self.cache.keeps() && self.ended.len() >= ENDED_MAX
    }

    /// What the cache has to know to stand for everything that was taken.
    pub fn leave(&self, at: &mut Position, rows: &mut Vec<Change>) -> Result<(), SummariesError> {
        at.run_from = self.sessions.open_since().map(|seq| seq.0);
        for ((day, run), row) in &self.rows {
            rows.push((format!("{RUNS}{day}/{run}"), Some(serde_json::to_vec(row)?)));
        }
        Ok(())
    }

    /// What was left is on the cache.
    pub fn left(&mut self) {
        self.rows.clear();
    }

    /// All rows of a day, by run.
    fn rows_of(&self, day: Day) -> Result<BTreeMap<String, String>, SummariesError> {
        let mut rows = BTreeMap::new();
        self.cache.each(&format!("{RUNS}{day}/"), &mut |run, row| {
            rows.insert(run.to_owned(), serde_json::from_slice::<RunRow>(&row)?.row);
            Ok(())
        })?;
        let newer = self.rows.range((day, String::new())..).take_while(|((of, _), _)| *of == day);
        rows.extend(newer.map(|((_, run), row)| (run.clone(), row.row.clone())));
        Ok(rows)
    }

    /// Takes the next event.
    pub fn take(&mut self, seq: Seq, at: Timestamp, event: &Event) -> Result<(), SummariesError> {
        // A digest build has a run record of its own, which is written with its bags.
        if let Event::Digest(DigestFact::Finished(finished)) = event {
            let row = RunRow { row: finished.row.clone(), files: Vec::new() };
            self.rows.insert((finished.day, finished.run_id.clone()), row);
            self.changed.insert(finished.day);
        }
        if let Some(run) = self.sessions.take(seq, at, event) {
            let skips = run.lists_skips.then(|| skip_report_path(&run.record.run_id));
            let files = [run.record.path()].into_iter().chain(skips).collect();
            let row = RunRow { row: run.record.to_row()?, files };
            self.rows.insert((run.day, run.record.run_id.clone()), row);
            self.changed.insert(run.day);
            self.ended.push(run);
        }
        Ok(())
    }

    /// Writes what ended since.
    pub fn publish(&mut self, log: &Reader) -> Result<(), SummariesError> {
        while let Some(run) = self.ended.last() {
            self.write(log, run)?;
            self.ended.pop();
        }
        let mut files = Vec::new();
        for day in &self.changed {
            let (data, manifest) = render_day(*day, &self.rows_of(*day)?)?;
            for (path, bytes) in paths_of(*day).into_iter().zip([data, manifest]) {
                let live = self.publisher.live().join(&path);
                if self.disk.read_if_present(&live)?.as_ref() != Some(&bytes) {
                    files.push((path, bytes));
                }
            }
        }
        if !files.is_empty() {
            let mut publication = self.publisher.begin()?;
            for (path, bytes) in &files {
                publication.put(path, bytes)?;
            }
            publication.commit(|_| Ok::<(), std::convert::Infallible>(()))?;
        }
        self.changed.clear();
        Ok(())
    }

    fn write(&self, log: &Reader, run: &FinishedRun) -> Result<(), SummariesError> {
        let skips = self.buses.join(skip_report_path(&run.record.run_id));
        if run.lists_skips && self.disk.stat(&skips)?.is_none() {
            self.write_skips(log, run, &skips)?;
        }
        let path = self.buses.join(run.record.path());
        let bytes = run.record.to_bytes()?;
        if self.disk.read_if_present(&path)?.as_ref() != Some(&bytes) {
            self.make_parent(&path)?;
            self.disk.replace(&path, &bytes, MODE)?;
        }
        Ok(())
    }

    fn make_parent(&self, path: &Path) -> Result<(), SummariesError> {
        let parent = path.parent().unwrap_or(&self.buses);
        if self.disk.stat(parent)?.is_none() {
            self.disk.create_dir_all(parent)?;
        }
        Ok(())
    }

    fn write_skips(
        &self,
        log: &Reader,
        run: &FinishedRun,
        path: &Path,
    ) -> Result<(), SummariesError> {
        self.make_parent(path)?;
        let temporary = path.with_extension("jsonl.tmp");
        self.disk.remove_file(&temporary)?;
        let mut report = Report {
            file: self.disk.open(&temporary, Open::CreateNew(MODE))?,
            buffer: Vec::new(),
            written: 0,
        };
        let mut failure = None;
        log.scan(run.events.0, Some(run.events.1), &mut |entry| {
            let line = codec::decode(entry.tag, entry.version, entry.payload)
                .map_err(|source| ReadError::Event { seq: entry.seq, source }.into())
                .and_then(|event| Ok(skip_line(entry.seq, entry.at, &event)?))
                .and_then(|line| line.map_or(Ok(()), |line| report.push(&line)));
            match line {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        report.flush()?;
        report.file.sync()?;
        self.disk.rename(&temporary, path)?;
        Ok(self.disk.sync_dir(path.parent().unwrap_or(&self.buses))?)
    }
}

/// The files of a day's rows, relative to their tree.
fn paths_of(day: Day) -> [String; 2] {
    [format!("daily/{day}.jsonl"), format!("daily/{day}.manifest.json")]
}

struct Report {
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    written: u64,
}

impl Report {
    fn push(&mut self, line: &str) -> Result<(), SummariesError> {
        self.buffer.extend_from_slice(line.as_bytes());
        self.buffer.push(b'\n');
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), SummariesError> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
