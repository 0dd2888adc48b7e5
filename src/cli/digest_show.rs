//! `digest show`: the memos of a bag as text.

use std::path::Path;

use chrono_tz::Tz;
use serde_json::json;

use super::failure::{Exit, Failure};
use super::held_home::{is_home, no_home};
use super::pager::show;
use super::prose::Prose;
use super::published::{PRIVATE, WindowGap, day_facts};
use super::settings::load_config;
use super::{Context, names, ui};
use crate::bus::digests::{BagEntry, DigestBus, Memo};
use crate::bus::{BusError, SummaryBus};
use crate::contract::time::Day;

/// The selector whose memo answers "what happened?".
pub(super) const OVERVIEW: &str = "overview.daily";
/// The first word of the selectors that show everything of a window.
const OVERVIEWS: &str = "overview";
/// The selector that lists the open tasks.
pub(super) const OPEN_TASKS: &str = "tasks.open";
/// Windows on each side of a time that has no digest, as an error names them.
const NEAREST: usize = 2;

/// Shows the newest bags of a selector, or those of the window that holds a day.
pub(super) fn run(
    context: &Context,
    selector: Option<&str>,
    day: Option<Day>,
    window: Option<&str>,
) -> Result<Exit, Failure> {
    if !is_home(context)? {
        return Err(no_home(context, "make one there with `summarizer init`"));
    }
    let config = load_config(context)?;
    let (root, zone) = (context.home.join(&config.bus_home), config.timezone);
    let bus = match (DigestBus::open(&root), day) {
        (Ok(bus), _) => bus,
        (Err(_), Some(day)) if root.exists() => {
            return Err(no_digest_of(&root, selector.unwrap_or(OVERVIEW), (day, zone), None)?);
        }
        (Err(error), _) => return Err(no_digests(&error)),
    };
    let indexes = bus.indexes().map_err(|error| unread(&error))?;
    let bags = indexes.entries();
    let mut selectors: Vec<&str> = bags.iter().map(|bag| bag.selector_id.as_str()).collect();
    selectors.sort_unstable();
    selectors.dedup();
    if selectors.is_empty() {
        return Err(no_digests(&BusError::Missing { path: "index".to_owned() }));
    }
    let wanted = match (selector, window) {
        (Some(word), _) => match named("published digest of selector", &selectors, word) {
            Ok(selector) => selector,
            Err(unknown) => return without_digest(context, word).unwrap_or(Err(unknown)),
        },
        // The weekly overview is about a week, and the daily overview about a day.
        (None, Some(label)) => [OVERVIEW]
            .iter()
            .chain(&selectors)
            .find(|id| bags.iter().any(|bag| bag.selector_id == **id && bag.window_label == label))
            .map_or_else(|| Err(no_digest_of_window(&root, &bags, label, zone)?), Ok)?,
        (None, None) if selectors.contains(&OVERVIEW) => OVERVIEW,
        (None, None) => selectors[0],
    };
    let mut chosen: Vec<&BagEntry> = bags.iter().filter(|bag| bag.selector_id == wanted).collect();
    let known: Vec<&str> = chosen.iter().map(|bag| bag.window_label.as_str()).collect();
    match (window, day) {
        (Some(label), _) => chosen.retain(|bag| bag.window_label == label),
        (None, Some(day)) => chosen.retain(|bag| holds(bag, day)),
        (None, None) => {
            // An appointment of next month is no news: a window that has begun goes before one that has not.
            let today = context.machine.clock.now().day_in(zone).to_string();
            let begun =
                |bag: &&&BagEntry| bag.start_day.as_ref().is_none_or(|first| *first <= today);
            let of_begun = chosen.iter().filter(begun).map(|bag| bag.window_label.clone()).max();
            let of_all = || chosen.iter().map(|bag| bag.window_label.clone()).max();
            let newest = of_begun.or_else(of_all);
            chosen.retain(|bag| Some(&bag.window_label) == newest.as_ref());
        }
    }
    if chosen.is_empty() {
        let time = window.map(str::to_owned).or_else(|| day.map(|day| day.to_string()));
        let time = time.unwrap_or_default();
        let near = format!("its nearest windows: {}", around(known, &time).join(", "));
        if let Some(day) = day {
            return Err(no_digest_of(&root, wanted, (day, zone), Some(&near))?);
        }
        let what = match WindowGap::of(&root, &time, zone)? {
            WindowGap::LeftOut => format!("{wanted} has no digest of {time}"),
            gap => gap.words(&time),
        };
        return Err(Failure::new(Exit::Input, what)
            .hint(format!("`summarizer digest build` builds the digests that changed; {near}")));
    }
    let prose = Prose::of_stdout();
    let mut lines = Vec::new();
    for bag in chosen {
        let read = bus.bag(bag).and_then(|bag| bag.memos()).map_err(|error| unread(&error))?;
        for memo in read {
            if context.ui.json {
                context.ui.json(&json!({
                    "bag_id": bag.bag_id, "selector_id": wanted, "window": bag.window_label,
                    "title": memo.title, "private": memo.is_private(), "markdown": memo.markdown, "path": bag.path,
                }));
                continue;
            }
            if !lines.is_empty() {
                lines.push(String::new());
            }
            if memo.is_private() {
                lines.push(ui::dim(PRIVATE));
            }
            lines.extend(memo_lines(prose, &memo));
        }
    }
    let exit = show(context, prose, &lines);
    if !context.ui.json && selector.is_none() && selectors.len() > 1 {
        context.ui.talk(ui::dim(&format!("other digests: {}", selectors.join(", "))));
    }
    Ok(exit)
}

/// It is not an error when a selector exists but has selected no summary so far.
fn without_digest(context: &Context, word: &str) -> Option<Result<Exit, Failure>> {
    let selectors = super::registry::selectors(context).ok()?;
    let ids: Vec<&str> = selectors.all().iter().map(|one| one.selector_id.as_str()).collect();
    let of_tasks = OPEN_TASKS.split('.').next() == Some(word);
    let known = if of_tasks { OPEN_TASKS } else { named("selector", &ids, word).ok()? };
    let what = match known {
        OPEN_TASKS => "no task is open".to_owned(),
        other => format!("{other} has no digest: no summary matched it at the last build"),
    };
    context.ui.talk(what);
    context.ui.talk(ui::dim(&format!(
        "`summarizer digest build` builds the digests that changed; `summarizer digest preview --selector {known}` \
         shows what it leaves out"
    )));
    Some(Ok(Exit::Done))
}

/// Why a day has no digest: it is missing, it is empty, or it has summaries and no digest yet.
fn no_digest_of(
    root: &Path,
    selector: &str,
    (day, zone): (Day, Tz),
    near: Option<&str>,
) -> Result<Failure, Failure> {
    let near = near.map(|near| format!("; {near}")).unwrap_or_default();
    let facts = SummaryBus::open(root).and_then(|bus| day_facts(&bus, day, zone));
    let facts = facts.map_err(|error| unread(&error))?;
    Ok(match facts.nothing(day) {
        Some((what, advice)) => Failure::new(Exit::Input, what).hint(format!("{advice}{near}")),
        None if facts.private == facts.summaries => {
            let many = ui::count(facts.private, "private summary");
            let what = format!("{day} has only {many}, and no digest of {selector}");
            let why = "a digest shows a private summary (`publish: no`) only when its selector asks for it; \
                       `summarizer read` shows it";
            Failure::new(Exit::Input, what).hint(format!("{why}{near}"))
        }
        None => {
            let many = ui::count(facts.summaries, "summary");
            let what = format!("{day} has {many} and no digest of {selector} yet");
            let build = "`summarizer digest build` builds the digests that changed";
            let why = "`summarizer digest preview` shows what a selector leaves out";
            Failure::new(Exit::Input, what).hint(format!("{build}, {why}{near}"))
        }
    })
}

/// The selector that a person means: its id, or a word of it. Of several with the word it is the overview.
pub(super) fn named<'a>(what: &str, selectors: &[&'a str], word: &str) -> Result<&'a str, Failure> {
    if let Some(exact) = selectors.iter().find(|id| **id == word) {
        return Ok(*exact);
    }
    let holding: Vec<&&str> =
        selectors.iter().filter(|id| id.split('.').any(|one| one == word)).collect();
    let is_overview = |id: &&&&str| id.split('.').next() == Some(OVERVIEWS);
    let overview = holding.iter().find(is_overview).map(|id| **id);
    match (holding.as_slice(), overview) {
        ([only], _) => Ok(**only),
        ([_, _, ..], Some(overview)) => Ok(overview),
        ([_, _, ..], None) => {
            let ids: Vec<&str> = holding.iter().map(|id| **id).collect();
            let what = format!("several have the word {word}: {}", ids.join(", "));
            Err(Failure::new(Exit::Input, what).hint("give the whole id of one"))
        }
        _ => Err(names::unknown(what, word, selectors.iter().copied())),
    }
}

/// No selector has a bag of a window: name the nearest ones of its kind, which has labels of its length.
fn no_digest_of_window(
    root: &Path,
    bags: &[BagEntry],
    label: &str,
    zone: Tz,
) -> Result<Failure, Failure> {
    let labels = bags.iter().map(|bag| bag.window_label.as_str());
    let near = around(labels.filter(|one| one.len() == label.len()).collect(), label);
    let near = match near.is_empty() {
        true => String::new(),
        false => format!("; the nearest windows: {}", near.join(", ")),
    };
    let what = match WindowGap::of(root, label, zone)? {
        WindowGap::LeftOut => format!("no selector has a digest of {label}"),
        gap => gap.words(label),
    };
    Ok(Failure::new(Exit::Input, what)
        .hint(format!("`summarizer digest build` builds the digests that changed{near}")))
}

/// The windows just before and after a time. Labels are written so that their order is that of texts.
fn around<'a>(mut labels: Vec<&'a str>, time: &str) -> Vec<&'a str> {
    labels.sort_unstable();
    labels.dedup();
    let at = labels.partition_point(|label| *label < time);
    labels[at.saturating_sub(NEAREST)..labels.len().min(at + NEAREST)].to_vec()
}

/// Whether the window of a bag has a day. Days are written so that their order is that of texts.
fn holds(bag: &BagEntry, day: Day) -> bool {
    let day = day.to_string();
    bag.start_day.as_ref().is_none_or(|first| *first <= day)
        && bag.end_day.as_ref().is_none_or(|last| day <= *last)
}

/// A memo without front matter, and without the list of sources that programs read.
fn memo_lines(prose: Prose, memo: &Memo) -> Vec<String> {
    let body = crate::markup::markdown::body(&memo.markdown);
    let (mut text, mut folded) = (String::new(), false);
    for line in body.lines() {
        match line.trim() {
            "<details>" => folded = true,
            "</details>" => folded = false,
            _ if folded => {}
            _ => {
                text.push_str(&without_place(&readable(line)));
                text.push('\n');
            }
        }
    }
    let text = text.replace("## Sources\n", "");
    prose.lines(&for_a_reader(&text), "")
}

/// An entry that only counts what other sections say, without where they stand: their order is another one here.
fn without_place(line: &str) -> String {
    let counts = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    match line.strip_suffix(", see below").filter(|_| counts) {
        Some(told) => format!("{told}, in a section of its own"),
        None => line.to_owned(),
    }
}

/// The sections of a memo in the order in which a person wants them: what was decided, what is to do and what is
/// asked, then what happened, and the counts of the overview last.
fn for_a_reader(memo: &str) -> String {
    const FIRST: [&str; 6] =
        ["Decisions", "Open tasks", "Questions", "Achievements", "Timeline", "Closed tasks"];
    let mut starts: Vec<usize> = memo.match_indices("\n## ").map(|(at, _)| at + 1).collect();
    starts.push(memo.len());
    let (head, _) = memo.split_at(starts[0]);
    let mut sections: Vec<&str> = starts.windows(2).map(|two| &memo[two[0]..two[1]]).collect();
    let rank = |section: &&str| {
        let name = section.lines().next().unwrap_or_default().trim_start_matches("## ");
        let place = FIRST.iter().position(|known| *known == name);
        place.unwrap_or(if name == "Overview" { usize::MAX } else { FIRST.len() })
    };
    sections.sort_by_key(rank);
    let sections: Vec<&str> = sections.into_iter().map(str::trim_end).collect();
    format!("{}\n\n{}\n", head.trim_end(), sections.join("\n\n"))
}

/// A line of Markdown without the marks that only a renderer needs.
fn readable(line: &str) -> String {
    let mut out = String::new();
    let unboxed = line.replacen("- [ ] ", "- ", 1);
    let mut rest = unboxed.as_str();
    while let Some(middle) = rest.find("](") {
        // The nearest bracket before it: an earlier one is text, or the box of a task.
        let mut opens = rest[..middle].match_indices('[').map(|(at, _)| at);
        let open = opens.rfind(|at| !rest[..*at].ends_with('\\'));
        let (Some(open), Some(length)) = (open, rest[middle..].find(')')) else { break };
        let end = middle + length;
        out.push_str(&rest[..open]);
        out.push_str(&rest[open + 1..middle]);
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    let mut plain = String::new();
    let mut chars = out.replace("**", "").chars().collect::<Vec<_>>().into_iter().peekable();
    while let Some(c) = chars.next() {
        // A backslash before a mark keeps it from being Markdown, also before another backslash.
        let mark = if c == '\\' { chars.next_if(char::is_ascii_punctuation) } else { None };
        plain.push(mark.unwrap_or(c));
    }
    crate::markup::html::unescape(&plain)
}

fn no_digests(error: &BusError) -> Failure {
    match error {
        BusError::Missing { .. } | BusError::Read { .. } => {
            Failure::new(Exit::Input, "no digest is published yet")
                .hint("`summarizer digest build` builds the digests that changed")
        }
        error => unread(error),
    }
}

fn unread(error: &BusError) -> Failure {
    Failure::new(Exit::Input, "cannot read the digests")
        .because(error)
        .hint("`summarizer verify` names each error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memo_begins_with_what_is_decided_and_to_do_and_ends_with_its_counts() {
        let memo = "# Day\n\n## Overview\n\n- 2 summaries\n\n## Timeline\n\n- a\n\n## Decisions\n\n- b\n\n## Open tasks\n\n- c\n";
        assert_eq!(
            for_a_reader(memo),
            "# Day\n\n## Decisions\n\n- b\n\n## Open tasks\n\n- c\n\n## Timeline\n\n- a\n\n## Overview\n\n- 2 summaries\n"
        );
        let portfolio = "# All\n\n## Overview\n\n- 1\n\n## Garden (1)\n\n- x\n";
        assert!(for_a_reader(portfolio).starts_with("# All\n\n## Garden (1)"));
        assert_eq!(for_a_reader("# Day\n"), "# Day\n\n\n");
    }

    #[test]
    fn a_memo_loses_marks_and_keeps_words() {
        assert_eq!(
            readable(r"- \$3.2\\,mm\$ of a\\\_b \* c\*.txt"),
            r"- $3.2\,mm$ of a\_b * c*.txt"
        );
        assert_eq!(
            readable("- 22:17 **[The plan \\*now\\*](#sum_1)**: see [x](y) and [open"),
            "- 22:17 The plan *now*: see x and [open"
        );
        assert_eq!(
            readable("- &lt;ana&gt; Salt &amp; stone &amp;lt; &#123;x&#125;"),
            "- <ana> Salt & stone &lt; {x}"
        );
        assert_eq!(
            readable("- [ ] Book \\[the\\] car ([Lake](#sum_1); see [x])"),
            "- Book [the] car (Lake; see [x])"
        );
        assert_eq!(
            named("selector", &["overview.daily", "tags.daily", "tasks.open"], "tasks").unwrap(),
            "tasks.open"
        );
        let daily = named("selector", &["overview.daily", "tags.daily"], "daily");
        assert_eq!(daily.unwrap(), "overview.daily");
        let several = named("selector", &["project.daily", "tags.daily"], "daily").unwrap_err();
        assert!(several.in_short().contains("project.daily, tags.daily"), "{}", several.in_short());
        let days = vec!["2026-02-12", "2026-02-09", "2026-02-10", "2026-02-11", "2026-03-01"];
        assert_eq!(around(days, "2026-02-13"), ["2026-02-11", "2026-02-12", "2026-03-01"]);
    }
}
