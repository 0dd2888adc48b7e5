//! Words: where they are, what they fold to, and which term they stand for.
//!
//! A token is a run of letters and digits (with inner apostrophes, and inner dots or commas between
//! digits); each CJK character is a token of its own. A word is a distinct lower-cased token; a term
//! is a Snowball stem in the language of the text. Folding drops accents, so that cues match however
//! they were typed. No dictionary: an unknown word is its own stem.

use std::collections::HashMap;
use std::sync::OnceLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;

use super::super::lexicon::Language;
use super::hash::Fast;
use super::stopwords;

/// A token: half-open byte range in its part, and the distinct word it is.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// Index into [`Vocabulary::words`].
    pub word: u32,
}

/// A distinct word of the text.
#[derive(Debug)]
pub struct Word {
    /// Lower-cased, accents removed.
    pub folded: Box<str>,
    /// The term it counts as; `None` for stop words and single characters.
    pub term: Option<u32>,
}

/// Every distinct word and the terms they stem to.
pub struct Vocabulary {
    words: Vec<Word>,
    by_text: HashMap<Box<str>, u32, Fast>,
    by_stem: HashMap<Box<str>, u32, Fast>,
    stemmer: Stemmer,
    language: Language,
    buffer: String,
}

impl Vocabulary {
    /// An empty vocabulary that stems in `language` (English when undetermined).
    pub fn new(language: Language) -> Self {
        Vocabulary {
            words: Vec::new(),
            by_text: HashMap::default(),
            by_stem: HashMap::default(),
            stemmer: Stemmer::create(algorithm(language)),
            language,
            buffer: String::new(),
        }
    }

    /// All words, in order of first appearance.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    pub(crate) fn term_count(&self) -> usize {
        self.by_stem.len()
    }

    /// The word of a token's text, added when new.
    pub(crate) fn intern(&mut self, token: &str) -> u32 {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        lower_into(token, &mut buffer);
        let word = match self.by_text.get(buffer.as_str()) {
            Some(&word) => word,
            None => self.add(&buffer),
        };
        self.buffer = buffer;
        word
    }

    fn add(&mut self, lower: &str) -> u32 {
        let folded = fold(lower).into_boxed_str();
        let counts = !stopwords::is_stop_word_in(self.language, &folded)
            && (folded.chars().nth(1).is_some() || is_cjk_word(&folded));
        let term = counts.then(|| {
            let stem = self.stemmer.stem(lower);
            let stem = fold(&stem).into_boxed_str();
            let next = self.by_stem.len() as u32;
            *self.by_stem.entry(stem).or_insert(next)
        });
        let word = self.words.len() as u32;
        self.words.push(Word { folded, term });
        self.by_text.insert(lower.into(), word);
        word
    }
}

/// The Snowball stemmer that the file of a language names; the English one for any other name.
fn algorithm(language: Language) -> Algorithm {
    match language.habits().map_or("", |habits| &habits.stemmer) {
        "arabic" => Algorithm::Arabic,
        "danish" => Algorithm::Danish,
        "dutch" => Algorithm::Dutch,
        "finnish" => Algorithm::Finnish,
        "french" => Algorithm::French,
        "german" => Algorithm::German,
        "greek" => Algorithm::Greek,
        "hungarian" => Algorithm::Hungarian,
        "italian" => Algorithm::Italian,
        "norwegian" => Algorithm::Norwegian,
        "portuguese" => Algorithm::Portuguese,
        "romanian" => Algorithm::Romanian,
        "russian" => Algorithm::Russian,
        "spanish" => Algorithm::Spanish,
        "swedish" => Algorithm::Swedish,
        "tamil" => Algorithm::Tamil,
        "turkish" => Algorithm::Turkish,
        _ => Algorithm::English,
    }
}

/// Lower case as `str::to_lowercase` has it, into a buffer that is used again.
pub(crate) fn lower_case_into(token: &str, buffer: &mut String) {
    buffer.clear();
    if token.is_ascii() {
        buffer.push_str(token);
        buffer.make_ascii_lowercase();
    } else {
        buffer.push_str(&token.to_lowercase());
    }
}

fn lower_into(token: &str, buffer: &mut String) {
    if token.is_ascii() {
        let start = buffer.len();
        buffer.push_str(token);
        buffer[start..].make_ascii_lowercase();
        return;
    }
    for character in token.chars() {
        match character {
            '\0'..='\x7f' => buffer.push(character.to_ascii_lowercase()),
            '’' => buffer.push('\''),
            _ => buffer.extend(character.to_lowercase()),
        }
    }
}

/// Lower case without accents.
///
/// Character by character: decomposition moves nothing but the marks, and those are dropped.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let latin = folded_latin();
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        match latin.get((character as usize).wrapping_sub(LATIN_FIRST)) {
            _ if character.is_ascii() => folded.push(character.to_ascii_lowercase()),
            Some(known) => folded.push_str(known),
            None => fold_into(character, &mut folded),
        }
    }
    folded
}

/// The folded words of a text with a blank around each, for looking up phrases.
pub(crate) fn spaced(text: &str) -> String {
    let folded = fold(text);
    in_line(folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()))
}

/// Words with a blank around each.
pub(crate) fn in_line<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.fold(String::from(" "), |line, word| line + word + " ")
}

/// Whether words between blanks have the pieces of a phrase in their order: `take … out`.
pub(crate) fn in_order(line: &str, phrase: &str) -> bool {
    let mut rest = line;
    phrase.split(" … ").all(|piece| match rest.find(&format!(" {piece} ")) {
        Some(at) => {
            rest = &rest[at + piece.len() + 1..];
            true
        }
        None => false,
    })
}

/// First and one past the last of the letters that are looked up: Latin with its accents.
const LATIN_FIRST: usize = 0x80;
const LATIN_END: usize = 0x250;

fn folded_latin() -> &'static [Box<str>] {
    static LATIN: OnceLock<Vec<Box<str>>> = OnceLock::new();
    LATIN.get_or_init(|| {
        let all = (LATIN_FIRST..LATIN_END).filter_map(|code| char::from_u32(code as u32));
        all.map(|character| {
            let mut folded = String::new();
            fold_into(character, &mut folded);
            folded.into_boxed_str()
        })
        .collect()
    })
}

fn fold_into(character: char, folded: &mut String) {
    let decomposed = std::iter::once(character).nfd();
    let plain = decomposed.filter(|one| !unicode_normalization::char::is_combining_mark(*one));
    let lower = plain.flat_map(char::to_lowercase);
    folded.extend(lower.map(|one| if one == '’' { '\'' } else { one }));
}

/// Characters that are words by themselves because their script does not space words.
pub(crate) fn is_cjk(character: char) -> bool {
    matches!(character as u32, 0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2FA1F)
}

fn is_cjk_word(word: &str) -> bool {
    word.chars().next().is_some_and(is_cjk)
}

/// Calls `each` with the byte range of every token of `text`, in order.
pub(crate) fn for_each_token(text: &str, mut each: impl FnMut(usize, usize)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let (character, width) = char_at(text, at);
        if !character.is_alphanumeric() {
            at += width;
        } else if is_cjk(character) {
            each(at, at + width);
            at += width;
        } else {
            let end = token_end(text, at);
            each(at, end);
            at = end;
        }
    }
}

fn token_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    let mut previous_digit = false;
    while at < bytes.len() {
        let (character, width) = char_at(text, at);
        if character.is_alphanumeric() && !is_cjk(character) {
            previous_digit = character.is_ascii_digit();
            at += width;
            continue;
        }
        let joins_letters = matches!(character, '\'' | '’') && !previous_digit;
        let joins_digits = matches!(character, '.' | ',') && previous_digit;
        let next = (at + width < bytes.len()).then(|| char_at(text, at + width).0);
        let follows = next.is_some_and(|next| {
            (joins_letters && next.is_alphabetic() && !is_cjk(next))
                || (joins_digits && next.is_ascii_digit())
        });
        if !follows {
            break;
        }
        at += width;
    }
    at
}

/// The character at a boundary inside `text`, with its width; ASCII without decoding.
pub(crate) fn char_at(text: &str, at: usize) -> (char, usize) {
    let byte = text.as_bytes()[at];
    if byte < 0x80 {
        return (byte as char, 1);
    }
    let character = text[at..].chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
    (character, character.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        for_each_token(text, |start, end| found.push(&text[start..end]));
        found
    }

    #[test]
    fn tokens_keep_apostrophes_and_decimals_together() {
        assert_eq!(tokens("Don't pay 1,250.50 €, l’été."), ["Don't", "pay", "1,250.50", "l’été"]);
        assert_eq!(tokens("v1. End"), ["v1", "End"]);
        assert_eq!(tokens("日本 x"), ["日", "本", "x"]);
    }

    #[test]
    fn folding_drops_case_and_accents() {
        assert_eq!(fold("REUNIÓN"), "reunion");
        assert_eq!(fold("Straße"), "straße");
    }

    #[test]
    fn folding_by_the_character_is_folding_the_whole() {
        let whole = |text: &str| -> String {
            let plain =
                text.nfd().filter(|one| !unicode_normalization::char::is_combining_mark(*one));
            let lower = plain.flat_map(char::to_lowercase);
            lower.map(|one| if one == '’' { '\'' } else { one }).collect()
        };
        for code in (0..0x3100).chain(0xa000..0xd800).chain(0x1d100..0x1d200) {
            let Some(character) = char::from_u32(code) else { continue };
            // Marks before and after, in an order that decomposition turns around.
            let text = format!("a\u{301}\u{323}{character}\u{301}\u{323}É");
            assert_eq!(fold(&text), whole(&text), "U+{code:04X}");
        }
    }

    #[test]
    fn inflections_share_a_term_and_stop_words_have_none() {
        let mut vocabulary = Vocabulary::new(Language::of_code("es"));
        let (one, many) = (vocabulary.intern("reunión"), vocabulary.intern("Reuniones"));
        let stop = vocabulary.intern("para");
        let words = vocabulary.words();
        assert_eq!(words[one as usize].term, words[many as usize].term);
        assert_eq!(words[stop as usize].term, None);
    }
}
