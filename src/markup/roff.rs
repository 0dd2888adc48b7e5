//! Manual pages, as the macros `man` and `mdoc` of roff write them: their words with headings and items.
//!
//! Contract: pure. A line that begins with a dot is a request. Requests for headings, paragraphs, items and unfilled
//! text make the layout, requests for a font give their words, and all others are left out. Fonts, sizes and comments
//! are no text. Macros that a page defines itself, and tables and equations of preprocessors, are not carried out.

use super::document::{Document, with_marks};

/// Bytes at the beginning that say whether a text is a manual page.
const HEAD_BYTES: usize = 16 << 10;
/// The kind of a manual page.
const KIND: &str = "man";

/// Whether a text is a manual page: its first request names it, and one behind names a section.
pub(crate) fn is_page(text: &str) -> bool {
    let head = super::prefix(text, HEAD_BYTES);
    let mut said = head.lines().filter(|line| !line.trim().is_empty() && !is_comment(line));
    let is =
        |line: &str, names: &[&str]| request(line).is_some_and(|(name, _)| names.contains(&name));
    said.next().is_some_and(|line| is(line, &["TH", "Dd", "Dt"]))
        && said.any(|line| is(line, &["SH", "Sh"]))
}

/// Reads a manual page.
pub(crate) fn document(text: &str) -> Document {
    let mut page = Page::default();
    for line in text.lines() {
        page.take(line);
    }
    page.ends_code();
    let Page { text: body, title, .. } = page;
    let body = body.trim().to_owned();
    with_marks(Document { kind: KIND, text: body, title, ..Document::default() }, text)
}

fn is_comment(line: &str) -> bool {
    [".\\\"", "'\\\"", "'''", ".\\#"].iter().any(|mark| line.starts_with(mark))
}

/// The name of a request and what stands behind it.
fn request(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix(['.', '\''])?.trim_start_matches([' ', '\t']);
    let end = rest.find([' ', '\t']).unwrap_or(rest.len());
    Some((&rest[..end], rest[end..].trim()))
}

#[derive(Default)]
struct Page {
    text: String,
    title: Option<String>,
    /// The name of the program, which `mdoc` writes once.
    name: String,
    /// What the next line of words begins with: a heading or the label of an item.
    due: Option<Due>,
    is_code: bool,
    /// The end of what is left out.
    left_out: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Heading(usize),
    Label,
}

impl Page {
    fn take(&mut self, line: &str) {
        if let Some(end) = self.left_out {
            self.left_out = self.left_out.filter(|_| !line.contains(end));
            return;
        }
        if is_comment(line) {
            return;
        }
        match request(line) {
            Some((name, rest)) => self.request(name, rest),
            None if line.trim().is_empty() && !self.is_code => self.breaks("\n\n"),
            None => self.words(&plain(line)),
        }
    }

    fn request(&mut self, name: &str, rest: &str) {
        let all = arguments(rest);
        match name {
            "TH" | "Dt" => {
                let name = all.first().map(|name| name.to_lowercase());
                let section = all.get(1).map(|one| format!("({one})")).unwrap_or_default();
                self.title = name.map(|name| format!("{name}{section}"));
            }
            "SH" | "Sh" => self.heading(1, &all.join(" ")),
            "SS" | "Ss" => self.heading(2, &all.join(" ")),
            "PP" | "P" | "LP" | "Pp" | "HP" | "RS" | "RE" | "sp" | "Bl" | "El" => {
                self.breaks("\n\n")
            }
            "br" | "Nl" => self.breaks("\n"),
            "TP" | "TQ" => {
                self.breaks("\n\n");
                self.due = Some(Due::Label);
            }
            "IP" => {
                let label = all.first().map(String::as_str).unwrap_or_default();
                let is_sign = !label.contains(char::is_alphanumeric);
                self.item(if is_sign { "" } else { label });
            }
            "It" => self.item(&mdoc(&all, &self.name)),
            "nf" | "EX" | "Bd" => {
                self.breaks("\n\n");
                self.is_code = true;
                self.text.push_str("```\n");
            }
            "fi" | "EE" | "Ed" => self.ends_code(),
            "B" | "I" | "SB" | "SM" | "UR" | "MT" => self.words(&all.join(" ")),
            "BI" | "BR" | "IB" | "IR" | "RB" | "RI" => self.words(&all.concat()),
            "UE" | "ME" => self.words(&all.concat()),
            "Nm" => {
                if let (true, Some(name)) = (self.name.is_empty(), all.first()) {
                    self.name.clone_from(name);
                }
                let all: Vec<String> = ["Nm".to_owned()].into_iter().chain(all).collect();
                self.words(&mdoc(&all, &self.name));
            }
            "de" | "de1" | "am" | "ig" => self.left_out = Some(".."),
            "if" | "ie" | "el" if rest.contains("\\{") => self.left_out = Some("\\}"),
            name if MDOC.contains(&name) => {
                let all: Vec<String> = [name.to_owned()].into_iter().chain(all).collect();
                self.words(&mdoc(&all, &self.name));
            }
            _ => {}
        }
    }

    fn heading(&mut self, level: usize, words: &str) {
        self.ends_code();
        self.breaks("\n\n");
        self.due = Some(Due::Heading(level));
        self.words(words);
    }

    fn item(&mut self, label: &str) {
        self.breaks("\n\n");
        self.text.push_str("- ");
        if !label.is_empty() {
            self.text.push_str(label);
            self.text.push_str(": ");
        }
    }

    fn words(&mut self, words: &str) {
        if self.is_code {
            self.text.push_str(words.trim_end());
            self.text.push('\n');
            return;
        }
        let words = words.trim();
        if words.is_empty() {
            return;
        }
        match self.due.take() {
            Some(Due::Heading(level)) => {
                self.text.push_str(&format!("{} {words}\n\n", "#".repeat(level)));
            }
            Some(Due::Label) => self.text.push_str(&format!("- {words}: ")),
            None => {
                let is_open = !self.text.is_empty() && !self.text.ends_with(char::is_whitespace);
                self.text.push_str(if is_open { " " } else { "" });
                self.text.push_str(words);
            }
        }
    }

    fn breaks(&mut self, wanted: &str) {
        self.due = None;
        if self.is_code {
            return self.text.push('\n');
        }
        let kept = self.text.trim_end_matches(' ').len();
        self.text.truncate(kept);
        if !self.text.is_empty() && !self.text.ends_with(wanted) {
            self.text.push_str(if self.text.ends_with('\n') { &wanted[1..] } else { wanted });
        }
    }

    fn ends_code(&mut self) {
        if std::mem::take(&mut self.is_code) {
            self.text.truncate(self.text.trim_end().len());
            self.text.push_str("\n```\n\n");
        }
    }
}

/// The arguments of a request, without their escapes. A quote in a quoted one is doubled.
fn arguments(rest: &str) -> Vec<String> {
    let (mut all, mut rest) = (Vec::new(), rest.trim_start());
    while !rest.is_empty() && !rest.starts_with("\\\"") {
        let mut one = String::new();
        let mut chars = rest.char_indices().peekable();
        let is_quoted = rest.starts_with('"') && chars.next().is_some();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => {
                    one.push(c);
                    one.extend(chars.next().map(|(_, next)| next));
                }
                '"' if is_quoted && chars.next_if(|(_, next)| *next == '"').is_none() => {
                    end = at + 1;
                    break;
                }
                ' ' | '\t' if !is_quoted => {
                    end = at;
                    break;
                }
                c => one.push(c),
            }
        }
        all.push(plain(&one));
        rest = rest[end..].trim_start();
    }
    all
}

/// Macros of `mdoc` that stand in a line and give the words behind them.
const MDOC: [&str; 46] = [
    "Ad", "An", "Ao", "Ac", "Aq", "Ar", "Bq", "Brq", "Bx", "Cd", "Cm", "Dl", "D1", "Dq", "Dv",
    "Em", "Er", "Ev", "Fa", "Fd", "Fl", "Fn", "Fr", "Ft", "Fx", "Ic", "In", "Li", "Lk", "Ms", "Mt",
    "Nd", "Nm", "No", "Ns", "Op", "Pa", "Pq", "Ql", "Qq", "Sq", "Sx", "Sy", "Tn", "Va", "Xr",
];

/// The words of a line of `mdoc`: `Fl a Ar file` is `-a file`.
fn mdoc(all: &[String], name: &str) -> String {
    let (mut out, mut ends) = (String::new(), Vec::new());
    let (mut is_flag, mut is_page, mut is_bare_name, mut glues) = (false, false, false, false);
    let push = |out: &mut String, word: &str, glues: bool| {
        let is_sign = matches!(word, "." | "," | ";" | ":" | ")" | "]" | "?" | "!");
        let is_open = out.is_empty() || out.ends_with(['(', '[', '“', '‘', '<', '{', '-']);
        out.push_str(if is_open || is_sign || glues { "" } else { " " });
        out.push_str(word);
    };
    for word in all {
        let is_macro = MDOC.contains(&word.as_str());
        if is_bare_name && is_macro {
            push(&mut out, name, glues);
        }
        if is_macro {
            (is_flag, is_page, is_bare_name) = (word == "Fl", word == "Xr", word == "Nm");
            glues |= word == "Ns";
            let (open, close) = match word.as_str() {
                "Op" | "Bq" => ("[", "]"),
                "Pq" => ("(", ")"),
                "Brq" => ("{", "}"),
                "Aq" => ("<", ">"),
                "Dq" | "Qq" => ("“", "”"),
                "Sq" | "Ql" => ("‘", "’"),
                "Nd" => ("–", ""),
                _ => continue,
            };
            push(&mut out, open, glues);
            ends.push(close);
            continue;
        }
        is_bare_name = false;
        if is_flag {
            push(&mut out, &format!("-{word}"), glues);
        } else if is_page && word.chars().all(|c| c.is_ascii_digit()) {
            out.push_str(&format!("({word})"));
        } else {
            push(&mut out, word, glues);
        }
        glues = false;
    }
    if is_bare_name {
        push(&mut out, name, glues);
    }
    ends.into_iter().rev().for_each(|end| out.push_str(end));
    out
}

/// Words without their escapes.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let Some(sign) = after.chars().next() else { return out };
        let behind = &after[sign.len_utf8()..];
        rest = match sign {
            '"' | '#' => return out,
            'f' | 'F' | 'n' | 'm' | 'M' | 'g' | 'k' => named(behind).1,
            's' => size(behind),
            '*' | '(' | '[' => {
                let (name, rest) = named(if sign == '*' { behind } else { after });
                out.push_str(&special(name));
                rest
            }
            'h' | 'v' | 'w' | 'o' | 'l' | 'L' | 'D' | 'b' | 'x' | 'X' | 'A' | 'N' | 'S' | 'H'
            | 'Z' => quoted(behind),
            '-' => {
                out.push('-');
                behind
            }
            'e' | 'E' | '\\' => {
                out.push('\\');
                behind
            }
            ' ' | '~' | '0' | 't' => {
                out.push(' ');
                behind
            }
            '&' | '|' | '^' | '/' | ',' | '%' | ':' | 'c' | '!' | ')' | 'z' | 'u' | 'd' | 'p'
            | '{' | '}' => behind,
            sign => {
                out.push(sign);
                behind
            }
        };
    }
    out.push_str(rest);
    out
}

/// A name of one sign, of two behind `(`, or of several in brackets, and what follows it.
fn named(text: &str) -> (&str, &str) {
    if let Some((name, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return (name, rest);
    }
    let (text, count) = match text.strip_prefix('(') {
        Some(text) => (text, 2),
        None => (text, 1),
    };
    let end = text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    text.split_at(end)
}

/// What follows a size: `+1`, `(12`, `[12]`.
fn size(text: &str) -> &str {
    named(text.strip_prefix(['+', '-']).unwrap_or(text)).1
}

/// What follows an argument in quotes of any sign.
fn quoted(text: &str) -> &str {
    let Some(mark) = text.chars().next() else { return text };
    text[mark.len_utf8()..].split_once(mark).map_or("", |(_, rest)| rest)
}

/// The character of a name.
fn special(name: &str) -> String {
    const SIGNS: [(&str, &str); 33] = [
        ("em", "—"),
        ("en", "–"),
        ("hy", "-"),
        ("mi", "−"),
        ("bu", "•"),
        ("aq", "'"),
        ("dq", "\""),
        ("lq", "“"),
        ("rq", "”"),
        ("oq", "‘"),
        ("cq", "’"),
        ("co", "©"),
        ("rg", "®"),
        ("tm", "™"),
        ("R", "®"),
        ("Tm", "™"),
        ("mu", "×"),
        ("<=", "≤"),
        (">=", "≥"),
        ("->", "→"),
        ("<-", "←"),
        ("rs", "\\"),
        ("ti", "~"),
        ("ha", "^"),
        ("ga", "`"),
        ("la", "⟨"),
        ("ra", "⟩"),
        ("de", "°"),
        ("+-", "±"),
        ("sc", "§"),
        ("eu", "€"),
        ("ss", "ß"),
        ("ul", "_"),
    ];
    const ACCENTS: [(char, char); 6] = [
        ('\'', '\u{301}'),
        ('`', '\u{300}'),
        (':', '\u{308}'),
        ('^', '\u{302}'),
        ('~', '\u{303}'),
        (',', '\u{327}'),
    ];
    if let Some((_, sign)) = SIGNS.iter().find(|(known, _)| *known == name) {
        return (*sign).to_owned();
    }
    let mut chars = name.chars();
    if let (Some(first), Some(letter), None) = (chars.next(), chars.next(), chars.next()) {
        let accent = ACCENTS.iter().find(|(sign, _)| *sign == first);
        return accent.map(|(_, accent)| format!("{letter}{accent}")).unwrap_or_default();
    }
    let code = name.strip_prefix('u').and_then(|hex| u32::from_str_radix(hex, 16).ok());
    code.and_then(char::from_u32).map(String::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_man_becomes_headings_paragraphs_and_items() {
        let page = ".\\\" A comment\n.TH ROOF 1 2026-03-05\n.SH NAME\nroof \\- mends a \\fBroof\\fP\n\
            .SH \"SEE ALSO\"\n.de XX\nnever\n..\n.BR pump (1),\nand\n.I \"the well\"\n.PP\nIt costs 240\\ EUR \\(em or so.\n\
            .TP\n.B \\-v\nsays more\n.IP \\(bu 2\na point\n.nf\nroof  --all\n.fi\n.if n .ad l\n.SS Caf\\('e\nEnd\\&.\n";
        assert!(is_page(page));
        let read = document(page);
        assert_eq!(read.title.as_deref(), Some("roof(1)"));
        assert_eq!(
            read.text.replace('\u{301}', "'"),
            "# NAME\n\nroof - mends a roof\n\n# SEE ALSO\n\npump(1), and the well\n\nIt costs 240 EUR — or so.\n\n\
             - -v: says more\n\n- a point\n\n```\nroof  --all\n```\n\n## Cafe'\n\nEnd."
        );
    }

    #[test]
    fn a_page_of_mdoc_gives_its_words() {
        let page = ".Dd March 5, 2026\n.Dt ROOF 1\n.Os\n.Sh NAME\n.Nm roof\n.Nd mend a roof\n.Sh SYNOPSIS\n.Nm\n\
            .Op Fl v\n.Ar file\n.Sh DESCRIPTION\nSee\n.Xr pump 1 .\n.Bl -tag\n.It Fl v\nsays more\n.El\n";
        assert!(is_page(page));
        assert_eq!(
            document(page).text,
            "# NAME\n\nroof – mend a roof\n\n# SYNOPSIS\n\nroof [-v] file\n\n# DESCRIPTION\n\nSee pump(1).\n\n- -v: says more"
        );
    }

    #[test]
    fn other_texts_with_dots_are_no_pages() {
        for text in ["", ".gitignore\n.SH x", ".TH A 1\nwords", "The file\n.TH A 1\n.SH B"] {
            assert!(!is_page(text), "{text}");
        }
    }
}
