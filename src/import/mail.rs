//! Mail to events: one `.eml` file is one message, one `.mbox` file is many.
//!
//! An attachment that the program can read becomes an event beside the mail; other attachments are named. See
//! docs/adr/0122-what-is-attached-to-a-mail.md.

use std::io;
use std::path::Path;

use chrono_tz::Tz;
use serde_json::{Value, json};

use super::fields::{note_time, time};
use super::kind::FileKind;
use super::read::Readers;
use super::{
    ImportError, LeftOut, NewRecord, Report, TakeEvent, Target, disk_error, import_events, read,
};
use crate::contract::hash::sha256;
use crate::contract::privacy::LOCAL_ONLY;
use crate::contract::publish::together;
use crate::contract::source::TimePrecision;
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::Timestamp;
use crate::markup::document::Document;
use crate::markup::mail::{self, Attachment, Mail};
use crate::markup::members::{add_people, file_under, people_of};
use crate::os::{Disk, Open};
use crate::upstream::context::author_of;
use crate::upstream::dated;
use crate::upstream::lines::Lines;
use crate::upstream::moment::Moment;

/// Largest mail, with everything attached to it.
const MAIL_BYTES_MAX: usize = 256 << 20;
/// Longest text of one event. A table may be much longer than its file, because each row has the names of its
/// columns.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// Mails attached to mails attached to mails.
const MAILS_IN_MAILS_MAX: usize = 8;

/// Imports one file of a folder, holding one mail and some text at a time, however large the file is.
pub(crate) fn import_file(
    target: Target<'_>,
    readers: &Readers,
    (file, folder): (&Path, Option<&str>),
    report: &mut Report,
) -> Result<(), ImportError> {
    import_events(target, (file, folder), report, |name, take| {
        each_event(target.disk, target.zone, readers, file, name, take)
    })
}

/// Calls the function for each mail of a file in order, or with the reason why a part is not a mail. `uri` is
/// the name that a person gives the file.
pub(super) fn each_event(
    disk: &dyn Disk,
    zone: Tz,
    readers: &Readers,
    file: &Path,
    uri: &str,
    take: &mut TakeEvent<'_>,
) -> Result<(), ImportError> {
    let mut mailbox = Mailbox::open(disk, file).map_err(disk_error("read", file))?;
    let mut number = 0;
    while let Some(message) = mailbox.message().map_err(disk_error("read", file))? {
        number += 1;
        let found = read::guarded(|| Ok(found_in(readers, uri, &message, zone)));
        let found = found.unwrap_or_else(|why| vec![Err(LeftOut::Unread(why))]);
        found.into_iter().try_for_each(|found| take(number, found))?;
    }
    Ok(())
}

/// One mail of a file.
struct Message {
    /// What stands before it in a mailbox.
    separator: Option<Vec<u8>>,
    bytes: Vec<u8>,
    too_large: bool,
}

/// The messages of an mbox file; anything else is one message.
struct Mailbox {
    lines: Lines,
    begun: bool,
    ended: bool,
    many: bool,
    separator: Option<Vec<u8>>,
}

impl Mailbox {
    fn open(disk: &dyn Disk, file: &Path) -> io::Result<Mailbox> {
        let file = disk.open(file, Open::Read)?;
        let len = file.stat()?.len;
        let lines = Lines::new(file, len);
        Ok(Mailbox { lines, begun: false, ended: false, many: false, separator: None })
    }

    fn message(&mut self) -> io::Result<Option<Message>> {
        let separator = self.separator.take();
        let mut message = Message { separator, bytes: Vec::new(), too_large: false };
        let mut after_blank = true;
        while let Some((_, line)) = self.lines.next_line()? {
            if !self.begun {
                self.begun = true;
                self.many = line.starts_with(b"From ");
                if self.many {
                    message.separator = Some(line.to_vec());
                    continue;
                }
            }
            if self.many && after_blank && line.starts_with(b"From ") {
                self.separator = Some(line.to_vec());
                return Ok(Some(message));
            }
            after_blank = line.iter().all(u8::is_ascii_whitespace);
            // Senders quote a body line that begins like a separator.
            let quoted = self.many && is_quoted_separator(line);
            let line = if quoted { &line[1..] } else { line };
            message.too_large |= message.bytes.len() + line.len() > MAIL_BYTES_MAX;
            if !message.too_large {
                message.bytes.extend_from_slice(line);
                message.bytes.push(b'\n');
            }
        }
        let last = self.begun && !self.ended;
        self.ended = true;
        Ok(last.then_some(message))
    }
}

/// The time a separator names: when the mail came, where the mail itself does not say.
fn came_at(separator: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(separator).ok()?;
    let words: Vec<&str> = text.split_whitespace().skip(2).collect();
    let text = words.join(" ");
    let zoned = chrono::DateTime::parse_from_str(&text, "%a %b %d %H:%M:%S %z %Y");
    let plain = chrono::NaiveDateTime::parse_from_str(&text, "%a %b %d %H:%M:%S %Y");
    let ms = zoned.map(|at| at.timestamp_millis());
    ms.or(plain.map(|at| at.and_utc().timestamp_millis())).ok().map(Timestamp)
}

/// True for `>From `, `>>From ` and so on.
fn is_quoted_separator(line: &[u8]) -> bool {
    let depth = line.iter().take_while(|byte| **byte == b'>').count();
    depth > 0 && line[depth..].starts_with(b"From ")
}

/// The mail as an event, and what is attached to it.
fn found_in(
    readers: &Readers,
    file: &str,
    message: &Message,
    zone: Tz,
) -> Vec<Result<(Timestamp, NewRecord), LeftOut>> {
    let unread = |why: &str| vec![Err(LeftOut::Unread(why.to_owned()))];
    if message.too_large {
        return unread("too large for a mail");
    }
    let Some(mail) = mail::read(&message.bytes) else { return unread("not a mail message") };
    let came_at = || came_at(message.separator.as_deref()?);
    let Some(at) = date_of(&mail, zone).or_else(came_at).filter(|at| at.0 >= 0) else {
        let mut found = unread("no date that can be read");
        // The mail itself may be read as a document, and what is attached to it is not.
        let attached = mail.attachments.iter().map(shown_name);
        let named = attached.map(|name| format!("{name} (of a mail without a date)"));
        found.extend(named.map(|what| Err(LeftOut::Attachment(what))));
        return found;
    };
    let mut reading = Reading { readers, file, zone, found: Vec::new(), not_read: Vec::new() };
    reading.mail(&mail, &message.bytes, at, None, 0);
    let Reading { mut found, not_read, .. } = reading;
    if !found.is_empty() {
        found.extend(not_read.into_iter().map(|what| Err(LeftOut::Attachment(what))));
        return found;
    }
    let why = match not_read.is_empty() {
        true => "no text".to_owned(),
        false => format!("no text: not read: {}", not_read.join(", ")),
    };
    vec![Err(LeftOut::NoText(why))]
}

/// When a mail was written. A time without an offset is on the clock of the zone.
fn date_of(mail: &Mail, zone: Tz) -> Option<Timestamp> {
    time(&Value::from(mail.date.as_deref()?), zone)
}

/// What was found in one mail so far.
struct Reading<'a> {
    readers: &'a Readers,
    file: &'a str,
    zone: Tz,
    found: Vec<Result<(Timestamp, NewRecord), LeftOut>>,
    /// What has no reader, each with the reason.
    not_read: Vec<String>,
}

impl Reading<'_> {
    /// `around` is what the mail around this one says of being shown.
    fn mail(
        &mut self,
        mail: &Mail,
        bytes: &[u8],
        at: Timestamp,
        around: Option<bool>,
        depth: usize,
    ) {
        let message_id = mail.message_id.clone().unwrap_or_else(|| sha256(bytes).hex());
        let publish = together([mail.publish, around]);
        let event = Event {
            file: self.file,
            zone: self.zone,
            message_id: &message_id,
            mail,
            at,
            publish,
            depth,
        };
        // Files are read as files, and not as the body of the mail that has only them.
        let has_text =
            mail.shows_text || mail.attachments.is_empty() && !mail.body.trim().is_empty();
        if has_text && mail.body.len() > TEXT_BYTES_MAX {
            self.found.push(Err(LeftOut::Unread(too_long())));
        } else if has_text {
            self.found.push(Ok(event.record(&mail.body, None)));
        }
        for (number, one) in mail.attachments.iter().enumerate() {
            let Some(content) = one.content(bytes) else {
                self.leave_out(one, one.media_type.split('/').next().unwrap_or_default());
                continue;
            };
            let name = file_name(one);
            let kind = read::kind_of(&name, &content);
            // A mail may come under any type.
            if one.is_mail() || kind == Ok(FileKind::Mail) {
                self.attached_mail(one, &content, (at, publish), depth);
                continue;
            }
            let read = kind.and_then(|kind| {
                read::attached(self.readers, kind, &name, &content, TEXT_BYTES_MAX)
            });
            match read {
                Ok(mut document) => {
                    dated::set_heads(std::slice::from_mut(&mut document), &name);
                    let attached = Some((number, shown_name(one), &document));
                    self.found.push(Ok(event.record(&document.text, attached)));
                }
                Err(why) => self.leave_out(one, &why),
            }
        }
    }

    /// A mail that is attached, with the time and the mark of the mail around it.
    fn attached_mail(
        &mut self,
        one: &Attachment,
        content: &[u8],
        (at, around): (Timestamp, Option<bool>),
        depth: usize,
    ) {
        match mail::read(content) {
            _ if depth == MAILS_IN_MAILS_MAX => {
                self.leave_out(one, &format!("a mail below {MAILS_IN_MAILS_MAX} others"));
            }
            Some(inner) => {
                let at = date_of(&inner, self.zone).unwrap_or(at);
                self.mail(&inner, content, at, around, depth + 1);
            }
            None => self.leave_out(one, "not a mail message"),
        }
    }

    fn leave_out(&mut self, one: &Attachment, why: &str) {
        self.not_read.push(format!("{} ({why})", shown_name(one)));
    }
}

fn too_long() -> String {
    format!("its text is longer than {} MiB: save it as a file", TEXT_BYTES_MAX >> 20)
}

/// The name a person knows an attachment by.
fn shown_name(one: &Attachment) -> &str {
    one.name.as_deref().unwrap_or(&one.media_type)
}

/// The name that says how an attachment is read: its own, or one made from its type.
fn file_name(one: &Attachment) -> String {
    let name = one.name.clone().unwrap_or_else(|| "attached".to_owned());
    let end = match one.media_type.as_str() {
        "text/markdown" => "md",
        "text/html" => "html",
        "text/csv" => "csv",
        "text/tab-separated-values" => "tsv",
        "text/calendar" => "ics",
        "text/vcard" | "text/x-vcard" => "vcf",
        "application/json" => "json",
        _ => "txt",
    };
    if name.contains('.') { name } else { format!("{name}.{end}") }
}

/// What the events of one mail have in common.
struct Event<'a> {
    file: &'a str,
    zone: Tz,
    message_id: &'a str,
    mail: &'a Mail,
    at: Timestamp,
    publish: Option<bool>,
    /// Mails around it.
    depth: usize,
}

impl Event<'_> {
    /// The event of the mail, or of what is attached to it: its number, its name and its text.
    fn record(
        &self,
        content: &str,
        attached: Option<(usize, &str, &Document)>,
    ) -> (Timestamp, NewRecord) {
        let number = attached.map(|(number, ..)| number.to_string());
        let mut parts = vec![
            Part::Text("event"),
            Part::Text("source:mail"),
            Part::Labelled("message", self.message_id),
        ];
        parts.extend(number.as_deref().map(|number| Part::Labelled("attachment", number)));
        let id = stable_id("evt", &parts);
        let mut members = self.mail.members();
        // The id stands in `source`.
        members.remove("message_id");
        let mut publish = self.publish;
        if let Some((_, name, document)) = attached {
            let title = self.mail.subject.as_deref().map(|subject| format!("{subject} › {name}"));
            let title = document.title.clone().or(title).unwrap_or_else(|| name.to_owned());
            members.insert("title".to_owned(), title.into());
            members.insert("file_name".to_owned(), name.into());
            // The sender of the mail wrote what does not say who wrote it.
            let author = author_of(&document.members);
            members.extend(author.map(|author| ("author".to_owned(), author.shown().into())));
            add_people(&mut members, people_of(&document.members));
            if !document.labels.is_empty() {
                members.insert("labels".to_owned(), json!(document.labels));
            }
            file_under(&mut members, document.filed_under());
            publish = together([publish, document.publish]);
            if document.is_local_only() {
                members.insert(LOCAL_ONLY.to_owned(), true.into());
            }
        }
        let mut value = json!({
            "schema_version": "event.v1",
            "event_id": id,
            "timestamp_ms": self.at.0,
            "content": content,
            "event_kind": "external_observation",
            "event_subkind": "other",
            "source": {
                "source_system": "mail", "source_record_id": self.message_id,
                "source_uri": self.file,
            },
        });
        if let Some(publish) = publish {
            value["publish"] = json!(publish);
        }
        for (name, found) in members {
            value[name] = found;
        }
        // What is attached is of its own day, where it says one.
        let own = attached.and_then(|(_, _, document)| document.date.as_deref()).map(Value::from);
        let own = own.and_then(|own| Some((time(&own, self.zone)?, own)));
        if let Some((at, written)) = own {
            note_time(&mut value, at, Some(&written));
            return (at, NewRecord { order: at.0, id, value });
        }
        // A date before 1970 is no time of an event.
        let written = date_of(self.mail, self.zone).and(self.mail.date.as_deref()).map(Value::from);
        match written.as_ref().and_then(|written| Moment::read(written, self.zone)) {
            Some(Moment::At(_)) => {}
            Some(Moment::Local(_) | Moment::Day(_)) => {
                note_time(&mut value, self.at, written.as_ref());
            }
            None => {
                // What the header says is no time.
                value.as_object_mut().and_then(|value| value.remove("timestamp"));
                // It lies on the day of the mail around it, and nobody knows when it was written.
                if self.depth > 0 {
                    let (name, word) = TimePrecision::UNKNOWN;
                    value[name] = word.into();
                }
            }
        }
        (self.at, NewRecord { order: self.at.0, id, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    /// More mails than are held at once, without ids, without readable dates, twice, quoted, with
    /// broken parts and foreign charsets.
    #[test]
    fn a_mailbox_is_read_mail_by_mail_and_all_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, root) = (dir.path().join("box.mbox"), dir.path().join("buses"));
        let mut text = Vec::new();
        for number in 0..60 {
            text.extend(format!("From a@x Mon Feb  9 10:00:{number:02} 2026\r\n").bytes());
            text.extend(
                match number % 3 {
                    0 => format!("Message-ID: <{number}@x>\r\nSubject: {number}\r\nDate: ?\r\n"),
                    1 => "Subject: no id\r\nDate: Mon, 9 Feb 2026 11:00:00 +0000\r\n".to_owned(),
                    _ => format!(
                        "Message-ID: <{number}@x>\r\nContent-Type: multipart/mixed; boundary=b\r\n"
                    ),
                }
                .bytes(),
            );
            text.extend_from_slice(
                b"\r\n--b\r\n\r\ncaf\xe9\r\n>From here on\r\n>>From there\r\n\r\n",
            );
        }
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&file, &text, 0o640).unwrap();
        let target = Target { disk, root: &root, zone: chrono_tz::UTC, now: Timestamp(0) };
        let mut report = Report::default();
        import_file(target, &Readers::default(), (&file, None), &mut report).unwrap();
        assert_eq!(report.rejected, []);
        // Those without an id are the same mail.
        assert_eq!((report.added, report.known), (41, 19));
        assert_eq!(report.partitions, ["eventbus/daily/2026-02-09.jsonl"]);
        let data = disk.read(&root.join("eventbus/daily/2026-02-09.jsonl")).unwrap();
        let data = String::from_utf8(data).unwrap();
        assert!(
            data.contains("\\nFrom here on\\r\\n>From there")
                || data.contains("\\nFrom here on\\n>From there"),
            "{data}"
        );
        let mut again = Report::default();
        import_file(target, &Readers::default(), (&file, None), &mut again).unwrap();
        assert_eq!((again.added, again.known), (0, 60));
    }

    #[test]
    fn a_mail_without_an_offset_is_on_the_clock_of_the_zone_and_says_so() {
        let event = |date: &str| {
            let text =
                format!("Message-ID: <1@x>\r\nFrom: a@x\r\nDate: {date}\r\n\r\nWe meet.\r\n");
            let message = Message { separator: None, bytes: text.into_bytes(), too_large: false };
            let zone = chrono_tz::America::Bogota;
            let found = found_in(&Readers::default(), "a.eml", &message, zone);
            let (at, record) = found.into_iter().next().unwrap().unwrap();
            let word = |name: &str| record.value[name].as_str().map(str::to_owned);
            (at.0, word("timestamp"), word("ts_precision"), word("date"))
        };
        let some = |text: &str| Some(text.to_owned());
        // Ten in the morning in Bogotá, and in UTC.
        let (there, utc) = (1_770_649_200_000, 1_770_631_200_000);
        for date in [
            "Mon, 9 Feb 2026 10:00:00",
            "9 Feb 2026 10:00:00",
            "Mon, 9 Feb 2026 10:00:00 CET",
            "Mon Feb  9 10:00:00 2026",
            "2026-02-09 10:00:00",
            "2026-02-09T10:00:00",
        ] {
            assert_eq!(
                event(date),
                (there, some("2026-02-09T10:00:00"), some("local"), None),
                "{date}"
            );
        }
        for date in [
            "Mon, 9 Feb 2026 10:00:00 +0000",
            "Mon, 9 Feb 2026 10:00:00 GMT",
            "Mon, 9 Feb 2026 05:00:00 -0500 (COT)",
            "Mon, 9 Feb 2026 05:00:00 EST",
            "2026-02-09T10:00:00Z",
            "Mon, 9 Feb 2026 11:00:00 +0100 CET",
        ] {
            let (at, timestamp, precision, day) = event(date);
            let time = chrono::DateTime::parse_from_rfc3339(&timestamp.unwrap()).unwrap();
            assert_eq!(
                (at, time.timestamp_millis(), precision, day),
                (utc, utc, None, None),
                "{date}"
            );
        }
        let noon = 1_770_638_400_000;
        assert_eq!(event("2026-02-09"), (noon, None, None, some("2026-02-09")));
    }

    #[test]
    fn a_date_before_1970_is_no_time_of_a_mail() {
        let text = "Message-ID: <1@x>\r\nDate: Wed, 31 Dec 1969 23:59:59 +0000\r\n\r\nWe meet.\r\n";
        let separator = Some(b"From a@x Mon Feb  9 10:00:00 2026".to_vec());
        let message = Message { separator, bytes: text.into(), too_large: false };
        let found = found_in(&Readers::default(), "a.mbox", &message, chrono_tz::UTC);
        let (at, record) = found.into_iter().next().unwrap().unwrap();
        assert_eq!((at.0, &record.value["timestamp"]), (1_770_631_200_000, &Value::Null));
        let inner = format!("Message-ID: <2@x>\r\n{text}");
        let found = records_of(&[("Content-Type: message/rfc822", &inner)]);
        let (_, record) = found.into_iter().next().unwrap().unwrap();
        assert_eq!(
            (&record.value["timestamp"], &record.value["ts_precision"]),
            (&Value::Null, &json!(TimePrecision::UNKNOWN.1))
        );
    }

    /// What is found in a mail of parts.
    fn records_of(parts: &[(&str, &str)]) -> Vec<Result<(Timestamp, NewRecord), LeftOut>> {
        let head = "Message-ID: <1@x>\r\nFrom: a@x\r\nSubject: Minutes\r\nDate: Mon, 9 Feb 2026 10:00:00 +0000\r\n";
        let mut text = format!("{head}Content-Type: multipart/mixed; boundary=b\r\n\r\n");
        for (headers, content) in parts {
            text.push_str(&format!("--b\r\n{headers}\r\n\r\n{content}\r\n"));
        }
        text.push_str("--b--\r\n");
        let message = Message { separator: None, bytes: text.into_bytes(), too_large: false };
        let print = ["cat", "{}"].map(str::to_owned).to_vec();
        found_in(&Readers { pdf: print }, "a.eml", &message, chrono_tz::UTC)
    }

    /// What a mail of parts gives: each text under its title, and what was left out.
    fn taken(parts: &[(&str, &str)]) -> (Vec<(String, String)>, Vec<String>) {
        let (mut texts, mut left) = (Vec::new(), Vec::new());
        for found in records_of(parts) {
            match found {
                Ok((_, record)) => {
                    let word = |name: &str| record.value[name].as_str().unwrap().trim().to_owned();
                    texts.push((word("title"), word("content")));
                }
                Err(why) => left.push(format!("{why:?}")),
            }
        }
        (texts, left)
    }

    const PHOTO: (&str, &str) =
        ("Content-Type: image/jpeg\r\nContent-Disposition: attachment; filename=p.jpg", "/9j/");

    #[test]
    fn texts_attached_to_a_mail_are_read_beside_it_and_the_rest_is_named() {
        let attached = |of_type: &str, name: &str| {
            format!("Content-Type: {of_type}\r\nContent-Disposition: attachment; filename={name}")
        };
        let event = "BEGIN:VEVENT\r\nSUMMARY:Pump\r\nDTSTART:20260301T090000Z\r\nEND:VEVENT";
        let inner =
            "Message-ID: <2@x>\r\nFrom: t@x\r\nSubject: Offer\r\n\r\nTwo years of warranty.";
        let (texts, left) = taken(&[
            ("Content-Type: text/plain", "The minutes are attached."),
            (&attached("text/markdown", "m.md"), "---\ntitle: M\n---\nWe buy a pump."),
            (&attached("text/html", "p.html"), "<p>It costs 240 euros.</p>"),
            (&attached("text/csv", "l.csv"), "Item,Price\r\nPump,240"),
            ("Content-Type: text/calendar; name=i.ics", event),
            ("Content-Type: message/rfc822", inner),
            ("Content-Type: image/png\r\nContent-ID: <logo>", "iVBO"),
            ("Content-Type: application/pgp-signature; name=s.asc", "abc"),
            (&attached("application/pdf", "r.pdf"), "%PDF-1.4 The pump is paid."),
            (&attached("application/pdf", "scan.pdf"), "%PDF-1.4"),
            PHOTO,
        ]);
        let texts: Vec<_> = texts.iter().map(|(title, text)| (&title[..], &text[..])).collect();
        assert_eq!(
            texts,
            [
                ("Minutes", "The minutes are attached."),
                ("M", "We buy a pump."),
                ("Minutes › p.html", "It costs 240 euros."),
                ("Minutes › l.csv", "Item: Pump; Price: 240."),
                ("Pump", "Pump; when: 2026-03-01 09:00 UTC."),
                ("Offer", "Two years of warranty."),
                ("Minutes › r.pdf", "%PDF-1.4 The pump is paid."),
            ]
        );
        let pdf = "Attachment(\"scan.pdf (it has pictures but no text)\")";
        assert_eq!(left, [pdf, "Attachment(\"p.jpg (image)\")"]);
    }

    #[test]
    fn what_is_attached_stays_on_this_machine_where_it_says_so() {
        for (name, content, expected) in [
            ("m.md", "---\nlocal_only: true\n---\nThe key is under the mat.", true),
            ("m.md", "---\nlocal_only: no\n---\nThe key is under the mat.", false),
            ("m.csv", "text,local_only\nOne,\nTwo,yes\n", true),
            ("m.json", "[{\"text\": \"One\"}, {\"text\": \"Two\", \"local_only\": true}]", true),
            ("m.json", "{\"notes\": [{\"text\": \"One\", \"local_only\": true}]}", true),
        ] {
            let headers = format!("Content-Disposition: attachment; filename={name}");
            let records = records_of(&[(&headers, content)]);
            let said: Vec<_> = records.into_iter().flatten().collect();
            assert_eq!(said.len(), 1, "{name}");
            assert_eq!(said[0].1.value["local_only"] == true, expected, "{name}: {content}");
        }
    }

    #[test]
    fn mails_are_read_under_any_type_and_as_deep_as_the_limit() {
        let inner = "Message-ID: <2@x>\r\nFrom: t@x\r\nSubject: Offer\r\n\r\nTwo years.";
        let octets = "Content-Type: application/octet-stream; name=offer.eml\r\nContent-Disposition: attachment";
        let offer = ("Offer".to_owned(), "Two years.".to_owned());
        assert_eq!(taken(&[(octets, inner)]), (vec![offer.clone()], Vec::new()));
        let bounce = "Content-Type: message/delivery-status";
        let reported =
            [(bounce, "Reporting-MTA: dns; x\r\n"), ("Content-Type: message/rfc822", inner)];
        assert_eq!(taken(&reported), (vec![offer], Vec::new()));
        let mut mail = inner.to_owned();
        for number in 0..MAILS_IN_MAILS_MAX + 1 {
            mail = format!(
                "Message-ID: <o{number}@x>\r\nFrom: t@x\r\nSubject: {number}\r\nContent-Type: multipart/mixed; boundary=c{number}\r\n\r\n\
                 --c{number}\r\n\r\nText {number}\r\n--c{number}\r\nContent-Type: message/rfc822; name=i.eml\r\n\r\n{mail}\r\n--c{number}--"
            );
        }
        let (texts, left) = taken(&[("Content-Type: message/rfc822", &mail)]);
        assert_eq!(texts.len(), MAILS_IN_MAILS_MAX);
        assert_eq!(left, ["Attachment(\"i.eml (a mail below 8 others)\")"]);
    }

    #[test]
    fn what_is_attached_to_a_draft_is_named() {
        let raw = "From: a@x\r\nSubject: d\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nText\r\n--b\r\nContent-Type: text/x; name=m.md\r\n\r\nMore\r\n--b--";
        let message = Message { separator: None, bytes: raw.into(), too_large: false };
        let found: Vec<_> = found_in(&Readers::default(), "a.eml", &message, chrono_tz::UTC)
            .into_iter()
            .map(Result::unwrap_err)
            .collect();
        let expected = [
            LeftOut::Unread("no date that can be read".to_owned()),
            LeftOut::Attachment("m.md (of a mail without a date)".to_owned()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_mail_without_a_text_is_left_out_with_the_reason() {
        let why = "NoText(\"no text: not read: p.jpg (image)\")";
        assert_eq!(taken(&[PHOTO]), (Vec::new(), vec![why.to_owned()]));
        let empty = ("Content-Type: text/plain", " ");
        assert_eq!(taken(&[empty]), (Vec::new(), vec!["NoText(\"no text\")".to_owned()]));
        // Another version of a text that is shown does not count as an attachment.
        let page = "Content-Type: multipart/alternative; boundary=c";
        let both = "--c\r\nContent-Type: text/plain\r\n\r\nCome at nine.\r\n--c\r\nContent-Type: text/calendar\r\n\r\nBEGIN:VEVENT\r\n--c--";
        let shown = ("Minutes".to_owned(), "Come at nine.".to_owned());
        assert_eq!(taken(&[(page, both)]), (vec![shown], Vec::new()));
    }
}
