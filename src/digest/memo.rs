//! Memos: a bag rendered for people by a fixed template, without a model.
//!
//! Contract. The text is a function of the bag and of the given items. It has front matter, an
//! overview, the sections of the channel, and the sources with their names and links. It shows the
//! text of a summary and not only its title. No sentence stands twice. A section has only statements
//! that a flow looked for. All text from items is escaped by [`super::markdown`].
//!
//! See docs/adr/0096-what-memos-say-and-when-a-task-closes.md.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::answers::{answered_by_reply, open_in_talk, says_no_more};
use super::library::{COLUMNS, thread_of};
use super::markdown::{address, front, inline, label, one_line, plain_apart, shorten};
use super::open_tasks::Closing;
use super::project::scalar;
use super::said::{
    folded, is_question, name_before, run_told, sentences, with_antecedents, without_rules,
    without_salutation,
};
use super::tasks::{
    Closed, FoundTask, PER_ITEM_MAX, TaskMembers, day_in_brackets, is_message, is_talk, task_id,
    task_key,
};
use crate::contract::publish::without_reply_marks;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::Stream;
use crate::export::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::facts::digest::{BagType, Channel};
use crate::model::builtin::done::{SaidDone, all_told, closes, unlabelled, without_done};
use crate::model::builtin::fill::due::names_last_day;
use crate::model::builtin::fill::{due, signals};
use crate::model::builtin::text::decisions::states_decision;
use crate::model::builtin::text::footers::ends_subscription;
use crate::model::builtin::text::lines::lists_attendance;

/// Most characters of one summary in a timeline.
const TOLD_CHARS: usize = 420;
/// Most characters of a text that sentences are read from.
const READ_CHARS: usize = 8_000;
/// Most characters of a title, a task, a decision or a question.
const LABEL_CHARS: usize = 160;
const LINE_CHARS: usize = 240;
/// Most characters of a title that is made from the text because the item has no title.
const FIRST_WORDS_CHARS: usize = 60;
/// Most tags in the front matter of a bag that is not about tags.
const FRONT_TAGS: usize = 8;
/// Most words of a title that is a name and no beginning of a sentence.
const NAME_WORDS_MAX: usize = 4;
/// Most decisions, and most questions, taken from one summary.
const FEW: usize = 5;
/// Path from the folder of memos to the bus home.
const BUS_HOME: &str = "../../../../../";
/// Tag values that mark an item as finished.
const FINISHED: &[&str] = &["done", "landed", "shipped", "achievement"];
/// Files of the bus home that are a person's own texts.
const OWN_FILES: &str = "other:";

/// A task of a summary.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoTask {
    pub(crate) id: u64,
    pub(crate) text: String,
    pub(crate) due: Option<String>,
    /// Why it is not open.
    pub(crate) closed: Option<Closed>,
}

impl MemoTask {
    /// A task without a day from its flow has the day that its words name, counted from the day on which
    /// it was written.
    pub(crate) fn read_due(&mut self, written: Day) {
        if self.due.is_none() {
            self.due = due::day_in(&self.text, written.0).map(|day| day.to_string());
        }
    }
}

/// What a memo uses of one summary.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoItem {
    pub summary_id: String,
    pub stream: Stream,
    pub day: Day,
    pub at: Timestamp,
    /// Whether its source has a time of day.
    pub(crate) has_clock: bool,
    /// Whether its source has a date at all.
    pub(crate) has_day: bool,
    /// What the entry is called: the title where it adds something, else the name of the source.
    pub title: String,
    /// Whether the title is that of a job, which a flow read in a posting.
    pub(crate) is_job: bool,
    /// What it is about: its sources. Summaries of the same sources are one entry.
    pub(crate) about: String,
    /// The text says no more than how a flow classified it.
    pub(crate) is_class: bool,
    /// The name a person knows the source by.
    pub(crate) source: Option<String>,
    /// When it began, in a memo with several sources of its name.
    pub(crate) began: Option<String>,
    /// Where a person finds it: an address, or a file of the bus home.
    pub(crate) link: Option<String>,
    pub text: String,
    pub project: Option<String>,
    pub tags: Vec<String>,
    pub(crate) tasks: Vec<MemoTask>,
    /// Its sentences that close tasks of other texts, each with its task.
    pub(crate) finished: Vec<(u64, String)>,
    /// Whether the flow looked for tasks.
    pub(crate) looked: bool,
    /// Whether nobody should act on it: its sender is unknown, or it reads like a fraud.
    pub(crate) is_doubtful: bool,
    pub achievements: Vec<String>,
    pub(crate) decisions: Vec<String>,
    pub(crate) questions: Vec<String>,
    /// What its replies share with it.
    pub(crate) thread: u64,
    /// All that it says, for questions of its thread.
    pub(crate) said: Vec<String>,
}

impl MemoItem {
    /// Takes over what another summary of the same sources says. The text of the better one stays.
    fn join(&mut self, other: &MemoItem) {
        let rank = |told: &MemoItem| (!told.is_class, told.text.chars().count());
        let takes_title = match (self.is_job, other.is_job) {
            (true, false) => false,
            (false, true) => true,
            _ => rank(other) > rank(self),
        };
        if takes_title {
            self.title.clone_from(&other.title);
            self.is_job = other.is_job;
        }
        if rank(other) > rank(self) {
            self.text.clone_from(&other.text);
            self.summary_id.clone_from(&other.summary_id);
            self.is_class = other.is_class;
        }
        self.source = self.source.take().or_else(|| other.source.clone());
        self.link = self.link.take().or_else(|| other.link.clone());
        self.project = self.project.take().or_else(|| other.project.clone());
        self.looked |= other.looked;
        self.is_doubtful |= other.is_doubtful;
        for task in &other.tasks {
            let known = self.tasks.iter_mut().find(|one| folded(&one.text) == folded(&task.text));
            match known {
                Some(known) => known.due = known.due.take().or_else(|| task.due.clone()),
                None => self.tasks.push(task.clone()),
            }
        }
        let new = other.finished.iter().filter(|one| !self.finished.contains(one)).cloned();
        let new: Vec<(u64, String)> = new.collect();
        self.finished.extend(new);
        let lists = [
            (&mut self.said, &other.said),
            (&mut self.achievements, &other.achievements),
            (&mut self.decisions, &other.decisions),
            (&mut self.questions, &other.questions),
            (&mut self.tags, &other.tags),
        ];
        for (own, more) in lists {
            let new: Vec<String> = more.iter().filter(|one| !own.contains(one)).cloned().collect();
            own.extend(new);
        }
    }

    /// Finds the sentences that close tasks of other texts. Only its own words are shown: those of the other text may
    /// be taken back without this one.
    pub(crate) fn finish(&mut self, closings: &[Closing]) {
        for closing in closings {
            let told = |sentence: &str| all_told(&[sentence]).collect::<Vec<SaidDone>>();
            let names_it = |sentence: &&String| {
                let closes_it = |told: &SaidDone| {
                    closing.parts.iter().any(|part| closes(part, told) || part.is_meant_by(told))
                };
                task_key(self.thread, without_done(sentence)) == closing.task
                    || told(sentence).iter().any(closes_it)
            };
            let is_bare = |sentence: &&String| told(sentence).iter().any(SaidDone::is_bare);
            let said = self.said.iter().find(names_it);
            if let Some(sentence) = said.or_else(|| self.said.iter().find(is_bare)) {
                self.finished.push((closing.task, shorten(sentence, LINE_CHARS)));
            }
        }
    }

    /// Leaves out of the text what another flow found to be a task, a decision or a question, unless that
    /// is all it says.
    fn say_once(&mut self) {
        let asked: BTreeSet<String> = self.tasks.iter().map(|task| folded(&task.text)).collect();
        self.questions.retain(|one| !asked.contains(&folded(one)));
        let tasks = self.tasks.iter().map(|task| &task.text);
        let elsewhere: BTreeSet<String> =
            tasks.chain(&self.decisions).chain(&self.questions).map(|one| folded(one)).collect();
        let all = sentences(&self.text);
        let kept = with_antecedents(&all, |one| !is_among(&elsewhere, one));
        if !kept.is_empty() && kept.len() < all.len() {
            self.text = kept.join(" ");
        }
    }

    /// The name of its source, as `read` shows it.
    pub(crate) fn name(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.title)
    }

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
    rendered_short: Value,
    summary: Value,
    actions: Value,
    #[serde(borrow)]
    structured: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Structured {
    achievements: Value,
    decisions: Value,
    questions: Value,
    open_questions: Value,
    /// The job of a posting. A flow that reads one gives no other title.
    job_title: Value,
    /// What a pipeline run was, and how it ended.
    what_ran: Value,
    status: Value,
}

/// One entry for each source: what several flows say of it together, in the place of the first.
fn by_source(items: &[&MemoItem]) -> Vec<MemoItem> {
    let mut entries: Vec<MemoItem> = Vec::with_capacity(items.len());
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for told in items {
        match places.get(told.about.as_str()).filter(|_| !told.about.is_empty()) {
            Some(place) => entries[*place].join(told),
            None => {
                places.insert(&told.about, entries.len());
                entries.push((*told).clone());
            }
        }
    }
    entries.iter_mut().for_each(MemoItem::say_once);
    leave_open(&mut entries);
    entries
}

/// Gives sources of one name, as sessions of a chat, the time that tells them apart.
fn tell_apart(entries: &mut [MemoItem], zone: Tz) {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for told in entries.iter() {
        *counts.entry(told.name().to_owned()).or_default() += 1;
    }
    for told in entries.iter_mut().filter(|told| told.has_clock && counts[told.name()] > 1) {
        let day = told.at.day_in(zone);
        told.began = Some(format!("{day} {}", told.at.clock_in(zone)));
    }
}

/// Leaves each entry the questions that no later entry of its thread answers.
fn leave_open(entries: &mut [MemoItem]) {
    for place in 0..entries.len() {
        let (before, later) = entries.split_at_mut(place + 1);
        let asking = &mut before[place];
        let thread = asking.thread;
        let replies = || later.iter().filter(|reply| reply.thread == thread);
        asking.questions.retain(|one| !replies().any(|reply| answered_by_reply(one, &reply.said)));
    }
}

/// A form of a summary for people: without the classes that a flow writes before it, `archive / other:`,
/// and without the days of tasks, which their section shows. Also whether there were classes.
fn spoken(form: &str, structured: &str, has_tasks: bool) -> (String, bool) {
    let (head, rest) = form.split_once(": ").unwrap_or((form, ""));
    let classes: Vec<&str> = head.split(" / ").collect();
    let is_class = |word: &&str| structured.contains(&Value::from(*word).to_string());
    let is_classified = classes.len() > 1 && classes.iter().all(is_class);
    let text = if is_classified { rest } else { form };
    match has_tasks {
        true => (without_days(text), is_classified),
        false => (text.to_owned(), is_classified),
    }
}

/// The text without days in brackets: `Send it. (2026-03-10)`. A time says more than the day of a task.
fn without_days(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(day) = day_in_brackets(rest) {
        let (before, behind) = (&rest[..day.start], &rest[day.end..]);
        if day.len() > "(2026-03-10)".len() {
            kept.push_str(&rest[..day.end]);
            rest = behind;
            continue;
        }
        kept.push_str(before.trim_end());
        rest = match kept.is_empty() {
            true => behind.trim_start_matches([';', ',', ' ']),
            false => behind,
        };
    }
    kept.push_str(rest);
    kept
}

/// What an item says, for a memo.
pub(crate) struct Words {
    pub is_class: bool,
    pub is_job: bool,
    pub title: String,
    pub source: Option<String>,
    pub link: Option<String>,
    pub text: String,
    pub tasks: Vec<MemoTask>,
    pub looked: bool,
    pub is_doubtful: bool,
    pub achievements: Vec<String>,
    pub decisions: Vec<String>,
    pub questions: Vec<String>,
    pub thread: u64,
    pub said: Vec<String>,
}

/// Reads an item's outputs.
pub(crate) fn words(
    title: &str,
    outputs: &OutputWords<'_>,
    tags: &[String],
    meta: &Map<String, Value>,
    (origins, source_ids): (&[String], &[String]),
) -> Words {
    // Flows put arbitrary JSON here. Members of another form are ignored.
    let written = outputs.structured.map_or("null", RawValue::get);
    let structured = written;
    let members: TaskMembers = serde_json::from_str(structured).unwrap_or_default();
    let structured: Structured = serde_json::from_str(structured).unwrap_or_default();
    let thread = thread_of(meta, origins, source_ids);
    let task = |found: FoundTask| {
        let id = task_key(thread, &found.text);
        MemoTask { id, text: found.text, due: found.due, closed: None }
    };
    let found = members.found(&outputs.actions, &plain_apart(&outputs.summary_text), meta);
    let tasks: Vec<MemoTask> = found.into_iter().map(task).collect();
    let source = meta.get("source_name").and_then(scalar).map(|name| one_line(&name));
    let source = source.filter(|name| !name.is_empty());
    let whole = shorten(&outputs.summary_text, READ_CHARS);
    let (whole, is_class) = spoken(&one_line(&plain_apart(&whole)), written, !tasks.is_empty());
    let mut decisions = list(members_of(&structured.decisions));
    let mut questions = list(members_of(&structured.questions));
    questions.extend(list(members_of(&structured.open_questions)));
    let said = |is: fn(&str) -> bool| {
        let found = sentences(&whole).into_iter().filter(|one| is(one));
        let found = found.map(|one| one.trim_end_matches(';'));
        found.map(|one| shorten(one, LINE_CHARS)).take(FEW).collect::<Vec<String>>()
    };
    if decisions.is_empty() {
        decisions = said(states_decision);
    }
    if questions.is_empty() {
        questions = said(is_question);
    }
    if is_talk(meta) {
        questions = open_in_talk(questions, &outputs.summary_text);
    }
    // A request that is put as a question is told as a task.
    let asked: BTreeSet<String> = tasks.iter().map(|task| folded(&task.text)).collect();
    questions.retain(|one| !asked.contains(&folded(one)));
    decisions.retain(|one| !asked.contains(&folded(one)));
    let mut achievements = list(members_of(&structured.achievements));
    let short = [&outputs.rendered_short, &outputs.summary];
    let short = short.iter().filter_map(|value| value.as_str());
    let short = short.map(|form| spoken(&one_line(form), written, !tasks.is_empty()).0);
    let told = short.chain([whole.clone()]).map(|text| without_rules(&text));
    let mut told: Vec<String> = told.filter(|text| !text.is_empty()).collect();
    let headline = told.first().map_or("", String::as_str);
    if let Some(run) = run_told(&structured.what_ran, &structured.status, headline) {
        told.insert(0, run);
    }
    // A row of a table is no name, and neither is a sentence or an item of a list. A chat has its own.
    let job = structured.job_title.as_str().map(str::trim).filter(|job| !job.is_empty());
    let is_weak = title.is_empty() || is_sentence(title) || is_file(title, source.as_deref());
    let own = told.first().and_then(|text| name_before(text));
    let own = own.filter(|_| is_weak && !is_talk(meta)).map(str::to_owned);
    let title = job.or(own.as_deref()).unwrap_or(title);
    let is_named = source.is_some() && job.is_none() && (is_talk(meta) || is_sentence(title));
    let title = if is_row(title) { "" } else { title };
    let title = shorten(&one_line(title), LABEL_CHARS);
    let elsewhere: BTreeSet<String> = tasks
        .iter()
        .map(|task| task.text.as_str())
        .chain(decisions.iter().chain(&questions).chain(&achievements).map(String::as_str))
        .map(folded)
        .collect();
    let (title, text) = entry(&title, is_named, source.as_deref(), &told, &elsewhere);
    let text = with_last_day(text, &whole, &elsewhere);
    let finished = |tag: &String| FINISHED.contains(&super::tags::lexeme(tag));
    if achievements.is_empty() && tags.iter().any(finished) && !title.is_empty() {
        achievements.push(title.clone());
    }
    Words {
        is_class,
        is_job: job.is_some(),
        title,
        source,
        link: link_of(meta, source_ids),
        text,
        tasks,
        looked: members.looked(&outputs.actions),
        is_doubtful: members.doubts() || is_message(meta) && signals::reads_like_fraud(&whole),
        achievements,
        decisions,
        questions,
        thread,
        said: sentences(&whole).into_iter().map(str::to_owned).collect(),
    }
}

/// Whether a sentence is among others that are folded, with the label before it or without: `To do: call Ana`.
fn is_among(others: &BTreeSet<String>, sentence: &str) -> bool {
    others.contains(&folded(sentence)) || others.contains(&folded(unlabelled(sentence)))
}

/// The text of an entry with the sentence that names the last day for something, where it fits: a reader needs
/// it, and it often stands at the end.
fn with_last_day(text: String, whole: &str, elsewhere: &BTreeSet<String>) -> String {
    let has_digit = |one: &&str| one.contains(|c: char| c.is_ascii_digit());
    let mut all = sentences(whole).into_iter().filter(has_digit);
    let Some(last) = all.find(|one| names_last_day(one)) else { return text };
    let is_told = text.contains(last) || elsewhere.contains(&folded(last));
    let fits = text.chars().count() + last.chars().count() < TOLD_CHARS;
    match fits && !is_told && !text.ends_with('…') {
        true => format!("{text} {last}").trim_start().to_owned(),
        false => text,
    }
}

/// Whether a title is a sentence or an item of a list of tasks.
fn is_sentence(title: &str) -> bool {
    const BOXES: &[&str] = &["[ ]", "[x]", "[X]", "- ", "* ", "☐", "☑", "☒"];
    let title = title.trim();
    BOXES.iter().any(|mark| title.starts_with(mark)) || title.ends_with(['.', '!'])
}

/// Whether a title is only the name of the file.
fn is_file(title: &str, source: Option<&str>) -> bool {
    source.is_some_and(|source| source.rsplit('/').next() == Some(title))
}

/// Whether a title is a row of a table or a member of a record: `Date: 2026-03-01; Item: train`.
fn is_row(title: &str) -> bool {
    let mut members = title.split("; ");
    members.next().is_some_and(|first| first.contains(": "))
        && members.next().is_some_and(|second| second.contains(": "))
}

/// The name and the text of an entry. The text is the first form of the summary that says more than
/// its title, each sentence once, without what other sections say. A title that the text repeats
/// gives way to the name of the source, and so does one that is no name.
fn entry(
    title: &str,
    is_named: bool,
    source: Option<&str>,
    told: &[String],
    elsewhere: &BTreeSet<String>,
) -> (String, String) {
    let name = folded(title.trim_end_matches('…'));
    let says_more = |text: &&String| {
        let text = folded(text);
        !text.is_empty() && !name.starts_with(&text)
    };
    let text = told.iter().find(says_more).or(told.first()).map_or("", String::as_str);
    let mut said = BTreeSet::new();
    let all = sentences(text);
    let all = without_salutation(&all);
    // The day behind a task has no meaning without the task.
    let has_words = |one: &str| one.contains(char::is_alphabetic);
    let mut kept = with_antecedents(all, |one| has_words(one) && !is_among(elsewhere, one));
    kept.retain(|one| said.insert(folded(one)));
    // Who came to a meeting is no summary of it, and how to end a subscription says nothing.
    let tells = |sentence: &&str| !lists_attendance(sentence) && !ends_subscription(sentence);
    if all.iter().any(tells) {
        kept.retain(tells);
    }
    // A memo shows what its other sections say there only; other readers of an entry need a text.
    if kept.is_empty() {
        kept.extend(all.iter().find(|one| tells(one)).or(all.first()));
    }
    // A few words are a name also where the text begins with them: `Balcony`.
    let few = title.split_whitespace().count() <= NAME_WORDS_MAX;
    let repeats = |sentence: &&str| {
        let sentence = folded(sentence);
        let is_heading = few && sentence == name && kept.len() > 1;
        sentence.starts_with(&name) && !few || name.starts_with(&sentence) && !is_heading
    };
    let repeated = is_named
        || is_file(title, source)
        || name.is_empty()
        || elsewhere.contains(&name)
        || kept.iter().any(repeats);
    let title = match (repeated, source) {
        (true, Some(source)) => shorten(source, LABEL_CHARS),
        (true, None) if name.is_empty() => shorten(text, FIRST_WORDS_CHARS),
        _ => title.to_owned(),
    };
    // The title says this sentence already.
    let name = folded(title.trim_end_matches('…'));
    kept.retain(|sentence| folded(sentence) != name);
    (title, shorten(kept.join(" ").trim_end_matches(';'), TOLD_CHARS))
}

/// Where a person finds the source of an item: its address, or its file in the bus home.
fn link_of(meta: &Map<String, Value>, source_ids: &[String]) -> Option<String> {
    let url = meta.get("source_url").and_then(Value::as_str);
    let file = || {
        let [only] = source_ids else { return None };
        let path = only.strip_prefix(OWN_FILES)?.split('#').next()?;
        address(&format!("{BUS_HOME}other/{path}"))
    };
    let is_web = |url: &&str| url.starts_with("https://") || url.starts_with("http://");
    url.filter(is_web).and_then(address).or_else(file)
}

fn members_of(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn list(values: &[Value]) -> Vec<String> {
    let names = ["text", "decision", "question", "title", "name"];
    let text = |one: &Value| match one {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) => names.iter().find_map(|name| one[*name].as_str()).map(str::to_owned),
        _ => None,
    };
    let texts = values.iter().filter_map(text);
    let texts = texts.map(|text| shorten(&one_line(&text), LINE_CHARS));
    texts.filter(|text| !text.is_empty()).take(PER_ITEM_MAX).collect()
}

/// The facts of the bag that a memo shows.
#[derive(Debug, Clone)]
pub struct MemoHeader<'a> {
    pub channel: Channel,
    pub title: &'a str,
    pub description: Option<&'a str>,
    pub tags: &'a [String],
    /// When the build began.
    pub built_at: &'a str,
    pub publish: bool,
    pub bag_id: &'a str,
    pub bag_type: BagType,
    pub window_label: &'a str,
    pub(crate) window_title: &'a str,
    pub selector_id: &'a str,
    pub candidates: u64,
    /// What the selector left out, with the reasons; empty where it left out nothing.
    pub(crate) left_out: String,
    pub selected: usize,
    pub zone: Tz,
}

/// The memo of one channel. `items` are sorted by time.
pub fn render(frame: &MemoHeader<'_>, items: &[&MemoItem]) -> String {
    let mut memo = head(frame, items);
    let mut entries = by_source(items);
    tell_apart(&mut entries, frame.zone);
    let entries: Vec<&MemoItem> = entries.iter().collect();
    let (all, items) = (items, entries.as_slice());
    overview(&mut memo, frame, all, items);
    match frame.channel {
        Channel::Digest => {
            timeline(&mut memo, frame, items);
            collected(&mut memo, "Decisions", decided(items));
            tasks(&mut memo, frame, items);
            collected(&mut memo, "Questions", asked(items));
            achievements(&mut memo, items);
        }
        Channel::Tasks => tasks(&mut memo, frame, items),
        Channel::Achievements => achievements(&mut memo, items),
        Channel::Portfolio => portfolio(&mut memo, frame, items),
    }
    sources(&mut memo, frame, all);
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
    let frequent = counted(items.iter().flat_map(|told| telling(told)));
    let tags: Vec<String> = match frame.tags {
        [] => frequent.iter().take(FRONT_TAGS).map(|(tag, _)| front(tag)).collect(),
        tags => tags.iter().map(|tag| front(tag)).collect(),
    };
    line!(memo, "tags: [{}]", tags.join(", "));
    let last = items.last().map(|told| told.at.day_in(frame.zone).to_string());
    line!(memo, "created: {}", front(last.as_deref().unwrap_or(frame.built_at)));
    line!(memo, "built_at: {}", front(frame.built_at));
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

/// `all` is every summary, `items` the entry of each source.
fn overview(memo: &mut String, frame: &MemoHeader<'_>, all: &[&MemoItem], items: &[&MemoItem]) {
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
    if !frame.left_out.is_empty() {
        line!(memo, "- Left out: {}", frame.left_out);
    }
    if all.len() < frame.selected {
        line!(memo, "- Told here: {}; the others are listed in `meta/trace.json`", all.len());
    }
    if items.len() < all.len() {
        line!(memo, "- About {}", numbered(items.len(), "source", "sources"));
    }
    if let (Some(first), Some(last)) = (items.first(), items.last()) {
        let day = |told: &MemoItem| told.at.day_in(frame.zone).to_string();
        match day(first) == day(last) {
            true => line!(memo, "- On {}", day(first)),
            false => line!(memo, "- From {} to {}", day(first), day(last)),
        }
    }
    if frame.channel == Channel::Digest {
        let counts = [
            (decided(items).len(), "decision", "decisions"),
            (
                named(items).iter().filter(|task| task.closed.is_none()).count(),
                "open task",
                "open tasks",
            ),
            (asked(items).len(), "question", "questions"),
            (achieved(items).len(), "achievement", "achievements"),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        let counts: Vec<String> =
            counts.map(|(count, one, many)| numbered(count, one, many)).collect();
        if !counts.is_empty() {
            line!(memo, "- {}", counts.join(", "));
        }
        let looked = items.iter().filter(|told| told.looked).count();
        if items.iter().any(|told| !told.tasks.is_empty()) && looked < items.len() {
            line!(memo, "- Read for tasks: {looked} of {}", items.len());
        }
    }
    let projects = counted(items.iter().filter_map(|told| told.project.as_deref()));
    if !projects.is_empty() {
        line!(memo, "- Projects: {}", spelled(&projects, 20, str::to_owned));
    }
    let mut tags = counted(items.iter().flat_map(|told| telling(told)));
    // Among several summaries a tag of one of them says nothing of the others.
    tags.retain(|(_, count)| *count > 1 || items.len() == 1);
    if !tags.is_empty() {
        line!(memo, "- Tags: {}", spelled(&tags, 12, plain_tag));
    }
}

/// The tags of a summary that come from its text. A column is a class that a flow gives to all it reads.
fn telling(told: &MemoItem) -> impl Iterator<Item = &str> {
    let is_column =
        |tag: &str| tag.split_once(':').is_some_and(|(namespace, _)| COLUMNS.contains(&namespace));
    told.tags.iter().map(String::as_str).filter(move |tag| !is_column(tag))
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

/// The sections of a memo below its timeline, as an entry of the timeline counts what stands in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Below {
    Decision,
    Task,
    Question,
    Achievement,
}

/// The sentences that stand below the timeline, folded, each with its section.
fn below(items: &[&MemoItem]) -> BTreeMap<String, Below> {
    let mut found = BTreeMap::new();
    let mut add = |sentence: &str, below: Below| _ = found.entry(folded(sentence)).or_insert(below);
    let lists = [
        (achieved(items), Below::Achievement),
        (asked(items), Below::Question),
        (decided(items), Below::Decision),
    ];
    // What nobody should act on is counted there and not named.
    let shown = named(items).into_iter().filter(|task| task.closed != Some(Closed::Doubted));
    shown.for_each(|task| add(&task.task.text, Below::Task));
    for (list, below) in lists {
        list.into_iter().for_each(|one| add(one.text, below));
    }
    found
}

/// What an entry says beyond the sections below the timeline; where that is nothing, how much of it stands in them.
fn beyond<'t>(text: &'t str, below: &BTreeMap<String, Below>) -> Cow<'t, str> {
    let all = sentences(text);
    let stands_in = |sentence: &str| {
        let forms = [sentence, without_done(sentence), unlabelled(sentence)];
        forms.into_iter().find_map(|form| below.get(&folded(form)).copied())
    };
    if !all.iter().any(|one| stands_in(one).is_some()) {
        return Cow::Borrowed(text);
    }
    let kept = with_antecedents(&all, |one| stands_in(one).is_none());
    if !kept.is_empty() {
        return Cow::Owned(kept.join(" "));
    }
    let mut counts: BTreeMap<Below, usize> = BTreeMap::new();
    for section in all.iter().filter_map(|one| stands_in(one)) {
        *counts.entry(section).or_default() += 1;
    }
    let told = counts.into_iter().map(|(section, count)| match section {
        Below::Decision => numbered(count, "decision", "decisions"),
        Below::Task => numbered(count, "task", "tasks"),
        Below::Question => numbered(count, "question", "questions"),
        Below::Achievement => numbered(count, "achievement", "achievements"),
    });
    Cow::Owned(format!("{}, see below", told.collect::<Vec<String>>().join(", ")))
}

fn timeline(memo: &mut String, frame: &MemoHeader<'_>, items: &[&MemoItem]) {
    line!(memo);
    line!(memo, "## Timeline");
    let several = several_projects(items);
    let below = below(items);
    let mut told_before = ToldBefore::default();
    for day in items.chunk_by(|a, b| a.at.day_in(frame.zone) == b.at.day_in(frame.zone)) {
        let Some(first) = day.first() else { continue };
        // What has no time of day comes first.
        let (timed, untimed): (Vec<&MemoItem>, _) = day.iter().partition(|told| told.has_clock);
        let all = untimed.into_iter().chain(timed);
        let entries = all.filter_map(|told| Some((told, told_before.rest(told)?)));
        let entries = entries.map(|(told, text)| (told, beyond(&text, &below).into_owned()));
        let entries: Vec<(&MemoItem, String)> = entries.collect();
        if entries.is_empty() {
            continue;
        }
        line!(memo);
        line!(memo, "### {}", first.at.day_in(frame.zone).0.format("%Y-%m-%d, %A"));
        line!(memo);
        for (told, text) in entries {
            memo.push_str("- ");
            if told.has_clock {
                let _ = write!(memo, "{} ", told.at.clock_in(frame.zone));
            }
            let _ = write!(memo, "**{}**", link(told));
            if let Some(project) = told.project.as_ref().filter(|_| several) {
                let _ = write!(memo, " · {}", label(project, LABEL_CHARS));
            }
            if told.is_doubtful {
                memo.push_str(" (unknown sender, or a fraud)");
            }
            if !text.is_empty() {
                let _ = write!(memo, ": {}", inline(&text));
            }
            if let Some(source) = told.source.as_ref().filter(|source| **source != told.title) {
                let _ = write!(memo, " ({})", linked(told, source));
            }
            if !told.has_day {
                memo.push_str(" (no date)");
            }
            line!(memo);
        }
    }
}

/// The sentences of each source that a timeline already printed. Two flows may say the same, one about some
/// sources and the other about all of them. Ids identify the sources, because two mails may have the same
/// subject.
#[derive(Default)]
struct ToldBefore<'a>(BTreeMap<&'a str, BTreeSet<String>>);

impl<'a> ToldBefore<'a> {
    /// What a summary says beyond those before it; `None` where it says nothing more.
    fn rest(&mut self, told: &'a MemoItem) -> Option<Cow<'a, str>> {
        let ids = || told.about.lines();
        let is_new = !ids().any(|id| self.0.contains_key(id));
        let all = sentences(&told.text);
        // A text that is cut ends within a sentence.
        let is_told = |sentence: &str, known: &BTreeSet<String>| {
            let words = folded(sentence);
            let next = known.range(words.clone()..).next();
            next.is_some_and(|next| {
                *next == words || sentence.ends_with('…') && next.starts_with(&words)
            })
        };
        let known = || ids().filter_map(|id| self.0.get(id));
        let rest: Vec<&str> =
            all.iter().copied().filter(|one| !known().any(|known| is_told(one, known))).collect();
        for id in ids() {
            self.0.entry(id).or_default().extend(all.iter().map(|one| folded(one)));
        }
        match (rest.is_empty(), rest.len() == all.len()) {
            (true, _) if !is_new => None,
            (_, true) => Some(Cow::Borrowed(&told.text)),
            _ => Some(Cow::Owned(rest.join(" "))),
        }
    }
}

/// True when items belong to different projects, so that each needs its project named.
fn several_projects(items: &[&MemoItem]) -> bool {
    items.windows(2).any(|pair| pair[0].project != pair[1].project)
}

/// The entry's name, leading to the address or the file of a person. A data file is no place for a
/// reader, so without one it is only a name: that of a file is what `summarizer read` takes.
fn link(told: &MemoItem) -> String {
    linked(told, &told.title)
}

/// The source's name, with the time where others have the same name.
fn link_to_source(told: &MemoItem) -> String {
    let began = told.began.as_ref().map(|began| format!(", {began}"));
    linked(told, told.name()) + &began.unwrap_or_default()
}

fn links_to_sources(said_by: &[&MemoItem]) -> String {
    let links: Vec<String> = said_by.iter().map(|told| link_to_source(told)).collect();
    links.join("; ")
}

fn linked(told: &MemoItem, name: &str) -> String {
    let name = label(name, LABEL_CHARS);
    match &told.link {
        Some(link) => format!("[{name}]({link})"),
        None => name,
    }
}

/// A statement with the sources that say it, in the same or in other words.
struct Statement<'a> {
    said_by: Vec<&'a MemoItem>,
    text: &'a str,
}

impl<'a> Statement<'a> {
    fn also_said_by(&mut self, told: &'a MemoItem) {
        if self.said_by.iter().all(|known| known.about != told.about) {
            self.said_by.push(told);
        }
    }
}

/// Lines of several items, each once, with the items that say it.
fn once<'a>(items: &[&'a MemoItem], lines: fn(&MemoItem) -> &Vec<String>) -> Vec<Statement<'a>> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut found: Vec<Statement<'a>> = Vec::new();
    for told in items {
        for line in lines(told) {
            match places.get(&folded(line)) {
                Some(place) => found[*place].also_said_by(told),
                None => {
                    places.insert(folded(line), found.len());
                    found.push(Statement { said_by: vec![*told], text: line });
                }
            }
        }
    }
    found
}

fn decided<'a>(items: &[&'a MemoItem]) -> Vec<Statement<'a>> {
    let all = once(items, |told| &told.decisions);
    let says_it = |at: usize, other: usize| {
        let (one, more) = (all[at].text, all[other].text);
        at != other && says_no_more(one, more) && (other < at || !says_no_more(more, one))
    };
    let said_in: Vec<Option<usize>> =
        (0..all.len()).map(|at| (0..all.len()).find(|other| says_it(at, *other))).collect();
    let mut sources: Vec<Vec<&MemoItem>> = all.iter().map(|one| one.said_by.clone()).collect();
    for (at, one) in all.iter().enumerate() {
        // What is said in a statement that is itself said in a third one is said in the third.
        let places = std::iter::successors(said_in[at], |place| said_in[*place]).take(all.len());
        if let Some(place) = places.last() {
            sources[place].extend(&one.said_by);
        }
    }
    let all = all.into_iter().zip(said_in).zip(sources);
    let kept = all.filter(|((_, place), _)| place.is_none());
    kept.map(|((one, _), said_by)| {
        let mut kept = Statement { said_by: Vec::new(), text: one.text };
        said_by.into_iter().for_each(|told| kept.also_said_by(told));
        kept
    })
    .collect()
}

fn asked<'a>(items: &[&'a MemoItem]) -> Vec<Statement<'a>> {
    once(items, |told| &told.questions)
}

fn achieved<'a>(items: &[&'a MemoItem]) -> Vec<Statement<'a>> {
    once(items, |told| &told.achievements)
}

/// A section that exists only where there is something in it.
fn collected(memo: &mut String, heading: &str, found: Vec<Statement<'_>>) {
    if found.is_empty() {
        return;
    }
    line!(memo);
    line!(memo, "## {heading}");
    line!(memo);
    for one in found {
        line!(memo, "- {} ({})", inline(one.text), links_to_sources(&one.said_by));
    }
}

fn achievements(memo: &mut String, items: &[&MemoItem]) {
    let done = achieved(items);
    if done.is_empty() {
        return;
    }
    line!(memo);
    line!(memo, "## Achievements");
    line!(memo);
    for done in done {
        match done.said_by.as_slice() {
            [told] if done.text == told.title => line!(memo, "- {}", link(told)),
            said_by => line!(memo, "- {} ({})", inline(done.text), links_to_sources(said_by)),
        }
    }
}

/// A task with the first item that names it.
struct NamedTask<'a> {
    task: &'a MemoTask,
    closed: Option<Closed>,
    first: &'a MemoItem,
    again: usize,
}

/// Tasks without repetitions, oldest first.
fn named<'a>(items: &[&'a MemoItem]) -> Vec<NamedTask<'a>> {
    let mut found: Vec<NamedTask<'_>> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for told in items {
        for task in &told.tasks {
            match places.get(&folded(&task.text)) {
                Some(place) => {
                    let known = &mut found[*place];
                    known.again += 1;
                    // Named in two threads, it is closed when both say so.
                    known.closed = known.closed.and(task.closed);
                }
                None => {
                    places.insert(folded(&task.text), found.len());
                    found.push(NamedTask { task, closed: task.closed, first: told, again: 0 });
                }
            }
        }
    }
    found
}

/// Whether a name ends with a day, or with a time of it.
fn says_day(name: &str, day: &str) -> bool {
    let day = day.split(' ').next().unwrap_or(day);
    name.rfind(", ").is_some_and(|at| name[at + 2..].starts_with(day))
}

/// A closed task with its source and the reason. A task that its source is called by is said once.
fn closed_line(text: &str, told: &MemoItem, why: &str) -> String {
    let source = link_to_source(told);
    match folded(text) == folded(without_reply_marks(told.name())) {
        true => format!("{source}: {why}"),
        false => format!("{} ({source}: {why})", inline(text)),
    }
}

fn tasks(memo: &mut String, frame: &MemoHeader<'_>, items: &[&MemoItem]) {
    let all = named(items);
    let (open, closed): (Vec<_>, Vec<_>) = all.into_iter().partition(|task| task.closed.is_none());
    let mut open = open;
    // Tasks with a day come first, the nearest first.
    open.sort_by_key(|task| (task.task.due.is_none(), task.task.due.clone()));
    let doubted = closed.iter().filter(|task| task.closed == Some(Closed::Doubted)).count();
    let several = several_projects(items);
    let looked = items.iter().filter(|told| told.looked).count();
    if frame.channel == Channel::Tasks && open.is_empty() {
        line!(memo);
        match looked {
            0 => line!(memo, "No flow looked for tasks in these summaries."),
            _ => line!(memo, "No task is open; {} of {} were read for tasks.", looked, items.len()),
        }
    }
    if !open.is_empty() {
        line!(memo);
        line!(memo, "## Open tasks");
        line!(memo);
        for task in &open {
            let day = || task.first.at.day_in(frame.zone).to_string();
            let day = task.first.began.clone().unwrap_or_else(day);
            let _ = write!(memo, "- [ ] {}", inline(&task.task.text));
            if let Some(due) = &task.task.due {
                let _ = write!(memo, " **due {}**", inline(due));
            }
            let named = linked(task.first, task.first.name());
            // The name of a session says its day already.
            let _ = match says_day(task.first.name(), &day) {
                true => write!(memo, " ({named}"),
                false => write!(memo, " ({day}, {named}"),
            };
            if let Some(project) = task.first.project.as_ref().filter(|_| several) {
                let _ = write!(memo, ", {}", label(project, LABEL_CHARS));
            }
            if task.again > 0 {
                let _ = write!(memo, "; named {} times", task.again + 1);
            }
            line!(memo, "; {})", task_id(task.task.id));
        }
    }
    let shown = closed.iter().filter(|task| task.closed != Some(Closed::Doubted));
    let shown: Vec<&NamedTask<'_>> = shown.collect();
    let finished = finished(items);
    if !shown.is_empty() || !finished.is_empty() {
        line!(memo);
        line!(memo, "## Closed tasks");
        line!(memo);
        let mut above = BTreeSet::new();
        for (told, sentence) in finished {
            const WHY: &str = "it closes a task of another text";
            let stands_above = frame.channel == Channel::Digest
                && sentences(&told.text).iter().any(|one| folded(one) == folded(sentence));
            match stands_above {
                false => {
                    line!(memo, "- [x] {}", closed_line(sentence, told, WHY));
                }
                true if above.insert(told.about.as_str()) => {
                    line!(memo, "- [x] {}: {WHY}", link_to_source(told));
                }
                true => {}
            }
        }
        for task in shown {
            let why = task.closed.map_or("", Closed::told);
            line!(memo, "- [x] {}", closed_line(&task.task.text, task.first, why));
        }
    }
    if doubted > 0 {
        line!(memo);
        let requests = numbered(doubted, "request", "requests");
        line!(memo, "Not listed: {requests} {}.", Closed::Doubted.told());
    }
}

/// The sentences that close tasks which no summary of the bag names, each once.
fn finished<'a>(items: &[&'a MemoItem]) -> Vec<(&'a MemoItem, &'a str)> {
    let named: BTreeSet<u64> =
        items.iter().flat_map(|told| &told.tasks).map(|task| task.id).collect();
    let mut seen = BTreeSet::new();
    let all = items.iter().flat_map(|told| told.finished.iter().map(move |one| (*told, one)));
    let all = all.filter(|(_, (task, _))| !named.contains(task));
    let all = all.map(|(told, (_, sentence))| (told, without_done(sentence)));
    all.filter(|(told, sentence)| seen.insert((told.about.as_str(), folded(sentence)))).collect()
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
        let (name, day) = (linked(told, told.name()), told.day.to_string());
        let day = if says_day(told.name(), &day) { String::new() } else { format!(", {day}") };
        line!(memo, "- <a id=\"{id}\"></a>{name}{day}: [{id}]({BUS_HOME}{path}), {stream}");
    }
    line!(memo);
    line!(memo, "</details>");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::builtin::done::asked as parts_of;

    fn told(number: u8, ms: i64, item: Value) -> MemoItem {
        let outputs = item["outputs"].to_string();
        let outputs: OutputWords<'_> = serde_json::from_str(&outputs).unwrap();
        let title = item["title"].as_str().unwrap_or_default();
        let meta = item["meta"].as_object().cloned().unwrap_or_default();
        let source_ids: Vec<String> = serde_json::from_value(item["source_ids"].clone())
            .unwrap_or_else(|_| vec![format!("evt_{number}")]);
        let words = words(title, &outputs, &[], &meta, (&[], &source_ids));
        MemoItem {
            summary_id: format!("sum_{}", format!("{number:02x}").repeat(16)),
            stream: Stream::Sessions,
            day: "2026-02-10".parse().unwrap(),
            has_clock: true,
            has_day: true,
            at: Timestamp(ms),
            title: words.title,
            is_job: words.is_job,
            source: words.source,
            began: None,
            about: source_ids.join("\n"),
            is_class: words.is_class,
            link: words.link,
            text: words.text,
            project: Some("Site & {shop}".to_owned()),
            tags: vec!["free:web".to_owned()],
            tasks: words.tasks,
            finished: Vec::new(),
            looked: words.looked,
            is_doubtful: words.is_doubtful,
            achievements: words.achievements,
            decisions: words.decisions,
            questions: words.questions,
            thread: words.thread,
            said: words.said,
        }
    }

    fn frame(channel: Channel) -> MemoHeader<'static> {
        MemoHeader {
            channel,
            title: "Site, week 7 of 2026",
            description: None,
            tags: &[],
            built_at: "2026-02-16T03:00:00.000Z",
            publish: true,
            bag_id: "bag_515cf20752d7a7550c1d2e3f4a5b6c7d",
            bag_type: BagType::Cohort,
            window_label: "2026-W07",
            window_title: "week 7 of 2026",
            selector_id: "project.weekly",
            candidates: 9,
            left_out: "1 private (`publish: no`)".to_owned(),
            selected: 2,
            zone: chrono_tz::UTC,
        }
    }

    #[test]
    fn the_memo_says_what_its_texts_finished_in_their_own_words() {
        let item = |number, text: &str| {
            told(
                number,
                i64::from(number),
                json!({"title": "", "source_ids": [format!("evt_{number}")], "meta": {"source_name": format!("Mail {number}")},
                "outputs": {"summary_text": text}}),
            )
        };
        let asked_for = "Please send the signed copy to Ana.";
        let closing =
            |thread| Closing { task: task_key(thread, asked_for), parts: parts_of(asked_for) };
        let mut mail = item(1, "The hall is cold. The signed copy was sent to Ana.");
        mail.finish(&[closing(mail.thread)]);
        let mut list = item(2, "[x] Paint the door. Erledigt: Kasse prüfen. The hut is old.");
        let ticked = ["Paint the door.", "Kasse prüfen."];
        let ticked =
            ticked.map(|task| Closing { task: task_key(list.thread, task), parts: parts_of(task) });
        list.finish(&ticked);
        let mut other = item(3, "The copier was sent to Lima.");
        other.finish(&[closing(other.thread)]);
        let text = render(&frame(Channel::Digest), &[&mail, &list, &other]);
        let closed: Vec<&str> = text.lines().filter(|line| line.starts_with("- [x]")).collect();
        assert!(text.contains(": The hall is cold. The signed copy was sent to Ana."), "{text}");
        assert_eq!(
            closed,
            [
                "- [x] Mail 1: it closes a task of another text",
                "- [x] Paint the door. (Mail 2: it closes a task of another text)",
                "- [x] Kasse prüfen. (Mail 2: it closes a task of another text)",
            ]
        );
    }

    #[test]
    fn what_several_flows_say_of_a_source_stands_once() {
        let item = |number, ids: &[&str], text: &str| {
            told(
                number,
                i64::from(number),
                json!({"title": "", "source_ids": ids, "meta": {"source_name": "Rent"},
                "outputs": {"summary_text": text}}),
            )
        };
        let all = [
            item(1, &["may", "june"], "The pump was repaired by Thomas. It costs 240 euros."),
            item(2, &["june", "july"], "The pump was repaired by Thomas. Ana paints the fence."),
            item(3, &["may"], "It costs 240 euros."),
            item(4, &["august"], "It costs 240 euros."),
        ];
        let all: Vec<&MemoItem> = all.iter().collect();
        let mut memo = String::new();
        timeline(&mut memo, &frame(Channel::Digest), &all);
        assert_eq!(memo.matches("The pump was repaired").count(), 1, "{memo}");
        assert_eq!(memo.matches("Ana paints the fence.").count(), 1, "{memo}");
        // Another source may say the same, under whatever name.
        assert_eq!(memo.matches("It costs 240 euros.").count(), 2, "{memo}");
        assert_eq!(memo.lines().filter(|line| line.starts_with("- ")).count(), 3, "{memo}");
    }

    #[test]
    fn a_digest_memo_has_the_expected_text() {
        let first = json!({"title": "Fix <b>login</b>", "source_ids": ["other:notes/log in.md"],
            "meta": {"source_name": "notes/log in.md"}, "outputs": {
            "summary_text": "### Goal\nMake {login} work. We decided to keep the old form.\n\n- Does it work on phones?",
            "actions": ["Write tests: 2026-02-13", "1. ship"],
            "structured": {"achievements": ["Login works"]}}});
        let second = json!({"title": "A plan for the shop.",
            "meta": {"source_name": "Shop plans", "source_url": "https://example.org/a b"},
            "outputs": {"rendered_short": "A plan for the shop.",
            "summary_text": "A plan for the shop. It has three steps. It has three steps.",
            "actions": [{"text": "write tests"}]}});
        let items = [told(1, 1_770_681_600_000, first), told(2, 1_770_768_000_000, second)];
        let memo = render(&frame(Channel::Digest), &[&items[0], &items[1]]);
        let (one, two) = (task_id(items[0].tasks[0].id), task_id(items[0].tasks[1].id));
        let expected = format!(
            r##"---
title: "Site, week 7 of 2026"
tags: ["free:web"]
created: "2026-02-11"
built_at: "2026-02-16T03:00:00.000Z"
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
- Left out: 1 private (`publish: no`)
- From 2026-02-10 to 2026-02-11
- 1 decision, 2 open tasks, 1 question, 1 achievement
- Projects: Site &amp; &#123;shop&#125; (2)
- Tags: web (2)

## Timeline

### 2026-02-10, Tuesday

- 00:00 **[Fix &lt;b&gt;login&lt;/b&gt;](../../../../../other/notes/log%20in.md)**: Make &#123;login&#125; work. ([notes/log in.md](../../../../../other/notes/log%20in.md))

### 2026-02-11, Wednesday

- 00:00 **[Shop plans](https://example.org/a%20b)**: A plan for the shop. It has three steps.

## Decisions

- We decided to keep the old form. ([notes/log in.md](../../../../../other/notes/log%20in.md))

## Open tasks

- [ ] Write tests **due 2026-02-13** (2026-02-10, [notes/log in.md](../../../../../other/notes/log%20in.md); named 2 times; {one})
- [ ] 1\. ship (2026-02-10, [notes/log in.md](../../../../../other/notes/log%20in.md); {two})

## Questions

- Does it work on phones? ([notes/log in.md](../../../../../other/notes/log%20in.md))

## Achievements

- Login works ([notes/log in.md](../../../../../other/notes/log%20in.md))

## Sources

<details>
<summary>2 summaries of bag bag_515cf20752d7a7550c1d2e3f4a5b6c7d</summary>

- <a id="sum_01010101010101010101010101010101"></a>[notes/log in.md](../../../../../other/notes/log%20in.md), 2026-02-10: [sum_01010101010101010101010101010101](../../../../../summaries/sessions/2026-02-10.sessions.summary.jsonl), sessions
- <a id="sum_02020202020202020202020202020202"></a>[Shop plans](https://example.org/a%20b), 2026-02-10: [sum_02020202020202020202020202020202](../../../../../summaries/sessions/2026-02-10.sessions.summary.jsonl), sessions

</details>
"##
        );
        assert_eq!(memo, expected);
    }

    #[test]
    fn a_memo_claims_nothing_that_no_flow_looked_for() {
        let item = json!({"title": "", "outputs": {
            "summary_text": "Se revisó la migración de la base de datos. ¡Quedó lista!"}});
        let mut item = told(4, 1_770_719_400_000, item);
        item.project = None;
        item.tags = vec!["topic:gestion_agil".to_owned()];
        let mut digest = frame(Channel::Digest);
        (digest.selected, digest.candidates) = (1, 1);
        let memo = render(&digest, &[&item]);
        for line in [
            "- 1 summary, everything in the window",
            "- On 2026-02-10",
            "- Tags: topic: gestion agil (1)",
            "<summary>1 summary of bag bag_515cf20752d7a7550c1d2e3f4a5b6c7d</summary>",
        ] {
            assert!(memo.lines().any(|one| one == line), "{line}\n{memo}");
        }
        assert!(memo.contains("Quedó lista"), "{memo}");
        for empty in
            ["tasks", "Nothing", "no achievements", "Achievements", "Projects:", "untitled"]
        {
            assert!(!memo.contains(empty), "{empty}\n{memo}");
        }
        let tasks = render(&frame(Channel::Tasks), &[&item]);
        assert!(tasks.contains("No flow looked for tasks"), "{tasks}");
        item.looked = true;
        let tasks = render(&frame(Channel::Tasks), &[&item]);
        assert!(tasks.contains("No task is open; 1 of 1 were read for tasks."), "{tasks}");
    }

    #[test]
    fn an_entry_tells_what_was_said_at_a_meeting_and_not_who_came() {
        let item = |text: &str, decisions: &[&str]| {
            let outputs = json!({"summary_text": text, "structured": {"decisions": decisions,
                "marked_tasks": ["Peter: inform the club", "Ana: quotes"]}});
            told(7, 0, json!({"title": "Board", "outputs": outputs}))
        };
        let text = "Present: Ana, Ben. The roof leaks. The market is on 25 April. Ana: quotes.";
        let board = item(text, &["The market is on 25 April."]);
        assert_eq!(board.text, "The roof leaks.");
        assert_eq!(board.decisions, ["The market is on 25 April."]);
        let tasks: Vec<&str> = board.tasks.iter().map(|task| task.text.as_str()).collect();
        assert_eq!(tasks, ["Peter: inform the club", "Ana: quotes"]);
        assert!(!board.looked, "the flow looked for no tasks beyond those that are marked");
        let text = "Anwesend: Ana, Ben. Der Markt ist am 25. April.";
        let board = item(text, &["Der Markt ist am 25. April."]);
        assert_eq!(board.text, "Der Markt ist am 25. April.");
        assert_eq!(item("Presentes: Ana, Luis.", &[]).text, "Presentes: Ana, Luis.");
    }

    #[test]
    fn an_entry_has_the_last_day_that_its_text_names() {
        let text =
            "Helio builds software for solar parks. We offer 30 days off. Apply by 31 March 2026.";
        let outputs = |actions: Value| json!({"rendered_short": "Helio builds software for solar parks.", "summary_text": text, "actions": actions});
        let item = told(8, 0, json!({"title": "Engineer", "outputs": outputs(Value::Null)}));
        assert_eq!(item.text, "Helio builds software for solar parks. Apply by 31 March 2026.");
        let item = told(
            8,
            0,
            json!({"title": "Engineer", "outputs": outputs(json!(["Apply by 31 March 2026."]))}),
        );
        assert_eq!(item.text, "Helio builds software for solar parks.");
    }

    #[test]
    fn a_question_that_a_later_text_of_its_thread_answers_is_not_open() {
        let mail = |number: u8, text: &str, thread: &str| {
            told(
                number,
                i64::from(number),
                json!({"title": "Roof", "outputs": {"summary_text": text},
                "meta": {"conversation_id": thread, "mailbox": "home"}}),
            )
        };
        let asked = "The roof leaks. Did you measure the area? Who pays the crane?";
        let answer = "Yes, I measured the damaged area yesterday.";
        let open = |items: &[&MemoItem]| {
            by_source(items).first().map(|entry| entry.questions.clone()).unwrap_or_default()
        };
        let (ask, reply) = (mail(1, asked, "a"), mail(2, answer, "a"));
        assert_eq!(open(&[&ask, &reply]), ["Who pays the crane?"]);
        let (other, before) = (mail(2, answer, "b"), mail(0, answer, "a"));
        assert_eq!(open(&[&ask, &other]).len(), 2);
        assert_eq!(by_source(&[&before, &ask])[1].questions.len(), 2);
    }

    #[test]
    fn a_text_that_is_only_the_title_gives_way_to_the_summary() {
        let item = json!({"title": "The release fails on the small machine.",
            "meta": {"source_name": "Release 2.4.0"}, "outputs": {
            "rendered_short": "The release fails on the small machine.",
            "summary_text": "### Session Goal\n\nThe release fails on the small machine.\n\n### Key Activities\n\n- The release fails on the small machine.\n- The disk there is slow.\n- Tag it tomorrow.",
            "actions": ["Tag it tomorrow."]}});
        let item = told(5, 0, item);
        assert_eq!(item.title, "Release 2.4.0");
        assert_eq!(item.text, "The release fails on the small machine. The disk there is slow.");
    }

    #[test]
    fn several_flows_about_a_source_make_one_entry() {
        let of = |number: u8, title: &str, outputs: Value, meta: Value| {
            let item =
                json!({"title": title, "source_ids": ["evt_1"], "outputs": outputs, "meta": meta});
            told(number, 0, item)
        };
        let meta = json!({"source_name": "Lease", "mailbox": "home"});
        let text = "I offer two more years. Send me the copy before 1 April.";
        let items = [
            of(
                1,
                "Lease, copy",
                json!({
                "summary_text": "triage_task / other / normal / 2026-04-01: Send me the copy before 1 April.",
                "structured": {"route": "triage_task", "category": "other", "urgency": "normal", "deadline": "2026-04-01"}}),
                meta.clone(),
            ),
            of(2, "Lease", json!({"summary_text": text}), meta.clone()),
            of(
                3,
                "Lease",
                json!({
                "summary_text": "Send me the copy before 1 April. (2026-04-01)",
                "structured": {"tasks": [{"name": "Send me the copy before 1 April.", "due_date": "2026-04-01"}]}}),
                meta,
            ),
        ];
        let items: Vec<&MemoItem> = items.iter().collect();
        let mut frame = frame(Channel::Digest);
        (frame.selected, frame.candidates) = (3, 3);
        let memo = render(&frame, &items);
        assert_eq!(memo.matches("- 00:00 **Lease**").count(), 1, "{memo}");
        assert!(memo.contains("- About 1 source\n"), "{memo}");
        assert!(memo.contains("**Lease**: I offer two more years.\n"), "{memo}");
        assert_eq!(memo.matches("- [ ] Send me the copy").count(), 1, "{memo}");
        for machine in ["triage_task / ", "(2026-04-01)", "Lease, copy"] {
            assert!(!memo.contains(machine), "{machine}\n{memo}");
        }
    }

    #[test]
    fn a_chat_is_headed_by_its_name_and_no_entry_by_a_sentence() {
        for title in ["The piano needs a string.", "piano.txt", ""] {
            let text = "Piano note. The piano needs a string. The tuner comes on Friday.";
            let note = json!({"title": title, "outputs": {"summary_text": text},
                "meta": {"source_name": "in/piano.txt"}});
            let note = told(1, 0, note);
            assert_eq!(note.title, "Piano note");
            assert_eq!(note.text, "The piano needs a string. The tuner comes on Friday.");
        }
        let chat = json!({"title": "Please order the cake.", "outputs": {"summary_text": "Please order the cake. It rains."},
            "meta": {"source_name": "Family", "summary_kind": "session_summary"}});
        assert_eq!(told(1, 0, chat).title, "Family");
        for title in ["[ ] pay the bill", "We keep the old server until June."] {
            let note = json!({"title": title, "outputs": {"summary_text": "Other words."},
                "meta": {"source_name": "in/notes.md"}});
            assert_eq!(told(1, 0, note).title, "in/notes.md");
        }
        assert_eq!(
            without_days("(2026-03-10); Envíame el plan (ya). (2026-03-10)"),
            "Envíame el plan (ya)."
        );
    }

    #[test]
    fn closed_tasks_say_why() {
        let item = json!({"title": "Mail", "outputs": {"summary_text": "Three things.",
            "actions": ["Pay rent", "Call Ana", "Send your password"]}});
        let mut item = told(6, 0, item);
        item.tasks[0].closed = Some(Closed::Said);
        item.tasks[2].closed = Some(Closed::Doubted);
        let memo = render(&frame(Channel::Tasks), &[&item]);
        assert!(memo.contains("- [ ] Call Ana ("), "{memo}");
        assert!(memo.contains("- [x] Pay rent (Mail: "), "{memo}");
        assert!(!memo.contains("password"), "{memo}");
        assert!(
            memo.contains("Not listed: 1 request from an unknown sender, or a fraud."),
            "{memo}"
        );
    }

    #[test]
    fn a_closed_task_that_its_source_is_called_by_is_said_once() {
        for (title, task) in
            [("Your visit on 24 May", "Your visit on 24 May"), ("Re: The lease", "The lease.")]
        {
            let item = json!({"title": title, "outputs": {"summary_text": "It is over.", "actions": [task]}});
            let mut item = told(6, 0, item);
            item.tasks[0].closed = Some(Closed::Over);
            let memo = render(&frame(Channel::Tasks), &[&item]);
            assert!(memo.contains(&format!("- [x] {title}: its day is over")), "{memo}");
        }
    }

    #[test]
    fn a_memo_of_three_hundred_summaries_stays_short() {
        let items: Vec<MemoItem> = (0..300)
            .map(|number| {
                let text = format!("Step {number}. {}", "It went on and on. ".repeat(60));
                let outputs =
                    json!({"summary_text": text, "actions": [format!("task {}", number % 40)]});
                let item = json!({"title": format!("Item {number}"), "outputs": outputs,
                    "source_ids": [format!("evt_{number}")]});
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
        assert_eq!(memo.matches("It went on and on.").count(), 300, "each sentence once");
        let longest = memo.lines().map(str::len).max().unwrap();
        assert!(longest < 700 && memo.len() < 300 * 700, "{longest} {}", memo.len());
    }

    #[test]
    fn a_task_has_the_day_that_its_words_name() {
        let due = |text: &str| {
            let text = text.to_owned();
            let mut task = MemoTask { id: 1, text, due: None, closed: None };
            task.read_due("2026-03-12".parse().unwrap());
            task.due
        };
        let day = Some("2026-03-25".to_owned());
        assert_eq!(due("Me falta pedir la referencia a Laura antes del 25 de marzo."), day);
        assert_eq!(due("Ask Laura for the letter by 25 March."), day);
        assert_eq!(due("Answer the letter of 25 March."), None);
        assert_eq!(due("Send the list of 25 February by noon."), None);
        assert_eq!(due("Rosa: I will write the report by Friday."), Some("2026-03-13".to_owned()));
        assert_eq!(
            due("Acuérdate de comprar las velas antes del viernes."),
            Some("2026-03-13".to_owned())
        );
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
