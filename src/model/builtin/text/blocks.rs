//! Lines joined into blocks: paragraphs, headings, items, chat turns, quoted mail, code, tables.
//!
//! A paragraph may be wrapped over several lines; a line that follows a short line begins
//! a new one. A label that recurs (`Ana:` … `Ana:`) or is a known role is a speaker; any other label stays
//! text. Whatever is not recognized is a paragraph: no byte of the text is lost to classification.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::extract::written;
use super::super::lexicon::lexicon;
use super::logs::{self, ENTRY_LEVEL, Log, LogLine};
use super::manuals::{self, Manual};
use super::stopwords::is_stop_word;
use super::words::{fold, spaced};
use super::{inline, lines, versions};

/// A wrapped line shorter than this is taken to end its sentence, unless the next word did not fit.
/// Fewest bytes of an answer above the mail that it answers; less is a mail that was passed on.
const ANSWER_BYTES_MIN: usize = 40;
/// Most bytes that somebody says who only passes on a mail.
const PASSED_ON_BYTES_MAX: usize = 240;
/// Most blocks above a mail that is passed on in which such words are looked for.
const PASSED_ON_BLOCKS_MAX: usize = 40;
/// Most lines and bytes below the line that begins a signature.
const SIGNATURE_LINES_MAX: usize = 30;
const SIGNATURE_BYTES_MAX: usize = 2500;
/// Spaces before a line of code that no fence marks.
const CODE_INDENT: usize = 4;
/// Fewest words of such a line in a row: menus of pages have fewer.
const LINE_WORDS_MIN: usize = 3;
const WRAP_BYTES_MIN: usize = 45;
/// Widths of lines that a program may have wrapped.
const WIDTHS: std::ops::RangeInclusive<usize> = 30..=110;
/// Longer labels are no role words, however they are accented.
const ROLE_BYTES_MAX: usize = 48;
/// Lines of a visiting card below a name.
const CARD_LINES_MAX: usize = 7;
/// Lines of the head of a letter, and bytes of one.
const HEAD_LINES_MAX: usize = 12;
const HEAD_LINE_BYTES_MAX: usize = 70;
/// A label that stands before so many lines names who speaks.
const SPEAKS_AGAIN: usize = 2;
/// Lines looked at for speakers.
const SPEAKER_LINES_MAX: usize = 4000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Paragraph,
    Heading(u8),
    Item,
    Quote,
    Code,
    Table,
    /// The row that names the columns of a table.
    Columns,
    Header,
    /// What frames a text: greeting, signature, navigation, disclaimer, page footer.
    Signature,
    /// A line that is nothing but an address of the web.
    Link,
}

/// Who speaks in a block of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Not a conversation, or an unnamed speaker.
    None,
    User,
    Assistant,
    /// Instructions or notes of the system.
    System,
    Tool,
    Person,
}

/// A block: its ranges are byte ranges of its part.
#[derive(Debug, Clone)]
pub struct Block {
    pub part: usize,
    pub kind: Kind,
    /// The text proper, without markers.
    pub text: Range<usize>,
    /// Who speaks.
    pub role: Role,
    /// The speaker's name where the turn gives one.
    pub(crate) speaker: Option<Range<usize>>,
    /// How many headings precede it in the part: equal numbers share a section.
    pub section: usize,
    /// Its sentences; filled in by the analysis.
    pub sentences: Range<usize>,
}

#[cfg(test)]
fn split(part: usize, source: &str) -> Vec<Block> {
    split_said(part, source, Role::None)
}

/// The blocks of a part that somebody of a role says; a turn inside it has its own role.
pub(crate) fn split_said(part: usize, source: &str, role: Role) -> Vec<Block> {
    let mut splitter = Splitter::new(part, source, role);
    let mut start = 0;
    let mut lines = source.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        splitter.next = lines.peek().copied();
        splitter.rest = &source[start + line.len()..];
        splitter.line(start, line.trim_end_matches(['\n', '\r']));
        splitter.after_blank = line.trim().is_empty();
        start += line.len();
    }
    splitter.close();
    splitter.cut_sign_off();
    splitter.blocks
}

/// Bytes of a line from which on a link at its end goes to the next line.
const LINE_WITH_LINK: usize = 72;

/// What ends a title that the text repeats.
const STOPS: [char; 5] = ['.', '!', '?', '…', '。'];

/// Makes a heading of the title of a text where the text begins with it: `Roof note. The roof leaks.` It stays where nothing
/// else is said.
pub(crate) fn set_title_apart(source: &str, blocks: &mut Vec<Block>, title: &str) {
    let frames = |block: &Block| matches!(block.kind, Kind::Header | Kind::Signature | Kind::Link);
    let Some(at) = blocks.iter().position(|block| !frames(block)) else { return };
    let Range { start, end } = blocks[at].text;
    let title = title.trim().trim_end_matches(STOPS);
    let (said, length) = (&source[start..end], title.len());
    let is_title = said.get(..length).is_some_and(|said| fold(said) == fold(title));
    let is_plain = blocks[at].kind == Kind::Paragraph && blocks[at].role == Role::None;
    if title.is_empty() || !is_title || !is_plain {
        return;
    }
    let rest = &said[length..];
    let more = rest.trim_start_matches(STOPS).trim_start();
    let ends = rest.is_empty() || rest.starts_with(STOPS) || rest.starts_with('\n');
    if !ends || more.is_empty() && !blocks[at + 1..].iter().any(|block| !frames(block)) {
        return;
    }
    let mut heading = blocks[at].clone();
    (heading.kind, heading.text) = (Kind::Heading(1), start..start + length);
    blocks[at..].iter_mut().for_each(|block| block.section += 1);
    heading.section += 1;
    if more.is_empty() {
        blocks[at] = heading;
    } else {
        blocks[at].text.start = end - more.len();
        blocks.insert(at, heading);
    }
}

/// The role a label stands for, when it is one of the usual words.
pub(crate) fn role_of(label: &str) -> Role {
    let label = label.trim_matches(['#', '*', ' ']);
    if label.len() > ROLE_BYTES_MAX {
        return Role::None;
    }
    let (roles, folded) = (&lexicon().roles, fold(label));
    let all = [
        (&roles.user, Role::User),
        (&roles.assistant, Role::Assistant),
        (&roles.system, Role::System),
        (&roles.tool, Role::Tool),
    ];
    let known = all.iter().find(|(labels, _)| labels.contains(folded.as_str()));
    known.map_or(Role::None, |(_, role)| *role)
}

/// A line that begins or ends code: three signs or more.
#[derive(Debug, Clone, Copy)]
struct Fence {
    sign: char,
    length: usize,
}

impl Fence {
    fn of(trimmed: &str) -> Option<Fence> {
        let sign = trimmed.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
        let length = trimmed.chars().take_while(|c| *c == sign).count();
        (length >= 3).then_some(Fence { sign, length })
    }

    /// Whether it ends what `open` began. A shorter fence, or one of the other sign, is part of the code.
    fn ends(self, open: Fence) -> bool {
        self.sign == open.sign && self.length >= open.length
    }
}

/// A directive of reStructuredText, and what stands below it.
#[derive(Debug, Clone, Copy)]
struct OpenDirective {
    indent: usize,
    /// What stands below is no text either.
    is_silent: bool,
    in_options: bool,
}

struct Splitter<'a> {
    part: usize,
    source: &'a str,
    blocks: Vec<Block>,
    open: Option<Block>,
    speakers: BTreeMap<String, usize>,
    /// Labels that are names of columns.
    columns: BTreeSet<String>,
    role: Role,
    speaker: Option<Range<usize>>,
    section: usize,
    /// Where the signs below a title begin. They may be those of code.
    underline: Option<usize>,
    /// Where the second line of the words that announce a quote begins.
    second_line: Option<usize>,
    /// The fence that begins the code at hand.
    fence: Option<Fence>,
    /// Inside a comment of HTML.
    in_comment: bool,
    /// Where the last comment of HTML ends.
    comments_end: usize,
    /// Inside a query of a database that no fence marks.
    in_query: bool,
    /// The directive of reStructuredText whose lines stand below.
    directive: Option<OpenDirective>,
    /// Whether stars before a line that stands apart are those of a heading.
    has_outline: bool,
    /// Whether a line such as `.. a word` is a comment.
    has_directives: bool,
    in_headers: bool,
    /// Whether lines such as `Date: …` at the beginning are headers of a mail.
    is_mail: bool,
    /// The log of changes that the text is.
    log: Option<Log>,
    /// The manual page that the text is.
    manual: Option<Manual>,
    /// Below the rule of a table.
    in_ruled: bool,
    in_quote: bool,
    /// Among the headers of what is quoted.
    in_head_of_quote: bool,
    in_signature: bool,
    after_closing: bool,
    /// Among lines that stand alone, see `is_in_row`.
    in_row: bool,
    /// Whether a block is more than a header, a frame, a row or a link.
    has_text: bool,
    /// Bytes of the paragraphs and items so far.
    said_bytes: usize,
    next: Option<&'a str>,
    /// Everything behind the line at hand.
    rest: &'a str,
    after_blank: bool,
    /// The width the lines were wrapped at, if they were.
    width: Option<usize>,
    /// Where the head of a letter ends: sender, place and date.
    head_end: usize,
    /// The lines of the head that the record of the source holds, by their places.
    fields: BTreeMap<usize, Range<usize>>,
}

impl<'a> Splitter<'a> {
    fn new(part: usize, source: &'a str, role: Role) -> Self {
        let log = logs::log_of(source).filter(|_| role == Role::None);
        Splitter {
            part,
            source,
            blocks: Vec::new(),
            open: None,
            // Labels of commits name nobody who speaks.
            speakers: if log.is_some() { BTreeMap::new() } else { recurring_labels(source) },
            columns: columns(source),
            role,
            speaker: None,
            section: 0,
            fence: None,
            in_comment: false,
            comments_end: source.rfind("-->").unwrap_or(0),
            in_query: false,
            directive: None,
            has_outline: source.lines().any(|line| line.starts_with("** ")),
            has_directives: source.lines().any(lines::names_directive),
            in_headers: true,
            is_mail: begins_as_mail(source),
            log,
            manual: manuals::manual_of(source).filter(|_| role == Role::None),
            underline: None,
            second_line: None,
            has_text: false,
            in_ruled: false,
            in_quote: false,
            in_head_of_quote: false,
            in_signature: false,
            after_closing: false,
            in_row: false,
            said_bytes: 0,
            next: None,
            rest: source,
            after_blank: true,
            width: width_of(source),
            head_end: letterhead(source),
            fields: match role {
                Role::None => written::fields_of_head(source)
                    .into_iter()
                    .chain(head_of_minutes(source))
                    .collect(),
                _ => BTreeMap::new(),
            },
        }
    }

    fn line(&mut self, start: usize, line: &str) {
        let trimmed = line.trim();
        if self.underline == Some(start) {
            return self.close();
        }
        if self.second_line == Some(start) {
            return self.single(
                Kind::Signature,
                start + lines::indent(line)..start + line.trim_end().len(),
            );
        }
        let fence = Fence::of(trimmed);
        if let Some(fence) = fence.filter(|fence| self.fence.is_none_or(|open| fence.ends(open))) {
            self.close();
            self.fence = if self.fence.is_none() { Some(fence) } else { None };
            return;
        }
        if trimmed.is_empty() {
            self.close();
            (self.in_query, self.in_ruled) = (false, false);
            self.in_headers &= self.blocks.is_empty();
            return;
        }
        let text = start + lines::indent(line)..start + line.trim_end().len();
        if self.fence.is_some() {
            return self.extend(Kind::Code, text);
        }
        if self.in_comment || trimmed.starts_with("<!--") && start < self.comments_end {
            return self.comment_line(start, line);
        }
        if let Some(manual) = self.manual {
            return self.manual_line(manual.line(line, self.next, self.section), text);
        }
        if let Some(found) = self.log.and_then(|log| logs::line_of(log, line)) {
            return match found {
                LogLine::Head(name) => {
                    self.heading(ENTRY_LEVEL, start + name.start..start + name.end)
                }
                LogLine::Frame => self.single(Kind::Signature, text),
            };
        }
        // The first line of what a commit says is no heading.
        let is_below_head = self.blocks.last().is_some_and(|one| one.kind == Kind::Signature);
        if self.log == Some(Log::Git) && self.open.is_none() && is_below_head {
            return self.single(Kind::Item, text);
        }
        if self.in_query || lines::begins_query(trimmed) {
            self.in_query = !trimmed.ends_with(';');
            return self.extend(Kind::Code, text);
        }
        if self.directive_line(start, line) {
            return;
        }
        if let Some(value) = self.fields.get(&start) {
            return self.single(Kind::Header, start + value.start..start + value.end);
        }
        if self.turn(start, line) {
            return;
        }
        self.plain_line(start, line, text);
    }

    /// A line of a manual page.
    fn manual_line(&mut self, line: manuals::Line, text: Range<usize>) {
        match line {
            manuals::Line::Frame => self.single(Kind::Signature, text),
            manuals::Line::Heading(level) => self.heading(level, text),
            manuals::Line::Item => {
                self.close();
                self.extend(Kind::Item, text);
            }
            manuals::Line::Words => {
                let is_item = self.open.as_ref().is_some_and(|open| open.kind == Kind::Item);
                self.extend(if is_item { Kind::Item } else { Kind::Paragraph }, text);
            }
            manuals::Line::Code => self.extend(Kind::Code, text),
        }
    }

    /// A line in a comment of HTML, or one that begins with comments. Words behind them are text.
    fn comment_line(&mut self, start: usize, line: &str) {
        let (begin, end) = (lines::indent(line), line.trim_end().len());
        let mut at = begin;
        loop {
            let Some(length) = line[at..].find("-->") else {
                self.in_comment = true;
                return self.single(Kind::Signature, start + begin..start + end);
            };
            at += length + "-->".len();
            at += lines::indent(&line[at..]);
            if !(line[at..].starts_with("<!--") && start + at < self.comments_end) {
                break;
            }
        }
        self.in_comment = false;
        if at >= end {
            return self.single(Kind::Signature, start + begin..start + end);
        }
        self.close();
        self.line(start + at, &line[at..]);
    }

    fn plain_line(&mut self, start: usize, line: &str, text: Range<usize>) {
        let trimmed = line.trim();
        self.in_ruled &= trimmed.contains('|');
        self.in_row &= lines::reads_as_title(line);
        if self.in_headers && self.header(start, line) {
            return;
        }
        self.in_headers = false;
        if self.is_in_table(trimmed) {
            return self.table_line(line, text);
        }
        if start < self.head_end && lines::labelled(line).is_none() {
            return self.single(Kind::Signature, text);
        }
        let is_wrapped = self.announces_quote_in_two_lines(line);
        if is_wrapped {
            self.second_line = Some(self.source.len() - self.rest.len());
        }
        let begins_quote = lines::announces_quote(line) || is_wrapped;
        let begins_other_mail = !self.in_quote && self.is_head_of_other_mail(line);
        let is_passed_on = || (begins_quote || begins_other_mail) && self.passes_on();
        if lines::announces_forward(line) || is_passed_on() {
            // What was forwarded is what the mail is about; it begins with headers of its own.
            (self.in_headers, self.in_quote, self.in_signature) = (true, false, false);
            (self.is_mail, self.said_bytes, self.after_closing) = (true, 0, false);
            if begins_other_mail && self.header(start, line) {
                return;
            }
            return self.single(Kind::Signature, text);
        }
        // What stands under the closing words of a letter is no sentence of it.
        if self.after_closing && self.is_signed(trimmed) || self.begins_card(trimmed) {
            self.after_closing = true;
            return self.single(Kind::Signature, text);
        }
        self.after_closing = self.role == Role::None
            && (lines::closes_letter(trimmed) || self.closes_in_own_words(trimmed));
        let greets = self.role == Role::None && self.after_blank && lines::greets(trimmed);
        if self.after_closing || greets || lines::is_frame(line) {
            return self.single(Kind::Signature, text);
        }
        self.in_quote |= begins_quote || begins_other_mail;
        self.in_head_of_quote |= begins_quote || begins_other_mail;
        self.in_signature = self.in_signature || self.begins_signature(trimmed);
        // The line that announces a quote, and the head of what is quoted, say nothing themselves.
        if self.in_signature || begins_quote || self.in_head_of_quote && heads_mail(line) {
            return self.single(Kind::Signature, text);
        }
        self.in_head_of_quote = false;
        if self.in_quote || trimmed.starts_with('>') {
            let marks = trimmed.len() - trimmed.trim_start_matches(['>', ' ']).len();
            let kind = if self.is_motto() { Kind::Paragraph } else { Kind::Quote };
            return self.single(kind, (text.start + marks).min(text.end)..text.end);
        }
        let is_apart = self.open.is_none();
        if lines::is_row_of_marks(trimmed) || lines::is_empty_item(trimmed, is_apart) {
            return self.close();
        }
        if self.role == Role::None && (lines::is_code(trimmed) || self.is_indented_code(line)) {
            return self.extend(Kind::Code, text);
        }
        let says_nothing = inline::is_made_of_marks(trimmed) || inline::defines_label(trimmed);
        let ends = |next: &str| next.trim().is_empty() || lines::list_item(next).is_some();
        let is_alone = self.open.is_none() && self.next.is_none_or(ends);
        if says_nothing || is_alone && inline::leads_elsewhere(trimmed) {
            return self.single(Kind::Link, text);
        }
        let below = self.next.filter(|_| self.open.is_none() && !declares_decision(line));
        if let Some(level) = below.and_then(|below| lines::underlined_heading(line, below)) {
            self.underline = Some(self.source.len() - self.rest.len());
            return self.heading(level, text);
        }
        if let Some((level, range)) = lines::marked_heading(line) {
            return self.heading(level, start + range.start..start + range.end);
        }
        if let Some((level, stars)) = self.outline_heading(line) {
            return self.heading(level, start + stars..text.end);
        }
        if trimmed.starts_with('|') {
            return self.table_line(line, text);
        }
        if lines::is_link(trimmed) {
            return self.single(Kind::Link, text);
        }
        if let Some(item) = lines::list_item(line) {
            if inline::leads_elsewhere(&line[item..]) {
                return self.single(Kind::Link, text);
            }
            if self.is_numbered_heading(line, &line[item..]) {
                return self.heading(2, start + item..text.end);
            }
            self.close();
            return self.extend(Kind::Item, start + item..text.end);
        }
        if declares_decision(line) {
            return self.running(line, text);
        }
        if self.opens_with_title(line) {
            return self.heading(1, text);
        }
        if lines::is_spaced_out(line) || self.is_tabbed_row(trimmed) {
            return self.single(Kind::Table, text);
        }
        if self.open.is_none()
            && (lines::plain_heading(line)
                || self.heads_what_follows(line)
                || self.heads_version(line))
        {
            return self.heading(6, text);
        }
        if lines::is_row(trimmed) {
            return self.single(Kind::Table, text);
        }
        if let Some(id) = lines::source_label(line) {
            return self.single(Kind::Header, start + id.start..start + id.end);
        }
        self.running(line, text);
    }

    /// The level of a heading of an outline, and where its words begin: `* Changes in release 3.8`, `** Bug fixes`.
    fn outline_heading(&self, line: &str) -> Option<(u8, usize)> {
        const LEVELS_MAX: usize = 4;
        let words = line.trim_start_matches('*');
        let level = line.len() - words.len();
        let is_apart = self.after_blank && self.next.is_none_or(|next| next.trim().is_empty());
        let is_heading = self.has_outline
            && is_apart
            && (1..=LEVELS_MAX).contains(&level)
            && words.starts_with(' ')
            && words.trim_start().starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
            && !words.trim_end().ends_with(['.', '!', '?', ';', ',']);
        is_heading.then(|| (level as u8, line.len() - words.trim_start().len()))
    }

    /// Reads a line that begins a directive of reStructuredText, or stands below one and is an option of it or no text:
    /// `.. note:: Take care.`, `:width: 400px`.
    fn directive_line(&mut self, start: usize, line: &str) -> bool {
        let (indent, end) = (lines::indent(line), line.trim_end().len());
        let below = self.directive.filter(|open| indent > open.indent);
        let is_option = lines::is_option(line.trim());
        self.directive =
            below.map(|open| OpenDirective { in_options: open.in_options && is_option, ..open });
        if below.is_some_and(|open| open.is_silent || open.in_options && is_option) {
            self.single(Kind::Signature, start + indent..start + end);
            return true;
        }
        // `:param path: The folder.` in the words of a directive.
        if is_option && indent > 0 && self.has_directives {
            self.single(Kind::Signature, start + indent..start + end);
            return true;
        }
        let Some(found) = lines::directive(line, self.has_directives) else { return false };
        self.close();
        self.directive =
            Some(OpenDirective { indent, is_silent: found.is_silent, in_options: true });
        match found.said {
            Some(said) => self.extend(Kind::Paragraph, start + said..start + end),
            None => self.single(Kind::Signature, start + indent..start + end),
        }
        true
    }

    fn table_line(&mut self, line: &str, text: Range<usize>) {
        if lines::is_rule(line) {
            self.in_ruled = true;
            return self.close();
        }
        // The row above the rule names the columns; it says nothing by itself.
        let heads = self.next.is_some_and(lines::is_rule);
        self.single(if heads { Kind::Columns } else { Kind::Table }, text);
    }

    /// Whether a line and one beside it are rows of as many cells. Alone, such a line may be a menu.
    fn is_in_table(&self, line: &str) -> bool {
        if self.in_quote || self.in_signature || line.starts_with('>') || is_item_of_bars(line) {
            return false;
        }
        if self.after_closing && !line.starts_with('|') && self.is_signed(line) {
            return false;
        }
        let has_rule = self.in_ruled || self.next.is_some_and(lines::is_rule);
        if lines::is_rule(line) || has_rule && line.contains('|') {
            return true;
        }
        let bars = |line: &str| line.trim().matches(" | ").count();
        let is_beside = |other: &str| lines::is_row(other.trim()) && bars(other) == bars(line);
        let above = self.blocks.last().filter(|block| block.kind == Kind::Table);
        lines::is_row(line)
            && (self.next.is_some_and(is_beside)
                || above.is_some_and(|block| is_beside(&self.source[block.text.clone()])))
    }

    /// Whether tabs separate the cells of a line, and of one beside it.
    fn is_tabbed_row(&self, line: &str) -> bool {
        let is_row = |block: &Block| {
            block.kind == Kind::Table && lines::is_tabbed(&self.source[block.text.clone()])
        };
        lines::is_tabbed(line)
            && (self.next.is_some_and(lines::is_tabbed) || self.blocks.last().is_some_and(is_row))
    }

    /// Whether the head of another mail begins here, below words of the one who sends it: `From: …` above `Sent: …`
    /// and `To: …`.
    fn is_head_of_other_mail(&self, line: &str) -> bool {
        let says_something = self.said_bytes > 0 || self.open.is_some();
        self.role == Role::None
            && says_something
            && heads_mail(line)
            && self.rest.lines().take(2).filter(|line| heads_mail(line)).count() == 2
    }

    /// Whether the one who sends a text only passes on what stands below: they say nothing, or say so in few words.
    fn passes_on(&self) -> bool {
        let is_said = |block: &&Block| matches!(block.kind, Kind::Paragraph | Kind::Item);
        // Few words stand in few blocks.
        if self.said_bytes > PASSED_ON_BYTES_MAX {
            return false;
        }
        let above = self.blocks.len().saturating_sub(PASSED_ON_BLOCKS_MAX);
        let said = self.blocks[above..].iter().chain(&self.open).filter(is_said);
        let said: Vec<&str> = said.map(|block| &self.source[block.text.clone()]).collect();
        let bytes: usize = said.iter().map(|words| words.len()).sum();
        let in_words = || {
            let words = spaced(&said.join(" "));
            let phrases = &lexicon().mail.passes_on;
            phrases.iter().any(|phrase| words.contains(&format!(" {phrase} ")))
        };
        self.role == Role::None && (said.is_empty() || bytes <= PASSED_ON_BYTES_MAX && in_words())
    }

    /// `2. Repairs` above a paragraph; above another number it is an item of a list.
    fn is_numbered_heading(&self, line: &str, said: &str) -> bool {
        let numbered = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let below = self.rest.lines().map(str::trim).find(|line| !line.is_empty());
        let alone = below.is_some_and(|below| {
            lines::list_item(below).is_none()
                && below.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || c == '¿')
                && below.len() > said.len()
        });
        let names = lines::reads_as_title(said) && !lines::says_something(said);
        numbered && self.after_blank && alone && names
    }

    /// The first line of a text, alone in its paragraph, that names it.
    fn opens_with_title(&mut self, line: &str) -> bool {
        let alone = self.next.is_some_and(|next| self.is_apart(next));
        self.role == Role::None
            && alone
            && !self.has_text
            && self.open.is_none()
            && !self.rest.trim().is_empty()
            && lines::opens_as_title(line)
            && !self.is_above_labels_only()
            && !self.is_in_row(line)
    }

    /// Whether everything below is lines with labels: they say more of the line above, so it heads nothing.
    fn is_above_labels_only(&self) -> bool {
        let mut below = self.rest.lines().filter(|line| !line.trim().is_empty());
        below.all(|line| {
            lines::labelled(line).is_some_and(|found| !line[found.value].trim().is_empty())
        })
    }

    /// Whether a line that stands alone says something, or is one of several such lines in a row: a note
    /// whose paragraphs are lines without a stop.
    fn is_in_row(&mut self, line: &str) -> bool {
        let is_line = |line: &str| {
            line.split_whitespace().count() >= LINE_WORDS_MIN && lines::reads_as_title(line)
        };
        let alone = self.next.is_none_or(|next| next.trim().is_empty());
        if alone && lines::says_something(line) {
            self.in_row = true;
            return true;
        }
        if !alone || !self.after_blank || !is_line(line) {
            self.in_row = false;
            return false;
        }
        if !self.in_row {
            let mut below = self.rest.trim_start_matches(['\n', '\r']).lines();
            let two: [Option<&str>; 3] = [below.next(), below.next(), below.next()];
            self.in_row = matches!(two, [Some(one), Some(blank), Some(other)]
                if is_line(one) && blank.trim().is_empty() && is_line(other));
        }
        self.in_row
    }

    /// A short line without a stop that stands alone, or right above a list.
    fn heads_what_follows(&mut self, line: &str) -> bool {
        let Some(next) =
            self.next.filter(|_| self.role == Role::None && lines::reads_as_title(line))
        else {
            return false;
        };
        if lines::list_item(next).is_some() {
            return true;
        }
        let alone = self.after_blank && self.is_apart(next);
        alone && !(self.blocks.is_empty() && self.is_above_labels_only()) && !self.is_in_row(line)
    }

    /// Whether a quote of one line right below the title says what the text is about.
    fn is_motto(&self) -> bool {
        let is_title = self.blocks.last().is_some_and(|block| block.kind == Kind::Heading(1));
        let is_one = self.next.is_none_or(|next| next.trim().is_empty());
        self.role == Role::None && !self.in_quote && self.section == 1 && is_title && is_one
    }

    /// Whether a line that stands alone names a version in small letters: `version 1.34 - Ana, 2026-02-13`.
    fn heads_version(&self, line: &str) -> bool {
        let is_short = line.len() <= HEAD_LINE_BYTES_MAX;
        let alone = self.after_blank && self.next.is_some_and(|next| self.is_apart(next));
        self.role == Role::None
            && is_short
            && alone
            && line.contains('.')
            && !line.trim_end().ends_with('.')
            && versions::version_in(line.trim()).is_some_and(|found| found.is_sure)
    }

    /// Whether the next line is blank, or a header of the text.
    fn is_apart(&self, next: &str) -> bool {
        let at = self.source.len() - self.rest.len();
        next.trim().is_empty() || self.fields.contains_key(&at)
    }

    /// Whether the text begins as a letter does.
    fn is_letter(&self) -> bool {
        let mut blocks = self.blocks.iter().filter(|block| block.kind != Kind::Header);
        self.role == Role::None
            && blocks.next().is_some_and(|first| {
                first.kind == Kind::Signature && lines::greets(&self.source[first.text.clone()])
            })
    }

    /// Whether a signature begins here: something is said above, and little stands below, up to what is quoted.
    fn begins_signature(&self, line: &str) -> bool {
        let is_begun = matches!(line, "--" | "—") || is_device_signature(line);
        if !is_begun || self.said_bytes == 0 && self.open.is_none() {
            return false;
        }
        let mut bytes = 0;
        for (count, line) in self.rest.lines().enumerate() {
            if line.starts_with('>')
                || lines::announces_quote(line)
                || lines::announces_forward(line)
            {
                return true;
            }
            bytes += line.len();
            if count >= SIGNATURE_LINES_MAX
                || bytes > SIGNATURE_BYTES_MAX
                || lines::marked_heading(line).is_some()
            {
                return false;
            }
        }
        true
    }

    /// Whether a line and the next one announce a quote together: `Le 3 mars 2025, Ana <a@b.example>` above `a écrit :`.
    fn announces_quote_in_two_lines(&self, line: &str) -> bool {
        const BYTES_MAX: usize = 120;
        let Some(next) = self.next.map(str::trim) else { return false };
        let is_head = line.len() <= BYTES_MAX
            && line.contains(|c: char| c.is_ascii_digit())
            && next.len() <= BYTES_MAX
            && next.ends_with(':');
        is_head
            && !lines::announces_quote(line)
            && lines::announces_quote(&format!("{} {next}", line.trim()))
    }

    /// Whether a line that no fence marks is code: it is indented below words that are not, or goes on such code.
    fn is_indented_code(&self, line: &str) -> bool {
        let is_indented = line.starts_with('\t') || lines::indent(line) >= CODE_INDENT;
        if !is_indented || self.log.is_some() {
            return false;
        }
        if self.open.as_ref().is_some_and(|open| open.kind == Kind::Code) {
            return true;
        }
        let above = self.blocks.last().filter(|_| self.after_blank && self.open.is_none());
        let is_below = above.is_some_and(|above| {
            let before = &self.source[..above.text.start];
            let start = before.rfind('\n').map_or(0, |at| at + 1);
            above.kind == Kind::Code || lines::indent(&before[start..]) < lines::indent(line)
        });
        is_below && lines::looks_like_code(line.trim())
    }

    /// Whether a line below the closing of a letter belongs to the name there: an office, a company, a telephone.
    fn is_signed(&self, line: &str) -> bool {
        let heads_list = self.next.is_some_and(|next| lines::list_item(next).is_some());
        !heads_list && (lines::may_sign(line) || lines::is_contact(line) || lines::is_on_card(line))
    }

    /// Whether a text ends in a visiting card without a closing before it: a name, and lines below it of which one has
    /// a telephone number or an address.
    fn begins_card(&self, line: &str) -> bool {
        let is_apart = self.role == Role::None && self.after_blank;
        if !is_apart || self.said_bytes < ANSWER_BYTES_MIN || !lines::is_name(line) {
            return false;
        }
        let rest = || self.rest.lines().map(str::trim);
        let card = || rest().take_while(|line| !line.is_empty());
        let count = card().take(CARD_LINES_MAX + 1).count();
        let behind = rest().skip(count).find(|line| !line.is_empty());
        (1..=CARD_LINES_MAX).contains(&count)
            && card().all(lines::is_on_card)
            && card().any(lines::reaches_somebody)
            && behind.is_none_or(|line| {
                lines::announces_quote(line)
                    || lines::announces_forward(line)
                    || lines::is_frame(line)
                    || line.starts_with(['>', '-', '_'])
                    || is_device_signature(line)
            })
    }

    /// Whether a line of a letter closes it in words that no list has: `Sunny greetings,` above a name.
    fn closes_in_own_words(&self, line: &str) -> bool {
        let has_headers = || self.blocks.first().is_some_and(|one| one.kind == Kind::Header);
        if !lines::may_close(line) || !(self.is_letter() || has_headers()) {
            return false;
        }
        let mut below = self.rest.lines().map(str::trim).skip_while(|line| line.is_empty());
        below.next().is_some_and(lines::is_name)
            && below.next().is_none_or(|line| line.is_empty() || lines::is_on_card(line))
    }

    /// Whether an item that is no list is the name of who wrote the text: `— Anna`.
    fn is_signed_by_dash(&self, at: usize) -> bool {
        let block = &self.blocks[at];
        let before = self.source[..block.text.start].rsplit('\n').next().unwrap_or_default();
        let is_dash = matches!(before.trim(), "—" | "–");
        let is_list = at.checked_sub(1).is_none_or(|above| self.blocks[above].kind == Kind::Item);
        is_dash && !is_list && lines::is_name(self.source[block.text.clone()].trim_end_matches('.'))
    }

    /// Parts the words from the closing of the letter and the name behind them.
    fn cut_sign_off(&mut self) {
        let frames =
            |block: &Block| matches!(block.kind, Kind::Signature | Kind::Quote | Kind::Link);
        let Some(at) = self.blocks.iter().rposition(|block| !frames(block)) else { return };
        let block = &self.blocks[at];
        let said = &self.source[block.text.clone()];
        if block.role != Role::None {
            return;
        }
        if block.kind == Kind::Item && self.is_signed_by_dash(at) {
            self.blocks[at].kind = Kind::Signature;
        }
        let block = &self.blocks[at];
        if block.kind != Kind::Paragraph {
            return;
        }
        let (is_letter, is_last) = (self.is_letter(), at > 1);
        let alone = || (is_letter && is_last && lines::is_name(said)).then_some(0);
        let Some(from) = lines::sign_off(said, is_letter).or_else(alone) else { return };
        let (start, end) = (block.text.start, block.text.end);
        let closing = Block { kind: Kind::Signature, text: start + from..end, ..block.clone() };
        self.blocks[at].text.end = start + said[..from].trim_end().len();
        self.blocks.insert(at + 1, closing);
        if from == 0 {
            self.blocks.remove(at);
        }
    }

    fn running(&mut self, line: &str, text: Range<usize>) {
        // A greeting before the first words of a letter is none of them.
        let is_first = self.role == Role::None && self.said_bytes == 0 && self.open.is_none();
        let words = &self.source[text.clone()];
        if is_first && let Some(greeting) = lines::greeting_before(words) {
            let end = text.start + words[..greeting].trim_end().len();
            self.single(Kind::Signature, text.start..end);
            return self.extend(Kind::Paragraph, text.start + greeting..text.end);
        }
        let joins = self.open.as_ref().is_some_and(|open| self.goes_on(open, line));
        let kind = self.open.as_ref().filter(|_| joins).map_or(Kind::Paragraph, |open| open.kind);
        if !joins {
            self.close();
        }
        self.extend(kind, text);
    }

    /// Whether a line continues the block above it.
    fn goes_on(&self, open: &Block, line: &str) -> bool {
        let before = &self.source[open.text.clone()];
        let last_line = before.rsplit('\n').next().unwrap_or(before);
        // Two spaces end a line on purpose, in Markdown and in what `<br>` becomes.
        if self.source[open.text.end..].starts_with("  ") || last_line.trim_end().ends_with(':') {
            return false;
        }
        if lines::is_labelled_done(line) {
            return false;
        }
        let first = line.trim_start();
        let low = first.starts_with(char::is_lowercase);
        let stopped = last_line.trim_end().ends_with(['.', '!', '?', '…', ';']);
        let long = last_line.len() >= WRAP_BYTES_MIN;
        if long && !stopped && low {
            return true;
        }
        let labelled = lines::labelled(line).is_some_and(|found| !found.value.is_empty());
        // `… will be at` / `10:30 in the hall` is one sentence, not an entry of a log.
        let entry = lines::opens_entry(line) && (stopped || lines::opens_entry(before));
        if labelled || entry || lines::opens_entry(last_line) && lines::opens_entry(before) {
            return false;
        }
        // `The first line is short` / `and the second goes on` are two lines of one sentence.
        let joins = first.split_whitespace().next().is_some_and(|word| is_stop_word(&fold(word)));
        if low && joins && !stopped && last_line.trim_start().starts_with(char::is_uppercase) {
            return true;
        }
        // A link is too long for the line that it belongs to: `Read the` / `[guide](https://…)`.
        let link = inline::link_length(first);
        let last_word = last_line.split_whitespace().next_back().unwrap_or("");
        let is_open = is_stop_word(&fold(last_word)) || last_line.len() + link > LINE_WITH_LINK;
        if link > 0 && !stopped && is_open {
            return true;
        }
        let word = first.split_whitespace().next().map_or(0, str::len);
        let full = self.width.is_some_and(|width| {
            let start = self.source[..open.text.end].rfind('\n').map_or(0, |at| at + 1);
            open.text.end - start + 1 + word > width
        });
        let indented = open.kind == Kind::Item && lines::indent(line) >= 2;
        long || indented || (full && low && !stopped)
    }

    fn header(&mut self, start: usize, line: &str) -> bool {
        let Some(found) = lines::labelled(line).filter(|found| {
            let label = &line[found.label.clone()];
            self.is_mail
                && lines::is_mail_header(label)
                && !lines::is_record(line)
                && !self.columns.contains(&fold(label))
        }) else {
            return false;
        };
        self.single(Kind::Header, start + found.value.start..start + found.value.end);
        true
    }

    fn turn(&mut self, start: usize, line: &str) -> bool {
        let found = lines::labelled(line).or_else(|| lines::angled(line));
        let Some(found) = found else { return self.bare_role(start, line) };
        let label = &line[found.label.clone()];
        let known = role_of(label);
        let recurs = self.speakers.get(&fold(label)).copied().unwrap_or(0) >= SPEAKS_AGAIN;
        let is_column = self.columns.contains(&fold(label));
        if is_column || known == Role::None && (!recurs || lines::is_mail_header(label)) {
            return false;
        }
        self.start_turn(
            if known == Role::None { Role::Person } else { known },
            start + found.label.start..start + found.label.end,
        );
        if !found.value.is_empty() {
            self.extend(Kind::Paragraph, start + found.value.start..start + found.value.end);
        }
        true
    }

    /// A line such as `## user` or `**Assistant**` that only names who speaks next.
    fn bare_role(&mut self, start: usize, line: &str) -> bool {
        let bare = line.trim().trim_matches(['#', '*', ' ', '[', ']', '<', '>']);
        let marked = line.trim_start().starts_with(['#', '*', '[', '<']);
        let role = role_of(bare);
        if !marked || role == Role::None || bare.len() + 8 < line.trim().len() {
            return false;
        }
        let at = start + line.find(bare).unwrap_or(0);
        self.start_turn(role, at..at + bare.len());
        true
    }

    fn start_turn(&mut self, role: Role, speaker: Range<usize>) {
        self.close();
        self.role = role;
        self.speaker = Some(speaker);
        (self.in_headers, self.in_quote, self.in_signature) = (false, false, false);
    }

    fn heading(&mut self, level: u8, text: Range<usize>) {
        self.section += 1;
        self.single(Kind::Heading(level), text);
    }

    fn single(&mut self, kind: Kind, text: Range<usize>) {
        self.close();
        self.extend(kind, text);
        self.close();
    }

    fn extend(&mut self, kind: Kind, text: Range<usize>) {
        match &mut self.open {
            Some(open) if open.kind == kind => open.text.end = text.end,
            _ => {
                self.close();
                self.open = Some(Block {
                    part: self.part,
                    kind,
                    text,
                    role: self.role,
                    speaker: self.speaker.clone(),
                    section: self.section,
                    sentences: 0..0,
                });
            }
        }
    }

    fn close(&mut self) {
        if let Some(block) = self.open.take().filter(|block| !block.text.is_empty()) {
            if matches!(block.kind, Kind::Paragraph | Kind::Item) {
                self.said_bytes += block.text.len();
            }
            self.has_text |=
                !matches!(block.kind, Kind::Header | Kind::Signature | Kind::Table | Kind::Link);
            self.blocks.push(block);
        }
    }
}

/// Whether a line is one of the head of a mail: `Sent: Monday`.
fn heads_mail(line: &str) -> bool {
    let found = lines::labelled(line);
    found.is_some_and(|found| lines::is_mail_header(&line[found.label.clone()]))
}

/// Whether a text begins with headers of a mail. A day alone is none, and a text that names an hour and no subject
/// announces an event: `From: Lisbon`, `Date: 5 March`, `Time: 10:30`.
fn begins_as_mail(source: &str) -> bool {
    let lines = source.lines().skip_while(|line| line.trim().is_empty());
    let head = lines.take_while(|line| !line.trim().is_empty()).take(HEAD_LINES_MAX);
    let labels = head.filter_map(|line| Some(&line[lines::labelled(line)?.label]));
    let labels =
        labels.filter(|label| lines::is_mail_header(label) && !written::is_date_label(label));
    let (mut is_mail, mut has_subject) = (false, false);
    for label in labels {
        is_mail = true;
        has_subject |= lexicon().mail.subject_labels.contains(&fold(label));
    }
    is_mail && (has_subject || !written::announces_event(source))
}

/// The labelled lines in the head of minutes or of a memo, below its title: who was there, whom it is for, who led and
/// where. Each with its place and its value in the line. None where no line says who was there, and no record or
/// memo whom it is for: `To:` alone may belong to an invitation.
fn head_of_minutes(source: &str) -> Vec<(usize, Range<usize>)> {
    let mut found = Vec::new();
    let (mut start, mut titles, mut is_record) = (0, 0, false);
    let (mut has_attendance, mut has_receiver, mut has_subject) = (false, false, false);
    let mut has_text = false;
    for line in source.split_inclusive('\n').take(HEAD_LINES_MAX) {
        let (at, line) = (start, line.trim_end());
        start += line.len();
        start += source[start..].find('\n').map_or(0, |end| end + 1);
        if line.is_empty() {
            continue;
        }
        let labelled = lines::labelled(line)
            .filter(|one| !one.value.is_empty() && !lines::is_record(line))
            .filter(|one| heads_minutes(&line[one.label.clone()]));
        if let Some(one) = labelled {
            let label = fold(&line[one.label]);
            has_attendance |= lines::lists_attendance(line);
            has_receiver |= RECEIVERS.contains(&label.as_str());
            has_subject |= lexicon().mail.subject_labels.contains(&label);
            found.push((at, one.value));
        } else if found.is_empty() && titles < TITLES_MAX && line.len() <= HEAD_LINE_BYTES_MAX {
            titles += 1;
            is_record |= written::names_record(line);
        } else {
            has_text = true;
            break;
        }
    }
    let is_memo = titles > 0 && has_receiver && (is_record || has_subject);
    let is_head = has_text && (has_attendance || is_memo) && !written::announces_event(source);
    if is_head { found } else { Vec::new() }
}

/// Lines of a title above the head of minutes.
const TITLES_MAX: usize = 2;
/// Labels before those that a text is for, folded.
const RECEIVERS: [&str; 5] = ["to", "para", "an", "a", "cc"];

/// Whether a label stands in the head of minutes.
fn heads_minutes(label: &str) -> bool {
    let (folded, known) = (fold(label), lexicon());
    let first = folded.split_whitespace().next().unwrap_or_default();
    lines::is_mail_header(label)
        || written::is_date_label(label)
        || known.attendance.contains(first)
        || known.head_labels.contains(first)
        || known.dates.time_labels.contains(&folded)
}

/// The end of the head of a letter, which holds its date: the line before the greeting. A date alone
/// at the beginning of a text is a head of one line. 0 for a text without a head.
fn letterhead(source: &str) -> usize {
    let (mut start, mut dated, mut count) = (0, None, 0);
    for line in source.split_inclusive('\n') {
        let text = line.trim();
        let end = start + line.len();
        if !text.is_empty() {
            count += 1;
            if dated.is_some() && lines::greets(text) {
                return start;
            }
            let is_date = written::is_letter_date(text);
            if is_date && count == 1 {
                dated = Some(end);
            } else if is_date {
                dated = dated.or(Some(0));
            }
            let is_head = text.len() <= HEAD_LINE_BYTES_MAX && !text.ends_with(['!', '?', ';']);
            if count > HEAD_LINES_MAX || !is_head || lines::marked_heading(line).is_some() {
                break;
            }
        }
        start = end;
    }
    dated.unwrap_or(0)
}

/// The longest line, where no line is longer than a program wraps.
fn width_of(source: &str) -> Option<usize> {
    let longest = source.lines().map(|line| line.trim_end().len()).max().unwrap_or(0);
    (WIDTHS.contains(&longest) && source.lines().nth(1).is_some()).then_some(longest)
}

/// `- Ana | Lima`: an item of a list, and no row whose first cell is a dash.
fn is_item_of_bars(line: &str) -> bool {
    lines::list_item(line).is_some_and(|text| !line[text..].starts_with('|'))
}

/// How often each label begins a line, where it may name who speaks.
fn recurring_labels(source: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut stamped = BTreeSet::new();
    for line in source.lines().take(SPEAKER_LINES_MAX) {
        let angled = lines::angled(line);
        let is_marked = angled.is_some() || line.trim_start().starts_with('[');
        let Some(found) = angled.or_else(|| lines::labelled(line)) else { continue };
        let label = &line[found.label];
        let named = label.split_whitespace().count() <= 3
            && (is_marked || label.chars().next().is_some_and(char::is_uppercase));
        if named && !is_no_name(label) && lines::list_item(line).is_none() {
            *counts.entry(fold(label)).or_insert(0) += 1;
            stamped.extend(lines::stamped_clock(line).map(|_| fold(label)));
        }
    }
    // In a chat with times, who speaks only once speaks too.
    if stamped.iter().any(|label| counts[label] >= SPEAKS_AGAIN) {
        for label in stamped {
            counts.entry(label).and_modify(|count: &mut usize| *count = (*count).max(SPEAKS_AGAIN));
        }
    }
    counts
}

/// `Decided: the blue paint`: no title, however short and alone it is.
pub(crate) fn declares_decision(line: &str) -> bool {
    let found = lines::labelled(line).filter(|found| !found.value.is_empty());
    found.is_some_and(|found| lexicon().decisions.contains(fold(&line[found.label]).as_str()))
}

/// Whether a label says what stands behind it: `Decision:`, `Note:`.
fn is_no_name(label: &str) -> bool {
    let (label, known) = (fold(label), lexicon());
    known.ask.labels.contains(label.as_str())
        || known.ask.finished.contains(label.as_str())
        || known.decisions.contains(label.as_str())
        || known.ask.headings.contains(&label)
        || written::is_author_label(&label)
}

/// The names of first columns: they begin rows, as `Fruit: Apple; Colour: Red`, and name nobody who speaks.
fn columns(source: &str) -> BTreeSet<String> {
    // Lines, and rows among them, that begin with a label.
    let mut uses: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for line in source.lines().take(SPEAKER_LINES_MAX) {
        let Some(found) = lines::labelled(line) else { continue };
        let (count, rows) = uses.entry(fold(&line[found.label])).or_default();
        *count += 1;
        *rows += usize::from(lines::is_record(line));
    }
    uses.retain(|label, (count, rows)| {
        // One who is known to speak in chats may write a message that reads as a row.
        let least = if role_of(label) == Role::None { count.div_ceil(2) } else { *count };
        *count > 1 && *rows >= least
    });
    uses.into_keys().collect()
}

fn is_device_signature(line: &str) -> bool {
    let folded = fold(line);
    lexicon().mail.signature_starts.iter().any(|start| folded.starts_with(start.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<(Kind, &str)> {
        split(0, source).into_iter().map(|block| (block.kind, &source[block.text])).collect()
    }

    #[test]
    fn what_is_passed_on_is_said_and_what_is_answered_is_quoted() {
        let said = |source: &str| -> Vec<String> {
            let blocks = split(0, source);
            let shown = blocks.iter().filter(|block| block.kind == Kind::Paragraph);
            shown.map(|block| source[block.text.clone()].to_owned()).collect()
        };
        let mail = "The training is on 4 March from 9 to 16 in room 12. Lunch costs 11 EUR.";
        for (own, mark) in [
            (
                "FYI.\n\nBest,\nJens",
                "---------- Forwarded message ---------\nFrom: Kurt\nSubject: Training",
            ),
            (
                "FYI.\n\nBest,\nJens",
                "-----Original Message-----\nFrom: Kurt\nSent: Monday\nTo: Jens",
            ),
            (
                "Zur Info.\n\nViele Grüße\nJens",
                "----- Ursprüngliche Nachricht -----\nVon: Kurt\nBetreff: Termin",
            ),
            (
                "Pour info.\n\nCordialement,\nJens",
                "-----Message d'origine-----\nDe : Kurt\nObjet : Formation",
            ),
            (
                "Para tu información.\n\nUn saludo,\nJens",
                "---------- Mensaje reenviado ---------\nDe: Kurt\nAsunto: Curso",
            ),
            ("FYI.", "From: Kurt\nSent: Monday\nTo: Jens\nSubject: Training"),
        ] {
            let source = format!("{own}\n\n{mark}\n\n{mail}\n");
            let own = own.lines().next().unwrap();
            assert_eq!(said(&source), [own, mail], "{source}");
        }
        let answer = format!(
            "Yes, ten is fine.\n\n-----Original Message-----\nFrom: Kurt\nSent: Monday\nTo: Jens\n\n{mail}\n"
        );
        assert_eq!(said(&answer), ["Yes, ten is fine."]);
        let quoted = split(0, &answer).into_iter().filter(|block| block.kind == Kind::Quote);
        let quoted: Vec<String> = quoted.map(|block| answer[block.text].to_owned()).collect();
        assert_eq!(quoted, [mail]);
    }

    #[test]
    fn a_row_of_marks_underlines_or_separates_and_is_no_text() {
        let source = "Meeting of the board\n====================\n\nThe board chose a roof.\n\nCosts\n-----\n\
                      Tiles cost 3000 EUR.\n\n* * *\n\nThe work costs 900 EUR.\n---\nAna came late.\n";
        let blocks = split(0, source);
        let found: Vec<(Kind, &str)> =
            blocks.iter().map(|one| (one.kind, &source[one.text.clone()])).collect();
        let expected = [
            (Kind::Heading(1), "Meeting of the board"),
            (Kind::Paragraph, "The board chose a roof."),
            (Kind::Heading(2), "Costs"),
            (Kind::Paragraph, "Tiles cost 3000 EUR."),
            (Kind::Paragraph, "The work costs 900 EUR."),
            (Kind::Paragraph, "Ana came late."),
        ];
        assert_eq!(found, expected);
        // Signs below two lines, an item, a link, a decision or a sentence above code make no heading.
        for (said, kind) in [
            ("The hedge is cut\nand the shears are blunt.\n-----\nEnd it.", Kind::Paragraph),
            ("- Buy two litres of white paint for 40 EUR\n---\nEnd it.", Kind::Item),
            ("The heating failed on Monday\n...\nEnd it.", Kind::Paragraph),
            ("https://example.org/roof\n---\nEnd it.", Kind::Link),
            ("Decision: we buy the blue paint\n---\nEnd it.", Kind::Paragraph),
            ("Run the script\n```\nls\n```\n", Kind::Paragraph),
        ] {
            assert_eq!(kinds(said)[0].0, kind, "{said}");
        }
        // What stands only above lines with labels is the text, and they say more of it.
        for said in [
            "The hotel at the lake\n\nchannel: ops\n",
            "Lyon on Tuesday\n\nwho: Ben\nphone: 123 456\n",
        ] {
            assert_eq!(kinds(said)[0].0, Kind::Paragraph, "{said}");
        }
        let tools = kinds("Tools of Ben\n~~~~~~~~~~~~\n\nThe saw is blunt.");
        let expected = [(Kind::Heading(2), "Tools of Ben"), (Kind::Paragraph, "The saw is blunt.")];
        assert_eq!(tools, expected);
    }

    /// The paragraphs, items and headings of a text, joined by bars.
    fn said(source: &str) -> String {
        let is_said = |kind: &Kind| matches!(kind, Kind::Paragraph | Kind::Item | Kind::Heading(_));
        let found = kinds(source).into_iter().filter(|(kind, _)| is_said(kind));
        found.map(|(_, text)| text).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn a_signature_is_short_and_stands_below_words() {
        let long = "The pump is old and leaks on most days.\n\n".repeat(80);
        let body = long.trim_end().replace("\n\n", "|");
        for (source, expected) in [
            (
                "The pump leaks on most days.\n\n--\nAna Ruiz\nHead of pumps\n",
                "The pump leaks on most days.",
            ),
            (format!("A start.\n\n--\n\n{long}").as_str(), format!("A start.|{body}").as_str()),
            ("Unsubscribe\n\nThe pump leaks on most days.\n", "The pump leaks on most days."),
            ("A start.\n\n—\n\n## Pumps\n\nThey leak.\n", "A start.|Pumps|They leak."),
        ] {
            assert_eq!(said(source), expected);
        }
    }

    #[test]
    fn words_behind_comments_are_text_and_items_without_words_are_none() {
        assert_eq!(said("<!-- a note --> The pump leaks.\n"), "The pump leaks.");
        assert_eq!(said("<!-- a --><!-- b\nc --> The pump leaks.\n"), "The pump leaks.");
        assert_eq!(said("<!-- a note\nover two lines -->\nThe pump leaks.\n"), "The pump leaks.");
        assert_eq!(said("- Buy a hose\n-\n- [ ]\n- Buy a valve\n"), "Buy a hose|Buy a valve");
        assert_eq!(
            said("We meet in the hall at nine and go then up to the room\n12.\n"),
            "We meet in the hall at nine and go then up to the room\n12."
        );
    }

    #[test]
    fn a_quote_that_two_lines_announce_is_no_text_of_the_mail() {
        for head in [
            "Le lun. 3 mars 2025 à 10:12, Jean Dupont <j@x.example>\na écrit :",
            "Am Mo., 3. März 2025 um 10:12 Uhr schrieb Jean Dupont\n<j@x.example>:",
            "El lun, 3 mar 2025 a las 10:12, Jean Dupont (<j@x.example>)\nescribió:",
            "On Mon, Mar 3, 2025 at 10:12 AM Jean Dupont <j@x.example>\nwrote:",
        ] {
            let source = format!("Ten is fine for all of us here.\n\n{head}\n\nIs ten fine?\n");
            assert_eq!(said(&source), "Ten is fine for all of us here.", "{head}");
        }
    }

    #[test]
    fn lines_of_code_are_no_text() {
        let source = "Install it with one command.\n\n    $ cargo install pump\n\n`cargo run`\n\nThen run it.\n\n    let a = pump();\n    b\n\n\
                      It runs.\n";
        assert_eq!(said(source), "Install it with one command.|Then run it.|It runs.");
        // A page whose words are all indented has no code.
        let page = "    The pump has a valve; it leaks.\n\n    The hose = 3 m.\n";
        assert_eq!(said(page), "The pump has a valve; it leaks.|The hose = 3 m.");
    }

    #[test]
    fn headings_of_an_outline_and_lines_with_a_version_are_headings() {
        let source = "* Changes in release 3.8\n\n** Bug fixes\n\n  The pump runs.\n\n* Changes in release 3.7\n\n  The hose fits.\n";
        let headings = |source: &str| {
            let headings =
                kinds(source).into_iter().filter(|(kind, _)| matches!(kind, Kind::Heading(_)));
            headings.map(|(_, text)| text.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            headings(source),
            ["Changes in release 3.8", "Bug fixes", "Changes in release 3.7"]
        );
        assert_eq!(headings("* one\n** two\n* three\n"), [""; 0]);
        let plain = "News of the pump for all.\n\nversion 1.34 - Ana Ruiz, 2026-02-13\n\n* The hose fits.\n";
        assert_eq!(headings(plain), ["version 1.34 - Ana Ruiz, 2026-02-13"]);
    }

    #[test]
    fn a_quote_of_one_line_below_the_title_says_what_the_text_is_about() {
        assert_eq!(
            said("# Pump\n\n> It moves water\n\nIt leaks.\n"),
            "Pump|It moves water|It leaks."
        );
        assert_eq!(said("# Pump\n\n> It moves\n> water\n\nIt leaks.\n"), "Pump|It leaks.");
    }

    #[test]
    fn closings_and_the_lines_of_a_card_below_them_are_no_text() {
        for (source, expected) in [
            (
                "Hi Tom, the release slips to Friday.\nTell the shops.\n\nCheers\nLaura\n\nLaura Finch\nHead of Digital\n\
                 12 Quay Street, Bristol\nwww.finch.example\n",
                "the release slips to Friday.|Tell the shops.",
            ),
            (
                "Sehr geehrte Frau Lenz,\ndie Heizung wird gewartet.\nMfG\ni. A. Thomas Reuter\nHausverwaltung Reuter & Sohn\n\
                 Tel.: 0221 555 9012\nE-Mail: info@reuter.example\n",
                "die Heizung wird gewartet.",
            ),
            (
                "Buenas, Marta: la sala está ocupada.\nAbrazos,\nTito\nErnesto Baeza\nCoordinador de proyectos\n",
                "la sala está ocupada.",
            ),
            (
                "Coucou Marie, le train est supprimé.\nBises\nChloé\nTél. 04 55 55 12 80\n",
                "le train est supprimé.",
            ),
            // A closing that no list has, and a card without one.
            (
                "Hello all, the yard closes.\n\nV best,\nPetra Nowak\nOffice Manager | Lumen\nT 0161 555 | p@lumen.example\n",
                "the yard closes.",
            ),
            (
                "The hall is booked for Saturday 14 March, and the caretaker has the key.\n\nDan Okoye\nProgramme Manager\nM: 07700 900123\n",
                "The hall is booked for Saturday 14 March, and the caretaker has the key.",
            ),
            // What is said below a closing stays.
            (
                "Hi Ana,\n\nThe pump leaks.\n\nThanks,\nBen\n\nPS: bring the key.\n",
                "The pump leaks.|PS: bring the key.",
            ),
            ("The pump leaks.\n\nThanks\n\nNext steps\n\n- call Ana\n", "The pump leaks.|call Ana"),
        ] {
            assert_eq!(said(source), expected, "{source}");
        }
        let list = "Here is who can help you with the boiler and the roof of the house.\n\nAna Ruiz\nPlumber\n\
                    600 123 123\n\nBen Cole\nRoofer\n600 456 456\n";
        assert!(said(list).contains("Ana Ruiz"), "{}", said(list));
    }

    #[test]
    fn a_greeting_in_a_mail_that_is_passed_on_is_no_text_and_a_done_line_begins_anew() {
        let mail = "We answer by Tuesday.\n\n---------- Forwarded message ---------\nFrom: Leo <l@a.example>\nSubject: Stand\n\n\
                    Hello Kim, your stand is confirmed.\nIt has power.\n";
        assert_eq!(said(mail), "We answer by Tuesday.|your stand is confirmed.|It has power.");
        let notes = "la manguera tiene un agujero, hay que cambiarla antes de abril\nhecho: podar el limonero\n";
        assert!(said(notes).ends_with("|hecho: podar el limonero"), "{}", said(notes));
    }

    #[test]
    fn the_head_of_minutes_is_no_text_of_theirs() {
        for (source, expected) in [
            (
                "Minutes of the meeting, 2 March 2026\nTo: all members\nPresent: Ruth Amari, Ben Cole\nChair: Ruth\nLocation: Hut 3\n\n\
                 The rate rises.\n",
                "The rate rises.",
            ),
            (
                "# Protokoll vom 3. März 2026\n\nAn: alle Eltern\nAnwesend: Frau Lindner\nOrt: Raum 12\n\nDie Fahrt kostet 185 Euro.\n",
                "Protokoll vom 3. März 2026|Die Fahrt kostet 185 Euro.",
            ),
            (
                "Acta de la junta\nPara: los vecinos\nAsistentes: Rosa, Pedro\nLugar: sede\n\nLa cuota sube.\n",
                "Acta de la junta|La cuota sube.",
            ),
            (
                "Compte rendu de la réunion\nÀ : tous\nPrésents : Karim, Lucie\nLieu : salle\n\nLa fête a lieu.\n",
                "Compte rendu de la réunion|La fête a lieu.",
            ),
        ] {
            assert_eq!(said(source), expected, "{source}");
        }
        // An invitation says where and when it is.
        let party = "Summer fete\nTo: everyone\nPlace: the park\n\nBring cake.\n";
        assert!(said(party).contains("the park"), "{}", said(party));
    }

    #[test]
    fn directives_are_no_text_and_their_words_are() {
        let source = "Upgrade\n=======\n\n.. note::\n\n   It needs firmware 3.2.\n\n.. image:: a.png\n   :alt: The box\n\n\
                      .. warning:: Switch it off.\n\n.. toctree::\n\n   intro\n   usage\n\n.. a comment\n\nOpen the box.\n\n.. function:: open(path)\n\n   Opens it.\n\n   :param path: The box.\n";
        assert_eq!(
            said(source),
            "Upgrade|It needs firmware 3.2.|Switch it off.|Open the box.|Opens it."
        );
    }

    #[test]
    fn a_title_that_the_text_repeats_is_a_heading() {
        let apart = |title: &str, source: &str| {
            let mut blocks = split(0, source);
            set_title_apart(source, &mut blocks, title);
            let kinds = blocks.iter().map(|one| (one.kind, source[one.text.clone()].to_owned()));
            kinds.map(|(kind, text)| format!("{kind:?} {text}")).collect::<Vec<_>>().join("|")
        };
        let pump = "Heading(1) Pump is broken|Paragraph The pump leaks.";
        assert_eq!(apart("Pump is broken", "Pump is broken\n\nThe pump leaks.\n"), pump);
        assert_eq!(
            apart("Pump is broken.", "PUMP is broken. The pump leaks."),
            pump.replacen("Pump", "PUMP", 1)
        );
        // A sentence that only begins with the title, and a text that says no more.
        let whole = "Paragraph Pump is broken since noon.";
        assert_eq!(apart("Pump is broken", "Pump is broken since noon."), whole);
        assert_eq!(apart("Pump is broken", "Pump is broken."), "Paragraph Pump is broken.");
        assert_eq!(apart("", "The pump leaks."), "Paragraph The pump leaks.");
    }

    #[test]
    fn the_lines_of_a_mail_are_recognized() {
        let mail = "Subject: Lunch\nFrom: Ana <a@x.org>\n\nShall we eat on Friday?\n\nOn Mon, Bob wrote:\n> hungry\n";
        let kinds = kinds(mail);
        assert_eq!(kinds[0], (Kind::Header, "Lunch"));
        assert_eq!(kinds[2], (Kind::Paragraph, "Shall we eat on Friday?"));
        assert_eq!(kinds[4], (Kind::Quote, "hungry"));
    }

    #[test]
    fn the_author_and_the_day_in_a_head_are_headers_and_what_no_record_holds_is_text() {
        let said = "We buy a pump for the well. It costs 300 EUR.";
        for head in [
            "Author: Ana Ruiz\nDate: 2026-03-05\n",
            "Minutes\nAuthor: Ana Ruiz\nDate: 2026-03-05\n",
            "Minutes\n\nBy: Ana Ruiz\nPublished: 5 March 2026\n",
            "# Minutes\n\n**Author:** Ana Ruiz\n**Date:** 5 March 2026\n",
            ":author: Ana Ruiz\n:date: 2026-03-05\n",
            "Acta\nAutora: Ana Ruiz\nFecha: 5 de marzo de 2026\n",
            "Minutes\n\nFrom: Ana Ruiz\nDate: 5 March 2026\n",
            "Minutes\n=======\n\nFrom: Ana Ruiz\nDate: 5 March 2026\n",
            "Protokoll\n\nVon: Ana Ruiz\nDatum: 5. März 2026\n",
            "Reunión de vecinos\n\nDe: Ana Ruiz\nFecha: 5 de marzo de 2026\n",
        ] {
            let text = format!("{head}\n{said}");
            let found = kinds(&text);
            let headers = found.iter().filter(|(kind, _)| *kind == Kind::Header);
            let headers: Vec<&str> = headers.map(|(_, text)| *text).collect();
            let [author, day] = headers[..] else { panic!("{found:?}") };
            assert!(author == "Ana Ruiz" && day.contains("2026") && !day.contains('*'), "{text}");
            let paragraphs = found.iter().filter(|(kind, _)| *kind == Kind::Paragraph);
            assert_eq!(paragraphs.collect::<Vec<_>>(), [&(Kind::Paragraph, said)], "{text}");
        }
        for (head, left) in [
            // The day of an event is no day of the text.
            ("Concert\n\nDate: 14 March 2026\nTime: 19:30\n", "Date: 14 March 2026"),
            // A record has one author and one day.
            ("Author: Ana\nAuthor: Bo\n", "Author: Bo"),
            ("Date: 2026-03-05\nCreated: 2026-03-04\n", "Created: 2026-03-04"),
            // Day and month may be meant either way.
            ("Date: 05/03/2026\n", "Date: 05/03/2026"),
            ("Date: 14 March 2026\nTime: 19:30\n", "Date: 14 March 2026"),
            ("From: Lisbon\nTo: Porto\nDate: 5 March 2026\nTime: 10:30\n", "To: Porto"),
            ("Author: Apple; Colour: Red\n", "Author: Apple; Colour: Red"),
            ("Spring concert\n\nFrom: Lisbon\nDate: 14 March 2026\nTime: 19:30\n", "From: Lisbon"),
            ("Train ticket\n\nFrom: Lisbon\nTo: Porto\nDate: 5 March 2026\n", "From: Lisbon"),
            ("Shop\n\nFrom: Monday to Friday\nPhone: 555 0102\n", "From: Monday to Friday"),
            (
                "The pump of the well is old, so that Ben and his sister wait all day long.\nBy: Ana\n",
                "By: Ana",
            ),
        ] {
            let text = format!("{head}\n{said}");
            let found = kinds(&text);
            let stands = |(kind, text): &(Kind, &str)| *kind != Kind::Header && text.contains(left);
            assert!(found.iter().any(stands), "{found:?}");
        }
    }

    #[test]
    fn a_greeting_before_the_words_and_a_name_behind_them_are_no_words_of_a_letter() {
        for (letter, expected) in [
            ("Hi Tom, the shears are here. Thanks, Anna.", "the shears are here."),
            ("Lieber Tom,\n\ndie Leiter ist hier. — Anna", "die Leiter ist hier."),
            ("Hola Tomás, las llaves están aquí.\n\nAna", "las llaves están aquí."),
            ("The shears are here.\n\n— Anna Berg", "The shears are here."),
            ("Hi Tom,\n\nthe shears are here.\n\nThanks, Anna.\n\n> old", "the shears are here."),
        ] {
            let found = kinds(letter);
            let said: Vec<&str> =
                found.iter().filter(|one| one.0 == Kind::Paragraph).map(|one| one.1).collect();
            assert_eq!(said, [expected], "{found:?}");
            assert!(found.iter().all(|one| one.0 != Kind::Item), "{found:?}");
        }
        let list = kinds("Who comes:\n\n— Anna\n— Ben");
        assert_eq!(list.iter().filter(|one| one.0 == Kind::Item).count(), 2, "{list:?}");
    }

    #[test]
    fn turns_carry_their_speaker_and_plain_labels_do_not() {
        let chat = "user: fix the build\nassistant: done\n\nit was a typo\nuser: thanks";
        let roles: Vec<_> = split(0, chat).iter().map(|block| block.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::Assistant, Role::User]);
        let post = "Location: Lima\nSalary: 60k";
        assert!(split(0, post).iter().all(|block| block.role == Role::None));
    }

    #[test]
    fn rows_are_told_from_quotes_items_and_signatures_with_bars() {
        let all = |source: &str, kind: Kind| {
            let found = kinds(source);
            found.len() > 1 && found.iter().all(|(one, _)| *one == kind)
        };
        assert!(all("> Ana | Lima\n> Bo | Cusco", Kind::Quote));
        assert!(all("> Name | City\n> --- | ---\n> Bo | Cusco", Kind::Quote));
        assert!(all("- Ana | Lima\n- Bo | Cusco", Kind::Item));
        assert!(all("Ana | Lima\nBo | Cusco", Kind::Table));
        assert!(all("- | Lima\n- | Cusco", Kind::Table));
        let signed = kinds("See you on Monday.\n\nRegards,\nAna Ruiz | Sales\nAcme | Lima");
        assert_eq!(
            signed[2..],
            [(Kind::Signature, "Ana Ruiz | Sales"), (Kind::Signature, "Acme | Lima"),]
        );
    }

    #[test]
    fn a_table_needs_no_bars_at_its_ends() {
        for table in [
            "Name | Fee\n--- | ---\nAna | It is due.\nBo | 3\n\nWe pay a | b.",
            "Name|Fee\n---|---\nAna|It is due.\nBo|3\n\nWe pay a | b.",
        ] {
            let found: Vec<Kind> = kinds(table).into_iter().map(|(kind, _)| kind).collect();
            assert_eq!(found, [Kind::Columns, Kind::Table, Kind::Table, Kind::Paragraph]);
        }
    }

    #[test]
    fn who_speaks_only_once_in_a_chat_with_times_speaks_too() {
        let chat = "2/9/26, 10:02 - Ana: Who votes?\n2/9/26, 10:02 - Ben: I do.\n2/9/26, 10:03 - Ana: Fine.\n";
        let speakers = recurring_labels(chat);
        assert_eq!((speakers["ana"], speakers["ben"]), (2, SPEAKS_AGAIN));
        for label in ["TODO", "To do", "Tarea", "Aufgabe", "Próximos pasos", "Decision"] {
            let list = format!("{label}: call the bank\n{label}: pay the plumber\n");
            assert_eq!(recurring_labels(&list).len(), 0, "{label}");
        }
        let notes = "Ana: Who votes?\nRoof: 40 EUR\nAna: Fine.\n";
        assert_eq!(recurring_labels(notes)["roof"], 1);
    }

    #[test]
    fn the_first_column_of_a_table_is_no_speaker() {
        // A row of one cell names its column too.
        for (name, last) in [("Fruit", "Pear"), ("From", "Pear"), ("User", "Pear; Colour: Green")] {
            let row = |cell: &str| format!("{name}: {cell}.");
            let rows = [row("Apple; Colour: Red"), row("Apple; Colour: Green"), row(last)];
            let text = rows.join("\n");
            let blocks = split(0, &text);
            assert!(blocks.iter().all(|block| block.role == Role::None), "{text}");
            let said: String = blocks.iter().map(|block| &text[block.text.clone()]).collect();
            assert!(said.starts_with(&rows[0]) && said.ends_with(&rows[2]), "{said}");
        }
        let chat =
            "Ana: two things: the key; and: the cat\nBo: ok\nAna: today\nAna: please\nBo: yes";
        assert!(split(0, chat).iter().all(|block| block.role == Role::Person));
        let asked = "user: do: this; then: that\nassistant: done\nuser: thanks";
        assert!(split(0, asked).iter().all(|block| block.role != Role::None));
    }

    #[test]
    fn wrapped_lines_join_and_short_ones_do_not() {
        let source = "This line is long enough to have been wrapped by a mail\nprogram somewhere.\nBest,\nAna";
        assert_eq!(kinds(source).len(), 3);
    }

    #[test]
    fn unclosed_code_and_odd_marks_keep_their_text() {
        assert_eq!(kinds("```\nlet x = 1;\n"), [(Kind::Code, "let x = 1;")]);
        let nested = "````tool_result\nOne.\n```\nTwo.\n```\n~~~\n````\nThree.";
        let nested: Vec<Kind> = kinds(nested).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(nested.last(), Some(&Kind::Paragraph));
        assert!(nested[..nested.len() - 1].iter().all(|kind| *kind == Kind::Code), "{nested:?}");
        assert!(kinds(">\n|\n- ").iter().all(|(_, text)| !text.is_empty()));
    }
}
