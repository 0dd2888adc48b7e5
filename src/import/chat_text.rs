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
use crate::model::builtin::extract::written::{Order, day_of_name, is_placeholder, order_of};
use crate::upstream::chat_lines::{Line, MARK, SAMPLE_BYTES, read};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::chat_lines::is_chat;

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
