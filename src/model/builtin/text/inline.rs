//! Marks of Markdown and HTML between the words of a text: bold words, links, pictures, tags.
//!
//! Contract. A link leaves its words: `[words](address "title")`, `[words][label]`, `<https://a.example>`. A picture
//! leaves nothing, also inside a link, and so does the mark of a footnote. A known tag of HTML leaves nothing, and so does
//! a tag that its text closes. What stands between backticks is code and stays as it is. A hyphen that only breaks a word at
//! the end of a line leaves nothing, and neither does the stroke before a sign that is meant as it stands: `\*`. Brackets
//! that are no link stay: `a[i]`, `[1]`. So do stars and lines in paths, patterns and identifiers: `src/*/x_*.rs`. The cost
//! grows with the length of the text and no faster.
//!
//! See docs/adr/0134-marks-in-texts-and-histories.md.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::markup::prefix;

/// The hyphen that programs set where they break a word. One that somebody types is another sign.
const BREAK: char = '\u{2010}';
/// Longest address of a link. A longer one is read as words.
const ADDRESS_BYTES_MAX: usize = 4 << 10;
/// Words of a link that only names where it leads.
const NAME_WORDS_MAX: usize = 2;
/// Longest line that may be made of marks.
const LINE_BYTES_MAX: usize = 8 << 10;
/// Longest tag of HTML.
const TAG_BYTES_MAX: usize = 2 << 10;
/// Longest label of a link whose address stands elsewhere.
const LABEL_BYTES_MAX: usize = 200;
/// Tags that mark words or blocks. Others may be words of the text, such as `<name>`.
const TAGS: &str = " a abbr b big blockquote br center code dd del details div dl dt em figcaption figure font h1 h2 h3 h4 h5 h6 \
    hr i img ins kbd li mark ol p picture pre s samp small source span strike strong sub summary sup table tbody td th thead tr \
    tt u ul video ";

/// Tags that may be placeholders of the text where they hold no members: `<source>`.
const WORDS: &str = " a abbr big figcaption figure font img mark picture source video ";

/// Tags that begin a line where they are tags. Behind words, without members and never closed, they are what the text
/// speaks of: `Write the <details> into the form.`
const BLOCKS: &str = " blockquote center code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr ins li mark ol p pre small span \
    summary table tbody td th thead tr ul ";

/// A quotation as a summary shows it.
pub(crate) fn unmarked(source: &str) -> String {
    without_marks(source).into_iter().map(|words| &source[words]).collect()
}

/// The words of a text without the marks between them. A text without marks is one range.
pub(crate) fn without_marks(source: &str) -> Vec<Range<usize>> {
    let mut kept = Vec::new();
    let mut from = 0;
    for mark in marks(source) {
        kept.push(from..mark.start);
        from = mark.end;
    }
    kept.push(from..source.len());
    kept
}

/// How many bytes of a text are no marks.
pub(crate) fn visible_bytes(source: &str) -> usize {
    source.len() - marks(source).into_iter().map(|mark| mark.len()).sum::<usize>()
}

/// The part of a text that shows at most `bytes` bytes, cut after a word if there is one to cut after, and never
/// inside a mark: all of it, its beginning, or the beginning of the words of a link.
pub(crate) fn shown(source: &str, bytes: usize) -> Range<usize> {
    if visible_bytes(source) <= bytes {
        return 0..source.len();
    }
    let whole = marks(source);
    let (mut visible, mut from, mut end) = (0, 0, source.len());
    let behind = source.len()..source.len();
    for gap in whole.iter().cloned().chain(std::iter::once(behind)) {
        let words = gap.start - from;
        if visible + words > bytes {
            end = from + bytes - visible;
            break;
        }
        visible += words;
        from = gap.end;
    }
    let mut end = after_word(source, end);
    // Where the end of a link is missing, its beginning is read as words.
    let cut = marks(&source[..end]);
    let torn = whole.iter().zip(cut.iter().map(Some).chain(std::iter::repeat(None)));
    let torn =
        torn.take_while(|(mark, _)| mark.start < end).find(|(mark, cut)| Some(*mark) != *cut);
    if let Some((mark, _)) = torn {
        let before = source[..mark.start].trim_end().len();
        if before > 0 {
            end = before;
        } else {
            let start = mark.end;
            let rest = shown(&source[start..], bytes);
            return start + rest.start..start + rest.end;
        }
    }
    0..end
}

/// Where a text is cut at the latest at a byte: after a word, if one ends in the second half of what is kept.
pub(crate) fn after_word(source: &str, bytes: usize) -> usize {
    let cut = prefix(source, bytes);
    match cut.rfind(char::is_whitespace) {
        Some(space) if space > bytes / 2 => cut[..space].trim_end().len(),
        _ => cut.len(),
    }
}

/// Whether a line has links, pictures and tags and no word beside them that somebody could read.
pub(crate) fn is_made_of_marks(line: &str) -> bool {
    line.len() <= LINE_BYTES_MAX && line.contains(['[', '<']) && {
        let words = without_marks(line);
        words.len() > 1
            && !words.into_iter().any(|words| line[words].contains(char::is_alphanumeric))
    }
}

/// Whether a line says where a label leads: `[label]: https://a.example "title"`. A comment is written in the same way:
/// `[//]: # (words)`. A footnote is none: `[^1]: words`.
pub(crate) fn defines_label(line: &str) -> bool {
    let Some((label, said)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]:")) else {
        return false;
    };
    let mut words = said.split_whitespace();
    let address = words.next().unwrap_or("");
    let title = words.next();
    let is_label = !label.is_empty() && !label.starts_with('^') && !label.contains(['[', ']']);
    let is_web = address.contains("://") || address.starts_with("mailto:");
    let leads = address.starts_with(['#', '/', '<', '.', '?']);
    // `[12]: 3.5` is a row, `[Ana]: ok.` is something that somebody says.
    let names = label.contains(char::is_alphabetic) && address.contains(char::is_alphabetic);
    let inner = address.trim_end_matches(['.', ',', ':', '!', '?']);
    let is_place =
        names && title.is_none() && (inner.contains(['/', '.', '#']) || inner.contains("::"));
    let is_address = is_web || leads && (address.len() > 1 || title.is_some()) || is_place;
    is_label && is_address && title.is_none_or(|title| title.starts_with(['"', '\'', '(']))
}

/// Whether a line or an item is one link that only names where it leads: `[Usage](#usage)`, `[Documentation](docs.md)`.
pub(crate) fn leads_elsewhere(item: &str) -> bool {
    let item = item.trim();
    let closings = closings(item);
    item.starts_with('[')
        && link_at(item, 0, &closings).is_some_and(|(close, end)| {
            let words = unmarked(&item[1..close]);
            let is_place = item[close..].starts_with("](#");
            let has_letter = |word: &&str| word.contains(char::is_alphanumeric);
            let count = words.split_whitespace().filter(has_letter).count();
            end == item.len() && (is_place || count <= NAME_WORDS_MAX)
        })
}

/// The length of the link that a line begins with, or 0.
pub(crate) fn link_length(line: &str) -> usize {
    if !line.starts_with('[') || line.len() > LINE_BYTES_MAX {
        return 0;
    }
    link_at(line, 0, &closings(line)).map_or(0, |(_, end)| end)
}

/// The marks of a text, in order and apart from one another.
fn marks(source: &str) -> Vec<Range<usize>> {
    if !source.contains(['*', '_', '~', '[', '<', '\\', BREAK]) {
        return Vec::new();
    }
    let closings = closings(source);
    let closed = closed_tags(source);
    let mut marks: Vec<Range<usize>> = Vec::new();
    // Where what was opened ends, and how long its end is: innermost last.
    let mut open: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    let signs = ['*', '_', '~', '[', '!', ']', '<', '>', '`', '\\', BREAK];
    while let Some(step) = source[at..].find(signs) {
        at += step;
        while open.last().is_some_and(|end| end.start < at) {
            open.pop();
        }
        if let Some(end) = open.pop_if(|end| end.start == at) {
            at = end.end;
            marks.push(end);
            continue;
        }
        let rest = &source[at..];
        let begun = match rest.as_bytes()[0] {
            b'`' => Begun::Words(code_length(rest)),
            b'!' if rest.starts_with("![") => link_at(source, at + 1, &closings)
                .map_or(Begun::Nothing, |(_, end)| Begun::Mark(end - at)),
            b'\\' if is_escape(rest) => {
                marks.push(at..at + 1);
                Begun::Words(1 + width(&rest[1..]))
            }
            b'[' if rest.starts_with("[^") => Begun::mark(note_length(&source[..at], rest)),
            b'[' => link_at(source, at, &closings)
                .map_or(Begun::Nothing, |(close, end)| Begun::Pair(1, close..end)),
            b'<' => match address_in_angles(rest) {
                Some(length) => Begun::Address(at + length - 1),
                None => Begun::mark(tag_length(&source[..at], rest, &closed)),
            },
            b'*' | b'_' => stressed(&source[..at], rest).map_or(Begun::Nothing, |(mark, inner)| {
                let end = at + mark + inner;
                Begun::Pair(mark, end..end + mark)
            }),
            b'~' if rest.starts_with("~~~") => {
                Begun::Words(rest.len() - rest.trim_start_matches('~').len())
            }
            b'~' if rest.starts_with("~~") => struck(source, at),
            _ if rest.starts_with(BREAK) => Begun::mark(broken_word(rest)),
            _ => Begun::Nothing,
        };
        at += match begun {
            Begun::Words(length) => length,
            Begun::Mark(length) => {
                marks.push(at..at + length);
                length
            }
            // Pairs that cross are words.
            Begun::Pair(length, end) if open.last().is_none_or(|outer| end.end <= outer.start) => {
                marks.push(at..at + length);
                open.push(end);
                length
            }
            Begun::Address(end) => {
                marks.push(at..at + 1);
                open.push(end..end + 1);
                end - at
            }
            Begun::Pair(..) | Begun::Nothing => width(rest),
        };
    }
    marks
}

/// What begins at a sign.
enum Begun {
    /// Words without marks, of this length.
    Words(usize),
    /// One mark of this length.
    Mark(usize),
    /// A mark of this length, whose other half stands there.
    Pair(usize, Range<usize>),
    /// An address between `<` and the `>` at this place.
    Address(usize),
    Nothing,
}

impl Begun {
    fn mark(length: usize) -> Begun {
        if length > 0 { Begun::Mark(length) } else { Begun::Nothing }
    }
}

/// Whether a stroke only says that the sign behind it is no mark: `\*`.
fn is_escape(rest: &str) -> bool {
    rest[1..].starts_with(['*', '_', '~', '[', ']', '<', '>', '`'])
}

/// The length of the mark of stressed words that begin here, and of the words: `**so**`, `*so*`, `_so_`. Nothing is
/// stressed in `2**3`, `a_name`, `__name__`, `src/*/x_*.rs` and `*.rs, *.toml`.
fn stressed(before: &str, rest: &str) -> Option<(usize, usize)> {
    let sign = rest.chars().next()?;
    let twice = ["**", "__"].into_iter().find(|mark| rest.starts_with(mark));
    let mark = twice.unwrap_or(&rest[..1]);
    let inner = &rest[mark.len()..];
    let opens = |c: char| {
        !c.is_whitespace() && c != sign && !is_in_path(c) && !matches!(c, ')' | ',' | ';')
    };
    let is_name = mark.len() == 2 && inner.starts_with('.') && !inner[1..].starts_with(is_in_path);
    if !inner.starts_with(opens) && !is_name
        || before.ends_with(|c: char| c.is_alphanumeric() || c == sign || is_in_path(c))
        || before.ends_with("::")
    {
        return None;
    }
    let end = inner.find(mark)?;
    let (words, behind) = (&inner[..end], &inner[end + mark.len()..]);
    // One star or line may stand in bold words, and is then none that ends.
    let is_one = mark == "**"
        || !(behind.starts_with(sign) || sign == '_' && behind.starts_with(char::is_alphanumeric));
    // `__init__` is a name, `__no name__` is stressed.
    let is_apart = mark != "__" || words.contains(char::is_whitespace);
    let is_closed = !words.ends_with(char::is_whitespace) && !words.contains("\n\n");
    (is_one && is_apart && is_closed && ends_word(words, behind)).then_some((mark.len(), end))
}

/// Signs beside which a star is part of a path or of a pattern.
fn is_in_path(sign: char) -> bool {
    matches!(sign, '/' | '\\' | '.' | '=' | '&')
}

/// Whether the mark between two texts may end stressed words. The one in `*a,*b` and in `x_*.rs` begins another word.
fn ends_word(words: &str, behind: &str) -> bool {
    let mut next = behind.chars();
    let first = next.next();
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_after_sign =
        words.ends_with(|c: char| c.is_ascii_punctuation() && !matches!(c, '`' | ')' | ']'));
    match first {
        Some('/' | '\\' | '=') => false,
        Some('.') => !is_letter(next.next()),
        // `*ser*ial` is one word.
        _ => !is_letter(first) || !is_after_sign && !words.contains(char::is_whitespace),
    }
}

/// The length of the mark of a footnote, `[^1]`, or of the mark before its text, `[^1]: `; or 0. A set of signs in a
/// pattern is none: `[^a]*`.
fn note_length(before: &str, text: &str) -> usize {
    let is_label = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '*');
    let label = text[2..].find(|c| !is_label(c)).unwrap_or(text.len() - 2);
    let is_note = (1..LABEL_BYTES_MAX).contains(&label)
        && text[2 + label..].starts_with(']')
        && !before.ends_with(['[', '(', '\\', '/', '^']);
    let behind = if is_note { &text[label + 3..] } else { text };
    if !is_note || behind.starts_with(['*', '+', '?', '{', '-']) {
        return 0;
    }
    let said = behind.strip_prefix(':').map_or(behind, str::trim_start);
    text.len() - said.len()
}

/// Words that are struck in the middle of others are not said any more. Those that begin a text are: it is about them.
fn struck(source: &str, at: usize) -> Begun {
    let inner = source[at + 2..].find("~~");
    let words = inner.map_or("", |inner| &source[at + 2..at + 2 + inner]);
    match inner {
        // Words of two paragraphs are not struck.
        Some(_) if words.is_empty() || words.contains("\n\n") => Begun::Words(2),
        Some(inner) if source[..at].trim().is_empty() => {
            let end = at + 2 + inner;
            Begun::Pair(2, end..end + 2)
        }
        Some(inner) => Begun::Mark(inner + 4),
        None => Begun::Mark(2),
    }
}

/// The length of the first character.
fn width(text: &str) -> usize {
    text.chars().next().map_or(1, char::len_utf8)
}

/// The length of a hyphen and the white space behind it, where a line ends inside a word; or 0.
fn broken_word(text: &str) -> usize {
    let behind = &text[BREAK.len_utf8()..];
    let word = behind.trim_start();
    let is_broken = behind.starts_with(['\n', '\r']) && word.starts_with(char::is_lowercase);
    if is_broken { text.len() - word.len() } else { 0 }
}

/// The place of the bracket that closes each one, in order of the opening ones.
fn closings(source: &str) -> Vec<(usize, usize)> {
    let (mut open, mut pairs) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(step) = source[at..].find(['[', ']', '`', '\\']) {
        at += step;
        match source.as_bytes()[at] {
            b'\\' if is_escape(&source[at..]) => at += 1,
            b'\\' => {}
            b'[' => open.push(at),
            b']' => pairs.extend(open.pop().map(|start| (start, at))),
            // No bracket in code is one of a link.
            _ => at += code_length(&source[at..]) - 1,
        }
        at += 1;
    }
    pairs.sort_unstable();
    pairs
}

/// Where the words of the link that begins here end, and where the link ends.
fn link_at(source: &str, at: usize, closings: &[(usize, usize)]) -> Option<(usize, usize)> {
    let pair = closings.binary_search_by_key(&at, |(open, _)| *open).ok()?;
    let close = closings[pair].1;
    let words = &source[at + 1..close];
    let behind = &source[close + 1..];
    let length = match behind.as_bytes().first() {
        Some(b'(') => address_length(behind)?,
        Some(b'[') => {
            let label = closings.binary_search_by_key(&(close + 1), |(open, _)| *open).ok()?;
            let length = closings[label].1 - close;
            let is_index = source[..at].ends_with(|c: char| c.is_alphanumeric() || c == ']');
            let names = words.contains(char::is_alphabetic) || words.is_empty();
            (!is_index && names && length < LABEL_BYTES_MAX).then_some(length)?
        }
        // The label is the words, which are code or a number: [`read`], `[#12]`.
        _ if words.len() > 2 && words.starts_with('`') && words.ends_with('`') => 0,
        _ if words.strip_prefix('#').is_some_and(|number| number.parse::<u32>().is_ok()) => 0,
        _ => return None,
    };
    (!words.contains("\n\n")).then_some((close, close + 1 + length))
}

/// The length of `(address)` or `(address "title")` at the beginning of a text.
fn address_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let end = text.bytes().take(ADDRESS_BYTES_MAX).position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let inner = text[1..end].trim();
    let (address, title) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
    let title = title.trim();
    let is_title = title.is_empty() || title.starts_with(['"', '\'', '(']);
    (!address.is_empty() && is_title).then_some(end + 1)
}

/// The length of `<https://a.example>` or `<ana@a.example>` at the beginning of a text.
fn address_in_angles(text: &str) -> Option<usize> {
    let end = text.bytes().take(ADDRESS_BYTES_MAX).position(|byte| byte == b'>')?;
    let inner = &text[1..end];
    let is_address = inner.starts_with("https://")
        || inner.starts_with("http://")
        || inner.starts_with("mailto:")
        || inner.split_once('@').is_some_and(|(who, place)| !who.is_empty() && place.contains('.'));
    let is_plain = !inner.contains(|c: char| c.is_whitespace() || matches!(c, '<' | '[' | '*'));
    (is_address && is_plain).then_some(end + 1)
}

/// The name of the tag that a text begins with, behind `<` or `</`; empty where there is none.
fn tag_name(text: &str) -> &str {
    let inner = text[1..].strip_prefix('/').unwrap_or(&text[1..]);
    let is_sign = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    &inner[..inner.bytes().take_while(is_sign).count()]
}

/// The names of the tags that a text opens and closes: `<b>so</b>`.
fn closed_tags(source: &str) -> BTreeSet<&str> {
    let mut opened = BTreeSet::new();
    let mut closed = BTreeSet::new();
    if source.contains("</") {
        for (at, _) in source.match_indices('<') {
            let name = tag_name(&source[at..]);
            let is_end = source[at + 1..].starts_with('/');
            if is_end && opened.contains(name) {
                closed.insert(name);
            } else if !is_end && !name.is_empty() {
                opened.insert(name);
            }
        }
    }
    closed
}

/// The length of the tag of HTML at the beginning of a text, or 0.
fn tag_length(before: &str, text: &str, closed: &BTreeSet<&str>) -> usize {
    if text.starts_with("<!--") {
        return prefix(text, TAG_BYTES_MAX).find("-->").map_or(0, |end| end + 3);
    }
    let (name, is_end) = (tag_name(text), text[1..].starts_with('/'));
    let behind = &text[1 + usize::from(is_end) + name.len()..];
    let is_in = |list: &str| list.contains(&format!(" {} ", name.to_ascii_lowercase()));
    let is_paired = closed.contains(name);
    let is_known = !name.is_empty() && (is_paired || is_in(TAGS))
        // A tag of somebody's own: `<a-name/>`.
        || name.contains('-') && behind.trim_start().starts_with("/>");
    // `Vec<a>` holds no tag.
    let is_apart =
        is_end || is_paired || !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if !is_known || !is_apart && !name.eq_ignore_ascii_case("br") {
        return 0;
    }
    let is_bare = !is_paired && !is_end && behind.starts_with('>');
    if is_bare && (is_in(WORDS) || is_in(BLOCKS) && is_behind_words(before)) {
        return 0;
    }
    if !behind.starts_with(|c: char| c.is_whitespace() || matches!(c, '>' | '/')) {
        return 0;
    }
    let end = text.bytes().take(TAG_BYTES_MAX).position(|byte| byte == b'>');
    end.filter(|end| !text[1..*end].contains('<')).map_or(0, |end| end + 1)
}

/// Whether words stand in front, in the same line.
fn is_behind_words(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let words = line.trim_end();
    words.len() < line.len()
        && words.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | ';' | '(' | '"'))
}

/// The length of the code between backticks at the beginning of a text, or of the backticks that nothing closes.
fn code_length(text: &str) -> usize {
    let run = text.len() - text.trim_start_matches('`').len();
    let mut at = run;
    while let Some(step) = text[at..].find('`') {
        at += step;
        let length = text[at..].len() - text[at..].trim_start_matches('`').len();
        at += length;
        if length == run {
            return at;
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_and_marks_go() {
        for (source, words) in [
            ("See [the map](https://a.example/x_(y)) now.", "See the map now."),
            ("[words](a.md \"A title\") and [more](<b.md>)", "words and more"),
            ("[words][label], [words too][] and [`code`].", "words, words too and `code`."),
            ("[![badge](b.svg)](https://a.example) [![b][c]][d]", " "),
            ("[![logo](l.png) Name](https://a.example)", " Name"),
            ("![a photo](p.png), **Kim** said.", ", Kim said."),
            ("Write the <details> into the form.", "Write the <details> into the form."),
            (
                "The <table> is in the hall, a <summary> too.",
                "The <table> is in the hall, a <summary> too.",
            ),
            ("<details>\n<summary>More</summary>\nWords <br> here.", "\nMore\nWords  here."),
            ("<tr><td> Name <td align=left> Age", " Name  Age"),
            ("*A name* of a _thing_ is **very** *ser*ial.", "A name of a thing is very serial."),
            ("It leaks.[^1] It is [^two] old.", "It leaks. It is  old."),
            ("[^1]: It costs 4 EUR.", "It costs 4 EUR."),
            ("~~An old **plan**~~ is ~4 EUR", "An old plan is ~4 EUR"),
            ("**[Kim](k.md)** and [**Lee**](l.md)", "Kim and Lee"),
            (
                "Write to <ana@a.example> or <https://a.example>.",
                "Write to ana@a.example or https://a.example.",
            ),
            ("__No name__ of \\*it\\* and \\[x\\](y)", "No name of *it* and [x](y)"),
            ("**src/a.rs**: *it*, (*so*) and **.NET**", "src/a.rs: it, (so) and .NET"),
            ("A <note kind=\"x\">word</note> and <i>b</i>", "A word and b"),
            (
                "A <kbd>key</kbd>, a<br>line<!-- no word --> and <img src=\"x\" alt=\"y\"> it.",
                "A key, aline and  it.",
            ),
        ] {
            assert_eq!(unmarked(source), words, "{source}");
        }
        for plain in [
            "It is 2**3**4 here.",
            "Take [a] and (b).",
            "A ** b ** c is odd.",
            "So [x](y z) is.",
            "As [1][2] say, a[i][j] is in Vec<a>.",
            "Call `[a](b)` with ``<table> ` **x**``.",
            "Give <name> and <source> and 3 < 4 > 2, [^ and [^a b].",
            "Open [a `](b)` c",
            "Take a_name_here, __init__ and _a",
            "* a star * and 2 * 3 * 4",
            "All of src/*/x_*.rs, *.rs, *.toml and a/**/b/**/c",
            "‘*’ is a star, _’ is a line and *",
            "use a::*; use b::*; f(*a,*b) and a*b*c",
            "A Vec<String> of <name> in <place>, [^a-z]* and [^b]+",
            "It is ~~~~ long, *one\n\ntwo*",
        ] {
            assert_eq!(unmarked(plain), plain);
        }
    }

    #[test]
    fn lines_without_words_are_told_from_others() {
        for line in [
            "[![CI](a.svg)](https://a.example) ![b](b.svg)",
            "[![Docs][docs-badge]][docs]",
            "<p align=\"center\">",
            "<a href=\"https://a.example\"><img src=\"x.png\"></a>",
        ] {
            assert!(is_made_of_marks(line), "{line}");
        }
        for line in ["[a]", "[words](b.md)", "***", "<name>", "- - -", "|[a](b)|"] {
            assert!(!is_made_of_marks(line), "{line}");
        }
        for line in [
            "[docs]: https://docs.example",
            "[guide]: ../guide.md \"The guide\"",
            "[//]: # (a comment)",
            "[comment]: <> (a comment)",
            "[ana]: mailto:ana@a.example",
            "[1]: https://a.example",
            "[`Read`]: crate::Read",
            "[find]: ?q=a",
        ] {
            assert!(defines_label(line), "{line}");
        }
        for line in [
            "[^1]: It costs 4 EUR.",
            "[Ana]: call Ben",
            "[10:04]: the roof leaks",
            "[a] b",
            "[x]: yes.",
            "[12]: 3.5",
            "[Ana]: 10.30",
            "[Ana]: /",
        ] {
            assert!(!defines_label(line), "{line}");
        }
        for line in [
            "[How to use it in a page](#usage)",
            "[`Documentation`](https://a.example)",
            "[guide][g]",
            "[Questions & Answers](q.md)",
        ] {
            assert!(leads_elsewhere(line), "{line}");
        }
        for line in ["[Usage](#usage) of it", "[How we mended the roof](r.md)", "[x] Call Ana"] {
            assert!(!leads_elsewhere(line), "{line}");
        }
    }

    #[test]
    fn a_cut_text_shows_whole_words_and_no_part_of_a_mark() {
        let cut = |source: &'static str, bytes: usize| &source[shown(source, bytes)];
        assert_eq!(cut("alpha beta gamma", 12), "alpha beta");
        assert_eq!(
            cut("See [it](https://a.example/long).", 10),
            "See [it](https://a.example/long)."
        );
        assert_eq!(cut("See this and [a long name](https://a.example).", 16), "See this and");
        assert_eq!(cut("[a long name of it](https://a.example) is here", 12), "a long name");
        for bytes in 1..40 {
            let source = "**Bold words** and [é link](a.md) of [![p](q)](r) `code` <b>x</b> end";
            let range = shown(source, bytes);
            assert!(visible_bytes(&source[range]) <= bytes);
        }
    }
}
