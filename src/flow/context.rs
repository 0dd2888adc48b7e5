//! The facts about sources that a flow gets beside the texts: values for bound inputs, and the labels
//! of the texts in a prompt.
//!
//! Contract: pure, and the same bytes for the same sources. A member that no source gives has no
//! value here; the input then takes its default. `docs/source-text-hash.md` specifies the labels.

use std::collections::BTreeMap;

use chrono::{NaiveDate, NaiveDateTime};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::contract::source::{
    FORWARDED_FROM, InputContext, Person, REPLY_TO_AUTHOR, SourceContext,
};
use crate::contract::time::Timestamp;
use crate::model::SourceText;
use crate::registry::binding::{Binding, SourceField};

use super::hierarchy::TreeNode;

/// Which texts of a prompt stand under a label with their id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labels {
    /// One of several texts; the label distinguishes them.
    OfSeveral,
    /// A single text too when its author is known: no input of the flow tells who wrote it.
    OfAuthors,
    /// A single text too when it is known who wrote it or when: a question about a part tells nothing else.
    OfParts,
    /// A single text too: the answer names the ids of its sources.
    Always,
}

/// The context of one run of a flow: the request, the home and the sources.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Surroundings {
    /// Context of the sources.
    pub input: InputContext,
    /// The local day on which the request was made: what a prompt calls today.
    pub day: Option<String>,
    /// The zone of the home.
    #[serde(with = "zone_by_name")]
    pub zone: Option<Tz>,
    /// `[profile]` of the configuration.
    pub profile: BTreeMap<String, Value>,
    /// What is made of the texts is not published.
    #[serde(default)]
    pub private: bool,
    /// The texts are condensed ones, so that even a single one needs its label.
    pub(crate) condensed: bool,
}

/// A zone by its name.
mod zone_by_name {
    use chrono_tz::Tz;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::ref_option, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(zone: &Option<Tz>, to: S) -> Result<S::Ok, S::Error> {
        zone.map(|zone| zone.name()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Tz>, D::Error> {
        let name = Option::<String>::deserialize(from)?;
        name.map(|name| name.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

impl Surroundings {
    /// The value that a binding gives; `None` when upstream does not have it.
    pub(crate) fn value(
        &self,
        binding: &Binding,
        params: &Map<String, Value>,
        sources: &[SourceText],
        labels: Labels,
    ) -> Option<Value> {
        match binding {
            Binding::Sources => Some(Value::Array(self.list(sources))),
            Binding::Text => Some(self.joined(sources, labels).into()),
            Binding::Source(field) => self.field(*field, sources),
            Binding::RequestDay => self.day.clone().map(Value::from),
            Binding::Param(name) => params.get(name).filter(|value| !value.is_null()).cloned(),
            Binding::HomeTimezone => self.zone.map(|zone| zone.name().into()),
            Binding::HomeProfile(name) => self.profile.get(name).cloned(),
            Binding::Literal(value) => Some(value.clone()),
        }
    }

    /// What is known of condensed texts: the titles and the days of the sources that each stands for, and
    /// who wrote them where that is one.
    pub(super) fn of_condensed(&self, texts: &[SourceText], nodes: &[TreeNode]) -> Surroundings {
        let known: BTreeMap<&str, &SourceContext> =
            self.input.sources.iter().map(|source| (source.id.as_str(), source)).collect();
        let nodes: BTreeMap<&str, &TreeNode> =
            nodes.iter().map(|node| (node.node_id.as_str(), node)).collect();
        let nodes = texts.iter().filter_map(|text| nodes.get(text.id.as_str()));
        let sources = nodes.map(|node| {
            let of: Vec<&SourceContext> =
                node.source_ids.iter().filter_map(|id| known.get(id.as_str()).copied()).collect();
            let title = titles(&of);
            SourceContext {
                id: node.node_id.clone(),
                title,
                day: days(&of),
                author: only_author(&of),
                ..SourceContext::default()
            }
        });
        let input = InputContext { sources: sources.collect(), whole: None, window: None };
        Surroundings {
            input,
            day: self.day.clone(),
            zone: self.zone,
            profile: BTreeMap::new(),
            private: self.private,
            condensed: true,
        }
    }

    /// The title of the source at a place, when it has this id.
    pub(super) fn title_at(&self, place: usize, id: &str) -> Option<&str> {
        let source = self.input.sources.get(place).filter(|source| source.id == id)?;
        source.title.as_deref()
    }

    fn field(&self, field: SourceField, sources: &[SourceText]) -> Option<Value> {
        match field {
            SourceField::Messages => return self.messages(sources),
            SourceField::WindowStart => return self.clock(self.input.window.as_ref()?.start?),
            SourceField::WindowEnd => return self.clock(self.input.window.as_ref()?.end?),
            SourceField::WindowTimezone => {
                return self.input.window.as_ref()?.timezone.clone().map(Value::from);
            }
            _ => {}
        }
        member(self.input.primary()?, field)
    }

    fn clock(&self, at: Timestamp) -> Option<Value> {
        Some(at.clock_in(self.zone.unwrap_or(Tz::UTC)).into())
    }

    /// The messages of a session, in order. Empty without a session.
    fn messages(&self, sources: &[SourceText]) -> Option<Value> {
        self.input.window.as_ref()?;
        let mut clock = self.clock_of_messages();
        let messages = self.numbered(sources).map(|(_, source, context)| {
            json!({
                "id": source.id,
                "role": context.and_then(|context| context.role.as_deref()),
                "author": context.and_then(|context| context.speaker()),
                "time": context.and_then(|context| clock.time_of(context)),
                "ts": context.and_then(|context| context.ts.as_deref()),
                "text": source.text,
            })
        });
        Some(messages.collect())
    }

    /// Each source with what is known of it.
    pub(crate) fn list(&self, sources: &[SourceText]) -> Vec<Value> {
        self.numbered(sources)
            .map(|(_, source, context)| {
                let mut value = json!({"id": source.id, "text": source.text});
                if let (Some(context), Some(members)) = (context, value.as_object_mut()) {
                    describe(context, members);
                }
                value
            })
            .collect()
    }

    /// Each text with its context and its number among all sources. A part of a long source has the
    /// id of that source; a condensed text has an id of its own, and nothing is known of it.
    fn numbered<'a>(
        &'a self,
        sources: &'a [SourceText],
    ) -> impl Iterator<Item = (usize, &'a SourceText, Option<&'a SourceContext>)> {
        let known = &self.input.sources;
        let aligned = known.len() == sources.len()
            && known.iter().zip(sources).all(|(context, source)| context.id == source.id);
        let by_id: BTreeMap<&str, usize> = match aligned {
            true => BTreeMap::new(),
            false => known.iter().enumerate().map(|(at, one)| (one.id.as_str(), at)).collect(),
        };
        sources.iter().enumerate().map(move |(place, source)| {
            let at = if aligned { Some(place) } else { by_id.get(source.id.as_str()).copied() };
            (at.unwrap_or(place) + 1, source, at.and_then(|at| known.get(at)))
        })
    }

    /// Whether a single text stands as it is.
    fn is_bare(&self, only: &SourceText, labels: Labels) -> bool {
        let mut known = self.input.sources.iter().filter(|source| source.id == only.id);
        let without_label = match labels {
            Labels::OfSeveral => true,
            Labels::OfAuthors => known.all(|source| source.speaker().is_none()),
            Labels::OfParts => known.all(|source| {
                source.speaker().is_none() && source.ts.is_none() && source.day.is_none()
            }),
            Labels::Always => false,
        };
        without_label && self.input.window.is_none() && !self.condensed
    }

    /// All texts as one: a single text as it is, unless its label is asked for; several under a label
    /// each, a session as its messages.
    pub(crate) fn joined(&self, sources: &[SourceText], labels: Labels) -> String {
        if let [only] = sources
            && self.is_bare(only, labels)
        {
            return only.text.clone();
        }
        let is_session = self.input.window.is_some();
        let sizes = sources.iter().map(|source| source.id.len() + source.text.len() + 48);
        let mut out = String::with_capacity(sizes.sum());
        let mut roles = self.input.sources.iter().map(|source| source.role.as_deref());
        let first = roles.next().flatten();
        // Beside a single text no other one shows what its author is.
        let is_single = self.input.sources.len() == 1 && !is_session;
        let roles_differ = roles.any(|role| role != first) || is_single;
        let mut clock = self.clock_of_messages();
        for (number, source, context) in self.numbered(sources) {
            out.push_str(if out.is_empty() { "" } else { "\n\n" });
            match context {
                Some(context) if is_session => {
                    let time = clock.time_of(context);
                    out.push_str(&message_label(number, context, roles_differ, time));
                }
                _ => {
                    let label = label(source, context, roles_differ, self.zone);
                    out.push_str(&format!("[{number}] {label}"));
                }
            }
            out.push('\n');
            out.push_str(&source.text);
        }
        out
    }

    fn clock_of_messages(&self) -> MessageClock {
        let times = || self.input.sources.iter().filter_map(|one| local_time(one, self.zone));
        let days = || times().map(|at| at.date());
        let first = days().next();
        // On a single day the times alone are clear.
        MessageClock { zone: self.zone, day: first.filter(|first| days().all(|day| day == *first)) }
    }
}

/// Tells the times of messages one after another, each with its day where that is another one than before.
struct MessageClock {
    zone: Option<Tz>,
    /// The day that the reader knows.
    day: Option<NaiveDate>,
}

impl MessageClock {
    fn time_of(&mut self, message: &SourceContext) -> Option<String> {
        let at = local_time(message, self.zone)?;
        let is_known = self.day.replace(at.date()) == Some(at.date());
        Some(at.format(if is_known { "%H:%M" } else { "%Y-%m-%d %H:%M" }).to_string())
    }
}

/// The time of a message on the clocks of a zone, else on those of the message.
fn local_time(message: &SourceContext, zone: Option<Tz>) -> Option<NaiveDateTime> {
    let at = message.time()?;
    Some(zone.map_or_else(|| at.naive_local(), |zone| at.with_timezone(&zone).naive_local()))
}

/// The time of a source on the clocks of a zone, with the offset that tells the zone.
fn moment(source: &SourceContext, zone: Option<Tz>) -> Option<String> {
    let ts = source.ts.as_deref()?;
    Some(match (source.time(), zone) {
        (Some(at), Some(zone)) => at.with_timezone(&zone).to_rfc3339(),
        _ => one_line(ts),
    })
}

/// `[m1 user 14:03]`: the number of the message, who spoke, and when.
fn message_label(
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

/// Whom a message answers, and who wrote it first: `, to Ana, forwarded from Ben`.
fn around(message: &SourceContext) -> String {
    let told = |(words, member): (&str, &str)| {
        let name = message.meta.get(member)?.as_str().map(one_line)?;
        Some(format!(", {words} {name}"))
    };
    [("to", REPLY_TO_AUTHOR), ("forwarded from", FORWARDED_FROM)]
        .into_iter()
        .filter_map(told)
        .collect()
}

/// The day of some sources, or the first and the last.
fn days(sources: &[&SourceContext]) -> Option<String> {
    let all = || sources.iter().filter_map(|source| source.day.as_deref());
    let (first, last) = (all().min()?, all().max()?);
    Some(if first == last { first.to_owned() } else { format!("{first} to {last}") })
}

/// Who wrote all of some sources.
fn only_author(sources: &[&SourceContext]) -> Option<Person> {
    let first = sources.first()?.author.as_ref()?;
    let is_first = |source: &&SourceContext| source.author.as_ref() == Some(first);
    sources.iter().all(is_first).then(|| first.clone())
}

/// What stands behind the number of a text: its id, and what a reader needs to place it.
fn label(
    source: &SourceText,
    context: Option<&SourceContext>,
    roles_differ: bool,
    zone: Option<Tz>,
) -> String {
    let mut parts = vec![one_line(&source.id)];
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
fn with_role(name: &str, context: &SourceContext, roles_differ: bool) -> String {
    match context.role.as_deref().filter(|role| roles_differ && *role != name) {
        Some(role) => one_line(&format!("{name} ({role})")),
        None => one_line(name),
    }
}

/// A label is one line: control characters of foreign words become spaces.
fn one_line(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A member of a source as an input gets it.
fn member(source: &SourceContext, field: SourceField) -> Option<Value> {
    let text = |text: &Option<String>| text.clone().map(Value::from);
    match field {
        SourceField::Id => Some(source.id.clone().into()),
        SourceField::Title => text(&source.title),
        SourceField::Author => source.author.as_ref().map(|author| author.shown().into()),
        SourceField::To => people(&source.to),
        SourceField::Cc => people(&source.cc),
        SourceField::Role => text(&source.role),
        SourceField::Ts => text(&source.ts),
        SourceField::Day => text(&source.day),
        SourceField::Date => text(&source.ts).or_else(|| text(&source.day)),
        SourceField::Origin => source.origin.shown().map(Value::from),
        SourceField::Url => text(&source.origin.url),
        SourceField::Path => text(&source.origin.path),
        SourceField::Line => source.origin.line.map(Value::from),
        SourceField::MessageId => text(&source.origin.message_id),
        SourceField::Feed => text(&source.origin.feed),
        SourceField::Project => text(&source.labels.project),
        SourceField::Tags => Some(json!(source.labels.tags)).filter(|tags| *tags != json!([])),
        // Of a session as a whole, not of one source.
        SourceField::Messages
        | SourceField::WindowStart
        | SourceField::WindowEnd
        | SourceField::WindowTimezone => None,
    }
}

fn people(list: &[crate::contract::source::Person]) -> Option<Value> {
    (!list.is_empty()).then(|| list.iter().map(|person| person.shown()).collect())
}

/// Puts what is known of a source beside its id and text, under the names prompts use.
fn describe(context: &SourceContext, members: &mut Map<String, Value>) {
    // Upstream's own members come first, so that what we know for certain stands.
    for (name, value) in &context.meta {
        if name != "id" && name != "text" {
            members.insert(name.clone(), value.clone());
        }
    }
    let known = [
        ("title", SourceField::Title),
        ("author", SourceField::Author),
        ("to", SourceField::To),
        ("cc", SourceField::Cc),
        ("role", SourceField::Role),
        ("ts", SourceField::Ts),
        ("day", SourceField::Day),
        ("url", SourceField::Url),
        ("origin", SourceField::Origin),
        ("project", SourceField::Project),
        ("tags", SourceField::Tags),
    ];
    for (name, field) in known {
        if let Some(value) = member(context, field) {
            members.insert(name.to_owned(), value);
        }
    }
}

/// Titles that a condensed text names; the others are counted.
const TITLES_MAX: usize = 4;
/// Longest such title in characters.
const TITLE_CHARS_MAX: usize = 120;

/// The titles of sources, each once, in their order.
fn titles(of: &[&SourceContext]) -> Option<String> {
    let mut titles: Vec<&str> = Vec::new();
    for title in of.iter().filter_map(|source| source.title.as_deref()) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let cut = |title: &&str| match title.char_indices().nth(TITLE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", title[..end].trim_end()),
        None => (*title).to_owned(),
    };
    let mut named: Vec<String> = titles.iter().take(TITLES_MAX).map(cut).collect();
    if titles.len() > TITLES_MAX {
        named.push(format!("and {} more", titles.len() - TITLES_MAX));
    }
    (!named.is_empty()).then(|| named.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::source::Window;

    #[test]
    fn many_titles_are_counted_and_long_ones_are_cut() {
        let of: Vec<SourceContext> = ["a", "b", "a", "c", "d", "e", "f"]
            .map(|title| SourceContext { title: Some(title.into()), ..SourceContext::default() })
            .into();
        let of: Vec<&SourceContext> = of.iter().collect();
        assert_eq!(titles(&of).as_deref(), Some("a; b; c; d; and 2 more"));
        let long = SourceContext { title: Some("x".repeat(200)), ..SourceContext::default() };
        assert_eq!(titles(&[&long]), Some(format!("{}…", "x".repeat(TITLE_CHARS_MAX))));
        assert_eq!(titles(&[&SourceContext::default()]), None);
    }

    /// `tests/tools/source_text.py` computes the same vectors by itself.
    #[test]
    fn the_vectors_of_sessions_hold() {
        #[derive(serde::Deserialize)]
        struct Vector {
            name: String,
            zone: String,
            messages: Vec<Message>,
            text: String,
        }
        #[derive(serde::Deserialize)]
        struct Message {
            id: String,
            text: String,
            author: Person,
            role: Option<String>,
            ts: Option<String>,
        }
        let vectors = include_str!("../../tests/golden/markup/sessions.json");
        let vectors: Vec<Vector> = serde_json::from_str(vectors).unwrap();
        for Vector { name, zone, messages, text } in vectors {
            let (mut known, mut texts) = (Vec::new(), Vec::new());
            for Message { id, text, author, role, ts } in messages {
                texts.push(SourceText { id: id.clone(), text });
                known.push(SourceContext {
                    id,
                    author: Some(author).filter(|one| *one != Person::default()),
                    role,
                    ts,
                    ..SourceContext::default()
                });
            }
            let window = Some(Window::default());
            let input = InputContext { sources: known, whole: None, window };
            let around = Surroundings { input, zone: zone.parse().ok(), ..Surroundings::default() };
            assert_eq!(around.joined(&texts, Labels::OfSeveral), text, "{name}");
        }
    }

    #[test]
    fn condensed_texts_keep_the_title_and_the_days_of_their_sources() {
        let source = |id: &str, title: &str, day: &str, author: &str| SourceContext {
            id: id.into(),
            title: Some(title.into()),
            day: Some(day.into()),
            author: Some(Person { name: Some(author.into()), ..Person::default() }),
            ..SourceContext::default()
        };
        let sources = vec![
            source("a", "Roof", "2026-03-02", "Ana"),
            source("b", "Roof", "2026-03-04", "Ana"),
            source("c", "Lease", "2026-03-04", "Ben"),
        ];
        let input = InputContext { sources, whole: None, window: None };
        let around = Surroundings { input, ..Surroundings::default() };
        let node = |id: &str, sources: &[&str]| TreeNode {
            node_id: id.into(),
            level: 0,
            title: String::new(),
            text: "Words.".into(),
            children: Vec::new(),
            source_ids: sources.iter().map(|one| (*one).to_owned()).collect(),
            chars_covered: 0,
            rendered_short: String::new(),
        };
        let nodes = [node("n0", &["a", "b"]), node("n1", &["b", "c"]), node("n2", &["c"])];
        let text = |id: &str| SourceText { id: id.into(), text: "Words.".into() };
        let all = [text("n0"), text("n1"), text("n2")];
        assert_eq!(
            around.of_condensed(&all, &nodes).joined(&all, Labels::OfSeveral),
            "[1] n0 | Roof | Ana | 2026-03-02 to 2026-03-04\nWords.\n\n[2] n1 | Roof; Lease | 2026-03-04\nWords.\n\n\
             [3] n2 | Lease | Ben | 2026-03-04\nWords."
        );
        let one = [text("n2")];
        let around = around.of_condensed(&one, &nodes);
        assert_eq!(
            around.joined(&one, Labels::OfSeveral),
            "[1] n2 | Lease | Ben | 2026-03-04\nWords."
        );
        assert_eq!(around.list(&one)[0]["day"], "2026-03-04");
    }
}
