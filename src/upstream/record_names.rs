//! What a person calls a record by: its title, its id, its address; and the cells of a row of a list.
//!
//! Contract: pure. A row keeps these names when all rows of its list have one summary, which may say nothing of it.

use serde_json::{Map, Value};

use crate::contract::places::folded;
use crate::contract::versions::file_of_item;
use crate::markup::members::named;
use crate::markup::records::LIST_KINDS;

/// Members that hold the title, the id or the address of a record, as `named` folds them.
const NAMES: [&str; 9] = [
    "title",
    "filename",
    "recordid",
    "sourcerecordid",
    "messageid",
    "url",
    "link",
    "permalink",
    "externalurl",
];
/// Those that are no title.
const IDS_AND_ADDRESSES: &[&str] = NAMES.split_at(2).1;
/// Most bytes of a cell that is a name. A longer one is a text.
const CELL_BYTES_MAX: usize = 80;
/// Fewest letters of a word that names a row by a cell: many rows have short numbers in their cells.
const CELL_WORD_LETTERS: usize = 3;

/// The title, the ids and the addresses among the members of a record. What has no title has the name of its file for one,
/// which is no name of its own.
pub(crate) fn own_names<'m>(
    members: &'m Map<String, Value>,
    file: &'m str,
) -> impl Iterator<Item = &'m str> {
    let file = file_of_item(file.rsplit('/').next().unwrap_or(file));
    named(members, &NAMES).filter_map(Value::as_str).filter(move |name| *name != file)
}

/// The ids and the addresses among the members of a record.
pub(crate) fn ids_and_addresses(members: &Map<String, Value>) -> impl Iterator<Item = &str> {
    named(members, IDS_AND_ADDRESSES).filter_map(Value::as_str)
}

/// Whether records of this kind are rows of a list.
pub(crate) fn is_row(kind: &str) -> bool {
    LIST_KINDS.contains(&kind)
}

/// A row as a person reads it: the title and the ids that stand beside its text, and the text.
pub(crate) fn shown_row(members: &Map<String, Value>, file: &str, text: &str) -> String {
    let said = folded(text);
    let beside = own_names(members, file).filter(|name| !said.contains(&folded(name)));
    beside.chain([text]).collect::<Vec<_>>().join(": ")
}

/// The short cells in the text of a row, which is `name: cell; name: cell.`
pub(crate) fn cells(text: &str) -> impl Iterator<Item = &str> {
    let cells = text.lines().flat_map(|line| line.split("; ")).map(|cell| {
        let cell = cell.split_once(": ").map_or(cell, |(_, value)| value);
        cell.trim().trim_end_matches('.')
    });
    cells.filter(|cell| !cell.is_empty() && cell.len() <= CELL_BYTES_MAX)
}

/// Whether a name is the one that a person writes. A Message-ID may stand without its brackets.
pub(crate) fn is_called(name: &str, word: &str) -> bool {
    let bare = |text: &str| folded(text.trim().trim_start_matches('<').trim_end_matches('>'));
    bare(name) == bare(word)
}

/// Whether a cell of the text of a row is what a person writes.
pub(crate) fn has_cell(text: &str, word: &str) -> bool {
    word.chars().count() >= CELL_WORD_LETTERS && cells(text).any(|cell| is_called(cell, word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_has_its_title_its_id_its_address_and_its_cells_for_names() {
        let members = json!({"title": "Oak chair", "record_id": "7", "URL": "https://x.example/7",
            "message_id": "<a@x.example>", "note": "It is new.", "link": null});
        let members = members.as_object().unwrap();
        let has = |word: &str| {
            own_names(members, "mine/a.json#2026-02-11").any(|name| is_called(name, word))
        };
        for word in ["oak CHAIR", "7", "https://x.example/7", "a@x.example", "<a@x.example>"] {
            assert!(has(word), "{word}");
        }
        assert!(!has("It is new.") && !has("chair"));
        let bare = json!({"title": "a.json"});
        assert_eq!(own_names(bare.as_object().unwrap(), "mine/a.json#2026-02-11").next(), None);
        assert!(!ids_and_addresses(members).any(|name| name == "Oak chair"));
        assert_eq!(
            shown_row(members, "a.json", "Oak chair, number 7."),
            "<a@x.example>: https://x.example/7: Oak chair, number 7."
        );
        let text = "part id: P-77; name: Oak chair; at: 10:30; note: a; b: c.";
        for word in ["p-77", "Oak chair", "10:30"] {
            assert!(has_cell(text, word), "{word}");
        }
        for word in ["part id", "P-7", "Oak", "c"] {
            assert!(!has_cell(text, word), "{word}");
        }
    }
}
