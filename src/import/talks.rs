//! Files of messages between people: which reader takes which.

use serde_json::Value;

use super::chats::{Beside, Conversation};
use super::collect::NamedFile;
use super::kind::{FileKind, extension};
use super::slack::SlackChannel;
use super::{Clock, LeftOut, chat_json, chat_text, decode};
use crate::contract::json::exact;
use crate::os::Disk;

/// A conversation, or its number and why it is none.
pub(super) type Talk = Result<Conversation, (u64, LeftOut)>;

/// The conversations of a file of messages between people; none where no message has a time. Those that cannot be
/// read stand beside them.
pub(super) fn exported(disk: &dyn Disk, file: &NamedFile, bytes: &[u8], clock: Clock) -> Vec<Talk> {
    let Some(text) = decode::text(bytes) else { return Vec::new() };
    let found: Vec<Talk> = match file.kind {
        FileKind::ChatText => {
            chat_text::conversation(&text, &file.name, clock).into_iter().map(Ok).collect()
        }
        _ => {
            let (mut value, mut damaged) = value_of(&text);
            // A line alone is a list too, which may grow.
            if value.is_object() && matches!(extension(&file.path).as_str(), "jsonl" | "ndjson") {
                value = Value::Array(vec![value]);
            }
            // Other programs write an object with the messages in it.
            let channel = match value.is_array() {
                true => SlackChannel::around(disk, &file.path),
                false => SlackChannel::default(),
            };
            damaged.extend(chat_json::conversations(&value, &file.name, &channel, clock.zone));
            damaged
        }
    };
    // Conversations of which none has a time are a text, and those without words are nothing.
    let is_text = found.iter().all(Result::is_err)
        && found.iter().any(|one| matches!(one, Err((_, LeftOut::Unread(_)))));
    if is_text { Vec::new() } else { found }
}

/// What the messages of a file hold beside the words that are summarized.
pub(super) fn beside(
    disk: &dyn Disk,
    file: &NamedFile,
    found: &[Talk],
) -> impl Iterator<Item = LeftOut> + use<> {
    let mut beside = Beside::default();
    found.iter().flatten().for_each(|one| beside.add(one));
    beside.left_out(disk, file.place())
}

/// The value of a file, or the list of the values of its lines. Lines that are no JSON are named.
fn value_of(text: &str) -> (Value, Vec<Talk>) {
    if let Ok(value) = exact(text) {
        return (value, Vec::new());
    }
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        match exact(line) {
            Ok(record) => records.push(record),
            Err(error) => {
                damaged.push(Err((number, LeftOut::Unread(format!("not JSON: {error}")))))
            }
        }
    }
    (Value::Array(records), damaged)
}
