//! A file in an archive, inflated while it is read.
//!
//! Contract: memory holds a window of it. It is read from its beginning to its end; a place before the last one makes
//! it begin anew. What is not as the directory says is an error.

use std::io;
use std::sync::Arc;

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush};
use parking_lot::Mutex;

use super::archive::{Entry, crc32_after, start_of};
use crate::os::{DiskFile, Stat};
use crate::upstream::lines::read_range;

const INPUT_BYTES: usize = 64 << 10;
const SKIPPED_BYTES: usize = 16 << 10;
/// How the bytes of an entry are packed.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

pub(super) struct EntryFile {
    archive: Arc<dyn DiskFile>,
    entry: Entry,
    /// Where its bytes begin in the archive.
    start: u64,
    reading: Mutex<Reading>,
}

/// How far it is read.
struct Reading {
    /// Bytes that came out.
    at: usize,
    /// Packed bytes that were taken from the archive.
    taken: usize,
    input: Vec<u8>,
    /// Those of the input that were inflated.
    used: usize,
    state: Box<InflateState>,
    checksum: u32,
}

impl Reading {
    fn begin() -> Reading {
        let state = InflateState::new_boxed(DataFormat::Raw);
        Reading { at: 0, taken: 0, input: Vec::new(), used: 0, state, checksum: 0 }
    }
}

impl EntryFile {
    pub(super) fn open(archive: Arc<dyn DiskFile>, entry: Entry) -> io::Result<EntryFile> {
        if entry.encrypted {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it needs a password"));
        }
        let start = start_of(archive.as_ref(), &entry)?.ok_or_else(damaged)?;
        Ok(EntryFile { archive, entry, start, reading: Mutex::new(Reading::begin()) })
    }

    /// The next bytes; 0 at the end.
    fn next(&self, reading: &mut Reading, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(self.entry.size - reading.at);
        if wanted == 0 {
            return Ok(0);
        }
        let buffer = &mut buffer[..wanted];
        let made = loop {
            let (used, made) = self.unpack(reading, buffer)?;
            reading.used += used;
            if made > 0 {
                break made;
            }
            if used == 0 && reading.used == reading.input.len() {
                self.take_input(reading)?;
            } else if used == 0 {
                return Err(damaged());
            }
        };
        reading.at += made;
        reading.checksum = crc32_after(reading.checksum, &buffer[..made]);
        match reading.at == self.entry.size && reading.checksum != self.entry.checksum {
            true => Err(damaged()),
            false => Ok(made),
        }
    }

    /// Unpacks some of the input. Gives how much was used and how much was made of it.
    fn unpack(&self, reading: &mut Reading, buffer: &mut [u8]) -> io::Result<(usize, usize)> {
        let input = &reading.input[reading.used..];
        match self.entry.method {
            STORED => {
                let count = input.len().min(buffer.len());
                buffer[..count].copy_from_slice(&input[..count]);
                Ok((count, count))
            }
            DEFLATED => {
                let done = inflate(&mut reading.state, input, buffer, MZFlush::None);
                match done.status {
                    Err(error) if error != miniz_oxide::MZError::Buf => Err(damaged()),
                    _ => Ok((done.bytes_consumed, done.bytes_written)),
                }
            }
            _ => Err(damaged()),
        }
    }

    fn take_input(&self, reading: &mut Reading) -> io::Result<()> {
        let count = INPUT_BYTES.min(self.entry.packed - reading.taken);
        if count == 0 {
            return Err(damaged());
        }
        let at = self.start + reading.taken as u64;
        reading.input = read_range(self.archive.as_ref(), at, count)?;
        (reading.used, reading.taken) = (0, reading.taken + count);
        Ok(())
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the archive is damaged")
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "an archive is only read")
}

impl DiskFile for EntryFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat { len: self.entry.size as u64, ..self.archive.stat()? })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut reading = self.reading.lock();
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        if offset < reading.at {
            *reading = Reading::begin();
        }
        let mut skipped = [0; SKIPPED_BYTES];
        while reading.at < offset {
            let count = skipped.len().min(offset - reading.at);
            if self.next(&mut reading, &mut skipped[..count])? == 0 {
                return Ok(0);
            }
        }
        self.next(&mut reading, buffer)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn append(&self, _: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Err(read_only())
    }

    fn lock(&self) -> io::Result<()> {
        Err(read_only())
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::archive::entries_of;
    use super::super::archive::tests::zip;
    use super::*;
    use crate::os::Disk;
    use crate::os::Open;
    use crate::os::real::HostDisk;

    fn opened(bytes: &[u8]) -> Arc<dyn DiskFile> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.zip");
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&path, bytes, 0o640).unwrap();
        disk.open(&path, Open::Read).unwrap()
    }

    fn read(file: &EntryFile, at: u64, step: usize) -> io::Result<Vec<u8>> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; step]);
        loop {
            match file.read_at(&mut buffer, at + all.len() as u64)? {
                0 => return Ok(all),
                count => all.extend(&buffer[..count]),
            }
        }
    }

    #[test]
    fn an_entry_is_read_in_pieces_from_any_place() {
        let long: String = (0..200_000).map(|number| format!("line {number}\n")).collect();
        let archive = opened(&zip(&[("a.txt", &long), ("b.txt", &long), ("c.txt", "")]));
        for entry in entries_of(archive.as_ref()).unwrap().unwrap() {
            let expected = if entry.name == "c.txt" { "" } else { &long };
            let file = EntryFile::open(Arc::clone(&archive), entry).unwrap();
            assert_eq!(file.stat().unwrap().len, expected.len() as u64);
            for step in [1 << 20, 777] {
                assert!(read(&file, 0, step).unwrap() == expected.as_bytes(), "{step}");
            }
            for at in [1_000_000.min(expected.len()), expected.len().saturating_sub(10), 0] {
                assert!(read(&file, at as u64, 4096).unwrap() == expected.as_bytes()[at..]);
            }
            assert_eq!(read(&file, expected.len() as u64 + 9, 10).unwrap(), b"");
        }
    }

    #[test]
    fn a_damaged_entry_is_an_error() {
        let text: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        let mut bytes = zip(&[("a.txt", &text)]);
        bytes[5_000] ^= 1;
        let archive = opened(&bytes);
        let entry = entries_of(archive.as_ref()).unwrap().unwrap().remove(0);
        let file = EntryFile::open(Arc::clone(&archive), entry.clone()).unwrap();
        assert!(read(&file, 0, 4096).is_err());
        let mut short = entry.clone();
        short.packed /= 2;
        assert!(read(&EntryFile::open(Arc::clone(&archive), short).unwrap(), 0, 4096).is_err());
        let mut locked = entry;
        locked.encrypted = true;
        assert!(EntryFile::open(archive, locked).is_err());
    }
}
