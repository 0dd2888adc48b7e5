//! `replay` and `export`: the state and the files again, from the log alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};

use super::causes::{held_by_another, log_failed, not_published};
use super::failure::{Exit, Failure};
use super::held::Held;
use super::lost_log::refuse_lost_log;
use super::serve::moment;
use super::settings::load_config;
use super::{Context, ui};
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::digest::compare;
use crate::digest::publish::{DigestError, Digests};
use crate::export::append_only::{AppendOnly, Project, Range};
use crate::export::{ack, quarantine};
use crate::home::Home;
use crate::log::codec::Cursor;
use crate::projections::snapshot_files::SnapshotFiles;
use crate::projections::summaries::Summaries;
use crate::replay::{
    Compare, ReplayError, Replayed, Until, compare_files, compare_snapshots, rebuild,
};

/// Rebuild the state from the log
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Stop after this event number, or at this moment (ISO 8601)
    #[arg(long, value_name = "SEQ|TIME")]
    until: Option<String>,
    /// Compare with the live tables, the acks, the quarantine and the snapshots of runs
    #[arg(long, conflicts_with = "until")]
    verify: bool,
}

/// Project the log again into an absent or empty directory
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Where to
    #[arg(long, value_name = "DIR", required_unless_present = "repair")]
    to: Option<PathBuf>,
    /// Stop after this event number
    #[arg(long, value_name = "SEQ")]
    until: Option<u64>,
    /// Only the summaries of this day, and nothing else of the home
    #[arg(long, value_name = "DAY")]
    day: Option<Day>,
    /// Only the summaries of this stream, and nothing else of the home
    #[arg(long, value_name = "STREAM", value_parser = parse_stream)]
    stream: Option<Stream>,
    /// Publish every summary of the home again, in place, whatever its files say now, and write every
    /// file of digests, acks, quarantine and snapshots again that is not what the log says
    #[arg(long, conflicts_with_all = ["to", "until", "day", "stream"])]
    repair: bool,
}

fn parse_stream(text: &str) -> Result<Stream, String> {
    let names: Vec<&str> = Stream::ALL.iter().map(|stream| stream.as_str()).collect();
    Stream::parse(text).ok_or_else(|| format!("not one of {}", names.join(", ")))
}

impl ReplayArgs {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let until = match self.until.as_deref() {
            None => Until::Head,
            Some(text) => match text.parse() {
                Ok(seq) => Until::Seq(Seq(seq)),
                Err(_) => Until::Time(moment(text)?),
            },
        };
        let compare = if self.verify { Compare::Tables } else { Compare::Nothing };
        let held = existing(context)?;
        let log = held.engine.log().clone();
        let bar = context.ui.progress("replaying", 100);
        let replayed = rebuild(&log, until, compare, &mut |part| {
            bar.set_position((part * 100.0) as u64);
        });
        bar.finish_and_clear();
        let mut replayed = replayed.map_err(|error| replay_failed(&error))?;
        if self.verify {
            let (acks, quarantined) = (held.home.acks(), held.home.quarantine());
            let files = compare_files(&log, &context.machine.disk, &acks, &quarantined, false);
            replayed.differences.extend(files.map_err(|error| replay_failed(&error))?);
            let snapshots = compare_snapshots(&log, &context.machine.disk, &held.home.snapshots());
            replayed.differences.extend(snapshots.map_err(|error| replay_failed(&error))?);
            let disk = &context.machine.disk;
            let digests = compare::with_log(disk, &held.home.buses, &log).map_err(|error| {
                Failure::new(Exit::Storage, "the digests cannot be compared").because(&error)
            })?;
            let told = digests.differences.iter().map(|one| format!("{} {}", one.path, one.what));
            replayed.differences.extend(told);
            if digests.of_another_log {
                context.ui.talk("the published digests are of an earlier log: digest build");
            }
            if let Some(run_id) = digests.cut_short {
                context.ui.talk(format!(
                    "the digest build {run_id} was cut short: the next start finishes it, and until \
                     then digests are not compared"
                ));
            }
        }
        held.close()?;
        show(context, &replayed, self.verify);
        Ok(if replayed.differences.is_empty() { Exit::Done } else { Exit::Wrong })
    }
}

fn existing(context: &Context) -> Result<Held, Failure> {
    let path = context.home.join("run/summarizer.redb");
    if !matches!(context.machine.disk.stat(&path), Ok(Some(_))) {
        let home = Home::new(&context.home, &load_config(context)?);
        refuse_lost_log(context, &home)?;
        let what = format!("{} holds no log", context.home.display());
        return Err(Failure::new(Exit::Input, what).hint("name the home with --home"));
    }
    Held::take(context, false)?.ok_or_else(|| held_by_another(context))
}

fn show(context: &Context, replayed: &Replayed, verified: bool) {
    let state = &replayed.state;
    let by_status: Map<String, Value> = state
        .totals()
        .by_status
        .iter()
        .map(|(status, count)| (status.as_str().to_owned(), (*count).into()))
        .collect();
    if context.ui.json {
        context.ui.json(&json!({
            "applied": state.applied.0,
            "last_at": replayed.last_at.map(|at| at.to_string()),
            "events": replayed.events, "by_status": by_status, "open": state.open_count(),
            "quarantined": state.totals().quarantined, "verified": verified,
            "state_digest": replayed.digest.prefixed(), "differences": replayed.differences,
        }));
        return;
    }
    let at = replayed.last_at.map_or("-".to_owned(), |at| at.to_string());
    context.ui.out(format!("{}, the last at {at}", ui::count(state.applied.0, "event")));
    for (status, count) in by_status.iter().filter(|(_, count)| count.as_u64() != Some(0)) {
        context.ui.out(format!("{count:>10} {status}"));
    }
    for difference in &replayed.differences {
        context.ui.out(format!("{} {difference}", ui::red("differs:")));
    }
    if verified && replayed.differences.is_empty() {
        let what = "tables, acks, quarantine, run snapshots and digests are what the log leads to";
        context.ui.out(ui::green(what));
    }
}

fn replay_failed(error: &ReplayError) -> Failure {
    match error {
        ReplayError::Log(error) => log_failed(error),
        error => Failure::new(Exit::Storage, "the log cannot be replayed")
            .because(error)
            .hint("`summarizer log verify` names the first bad record"),
    }
}

impl ExportArgs {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.to {
            Some(to) => self.export(context, to),
            None => repair(context),
        }
    }

    fn export(&self, context: &Context, to: &Path) -> Result<Exit, Failure> {
        let disk = &context.machine.disk;
        let failed = |error: &std::io::Error| {
            let what = format!("cannot export to {}", to.display());
            Failure::new(Exit::Storage, what).because(error)
        };
        let listed = match disk.stat(to).map_err(|error| failed(&error))? {
            None => Vec::new(),
            Some(_) => disk.list(to).map_err(|error| failed(&error))?,
        };
        if !listed.is_empty() {
            let what = format!("{} is not empty", to.display());
            return Err(Failure::new(Exit::Usage, what).hint("name an absent or empty directory"));
        }
        let held = existing(context)?;
        let until = self.until.map(Seq);
        if self.day.is_some() || self.stream.is_some() {
            return self.export_some(context, held, to, until);
        }
        let run = to.join("run");
        disk.create_dir_all(&run).map_err(|error| failed(&error))?;
        let files: [(&str, Project); 2] =
            [("ack.jsonl", ack::line), ("quarantine.jsonl", quarantine::line)];
        let mut written = Vec::new();
        let range = Range { until, ..Range::default() };
        for (name, project) in files {
            let path = run.join(name);
            let log = held.engine.log();
            let opened =
                AppendOnly::open(Arc::clone(disk), &path, project, Cursor::default(), log, range);
            let (file, _) = opened
                .map_err(|error| Failure::new(Exit::Storage, "cannot export").because(&error))?;
            written.push(json!({"path": path, "bytes": file.bytes()}));
        }
        let snapshots = to.join("run/snapshots");
        SnapshotFiles::open(disk, snapshots, held.engine.log(), Cursor::default(), until)
            .map_err(|error| Failure::new(Exit::Storage, "cannot export").because(&error))?;
        let buses = to.join(&held.config.bus_home);
        // What it remembers on the way is of no use to anybody else.
        let remember = run.join(".publisher-index.redb");
        Summaries::open(disk, &buses, held.engine.log(), Some(&remember))
            .and_then(|mut summaries| summaries.publish(until))
            .map_err(|error| not_published(&error))?;
        disk.remove_file(&remember).map_err(|error| failed(&error))?;
        Digests::open(disk, &buses, held.engine.log()).publish(until, None).map_err(|error| {
            Failure::new(Exit::Storage, "the digests cannot be exported").because(&error)
        })?;
        held.close()?;
        if context.ui.json {
            context.ui.json(&json!({"written": written}));
        } else {
            for file in &written {
                let path = file["path"].as_str().unwrap_or_default();
                context.ui.out(format!("{path}  {}", ui::told(&file["bytes"], "byte")));
            }
        }
        Ok(Exit::Done)
    }
}

impl ExportArgs {
    /// Some days or one stream of the Summary Bus.
    fn export_some(
        &self,
        context: &Context,
        held: Held,
        to: &Path,
        until: Option<Seq>,
    ) -> Result<Exit, Failure> {
        let buses = to.join(&held.config.bus_home);
        let mut summaries = Summaries::open(&context.machine.disk, &buses, held.engine.log(), None)
            .map_err(|error| not_published(&error))?;
        summaries.only(self.day, self.stream);
        let published = summaries.publish(until).map_err(|error| not_published(&error))?;
        held.close()?;
        if context.ui.json {
            context.ui.json(&json!({"published": published}));
        } else {
            context.ui.out(format!("{} of streams exported", ui::count(published, "day")));
        }
        Ok(Exit::Done)
    }
}

/// Acks and quarantine that are not what the log says go away; whoever opens the home next finds
/// them missing and writes them again.
fn repair_lines(context: &Context) -> Result<usize, Failure> {
    let held = existing(context)?;
    let (disk, log) = (&context.machine.disk, held.engine.log());
    let files = [held.home.acks(), held.home.quarantine()];
    let differences = compare_files(log, disk, &files[0], &files[1], true);
    let differences = differences.map_err(|error| replay_failed(&error))?;
    let mut wrong = 0;
    for path in &files {
        let named = format!("{}: ", path.display());
        if differences.iter().any(|difference| difference.starts_with(&named)) {
            wrong += 1;
            disk.remove_file(path).map_err(|error| {
                let what = format!("cannot write {} again", path.display());
                Failure::new(Exit::Storage, what).because(&error)
            })?;
        }
    }
    held.close()?;
    Ok(wrong)
}

fn repair(context: &Context) -> Result<Exit, Failure> {
    let lines = repair_lines(context)?;
    let held = existing(context)?;
    let (buses, log) = (&held.home.buses, held.engine.log());
    let remember = held.home.publisher_index();
    let published = Summaries::open(&context.machine.disk, buses, log, Some(&remember))
        .and_then(|mut summaries| {
            let published = summaries.publish_all()?;
            summaries.close()?;
            Ok(published)
        })
        .map_err(|error| not_published(&error))?;
    let (disk, snapshots) = (&context.machine.disk, held.home.snapshots());
    SnapshotFiles::open(disk, snapshots, held.engine.log(), Cursor::default(), None).map_err(
        |error| Failure::new(Exit::Storage, "cannot write run/snapshots again").because(&error),
    )?;
    let failed = |error: DigestError| {
        Failure::new(Exit::Storage, "the digests cannot be written again").because(&error)
    };
    let buses = &held.home.buses;
    let found = compare::with_log(disk, buses, held.engine.log()).map_err(failed)?;
    let digests =
        Digests::open(disk, buses, held.engine.log()).repair(&found.differences).map_err(failed)?;
    held.close()?;
    if context.ui.json {
        context.ui.json(&json!({"published": published, "digests": digests, "files": lines}));
    } else {
        context.ui.out(format!(
            "{} of streams published again, {} and {} of acks and quarantine written again",
            ui::count(published, "day"),
            ui::count(digests, "digest file"),
            ui::count(lines, "file"),
        ));
    }
    Ok(Exit::Done)
}
