//! A message of a chat as the record of an event. Every way in reads this record, so that all know the same of a message.

use serde_json::json;

use super::chats::{Conversation, Turn};
use super::{NewRecord, fields};
use crate::contract::hash::sha256;
use crate::contract::privacy::LOCAL_ONLY;
use crate::contract::publish::together;
use crate::contract::source::{FORWARDED_FROM, REPLY_TO_AUTHOR, TimePrecision, zoned};
use crate::contract::stable_id::{Part, stable_id};

/// The record of a message; `file` is the name that a person gives the file.
pub(super) fn record_of(
    one: &Conversation,
    turn: &Turn,
    file: &str,
    zone: chrono_tz::Tz,
) -> NewRecord {
    let id = event_id_of(one, turn);
    let mut value = json!({
        "schema_version": "event.v1",
        "event_id": id,
        "timestamp_ms": turn.at.0,
        "content": turn.text,
        "role": turn.role,
        "conversation_id": one.id,
        "event_kind": "chat_turn",
        "event_subkind": fields::subkind_of(&turn.role),
        "source": {
            "source_system": one.system,
            "source_record_id": turn.id,
            "source_uri": file,
        },
    });
    for (name, known) in [
        ("title", &one.title),
        ("project", &one.project),
        ("author", &turn.author),
        (FORWARDED_FROM, &turn.forwarded_from),
        (REPLY_TO_AUTHOR, &turn.reply_to_author),
    ] {
        if let Some(known) = known {
            value[name] = json!(known);
        }
    }
    if let Some(publish) = together([one.publish, turn.publish]) {
        value["publish"] = json!(publish);
    }
    if turn.local_only {
        value[LOCAL_ONLY] = true.into();
    }
    match (turn.precision, zoned(turn.at, zone)) {
        (TimePrecision::Local, Some(at)) => fields::note_local(&mut value, at.naive_local()),
        (TimePrecision::Day, Some(at)) => value["date"] = at.date_naive().to_string().into(),
        (TimePrecision::Unknown, _) => {
            let (name, word) = TimePrecision::UNKNOWN;
            value[name] = word.into();
        }
        _ => {
            let written = turn.written.map(|at| at.to_rfc3339());
            written.into_iter().for_each(|at| value["timestamp"] = at.into());
        }
    }
    NewRecord { order: turn.at.0, id, value }
}

/// The id of the event of a message. Ids of messages are unique in their conversation only.
pub(super) fn event_id_of(chat: &Conversation, turn: &Turn) -> String {
    let hash = sha256(&turn.text).hex();
    let parts = [
        Part::Text("event"),
        Part::Labelled("source", chat.system),
        Part::Labelled("conversation", &chat.id),
        Part::Labelled("message", &turn.id),
        Part::Labelled("content", &hash),
    ];
    stable_id("evt", &parts)
}
