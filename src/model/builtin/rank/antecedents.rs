//! Sentences that lean on the one before them: `It slipped to Friday.` says nothing alone.
//!
//! Contract. A sentence leans when it begins with a pronoun, or with a demonstrative before a verb. The words stand in
//! `[weight]` of the language files. What it leans on is the sentence right before it in running text, and what that
//! leans on in turn. A sentence that a later one says is wrong leans on that one, and the later one on it. In a talk the words before may be those of another person: nothing leans there.

use super::super::extract::dates;
use super::super::lexicon::lexicon;
use super::super::text::words::Token;
use super::super::text::{Role, Text};
use super::quality::is_prose;

/// Longest run of sentences that lean on each other.
const CHAIN_MAX: usize = 2;
/// Words in which `It is … that` shows that nothing is named before it.
const IMPERSONAL_WORDS: usize = 6;

/// What a sentence leans on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leaning {
    /// Nothing, or nothing that the text has.
    Free,
    /// These sentences before it, the nearest first.
    On(Vec<usize>),
    /// So many sentences that they are a text of their own.
    Deep,
}

/// What a sentence leans on among the sentences that may be shown, without those that are shown already.
pub(crate) fn leaning(
    text: &Text<'_>,
    sentence: usize,
    allowed: impl Fn(usize) -> bool,
    is_shown: impl Fn(usize) -> bool,
) -> Leaning {
    let other = corrections(text).iter().find_map(|(wrong, right)| match sentence {
        at if at == *wrong => Some(*right),
        at if at == *right => Some(*wrong),
        _ => None,
    });
    if let Some(other) = other.filter(|other| !is_shown(*other)) {
        return match allowed(other) {
            true => Leaning::On(vec![other]),
            false if corrected_by(text, sentence).is_some() => Leaning::Deep,
            false => Leaning::Free,
        };
    }
    let mut chain = Vec::new();
    let mut at = sentence;
    while leans(text, at) {
        let before = at.checked_sub(1).filter(|before| is_beside(text, *before, at));
        let Some(before) = before.filter(|before| allowed(*before)) else { break };
        // What is shown stands with what it leans on itself.
        if is_shown(before) {
            break;
        }
        if chain.len() == CHAIN_MAX {
            return Leaning::Deep;
        }
        chain.push(before);
        at = before;
    }
    if chain.is_empty() { Leaning::Free } else { Leaning::On(chain) }
}

/// The sentences that a later one says are wrong, each with that one.
fn corrections<'t>(text: &'t Text<'_>) -> &'t [(usize, usize)] {
    text.corrections.get_or_init(|| dates::corrections(text))
}

/// The later sentence that says that a sentence is wrong.
pub(crate) fn corrected_by(text: &Text<'_>, sentence: usize) -> Option<usize> {
    corrections(text).iter().find(|(wrong, _)| *wrong == sentence).map(|(_, right)| *right)
}

/// Whether two sentences follow each other in running text.
fn is_beside(text: &Text<'_>, before: usize, sentence: usize) -> bool {
    let (one, other) = (text.block_of(before), text.block_of(sentence));
    one.part == other.part
        && one.section == other.section
        && one.kind == other.kind
        && is_prose(one.kind)
        && (one.role == Role::None || one.text == other.text)
}

/// Whether a sentence begins with a word for what was named before.
pub(crate) fn leans(text: &Text<'_>, sentence: usize) -> bool {
    let (weight, tokens) = (&lexicon().weight, text.tokens_of(sentence));
    let folded = |at: usize| tokens.get(at).map_or("", |token| text.folded(token));
    let written = |at: usize| tokens.get(at).map_or("", |token| text.token_text(sentence, token));
    let first = usize::from(weight.joining.contains(folded(0)));
    if weight.impersonal.starts(|at| folded(first + at)).is_some() {
        return false;
    }
    if weight.pronouns.contains(written(first).to_lowercase().as_str()) {
        return !is_impersonal(text, &tokens[first..]);
    }
    weight.demonstratives.contains(folded(first)) && stands_alone(text, sentence, first)
}

/// `It is clear that …`, `It was agreed to …`: nothing is named before it.
fn is_impersonal(text: &Text<'_>, tokens: &[Token]) -> bool {
    const OPENS: [&str; 4] = ["is", "was", "would", "will"];
    let word = |at: usize| tokens.get(at).map_or("", |token| text.folded(token));
    let opens = word(0) == "it" && OPENS.contains(&word(1));
    let mut next = tokens.iter().skip(2).take(IMPERSONAL_WORDS).map(|token| text.folded(token));
    opens && next.any(|word| matches!(word, "that" | "to"))
}

/// Whether a verb follows a demonstrative, so that it stands for a thing: `This costs 40 EUR`, and not `This house`.
fn stands_alone(text: &Text<'_>, sentence: usize, first: usize) -> bool {
    let tokens = text.tokens_of(sentence);
    let Some(next) = tokens.get(first + 1) else { return false };
    let (word, finite) = (text.folded(next), &lexicon().phrases.finite);
    let written = text.token_text(sentence, next);
    // `Sie` before the form of one is no address of the reader.
    if text.folded(&tokens[first]) == "sie" {
        return finite.contains(word) && word.ends_with('t') && !word.ends_with("nt");
    }
    let behind = tokens.get(first + 2);
    let is_low = |token: &Token| text.token_text(sentence, token).starts_with(char::is_lowercase);
    // Nouns have capitals in German: `Das zahlt die Garantie`, and not `Das neue Dach`.
    let is_german = text.language.does(|habits| habits.nouns_have_capitals);
    let is_number = |token: &Token| text.folded(token).starts_with(|c: char| c.is_ascii_digit());
    let leads_on =
        behind.is_some_and(|token| is_number(token) || is_low(token) && text.term(token).is_none());
    finite.contains(word)
        || is_german && written.starts_with(char::is_lowercase) && word.ends_with('t') && leads_on
        || word.len() > 4 && word.ends_with("ed") && !is_german
        || matches!(word, "se" | "ya" | "no" | "n" | "ne")
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Part;
    use super::*;

    fn leaning_words(source: &str) -> bool {
        let text = Text::new(vec![Part { id: "a", text: source }]);
        leans(&text, text.sentences.len() - 1)
    }

    #[test]
    fn a_pronoun_leans_and_an_article_does_not() {
        for source in [
            "The bridge is closed. It slipped to Friday.",
            "The bridge is closed. But they work at night.",
            "The bridge is closed. This costs the city 400 EUR.",
            "The readers moved. That changed our plan.",
            "Their office is closed on Monday.",
            "La feria cambia de lugar este año. Esta se hará en el gimnasio.",
            "La feria cambia de lugar este año. Eso reduce los puestos.",
            "Der Kopierer ist seit Montag kaputt und wir haben nichts. Er druckt nur schwarz.",
            "Der Kopierer ist seit Montag kaputt und wir haben nichts. Das zahlt die Garantie nicht.",
            "La piscine est fermée pour les travaux. Elle rouvre le 9 mars.",
            "La piscine est fermée pour les travaux. Ce sont les pompes.",
        ] {
            assert!(leaning_words(source), "{source}");
        }
        for source in [
            "The bridge is closed.",
            "It is clear that the bridge stays closed.",
            "It was agreed to close the bridge.",
            "This bridge is closed.",
            "These changes were late.",
            "El puente está cerrado y no hay otro.",
            "Esta feria es la mejor de todas.",
            "Das neue Dach ist rot und nicht grün.",
            "Sie erhalten den Schlüssel und die Karte von uns.",
            "Il faut payer avant mercredi pour les enfants.",
            "Ce pont est fermé pour les travaux.",
        ] {
            assert!(!leaning_words(source), "{source}");
        }
    }

    #[test]
    fn a_sentence_that_is_wrong_is_shown_with_the_one_that_says_so() {
        let source = "The pump leaks. We meet on Friday. No, on Monday.";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let leaning_on = |at| leaning(&text, at, |_| true, |_| false);
        assert_eq!(leaning_on(0), Leaning::Free);
        assert_eq!(leaning_on(1), Leaning::On(vec![2]));
        assert_eq!(leaning_on(2), Leaning::On(vec![1]));
        assert_eq!(leaning(&text, 1, |at| at == 1, |_| false), Leaning::Deep);
        assert_eq!(leaning(&text, 1, |_| true, |at| at == 2), Leaning::Free);
    }

    #[test]
    fn what_a_sentence_leans_on_stands_right_before_it() {
        let source = "The pump leaks. It is old. It costs 90 EUR. It came in May. Ana sells it.\n\n- It rains.\n";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let leaning_on = |at| leaning(&text, at, |_| true, |_| false);
        assert_eq!(leaning_on(0), Leaning::Free);
        assert_eq!(leaning_on(1), Leaning::On(vec![0]));
        assert_eq!(leaning_on(2), Leaning::On(vec![1, 0]));
        assert_eq!(leaning_on(3), Leaning::Deep);
        assert_eq!(leaning_on(4), Leaning::Free);
        assert_eq!(leaning(&text, 3, |_| true, |at| at == 2), Leaning::Free);
        assert_eq!(leaning(&text, 1, |at| at != 0, |_| false), Leaning::Free);
    }
}
