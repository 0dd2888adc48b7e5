//! `tune`: which compaction thresholds to use, by measurement.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Context;
use super::failure::{Exit, Failure};
use super::settings::load_config;
use super::ui::{bold, dim};
use crate::compaction::event::RunEvent;
use crate::compaction::fold::RunFold;
use crate::compaction::reader::RunLogReader;
use crate::compaction::trigger::Thresholds;
use crate::compaction::tuning::choose::choose;
use crate::compaction::tuning::cost::CostWeights;
use crate::compaction::tuning::log_sweep::{self, CHECKPOINT_INTERVALS, COMMIT_BATCHES, LogRow};
use crate::compaction::tuning::report::{LOG_COLUMNS, NOT_MEASURABLE, TuningReport};
use crate::compaction::tuning::search::{extend, search};
use crate::compaction::tuning::sweep::{Generated, RecordedRuns, RunSource, grid};
use crate::contract::hash::Hasher;
use crate::sequencer::log_meter::LogMeter;

const FILE_MODE: u32 = 0o640;

/// Replay run logs under many thresholds and recommend one setting
///
/// The command searches for the cheapest setting. These settings are the weights of the cost:
/// `compaction.cost_of_bytes`, `cost_of_reread`, `cost_of_memory` and `cost_of_age`.
///
/// Without run logs, the command generates runs from a seed: short healthy runs, long runs, runs that stall
/// and runs that crash. A replay measures the cost of snapshots, and how many events must be read again; it
/// cannot measure how an agent would have behaved. The log's own thresholds are measured with the real log in
/// a temporary folder beside --out, or beside the home.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// Recorded run logs [default: generated ones]
    run_logs: Vec<PathBuf>,
    /// Write the table, the plots, the page and the settings into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Generated runs
    #[arg(long, value_name = "N", default_value_t = 200, conflicts_with = "run_logs",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Mean events of a generated run
    #[arg(long, value_name = "N", default_value_t = 500, conflicts_with = "run_logs",
          value_parser = clap::value_parser!(u32).range(20..=100_000))]
    events: u32,
    /// Seed of generated runs
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "run_logs")]
    seed: u64,
    /// Event thresholds to show too, separated by commas; they do not change the recommendation
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(1..))]
    event_thresholds: Vec<u64>,
    /// Step fallbacks to show too, separated by commas; they do not change the recommendation
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(1..))]
    step_fallbacks: Vec<u64>,
    /// The number of events with which each setting of the log is measured; 0 does not measure the log
    #[arg(long, value_name = "N", default_value_t = 40_000,
          value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    log_events: u64,
    /// Events between checkpoints to try, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values_t = CHECKPOINT_INTERVALS, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_intervals: Vec<u64>,
    /// Events in one commit to try, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = COMMIT_BATCHES,
          value_parser = clap::value_parser!(u64).range(1..))]
    commit_batches: Vec<u64>,
}

impl TuneArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let (runs, what) = self.runs_to_replay(context)?;
        let config = load_config(context)?;
        let weights = CostWeights {
            bytes: config.cost_of_bytes,
            reread: config.cost_of_reread,
            memory: config.cost_of_memory,
            age: config.cost_of_age,
        };
        // The search goes over the runs at least once, and over some settings again.
        let bar = context.ui.progress("runs replayed", runs.count() as u64);
        let mut swept = search(&*runs, &weights, &|| bar.inc(1));
        let considered = swept.rows.len();
        extend(&mut swept, &*runs, &self.asked_for(), &|| bar.inc(1));
        bar.finish_and_clear();
        let choice = choose(&swept.rows, considered, &weights)
            .ok_or_else(|| Failure::new(Exit::Usage, "there is no setting to try"))?;
        let log_rows = self.measure_log(context)?;
        let report = TuningReport {
            runs: what,
            sweep: &swept,
            choice: &choice,
            weights: &weights,
            log_rows: &log_rows,
        };
        self.tell(context, &report);
        if let Some(out) = &self.out {
            write_files(context, out, &report)?;
        }
        Ok(Exit::Done)
    }

    /// The settings that a person wants to see beside those of the search.
    fn asked_for(&self) -> Vec<Thresholds> {
        let usual = Thresholds::default();
        let or = |list: &[u64], usual: u64| match list {
            [] => vec![usual],
            list => list.to_vec(),
        };
        match (self.event_thresholds.as_slice(), self.step_fallbacks.as_slice()) {
            ([], []) => Vec::new(),
            (events, steps) => {
                grid(&or(events, usual.event_threshold), &or(steps, usual.step_fallback))
            }
        }
    }

    /// The real log under every setting, on the disk where the results or the home are.
    fn measure_log(&self, context: &Context) -> Result<Vec<LogRow>, Failure> {
        if self.log_events == 0 {
            return Ok(Vec::new());
        }
        let settings = log_sweep::grid(&self.checkpoint_intervals, &self.commit_batches);
        let beside = self.out.as_ref().unwrap_or(&context.home);
        let dir = beside.join(format!(".tune-{}", std::process::id()));
        let mut meter = LogMeter::new(&context.machine, &dir, self.log_events);
        let bar = context.ui.progress("settings of the log measured", settings.len() as u64);
        let rows = log_sweep::sweep(&mut meter, &settings, &mut || bar.inc(1));
        bar.finish_and_clear();
        rows.map_err(|error| {
            // Partial measurements are not kept.
            let _ = context.machine.disk.remove_dir_all(&dir);
            Failure::new(Exit::Storage, format!("cannot measure the log in {}", dir.display()))
                .because(&error)
                .hint("--log-events 0 does not measure the log")
        })
    }

    fn runs_to_replay(&self, context: &Context) -> Result<(Box<dyn RunSource>, String), Failure> {
        if self.run_logs.is_empty() {
            let (runs, events, seed) = (self.runs as usize, self.events as usize, self.seed);
            let what = format!(
                "{} of about {}, seed {seed}",
                super::ui::count(runs, "generated run"),
                super::ui::count(events, "event")
            );
            return Ok((Box::new(Generated { seed, runs, events }), what));
        }
        let logs = self.run_logs.iter().map(|path| read(context, path));
        let mut logs = logs.collect::<Result<Vec<Vec<RunEvent>>, _>>()?;
        // The answer depends on the runs and not on the order in which they are named.
        logs.sort_by_cached_key(|events| {
            let mut hasher = Hasher::new();
            for event in events {
                hasher.update(event.to_line());
            }
            hasher.finish()
        });
        let recorded = RecordedRuns(logs);
        let what = format!("{} recorded run logs", recorded.0.len());
        Ok((Box::new(recorded), what))
    }

    fn tell(&self, context: &Context, report: &TuningReport<'_>) {
        let ui = &context.ui;
        if ui.json {
            ui.json(&report.json());
            return;
        }
        let (columns, rows) = report.short_table();
        let header: Vec<String> = columns.iter().map(|column| column.replace('_', " ")).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        ui.table(&header, &rows);
        let left = report.sweep.rows.len() - rows.len();
        if left > 0 {
            let left = super::ui::count(left, "setting");
            ui.talk(dim(&format!(
                "{left} more were tried: --out DIR and --json have all with all columns"
            )));
        }
        ui.out(format!("\n{}", bold("What the chosen setting costs")));
        for (name, value) in report.cost_lines() {
            ui.out(format!("  {name}: {value}"));
        }
        ui.out(format!("\n{}", bold("Facts of these logs that do not depend on the threshold")));
        for (name, value) in report.metrics() {
            ui.out(format!("  {name}: {value}"));
        }
        ui.out(dim(NOT_MEASURABLE));
        if !report.log_rows.is_empty() {
            ui.out(format!("\n{}", bold("The log's own thresholds, measured here")));
            let header: Vec<String> =
                LOG_COLUMNS.iter().map(|column| column.replace('_', " ")).collect();
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            ui.table(&header, &report.log_table());
        }
        ui.out(format!("\n{}", report.toml().trim_end()));
    }
}

/// Reads a recorded log whole; a replay folds it many times.
fn read(context: &Context, path: &Path) -> Result<Vec<RunEvent>, Failure> {
    let failure = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(Exit::Input, format!("cannot replay {}", path.display())).because(error)
    };
    let mut reader =
        RunLogReader::open(&*context.machine.disk, path).map_err(|error| failure(&error))?;
    let mut fold = RunFold::default();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().map_err(|error| failure(&error))? {
        fold.fold(&event).map_err(|error| failure(&error))?;
        events.push(event);
    }
    Ok(events)
}

fn write_files(context: &Context, out: &Path, report: &TuningReport<'_>) -> Result<(), Failure> {
    let disk = &*context.machine.disk;
    let failure = |error: std::io::Error| {
        Failure::of_target(format!("cannot write to {}", out.display()), &error)
    };
    disk.create_dir_all(out).map_err(failure)?;
    let mut files = vec![
        ("tune.csv", report.csv()),
        ("tune.html", report.html()),
        ("tune.toml", report.toml()),
    ];
    if !report.log_rows.is_empty() {
        files.push(("tune_log.csv", report.log_csv()));
    }
    files.extend(report.plots());
    files.extend(report.log_plots());
    for (name, text) in &files {
        disk.replace(&out.join(name), text.as_bytes(), FILE_MODE).map_err(failure)?;
    }
    context.ui.talk(format!(
        "wrote {} to {}",
        super::ui::count(files.len(), "file"),
        out.display()
    ));
    Ok(())
}
