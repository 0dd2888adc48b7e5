//! Dates, times of day and durations, by the words of the language files.
//!
//! Absolute dates are read as written (ISO, `3 de marzo de 2026`, `March 3rd, 2026`, `03/04/2026`). A
//! date without its year, a weekday, `tomorrow` or `en 3 días` needs an anchor: the date of the mail or
//! message. Without an anchor it is not reported: today is never assumed. Where all full dates of a text
//! are of one year, its other dates are of that year too. `03/04/2026` in an English text could be either
//! month and is not reported.

use std::collections::BTreeSet;

use chrono::{Datelike as _, NaiveDate, Weekday};

use super::super::lexicon::{DayWord, Phrases, lexicon};
use super::super::text::Text;
use super::super::text::words::{Token, fold};
use super::Mention;
use super::corrected::{Named, TakenBack, may_take_back, taken_back};

/// Most tokens between a date and its time of day: about one clause. A time further away belongs to
/// something else.
const NEAR_TOKENS: usize = 14;
const MINUTES_OF_HOUR: u32 = 60;
/// The last hour that is rather one of the afternoon where no word says which half of the day is meant: `a las 5`.
const LAST_OPEN_HOUR: u32 = 7;
/// How far a date without its year may lie before its anchor. A mail of March that names January means
/// this January, one that names May means the coming May.
const PAST_DAYS: i64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clock {
    pub hour: u32,
    pub minute: u32,
}

/// A date, a time of day, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTimeMention {
    pub(crate) mention: Mention,
    pub date: Option<NaiveDate>,
    pub clock: Option<Clock>,
    /// The end, for `15:00–16:00`.
    pub until: Option<Clock>,
    /// The last day, for `2–4 February`.
    pub(crate) last: Option<NaiveDate>,
    /// The date was counted from the day of the text.
    pub relative: bool,
    /// An hour is named whose half of the day nobody knows: `tomorrow at 9`. It gives no clock.
    pub(crate) half_unknown: bool,
}

impl DateTimeMention {
    /// `2026-03-03`, when the date is known.
    pub(crate) fn iso_date(&self) -> Option<String> {
        self.date.map(|date| date.format("%Y-%m-%d").to_string())
    }

    /// `2026-03-03T15:00:00`, or the date alone.
    pub(crate) fn iso(&self) -> Option<String> {
        let date = self.iso_date()?;
        Some(match self.clock {
            Some(clock) => format!("{date}T{:02}:{:02}:00", clock.hour, clock.minute),
            None => date,
        })
    }

    /// It stays a mention without a day and an hour.
    fn drop_day(&mut self) {
        (self.date, self.last, self.clock, self.until) = (None, None, None, None);
        self.half_unknown = false;
    }
}

/// The first date a text states by itself: how anchors are read.
pub(crate) fn parse_anchor(value: &str) -> Option<NaiveDate> {
    let part = super::super::text::Part { id: "", text: value };
    let text = Text::new(vec![part]);
    find(&text, None).into_iter().find_map(|when| when.date)
}

/// Every date and time of the text, in reading order.
pub fn find(text: &Text<'_>, anchor: Option<NaiveDate>) -> Vec<DateTimeMention> {
    find_from(text, |_| anchor, false)
}

/// As [`find`], where each part has a day of its own to count from. Parts that are `apart` do not share a year.
pub(crate) fn find_from(
    text: &Text<'_>,
    written: impl Fn(usize) -> Option<NaiveDate>,
    apart: bool,
) -> Vec<DateTimeMention> {
    let parts = 0..text.parts.len();
    if parts.clone().all(|part| written(part).is_some()) {
        return scan(text, written, |_| None);
    }
    let said = scan(text, |_| None, |_| None);
    let shared = own_anchor(&said);
    let part_of = |when: &DateTimeMention| text.sentences[when.mention.sentence].part;
    let own = |part: usize| {
        let first = said.partition_point(|when| part_of(when) < part);
        let last = said.partition_point(|when| part_of(when) <= part);
        if apart { own_anchor(&said[first..last]) } else { shared }
    };
    let own: Vec<Option<NaiveDate>> = parts.map(own).collect();
    scan(text, written, |part| own[part])
}

/// The sentences that a later one says are wrong: `We meet on Friday. No, on Monday.` Each with the one that says so.
pub(crate) fn corrections(text: &Text<'_>) -> Vec<(usize, usize)> {
    if !may_take_back(text) {
        return Vec::new();
    }
    // Which day a weekday is does not matter here.
    let any_day = NaiveDate::from_ymd_opt(2001, 1, 1);
    let (found, denied) = scan_sentences(text, |_| any_day, |_| None);
    taken_back(text, &named(&found, &denied)).sentences.into_iter().collect()
}

/// The first full date of a text whose full dates are all of one year: dates without their year are
/// of that time too. It is no today: what is relative stays unsaid.
fn own_anchor(found: &[DateTimeMention]) -> Option<NaiveDate> {
    let mut dates = found.iter().filter_map(|when| when.date);
    let first = dates.next()?;
    dates.all(|date| date.year() == first.year()).then_some(first)
}

fn scan(
    text: &Text<'_>,
    anchor_of: impl Fn(usize) -> Option<NaiveDate>,
    own_of: impl Fn(usize) -> Option<NaiveDate>,
) -> Vec<DateTimeMention> {
    let (mut found, denied) = scan_sentences(text, anchor_of, own_of);
    if found.is_empty() || !may_take_back(text) {
        return found;
    }
    let TakenBack { days, hours, .. } = taken_back(text, &named(&found, &denied));
    for at in days {
        found[at].drop_day();
    }
    for at in hours {
        (found[at].clock, found[at].until) = (None, None);
        found[at].half_unknown = true;
    }
    found
}

/// What is named, with the days that the sentences of `found` deny by themselves.
fn named(found: &[DateTimeMention], denied: &[Option<NaiveDate>]) -> Vec<Named> {
    let all = found.iter().zip(denied).map(|(when, denied)| Named {
        sentence: when.mention.sentence,
        start: when.mention.start,
        end: when.mention.end,
        date: when.date.or(*denied),
        has_clock: when.clock.is_some(),
        is_denied: denied.is_some(),
    });
    all.collect()
}

/// What each sentence names by itself, and for each the day that its sentence denies.
fn scan_sentences(
    text: &Text<'_>,
    anchor_of: impl Fn(usize) -> Option<NaiveDate>,
    own_of: impl Fn(usize) -> Option<NaiveDate>,
) -> (Vec<DateTimeMention>, Vec<Option<NaiveDate>>) {
    let (mut found, mut denied) = (Vec::new(), Vec::new());
    for sentence in 0..text.sentences.len() {
        let first = found.len();
        let part = text.sentences[sentence].part;
        let (anchor, own) = (anchor_of(part), own_of(part));
        Scanner { text, sentence, anchor, own, tokens: text.tokens_of(sentence) }.scan(&mut found);
        let replaced = Replaced::of(text, sentence, &mut found[first..]);
        replaced.drop_clocks(first, &mut found);
        join_clocks(text, sentence, first, &mut found);
        let days: Vec<Option<NaiveDate>> = found[first..].iter().map(|when| when.date).collect();
        replaced.drop_days(&mut found[first..]);
        let dropped = days.into_iter().zip(&found[first..]);
        denied.extend(dropped.map(|(day, when)| day.filter(|_| when.date.is_none())));
    }
    (found, denied)
}

struct Scanner<'t, 'a> {
    text: &'t Text<'a>,
    sentence: usize,
    anchor: Option<NaiveDate>,
    own: Option<NaiveDate>,
    tokens: &'t [Token],
}

impl Scanner<'_, '_> {
    fn scan(&self, found: &mut Vec<DateTimeMention>) {
        let mut at = 0;
        while at < self.tokens.len() {
            match self.date(at).or_else(|| self.clock_at(at)) {
                Some((when, next)) => {
                    found.push(when);
                    at = next.max(at + 1);
                }
                None => at += 1,
            }
        }
    }

    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| self.text.folded(token))
    }

    fn number(&self, at: usize) -> Option<u32> {
        let word = self.word(at);
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
        let suffix = &word[digits.len()..];
        (suffix.is_empty() || lexicon().dates.ordinal_marks.contains(suffix))
            .then(|| digits.parse().ok())
            .flatten()
    }

    fn part(&self) -> &str {
        self.text.parts[self.text.sentences[self.sentence].part].text
    }

    fn rest(&self, at: usize) -> &str {
        &self.part()[self.tokens[at].start as usize..self.text.sentences[self.sentence].end]
    }

    fn when(
        &self,
        start: usize,
        end: usize,
        date: Option<NaiveDate>,
        clock: Option<Clock>,
    ) -> DateTimeMention {
        let mention = Mention { sentence: self.sentence, start, end };
        DateTimeMention {
            mention,
            date,
            clock,
            until: None,
            last: None,
            relative: false,
            half_unknown: false,
        }
    }

    fn at_bytes(
        &self,
        start: usize,
        end: usize,
        date: Option<NaiveDate>,
        clock: Option<Clock>,
    ) -> (DateTimeMention, usize) {
        let next = self.tokens.partition_point(|token| (token.start as usize) < end);
        (self.when(start, end, date, clock), next)
    }

    fn over(
        &self,
        from: usize,
        next: usize,
        date: Option<NaiveDate>,
        relative: bool,
    ) -> Option<(DateTimeMention, usize)> {
        let date = date?;
        let (start, end) = (self.tokens[from].start as usize, self.tokens[next - 1].end as usize);
        Some((DateTimeMention { relative, ..self.when(start, end, Some(date), None) }, next))
    }

    fn date(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        let first = self.word(at).as_bytes().first().copied()?;
        if first.is_ascii_digit() {
            return self
                .iso(at)
                .or_else(|| self.slashed(at))
                .or_else(|| self.day_month(at))
                .or_else(|| self.day_of_month(at));
        }
        self.month_day(at).or_else(|| self.relative(at)).or_else(|| self.weekday(at))
    }

    fn iso(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        let rest = self.rest(at);
        let (date, used) = iso_date(rest)?;
        let start = self.tokens[at].start as usize;
        let tail = &rest[used..];
        let time =
            tail.strip_prefix(['T', ' ']).and_then(clock).filter(|(_, width, _)| *width >= 4);
        let (clock, width) = time.map_or((None, 0), |(clock, width, _)| (Some(clock), width + 1));
        Some(self.at_bytes(start, start + used + width, Some(date), clock))
    }

    fn slashed(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        let rest = self.rest(at);
        let dotted = || {
            let ordinals = self.text.language.does(|habits| habits.ordinals_end_in_a_stop);
            dotted_without_year(rest).filter(|_| ordinals && self.anchor.is_some())
        };
        let (a, b, year, used) =
            slashed(rest).or_else(dotted).or_else(|| self.slashed_without_year(at))?;
        let day_first = match (a > 12, b > 12) {
            (true, false) => true,
            (false, true) => false,
            (false, false) if a == b => true,
            (false, false) if self.text.language.does(|habits| habits.month_first) => return None,
            (false, false) => true,
            (true, true) => return None,
        };
        let (day, month) = if day_first { (a, b) } else { (b, a) };
        let date = self.complete(year, month, day)?;
        // A weekday in front that is another one says that something was misread.
        let named = at.checked_sub(1).and_then(|before| weekday(self.word(before)));
        if year.is_none() && named.is_some_and(|named| named != date.weekday()) {
            return None;
        }
        let start = self.tokens[at].start as usize;
        Some(self.at_bytes(start, start + used, Some(date), None))
    }

    /// `el 12/03`, `jueves 12/03`: only a word in front makes two numbers a date.
    fn slashed_without_year(&self, at: usize) -> Option<(u32, u32, Option<i32>, usize)> {
        let before = self.word(at.checked_sub(1)?);
        if !lexicon().dates.leading.contains(before) && weekday(before).is_none() {
            return None;
        }
        let rest = self.rest(at);
        let (a, first) = digits(rest, 2)?;
        let (b, second) = digits(rest[first..].strip_prefix('/')?, 2)?;
        let used = first + 1 + second;
        let ends = !rest[used..].starts_with(|c: char| c.is_alphanumeric() || c == '/');
        let plausible = (1..=31).contains(&a) && (1..=31).contains(&b);
        (ends && plausible).then_some((a, b, None, used))
    }

    fn day_month(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        let day = self.number(at).filter(|day| (1..=31).contains(day))?;
        let (last, mut next) = self.last_day(at, day);
        next += usize::from(lexicon().dates.links.contains(self.word(next)));
        let month = month(self.word(next))?;
        let (year, next) = self.year(next + 1);
        let (when, next) = self.over(at, next, self.complete(year, month, day), false)?;
        Some((self.lasting(when, last), next))
    }

    fn month_day(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        let month = month(self.word(at))?;
        let day = self
            .number(at + 1)
            .filter(|day| (1..=31).contains(day) && self.word(at + 1).len() <= 4)?;
        let (last, next) = self.last_day(at + 1, day);
        let (year, next) = self.year(next);
        let (when, next) = self.over(at, next, self.complete(year, month, day), false)?;
        Some((self.lasting(when, last), next))
    }

    /// `2-4`, `9 to 12`, `9. bis 12.`: the last day behind a first one, and the token after both.
    fn last_day(&self, at: usize, day: u32) -> (Option<u32>, usize) {
        let later = |at: usize| {
            let last = self.number(at).filter(|&last| (day + 1..=31).contains(&last));
            last.filter(|_| self.word(at).len() <= 4)
        };
        let (Some(token), Some(next)) = (self.tokens.get(at), self.tokens.get(at + 1)) else {
            return (None, at + 1);
        };
        let gap = &self.part()[token.end as usize..next.start as usize];
        if matches!(gap.trim(), "-" | "–" | "—") {
            let last = later(at + 1);
            return (last, at + 1 + usize::from(last.is_some()));
        }
        let joint = format!(" {} ", self.word(at + 1));
        let last = later(at + 2)
            .filter(|_| lexicon().dates.joints.iter().any(|one| fold(one) == fold(&joint)));
        (last, at + 1 + 2 * usize::from(last.is_some()))
    }

    fn lasting(&self, when: DateTimeMention, last: Option<u32>) -> DateTimeMention {
        let last = last
            .zip(when.date)
            .and_then(|(last, first)| NaiveDate::from_ymd_opt(first.year(), first.month(), last));
        DateTimeMention { last, ..when }
    }

    /// `the 20th`, `el 15`: the next day with that number.
    fn day_of_month(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        let anchor = self.anchor?;
        let word = self.word(at);
        let day = self.number(at).filter(|day| (1..=31).contains(day) && word.len() <= 4)?;
        let ordinal = word.ends_with(|c: char| c.is_alphabetic());
        let before = at.checked_sub(1).map_or("", |before| self.word(before));
        let dates = &lexicon().dates;
        let after =
            &self.part()[self.tokens[at].end as usize..self.text.sentences[self.sentence].end];
        let ends = after.is_empty()
            || after.starts_with(['.', ',', ';', ')', '!', '?'])
                && !after[1..].starts_with(|c: char| c.is_ascii_digit());
        let next = self.word(at + 1);
        let hours = dates.hour_after.iter().any(|phrase| phrase.split(' ').next() == Some(next));
        let meant = ordinal && dates.day_articles.contains(before)
            || dates.bare_day_after.contains(before) && (ends || hours);
        if !meant {
            return None;
        }
        self.over(at, at + 1, next_day(anchor, |date| date.day() == day), false)
    }

    fn year(&self, at: usize) -> (Option<i32>, usize) {
        let skip = usize::from(lexicon().dates.links.contains(self.word(at)));
        let year = self.number(at + skip).filter(|year| (1900..=2199).contains(year));
        match year {
            Some(year) => (Some(year as i32), at + skip + 1),
            None => (None, at),
        }
    }

    fn complete(&self, year: Option<i32>, month: u32, day: u32) -> Option<NaiveDate> {
        if let Some(year) = year {
            return NaiveDate::from_ymd_opt(year, month, day);
        }
        let anchor = self.anchor.or(self.own)?;
        let this = NaiveDate::from_ymd_opt(anchor.year(), month, day)?;
        match (anchor - this).num_days() {
            late if late > PAST_DAYS => NaiveDate::from_ymd_opt(anchor.year() + 1, month, day),
            early if early < -(365 - PAST_DAYS) => {
                NaiveDate::from_ymd_opt(anchor.year() - 1, month, day)
            }
            _ => Some(this),
        }
    }

    fn relative(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        let anchor = self.anchor?;
        let (date, next) = match self.day_word(at) {
            Some((day, words)) => (after(anchor, day.after), at + words),
            None => self.counted(at, anchor)?,
        };
        self.over(at, next, date, true)
    }

    /// `tomorrow`, `pasado mañana`, and how many words it is.
    fn day_word(&self, at: usize) -> Option<(&'static DayWord, usize)> {
        let before = at.checked_sub(1).map_or("", |before| self.word(before));
        let meant = |day: &&DayWord| {
            !day.not_behind.contains(before)
                && day.only_in.is_none_or(|language| language == self.text.language)
                && day.say.split(' ').zip(at..).all(|(word, at)| self.word(at) == word)
        };
        let day = lexicon().days.get(self.word(at))?.iter().find(meant)?;
        Some((day, day.say.split(' ').count()))
    }

    /// `in three days`, `dentro de 2 semanas`.
    fn counted(&self, at: usize, anchor: NaiveDate) -> Option<(Option<NaiveDate>, usize)> {
        let dates = &lexicon().dates;
        let at = at + dates.counted.starts(|offset| self.word(at + offset))?;
        let spelled = dates.numbers.number(self.word(at));
        let count = i64::from(self.number(at).or(spelled).filter(|&count| count <= 400)?);
        let unit = match self.word(at + 1) {
            unit if dates.day.contains(unit) => 1,
            unit if dates.week.contains(unit) => 7,
            _ => return None,
        };
        Some((after(anchor, count * unit), at + 2))
    }

    fn weekday(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        let anchor = self.anchor?;
        let day = weekday(self.word(at))?;
        let before = if at > 0 { self.word(at - 1) } else { "" };
        let next = self.word(at + 1);
        let dates = &lexicon().dates;
        // `every Friday` is no date.
        let habitual = dates.habitual.contains(before);
        if habitual || month(next).is_some() {
            return None;
        }
        // `Friday 1-2 pm` is an hour, `el sábado 15` a day of the month, `Friday 15 May` a date of its own.
        if let Some(number) = self.number(at + 1).filter(|&number| number <= 31)
            && self.clock_at(at + 1).is_none()
        {
            if self.slashed(at + 1).or_else(|| self.day_month(at + 1)).is_some()
                || self.starts_date(at + 1)
            {
                return None;
            }
            let date = next_day(anchor, |date| date.day() == number && date.weekday() == day);
            return self.over(at, at + 2, date, false);
        }
        let ahead = (7 + i64::from(day.num_days_from_monday())
            - i64::from(anchor.weekday().num_days_from_monday()))
            % 7;
        let past = dates.past_before.contains(before) || dates.past_after.contains(next);
        let date = match (past, ahead) {
            (true, ahead) => after(anchor, ahead - 7),
            (false, 0) => after(anchor, 7),
            (false, ahead) => after(anchor, ahead),
        };
        self.over(at, at + 1, date, true)
    }

    /// Whether a number is the beginning of a date in figures, known or not.
    fn starts_date(&self, at: usize) -> bool {
        let rest = self.rest(at);
        let tail = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        tail.starts_with(['/', '-', '.']) && tail[1..].starts_with(|c: char| c.is_ascii_digit())
    }

    fn clock_at(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        if let Some(clock) =
            lexicon().dates.noon.contains(self.word(at)).then_some(Clock { hour: 12, minute: 0 })
        {
            let token = self.tokens[at];
            return Some((
                self.when(token.start as usize, token.end as usize, None, Some(clock)),
                at + 1,
            ));
        }
        if !self.word(at).as_bytes().first()?.is_ascii_digit() {
            return None;
        }
        let rest = self.rest(at);
        let start = self.tokens[at].start as usize;
        let (mut from, mut width, marked) = match clock(rest) {
            Some(found) => found,
            None => return self.bare_hour(at),
        };
        let mut until = None;
        let ranged = range_end(&rest[width..]).and_then(|(gap, last)| Some((gap, clock(last)?)));
        if let Some((gap, (end, more, end_marked))) = ranged {
            until = Some(end);
            width += gap + more;
            let afternoon = end_marked && end.hour >= 12 && from.hour + 12 <= end.hour;
            if !marked && from.hour < 12 && afternoon {
                from.hour += 12;
            }
        }
        let (when, next) = self.at_bytes(start, start + width, None, Some(from));
        Some((DateTimeMention { until, ..when }, next))
    }

    /// `a las 15`, `3 to 4 pm`, `9–11 h`: an hour that only its neighbourhood makes one.
    fn bare_hour(&self, at: usize) -> Option<(DateTimeMention, usize)> {
        let hour = self.number(at).filter(|&hour| hour < 24 && self.word(at).len() <= 2)?;
        let rest = self.rest(at);
        let start = self.tokens[at].start as usize;
        let width = self.word(at).len();
        let ranged = range_end(&rest[width..]).and_then(|(gap, last)| Some((gap, clock(last)?)));
        if let Some((gap, (end, more, true))) = ranged {
            let afternoon = end.hour >= 12 && hour < 12 && hour + 12 <= end.hour;
            let from = Clock { hour: if afternoon { hour + 12 } else { hour }, minute: 0 };
            let (when, next) = self.at_bytes(start, start + width + gap + more, None, Some(from));
            return Some((DateTimeMention { until: Some(end), ..when }, next));
        }
        let dates = &lexicon().dates;
        let stands_behind = |phrase: &String| {
            let words = phrase.split(' ').count();
            at >= words
                && phrase.split(' ').zip(at - words..).all(|(word, at)| self.word(at) == word)
        };
        // `à 19 heures` is an hour, `à 2 heures de route` is none.
        let in_hours = hour > LAST_OPEN_HOUR
            && dates.hour.contains(self.word(at + 1))
            && dates.hours_after.iter().any(stands_behind);
        let is_sure = in_hours || dates.hour_after.iter().any(stands_behind);
        let ends_half = dates.half_unknown_after.iter().any(stands_behind) && self.ends_time(at);
        if !is_sure && !ends_half {
            return None;
        }
        let says = |half: &Phrases| half.starts(|offset| self.word(at + 1 + offset)).is_some();
        let (forenoon, afternoon) = (says(&dates.forenoon), says(&dates.afternoon));
        let half_is_open = 1..=if is_sure { LAST_OPEN_HOUR } else { 12 };
        let half_unknown = half_is_open.contains(&hour) && !forenoon && !afternoon;
        let hour = if afternoon && hour < 12 { hour + 12 } else { hour };
        let clock = (!half_unknown).then_some(Clock { hour, minute: 0 });
        let (when, next) = self.at_bytes(start, start + width, None, clock);
        Some((DateTimeMention { half_unknown, ..when }, next))
    }

    /// Whether a number can be an hour by what stands behind it: no thing that is counted (`at 9 points`), and no
    /// name (`at 9 Elm Street`).
    fn ends_time(&self, at: usize) -> bool {
        let Some(next) = self.tokens.get(at + 1) else { return true };
        let word = self.word(at + 1);
        let gap = &self.part()[self.tokens[at].end as usize..next.start as usize];
        if !gap.trim().is_empty() {
            return gap.len() > 1 && gap.starts_with(['.', ',', ';', ':', ')', '!', '?']);
        }
        let is_small = self.text.term(next).is_none() && !is_period(word);
        is_small || is_calendar_word(word) || lexicon().days.contains_key(word)
    }
}

/// `a las 15:30, de 15:30 a 16:30`: a range that repeats the start of a date only adds its end.
fn repeats_start(found: &mut [DateTimeMention], at: usize) -> bool {
    let (clock, until, end) = (found[at].clock, found[at].until, found[at].mention.end);
    let started = found
        .iter_mut()
        .find(|when| when.date.is_some() && when.clock == clock && when.until.is_none());
    match (started, until) {
        (Some(when), Some(until)) => {
            when.until = Some(until);
            when.mention.end = when.mention.end.max(end);
            true
        }
        _ => false,
    }
}

/// The days and hours of a sentence that it denies or replaces by others: `not today but tomorrow`, `instead of
/// Monday`, `moved from Monday to Wednesday`.
struct Replaced {
    /// The bytes at which they begin: a day keeps its place when an hour is joined to it.
    starts: BTreeSet<usize>,
}

impl Replaced {
    /// Of a span that something is moved over, only the end stays: `moved from 2 to 4 February`.
    fn of(text: &Text<'_>, sentence: usize, found: &mut [DateTimeMention]) -> Replaced {
        let words = WordsAround::of(text, sentence);
        let mut starts = BTreeSet::new();
        if let Some(target) = found.iter().position(|when| words.is_target(when)) {
            let is_day = found[target].date.is_some();
            let earlier = found[..target].iter().filter(|when| when.date.is_some() == is_day);
            starts.extend(earlier.map(|when| when.mention.start));
        }
        let replaced = |pair: &&[DateTimeMention]| {
            words.is_contrasted(&pair[0], &pair[1]) || words.is_given_up(&pair[0], &pair[1])
        };
        starts.extend(found.windows(2).filter(replaced).map(|pair| pair[0].mention.start));
        let left = found.iter().filter(|when| words.is_left(when));
        starts.extend(left.map(|when| when.mention.start));
        let denied = |when: &&DateTimeMention| words.is_denied(when);
        let is_another = found.iter().any(|when| !words.is_denied(when));
        // `Why not tomorrow?` proposes the day.
        if is_another || !text.sentence(sentence).trim_end().ends_with('?') {
            starts.extend(found.iter().filter(denied).map(|when| when.mention.start));
        }
        for when in found.iter_mut().filter(|when| words.is_moved_span(when)) {
            (when.date, when.last) = (when.last.or(when.date), None);
            (when.clock, when.until) = (when.until.or(when.clock), None);
        }
        Replaced { starts }
    }

    fn has(&self, when: &DateTimeMention) -> bool {
        self.starts.contains(&when.mention.start)
    }

    /// Hours that stand without a day, before others are joined to their days.
    fn drop_clocks(&self, first: usize, found: &mut Vec<DateTimeMention>) {
        let mut at = first;
        while at < found.len() {
            match self.has(&found[at]) && found[at].date.is_none() {
                true => drop(found.remove(at)),
                false => at += 1,
            }
        }
    }

    /// The place stays a mention, so that nothing else is read into it.
    fn drop_days(&self, found: &mut [DateTimeMention]) {
        let is_within = |when: &DateTimeMention| {
            self.starts.range(when.mention.start..when.mention.end).next().is_some()
        };
        found.iter_mut().filter(|when| is_within(when)).for_each(DateTimeMention::drop_day);
    }
}

/// The words of a sentence, to look at those beside a date.
struct WordsAround<'t, 'a> {
    text: &'t Text<'a>,
    sentence: usize,
    tokens: &'t [Token],
}

impl<'t, 'a> WordsAround<'t, 'a> {
    /// Words between a denial and a day.
    const NEAR: usize = 6;

    fn of(text: &'t Text<'a>, sentence: usize) -> WordsAround<'t, 'a> {
        WordsAround { text, sentence, tokens: text.tokens_of(sentence) }
    }

    fn word(&self, at: usize) -> &'t str {
        self.tokens.get(at).map_or("", |token| self.text.folded(token))
    }

    fn place(&self, byte: usize) -> usize {
        self.tokens.partition_point(|token| (token.start as usize) < byte)
    }

    /// The token before which a phrase ends that stands right before a date, with words such as `on the` between or not.
    fn phrase_before(&self, when: &DateTimeMention, phrases: &Phrases) -> Option<usize> {
        /// Words between the two: `no longer on the`.
        const BETWEEN: usize = 3;
        /// Most words of a phrase.
        const LONGEST: usize = 4;
        let end = self.place(when.mention.start);
        let ends = (0..=BETWEEN.min(end)).map(|words| end - words);
        let is_between = |end: &usize| {
            *end == self.place(when.mention.start)
                || lexicon().dates.before_day.contains(self.word(*end))
        };
        let mut ends = ends.take_while(is_between);
        ends.find_map(|end| {
            let starts = end.saturating_sub(LONGEST)..end;
            let stands = |at: usize| {
                let word = |next: usize| if at + next < end { self.word(at + next) } else { "" };
                phrases.starts(word).is_some_and(|words| at + words == end)
            };
            // `No, on Monday we meet.`
            let is_beside = |at: &usize| {
                let between = &self.source()[self.tokens[*at].start as usize..when.mention.start];
                !between.contains([',', '.', ';', ':', '!', '?'])
            };
            starts.rev().find(|at| stands(*at)).filter(is_beside)
        })
    }

    /// `We do not meet today but tomorrow`: a word of contrast stands before the second day, and a denial before the first.
    fn is_contrasted(&self, first: &DateTimeMention, second: &DateTimeMention) -> bool {
        let contrasts = &lexicon().dates.contrasts;
        let at = self.place(first.mention.start);
        let is_denial = |at: usize| lexicon().denials.contains(self.word(at));
        self.phrase_before(second, contrasts).is_some()
            && (at.saturating_sub(Self::NEAR)..at).any(is_denial)
    }

    /// `We cannot meet on Monday, let us meet on Tuesday`: a denial stands beside the first day, and behind it words that
    /// propose something in its place.
    fn is_given_up(&self, first: &DateTimeMention, second: &DateTimeMention) -> bool {
        let instead = &lexicon().dates.instead;
        let behind = self.place(first.mention.end)..self.tokens.len();
        let is_proposed = |at: usize| instead.starts(|next| self.word(at + next)).is_some();
        self.is_near_denial(first)
            && !self.is_near_denial(second)
            && behind.into_iter().any(is_proposed)
    }

    /// Whether a word near a day denies, and no comma stands between the two: `Am Montag geht es nicht`.
    fn is_near_denial(&self, when: &DateTimeMention) -> bool {
        let (begin, end) = (self.place(when.mention.start), self.place(when.mention.end));
        let near = begin.saturating_sub(Self::NEAR)..(end + Self::NEAR).min(self.tokens.len());
        let is_of_clause = |at: usize| {
            let (from, to) = match at < begin {
                true => (self.tokens[at].end as usize, when.mention.start),
                false => (when.mention.end, self.tokens[at].start as usize),
            };
            self.source().get(from..to).is_some_and(|between| !between.contains([',', ';', ':']))
        };
        let mut denials = near.filter(|at| lexicon().denials.contains(self.word(*at)));
        denials.any(is_of_clause)
    }

    /// Whether a word denies it: `not on Monday`, `heute nicht, sondern morgen`.
    fn is_denied(&self, when: &DateTimeMention) -> bool {
        let dates = &lexicon().dates;
        let next = self.place(when.mention.end);
        let behind = || {
            let denial =
                self.tokens.get(next).filter(|_| dates.denied_behind.contains(self.word(next)));
            let after = denial.map(|token| &self.source()[token.end as usize..self.end()]);
            after.is_some_and(|after| {
                let is_end = after.trim_matches(['.', ' ', '\n']).is_empty();
                let is_apart = is_end || after.starts_with([',', ';', '!', ':']);
                is_apart || dates.contrasts.starts(|offset| self.word(next + 1 + offset)).is_some()
            })
        };
        self.phrase_before(when, &dates.denied).is_some() || behind()
    }

    fn source(&self) -> &'t str {
        self.text.parts[self.text.sentences[self.sentence].part].text
    }

    fn end(&self) -> usize {
        self.text.sentences[self.sentence].end
    }

    /// Whether a verb such as `moved` stands before a token. Where the words for a move name no span of days, it
    /// may stand behind too: `auf Mittwoch verschoben`.
    fn is_moved(&self, before: usize, anywhere: bool) -> bool {
        let last = if anywhere { self.tokens.len() } else { before };
        (0..last).any(|at| lexicon().dates.moves.starts(|next| self.word(at + next)).is_some())
    }

    /// Whether it is the day to which something is moved.
    fn is_target(&self, when: &DateTimeMention) -> bool {
        let Some(at) = self.phrase_before(when, &lexicon().dates.moved_to) else { return false };
        let joint = format!(" {} ", self.word(at));
        let is_joint = lexicon().dates.joints.iter().any(|one| fold(one) == fold(&joint));
        self.is_moved(at, !is_joint)
    }

    /// Whether something was moved away from this day to no other one: `postponed from 3 March to a later date`.
    fn is_left(&self, when: &DateTimeMention) -> bool {
        let dates = &lexicon().dates;
        let is_span = when.last.is_some() || when.until.is_some();
        let Some(at) = self.phrase_before(when, &dates.moved_from).filter(|_| !is_span) else {
            return false;
        };
        let end = self.place(when.mention.end);
        let is_verb = |words: usize| {
            let begin = at.checked_sub(words);
            begin.is_some_and(|begin| {
                dates.moves.starts(|next| self.word(begin + next)) == Some(words)
            })
        };
        let has_no_other = dates.unnamed.starts(|next| self.word(end + next)).is_some();
        has_no_other && self.is_moved(at, true) || is_verb(1) || is_verb(2)
    }

    /// Whether it reads as a span but is a move from its beginning to its end.
    fn is_moved_span(&self, when: &DateTimeMention) -> bool {
        let is_span = when.last.is_some() || when.until.is_some();
        is_span
            && self
                .phrase_before(when, &lexicon().dates.moved_from)
                .is_some_and(|at| self.is_moved(at, false))
    }
}

/// Gives a date the clock that stands near it; what is joined disappears as a mention of its own.
fn join_clocks(text: &Text<'_>, sentence: usize, first: usize, found: &mut Vec<DateTimeMention>) {
    let tokens = text.tokens_of(sentence);
    let position = |byte: usize| tokens.partition_point(|token| (token.start as usize) < byte);
    let mut at = first;
    while at < found.len() {
        let bare_clock = found[at].date.is_none();
        let here = position(found[at].mention.start);
        if bare_clock && repeats_start(&mut found[first..], at - first) {
            found.remove(at);
            continue;
        }
        let near = (first..found.len())
            .filter(|&other| found[other].date.is_some() && found[other].clock.is_none())
            .min_by_key(|&other| position(found[other].mention.start).abs_diff(here));
        match near {
            Some(date)
                if bare_clock
                    && position(found[date].mention.start).abs_diff(here) <= NEAR_TOKENS =>
            {
                let clock = found.remove(at);
                let date = if date > at { date - 1 } else { date };
                let when = &mut found[date];
                (when.clock, when.until) = (clock.clock, clock.until);
                when.half_unknown = clock.half_unknown;
                when.mention.start = when.mention.start.min(clock.mention.start);
                when.mention.end = when.mention.end.max(clock.mention.end);
            }
            _ => at += 1,
        }
    }
}

/// Whether a folded word is a length of time: `weeks`.
pub(crate) fn is_period(word: &str) -> bool {
    let dates = &lexicon().dates;
    [&dates.minute, &dates.hour, &dates.day, &dates.week, &dates.longer]
        .iter()
        .any(|words| words.contains(word))
}

/// Whether a folded word names a month or a weekday.
pub(crate) fn is_calendar_word(word: &str) -> bool {
    month(word).is_some() || weekday(word).is_some()
}

fn month(word: &str) -> Option<u32> {
    lexicon().dates.months.number(word)
}

pub(crate) fn weekday(word: &str) -> Option<Weekday> {
    let number = lexicon().dates.weekdays.number(word)?;
    Weekday::try_from(number as u8 - 1).ok()
}

/// So many days after a day, or before it.
fn after(day: NaiveDate, days: i64) -> Option<NaiveDate> {
    day.checked_add_signed(chrono::TimeDelta::try_days(days)?)
}

/// The first day after another one that is meant, within a year.
fn next_day(from: NaiveDate, meant: impl Fn(NaiveDate) -> bool) -> Option<NaiveDate> {
    (1..=366).filter_map(|days| after(from, days)).find(|date| meant(*date))
}

/// `11.9.`: a day and a month, each with its stop.
fn dotted_without_year(rest: &str) -> Option<(u32, u32, Option<i32>, usize)> {
    let (day, first) = digits(rest, 2)?;
    let tail = rest[first..].strip_prefix('.')?;
    let (month, second) = digits(tail, 2)?;
    let end = tail[second..].strip_prefix('.')?;
    let plausible = (1..=31).contains(&day) && (1..=12).contains(&month);
    (plausible && !end.starts_with(|c: char| c.is_ascii_digit())).then_some((
        day,
        month,
        None,
        first + second + 2,
    ))
}

fn iso_date(rest: &str) -> Option<(NaiveDate, usize)> {
    let bytes = rest.as_bytes();
    if bytes.len() < 10 || !matches!(bytes[4], b'-' | b'/') || bytes[7] != bytes[4] {
        return None;
    }
    let number = |range: std::ops::Range<usize>| {
        rest.get(range)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?
            .parse::<u32>()
            .ok()
    };
    let date = NaiveDate::from_ymd_opt(number(0..4)? as i32, number(5..7)?, number(8..10)?)?;
    let ends = !bytes.get(10).is_some_and(u8::is_ascii_digit);
    ends.then_some((date, 10))
}

fn digits(rest: &str, most: usize) -> Option<(u32, usize)> {
    let width = rest.bytes().take_while(u8::is_ascii_digit).count();
    (1..=most)
        .contains(&width)
        .then(|| rest[..width].parse().ok())
        .flatten()
        .map(|number| (number, width))
}

fn slashed(rest: &str) -> Option<(u32, u32, Option<i32>, usize)> {
    let (a, first) = digits(rest, 2)?;
    let mark = *rest.as_bytes().get(first)?;
    if !matches!(mark, b'/' | b'.' | b'-') {
        return None;
    }
    let (b, second) = digits(&rest[first + 1..], 2)?;
    let used = first + 1 + second;
    let third = rest[used..].strip_prefix(mark as char).and_then(|tail| digits(tail, 4));
    let (year, used) = match third {
        Some((year, 4)) if (1900..2200).contains(&year) => (Some(year as i32), used + 5),
        Some((year, 2)) if mark != b'.' => (Some(2000 + year as i32), used + 3),
        _ => return None,
    };
    let plausible = (1..=31).contains(&a) && (1..=31).contains(&b);
    plausible.then_some((a, b, year, used))
}

/// A time of day at the start of `rest`: the time, its width, and whether am, pm or `h` marks it.
fn clock(rest: &str) -> Option<(Clock, usize, bool)> {
    let (hour, width) = digits(rest, 2)?;
    let bytes = rest.as_bytes();
    let mut used = width;
    let mut minute = None;
    if matches!(bytes.get(used), Some(b':' | b'.' | b'h'))
        && let Some((value, 2)) = digits(&rest[used + 1..], 2)
    {
        let dotted = bytes[used] == b'.';
        used += 3;
        minute = Some((value, dotted));
        let seconds = rest[used..].strip_prefix(':').and_then(|tail| digits(tail, 2));
        used += seconds.filter(|found| found.1 == 2).map_or(0, |_| 3);
    }
    // `14 h 30`
    if minute.is_none()
        && let Some((value, width)) = spaced_minutes(&rest[used..])
    {
        used += width;
        minute = Some((value, false));
    }
    let (half, suffix) = half_day(&rest[used..]);
    used += suffix;
    let marked = suffix > 0;
    if bytes.get(used).is_some_and(|byte| byte.is_ascii_alphanumeric() && *byte != b'Z')
        || (bytes.get(used) == Some(&b'/'))
    {
        return None;
    }
    match minute {
        None if !marked => return None,
        Some((_, true)) if !marked => return None,
        _ => {}
    }
    let hour = match half {
        Some(true) if hour < 12 => hour + 12,
        Some(false) if hour == 12 => 0,
        _ => hour,
    };
    let minute = minute.map_or(0, |found| found.0);
    (hour < 24 && minute < 60).then_some((Clock { hour, minute }, used, marked))
}

/// The minutes behind ` h `, with a space on each side.
fn spaced_minutes(rest: &str) -> Option<(u32, usize)> {
    const SPACES: [char; 3] = [' ', '\u{a0}', '\u{202f}'];
    let tail = rest.strip_prefix(SPACES)?.strip_prefix('h')?.strip_prefix(SPACES)?;
    let (value, 2) = digits(tail, 2)? else { return None };
    (value < 60).then(|| (value, rest.len() - tail.len() + 2))
}

/// Whether `pm` (true), `am` (false) or a plain `h` follows, and the width of it.
fn half_day(rest: &str) -> (Option<bool>, usize) {
    let space = rest.len() - rest.trim_start_matches([' ', '\u{a0}']).len();
    let tail = &rest[space..];
    if space > 1 {
        return (None, 0);
    }
    for (mark, half) in &lexicon().hour_marks {
        let found = tail.get(..mark.len()).is_some_and(|head| head.eq_ignore_ascii_case(mark));
        let ends = !tail
            .get(mark.len()..)
            .is_some_and(|after| after.starts_with(|c: char| c.is_alphanumeric()));
        if found && ends {
            return (*half, space + mark.len());
        }
    }
    (None, 0)
}

/// The text after a dash or `to`/`a` that joins two times, with the width of the joint.
fn range_end(rest: &str) -> Option<(usize, &str)> {
    const DASHES: [&str; 6] = [" - ", "-", " – ", "–", " — ", "—"];
    let words = lexicon().dates.joints.iter().map(String::as_str);
    for joint in DASHES.into_iter().chain(words) {
        if let Some(tail) = rest.strip_prefix(joint) {
            return Some((joint.len(), tail));
        }
    }
    None
}

/// Minutes of the first duration in a sentence (`45 min`, `1.5 hours`, `hora y media`).
pub(crate) fn duration(text: &Text<'_>, sentence: usize) -> Option<(u32, Mention)> {
    let tokens = text.tokens_of(sentence);
    (0..tokens.len()).find_map(|at| {
        let unit = text.folded(tokens.get(at + 1)?);
        let dates = &lexicon().dates;
        let scale = match unit {
            _ if dates.minute.contains(unit) => 1,
            _ if dates.hour.contains(unit) => MINUTES_OF_HOUR,
            _ => return None,
        };
        let word = text.folded(&tokens[at]);
        let minutes = match dates.numbers.number(word) {
            Some(count) => count * scale,
            None if dates.half.contains(word) => scale / 2,
            None => tenths(word)? * scale / 10,
        };
        let mention = Mention {
            sentence,
            start: tokens[at].start as usize,
            end: tokens[at + 1].end as usize,
        };
        (1..=60 * 24 * 14).contains(&minutes).then_some((minutes, mention))
    })
}

fn tenths(number: &str) -> Option<u32> {
    let number = fold(number).replace(',', ".");
    let (whole, part) = number.split_once('.').unwrap_or((&number, "0"));
    let whole: u32 = whole.parse().ok().filter(|&whole| whole < 10_000)?;
    Some(whole * 10 + part.get(..1)?.parse::<u32>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Part;
    use super::*;

    fn found(source: &str, anchor: Option<&str>) -> Vec<String> {
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let anchor = anchor.and_then(parse_anchor);
        find(&text, anchor)
            .iter()
            .map(|when| match (when.iso(), when.clock, when.until) {
                (Some(iso), _, Some(until)) => {
                    format!("{iso}/{:02}:{:02}", until.hour, until.minute)
                }
                (Some(iso), _, None) => iso,
                (None, Some(clock), _) => format!("{:02}:{:02}", clock.hour, clock.minute),
                (None, None, _) => String::new(),
            })
            .collect()
    }

    #[test]
    fn absolute_dates_in_both_languages() {
        let cases = [
            ("Due 2026-03-05.", "2026-03-05"),
            ("Logged at 2026-03-05T10:30:00Z by cron.", "2026-03-05T10:30:00"),
            ("El plazo es el 3 de marzo de 2026 para todos.", "2026-03-03"),
            ("We will meet on March 3rd, 2026 at 3:30 pm.", "2026-03-03T15:30:00"),
            ("Nos vemos el 14/02/2026 a las 18:00.", "2026-02-14T18:00:00"),
            ("We meet 25/12/2026 for the party and it is fun.", "2026-12-25"),
            ("Reunión: 5 de mayo de 2026, de 10:00 a 11:30 h.", "2026-05-05T10:00:00/11:30"),
            ("The call is on 4 June 2026, 3 to 4 pm.", "2026-06-04T15:00:00/16:00"),
            ("Será el 7 de enero de 2027 a las 5 de la tarde en la sala.", "2027-01-07T17:00:00"),
        ];
        for (source, expected) in cases {
            assert_eq!(found(source, None), [expected], "{source}");
        }
    }

    #[test]
    fn relative_dates_need_an_anchor() {
        let cases = [
            ("See you tomorrow in the hall.", "2026-02-12"),
            ("Nos vemos el viernes en la oficina.", "2026-02-13"),
            ("Let us meet on March 3.", "2026-03-03"),
            ("Entrega dentro de dos semanas como mucho.", "2026-02-25"),
            ("Please deliver it the day after tomorrow.", "2026-02-13"),
            ("We meet a week from tomorrow.", "2026-02-19"),
            ("Livrez-le après-demain, merci.", "2026-02-13"),
            ("Bitte liefern Sie es übermorgen.", "2026-02-13"),
            ("Entrégalo pasado mañana, por favor.", "2026-02-13"),
            ("It was sent on December 20 by post.", "2025-12-20"),
        ];
        for (source, expected) in cases {
            assert_eq!(found(source, Some("2026-02-11")), [expected], "{source}");
            assert!(found(source, None).is_empty(), "{source}");
        }
    }

    #[test]
    fn days_by_number_weekday_and_range_count_from_the_anchor() {
        let cases = [
            ("El sábado 15 festejamos en la quinta.", "2026-08-03", "2026-08-15"),
            ("Lunch on friday 1-2pm at the Green Door.", "2026-02-11", "2026-02-13T13:00:00/14:00"),
            ("Please send me the login before the 20th.", "2026-02-11", "2026-02-20"),
            (
                "La fête aura lieu le 29 mai à partir de 19 heures, dans la cour.",
                "2026-02-11",
                "2026-05-29T19:00:00",
            ),
            ("Rendez-vous le 29 mai à 2 heures de route de Lyon.", "2026-02-11", "2026-05-29"),
            (
                "Bitte geben Sie den Zettel bis Freitag, 11.9., zurück, und das ist nicht schwer.",
                "2026-09-07",
                "2026-09-11",
            ),
            ("The inspection takes place February 2-4.", "2026-01-26", "2026-02-02"),
            ("The conference is held from 9 to 12 June 2026.", "2026-01-26", "2026-06-09"),
        ];
        for (source, anchor, expected) in cases {
            assert_eq!(
                found(source, Some(anchor)).first().map(String::as_str),
                Some(expected),
                "{source}"
            );
        }
    }

    #[test]
    fn dates_without_their_year_take_it_from_the_mail_or_the_text() {
        for (source, expected) in [
            (
                "Fecha: 9 de marzo de 2026\n\nEl turno es el jueves 12/03 a las 16:45 hs.",
                "2026-03-12T16:45:00",
            ),
            (
                "Minutes of 3 March 2026.\nThe next meeting is on Tuesday 17 March, 14:00.",
                "2026-03-17T14:00:00",
            ),
            ("Actualizado el 2026-02-27. Llamar el 5 de marzo.", "2026-03-05"),
        ] {
            assert_eq!(found(source, None).last().unwrap(), expected, "{source}");
        }
        for source in [
            "El turno es el jueves 12/03 a las 16:45 hs.",
            "Del 3 de marzo de 2025 al 4 de mayo de 2026. Llamar el 5 de junio.",
            "El 9 de marzo de 2026 fue lunes. Lo vemos el viernes 12/03.",
            "El 9 de marzo de 2026 ganaron 12/03, casi 3/4, y mañana juegan.",
        ] {
            let all = found(source, None);
            assert!(
                all.iter().all(|when| !when.contains("06-05")
                    && !when.contains("03-12")
                    && !when.contains("03-10")),
                "{all:?}"
            );
        }
    }

    #[test]
    fn a_day_that_is_denied_or_moved_is_no_day_of_the_text() {
        for (source, expected) in [
            ("We meet not today but tomorrow at 10:00.", "2026-02-12T10:00:00"),
            ("We meet tomorrow, not today.", "2026-02-12"),
            ("We do not meet today but tomorrow.", "2026-02-12"),
            ("No nos vemos hoy sino mañana.", "2026-02-12"),
            ("La séance n'est plus le 3 mars mais le 5 mars.", "2026-03-05"),
            ("Not today at 9:00 but tomorrow at 10:00 we meet.", "2026-02-12T10:00:00"),
            ("Instead of Monday, we meet on Tuesday.", "2026-02-17"),
            ("The call is on Tuesday instead of on Monday.", "2026-02-17"),
            ("It is no longer on the 3rd, now the 5th.", "2026-03-05"),
            ("The review was moved from Monday to Wednesday.", "2026-02-18"),
            ("The review on Monday has been postponed until Wednesday.", "2026-02-18"),
            ("The visit was moved from 2 to 4 March 2026.", "2026-03-04"),
            ("The call was moved from 3 to 4 pm on 4 June 2026.", "2026-06-04T16:00:00"),
            ("Originally planned for 3 March, it is on 5 March.", "2026-03-05"),
            ("La reunión no es hoy sino mañana en la oficina.", "2026-02-12"),
            ("Nos vemos no hoy, sino mañana.", "2026-02-12"),
            ("En lugar del lunes nos vemos el martes.", "2026-02-17"),
            ("En vez de hoy nos vemos mañana en la plaza.", "2026-02-12"),
            ("Ya no el 3 de marzo, sino el 5 de marzo.", "2026-03-05"),
            ("La reunión pasa del lunes al miércoles.", "2026-02-18"),
            ("Wir treffen uns nicht heute, sondern morgen.", "2026-02-12"),
            ("Heute nicht, sondern morgen ist die Sitzung bei uns.", "2026-02-12"),
            ("Statt am Montag treffen wir uns am Dienstag.", "2026-02-17"),
            ("Die Sitzung wurde von Montag auf Mittwoch verschoben.", "2026-02-18"),
            ("Nicht mehr am 3. März, sondern am 5. März ist die Probe.", "2026-03-05"),
            ("On se voit non pas aujourd'hui mais demain.", "2026-02-12"),
            ("Au lieu de lundi, nous nous voyons mardi.", "2026-02-17"),
            ("La réunion est reportée du lundi au mercredi.", "2026-02-18"),
            ("We cannot meet on Monday, let us meet on Tuesday.", "2026-02-17"),
            ("We can't do the review on Monday, Tuesday is better.", "2026-02-17"),
            ("Am Montag geht es nicht, lieber am Dienstag.", "2026-02-17"),
            ("Wir können uns nicht am Montag treffen, stattdessen am Dienstag.", "2026-02-17"),
            ("No podemos vernos el lunes, mejor el martes.", "2026-02-17"),
            ("On ne peut pas se voir lundi, plutôt mardi.", "2026-02-17"),
            ("Non il 3 maggio 2026 ma il 5 maggio 2026.", "2026-05-05"),
            ("Não em 3 de maio de 2026, mas em 5 de maio de 2026.", "2026-05-05"),
        ] {
            let all = found(source, Some("2026-02-11"));
            let dated: Vec<&str> =
                all.iter().map(String::as_str).filter(|when| !when.is_empty()).collect();
            assert_eq!(dated, [expected], "{source}");
        }
        for source in [
            "The review is postponed from 3 March to a later date.",
            "Postponed from 3 March to a later date.",
            "The review was postponed from 3 March.",
            "Die Sitzung wurde vom 3. März auf einen späteren Termin verschoben.",
            "La reunión se aplaza del 3 de marzo a una fecha posterior.",
            "La réunion est reportée du 3 mars à une date ultérieure.",
        ] {
            let all = found(source, Some("2026-02-11"));
            assert!(all.iter().all(|when| when.is_empty()), "{source}: {all:?}");
        }
        for (source, expected) in [
            ("We cannot meet on Monday.", "2026-02-16"),
            ("Why not tomorrow?", "2026-02-12"),
            ("No, on Monday we meet.", "2026-02-16"),
            ("The form is not due until Monday.", "2026-02-16"),
            ("We moved to Berlin on Monday.", "2026-02-16"),
            ("Not only today, we also meet on other days.", "2026-02-11"),
            ("The shop is open from 2 to 4 March 2026.", "2026-03-02"),
            ("Wollen wir nicht morgen anfangen?", "2026-02-12"),
            ("Wir wollen das morgen nicht vergessen.", "2026-02-12"),
            ("El lunes no hay clases en la escuela.", "2026-02-16"),
        ] {
            assert_eq!(found(source, Some("2026-02-11")), [expected], "{source}");
        }
        for source in ["Not today.", "We do not meet today.", "Hoy no.", "Heute nicht."] {
            let all = found(source, Some("2026-02-11"));
            let is_named = source.starts_with("We");
            assert_eq!(all.iter().any(|when| !when.is_empty()), is_named, "{source}");
        }
    }

    #[test]
    fn a_day_that_a_later_sentence_takes_back_is_no_day_of_the_text() {
        for (source, expected) in [
            ("We meet on Friday. No, on Monday.", "2026-02-16"),
            ("We meet on Friday. Sorry, that is wrong. We meet on Monday.", "2026-02-16"),
            ("We meet on Friday. Sorry, Monday.", "2026-02-16"),
            ("We meet on Friday. Correction: Monday.", "2026-02-16"),
            ("The review is on Friday. It was moved to Monday.", "2026-02-16"),
            ("The review is on Friday. The review has been postponed to Monday.", "2026-02-16"),
            ("The review is on Friday. The new date is Monday.", "2026-02-16"),
            ("The meeting is on 3 May 2026. It is on 10 May 2026 now.", "2026-05-10"),
            ("The meeting on 3 May 2026 is cancelled. It is on 10 May 2026 now.", "2026-05-10"),
            ("The meeting on 3 May 2026 is cancelled. We meet on 10 May 2026.", "2026-05-10"),
            ("Cancelled: meeting on 3 May 2026. We meet on 10 May 2026.", "2026-05-10"),
            ("We cannot meet on Friday. Let us meet on Monday.", "2026-02-16"),
            ("We meet on Friday. Friday does not work. How about Monday?", "2026-02-16"),
            ("We meet on Friday. We meet not on Friday but on Monday.", "2026-02-16"),
            ("Wir treffen uns am Freitag. Nein, am Montag.", "2026-02-16"),
            (
                "Die Sitzung ist am Freitag und dauert lange. Sie wurde auf Montag verschoben.",
                "2026-02-16",
            ),
            (
                "Die Sitzung am 3. Mai 2026 fällt aus. Wir treffen uns am 10. Mai 2026.",
                "2026-05-10",
            ),
            ("Die Probe ist am Freitag. Der neue Termin ist am Montag.", "2026-02-16"),
            ("Nos vemos el viernes en la oficina. No, el lunes.", "2026-02-16"),
            ("Nos vemos el viernes en la oficina. Perdón, el lunes.", "2026-02-16"),
            (
                "La reunión del 3 de mayo de 2026 se cancela. Nos vemos el 10 de mayo de 2026.",
                "2026-05-10",
            ),
            ("La reunión es el viernes. La nueva fecha es el lunes.", "2026-02-16"),
            ("On se voit vendredi. Non, lundi.", "2026-02-16"),
            ("La réunion du 3 mai 2026 est annulée. On se voit le 10 mai 2026.", "2026-05-10"),
            ("La réunion est vendredi. Elle est reportée à lundi.", "2026-02-16"),
            ("Ci vediamo il 3 maggio 2026. No, il 5 maggio 2026.", "2026-05-05"),
            ("A reunião é em 3 de maio de 2026. Não, em 5 de maio de 2026.", "2026-05-05"),
        ] {
            let all = found(source, Some("2026-02-11"));
            let dated: Vec<&str> =
                all.iter().map(String::as_str).filter(|when| !when.is_empty()).collect();
            assert_eq!(dated, [expected], "{source}");
        }
        for source in [
            "The meeting on 3 May 2026 is cancelled.",
            "Die Sitzung am 3. Mai 2026 wurde abgesagt.",
            "La reunión del 3 de mayo de 2026 fue cancelada.",
            "La réunion du 3 mai 2026 est annulée.",
            "We meet on Friday. No, not on Friday.",
        ] {
            let all = found(source, Some("2026-02-11"));
            assert!(all.iter().all(|when| when.is_empty()), "{source}: {all:?}");
        }
        let hours = found("We meet on Friday at 10:00. No, at 11:00.", Some("2026-02-11"));
        assert_eq!(hours, ["2026-02-13", "11:00"]);
        for (source, expected) in [
            ("The form is due on Friday. The picnic is on Monday.", ["2026-02-13", "2026-02-16"]),
            (
                "We meet on Friday. No problem, the form is due on Monday.",
                ["2026-02-13", "2026-02-16"],
            ),
            ("We meet on Friday. The fair was moved to Monday.", ["2026-02-13", "2026-02-16"]),
            (
                "Your stay is cancelled unless you pay by Friday. We close on Monday.",
                ["2026-02-13", "2026-02-16"],
            ),
            ("Send it by Friday. Do not send it after Monday.", ["2026-02-13", "2026-02-16"]),
            (
                "We meet on Friday. No, Friday is right. Bring the keys on Monday.",
                ["2026-02-13", "2026-02-13"],
            ),
        ] {
            let all = found(source, Some("2026-02-11"));
            assert_eq!(all[..2], expected, "{source}");
        }
    }

    #[test]
    fn a_sentence_that_is_corrected_is_known_without_a_day_to_count_from() {
        let of = |source: &str| {
            let text = Text::new(vec![Part { id: "a", text: source }]);
            corrections(&text)
        };
        assert_eq!(of("We meet on Friday. No, on Monday."), [(0, 1)]);
        assert_eq!(
            of("The form is due. We meet on Friday. That is wrong. It is Monday."),
            [(1, 3)]
        );
        assert_eq!(of("The meeting on Friday is cancelled. We meet on Monday."), []);
        assert_eq!(of("We meet on Friday. The form is due on Monday."), []);
    }

    #[test]
    fn ambiguous_or_impossible_dates_are_not_reported() {
        for source in [
            "The form is due 03/04/2026 at the desk.",
            "See 31/02/2026.",
            "Version 1.2.2026 of the tool",
            "Ratio 3/4",
            "por la mañana",
        ] {
            assert!(found(source, Some("2026-02-11")).is_empty(), "{source}");
        }
    }

    #[test]
    fn mail_dates_anchor_and_durations_count() {
        assert_eq!(
            parse_anchor("Tue, 3 Mar 2026 10:00:00 +0100"),
            NaiveDate::from_ymd_opt(2026, 3, 3)
        );
        let text = Text::new(vec![Part { id: "a", text: "The call takes 1.5 hours." }]);
        assert_eq!(duration(&text, 0).map(|found| found.0), Some(90));
    }
}
