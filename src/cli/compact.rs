//! `compact`: snapshots and narratives for a run log.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::Context;
use super::failure::{Exit, Failure};
use super::ui::{green, red, yellow};
use crate::compaction::build::Form;
use crate::compaction::files::{SnapshotStore, StoreError};
use crate::compaction::reader::LogError;
use crate::compaction::run_log::{self, Difference, Job, Report, RunLogError};
use crate::compaction::snapshot::CheckStatus;
use crate::compaction::trigger::{EVENT_THRESHOLD, STEP_FALLBACK, Thresholds};

/// Fold a run log into snapshots that are checked, and narratives rendered from them
///
/// A snapshot is taken between steps when enough terminal events (PLAN_DONE, ACT_DONE,
/// OBSERVE_DONE) or enough steps have passed since the one before. Each is checked; one that fails
/// is built again after everything was read again, and a second failure stops here with exit code
/// 1, leaving the snapshots before it as they are.
#[derive(Debug, Args)]
pub struct CompactArgs {
    /// The run log: one run_event.v1 a line
    run_log: PathBuf,
    /// Where snapshots go, under the run's id [default: HOME/run/snapshots]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Terminal events after which a snapshot is due
    #[arg(long, value_name = "N", default_value_t = EVENT_THRESHOLD,
          value_parser = clap::value_parser!(u64).range(1..))]
    event_threshold: u64,
    /// Steps after which a snapshot is due
    #[arg(long, value_name = "N", default_value_t = STEP_FALLBACK,
          value_parser = clap::value_parser!(u64).range(1..))]
    step_fallback: u64,
    /// Also take one at the end of the log, due or not
    #[arg(long, conflicts_with = "verify")]
    now: bool,
    /// Go on after the last snapshot that is there
    #[arg(long, conflicts_with = "verify")]
    resume: bool,
    /// Rebuild every stored snapshot from the log and compare bytes; write nothing
    #[arg(long)]
    verify: bool,
    /// Write only the fields of version 1, without `ext`
    #[arg(long, conflicts_with = "verify")]
    strict_v1: bool,
}

impl CompactArgs {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let disk = &context.machine.disk;
        let out = self.out.clone().unwrap_or_else(|| context.home.join("run/snapshots"));
        let job = Job {
            disk: &**disk,
            log: self.run_log.clone(),
            store: SnapshotStore::new(Arc::clone(disk), out),
            thresholds: Thresholds {
                event_threshold: self.event_threshold,
                step_fallback: self.step_fallback,
            },
            form: if self.strict_v1 { Form::StrictV1 } else { Form::Full },
            now: self.now,
            resume: self.resume,
        };
        let bar = context.ui.progress("bytes", run_log::log_bytes(&**disk, &self.run_log));
        let mut progress = |bytes: u64| bar.set_position(bytes);
        if self.verify {
            let result = run_log::verify(&job, &mut progress);
            bar.finish_and_clear();
            let (run_id, checked, differences) = result.map_err(|error| self.failure(&error))?;
            return Ok(self.tell_verdict(context, &run_id, checked, &differences));
        }
        let result = run_log::compact(&job, &mut progress);
        bar.finish_and_clear();
        let report = result.map_err(|error| self.failure(&error))?;
        Ok(self.tell(context, &job, &report))
    }

    fn tell(&self, context: &Context, job: &Job<'_>, report: &Report) -> Exit {
        let ui = &context.ui;
        if ui.json {
            ui.json(&report_json(job, report));
        } else {
            for taken in &report.taken {
                let path = job.store.snapshot_path(&report.run_id, taken.sequence);
                let path = path.display();
                let note = match (taken.written, taken.retried) {
                    (false, _) => "  unchanged",
                    (true, true) => "  after a retry",
                    (true, false) => "",
                };
                ui.out(format!("{path}  {}  to seq {}{note}", taken.snapshot_id, taken.to_seq));
            }
            if report.taken.is_empty() && report.failed.is_none() {
                ui.talk(format!("no snapshot was due in {} events", report.events));
            }
        }
        for warning in &report.warnings {
            ui.talk(format!("{} {warning}", yellow("warning:")));
        }
        let Some(failed) = &report.failed else { return Exit::Done };
        let sequence = failed.snapshot.sequence;
        ui.complain(format!(
            "{} snapshot {sequence} of run {} failed its checks twice: SYSTEM_ERROR",
            red("error:"),
            report.run_id
        ));
        for check in &failed.snapshot.validation.checks {
            if check.status == CheckStatus::Fail {
                ui.complain(format!("  {}: {}", check.name, check.message));
            }
        }
        match sequence {
            1 => ui.complain("  no snapshot is in force"),
            _ => ui.complain(format!("  snapshot {} stays in force", sequence - 1)),
        }
        Exit::Wrong
    }

    fn tell_verdict(
        &self,
        context: &Context,
        run_id: &str,
        checked: u64,
        differences: &[Difference],
    ) -> Exit {
        let ui = &context.ui;
        if ui.json {
            ui.json(&json!({
                "schema_version": "compaction_verdict.v1", "run_id": run_id, "checked": checked,
                "differences": differences,
            }));
        } else {
            for difference in differences {
                ui.out(format!("{}  {}: {}", red("differs"), difference.file, difference.problem));
            }
            if differences.is_empty() {
                ui.out(format!("{}  {checked} snapshots of run {run_id}", green("verified")));
            }
        }
        if differences.is_empty() { Exit::Done } else { Exit::Wrong }
    }

    fn failure(&self, error: &RunLogError) -> Failure {
        let log = self.run_log.display();
        let what = |exit| Failure::new(exit, format!("cannot compact {log}"));
        match error {
            RunLogError::Log(LogError::Io(io)) if io.kind() == std::io::ErrorKind::NotFound => {
                what(Exit::Input).because(error).hint("name an existing run_event.v1 file")
            }
            RunLogError::Log(LogError::Io(_)) => what(Exit::Storage).because(error),
            RunLogError::Log(_) | RunLogError::Input { .. } | RunLogError::Empty => {
                what(Exit::Input)
                    .because(error)
                    .hint("`summarizer schema run_event.v1` shows what a line must be")
            }
            RunLogError::Foreign { .. } => what(Exit::Input)
                .because(error)
                .hint("compact it from the start into another --out, or restore the log"),
            RunLogError::Store(StoreError::Taken { .. }) => what(Exit::Input)
                .because(error)
                .hint("go on after it with --resume, or use another --out"),
            RunLogError::Store(_) => what(Exit::Storage).because(error),
        }
    }
}

fn report_json(job: &Job<'_>, report: &Report) -> serde_json::Value {
    let failed = report.failed.as_ref().map(|failed| {
        let events: Vec<serde_json::Value> = failed
            .events
            .iter()
            .filter_map(|event| serde_json::from_str(&event.to_line()).ok())
            .collect();
        json!({"snapshot": failed.snapshot, "events": events})
    });
    json!({
        "schema_version": "compaction_report.v1",
        "run_id": report.run_id,
        "dir": job.store.run_dir(&report.run_id),
        "events": report.events,
        "resumed_after": report.resumed_after,
        "snapshots": report.taken,
        "warnings": report.warnings,
        "failed": failed,
    })
}
