//! Tasks that summaries name: their words, their day, and what the library keeps of them.
//!
//! Contract. A task is identified by the thread it was named in and by its text, so the same request
//! in a reply is the same task. Nothing here depends on other summaries; see [`super::open_tasks`].

use std::collections::HashSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::markdown::{one_line, shorten};
use super::said;
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::model::builtin::done::{self, Asked, SaidDone, all_told, asked};
use crate::model::builtin::fill::duties;
use crate::model::builtin::text::sentences::{is_abbreviation, is_day};

/// Most characters of a task.
pub(crate) const TASK_CHARS: usize = 200;
/// Most tasks taken from one summary; a summary keeps which of them are open in one number.
pub(crate) const PER_ITEM_MAX: usize = 50;
/// Most sentences of one summary that are remembered for saying that something is done.
const DONE_MAX: usize = 12;
/// Members of a task that hold its words, and its day.
const WORDS: &[&str] = &["name", "text", "task", "title", "action"];
const DUE: &[&str] = &["due_date", "due", "deadline", "date"];
/// What flows call a message that nobody should act on, and its sender.
const DOUBTFUL: &[&str] = &["spam", "scam", "phishing", "fraud"];
const UNKNOWN: &str = "unknown";
/// Whether a summary is about a message that somebody sent: only a message can be a fraud. A note or a chat
/// may report a fraud, but is not one.
pub(crate) fn is_message(meta: &Map<String, Value>) -> bool {
    meta.get("mailbox").is_some()
        || meta.get("summary_kind").and_then(Value::as_str) == Some("event_summary")
}

/// Whether a summary tells of a session, as a chat is one.
pub(crate) fn is_talk(meta: &Map<String, Value>) -> bool {
    meta.get("summary_kind").and_then(Value::as_str) == Some("session_summary")
}

/// What flows call a message that asks for nothing, whoever sent it.
const HARMLESS: &[&str] = &["archive", "newsletter", "notification"];
/// Members in which flows judge a text, with one word of a list. `has_…` is one too.
const VERDICTS: &[&str] = &["category", "page_type", "route", "severity", "status", "urgency"];
/// Longest verdict of a flow.
const VERDICT_BYTES_MAX: usize = 40;
/// A task as an item names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundTask {
    pub text: String,
    /// A day, perhaps with a time, as the item says it.
    pub due: Option<String>,
    /// An appointment: over when its day is.
    pub passes: bool,
}

/// The members of `structured` that speak of tasks and of the sender.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TaskMembers {
    tasks: Value,
    pending_tasks: Value,
    /// What a text marks as tasks, from a flow that looks for no others.
    marked_tasks: Value,
    all_day: Value,
    sender_type: Value,
    route: Value,
    category: Value,
}

impl TaskMembers {
    /// Whether a flow says that nobody should act on the message.
    pub(crate) fn doubts(&self) -> bool {
        let is =
            |value: &Value, list: &[&str]| value.as_str().is_some_and(|word| list.contains(&word));
        let values = [&self.sender_type, &self.route, &self.category];
        let harmless = values.iter().any(|value| is(value, HARMLESS));
        values.iter().any(|value| is(value, DOUBTFUL))
            || !harmless && is(&self.sender_type, &[UNKNOWN])
    }

    /// Whether the flow looked for tasks at all.
    pub(crate) fn looked(&self, actions: &Value) -> bool {
        actions.is_array() || self.tasks.is_array() || self.pending_tasks.is_array()
    }

    /// The tasks of an item, each once. A list with days is preferred to one without. A flow that looks
    /// for none leaves those that a note marks in its text: `To do: …`, `Jorge: order a disk`. What somebody did is
    /// no task, whichever flow calls it one.
    pub(crate) fn found(
        &self,
        actions: &Value,
        text: &str,
        meta: &Map<String, Value>,
    ) -> Vec<FoundTask> {
        let mut found = match self.looked(actions) {
            true => self.listed(actions),
            false => self.marked(text, is_talk(meta)),
        };
        found.retain(|task| !done::reports(&task.text));
        found
    }

    /// The tasks that a text marks, found by a flow, and then in what the flow says.
    fn marked(&self, text: &str, is_talk: bool) -> Vec<FoundTask> {
        let listed = self.marked_tasks.as_array().into_iter().flatten();
        let all = listed.filter_map(|one| task(one, false)).chain(marked(text, is_talk));
        let mut seen = HashSet::new();
        // The text says `To do: call Ana` of an open box.
        let mut is_new = |task: &FoundTask| seen.insert(said::folded(done::unlabelled(&task.text)));
        all.filter(|task| is_new(task)).take(PER_ITEM_MAX).collect()
    }

    fn listed(&self, actions: &Value) -> Vec<FoundTask> {
        let passes = self.all_day.is_boolean();
        let lists = [&self.tasks, actions, &self.pending_tasks];
        let mut seen = HashSet::new();
        for list in lists {
            let tasks = list.as_array().into_iter().flatten();
            let tasks = tasks.filter_map(|one| task(one, passes));
            let tasks: Vec<FoundTask> = tasks
                .filter(|task| seen.insert(said::folded(&task.text)))
                .take(PER_ITEM_MAX)
                .collect();
            if !tasks.is_empty() {
                return tasks;
            }
        }
        Vec::new()
    }
}

/// The lines that a text marks as tasks. In a chat, the name before a colon is the speaker, so it is not the
/// person who gets the task.
fn marked(text: &str, is_talk: bool) -> Vec<FoundTask> {
    let mut seen = HashSet::new();
    let labelled = said::sentences(text)
        .into_iter()
        .filter_map(|sentence| Some((sentence, sentence.split_once(": ")?)));
    let labelled: Vec<(&str, (&str, &str))> = labelled.collect();
    let is_talk = is_talk || labelled.iter().any(|(_, (label, rest))| done::speaks(label, rest));
    let is_marked = |(sentence, (label, rest)): &&(&str, (&str, &str))| {
        duties::is_labelled(sentence) || !is_talk && done::orders_somebody(label, rest)
    };
    let sentences = labelled.iter().filter(is_marked).map(|one| one.0);
    let texts = sentences.map(|sentence| first_line(sentence).trim_end_matches(';'));
    let texts = texts.map(|text| shorten(&one_line(text), TASK_CHARS));
    texts
        .filter(|text| seen.insert(said::folded(text)))
        .map(|text| FoundTask { text, due: None, passes: false })
        .take(PER_ITEM_MAX)
        .collect()
}

/// The next line of a list may begin in lower case; a day such as `19. März` and a title such as `Ms. Finch` go on.
fn first_line(sentence: &str) -> &str {
    let mut ends = sentence.match_indices(". ");
    let goes_on = |at: usize| {
        is_day(&sentence[..at], &sentence[at + 2..]) || is_abbreviation(&sentence[..at])
    };
    let end = ends.find(|(at, _)| !goes_on(*at));
    end.map_or(sentence, |(at, _)| &sentence[..=at])
}

/// What a flow decided about a text, in words that it also writes as tags: a route, a category, or whether
/// there is an event. They say what the flow did and not what the text is about, as a word of another member may.
pub(crate) fn verdicts(structured: &str) -> HashSet<String> {
    let members: serde_json::Map<String, Value> =
        serde_json::from_str(structured).unwrap_or_default();
    let is_word = |text: &str| {
        text.len() <= VERDICT_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let mut found = HashSet::new();
    for (name, value) in &members {
        match (name.strip_prefix("has_"), value) {
            (Some(thing), Value::Bool(_)) => {
                found.extend([thing.to_owned(), format!("no_{thing}")]);
            }
            (None, Value::String(text)) if VERDICTS.contains(&name.as_str()) && is_word(text) => {
                found.insert(text.clone());
            }
            _ => {}
        }
    }
    found
}

fn task(value: &Value, passes: bool) -> Option<FoundTask> {
    let member =
        |names: &[&str]| names.iter().find_map(|name| value[*name].as_str()).map(str::to_owned);
    let (text, due) = match value {
        Value::String(text) => (text.clone(), None),
        Value::Object(_) => (member(WORDS)?, member(DUE)),
        _ => return None,
    };
    let line = one_line(&text);
    // `Dentist: 2026-02-12T10:30:00` has its day behind its name.
    let (words, behind) = match line.rsplit_once(": ") {
        Some((words, day)) if day_of(day).is_some() => (words.to_owned(), Some(day.to_owned())),
        _ => (line.clone(), None),
    };
    let due = due.filter(|due| day_of(due).is_some()).or(behind).map(|due| spoken_time(&due));
    let text = shorten(&words, TASK_CHARS);
    (!text.is_empty()).then_some(FoundTask { text, due, passes })
}

/// The day that a text begins with.
pub(crate) fn day_of(text: &str) -> Option<Day> {
    let day = text.get(..10)?.parse().ok()?;
    matches!(text.as_bytes().get(10), None | Some(b'T' | b' ')).then_some(day)
}

/// The first day in brackets, with them: `(2026-02-12)`, `(2026-02-12 10:30)`.
pub(crate) fn day_in_brackets(text: &str) -> Option<Range<usize>> {
    text.match_indices('(').find_map(|(open, _)| {
        text.get(open + 1..open + 11)?.parse::<Day>().ok()?;
        let close = open + text[open..].find(')')?;
        day_of(&text[open + 1..close]).map(|_| open..close + 1)
    })
}

/// `2026-02-12T10:30:00` as `2026-02-12 10:30`.
fn spoken_time(due: &str) -> String {
    let clock = due.get(11..16).filter(|clock| *clock != "00:00" && clock.as_bytes()[2] == b':');
    match clock {
        Some(clock) => format!("{} {clock}", &due[..10]),
        None => due[..10].to_owned(),
    }
}

/// The first half of the hash of some words.
pub(crate) fn key(kind: &str, words: &str) -> u64 {
    let hash = sha256(format!("{kind}\n{words}")).hex();
    u64::from_str_radix(&hash[..16], 16).unwrap_or_default()
}

/// The id of a task for people.
pub(crate) fn task_id(task: u64) -> String {
    format!("task_{task:016x}")
}

/// The number of a task: its thread and its words.
pub(crate) fn task_key(thread: u64, text: &str) -> u64 {
    key("task", &format!("{thread:016x} {}", said::folded(text)))
}

/// A task as the library keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskMark {
    pub id: u64,
    /// The day after which an appointment is over.
    pub passes: Option<Day>,
    /// The things that it asks for.
    pub parts: Vec<Asked>,
}

/// What the library keeps of a summary for its tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskMarks {
    pub doubted: bool,
    pub tasks: Vec<TaskMark>,
    /// The sentences that say that something is done.
    pub done: Vec<SaidDone>,
}

impl TaskMarks {
    pub(crate) fn of(found: &[FoundTask], doubted: bool, thread: u64, text: &str) -> TaskMarks {
        let mark = |task: &FoundTask| TaskMark {
            id: task_key(thread, &task.text),
            passes: task.due.as_deref().filter(|_| task.passes).and_then(day_of),
            parts: asked(&task.text),
        };
        let sentences = said::sentences(text);
        let done = all_told(&sentences);
        TaskMarks {
            doubted,
            tasks: found.iter().map(mark).collect(),
            done: done.take(DONE_MAX).collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.doubted && self.tasks.is_empty() && self.done.is_empty()
    }

    /// As rows of numbers, for the cache.
    pub(crate) fn to_numbers(&self) -> Vec<u32> {
        let mut row = vec![u32::from(self.doubted), self.tasks.len() as u32];
        for task in &self.tasks {
            let day = task.passes.map_or(i32::MIN, number_of);
            row.extend([(task.id >> 32) as u32, task.id as u32, day as u32]);
            row.push(task.parts.len() as u32);
            for part in &task.parts {
                let lists = [&part.verbs, &part.object, &part.words, &part.names];
                lists.into_iter().for_each(|list| push_list(&mut row, list));
            }
        }
        for sentence in &self.done {
            let lists = [&sentence.verbs, &sentence.words, &sentence.doers, &sentence.names];
            lists.into_iter().for_each(|list| push_list(&mut row, list));
        }
        row
    }

    pub(crate) fn from_numbers(row: &[u32]) -> Option<TaskMarks> {
        let mut rest = row.iter().copied().peekable();
        let mut next = || rest.next();
        let mut marks = TaskMarks { doubted: next()? == 1, ..TaskMarks::default() };
        for _ in 0..next()? {
            let id = u64::from(next()?) << 32 | u64::from(next()?);
            let day = next()? as i32;
            let passes = if day == i32::MIN { None } else { Some(day_from(day)?) };
            let mut parts = Vec::new();
            for _ in 0..next()? {
                let mut list = || next_list(&mut next);
                parts.push(Asked {
                    verbs: list()?,
                    object: list()?,
                    words: list()?,
                    names: list()?,
                });
            }
            marks.tasks.push(TaskMark { id, passes, parts });
        }
        while rest.peek().is_some() {
            let mut list = || next_list(&mut || rest.next());
            marks.done.push(SaidDone {
                verbs: list()?,
                words: list()?,
                doers: list()?,
                names: list()?,
            });
        }
        Some(marks)
    }
}

fn push_list(row: &mut Vec<u32>, list: &[u32]) {
    row.push(list.len() as u32);
    row.extend(list);
}

fn next_list(next: &mut dyn FnMut() -> Option<u32>) -> Option<Vec<u32>> {
    let len = next()?;
    (0..len).map(|_| next()).collect()
}

fn number_of(day: Day) -> i32 {
    chrono::Datelike::num_days_from_ce(&day.0)
}

fn day_from(number: i32) -> Option<Day> {
    chrono::NaiveDate::from_num_days_from_ce_opt(number).map(Day)
}

/// Why a task is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closed {
    /// A person said so.
    ByPerson,
    /// A later summary of the thread says that it is done.
    Said,
    /// The same flow summarized the same source again, without it.
    Replaced,
    /// The day of the appointment is over.
    Over,
    /// The sender is unknown, or the message is a fraud.
    Doubted,
}

impl Closed {
    /// As a memo says it.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Closed::ByPerson => "marked as done",
            Closed::Said => "a later summary says that it is done",
            Closed::Replaced => "a later summary of the same source does not name it",
            Closed::Over => "its day is over",
            Closed::Doubted => "from an unknown sender, or a fraud",
        }
    }
}

/// What a person said of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Word {
    pub done: bool,
    pub seq: Seq,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn members(structured: Value) -> TaskMembers {
        serde_json::from_value(structured).unwrap()
    }

    #[test]
    fn tasks_have_the_day_that_the_item_gives() {
        let found = members(json!({"tasks": [
            {"name": "Pay the invoice.", "due_date": "2026-02-13"},
            {"name": "pay the invoice", "due_date": null}, 7]}));
        let found = found.found(&json!(["something else"]), "", &Map::new());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].due.as_deref(), found[0].passes), (Some("2026-02-13"), false));
        let event = members(json!({"all_day": false}));
        let found = event.found(&json!(["Dentist: 2026-02-12T10:30:00"]), "", &Map::new());
        assert_eq!((found[0].text.as_str(), found[0].passes), ("Dentist", true));
        assert_eq!(found[0].due.as_deref(), Some("2026-02-12 10:30"));
        assert!(!members(json!({})).looked(&Value::Null));
        assert!(members(json!({"tasks": []})).looked(&Value::Null));
    }

    #[test]
    fn a_note_marks_its_own_tasks() {
        let text = "We met. Jorge: order a second disk. TODO: label the cables. Note: it rains.";
        let texts =
            |found: Vec<FoundTask>| found.into_iter().map(|task| task.text).collect::<Vec<_>>();
        let found = members(json!({})).found(&Value::Null, text, &Map::new());
        assert_eq!(texts(found), ["Jorge: order a second disk.", "TODO: label the cables."]);
        let titled = "Action: Ms. Finch books the hall until 4 May.";
        assert_eq!(texts(marked(titled, false)), [titled]);
        let looked = members(json!({"tasks": []})).found(&Value::Null, text, &Map::new());
        assert!(looked.is_empty(), "a flow that looked decides");
    }

    #[test]
    fn words_before_a_colon_are_no_names_and_speakers_order_nothing_of_themselves() {
        for text in [
            "Agenda: review of the budget.",
            "Warning: check engine light is on.",
            "Result: test failed on ARM.",
            "Decision: book club moves to May.",
            "Resultado: paga extra en junio.",
            "Ergebnis: Test fertig.",
            "Monday: call at ten.",
            "Ana: call me when you are home.",
            "Ana: bring bread. Ben: I have some.",
            "Assistant: Try it on a copy first. Assistant: Send me the result.",
        ] {
            assert!(marked(text, false).is_empty(), "{text}");
        }
        for text in [
            "Agenda: the budget. Ben: check the engine light.",
            "Kitchen: a new tap. Ben: check the engine light.",
        ] {
            assert_eq!(marked(text, false).len(), 1, "{text}");
        }
    }

    #[test]
    fn in_a_talk_a_name_before_a_colon_is_the_speaker() {
        let text = "Ana: bring bread. To do: book a table.";
        let tasks = |kind: &str| {
            let meta = json!({"summary_kind": kind});
            let found = members(json!({}));
            let found = found.found(&Value::Null, text, meta.as_object().unwrap());
            found.into_iter().map(|task| task.text).collect::<Vec<_>>()
        };
        assert_eq!(tasks("session_summary"), ["To do: book a table."]);
        assert_eq!(tasks("document_summary"), ["Ana: bring bread.", "To do: book a table."]);
    }

    #[test]
    fn only_messages_may_be_frauds() {
        let may_be = |meta: Value| is_message(meta.as_object().unwrap());
        assert!(may_be(json!({"summary_kind": "event_summary", "folder": "inbox"})));
        assert!(may_be(json!({"mailbox": "home"})));
        assert!(!may_be(json!({"summary_kind": "session_summary"})));
        assert!(!may_be(json!({"summary_kind": "document_summary", "folder": "notes"})));
    }

    #[test]
    fn verdicts_are_no_topics_and_a_newsletter_is_no_fraud() {
        let members_of = r#"{"route": "triage_task", "has_event": false, "projectName": "garden",
            "status": "Pay it.", "language": "spanish"}"#;
        let found = verdicts(members_of);
        let expected = ["triage_task", "event", "no_event"].map(str::to_owned);
        assert_eq!(found, HashSet::from(expected), "a word of another member is a topic");
        assert!(members(json!({"sender_type": "unknown", "route": "human"})).doubts());
        assert!(!members(json!({"sender_type": "unknown", "route": "archive"})).doubts());
        assert!(members(json!({"sender_type": "newsletter", "route": "spam"})).doubts());
    }

    #[test]
    fn marks_survive_the_cache() {
        let actions = json!(["Exam: 2026-03-01", "Rest"]);
        let found = members(json!({"all_day": true})).found(&actions, "", &Map::new());
        let marks = TaskMarks::of(&found, true, 9, "I sent the report to Ana. Then we ate.");
        assert_eq!((marks.tasks.len(), marks.done.len()), (2, 1));
        assert_eq!(TaskMarks::from_numbers(&marks.to_numbers()), Some(marks));
    }
}
