//! Words in summaries: case and accents do not matter.

use unicode_normalization::UnicodeNormalization as _;
use unicode_segmentation::UnicodeSegmentation as _;

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

/// The sentence of a summary that holds most of the words, when the names and the text together hold
/// all of them. A summary without a sentence has no hit.
pub(crate) fn hit(names: &[&str], text: &str, words: &[String]) -> Option<Hit> {
    let mut whole = folded(&names.join(" "));
    whole.push(' ');
    whole.push_str(&folded(text));
    if !words.iter().all(|word| whole.contains(word.as_str())) {
        return None;
    }
    let count = |sentence: &str| {
        let sentence = folded(sentence);
        words.iter().filter(|word| sentence.contains(word.as_str())).count()
    };
    let lines = text.lines().map(|line| line.trim_start_matches(['#', '-', '*', ' ']));
    let best = first_best(lines.flat_map(|line| line.unicode_sentences()), count)?;
    Some(match count(best) {
        0 => Hit::Name,
        _ => Hit::Sentence(best.split_whitespace().collect::<Vec<_>>().join(" ")),
    })
}

/// The first of the sentences with the highest score.
fn first_best<'a>(
    sentences: impl Iterator<Item = &'a str>,
    score: impl Fn(&str) -> usize,
) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    for sentence in sentences {
        let now = score(sentence);
        if best.is_none_or(|(most, _)| now > most) {
            best = Some((now, sentence));
        }
    }
    best.map(|(_, sentence)| sentence)
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
    }
}
