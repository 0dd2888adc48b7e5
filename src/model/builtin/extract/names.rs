//! Names of people, organizations and places, by capital letters and the words around them.
//!
//! Cautious: a capitalized word that opens a sentence counts only as part of a longer run, and words
//! that are capitalized by custom (weekdays, months, `I`) never do. A kind is said only where a word
//! gives it away (`Inc`, `Universidad`, `Dr.`), else the kind is unknown.

use std::collections::BTreeMap;

use super::super::lexicon::lexicon;
use super::super::text::words::{Token, fold};
use super::super::text::{Kind, Text};
use super::Mention;

/// Longest name, in words.
const WORDS_MAX: usize = 5;

/// The kind of thing that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameKind {
    /// A person: an honorific stands before it.
    Person,
    /// An organization, said by a word of the name.
    Organization,
    /// No word tells the kind.
    Unknown,
}

/// A name and how often it occurs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub(crate) mention: Mention,
    pub kind: NameKind,
    pub count: usize,
}

/// Names in the given sentences: the commonest first, ties in reading order.
pub fn find(text: &Text<'_>, sentences: &[usize]) -> Vec<Name> {
    let mut names: BTreeMap<String, Name> = BTreeMap::new();
    for &sentence in sentences {
        if matches!(text.block_of(sentence).kind, Kind::Code | Kind::Quote) {
            continue;
        }
        in_sentence(text, sentence, |mention, kind| {
            let key =
                fold(&text.parts[text.sentences[sentence].part].text[mention.start..mention.end]);
            names.entry(key).and_modify(|name| name.count += 1).or_insert(Name {
                mention,
                kind,
                count: 1,
            });
        });
    }
    let mut names: Vec<Name> = names.into_values().collect();
    names.sort_by(|a, b| b.count.cmp(&a.count).then(a.mention.cmp(&b.mention)));
    names
}

fn in_sentence(text: &Text<'_>, sentence: usize, mut each: impl FnMut(Mention, NameKind)) {
    let place = &text.sentences[sentence];
    let source = text.parts[place.part].text;
    let tokens = text.tokens_of(sentence);
    if shouts(text, sentence, tokens) {
        return;
    }
    let mut at = 0;
    while at < tokens.len() {
        let end = run_end(text, sentence, tokens, at);
        if end == at {
            at += 1;
            continue;
        }
        let words = &tokens[at..end];
        let honorific = at > 0 && lexicon().names.honorific.contains(text.folded(&tokens[at - 1]));
        let mut first = at;
        let opens = at == 0 || opens_clause(source, place.start, tokens[at].start as usize);
        let mut kind = kind_of(text, words);
        if lexicon().names.honorific.contains(text.folded(&tokens[first])) && end - first > 1 {
            first += 1;
            kind = NameKind::Person;
        } else if honorific {
            kind = NameKind::Person;
        } else if end - first > 1
            && (lexicon().names.leading.contains(text.folded(&tokens[first]))
                || (opens && text.term(&tokens[first]).is_none()))
        {
            first += 1;
        }
        if is_shouted(text, sentence, &tokens[first..end]) {
            at = end;
            continue;
        }
        let alone = end - first == 1;
        let text_of = text.token_text(sentence, &tokens[first]);
        let acronym = text_of.len() > 1 && text_of.chars().filter(|c| c.is_uppercase()).count() > 1;
        // German writes every noun with a capital: one alone says nothing.
        let noun =
            text.language.does(|habits| habits.nouns_have_capitals) && !honorific && !acronym;
        let plausible = !alone || honorific || acronym || !(noun || (opens && first == at));
        if plausible && end - first <= WORDS_MAX && text_of.chars().count() > 1 {
            each(
                Mention {
                    sentence,
                    start: tokens[first].start as usize,
                    end: tokens[end - 1].end as usize,
                },
                kind,
            );
        }
        at = end;
    }
}

/// Text in capitals or in Title Case throughout says nothing by its capitals.
fn shouts(text: &Text<'_>, sentence: usize, tokens: &[Token]) -> bool {
    if is_all_capitals(text, sentence, tokens) {
        return true;
    }
    let content = tokens.iter().filter(|token| text.term(token).is_some());
    let (mut high, mut low) = (0_usize, 0_usize);
    for token in content {
        let first = text.token_text(sentence, token).chars().next();
        high += first.is_some_and(char::is_uppercase) as usize;
        low += first.is_some_and(char::is_lowercase) as usize;
    }
    high > 5 && low * 4 < high
}

/// Three words or more, and not one small letter.
fn is_all_capitals(text: &Text<'_>, sentence: usize, tokens: &[Token]) -> bool {
    let words = tokens.iter().map(|token| text.token_text(sentence, token));
    let words = words.filter(|word| word.chars().any(char::is_alphabetic));
    words.clone().count() >= 3
        && words.clone().all(|word| !word.chars().any(char::is_lowercase))
        && words.clone().all(|word| word.chars().any(char::is_uppercase))
}

/// `ACTION REQUIRED` is no name; `IBM UK` and `UNESCO` are.
fn is_shouted(text: &Text<'_>, sentence: usize, words: &[Token]) -> bool {
    /// Longest acronym that is read as a name.
    const ACRONYM_MAX: usize = 6;
    let all_high = |word: &str| word.chars().all(|c| !c.is_lowercase());
    let mut spelled = words.iter().map(|word| text.token_text(sentence, word));
    spelled.clone().all(all_high) && spelled.any(|word| word.chars().count() > ACRONYM_MAX)
}

fn opens_clause(source: &str, floor: usize, start: usize) -> bool {
    let before = source[floor..start]
        .trim_end_matches([' ', '\n', '"', '“', '«', '¿', '¡', '(', '*', '_', '-', '•']);
    before.is_empty() || before.ends_with([':', '.', '!', '?', '·', '|', '•', '–', '—', '/'])
}

fn run_end(text: &Text<'_>, sentence: usize, tokens: &[Token], at: usize) -> usize {
    let source = text.parts[text.sentences[sentence].part].text;
    let is_name =
        |index: usize| tokens.get(index).is_some_and(|token| is_name_word(text, sentence, token));
    let adjacent = |index: usize| {
        let gap = &source[tokens[index - 1].end as usize..tokens[index].start as usize];
        matches!(gap, " " | "-" | ". " | " & " | "." | "&")
            && !(gap == ". " && text.token_text(sentence, &tokens[index - 1]).len() > 3)
    };
    let mut end = at;
    while is_name(end) && (end == at || adjacent(end)) {
        end += 1;
        let mut skip = end;
        while skip < tokens.len()
            && skip - end < 2
            && adjacent(skip)
            && end > at
            && lexicon().names.connective.contains(text.folded(&tokens[skip]))
            && !is_name(skip)
        {
            skip += 1;
        }
        if skip > end && is_name(skip) && adjacent(skip) && skip - at < WORDS_MAX {
            end = skip;
        }
    }
    end
}

fn is_name_word(text: &Text<'_>, sentence: usize, token: &Token) -> bool {
    let word = text.token_text(sentence, token);
    let high = word.chars().next().is_some_and(char::is_uppercase);
    high && !lexicon().names.customary.contains(text.folded(token)) && word.len() <= 40
}

fn kind_of(text: &Text<'_>, words: &[Token]) -> NameKind {
    let says = |token: &Token| lexicon().names.organization.contains(text.folded(token));
    if words.len() > 1 && words.iter().any(says) {
        NameKind::Organization
    } else {
        NameKind::Unknown
    }
}

/// The first country named in a sentence, by its English name.
pub(crate) fn country(text: &Text<'_>, sentence: usize) -> Option<(&'static str, Mention)> {
    let tokens = text.tokens_of(sentence);
    (0..tokens.len()).find_map(|at| {
        let word = text.folded(&tokens[at]);
        let pair = tokens.get(at + 1).map(|next| format!("{word} {}", text.folded(next)));
        let known = |name: &str| lexicon().countries.get(name).map(String::as_str);
        let (name, last) = match pair.as_deref().and_then(known) {
            Some(name) => (name, at + 1),
            None => (known(word)?, at),
        };
        let capital =
            text.token_text(sentence, &tokens[at]).chars().next().is_some_and(char::is_uppercase);
        let mention =
            Mention { sentence, start: tokens[at].start as usize, end: tokens[last].end as usize };
        capital.then_some((name, mention))
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Part;
    use super::*;

    fn names(source: &str) -> Vec<(String, NameKind)> {
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let all: Vec<usize> = (0..text.sentences.len()).collect();
        find(&text, &all)
            .into_iter()
            .map(|name| (source[name.mention.start..name.mention.end].to_string(), name.kind))
            .collect()
    }

    #[test]
    fn names_are_runs_of_capitals_and_openings_are_doubted() {
        let found = names(
            "Yesterday we met Ana Pérez from Acme Labs. The offer of the Universidad de Chile arrived on Monday. Nothing else.",
        );
        assert_eq!(found[0], ("Ana Pérez".to_string(), NameKind::Unknown));
        assert_eq!(found[1], ("Acme Labs".to_string(), NameKind::Organization));
        assert_eq!(found[2], ("Universidad de Chile".to_string(), NameKind::Organization));
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn words_in_capitals_and_leading_words_are_left_out_of_names() {
        let found = names(
            "ACTION REQUIRED from you at IBM UK. Hoy, En Kuantix buscamos gente para UNESCO.",
        );
        let found: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, ["IBM UK", "Kuantix", "UNESCO"]);
    }

    #[test]
    fn countries_need_a_capital() {
        let text = Text::new(vec![Part {
            id: "a",
            text: "The role is in Santiago, Chile. We cook with chile.",
        }]);
        assert_eq!(country(&text, 0).map(|found| found.0), Some("Chile"));
        assert_eq!(country(&text, 1), None);
    }
}
