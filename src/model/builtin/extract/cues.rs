//! Cue phrases: finding out whether and where a text says one of a list of things.
//!
//! A cue is one or more words, matched as whole words without case or accents; `cancel*` matches any
//! word that starts so. An index from word to positions makes a look-up cost what it finds, so packs may
//! list hundreds of cues. The cues of what a sentence usually does stand in the language files; a pack
//! adds its own.

use std::collections::{BTreeMap, BTreeSet};

use super::super::lexicon::{Purpose, lexicon};
use super::super::text::decisions::states_decision;
use super::super::text::stopwords;
use super::super::text::words::{fold, for_each_token};
use super::super::text::{Kind, Text};
use super::Mention;

/// Positions looked at for one word of one cue.
const POSITIONS_MAX: usize = 2000;

/// Words of the text, folded, with every token that is one.
pub struct Index<'t, 'a> {
    text: &'t Text<'a>,
    positions: BTreeMap<&'t str, Vec<u32>>,
    sentence_of: Vec<u32>,
}

impl<'t, 'a> Index<'t, 'a> {
    pub fn new(text: &'t Text<'a>) -> Self {
        let mut by_word: Vec<Vec<u32>> = vec![Vec::new(); text.vocabulary.words().len()];
        let addresses = addresses(text);
        for (position, token) in text.tokens.iter().enumerate() {
            if !addresses.contains(&position) {
                by_word[token.word as usize].push(position as u32);
            }
        }
        let mut positions: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (word, mut found) in text.vocabulary.words().iter().zip(by_word) {
            positions.entry(&word.folded).or_default().append(&mut found);
        }
        positions.values_mut().for_each(|found| found.sort_unstable());
        let mut sentence_of = vec![0; text.tokens.len()];
        for (index, sentence) in text.sentences.iter().enumerate() {
            sentence_of[sentence.tokens.clone()].fill(index as u32);
        }
        Index { text, positions, sentence_of }
    }

    /// Every place that says the cue, in reading order.
    pub fn find(&self, cue: &str) -> Vec<Mention> {
        let folded = fold(cue.trim_end_matches('*'));
        let mut words = Vec::new();
        for_each_token(&folded, |start, end| words.push(&folded[start..end]));
        let Some((first, rest)) = words.split_first() else { return Vec::new() };
        let open = cue.ends_with('*');
        let mut found = Vec::new();
        if open && rest.is_empty() {
            let range = self
                .positions
                .range::<str, _>((std::ops::Bound::Included(*first), std::ops::Bound::Unbounded));
            for (_, positions) in range.take_while(|(word, _)| word.starts_with(first)) {
                found.extend(
                    positions.iter().take(POSITIONS_MAX).filter_map(|&at| self.mention(at, 1)),
                );
            }
            found.sort_unstable();
        } else if let Some(positions) = self.positions.get(first) {
            let follows = |at: u32| {
                rest.iter().enumerate().all(|(offset, word)| {
                    let token = self.text.tokens.get(at as usize + offset + 1);
                    let said = token.map_or("", |token| self.text.folded(token));
                    said == *word || (open && offset + 1 == rest.len() && said.starts_with(word))
                })
            };
            found.extend(
                positions
                    .iter()
                    .take(POSITIONS_MAX)
                    .filter(|&&at| follows(at))
                    .filter_map(|&at| self.mention(at, words.len())),
            );
        }
        found
    }

    fn mention(&self, at: u32, words: usize) -> Option<Mention> {
        let last = at as usize + words - 1;
        let sentence = self.sentence_of[at as usize];
        (self.sentence_of.get(last) == Some(&sentence)).then(|| Mention {
            sentence: sentence as usize,
            start: self.text.tokens[at as usize].start as usize,
            end: self.text.tokens[last].end as usize,
        })
    }

    /// Sentences that say one of the cues, in reading order, each once.
    pub fn sentences<'c>(&self, cues: impl IntoIterator<Item = &'c str>) -> Vec<usize> {
        let mut found: Vec<usize> = cues
            .into_iter()
            .flat_map(|cue| self.find(cue))
            .map(|mention| mention.sentence)
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Tokens of web and mail addresses: they say nothing about the text.
fn addresses(text: &Text<'_>) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for (index, sentence) in text.sentences.iter().enumerate() {
        let said = text.sentence(index);
        if !said.contains("://") && !said.contains('@') {
            continue;
        }
        let urls = super::tokens::urls(text, index);
        let mails = super::tokens::emails(text, index);
        let ranges: Vec<(usize, usize)> =
            urls.iter().chain(&mails).map(|address| (address.start, address.end)).collect();
        found.extend(sentence.tokens.clone().filter(|&at| {
            let start = text.tokens[at].start as usize;
            ranges.iter().any(|range| (range.0..range.1).contains(&start))
        }));
    }
    found
}

/// The cues of a purpose, of all languages.
pub(crate) fn cues_of(purpose: Purpose) -> &'static [String] {
    lexicon().purposes.get(&purpose).map_or(&[], Vec::as_slice)
}

/// Sentences with a purpose, in reading order. Headings, code, quoted mail and signatures have none.
pub(crate) fn with_purpose(index: &Index<'_, '_>, purpose: Purpose, more: &[String]) -> Vec<usize> {
    let text = index.text;
    let mut found = index.sentences(cues_of(purpose).iter().chain(more).map(String::as_str));
    match purpose {
        Purpose::Action => found.extend((0..text.sentences.len()).filter(|&at| assigns(index, at))),
        Purpose::Decision => found.extend(decided(text)),
        Purpose::Question => found.extend((0..text.sentences.len()).filter(|&at| asks(text, at))),
        Purpose::Figure => {
            found.extend((0..text.sentences.len()).filter(|&at| has_figure(text, at)))
        }
        Purpose::Speech => found.extend((0..text.sentences.len()).filter(|&at| quotes(text, at))),
        _ => {}
    }
    found.sort_unstable();
    found.dedup();
    let unlike = only_seeming(index, purpose);
    found.retain(|at| unlike.binary_search(at).is_err());
    found.retain(|&at| has_purpose(text, at));
    found
}

/// Whether a sentence may do anything: one word does not, nor what frames a text.
fn has_purpose(text: &Text<'_>, sentence: usize) -> bool {
    let is_frame = matches!(
        text.block_of(sentence).kind,
        Kind::Heading(_)
            | Kind::Header
            | Kind::Columns
            | Kind::Code
            | Kind::Signature
            | Kind::Quote
            | Kind::Link
    );
    !is_frame && text.tokens_of(sentence).len() > 1
}

/// What is declared a decision, and sentences that settle something.
pub(crate) fn decided(text: &Text<'_>) -> Vec<usize> {
    let mut found = declared_decisions(text);
    found.extend((0..text.sentences.len()).filter(|&at| states_decision(text.sentence(at))));
    found.retain(|&at| has_purpose(text, at));
    found.sort_unstable();
    found.dedup();
    found
}

/// The items of lists under a heading that is a word for decisions, and what stands behind such a word and
/// a colon. A question decides nothing.
fn declared_decisions(text: &Text<'_>) -> Vec<usize> {
    let mut found: Vec<usize> =
        (0..text.sentences.len()).filter(|&at| is_labelled_decision(text, at)).collect();
    let (mut place, mut is_headed) = ((usize::MAX, 0), false);
    for block in &text.blocks {
        let here = (block.part, block.section);
        match block.kind {
            Kind::Heading(_) => {
                is_headed = block.sentences.clone().any(|at| names_decisions(text, at));
                place = here;
            }
            Kind::Item if is_headed && place == here => found.extend(block.sentences.clone()),
            _ => {}
        }
    }
    found.retain(|&at| !asks(text, at));
    found
}

/// Whether a heading is a word for decisions and hardly more: `3. Decisions made`, and no `Open decisions`.
fn names_decisions(text: &Text<'_>, heading: usize) -> bool {
    let words = text.tokens_of(heading).iter().map(|token| text.folded(token));
    let (names, rest): (Vec<&str>, Vec<&str>) = words
        .filter(|word| word.contains(char::is_alphabetic))
        .partition(|word| lexicon().decisions.contains(*word));
    let is_beside =
        |word: &&str| lexicon().settled.beside.contains(*word) || stopwords::is_stop_word(word);
    !names.is_empty() && rest.iter().all(is_beside)
}

/// `Decided: the blue paint`
fn is_labelled_decision(text: &Text<'_>, sentence: usize) -> bool {
    let Some(first) = text.tokens_of(sentence).first() else { return false };
    let part = text.parts[text.sentences[sentence].part].text;
    let behind = part[first.end as usize..].trim_start_matches(['*', '_', ' ', '\u{a0}']);
    lexicon().decisions.contains(text.folded(first)) && behind.starts_with(':')
}

/// Sentences whose only cue of a purpose stands in a phrase that says something else.
fn only_seeming(index: &Index<'_, '_>, purpose: Purpose) -> Vec<usize> {
    let Some(phrases) = lexicon().unlike.get(&purpose) else { return Vec::new() };
    let mut seeming = index.sentences(phrases.iter().map(String::as_str));
    if seeming.is_empty() {
        return seeming;
    }
    let cues: Vec<Mention> = cues_of(purpose).iter().flat_map(|cue| index.find(cue)).collect();
    seeming.retain(|at| cues.iter().filter(|cue| cue.sentence == *at).count() < 2);
    seeming
}

/// `Bruno to draft the note`, `Ana will call`: somebody the text names more than once, always with a
/// capital, has something to do.
fn assigns(index: &Index<'_, '_>, sentence: usize) -> bool {
    let text = index.text;
    let tokens = text.tokens_of(sentence);
    let [name, link, verb, ..] = tokens else { return false };
    if !lexicon().assigns.contains(text.folded(link)) {
        return false;
    }
    let part = text.parts[text.sentences[sentence].part].text;
    let said = |token: &super::super::text::words::Token| {
        part.get(token.start as usize..token.end as usize).unwrap_or_default()
    };
    let lower = |word: &str| word.chars().next().is_some_and(char::is_lowercase);
    let folded = text.folded(name);
    if stopwords::is_stop_word(folded) {
        return false;
    }
    let known = index.find(folded);
    let capital = |mention: &Mention| {
        let source = text.parts[text.sentences[mention.sentence].part].text;
        source[mention.start..mention.end].chars().next().is_some_and(char::is_uppercase)
    };
    lower(said(verb)) && known.len() > 1 && known.iter().all(capital)
}

fn asks(text: &Text<'_>, sentence: usize) -> bool {
    let said = text.sentence(sentence);
    said.starts_with('¿') || said.trim_end_matches(['"', ')', '*', '_']).ends_with('?')
}

fn has_figure(text: &Text<'_>, sentence: usize) -> bool {
    let said = text.sentence(sentence);
    let digits = said.bytes().filter(u8::is_ascii_digit).count();
    digits > 0
        && (said.contains('%') || !super::tokens::amounts(text, sentence).is_empty() || digits >= 3)
}

fn quotes(text: &Text<'_>, sentence: usize) -> bool {
    let said = text.sentence(sentence);
    let paired = |open: char, close: char| {
        said.find(open).is_some_and(|at| said[at..].rfind(close).is_some_and(|end| end > 12))
    };
    paired('“', '”') || paired('«', '»') || said.matches('"').count() >= 2 && paired('"', '"')
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Part;
    use super::*;

    #[test]
    fn cues_are_whole_words_phrases_or_open_ends() {
        let source = "Please cancel the trip. The cancellation is free. No olvides la REUNIÓN.";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let index = Index::new(&text);
        assert_eq!(index.sentences(["cancel"]), [0]);
        assert_eq!(index.sentences(["cancel*"]), [0, 1]);
        assert_eq!(index.sentences(["la reunion"]), [2]);
        assert_eq!(index.sentences(["olvides reunion", ""]), [0; 0]);
        assert_eq!(with_purpose(&index, Purpose::Action, &[]), [0, 2]);
    }

    #[test]
    fn a_phrase_may_only_seem_to_have_a_purpose() {
        let source = "The remaining risk is spam. Write the remaining pages. The remaining risk is that we still need a key.";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        assert_eq!(with_purpose(&Index::new(&text), Purpose::Pending, &[]), [1, 2]);
    }

    #[test]
    fn what_is_declared_a_decision_is_one_in_every_language() {
        let decisions = |source: &str| {
            let text = Text::new(vec![Part { id: "a", text: source }]);
            let found = with_purpose(&Index::new(&text), Purpose::Decision, &[]);
            found.iter().map(|&at| text.sentence(at).to_owned()).collect::<Vec<_>>()
        };
        for heading in [
            "## Decisions",
            "**Decisions made:**",
            "## 3. Entscheidungen",
            "# Decisiones",
            "### Décisions",
            "Decisions",
        ] {
            let notes = format!(
                "We met in Lima.\n\n{heading}\n\n- The kitchen is blue\n- Who pays?\n\n## Rest\n\n- Tea for all\n"
            );
            assert_eq!(decisions(&notes), ["The kitchen is blue"], "{heading}");
        }
        assert!(decisions("## Open decisions\n\n- The colour of the hall\n").is_empty());
        for label in ["Decision", "Decided", "**Entschieden", "Decidido", "Décision ", "Beschluss"]
        {
            // A label that comes twice names nobody who speaks.
            let lines = format!("{label}: the blue paint\n\nTea for all.\n\n{label}: two coats\n");
            let found = decisions(&lines);
            assert_eq!(found.len(), 2, "{lines}: {found:?}");
            assert!(found[0].ends_with("the blue paint"), "{found:?}");
        }
    }

    #[test]
    fn a_cue_does_not_cross_sentences() {
        let text = Text::new(vec![Part { id: "a", text: "We are done. Deal with it." }]);
        assert!(Index::new(&text).sentences(["done deal"]).is_empty());
    }
}
