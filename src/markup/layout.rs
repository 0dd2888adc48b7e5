//! Text laid out in blocks: paragraphs, headings, list items, quotes, table rows, code.
//!
//! A reader of markup calls the methods in document order. White space between words becomes one
//! space. Breaks are only noted; they are written before the next word, and of several the
//! strongest counts. So text never begins or ends with a break, and empty elements leave no trace.
//! Inside code only text counts: a block in code changes nothing.

/// What must stand before the next word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Break {
    #[default]
    None,
    Space,
    Line,
    Paragraph,
}

#[derive(Debug, Default)]
pub(super) struct Layout {
    out: String,
    due: Break,
    /// The level of a heading that has no word yet.
    heading: Option<usize>,
    /// The marker of a list item that has no word yet.
    item: Option<String>,
    /// Marks of emphasis that have no word yet.
    emphasis: String,
    quotes: usize,
    /// Open tables, outermost first, each with its row under way.
    tables: Vec<Option<Row>>,
    code: Option<Code>,
}

/// A row of a table. It is one line as long as each of its cells is.
#[derive(Debug, Default)]
struct Row {
    cells: usize,
    /// Tabs due before the next word.
    tabs: usize,
    has_words: bool,
    cell_has_words: bool,
    /// A cell has more than one line: the cells that follow begin on lines of their own.
    is_broken: bool,
}

/// Text whose lines are kept.
#[derive(Debug)]
struct Code {
    fence: usize,
    /// White space before the first word.
    lead: String,
    is_open: bool,
}

/// White space between words. A no-break space joins words for a typesetter, not for a reader.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}' | '\u{a0}')
}

/// Characters that are never seen: the soft hyphen and the zero-width space.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}')
}

/// How many backticks a fence has: three, or one more than the longest run of them in the source.
pub(super) fn fence_for(source: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for byte in source.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    3.max(longest + 1)
}

impl Layout {
    /// Whether nothing is written so far.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Running text.
    pub(super) fn text(&mut self, text: &str) {
        if self.code.is_some() {
            return self.code_text(text);
        }
        let mut first = true;
        for word in text.split(is_blank) {
            if !first {
                self.breaks(Break::Space);
            }
            first = false;
            if word.contains(is_invisible) {
                self.word(&word.replace(is_invisible, ""));
            } else {
                self.word(word);
            }
        }
    }

    fn word(&mut self, word: &str) {
        if !word.is_empty() {
            self.settle();
            self.out.push_str(word);
        }
    }

    /// Text that belongs to the last word, whatever break was noted after it.
    pub(super) fn attach(&mut self, text: &str) {
        if self.out.is_empty() {
            return self.text(text);
        }
        self.out.push_str(text);
    }

    /// Marks the words up to [`Layout::end_emphasis`].
    pub(super) fn emphasis(&mut self, mark: &str) {
        self.emphasis.push_str(mark);
    }

    pub(super) fn end_emphasis(&mut self, mark: &str) {
        match self.emphasis.strip_suffix(mark).map(str::len) {
            // No word came between.
            Some(left) => self.emphasis.truncate(left),
            None => self.attach(mark),
        }
    }

    /// Text whose line ends are kept.
    pub(super) fn lines(&mut self, text: &str) {
        self.settle();
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.new_line();
            }
            self.out.push_str(line);
        }
    }

    /// A break before the next word.
    pub(super) fn breaks(&mut self, wanted: Break) {
        if self.code.is_some() {
            return;
        }
        // A cell begins behind its tab, whatever block opens it.
        let opens_cell = self.row().is_some_and(|row| !row.is_broken && !row.cell_has_words);
        if !opens_cell {
            self.due = self.due.max(wanted);
        }
    }

    pub(super) fn heading(&mut self, level: usize) {
        if self.code.is_some() {
            return;
        }
        self.breaks(Break::Paragraph);
        self.heading = Some(level);
    }

    pub(super) fn end_heading(&mut self) {
        if self.code.is_some() {
            return;
        }
        self.heading = None;
        self.breaks(Break::Paragraph);
    }

    /// An item of a list; `depth` lists are open around the list it belongs to.
    pub(super) fn item(&mut self, depth: usize, marker: &str) {
        if self.code.is_some() {
            return;
        }
        self.breaks(Break::Line);
        self.item = Some(format!("{}{marker} ", "  ".repeat(depth)));
    }

    pub(super) fn end_item(&mut self) {
        if self.code.is_some() {
            return;
        }
        self.item = None;
        self.breaks(Break::Line);
    }

    pub(super) fn quote(&mut self) {
        if self.code.is_some() {
            return;
        }
        self.breaks(Break::Paragraph);
        self.quotes += 1;
    }

    pub(super) fn end_quote(&mut self) {
        if self.code.is_some() {
            return;
        }
        self.breaks(Break::Paragraph);
        self.quotes = self.quotes.saturating_sub(1);
    }

    pub(super) fn table(&mut self) {
        if self.code.is_some() {
            return;
        }
        if let Some(row) = self.row() {
            (row.is_broken, row.tabs) = (true, 0);
        }
        self.breaks(Break::Paragraph);
        self.tables.push(None);
    }

    pub(super) fn end_table(&mut self) {
        if self.code.is_some() {
            return;
        }
        self.tables.pop();
        self.breaks(Break::Paragraph);
    }

    pub(super) fn begin_row(&mut self) {
        if self.code.is_some() {
            return;
        }
        self.end_row();
        if let Some(row) = self.tables.last_mut() {
            *row = Some(Row::default());
        }
    }

    pub(super) fn end_row(&mut self) {
        if self.code.is_some() {
            return;
        }
        if let Some(row) = self.tables.last_mut() {
            *row = None;
        }
        self.breaks(Break::Line);
    }

    /// The next cell. Outside a row it begins a line.
    pub(super) fn cell(&mut self) {
        if self.code.is_some() {
            return;
        }
        let Some(row) = self.row() else { return self.breaks(Break::Line) };
        row.cells += 1;
        row.cell_has_words = false;
        if row.is_broken {
            return self.breaks(Break::Line);
        }
        row.tabs += usize::from(row.cells > 1);
        if row.has_words {
            self.due = Break::None;
        }
    }

    /// Text whose lines are kept, between fences of so many backticks.
    pub(super) fn code(&mut self, fence: usize) {
        if let Some(row) = self.row() {
            (row.is_broken, row.tabs) = (true, 0);
        }
        self.breaks(Break::Paragraph);
        self.code = Some(Code { fence, lead: String::new(), is_open: false });
    }

    pub(super) fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        if code.is_open {
            self.out.truncate(self.out.trim_end().len());
            // An empty line in a quote holds its marks.
            let empty = format!("\n{}", "> ".repeat(self.quotes));
            while self.quotes > 0 && self.out.ends_with(empty.trim_end_matches(' ')) {
                self.out.truncate(self.out.len() - empty.len() + 1);
                self.out.truncate(self.out.trim_end().len());
            }
            self.new_line();
            self.fence(code.fence);
        }
        self.breaks(Break::Paragraph);
    }

    fn code_text(&mut self, text: &str) {
        let Some(mut code) = self.code.take() else { return };
        if !code.is_open {
            code.lead.push_str(text);
            if !code.lead.chars().all(is_blank) {
                let lead = std::mem::take(&mut code.lead);
                self.settle();
                self.fence(code.fence);
                self.new_line();
                self.code_lines(lead.strip_prefix('\n').unwrap_or(&lead));
                code.is_open = true;
            }
        } else {
            self.code_lines(text);
        }
        self.code = Some(code);
    }

    fn code_lines(&mut self, text: &str) {
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.new_line();
            }
            self.out.extend(line.chars().map(|c| if c == '\u{a0}' { ' ' } else { c }));
        }
    }

    fn fence(&mut self, width: usize) {
        self.out.extend(std::iter::repeat_n('`', width));
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.open_quotes();
    }

    fn open_quotes(&mut self) {
        self.out.extend(std::iter::repeat_n("> ", self.quotes));
    }

    fn row(&mut self) -> Option<&mut Row> {
        self.tables.last_mut()?.as_mut()
    }

    /// Writes what is due before a word.
    fn settle(&mut self) {
        let due = std::mem::take(&mut self.due);
        let mut tabs = 0;
        if let Some(row) = self.row().filter(|row| !row.is_broken) {
            if row.cell_has_words {
                row.is_broken = due >= Break::Line;
            } else {
                tabs = std::mem::take(&mut row.tabs);
                (row.cell_has_words, row.has_words) = (true, true);
            }
        }
        let begins_line = self.out.is_empty() || due >= Break::Line;
        match due {
            Break::Space if !self.out.is_empty() => self.out.push(' '),
            Break::Line if !self.out.is_empty() => self.out.push('\n'),
            Break::Paragraph if !self.out.is_empty() => self.out.push_str("\n\n"),
            _ => {}
        }
        if begins_line {
            self.open_quotes();
        }
        self.out.extend(std::iter::repeat_n('\t', tabs));
        if let Some(marker) = self.item.take() {
            self.out.push_str(&marker);
        }
        if let Some(level) = self.heading.take().filter(|_| begins_line) {
            self.out.extend(std::iter::repeat_n('#', level));
            self.out.push(' ');
        }
        self.out.push_str(&std::mem::take(&mut self.emphasis));
    }
}
