//! The lines above the texts of a prompt: of which source a text is, who wrote it and when.
//!
//! Contract: pure, and one line each. `docs/source-text-hash.md` specifies them.

use chrono::{NaiveDate, NaiveDateTime};
use chrono_tz::Tz;

use crate::contract::source::{FORWARDED_FROM, REPLY_TO_AUTHOR, SourceContext};
use crate::markup::prefix;

/// Bytes of the ends of the lines between two texts and below a label.
pub(super) const LINE_ENDS_BYTES: usize = 3;

/// Longest name of a session in the label of its first message.
const NAME_BYTES_MAX: usize = 120;

/// Tells the times of messages one after another, each with its day where that is another one than before.
pub(super) struct MessageClock {
    zone: Option<Tz>,
    /// The day that the reader knows.
    day: Option<NaiveDate>,
}

impl MessageClock {
    /// A clock for all messages of a session.
    pub(super) fn of(messages: &[SourceContext], zone: Option<Tz>) -> MessageClock {
        let days = || messages.iter().filter_map(|one| local_day(one, zone));
        let first = days().next();
        // On a single day the times alone are clear.
        MessageClock { zone, day: first.filter(|first| days().all(|day| day == *first)) }
    }

    /// A clock for a reader who knows no day.
    pub(super) fn without_day(zone: Option<Tz>) -> MessageClock {
        MessageClock { zone, day: None }
    }

    pub(super) fn time_of(&mut self, message: &SourceContext) -> Option<String> {
        let day = local_day(message, self.zone)?;
        let is_known = self.day.replace(day) == Some(day);
        let day = (!is_known).then(|| day.to_string());
        let clock = local_time(message, self.zone).map(|at| at.format("%H:%M").to_string());
        let told: Vec<String> = day.into_iter().chain(clock).collect();
        (!told.is_empty()).then(|| told.join(" "))
    }
}

/// The time of a message on the clocks of a zone, else on those of the message.
fn local_time(message: &SourceContext, zone: Option<Tz>) -> Option<NaiveDateTime> {
    let at = message.time()?;
    Some(zone.map_or_else(|| at.naive_local(), |zone| at.with_timezone(&zone).naive_local()))
}

/// The day of a message: that of its time, or the only thing that is known of its time.
fn local_day(message: &SourceContext, zone: Option<Tz>) -> Option<NaiveDate> {
    let written = || message.day.as_deref()?.parse().ok();
    local_time(message, zone).map(|at| at.date()).or_else(written)
}

/// The time of a source on the clocks of a zone, with the offset that tells the zone. A time that was written
/// without an offset has none here.
pub(super) fn moment(source: &SourceContext, zone: Option<Tz>) -> Option<String> {
    let ts = source.ts_as_written()?;
    Some(match (source.time(), zone) {
        (Some(at), Some(zone)) if !source.is_zone_assumed => at.with_timezone(&zone).to_rfc3339(),
        _ => one_line(&ts),
    })
}

/// `[m1 user 14:03]`: the number of the message, who spoke, and when.
pub(super) fn message_label(
    number: usize,
    context: &SourceContext,
    roles_differ: bool,
    time: Option<String>,
) -> String {
    let mut label = format!("[m{number}");
    let speaker = context.speaker().map(|name| with_role(name, context, roles_differ));
    for part in [speaker, time].into_iter().flatten() {
        label.push(' ');
        label.push_str(&part);
    }
    label.push_str(&around(context));
    label.push(']');
    label
}

/// Whom a message answers, who wrote it first, and which session begins with it: `, to Ana, forwarded from Ben`.
fn around(message: &SourceContext) -> String {
    let session = message.begins_session.as_deref();
    let session = session
        .map(|name| format!(", begins session: {}", prefix(&one_line(name), NAME_BYTES_MAX)));
    let told = |(words, member): (&str, &str)| {
        let name = message.meta.get(member)?.as_str().map(one_line)?;
        Some(format!(", {words} {name}"))
    };
    let told =
        [("to", REPLY_TO_AUTHOR), ("forwarded from", FORWARDED_FROM)].into_iter().filter_map(told);
    told.chain(session).collect()
}

/// What stands behind the number of a text: its id, and what a reader needs to place it.
pub(super) fn label(
    id: &str,
    context: Option<&SourceContext>,
    roles_differ: bool,
    zone: Option<Tz>,
) -> String {
    let mut parts = vec![one_line(id)];
    if let Some(context) = context {
        parts.extend(context.title.as_deref().map(one_line));
        let author = context.author.as_ref();
        let author = author.map(|author| with_role(&author.shown(), context, roles_differ));
        parts.extend(author.or_else(|| context.role.as_deref().map(one_line)));
        parts.extend(moment(context, zone).or_else(|| context.day.as_deref().map(one_line)));
    }
    parts.join(" | ")
}

/// Who speaks, and as what, where that is not the same for all: `Ana (user)`.
pub(super) fn with_role(name: &str, context: &SourceContext, roles_differ: bool) -> String {
    match context.role.as_deref().filter(|role| roles_differ && *role != name) {
        Some(role) => one_line(&format!("{name} ({role})")),
        None => one_line(name),
    }
}

/// A label is one line: control characters of foreign words become spaces.
fn one_line(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
