//! A file of any document kind as one document.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::kind::{FileKind, HEAD_BYTES, Refusal, extension};
use super::said::{beside_list, records, sentence};
use super::{LeftOut, decode, extract, head, notebook, office, pdf_marks, turns};
use crate::contract::privacy::{says_local_only, says_local_only_within};
use crate::contract::publish::{said_by_record, said_within, together};
use crate::contract::source::{RECORD_ID, local_text};
use crate::markup::document::{self, Document, FILE_NAME, PROJECT};
use crate::markup::members::{
    TIMES, TITLES, add_people, answered, in_two_parts, named, names_people, people_of,
    people_within, said_by,
};
use crate::markup::records::{List, Record, json_record, line_of_open_quote, value_of};
use crate::markup::{cards, markdown, org, roff, subtitles};
use crate::model::builtin::text::tables::title_rank;
use crate::upstream::context::tags_of;
use crate::upstream::moment::Moment;
use crate::upstream::source::RESOLVE_IDS_MAX;

/// The texts of the items of a list, together.
const ITEMS_BYTES_MAX: usize = 256 << 20;

/// What reading a file may need beside its bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readers {
    /// The program that reads PDF, with its arguments.
    pub pdf: Vec<String>,
}

/// Reads the items of a file that is a list, each as a document of its own; `None` where it is no list.
///
/// They are the items that the bus `other` names, with the marks that are theirs.
pub(crate) fn items(
    kind: FileKind,
    path: &Path,
    bytes: &[u8],
) -> Result<Option<Vec<Document>>, String> {
    items_within(kind, path, bytes, ITEMS_BYTES_MAX)
}

/// Reads one file. A reader that panics is an error of this file, and the others are read.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // What it had begun is dropped with it.
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err("its reader failed, which is an error of this program".to_owned()))
}

/// The same, where the texts of the items have a limit together. The rows of a table have the names of its columns, so
/// that they may be much longer than their file.
fn items_within(
    kind: FileKind,
    path: &Path,
    bytes: &[u8],
    text_max: usize,
) -> Result<Option<Vec<Document>>, String> {
    let is_chat = kind == FileKind::ChatJson;
    let (name, kind) = match (kind, extension(path).as_str()) {
        (FileKind::Csv, "tsv") => ("tsv", "csv"),
        (FileKind::Csv, _) => ("csv", "csv"),
        (FileKind::Json | FileKind::ChatJson, "jsonl" | "ndjson") => ("jsonl", "json"),
        (FileKind::Json | FileKind::ChatJson, _) => ("json", "json"),
        _ => return Ok(None),
    };
    let text = decode::text(bytes).ok_or("it is binary")?;
    let text = if kind == "csv" { head::without_sign(&text) } else { &text };
    let list = match List::of(name, text)? {
        // Lines of JSON stand under other names too.
        None if serde_json::from_str::<&RawValue>(text).is_err() => List::of("jsonl", text)?,
        list => list,
    };
    let Some(list) = list else { return Ok(None) };
    let begin = list.begin(text, head::ROWS_READ);
    let has_names = begin.is_none_or(|(names, rows)| head::names_columns(names, &rows));
    let list = if has_names { list } else { list.without_names() };
    if list.slots.len() > RESOLVE_IDS_MAX {
        let count = list.slots.len();
        return Err(format!("{count} items are too many: split it at {RESOLVE_IDS_MAX}"));
    }
    let records = || list.slots.iter().map(|slot| list.record(text, slot));
    if kind == "json" && records().next().is_some_and(|first| turns::is_one(&first.members)) {
        let members: Vec<Map<String, Value>> = records().map(|record| record.members).collect();
        if let Some(found) = turns::conversations(&members.iter().collect::<Vec<_>>()) {
            let marked = |one: Document| {
                let publish = together([list.publish, one.publish]);
                Document { publish, ..one }
            };
            let all = around(kind, text).into_iter().chain(found);
            return Ok(Some(all.map(marked).collect()));
        }
    }
    if is_chat {
        return Ok(None);
    }
    let around = around(kind, text).map(|one| Document { publish: list.publish, ..one });
    let (mut documents, mut read_bytes): (Vec<Document>, usize) = (around.into_iter().collect(), 0);
    for slot in &list.slots {
        for document in items_of(kind, list.record(text, slot), list.publish, has_names) {
            read_bytes += document.text.len();
            if read_bytes > text_max {
                return Err(too_long(text_max));
            }
            documents.push(document);
        }
    }
    Ok(Some(documents))
}

/// What a file says beside its list, of all items.
fn around(kind: &'static str, text: &str) -> Option<Document> {
    let whole = serde_json::from_str::<BTreeMap<String, &RawValue>>(text).ok()?;
    let is_list = |value: &RawValue| value.get().starts_with(['[', '{']);
    let members = whole.into_iter().filter(|(_, value)| !is_list(value));
    let members = members.filter_map(|(name, value)| Some((name, value_of(value.get())?)));
    let text = beside_list(&members.collect())?;
    Some(Document { kind, text, ..Document::default() })
}

/// What one item of a list gives: itself, or the documents of a project. Those without words are left out.
fn items_of(
    kind: &'static str,
    record: Record,
    publish: Option<bool>,
    has_names: bool,
) -> impl Iterator<Item = Document> {
    let publish = together([said_by_record(&record.members), publish]);
    let is_local_only = says_local_only(&record.members);
    let all = project(&record.members).unwrap_or_else(|| vec![item(kind, record, has_names)]);
    let marked = all.into_iter().map(move |one| {
        let publish = together([publish, one.publish]);
        Document { publish, ..one }.local_only_if(is_local_only)
    });
    marked.filter(|one| !one.text.trim().is_empty())
}

fn too_long(text_max: usize) -> String {
    format!("its text is longer than {} MiB: split it", text_max >> 20)
}

/// Whether a text has more than blanks and signs, such as the mark of a heading without a heading.
pub(crate) fn has_words(text: &str) -> bool {
    text.contains(|c: char| !c.is_whitespace() && !c.is_ascii_punctuation())
}

/// Whether a list holds the projects of an export of Claude.
pub(crate) fn holds_projects(bytes: &[u8]) -> bool {
    let text = decode::text(bytes).unwrap_or_default();
    let Ok(Some(list)) = List::of("json", &text) else { return false };
    let first = list.slots.first().map(|slot| list.record(&text, slot));
    first.is_some_and(|first| project(&first.members).is_some())
}

/// The projects of an export of Claude that tell a model how to answer, which is no part of what they hold.
fn prompt_templates(bytes: &[u8]) -> Option<LeftOut> {
    memchr::memmem::find(bytes, b"\"prompt_template\"")?;
    let text = decode::text(bytes)?;
    let list = List::of("json", &text).ok()??;
    let names = list.slots.iter().filter_map(|slot| {
        let members = list.record(&text, slot).members;
        let word = |name: &str| members.get(name)?.as_str().map(str::trim).map(str::to_owned);
        word("prompt_template").filter(|said| !said.is_empty())?;
        project(&members).and_then(|_| word("name"))
    });
    let names = names.collect::<Vec<String>>().join(", ");
    let told = format!("instructions to the model of {names} (they are no part of a project)");
    (!names.is_empty()).then(|| LeftOut::Attachment(told))
}

/// A project of an export of Claude: what it is about, and each of its documents.
fn project(members: &Map<String, Value>) -> Option<Vec<Document>> {
    let word = |members: &Map<String, Value>, name: &str| {
        let word = members.get(name).and_then(Value::as_str).map(str::trim);
        word.filter(|word| !word.is_empty()).map(str::to_owned)
    };
    let docs = members.get("docs")?.as_array()?;
    let name = word(members, "name")?;
    // The template tells a model how to answer. It says nothing of the project.
    members.get("prompt_template").or_else(|| members.get("description"))?;
    // Who made a project made its parts, unless a part says otherwise.
    let authors = |members: &Map<String, Value>| {
        let all = members.iter().filter(|(name, _)| names_people(name));
        all.map(|(name, one)| (name.clone(), one.clone())).collect::<Map<_, _>>()
    };
    let mut labels = authors(members);
    labels.insert("project".to_owned(), name.clone().into());
    let date = |members: &Map<String, Value>| word(members, "created_at");
    let about = word(members, "description").unwrap_or_default();
    let mut all = vec![Document {
        kind: PROJECT,
        title: Some(name.clone()),
        text: about,
        date: date(members),
        members: labels.clone(),
        ..Document::default()
    }];
    all.extend(docs.iter().filter_map(Value::as_object).filter_map(|doc| {
        let file = word(doc, "filename").map(|file| (FILE_NAME.to_owned(), file.into()));
        let document = Document {
            kind: PROJECT,
            title: Some(name.clone()),
            text: word(doc, "content")?,
            date: date(doc),
            members: labels.clone().into_iter().chain(authors(doc)).chain(file).collect(),
            publish: said_by_record(doc),
            ..Document::default()
        };
        Some(document.local_only_if(says_local_only(doc)))
    }));
    Some(all)
}

/// An item with a text of its own is this text, and a sentence of the facts beside it that are no context. One without
/// is shown by its members, each record a sentence. Names that the file does not
/// give are left out.
fn item(kind: &'static str, record: Record, has_names: bool) -> Document {
    let Record { id, text: _, own_text, facts, mut members } = record;
    let text = match (own_text, has_names) {
        (Some(text), _) => {
            let beside = members.iter().filter(|(name, _)| facts.contains(name));
            let beside = beside.map(|(name, value)| (name.clone(), value.clone())).collect();
            let parts = [text.trim_end().to_owned(), sentence(&beside)];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            parts.join("\n\n")
        }
        (None, true) => sentence(&members),
        (None, false) => {
            let cells = members.values().filter_map(Value::as_str).map(str::trim);
            let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
            format!("{}.", cells.join("; ").trim_end_matches('.'))
        }
    };
    let words = |value: &Value| value.as_str().map(str::trim).map(str::to_owned);
    let word = |value| words(value).filter(|word: &String| !word.is_empty());
    let title = named(&members, TITLES).find_map(word).or_else(|| title_of_row(&members));
    let date = named(&members, TIMES).find_map(|value| match Moment::read(value, chrono_tz::UTC) {
        Some(Moment::At(at)) if value.is_number() => Some(at.to_rfc3339()),
        Some(day @ Moment::Day(_)) => match day.with_clock(&members) {
            Moment::Local(at) => Some(local_text(at)),
            _ => word(value),
        },
        _ => word(value),
    });
    let labels = tags_of(&members);
    members.extend(id.map(|id| (RECORD_ID.to_owned(), id.into())));
    // Without its words a message shows no more that it is one, and a name in two columns is no member of a context.
    let people = said_by(&members).into_iter().chain(in_two_parts(&members));
    let people: Vec<String> = people.chain(answered(&members)).collect();
    add_people(&mut members, people);
    Document { kind, text, title, date, labels, members, ..Document::default() }
}

/// What a row is about, where no column has the usual name of a title: `Summary`, `Titel`, `item`.
fn title_of_row(members: &Map<String, Value>) -> Option<String> {
    let cells = members.iter().filter_map(|(name, value)| Some((name, value.as_str()?.trim())));
    let has_words = |cell: &str| cell.contains(char::is_alphabetic) && !cell.contains("://");
    let cells = cells.filter(|(_, cell)| has_words(cell));
    let named = cells.filter_map(|(name, cell)| Some((title_rank(name, cell)?, cell)));
    named.min().map(|(_, cell)| cell.to_owned())
}

/// The kind of bytes under a name, or why they have no reader.
pub(crate) fn kind_of(name: &str, bytes: &[u8]) -> Result<FileKind, String> {
    let (path, head) = (Path::new(name), &bytes[..bytes.len().min(HEAD_BYTES)]);
    let kind = FileKind::of(path, head, &mut || Ok(bytes.to_vec()));
    kind.map_err(|error| error.to_string())?.map_err(|Refusal(why)| why)
}

/// Reads what is attached to a mail as one document; or says why not.
pub(crate) fn attached(
    readers: &Readers,
    kind: FileKind,
    name: &str,
    bytes: &[u8],
    text_max: usize,
) -> Result<Document, String> {
    let read = match kind {
        FileKind::ChatGpt | FileKind::Claude | FileKind::ChatLines | FileKind::Mailbox => {
            return Err(format!("{}: save it as a file", kind.name()));
        }
        kind => whole_within(readers, kind, Path::new(name), bytes, text_max)?,
    };
    match read.text.trim() {
        "" => Err("no words".to_owned()),
        _ if read.text.len() > text_max => Err(too_long(text_max)),
        _ => Ok(read),
    }
}

/// Reads a file as one document; a list is the text of its items.
pub(crate) fn whole(
    readers: &Readers,
    kind: FileKind,
    path: &Path,
    bytes: &[u8],
) -> Result<Document, String> {
    guarded(|| whole_within(readers, kind, path, bytes, ITEMS_BYTES_MAX))
}

fn whole_within(
    readers: &Readers,
    kind: FileKind,
    path: &Path,
    bytes: &[u8],
    text_max: usize,
) -> Result<Document, String> {
    match items_within(kind, path, bytes, text_max)? {
        Some(items) if !items.is_empty() => {
            let texts: Vec<&str> = items.iter().map(|item| item.text.trim()).collect();
            let publish = together(items.iter().map(|item| item.publish));
            let is_local_only = items.iter().any(Document::is_local_only);
            let mut whole = Document { text: texts.join("\n"), publish, ..Document::default() };
            add_people(&mut whole.members, items.iter().flat_map(|item| people_of(&item.members)));
            Ok(whole.local_only_if(is_local_only))
        }
        _ => document(readers, kind, path, bytes),
    }
}

/// Reads a file whose kind is a document.
pub(crate) fn document(
    readers: &Readers,
    kind: FileKind,
    path: &Path,
    bytes: &[u8],
) -> Result<Document, String> {
    match kind {
        FileKind::Docx => office::docx(bytes).map(marked),
        FileKind::Epub => office::epub(bytes).map(marked),
        FileKind::Pdf => Ok(pdf(bytes, extract::pdf(&readers.pdf, bytes)?)),
        _ => text_document(kind, path, bytes),
    }
}

/// What a file says beside the text that is summarized, and that a person may miss.
pub(crate) fn beside_text(kind: FileKind, bytes: &[u8]) -> Option<LeftOut> {
    if kind == FileKind::Json {
        let outputs = || notebook::outputs(&decode::text(bytes)?);
        return prompt_templates(bytes).or_else(outputs);
    }
    if kind == FileKind::Csv {
        let line = line_of_open_quote("csv", &decode::text(bytes)?)?;
        return Some(LeftOut::OneCell(line));
    }
    if !matches!(kind, FileKind::Markdown | FileKind::Text | FileKind::Latex) {
        return None;
    }
    let text = decode::text(bytes)?.replace("\r\n", "\n");
    let names: Vec<String> =
        markdown::prose_of_front_matter(&text).into_iter().map(str::to_owned).collect();
    let names = names.join(", ");
    (!names.is_empty())
        .then(|| LeftOut::Attachment(format!("{names} (front matter is not summarized)")))
}

/// A PDF file with the text that a program found in it.
fn pdf(bytes: &[u8], text: String) -> Document {
    let document = Document { kind: "pdf", text, ..Document::default() };
    marked(document.with(pdf_marks::marks(bytes)))
}

/// A document with the marks that stand in its text and in its title.
fn marked(document: Document) -> Document {
    let text = document.text.clone();
    document::with_marks(document, &text)
}

fn text_document(kind: FileKind, path: &Path, bytes: &[u8]) -> Result<Document, String> {
    let text = match kind {
        FileKind::Html => decode::marked_up(bytes),
        _ => decode::text(bytes),
    };
    let text = text.ok_or("it is binary")?;
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let read_as = |name: &str| document::read(name, text.as_bytes());
    match kind {
        FileKind::Markdown => read_as("x.md"),
        FileKind::Org => Ok(document::with_marks(org::document(&text), &text)),
        FileKind::Roff => Ok(roff::document(&text)),
        FileKind::Calendar => Ok(cards::document("ics", &text)),
        FileKind::Contacts => Ok(cards::document("vcf", &text)),
        FileKind::Subtitles => Ok(subtitles::document(&text)),
        FileKind::Html => Ok(document::article(&text)),
        FileKind::Latex => read_as("x.tex"),
        FileKind::Mail => document::read("x.eml", bytes),
        FileKind::Csv => {
            // Each row is an item. A table without rows has the names of its columns as its text.
            let kind = if extension(path) == "tsv" { "tsv" } else { "csv" };
            let list = List::of(kind, head::without_sign(&text))?;
            let names = list.as_ref().and_then(|list| list.begin(&text, 0));
            let text = names.map(|(names, _)| names.join("; ")).unwrap_or_default();
            Ok(Document { kind: "csv", text, ..Document::default() })
        }
        FileKind::Json | FileKind::ChatJson => {
            if let Some(notebook) = notebook::document(&text) {
                return notebook;
            }
            let values = values(&text);
            if let [Value::Object(members)] = values.as_slice()
                && says_one_text(members)
            {
                let said = said_within(&values[0]);
                let one = item("json", json_record(&text), true);
                let read = Document { publish: together([one.publish, said]), ..one };
                return Ok(read.local_only_if(says_local_only_within(&values[0])));
            }
            let mut read = read_as("x.json")?;
            if let [Value::Object(_)] = values.as_slice() {
                let Document { title, date, labels, .. } = item("json", json_record(&text), true);
                read = Document { title, date, labels, ..read };
            }
            read.publish = together(values.iter().map(said_within));
            let members: Option<Vec<_>> = values.iter().map(Value::as_object).collect();
            let talks = members.and_then(|members| turns::conversations(&members));
            let mut people: Vec<String> = values.iter().flat_map(people_within).collect();
            people.extend(talks.iter().flatten().flat_map(|one| people_of(&one.members)));
            read.text = match talks {
                Some(talks) => {
                    talks.into_iter().map(|one| one.text).collect::<Vec<_>>().join("\n\n")
                }
                None => records(&values),
            };
            add_people(&mut read.members, people);
            Ok(read.local_only_if(values.iter().any(says_local_only_within)))
        }
        _ if extension(path) == "rst" => read_as("x.rst"),
        _ => read_as("x.txt"),
    }
}

/// Members that hold the text of an object.
const TEXTS: [&str; 4] = ["text", "content_text", "content", "body"];

fn is_text(name: &str) -> bool {
    TEXTS.iter().any(|text| name.eq_ignore_ascii_case(text))
}

/// Whether an object is one text, and what stands beside it are facts about it such as its title and its date.
fn says_one_text(members: &Map<String, Value>) -> bool {
    const WORDS_OF_FACT: usize = 12;
    const FACT_BYTES_MAX: usize = 300;
    let texts = members.keys().filter(|name| is_text(name)).count();
    let is_fact = |value: &Value| match value {
        Value::String(word) => word.split_whitespace().count() <= WORDS_OF_FACT,
        // Tags, or somebody with a name and an address.
        Value::Array(_) | Value::Object(_) => value.to_string().len() <= FACT_BYTES_MAX,
        _ => true,
    };
    texts == 1
        && members.iter().all(|(name, value)| match is_text(name) {
            true => value.as_str().is_some_and(|text| !text.trim().is_empty()),
            false => is_fact(value),
        })
}

/// The records of a file that is JSON, or lines of JSON.
fn values(text: &str) -> Vec<Value> {
    match value_of(text) {
        Some(Value::Array(items)) => items,
        Some(value) => vec![value],
        None => text.lines().filter_map(value_of).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: FileKind, name: &str, bytes: &[u8]) -> Document {
        document(&Readers::default(), kind, Path::new(name), bytes).unwrap()
    }

    #[test]
    fn a_table_is_read_row_by_row() {
        let csv = "Name;Amount\nAna;40\n\"Gil; Bo\";\"3\"\"\"\n;\n";
        let whole = |name: &str, bytes: &[u8]| {
            super::whole(&Readers::default(), FileKind::Csv, Path::new(name), bytes).unwrap().text
        };
        let rows = "Name: Ana; Amount: 40.\nName: Gil; Bo; Amount: 3\".";
        assert_eq!(whole("a.csv", csv.as_bytes()), rows);
        assert_eq!(whole("a.csv", format!("sep=;\r\n{csv}").as_bytes()), rows);
        assert_eq!(whole("a.tsv", b"a\tb,c\n1\t2\n"), "a: 1; b,c: 2.");
        assert_eq!(whole("a.csv", b"a,b\n"), "a; b");
        for (table, expected) in [
            ("Fruit,Colour\nApple,Red\n", "Fruit; Colour.\nApple; Red."),
            ("Fruit,Price\nApple,3\n", "Fruit: Apple; Price: 3."),
            ("Region,2022,2023\nNorth,10,20\n", "Region: North; 2022: 10; 2023: 20."),
            ("Anna,Berlin\nBea,Hamburg\n", "Anna; Berlin.\nBea; Hamburg."),
            ("\"Pump\nold\",240\nHose,35\n", "Pump\nold; 240.\nHose; 35."),
        ] {
            assert_eq!(whole("a.csv", table.as_bytes()), expected);
        }
    }

    #[test]
    fn the_rows_of_a_table_have_a_limit_with_the_names_of_its_columns() {
        let names = format!("{},b\n", "n".repeat(1 << 16));
        let table = |rows: usize| names.clone() + &"1,2\n".repeat(rows);
        let read = |rows: usize| {
            attached(&Readers::default(), FileKind::Csv, "a.csv", table(rows).as_bytes(), 1 << 20)
        };
        assert!(read(15).is_ok());
        assert_eq!(read(16).unwrap_err(), "its text is longer than 1 MiB: split it");
    }

    #[test]
    fn a_reader_that_panics_is_an_error_of_its_file() {
        assert_eq!(guarded(|| Ok::<_, String>(1)), Ok(1));
        let failed = guarded(|| -> Result<(), String> { panic!("a reader") });
        assert!(failed.unwrap_err().contains("reader failed"));
    }

    #[test]
    fn records_become_words() {
        let json = br#"[{"title": "Tent", "price_eur": 40, "seen": true, "tags": ["a", "b"]}, {"title": "Mat"}]"#;
        let text = read(FileKind::Json, "a.json", json).text;
        assert_eq!(text, "title: Tent\nprice eur: 40\nseen: true\ntags: a\ntags: b\n\ntitle: Mat");
        assert_eq!(
            read(FileKind::Json, "a.jsonl", b"{\"a\":\"x\"}\n{\"a\":\"y\"}\n").text,
            "a: x\n\na: y"
        );
    }

    #[test]
    fn the_time_of_an_item_has_any_of_the_usual_names() {
        let lines = b"{\"text\":\"The roof leaks.\",\"ts\":\"2026-04-04T23:30:00-04:00\"}\n\
            {\"text\":\"The door is open.\",\"createdAt\":1770000000}\n";
        let lines = items(FileKind::Json, Path::new("a.jsonl"), lines).unwrap().unwrap();
        let dates: Vec<_> = lines.iter().map(|line| line.date.as_deref()).collect();
        assert_eq!(dates, [Some("2026-04-04T23:30:00-04:00"), Some("2026-02-02T02:40:00+00:00")]);
    }

    #[test]
    fn the_items_of_a_list_keep_their_own_marks() {
        let csv = b"id,title,text,publish\nr1,One,It opens at nine.,no\nr2,Two,It closes.,\n";
        let read = |kind, name: &str, bytes: &[u8]| items(kind, Path::new(name), bytes).unwrap();
        let rows = read(FileKind::Csv, "a.csv", csv).unwrap();
        let shown: Vec<_> =
            rows.iter().map(|row| (row.title.as_deref(), row.text.as_str(), row.publish)).collect();
        assert_eq!(
            shown,
            [
                (Some("One"), "It opens at nine.", Some(false)),
                (Some("Two"), "It closes.", Some(false)),
            ]
        );
        let lines = b"{\"amount\":40,\"who\":\"Ana\",\"private\":true}\n{\"amount\":3}\n";
        let lines = read(FileKind::Json, "a.jsonl", lines).unwrap();
        let shown: Vec<_> = lines.iter().map(|line| (line.text.as_str(), line.publish)).collect();
        assert_eq!(shown, [("amount: 40; who: Ana.", Some(false)), ("amount: 3.", None)]);
        assert_eq!(read(FileKind::Json, "a.json", b"{\"text\": \"x\"}"), None);
        let bare =
            read(FileKind::Csv, "a.csv", b"2026-01-03,Pump,240\n2026-01-04,Hose,35\n").unwrap();
        let bare: Vec<_> = bare.iter().map(|row| row.text.as_str()).collect();
        assert_eq!(bare, ["2026-01-03; Pump; 240.", "2026-01-04; Hose; 35."]);
        let named = read(FileKind::Csv, "a.csv", b"item,2024,price\nPump,3,250\n").unwrap();
        assert_eq!(named[0].text, "item: Pump; 2024: 3; price: 250.");
        // Lines of JSON under another name are a list too, and a broken line hides no mark.
        let lines = b"{\"text\":\"a\"}\n{\"text\":\"b\",\"private\":true}\n";
        let read_lines = read(FileKind::Json, "a.json", lines).unwrap();
        assert_eq!(
            read_lines.iter().map(|one| one.publish).collect::<Vec<_>>(),
            [None, Some(false)]
        );
        for name in ["a.json", "a.jsonl"] {
            let broken = b"{\"text\":\"b\",\"private\":true}\n{\"text\":\n";
            let refused = items(FileKind::Json, Path::new(name), broken).unwrap_err();
            assert!(refused.starts_with("line 2 is not JSON"), "{refused}");
        }
        assert_eq!(read(FileKind::Text, "a.txt", b"x"), None);
    }

    /// What stands beside a text must not get lost, whatever it is called.
    #[test]
    fn an_item_with_a_text_keeps_its_other_members() {
        let csv = b"id,title,name,text,price,internal_note,private\n\
            r1,Pump,Deep well,It leaks.,40,Ask Ana,no\nr2,Hose,,It is new.,,,\n";
        let lines = b"{\"body\":\"It leaks.\",\"price\":40,\"place\":{\"city\":\"Porto\"},\"tags\":[\"a\"]}\n\
            {\"text\":\"It is new.\",\"content\":\"Bought in May.\",\"created_at\":\"2026-05-01\"}\n";
        for (kind, name, bytes, expected) in [
            (
                FileKind::Csv,
                "a.csv",
                &csv[..],
                ["It leaks.\n\nname: Deep well; price: 40; internal note: Ask Ana.", "It is new."],
            ),
            (
                FileKind::Json,
                "a.jsonl",
                lines,
                ["It leaks.\n\nprice: 40; city: Porto.", "It is new.\n\ncontent: Bought in May."],
            ),
        ] {
            let items = items(kind, Path::new(name), bytes).unwrap().unwrap();
            let texts: Vec<&str> = items.iter().map(|one| one.text.as_str()).collect();
            assert_eq!(texts, expected, "{name}");
        }
        let vector = (0..40).map(|at| at.to_string()).collect::<Vec<_>>().join(",");
        let line = format!("[{{\"text\":\"It leaks.\",\"embedding\":[{vector}]}}]");
        let items = items(FileKind::Json, Path::new("a.json"), line.as_bytes()).unwrap().unwrap();
        assert_eq!(items[0].text, "It leaks.");
    }

    #[test]
    fn an_object_with_one_text_is_that_text() {
        let text = |json: &str| {
            let read = read(FileKind::Json, "a.json", json.as_bytes());
            (read.text, read.title, read.publish)
        };
        let boat = "The boat leaves at nine.";
        let one = text(r#"{"title": "Trip", "text": "The boat leaves at nine.", "private": true}"#);
        assert_eq!(one, (boat.to_owned(), Some("Trip".to_owned()), Some(false)));
        for (more, expected) in [
            (r#""body": "It is blue.""#, "It is blue."),
            (r#""price": 40, "place": {"city": "Porto"}, "id": 7"#, "price: 40; city: Porto."),
        ] {
            let json = format!(r#"{{"text": "The boat leaves at nine.", {more}}}"#);
            let (read, ..) = text(&json);
            assert!(read.contains(boat) && read.contains(expected), "{read}");
        }
        let facts = br#"{"body": "The boat leaves at nine.", "subject": "Trip", "tags": ["sea"],
            "from": {"name": "Fay"}, "date": "2026-03-05", "time": "10:30"}"#;
        let read = read(FileKind::Json, "a.json", facts);
        assert_eq!((read.text.as_str(), read.title.as_deref()), (boat, Some("Trip")));
        assert_eq!(
            (read.date.as_deref(), read.labels),
            (Some("2026-03-05T10:30:00"), vec!["sea".to_owned()])
        );
    }

    #[test]
    fn the_projects_of_an_export_are_their_documents() {
        let json = r#"[{"uuid": "1", "name": "Cellar", "description": "Rules of the cellar.", "is_private": true,
            "is_starter_project": false, "prompt_template": "Be brief.", "created_at": "2026-01-02T03:04:05Z",
            "creator": {"uuid": "u", "full_name": "Ana"},
            "docs": [{"uuid": "d", "filename": "keys.txt", "content": "The key hangs by the door.",
                      "created_at": "2026-01-03T00:00:00Z"}, {"uuid": "e", "filename": "empty", "content": ""}]},
            {"uuid": "2", "name": "Empty", "description": "", "prompt_template": "", "docs": []}]"#;
        let all = items(FileKind::Json, Path::new("projects.json"), json.as_bytes());
        let all = all.unwrap().unwrap();
        let shown: Vec<_> = all
            .iter()
            .map(|one| (one.members.get(FILE_NAME), one.text.as_str(), one.publish))
            .collect();
        assert_eq!(
            shown,
            [
                (None, "Rules of the cellar.", Some(false)),
                (Some(&"keys.txt".into()), "The key hangs by the door.", Some(false)),
            ]
        );
        assert!(all.iter().all(|one| one.members["project"] == "Cellar"));
        assert!(all.iter().all(|one| one.title.as_deref() == Some("Cellar")));
        assert_eq!(all[1].date.as_deref(), Some("2026-01-03T00:00:00Z"));
    }

    #[test]
    fn old_encodings_and_line_ends_are_read() {
        let note = read(FileKind::Text, "a.txt", b"caf\xe9\r\ntwo\r\n");
        assert_eq!(note.text, "café\ntwo\n");
        let note = read(FileKind::Markdown, "a", b"---\ntitle: T\npublish: no\n---\nbody");
        assert_eq!((note.title.as_deref(), note.publish), (Some("T"), Some(false)));
    }
}
