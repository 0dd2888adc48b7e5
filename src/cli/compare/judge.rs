//! Compares outputs with each other and with the text that they are about.
//!
//! Contract: pure. `agreement` is symmetric, between 0 and 1, and 1 for equal values. A value counts as not
//! in the text by words, numbers, names and addresses that the text lacks. It is a hint for a reader: a
//! paraphrase may use other words, and a wrong sentence may use only words of the text.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::NaiveDate;
use serde::Serialize;
use serde_json::Value;

use crate::model::builtin::text::words::fold;

/// Letters of a word that are compared, so that its forms count as one word.
const STEM_CHARS: usize = 5;
/// Words of a value that is a name or a label rather than prose.
const LABEL_WORDS_MAX: usize = 6;
/// Letters of a word that says something.
const WORD_CHARS_MIN: usize = 3;
/// Days around a known date that a text may mean by words such as "tomorrow" and "next Friday".
const RELATIVE_DAYS: i64 = 14;
/// Elements of a list that are compared.
const ELEMENTS_MAX: usize = 200;
/// Missing words that are listed for one value.
const MISSING_MAX: usize = 8;

/// A value of an output that the text does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct NotInText {
    /// JSON pointer into the output.
    pub pointer: String,
    pub value: String,
    /// The words and numbers that the text lacks.
    pub missing: Vec<String>,
}

/// The values of one output that can be looked up in the text, and those that are not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct Lookup {
    pub values: usize,
    pub not_in_text: Vec<NotInText>,
}

/// What a flow was given, prepared for looking up values.
#[derive(Debug, Default)]
pub(in crate::cli) struct GivenText {
    /// The whole text, for addresses and ids.
    whole: String,
    stems: HashSet<String>,
    numbers: HashSet<String>,
    /// Numbers that may be days of a month: those outside times of day.
    day_numbers: HashSet<String>,
    days: Vec<NaiveDate>,
}

impl GivenText {
    pub(super) fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> GivenText {
        let mut given = GivenText::default();
        for text in texts {
            given.whole.push_str(text);
            given.whole.push('\n');
            given.stems.extend(words(text).map(|word| stem(&word)));
            for number in numbers(text) {
                given.numbers.extend(runs(&number).map(str::to_owned));
                given.numbers.insert(joined(&number));
                if !number.contains(':') {
                    given.day_numbers.extend(runs(&number).map(str::to_owned));
                }
            }
            given.days.extend(text.split_whitespace().filter_map(day_of));
        }
        given
    }

    /// Looks up the strings of an output. A member with a closed list of values is a judgement and is not
    /// looked up.
    pub(super) fn look_up(&self, schema: Option<&Value>, output: &Value) -> Lookup {
        let mut found = Lookup::default();
        self.walk(schema.into_iter().collect(), output, &mut String::new(), &mut found);
        found
    }

    fn walk(&self, schemas: Vec<&Value>, value: &Value, pointer: &mut String, found: &mut Lookup) {
        let schemas = branches(schemas);
        let length = pointer.len();
        match value {
            Value::String(text) if !text.trim().is_empty() => {
                if schemas.iter().any(|schema| lists(schema, value)) {
                    return;
                }
                found.values += 1;
                let missing = self.missing(text.trim());
                if !missing.is_empty() {
                    let (pointer, value) = (pointer.clone(), text.clone());
                    found.not_in_text.push(NotInText { pointer, value, missing });
                }
            }
            Value::Array(elements) => {
                let items = schemas.iter().filter_map(|schema| schema.get("items"));
                let items: Vec<&Value> = items.collect();
                for (index, element) in elements.iter().enumerate() {
                    pointer.push_str(&format!("/{index}"));
                    self.walk(items.clone(), element, pointer, found);
                    pointer.truncate(length);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let own = schemas.iter().filter_map(|schema| schema["properties"].get(name));
                    let own: Vec<&Value> = own.collect();
                    pointer.push('/');
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    self.walk(own, member, pointer, found);
                    pointer.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// The words and numbers of a value that the text lacks.
    fn missing(&self, value: &str) -> Vec<String> {
        if value.contains("://") || value.contains('@') {
            let has = |part: &&str| part.contains("://") || part.contains('@');
            let parts = value.split_whitespace().filter(has);
            let parts = parts.map(|part| part.trim_matches(|c: char| "<>()[]{}\"',.;".contains(c)));
            return parts
                .filter(|part| !self.whole.contains(part))
                .take(MISSING_MAX)
                .map(str::to_owned)
                .collect();
        }
        if self.whole.contains(value) {
            return Vec::new();
        }
        if let Some(day) = day_of(value) {
            return if self.means(day) { Vec::new() } else { vec![value.to_owned()] };
        }
        let mut missing: Vec<String> =
            numbers(value).filter(|number| !self.has_number(number)).collect();
        missing.extend(names(value).filter(|name| !self.has_words(name)).map(str::to_owned));
        let content: Vec<String> =
            words(value).filter(|word| word.chars().count() >= WORD_CHARS_MIN).collect();
        let is_label = value.split_whitespace().count() <= LABEL_WORDS_MAX;
        let known = content.iter().any(|word| self.stems.contains(&stem(word)));
        if missing.is_empty() && is_label && !known && !content.is_empty() {
            missing.push(value.to_owned());
        }
        missing.truncate(MISSING_MAX);
        missing
    }

    fn has_words(&self, name: &str) -> bool {
        words(name).all(|word| self.stems.contains(&stem(&word)))
    }

    fn has_number(&self, number: &str) -> bool {
        let all_runs = || runs(number).all(|run| run.is_empty() || self.numbers.contains(run));
        self.numbers.contains(&joined(number)) || all_runs()
    }

    /// Whether the text names the day, or a date near enough to mean it by a word.
    fn means(&self, day: NaiveDate) -> bool {
        let near = |known: &NaiveDate| (day - *known).num_days().abs() <= RELATIVE_DAYS;
        let number = chrono::Datelike::day(&day).to_string();
        self.days.iter().any(near) || self.day_numbers.contains(&number)
    }
}

/// The schemas that a value may follow, with the alternatives of each.
fn branches(mut schemas: Vec<&Value>) -> Vec<&Value> {
    let mut at = 0;
    while let Some(schema) = schemas.get(at).copied() {
        for keyword in ["anyOf", "oneOf", "allOf"] {
            schemas.extend(schema.get(keyword).and_then(Value::as_array).into_iter().flatten());
        }
        at += 1;
    }
    schemas
}

/// Whether a schema lists a value among the few that it allows.
fn lists(schema: &Value, value: &Value) -> bool {
    let listed = schema.get("enum").and_then(Value::as_array);
    listed.is_some_and(|values| values.contains(value)) || schema.get("const") == Some(value)
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let folded = fold(text);
    let words = folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn stem(word: &str) -> String {
    word.chars().take(STEM_CHARS).collect()
}

/// Digits with the marks inside them: `1,200.50`, `10:30`, `2026-02-11`.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_ascii_digit() || ".,:/-'".contains(c);
    let parts = text.split(move |c: char| !is_part(c));
    let parts = parts.map(|part| part.trim_matches(|c: char| !c.is_ascii_digit()));
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// The stretches of digits, without zeros in front.
fn runs(number: &str) -> impl Iterator<Item = &str> {
    number.split(|c: char| !c.is_ascii_digit()).map(|run| run.trim_start_matches('0'))
}

fn joined(number: &str) -> String {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    digits.trim_start_matches('0').to_owned()
}

/// Words with a capital inside a sentence.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let mut begins = true;
    text.split_whitespace().filter_map(move |part| {
        let word = part.trim_matches(|c: char| !c.is_alphanumeric());
        let first = begins || part.starts_with(|c: char| !c.is_alphanumeric());
        begins =
            part.ends_with(['.', '!', '?', ':', '|', '•', '-', '–', '—', '…']) || word.is_empty();
        let capital = word.chars().next().is_some_and(char::is_uppercase);
        (!first && capital && word.chars().count() >= WORD_CHARS_MIN).then_some(word)
    })
}

/// The day of an ISO date or moment.
fn day_of(text: &str) -> Option<NaiveDate> {
    let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let (day, rest) = text.split_at_checked(10)?;
    let is_moment = rest.is_empty() || rest.starts_with(['T', ' ']);
    NaiveDate::parse_from_str(day, "%Y-%m-%d").ok().filter(|_| is_moment)
}

/// How far two values say the same, from 0 to 1.
pub(in crate::cli) fn agreement(a: &Value, b: &Value) -> f64 {
    match (a, b) {
        _ if is_silent(a) && is_silent(b) => 1.0,
        _ if is_silent(a) || is_silent(b) => 0.0,
        (Value::String(a), Value::String(b)) => texts_agree(a, b),
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) if is_share(a) && is_share(b) => 1.0 - (a - b).abs(),
            (a, b) => f64::from(a == b),
        },
        (Value::Array(a), Value::Array(b)) => lists_agree(a, b),
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let of = |map: &serde_json::Map<String, Value>, name: &String| map.get(name).cloned();
            let each = names.iter().map(|name| {
                agreement(&of(a, name).unwrap_or_default(), &of(b, name).unwrap_or_default())
            });
            each.sum::<f64>() / names.len().max(1) as f64
        }
        (a, b) => f64::from(a == b),
    }
}

fn is_silent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn is_share(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}

/// A text without a space (a date, an id, a label) is equal or different; others share words.
fn texts_agree(a: &str, b: &str) -> f64 {
    let (a, b) = (a.trim(), b.trim());
    if !a.contains(char::is_whitespace) || !b.contains(char::is_whitespace) {
        return f64::from(fold(a) == fold(b));
    }
    let count = |text: &str| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        words(text).for_each(|word| *counts.entry(word).or_default() += 1);
        counts
    };
    let (a, b) = (count(a), count(b));
    let total = a.values().sum::<usize>() + b.values().sum::<usize>();
    let both: usize =
        a.iter().map(|(word, many)| (*many).min(b.get(word).copied().unwrap_or(0))).sum();
    if total == 0 { 1.0 } else { 2.0 * both as f64 / total as f64 }
}

/// Pairs the elements that agree best, the best pair first; an element without a partner agrees with none.
fn lists_agree(a: &[Value], b: &[Value]) -> f64 {
    let (a, b) = (&a[..a.len().min(ELEMENTS_MAX)], &b[..b.len().min(ELEMENTS_MAX)]);
    let mut pairs: Vec<(f64, usize, usize)> = Vec::with_capacity(a.len() * b.len());
    for (i, one) in a.iter().enumerate() {
        pairs.extend(b.iter().enumerate().map(|(j, other)| (agreement(one, other), i, j)));
    }
    pairs.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)).then(x.2.cmp(&y.2)));
    let (mut left, mut right) = (vec![false; a.len()], vec![false; b.len()]);
    let mut sum = 0.0;
    for (score, i, j) in pairs {
        if !left[i] && !right[j] {
            (left[i], right[j]) = (true, true);
            sum += score;
        }
    }
    sum / a.len().max(b.len()).max(1) as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agreement_is_symmetric_and_one_for_equal_values() {
        let values = [
            json!(null),
            json!("2026-02-11"),
            json!("The lease ends on Friday"),
            json!(["a b c", "d e", {"x": 1}]),
            json!({"a": 0.4, "b": [1, 2], "c": null}),
            json!(0.7),
            json!(true),
        ];
        for a in &values {
            assert_eq!(agreement(a, a), 1.0, "{a}");
            for b in &values {
                let (there, back) = (agreement(a, b), agreement(b, a));
                assert!((there - back).abs() < 1e-9, "{a} {b}");
                assert!((0.0..=1.0).contains(&there));
            }
        }
        assert_eq!(agreement(&json!("2026-02-11"), &json!("2026-02-12")), 0.0);
        assert_eq!(agreement(&json!(null), &json!([])), 1.0);
        assert_eq!(agreement(&json!(null), &json!("x")), 0.0);
        assert_eq!(agreement(&json!(["x", "y"]), &json!(["y", "x"])), 1.0);
        assert_eq!(agreement(&json!(["x"]), &json!(["x", "y"])), 0.5);
        assert!((agreement(&json!(0.9), &json!(0.8)) - 0.9).abs() < 1e-9);
        assert_eq!(agreement(&json!(100), &json!(90)), 0.0);
        assert_eq!(agreement(&json!("the lease ends"), &json!("the lease starts")), 2.0 / 3.0);
    }

    #[test]
    fn only_values_that_the_text_lacks_are_listed() {
        let given = GivenText::of([
            "Ana Pérez meets the landlord on Friday, 13 March, at 10:30. Rent: 1,200 EUR. See \
             https://example.org/lease",
            "2026-02-19",
        ]);
        let schema = json!({
            "properties": {
                "kind": {"enum": ["meeting", null]},
                "open": {"anyOf": [{"type": "null"}, {"enum": ["late"]}]},
                "list": {"items": {"properties": {"who": {"type": "string"}}}},
            }
        });
        let said = json!({
            "kind": "meeting", "open": "late", "who": "ANA PEREZ", "when": "2026-03-13T10:30:00",
            "soon": "2026-02-25", "rent": "1200 EUR", "url": "https://example.org/lease",
            "prose": "The rent is 1.200 EUR. Meetings with the landlord take place at 10:30.",
            "none": null, "empty": "", "number": 7,
        });
        let lookup = given.look_up(Some(&schema), &said);
        assert_eq!(lookup.not_in_text, [], "{:?}", lookup.not_in_text);
        assert_eq!(lookup.values, 6);
        let invented = json!({
            "kind": "party", "who": "Bob Stone", "when": "2027-11-30", "rent": "1300 EUR",
            "url": "https://example.com/", "prose": "The landlord and Carla agree on rent.",
            "list": [{"who": "Zoe"}],
        });
        let lookup = given.look_up(Some(&schema), &invented);
        let found: BTreeMap<&str, Vec<&str>> = lookup
            .not_in_text
            .iter()
            .map(|one| (one.pointer.as_str(), one.missing.iter().map(String::as_str).collect()))
            .collect();
        let expected: BTreeMap<&str, Vec<&str>> = BTreeMap::from([
            ("/kind", vec!["party"]),
            ("/who", vec!["Stone"]),
            ("/when", vec!["2027-11-30"]),
            ("/rent", vec!["1300"]),
            ("/url", vec!["https://example.com/"]),
            ("/prose", vec!["Carla"]),
            ("/list/0/who", vec!["Zoe"]),
        ]);
        assert_eq!(found, expected);
    }
}
