//! Which sentences say most: continuous LexRank, position, length and cues, in linear time.
//!
//! Sentences are tf-idf vectors of unit length; the graph is the full cosine graph between them. It is
//! never built: the row sums and every step of the power iteration are products with the sparse
//! sentence-term matrix and its transpose, so the cost grows with the number of tokens and not with the
//! square of the number of sentences. Only additions, multiplications, divisions and square roots of
//! `f64` are used, in a fixed order, so the scores have the same bits on every machine; ties go to the
//! earlier sentence.

pub(crate) mod antecedents;
pub mod quality;
pub mod select;

use super::text::{Text, history};

/// Part of the random walk that follows the graph.
const DAMPING: f64 = 0.85;
/// Steps of the power iteration; the order of the best sentences settles in fewer.
const STEPS: usize = 8;
/// Sums of cosines up to this are rounding, not likeness.
const ISOLATED: f64 = 1e-6;
/// Weight of centrality, of position, and of any sentence, before quality.
const WEIGHT_CENTRALITY: f64 = 0.45;
const WEIGHT_LEAD: f64 = 0.35;
const WEIGHT_ANY: f64 = 0.2;

/// The sparse sentence-term matrix with unit rows.
pub struct Matrix {
    starts: Vec<usize>,
    terms: Vec<u32>,
    weights: Vec<f64>,
    term_count: usize,
}

impl Matrix {
    /// Builds the tf-idf rows of every sentence.
    pub fn new(text: &Text<'_>) -> Self {
        let term_count = text.vocabulary.term_count();
        let mut matrix =
            Matrix { starts: vec![0], terms: Vec::new(), weights: Vec::new(), term_count };
        let mut row: Vec<u32> = Vec::new();
        let mut documents = vec![0_u32; term_count];
        for sentence in 0..text.sentences.len() {
            row.clear();
            row.extend(text.tokens_of(sentence).iter().filter_map(|token| text.term(token)));
            row.sort_unstable();
            for group in row.chunk_by(|a, b| a == b) {
                matrix.terms.push(group[0]);
                matrix.weights.push(1.0 + log2(group.len() as u64));
                documents[group[0] as usize] += 1;
            }
            matrix.starts.push(matrix.terms.len());
        }
        matrix.weigh(&documents);
        matrix
    }

    fn weigh(&mut self, documents: &[u32]) {
        let rows = self.rows() as u64;
        let idf: Vec<f64> = documents
            .iter()
            .map(|&count| 0.3 + log2(1 + rows) - log2(u64::from(count.max(1))))
            .collect();
        for row in 0..self.rows() {
            let range = self.starts[row]..self.starts[row + 1];
            let mut square = 0.0;
            for at in range.clone() {
                self.weights[at] *= idf[self.terms[at] as usize];
                square += self.weights[at] * self.weights[at];
            }
            let norm = if square > 0.0 { square.sqrt() } else { 1.0 };
            self.weights[range].iter_mut().for_each(|weight| *weight /= norm);
        }
    }

    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// The terms and weights of a sentence, by ascending term.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        let range = self.starts[row]..self.starts[row + 1];
        self.terms[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }

    fn dot(&self, row: usize, dense: &[f64]) -> f64 {
        self.row(row).map(|(term, weight)| weight * dense[term as usize]).sum()
    }

    fn add(&self, row: usize, factor: f64, dense: &mut [f64]) {
        for (term, weight) in self.row(row) {
            dense[term as usize] += factor * weight;
        }
    }

    pub(crate) fn cosine(&self, one: usize, other: usize) -> f64 {
        let (mut a, mut b) = (self.row(one).peekable(), self.row(other).peekable());
        let mut sum = 0.0;
        while let (Some(&(x, weight_x)), Some(&(y, weight_y))) = (a.peek(), b.peek()) {
            if x == y {
                sum += weight_x * weight_y;
            }
            if x <= y {
                a.next();
            }
            if y <= x {
                b.next();
            }
        }
        sum
    }

    /// Stationary distribution of the walk over the cosine graph, self-loops left out, scaled to 0..=1.
    fn centrality(&self) -> Vec<f64> {
        let rows = self.rows();
        let mut total = vec![0.0; self.term_count];
        (0..rows).for_each(|row| self.add(row, 1.0, &mut total));
        // A sentence that shares no term with another has no edges and passes nothing on.
        let degrees: Vec<f64> = (0..rows)
            .map(|row| self.dot(row, &total) - 1.0)
            .map(|degree| if degree > ISOLATED { degree } else { f64::INFINITY })
            .collect();
        let base = (1.0 - DAMPING) / rows.max(1) as f64;
        let mut rank = vec![1.0 / rows.max(1) as f64; rows];
        let mut flow = vec![0.0; self.term_count];
        for _ in 0..STEPS {
            flow.fill(0.0);
            (0..rows).for_each(|row| self.add(row, rank[row] / degrees[row], &mut flow));
            let next = (0..rows).map(|row| {
                let back = rank[row] / degrees[row];
                base + DAMPING * (self.dot(row, &flow) - back).max(0.0)
            });
            rank = next.collect();
        }
        scale(rank)
    }
}

/// Scores of all sentences, quality included. `importance` multiplies each sentence's score.
pub fn score(text: &Text<'_>, matrix: &Matrix) -> Vec<f64> {
    let centrality = matrix.centrality();
    let lead = quality::lead(text);
    let ages = by_age(text);
    (0..matrix.rows())
        .map(|row| {
            let interest =
                WEIGHT_CENTRALITY * centrality[row] + WEIGHT_LEAD * lead[row] + WEIGHT_ANY;
            interest * quality::of(text, row) * ages[row]
        })
        .collect()
}

/// Factors by the age of a version; older ones have the last.
const AGES: [f64; 5] = [1.0, 0.5, 0.3, 0.2, 0.12];
/// Factor of what stands around a history.
const AROUND: f64 = 0.3;

/// The factor of each sentence by the version of a history that it is about, above 0 and at most 1.
fn by_age(text: &Text<'_>) -> Vec<f64> {
    let mut factors = vec![1.0; text.sentences.len()];
    let mut fill = |blocks: std::ops::Range<usize>, factor: f64| {
        for block in &text.blocks[blocks] {
            factors[block.sentences.clone()].fill(factor);
        }
    };
    let history = text.history();
    history.around.iter().for_each(|blocks| fill(blocks.clone(), AROUND));
    for release in &history.releases {
        let age = history::steps(text, release);
        fill(release.blocks.clone(), AGES[age.min(AGES.len() - 1)]);
    }
    factors
}

fn scale(mut scores: Vec<f64>) -> Vec<f64> {
    let most = scores.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        scores.iter_mut().for_each(|score| *score /= most);
    }
    scores
}

/// Base-2 logarithm to eight binary places, by squaring: the same bits everywhere, unlike `ln`.
pub(crate) fn log2(value: u64) -> f64 {
    let value = value.max(1);
    let whole = value.ilog2();
    let mut mantissa = value as f64 / (1_u64 << whole) as f64;
    let mut result = f64::from(whole);
    let mut bit = 0.5;
    for _ in 0..8 {
        mantissa *= mantissa;
        if mantissa >= 2.0 {
            mantissa /= 2.0;
            result += bit;
        }
        bit /= 2.0;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::text::Part;
    use super::*;

    const NEWS: &str = "The city council approved the new tram line on Tuesday. The tram line will link the airport \
with the old town. Council members debated the tram for six hours. Ticket prices were not discussed. \
A dog barked outside. Construction of the tram line starts in May.";

    #[test]
    fn logarithms_are_close_and_exact_at_powers() {
        assert_eq!(log2(1), 0.0);
        assert_eq!(log2(1024), 10.0);
        assert!((log2(10) - std::f64::consts::LOG2_10).abs() < 0.005);
    }

    #[test]
    fn implicit_centrality_equals_the_explicit_graph() {
        let text = Text::new(vec![Part { id: "a", text: NEWS }]);
        let matrix = Matrix::new(&text);
        let rows = matrix.rows();
        let similar = |i: usize, j: usize| if i == j { 0.0 } else { matrix.cosine(i, j) };
        let degrees: Vec<f64> =
            (0..rows).map(|i| (0..rows).map(|j| similar(i, j)).sum::<f64>().max(1e-9)).collect();
        let mut rank = vec![1.0 / rows as f64; rows];
        for _ in 0..STEPS {
            rank = (0..rows)
                .map(|i| {
                    let flow: f64 = (0..rows).map(|j| similar(i, j) * rank[j] / degrees[j]).sum();
                    (1.0 - DAMPING) / rows as f64 + DAMPING * flow
                })
                .collect();
        }
        for (one, other) in scale(rank).iter().zip(matrix.centrality()) {
            assert!((one - other).abs() < 1e-9);
        }
    }

    #[test]
    fn the_newest_version_of_a_history_counts_most() {
        let source = "# Changes\n\nAll changes are listed.\n\n## 2.1.0\n\nA clock.\n\n## 2.0.1\n\nA door.\n\n## 1.9.0\n\nA wall.\n";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let factors = by_age(&text);
        let of = |words: &str| {
            let at = (0..factors.len()).find(|at| text.sentence(*at).contains(words));
            factors[at.expect("said")]
        };
        assert_eq!((of("clock"), of("door"), of("wall")), (AGES[0], AGES[1], AGES[2]));
        assert_eq!(of("All changes"), AROUND);
    }

    #[test]
    fn a_sentence_on_the_subject_scores_above_an_aside() {
        let text = Text::new(vec![Part { id: "a", text: NEWS }]);
        let scores = score(&text, &Matrix::new(&text));
        assert!(scores[0] > scores[4] && scores[1] > scores[4]);
    }
}
