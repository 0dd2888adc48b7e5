//! LaTeX as a Markdown page: front matter, Markdown, mathematics kept as written for KaTeX.
//!
//! This translates the commands papers use, line by line. An unknown command is dropped and its argument
//! kept. Mathematics (`$…$`, `\[…\]`, display environments) passes untouched; braces and `<` outside it
//! are escaped because MDX would read them. Citations and references become bracketed keys.

use serde_json::{Map, Value};

use super::super::phrases::key_phrases;
use super::super::rank::select::shorten;
use super::super::text::{Part, Text, lines};
use super::filled::Filled;
use super::page::{escape_text, front_matter};
use super::scene::Scene;
use super::texts::tag;

/// Deepest nesting of command arguments followed.
const DEPTH_MAX: usize = 12;

const DISPLAY: [&str; 10] = [
    "equation",
    "equation*",
    "align",
    "align*",
    "gather",
    "gather*",
    "multline",
    "multline*",
    "displaymath",
    "eqnarray",
];

pub(super) fn page(
    scene: &Scene<'_, '_>,
    filename: &str,
    untitled: &str,
    shape: &Map<String, Value>,
) -> Filled {
    if scene.text.is_blank() {
        return Filled::Nothing;
    }
    let source: Vec<&str> = scene.text.parts.iter().map(|part| part.text).collect();
    let body = convert(&source.join("\n\n"));
    let named = scene.input_text(filename, &scene.all()).map(|name| {
        name.rsplit('/').next().unwrap_or(&name).trim_end_matches(".tex").replace(['_', '-'], " ")
    });
    let heading = body
        .lines()
        .find_map(|line| line.strip_prefix("## ").or_else(|| line.strip_prefix("# ")))
        .map(str::to_string);
    let title = heading.or(named).unwrap_or_else(|| untitled.to_string());
    let head = front_matter(shape, &title, &description(&body), &tags(&body));
    Filled::text(format!("{head}{}\n", body.trim()))
}

/// Key phrases of the prose alone: commands and formulas are gone or skipped.
fn tags(body: &str) -> Vec<String> {
    let prose: Vec<&str> = body.lines().filter(|line| !line.contains(['$', '\\', '_'])).collect();
    let prose = prose.join("\n");
    let text = Text::new(vec![Part { id: "", text: &prose }]);
    let all: Vec<usize> = (0..text.sentences.len()).collect();
    key_phrases(&text, &all, 5)
        .into_iter()
        .map(|phrase| tag(&prose[phrase.start..phrase.end]))
        .collect()
}

fn description(body: &str) -> String {
    let paragraphs = body
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let prose = paragraphs
        .filter(|text| text.len() > 40)
        .find(|text| !text.starts_with(['#', '$', '-', '>', '!', '|']));
    let plain: String = prose
        .unwrap_or_else(|| body.to_string())
        .chars()
        .filter(|c| !matches!(c, '*' | '`' | '\\' | '#' | '$'))
        .collect();
    let first = plain.split_inclusive(". ").next().unwrap_or(&plain).trim();
    shorten(first, 200).to_string()
}

pub(super) fn convert(source: &str) -> String {
    let mut writer = Writer::default();
    // In a text that is no LaTeX, `100% sure` is no comment.
    let commanded = crate::markup::latex::is_source(source);
    for line in source.lines() {
        writer.line(if commanded { strip_comment(line) } else { line });
    }
    writer.finish()
}

#[derive(Default)]
struct Writer {
    out: String,
    math: Option<String>,
    code: Option<&'static str>,
    lists: Vec<bool>,
    drop: usize,
    /// The body of the table at hand.
    table: Option<String>,
}

impl Writer {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        if let Some(end) = self.code {
            if trimmed.starts_with(end) {
                self.code = None;
                self.out.push_str("```\n\n");
            } else {
                self.push(line);
            }
            return;
        }
        if let Some(end) = self.math.clone() {
            return self.math_line(trimmed, &end);
        }
        if let Some(body) = self.table.as_mut().filter(|_| !trimmed.starts_with("\\end{tabular")) {
            body.push_str(trimmed);
            body.push(' ');
            return;
        }
        if let Some(name) = environment(trimmed, "\\begin{") {
            return self.begin(name, trimmed);
        }
        if let Some(name) = environment(trimmed, "\\end{") {
            return self.end(name);
        }
        if trimmed == "\\[" || (trimmed.starts_with("$$") && trimmed.matches("$$").count() == 1) {
            self.out.push_str("\n$$\n");
            self.math = Some(if trimmed == "\\[" { "\\]" } else { "$$" }.to_string());
            let rest = trimmed.trim_start_matches(['$', '\\', '[']);
            if !rest.is_empty() {
                self.push(rest);
            }
            return;
        }
        self.prose(trimmed);
    }

    fn prose(&mut self, trimmed: &str) {
        if let Some((level, range)) =
            lines::marked_heading(trimmed).filter(|_| trimmed.starts_with('\\'))
        {
            let title = inline(&trimmed[range], 0);
            return self.push(&format!("\n{} {}\n", "#".repeat(usize::from(level)), title.trim()));
        }
        if let Some(item) = trimmed.strip_prefix("\\item") {
            let depth = self.lists.len().saturating_sub(1);
            let mark = if self.lists.last() == Some(&true) { "1. " } else { "- " };
            let item = item.trim_start();
            let (label, rest) = match item.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((label, rest)) => (format!("**{}** ", inline(label, 0)), rest.trim_start()),
                None => (String::new(), item),
            };
            return self.push(&format!("{}{mark}{label}{}", "  ".repeat(depth), inline(rest, 0)));
        }
        self.push(&inline(trimmed, 0));
    }

    fn math_line(&mut self, trimmed: &str, end: &str) {
        match trimmed.strip_suffix(end) {
            Some(last) => {
                if !last.trim().is_empty() {
                    self.push(last.trim());
                }
                if end.starts_with("\\end")
                    && !end.contains("equation")
                    && !end.contains("displaymath")
                {
                    self.push(&format!("\\end{{{}}}", inner_environment(end)));
                }
                self.out.push_str("$$\n\n");
                self.math = None;
            }
            None if without_label(trimmed).trim().is_empty() => {}
            None => self.push(&without_label(trimmed)),
        }
    }

    fn begin(&mut self, name: &str, line: &str) {
        if DISPLAY.contains(&name) {
            self.out.push_str("\n$$\n");
            let end = format!("\\end{{{name}}}");
            if !name.contains("equation") && name != "displaymath" {
                self.push(&format!("\\begin{{{}}}", inner_environment(&end)));
            }
            let rest =
                without_label(line.split_once('}').map_or("", |(_, rest)| rest)).trim().to_string();
            self.math = Some(end.clone());
            if !rest.is_empty() {
                self.math_line(&rest, &end);
            }
            return;
        }
        match name {
            "itemize" | "description" => self.lists.push(false),
            "enumerate" => self.lists.push(true),
            "verbatim" => self.open_code("\\end{verbatim}"),
            "lstlisting" => self.open_code("\\end{lstlisting}"),
            "tabular" | "tabular*" | "tabularx" => self.table = Some(String::new()),
            "tikzpicture" => self.drop += 1,
            _ => self.push(""),
        }
    }

    fn open_code(&mut self, end: &'static str) {
        self.out.push_str("\n```\n");
        self.code = Some(end);
    }

    fn end(&mut self, name: &str) {
        match name {
            "itemize" | "description" | "enumerate" => {
                self.lists.pop();
                self.push("");
            }
            "tabular" | "tabular*" | "tabularx" => self.write_table(),
            "tikzpicture" => self.drop = self.drop.saturating_sub(1),
            _ => self.push(""),
        }
    }

    /// The rows of a `tabular` as a Markdown table, the first one as its head.
    fn write_table(&mut self) {
        const RULES: [&str; 6] =
            ["\\hline", "\\toprule", "\\midrule", "\\bottomrule", "\\centering", "\\small"];
        let mut body = self.table.take().unwrap_or_default();
        RULES.iter().for_each(|rule| body = body.replace(rule, ""));
        let cells = |row: &str| -> Vec<String> {
            let cells = row.replace("\\&", "\u{1}");
            cells
                .split('&')
                .map(|cell| inline(cell.replace('\u{1}', "&").trim(), 0).replace('|', "\\|"))
                .collect()
        };
        let rows: Vec<Vec<String>> =
            body.split("\\\\").filter(|row| !row.trim().is_empty()).map(cells).collect();
        let Some(width) = rows.iter().map(Vec::len).max() else { return };
        self.push("");
        for (at, row) in rows.iter().enumerate() {
            let missing = std::iter::repeat_n("", width - row.len());
            let row: Vec<&str> = row.iter().map(String::as_str).chain(missing).collect();
            self.push(&format!("| {} |", row.join(" | ")));
            if at == 0 {
                self.push(&format!("|{}", " --- |".repeat(width)));
            }
        }
        self.push("");
    }

    fn push(&mut self, line: &str) {
        if self.drop > 0 {
            return;
        }
        // At the start of a line MDX reads these words as code.
        let line = match line.strip_prefix("import ").or_else(|| line.strip_prefix("export ")) {
            Some(_) => &format!("&#{};{}", u32::from(line.as_bytes()[0]), &line[1..]),
            None => line,
        };
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn finish(mut self) -> String {
        if self.math.is_some() {
            self.out.push_str("$$\n");
        }
        if self.code.is_some() {
            self.out.push_str("```\n");
        }
        if self.table.is_some() {
            self.write_table();
        }
        let mut out = String::with_capacity(self.out.len());
        let mut blank = 0;
        for line in self.out.lines() {
            blank = if line.trim().is_empty() { blank + 1 } else { 0 };
            if blank < 2 {
                out.push_str(line);
                out.push('\n');
            }
        }
        out.trim().to_string()
    }
}

fn inner_environment(end: &str) -> &'static str {
    match end {
        _ if end.contains("gather") => "gathered",
        _ if end.contains("multline") => "gathered",
        _ => "aligned",
    }
}

fn environment<'l>(line: &'l str, mark: &str) -> Option<&'l str> {
    line.strip_prefix(mark)?.split('}').next()
}

fn strip_comment(line: &str) -> &str {
    let mut previous = ' ';
    for (at, character) in line.char_indices() {
        if character == '%' && previous != '\\' {
            return &line[..at];
        }
        previous = character;
    }
    line
}

fn without_label(line: &str) -> String {
    match line.find("\\label{").and_then(|at| line[at..].find('}').map(|end| (at, at + end + 1))) {
        Some((start, end)) => format!("{}{}", &line[..start], &line[end..]),
        None => line.to_string(),
    }
}

/// Translates running text; mathematics between dollars passes untouched.
fn inline(text: &str, depth: usize) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '$', '{', '}', '<', '~', '`', '\'']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = special(rest, depth, &mut out);
    }
    out.push_str(rest);
    out
}

fn special<'l>(rest: &'l str, depth: usize, out: &mut String) -> &'l str {
    if let Some(tail) = rest.strip_prefix('$') {
        let marks = if tail.starts_with('$') { 2 } else { 1 };
        let close = rest[marks..].find(&"$$"[..marks]).map(|end| marks + end + marks);
        let end = close.unwrap_or(marks);
        out.push_str(if close.is_some() { &rest[..end] } else { "\\$" });
        return &rest[end..];
    }
    if let Some(tail) = rest.strip_prefix("``").or_else(|| rest.strip_prefix("''")) {
        out.push('"');
        return tail;
    }
    if rest.starts_with('\\') {
        return command(rest, depth, out);
    }
    let first = rest.chars().next().unwrap_or(' ');
    match first {
        '~' => out.push(' '),
        '<' => out.push_str("&lt;"),
        '{' | '}' => {}
        other => out.push(other),
    }
    &rest[first.len_utf8()..]
}

fn command<'l>(rest: &'l str, depth: usize, out: &mut String) -> &'l str {
    let name_length = rest[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
    if name_length == 0 {
        let escaped = rest[1..].chars().next();
        match escaped {
            Some(mark) if is_accent(mark) => return accented(mark, &rest[2..], out),
            Some('{') => out.push_str("\\{"),
            Some('}') => out.push_str("\\}"),
            Some('(') | Some(')') => out.push('$'),
            Some('\\') => out.push_str("  "),
            Some(mark @ ('%' | '&' | '#' | '_' | '$')) => {
                if mark == '$' {
                    out.push('\\');
                }
                out.push(mark);
            }
            _ => out.push(' '),
        }
        return &rest[1 + escaped.map_or(0, char::len_utf8)..];
    }
    let name = &rest[1..1 + name_length];
    let mut tail = rest[1 + name_length..].trim_start_matches('*');
    while tail.starts_with('[') {
        let Some(end) = tail.find(']') else { break };
        tail = &tail[end + 1..];
    }
    if name == "href"
        && let Some((address, after)) = argument(tail)
        && let Some((text, after)) = argument(after)
    {
        out.push_str(&link(address, &inline(text, depth + 1)));
        return after;
    }
    let Some((argument, after)) = argument(tail) else {
        if let Some(mark) = letter_accent(name).filter(|_| tail.starts_with(' ')) {
            return accented(mark, tail.trim_start(), out);
        }
        out.push_str(symbol(name));
        return if symbol(name).is_empty() { tail.trim_start() } else { tail };
    };
    out.push_str(&with_argument(name, argument, depth));
    after
}

fn is_accent(mark: char) -> bool {
    matches!(mark, '\'' | '`' | '"' | '^' | '~' | '=' | '.')
}

/// The accents that are commands of one letter: `\c{c}`, `\v{s}`.
fn letter_accent(name: &str) -> Option<char> {
    let mark = name.chars().next()?;
    (name.len() == 1 && matches!(mark, 'c' | 'v' | 'u' | 'H' | 'r' | 'k')).then_some(mark)
}

/// Writes the letter under an accent, in braces or not, as one character.
fn accented<'l>(mark: char, rest: &'l str, out: &mut String) -> &'l str {
    use unicode_normalization::UnicodeNormalization as _;
    let (inner, after) = match argument(rest) {
        Some((inner, after)) => (inner, after),
        None => {
            let dotless = ["\\i", "\\j"].iter().find(|letter| rest.starts_with(**letter));
            let width = dotless.map_or_else(
                || rest.chars().next().map_or(0, char::len_utf8),
                |letter| letter.len(),
            );
            rest.split_at(width)
        }
    };
    let after =
        if inner.starts_with('\\') { after.strip_prefix(' ').unwrap_or(after) } else { after };
    let mut letters = inner.trim().trim_start_matches('\\').chars();
    let Some(letter) = letters.next() else { return after };
    let combining = match mark {
        '\'' => '\u{301}',
        '`' => '\u{300}',
        '"' => '\u{308}',
        '^' => '\u{302}',
        '~' => '\u{303}',
        '=' => '\u{304}',
        '.' => '\u{307}',
        'c' => '\u{327}',
        'v' => '\u{30c}',
        'u' => '\u{306}',
        'H' => '\u{30b}',
        'r' => '\u{30a}',
        _ => '\u{328}',
    };
    out.extend([letter, combining].into_iter().nfc());
    out.extend(letters);
    after
}

/// A link, unless its address could run code or would end the Markdown link.
fn link(address: &str, text: &str) -> String {
    let safe = address.starts_with("https://") || address.starts_with("http://");
    match safe && !address.contains(['(', ')', '<', '>', ' ']) {
        true => format!("[{text}]({address})"),
        false => text.to_string(),
    }
}

fn symbol(name: &str) -> &'static str {
    match name {
        "ldots" | "dots" => "…",
        "textendash" => "–",
        "textemdash" => "—",
        "LaTeX" => "LaTeX",
        "TeX" => "TeX",
        "ss" => "ß",
        "ae" => "æ",
        "o" => "ø",
        "aa" => "å",
        "l" => "ł",
        "i" => "ı",
        "textbackslash" => "\\\\",
        _ => "",
    }
}

fn argument(tail: &str) -> Option<(&str, &str)> {
    let body = tail.strip_prefix('{')?;
    let mut open = 1_usize;
    for (at, character) in body.char_indices() {
        match character {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some((&body[..at], &body[at + 1..]));
        }
    }
    None
}

fn with_argument(name: &str, argument: &str, depth: usize) -> String {
    if depth > DEPTH_MAX {
        return escape_text(argument);
    }
    let inner = || inline(argument, depth + 1);
    let keys =
        || argument.split(',').map(|key| escape_text(key.trim())).collect::<Vec<_>>().join("; ");
    if let Some(mark) = letter_accent(name) {
        let mut out = String::new();
        accented(mark, argument, &mut out);
        return out;
    }
    match name {
        "textbf" | "bf" => format!("**{}**", inner().trim()),
        "emph" | "textit" | "it" => format!("*{}*", inner().trim()),
        "texttt" | "verb" | "code" => format!("`{argument}`"),
        "footnote" => format!(" ({})", inner().trim()),
        "url" => argument.to_string(),
        "caption" => format!("*{}*", inner().trim()),
        "cite" | "citep" | "citet" | "citealp" | "autocite" | "parencite" | "textcite" => {
            format!("[{}]", keys())
        }
        "ref" | "eqref" | "autoref" | "cref" | "Cref" => format!("[{}]", escape_text(argument)),
        "label" | "vspace" | "hspace" | "includegraphics" | "bibliography"
        | "bibliographystyle" | "input" | "usepackage" | "documentclass" => String::new(),
        _ => inner(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_is_a_comment_in_latex_only() {
        assert_eq!(convert("We are 100% sure.").trim(), "We are 100% sure.");
        assert_eq!(convert("\\emph{Sure}. % really?").trim(), "*Sure*.");
    }

    #[test]
    fn sections_lists_citations_and_mathematics_become_markdown() {
        let latex = "\\section{Data \\& model}\nWe use \\textbf{two} sets~\\cite{a, b} with $x_{1} < 2$. % note\n\
\\begin{itemize}\n\\item First $\\alpha$\n\\item Second {set}\n\\end{itemize}\n\
\\begin{equation}\n\\label{eq:1}\ny = \\frac{1}{2}\n\\end{equation}\nSee Eq.~\\ref{eq:1} and a < b, 5\\% of {all}.";
        let markdown = convert(latex);
        assert!(markdown.starts_with("## Data & model"), "{markdown}");
        assert!(markdown.contains("We use **two** sets [a; b] with $x_{1} < 2$."), "{markdown}");
        assert!(markdown.contains("- First $\\alpha$\n- Second set"), "{markdown}");
        assert!(
            markdown.contains("$$\n\ny = \\frac{1}{2}\n$$")
                || markdown.contains("$$\ny = \\frac{1}{2}\n$$"),
            "{markdown}"
        );
        assert!(markdown.contains("See Eq. [eq:1] and a &lt; b, 5% of all."), "{markdown}");
    }

    #[test]
    fn accents_links_and_tables_become_markdown() {
        assert_eq!(
            convert("\\section{Gr\\\"o{\\ss}e}\nEl r\\'io y el ni\\~no, fa\\c{c}ade.").trim(),
            "## Größe\nEl río y el niño, façade."
        );
        assert_eq!(
            convert("See \\href{https://x.org/a}{the data}.").trim(),
            "See [the data](https://x.org/a)."
        );
        assert_eq!(convert("See \\href{javascript:alert(1)}{this}.").trim(), "See this.");
        let table = "\\begin{tabular}{lr}\nA & 1 \\\\ \\hline\nB \\& C & 2 \\\\\n\\end{tabular}";
        assert_eq!(convert(table), "| A | 1 |\n| --- | --- |\n| B & C | 2 |");
        assert!(convert("\\emph{x}\nimport fs").contains("&#105;mport fs"));
    }

    #[test]
    fn broken_latex_ends() {
        for broken in [
            "\\begin{align}",
            "\\textbf{open",
            "$x",
            "\\",
            "\\item",
            "{{{{",
            "\\begin{verbatim}\nx",
            "\\[",
            "\\section{",
        ] {
            let markdown = convert(broken);
            assert!(markdown.matches("$$").count().is_multiple_of(2), "{broken}: {markdown}");
        }
    }
}
