//! What keeps a text on this machine, and what keeps it unpublished.
//!
//! Contract: pure. The strictest word wins: of the settings, of the data and of the request, one that
//! keeps a text decides.
//!
//! See docs/adr/0118-rules-about-data.md.

use serde_json::{Map, Value, json};

use super::places::{DataPlace, DataPlaces, DataRule, HomePaths};
use super::publish::{any_declared, declares_labels, is_refused, labels_said};

/// The member of a record, of an item and of a request.
pub(crate) const LOCAL_ONLY: &str = "local_only";
/// Longest word that answers a line.
const ANSWER_BYTES_MAX: usize = 20;
/// The reason that a request gives.
pub(crate) const OF_REQUEST: &str = "the request";

/// A message without the names of files of the bus `other`: `other/diary/visit.md: it is empty`. A record
/// that keeps the message has no mark that says which of these files are private.
pub(crate) fn without_file_names(message: &str) -> String {
    const STARTS: [&str; 2] = ["other/", "other:"];
    const INSTEAD: &str = "a file of the bus other";
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = STARTS.iter().filter_map(|start| begun_word(rest, start)).min() {
        text.push_str(&rest[..at]);
        text.push_str(INSTEAD);
        let named = &rest[at..];
        // A path may have blanks, commas and brackets, and ends where the message says what is wrong with it.
        rest = named.find(": ").map_or("", |end| &named[end..]);
    }
    text + rest
}

/// Where a word begins with `start` and goes on behind it.
fn begun_word(text: &str, start: &str) -> Option<usize> {
    text.match_indices(start).map(|(at, _)| at).find(|at| {
        let inside = text[..*at].ends_with(|c: char| c.is_alphanumeric() || "/_-.".contains(c));
        let goes_on = text[at + start.len()..].starts_with(|c: char| !c.is_whitespace());
        !inside && goes_on
    })
}

/// The rules of `[privacy]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PrivacyRules {
    /// Data that no provider elsewhere may see.
    pub local_only: Vec<DataRule>,
    /// Data that is never published.
    pub private: Vec<DataRule>,
}

impl PrivacyRules {
    /// Tells the rules where the home lies.
    pub(crate) fn set_home(&mut self, paths: &HomePaths) {
        self.all_mut().for_each(|rule| rule.set_home(paths));
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut DataRule> {
        self.local_only.iter_mut().chain(&mut self.private)
    }

    /// Whether a rule is about such places.
    pub(crate) fn are_about(&self, place: DataPlace) -> bool {
        self.local_only.iter().chain(&self.private).any(|rule| rule.is_about(place))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.local_only.is_empty() && self.private.is_empty()
    }

    /// What the rules say of data at these places.
    pub(crate) fn of(&self, places: &DataPlaces) -> Confinement {
        let fitting = |rules: &[DataRule]| {
            let fitting = rules.iter().filter(|rule| rule.fits(places));
            fitting.map(|rule| rule.written().to_owned()).collect()
        };
        Confinement { local_only: fitting(&self.local_only), private: fitting(&self.private) }
    }

    /// The rules as one text, for keys and fingerprints; `None` without rules.
    pub(crate) fn told(&self) -> Option<Value> {
        let written = |rules: &[DataRule]| {
            rules.iter().map(|rule| rule.written().to_owned()).collect::<Vec<_>>()
        };
        (!self.is_empty()).then(|| json!([written(&self.local_only), written(&self.private)]))
    }
}

/// The reasons that keep a text on this machine, and those that keep it unpublished: rules as written,
/// `the request`, or the id of the source that says so, with the member that says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Confinement {
    pub local_only: Vec<String>,
    pub private: Vec<String>,
}

impl Confinement {
    pub(crate) fn is_local_only(&self) -> bool {
        !self.local_only.is_empty()
    }

    /// One more reason why it stays on this machine.
    pub(crate) fn keep_here(&mut self, reason: &str) {
        if !self.local_only.iter().any(|known| known == reason) {
            self.local_only.push(reason.to_owned());
        }
    }

    /// The member `selection.privacy` of an item.
    pub(crate) fn to_value(&self) -> Option<Value> {
        let mut members = Map::new();
        for (name, reasons) in [(LOCAL_ONLY, &self.local_only), ("private", &self.private)] {
            if !reasons.is_empty() {
                members.insert(name.to_owned(), json!(reasons));
            }
        }
        (!members.is_empty()).then_some(Value::Object(members))
    }

    /// The reasons in words: `folder:clients*`, or the first and how many more.
    pub(crate) fn shown(reasons: &[String]) -> String {
        match reasons {
            [] => String::new(),
            [only] => only.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        }
    }
}

/// Whether a request or a record says that its text stays on this machine: a member that is present and
/// is not clearly a no, or a flag or label of this name.
pub(crate) fn says_local_only(members: &Map<String, Value>) -> bool {
    let names_it = |name: &str| name.rsplit(['.', '/', ':']).next().is_some_and(names_local_only);
    any_declared(members, &mut |one| {
        names_it(one.name) && !is_refused(one.value)
            || declares_labels(one.name)
                && labels_said(one.value).iter().any(|label| names_local_only(label))
    })
}

/// Whether a line of a text says so. What is longer than an answer is prose.
pub(crate) fn local_only_by_line(name: &str, value: &str) -> bool {
    let value = value.trim();
    let is_answer = value.len() <= ANSWER_BYTES_MAX && value.chars().all(char::is_alphanumeric);
    names_local_only(name) && is_answer && !is_refused(&value.into())
}

/// Whether a value, or any record in it, says so.
pub(crate) fn says_local_only_within(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            says_local_only(members) || members.values().any(says_local_only_within)
        }
        Value::Array(items) => items.iter().any(says_local_only_within),
        _ => false,
    }
}

/// The name in the spellings that people use: `local_only`, `local-only`, `Local only`, `localOnly`.
pub(crate) fn names_local_only(name: &str) -> bool {
    name.len() <= 2 * LOCAL_ONLY.len() && {
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).eq("localonly".chars())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_no_file_of_the_bus_other() {
        for (message, shown) in [
            ("other/diary/my visit.md: it is empty", "a file of the bus other: it is empty"),
            ("cannot read other/a.pdf (too large)", "cannot read a file of the bus other"),
            ("other/Anna (divorce), 2.md: it is empty", "a file of the bus other: it is empty"),
            ("other:a.md#3, other:b.md: gone", "a file of the bus other: gone"),
            ("other/a.md", "a file of the bus other"),
            ("chunks/other/a.jsonl: line 3", "chunks/other/a.jsonl: line 3"),
            ("the bus other: it is empty", "the bus other: it is empty"),
            ("another/a.md", "another/a.md"),
        ] {
            assert_eq!(without_file_names(message), shown);
        }
    }

    #[test]
    fn every_rule_that_fits_is_named() {
        let rules = |list: &[&str]| list.iter().map(|one| DataRule::parse(one).unwrap()).collect();
        let rules = PrivacyRules {
            local_only: rules(&["folder:clients*", "label:health", "feed:news"]),
            private: rules(&["label:health"]),
        };
        let mut places = DataPlaces::default();
        places.add_file("clients/a.md");
        places.add(DataPlace::Label, "Health");
        let mut found = rules.of(&places);
        assert_eq!(found.local_only, ["folder:clients*", "label:health"]);
        assert_eq!(found.private, ["label:health"]);
        found.keep_here(OF_REQUEST);
        found.keep_here(OF_REQUEST);
        assert_eq!(Confinement::shown(&found.local_only), "folder:clients* and 2 more");
        let value = found.to_value().unwrap();
        assert_eq!(value["local_only"][2], OF_REQUEST);
        assert_eq!(rules.of(&DataPlaces::default()).to_value(), None);
    }

    #[test]
    fn a_mark_that_is_not_clearly_a_no_keeps_a_text() {
        for (value, kept) in [
            (json!({"local_only": true}), true),
            (json!({"localOnly": "yes"}), true),
            (json!({"Local only": ""}), true),
            (json!({"local_only": "perhaps"}), true),
            (json!({"meta": {"local-only": 1}}), true),
            (json!({"a": {"b": [{"local_only": true}]}}), true),
            (json!({"flags": ["local_only"]}), true),
            (json!({"meta": {"flags": "starred, local-only"}}), true),
            (json!({"flags": {"local_only": false}}), false),
            (json!({"tags": ["local"]}), false),
            (json!({"local_only": false}), false),
            (json!({"local_only": "no"}), false),
            (json!({"local_only": null}), false),
            (json!({"local_only_rule": true}), false),
            (json!({"text": {"local_only": true}}), false),
        ] {
            assert_eq!(says_local_only(value.as_object().unwrap()), kept, "{value}");
        }
    }
}
