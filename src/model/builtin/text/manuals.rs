//! Manual pages as a terminal shows them: `LS(1) User Commands LS(1)`, headings at the margin, words below them.
//!
//! Contract: pure. A page says in its first line what it is, at both ends. Each line is then known by how far it is
//! indented: a heading is not, or by less than words are; the label of an item has deeper lines below it.

use std::ops::Range;

use super::lines;

/// Lines at the beginning in which the first line of words is looked for.
const HEAD_LINES_MAX: usize = 12;
/// How much deeper the words of an item stand than its label.
const ITEM_INDENT: usize = 7;
/// The section that shows how the program is called.
const CALLS: usize = 2;

/// A manual page: how far its words are indented.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manual {
    indent: usize,
}

/// What a line of a manual page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// The first or the last line of the page.
    Frame,
    Heading(u8),
    /// The first line of an item.
    Item,
    /// Words that go on.
    Words,
    Code,
}

/// The manual page that a text is.
pub(super) fn manual_of(source: &str) -> Option<Manual> {
    let mut said = source.lines().filter(|line| !line.trim().is_empty()).take(HEAD_LINES_MAX);
    if !said.next().is_some_and(is_frame) || said.next().is_none_or(|line| lines::indent(line) > 0)
    {
        return None;
    }
    let indent = said.map(lines::indent).find(|indent| *indent > 0)?;
    Some(Manual { indent })
}

/// Whether a line has the name of a page and its section at both ends: `LS(1) User Commands LS(1)`.
fn is_frame(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_name = |word: &str| {
        let open = word.find('(').filter(|at| *at > 0);
        let section = open.and_then(|at| word[at + 1..].strip_suffix(')'));
        section.is_some_and(|section| section.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    let (first, last) = (words.next(), words.next_back());
    first.is_some_and(is_name) && first == last
}

impl Manual {
    /// What a line with words is, in this section and before the next line.
    pub(super) fn line(self, line: &str, next: Option<&str>, section: usize) -> Line {
        let indent = lines::indent(line);
        let said = line.trim();
        // The last line ends in the name that the first one has.
        let ends_page = indent == 0 && said.ends_with(')') && said.contains("   ");
        if ends_page || is_frame(line) {
            return Line::Frame;
        }
        if indent < self.indent {
            return Line::Heading(if indent == 0 { 1 } else { 2 });
        }
        if section == CALLS {
            return Line::Code;
        }
        let below = next.filter(|next| !next.trim().is_empty()).map_or(0, lines::indent);
        let has_words_behind = || {
            let words = line.get(indent + ITEM_INDENT..).unwrap_or_default();
            let label = line.get(indent..indent + ITEM_INDENT).unwrap_or_default();
            label.ends_with("  ") && words.starts_with(|c: char| !c.is_whitespace())
        };
        match () {
            () if indent == self.indent && (below > indent || has_words_behind()) => Line::Item,
            () if indent > self.indent && is_command(said) => Line::Code,
            () => Line::Words,
        }
    }
}

/// Whether words are what somebody types: `$ ls -l`.
fn is_command(said: &str) -> bool {
    ["$ ", "# ", "% "].iter().any(|sign| said.starts_with(sign))
}

/// The label of an option, which stands on a line above what the option does.
pub(crate) fn option_label(said: &str) -> Option<Range<usize>> {
    let (label, words) = said.split_once('\n')?;
    let is_option = label.starts_with('-') && words.starts_with([' ', '\t']);
    is_option.then(|| 0..label.trim_end().len())
}

/// Whether an item is an option that every program has: one that shows a help or the version.
pub(crate) fn is_usual_option(item: &str) -> bool {
    const USUAL: [&str; 2] = ["--help", "--version"];
    let label = item.split(['\n', ':']).next().unwrap_or(item);
    label.starts_with('-')
        && label.split([' ', ',', '/']).any(|word| USUAL.contains(&word.trim_matches('`')))
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Part, Text};
    use super::*;

    const PAGE: &str = "TIDY(1)                 User Commands                 TIDY(1)

NAME
       tidy - removes old files

SYNOPSIS
       tidy [OPTION]... FOLDER

DESCRIPTION
       Removes files that nobody opened for 90 days, and prints the
       name of each of them.

OPTIONS
       -n, --dry-run
              Print the names only.

       -h, --help
              Print a help.

EXIT STATUS
       0      Nothing is left.

       2      A folder could not
              be read.

tidy 2.0                   March 2026                     TIDY(1)
";

    #[test]
    fn headings_items_and_calls_of_a_manual_page_are_told_apart() {
        let text = Text::new(vec![Part { id: "m", text: PAGE }]);
        let of = |kind: Kind| -> Vec<&str> {
            let blocks = text.blocks.iter().filter(|block| block.kind == kind);
            blocks.map(|block| &PAGE[block.text.clone()]).collect()
        };
        assert_eq!(
            of(Kind::Heading(1)),
            ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS"]
        );
        assert_eq!(of(Kind::Paragraph).len(), 2, "{:?}", of(Kind::Paragraph));
        assert_eq!(of(Kind::Code), ["tidy [OPTION]... FOLDER"]);
        let items = of(Kind::Item);
        assert_eq!(items.len(), 4, "{items:?}");
        assert!(items[0].starts_with("-n, --dry-run\n") && items[3].ends_with("be read."));
        assert_eq!(option_label(items[0]), Some(0..13));
        assert_eq!(option_label(items[3]), None);
        assert!(is_usual_option(items[1]) && !is_usual_option(items[0]));
        assert_eq!(of(Kind::Signature).len(), 2);
    }

    #[test]
    fn a_text_that_only_names_a_page_is_none() {
        for source in [
            "TIDY(1) removes files.\n\nIt is old.\n",
            "Read TIDY(1) first, then TIDY(1)\n\nNAME\n    x\n",
            "",
        ] {
            assert!(manual_of(source).is_none(), "{source}");
        }
    }
}
