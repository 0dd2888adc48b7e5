//! Which file a record was taken from, for searches: people know a mail and a chat by their files too.
//!
//! Contract: it reads the buses as they are, without their manifests, because the answer only helps to find a summary.

use std::collections::BTreeMap;
use std::path::Path;

use memchr::memmem;
use serde_json::Value;

use super::Family;
use crate::contract::places::folded;
use crate::contract::versions::file_of_item;
use crate::os::Disk;

/// The files whose names have at least one of these folded words, by the ids of what was taken from them.
pub(crate) fn files_with_words(
    disk: &dyn Disk,
    buses: &Path,
    words: &[String],
) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    // The file that was imported, and what was within it: what is attached to a mail, a document of a project.
    let members = ["\"source_uri\":\"", "\"file_name\":\""].map(memmem::Finder::new);
    for family in [Family::Events, Family::Chunks] {
        let folder = buses.join(family.data_dir());
        for name in disk.list(&folder).unwrap_or_default() {
            let bytes = disk.read(&folder.join(name)).unwrap_or_default();
            for line in bytes.split(|byte| *byte == b'\n') {
                // Most lines are of other files, and need not be read.
                let is_meant = members.iter().any(|member| {
                    let Some(at) = member.find(line) else { return false };
                    let name = &line[at + member.needle().len()..];
                    let name = name.split(|byte| *byte == b'"').next().unwrap_or_default();
                    let name = folded(&String::from_utf8_lossy(name));
                    name.contains('\\') || words.iter().any(|word| name.contains(word.as_str()))
                });
                if is_meant {
                    take(line, &mut files);
                }
            }
        }
    }
    files
}

fn take(line: &[u8], files: &mut BTreeMap<String, String>) {
    let Ok(record) = serde_json::from_slice::<Value>(line) else { return };
    let places = ["/source/source_uri", "/provenance/source_uri"];
    let Some(uri) = places.iter().find_map(|place| record.pointer(place)?.as_str()) else { return };
    let within = ["/file_name", "/metadata/file_name"];
    let within = within.iter().find_map(|place| record.pointer(place)?.as_str());
    let name =
        [Some(file_of_item(uri)), within].into_iter().flatten().collect::<Vec<_>>().join(" ");
    for id in ["event_id", "chunk_id", "document_id"] {
        if let Some(id) = record[id].as_str() {
            // A document has the names of all its parts.
            let known: &mut String = files.entry(id.to_owned()).or_default();
            if !known.contains(&name) {
                known.push_str(&format!("{name} "));
            }
        }
    }
}
