//! `sum`: files, folders or standard input in, readable summaries out. No home and no state.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use clap::{Args, ValueEnum};
use crossbeam_channel::bounded;
use serde_json::{Value, json};

use super::data_rules::{file_places, said_of};
use super::failure::{Exit, Failure};
use super::flow_runner::FlowRunner;
use super::interrupt::{listen, stopped};
use super::outcome::first_lines;
use super::plain::{shows, squeezed};
use super::prose::{Prose, plain_line};
use super::published::private_mark;
use super::settings::load_config;
use super::source_files::{name_not_read, name_skipped, tell_unused};
use super::ui::LiveAnswer;
use super::{Context, names, ui};
use crate::config::{Config, DefaultFlows};
use crate::contract::places::DataPlaces;
use crate::flow::context::Surroundings;
use crate::flow::{EvidenceRef, FlowError, FlowOutcome, TEXT_FROM_SOURCE};
use crate::home::Home;
use crate::import::collect::{Collected, NamedFile, Skipped, collect, in_short, kind_within};
use crate::import::kind::{FileKind, Group, Refusal};
use crate::import::read::Readers;
use crate::import::units::{Unit, each_unit};
use crate::import::{Clock, Report};
use crate::model::Listener;
use crate::os::Open;

/// Units that wait for a free thread.
const WAITING_MAX: usize = 64;
/// Sources without a sentence that are named; the rest is counted.
const UNUSED_NAMED: usize = 8;
/// The name of standard input.
const STDIN: &str = "-";

/// Summarize files, folders or standard input, and print the text
///
/// Needs no home and writes nothing. Kinds of files are recognized by their content: text, Markdown,
/// HTML, LaTeX, Org, PDF, docx, epub, CSV, JSON, mail and mailboxes, exports of ChatGPT, Claude,
/// WhatsApp, Telegram, Slack, Discord and Messenger, RSS, Atom and JSON feeds, calendars, contacts and
/// subtitles. The .zip of an export is read as its unpacked folder. A mail is read with the texts attached to it.
/// Hidden files and links inside a folder are skipped; -v names every file that is skipped.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  summarizer sum report.pdf
  summarizer sum notes --length short
  curl -s https://example.org | summarizer sum -
  summarizer sum notes --together --model ollama")]
pub(crate) struct SumArgs {
    /// Files and folders; `-` reads standard input
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The length of a summary [default: medium, and short for several sources]
    #[arg(long, value_enum)]
    length: Option<Length>,
    /// The provider that answers: a section [provider.NAME] of summarizer.toml, or builtin
    #[arg(long, value_name = "PROVIDER")]
    model: Option<String>,
    /// The flow [default: by the kind of file, see `config`]
    #[arg(long, value_name = "FLOW_ID")]
    flow: Option<String>,
    /// Make one summary for each source; this is the default
    #[arg(long, conflicts_with = "together")]
    each: bool,
    /// Make one summary of all sources, instead of one for each
    #[arg(long)]
    together: bool,
    /// Show below each sentence the words of the source that support it
    #[arg(long)]
    evidence: bool,
}

/// How much of a summary is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Length {
    /// A sentence or two; a text of a few lines is shown whole
    Short,
    /// A paragraph
    Medium,
    /// Everything
    Long,
}

impl SumArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        super::held_home::need_named_folder(context)?;
        let config = names::with_flow_ids(context, load_config(context)?)?;
        listen(context, "what is under way ends first", || ())?;
        let mut work = Sources::of(self, context, &config)?;
        let runners = self.runners(context, &config, &work.collected)?;
        let mut printer = Printer::new(self, context);
        if self.together {
            let units = work.read_all();
            printer.several = units.len() > 1;
            if printer.several {
                printer.files = names_of_parts(&units);
            }
            if let Some(whole) = Unit::together(units) {
                let group = if printer.several { Group::Document } else { whole.kind.group() };
                let live = LiveAnswer::new(&context.ui);
                let outcome = ask(context, &config, &runners[&group], &whole, Some(&live));
                live.bar.finish_and_clear();
                printer.together = true;
                printer.print(&whole, &outcome);
                if let (Ok(outcome), true) = (&outcome, printer.several) {
                    printer.unused(&whole, outcome);
                }
            }
        } else {
            self.each_of(context, &config, &runners, &mut work, &mut printer);
        }
        let (made, left) = (printer.made, work.unread + printer.left);
        let exit = printer.finish(&work.collected.skipped, &work.left_out);
        match context.stop.is_raised() && (made == 0 || left > 0) {
            true => Err(stopped(
                format!("{}, {} left", ui::count(made, "summary"), ui::count(left, "source")),
                "no summary was stored: run it again, or `summarizer add` stores them",
            )),
            false => Ok(exit),
        }
    }

    /// A flow for each group of files that is there.
    fn runners(
        &self,
        context: &Context,
        config: &Config,
        collected: &Collected,
    ) -> Result<BTreeMap<Group, FlowRunner>, Failure> {
        let files = &collected.files;
        let mut groups: Vec<Group> = files.iter().map(|file| file.kind.group()).collect();
        if files.iter().any(|file| file.kind == FileKind::ChatArchive) {
            // It holds files of any kind.
            groups.extend(Group::ALL);
        }
        if self.together {
            groups.push(Group::Document);
        }
        groups.sort();
        groups.dedup();
        let chosen = self.flow.as_deref().map(|flow| names::flow_id(context, flow)).transpose()?;
        let flow = |group| chosen.as_deref().unwrap_or(flow_of(&config.default_flow, group));
        let runner =
            |group| Ok((group, FlowRunner::new(context, flow(group), self.model.as_deref())?));
        groups.into_iter().map(runner).collect()
    }

    /// Reads on one thread, asks on several, and prints in the order of reading.
    fn each_of(
        &self,
        context: &Context,
        config: &Config,
        runners: &BTreeMap<Group, FlowRunner>,
        work: &mut Sources<'_>,
        printer: &mut Printer<'_>,
    ) {
        let free = runners.values().all(FlowRunner::is_free);
        let threads = if free { config.workers } else { config.in_flight_per_provider };
        printer.several = work.may_be_several();
        // Several concurrent answers are counted. A single answer is shown while it arrives.
        let live = (!printer.several).then(|| LiveAnswer::new(&context.ui));
        let files = work.collected.files.len() as u64;
        let bar = match &live {
            Some(live) => live.bar.clone(),
            None => context.ui.progress("reading", files),
        };
        let listener = live.as_ref().map(|live| live as &dyn Listener);
        let (send, receive) = bounded::<(usize, Unit)>(WAITING_MAX);
        let (done, results) = bounded(WAITING_MAX);
        let (asked, left) = (AtomicUsize::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                let (receive, done, left) = (receive.clone(), done.clone(), &left);
                scope.spawn(move || {
                    for (place, unit) in receive {
                        if context.stop.is_raised() {
                            left.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        let outcome =
                            ask(context, config, &runners[&unit.kind.group()], &unit, listener);
                        if done.send((place, unit, outcome)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop((receive, done));
            let reading = scope.spawn(|| {
                let send = send;
                work.each(&mut |unit| {
                    let place = asked.fetch_add(1, Ordering::Relaxed);
                    // Fails only when every asking thread is gone.
                    let _ = send.send((place, unit));
                });
            });
            // A file may hold one source or many: how the first is shown depends on whether there is another.
            let is_alone = || files == 1 && asked.load(Ordering::Relaxed) == 1;
            let (mut next, mut early) = (0, BTreeMap::new());
            for (place, unit, outcome) in results {
                early.insert(place, (unit, outcome));
                while !is_alone()
                    && let Some((unit, outcome)) = early.remove(&next)
                {
                    bar.suspend(|| printer.print(&unit, &outcome));
                    bar.set_length(asked.load(Ordering::Relaxed).max(next + 1) as u64);
                    next += 1;
                    bar.set_position(next as u64);
                }
            }
            drop(reading);
            printer.several &= !is_alone();
            // After an interrupt there are gaps before the last answers.
            for (unit, outcome) in early.values() {
                bar.suspend(|| printer.print(unit, outcome));
            }
        });
        work.unread += left.into_inner();
        bar.finish_and_clear();
    }
}

/// Said where folders hold no file to read.
pub(super) const NOTHING_FOUND: &str = "nothing to summarize was found";

/// The default flow of a group.
pub(super) fn flow_of(flows: &DefaultFlows, group: Group) -> &str {
    match group {
        Group::Document => &flows.document,
        Group::Mail => &flows.mail,
        Group::Chat => &flows.chat,
        Group::Feed => &flows.feed,
    }
}

fn ask(
    context: &Context,
    config: &Config,
    runner: &FlowRunner,
    unit: &Unit,
    listener: Option<&dyn Listener>,
) -> Result<FlowOutcome, FlowError> {
    let today = context.machine.clock.now().day_in(config.timezone);
    let surroundings = Surroundings {
        input: unit.context.clone(),
        day: Some(today.to_string()),
        zone: Some(config.timezone),
        profile: config.profile.clone(),
        private: unit.publish == Some(false),
        condensed: false,
    };
    let data = said_of(config, &unit.places, unit.local_only);
    runner.ask_about(&unit.texts, &surroundings, listener, &data)
}

/// The files, with what was left out so far.
struct Sources<'a> {
    context: &'a Context,
    clock: Clock,
    readers: Readers,
    collected: Collected,
    /// What stands beside the texts: what is attached to mails and has no reader, messages that are not summarized.
    left_out: Report,
    /// Standard input, kept for readers that need a file.
    spooled: Option<tempfile::NamedTempFile>,
    /// Files and sources that an interrupt left out.
    unread: u64,
}

impl<'a> Sources<'a> {
    fn of(args: &SumArgs, context: &'a Context, config: &Config) -> Result<Sources<'a>, Failure> {
        let disk = &*context.machine.disk;
        let mut paths = args.paths.clone();
        if paths.is_empty() {
            if io::stdin().is_terminal() {
                return Err(Failure::new(Exit::Usage, "no file to summarize was named")
                    .hint("name files or folders, or `-` for standard input"));
            }
            paths.push(STDIN.into());
        }
        let (stdin, paths): (Vec<PathBuf>, Vec<PathBuf>) =
            paths.into_iter().partition(|path| path.as_os_str() == STDIN);
        let unread =
            |error| Failure::new(Exit::Input, "cannot read the named files").because(&error);
        let home = Home::new(&context.home, config);
        let mut collected = collect(disk, &home, &paths).map_err(unread)?;
        let mut spooled = None;
        if !stdin.is_empty() {
            let file = spool().map_err(|error| {
                Failure::new(Exit::Input, "cannot read standard input").because(&error)
            })?;
            take_stdin(context, file.path(), &mut collected)?;
            spooled = Some(file);
        }
        let readers = Readers { pdf: config.extract_pdf.clone() };
        let clock = Clock { zone: config.timezone, now: context.machine.clock.now() };
        let left_out = Report::default();
        Ok(Sources { context, clock, readers, collected, left_out, spooled, unread: 0 })
    }

    /// Whether there may be more than one summary.
    fn may_be_several(&self) -> bool {
        let many = |file: &NamedFile| {
            matches!(
                file.kind,
                FileKind::Mailbox
                    | FileKind::ChatGpt
                    | FileKind::Claude
                    | FileKind::ChatJson
                    | FileKind::ChatArchive
                    | FileKind::Json
            )
        };
        self.collected.files.len() > 1 || self.collected.files.iter().any(many)
    }

    fn each(&mut self, take: &mut dyn FnMut(Unit)) {
        let disk = &*self.context.machine.disk;
        for file in &self.collected.files {
            if self.context.stop.is_raised() {
                self.unread += 1;
                continue;
            }
            let (mut skipped, left_out) = (Vec::new(), &mut self.left_out);
            // What comes in without a file has no folder.
            let is_spooled =
                self.spooled.as_ref().is_some_and(|spooled| spooled.path() == file.path);
            let place = match is_spooled {
                true => DataPlaces::default(),
                false => file_places(self.context, &file.path),
            };
            let read = each_unit(disk, &self.readers, file, self.clock, &mut |unit| match unit {
                Ok(mut unit) => {
                    unit.note_places(&place);
                    take(unit);
                }
                Err(why) if why.is_beside() => {
                    left_out.leave_out(&file.name, 1, why);
                }
                Err(why) => skipped.push(Skipped::left_out(file.name.clone(), &why)),
            });
            if let Err(error) = read {
                let why = error.to_string();
                let name = file.name.clone();
                skipped.push(Skipped::whole(name, why, true));
            }
            self.collected.skipped.extend(skipped);
        }
        // It is not needed any more.
        drop(self.spooled.take());
    }

    fn read_all(&mut self) -> Vec<Unit> {
        let mut units = Vec::new();
        self.each(&mut |unit| units.push(unit));
        units
    }
}

/// Standard input as a file, because some readers need one. It goes away with the value.
fn spool() -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    io::copy(&mut io::stdin().lock(), file.as_file_mut())?;
    Ok(file)
}

fn take_stdin(
    context: &Context,
    path: &std::path::Path,
    collected: &mut Collected,
) -> Result<(), Failure> {
    let disk = &*context.machine.disk;
    let unread = |error| Failure::new(Exit::Input, "cannot read standard input").because(&error);
    let file = disk.open(path, Open::Read).map_err(&unread)?;
    let kind = kind_within(&file, std::path::Path::new(""));
    let name = "standard input".to_owned();
    match kind.map_err(unread)? {
        Ok(kind) => {
            collected.files.push(NamedFile { path: path.to_owned(), in_folder: None, name, kind })
        }
        Err(Refusal(why)) => {
            collected.skipped.push(Skipped { named: true, ..Skipped::whole(name, why, false) });
        }
    }
    Ok(())
}

/// Prints each result when it arrives.
struct Printer<'a> {
    context: &'a Context,
    prose: Prose,
    length: Option<Length>,
    evidence: bool,
    several: bool,
    /// One summary of several sources: it is as long as one of a single source, at least.
    together: bool,
    /// The names of these sources, by the ids of their texts.
    files: BTreeMap<String, String>,
    made: u64,
    failed: u64,
    /// Sources that an interrupt left without a summary.
    left: u64,
}

impl<'a> Printer<'a> {
    fn new(args: &SumArgs, context: &'a Context) -> Printer<'a> {
        Printer {
            context,
            prose: Prose::of_stdout(),
            length: args.length,
            evidence: args.evidence,
            several: false,
            together: false,
            files: BTreeMap::new(),
            made: 0,
            failed: 0,
            left: 0,
        }
    }

    fn print(&mut self, unit: &Unit, outcome: &Result<FlowOutcome, FlowError>) {
        let ui = self.context.ui;
        match outcome {
            Ok(outcome) if ui.json => ui.json(&as_json(unit, outcome)),
            Ok(outcome) => self.text(unit, outcome),
            // It was not asked any more.
            Err(_) if self.context.stop.is_raised() => {
                self.left += 1;
                return;
            }
            Err(error) => {
                self.failed += 1;
                if ui.json {
                    ui.json(&json!({
                        "source": unit.name, "kind": unit.kind.name(),
                        "error": error.to_string(), "reason_code": error.reason_code(),
                    }));
                }
                let why = plain_line(&error.to_string());
                ui.complain(format!("{} {}: {why}", ui::red("failed:"), plain_line(&unit.name)));
                return;
            }
        }
        self.made += 1;
    }

    fn text(&self, unit: &Unit, outcome: &FlowOutcome) {
        let ui = self.context.ui;
        let is_list = self.several && !self.together;
        let default = if is_list { Length::Short } else { Length::Medium };
        let length = self.length.unwrap_or(default);
        let text = text_of(outcome, length);
        let indent = if self.several { "  " } else { "" };
        if self.several {
            if self.made > 0 {
                ui.out("");
            }
            let mark = private_mark(unit.publish == Some(false));
            self.prose.name(&unit.name, &mark).iter().for_each(|line| ui.out(line));
        } else if self.prose.is_terminal()
            && let Some(title) = unit.title()
        {
            let mark = private_mark(unit.publish == Some(false));
            ui.out(format!("{}{mark}", ui::bold(&plain_line(title))));
        }
        let lines = match length {
            Length::Short => first_lines(self.prose, &text, indent),
            Length::Medium | Length::Long => self.prose.lines(&text, indent),
        };
        lines.iter().for_each(|line| ui.out(line));
        if outcome.model_generated && outcome.warnings.iter().any(|one| one == TEXT_FROM_SOURCE) {
            let name = plain_line(&unit.name);
            let line =
                format!("warning: {name}: the flow gave no text; this is how the source begins");
            ui.talk(ui::dim(&line));
        }
        if self.evidence {
            let lines = self.evidence_lines(unit, outcome, &text, indent);
            lines.iter().for_each(|line| ui.out(line));
        }
    }

    /// Names the sources that the summary shown rests on no sentence of. A model that quotes nothing gives
    /// no evidence, and nothing is said of it.
    fn unused(&self, unit: &Unit, outcome: &FlowOutcome) {
        let length = self.length.unwrap_or(Length::Medium);
        let text = squeezed(&text_of(outcome, length));
        let shown = outcome.evidence.iter().filter(|one| one.located && shows(&text, &one.quote));
        let used: BTreeSet<&str> = shown.filter_map(|one| one.source_id.as_deref()).collect();
        if used.is_empty() || self.context.ui.json {
            return;
        }
        let sources = &unit.context.sources;
        let unused = sources.iter().enumerate().filter(|(_, one)| !used.contains(one.id.as_str()));
        let rest: Vec<String> = unused
            .map(|(at, source)| {
                let file = self.files.get(&source.id).map(|name| plain_line(name));
                name_of_part(unit, at).or(file).unwrap_or_else(|| plain_line(&source.id))
            })
            .collect();
        let all = sources.len();
        let mut line = format!("{} of {} used", all - rest.len(), ui::count(all as u64, "source"));
        if !rest.is_empty() {
            let more = rest.len().saturating_sub(UNUSED_NAMED);
            line.push_str(&format!("; not used: {}", rest[..rest.len() - more].join(", ")));
            if more > 0 {
                line.push_str(&format!(" and {more} more"));
            }
        }
        self.context.ui.talk(ui::dim(&line));
    }

    /// The words of the sources that sentences rest on, each with its place.
    fn evidence_lines(
        &self,
        unit: &Unit,
        outcome: &FlowOutcome,
        text: &str,
        indent: &str,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let mut told = BTreeSet::new();
        let text = squeezed(text);
        // A shorter form of the summary does not rest on the quotes of a longer one.
        let is_shown = |one: &&EvidenceRef| one.located && shows(&text, &one.quote);
        let shown: Vec<&EvidenceRef> = outcome.evidence.iter().filter(is_shown).collect();
        let all: Vec<&EvidenceRef> = outcome.evidence.iter().filter(|one| one.located).collect();
        // A model that writes sentences of its own repeats no quote.
        for one in if shown.is_empty() { all } else { shown } {
            let (Some(id), Some(start)) = (&one.source_id, one.start) else { continue };
            if !told.insert((id.clone(), start)) {
                continue;
            }
            let Some(at) = unit.texts.iter().position(|text| text.id == *id) else { continue };
            let place = self.place(unit, at, start);
            let first = format!("{indent}  {place}: ");
            let hang = format!("{indent}    ");
            let quote = format!("“{}”", plain_line(&one.quote));
            lines.extend(self.prose.wrap(&quote, &first, &hang).iter().map(|line| ui::dim(line)));
        }
        lines
    }

    /// Where a quote stands that begins at a byte of one of the texts: a line, a part of a file, or a file among several.
    fn place(&self, unit: &Unit, at: usize, start: usize) -> String {
        let before = unit.texts[at].text.get(..start).unwrap_or_default();
        let line = format!("line {}", before.matches('\n').count() + 1);
        let file = self.files.get(&unit.texts[at].id).map(|name| plain_line(name));
        match (name_of_part(unit, at), file) {
            _ if unit.texts.len() == 1 => line,
            (Some(part), Some(file)) if part != file => format!("{part}, {line}"),
            (_, Some(file)) => format!("{file}, {line}"),
            (Some(part), None) => part,
            (None, None) => part_of_chat(unit, at),
        }
    }

    /// The last words: how many, and what was left out.
    fn finish(self, skipped: &[Skipped], left_out: &Report) -> Exit {
        let ui = self.context.ui;
        if ui.json {
            let skipped = skipped.iter().map(|one| json!({"source": one.name, "why": one.told()}));
            let skipped: Vec<Value> = skipped.collect();
            ui.json(&json!({
                "made": self.made, "failed": self.failed, "skipped": skipped,
                "not_read": left_out.not_read, "not_read_omitted": left_out.not_read_omitted,
                "messages_left_out": left_out.messages_left_out, "open_quotes": left_out.open_quotes,
            }));
        } else {
            name_not_read(ui, &left_out.not_read, left_out.not_read_omitted);
            left_out.one_cells().iter().for_each(|told| ui.complain(told));
            tell_unused(ui, left_out.messages_left_out);
            name_skipped(ui, skipped);
            let is_stopped = self.context.stop.is_raised();
            if self.made + self.failed == 0 && skipped.is_empty() {
                // After an interrupt nobody knows what there would have been.
                if !is_stopped {
                    ui.talk(NOTHING_FOUND);
                }
            } else if self.several || !skipped.is_empty() {
                let mut line = ui::count(self.made, "summary");
                if self.failed > 0 {
                    line.push_str(&format!(", {} failed", self.failed));
                }
                if !skipped.is_empty() {
                    line.push_str(&format!("; {}", in_short(skipped)));
                }
                ui.talk(ui::dim(&line));
            }
        }
        let is_told = skipped.iter().any(Skipped::is_told);
        match (self.made, self.failed) {
            // Nobody named a file that cannot be read.
            (0, 0) if !is_told => Exit::Done,
            (0, 0) => Exit::Input,
            (_, 0) if !is_told => Exit::Done,
            _ => Exit::Wrong,
        }
    }
}

/// The text of a summary in a length; a flow that has no such length gives the nearest.
fn text_of(outcome: &FlowOutcome, length: Length) -> String {
    let summary = &outcome.summary;
    // A flow that found nothing says so: how the source begins is no answer of it.
    let found_nothing = outcome.warnings.iter().any(|one| one == TEXT_FROM_SOURCE);
    if let Some(why) = summary.notes.as_ref().filter(|_| found_nothing) {
        return why.clone();
    }
    let whole = &summary.summary_text;
    let long = summary.rendered_long.as_ref();
    match length {
        // A short form that is only the title says nothing of the text: it may be a question of a chat.
        Length::Short => {
            let short = summary.rendered_short.as_ref();
            short.filter(|_| summary.rendered_short != summary.title).unwrap_or(whole).clone()
        }
        Length::Medium => summary.rendered_medium.as_ref().unwrap_or(whole).clone(),
        Length::Long => match long.filter(|long| long.len() >= whole.len()) {
            Some(long) => long.clone(),
            None => whole.clone(),
        },
    }
}

/// The name of one of several texts, where no other has it: a file, or an item with a title. Messages of a chat have none.
fn name_of_part(unit: &Unit, at: usize) -> Option<String> {
    let name = unit.context.sources.get(at)?.name()?;
    let same = unit.context.sources.iter().filter(|one| one.name().as_ref() == Some(&name));
    (same.count() == 1).then(|| plain_line(&name))
}

/// A message by its place and its speaker.
fn part_of_chat(unit: &Unit, at: usize) -> String {
    let speaker = unit.context.sources.get(at).and_then(|source| source.speaker());
    let speaker = speaker.map(|name| format!(" ({})", plain_line(name)));
    format!("part {}{}", at + 1, speaker.unwrap_or_default())
}

/// The names of sources that are put together, by the ids of their texts. A chat gets its name for its id.
fn names_of_parts(units: &[Unit]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for unit in units {
        names.insert(unit.name.clone(), unit.name.clone());
        names.extend(unit.texts.iter().map(|text| (text.id.clone(), unit.name.clone())));
    }
    names
}

fn as_json(unit: &Unit, outcome: &FlowOutcome) -> Value {
    json!({
        "source": unit.name,
        "kind": unit.kind.name(),
        "title": unit.title(),
        "private": unit.publish == Some(false),
        "bytes": unit.bytes(),
        "summary": text_of(outcome, Length::Medium),
        "short": text_of(outcome, Length::Short),
        "long": text_of(outcome, Length::Long),
        "outputs": outcome.summary,
        "structured": outcome.structured,
        "evidence": outcome.evidence,
        "model": outcome.model,
        "model_generated": outcome.model_generated,
        "warnings": outcome.warnings,
    })
}
