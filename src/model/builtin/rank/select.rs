//! Picks sentences under a budget without saying the same thing twice, and joins them with their spans.
//!
//! Greedy: the next sentence is the one whose score, less its likeness to what is already picked, is
//! highest and that still fits. New words and new numbers count more than those that a picked one has. The
//! picked ones are put back into reading order. The first always
//! fits: it is cut at a word if the budget is smaller than it.

use std::collections::HashSet;
use std::ops::Range;

use super::super::text::blocks::Kind;
use super::super::text::finished::{is_struck, says_done};
use super::super::text::hash::Fast;
use super::super::text::inline;
use super::super::text::tables::{self, Record, Row};
use super::super::text::{Text, lines, manuals};
use super::antecedents::{Leaning, corrected_by, leaning};
use super::{Matrix, quality};

/// Weight of likeness to what is already picked.
const REDUNDANCY: f64 = 0.5;
/// Part of the weight of a sentence that says nothing new.
const NEWS_LEAST: f64 = 0.05;
/// Factor of a sentence that says what is not so: a limit, an exception, a refusal.
const DENIED: f64 = 1.3;
/// What the square root of the count of new numbers adds to the weight of a sentence, and how many count.
const NEW_FIGURES: f64 = 0.5;
const FIGURES_MAX: usize = 3;
/// Sentences considered for each one picked.
const CANDIDATES_PER_PICK: usize = 12;
/// Likeness above which a sentence is a repetition and never picked.
const REPETITION: f64 = 0.72;

/// Longest heading before an item that stands under it.
const HEADING_BYTES_MAX: usize = 60;
/// What stands between the name of a column and a cell, and behind the name of a speaker.
const COLON: &str = ": ";

/// How long the result may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub sentences: usize,
    pub bytes: usize,
}

/// Indexes of the picked sentences, in reading order. `allowed` limits what may be picked.
pub fn pick(
    text: &Text<'_>,
    matrix: &Matrix,
    scores: &[f64],
    allowed: &[usize],
    budget: Budget,
) -> Vec<usize> {
    let mut order: Vec<usize> = allowed.to_vec();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order.truncate(budget.sentences.saturating_mul(CANDIDATES_PER_PICK).max(40));
    let mut likeness = vec![0.0_f64; order.len()];
    let mut picked: Vec<usize> = Vec::new();
    let weights = weights(text, &order, budget.sentences == 1);
    let in_sentence = |at: &usize| figures(text.sentence(*at));
    let figures: Vec<Vec<&str>> = match budget.sentences {
        1 => vec![Vec::new(); order.len()],
        _ => order.iter().map(in_sentence).collect(),
    };
    let mut shown = Shown::default();
    let mut bytes = 0;
    let is_allowed: HashSet<usize, Fast> = allowed.iter().copied().collect();
    while picked.len() < budget.sentences {
        let room = budget.bytes.saturating_sub(bytes);
        let fits = |at: &usize| picked.is_empty() || length(text, order[*at]) < room;
        let worth = |at: usize| {
            let like = 1.0 - REDUNDANCY * likeness[at];
            scores[order[at]]
                * weights[at]
                * like
                * shown.news(matrix, order[at])
                * shown.figures(&figures[at])
        };
        let best = (0..order.len())
            .filter(|&at| likeness[at] < REPETITION)
            .filter(fits)
            .map(|at| (at, worth(at)))
            .max_by(|(a, x), (b, y)| x.total_cmp(y).then(order[*b].cmp(&order[*a])))
            .map(|(at, _)| at);
        let Some(best) = best else { break };
        let sentence = order[best];
        // A sentence that leans on others is shown with them, or not at all.
        let is_shown = |at: usize| picked.contains(&at);
        let missing = match leaning(text, sentence, |at| is_allowed.contains(&at), is_shown) {
            Leaning::Free => Some(Vec::new()),
            Leaning::On(before) => {
                let needed: usize = before.iter().map(|at| length(text, *at) + 1).sum();
                let fits = picked.len() + before.len() < budget.sentences
                    && needed + length(text, sentence) < room;
                fits.then_some(before)
            }
            Leaning::Deep => None,
        };
        let Some(missing) = missing else {
            likeness[best] = 1.0;
            continue;
        };
        for one in missing.into_iter().chain([sentence]) {
            bytes += length(text, one) + 1;
            picked.push(one);
            shown.add(matrix, text, one);
            for (at, &other) in order.iter().enumerate() {
                likeness[at] =
                    if other == one { 1.0 } else { likeness[at].max(matrix.cosine(one, other)) };
            }
        }
    }
    // Where every sentence leans on more than there is room for, the best one stands alone.
    if picked.is_empty() && budget.sentences > 0 {
        let is_right = |at: &&usize| corrected_by(text, **at).is_none();
        picked.extend(order.iter().find(is_right).or(order.first()));
    }
    picked.sort_unstable();
    picked
}

/// Factors of sentences beside their scores. One that stands alone says what the text is about: it stands at the
/// beginning, and limits and numbers count no more than other words.
fn weights(text: &Text<'_>, sentences: &[usize], is_single: bool) -> Vec<f64> {
    if is_single {
        let lead = text.leads.get_or_init(|| quality::lead(text));
        return sentences.iter().map(|at| 1.0 + lead[*at]).collect();
    }
    let denies = |at: &usize| quality::denies(text, *at);
    sentences.iter().map(|at| if denies(at) { DENIED } else { 1.0 }).collect()
}

/// What the picked sentences say already.
#[derive(Default)]
struct Shown<'t> {
    terms: HashSet<u32, Fast>,
    figures: HashSet<&'t str, Fast>,
}

impl<'t> Shown<'t> {
    fn add(&mut self, matrix: &Matrix, text: &'t Text<'_>, sentence: usize) {
        self.terms.extend(matrix.row(sentence).map(|(term, _)| term));
        self.figures.extend(figures(text.sentence(sentence)));
    }

    /// Factor of a sentence by the weight of its words that nothing shown has.
    fn news(&self, matrix: &Matrix, sentence: usize) -> f64 {
        let row = matrix.row(sentence).filter(|(term, _)| !self.terms.contains(term));
        let fresh: f64 = row.map(|(_, weight)| weight * weight).sum();
        (NEWS_LEAST + fresh).sqrt()
    }

    /// Factor of a sentence by its numbers that nothing shown has: amounts, days, times.
    #[allow(clippy::cast_precision_loss, reason = "a few numbers")]
    fn figures(&self, figures: &[&str]) -> f64 {
        let fresh = figures.iter().filter(|one| !self.figures.contains(*one)).count();
        1.0 + NEW_FIGURES * (fresh.min(FIGURES_MAX) as f64).sqrt()
    }
}

/// The numbers of two signs or more in a sentence.
fn figures(said: &str) -> Vec<&str> {
    let is_sign = |c: char| matches!(c, '.' | ',' | ':');
    let numbers = said.split(|c: char| !(c.is_ascii_digit() || is_sign(c)));
    numbers.map(|one| one.trim_matches(is_sign)).filter(|one| one.len() > 1).collect()
}

fn length(text: &Text<'_>, sentence: usize) -> usize {
    let speaker = text.assistant_of(sentence).map_or(0, |name| name.len() + COLON.len());
    let heading = text.heading_of_done(sentence).or_else(|| text.heading_that_tells(sentence));
    let heading = heading.map_or(0, |heading| {
        (text.sentences[heading].end - text.sentences[heading].start).min(HEADING_BYTES_MAX)
    });
    let release = text.release_of(sentence).and_then(|release| release.name.clone());
    let release = release.map_or(0, |name| name.len().min(HEADING_BYTES_MAX));
    inline::visible_bytes(text.sentence(sentence)) + speaker + heading + release
}

/// A text built from pieces of sources: which bytes of it come from where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quoted {
    pub text: String,
    /// The borrowed stretches, in order.
    pub pieces: Vec<QuotedRange>,
}

/// One borrowed stretch. White space inside may differ: a run of it in the source is one space here. So may
/// marks of Markdown, which the source has and the built text has not: see [`inline::unmarked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotedRange {
    /// First byte in the built text.
    pub(crate) output_start: usize,
    /// One past the last byte there.
    pub(crate) output_end: usize,
    /// Index of the part it comes from.
    pub part: usize,
    /// First byte in the part.
    pub start: usize,
    /// One past the last byte in the part.
    pub end: usize,
}

impl Quoted {
    /// Text that comes from no source.
    pub fn plain(text: impl Into<String>) -> Self {
        Quoted { text: text.into(), pieces: Vec::new() }
    }

    /// A byte range of a part, white space as single spaces, at most `bytes` long.
    pub fn range(text: &Text<'_>, part: usize, start: usize, end: usize, bytes: usize) -> Self {
        let mut quoted = Quoted::default();
        quoted.push_range(text, part, start, end, bytes);
        quoted
    }

    pub(crate) fn push_plain(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub fn push(&mut self, other: &Quoted) {
        let shift = self.text.len();
        self.text.push_str(&other.text);
        self.pieces.extend(other.pieces.iter().map(|piece| QuotedRange {
            output_start: piece.output_start + shift,
            output_end: piece.output_end + shift,
            ..*piece
        }));
    }

    /// Appends the name of the program that says a sentence, if one does.
    pub(crate) fn push_assistant(&mut self, text: &Text<'_>, sentence: usize) {
        if let Some(name) = text.assistant_of(sentence) {
            self.text.push_str(name);
            self.text.push_str(COLON);
        }
    }

    /// Appends a byte range of a part; a cut is marked by an ellipsis of ours.
    pub(crate) fn push_range(
        &mut self,
        text: &Text<'_>,
        part: usize,
        start: usize,
        end: usize,
        bytes: usize,
    ) {
        let whole = &text.parts[part].text[start..end];
        let shown = inline::shown(whole, bytes);
        let (start, kept) = (start + shown.start, &whole[shown.clone()]);
        let output_start = self.text.len();
        let mut space = false;
        for character in
            inline::without_marks(kept).into_iter().flat_map(|words| kept[words].chars())
        {
            let blank = matches!(character, ' ' | '\n' | '\t' | '\r');
            if !(blank && space) {
                self.text.push(if blank { ' ' } else { character });
            }
            space = blank;
        }
        if self.text.len() > output_start {
            self.pieces.push(QuotedRange {
                output_start,
                output_end: self.text.len(),
                part,
                start,
                end: start + kept.len(),
            });
        }
        if shown.end < whole.len() {
            self.text.push('…');
        }
    }

    /// Appends a whole sentence after a space, ended by a full stop if it ends in nothing.
    pub(crate) fn push_sentence(&mut self, text: &Text<'_>, index: usize, bytes: usize) {
        let row = tables::row(text, index);
        if row.as_ref().is_some_and(|row| row.cells.iter().all(Range::is_empty)) {
            return;
        }
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.push_assistant(text, index);
        let sentence = &text.sentences[index];
        if let Some(row) = row {
            return self.push_row(text, index, &row, bytes);
        }
        if let Some(record) = tables::record(text, index) {
            return self.push_record(text, index, &record, bytes);
        }
        let is_named = self.push_release(text, index);
        // What is done must not read as something to do.
        let before = &text.parts[sentence.part].text[..sentence.start];
        let said = &text.parts[sentence.part].text[sentence.start..sentence.end];
        let start = match lines::box_before(before) {
            Some(true) => {
                if !says_done(said) || is_struck(said) {
                    self.text.push_str(text.language.done());
                    self.text.push_str(COLON);
                }
                sentence.start
            }
            Some(false) => {
                self.text.push_str(text.language.to_do());
                self.text.push_str(COLON);
                sentence.start
            }
            None => {
                let telling = || {
                    text.heading_that_tells(index)
                        .filter(|heading| !self.stands_below(text, *heading))
                };
                if let Some(heading) = text.heading_of_done(index).or_else(telling) {
                    let heading = &text.sentences[heading];
                    let words = &text.parts[heading.part].text[heading.start..heading.end];
                    let end = heading.start + words.trim_end_matches([':', ' ', '*']).len();
                    let begin = self.text.len();
                    self.push_range(text, heading.part, heading.start, end, HEADING_BYTES_MAX);
                    self.text.push_str(COLON);
                    if is_named {
                        self.text.replace_range(begin - COLON.len()..begin, ", ");
                    }
                }
                sentence.start
            }
        };
        let begin = self.text.len();
        let label = manuals::option_label(said).filter(|_| start == sentence.start);
        let start = match label {
            Some(label) => {
                self.push_range(text, sentence.part, start, start + label.end, bytes);
                self.push_plain(COLON);
                start + label.end + said[label.end..].len() - said[label.end..].trim_start().len()
            }
            None => start,
        };
        self.push_range(text, sentence.part, start, sentence.end, bytes);
        if start == sentence.start && follows_greeting(text, index) {
            self.capitalize(begin);
        }
        if lacks_stop(&self.text) {
            self.text.push('.');
        }
    }

    /// Appends the name of the version that a sentence is about, where no sentence of that version is shown yet.
    fn push_release(&mut self, text: &Text<'_>, index: usize) -> bool {
        let part = text.sentences[index].part;
        let Some(release) = text.release_of(index) else { return false };
        let first = text.blocks[release.blocks.start].text.start;
        let end = text.blocks[release.blocks.end - 1].text.end;
        let is_shown =
            |piece: &QuotedRange| piece.part == part && (first..end).contains(&piece.start);
        let is_heading = release.blocks.start == text.sentences[index].block;
        let Some(name) = release.name.clone().filter(|_| !is_heading) else { return false };
        // Several entries may be of one day.
        let source = text.parts[part].text;
        let is_same = |piece: &QuotedRange| {
            piece.part == part && source[piece.start..piece.end] == source[name.clone()]
        };
        if self.pieces.iter().any(|piece| is_shown(piece) || is_same(piece)) {
            return false;
        }
        self.push_range(text, part, name.start, name.end, HEADING_BYTES_MAX);
        self.text.push_str(COLON);
        true
    }

    /// Ends a sentence that leads to what is not shown with a stop: `It has these parts:`.
    fn end_with_stop(&mut self, text: &Text<'_>) {
        let end = self.text.len();
        let last = self.pieces.last_mut().filter(|piece| piece.output_end == end);
        let Some(last) = last.filter(|last| last.output_end - last.output_start > 1) else {
            return;
        };
        let source = &text.parts[last.part].text[..last.end];
        if self.text.ends_with(':') && source.ends_with(':') {
            (last.output_end, last.end) = (last.output_end - 1, last.end - 1);
            self.text.pop();
            self.text.push('.');
        }
    }

    /// Whether the last thing shown stands in the section of a heading that is shown, too.
    fn stands_below(&self, text: &Text<'_>, heading: usize) -> bool {
        let (place, block) = (&text.sentences[heading], text.block_of(heading));
        let is_heading =
            |piece: &QuotedRange| piece.part == place.part && piece.start == place.start;
        let in_section = |piece: &QuotedRange| {
            let mut blocks = text.blocks.iter().filter(|one| one.part == piece.part);
            let own = blocks.find(|one| one.text.contains(&piece.start));
            own.is_some_and(|one| one.part == block.part && one.section == block.section)
        };
        let shown = self.pieces.iter().rposition(is_heading);
        shown.is_some_and(|at| self.pieces[at..].iter().all(in_section))
    }

    /// Writes a word with a capital: `Hi Tom, the shears are here` is read without its greeting. Names such as
    /// `iPad` stay.
    fn capitalize(&mut self, at: usize) {
        let mut word = self.text[at..].chars();
        let Some(first) = word.next().filter(|c| c.is_lowercase()) else { return };
        let is_plain = word.next().is_none_or(|second| !second.is_uppercase());
        let capital: String = first.to_uppercase().collect();
        if is_plain && capital.len() == first.len_utf8() {
            self.text.replace_range(at..at + capital.len(), &capital);
        }
    }

    /// Appends a row of a file as `Night Ferry (author: Lena Holm; year: 2016).`
    fn push_record(&mut self, text: &Text<'_>, index: usize, record: &Record, bytes: usize) {
        let (part, begin) = (text.sentences[index].part, self.text.len());
        self.push_range(text, part, record.title.start, record.title.end, bytes);
        self.capitalize(begin);
        let mut opened = false;
        for (name, value) in &record.members {
            let room = bytes.saturating_sub(self.text.len() - begin);
            if room < value.end - name.start + " (;).".len() {
                break;
            }
            self.text.push_str(if opened { "; " } else { " (" });
            self.push_range(text, part, name.start, value.end, usize::MAX);
            opened = true;
        }
        self.text.push_str(if opened { ")." } else { "." });
    }

    /// Appends a row as `column: cell; column: cell`, or the names of the columns with the number of rows.
    fn push_row(&mut self, text: &Text<'_>, index: usize, row: &Row, bytes: usize) {
        let (part, begin) = (text.sentences[index].part, self.text.len());
        let is_head = text.block_of(index).kind == Kind::Columns;
        let cells = row.cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty());
        for (count, (column, cell)) in cells.enumerate() {
            let name = row.names.get(column).filter(|name| !name.is_empty());
            let named = name.map_or(0, |name| name.len() + COLON.len());
            let room = bytes.saturating_sub(self.text.len() - begin + named);
            if count > 0 {
                if room < cell.len() {
                    self.text.push('…');
                    return;
                }
                self.text.push_str(if is_head { ", " } else { "; " });
            }
            if let Some(name) = name {
                self.push_range(text, part, name.start, name.end, usize::MAX);
                self.text.push_str(COLON);
            }
            self.push_range(text, part, cell.start, cell.end, room.max(1));
        }
        if is_head {
            let rows = tables::rows_below(text, index);
            let [one, several] = text.language.rows();
            self.text.push_str(&format!(" ({rows} {})", if rows == 1 { one } else { several }));
        }
        if !self.text.ends_with(['.', '!', '?', '…', ':']) {
            self.text.push('.');
        }
    }
}

/// Whether a text ends in a word, also in brackets or quotes, and in no stop.
fn lacks_stop(text: &str) -> bool {
    let closes = |c: char| matches!(c, ')' | '"' | '”' | '“' | '»' | '`');
    let words = text.trim_end_matches(closes);
    let is_stopped = words.ends_with(['.', '!', '?', '…']);
    words.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '%' | '€'))
        || text.ends_with(')') && !is_stopped
}

/// Whether a greeting stands right before a sentence.
pub(crate) fn follows_greeting(text: &Text<'_>, sentence: usize) -> bool {
    let at = text.sentences[sentence].block;
    let is_first = text.blocks[at].sentences.start == sentence;
    let before = at.checked_sub(1).map(|before| &text.blocks[before]);
    is_first
        && before.is_some_and(|before| {
            before.part == text.blocks[at].part
                && before.kind == Kind::Signature
                && lines::greets(&text.parts[before.part].text[before.text.clone()])
        })
}

/// A quotation that begins with the other one of a small letter and its capital: a summary begins with a capital
/// what stood behind a greeting.
pub(crate) fn begun_otherwise(quote: &str) -> Option<String> {
    let first = quote.chars().next()?;
    let other: String = match first.is_lowercase() {
        true => first.to_uppercase().collect(),
        false => first.to_lowercase().collect(),
    };
    let is_other = other.len() == first.len_utf8() && !other.starts_with(first);
    is_other.then(|| other + &quote[first.len_utf8()..])
}

/// At most `bytes` bytes, cut after a word if there is one to cut after.
pub(crate) fn shorten(source: &str, bytes: usize) -> &str {
    if source.len() <= bytes {
        return source;
    }
    &source[..inline::after_word(source, bytes)]
}

/// The summary of the allowed sentences.
pub fn compose(text: &Text<'_>, picked: &[usize], budget: Budget) -> Quoted {
    let mut quoted = Quoted::default();
    for (at, &sentence) in picked.iter().enumerate() {
        let room = budget.bytes.saturating_sub(quoted.text.len()).max(40);
        quoted.push_sentence(text, sentence, room);
        if picked.get(at + 1) != Some(&(sentence + 1)) {
            quoted.end_with_stop(text);
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Part;
    use super::*;

    #[test]
    fn repetitions_are_said_once_and_order_is_kept() {
        let source = "The server failed at noon. The server failed at noon. We replaced the disk of the server. Users noticed nothing.";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let matrix = Matrix::new(&text);
        let scores = super::super::score(&text, &matrix);
        let all: Vec<usize> = (0..text.sentences.len()).collect();
        let picked = pick(&text, &matrix, &scores, &all, Budget { sentences: 3, bytes: 500 });
        assert_eq!(picked.len(), 3);
        assert!(picked.is_sorted() && !(picked.contains(&0) && picked.contains(&1)));
    }

    #[test]
    fn a_sentence_that_leans_on_another_is_shown_with_it_or_not_at_all() {
        let source = "The new copier in the office is broken since Tuesday. It prints black pages only, and the repair costs 310 EUR. \
                      Until 16 March the school lends us another copier for 20 EUR a day.";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let picked = |scores: &[f64], sentences: usize| {
            let budget = Budget { sentences, bytes: 700 };
            pick(&text, &Matrix::new(&text), scores, &[0, 1, 2], budget)
        };
        assert_eq!(picked(&[0.1, 0.9, 0.5], 2), [0, 1]);
        assert_eq!(picked(&[0.1, 0.9, 0.5], 1), [2]);
        assert_eq!(picked(&[0.5, 0.4, 0.9], 2), [0, 2]);
        let alone = pick(
            &text,
            &Matrix::new(&text),
            &[0.1, 0.9, 0.5],
            &[1],
            Budget { sentences: 1, bytes: 40 },
        );
        assert_eq!(alone, [1]);
    }

    #[test]
    fn items_below_a_heading_for_what_is_done_say_so() {
        let source =
            "## Erledigt\n\n- Kasse prüfen\n\n## Offen\n\n- Zelt reservieren\n- [x] Bus mieten\n";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let items = |at: &usize| text.block_of(*at).kind == Kind::Item;
        let items: Vec<usize> = (0..text.sentences.len()).filter(items).collect();
        let quoted = compose(&text, &items, Budget { sentences: 9, bytes: 400 });
        assert_eq!(quoted.text, "Erledigt: Kasse prüfen. Zelt reservieren. Done: Bus mieten.");
        for piece in &quoted.pieces {
            assert_eq!(
                quoted.text[piece.output_start..piece.output_end],
                source[piece.start..piece.end]
            );
        }
    }

    #[test]
    fn items_that_a_heading_explains_stand_behind_it_once() {
        for (source, expected) in [
            (
                "# Notes\n\nFixed:\n\n- Crash with old tickets\n- Wrong prices\n\n## New\n\n- A map\n",
                "Fixed: Crash with old tickets. Wrong prices. A map.",
            ),
            ("## Bekannte Probleme\n\n- Die Karte fehlt\n", "Bekannte Probleme: Die Karte fehlt."),
            ("Tus funciones\n- Controlar el riego\n", "Tus funciones: Controlar el riego."),
            ("## Tasks\n\n- Call Ana\n", "Call Ana."),
        ] {
            let text = Text::new(vec![Part { id: "a", text: source }]);
            let is_item = |at: &usize| text.block_of(*at).kind == Kind::Item;
            let items: Vec<usize> = (0..text.sentences.len()).filter(is_item).collect();
            assert_eq!(compose(&text, &items, Budget { sentences: 9, bytes: 400 }).text, expected);
        }
    }

    #[test]
    fn marks_of_markdown_are_left_out_and_what_is_done_says_so() {
        let shown = |source: &str| {
            let text = Text::new(vec![Part { id: "a", text: source }]);
            let quoted = compose(&text, &[0], Budget { sentences: 1, bytes: 400 });
            for piece in &quoted.pieces {
                let said = &quoted.text[piece.output_start..piece.output_end];
                assert_eq!(said, inline::unmarked(&source[piece.start..piece.end]));
            }
            assert_eq!(quoted.pieces.len(), 1);
            quoted.text
        };
        assert_eq!(
            shown("See [the map](https://a.example/x) and ![a photo](p.png), **Kim** said."),
            "See the map and , Kim said."
        );
        assert_eq!(shown("The price is ~~40 ~~45 EUR ~~today."), "The price is 45 EUR today.");
        assert_eq!(shown("**Attendees:** Kim and [Lee](l.md)."), "Attendees: Kim and Lee.");
        for plain in
            ["It is 2**3**4 here.", "Take [a] and (b).", "A ** b ** c is odd.", "So [x](y z) is."]
        {
            assert_eq!(shown(plain), plain);
        }
        for done in ["- [x] Cancel the contract.", "- [x] ~~Cancel the contract.~~"] {
            assert_eq!(shown(done), "Done: Cancel the contract.", "{done}");
        }
    }

    #[test]
    fn a_sentence_that_leads_to_nothing_ends_in_a_stop_and_quotes_get_theirs() {
        let source = "The pump has three parts:\n\n- a hose\n- a valve\n\nThey call it \"the heart\"\n\nIt leaks.";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let shown = |picked: &[usize]| {
            let quoted = compose(&text, picked, Budget { sentences: 3, bytes: 400 });
            for piece in &quoted.pieces {
                let said = &quoted.text[piece.output_start..piece.output_end];
                assert_eq!(said, &source[piece.start..piece.end]);
            }
            quoted.text
        };
        assert_eq!(shown(&[0]), "The pump has three parts.");
        assert_eq!(shown(&[0, 1]), "The pump has three parts: a hose.");
        assert_eq!(shown(&[3, 4]), "They call it \"the heart\". It leaks.");
        for (said, lacks) in
            [("It leaks", true), ("f(x)", true), ("(It leaks.)", false), ("\"No!\"", false)]
        {
            assert_eq!(lacks_stop(said), lacks, "{said}");
        }
    }

    #[test]
    fn a_summary_of_changes_names_each_version_once() {
        let source = "# Changes\n\n## [2.1.0] - 2026-03-04\n\n- A clock\n- A map\n\n### Fixed\n\n- A leak\n\n## 2.0.1\n\n### Fixed\n\n\
                      - A door\n\n## 2.0.0\n\n- A wall\n";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let is_item = |at: &usize| text.block_of(*at).kind == Kind::Item;
        let items: Vec<usize> = (0..text.sentences.len()).filter(is_item).collect();
        let quoted = compose(&text, &items, Budget { sentences: 9, bytes: 400 });
        assert_eq!(
            quoted.text,
            "2.1.0: A clock. A map. Fixed: A leak. 2.0.1, Fixed: A door. 2.0.0: A wall."
        );
        for piece in &quoted.pieces {
            let said = &quoted.text[piece.output_start..piece.output_end];
            assert_eq!(said, &source[piece.start..piece.end]);
        }
    }

    #[test]
    fn every_piece_points_at_its_bytes() {
        let source =
            "A first line that was wrapped by the mail program\nhere ends. Second sentence";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let quoted = compose(&text, &[0, 1], Budget { sentences: 2, bytes: 400 });
        for piece in &quoted.pieces {
            let said = &quoted.text[piece.output_start..piece.output_end];
            assert_eq!(said, source[piece.start..piece.end].replace('\n', " "));
        }
        assert!(quoted.text.ends_with("sentence."));
    }

    #[test]
    fn words_behind_a_greeting_begin_with_a_capital_and_point_at_their_bytes() {
        for (source, shown) in [
            ("Hi Tom, the shears are here.", "The shears are here."),
            ("Liebe Anna,\n\nder Dachdecker kommt am Freitag.", "Der Dachdecker kommt am Freitag."),
            ("Hola Tomás:\n\nél trae las llaves.", "Él trae las llaves."),
            ("Hi Tom, iPads are cheap.", "iPads are cheap."),
            ("the shears are here.", "the shears are here."),
        ] {
            let text = Text::new(vec![Part { id: "a", text: source }]);
            let said = |at: &usize| text.block_of(*at).kind == Kind::Paragraph;
            let all: Vec<usize> = (0..text.sentences.len()).filter(said).collect();
            let quoted = compose(&text, &all, Budget { sentences: 2, bytes: 400 });
            assert_eq!(quoted.text, shown);
            let [piece] = quoted.pieces.as_slice() else { panic!("{quoted:?}") };
            let words = &source[piece.start..piece.end];
            assert!(words == shown || begun_otherwise(words).as_deref() == Some(shown), "{words}");
        }
    }

    #[test]
    fn cuts_fall_between_words() {
        assert_eq!(shorten("alpha beta gamma", 12), "alpha beta");
        assert_eq!(shorten("ééééé", 5), "éé");
    }
}
