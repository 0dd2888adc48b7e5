//! `forget`: takes texts back. Everything that was made of them becomes unreadable for ever.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::causes::{exporter_failed, held_by_another, not_forgotten, not_taken_back};
use super::failure::{Exit, Failure};
use super::file_events::items_of_file;
use super::held_home::HeldHome;
use super::home_access::HomeAccess;
use super::prose::plain_line;
use super::published::{
    Published, VersionChoice, each_newest, is_no_name, named_or_in_file, one_named, open_bus, text,
    unread,
};
use super::read::{unknown_name, was_forgotten};
use super::settings::load_config;
use super::source_files::{known_name, name_for_home};
use super::{Context, ui};
use crate::bus::SummaryBus;
use crate::contract::places::folded;
use crate::contract::source::Person;
use crate::contract::time::Day;
use crate::contract::versions::file_of;
use crate::control::question::{Answer, ForgetOrder, Question};
use crate::control::socket::ControlClient;
use crate::export::summary_bus::SUMMARIES_DIR;
use crate::home::{Home, OLD_LOGS};
use crate::import::{
    TakenBack, each_text_that_goes, files_named, find_taken_back, is_ours, same_text_elsewhere,
};
use crate::projections::exporters;
use crate::upkeep::backups::{self, Backup};
use crate::upkeep::forget::{self, LinesNamed, Traces, Wanted};
use crate::upkeep::passages::Passages;
use crate::upkeep::written_copies::WrittenCopies;
use crate::upstream::other::{OTHER_DIR, parts_of};

/// Where the numbers of quarantined lines are.
const QUARANTINE_LISTS: &str = "`summarizer quarantine list` shows the numbers of its lines";
/// Summaries that are listed by name.
const LISTED: usize = 20;
/// How often a command looks whether the service has forgotten.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The same when the question may go through the database to another host.
const LOOK_EVERY_IF_SHARED: Duration = Duration::from_millis(500);
/// How long a service that starts anew, or a leader that is replaced, is waited for.
const AWAY_WITHIN: Duration = Duration::from_secs(60);
/// How long the other hosts are waited for. A host that is away may take days.
const OTHERS_WITHIN: Duration = Duration::from_secs(15);

/// Take texts back: destroy their summaries and everything else that was made of them
///
/// The summaries, answers of models, quotes, digests and narratives of a source become unreadable for
/// ever: their keys are destroyed. Texts that `add` or `import` copied into the home leave it too. A
/// summary that was made of a forgotten summary goes with it. This cannot be undone. With several names and
/// options everything goes that one of them names.
///
/// Exports and runs in the home that hold a forgotten summary go with it. Your own files stay, and so do the queue, the
/// files of other programs and backups that were made before. Ids, names, hashes and counts stay in the log. A running service ends what is under way, forgets, and goes on. Where
/// several hosts share the log, the order can be given on any of them, and all forget: the command names the hosts that
/// have not done so yet.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  summarizer forget --dry-run lease.txt
  summarizer forget lease.txt
  summarizer forget sum_2de5c923558c66689fced13f1b90c3ae
  summarizer forget --author anna@example.org
  summarizer forget --before 2025-01-01")]
pub(crate) struct ForgetArgs {
    /// Sources by the name that `read` shows, by file or by id, summaries by id, and runs of other programs by id. The id of
    /// a request, or `quarantine:SEQ`, names its line when no source has that name. `before-recovery-…` names old files that
    /// `recover` kept
    #[arg(value_name = "SOURCE", required_unless_present_any = ["author", "before"])]
    words: Vec<String>,
    /// Everything that an author wrote: a name or an address, as the mail or chat has it
    #[arg(long, value_name = "NAME")]
    author: Vec<String>,
    /// Everything of the days before this one
    #[arg(long, value_name = "DAY")]
    before: Option<Day>,
    /// Only list what would go
    #[arg(long)]
    dry_run: bool,
}

/// What was forgotten, or would be.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ForgetReport {
    summaries: Vec<String>,
    sources: BTreeSet<String>,
    bags: BTreeSet<String>,
    answers: u64,
    /// Records of texts that left the home.
    records: u64,
    /// Files that still hold the texts and are not changed.
    left_in: Vec<String>,
    /// Other sources with the same text.
    same_text_in: BTreeSet<String>,
    /// Lines of requests and of the quarantine that can be read no more, by their numbers in the queue. The queue is the
    /// file of whoever writes it, and still holds them.
    queue_lines: BTreeSet<u64>,
    /// Runs of other programs whose events and snapshots go.
    runs: BTreeSet<String>,
    /// Runs that stay, although their events name what goes.
    runs_beside: BTreeSet<String>,
    /// Folders of exports and runs in the home that go.
    copies: BTreeSet<PathBuf>,
    /// The names of the summaries.
    names: BTreeSet<String>,
    /// The record of the log that says so. Every host that shares the log carries it out.
    #[serde(default)]
    fact: Option<u64>,
}

impl ForgetArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if self.words.iter().chain(&self.author).any(|word| word.trim().is_empty()) {
            return Err(Failure::new(Exit::Usage, "an empty name names nothing")
                .hint("a variable of the shell may be unset"));
        }
        let is_shared = load_config(context)?.cluster.is_some();
        let order = ForgetOrder {
            names: self.words.iter().map(|word| known_name(context, word)).collect(),
            authors: self.author.clone(),
            before: self.before,
            dry_run: self.dry_run,
        };
        let mut access = HomeAccess::open(context)?;
        let report = match &mut access {
            HomeAccess::Within(_) if is_shared && !order.dry_run => Err(not_serving()),
            HomeAccess::Within(held) => forget(context, held, &order),
            HomeAccess::Beside(_) => ask_service(context, &mut access, order, is_shared),
        };
        access.close()?;
        let report = report?;
        let fact = report.fact.filter(|_| is_shared && !self.dry_run);
        let others = fact.map(|fact| hosts_without(context, fact));
        self.show(context, &report, others.as_ref());
        if let Some(others) = others.filter(|_| !context.ui.json) {
            context.ui.out(others.told());
        }
        Ok(Exit::Done)
    }

    fn show(&self, context: &Context, report: &ForgetReport, others: Option<&OtherHosts>) {
        let backups = backups_from_before(context);
        if context.ui.json {
            return context.ui.json(&json!({
                "dry_run": self.dry_run,
                "summaries": report.summaries,
                "names": report.names,
                "sources": report.sources,
                "bags": report.bags,
                "answers": report.answers,
                "records": report.records,
                "left_in": report.left_in,
                "same_text_in": report.same_text_in,
                "copies": report.copies,
                "runs": report.runs,
                "runs_beside": report.runs_beside,
                "queue_lines": report.queue_lines,
                "backups": backups,
                "not_confirmed": others.map(OtherHosts::not_confirmed),
            }));
        }
        for name in report.names.iter().take(LISTED) {
            context.ui.out(format!("  {name}"));
        }
        if report.names.len() > LISTED {
            let more = report.names.len() - LISTED;
            context.ui.out(format!("  and {more} more; --json lists all"));
        }
        let mut parts = vec![ui::count(report.summaries.len() as u64, "summary")];
        let lines = report.queue_lines.len() as u64;
        let more = [
            (report.answers, "answer"),
            (report.bags.len() as u64, "digest"),
            (lines, "request line"),
            (report.runs.len() as u64, "run"),
        ];
        for (count, noun) in more {
            if count > 0 {
                parts.push(ui::count(count, noun));
            }
        }
        let what = parts.join(", ");
        for name in report.same_text_in.iter().take(LISTED) {
            let name = plain_line(name);
            context.ui.out(format!("{name} has the same text; name it too to take it back"));
        }
        for run in report.runs_beside.iter().take(LISTED) {
            let run = plain_line(run);
            context
                .ui
                .out(format!("the events of the run {run} name them; name it too to take it back"));
        }
        if self.dry_run {
            context.ui.out(format!("would forget {what}"));
            if report.records > 0 {
                let texts = ui::count(report.records, "record");
                context.ui.out(format!("would take {texts} of their texts out of the home"));
            }
            report.show_copies(context, "would be removed");
            report.show_what_stays(context);
            show_backups(context, &backups);
            context
                .ui
                .talk(ui::dim("nothing was changed; without --dry-run they are gone for ever"));
            return;
        }
        context.ui.out(format!("forgot {what}"));
        if report.records > 0 {
            let texts = ui::count(report.records, "record");
            context.ui.out(format!("took {texts} of their texts out of the home"));
        }
        report.show_copies(context, "was removed");
        report.show_what_stays(context);
        show_backups(context, &backups);
        let is_all_there = report.records == 0 && report.left_in.is_empty();
        if !self.words.is_empty() && is_all_there && !report.sources.is_empty() {
            context.ui.out("their texts stay where they are; name a source or its file to take its text out too");
        }
        context.ui.talk(ui::dim(
            "your own files are as they were, and backups from before still hold what was forgotten",
        ));
    }
}

/// Only the host that leads writes to a shared log.
fn not_serving() -> Failure {
    let what = "this home shares its log with other hosts, and no service runs here";
    Failure::new(Exit::Busy, what)
        .hint("start `summarizer serve` here, or give the order on a host where it runs")
}

/// Which of the hosts that share the log have carried a fact of forgetting out.
enum OtherHosts {
    All,
    Not(Vec<String>),
    /// The service did not say it.
    Unknown,
}

impl OtherHosts {
    fn told(&self) -> String {
        match self {
            OtherHosts::All => "all hosts have forgotten it".to_owned(),
            OtherHosts::Not(hosts) => format!(
                "not confirmed yet by {}: a host forgets as soon as it follows, and `summarizer cluster status` names \
                 those that have not",
                hosts.join(", ")
            ),
            OtherHosts::Unknown => {
                "whether all hosts have forgotten it is not known: `summarizer cluster status` names those that have not"
                    .to_owned()
            }
        }
    }

    fn not_confirmed(&self) -> Value {
        match self {
            OtherHosts::All => json!([]),
            OtherHosts::Not(hosts) => json!(hosts),
            OtherHosts::Unknown => Value::Null,
        }
    }
}

/// Asks the service of this home, for a while, which hosts still have to forget. The service starts anew meanwhile when
/// it follows.
fn hosts_without(context: &Context, fact: u64) -> OtherHosts {
    let Ok(config) = load_config(context) else { return OtherHosts::Unknown };
    let socket = Home::new(&context.home, &config).socket();
    let until = Instant::now() + OTHERS_WITHIN;
    let mut found = OtherHosts::Unknown;
    loop {
        let status = ControlClient::connect(&socket)
            .and_then(|mut client| client.ask(&Question::Status))
            .unwrap_or(Answer::Refused(String::new()));
        if let Answer::Ok(status) = status
            && let Some(hosts) = status["cluster"]["hosts"].as_array()
        {
            let has_not = |host: &&Value| host["forgotten"].as_u64().unwrap_or(0) < fact;
            let left = hosts.iter().filter(has_not).filter_map(|host| host["host"].as_str());
            let left: Vec<String> = left.map(str::to_owned).collect();
            if left.is_empty() && !hosts.is_empty() {
                return OtherHosts::All;
            }
            found = OtherHosts::Not(left);
        }
        if Instant::now() >= until {
            return found;
        }
        std::thread::sleep(LOOK_EVERY_IF_SHARED);
    }
}

/// The backups that the home knows: they still hold what is forgotten now.
fn backups_from_before(context: &Context) -> Vec<Backup> {
    let home = load_config(context).map(|config| Home::new(&context.home, &config));
    home.ok()
        .and_then(|home| backups::known(&*context.machine.disk, &home).ok())
        .unwrap_or_default()
}

fn show_backups(context: &Context, backups: &[Backup]) {
    for backup in backups.iter().take(LISTED) {
        let until = match &backup.expires_at {
            Some(at) => format!("it expires at {at}"),
            None => "it never expires: delete it when you need it no more".to_owned(),
        };
        let folder = backup.folder.display();
        context.ui.out(format!("{folder} is a backup from before and still holds them; {until}"));
    }
    if backups.len() > LISTED {
        context.ui.out(format!("and {} more backups; --json lists all", backups.len() - LISTED));
    }
}

impl ForgetReport {
    /// Exports and runs that go, and the lines of the queue.
    fn show_copies(&self, context: &Context, done: &str) {
        for folder in self.copies.iter().take(LISTED) {
            context.ui.out(format!("{} was made of them and {done}", folder.display()));
        }
        if self.copies.len() > LISTED {
            context.ui.out(format!("and {} more; --json lists all", self.copies.len() - LISTED));
        }
        let numbers: Vec<String> =
            self.queue_lines.iter().take(LISTED).map(u64::to_string).collect();
        if !numbers.is_empty() {
            let more =
                if self.queue_lines.len() > LISTED { " and more; --json lists all" } else { "" };
            context.ui.out(format!(
                "the queue is the file of those who write it and still has what they wrote: lines {}{more}",
                numbers.join(", ")
            ));
        }
    }

    /// What still holds the words, and is for a person to remove.
    fn show_what_stays(&self, context: &Context) {
        let files = self.left_in.iter().map(|file| {
            format!("{file} still holds words or names of them; it is not ours to change")
        });
        let all: Vec<String> = files.collect();
        all.iter().take(LISTED).for_each(|told| context.ui.out(told));
        if all.len() > LISTED {
            context.ui.out(format!("and {} more; --json lists all", all.len() - LISTED));
        }
    }
}

/// Asks the service that holds the home. It ends what is under way first, which may take long.
fn ask_service(
    context: &Context,
    access: &mut HomeAccess,
    order: ForgetOrder,
    is_shared: bool,
) -> Result<ForgetReport, Failure> {
    let answer = access.ask(context, &Question::Forget { order })?;
    let HomeAccess::Beside(client) = access else { return Err(held_by_another(context)) };
    let ticket = answer["ticket"].as_u64().unwrap_or_default();
    let bar = context.ui.progress("the service forgets", 1);
    let answer = match is_shared {
        false => answer_to(client, ticket)?,
        true => answer_of_any_leader(context, ticket)?,
    };
    bar.finish_and_clear();
    if answer["failed"].is_object() {
        let failure = Failure::of_json(&answer["failed"]);
        return Err(match is_shared && failure.exit == Exit::Input && follows(client) {
            true => failure.hint(
                "names are looked up on the host that leads; a text that was never summarized is known only where it is: \
                 let that host lead first, with `summarizer cluster promote`",
            ),
            false => failure,
        });
    }
    serde_json::from_value(answer).map_err(|error| {
        Failure::new(Exit::Bug, "cannot read the answer of the service").because(&error)
    })
}

/// What became of the order, from the service that took it.
fn answer_to(client: &mut ControlClient, ticket: u64) -> Result<Value, Failure> {
    loop {
        let answer = client.ask(&Question::ForgetAnswer { ticket }).map_err(|error| {
            Failure::new(Exit::Busy, "the service ended before it said what it forgot")
                .because(&error)
                .hint("run the command again: what was begun is finished first")
        });
        match answer? {
            Answer::Ok(answer) if answer["ticket"].is_null() => return Ok(answer),
            Answer::Ok(_) | Answer::Starting(_) => std::thread::sleep(LOOK_EVERY),
            Answer::Refused(why) | Answer::NotFound(why) => {
                return Err(Failure::new(Exit::Busy, why));
            }
        }
    }
}

/// The same where the host that leads took it. A host that follows hands the question on, and its service starts anew
/// to forget, so the connection ends meanwhile.
fn answer_of_any_leader(context: &Context, ticket: u64) -> Result<Value, Failure> {
    let socket = Home::new(&context.home, &load_config(context)?).socket();
    let mut until = Instant::now() + AWAY_WITHIN;
    loop {
        let asked = ControlClient::connect(&socket)
            .and_then(|mut client| client.ask(&Question::ForgetAnswer { ticket }));
        let ended = |what: &str| {
            Failure::new(Exit::Busy, what.to_owned())
                .hint("run the command again: what was begun is finished first")
        };
        match asked {
            Ok(Answer::Ok(answer)) if answer["ticket"].is_null() => return Ok(answer),
            Ok(Answer::Ok(_) | Answer::Starting(_)) => until = Instant::now() + AWAY_WITHIN,
            Ok(Answer::NotFound(_)) => {
                return Err(ended("another host leads now, and does not know what was forgotten"));
            }
            Ok(Answer::Refused(why)) if Instant::now() >= until => return Err(ended(&why)),
            Err(error) if Instant::now() >= until => {
                let what = "the service ended before it said what was forgotten";
                return Err(ended(what).because(&error));
            }
            Ok(Answer::Refused(_)) | Err(_) => {}
        }
        std::thread::sleep(LOOK_EVERY_IF_SHARED);
    }
}

/// Whether the service follows another host.
fn follows(client: &mut ControlClient) -> bool {
    let status = client.ask(&Question::Status);
    matches!(status, Ok(Answer::Ok(status)) if status["cluster"]["role"] == "follower")
}

/// Carries out an order that a service took. An error of this function leaves the home between two states, and
/// the next command that takes the home finishes the work.
pub(super) fn carry_out(
    context: &Context,
    held: &mut HeldHome,
    order: &ForgetOrder,
) -> Result<Value, Failure> {
    let failure = match forget(context, held, order) {
        Ok(report) => return Ok(json!(report)),
        Err(failure) => failure,
    };
    match forget::unfinished(&mut held.engine).map_err(|error| not_forgotten(&error))? {
        None => Ok(json!({"failed": failure.to_json()})),
        Some(_) => Err(failure),
    }
}

fn forget(
    context: &Context,
    held: &mut HeldHome,
    order: &ForgetOrder,
) -> Result<ForgetReport, Failure> {
    held.refuse_damage(context)?;
    // Names are those of the published summaries, so all of them are published first.
    exporters::write(&held.site(context), None).map_err(|error| exporter_failed(&error))?;
    let bus = open_bus(context).ok();
    let (wanted, old_logs, to_take) = wanted(context, held, bus.as_ref(), order)?;
    let bar = context.ui.progress("looking", 100);
    let found = forget::look(held.engine.log(), &wanted, &mut |part| {
        bar.set_position((part * 100.0) as u64);
    });
    bar.finish_and_clear();
    let mut found = found.map_err(|error| not_forgotten(&error.into()))?;
    let (names, files) = names_of(bus.as_ref(), &found)?;
    found.files.extend(files);
    let waiting = forget::waiting_for(&held.engine, &wanted, &found);
    let waiting = waiting.map_err(|error| not_forgotten(&error.into()))?;
    found.lines.extend(waiting.into_iter().map(|(_, line)| line));
    let old_logs = old_logs.iter().map(|name| held.home.run().join(name)).collect::<BTreeSet<_>>();
    let has_more = !found.lines.is_empty() || to_take > 0;
    if found.is_empty() && !has_more && !old_logs.is_empty() {
        return forget_old_logs(context, order, old_logs);
    }
    if found.is_empty() && !has_more {
        return Err(Failure::new(Exit::Input, "there is nothing to forget")
            .hint("`summarizer read` lists what there is"));
    }
    let mut left_in = left_with_others(context, held, &found)?;
    let back = TakenBack {
        ids: wanted.sources.clone(),
        files: wanted.files.clone(),
        ..TakenBack::default()
    };
    let same_text_in = same_text_elsewhere(held.import_target(context), &back);
    let same_text_in = same_text_in.map_err(|error| not_taken_back(&error))?;
    let copies = held.copies_of(context, &|id| found.summaries.contains_key(id))?;
    left_in.extend(copies.files.iter().map(|path| path.display().to_string()));
    left_in.extend(with_their_words(context, held, bus.as_ref(), (&found, &back), &copies)?);
    // What would leave is counted; what left is known afterwards.
    let (mut records, mut fact) = (to_take, None);
    if !order.dry_run {
        // With what an earlier one left.
        let all = held.make_unreadable(context, &wanted, &found)?;
        records = held.make_anew(context, &all)?;
        let last = forget::last_asked(held.engine.log()).map_err(|error| not_forgotten(&error))?;
        fact = Some(last.0);
    }
    let mut copies = copies.folders;
    copies.extend(old_logs);
    let summaries = found.summaries.into_keys().collect();
    let Traces { sources, bags, answers, runs, runs_beside, lines: queue_lines, .. } = found;
    Ok(ForgetReport {
        summaries,
        sources,
        bags,
        answers,
        records,
        left_in,
        same_text_in,
        queue_lines,
        runs,
        runs_beside,
        copies,
        names,
        fact,
    })
}

/// Removes nothing but old files that a `recover` set aside.
fn forget_old_logs(
    context: &Context,
    order: &ForgetOrder,
    copies: BTreeSet<PathBuf>,
) -> Result<ForgetReport, Failure> {
    for folder in copies.iter().filter(|_| !order.dry_run) {
        context.machine.disk.remove_dir_all(folder).map_err(|error| {
            let what = format!("cannot remove {}", folder.display());
            Failure::new(Exit::Storage, what).because(&error)
        })?;
    }
    Ok(ForgetReport { copies, ..ForgetReport::default() })
}

/// The file in the home that a name means, or none; a name that means several is refused.
fn one_file(context: &Context, held: &HeldHome, name: &str) -> Result<BTreeSet<String>, Failure> {
    let named = files_named(held.import_target(context), name);
    let named = named.map_err(|error| not_taken_back(&error))?;
    if named.len() > 1 {
        let listed: Vec<&str> = named.iter().take(LISTED).map(String::as_str).collect();
        let failure = Failure::new(Exit::Input, format!("{name} names several files"));
        return Err(failure.hint(format!("give more of the name:\n    {}", listed.join("\n    "))));
    }
    Ok(named)
}

/// What the words mean: for the log, and for the partitions of the home.
fn wanted(
    context: &Context,
    held: &HeldHome,
    bus: Option<&SummaryBus>,
    order: &ForgetOrder,
) -> Result<(Wanted, BTreeSet<String>, u64), Failure> {
    let (mut wanted, mut old_logs) = (Wanted::default(), BTreeSet::new());
    let mut unsure = Vec::new();
    for name in &order.names {
        let events = items_of_file(context, name);
        if !events.is_empty() {
            wanted.sources.extend(events);
            // The fact names the file too, so that its name tells what became of it.
            wanted.files.extend(one_file(context, held, name)?);
            continue;
        }
        let items = bus.map_or(Ok(BTreeSet::new()), |bus| items_of_list(bus, name))?;
        if !items.is_empty() {
            wanted.sources.extend(items);
            // The fact names the list too, so that its name tells what became of it.
            wanted.sources.insert(format!("other:{}", name.strip_prefix("other:").unwrap_or(name)));
            continue;
        }
        let folder = name.strip_prefix("run/").unwrap_or(name);
        if folder.starts_with(OLD_LOGS) && is_old_log(context, held, folder)? {
            old_logs.insert(folder.to_owned());
            continue;
        }
        if let Some(word) = name.strip_prefix("quarantine:")
            && word.parse::<u64>().is_err()
        {
            let what = format!("{name}: a quarantined line has a number behind `quarantine:`");
            return Err(Failure::new(Exit::Input, what).hint(QUARANTINE_LISTS));
        }
        let one = match bus {
            Some(bus) => meant(context, bus, name)?,
            None => None,
        };
        match one {
            Some(one) if one.id() == name => {
                wanted.summaries.insert(name.clone());
            }
            Some(one) => want(&mut wanted, &one),
            // A text that was never summarized has an id and a file all the same.
            None => unsure.push(name),
        }
    }
    if let (Some(before), Some(bus)) = (order.before, bus) {
        let zone = held.config.timezone;
        let read = each_newest(bus, VersionChoice::AllVersions, &mut |one| {
            if one.day(zone) < before {
                want(&mut wanted, &one);
            }
            std::ops::ControlFlow::Continue(())
        });
        read.map_err(|error| unread(&error))?;
    }
    if let (false, Some(bus)) = (order.authors.is_empty(), bus) {
        want_of_authors(bus, &order.authors, &mut wanted)?;
    }
    if !unsure.is_empty() {
        want_unsure(context, held, bus, &unsure, &mut wanted)?;
    }
    let authors: BTreeSet<String> = order.authors.iter().cloned().collect();
    let before = order.before.map(|day| (day, held.config.timezone));
    if !authors.is_empty() || before.is_some() {
        let named = LinesNamed { authors, before, ..LinesNamed::default() };
        let lines = forget::lines_named(held.engine.log(), &named);
        wanted.lines.extend(lines.map_err(|error| not_forgotten(&error.into()))?);
    }
    let mut back = TakenBack {
        ids: wanted.sources.clone(),
        files: wanted.files.clone(),
        authors: order.authors.iter().cloned().collect(),
        before: order.before,
        ..TakenBack::default()
    };
    let records = find_taken_back(held.import_target(context), &mut back)
        .map_err(|error| not_taken_back(&error))?;
    wanted.files.extend(back.documents());
    // A session that loses an event loses its summary too.
    wanted.sources.extend(back.ids.into_iter().chain(back.broken));
    Ok((wanted, old_logs, records))
}

/// Whether the home has old files of this name that a `recover` set aside.
fn is_old_log(context: &Context, held: &HeldHome, name: &str) -> Result<bool, Failure> {
    let is_name = !name.contains('/');
    let found = context.machine.disk.stat(&held.home.run().join(name));
    let found = found.map_err(|error| {
        Failure::new(Exit::Storage, format!("cannot look at run/{name}")).because(&error)
    })?;
    Ok(is_name && found.is_some_and(|stat| stat.is_dir))
}

/// Wants what was summarized of texts on the bus `other` that these people wrote: no import has a record of these. A file
/// that is one text or one conversation goes as a whole; of several texts, which may be by others, only the summary goes.
fn want_of_authors(
    bus: &SummaryBus,
    wanted_authors: &[String],
    wanted: &mut Wanted,
) -> Result<(), Failure> {
    let wanted_names: BTreeSet<String> = wanted_authors.iter().map(|one| folded(one)).collect();
    let read = each_newest(bus, VersionChoice::AllVersions, &mut |one| {
        let authors = one.authors();
        let more = one.item.value["selection"]["authors"].as_array().into_iter().flatten();
        let mut names: BTreeSet<String> =
            more.filter_map(Value::as_str).map(str::to_owned).collect();
        names.extend(authors.as_deref().map(Person::names_in).into_iter().flatten());
        let is_other = one.item.upstream_ids().all(|id| id.starts_with("other:"));
        match is_other && !names.is_disjoint(&wanted_names) {
            true if authors.is_some_and(|one| !one.contains(", ")) => want(wanted, &one),
            true => {
                wanted.summaries.insert(one.id().to_owned());
                let ids: BTreeSet<&str> = one.item.upstream_ids().collect();
                if is_one_text(&ids) {
                    wanted.sources.extend(ids.into_iter().map(str::to_owned));
                }
            }
            false => {}
        }
        std::ops::ControlFlow::Continue(())
    });
    read.map_err(|error| unread(&error))
}

/// Whether sources are one file of the bus `other`, or messages of one conversation in a file.
fn is_one_text(ids: &BTreeSet<&str>) -> bool {
    let text = |id: &&str| {
        let (file, item) = parts_of(id);
        // A message has the name of its conversation before its number.
        let talk = item.and_then(|item| item.rsplit_once('#'));
        match (item, talk) {
            (None, _) => Some((file.to_owned(), String::new())),
            (Some(_), Some((talk, _))) => Some((file.to_owned(), talk.to_owned())),
            (Some(item), None) if ids.len() == 1 => Some((file.to_owned(), item.to_owned())),
            (Some(_), None) => None,
        }
    };
    let texts: Option<BTreeSet<(String, String)>> = ids.iter().map(text).collect();
    texts.is_some_and(|texts| texts.len() == 1)
}

/// The summarized items of a list on the bus `other`, by the name of its file.
fn items_of_list(bus: &SummaryBus, name: &str) -> Result<BTreeSet<String>, Failure> {
    let mut items = BTreeSet::new();
    let whole = format!("other:{}", name.strip_prefix("other:").unwrap_or(name));
    // An item by its own name, and the items or messages that it stands for.
    let is_meant = |id: &&str| {
        let rest = id.strip_prefix(&whole);
        rest.is_some_and(|rest| rest.starts_with('#') || rest.is_empty() && whole.contains('#'))
    };
    let read = each_newest(bus, VersionChoice::AllVersions, &mut |one| {
        let ids = one.item.upstream_ids().filter(is_meant);
        items.extend(ids.map(str::to_owned));
        std::ops::ControlFlow::Continue(())
    });
    read.map_err(|error| unread(&error))?;
    Ok(items)
}

/// The one summary that a word means. A summary that was made of summaries has the name of their source, and
/// goes with it.
fn meant(context: &Context, bus: &SummaryBus, name: &str) -> Result<Option<Published>, Failure> {
    let found = named_or_in_file(context, bus, name, VersionChoice::Newest);
    let mut found = found.map_err(|error| unread(&error))?;
    if found.iter().any(|one| one.id() == name) {
        return Ok(found.into_iter().find(|one| one.id() == name));
    }
    found.retain(|one| !is_of_summaries(one));
    let one = match found.len() {
        1 => found.pop(),
        _ => one_named(context, bus, name)?,
    };
    // A part of a name finds a text to read. What is destroyed for ever must be named.
    Ok(one.filter(|one| !is_no_name(name, one)))
}

fn is_of_summaries(one: &Published) -> bool {
    let ids = one.item.value["source_ids"].as_array().into_iter().flatten();
    ids.filter_map(Value::as_str).any(|id| id.starts_with("sum_"))
}

/// Wants a summary's source; of a summary of several sources only itself.
fn want(wanted: &mut Wanted, one: &Published) {
    let item = &one.item.value;
    let origins = item["selection"]["origins"].as_array().into_iter().flatten();
    let files: BTreeSet<String> =
        origins.filter_map(|origin| file_of(origin.as_str()?)).map(str::to_owned).collect();
    let sources = item["source_ids"].as_array().map_or(0, Vec::len);
    if files.len() == 1 || sources == 1 && files.is_empty() {
        wanted.sources.extend(one.item.upstream_ids().map(str::to_owned));
        wanted.files.extend(files);
    } else {
        wanted.summaries.insert(one.id().to_owned());
    }
}

/// Texts that no summary names: by their id, also on the bus `other`, or by their file. The log is read once for
/// all of them.
fn want_unsure(
    context: &Context,
    held: &HeldHome,
    bus: Option<&SummaryBus>,
    names: &[&String],
    wanted: &mut Wanted,
) -> Result<(), Failure> {
    let of_list = |name: &str| format!("other:{name}");
    let ids = names.iter().flat_map(|name| [(*name).clone(), of_list(name)]).collect();
    let known = forget::known_ids(held.engine.log(), &ids);
    let known = known.map_err(|error| not_forgotten(&error.into()))?;
    for name in names {
        let named = one_file(context, held, name)?;
        let ids = [(*name).clone()].into();
        let mut alone = TakenBack { ids, files: named.clone(), ..TakenBack::default() };
        let found = find_taken_back(held.import_target(context), &mut alone);
        let found = found.map_err(|error| not_taken_back(&error))?;
        let id = [(*name).clone(), of_list(name)].into_iter().find(|id| known.contains(id));
        if found == 0 && id.is_none() {
            let named = LinesNamed { ids: [(*name).clone()].into(), ..LinesNamed::default() };
            let lines = forget::lines_named(held.engine.log(), &named);
            let lines = lines.map_err(|error| not_forgotten(&error.into()))?;
            if !lines.is_empty() {
                wanted.lines.extend(lines);
                continue;
            }
            let before = forget::forgotten_at(held.engine.log(), name);
            if let Some(at) = before.map_err(|error| not_forgotten(&error))? {
                return Err(was_forgotten(name, &at.day_in(chrono_tz::UTC).to_string()));
            }
            if let Some(number) = name.strip_prefix("quarantine:") {
                let what = format!("no line in the quarantine has the number {number}");
                return Err(Failure::new(Exit::Input, what).hint(QUARANTINE_LISTS));
            }
            return Err(match bus {
                Some(bus) => unknown_name(bus, name),
                None => Failure::new(Exit::Input, format!("nothing is known of {name}")),
            });
        }
        wanted.sources.insert(id.unwrap_or_else(|| (*name).clone()));
        wanted.files.extend(named);
    }
    Ok(())
}

/// The files of other programs that still hold the texts.
fn left_with_others(
    context: &Context,
    held: &HeldHome,
    found: &Traces,
) -> Result<Vec<String>, Failure> {
    let mut left = Vec::new();
    for file in &found.files {
        if file.starts_with(SUMMARIES_DIR) {
            continue;
        }
        let is_there = context.machine.disk.stat(&held.home.buses.join(file));
        let is_ours = is_ours(held.import_target(context), file);
        if is_there.is_ok_and(|stat| stat.is_some())
            && !is_ours.map_err(|error| not_taken_back(&error))?
        {
            left.push(held.home.buses.join(file).display().to_string());
        }
    }
    Ok(left)
}

/// Files in the home with words of what goes that name no summary, such as a recording of answers, the questions of a batch or
/// a page of `compare`. The file that a person took back is the own one of that person.
fn with_their_words(
    context: &Context,
    held: &HeldHome,
    bus: Option<&SummaryBus>,
    (found, back): (&Traces, &TakenBack),
    known: &WrittenCopies,
) -> Result<Vec<String>, Failure> {
    let mut passages = Passages::default();
    each_text_that_goes(held.import_target(context), back, &mut |text| passages.add(text))
        .map_err(|error| not_taken_back(&error))?;
    if let Some(bus) = bus {
        let read = each_newest(bus, VersionChoice::AllVersions, &mut |one| {
            if found.summaries.contains_key(one.id()) {
                quotes_in(&one.item.value, &mut |quote| passages.add(quote));
            }
            std::ops::ControlFlow::Continue(())
        });
        read.map_err(|error| unread(&error))?;
    }
    if passages.is_empty() {
        return Ok(Vec::new());
    }
    let copies = held.copies_with(context, &|bytes| passages.are_in(bytes))?;
    let disk = &*context.machine.disk;
    let is_own = |path: &PathBuf| back.files.contains(&name_for_home(disk, &held.home.root, path));
    let files = copies.files.iter().filter(|path| !known.files.contains(*path) && !is_own(path));
    let folders = copies.folders.iter().filter(|path| !known.folders.contains(*path));
    Ok(files.chain(folders).map(|path| path.display().to_string()).collect())
}

/// Gives each quote of an item.
fn quotes_in(value: &Value, f: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(members) => {
            members.get("quote").and_then(Value::as_str).into_iter().for_each(&mut *f);
            members.values().for_each(|one| quotes_in(one, f));
        }
        Value::Array(all) => all.iter().for_each(|one| quotes_in(one, f)),
        _ => {}
    }
}

/// The names of the sources of summaries, and their files on the bus `other`.
fn names_of(
    bus: Option<&SummaryBus>,
    found: &Traces,
) -> Result<(BTreeSet<String>, BTreeSet<String>), Failure> {
    let (mut names, mut files) = (BTreeSet::new(), BTreeSet::new());
    let Some(bus) = bus else { return Ok((names, files)) };
    let read = each_newest(bus, VersionChoice::AllVersions, &mut |one| {
        if found.summaries.contains_key(one.id()) {
            let day = text(&one.item.value["day"]);
            names.insert(format!("{day}  {}", one.heading()));
            let other = one.item.upstream_ids().filter_map(|id| id.strip_prefix("other:"));
            files.extend(other.map(|id| format!("{OTHER_DIR}/{}", parts_of(id).0)));
        }
        std::ops::ControlFlow::Continue(())
    });
    read.map_err(|error| unread(&error))?;
    Ok((names, files))
}
