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
    if let Some(name) = over.by.as_ref().filter(|_| over.items) {
        return grouped(scene, name).into_iter().take(most).collect();
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

/// One element for each value of a member, in order of first appearance.
fn grouped(scene: &Scene<'_, '_>, name: &str) -> Vec<Focus> {
    let mut groups: Vec<(String, Focus)> = Vec::new();
    for (index, item) in scene.items.iter().enumerate() {
        let value = item.members.get(name).map(super::scene::plain).unwrap_or_default();
        match groups.iter_mut().find(|(other, _)| *other == value) {
            Some((_, group)) => group.sentences.extend(&item.sentences),
            None => groups.push((
                value,
                Focus { sentences: item.sentences.clone(), item: Some(index), ..Focus::default() },
            )),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
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
    let labelled: Vec<&str> = label_above(scene, focus).into_iter().collect();
    if !labelled.is_empty() {
        return Filled::Value(json!(labelled));
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
