//! Finds the source passages that support each sentence of a text.
//!
//! Contract: pure and bounded. A sentence that a source holds is found there; any white space equals
//! one space. A sentence made of quotes is found by its quotes. For every other sentence the source
//! sentences that share most of its rare words are named, with the basis `Lexical`: a similarity, not
//! a proof.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Serialize;

use super::evidence::Folded;
use crate::markup::prefix;
use crate::model::builtin::rank::select::begun_otherwise;
use crate::model::builtin::text::inline::unmarked;
use crate::model::builtin::text::sentences;
use crate::model::builtin::text::stopwords::is_stop_word;
use crate::model::builtin::text::words::{fold, for_each_token};
use crate::model::{SourceSpan, SourceText};

/// Most bytes of the sources that are searched.
const SOURCE_BYTES_MAX: usize = 8 << 20;
/// Sentences of the text that are aligned.
const SENTENCES_MAX: usize = 500;
/// Most source sentences that are named for one sentence by similarity.
const LIKE_MAX: usize = 3;
/// Least share of a sentence's words that similar source sentences must cover.
const LIKENESS_MIN: f64 = 0.25;
/// Least share of a sentence that its quotes must cover.
const QUOTED_MIN: f64 = 0.6;
/// Shortest text that is searched, in bytes.
const PIECE_BYTES_MIN: usize = 3;

/// Why spans are named for a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The words were copied from there: the provider only copies.
    Exact,
    /// The source holds the same words. Whether the model took them from there is unknown.
    Verbatim,
    /// The source has the most similar words. This is not a proof.
    Lexical,
    /// No source sentence is similar.
    None,
}

/// One sentence and the source spans that support it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Aligned {
    /// First byte of the sentence in the text.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
    pub basis: Basis,
    /// The share of the sentence that the spans cover, from 0 to 1.
    pub score: f64,
    /// The spans, in order of the sources.
    pub spans: Vec<SourceSpan>,
}

/// Aligns the sentences of a text. `copied` is true for a provider that only copies; `quotes` are the
/// spans that it reported.
pub(crate) fn align(
    text: &str,
    sources: &[SourceText],
    copied: bool,
    quotes: &[SourceSpan],
) -> Vec<Aligned> {
    let texts = within(sources);
    let folded: Vec<Folded> = texts.iter().map(|text| Folded::of(text)).collect();
    let quotes: Vec<(SourceSpan, String)> = quotes
        .iter()
        .filter_map(|span| {
            let quote = texts.get(span.source)?.get(span.start..span.end)?;
            Some((*span, Folded::of(&unmarked(quote)).text))
        })
        .filter(|(_, quote)| quote.len() >= PIECE_BYTES_MIN)
        .collect();
    let mut likeness = None;
    split(text)
        .map(|range| {
            let sentence = &text[range.clone()];
            let wanted = Folded::of(bare(sentence)).text;
            let (basis, score, spans) = stands(&wanted, &folded, copied)
                .or_else(|| composed(&wanted, &quotes, copied))
                .or_else(|| likeness.get_or_insert_with(|| Likeness::of(&texts)).best(sentence))
                .unwrap_or((Basis::None, 0.0, Vec::new()));
            Aligned { start: range.start, end: range.end, basis, score, spans }
        })
        .collect()
}

/// A text for searches in which any white space equals one space.
pub fn find(text: &str, words: &str) -> Option<usize> {
    let (start, _) = Folded::of(text).find(&Folded::of(words).text)?;
    Some(start)
}

type Alignment = (Basis, f64, Vec<SourceSpan>);

/// The part of the sources that is searched.
fn within(sources: &[SourceText]) -> Vec<&str> {
    let mut left = SOURCE_BYTES_MAX;
    sources
        .iter()
        .map(|source| {
            let text = prefix(&source.text, left);
            left -= text.len();
            text
        })
        .collect()
}

/// Sentences line by line: a list has an entry a line, whatever its punctuation.
fn split(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        sentences::split(text, start..start + line.len(), |range| ranges.push(range));
        start += line.len();
    }
    ranges.into_iter().filter(|range| !range.is_empty()).take(SENTENCES_MAX)
}

/// A sentence without list markers and quotation marks around it.
fn bare(sentence: &str) -> &str {
    let sentence = sentence.trim().trim_start_matches(['-', '*', '•', '#', '>']);
    sentence.trim().trim_matches(['"', '“', '”', '«', '»', '…'])
}

fn stands(wanted: &str, folded: &[Folded], copied: bool) -> Option<Alignment> {
    if wanted.len() < PIECE_BYTES_MIN {
        return None;
    }
    let basis = if copied { Basis::Exact } else { Basis::Verbatim };
    let otherwise = begun_otherwise(wanted);
    folded.iter().enumerate().find_map(|(source, text)| {
        let found = text.find(wanted).or_else(|| text.find(otherwise.as_deref()?));
        let (start, end) = found?;
        Some((basis, 1.0, vec![SourceSpan { source, start, end }]))
    })
}

/// Aligns a sentence made of quotes, such as a title before a sentence, or two joined halves.
fn composed(wanted: &str, quotes: &[(SourceSpan, String)], copied: bool) -> Option<Alignment> {
    if !copied {
        return None;
    }
    let mut covered = vec![false; wanted.len()];
    let mut spans = BTreeSet::new();
    let mut longest: Vec<&(SourceSpan, String)> = quotes.iter().collect();
    longest.sort_by_key(|(span, quote)| (std::cmp::Reverse(quote.len()), *span));
    for (span, quote) in longest {
        let otherwise = || wanted.find(begun_otherwise(quote)?.as_str());
        let Some(at) = wanted.find(quote.as_str()).or_else(otherwise) else { continue };
        let place = &mut covered[at..at + quote.len()];
        if place.iter().any(|byte| *byte) {
            continue;
        }
        place.fill(true);
        spans.insert(*span);
    }
    let share = covered.iter().filter(|byte| **byte).count() as f64 / wanted.len().max(1) as f64;
    (share >= QUOTED_MIN).then(|| (Basis::Exact, rounded(share), spans.into_iter().collect()))
}

/// The words of every source sentence.
struct Likeness {
    sentences: Vec<(SourceSpan, BTreeSet<u32>)>,
    words: BTreeMap<String, u32>,
    /// In how many sentences each word is.
    spread: Vec<u32>,
    /// Which sentences hold each word.
    holders: Vec<Vec<u32>>,
}

impl Likeness {
    fn of(texts: &[&str]) -> Likeness {
        let mut all = Likeness {
            sentences: Vec::new(),
            words: BTreeMap::new(),
            spread: Vec::new(),
            holders: Vec::new(),
        };
        for (source, text) in texts.iter().enumerate() {
            sentences::split(text, 0..text.len(), |range| {
                let number = all.sentences.len() as u32;
                let mut words = BTreeSet::new();
                for word in content_words(&text[range.clone()]) {
                    let next = all.words.len() as u32;
                    let word = *all.words.entry(word).or_insert(next);
                    if word == next {
                        all.spread.push(0);
                        all.holders.push(Vec::new());
                    }
                    if words.insert(word) {
                        all.spread[word as usize] += 1;
                        all.holders[word as usize].push(number);
                    }
                }
                let span = SourceSpan { source, start: range.start, end: range.end };
                all.sentences.push((span, words));
            });
        }
        all
    }

    /// The weight of a word. Rare words weigh more; a word that no source holds weighs most.
    fn weight(&self, word: Option<u32>) -> f64 {
        let spread = word.map_or(1, |word| self.spread[word as usize]);
        (1.0 + self.sentences.len() as f64 / f64::from(spread.max(1))).ln()
    }

    fn best(&self, sentence: &str) -> Option<Alignment> {
        let words: BTreeSet<String> = content_words(sentence).collect();
        let mut open = BTreeSet::new();
        let mut total = 0.0;
        for word in &words {
            let known = self.words.get(word).copied();
            total += self.weight(known);
            open.extend(known);
        }
        let mut covered = 0.0;
        let mut spans = BTreeSet::new();
        while spans.len() < LIKE_MAX && !open.is_empty() {
            let mut gains: BTreeMap<u32, f64> = BTreeMap::new();
            for word in &open {
                for holder in &self.holders[*word as usize] {
                    *gains.entry(*holder).or_default() += self.weight(Some(*word));
                }
            }
            // Among equals the first source wins, because the map is in order of the sources.
            let best = gains.into_iter().reduce(|best, next| match next.1 > best.1 {
                true => next,
                false => best,
            });
            let Some((number, gain)) = best else { break };
            // The first sentence must share words; each further one must add words.
            if gain / total < if spans.is_empty() { LIKENESS_MIN / 2.0 } else { LIKENESS_MIN } {
                break;
            }
            let (span, holds) = &self.sentences[number as usize];
            covered += gain;
            spans.insert(*span);
            open.retain(|word| !holds.contains(word));
        }
        let share = covered / total;
        let enough = total > 0.0 && share >= LIKENESS_MIN;
        enough.then(|| (Basis::Lexical, rounded(share), spans.into_iter().collect()))
    }
}

/// Rounds to two digits, so that the result is the same on every machine.
fn rounded(share: f64) -> f64 {
    (share.min(1.0) * 100.0).round() / 100.0
}

fn content_words(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    for_each_token(text, |start, end| words.push(fold(&text[start..end])));
    words.into_iter().filter(|word| !is_stop_word(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Vec<SourceText> {
        let text = |id: &str, text: &str| SourceText { id: id.into(), text: text.into() };
        vec![
            text("a", "Nothing of note."),
            text("b", "The import failed\non Monday. Ana moved the archive. Lunch was late."),
        ]
    }

    fn spans(aligned: &Aligned) -> Vec<&'static str> {
        let texts = [
            "Nothing of note.",
            "The import failed\non Monday. Ana moved the archive. Lunch was late.",
        ];
        aligned.spans.iter().map(|span| &texts[span.source][span.start..span.end]).collect()
    }

    #[test]
    fn copied_sentences_lead_to_their_very_words() {
        let found = align("The import failed on Monday. - Lunch was late.", &sources(), true, &[]);
        assert_eq!(found[0].basis, Basis::Exact);
        assert_eq!(spans(&found[0]), ["The import failed\non Monday."]);
        let found = align("• Ana moved the archive", &sources(), true, &[]);
        assert_eq!(
            (found[0].basis, spans(&found[0])),
            (Basis::Exact, vec!["Ana moved the archive"])
        );
    }

    #[test]
    fn a_sentence_of_quotes_leads_to_each() {
        let quotes = [
            SourceSpan { source: 1, start: 29, end: 50 },
            SourceSpan { source: 1, start: 0, end: 17 },
        ];
        let text = "The import failed: Ana moved the archive";
        let found = align(text, &sources(), true, &quotes);
        assert_eq!(found[0].basis, Basis::Exact);
        assert_eq!(spans(&found[0]), ["The import failed", "Ana moved the archive"]);
        let found = align(text, &sources(), false, &quotes);
        assert_eq!(found[0].basis, Basis::Lexical, "free text is only compared by similarity");
    }

    #[test]
    fn free_text_is_aligned_by_similarity_and_labelled_so() {
        let text = "Because an import had collapsed, Ana has moved an archive. Penguins fly.\nLunch was late.";
        let found = align(text, &sources(), false, &[]);
        assert_eq!(
            found.iter().map(|one| one.basis).collect::<Vec<_>>(),
            [Basis::Lexical, Basis::None, Basis::Verbatim]
        );
        assert!(found[0].score < 1.0 && found[0].score >= LIKENESS_MIN, "{}", found[0].score);
        assert!(spans(&found[0]).contains(&"Ana moved the archive."));
        assert_eq!(found[1].spans, []);
    }

    #[test]
    fn texts_without_words_have_no_alignment() {
        assert_eq!(align("", &sources(), true, &[]), []);
        let found = align("Words.", &[], false, &[]);
        assert_eq!((found.len(), found[0].basis), (1, Basis::None));
    }
}
