//! What simple methods would have said at the length of the brief: the first sentences, TextRank and
//! LexRank, written small and without the summarizer's own analysis.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Judged;
use super::readable::is_little;
use super::score::{covered, fold};

const DAMPING: f64 = 0.85;
const STEPS: usize = 40;
/// Likeness from which LexRank draws an edge.
const EDGE: f64 = 0.1;

#[derive(Debug, Default)]
pub struct Coverage {
    pub texts: usize,
    pub brief: f64,
    pub lead: f64,
    pub text_rank: f64,
    pub lex_rank: f64,
}

/// The mean share of key facts over the texts whose brief has labels for them.
pub fn coverage(judged: &[Judged<'_>]) -> Coverage {
    let mut sum = Coverage::default();
    for one in judged.iter().filter(|one| one.pack == "brief") {
        let facts = one.gold.get("summary_text").and_then(|label| label.get("cover"));
        let Some(facts) = facts.and_then(Value::as_array) else { continue };
        let brief = one.output["summary_text"].as_str().unwrap_or_default();
        let sentences = split(&one.sample.text);
        let bags: Vec<BTreeMap<String, f64>> = sentences.iter().map(|one| bag(one)).collect();
        let order: Vec<usize> = (0..sentences.len()).collect();
        let of = |ranked: Vec<usize>| covered(&take(&sentences, &ranked, brief.len()), facts);
        sum.texts += 1;
        sum.brief += covered(brief, facts);
        sum.lead += of(order);
        sum.text_rank += of(best(rank(&bags, overlap)));
        let weighted = weigh(&bags);
        sum.lex_rank += of(best(rank(&weighted, |a, b| {
            let likeness = cosine(a, b);
            if likeness >= EDGE { likeness } else { 0.0 }
        })));
    }
    let texts = sum.texts.max(1) as f64;
    for part in [&mut sum.brief, &mut sum.lead, &mut sum.text_rank, &mut sum.lex_rank] {
        *part /= texts;
    }
    sum
}

/// Paragraphs joined over line ends and cut after stops before white space.
fn split(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in text.split("\n\n") {
        let joined = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut start = 0;
        for (at, mark) in joined.char_indices() {
            if matches!(mark, '.' | '!' | '?') && joined[at + 1..].starts_with(' ') {
                found.push(joined[start..=at].trim().to_string());
                start = at + 1;
            }
        }
        found.push(joined[start..].trim().to_string());
    }
    found.retain(|sentence| sentence.len() > 2);
    found
}

fn bag(sentence: &str) -> BTreeMap<String, f64> {
    let mut bag = BTreeMap::new();
    for word in fold(sentence).split(' ').filter(|word| word.len() > 1 && !is_little(word)) {
        *bag.entry(word.to_string()).or_insert(0.0) += 1.0;
    }
    bag
}

fn weigh(bags: &[BTreeMap<String, f64>]) -> Vec<BTreeMap<String, f64>> {
    let mut documents: BTreeMap<&str, f64> = BTreeMap::new();
    bags.iter()
        .flat_map(|bag| bag.keys())
        .for_each(|word| *documents.entry(word).or_default() += 1.0);
    let weight = |word: &str| (1.0 + bags.len() as f64 / documents[word]).ln();
    bags.iter()
        .map(|bag| bag.iter().map(|(word, count)| (word.clone(), count * weight(word))).collect())
        .collect()
}

fn overlap(a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) -> f64 {
    let shared = a.keys().collect::<BTreeSet<_>>().intersection(&b.keys().collect()).count();
    let length = (a.len().max(2) as f64).ln() + (b.len().max(2) as f64).ln();
    shared as f64 / length
}

fn cosine(a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) -> f64 {
    let dot: f64 = a.iter().filter_map(|(word, x)| b.get(word).map(|y| x * y)).sum();
    let norm = |bag: &BTreeMap<String, f64>| bag.values().map(|x| x * x).sum::<f64>().sqrt();
    dot / (norm(a) * norm(b)).max(1e-12)
}

fn rank(
    bags: &[BTreeMap<String, f64>],
    likeness: impl Fn(&BTreeMap<String, f64>, &BTreeMap<String, f64>) -> f64,
) -> Vec<f64> {
    let many = bags.len();
    let edges: Vec<Vec<f64>> = (0..many)
        .map(|a| {
            (0..many).map(|b| if a == b { 0.0 } else { likeness(&bags[a], &bags[b]) }).collect()
        })
        .collect();
    let degrees: Vec<f64> = edges.iter().map(|row| row.iter().sum::<f64>().max(1e-12)).collect();
    let mut ranks = vec![1.0; many];
    for _ in 0..STEPS {
        ranks = (0..many)
            .map(|a| {
                let flow: f64 = (0..many).map(|b| edges[b][a] / degrees[b] * ranks[b]).sum();
                (1.0 - DAMPING) + DAMPING * flow
            })
            .collect();
    }
    ranks
}

fn best(ranks: Vec<f64>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by(|&a, &b| ranks[b].total_cmp(&ranks[a]).then(a.cmp(&b)));
    order
}

/// The sentences in this order as long as they fit.
fn take(sentences: &[String], order: &[usize], bytes: usize) -> String {
    let mut text = String::new();
    for &at in order {
        if text.len() + sentences[at].len() <= bytes {
            text.push_str(&sentences[at]);
            text.push(' ');
        }
    }
    text
}
