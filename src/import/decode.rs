//! Bytes of a text file as text: UTF-8, UTF-16 with a mark, else Windows-1252.

use mail_parser::decoders::charsets::map::charset_decoder;

/// A declaration of an encoding stands in these first bytes.
const DECLARATION_BYTES: usize = 200;

/// The text of some bytes; `None` when they are binary. The last character may be cut off.
pub(crate) fn text(bytes: &[u8]) -> Option<String> {
    if let Some(rest) = bytes.strip_prefix(b"\xff\xfe") {
        return Some(utf16(rest, u16::from_le_bytes));
    }
    if let Some(rest) = bytes.strip_prefix(b"\xfe\xff") {
        return Some(utf16(rest, u16::from_be_bytes));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => (!text.contains('\0')).then(|| text.to_owned()),
        Err(error) if error.error_len().is_none() && !bytes.contains(&0) => {
            Some(String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned())
        }
        Err(_) if bytes.contains(&0) => None,
        Err(_) => Some(bytes.iter().map(|byte| windows_1252(*byte)).collect()),
    }
}

/// The text of an XML file: in the encoding that its first line declares, where its bytes are no UTF-8.
pub(crate) fn xml(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(DECLARATION_BYTES)];
    let declared = std::str::from_utf8(bytes).is_err().then(|| declared(head)).flatten();
    match declared.and_then(|name| charset_decoder(name.as_bytes())) {
        Some(decode) => Some(decode(bytes)),
        None => text(bytes),
    }
}

/// The encoding in `<?xml version="1.0" encoding="ISO-8859-1"?>`.
fn declared(head: &[u8]) -> Option<String> {
    let head: String = head.iter().map(|byte| char::from(*byte)).collect();
    let (declaration, _) = head.strip_prefix("<?xml")?.split_once("?>")?;
    let (_, value) = declaration.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    Some(value[1..].split(quote).next()?.to_owned())
}

fn utf16(bytes: &[u8], read: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| read([pair[0], pair[1]]));
    let chars = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
    chars.collect()
}

/// The character of a byte in the encoding that most files without a mark have.
fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        byte => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_gives_the_same_text() {
        let read = |bytes: &[u8]| text(bytes);
        assert_eq!(read("café".as_bytes()), Some("café".to_owned()));
        assert_eq!(read(b"\xef\xbb\xbfcaf\xc3\xa9"), Some("café".to_owned()));
        assert_eq!(read(b"caf\xe9 \x93x\x94"), Some("café “x”".to_owned()));
        assert_eq!(read(b"\xff\xfec\0a\0f\0\xe9\0"), Some("café".to_owned()));
        assert_eq!(read(b"\xfe\xff\0c\0a\0f\0\xe9"), Some("café".to_owned()));
        let declared = b"<?xml version=\"1.0\" encoding='koi8-r'?><a>\xc4\xc1</a>";
        assert!(xml(declared).unwrap().ends_with("<a>да</a>"));
        let latin = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>ni\xf1o</a>";
        assert!(xml(latin).unwrap().ends_with("<a>niño</a>"));
        assert_eq!(
            xml("<?xml encoding='latin1'?>é".as_bytes()).unwrap(),
            "<?xml encoding='latin1'?>é"
        );
        assert_eq!(xml(b"<a>\xf1</a>").unwrap(), "<a>ñ</a>");
        assert_eq!(read(b"a\0b"), None);
        assert_eq!(read(b"caf\xc3"), Some("caf".to_owned()), "a cut character");
    }
}
