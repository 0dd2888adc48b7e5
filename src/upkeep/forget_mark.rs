//! The mark of a forgetting that is not finished: a file beside the log.
//!
//! Contract. It names what a person took back. It is durable before the fact is in the log, and it goes once
//! everything that is shown was made anew. So a log that is lost or older than the fact does not bring a text
//! back: whoever takes the home, or rebuilds its log, carries out what the mark names. A backup has it too.
//! A host that follows sets it before it takes the fact of the host that leads.
//!
//! See docs/adr/0131-forgetting.md.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::forget::Wanted;
use crate::contract::hash::Digest;
use crate::os::Disk;

/// Readable by its owner only, as the log is.
const MODE: u32 = 0o600;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Mark {
    summaries: BTreeSet<String>,
    sources: BTreeSet<String>,
    files: BTreeSet<String>,
    lines: BTreeSet<String>,
    of_log: bool,
}

/// What is not finished.
#[derive(Debug, Clone)]
pub(crate) struct Marked {
    pub wanted: Wanted,
    /// Whether a shared log told this host all of it. Otherwise its own log may lack the fact.
    pub is_of_log: bool,
}

/// What is not finished; `None` when nothing is left. A mark that does not read is an error.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Marked>> {
    let Some(bytes) = disk.read_if_present(path)? else { return Ok(None) };
    let Mark { summaries, sources, files, lines, of_log } = serde_json::from_slice(&bytes)?;
    let lines = lines.iter().map(|hash| hash.parse());
    let lines = lines.collect::<Result<_, _>>().map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Some(Marked { wanted: Wanted { summaries, sources, files, lines }, is_of_log: of_log }))
}

/// Sets the mark, durably. What an earlier one names stays in it.
pub(crate) fn set(disk: &dyn Disk, path: &Path, marked: &Marked) -> io::Result<()> {
    let mut all = marked.clone();
    if let Some(Marked { wanted, is_of_log }) = read(disk, path)? {
        all.wanted.summaries.extend(wanted.summaries);
        all.wanted.sources.extend(wanted.sources);
        all.wanted.files.extend(wanted.files);
        all.wanted.lines.extend(wanted.lines);
        all.is_of_log &= is_of_log;
    }
    let Marked { wanted: Wanted { summaries, sources, files, lines }, is_of_log: of_log } = all;
    let lines = lines.iter().map(Digest::hex).collect();
    let mark = Mark { summaries, sources, files, lines, of_log };
    disk.replace(path, &serde_json::to_vec(&mark)?, MODE)
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
        let (a, b) = (names("a"), names("b"));
        let wanted = Wanted { sources: a.clone(), ..Wanted::default() };
        set(disk, path, &Marked { wanted, is_of_log: true }).unwrap();
        assert!(read(disk, path).unwrap().unwrap().is_of_log);
        let lines = BTreeSet::from([Digest([7; 32])]);
        let wanted = Wanted { files: b.clone(), lines: lines.clone(), ..Wanted::default() };
        set(disk, path, &Marked { wanted, is_of_log: false }).unwrap();
        let Marked { wanted, is_of_log } = read(disk, path).unwrap().unwrap();
        assert_eq!((wanted.sources, wanted.files, is_of_log), (a, b, false));
        assert_eq!(wanted.lines, lines);
        disk.replace(path, b"{", MODE).unwrap();
        assert!(read(disk, path).is_err(), "what does not read is not nothing");
        clear(disk, path).unwrap();
        assert!(read(disk, path).unwrap().is_none());
    }
}
