//! `hints.json`: a pack says how the embedded provider fills its schema. `docs/flow-packs.md` describes
//! every member, `schemas/flow_pack_hints.v1.schema.json` is the schema.
//!
//! `fields` gives a rule for each member of the output; a member without one is filled by its name and
//! type (see `guess`). Unknown members are refused, so that a misspelt hint is an error.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::rule::{Rule, Step};

/// A string that stands for a list begins with this.
const LIST_MARK: char = '@';

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, remote = "Self")]
pub struct Hints {
    /// Inputs that hold the date relative dates are counted from; the first usable one wins.
    pub anchor: Vec<String>,
    /// Inputs whose text stands before the sources (a mail's subject), unless a source holds it.
    pub text: Vec<String>,
    /// Inputs whose text stands behind the sources (notes for a text that is asked for).
    pub more: Vec<String>,
    /// The list the call is about, when it is about a list.
    pub items: Option<ItemsHint>,
    /// Length of the plain summary.
    pub summary: Option<Size>,
    /// Whom the text is about, such as the employer of a job post. A summary that does not name it begins with it.
    pub about: Option<Rule>,
    /// What the answer is about one of. Of several mails that are no thread, only the one that has it is read.
    pub one: Option<One>,
    /// Length of everything by variant, in percent.
    pub budget_percent: BTreeMap<String, usize>,
    /// What a call without schema answers; the summary by default.
    pub answer: Option<Rule>,
    pub fields: BTreeMap<String, Rule>,
    pub checks: BTreeMap<String, Check>,
    pub ranking: Option<Ranking>,
    pub tables: BTreeMap<String, Table>,
    /// The question for a small model.
    pub small: Option<SmallHint>,
}

/// What an answer has one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum One {
    Event,
}

/// The members that a small model is asked for. Rules fill the others.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmallHint {
    pub ask: Vec<String>,
    /// Rules that go before those of `fields`: they may look at what the model said.
    #[serde(default)]
    pub fields: BTreeMap<String, Rule>,
}

impl<'de> Deserialize<'de> for Hints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let lists = value.as_object_mut().and_then(|map| map.remove("lists"));
        let lists = read_lists(lists.unwrap_or_default()).map_err(D::Error::custom)?;
        put_lists(&mut value, &lists).map_err(D::Error::custom)?;
        Hints::deserialize(value).map_err(D::Error::custom)
    }
}

/// Word lists by name; a list may be split by language.
fn read_lists(lists: Value) -> Result<BTreeMap<String, Vec<String>>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Plain(Vec<String>),
        ByLanguage(BTreeMap<String, Vec<String>>),
    }
    let lists: Option<BTreeMap<String, Words>> = serde_json::from_value(lists)?;
    let words = |words| match words {
        Words::Plain(words) => words,
        Words::ByLanguage(languages) => languages.into_values().flatten().collect(),
    };
    Ok(lists.unwrap_or_default().into_iter().map(|(name, list)| (name, words(list))).collect())
}

/// Puts the words of a list where its name stands: `["@posting", "cv"]`.
fn put_lists(value: &mut Value, lists: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
    match value {
        Value::Array(elements) => {
            let mut put = Vec::with_capacity(elements.len());
            for mut element in std::mem::take(elements) {
                match element.as_str().and_then(|text| text.strip_prefix(LIST_MARK)) {
                    Some(name) => {
                        let list = lists.get(name).ok_or(format!("no list is named {name}"))?;
                        put.extend(list.iter().cloned().map(Value::String));
                    }
                    None => {
                        put_lists(&mut element, lists)?;
                        put.push(element);
                    }
                }
            }
            *elements = put;
            Ok(())
        }
        Value::Object(map) => map.values_mut().try_for_each(|member| put_lists(member, lists)),
        _ => Ok(()),
    }
}

/// Which input is a list of objects, and which members of an object are its text and its id.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemsHint {
    pub input: String,
    /// Members that make up an item's text, in order.
    #[serde(default)]
    pub text: Vec<String>,
    /// Members that may hold its id.
    #[serde(default)]
    pub id: Vec<String>,
    /// A single item that is only a text with a list in it stands for the items of that list.
    #[serde(default)]
    pub split: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    pub sentences: usize,
    pub bytes: usize,
}

/// Statements of the text that are compared with an input, word by word.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub with: String,
    /// The statements are the list items under headings that say one of these,
    #[serde(default)]
    pub under: Vec<String>,
    /// and in a text without such items, the sentences that say one of these.
    #[serde(default)]
    pub(crate) cues: Vec<String>,
    /// Statements that say one of these are left out.
    #[serde(default)]
    pub without: Vec<String>,
    /// Words that every such statement has and that decide nothing.
    #[serde(default)]
    pub common: Vec<String>,
    /// Headings and labels of what is only welcome: it is no statement.
    #[serde(default)]
    pub(crate) welcome: Vec<String>,
    /// A statement that says one of these is about a permit; the input meets it where it says one of
    /// `permitted`, and does not where it denies one.
    #[serde(default)]
    pub(crate) formal: Vec<String>,
    #[serde(default)]
    pub(crate) permitted: Vec<String>,
    /// Words that mean the same; `*` stands for any ending.
    #[serde(default)]
    pub(crate) same: Vec<Vec<String>>,
    /// Words for levels, the lowest first: a statement with a level needs that level or a higher one.
    #[serde(default)]
    pub(crate) levels: Vec<Vec<String>>,
    /// Words for years: a statement that asks for some is compared by their number too.
    #[serde(default)]
    pub(crate) years: Vec<String>,
    /// Words that join alternatives: one of them is enough.
    #[serde(default)]
    pub(crate) alternatives: Vec<String>,
    pub most: usize,
}

/// How items are put in order: by likeness to an input, by a fit they state, and by their date.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranking {
    /// The input an item is compared with.
    pub with: String,
    /// The input with the day dates are judged by; without it no date is past.
    pub(crate) as_of: String,
    /// Members of an item that hold its title, its date, its link and a fit (0..=1 or percent).
    pub title: Vec<String>,
    pub date: Vec<String>,
    pub link: Vec<String>,
    #[serde(default)]
    pub fit: Vec<String>,
    pub points: RankingPoints,
    /// The route of an item, by its score.
    pub(crate) routes: Vec<Step>,
    pub reasons: RankingReasons,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankingPoints {
    /// Where the score starts with an input to compare with; without one there is no score.
    pub compared: i64,
    /// Points for each shared word, and how many words count.
    pub word: i64,
    pub words: usize,
    /// Points for a date within so many days.
    pub soon: i64,
    pub days: i64,
}

/// The sentences that say what decided a score.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankingReasons {
    /// With `{words}`.
    pub shared: String,
    pub(crate) nothing_shared: String,
    /// With `{percent}`.
    pub fit: String,
    pub past: String,
    /// With `{days}`.
    pub soon: String,
    pub(crate) undated: String,
    /// Why an item has no score.
    #[serde(default)]
    pub(crate) unjudged: String,
    /// With `{words}`: what the item needs and the input denies.
    #[serde(default)]
    pub(crate) barred: String,
}

/// Rows that a pack gives itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub rows: Vec<Map<String, Value>>,
    /// Members of the rows in another language, by its code.
    #[serde(default)]
    pub(crate) languages: BTreeMap<String, Vec<Map<String, Value>>>,
    /// Which rows, in which order: the first list that is long enough.
    #[serde(default)]
    pub orders: Vec<Vec<usize>>,
    /// The input that says how many rows, and how many without it.
    pub count: String,
    pub usual: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_list_stands_for_its_words() {
        let text = r#"{"lists": {"pay": {"en": ["salary"], "es": ["sueldo"]}},
                       "fields": {"pay": {"use": "amount", "cues": ["@pay", "gross"]}}}"#;
        let hints: Hints = serde_json::from_str(text).unwrap();
        let Rule::Amount { cues } = &hints.fields["pay"] else { panic!("{hints:?}") };
        assert_eq!(cues, &["salary", "sueldo", "gross"]);
    }

    #[test]
    fn unknown_lists_members_and_rules_are_refused() {
        for text in [
            r#"{"fields": {"pay": {"use": "amount", "cues": ["@pay"]}}}"#,
            r#"{"feilds": {}}"#,
            r#"{"fields": {"pay": {"use": "amount", "cue": []}}}"#,
            r#"{"fields": {"pay": {"use": "money"}}}"#,
        ] {
            assert!(serde_json::from_str::<Hints>(text).is_err(), "{text}");
        }
    }
}
