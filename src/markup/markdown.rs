//! Markdown read line by line: headings, sections, list items, code fences and front matter.
//!
//! A section runs to the next heading of its own or a higher level, so sub-headings stay inside.
//! Nothing inside a code fence is a heading or an item. Line ends may be LF or CRLF, a byte-order
//! mark is skipped. Research waves and briefings use ATX headings only ([`lines`]); documents may
//! also underline their headings ([`headings`]).

use std::borrow::Cow;
use std::ops::Range;

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
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
    Break,
    /// Anything else.
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// The byte at which it begins.
    pub start: usize,
    /// Without its end.
    pub text: &'a str,
    pub kind: Kind<'a>,
}

/// Splits a text into classified lines.
pub fn lines(text: &str) -> Vec<Line<'_>> {
    let mut start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let text = &text[start..];
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut fence: Option<(char, usize)> = None;
    let mut lines = Vec::new();
    for (index, whole) in text.split('\n').enumerate() {
        let text = whole.strip_suffix('\r').unwrap_or(whole);
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
        lines.push(Line { number: index + 1, start, text, kind });
        start += whole.len() + 1;
    }
    lines
}

/// The text without comments that no reader is shown: `%%` to `%%`, as Obsidian writes them, and lines such as
/// `[//]: # (a note)`. Code has no comments.
pub(crate) fn without_comments(text: &str) -> Cow<'_, str> {
    if !text.contains("%%") && !text.contains("]: ") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut at, mut begins) = (0, true);
    let mut fence: Option<(char, usize)> = None;
    while at < text.len() {
        let line_end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
        let line = &text[at..line_end];
        let bare = line.trim_end_matches(['\n', '\r']);
        let was_open = fence.is_some();
        if begins {
            fence = match fence {
                Some(open) => Some(open).filter(|open| !closes(bare, *open)),
                None => opens(bare),
            };
        }
        if was_open || fence.is_some() {
            out.push_str(line);
            (at, begins) = (line_end, true);
            continue;
        }
        if begins && is_note(bare) {
            at = line_end;
            continue;
        }
        let Some((start, is_block)) = comment_in(text, at..line_end, begins) else {
            out.push_str(line);
            (at, begins) = (line_end, true);
            continue;
        };
        let limit = if is_block { text.len() } else { line_end };
        let inner = start + COMMENT.len();
        match text[inner..limit].find(COMMENT) {
            Some(end) => {
                out.push_str(&text[at..start]);
                at = inner + end + COMMENT.len();
            }
            None => {
                out.push_str(&text[at..inner]);
                at = inner;
            }
        }
        begins = false;
    }
    Cow::Owned(out)
}

/// Signs that no name begins with: they begin an item, a quote, a table, a link or code.
const NO_NAME: [char; 13] = ['*', '+', '-', '>', '|', '<', '[', '(', '!', '`', '~', '=', '&'];

/// What stands before and after a comment of Obsidian.
const COMMENT: &str = "%%";

/// Where the first comment of a line begins, and whether nothing stands before it. `begins`: the line is
/// looked at from its beginning.
fn comment_in(text: &str, line: Range<usize>, begins: bool) -> Option<(usize, bool)> {
    let mut at = line.start;
    while let Some(next) = text[at..line.end].find(['`', '%']) {
        at += next;
        let mark = char::from(text.as_bytes()[at]);
        let rest = &text[at..line.end];
        let run = rest.len() - rest.trim_start_matches(mark).len();
        if mark == '`' {
            let code = &rest[run..];
            let end = code.find(&rest[..run]).map(|end| end + run);
            at += run + end.unwrap_or(0);
            continue;
        }
        let before = text[..at].chars().next_back();
        // A per cent sign behind a number is one.
        if run >= COMMENT.len()
            && before.is_none_or(|c| c.is_whitespace() || "([{>\"'*_".contains(c))
        {
            let is_block = begins && text[line.start..at].trim().is_empty();
            return Some((at, is_block));
        }
        at += run;
    }
    None
}

/// Whether a line is a note to writers in the shape of a link that nothing uses: `[//]: # (a note)`.
fn is_note(line: &str) -> bool {
    let line = line.trim_start();
    let Some((name, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "))
    else {
        return false;
    };
    let is_named = name == "//" || name.eq_ignore_ascii_case("comment");
    let target = target.trim_start();
    is_named && (target.starts_with('#') || target.starts_with("<>"))
}

/// The text with alerts as plain paragraphs: without the marks that `> [!NOTE]` and its lines have. What they say is no
/// quote of somebody else. Code has no alerts.
pub(crate) fn without_alerts(text: &str) -> Cow<'_, str> {
    if !text.contains("[!") {
        return Cow::Borrowed(text);
    }
    let (mut out, mut in_alert) = (String::with_capacity(text.len()), false);
    let mut fence: Option<(char, usize)> = None;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        let was_open = fence.is_some();
        fence = match fence {
            Some(open) => Some(open).filter(|open| !closes(bare, *open)),
            None => opens(bare),
        };
        let quote = quote_mark(bare).filter(|_| !was_open && fence.is_none());
        let title = quote.and_then(|quote| alert_title(bare, quote));
        let begin = match (title, quote.filter(|_| in_alert)) {
            // The line of the mark alone goes with its end.
            (Some(title), _) if title == bare.len() => line.len(),
            (Some(title), _) => title,
            (None, Some(quote)) => quote,
            (None, None) => 0,
        };
        in_alert = title.is_some() || in_alert && quote.is_some();
        out.push_str(&line[begin..]);
    }
    Cow::Owned(out)
}

/// Bytes of the mark of a quote that a line begins with.
fn quote_mark(line: &str) -> Option<usize> {
    let rest = line.trim_start_matches([' ', '\t']).strip_prefix('>')?;
    Some(line.len() - rest.strip_prefix([' ', '\t']).unwrap_or(rest).len())
}

/// Where the title of an alert begins, behind the mark of its quote and `[!NOTE]`.
fn alert_title(line: &str, quote: usize) -> Option<usize> {
    let rest = line[quote..].trim_start_matches([' ', '\t']);
    let (kind, title) = rest.strip_prefix("[!")?.split_once(']')?;
    let is_kind = kind.bytes().all(|b| b.is_ascii_alphabetic() || b"-_".contains(&b));
    let title = title.strip_prefix(['+', '-']).unwrap_or(title).trim_start_matches([' ', '\t']);
    (!kind.is_empty() && is_kind).then_some(line.len() - title.len())
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

/// A heading of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading<'a> {
    /// The byte at which its line begins.
    pub start: usize,
    /// 1 to 6.
    pub level: usize,
    pub title: &'a str,
}

/// The headings of a document, also underlined ones, outside code and front matter.
pub fn headings(text: &str) -> Vec<Heading<'_>> {
    let body = text.len() - body(text).len();
    let mut found = Vec::new();
    // A paragraph of one line, which an underline makes a heading.
    let (mut alone, mut after_blank) = (None, true);
    for line in lines(&text[body..]) {
        let start = body + line.start;
        let before = alone.take();
        let (heading, ends_paragraph) = match (line.kind, underline(line.text), before) {
            (Kind::Heading { level, title }, ..) => (Some(Heading { start, level, title }), true),
            (Kind::Text | Kind::Break, Some(level), Some((start, title))) => {
                (Some(Heading { start, level, title }), true)
            }
            (Kind::Text, ..) => {
                if after_blank && begins_paragraph(line.text) {
                    alone = Some((start, line.text.trim()));
                }
                (None, false)
            }
            _ => (None, true),
        };
        found.extend(heading);
        after_blank = ends_paragraph;
    }
    found
}

/// The first heading of a document.
pub fn title(text: &str) -> Option<String> {
    let first = headings(text).into_iter().next()?;
    (!first.title.is_empty()).then(|| first.title.to_owned())
}

/// The level an underline gives to the line above it.
fn underline(line: &str) -> Option<usize> {
    let line = line.trim_end();
    let all = |mark: char| line.len() > 1 && line.chars().all(|char| char == mark);
    if all('=') { Some(1) } else { all('-').then_some(2) }
}

/// Whether a line begins a paragraph, and no list, quote, table, markup or code.
fn begins_paragraph(line: &str) -> bool {
    let text = line.trim();
    indent(line) <= 3
        && list_item(line).is_none()
        && !text.is_empty()
        && !text.starts_with(['>', '|', '<'])
}

/// How front matter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrontMatter<'a> {
    /// Between two lines `---`.
    Yaml(&'a str),
    /// Between two lines `+++`.
    Toml(&'a str),
    /// An object between a line `{` and a line `}`.
    Json(&'a str),
    /// Lines after a `---` or `+++` that never ends, up to the first empty line. They stay text.
    Open(&'a str),
}

/// What a document says of itself before its text; `None` where it says nothing.
pub(crate) fn front_matter(text: &str) -> Option<FrontMatter<'_>> {
    if let Some((front, _)) = split_front_matter(text) {
        return Some(front);
    }
    let text = without_lead(text);
    let (_, after) = text.split_once('\n').filter(|(first, _)| is_rule(first))?;
    let mut end = 0;
    for line in after.split_inclusive('\n').take_while(|line| !line.trim().is_empty()) {
        end += line.len();
    }
    Some(FrontMatter::Open(&after[..end]))
}

/// A document without its front matter. Prose between two rules stays.
pub fn body(text: &str) -> &str {
    match split_front_matter(text) {
        Some((FrontMatter::Yaml(front), _)) if !begins_with_name(front) => text,
        Some((FrontMatter::Toml(front), _)) if !begins_as_toml(front) => text,
        Some((_, body)) => body,
        None => text,
    }
}

/// The names in front matter whose values read as sentences, where no name of this kind is usual. They leave the text,
/// and a person may miss them.
pub(crate) fn prose_of_front_matter(text: &str) -> Vec<&str> {
    const WORDS_MIN: usize = 3;
    const USUAL: [&str; 12] = [
        "title",
        "description",
        "summary",
        "abstract",
        "excerpt",
        "caption",
        "teaser",
        "intro",
        "subject",
        "lead",
        "licen",
        "note",
    ];
    let Some((FrontMatter::Yaml(front) | FrontMatter::Toml(front), rest)) =
        split_front_matter(text)
    else {
        return Vec::new();
    };
    if body(text).len() > rest.len() {
        return Vec::new();
    }
    let named = front.lines().filter_map(|line| line.split_once([':', '=']));
    let prose = named.filter(|(name, value)| {
        let value = value.trim().trim_matches(['"', '\'']);
        let folded = name.to_lowercase();
        value.ends_with(['.', '!', '?'])
            && value.split_whitespace().count() >= WORDS_MIN
            && !name.starts_with([' ', '\t', '-', '#'])
            && !USUAL.iter().any(|usual| folded.contains(usual))
    });
    prose.map(|(name, _)| name.trim()).collect()
}

/// Whether the first line that is no comment begins with a name of at most three words and a colon. Front matter
/// without any line is one too.
fn begins_with_name(front: &str) -> bool {
    const WORDS_MAX: usize = 3;
    let mut said = front.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let Some(first) = said.next() else { return true };
    // A whole mapping in braces. Two braces are a call of a program that makes pages.
    if let Some(mapping) = first.strip_prefix('{') {
        return !mapping.starts_with(['{', '%']);
    }
    let Some((name, value)) = first.split_once(':') else { return false };
    let name = name.trim_end_matches([' ', '\t']);
    let marks_item = name.split(' ').next().unwrap_or_default().ends_with(['.', ')']);
    if name.starts_with(NO_NAME) || marks_item {
        return false;
    }
    let words: Vec<&str> = name.split(' ').collect();
    let is_word = |word: &&str| {
        !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || ",;!".contains(c))
    };
    words.len() <= WORDS_MAX
        && words.iter().all(is_word)
        && (value.is_empty() || value.starts_with([' ', '\t', '\r']))
}

/// Whether the first line that is no comment names a value or a table of TOML.
fn begins_as_toml(front: &str) -> bool {
    let mut said = front.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let Some(first) = said.next() else { return true };
    let name = first.split('=').next().filter(|name| name.len() < first.len());
    let is_part = |c: char| c.is_alphanumeric() || "_-.\"' \t".contains(c);
    first.starts_with('[') || name.is_some_and(|name| name.chars().all(is_part))
}

/// The text from its first line with words.
fn without_lead(text: &str) -> &str {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let blank = text.split_inclusive('\n').take_while(|line| line.trim().is_empty());
    &text[blank.map(str::len).sum()..]
}

fn is_rule(line: &str) -> bool {
    matches!(line.trim_end(), "---" | "+++")
}

fn split_front_matter(text: &str) -> Option<(FrontMatter<'_>, &str)> {
    let text = without_lead(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next()?;
    let mark = first.trim_end();
    let ends: &[&str] = match mark {
        "---" => &["---", "..."],
        "+++" => &["+++"],
        "{" => &["}"],
        _ => return None,
    };
    let mut at = first.len();
    for line in lines {
        let end = at + line.len();
        if ends.contains(&line.trim_end()) {
            let front = match mark {
                "---" => FrontMatter::Yaml(&text[first.len()..at]),
                "+++" => FrontMatter::Toml(&text[first.len()..at]),
                _ => FrontMatter::Json(&text[..end]),
            };
            return Some((front, &text[end..]));
        }
        at = end;
    }
    None
}

/// A plain text whose first lines can only be front matter, without them. A rule may also stand in a
/// text: each line between the rules has a name, or continues the value of one.
pub(crate) fn plain_body(text: &str) -> &str {
    match split_front_matter(text) {
        Some((FrontMatter::Yaml(front) | FrontMatter::Toml(front), body)) if has_names(front) => {
            body
        }
        _ => text,
    }
}

fn has_names(front: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let is_named = |line: &str| {
        let name = line.split([':', '=']).next().unwrap_or_default();
        let ends = name.len() < line.len();
        let name = name.trim_end_matches([' ', '\t']);
        ends && !name.is_empty() && name.chars().all(is_letter)
    };
    let mut said = front.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    // Items alone are a list, and name nothing.
    let begins = said.clone().next().is_none_or(is_named);
    begins && said.all(|line| line.starts_with([' ', '\t', '-']) || is_named(line))
}

/// A list item or a paragraph with everything that continues it, joined by single spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line it starts on.
    pub number: usize,
    /// True for a top-level list item.
    pub(crate) is_item: bool,
    /// Its text, without the list marker.
    pub text: String,
}

/// The marker of a list item: its width with the spaces around it, and the text after it.
pub(crate) fn list_item(text: &str) -> Option<(usize, &str)> {
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

    #[test]
    fn headings_of_both_spellings_are_found_and_code_has_none() {
        let text = "---\ntitle: x\n---\nOne\n===\n\ntext\n---\n\n```\n# code\n~~~\n# code\n```\n\
                    Two words\r\n---\r\n## Three ##\n- item\n---\n| a |\n---\n\ntwo\nlines\n---\n";
        let found = headings(text);
        let told: Vec<_> = found.iter().map(|one| (one.level, one.title)).collect();
        assert_eq!(told, [(1, "One"), (2, "text"), (2, "Two words"), (2, "Three")]);
        for one in &found {
            let line = text[one.start..].trim_start_matches('#').trim_start();
            assert!(line.starts_with(one.title), "{}", one.title);
        }
        assert_eq!(title("```\n# code\n```\n\nTitle\r\n=====\r\n").as_deref(), Some("Title"));
        assert_eq!(title("---\nno end\n"), None);
        assert_eq!(title("text\n\n# First\n"), Some("First".to_owned()));
    }

    #[test]
    fn front_matter_stands_between_two_rules_at_the_beginning() {
        let note = "\u{feff}---\r\ntitle: A\r\n---\r\nBody\n---\n";
        assert_eq!(front_matter(note), Some(FrontMatter::Yaml("title: A\r\n")));
        assert_eq!(body(note), "Body\n---\n");
        for none in ["a: b\n", "# T\n---\na: b\n---\n", "{\n}\n}", "+++\na = 1\n---\n", ""] {
            assert_eq!(body(none), if none.starts_with("{\n}") { "}" } else { none });
        }
        assert_eq!(front_matter("a: b\n"), None);
        let toml = "\n+++\na = 1\n+++\nText";
        assert_eq!((front_matter(toml), body(toml)), (Some(FrontMatter::Toml("a = 1\n")), "Text"));
        let json = "{\n \"a\": 1\n}\nText";
        let object = FrontMatter::Json("{\n \"a\": 1\n}\n");
        assert_eq!((front_matter(json), body(json)), (Some(object), "Text"));
        for prose in [
            "---\n\nDear team,\n\nthe disk was full.\n\n---\n\nBo\n",
            "---\nThe deploy failed at noon: the disk was full.\n---\nBo\n",
            "---\n- milk\n- bread\n---\n",
        ] {
            assert_eq!(body(prose), prose);
        }
        for front in
            ["# c\n\"a b\": 1\n", "", "kind:\n  x\n", "Is published?: no\n", "{\n\"a\": 1\n}\n"]
        {
            assert_eq!(body(&format!("---\n{front}---\nText")), "Text", "{front}");
        }
        let open = "---\na: b\n\nc: d\n";
        assert_eq!((front_matter(open), body(open)), (Some(FrontMatter::Open("a: b\n")), open));
    }

    #[test]
    fn a_plain_text_keeps_its_rules() {
        for (text, expected) in [
            ("---\npublish: no\ntags:\n- a\n---\nText", "Text"),
            (
                "---\nA sentence, then a rule.\n---\nText",
                "---\nA sentence, then a rule.\n---\nText",
            ),
            ("Text\n---\na: b\n---\n", "Text\n---\na: b\n---\n"),
        ] {
            assert_eq!(plain_body(text), expected);
        }
    }
}
