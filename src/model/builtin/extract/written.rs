//! The day a text says it is of: the date in its name, its title, its head, a label such as `Fecha:`.
//!
//! Contract: a day that is written there, never one that is guessed. `05/03/2026` needs an order of day
//! and month; where neither the other dates of the text nor its language give one, the text has no day.
//! A date in running text is what the text is about: it is not read here.

use std::ops::Range;

use chrono::NaiveDate;

use super::super::lexicon::lexicon;
use super::super::text::language::language_of;
use super::super::text::lines;
use super::super::text::words::fold;
use crate::markup::authors::{Naming, naming};
use crate::markup::prefix;

/// Lines with words that may stand before the text of a letter or a note begins.
const HEAD_LINES: usize = 15;
/// A line with more words is running text.
const HEAD_WORDS_MAX: usize = 14;
/// Bytes of a text in which dates in figures say which number is the day.
const ORDER_BYTES: usize = 64 << 10;
/// Bytes of a text that are looked through for the headings of a diary.
const DIARY_BYTES: usize = 256 << 10;
/// Longest time of day behind the date of a letter: ` at 10:30`.
const TIME_BYTES_MAX: usize = 10;
/// Longest label of a date, and longest value that is nothing but one.
const LABEL_BYTES_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 48;
/// Longest gap between the parts of a date.
const GAP_BYTES_MAX: usize = 3;

/// Which of two numbers is the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    DayFirst,
    MonthFirst,
}

/// A date as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Day(NaiveDate),
    /// Two numbers that may be day and month or month and day.
    Figures {
        first: u32,
        second: u32,
        year: i32,
    },
}

impl Written {
    fn day(self, order: Option<Order>) -> Option<NaiveDate> {
        let (first, second, year) = match self {
            Written::Day(day) => return Some(day),
            Written::Figures { first, second, year } => (first, second, year),
        };
        let order = match self.order() {
            Some(order) => order,
            None if first == second => Order::DayFirst,
            None => order?,
        };
        match order {
            Order::DayFirst => NaiveDate::from_ymd_opt(year, second, first),
            Order::MonthFirst => NaiveDate::from_ymd_opt(year, first, second),
        }
    }

    /// The order that the numbers themselves leave open or not.
    fn order(self) -> Option<Order> {
        match self {
            Written::Figures { first: 13.., second: ..=12, .. } => Some(Order::DayFirst),
            Written::Figures { first: ..=12, second: 13.., .. } => Some(Order::MonthFirst),
            _ => None,
        }
    }
}

/// A date in front of a message of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dated {
    written: Written,
    /// Day and month with two digits each, the year with four: `05/03/2026`.
    pub padded: bool,
}

impl Dated {
    pub(crate) fn day(self, order: Option<Order>) -> Option<NaiveDate> {
        self.written.day(order)
    }

    /// The day in an order that the numbers allow.
    pub(crate) fn day_in(self, order: Order) -> Option<NaiveDate> {
        self.written.order().is_none_or(|own| own == order).then(|| self.day(Some(order)))?
    }
}

/// The date in figures that a line begins with, and its width.
pub(crate) fn dated(line: &str) -> Option<(Dated, usize)> {
    let (written, width) = date(line).filter(|_| line.starts_with(|c: char| c.is_ascii_digit()))?;
    let padded = width == 10 && matches!(written, Written::Figures { .. });
    Some((Dated { written, padded }, width))
}

/// Whether a message stands for a picture, or for words that were taken back.
pub(crate) fn is_placeholder(message: &str) -> bool {
    let said = fold(message.trim_matches(|c: char| !c.is_alphanumeric()));
    let files = &lexicon().chat.attached;
    lexicon().chat.placeholders.contains(said.as_str())
        || files.iter().any(|end| said.ends_with(end.as_str()) && !said.contains('\n'))
}

/// Which number of a date in figures is the day in these texts, which are of one document: by the dates
/// that leave no choice, else by the language.
pub(crate) fn order_of<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> Option<Order> {
    let (mut day, mut month, mut left) = (false, false, ORDER_BYTES);
    for text in texts.clone() {
        let sample = prefix(text, left);
        left -= sample.len();
        for (_, written) in all(sample) {
            day |= written.order() == Some(Order::DayFirst);
            month |= written.order() == Some(Order::MonthFirst);
        }
    }
    let language = language_of(texts);
    match (day, month) {
        (true, false) => Some(Order::DayFirst),
        (false, true) => Some(Order::MonthFirst),
        (true, true) => None,
        (false, false) => {
            let known = language.habits().filter(|habits| !habits.month_first);
            known.map(|_| Order::DayFirst)
        }
    }
}

/// The day that a value such as that of `date:` begins with.
pub(crate) fn day_of_value(value: &str, order: Option<Order>) -> Option<NaiveDate> {
    let value = value.trim_start_matches(|c: char| !c.is_alphanumeric());
    let found = all(value);
    let (place, written) = found.first()?;
    let before = value[..place.start].split(|c: char| !c.is_alphanumeric());
    let only_leads = before.filter(|word| !word.is_empty()).all(leads_to_date);
    let days: Vec<Option<NaiveDate>> =
        found.iter().map(|(_, written)| written.day(order)).collect();
    // Of two days it is not clear which is meant.
    let one = days.iter().all(|day| *day == days[0]);
    (only_leads && one).then(|| written.day(order))?
}

/// Whether a name of a member or a label says that a date of the text follows.
pub(crate) fn is_date_label(name: &str) -> bool {
    let name = fold(name.trim_matches(|c: char| !c.is_alphanumeric()));
    lexicon().dates.text_labels.contains(&name)
}

/// The day in the name of a file: `2026-03-05 meeting.md`, `notes-5-march-2026.txt`, `2026/03/05.md`.
pub(crate) fn day_of_name(name: &str, order: Option<Order>) -> Option<NaiveDate> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let whole = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    // A folder for each year and month holds a file for each day.
    let nested = || {
        let parts: Vec<&str> = whole.rsplit('/').take(3).collect();
        let joined =
            (parts.len() == 3).then(|| format!("{}-{}-{}", parts[2], parts[1], parts[0]))?;
        only(&joined, order)
    };
    only(stem, order).or_else(nested)
}

/// The only day of a line whose order of day and month is clear; `None` where it names several.
pub(crate) fn only_day(line: &str) -> Option<NaiveDate> {
    only(line, None)
}

/// The only day of a line; `None` where it names several.
fn only(line: &str, order: Option<Order>) -> Option<NaiveDate> {
    let found = all(line);
    let day = found.first()?.1.day(order)?;
    found.iter().all(|(_, written)| written.day(order) == Some(day)).then_some(day)
}

/// The day at the head of a text: behind a label, as the date of a letter, in the title of a record.
pub(crate) fn day_of_text(text: &str, order: Option<Order>) -> Option<NaiveDate> {
    let written = |line: &&str| !line.trim().is_empty();
    let mut letter = None;
    for (number, line) in text.lines().filter(written).take(HEAD_LINES).enumerate() {
        let line = line.trim();
        if let Some(day) = labelled(line, order) {
            return Some(day).filter(|_| !announces_event(text));
        }
        let titled = || (number == 0).then(|| day_of_title(line, order)).flatten();
        letter = letter.or_else(|| day_of_letter(line, order)).or_else(titled);
        if ends_head(line) {
            break;
        }
    }
    letter.filter(|day| !is_diary(text, *day, order))
}

/// The author that the head of a text names behind a label: `Author: Ana Ruiz`, `:author: Ana Ruiz`.
pub(crate) fn author_of_text(text: &str) -> Option<&str> {
    let (start, name) = author_line(text)?;
    Some(&text[start + name.start..start + name.end])
}

/// The line that names the author, and its value in that line.
fn author_line(text: &str) -> Option<(usize, Range<usize>)> {
    let named = head_lines(text).find_map(|(start, line)| Some((start, author_in(line)?)));
    named.or_else(|| sender_line(text))
}

/// `From: Ana Ruiz` above or below a date. `From: Lisbon` belongs to a journey or an event: it names an hour, or where
/// it ends.
fn sender_line(text: &str) -> Option<(usize, Range<usize>)> {
    let labelled = |wanted: Naming| {
        head_lines(text).find_map(move |(start, line)| {
            Some((start, line, value_in(line, &|label| naming(label) == Some(wanted))?))
        })
    };
    let (start, line, name) = labelled(Naming::Sender)?;
    let is_subject = |label: &str| lexicon().mail.subject_labels.iter().any(|one| one == label);
    let has_subject = || head_lines(text).any(|(_, line)| value_in(line, &is_subject).is_some());
    let is_sender = line.contains('@') || labelled(Naming::Receiver).is_none() || has_subject();
    let is_dated = head_lines(text).any(|(_, line)| dated_label(line).is_some());
    let has_digit = !line.contains('@') && line.bytes().any(|byte| byte.is_ascii_digit());
    (is_sender && is_dated && !has_digit && !announces_event(text)).then_some((start, name))
}

/// The lines in the head of a text that the record of the source holds, an author and a day: where each
/// begins in the text, and its value in the line.
pub(crate) fn fields_of_head(text: &str) -> Vec<(usize, Range<usize>)> {
    let author = author_line(text);
    let dated = head_lines(text).find(|(_, line)| dated_label(line).is_some());
    // The order of figures costs a look at the whole text.
    let day = dated.and_then(|(start, line)| {
        let order = order_of(std::iter::once(text));
        let is_read = labelled(line.trim(), order).is_some() && !announces_event(text);
        dated_label(line).filter(|_| is_read).map(|value| (start, value))
    });
    author.into_iter().chain(day).collect()
}

/// The lines with words that may stand before the text proper, each with its place.
fn head_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut start, mut is_over) = (0, false);
    let placed = text.split_inclusive('\n').map(move |line| {
        start += line.len();
        (start - line.len(), line.trim_end())
    });
    placed.filter(|(_, line)| !line.is_empty()).take(HEAD_LINES).take_while(move |(_, line)| {
        let was_over = is_over;
        is_over |= ends_head(line.trim());
        !was_over
    })
}

/// Whether the text proper begins with a line.
fn ends_head(line: &str) -> bool {
    let is_text = line.split_whitespace().count() > HEAD_WORDS_MAX || lines::greets(line);
    is_text && lines::labelled(line).is_none()
}

/// The value of a line that only names an author.
fn author_in(line: &str) -> Option<Range<usize>> {
    value_in(line, &|label| naming(label) == Some(Naming::Label))
}

/// The value of a line that is nothing but a few words behind a label.
fn value_in(line: &str, is_label: &dyn Fn(&str) -> bool) -> Option<Range<usize>> {
    let begin = field_start(line);
    let (label, value) = line[begin..].split_once([':', '：'])?;
    let is_mark = |c: char| c.is_whitespace() || matches!(c, '*' | '_');
    let name = value.trim_matches(is_mark);
    let is_name = !name.is_empty() && name.split_whitespace().count() <= HEAD_WORDS_MAX;
    let is_field = label.len() <= LABEL_BYTES_MAX && !lines::is_record(line);
    let start = line.len() - value.trim_start_matches(is_mark).len();
    (is_field && is_name && is_label(&folded_label(label))).then(|| start..start + name.len())
}

/// Whether a label says that the name of an author follows.
pub(crate) fn is_author_label(label: &str) -> bool {
    naming(label) == Some(Naming::Label)
}

fn folded_label(label: &str) -> String {
    fold(label.trim_matches(|c: char| !c.is_alphanumeric()))
}

/// Where the label of a field begins: `:date: 2026-03-05` is one of reStructuredText.
fn field_start(line: &str) -> usize {
    let indent = line.len() - line.trim_start().len();
    indent + usize::from(line[indent..].starts_with(':'))
}

/// Whether a label names an hour in the head of a text that is no record: its date is that of an event.
pub(crate) fn announces_event(text: &str) -> bool {
    let mut head = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(HEAD_LINES);
    let is_record = head.next().is_some_and(names_record);
    let labels = &lexicon().dates.time_labels;
    let hour = |line: &str| {
        let label =
            line.split_once(':').map(|(label, _)| fold(label.trim_matches(['*', '-', ' '])));
        label.is_some_and(|label| labels.contains(&label))
    };
    !is_record && head.any(hour)
}

/// Whether a title names a text that is of one day: minutes, a report, notes.
pub(crate) fn names_record(title: &str) -> bool {
    let mut words = title.split(|c: char| !c.is_alphanumeric());
    words.any(|word| lexicon().dates.records.contains(fold(word).as_str()))
}

/// `Fecha: 5 de marzo de 2026`, `**Date:** 2026-03-05`.
fn labelled(line: &str, order: Option<Order>) -> Option<NaiveDate> {
    let (label, value) = line[field_start(line)..].split_once([':', '：'])?;
    is_date_label(label).then(|| day_of_value(value, order))?
}

/// The value of a line that only labels a date: `Fecha: 05/03/2026`.
fn dated_label(line: &str) -> Option<Range<usize>> {
    let begin = field_start(line);
    let colon = begin + line[begin..].find(':').filter(|colon| *colon <= LABEL_BYTES_MAX)?;
    let value = line[colon + 1..].trim();
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let short = value.len() <= VALUE_BYTES_MAX && digits >= 4 && !value.contains(';');
    let is_date = || day_of_value(value, Some(Order::DayFirst)).is_some();
    let is_mark = |c: char| c.is_whitespace() || matches!(c, '*' | '_');
    let start = line.len() - line[colon + 1..].trim_start_matches(is_mark).len();
    let end = start + line[start..].trim_end().len();
    (short && is_date_label(&line[..colon]) && is_date()).then_some(start..end)
}

/// Whether a line is nothing but a date, after a place.
pub(crate) fn is_letter_date(line: &str) -> bool {
    let digits = line.bytes().filter(u8::is_ascii_digit).count();
    digits >= 4 && day_of_letter(line, Some(Order::DayFirst)).is_some()
}

/// A line that is nothing but a date, after a place: `Lisbon, 5 March 2026`.
fn day_of_letter(line: &str, order: Option<Order>) -> Option<NaiveDate> {
    let line = line.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '(' | ')'));
    let found = all(line);
    let [(place, written)] = found.as_slice() else { return None };
    let (before, after) = (&line[..place.start], &line[place.end..]);
    let is_time = after.len() <= TIME_BYTES_MAX
        && !after.chars().any(|c| c.is_alphabetic())
        && !after.contains(['/', '€', '$', '%']);
    let led = before.rsplit(',').next().unwrap_or_default();
    let mut leads = led.split_whitespace().map(|word| word.trim_end_matches('.'));
    let place = before.rsplit_once(',').map_or("", |(place, _)| place);
    let is_place = place.split_whitespace().count() <= 5 && !place.contains([':', '.', '!', '?']);
    (is_time && is_place && leads.all(leads_to_date)).then(|| written.day(order))?
}

/// A title that begins with the date of its text, or names a record of that day.
fn day_of_title(line: &str, order: Option<Order>) -> Option<NaiveDate> {
    let title = line.trim_start_matches(['#', '*', '=', ' ']);
    let found = all(title);
    let [(place, written)] = found.as_slice() else { return None };
    let short = title.split_whitespace().count() <= HEAD_WORDS_MAX && !title.ends_with('.');
    let first = title[..place.start].split_whitespace().all(leads_to_date);
    (short && (first || names_record(title))).then(|| written.day(order))?
}

/// Whether other headings of the text are other days. Such a text does not belong to one of these days.
fn is_diary(text: &str, day: NaiveDate, order: Option<Order>) -> bool {
    prefix(text, DIARY_BYTES).lines().any(|line| {
        let line = line.trim();
        let begins = line.starts_with(|c: char| c.is_ascii_digit()) && line.len() <= 40;
        let heads = || line.starts_with('#').then(|| day_of_title(line, order)).flatten();
        let other = heads().or_else(|| begins.then(|| day_of_letter(line, order)).flatten());
        other.is_some_and(|other| other != day)
    })
}

/// Whether a word may stand between a place and its date: `den`, `le`, a weekday.
fn leads_to_date(word: &str) -> bool {
    let word = fold(word.trim_matches(|c: char| !c.is_alphanumeric()));
    word.is_empty()
        || lexicon().dates.date_leads.contains(word.as_str())
        || lexicon().dates.weekdays.number(&word).is_some()
}

/// The dates of a line, with their places.
fn all(line: &str) -> Vec<(Range<usize>, Written)> {
    let (mut found, mut at) = (Vec::new(), 0);
    let mut before = ' ';
    while at < line.len() {
        let rest = &line[at..];
        let first = rest.chars().next().unwrap_or(' ');
        // A date neither begins inside a word nor behind the separator of another number.
        let begins = first.is_alphanumeric() && !before.is_alphanumeric();
        match begins.then(|| date(rest)).flatten() {
            Some((written, width)) => {
                found.push((at..at + width, written));
                at += width;
                before = '0';
            }
            None => {
                // The whole word is passed over.
                let width = match begins {
                    true => rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()),
                    false => first.len_utf8(),
                };
                before = line[at..at + width].chars().next_back().unwrap_or(' ');
                at += width;
            }
        }
    }
    found
}

/// The date a text begins with, and how wide it is.
fn date(text: &str) -> Option<(Written, usize)> {
    let (written, width) = match text.as_bytes().first()?.is_ascii_digit() {
        true => year_first(text).or_else(|| figures(text)).or_else(|| day_month(text))?,
        false => month_day(text)?,
    };
    let tail = &text[width..];
    let stamp =
        tail.strip_prefix('T').is_some_and(|time| time.starts_with(|c: char| c.is_ascii_digit()));
    let ends = stamp || !tail.starts_with(|c: char| c.is_alphanumeric());
    let goes_on = tail.strip_prefix(['-', '/', '.']).is_some_and(|more| {
        more.starts_with(|c: char| c.is_ascii_digit()) && text.as_bytes()[0].is_ascii_digit()
    });
    (ends && !goes_on).then_some((written, width))
}

/// `2026-03-05`, `2026/3/5`, `20260305`.
fn year_first(text: &str) -> Option<(Written, usize)> {
    let run = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = |range: Range<usize>| text.get(range)?.parse::<u32>().ok();
    let day = |year: u32, month, day| {
        let year = i32::try_from(year).ok().filter(is_year)?;
        NaiveDate::from_ymd_opt(year, month, day).map(Written::Day)
    };
    if run == 8 {
        return Some((day(number(0..4)?, number(4..6)?, number(6..8)?)?, 8));
    }
    if run != 4 {
        return None;
    }
    let mark = *text.as_bytes().get(4)? as char;
    if !matches!(mark, '-' | '/' | '.' | '_') {
        return None;
    }
    let (month, first) = digits(&text[5..])?;
    let (last, second) = digits(text[5 + first..].strip_prefix(mark)?)?;
    Some((day(number(0..4)?, month, last)?, 6 + first + second))
}

/// `05/03/2026`, `5.3.2026`, `05-03-26`: a stop between the numbers says that the day is first.
fn figures(text: &str) -> Option<(Written, usize)> {
    let (first, width) = digits(text)?;
    let mark = *text.as_bytes().get(width)? as char;
    if !matches!(mark, '/' | '.' | '-' | '_') {
        return None;
    }
    let (second, more) = digits(&text[width + 1..])?;
    let at = width + 1 + more;
    let (year, last) = year(text[at..].strip_prefix(mark)?)?;
    let end = at + 1 + last;
    if mark == '.' {
        return Some((Written::Day(NaiveDate::from_ymd_opt(year, second, first)?), end));
    }
    let plausible = (1..=31).contains(&first) && (1..=31).contains(&second);
    (plausible && (first <= 12 || second <= 12))
        .then_some((Written::Figures { first, second, year }, end))
}

/// `5 March 2026`, `5. März 2026`, `5 de marzo de 2026`, `1er mars 2026`.
fn day_month(text: &str) -> Option<(Written, usize)> {
    let (day, width) = digits(text)?;
    let mut at = width + ordinal(&text[width..]);
    at += gap(&text[at..])?;
    at += link(&text[at..]);
    let (month, more) = month(&text[at..])?;
    at += more;
    let (year, end) = year_behind(text, at)?;
    Some((Written::Day(NaiveDate::from_ymd_opt(year, month, day)?), end))
}

/// `March 5, 2026`, `Mar 5th 2026`.
fn month_day(text: &str) -> Option<(Written, usize)> {
    let (month, mut at) = month(text)?;
    at += gap(&text[at..])?;
    let (day, width) = digits(&text[at..])?;
    at += width;
    at += ordinal(&text[at..]);
    let (year, end) = year_behind(text, at)?;
    Some((Written::Day(NaiveDate::from_ymd_opt(year, month, day)?), end))
}

/// The year behind a day and a month, and where it ends.
fn year_behind(text: &str, mut at: usize) -> Option<(i32, usize)> {
    at += gap(&text[at..])?;
    at += link(&text[at..]);
    let (year, width) = year(&text[at..]).filter(|(_, width)| *width == 4)?;
    Some((year, at + width))
}

fn is_year(year: &i32) -> bool {
    (1900..2200).contains(year)
}

/// A year of four digits, or of two.
fn year(text: &str) -> Option<(i32, usize)> {
    let width = text.bytes().take_while(u8::is_ascii_digit).count();
    let year: i32 = text[..width].parse().ok()?;
    match width {
        4 => Some((year, 4)).filter(|(year, _)| is_year(year)),
        2 => Some((2000 + year, 2)),
        _ => None,
    }
}

fn digits(text: &str) -> Option<(u32, usize)> {
    let width = text.bytes().take_while(u8::is_ascii_digit).count();
    (1..=2).contains(&width).then(|| Some((text[..width].parse().ok()?, width)))?
}

/// The length of the spaces and marks between two parts of a date; `None` when the next part follows
/// directly.
fn gap(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !matches!(c, ' ' | '\u{a0}' | '-' | '_' | '.' | ',' | '/'));
    end.filter(|end| (1..=GAP_BYTES_MAX).contains(end))
}

/// `de `, `of `.
fn link(text: &str) -> usize {
    let width = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    let is_link = width > 0 && lexicon().dates.links.contains(fold(&text[..width]).as_str());
    match is_link.then(|| gap(&text[width..])).flatten() {
        Some(gap) => width + gap,
        None => 0,
    }
}

/// `th`, `er`, `º`.
fn ordinal(text: &str) -> usize {
    let width = text.find(|c: char| !c.is_alphabetic() && c != '°').unwrap_or(text.len());
    let mark = &text[..width];
    usize::from(lexicon().dates.ordinal_marks.contains(mark)) * width
}

fn month(text: &str) -> Option<(u32, usize)> {
    let width = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    let number = lexicon().dates.months.number(&fold(&text[..width]))?;
    Some((number, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Option<&str> = Some("2026-03-05");

    fn shown(day: Option<NaiveDate>) -> Option<String> {
        day.map(|day| day.to_string())
    }

    #[test]
    fn a_date_is_read_in_every_spelling_and_in_four_languages() {
        for value in [
            "2026-03-05",
            "2026/03/05",
            "2026-03-05T10:00",
            "20260305",
            "05.03.2026",
            "5.3.2026",
            "5 March 2026",
            "March 5, 2026",
            "March 5th, 2026",
            "5th of March 2026",
            "Thursday, 5 March 2026",
            "5 de marzo de 2026",
            "jueves, 5 de marzo del 2026",
            "5. März 2026",
            "Donnerstag, den 5. März 2026, 10 Uhr",
            "5 mars 2026",
            "jeudi 5 mars 2026",
            "<2026-03-05 Thu>",
        ] {
            assert_eq!(shown(day_of_value(value, None)).as_deref(), DAY, "{value}");
        }
        assert_eq!(shown(day_of_value("1er mars 2026", None)).as_deref(), Some("2026-03-01"));
        for value in [
            "soon",
            "March 2026",
            "5 March",
            "2026",
            "v1.2.2026.4",
            "03/05/2026",
            "2026-03-05 to 2026-03-07",
            "2026-13-05",
            "after the move on 5 March 2026",
            "31/02/2026",
        ] {
            assert_eq!(day_of_value(value, None), None, "{value}");
        }
    }

    #[test]
    fn figures_are_read_by_the_other_dates_and_by_the_language() {
        let read = |text: &str| {
            let order = order_of(std::iter::once(text));
            shown(day_of_text(text, order))
        };
        let spanish = "Fecha: 05/03/2026\n\nLa reunión es para el plan de la casa y los vecinos.";
        assert_eq!(read(spanish).as_deref(), DAY);
        let english = "Date: 05/03/2026\n\nThe meeting is about the plan of the house.";
        assert_eq!(read(english), None);
        assert_eq!(read(&format!("{english} We met on 25/02/2026.")).as_deref(), DAY);
        let american = "Date: 03/05/2026\n\nThe meeting was moved from 02/25/2026.";
        assert_eq!(read(american).as_deref(), DAY);
        let both = "Date: 03/05/2026\n\nIt was 02/25/2026 and then 25/02/2026.";
        assert_eq!(read(both), None);
    }

    /// Marks of Markdown may stand before the value. The value ends within its line all the same.
    #[test]
    fn the_value_of_a_field_in_the_head_ends_with_its_line() {
        for (text, expected) in [
            ("# Acta\n\n**Fecha:** 5 de marzo de 2026\n\n¿Quién viene?", "5 de marzo de 2026"),
            ("# Minutes\n\n**Date:** 5 March 2026", "5 March 2026"),
            ("# Minutes\n\n**Date:** 5 March 2026  \n\n“We agree.”", "5 March 2026"),
            ("# Minutes\n\n  Date: _5 March 2026\n\nÉl viene.", "5 March 2026"),
            ("# Minutes\n\n**Author:** Ana Ruiz\n\nÉl viene.", "Ana Ruiz"),
        ] {
            let found = fields_of_head(text);
            let values = found.iter().map(|(start, value)| {
                text.get(start + value.start..start + value.end).unwrap_or("no text")
            });
            assert_eq!(values.collect::<Vec<_>>(), [expected], "{text}");
        }
    }

    #[test]
    fn the_head_of_a_text_says_its_day_and_its_words_do_not() {
        let read = |text: &str| shown(day_of_text(text, None));
        for text in [
            "Lisbon, 5 March 2026\n\nDear tenant,\n\nthe rent rises.",
            "School at the park\nMain street 12\n\nHamburg, den 5. März 2026\n\nSehr geehrte Eltern,",
            "Lyon, le 5 mars 2026\n\nMadame, Monsieur,",
            "Bogotá, 5 de marzo de 2026\n\nEstimada señora:",
            "2026-03-05\n\nBought the paint.",
            "# 5 March 2026: planning\n\nText",
            "# Minutes of 5 March 2026\n\nText",
            "Protokoll vom 05.03.2026\n\nText",
            "Notes\n**Date:** 2026-03-05\n",
            "Acta\nFecha: jueves 5 de marzo de 2026, 18:00\n",
            "Date : 5 mars 2026\n\nBonjour Paul,",
            "Protokoll der Sitzung\nDatum: 05.03.2026\nBeginn: 18:00\n",
        ] {
            assert_eq!(read(text).as_deref(), DAY, "{text}");
        }
        for text in [
            "We meet on 5 March 2026 at ten.",
            "Concert 5 March 2026\n\nCome all.",
            "Dear Ana,\n\n5 March 2026 is the last day.",
            "Hello Ben,\n\nDate: 5 March 2026\n",
            "# 5 March 2026\n\nRain.\n\n# 6 March 2026\n\nSun.",
            "2026-03-05\nRain.\n2026-03-06\nSun.",
            "Total: 5 March 2026",
            "Your interview is set.\n\nDate: 5 March 2026\nTime: 8:15\nPlace: Hall 4\n",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_may_be_a_date() {
        let read = |name: &str| shown(day_of_name(name, None));
        for name in [
            "2026-03-05 meeting.md",
            "20260305_note.txt",
            "notes-5-march-2026.txt",
            "IMG_20260305_1200.txt",
            "a/b/2026-03-05.md",
            "journal/2026/03/05.md",
            "acta 5 de marzo de 2026.docx",
            "Protokoll_05.03.2026.pdf",
        ] {
            assert_eq!(read(name).as_deref(), DAY, "{name}");
        }
        for name in [
            "note.md",
            "2026-03 report.md",
            "05-03-2026.md",
            "2026-03-05 to 2026-03-07.md",
            "invoice-12345678.txt",
            "123456789.txt",
            "v1.2.3.md",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }
}
