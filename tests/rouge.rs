//! Quality of the extractive summaries: ROUGE-1, ROUGE-2 and ROUGE-L (F1) on a small set of texts with
//! abstracts written for this project, beside the first three sentences, a plain TextRank, and the
//! results of five Python packages.
//!
//! Settings: three sentences out for all three; tokens are runs of letters and digits, lower-cased,
//! accents kept, no stemming, no stop words removed; ROUGE-L on the whole summary as one sequence; F1
//! averaged over texts. Run with `--nocapture` for the figures. The set is small: differences of one or
//! two points mean nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use summarizer::model::builtin::Builtin;
use summarizer::model::builtin::fill::hints::{Hints, Size};
use summarizer::model::builtin::text::{Part, Text};
use summarizer::model::{CallSettings, ModelCall, Provider, SourceText};

const SENTENCES: usize = 3;

/// Results of Python packages on the same set with the same settings: sumy 0.13.0 with its stemmers
/// and stop words, summa 1.2.0, sentences split at `[.!?]` before white space and at line ends.
const PACKAGES: [(&str, [f64; 3]); 5] = [
    ("sumy TextRank", [51.2, 30.5, 42.3]),
    ("sumy LexRank", [44.3, 21.1, 33.1]),
    ("sumy LSA", [48.4, 26.1, 38.7]),
    ("sumy Luhn", [41.1, 19.5, 31.3]),
    ("summa TextRank", [46.5, 23.3, 31.4]),
];

struct Sample {
    kind: String,
    text: String,
    summary: String,
}

fn samples() -> Vec<Sample> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rouge/texts.jsonl");
    let lines = std::fs::read_to_string(path).expect("the evaluation set");
    let field = |value: &Value, name: &str| value[name].as_str().expect("a string").to_string();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .map(|value: Value| Sample {
            kind: field(&value, "kind"),
            text: field(&value, "text"),
            summary: field(&value, "abstract"),
        })
        .collect()
}

fn builtin(text: &str) -> String {
    let sources = [SourceText { id: "a".into(), text: text.into() }];
    let summary = Some(Size { sentences: SENTENCES, bytes: 100_000 });
    let hints = Hints { summary, ..Hints::default() };
    let call = ModelCall {
        flow_id: "rouge",
        variant: None,
        node: "node",
        messages: &[],
        inputs: &Map::new(),
        sources: &sources,
        schema: None,
        validator: None,
        hints: Some(&hints),
        settings: CallSettings::default(),
        timeout: Duration::from_secs(60),
        bill: None,
        listener: None,
        model: None,
        apart: false,
        speakers: None,
        kept_as: "",
    };
    Builtin.call(&call).expect("an answer").text
}

fn sentences(text: &str) -> Vec<String> {
    let text = Text::new(vec![Part { id: "a", text }]);
    (0..text.sentences.len()).map(|at| text.sentence(at).to_string()).collect()
}

fn lead(text: &str) -> String {
    sentences(text).into_iter().take(SENTENCES).collect::<Vec<_>>().join(" ")
}

/// TextRank as published: shared words over the logarithms of the lengths, damping 0.85.
fn textrank(text: &str) -> String {
    let sentences = sentences(text);
    let words: Vec<Vec<String>> = sentences.iter().map(|sentence| tokens(sentence)).collect();
    let like = |i: usize, j: usize| {
        let shared = words[i].iter().filter(|word| words[j].contains(word)).count() as f64;
        let length = (words[i].len().max(2) as f64).ln() + (words[j].len().max(2) as f64).ln();
        if i == j { 0.0 } else { shared / length }
    };
    let count = sentences.len();
    let out: Vec<f64> =
        (0..count).map(|i| (0..count).map(|j| like(i, j)).sum::<f64>().max(1e-9)).collect();
    let mut rank = vec![1.0; count];
    for _ in 0..50 {
        rank = (0..count)
            .map(|i| 0.15 + 0.85 * (0..count).map(|j| like(j, i) / out[j] * rank[j]).sum::<f64>())
            .collect();
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| rank[b].total_cmp(&rank[a]).then(a.cmp(&b)));
    order.truncate(SENTENCES);
    order.sort_unstable();
    order.into_iter().map(|at| sentences[at].as_str()).collect::<Vec<_>>().join(" ")
}

fn tokens(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn rouge_n(said: &[String], wanted: &[String], n: usize) -> f64 {
    let grams = |words: &[String]| {
        let mut counts: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        words.windows(n).for_each(|gram| *counts.entry(gram.to_vec()).or_default() += 1);
        counts
    };
    let (said, wanted) = (grams(said), grams(wanted));
    let shared: usize = said
        .iter()
        .map(|(gram, count)| wanted.get(gram).map_or(0, |other| *count.min(other)))
        .sum();
    f1(shared, said.values().sum(), wanted.values().sum())
}

fn rouge_l(said: &[String], wanted: &[String]) -> f64 {
    let mut row = vec![0; wanted.len() + 1];
    for word in said {
        let mut diagonal = 0;
        for (at, other) in wanted.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if word == other { diagonal + 1 } else { above.max(row[at]) };
            diagonal = above;
        }
    }
    f1(row[wanted.len()], said.len(), wanted.len())
}

fn f1(shared: usize, said: usize, wanted: usize) -> f64 {
    if said + wanted == 0 { 0.0 } else { 200.0 * shared as f64 / (said + wanted) as f64 }
}

fn scores(said: &str, wanted: &str) -> [f64; 3] {
    let (said, wanted) = (tokens(said), tokens(wanted));
    [rouge_n(&said, &wanted, 1), rouge_n(&said, &wanted, 2), rouge_l(&said, &wanted)]
}

fn mean(samples: &[Sample], system: fn(&str) -> String, kinds: impl Fn(&str) -> bool) -> [f64; 3] {
    let chosen: Vec<&Sample> = samples.iter().filter(|sample| kinds(&sample.kind)).collect();
    let mut sum = [0.0; 3];
    for sample in &chosen {
        let one = scores(&system(&sample.text), &sample.summary);
        sum.iter_mut().zip(one).for_each(|(sum, score)| *sum += score);
    }
    sum.map(|sum| sum / chosen.len() as f64)
}

#[test]
fn rouge_scores_of_known_cases_are_right() {
    assert_eq!(scores("the cat sat", "the cat sat"), [100.0, 100.0, 100.0]);
    assert_eq!(scores("a b", "c d"), [0.0, 0.0, 0.0]);
    assert_eq!(scores("a x b", "a b")[2], 80.0);
}

#[test]
fn summaries_score_at_least_as_high_as_textrank_and_the_lead() {
    let samples = samples();
    type System = (&'static str, fn(&str) -> String);
    let systems: [System; 3] = [("builtin", builtin), ("lead-3", lead), ("TextRank", textrank)];
    let conversational = |kind: &str| matches!(kind, "chat" | "mail" | "job posting");
    for (name, system) in systems {
        let [r1, r2, rl] = mean(&samples, system, |_| true);
        let [c1, c2, cl] = mean(&samples, system, conversational);
        println!(
            "{name:9} all {} texts: R-1 {r1:.1} R-2 {r2:.1} R-L {rl:.1} | chat, mail, jobs: R-1 {c1:.1} R-2 {c2:.1} R-L {cl:.1}",
            samples.len()
        );
    }
    let ours = mean(&samples, builtin, |_| true);
    let theirs = mean(&samples, textrank, |_| true);
    for (our, their) in ours.iter().zip(theirs) {
        assert!(*our >= their, "{ours:?} against {theirs:?}");
    }
    for (name, theirs) in PACKAGES {
        println!("{name}: R-1 {} R-2 {} R-L {}", theirs[0], theirs[1], theirs[2]);
        for (our, their) in ours.iter().zip(theirs) {
            assert!(*our >= their, "{ours:?} against {theirs:?} of {name}");
        }
    }
}
