//! Statements of the text compared with an input: a posting's requirements with a profile.
//!
//! A statement is met when at least half of its content words stand in the input; without the input
//! nothing is said about it. This compares words, not meaning.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::lexicon::lexicon;
use super::super::text::Kind;
use super::super::text::words::fold;
use super::compare::content_words;
use super::filled::Filled;
use super::hints::Check;
use super::rule::Step;
use super::scene::{Focus, Scene};

/// The statements of a check, each with whether it is `met`.
pub fn statements(scene: &Scene<'_, '_>, check: &Check, focus: &Focus) -> Vec<Focus> {
    let known = affirmed(&scene.input_text(&check.with, focus).unwrap_or_default());
    let known: BTreeSet<String> = words(&known, check);
    let judged = find(scene, check, focus).into_iter().map(|sentence| {
        let met = met(scene.text.sentence(sentence), &known, check);
        let given = Map::from_iter([("met".to_string(), json!(met))]);
        Focus { sentences: vec![sentence], given, ..Focus::default() }
    });
    judged.collect()
}

/// Whether the statement of an element is met; `None` when it could not be judged.
pub fn is_met(element: &Focus) -> Option<bool> {
    element.given.get("met").and_then(Value::as_bool)
}

/// The percentage of the judged statements that are met, or the value of its step.
pub fn share(
    scene: &Scene<'_, '_>,
    check: &Check,
    steps: &[Step],
    fallback: &Value,
    focus: &Focus,
) -> Filled {
    let statements = statements(scene, check, focus);
    let judged: Vec<bool> = statements.iter().filter_map(is_met).collect();
    let met = judged.iter().filter(|met| **met).count();
    let Some(percent) = (100 * met).checked_div(judged.len()) else {
        return Filled::Value(fallback.clone());
    };
    match Step::of(steps, percent as i64, judged.len()) {
        Some(value) => Filled::Value(value.clone()),
        None if steps.is_empty() => Filled::Value(json!(percent)),
        None => Filled::Value(fallback.clone()),
    }
}

fn find(scene: &Scene<'_, '_>, check: &Check, focus: &Focus) -> Vec<usize> {
    let heads = |at: &usize| matches!(scene.text.block_of(*at).kind, Kind::Heading(_));
    let place = |at: usize| (scene.text.block_of(at).part, scene.text.block_of(at).section);
    let headings: Vec<(usize, usize)> =
        scene.saying(&check.under, focus).into_iter().filter(heads).map(place).collect();
    let listed = focus.sentences.iter().copied();
    let listed = listed
        .filter(|&at| scene.text.block_of(at).kind == Kind::Item && headings.contains(&place(at)));
    let mut sentences: Vec<usize> = listed.collect();
    if sentences.is_empty() {
        sentences = scene.saying(&check.cues, focus);
        sentences.retain(|at| !heads(at) && scene.text.block_of(*at).kind != Kind::Header);
    }
    let without = scene.saying(&check.without, focus);
    sentences.retain(|at| !without.contains(at));
    sentences.truncate(check.most);
    sentences
}

fn met(statement: &str, known: &BTreeSet<String>, check: &Check) -> Option<bool> {
    let asked = words(statement, check);
    if known.is_empty() || asked.is_empty() {
        return None;
    }
    let shared = asked.intersection(known).count();
    let said = fold(statement);
    let alternatives = said
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| check.alternatives.iter().any(|other| other == word));
    Some(shared * 2 >= asked.len() || (alternatives && shared > 0))
}

/// The text without the clauses that deny something: `no Java` is no Java.
fn affirmed(text: &str) -> String {
    let denies = |clause: &&str| {
        let clause = fold(clause);
        let mut words = clause.split(|c: char| !(c.is_alphanumeric() || c == '\''));
        words.any(|word| lexicon().denials.contains(word))
    };
    let clauses = text.split(['.', ';', '\n', ',']).filter(|clause| !denies(clause));
    clauses.collect::<Vec<_>>().join(". ")
}

fn words(text: &str, check: &Check) -> BTreeSet<String> {
    let mut found = content_words(text, 2);
    found.retain(|_, written| {
        let written = fold(written);
        written.chars().any(char::is_alphabetic) && !check.common.contains(&written)
    });
    found.into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_met_by_its_words_and_unknown_without_an_input() {
        let check: Check = serde_json::from_value(json!({
            "with": "profile", "most": 9, "common": ["experience", "years"], "alternatives": ["or"]
        }))
        .unwrap();
        let known = words("Python developer, pipelines in SQL and Airflow", &check);
        let met = |statement| met(statement, &known, &check);
        assert_eq!(met("3+ years of experience with Python"), Some(true));
        assert_eq!(met("Kubernetes and Terraform"), Some(false));
        assert_eq!(met("Airflow or Prefect or Dagster"), Some(true));
        assert_eq!(super::met("Python", &BTreeSet::new(), &check), None);
    }
}
