//! Run records on disk: a file for each session that ended, and a row in the day of its start.
//!
//! Contract: a record is written once, before its row. A start writes missing records and rows again
//! and does not touch those that are equal. Rows of earlier days are in the cache.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::SummariesError;
use super::fold::fold;
use super::publication::read_back;
use super::spill_cache::{Change, Position, SpillCache};
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::export::difference::Comparison;
use crate::export::fingerprint::Fingerprint;
use crate::export::publish::{Fallback, Publisher};
use crate::export::run_record::{record_path, render_day};
use crate::export::session_fold::{FinishedSession, SessionFold, skip_line, skip_report_path};
use crate::facts::digest::DigestFact;
use crate::facts::recovery::RunRecordKept;
use crate::log::Reader;
use crate::os::{Disk, DiskFile, Open};
use crate::state::event::Event;

/// The tree of the run-records bus, relative to the bus home.
pub(super) const RUNS_DIR: &str = "run_records";
/// Mode of the files.
const MODE: u32 = 0o640;
/// Bytes in one write of a skip report.
const WRITE_BYTES: usize = 1 << 20;

/// The records of all runs.
pub(super) struct RunRecords {
    disk: Arc<dyn Disk>,
    buses: PathBuf,
    /// None where records are only compared.
    publisher: Option<Publisher>,
    sessions: SessionFold,
    ended: Vec<FinishedSession>,
    cache: SpillCache,
    /// Rows that are not on the cache, by day and run.
    rows: BTreeMap<(Day, String), RunRow>,
    /// Days whose rows changed, and the last event that changed them.
    changed: BTreeMap<Day, Seq>,
    /// Records that a recovery kept: no event can write them again, and the row of each has its hash.
    kept: Vec<RunRecordKept>,
}

/// The row of a session, and the files that belong to it.
#[derive(Clone, Serialize, Deserialize)]
struct RunRow {
    row: String,
    files: Vec<String>,
}

const ONLY_IN_BACKUPS: &str =
    "the log cannot write it again, so put the file of a backup in its place";

/// Rows of sessions in the cache.
const RUNS: &str = "run/";
/// Records that ended above which they are written before more is read.
const ENDED_MAX: usize = 256;

impl RunRecords {
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        buses: &Path,
        cache: SpillCache,
    ) -> Result<RunRecords, SummariesError> {
        let publisher =
            Publisher::open(Arc::clone(disk), buses, RUNS_DIR, Fallback::DataThenManifest)?;
        Ok(RunRecords { publisher: Some(publisher), cache, ..RunRecords::to_compare(disk, buses) })
    }

    /// Records that are folded from the whole log and only compared.
    pub(crate) fn to_compare(disk: &Arc<dyn Disk>, buses: &Path) -> RunRecords {
        RunRecords {
            disk: Arc::clone(disk),
            buses: buses.to_owned(),
            publisher: None,
            sessions: SessionFold::default(),
            ended: Vec::new(),
            cache: SpillCache::default(),
            rows: BTreeMap::new(),
            changed: BTreeMap::new(),
            kept: Vec::new(),
        }
    }

    fn live(&self) -> PathBuf {
        self.buses.join(RUNS_DIR)
    }

    /// Forgets everything the log can tell again.
    pub(crate) fn start_over(&mut self, cache: SpillCache) {
        (self.sessions, self.cache) = (SessionFold::default(), cache);
        self.ended.clear();
        self.rows.clear();
        self.changed.clear();
    }

    /// Takes up what the cache knows, and the session that was open there. False when a file is missing
    /// that only the log can write again.
    pub(crate) fn recall(&mut self, log: &Reader, at: &Position) -> Result<bool, SummariesError> {
        let mut there = true;
        let (disk, buses, live) = (&self.disk, &self.buses, self.live());
        let (mut looked_at, changed) = (None, &mut self.changed);
        self.cache.each(RUNS, &mut |name, row| {
            let row: RunRow = SpillCache::said(&row)?;
            for file in row.files {
                there = there && disk.stat(&buses.join(file))?.is_some();
            }
            let day = name.split('/').next().and_then(|day| day.parse::<Day>().ok());
            let Some(day) = day.filter(|day| looked_at.replace(*day) != Some(*day)) else {
                return Ok(());
            };
            for path in paths_of(day) {
                if disk.stat(&live.join(path))?.is_none() {
                    changed.insert(day, at.seq());
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
    pub(super) fn is_full(&self) -> bool {
        self.cache.keeps() && self.ended.len() >= ENDED_MAX
    }

    /// Writes the rows that the cache needs for all events taken so far.
    pub(super) fn leave(
        &self,
        at: &mut Position,
        rows: &mut Vec<Change>,
    ) -> Result<(), SummariesError> {
        at.run_from = self.sessions.open_since().map(|seq| seq.0);
        for ((day, run), row) in &self.rows {
            rows.push((format!("{RUNS}{day}/{run}"), Some(serde_json::to_vec(row)?)));
        }
        Ok(())
    }

    /// What was left is on the cache.
    pub(super) fn left(&mut self) {
        self.rows.clear();
    }

    /// All rows of one day, by run.
    fn rows_of(&self, day: Day) -> Result<BTreeMap<String, String>, SummariesError> {
        let mut rows = BTreeMap::new();
        self.cache.each(&format!("{RUNS}{day}/"), &mut |run, row| {
            rows.insert(run.to_owned(), SpillCache::said::<RunRow>(&row)?.row);
            Ok(())
        })?;
        let newer = self.rows.range((day, String::new())..).take_while(|((of, _), _)| *of == day);
        rows.extend(newer.map(|((_, run), row)| (run.clone(), row.row.clone())));
        Ok(rows)
    }

    /// Takes the next event.
    pub(super) fn take(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &Event,
    ) -> Result<(), SummariesError> {
        // A digest build has a run record of its own, which is written with its bags.
        if let Event::Digest(DigestFact::Finished(finished)) = event {
            let row = RunRow { row: finished.row.clone(), files: Vec::new() };
            self.rows.insert((finished.day, finished.run_id.clone()), row);
            self.changed.insert(finished.day, seq);
        }
        // Only the files had this row. Its record cannot be written again.
        if let Event::RunRecordKept(kept) = event {
            let row = RunRow { row: kept.row.clone(), files: Vec::new() };
            self.rows.insert((kept.day, kept.run_id.clone()), row);
            self.changed.insert(kept.day, seq);
            if self.publisher.is_none() {
                self.kept.push((**kept).clone());
            }
        }
        if let Some(run) = self.sessions.take(seq, at, event) {
            let skips = run.lists_skips.then(|| skip_report_path(&run.record.run_id));
            let files = [run.record.path()].into_iter().chain(skips).collect();
            let row = RunRow { row: run.record.to_row(&run.record)?, files };
            self.rows.insert((run.day, run.record.run_id.clone()), row);
            self.changed.insert(run.day, seq);
            self.ended.push(run);
        }
        Ok(())
    }

    /// Writes what ended since.
    pub(super) fn publish(&mut self, log: &Reader) -> Result<(), SummariesError> {
        while let Some(run) = self.ended.last() {
            self.write(log, run)?;
            self.ended.pop();
        }
        let files = self.different_rows()?;
        if let Some(publisher) = self.publisher.as_mut().filter(|_| !files.is_empty()) {
            let mut publication = publisher.begin()?;
            for (path, bytes) in &files {
                publication.put(path, bytes)?;
            }
            publication.commit(|_| Ok::<(), std::convert::Infallible>(()))?;
        }
        self.changed.clear();
        Ok(())
    }

    /// The rows of changed days whose files are not what they should be.
    fn different_rows(&self) -> Result<Vec<(String, Vec<u8>)>, SummariesError> {
        let mut files = Vec::new();
        for day in self.changed.keys() {
            let (data, manifest) = render_day(*day, &self.rows_of(*day)?)?;
            for (path, bytes) in paths_of(*day).into_iter().zip([data, manifest]) {
                if self.disk.read_if_present(&self.live().join(&path))?.as_ref() != Some(&bytes) {
                    files.push((path, bytes));
                }
            }
        }
        Ok(files)
    }

    /// What is not what the log says, after the whole log was folded. Rows and records of events
    /// after `shown_to` wait for the publisher: they may be missing.
    pub(super) fn compare(
        &mut self,
        log: &Reader,
        shown_to: Seq,
    ) -> Result<Comparison, SummariesError> {
        let mut found = Comparison::default();
        self.changed.retain(|_, seq| *seq <= shown_to);
        for (path, _) in self.different_rows()? {
            found.differs(format!("{RUNS_DIR}/{path}"), "differs from the log");
        }
        for run in &self.ended {
            let path = run.record.path();
            let there = self.disk.read_if_present(&self.buses.join(&path))?;
            if there.is_none() && run.events.1 > shown_to {
                continue;
            }
            found.file(path, Some(&run.record.to_bytes()?), there.as_deref());
            if !run.lists_skips {
                continue;
            }
            let path = skip_report_path(&run.record.run_id);
            let mut meant = Fingerprint::default();
            each_skip(log, run, &mut |line| {
                meant.update(line.as_bytes());
                meant.update(b"\n");
                Ok(())
            })?;
            match read_back(self.disk.as_ref(), &self.buses.join(&path)) {
                Ok(there) if there.finish() == meant.finish() => {}
                Ok(_) => found.differs(path, "differs from the log"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    found.differs(path, "is missing");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// The records that a recovery kept and that are not what they were. Nothing can write them again.
    pub(super) fn compare_kept(&self) -> Result<Comparison, SummariesError> {
        let mut found = Comparison::default();
        for kept in &self.kept {
            let path = record_path(&kept.run_id);
            match self.disk.read_if_present(&self.buses.join(&path))? {
                None => found.differs(path, format!("is missing: {ONLY_IN_BACKUPS}")),
                Some(there) if !is_of_row(&there, &kept.row) => {
                    found.differs(path, format!("is not what its row says: {ONLY_IN_BACKUPS}"));
                }
                Some(_) => {}
            }
        }
        Ok(found)
    }

    fn write(&self, log: &Reader, run: &FinishedSession) -> Result<(), SummariesError> {
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
        run: &FinishedSession,
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
        each_skip(log, run, &mut |line| report.push(line))?;
        report.flush()?;
        report.file.sync()?;
        self.disk.rename(&temporary, path)?;
        Ok(self.disk.sync_dir(path.parent().unwrap_or(&self.buses))?)
    }
}

/// Whether a record has the hash that its row names. Rows of early versions name none.
fn is_of_row(record: &[u8], row: &str) -> bool {
    let row: Value = serde_json::from_str(row).unwrap_or_default();
    row["record_sha256"].as_str().is_none_or(|hash| hash == sha256(record).hex())
}

/// Hands over the lines of a skip report.
fn each_skip(
    log: &Reader,
    run: &FinishedSession,
    take: &mut dyn FnMut(&str) -> Result<(), SummariesError>,
) -> Result<(), SummariesError> {
    fold(log, Seq(run.events.0.0 - 1), Some(run.events.1), &mut |seq, stamp, event| {
        if let Some(line) = skip_line(seq, stamp.at, &event)? {
            take(&line)?;
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// The files for the rows of one day, relative to their tree.
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
