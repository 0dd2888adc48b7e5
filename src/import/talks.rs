//! Files of messages between people: which reader takes which.

use super::chats::Conversation;
use super::kind::FileKind;
use super::{Clock, chat_json, chat_text, decode};

/// The conversations of a file of messages between people; none where no message has a time.
pub(super) fn exported(
    kind: FileKind,
    bytes: &[u8],
    name: &str,
    clock: Clock,
) -> Vec<Conversation> {
    let Some(text) = decode::text(bytes) else { return Vec::new() };
    match kind {
        FileKind::ChatText => chat_text::conversation(&text, name, clock).into_iter().collect(),
        _ => {
            let value = serde_json::from_str(&text).unwrap_or_default();
            chat_json::conversations(&value, name, clock.zone)
        }
    }
}
