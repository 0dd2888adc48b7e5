//! How much the parts of a history of versions count. A reader of a list of changes asks first what the newest brings.
//!
//! Contract. A part is a history when three headings of one level or more name versions or days, and most follow in
//! order. The newest counts fully, each older one less. What stands before the first counts little, unless a heading
//! there says that it is still to come.
//!
//! See docs/adr/0134-marks-in-texts-and-histories.md.

use std::cmp::Ordering;

use super::super::lexicon::lexicon;
use super::super::text::words::fold;
use super::super::text::{Kind, Text, inline};

/// Headings from which on a part is a history.
const VERSIONS_MIN: usize = 3;
/// Numbers of a version that are compared.
const NUMBERS_MAX: usize = 4;
/// Factors by age; older ones have the last.
const FACTORS: [f64; 5] = [1.0, 0.5, 0.3, 0.2, 0.12];
/// Factor of what stands before the first version.
const BEFORE: f64 = 0.3;

/// A heading that names a version: its block, its level and its numbers.
struct Version {
    block: usize,
    level: u8,
    numbers: Vec<u32>,
}

/// The factor of each sentence, above 0 and at most 1.
pub(super) fn factors(text: &Text<'_>) -> Vec<f64> {
    let mut factors = vec![1.0; text.sentences.len()];
    let mut first = 0;
    for blocks in text.blocks.chunk_by(|one, other| one.part == other.part) {
        let blocks = first..first + blocks.len();
        first = blocks.end;
        let versions = versions_in(text, blocks.clone());
        let Some(newest_first) = order(&versions) else { continue };
        let mut age = None;
        for block in blocks {
            let begun = versions.iter().position(|version| version.block == block);
            age = match begun {
                Some(at) if newest_first => Some(at),
                Some(at) => Some(versions.len() - 1 - at),
                None if age.is_none() && newest_first && is_to_come(text, block) => Some(0),
                None => age,
            };
            let factor = match age {
                Some(age) => FACTORS[age.min(FACTORS.len() - 1)],
                None => BEFORE,
            };
            factors[text.blocks[block].sentences.clone()].fill(factor);
        }
    }
    factors
}

/// The headings of the level of the first that name versions.
fn versions_in(text: &Text<'_>, blocks: std::ops::Range<usize>) -> Vec<Version> {
    let mut versions: Vec<Version> = Vec::new();
    for block in blocks {
        let Kind::Heading(level) = text.blocks[block].kind else { continue };
        if versions.first().is_some_and(|first| first.level != level) {
            continue;
        }
        if let Some(numbers) = version_in(said(text, block)) {
            versions.push(Version { block, level, numbers });
        }
    }
    versions
}

fn said<'t>(text: &'t Text<'_>, block: usize) -> &'t str {
    let block = &text.blocks[block];
    &text.parts[block.part].text[block.text.clone()]
}

/// The numbers of a version or of a day that a heading names: `[1.2.0] - 2026-03-04`, `v2.1`, `Version 3.0`. The number
/// of a chapter is none: `1.2 Roofs`.
fn version_in(heading: &str) -> Option<Vec<u32>> {
    let heading = inline::unmarked(heading);
    let is_edge = |c: char| c.is_whitespace() || matches!(c, '(' | '[' | ']' | ')' | ',' | ':');
    let mut words = heading.split(is_edge).filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_name = first.len() > 1 && first.chars().all(char::is_alphabetic);
    let named = if is_name { words.next()? } else { first };
    let number = named.strip_prefix(['v', 'V']).unwrap_or(named);
    let behind: Vec<&str> = words.collect();
    let is_marked = is_name || number != named || heading.starts_with('[');
    if !is_marked
        && !behind.is_empty()
        && !behind.iter().any(|word| word.contains(|c: char| c.is_ascii_digit()))
    {
        return None;
    }
    let bare = number.split(['-', '+']).next().unwrap_or(number);
    if !bare.contains('.') {
        return day_in(number);
    }
    let numbers: Option<Vec<u32>> =
        bare.split('.').take(NUMBERS_MAX).map(|number| number.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() > 1)
}

/// `2026-03-04`.
fn day_in(word: &str) -> Option<Vec<u32>> {
    let numbers: Option<Vec<u32>> = word.split('-').map(|number| number.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == 3 && numbers[0] > 1900)
}

/// Whether the newest stands first; `None` where the versions are no history.
fn order(versions: &[Version]) -> Option<bool> {
    if versions.len() < VERSIONS_MIN {
        return None;
    }
    let pairs = versions.windows(2).map(|pair| pair[0].numbers.cmp(&pair[1].numbers));
    let (mut falls, mut rises) = (0, 0);
    pairs.for_each(|order| match order {
        Ordering::Greater => falls += 1,
        Ordering::Less => rises += 1,
        Ordering::Equal => {}
    });
    let most = (versions.len() - 1).div_ceil(2);
    match falls.cmp(&rises) {
        Ordering::Greater if falls >= most => Some(true),
        Ordering::Less if rises >= most => Some(false),
        _ => None,
    }
}

/// Whether a heading announces the version that comes next: `Unreleased`.
fn is_to_come(text: &Text<'_>, block: usize) -> bool {
    let is_heading = matches!(text.blocks[block].kind, Kind::Heading(_));
    is_heading && {
        let said = fold(&inline::unmarked(said(text, block)));
        let words = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.take(2).any(|word| lexicon().weight.upcoming.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Part;
    use super::*;

    fn factors_of(source: &str) -> Vec<(String, f64)> {
        let text = Text::new(vec![Part { id: "c", text: source }]);
        let factors = factors(&text);
        let each = factors.iter().enumerate();
        each.map(|(at, factor)| (text.sentence(at).to_owned(), *factor)).collect()
    }

    fn factor(source: &str, words: &str) -> f64 {
        let all = factors_of(source);
        all.iter()
            .find(|(said, _)| said.contains(words))
            .unwrap_or_else(|| panic!("{words}: {all:?}"))
            .1
    }

    #[test]
    fn the_newest_version_counts_most_wherever_it_stands() {
        let falling = "# Changes\n\nAll changes are listed here.\n\n## [Unreleased]\n\n- A map\n\n## [2.1.0] - 2026-03-04\n\n- A clock\n\n\
            ## [2.0.1] - 2026-01-02\n\n- A door\n\n## v1.9\n\n- A wall\n";
        assert_eq!(factor(falling, "A map"), FACTORS[0]);
        assert_eq!(factor(falling, "A clock"), FACTORS[0]);
        assert_eq!(factor(falling, "A door"), FACTORS[1]);
        assert_eq!(factor(falling, "A wall"), FACTORS[2]);
        assert_eq!(factor(falling, "All changes"), BEFORE);
        let rising = "## Version 1.0\n\n- A wall\n\n## Version 1.1\n\n- A door\n\n## Version 1.2\n\n- A clock\n";
        assert_eq!((factor(rising, "A wall"), factor(rising, "A clock")), (FACTORS[2], FACTORS[0]));
        let days = "# Diary\n\n## 2026-03-04\n\nThe roof.\n\n## 2026-03-02\n\nThe door.\n\n## 2026-02-28\n\nThe wall.\n";
        assert_eq!(factor(days, "The wall"), FACTORS[2]);
    }

    #[test]
    fn other_texts_count_alike() {
        for source in [
            "# Plan\n\n## 1.1 Roof\n\nIt leaks.\n\n## Walls\n\nThey stand.\n",
            "## 1.1 Roof\n\nA.\n\n## 1.2 Wall\n\nB.\n\n## 1.3 Door\n\nC.\n",
            "## 2.0\n\nA roof.\n\n## 1.0\n\nA wall.\n",
            "## 1. One\n\nA.\n\n## 2. Two\n\nB.\n\n## 3. Three\n\nC.\n",
        ] {
            assert!(factors_of(source).iter().all(|(_, factor)| *factor == 1.0), "{source}");
        }
    }
}
