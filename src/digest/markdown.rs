//! Escapes foreign text for our Markdown.
//!
//! Contract. The result of [`inline`] is one line that starts no block and opens no tag, no brace
//! expression and no link. It reads the same as Markdown and as MDX. Front matter values are quoted
//! JSON strings, which every YAML reader takes as text.

use std::ops::Range;

use serde_json::Value;

use crate::contract::shown::named;
use crate::markup::markdown::{Kind, lines};

/// Characters without a width that turn nothing.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{2060}'..='\u{2065}')
}

/// The text on one line. Blanks and line ends become single spaces; characters that steer are named, and invisible ones are
/// removed.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in named(text).chars().map(|c| if c.is_whitespace() { ' ' } else { c }) {
        if is_invisible(c) || (c == ' ' && (line.is_empty() || line.ends_with(' '))) {
            continue;
        }
        line.push(c);
    }
    line.truncate(line.trim_end().len());
    line
}

/// Shortens a text to `chars` characters, between words where possible.
pub(crate) fn shorten(text: &str, chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(chars) else { return text.to_owned() };
    let cut = &text[..end];
    let word = cut.rfind(' ').filter(|at| *at > end * 3 / 4).unwrap_or(end);
    format!("{}…", cut[..word].trim_end_matches([' ', ',', ';', ':', '.']))
}

/// A text as inline Markdown. What readers would make a link without being asked, an address of the web or
/// of mail, is code: it is shown as it is, and nothing opens.
pub fn inline(text: &str) -> String {
    let line = one_line(text);
    let mut safe = String::with_capacity(line.len() + 16);
    let number = line.chars().take_while(char::is_ascii_digit).count();
    let mut code = addresses(&line).into_iter().peekable();
    for (at, c) in line.char_indices() {
        while code.next_if(|span| span.end <= at).is_some() {}
        if let Some(span) = code.peek().filter(|span| span.contains(&at)) {
            if span.start == at {
                safe.push_str(&format!("`{}`", &line[span.clone()]));
            }
            continue;
        }
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '{' => safe.push_str("&#123;"),
            '}' => safe.push_str("&#125;"),
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' | '$' => {
                safe.push('\\');
                safe.push(c);
            }
            // Inside a word these start neither emphasis nor a heading nor a tag.
            '_' | '#' if !is_inside_word(&line, at) => {
                safe.push('\\');
                safe.push(c);
            }
            // `:name` is a directive for readers that know them.
            ':' if line[at + 1..].starts_with(char::is_alphabetic) => {
                safe.push('\\');
                safe.push(c);
            }
            '-' | '+' | '=' | ':' if at == 0 => {
                safe.push('\\');
                safe.push(c);
            }
            '.' | ')' if number > 0 && at == number => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
    }
    safe
}

/// The parts of a line that readers of Markdown make links of.
fn addresses(line: &str) -> Vec<Range<usize>> {
    let ends = |c: char| c == ' ' || matches!(c, '|' | '`' | '<' | '>' | '"');
    let mut found = Vec::new();
    let mut at = 0;
    for word in line.split_inclusive(ends) {
        let begin = at;
        at += word.len();
        let word = word.trim_end_matches(ends);
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/');
        let offset = begin + word.find(bare).unwrap_or(0);
        if is_address(bare) {
            found.push(offset..offset + bare.len());
        }
    }
    found
}

/// Whether a word holds what is linked by itself: a scheme, `www.`, or an address of mail.
fn is_address(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let begins = ["www.", "mailto:", "xmpp:"].iter().any(|scheme| lower.contains(scheme));
    let is_mail = word.match_indices('@').any(|(at, _)| {
        let before = word[..at].ends_with(|c: char| c.is_alphanumeric() || "._+-".contains(c));
        before && word[at + 1..].starts_with(char::is_alphanumeric)
    });
    lower.contains("://") || begins || is_mail
}

/// True when a letter stands before the character and, unless the character ends the word, another
/// letter follows.
fn is_inside_word(line: &str, at: usize) -> bool {
    let mut after = line[at..].chars();
    let c = after.next();
    let before = line[..at].chars().next_back().is_some_and(char::is_alphanumeric);
    let after = after.next().is_some_and(char::is_alphanumeric);
    before && (after || c == Some('#'))
}

/// A text for a cell or a link; never empty.
pub fn label(text: &str, chars: usize) -> String {
    match shorten(&one_line(text), chars) {
        empty if empty.is_empty() => "untitled".to_owned(),
        short => inline(&short),
    }
}

/// A path or an address as the target of a link. Bytes that could end the link are escaped; `None`
/// for one that holds what no address has.
pub(crate) fn address(target: &str) -> Option<String> {
    if target.len() > 2_000 || target.chars().any(char::is_control) {
        return None;
    }
    let mut safe = String::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => safe.push(char::from(byte)),
            b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b'?' | b'#' | b'=' | b'&' | b'%' | b'+'
            | b',' | b';' | b'@' => safe.push(char::from(byte)),
            other => {
                let _ = std::fmt::Write::write_fmt(&mut safe, format_args!("%{other:02X}"));
            }
        }
    }
    Some(safe)
}

/// A value of the front matter.
pub fn front(value: &str) -> String {
    Value::String(one_line(value)).to_string()
}

/// Whether a text begins with the name of who says it: `Ana: …`.
pub(crate) fn names_speaker(text: &str) -> bool {
    const NAME_CHARS_MAX: usize = 40;
    let Some((name, _)) = text.split_once(": ") else { return false };
    name.starts_with(char::is_uppercase)
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.contains([';', '.', '?', '!'])
}

/// The words of a Markdown text, without headings, fences and marks of lists and emphasis.
pub fn plain(markdown: &str) -> String {
    plain_lines(markdown, "")
}

/// The same with a semicolon before each item of a list and each line of a chat, where no mark ends the line
/// before it.
pub(crate) fn plain_apart(markdown: &str) -> String {
    plain_lines(markdown, ";")
}

fn plain_lines(markdown: &str, open_end: &str) -> String {
    let mut words = String::new();
    for line in lines(markdown) {
        let text = line.text.trim();
        let is_mark = match line.kind {
            Kind::Heading { .. } | Kind::Blank | Kind::Break => true,
            Kind::Fenced => text.starts_with("```") || text.starts_with("~~~"),
            // The line under a heading, and the line under the head of a table.
            Kind::Text => {
                text.len() > 2 && text.chars().all(|c| matches!(c, '-' | '=' | '|' | ':' | ' '))
            }
        };
        if is_mark {
            continue;
        }
        let begins = text.starts_with(['-', '*', '+']) || names_speaker(text);
        if begins && words.trim_end().ends_with(char::is_alphanumeric) {
            words.truncate(words.trim_end().len());
            words.push_str(open_end);
            words.push(' ');
        }
        let line = text.trim_start_matches(['-', '*', '>', '+', ' ']);
        words.push_str(&line.replace("**", "").replace("__", "").replace('`', ""));
        words.push(' ');
    }
    one_line(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_never_becomes_markup() {
        for (text, safe) in [
            ("a <b>{c}</b> & d", "a &lt;b&gt;&#123;c&#125;&lt;/b&gt; &amp; d"),
            ("# head\n- item", "\\# head - item"),
            ("- x", "\\- x"),
            ("12. x", "12\\. x"),
            ("1.5 x", "1\\.5 x"),
            ("[a](b) ![c](d)", "\\[a\\](b) !\\[c\\](d)"),
            ("C# in snake_case_2, _x_ #tag a#b!", "C# in snake_case_2, \\_x\\_ \\#tag a#b!"),
            ("`x` ~~y~~ *z* _u_ a|b", "\\`x\\` \\~\\~y\\~\\~ \\*z\\* \\_u\\_ a\\|b"),
            (":::danger", "\\::\\:danger"),
            ("a\u{0}b\u{202e}c\r\n\td", "a(U+0000)b(U+202E)c d"),
            ("a\u{200e}b\u{200d}c\u{2066}", "abc(U+2066)"),
            ("$x$", "\\$x\\$"),
            ("see https://example.org/a?b=c_d, now", "see `https://example.org/a?b=c_d`, now"),
            ("(HTTP://x.example)", "(`HTTP://x.example`)"),
            ("www.example.org and ana@example.org.", "`www.example.org` and `ana@example.org`."),
            ("<ana+x@example.org>|mailto:b", "&lt;`ana+x@example.org`&gt;\\|`mailto:b`"),
            ("[x](https://evil.example)", "\\[`x](https://evil.example`)"),
            ("`https://a.example`", "\\``https://a.example`\\`"),
            ("a :danger b:warning 10:30 x: y", "a \\:danger b\\:warning 10:30 x: y"),
            ("a\u{e0041}b\u{e007f}c", "a(U+E0041)b(U+E007F)c"),
            ("@ana, 5 @ 3", "@ana, 5 @ 3"),
        ] {
            assert_eq!(inline(text), safe);
        }
        assert_eq!(label(" \u{200b} ", 10), "untitled");
        assert_eq!(front("a\"b\n---\nc: d"), "\"a\\\"b --- c: d\"");
    }

    #[test]
    fn texts_are_cut_between_words() {
        assert_eq!(shorten("one two three", 100), "one two three");
        assert_eq!(shorten("one two three, four", 14), "one two three…");
        assert_eq!(shorten(&"é".repeat(50), 10), format!("{}…", "é".repeat(10)));
    }

    #[test]
    fn plain_text_has_no_marks() {
        let text =
            "### Goal\nDo **it** now.\n\n- first `x`\n* second\n```\n# code\n```\n---\n> said";
        assert_eq!(plain(text), "Do it now. first x second # code said");
        assert_eq!(
            plain_apart("Ana: fine\nBen: who?\nAna: Ivan"),
            "Ana: fine; Ben: who? Ana: Ivan"
        );
        assert_eq!(plain("#1 in sales\n\n| a | b |\n| --- | --- |\n"), "#1 in sales | a | b |");
    }
}
