//! `add`: files and folders into a home, and what came out as text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::acks::{AckProgress, AckTail, Ended, is_put_off, why};
use super::failure::{Exit, Failure};
use super::forgotten_files::ComeAgain;
use super::home_access::HomeAccess;
use super::intake::{RequestSettings, not_added, rename_for_home, take_in};
use super::interrupt::{listen, stopped};
use super::outcome::{Made, Naming, made_lines, name_earlier};
use super::prose::{Prose, plain_line};
use super::settings::{is_shared, load_config};
use super::source_files::{GoneFile, name_not_read, name_skipped, tell_unused};
use super::sum::{NOTHING_FOUND, flow_of};
use super::waiting::{Wait, obstacle_told_by};
use super::{Context, names, ui};
use crate::config::Config;
use crate::contract::versions::{file_of_item, is_day_name, shown_name};
use crate::control::question::Question;
use crate::control::socket::ControlClient;
use crate::home::Home;
use crate::import::collect::{Collected, Skipped, collect, in_short};
use crate::import::read::Readers;
use crate::import::units::each_unit;
use crate::import::{Clock, Report};
use crate::service::Until;

/// Requests that failed and that are named.
const FAILED_NAMED: usize = 40;

/// Requests that failed for now and that are named.
const FAILING_NAMED: usize = 10;

/// Requests that wait and that are asked for what they wait for.
const WAITING_ASKED: usize = 500;

/// Files whose dates have two readings and that are named.
const DATES_READ_NAMED: usize = 20;

/// Files that are gone and that are named.
const GONE_NAMED: usize = 10;

/// Add files or folders to a home: import and summarize them, and print the summaries
///
/// Importing the same file again adds nothing; a file that changed is summarized again. Kinds of files
/// are recognized by their content, as `sum` does.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  summarizer --home my-home add --init notes
  summarizer add ~/Downloads/conversations.json --project travel
  summarizer add notes --dry-run")]
pub(crate) struct AddArgs {
    /// Files and folders
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The flow [default: by the kind of file, see `config`]
    #[arg(long, value_name = "FLOW_ID")]
    flow: Option<String>,
    /// The project of every source that names none itself
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Make the home when it does not exist
    #[arg(long)]
    init: bool,
    /// Ask anew, also for what did not change
    #[arg(long)]
    again: bool,
    /// Print which files would be read, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Only import the files and append the requests; a service or a later `drain` makes the summaries
    #[arg(long)]
    no_wait: bool,
}

impl AddArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let config = names::with_flow_ids(context, load_config(context)?)?;
        let home = Home::new(&context.home, &config);
        if !self.dry_run {
            self.need_home(context)?;
        }
        let disk = &*context.machine.disk;
        let mut found = collect(disk, &home, &self.paths).map_err(|error| not_added(&error))?;
        rename_for_home(disk, &home.root, &mut found);
        if self.dry_run {
            set_aside_unread(context, &config, &mut found);
            return self.list(context, &config, &found);
        }
        let flow =
            self.flow.as_deref().map(|flow| names::registered_flow(context, flow)).transpose()?;
        let is_folder = |path: &&PathBuf| matches!(disk.stat(path), Ok(Some(stat)) if stat.is_dir);
        let folders: Vec<PathBuf> = self.paths.iter().filter(is_folder).cloned().collect();
        let wish = RequestSettings {
            folders: &folders,
            flow: flow.as_deref(),
            project: self.project.as_deref(),
            again: self.again,
        };
        let mut tail = AckTail::from_end(context, home.acks());
        let stop = listen(context, "what is under way ends first", || ())?;
        let taken = take_in(context, &config, &home, found, &wish)?;
        let requests = &taken.requests;
        let ids: Vec<String> = requests.keys().cloned().collect();
        let imported = Imported {
            report: &taken.report,
            skipped: &taken.skipped,
            gone: &taken.gone,
            come_again: &taken.come_again,
            is_worked_off: !self.no_wait && !stop.is_raised(),
        };
        if stop.is_raised() {
            imported.finish(context, &Ended::default(), ids.len());
            return Err(stopped(
                "not all files were read; what was read is imported",
                "run the same command again: imported data is not added twice",
            ));
        }
        if self.no_wait || ids.is_empty() {
            return Ok(imported.finish(context, &Ended::default(), ids.len()));
        }
        let ended = work_off(context, &home, &mut tail, &ids)?;
        if !context.ui.json {
            name_failures(context, requests, &ended);
        }
        let left = |id: &&String| !ended.acks.contains_key(*id) && !ended.failing.contains_key(*id);
        let left: Vec<&String> = ids.iter().filter(left).collect();
        // Another host makes what is left of a shared log.
        let behind_failures =
            !stop.is_raised() && !is_shared(context) && name_waiting(context, requests, &left);
        let exit = imported.finish(context, &ended, ids.len());
        match stop.is_raised() && ended.acks.len() < ids.len() {
            true => super::serve::stopped_early(context, &ended),
            false if behind_failures => Ok(Exit::Wrong),
            false => Ok(exit),
        }
    }

    /// A mistyped path must not become a home.
    fn need_home(&self, context: &Context) -> Result<(), Failure> {
        if super::held_home::is_home(context)? {
            return Ok(());
        }
        if self.init {
            return super::home::make(context);
        }
        Err(super::held_home::no_home(
            context,
            "make one there with `add --init`; `summarizer sum` needs none",
        ))
    }

    fn list(&self, context: &Context, config: &Config, found: &Collected) -> Result<Exit, Failure> {
        let given =
            self.flow.as_deref().map(|flow| names::registered_flow(context, flow)).transpose()?;
        let flow = |group| given.as_deref().unwrap_or(flow_of(&config.default_flow, group));
        let is_wrong = found.skipped.iter().any(|one| one.is_told());
        let exit = if is_wrong { Exit::Wrong } else { Exit::Done };
        if context.ui.json {
            for file in &found.files {
                let (kind, flow) = (file.kind.name(), flow(file.kind.group()));
                context.ui.json(&json!({"source": file.name, "kind": kind, "flow_id": flow}));
            }
            for one in &found.skipped {
                context.ui.json(&json!({"source": one.name, "skipped": one.told()}));
            }
            return Ok(exit);
        }
        let rows: Vec<Vec<String>> = found
            .files
            .iter()
            .map(|file| {
                let flow = flow(file.kind.group()).to_owned();
                vec![plain_line(&file.name), file.kind.name().to_owned(), flow]
            })
            .collect();
        context.ui.table(&["FILE", "KIND", "FLOW"], &rows);
        name_skipped(context.ui, &found.skipped);
        if !found.skipped.is_empty() {
            context.ui.talk(in_short(&found.skipped));
        }
        context.ui.talk("nothing was changed");
        Ok(exit)
    }
}

/// Reads each file as an import does, and moves those without a text to what is skipped.
fn set_aside_unread(context: &Context, config: &Config, found: &mut Collected) {
    let readers = Readers { pdf: config.extract_pdf.clone() };
    let clock = Clock { zone: config.timezone, now: context.machine.clock.now() };
    let bar = context.ui.progress("reading", found.files.len() as u64);
    for file in std::mem::take(&mut found.files) {
        let (mut texts, mut left_out) = (0, Vec::new());
        let disk = &*context.machine.disk;
        let read = each_unit(disk, &readers, &file, clock, &mut |unit| match unit {
            Ok(_) => texts += 1,
            Err(why) if why.is_beside() => {}
            Err(why) => left_out.push(Skipped::left_out(file.name.clone(), &why)),
        });
        let whole = |why: String, is_fault| Skipped::whole(file.name.clone(), why, is_fault);
        left_out.extend(read.err().map(|error| whole(error.to_string(), true)));
        if texts == 0 && left_out.is_empty() {
            left_out.push(whole("it holds no text".to_owned(), false));
        }
        found.skipped.extend(left_out);
        if texts > 0 {
            found.files.push(file);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
}

/// Waits until the requests have ended, in a running service or else in this process.
fn work_off(
    context: &Context,
    home: &Home,
    tail: &mut AckTail,
    ids: &[String],
) -> Result<Ended, Failure> {
    if ControlClient::connect(&home.socket()).is_ok() {
        let wait = Wait { socket: home.socket(), timeout: None, leaves_put_off: true };
        // A service tries again by itself: say what it waits for.
        let mut told = BTreeSet::new();
        return wait.run(context, tail, ids, |ack| {
            let is_new = told.insert((ack["reason_code"].to_string(), ack["cause"].to_string()));
            if ack["status"] == "failed_transient" && is_new && !context.ui.json {
                context.ui.complain(why(ack));
            }
        });
    }
    let progress = AckProgress::start(context, home, Some(ids.len() as u64));
    let ran = super::run_home::run_service(context, "drain", Until::Drained(None));
    drop(progress);
    ran?;
    let mut ended = Ended::default();
    let own: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    let ours = |ack: &Value| ack["request_id"].as_str().is_some_and(|id| own.contains(id));
    let (ours, others): (Vec<Value>, Vec<Value>) = tail.acks()?.into_iter().partition(ours);
    ours.into_iter().for_each(|ack| ended.take(ack));
    // An interrupted run before this one asked for the same, and only now it is done.
    let finished = others.into_iter().filter(|ack| ack["status"] == "completed");
    let named = |ack: Value| Some((ack["request_id"].as_str()?.to_owned(), ack));
    ended.join(&finished.filter_map(named).collect());
    Ok(ended)
}

/// Names the requests without a summary, by the names of their sources.
fn name_failures(context: &Context, names: &BTreeMap<String, String>, ended: &Ended) {
    let failed = |(_, ack): &(&String, &Value)| {
        !matches!(ack["status"].as_str(), Some("completed" | "duplicate"))
    };
    let failed: Vec<(&String, &Value)> = ended.acks.iter().filter(failed).collect();
    let failing = ended.failing.iter();
    let named = failed.iter().copied().take(FAILED_NAMED).chain(failing.take(FAILING_NAMED));
    for (id, ack) in named {
        let name = names.get(id).map_or("", String::as_str);
        context.ui.complain(format!("{}: {}", plain_line(name), why(ack)));
    }
    let more = failed.len().saturating_sub(FAILED_NAMED)
        + ended.failing.len().saturating_sub(FAILING_NAMED);
    if more > 0 {
        context.ui.complain(format!("and {more} more: see `summarizer requests`"));
    }
}

/// Says why requests still wait although the home was worked off: they wait for another one, or the service is paused.
/// True where the one that they wait for failed for now.
fn name_waiting(context: &Context, names: &BTreeMap<String, String>, left: &[&String]) -> bool {
    if left.is_empty() {
        return false;
    }
    let Ok(mut home) = HomeAccess::open(context) else { return false };
    let unread = home.ask(context, &Question::Status).ok().and_then(|told| obstacle_told_by(&told));
    let unread = unread.unwrap_or_else(|| "its line of the queue is not read yet".to_owned());
    let mut ask = |id: &str| {
        let shown = home.ask(context, &Question::Show { id: id.to_owned() });
        shown.unwrap_or_default()["latest"].take()
    };
    let (mut behind, mut lines) = (BTreeSet::new(), Vec::new());
    for id in left.iter().take(WAITING_ASKED) {
        let waits = ask(id)["waits"].take();
        behind.extend(waits["behind"].as_str().map(str::to_owned));
        let why = waits["message"].as_str().unwrap_or(&unread);
        let name = names.get(*id).map_or("", String::as_str);
        lines.push(plain_line(&format!("{name}: {why}")));
    }
    let fails = |one: &Value| one["state"] == "backoff" && !is_put_off(one);
    let has_failed = behind.iter().any(|id| fails(&ask(id)));
    let _ = home.close();
    if !context.ui.json {
        lines.iter().take(FAILING_NAMED).for_each(|line| context.ui.complain(line));
        if left.len() > FAILING_NAMED {
            let more = left.len() - FAILING_NAMED;
            context.ui.complain(format!("and {more} more: see `summarizer requests`"));
        }
    }
    has_failed
}

/// What the import did, for the last lines.
struct Imported<'a> {
    report: &'a Report,
    skipped: &'a [Skipped],
    gone: &'a [GoneFile],
    come_again: &'a ComeAgain,
    /// The requests were given time; what is left of them waits for something.
    is_worked_off: bool,
}

impl Imported<'_> {
    fn finish(&self, context: &Context, ended: &Ended, asked: usize) -> Exit {
        let counts = ended.counts();
        let count = |status: &str| counts.get(status).copied().unwrap_or(0);
        let (new, same) = (count("completed"), count("duplicate"));
        let other = ended.acks.len() as u64 - new - same;
        let made = Made::wait(context, ended);
        if context.ui.json {
            let names = super::registry::HomeNames::of(context);
            made.iter().for_each(|one| context.ui.json(&one.as_json(&names)));
            let skipped =
                self.skipped.iter().map(|one| json!({"source": one.name, "why": one.told()}));
            let skipped: Vec<Value> = skipped.collect();
            context.ui.json(&json!({
                "files": self.report.files, "records_added": self.report.added, "asked": asked,
                "made": new, "as_before": same, "not_made": other,
                "messages_left_out": self.report.messages_left_out,
                "failing": ended.failing.values().collect::<Vec<_>>(),
                "skipped": skipped, "skipped_omitted": self.report.rejected_omitted,
                "not_read": self.report.not_read,
                "not_read_omitted": self.report.not_read_omitted, "dates_read": self.report.dates_read,
                "ids_repeated": self.report.ids_repeated, "other_texts": self.report.other_texts,
                "other_projects": self.report.other_projects, "open_quotes": self.report.open_quotes,
                "gone": self.gone.iter().map(|one| &one.name).collect::<Vec<_>>(),
                "come_again": self.come_again.as_json(),
            }));
        } else {
            let prose = Prose::of_stdout();
            made_lines(prose, &made).iter().for_each(|line| context.ui.out(line));
            name_earlier(context, ended, Naming::All);
            self.talk(context, asked, new, same, other);
        }
        let fails = ended.failing.values().any(|ack| !is_put_off(ack));
        let is_wrong = self.report.faults > 0 || self.skipped.iter().any(|one| one.is_told());
        match other > 0 || fails || is_wrong {
            true => Exit::Wrong,
            false => Exit::Done,
        }
    }

    /// Names the files that are not there any more, and the days that left their lists.
    fn talk_of_gone(&self, ui: ui::Ui) {
        let (parts, files): (Vec<_>, Vec<_>) =
            self.gone.iter().partition(|one| file_of_item(&one.name) != one.name);
        let (days, projects): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|one| is_day_name(&one.name));
        for (gone, one, many) in [
            (files, "file", "files"),
            (days, "day of a list", "days of lists"),
            (projects, "project of an export", "projects of exports"),
        ] {
            let (what, stay) = match gone.len() {
                0 => continue,
                1 => (format!("1 {one} is gone"), "its summaries stay"),
                count => (format!("{count} {many} are gone"), "their summaries stay"),
            };
            ui.talk(format!("{what}; {stay}, and `summarizer read NAME` shows them"));
            for one in gone.iter().take(GONE_NAMED) {
                let name = plain_line(&shown_name(&one.name));
                ui.talk(match &one.same {
                    Some(same) => format!("  {name}: the same text is in {}", plain_line(same)),
                    None => format!("  {name}"),
                });
            }
            if gone.len() > GONE_NAMED {
                ui.talk(format!("  and {} more", gone.len() - GONE_NAMED));
            }
        }
    }

    fn talk(&self, context: &Context, asked: usize, new: u64, same: u64, other: u64) {
        let ui = context.ui;
        name_not_read(ui, &self.report.not_read, self.report.not_read_omitted);
        name_skipped(ui, self.skipped);
        self.come_again.talk(ui);
        let waiting = asked as u64 - new - same - other;
        if self.report.files == 0 && self.skipped.is_empty() {
            ui.talk(NOTHING_FOUND);
            return self.talk_of_gone(ui);
        }
        let mut line = ui::count(self.report.files, "file");
        if new > 0 {
            line.push_str(&format!(", {}", super::ui::count(new, "new summary")));
        }
        for (count, what) in
            [(same, "as before"), (other, "without a summary"), (waiting, "asked for")]
        {
            if count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        if !self.skipped.is_empty() {
            line.push_str(&format!("; {}", in_short(self.skipped)));
        }
        if self.report.rejected_omitted > 0 {
            line.push_str(&format!(", and {} more", self.report.rejected_omitted));
        }
        ui.talk(ui::dim(&line));
        tell_unused(ui, self.report.messages_left_out);
        let report = self.report;
        let told = [
            report.repeated_ids(),
            report.kept_texts(),
            report.kept_projects(),
            report.one_cells(),
        ];
        for told in told.into_iter().flatten() {
            ui.talk(ui::dim(&plain_line(&told)));
        }
        for one in self.report.dates_read.iter().take(DATES_READ_NAMED) {
            let name = plain_line(&one.source);
            ui.talk(ui::dim(&format!("{name}: dates read as {}", one.order)));
            if let Some(earlier) = one.earlier {
                let what = "its messages are there twice, at first on wrong days; `summarizer add` in a new home \
                            has them once";
                let warning = ui::yellow("warning:");
                ui.talk(format!(
                    "{warning} {name}: an earlier import read its dates as {earlier}: {what}"
                ));
            }
        }
        self.talk_of_gone(ui);
        if context.stop.is_raised() && waiting > 0 {
            // The failure of the command says what continues it.
            return;
        }
        let next = match waiting {
            0 if new + same == 0 && other > 0 => {
                "next: `summarizer requests` lists them, `summarizer retry NAME` asks one again"
            }
            0 => "next: `summarizer read`, `summarizer search WORDS`, `summarizer digest build`",
            _ if is_shared(context) => {
                "next: the service of the host that leads makes the summaries"
            }
            _ if self.is_worked_off => "next: `summarizer status` says what they wait for",
            _ => "next: `summarizer drain` makes the summaries",
        };
        ui.talk(ui::dim(next));
    }
}
