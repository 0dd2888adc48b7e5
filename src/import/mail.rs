//! Mail to events: one `.eml` file is one message, one `.mbox` file is many.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::{ImportError, NewRecord, Rejected, Report, Target, append_events, disk_error};
use crate::contract::hash::sha256;
use crate::contract::stable_id::{Part, stable_id};
use crate::contract::time::{Day, Timestamp};
use crate::upstream::markup::mail_to_text;

/// Imports one file.
pub fn import_file(
    target: Target<'_>,
    file: &Path,
    report: &mut Report,
) -> Result<(), ImportError> {
    let bytes = target.disk.read(file).map_err(disk_error("read", file))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    report.files += 1;
    let mut days: BTreeMap<Day, Vec<NewRecord>> = BTreeMap::new();
    for (number, message) in (1..).zip(messages(&bytes)) {
        match event(&name, &message) {
            Ok((at, record)) => days.entry(at.day_in(target.zone)).or_default().push(record),
            Err(why) => {
                report.rejected.push(Rejected { file: name.clone(), number, why: why.to_owned() });
            }
        }
    }
    append_events(target, days, report)
}

/// The messages of an mbox file; anything else is one message.
fn messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    if !bytes.starts_with(b"From ") {
        return vec![bytes.to_vec()];
    }
    let mut messages: Vec<Vec<u8>> = Vec::new();
    let mut after_blank = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if after_blank && line.starts_with(b"From ") {
            messages.push(Vec::new());
        } else if let Some(message) = messages.last_mut() {
            // Senders quote a body line that begins like a separator.
            let quoted = is_quoted_separator(line);
            message.extend_from_slice(if quoted { &line[1..] } else { line });
        }
        after_blank = line.iter().all(u8::is_ascii_whitespace);
    }
    messages
}

/// True for `>From `, `>>From ` and so on.
fn is_quoted_separator(line: &[u8]) -> bool {
    let depth = line.iter().take_while(|byte| **byte == b'>').count();
    depth > 0 && line[depth..].starts_with(b"From ")
}

fn event(file: &str, message: &[u8]) -> Result<(Timestamp, NewRecord), &'static str> {
    let mail = mail_to_text(message).ok_or("not a mail message")?;
    let at = mail.date_ms.filter(|ms| *ms >= 0).map(Timestamp).ok_or("no date that can be read")?;
    let message_id = mail.message_id.clone().unwrap_or_else(|| sha256(message).hex());
    let parts =
        [Part::Text("event"), Part::Text("source:mail"), Part::Labelled("message", &message_id)];
    let id = stable_id("evt", &parts);
    let mut value = json!({
        "schema_version": "event.v1",
        "event_id": id,
        "timestamp_ms": at.0,
        "content": mail.text(),
        "event_kind": "external_observation",
        "event_subkind": "other",
        "source": {"source_system": "mail", "source_record_id": message_id, "source_uri": file},
    });
    for (key, found) in [("title", mail.subject), ("conversation_id", mail.thread_id)] {
        if let Some(found) = found {
            value[key] = json!(found);
        }
    }
    Ok((at, NewRecord { order: at.0, id, value }))
}
