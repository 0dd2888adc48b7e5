//! Which tasks of a library are open.
//!
//! Contract. A task leaves the open tasks when a person says so, when a later text of its thread says
//! that it is done, when the same flow summarized the same source again and does not name it any
//! more, when there is content of a day after that of an appointment, or when its source or the first
//! text of its thread is doubted: a summary calls the sender unknown or the message a fraud, or the
//! message reads like one. What a person says goes first. Everything follows from the log. A private
//! summary closes no task of one that is not private, by none of these rules.
//!
//! See docs/adr/0096-what-memos-say-and-when-a-task-closes.md.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::library::{Library, Unit};
use super::tasks::{Closed, TaskMark, TaskMarks, Word};
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::contract::versions::Publish;
use crate::model::builtin::done::{Asked, SaidDone, closes};

/// Which tasks of a library are open.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenTasks {
    closed: HashMap<(u64, Sight), (Closed, Seq)>,
    /// Which tasks of each summary are open, by the event of the summary.
    open: HashMap<Seq, u64>,
    /// The last event that changed whether a task of a summary is open.
    moved: HashMap<Seq, Seq>,
    /// Sources that some flow doubts, by what they are known by.
    doubted: HashSet<(u64, Sight)>,
    /// Tasks of other summaries that a summary closes, by the event of the one that closes.
    closings: HashMap<Seq, Vec<Closing>>,
}

/// A task that a summary of another text closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closing {
    pub task: u64,
    /// The things that it asks for.
    pub parts: Vec<Asked>,
}

/// A summary that closes a task of another one.
struct Closer {
    by: Seq,
    /// Who may read the summary with the task.
    sight: Sight,
    /// The last event on which this depends, beside that of the summary that closes.
    since: Seq,
    /// None where a person said something of the task, which goes first.
    closing: Option<Closing>,
}

/// Which summaries may say something of a summary: of a private one all, of another one those that are not
/// private. A published digest must say nothing of private texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sight {
    All,
    NotPrivate,
}

impl Sight {
    fn of(library: &Library, unit: &Unit) -> Sight {
        match library.publish(unit) {
            Publish::No => Sight::All,
            Publish::Unsaid | Publish::Yes => Sight::NotPrivate,
        }
    }

    fn sees(self, library: &Library, unit: &Unit) -> bool {
        self == Sight::All || Sight::of(library, unit) == Sight::NotPrivate
    }
}

/// The summary that doubts a source, if one does.
type Doubtful<'l> = Box<dyn Fn(&Unit) -> Option<Seq> + 'l>;

/// What some summaries say of tasks.
struct Evidence<'l> {
    doubtful: Doubtful<'l>,
    said: HashMap<u64, Seq>,
    newest: HashMap<u64, (&'l Unit, HashSet<u64>)>,
    over: Box<dyn Fn(Day) -> Option<Seq>>,
}

impl<'l> Evidence<'l> {
    fn of(library: &'l Library, marked: &[Marked<'_>], sight: Sight) -> Evidence<'l> {
        let sees = |unit: &Unit| sight.sees(library, unit);
        let seen: Vec<Marked<'_>> = marked.iter().copied().filter(|one| sees(one.unit)).collect();
        Evidence {
            doubtful: Box::new(doubtful(library, &seen)),
            said: said(library, &seen),
            newest: newest_of_sources(library, &seen, sight),
            over: Box::new(over_by(library, sight)),
        }
    }

    fn fate(&self, one: &Marked<'_>, task: &TaskMark) -> Option<(Closed, Seq)> {
        if let Some(seq) = (self.doubtful)(one.unit) {
            return Some((Closed::Doubted, seq));
        }
        if let Some(said) = self.said.get(&task.id) {
            return Some((Closed::Said, *said));
        }
        if let Some((unit, tasks)) = self.newest.get(&one.unit.source)
            && unit.seq > one.unit.seq
            && !tasks.contains(&task.id)
        {
            return Some((Closed::Replaced, unit.seq));
        }
        task.passes.and_then(&self.over).map(|seq| (Closed::Over, seq))
    }
}

/// One summary with tasks or with sentences about them.
#[derive(Clone, Copy)]
struct Marked<'l> {
    unit: &'l Unit,
    marks: &'l TaskMarks,
}

impl OpenTasks {
    /// Reads a library. `words` is what people said, by the number of the task.
    pub(crate) fn of(library: &Library, words: &BTreeMap<u64, Word>) -> OpenTasks {
        let marked: Vec<Marked<'_>> = library
            .units()
            .iter()
            .filter_map(|unit| Some(Marked { unit, marks: library.task_marks(unit)? }))
            .collect();
        let has_private = marked.iter().any(|one| Sight::of(library, one.unit) == Sight::All);
        let all = has_private.then(|| Evidence::of(library, &marked, Sight::All));
        let shown = Evidence::of(library, &marked, Sight::NotPrivate);
        let mut open_tasks = OpenTasks::default();
        let mut closers = Vec::new();
        for one in marked.iter().filter(|one| one.marks.doubted) {
            let origins = library.origins_of(one.unit).iter();
            let sights = [Sight::All, Sight::NotPrivate];
            let told = sights.into_iter().filter(|sight| sight.sees(library, one.unit));
            let told: Vec<Sight> = told.collect();
            let each = origins.flat_map(|origin| told.iter().map(|sight| (*origin, *sight)));
            open_tasks.doubted.extend(each);
        }
        for one in marked.iter().filter(|one| !one.marks.tasks.is_empty()) {
            let sight = Sight::of(library, one.unit);
            let evidence = all.as_ref().filter(|_| sight == Sight::All).unwrap_or(&shown);
            for task in &one.marks.tasks {
                let found = evidence.fate(one, task);
                let word = words.get(&task.id);
                if let Some((Closed::Said | Closed::Replaced, by)) = found {
                    let closing = Closing { task: task.id, parts: task.parts.clone() };
                    let since = one.unit.seq.max(word.map_or(Seq::default(), |word| word.seq));
                    let is_shown = word.is_none();
                    closers.push(Closer { by, sight, since, closing: is_shown.then_some(closing) });
                }
                let found = match word {
                    Some(word) if word.done => Some((Closed::ByPerson, word.seq)),
                    Some(_) => None,
                    None => found,
                };
                let since = word.map(|word| word.seq).or(found.map(|(_, seq)| seq));
                if let Some(since) = since {
                    let moved = open_tasks.moved.entry(one.unit.seq).or_default();
                    *moved = (*moved).max(since);
                }
                if let Some(found) = found {
                    let held = open_tasks.closed.entry((task.id, sight)).or_insert(found);
                    *held = (*held).min(found);
                }
            }
        }
        open_tasks.note_closings(library, closers);
        for one in marked.iter().filter(|one| !one.marks.tasks.is_empty()) {
            let sight = Sight::of(library, one.unit);
            let tasks = one.marks.tasks.iter().enumerate();
            let open = tasks.filter(|(_, task)| !open_tasks.closed.contains_key(&(task.id, sight)));
            open_tasks.open.insert(one.unit.seq, open.fold(0, |mask, (at, _)| mask | 1 << at));
        }
        open_tasks
    }

    /// Notes which summaries close tasks of others. One that others may read says nothing of a private one.
    fn note_closings(&mut self, library: &Library, closers: Vec<Closer>) {
        let wanted: HashSet<Seq> = closers.iter().map(|one| one.by).collect();
        let units = library.units().iter().filter(|unit| wanted.contains(&unit.seq));
        let sights: HashMap<Seq, Sight> =
            units.map(|unit| (unit.seq, Sight::of(library, unit))).collect();
        for one in closers {
            let may_say =
                one.sight == Sight::NotPrivate || sights.get(&one.by) == Some(&Sight::All);
            if !may_say {
                continue;
            }
            let moved = self.moved.entry(one.by).or_default();
            *moved = (*moved).max(one.since);
            let known = self.closings.entry(one.by).or_default();
            let is_new = |closing: &Closing| !known.iter().any(|other| other.task == closing.task);
            if let Some(closing) = one.closing.filter(is_new) {
                known.push(closing);
            }
        }
    }

    /// The tasks of other summaries that a summary closes.
    pub(crate) fn closings(&self, unit: &Unit) -> &[Closing] {
        self.closings.get(&unit.seq).map_or(&[], Vec::as_slice)
    }

    /// Which tasks of a summary are open, one bit each.
    pub(crate) fn open(&self, unit: &Unit) -> u64 {
        self.open.get(&unit.seq).copied().unwrap_or(0)
    }

    /// Whether a flow doubts a source of a summary, whichever flow made the summary.
    pub(crate) fn doubts(&self, library: &Library, unit: &Unit) -> bool {
        let sight = Sight::of(library, unit);
        library.origins_of(unit).iter().any(|origin| self.doubted.contains(&(*origin, sight)))
    }

    /// Why a task of a summary is closed, if it is.
    pub(crate) fn closed(&self, library: &Library, unit: &Unit, task: u64) -> Option<Closed> {
        self.closed.get(&(task, Sight::of(library, unit))).map(|(why, _)| *why)
    }

    /// Whether an event after `seq` changed which tasks of a summary are open.
    pub(crate) fn moved_after(&self, unit: &Unit, seq: Seq) -> bool {
        self.moved.get(&unit.seq).is_some_and(|moved| *moved > seq)
    }
}

/// The summary that doubts a source, or the first text of its thread. A fraud in a thread that is known
/// says nothing of the texts before it.
fn doubtful<'l>(
    library: &'l Library,
    marked: &[Marked<'_>],
) -> impl Fn(&Unit) -> Option<Seq> + use<'l> {
    let mut by: HashMap<u64, Seq> = HashMap::new();
    for one in marked.iter().filter(|one| one.marks.doubted) {
        for origin in library.origins_of(one.unit) {
            by.entry(*origin).or_insert(one.unit.seq);
        }
    }
    let mut first: HashMap<u64, &'l Unit> = HashMap::new();
    for unit in library.units().iter().filter(|_| !by.is_empty()) {
        first.entry(unit.thread).or_insert(unit);
    }
    move |unit| {
        let begin = first.get(&unit.thread).copied();
        let origins = begin.into_iter().flat_map(|begin| library.origins_of(begin));
        library.origins_of(unit).iter().chain(origins).find_map(|origin| by.get(origin).copied())
    }
}

/// The tasks that a later text of their thread says to be done, with the summary of that text.
///
/// The source of a task never closes it, whatever flow read it. A task of several parts needs a word on
/// each. A bare `done` closes the only task that was open when it was said.
fn said(library: &Library, marked: &[Marked<'_>]) -> HashMap<u64, Seq> {
    let mut threads: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, one) in marked.iter().enumerate() {
        threads.entry(one.unit.thread).or_default().push(at);
    }
    // With the time of the text that closes each: a reply cannot know what is said after it.
    let mut closed: HashMap<u64, (Timestamp, Seq)> = HashMap::new();
    for thread in threads.values() {
        let units: Vec<&Marked<'_>> = thread.iter().map(|at| &marked[*at]).collect();
        let later = |one: &Marked<'_>, other: &Marked<'_>| {
            other.unit.at > one.unit.at && !library.shares_source(one.unit, other.unit)
        };
        let with_tasks: Vec<&Marked<'_>> =
            units.iter().copied().filter(|one| !one.marks.tasks.is_empty()).collect();
        let answers = Answers::of(&units);
        for one in &with_tasks {
            for task in &one.marks.tasks {
                let closing = task.parts.iter().map(|part| {
                    let other = answers.first(part, |other| later(one, other));
                    let other = other.or_else(|| {
                        // `I sent it` speaks of the only thing that somebody asked to send.
                        answers.first_meant(part, |told, other| {
                            later(one, other)
                                && is_only_one(&with_tasks, told, |one| later(one, other))
                        })
                    })?;
                    Some((other.unit.at, other.unit.seq))
                });
                let closing: Option<Vec<(Timestamp, Seq)>> = closing.collect();
                if let Some(last) = closing.and_then(|all| all.into_iter().max()) {
                    closed.entry(task.id).or_insert(last);
                }
            }
        }
        for other in units.iter().filter(|one| one.marks.done.iter().any(SaidDone::is_bare)) {
            let is_open =
                |task: &TaskMark| closed.get(&task.id).is_none_or(|(at, _)| *at > other.unit.at);
            let open =
                |one: &&&Marked<'_>| one.marks.tasks.iter().any(is_open) && later(one, other);
            let open: Vec<&&Marked<'_>> = with_tasks.iter().filter(open).collect();
            // Several flows may name the task of one text in their own words.
            let one_text = open.iter().all(|one| one.unit.at == open[0].unit.at);
            let one_each = open.iter().all(|one| one.marks.tasks.len() == 1);
            if one_text && one_each {
                let tasks: Vec<u64> = open.iter().map(|one| one.marks.tasks[0].id).collect();
                let said = (other.unit.at, other.unit.seq);
                closed.extend(tasks.into_iter().map(|task| (task, said)));
            }
        }
    }
    closed.into_iter().map(|(task, (_, seq))| (task, seq)).collect()
}

/// Whether a sentence that names nothing can mean one task only: that of one text, which asks for its verb once, or
/// for several things where the sentence speaks of several.
fn is_only_one(
    with_tasks: &[&Marked<'_>],
    told: &SaidDone,
    is_before: impl Fn(&Marked<'_>) -> bool,
) -> bool {
    let meant = |one: &Marked<'_>| {
        let asked = |task: &TaskMark| {
            let those = task.parts.iter().filter(|part| part.is_meant_by(told));
            let is_several = task.parts.iter().all(|part| part.is_among_those_of(told));
            those.count().min(if is_several { 1 } else { usize::MAX })
        };
        one.marks.tasks.iter().map(asked).sum::<usize>()
    };
    let mut asking = with_tasks.iter().filter(|one| is_before(one)).map(|one| (one, meant(one)));
    let mut at = None;
    asking.all(|(one, count)| {
        count == 0 || count == 1 && *at.get_or_insert(one.unit.at) == one.unit.at
    })
}

/// What the texts of a thread say to be done, by the verbs they say it with: a thread may be long, and
/// most of what is said in it is of other things.
struct Answers<'m> {
    /// Places in `all`, in the order of the thread.
    by_verb: HashMap<u32, Vec<usize>>,
    all: Vec<(&'m SaidDone, &'m Marked<'m>)>,
}

impl<'m> Answers<'m> {
    fn of(units: &[&'m Marked<'m>]) -> Answers<'m> {
        let told = units.iter().flat_map(|one| one.marks.done.iter().map(|told| (told, *one)));
        let all: Vec<(&SaidDone, &Marked<'_>)> = told.collect();
        let mut by_verb: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, (told, _)) in all.iter().enumerate() {
            for verb in &told.verbs {
                by_verb.entry(*verb).or_default().push(at);
            }
        }
        Answers { by_verb, all }
    }

    /// The first text that closes a part of a task and is one of those wanted.
    fn first(
        &self,
        part: &Asked,
        is_wanted: impl Fn(&Marked<'_>) -> bool,
    ) -> Option<&'m Marked<'m>> {
        self.first_of(part.closing_verbs(), |told, one| closes(part, told) && is_wanted(one))
    }

    /// The first text that says of what was named before that it is done, and that is one of those wanted.
    fn first_meant(
        &self,
        part: &Asked,
        is_wanted: impl Fn(&SaidDone, &Marked<'_>) -> bool,
    ) -> Option<&'m Marked<'m>> {
        self.first_of(part.verbs_on_what_was_named(), is_wanted)
    }

    fn first_of(
        &self,
        verbs: impl Iterator<Item = u32>,
        is_wanted: impl Fn(&SaidDone, &Marked<'_>) -> bool,
    ) -> Option<&'m Marked<'m>> {
        let closes = |at: &usize| {
            let (told, one) = self.all[*at];
            is_wanted(told, one)
        };
        let said = verbs.filter_map(|verb| self.by_verb.get(&verb));
        let first = said.filter_map(|places| places.iter().copied().find(closes)).min();
        first.map(|at| self.all[at].1)
    }
}

/// The newest summary of each source by the same flow, with its tasks.
fn newest_of_sources<'l>(
    library: &'l Library,
    marked: &[Marked<'_>],
    sight: Sight,
) -> HashMap<u64, (&'l Unit, HashSet<u64>)> {
    let wanted: HashSet<u64> = marked.iter().map(|one| one.unit.source).collect();
    let mut newest: HashMap<u64, &Unit> = HashMap::new();
    let same = library.units().iter().filter(|unit| wanted.contains(&unit.source));
    for unit in same.filter(|unit| sight.sees(library, unit)) {
        let held = newest.entry(unit.source).or_insert(unit);
        if held.seq < unit.seq {
            *held = unit;
        }
    }
    let tasks = |unit: &Unit| {
        let marks = library.task_marks(unit);
        marks.map(|marks| marks.tasks.iter().map(|task| task.id).collect()).unwrap_or_default()
    };
    newest.into_iter().map(|(source, unit)| (source, (unit, tasks(unit)))).collect()
}

/// The first event after which content of a later day than a given one is known.
fn over_by(library: &Library, sight: Sight) -> impl Fn(Day) -> Option<Seq> + use<> {
    let mut first: Vec<(Day, Seq)> = Vec::new();
    for unit in library.units().iter().rev().filter(|unit| sight.sees(library, unit)) {
        let day = unit.at.day_in(chrono_tz::UTC);
        let seq = first.last().map_or(unit.seq, |(_, known)| unit.seq.min(*known));
        match first.last_mut() {
            Some(last) if last.0 == day => last.1 = seq,
            _ => first.push((day, seq)),
        }
    }
    first.reverse();
    move |day| {
        let at = first.partition_point(|(known, _)| *known <= day);
        first.get(at).map(|(_, seq)| *seq)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::digest::library::tests::library;

    /// One mail of a thread, as a flow read it.
    fn mail(at: i64, source: &str, flow: &str, outputs: Value) -> Value {
        json!({"ts_abs_ms": at, "source_type": "event", "source_ids": [source], "outputs": outputs,
            "prompt": {"template_id": flow},
            "meta": {"conversation_id": "c", "mailbox": "home", "flow_id": flow}})
    }

    fn asks(at: i64, source: &str, task: &str) -> Value {
        mail(at, source, "task", json!({"summary_text": task, "actions": [task]}))
    }

    fn tells(at: i64, source: &str, text: &str) -> Value {
        mail(at, source, "brief", json!({"summary_text": text}))
    }

    /// Why the tasks of the first item are closed.
    fn fates(items: &[Value]) -> Vec<Option<Closed>> {
        let items: Vec<(u64, Value)> = (1..).zip(items.iter().cloned()).collect();
        let library = library(&items);
        let open = OpenTasks::of(&library, &BTreeMap::new());
        let unit = library.units().iter().find(|unit| unit.seq == Seq(1)).unwrap();
        let tasks = &library.task_marks(unit).unwrap().tasks;
        tasks.iter().map(|task| open.closed(&library, unit, task.id)).collect()
    }

    /// The tasks that the item of an event closes.
    fn closes(items: &[Value], seq: u64) -> usize {
        let items: Vec<(u64, Value)> = (1..).zip(items.iter().cloned()).collect();
        let library = library(&items);
        let open = OpenTasks::of(&library, &BTreeMap::new());
        let unit = library.units().iter().find(|unit| unit.seq == Seq(seq)).unwrap();
        open.closings(unit).len()
    }

    #[test]
    fn the_text_that_closes_a_task_knows_it_and_nothing_of_a_private_one() {
        let ask = asks(5, "evt_1", "Please send the signed copy to Ana before 1 April.");
        let done = tells(9, "evt_2", "The signed copy was sent to Ana.");
        assert_eq!(closes(&[ask.clone(), done.clone()], 2), 1);
        assert_eq!(closes(&[ask.clone(), done.clone()], 1), 0);
        assert_eq!(closes(&[ask.clone(), tells(9, "evt_2", "Ana came late.")], 2), 0);
        let mut private = ask;
        private["meta"]["publish"] = false.into();
        assert_eq!(closes(&[private, done], 2), 0);
    }

    #[test]
    fn only_a_later_text_of_another_source_closes_a_task() {
        let ask = asks(5, "evt_1", "Please send the signed copy to Ana before 1 April.");
        let done = "The signed copy was sent to Ana.";
        assert_eq!(fates(&[ask.clone(), tells(9, "evt_2", done)]), [Some(Closed::Said)]);
        assert_eq!(fates(&[ask.clone(), tells(9, "evt_1", done)]), [None], "the same source");
        assert_eq!(fates(&[ask.clone(), tells(4, "evt_2", done)]), [None], "an earlier text");
        let again = "I offer two years. Please send the signed copy to Ana before 1 April.";
        assert_eq!(fates(&[ask, tells(5, "evt_1", again)]), [None]);
    }

    #[test]
    fn a_reply_that_names_nothing_closes_the_only_task_of_its_verb_and_no_prohibition() {
        for (ask, done, fate) in [
            ("Bitte schick das Paket an Rosa.", "Ich hab's gestern geschickt.", Some(Closed::Said)),
            ("Please send the parcel to Rosa.", "I sent it yesterday.", Some(Closed::Said)),
            ("Please don't send the parcel to Rosa.", "I sent it yesterday.", None),
            ("Bitte das Paket nicht schicken.", "Ich hab's gestern geschickt.", None),
        ] {
            assert_eq!(fates(&[asks(5, "evt_1", ask), tells(9, "evt_2", done)]), [fate], "{ask}");
        }
    }

    #[test]
    fn a_private_reply_closes_only_a_private_task() {
        let private = |mut item: Value| {
            item["meta"]["publish"] = false.into();
            item
        };
        let ask = asks(5, "evt_1", "Please send the signed copy to Ana before 1 April.");
        for done in ["The signed copy was sent to Ana.", "Done!"] {
            let done = tells(9, "evt_2", done);
            assert_eq!(fates(&[ask.clone(), private(done.clone())]), [None]);
            let of_private = [private(ask.clone()), private(done.clone())];
            assert_eq!(fates(&of_private), [Some(Closed::Said)]);
            assert_eq!(fates(&[private(ask.clone()), done.clone()]), [Some(Closed::Said)]);
        }
    }

    #[test]
    fn a_private_summary_closes_a_public_task_by_no_rule() {
        let private = |mut item: Value| {
            item["meta"]["publish"] = false.into();
            item
        };
        let scam = |at: i64, source: &str| {
            let outputs = json!({"summary_text": "Pay.", "structured": {"sender_type": "scam"}});
            mail(at, source, "gate", outputs)
        };
        let ask = asks(5, "evt_1", "Please pay the rent by 3 April.");
        let doubted = [ask.clone(), scam(5, "evt_1")];
        assert_eq!(fates(&doubted), [Some(Closed::Doubted)]);
        assert_eq!(
            fates(&[ask.clone(), private(scam(4, "evt_0"))]),
            [None],
            "the first of its thread"
        );
        assert_eq!(fates(&[ask.clone(), scam(4, "evt_0")]), [Some(Closed::Doubted)]);
        // An appointment is over when there is content of a later day.
        let event = json!({"summary_text": "Dentist.", "actions": ["Dentist: 2026-02-12T10:30:00"],
            "structured": {"all_day": false}});
        let event = mail(1_770_850_000_000, "evt_1", "event", event);
        let later = tells(1_771_200_000_000, "evt_2", "It rains.");
        assert_eq!(fates(&[event.clone(), later.clone()]), [Some(Closed::Over)]);
        assert_eq!(fates(&[event.clone(), private(later.clone())]), [None]);
        assert_eq!(fates(&[private(event), private(later)]), [Some(Closed::Over)]);
        // A private text names the same task in the same thread, and its answer is private too.
        let named = private(asks(6, "evt_3", "Please pay the rent by 3 April."));
        let paid = private(tells(9, "evt_4", "The rent was paid."));
        assert_eq!(fates(&[ask.clone(), named.clone(), paid.clone()]), [None]);
        assert_eq!(fates(&[named, ask, paid]), [Some(Closed::Said)]);
    }

    #[test]
    fn a_bare_reply_closes_the_only_open_task_before_it() {
        let ask = asks(5, "evt_1", "Please order the cake.");
        let done = tells(9, "evt_3", "Done!");
        assert_eq!(fates(&[ask.clone(), done.clone()]), [Some(Closed::Said)]);
        let other = asks(6, "evt_2", "Please call the plumber.");
        assert_eq!(fates(&[ask.clone(), other.clone(), done.clone()]), [None]);
        let called = tells(7, "evt_4", "I called the plumber.");
        assert_eq!(
            fates(&[ask.clone(), other.clone(), called, done.clone()]),
            [Some(Closed::Said)]
        );
        let called_later = tells(11, "evt_4", "I called the plumber.");
        assert_eq!(fates(&[ask, other, done, called_later]), [None], "both were open at the reply");
    }

    #[test]
    fn a_task_of_two_parts_needs_a_word_on_each() {
        let ask = asks(5, "evt_1", "Riega las flores del balcón y deja las llaves en la portería.");
        let watered = tells(7, "evt_2", "Las flores del balcón ya están regadas.");
        let left = tells(9, "evt_3", "Ya dejé las llaves en la portería.");
        assert_eq!(fates(&[ask.clone(), watered.clone()]), [None]);
        assert_eq!(fates(&[ask, watered, left]), [Some(Closed::Said)]);
    }

    #[test]
    fn a_fraud_closes_its_own_tasks_and_not_those_before_it() {
        let fraud = "Please buy five Amazon gift cards and send me the codes today.";
        let ask = asks(5, "evt_1", "Please pay the rent by 3 April.");
        assert_eq!(fates(&[ask, tells(9, "evt_2", fraud)]), [None]);
        let scam = asks(5, "evt_1", fraud);
        assert_eq!(fates(&[scam]), [Some(Closed::Doubted)]);
    }
}
