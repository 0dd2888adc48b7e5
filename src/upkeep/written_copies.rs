//! What commands wrote into a home beside its own files, and what still holds forgotten summaries: exports, runs with
//! their summary packs, and other files.
//!
//! Contract. A file counts when it names a summary by its id. The folder of an export or of a run is named as a
//! whole, because the rest of it would not pass its own check. What goes of it is what the program writes into such a
//! folder; other files there are those of a person and stay.
//! Links are not followed, and a folder that holds a log is a home or a backup and is not looked into, nor is what cannot be read.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::home::Home;
use crate::os::Disk;

/// Largest file that is looked through.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Deepest folder that is looked into.
const DEPTH_MAX: usize = 16;

/// What holds forgotten summaries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenCopies {
    /// Folders of exports and runs.
    pub folders: BTreeSet<PathBuf>,
    /// Files of other kinds.
    pub files: BTreeSet<PathBuf>,
}

/// Looks through the folders of a home that are not its own.
pub(crate) fn written_copies(
    disk: &dyn Disk,
    home: &Home,
    names_one: &dyn Fn(&[u8]) -> bool,
) -> io::Result<WrittenCopies> {
    let mut copies = WrittenCopies::default();
    let root = disk.real_path(&home.root)?;
    let own = home.kept_folders().into_iter().chain([home.queue.clone()]);
    let own: BTreeSet<PathBuf> = own.filter_map(|path| disk.real_path(&path).ok()).collect();
    let search = Search { disk, own: &own, names_one };
    search.folder(&root, None, 0, &mut copies)?;
    Ok(copies)
}

/// The folders and files of an export and of a run, as they are made.
const OF_EXPORT: &[&str] = &["run"];
const OF_RUN: &[&str] = &[
    "manifest.json",
    "perspectives.json",
    "wave2-perspectives.json",
    "gates.json",
    "pivot.json",
    "operator",
    "wave-1",
    "wave-2",
    "citations",
    "summaries",
    "synthesis",
    "reports",
    "logs",
];

/// Removes exports and runs. Of each folder only what the program makes goes, and the folder when nothing else is in it.
pub(crate) fn remove(disk: &dyn Disk, home: &Home, folders: &BTreeSet<PathBuf>) -> io::Result<()> {
    let buses = home.buses.file_name().map(PathBuf::from).unwrap_or_else(|| BUSES.into());
    for folder in folders {
        let is_export = is_export(disk, folder);
        let own = if is_export { OF_EXPORT } else { OF_RUN };
        let mut own: Vec<PathBuf> = own.iter().map(|name| folder.join(name)).collect();
        if is_export {
            own.extend([folder.join(&buses), folder.join(BUSES)]);
        }
        for path in own {
            // Nothing is followed out of the folder.
            let is_here = disk.real_path(&path).is_ok_and(|real| real == path);
            match disk.stat(&path)?.filter(|_| is_here) {
                Some(stat) if stat.is_dir => disk.remove_dir_all(&path)?,
                Some(_) => disk.remove_file(&path)?,
                None => {}
            }
        }
        if disk.list(folder)?.is_empty() {
            disk.remove_dir_all(folder)?;
        }
        folder.parent().map_or(Ok(()), |parent| disk.sync_dir(parent))?;
    }
    Ok(())
}

const BUSES: &str = "buses";

fn is_export(disk: &dyn Disk, folder: &Path) -> bool {
    matches!(disk.stat(&folder.join(BUSES).join("summaries/manifest")), Ok(Some(_)))
}

struct Search<'a> {
    disk: &'a dyn Disk,
    own: &'a BTreeSet<PathBuf>,
    names_one: &'a dyn Fn(&[u8]) -> bool,
}

impl Search<'_> {
    /// `whole` is the export or the run that this folder is a part of.
    fn folder(
        &self,
        folder: &Path,
        whole: Option<&Path>,
        depth: usize,
        copies: &mut WrittenCopies,
    ) -> io::Result<()> {
        for name in self.disk.list(folder)? {
            let path = folder.join(name);
            if let Err(error) = self.entry(path.clone(), whole, depth, copies) {
                // This program wrote no entry that it cannot read.
                tracing::warn!(%error, path = %path.display(), "this is not looked through for copies");
            }
        }
        Ok(())
    }

    fn entry(
        &self,
        path: PathBuf,
        whole: Option<&Path>,
        depth: usize,
        copies: &mut WrittenCopies,
    ) -> io::Result<()> {
        // A link leads elsewhere.
        let is_here = self.disk.real_path(&path).is_ok_and(|real| real == path);
        if !is_here || self.own.contains(&path) {
            return Ok(());
        }
        let Some(stat) = self.disk.stat(&path)? else { return Ok(()) };
        if stat.is_dir {
            if depth < DEPTH_MAX && !self.has(&path, "run/summarizer.redb") {
                let whole = whole.map(Path::to_owned);
                let whole = whole.or_else(|| self.is_whole(&path).then(|| path.clone()));
                self.folder(&path, whole.as_deref(), depth + 1, copies)?;
            }
        } else if stat.len <= FILE_BYTES_MAX && (self.names_one)(&self.disk.read(&path)?) {
            match whole {
                Some(whole) => copies.folders.insert(whole.to_owned()),
                None => copies.files.insert(path),
            };
        }
        Ok(())
    }

    /// Whether a folder is an export or a run.
    fn is_whole(&self, folder: &Path) -> bool {
        is_export(self.disk, folder)
            || self.has(folder, "manifest.json") && self.has(folder, "perspectives.json")
    }

    fn has(&self, folder: &Path, path: &str) -> bool {
        matches!(self.disk.stat(&folder.join(path)), Ok(Some(_)))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test needs no durable file")]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::Config;
    use crate::os::real::HostDisk;

    #[test]
    fn exports_and_runs_are_found_as_a_whole_and_links_and_backups_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for path in [
            "out/may/buses/summaries/manifest/a.json",
            "out/june/buses/summaries/manifest/b.json",
            "packs/dr_1/manifest.json",
            "packs/dr_1/perspectives.json",
            "packs/dr_1/summaries/summary-pack.json",
            "notes/list.md",
            "run/queue.jsonl",
            "buses/summaries/manifest/c.json",
            "kept/run/summarizer.redb",
            "kept/buses/summaries/manifest/d.json",
        ] {
            let text = if path.contains("june") { "other" } else { "gone" };
            write(path, text);
        }
        std::fs::write(outside.path().join("mine.txt"), "gone").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("link")).unwrap();
        let home = Home::new(&root, &Config::load(None, &BTreeMap::new(), 1).unwrap());
        let copies = written_copies(&HostDisk, &home, &|bytes| bytes == b"gone").unwrap();
        let under = |paths: &[&str]| paths.iter().map(|path| root.join(path)).collect();
        let folders = under(&["out/may", "packs/dr_1"]);
        assert_eq!(copies, WrittenCopies { folders, files: under(&["notes/list.md"]) });
        // What the program made goes, and what a person put beside it stays.
        write("out/may/mine.txt", "mine");
        remove(&HostDisk, &home, &copies.folders).unwrap();
        let there = |path: &str| root.join(path).exists();
        assert_eq!((there("out/may/buses"), there("out/may/mine.txt")), (false, true));
        assert!(!there("packs/dr_1") && there("out/june/buses") && there("notes/list.md"));
        assert!(outside.path().join("mine.txt").exists());
    }
}
