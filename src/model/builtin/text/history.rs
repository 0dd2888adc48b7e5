//! The versions of a list of changes. A reader of such a list asks first what the newest brings.
//!
//! Contract. Headings of one level that name versions or days are a history when their days, or else their numbers, follow
//! in order. Two are enough where each has a number and a day. Numbers that rise may be those of chapters, so they need a
//! word or a mark for versions, and days alone that rise are a diary. A history lies between the headings of a higher
//! level around it: a section `Changelog` is the history of its own lines, and the rest of the text stays as it is. The
//! newest version has the age 0, and so has one that is still to come.
//!
//! See docs/adr/0134-marks-in-texts-and-histories.md.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use chrono::NaiveDate;

use super::super::lexicon::lexicon;
use super::logs::ENTRY_LEVEL;
use super::versions::{Named, version_in};
use super::words::fold;
use super::{Kind, Text, inline};

/// Headings from which on a part is a history, and those that are enough where each has a number and a day.
const VERSIONS_MIN: usize = 3;
const DATED_VERSIONS_MIN: usize = 2;
/// Words of a heading one of which may say that a version is still to come: `Version 4.next`.
const UPCOMING_WORDS: usize = 3;
/// Entries of a log for each step of age: a commit is less than a version.
const COMMITS_A_STEP: usize = 5;
const DAYS_A_STEP: usize = 3;

/// A version or a day of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    pub part: usize,
    /// Its blocks, the heading first.
    pub blocks: Range<usize>,
    /// 0 for the newest.
    pub age: usize,
    /// The words of the heading that name it; `None` for a commit.
    pub name: Option<Range<usize>>,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    /// In reading order.
    pub releases: Vec<Release>,
    /// Blocks around the releases, where these are most of their part.
    pub around: Vec<Range<usize>>,
}

/// A heading that may name a version.
struct Version {
    block: usize,
    level: u8,
    numbers: Vec<u32>,
    day: Option<NaiveDate>,
    name: Range<usize>,
    /// It is no number of a chapter: a word or a mark says so, or a day stands beside it.
    is_sure: bool,
}

impl Text<'_> {
    /// The releases of all parts, found on first use.
    pub(crate) fn history(&self) -> &History {
        self.history.get_or_init(|| History::of(self))
    }

    /// Whether a sentence stands around the versions that its text lists.
    pub(crate) fn is_around_history(&self, sentence: usize) -> bool {
        let (block, around) = (self.sentences[sentence].block, &self.history().around);
        let at = around.partition_point(|blocks| blocks.start <= block);
        at > 0 && around[at - 1].contains(&block)
    }

    /// The release that a sentence is about.
    pub(crate) fn release_of(&self, sentence: usize) -> Option<&Release> {
        let (block, releases) = (self.sentences[sentence].block, &self.history().releases);
        let at =
            releases.partition_point(|release| release.blocks.start <= block).checked_sub(1)?;
        Some(&releases[at]).filter(|release| release.blocks.contains(&block))
    }
}

impl History {
    fn of(text: &Text<'_>) -> History {
        let mut history = History::default();
        let mut first = 0;
        for blocks in text.blocks.chunk_by(|one, other| one.part == other.part) {
            let blocks = first..first + blocks.len();
            first = blocks.end;
            history.add_part(text, blocks);
        }
        history
    }

    fn add_part(&mut self, text: &Text<'_>, blocks: Range<usize>) {
        let versions = versions_in(text, blocks.clone());
        // `# Version 2` above `## Version 2.1` only gathers versions: the level with most of them counts.
        let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
        for version in &versions {
            *counts.entry(version.level).or_default() += 1;
        }
        let mut levels: Vec<u8> = counts.keys().copied().collect();
        levels.sort_by_key(|level| std::cmp::Reverse(counts[level]));
        let of_level = |level: &u8| -> Vec<&Version> {
            versions.iter().filter(|version| version.level == *level).collect()
        };
        let found =
            levels.iter().map(of_level).find_map(|versions| Some((ages(&versions)?, versions)));
        let Some((ages, versions)) = found else { return };
        let newest_first = ages[0] <= ages[ages.len() - 1];
        let releases = releases(text, &blocks, &versions, &ages, newest_first);
        let said = |range: Range<usize>| -> usize {
            let said = text.blocks[range].iter().filter(|block| is_said(block.kind));
            said.map(|block| block.text.len()).sum()
        };
        let inside: usize = releases.iter().map(|release| said(release.blocks.clone())).sum();
        if inside * 2 >= said(blocks.clone()) {
            let mut from = blocks.start;
            for release in &releases {
                self.around.push(from..release.blocks.start);
                from = release.blocks.end;
            }
            self.around.push(from..blocks.end);
        }
        self.releases.extend(releases);
    }
}

fn is_said(kind: Kind) -> bool {
    matches!(kind, Kind::Paragraph | Kind::Item)
}

/// The releases of a part, each up to the next one or to the end of its section.
fn releases(
    text: &Text<'_>,
    blocks: &Range<usize>,
    versions: &[&Version],
    ages: &[usize],
    newest_first: bool,
) -> Vec<Release> {
    let (level, part) = (versions[0].level, text.blocks[blocks.start].part);
    let mut releases: Vec<Release> = Vec::new();
    let mut open = false;
    for at in blocks.clone() {
        let Kind::Heading(own) = text.blocks[at].kind else {
            continue;
        };
        let version = versions.binary_search_by_key(&at, |version| version.block).ok();
        let is_beside = releases.is_empty() == newest_first;
        let is_to_come = version.is_none() && is_beside && own == level && is_to_come(text, at);
        let ends = version.is_some() || is_to_come || own < level;
        if open
            && ends
            && let Some(last) = releases.last_mut()
        {
            last.blocks.end = at;
        }
        open = open && !ends || version.is_some() || is_to_come;
        let entry = version.map(|version| (ages[version], Some(versions[version].name.clone())));
        let entry = entry.or_else(|| is_to_come.then(|| (0, Some(first_word(text, at)))));
        if let Some((age, name)) = entry {
            let name = name.filter(|_| level != ENTRY_LEVEL || !is_commit(said(text, at)));
            releases.push(Release { part, blocks: at..blocks.end, age, name });
        }
    }
    releases
}

/// The headings that name versions or days.
fn versions_in(text: &Text<'_>, blocks: Range<usize>) -> Vec<Version> {
    let headings = blocks.filter_map(|block| match text.blocks[block].kind {
        Kind::Heading(level) => Some((block, level)),
        _ => None,
    });
    let version = |(block, level): (usize, u8)| {
        let range = text.blocks[block].text.clone();
        if level == ENTRY_LEVEL {
            let numbers = Vec::new();
            return Some(Version { block, level, numbers, day: None, name: range, is_sure: true });
        }
        let Named { numbers, name, day, is_sure } = version_in(said(text, block))?;
        let name = range.start + name.start..range.start + name.end;
        Some(Version { block, level, numbers, day, name, is_sure })
    };
    headings.filter_map(version).collect()
}

fn said<'t>(text: &'t Text<'_>, block: usize) -> &'t str {
    let block = &text.blocks[block];
    &text.parts[block.part].text[block.text.clone()]
}

/// Where the first word of a heading stands.
fn first_word(text: &Text<'_>, block: usize) -> Range<usize> {
    let (heading, from) = (said(text, block), text.blocks[block].text.start);
    let start = heading.find(char::is_alphanumeric).unwrap_or(0);
    let length = heading[start..].find(|c: char| !c.is_alphanumeric());
    from + start..from + length.map_or(heading.len(), |length| start + length)
}

fn is_commit(heading: &str) -> bool {
    heading.starts_with("commit ")
}

/// The age of each version; `None` where they are no history.
fn ages(versions: &[&Version]) -> Option<Vec<usize>> {
    let count = versions.len();
    let is_log = versions[0].level == ENTRY_LEVEL;
    let is_dated = versions.iter().all(|one| one.day.is_some());
    let is_numbered = versions.iter().all(|one| !one.numbers.is_empty());
    let least = if is_log {
        1
    } else if is_dated && is_numbered {
        DATED_VERSIONS_MIN
    } else {
        VERSIONS_MIN
    };
    if count < least {
        return None;
    }
    if is_log {
        return Some((0..count).collect());
    }
    let (mut falls, mut rises) = (0, 0);
    for pair in versions.windows(2) {
        match order(pair[0], pair[1]) {
            Ordering::Greater => falls += 1,
            Ordering::Less => rises += 1,
            Ordering::Equal => {}
        }
    }
    let most = (count - 1).div_ceil(2);
    let is_sure = versions.iter().filter(|one| one.is_sure).count() * 2 > count;
    let is_diary = !is_numbered && rises > 0;
    match falls.cmp(&rises) {
        Ordering::Greater if falls >= most && !is_diary => Some((0..count).collect()),
        Ordering::Less if rises >= most && !is_diary && is_sure => Some((0..count).rev().collect()),
        // Several lines of versions beside one another: the days tell.
        _ if is_dated && is_numbered => Some(by_day(versions)),
        _ => None,
    }
}

/// The order of two versions: by their days, else by their numbers.
fn order(one: &Version, other: &Version) -> Ordering {
    match (one.day, other.day) {
        (Some(day), Some(later)) if day != later => day.cmp(&later),
        _ => one.numbers.cmp(&other.numbers),
    }
}

/// The place of each version among all by their days, the newest first.
fn by_day(versions: &[&Version]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..versions.len()).collect();
    places.sort_by_key(|at| std::cmp::Reverse(versions[*at].day));
    let mut ages = vec![0; places.len()];
    places.into_iter().enumerate().for_each(|(age, at)| ages[at] = age);
    ages
}

/// Whether a heading announces the version that comes next: `Unreleased`.
fn is_to_come(text: &Text<'_>, block: usize) -> bool {
    let said = fold(&inline::unmarked(said(text, block)));
    let words = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(UPCOMING_WORDS).any(|word| lexicon().weight.upcoming.contains(word))
}

/// The steps of age of an entry: several small ones are one step.
pub(crate) fn steps(text: &Text<'_>, release: &Release) -> usize {
    let block = &text.blocks[release.blocks.start];
    match block.kind {
        Kind::Heading(ENTRY_LEVEL) if is_commit(said(text, release.blocks.start)) => {
            release.age / COMMITS_A_STEP
        }
        Kind::Heading(ENTRY_LEVEL) if said(text, release.blocks.start).ends_with(')') => {
            release.age
        }
        Kind::Heading(ENTRY_LEVEL) => release.age / DAYS_A_STEP,
        _ => release.age,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;

    /// The age of the release in which words stand; `None` outside.
    fn age(source: &str, words: &str) -> Option<usize> {
        let text = Text::new(vec![Part { id: "c", text: source }]);
        let at = (0..text.sentences.len()).find(|at| text.sentence(*at).contains(words));
        let at = at.unwrap_or_else(|| panic!("{words}"));
        text.release_of(at).map(|release| release.age)
    }

    fn names(source: &str) -> Vec<String> {
        let text = Text::new(vec![Part { id: "c", text: source }]);
        let names = text.history().releases.iter().filter_map(|one| one.name.clone());
        names.map(|name| source[name].to_owned()).collect()
    }

    #[test]
    fn the_newest_version_has_age_zero_wherever_it_stands() {
        let falling = "# Changes\n\nAll changes are listed here.\n\n## [Unreleased]\n\n- A map\n\n## [2.1.0] - 2026-03-04\n\n- A clock\n\n\
            ## [2.0.1] - 2026-01-02\n\n- A door\n\n## v1.9\n\n- A wall\n";
        assert_eq!(age(falling, "A map"), Some(0));
        assert_eq!(age(falling, "A clock"), Some(0));
        assert_eq!(age(falling, "A door"), Some(1));
        assert_eq!(age(falling, "A wall"), Some(2));
        assert_eq!(age(falling, "All changes"), None);
        assert_eq!(names(falling), ["Unreleased", "2.1.0", "2.0.1", "v1.9"]);
        let rising = "## Version 1.0\n\n- A wall\n\n## Version 1.1\n\n- A door\n\n## Version 1.2\n\n- A clock\n";
        assert_eq!((age(rising, "A wall"), age(rising, "A clock")), (Some(2), Some(0)));
        assert_eq!(names(rising)[2], "Version 1.2");
        let days = "# Log\n\n## 2026-03-04\n\nThe roof.\n\n## 2026-03-02\n\nThe door.\n\n## 2026-02-28\n\nThe wall.\n";
        assert_eq!(age(days, "The wall"), Some(2));
        // An older line of versions goes on beside the newest.
        let beside = "## 2.0.0 (2026-03-01)\n\nA map.\n\n## 1.9.4 (2026-03-09)\n\nA door.\n\n## 1.9.3 (2026-01-09)\n\nA wall.\n";
        assert_eq!((age(beside, "A door"), age(beside, "A map")), (Some(0), Some(1)));
        let two = "## 1.1.0 (2026-03-01)\n\nA map.\n\n## 1.0.0 (2026-01-09)\n\nA wall.\n";
        assert_eq!(age(two, "A wall"), Some(1));
    }

    #[test]
    fn headings_in_words_name_versions() {
        let source = "Version 7.2 (20 Feb 2026)\n=====\n\nA map.\n\nChanges in release 7.1\n=====\n\nA door.\n\n\
            What's new in 7.0\n=====\n\nA wall.\n";
        assert_eq!(names(source), ["Version 7.2", "7.1", "7.0"]);
        let bare = "CHANGES WITH 9:\n\nA map.\n\nCHANGES WITH 8:\n\nA door.\n\nCHANGES WITH 7:\n\nA wall.\n";
        assert_eq!(names(bare), ["9", "8", "7"]);
    }

    #[test]
    fn logs_of_programs_are_histories() {
        let debian = "tool (1.2-3) unstable; urgency=medium\n\n  * Fix the clock.\n\n -- Ana Ruiz <a@b.example>  Tue, 07 Oct 2025 14:22:08 +0200\n\n\
            tool (1.2-2) unstable; urgency=low\n\n  * Add a door.\n";
        assert_eq!((age(debian, "clock"), age(debian, "door")), (Some(0), Some(1)));
        assert_eq!(names(debian), ["tool (1.2-3)", "tool (1.2-2)"]);
        let git = "commit 1a2b3c4d5e\nAuthor: Ana <a@b.example>\nDate:   Mon Mar 2 10:00:00 2026 +0100\n\n    Fix the clock\n\n\
            commit 2a2b3c4d5e\nAuthor: Ana <a@b.example>\nDate:   Sun Mar 1 10:00:00 2026 +0100\n\n    Add a door\n";
        assert_eq!((age(git, "clock"), age(git, "door")), (Some(0), Some(1)));
        assert!(names(git).is_empty());
        let gnu = "2026-03-04  Ana Ruiz  <a@b.example>\n\n\t* clock.c (tick): Fix the clock.\n\n2026-03-01  Ana Ruiz  <a@b.example>\n\n\
            \t* door.c: Add a door.\n";
        assert_eq!((age(gnu, "clock"), age(gnu, "door")), (Some(0), Some(1)));
    }

    #[test]
    fn a_history_stays_within_its_section() {
        let source = "# Roof\n\nRoof counts tiles and says which of them are broken, so that nobody has to climb. It runs on every \
            telephone and needs no network.\n\n## Changelog\n\n### 1.2.0\n\n- A map\n\n### 1.1.0\n\n- A door\n\n### 1.0.0\n\n- A wall\n\n\
            ## Support\n\nWrite to Ana.\n";
        assert_eq!(age(source, "A wall"), Some(2));
        assert_eq!((age(source, "Roof counts"), age(source, "Write to")), (None, None));
        let text = Text::new(vec![Part { id: "c", text: source }]);
        assert!(text.history().around.is_empty());
    }

    #[test]
    fn the_level_with_most_versions_counts() {
        let source = "# Version 2\n\n## Version 2.1\n\nA map.\n\n## Version 2.0\n\nA door.\n\n# Version 1\n\n## Version 1.1\n\nA wall.\n\n\
            # Version 0\n\n## Version 0.1\n\nA hut.\n";
        assert_eq!(names(source), ["Version 2.1", "Version 2.0", "Version 1.1", "Version 0.1"]);
    }

    #[test]
    fn other_texts_have_no_history() {
        for source in [
            "# Plan\n\n## 1.1 Roof\n\nIt leaks.\n\n## Walls\n\nThey stand.\n",
            "## 1.1 Roof\n\nA.\n\n## 1.2 Wall\n\nB.\n\n## 1.3 Door\n\nC.\n",
            "## Chapter 1.1\n\nA.\n\n## Chapter 1.2\n\nB.\n\n## Chapter 1.3\n\nC.\n",
            "## 2.0\n\nA roof.\n\n## 1.0\n\nA wall.\n",
            "## Release 1\n\nA.\n\n## Release 2\n\nB.\n\n## Release 3\n\nC.\n",
            "## 1. One\n\nA.\n\n## 2. Two\n\nB.\n\n## 3. Three\n\nC.\n",
            "# Trip\n\n## 2026-03-04\n\nThe sea.\n\n## 2026-03-05\n\nA hill.\n\n## 2026-03-06\n\nHome.\n",
        ] {
            let text = Text::new(vec![Part { id: "c", text: source }]);
            assert!(text.history().releases.is_empty(), "{source}");
        }
    }
}
