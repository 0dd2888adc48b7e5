//! `read`: published summaries as text.

use std::ops::ControlFlow;

use chrono_tz::Tz;
use clap::Args;
use serde_json::json;

use super::failure::{Exit, Failure};
use super::held_home::warn_of_forgetting;
use super::home_access::HomeAccess;
use super::pager::show;
use super::prose::{Prose, plain_line};
use super::published::{
    AskedDays, PRIVATE, Published, VersionChoice, day_facts, each_newest, each_newest_of, named,
    named_or_in_file, open_bus, unread,
};
use super::registry::{HomeNames, project_rules, selectors};
use super::settings::load_config;
use super::since::first_day;
use super::source_files::known_name;
use super::{Context, names, ui};
use crate::bus::SummaryBus;
use crate::contract::places::folded;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::control::question::Question;
use crate::digest::project::ProjectRules;
use crate::home::Home;

/// Summaries that are shown when nothing else is asked for.
const LAST: usize = 5;
/// Summaries whose files are looked for.
const LOOKED_FOR: usize = 1_000;

/// Read summaries: the text first, the sources below
///
/// A row of a list is named by its title, its id, its address or another short cell; the row is shown below the summary
/// of its list.
///
/// Without an ID, the last line counts the requests that failed or wait. With --json they are one more object:
/// `{"requests": {"failed": 1, "waiting": 2}}`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  summarizer read
  summarizer read bike-repair.md --evidence
  summarizer read --day 2026-02-11
  summarizer read --since 7d
  summarizer read --last 20 --project garden")]
pub(crate) struct ReadArgs {
    /// The name of a source or of its file; a title, an id or an address; a summary id or a request id [default: the
    /// newest summaries]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// The newest N summaries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Only summaries of sources of this day
    #[arg(long, value_name = "DAY")]
    day: Option<Day>,
    /// Only sources since this day or time, or within this time: 2026-02-01, 7d
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only summaries of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only summaries of this flow
    #[arg(long, value_name = "FLOW_ID")]
    flow: Option<String>,
    /// Also older versions: summaries that a newer one of the same source and flow replaced
    #[arg(long)]
    all_versions: bool,
    /// Show everything that the flow wrote
    #[arg(long)]
    long: bool,
    /// Show below each summary the words of the source that support it
    #[arg(long)]
    evidence: bool,
}

/// Which summaries a person wants to see.
struct Filter<'a> {
    day: Option<Day>,
    since: Option<Day>,
    project: Option<&'a str>,
    flow: Option<String>,
    rules: ProjectRules,
    zone: Tz,
}

impl Filter<'_> {
    fn is_any(&self) -> bool {
        self.day.is_some() || self.since.is_some() || self.project.is_some() || self.flow.is_some()
    }

    /// The days that are read. The error for an unknown project needs the projects of all days.
    fn days(&self) -> Option<AskedDays> {
        let first = self.day.into_iter().chain(self.since).max();
        let first = first.filter(|_| self.project.is_none());
        first.map(|first| AskedDays { first, last: self.day, zone: self.zone })
    }

    fn takes(&self, one: &Published) -> bool {
        let day = one.day(self.zone);
        let project = one.project(&self.rules);
        self.day.is_none_or(|wanted| wanted == day)
            && self.since.is_none_or(|since| since <= day)
            && self.project.is_none_or(|name| is_same(project.as_deref(), name))
            && self.flow.as_deref().is_none_or(|flow| one.flow() == flow)
    }
}

impl ReadArgs {
    fn filter(&self, context: &Context) -> Result<Filter<'_>, Failure> {
        let flow = self.flow.as_deref().map(|flow| names::flow_id(context, flow)).transpose()?;
        let since = self.since.as_deref().map(|when| first_day(context, when)).transpose()?;
        let project = self.project.as_deref();
        let rules = match project {
            Some(_) => selectors(context)?.rules(),
            None => project_rules(context),
        };
        let zone = load_config(context)?.timezone;
        Ok(Filter { day: self.day, since, project, flow, rules, zone })
    }

    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        warn_of_forgetting(context);
        // A home without summaries may know the request that is named.
        let known = || self.ids.iter().find_map(|id| summary_of_request(context, id).err());
        // Who names a summary asks for nothing else.
        let missing = if self.ids.is_empty() { Missing::of(context) } else { Missing::default() };
        let bus = open_bus(context).map_err(|failure| {
            missing.tell(context);
            known().unwrap_or(failure)
        })?;
        let filter = self.filter(context)?;
        let mut found = match self.ids.is_empty() {
            true => self.newest(&bus, &filter)?,
            false => self.by_name(context, &bus, &filter)?,
        };
        found.iter_mut().take(LOOKED_FOR).for_each(|one| one.look_for_file(context));
        if context.ui.json {
            found.iter().for_each(|one| context.ui.json(&one.as_json()));
            missing.tell(context);
            return Ok(Exit::Done);
        }
        if found.is_empty() {
            let why = match (self.ids.as_slice(), filter.is_any()) {
                ([first, ..], _) => {
                    format!("no summary of {} fits the other options", plain_line(first))
                }
                ([], true) => nothing_read(&bus, self.day, filter.zone)?,
                ([], false) => {
                    "no summary is published yet; `summarizer add PATH` makes some".to_owned()
                }
            };
            context.ui.talk(why);
            missing.tell(context);
            return Ok(Exit::Done);
        }
        let prose = Prose::of_stdout();
        let names = HomeNames::of(context);
        let mut lines = Vec::new();
        for one in &found {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.extend(summary_lines(prose, one, &names, self.long, self.evidence));
        }
        let exit = show(context, prose, &lines);
        missing.tell(context);
        Ok(exit)
    }

    fn newest(&self, bus: &SummaryBus, filter: &Filter<'_>) -> Result<Vec<Published>, Failure> {
        let all = if filter.is_any() { usize::MAX } else { LAST };
        let most = self.last.map_or(all, |last| last as usize);
        let mut found = Vec::new();
        let mut projects = std::collections::BTreeSet::new();
        let shown = VersionChoice::of(self.all_versions);
        let read = each_newest_of(bus, shown, filter.days(), &mut |one| {
            projects.extend(one.project(&filter.rules));
            if filter.takes(&one) {
                found.push(one);
            }
            match found.len() < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        read.map_err(|error| unread(&error))?;
        if let Some(name) = filter.project
            && found.is_empty()
            && !projects.iter().any(|known| is_same(Some(known.as_str()), name))
        {
            return Err(names::unknown("project", name, projects.iter().map(String::as_str)));
        }
        Ok(found)
    }

    fn by_name(
        &self,
        context: &Context,
        bus: &SummaryBus,
        filter: &Filter<'_>,
    ) -> Result<Vec<Published>, Failure> {
        let (mut found, shown) = (Vec::new(), VersionChoice::of(self.all_versions));
        let mut seen = std::collections::BTreeSet::new();
        for id in &self.ids {
            let named_here = named_or_in_file(context, bus, &known_name(context, id), shown);
            let mut here = named_here.map_err(|error| unread(&error))?;
            if here.is_empty()
                && let Some(summary) = summary_of_request(context, id)?
            {
                here = named(bus, &summary, shown).map_err(|error| unread(&error))?;
            }
            if here.is_empty() {
                return Err(nothing_named(context, bus, id));
            }
            let here = here.into_iter().filter(|one| filter.takes(one));
            let here = here.take(self.last.map_or(usize::MAX, |last| last as usize));
            // Two words may name the same summary.
            found.extend(here.filter(|one| seen.insert(one.id().to_owned())));
        }
        if found.is_empty() && filter.project.is_some() {
            // A project that nothing belongs to may be mistyped.
            self.newest(bus, filter)?;
        }
        Ok(found)
    }
}

/// Requests that a reader might miss among the summaries.
#[derive(Debug, Default)]
struct Missing {
    failed: u64,
    waiting: u64,
}

impl Missing {
    /// A home without a log has no requests, and one that cannot be asked now says nothing.
    fn of(context: &Context) -> Missing {
        Missing::told(context).unwrap_or_default()
    }

    fn told(context: &Context) -> Option<Missing> {
        let home = Home::new(&context.home, &load_config(context).ok()?);
        if !home.exists(context.machine.disk.as_ref()).ok()? {
            return None;
        }
        let mut session = HomeAccess::open(context).ok()?;
        let status = session.ask(context, &Question::Status);
        session.close().ok()?;
        let requests = &status.ok()?["requests"];
        let failures = requests["failures"].as_array().into_iter().flatten();
        Some(Missing {
            failed: failures.filter_map(|kind| kind["requests"].as_u64()).sum(),
            waiting: requests["open"].as_u64().unwrap_or(0),
        })
    }

    fn tell(&self, context: &Context) {
        let Some(line) = self.line() else { return };
        match context.ui.json {
            true => {
                let counts = json!({"failed": self.failed, "waiting": self.waiting});
                context.ui.json(&json!({"requests": counts}));
            }
            false => context.ui.talk(line),
        }
    }

    fn line(&self) -> Option<String> {
        let failed =
            (self.failed > 0).then(|| format!("{} failed", ui::count(self.failed, "request")));
        let waiting = match (self.failed, self.waiting) {
            (_, 0) => None,
            (0, 1) => Some("1 request waits".to_owned()),
            (0, many) => Some(format!("{many} requests wait")),
            (_, 1) => Some("1 waits".to_owned()),
            (_, many) => Some(format!("{many} wait")),
        };
        let parts: Vec<String> = failed.into_iter().chain(waiting).collect();
        let line = format!("{}: `summarizer status` says why", parts.join(", "));
        (!parts.is_empty()).then(|| ui::yellow(&line))
    }
}

/// Why no summary is shown.
fn nothing_read(bus: &SummaryBus, day: Option<Day>, zone: Tz) -> Result<String, Failure> {
    let newest = "no summary matches; `summarizer read` shows the newest".to_owned();
    let Some(day) = day else { return Ok(newest) };
    let facts = day_facts(bus, day, zone).map_err(|error| unread(&error))?;
    let Some((what, advice)) = facts.nothing(day) else {
        let many = ui::count(facts.summaries, "summary");
        return Ok(format!(
            "no summary fits; {many} of {day}: `summarizer read --day {day} --all-versions` shows what is there"
        ));
    };
    let beside = days_beside(bus, day, zone);
    let beside = beside.map(|days| format!("; the nearest days with some: {days}"));
    Ok(format!("{what}\n{advice}{}", beside.unwrap_or_default()))
}

/// The days with summaries just before and just after one that has none.
fn days_beside(bus: &SummaryBus, day: Day, zone: Tz) -> Option<String> {
    let mut days = std::collections::BTreeSet::new();
    for stream in Stream::ALL {
        days.extend(bus.days(*stream).ok()?);
    }
    // A published day may be empty too.
    let has_some = |day: &&Day| day_facts(bus, **day, zone).is_ok_and(|facts| facts.summaries > 0);
    let beside = [days.range(..day).rev().find(has_some), days.range(day..).find(has_some)];
    let beside: Vec<String> = beside.into_iter().flatten().map(Day::to_string).collect();
    (!beside.is_empty()).then(|| beside.join(", "))
}

pub(super) fn is_same(project: Option<&str>, name: &str) -> bool {
    project.is_some_and(|project| folded(project) == folded(name))
}

/// No summary has this name: say when it was forgotten, or which one is nearest.
pub(super) fn nothing_named(context: &Context, bus: &SummaryBus, word: &str) -> Failure {
    match forgotten_on(context, word) {
        Some(day) => was_forgotten(word, &day),
        None => unknown_name(bus, word),
    }
}

/// The day on which a person took back what a word means, where the log can be asked.
pub(super) fn forgotten_on(context: &Context, word: &str) -> Option<String> {
    let mut session = HomeAccess::open(context).ok()?;
    let day = forgotten_in(context, &mut session, word);
    session.close().ok()?;
    day
}

/// The same, asked where the home is open.
pub(super) fn forgotten_in(
    context: &Context,
    session: &mut HomeAccess,
    word: &str,
) -> Option<String> {
    let name = known_name(context, word);
    let answer = session.ask(context, &Question::ForgottenOn { name });
    answer.ok()?["forgotten_on"].as_str().map(str::to_owned)
}

pub(super) fn was_forgotten(word: &str, day: &str) -> Failure {
    Failure::new(Exit::Input, format!("{word} was forgotten on {day}, by request"))
}

/// No summary has this name: say which one is nearest.
pub(super) fn unknown_name(bus: &SummaryBus, word: &str) -> Failure {
    let failure = Failure::new(Exit::Input, format!("no summary is named {word}"));
    match nearest_name(bus, word) {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure.hint("`summarizer read` shows the newest, `summarizer search` finds words"),
    }
}

/// The name of a source that is most like a word, among the newest.
pub(super) fn nearest_name(bus: &SummaryBus, word: &str) -> Option<String> {
    const LOOKED_AT: usize = 2_000;
    let mut known = Vec::new();
    // A bus that cannot be read any more gives no suggestion.
    let _ = each_newest(bus, VersionChoice::Newest, &mut |one| {
        let name = one.name();
        // People type the last part of a path.
        known.extend(name.rsplit_once('/').map(|(_, last)| last.to_owned()));
        known.push(name);
        match known.len() < LOOKED_AT {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    names::nearest_of(word, known.iter().map(String::as_str))
}

/// The summary of a request; `None` when the home does not know the request. A request without a summary is
/// an error that says which state it is in.
pub(super) fn summary_of_request(context: &Context, id: &str) -> Result<Option<String>, Failure> {
    let Ok(mut session) = HomeAccess::open(context) else { return Ok(None) };
    let question =
        Question::Explain { id: id.to_owned(), verify: false, prompts: false, texts: false };
    let answer = session.ask_named(context, &question);
    if session.close().is_err() {
        return Ok(None);
    }
    match answer {
        Ok(explained) => Ok(explained["summary_id"].as_str().map(str::to_owned)),
        Err(failure) if failure.in_short().starts_with("request ") => Err(failure),
        Err(_) => Ok(None),
    }
}

/// One summary as lines: title, text, and where it comes from.
pub(super) fn summary_lines(
    prose: Prose,
    one: &Published,
    names: &HomeNames,
    long: bool,
    evidence: bool,
) -> Vec<String> {
    let text = if long { one.long() } else { one.text() };
    let mut lines = prose.name(&one.heading(), "");
    lines.extend(prose.lines(text, "  "));
    if let Some(row) = &one.row {
        lines.extend(prose.wrap(&plain_line(row), "  row: ", "    "));
    }
    if evidence {
        lines.push(String::new());
        for quote in one.quotes(text) {
            let quote = format!("“{quote}”");
            lines.extend(prose.wrap(&quote, "    ", "    ").iter().map(|line| ui::dim(line)));
        }
    }
    let mut from = vec![one.day_shown(names.zone)];
    from.extend(one.authors().map(|authors| format!("by {authors}")));
    from.extend(one.project(&names.rules).map(|project| plain_line(&project)));
    from.extend(one.is_private().then(|| PRIVATE.to_owned()));
    from.extend(one.warnings());
    if one.item.value["outputs"]["model_generated"] == true {
        let model = &one.item.value["model"]["model_name"];
        from.push(format!("written by {}", super::published::text(model)));
    }
    from.push(one.id().to_owned());
    let from = prose.wrap(&from.join(" · "), "  ", "  ");
    lines.extend(from.iter().map(|line| ui::dim(line)));
    lines
}
