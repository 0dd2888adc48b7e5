//! Foreign text made safe to print: on a terminal it moves and colours nothing.

use std::io::IsTerminal;

use crate::contract::shown::named;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::markup::prefix;
use crate::model::builtin::rank::select::begun_otherwise;
use crate::model::builtin::text::inline::unmarked;

/// Lines longer than this are hard to read, however wide the terminal is.
const COLUMNS_MAX: usize = 92;
/// Bytes of a quote by which it is found in a text.
const QUOTE_BYTES: usize = 60;
/// A narrower terminal wraps by itself.
const COLUMNS_MIN: usize = 30;

/// The columns of a line on a terminal. `None` when it is a pipe or a file, which gets whole lines.
pub(super) fn columns(stream: &impl IsTerminal) -> Option<usize> {
    stream.is_terminal().then(|| {
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        width.clamp(COLUMNS_MIN, COLUMNS_MAX)
    })
}

/// A colour or weight of words. In a line it is one character that is no text, until the line is
/// written: so a foreign text can never bring a code of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

/// Ends a style.
const END: char = '\u{fdd0}';

impl Style {
    const ALL: [(Style, char, &str); 5] = [
        (Style::Bold, '\u{fdd1}', "\u{1b}[1m"),
        (Style::Dim, '\u{fdd2}', "\u{1b}[2m"),
        (Style::Red, '\u{fdd3}', "\u{1b}[31m"),
        (Style::Green, '\u{fdd4}', "\u{1b}[32m"),
        (Style::Yellow, '\u{fdd5}', "\u{1b}[33m"),
    ];

    pub(super) fn of(self, text: &str) -> String {
        let mark = Style::ALL.iter().find(|(style, ..)| *style == self);
        format!("{}{text}{END}", mark.map_or(END, |(_, mark, _)| *mark))
    }
}

fn is_style(c: char) -> bool {
    c == END || Style::ALL.iter().any(|(_, mark, _)| *mark == c)
}

/// A line for a terminal: with the codes of its styles, and with names in the place of other characters that steer.
pub(super) fn written(line: &str) -> String {
    let mut text = String::with_capacity(line.len() + 8);
    for part in line.split_inclusive(is_style) {
        let mark = part.chars().next_back().filter(|c| is_style(*c));
        text.push_str(&named(part.trim_end_matches(is_style)));
        let code = mark.map(|mark| Style::ALL.iter().find(|(_, style, _)| *style == mark));
        text.push_str(code.map_or("", |style| style.map_or("\u{1b}[0m", |(.., code)| code)));
    }
    text
}

/// The same line without its styles.
pub(super) fn without_styles(line: &str) -> String {
    named(&line.replace(is_style, "")).into_owned()
}

/// Characters that some readers take as the end of a line.
pub(super) fn ends_line(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The columns that a text takes on a terminal. Styles and codes of colours take none.
pub(super) fn width(text: &str) -> usize {
    let mut in_code = false;
    let shown = text.chars().filter(|c| {
        let hidden = in_code || *c == '\u{1b}';
        in_code = hidden && !(in_code && c.is_ascii_alphabetic());
        !hidden && !is_style(*c)
    });
    named(&shown.collect::<String>()).width()
}

/// One paragraph; `first` stands before its first line and `hang` before the others.
pub(super) fn wrapped(text: &str, columns: usize, first: &str, hang: &str) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), first.to_owned(), width(first));
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let wide = width(word);
        if !is_empty && used + 1 + wide > columns {
            lines.push(std::mem::replace(&mut line, hang.to_owned()));
            (used, is_empty) = (width(hang), true);
        }
        if !is_empty {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += wide;
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// The columns of the longest label before a value.
const LABEL_MAX: usize = 20;

/// The labels at the beginning of a line, with the spaces behind them that align its value.
fn label_of(line: &str) -> Option<&str> {
    let ends = line.match_indices("  ").map(|(at, _)| {
        let rest = line[at..].trim_start_matches(' ');
        &line[..line.len() - rest.len()]
    });
    ends.filter(|label| width(label) <= LABEL_MAX && label.len() < line.len()).last()
}

/// The same text with every line that is too long wrapped; what follows hangs below it.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        if width(line) <= columns {
            lines.push(line.to_owned());
            continue;
        }
        let start = line.trim_start();
        let indent = &line[..line.len() - start.len()];
        // A long word of the value has room only below the label.
        let has_room = |label: &&str| {
            let mut words = start[label.len()..].split_whitespace();
            words.all(|word| width(indent) + width(label) + width(word) <= columns)
        };
        match label_of(start).filter(has_room) {
            Some(label) => {
                let first = format!("{indent}{label}");
                let hang = " ".repeat(width(&first));
                lines.extend(wrapped(&start[label.len()..], columns, &first, &hang));
            }
            None => lines.extend(wrapped(start, columns, indent, &format!("{indent}  "))),
        }
    }
    lines.join("\n")
}

/// The text with names in the place of characters that move the cursor, change colours or turn the direction of writing.
pub(super) fn plain(text: &str) -> String {
    // No text brings styles of its own.
    named(&text.replace(is_style, "").replace(ends_line, "\n")).into_owned()
}

/// The same on one line.
pub(super) fn plain_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first words, with a mark where some are left out.
pub(super) fn shortened(text: &str, columns: usize) -> String {
    let text = plain_line(text);
    if text.width() <= columns {
        return text;
    }
    let mut used = 0;
    let fits = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used < columns
    });
    let cut: String = fits.collect();
    let end = cut.rfind(' ').filter(|end| *end > cut.len() / 2).unwrap_or(cut.len());
    format!("{}…", &cut[..end])
}

/// The end of a line that fits into so many columns.
pub(super) fn end_of(text: &str, columns: usize) -> String {
    let mut used = 1;
    let fits = text.chars().rev().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= columns
    });
    let kept: Vec<char> = fits.collect();
    format!("…{}", kept.into_iter().rev().collect::<String>())
}

/// A text with single spaces.
pub(super) fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a text says a quote, or its beginning where it was cut.
pub(super) fn shows(text: &str, quote: &str) -> bool {
    let quote = squeezed(&unmarked(quote));
    let start = prefix(&quote, QUOTE_BYTES).trim_end_matches(['.', '…']);
    let otherwise = || begun_otherwise(start).is_some_and(|start| text.contains(&start));
    !start.is_empty() && (text.contains(start) || otherwise())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_named_before_printing() {
        let text = "a\u{1b}[2Jb\u{9b}c\u{202e}d\r\u{2028}e\u{fdd1}";
        assert_eq!(plain(text), "a(U+001B)[2Jb(U+009B)c(U+202E)d\ne");
        let line = format!("{} \u{7}\u{202e}b", Style::Red.of("a\u{1b}[32m"));
        let shown = "a(U+001B)[32m\u{1b}[0m (U+0007)(U+202E)b";
        assert_eq!(written(&line), format!("\u{1b}[31m{shown}"));
        assert_eq!(without_styles(&line), shown.replace("\u{1b}[0m", ""));
        assert_eq!(width(&Style::Red.of("a\u{202e}")), 9);
        assert_eq!(shortened("a sentence that is long", 12), "a sentence…");
        assert_eq!(shortened("日本語の文", 5), "日本…");
    }

    #[test]
    fn a_value_hangs_below_its_beginning() {
        let line =
            "ok  queue          78 lines consumed, 0 bytes behind, and more that is far too long";
        let lines = fitted(line, 50);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines[0], "ok  queue          78 lines consumed, 0 bytes");
        assert_eq!(lines[1], "                   behind, and more that is far");
        let list = "  build    Build the digests that changed since the last build of all";
        assert!(
            fitted(list, 50).ends_with("\n           the last build of all"),
            "{}",
            fitted(list, 50)
        );
        let prose = "A long name of a source  and words that go on after it to the next line";
        assert!(fitted(prose, 50).contains("\n  "), "{}", fitted(prose, 50));
    }

    #[test]
    fn a_quote_is_shown_by_its_beginning() {
        assert!(shows("One. The rent rises.", "The rent  rises"));
        assert!(shows(
            "See the map and bring it.",
            "See [the map](https://a.example) and **bring** it."
        ));
        assert!(shows("The shears are here.", "the shears are here."));
        assert!(!shows("One.", "The rent rises") && !shows("One.", " "));
    }

    #[test]
    fn long_lines_are_wrapped_and_short_ones_stay() {
        let text = format!("{}\n  a  table", Style::Dim.of("three files, one as before"));
        let wrapped = "\u{1b}[2mthree files, one as\n  before\u{1b}[0m\n  a  table";
        assert_eq!(written(&fitted(&text, 20)), wrapped);
    }
}
