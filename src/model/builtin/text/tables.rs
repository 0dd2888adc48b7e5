//! Rows of tables: their cells, and the row that names the columns. And the rows of a file that an import writes one
//! by one, each with the names of its columns: `title: Night Ferry; year: 2016.`
//!
//! Contract: a row is one line whose cells stand between `|` or tabs. Where no rule stands below the first
//! row, it names the columns only when its cells look different from those below it.

use std::ops::Range;

use super::blocks::{Block, Kind};
use super::words::fold;
use super::{Part, Text};

/// Columns of a table whose first row is taken for names without a column of numbers below it.
const COLUMNS_OF_WORDS_MIN: usize = 3;

/// The row of a sentence.
pub(crate) struct Row {
    /// The names of the columns; none where the table names none.
    pub names: Vec<Range<usize>>,
    pub cells: Vec<Range<usize>>,
}

/// The cells of a line, without the white space around them.
fn cells(source: &str, line: Range<usize>) -> Vec<Range<usize>> {
    let text = &source[line.clone()];
    let has_bars =
        text.starts_with('|') || text.contains(" | ") || text.contains('|') && !text.contains('\t');
    let sign = if has_bars { '|' } else { '\t' };
    let mut cells = Vec::new();
    let (mut from, mut before) = (0, ' ');
    let ends = text.char_indices().chain([(text.len(), sign)]);
    for (at, c) in ends {
        if c == sign && (before != '\\' || at == text.len()) {
            let cell = &text[from.min(at)..at];
            let start = line.start + from.min(at) + (cell.len() - cell.trim_start().len());
            cells.push(start..start + cell.trim().len());
            from = at + c.len_utf8();
        }
        before = c;
    }
    // Bars at both ends of a line enclose no cells.
    if has_bars && text.starts_with('|') {
        cells.remove(0);
    }
    if has_bars && text.trim_end().ends_with('|') && cells.last().is_some_and(Range::is_empty) {
        cells.pop();
    }
    cells
}

/// Notes which rows name the columns of tables that have no rule.
pub(crate) fn name_columns(source: &str, blocks: &mut [Block]) {
    let mut at = 0;
    while at < blocks.len() {
        let width = match blocks[at].kind {
            Kind::Table => cells(source, blocks[at].text.clone()).len(),
            _ => 0,
        };
        let is_row = |block: &Block| {
            block.kind == Kind::Table && cells(source, block.text.clone()).len() == width
        };
        let rows = match width {
            0 | 1 => 1,
            _ => blocks[at..].iter().take_while(|block| is_row(block)).count(),
        };
        let is_named = at > 0 && blocks[at - 1].kind == Kind::Columns;
        if rows > 1 && !is_named && names(source, &blocks[at..at + rows], width) {
            blocks[at].kind = Kind::Columns;
        }
        at += rows;
    }
}

/// Whether the first of some rows names their columns.
fn names(source: &str, rows: &[Block], width: usize) -> bool {
    let rows: Vec<Vec<Range<usize>>> =
        rows.iter().map(|row| cells(source, row.text.clone())).collect();
    let is_number = |cell: &Range<usize>| {
        let words = source[cell.clone()].trim_start_matches(['€', '$', '£', '-', '+', '~', ' ']);
        words.starts_with(|c: char| c.is_ascii_digit())
    };
    let (first, below) = (&rows[0], &rows[1..]);
    let words = first.iter().all(|cell| !cell.is_empty() && !is_number(cell));
    let numbers = (0..width).any(|column| below.iter().all(|row| is_number(&row[column])));
    words && (numbers || width >= COLUMNS_OF_WORDS_MIN)
}

/// The row that a sentence is, with the names of its columns; `None` where it is no row of a table.
pub(crate) fn row(text: &Text<'_>, sentence: usize) -> Option<Row> {
    let (index, block) = (text.sentences[sentence].block, text.block_of(sentence));
    if !matches!(block.kind, Kind::Table | Kind::Columns) {
        return None;
    }
    let source = text.parts[block.part].text;
    let cells_of = |block: &Block| cells(source, block.text.clone());
    let cells = cells_of(block);
    if block.kind == Kind::Columns {
        return Some(Row { names: Vec::new(), cells });
    }
    let above = text.blocks[..index].iter().rev();
    let above = above.take_while(|one| one.part == block.part && one.section == block.section);
    let mut above = above.skip_while(|one| one.kind == Kind::Table);
    let names =
        above.next().filter(|head| head.kind == Kind::Columns).map(cells_of).unwrap_or_default();
    let is_table = !names.is_empty() || source[block.text.clone()].starts_with('|');
    is_table.then_some(Row { names, cells })
}

/// A row with the names of its columns, as a person would tell it.
pub(crate) struct Record {
    /// What the row is about.
    pub title: Range<usize>,
    /// A few others of its members: the name and the value of each.
    pub members: Vec<(Range<usize>, Range<usize>)>,
}

/// Longest name of a column.
const NAME_BYTES_MAX: usize = 40;
/// Words of one, in a row that stands alone.
const NAME_WORDS_MAX: usize = 2;
/// A longer value is a text of its own.
const VALUE_BYTES_MAX: usize = 120;
/// Columns that rows beside each other share, where a first cell is empty; and those of a row that stands alone.
const NAMES_SHARED_MIN: usize = 2;
const MEMBERS_ALONE_MIN: usize = 3;
/// Members that are told beside the title.
const MEMBERS_TOLD: usize = 3;
/// Names of columns that say what a row is about, folded.
const TITLES: [&str; 21] = [
    "title",
    "name",
    "subject",
    "item",
    "product",
    "task",
    "summary",
    "description",
    "what",
    "titulo",
    "nombre",
    "articulo",
    "concepto",
    "tarea",
    "titel",
    "artikel",
    "aufgabe",
    "bezeichnung",
    "titre",
    "nom",
    "titolo",
];
/// Names of columns that tell rows apart and say nothing to a reader.
const IDS: [&str; 7] = ["id", "uuid", "guid", "key", "row", "no", "nr"];

/// The place of a column among those that say what a row is about, from the clearest; `None` for any other column, and
/// for a cell that is a text of its own.
pub(crate) fn title_rank(column: &str, cell: &str) -> Option<usize> {
    let column = fold(column.trim());
    let is_text = cell.len() > VALUE_BYTES_MAX || cell.contains('\n');
    TITLES.iter().position(|name| *name == column).filter(|_| !is_text)
}

/// Where the name of a member stands, and where its value does.
type MemberPlaces = (Range<usize>, Range<usize>);

/// The members of a part that is one line of them.
fn members(source: &str) -> Option<Vec<MemberPlaces>> {
    let whole = source.trim();
    if whole.contains('\n') || !whole.contains("; ") {
        return None;
    }
    let begin = source.len() - source.trim_start().len();
    let end = begin + whole.trim_end_matches('.').len();
    let (mut found, mut at) = (Vec::<MemberPlaces>::new(), begin);
    for piece in source[begin..end].split("; ") {
        let name = piece.find(": ").filter(|colon| {
            let name = &piece[..*colon];
            (1..=NAME_BYTES_MAX).contains(colon) && !name.contains(['.', '!', '?', ',', '/'])
        });
        match (name, found.last_mut()) {
            (Some(colon), _) => {
                found.push((at..at + colon, at + colon + ": ".len()..at + piece.len()));
            }
            // A value may hold the sign too.
            (None, Some((_, value))) => value.end = at + piece.len(),
            (None, None) => return None,
        }
        at += piece.len() + "; ".len();
    }
    (found.len() > 1).then_some(found)
}

/// Whether a part is a row of a file. The rows beside it have columns of the same names; a row alone has one that names
/// what it is about.
pub(crate) fn is_record(parts: &[Part<'_>], part: usize) -> bool {
    let names = |at: usize| {
        let source = parts.get(at)?.text;
        let all = members(source)?;
        let is_short = all.iter().all(|(_, value)| value.len() <= VALUE_BYTES_MAX);
        is_short.then(|| all.into_iter().map(|(name, _)| &source[name]).collect::<Vec<_>>())
    };
    let Some(own) = names(part) else { return false };
    let is_like = |other: Vec<&str>| {
        let same = own.iter().filter(|name| other.contains(name)).count();
        own[0] == other[0] || same >= NAMES_SHARED_MIN
    };
    let beside = [part.checked_sub(1), Some(part + 1)];
    let is_alone = parts.len() == 1
        && own.len() >= MEMBERS_ALONE_MIN
        && own.iter().any(|name| TITLES.contains(&fold(name).as_str()));
    is_alone || beside.into_iter().flatten().filter_map(names).any(is_like)
}

/// The row that a sentence is; `None` where it is none, or where the row has no words.
pub(crate) fn record(text: &Text<'_>, sentence: usize) -> Option<Record> {
    let place = &text.sentences[sentence];
    let source = text.parts[place.part].text;
    let is_whole = source[..place.start].trim().is_empty() && source[place.end..].trim().is_empty();
    if !is_whole || !is_record(&text.parts, place.part) {
        return None;
    }
    let folded = |name: &Range<usize>| fold(&source[name.clone()]);
    let is_id = |name: &Range<usize>| {
        let name = folded(name);
        IDS.contains(&name.as_str()) || name.ends_with(" id") || name.ends_with("_id")
    };
    let has_words = |value: &Range<usize>| {
        let value = &source[value.clone()];
        value.contains(char::is_alphabetic) && !value.contains("://")
    };
    let mut told = members(source)?;
    told.retain(|(name, value)| !is_id(name) && !source[value.clone()].trim().is_empty());
    let named = TITLES.iter().find_map(|title| {
        told.iter().position(|(name, value)| folded(name) == *title && has_words(value))
    });
    let at = named.or_else(|| told.iter().position(|(_, value)| has_words(value)))?;
    let (_, title) = told.remove(at);
    told.truncate(MEMBERS_TOLD);
    Some(Record { title, members: told })
}

/// The names of the columns in a row of a file: they say nothing of the row.
pub(crate) fn names_in(text: &Text<'_>, sentence: usize) -> Vec<Range<usize>> {
    let place = &text.sentences[sentence];
    let source = text.parts[place.part].text;
    let is_row = |names: &Vec<MemberPlaces>| {
        let is_own =
            |(name, _): &MemberPlaces| source[name.clone()].split(' ').count() <= NAME_WORDS_MAX;
        is_record(&text.parts, place.part) || names.iter().all(is_own)
    };
    let names = members(source).filter(is_row).unwrap_or_default();
    names.into_iter().map(|(name, _)| name).collect()
}

/// How many rows stand below the names of columns.
pub(crate) fn rows_below(text: &Text<'_>, sentence: usize) -> usize {
    let index = text.sentences[sentence].block;
    let part = text.blocks[index].part;
    let below = text.blocks[index + 1..].iter();
    below.take_while(|block| block.kind == Kind::Table && block.part == part).count()
}

#[cfg(test)]
mod tests {
    use super::super::super::rank::select::{Budget, Quoted, compose};
    use super::super::Part;
    use super::*;

    fn shown(source: &str) -> String {
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let all: Vec<usize> = (0..text.sentences.len()).collect();
        compose(&text, &all, Budget { sentences: 100, bytes: 10_000 }).text
    }

    #[test]
    fn the_rows_of_a_table_are_sentences_with_the_names_of_its_columns() {
        let rows = "Item, Price (2 rows). Item: Pump; Price: 240. Item: Hose No. 3; Price: 35.";
        for table in [
            "| Item | Price |\n|---|---:|\n| Pump | 240 |\n| Hose No. 3 | 35 |\n",
            "Item|Price\n---|---\nPump|240\nHose No. 3|35\n",
            "Item | Price\nPump | 240\nHose No. 3 | 35\n",
            "Item\tPrice\nPump\t240\nHose No. 3\t35\n",
        ] {
            assert_eq!(shown(table), rows, "{table}");
        }
        // Short names of columns below a heading read like a menu, and are none.
        let short = "# Shops\n\n| Day | City | Sold |\n|---|---|---|\n| 2026-01-01 | Lima | 3 |\n";
        let told = "Shops. Day, City, Sold (1 row). Day: 2026-01-01; City: Lima; Sold: 3.";
        assert_eq!(shown(short), told);
        let bare = "Day | City | Sold\n2026-01-01 | Lima | 3\n2026-01-02 | Cusco | 4\n";
        assert!(shown(bare).starts_with("Day, City, Sold (2 rows). Day: 2026-01-01; City: Lima"));
        // An empty cell says nothing, and a bar in a cell separates nothing.
        assert_eq!(shown("| A | B |\n| -- | -- |\n|  | x \\| y |\n"), "A, B (1 row). B: x \\| y.");
        assert_eq!(shown("| Pump | 240 |\n| Hose | 35 |\n"), "Pump; 240. Hose; 35.");
    }

    #[test]
    fn a_row_without_words_says_nothing_and_rows_are_counted_in_the_language_of_the_text() {
        assert_eq!(shown("| A | B |\n|---|---|\n|  |  |\n| x | |\n"), "A, B (2 rows). A: x.");
        let german =
            "Das ist die Liste der Geräte.\n\n| Gerät | Preis |\n|---|---|\n| Pumpe | 240 |\n";
        assert!(shown(german).contains("Gerät, Preis (1 Zeile)."), "{}", shown(german));
    }

    #[test]
    fn a_row_is_no_longer_than_its_room() {
        let source = "| Name | Remark |\n|---|---|\n| Pump | It leaks at the back |\n";
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let mut quoted = Quoted::default();
        quoted.push_sentence(&text, 1, 40);
        assert_eq!(quoted.text, "Name: Pump; Remark: It leaks at the back.");
        let mut short = Quoted::default();
        short.push_sentence(&text, 1, 34);
        assert_eq!(short.text, "Name: Pump…");
    }

    #[test]
    fn rows_of_a_file_read_as_sentences_that_begin_with_their_titles() {
        let told = |rows: &[&str]| {
            let parts = rows.iter().map(|text| Part { id: "a", text }).collect();
            let text = Text::new(parts);
            let all: Vec<usize> = (0..text.sentences.len()).collect();
            compose(&text, &all, Budget { sentences: 100, bytes: 10_000 }).text
        };
        let rows = [
            "id: 1; author: Jon Park; title: Dr. No. 5; year: 2011; pages: 208; shelf: B1.",
            "id: 2; author: Ines Soto; title: A Map of Rain; year: 2020; pages: 455; shelf: A1.",
        ];
        assert_eq!(
            told(&rows),
            "Dr. No. 5 (author: Jon Park; year: 2011; pages: 208). \
             A Map of Rain (author: Ines Soto; year: 2020; pages: 455)."
        );
        let rows = [
            "Datum: 2026-01-03; Gerät: Pumpe; Preis: 240.",
            "Datum: 2026-01-04; Gerät: Schlauch; Preis: 35.",
        ];
        assert_eq!(
            told(&rows),
            "Pumpe (Datum: 2026-01-03; Preis: 240). Schlauch (Datum: 2026-01-04; Preis: 35)."
        );
        // A row with an empty first cell is like those beside it, and a row may stand alone.
        let rows = ["day: 2026-01-03; item: Pump; price: 240.", "item: Hose; price: 35."];
        assert_eq!(told(&rows), "Pump (day: 2026-01-03; price: 240). Hose (price: 35).");
        assert_eq!(told(&rows[..1]), "Pump (day: 2026-01-03; price: 240).");
        let low = ["item: pear tree; price: 26.", "item: iPad; price: 300."];
        assert_eq!(told(&low), "Pear tree (price: 26). iPad (price: 300).");
        let spanish = "Fecha: 2026-01-03; Artículo: Bomba; Precio: 240.";
        assert_eq!(told(&[spanish]), "Bomba (Fecha: 2026-01-03; Precio: 240).");
        let minutes = ["Present: Ana; Absent: Bo; Day: 5 March 2026."];
        assert_eq!(told(&minutes), minutes[0]);
        // Numbers alone have no title, and one sentence with a colon is no row.
        assert_eq!(told(&["a: 1; b: 2.", "a: 3; b: 4."]), "a: 1; b: 2. a: 3; b: 4.");
        let said = ["Ana said: yes; Bo said: no.", "They left."];
        assert_eq!(told(&said), said.join(" "));
    }

    #[test]
    fn a_list_of_labels_has_no_names_of_columns() {
        let text = "Name\tAna\nCity\tLima\nStreet\tMain\n";
        assert!(!shown(text).contains("rows"), "{}", shown(text));
    }
}
