//! Days that another sentence takes back: `We meet on Friday. No, on Monday.`
//!
//! Contract: pure. The words stand in `[dates]` of the language files. Only sentences that follow one another within a
//! part, or in the next message of a talk, speak of the same thing. A day that may be taken back is not named.

use std::collections::BTreeSet;

use chrono::NaiveDate;

use super::super::lexicon::{Phrases, lexicon};
use super::super::text::Text;
use super::super::text::words::Token;

/// Sentences from a day to the one that takes it back, at most.
const APART_MAX: usize = 2;
/// Words before the day of a sentence that begins with a correction.
const WORDS_BEFORE: usize = 10;
/// Words of a sentence that says no more than that the one before is wrong.
const WORDS_ALONE: usize = 6;
/// Words between a day and a word for now, and between a day and a denial.
const NEAR: usize = 4;

/// A day or an hour that a sentence names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub sentence: usize,
    pub start: usize,
    pub end: usize,
    pub date: Option<NaiveDate>,
    pub has_clock: bool,
    /// Its own sentence denies it.
    pub is_denied: bool,
}

/// What is taken back, by the places of what is named.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TakenBack {
    pub days: BTreeSet<usize>,
    pub hours: BTreeSet<usize>,
    /// Sentences that are wrong as a whole, each with the one that says so.
    pub sentences: BTreeSet<(usize, usize)>,
}

/// Whether any sentence has words that take something back, so that a search is worth its time.
pub(super) fn may_take_back(text: &Text<'_>) -> bool {
    let is_one = |sentence: usize| {
        let words = Words::of(text, sentence);
        words.correction().is_some()
            || words.says(&lexicon().dates.called_off)
            || words.says(&lexicon().dates.instead)
            || words.says(&lexicon().dates.denied)
            || words.says(&lexicon().dates.moves)
            || words.says(&lexicon().dates.new_days)
            || words.says_now()
    };
    (0..text.sentences.len()).any(is_one)
}

/// The days, in reading order, that other sentences take back.
pub(super) fn taken_back(text: &Text<'_>, named: &[Named]) -> TakenBack {
    let mut found = TakenBack::default();
    for (at, one) in named.iter().enumerate().filter(|(_, one)| !one.is_denied) {
        if one.date.is_some() && is_called_off(text, one) {
            found.days.insert(at);
            continue;
        }
        let later = || named[at + 1..].iter().filter(|later| follows(text, one, later));
        if one.date.is_none() {
            continue;
        }
        let another =
            |later: &&Named| !later.is_denied && later.date.is_some() && later.date != one.date;
        // The next day that is named, of the sentence that names it first.
        let next = later().find(|later| !later.is_denied && later.date.is_some());
        let replacing = next.filter(another);
        if let Some(by) = replacing.filter(|by| is_correction(text, one, by)) {
            found.days.insert(at);
            found.sentences.insert((one.sentence, by.sentence));
        } else if let Some(by) = replacing.filter(|by| is_moved(text, one, by, named)) {
            found.days.insert(at);
            found.sentences.insert((one.sentence, by.sentence));
        } else if replacing.is_some_and(|by| is_given_up(text, one, by)) {
            found.days.insert(at);
        } else if let Some(by) = later().find(|later| is_denied_later(text, one, later)) {
            found.days.insert(at);
            found.sentences.insert((one.sentence, by.sentence));
        } else if one.has_clock && later().any(|later| is_other_hour(text, one, later)) {
            found.hours.insert(at);
        }
    }
    // What is taken back once is not named by the words that take it back.
    let gone: Vec<usize> = found.days.iter().copied().collect();
    for (at, one) in named.iter().enumerate() {
        let is_same = |first: &usize| {
            let first = &named[*first];
            first.date == one.date && follows(text, first, one) && denies_near(text, one)
        };
        if gone.iter().any(is_same) {
            found.days.insert(at);
        }
    }
    found
}

/// Whether a sentence may speak of what an earlier one names.
fn follows(text: &Text<'_>, one: &Named, later: &Named) -> bool {
    let (first, second) = (one.sentence, later.sentence);
    let part = |at: usize| text.sentences[at].part;
    let is_message = |part: usize| text.spoken_by.get(part).is_some_and(Option::is_some);
    let in_talk =
        || part(second) == part(first) + 1 && is_message(part(first)) && is_message(part(second));
    second > first && second - first <= APART_MAX && (part(first) == part(second) || in_talk())
}

/// `No, on Monday`, or `That is wrong.` between the two.
fn is_correction(text: &Text<'_>, one: &Named, later: &Named) -> bool {
    let last = Words::of(text, later.sentence);
    let begins = last.correction().is_some_and(|end| {
        let day = last.place(later.start);
        day >= end && day <= WORDS_BEFORE && last.is_cut_behind(end)
    });
    let says_wrong = |at: usize| {
        let words = Words::of(text, at);
        words.tokens.len() <= WORDS_ALONE && words.correction().is_some()
    };
    begins || (one.sentence + 1..later.sentence).any(says_wrong)
}

/// `It was moved to Monday`, `The new date is 10 May`, `It is on 10 May now`.
fn is_moved(text: &Text<'_>, one: &Named, later: &Named, named: &[Named]) -> bool {
    let (dates, last) = (&lexicon().dates, Words::of(text, later.sentence));
    let is_first = |other: &Named| {
        other.sentence == later.sentence && other.date.is_some() && other.start < later.start
    };
    if named.iter().any(is_first) {
        return false;
    }
    let day = last.place(later.start);
    let is_target = || last.is_before(day, &dates.moved_to) && last.says(&dates.moves);
    if last.says(&dates.new_days) {
        return true;
    }
    let is_new = is_target() || last.has_near(later, |word| dates.now.contains(word));
    is_new && (last.begins_with_pronoun() || shares_word(text, one.sentence, later.sentence))
}

/// `We cannot meet on Monday. Let us meet on Tuesday.`
fn is_given_up(text: &Text<'_>, one: &Named, later: &Named) -> bool {
    denies_near(text, one)
        && !denies_near(text, later)
        && Words::of(text, later.sentence).says(&lexicon().dates.instead)
}

/// `We meet on Friday. Not on Friday, on Monday.`, `Friday does not work. How about Monday?`
fn is_denied_later(text: &Text<'_>, one: &Named, later: &Named) -> bool {
    let instead = &lexicon().dates.instead;
    let is_proposed = |at: usize| at < text.sentences.len() && Words::of(text, at).says(instead);
    later.date == one.date
        && (later.is_denied
            || denies_near(text, later)
                && (is_proposed(later.sentence) || is_proposed(later.sentence + 1)))
}

/// `On Friday at 10:00. No, at 11:00.`
fn is_other_hour(text: &Text<'_>, one: &Named, later: &Named) -> bool {
    later.date.is_none() && later.has_clock && is_correction(text, one, later)
}

/// `The meeting on 3 May is cancelled.` Of a condition nothing is known.
fn is_called_off(text: &Text<'_>, one: &Named) -> bool {
    let (dates, words) = (&lexicon().dates, Words::of(text, one.sentence));
    let (begin, end) = (words.place(one.start), words.place(one.end));
    let is_open = (0..words.tokens.len())
        .any(|at| dates.conditions.starts(|next| words.word(at + next)).is_some());
    if is_open {
        return false;
    }
    let breaks = |from: usize, to: usize| {
        let turns = |at: usize| {
            [&dates.moves, &dates.instead, &dates.contrasts, &dates.moved_to]
                .iter()
                .any(|phrases| phrases.starts(|next| words.word(at + next)).is_some())
        };
        (from..to).any(turns) || words.has_sign(from, to)
    };
    (0..words.tokens.len()).any(|at| match dates.called_off.starts(|next| words.word(at + next)) {
        Some(length) if at + length <= begin => !breaks(at + length, begin),
        Some(_) => at >= end && !words.is_other_day_between(one, at),
        None => false,
    })
}

/// Whether a word near a day denies.
fn denies_near(text: &Text<'_>, one: &Named) -> bool {
    let words = Words::of(text, one.sentence);
    one.date.is_some() && words.has_near(one, |word| lexicon().denials.contains(word))
}

/// Whether two sentences have a word in common that is no word of the calendar.
fn shares_word(text: &Text<'_>, first: usize, second: usize) -> bool {
    let dates = &lexicon().dates;
    let is_plain = |token: &&Token| {
        let word = text.folded(token);
        dates.months.number(word).is_none()
            && dates.weekdays.number(word).is_none()
            && !word.starts_with(|c: char| c.is_ascii_digit())
    };
    let terms = |at: usize| -> BTreeSet<u32> {
        text.tokens_of(at).iter().filter(is_plain).filter_map(|token| text.term(token)).collect()
    };
    !terms(first).is_disjoint(&terms(second))
}

/// The words of a sentence.
struct Words<'t, 'a> {
    text: &'t Text<'a>,
    sentence: usize,
    tokens: &'t [Token],
}

impl<'t, 'a> Words<'t, 'a> {
    fn of(text: &'t Text<'a>, sentence: usize) -> Words<'t, 'a> {
        Words { text, sentence, tokens: text.tokens_of(sentence) }
    }

    fn word(&self, at: usize) -> &'t str {
        self.tokens.get(at).map_or("", |token| self.text.folded(token))
    }

    fn place(&self, byte: usize) -> usize {
        self.tokens.partition_point(|token| (token.start as usize) < byte)
    }

    fn says(&self, phrases: &Phrases) -> bool {
        (0..self.tokens.len()).any(|at| phrases.starts(|next| self.word(at + next)).is_some())
    }

    fn says_now(&self) -> bool {
        (0..self.tokens.len()).any(|at| lexicon().dates.now.contains(self.word(at)))
    }

    /// The token behind the correction with which the sentence begins: `Sorry, no, …` is two.
    fn correction(&self) -> Option<usize> {
        let corrections = &lexicon().dates.corrections;
        let mut end = 0;
        while let Some(length) = corrections.starts(|next| self.word(end + next)) {
            end += length;
        }
        (end > 0).then_some(end)
    }

    /// Whether a sign stands before a token, or words that stand before a day.
    fn is_cut_behind(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).and_then(|at| self.tokens.get(at)) else {
            return false;
        };
        let behind = self.tokens.get(at).map_or(before.end, |token| token.start) as usize;
        let has_sign = self
            .source()
            .get(before.end as usize..behind)
            .is_some_and(|gap| !gap.trim().is_empty());
        let dates = &lexicon().dates;
        has_sign
            || dates.before_day.contains(self.word(at))
            || dates.weekdays.number(self.word(at)).is_some()
            || self.word(at).starts_with(|c: char| c.is_ascii_digit())
    }

    fn source(&self) -> &'t str {
        self.text.parts[self.text.sentences[self.sentence].part].text
    }

    /// Whether a sign ends a clause between two tokens.
    fn has_sign(&self, from: usize, to: usize) -> bool {
        let Some((first, last)) = self.tokens.get(from.saturating_sub(1)).zip(self.tokens.get(to))
        else {
            return false;
        };
        let between =
            self.source().get(first.end as usize..last.start as usize).unwrap_or_default();
        between.contains([',', ';'])
    }

    /// Whether a phrase ends before a token, with words such as `on the` between or not.
    fn is_before(&self, at: usize, phrases: &Phrases) -> bool {
        let mut end = at;
        while end > 0 && lexicon().dates.before_day.contains(self.word(end - 1)) {
            end -= 1;
        }
        let ends = |end: usize| {
            (0..end).any(|from| {
                let word =
                    |next: usize| if from + next < end { self.word(from + next) } else { "" };
                phrases.starts(word).is_some_and(|length| from + length == end)
            })
        };
        ends(at) || ends(end)
    }

    /// Whether a word beside a day is one of these, in the same clause.
    fn has_near(&self, day: &Named, is_one: impl Fn(&str) -> bool) -> bool {
        let (begin, end) = (self.place(day.start), self.place(day.end));
        let near = begin.saturating_sub(NEAR)..(end + NEAR).min(self.tokens.len());
        let mut found = near.filter(|at| is_one(self.word(*at)));
        found.any(|at| {
            let (from, to) = match at < begin {
                true => (self.tokens[at].end as usize, day.start),
                false => {
                    (day.end.min(self.tokens[at].start as usize), self.tokens[at].start as usize)
                }
            };
            self.source().get(from..to).is_some_and(|gap| !gap.contains([',', ';', ':']))
        })
    }

    fn begins_with_pronoun(&self) -> bool {
        let weight = &lexicon().weight;
        let first = usize::from(weight.joining.contains(self.word(0)));
        let written = self
            .tokens
            .get(first)
            .map(|token| self.text.token_text(self.sentence, token).to_lowercase());
        written.is_some_and(|word| weight.pronouns.contains(word.as_str()))
            || weight.demonstratives.contains(self.word(first))
    }

    /// Whether a number or a day of the week stands between a day and a token.
    fn is_other_day_between(&self, day: &Named, at: usize) -> bool {
        let is_day = |word: &str| {
            lexicon().dates.weekdays.number(word).is_some()
                || lexicon().dates.months.number(word).is_some()
        };
        (self.place(day.end)..at).any(|at| is_day(self.word(at)))
    }
}
