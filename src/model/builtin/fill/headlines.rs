//! Reads a list of headlines: numbered entries with their headline, one line or several.
//!
//! Knows `- **ID 7** — title — _source_`, `ID: 7 | source | day | title`, `[7] title`, `7. title`, and
//! `ID 7` alone above its headline. Of several columns the headline is the one with the most words.

use std::ops::Range;

use super::super::text::lines;

/// What stands between the columns of a line.
const COLUMN_MARKS: [&str; 3] = [" — ", " | ", "\t"];

/// One entry of the list: byte ranges of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListEntry {
    pub number: i64,
    pub headline: Range<usize>,
    /// All its lines.
    pub whole: Range<usize>,
    /// The number stands behind `ID` or in brackets: only an entry begins like this.
    pub is_marked: bool,
}

/// The numbered entries of a text, in reading order.
pub(crate) fn numbered(source: &str) -> Vec<ListEntry> {
    let mut found: Vec<ListEntry> = Vec::new();
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let end = start + line.trim_end().len();
        match lines::opening(line.trim_end()) {
            Some(open) => {
                let headline = start + open.text..end;
                let is_marked = open.is_marked;
                found.push(ListEntry {
                    number: open.number,
                    headline,
                    whole: start..end,
                    is_marked,
                });
            }
            None if end > start => {
                if let Some(entry) = found.last_mut() {
                    if source[entry.headline.clone()].trim().is_empty() {
                        entry.headline = start..end;
                    }
                    entry.whole.end = end;
                }
            }
            None => {}
        }
        start += line.len();
    }
    found.retain(|entry| source[entry.headline.clone()].contains(char::is_alphabetic));
    let column = widest_column(source, &found);
    for entry in &mut found {
        entry.headline = cut(source, entry.headline.clone(), column);
    }
    found
}

/// The column whose fields have the most words; 0 where lines have no columns.
fn widest_column(source: &str, entries: &[ListEntry]) -> usize {
    let mut words: Vec<usize> = Vec::new();
    for entry in entries {
        for (column, field) in fields(source, entry.headline.clone()).into_iter().enumerate() {
            words.resize(words.len().max(column + 1), 0);
            words[column] += source[field].split_whitespace().count();
        }
    }
    let best = (0..words.len()).max_by_key(|&column| (words[column], std::cmp::Reverse(column)));
    best.unwrap_or(0)
}

fn cut(source: &str, line: Range<usize>, column: usize) -> Range<usize> {
    let fields = fields(source, line.clone());
    let field = fields.get(column).or(fields.last()).cloned().unwrap_or(line);
    let text = &source[field.clone()];
    let marks = ['*', '_', ' ', '\t', '#'];
    let start = field.start + text.len() - text.trim_start_matches(marks).len();
    start..start + source[start..field.end].trim_end_matches(marks).len()
}

fn fields(source: &str, line: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = line.start;
    while from <= line.end {
        let rest = &source[from..line.end];
        let marks = COLUMN_MARKS.iter().filter_map(|mark| Some((rest.find(mark)?, mark.len())));
        let (at, width) = marks.min().unwrap_or((rest.len(), 1));
        found.push(from..from + at);
        from += at + width;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Vec<(i64, &str)> {
        let entries = numbered(source);
        entries.into_iter().map(|entry| (entry.number, &source[entry.headline])).collect()
    }

    #[test]
    fn list_lines_are_read_in_the_usual_forms() {
        assert_eq!(read("- **ID 12** — Rates rise — _Reuters_ — _10:02_"), [(12, "Rates rise")]);
        assert_eq!(read("[7] | Rates rise | BBC"), [(7, "Rates rise")]);
        assert_eq!(read("[7] Rates rise"), [(7, "Rates rise")]);
        assert_eq!(
            read("501. Rates rise\n502) Owl stops train"),
            [(501, "Rates rise"), (502, "Owl stops train")]
        );
        assert_eq!(read("ID 21 Rates rise"), [(21, "Rates rise")]);
        assert_eq!(read("Rates rise in 2027"), []);
        assert_eq!(read("2027 begins\n10:02 start\n6,50 Euro"), []);
    }

    #[test]
    fn the_widest_of_several_columns_is_the_headline() {
        let source = "ID: 1 | Radio North | 2026-03-02 | Night ferry runs aground\nID: 2 | The Old Island Post | 2026-03-03 | Lighthouse for sale";
        assert_eq!(read(source), [(1, "Night ferry runs aground"), (2, "Lighthouse for sale")]);
    }

    #[test]
    fn a_number_alone_stands_above_its_headline() {
        let source = "ID 1\nRates rise\nThe bank says why.\n\nID 2\nOwl stops train\n";
        assert_eq!(read(source), [(1, "Rates rise"), (2, "Owl stops train")]);
    }
}
