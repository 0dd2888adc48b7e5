//! Reads files inside a zip archive: one that is held in memory, which docx and epub are, and the directory of one
//! that is a file.
//!
//! Contract: bounded. All entries that are read from an archive in memory inflate to [`BYTES_MAX`] together, so that a
//! small file cannot fill the memory; the size and the checksum of each must be those of the directory. Encrypted
//! entries and archives of more than 4 GiB are refused.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;

use miniz_oxide::inflate::decompress_to_vec_with_limit;

use crate::os::DiskFile;
use crate::upstream::lines::read_range;

/// Most bytes that the entries of an archive inflate to. Pictures are not read.
pub(super) const BYTES_MAX: usize = 64 << 20;
/// The longest directory of an archive that is a file.
const DIRECTORY_BYTES_MAX: usize = 64 << 20;
/// Most entries of an archive.
const ENTRIES_MAX: usize = 100_000;
/// The longest comment at the end of an archive, and the record before it.
const END_BYTES_MAX: usize = (64 << 10) + 22;

/// An archive and its directory.
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
    /// The place of each entry by its name; of two with one name the first.
    places: HashMap<String, usize>,
    /// Bytes that may still be inflated.
    left: Cell<usize>,
}

/// What a directory says of a file in its archive.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub name: String,
    pub method: u16,
    pub encrypted: bool,
    pub checksum: u32,
    pub packed: usize,
    pub size: usize,
    header: usize,
}

/// Why an archive or an entry cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArchiveError {
    #[error("it is damaged")]
    Damaged,
    #[error("it needs a password")]
    Locked,
    #[error("it holds no {0}")]
    Missing(String),
    #[error("{0} is too large, or all that it holds together: more than {limit} MiB", limit = BYTES_MAX >> 20)]
    TooLarge(String),
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Archive<'a>, ArchiveError> {
        let entries = directory(bytes).ok_or(ArchiveError::Damaged)?;
        let mut places = HashMap::new();
        for (place, entry) in entries.iter().enumerate() {
            places.entry(entry.name.clone()).or_insert(place);
        }
        Ok(Archive { bytes, entries, places, left: Cell::new(BYTES_MAX) })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The bytes of an entry.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, ArchiveError> {
        let place = self.places.get(name).ok_or_else(|| ArchiveError::Missing(name.to_owned()))?;
        let entry = &self.entries[*place];
        if entry.encrypted {
            return Err(ArchiveError::Locked);
        }
        let left = self.left.get().checked_sub(entry.size);
        self.left.set(left.ok_or_else(|| ArchiveError::TooLarge(name.to_owned()))?);
        let packed = packed(self.bytes, entry).ok_or(ArchiveError::Damaged)?;
        let bytes = match entry.method {
            0 if packed.len() == entry.size => packed.to_vec(),
            8 => decompress_to_vec_with_limit(packed, entry.size)
                .map_err(|_| ArchiveError::Damaged)?,
            _ => return Err(ArchiveError::Damaged),
        };
        match bytes.len() == entry.size && crc32(&bytes) == entry.checksum {
            true => Ok(bytes),
            false => Err(ArchiveError::Damaged),
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes([pair[0], pair[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16_at(bytes, at)?) | u32::from(u16_at(bytes, at.checked_add(2)?)?) << 16)
}

/// The entries that the directory at the end of the archive lists.
fn directory(bytes: &[u8]) -> Option<Vec<Entry>> {
    let end = End::find(&bytes[bytes.len().saturating_sub(END_BYTES_MAX)..])?;
    entries(bytes.get(end.directory..)?, end.count)
}

/// The entries of an archive that is a file; `None` where it has no directory that can be read.
pub(super) fn entries_of(file: &dyn DiskFile) -> io::Result<Option<Vec<Entry>>> {
    let len = usize::try_from(file.stat()?.len).unwrap_or(usize::MAX);
    let first = len.saturating_sub(END_BYTES_MAX);
    let Some(end) = End::find(&read_range(file, first as u64, len - first)?) else {
        return Ok(None);
    };
    match (first + end.at).checked_sub(end.directory) {
        Some(bytes) if bytes <= DIRECTORY_BYTES_MAX => {
            Ok(entries(&read_range(file, end.directory as u64, bytes)?, end.count))
        }
        _ => Ok(None),
    }
}

/// Where the bytes of an entry begin in a file; `None` where no entry begins at the place that the directory names.
pub(super) fn start_of(file: &dyn DiskFile, entry: &Entry) -> io::Result<Option<u64>> {
    let header = read_range(file, entry.header as u64, HEADER_BYTES)?;
    Ok(behind_header(&header).map(|bytes| (entry.header + bytes) as u64))
}

/// The last record of an archive.
struct End {
    /// Where it lies in the bytes that were searched.
    at: usize,
    count: usize,
    /// Where the directory begins in the archive.
    directory: usize,
}

impl End {
    fn find(tail: &[u8]) -> Option<End> {
        let last = tail.len().checked_sub(22)?;
        let at = (0..=last).rev().find(|at| tail[*at..].starts_with(b"PK\x05\x06"))?;
        let count = usize::from(u16_at(tail, at + 10)?);
        Some(End { at, count, directory: u32_at(tail, at + 16)? as usize })
    }
}

fn entries(bytes: &[u8], count: usize) -> Option<Vec<Entry>> {
    let (mut at, mut entries) = (0, Vec::new());
    for _ in 0..count.min(ENTRIES_MAX) {
        if !bytes.get(at..)?.starts_with(b"PK\x01\x02") {
            return None;
        }
        let lengths = [28, 30, 32].map(|place| u16_at(bytes, at + place).map(usize::from));
        let [name, extra, comment] = lengths;
        let name_end = at + 46 + name?;
        entries.push(Entry {
            name: String::from_utf8_lossy(bytes.get(at + 46..name_end)?).into_owned(),
            method: u16_at(bytes, at + 10)?,
            encrypted: u16_at(bytes, at + 8)? & 1 == 1,
            checksum: u32_at(bytes, at + 16)?,
            packed: u32_at(bytes, at + 20)? as usize,
            size: u32_at(bytes, at + 24)? as usize,
            header: u32_at(bytes, at + 42)? as usize,
        });
        at = name_end + extra? + comment?;
    }
    Some(entries)
}

/// Bytes before the name in the header of an entry.
const HEADER_BYTES: usize = 30;

/// The length of a header with its name; `None` where none begins here.
fn behind_header(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(b"PK\x03\x04") {
        return None;
    }
    let (name, extra) = (u16_at(bytes, 26)?, u16_at(bytes, 28)?);
    Some(HEADER_BYTES + usize::from(name) + usize::from(extra))
}

fn packed<'a>(bytes: &'a [u8], entry: &Entry) -> Option<&'a [u8]> {
    let start = entry.header + behind_header(bytes.get(entry.header..)?)?;
    bytes.get(start..start.checked_add(entry.packed)?)
}

/// The checksum that zip archives use.
fn crc32(bytes: &[u8]) -> u32 {
    crc32_after(0, bytes)
}

/// The checksum of bytes behind others, which have the first one.
pub(super) fn crc32_after(before: u32, bytes: &[u8]) -> u32 {
    let step =
        |sum: u32, byte: &u8| CHECKSUMS[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ sum >> 8;
    !bytes.iter().fold(!before, step)
}

/// The checksum of each byte.
const CHECKSUMS: [u32; 256] = {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut value, mut bit) = (byte as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An archive with the given files, each inflated or stored in turn.
    pub fn zip(files: &[(&str, &str)]) -> Vec<u8> {
        let (mut out, mut directory) = (Vec::new(), Vec::new());
        for (index, (name, text)) in files.iter().enumerate() {
            let method = if index % 2 == 0 { 8_u16 } else { 0 };
            let data = match method {
                8 => miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 6),
                _ => text.as_bytes().to_vec(),
            };
            let mut common = Vec::new();
            common.extend(20_u16.to_le_bytes());
            common.extend(0_u16.to_le_bytes());
            common.extend(method.to_le_bytes());
            common.extend(0_u32.to_le_bytes());
            common.extend(crc32(text.as_bytes()).to_le_bytes());
            common.extend((data.len() as u32).to_le_bytes());
            common.extend((text.len() as u32).to_le_bytes());
            common.extend((name.len() as u16).to_le_bytes());
            common.extend(0_u16.to_le_bytes());
            let header = out.len() as u32;
            out.extend(b"PK\x03\x04");
            out.extend(&common);
            out.extend(name.as_bytes());
            out.extend(&data);
            directory.extend(b"PK\x01\x02\x14\0");
            directory.extend(&common);
            directory.extend([0; 10]);
            directory.extend(header.to_le_bytes());
            directory.extend(name.as_bytes());
        }
        let start = out.len() as u32;
        out.extend(&directory);
        out.extend(b"PK\x05\x06\0\0\0\0");
        out.extend((files.len() as u16).to_le_bytes());
        out.extend((files.len() as u16).to_le_bytes());
        out.extend((directory.len() as u32).to_le_bytes());
        out.extend(start.to_le_bytes());
        out.extend([0; 2]);
        out
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let long = "a long text ".repeat(1000);
        let bytes = zip(&[("a.txt", &long), ("dir/b.txt", "stored"), ("c", "")]);
        let archive = Archive::open(&bytes).unwrap();
        assert_eq!(archive.names().collect::<Vec<_>>(), ["a.txt", "dir/b.txt", "c"]);
        assert_eq!(archive.read("a.txt").unwrap(), long.as_bytes());
        assert_eq!(archive.read("dir/b.txt").unwrap(), b"stored");
        assert_eq!(archive.read("c").unwrap(), b"");
        assert_eq!(archive.read("d"), Err(ArchiveError::Missing("d".into())));
    }

    #[test]
    fn what_is_read_of_an_archive_is_bounded_together() {
        let large = "0".repeat(BYTES_MAX / 4);
        let bytes = zip(&[("a", &large), ("c", "")]);
        assert!(bytes.len() < BYTES_MAX / 500, "a small file");
        let archive = Archive::open(&bytes).unwrap();
        for _ in 0..4 {
            assert_eq!(archive.read("a").unwrap().len(), large.len());
        }
        assert_eq!(archive.read("a"), Err(ArchiveError::TooLarge("a".into())));
        assert_eq!(archive.read("c").unwrap(), b"");
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let bytes = zip(&[("a.txt", "some words that matter"), ("b.txt", "other words")]);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            if let Ok(archive) = Archive::open(&damaged) {
                let names: Vec<String> = archive.names().map(str::to_owned).collect();
                for name in names {
                    let _ = archive.read(&name);
                }
            }
            let _ = Archive::open(&bytes[..at]).map(|archive| archive.read("a.txt"));
        }
        let mut flipped = bytes.clone();
        flipped[40] ^= 1;
        let archive = Archive::open(&flipped).unwrap();
        assert_eq!(archive.read("a.txt"), Err(ArchiveError::Damaged));
    }
}
