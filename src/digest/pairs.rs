//! Which tags belong together: co-occurrence, lift, NPMI and the edge score built from them.
//!
//! A document is a unit. With n documents, f(a) and f(b) of them with a tag and c with both:
//! p = c/n, lift = p / (f(a)/n · f(b)/n), NPMI = ln(lift) / −ln(p), and the edge score is
//! max(NPMI, 0) · ln(1 + c) · ln(max(lift, 1.0000001)).

use std::collections::HashMap;

use super::selector::PairRule;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairScore {
    /// Units that have both tags.
    pub count: u64,
    /// How much more often they occur together than by chance.
    pub lift: f64,
    /// Normalized pointwise mutual information, between -1 and 1.
    pub npmi: f64,
    /// Pairs are ranked by this.
    pub(crate) edge: f64,
}

/// The score of a pair.
pub fn score(documents: u64, first: u64, second: u64, both: u64) -> PairScore {
    let n = documents.max(1) as f64;
    let p = (both as f64 / n).clamp(1e-12, 1.0 - 1e-12);
    let lift = p / ((first as f64 / n) * (second as f64 / n)).max(1e-12);
    let npmi = lift.ln() / -p.ln();
    let edge = npmi.max(0.0) * (1.0 + both as f64).ln() * lift.max(1.000_000_1).ln();
    PairScore { count: both, lift, npmi, edge }
}

/// Two words by number, with their score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    pub first: u32,
    pub second: u32,
    pub score: PairScore,
}

/// The best pairs, best first. Ties go to the pair in more units, then by the words. `documents`
/// gives the words of each unit and `word` spells one. `same` tells that two words are one value in
/// two namespaces; such pairs are left out.
pub fn best<'a>(
    documents: impl Iterator<Item = &'a [u32]> + Clone,
    rule: &PairRule,
    top: usize,
    word: impl Fn(u32) -> &'a str,
    same: impl Fn(u32, u32) -> bool,
) -> Vec<Pair> {
    let mut total = 0_u64;
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for words in documents.clone() {
        total += 1;
        for one in words {
            *counts.entry(*one).or_default() += 1;
        }
    }
    let mut frequent: Vec<(u32, u64)> =
        counts.into_iter().filter(|(_, count)| *count >= rule.min_count).collect();
    frequent.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| word(a.0).cmp(word(b.0))));
    frequent.truncate(rule.vocabulary);
    frequent.sort_by(|a, b| word(a.0).cmp(word(b.0)));
    let places: HashMap<u32, u32> =
        frequent.iter().enumerate().map(|(place, (one, _))| (*one, place as u32)).collect();
    let mut together: HashMap<(u32, u32), u64> = HashMap::new();
    let mut present = Vec::new();
    for words in documents {
        present.clear();
        present.extend(words.iter().filter_map(|one| places.get(one).copied()));
        present.sort_unstable();
        for (index, first) in present.iter().enumerate() {
            for second in &present[index + 1..] {
                *together.entry((*first, *second)).or_default() += 1;
            }
        }
    }
    let mut pairs: Vec<((u32, u32), Pair)> = together
        .into_iter()
        .filter(|(_, both)| *both >= rule.min_count)
        .filter_map(|(places, both)| {
            let (first, f) = frequent[places.0 as usize];
            let (second, g) = frequent[places.1 as usize];
            let score = score(total, f, g, both);
            let kept = score.npmi >= rule.min_npmi && !same(first, second);
            kept.then_some((places, Pair { first, second, score }))
        })
        .collect();
    pairs.sort_by(|(a, x), (b, y)| {
        let (x, y) = (x.score, y.score);
        y.edge.total_cmp(&x.edge).then(y.count.cmp(&x.count)).then(a.cmp(b))
    });
    pairs.truncate(top);
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_a_known_pair_stay_the_same() {
        let found = score(100, 20, 10, 8);
        assert_eq!(found.count, 8);
        assert!((found.lift - 4.0).abs() < 1e-9);
        assert!((found.npmi - 4.0_f64.ln() / -(0.08_f64.ln())).abs() < 1e-9);
        let edge = found.npmi * 9.0_f64.ln() * 4.0_f64.ln();
        assert!((found.edge - edge).abs() < 1e-9);
        assert!(score(100, 50, 50, 10).edge == 0.0, "less than by chance");
        assert!(score(5, 5, 5, 5).npmi.is_finite());
    }

    #[test]
    fn ties_go_by_the_words() {
        let names = ["d", "c", "b", "a"];
        let documents: Vec<Vec<u32>> =
            vec![vec![0, 1], vec![2, 3], vec![1, 0], vec![3, 2], vec![0], vec![3]];
        let rule = PairRule { vocabulary: 10, min_count: 1, min_npmi: -1.0 };
        let orders = [documents.clone(), documents.into_iter().rev().collect()];
        let found: Vec<Vec<(&str, &str)>> = orders
            .iter()
            .map(|documents| {
                let words = documents.iter().map(Vec::as_slice);
                let word = |number: u32| names[number as usize];
                best(words, &rule, 10, word, |_, _| false)
                    .iter()
                    .map(|pair| (word(pair.first), word(pair.second)))
                    .collect()
            })
            .collect();
        assert_eq!(found[0], [("a", "b"), ("c", "d")]);
        assert_eq!(found[0], found[1]);
    }
}
