//! Folders of text to chunks: Markdown, HTML and LaTeX by headings, plain text by paragraphs.
//!
//! Contract: a document is identified by its relative path and the hash of its bytes, a chunk by
//! its document, its position and its text. An edited file is a new document beside the old one,
//! so whatever was summarized before stays traceable.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::kind::FileKind;
use super::partition::{CHUNKING_POLICY, partition_of};
use super::read::{Readers, document, guarded, kind_of};
use super::{
    Appender, FoundFiles, HELD_BYTES_MAX, ImportError, NewRecord, Report, Target, decode, files,
    read,
};
use crate::contract::hash::sha256;
use crate::contract::places::folder_of;
use crate::contract::privacy::LOCAL_ONLY;
use crate::contract::publish::{PRIVATE_MARK, mark_of};
use crate::contract::source::FOLDER;
use crate::contract::stable_id::{Part, document_id, stable_id};
use crate::contract::versions::file_of_item;
use crate::markup::document::{FILE_NAME, PROJECT, TEXT_EXTENSIONS};
use crate::markup::members::{FILED_UNDER, folded, name_of_person, names_of, names_people};
use crate::markup::{document as file, markdown};
use crate::upstream::dated;

/// A chunk is closed before it would grow beyond this many bytes, where there is a place to cut.
const CHUNK_BYTES: usize = 4000;
/// Longest member of a document that its chunks carry, as JSON.
const MEMBER_BYTES_MAX: usize = 500;
/// Longest text with the names of people.
const PEOPLE_BYTES_MAX: usize = 16 << 10;
/// Folded members that say for whom a text is, and where it belongs, beside those that say whose it is.
const CONTEXT: [&str; 17] = [
    "to",
    "cc",
    "subject",
    "url",
    "link",
    "permalink",
    "externalurl",
    "project",
    "language",
    "lang",
    "messageid",
    "recordid",
    "listid",
    "conversationid",
    "timestamp",
    "publishedat",
    "feed",
];

/// Where the files of a folder go.
pub(crate) struct Placing<'a> {
    pub partition: &'a str,
    /// Whether a person chose the partition.
    pub is_chosen: bool,
    /// The name under which `add` takes a file.
    pub name_of: &'a dyn Fn(&Path) -> String,
}

/// Imports every text file under a folder into one partition. A file that `add` took keeps its name and
/// its partition, so that its text is there once.
pub(crate) fn import_folder(
    target: Target<'_>,
    folder: &Path,
    placing: &Placing<'_>,
    report: &mut Report,
    mut go_on: impl FnMut() -> bool,
) -> Result<(), ImportError> {
    let mut appender = Appender::chunks(target);
    let (mut records, mut held, mut order) = (BTreeMap::new(), 0, 0);
    let FoundFiles { files, others } = files(target.disk, folder, TEXT_EXTENSIONS)?;
    report.tell_of(others);
    for file in files {
        let relative = file.strip_prefix(folder).ok().filter(|path| *path != Path::new(""));
        let relative = relative.unwrap_or(Path::new(file.file_name().unwrap_or_default()));
        let uri = relative.to_string_lossy().replace('\\', "/");
        let Some(bytes) = read(target, &file, report)? else { continue };
        let named = (placing.name_of)(&file);
        let added_to = match placing.is_chosen {
            true => placing.partition.to_owned(),
            false => partition_of(&named),
        };
        let (partition, uri) = match appender.holds(&added_to, &named, None, report)? {
            true => (added_to, named.clone()),
            false => (placing.partition.to_owned(), uri),
        };
        let folder = folder_of(&named).filter(|_| uri != named);
        let returned = appender.returned(&partition, &uri, &sha256(&bytes).hex(), report)?;
        match chunks_of_file((&uri, folder), &bytes, order, returned) {
            Ok(chunks) => {
                report.files += 1;
                (held, order) = (held + bytes.len(), order + chunks.len() as i64);
                let records: &mut Vec<NewRecord> = records.entry(partition).or_default();
                records.extend(chunks);
            }
            Err(why) => report.reject(&uri, 1, why),
        }
        if held >= HELD_BYTES_MAX {
            take_all(&mut appender, &mut records, report)?;
            held = 0;
        }
        if !go_on() {
            break;
        }
    }
    take_all(&mut appender, &mut records, report)?;
    appender.finish(report)
}

fn take_all(
    appender: &mut Appender<'_>,
    records: &mut BTreeMap<String, Vec<NewRecord>>,
    report: &mut Report,
) -> Result<(), ImportError> {
    let mut records = std::mem::take(records).into_iter();
    records.try_for_each(|(partition, records)| appender.take(&partition, records, report))
}

/// What becomes one chunk of a document.
struct Passage<'a> {
    start: usize,
    text: &'a str,
    headings: Vec<String>,
}

fn chunks_of_file(
    (uri, folder): (&str, Option<&str>),
    bytes: &[u8],
    order: i64,
    returned: u64,
) -> Result<Vec<NewRecord>, String> {
    let mut file = guarded(|| one_document(uri, bytes))?;
    dated::set_heads(std::slice::from_mut(&mut file), uri);
    let checksum = sha256(bytes).hex();
    let id = document_id(uri, &checksum, returned);
    let described =
        Described { uri, folder, checksum: &checksum, returned, id: &id, project: None };
    Ok(chunks_of(&described, &[file], order))
}

/// Reads a text. The content decides what it is and whether it is a text, not the name.
fn one_document(uri: &str, bytes: &[u8]) -> Result<file::Document, String> {
    if bytes.is_empty() {
        return file::read(uri, bytes);
    }
    match kind_of(uri, bytes)? {
        kind @ (FileKind::Pdf | FileKind::Docx | FileKind::Epub) => {
            Err(format!("it is a {} under another name: `summarizer add` reads it", kind.name()))
        }
        // `add` and `sum` read a page in the same way.
        FileKind::Html => document(&Readers::default(), FileKind::Html, Path::new(uri), bytes),
        _ if std::str::from_utf8(bytes).is_ok() => file::read(uri, bytes),
        _ => file::read(uri, decode::text(bytes).ok_or("binary")?.as_bytes()),
    }
}

/// What is known of a document beside its content.
pub(super) struct Described<'a> {
    /// The name a person gives it.
    pub uri: &'a str,
    /// The folder it lies in, where the name does not say it.
    pub folder: Option<&'a str>,
    /// Hash of its bytes.
    pub checksum: &'a str,
    /// The number of this content, where it was there before.
    pub returned: u64,
    pub id: &'a str,
    pub project: Option<&'a str>,
}

/// The chunks of a document, numbered from `order`. Each part has its own marks: the items of a list
/// are the parts of its file.
pub(super) fn chunks_of(
    of: &Described<'_>,
    parts: &[file::Document],
    order: i64,
) -> Vec<NewRecord> {
    let (mut records, mut chars) = (Vec::new(), 0);
    for part in parts {
        add_chunks(of, part, order, chars, &mut records);
        // The chunks of a document are put in order by their characters: those of the parts follow
        // one another.
        chars += part.text.chars().count() + 1;
    }
    records
}

/// Adds the chunks of one part, which begins after `chars` characters of its document.
fn add_chunks(
    of: &Described<'_>,
    file: &file::Document,
    order: i64,
    chars: usize,
    records: &mut Vec<NewRecord>,
) {
    let (uri, document_id) = (of.uri, of.id);
    let (kind, text) = (file.kind, file.text.as_str());
    let name = file_of_item(uri.rsplit('/').next().unwrap_or(uri));
    let title = file.title.as_deref().unwrap_or(name);
    // The text of a page has its headings marked as Markdown marks them.
    let passages = match kind {
        "txt" | "csv" | "json" | "pdf" | PROJECT => by_paragraphs(text, 0, &[]),
        _ => by_headings(text),
    };
    let mut chars_before = (0, chars);
    for passage in &passages {
        let index = records.len() as i64;
        let text_hash = sha256(passage.text).hex();
        let id = stable_id(
            "chk",
            &[
                Part::Text("chunk"),
                Part::Opaque(document_id),
                Part::Integer(index),
                Part::Labelled("text", &text_hash),
            ],
        );
        // Spans are in characters; counted on from the passage before.
        let start = chars_before.1 + text[chars_before.0..passage.start].chars().count();
        let end = start + passage.text.chars().count();
        chars_before = (passage.start + passage.text.len(), end);
        let mut value = json!({
            "schema_version": "chunks.v1",
            "chunk_id": id,
            "document_id": document_id,
            "text": passage.text,
            "span": {"char_range": {"char_start": start, "char_end": end}},
            "source": {"source_uri": uri, "source_type": kind},
            "metadata": {"title": title, "chunk_index": index, "header_path": passage.headings},
            "hashes": {"text_hash": text_hash},
            "provenance": provenance(of, kind),
        });
        of.folder.into_iter().for_each(|folder| value["source"][FOLDER] = folder.into());
        let metadata = &mut value["metadata"];
        if let Some(publish) = file.publish {
            metadata["publish"] = json!(publish);
            let mark = mark_of(&file.members).filter(|_| !publish);
            mark.into_iter().for_each(|mark| metadata[PRIVATE_MARK] = mark.into());
        }
        if file.is_local_only() {
            metadata[LOCAL_ONLY] = true.into();
        }
        if let Some(date) = &file.date {
            metadata["date"] = json!(date);
        }
        if !file.labels.is_empty() {
            metadata["labels"] = json!(file.labels);
        }
        let filed_under = file.filed_under();
        if !filed_under.is_empty() {
            metadata[FILED_UNDER] = filed_under.into();
        }
        let kept = file.members.iter().filter(|(name, _)| is_context(name));
        for (name, value) in kept.filter_map(|(name, value)| Some((name, short(name, value)?))) {
            if metadata.get(name).is_none() {
                metadata[name.as_str()] = value;
            }
        }
        // People know what a project holds by the names of its files.
        if kind == PROJECT
            && let Some(name) = file.members.get(FILE_NAME)
        {
            metadata[FILE_NAME] = name.clone();
        }
        // The project of everything that names none itself.
        let names_one = file.members.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("project")
                && value.as_str().is_some_and(|name| !name.trim().is_empty())
        });
        if let Some(project) = of.project.filter(|_| !names_one) {
            metadata["project"] = json!(project);
        }
        records.push(NewRecord { order: order + index, id, value });
    }
}

/// A member that is short enough; of a long record of a person, such as one with addresses of pictures, the name. Of
/// many people the names, however many they are: a rule about one of them must not miss the text.
fn short(name: &str, value: &Value) -> Option<Value> {
    let is_short = |value: &Value| value.to_string().len() <= MEMBER_BYTES_MAX;
    if is_short(value) {
        return Some(value.clone());
    }
    let names = match value {
        Value::Object(_) => name_of_person(value).map(Value::from),
        Value::Array(_) if names_people(name) => Some(names_of(value).into()),
        Value::String(_) if names_people(name) => Some(value.clone()),
        _ => None,
    };
    names.filter(|value| value.is_array() || value.to_string().len() <= PEOPLE_BYTES_MAX)
}

fn is_context(name: &str) -> bool {
    CONTEXT.contains(&folded(name).as_str()) || names_people(name)
}

fn provenance(of: &Described<'_>, kind: &str) -> Value {
    let (uri, checksum) = (of.uri, of.checksum);
    let version = env!("CARGO_PKG_VERSION");
    let mut provenance = json!({
        "source_uri": uri,
        "source_checksum": checksum,
        "parser": {"parser_name": format!("summarizer-{kind}"), "parser_version": version},
        "canonicalizer": {"canonicalizer_name": CHUNKING_POLICY, "canonicalizer_version": version},
        "inputs": [{"path": uri, "checksum": checksum}],
    });
    if of.returned > 0 {
        provenance["returned"] = of.returned.into();
    }
    provenance
}

/// Sections under their headings; a long section is cut further, by paragraphs.
fn by_headings(text: &str) -> Vec<Passage<'_>> {
    let mut passages = Vec::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut start = 0;
    let names = |path: &[(usize, String)]| -> Vec<String> {
        path.iter().map(|(_, title)| title.clone()).collect()
    };
    for heading in markdown::headings(text) {
        passages.extend(by_paragraphs(&text[start..heading.start], start, &names(&path)));
        path.retain(|(above, _)| *above < heading.level);
        path.push((heading.level, heading.title.to_owned()));
        start = heading.start;
    }
    passages.extend(by_paragraphs(&text[start..], start, &names(&path)));
    passages
}

/// Paragraphs joined up to the size of a chunk. `base` is where `text` begins in the document.
fn by_paragraphs<'a>(text: &'a str, base: usize, headings: &[String]) -> Vec<Passage<'a>> {
    let mut passages = Vec::new();
    let (mut start, mut offset) = (0, 0);
    let mut push = |from: usize, to: usize| {
        let inner = text[from..to].trim();
        if !inner.is_empty() {
            let lead = text[from..to].len() - text[from..to].trim_start().len();
            let start = base + from + lead;
            passages.push(Passage { start, text: inner, headings: headings.to_vec() });
        }
    };
    for line in text.split_inclusive('\n') {
        let long = offset + line.len() - start > CHUNK_BYTES;
        if long && offset > start && (line.trim().is_empty() || offset - start > CHUNK_BYTES / 2) {
            push(start, offset);
            start = offset;
        }
        offset += line.len();
    }
    push(start, text.len());
    passages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::schema;

    #[test]
    fn markdown_is_cut_at_headings_but_not_in_code() {
        let text = "intro é\n\n# One\nbody\n```\n# not a heading\n```\n## Two\nmore\n";
        let chunks = chunks_of_file(("a/b.md", None), text.as_bytes(), 0, 0).unwrap();
        let texts: Vec<_> =
            chunks.iter().map(|chunk| chunk.value["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["intro é", "# One\nbody\n```\n# not a heading\n```", "## Two\nmore"]);
        assert_eq!(chunks[2].value["metadata"]["header_path"], json!(["One", "Two"]));
        for chunk in &chunks {
            assert_eq!(schema::check("chunks.v1", &chunk.value), []);
            let range = &chunk.value["span"]["char_range"];
            let (start, end) =
                (range["char_start"].as_u64().unwrap(), range["char_end"].as_u64().unwrap());
            let cut: String =
                text.chars().skip(start as usize).take((end - start) as usize).collect();
            assert_eq!(cut, chunk.value["text"].as_str().unwrap());
        }
    }

    #[test]
    fn every_chunk_of_a_text_that_stays_here_says_so() {
        for front in ["local_only: true", "meta:\n  Local only: yes"] {
            let text = format!("---\n{front}\n---\n# One\nbody\n\n# Two\nmore\n");
            let chunks = chunks_of_file(("a.md", None), text.as_bytes(), 0, 0).unwrap();
            let said = chunks.iter().map(|chunk| &chunk.value["metadata"]["local_only"]);
            assert_eq!(said.collect::<Vec<_>>(), [&json!(true), &json!(true)], "{front}");
        }
    }

    #[test]
    fn long_text_is_cut_at_paragraphs_and_ids_depend_on_content() {
        let text = "word ".repeat(300) + "\n\n" + &"more ".repeat(700) + "\n\n" + "end";
        let chunks = chunks_of_file(("a.txt", None), text.as_bytes(), 0, 0).unwrap();
        assert!(chunks.len() >= 2, "{}", chunks.len());
        let again = chunks_of_file(("a.txt", None), text.as_bytes(), 0, 0).unwrap();
        assert_eq!(chunks, again);
        let edited = chunks_of_file(("a.txt", None), (text + "!").as_bytes(), 0, 0).unwrap();
        assert_ne!(chunks[0].id, edited[0].id);
        assert!(chunks_of_file(("a.txt", None), b"\0\x01", 0, 0).is_err());
    }
}
