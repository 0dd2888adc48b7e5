//! Words that carry grammar rather than content.
//!
//! Those of the languages that other texts mix in (English and Spanish) count everywhere: a stop word of
//! one is hardly ever a content word of the other. Those of the other languages (`die`, `war`, `son`)
//! count only in texts of their own. Accents are folded.

use super::super::lexicon::{Language, lexicon};

/// Whether a folded word carries no content in a text of any language.
pub(crate) fn is_stop_word(folded: &str) -> bool {
    lexicon().stop_words.contains(folded)
}

/// Whether a folded word carries no content in a text of a language.
pub(crate) fn is_stop_word_in(language: Language, folded: &str) -> bool {
    is_stop_word(folded) || language.habits().is_some_and(|own| own.stop_words.contains(folded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_word_of_german_counts_in_german_texts_only() {
        assert!(is_stop_word("the") && is_stop_word("tambien") && !is_stop_word("invoice"));
        assert!(!is_stop_word("war") && is_stop_word_in(Language::of_code("de"), "war"));
    }
}
