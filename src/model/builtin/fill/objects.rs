//! Lists of objects: one element for each sentence, item, section or input entry, each member by its
//! own rule looking at that element first.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::text::Kind;
use super::filled::Filled;
use super::hints::{Over, Rule};
use super::scene::{Focus, Scene};

/// Sentences in a section where the text has no headings.
const STRETCH_SENTENCES: usize = 12;

/// The elements `over` asks for, each filled by `fields`.
pub fn objects(
    scene: &Scene<'_, '_>,
    over: &Over,
    most: usize,
    fields: &BTreeMap<String, Rule>,
    focus: &Focus,
) -> Filled {
    let most = scene.scaled(most).max(1);
    let foci = elements(scene, over, most, focus);
    let made = foci
        .into_iter()
        .enumerate()
        .map(|(ordinal, element)| object(scene, fields, &Focus { ordinal, ..element }));
    Filled::List(made.filter(|element| !element.is_empty()).collect())
}

/// One object.
pub fn object(scene: &Scene<'_, '_>, fields: &BTreeMap<String, Rule>, focus: &Focus) -> Filled {
    let mut members: Vec<(String, Filled)> = Vec::new();
    for (name, rule) in fields.iter().filter(|(_, rule)| !rule.depends()) {
        members.push((name.clone(), scene.eval(rule, focus)));
    }
    for (name, rule) in fields.iter().filter(|(_, rule)| rule.depends()) {
        let found = super::dependent(scene, rule, &members, focus);
        members.push((name.clone(), found));
    }
    Filled::Object(members)
}

fn elements(scene: &Scene<'_, '_>, over: &Over, most: usize, focus: &Focus) -> Vec<Focus> {
    if let Some(name) = &over.input {
        let count = scene.input(name, focus).and_then(Value::as_array).map_or(0, Vec::len);
        return (0..count.min(most)).map(|_| focus.clone()).collect();
    }
    if over.items {
        let chosen =
            scene.items.iter().enumerate().filter(|(_, item)| fits(scene, over, &item.sentences));
        return chosen
            .take(most)
            .map(|(index, item)| Focus {
                sentences: item.sentences.clone(),
                item: Some(index),
                ..Focus::default()
            })
            .collect();
    }
    if over.sections {
        return sections(scene, focus)
            .into_iter()
            .take(most)
            .map(|sentences| Focus { sentences, ..Focus::default() })
            .collect();
    }
    let item_of =
        |at: usize| scene.items.iter().position(|item| item.sentences.binary_search(&at).is_ok());
    let chosen = scene.best_of(scene.select(over, focus, None), most);
    chosen
        .into_iter()
        .map(|at| Focus { sentences: vec![at], item: item_of(at), ..Focus::default() })
        .collect()
}

fn fits(scene: &Scene<'_, '_>, over: &Over, sentences: &[usize]) -> bool {
    if over.purpose.is_none() && over.cues.is_empty() {
        return !sentences.is_empty();
    }
    let focus = Focus { sentences: sentences.to_vec(), ..Focus::default() };
    !scene.select(&Over { items: false, ..over.clone() }, &focus, None).is_empty()
}

/// The text under each heading, heading first; stretches of equal length where there is none.
pub fn sections(scene: &Scene<'_, '_>, focus: &Focus) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    let headed =
        focus.sentences.iter().any(|&at| matches!(scene.text.block_of(at).kind, Kind::Heading(_)));
    let mut place = (usize::MAX, usize::MAX);
    for &at in &focus.sentences {
        let block = scene.text.block_of(at);
        let here = if headed { (block.part, block.section) } else { (block.part, 0) };
        let full =
            !headed && found.last().is_some_and(|section| section.len() >= STRETCH_SENTENCES);
        match found.last_mut() {
            Some(section) if here == place && !full => section.push(at),
            _ => found.push(vec![at]),
        }
        place = here;
    }
    found.retain(|section| {
        section.iter().any(|&at| !matches!(scene.text.block_of(at).kind, Kind::Heading(_)))
            || !headed
    });
    found
}

/// The ids of the items or parts a focus covers.
pub fn ids(scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let of_item =
        focus.item.and_then(|item| scene.items.get(item)).and_then(|item| item.id.clone());
    if let Some(id) = of_item {
        return Filled::Value(json!([id]));
    }
    let mut parts: Vec<usize> =
        focus.sentences.iter().map(|&at| scene.text.sentences[at].part).collect();
    parts.dedup();
    let ids: Vec<&str> = parts
        .into_iter()
        .map(|part| scene.text.parts[part].id)
        .filter(|id| !id.is_empty())
        .collect();
    Filled::Value(json!(ids))
}
