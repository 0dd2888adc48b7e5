//! `verify`: is a bus home what the contracts say it is, and a home what its log says?

use std::path::PathBuf;

use clap::Args;

use super::causes::{exporter_failed, not_forgotten};
use super::doctor::said;
use super::failure::{Exit, Failure};
use super::held_home::{HeldHome, is_home, no_home};
use super::settings::load_config;
use super::{Context, ui};
use crate::home::Home;
use crate::log::{LogError, Reader};
use crate::projections::exporters;
use crate::upkeep::backups;
use crate::upkeep::forget::{self, ForgetError};
use crate::verify::{Gone, Options, Report, Violation, rules, verify_tree};

/// Forgotten summaries that are listed.
const LISTED: usize = 20;

/// The file beside the log that names what was forgotten.
const FORGOTTEN: &str = "run/forgotten.jsonl";
/// Where old parts of the log are.
const ARCHIVE: &str = "run/archive";

/// Check the buses of the home and compare its files with its log; or check any bus home from its
/// files alone
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Any bus home; the log is not read [default: the home]
    dir: Option<PathBuf>,
    /// Do not compute texts and references from upstream again
    #[arg(long)]
    no_sources: bool,
    /// Threads [default: the number of cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// List the rules of the check, and check nothing
    #[arg(long)]
    rules: bool,
}

impl VerifyArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if self.rules {
            show_rules(context);
            return Ok(Exit::Done);
        }
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => context.home.join(&load_config(context)?.bus_home),
        };
        let disk = &context.machine.disk;
        let there = disk.stat(&dir).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_dir));
        if !there && self.dir.is_none() && !is_home(context)? {
            return Err(no_home(context, "name a bus home"));
        }
        if !there {
            let what = format!("there is no bus home {}", dir.display());
            let hint = "name a bus home, or name its home with --home";
            return Err(Failure::new(Exit::Input, what).hint(hint));
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let options = Options { threads: self.threads.unwrap_or(cores), sources: !self.no_sources };
        let bar = context.ui.progress("verifying bytes", 0);
        let report = verify_tree(disk, &dir, options, &|bytes| {
            bar.set_length(bytes);
            bar.set_position(bytes);
        });
        bar.finish_and_clear();
        let mut report = report.map_err(|error| {
            let what = format!("cannot verify {}", dir.display());
            Failure::new(Exit::Storage, what).because(&error)
        })?;
        let compared = match self.dir {
            None => compare_with_log(context, &mut report),
            Some(_) => Ok(()),
        };
        show(context, &report);
        compared?;
        Ok(if report.violations_total == 0 { Exit::Done } else { Exit::Wrong })
    }
}

/// Compares every file that follows from the log of the home, and the archive of the log. A home without a log is only what its
/// files are, and a process that holds the home writes them meanwhile.
fn compare_with_log(context: &Context, report: &mut Report) -> Result<(), Failure> {
    let log = Home::new(&context.home, &load_config(context)?).store();
    if !matches!(context.machine.disk.stat(&log), Ok(Some(_))) {
        return Ok(());
    }
    // Opening a home mends files that follow from its log, so this comes first.
    let copy = backups::look(context.machine.disk.as_ref(), &context.home).map_err(|error| {
        Failure::new(Exit::Storage, "cannot compare the copy with its backup.json").because(&error)
    })?;
    let mut unchecked = |why: String| report.unchecked.push(format!("the log of the home: {why}"));
    let held = match HeldHome::take(context, false) {
        Ok(Some(held)) => held,
        Ok(None) => {
            unchecked(
                "another process holds the home; run this again when it has ended".to_owned(),
            );
            return Ok(());
        }
        Err(failure) => {
            unchecked(said(&failure));
            // What follows from a log that cannot be read is not known to be right.
            return Err(failure);
        }
    };
    let site = held.site(context);
    let compared = exporters::compare(&site);
    let archive = site.log.check_archive();
    let copied = copy.at(&site.log.head().1);
    drop(site);
    let compared = compared.map_err(|error| exporter_failed(&error))?;
    let gone = forgotten(held.engine.log());
    let beside = forget::gone_beside(held.engine.log());
    let lacks = held.lacks_forgotten(context);
    held.close()?;
    if let Some(what) = lacks? {
        report.break_rule(&rules::LOG, FORGOTTEN, None, "", what);
    }
    let beside = beside.map_err(|error| not_forgotten(&error))?;
    (report.forgotten_lines, report.forgotten_runs) = (beside.lines, beside.runs);
    match archive {
        Err(error @ (LogError::Damaged { .. } | LogError::Corrupt(_))) => {
            report.break_rule(&rules::LOG, ARCHIVE, None, "", error.to_string());
        }
        Err(error) => {
            let what = "cannot read the archive of the log";
            return Err(Failure::new(Exit::Storage, what).because(&error));
        }
        Ok(()) => {}
    }
    for (rule, found) in [(&rules::LOG, compared), (&rules::BACKUP, copied)] {
        for difference in found.differences {
            report.break_rule(rule, &difference.path, None, "", difference.what);
        }
        report.unchecked.extend(found.notes);
    }
    report.forgotten = gone.map_err(|error| not_forgotten(&error))?;
    Ok(())
}

/// The summaries that a person took back, with the day of it.
fn forgotten(log: &Reader) -> Result<Vec<Gone>, ForgetError> {
    let gone = forget::gone(log)?.into_iter().map(|(summary_id, (pointer, at))| Gone {
        summary_id,
        file: pointer.path(),
        day: at.day_in(chrono_tz::UTC).to_string(),
    });
    Ok(gone.collect())
}

fn show_rules(context: &Context) {
    if context.ui.json {
        for rule in rules::ALL {
            context.ui.json(&serde_json::json!({
                "rule": rule.id, "class": rule.class, "holds": rule.holds,
            }));
        }
        return;
    }
    let rows: Vec<Vec<String>> = rules::ALL
        .iter()
        .map(|rule| vec![rule.id.to_owned(), rule.class.to_string(), rule.holds.to_owned()])
        .collect();
    context.ui.table(&["RULE", "CLASS", "WHAT HOLDS"], &rows);
}

fn show(context: &Context, report: &Report) {
    if context.ui.json {
        context.ui.json(report);
        return;
    }
    for violation in &report.violations {
        context.ui.out(place(violation));
    }
    for Gone { summary_id, file, day } in report.forgotten.iter().take(LISTED) {
        context.ui.out(format!("{file}: {summary_id} was forgotten on {day}, by request"));
    }
    if report.forgotten.len() > LISTED {
        context.ui.out(format!("and {} more; --json lists all", report.forgotten.len() - LISTED));
    }
    let beside = [(report.forgotten_lines, "request line"), (report.forgotten_runs, "run")];
    let beside = beside.into_iter().filter(|(count, _)| *count > 0);
    let beside: Vec<String> = beside.map(|(count, noun)| ui::count(count, noun)).collect();
    if !beside.is_empty() {
        context.ui.out(format!("also forgotten by request: {}", beside.join(", ")));
    }
    for unchecked in &report.unchecked {
        context.ui.talk(format!("{} {unchecked}", ui::yellow("not checked:")));
    }
    let (files, lines, bytes) = (report.files, report.lines, report.bytes);
    let verdict = match report.violations_total {
        0 if !report.unchecked.is_empty() => ui::green("nothing wrong in what was checked:"),
        0 => ui::green("nothing wrong in"),
        count => format!("{} in", ui::red(&ui::count(count, "violation"))),
    };
    let (files, lines) = (ui::count(files, "file"), ui::count(lines, "line"));
    context.ui.talk(format!("{verdict} {files}, {lines}, {}", ui::count(bytes, "byte")));
}

fn place(violation: &Violation) -> String {
    let mut text = violation.file.clone();
    if let Some(line) = violation.line {
        text.push_str(&format!(":{line}"));
    }
    if !violation.pointer.is_empty() {
        text.push_str(&format!(" {}", violation.pointer));
    }
    format!("{text}: {} ({}): {}", violation.rule, violation.class, violation.message)
}
