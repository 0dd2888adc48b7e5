//! `digest`: builds, lists, previews, compares and removes bags of summaries.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::failure::{Exit, Failure};
use super::home_access::HomeAccess;
use super::identity::run_id;
use super::interrupt::{listen, stopped};
use super::published::WindowGap;
use super::settings::load_config;
use super::{Context, ui};
use crate::bus::digests::DigestBus;
use crate::contract::time::Day;
use crate::control::question::Question;
use crate::digest::selector::{Selector, SelectorStatus};
use crate::facts::window::Window;
use crate::projections::digester::DigestOrder;

/// Summaries that a preview lists.
const LISTED: usize = 200;
/// Bags that the report of a build names.
const NAMED: usize = 20;

/// Build, read and clean up digests: bags of summaries that selectors choose
#[derive(Debug, Args)]
pub(crate) struct DigestArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build the digests that changed since the last build, and publish them in one step
    Build {
        /// Only this selector, in all its windows
        #[arg(long, value_name = "ID")]
        selector: Option<String>,
        /// Only windows with this label, such as 2026-W07
        #[arg(long, value_name = "LABEL")]
        window: Option<String>,
        /// Build every window, also windows without changes
        #[arg(long)]
        all: bool,
    },
    /// List published bags
    List {
        /// Only bags of this selector
        #[arg(long, value_name = "ID")]
        selector: Option<String>,
        /// Only bags of windows with this label
        #[arg(long, value_name = "LABEL")]
        window: Option<String>,
        /// List the retired bags, which the next gc removes
        #[arg(long)]
        retired: bool,
    },
    /// Print a digest as text
    #[command(after_help = "Examples:
  summarizer digest show
  summarizer digest show tasks
  summarizer digest show 2026-W07
  summarizer digest show overview.daily --day 2026-02-11")]
    Show {
        /// The selector, a word of its id such as `weekly`, or the label of a window [default: overview.daily]
        selector: Option<String>,
        /// The digest whose window holds this day [default: the newest]
        #[arg(long, value_name = "DAY")]
        day: Option<Day>,
        /// The digest of this window, such as 2026-W07
        #[arg(long, value_name = "LABEL", conflicts_with = "day")]
        window: Option<String>,
    },
    /// Show which summaries a selector would choose and drop, and why, without publishing
    Preview {
        /// The selector, or a word of its id
        #[arg(long, value_name = "ID", default_value = super::digest_show::OVERVIEW)]
        selector: String,
        /// The label of the window [default: the newest]
        #[arg(long, value_name = "LABEL")]
        window: Option<String>,
        /// The most summaries to list
        #[arg(long, value_name = "N", default_value_t = LISTED)]
        limit: usize,
    },
    /// Show in which parts two bags differ
    Diff {
        /// The first bag
        first: String,
        /// The second bag
        second: String,
    },
    /// Remove retired bags and the staged files of failed builds
    Gc {
        /// Only print the files that would be removed
        #[arg(long)]
        dry_run: bool,
        /// Also remove folders of bags that no event of the log names; needs --dry-run or --yes
        #[arg(long)]
        orphans: bool,
        /// Remove the orphans that --dry-run listed
        #[arg(long, requires = "orphans", conflicts_with = "dry_run")]
        yes: bool,
    },
}

impl DigestArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let now = context.machine.clock.now();
        match &self.action {
            Action::Build { selector, window, all } => {
                check_label(window.as_deref())?;
                let selector = selector_id(context, selector.as_deref(), true)?;
                check_window(context, selector.as_deref(), window.as_deref())?;
                let label = window.clone();
                let order =
                    DigestOrder::Build { run_id: run_id(now)?, selector, window: label, all: *all };
                listen(context, "the build gives up", || ())?;
                let mut report = carry_out(context, order)?;
                let is_gap = report["windows"] == 0;
                add_gap(context, &mut report, window.as_deref().filter(|_| is_gap))?;
                Ok(tell(context, &report, show_build))
            }
            Action::List { selector, window, retired } => {
                check_label(window.as_deref())?;
                let (selector, window) = (selector.clone(), window.clone());
                let order = DigestOrder::List { selector, window, retired: *retired };
                ask(context, order, show_list)
            }
            Action::Show { selector, day, window } => {
                // No selector begins with a digit, so a label needs no flag.
                let label = selector.as_deref().filter(|word| word.starts_with(char::is_numeric));
                if label.is_some() && (day.is_some() || window.is_some()) {
                    let what = "a window was named twice";
                    return Err(Failure::new(Exit::Usage, what)
                        .hint("`summarizer digest show SELECTOR --window LABEL` names both"));
                }
                let selector = selector.as_deref().filter(|_| label.is_none());
                let window = window.as_deref().or(label);
                check_label(window)?;
                super::digest_show::run(context, selector, *day, window)
            }
            Action::Preview { selector, window, limit } => {
                check_label(window.as_deref())?;
                let selector = selector_id(context, Some(selector), false)?.unwrap_or_default();
                check_window(context, Some(&selector), window.as_deref())?;
                let label = window.clone();
                let order = DigestOrder::Preview { selector, window: label, limit: *limit };
                let answer = carry_out(context, order)?;
                match answer["empty_window"].as_str() {
                    Some(label) => Err(nothing_in_window(context, label, &answer)?),
                    None => Ok(tell(context, &answer, show_preview)),
                }
            }
            Action::Diff { first, second } => {
                let (first, second) = (whole_bag_id(context, first), whole_bag_id(context, second));
                ask(context, DigestOrder::Diff { first, second }, show_diff)
            }
            Action::Gc { dry_run, orphans, yes } => {
                // No event names orphans, so the user must have seen their list.
                let dry_run = *dry_run || (*orphans && !yes);
                let order =
                    DigestOrder::Collect { run_id: run_id(now)?, dry_run, orphans: *orphans };
                ask(context, order, show_gc)
            }
        }
    }
}

/// The selector that a person means. A preview shows those that are not active too. Settings that do not
/// read are refused by the build.
fn selector_id(
    context: &Context,
    word: Option<&str>,
    only_active: bool,
) -> Result<Option<String>, Failure> {
    let (Some(word), Ok(known)) = (word, super::registry::selectors(context)) else {
        return Ok(word.map(str::to_owned));
    };
    let active = || known.active().map(|one| one.selector_id.as_str());
    let (what, ids): (&str, Vec<&str>) = match only_active {
        true => ("active selector", active().collect()),
        false => ("selector", known.all().iter().map(|one| one.selector_id.as_str()).collect()),
    };
    super::digest_show::named(what, &ids, word).map(|id| Some(id.to_owned()))
}

/// Refuses a label that no window can have: it is a typing error, not a window without summaries.
fn check_label(label: Option<&str>) -> Result<(), Failure> {
    match label.filter(|label| Window::type_of_label(label).is_none()) {
        None => Ok(()),
        Some(label) => {
            Err(Failure::new(Exit::Usage, format!("{label:?} is not the label of a window"))
                .hint("labels look like 2026-02-11, 2026-W07, 2026-W07_W08, 2026-02 or all"))
        }
    }
}

/// Refuses a label that no window of the selector, or of any active one, can have. Settings that do not
/// read are refused by the build.
fn check_window(
    context: &Context,
    selector: Option<&str>,
    label: Option<&str>,
) -> Result<(), Failure> {
    let (Some(label), Ok(known)) = (label, super::registry::selectors(context)) else {
        return Ok(());
    };
    let asked = Window::type_of_label(label);
    let meant = |one: &&Selector| match selector {
        Some(id) => one.selector_id == id,
        None => one.status == SelectorStatus::Active,
    };
    let kinds: BTreeSet<&str> =
        known.all().iter().filter(meant).map(|one| one.window.kind.as_str()).collect();
    let is_known = asked.is_some_and(|kind| kinds.contains(kind.as_str()));
    if kinds.is_empty() || is_known {
        return Ok(());
    }
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    let who = selector.map_or("no active selector".to_owned(), |id| format!("{id} never"));
    Err(Failure::new(Exit::Usage, format!("{who} makes a window {label}"))
        .hint(format!("the windows are of the type {kinds}")))
}

/// Builds the digests of a home and returns a report, for commands that also do other work.
pub fn build(context: &Context) -> Result<Value, Failure> {
    let now = context.machine.clock.now();
    let order =
        DigestOrder::Build { run_id: run_id(now)?, selector: None, window: None, all: false };
    carry_out(context, order)
}

fn ask(context: &Context, order: DigestOrder, show: fn(&Context, &Value)) -> Result<Exit, Failure> {
    let answer = carry_out(context, order)?;
    Ok(tell(context, &answer, show))
}

fn tell(context: &Context, answer: &Value, show: fn(&Context, &Value)) -> Exit {
    match context.ui.json {
        true => context.ui.json(answer),
        false => show(context, answer),
    }
    Exit::Done
}

/// Why a preview of a window has nothing to choose from.
fn nothing_in_window(context: &Context, label: &str, answer: &Value) -> Result<Failure, Failure> {
    let config = load_config(context)?;
    let root = context.home.join(&config.bus_home);
    let newest = answer["newest_windows"].as_array().into_iter().flatten();
    let newest: Vec<&str> = newest.filter_map(Value::as_str).collect();
    Ok(Failure::new(Exit::Input, WindowGap::of(&root, label, config.timezone)?.words(label))
        .hint(format!("newest windows with summaries: {}", newest.join(", "))))
}

/// Adds why a window holds no summary: a day that is missing is not a day on which nothing happened.
fn add_gap(context: &Context, answer: &mut Value, label: Option<&str>) -> Result<(), Failure> {
    let Some(label) = label else { return Ok(()) };
    let config = load_config(context)?;
    let root = context.home.join(&config.bus_home);
    let gap = WindowGap::of(&root, label, config.timezone)?;
    answer["gap"] = gap.name().into();
    answer["gap_told"] = gap.words(label).into();
    Ok(())
}

/// Asks the process that holds the home, and waits until it answers.
pub(super) fn carry_out(context: &Context, order: DigestOrder) -> Result<Value, Failure> {
    let mut session = HomeAccess::open(context)?;
    let mut answer = session.ask(context, &Question::Digest { order });
    let bar = context.ui.progress("digests", 1);
    while let Ok(value) = &answer
        && let Some(ticket) = value["ticket"].as_u64()
    {
        let doing = &value["doing"];
        if let Some(of) = doing["of"].as_u64() {
            bar.set_length(of);
            bar.set_position(doing["done"].as_u64().unwrap_or_default());
        }
        if context.stop.is_raised() {
            bar.finish_and_clear();
            let next = "`summarizer digest list` lists what is published";
            return Err(stopped("the service continues the build", next));
        }
        answer = session.ask(context, &Question::DigestAnswer { ticket });
    }
    bar.finish_and_clear();
    session.close()?;
    let answer = answer?;
    match answer["failed"].as_str() {
        None => Ok(answer),
        Some(_) if context.stop.is_raised() => Err(stopped(
            "the published digests are as before",
            "`summarizer digest build` builds them anew",
        )),
        Some(why) if answer["config"] == true => {
            let failure = Failure::new(Exit::Config, format!("cannot use the selectors: {why}"));
            Err(failure.hint("`summarizer registry check` lists the errors of each selector"))
        }
        Some(why) if answer["no_room"] == true => {
            let failure = Failure::new(Exit::Storage, format!("the digests must wait: {why}"));
            Err(failure.hint(
                "free some space; `summarizer digest gc` removes retired bags and what failed builds left",
            ))
        }
        Some(why) => {
            let exit = if answer["storage"] == true { Exit::Storage } else { Exit::Input };
            Err(Failure::new(exit, format!("cannot publish the digests: {why}")).hint(
                "the newest file in artifacts/run_records holds what is needed to reproduce this",
            ))
        }
    }
}

/// The id of the only published bag that begins so; any other word stays as it is.
pub(super) fn whole_bag_id(context: &Context, word: &str) -> String {
    let bags = load_config(context).ok().and_then(|config| {
        let bus = DigestBus::open(&context.home.join(&config.bus_home)).ok()?;
        Some(bus.indexes().ok()?.entries())
    });
    let bags = bags.unwrap_or_default();
    let mut begun = bags.iter().filter(|bag| bag.bag_id.starts_with(word));
    match (begun.next(), begun.next()) {
        (Some(only), None) => only.bag_id.clone(),
        _ => word.to_owned(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn show_build(context: &Context, report: &Value) {
    let count = |name: &str| report[name].as_u64().unwrap_or_default();
    if count("rewritten") > 0 {
        let bags = ui::count(count("rewritten"), "bag");
        let told = "with damaged or missing files, written again from the log";
        context.ui.out(format!("{} {told}", ui::yellow(&bags)));
    }
    if count("removed") > 0 {
        let bags = ui::count(count("removed"), "retired bag");
        context.ui.out(format!("{bags} removed: a source of it is private now"));
    }
    if let Some(gap) = report["gap_told"].as_str() {
        context.ui.out(format!("unchanged: {gap}"));
        return;
    }
    if report["unchanged"] == true && count("windows") == 0 {
        context.ui.out("unchanged: no summary was added since the last build");
        return;
    }
    if report["unchanged"] == true {
        context.ui.out(format!("unchanged: {} windows looked at", count("windows")));
        return;
    }
    let bags = report["bags"].as_array().map(Vec::as_slice).unwrap_or_default();
    for bag in bags.iter().take(NAMED) {
        // Its folder is in `--json` and in `digest list`.
        context.ui.out(format!("  {}", text(&bag[1])));
    }
    if bags.len() > NAMED {
        context.ui.out(format!("and {} more", bags.len() - NAMED));
    }
    context.ui.out(format!(
        "{} published with {}, {} retired, {} restored, in {}",
        ui::green(&ui::count(count("published"), "bag")),
        ui::count(count("memos"), "memo"),
        count("retired"),
        count("restored"),
        ui::count(count("windows"), "window"),
    ));
    context.ui.talk(ui::dim("next: `summarizer digest show` prints the newest overview"));
}

fn show_list(context: &Context, answer: &Value) {
    let rows: Vec<Vec<String>> = answer["bags"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|bag| {
            vec![
                text(&bag["window_label"]).to_owned(),
                text(&bag["selector_id"]).to_owned(),
                text(&bag["group"]).to_owned(),
                bag["selected"].to_string(),
                text(&bag["bag_id"]).to_owned(),
                text(&bag["retired"]).to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return context.ui.talk(
            "no bag is published; `summarizer digest build` builds the digests that changed",
        );
    }
    // Only published bags are found by the beginnings of their ids.
    let retired =
        answer["bags"].as_array().into_iter().flatten().filter(|bag| bag["retired"].is_string());
    let retired: BTreeSet<&str> = retired.map(|bag| text(&bag["bag_id"])).collect();
    let header = ["WINDOW", "SELECTOR", "GROUP", "SUMMARIES", "BAG", "RETIRED"];
    context.ui.table_of_known(&header, &rows, &|id| !retired.contains(id));
}

fn show_preview(context: &Context, answer: &Value) {
    context.ui.out(format!(
        "{} in {}: {} of {} match",
        ui::bold(text(&answer["selector_id"])),
        text(&answer["window"]["label"]),
        answer["matched"],
        ui::told(&answer["candidates"], "summary"),
    ));
    if let Some(left_out) = answer["left_out"].as_str().filter(|left_out| !left_out.is_empty()) {
        context.ui.out(format!("left out: {left_out}"));
    }
    let rows: Vec<Vec<String>> = answer["bags"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|bag| {
            let dropped = bag["dropped"].as_object().into_iter().flatten();
            let dropped: Vec<String> =
                dropped.map(|(reason, count)| format!("{reason} {count}")).collect();
            vec![
                text(&bag["group"]).to_owned(),
                bag["selected"].to_string(),
                text(&bag["standing"]).to_owned(),
                text(&bag["why"]).to_owned(),
                dropped.join(", "),
                text(&bag["bag_id"]).to_owned(),
            ]
        })
        .collect();
    // A bag that is not published yet is found by its whole id.
    let header = ["GROUP", "SUMMARIES", "STANDING", "WHY", "DROPPED", "BAG"];
    context.ui.table_of_known(&header, &rows, &|id| !id.starts_with("bag_"));
    context.ui.out("");
    let rows: Vec<Vec<String>> = answer["summaries"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            let fate = match one["dropped"].as_str() {
                Some(reason) => ui::yellow(reason),
                None => ui::green("selected"),
            };
            let project = match (one["project"].as_str(), one["project_from"].as_str()) {
                (Some(project), Some(from)) => format!("{project} (by {from})"),
                _ => "-".to_owned(),
            };
            let time = match text(&one["ts_abs"]).get(..16) {
                Some(minute) if one["has_clock"] != false => minute.replace('T', " "),
                _ => text(&one["day"]).to_owned(),
            };
            let words = [&time, text(&one["title"]), &project, text(&one["summary_id"])];
            let words = words.map(crate::digest::markdown::one_line);
            std::iter::once(fate).chain(words).collect()
        })
        .collect();
    context.ui.table(&["FATE", "TIME", "TITLE", "PROJECT", "SUMMARY"], &rows);
}

fn show_diff(context: &Context, answer: &Value) {
    if answer["same"] == true {
        context.ui.out("the same bag");
        return;
    }
    let because: Vec<&str> =
        answer["because"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    context.ui.out(format!("they differ in: {}", because.join(", ")));
    for part in ["changes", "selector"] {
        for (name, change) in answer[part].as_object().into_iter().flatten() {
            let (first, second) = (&change["first"], &change["second"]);
            context.ui.out(format!("  {part}.{name}: {first} -> {second}"));
        }
    }
    let summaries = &answer["summaries"];
    context.ui.out(format!("  summaries in common: {}", summaries["common"]));
    for (name, sign) in [("removed", "-"), ("added", "+")] {
        for id in summaries[name].as_array().into_iter().flatten() {
            context.ui.out(format!("  {sign} {}", text(id)));
        }
    }
}

fn show_gc(context: &Context, answer: &Value) {
    let would = answer["dry_run"] == true;
    let mut listed = Vec::new();
    for (name, what) in [
        ("removed", "retired bag"),
        ("staged", "left by a build"),
        ("orphans", "orphan, unknown to the log"),
    ] {
        for one in answer[name].as_array().into_iter().flatten().filter_map(Value::as_str) {
            listed.push(vec![what.to_owned(), one.to_owned()]);
        }
    }
    if would && !listed.is_empty() {
        context.ui.table(&["WHAT", "WHICH"], &listed);
    }
    let count = |name: &str| answer[name].as_array().map_or(0, Vec::len);
    let verb = if would { "would be removed" } else { "removed" };
    context.ui.out(format!(
        "{} retired bags, {} staged folders and {} orphans {verb}",
        count("removed"),
        count("staged"),
        count("orphans"),
    ));
    if would && count("orphans") > 0 {
        context.ui.talk("summarizer digest gc --orphans --yes removes them");
    }
}
