//! Text for people: wrapped at the width of the terminal, whole in a pipe, and without characters that
//! steer a terminal.

use std::io;

use super::plain::{columns, wrapped};
pub(super) use super::plain::{plain, plain_line, shortened};
use super::ui;

/// Width in columns of a day and of the word `private`, with the space before each.
const BEHIND_COLUMNS: usize = 21;

/// How text is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prose {
    /// The columns of a line; `None` leaves lines whole.
    columns: Option<usize>,
}

impl Prose {
    /// As standard output wants it.
    pub(super) fn of_stdout() -> Prose {
        Prose { columns: columns(&io::stdout()) }
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

    /// The name of a source as a heading, with its day or mark behind it, which has room on the last line.
    pub(super) fn name(self, name: &str, behind: &str) -> Vec<String> {
        let columns = self.columns.map(|columns| columns.saturating_sub(BEHIND_COLUMNS));
        let lines = Prose { columns }.wrap(&plain_line(name), "", "  ");
        let mut lines: Vec<String> = lines.iter().map(|line| ui::bold(line)).collect();
        lines.last_mut().into_iter().for_each(|last| last.push_str(behind));
        lines
    }

    /// One paragraph; `first` stands before its first line and `hang` before the others.
    pub(super) fn wrap(self, text: &str, first: &str, hang: &str) -> Vec<String> {
        let Some(columns) = self.columns else { return vec![format!("{first}{text}")] };
        wrapped(text, columns, first, hang)
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
