//! Objects and lists: each element filled by rules that look at that element first.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::text::Kind;
use super::super::text::words::fold;
use super::dependent::dependent;
use super::elements::elements;
use super::filled::Filled;
use super::rule::{Over, Rule};
use super::scene::{Focus, Scene};
use super::texts::text_of;

pub(super) fn objects(
    scene: &Scene<'_, '_>,
    over: &Over,
    most: usize,
    fields: &BTreeMap<String, Rule>,
    focus: &Focus,
) -> Filled {
    let made = elements(scene, over, scene.scaled(most).max(1), focus);
    let made = made.iter().map(|element| object(scene, fields, element));
    Filled::List(made.filter(|element| !element.is_empty()).collect())
}

/// A list of what a rule finds in each element.
pub(super) fn list(
    scene: &Scene<'_, '_>,
    over: &Over,
    most: usize,
    of: &Rule,
    distinct: bool,
    focus: &Focus,
) -> Filled {
    let elements = elements(scene, over, scene.scaled(most).max(1), focus);
    let mut seen: Vec<String> = Vec::new();
    let mut found: Vec<Filled> = elements.iter().map(|element| scene.eval(of, element)).collect();
    found.retain(|value| {
        let said = if distinct { fold(&text_of(value.clone())) } else { String::new() };
        let new = !distinct || !seen.contains(&said);
        seen.push(said);
        new && !value.is_empty()
    });
    Filled::List(found)
}

pub(super) fn object(
    scene: &Scene<'_, '_>,
    fields: &BTreeMap<String, Rule>,
    focus: &Focus,
) -> Filled {
    let mut members: Vec<(String, Filled)> = Vec::new();
    for (name, rule) in fields.iter().filter(|(_, rule)| !rule.depends()) {
        members.push((name.clone(), scene.eval(rule, focus)));
    }
    for (name, rule) in fields.iter().filter(|(_, rule)| rule.depends()) {
        let found = dependent(scene, rule, &members, focus);
        members.push((name.clone(), found));
    }
    Filled::Object(members)
}

/// The ids of the items or parts a focus covers.
pub(super) fn ids(scene: &Scene<'_, '_>, focus: &Focus) -> Vec<String> {
    let of_item = focus.item().and_then(|item| scene.items.get(item)?.id.clone());
    let found = of_item.or_else(|| label_above(scene, focus).map(str::to_string));
    if let Some(id) = found {
        return vec![id];
    }
    let mut parts: Vec<usize> =
        focus.sentences.iter().map(|&at| scene.text.sentences[at].part).collect();
    parts.dedup();
    let ids = parts.into_iter().map(|part| scene.text.parts[part].id.to_string());
    ids.filter(|id| !id.is_empty()).collect()
}

pub(crate) fn ids_value(scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    Filled::Value(json!(ids(scene, focus)))
}

/// The id in the nearest `[n] id` line above, where several sources stand in one text.
fn label_above<'a>(scene: &Scene<'_, 'a>, focus: &Focus) -> Option<&'a str> {
    let first = scene.text.sentences.get(*focus.sentences.first()?)?;
    let source = scene.text.parts[first.part].text;
    let above =
        scene.text.blocks[..=first.block].iter().rev().take_while(|block| block.part == first.part);
    let label = above
        .filter(|block| block.kind == Kind::Header)
        .find(|block| source[..block.text.start].ends_with("] "))?;
    Some(&source[label.text.clone()])
}
