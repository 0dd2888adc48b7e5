//! `replay` and `export`: rebuild the state and the files from the log alone.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use serde_json::{Map, Value, json};

use super::causes::{exporter_failed, held_by_another, log_failed, not_published};
use super::failure::{Exit, Failure};
use super::held_home::HeldHome;
use super::home::refuse_own_folder;
use super::lost_log::refuse_lost_log;
use super::serve::moment;
use super::settings::load_config;
use super::{Context, names, ui};
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::home::Home;
use crate::log::ReadError;
use crate::projections::exporters;
use crate::projections::projection::Site;
use crate::projections::summaries::Summaries;
use crate::replay::{Compare, ReplayError, Replayed, Until, rebuild};

/// Rebuild the state from the log
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Stop after this event number, or at this time (ISO 8601)
    #[arg(long, value_name = "SEQ|TIME")]
    until: Option<String>,
    /// Compare the tables, and every file that follows from the log, with the state rebuilt from the log
    #[arg(long, conflicts_with = "until")]
    verify: bool,
}

/// Write all projections of the log to an absent or empty directory
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["to", "repair"]).required(true).multiple(true)))]
pub(crate) struct ExportArgs {
    /// The directory to write to
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Stop after this event number
    #[arg(long, value_name = "SEQ")]
    until: Option<u64>,
    /// Only the summaries of this day
    #[arg(long, value_name = "DAY")]
    day: Option<Day>,
    /// Only the summaries of this stream
    #[arg(long, value_name = "STREAM", value_parser = parse_stream)]
    stream: Option<Stream>,
    /// Write each file of the home that differs from the log again, in place
    #[arg(long, conflicts_with_all = ["to", "until", "day", "stream"])]
    repair: bool,
}

fn parse_stream(text: &str) -> Result<Stream, String> {
    let known: Vec<&str> = Stream::ALL.iter().map(|stream| stream.as_str()).collect();
    Stream::parse(text).ok_or_else(|| names::not_one_of(text, &known))
}

impl ReplayArgs {
    /// Runs the command.
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
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
        let mut names = Vec::new();
        if self.verify {
            let site = held.site(context);
            names.extend(exporters::all(&site).map(|exporter| exporter.name));
            let compared = exporters::compare(&site);
            let compared = compared.map_err(|error| exporter_failed(&error))?;
            let told = compared.differences.iter().map(ToString::to_string);
            replayed.differences.extend(told);
            compared.notes.into_iter().for_each(|note| context.ui.talk(note));
        }
        held.close()?;
        show(context, &replayed, self.verify, &names);
        Ok(if replayed.differences.is_empty() { Exit::Done } else { Exit::Wrong })
    }
}

fn existing(context: &Context) -> Result<HeldHome, Failure> {
    let path = context.home.join("run/summarizer.redb");
    if !matches!(context.machine.disk.stat(&path), Ok(Some(_))) {
        let home = Home::new(&context.home, &load_config(context)?);
        refuse_lost_log(context, &home)?;
        let what = format!("{} holds no log", context.home.display());
        return Err(Failure::new(Exit::Input, what).hint("name the home with --home"));
    }
    HeldHome::take(context, false)?.ok_or_else(|| held_by_another(context))
}

fn show(context: &Context, replayed: &Replayed, verified: bool, names: &[&str]) {
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
        let what = format!("the log leads to the same tables, {}", names.join(", "));
        context.ui.out(ui::green(&what));
    }
}

fn replay_failed(error: &ReplayError) -> Failure {
    match error {
        ReplayError::Read(ReadError::Log(error)) => log_failed(error),
        error => Failure::new(Exit::Storage, "the log cannot be replayed")
            .because(error)
            .hint("`summarizer log verify` names the first bad record"),
    }
}

impl ExportArgs {
    /// Runs the command.
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.to {
            Some(to) => self.export(context, to),
            None => repair(context),
        }
    }

    fn export(&self, context: &Context, to: &Path) -> Result<Exit, Failure> {
        let disk = &context.machine.disk;
        let failed = |error: &std::io::Error| {
            Failure::of_target(format!("cannot export to {}", to.display()), error)
        };
        let listed = match disk.stat(to).map_err(|error| failed(&error))? {
            None => Vec::new(),
            Some(_) => disk.list(to).map_err(|error| failed(&error))?,
        };
        if !listed.is_empty() {
            let what = format!("{} is not empty", to.display());
            return Err(Failure::new(Exit::Usage, what).hint("name an absent or empty directory"));
        }
        refuse_own_folder(context, to)?;
        let mut held = existing(context)?;
        held.refuse_damage(context)?;
        let until = self.until.map(Seq);
        if self.day.is_some() || self.stream.is_some() {
            return self.export_some(context, held, to, until);
        }
        disk.create_dir_all(&to.join("run")).map_err(|error| failed(&error))?;
        let site = Site { home: Home::new(to, &held.config), own: false, ..held.site(context) };
        let bar = context.ui.progress("exporting", exporters::all(&site).count() as u64);
        for exporter in exporters::all(&site) {
            bar.set_message(exporter.name);
            exporter.write(&site, until).map_err(|error| exporter_failed(&error))?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        // The publisher keeps memory small with a file that is of no use to anybody else.
        disk.remove_file(&site.home.publisher_index()).map_err(|error| failed(&error))?;
        let mut written = Vec::new();
        for path in exporters::ALL.iter().flat_map(|exporter| exporter.files) {
            let path = to.join(path);
            let stat = disk.stat(&path).map_err(|error| failed(&error))?;
            if let Some(stat) = stat.filter(|stat| !stat.is_dir) {
                written.push(json!({"path": path, "bytes": stat.len}));
            }
        }
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
        held: HeldHome,
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

fn repair(context: &Context) -> Result<Exit, Failure> {
    let mut held = existing(context)?;
    held.refuse_damage(context)?;
    let site = held.site(context);
    let mut repaired = Vec::new();
    for exporter in exporters::all(&site) {
        let count = exporter.repair(&site).map_err(|error| exporter_failed(&error))?;
        repaired.push((exporter.name, count));
    }
    held.close()?;
    if context.ui.json {
        let repaired: Map<String, Value> =
            repaired.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
        context.ui.json(&json!({"repaired": repaired}));
    } else {
        for (name, count) in &repaired {
            context.ui.out(format!("{name}: {} written again", ui::count(*count, "part")));
        }
    }
    Ok(Exit::Done)
}
