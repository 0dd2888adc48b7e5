//! Words in summaries: case and accents do not matter.

pub(crate) use crate::contract::places::without_accents as folded;
use crate::model::builtin::text::{language, sentences};

/// Most sentences of one hit.
const SENTENCES_MAX: usize = 3;

/// Most characters of one of them.
const SENTENCE_CHARS: usize = 300;

/// The folded words of a search.
pub(crate) fn words(query: &str) -> Vec<String> {
    query.split_whitespace().map(folded).filter(|word| !word.is_empty()).collect()
}

/// Where words were found in a summary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// In this sentence of the text.
    Sentence(String),
    /// Only in the names.
    Name,
}

/// How a summary holds the words: the worst of them counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closeness {
    Whole,
    /// At the beginning of a word: `heat` in `heating`.
    Beginning,
    /// Inside a word: `cat` in `concatenate`.
    Inside,
}

impl Closeness {
    pub(crate) const ALL: [Closeness; 3] =
        [Closeness::Whole, Closeness::Beginning, Closeness::Inside];
}

/// The sentences of a summary that hold the words, when the names and the text together hold
/// all of them. A summary without a sentence has no hit.
pub(crate) fn hit(names: &[&str], text: &str, words: &[String]) -> Option<(Closeness, Hit)> {
    let mut whole = folded(&names.join(" "));
    whole.push(' ');
    whole.push_str(&folded(text));
    if !words.iter().all(|word| is_in(&whole, word)) {
        return None;
    }
    let closest = words.iter().map(|word| closeness(&whole, word)).min()?;
    let closeness_of_all = match closest {
        0 => return None,
        INSIDE => Closeness::Inside,
        BEGINNING => Closeness::Beginning,
        _ => Closeness::Whole,
    };
    let sentences = sentences_of(text);
    let worth: Vec<Vec<usize>> = sentences
        .iter()
        .map(|sentence| {
            let sentence = folded(sentence);
            words.iter().map(|word| closeness(&sentence, word)).collect()
        })
        .collect();
    sentences.first()?;
    let chosen = choose(&worth, words.len());
    if chosen.is_empty() {
        return Some((closeness_of_all, Hit::Name));
    }
    let mut shown = String::new();
    for (number, &at) in chosen.iter().enumerate() {
        let follows = number > 0 && chosen[number - 1] + 1 == at;
        shown.push_str(if number == 0 {
            ""
        } else if follows {
            " "
        } else {
            " … "
        });
        let sentence = sentences[at].split_whitespace().collect::<Vec<_>>().join(" ");
        shown.push_str(&around_words(&sentence, words));
    }
    Some((closeness_of_all, Hit::Sentence(shown)))
}

/// As [`hit`], for a summary of a list of which a row has all words in its names: the row is shown where the text of the
/// summary lacks one of them.
pub(crate) fn hit_or_row(
    names: &[&str],
    text: &str,
    row: Option<&str>,
    words: &[String],
) -> Option<(Closeness, Hit)> {
    let Some(row) = row else { return hit(names, text, words) };
    let names: Vec<&str> = names.iter().copied().chain([row]).collect();
    let (closeness, found) = hit(&names, text, words)?;
    let text = folded(text);
    if words.iter().all(|word| is_in(&text, word)) {
        return Some((closeness, found));
    }
    let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((closeness, Hit::Sentence(around_words(&row, words))))
}

/// A long sentence cut to what stands around the first of the words, such as a row of a table.
fn around_words(sentence: &str, words: &[String]) -> String {
    if sentence.chars().count() <= SENTENCE_CHARS {
        return sentence.to_owned();
    }
    let all: Vec<&str> = sentence.split(' ').collect();
    let is_hit = |one: &&str| words.iter().any(|word| is_in(&folded(one), word));
    let hit = all.iter().position(is_hit).unwrap_or(0);
    let room = |text: &[&str]| text.iter().map(|one| one.chars().count() + 1).sum::<usize>();
    let mut first = hit;
    while first > 0 && room(&all[first - 1..hit]) <= SENTENCE_CHARS / 4 {
        first -= 1;
    }
    let mut end = hit + 1;
    while end < all.len() && room(&all[first..=end]) <= SENTENCE_CHARS {
        end += 1;
    }
    let before = if first > 0 { "… " } else { "" };
    let behind = if end < all.len() { " …" } else { "" };
    format!("{before}{}{behind}", all[first..end].join(" "))
}

/// Whether a folded text holds a folded word, or the same number in another spelling.
pub(crate) fn is_in(text: &str, word: &str) -> bool {
    text.contains(word) || has_number(text, word)
}

/// The sentences of a text, as the summarizer finds them: `Dr.` ends none.
fn sentences_of(text: &str) -> Vec<&str> {
    let language = language::language_of([text]);
    let mut found = Vec::new();
    for line in text.lines().map(|line| line.trim_start_matches(['#', '-', '*', ' '])) {
        sentences::split_in(language, false, line, 0..line.len(), |place| found.push(&line[place]));
    }
    found
}

/// The fewest sentences, in their order, that hold the words that the text holds: first the one with
/// most of them, then those with what is missing.
fn choose(worth: &[Vec<usize>], words: usize) -> Vec<usize> {
    let mut missing = vec![true; words];
    let mut chosen = Vec::new();
    while chosen.len() < SENTENCES_MAX {
        let value = |at: usize| -> usize {
            worth[at]
                .iter()
                .zip(&missing)
                .filter(|(_, missing)| **missing)
                .map(|(one, _)| one)
                .sum()
        };
        // Of equal sentences the first counts.
        let best = (0..worth.len()).rev().max_by_key(|&at| value(at));
        let Some(best) = best.filter(|&at| value(at) > 0) else { break };
        missing.iter_mut().zip(&worth[best]).for_each(|(missing, one)| *missing &= *one == 0);
        chosen.push(best);
    }
    chosen.sort_unstable();
    chosen
}

/// Worth of a word inside another, and at its beginning. One more word counts more than any closeness.
const INSIDE: usize = 4;
const BEGINNING: usize = 5;
const WHOLE: usize = 6;

/// How well a folded sentence holds a word: as a word of its own, at the beginning of one, inside one; 0 for a
/// sentence that does not hold it. A number is not in a longer number: `12` is not in `2012`.
fn closeness(sentence: &str, word: &str) -> usize {
    if has_number(sentence, word) {
        return WHOLE;
    }
    let is_letter = |c: char| c.is_alphanumeric();
    let found = sentence.match_indices(word).map(|(at, _)| {
        let (before, behind) = (&sentence[..at], &sentence[at + word.len()..]);
        let begins = !before.ends_with(is_letter);
        let ends = !behind.starts_with(is_letter);
        match (begins, ends) {
            _ if cuts_number(before, word, behind) => 0,
            (true, true) => WHOLE,
            (true, false) => BEGINNING,
            (false, _) => INSIDE,
        }
    });
    found.max().unwrap_or(0)
}

/// Whether a word begins or ends within a number, as `200` in `1,200` does.
fn cuts_number(before: &str, word: &str, behind: &str) -> bool {
    const SIGNS: [char; 4] = ['.', ',', '\'', '’'];
    const GROUP: usize = 3;
    let is_digit = |c: char| c.is_ascii_digit();
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let grouped_before = before.strip_suffix(SIGNS).is_some_and(|rest| rest.ends_with(is_digit));
    let grouped_behind = behind.strip_prefix(SIGNS).is_some_and(|rest| digits(rest) == GROUP);
    word.starts_with(is_digit)
        && (before.ends_with(is_digit) || grouped_before && digits(word) == GROUP)
        || word.ends_with(is_digit) && (behind.starts_with(is_digit) || grouped_behind)
}

/// Signs that stand in a number: between thousands, or before the fraction.
const NUMBER_SIGNS: [char; 6] = ['.', ',', '\'', '’', '\u{a0}', '\u{202f}'];

/// Whether a word is a number that a text has in another spelling: `1234.50` in `1,234.50`.
fn has_number(text: &str, word: &str) -> bool {
    let is_number = |c: char| c.is_ascii_digit() || NUMBER_SIGNS.contains(&c);
    if word.len() <= THOUSANDS || !word.chars().all(is_number) {
        return false;
    }
    let wanted = readings(word);
    let numbers = text.split(|c: char| !is_number(c)).map(|one| one.trim_matches(NUMBER_SIGNS));
    let mut numbers = numbers.filter(|one| one.len() > THOUSANDS);
    !wanted.is_empty() && numbers.any(|one| readings(one).iter().any(|one| wanted.contains(one)))
}

/// Digits between two signs of a number with thousands.
const THOUSANDS: usize = 3;

/// What a number may be, without signs between thousands: `1.234` is `1234` or `1.234`.
fn readings(number: &str) -> Vec<String> {
    let parts: Vec<&str> = number.split(NUMBER_SIGNS).collect();
    let signs: Vec<char> = number.chars().filter(|c| NUMBER_SIGNS.contains(c)).collect();
    let is_grouped = |parts: &[&str], signs: &[char]| {
        parts.len() == 1
            || parts[0].len() <= THOUSANDS
                && parts[1..].iter().all(|part| part.len() == THOUSANDS)
                && signs.iter().all(|sign| *sign == signs[0])
    };
    if parts.iter().any(|part| part.is_empty()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if is_grouped(&parts, &signs) {
        found.push(parts.concat());
    }
    if let ([whole @ .., fraction], [before @ .., sign @ ('.' | ',')]) = (&parts[..], &signs[..])
        && is_grouped(whole, before)
        && !before.contains(sign)
    {
        let number = format!("{}.{fraction}", whole.concat());
        found.push(number.trim_end_matches('0').trim_end_matches('.').to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_closer_than_parts_of_words_and_numbers_are_whole() {
        let close = |text: &str, query: &str| hit(&[], text, &words(query)).map(|(close, _)| close);
        assert_eq!(close("The cat sleeps.", "cat"), Some(Closeness::Whole));
        assert_eq!(
            close("The category is new. Concatenate it.", "cat"),
            Some(Closeness::Beginning)
        );
        assert_eq!(close("Concatenate the rows.", "cat"), Some(Closeness::Inside));
        assert_eq!(close("Concatenate the rows.", "rows cat"), Some(Closeness::Inside));
        assert_eq!(close("The room costs 12 EUR since 2012.", "12"), Some(Closeness::Whole));
        for (text, query) in [
            ("It was in 2012.", "12"),
            ("It costs 1,200 EUR.", "200"),
            ("Es kostet 1.200 Euro.", "1"),
            ("Ticket 40711", "4071"),
        ] {
            assert_eq!(close(text, query), None, "{query} in {text}");
        }
        for (text, query) in [
            ("Use v3.4.0 of it.", "3.4"),
            ("On 2026-03-12 at 9:30.", "9"),
            ("It has 12kg.", "12"),
            ("Room B12", "12"),
        ] {
            assert!(close(text, query).is_some(), "{query} in {text}");
        }
    }

    #[test]
    fn a_number_is_found_in_each_of_its_spellings() {
        let close = |text: &str, query: &str| hit(&[], text, &words(query)).map(|(close, _)| close);
        for (text, query) in [
            ("The invoice is over 1,234.50 EUR.", "1234.50"),
            ("The invoice is over 1,234.50 EUR.", "1234.5"),
            ("Die Rechnung über 1.234,50 Euro.", "1,234.50"),
            ("It costs 1234.5 EUR.", "1'234.50"),
            ("Two million: 2,000,000.", "2000000"),
            ("Es kostet 1.200 Euro.", "1200"),
        ] {
            assert_eq!(close(text, query), Some(Closeness::Whole), "{query} in {text}");
        }
        for (text, query) in [
            ("It costs 1,234.50 EUR.", "1234.05"),
            ("Release 3.4.0 is out.", "340"),
            ("It costs 12,345 EUR.", "2345"),
            ("On 2026-03-12.", "20260312"),
        ] {
            assert_eq!(close(text, query), None, "{query} in {text}");
        }
    }

    #[test]
    fn a_row_is_shown_where_the_summary_of_its_list_lacks_a_word() {
        let shown = "id: R-7; name: Oak chair; note: It is stable.";
        let row = Some(shown);
        let text = "The walnut table has a scratch. The birch shelf bends.";
        let find = |query: &str, row| {
            hit_or_row(&["parts.csv"], text, row, &words(query)).map(|(_, hit)| hit)
        };
        assert_eq!(find("r-7", row), Some(Hit::Sentence(shown.to_owned())));
        assert_eq!(find("r-7", None), None);
        let told = Hit::Sentence("The birch shelf bends.".to_owned());
        assert_eq!(find("shelf", row), Some(told));
    }

    #[test]
    fn a_hit_is_the_sentence_with_most_of_the_words() {
        let text = "### Goal\nThe roof is old. The reparación of the roof costs 900 EUR. Bye.";
        let hit = |names: &[&str], text: &str, words: &[String]| {
            super::hit(names, text, words).map(|(_, hit)| hit)
        };
        let find = |query: &str| hit(&["notes/roof.md", "T"], text, &words(query));
        let sentence = |text: &str| Some(Hit::Sentence(text.to_owned()));
        assert_eq!(find("ROOF  reparacion"), sentence("The reparación of the roof costs 900 EUR."));
        assert_eq!(find("roof"), sentence("The roof is old."));
        assert_eq!(find("notes"), Some(Hit::Name));
        assert_eq!(find("roof garden"), None);
        let text = "Dr. Weber moved the art show. He starts at 10 a.m. on Friday. Bring the picture to Mrs. Lang.";
        let find = |query: &str| hit(&["a.md", "T"], text, &words(query));
        let row = (1..60).map(|n| format!("column {n}: value{n};")).collect::<Vec<_>>().join(" ");
        let Some(Hit::Sentence(cut)) = hit(&[], &row, &words("value30")) else { panic!() };
        assert!(cut.chars().count() <= SENTENCE_CHARS + 4 && cut.contains("value30;"), "{cut}");
        assert!(cut.starts_with("… ") && cut.ends_with(" …"), "{cut}");
        assert_eq!(find("weber"), sentence("Dr. Weber moved the art show."));
        assert_eq!(find("art"), sentence("Dr. Weber moved the art show."));
        assert_eq!(
            find("weber lang"),
            sentence("Dr. Weber moved the art show. … Bring the picture to Mrs. Lang.")
        );
    }
}
