//! The files in the archive of an export, each with its kind and its name, as the unpacked folder would give them.

use std::io;

use super::collect::{HIDDEN, NamedFile, PART_OF_EXPORT, is_part_of_export, kind_within};
use super::export_archive::{InArchive, is_hidden};
use super::kind::{FileKind, Group, Refusal, is_conversations};
use super::read::holds_projects;
use crate::os::{Disk, Open};

/// A file of an archive.
pub(super) enum Part {
    File(NamedFile),
    /// Its name, and why it is not read.
    Refused(String, Refusal),
}

/// The files of an archive, by their names.
pub(super) fn parts(archive: &InArchive, file: &NamedFile) -> Vec<Part> {
    let part = |name: &str| {
        let path = file.path.join(name);
        let shown = format!("{}/{name}", file.name);
        let kind = if is_hidden(name) {
            Err(Refusal::new(HIDDEN))
        } else if is_part_of_export(archive, &path) {
            Err(Refusal::new(PART_OF_EXPORT))
        } else {
            kind_of(archive, &path).unwrap_or_else(|why| Err(Refusal::new(why.to_string())))
        };
        match kind {
            // An archive in an archive.
            Ok(FileKind::ChatArchive) => Part::Refused(shown, Refusal::archive()),
            Ok(kind) => {
                let is_main = is_main(archive, &path, kind);
                let name = if is_main { file.name.clone() } else { shown };
                Part::File(NamedFile { in_folder: Some(path.clone()), path, name, kind })
            }
            Err(why) => Part::Refused(shown, why),
        }
    };
    archive.names().into_iter().map(part).collect()
}

fn kind_of(disk: &dyn Disk, path: &std::path::Path) -> io::Result<Result<FileKind, Refusal>> {
    kind_within(&disk.open(path, Open::Read)?, path)
}

/// Whether a file is what the export is made for, so that the archive is the name of its parts: the conversations, or
/// the projects of Claude.
fn is_main(disk: &dyn Disk, path: &std::path::Path, kind: FileKind) -> bool {
    match kind {
        FileKind::ChatGpt | FileKind::Claude => true,
        FileKind::ChatJson => {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name == "result.json" || is_conversations(name)
        }
        kind => is_projects(disk, path, kind),
    }
}

/// Whether a file holds the projects of an export of Claude.
pub(super) fn is_projects(disk: &dyn Disk, path: &std::path::Path, kind: FileKind) -> bool {
    kind == FileKind::Json
        && path.file_name().is_some_and(|name| name == "projects.json")
        && disk.read(path).is_ok_and(|bytes| holds_projects(&bytes))
}

/// Whether `import chat-export` takes a file of an archive.
pub(super) fn is_of_chats(archive: &InArchive, file: &NamedFile) -> bool {
    file.kind.group() == Group::Chat || is_projects(archive, &file.path, file.kind)
}
