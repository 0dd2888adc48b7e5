//! Items grouped by what they are about, and their headlines.
//!
//! Reads `- **ID 7** — title — _source_ — _time_` and plainer lists. Two headlines belong together when
//! they share enough weighted terms; groups grow greedily from the earliest headline, so the result
//! depends on the list alone. A headline like no other is a group of its own.

use std::cmp::Reverse;

use serde_json::json;

use super::super::rank::log2;
use super::super::text::words::fold;
use super::filled::Filled;
use super::rule::Style;
use super::scene::{Focus, Scene};
use super::texts::{capitalize, text_of};

/// Likeness of a headline to a group, as a share of the headline's weight.
const LIKE: f64 = 0.25;
/// Headlines compared with each other: the cost grows with their square.
const ITEMS_MAX: usize = 400;
/// Phrases looked at for one that headlines share, and how many of them name a group.
const PHRASES_MAX: usize = 12;
const PHRASES_NAMING: usize = 2;

/// The terms of a headline, with their weights.
struct Entry {
    item: usize,
    terms: Vec<(u32, f64)>,
}

/// What one item's line says.
struct Line<'l> {
    number: Option<i64>,
    headline: &'l str,
    /// Byte range, in the part, of the headline or of the whole item.
    range: (usize, usize),
}

/// Groups of items alike, the largest first.
pub(crate) fn alike(scene: &Scene<'_, '_>) -> Vec<Focus> {
    let mut entries: Vec<Entry> =
        (0..scene.items.len().min(ITEMS_MAX)).filter_map(|item| entry(scene, item)).collect();
    weigh(&mut entries);
    let mut groups = group(&entries);
    groups.sort_by_key(|group| (Reverse(group.len()), group[0]));
    let element = |group: Vec<usize>| {
        let items: Vec<usize> = group.into_iter().map(|at| entries[at].item).collect();
        let sentences = items.iter().flat_map(|&item| scene.items[item].sentences.clone());
        Focus { sentences: sentences.collect(), items, ..Focus::default() }
    };
    groups.into_iter().map(element).collect()
}

/// The headline of an item; empty when it says nothing.
pub(crate) fn headline(scene: &Scene<'_, '_>, item: usize) -> String {
    let said = read(scene, item).map(|line| line.headline).unwrap_or_default();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The number of an item: a member, what its line says, else its position from 1.
pub fn number(scene: &Scene<'_, '_>, item: usize, names: &[String]) -> Filled {
    let members = &scene.items[item].members;
    let given = names.iter().find_map(|name| members.get(name));
    let given = given.and_then(|id| id.as_i64().or_else(|| id.as_str()?.parse().ok()));
    let number = given.or_else(|| read(scene, item)?.number).unwrap_or(item as i64 + 1);
    Filled::Value(json!(number))
}

/// The phrase the headlines of the items share; the first headline when they share none.
pub(crate) fn shared_phrase(scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let mut headlines: Vec<String> = Vec::new();
    for headline in focus.items.iter().map(|&item| headline(scene, item)) {
        if !headlines.iter().any(|other| fold(other) == fold(&headline)) {
            headlines.push(headline);
        }
    }
    let shared = |phrase: &String| {
        headlines.iter().filter(|headline| fold(headline).contains(&fold(phrase))).count()
    };
    let phrases = scene.phrases(PHRASES_MAX, Style::Plain, focus).into_iter().map(text_of);
    let mut found: Vec<String> = phrases.filter(|phrase| shared(phrase) > 1).collect();
    found.sort_by_key(|phrase| Reverse((shared(phrase), phrase.split(' ').count().min(2))));
    found.truncate(PHRASES_NAMING);
    match headlines.first() {
        Some(first) if headlines.len() < 2 || found.is_empty() => Filled::text(first),
        _ => Filled::text(capitalize(&found.join(", "))),
    }
}

fn read<'s>(scene: &'s Scene<'_, '_>, item: usize) -> Option<Line<'s>> {
    let item = &scene.items[item];
    let (first, last) = (*item.sentences.first()?, *item.sentences.last()?);
    let source = scene.text.parts[scene.text.sentences[first].part].text;
    let (start, end) = (scene.text.sentences[first].start, scene.text.sentences[last].end);
    let line = &source[start..end];
    let (number, headline) = read_line(line);
    if let Some(given) = scene.headline_member(item) {
        return Some(Line { number, headline: given, range: (start, end) });
    }
    let headline = opening_of(scene.text.sentence(first), headline);
    let from = start + line.find(headline)?;
    Some(Line { number, headline, range: (from, from + headline.len()) })
}

/// The number and the headline of a line of a list.
fn read_line(line: &str) -> (Option<i64>, &str) {
    let mut fields = line.split(" — ").flat_map(|field| field.split(" | ")).map(str::trim);
    let first = fields.next().unwrap_or(line);
    let bare = first.trim_matches(['*', '[', ']', '#', ' ', ':']);
    let number = fold(bare)
        .strip_prefix("id")
        .map_or_else(|| bare.parse().ok(), |rest| rest.trim_matches([' ', ':', '#']).parse().ok());
    match (number, fields.next()) {
        (Some(number), Some(title)) => (Some(number), title.trim_matches(['*', '_', ' '])),
        _ => (None, first.trim_matches(['*', ' '])),
    }
}

/// The first sentence of an entry that has more than one.
fn opening_of<'l>(sentence: &str, headline: &'l str) -> &'l str {
    let opening = sentence.trim_end_matches('.');
    let goes_on = opening.len() + 1 < headline.len() && opening.contains(' ');
    if headline.starts_with(opening) && goes_on { &headline[..opening.len()] } else { headline }
}

fn entry(scene: &Scene<'_, '_>, item: usize) -> Option<Entry> {
    let line = read(scene, item)?;
    let sentences = scene.items[item].sentences.iter();
    let inside = sentences
        .flat_map(|&at| scene.text.tokens_of(at))
        .filter(|token| token.start as usize >= line.range.0 && token.end as usize <= line.range.1);
    let mut terms: Vec<u32> = inside.filter_map(|token| scene.text.term(token)).collect();
    terms.sort_unstable();
    terms.dedup();
    let terms = terms.into_iter().map(|term| (term, 1.0)).collect();
    (!line.headline.trim().is_empty()).then_some(Entry { item, terms })
}

fn weigh(entries: &mut [Entry]) {
    let mut terms: Vec<u32> =
        entries.iter().flat_map(|entry| entry.terms.iter().map(|pair| pair.0)).collect();
    terms.sort_unstable();
    let count = |term: u32| {
        terms.partition_point(|&other| other <= term) - terms.partition_point(|&other| other < term)
    };
    let all = entries.len() as u64 + 1;
    let idf = |term: u32| 1.0 + (log2(all) - log2(count(term) as u64)) / 2.0;
    for pair in entries.iter_mut().flat_map(|entry| &mut entry.terms) {
        pair.1 = idf(pair.0);
    }
}

fn group(entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in 0..entries.len() {
        let likeness = |group: &Vec<usize>| {
            group.iter().map(|&other| like(&entries[at], &entries[other])).fold(0.0, f64::max)
        };
        let best = groups
            .iter()
            .enumerate()
            .map(|(index, group)| (likeness(group), index))
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        match best {
            Some((likeness, index)) if likeness >= LIKE => groups[index].push(at),
            _ => groups.push(vec![at]),
        }
    }
    groups
}

/// Shared weight of two headlines against the lighter one; one shared common word is not enough.
fn like(one: &Entry, other: &Entry) -> f64 {
    let weight = |entry: &Entry| entry.terms.iter().map(|pair| pair.1).sum::<f64>();
    let shared: Vec<f64> = one
        .terms
        .iter()
        .filter(|pair| other.terms.binary_search_by_key(&pair.0, |pair| pair.0).is_ok())
        .map(|pair| pair.1)
        .collect();
    let least = weight(one).min(weight(other));
    let alone = shared.len() == 1 && one.terms.len().min(other.terms.len()) > 3;
    if least <= 0.0 || alone { 0.0 } else { shared.iter().sum::<f64>() / least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_lines_are_read_in_the_usual_forms() {
        assert_eq!(
            read_line("**ID 12** — Rates rise — _Reuters_ — _10:02_"),
            (Some(12), "Rates rise")
        );
        assert_eq!(read_line("Rates rise — _Reuters_"), (None, "Rates rise"));
        assert_eq!(read_line("[7] | Rates rise | BBC"), (Some(7), "Rates rise"));
    }
}
