//! `compact`: snapshots and narratives for a run log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::Context;
use super::failure::{Exit, Failure};
use super::home_access::{HomeAccess, open_or_make};
use super::settings::load_config;
use super::ui::{green, red, yellow};
use crate::compaction::agent_runs::AppendReport;
use crate::compaction::build::SnapshotForm;
use crate::compaction::event::{EventError, RunEvent};
use crate::compaction::files::{SnapshotStore, StoreError};
use crate::compaction::reader::RunLogReadError;
use crate::compaction::run_log::{self, CompactionJob, RunLogError, TakenSnapshot};
use crate::compaction::trigger::Thresholds;
use crate::control::question::Question;
use crate::export::difference::Difference;
use crate::home::Home;
use crate::os::{DiskFile, Open};
use crate::projections::runs::{self, RunQuestion};

/// Compact a run log into checked snapshots, and narratives made from them
///
/// A snapshot is taken between steps when enough terminal events (PLAN_DONE, ACT_DONE,
/// OBSERVE_DONE) or enough steps have passed since the last snapshot. Each snapshot is checked. If a
/// check fails, the log is read again and the snapshot is built again; a second failure ends the
/// command with exit code 1 and keeps the earlier snapshots.
///
/// The run becomes part of the home's log, which stores a repeated event only once, and its snapshots
/// are written to HOME/run/snapshots. With --out the command uses no home and writes files only.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The run log: one run_event.v1 on each line
    #[arg(required_unless_present = "run")]
    run_log: Option<PathBuf>,
    /// The id of a run that is already in the home's log
    #[arg(long, value_name = "RUN_ID", conflicts_with_all = ["run_log", "out"])]
    run: Option<String>,
    /// Write the snapshots to this directory, under the run's id, and do not use the home
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Terminal events after which a snapshot is due [default: as configured, else 18]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    event_threshold: Option<u64>,
    /// Steps after which a snapshot is due [default: as configured, else 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    step_fallback: Option<u64>,
    /// Also take a snapshot at the end of the log, even when no snapshot is due
    #[arg(long, conflicts_with = "verify")]
    now: bool,
    /// With --out: continue after the last stored snapshot; a home always continues
    #[arg(long, conflicts_with = "verify")]
    resume: bool,
    /// Rebuild every stored snapshot from the log and compare bytes; write nothing
    #[arg(long)]
    verify: bool,
    /// Write only the fields of version 1, without `ext`
    #[arg(long, conflicts_with = "verify", requires = "out")]
    strict_v1: bool,
}

const STAYS_STOPPED: &str = "a failed check stopped this run, so it accepts no further events; \
    repair the run log and continue under another run_id";

impl CompactArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match (&self.out, &self.run_log) {
            (Some(out), Some(log)) => self.run_on_files(context, log, out),
            (_, Some(log)) => self.run_on_home(context, log),
            (_, None) => self.run_on_known(context),
        }
    }

    fn run_on_files(&self, context: &Context, log: &Path, out: &Path) -> Result<Exit, Failure> {
        let disk = &context.machine.disk;
        let job = CompactionJob {
            disk: &**disk,
            log: log.to_owned(),
            store: SnapshotStore::new(Arc::clone(disk), out.to_owned()),
            thresholds: self.thresholds(Thresholds::default()),
            form: if self.strict_v1 { SnapshotForm::StrictV1 } else { SnapshotForm::Full },
            now: self.now,
            resume: self.resume,
        };
        let bar = context.ui.progress("bytes", run_log::log_bytes(&**disk, log));
        let mut progress = |bytes: u64| bar.set_position(bytes);
        if self.verify {
            let result = run_log::verify(&job, &mut progress);
            bar.finish_and_clear();
            let (run_id, checked, differences) = result.map_err(|error| failure(log, &error))?;
            return Ok(tell_verdict(context, &run_id, checked, &differences));
        }
        let result = run_log::compact(&job, &mut progress);
        bar.finish_and_clear();
        let report = result.map_err(|error| failure(log, &error))?;
        let failed = report.failed.as_ref().map(|failed| {
            let events: Vec<Value> = failed
                .events
                .iter()
                .filter_map(|event| serde_json::from_str(&event.to_line()).ok())
                .collect();
            json!({"snapshot": failed.snapshot, "events": events})
        });
        let told = CompactOutput {
            run_id: report.run_id,
            events: report.events,
            resumed_after: report.resumed_after,
            snapshots: report.taken,
            warnings: report.warnings,
            failed,
        };
        Ok(told.tell(context, &job.store))
    }

    fn thresholds(&self, otherwise: Thresholds) -> Thresholds {
        Thresholds {
            event_threshold: self.event_threshold.unwrap_or(otherwise.event_threshold),
            step_fallback: self.step_fallback.unwrap_or(otherwise.step_fallback),
        }
    }

    /// Appends the run to the home's log, a page of lines at a time.
    fn run_on_home(&self, context: &Context, log: &Path) -> Result<Exit, Failure> {
        let mut pages = Pages::open(context, log)?;
        let store = home_store(context)?;
        let otherwise = runs::thresholds(&load_config(context)?);
        let named = self.event_threshold.is_some() || self.step_fallback.is_some();
        let thresholds = named.then(|| self.thresholds(otherwise));
        if self.verify {
            let run_id = pages.run_id()?;
            return verify(context, &run_id);
        }
        let mut session = open_or_make(context)?;
        let bar = context.ui.progress("bytes", run_log::log_bytes(&*context.machine.disk, log));
        let mut told = CompactOutput::default();
        let mut wrong = None;
        while let Some((text, first_line)) = pages.next_page()? {
            let question = RunQuestion::Append { text, first_line, thresholds };
            let answer = session.ask(context, &Question::Run(question))?;
            bar.set_position(pages.offset);
            let done = told.add(&answer["done"])?;
            if done.failed.is_some() {
                break;
            }
            if let Some(error) = answer["error"].as_str() {
                let exit = match (&answer["stopped"], &answer["input"]) {
                    (Value::Bool(true), _) => Exit::Wrong,
                    (_, Value::Bool(true)) => Exit::Input,
                    _ => Exit::Storage,
                };
                wrong = Some((exit, error.to_owned()));
                break;
            }
        }
        bar.finish_and_clear();
        if told.run_id.is_empty() && wrong.is_none() {
            session.close()?;
            return Err(failure(log, &RunLogError::Empty));
        }
        if self.now && told.failed.is_none() && wrong.is_none() {
            let run_id = told.run_id.clone();
            let answer = session.ask(context, &Question::Run(RunQuestion::Snapshot { run_id }))?;
            told.add(&answer["done"])?;
        }
        session.close()?;
        if pages.unfinished {
            told.warnings.push("1 unfinished last line was left for later".to_owned());
        }
        let exit = told.tell(context, &store);
        match wrong {
            None => Ok(exit),
            Some((exit, error)) => {
                let what = format!("cannot compact {}: {error}", log.display());
                let failure = Failure::new(exit, what);
                Err(match exit {
                    Exit::Input => {
                        failure.hint("`summarizer schema run_event.v1` prints the schema of a line")
                    }
                    Exit::Wrong => failure.hint(STAYS_STOPPED),
                    _ => failure,
                })
            }
        }
    }

    /// A run that is in the log already: take a snapshot now, or verify.
    fn run_on_known(&self, context: &Context) -> Result<Exit, Failure> {
        let run_id = self.run.clone().unwrap_or_default();
        if self.verify {
            return verify(context, &run_id);
        }
        let store = home_store(context)?;
        let mut session = HomeAccess::open(context)?;
        let question = Question::Run(RunQuestion::Snapshot { run_id });
        let answer = session.ask(context, &question);
        session.close()?;
        let answer = answer?;
        if let Some(why) = answer["stopped"].as_str() {
            return Err(Failure::new(Exit::Wrong, why).hint(STAYS_STOPPED));
        }
        let mut told = CompactOutput::default();
        told.add(&answer["done"])?;
        Ok(told.tell(context, &store))
    }
}

fn home_store(context: &Context) -> Result<SnapshotStore, Failure> {
    let home = Home::new(&context.home, &load_config(context)?);
    Ok(SnapshotStore::new(Arc::clone(&context.machine.disk), home.snapshots()))
}

fn verify(context: &Context, run_id: &str) -> Result<Exit, Failure> {
    let mut session = HomeAccess::open(context)?;
    let question = Question::Run(RunQuestion::Verify { run_id: run_id.to_owned() });
    let answer = session.ask(context, &question);
    session.close()?;
    let answer = answer?;
    let differences = serde_json::from_value(answer["differences"].clone());
    let differences: Vec<Difference> = differences.map_err(|error| {
        Failure::new(Exit::Bug, "cannot read the answer of the service").because(&error)
    })?;
    Ok(tell_verdict(context, run_id, answer["checked"].as_u64().unwrap_or(0), &differences))
}

/// A run log in pages that fit into one question.
pub(super) struct Pages {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    offset: u64,
    line: u64,
    rest: Vec<u8>,
    unfinished: bool,
    at_end: bool,
}

/// Bytes of lines in one question; as JSON they are at most twice that.
const PAGE_BYTES: usize = 900 << 10;

impl Pages {
    pub(super) fn open(context: &Context, path: &Path) -> Result<Pages, Failure> {
        let file = context.machine.disk.open(path, Open::Read);
        let file = file.map_err(|error| failure(path, &RunLogReadError::Io(error).into()))?;
        let path = path.to_owned();
        let (offset, line, rest) = (0, 1, Vec::new());
        Ok(Pages { file, path, offset, line, rest, unfinished: false, at_end: false })
    }

    /// The next whole lines and the number of the first.
    pub(super) fn next_page(&mut self) -> Result<Option<(String, u64)>, Failure> {
        while !self.at_end && self.rest.len() < PAGE_BYTES {
            let kept = self.rest.len();
            self.rest.resize(PAGE_BYTES.max(kept), 0);
            let read = self.file.read_at(&mut self.rest[kept..], self.offset);
            let count =
                read.map_err(|error| failure(&self.path, &RunLogReadError::Io(error).into()))?;
            self.rest.truncate(kept + count);
            self.offset += count as u64;
            self.at_end = count == 0;
        }
        let mut end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if self.at_end && end < self.rest.len() {
            // A last line without a line end counts if it is a complete event.
            match RunEvent::parse(&self.rest[end..]) {
                Ok(_) => end = self.rest.len(),
                Err(_) => {
                    let blank = self.rest[end..].iter().all(u8::is_ascii_whitespace);
                    self.unfinished = !blank;
                }
            }
        }
        if end == 0 {
            if !self.at_end {
                let line = self.line;
                let source = EventError::TooLong;
                return Err(failure(&self.path, &RunLogReadError::Line { line, source }.into()));
            }
            return Ok(None);
        }
        let page: Vec<u8> = self.rest.drain(..end).collect();
        let first = self.line;
        self.line += page.iter().filter(|byte| **byte == b'\n').count() as u64;
        String::from_utf8(page).map(|text| Some((text, first))).map_err(|error| {
            let what = format!("cannot compact {}", self.path.display());
            Failure::new(Exit::Input, what).because(&error).hint("a run log is UTF-8")
        })
    }

    /// The run of the first event.
    fn run_id(&mut self) -> Result<String, Failure> {
        let page = self.next_page()?;
        let (text, first) = page.ok_or_else(|| failure(&self.path, &RunLogError::Empty))?;
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        match RunEvent::parse(line.as_bytes()) {
            Ok(event) => Ok(event.run_id.to_string()),
            Err(source) => {
                let error = RunLogReadError::Line { line: first, source };
                Err(failure(&self.path, &error.into()))
            }
        }
    }
}

/// The report of a compaction, in the home or to files.
#[derive(Default)]
struct CompactOutput {
    run_id: String,
    events: u64,
    resumed_after: u64,
    snapshots: Vec<TakenSnapshot>,
    warnings: Vec<String>,
    failed: Option<Value>,
}

impl CompactOutput {
    /// Adds what an answer says was done.
    fn add(&mut self, done: &Value) -> Result<AppendReport, Failure> {
        let done: AppendReport = serde_json::from_value(done.clone()).map_err(|error| {
            Failure::new(Exit::Bug, "cannot read the answer of the service").because(&error)
        })?;
        if self.run_id.is_empty() {
            self.run_id.clone_from(&done.run_id);
            self.resumed_after = done.before;
        }
        self.events += done.appended + done.repeated;
        self.snapshots.extend(done.snapshots.iter().cloned());
        if !done.warnings.is_empty() {
            self.warnings.clone_from(&done.warnings);
        }
        self.failed.clone_from(&done.failed);
        Ok(done)
    }

    fn tell(&self, context: &Context, store: &SnapshotStore) -> Exit {
        let ui = &context.ui;
        if ui.json {
            ui.json(&json!({
                "schema_version": "compaction_report.v1",
                "run_id": self.run_id,
                "dir": store.run_dir(&self.run_id),
                "events": self.events,
                "resumed_after": self.resumed_after,
                "snapshots": self.snapshots,
                "warnings": self.warnings,
                "failed": self.failed,
            }));
        } else {
            for taken in &self.snapshots {
                let path = store.snapshot_path(&self.run_id, taken.sequence);
                let path = path.display();
                let note = match (taken.written, taken.retried) {
                    (false, _) => "  unchanged",
                    (true, true) => "  after a retry",
                    (true, false) => "",
                };
                ui.out(format!("{path}  {}  to seq {}{note}", taken.snapshot_id, taken.to_seq));
            }
            if self.snapshots.is_empty() && self.failed.is_none() {
                ui.talk(format!(
                    "no snapshot was due in {}",
                    super::ui::count(self.events, "event")
                ));
            }
        }
        for warning in &self.warnings {
            ui.talk(format!("{} {warning}", yellow("warning:")));
        }
        let Some(failed) = &self.failed else { return Exit::Done };
        let sequence = failed["snapshot"]["sequence"].as_u64().unwrap_or(1);
        ui.complain(format!(
            "{} snapshot {sequence} of run {} failed its checks twice: SYSTEM_ERROR",
            red("error:"),
            self.run_id
        ));
        for check in failed["snapshot"]["validation"]["checks"].as_array().into_iter().flatten() {
            if check["status"] == "FAIL" {
                let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
                ui.complain(format!("  {}: {}", text("name"), text("message")));
            }
        }
        match sequence {
            1 => ui.complain("  there is no valid snapshot"),
            _ => ui.complain(format!("  snapshot {} stays valid", sequence - 1)),
        }
        Exit::Wrong
    }
}

fn tell_verdict(context: &Context, run_id: &str, checked: u64, differences: &[Difference]) -> Exit {
    let ui = &context.ui;
    if ui.json {
        ui.json(&json!({
            "schema_version": "compaction_verdict.v1", "run_id": run_id, "checked": checked,
            "differences": differences,
        }));
    } else {
        for difference in differences {
            ui.out(format!("{}  {difference}", red("differs")));
        }
        if differences.is_empty() {
            let checked = super::ui::count(checked, "snapshot");
            ui.out(format!("{}  {checked} of run {run_id}", green("verified")));
        }
    }
    if differences.is_empty() { Exit::Done } else { Exit::Wrong }
}

fn failure(log: &Path, error: &RunLogError) -> Failure {
    let log = log.display();
    let what = |exit| Failure::new(exit, format!("cannot compact {log}"));
    match error {
        RunLogError::Log(RunLogReadError::Io(io)) if io.kind() == std::io::ErrorKind::NotFound => {
            what(Exit::Input).because(error).hint("name an existing run_event.v1 file")
        }
        // A failing disk is none of the input, and `because` knows it.
        RunLogError::Log(RunLogReadError::Io(_)) => what(Exit::Input).because(error),
        RunLogError::Log(_) | RunLogError::Input { .. } | RunLogError::Empty => what(Exit::Input)
            .because(error)
            .hint("`summarizer schema run_event.v1` prints the schema of a line"),
        RunLogError::Foreign { .. } | RunLogError::Changed { .. } => what(Exit::Input)
            .because(error)
            .hint("compact it from the start into another --out, or restore the log"),
        RunLogError::Store(StoreError::Taken { .. }) => what(Exit::Input)
            .because(error)
            .hint("continue after it with --resume, or use another --out"),
        RunLogError::Store(_) => what(Exit::Storage).because(error),
    }
}
