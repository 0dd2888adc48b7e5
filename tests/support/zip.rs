//! Zip archives for tests, also such as no honest program makes.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its own part")]

/// A file in an archive.
#[derive(Clone)]
pub struct Entry<'a> {
    pub name: &'a str,
    pub packed: Vec<u8>,
    /// What the directory says of it once it is inflated.
    pub size: u32,
    pub checksum: u32,
}

impl<'a> Entry<'a> {
    pub fn new(name: &'a str, text: &str) -> Entry<'a> {
        let packed = miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 1);
        let size = u32::try_from(text.len()).unwrap();
        Entry { name, packed, size, checksum: crc32(text.as_bytes()) }
    }
}

pub fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let mut common = Vec::new();
        common.extend([20, 0, 0, 0, 8, 0, 0, 0, 0, 0]);
        common.extend(entry.checksum.to_le_bytes());
        common.extend(u32::try_from(entry.packed.len()).unwrap().to_le_bytes());
        common.extend(entry.size.to_le_bytes());
        common.extend(u16::try_from(entry.name.len()).unwrap().to_le_bytes());
        common.extend([0, 0]);
        let header = u32::try_from(out.len()).unwrap();
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(entry.name.as_bytes());
        out.extend(&entry.packed);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(header.to_le_bytes());
        directory.extend(entry.name.as_bytes());
    }
    let start = u32::try_from(out.len()).unwrap();
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count, count].concat());
    out.extend(u32::try_from(directory.len()).unwrap().to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256)
        .map(|index: u32| {
            (0..8).fold(index, |value, _| match value & 1 {
                1 => value >> 1 ^ 0xedb8_8320,
                _ => value >> 1,
            })
        })
        .collect();
    !bytes.iter().fold(!0, |sum, byte| table[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ sum >> 8)
}
