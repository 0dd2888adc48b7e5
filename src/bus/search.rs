//! Words in summaries: case and accents do not matter.

use unicode_normalization::UnicodeNormalization as _;

use crate::model::builtin::text::{language, sentences};

/// Most sentences of one hit.
const SENTENCES_MAX: usize = 3;

/// Most characters of one of them.
const SENTENCE_CHARS: usize = 300;

/// Text for comparing: lower case, without accents.
pub(crate) fn folded(text: &str) -> String {
    let lower = text.to_lowercase();
    let is_mark = |c: &char| matches!(*c, '\u{300}'..='\u{36f}');
    lower.nfd().filter(|c| !is_mark(c)).collect()
}

/// The folded words of a search.
pub(crate) fn words(query: &str) -> Vec<String> {
    query.split_whitespace().map(folded).filter(|word| !word.is_empty()).collect()
}

/// Where words were found in a summary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// In this sentence of the text.
    Sentence(String),
    /// Only in the names.
    Name,
}

/// The sentences of a summary that hold the words, when the names and the text together hold
/// all of them. A summary without a sentence has no hit.
pub(crate) fn hit(names: &[&str], text: &str, words: &[String]) -> Option<Hit> {
    let mut whole = folded(&names.join(" "));
    whole.push(' ');
    whole.push_str(&folded(text));
    if !words.iter().all(|word| whole.contains(word.as_str())) {
        return None;
    }
    let sentences = sentences_of(text);
    let worth: Vec<Vec<usize>> = sentences
        .iter()
        .map(|sentence| {
            let sentence = folded(sentence);
            words.iter().map(|word| closeness(&sentence, word)).collect()
        })
        .collect();
    sentences.first()?;
    let chosen = choose(&worth, words.len());
    if chosen.is_empty() {
        return Some(Hit::Name);
    }
    let mut shown = String::new();
    for (number, &at) in chosen.iter().enumerate() {
        let follows = number > 0 && chosen[number - 1] + 1 == at;
        shown.push_str(if number == 0 {
            ""
        } else if follows {
            " "
        } else {
            " … "
        });
        let sentence = sentences[at].split_whitespace().collect::<Vec<_>>().join(" ");
        shown.push_str(&around_words(&sentence, words));
    }
    Some(Hit::Sentence(shown))
}

/// A long sentence cut to what stands around the first of the words, such as a row of a table.
fn around_words(sentence: &str, words: &[String]) -> String {
    if sentence.chars().count() <= SENTENCE_CHARS {
        return sentence.to_owned();
    }
    let all: Vec<&str> = sentence.split(' ').collect();
    let is_hit = |one: &&str| words.iter().any(|word| folded(one).contains(word.as_str()));
    let hit = all.iter().position(is_hit).unwrap_or(0);
    let room = |text: &[&str]| text.iter().map(|one| one.chars().count() + 1).sum::<usize>();
    let mut first = hit;
    while first > 0 && room(&all[first - 1..hit]) <= SENTENCE_CHARS / 4 {
        first -= 1;
    }
    let mut end = hit + 1;
    while end < all.len() && room(&all[first..=end]) <= SENTENCE_CHARS {
        end += 1;
    }
    let before = if first > 0 { "… " } else { "" };
    let behind = if end < all.len() { " …" } else { "" };
    format!("{before}{}{behind}", all[first..end].join(" "))
}

/// The sentences of a text, as the summarizer finds them: `Dr.` ends none.
fn sentences_of(text: &str) -> Vec<&str> {
    let language = language::language_of([text]);
    let mut found = Vec::new();
    for line in text.lines().map(|line| line.trim_start_matches(['#', '-', '*', ' '])) {
        sentences::split_in(language, false, line, 0..line.len(), |place| found.push(&line[place]));
    }
    found
}

/// The fewest sentences, in their order, that hold the words that the text holds: first the one with
/// most of them, then those with what is missing.
fn choose(worth: &[Vec<usize>], words: usize) -> Vec<usize> {
    let mut missing = vec![true; words];
    let mut chosen = Vec::new();
    while chosen.len() < SENTENCES_MAX {
        let value = |at: usize| -> usize {
            worth[at]
                .iter()
                .zip(&missing)
                .filter(|(_, missing)| **missing)
                .map(|(one, _)| one)
                .sum()
        };
        // Of equal sentences the first counts.
        let best = (0..worth.len()).rev().max_by_key(|&at| value(at));
        let Some(best) = best.filter(|&at| value(at) > 0) else { break };
        missing.iter_mut().zip(&worth[best]).for_each(|(missing, one)| *missing &= *one == 0);
        chosen.push(best);
    }
    chosen.sort_unstable();
    chosen
}

/// How well a folded sentence holds a word: as a word of its own, at the beginning of one, inside one.
fn closeness(sentence: &str, word: &str) -> usize {
    let is_letter = |c: char| c.is_alphanumeric();
    let found = sentence.match_indices(word).map(|(at, _)| {
        let begins = !sentence[..at].ends_with(is_letter);
        let ends = !sentence[at + word.len()..].starts_with(is_letter);
        // One more word counts more than any closeness.
        4 + usize::from(begins) + usize::from(begins && ends)
    });
    found.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_the_sentence_with_most_of_the_words() {
        let text = "### Goal\nThe roof is old. The reparación of the roof costs 900 EUR. Bye.";
        let find = |query: &str| hit(&["notes/roof.md", "T"], text, &words(query));
        let sentence = |text: &str| Some(Hit::Sentence(text.to_owned()));
        assert_eq!(find("ROOF  reparacion"), sentence("The reparación of the roof costs 900 EUR."));
        assert_eq!(find("roof"), sentence("The roof is old."));
        assert_eq!(find("notes"), Some(Hit::Name));
        assert_eq!(find("roof garden"), None);
        let text = "Dr. Weber moved the art show. He starts at 10 a.m. on Friday. Bring the picture to Mrs. Lang.";
        let find = |query: &str| hit(&["a.md", "T"], text, &words(query));
        let row = (1..60).map(|n| format!("column {n}: value{n};")).collect::<Vec<_>>().join(" ");
        let Some(Hit::Sentence(cut)) = hit(&[], &row, &words("value30")) else { panic!() };
        assert!(cut.chars().count() <= SENTENCE_CHARS + 4 && cut.contains("value30;"), "{cut}");
        assert!(cut.starts_with("… ") && cut.ends_with(" …"), "{cut}");
        assert_eq!(find("weber"), sentence("Dr. Weber moved the art show."));
        assert_eq!(find("art"), sentence("Dr. Weber moved the art show."));
        assert_eq!(
            find("weber lang"),
            sentence("Dr. Weber moved the art show. … Bring the picture to Mrs. Lang.")
        );
    }
}
