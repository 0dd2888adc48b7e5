//! Run records on disk: a file for each run that ended, a row in the day of its start.
//!
//! Contract: a record is written once, before its row. At the start records and rows that are
//! missing are written again; what is there and is the same is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SummariesError;
use super::book::facts_of;
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::digest::catalog as digests;
use crate::export::outcome_facts::OutcomeFacts;
use crate::export::publish::{Fallback, Publisher};
use crate::export::run_book::{FinishedRun, RunBook, skip_line, skip_report_path};
use crate::export::run_record::render_day;
use crate::log::{Reader, codec};
use crate::os::{Disk, DiskFile, Open};
use crate::state::event::Event;

/// The tree of the run-records bus, relative to the bus home.
const RUNS_DIR: &str = "run_records";
/// Mode of the files.
const MODE: u32 = 0o640;
/// Bytes of a skip report written at once.
const WRITE_BYTES: usize = 1 << 20;

/// The records of all runs.
pub(super) struct Runs {
    disk: Arc<dyn Disk>,
    buses: PathBuf,
    publisher: Publisher,
    book: RunBook,
    ended: Vec<FinishedRun>,
    rows: BTreeMap<Day, BTreeMap<String, String>>,
    changed: BTreeSet<Day>,
}

impl Runs {
    pub fn open(disk: &Arc<dyn Disk>, buses: &Path) -> Result<Runs, SummariesError> {
        let publisher =
            Publisher::open(Arc::clone(disk), buses, RUNS_DIR, Fallback::DataThenManifest)?;
        Ok(Runs {
            disk: Arc::clone(disk),
            buses: buses.to_owned(),
            publisher,
            book: RunBook::default(),
            ended: Vec::new(),
            rows: BTreeMap::new(),
            changed: BTreeSet::new(),
        })
    }

    /// Takes the next event.
    pub fn take(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &Event,
        facts: &OutcomeFacts,
    ) -> Result<(), SummariesError> {
        // A digest build is a run of its own; its record is written with its bags.
        if let Event::Noted { kind, facts } = event
            && kind == digests::FINISHED
        {
            let finished: digests::Finished = serde_json::from_str(facts)?;
            if let Ok(day) = finished.day.parse() {
                self.rows.entry(day).or_default().insert(finished.run_id, finished.row);
                self.changed.insert(day);
            }
        }
        if let Some(run) = self.book.take(seq, at, event, facts) {
            let row = run.record.to_row()?;
            self.rows.entry(run.day).or_default().insert(run.record.run_id.clone(), row);
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
            let (data, manifest) = render_day(*day, &self.rows[day])?;
            let paths = [format!("daily/{day}.jsonl"), format!("daily/{day}.manifest.json")];
            for (path, bytes) in paths.into_iter().zip([data, manifest]) {
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
                .map_err(|source| SummariesError::Event { seq: entry.seq, source })
                .and_then(|event| {
                    let facts = facts_of(&event);
                    Ok(skip_line(entry.seq, entry.at, &event, &facts)?)
                })
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
