//! What the first lines of a text say in parts: `Bakery Assistant – Hazel Bread, York`.
//!
//! A posting names its employer and its job in its head, mostly without a verb. A part of a line is what
//! stands between dashes, bars and commas. The words of a part tell which it is.

use super::super::extract::tokens;
use super::super::rank::select::Quoted;
use super::super::text::words::fold;
use super::filled::Filled;
use super::scene::{Focus, Scene};

/// Signs between the parts of a line.
const BETWEEN: [&str; 8] = [" – ", " — ", " - ", " | ", " · ", " • ", ", ", " / "];
/// Marks around a line or a part that are no words of it.
const MARKS: [char; 9] = ['#', '*', '_', '>', '=', '-', '•', '"', ' '];
/// Signs that end a statement: a part that has one at its end is no name.
const STOPS: [char; 4] = ['.', '!', '?', ';'];
const ARTICLES: [&str; 8] = ["a", "an", "ein", "eine", "einen", "un", "una", "une"];
/// Words of a name that is sought in the text, at most.
const NAME_WORDS_MAX: usize = 5;
/// Letters of a name below which it may be any word.
const NAME_LETTERS_MIN: usize = 4;

/// The first part of the first lines that has one of the words, and none of the others.
pub(crate) fn part(
    scene: &Scene<'_, '_>,
    has: &[String],
    without: &[String],
    lines: usize,
    words: usize,
) -> Filled {
    let Some(source) = scene.text.parts.first().map(|part| part.text) else {
        return Filled::Nothing;
    };
    let mut start = 0;
    let mut seen = 0;
    for line in source.split_inclusive('\n') {
        let from = start;
        start += line.len();
        if line.trim().is_empty() {
            continue;
        }
        seen += 1;
        if seen > lines {
            break;
        }
        // A labelled line has a rule of its own.
        if line.contains(": ") {
            continue;
        }
        for (at, part) in parts(line) {
            let (at, part) = without_article(at, part);
            let said: Vec<String> = fold(part).split(' ').map(str::to_owned).collect();
            let says = |known: &[String]| known.iter().any(|one| has_word(&said, one));
            let opens = part.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
            let is_name = opens && said.len() <= words && !is_statement(part);
            if is_name && says(has) && !says(without) {
                let begin = from + at;
                return Filled::quoted(Quoted::range(
                    scene.text,
                    0,
                    begin,
                    begin + part.len(),
                    120,
                ));
            }
        }
    }
    Filled::Nothing
}

/// Whether a stop ends a part, or stands in it.
fn is_statement(part: &str) -> bool {
    part.ends_with(STOPS) || STOPS.iter().any(|stop| part.contains(&format!("{stop} ")))
}

/// A part without the article before a noun: `eine Archivarin`.
fn without_article(at: usize, part: &str) -> (usize, &str) {
    let article = part.split(' ').next().unwrap_or_default();
    match ARTICLES.contains(&article) && part.len() > article.len() {
        true => (at + article.len() + 1, &part[article.len() + 1..]),
        false => (at, part),
    }
}

/// The parts of a line with their places: without marks, and without what stands in brackets.
fn parts(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = 0;
    while start <= line.len() {
        let rest = &line[start..];
        let next = BETWEEN.iter().filter_map(|sign| Some((rest.find(sign)?, sign.len()))).min();
        let (length, skipped) = next.unwrap_or((rest.len(), 1));
        let whole = &rest[..length];
        let named = whole.find(" (").map_or(whole, |bracket| &whole[..bracket]);
        let left = named.len() - named.trim_start_matches(MARKS).len();
        let part = named.trim_matches(MARKS).trim();
        if !part.is_empty() {
            found.push((start + left, part));
        }
        start += length + skipped;
    }
    found
}

/// Whether one of the words is the known one, or begins with it where a star ends it.
fn has_word(said: &[String], known: &str) -> bool {
    match (known.strip_suffix('*'), known.strip_prefix('*')) {
        (Some(stem), _) => said.iter().any(|word| word.starts_with(stem)),
        (_, Some(ending)) => said.iter().any(|word| word.ends_with(ending)),
        _ if known.contains(' ') => {
            let pair = said.join(" ");
            format!(" {pair} ").contains(&format!(" {known} "))
        }
        _ => said.iter().any(|word| word == known),
    }
}

/// The name in the text that an address is made of: `Hop & Vine` of `jobs@hopandvine.example`.
pub(crate) fn name_of_address(scene: &Scene<'_, '_>, without: &[String], focus: &Focus) -> Filled {
    let mut labels: Vec<String> = Vec::new();
    for &at in &focus.sentences {
        for mention in tokens::emails(scene.text, at) {
            let address = scene.quote_mention(mention, 320).text;
            let domain = address.rsplit('@').next().unwrap_or_default().to_lowercase();
            let mut names: Vec<&str> = domain.split('.').collect();
            names.pop();
            let named = names.into_iter().rev().find(|name| name.len() >= NAME_LETTERS_MIN);
            labels.extend(named.map(|name| name.replace('-', "")));
        }
    }
    labels.retain(|label| !without.contains(label));
    let found = focus
        .sentences
        .iter()
        .find_map(|&at| labels.iter().find_map(|label| named_in(scene, at, label)));
    found.unwrap_or_default()
}

/// The run of words of a sentence that spells a label, if it begins with a capital.
fn named_in(scene: &Scene<'_, '_>, sentence: usize, label: &str) -> Option<Filled> {
    let tokens = scene.text.tokens_of(sentence);
    let place = &scene.text.sentences[sentence];
    let source = scene.text.parts[place.part].text;
    let word = |at: usize| scene.text.folded(&tokens[at]);
    for first in 0..tokens.len() {
        let written = scene.text.token_text(sentence, &tokens[first]);
        let before = source[..tokens[first].start as usize].chars().next_back();
        if !written.starts_with(char::is_uppercase)
            || before.is_some_and(|c| matches!(c, '@' | '.'))
        {
            continue;
        }
        let mut spelled = String::new();
        for last in first..tokens.len().min(first + NAME_WORDS_MAX) {
            spelled.push_str(word(last));
            if spelled == label {
                let (start, end) = (tokens[first].start as usize, tokens[last].end as usize);
                return Some(Filled::quoted(Quoted::range(
                    scene.text, place.part, start, end, 120,
                )));
            }
            // A sign between two words may stand for one: `&` is `and`.
            let joined = source[tokens[last].end as usize..].trim_start().starts_with('&');
            let rest = label.strip_prefix(spelled.as_str());
            let and = rest.filter(|_| joined).and_then(|rest| {
                ["and", "y", "und", "et"].into_iter().find(|and| rest.starts_with(and))
            });
            spelled.push_str(and.unwrap_or_default());
            if !label.starts_with(spelled.as_str()) {
                break;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_in_parts() {
        let read = |line| parts(line).into_iter().map(|(_, part)| part).collect::<Vec<_>>();
        assert_eq!(
            read("## Baker (m/w/d) – Hazel Bread, York\n"),
            ["Baker", "Hazel Bread", "York"]
        );
        assert_eq!(read("Institute | 36 hours"), ["Institute", "36 hours"]);
    }
}
