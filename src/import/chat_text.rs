//! Chats as lines of text: exports of WhatsApp on any telephone, and logs such as `[14:03] ana: …`.
//!
//! Contract: a text is a chat when its lines begin with a time or a name in the same way and people speak
//! in it again and again. A line without a beginning of its own continues the message above it. What
//! the program says (`Ana joined`) is kept and marked, a message that is only a picture is counted. The
//! clock is that of the home: exports name no zone. Dates that are both day and month are read in one order
//! in the whole chat, and the conversation names it.

use std::path::Path;

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

use super::Clock;
use super::chats::{Conversation, OtherReading, Standing, Turn};
use crate::contract::hash::sha256;
use crate::contract::source::{TimePrecision, on_clock};
use crate::contract::time::Timestamp;
use crate::markup::prefix;
use crate::model::builtin::extract::written::{
    Dated, Order, dated, day_of_name, is_placeholder, order_of,
};

/// Longest name of a person, in characters and in words.
const NAME_CHARS_MAX: usize = 40;
const NAME_WORDS_MAX: usize = 5;
/// Bytes that decide whether a text is a chat.
const SAMPLE_BYTES: usize = 32 << 10;
/// Lines with words before the first message.
const BEFORE_MAX: usize = 3;
/// Programs put this mark before what a person did not type.
const MARK: char = '\u{200e}';
/// Levels of a log of a program, which stand where a chat has names.
const LEVELS: [&str; 9] =
    ["info", "error", "warn", "warning", "debug", "trace", "fatal", "notice", "critical"];

/// One line with a beginning of its own.
#[derive(Debug, Clone, PartialEq)]
struct Line<'a> {
    date: Option<Dated>,
    clock: Option<NaiveTime>,
    /// The clock was written with am or pm.
    halves: bool,
    /// Who speaks; `None` where the program does.
    name: Option<&'a str>,
    text: &'a str,
    /// A date, a bracket or angles leave no doubt.
    sure: bool,
}

/// Whether a text is a chat.
pub(super) fn is_chat(text: &str) -> bool {
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

/// Whether the messages of a chat have days: each in its line, or all from the name of the file.
pub(super) fn has_day(text: &str, name: &Path) -> bool {
    let mut lines = prefix(text, SAMPLE_BYTES).lines().filter_map(read);
    let named = || day_of_name(&name.to_string_lossy(), Some(Order::DayFirst)).is_some();
    lines.next().is_some_and(|first| first.date.is_some()) || named()
}

/// Reads a chat; `None` where no message has a time. `name` is the name of its file.
pub(super) fn conversation(text: &str, name: &str, clock: Clock) -> Option<Conversation> {
    let lines = messages(text);
    let today = clock.now.day_in(clock.zone).0;
    let order = order(&lines, text, today);
    let mut found = read_in(&lines, name, clock, order)?;
    found.dates_read = has_two_readings(&lines).then_some(order_in_words(order));
    found.other_reading = other_reading(&lines, name, clock, order);
    Some(found)
}

/// The messages on the days that they have in the other order; `None` where these are the same.
fn other_reading(
    lines: &[(Line<'_>, String)],
    name: &str,
    clock: Clock,
    order: Order,
) -> Option<OtherReading> {
    let other = match order {
        Order::DayFirst => Order::MonthFirst,
        Order::MonthFirst => Order::DayFirst,
    };
    let is_day =
        |(line, _): &&(Line<'_>, String)| line.date.is_none_or(|date| date.day_in(other).is_some());
    let days: Vec<_> = lines.iter().filter(is_day).cloned().collect();
    if days_in(&days, other) == days_in(&days, order) {
        return None;
    }
    let rises = |order| days_in(lines, order).is_some_and(|days| days.is_sorted());
    let is_possible = days.len() == lines.len() && (rises(other) || !rises(order));
    let turns = read_in(&days, name, clock, other)?.turns;
    let instead_of = order_in_words(order);
    Some(OtherReading { order: order_in_words(other), instead_of, is_possible, turns })
}

/// The chat with its dates read in an order.
fn read_in(
    lines: &[(Line<'_>, String)],
    name: &str,
    clock: Clock,
    order: Order,
) -> Option<Conversation> {
    let named = day_of_name(name, Some(order));
    let mut found = Conversation {
        id: name.to_owned(),
        title: Some(title_of(name)),
        system: "chat_log",
        ..Conversation::default()
    };
    let (mut day, mut last): (Option<NaiveDate>, Option<NaiveTime>) = (named, None);
    let mut known = std::collections::BTreeMap::new();
    for (line, text) in lines {
        match line.date {
            Some(date) => day = Some(date.day(Some(order))?),
            // A log of one day that continues after midnight.
            None => {
                let turned = last.zip(line.clock).is_some_and(|(last, clock)| clock < last);
                day = if turned { day?.succ_opt() } else { day };
            }
        }
        last = line.clock.or(last);
        let local = NaiveDateTime::new(day?, last?);
        let at = Timestamp(on_clock(local, clock.zone).timestamp_millis());
        let standing = match line.name {
            Some(_) if is_empty(text) => {
                found.empty += 1;
                continue;
            }
            Some(_) => Standing::Shown,
            None => Standing::Hidden,
        };
        let said = format!("{} {} {text}", at.0, line.name.unwrap_or_default());
        let count = known.entry(said.clone()).and_modify(|count| *count += 1).or_insert(0);
        let id = format!("{}~{count}", &sha256(&said).hex()[..16]);
        let role = if line.name.is_some() { "user" } else { "system" }.to_owned();
        let author = line.name.map(str::to_owned);
        found.turns.push(Turn {
            author,
            precision: TimePrecision::Local,
            ..Turn::new(id, role, at, text.clone(), standing)
        });
    }
    found.turns.iter().any(|turn| turn.standing == Standing::Shown).then_some(found)
}

/// The lines that begin a message, each with the whole text of the message.
fn messages(text: &str) -> Vec<(Line<'_>, String)> {
    let mut found: Vec<(Line<'_>, String)> = Vec::new();
    for line in text.lines() {
        match (read(line), found.last_mut()) {
            (Some(line), _) => found.push((line.clone(), clean(line.text))),
            (None, Some((_, text))) => {
                text.push('\n');
                text.push_str(line.trim_end());
            }
            (None, None) => {}
        }
    }
    found.iter_mut().for_each(|(_, text)| text.truncate(text.trim_end().len()));
    found
}

/// Which number of the stamps is the day: by the numbers, by the order of time up to the day of the
/// import, by the form that telephones of one country write, by the language. It is always one of them:
/// a chat whose days may be wrong is more than a text without days and speakers.
fn order(lines: &[(Line<'_>, String)], text: &str, today: NaiveDate) -> Order {
    // Clocks of telephones in the east are ahead.
    let latest = today.succ_opt().unwrap_or(today);
    let days = |order| days_in(lines, order);
    let rises = |days: &Option<Vec<NaiveDate>>| days.as_ref().is_some_and(|days| days.is_sorted());
    let fits = |days: &Option<Vec<NaiveDate>>| {
        rises(days) && days.iter().flatten().next_back().is_none_or(|last| *last <= latest)
    };
    let (by_day, by_month) = (days(Order::DayFirst), days(Order::MonthFirst));
    for is_right in [&fits as &dyn Fn(&Option<Vec<NaiveDate>>) -> bool, &rises, &Option::is_some] {
        match (is_right(&by_day), is_right(&by_month)) {
            (true, false) => return Order::DayFirst,
            (false, true) => return Order::MonthFirst,
            _ => {}
        }
    }
    let padded = lines.iter().any(|(line, _)| line.date.is_some_and(|date| date.padded));
    let halves = lines.iter().any(|(line, _)| line.halves);
    let usual = if halves { Order::MonthFirst } else { Order::DayFirst };
    // `03/05/2026, 14:05`: no telephone that writes the month first does so.
    let is_clear = padded && !halves;
    if is_clear { usual } else { order_of([text].into_iter()).unwrap_or(usual) }
}

/// The days of the stamps in an order; `None` where one of them is no day then.
fn days_in(lines: &[(Line<'_>, String)], order: Order) -> Option<Vec<NaiveDate>> {
    lines.iter().filter_map(|(line, _)| line.date).map(|date| date.day_in(order)).collect()
}

/// Whether both orders give days, and not the same.
fn has_two_readings(lines: &[(Line<'_>, String)]) -> bool {
    let [by_day, by_month] =
        [Order::DayFirst, Order::MonthFirst].map(|order| days_in(lines, order));
    by_day.is_some() && by_month.is_some() && by_day != by_month
}

fn order_in_words(order: Order) -> &'static str {
    match order {
        Order::DayFirst => "day/month/year",
        Order::MonthFirst => "month/day/year",
    }
}

/// Without marks of the program.
fn clean(text: &str) -> String {
    // A person's own words hold no mark at their beginning.
    if text.starts_with(MARK) { String::new() } else { text.replace(MARK, "") }
}

/// Whether a message has no words of a person.
fn is_empty(text: &str) -> bool {
    let text = text.trim();
    let bracketed = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
    text.is_empty()
        || bracketed.is_some_and(|inner| !inner.contains(['<', '/']) && inner.len() <= 60)
        || is_placeholder(text)
}

/// `WhatsApp Chat with Ana.txt` is the chat with that name.
fn title_of(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    // A browser numbers a file that it fetched before: `… with Ana (1).txt`.
    let copy = stem.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    let is_copy = |number: &str| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    copy.filter(|(_, number)| is_copy(number)).map_or(stem, |(name, _)| name).to_owned()
}

/// The beginning of a message: a stamp, then a name.
fn read(line: &str) -> Option<Line<'_>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28 in UTC.
    const CLOCK: Clock = Clock { zone: chrono_tz::UTC, now: Timestamp(1_795_824_000_000) };

    fn read_all(text: &str, name: &str) -> Vec<String> {
        assert!(is_chat(text), "{text}");
        let found = conversation(text, name, CLOCK).unwrap();
        let shown = found.turns.iter().map(|turn| {
            let author = turn.author.as_deref().unwrap_or("-");
            format!("{} {author}: {}", &turn.at.to_string()[..16], turn.text)
        });
        shown.collect()
    }

    #[test]
    fn exports_of_phone_chats_become_messages() {
        let android = "12/03/2026, 14:05 - Los mensajes están cifrados.\n\
            12/03/2026, 14:05 - Ana: hola\n12/03/2026, 14:06 - Ben: yo pago\ny tú también\n\
            12/03/2026, 14:09 - Ana: <Multimedia omitido>\n13/03/2026, 09:30 - Ana María: adiós\n";
        assert_eq!(
            read_all(android, "WhatsApp Chat with Ben.txt"),
            [
                "2026-03-12T14:05 -: Los mensajes están cifrados.",
                "2026-03-12T14:05 Ana: hola",
                "2026-03-12T14:06 Ben: yo pago\ny tú también",
                "2026-03-13T09:30 Ana María: adiós",
            ]
        );
        let iphone = "[12.03.26, 14:05:33] Ben: Hast du die Karten?\n\
            \u{200e}[12.03.26, 14:06:40] Lena: \u{200e}Bild weggelassen\n[12.03.26, 14:07:12] Lena: Ja\n";
        assert_eq!(
            read_all(iphone, "_chat.txt"),
            ["2026-03-12T14:05 Ben: Hast du die Karten?", "2026-03-12T14:07 Lena: Ja"]
        );
        let american = "3/5/26, 2:05\u{202f}PM - Tom: Can you come?\n3/5/26, 2:08 PM - +1 555 0100: Yes\n\
            3/25/26, 9:00 AM - Tom: Fine\n";
        assert_eq!(
            read_all(american, "a.txt"),
            [
                "2026-03-05T14:05 Tom: Can you come?",
                "2026-03-05T14:08 +1 555 0100: Yes",
                "2026-03-25T09:00 Tom: Fine"
            ]
        );
        let mexican = "5/3/26, 2:05 p. m. - Ana: hola\n5/3/26, 2:06 p. m. - Ben: ¿qué tal?\n\
            6/3/26, 9:00 a. m. - Ana: bien\n";
        assert_eq!(read_all(mexican, "a.txt")[2], "2026-03-06T09:00 Ana: bien");
    }

    #[test]
    fn dates_with_two_readings_are_read_in_the_order_of_time_and_not_after_the_import() {
        let chat = |days: &[&str], time: &str| {
            let lines: Vec<String> = days
                .iter()
                .zip(["Ana", "Ben", "Ana"])
                .map(|(day, name)| format!("{day}, {time} - {name}: 64 EUR\n"))
                .collect();
            assert!(is_chat(&lines.concat()));
            let found = conversation(&lines.concat(), "chat.txt", CLOCK).expect("a chat");
            let day = found.turns[0].at.to_string()[..10].to_owned();
            (day, found.dates_read)
        };
        let (day_first, month_first) = (Some("day/month/year"), Some("month/day/year"));
        // Both readings rise and are in the past.
        let days = ["11/02/26", "11/02/26", "11/03/26"];
        assert_eq!(chat(&days, "14:05"), ("2026-02-11".to_owned(), day_first));
        assert_eq!(chat(&days, "2:05 PM"), ("2026-11-02".to_owned(), month_first));
        // Read with the month first, the last message is of December.
        let days = ["11/02/26", "12/02/26", "12/02/26"];
        assert_eq!(chat(&days, "2:05 PM"), ("2026-02-11".to_owned(), day_first));
        // With the day first, the second message is older than the first.
        let days = ["3/11/26", "4/2/26", "5/1/26"];
        assert_eq!(chat(&days, "14:05"), ("2026-03-11".to_owned(), month_first));
        // One date leaves no choice, also where both readings are in the order of time.
        let days = ["01/02/26", "13/02/26", "13/02/26"];
        assert_eq!(chat(&days, "2:05 PM"), ("2026-02-01".to_owned(), None));
        let days = ["11/02/26", "13/02/26", "13/02/26"];
        assert_eq!(chat(&days, "2:05 PM"), ("2026-02-11".to_owned(), None));
        // Neither reading is possible at the time of the import.
        let days = ["11/12/27", "12/12/27", "12/12/27"];
        assert_eq!(chat(&days, "14:05"), ("2027-12-11".to_owned(), day_first));
    }

    #[test]
    fn plain_logs_have_the_day_of_their_name() {
        let log = "[14:03] ana: it is down\n[23:59] ben: I look\n[00:01] ben: it is up\n";
        assert_eq!(
            read_all(log, "2026-03-05 log.txt"),
            [
                "2026-03-05T14:03 ana: it is down",
                "2026-03-05T23:59 ben: I look",
                "2026-03-06T00:01 ben: it is up"
            ]
        );
        assert!(conversation(log, "log.txt", CLOCK).is_none(), "no day is known");
        assert!(is_chat("<ana> hi\n<ben> yes\n<ana> fine\n"));
        let dated = "2026-03-05 14:03 <ana> hi\n2026-03-05 14:04 <ben> yes\n";
        assert_eq!(read_all(dated, "x.txt")[1], "2026-03-05T14:04 ben: yes");
    }

    #[test]
    fn other_texts_are_no_chats() {
        for text in [
            "10:00 started\n10:01 stopped\n",
            "2026-03-05 10:00:01 ERROR: disk full\n2026-03-05 10:00:02 ERROR: retry\n2026-03-05 10:00:03 INFO: done\n",
            "09:00 - Arrival: coffee\n09:30 - Opening: Ana\n10:00 - Budget: Ben\n",
            "Name: Ana\nTown: Lyon\nName: Ben\n",
            "On 5 March we met.\n[1] Ana: a note\n",
            "05.03.2026\n\nDear Ana,\n\nat 14:03 we met.\n",
            "<p>one\n<p>two\n",
        ] {
            assert!(!is_chat(text), "{text}");
        }
    }
}
