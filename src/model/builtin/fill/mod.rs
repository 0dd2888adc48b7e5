//! Fills a JSON Schema from a text by hints: the structured half of the embedded provider.
//!
//! Contract: for any text, inputs and schema the result is valid against the schema; a string taken
//! from a source carries its exact span; what is not found is null, empty or the schema's most modest
//! value. Properties are filled in the order of the schema; those whose rule looks at others come last.
//!
//! See docs/adr/0081-packs-declare-embedded-rules.md.

mod alike;
mod asks;
mod backing;
mod checks;
mod compare;
mod conform;
mod conversation;
mod dependent;
pub(crate) mod due;
pub(crate) mod duties;
mod elements;
pub(crate) mod event;
pub mod excerpt;
pub mod filled;
mod fraud;
pub mod gather;
mod guess;
mod head;
pub(crate) mod headlines;
pub mod hints;
mod latex;
mod mail;
mod members;
mod objects;
pub(crate) mod one_mail;
mod page;
mod people;
mod posting;
mod ranking;
pub mod rule;
mod rules;
pub mod scene;
pub(crate) mod signals;
mod speakers;
mod steps;
mod subject;
mod texts;

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::rank::select::QuotedRange;
use crate::contract::schema;
use conform::{Node, conform, modest};
use dependent::dependent;
use filled::Filled;
use hints::Hints;
use scene::{Focus, Scene};

/// Rounds of replacing what the real validator still refuses.
const REPAIRS_MAX: usize = 8;

/// The answer to a call with a schema: the object, and the pieces of its strings by JSON pointer. The
/// members that are `given` stand as they are.
pub fn fill(
    scene: &Scene<'_, '_>,
    schema: &Value,
    validator: Option<&Validator>,
    hints: &Hints,
    given: &Map<String, Value>,
) -> (Value, Vec<(String, QuotedRange)>) {
    let node = Node::root(schema);
    let focus = scene.all();
    let found = match node.properties() {
        Some(_) => Filled::Object(members(scene, node, hints, &focus, given)),
        None => guess::guess("", node, scene, &focus),
    };
    let mut pieces = Vec::new();
    let mut value = conform(found, node).into_value("", &mut pieces);
    if let Some(members) = value.as_object_mut() {
        let known = given.iter().filter(|(name, _)| node.property(name).is_some());
        members.extend(known.map(|(name, value)| (name.clone(), value.clone())));
    }
    match validator {
        Some(validator) => repair(&mut value, schema, validator, &mut pieces),
        // A schema that does not compile accepts whatever was found.
        None => {
            if let Ok(validator) = schema::compile(schema) {
                repair(&mut value, schema, &validator, &mut pieces);
            }
        }
    }
    (value, pieces)
}

fn members(
    scene: &Scene<'_, '_>,
    node: Node<'_>,
    hints: &Hints,
    focus: &Focus,
    given: &Map<String, Value>,
) -> Vec<(String, Filled)> {
    let mut members: Vec<(String, Filled)> = Vec::new();
    let mut waiting = Vec::new();
    let beside = hints.small.as_ref().filter(|_| !given.is_empty());
    for name in node.properties().into_iter().flat_map(|properties| properties.keys()) {
        if let Some(value) = given.get(name) {
            members.push((name.clone(), Filled::Value(value.clone())));
            continue;
        }
        let beside = beside.and_then(|small| small.fields.get(name));
        let found = match beside.or_else(|| hints.fields.get(name)) {
            Some(rule) if rule.depends() => {
                waiting.push((name, rule));
                Filled::Nothing
            }
            Some(rule) => scene.eval(rule, focus),
            None => node
                .property(name)
                .map(|property| guess::guess(name, property, scene, focus))
                .unwrap_or_default(),
        };
        members.push((name.clone(), found));
    }
    for (name, rule) in waiting {
        let found = dependent(scene, rule, &members, focus);
        if let Some((_, slot)) = members.iter_mut().find(|(other, _)| other == name) {
            *slot = found;
        }
    }
    members
}

/// Replaces whatever the real validator refuses by what the schema accepts.
fn repair(
    value: &mut Value,
    schema_of: &Value,
    validator: &Validator,
    pieces: &mut Vec<(String, QuotedRange)>,
) {
    for _ in 0..REPAIRS_MAX {
        let Some(pointer) =
            validator.iter_errors(value).next().map(|error| error.instance_path().to_string())
        else {
            return;
        };
        let replacement =
            modest(node_at(schema_of, &pointer)).into_value(&pointer, &mut Vec::new());
        let Some(slot) = value.pointer_mut(&pointer) else { return };
        let unchanged = *slot == replacement;
        *slot = if unchanged { Value::Null } else { replacement };
        pieces.retain(|(at, _)| !at.starts_with(pointer.as_str()));
    }
}

fn node_at<'s>(schema: &'s Value, pointer: &str) -> Node<'s> {
    let mut node = Node::root(schema);
    for segment in pointer.split('/').skip(1) {
        let name = segment.replace("~1", "/").replace("~0", "~");
        match node.property(&name).or_else(|| node.items()) {
            Some(inner) => node = inner,
            None => break,
        }
    }
    node
}
