//! Calendars (`.ics`) and contacts (`.vcf`) as sentences: what an entry says, without the names of its
//! properties.
//!
//! Contract: an entry is a paragraph of one sentence, and what its owner wrote about it follows as text.
//! Times stay as they are written, with their zone. Alarms, zones and pictures are no text.

use std::collections::HashSet;

use mail_parser::decoders::charsets::map::charset_decoder;

use super::document::Document;
use super::mail::of_quoted_printable;
use super::marks::{self, Marks};
use super::recurrence;
use crate::contract::publish::said_by_line;
use crate::contract::time::Day;

/// Parts that are entries. Others stand in them or beside them, and say nothing of their own.
const ENTRIES: [&str; 4] = ["VEVENT", "VTODO", "VJOURNAL", "VCARD"];
/// Open parts that an end may close.
const OPEN_LOOKED_AT: usize = 64;
/// Longest name of a property with its parameters that is looked at again when its line continues.
const HEAD_BYTES_MAX: usize = 1000;

/// Reads a calendar or contacts.
pub fn document(kind: &'static str, text: &str) -> Document {
    let mut reader = Reader::default();
    unfolded(text).iter().for_each(|line| reader.line(line));
    let Reader { mut entries, last, name, said, .. } = reader;
    // An entry without an end is one too.
    entries.extend(last);
    let texts: Vec<String> =
        entries.iter().map(Entry::text).filter(|text| !text.is_empty()).collect();
    let only = if let [only] = entries.as_slice() { Some(only) } else { None };
    let document = Document {
        kind,
        text: texts.join("\n\n"),
        title: only.and_then(Entry::name).or(name),
        date: only.and_then(|one| one.first("DTSTART").and_then(moment_of)),
        ..Document::default()
    };
    document.with(said).with(marks::in_text(kind, text))
}

/// The lines of a file, each whole: a line that begins with a blank continues the one before.
fn unfolded(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut quoted = false;
    for line in text.lines() {
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            // In old contacts, `=` at the end of a line says that the next line continues it. A blank after
            // it is part of the text.
            (_, Some(last)) if quoted && last.ends_with('=') => {
                last.pop();
                last.push_str(line);
            }
            (Some(rest), Some(last)) => {
                last.push_str(rest);
                if last.len() <= HEAD_BYTES_MAX {
                    quoted = is_quoted(last);
                }
            }
            _ => {
                quoted = is_quoted(line);
                lines.push(line.to_owned());
            }
        }
    }
    lines
}

fn is_quoted(line: &str) -> bool {
    let head = line.split(':').next().unwrap_or_default();
    head.to_ascii_uppercase().contains("QUOTED-PRINTABLE")
}

#[derive(Default)]
struct Reader {
    entries: Vec<Entry>,
    /// The entry that did not end yet.
    last: Option<Entry>,
    /// The parts that are open.
    open: Vec<String>,
    name: Option<String>,
    said: Marks,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let Some(property) = Property::read(line) else { return };
        // Programs put a word of their own before a name: `X-CALENDARSERVER-ACCESS`.
        let own = property.name.strip_prefix("X-").and_then(|name| name.rsplit('-').next());
        let whole = property.name.strip_prefix("X-").unwrap_or(&property.name);
        let text = property.text();
        self.said.note(whole, &text);
        for name in [Some(property.name.as_str()), own].into_iter().flatten() {
            self.said.said(said_by_line(name, &property.value));
            self.said.note(name, &text);
        }
        let part = property.value.trim().to_ascii_uppercase();
        match property.name.as_str() {
            "BEGIN" => {
                if ENTRIES.contains(&part.as_str()) {
                    self.entries.extend(self.last.replace(Entry::default()));
                }
                if part == "VTODO" {
                    self.last.iter_mut().for_each(|entry| entry.is_task = true);
                }
                self.open.push(part);
            }
            "END" => {
                let mut last = self.open.iter().rev().take(OPEN_LOOKED_AT);
                if let Some(closed) = last.position(|open| *open == part) {
                    self.open.truncate(self.open.len() - closed - 1);
                }
                if ENTRIES.contains(&part.as_str()) {
                    self.entries.extend(self.last.take());
                }
            }
            "X-WR-CALNAME" => self.name = Some(property.text()),
            _ if self.open.last().is_some_and(|open| ENTRIES.contains(&open.as_str())) => {
                self.last.iter_mut().for_each(|entry| entry.properties.push(property.clone()));
            }
            _ => {}
        }
    }
}

/// `NAME;PARAMETER=value:value`.
#[derive(Debug, Clone, PartialEq)]
struct Property {
    name: String,
    parameters: Vec<(String, String)>,
    value: String,
}

impl Property {
    fn read(line: &str) -> Option<Property> {
        let mut in_quotes = false;
        let colon = line.char_indices().find(|(_, c)| {
            in_quotes ^= *c == '"';
            *c == ':' && !in_quotes
        })?;
        let (head, raw) = (&line[..colon.0], &line[colon.0 + 1..]);
        let mut words = head.split(';');
        // Programs group properties with a word before a point.
        let name = words.next()?.rsplit('.').next()?.trim().to_ascii_uppercase();
        let parameters: Vec<(String, String)> = words
            .filter_map(|word| word.split_once('='))
            .map(|(name, value)| (name.to_ascii_uppercase(), value.trim_matches('"').to_owned()))
            .collect();
        let parameter = |wanted: &str| {
            parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
        };
        let value = match is_quoted(line) {
            true => characters(&of_quoted_printable(raw.as_bytes()), parameter("CHARSET")),
            false => raw.to_owned(),
        };
        Some(Property { name, parameters, value })
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Its text, in which `\n` is a line end and `\,` a comma.
    fn text(&self) -> String {
        plain(&self.value)
    }

    /// The days that a list of times names.
    fn each_day(&self) -> Vec<String> {
        self.value.split(',').filter_map(day_of_text).collect()
    }

    /// The parts between the signs that separate them, those that are not empty.
    fn parts(&self) -> String {
        let mut parts = vec![String::new()];
        let mut chars = self.value.chars();
        while let Some(c) = chars.next() {
            let last = parts.last_mut().expect("there is a part");
            match c {
                '\\' => {
                    last.push(c);
                    last.extend(chars.next());
                }
                ';' => parts.push(String::new()),
                c => last.push(c),
            }
        }
        let parts = parts.iter().map(|part| plain(part)).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    }

    /// An address or a number, without `mailto:` or `tel:`.
    fn address(&self) -> String {
        let address = self.parts();
        let scheme = address.split_once(':').filter(|(scheme, _)| {
            ["mailto", "tel", "sip", "xmpp"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
        });
        scheme.map_or(address.as_str(), |(_, rest)| rest).to_owned()
    }

    /// Whom it names.
    fn person(&self) -> String {
        let address = self.address();
        let address = address.as_str();
        self.parameter("CN").filter(|name| !name.trim().is_empty()).unwrap_or(address).to_owned()
    }
}

fn plain(value: &str) -> String {
    let mut out = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            (_, Some('n' | 'N')) => out.push('\n'),
            (_, Some(escaped)) => out.push(escaped),
            (c, None) => out.push(c),
        }
    }
    out.trim().to_owned()
}

#[derive(Default)]
struct Entry {
    properties: Vec<Property>,
    is_task: bool,
}

impl Entry {
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Property> {
        self.properties.iter().filter(move |property| property.name == name)
    }

    fn first<'a>(&'a self, name: &'a str) -> Option<&'a Property> {
        self.all(name).find(|property| !property.value.trim().is_empty())
    }

    fn name(&self) -> Option<String> {
        let named = ["SUMMARY", "FN"].iter().find_map(|name| self.first(name));
        let name = named.map(Property::text).or_else(|| self.first("N").map(Property::parts))?;
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        (!name.is_empty()).then_some(name)
    }

    /// The sentence of the entry, and what is written about it below.
    fn text(&self) -> String {
        let is_done = self.is_done();
        let name = self.name().map(|name| if is_done { format!("Done: {name}") } else { name });
        let mut said: Vec<String> = name.into_iter().collect();
        let mut say = |label: &str, what: String| {
            let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
            if !what.is_empty() {
                said.push(format!("{label}: {what}"));
            }
        };
        say("when", self.when());
        say("due", self.first("DUE").map(shown_time).unwrap_or_default());
        let rhythms: Vec<_> = self.all("RRULE").map(|rule| recurrence::told(&rule.value)).collect();
        match rhythms.as_slice() {
            [] => {}
            [Some(rhythm)] => say("repeats", rhythm.clone()),
            // What cannot be told truly.
            _ => say("repeats", "yes".to_owned()),
        }
        let days = self.all("EXDATE").flat_map(Property::each_day).collect::<Vec<_>>();
        say("except", days.join(", "));
        let replaced = self.first("RECURRENCE-ID").map(shown_time);
        say("in its series in the place of", replaced.unwrap_or_default());
        say("status", self.status().filter(|_| !is_done).unwrap_or_default());
        say("where", self.first("LOCATION").map(Property::text).unwrap_or_default());
        let people = self.all("ORGANIZER").chain(self.all("ATTENDEE")).map(Property::person);
        let mut known = HashSet::new();
        let who: Vec<String> = people.filter(|person| known.insert(person.clone())).collect();
        say("who", who.join(", "));
        for (label, name) in [
            ("organization", "ORG"),
            ("title", "TITLE"),
            ("role", "ROLE"),
            ("phone", "TEL"),
            ("e-mail", "EMAIL"),
            ("address", "ADR"),
            ("web", "URL"),
        ] {
            let shown =
                if matches!(name, "TEL" | "EMAIL") { Property::address } else { Property::parts };
            let all: Vec<String> = self.all(name).map(shown).collect();
            say(
                label,
                all.iter().filter(|one| !one.is_empty()).cloned().collect::<Vec<_>>().join(", "),
            );
        }
        say("birthday", self.first("BDAY").map(shown_time).unwrap_or_default());
        let mut texts = Vec::new();
        if !said.is_empty() {
            let sentence = said.join("; ");
            let ends = sentence.ends_with(['.', '!', '?', '…']);
            texts.push(if ends { sentence } else { format!("{sentence}.") });
        }
        let written = ["DESCRIPTION", "NOTE", "COMMENT"].iter().flat_map(|name| self.all(name));
        texts.extend(written.map(Property::text).filter(|text| !text.is_empty()));
        texts.join("\n\n")
    }

    /// A task that is done must not read as an open one.
    fn is_done(&self) -> bool {
        let says = |name: &str, value: &str| {
            self.first(name).is_some_and(|one| one.text().eq_ignore_ascii_case(value))
        };
        let is_completed = || says("STATUS", "completed") || self.first("COMPLETED").is_some();
        self.is_task && (is_completed() || says("PERCENT-COMPLETE", "100"))
    }

    /// How it stands, where that is not what a reader expects.
    fn status(&self) -> Option<String> {
        let status = self.first("STATUS")?.text().to_lowercase().replace('-', " ");
        Some(match status.as_str() {
            "confirmed" | "final" | "needs action" => return None,
            "in process" => "in progress".to_owned(),
            _ => status,
        })
    }

    fn when(&self) -> String {
        let Some(start) = self.first("DTSTART") else { return String::new() };
        let begin = shown_time(start);
        let Some(end) = self.first("DTEND") else { return begin };
        // The end of whole days is the day after the last.
        let end = match (end.value.trim().len(), day_of(end)) {
            (8, Some(day)) => {
                day.parse().ok().map(|Day(day)| Day(day.pred_opt().unwrap_or(day)).to_string())
            }
            _ => Some(shown_time(end)),
        };
        let Some(end) = end.filter(|end| *end != begin) else { return begin };
        let zone = begin.find(" (").or_else(|| begin.find(" UTC"));
        let (from, zone) = begin.split_at(zone.unwrap_or(begin.len()));
        let day = day_of(start).filter(|day| begin.len() > day.len());
        let clock = day.and_then(|day| end.strip_prefix(day.as_str()));
        // Two times of one zone are told with one zone.
        let in_zone = |clock: &&str| clock.strip_suffix(zone).is_some_and(is_clock);
        match clock.map(str::trim).filter(in_zone) {
            Some(clock) => format!("{from} – {clock}"),
            None => format!("{begin} – {end}"),
        }
    }
}

/// `09:00`.
fn is_clock(text: &str) -> bool {
    let digits = text.split_once(':').map(|(hour, minute)| [hour, minute]);
    let is_pair = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.is_some_and(|digits| digits.into_iter().all(is_pair))
}

/// The day of a time, where it is one.
fn day_of(time: &Property) -> Option<String> {
    day_of_text(&time.value)
}

fn day_of_text(time: &str) -> Option<String> {
    let digits: String = time.trim().chars().filter(|c| *c != '-').take(8).collect();
    if digits.len() < 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let day = format!("{}-{}-{}", &digits[..4], &digits[4..6], &digits[6..]);
    day.parse::<Day>().ok().map(|day| day.to_string())
}

/// The moment of a time where it has one everywhere, else its day: the zone of a reader decides the day of a moment.
fn moment_of(time: &Property) -> Option<String> {
    let day = day_of(time)?;
    let clock = time.value.trim().split_once('T').and_then(|(_, clock)| clock.strip_suffix('Z'));
    let digits =
        clock.filter(|clock| clock.len() == 6 && clock.bytes().all(|b| b.is_ascii_digit()));
    Some(match digits {
        Some(clock) => format!("{day}T{}:{}:{}Z", &clock[..2], &clock[2..4], &clock[4..]),
        None => day,
    })
}

/// Bytes in the character set that a property names, else UTF-8.
fn characters(bytes: &[u8], charset: Option<&str>) -> String {
    match charset.and_then(|name| charset_decoder(name.trim().as_bytes())) {
        Some(decode) if std::str::from_utf8(bytes).is_err() => decode(bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// `20260301T090000Z` as `2026-03-01 09:00 UTC`; what has another form stays as it is.
fn shown_time(time: &Property) -> String {
    let value = time.value.trim();
    let Some(day) = day_of(time) else { return value.to_owned() };
    let Some((_, clock)) = value.split_once('T') else { return day };
    let digits: String = clock.chars().filter(char::is_ascii_digit).take(4).collect();
    if digits.len() < 4 {
        return day;
    }
    let zone = match (clock.ends_with('Z'), time.parameter("TZID")) {
        (true, _) => " UTC".to_owned(),
        (_, Some(zone)) => format!(" ({})", zone.trim_start_matches('/')),
        _ => String::new(),
    };
    format!("{day} {}:{}{zone}", &digits[..2], &digits[2..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_sentence_with_its_time_place_and_people() {
        let text = "BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nTZID:Europe/Berlin\nDTSTART:19701025T030000\nEND:VTIMEZONE\n\
             BEGIN:VEVENT\nUID:1@x\nSUMMARY:Dentist\\, check-up\nDTSTART;TZID=Europe/Berlin:20260301T090000\n\
             DTEND;TZID=Europe/Berlin:20260301T100000\nLOCATION:Main Street 5\nATTENDEE;CN=\"Diaz: Ana\":mailto:a@x\n\
             ORGANIZER:MAILTO:w@x\nDESCRIPTION:Bring the card.\\nThe x-rays of\n  last year too.\n\
             BEGIN:VALARM\nDESCRIPTION:Reminder\nEND:VALARM\nEND:VEVENT\nEND:VCALENDAR\n";
        let read = document("ics", text);
        assert_eq!(
            read.text,
            "Dentist, check-up; when: 2026-03-01 09:00 – 10:00 (Europe/Berlin); where: Main Street 5; \
             who: w@x, Diaz: Ana.\n\nBring the card.\nThe x-rays of last year too."
        );
        assert_eq!(read.title.as_deref(), Some("Dentist, check-up"));
        assert_eq!(read.date.as_deref(), Some("2026-03-01"));
        let days = "BEGIN:VEVENT\nSUMMARY:Fair\nDTSTART;VALUE=DATE:20260305\nDTEND;VALUE=DATE:20260308\n\
                    RRULE:FREQ=YEARLY\nSTATUS:CANCELLED\n";
        let days =
            document("ics", &format!("{days}BEGIN:VTODO\nSUMMARY:Pay\nDUE:20260309T120000Z\n"));
        assert_eq!(
            days.text,
            "Fair; when: 2026-03-05 – 2026-03-07; repeats: yearly; status: cancelled.\n\nPay; due: 2026-03-09 12:00 UTC."
        );
        assert_eq!(
            document("ics", "BEGIN:VEVENT\nCATEGORIES:Private\nSUMMARY:x\n").publish,
            Some(false)
        );
    }

    #[test]
    fn a_time_that_is_none_is_shown_as_it_is_written() {
        let when = |begin: &str, end: &str| {
            let text = format!("BEGIN:VEVENT\nSUMMARY:x\nDTSTART:{begin}\nDTEND:{end}\n");
            document("ics", &text).text
        };
        for (begin, end, expected) in [
            ("aaaaaaaaaé1", "x", "x; when: aaaaaaaaaé1 – x."),
            ("é", "éé", "x; when: é – éé."),
            ("20260301T090000", "later", "x; when: 2026-03-01 09:00 – later."),
            ("20260301", "20260301T100000", "x; when: 2026-03-01 – 2026-03-01 10:00."),
            ("20260301T09", "20260301T100000", "x; when: 2026-03-01 – 2026-03-01 10:00."),
            ("20260301T090000", "20260301T100000", "x; when: 2026-03-01 09:00 – 10:00."),
            (
                "20260301T090000Z",
                "20260301T100000",
                "x; when: 2026-03-01 09:00 UTC – 2026-03-01 10:00.",
            ),
            (
                "20260301T090000",
                "20260301T100000Z",
                "x; when: 2026-03-01 09:00 – 2026-03-01 10:00 UTC.",
            ),
        ] {
            assert_eq!(when(begin, end), expected);
        }
        let person = "BEGIN:VEVENT\nSUMMARY:x\nATTENDEE:mailtéx\nEND:VEVENT\n";
        assert_eq!(document("ics", person).text, "x; who: mailtéx.");
    }

    #[test]
    fn a_contact_is_a_sentence_without_its_picture() {
        let text = "BEGIN:VCARD\nVERSION:3.0\nN:Diaz;Ana;;;\nFN:Ana Diaz\nORG:Pumps Ltd;Sales\n\
             item1.TEL;TYPE=CELL:+49 170\nADR:;;Main Street 5;Lima;;15001;Peru\nNOTE:Met at the fair\\; wants an offer.\n\
             PHOTO;ENCODING=b:/9j/\n AAQ\nEND:VCARD\n\
             BEGIN:VCARD\nVERSION:2.1\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:Mu=C3=B1=\noz;Eva\nEND:VCARD\n";
        assert_eq!(
            document("vcf", text).text,
            "Ana Diaz; organization: Pumps Ltd, Sales; phone: +49 170; address: Main Street 5, Lima, 15001, Peru.\n\n\
             Met at the fair; wants an offer.\n\nMuñoz, Eva."
        );
    }

    #[test]
    fn an_entry_is_told_in_words_and_not_in_those_of_the_format() {
        let told = |part: &str, lines: &str| {
            document("ics", &format!("BEGIN:{part}\nSUMMARY:Pay\n{lines}\nEND:{part}\n")).text
        };
        for (part, lines, expected) in [
            ("VTODO", "STATUS:NEEDS-ACTION", "Pay."),
            ("VTODO", "STATUS:IN-PROCESS", "Pay; status: in progress."),
            ("VTODO", "STATUS:COMPLETED", "Done: Pay."),
            ("VTODO", "COMPLETED:20260301T090000Z", "Done: Pay."),
            ("VTODO", "PERCENT-COMPLETE:100", "Done: Pay."),
            ("VEVENT", "STATUS:CANCELLED", "Pay; status: cancelled."),
            (
                "VEVENT",
                "RRULE:FREQ=WEEKLY;BYDAY=MO,WE",
                "Pay; repeats: weekly on Monday and Wednesday.",
            ),
            ("VEVENT", "RRULE:FREQ=HOURLY", "Pay; repeats: yes."),
            (
                "VEVENT",
                "RRULE:FREQ=DAILY\nEXDATE:20260301T090000Z,20260303T090000Z",
                "Pay; repeats: daily; except: 2026-03-01, 2026-03-03.",
            ),
            (
                "VEVENT",
                "RECURRENCE-ID:20260301T090000Z",
                "Pay; in its series in the place of: 2026-03-01 09:00 UTC.",
            ),
            (
                "VCARD",
                "TEL;VALUE=uri:tel:+34 600\nEMAIL:MAILTO:a@x",
                "Pay; phone: +34 600; e-mail: a@x.",
            ),
        ] {
            assert_eq!(told(part, lines), expected, "{lines}");
        }
        let date = |start: &str| {
            document("ics", &format!("BEGIN:VEVENT\nSUMMARY:x\nDTSTART:{start}\n")).date
        };
        assert_eq!(date("20260301T233000Z").as_deref(), Some("2026-03-01T23:30:00Z"));
        assert_eq!(date("20260301T233000").as_deref(), Some("2026-03-01"));
        assert_eq!(date("20260301").as_deref(), Some("2026-03-01"));
    }

    #[test]
    fn quoted_texts_keep_their_blanks_and_their_characters() {
        let text = "BEGIN:VCARD\nFN:Eva\nNOTE;CHARSET=windows-1251;ENCODING=QUOTED-PRINTABLE:=C4=E0=\n =C4=E0\n\
                    NOTE;ENCODING=QUOTED-PRINTABLE:She sells=\n pumps=\n.\nEND:VCARD\n";
        assert_eq!(document("vcf", text).text, "Eva.\n\nДа Да\n\nShe sells pumps.");
        let folded =
            "BEGIN:VCARD\nFN:Eva\nNOTE;ENCODING=\n QUOTED-PRINTABLE:caf=C3=\n=A9\nEND:VCARD\n";
        assert_eq!(document("vcf", folded).text, "Eva.\n\ncafé");
    }
}
