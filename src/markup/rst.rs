//! Text of reStructuredText: its titles as Markdown marks them, its literal blocks as code.
//!
//! Contract: pure, in one pass. Everything else stays as it is written: a reader knows lists and fields without rules.
//! `docs/source-text-hash.md` specifies it and `tests/golden/markup/vectors.json` has the examples.

use super::layout::fence_for;

/// Fewest signs of a line below a title, and from how many on the title may be longer.
const SIGNS_MIN: usize = 3;
const SIGNS_FOR_LONG: usize = 4;
const LEVEL_MAX: usize = 6;
/// Directives whose content is code.
const CODE: [&str; 4] = ["code", "code-block", "sourcecode", "parsed-literal"];

const BLANKS: [char; 3] = [' ', '\t', '\r'];

/// Whether a text holds a line that only reStructuredText has: `.. note::`.
pub(crate) fn is_plainly(text: &str) -> bool {
    text.lines().any(|line| directive(line.trim_end_matches(BLANKS)).is_some())
}

/// The name of the directive that a line begins.
fn directive(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix(".. ")?.split_once("::")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | ':');
    let named = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_name);
    let is_apart = rest.is_empty() || rest.starts_with([' ', '\t']);
    (named && is_apart).then_some(name)
}

/// The text of a file.
pub(crate) fn text(source: &str) -> String {
    let lines: Vec<&str> = source.lines().map(|line| line.trim_end_matches(BLANKS)).collect();
    let out = String::with_capacity(source.len());
    let mut reader = Reader { out, styles: Vec::new(), fence: "`".repeat(fence_for(source)) };
    let (mut at, mut begins) = (0, true);
    while at < lines.len() {
        let (width, is_title) = match title(&lines[at..]).filter(|_| begins) {
            Some((title, sign, width)) => (reader.title(title, (sign, width == 3)), true),
            None => (reader.other(&lines[at..]), false),
        };
        at += width;
        begins = is_title || lines[at - 1].is_empty();
    }
    reader.out
}

struct Reader {
    out: String,
    /// The sign of each title and whether it stands above the title too, in the order in which they came.
    styles: Vec<(char, bool)>,
    fence: String,
}

impl Reader {
    fn push(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// Writes a title; how many lines it takes.
    fn title(&mut self, title: &str, style: (char, bool)) -> usize {
        let known = self.styles.iter().position(|one| *one == style);
        let level = known.unwrap_or_else(|| {
            self.styles.push(style);
            self.styles.len() - 1
        });
        self.push(&format!("{} {title}", "#".repeat((level + 1).min(LEVEL_MAX))));
        if style.1 { 3 } else { 2 }
    }

    /// Writes the lines up to the next one that may be a title; how many there are.
    fn other(&mut self, lines: &[&str]) -> usize {
        let line = lines[0];
        if sign(line).is_some_and(|(_, count)| count >= SIGNS_FOR_LONG) {
            return 1;
        }
        let in_directive = directive(line).is_some();
        let has_code = match directive(line) {
            Some(name) => CODE.contains(&name),
            None => line.ends_with("::") && !line.starts_with(".. "),
        };
        let code = if has_code { code_below(lines) } else { 0 };
        if code == 0 {
            self.push(line);
            return 1;
        }
        // `The command::` announces the code; a line of two colons and a directive say nothing else.
        let announced = line.trim_end_matches(':').trim_end_matches(BLANKS);
        if !in_directive && !announced.is_empty() {
            self.push(&format!("{announced}:"));
        }
        self.code(&lines[1..=code], in_directive);
        1 + code
    }

    fn code(&mut self, lines: &[&str], in_directive: bool) {
        let is_option = |line: &&&str| line.trim_start_matches(BLANKS).starts_with(':');
        let said = lines.iter().position(|line| !line.is_empty()).unwrap_or(0);
        let options = lines[said..].iter().take_while(is_option).count();
        let code = if in_directive { &lines[said + options..] } else { lines };
        let said = |line: &&str| !line.is_empty();
        let Some(first) = code.iter().position(said) else { return };
        let last = code.iter().rposition(said).unwrap_or(first);
        let indent = code.iter().filter(|line| said(line)).map(|line| indent(line)).min();
        let fence = self.fence.clone();
        self.push(&fence);
        for line in &code[first..=last] {
            self.push(line.get(indent.unwrap_or(0)..).unwrap_or_default());
        }
        self.push(&fence);
    }
}

fn indent(line: &str) -> usize {
    line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count()
}

/// How many lines below the first one are deeper than it, where the next one with words is.
fn code_below(lines: &[&str]) -> usize {
    let of_code = |line: &&&str| line.is_empty() || indent(line) > indent(lines[0]);
    let code = lines[1..].iter().take_while(of_code).count();
    let said = lines[1..=code].iter().rposition(|line| !line.is_empty());
    said.map_or(0, |last| last + 1)
}

/// The sign of a line that is nothing but one sign again and again, and how often it stands there.
fn sign(line: &str) -> Option<(char, usize)> {
    let sign = line.chars().next().filter(char::is_ascii_punctuation)?;
    (line.len() >= SIGNS_MIN && line.chars().all(|c| c == sign)).then_some((sign, line.len()))
}

/// The title that lines begin with, the sign of the line below it, and how many lines it takes.
fn title<'t>(lines: &[&'t str]) -> Option<(&'t str, char, usize)> {
    let is_title = |line: &str| !line.is_empty() && sign(line).is_none();
    let fits = |title: &str, count: usize| count >= SIGNS_FOR_LONG.min(title.chars().count());
    if let (Some(over), [_, title, under, ..]) = (sign(lines[0]), lines)
        && is_title(title)
        && sign(under) == Some(over)
        && fits(title.trim_start_matches(BLANKS), over.1)
    {
        return Some((title.trim_start_matches(BLANKS), over.0, 3));
    }
    let [title, under, ..] = lines else { return None };
    let (mark, count) = sign(under)?;
    (is_title(title) && indent(title) == 0 && fits(title, count)).then_some((title, mark, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_marked_by_the_order_of_their_signs() {
        let source =
            "=====\n Plan\n=====\n\nOne.\n\nCosts\n-----\nTwo.\n\nDays\n~~~~\n\nMore\n----\n";
        assert_eq!(text(source), "# Plan\n\nOne.\n\n## Costs\nTwo.\n\n### Days\n\n## More\n");
    }

    #[test]
    fn what_only_looks_like_a_title_is_text_and_no_line_of_signs_stays() {
        for (source, expected) in [
            ("One\ntwo\n----\nthree\n", "One\ntwo\nthree\n"),
            ("One.\n\n----\n\nTwo.\n", "One.\n\n\nTwo.\n"),
            ("Roof of the house\n---\n", "Roof of the house\n---\n"),
            ("FAQ\n---\n", "# FAQ\n"),
            ("====  ====\nAna   Bo\n====  ====\n", "====  ====\nAna   Bo\n====  ====\n"),
            ("  Indented\n  --------\n", "  Indented\n  --------\n"),
            ("Wait...\n...\n", "Wait...\n...\n"),
        ] {
            assert_eq!(text(source), expected, "{source}");
        }
    }

    #[test]
    fn literal_blocks_are_code_so_that_no_line_of_them_is_a_title() {
        for (source, expected) in [
            ("Run::\n\n    # make\n    go\n\nEnd.\n", "Run:\n```\n# make\ngo\n```\n\nEnd.\n"),
            ("::\n\n  a\n   b\n", "```\na\n b\n```\n"),
            (".. code-block:: sh\n   :linenos:\n\n   # x\n\nEnd.\n", "```\n# x\n```\n\nEnd.\n"),
            (".. note::\n\n   Take care.\n", ".. note::\n\n   Take care.\n"),
            ("Nothing follows::\n\nEnd.\n", "Nothing follows::\n\nEnd.\n"),
            (".. code::\n\nEnd.\n", ".. code::\n\nEnd.\n"),
        ] {
            assert_eq!(text(source), expected, "{source}");
        }
    }

    #[test]
    fn a_directive_tells_the_format() {
        for (line, expected) in [
            (".. note::", true),
            (".. code-block:: sh", true),
            (".. py:function:: x", true),
            ("a .. note::", false),
            (".. a b::", false),
            (".. std::vec", false),
            ("... and so on::", false),
        ] {
            assert_eq!(is_plainly(line), expected, "{line}");
        }
    }
}
