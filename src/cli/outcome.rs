//! What came out of some requests, as text: the summaries that were made, each with its source.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::acks::Ended;
use super::prose::Prose;
use super::published::{Published, open_bus, private_mark};
use super::registry::HomeNames;
use super::settings::load_config;
use super::{Context, ui};
use crate::control::question::Question;
use crate::control::socket::ControlClient;
use crate::home::Home;

/// How long a command waits until what it made is published.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks at the published days.
const PAUSE: Duration = Duration::from_millis(100);
/// Summaries that are printed; more are counted.
const SHOWN: usize = 40;
/// Summaries that were there before and that are named.
const EARLIER_NAMED: usize = 5;
/// Most of them that are looked at.
const EARLIER_LOOKED_AT: usize = 500;
/// Lines that are printed of each.
const LINES_SHOWN: usize = 6;

/// The status of a request that made a summary.
const COMPLETED: &str = "completed";
/// The status of a request whose summary was there before.
const DUPLICATE: &str = "duplicate";

/// Summaries that requests ended with, oldest source first.
pub(super) struct Made {
    pub published: Published,
}

impl Made {
    /// Waits until every summary that was made is published. The service publishes in steps, so an ack
    /// comes before its line. Says how many are still missing when it takes too long.
    pub(super) fn wait(context: &Context, ended: &Ended) -> Vec<Made> {
        Made::wait_for(context, ended, &[COMPLETED])
    }

    /// The same with the summaries that were there when they were asked for. They may wait for their
    /// publication too.
    pub(super) fn wait_with_earlier(context: &Context, ended: &Ended) -> Vec<Made> {
        Made::wait_for(context, ended, &[COMPLETED, DUPLICATE])
    }

    fn wait_for(context: &Context, ended: &Ended, statuses: &[&str]) -> Vec<Made> {
        let ids = statuses.iter().flat_map(|status| ended.summaries(status).into_values());
        let wanted = ids.flatten().collect::<BTreeSet<String>>().len();
        // What was forgotten is never published again.
        let wanted = wanted - forgotten_among(context, ended, statuses);
        let (begun, mut is_asked) = (Instant::now(), false);
        loop {
            let found = Made::with_statuses(context, ended, statuses);
            if found.len() >= wanted || context.stop.is_raised() {
                return found;
            }
            if begun.elapsed() >= PATIENCE {
                let left = ui::count(wanted - found.len(), "summary");
                context.ui.complain(format!(
                    "{left} made but not published yet: `summarizer read` shows them after publication"
                ));
                return found;
            }
            if !is_asked {
                ask_to_publish(context);
                is_asked = true;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Reads the summaries that were made. One that is not published yet is left out: its ack is there,
    /// and `read` shows it in a moment.
    pub(super) fn of(context: &Context, ended: &Ended) -> Vec<Made> {
        Made::with_statuses(context, ended, &[COMPLETED])
    }

    fn with_statuses(context: &Context, ended: &Ended, statuses: &[&str]) -> Vec<Made> {
        let Ok(bus) = open_bus(context) else { return Vec::new() };
        let mut made: Vec<Made> = Vec::new();
        let all = statuses.iter().flat_map(|status| ended.summaries(status));
        for ((stream, day), ids) in all {
            let Ok(partition) = bus.partition(stream, day) else { continue };
            let items = partition.items().filter_map(Result::ok);
            let wanted = items.filter(|item| ids.iter().any(|id| id == item.summary_id()));
            let versions = bus.versions(day).unwrap_or_default();
            made.extend(wanted.map(|item| Made { published: Published::new(item, &versions) }));
        }
        made.sort_by_key(|one| {
            (one.published.name(), one.published.at(), one.published.id().to_owned())
        });
        made.dedup_by_key(|one| one.published.id().to_owned());
        made
    }

    pub(super) fn as_json(&self, names: &HomeNames) -> Value {
        let one = &self.published;
        serde_json::json!({
            "summary_id": one.id(), "source": one.name(), "title": one.title(), "day": one.day(names.zone).to_string(),
            "project": one.project(&names.rules), "flow_id": one.flow(), "summary": one.text(),
            "short": one.short(), "private": one.is_private(),
        })
    }
}

/// How many of the summaries that requests ended with a person took back, as the manifests say.
fn forgotten_among(context: &Context, ended: &Ended, statuses: &[&str]) -> usize {
    let Ok(bus) = open_bus(context) else { return 0 };
    let mut gone = BTreeSet::new();
    for ((stream, day), ids) in statuses.iter().flat_map(|status| ended.summaries(status)) {
        let Ok(partition) = bus.partition(stream, day) else { continue };
        let forgotten = partition.manifest["forgotten"].as_array().into_iter().flatten();
        let forgotten: BTreeSet<&str> = forgotten.filter_map(Value::as_str).collect();
        gone.extend(ids.into_iter().filter(|id| forgotten.contains(id.as_str())));
    }
    gone.len()
}

/// Asks the service for a publication. Without an answer, the summaries are shown a little later.
fn ask_to_publish(context: &Context) {
    let Ok(config) = load_config(context) else { return };
    let socket = Home::new(&context.home, &config).socket();
    let _ = ControlClient::connect(&socket).and_then(|mut one| one.ask(&Question::Publish));
}

/// Which summaries that were there before are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    All,
    /// Those that a newer one stands in the place of, as one of another model.
    Replaced,
}

/// Names the summaries that answered requests because they were there before. Where readers show a newer one of the same
/// source, as after a change of the model and back, that is said.
pub(super) fn name_earlier(context: &Context, ended: &Ended, naming: Naming) {
    let count: usize = ended.summaries(DUPLICATE).values().map(Vec::len).sum();
    if context.ui.json || count == 0 || count > EARLIER_LOOKED_AT {
        return;
    }
    let gone = forgotten_among(context, ended, &[DUPLICATE]);
    if gone > 0 {
        let were = if gone == 1 { "was" } else { "were" };
        context.ui.talk(format!(
            "{} {were} forgotten by request and {were} not made again",
            ui::count(gone, "summary")
        ));
    }
    let made = Made::with_statuses(context, ended, &[DUPLICATE]);
    let (replaced, shown): (Vec<&Made>, Vec<&Made>) =
        made.iter().partition(|one| one.published.is_replaced());
    if naming == Naming::All && shown.len() <= EARLIER_NAMED {
        for Made { published: one } in shown {
            context.ui.talk(ui::dim(&format!("as before: {}, {}", one.heading(), one.id())));
        }
    }
    for Made { published: one } in replaced.iter().take(EARLIER_NAMED) {
        let newer = one.replaced_by().map(|newer| format!(", {newer}")).unwrap_or_default();
        context.ui.talk(format!(
            "as before: {}, {}; `read` shows a newer one{newer}; `--again` asks anew",
            one.heading(),
            one.id()
        ));
    }
    if replaced.len() > EARLIER_NAMED {
        context.ui.talk(format!(
            "and {} more of which `read` shows a newer one",
            replaced.len() - EARLIER_NAMED
        ));
    }
}

/// The lines of a text that say something.
pub(super) fn without_headings(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// The first lines of a short form.
pub(super) fn first_lines(prose: Prose, short: &str, indent: &str) -> Vec<String> {
    let mut lines = prose.lines(&without_headings(short), indent);
    if lines.len() > LINES_SHOWN {
        lines.truncate(LINES_SHOWN - 1);
        lines.push(format!("{indent}{}", ui::dim("…")));
    }
    lines
}

/// The name and the first sentences of each.
pub(super) fn made_lines(prose: Prose, made: &[Made]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in made.iter().take(SHOWN) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let mark = private_mark(one.published.is_private());
        lines.extend(prose.name(&one.published.heading(), &mark));
        lines.extend(first_lines(prose, one.published.short(), "  "));
    }
    if made.len() > SHOWN {
        lines.push(ui::dim(&format!("and {} more", made.len() - SHOWN)));
    }
    lines
}
