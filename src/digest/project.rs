//! How a summary gets its project: rules in the file of selectors, tried in order.
//!
//! Contract. The first rule whose value is there and fits decides. A rule reads one place: the
//! request, the source itself, a label, the feed, the mailbox, the folder or the repository that
//! asked. What a flow calls its project is used only by a rule that says so, because many flows put
//! the same word on everything.
//!
//! See docs/adr/0097-projects-and-groups-by-content.md.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;

use crate::contract::hash::Digest;
use crate::contract::json::jcs_hash;
use crate::contract::vocabulary::spellings;

pub(crate) const RULES_VERSION: &str = "project_rules.v1";

spellings! {
    /// Where a rule reads a project.
    ProjectFrom {
        /// `params.project` of the request.
        Request "request",
        /// The project that the source names.
        Source "source",
        Label "label",
        Folder "folder",
        Feed "feed",
        Mailbox "mailbox",
        /// `requested_by.repo`.
        Repo "repo",
        /// The project that the flow wrote.
        Flow "flow",
    }
}

impl ProjectFrom {
    /// The value of an item at this place.
    fn value(self, named: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let text = match self {
            ProjectFrom::Request | ProjectFrom::Source | ProjectFrom::Flow => {
                // Items of other programs have a project and not the rule that named it.
                let from = named("project_from").unwrap_or_else(|| "source".to_owned());
                (from == self.as_str()).then(|| named("project")).flatten()
            }
            place => named(place.as_str()),
        };
        text.map(|text| one_spelling(text.trim())).filter(|text| !text.is_empty())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRule {
    from: ProjectFrom,
    /// Only these values; one that ends with `*` stands for all that begin so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    only: Vec<String>,
    /// All but these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    not: Vec<String>,
    /// The name of the project; without it, the value itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
}

fn is_one_of(value: &str, list: &[impl AsRef<str>]) -> bool {
    list.iter().any(|one| match one.as_ref().strip_suffix('*') {
        Some(beginning) => value.starts_with(&one_spelling(beginning)),
        None => one_spelling(one.as_ref()) == value,
    })
}

/// The rules of a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRules {
    pub rules: Vec<ProjectRule>,
}

/// The repositories that this program writes where a person names none. They are no project unless a
/// rule lists them.
const OWN_REPOS: &[&str] = &["summarizer*", "cli"];
/// Labels of mail programs that say where a mail lies and not what it is about.
const LABELS_OF_PLACE: &[&str] =
    &["inbox", "Inbox", "INBOX", "sent", "Sent", "unread", "Unread", "important", "Important"];

impl Default for ProjectRules {
    /// Every place but the word of a flow.
    fn default() -> ProjectRules {
        let rule = |from| ProjectRule { from, only: Vec::new(), not: Vec::new(), project: None };
        let not = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        ProjectRules {
            rules: vec![
                rule(ProjectFrom::Request),
                rule(ProjectFrom::Source),
                ProjectRule { not: not(LABELS_OF_PLACE), ..rule(ProjectFrom::Label) },
                rule(ProjectFrom::Feed),
                ProjectRule {
                    not: not(&["inbox", "Inbox", "INBOX"]),
                    ..rule(ProjectFrom::Mailbox)
                },
                rule(ProjectFrom::Folder),
                ProjectRule { not: not(OWN_REPOS), ..rule(ProjectFrom::Repo) },
            ],
        }
    }
}

impl ProjectRules {
    /// True where the file of the home says what the program does without it.
    pub(crate) fn is_default(&self) -> bool {
        *self == ProjectRules::default()
    }

    pub(crate) fn hash(&self) -> Digest {
        jcs_hash(&serde_json::to_value(self).unwrap_or_default())
    }

    /// The project of an item, and where it was read.
    pub fn project(&self, meta: &Map<String, Value>) -> Option<(String, ProjectFrom)> {
        self.project_by(&|name| meta.get(name).and_then(scalar))
    }

    /// The same for an item whose `meta` is read by names.
    pub(crate) fn project_by(
        &self,
        named: &dyn Fn(&str) -> Option<String>,
    ) -> Option<(String, ProjectFrom)> {
        self.rules.iter().find_map(|rule| {
            let value = rule.from.value(named)?;
            let fits = match rule.only.as_slice() {
                [] => rule.from != ProjectFrom::Repo || !is_one_of(&value, OWN_REPOS),
                only => is_one_of(&value, only),
            } && !is_one_of(&value, &rule.not);
            let named = rule.project.as_deref().map(one_spelling);
            fits.then(|| (named.unwrap_or(value), rule.from))
        })
    }
}

/// One spelling of a name: a file system may write `é` as two characters, and a person as one.
pub(crate) fn one_spelling(text: &str) -> String {
    text.nfc().collect()
}

/// A scalar as text, as selectors compare it.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(one_spelling(text)),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn project(rules: &ProjectRules, meta: Value) -> Option<(String, &'static str)> {
        let found = rules.project(meta.as_object().unwrap());
        found.map(|(project, from)| (project, from.as_str()))
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = ProjectRules::default();
        for (meta, expected) in [
            (
                json!({"project": "flat", "project_from": "request", "folder": "x"}),
                ("flat", "request"),
            ),
            (json!({"project": "flat"}), ("flat", "source")),
            (
                json!({"project": "Health", "project_from": "flow", "folder": "site"}),
                ("site", "folder"),
            ),
            (json!({"label": "Inbox", "mailbox": "work"}), ("work", "mailbox")),
            (json!({"repo": "crm", "feed": "Rust Blog"}), ("Rust Blog", "feed")),
            (json!({"repo": "crm"}), ("crm", "repo")),
        ] {
            let (name, from) = expected;
            assert_eq!(project(&rules, meta), Some((name.to_owned(), from)));
        }
        let none = json!({"project": "Health", "project_from": "flow", "repo": "summarizer add"});
        assert_eq!(project(&rules, none), None);
        assert_eq!(project(&rules, json!({"repo": "cli"})), None, "`submit` names it by default");
    }

    #[test]
    fn two_spellings_of_a_name_are_one_project() {
        let (composed, apart) = ("Caf\u{e9}", "Cafe\u{301}");
        let rules = ProjectRules::default();
        let only = |name: &str| -> ProjectRules {
            let rule = json!({"from": "folder", "only": [name]});
            serde_json::from_value(json!({"rules": [rule]})).unwrap()
        };
        let expected = Some((composed.to_owned(), "folder"));
        for name in [composed, apart] {
            assert_eq!(project(&rules, json!({"folder": name})), expected);
            assert_eq!(project(&only(composed), json!({"folder": name})), expected);
            assert_eq!(project(&only(apart), json!({"folder": name})), expected);
        }
    }

    #[test]
    fn declared_rules_choose_and_rename() {
        let rules: ProjectRules = serde_json::from_value(json!({"rules": [
            {"from": "folder", "only": ["acme*"], "project": "ACME"},
            {"from": "flow", "not": ["Other"]}]}))
        .unwrap();
        let acme = json!({"folder": "acme-2026"});
        assert_eq!(project(&rules, acme), Some(("ACME".to_owned(), "folder")));
        let flow = json!({"folder": "notes", "project": "Health", "project_from": "flow"});
        assert_eq!(project(&rules, flow), Some(("Health".to_owned(), "flow")));
        assert_eq!(project(&rules, json!({"project": "Other", "project_from": "flow"})), None);
    }

    #[test]
    fn the_repositories_that_the_program_writes_are_no_projects_in_own_rules_either() {
        let rules = |rule: Value| serde_json::from_value(json!({"rules": [rule]})).unwrap();
        let every: ProjectRules = rules(json!({"from": "repo"}));
        let listed: ProjectRules = rules(json!({"from": "repo", "only": ["cli"]}));
        for own in ["cli", "summarizer"] {
            assert_eq!(project(&every, json!({"repo": own})), None, "{own}");
        }
        assert_eq!(project(&every, json!({"repo": "crm"})), Some(("crm".to_owned(), "repo")));
        assert_eq!(project(&listed, json!({"repo": "cli"})), Some(("cli".to_owned(), "repo")));
    }
}
