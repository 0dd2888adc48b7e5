//! Sentence boundaries inside a block, as byte ranges.
//!
//! Rules, no model: a full stop ends a sentence unless it follows an abbreviation, an initial or an
//! enumerator, or the next word goes on in lower case; in German, unless it makes a number an ordinal.
//! Question and exclamation marks end one before
//! white space; CJK stops always do. Overlong sentences are cut at white space, so that every later
//! step works on bounded pieces.

use std::borrow::Cow;
use std::ops::Range;

use super::super::lexicon::{Language, lexicon};
use super::words::{char_at, fold};
use crate::markup::prefix;

/// Longest sentence; longer runs are cut at white space.
pub(crate) const SENTENCE_BYTES_MAX: usize = 1200;

/// Calls `each` with the trimmed range of every sentence of `text[range]`.
pub fn split(source: &str, range: Range<usize>, each: impl FnMut(Range<usize>)) {
    split_in(Language::UNDETERMINED, false, source, range, each);
}

/// A ticked box before what is done.
const DONE: &str = "[x] ";

/// Whether a text begins its sentences in lower case as a habit: a chat.
pub(crate) fn is_casual(source: &str) -> bool {
    const LOOKED_AT: usize = 20_000;
    let source = prefix(source, LOOKED_AT);
    let source = match source.contains(DONE) {
        true => Cow::Owned(source.replace(DONE, "")),
        false => Cow::Borrowed(source),
    };
    let (mut low, mut high) = (0_usize, 0_usize);
    let mut before = ' ';
    let mut stopped = false;
    for character in source.chars() {
        if stopped && before.is_whitespace() && character.is_alphabetic() {
            match character.is_lowercase() {
                true => low += 1,
                false => high += 1,
            }
        }
        if matches!(character, '.' | '!' | '?') {
            stopped = true;
        } else if !character.is_whitespace() {
            stopped = false;
        }
        before = character;
    }
    low > 0 && low >= high
}

/// As [`split`], knowing the language and whether sentences begin in lower case.
pub(crate) fn split_in(
    language: Language,
    casual: bool,
    source: &str,
    range: Range<usize>,
    mut each: impl FnMut(Range<usize>),
) {
    let ordinals = language.does(|habits| habits.ordinals_end_in_a_stop);
    let mut start = range.start;
    let mut at = range.start;
    let bytes = source.as_bytes();
    // Where the run of closing marks ends that was met last: it is read once.
    let mut closed = range.start;
    while at < range.end {
        if !may_end(bytes[at]) {
            at += 1;
            continue;
        }
        let (character, width) = char_at(source, at);
        let next = at + width;
        if matches!(character, '!' | '?' | '…' | '.') {
            if next > closed {
                closed = closing(source, &range, next);
            }
            let goes_on = source[closed..range.end].chars().next();
            if goes_on.is_some_and(|next| !next.is_whitespace()) {
                at = next;
                continue;
            }
        }
        match boundary(
            &source[start..range.end],
            at - start,
            closed.max(at) - start,
            character,
            casual,
        ) {
            Some(_) if ordinals && character == '.' && ends_in_small_number(&source[start..at]) => {
                at = next;
            }
            Some(length) => {
                emit(source, start..start + length, &mut each);
                start += length;
                at = start;
            }
            None => at = next,
        }
    }
    emit(source, start..range.end, &mut each);
}

/// A first filter on bytes: terminators, newlines, and lead bytes of the CJK stops and the ellipsis.
fn may_end(byte: u8) -> bool {
    matches!(byte, b'.' | b'!' | b'?' | b'\n' | 0xE2 | 0xE3 | 0xEF)
}

/// How long the sentence is that `text` begins with, if the character at `at` ends it. The closing marks
/// after that character end at `closed`.
fn boundary(text: &str, at: usize, closed: usize, character: char, casual: bool) -> Option<usize> {
    let before = &text[..at];
    match character {
        '。' | '！' | '？' => Some(at + character.len_utf8()),
        '!' | '?' | '…' | '.' => {
            let rest = &text[closed..];
            if rest.is_empty() {
                return Some(closed);
            }
            // What is done stands behind its box in a summary.
            if rest.trim_start().starts_with(DONE) {
                return Some(closed);
            }
            let next = rest
                .trim_start()
                .chars()
                .find(|next| !matches!(next, '"' | '“' | '«' | '(' | '[' | '*' | '_' | '\''))?;
            let chatty = casual && before.split_whitespace().nth(1).is_some();
            let goes_on = next.is_lowercase() && !chatty || matches!(next, ',' | ';' | ')');
            let page = next.is_ascii_digit() && is_short_lower(before);
            let short = || {
                page || is_day(before, rest) || is_abbreviation(before) || is_spread(before, rest)
            };
            (!goes_on && (character != '.' || !short())).then_some(closed)
        }
        '\n' => {
            (ends_with_stop(before) && !ends_with_abbreviation(before, &text[at..])).then_some(at)
        }
        _ => None,
    }
}

fn closing(source: &str, range: &Range<usize>, from: usize) -> usize {
    let rest = &source[from..range.end];
    let marks = rest.find(|mark: char| {
        !matches!(
            mark,
            '.' | '!' | '?' | '…' | '"' | '”' | '»' | '’' | '\'' | ')' | ']' | '*' | '_'
        )
    });
    from + marks.unwrap_or(rest.len())
}

/// `am 12. März`, `in der 88. Minute`: a sentence hardly ever ends in so small a number.
fn ends_in_small_number(before: &str) -> bool {
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    let word = before[..before.len() - digits].chars().next_back();
    (1..=2).contains(&digits) && word.is_none_or(char::is_whitespace)
}

/// Whether a full stop between the two belongs to a day: `18. März`, in whatever text it stands.
pub(crate) fn is_day(before: &str, rest: &str) -> bool {
    let word = rest.trim_start().split(|c: char| !c.is_alphabetic()).next().unwrap_or("");
    ends_in_small_number(before) && lexicon().dates.months.number(&fold(word)).is_some()
}

/// `p. 55`, `núm. 3`: a short lower-case word before a number is an abbreviation.
fn is_short_lower(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or("");
    (1..=3).contains(&word.chars().count()) && word.chars().all(char::is_lowercase)
}

/// `z. B.`, `d. h.`, `p. ej.`: a letter with a stop, and another abbreviation behind it.
fn is_spread(before: &str, rest: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or("");
    let next = rest.trim_start().split(char::is_whitespace).next().unwrap_or("");
    let letter = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
    let stopped = next.strip_suffix(['.', ',', ')']).unwrap_or(next).trim_end_matches('.');
    letter && next.contains('.') && (1..=3).contains(&stopped.chars().count())
}

/// How far back the words before a stop are looked at.
const LOOKED_BACK_BYTES: usize = 64;

/// Whether a stop behind these words belongs to the last of them: `Ms.`, `e.g.`, `K.`
pub(crate) fn is_abbreviation(before: &str) -> bool {
    // Only the last words count, also of a text without blanks.
    let mut from = before.len().saturating_sub(LOOKED_BACK_BYTES);
    while !before.is_char_boundary(from) {
        from += 1;
    }
    let before = &before[from..];
    let word = before
        .rsplit(|character: char| {
            character.is_whitespace() || matches!(character, '(' | '[' | '"' | '“')
        })
        .next()
        .unwrap_or("");
    let alone = word.len() == before.trim_start().len();
    if word.is_empty() || word.len() > 12 {
        return false;
    }
    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    let enumerator = alone && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let dotted = word.len() <= 6
        && word.contains('.')
        && !word.ends_with(|last: char| last.is_ascii_digit())
        && word.split('.').all(|piece| piece.chars().count() == 1);
    // The second half of `z. B.`: the first half is a letter with a stop too.
    let mut words = before.split_whitespace().rev().skip(1);
    let spread = word.chars().count() == 1
        && words.next().is_some_and(|one| one.len() == 2 && one.ends_with('.'));
    initial
        || spread
        || enumerator
        || dotted
        || lexicon().abbreviations.contains(fold(word).as_str())
}

/// Whether a line ends in an abbreviation and the next one goes on: `a.k.a.` above `digests`, `Nr.` above `5`.
fn ends_with_abbreviation(line: &str, rest: &str) -> bool {
    let goes_on = |next: char| next.is_lowercase() || next.is_ascii_digit();
    let is_low = rest.trim_start_matches([' ', '\t', '\n', '\r']).starts_with(goes_on);
    is_low && line.trim_end().strip_suffix('.').is_some_and(is_abbreviation)
}

fn ends_with_stop(line: &str) -> bool {
    line.trim_end().ends_with(['.', '!', '?', '…', ':', ';'])
}

fn emit(source: &str, range: Range<usize>, each: &mut impl FnMut(Range<usize>)) {
    let text = &source[range.clone()];
    let start = range.start + (text.len() - text.trim_start().len());
    let end = range.start + text.trim_end().len();
    let mut from = start;
    while end.saturating_sub(from) > SENTENCE_BYTES_MAX {
        let cut = cut_before(source, from, from + SENTENCE_BYTES_MAX);
        each(from..cut);
        let rest = &source[cut..end];
        from = cut + (rest.len() - rest.trim_start().len());
    }
    if from < end {
        each(from..end);
    }
}

fn cut_before(source: &str, from: usize, limit: usize) -> usize {
    let limit = prefix(source, limit).len();
    // A clause is a better piece than so many words.
    let late = |at: &usize| *at > SENTENCE_BYTES_MAX / 2;
    let clause = source[from..limit].rfind("; ").map(|at| at + 1).filter(late);
    let space = clause.or_else(|| source[from..limit].rfind(char::is_whitespace).filter(late));
    space.map_or(limit, |space| from + space)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        let language = super::super::language::language_of([text]);
        split_in(language, is_casual(text), text, 0..text.len(), |range| found.push(&text[range]));
        found
    }

    #[test]
    fn sentences_end_where_the_golden_rules_say() {
        let cases: &[(&str, usize)] = &[
            ("Hello World. My name is Jonas.", 2),
            ("What is your name? My name is Jonas.", 2),
            ("My name is Jonas E. Smith.", 1),
            ("Please turn to p. 55.", 1),
            ("The roof, a.k.a.\nthe top, leaks.", 1),
            ("It is room Nr.\n5 of ten.", 1),
            ("It leaks.\nthe roof is old.", 2),
            ("Were Jane and co. at the party?", 1),
            ("They closed the deal with Pitt, Briggs & Co. at noon.", 1),
            ("I can see Mt. Fuji from here.", 1),
            ("She has $100.00 in her bag.", 1),
            ("She turned to him, \"This is great.\" She held the book out.", 2),
            ("Hello!! Long time no see.", 2),
            ("You can find it at N°. 1026.253.553. That is where the treasure is.", 2),
            ("El Sr. Pérez vive en EE. UU. desde 2010. Trabaja en Lima.", 2),
            ("¿Vienes mañana? ¡Perfecto! Nos vemos.", 3),
            ("Usa herramientas, p. ej. Python, a diario.", 1),
            ("これは文です。これも文です。", 2),
            ("1. First thing", 1),
            ("2.1. Second thing", 1),
            ("The factor was 2.9. On cold days it fell.", 2),
            ("e.g. Apples are cheap.", 1),
            ("Neu bestellen, z. B. Online oder vor Ort. Das geht schnell.", 2),
            ("the copy is done. we wait for the test? no, we go", 3),
            ("Dña. Pilar vive en el 2.º izq. desde mayo. Paga 3,4 Mio. al año.", 2),
            ("Das Treffen ist am 12. März und nicht am 10. Mai. Wir sehen uns.", 2),
            ("Das Haus ist von 1998. Die Tür ist neu und das Dach auch.", 2),
        ];
        for (text, count) in cases {
            assert_eq!(sentences(text).len(), *count, "{text}: {:?}", sentences(text));
        }
    }

    #[test]
    fn long_runs_are_cut_on_boundaries_and_lose_nothing() {
        let text = "é".repeat(5000);
        let pieces = sentences(&text);
        assert!(pieces.iter().all(|piece| piece.len() <= SENTENCE_BYTES_MAX));
        assert_eq!(pieces.concat(), text);
    }

    #[test]
    fn blank_text_has_no_sentences() {
        assert!(sentences(" \n\t ").is_empty());
    }
}
