//! What a build cannot hold in memory: summaries put aside in a file of the run until all of them
//! are known, and files written in pieces.
//!
//! Everything here has a temporary name until it is promoted. What a crash leaves behind is swept
//! by the next build and read by nobody.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use super::budget::Summary;
use super::extract::Extract;
use super::run_dir::{RelPath, RunDir, RunDirError};
use crate::contract::hash::{Digest, Hasher};
use crate::os::{Disk, DiskFile, Open};

const FILE_MODE: u32 = 0o640;
const SHELF: &str = ".summary-pack.shelf.tmp";
/// Bytes written or read at once.
const PIECE_BYTES: usize = 1 << 16;

fn failed(path: &RelPath) -> impl Fn(io::Error) -> RunDirError {
    let path = path.as_str().to_owned();
    move |source| RunDirError::Write { path: path.clone(), source }
}

/// Summaries put aside, by number.
pub struct Shelf<'a> {
    disk: &'a dyn Disk,
    path: RelPath,
    place: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Where each ends.
    ends: Vec<u64>,
    /// True when the folder was made for it.
    made: bool,
}

impl<'a> Shelf<'a> {
    /// An empty one in a folder of the run, which is made if need be.
    pub fn open(dir: &RunDir<'a>, folder: &RelPath) -> Result<Shelf<'a>, RunDirError> {
        let disk = dir.disk();
        let path = folder.join(SHELF);
        let made = matches!(disk.stat(&dir.root().join(folder.as_str())), Ok(None));
        let place = dir.place(&path)?;
        let parent = place.parent().unwrap_or(dir.root());
        let file = disk
            .sweep_temporaries(parent)
            .and_then(|()| disk.open(&place, Open::CreateNew(FILE_MODE)))
            .map_err(failed(&path))?;
        Ok(Shelf { disk, path, place, file, ends: Vec::new(), made })
    }

    /// Puts the next one aside.
    pub fn put(&mut self, extract: &Extract) -> Result<(), RunDirError> {
        let start = self.ends.last().copied().unwrap_or(0);
        let put = || -> io::Result<u64> {
            let bytes = serde_json::to_vec(extract)?;
            self.file.write_all_at(&bytes, start)?;
            Ok(start + bytes.len() as u64)
        };
        self.ends.push(put().map_err(failed(&self.path))?);
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// One of them.
    pub fn get(&self, index: usize) -> Result<Summary, RunDirError> {
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
        get().map(Summary::holding_all).map_err(failed(&self.path))
    }
}

impl Drop for Shelf<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next build.
        let _ = self.disk.remove_file(&self.place);
        let Some(folder) = self.place.parent().filter(|_| self.made) else { return };
        if self.disk.list(folder).is_ok_and(|names| names.is_empty()) {
            let _ = self.disk.remove_dir_all(folder);
        }
    }
}

/// A file on its way: complete and synced under a temporary name.
pub struct Staged {
    temporary: PathBuf,
    place: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Digest,
}

impl Staged {
    /// Puts the file in its place, unless that holds these very bytes. The folder is not synced.
    pub fn promote(self, disk: &dyn Disk) -> io::Result<()> {
        match digest_of(disk, &self.place, self.bytes) {
            Ok(Some(there)) if there == self.sha256 => disk.remove_file(&self.temporary),
            _ => disk.rename(&self.temporary, &self.place),
        }
    }

    /// The folder it goes into.
    pub fn folder(&self) -> &Path {
        self.place.parent().unwrap_or(Path::new("."))
    }
}

/// The digest of a file that is exactly so long.
fn digest_of(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<Option<Digest>> {
    if disk.stat(path)?.is_none_or(|stat| stat.len != bytes) {
        return Ok(None);
    }
    let file = disk.open(path, Open::Read)?;
    let (mut hasher, mut buffer, mut at) = (Hasher::new(), vec![0; PIECE_BYTES], 0);
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

/// Writes a file in pieces under a temporary name.
struct Draft {
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    bytes: u64,
    hasher: Hasher,
}

impl Write for Draft {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() >= PIECE_BYTES {
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

/// Stages a file of the run that `write` produces.
fn stage_with(
    dir: &RunDir<'_>,
    path: &RelPath,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Staged, RunDirError> {
    let place = dir.place(path)?;
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let temporary = place.with_file_name(format!(".{name}.tmp"));
    let stage = || -> io::Result<(u64, Digest)> {
        dir.disk().remove_file(&temporary)?;
        let file = dir.disk().open(&temporary, Open::CreateNew(FILE_MODE))?;
        let mut draft = Draft { file, buffer: Vec::new(), bytes: 0, hasher: Hasher::new() };
        write(&mut draft)?;
        draft.flush()?;
        draft.file.sync()?;
        Ok((draft.bytes, draft.hasher.finish()))
    };
    let (bytes, sha256) = stage().map_err(failed(path))?;
    Ok(Staged { temporary, place, bytes, sha256 })
}

/// Stages a text.
pub fn stage_text(dir: &RunDir<'_>, path: &RelPath, text: &str) -> Result<Staged, RunDirError> {
    stage_with(dir, path, |out| out.write_all(text.as_bytes()))
}

/// Stages a record in the form of single-object files.
pub fn stage_json<T: Serialize>(
    dir: &RunDir<'_>,
    path: &RelPath,
    record: &T,
) -> Result<Staged, RunDirError> {
    stage_with(dir, path, |out| {
        serde_json::to_writer_pretty(&mut *out, record)?;
        out.write_all(b"\n")
    })
}

/// What makes the next item of a list.
type Next<'a, T> = Box<dyn FnMut(usize) -> Result<T, RunDirError> + 'a>;

/// A list that is made while it is written, one item at a time.
pub struct Lazy<'a, T> {
    count: usize,
    next: RefCell<Next<'a, T>>,
}

impl<'a, T> Lazy<'a, T> {
    /// The items 0 to `count`.
    pub fn new(count: usize, next: impl FnMut(usize) -> Result<T, RunDirError> + 'a) -> Self {
        Lazy { count, next: RefCell::new(Box::new(next)) }
    }
}

impl<T: Serialize> Serialize for Lazy<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.count))?;
        for index in 0..self.count {
            let item = (self.next.borrow_mut())(index).map_err(S::Error::custom)?;
            list.serialize_element(&item)?;
        }
        list.end()
    }
}
