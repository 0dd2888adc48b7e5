//! The files that some paths lead to, each with its kind and its name, and what is left out with the
//! reason.
//!
//! Contract: files under a folder come sorted. Hidden files and links inside a folder are passed
//! over; a path that is given directly is always taken.

use std::io;
use std::path::{Path, PathBuf};

use super::kind::{FileKind, HEAD_BYTES, Refusal};
use super::{DOCUMENT_BYTES_MAX, FOLDER_DEPTH_MAX, ImportError, disk_error};
use crate::os::{Disk, Open};

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub path: PathBuf,
    /// The path as the person gave it, with the rest below a folder.
    pub name: String,
    pub kind: FileKind,
}

/// A file that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub name: String,
    pub why: String,
    /// Whether the person named it, and not a folder above it.
    pub named: bool,
}

/// What some paths lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    pub files: Vec<NamedFile>,
    pub skipped: Vec<Skipped>,
}

/// Walks the paths in their order.
pub(crate) fn collect(disk: &dyn Disk, paths: &[PathBuf]) -> Result<Collected, ImportError> {
    let mut found = Collected::default();
    for path in paths {
        let stat = disk.stat(path).map_err(disk_error("inspect", path))?;
        match stat {
            None => {
                let missing = io::Error::from(io::ErrorKind::NotFound);
                return Err(disk_error("open", path)(missing));
            }
            Some(stat) if stat.is_dir => walk(disk, path, 0, &mut found)?,
            Some(_) => take(disk, path, true, &mut found),
        }
    }
    Ok(found)
}

fn walk(
    disk: &dyn Disk,
    folder: &Path,
    depth: usize,
    found: &mut Collected,
) -> Result<(), ImportError> {
    if depth == FOLDER_DEPTH_MAX {
        let why = format!("deeper than {FOLDER_DEPTH_MAX} folders");
        found.skipped.push(Skipped { name: folder.display().to_string(), why, named: false });
        return Ok(());
    }
    let real = disk.real_path(folder).map_err(disk_error("inspect", folder))?;
    let mut names = disk.list(folder).map_err(disk_error("list", folder))?;
    names.sort();
    for name in names.iter().filter(|name| !name.starts_with('.')) {
        let inner = folder.join(name);
        if disk.real_path(&inner).map_or(true, |at| at != real.join(name)) {
            continue;
        }
        match disk.stat(&inner).map_err(disk_error("inspect", &inner))? {
            Some(stat) if stat.is_dir => walk(disk, &inner, depth + 1, found)?,
            Some(_) => take(disk, &inner, false, found),
            None => {}
        }
    }
    Ok(())
}

fn take(disk: &dyn Disk, path: &Path, named: bool, found: &mut Collected) {
    let shown = path.strip_prefix(".").unwrap_or(path).display().to_string();
    match kind_of(disk, path) {
        Ok(kind) => found.files.push(NamedFile { path: path.to_owned(), name: shown, kind }),
        Err(why) => found.skipped.push(Skipped { name: shown, why, named }),
    }
}

fn kind_of(disk: &dyn Disk, path: &Path) -> Result<FileKind, String> {
    let unread = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => "no permission".to_owned(),
        _ => error.to_string(),
    };
    let meta = std::fs::metadata(path).map_err(unread)?;
    if !meta.is_file() {
        return Err("not a regular file".to_owned());
    }
    if meta.len() > DOCUMENT_BYTES_MAX {
        return Err(format!("larger than {} MiB", DOCUMENT_BYTES_MAX >> 20));
    }
    let file = disk.open(path, Open::Read).map_err(unread)?;
    let mut head = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64).map_err(unread)? {
            0 => break,
            count => filled += count,
        }
    }
    head.truncate(filled);
    let found = FileKind::of(path, &head, &mut || disk.read(path)).map_err(unread)?;
    found.map_err(|Refusal(why)| why)
}

/// What was left out, counted by the reason and the end of the name:
/// `skipped 3: 2 .key (no reader), 1 .bin (binary)`.
pub(crate) fn in_short(skipped: &[Skipped]) -> String {
    let mut groups: Vec<(String, usize)> = Vec::new();
    for one in skipped {
        let extension = super::kind::extension(Path::new(&one.name));
        // The text after a colon is advice for a single file, so it is left out here.
        let why = one.why.split(':').next().unwrap_or_default();
        let group = match extension.as_str() {
            "" => format!("({why})"),
            extension => format!(".{extension} ({why})"),
        };
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, count)) => *count += 1,
            None => groups.push((group, 1)),
        }
    }
    groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let groups: Vec<String> =
        groups.iter().map(|(name, count)| format!("{count} {name}")).collect();
    format!("skipped {}: {}", skipped.len(), groups.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    fn a_folder_gives_its_files_sorted_and_says_what_it_leaves_out() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        for (name, bytes) in [
            ("b.md", &b"# B"[..]),
            ("a.txt", b"words"),
            ("sub/c.key", b"\0\x01\x02"),
            ("sub/d.key", b"\0\x01\x02"),
            ("empty.txt", b""),
            (".hidden.txt", b"hidden"),
        ] {
            let path = dir.path().join(name);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.replace(&path, bytes, 0o640).unwrap();
        }
        std::os::unix::fs::symlink("a.txt", dir.path().join("link.txt")).unwrap();
        let found = collect(disk, &[dir.path().to_owned()]).unwrap();
        let names: Vec<_> = found.files.iter().map(|file| file.path.file_name().unwrap()).collect();
        assert_eq!(names, ["a.txt", "b.md"]);
        assert_eq!(in_short(&found.skipped), "skipped 3: 2 .key (binary), 1 .txt (empty)");
        let link = collect(disk, &[dir.path().join("link.txt")]).unwrap();
        assert_eq!(link.files.len(), 1, "a link that is named is taken");
        assert!(collect(disk, &[dir.path().join("nowhere")]).is_err());
    }
}
