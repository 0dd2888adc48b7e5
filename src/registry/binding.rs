//! Where an input of a flow comes from: `io_contract.inputs[].from` of a registry record.
//!
//! Contract: the list of paths is closed. A path that is not in it is an error of the record, never
//! an input without a value. `docs/flow-packs.md` lists the paths for authors of packs.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// A member of the primary source that an input may receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceField {
    Id,
    /// Subject, headline, heading or name.
    Title,
    Author,
    To,
    /// Who received a copy.
    Cc,
    /// The role of the author in a chat.
    Role,
    /// The moment, with its own offset.
    Ts,
    Day,
    /// The moment, or the local day where no more is known.
    Date,
    /// The place where a person finds it.
    Origin,
    /// Its address on the web.
    Url,
    Path,
    /// Its line in that file.
    Line,
    /// The id of the message in the system it came from.
    MessageId,
    /// The feed it came from.
    Feed,
    /// The project it belongs to.
    Project,
    Tags,
    /// The messages of a session.
    Messages,
    /// Begin of the session, `HH:MM` in the home's zone.
    WindowStart,
    /// End of the session, `HH:MM` in the home's zone.
    WindowEnd,
    /// The zone that the producer of the session names.
    WindowTimezone,
}

/// The paths below `source.`, as a record writes them.
const FIELDS: [(&str, SourceField); 21] = [
    ("id", SourceField::Id),
    ("title", SourceField::Title),
    ("author", SourceField::Author),
    ("to", SourceField::To),
    ("cc", SourceField::Cc),
    ("role", SourceField::Role),
    ("ts", SourceField::Ts),
    ("day", SourceField::Day),
    ("date", SourceField::Date),
    ("origin", SourceField::Origin),
    ("origin.url", SourceField::Url),
    ("origin.path", SourceField::Path),
    ("origin.line", SourceField::Line),
    ("origin.message_id", SourceField::MessageId),
    ("origin.feed", SourceField::Feed),
    ("labels.project", SourceField::Project),
    ("labels.tags", SourceField::Tags),
    ("messages", SourceField::Messages),
    ("window.start", SourceField::WindowStart),
    ("window.end", SourceField::WindowEnd),
    ("window.timezone", SourceField::WindowTimezone),
];

impl SourceField {
    /// Whether an input of this kind can hold it. Only a line is a number, and no member is a yes or no.
    pub(crate) fn fits(self, kind: &str) -> bool {
        match kind {
            "int" | "double" => self == SourceField::Line,
            "bool" => false,
            _ => true,
        }
    }
}

/// Where an input comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Binding {
    /// The list of sources, each with its text and context.
    Sources,
    /// All texts, each under its label.
    Text,
    /// A member of the primary source.
    Source(SourceField),
    /// The day of the request: the one it names, else the local day it was made on.
    RequestDay,
    /// A parameter of the request.
    Param(String),
    /// The zone of the home.
    HomeTimezone,
    /// A member of `[profile]` in the configuration.
    HomeProfile(String),
    /// A value that the record gives itself.
    Literal(Value),
}

/// The path is not one of the closed list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a path an input can come from; the paths are {paths}", paths = all())]
pub struct UnknownPath(pub String);

fn all() -> String {
    let fixed = ["sources", "text", "request.day", "home.timezone"].map(str::to_owned);
    let fields = FIELDS.iter().map(|(name, _)| format!("source.{name}"));
    let named = ["request.params.NAME", "home.profile.NAME", "{\"value\": …}"].map(str::to_owned);
    fixed.into_iter().chain(fields).chain(named).collect::<Vec<_>>().join(", ")
}

impl FromStr for Binding {
    type Err = UnknownPath;

    fn from_str(path: &str) -> Result<Binding, UnknownPath> {
        let unknown = || UnknownPath(path.to_owned());
        match path {
            "sources" => return Ok(Binding::Sources),
            "text" => return Ok(Binding::Text),
            "request.day" => return Ok(Binding::RequestDay),
            "home.timezone" => return Ok(Binding::HomeTimezone),
            _ => {}
        }
        if let Some(name) = path.strip_prefix("source.") {
            let field = FIELDS.iter().find(|(known, _)| *known == name);
            return field.map(|(_, field)| Binding::Source(*field)).ok_or_else(unknown);
        }
        let named = |prefix: &str| path.strip_prefix(prefix).filter(|name| !name.is_empty());
        if let Some(name) = named("request.params.") {
            return Ok(Binding::Param(name.to_owned()));
        }
        named("home.profile.").map(|name| Binding::HomeProfile(name.to_owned())).ok_or_else(unknown)
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Binding::Sources => f.write_str("sources"),
            Binding::Text => f.write_str("text"),
            Binding::Source(field) => {
                let name = FIELDS.iter().find(|(_, known)| known == field).map(|(name, _)| *name);
                write!(f, "source.{}", name.unwrap_or_default())
            }
            Binding::RequestDay => f.write_str("request.day"),
            Binding::Param(name) => write!(f, "request.params.{name}"),
            Binding::HomeTimezone => f.write_str("home.timezone"),
            Binding::HomeProfile(name) => write!(f, "home.profile.{name}"),
            Binding::Literal(value) => write!(f, "the value {value}"),
        }
    }
}

impl Serialize for Binding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Binding::Literal(value) => json!({"value": value}).serialize(serializer),
            path => serializer.collect_str(path),
        }
    }
}

impl<'de> Deserialize<'de> for Binding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Binding, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(path) => path.parse().map_err(D::Error::custom),
            Value::Object(mut members) if members.len() == 1 && members.contains_key("value") => {
                Ok(Binding::Literal(members.remove("value").unwrap_or_default()))
            }
            _ => Err(D::Error::custom("`from` is a path, or an object with the member `value`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_reads_as_it_is_written() {
        let named = ["request.params.topic", "home.profile.job_seeker"].map(str::to_owned);
        let fields = FIELDS.iter().map(|(name, _)| format!("source.{name}"));
        let fixed = ["sources", "text", "request.day", "home.timezone"].map(str::to_owned);
        for path in fixed.into_iter().chain(fields).chain(named) {
            let binding: Binding = serde_json::from_value(json!(path)).unwrap();
            assert_eq!(serde_json::to_value(&binding).unwrap(), json!(path));
        }
        let literal: Binding = serde_json::from_value(json!({"value": 3})).unwrap();
        assert_eq!(literal, Binding::Literal(json!(3)));
        assert_eq!(serde_json::to_value(&literal).unwrap(), json!({"value": 3}));
    }

    #[test]
    fn a_path_outside_the_list_is_refused_by_name() {
        for wrong in ["source", "source.", "source.titel", "request.params.", "texts", ""] {
            let error = serde_json::from_value::<Binding>(json!(wrong)).unwrap_err().to_string();
            assert!(error.contains(&format!("`{wrong}` is not a path")), "{error}");
        }
        assert!(serde_json::from_value::<Binding>(json!({"value": 1, "more": 2})).is_err());
    }
}
