//! The files that messages have attached, and whether the export holds them.

use std::path::Path;

use super::LeftOut;
use crate::os::Disk;

/// A file that a message has attached, and whose words are not in the message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attached {
    pub name: String,
    /// What ChatGPT calls it. The name of its file begins so: `file-abc-starter.jpg`.
    pub id: Option<String>,
}

impl Attached {
    /// Whether it is the file of this name.
    fn is(&self, file: &str) -> bool {
        let begins = |id: &str| {
            let rest = file.strip_prefix(id);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', '.']))
        };
        self.name == file || self.id.as_deref().is_some_and(begins)
    }
}

/// Where the file of the messages lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub path: &'a Path,
    /// It was found in a folder or an archive, so that the files beside it are read too.
    pub is_found: bool,
}

/// What is said of attached files. Those in a folder that is read whole are read or skipped there.
pub(super) fn told(
    disk: &dyn Disk,
    place: Place<'_>,
    attached: &[Attached],
) -> impl Iterator<Item = LeftOut> + use<> {
    let names = if attached.is_empty() { Vec::new() } else { files_around(disk, place.path) };
    let (there, gone): (Vec<_>, Vec<_>) =
        attached.iter().partition(|one| names.iter().any(|name| one.is(name)));
    let there = if place.is_found { Vec::new() } else { there };
    let told = |files: Vec<&Attached>, more: &str| {
        let names: Vec<&str> = files.iter().map(|one| one.name.as_str()).collect();
        LeftOut::of_attached(&names, more)
    };
    let there = told(there, "a file of their own beside them");
    told(gone, "not in the export").into_iter().chain(there)
}

/// The names of the files beside a file, and of those in the folders there.
fn files_around(disk: &dyn Disk, file: &Path) -> Vec<String> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let names = disk.list(folder).unwrap_or_default();
    let below = names.iter().flat_map(|name| disk.list(&folder.join(name)).unwrap_or_default());
    let below: Vec<String> = below.collect();
    names.into_iter().chain(below).collect()
}
