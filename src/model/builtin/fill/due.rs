//! The day something must be done by: a date behind words such as `by`, `antes de`, `bis`.
//!
//! A date before the day of the message is over and no deadline. Where no such word stands, the first
//! date of a sentence that asks for something is taken, unless it is the time of the event the text is
//! about.

use chrono::NaiveDate;

use super::super::extract::dates::{self, DateTimeMention};
use super::super::lexicon::lexicon;
use super::super::text::words::spaced;
use super::super::text::{Part, Text};
use super::event;
use super::scene::{Focus, Scene};
use super::signals::signals;

/// Words between a thing and its day.
const OF_A_THING: [&str; 8] = ["of", "from", "de", "del", "vom", "von", "du", "des"];
/// Sentences between a day and the only thing asked, at most.
const APART_MAX: usize = 2;

/// The deadline in the focus. `asked` prefers sentences that ask for something.
pub(crate) fn deadline(
    scene: &Scene<'_, '_>,
    focus: &Focus,
    asked: bool,
) -> Option<DateTimeMention> {
    if signals(scene).away {
        return None;
    }
    let inside = |when: &&DateTimeMention| {
        let at = when.mention.sentence;
        when.date.is_some()
            && scene.is_said(at)
            && !is_past(scene, when)
            && (focus.whole || focus.sentences.binary_search(&at).is_ok())
    };
    let dates: Vec<&DateTimeMention> = scene.whens().iter().filter(inside).collect();
    let asks = |when: &DateTimeMention| scene.asks().binary_search(&when.mention.sentence).is_ok();
    let due: Vec<&DateTimeMention> =
        dates.iter().copied().filter(|when| event::is_due(scene, when)).collect();
    if let Some(when) = due.iter().find(|when| asked && asks(when)).or(due.first()) {
        return Some(**when);
    }
    if let Some(when) = only_due(scene, focus) {
        return Some(when);
    }
    let event = event::best(scene).filter(|_| asked).map(|found| found.when.mention);
    dates
        .into_iter()
        .find(|when| asks(when) && event != Some(when.mention) && (!asked || when.clock.is_none()))
        .copied()
}

/// The day of a task, read without the text around it: the one by which its sentence says that it must be
/// done, or else the only day that it names.
pub(crate) fn day_in(sentence: &str, today: NaiveDate) -> Option<NaiveDate> {
    let text = Text::new(vec![Part { id: "", text: sentence }]);
    let dates = dates::find(&text, Some(today));
    let due = dates.iter().filter(|when| event::is_due_in(&text, when)).find_map(|when| when.date);
    // `The letter of 2 March` has its day, and not the task.
    let of_thing = |when: &DateTimeMention| {
        let before = sentence[..when.mention.start].trim_end().rsplit(' ').next();
        before.is_some_and(|word| OF_A_THING.contains(&word))
    };
    let named = dates.iter().filter(|when| !of_thing(when));
    let mut named: Vec<NaiveDate> = named.filter_map(|when| when.date).collect();
    named.dedup();
    let only = || if let [day] = named[..] { Some(day) } else { None };
    due.or_else(only).filter(|day| *day >= today)
}

/// Whether a sentence names the last day for something: `Apply by 31 March.`
pub(crate) fn names_last_day(sentence: &str) -> bool {
    let text = Text::new(vec![Part { id: "", text: sentence }]);
    dates::find(&text, None).iter().any(|when| event::is_due_in(&text, when))
}

/// Whether a sentence names a day of the week behind a word such as `by`, whichever week it is of.
pub(crate) fn names_last_weekday(sentence: &str) -> bool {
    /// Words between the two, and the day: `bis zum kommenden Mittwoch`.
    const NEAR: usize = 3;
    let dates = &lexicon().dates;
    let line = spaced(sentence);
    let words: Vec<&str> = line.split_whitespace().collect();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    (0..words.len()).any(|at| {
        let length = dates.due.starts(|next| word(at + next));
        length.is_some_and(|length| {
            (at + length..at + length + NEAR).any(|day| dates.weekdays.number(word(day)).is_some())
        })
    })
}

/// The only last day of a text whose only request stands near it: `The fee is due on 29 May. Please pay online.`
fn only_due(scene: &Scene<'_, '_>, focus: &Focus) -> Option<DateTimeMention> {
    let [ask] = scene.asks() else { return None };
    if focus.sentences.binary_search(ask).is_err() {
        return None;
    }
    let named = scene.whens().iter().filter(|when| when.date.is_some());
    let mut due = named.filter(|when| {
        scene.is_said(when.mention.sentence) && !is_past(scene, when) && event::is_due(scene, when)
    });
    let found = due.next()?;
    let near = found.mention.sentence.abs_diff(*ask) <= APART_MAX;
    (near && due.all(|other| other.date == found.date)).then_some(*found)
}

fn is_past(scene: &Scene<'_, '_>, when: &DateTimeMention) -> bool {
    let today = scene.written_on(when.mention.sentence);
    when.date.zip(today).is_some_and(|(day, today)| day < today)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_day_that_a_task_names_is_its_day() {
        let today = NaiveDate::from_ymd_opt(2026, 3, 10).unwrap();
        let due = |task: &str| day_in(task, today).map(|day| day.to_string());
        for (task, day) in [
            ("Maya: can you send me the bill tomorrow?", Some("2026-03-11")),
            ("Hugo: vale, te lo mando el viernes", Some("2026-03-13")),
            ("Luc: n'oublie pas de rappeler le garage jeudi", Some("2026-03-12")),
            ("Send the plan by Friday, we meet on 20 March", Some("2026-03-13")),
            ("Choose between 17 March and 19 March", None),
            ("Answer the letter of 20 March", None),
            ("Buy bread", None),
        ] {
            assert_eq!(due(task).as_deref(), day, "{task}");
        }
    }
}
