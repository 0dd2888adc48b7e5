//! Sessions out of chat messages: what was said in one conversation without a long pause.
//!
//! Contract: a session lies within two days, because readers look for its messages on its own day and
//! the days beside it. The id depends on the messages and their times, so a conversation that continues
//! later makes another session, and the same messages make the same one. Of several sessions that are cut from one
//! conversation at the same time each has its day behind the title, with its time where the day has another one, and the
//! title alone as a label. A session that is on the bus keeps the name that it has there.

use chrono_tz::Tz;
use serde_json::json;

use super::NewRecord;
use crate::contract::source::zoned;
use crate::contract::stable_id::{Part, list_hash, stable_id};
use crate::contract::time::{Day, Timestamp};
use crate::upstream::moment::Moment;

/// The rule that cuts sessions, in their records.
const CUTTER: &str = "pause.v1";

/// A conversation to cut.
#[derive(Debug, Clone, Default)]
pub(super) struct Talk {
    /// Id of the conversation, where there is one.
    pub id: Option<String>,
    pub title: Option<String>,
    pub project: Option<String>,
    pub publish: Option<bool>,
    /// Its messages, in order: the time and the event id.
    pub messages: Vec<(Timestamp, String)>,
}

/// The sessions of a conversation, each with its day.
pub(super) fn cut(mut talk: Talk, gap_ms: i64, zone: Tz) -> Vec<(Day, NewRecord)> {
    // Stable: messages of one moment stay in their order.
    talk.messages.sort_by_key(|(at, _)| *at);
    let mut spans = Vec::new();
    let mut open: Vec<(Timestamp, String)> = Vec::new();
    for message in std::mem::take(&mut talk.messages) {
        if let (Some((first, _)), Some((last, _))) = (open.first(), open.last()) {
            let pause = message.0.ms_since(*last) > gap_ms;
            let days = message.0.day_in(zone).days() - first.day_in(zone).days();
            if pause || days > 1 {
                spans.push(std::mem::take(&mut open));
            }
        }
        open.push(message);
    }
    if !open.is_empty() {
        spans.push(open);
    }
    let begin = |messages: &Vec<(Timestamp, String)>| zoned(messages[0].0, zone);
    let days: Vec<_> = spans.iter().map(|one| begin(one).map(|at| at.date_naive())).collect();
    let named = spans.iter().zip(&days).map(|(messages, day)| {
        let (at, is_alone) =
            (messages[0].0, days.iter().filter(|other| *other == day).count() == 1);
        // A message of which only the day is known counts as its noon, which nobody said.
        let is_day = Moment::Day(at.day_in(zone)).event_millis(zone) == at.0;
        let form = if is_alone || is_day { "%Y-%m-%d" } else { "%Y-%m-%d %H:%M" };
        let title = talk.title.as_deref().zip(begin(messages));
        let name = title.filter(|_| days.len() > 1);
        let name = name.map(|(title, at)| format!("{title}, {}", at.format(form)));
        session(&talk, messages, name, gap_ms, zone)
    });
    named.collect()
}

fn session(
    talk: &Talk,
    messages: &[(Timestamp, String)],
    name: Option<String>,
    gap_ms: i64,
    zone: Tz,
) -> (Day, NewRecord) {
    let (start, end) = (messages[0].0, messages[messages.len() - 1].0);
    let day = start.day_in(zone);
    let ids: Vec<&str> = messages.iter().map(|(_, id)| id.as_str()).collect();
    let policy = format!("{CUTTER}.{gap_ms}");
    let id = stable_id(
        "ses",
        &[
            Part::Text("session"),
            Part::Labelled("window", &policy),
            Part::Labelled("start", &start.to_string()),
            Part::Labelled("end", &end.to_string()),
            Part::Labelled("events_hash", &list_hash(&ids)),
        ],
    );
    let mut value = json!({
        "schema_version": "session.v1",
        "session_id": id,
        "day": day.to_string(),
        "window": {"start_ts_ms": start.0, "end_ts_ms": end.0, "timezone": zone.name()},
        "event_ids": ids,
        "event_count": ids.len(),
        "source": {"sessionizer_version": policy, "input_manifest_day": day.to_string()},
    });
    if let Some(conversation) = &talk.id {
        value["conversation_ids"] = json!([conversation]);
    }
    if let Some(title) = &talk.title {
        value["title_candidates"] = json!([name.as_ref().unwrap_or(title)]);
        if name.is_some() {
            value["labels"] = json!([title]);
        }
    }
    if let Some(project) = &talk.project {
        value["project"] = json!(project);
    }
    if let Some(publish) = talk.publish {
        value["publish"] = json!(publish);
    }
    (day, NewRecord { order: start.0, id, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn talk(hours: &[i64]) -> Talk {
        let start = 1_770_760_800_000; // 2026-02-10T22:00Z
        let message = |hour: &i64| (Timestamp(start + hour * HOUR), format!("m{hour}"));
        Talk {
            id: Some("c".into()),
            messages: hours.iter().map(message).collect(),
            ..Talk::default()
        }
    }

    fn events(hours: &[i64]) -> Vec<(String, Vec<String>)> {
        let cut = cut(talk(hours), 6 * HOUR, Tz::UTC);
        cut.into_iter()
            .map(|(day, record)| {
                let ids = record.value["event_ids"].as_array().unwrap().iter();
                (day.to_string(), ids.map(|id| id.as_str().unwrap().to_owned()).collect())
            })
            .collect()
    }

    #[test]
    fn a_long_pause_begins_another_session() {
        let cut = events(&[0, 1, 7, 14, 15]);
        assert_eq!(cut[0], ("2026-02-10".into(), vec!["m0".into(), "m1".into(), "m7".into()]));
        assert_eq!(cut[1], ("2026-02-11".into(), vec!["m14".into(), "m15".into()]));
        assert_eq!(cut.len(), 2);
        assert_eq!(events(&[7, 0, 1]), events(&[0, 1, 7]), "the order of the file does not matter");
    }

    #[test]
    fn a_session_without_a_pause_ends_on_its_second_day() {
        let hours: Vec<i64> = (0..16).map(|step| step * 5).collect();
        for (day, record) in cut(talk(&hours), 6 * HOUR, Tz::UTC) {
            let end = record.value["window"]["end_ts_ms"].as_i64().unwrap();
            assert!(Timestamp(end).day_in(Tz::UTC).days() - day.days() <= 1);
        }
    }

    #[test]
    fn sessions_of_one_chat_have_its_title_as_a_label_and_their_times_in_their_names() {
        let named = |hours: &[i64]| {
            let talk = Talk { title: Some("Family".to_owned()), ..talk(hours) };
            let sessions = cut(talk, 6 * HOUR, Tz::Europe__Madrid).into_iter();
            let named = sessions.map(|(_, one)| {
                (one.value["title_candidates"][0].clone(), one.value["labels"].clone())
            });
            named.collect::<Vec<_>>()
        };
        assert_eq!(named(&[0, 1]), [("Family".into(), serde_json::Value::Null)]);
        let expected = ["Family, 2026-02-10", "Family, 2026-02-11"];
        assert_eq!(named(&[0, 8]), expected.map(|name| (name.into(), json!(["Family"]))));
        let expected =
            ["Family, 2026-02-10", "Family, 2026-02-11 07:00", "Family, 2026-02-11 15:00"];
        assert_eq!(named(&[0, 8, 16]), expected.map(|name| (name.into(), json!(["Family"]))));
        // A day without a time counts as its noon in UTC, which nobody said.
        let expected = ["Family, 2026-02-10", "Family, 2026-02-11", "Family, 2026-02-11 22:00"];
        assert_eq!(named(&[0, 14, 23]), expected.map(|name| (name.into(), json!(["Family"]))));
    }

    #[test]
    fn the_same_messages_make_the_same_id() {
        let ids = |hours: &[i64]| -> Vec<String> {
            cut(talk(hours), 6 * HOUR, Tz::UTC).into_iter().map(|(_, one)| one.id).collect()
        };
        assert_eq!(ids(&[0, 1]), ids(&[1, 0]));
        assert_ne!(ids(&[0, 1]), ids(&[0, 1, 2]));
    }
}
