//! Reads files inside a zip archive that is held in memory: what docx and epub are.
//!
//! Contract: bounded. All entries that are read from an archive inflate to [`BYTES_MAX`] together, so that a small
//! file cannot fill the memory; the size and the checksum of each must be those of the directory. Encrypted entries
//! and archives of more than 4 GiB are refused.

use std::cell::Cell;
use std::collections::HashMap;

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Most bytes that the entries of an archive inflate to. Pictures are not read.
const BYTES_MAX: usize = 64 << 20;
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

struct Entry {
    name: String,
    method: u16,
    encrypted: bool,
    checksum: u32,
    packed: usize,
    size: usize,
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
    let first = bytes.len().saturating_sub(END_BYTES_MAX);
    let end = (first..=bytes.len().checked_sub(22)?)
        .rev()
        .find(|at| bytes[*at..].starts_with(b"PK\x05\x06"))?;
    let count = usize::from(u16_at(bytes, end + 10)?);
    let mut at = u32_at(bytes, end + 16)? as usize;
    let mut entries = Vec::new();
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

fn packed<'a>(bytes: &'a [u8], entry: &Entry) -> Option<&'a [u8]> {
    if !bytes.get(entry.header..)?.starts_with(b"PK\x03\x04") {
        return None;
    }
    let name = usize::from(u16_at(bytes, entry.header + 26)?);
    let extra = usize::from(u16_at(bytes, entry.header + 28)?);
    let start = entry.header + 30 + name + extra;
    bytes.get(start..start.checked_add(entry.packed)?)
}

/// The checksum that zip archives use.
fn crc32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|index| {
        (0..8).fold(index as u32, |value, _| match value & 1 {
            1 => value >> 1 ^ 0xedb8_8320,
            _ => value >> 1,
        })
    });
    let step = |sum: u32, byte: &u8| table[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ sum >> 8;
    !bytes.iter().fold(!0, step)
}

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
