//! Files of messages between people: which reader takes which.

use super::chats::Conversation;
use super::collect::NamedFile;
use super::kind::FileKind;
use super::slack::SlackChannel;
use super::{Clock, chat_json, chat_text, decode};
use crate::os::Disk;

/// The conversations of a file of messages between people; none where no message has a time.
pub(super) fn exported(
    disk: &dyn Disk,
    file: &NamedFile,
    bytes: &[u8],
    clock: Clock,
) -> Vec<Conversation> {
    let Some(text) = decode::text(bytes) else { return Vec::new() };
    match file.kind {
        FileKind::ChatText => {
            chat_text::conversation(&text, &file.name, clock).into_iter().collect()
        }
        _ => {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            // Other programs write an object with the messages in it.
            let channel = match value.is_array() {
                true => SlackChannel::around(disk, &file.path),
                false => SlackChannel::default(),
            };
            chat_json::conversations(&value, &file.name, &channel, clock.zone)
        }
    }
}
