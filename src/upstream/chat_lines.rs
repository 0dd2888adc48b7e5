//! The lines of a chat that is a text: exports of WhatsApp on any telephone, and logs such as `[14:03] ana: …`.
//!
//! Contract: a text is a chat when its lines begin with a time or a name in the same way and people speak
//! in it again and again. A line without a beginning of its own continues the message above it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveTime;

use crate::markup::prefix;
use crate::model::builtin::extract::written::{Dated, dated};

/// Longest name of a person, in characters and in words.
const NAME_CHARS_MAX: usize = 40;
const NAME_WORDS_MAX: usize = 5;
/// Bytes that decide whether a text is a chat.
pub(crate) const SAMPLE_BYTES: usize = 32 << 10;
/// Lines with words before the first message.
const BEFORE_MAX: usize = 3;
/// Programs put this mark before what a person did not type.
pub(crate) const MARK: char = '\u{200e}';
/// Levels of a log of a program, which stand where a chat has names.
const LEVELS: [&str; 9] =
    ["info", "error", "warn", "warning", "debug", "trace", "fatal", "notice", "critical"];

/// One line with a beginning of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line<'a> {
    pub date: Option<Dated>,
    pub clock: Option<NaiveTime>,
    /// The clock was written with am or pm.
    pub halves: bool,
    /// Who speaks; `None` where the program does.
    pub name: Option<&'a str>,
    pub text: &'a str,
    /// A date, a bracket or angles leave no doubt.
    pub sure: bool,
}

/// Whether a text is a chat.
pub(crate) fn is_chat(text: &str) -> bool {
    let sample = prefix(text, SAMPLE_BYTES);
    let (mut messages, mut sure, mut other, mut before) = (0, 0, 0, 0);
    let mut names: Vec<&str> = Vec::new();
    for line in sample.lines().filter(|line| !line.trim().is_empty()) {
        match read(line) {
            Some(Line { name: Some(name), sure: one, .. }) => {
                messages += 1;
                sure += usize::from(one);
                names.push(name);
            }
            Some(_) => {}
            None if messages == 0 => before += 1,
            None => other += 1,
        }
    }
    names.sort_unstable();
    names.dedup();
    let is_log = names.iter().any(|name| LEVELS.contains(&name.to_lowercase().as_str()));
    let speak_again = names.len() < messages;
    // Without a date in each line, a continued line is rare.
    messages >= 2
        && !is_log
        && before <= BEFORE_MAX
        && (sure == messages || speak_again && messages >= 3)
        && (speak_again || names.len() > 1)
        && other <= messages * 2
}

/// Everybody who speaks in a text that is a chat, with times before the names or without; nobody where it is something
/// else.
pub(super) fn speakers(text: &str) -> BTreeSet<String> {
    if is_chat(text) {
        return text
            .lines()
            .filter_map(read)
            .filter_map(|line| line.name)
            .map(str::to_owned)
            .collect();
    }
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    lines().filter_map(speaker).for_each(|name| *turns.entry(name).or_default() += 1);
    // Several people, of whom one speaks again, and most lines begin with a name.
    let said = turns.values().sum::<usize>();
    let is_talk = turns.len() > 1 && said > turns.len() && said * 2 >= lines().count();
    turns.into_keys().filter(|_| is_talk).map(str::to_owned).collect()
}

/// The name before the words of a line: `Ana: hello`, `**Ana:** hello`.
fn speaker(line: &str) -> Option<&str> {
    let (name, words) = line.split_once(':')?;
    let name = name.trim_matches(['*', '-', '>', '_', ' ']);
    let is_said = words.trim_matches(['*', '_', ' ']).chars().any(char::is_alphabetic);
    (is_name(name) && is_said && !words.starts_with("//")).then_some(name)
}

/// The beginning of a message: a stamp, then a name.
pub(crate) fn read(line: &str) -> Option<Line<'_>> {
    let line = line.trim_start_matches([MARK, '\u{feff}', ' ']);
    let (stamp, rest) = match stamp(line) {
        Some((stamp, rest)) => (Some(stamp), rest),
        None => (None, line),
    };
    let angled = rest.strip_prefix('<').and_then(|rest| rest.split_once("> "));
    if let Some((name, text)) = angled.filter(|(name, _)| is_name(name) && !name.contains('/')) {
        let stamp = stamp.unwrap_or_default();
        return Some(stamp.line(Some(name.trim_matches([' ', '@', '+'])), text, true));
    }
    let stamp = stamp?;
    let named = rest.split_once(':').filter(|(name, text)| {
        is_name(name) && (text.is_empty() || text.starts_with([' ', '\u{a0}', MARK]))
    });
    match named {
        Some((name, text)) => {
            let sure = stamp.date.is_some() || stamp.bracket;
            Some(stamp.line(
                Some(name.trim_start_matches(['~', ' ', '\u{a0}'])),
                text.trim_start_matches([' ', '\u{a0}']),
                sure,
            ))
        }
        // What the program says has a whole stamp in front.
        None if stamp.date.is_some() || stamp.bracket => Some(stamp.line(None, rest, false)),
        None => None,
    }
}

fn is_name(name: &str) -> bool {
    let words = name.split_whitespace().count();
    (1..=NAME_WORDS_MAX).contains(&words)
        && name.chars().count() <= NAME_CHARS_MAX
        && name.chars().any(|c| c.is_alphabetic() || c == '+')
        && !name.contains(['"', '=', '{', '[', '.', ';', '\\'])
}

/// A time in front of a line.
#[derive(Debug, Clone, Copy, Default)]
struct Stamp {
    date: Option<Dated>,
    clock: Option<NaiveTime>,
    halves: bool,
    bracket: bool,
}

impl Stamp {
    fn line<'a>(self, name: Option<&'a str>, text: &'a str, sure: bool) -> Line<'a> {
        let Stamp { date, clock, halves, .. } = self;
        Line { date, clock, halves, name, text, sure }
    }
}

/// `12/03/2026, 14:05 - `, `[12.03.26, 14:05:33] `, `[14:03] `, `14:03 `.
fn stamp(line: &str) -> Option<(Stamp, &str)> {
    let open = line.strip_prefix(['[', '(']);
    let mut rest = open.unwrap_or(line);
    let mut found = Stamp { bracket: open.is_some(), ..Stamp::default() };
    if let Some((date, width)) = dated(rest) {
        found.date = Some(date);
        rest = rest[width..].trim_start_matches([',', ' ', 'T', '\u{a0}', '\u{202f}']);
    }
    let (clock, halves, width) = clock(rest)?;
    (found.clock, found.halves) = (Some(clock), halves);
    rest = &rest[width..];
    if open.is_some() {
        rest = rest.strip_prefix([']', ')'])?;
    }
    let body = rest.trim_start_matches([' ', '\u{a0}', MARK]);
    let dash = body.strip_prefix(['-', '–', '|']).filter(|_| open.is_none());
    let body = dash.unwrap_or(body).trim_start_matches([' ', '\u{a0}']);
    // A mark of the program before a name says nothing of the message.
    let body = body.trim_start_matches(MARK);
    (rest.len() > body.len()).then_some((found, body))
}

/// A time of day at the beginning, whether it is one of two halves of the day, and its width.
fn clock(text: &str) -> Option<(NaiveTime, bool, usize)> {
    let number = |from: usize| {
        let tail = text.get(from..)?;
        let width = tail.bytes().take_while(u8::is_ascii_digit).count();
        (1..=2).contains(&width).then(|| Some((tail[..width].parse::<u32>().ok()?, width)))?
    };
    let (mut hour, mut width) = number(0)?;
    let mut parts = [0, 0];
    for (place, part) in parts.iter_mut().enumerate() {
        if !text[width..].starts_with([':', '.']) {
            if place == 0 {
                return None;
            }
            break;
        }
        let (value, more) = number(width + 1).filter(|(_, more)| *more == 2)?;
        *part = value;
        width += 1 + more;
    }
    let tail = text[width..].trim_start_matches([' ', '\u{a0}', '\u{202f}']);
    let gap = text.len() - width - tail.len();
    let letters: String =
        tail.chars().take(6).filter(|c| !matches!(c, '.' | ' ' | '\u{a0}' | '\u{202f}')).collect();
    let half = match letters.to_ascii_lowercase() {
        half if half.starts_with("pm") => Some(true),
        half if half.starts_with("am") => Some(false),
        _ => None,
    };
    let half = half.filter(|_| {
        let end = half_end(tail);
        !tail[end..].starts_with(|c: char| c.is_alphanumeric())
    });
    if let Some(afternoon) = half {
        hour = hour % 12 + if afternoon { 12 } else { 0 };
        width += gap + half_end(tail);
    }
    Some((NaiveTime::from_hms_opt(hour, parts[0], parts[1])?, half.is_some(), width))
}

/// Where `p. m.` ends.
fn half_end(tail: &str) -> usize {
    let m = tail.find(['m', 'M']).map_or(0, |at| at + 1);
    m + usize::from(tail[m..].starts_with('.'))
}
