//! What people know a record by beside its summary, for searches: a mail and a chat by their files, and a row of a list
//! by its own names.
//!
//! Contract: it reads the buses as they are, without their manifests, because the answer only helps to find a summary.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Family;
use super::lines::Lines;
use super::record_names::{cells, ids_and_addresses, is_row, own_names, shown_row};
use crate::contract::places::without_accents as folded;
use crate::contract::versions::file_of_item;
use crate::markup::document::FILE_NAME;
use crate::os::Disk;

/// The member that names the file of a record.
const MEMBER: &[u8] = b"\"source_uri\"";

/// What a source is known by beside its summary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownBy {
    /// The names of its files, and of what was within them; its ids and addresses.
    pub names: String,
    /// The text of its first row whose names, with those of its file, have all words.
    pub row: Option<String>,
}

/// What a record says of its file: the one that was imported, and what was within it, as what is attached to a mail and
/// a document of a project.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Filed<'r> {
    event_id: Option<String>,
    chunk_id: Option<String>,
    document_id: Option<String>,
    file_name: Option<String>,
    url: Value,
    source: Named,
    provenance: Named,
    metadata: Map<String, Value>,
    #[serde(borrow)]
    text: Option<&'r RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    source_uri: Option<String>,
    source_type: Option<String>,
    source_record_id: Value,
}

/// What has at least one of these folded words in its names, by the ids of what was taken from it.
pub(crate) fn files_with_words(
    disk: &dyn Disk,
    buses: &Path,
    words: &[String],
) -> BTreeMap<String, KnownBy> {
    let mut files = BTreeMap::new();
    for family in [Family::Events, Family::Chunks] {
        let folder = buses.join(family.data_dir());
        for name in disk.list(&folder).unwrap_or_default() {
            // A file that cannot be read names nothing.
            let _ = take_file(disk, &folder, &name, words, &mut files);
        }
    }
    files
}

/// The files below a folder from which events were taken.
pub(crate) fn event_files_below(disk: &dyn Disk, buses: &Path, folder: &str) -> BTreeSet<String> {
    let below = format!("{folder}/");
    let mut files = BTreeSet::new();
    let events = buses.join(Family::Events.data_dir());
    for name in disk.list(&events).unwrap_or_default() {
        // A file that cannot be read names nothing.
        let _ = each_line(disk, &events, &name, &mut |line| {
            let named = memmem::find_iter(line, MEMBER).filter_map(|at| value_at(&line[at..]));
            let named = named.map(|uri| file_of_item(&uri).to_owned());
            files.extend(named.filter(|name| name.starts_with(&below)));
        });
    }
    files
}

/// The text that a member of this name has, of which the line begins with the name.
fn value_at(line: &[u8]) -> Option<String> {
    let value = line[MEMBER.len()..].trim_ascii_start().strip_prefix(b":")?;
    serde_json::Deserializer::from_slice(value).into_iter::<String>().next()?.ok()
}

fn take_file(
    disk: &dyn Disk,
    folder: &Path,
    name: &str,
    words: &[String],
    files: &mut BTreeMap<String, KnownBy>,
) -> io::Result<()> {
    each_line(disk, folder, name, &mut |line| {
        if memmem::find(line, MEMBER).is_some()
            && let Ok(record) = serde_json::from_slice(line)
        {
            take(record, words, files);
        }
    })
}

fn each_line(
    disk: &dyn Disk,
    folder: &Path,
    name: &str,
    take: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let file = disk.open_beneath(folder, &folder.join(name))?;
    let len = file.stat()?.len;
    let mut lines = Lines::new(file, len);
    while let Some((_, line)) = lines.next_line()? {
        take(line);
    }
    Ok(())
}

fn take(record: Filed<'_>, words: &[String], found: &mut BTreeMap<String, KnownBy>) {
    let Filed { source, provenance, metadata, .. } = &record;
    let Some(uri) = source.source_uri.as_ref().or(provenance.source_uri.as_ref()) else { return };
    let file = file_of_item(uri);
    let within = record.file_name.as_deref().or(metadata.get(FILE_NAME).and_then(Value::as_str));
    let own = [&record.url, &source.source_record_id].into_iter().filter_map(Value::as_str);
    let own = own.chain(ids_and_addresses(metadata));
    // Many ids and addresses have the same words in them, such as the name of a site.
    let own = own.filter(|name| words.iter().any(|word| is_whole(name, word)));
    let is_row = source.source_type.as_deref().is_some_and(is_row);
    let names = [Some(file), within].into_iter().flatten().chain(own.filter(|_| !is_row));
    let name = names.collect::<Vec<_>>().join(" ");
    let plain = folded(&name);
    let is_named = words.iter().any(|word| plain.contains(word.as_str()));
    let row = is_row.then(|| row_with_words(&record, file, words)).flatten();
    if !is_named && row.is_none() {
        return;
    }
    for id in [record.event_id, record.chunk_id, record.document_id].into_iter().flatten() {
        let known = found.entry(id).or_default();
        // A document has the names of all its parts.
        if is_named && !known.names.contains(&name) {
            known.names.push_str(&format!("{name} "));
        }
        if known.row.is_none() {
            known.row.clone_from(&row);
        }
    }
}

/// Whether a folded word is a whole id or address.
fn is_whole(name: &str, word: &str) -> bool {
    let bare = |text: &str| text.trim_start_matches('<').trim_end_matches('>').to_owned();
    bare(&folded(name)) == bare(word)
}

/// The text of a row of which the names, with those of its file, have all words.
fn row_with_words(record: &Filed<'_>, file_name: &str, words: &[String]) -> Option<String> {
    let text: String = serde_json::from_str(record.text?.get()).ok()?;
    let names: Vec<&str> = own_names(&record.metadata, file_name).chain(cells(&text)).collect();
    let (addresses, names): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| name.contains("://"));
    let (names, file) = (folded(&names.join(" ")), folded(file_name));
    let is_own = |word: &String| {
        names.contains(word.as_str()) || addresses.iter().any(|name| is_whole(name, word))
    };
    // The file alone names all its rows, and none of them.
    let is_one = words.iter().any(is_own)
        && words.iter().all(|word| is_own(word) || file.contains(word.as_str()));
    is_one.then(|| shown_row(&record.metadata, file_name, &text))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test writes buses as other programs do")]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    fn a_record_names_its_file_however_its_json_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(Family::Chunks.data_dir());
        std::fs::create_dir_all(&folder).unwrap();
        let lines = [
            r#"{"chunk_id": "c1", "provenance": {"source_uri": "Roof/minutes.md"}}"#,
            r#"{"chunk_id":"c2","provenance":{"source_uri":"p\u0075mp.md"},"metadata":{"file_name": "roof.txt"}}"#,
            r#"{"chunk_id":"c3","text":"roof","provenance":{"source_uri":"well.md"}}"#,
            r#"no JSON with "source_uri""#,
        ];
        std::fs::write(folder.join("a.chunks.jsonl"), lines.join("\n")).unwrap();
        let found = |word: &str| {
            let files = files_with_words(&HostDisk, dir.path(), &[word.to_owned()]);
            files.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(found("roof"), ["c1", "c2"]);
        assert_eq!(found("pump"), ["c2"]);
    }

    #[test]
    fn a_row_is_found_by_its_own_names_and_its_list_by_the_row() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(Family::Chunks.data_dir());
        std::fs::create_dir_all(&folder).unwrap();
        let row = |id: &str, number: u32, title: &str, text: &str| {
            serde_json::json!({"chunk_id": id, "document_id": "d", "text": text,
                "source": {"source_uri": "parts.json", "source_type": "json"},
                "metadata": {"title": title, "record_id": format!("R-{number}"), "url": format!("https://x.example/{number}")}})
            .to_string()
        };
        let lines = [
            row("c1", 1001, "Oak chair", "It is stable."),
            row("c2", 1002, "Walnut table", "shelf no: S-9; note: It has a scratch."),
            r#"{"event_id":"e1","url":"https://x.example/news","source":{"source_uri":"f.xml","source_record_id":"tag:7"}}"#.to_owned(),
        ];
        std::fs::write(folder.join("a.chunks.jsonl"), lines.join("\n")).unwrap();
        let found = |query: &[&str]| {
            let words: Vec<String> = query.iter().map(|word| folded(word)).collect();
            files_with_words(&HostDisk, dir.path(), &words)
        };
        for query in [&["R-1002"][..], &["walnut", "parts"], &["https://x.example/1002"], &["s-9"]]
        {
            let found = found(query);
            let row = found["d"].row.as_deref().unwrap();
            assert!(row.contains("Walnut table") && row.contains("scratch"), "{query:?}: {row}");
            assert_eq!(found["c2"].row, found["d"].row);
        }
        assert!(found(&["parts"]).values().all(|one| one.row.is_none() && !one.names.is_empty()));
        assert!(found(&["walnut", "R-1001"]).is_empty());
        assert!(found(&["https://x.example/news"])["e1"].names.contains("f.xml"));
        assert_eq!(found(&["tag:7"]).len(), 1);
        // The name of a site finds not all of its pages.
        assert!(found(&["x.example"]).is_empty());
    }
}
