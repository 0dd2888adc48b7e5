//! Lines of a file, streamed: byte ranges, line numbers and the hash of what went by, never more
//! than one line in memory. A line longer than the bound is cut and reported as malformed.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use crate::contract::hash::{Digest, Hasher};
use crate::os::DiskFile;

/// Longest line of a bus file that is read.
pub(crate) const BUS_LINE_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 256 << 10;

/// One line without its terminator, and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineAt {
    /// First byte.
    pub offset: u64,
    /// Bytes without the terminator.
    pub len: usize,
    /// 1-based number.
    pub line: u64,
}

/// Reads a file, or its first bytes, line by line.
pub struct Lines {
    reader: BufReader<HashingReader>,
    buffer: Vec<u8>,
    offset: u64,
    line: u64,
}

impl Lines {
    /// Reads `limit` bytes of a file from its beginning.
    pub fn new(file: Arc<dyn DiskFile>, limit: u64) -> Lines {
        let source = HashingReader { file, offset: 0, limit, hasher: Hasher::new() };
        Lines {
            reader: BufReader::with_capacity(READ_BYTES, source),
            buffer: Vec::new(),
            offset: 0,
            line: 0,
        }
    }

    /// The next line, its bytes in the second part.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<(LineAt, &[u8])>> {
        self.buffer.clear();
        let count = self
            .reader
            .by_ref()
            .take(BUS_LINE_BYTES_MAX as u64)
            .read_until(b'\n', &mut self.buffer)?;
        if count == 0 {
            return Ok(None);
        }
        self.line += 1;
        let at = LineAt { offset: self.offset, len: count, line: self.line };
        self.offset += count as u64;
        let text = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        Ok(Some((LineAt { len: text.len(), ..at }, text)))
    }

    /// Reads what is left and gives length and hash of everything.
    pub fn finish(mut self) -> io::Result<(u64, Digest)> {
        let left = io::copy(&mut self.reader, &mut io::sink())?;
        Ok((self.offset + left, self.reader.get_ref().hasher.finish()))
    }
}

struct HashingReader {
    file: Arc<dyn DiskFile>,
    offset: u64,
    limit: u64,
    hasher: Hasher,
}

impl Read for HashingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.limit - self.offset).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..wanted], self.offset)?;
        self.hasher.update(&buffer[..count]);
        self.offset += count as u64;
        Ok(count)
    }
}

/// Exactly `len` bytes at `offset`.
pub(crate) fn read_range(file: &dyn DiskFile, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;
    use crate::os::{Disk, Open, real::HostDisk};

    fn open(text: &[u8]) -> (tempfile::TempDir, Arc<dyn DiskFile>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&path, text, 0o640).unwrap();
        let file = disk.open(&path, Open::Read).unwrap();
        (dir, file)
    }

    #[test]
    fn lines_know_where_they_are_and_the_hash_covers_all() {
        let text = b"ab\n\ncde";
        let (_dir, file) = open(text);
        let mut lines = Lines::new(Arc::clone(&file), text.len() as u64);
        let mut seen = Vec::new();
        while let Some((at, bytes)) = lines.next_line().unwrap() {
            assert_eq!(read_range(file.as_ref(), at.offset, at.len).unwrap(), bytes);
            seen.push((at.offset, at.line, String::from_utf8(bytes.to_vec()).unwrap()));
        }
        assert_eq!(seen, [(0, 1, "ab".into()), (3, 2, String::new()), (4, 3, "cde".into())]);
        assert_eq!(lines.finish().unwrap(), (7, sha256(text)));
    }

    #[test]
    fn a_limit_reads_a_prefix_only() {
        let (_dir, file) = open(b"ab\ncd\n");
        let mut lines = Lines::new(file, 3);
        assert_eq!(lines.next_line().unwrap().unwrap().1, b"ab");
        assert_eq!(lines.finish().unwrap(), (3, sha256("ab\n")));
    }
}
