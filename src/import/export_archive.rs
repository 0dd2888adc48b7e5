//! The archive in which a chat program delivers an export, as a disk on which its entries are files.
//!
//! Contract: nothing is unpacked to the disk, and an entry is inflated while it is read. An archive without an export is
//! no such archive, so that its reader refuses it as any other.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::archive::{BYTES_MAX, Entry, entries_of};
use super::entry_file::EntryFile;
use super::kind::{FileKind, HEAD_BYTES, Refusal, is_conversations};
use crate::os::{Disk, DiskFile, Open, Stat};

/// Most bytes that all entries inflate to.
const EXPORT_BYTES_MAX: u64 = 16 << 30;
/// No text is packed as tightly. A small archive could fill the memory.
const TIMES_SMALLER_MAX: usize = 200;
/// The chats of Telegram.
const OF_TELEGRAM: &str = "result.json";
/// Where macOS keeps what it knows of the files in an archive.
const OF_MACOS: &str = "__MACOSX";

/// Whether an archive holds the export of a chat program, or why such an archive cannot be read. `None` for every other
/// archive.
pub(super) fn of_archive(
    archive: &Arc<dyn DiskFile>,
) -> io::Result<Option<Result<FileKind, Refusal>>> {
    let Some(entries) = entries_of(archive.as_ref())? else { return Ok(None) };
    let Some(first) = entries.iter().find(|entry| holds_chats(&entry.name)) else {
        return Ok(None);
    };
    if first.encrypted {
        return Ok(Some(Err(Refusal::new("archive with a password: unpack it first"))));
    }
    let total: u64 = entries.iter().map(|entry| entry.size as u64).sum();
    if total > EXPORT_BYTES_MAX {
        let why = format!("archive of more than {} GiB: unpack it first", EXPORT_BYTES_MAX >> 30);
        return Ok(Some(Err(Refusal::new(why))));
    }
    let head = EntryFile::open(Arc::clone(archive), first.clone()).and_then(|file| head_of(&file));
    let Ok(head) = head else { return Ok(Some(Err(Refusal::damaged()))) };
    let name = Path::new(&first.name);
    // Its first bytes say what an export is.
    Ok(match FileKind::of(name, &head, &mut || Ok(head.clone()))? {
        Ok(FileKind::ChatGpt | FileKind::Claude | FileKind::ChatJson) => {
            Some(Ok(FileKind::ChatArchive))
        }
        _ => None,
    })
}

/// The first bytes of a file.
pub(super) fn head_of(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let (mut head, mut filled) = (vec![0; HEAD_BYTES], 0);
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    head.truncate(filled);
    Ok(head)
}

/// Whether an entry of this name holds chats: at the root of the archive, or in a folder there.
fn holds_chats(name: &str) -> bool {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    !folder.contains('/') && !is_hidden(name) && (is_conversations(file) || file == OF_TELEGRAM)
}

/// Whether a person sees nothing of an entry in the unpacked folder.
pub(super) fn is_hidden(name: &str) -> bool {
    name.split('/').any(|step| step.starts_with('.') || step == OF_MACOS)
}

/// A disk on which the entries of an archive lie below the path of the archive. It has no other files: an entry may
/// have any name.
pub(super) struct InArchive {
    path: PathBuf,
    archive: Arc<dyn DiskFile>,
    entries: Vec<Entry>,
}

impl InArchive {
    pub(super) fn open(disk: &dyn Disk, path: &Path) -> io::Result<InArchive> {
        let archive = disk.open(path, Open::Read)?;
        let entries = entries_of(archive.as_ref())?;
        let entries = entries
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the archive is damaged"))?;
        Ok(InArchive { path: path.to_owned(), archive, entries })
    }

    /// The names of its files, sorted.
    pub(super) fn names(&self) -> Vec<&str> {
        let names = self.entries.iter().map(|entry| entry.name.as_str());
        let mut names: Vec<&str> = names.filter(|name| !name.ends_with('/')).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The name of a path in the archive; `None` for every other path.
    fn name_of<'p>(&self, path: &'p Path) -> Option<&'p str> {
        path.strip_prefix(&self.path).ok()?.to_str()
    }

    fn entry(&self, path: &Path) -> Option<&Entry> {
        let name = self.name_of(path)?;
        self.entries.iter().find(|entry| entry.name == name)
    }
}

impl Disk for InArchive {
    fn open(&self, path: &Path, _: Open) -> io::Result<Arc<dyn DiskFile>> {
        let entry = self.entry(path).ok_or(io::ErrorKind::NotFound)?;
        if entry.size > BYTES_MAX && entry.size / TIMES_SMALLER_MAX > entry.packed {
            let why = "it is packed more tightly than any text: unpack it first";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let file = EntryFile::open(Arc::clone(&self.archive), entry.clone())?;
        Ok(Arc::new(file))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let Some(entry) = self.entry(path) else { return Ok(None) };
        Ok(Some(Stat { len: entry.size as u64, ..self.archive.stat()? }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let folder = self.name_of(dir).ok_or(io::ErrorKind::NotFound)?;
        let below = |name: &str| {
            let rest = match folder {
                "" => name,
                folder => name.strip_prefix(folder)?.strip_prefix('/')?,
            };
            let first = rest.split('/').next()?;
            (!first.is_empty()).then(|| first.to_owned())
        };
        let mut names: Vec<String> =
            self.entries.iter().filter_map(|entry| below(&entry.name)).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn exchange(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn remove_file(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn remove_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(read_only())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(0)
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "an archive is only read")
}
