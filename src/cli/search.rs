//! `search`: words in published summaries, whole words first and then the newest, each hit with its sentence.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::held_home::warn_of_forgetting;
use super::outcome::without_headings;
use super::pager::show;
use super::prose::{Prose, plain, plain_line};
use super::published::{
    AskedDays, Published, VersionChoice, each_newest_of, open_bus, private_mark, unread,
};
use super::read::{forgotten_on, is_same, was_forgotten};
use super::registry::{project_rules, selectors};
use super::settings::load_config;
use super::since::first_day;
use super::{Context, names, ui};
use crate::bus::search::{self, Closeness, Hit, folded, hit_or_row};
use crate::upstream::file_names::{KnownBy, files_with_words};

/// Hits that are shown when no number is given.
const HITS: usize = 20;

/// Find words in summaries: the sentence of each hit, whole words first and then the newest
///
/// All words must occur, in the text or in the names: the title, the file, the folder, the id, the address. A row of a
/// list is found by its title, its id, its address and its other short cells. Case and accents do not matter.
/// Hits with whole words come first, then those with beginnings of words, then those inside words; of each the newest
/// comes first. A number is found in each of its spellings (`1,234.50` and `1234.5`), and in no longer number.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  summarizer search heating
  summarizer search roof offer --since 30d
  summarizer search deposit --project garden")]
pub(crate) struct SearchArgs {
    /// The words
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    /// Only sources since this day or time, or within this time: 2026-02-01, 7d
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only summaries of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Also older versions: summaries that a newer one of the same source and flow replaced
    #[arg(long)]
    all_versions: bool,
    /// The most hits to print; 0 for all
    #[arg(long, value_name = "N", default_value_t = HITS)]
    limit: usize,
}

impl SearchArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let words = search::words(&self.words.join(" "));
        if words.is_empty() {
            return Err(Failure::new(Exit::Usage, "no word to search for was given"));
        }
        let since = self.since.as_deref().map(|when| first_day(context, when)).transpose()?;
        warn_of_forgetting(context);
        let bus = open_bus(context)?;
        let most = if self.limit == 0 { usize::MAX } else { self.limit };
        let rules = match self.project {
            Some(_) => selectors(context)?.rules(),
            None => project_rules(context),
        };
        let config = load_config(context)?;
        let (root, zone) = (context.home.join(&config.bus_home), config.timezone);
        let mut projects = BTreeSet::new();
        let prose = Prose::of_stdout();
        // A mail and a chat have names of their own, and people know their files too. A row of a list has names of its
        // own, and its list has the summary.
        let files = files_with_words(&*context.machine.disk, &root, &words);
        // The hits of each closeness, newest first.
        let mut found: BTreeMap<Closeness, Vec<ShownHit>> = BTreeMap::new();
        let mut more = false;
        let asked = since.map(|first| AskedDays { first, last: None, zone });
        let shown = VersionChoice::of(self.all_versions);
        let read = each_newest_of(&bus, shown, asked, &mut |one| {
            if since.is_some_and(|since| one.day(zone) < since) {
                return ControlFlow::Continue(());
            }
            let project = one.project(&rules);
            if let Some(name) = &self.project {
                let fits = is_same(project.as_deref(), name);
                projects.extend(project.clone());
                if !fits {
                    return ControlFlow::Continue(());
                }
            }
            let Some((closeness, sentence)) = sentence(&one, &words, &files) else {
                return ControlFlow::Continue(());
            };
            let alike = found.entry(closeness).or_default();
            if alike.len() == most {
                more = true;
                // Older summaries can hold the words no better.
                return match closeness {
                    Closeness::Whole => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                };
            }
            alike.push(match context.ui.json {
                true => ShownHit::Json(json!({
                    "summary_id": one.id(), "source": one.name(), "title": one.title(),
                    "day": one.day(zone).to_string(), "undated": !one.has_day(), "project": project, "private": one.is_private(),
                    "sentence": sentence, "replaced_by": one.replaced_by(),
                })),
                false => {
                    let mark = private_mark(one.is_private());
                    let mut day = format!("  {}{mark}", ui::dim(&one.day_shown(zone)));
                    day.extend(one.warnings().iter().map(|warning| ui::dim(&format!("  {warning}"))));
                    let mut lines: Vec<String> = prose.name(&one.heading(), &day).into_iter().collect();
                    lines.extend(prose.wrap(&marked(&sentence, &words), "  ", "  "));
                    ShownHit::Lines(lines)
                }
            });
            ControlFlow::Continue(())
        });
        read.map_err(|error| unread(&error))?;
        let mut all: Vec<ShownHit> =
            Closeness::ALL.iter().filter_map(|one| found.remove(one)).flatten().collect();
        more |= all.len() > most;
        all.truncate(most);
        let (hits, mut lines) = (all.len(), Vec::new());
        for one in all {
            match one {
                ShownHit::Json(value) => context.ui.json(&value),
                ShownHit::Lines(shown) => lines.extend(shown),
            }
        }
        if let Some(name) = &self.project
            && hits == 0
            && !projects.iter().any(|known| is_same(Some(known.as_str()), name))
        {
            return Err(names::unknown("project", name, projects.iter().map(String::as_str)));
        }
        if !context.ui.json {
            let exit = show(context, prose, &lines);
            match (hits, more) {
                (0, _) => {
                    let since = self.since.as_ref().map(|when| format!(" since {when}"));
                    let project = self.project.as_ref().map(|name| format!(" of {name}"));
                    let (since, project) = (since.unwrap_or_default(), project.unwrap_or_default());
                    let words = self.words.join(" ");
                    match forgotten_on(context, &words) {
                        Some(day) => {
                            context.ui.talk(was_forgotten(&words, &day).in_short());
                        }
                        None => {
                            context.ui.talk(format!("no summary{project}{since} holds {words}"));
                        }
                    }
                }
                (_, true) => context.ui.talk(ui::dim("there are more; --limit 0 shows all")),
                _ => context.ui.talk(ui::dim("`summarizer read NAME` shows the whole summary")),
            }
            if hits > 0 {
                return Ok(exit);
            }
        }
        Ok(if hits == 0 { Exit::Wrong } else { Exit::Done })
    }
}

/// A hit as it is printed.
enum ShownHit {
    Json(Value),
    Lines(Vec<String>),
}

/// The sentence that shows a hit, and how it holds the words; a hit in the names shows the beginning.
fn sentence(
    one: &Published,
    words: &[String],
    files: &BTreeMap<String, KnownBy>,
) -> Option<(Closeness, String)> {
    let text = plain(one.long());
    let (name, title, folder) = (one.name(), one.title(), one.folder());
    let known = one.item.upstream_ids().find_map(|id| files.get(id));
    let (names, row) = known.map_or(("", None), |one| (one.names.as_str(), one.row.as_deref()));
    Some(match hit_or_row(&[&name, &title, &folder, names], &text, row, words)? {
        (closeness, Hit::Sentence(sentence)) => (closeness, plain_line(&sentence)),
        (closeness, Hit::Name) => (closeness, plain_line(&without_headings(one.short()))),
    })
}

/// The sentence with the words that were looked for in bold.
fn marked(sentence: &str, words: &[String]) -> String {
    let marked = sentence.split(' ').map(|word| {
        let plain = folded(word);
        let is_hit = words.iter().any(|wanted| search::is_in(&plain, wanted));
        if is_hit { ui::bold(word) } else { word.to_owned() }
    });
    marked.collect::<Vec<_>>().join(" ")
}
