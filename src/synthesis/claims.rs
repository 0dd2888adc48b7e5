//! The claims of a text: the sentences that state something by themselves.
//!
//! Headings, tables, signatures, greetings, questions, lead-ins and fragments of a few words state
//! nothing that a reader could check, so they are left out, each with its reason. A sentence that was
//! said before is one claim with both sources.
//!
//! See docs/adr/0093-claims-and-labels-of-packs-from-summaries.md.

use crate::model::builtin::rank::quality;
use crate::model::builtin::text::{Kind, Part, Text};

use super::inline;

/// Fewest words of a sentence.
const WORDS_MIN: usize = 4;
/// Fewest words of a text that does not end like a sentence.
const WORDS_OPEN_MIN: usize = 6;
/// Fewest words that carry meaning.
const CONTENT_MIN: usize = 2;
/// Most sentences that are taken from one text.
pub(crate) const SENTENCES_MAX: usize = 200;

/// A sentence of a text, with the reason when it is no claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// One line of plain text.
    pub text: String,
    pub why_not: Option<&'static str>,
}

pub(crate) fn statements(id: &str, source: &str) -> Vec<Statement> {
    let text = Text::new(vec![Part { id, text: source }]);
    let mut found = Vec::new();
    for at in 0..text.sentences.len() {
        let Some(plain) = inline::read(text.sentence(at), 0) else { continue };
        if !plain.text.contains(char::is_alphanumeric) {
            continue;
        }
        let why_not = why_not(&text, at, &plain.text);
        found.push(Statement { text: plain.text, why_not });
        if found.len() >= SENTENCES_MAX {
            break;
        }
    }
    found
}

fn why_not(text: &Text<'_>, at: usize, plain: &str) -> Option<&'static str> {
    match text.block_of(at).kind {
        Kind::Paragraph | Kind::Item => {}
        Kind::Heading(_) => return Some("a heading"),
        Kind::Signature => return Some("a signature"),
        Kind::Quote => return Some("a quotation of another text"),
        Kind::Table | Kind::Columns => return Some("a table"),
        _ => return Some("a header line, code or a link"),
    }
    if quality::courtesy(text, at).is_some() {
        return Some("a greeting or thanks");
    }
    let words =
        plain.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
    let tokens = text.tokens_of(at);
    let content = tokens.iter().filter(|token| text.term(token).is_some()).count();
    let last = plain.trim_end_matches(['"', '”', '»', '\'', '’', ')', ']']).chars().next_back();
    match last {
        _ if plain.starts_with("[x] ") => Some("an item that is done"),
        Some('?') => Some("a question"),
        Some(':') => Some("the lead-in of a list"),
        _ if content < CONTENT_MIN => Some("too few words"),
        Some('.' | '!' | '…') if words >= WORDS_MIN => None,
        Some('.' | '!' | '…') => Some("too few words"),
        _ if words >= WORDS_OPEN_MIN => None,
        _ => Some("too few words"),
    }
}

/// A form in which two spellings of one statement are equal.
pub(crate) fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        folded.push_str(&word.to_lowercase());
        folded.push(' ');
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(source: &str) -> Vec<String> {
        let found = statements("s", source).into_iter();
        found.filter(|one| one.why_not.is_none()).map(|one| one.text).collect()
    }

    #[test]
    fn only_sentences_that_state_something_are_claims() {
        let source = "# Weekly report\n\nHi Ana,\n\nThe queue lost forty lines on Monday. Why did it happen?\n\
                      What was done:\n\n- Bob wrote a test that repeats the loss.\n- Tests.\n- Ana Ruiz\n\n\
                      Thanks a lot,\nBob\n";
        assert_eq!(
            claims(source),
            ["The queue lost forty lines on Monday.", "Bob wrote a test that repeats the loss."]
        );
        let spanish = "Hola Ana:\n\nEl turno de la guardia empieza a las ocho. Un saludo,\nBeto\n";
        assert_eq!(claims(spanish), ["El turno de la guardia empieza a las ocho."]);
        let why: Vec<&str> =
            statements("s", source).into_iter().filter_map(|one| one.why_not).collect();
        assert!(why.contains(&"a heading") && why.contains(&"a question"), "{why:?}");
    }

    #[test]
    fn spellings_of_one_statement_are_equal() {
        assert_eq!(folded("The queue, lost 40 lines."), folded("the  queue lost 40 lines"));
        assert_ne!(folded("It works."), folded("It does not work."));
    }
}
