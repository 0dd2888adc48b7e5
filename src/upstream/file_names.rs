//! Which file a record was taken from, for searches: people know a mail and a chat by their files too.
//!
//! Contract: it reads the buses as they are, without their manifests, because the answer only helps to find a summary.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use memchr::memmem;
use serde::Deserialize;

use super::Family;
use super::lines::Lines;
use crate::contract::places::folded;
use crate::contract::versions::file_of_item;
use crate::os::Disk;

/// The member that names the file of a record.
const MEMBER: &[u8] = b"\"source_uri\"";

/// What a record says of its file: the one that was imported, and what was within it, as what is attached to a mail and
/// a document of a project.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Filed {
    event_id: Option<String>,
    chunk_id: Option<String>,
    document_id: Option<String>,
    file_name: Option<String>,
    source: Named,
    provenance: Named,
    metadata: Named,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    source_uri: Option<String>,
    file_name: Option<String>,
}

/// The files whose names have at least one of these folded words, by the ids of what was taken from them.
pub(crate) fn files_with_words(
    disk: &dyn Disk,
    buses: &Path,
    words: &[String],
) -> BTreeMap<String, String> {
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
    files: &mut BTreeMap<String, String>,
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

fn take(record: Filed, words: &[String], files: &mut BTreeMap<String, String>) {
    let Filed { source, provenance, metadata, .. } = record;
    let Some(uri) = source.source_uri.or(provenance.source_uri) else { return };
    let within = record.file_name.or(metadata.file_name);
    let name = [Some(file_of_item(&uri)), within.as_deref()];
    let name = name.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let folded = folded(&name);
    if !words.iter().any(|word| folded.contains(word.as_str())) {
        return;
    }
    for id in [record.event_id, record.chunk_id, record.document_id].into_iter().flatten() {
        // A document has the names of all its parts.
        let known: &mut String = files.entry(id).or_default();
        if !known.contains(&name) {
            known.push_str(&format!("{name} "));
        }
    }
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
}
