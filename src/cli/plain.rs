//! Foreign text made safe to print: on a terminal it moves and colours nothing.

use std::io::IsTerminal;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Lines longer than this are hard to read, however wide the terminal is.
const COLUMNS_MAX: usize = 92;
/// A narrower terminal wraps by itself.
const COLUMNS_MIN: usize = 30;

/// The columns of a line on a terminal. `None` when it is a pipe or a file, which gets whole lines.
pub(super) fn columns(stream: &impl IsTerminal) -> Option<usize> {
    stream.is_terminal().then(|| {
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        width.clamp(COLUMNS_MIN, COLUMNS_MAX)
    })
}

/// The columns that a text takes on a terminal. The codes of colours take none.
pub(super) fn width(text: &str) -> usize {
    let mut escaped = false;
    let shown = text.chars().filter(|c| {
        let hidden = escaped || *c == '\u{1b}';
        escaped = hidden && !(escaped && c.is_ascii_alphabetic());
        !hidden
    });
    shown.map(|c| c.width().unwrap_or(0)).sum()
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
        lines.extend(wrapped(start, columns, indent, &format!("{indent}  ")));
    }
    lines.join("\n")
}

/// The text without characters that move the cursor, change colours or turn the direction of writing.
pub(super) fn plain(text: &str) -> String {
    let steers = |c: &char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(*c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(*c, '\u{e0000}'..='\u{e007f}')
    };
    let kept = text.chars().filter(|c| !steers(c));
    kept.map(|c| if matches!(c, '\u{2028}' | '\u{2029}') { '\n' } else { c }).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{9b}c\u{202e}d\r\u{2028}e"), "a[2Jbcd\ne");
        assert_eq!(shortened("a sentence that is long", 12), "a sentence…");
        assert_eq!(shortened("日本語の文", 5), "日本…");
    }

    #[test]
    fn long_lines_are_wrapped_and_short_ones_stay() {
        let text = "\u{1b}[2mthree files, one as before\u{1b}[0m\n  a  table";
        let wrapped = "\u{1b}[2mthree files, one as\n  before\u{1b}[0m\n  a  table";
        assert_eq!(fitted(text, 20), wrapped);
    }
}
