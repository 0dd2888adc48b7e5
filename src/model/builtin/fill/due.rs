//! The day something must be done by: a date behind words such as `by`, `antes de`, `bis`.
//!
//! A date before the day of the message is over and no deadline. Where no such word stands, the first
//! date of a sentence that asks for something is taken, unless it is the time of the event the text is
//! about.

use std::collections::BTreeSet;

use chrono::NaiveDate;

use super::super::done;
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

/// The only last day of a text whose only request stands near it, and of what that request speaks:
/// `The fee is due on 29 May. Please pay online.`
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
    let is_only = near && due.all(|other| other.date == found.date);
    let is_of_it = || is_day_of(scene.text, found, *ask);
    (is_only && is_of_it()).then_some(*found)
}

/// Whether the last day in one sentence is that of what another one asks for: it is called a deadline, both name one
/// thing, or the request names nothing of its own. `The report is handed in until 30 June` says nothing of a contract.
fn is_day_of(text: &Text<'_>, when: &DateTimeMention, ask: usize) -> bool {
    /// Words of a request that names nothing but what to do.
    const BARE_MAX: usize = 2;
    /// Letters of a word that count: endings differ.
    const STEM_CHARS: usize = 5;
    let (dated, asked) = (text.sentence(when.mention.sentence), text.sentence(ask));
    let stems = |said: &str| -> BTreeSet<String> {
        let words = done::content(said).into_iter();
        words.map(|word| word.chars().take(STEM_CHARS).collect()).collect()
    };
    event::names_deadline(text, when.mention.sentence)
        || done::content(asked).len() <= BARE_MAX
        || !stems(dated).is_disjoint(&stems(asked))
}

fn is_past(scene: &Scene<'_, '_>, when: &DateTimeMention) -> bool {
    let today = scene.written_on(when.mention.sentence);
    when.date.zip(today).is_some_and(|(day, today)| day < today)
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::super::hints::Hints;
    use super::*;

    #[test]
    fn the_last_day_of_another_thing_is_no_day_of_a_request() {
        for (source, day) in [
            ("The fee is due on 29 May. Please pay online.\n", Some("2026-05-29")),
            ("The form is wanted by 29 May. Please send the form to Ana.\n", Some("2026-05-29")),
            (
                "The grant is paid in April and the report is handed in until 30 June. To sign the \
                 contract you must show your passport at the desk.\n",
                None,
            ),
            (
                "El primer pago se hace en abril y la rendición se entrega hasta el 30 de junio. Para firmar \
                 el convenio hay que presentar el DNI en Mitre 455.\n",
                None,
            ),
            (
                "Der Bericht wird bis 30. Juni abgegeben. Bitte bringen Sie für den Vertrag Ihren Ausweis mit.\n",
                None,
            ),
            (
                "Le rapport se rend avant le 30 juin. Pour signer la convention, veuillez présenter une pièce \
                 d'identité.\n",
                None,
            ),
        ] {
            let read = Text::new(vec![Part { id: "a", text: source }]);
            let hints = Hints { anchor: vec!["date".to_owned()], ..Hints::default() };
            let mut inputs = Map::new();
            inputs.insert("date".to_owned(), "2026-03-06".into());
            let scene = Scene::new(&read, &[], &inputs, &hints, 100);
            let asked = scene.asks().to_vec();
            let focus = Focus { sentences: asked.clone(), ..Focus::default() };
            let found = deadline(&scene, &focus, true).and_then(|when| when.date);
            assert_eq!(asked.len(), 1, "{source}");
            assert_eq!(found.map(|day| day.to_string()).as_deref(), day, "{source}");
        }
    }

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
