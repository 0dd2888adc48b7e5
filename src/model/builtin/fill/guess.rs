//! The rule for a member that has no hint: by its type and the usual meaning of its name (see
//! `members.toml`).
//!
//! A member whose name has no common meaning stays empty rather than being filled with something
//! plausible.

use serde_json::json;

use super::super::text::words::fold;
use super::conform::Node;
use super::filled::Filled;
use super::members::members;
use super::rule::{Over, Rule};
use super::scene::{Focus, Scene};
use super::texts::tag;

/// Elements of a list of objects, and sentences of a list of texts.
const OBJECTS_MAX: usize = 10;
const SENTENCES_MAX: usize = 5;
/// Longest sentence, in bytes.
const SENTENCE_BYTES_MAX: usize = 240;
/// What the embedded provider is sure of without a pack's hints.
const CONFIDENCE: f64 = 0.3;

/// Finds a value for a member by its name and schema.
pub(super) fn guess(name: &str, node: Node<'_>, scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let choices = node.enum_strings();
    if !choices.is_empty() {
        return by_own_words(&choices, scene, focus);
    }
    if let Some(value) = scene.input(name, focus) {
        return Filled::Value(value.clone());
    }
    if node.allows("array") && !node.allows("string") {
        return list(name, node, scene, focus);
    }
    if node.properties().is_some() {
        return object(node, scene, focus);
    }
    if node.allows("boolean") && !node.allows("string") {
        return Filled::Nothing;
    }
    let numeric = !node.allows("string");
    let meant = if numeric { name } else { &tag(name) };
    match members().value(meant, numeric) {
        Some(rule) => scene.eval(rule, focus),
        None if members().is_confidence(&fold(name)) => match numeric {
            true => Filled::Value(json!(CONFIDENCE)),
            false => Filled::text("low"),
        },
        None if numeric => Filled::Nothing,
        None => match members().purpose(meant) {
            Some(purpose) => scene.eval(
                &Rule::Sentence {
                    over: Over { purpose: Some(purpose), ..Over::default() },
                    bytes: SENTENCE_BYTES_MAX,
                    who: None,
                    bare: false,
                },
                focus,
            ),
            None => Filled::Nothing,
        },
    }
}

fn object(node: Node<'_>, scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let names = node.properties().into_iter().flat_map(|properties| properties.keys());
    let member =
        |name: &String| Some((name.clone(), guess(name, node.property(name)?, scene, focus)));
    Filled::Object(names.filter_map(member).collect())
}

fn by_own_words(choices: &[&str], scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let said = choices
        .iter()
        .map(|choice| (choice, scene.mentions(&choice.replace('_', " "), focus).len()));
    match said.filter(|(_, count)| *count > 0).max_by_key(|(_, count)| *count) {
        Some((choice, _)) => Filled::text(*choice),
        None => Filled::Nothing,
    }
}

fn list(name: &str, node: Node<'_>, scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let name = fold(name);
    let purpose = members().purpose(&name);
    if let Some(items) = node.items().filter(|items| items.properties().is_some()) {
        if purpose.is_none() {
            return Filled::List(Vec::new());
        }
        let over = Over { purpose, ..Over::default() };
        let chosen = scene.best_of(scene.select(&over, focus, None), OBJECTS_MAX).into_iter();
        let element = |at: usize| Focus { sentences: vec![at], ..Focus::default() };
        return Filled::List(chosen.map(|at| object(items, scene, &element(at))).collect());
    }
    if let Some(rule) = members().list(&name) {
        return scene.eval(rule, focus);
    }
    let best = purpose.is_none() && members().is_list_of_the_best(&name);
    let cues = match purpose.is_none() && !best {
        true => vec![name.replace('_', " ")],
        false => Vec::new(),
    };
    let over = Over { purpose, best, cues, ..Over::default() };
    scene.eval(
        &Rule::Sentences {
            over,
            most: SENTENCES_MAX,
            bytes: SENTENCE_BYTES_MAX,
            who: None,
            named: false,
        },
        focus,
    )
}
