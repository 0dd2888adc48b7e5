//! Mail to events: one `.eml` file is one message, one `.mbox` file is many.

use std::io;
use std::path::Path;

use serde_json::json;

use super::{ImportError, NewRecord, Report, TakeEvent, Target, disk_error, import_events};
use crate::contract::hash::sha256;
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::Timestamp;
use crate::markup;
use crate::os::{Disk, Open};
use crate::upstream::lines::Lines;

/// Largest mail, with everything attached to it.
const MAIL_BYTES_MAX: usize = 256 << 20;

/// Imports one file, holding one mail and some text at a time, however large the file is.
pub(crate) fn import_file(
    target: Target<'_>,
    file: &Path,
    report: &mut Report,
) -> Result<(), ImportError> {
    import_events(target, file, report, |name, take| each_event(target.disk, file, name, take))
}

/// Hands over each mail of a file in order, or the reason why a part is no mail. `uri` is the name a person gives
/// the file.
pub(super) fn each_event(
    disk: &dyn Disk,
    file: &Path,
    uri: &str,
    take: &mut TakeEvent<'_>,
) -> Result<(), ImportError> {
    let mut mailbox = Mailbox::open(disk, file).map_err(disk_error("read", file))?;
    let mut number = 0;
    while let Some(message) = mailbox.message().map_err(disk_error("read", file))? {
        number += 1;
        take(number, event(uri, &message).map_err(str::to_owned))?;
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

fn event(file: &str, message: &Message) -> Result<(Timestamp, NewRecord), &'static str> {
    if message.too_large {
        return Err("too large for a mail");
    }
    let mail = markup::mail::read(&message.bytes).ok_or("not a mail message")?;
    let at = mail.date_ms.map(Timestamp).or_else(|| came_at(message.separator.as_deref()?));
    let at = at.filter(|at| at.0 >= 0).ok_or("no date that can be read")?;
    let message_id = mail.message_id.clone().unwrap_or_else(|| sha256(&message.bytes).hex());
    let parts =
        [Part::Text("event"), Part::Text("source:mail"), Part::Labelled("message", &message_id)];
    let id = stable_id("evt", &parts);
    let mut members = mail.members();
    // The id stands in `source`.
    members.remove("message_id");
    let mut value = json!({
        "schema_version": "event.v1",
        "event_id": id,
        "timestamp_ms": at.0,
        "content": mail.body,
        "event_kind": "external_observation",
        "event_subkind": "other",
        "source": {"source_system": "mail", "source_record_id": message_id, "source_uri": file},
    });
    if let Some(publish) = mail.publish {
        value["publish"] = json!(publish);
    }
    for (name, found) in members {
        value[name] = found;
    }
    Ok((at, NewRecord { order: at.0, id, value }))
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
        import_file(target, &file, &mut report).unwrap();
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
        import_file(target, &file, &mut again).unwrap();
        assert_eq!((again.added, again.known), (0, 60));
    }
}
