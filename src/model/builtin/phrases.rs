//! Key phrases: runs of content words that recur, stand early, or stand in headings.
//!
//! A phrase is one to three neighbouring content words inside a sentence, as it was first written. Its
//! weight is the weight of its terms, how often it occurs, how many words it has, and whether anything
//! says that it names a thing: an article or preposition before it, a capital inside a sentence, a
//! heading. Phrases that lie inside a chosen one are left out, and so are addresses, code, courtesies and
//! the automatic parts of a mail. Integer scores; ties go to the earlier phrase.

use std::collections::HashMap;

use super::extract::dates::is_period;
use super::extract::tokens;
use super::lexicon::lexicon;
use super::text::hash::Fast;
use super::text::words::{Token, fold};
use super::text::{Kind, Role, Text, tables};

/// Longest phrase, in words.
const WORDS_MAX: usize = 3;
/// Sentences looked at; beyond this a text repeats itself.
const SENTENCES_MAX: usize = 4000;

/// Weight of phrases that are seen to name something, and of the rest.
const NAMED: u64 = 5;
const UNNAMED: u64 = 3;

/// A phrase and where it first stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Phrase {
    pub(crate) terms: Vec<u32>,
    /// Sentence of its first occurrence.
    pub sentence: usize,
    /// Byte range there, in the part.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    score: u64,
    count: u32,
    named: bool,
}

/// The best `most` phrases of the given sentences.
pub(crate) fn key_phrases(text: &Text<'_>, sentences: &[usize], most: usize) -> Vec<Phrase> {
    let sentences = &sentences[..sentences.len().min(SENTENCES_MAX)];
    let weights = term_weights(text, sentences);
    let mut found: HashMap<Vec<u32>, usize, Fast> = HashMap::default();
    let mut phrases: Vec<Phrase> = Vec::new();
    for &sentence in sentences {
        if !speaks(text, sentence) {
            continue;
        }
        let addresses = addresses(text, sentence);
        let shouts = shouts(text, sentence);
        for_each_run(text, sentence, &addresses, |run, leads| {
            for start in 0..run.len() {
                for end in start + 1..=(start + WORDS_MAX).min(run.len()) {
                    let named = names_a_thing(text, sentence, run, start..end, leads, shouts);
                    note(text, sentence, &run[start..end], named, &mut found, &mut phrases);
                }
            }
        });
    }
    for phrase in &mut phrases {
        phrase.score = worth(phrase, &weights);
    }
    phrases.sort_by(|a, b| {
        b.score.cmp(&a.score).then((a.sentence, a.start).cmp(&(b.sentence, b.start)))
    });
    choose(phrases, most)
}

/// Good phrases from which on the doubtful ones, said once and not seen to name anything, stay out.
const ENOUGH: usize = 2;

fn speaks(text: &Text<'_>, sentence: usize) -> bool {
    let block = text.block_of(sentence);
    !matches!(block.kind, Kind::Code | Kind::Signature | Kind::Quote | Kind::Link | Kind::Columns)
        && (block.kind != Kind::Header || is_subject(text, sentence))
        && !matches!(block.role, Role::Tool | Role::System)
        && super::rank::quality::courtesy(text, sentence).is_none()
        && !super::rank::quality::is_pleasantry(text, sentence)
}

/// Of the lines that head a mail only the subject says what it is about.
fn is_subject(text: &Text<'_>, sentence: usize) -> bool {
    let place = &text.sentences[sentence];
    let before = &text.parts[place.part].text[..place.start];
    let line = before.rsplit('\n').next().unwrap_or(before);
    let label = fold(line.trim().trim_end_matches(':').trim());
    lexicon().mail.subject_labels.contains(&label)
}

/// Byte ranges of the addresses in a sentence, and of the names of columns in a row.
pub(crate) fn addresses(text: &Text<'_>, sentence: usize) -> Vec<(usize, usize)> {
    let said = text.sentence(sentence);
    let mut found = Vec::new();
    if said.contains("://") {
        found.extend(tokens::urls(text, sentence));
    }
    if said.contains('@') {
        found.extend(tokens::emails(text, sentence));
    }
    let names = tables::names_in(text, sentence).into_iter().map(|name| (name.start, name.end));
    found.into_iter().map(|mention| (mention.start, mention.end)).chain(names).collect()
}

/// Whether all letters are capitals, so that a capital marks no name.
fn shouts(text: &Text<'_>, sentence: usize) -> bool {
    !text.sentence(sentence).chars().any(char::is_lowercase)
}

/// Whether what stands around a phrase says that it names something rather than does something.
fn names_a_thing(
    text: &Text<'_>,
    sentence: usize,
    run: &[Token],
    range: std::ops::Range<usize>,
    leads: Option<&str>,
    shouts: bool,
) -> bool {
    let words = &lexicon().phrases;
    let heading = matches!(text.block_of(sentence).kind, Kind::Heading(_) | Kind::Header);
    let asks = text.sentence(sentence).ends_with('?');
    let capital = |token: &Token| {
        let mut word = text.token_text(sentence, token).chars();
        word.next().is_some_and(char::is_uppercase) && token_opens(text, sentence) != token.start
    };
    // The noun stands last in `the stuck worker`, and first in `el agua potable`.
    let noun_first = text.language.does(|habits| habits.nouns_stand_first);
    let holds_noun = if noun_first { range.start == 0 } else { range.end == run.len() };
    let after = holds_noun
        && leads.is_some_and(|word| {
            words.before.contains(word) || (asks && words.asking.contains(word))
        });
    heading || after || (!shouts && capital(&run[range.start]))
}

/// First byte of a sentence's first word.
fn token_opens(text: &Text<'_>, sentence: usize) -> u32 {
    text.tokens_of(sentence).first().map_or(0, |token| token.start)
}

fn term_weights(text: &Text<'_>, sentences: &[usize]) -> Vec<u64> {
    let mut weights = vec![0_u64; text.vocabulary.term_count()];
    for (position, &sentence) in sentences.iter().enumerate() {
        if !speaks(text, sentence) {
            continue;
        }
        let heading = matches!(text.block_of(sentence).kind, Kind::Heading(_) | Kind::Header);
        let early = if position < 3 { 2 } else { 0 };
        for (at, token) in text.tokens_of(sentence).iter().enumerate() {
            if let Some(term) = text.term(token) {
                let capital = at > 0
                    && text
                        .token_text(sentence, token)
                        .chars()
                        .next()
                        .is_some_and(char::is_uppercase);
                weights[term as usize] += 2 + early + 3 * u64::from(heading) + u64::from(capital);
            }
        }
    }
    weights
}

/// Neighbouring content words with the word before them, broken by stop words, punctuation, bare
/// numbers and addresses.
pub(crate) fn for_each_run<'t>(
    text: &'t Text<'_>,
    sentence: usize,
    addresses: &[(usize, usize)],
    mut each: impl FnMut(&[Token], Option<&'t str>),
) {
    let tokens = text.tokens_of(sentence);
    let source = text.parts[text.sentences[sentence].part].text;
    let counts = |token: &Token| {
        let address =
            |&(start, end): &(usize, usize)| (start..end).contains(&(token.start as usize));
        is_content(text, sentence, token) && !addresses.iter().any(address)
    };
    let mut from = 0;
    for at in 0..=tokens.len() {
        let broken = at == tokens.len()
            || !counts(&tokens[at])
            || (at > from
                && source[tokens[at - 1].end as usize..tokens[at].start as usize]
                    .trim_matches(['-', '_', '/', '.', '#', '@'])
                    != " "
                && !joined(&source[tokens[at - 1].end as usize..tokens[at].start as usize]));
        if broken {
            if at > from {
                let before = from.checked_sub(1).map(|before| text.folded(&tokens[before]));
                each(&tokens[from..at], before);
            }
            from = if at < tokens.len() && counts(&tokens[at]) { at } else { at + 1 };
        }
    }
}

fn joined(gap: &str) -> bool {
    matches!(gap, "-" | "_" | "/" | "." | "#" | "+" | " ")
}

fn is_content(text: &Text<'_>, sentence: usize, token: &Token) -> bool {
    let word = text.token_text(sentence, token);
    let plain =
        text.term(token).is_some() && word.chars().any(char::is_alphabetic) && word.len() <= 40;
    plain
        && !super::extract::dates::is_calendar_word(text.folded(token))
        && !lexicon().phrases.verbs.contains(text.folded(token))
        && !is_unit(text.folded(token))
        && !is_amount(text.folded(token))
        && !lexicon().mail.reply_marks.contains(text.folded(token))
        && (!lexicon().dates.zones.contains(text.folded(token))
            || word.contains(char::is_lowercase))
}

/// A number with its unit: `40s`, `2x`, `12km`.
fn is_amount(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < word.len() && (is_unit(unit) || matches!(unit, "s" | "ms" | "x" | "d" | "h"))
}

/// Whether a folded word is a unit or a currency: `eur`, `kg`.
fn is_unit(word: &str) -> bool {
    lexicon().phrases.units.contains(word) || lexicon().money.currencies.contains(word)
}

fn note(
    text: &Text<'_>,
    sentence: usize,
    run: &[Token],
    named: bool,
    found: &mut HashMap<Vec<u32>, usize, Fast>,
    phrases: &mut Vec<Phrase>,
) {
    // A length of time alone names nothing; in `four day week` it is part of a name.
    if run.len() == 1 && is_period(text.folded(&run[0])) {
        return;
    }
    let terms: Vec<u32> = run.iter().filter_map(|token| text.term(token)).collect();
    match found.get(&terms) {
        Some(&index) => {
            phrases[index].count += 1;
            phrases[index].named |= named;
        }
        None => {
            found.insert(terms.clone(), phrases.len());
            let (start, end) = whole_words(text, sentence, &run[0], &run[run.len() - 1]);
            phrases.push(Phrase { terms, sentence, start, end, score: 0, count: 1, named });
        }
    }
}

/// Where the words of a run begin and end: without an elided article (`l'accord`), and with the other half
/// of a word with a hyphen (`rendez-vous`).
fn whole_words(text: &Text<'_>, sentence: usize, first: &Token, last: &Token) -> (usize, usize) {
    let source = text.parts[text.sentences[sentence].part].text;
    let (mut start, mut end) = (first.start as usize, last.end as usize);
    if text.language.does(|habits| habits.articles_are_elided) {
        start += elided(&source[start..end]);
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '-';
    let before = &source[..start];
    let half = before.len() - before.trim_end_matches(is_part).len();
    if before.ends_with('-') && half > 1 {
        start -= half;
    }
    let after = &source[end..];
    let half = after.len() - after.trim_start_matches(is_part).len();
    if after.starts_with('-') && half > 1 {
        end += half;
    }
    (start, end)
}

/// Bytes of the elided word that a word begins with.
fn elided(word: &str) -> usize {
    let Some(mark) = word.find(['\'', '’']) else { return 0 };
    let rest = word[mark..].trim_start_matches(['\'', '’']);
    let is_short = matches!(
        fold(&word[..mark]).as_str(),
        "l" | "d" | "qu" | "n" | "s" | "j" | "c" | "m" | "t"
    );
    if is_short && rest.chars().nth(1).is_some() { word.len() - rest.len() } else { 0 }
}

fn worth(phrase: &Phrase, weights: &[u64]) -> u64 {
    let words = phrase.terms.len() as u64;
    let sum: u64 = phrase.terms.iter().map(|&term| weights[term as usize].min(60)).sum();
    let mean = sum * 100 / words;
    let count = u64::from(phrase.count.min(12));
    let recurring = match words {
        1 => 10 + 6 * count,
        2 if count == 1 => 17,
        _ if count == 1 => 14,
        _ => 14 + 12 * count,
    };
    let sure = if phrase.named { NAMED } else { UNNAMED };
    mean * recurring * sure
}

fn choose(phrases: Vec<Phrase>, most: usize) -> Vec<Phrase> {
    let mut chosen: Vec<Phrase> = Vec::new();
    for phrase in phrases {
        if chosen.len() == most {
            break;
        }
        let overlaps = chosen.iter().any(|other| {
            let shared = phrase.terms.iter().filter(|term| other.terms.contains(term)).count();
            shared * 2 >= phrase.terms.len().min(other.terms.len())
        });
        // Words that nothing says to name a thing are a phrase only where they recur.
        let doubtful = !phrase.named
            && phrase.count == 1
            && (phrase.terms.len() > 1 || chosen.len() >= ENOUGH);
        if !overlaps && !doubtful {
            chosen.push(phrase);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::text::Part;
    use super::*;

    #[test]
    fn the_names_of_columns_are_no_phrases() {
        let rows = [
            "item: apple tree; colour: red; delivery: in April.",
            "item: pear tree; colour: green; delivery: in May.",
            "item: cherry tree; colour: black; delivery: in June.",
        ];
        for parts in [&rows[..], &rows[..1]] {
            let parts = parts.iter().map(|text| Part { id: "a", text }).collect();
            let text = Text::new(parts);
            let all: Vec<usize> = (0..text.sentences.len()).collect();
            let found = key_phrases(&text, &all, 8);
            let said = |phrase: &Phrase| {
                text.parts[text.sentences[phrase.sentence].part].text[phrase.start..phrase.end]
                    .to_owned()
            };
            let found: Vec<String> = found.iter().map(said).collect();
            assert!(found.iter().any(|one| one.contains("tree")), "{found:?}");
            let is_name = |one: &String| {
                one.contains("colour") || one.contains("delivery") || one.contains("item")
            };
            assert!(!found.iter().any(is_name), "{found:?}");
        }
    }

    #[test]
    fn amounts_marks_and_zones_name_nothing_and_words_are_whole() {
        let names = |source: &str| {
            let text = Text::new(vec![Part { id: "a", text: source }]);
            let all: Vec<usize> = (0..text.sentences.len()).collect();
            let found = key_phrases(&text, &all, 6);
            found.iter().map(|one| source[one.start..one.end].to_owned()).collect::<Vec<_>>()
        };
        let build = names(
            "# Re: Nº 12 of the cache\n\nThe cache takes 1s instead of 40s (17:00 UTC). The cache Nº 3 is warm.\n",
        );
        for wrong in ["Re", "UTC", "1s", "40s", "Nº"] {
            assert!(!build.iter().any(|one| one.contains(wrong)), "{build:?}");
        }
        let french = names(
            "L'accord sur l'appartement est signé. Le rendez-vous est avenue de l'Opéra. L'équipe attend l'acompte. \
             L'accord et le rendez-vous sont dans le dossier.",
        );
        assert!(french.iter().all(|one| !one.contains(['\'', '’'])), "{french:?}");
        assert!(!french.iter().any(|one| one.ends_with("rendez")), "{french:?}");
    }

    #[test]
    fn recurring_phrases_come_first_and_do_not_overlap() {
        let source = "The data pipeline failed. We fixed the data pipeline. The data pipeline now retries. A cat slept.";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let all: Vec<usize> = (0..text.sentences.len()).collect();
        let phrases = key_phrases(&text, &all, 3);
        assert_eq!(&source[phrases[0].start..phrases[0].end], "data pipeline");
        assert_eq!(
            phrases
                .iter()
                .filter(|phrase| source[phrase.start..phrase.end].contains("pipeline"))
                .count(),
            1
        );
    }
}
