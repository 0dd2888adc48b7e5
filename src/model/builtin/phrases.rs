//! Key phrases: runs of content words that recur, stand early, or stand in headings.
//!
//! A phrase is one to three neighbouring content words inside a sentence, as it was first written. Its
//! weight is the weight of its terms, how often it occurs, and how many words it has; phrases that lie
//! inside a chosen one are left out. Integer scores; ties go to the earlier phrase.

use std::collections::HashMap;

use super::text::words::{Fast, Token};
use super::text::{Kind, Role, Text};

/// Longest phrase, in words.
const WORDS_MAX: usize = 3;
/// Sentences looked at; beyond this a text repeats itself.
const SENTENCES_MAX: usize = 4000;

/// A phrase and where it first stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// Its terms.
    pub terms: Vec<u32>,
    /// Sentence of its first occurrence.
    pub sentence: usize,
    /// Byte range there, in the part.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    score: u64,
    count: u32,
}

/// The best `most` phrases of the given sentences.
pub fn key_phrases(text: &Text<'_>, sentences: &[usize], most: usize) -> Vec<Phrase> {
    let sentences = &sentences[..sentences.len().min(SENTENCES_MAX)];
    let weights = term_weights(text, sentences);
    let mut found: HashMap<Vec<u32>, usize, Fast> = HashMap::default();
    let mut phrases: Vec<Phrase> = Vec::new();
    for &sentence in sentences {
        if !speaks(text, sentence) {
            continue;
        }
        for_each_run(text, sentence, |run| {
            for start in 0..run.len() {
                for end in start + 1..=(start + WORDS_MAX).min(run.len()) {
                    note(text, sentence, &run[start..end], &mut found, &mut phrases);
                }
            }
        });
    }
    for phrase in &mut phrases {
        phrase.score = worth(phrase, &weights);
    }
    phrases.sort_by(|a, b| {
        b.score.cmp(&a.score).then((a.sentence, a.start).cmp(&(b.sentence, b.start)))
    });
    choose(phrases, most)
}

fn speaks(text: &Text<'_>, sentence: usize) -> bool {
    let block = text.block_of(sentence);
    !matches!(block.kind, Kind::Code | Kind::Signature | Kind::Quote)
        && !matches!(block.role, Role::Tool | Role::System)
        && super::rank::quality::courtesy(text, sentence).is_none()
}

fn term_weights(text: &Text<'_>, sentences: &[usize]) -> Vec<u64> {
    let mut weights = vec![0_u64; text.vocabulary.term_count()];
    for (position, &sentence) in sentences.iter().enumerate() {
        if !speaks(text, sentence) {
            continue;
        }
        let heading = matches!(text.block_of(sentence).kind, Kind::Heading(_) | Kind::Header);
        let early = if position < 3 { 2 } else { 0 };
        for (at, token) in text.tokens_of(sentence).iter().enumerate() {
            if let Some(term) = text.term(token) {
                let capital = at > 0
                    && text
                        .token_text(sentence, token)
                        .chars()
                        .next()
                        .is_some_and(char::is_uppercase);
                weights[term as usize] += 2 + early + 3 * u64::from(heading) + u64::from(capital);
            }
        }
    }
    weights
}

/// Neighbouring content words, broken by stop words, punctuation and bare numbers.
fn for_each_run(text: &Text<'_>, sentence: usize, mut each: impl FnMut(&[Token])) {
    let tokens = text.tokens_of(sentence);
    let source = text.parts[text.sentences[sentence].part].text;
    let mut from = 0;
    for at in 0..=tokens.len() {
        let broken = at == tokens.len()
            || !is_content(text, sentence, &tokens[at])
            || (at > from
                && source[tokens[at - 1].end as usize..tokens[at].start as usize]
                    .trim_matches(['-', '_', '/', '.', '#', '@'])
                    != " "
                && !joined(&source[tokens[at - 1].end as usize..tokens[at].start as usize]));
        if broken {
            if at > from {
                each(&tokens[from..at]);
            }
            from = if at < tokens.len() && is_content(text, sentence, &tokens[at]) {
                at
            } else {
                at + 1
            };
        }
    }
}

fn joined(gap: &str) -> bool {
    matches!(gap, "-" | "_" | "/" | "." | "#" | "+" | " ")
}

fn is_content(text: &Text<'_>, sentence: usize, token: &Token) -> bool {
    let word = text.token_text(sentence, token);
    let plain =
        text.term(token).is_some() && word.chars().any(char::is_alphabetic) && word.len() <= 40;
    plain && !super::extract::dates::is_calendar_word(text.folded(token))
}

fn note(
    text: &Text<'_>,
    sentence: usize,
    run: &[Token],
    found: &mut HashMap<Vec<u32>, usize, Fast>,
    phrases: &mut Vec<Phrase>,
) {
    let terms: Vec<u32> = run.iter().filter_map(|token| text.term(token)).collect();
    match found.get(&terms) {
        Some(&index) => phrases[index].count += 1,
        None => {
            found.insert(terms.clone(), phrases.len());
            let (start, end) = (run[0].start as usize, run[run.len() - 1].end as usize);
            phrases.push(Phrase { terms, sentence, start, end, score: 0, count: 1 });
        }
    }
}

fn worth(phrase: &Phrase, weights: &[u64]) -> u64 {
    let words = phrase.terms.len() as u64;
    let sum: u64 = phrase.terms.iter().map(|&term| weights[term as usize].min(60)).sum();
    let mean = sum * 100 / words;
    let count = u64::from(phrase.count.min(12));
    let recurring = match words {
        1 => 10 + 6 * count,
        2 if count == 1 => 17,
        _ if count == 1 => 14,
        _ => 14 + 12 * count,
    };
    mean * recurring
}

fn choose(phrases: Vec<Phrase>, most: usize) -> Vec<Phrase> {
    let mut chosen: Vec<Phrase> = Vec::new();
    for phrase in phrases {
        if chosen.len() == most {
            break;
        }
        let overlaps = chosen.iter().any(|other| {
            let shared = phrase.terms.iter().filter(|term| other.terms.contains(term)).count();
            shared * 2 >= phrase.terms.len().min(other.terms.len())
        });
        if !overlaps {
            chosen.push(phrase);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::text::Part;
    use super::*;

    #[test]
    fn recurring_phrases_come_first_and_do_not_overlap() {
        let source = "The data pipeline failed. We fixed the data pipeline. The data pipeline now retries. A cat slept.";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let all: Vec<usize> = (0..text.sentences.len()).collect();
        let phrases = key_phrases(&text, &all, 3);
        assert_eq!(&source[phrases[0].start..phrases[0].end], "data pipeline");
        assert_eq!(
            phrases
                .iter()
                .filter(|phrase| source[phrase.start..phrase.end].contains("pipeline"))
                .count(),
            1
        );
    }
}
