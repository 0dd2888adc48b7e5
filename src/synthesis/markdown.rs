//! Just enough markdown: lines, headings, sections, list items, and what stands in a fence.
//!
//! A heading is an ATX heading of level 1 to 6. A section runs to the next heading of its own or a
//! higher level, so sub-headings stay inside. Nothing inside a code fence is a heading, an item or
//! a word of a claim. Line ends may be LF or CRLF, a byte-order mark is skipped.

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// An ATX heading.
    Heading {
        /// 1 to 6.
        level: usize,
        /// Without marks and surrounding spaces.
        title: &'a str,
    },
    /// A fence or something inside one.
    Fenced,
    /// Nothing but spaces.
    Blank,
    /// A thematic break.
    Break,
    /// Anything else.
    Text,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// Without its end.
    pub text: &'a str,
    /// What it is.
    pub kind: Kind<'a>,
}

/// Splits a text into classified lines.
pub fn lines(text: &str) -> Vec<Line<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut fence: Option<(char, usize)> = None;
    let mut lines = Vec::new();
    for (index, text) in text.split('\n').enumerate() {
        let text = text.strip_suffix('\r').unwrap_or(text);
        let kind = match fence {
            Some(open) => {
                if closes(text, open) {
                    fence = None;
                }
                Kind::Fenced
            }
            None => {
                fence = opens(text);
                if fence.is_some() { Kind::Fenced } else { classify(text) }
            }
        };
        lines.push(Line { number: index + 1, text, kind });
    }
    lines
}

fn fence_run(text: &str) -> Option<(char, usize, &str)> {
    let text = text.trim_start();
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    let length = text.len() - rest.len();
    (length >= 3).then_some((mark, length, rest))
}

fn opens(text: &str) -> Option<(char, usize)> {
    let (mark, length, info) = fence_run(text)?;
    (mark != '`' || !info.contains('`')).then_some((mark, length))
}

fn closes(text: &str, (mark, length): (char, usize)) -> bool {
    fence_run(text).is_some_and(|(m, l, rest)| m == mark && l >= length && rest.trim().is_empty())
}

fn classify(text: &str) -> Kind<'_> {
    if text.trim().is_empty() {
        return Kind::Blank;
    }
    if let Some((level, title)) = heading(text) {
        return Kind::Heading { level, title };
    }
    let squeezed = || text.chars().filter(|c| !c.is_whitespace());
    let first = squeezed().next();
    let is_break = first.is_some_and(|mark| {
        matches!(mark, '-' | '*' | '_') && squeezed().count() >= 3 && squeezed().all(|c| c == mark)
    });
    if is_break { Kind::Break } else { Kind::Text }
}

fn indent(text: &str) -> usize {
    text.chars().take_while(|c| c.is_whitespace()).map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

fn heading(text: &str) -> Option<(usize, &str)> {
    if indent(text) > 3 {
        return None;
    }
    let text = text.trim();
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    let separated = rest.is_empty() || rest.starts_with([' ', '\t']);
    if !(1..=6).contains(&level) || !separated {
        return None;
    }
    let title = rest.trim();
    let unclosed = title.trim_end_matches('#');
    let closed = unclosed.is_empty() || unclosed.ends_with([' ', '\t']);
    Some((level, if closed { unclosed.trim_end() } else { title }))
}

/// The lines of all sections whose heading satisfies `wanted`, in document order; `None` when
/// there is no such heading.
pub fn section<'a>(lines: &[Line<'a>], wanted: impl Fn(&str) -> bool) -> Option<Vec<Line<'a>>> {
    let mut inside: Option<usize> = None;
    let mut found = false;
    let mut body = Vec::new();
    for line in lines {
        if let Kind::Heading { level, title } = line.kind
            && inside.is_none_or(|open| level <= open)
        {
            inside = wanted(title).then_some(level);
            found |= inside.is_some();
            continue;
        }
        if inside.is_some() {
            body.push(*line);
        }
    }
    found.then_some(body)
}

/// A list item or a paragraph with everything that continues it, joined by single spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line it starts on.
    pub number: usize,
    /// True for a top-level list item.
    pub is_item: bool,
    /// Its text, without the list marker.
    pub text: String,
}

/// The marker of a list item: its width with the spaces around it, and the text after it.
pub fn list_item(text: &str) -> Option<(usize, &str)> {
    let lead = text.len() - text.trim_start().len();
    let rest = &text[lead..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match rest[digits..].chars().next()? {
        '-' | '*' | '+' if digits == 0 => 1,
        '.' | ')' if (1..=9).contains(&digits) => digits + 1,
        _ => return None,
    };
    let after = &rest[marker..];
    if !after.is_empty() && !after.starts_with([' ', '\t']) {
        return None;
    }
    let content = after.trim_start();
    let gap = if content.is_empty() { 1 } else { after.len() - content.len() };
    Some((indent(text) + marker + gap, content))
}

/// Groups the lines of a section into top-level list items and paragraphs.
pub fn blocks(section: &[Line<'_>]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // The column at which the open item's content starts; None in a paragraph or between blocks.
    let mut item: Option<usize> = None;
    let mut open = false;
    let mut after_blank = false;
    for line in section {
        match line.kind {
            Kind::Blank => after_blank = true,
            Kind::Heading { .. } | Kind::Break => (open, item, after_blank) = (false, None, false),
            Kind::Fenced => {}
            Kind::Text => {
                let column = indent(line.text);
                let marked = list_item(line.text);
                let continues = open
                    && match (item, marked) {
                        (Some(content), Some(_)) => column >= content,
                        (Some(content), None) => !after_blank || column >= content.min(2),
                        (None, Some(_)) => false,
                        (None, None) => !after_blank,
                    };
                let text = marked.map_or(line.text, |(_, text)| text).trim();
                if continues {
                    if let Some(block) = blocks.last_mut() {
                        block.text.push(' ');
                        block.text.push_str(text);
                    }
                } else {
                    item = marked.map(|(content, _)| content);
                    blocks.push(Block {
                        number: line.number,
                        is_item: item.is_some(),
                        text: text.to_owned(),
                    });
                    open = true;
                }
                after_blank = false;
            }
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
        let body = section(&lines(text), |title| title == name)?;
        Some(body.iter().map(|line| line.text).collect())
    }

    fn texts(text: &str) -> Vec<(bool, String)> {
        blocks(&lines(text)).into_iter().map(|block| (block.is_item, block.text)).collect()
    }

    #[test]
    fn headings_of_every_accepted_form() {
        for (text, level, title) in [
            ("# A", 1, "A"),
            ("###### A b", 6, "A b"),
            ("   ## A ##", 2, "A"),
            ("## A#", 2, "A#"),
            ("##\tA", 2, "A"),
            ("##", 2, ""),
        ] {
            assert_eq!(lines(text)[0].kind, Kind::Heading { level, title }, "{text}");
        }
        for text in ["####### A", "#A", "    # A", "A #", "\t# A"] {
            assert_eq!(lines(text)[0].kind, Kind::Text, "{text}");
        }
    }

    #[test]
    fn sub_headings_stay_inside_and_fences_hide() {
        let text = "## Findings\na\n### sub\nb\n```\n## Sources\n```\n## Sources\nc\n# Other\nd";
        assert_eq!(
            named(text, "Findings").unwrap(),
            ["a", "### sub", "b", "```", "## Sources", "```"]
        );
        assert_eq!(named(text, "Sources").unwrap(), ["c"]);
        assert_eq!(named(text, "sub").unwrap(), ["b", "```", "## Sources", "```"]);
        assert_eq!(named(text, "Gaps"), None);
        assert_eq!(named("~~~~\n## A\n~~~\n## A\n~~~~~\n## A\nx", "A").unwrap(), ["x"]);
    }

    #[test]
    fn line_ends_and_the_mark_do_not_matter() {
        let unix = "## A\n- x\n";
        let windows = "\u{feff}## A\r\n- x\r\n";
        assert_eq!(named(unix, "A"), named(windows, "A"));
    }

    #[test]
    fn items_keep_their_continuations() {
        let text = "- one\n  more\nlazy\n  - nested\n\n  second paragraph\n- two\n\nafter\n\n1. three\n2) four\n* * *\n- five";
        let expected = [
            (true, "one more lazy nested second paragraph"),
            (true, "two"),
            (false, "after"),
            (true, "three"),
            (true, "four"),
            (true, "five"),
        ];
        assert_eq!(texts(text), expected.map(|(item, text)| (item, text.to_owned())));
    }

    #[test]
    fn code_is_no_part_of_a_block() {
        assert_eq!(texts("- a\n  ```\n  - x\n  ```\n  b"), [(true, "a b".to_owned())]);
        assert_eq!(texts("p\nq\n\nr"), [(false, "p q".to_owned()), (false, "r".to_owned())]);
        assert_eq!(texts("-x\n-"), [(false, "-x".to_owned()), (true, String::new())]);
    }
}
