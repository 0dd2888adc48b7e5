//! Versions and days that a heading names: `[1.2.0] - 2026-03-04`, `v2.1`, `Changes in release 4.1`.

use std::ops::Range;

use chrono::NaiveDate;

use super::super::extract::written;
use super::super::lexicon::lexicon;
use super::inline;
use super::words::fold;

/// Numbers of a version that are compared.
const NUMBERS_MAX: usize = 4;
/// Words of a heading that may name a version.
const WORDS_MAX: usize = 12;

/// A version or a day that a heading names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// Empty for a day.
    pub numbers: Vec<u32>,
    /// Where it stands in the heading.
    pub name: Range<usize>,
    pub day: Option<NaiveDate>,
    /// It is no number of a chapter: a word or a mark says so, or a day stands beside it.
    pub is_sure: bool,
}

/// `[1.2.0] - 2026-03-04`, `v2.1`, `Version 3.0`, `Changes in release 4.1`. The number of a chapter is none: `1.2 Roofs`.
pub(crate) fn version_in(heading: &str) -> Option<Named> {
    let plain = inline::unmarked(heading);
    let is_edge = |c: char| c.is_whitespace() || matches!(c, '(' | '[' | ']' | ')' | ',');
    let is_mark = |c: char| matches!(c, ':' | '*' | '_' | '`' | '"');
    let words = plain.split(is_edge).map(|word| word.trim_matches(is_mark).trim_end_matches('.'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).take(WORDS_MAX + 1).collect();
    if words.len() > WORDS_MAX {
        return None;
    }
    // `Changes between 1.0 and 1.1` are those of the later one.
    let is_led = words.iter().any(is_word_for_version);
    let dotted = words.iter().enumerate().filter_map(|(at, word)| Some((numbers_of(word)?, at)));
    let dotted = dotted.max_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    let alone = || {
        let mut words = words.iter().enumerate().filter(|_| is_led);
        words.find_map(|(at, word)| Some((number_alone(word)?, at)))
    };
    let Some((numbers, at)) = dotted.or_else(alone) else {
        return day_alone(heading, &words, day_in(&plain));
    };
    // `1.2.19` reads as a day, too.
    let day = day_in(&plain.replacen(words[at], "", 1));
    let (word, before, behind) = (words[at], &words[..at], &words[at + 1..]);
    let is_name = |word: &&str| word.len() > 1 && word.chars().all(char::is_alphabetic);
    let is_led = before.iter().any(is_word_for_version);
    let is_marked = word.starts_with(['v', 'V']) || heading.starts_with('[');
    let has_more = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
    let is_upcoming = |word: &&str| lexicon().weight.upcoming.contains(fold(word).as_str());
    let fits = match before {
        [] => is_marked || behind.iter().all(is_upcoming) || behind.iter().any(has_more),
        [name] => is_name(name) || is_led,
        _ => is_led,
    };
    let named = [before.last().copied().unwrap_or_default(), word].join(" ");
    let place = |named: &str| heading.find(named).map(|start| start..start + named.len());
    let name = place(named.trim()).filter(|_| before.len() == 1).or_else(|| place(word));
    let is_dotted = numbers.len() > 1;
    let is_sure = is_dotted && (is_marked || is_led || day.is_some() || numbers.len() > 2);
    name.filter(|_| fits).map(|name| Named { numbers, name, day, is_sure })
}

/// A heading that is a day and hardly more.
fn day_alone(heading: &str, words: &[&str], day: Option<NaiveDate>) -> Option<Named> {
    const DAY_WORDS_MAX: usize = 5;
    let name = 0..heading.len();
    let is_short = words.len() <= DAY_WORDS_MAX;
    let is_day = day.is_some() && is_short;
    is_day.then_some(Named { numbers: Vec::new(), name, day, is_sure: false })
}

/// The only day in a heading.
fn day_in(heading: &str) -> Option<NaiveDate> {
    const DIGITS_MIN: usize = 5;
    let digits = heading.bytes().filter(u8::is_ascii_digit).count();
    (digits >= DIGITS_MIN).then(|| written::only_day(heading))?
}

fn is_word_for_version(word: &&str) -> bool {
    lexicon().weight.releases.contains(fold(word).as_str())
}

/// `252`, which is a version behind a word for one.
fn number_alone(word: &str) -> Option<Vec<u32>> {
    let is_number = (1..=4).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| word.parse().ok().map(|number| vec![number]))?
}

/// `1.2.0`, `v2.1`, `1:2.0-3`, `1.0.0-rc.1`, `tool-1.4`.
fn numbers_of(word: &str) -> Option<Vec<u32>> {
    const ENDINGS: [&str; 9] = ["", "rc", "a", "b", "alpha", "beta", "pre", "dev", "post"];
    let bare = word.strip_prefix(['v', 'V', '#', '=']).unwrap_or(word);
    let bare = bare.split_once(':').map_or(bare, |(_, version)| version);
    let named = bare
        .rsplit_once(['-', '_', '@', '/'])
        .filter(|(name, _)| name.starts_with(char::is_alphabetic) && !name.contains('.'));
    let bare = named.map_or(bare, |(_, version)| version);
    let bare = bare.strip_prefix(['v', 'V']).unwrap_or(bare);
    let bare = bare.split(['-', '+', '~']).next().unwrap_or(bare).trim_end_matches('.');
    let number = |piece: &str| {
        let end = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        let rest = piece[end..].trim_end_matches(|c: char| c.is_ascii_digit()).to_ascii_lowercase();
        piece[..end].parse::<u32>().ok().filter(|_| ENDINGS.contains(&rest.as_str()))
    };
    let numbers: Option<Vec<u32>> = bare.split('.').take(NUMBERS_MAX).map(number).collect();
    // `12.03.2026` is a day.
    let is_day = |numbers: &[u32]| numbers.len() == 3 && (numbers[2] > 1900 || numbers[0] > 1900);
    numbers.filter(|numbers| numbers.len() > 1 && !(is_day(numbers) && day_in(bare).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_the_usual_forms() {
        for (heading, name, numbers) in [
            ("[1.2.0] - 2026-03-04", "1.2.0", &[1, 2, 0][..]),
            ("[1.2.0](https://a.example/1.2.0) (2026-03-04)", "1.2.0", &[1, 2, 0]),
            ("v2.1", "v2.1", &[2, 1]),
            ("Changes from 1.07 to 1.07.1.", "1.07.1", &[1, 7, 1]),
            ("Version 3.0", "Version 3.0", &[3, 0]),
            ("tool-1.4 (2026-03-04)", "tool-1.4", &[1, 4]),
            ("version 1.34 - Ana Ruiz, 2026-02-13", "version 1.34", &[1, 34]),
            ("Noteworthy changes in release 9.1 (2026-04-15) [stable]", "9.1", &[9, 1]),
            ("Changes between 3.0.15 and 3.0.16 [11 Feb 2026]", "3.0.16", &[3, 0, 16]),
            ("CHANGES WITH 252:", "252", &[252]),
            ("2.0.0-rc.1", "2.0.0-rc.1", &[2, 0, 0]),
        ] {
            let found = version_in(heading);
            let found = found.unwrap_or_else(|| panic!("{heading}"));
            assert_eq!((&heading[found.name], found.numbers.as_slice()), (name, numbers));
        }
        for heading in ["1.2 Roofs", "Cables of 3.5mm", "The plan of 2026", "Chapter 3", "Roof"] {
            assert_eq!(version_in(heading), None, "{heading}");
        }
        assert!(version_in("12.03.2026").is_some_and(|found| found.numbers.is_empty()));
    }
}
