//! The texts that were pasted into the page, or uploaded there. They lie in the folder `texts` of the home, and
//! the home has the only copy.
//!
//! Contract. A list says which files these are, by name and content. A person may keep files of their own in
//! that folder, or change one of these; such a file is never removed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::contract::hash::sha256;
use crate::home::Home;
use crate::os::Disk;

/// The folder, below the home.
pub(super) const TEXTS: &str = "texts";

/// The files by name, with the hash of what was pasted.
type Pasted = BTreeMap<String, String>;

fn list(disk: &dyn Disk, home: &Home) -> io::Result<Pasted> {
    let Some(bytes) = disk.read_if_present(&home.pasted())? else { return Ok(Pasted::new()) };
    // A list that cannot be read names nothing, and what it does not name stays.
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

fn write(disk: &dyn Disk, home: &Home, pasted: &Pasted) -> io::Result<()> {
    disk.replace(&home.pasted(), serde_json::to_string(pasted)?.as_bytes(), 0o600)
}

/// Adds a file to the list. The caller holds the lock of imports.
pub(super) fn remember(disk: &dyn Disk, home: &Home, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let (mut pasted, hash) = (list(disk, home)?, sha256(bytes).hex());
    if pasted.get(name) == Some(&hash) {
        return Ok(());
    }
    pasted.insert(name.to_owned(), hash);
    write(disk, home, &pasted)
}

/// Removes those of these files that were pasted and are unchanged. `files` are names for a person, such as
/// `texts/roof.md`. The caller holds the lock of imports.
pub(super) fn remove(disk: &dyn Disk, home: &Home, files: &BTreeSet<String>) -> io::Result<()> {
    let mut pasted = list(disk, home)?;
    let is_named = |name: &String| files.contains(&format!("{TEXTS}/{name}"));
    let named: Vec<String> = pasted.keys().filter(|name| is_named(name)).cloned().collect();
    if named.is_empty() {
        return Ok(());
    }
    for name in &named {
        let hash = pasted.remove(name);
        // The list is a file too, and must not lead out of the folder.
        if Path::new(name).file_name() != Some(name.as_ref()) {
            continue;
        }
        let path = home.root.join(TEXTS).join(name);
        let present = disk.read_if_present(&path)?.map(|bytes| sha256(bytes).hex());
        if present.is_some() && present == hash {
            disk.remove_file(&path)?;
        }
    }
    write(disk, home, &pasted)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test needs no durable file")]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::os::real::HostDisk;

    #[test]
    fn only_pasted_texts_that_are_unchanged_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path(), &Config::load(None, &BTreeMap::new(), 1).unwrap());
        let texts = dir.path().join(TEXTS);
        std::fs::create_dir_all(&texts).unwrap();
        std::fs::create_dir_all(home.run()).unwrap();
        for name in ["pasted.md", "changed.md", "own.md"] {
            std::fs::write(texts.join(name), name).unwrap();
        }
        std::fs::write(dir.path().join("victim.txt"), "v").unwrap();
        for name in ["pasted.md", "changed.md"] {
            remember(&HostDisk, &home, &texts.join(name), name.as_bytes()).unwrap();
        }
        std::fs::write(texts.join("changed.md"), "my own words").unwrap();
        let mut listed = list(&HostDisk, &home).unwrap();
        listed.insert("../victim.txt".to_owned(), sha256("v").hex());
        write(&HostDisk, &home, &listed).unwrap();
        let names = ["pasted.md", "changed.md", "own.md", "../victim.txt"];
        let files = names.iter().map(|name| format!("texts/{name}")).collect();
        remove(&HostDisk, &home, &files).unwrap();
        let left = |name: &str| texts.join(name).exists();
        assert_eq!(names.map(left), [false, true, true, true]);
        assert!(list(&HostDisk, &home).unwrap().is_empty());
    }
}
