//! Ids in square brackets in a text: `The pump is old [chk_3].`
//!
//! Contract. Brackets of links, footnotes, boxes of tasks and code are no citations. In the others, a word that has
//! the form of an id and is not known is taken out; a bracket that names no other id goes with it. Words of
//! other forms stay, and so does a bracket that the caller knows from a source.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Longest content of a bracket that is looked at, in bytes.
pub(super) const BRACKET_BYTES_MAX: usize = 400;
/// Most commas and semicolons in one id.
const SIGNS_MAX: usize = 8;
/// Most digits of a number that may stand for a source. A year has more.
const NUMBER_DIGITS_MAX: usize = 3;

/// What is known of ids.
pub(super) struct Citations<'a> {
    /// The ids that a word stands for, if it stands for any.
    pub known: &'a dyn Fn(&str) -> Option<Named>,
    /// Whether a source has this bracket.
    pub is_quoted: &'a dyn Fn(&str) -> bool,
    /// The forms of the ids of the sources, as [`shape`] gives them.
    pub shapes: BTreeSet<String>,
}

/// The ids that a word stands for.
#[derive(Debug, PartialEq)]
pub(super) enum Named {
    /// It is an id, of a source or of a condensed text.
    By(Vec<String>),
    /// It is the label of a prompt.
    Label(Vec<String>),
}

/// A text that was cleaned.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Cleaned {
    pub text: String,
    /// The ids that were taken out.
    pub unknown: Vec<String>,
    /// The labels that ids replaced.
    pub labels: Vec<(String, Vec<String>)>,
}

/// The form of an id: letters and signs stay, and each number is a `0`.
pub(super) fn shape(id: &str) -> String {
    let mut shape = String::with_capacity(id.len());
    for c in id.chars() {
        match c.is_ascii_digit() {
            true if shape.ends_with('0') => {}
            true => shape.push('0'),
            false => shape.push(c),
        }
    }
    shape
}

/// A text without the backslashes that Markdown puts before signs: `chk\\_9` is `chk_9`.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    match text.contains('\\') {
        false => Cow::Borrowed(text),
        true => Cow::Owned(bare_chars(text).map(|(_, c)| c).collect()),
    }
}

/// The characters of a text without those backslashes, each with the place where it begins.
pub(super) fn bare_chars(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (at, c) = chars.next()?;
        let escapes =
            c == '\\' && chars.peek().is_some_and(|(_, sign)| sign.is_ascii_punctuation());
        match escapes {
            true => chars.next().map(|(_, sign)| (at, sign)),
            false => Some((at, c)),
        }
    })
}

/// The words of a bracket, with commas or semicolons between them. An id may have such signs too: one that is known
/// is one word, and so is an unknown one, where no blank and no other id stands behind the sign.
pub(super) fn words<'t>(
    content: &'t str,
    is_known: &dyn Fn(&str) -> bool,
    is_id: &dyn Fn(&str) -> bool,
) -> Vec<&'t str> {
    let mut ends: Vec<usize> = content.match_indices([',', ';']).map(|(at, _)| at).collect();
    ends.push(content.len());
    let (mut words, mut start, mut next) = (Vec::new(), 0, 0);
    while next < ends.len() {
        let until = ends.len().min(next + SIGNS_MAX);
        let known = (next..until).rev().find(|at| is_known(content[start..ends[*at]].trim()));
        let goes_on = |at: &usize| {
            let part = &content[ends[*at - 1] + 1..ends[*at]];
            let is_bare = !part.is_empty() && !part.contains(char::is_whitespace);
            is_bare && !is_id(part) && is_id(content[start..ends[next]].trim())
        };
        let last = known.unwrap_or_else(|| next + (next + 1..until).take_while(goes_on).count());
        words.push(content[start..ends[last]].trim());
        (start, next) = (ends[last] + 1, last + 1);
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A bracket of a line: where it begins and ends, and its content.
struct Bracket<'t> {
    start: usize,
    end: usize,
    content: &'t str,
    is_escaped: bool,
}

impl Citations<'_> {
    /// The text with labels replaced by their ids and without unknown ids, and what was changed.
    pub(super) fn clean(&self, text: &str) -> Cleaned {
        let mut clean = Cleaned { text: String::with_capacity(text.len()), ..Cleaned::default() };
        let mut fence: Option<&str> = None;
        for line in text.split_inclusive('\n') {
            let bare = line.trim_start();
            let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
            match (fence, mark) {
                (Some(open), Some(mark)) if open == mark => fence = None,
                (None, Some(mark)) => fence = Some(mark),
                (None, None) => {
                    self.line(line, &mut clean);
                    continue;
                }
                _ => {}
            }
            clean.text.push_str(line);
        }
        clean
    }

    fn line(&self, line: &str, clean: &mut Cleaned) {
        let mut rest = line;
        while let Some(bracket) = next_bracket(rest) {
            let (before, after) = (&rest[..bracket.start], &rest[bracket.end..]);
            clean.text.push_str(before);
            let is_citation = !is_other(line.len() - rest.len() + bracket.start, line, after);
            let cited = is_citation.then(|| self.bracket(&bracket, clean)).flatten();
            match cited {
                None => clean.text.push_str(&rest[bracket.start..bracket.end]),
                Some(ids) if ids.is_empty() => {
                    if clean.text.ends_with(' ') && !before.trim().is_empty() {
                        clean.text.pop();
                    }
                }
                Some(ids) => {
                    let ids = ids.join(", ");
                    match bracket.is_escaped {
                        true => clean.text.push_str(&format!("\\[{ids}\\]")),
                        false => clean.text.push_str(&format!("[{ids}]")),
                    }
                }
            }
            rest = after;
        }
        clean.text.push_str(rest);
    }

    /// The ids that stay in a bracket; `None` when the bracket stays as it is.
    fn bracket(&self, bracket: &Bracket<'_>, clean: &mut Cleaned) -> Option<Vec<String>> {
        let known = |word: &str| (self.known)(word).or_else(|| (self.known)(&unescaped(word)));
        let is_known = |word: &str| matches!(known(word), Some(Named::By(_)));
        let is_id = |word: &str| known(word).is_some() || self.looks_like_id(&unescaped(word));
        let (mut ids, mut wrong, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for word in words(bracket.content, &is_known, &is_id) {
            let named = known(word);
            // A writer of Markdown escapes the signs of an id.
            let word = unescaped(word).into_owned();
            match named {
                Some(Named::By(known)) => ids.extend(known),
                Some(Named::Label(known)) => {
                    labels.push((word, known.clone()));
                    ids.extend(known);
                }
                None if self.looks_like_id(&word) => wrong.push(word),
                None => return None,
            }
        }
        if wrong.is_empty() && ids.is_empty() || (self.is_quoted)(bracket.content) {
            return None;
        }
        clean.unknown.extend(wrong);
        clean.labels.extend(labels);
        let mut seen = BTreeSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        Some(ids)
    }

    fn looks_like_id(&self, word: &str) -> bool {
        if word.contains(char::is_whitespace) {
            return false;
        }
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            return word.len() <= NUMBER_DIGITS_MAX;
        }
        let joins = |sign: char| {
            word.split_once(sign).is_some_and(|(before, after)| {
                before.contains(char::is_alphabetic) && after.contains(char::is_alphanumeric)
            })
        };
        ['_', ':', '#'].into_iter().any(joins) || self.shapes.contains(&shape(word))
    }
}

/// The next bracket of a line outside a code span.
fn next_bracket(line: &str) -> Option<Bracket<'_>> {
    let mut start = None;
    let (mut in_code, mut is_escaped) = (false, false);
    for (at, c) in line.char_indices() {
        let escaped = line[..at].ends_with('\\');
        match c {
            '`' if !escaped => in_code = !in_code,
            '[' if !in_code => {
                start = Some(at - usize::from(escaped));
                is_escaped = escaped;
            }
            ']' if !in_code && escaped == is_escaped => {
                let Some(start) = start.take() else { continue };
                let from = start + 1 + usize::from(is_escaped);
                let content = &line[from..at - usize::from(is_escaped)];
                if content.len() <= BRACKET_BYTES_MAX {
                    return Some(Bracket { start, end: at + 1, content, is_escaped });
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the bracket at this place of a line is part of a link, a picture, a footnote or a task.
fn is_other(at: usize, line: &str, after: &str) -> bool {
    let before = &line[..at];
    let content = line[at..].trim_start_matches(['\\', '[']);
    let is_task = matches!(before.trim(), "-" | "*" | "+");
    let mut box_of_task = content.chars();
    box_of_task.next();
    let is_box = box_of_task.as_str().trim_start_matches('\\').starts_with(']');
    before.ends_with(['!', ']'])
        || after.starts_with(['(', '['])
        || (after.starts_with(':') && before.trim().is_empty())
        || content.starts_with('^')
        || is_task && is_box
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> (String, Vec<String>) {
        let known = |word: &str| match word {
            "chk_1" | "other:a.txt" | "other:b,c;d.md" => Some(Named::By(vec![word.to_owned()])),
            "n0_0" => Some(Named::By(vec!["chk_1".to_owned(), "chk_2".to_owned()])),
            "2" => Some(Named::Label(vec!["chk_2".to_owned()])),
            _ => None,
        };
        let is_quoted = |content: &str| content == "17";
        let shapes = BTreeSet::from([shape("chk_1"), shape("c1")]);
        let clean = Citations { known: &known, is_quoted: &is_quoted, shapes }.clean(text);
        assert!(
            clean.labels.iter().all(|(label, ids)| label == "2" && ids == &["chk_2"]),
            "{text}"
        );
        (clean.text, clean.unknown)
    }

    #[test]
    fn known_ids_stay_labels_become_ids_and_unknown_ids_go() {
        for (text, expected, gone) in [
            ("A [chk_1]. B.", "A [chk_1]. B.", &[][..]),
            ("A [2].", "A [chk_2].", &[]),
            ("A [n0_0].", "A [chk_1, chk_2].", &[]),
            ("A \\[2\\].", "A \\[chk_2\\].", &[]),
            ("A [chk_9]. B.", "A. B.", &["chk_9"]),
            ("A \\[chk\\_9\\]. B.", "A. B.", &["chk_9"]),
            ("A [chk_1; evt_7, 2].", "A [chk_1, chk_2].", &["evt_7"]),
            ("A [9] and [c44].", "A and.", &["9", "c44"]),
            ("[chk_9] A", " A", &["chk_9"]),
            ("A [other:b,c;d.md].", "A [other:b,c;d.md].", &[]),
            ("A [chk_1, other:b,c;d.md;2].", "A [chk_1, other:b,c;d.md, chk_2].", &[]),
            ("A [other:x,y.md,chk_1,evt_7].", "A [chk_1].", &["other:x,y.md", "evt_7"]),
            ("A \\[other\\:b\\,c;d\\.md, chk\\_9\\].", "A \\[other:b,c;d.md\\].", &["chk_9"]),
        ] {
            let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
            assert_eq!(clean(text), (expected.to_owned(), gone), "{text}");
        }
    }

    #[test]
    fn other_brackets_stay() {
        for text in [
            "See [the page](https://example.org) and ![chk_9](x.png) and [a][chk_9].",
            "[chk_9]: https://example.org",
            "- [x] done\n- [ ] todo",
            "As in [17], in [2026], [sic], [see chk_9], [10:30], [C#] and [Ana Ruiz].",
            "A note[^1].",
            "`a[chk_9]`",
            "```\na[chk_9]\n```\n",
            "Open [ and ] closed",
        ] {
            assert_eq!(clean(text), (text.to_owned(), Vec::new()), "{text}");
        }
    }
}
