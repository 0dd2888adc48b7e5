//! Whether the first row of a table names its columns.
//!
//! Contract: pure. The first row names the columns only when there is a sign for it: its cells look different
//! from the cells below, or they are usual names of columns. Otherwise it is an ordinary row, and no cell is
//! lost.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::contract::privacy::names_local_only;
use crate::contract::publish;
use crate::markup::records::List;
use crate::model::builtin::extract::written::day_of_value;
use crate::upstream::moment::Moment;

/// Rows below the first one that are compared with it.
pub(super) const ROWS_READ: usize = 20;
/// Columns of a table whose first row is taken for names where all cells are words.
const COLUMNS_OF_WORDS_MIN: usize = 3;
/// Years in a row that name columns.
const YEARS_MIN: usize = 2;
/// Numbers in a row that name columns: `Room, 1, 2, 3`.
const NUMBERS_MIN: usize = 3;
/// Longest unit behind an amount, in letters.
const UNIT_CHARS_MAX: usize = 4;
/// Rows below the names of a table that has no name of a table.
const TABLE_ROWS_MIN: usize = 2;
/// Of so many cells of such a table one may begin with a space.
const CELLS_PER_SPACE: usize = 10;
/// The longest name of a column in such a table.
const NAME_CHARS_MAX: usize = 40;
const NAME_WORDS_MAX: usize = 4;
/// Words that name columns in many programs.
const NAMES: [&str; 22] = [
    "id",
    "name",
    "title",
    "subject",
    "headline",
    "text",
    "content",
    "body",
    "note",
    "notes",
    "item",
    "date",
    "time",
    "author",
    "from",
    "to",
    "type",
    "kind",
    "status",
    "url",
    "tags",
    "description",
];

/// A table without the line in which Excel names the sign between its cells: `sep=;`.
pub(super) fn without_sign(text: &str) -> &str {
    let rest = text.strip_prefix("sep=").and_then(|rest| rest.split_once('\n'));
    rest.filter(|(sign, _)| sign.trim_end_matches('\r').chars().count() == 1)
        .map_or(text, |(_, rows)| rows)
}

/// Whether a text of any name is a table: its rows have as many cells as the names in its first one. Prose has commas
/// too, with a space behind them, and no such names.
pub(super) fn is_table(text: &str) -> bool {
    let text = without_sign(text);
    let Ok(Some(list)) = List::of("csv", text) else { return false };
    let Some((names, rows)) = list.begin(text, ROWS_READ) else { return false };
    let begins_with_space = |cell: &&String| cell.starts_with(' ');
    let spaces = rows.iter().flatten().filter(begins_with_space).count();
    let cells = rows.len() * names.len();
    names.len() >= 2
        && rows.len() >= TABLE_ROWS_MIN
        && rows.iter().all(|row| row.len() == names.len())
        && are_short_names(names)
        && spaces * CELLS_PER_SPACE <= cells
        && names_columns(names, &rows)
}

/// Whether cells are like names of columns: short, each another one, and not the parts of a sentence.
fn are_short_names(cells: &[String]) -> bool {
    let is_name = |cell: &String| {
        cell.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && cell.chars().count() <= NAME_CHARS_MAX
            && cell.split_whitespace().count() <= NAME_WORDS_MAX
            && !cell.ends_with(['.', '!', '?', ':'])
    };
    let all: BTreeSet<String> = cells.iter().map(|cell| cell.to_lowercase()).collect();
    cells.iter().all(is_name) && all.len() == cells.len()
}

/// Whether a first row names the columns of the rows below it.
pub(super) fn names_columns(first: &[String], below: &[Vec<String>]) -> bool {
    let has_mark = first.iter().any(|cell| publish::may_say(cell) || names_local_only(cell));
    // A mark that names nothing would be lost.
    if first.len() < 2 || below.is_empty() || has_mark {
        return true;
    }
    let differs = (0..first.len()).any(|column| differs(&first[column], below, column));
    let has_values = first.iter().filter_map(|cell| form(cell)).any(|form| form != Form::Words);
    differs
        || if has_values {
            names_a_series(first, below)
        } else {
            first.len() >= COLUMNS_OF_WORDS_MIN || are_names(first, below)
        }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Number,
    Date,
    Words,
}

/// What a cell is as a whole; `None` where it says nothing.
fn form(cell: &str) -> Option<Form> {
    let cell = cell.trim();
    if !cell.contains(char::is_alphanumeric) || matches!(cell, "n/a" | "N/A" | "NA") {
        return None;
    }
    Some(match (is_number(cell), is_date(cell)) {
        (_, true) => Form::Date,
        (true, false) => Form::Number,
        _ => Form::Words,
    })
}

/// `-3`, `1.234,56`, `€ 240`, `240 EUR`, `12 %`.
fn is_number(cell: &str) -> bool {
    let is_sign = |c: char| "€$£¥%°+-−~()".contains(c) || c.is_whitespace();
    let begins_with_digit =
        cell.trim_start_matches(is_sign).starts_with(|c: char| c.is_ascii_digit());
    let (amount, unit) =
        cell.rsplit_once(' ').filter(|(_, unit)| is_unit(unit)).unwrap_or((cell, ""));
    let has_amount = unit.is_empty() || amount.contains(|c: char| c.is_ascii_digit());
    let is_part = |c: char| c.is_ascii_digit() || ".,'’".contains(c) || is_sign(c);
    begins_with_digit && has_amount && amount.chars().all(is_part)
}

fn is_unit(word: &str) -> bool {
    word.chars().count() <= UNIT_CHARS_MAX && word.chars().all(char::is_alphabetic)
}

/// A day or a time, in any form that dates a text.
fn is_date(cell: &str) -> bool {
    let has_parts =
        cell.contains(['-', '/', '.', ':', ' ']) && cell.contains(|c: char| c.is_ascii_digit());
    let is_clock = || {
        let parts: Vec<&str> = cell.split(':').collect();
        let is_pair = |part: &&str| {
            matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        matches!(parts.len(), 2 | 3) && parts.iter().all(is_pair)
    };
    let is_moment = || Moment::read(&Value::from(cell), chrono_tz::UTC).is_some();
    has_parts && (is_clock() || is_moment() || day_of_value(cell, None).is_some())
}

/// Whether a cell looks otherwise than all cells below it.
fn differs(first: &str, below: &[Vec<String>], column: usize) -> bool {
    let Some(first) = form(first) else { return false };
    let mut below = below.iter().filter_map(|row| form(row.get(column)?)).peekable();
    below.peek().is_some() && below.all(|form| form != first)
}

/// `Region, 2022, 2023` over numbers that are no years: the columns have years for names.
fn names_a_series(first: &[String], below: &[Vec<String>]) -> bool {
    let of = |row: &[String]| {
        let begin = row.iter().take_while(|cell| form(cell) != Some(Form::Number)).count();
        let numbers: Vec<i64> =
            row[begin..].iter().filter_map(|cell| cell.trim().parse().ok()).collect();
        let rises = numbers.windows(2).all(|pair| pair[1] - pair[0] == 1);
        let falls = numbers.windows(2).all(|pair| pair[0] - pair[1] == 1);
        let are_years = numbers.iter().all(|number| (1900..2100).contains(number));
        let wanted = if are_years { YEARS_MIN } else { NUMBERS_MIN };
        begin > 0
            && begin + numbers.len() == row.len()
            && numbers.len() >= wanted
            && (rises || falls)
    };
    of(first) && !below.iter().any(|row| of(row))
}

/// Whether words look as the names of columns do.
fn are_names(first: &[String], below: &[Vec<String>]) -> bool {
    let is_name = |cell: &String| {
        let cell = cell.trim().to_lowercase();
        NAMES.contains(&cell.as_str()) || cell.contains('_') && !cell.contains(char::is_whitespace)
    };
    let is_small = |cell: &String| cell.trim().starts_with(char::is_lowercase);
    let has_capitals =
        below.iter().flatten().any(|cell| cell.trim().starts_with(char::is_uppercase));
    first.iter().any(is_name) || has_capitals && first.iter().all(is_small)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(table: &str) -> bool {
        let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let rows: Vec<Vec<String>> = table.lines().map(cells).collect();
        names_columns(&rows[0], &rows[1..])
    }

    #[test]
    fn a_first_row_names_columns_where_something_says_so() {
        for table in [
            "Region,2022,2023,2024\nNorth,10,20,30",
            "Region,2024,2023\nNorth,10,20",
            "Room,1,2,3\nHall,4,9,2",
            "Team,1st quarter,2nd quarter\nA,3,4",
            "Team,1st quarter,2nd quarter\nA,good,bad",
            "Q1,Q2,Q3\n1,2,3",
            "item,2024,price\nPump,3,250",
            "Fruit,Price\nApple,3",
            "Fruit,Bought\nApple,2026-03-01\nPear,",
            "Fruit,Price\nApple,€ 3.50",
            "Name,City\nAnna,Berlin",
            "nombre,ciudad\nAna,Madrid",
            "first_name,CITY\nAnna,Berlin",
            "Fact,Private\nThe key is here,yes",
            "2026-01-03,local_only\n2026-01-04,yes",
            "One",
            "a,b",
        ] {
            assert!(names(table), "{table}");
        }
    }

    #[test]
    fn a_first_row_that_looks_like_the_others_is_one_of_them() {
        for table in [
            "2026-01-03,Pump,240\n2026-01-04,Hose,35",
            "03.01.2026,Pump\n04.01.2026,Hose",
            "09:30,Breakfast\n10:00,Talk",
            "Pump,1950\nHose,240",
            "Pump,240 EUR\nHose,1.035 EUR",
            "Anna,1980,1981\nBea,1990,1991",
            "a,1,2,3\nb,4,5,6",
            "Anna,Berlin\nBea,Hamburg",
            "1,2,3\n4,5,6",
            "Pump,240\nHose,n/a\nTap,7",
        ] {
            assert!(!names(table), "{table}");
        }
    }
}
