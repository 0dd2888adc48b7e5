//! What a list is made from: one element for each sentence, item, section, statement, row or entry.

use serde_json::{Map, Value};

use super::super::text::Kind;
use super::hints::Table;
use super::rule::Over;
use super::scene::{Focus, Scene, plain};
use super::{alike, asks, checks, ranking};

/// Sentences in a section where the text has no headings.
const STRETCH_SENTENCES: usize = 12;
/// Items from which on a list gives the points of an outline, and points made of prose.
const LISTED_MIN: usize = 2;
const POINTS_OF_PROSE: usize = 4;

/// The elements `over` asks for, in reading order or in the order of their kind.
pub(crate) fn elements(
    scene: &Scene<'_, '_>,
    over: &Over,
    most: usize,
    focus: &Focus,
) -> Vec<Focus> {
    let mut found = match over {
        _ if scene.text.parts.len() == 1
            && over.least_sentences > 0
            && scene.prose(focus).len() < over.least_sentences =>
        {
            Vec::new()
        }
        Over { input: Some(name), .. } => {
            let entries = scene.input(name, focus).and_then(Value::as_array).map_or(0, Vec::len);
            vec![focus.clone(); entries.min(most)]
        }
        Over { table: Some(name), .. } => {
            scene.hints.tables.get(name).map(|table| rows(scene, table)).unwrap_or_default()
        }
        Over { check: Some(name), .. } => {
            let check = scene.hints.checks.get(name);
            let mut found = check.map(|check| checks::statements(scene, check, focus));
            if let (Some(found), Some(met)) = (&mut found, over.met) {
                found.retain(|element| checks::is_met(element) == Some(met));
            }
            found.unwrap_or_default()
        }
        Over { ranked: true, .. } => {
            let ranking = scene.hints.ranking.as_ref();
            let mut found = ranking.map(|ranking| ranking::ranked(scene, ranking));
            if let (Some(found), false) = (&mut found, over.routes.is_empty()) {
                let route = |element: &Focus| element.given.get("route").map(plain);
                found.retain(|one| route(one).is_some_and(|route| over.routes.contains(&route)));
            }
            found.unwrap_or_default()
        }
        Over { alike: true, .. } => alike::alike(scene),
        Over { items: true, by: Some(name), .. } => grouped(scene, name),
        Over { items: true, .. } => {
            let all: Vec<usize> = match focus.items.is_empty() {
                true => (0..scene.items.len()).collect(),
                false => focus.items.clone(),
            };
            let fitting = all.into_iter().filter(|&item| fits(scene, over, item));
            fitting.take(most).map(|item| scene.item_focus(item)).collect()
        }
        Over { asks: true, .. } => asks::elements(scene, focus),
        Over { points: true, .. } => points(scene, over, focus),
        Over { sections: true, .. } => {
            let sections = sections(scene, focus).into_iter();
            sections.map(|sentences| Focus { sentences, ..Focus::default() }).collect()
        }
        _ => {
            let item_of = |at: usize| {
                scene.items.iter().position(|item| item.sentences.binary_search(&at).is_ok())
            };
            let chosen = scene.best_of(scene.select(over, focus, None), most).into_iter();
            chosen
                .map(|at| Focus {
                    sentences: vec![at],
                    items: item_of(at).into_iter().collect(),
                    ..Focus::default()
                })
                .collect()
        }
    };
    found.truncate(most);
    for (ordinal, element) in found.iter_mut().enumerate() {
        element.ordinal = ordinal;
    }
    found
}

/// The items of the list that a brief gives. Without a list, its sections. Without sections, groups of
/// neighbouring sentences.
fn points(scene: &Scene<'_, '_>, over: &Over, focus: &Focus) -> Vec<Focus> {
    let element = |sentences: Vec<usize>| Focus { sentences, ..Focus::default() };
    let aside = scene.saying(&over.without, focus);
    let kept = |at: &usize| aside.binary_search(at).is_err();
    let mut items: Vec<Vec<usize>> = Vec::new();
    let mut block = usize::MAX;
    for &at in focus.sentences.iter().filter(|at| scene.text.block_of(**at).kind == Kind::Item) {
        match items.last_mut().filter(|_| scene.text.sentences[at].block == block) {
            Some(item) => item.push(at),
            None => items.push(vec![at]),
        }
        block = scene.text.sentences[at].block;
    }
    items.retain(|item| item.iter().all(kept));
    let headed: Vec<Vec<usize>> = sections(scene, focus);
    let heads = |at: &usize| matches!(scene.text.block_of(*at).kind, Kind::Heading(_));
    let headings = focus.sentences.iter().filter(|at| heads(at)).count();
    if items.len() >= LISTED_MIN && headings <= 2 {
        return items.into_iter().map(element).collect();
    }
    if headings > 1 {
        return headed.into_iter().map(element).collect();
    }
    let prose: Vec<usize> =
        focus.sentences.iter().copied().filter(|at| !heads(at)).filter(kept).collect();
    let size = prose.len().div_ceil(POINTS_OF_PROSE).max(2);
    prose.chunks(size).map(|chunk| element(chunk.to_vec())).collect()
}

/// One element for each value of a member, in order of first appearance.
fn grouped(scene: &Scene<'_, '_>, name: &str) -> Vec<Focus> {
    let mut groups: Vec<(String, Focus)> = Vec::new();
    for (index, item) in scene.items.iter().enumerate() {
        let value = item.members.get(name).map(plain).unwrap_or_default();
        match groups.iter_mut().find(|(other, _)| *other == value) {
            Some((_, group)) => {
                group.sentences.extend(&item.sentences);
                group.items.push(index);
            }
            None => groups.push((value, scene.item_focus(index))),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn fits(scene: &Scene<'_, '_>, over: &Over, item: usize) -> bool {
    let focus = scene.item_focus(item);
    if over.purpose.is_none() && over.cues.is_empty() {
        return !focus.sentences.is_empty();
    }
    !scene.select(&Over { items: false, ..over.clone() }, &focus, None).is_empty()
}

/// The rows of a table, in the language of the text; no rows for a blank text.
fn rows(scene: &Scene<'_, '_>, table: &Table) -> Vec<Focus> {
    if scene.text.is_blank() {
        return Vec::new();
    }
    let wanted = scene.input(&table.count, &scene.all()).and_then(Value::as_u64);
    let wanted = wanted.map_or(table.usual, |count| count.min(table.rows.len() as u64) as usize);
    let wanted = wanted.clamp(1, table.rows.len().max(1));
    let listed = table.orders.iter().find(|order| order.len() >= wanted);
    let in_order: Vec<usize> = match listed.or(table.orders.last()) {
        Some(order) => order.clone(),
        None => (0..table.rows.len()).collect(),
    };
    let translated = table.languages.get(scene.text.language.code());
    let row = |at: usize| {
        let mut given: Map<String, Value> = table.rows.get(at)?.clone();
        given.extend(translated.and_then(|rows| rows.get(at)).cloned().unwrap_or_default());
        Some(Focus { given, ..scene.all() })
    };
    in_order.into_iter().take(wanted).filter_map(row).collect()
}

/// The text under each heading, heading first. A text without headings is cut into equal stretches.
pub(crate) fn sections(scene: &Scene<'_, '_>, focus: &Focus) -> Vec<Vec<usize>> {
    let heads = |at: usize| matches!(scene.text.block_of(at).kind, Kind::Heading(_));
    let mut found: Vec<Vec<usize>> = Vec::new();
    let headed = focus.sentences.iter().any(|&at| heads(at));
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
    found.retain(|section| section.iter().any(|&at| !heads(at)) || !headed);
    found
}
