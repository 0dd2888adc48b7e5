//! Memos: a bag rendered for people by a fixed template, without a model.
//!
//! Contract. The text is a function of the bag and of the given items. It has front matter, an
//! overview, the sections of the channel, and the sources with their ids. All text from items is
//! escaped by [`super::markdown`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::markdown::{front, inline, label, one_line, plain, shorten};
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::Stream;
use crate::export::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::facts::digest::{BagType, Channel};

/// Most characters of one summary in a timeline.
const TOLD_CHARS: usize = 300;
/// Most characters of a title or a task.
const LABEL_CHARS: usize = 160;
/// Most characters of a title that is made from the text because the item has no title.
const FIRST_WORDS_CHARS: usize = 60;
/// Most tags in the front matter of a bag that is not about tags.
const FRONT_TAGS: usize = 8;
/// Most tasks, and most achievements, taken from one summary.
const PER_ITEM_MAX: usize = 50;
/// Path from the folder of memos to the bus home.
const BUS_HOME: &str = "../../../../../";
/// Tag values that mark an item as finished.
const FINISHED: &[&str] = &["done", "landed", "shipped", "achievement"];

/// What a memo uses of one summary.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoItem {
    pub summary_id: String,
    pub stream: Stream,
    pub day: Day,
    pub at: Timestamp,
    pub title: String,
    pub text: String,
    pub project: Option<String>,
    pub tags: Vec<String>,
    pub tasks: Vec<String>,
    pub achievements: Vec<String>,
}

impl MemoItem {
    pub fn path(&self) -> String {
        let key = PartitionKey { stream: self.stream, day: self.day };
        format!("{SUMMARIES_DIR}/{}", key.data_file())
    }
}

/// The members of an item's outputs that a memo uses; the others are not parsed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct OutputWords<'a> {
    #[serde(borrow)]
    summary_text: Cow<'a, str>,
    rendered_short: Option<String>,
    actions: Vec<Value>,
    #[serde(borrow)]
    structured: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Structured {
    pending_tasks: Value,
    achievements: Value,
}

/// Title, text, tasks and achievements of an item.
pub fn words(
    title: &str,
    outputs: &OutputWords<'_>,
    tags: &[String],
) -> (String, String, Vec<String>, Vec<String>) {
    let mut title = shorten(&one_line(title), LABEL_CHARS);
    let short = one_line(outputs.rendered_short.as_deref().unwrap_or_default());
    let told = match short.is_empty() {
        true => plain(&shorten(&outputs.summary_text, 8 * TOLD_CHARS)),
        false => short,
    };
    let told = shorten(&told, TOLD_CHARS);
    if title.is_empty() {
        // The first words help a reader more than no title.
        title = shorten(&told, FIRST_WORDS_CHARS);
    }
    // Flows put arbitrary JSON here. Members of another form are ignored.
    let structured = outputs.structured.map(RawValue::get);
    let structured: Structured =
        structured.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut tasks = list(&outputs.actions);
    if tasks.is_empty() {
        tasks = list(members(&structured.pending_tasks));
    }
    let mut achievements = list(members(&structured.achievements));
    let finished = |tag: &String| FINISHED.contains(&super::tags::lexeme(tag));
    if achievements.is_empty() && tags.iter().any(finished) && !title.is_empty() {
        achievements.push(title.clone());
    }
    (title, told, tasks, achievements)
}

fn members(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn list(values: &[Value]) -> Vec<String> {
    let names = ["text", "task", "title", "name", "action"];
    let text = |one: &Value| match one {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) => names.iter().find_map(|name| one[*name].as_str()).map(str::to_owned),
        _ => None,
    };
    let texts = values.iter().filter_map(text);
    let texts = texts.map(|text| shorten(&one_line(&text), LABEL_CHARS));
    texts.filter(|text| !text.is_empty()).take(PER_ITEM_MAX).collect()
}

/// The facts of the bag that a memo shows.
#[derive(Debug, Clone)]
pub struct MemoHeader<'a> {
    pub channel: Channel,
    pub title: &'a str,
    pub description: Option<&'a str>,
    pub tags: &'a [String],
    pub created_at: &'a str,
    pub publish: bool,
    pub bag_id: &'a str,
    pub bag_type: BagType,
    pub window_label: &'a str,
    pub window_title: &'a str,
    pub selector_id: &'a str,
    pub candidates: u64,
    pub selected: usize,
    pub zone: Tz,
}

/// The memo of one channel. `items` are sorted by time.
pub fn render(frame: &MemoHeader<'_>, items: &[&MemoItem]) -> String {
    let mut memo = head(frame, items);
    overview(&mut memo, frame, items);
    match frame.channel {
        Channel::Digest => {
            timeline(&mut memo, frame, items);
            achievements(&mut memo, items);
            tasks(&mut memo, frame, items);
        }
        Channel::Tasks => tasks(&mut memo, frame, items),
        Channel::Achievements => achievements(&mut memo, items),
        Channel::Portfolio => portfolio(&mut memo, frame, items),
    }
    sources(&mut memo, frame, items);
    memo
}

/// Writes one line. Writing into a string cannot fail.
macro_rules! line {
    ($memo:expr $(, $($arg:tt)*)?) => {{
        $(let _ = write!($memo, $($arg)*);)?
        $memo.push('\n');
    }};
}

fn head(frame: &MemoHeader<'_>, items: &[&MemoItem]) -> String {
    let mut memo = String::with_capacity(4096);
    line!(memo, "---");
    line!(memo, "title: {}", front(frame.title));
    let frequent = counted(items.iter().flat_map(|told| told.tags.iter().map(String::as_str)));
    let tags: Vec<String> = match frame.tags {
        [] => frequent.iter().take(FRONT_TAGS).map(|(tag, _)| front(tag)).collect(),
        tags => tags.iter().map(|tag| front(tag)).collect(),
    };
    line!(memo, "tags: [{}]", tags.join(", "));
    line!(memo, "created: {}", front(frame.created_at));
    line!(memo, "publish: {}", frame.publish);
    line!(memo, "bag_id: {}", front(frame.bag_id));
    line!(memo, "bag_type: {}", front(frame.bag_type.as_str()));
    line!(memo, "window_label: {}", front(frame.window_label));
    line!(memo, "selector_id: {}", front(frame.selector_id));
    line!(memo, "channel: {}", front(frame.channel.as_str()));
    line!(memo, "summary_ids_count: {}", items.len());
    line!(memo, "---");
    line!(memo);
    line!(memo, "# {}", label(frame.title, 2 * LABEL_CHARS));
    memo
}

fn overview(memo: &mut String, frame: &MemoHeader<'_>, items: &[&MemoItem]) {
    line!(memo);
    line!(memo, "## Overview");
    line!(memo);
    if let Some(description) = frame.description {
        line!(memo, "{}", inline(description));
        line!(memo);
    }
    line!(memo, "- Window: {}", inline(frame.window_title));
    let selected = numbered(frame.selected, "summary", "summaries");
    match frame.candidates == frame.selected as u64 {
        true => line!(memo, "- {selected}, everything in the window"),
        false => line!(memo, "- {selected}, of {} in the window", frame.candidates),
    }
    if items.len() < frame.selected {
        line!(memo, "- Told here: {}; the others are listed in `meta/trace.json`", items.len());
    }
    if let (Some(first), Some(last)) = (items.first(), items.last()) {
        let day = |told: &MemoItem| told.at.day_in(frame.zone).to_string();
        match day(first) == day(last) {
            true => line!(memo, "- On {}", day(first)),
            false => line!(memo, "- From {} to {}", day(first), day(last)),
        }
    }
    if frame.channel == Channel::Digest {
        let achieved = numbered(achieved(items).len(), "achievement", "achievements");
        let pending = numbered(pending(items).len(), "pending task", "pending tasks");
        line!(memo, "- {achieved}, {pending}");
    }
    let projects = counted(items.iter().filter_map(|told| told.project.as_deref()));
    if !projects.is_empty() {
        line!(memo, "- Projects: {}", spelled(&projects, 20, str::to_owned));
    }
    let tags = counted(items.iter().flat_map(|told| told.tags.iter().map(String::as_str)));
    if !tags.is_empty() {
        line!(memo, "- Tags: {}", spelled(&tags, 12, plain_tag));
    }
}

/// The most frequent topics of some summaries.
pub fn topics(items: &[&MemoItem]) -> Vec<String> {
    let tags = items.iter().flat_map(|told| told.tags.iter());
    let topics = counted(tags.filter_map(|tag| tag.strip_prefix("topic:")));
    topics.into_iter().take(FRONT_TAGS).map(|(topic, _)| topic.to_owned()).collect()
}

/// A count with its noun.
fn numbered(count: usize, one: &str, many: &str) -> String {
    match count {
        0 => format!("no {many}"),
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}

/// A tag for people. The `free` namespace is left out.
fn plain_tag(tag: &str) -> String {
    let (namespace, value) = tag.split_once(':').unwrap_or(("free", tag));
    let value = value.replace('_', " ");
    if namespace == "free" { value } else { format!("{namespace}: {value}") }
}

/// Words with their counts, the most frequent first; ties by word.
fn counted<'a>(words: impl Iterator<Item = &'a str>) -> Vec<(&'a str, u64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn spelled(counts: &[(&str, u64)], most: usize, say: fn(&str) -> String) -> String {
    let mut words: Vec<String> = counts
        .iter()
        .take(most)
        .map(|(word, count)| format!("{} ({count})", label(&say(word), LABEL_CHARS)))
        .collect();
    if counts.len() > most {
        words.push(format!("and {} more", counts.len() - most));
    }
    words.join(", ")
}

fn timeline(memo: &mut String, frame: &MemoHeader<'_>, items: &[&MemoItem]) {
    line!(memo);
    line!(memo, "## Timeline");
    let several = several_projects(items);
    for day in items.chunk_by(|a, b| a.at.day_in(frame.zone) == b.at.day_in(frame.zone)) {
        let Some(first) = day.first() else { continue };
        line!(memo);
        line!(memo, "### {}", first.at.day_in(frame.zone).0.format("%Y-%m-%d, %A"));
        line!(memo);
        for told in day {
            let _ = write!(memo, "- {} **{}**", told.at.clock_in(frame.zone), link(told));
            if let Some(project) = told.project.as_ref().filter(|_| several) {
                let _ = write!(memo, " · {}", label(project, LABEL_CHARS));
            }
            // A title that consists of the first words would repeat them.
            let rest = told.title.strip_suffix('…').map_or(told.title.as_str(), str::trim_end);
            match told.text.strip_prefix(rest) {
                Some(rest) if rest.trim().is_empty() => {}
                _ if told.text.is_empty() => {}
                _ => drop(write!(memo, ": {}", inline(&told.text))),
            }
            line!(memo);
        }
    }
}

/// True when items belong to different projects, so that each needs its project named.
fn several_projects(items: &[&MemoItem]) -> bool {
    items.windows(2).any(|pair| pair[0].project != pair[1].project)
}

fn link(told: &MemoItem) -> String {
    format!("[{}](#{})", label(&told.title, LABEL_CHARS), told.summary_id)
}

/// Folds case and final punctuation, so that two spellings of a task are one.
fn folded(text: &str) -> String {
    text.to_lowercase().trim_end_matches(['.', '!', ' ']).to_owned()
}

/// Achievements without repetitions, each with the first item that names it.
fn achieved<'a>(items: &[&'a MemoItem]) -> Vec<(&'a MemoItem, &'a str)> {
    let mut seen = std::collections::BTreeSet::new();
    let done = items
        .iter()
        .flat_map(|told| told.achievements.iter().map(move |done| (*told, done.as_str())));
    done.filter(|(_, done)| seen.insert(folded(done))).collect()
}

fn achievements(memo: &mut String, items: &[&MemoItem]) {
    line!(memo);
    line!(memo, "## Achievements");
    line!(memo);
    let done = achieved(items);
    if done.is_empty() {
        line!(memo, "Nothing was marked as finished.");
    }
    for (told, done) in done {
        match done == told.title {
            true => line!(memo, "- {}", link(told)),
            false => line!(memo, "- {} ({})", inline(done), link(told)),
        }
    }
}

/// A task with the first item that names it.
struct PendingTask<'a> {
    text: &'a str,
    first: &'a MemoItem,
    again: usize,
}

/// Pending tasks without repetitions, oldest first.
fn pending<'a>(items: &[&'a MemoItem]) -> Vec<PendingTask<'a>> {
    let mut found: Vec<PendingTask<'_>> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for told in items {
        for text in &told.tasks {
            let folded = folded(text);
            match places.get(&folded) {
                Some(place) => found[*place].again += 1,
                None => {
                    places.insert(folded, found.len());
                    found.push(PendingTask { text, first: told, again: 0 });
                }
            }
        }
    }
    found
}

fn tasks(memo: &mut String, frame: &MemoHeader<'_>, items: &[&MemoItem]) {
    line!(memo);
    line!(memo, "## Pending tasks");
    line!(memo);
    let found = pending(items);
    if found.is_empty() {
        line!(memo, "Nothing is left to do.");
    }
    let several = several_projects(items);
    for task in found {
        let day = task.first.at.day_in(frame.zone);
        let _ = write!(memo, "- [ ] {} ({day}, {}", inline(task.text), link(task.first));
        if let Some(project) = task.first.project.as_ref().filter(|_| several) {
            let _ = write!(memo, ", {}", label(project, LABEL_CHARS));
        }
        if task.again > 0 {
            let _ = write!(memo, "; named {} times", task.again + 1);
        }
        line!(memo, ")");
    }
}

fn portfolio(memo: &mut String, frame: &MemoHeader<'_>, items: &[&MemoItem]) {
    let mut projects: BTreeMap<&str, Vec<&MemoItem>> = BTreeMap::new();
    for told in items {
        projects.entry(told.project.as_deref().unwrap_or_default()).or_default().push(told);
    }
    for (project, mut items) in projects {
        line!(memo);
        match project {
            "" => line!(memo, "## Without a project ({})", items.len()),
            project => line!(memo, "## {} ({})", label(project, LABEL_CHARS), items.len()),
        }
        line!(memo);
        items.reverse();
        for told in items {
            line!(memo, "- {}: {}", told.at.day_in(frame.zone), link(told));
        }
    }
}

fn sources(memo: &mut String, frame: &MemoHeader<'_>, items: &[&MemoItem]) {
    line!(memo);
    line!(memo, "## Sources");
    line!(memo);
    line!(memo, "<details>");
    let told = numbered(items.len(), "summary", "summaries");
    line!(memo, "<summary>{told} of bag {}</summary>", frame.bag_id);
    line!(memo);
    for told in items {
        let (id, stream) = (&told.summary_id, told.stream);
        let path = told.path();
        line!(memo, "- <a id=\"{id}\"></a>[{id}]({BUS_HOME}{path}) {stream}, {}", told.day);
    }
    line!(memo);
    line!(memo, "</details>");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(number: u8, ms: i64, item: Value) -> MemoItem {
        let outputs = item["outputs"].to_string();
        let outputs: OutputWords<'_> = serde_json::from_str(&outputs).unwrap();
        let title = item["title"].as_str().unwrap_or_default();
        let (title, text, tasks, achievements) = words(title, &outputs, &[]);
        MemoItem {
            summary_id: format!("sum_{}", format!("{number:02x}").repeat(16)),
            stream: Stream::Sessions,
            day: "2026-02-10".parse().unwrap(),
            at: Timestamp(ms),
            title,
            text,
            project: Some("Site & {shop}".to_owned()),
            tags: vec!["free:web".to_owned()],
            tasks,
            achievements,
        }
    }

    fn frame(channel: Channel) -> MemoHeader<'static> {
        MemoHeader {
            channel,
            title: "Site, week 7 of 2026",
            description: None,
            tags: &[],
            created_at: "2026-02-16T03:00:00.000Z",
            publish: true,
            bag_id: "bag_515cf20752d7a7550c1d2e3f4a5b6c7d",
            bag_type: BagType::Cohort,
            window_label: "2026-W07",
            window_title: "week 7 of 2026",
            selector_id: "project.weekly",
            candidates: 9,
            selected: 2,
            zone: chrono_tz::UTC,
        }
    }

    #[test]
    fn a_digest_memo_has_the_expected_text() {
        let first = json!({"title": "Fix <b>login</b>", "outputs": {
            "summary_text": "### Goal\nMake {login} work.\n\n- done", "actions": ["Write tests.", "1. ship"],
            "structured": {"achievements": ["Login works"]}}});
        let second = json!({"title": "Plan", "outputs": {
            "rendered_short": "A plan.", "actions": [{"text": "write tests"}]}});
        let items = [told(1, 1_770_681_600_000, first), told(2, 1_770_768_000_000, second)];
        let memo = render(&frame(Channel::Digest), &[&items[0], &items[1]]);
        let expected = r##"---
title: "Site, week 7 of 2026"
tags: ["free:web"]
created: "2026-02-16T03:00:00.000Z"
publish: true
bag_id: "bag_515cf20752d7a7550c1d2e3f4a5b6c7d"
bag_type: "cohort"
window_label: "2026-W07"
selector_id: "project.weekly"
channel: "digest"
summary_ids_count: 2
---

# Site, week 7 of 2026

## Overview

- Window: week 7 of 2026
- 2 summaries, of 9 in the window
- From 2026-02-10 to 2026-02-11
- 1 achievement, 2 pending tasks
- Projects: Site &amp; &#123;shop&#125; (2)
- Tags: web (2)

## Timeline

### 2026-02-10, Tuesday

- 00:00 **[Fix &lt;b&gt;login&lt;/b&gt;](#sum_01010101010101010101010101010101)**: Make &#123;login&#125; work. done

### 2026-02-11, Wednesday

- 00:00 **[Plan](#sum_02020202020202020202020202020202)**: A plan.

## Achievements

- Login works ([Fix &lt;b&gt;login&lt;/b&gt;](#sum_01010101010101010101010101010101))

## Pending tasks

- [ ] Write tests. (2026-02-10, [Fix &lt;b&gt;login&lt;/b&gt;](#sum_01010101010101010101010101010101); named 2 times)
- [ ] 1\. ship (2026-02-10, [Fix &lt;b&gt;login&lt;/b&gt;](#sum_01010101010101010101010101010101))

## Sources

<details>
<summary>2 summaries of bag bag_515cf20752d7a7550c1d2e3f4a5b6c7d</summary>

- <a id="sum_01010101010101010101010101010101"></a>[sum_01010101010101010101010101010101](../../../../../summaries/sessions/2026-02-10.sessions.summary.jsonl) sessions, 2026-02-10
- <a id="sum_02020202020202020202020202020202"></a>[sum_02020202020202020202020202020202](../../../../../summaries/sessions/2026-02-10.sessions.summary.jsonl) sessions, 2026-02-10

</details>
"##;
        assert_eq!(memo, expected);
    }

    #[test]
    fn a_memo_of_one_summary_has_no_plurals_and_no_empty_lists() {
        let item = json!({"title": "", "outputs": {
            "summary_text": "Se revisó la migración de la base de datos. ¡Quedó lista!"}});
        let mut item = told(4, 1_770_719_400_000, item);
        item.project = None;
        item.tags = vec!["topic:gestion_agil".to_owned()];
        let mut frame = frame(Channel::Digest);
        (frame.selected, frame.candidates) = (1, 1);
        let memo = render(&frame, &[&item]);
        for line in [
            "- 1 summary, everything in the window",
            "- On 2026-02-10",
            "- no achievements, no pending tasks",
            "- Tags: topic: gestion agil (1)",
            "- 10:30 **[Se revisó la migración de la base de datos. ¡Quedó lista!](#sum_04040404040404040404040404040404)**",
            "Nothing was marked as finished.",
            "Nothing is left to do.",
            "<summary>1 summary of bag bag_515cf20752d7a7550c1d2e3f4a5b6c7d</summary>",
        ] {
            assert!(memo.lines().any(|one| one == line), "{line}\n{memo}");
        }
        assert!(!memo.contains("Projects:") && !memo.contains("untitled"), "{memo}");
    }

    #[test]
    fn a_memo_of_three_hundred_summaries_stays_short() {
        let items: Vec<MemoItem> = (0..300)
            .map(|number| {
                let text = format!("Step {number}. {}", "It went on and on. ".repeat(60));
                let outputs =
                    json!({"summary_text": text, "actions": [format!("task {}", number % 40)]});
                let item = json!({"title": format!("Item {number}"), "outputs": outputs});
                let mut item =
                    told((number % 200) as u8, 1_770_681_600_000 + number * 3_600_000, item);
                item.project = Some(format!("P{}", number % 3));
                item
            })
            .collect();
        let told: Vec<&MemoItem> = items.iter().collect();
        let mut frame = frame(Channel::Digest);
        (frame.selected, frame.candidates) = (500, 900);
        let memo = render(&frame, &told);
        assert!(memo.contains("- 500 summaries, of 900 in the window\n"), "{memo}");
        assert!(memo.contains("- Told here: 300; the others are listed"), "{memo}");
        assert!(memo.contains("- Projects: P0 (100), P1 (100), P2 (100)\n"), "{memo}");
        assert_eq!(memo.matches("\n- [ ] task ").count(), 40, "each task once");
        assert_eq!(memo.matches("\n### ").count(), 13, "one heading a day");
        let longest = memo.lines().map(str::len).max().unwrap();
        assert!(longest < 700 && memo.len() < 300 * 700, "{longest} {}", memo.len());
    }

    #[test]
    fn every_channel_names_its_sources() {
        let item = told(3, 1_770_681_600_000, json!({"title": null, "outputs": {}}));
        for channel in [Channel::Digest, Channel::Tasks, Channel::Achievements, Channel::Portfolio]
        {
            let memo = render(&frame(channel), &[&item]);
            assert!(memo.contains(&format!("<a id=\"{}\">", item.summary_id)), "{memo}");
            assert!(memo.contains("Told here: 1"), "{memo}");
            assert!(memo.contains("\n# Site, week 7 of 2026\n\n## Overview\n"), "{memo}");
        }
    }
}
