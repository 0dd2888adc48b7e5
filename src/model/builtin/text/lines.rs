//! What a single line is: heading, list item, quoted mail, table row, `Label: value`, chat turn.
//!
//! Pure classification of one line; how lines join into blocks is decided in `blocks`.

use std::ops::Range;

use super::super::lexicon::{Words, lexicon};
use super::sentences::is_abbreviation;
use super::stopwords::is_stop_word;
use super::words::fold;

/// Longest label before a colon, in bytes.
const LABEL_BYTES_MAX: usize = 48;
/// Longest closing of a letter, and the beginning that makes a long line one.
const CLOSING_BYTES_MAX: usize = 160;
const LONG_CLOSING_BYTES: usize = 12;
/// Words of a closing that is known by its end.
const CLOSING_WORDS_MAX: usize = 3;
/// Longest line that may be a heading without markup, in bytes.
const PLAIN_HEADING_BYTES_MAX: usize = 80;

/// Bytes of indentation at the start of a line.
pub(crate) fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Level of a marked heading (`## x`, `\section{x}`) and the range of its text.
pub(crate) fn marked_heading(line: &str) -> Option<(u8, Range<usize>)> {
    let start = indent(line);
    let rest = &line[start..];
    let hashes = rest.bytes().take_while(|&byte| byte == b'#').count();
    if (1..=6).contains(&hashes) && rest[hashes..].starts_with([' ', '\t']) {
        let text = start + hashes + indent(&rest[hashes..]);
        let end = line.trim_end().trim_end_matches('#').trim_end().len();
        return (text < end).then_some((hashes as u8, text..end));
    }
    latex_heading(rest).map(|(level, range)| (level, start + range.start..start + range.end))
}

fn latex_heading(line: &str) -> Option<(u8, Range<usize>)> {
    const COMMANDS: [(&str, u8); 6] = [
        ("\\part", 1),
        ("\\chapter", 1),
        ("\\section", 2),
        ("\\subsection", 3),
        ("\\subsubsection", 4),
        ("\\paragraph", 5),
    ];
    let (command, level) = COMMANDS.iter().find(|(command, _)| {
        line.strip_prefix(command)
            .is_some_and(|rest| rest.starts_with('{') || rest.starts_with("*{"))
    })?;
    let open = line[command.len()..].find('{')? + command.len() + 1;
    let mut depth = 1_usize;
    let inside = |c: char| {
        depth = match c {
            '{' => depth + 1,
            '}' => depth - 1,
            _ => depth,
        };
        depth == 0
    };
    let close = line[open..].find(inside)? + open;
    Some((*level, open..close))
}

/// Where the text of a list item starts (`- x`, `3. x`, `b) x`, `- [ ] x`).
pub(crate) fn list_item(line: &str) -> Option<usize> {
    let start = indent(line);
    let rest = &line[start..];
    let boxed =
        BOXES.iter().any(|mark| rest.starts_with(mark) && rest[mark.len()..].starts_with(' '));
    let marker = bullet(rest).or_else(|| enumerator(rest)).or(boxed.then_some(0))?;
    let mut text = start + marker + indent(&rest[marker..]);
    for mark in BOXES {
        if line[text..].starts_with(mark) {
            text += mark.len() + indent(&line[text + mark.len()..]);
            break;
        }
    }
    (text < line.len()).then_some(text)
}

/// Whether a line is the mark of an item that has no words: `-`, `- [ ]`. A number may end a sentence, unless it stands
/// apart.
pub(crate) fn is_empty_item(line: &str, is_apart: bool) -> bool {
    const MARKS: [&str; 11] = ["-", "*", "+", "•", "◦", "▪", "●", "·", "--", "–", "—"];
    let mark = BOXES.iter().find_map(|mark| line.strip_suffix(mark)).unwrap_or(line).trim_end();
    let is_number = || {
        let number = mark.strip_suffix(['.', ')']).unwrap_or_default();
        (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    mark.is_empty() || MARKS.contains(&mark) || is_apart && is_number()
}

/// Whether a line is code and nothing else: `` `make` ``, `$ make`.
pub(crate) fn is_code(line: &str) -> bool {
    let inner = line.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    let is_quoted = inner.is_some_and(|inner| !inner.is_empty() && !inner.contains('`'));
    let command = line.strip_prefix("$ ").and_then(|rest| rest.chars().next());
    is_quoted || command.is_some_and(|first| first.is_ascii_lowercase() || "./~_".contains(first))
}

/// Whether an indented line has signs that stand in code and hardly ever between words.
pub(crate) fn looks_like_code(line: &str) -> bool {
    const SIGNS: [&str; 12] =
        ["::", "();", " = ", "=>", "->", " --", "</", "/>", "&&", " | ", "://", "#!"];
    const COMMANDS: [&str; 16] = [
        "git",
        "cargo",
        "make",
        "sudo",
        "npm",
        "pip",
        "apt",
        "apt-get",
        "cd",
        "mkdir",
        "docker",
        "brew",
        "curl",
        "export",
        "./configure",
        "python",
    ];
    let first = line.split(char::is_whitespace).next().unwrap_or_default();
    is_code(line)
        || list_item(line).is_none()
            && (line.ends_with([';', '{', '}'])
                || line.starts_with(['#', '<', '{', '}', '/', '$'])
                || SIGNS.iter().any(|sign| line.contains(sign))
                || COMMANDS.contains(&first) && !line.ends_with(['.', ',']))
}

const BOXES: [&str; 4] = ["[ ]", "[x]", "[X]", "[-]"];

/// Whether the words of a list item stand behind a box, and whether the box is ticked.
pub(crate) fn box_before(before: &str) -> Option<bool> {
    let before = before.trim_end();
    let line = before.rsplit('\n').next().unwrap_or(before).trim_end_matches(AS_PICTURE);
    match line.chars().next_back()? {
        ']' if line.ends_with("[ ]") || line.ends_with("[-]") => Some(false),
        ']' if line.ends_with("[x]") || line.ends_with("[X]") => Some(true),
        '☐' => Some(false),
        '☑' | '☒' | '✅' | '✔' | '✓' => Some(true),
        _ => None,
    }
}

/// Whether a word is one for what is done, as a label or a heading has it.
pub(crate) fn is_word_for_done(word: &str) -> bool {
    let word = fold(word.trim_matches(['*', '_', ' ', '\u{a0}']));
    lexicon().ask.finished.contains(word.as_str())
}

/// Whether the label of a line is a word for what is done: `**Done:** call Ana`.
pub(crate) fn is_labelled_done(said: &str) -> bool {
    let label = said.split_once(':').filter(|(_, rest)| rest.contains(char::is_alphanumeric));
    label.is_some_and(|(label, _)| is_word_for_done(label))
}

/// Behind a sign, it asks for the sign as a picture.
const AS_PICTURE: char = '\u{fe0f}';

fn bullet(rest: &str) -> Option<usize> {
    let first = rest.chars().next()?;
    let width = first.len_utf8();
    let is_bullet = matches!(
        first,
        '-' | '*'
            | '+'
            | '•'
            | '◦'
            | '▪'
            | '■'
            | '□'
            | '●'
            | '○'
            | '⦁'
            | '‣'
            | '➢'
            | '·'
            | '–'
            | '—'
            | '→'
            | '✅'
            | '☐'
            | '☑'
            | '☒'
            | '✔'
            | '✓'
    );
    let width =
        width + if rest[width..].starts_with(AS_PICTURE) { AS_PICTURE.len_utf8() } else { 0 };
    // `-Approve the budget` is an item too; `-3 degrees` and `--help` are none.
    let is_close = first == '-' && rest[width..].starts_with(char::is_uppercase);
    (is_bullet && (is_close || rest[width..].starts_with([' ', '\t']))).then_some(width)
}

fn enumerator(rest: &str) -> Option<usize> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let width = match digits {
        0 if rest.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) => 1,
        1..=3 => digits,
        _ => return None,
    };
    let mark = *rest.as_bytes().get(width)?;
    let marks = mark == b')' || (mark == b'.' && digits > 0);
    (marks && rest[width + 1..].starts_with([' ', '\t'])).then_some(width + 1)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labelled {
    /// The label without marks of emphasis.
    pub label: Range<usize>,
    /// What follows the colon, possibly empty.
    pub value: Range<usize>,
}

/// Reads `<name> words` of a chat.
pub(crate) fn angled(line: &str) -> Option<Labelled> {
    let start = indent(line) + time_stamp(&line[indent(line)..]);
    let inner = line[start..].strip_prefix('<')?;
    let close = inner.find("> ").filter(|close| (1..=LABEL_BYTES_MAX).contains(close))?;
    let name = &inner[..close];
    let is_name = name.chars().any(char::is_alphabetic) && !name.contains(['/', '=', '"', '<']);
    let value = start + 1 + close + 2;
    is_name.then(|| Labelled {
        label: start + 1..start + 1 + close,
        value: value..line.trim_end().len().max(value),
    })
}

/// The number in front of the words of a list item.
pub(crate) fn number_before(before: &str) -> Option<u32> {
    let line = before.rsplit('\n').next().unwrap_or(before).trim();
    let digits = line.strip_suffix(['.', ')'])?;
    (1..=3).contains(&digits.len()).then(|| digits.parse().ok())?
}

/// Reads `Label: value`, `**Label:** value`, `[10:02] Label: value`.
pub(crate) fn labelled(line: &str) -> Option<Labelled> {
    let mut start = indent(line);
    start += time_stamp(&line[start..]);
    if let Some(item) = list_item(&line[start..]) {
        start += item;
    }
    start += line[start..].len() - line[start..].trim_start_matches(['*', '_', '<']).len();
    let rest = &line[start..];
    let colon = rest.char_indices().find(|&(at, character)| {
        at > LABEL_BYTES_MAX || character == ':' || character == '：' || !may_be_in_label(character)
    })?;
    let (colon, mark) = colon;
    if colon == 0 || !matches!(mark, ':' | '：') {
        return None;
    }
    let after = &rest[colon + mark.len_utf8()..];
    if after.starts_with("//")
        || (after.starts_with(|c: char| c.is_ascii_digit())
            && rest.as_bytes()[colon - 1].is_ascii_digit())
    {
        return None;
    }
    let label = rest[..colon].trim_end_matches(['*', '_', '>', ' ', '\t']);
    if label.is_empty()
        || label.split_whitespace().count() > 5
        || !label.chars().any(char::is_alphabetic)
    {
        return None;
    }
    let value = start + colon + mark.len_utf8();
    let value = value + (after.len() - after.trim_start_matches(['*', '_', ' ', '\t']).len());
    let end = line.trim_end().len().max(value);
    Some(Labelled { label: start..start + label.len(), value: value..end })
}

fn may_be_in_label(character: char) -> bool {
    character.is_alphanumeric()
        || matches!(
            character,
            ' ' | '-'
                | '_'
                | '/'
                | '('
                | ')'
                | '*'
                | '\''
                | '’'
                | '&'
                | '>'
                | '¿'
                | '#'
                | 'º'
                | 'ª'
        )
        || (character == '.')
}

fn time_stamp(rest: &str) -> usize {
    let opened = rest.starts_with(['[', '(']) as usize;
    let body = &rest[opened..];
    let width = body
        .bytes()
        .take_while(|byte| {
            byte.is_ascii_digit()
                || matches!(byte, b':' | b'-' | b'/' | b'.' | b'T' | b'Z' | b' ' | b',')
        })
        .count();
    let stamp = &body[..width];
    if !stamp.contains(':') || stamp.bytes().filter(u8::is_ascii_digit).count() < 3 {
        return 0;
    }
    let mut used = opened + width;
    used += (opened == 1 && rest[used..].starts_with([']', ')'])) as usize;
    used += rest[used..].len() - rest[used..].trim_start_matches([' ', '-', '–', '|']).len();
    used
}

/// Whether a line is a row of a table with the names of its columns: `Date: 2026-03-01; Item: train`.
pub(crate) fn is_record(line: &str) -> bool {
    let mut members = line.split("; ");
    let first = members.next().is_some_and(|member| member.contains(": "));
    first && members.next().is_some_and(|member| member.contains(": "))
}

/// Whether a label is a mail header's name. An accent counts where the list has one: `À :` names who gets a French mail,
/// and `A:` begins an answer.
pub(crate) fn is_mail_header(label: &str) -> bool {
    let headers = &lexicon().mail.headers;
    headers.contains(fold(label).as_str()) || headers.contains(label.trim().to_lowercase().as_str())
}

/// Whether a line announces quoted mail below it.
pub(crate) fn announces_quote(line: &str) -> bool {
    let line = line.trim();
    if !line.starts_with(['-', '_']) && !line.ends_with(':') {
        return false;
    }
    let folded = fold(line);
    let mail = &lexicon().mail;
    // `----- Original Message -----`: how many dashes there are, and blanks behind them, says nothing.
    let bare = |text: &str| text.trim_start_matches(['-', ' ']).to_owned();
    let said = bare(&folded);
    let begins = |start: &String| match start.starts_with('-') {
        true => folded.starts_with("--") && said.starts_with(&bare(start)),
        false => folded.starts_with(start.as_str()),
    };
    mail.quote_starts.iter().any(begins)
        || mail.quote_lines.iter().any(|pattern| fits(pattern, &folded))
}

/// Whether a line fits a pattern of pieces with `…` between them.
fn fits(pattern: &str, line: &str) -> bool {
    let mut pieces = pattern.split('…');
    let Some(mut rest) = pieces.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last.trim_start())
}

/// Whether a line is the closing of a letter: `Kind regards,`, `Merci et à bientôt !`
pub(crate) fn closes_letter(line: &str) -> bool {
    const PARTS_MAX: usize = 4;
    line.len() <= CLOSING_BYTES_MAX && is_made_of_closings(line, PARTS_MAX)
}

/// Whether a line is so many closings at most.
fn is_made_of_closings(line: &str, parts_max: usize) -> bool {
    const BETWEEN: [&str; 8] = [" and ", " y ", " und ", " et ", " & ", ", ", "! ", ". "];
    is_closing(line)
        || parts_max > 1
            && BETWEEN.iter().any(|sign| {
                line.split_once(sign).is_some_and(|(first, rest)| {
                    is_closing(first) && is_made_of_closings(rest, parts_max - 1)
                })
            })
}

/// Whether a line is one closing of a letter and no more.
fn is_closing(line: &str) -> bool {
    if line.len() > CLOSING_BYTES_MAX {
        return false;
    }
    let short = line.len() <= 40;
    let said = fold(line.trim_end_matches([',', '.', '!', ' ']));
    let is_few = said.split_whitespace().count() <= CLOSING_WORDS_MAX;
    lexicon().mail.closings.iter().any(|closing| {
        match (closing.strip_suffix('*'), closing.strip_prefix('*')) {
            // `Veuillez agréer …` is a whole sentence.
            (Some(start), _) => {
                said.starts_with(start) && (short || start.len() >= LONG_CLOSING_BYTES)
            }
            // `Sportliche Grüße`
            (_, Some(end)) => short && is_few && said.ends_with(end),
            _ => short && said == *closing,
        }
    })
}

/// Whether a line is nothing but the greeting a letter opens with: `Dear Ms Okeke,`.
pub(crate) fn greets(line: &str) -> bool {
    const WORDS_MAX: usize = 7;
    let line = line.trim_start_matches('¡');
    if line.len() > 60 || line.split_whitespace().count() > WORDS_MAX {
        return false;
    }
    let open = line.ends_with([',', ':', '!']) || line.split_whitespace().count() <= 4;
    let said = line.trim_end_matches(['.', '!', ',', ':']);
    // `Dear Mr. and Mrs. Ellery` is no sentence.
    let mut stops = said.match_indices(['.', '?', '!']);
    let ends = |(at, stop): (usize, &str)| stop != "." || !is_abbreviation(&said[..at]);
    if !open || line.ends_with(['?', ';']) || stops.any(ends) {
        return false;
    }
    // `Madame, Monsieur,`: each part greets, or is the name of who is greeted.
    let mut parts = said.split(',').map(str::trim);
    parts.next().is_some_and(|first| begins_with_greeting(&fold(first)))
        && parts.all(|part| begins_with_greeting(&fold(part)) || is_name(part))
}

/// Whether a folded text begins with a greeting; `*` stands for any ending of its word.
fn begins_with_greeting(said: &str) -> bool {
    lexicon().mail.greetings.iter().any(|greeting| {
        // Some greetings hold a comma of their own: `team,`.
        let (stem, any_ending) = match greeting.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (greeting.trim_end_matches(','), false),
        };
        said.strip_prefix(stem)
            .is_some_and(|rest| any_ending || !rest.starts_with(|c: char| c.is_alphanumeric()))
    })
}

/// Whether a line begins a query of a database, whose keywords stand in capitals.
pub(crate) fn begins_query(line: &str) -> bool {
    const QUERIES: [(&str, &str); 6] = [
        ("SELECT ", ""),
        ("INSERT INTO ", ""),
        ("DELETE FROM ", ""),
        ("CREATE TABLE ", ""),
        ("ALTER TABLE ", ""),
        ("UPDATE ", " SET "),
    ];
    let is_query = |(start, inside): &(&str, &str)| {
        line.starts_with(start) && line.contains(inside) && line.contains(char::is_lowercase)
    };
    QUERIES.iter().any(is_query)
}

/// A line that begins a directive, a target, a footnote or a comment of reStructuredText.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directive {
    /// Where its words begin, if it says any: `.. note:: Take care.`
    pub said: Option<usize>,
    /// What stands below is no text either.
    pub is_silent: bool,
}

/// Directives whose words are text.
const ADMONITIONS: &str = "note warning tip hint important caution danger attention error";
/// Directives below which stands no text.
const SILENT: &str = "image contents toctree include literalinclude index meta raw math code code-block sourcecode \
                      parsed-literal highlight sectnum graphviz plantuml";

/// The name of the directive that a line begins, with what stands behind it.
fn named_directive(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.trim_start().strip_prefix(".. ")?.split_once("::")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | ':');
    let is_apart = rest.is_empty() || rest.starts_with(char::is_whitespace);
    (!name.is_empty() && name.chars().all(is_name) && is_apart).then_some((name, rest))
}

/// Whether a line begins a directive of reStructuredText with a name.
pub(crate) fn names_directive(line: &str) -> bool {
    named_directive(line).is_some()
}

/// The directive that a line begins. Other words behind two dots are a comment where the text has directives.
pub(crate) fn directive(line: &str, has_directives: bool) -> Option<Directive> {
    if let Some((name, rest)) = named_directive(line) {
        let words = rest.trim();
        let is_in = |list: &str| list.split(' ').any(|one| one == name);
        let is_said = is_in(ADMONITIONS) && !words.is_empty();
        let said = is_said.then(|| line.len() - rest.trim_start().len());
        return Some(Directive { said, is_silent: is_in(SILENT) });
    }
    let words = line.trim_start().strip_prefix(".. ")?;
    // `.. _name: address`, `.. [1] A footnote`, `.. |name| image:: file`
    let is_marked = words.starts_with('_') && words.contains(':')
        || words.starts_with('[') && words.contains("] ")
        || words.starts_with('|') && words.contains("| ");
    (is_marked || has_directives).then_some(Directive { said: None, is_silent: true })
}

/// Whether a line is an option of a directive: `:width: 400px`.
pub(crate) fn is_option(line: &str) -> bool {
    let name = line.strip_prefix(':').and_then(|rest| rest.split_once(':'));
    name.is_some_and(|(name, value)| {
        !name.is_empty() && (value.is_empty() || value.starts_with(char::is_whitespace))
    })
}

/// Whether a line frames a text and says nothing of it: navigation, a subscription line, a page footer.
pub(crate) fn is_frame(line: &str) -> bool {
    const FRAME_BYTES_MAX: usize = 160;
    let text = line.trim();
    if text.len() > FRAME_BYTES_MAX {
        return false;
    }
    if is_navigation(text)
        || is_page_mark(text)
        || heads_manual(text)
        || stands_for_file(text)
        || opens_admonition(text)
    {
        return true;
    }
    let said = fold(text.trim_start_matches(['-', '*', '[', '(', '<', '>', '©', ' ']));
    let mail = &lexicon().mail;
    // `- unsubscribe from the wine letter` in a list is something to do.
    let is_item_to_do = |frame: &String| {
        mail.bulk.contains(frame)
            && list_item(line).is_some()
            && said.split_whitespace().count() > frame.split_whitespace().count() + 1
    };
    mail.frames.iter().any(|frame| said.starts_with(frame.as_str()) && !is_item_to_do(frame))
}

/// `Home > News > City`, `Install | Usage | API`: words side by side, each a link.
fn is_navigation(line: &str) -> bool {
    if line.ends_with(['.', '!', '?', ':', ',', ';']) || line.contains(|c: char| c.is_ascii_digit())
    {
        return false;
    }
    let is_link =
        |cell: &str| (1..=3).contains(&cell.split_whitespace().count()) && cell.len() <= 30;
    [(" > ", 2), (" » ", 2), (" | ", 3), (" · ", 3), ("  ", 3)].iter().any(|(mark, least)| {
        let cells: Vec<&str> =
            line.split(mark).map(str::trim).filter(|cell| !cell.is_empty()).collect();
        cells.len() >= *least && cells.iter().all(|cell| is_link(cell))
    })
}

/// `TAR(1)    GNU TAR Manual    TAR(1)`, `GNU    March 2026    TAR(1)`: the head and the foot of a page of a manual.
fn heads_manual(line: &str) -> bool {
    const APART: &str = "   ";
    let last = line.rsplit_once(APART).and_then(|(_, last)| last.strip_suffix(')'));
    let page = last.and_then(|last| last.rsplit_once('('));
    page.is_some_and(|(name, section)| {
        !name.is_empty()
            && !name.contains(char::is_whitespace)
            && section.len() <= 4
            && section.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// `Almeida   Informational   [Page 1]`.
fn is_page_mark(line: &str) -> bool {
    let Some(mark) = line.rfind('[').map(|at| fold(&line[at..])) else { return false };
    mark.starts_with("[page ") && mark.ends_with(']')
}

/// `:::note`, `!!! warning "Take care"`: the mark of a box in Markdown, whose words stand below.
fn opens_admonition(line: &str) -> bool {
    let is_named = |rest: &str| {
        rest.is_empty() || rest.trim_start().starts_with(|c: char| c.is_ascii_lowercase())
    };
    line.strip_prefix(":::").is_some_and(|rest| is_named(rest.trim_matches(':')))
        || ["!!! ", "??? "].iter().any(|mark| line.strip_prefix(mark).is_some_and(is_named))
}

/// `[attachment: plan.txt]`, `[image]`: an import writes such a line where a message has a file, and the words
/// of the file follow.
fn stands_for_file(line: &str) -> bool {
    let named = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    named.is_some_and(|name| {
        name.starts_with("attachment: ") || matches!(name, "image" | "audio" | "video")
    })
}

/// Columns set with spaces: `Category: Informational      March 2026`.
pub(crate) fn is_spaced_out(line: &str) -> bool {
    let text = line.trim();
    // Some writers put more spaces between sentences.
    text.len() <= 120
        && text.contains("    ")
        && !text.contains(".    ")
        && !text.ends_with(['.', '!', '?'])
}

/// Telephone, address or office under a name.
pub(crate) fn is_contact(line: &str) -> bool {
    let digits = line.bytes().filter(u8::is_ascii_digit).count();
    line.len() <= 90
        && (line.contains('|')
            || line.contains('@')
            || line.contains('+')
            || digits >= 6
            || line.split_whitespace().count() <= 2)
        && !line.ends_with(['?', '!', ':'])
}

/// Whether a line is one of a visiting card, as it stands under the closing of a letter: a name, an office, a
/// company, a telephone. It states nothing, and begins no list and no postscript.
pub(crate) fn is_on_card(line: &str) -> bool {
    const BYTES_MAX: usize = 90;
    const WORDS_MAX: usize = 10;
    const OPEN_WORDS_MAX: usize = 3;
    const POSTSCRIPTS: [&str; 7] = ["ps", "p.s.", "pd", "p.d.", "nb", "n.b.", "p. s."];
    let words = line.split_whitespace().count();
    let label = || fold(line.split([':', ' ', ',']).next().unwrap_or_default());
    if line.len() > BYTES_MAX
        || words > WORDS_MAX
        || line.starts_with(['>', '#', '|'])
        || line.ends_with(['?', '!', ';', ':'])
        || list_item(line).is_some()
        || POSTSCRIPTS.contains(&label().as_str())
    {
        return false;
    }
    let stopped = line
        .strip_suffix('.')
        .is_some_and(|before| !is_abbreviation(before) && words > OPEN_WORDS_MAX);
    reaches_somebody(line) || !stopped && !says_something(line)
}

/// Whether a line has a telephone number or an address of the web or of mail.
pub(crate) fn reaches_somebody(line: &str) -> bool {
    const DIGITS_MIN: usize = 7;
    let is_of_number = |c: char| c.is_ascii_digit() || " +-()/.".contains(c);
    let numbers = line.split(|c: char| !is_of_number(c));
    // A day is no telephone number: `2026-03-12`, `12.03.2026 400`.
    let is_day = |piece: &&str| {
        let ends = |part: Option<&str>| part.is_some_and(|part| part.len() == 4);
        let mut parts = piece.split(['-', '.', '/']);
        piece.split(['-', '.', '/']).count() == 3 && (ends(parts.next()) || ends(parts.next_back()))
    };
    let digits = |number: &str| {
        let pieces = number.split(' ').filter(|piece| !is_day(piece));
        pieces.flat_map(str::bytes).filter(u8::is_ascii_digit).count()
    };
    line.contains('@')
        || line.contains("www.")
        || line.contains("://")
        || numbers.map(digits).any(|count| count >= DIGITS_MIN)
}

/// Whether a line ends in a comma and hardly says more: in a letter, a closing that no list has may stand so above a name.
pub(crate) fn may_close(line: &str) -> bool {
    const WORDS_MAX: usize = 4;
    let said = line.trim_end_matches([',', '!', ' ']);
    let is_word = |c: char| c.is_alphabetic() || matches!(c, ' ' | '\'' | '’' | '-');
    let first = fold(said.split(' ').next().unwrap_or_default());
    said.len() < line.len()
        && (1..=WORDS_MAX).contains(&said.split_whitespace().count())
        && said.starts_with(char::is_alphabetic)
        && said.chars().all(is_word)
        && !says_something(said)
        && !lexicon().ask.imperatives.contains(first.as_str())
}

/// Whether a line announces the names of who was there: `Présents :`.
pub(crate) fn announces_attendance(line: &str) -> bool {
    const ANNOUNCED_BYTES_MAX: usize = 60;
    let said = line.trim();
    said.len() <= ANNOUNCED_BYTES_MAX && said.ends_with(':') && {
        let mut words = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.any(|word| lexicon().attendance.contains(fold(word).as_str()))
    }
}

/// Whether a line lists who was at a meeting or who was not: `Present: Ana, Ben.` How many may come is a fact.
pub(crate) fn lists_attendance(line: &str) -> bool {
    let has_digit = |value: &str| value.contains(|c: char| c.is_ascii_digit());
    let found = labelled(line)
        .filter(|found| !found.value.is_empty() && !has_digit(&line[found.value.clone()]));
    found.is_some_and(|found| {
        const LABEL_WORDS_MAX: usize = 3;
        let label = fold(&line[found.label]);
        let mut words = label.split_whitespace();
        words.next().is_some_and(|word| lexicon().attendance.contains(word))
            && words.count() < LABEL_WORDS_MAX
    })
}

/// Whether a line under a closing may be the name of the signer.
pub(crate) fn may_sign(line: &str) -> bool {
    let words = line.split_whitespace().count();
    let starts_high = line.chars().next().is_some_and(char::is_uppercase);
    let initial = words == 1 && line.chars().count() <= 3;
    initial
        || (words <= 6 && starts_high && !line.contains(':') && !line.ends_with(['?', '!', '.']))
}

/// Whether a line announces a mail that is passed on.
pub(crate) fn announces_forward(line: &str) -> bool {
    const LINE_BYTES_MAX: usize = 80;
    let line = line.trim();
    if line.len() > LINE_BYTES_MAX {
        return false;
    }
    let said = || fold(line.trim_matches(['-', ' ', ':']));
    let mail = &lexicon().mail;
    match line.starts_with('-') {
        true => {
            let said = said();
            [&mail.forwards, &mail.forward_lines].iter().any(|lines| lines.contains(said.as_str()))
        }
        // Nearly every line passes here: only one that begins as a forward does is looked up.
        false => {
            let begins = |known: &str| {
                line.get(..1).is_some_and(|first| known.starts_with(&first.to_ascii_lowercase()))
            };
            let mut lines = mail.forward_lines.iter();
            lines.any(|known| begins(known) && said() == **known)
        }
    }
}

/// Whether a line is a row of cells rather than a sentence: `Salary | 60k`, `By Ana | 12 May`.
pub(crate) fn is_row(line: &str) -> bool {
    line.contains(" | ") && !line.ends_with(['.', '!', '?', ':', ';', ','])
}

/// Whether tabs separate cells of a line.
pub(crate) fn is_tabbed(line: &str) -> bool {
    line.trim().contains('\t')
}

/// The line below the names of the columns: `|---|---:|`, `--- | ---`.
pub(crate) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.contains('|')
        && line.contains("--")
        && line.chars().all(|c| matches!(c, '|' | '-' | ':' | '+' | ' ' | '\t'))
}

/// Whether a line is an address of the web and nothing else.
pub(crate) fn is_link(line: &str) -> bool {
    let line = line.trim_matches(['<', '>', '(', ')']);
    (line.starts_with("https://") || line.starts_with("http://"))
        && !line.contains(char::is_whitespace)
}

/// Whether a line is a row of one mark: `=====`, `-----`, `* * *`, or the side of a box: `+-----+`. It underlines,
/// separates or frames, and says nothing.
pub(crate) fn is_row_of_marks(line: &str) -> bool {
    let is_side = |mark: char| matches!(mark, '+' | '-' | '=');
    if line.len() > 2 && line.starts_with('+') && line.ends_with('+') && line.chars().all(is_side) {
        return true;
    }
    let mut marks = line.chars().filter(|mark| !mark.is_whitespace());
    let Some(first) = marks.next().filter(|mark| "=-~^\"'`*+_#.:".contains(*mark)) else {
        return false;
    };
    let (same, others): (Vec<char>, Vec<char>) = marks.partition(|mark| *mark == first);
    same.len() > 1 && others.is_empty()
}

/// The level of a heading with a row of marks below it, as Markdown and reStructuredText have them.
pub(crate) fn underlined_heading(line: &str, below: &str) -> Option<u8> {
    let (text, below) = (line.trim(), below.trim());
    let is_title = text.len() <= PLAIN_HEADING_BYTES_MAX
        && text.contains(char::is_alphabetic)
        && !text.ends_with(['.', '!', '?', ',', ';', ':', '…'])
        // An item, a marked heading or a link above a line that separates is none.
        && list_item(text).is_none()
        && marked_heading(text).is_none()
        && !is_link(text);
    // As in reStructuredText, other signs are as long as the title. Those of a quotation begin code.
    let is_underline = is_row_of_marks(below)
        && !below.contains(char::is_whitespace)
        && !below.starts_with('`')
        && (below.starts_with(['=', '-']) || below.len() >= text.chars().count());
    (is_title && is_underline).then_some(if below.starts_with('=') { 1 } else { 2 })
}

/// Whether an unmarked line alone in its paragraph reads as a heading.
pub(crate) fn plain_heading(line: &str) -> bool {
    let text = line.trim();
    if text.is_empty()
        || text.len() > PLAIN_HEADING_BYTES_MAX
        || text.split_whitespace().count() > 9
    {
        return false;
    }
    let letters = text.chars().filter(|character| character.is_alphabetic()).count();
    // Scripts without capitals have neither.
    let all_upper = letters >= 4
        && text.chars().any(char::is_uppercase)
        && !text.chars().any(char::is_lowercase);
    let bold =
        text.len() > 4 && text.starts_with("**") && text.trim_end_matches(':').ends_with("**");
    let starts_high =
        text.chars().next().is_some_and(|first| first.is_uppercase() || matches!(first, '¿' | '¡'));
    let colon = text.ends_with(':') && starts_high;
    letters > 1
        && (all_upper || bold || colon)
        && !text.ends_with(['.', '!', '?', ',', '。', '！', '？'])
}

/// Whether the first line of a text names it: one phrase of a few words, a capital first, no stop.
pub(crate) fn opens_as_title(line: &str) -> bool {
    let text = line.trim();
    let words = text.split_whitespace().count();
    let starts_high = text.chars().next().is_some_and(|c| c.is_uppercase() || c.is_ascii_digit());
    (2..=12).contains(&words)
        && text.len() <= 90
        && starts_high
        && !text.ends_with(['.', '!', '?', ',', ';', ':', '…'])
        && ![". ", "! ", "? "].iter().any(|stop| text.contains(stop) && !text.contains("Sr. "))
        && !is_courtesy(text)
}

/// Whether a line begins or ends a letter.
fn is_courtesy(line: &str) -> bool {
    let folded = fold(line);
    lexicon().mail.courtesy_starts.iter().any(|word| folded.starts_with(word.as_str()))
}

/// Whether words are the name of somebody: a few with a capital.
pub(crate) fn is_name(said: &str) -> bool {
    const WORDS_MAX: usize = 4;
    const BYTES_MAX: usize = 40;
    const BETWEEN: [&str; 8] = ["de", "del", "la", "van", "von", "der", "di", "da"];
    let is_letter = |c: char| c.is_alphabetic() || matches!(c, '.' | '-' | '\'' | '’');
    let words = || said.split_whitespace();
    let is_part = |word: &str| word.starts_with(char::is_uppercase) && word.chars().all(is_letter);
    said.len() <= BYTES_MAX
        && (1..=WORDS_MAX).contains(&words().count())
        && words().next().is_some_and(is_part)
        && words().all(|word| is_part(word) || BETWEEN.contains(&word))
}

/// Where the closing of a letter begins at the end of a paragraph: `… Thanks, Anna.`, `… — Anna`. In a letter, which
/// begins with a greeting, a name that no stop follows is enough.
pub(crate) fn sign_off(said: &str, is_letter: bool) -> Option<usize> {
    const STOPS: [char; 6] = ['.', '!', '?', '…', '\n', ';'];
    const SIGNED_BYTES_MAX: usize = 160;
    // Where the last sentence of so much of the text begins.
    let last = |end: usize| {
        let inner = said[..end].trim_end_matches(|c: char| STOPS.contains(&c) || c == ' ');
        let mut stops = inner.char_indices().rev().filter(|(at, c)| {
            let is_apart = inner[at + c.len_utf8()..].starts_with(char::is_whitespace);
            STOPS.contains(c) && is_apart && !is_abbreviation(&inner[..*at]) || *c == '\n'
        });
        stops.next().map_or(0, |(at, c)| {
            let from = at + c.len_utf8();
            from + (inner.len() - from - inner[from..].trim_start().len())
        })
    };
    let from = last(said.len());
    let end = said[from..].trim_end_matches(['.', '!', ' ', '\n']);
    let signed = end.trim_start_matches(['—', '–', '-']).trim_start();
    if from > 0 && signed.len() < end.len() && is_name(signed) {
        return Some(from);
    }
    // A closing with a name is short, and a long sentence has too many places where one could begin.
    let short = if end.len() <= SIGNED_BYTES_MAX { end } else { "" };
    let places = short.char_indices().filter(|(_, c)| matches!(c, ',' | ' ' | '!'));
    let mut names =
        places.map(|(at, _)| (&end[..at], end[at + 1..].trim_start_matches([',', ' '])));
    if names.any(|(closing, name)| closes_letter(closing) && is_name(name)) {
        return Some(from);
    }
    if from == 0 || !is_name(end) {
        return None;
    }
    let before = last(from);
    if closes_letter(said[before..from].trim()) {
        return Some(before);
    }
    let is_open = !said.trim_end().ends_with(['.', '!', '?']);
    let tells_before = said[..from].trim_end().ends_with(['.', '!']);
    let is_signed = || !is_open && tells_before && signs_alone(said, end);
    (is_letter && is_open || is_signed()).then_some(from)
}

/// Whether the last word of a few words is the first name of who wrote them: `I sent it. Ben.`
fn signs_alone(said: &str, last: &str) -> bool {
    const SAID_BYTES_MAX: usize = 300;
    const LETTERS: std::ops::RangeInclusive<usize> = 2..=12;
    let known = lexicon();
    let word = fold(last);
    let is_word = |lists: &[&Words]| lists.iter().any(|list| list.contains(word.as_str()));
    let lists = [
        &known.ask.imperatives,
        &known.ask.finished,
        &known.ask.labels,
        &known.phrases.finite,
        &known.answer.yes_no,
    ];
    let mut letters = last.chars();
    said.len() <= SAID_BYTES_MAX
        && LETTERS.contains(&last.chars().count())
        && letters.next().is_some_and(char::is_uppercase)
        && letters.all(char::is_lowercase)
        && !is_word(&lists)
        && !is_stop_word(&word)
        && known.dates.weekdays.number(&word).is_none()
        && known.dates.months.number(&word).is_none()
        && !is_courtesy(last)
}

/// The greeting that stands before words on the same line: `Hi Tom, ` of `Hi Tom, the shears are here.`
pub(crate) fn greeting_before(line: &str) -> Option<usize> {
    const SIGNS: [char; 5] = [',', '!', ':', '.', '–'];
    let ends = |at: usize, sign: char| match sign {
        '.' => !is_abbreviation(&line[..at]),
        _ => true,
    };
    let dash = || line.find(" - ").map(|at| (at + 1, '-'));
    let mut signs = line.char_indices().filter(|(at, c)| SIGNS.contains(c) && ends(*at, *c));
    let (at, sign) = signs.next().into_iter().chain(dash()).min()?;
    let end = at + sign.len_utf8();
    // An address or an hour holds such a sign, too.
    if !line[end..].starts_with(char::is_whitespace) {
        return None;
    }
    let is_dash = matches!(sign, '–' | '-');
    let greeting = if is_dash { line[..at].trim_end() } else { &line[..end] };
    if !greets(greeting) {
        return None;
    }
    // `Hola, Tomás, las llaves …`: the name has a sign of its own.
    let rest = line[end..].trim_start();
    if is_name(rest.trim_end_matches(SIGNS)) {
        return None;
    }
    let named =
        rest.split_once(SIGNS).filter(|(name, rest)| is_name(name) && !rest.trim().is_empty());
    let named = named.filter(|_| sign == ',');
    let words = named.map_or(rest, |(_, rest)| rest.trim_start());
    (!words.is_empty() && words.contains(char::is_alphanumeric)).then(|| line.len() - words.len())
}

/// Whether a line could be a title by its looks: few words, a capital first, no stop, no courtesy.
pub(crate) fn reads_as_title(line: &str) -> bool {
    let text = line.trim();
    let words = text.split_whitespace().count();
    let starts_high = text.chars().next().is_some_and(|first| first.is_uppercase() || first == '¿');
    let by_looks = (1..=6).contains(&words)
        && text.len() <= 60
        && starts_high
        && !text.ends_with(['.', '!', '?', ',', ';'])
        && !text.contains(" · ")
        && !text.contains(": ");
    if !by_looks {
        return false;
    }
    !is_courtesy(text)
}

/// Whether a line without a stop says something all the same, as people write notes: it has the form of a
/// verb that titles lack, or an order stands first.
pub(crate) fn says_something(line: &str) -> bool {
    let words: Vec<&str> = line
        .split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’'))
        .filter(|word| !word.is_empty())
        .collect();
    let Some((first, after)) = words.split_first().filter(|(_, after)| after.len() > 1) else {
        return false;
    };
    // `I. A. Thomas Reuter` is a name.
    let is_cut = line.trim_start().strip_prefix(first).is_some_and(|rest| rest.starts_with('.'));
    let (known, first) = (lexicon(), fold(first));
    if known.phrases.title_openers.contains(first.as_str()) {
        return false;
    }
    let low = |word: &&&str| word.starts_with(char::is_lowercase);
    let folded = |word: &&str| fold(&word.replace('’', "'"));
    let said = |word: &&str| known.phrases.finite.contains(folded(word).as_str());
    // `Project costs` names something, `The repair costs 200 EUR` says it. `Voy a llegar` begins with
    // its verb; so do nouns in the plural, which end in `s`.
    let (last, within) =
        after.split_last().map_or((None, after), |(last, rest)| (Some(last), rest));
    let may_be_noun = |word: &&str| word.ends_with('s');
    // `We meet in Lyon on Tuesday`, `Ben ordered 40 chairs`.
    let is_told = || {
        let [verb, object, ..] = after else { return false };
        let ends =
            |verb: &str| known.phrases.told_endings.iter().any(|end| verb.ends_with(end.as_str()));
        let object = folded(object);
        let is_object = object.starts_with(|c: char| c.is_ascii_digit())
            || known.names.place_articles.contains(object.as_str());
        verb.starts_with(char::is_lowercase) && ends(verb) && is_object
    };
    !is_cut && known.phrases.subjects.contains(first.as_str())
        || is_told()
        || within.iter().filter(low).any(said)
        || last.filter(|word| low(word) && !may_be_noun(word)).is_some_and(said)
        || (!may_be_noun(&first.as_str()) && known.phrases.finite.contains(first.as_str()))
        || (known.ask.imperatives.contains(first.as_str())
            && after.iter().any(|word| is_stop_word(&folded(word))))
}

/// The id in a label line `[3] chunk-17` above the text of a source.
pub(crate) fn source_label(line: &str) -> Option<Range<usize>> {
    let close = line.strip_prefix('[')?.find("] ")? + 1;
    let numbered = line[1..close].bytes().all(|byte| byte.is_ascii_digit()) && close > 1;
    let id = close + 2..line.trim_end().len();
    (numbered && !id.is_empty() && !line[id.clone()].contains(char::is_whitespace)).then_some(id)
}

/// `10:02` of a line that begins with a time stamp.
pub(crate) fn stamped_clock(line: &str) -> Option<String> {
    let text = line.trim_start();
    let stamp = &text[..time_stamp(text)];
    let colon = stamp.find(':')?;
    let digits = |piece: &str| piece.bytes().all(|byte| byte.is_ascii_digit()) && !piece.is_empty();
    let hour = &stamp[colon.saturating_sub(2)..colon];
    let hour = hour.trim_start_matches(|c: char| !c.is_ascii_digit());
    let minute = stamp.get(colon + 1..colon + 3).filter(|minute| digits(minute))?;
    let valid = digits(hour)
        && hour.parse::<u32>().is_ok_and(|hour| hour < 24)
        && minute.parse::<u32>().is_ok_and(|minute| minute < 60);
    valid.then(|| format!("{hour:0>2}:{minute}"))
}

/// Bytes of the time stamp and the level a log line begins with.
pub(crate) fn entry_head(line: &str) -> usize {
    const LEVELS: [&str; 12] = [
        "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "FATAL", "CRITICAL", "E",
        "W", "I",
    ];
    let dated = line.len() > 10 && opens_entry(line);
    let stamp = match dated {
        true => line
            .bytes()
            .take_while(|byte| {
                byte.is_ascii_digit()
                    || matches!(
                        byte,
                        b':' | b'-' | b'/' | b'.' | b'T' | b'Z' | b' ' | b',' | b'[' | b']' | b'+'
                    )
            })
            .count(),
        false => 0,
    };
    let rest = &line[stamp..];
    let word = rest.trim_start_matches(['[', ' ']);
    let named = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
    if !LEVELS.contains(&&word[..named]) || named == word.len() {
        return if stamp < line.len() { stamp } else { 0 };
    }
    let after = word[named..].trim_start_matches([']', ':', ' ', '-']);
    if after.is_empty() { stamp } else { line.len() - after.len() }
}

/// The number a line begins with, and where its text begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opening {
    pub number: i64,
    pub text: usize,
    /// The number stands behind `ID` or in brackets.
    pub is_marked: bool,
}

/// `- **ID 7** — x`, `[7] x`, `7. x`; `None` for any other line.
pub(crate) fn opening(line: &str) -> Option<Opening> {
    let rest = line.trim_start_matches([' ', '\t', '-', '*', '•']);
    let bracket = rest.starts_with('[');
    let rest = rest.trim_start_matches('[');
    let word = rest.get(..2).is_some_and(|word| word.eq_ignore_ascii_case("id"));
    let rest = if word { &rest[2..] } else { rest };
    let rest = if word || bracket { rest.trim_start_matches([' ', ':', '#', '.']) } else { rest };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number: i64 = rest[..digits].parse().ok()?;
    let after = rest[digits..].trim_start_matches(['*', '_']);
    let closed = after.trim_start_matches([']', ')', '.', ':', '*', '_']);
    let is_marked = word || bracket && after.starts_with(']');
    let row = ["|", "—", "–"].iter().any(|mark| closed.trim_start().starts_with(mark));
    let is_open = closed.is_empty() || closed.starts_with([' ', '\t', '|', '—']);
    if !is_open || !(is_marked || closed.len() < after.len() || row) {
        return None;
    }
    let text = closed.trim_start_matches([' ', '\t', '|', '—', '–', ':']);
    Some(Opening { number, text: line.len() - text.len(), is_marked })
}

/// Whether a line starts a log entry, a marked entry of a list or a stamped message and so continues nothing.
pub(crate) fn opens_entry(line: &str) -> bool {
    let text = line.trim_start();
    time_stamp(text) > 0
        || opening(text).is_some_and(|open| open.is_marked)
        || (text.len() > 10
            && text.as_bytes()[4] == b'-'
            && text.as_bytes()[..4].iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_closes_a_letter_in_its_last_line_is_told_from_what_it_says() {
        for (said, closing) in [
            ("Can you come on Friday? Thanks, Anna.", "Thanks, Anna."),
            ("The key is here. Best, Tom", "Best, Tom"),
            ("Das Fenster ist offen. Viele Grüße, Anna Berg", "Viele Grüße, Anna Berg"),
            ("Das Fenster ist offen. LG Anna", "LG Anna"),
            (
                "El fontanero viene el jueves. Un saludo, Ana de la Cruz.",
                "Un saludo, Ana de la Cruz.",
            ),
            ("It is late. Thanks. Anna", "Thanks. Anna"),
            ("Wir nehmen es an. MfG, K. Weber", "MfG, K. Weber"),
            ("It is late. Best, Dr. Anna Berg.", "Best, Dr. Anna Berg."),
            ("Bring the keys. — Anna", "— Anna"),
            ("Bring the keys!\n-- Anna", "-- Anna"),
            ("Merci, Anne", "Merci, Anne"),
            ("I sent it. Ben.", "Ben."),
            ("Die Rechnung habe ich gestern bezahlt! Ute.", "Ute."),
            ("Ya pedí las sillas. Inés.", "Inés."),
        ] {
            assert_eq!(sign_off(said, false).map(|at| &said[at..]), Some(closing), "{said}");
        }
        for said in [
            "The keys are in the shed.",
            "Who has the key? Anna.",
            "We meet next week. Monday.",
            "The hall is booked. Done.",
            "I sent it. Thanks.",
            "The winner is — Anna",
            "The train leaves at nine. Berlin",
            "Thanks, the budget is fine.",
            "- Anna",
            "Anna",
            "",
        ] {
            assert_eq!(sign_off(said, false), None, "{said}");
        }
        let letter = "The train leaves at nine. Anna";
        assert_eq!(sign_off(letter, true).map(|at| &letter[at..]), Some("Anna"));
        assert_eq!(sign_off("Who has the key? Anna.", true), None);
    }

    #[test]
    fn the_side_of_a_box_is_a_row_of_marks_and_a_telephone_number_is_none() {
        assert!(is_row_of_marks("+------+") && is_row_of_marks("+---+====+"));
        assert!(!is_row_of_marks("+34 600"));
    }

    #[test]
    fn a_greeting_names_whom_it_greets() {
        for line in [
            "Dear Mr. and Mrs. Ellery,",
            "¡Hola, Lucía!",
            "Hi, Tom,",
            "Dear Dr. Amari:",
            "Hallo, Anna!",
        ] {
            assert!(greets(line), "{line}");
        }
        for line in ["Dear all. The pump leaks!", "Hi, the pump leaks!", "Hello? Anna!"] {
            assert!(!greets(line), "{line}");
        }
    }

    #[test]
    fn a_greeting_before_words_ends_where_they_begin() {
        for (line, words) in [
            ("Hi Tom, the shears are here.", "the shears are here."),
            ("Hola, Tomás, las llaves están aquí.", "las llaves están aquí."),
            ("¡Hola a todos, la reunión es hoy!", "la reunión es hoy!"),
            ("¡Hola, Lucía! El viaje fue largo.", "El viaje fue largo."),
            ("Liebe Anna, der Dachdecker kommt.", "der Dachdecker kommt."),
            ("Buenas, Marta: cambiamos el día.", "cambiamos el día."),
            ("Coucou Marie – le train est supprimé.", "le train est supprimé."),
            ("Hola Jorge. La entrega se atrasa.", "La entrega se atrasa."),
            ("Dear Dr. Amari: the results are here.", "the results are here."),
        ] {
            assert_eq!(greeting_before(line).map(|at| &line[at..]), Some(words), "{line}");
        }
        for line in
            ["Hi Tom,", "The shears, which are old, break.", "Hi Tom the shears", "Hola, Tomás,"]
        {
            assert_eq!(greeting_before(line), None, "{line}");
        }
    }

    #[test]
    fn closings_of_letters_are_known_in_every_language() {
        for line in [
            "Cheers",
            "Talk soon",
            "See you then!",
            "Thanks and best regards,",
            "Many thanks, Best wishes",
            "Un abrazo",
            "Saludos cordiales,",
            "Muchas gracias y un abrazo",
            "Atte.",
            "LG",
            "MfG",
            "Herzlichst",
            "Bis bald",
            "Vielen Dank und viele Grüße",
            "Bien à vous",
            "Sportliche Grüße",
            "Sin otro particular, se despide atentamente,",
            "Mit besten Wünschen aus Kassel",
            "Bises",
            "Merci et à bientôt !",
            "Bonne journée,",
        ] {
            assert!(closes_letter(line), "{line}");
        }
        for line in [
            "Thanks and the budget",
            "Best of all",
            "Gracias a Ana por el dato",
            "Danke an Kai",
            "Merci à Luc",
        ] {
            assert!(!closes_letter(line), "{line}");
        }
    }

    #[test]
    fn a_line_of_a_visiting_card_states_nothing() {
        for line in [
            "Head of Digital, Finch Books Ltd",
            "12 Quay Street, Bristol",
            "www.finch.example",
            "Ferrer y Asociados Ltda.",
            "i. A. Thomas Reuter",
            "Tel.: 0221 555 9012",
            "E-Mail: info@reuter.example",
            "M: 07700 900123",
            "Leiterin Finanzen",
            "Gérante, SCI des Tilleuls",
            "Working days: Mon-Thu",
            "Jefa de ventas",
        ] {
            assert!(is_on_card(line), "{line}");
        }
        for line in [
            "The pump is broken",
            "PS: bring the key",
            "- milk",
            "# Plan",
            "Can you come?",
            "P.D. Trae la llave",
            "We met in the hall on Monday.",
            "Next steps:",
        ] {
            assert!(!is_on_card(line), "{line}");
        }
        assert!(
            may_close("V best,")
                && may_close("Sunny greetings!")
                && may_close("Mit Sonne im Herzen,")
        );
        assert!(!may_close("Bring bread,") && !may_close("V best") && !may_close("It is late,"));
    }

    #[test]
    fn directives_of_restructuredtext_are_told_from_their_words() {
        let said = |line: &'static str| {
            directive(line, false).map(|found| (found.said.map(|at| &line[at..]), found.is_silent))
        };
        assert_eq!(said(".. warning:: Take care."), Some((Some("Take care."), false)));
        assert_eq!(said("   .. note::"), Some((None, false)));
        assert_eq!(said(".. image:: a.png"), Some((None, true)));
        assert_eq!(said(".. deprecated:: 4.0"), Some((None, false)));
        assert_eq!(said(".. _radio: https://a.example"), Some((None, true)));
        assert_eq!(said(".. [1] See page 12."), Some((None, true)));
        assert_eq!(said(".. and then we left"), None);
        assert!(directive(".. a comment", true).is_some() && directive("...", true).is_none());
        assert!(is_option(":width: 400px") && !is_option(":ref:`plan`") && !is_option("a: b"));
        assert!(
            is_frame(":::note")
                && is_frame("!!! warning")
                && is_frame(":::")
                && !is_frame("!!! We won")
        );
    }

    #[test]
    fn a_query_begins_with_its_keywords_in_capitals() {
        for line in ["SELECT c.name FROM orders", "UPDATE jobs SET state = 1", "INSERT INTO a"] {
            assert!(begins_query(line), "{line}");
        }
        for line in ["Select a date", "SELECT ONE", "UPDATE on the roof", "update jobs set a"] {
            assert!(!begins_query(line), "{line}");
        }
    }

    #[test]
    fn a_line_that_stands_for_a_file_is_no_sentence() {
        for line in [
            "[attachment: plan of the garden.txt]",
            " [image] ",
            "TAR(1)          GNU TAR Manual         TAR(1)",
            "dpkg 1.21        2026-03-05        dpkg-deb(1)",
        ] {
            assert!(is_frame(line), "{line}");
        }
        for line in [
            "[x] Order the tiles",
            "[1]",
            "[the plan]",
            "See [attachment: a.txt] first.",
            "See tar(1)",
        ] {
            assert!(!is_frame(line), "{line}");
        }
    }

    #[test]
    fn headings_and_items_are_recognized_with_their_text() {
        assert_eq!(marked_heading("## Plan ##"), Some((2, 3..7)));
        assert_eq!(marked_heading("\\subsection*{Método}"), Some((3, 13..20)));
        assert_eq!(marked_heading("#hashtag"), None);
        assert_eq!(list_item("  - [ ] pay"), Some(8));
        assert_eq!(list_item("12) pay"), Some(4));
        assert_eq!(list_item("-5 degrees"), None);
    }

    #[test]
    fn labels_are_found_behind_time_stamps_and_emphasis() {
        let value = |line: &str| {
            labelled(line)
                .map(|found| (line[found.label].to_string(), line[found.value].to_string()))
        };
        let pair = |label: &str, rest: &str| Some((label.to_string(), rest.to_string()));
        assert_eq!(value("**Salary:** 60k"), pair("Salary", "60k"));
        assert_eq!(value("[10:02] Ana López: hola"), pair("Ana López", "hola"));
        assert_eq!(value("- Location: Lima"), pair("Location", "Lima"));
        assert_eq!(value("at 10:30 we met"), None);
        assert_eq!(value("https://x.org"), None);
        assert_eq!(value("user:"), pair("user", ""));
    }

    #[test]
    fn a_note_without_a_stop_says_something_and_a_title_does_not() {
        for line in [
            "We meet in Lyon on Tuesday",
            "Ben ordered 40 chairs for the hall",
            "Wir treffen uns am Dienstag in Lyon",
            "Nous partons mardi de la gare",
            "Eva pidió las llaves del sótano",
            "The garden committee meets on Friday",
            "The boiler is broken again",
            "He comes on Tuesday at 10",
            "Buy milk and bread",
            "Call Ana about the boiler",
            "Voy a llegar tarde el lunes",
            "La reunión fue muy larga",
            "Der Zug kommt später",
            "Le train arrive à midi",
            "We can't come on Monday",
        ] {
            assert!(says_something(line), "{line}");
        }
        for line in [
            "Lessons learned in Lyon",
            "Used cars for sale",
            "Results based on the survey",
            "The history of the old bridge",
            "Meeting notes 12 March",
            "Project costs",
            "Training needs",
            "What is new",
            "How it works",
            "Report for May 2026",
            "Needs and wishes",
            "Actas de la reunión",
            "Installation",
            "Test plan",
            "Rates rise",
            "Bericht über den Umbau",
        ] {
            assert!(!says_something(line), "{line}");
        }
    }

    #[test]
    fn quoted_mail_and_plain_headings() {
        assert!(announces_quote("El mar, 3 mar 2026, Ana escribió:"));
        assert!(announces_quote("Am Mo., 2. März 2026 um 17:40 Uhr schrieb T. Brandt <t@x.de>:"));
        assert!(closes_letter("Mit freundlichen Grüßen") && closes_letter("Best,"));
        assert!(!closes_letter("Thanks for the report") && may_sign("Katrin Vogel"));
        assert!(announces_forward("---------- Forwarded message ---------"));
        assert!(!announces_forward("A forwarded message arrived."));
        let bare = |line: &'static str| &line[entry_head(line)..];
        assert_eq!(bare("2026-02-02T04:11:39Z ERROR embed: refused"), "embed: refused");
        assert_eq!(bare("03:04:10 INFO loaded 1200 rows"), "loaded 1200 rows");
        assert_eq!(bare("Loaded 12 rows"), "Loaded 12 rows");
        assert!(is_link("https://x.org/a?b=1") && !is_link("see https://x.org"));
        assert!(
            plain_heading("REQUIREMENTS")
                && plain_heading("What we offer:")
                && !plain_heading("It works.")
        );
        assert!(is_mail_header("Asunto") && !is_mail_header("Salary"));
    }
}
