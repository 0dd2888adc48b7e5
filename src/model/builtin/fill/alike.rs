//! Items grouped by the story they tell, and their headlines.
//!
//! Two headlines are alike by the words they share: equal stems, a word inside a compound, cognates of
//! two languages. Rare words weigh more; one shared word is evidence only among few headlines. The two
//! groups most alike on average are joined until no two are alike enough, so the result depends on the
//! list alone. A headline like no other tells no story that several report: it is left out, unless
//! there is no other kind.

use std::cmp::Reverse;

use serde_json::json;

use super::super::extract::dates::{is_calendar_word, is_period};
use super::super::lexicon::lexicon;
use super::super::rank::log2;
use super::super::text::words::{Token, fold};
use super::filled::Filled;
use super::rule::Style;
use super::scene::{Focus, Scene};
use super::texts::{capitalize, text_of};

/// Mean likeness from which on two groups tell one story.
const LIKE: f64 = 0.1;
/// How much more headlines are alike that share several words: two are hardly an accident.
const SEVERAL: f64 = 1.4;
/// Headlines compared with each other: the cost grows with their square.
const ITEMS_MAX: usize = 400;
/// Headlines among which one shared word may be no accident.
const FEW: usize = 40;
/// Words count as forms or cognates of one word when at least their first so many letters are equal.
const STEM_LETTERS_MIN: usize = 5;
/// Letters of a word that may be part of a compound.
const PART_LETTERS_MIN: usize = 5;
/// The weight of a form, a cognate or a part of a compound; an equal word has the weight 1.
const RELATED: f64 = 0.8;
/// Words of a topic.
const TOPIC_WORDS: std::ops::RangeInclusive<usize> = 3..=8;
/// Phrases looked at for one that headlines share, and how many of them name a group.
const PHRASES_MAX: usize = 12;
const PHRASES_NAMING: usize = 2;

/// A content word of a headline.
struct HeadlineWord {
    term: u32,
    folded: String,
    weight: f64,
}

struct Entry {
    item: usize,
    words: Vec<HeadlineWord>,
}

/// Groups of items alike, the largest first.
pub(crate) fn alike(scene: &Scene<'_, '_>) -> Vec<Focus> {
    let mut entries: Vec<Entry> =
        (0..scene.items.len().min(ITEMS_MAX)).filter_map(|item| entry(scene, item)).collect();
    weigh(&mut entries);
    let mut groups = group(&entries);
    if groups.iter().any(|group| group.len() > 1) {
        groups.retain(|group| group.len() > 1);
    }
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
    let said = read(scene, item).map(|line| line.0).unwrap_or_default();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The number of an item: a member, what its line says, else its position from 1.
pub(super) fn number(scene: &Scene<'_, '_>, item: usize, names: &[String]) -> Filled {
    let item_of = &scene.items[item];
    let given = names.iter().find_map(|name| item_of.members.get(name));
    let given = given.and_then(|id| id.as_i64().or_else(|| id.as_str()?.parse().ok()));
    let written = item_of.numbered.as_ref().map(|numbered| numbered.number);
    Filled::Value(json!(given.or(written).unwrap_or(item as i64 + 1)))
}

/// What the headlines of the items say in common: the headline most like the others when it is short,
/// else the phrases that they share.
pub(crate) fn shared_phrase(scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let mut headlines: Vec<String> = Vec::new();
    for headline in focus.items.iter().map(|&item| headline(scene, item)) {
        if !headlines.iter().any(|other| fold(other) == fold(&headline)) {
            headlines.push(headline);
        }
    }
    let Some(first) = headlines.first() else { return Filled::Nothing };
    let shared = |phrase: &String| {
        headlines.iter().filter(|headline| fold(headline).contains(&fold(phrase))).count()
    };
    let phrases = scene.phrases(PHRASES_MAX, Style::Plain, focus).into_iter().map(text_of);
    let mut found: Vec<String> = phrases.filter(|phrase| shared(phrase) > 1).collect();
    found.sort_by_key(|phrase| Reverse((shared(phrase), phrase.split(' ').count().min(2))));
    found.truncate(PHRASES_NAMING);
    let words = |text: &str| text.split_whitespace().count();
    let says_all =
        |headline: &&String| found.iter().all(|phrase| fold(headline).contains(&fold(phrase)));
    let central = headlines.iter().filter(|one| TOPIC_WORDS.contains(&words(one))).find(says_all);
    match central {
        _ if headlines.len() < 2 || found.is_empty() => Filled::text(first),
        Some(central) => Filled::text(central),
        None => Filled::text(capitalize(&found.join(", "))),
    }
}

/// The headline of an item and its place in the part, or that of the whole item.
fn read<'s>(scene: &'s Scene<'_, '_>, item: usize) -> Option<(&'s str, (usize, usize))> {
    let item = &scene.items[item];
    let (first, last) = (*item.sentences.first()?, *item.sentences.last()?);
    let source = scene.text.parts[scene.text.sentences[first].part].text;
    if let Some(numbered) = &item.numbered {
        let range = numbered.headline.clone();
        return Some((&source[range.clone()], (range.start, range.end)));
    }
    let (start, end) = (scene.text.sentences[first].start, scene.text.sentences[last].end);
    let headline = match scene.headline_member(item) {
        Some(given) => given,
        None => opening_of(scene.text.sentence(first), &source[start..end]),
    };
    let place = source[start..end].find(headline).map(|at| start + at);
    Some((headline, place.map_or((start, end), |from| (from, from + headline.len()))))
}

/// The first sentence of an entry that has more than one, and the first column of a line.
fn opening_of<'l>(sentence: &str, line: &'l str) -> &'l str {
    let column = line.split(" — ").next().unwrap_or(line).trim_matches(['*', ' ']);
    let opening = sentence.trim_end_matches('.');
    let goes_on = opening.len() + 1 < column.len() && opening.contains(' ');
    if column.starts_with(opening) && goes_on { &column[..opening.len()] } else { column }
}

fn entry(scene: &Scene<'_, '_>, item: usize) -> Option<Entry> {
    let (headline, range) = read(scene, item)?;
    let mut words: Vec<HeadlineWord> = Vec::new();
    for &at in &scene.items[item].sentences {
        for token in scene.text.tokens_of(at) {
            let inside = token.start as usize >= range.0 && token.end as usize <= range.1;
            let word = inside.then(|| word(scene, token)).flatten();
            words.extend(word.filter(|word| words.iter().all(|other| other.term != word.term)));
        }
    }
    (!headline.trim().is_empty()).then_some(Entry { item, words })
}

/// A word that may tell a story: no stop word, day, count or everyday verb.
fn word(scene: &Scene<'_, '_>, token: &Token) -> Option<HeadlineWord> {
    let term = scene.text.term(token)?;
    let folded = scene.text.folded(token);
    let words = lexicon();
    let counts = folded.chars().all(|c| c.is_ascii_digit()) && folded.len() < 3
        || words.dates.numbers.number(folded).is_some();
    let dull = counts
        || is_calendar_word(folded)
        || is_period(folded)
        || words.phrases.verbs.contains(folded);
    (!dull).then(|| HeadlineWord { term, folded: folded.to_string(), weight: 1.0 })
}

/// How much two words are one: 1 for the same stem.
fn kinship(one: &HeadlineWord, other: &HeadlineWord) -> f64 {
    if one.term == other.term {
        return 1.0;
    }
    let (short, long) = match one.folded.len() <= other.folded.len() {
        true => (one.folded.as_str(), other.folded.as_str()),
        false => (other.folded.as_str(), one.folded.as_str()),
    };
    let letters = short.chars().count();
    let part = letters >= PART_LETTERS_MIN && (long.starts_with(short) || long.ends_with(short));
    let same = short.chars().zip(long.chars()).take_while(|(a, b)| a == b).count();
    let form = same >= STEM_LETTERS_MIN && same * 4 >= long.chars().count() * 3;
    if part || form { RELATED } else { 0.0 }
}

fn weigh(entries: &mut [Entry]) {
    let all = entries.len() as u64 + 1;
    let count = |word: &HeadlineWord| {
        let says = |entry: &&Entry| entry.words.iter().any(|other| kinship(word, other) > 0.0);
        entries.iter().filter(says).count() as u64
    };
    let weights: Vec<Vec<f64>> = entries
        .iter()
        .map(|entry| entry.words.iter().map(|word| 1.0 + log2(all) - log2(count(word))).collect())
        .collect();
    for (entry, weights) in entries.iter_mut().zip(weights) {
        entry.words.iter_mut().zip(weights).for_each(|(word, weight)| word.weight = weight);
    }
}

/// Joins the two groups most alike until none are.
fn group(entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = (0..entries.len()).map(|at| vec![at]).collect();
    // Sums of the likeness between members; the mean is the sum by the number of pairs.
    let mut sums: Vec<Vec<f64>> = (0..entries.len())
        .map(|one| (0..one).map(|other| like(entries, one, other)).collect())
        .collect();
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for one in 0..groups.len() {
            for other in 0..one {
                let pairs = (groups[one].len() * groups[other].len()) as f64;
                let mean = if pairs > 0.0 { sums[one][other] / pairs } else { 0.0 };
                if mean >= LIKE && best.is_none_or(|(most, ..)| mean > most) {
                    best = Some((mean, one, other));
                }
            }
        }
        let Some((_, from, into)) = best else { break };
        let moved = std::mem::take(&mut groups[from]);
        groups[into].extend(moved);
        for third in (0..groups.len()).filter(|&third| third != from && third != into) {
            let added = sums[from.max(third)][from.min(third)];
            sums[into.max(third)][into.min(third)] += added;
        }
    }
    groups.retain(|group| !group.is_empty());
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups
}

/// The weight two headlines share, against the weight of both.
fn like(entries: &[Entry], one: usize, other: usize) -> f64 {
    let (one, other) = (&entries[one].words, &entries[other].words);
    let norm =
        |words: &[HeadlineWord]| words.iter().map(|word| word.weight * word.weight).sum::<f64>();
    let mut pairs = 0;
    let mut shared = 0.0;
    for word in one {
        let closest = other
            .iter()
            .map(|twin| (kinship(word, twin), twin))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(kinship, _)| *kinship > 0.0);
        if let Some((kinship, twin)) = closest {
            pairs += 1;
            shared += kinship * word.weight * twin.weight;
        }
    }
    let accident = pairs == 1 && entries.len() > FEW && one.len().min(other.len()) > 2;
    let norms = (norm(one) * norm(other)).sqrt();
    if norms <= 0.0 || accident {
        0.0
    } else {
        shared / norms * if pairs > 1 { SEVERAL } else { 1.0 }
    }
}
