//! The mark of a forgetting that is not finished: a file beside the log.
//!
//! Contract. It names what a person took back. It is durable before the fact is in the log, and it goes once
//! everything that is shown was made anew. So a log that is lost or older than the fact does not bring a text
//! back: whoever takes the home, or rebuilds its log, carries out what the mark names. A backup has it too.
//!
//! See docs/adr/0131-forgetting.md.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::forget::Wanted;
use crate::os::Disk;

/// Readable by its owner only, as the log is.
const MODE: u32 = 0o600;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Mark {
    summaries: BTreeSet<String>,
    sources: BTreeSet<String>,
    files: BTreeSet<String>,
}

/// What is not finished; `None` when nothing is left. A mark that does not read is an error.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Wanted>> {
    let Some(bytes) = disk.read_if_present(path)? else { return Ok(None) };
    let Mark { summaries, sources, files } = serde_json::from_slice(&bytes)?;
    Ok(Some(Wanted { summaries, sources, files }))
}

/// Sets the mark, durably. What an earlier one names stays in it.
pub(crate) fn set(disk: &dyn Disk, path: &Path, wanted: &Wanted) -> io::Result<()> {
    let mut all = read(disk, path)?.unwrap_or_default();
    all.summaries.extend(wanted.summaries.iter().cloned());
    all.sources.extend(wanted.sources.iter().cloned());
    all.files.extend(wanted.files.iter().cloned());
    let Wanted { summaries, sources, files } = all;
    disk.replace(path, &serde_json::to_vec(&Mark { summaries, sources, files })?, MODE)
}

/// Everything was made anew.
pub(crate) fn clear(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if disk.stat(path)?.is_none() {
        return Ok(());
    }
    disk.remove_file(path)?;
    path.parent().map_or(Ok(()), |folder| disk.sync_dir(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::sim::SimDisk;

    #[test]
    fn a_mark_names_all_that_is_left_until_it_is_cleared() {
        let (disk, path) = (SimDisk::new(), Path::new("/forgetting.json"));
        let disk: &dyn Disk = &disk;
        let names = |name: &str| BTreeSet::from([name.to_owned()]);
        assert!(read(disk, path).unwrap().is_none());
        clear(disk, path).unwrap();
        set(disk, path, &Wanted { sources: names("a"), ..Wanted::default() }).unwrap();
        set(disk, path, &Wanted { files: names("b"), ..Wanted::default() }).unwrap();
        let left = read(disk, path).unwrap().unwrap();
        assert_eq!((left.sources, left.files), (names("a"), names("b")));
        disk.replace(path, b"{", MODE).unwrap();
        assert!(read(disk, path).is_err(), "what does not read is not nothing");
        clear(disk, path).unwrap();
        assert!(read(disk, path).unwrap().is_none());
    }
}
