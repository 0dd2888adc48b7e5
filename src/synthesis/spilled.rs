//! Summaries that a build writes to a temporary file of the run until all of them are known.
//!
//! Memory holds one summary at a time. The file is removed when the build ends; after a crash the
//! next build removes it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::budget::FittedSummary;
use super::extract::Extract;
use super::run_dir::{FILE_MODE, RelPath, RunDir, RunDirError, write_failed};
use crate::os::{Disk, DiskFile, Open};

/// Name of the temporary file.
const SPILL_FILE: &str = ".summary-pack.spill.tmp";

/// Spilled summaries by index.
pub(crate) struct SpilledSummaries<'a> {
    disk: &'a dyn Disk,
    path: RelPath,
    place: PathBuf,
    file: Arc<dyn DiskFile>,
    ends: Vec<u64>,
    /// True when the folder was created for the file.
    made: bool,
}

impl<'a> SpilledSummaries<'a> {
    /// Creates the file in a folder of the run, and the folder if needed.
    pub(super) fn open(
        dir: &RunDir<'a>,
        folder: &RelPath,
    ) -> Result<SpilledSummaries<'a>, RunDirError> {
        let disk = dir.disk();
        let path = folder.join(SPILL_FILE);
        let made = matches!(disk.stat(&dir.root().join(folder.as_str())), Ok(None));
        let place = dir.place(&path)?;
        let parent = place.parent().unwrap_or(dir.root());
        let file = disk
            .sweep_temporaries(parent)
            .and_then(|()| disk.open(&place, Open::CreateNew(FILE_MODE)))
            .map_err(write_failed(&path))?;
        Ok(SpilledSummaries { disk, path, place, file, ends: Vec::new(), made })
    }

    pub(super) fn put(&mut self, extract: &Extract) -> Result<(), RunDirError> {
        let start = self.ends.last().copied().unwrap_or(0);
        let put = || -> io::Result<u64> {
            let bytes = serde_json::to_vec(extract)?;
            self.file.write_all_at(&bytes, start)?;
            Ok(start + bytes.len() as u64)
        };
        self.ends.push(put().map_err(write_failed(&self.path))?);
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, index: usize) -> Result<FittedSummary, RunDirError> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let get = || -> io::Result<Extract> {
            let mut bytes = vec![0; usize::try_from(self.ends[index] - start).unwrap_or(0)];
            let mut filled = 0;
            while filled < bytes.len() {
                match self.file.read_at(&mut bytes[filled..], start + filled as u64)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => filled += count,
                }
            }
            Ok(serde_json::from_slice(&bytes)?)
        };
        get().map(FittedSummary::holding_all).map_err(write_failed(&self.path))
    }
}

impl Drop for SpilledSummaries<'_> {
    fn drop(&mut self) {
        // A file that cannot be removed now is removed by the next build.
        let _ = self.disk.remove_file(&self.place);
        let Some(folder) = self.place.parent().filter(|_| self.made) else { return };
        if self.disk.list(folder).is_ok_and(|names| names.is_empty()) {
            let _ = self.disk.remove_dir_all(folder);
        }
    }
}
