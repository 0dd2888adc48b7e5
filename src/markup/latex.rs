//! LaTeX: the text of a paper, with mathematics as it is written.
//!
//! `docs/source-text-hash.md` specifies it and `tests/golden/markup/vectors.json` has the examples.
//! Macros that the source defines are read as their definitions, except in mathematics. No file is included.
//! Any other command that is not known is left out and its arguments stay.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization as _;

use super::layout::{Break, Layout, fence_for};
use super::prefix;
use super::quantity::{angle, letters_of, quantity, unit};

/// Most groups and environments that are open at the same time. Deeper ones are read as if they were not there.
const OPEN_MAX: usize = 256;

/// Longest argument that is looked for, in bytes.
const ARGUMENT_BYTES_MAX: usize = 16 << 10;
/// Longest optional argument.
const OPTION_BYTES_MAX: usize = 1 << 10;
/// Longest formula.
const MATH_BYTES_MAX: usize = 64 << 10;
/// Longest label of an item, read as LaTeX.
const LABEL_BYTES_MAX: usize = 500;

/// Most calls of macros that stand in one another.
const DEPTH_MAX: usize = 16;
/// Bytes of all definitions that are read in place of calls.
const EXPANDED_BYTES_MAX: usize = 256 << 10;

/// A paper as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Paper {
    pub title: Option<String>,
    pub authors: Vec<String>,
    /// As it is written.
    pub date: Option<String>,
    pub text: String,
}

/// Reads a paper, or a part of one.
pub(crate) fn paper(source: &str) -> Paper {
    let source = without_branches(without_comments(source));
    let mut defined = Defined::by(&source);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain =
        |argument| Some(words(&read(argument, &defined, false))).filter(|it| !it.is_empty());
    let title = argument_of(&source, "\\title").and_then(plain);
    let date = argument_of(&source, "\\date").and_then(plain);
    let authors = argument_of(&source, "\\author").map(names_in).unwrap_or_default();
    let authors = authors.iter().filter_map(|name| plain(name)).collect();
    let document = defined.with_environments(document_of(&source));
    Paper { title, authors, date, text: text_of(&document, &defined) }
}

/// Whether a text is LaTeX: it has a command outside mathematics. What [`paper`] gives has none.
pub(crate) fn is_source(text: &str) -> bool {
    let mut at = 0;
    while let Some(next) = text[at..].find(['\\', '$']) {
        at += next;
        let rest = &text[at..];
        if let Some(bytes) = math_bytes(rest) {
            at += bytes;
            continue;
        }
        let after = rest[1..].chars().next().filter(|_| rest.starts_with('\\'));
        if after.is_some_and(|c| c.is_ascii_alphabetic()) {
            return true;
        }
        at += 1 + after.map_or(0, char::len_utf8);
    }
    false
}

/// Bytes of the mathematics a text begins with.
fn math_bytes(rest: &str) -> Option<usize> {
    for mark in ["$$", "$"] {
        if let Some(body) = rest.strip_prefix(mark) {
            return math_end(body, mark).map(|end| end + 2 * mark.len());
        }
    }
    let name = rest.strip_prefix("\\begin{").and_then(|body| body.split_once('}'));
    let close = match name {
        Some((name, _)) if MATH.contains(&name.trim_end_matches('*')) => format!("\\end{{{name}}}"),
        Some(_) => return None,
        None if rest.starts_with("\\(") => "\\)".to_owned(),
        None if rest.starts_with("\\[") => "\\]".to_owned(),
        None => return None,
    };
    let end = prefix(rest, MATH_BYTES_MAX).find(&close)?;
    Some(end + close.len())
}

/// Names of theorem-like environments and the words they are shown with.
type Theorems = BTreeMap<String, String>;

fn text_of(source: &str, defined: &Defined) -> String {
    read(source, defined, true)
}

fn read(source: &str, defined: &Defined, has_emphasis: bool) -> String {
    let mut reader = Reader {
        source,
        groups: Groups::of(source),
        open_mathematics: [0; 2],
        at: 0,
        layout: Layout::default(),
        open: Vec::new(),
        lists: Vec::new(),
        fence: None,
        defined,
        has_emphasis,
        depth: 0,
        is_in_table: false,
    };
    reader.read_to_end();
    reader.layout.finish()
}

/// What stands between the begin and the end of the document, or everything.
fn document_of(source: &str) -> &str {
    const BEGIN: &str = "\\begin{document}";
    let body = source.find(BEGIN).map_or(source, |at| &source[at + BEGIN.len()..]);
    body.find("\\end{document}").map_or(body, |end| &body[..end])
}

/// The argument of the first call of a command.
fn argument_of<'s>(source: &'s str, command: &str) -> Option<&'s str> {
    let at = source
        .match_indices(command)
        .map(|(at, name)| at + name.len())
        .find(|at| source[*at..].starts_with(['{', '[', ' ']))?;
    let rest = skip_optional(source[at..].trim_start());
    Some(Groups::of(rest).first(rest)?.0)
}

/// The names of authors: each is the first line between two `\\and`, without what follows it in
/// commands (`\\thanks`, marks of affiliations).
fn names_in(authors: &str) -> Vec<&str> {
    let parts = authors.split("\\and").flat_map(|part| part.split("\\And"));
    let first_line = |part: &'_ str| {
        let end = ["\\\\", "\\thanks", "\\inst", "\\affil", "$^", "\\textsuperscript", "\n\n"];
        let end = end.iter().filter_map(|mark| part.find(mark)).min();
        part[..end.unwrap_or(part.len())].trim().len()
    };
    parts
        .map(str::trim)
        .map(|part| part[..first_line(part)].trim_end_matches([',', ' ']))
        .filter(|name| !name.is_empty())
        .collect()
}

/// What a source defines itself.
struct Defined {
    theorems: Theorems,
    macros: BTreeMap<String, Macro>,
    /// Bytes of definitions that may still stand in for calls.
    left: Cell<usize>,
}

/// A command that the source defines.
struct Macro {
    /// How many arguments it takes.
    arguments: usize,
    /// The first argument where a call gives none.
    default: Option<String>,
    body: String,
}

impl Defined {
    fn by(source: &str) -> Defined {
        let macros = macros_of(source);
        Defined { theorems: theorems_of(source), macros, left: Cell::new(EXPANDED_BYTES_MAX) }
    }

    /// Whether this many bytes of definitions are still allowed; they are used up then.
    fn allows(&self, bytes: usize) -> bool {
        let left = self.left.get().checked_sub(bytes);
        left.inspect(|left| self.left.set(*left)).is_some()
    }

    /// The source in which a call of a macro that only begins or only ends an environment is replaced by its
    /// definition: what it begins is ended by another macro.
    fn with_environments<'s>(&mut self, source: &'s str) -> Cow<'s, str> {
        let is_half = |known: &Macro| {
            let count = |what: &str| known.body.matches(what).count();
            known.arguments == 0 && count("\\begin") != count("\\end")
        };
        let all = std::mem::take(&mut self.macros).into_iter();
        let (halves, whole): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(_, known)| is_half(known));
        self.macros = whole;
        if halves.is_empty() {
            return Cow::Borrowed(source);
        }
        let (mut out, mut copied) = (String::with_capacity(source.len()), 0);
        for (at, _) in source.match_indices('\\') {
            let name = letters_of(&source[at + 1..]);
            let known = halves.get(name).filter(|known| self.allows(known.body.len()));
            if let Some(known) = known {
                out.push_str(&source[copied..at]);
                out.push_str(&known.body);
                copied = at + 1 + name.len();
            }
        }
        out.push_str(&source[copied..]);
        Cow::Owned(out)
    }
}

/// The macros that a source defines, in its order: a later definition counts, and `\providecommand` only
/// gives one that is missing.
fn macros_of(source: &str) -> BTreeMap<String, Macro> {
    const COMMANDS: [&str; 4] =
        ["newcommand", "renewcommand", "providecommand", "DeclareRobustCommand"];
    let mut macros = BTreeMap::new();
    if !source.contains("command") && !source.contains("Command") && !source.contains("\\def") {
        return macros;
    }
    let groups = Groups::of(source);
    for (at, _) in source.match_indices('\\') {
        let word = letters_of(&source[at + 1..]);
        let rest = &source[at + 1 + word.len()..];
        let found = match word {
            "def" => defined_by_def(rest, &groups),
            _ if COMMANDS.contains(&word) => defined_by_command(rest, &groups),
            _ => None,
        };
        if let Some((name, found)) = found
            && (word != "providecommand" || !macros.contains_key(name))
        {
            macros.insert(name.to_owned(), found);
        }
    }
    macros
}

/// `{\name}[2][default]{body}`, behind the command that defines.
fn defined_by_command<'a>(rest: &'a str, groups: &Groups<'a>) -> Option<(&'a str, Macro)> {
    let rest = rest.strip_prefix('*').unwrap_or(rest).trim_start();
    let (name, rest) = match groups.first(rest) {
        Some((inner, rest)) => {
            let inner = inner.trim().strip_prefix('\\')?;
            (Some(letters_of(inner)).filter(|name| *name == inner)?, rest)
        }
        None => {
            let name = letters_of(rest.strip_prefix('\\')?);
            (name, &rest[1 + name.len()..])
        }
    };
    let (arguments, rest) = match optional(rest.trim_start()) {
        Some((count, rest)) => (count.trim().parse().ok().filter(|count| *count <= 9)?, rest),
        None => (0, rest),
    };
    let (default, rest) = match optional(rest.trim_start()).filter(|_| arguments > 0) {
        Some((default, rest)) => (Some(default.to_owned()), rest),
        None => (None, rest),
    };
    let (body, _) = groups.first(rest)?;
    (!name.is_empty()).then(|| (name, Macro { arguments, default, body: body.to_owned() }))
}

/// `\name#1#2{body}`, behind `\def`.
fn defined_by_def<'a>(rest: &'a str, groups: &Groups<'a>) -> Option<(&'a str, Macro)> {
    let rest = rest.trim_start().strip_prefix('\\')?;
    let name = letters_of(rest);
    let (mut rest, mut arguments) = (&rest[name.len()..], 0);
    while let Some(after) = rest.strip_prefix(&format!("#{}", arguments + 1)) {
        (rest, arguments) = (after, arguments + 1);
    }
    let (body, _) = groups.first(rest)?;
    let known = Macro { arguments, default: None, body: body.to_owned() };
    (!name.is_empty() && arguments <= 9).then_some((name, known))
}

/// The environments that `\newtheorem` declares, beside the usual ones.
fn theorems_of(source: &str) -> Theorems {
    const USUAL: &[(&str, &str)] = &[
        ("abstract", "Abstract"),
        ("theorem", "Theorem"),
        ("lemma", "Lemma"),
        ("proposition", "Proposition"),
        ("corollary", "Corollary"),
        ("definition", "Definition"),
        ("example", "Example"),
        ("remark", "Remark"),
        ("claim", "Claim"),
        ("conjecture", "Conjecture"),
        ("assumption", "Assumption"),
        ("proof", "Proof"),
    ];
    let owned = |(name, words): &(&str, &str)| ((*name).to_owned(), (*words).to_owned());
    let mut theorems: Theorems = USUAL.iter().map(owned).collect();
    let groups = Groups::of(source);
    for (at, command) in source.match_indices("\\newtheorem") {
        let rest = source[at + command.len()..].trim_start_matches('*');
        let declared = groups.first(rest).and_then(|(name, rest)| {
            let (words, _) = groups.first(skip_optional(rest))?;
            Some((name.trim().to_owned(), words.trim().to_owned()))
        });
        theorems.extend(declared);
    }
    theorems
}

/// The source without comments. A comment takes the end of its line and the indent of the next with
/// it, as in TeX; an empty line after it still ends the paragraph.
fn without_comments(source: &str) -> Cow<'_, str> {
    if !source.contains('%') {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut verbatim: Option<String> = None;
    let mut joins = false;
    for line in source.split_inclusive('\n') {
        if let Some(end) = &verbatim {
            out.push_str(line);
            if line.contains(end.as_str()) {
                verbatim = None;
            }
            joins = false;
            continue;
        }
        let shown = if joins { line.trim_start_matches([' ', '\t']) } else { line };
        let end = comment_start(shown);
        let kept = &shown[..end.unwrap_or(shown.len())];
        if end.is_none() && kept.trim().is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(kept);
        joins = end.is_some();
        verbatim = kept.rfind("\\begin{").and_then(|at| {
            let (name, after) = kept[at + "\\begin{".len()..].split_once('}')?;
            let end = format!("\\end{{{name}}}");
            (VERBATIM.contains(&name) && !after.contains(&end)).then_some(end)
        });
    }
    Cow::Owned(out)
}

/// The source without the branches of conditions that are no text: what `\iffalse` and conditions that nothing sets hide,
/// up to their `\else` or `\fi`, and what stands behind the `\else` of all others. A branch that never ends hides
/// nothing, and nothing behind it is looked for.
fn without_branches(source: Cow<'_, str>) -> Cow<'_, str> {
    if !["\\iffalse", "\\else", "\\newif"].iter().any(|mark| source.contains(mark)) {
        return source;
    }
    let unset = unset_conditions(&source);
    let mut out = String::with_capacity(source.len());
    let (mut at, mut ends) = (0, true);
    while let Some(next) = source[at..].find('\\') {
        let start = at + next;
        let rest = &source[start..];
        out.push_str(&source[at..start]);
        let kept = code_bytes(rest).or_else(|| verb(rest).map(|(_, bytes)| bytes));
        let word = command_word(rest);
        let hides = match word {
            "else" => Some(false),
            "iffalse" => Some(true),
            word => unset.contains(word).then_some(true),
        };
        if let (None, Some(to_else), true) = (kept, hides, ends) {
            if let Some(bytes) = branch_bytes(rest, 1 + word.len(), to_else) {
                at = start + bytes;
                continue;
            }
            ends = false;
        }
        let one = || 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
        let bytes = kept.unwrap_or_else(|| match word {
            "" => one(),
            "newif" => declared_condition(rest).map_or("\\newif".len(), |(_, bytes)| bytes),
            word => 1 + word.len(),
        });
        out.push_str(&rest[..bytes]);
        at = start + bytes;
    }
    out.push_str(&source[at..]);
    Cow::Owned(out)
}

/// The condition that a `\newif` declares, and the bytes of both.
fn declared_condition(rest: &str) -> Option<(&str, usize)> {
    let behind = rest.strip_prefix("\\newif")?.trim_start();
    let word = behind.strip_prefix('\\').map(|_| command_word(behind))?;
    let is_condition = word.len() > 2 && word.starts_with("if");
    is_condition.then(|| (word, rest.len() - behind.len() + 1 + word.len()))
}

/// The conditions that the source declares and never sets: they are false.
fn unset_conditions(source: &str) -> BTreeSet<&str> {
    let declared = source.match_indices("\\newif").filter_map(|(at, _)| {
        let (word, _) = declared_condition(&source[at..])?;
        Some(word)
    });
    declared.filter(|word| !source.contains(&format!("\\{}true", &word[2..]))).collect()
}

/// The letters behind the backslash that a text begins with.
fn command_word(rest: &str) -> &str {
    let word = &rest[1..];
    let end = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
    &word[..end]
}

/// Bytes of an environment for code that a text begins with.
fn code_bytes(rest: &str) -> Option<usize> {
    let (name, _) = rest.strip_prefix("\\begin{")?.split_once('}')?;
    let close = format!("\\end{{{name}}}");
    let end = VERBATIM.contains(&name).then(|| rest.find(&close))??;
    Some(end + close.len())
}

/// Bytes of a branch that is no text, from its command to behind its `\fi`, or `\else` where that ends it too, and the
/// blanks behind.
fn branch_bytes(rest: &str, begin: usize, to_else: bool) -> Option<usize> {
    let (mut at, mut open) = (begin, 1);
    while let Some(next) = rest[at..].find('\\') {
        at += next;
        let word = command_word(&rest[at..]);
        match word {
            "fi" => open -= 1,
            "iff" | "ifthenelse" => {}
            word if word.starts_with("if") => open += 1,
            _ => {}
        }
        at += 1 + match word {
            "" => rest[at + 1..].chars().next().map_or(0, char::len_utf8),
            word => word.len(),
        };
        if open == 0 || to_else && word == "else" && open == 1 {
            let behind = &rest[at..];
            return Some(at + behind.len() - behind.trim_start_matches([' ', '\t']).len());
        }
    }
    None
}

/// Where a comment begins: at a percent sign that is not escaped and in no `\verb` or address.
fn comment_start(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => return Some(at),
            b'\\' => {
                let rest = &line[at..];
                let skipped = verb(rest).map(|(_, bytes)| bytes).or_else(|| address_bytes(rest));
                at += skipped.unwrap_or(2);
            }
            _ => at += 1,
        }
    }
    None
}

/// Bytes of `\url{…}` and of `\href{…}` up to its text.
fn address_bytes(rest: &str) -> Option<usize> {
    let names = ["\\url{", "\\href{", "\\path{", "\\nolinkurl{"];
    names.into_iter().find(|name| rest.starts_with(name))?;
    let end = prefix(rest, ARGUMENT_BYTES_MAX).find(['}', '\n'])?;
    rest[end..].starts_with('}').then_some(end + 1)
}

const VERBATIM: &[&str] = &["verbatim", "verbatim*", "Verbatim", "lstlisting", "minted", "comment"];
/// Left out with all they hold.
const DRAWINGS: &[&str] = &["tikzpicture", "pgfpicture", "picture", "comment", "filecontents"];
const MATH: &[&str] = &[
    "equation",
    "align",
    "gather",
    "multline",
    "eqnarray",
    "displaymath",
    "math",
    "flalign",
    "alignat",
    "dmath",
];
const TABLES: &[&str] =
    &["tabular", "tabular*", "tabularx", "tabulary", "longtable", "supertabular"];

/// The text of `\verb|…|` or `\lstinline|…|`, and the bytes of all of it.
fn verb(rest: &str) -> Option<(&str, usize)> {
    let name =
        ["\\verb*", "\\verb", "\\lstinline"].into_iter().find(|name| rest.starts_with(name))?;
    let body = &rest[name.len()..];
    let mark = body.chars().next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace())?;
    let close = if mark == '{' { '}' } else { mark };
    let text = prefix(&body[mark.len_utf8()..], ARGUMENT_BYTES_MAX).split('\n').next()?;
    let end = text.find(close)?;
    Some((&text[..end], name.len() + mark.len_utf8() + end + close.len_utf8()))
}

/// Where the groups of a text end. All are found in one pass: a command that has no end of its argument
/// would otherwise search for it again.
struct Groups<'a> {
    source: &'a str,
    /// The place of each opening brace that is closed, with the place where it is, in order.
    ends: Vec<(usize, usize)>,
}

impl<'a> Groups<'a> {
    fn of(source: &'a str) -> Groups<'a> {
        let (mut open, mut ends) = (Vec::new(), Vec::new());
        let mut escaped = false;
        for (at, byte) in source.bytes().enumerate() {
            match byte {
                _ if escaped => {
                    escaped = false;
                    continue;
                }
                b'\\' => escaped = true,
                b'{' => open.push(at),
                b'}' => ends.extend(open.pop().map(|start| (start, at))),
                _ => {}
            }
        }
        ends.sort_unstable();
        Groups { source, ends }
    }

    /// The content of the group that the rest of the text begins with, and what follows it.
    fn first(&self, rest: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = rest.trim_start();
        if !rest.starts_with('{') {
            return None;
        }
        let start = self.source.len() - rest.len();
        let at = self.ends.binary_search_by_key(&start, |(start, _)| *start).ok()?;
        let end = self.ends[at].1;
        let is_short = end - start <= ARGUMENT_BYTES_MAX;
        is_short.then(|| (&self.source[start + 1..end], &self.source[end + 1..]))
    }
}

/// A text without the optional arguments it begins with.
fn skip_optional(rest: &str) -> &str {
    let mut rest = rest;
    while let Some((_, after)) = optional(rest) {
        rest = after;
    }
    rest
}

/// The optional argument a text begins with, and what follows it.
fn optional(rest: &str) -> Option<(&str, &str)> {
    let body = rest.strip_prefix('[')?;
    let mut depth = 0_usize;
    for (at, byte) in body.bytes().enumerate().take(OPTION_BYTES_MAX) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1)?,
            b']' if depth == 0 => return Some((&body[..at], &body[at + 1..])),
            // An argument does not continue in the next paragraph.
            b'\n' if body[at + 1..].trim_start_matches([' ', '\t']).starts_with('\n') => {
                return None;
            }
            _ => {}
        }
    }
    None
}

struct Reader<'a> {
    source: &'a str,
    groups: Groups<'a>,
    /// Up to where no `\)` and no `\]` follows.
    open_mathematics: [usize; 2],
    at: usize,
    layout: Layout,
    open: Vec<Open<'a>>,
    /// Open lists, outermost first; one with numbers has that of its next item.
    lists: Vec<Option<u32>>,
    /// How many backticks stand before and after code.
    fence: Option<usize>,
    defined: &'a Defined,
    /// Whether emphasis is marked.
    has_emphasis: bool,
    /// How many calls of macros this source stands in for, one in another.
    depth: usize,
    /// Whether the outermost such call stands in a table.
    is_in_table: bool,
}

/// An open group or environment, and what its end does.
struct Open<'a> {
    /// The name of an environment.
    name: Option<&'a str>,
    end: End,
}

enum End {
    Nothing,
    /// An argument of an unknown command.
    Argument,
    /// Text after the last word, without a space before it.
    Text(String),
    Emphasis(&'static str),
    Paragraph,
    Heading,
    List,
    Quote,
    Table,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn read_to_end(&mut self) {
        self.read();
        while let Some(open) = self.open.pop() {
            self.close(open);
        }
    }

    fn read(&mut self) {
        while self.at < self.source.len() {
            let rest = self.rest();
            let plain = rest.find(is_special).unwrap_or(rest.len());
            self.layout.text(&rest[..plain]);
            self.at += plain;
            if plain < rest.len() {
                self.special();
            }
        }
    }

    fn special(&mut self) {
        let rest = self.rest();
        let mark = rest.chars().next().unwrap_or(' ');
        let bytes = match mark {
            '\\' => return self.command(),
            '$' => self.dollars(rest),
            '{' => {
                self.push(None, End::Nothing);
                1
            }
            '}' => {
                self.end_group();
                1
            }
            '\n' => self.newline(rest),
            '~' => self.say(" ", 1),
            '&' if self.in_table() => {
                self.layout.cell();
                1
            }
            '`' if rest.starts_with("``") => self.say("“", 2),
            '\'' if rest.starts_with("''") => self.say("”", 2),
            '`' => self.say("‘", 1),
            '\'' => self.say("’", 1),
            '-' if rest.starts_with("---") => self.say("—", 3),
            '-' if rest.starts_with("--") => self.say("–", 2),
            mark => self.say(&rest[..mark.len_utf8()], mark.len_utf8()),
        };
        self.at += bytes;
    }

    fn say(&mut self, text: &str, bytes: usize) -> usize {
        self.layout.text(text);
        bytes
    }

    /// An empty line ends the paragraph, any other line end is a space.
    fn newline(&mut self, rest: &str) -> usize {
        let blank = rest.len() - rest.trim_start().len();
        let lines = rest[..blank].matches('\n').count();
        // The lines of a table are its rows, whatever stands between them.
        let ends = lines > 1 && !self.in_table();
        self.layout.breaks(if ends { Break::Paragraph } else { Break::Space });
        blank
    }

    fn in_table(&self) -> bool {
        let named = self.open.iter().rev().find_map(|open| match open.end {
            End::Table => Some(true),
            _ => open.name.map(|_| false),
        });
        named.unwrap_or(self.is_in_table)
    }

    /// Mathematics between dollars, copied as it is.
    fn dollars(&mut self, rest: &'a str) -> usize {
        let mark = if rest.starts_with("$$") { "$$" } else { "$" };
        let body = &rest[mark.len()..];
        let Some(end) = math_end(body, mark) else {
            self.layout.text(mark);
            return mark.len();
        };
        let bytes = mark.len() + end + mark.len();
        self.math(&rest[..bytes], mark == "$$");
        bytes
    }

    /// Mathematics as it is written: in the line, or as a paragraph of its own.
    fn math(&mut self, source: &str, display: bool) {
        if display {
            self.layout.breaks(Break::Paragraph);
            self.layout.lines(source);
            self.layout.breaks(Break::Paragraph);
        } else {
            self.layout.text(source);
        }
    }

    fn push(&mut self, name: Option<&'a str>, end: End) {
        if self.open.len() < OPEN_MAX {
            self.open.push(Open { name, end });
        }
    }

    fn close(&mut self, open: Open<'_>) {
        match open.end {
            End::Nothing | End::Argument => {}
            End::Text(text) => self.layout.attach(&text),
            End::Emphasis(mark) => self.layout.end_emphasis(mark),
            End::Paragraph => self.layout.breaks(Break::Paragraph),
            End::Heading => self.layout.end_heading(),
            End::List => {
                self.lists.pop();
                let is_inner = !self.lists.is_empty();
                self.layout.end_item();
                self.layout.breaks(if is_inner { Break::Line } else { Break::Paragraph });
            }
            End::Quote => self.layout.end_quote(),
            End::Table => {
                self.layout.end_row();
                self.layout.end_table();
            }
        }
    }

    fn end_group(&mut self) {
        // A brace does not end an environment.
        if self.open.last().is_some_and(|open| open.name.is_none())
            && let Some(open) = self.open.pop()
        {
            let is_argument = matches!(open.end, End::Argument);
            self.close(open);
            if is_argument && self.rest().starts_with("}{") {
                self.layout.text(" ");
                self.push(None, End::Argument);
                self.at += 1;
            }
        }
    }

    /// A command: its name, then what it does with its arguments.
    fn command(&mut self) {
        let rest = self.rest();
        if let Some((text, bytes)) = verb(rest) {
            self.layout.text(text);
            self.at += bytes;
            return;
        }
        let letters = rest[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
        if letters == 0 {
            return self.symbol(rest);
        }
        let name = &rest[1..1 + letters];
        self.at += 1 + letters;
        // A command made of letters takes the blanks after it.
        if self.rest().starts_with('*') {
            self.at += 1;
        }
        match name {
            "begin" => self.begin(),
            "end" => self.end(),
            _ => self.named(name),
        }
    }

    /// A command of one character that is no letter.
    fn symbol(&mut self, rest: &'a str) {
        let mark = rest[1..].chars().next().unwrap_or(' ');
        self.at += 1 + mark.len_utf8().min(rest.len() - 1);
        match mark {
            '\\' => {
                if self.rest().starts_with('*') {
                    self.at += 1;
                }
                self.skip_optionals();
                if self.in_table() {
                    self.layout.begin_row();
                    self.layout.cell();
                } else {
                    self.line_break();
                }
            }
            '(' | '[' => {
                let (close, kind) = if mark == '(' { ("\\)", 0) } else { ("\\]", 1) };
                let body = prefix(self.rest(), MATH_BYTES_MAX);
                let searched = self.open_mathematics[kind].saturating_sub(self.at).min(body.len());
                let end = body[searched..].find(close).map(|end| searched + end + close.len());
                if let Some(end) = end {
                    let source = &rest[..2 + end];
                    self.at += end;
                    self.math(source, mark == '[');
                } else {
                    // The last byte may be the first of a mark that continues behind it.
                    let searched = prefix(body, body.len().saturating_sub(1)).len();
                    self.open_mathematics[kind] = self.at + searched;
                }
            }
            '%' | '&' | '#' | '_' | '$' | '{' | '}' => {
                self.layout.text(mark.encode_utf8(&mut [0; 4]));
            }
            ' ' | '\n' | '\t' | ',' | ';' | ':' => self.layout.text(" "),
            '\'' | '"' | '`' | '^' | '~' | '=' | '.' => self.accent(mark),
            // `\-`, `\/`, `\!` and others leave no trace.
            _ => {}
        }
    }

    /// A heading is one line.
    fn line_break(&mut self) {
        let in_heading = self.open.iter().any(|open| matches!(open.end, End::Heading));
        self.layout.breaks(if in_heading { Break::Space } else { Break::Line });
    }

    /// The letter under an accent, in braces or not, as one character.
    fn accent(&mut self, mark: char) {
        let combining = match mark {
            '`' => '\u{300}',
            '\'' => '\u{301}',
            '^' => '\u{302}',
            '~' => '\u{303}',
            '=' => '\u{304}',
            'u' => '\u{306}',
            '.' => '\u{307}',
            '"' => '\u{308}',
            'r' => '\u{30a}',
            'H' => '\u{30b}',
            'v' => '\u{30c}',
            'd' => '\u{323}',
            'c' => '\u{327}',
            'k' => '\u{328}',
            'b' => '\u{331}',
            _ => return,
        };
        let rest = self.rest();
        let skipped = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let rest = &rest[skipped..];
        let (base, bytes) = match self.groups.first(rest) {
            Some((inner, after)) => (inner.trim(), rest.len() - after.len()),
            None => {
                let command = if rest.starts_with('\\') { 2 } else { 0 };
                let length = rest.chars().next().map_or(0, char::len_utf8).max(command);
                let length = if rest.is_char_boundary(length) { length } else { 0 };
                (&rest[..length.min(rest.len())], length.min(rest.len()))
            }
        };
        // The accent takes the place of the dot.
        let base = match base {
            "\\i" => "i",
            "\\j" => "j",
            base => base,
        };
        let mut chars = base.chars();
        let Some(first) = chars.next().filter(|first| first.is_alphabetic()) else { return };
        self.at += skipped + bytes;
        let composed: String = [first, combining].into_iter().nfc().collect();
        self.layout.text(&composed);
        self.layout.text(chars.as_str());
    }

    /// The next argument as it is written, behind what is optional.
    fn argument(&mut self) -> Option<&'a str> {
        self.skip_optionals();
        let rest = self.rest();
        let (inner, after) = self.groups.first(rest)?;
        self.at = self.source.len() - after.len();
        Some(inner)
    }

    fn skip_optionals(&mut self) {
        let rest = self.rest();
        let after = skip_optional(rest);
        self.at += rest.len() - after.len();
    }

    /// Passes over `(lr)` of `\\cmidrule(lr){1-2}`.
    fn skip_trim(&mut self) {
        self.skip_optionals();
        let rest = self.rest();
        let trim = rest.strip_prefix('(').map(|trim| trim.find([')', '\n', '{']));
        if let Some(Some(end)) = trim
            && rest[1 + end..].starts_with(')')
        {
            self.at += end + 2;
        }
    }

    /// Goes into the next argument; `end` is done at its end.
    fn enter(&mut self, end: End) {
        self.skip_optionals();
        let rest = self.rest();
        let trimmed = rest.trim_start();
        if trimmed.starts_with('{') {
            self.at += rest.len() - trimmed.len() + 1;
            self.push(None, end);
        }
    }

    fn named(&mut self, name: &'a str) {
        if let Some(level) = heading_level(name) {
            self.layout.heading(level);
            return self.enter(End::Heading);
        }
        if let Some(text) = letter(name) {
            self.layout.text(text);
            return self.after_word();
        }
        let dropped = dropped_arguments(name);
        if dropped > 0 {
            if matches!(name, "cmidrule") {
                self.skip_trim();
            }
            for _ in 0..dropped {
                self.argument();
            }
            if name == "newtheorem" {
                self.skip_optionals();
            }
            // What is left out joins no words: `\index{x}` stands behind one.
            return;
        }
        match name {
            "newcommand"
            | "renewcommand"
            | "providecommand"
            | "DeclareRobustCommand"
            | "DeclareMathOperator"
            | "def"
            | "gdef"
            | "edef"
            | "xdef" => self.definition(name),
            "item" => self.item(),
            "footnote" | "footnotetext"
                if self.groups.first(skip_optional(self.rest())).is_some() =>
            {
                self.layout.breaks(Break::Space);
                self.layout.text("(");
                self.enter(End::Text(")".to_owned()));
            }
            "caption" | "captionof" => self.caption(name),
            "emph" | "textit" | "textsl" => self.emphasis("*"),
            "textbf" => self.emphasis("**"),
            "texttt" => self.emphasis("`"),
            "url" | "path" | "nolinkurl" => {
                let address = self.argument().unwrap_or_default();
                self.layout.text(address.trim());
            }
            "href" => {
                let address = self.argument().unwrap_or_default().replace("\\#", "#");
                let address = address.replace("\\%", "%").replace("\\_", "_").replace("\\&", "&");
                self.enter(End::Text(format!(" ({})", address.trim())));
            }
            "textcolor" | "foreignlanguage" | "colorbox" | "multirow" | "multicolumn"
            | "parbox" | "raisebox" | "resizebox" | "scalebox" => {
                let skipped =
                    if matches!(name, "multirow" | "multicolumn" | "resizebox") { 2 } else { 1 };
                for _ in 0..skipped {
                    self.argument();
                }
                self.enter(End::Nothing);
            }
            "bibitem" => {
                let key = self.argument().unwrap_or_default();
                self.layout.item(0, &format!("- [{}]", key.trim()));
            }
            "par" | "newpage" | "clearpage" | "bigskip" | "medskip" | "smallskip" => {
                self.layout.breaks(Break::Paragraph);
            }
            "newline" | "linebreak" => self.line_break(),
            "tabularnewline" if self.in_table() => {
                self.layout.begin_row();
                self.layout.cell();
            }
            "quad" | "qquad" | "space" | "thinspace" => self.layout.text(" "),
            "c" | "v" | "u" | "H" | "k" | "r" | "d" | "b" => {
                self.accent(name.chars().next().unwrap_or(' '));
            }
            _ if is_citation(name) || is_reference(name) => {
                let keys = self.argument().unwrap_or_default();
                let keys: Vec<&str> = keys.split(',').map(str::trim).collect();
                self.layout.text(&format!("[{}]", keys.join("; ")));
            }
            _ if self.defined.macros.contains_key(name) => self.call(name),
            "SI" | "qty" | "si" | "unit" | "num" | "ang" | "SIrange" | "qtyrange" | "numrange" => {
                self.quantity(name);
            }
            // An unknown command: its arguments stay, with a space between them.
            _ => {
                self.skip_optionals();
                self.after_word();
                if self.rest().starts_with('{') {
                    self.enter(End::Argument);
                }
            }
        }
    }

    /// Numbers and units of the package siunitx. Without its arguments a command leaves no trace.
    fn quantity(&mut self, name: &str) {
        let arguments = match name {
            "SIrange" | "qtyrange" => 3,
            "SI" | "qty" | "numrange" => 2,
            _ => 1,
        };
        let given: Option<Vec<&str>> = (0..arguments).map(|_| self.argument()).collect();
        let text = match given.as_deref() {
            Some([from, to, units]) => quantity(&format!("{}–{}", from.trim(), to.trim()), units),
            Some([from, to]) if name == "numrange" => format!("{}–{}", from.trim(), to.trim()),
            Some([number, units]) => quantity(number, units),
            Some([units]) if matches!(name, "si" | "unit") => unit(units),
            Some([degrees]) if name == "ang" => angle(degrees),
            Some([number]) => number.trim().to_owned(),
            _ => return,
        };
        self.layout.text(&text);
    }

    /// Passes over the definition of a macro.
    fn definition(&mut self, command: &str) {
        let rest = self.rest();
        let name = rest.trim_start();
        match name.strip_prefix('\\').map(letters_of) {
            Some(letters) => self.at += rest.len() - name.len() + 1 + letters.len(),
            None => drop(self.argument()),
        }
        if command.ends_with("def") {
            let parameters = prefix(self.rest(), OPTION_BYTES_MAX).find(['{', '\n']);
            self.at += parameters.unwrap_or(0);
        }
        self.argument();
    }

    /// Reads the definition of a macro in place of its call.
    fn call(&mut self, name: &str) {
        let defined = self.defined;
        let Some(known) = defined.macros.get(name) else { return };
        let mut arguments = Vec::new();
        if let Some(default) = &known.default {
            let given = optional(self.rest());
            if let Some((_, after)) = given {
                self.at = self.source.len() - after.len();
            }
            arguments.push(given.map_or(default.as_str(), |(given, _)| given));
        }
        while arguments.len() < known.arguments {
            arguments.push(self.token());
        }
        let mut expanded = String::new();
        let mut parts = known.body.split('#');
        expanded.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let number = part.bytes().next().filter(u8::is_ascii_digit).map(|digit| digit - b'0');
            let argument = number.and_then(|at| arguments.get(usize::from(at).checked_sub(1)?));
            match argument {
                Some(argument) => expanded.extend([*argument, &part[1..]]),
                None => expanded.extend(["#", part]),
            }
        }
        if self.depth >= DEPTH_MAX || !defined.allows(expanded.len()) {
            return;
        }
        let fence = *self.fence.get_or_insert_with(|| fence_for(self.source));
        let mut inner = Reader {
            source: &expanded,
            groups: Groups::of(&expanded),
            open_mathematics: [0; 2],
            at: 0,
            layout: std::mem::take(&mut self.layout),
            open: Vec::new(),
            lists: std::mem::take(&mut self.lists),
            fence: Some(fence),
            defined,
            has_emphasis: self.has_emphasis,
            depth: self.depth + 1,
            is_in_table: self.in_table(),
        };
        inner.read_to_end();
        (self.layout, self.lists) = (inner.layout, inner.lists);
    }

    /// The next argument of a macro: a group, else a command, else a character.
    fn token(&mut self) -> &'a str {
        let rest = self.rest();
        if let Some((inner, after)) = self.groups.first(rest) {
            self.at = self.source.len() - after.len();
            return inner;
        }
        let token = rest.trim_start();
        let first = token.chars().next().map_or(0, char::len_utf8);
        let bytes = match token.strip_prefix('\\').map(letters_of) {
            Some("") => token.chars().take(2).map(char::len_utf8).sum(),
            Some(letters) => 1 + letters.len(),
            None => first,
        };
        self.at += rest.len() - token.len() + bytes;
        &token[..bytes]
    }

    /// Goes into the next argument, whose words are emphasized as in Markdown.
    fn emphasis(&mut self, mark: &'static str) {
        let outside = self.open.len();
        self.enter(if self.has_emphasis { End::Emphasis(mark) } else { End::Nothing });
        if self.has_emphasis && self.open.len() > outside {
            self.layout.emphasis(mark);
        }
    }

    /// Blanks after a command made of letters belong to it, unless an argument follows.
    fn after_word(&mut self) {
        let rest = self.rest();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if blank > 0 && !rest[blank..].starts_with(['{', '\n']) {
            self.at += blank;
        }
    }

    fn item(&mut self) {
        let depth = self.lists.len().saturating_sub(1);
        let marker = match self.lists.last_mut() {
            Some(Some(next)) => {
                *next += 1;
                format!("{}.", *next - 1)
            }
            _ => "-".to_owned(),
        };
        self.layout.end_item();
        self.layout.item(depth, &marker);
        let rest = self.rest();
        let trimmed = rest.trim_start_matches([' ', '\t']);
        if let Some((label, after)) = optional(trimmed) {
            self.at = self.source.len() - after.len();
            let label = self.label(label);
            self.layout.text(&format!("{}: ", label.trim_end_matches(':')));
        }
    }

    fn label(&self, label: &str) -> String {
        match label.len() <= LABEL_BYTES_MAX {
            true => text_of(label, self.defined),
            false => label.to_owned(),
        }
    }

    fn caption(&mut self, name: &str) {
        let of = |open: &Open<'_>| match open.name?.trim_end_matches('*') {
            "figure" | "wrapfigure" | "subfigure" => Some("Figure: "),
            "table" | "wraptable" | "longtable" => Some("Table: "),
            _ => None,
        };
        let words = self.open.iter().rev().find_map(of).unwrap_or("Caption: ");
        if name == "captionof" {
            self.argument();
        }
        self.layout.breaks(Break::Paragraph);
        self.layout.text(words);
        self.enter(End::Paragraph);
    }

    fn begin(&mut self) {
        let start = self.at - "\\begin".len();
        let Some(name) = self.argument() else { return };
        let base = name.trim_end_matches('*');
        let close = format!("\\end{{{name}}}");
        let whole = |reader: &Self| {
            let body = reader.rest();
            body.find(&close).map_or((body, reader.source.len()), |end| {
                (&body[..end], reader.at + end + close.len())
            })
        };
        if MATH.contains(&base) {
            let (_, end) = whole(self);
            self.at = end;
            return self.math(&self.source[start..end], base != "math");
        }
        if VERBATIM.contains(&name) || DRAWINGS.contains(&name) {
            let (body, end) = whole(self);
            self.at = end;
            if !DRAWINGS.contains(&name) {
                let body = skip_optional(body);
                let body = if name == "minted" {
                    Groups::of(body).first(body).map_or(body, |(_, rest)| rest)
                } else {
                    body
                };
                let fence = *self.fence.get_or_insert_with(|| fence_for(self.source));
                self.layout.code(fence);
                self.layout.text(body.trim_start_matches([' ', '\t']));
                self.layout.end_code();
            }
            return;
        }
        if TABLES.contains(&name) {
            let widths = if matches!(name, "tabular*" | "tabularx" | "tabulary") { 2 } else { 1 };
            for _ in 0..widths {
                self.argument();
            }
            self.layout.table();
            self.push(Some(name), End::Table);
            self.layout.begin_row();
            return self.layout.cell();
        }
        match name {
            "itemize" | "enumerate" | "description" | "thebibliography" => {
                if name == "thebibliography" {
                    self.argument();
                }
                self.skip_optionals();
                let is_inner = !self.lists.is_empty();
                self.layout.breaks(if is_inner { Break::Line } else { Break::Paragraph });
                self.lists.push((name == "enumerate").then_some(1));
                self.push(Some(name), End::List);
            }
            "quote" | "quotation" | "verse" => {
                self.layout.quote();
                self.push(Some(name), End::Quote);
            }
            "frame" => {
                self.skip_optionals();
                self.layout.breaks(Break::Paragraph);
                self.push(Some(name), End::Paragraph);
                if self.rest().starts_with('{') {
                    self.layout.heading(2);
                    self.enter(End::Heading);
                }
            }
            _ => self.begin_block(name, base),
        }
    }

    /// A theorem and the like, or an environment that is only a block.
    fn begin_block(&mut self, name: &'a str, base: &str) {
        self.layout.breaks(Break::Paragraph);
        self.push(Some(name), End::Paragraph);
        if let Some(words) = self.defined.theorems.get(base) {
            let rest = self.rest();
            let named = optional(rest.trim_start_matches([' ', '\t']));
            let words = match named {
                Some((label, after)) => {
                    self.at = self.source.len() - after.len();
                    format!("{words} ({}). ", self.label(label))
                }
                None => format!("{words}. "),
            };
            return self.layout.text(&words);
        }
        self.skip_optionals();
        let arguments = match base {
            "minipage" | "multicols" | "adjustbox" | "column" | "subfigure" | "spacing" => 1,
            "wrapfigure" | "wraptable" => 2,
            _ => 0,
        };
        for _ in 0..arguments {
            self.argument();
        }
    }

    fn end(&mut self) {
        let Some(name) = self.argument() else { return };
        let Some(place) = self.open.iter().rposition(|open| open.name == Some(name)) else {
            return;
        };
        while self.open.len() > place
            && let Some(open) = self.open.pop()
        {
            self.close(open);
        }
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '\\' | '$' | '{' | '}' | '\n' | '~' | '&' | '`' | '\'' | '-')
}

/// Where mathematics ends: at the mark that is not escaped, in the same paragraph.
fn math_end(body: &str, mark: &str) -> Option<usize> {
    let bytes = body.as_bytes();
    let mut at = 0;
    while at < bytes.len().min(MATH_BYTES_MAX) {
        match bytes[at] {
            b'\\' => at += 2,
            b'$' if body.is_char_boundary(at) && body[at..].starts_with(mark) => return Some(at),
            b'\n' if body[at + 1..].trim_start_matches([' ', '\t']).starts_with('\n') => {
                return None;
            }
            _ => at += 1,
        }
    }
    None
}

fn heading_level(name: &str) -> Option<usize> {
    Some(match name {
        "part" | "chapter" => 1,
        "section" | "frametitle" => 2,
        "subsection" => 3,
        "subsubsection" => 4,
        "paragraph" => 5,
        "subparagraph" => 6,
        _ => return None,
    })
}

fn is_citation(name: &str) -> bool {
    name.starts_with("cite") || matches!(name, "autocite" | "parencite" | "textcite" | "footcite")
}

fn is_reference(name: &str) -> bool {
    matches!(name, "ref" | "eqref" | "autoref" | "cref" | "Cref" | "pageref" | "nameref" | "vref")
}

/// How many arguments a command takes that leaves no text.
fn dropped_arguments(name: &str) -> usize {
    match name {
        "label" | "vspace" | "hspace" | "includegraphics" | "bibliography"
        | "bibliographystyle" | "input" | "include" | "usepackage" | "documentclass"
        | "pagestyle" | "thispagestyle" | "index" | "nocite" | "hypersetup" | "graphicspath"
        | "color" | "cline" | "cmidrule" | "title" | "author" | "date" | "affiliation"
        | "institute" | "phantom" | "RequirePackage" | "theoremstyle" | "hyphenation"
        | "usetikzlibrary" | "tikz" | "addbibresource" | "captionsetup" | "cfoot" | "chead"
        | "enlargethispage" | "fancyfoot" | "fancyhead" | "fancyhf" | "geometry" | "lfoot"
        | "lhead" | "linespread" | "lstinputlisting" | "lstset" | "newcounter" | "newlength"
        | "pagenumbering" | "pgfplotsset" | "refstepcounter" | "rfoot" | "rhead"
        | "selectlanguage" | "setdefaultlanguage" | "setmainfont" | "setmainlanguage"
        | "setmathfont" | "setmonofont" | "setotherlanguage" | "setsansfont" | "setstretch"
        | "sisetup" | "stepcounter" | "subfile" | "tikzset" | "urlstyle" | "usecolortheme"
        | "usefonttheme" | "usetheme" => 1,
        "setlength"
        | "addtolength"
        | "setcounter"
        | "addtocounter"
        | "newtheorem"
        | "markboth"
        | "fontsize"
        | "counterwithin"
        | "DeclareSIUnit"
        | "DeclareUnicodeCharacter"
        | "lstdefinelanguage"
        | "lstdefinestyle"
        | "numberwithin"
        | "PassOptionsToPackage"
        | "rule"
        | "setbeamercolor"
        | "setbeamerfont"
        | "setbeamertemplate" => 2,
        "newenvironment" | "renewenvironment" | "definecolor" | "addcontentsline" | "crefname"
        | "Crefname" => 3,
        _ => 0,
    }
}

/// The text of a command that stands for letters or a mark.
fn letter(name: &str) -> Option<&'static str> {
    Some(match name {
        "ss" => "ß",
        "ae" => "æ",
        "AE" => "Æ",
        "oe" => "œ",
        "OE" => "Œ",
        "o" => "ø",
        "O" => "Ø",
        "aa" => "å",
        "AA" => "Å",
        "l" => "ł",
        "L" => "Ł",
        "i" => "ı",
        "j" => "ȷ",
        "S" => "§",
        "P" => "¶",
        "copyright" => "©",
        "pounds" => "£",
        "euro" | "texteuro" => "€",
        "dag" => "†",
        "ddag" => "‡",
        "ldots" | "dots" | "textellipsis" => "…",
        "textendash" => "–",
        "textemdash" => "—",
        "textquoteleft" => "‘",
        "textquoteright" => "’",
        "textquotedblleft" => "“",
        "textquotedblright" => "”",
        "textbackslash" => "\\",
        "textasciitilde" => "~",
        "textasciicircum" => "^",
        "textbar" => "|",
        "textless" => "<",
        "textgreater" => ">",
        "textdegree" => "°",
        "texttimes" => "×",
        "textbullet" => "•",
        "textregistered" => "®",
        "texttrademark" => "™",
        "LaTeX" => "LaTeX",
        "TeX" => "TeX",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_end() {
        for source in [
            "\\begin{align}",
            "\\textbf{open",
            "$x",
            "\\",
            "\\item",
            "{{{{",
            "\\begin{verbatim}\nx",
            "\\[",
            "\\section{",
            "\\'",
            "\\\"é",
            "\\verb|",
            "\\href{",
            "\\begin{tabular}",
            "\\end{x}",
            "%",
            "\\%",
            "\\é",
            "\\begin{é",
            "$\\",
            "\\c",
            "}}",
            "[",
            "\\item[",
            "\\\\[",
        ] {
            paper(source);
            paper(&source.repeat(300));
        }
    }

    #[test]
    fn a_comment_takes_its_line_end_and_no_escaped_sign() {
        assert_eq!(without_comments("a 5\\% b % c\n  d\n"), "a 5\\% b d\n");
        assert_eq!(without_comments("a% b\n\nc"), "a\n\nc");
        assert_eq!(without_comments("\\verb|%| x % y"), "\\verb|%| x ");
        assert_eq!(without_comments("% all\ntext"), "text");
    }

    #[test]
    fn a_text_with_commands_outside_mathematics_is_latex() {
        for latex in ["\\emph{x}", "a $x$ \\ldots", "\\begin{itemize}", "\\section{A}"] {
            assert!(is_source(latex), "{latex}");
        }
        for text in [
            "100% sure",
            "costs \\$5",
            "$\\alpha$ is 5%",
            "\\[ \\frac{1}{2} \\]",
            "$5 and \\",
            "\\begin{align*}\n\\alpha\n\\end{align*}",
            "",
        ] {
            assert!(!is_source(text), "{text}");
        }
    }

    #[test]
    fn the_title_of_a_paper_is_not_part_of_its_text() {
        let source = "\\title[Short]{On \\emph{Cats}\\\\and Dogs}\n\\begin{document}\n\\maketitle\nText.\n\\end{document}\nrest";
        let paper = paper(source);
        assert_eq!(paper.title.as_deref(), Some("On Cats and Dogs"));
        assert_eq!(paper.text, "Text.");
    }
}
