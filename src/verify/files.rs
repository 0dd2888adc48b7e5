//! What several checks read: all files below a folder, and the ids of all published summaries.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;

use crate::os::Disk;

/// The summaries on the Summary Bus.
pub struct KnownSummaries(pub(super) HashSet<Box<str>>);

impl KnownSummaries {
    pub fn holds(&self, summary_id: &str) -> bool {
        self.0.contains(summary_id)
    }
}

/// Every file below a folder, by its path in it. Hidden temporary files are not there yet.
pub(super) fn read_files(
    disk: &dyn Disk,
    root: &Path,
    folder: &str,
    bytes_max: u64,
    found: &mut BTreeMap<String, Vec<u8>>,
) -> io::Result<()> {
    let listed = match disk.list(&root.join(folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for name in listed {
        let relative = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let path = root.join(&relative);
        match disk.stat(&path)? {
            Some(stat) if stat.is_dir => read_files(disk, root, &relative, bytes_max, found)?,
            Some(stat) if stat.len > bytes_max => {
                let what = format!("{relative} has {} bytes", stat.len);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
            }
            Some(_) => drop(found.insert(relative, disk.read(&path)?)),
            None => {}
        }
    }
    Ok(())
}
