//! A Markdown page whose text came from elsewhere, as Markdown that only shows text.
//!
//! Contract: whatever the answer of a model or the text of a source holds, the page that results has no
//! expression, import, export, tag, directive, definition or image, in MDX and in plain Markdown. Its links
//! lead to web and mail addresses or to places in the page. Its front matter holds known members only, and
//! its slug stays within the folder of the page. Headings, lists, tables, emphasis, quotes, links and code
//! stay. [`inert`] of an inert page is the same page.
//!
//! Code is written as a fence at the start of a line, with a fence longer than any in it: there all readers
//! agree what is code. A code span is kept where it begins and ends in one line. Mathematics with braces
//! becomes code, because a site without a plugin for it would run the braces as expressions.
//!
//! See docs/adr/0113-pages-that-only-show-text.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::contract::shown::named;

/// Members of a front matter that say something about the text, and nothing about the site.
const FRONT_MEMBERS: &[&str] = &[
    "title",
    "description",
    "keywords",
    "tags",
    "slug",
    "sidebar_label",
    "sidebar_position",
    "author",
    "date",
    "lang",
];
/// Languages of code that a site would not show as code.
const ACTIVE_LANGUAGES: &[&str] = &["mdx-code-block", "mermaid", "live"];
const ADDRESS_BYTES_MAX: usize = 2_000;
const MATH_BYTES_MAX: usize = 1_000;

/// The front matter with the members that a page may have.
pub(super) fn front_matter(given: &Map<String, Value>) -> Map<String, Value> {
    let mut front = Map::new();
    for (name, value) in given {
        if !FRONT_MEMBERS.contains(&name.as_str()) {
            continue;
        }
        let value = match (name.as_str(), value) {
            ("slug", Value::String(slug)) => match slug_within(slug) {
                empty if empty.is_empty() => continue,
                slug => Value::String(slug),
            },
            ("slug", _) => continue,
            (_, Value::String(text)) => Value::String(one_line(text)),
            (_, Value::Number(_) | Value::Bool(_)) => value.clone(),
            (_, Value::Array(items)) => {
                let texts = items.iter().filter_map(Value::as_str);
                Value::Array(texts.map(|text| Value::String(one_line(text))).collect())
            }
            _ => continue,
        };
        front.insert(name.clone(), value);
    }
    front
}

/// The page: its front matter, if it has one, and its body.
pub(super) fn written(front: &Map<String, Value>, body: &str) -> String {
    if front.is_empty() {
        return body.to_owned();
    }
    let mut page = "---\n".to_owned();
    for (name, value) in front {
        // A value of JSON is one of YAML.
        let _ = writeln!(page, "{name}: {value}");
    }
    page + "---\n\n" + body
}

/// A slug that cannot leave the folder of the page.
fn slug_within(slug: &str) -> String {
    let segment = |segment: &str| -> String {
        segment.chars().filter(|c| c.is_alphanumeric() || "-_.".contains(*c)).collect()
    };
    let is_step = |part: &String| part.chars().any(|c| c != '.');
    slug.split(['/', '\\']).map(segment).filter(is_step).collect::<Vec<_>>().join("/")
}

fn one_line(text: &str) -> String {
    named(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The body of a page, without anything that acts.
pub fn inert(body: &str) -> String {
    let body = named(body);
    let mut page = Page::default();
    let mut open: Option<Fence> = None;
    for line in body.lines() {
        open = match open {
            Some(fence) if fence.is_closed_by(line) => {
                page.code(&fence);
                None
            }
            Some(mut fence) => {
                fence.lines.push(without_indent(line, fence.indent).to_owned());
                Some(fence)
            }
            None => {
                let fence = Fence::opened_by(line);
                if fence.is_none() {
                    page.line(line);
                }
                fence
            }
        };
        // Mathematics that opens and closes in one line.
        if open.as_ref().is_some_and(|fence| fence.is_whole) {
            open.take().iter().for_each(|fence| page.code(fence));
        }
    }
    open.iter().for_each(|fence| page.code(fence));
    page.out.trim_matches('\n').to_owned()
}

fn without_indent(line: &str, most: usize) -> &str {
    let blanks = line.bytes().take(most).take_while(|byte| *byte == b' ').count();
    &line[blanks..]
}

struct Fence {
    /// What closes it: this mark, at least as often.
    mark: char,
    length: usize,
    indent: usize,
    language: String,
    lines: Vec<String>,
    is_whole: bool,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Fence> {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~' | '$'))?;
        let rest = text.trim_start_matches(mark);
        let length = text.len() - rest.len();
        if mark == '$' {
            let rest = rest.trim();
            let whole = rest.strip_suffix("$$");
            // Something behind the end of the formula: ordinary text.
            if length != 2 || (whole.is_none() && rest.contains('$')) {
                return None;
            }
            let first = whole.unwrap_or(rest).trim();
            let lines = if first.is_empty() { Vec::new() } else { vec![first.to_owned()] };
            let is_whole = whole.is_some_and(|formula| !formula.contains('$'));
            if whole.is_some() && !is_whole {
                return None;
            }
            return Some(Fence { mark, length, indent, language: "math".into(), lines, is_whole });
        }
        if length < 3 || (mark == '`' && rest.contains('`')) {
            return None;
        }
        let word = rest.split_whitespace().next().unwrap_or_default();
        let is_word = |c: char| c.is_ascii_alphanumeric() || "+#_-".contains(c);
        let is_plain = word.len() <= 20
            && word.chars().all(is_word)
            && !ACTIVE_LANGUAGES.contains(&word.to_ascii_lowercase().as_str());
        let language = if is_plain { word.to_owned() } else { "text".to_owned() };
        Some(Fence { mark, length, indent, language, lines: Vec::new(), is_whole: false })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        match self.mark {
            '$' => text == "$$",
            mark => text.len() >= self.length && text.chars().all(|c| c == mark),
        }
    }
}

#[derive(Default)]
struct Page {
    out: String,
}

impl Page {
    fn push(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn is_after_text(&self) -> bool {
        !self.out.is_empty() && !self.out.ends_with("\n\n")
    }

    fn code(&mut self, fence: &Fence) {
        if self.is_after_text() {
            self.push("");
        }
        let longest =
            fence.lines.iter().flat_map(|line| runs(line)).map(|(_, length)| length).max();
        let mark = "`".repeat(longest.map_or(3, |length| (length + 1).max(3)));
        self.push(&format!("{mark}{}", fence.language));
        for line in &fence.lines {
            self.push(line);
        }
        self.push(&mark);
        self.push("");
    }

    fn line(&mut self, line: &str) {
        let text = line.trim_end();
        // A second blank line says nothing more.
        if text.is_empty() {
            if self.is_after_text() {
                self.push("");
            }
            return;
        }
        // At the head of a page these lines would open a front matter. That of `---js` is a program, and `gray-matter`
        // runs it.
        let opens = |mark: char| {
            text.len() - text.trim_start_matches(mark).len() == 3 && text.starts_with(mark)
        };
        if self.out.is_empty() && text == "---" {
            return self.push("***");
        }
        if self.out.is_empty() && ['-', '+', ';'].into_iter().any(opens) {
            self.out.push('\\');
        }
        let start = text.len() - text.trim_start().len();
        let (lead, rest) = text.split_at(start);
        let mut out = lead.to_owned();
        let rest = block_marks(rest, &mut out);
        Inline::new(rest).write(&mut out);
        // Code may have ended with blanks. A line must not end with them.
        self.push(out.trim_end());
    }
}

/// Writes the marks at the beginning of a line, and returns the rest.
fn block_marks<'t>(text: &'t str, out: &mut String) -> &'t str {
    for word in ["import", "export"] {
        let follows = text.strip_prefix(word).map(|rest| rest.chars().next());
        if follows.is_some_and(|next| next.is_none_or(|c| !c.is_alphanumeric())) {
            // MDX reads these words at the start of a line as code.
            let _ = write!(out, "&#{};", text.as_bytes()[0]);
            return &text[1..];
        }
    }
    // The box of a task stays a box.
    for (item, boxed) in [("- ", 2), ("* ", 2), ("+ ", 2)] {
        let Some(rest) = text.strip_prefix(item) else { continue };
        if ["[ ] ", "[x] ", "[X] "].iter().any(|mark| rest.starts_with(mark)) {
            out.push_str(&text[..boxed + 4]);
            return &text[boxed + 4..];
        }
    }
    text
}

/// The maximal runs of backticks: where each begins and how long it is.
fn runs(line: &str) -> Vec<(usize, usize)> {
    let bytes = line.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| **byte == b'`').count();
        if length > 0 {
            found.push((at, length));
        }
        at += length.max(1);
    }
    found
}

struct Inline<'t> {
    text: &'t str,
    /// Where runs of each length begin.
    ticks: BTreeMap<usize, Vec<usize>>,
    /// The text of a link, in which there is no other link.
    is_label: bool,
}

impl<'t> Inline<'t> {
    fn new(text: &'t str) -> Inline<'t> {
        // The id of a heading is written as an expression.
        let text = match text.strip_suffix('}').and_then(|whole| whole.rfind(" {#")) {
            Some(at) if text.starts_with('#') => text[..at].trim_end(),
            _ => text,
        };
        let mut ticks: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, length) in runs(text) {
            ticks.entry(length).or_default().push(at);
        }
        Inline { text, ticks, is_label: false }
    }

    fn write(&self, out: &mut String) {
        let mut at = 0;
        while let Some(c) = self.text[at..].chars().next() {
            at += self.one(at, c, out);
        }
    }

    /// Writes what begins at a byte; gives how many bytes it took.
    fn one(&self, at: usize, c: char, out: &mut String) -> usize {
        let rest = &self.text[at..];
        match c {
            '\\' => match rest[1..].chars().next() {
                Some(next) if next.is_ascii_punctuation() => {
                    out.push('\\');
                    out.push(next);
                    return 2;
                }
                _ => out.push('\\'),
            },
            '`' => return self.code_span(at, out),
            '$' => match formula(rest) {
                // Beside another backtick its own would be part of a longer run.
                Some(formula)
                    if out.ends_with('`') || rest[formula.len() + 2..].starts_with('`') =>
                {
                    out.push_str("\\$");
                }
                Some(formula) => {
                    let _ = write!(out, "`{formula}`");
                    return formula.len() + 2;
                }
                None => out.push('$'),
            },
            'h' | 'H' | 'w' | 'W' if !self.is_label => {
                if let Some((bare, ends_here)) = bare_address(&self.text[..at], rest) {
                    if ends_here {
                        out.push_str(bare);
                        return bare.len();
                    }
                    let full = match c {
                        'h' | 'H' => bare.to_owned(),
                        _ => format!("http://{bare}"),
                    };
                    let link = Link { label: bare, address: allowed(&full), bytes: bare.len() };
                    link.write(bare, out);
                    return link.bytes;
                }
                out.push(c);
            }
            '!' if rest[1..].starts_with('[') => {
                if let Some(link) = Link::read(&rest[1..]) {
                    let label = if link.label.trim().is_empty() { "image" } else { link.label };
                    link.write(label, out);
                    return link.bytes + 1;
                }
                out.push('!');
            }
            '[' => {
                if let Some(link) = Link::read(rest) {
                    link.write(link.label, out);
                    return link.bytes;
                }
                out.push_str("\\[");
            }
            '<' => match line_break(rest) {
                Some(bytes) => {
                    out.push(' ');
                    return bytes;
                }
                None => out.push_str("&lt;"),
            },
            // A directive, also behind the mark of a quote or an item.
            ':' if rest.starts_with("::") => {
                let count = rest.bytes().take_while(|byte| *byte == b':').count();
                (0..count).for_each(|_| out.push_str("\\:"));
                return count;
            }
            ']' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        c.len_utf8()
    }

    fn code_span(&self, at: usize, out: &mut String) -> usize {
        let rest = &self.text[at..];
        let length = rest.bytes().take_while(|byte| *byte == b'`').count();
        let after = at + length;
        let closing = self
            .ticks
            .get(&length)
            .and_then(|places| places.get(places.partition_point(|place| *place < after)).copied());
        let Some(closing) = closing else {
            (0..length).for_each(|_| out.push_str("\\`"));
            return length;
        };
        let code = &self.text[after..closing];
        // In a row of a table a bar ends the cell and with it the code.
        if code.contains('|') && code.contains(['{', '}', '<', '[']) {
            // Each mark is escaped: with the text before and behind it, a part of it could be a link, an
            // image or a directive.
            let mut begins = self.text[..at].trim_start().chars().all(char::is_alphabetic);
            for c in code.chars() {
                if begins && c.is_alphabetic() {
                    // At the start of a line it could be one of the words that MDX reads as code.
                    let _ = write!(out, "&#{};", u32::from(c));
                } else if c.is_ascii_punctuation() && c != '|' {
                    out.push('\\');
                    out.push(c);
                } else {
                    out.push(c);
                }
                begins &= c.is_whitespace();
            }
        } else {
            out.push_str(&self.text[at..closing + length]);
        }
        closing + length - at
    }
}

/// The formula between two dollars, when it holds what MDX would run.
fn formula(rest: &str) -> Option<&str> {
    let inside = &rest[1..];
    let first = inside.chars().next()?;
    if first.is_whitespace() || first.is_ascii_digit() || first == '$' {
        return None;
    }
    let most = inside.len().min(MATH_BYTES_MAX);
    let end = inside.bytes().take(most).position(|byte| byte == b'$')?;
    let formula = &inside[..end];
    // A dollar after a backslash does not end a formula, so text with one is not read as a formula.
    let fits = !formula.ends_with(|c: char| c.is_whitespace() || c == '\\')
        && !formula.contains(['`', '|']);
    (fits && formula.contains(['{', '}', '<'])).then_some(formula)
}

/// An address that readers would turn into a link by themselves, and whether a blank ends it. Without a
/// blank it is written as a link, because readers take what follows into it, and code is then no code.
fn bare_address<'t>(before: &str, rest: &'t str) -> Option<(&'t str, bool)> {
    let is_start =
        |mark: &str| rest.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark));
    if before.ends_with(|c: char| c.is_ascii_alphabetic())
        || !["http://", "https://", "www."].iter().any(|mark| is_start(mark))
    {
        return None;
    }
    let is_part = |c: char| c.is_alphanumeric() || "-._~/:?#=&%+,;@!".contains(c);
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let address = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?']);
    // Two colons are written with backslashes, which readers would take into the address.
    let ends_here = rest[end..].chars().next().is_none_or(char::is_whitespace)
        && !rest[address.len()..end].contains("::");
    Some((address, ends_here))
}

/// The length of a line break written as a tag.
fn line_break(rest: &str) -> Option<usize> {
    let tag = rest.get(..6).unwrap_or(rest).to_ascii_lowercase();
    ["<br />", "<br/>", "<br>"]
        .iter()
        .find(|known| tag.starts_with(**known))
        .map(|known| known.len())
}

struct Link<'t> {
    label: &'t str,
    address: Option<String>,
    bytes: usize,
}

impl<'t> Link<'t> {
    /// `[label](address "title")` at the start of a text, within its line.
    fn read(text: &'t str) -> Option<Link<'t>> {
        let mut at = 1;
        loop {
            match text[at..].chars().next()? {
                ']' => break,
                '[' | '`' => return None,
                '\\' => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
                c => at += c.len_utf8(),
            }
        }
        let label = &text[1..at];
        let inside = text[at + 1..].strip_prefix('(')?;
        let mut depth = 0_usize;
        let end = inside.char_indices().take(ADDRESS_BYTES_MAX).find_map(|(at, c)| match c {
            '(' => {
                depth += 1;
                None
            }
            ')' if depth == 0 => Some(at),
            ')' => {
                depth -= 1;
                None
            }
            _ => None,
        })?;
        let target = inside[..end].trim();
        let target = target.split_whitespace().next().unwrap_or_default();
        let target = target.trim_start_matches('<').trim_end_matches('>');
        Some(Link { label, address: allowed(target), bytes: at + 2 + end + 1 })
    }

    fn write(&self, label: &str, out: &mut String) {
        if self.address.is_some() {
            out.push('[');
        }
        Inline { is_label: true, ..Inline::new(label) }.write(out);
        if let Some(address) = &self.address {
            let _ = write!(out, "]({address})");
        }
    }
}

/// An address that leads to the web, to a mail program or to a place in the page, as it may be written.
fn allowed(target: &str) -> Option<String> {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_known = matches!(scheme.as_deref(), Some("http" | "https" | "mailto"));
    if !(is_known || (target.starts_with('#') && target.len() > 1)) {
        return None;
    }
    let mut safe = String::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => safe.push(char::from(byte)),
            byte if b"-._~/:?#=&%+,;@!$'*".contains(&byte) => safe.push(char::from(byte)),
            other => {
                let _ = write!(safe, "%{other:02X}");
            }
        }
    }
    Some(safe)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_keeps_its_form_and_loses_active_parts() {
        for (given, inert_page) in [
            ("# Title {#own}\n\ntext **bold** `a{b}`", "# Title\n\ntext **bold** `a{b}`"),
            ("{process.pid} <b>x</b> a<br/>b", "\\{process.pid\\} &lt;b>x&lt;/b> a b"),
            ("import x from 'y'\nimportant", "&#105;mport x from 'y'\nimportant"),
            ("export const a = 1", "&#101;xport const a = 1"),
            ("[a](https://e.org/x_(y)) [b](javascript:x)", "[a](https://e.org/x_%28y%29) b"),
            ("![tracker](https://e.org/a.png)", "[tracker](https://e.org/a.png)"),
            ("![x](../../secret.png) [y](#below)", "x [y](#below)"),
            ("[r]: javascript:x\n[r]", "\\[r\\]: javascript:x\n\\[r\\]"),
            ("a ` {x} b", "a \\` \\{x\\} b"),
            ("| `a|{b}` | `c{d}` |", "| a|\\{b\\} | `c{d}` |"),
            // A bar inside code would end a table cell. Text beside such code must not become active
            // with a part of it.
            ("!`[a](https://e.org)|`", "!\\[a\\]\\(https\\:\\/\\/e\\.org\\)|"),
            (":`:x|{`", ":\\:x|\\{"),
            ("`import x|{`", "&#105;mport x|\\{"),
            ("imp`ort x|{`", "imp&#111;rt x|\\{"),
            ("$$`<$$|`", "$$\\<\\$\\$|"),
            ("````- [ ] |](https://e````[", "\\- \\[ \\] |\\]\\(https\\:\\/\\/e\\["),
            ("---js\n{a: f()}\n---\nx", "\\---js\n\\{a: f()\\}\n---\nx"),
            ("\u{feff}\n--- javascript\nf()", "\\--- javascript\nf()"),
            ("+++\na = 1\n+++", "\\+++\na = 1\n+++"),
            ("----\nx", "----\nx"),
            (":::danger\nx\n:::", "\\:\\:\\:danger\nx\n\\:\\:\\:"),
            ("- [ ] buy {milk}", "- [ ] buy \\{milk\\}"),
            ("costs $5 {x} and $6", "costs $5 \\{x\\} and $6"),
            ("so $\\frac{a}{b}$ holds", "so `\\frac{a}{b}` holds"),
            ("$$\nx^{2}\n$$\nend", "```math\nx^{2}\n```\n\nend"),
            ("$$x$$", "```math\nx\n```"),
            ("  ```js live\n  {x}\n  ```", "```js\n{x}\n```"),
            ("```mdx-code-block\n<Evil/>\n```", "```text\n<Evil/>\n```"),
            ("~~~\n```\n{x}\n~~~\nafter", "````\n```\n{x}\n````\n\nafter"),
            ("see https://e.org/a, or WWW.e.org.", "see https://e.org/a, or WWW.e.org."),
            ("https://e.org>`{x}`", "[https://e.org](https://e.org)>`{x}`"),
            ("https://e::x{", "[https://e\\:\\:x](https://e::x)\\{"),
            ("---\nslug: x\n---", "***\nslug: x\n---"),
            ("a\u{202e}b", "a(U+202E)b"),
        ] {
            assert_eq!(inert(given), inert_page, "{given}");
            assert_eq!(inert(inert_page), inert_page, "again: {given}");
        }
    }

    #[test]
    fn the_front_matter_stays_within_its_page() {
        let given = json!({
            "slug": "../../admin//x", "title": "a\n---\nb", "custom_edit_url": "javascript:x",
            "tags": ["one", {"label": "x", "permalink": "/admin"}], "format": "mdx", "image": "https://e.org/x",
        });
        let front = front_matter(given.as_object().unwrap());
        assert_eq!(
            Value::Object(front),
            json!({"slug": "admin/x", "title": "a --- b", "tags": ["one"]})
        );
        assert_eq!(slug_within("/.././..."), "");
    }

    #[test]
    fn a_formula_beside_backticks_stays_a_formula() {
        assert_eq!(inert("$a{b}$ c"), "`a{b}` c");
        assert_eq!(inert("$<a$```"), r"\$&lt;a$\`\`\`");
        assert_eq!(inert("`x`$<a$"), r"`x`\$&lt;a$");
    }

    proptest! {
        #[test]
        fn an_inert_page_is_inert(text in "([\\\\`{}<>\\[\\]()!$~#*|a \n:/-]|```|\\$\\$|import |\\]\\(https://e|\\]\\(javascript:|- \\[ \\] |mdx-code-block){0,60}") {
            let once = inert(&text);
            prop_assert_eq!(inert(&once), once);
        }
    }
}
