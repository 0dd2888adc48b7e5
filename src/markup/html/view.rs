//! Texts that carry HTML, read as a reader sees them: no tags, no scripts, characters for references.
//!
//! Contract: a [`View`] is the plain text together with where each stretch of it stands in the source,
//! so whatever is said about the view can be pointed at in the source, byte for byte. A text without `<`
//! and `&` has no view and costs one scan. Only what is certainly markup is taken for it: tags of HTML
//! whose end tag, attributes or name leave no doubt, comments, references that end in `;`. `a < b`,
//! `Vec<String>`, `cp <source> <target>`, anything between backticks, and names that are never closed stay as
//! they are. What a browser does not show (scripts, styles, navigation, elements that are `hidden` or whose
//! `style` leaves nothing to see) is no text.
//!
//! Deliberately not here: a DOM, elements that a style sheet hides, and what a link points at beyond its
//! address, which follows the line it stands in.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::elements::{self, Element};
use super::entities;
use super::tag::{Sight, TAG_BYTES_MAX, Tag};
use crate::markup::prefix;

/// Longest stretch between backticks on a line.
const CODE_BYTES_MAX: usize = 4 << 10;
/// Elements in one another without visible text of their own that are looked through.
const INVISIBLE_MAX: usize = 64;
/// What stands before and after preformatted text.
const FENCE: &str = "```";
/// Longest link address kept.
const LINK_BYTES_MAX: usize = 2000;
/// Longest tag that is shown as code.
const SHOWN_TAG_BYTES_MAX: usize = 200;
/// Longest row of a table that is read as one line.
const ROW_BYTES_MAX: usize = 240;
/// What stands between two cells until the row is known.
const CELL_BREAK: &str = "\n  ";
/// What the cells of a short row are joined by.
const CELL_JOIN: &str = " | ";
/// A short first cell names the second.
const CELL_LABEL: &str = ":  ";
/// Longest first cell that is a label, in bytes.
const LABEL_BYTES_MAX: usize = 40;

/// A stretch of the view: equally long in both texts when it is a copy, else a character for a reference.
#[derive(Debug, Clone, Copy)]
struct ViewStretch {
    view: usize,
    view_len: usize,
    source: usize,
    source_len: usize,
}

impl ViewStretch {
    fn is_copied(&self) -> bool {
        self.view_len == self.source_len
    }
}

/// A text without its markup.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// What a reader sees.
    pub text: String,
    stretches: Vec<ViewStretch>,
    /// What this view's source was taken from, when the markup itself was escaped.
    below: Option<Box<View>>,
}

impl View {
    /// Some ranges of a text, in their order and apart from each other; `below` is what the text itself
    /// is a view of.
    pub(crate) fn excerpt(source: &str, ranges: &[Range<usize>], below: Option<Box<View>>) -> View {
        let mut view = View { text: String::new(), stretches: Vec::new(), below };
        for range in ranges {
            view.text.push_str(if view.text.is_empty() { "" } else { "\n\n" });
            let (start, length) = (view.text.len(), range.len());
            let stretch = ViewStretch {
                view: start,
                view_len: length,
                source: range.start,
                source_len: length,
            };
            view.stretches.push(stretch);
            view.text.push_str(&source[range.clone()]);
        }
        view
    }

    /// The view of a text; `None` when there is nothing to take away.
    pub fn of(source: &str) -> Option<View> {
        if !source.contains('<') && !source.contains('&') {
            return None;
        }
        let mut view = Reader::new(source, true).read();
        let is_strict = view.says_something();
        if !is_strict {
            view = Reader::new(source, false).read();
        }
        if view.text == source {
            return None;
        }
        // Feeds and job boards escape whole pages: what came out begins with markup again. A text about markup begins
        // with words.
        let begins = view.text.trim_start().starts_with('<');
        if begins && elements::has_closing_tag(&view.text) && source.contains("&lt;/") {
            let mut above = Reader::new(&view.text, true).read();
            above.below = Some(Box::new(view));
            return Some(above);
        }
        match source.contains("&lt;") {
            true => Some(Reader { shows_tags: true, ..Reader::new(source, is_strict) }.read()),
            false => Some(view),
        }
    }

    /// Whether anything in it is a letter or a digit.
    fn says_something(&self) -> bool {
        self.text.chars().any(char::is_alphanumeric)
    }

    /// Where a range of the view stands in the source; `None` when all of it is ours.
    pub(crate) fn locate(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let first =
            self.stretches.partition_point(|stretch| stretch.view + stretch.view_len <= start);
        let after = self.stretches.partition_point(|stretch| stretch.view < end);
        let (first, last) =
            (self.stretches.get(first)?, self.stretches.get(after.checked_sub(1)?)?);
        if first.view > last.view {
            return None;
        }
        let from = match first.is_copied() {
            true => first.source + start.saturating_sub(first.view),
            false => first.source,
        };
        let to = match last.is_copied() {
            true => last.source + (end - last.view).min(last.view_len),
            false => last.source + last.source_len,
        };
        // An address stands below its line but before its words: the range then covers both.
        let (from, to) = match from < to {
            true => (from, to),
            false => (last.source, first.source + first.source_len),
        };
        match &self.below {
            Some(below) => below.locate(from, to),
            None => Some((from, to)),
        }
    }
}

/// A value that is shown as it is given: its references read, its tags gone.
pub fn plain(text: String) -> String {
    match View::of(&text) {
        Some(view) if view.says_something() => view.text.trim().to_string(),
        _ => text,
    }
}

struct Reader<'a> {
    source: &'a str,
    /// Navigation and the like are left out.
    strict: bool,
    /// A tag that is written with references is shown as code: its reader sees a tag.
    shows_tags: bool,
    /// Everything in angle brackets is a tag: the text declares itself to be XML.
    declared: bool,
    out: View,
    /// Lower-cased names by whether, and where last, they are closed.
    closed: BTreeMap<String, Option<usize>>,
    /// Lower-cased names by whether something of that name begins anywhere.
    opened: BTreeMap<String, bool>,
    /// What must stand before the next character of text.
    pending: Break,
    lists: Vec<Option<u32>>,
    quotes: usize,
    row: Option<Row>,
    /// The address of the link under way, and where its words begin in the view.
    link: Option<(usize, usize, usize)>,
    /// Addresses of the line under way, as ranges of the source.
    addresses: Vec<(usize, usize)>,
    known_addresses: BTreeSet<&'a str>,
    /// Whether anything is closed anywhere: then `<p>` is no mention of an element.
    is_page: Option<bool>,
    /// No section of character data ends from here on.
    no_data_end: bool,
    /// The open elements without visible text of their own, outermost first.
    invisible: Vec<Invisible>,
}

/// An element whose text is not visible, though that of an element in it may be.
#[derive(Debug, Clone, Copy)]
struct Invisible {
    /// Where what can be seen at this place ends.
    shown_end: usize,
    end: usize,
}

/// A row of a table under way.
#[derive(Debug, Default)]
struct Row {
    start: usize,
    breaks: Vec<usize>,
    cells: usize,
    /// Every cell so far is a heading.
    heads: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Break {
    #[default]
    Nothing,
    Cell,
    Line,
    Block,
    /// A block that begins with a marker: `- `, `# `.
    Marked(String),
}

impl<'a> Reader<'a> {
    fn new(source: &'a str, strict: bool) -> Self {
        let head = source.trim_start();
        let declared = ["<?xml", "<rss", "<feed"].iter().any(|mark| head.starts_with(mark));
        Reader {
            source,
            strict,
            shows_tags: false,
            declared,
            out: View::default(),
            closed: BTreeMap::new(),
            opened: BTreeMap::new(),
            pending: Break::Nothing,
            lists: Vec::new(),
            quotes: 0,
            row: None,
            link: None,
            addresses: Vec::new(),
            known_addresses: BTreeSet::new(),
            is_page: None,
            no_data_end: false,
            invisible: Vec::new(),
        }
    }

    fn read(mut self) -> View {
        let bytes = self.source.as_bytes();
        let (mut at, mut from) = (0, 0);
        while at < bytes.len() {
            if let Some(next) = self.next_visible(at) {
                self.copy(from, at);
                (at, from) = (next, next);
                continue;
            }
            let next = match bytes[at] {
                b'<' => self.tag(from, at),
                b'&' => self.reference(from, at),
                b'`' => {
                    at = self.code_end(at);
                    continue;
                }
                _ => {
                    at += 1;
                    continue;
                }
            };
            match next {
                Some(next) => (at, from) = (next, next),
                None => at += 1,
            }
        }
        self.copy(from, bytes.len());
        self.flush_addresses();
        self.out
    }

    /// Past the closing backticks on the same line, or past a fence; past the mark alone without a closing one.
    fn code_end(&self, at: usize) -> usize {
        let rest = &self.source[at..];
        let marks = rest.bytes().take_while(|&byte| byte == b'`').count();
        let body = &rest[marks..];
        let line_start = self.source[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let fence = marks >= 3 && self.source[line_start..at].trim().is_empty();
        let limit = match fence {
            true => body,
            false => prefix(body, CODE_BYTES_MAX).lines().next().unwrap_or_default(),
        };
        match limit.find(&rest[..marks]) {
            Some(end) => at + marks + end + marks,
            None if fence => self.source.len(),
            None => at + marks,
        }
    }

    /// The place after the tag at `at`, if a tag begins there.
    fn tag(&mut self, from: usize, at: usize) -> Option<usize> {
        let rest = &self.source[at..];
        if let Some(after) = not_shown(rest) {
            self.copy(from, at);
            return Some(at + after);
        }
        if let Some(body) = rest.strip_prefix("<![CDATA[").filter(|_| !self.no_data_end) {
            let Some(end) = body.find("]]>") else {
                self.no_data_end = true;
                return None;
            };
            self.copy(from, at);
            let start = at + rest.len() - body.len();
            self.copy(start, start + end);
            return Some(start + end + 3);
        }
        let tag = Tag::read(rest)?;
        if !self.is_markup(&tag, at) {
            return None;
        }
        self.copy(from, at);
        if tag.closes && !self.declared && self.is_mention(&tag, at) {
            self.settle();
            self.push(&format!("`{}>`", tag.text), at, tag.bytes);
            return Some(at + tag.bytes);
        }
        let element = match elements::element(&tag.name) {
            Element::Inline | Element::Hidden | Element::Navigation | Element::Control
                if self.declared =>
            {
                Element::Block
            }
            element => element,
        };
        let end = at + tag.bytes;
        if tag.closes {
            self.close(element, &tag);
            return Some(end);
        }
        if element == Element::Hidden || (element == Element::Navigation && self.strict) {
            self.breaks(Break::Block);
            return Some(self.skip(&tag, end).unwrap_or(end));
        }
        let sight = if self.declared { Sight::default() } else { tag.sight(&rest[..tag.bytes]) };
        if sight.hides() && !elements::is_void(&tag.name) && !tag.text.ends_with('/') {
            self.breaks(Break::Line);
            let hidden_end = self.element_end(&tag, end);
            if !sight.is_gone && self.invisible.len() < INVISIBLE_MAX {
                self.invisible.push(Invisible { shown_end: end, end: hidden_end });
                return Some(end);
            }
            return Some(hidden_end);
        }
        self.open(element, &tag, at);
        Some(end)
    }

    /// Whether what looks like a tag is one.
    fn is_markup(&mut self, tag: &Tag<'_>, at: usize) -> bool {
        if self.declared {
            return true;
        }
        if !elements::is_known(&tag.name) {
            return false;
        }
        if tag.closes || elements::stands_alone(&tag.name) {
            return true;
        }
        let attributes = tag.has_attributes();
        if (attributes && tag.name.len() > 1) || tag.attribute("href").is_some() {
            return true;
        }
        if elements::is_void(&tag.name) {
            return attributes;
        }
        // `<p>`, `<li>` and the like are often not closed at all.
        if elements::may_stay_open(&tag.name) {
            let source = self.source;
            return *self.is_page.get_or_insert_with(|| {
                elements::has_closing_tag(source) || source.contains("<br")
            });
        }
        self.is_closed(&tag.name, at)
    }

    /// Whether an end tag stands among words, as `the </div> element` does, and nothing of its name begins anywhere.
    fn is_mention(&mut self, tag: &Tag<'_>, at: usize) -> bool {
        let before = self.source[..at].rsplit('\n').next().unwrap_or_default();
        let behind = self.source[at + tag.bytes..].split('\n').next().unwrap_or_default();
        let is_among_words = before.ends_with(' ')
            && before.contains(char::is_alphanumeric)
            && behind
                .trim_start()
                .starts_with(|c: char| c.is_alphanumeric() || ".,;:!?)".contains(c));
        if !is_among_words {
            return false;
        }
        if !self.opened.contains_key(&tag.name) {
            let is_opened = elements::has_opening_tag(self.source, &tag.name);
            self.opened.insert(tag.name.clone(), is_opened);
        }
        !self.opened[&tag.name]
    }

    /// Whether an end tag of this name stands behind a place.
    fn is_closed(&mut self, name: &str, at: usize) -> bool {
        if !self.closed.contains_key(name) {
            let last = elements::last_closing(self.source, name);
            self.closed.insert(name.to_owned(), last);
        }
        self.closed[name].is_some_and(|last| last > at)
    }

    /// Where the text goes on that can be seen, in an element without visible text of its own: at the next element in
    /// it that is visible, or at its end. `None` where the text at this place is seen.
    fn next_visible(&mut self, at: usize) -> Option<usize> {
        let Invisible { shown_end, end } = self.invisible.pop_if(|one| one.shown_end <= at)?;
        let source = self.source;
        let mut from = at;
        while let Some(next) = source[from..end.max(from)].find('<').map(|next| from + next) {
            let tag = Tag::read(&source[next..]).filter(|tag| !tag.closes);
            let is_visible =
                |tag: &Tag<'_>| tag.sight(&source[next..next + tag.bytes]).visible == Some(true);
            if let Some(tag) = tag.filter(is_visible) {
                let shown_end = self.element_end(&tag, next + tag.bytes).min(end);
                self.invisible.push(Invisible { shown_end, end });
                self.breaks(Break::Line);
                return Some(next);
            }
            from = next + 1;
        }
        Some(end.max(shown_end)).filter(|end| *end > at)
    }

    /// The end of an element that no browser shows, past the elements of its name inside it. Without an end
    /// tag it is its paragraph. Without an end tag for one inside it, it is all the rest; only a paragraph or
    /// an item ends where the next one begins.
    fn element_end(&mut self, tag: &Tag<'_>, from: usize) -> usize {
        let source = self.source;
        let paragraph = |end: usize| source[from..end].find("\n\n").map_or(end, |at| from + at);
        if !self.is_closed(&tag.name, from) {
            return paragraph(source.len());
        }
        let stays_open =
            matches!(&*tag.name, "p" | "li" | "dt" | "dd" | "tr" | "td" | "th" | "option");
        let mut open = 1;
        let mut at = from;
        while let Some(next) = source[at..].find('<').map(|next| at + next) {
            let Some(inner) = Tag::read(&source[next..]).filter(|inner| inner.name == tag.name)
            else {
                at = next + 1;
                continue;
            };
            at = next + inner.bytes;
            match inner.closes {
                true => open -= 1,
                false if stays_open => return paragraph(next),
                false => open += usize::from(!inner.text.ends_with('/')),
            }
            if open == 0 {
                return at;
            }
        }
        source.len()
    }

    /// Past the end tag of an element that is not shown; one without an end hides nothing.
    fn skip(&self, tag: &Tag<'_>, from: usize) -> Option<usize> {
        if tag.text.ends_with('/') {
            return None;
        }
        let (name, rest) = (tag.name.as_str(), &self.source[from..]);
        for (at, _) in rest.match_indices("</") {
            let body = &rest[at + 2..];
            let same = body.get(..name.len()).is_some_and(|said| said.eq_ignore_ascii_case(name));
            if same && !body[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()) {
                let end = body.find('>').map_or(body.len(), |end| end + 1);
                return Some(from + at + 2 + end);
            }
        }
        None
    }

    fn open(&mut self, element: Element, tag: &Tag<'_>, at: usize) {
        match element {
            Element::Inline | Element::Hidden => {}
            Element::Navigation | Element::Control => self.breaks(Break::Line),
            Element::Break => self.breaks(Break::Line),
            Element::Block => self.breaks(Break::Block),
            Element::Heading(level) => self.breaks(Break::Marked("#".repeat(level) + " ")),
            Element::List => {
                self.lists.push(tag.name.eq("ol").then_some(0));
                self.breaks(Break::Line);
            }
            Element::Item => {
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{number}. ")
                    }
                    _ => "- ".to_string(),
                };
                self.breaks(Break::Marked(marker));
            }
            Element::Quotation => {
                self.breaks(Break::Block);
                self.quotes += 1;
            }
            Element::Preformatted => self.breaks(Break::Marked(format!("{FENCE}\n"))),
            Element::Row => {
                self.end_row();
                self.breaks(Break::Line);
                self.row = Some(Row { start: usize::MAX, ..Row::default() });
            }
            Element::Cell => match &mut self.row {
                Some(row) => {
                    row.heads = tag.name == "th" && (row.cells == 0 || row.heads);
                    row.cells += 1;
                    if row.cells > 1 {
                        self.breaks(Break::Cell);
                    }
                }
                None => self.breaks(Break::Line),
            },
            Element::Anchor => {
                let href = tag.attribute("href").map(|(start, end)| (at + start, at + end));
                self.link = href.map(|(start, end)| (start, end, self.out.text.len()));
            }
        }
    }

    fn close(&mut self, element: Element, tag: &Tag<'_>) {
        match element {
            Element::Inline | Element::Hidden => {}
            Element::Navigation | Element::Control => self.breaks(Break::Line),
            Element::Break => self.breaks(Break::Line),
            Element::Block => self.breaks(Break::Block),
            Element::Heading(_) => self.ends(Break::Block),
            Element::List => {
                self.lists.pop();
                self.ends(Break::Block);
            }
            Element::Item => self.ends(Break::Line),
            Element::Quotation => {
                self.ends(Break::Block);
                self.quotes = self.quotes.saturating_sub(1);
            }
            Element::Preformatted => {
                if !matches!(self.pending, Break::Marked(_)) {
                    self.out.text.push('\n');
                    self.out.text.push_str(FENCE);
                }
                self.ends(Break::Block);
            }
            Element::Row => {
                self.end_row();
                self.breaks(Break::Line);
            }
            Element::Cell => {}
            Element::Anchor => self.end_link(),
        }
        if tag.name == "table" {
            self.end_row();
            self.breaks(Break::Block);
        }
    }

    /// A break after something that may have been empty: a marker nothing came behind is forgotten.
    fn ends(&mut self, wanted: Break) {
        if matches!(self.pending, Break::Marked(_)) {
            self.pending = Break::Block;
        }
        self.breaks(wanted);
    }

    /// A break wanted before the next text; the stronger of two stays.
    fn breaks(&mut self, wanted: Break) {
        self.pending = std::mem::take(&mut self.pending).max(wanted);
    }

    /// Text of the source, unchanged; white space after a break is dropped.
    fn copy(&mut self, from: usize, to: usize) {
        let mut start = from;
        if self.pending != Break::Nothing || self.out.text.is_empty() {
            let text = &self.source[from..to];
            start += text.len() - text.trim_start().len();
        }
        if start >= to {
            return;
        }
        self.settle();
        let source = self.source;
        if self.quotes == 0 {
            return self.push(&source[start..to], start, to - start);
        }
        for line in source[start..to].split_inclusive('\n') {
            self.push(line, start, line.len());
            start += line.len();
            if line.ends_with('\n') {
                self.out.text.push_str("> ");
            }
        }
    }

    fn push(&mut self, text: &str, source: usize, source_len: usize) {
        let (view, view_len) = (self.out.text.len(), text.len());
        self.out.text.push_str(text);
        match self.out.stretches.last_mut() {
            Some(last)
                if last.is_copied()
                    && view_len == source_len
                    && last.view + last.view_len == view
                    && last.source + last.source_len == source =>
            {
                last.view_len += view_len;
                last.source_len += source_len;
            }
            _ if view_len == 0 => {}
            _ => self.out.stretches.push(ViewStretch { view, view_len, source, source_len }),
        }
    }

    /// A character reference as its character.
    fn reference(&mut self, from: usize, at: usize) -> Option<usize> {
        if self.shows_tags
            && let Some((tag, bytes)) = shown_tag(&self.source[at..])
        {
            self.copy(from, at);
            self.settle();
            // It is longer in the source, so that it counts as no copy.
            self.push(&format!("`{tag}`"), at, bytes);
            return Some(at + bytes);
        }
        let (character, bytes) = entities::read_closed(&self.source[at..])?;
        self.copy(from, at);
        let blank = character.is_whitespace();
        let opens = self.pending != Break::Nothing || self.out.text.is_empty();
        if !(blank && opens) {
            self.settle();
            // The plain space: words on both sides of a no-break space are words.
            let character = if character == '\u{a0}' { ' ' } else { character };
            // A reference is longer than its character. So the lengths show that this span is not a copy of
            // the source.
            self.push(character.encode_utf8(&mut [0; 4]), at, bytes);
        }
        Some(at + bytes)
    }

    /// Writes the break that is due.
    fn settle(&mut self) {
        let due = std::mem::take(&mut self.pending);
        if due == Break::Nothing {
            return self.begin_row();
        }
        if due != Break::Cell {
            let kept = self.out.text.trim_end_matches([' ', '\t']).len();
            self.cut(kept);
            self.flush_addresses();
        }
        let first = self.out.text.is_empty();
        match &due {
            Break::Nothing => {}
            Break::Cell => {
                if let Some(row) = self.row.as_mut().filter(|row| row.start != usize::MAX) {
                    row.breaks.push(self.out.text.len());
                    self.out.text.push_str(CELL_BREAK);
                }
            }
            _ if first => {}
            // Two spaces before the end of a line: the line is not a wrapped one.
            Break::Line => self.out.text.push_str("  \n"),
            Break::Block => self.out.text.push_str("\n\n"),
            Break::Marked(marker) if marker.starts_with('#') => self.out.text.push_str("\n\n"),
            Break::Marked(_) => self.out.text.push('\n'),
        }
        if due != Break::Cell && self.quotes > 0 {
            self.out.text.push_str("> ");
        }
        if let Break::Marked(marker) = &due {
            self.out.text.push_str(marker);
        }
        self.begin_row();
    }

    fn begin_row(&mut self) {
        let here = self.out.text.len();
        if let Some(row) = self.row.as_mut().filter(|row| row.start == usize::MAX) {
            row.start = here;
        }
    }

    /// Takes white space off the end of the view.
    fn cut(&mut self, kept: usize) {
        self.out.text.truncate(kept);
        while let Some(last) = self.out.stretches.last_mut() {
            if last.view >= kept {
                self.out.stretches.pop();
                continue;
            }
            if last.is_copied() && last.view + last.view_len > kept {
                last.view_len = kept - last.view;
                last.source_len = last.view_len;
            }
            break;
        }
    }

    /// A short row is one line; its breaks were written as wide as what joins its cells.
    fn end_row(&mut self) {
        let Some(row) = self.row.take().filter(|row| !row.breaks.is_empty()) else { return };
        let said = &self.out.text[row.start..];
        let inside = said.matches('\n').count() != row.breaks.len();
        if inside || said.len() > ROW_BYTES_MAX {
            return;
        }
        let first = &self.out.text[row.start..row.breaks[0]];
        let label = row.breaks.len() == 1
            && !row.heads
            && first.len() <= LABEL_BYTES_MAX
            && first.trim_end().chars().all(|c| c.is_alphanumeric() || " -/()'’".contains(c));
        let joins = if label { CELL_LABEL } else { CELL_JOIN };
        for &at in &row.breaks {
            self.out.text.replace_range(at..at + CELL_BREAK.len(), joins);
        }
        if row.heads {
            self.name_columns(row.start);
        }
    }

    /// A row of nothing but headings names the columns, and is written as such.
    fn name_columns(&mut self, start: usize) {
        const OPENS: &str = "| ";
        self.out.text.insert_str(start, OPENS);
        let later = self.out.stretches.iter_mut().rev().take_while(|stretch| stretch.view >= start);
        later.for_each(|stretch| stretch.view += OPENS.len());
        self.out.text.push_str(" |\n|---|");
    }

    fn end_link(&mut self) {
        let Some((start, end, said_from)) = self.link.take() else { return };
        let source = self.source;
        let address = &source[start..end];
        let said = self.out.text.get(said_from..).unwrap_or_default();
        let bare = address.strip_prefix("mailto:").unwrap_or(address);
        let leads = ["http://", "https://", "mailto:"].iter().any(|scheme| {
            address.get(..scheme.len()).is_some_and(|said| said.eq_ignore_ascii_case(scheme))
        });
        let fits = address.len() <= LINK_BYTES_MAX && !address.contains(char::is_whitespace);
        if leads && fits && !said.contains(bare) && self.known_addresses.insert(address) {
            self.addresses.push((end - bare.len(), end));
        }
    }

    /// Where the links of the line lead, a line each below it.
    fn flush_addresses(&mut self) {
        let source = self.source;
        for (start, end) in std::mem::take(&mut self.addresses) {
            self.out.text.push_str("  \n");
            let mut from = start;
            for (at, _) in source[start..end].match_indices('&') {
                let at = start + at;
                let Some((character, bytes)) = entities::read_closed(&source[at..end]) else {
                    continue;
                };
                self.push(&source[from..at], from, at - from);
                self.push(character.encode_utf8(&mut [0; 4]), at, bytes);
                from = at + bytes;
            }
            self.push(&source[from..end], from, end - from);
        }
    }
}

/// A tag of HTML that is written with references, as its reader sees it, and its bytes: `&lt;b&gt;`.
fn shown_tag(rest: &str) -> Option<(String, usize)> {
    let (begin, end) = ("&lt;", "&gt;");
    let inner = prefix(rest.strip_prefix(begin)?, SHOWN_TAG_BYTES_MAX);
    let inner = &inner[..inner.find(end)?];
    let tag = format!("<{inner}>");
    let read = Tag::read(&tag).filter(|read| read.bytes == tag.len())?;
    let is_tag = elements::is_known(&read.name) && !inner.contains(['`', '&', '\n']);
    is_tag.then_some(())?;
    Some((tag, begin.len() + inner.len() + end.len()))
}

/// Bytes of a comment, a declaration or a processing instruction.
fn not_shown(rest: &str) -> Option<usize> {
    if let Some(body) = rest.strip_prefix("<!--") {
        return Some(body.find("-->").map_or(rest.len(), |end| end + 7));
    }
    let starts =
        |mark: &str| rest.get(..mark.len()).is_some_and(|said| said.eq_ignore_ascii_case(mark));
    if ["<!doctype", "<![if", "<![endif", "<?xml"].iter().any(|mark| starts(mark)) {
        return prefix(rest, TAG_BYTES_MAX).find('>').map(|end| end + 1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_of(source: &str) -> String {
        View::of(source).map_or_else(|| source.to_string(), |view| view.text)
    }

    #[test]
    fn what_a_browser_hides_is_no_text_of_any_source() {
        let note = "# Plan\n\nThe roof costs 900 EUR.\n\n<!-- one -->\n\n<div hidden>two <div>three</div>\n\n\
                    four</div>\n\n<p style=\"color: red; DISPLAY : none !important\">five</p>\n\n<span \
                    class=\"x\" hidden=\"\">six</span>\n\n<p hidden>seven\n\nThe end is shown.\n\n<p \
                    style='display: block'>This too.</p>\n";
        let plain = plain_of(note);
        for word in ["one", "two", "three", "four", "five", "six", "seven", "hidden", "div"] {
            assert!(!plain.contains(word), "{word}: {plain}");
        }
        for word in ["# Plan", "900 EUR", "The end is shown.", "This too."] {
            assert!(plain.contains(word), "{word}: {plain}");
        }
        let example = "Write `<div hidden>x</div>`, or <br hidden> and a < b.";
        assert!(plain_of(example).contains("<div hidden>x</div>"));
        let many = "<div hidden>".repeat(40_000) + "</div>";
        assert!(!plain_of(&many).contains("div"));
    }

    #[test]
    fn what_is_visible_in_an_invisible_element_is_text_and_size_hides_nothing() {
        let mail = "<div style='visibility:hidden'>one <p style='visibility: visible'>The roof \
                    <b>leaks</b>.</p> two <b>three</b><p style='visibility:visible'>It rains.</p>four</div>\
                    <table style='font-size:0'><tr><td style='font-size:14px'>The pump runs.</td></tr></table>";
        assert_eq!(plain_of(mail), "The roof leaks.\n\nIt rains.\n\nThe pump runs.");
        let gone =
            "<div style='display:none'><p style='visibility:visible'>one</p></div><p>two</p>";
        assert_eq!(plain_of(gone), "two");
        let deep = "<i style='visibility:hidden'><b style='visibility:visible'>".repeat(20_000);
        assert_eq!(plain_of(&format!("{deep}</b></i>")).trim(), "");
    }

    #[test]
    fn text_that_is_no_markup_stays_unchanged() {
        for text in [
            "nothing to see",
            "a < b and b > c, x<y>z",
            "Vec<String>, Map<K, V>, std::vector<std::string>, #include <stdio.h>",
            "cp <source> <target>; see <https://x.example> or <a@x.example>",
            "if (a<b && b>c) { p<i> = q<s>; }",
            "Use `<br>` and `&nbsp;` to break a line.",
            "```\n<p>kept &amp; quoted</p>\n```",
            "AT&T; R&D & more &c. &unknown; &;",
            "i <3 you",
            "<",
            "&",
            "<b",
            "an open <b> nobody closes",
        ] {
            assert_eq!(plain_of(text), text);
        }
    }

    #[test]
    fn blocks_items_rows_and_references_read_as_they_look() {
        assert_eq!(
            plain_of("<p>Fish &amp; chips&nbsp;&ndash; <b>daily</b></p><p>Closed<br>on Monday</p>"),
            "Fish & chips – daily\n\nClosed  \non Monday"
        );
        assert_eq!(
            plain_of("<h2>Wanted</h2><ul>\n<li> Java</li>\n<li>SQL</ul>done"),
            "## Wanted\n- Java\n- SQL\n\ndone"
        );
        assert_eq!(
            plain_of(
                "<table><tr><td>Salary</td><td>60k</td></tr><tr><td>a</td><td>b</td><td>c</td></tr></table>"
            ),
            "Salary:  60k  \na | b | c"
        );
        assert_eq!(plain_of("&#8220;x&#x201D; &euro;5"), "“x” €5");
        assert_eq!(plain_of("<blockquote>old</blockquote>new"), "> old\n\nnew");
    }

    #[test]
    fn text_that_a_browser_hides_is_left_out() {
        let page = "<html><head><style>p{a:b}</style><script>if (a<b) {\"</p>\"}</script></head>\
<body><nav><a href=\"/\">Home</a></nav><!-- <p>draft</p> --><p>Text</p><script>x()</script></body></html>";
        assert_eq!(plain_of(page), "Text");
        assert_eq!(
            plain_of("<nav>Home</nav>"),
            "Home",
            "a page with only such elements is not empty"
        );
        assert_eq!(plain_of("<script>alone"), "<script>alone", "a script without an end is shown");
    }

    #[test]
    fn escaped_pages_are_read_twice_and_links_keep_their_address() {
        assert_eq!(plain_of("&lt;p&gt;Ana &amp;amp; Bo&lt;/p&gt;"), "Ana & Bo");
        assert_eq!(plain_of("if a &lt; b"), "if a < b");
        assert_eq!(
            plain_of("Use &lt;b&gt; and &lt;/b&gt; for bold."),
            "Use `<b>` and `</b>` for bold."
        );
        assert_eq!(
            plain_of("The </div> and the <meta> element."),
            "The `</div>` and the <meta> element."
        );
        assert_eq!(plain_of("end of a part.</p>\n<p>Next</p>"), "end of a part.\n\nNext");
        assert_eq!(
            plain_of("<p>See <a href='https://x.example/?a=1&amp;b=2'>here</a>.</p><p>End</p>"),
            "See here.  \nhttps://x.example/?a=1&b=2\n\nEnd"
        );
    }

    #[test]
    fn every_stretch_is_found_in_the_source() {
        for source in [
            "<div>Caf&eacute; <b>Sol</b>,&nbsp;<i>9&nbsp;pm</i></div>\n<p>a &lt; b</p>",
            "&lt;p&gt;Caf&amp;eacute; Sol&lt;/p&gt; more &lt;b&gt;words&lt;/b&gt;",
            "<p>x</p><a href=\"https://a.example/?q=&quot;1&quot;\">y</a> <br> z",
        ] {
            let view = View::of(source).expect("markup");
            let starts: Vec<usize> =
                view.text.char_indices().map(|(at, _)| at).chain([view.text.len()]).collect();
            for (index, &start) in starts.iter().enumerate() {
                for &end in &starts[index + 1..] {
                    let Some((from, to)) = view.locate(start, end) else { continue };
                    let said = &source[from..to];
                    let word = view.text[start..end].trim();
                    assert!(from < to, "{source}: {word}");
                    if word.chars().all(|c| c.is_ascii_alphabetic()) && !word.is_empty() {
                        assert!(said.contains(word), "{source}: {word} in {said}");
                    }
                }
            }
        }
        let source = "<p>one <b>two</b> three</p>";
        let view = View::of(source).expect("markup");
        let (from, to) = view.locate(0, view.text.len()).expect("a place");
        assert_eq!(&source[from..to], "one <b>two</b> three");
    }

    #[test]
    fn broken_markup_ends() {
        for source in [
            "<p",
            "<p <p <p",
            "</",
            "</p",
            "<!--",
            "<![CDATA[",
            "<a href=",
            "<a href='x",
            "&#;",
            "&#x110000;",
            "&#99999999999;",
            "<td><tr></td>",
            "<ol><li>a<ol><li>b",
        ] {
            let _ = plain_of(source);
            let _ = plain_of(&source.repeat(300));
        }
    }
}
