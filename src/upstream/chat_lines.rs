//! The lines of a chat that is a text: exports of WhatsApp on any telephone, and logs such as `[14:03] ana: …`.
//!
//! Contract: a text is a chat when its lines begin with a time or a name in the same way and people speak
//! in it again and again. A line without a beginning of its own continues the message above it.

use std::collections::BTreeSet;

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

/// Everybody who speaks in a text that is a chat, with times before the names, behind them or without; nobody where it is
/// something else. A rule that misses somebody lets a text out, so a name too many is no harm.
pub(super) fn speakers(text: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let (mut names, mut said, mut timed, mut long) = (BTreeSet::new(), 0, 0, 0);
    for (at, line) in lines.iter().enumerate() {
        let Some(turn) = turn(line, lines.get(at + 1).copied()) else { continue };
        said += 1;
        timed += usize::from(turn.is_timed);
        long += usize::from(turn.words.split_whitespace().count() >= SAID_WORDS_MIN);
        names.insert(turn.name.to_owned());
    }
    let are_most = said * 2 >= lines.len();
    // In the log of a program, nearly every line has another beginning.
    if names.len() > NAMES_FREE && said < names.len() * 2 {
        return BTreeSet::new();
    }
    let is_talk = is_chat(text)
        // Several people, of whom one speaks again, and most lines begin with a name.
        || names.len() > 1 && said > names.len() && are_most
        // Every name has a time, and a message may have some lines.
        || timed > 1 && timed == said && said * LINES_OF_MESSAGE_MAX >= lines.len()
        // Nobody speaks twice, and most say more than a value behind a label.
        || said > 0 && long * 2 >= said && (said == lines.len() || names.len() > 1 && are_most);
    if is_talk { names } else { BTreeSet::new() }
}

/// Words of somebody who speaks once.
const SAID_WORDS_MIN: usize = 3;
/// Names of a text in which hardly anybody speaks twice.
const NAMES_FREE: usize = 500;
/// Lines of a message below a name with a time.
const LINES_OF_MESSAGE_MAX: usize = 6;
/// Colons of a line that may stand behind a name.
const COLONS_MAX: usize = 4;

/// A line that begins what somebody says.
struct SaidBy<'a> {
    name: &'a str,
    words: &'a str,
    is_timed: bool,
}

/// `[14:03] Ana: hello`, `Ana: hello`, `**Ana:** hello`, `Ana (14:03): hello`, `0:03 Ana hello` with tabs between,
/// `[0:03] Ana - hello`, and `Ana  14:03` or `### Ana — 14:03` above the words.
fn turn<'a>(line: &'a str, below: Option<&'a str>) -> Option<SaidBy<'a>> {
    if let Some(Line { name: Some(name), text, .. }) = read(line) {
        return Some(SaidBy { name, words: text, is_timed: true });
    }
    let line = line.trim_start_matches([MARK, '\u{feff}', ' ']);
    let stamped = stamp(line).map(|(_, rest)| rest).or_else(|| after_time(line));
    let (is_timed, line) = (stamped.is_some(), stamped.unwrap_or(line));
    let bytes = line.as_bytes();
    let is_digit =
        |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let in_clock = |at: usize| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    let mut colons = line.match_indices(':').map(|(at, _)| at).take(COLONS_MAX);
    let colon = colons.find(|at| !in_clock(*at)).map(|at| (at, ":"));
    // Behind a time, other signs stand for it.
    let others = ["\t", " - ", " – ", " — "].into_iter().filter(|_| is_timed);
    let ends = others.filter_map(|sign| Some((line.find(sign)?, sign))).chain(colon);
    if let Some((at, sign)) = ends.min_by_key(|(at, _)| *at) {
        let (written, words) = (&line[..at], &line[at + sign.len()..]);
        let (name, is_behind) = without_time(written);
        let is_said = words.trim_matches(['*', '_', ' ']).chars().any(char::is_alphabetic);
        return (is_person(name) && is_said && !words.starts_with("//")).then_some(SaidBy {
            name,
            words,
            is_timed: is_timed || is_behind,
        });
    }
    // The words stand below.
    let (name, is_behind) = without_time(line);
    let words = below.filter(|_| is_behind && is_person(name))?;
    Some(SaidBy { name, words, is_timed: true })
}

/// What stands behind the time of a recording: `75:10`, `[00:01:02.480]`, `0:03` before a tab.
fn after_time(line: &str) -> Option<&str> {
    let open = line.strip_prefix(['[', '(']);
    let line = open.unwrap_or(line);
    let rest =
        line.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | ','));
    let time = &line[..line.len() - rest.len()];
    let rest = if open.is_some() { rest.strip_prefix([']', ')'])? } else { rest };
    let is_time = time.starts_with(|c: char| c.is_ascii_digit())
        && time.ends_with(|c: char| c.is_ascii_digit())
        && time.contains(':');
    let behind = rest.trim_start_matches([' ', '\t', '\u{a0}']);
    (is_time && behind.len() < rest.len()).then_some(behind)
}

/// A name, also one with initials or a title.
fn is_person(name: &str) -> bool {
    is_name(name) || is_name(&name.replace('.', ""))
}

/// A name without the marks around it and without the time behind it, and whether there was one.
fn without_time(written: &str) -> (&str, bool) {
    const AROUND: [char; 10] = ['*', '-', '–', '—', '>', '_', ' ', ',', '#', '•'];
    let written = written.trim_matches(AROUND);
    if let Some((name, inner)) =
        written.strip_suffix([')', ']']).and_then(|rest| rest.rsplit_once(['(', '[']))
        && is_time(inner)
    {
        return (name.trim_matches(AROUND), true);
    }
    let begins = written.match_indices(|c: char| c.is_whitespace() || c == ',');
    let behind = begins.map(|(at, _)| (&written[..at], &written[at..]));
    let timed = behind
        .into_iter()
        .find(|(_, behind)| is_time(behind.trim_matches(['@', '|', '-', '–', '—', '·', ',', ' '])));
    match timed {
        Some((name, _)) => (name.trim_matches(AROUND), true),
        None => (written, false),
    }
}

/// Whether a text is a clock time, and maybe a day before it.
fn is_time(text: &str) -> bool {
    let rest = dated(text).map_or(text, |(_, width)| &text[width..]);
    let rest = rest.trim_start_matches([',', ' ', 'T', '\u{a0}', '\u{202f}']);
    clock(rest).is_some_and(|(_, _, width)| rest[width..].trim().is_empty())
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
