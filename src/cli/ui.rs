//! The printer: stdout is data, stderr is talk. A value that is passed down, never a global.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use parking_lot::Mutex;
use serde::Serialize;

use super::plain::{Style, columns, ends_line, fitted, plain_line, width, without_styles, written};
use crate::contract::shown::{escaped, named};
use crate::model::Listener;
use crate::model::thoughts;

/// Most bytes of an answer that are kept for a line of the terminal.
const LIVE_BYTES: usize = 2_000;
/// Bytes of a token of an answer, as a person counts roughly.
const BYTES_PER_TOKEN: usize = 4;
/// Columns that the line needs beside the words.
const LIVE_MARGIN: usize = 8;

/// How a command speaks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ui {
    /// Data as JSON: one object, or JSON lines where a list can be long.
    pub json: bool,
    /// No talk but errors.
    pub quiet: bool,
    /// Says all of what is else only counted.
    pub verbose: bool,
}

impl Ui {
    /// One line of data, wrapped on a terminal. A reader that has gone away ends the program quietly.
    pub(crate) fn out(&self, line: impl AsRef<str>) {
        let line = match columns_of_stdout() {
            Some(columns) => Cow::Owned(fitted(line.as_ref(), columns)),
            None => Cow::Borrowed(line.as_ref()),
        };
        let line = written(&line);
        let mut stdout = anstream::stdout().lock();
        let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
        end_if_reader_is_gone(written);
    }

    /// Data without a line end added.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        end_if_reader_is_gone(written);
    }

    /// One JSON value on one line.
    pub(crate) fn json<T: Serialize + ?Sized>(&self, value: &T) {
        match serde_json::to_string(value) {
            Ok(text) => self.raw(format!("{}\n", escaped(&text)).as_bytes()),
            Err(error) => self.talk(format!("cannot show this as JSON: {error}")),
        }
    }

    /// One line of talk, unless quiet.
    pub(crate) fn talk(&self, line: impl AsRef<str>) {
        if !self.quiet {
            self.complain(line);
        }
    }

    /// One line of talk that even quiet does not silence.
    pub(crate) fn complain(&self, line: impl AsRef<str>) {
        match self.json {
            // Nothing reads it on a terminal.
            true => say(&without_styles(line.as_ref())),
            false => say(&written(&fitted_to_stderr(line.as_ref()))),
        }
    }

    /// One value of talk as JSON. Escapes keep what would steer a terminal.
    pub(crate) fn complain_json(&self, value: &serde_json::Value) {
        say(&escaped(&value.to_string()));
    }

    /// A table with aligned columns and a dim header. The last columns say least: a narrow terminal leaves them out.
    pub(crate) fn table(&self, header: &[&str], rows: &[Vec<String>]) {
        self.table_of_known(header, rows, &|_| true);
    }

    /// A table in which the ids that `is_known` names may be shortened: a command finds them by their beginnings.
    pub(crate) fn table_of_known(
        &self,
        header: &[&str],
        rows: &[Vec<String>],
        is_known: &dyn Fn(&str) -> bool,
    ) {
        self.print_table(Table::new(header, rows, None), is_known);
    }

    /// A table with a column of text, of which no word is cut: it goes on below.
    pub(crate) fn table_with_text(&self, header: &[&str], rows: &[Vec<String>], text: &str) {
        self.print_table(Table::new(header, rows, Some(text)), &|_| true);
    }

    fn print_table(&self, mut table: Table, is_known: &dyn Fn(&str) -> bool) {
        let columns = columns_of_stdout();
        let widths = match columns {
            Some(columns) => table.fitted(columns, is_known),
            None => table.widths(),
        };
        match columns.filter(|columns| widths.len() > 1 && total(&widths) > *columns) {
            Some(columns) => self.print_below_each_other(table, columns),
            None => self.print_rows(&table, &widths),
        }
    }

    fn print_rows(&self, table: &Table, widths: &[usize]) {
        let kept = widths.len();
        let text = table.text.as_deref();
        let text = text.and_then(|name| table.header[..kept].iter().position(|one| one == name));
        self.out(dim(&layout(&table.header[..kept], widths)));
        for row in &table.rows {
            let lines = lines_of(&row[..kept.min(row.len())], widths, text);
            lines.iter().for_each(|line| self.out(layout(line, widths)));
        }
        self.tell_left_out(table, kept);
    }

    /// A table whose first column leaves no room for the others: they stand below it.
    fn print_below_each_other(&self, mut table: Table, columns: usize) {
        const INDENT: &str = "  ";
        let firsts: Vec<String> = table.rows.iter().map(|row| row[0].clone()).collect();
        let first = table.header[0].clone();
        table.remove(0);
        let widths = table.fitted(columns - INDENT.len(), &|_| false);
        let below = |cells: &[String]| format!("{INDENT}{}", layout(cells, &widths));
        let kept = widths.len();
        self.out(dim(&first));
        self.out(dim(&below(&table.header[..kept])));
        for (first, row) in firsts.iter().zip(&table.rows) {
            self.out(first);
            self.out(below(&row[..kept.min(row.len())]));
        }
        self.tell_left_out(&table, kept);
    }

    /// What a table does not show in its rows.
    fn tell_left_out(&self, table: &Table, kept: usize) {
        if !table.said.is_empty() {
            self.talk(dim(&format!("in all rows: {}", table.said.join(", "))));
        }
        let left_out = &table.header[kept..];
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            self.talk(dim(&format!(
                "no room for {names}: a wider terminal or `--json` shows more"
            )));
        }
    }

    /// A progress bar with count, rate and ETA; invisible when stderr is no terminal.
    pub(crate) fn progress(&self, what: &str, total: u64) -> ProgressBar {
        let visible = !self.quiet && !self.json && io::stderr().is_terminal();
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = "{msg:>14} {wide_bar} {human_pos}/{human_len} {rate} {eta}";
        if let Some(style) = bar_style(style) {
            bar.set_style(style);
        }
        bar.set_message(Cow::Owned(what.to_owned()));
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

/// The style of a bar, in which `{rate}` is how many a second, and `{eta}` the time left.
pub(super) fn bar_style(template: &str) -> Option<ProgressStyle> {
    let style = ProgressStyle::with_template(template).ok()?;
    // The bar has no place for an error.
    let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = out.write_str(&rate(state.per_sec()));
    });
    Some(style.with_key("eta", |state: &ProgressState, out: &mut dyn fmt::Write| {
        // Nobody knows before something is done.
        let _ = match state.pos() {
            0 => out.write_str("?"),
            _ => write!(out, "{:#}", HumanDuration(state.eta())),
        };
    }))
}

/// How many a second, as a person reads it.
fn rate(per_second: f64) -> String {
    match per_second < 10.0 {
        true => format!("{per_second:.1}/s"),
        false => format!("{per_second:.0}/s"),
    }
}

/// The answers of a model on a terminal while they arrive, in one line: the last words of a text, and of
/// anything else how much there is of it. A pipe and a file get only the finished answer.
pub(super) struct LiveAnswer {
    pub bar: ProgressBar,
    /// What was heard of each node.
    heard: Mutex<BTreeMap<String, HeardAnswer>>,
}

/// What was heard of one answer.
#[derive(Debug, Default)]
struct HeardAnswer {
    /// The newest part of its text.
    text: String,
    bytes: usize,
    form: AnswerForm,
}

/// What an answer is, as far as its beginning says it.
#[derive(Debug, Default, PartialEq)]
enum AnswerForm {
    #[default]
    Unknown,
    Text,
    Data,
    Thoughts,
}

impl HeardAnswer {
    /// What the line shows after a further part; `None` while that is unknown.
    fn hear(&mut self, node: &str, is_data: bool, text: &str) -> Option<String> {
        self.bytes += text.len();
        self.text.extend(named(text).chars().map(|c| if c.is_control() { ' ' } else { c }));
        if self.form == AnswerForm::Thoughts
            && let Some(said) = thoughts::after(&format!("<think>{}", self.text))
            && !said.is_empty()
        {
            (self.text, self.form) = (said.to_owned(), AnswerForm::Unknown);
        }
        if self.form == AnswerForm::Unknown {
            self.form = form_of(&self.text, is_data);
        }
        let start = self.text.len().saturating_sub(LIVE_BYTES);
        let start = (start..=self.text.len()).find(|at| self.text.is_char_boundary(*at));
        self.text.drain(..start.unwrap_or(0));
        let tokens = self.bytes.div_ceil(BYTES_PER_TOKEN);
        match self.form {
            AnswerForm::Unknown => None,
            AnswerForm::Text => Some(self.text.clone()),
            AnswerForm::Data => Some(format!("{node}: about {}", count(tokens, "token"))),
            AnswerForm::Thoughts => {
                Some(format!("{node} is thinking: about {}", count(tokens, "token")))
            }
        }
    }
}

/// What an answer with this beginning is.
fn form_of(text: &str, is_data: bool) -> AnswerForm {
    const DATA: [&str; 5] = ["{", "[{", "[\"", "[ ", "```json"];
    const THOUGHTS: &str = "<think>";
    let text = text.trim_start();
    match text {
        _ if is_data => AnswerForm::Data,
        _ if text.starts_with(THOUGHTS) => AnswerForm::Thoughts,
        _ if DATA.iter().any(|begin| text.starts_with(begin)) => AnswerForm::Data,
        _ if DATA.iter().chain(&[THOUGHTS]).any(|begin| begin.starts_with(text)) => {
            AnswerForm::Unknown
        }
        _ => AnswerForm::Text,
    }
}

impl LiveAnswer {
    pub(super) fn new(ui: &Ui) -> LiveAnswer {
        let bar = ui.progress("asking", 0);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        LiveAnswer { bar, heard: Mutex::default() }
    }
}

impl Listener for LiveAnswer {
    fn heard(&self, text: &str) -> bool {
        self.heard_of("", false, text)
    }

    fn heard_of(&self, node: &str, is_data: bool, text: &str) -> bool {
        if self.bar.is_hidden() {
            return true;
        }
        let mut heard = self.heard.lock();
        let answer = heard.entry(node.to_owned()).or_default();
        let Some(line) = answer.hear(node, is_data, text) else { return true };
        let columns = terminal_size::terminal_size().map_or(80, |(width, _)| width.0);
        let room = usize::from(columns).saturating_sub(LIVE_MARGIN);
        let mut shown = line.as_str();
        while width(shown) > room {
            let mut rest = shown.chars();
            rest.next();
            shown = rest.as_str();
        }
        self.bar.set_message(shown.to_owned());
        true
    }
}

/// A text as standard error has room for it.
pub(super) fn fitted_to_stderr(text: &str) -> Cow<'_, str> {
    match columns(&io::stderr()) {
        Some(columns) => Cow::Owned(fitted(text, columns)),
        None => Cow::Borrowed(text),
    }
}

/// One line on standard error, with the codes of colours that it has.
pub(super) fn say(line: &str) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Log lines on standard error. The codes of colours are those of the logger, which escapes the codes
/// of texts; other characters that steer are shown as escapes.
#[derive(Debug, Default)]
pub(super) struct LogLines;

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let parts: Vec<Cow<'_, str>> = text.split('\u{1b}').map(escaped).collect();
        io::stderr().write_all(parts.join("\u{1b}").as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The help on standard output. Usage lines and examples are not wrapped before.
pub(super) fn say_to_stdout(text: &str) {
    let text = match columns_of_stdout() {
        Some(columns) => format!("{}\n", fitted(text, columns)),
        None => text.to_owned(),
    };
    let mut stdout = anstream::stdout().lock();
    let written = write!(stdout, "{text}").and_then(|()| stdout.flush());
    end_if_reader_is_gone(written);
}

/// The columns of the terminal on standard output. A pipe gets whole cells.
fn columns_of_stdout() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size()?;
    io::stdout().is_terminal().then_some(usize::from(width.0))
}

/// The columns of a row.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// A table before it is printed.
struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// What all rows have alike, said below the table.
    said: Vec<String>,
    /// The column of text that goes on below where it is too narrow.
    text: Option<String>,
}

impl Table {
    fn new(header: &[&str], rows: &[Vec<String>], text: Option<&str>) -> Table {
        Table {
            header: header.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: one_line_each(rows),
            said: Vec::new(),
            text: text.map(str::to_owned),
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| width(cell)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell));
            }
        }
        widths
    }

    /// Widths of columns that a terminal has room for. What says least goes first: columns without a word, the ends
    /// of ids, and columns that have one word for all rows.
    fn fitted(&mut self, columns: usize, is_known: &dyn Fn(&str) -> bool) -> Vec<usize> {
        let fits = |table: &Table| total(&table.widths()) <= columns;
        if !fits(self) {
            self.leave_out_empty();
        }
        if !fits(self) {
            shorten_ids(&mut self.rows, is_known);
        }
        while !fits(self) && self.leave_out_alike() {}
        let mut widths = self.widths();
        let fixed: Vec<bool> = (0..widths.len()).map(|at| at == 0 || self.is_copied(at)).collect();
        fit(&mut widths, fixed, columns);
        widths
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| row.get(column)).map(String::as_str)
    }

    /// Whether a column has ids or times, which are of no use in part.
    fn is_copied(&self, column: usize) -> bool {
        let mut cells = self.cells(column).filter(|cell| says_something(cell)).peekable();
        let is_copied = |cell: &str| beginning_of_id(cell).is_some() || is_short(cell);
        cells.peek().is_some() && cells.all(is_copied)
    }

    fn leave_out_empty(&mut self) {
        for column in (1..self.header.len()).rev() {
            if !self.rows.is_empty() && !self.cells(column).any(says_something) {
                self.remove(column);
            }
        }
    }

    /// Leaves out the last column that has the same word in all rows. False where there is none.
    fn leave_out_alike(&mut self) -> bool {
        if self.rows.len() < ALIKE_ROWS {
            return false;
        }
        let alike = (1..self.header.len()).rev().find_map(|column| {
            let mut cells = self.cells(column);
            let first = cells.next()?.to_owned();
            let is_word = width(&first) <= ALIKE_COLUMNS;
            (is_word && cells.all(|cell| cell == first)).then_some((column, first))
        });
        let Some((column, word)) = alike else { return false };
        self.said.push(format!("{} {word}", self.header[column]));
        self.remove(column);
        true
    }

    fn remove(&mut self, column: usize) {
        self.header.remove(column);
        for row in self.rows.iter_mut().filter(|row| row.len() > column) {
            row.remove(column);
        }
    }
}

/// Rows from which on it is worth a line to say what all of them have alike.
const ALIKE_ROWS: usize = 3;
/// A longer text is no word that a line could say.
const ALIKE_COLUMNS: usize = 44;

fn says_something(cell: &str) -> bool {
    !matches!(cell.trim(), "" | "-")
}

/// Whether a cell is the beginning of an id as tables show it, or a time with its minutes.
fn is_short(cell: &str) -> bool {
    let digits = ID_KINDS.into_iter().find_map(|kind| cell.strip_prefix(kind));
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_id = |text: &str| text.len() == ID_DIGITS && is_hex(text);
    let is_time = |text: &str| {
        let signs = |c: u8| if c.is_ascii_digit() { b'0' } else { c };
        text.bytes().map(signs).eq(*b"0000-00-00 00:00")
    };
    is_id(digits.unwrap_or(cell)) || is_time(cell)
}

/// Leaves the beginnings of ids that commands take as names: a person reads the other columns. A beginning that
/// two rows share stays whole.
fn shorten_ids(rows: &mut [Vec<String>], is_known: &dyn Fn(&str) -> bool) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    for column in 0..columns {
        let ids: BTreeSet<String> =
            rows.iter().filter_map(|row| row.get(column)).cloned().collect();
        for row in rows.iter_mut() {
            let Some(cell) = row.get_mut(column) else { continue };
            let Some(short) = beginning_of_id(cell) else { continue };
            let begun = ids.range(short.to_owned()..).take_while(|id| id.starts_with(short));
            if begun.count() == 1 && is_known(cell) {
                *cell = short.to_owned();
            }
        }
    }
}

/// How ids of summaries, tasks and bags begin.
const ID_KINDS: [&str; 3] = ["sum_", "task_", "bag_"];
/// Digits of an id that name it in a table.
const ID_DIGITS: usize = 8;

/// The beginning of the id of a request, a summary, a task or a bag that is enough to name it.
pub(super) fn beginning_of_id(cell: &str) -> Option<&str> {
    let plain = ID_KINDS.into_iter().find_map(|kind| cell.strip_prefix(kind));
    let digits = plain.unwrap_or(cell);
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_id = match plain {
        Some(digits) => digits.len() >= 2 * ID_DIGITS && is_hex(digits),
        None => {
            digits.len() == 36
                && digits.split('-').map(str::len).eq([8, 4, 4, 4, 12])
                && digits.split('-').all(is_hex)
        }
    };
    let kept = cell.len() - digits.len() + ID_DIGITS;
    is_id.then(|| &cell[..kept])
}

/// Narrows columns until a row fits: the widest first, and never a fixed one, which people copy. The last
/// of the others go when they would be too narrow to read.
fn fit(widths: &mut Vec<usize>, mut fixed: Vec<bool>, columns: usize) {
    const NARROWEST: usize = 14;
    let least = |widths: &[usize], fixed: &[bool]| -> usize {
        let each = widths.iter().zip(fixed);
        let each = each.map(|(width, fixed)| if *fixed { *width } else { (*width).min(NARROWEST) });
        total(&each.collect::<Vec<usize>>())
    };
    while widths.len() > 2 && least(widths, &fixed) > columns {
        widths.pop();
        fixed.pop();
    }
    while total(widths) > columns {
        let narrowed = widths.iter_mut().zip(&fixed).filter(|(_, fixed)| !**fixed);
        let widest = narrowed.map(|(width, _)| width).max();
        let Some(widest) = widest.filter(|one| **one > NARROWEST) else { return };
        *widest -= 1;
    }
}

fn end_if_reader_is_gone(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
}

/// The rows without line ends in their cells: one row is one line.
fn one_line_each(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let flat = |cell: &String| match cell.contains(|c| matches!(c, '\n' | '\r') || ends_line(c)) {
        true => plain_line(cell),
        false => cell.clone(),
    };
    rows.iter().map(|row| row.iter().map(flat).collect()).collect()
}

/// Whether a cell is a path, whose end tells most.
fn is_path(cell: &str) -> bool {
    cell.contains('/') && !cell.contains(char::is_whitespace) && !cell.contains("://")
}

/// The lines of a row: one, and more where a text goes on.
fn lines_of(cells: &[String], widths: &[usize], text: Option<usize>) -> Vec<Vec<String>> {
    let Some(at) = text.filter(|at| width(&cells[*at]) > widths[*at]) else {
        return vec![cells.to_vec()];
    };
    let parts = super::plain::wrapped(&cells[at], widths[at], "", "");
    let empty = vec![String::new(); cells.len()];
    let lines = parts.into_iter().enumerate().map(|(line, part)| {
        let mut row = if line == 0 { cells.to_vec() } else { empty.clone() };
        row[at] = part;
        row.truncate(if line == 0 { cells.len() } else { at + 1 });
        row
    });
    lines.collect()
}

fn layout(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let most = widths.get(index).copied().unwrap_or(usize::MAX);
        let short = (width(cell) > most).then(|| match is_path(cell) {
            true => super::plain::end_of(cell, most),
            false => super::plain::shortened(cell, most),
        });
        let cell = short.as_ref().unwrap_or(cell);
        line.push_str(cell);
        if index + 1 < cells.len() {
            let pad = widths.get(index).copied().unwrap_or(0).saturating_sub(width(cell)) + 2;
            line.extend(std::iter::repeat_n(' ', pad));
        }
    }
    line
}

/// A count with its noun, which gets an `s` unless there is one of it.
pub fn count(many: impl TryInto<u64>, noun: &str) -> String {
    let many = many.try_into().unwrap_or(u64::MAX);
    let consonant = |c: char| !"aeiou".contains(c);
    match noun.strip_suffix('y').filter(|stem| stem.ends_with(consonant)) {
        _ if many == 1 => format!("1 {noun}"),
        Some(stem) => format!("{many} {stem}ies"),
        None if noun.ends_with("ch") || noun.ends_with('s') => format!("{many} {noun}es"),
        None => format!("{many} {noun}s"),
    }
}

/// The same for a number of an answer.
pub fn told(many: &serde_json::Value, noun: &str) -> String {
    count(many.as_u64().unwrap_or(0), noun)
}

/// Bold text, where colours are wanted.
pub(crate) fn bold(text: &str) -> String {
    Style::Bold.of(text)
}

/// Dim text, where colours are wanted.
pub(crate) fn dim(text: &str) -> String {
    Style::Dim.of(text)
}

/// Green text, where colours are wanted.
pub(crate) fn green(text: &str) -> String {
    Style::Green.of(text)
}

/// Red text, where colours are wanted.
pub fn red(text: &str) -> String {
    Style::Red.of(text)
}

/// Yellow text, where colours are wanted.
pub(crate) fn yellow(text: &str) -> String {
    Style::Yellow.of(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_no_more_digits_than_a_person_reads() {
        assert_eq!([rate(0.0), rate(3.0779), rate(212.4133)], ["0.0/s", "3.1/s", "212/s"]);
    }

    #[test]
    fn a_line_shows_the_words_of_a_text_and_how_much_there_is_of_anything_else() {
        let shown = |is_data: bool, parts: &[&str]| {
            let mut answer = HeardAnswer::default();
            parts.iter().map(|part| answer.hear("ask", is_data, part)).last().flatten()
        };
        let told = |line: &str| Some(line.to_owned());
        assert_eq!(shown(false, &["It", " is\n", "so."]), told("It is so."));
        assert_eq!(shown(false, &["{\"summary\": \"It", " is so\"}"]), told("ask: about 6 tokens"));
        assert_eq!(shown(false, &["\n``", "`json\n{}"]), told("ask: about 3 tokens"));
        assert_eq!(shown(false, &["[", "{"]), told("ask: about 1 token"));
        assert_eq!(shown(false, &["[1", "] says"]), told("[1] says"));
        assert_eq!(shown(false, &["["]), None, "nothing says yet what it is");
        assert_eq!(shown(true, &["Sure: {\"a"]), told("ask: about 3 tokens"));
        let thinks = ["<th", "ink>Hm, ", "well", ".</thi"];
        assert_eq!(shown(false, &thinks), told("ask is thinking: about 6 tokens"));
        let says = [&thinks[..], &["nk>\n\n", "It is."]].concat();
        assert_eq!(shown(false, &says), told("It is."));
        let long = "word ".repeat(LIVE_BYTES);
        assert!(shown(false, &[&long, "end"]).is_some_and(|line| line.ends_with("word end")));
    }

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!(count(1_u64, "event"), "1 event");
        assert_eq!(count(0_usize, "event"), "0 events");
        assert_eq!(count(2_u32, "batch"), "2 batches");
    }

    #[test]
    fn one_row_of_a_table_is_one_line() {
        let rows =
            one_line_each(&[vec!["r-1".to_owned(), "no\r\n model\u{85}at all\n".to_owned()]]);
        assert_eq!(layout(&rows[0], &[3, 20]), "r-1  no model at all");
    }

    #[test]
    fn ids_are_shortened_to_what_names_them() {
        let row = |id: &str| vec!["a b".to_owned(), id.to_owned()];
        let mut rows = [
            "67b4df7a-5bad-480b-bfbe-6c872c42ae8b",
            "sum_68ebf7272bbc5fdd4449243474170ebb",
            "task_3f62f2b2ca32d2af",
            "task_3f62f2b2ca32d2b0",
            "doc_68ebf7272bbc5fdd4449243474170ebb",
            "q1",
        ]
        .map(row);
        shorten_ids(&mut rows, &|_| true);
        let shown: Vec<&str> = rows.iter().map(|row| row[1].as_str()).collect();
        let whole = ["task_3f62f2b2ca32d2af", "task_3f62f2b2ca32d2b0"];
        assert_eq!(shown[..2], ["67b4df7a", "sum_68ebf727"]);
        assert_eq!(shown[2..4], whole, "a beginning that two have names neither");
        assert_eq!(shown[4..], ["doc_68ebf7272bbc5fdd4449243474170ebb", "q1"]);
        assert_eq!(layout(&["notes/2026/roof.md".to_owned()], &[10]), "…6/roof.md");
    }

    #[test]
    fn a_table_fits_the_terminal_and_keeps_its_first_column() {
        let first = |columns: usize| (0..columns).map(|column| column == 0).collect::<Vec<bool>>();
        let mut widths = vec![36, 9, 33, 24];
        fit(&mut widths, first(4), 80);
        assert_eq!(widths[0], 36);
        assert!(widths.iter().sum::<usize>() + 6 <= 80, "{widths:?}");
        let mut widths = vec![36, 9, 33, 24, 24, 24];
        fit(&mut widths, first(6), 80);
        assert_eq!(widths.len(), 4, "the last columns go");
        let row = ["id".to_owned(), "a long value here".to_owned()];
        assert_eq!(layout(&row, &[2, 8]), "id  a long…");
    }

    /// A person reads what differs; an id or a time that is cut is of no use.
    #[test]
    fn a_narrow_table_leaves_out_what_says_nothing_and_cuts_no_id() {
        let table = |rows: &[[&str; 5]]| Table {
            header: ["DUE", "TASK", "SOURCE", "ID", "STATE"].map(str::to_owned).to_vec(),
            rows: rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect(),
            said: Vec::new(),
            text: None,
        };
        let long = "Send the signed copy of the lease to the office before noon";
        let row = |id| ["2026-02-11 09:30", long, "-", id, "open"];
        let ids = ["task_394c11ea6a747aaa", "task_394c11ea6a747bbb", "task_5f62f2b2ca32d2af"];
        for (columns, whole) in [(80, vec!["DUE", "TASK", "ID"]), (50, vec!["DUE", "TASK"])] {
            let mut table = table(&ids.map(row));
            let widths = table.fitted(columns, &|_| true);
            assert!(total(&widths) <= columns, "{widths:?}");
            let shown: Vec<&str> =
                table.header[..widths.len()].iter().map(String::as_str).collect();
            assert_eq!((shown, &table.said[..]), (whole, &["STATE open".to_owned()][..]));
        }
        let mut table = table(&ids.map(row));
        let widths = table.fitted(80, &|id| id != ids[2]);
        assert_eq!(
            widths[2],
            ids[2].len(),
            "an id that no command finds by its beginning stays whole"
        );
        let short = ["394c11ea", "task_394c11ea", "2026-02-11 09:30"];
        assert!(short.iter().all(|cell| is_short(cell)));
        assert!(!["394c11e", "2026-02-11", "words"].iter().any(|cell| is_short(cell)));
    }

    /// A task is of no use in part.
    #[test]
    fn a_column_of_text_goes_on_below() {
        let row = ["2026-02-11", "Send the signed copy of the lease", "task_394c11ea"];
        let rows = lines_of(&row.map(str::to_owned), &[10, 15, 13], Some(1));
        let lines: Vec<String> = rows.iter().map(|row| layout(row, &[10, 15, 13])).collect();
        assert_eq!(
            lines,
            [
                "2026-02-11  Send the signed  task_394c11ea",
                "            copy of the",
                "            lease",
            ]
        );
        assert_eq!(lines_of(&row.map(str::to_owned), &[10, 40, 13], Some(1)).len(), 1);
    }

    #[test]
    fn colours_do_not_widen_a_cell() {
        assert_eq!(width(&bold("abc")), 3);
        assert_eq!(layout(&[bold("a"), "b".into()], &[3, 1]), format!("{}    b", bold("a")));
    }
}
