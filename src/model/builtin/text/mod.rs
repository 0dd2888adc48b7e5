//! A text, taken apart: parts (sources), blocks, sentences, tokens, terms.
//!
//! Contract: every block, sentence and token is a half-open UTF-8 byte range of its part, so whatever
//! is said about the text later can be pointed at exactly. Analysis is one pass and linear in the
//! length of the text. Nothing is rewritten here; reading order is the order of the parts.

pub mod blocks;
pub(crate) mod decisions;
pub(crate) mod finished;
pub(crate) mod footers;
pub mod hash;
pub(crate) mod history;
pub(crate) mod inline;
pub mod language;
pub mod lines;
pub(crate) mod logs;
pub(crate) mod manuals;
pub mod sentences;
pub mod stopwords;
pub(crate) mod tables;
pub(crate) mod versions;
pub mod words;

use std::ops::Range;
use std::sync::OnceLock;

use super::lexicon::Language;
use history::History;
use language::language_of;
use words::{Token, Vocabulary};

pub(crate) use blocks::Kind;
pub use blocks::{Block, Role};

/// One source: its id and its normalized text.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    pub id: &'a str,
    pub text: &'a str,
}

/// Who says a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpokenBy {
    pub role: Role,
    pub name: Option<String>,
}

/// A sentence: where it is and what it consists of.
#[derive(Debug, Clone)]
pub struct Sentence {
    pub part: usize,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    pub block: usize,
    pub tokens: Range<usize>,
}

pub struct Text<'a> {
    pub parts: Vec<Part<'a>>,
    /// Who says each part, where that is known from elsewhere than its text.
    pub(crate) spoken_by: Vec<Option<SpokenBy>>,
    pub blocks: Vec<Block>,
    pub sentences: Vec<Sentence>,
    /// Tokens of all sentences, in reading order.
    pub tokens: Vec<Token>,
    pub vocabulary: Vocabulary,
    pub language: Language,
    history: OnceLock<History>,
    /// Whether each block stands in a section beside the matter: see `rank::quality`.
    pub(crate) asides: OnceLock<Vec<bool>>,
    /// How much the place of each sentence counts, found on first use.
    pub(crate) leads: OnceLock<Vec<f64>>,
    /// Sentences that a later one says are wrong, each with that one, found on first use.
    pub(crate) corrections: OnceLock<Vec<(usize, usize)>>,
}

impl<'a> Text<'a> {
    pub fn new(parts: Vec<Part<'a>>) -> Self {
        Text::spoken(parts, Vec::new(), &[])
    }

    /// A text whose parts may be messages of a session, and what is known as its title.
    pub(crate) fn spoken(
        parts: Vec<Part<'a>>,
        spoken_by: Vec<Option<SpokenBy>>,
        titles: &[&str],
    ) -> Self {
        let language = language_of(parts.iter().map(|part| part.text));
        let mut text = Text {
            parts: Vec::new(),
            spoken_by,
            blocks: Vec::new(),
            sentences: Vec::new(),
            tokens: Vec::new(),
            vocabulary: Vocabulary::new(language),
            language,
            history: OnceLock::new(),
            asides: OnceLock::new(),
            leads: OnceLock::new(),
            corrections: OnceLock::new(),
        };
        for (index, part) in parts.iter().enumerate() {
            let titles = if index == 0 { titles } else { &[] };
            text.add_part(index, part.text, tables::is_record(&parts, index), titles);
        }
        text.parts = parts;
        text
    }

    fn add_part(&mut self, part: usize, source: &str, is_record: bool, titles: &[&str]) {
        let language = self.language;
        let casual = sentences::is_casual(source);
        let spoken_by = self.spoken_by.get(part).and_then(Option::as_ref);
        let role = spoken_by.map_or(Role::None, |by| by.role);
        let mut blocks = blocks::split_said(part, source, role);
        titles.iter().for_each(|title| blocks::set_title_apart(source, &mut blocks, title));
        tables::name_columns(source, &mut blocks);
        for mut block in blocks {
            // What a program answers to another program is said by nobody.
            if role == Role::Tool {
                block.kind = Kind::Code;
            }
            let index = self.blocks.len();
            let first = self.sentences.len();
            let chat = matches!(block.role, Role::User | Role::Person);
            let casual = casual || chat && sentences::is_casual(&source[block.text.clone()]);
            let is_row = matches!(block.kind, Kind::Table | Kind::Columns) || is_record;
            if is_row && block.text.len() <= sentences::SENTENCE_BYTES_MAX {
                // A full stop in a cell ends no row.
                self.add_sentence(part, source, index, block.text.clone());
            } else {
                sentences::split_in(language, casual, source, block.text.clone(), |range| {
                    self.add_sentence(part, source, index, range)
                });
            }
            self.blocks.push(Block { sentences: first..self.sentences.len(), ..block });
        }
    }

    fn add_sentence(&mut self, part: usize, source: &str, block: usize, range: Range<usize>) {
        let first = self.tokens.len();
        let (tokens, vocabulary) = (&mut self.tokens, &mut self.vocabulary);
        // The address of a link is no word of the sentence.
        for words in inline::without_marks(&source[range.clone()]) {
            let (from, to) = (range.start + words.start, range.start + words.end);
            words::for_each_token(&source[from..to], |start, end| {
                let (start, end) = (from + start, from + end);
                let word = vocabulary.intern(&source[start..end]);
                tokens.push(Token { start: start as u32, end: end as u32, word });
            });
        }
        self.sentences.push(Sentence {
            part,
            start: range.start,
            end: range.end,
            block,
            tokens: first..self.tokens.len(),
        });
    }

    /// The exact bytes of a sentence.
    pub fn sentence(&self, index: usize) -> &'a str {
        let sentence = &self.sentences[index];
        &self.parts[sentence.part].text[sentence.start..sentence.end]
    }

    pub(crate) fn block_of(&self, sentence: usize) -> &Block {
        &self.blocks[self.sentences[sentence].block]
    }

    /// Who says a sentence that a program said and no person: what the text calls it, or else its usual name.
    /// Without it, `I fixed everything` would read as the words of the person.
    pub(crate) fn assistant_of(&self, sentence: usize) -> Option<&str> {
        const USUAL: &str = "Assistant";
        let block = self.block_of(sentence);
        if block.role != Role::Assistant {
            return None;
        }
        let called = block.speaker.clone().map(|name| self.parts[block.part].text[name].trim());
        let known = self.spoken_by.get(block.part).and_then(Option::as_ref);
        let called = called.or_else(|| known.and_then(|by| by.name.as_deref()).map(str::trim));
        let has_capital = |name: &&str| name.starts_with(char::is_uppercase);
        let usual = || self.language.habits().and_then(|habits| habits.assistant.as_deref());
        called.filter(has_capital).or_else(usual).or(Some(USUAL))
    }

    pub(crate) fn tokens_of(&self, sentence: usize) -> &[Token] {
        &self.tokens[self.sentences[sentence].tokens.clone()]
    }

    pub fn folded(&self, token: &Token) -> &str {
        &self.vocabulary.words()[token.word as usize].folded
    }

    /// The term of a token, unless it is a stop word.
    pub fn term(&self, token: &Token) -> Option<u32> {
        self.vocabulary.words()[token.word as usize].term
    }

    /// The bytes of a token of a sentence.
    pub(crate) fn token_text(&self, sentence: usize, token: &Token) -> &'a str {
        &self.parts[self.sentences[sentence].part].text[token.start as usize..token.end as usize]
    }

    /// Whether no part holds anything but white space.
    pub(crate) fn is_blank(&self) -> bool {
        self.parts.iter().all(|part| part.text.trim().is_empty())
    }
}
