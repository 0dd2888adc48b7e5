//! Text for people: wrapped at the width of the terminal, whole in a pipe, and without characters that
//! steer a terminal.

use std::io::{self, IsTerminal as _};

use unicode_width::UnicodeWidthStr as _;

pub(super) use super::plain::{plain, plain_line, shortened};
use super::ui;

/// Lines longer than this are hard to read, however wide the terminal is.
const COLUMNS_MAX: usize = 92;
/// A narrower terminal wraps by itself.
const COLUMNS_MIN: usize = 30;

/// How text is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prose {
    /// The columns of a line; `None` leaves lines whole.
    columns: Option<usize>,
}

impl Prose {
    /// As standard output wants it.
    pub(super) fn of_stdout() -> Prose {
        let columns = io::stdout().is_terminal().then(|| {
            let width =
                terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
            width.clamp(COLUMNS_MIN, COLUMNS_MAX)
        });
        Prose { columns }
    }

    /// Whether a person looks at it right now.
    pub(super) fn is_terminal(self) -> bool {
        self.columns.is_some()
    }

    /// Markdown of a summary as lines: headings stand out, list items hang.
    pub(super) fn lines(self, text: &str, indent: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for line in plain(text).lines() {
            let line = line.trim_end();
            let marks = line.chars().take_while(|c| *c == '#').count();
            if line.is_empty() {
                if lines.last().is_some_and(|last| !last.is_empty()) {
                    lines.push(String::new());
                }
            } else if (1..=6).contains(&marks) && line[marks..].starts_with(' ') {
                lines.push(format!("{indent}{}", ui::bold(line[marks..].trim())));
            } else {
                let start = line.trim_start();
                let inner = &line[..line.len() - start.len()];
                let hang = match start.strip_prefix("- ").or(start.strip_prefix("* ")) {
                    Some(_) => format!("{indent}{inner}  "),
                    None => format!("{indent}{inner}"),
                };
                lines.extend(self.wrap(start, &format!("{indent}{inner}"), &hang));
            }
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    /// One paragraph; `first` stands before its first line and `hang` before the others.
    pub(super) fn wrap(self, text: &str, first: &str, hang: &str) -> Vec<String> {
        let Some(columns) = self.columns else { return vec![format!("{first}{text}")] };
        let (mut lines, mut line, mut used) = (Vec::new(), first.to_owned(), first.width());
        let mut is_empty = true;
        for word in text.split_whitespace() {
            let wide = word.width();
            if !is_empty && used + 1 + wide > columns {
                lines.push(std::mem::replace(&mut line, hang.to_owned()));
                (used, is_empty) = (hang.width(), true);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_wrapped_lines_and_a_pipe_whole_ones() {
        let text = "### Goal\n\nA plan for the garden in spring.\n- buy seeds and a good spade\n";
        let terminal = Prose { columns: Some(20) };
        let heading = format!("  {}", ui::bold("Goal"));
        assert_eq!(
            terminal.lines(text, "  "),
            [
                heading.as_str(),
                "",
                "  A plan for the",
                "  garden in spring.",
                "  - buy seeds and a",
                "    good spade"
            ]
        );
        let pipe = Prose { columns: None };
        assert_eq!(pipe.lines("one two three four five six", ""), ["one two three four five six"]);
    }
}
