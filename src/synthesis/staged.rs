//! Files of a run that are written under a temporary name and renamed when all of them are complete.
//!
//! A crash leaves files with temporary names. Nothing reads them, and the next build removes them.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use super::run_dir::{FILE_MODE, RelPath, RunDir, RunDirError, write_failed};
use crate::contract::hash::{Digest, Hasher};
use crate::os::{Disk, DiskFile, Open};

/// Bytes written or read in one call.
const BUFFER_BYTES: usize = 1 << 16;

/// A complete, synced file under a temporary name.
pub(crate) struct StagedFile {
    temporary: PathBuf,
    place: PathBuf,
    pub bytes: u64,
    pub sha256: Digest,
}

impl StagedFile {
    /// Renames the file to its final name, unless that file already has the same bytes. The folder
    /// is not synced.
    pub(super) fn promote(self, disk: &dyn Disk) -> io::Result<()> {
        match digest_of(disk, &self.place, self.bytes) {
            Ok(Some(there)) if there == self.sha256 => disk.remove_file(&self.temporary),
            _ => disk.rename(&self.temporary, &self.place),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.place.parent().unwrap_or(Path::new("."))
    }
}

/// The digest of a file, if it has this length.
fn digest_of(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<Option<Digest>> {
    if disk.stat(path)?.is_none_or(|stat| stat.len != bytes) {
        return Ok(None);
    }
    let file = disk.open(path, Open::Read)?;
    let (mut hasher, mut buffer, mut at) = (Hasher::new(), vec![0; BUFFER_BYTES], 0);
    loop {
        match file.read_at(&mut buffer, at)? {
            0 => return Ok(Some(hasher.finish())),
            count => {
                hasher.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
}

/// Writes a file in blocks and hashes it.
struct HashingWriter {
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    bytes: u64,
    hasher: Hasher,
}

impl Write for HashingWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.bytes)?;
        self.hasher.update(&self.buffer);
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Stages a file that `write` produces.
fn stage_with(
    dir: &RunDir<'_>,
    path: &RelPath,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<StagedFile, RunDirError> {
    let place = dir.place(path)?;
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let temporary = place.with_file_name(format!(".{name}.tmp"));
    let stage = || -> io::Result<(u64, Digest)> {
        dir.disk().remove_file(&temporary)?;
        let file = dir.disk().open(&temporary, Open::CreateNew(FILE_MODE))?;
        let mut writer =
            HashingWriter { file, buffer: Vec::new(), bytes: 0, hasher: Hasher::new() };
        write(&mut writer)?;
        writer.flush()?;
        writer.file.sync()?;
        Ok((writer.bytes, writer.hasher.finish()))
    };
    let (bytes, sha256) = stage().map_err(write_failed(path))?;
    Ok(StagedFile { temporary, place, bytes, sha256 })
}

pub(crate) fn stage_text(
    dir: &RunDir<'_>,
    path: &RelPath,
    text: &str,
) -> Result<StagedFile, RunDirError> {
    stage_with(dir, path, |out| out.write_all(text.as_bytes()))
}

/// Stages a record in the form of single-object files.
pub(crate) fn stage_json<T: Serialize>(
    dir: &RunDir<'_>,
    path: &RelPath,
    record: &T,
) -> Result<StagedFile, RunDirError> {
    stage_with(dir, path, |out| {
        serde_json::to_writer_pretty(&mut *out, record)?;
        out.write_all(b"\n")
    })
}

/// Makes the item with a given index.
type Next<'a, T> = Box<dyn FnMut(usize) -> Result<T, RunDirError> + 'a>;

/// A JSON list whose items are made while it is written.
pub(crate) struct LazyList<'a, T> {
    count: usize,
    next: RefCell<Next<'a, T>>,
}

impl<'a, T> LazyList<'a, T> {
    /// The items 0 to `count`.
    pub(super) fn new(
        count: usize,
        next: impl FnMut(usize) -> Result<T, RunDirError> + 'a,
    ) -> Self {
        LazyList { count, next: RefCell::new(Box::new(next)) }
    }
}

impl<T: Serialize> Serialize for LazyList<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.count))?;
        for index in 0..self.count {
            let item = (self.next.borrow_mut())(index).map_err(S::Error::custom)?;
            list.serialize_element(&item)?;
        }
        list.end()
    }
}
