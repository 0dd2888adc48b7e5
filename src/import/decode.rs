//! Bytes of a text file as text: UTF-8, UTF-16, what the file declares, else the older encoding whose
//! letters fit best.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use mail_parser::decoders::charsets::map::charset_decoder;

/// A declaration of an encoding stands in these first bytes.
const DECLARATION_BYTES: usize = 1024;
/// The encoding of a text without a declaration follows from these first bytes.
const GUESSED_BYTES: usize = 1 << 20;
/// A shorter text in UTF-16 needs a mark.
const UTF16_UNITS_MIN: usize = 8;
const ESCAPE: &str = "\u{1b}";

/// The text of some bytes; `None` when they are binary. The last character may be cut off. Colours of a terminal are no
/// text.
pub(crate) fn text(bytes: &[u8]) -> Option<String> {
    characters(bytes).map(|text| if text.contains(ESCAPE) { without_colours(&text) } else { text })
}

/// The text without the terminal sequences `ESC [ … letter`.
fn without_colours(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(ESCAPE) {
        out.push_str(before);
        let code = after.strip_prefix('[').map(|code| {
            code.trim_start_matches(|c: char| c.is_ascii_digit() || ";:?<=> ".contains(c))
        });
        let end = code.and_then(|code| code.strip_prefix(|c: char| ('@'..='~').contains(&c)));
        rest = match end {
            Some(end) => end,
            None => {
                out.push_str(ESCAPE);
                after
            }
        };
    }
    out.push_str(rest);
    out
}

fn characters(bytes: &[u8]) -> Option<String> {
    if let Some(rest) = bytes.strip_prefix(b"\xff\xfe") {
        return Some(utf16(rest, u16::from_le_bytes));
    }
    if let Some(rest) = bytes.strip_prefix(b"\xfe\xff") {
        return Some(utf16(rest, u16::from_be_bytes));
    }
    if let Some(unit) = utf16_without_mark(bytes) {
        return Some(utf16(bytes, unit));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => (!text.contains('\0')).then(|| text.to_owned()),
        Err(error) if error.error_len().is_none() && !bytes.contains(&0) => {
            Some(String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned())
        }
        Err(_) if bytes.contains(&0) => None,
        Err(_) if is_damaged_utf8(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Err(_) => Some(in_older_encoding(bytes)),
    }
}

/// How the units of UTF-16 are written, where its mark is missing: the letters of most languages of Europe have a zero
/// beside each byte, always on the same side.
fn utf16_without_mark(bytes: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    let head = &bytes[..bytes.len().min(DECLARATION_BYTES)];
    let zeros = |first: usize| head.iter().skip(first).step_by(2).filter(|one| **one == 0).count();
    let (pairs, even, odd) = (head.len() / 2, zeros(0), zeros(1));
    let is_most = |zeros: usize| pairs >= UTF16_UNITS_MIN && zeros * 4 >= pairs * 3;
    match (even, odd) {
        (0, odd) if is_most(odd) => Some(u16::from_le_bytes),
        (even, 0) if is_most(even) => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// Whether most of what is not ASCII is UTF-8: then some bytes are damaged, and the rest is not another encoding.
fn is_damaged_utf8(bytes: &[u8]) -> bool {
    let (mut letters, mut damaged) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        letters += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        damaged += usize::from(!chunk.invalid().is_empty());
    }
    letters >= damaged
}

/// The text in the encoding of before Unicode that its letters fit best.
fn in_older_encoding(bytes: &[u8]) -> String {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&bytes[..bytes.len().min(GUESSED_BYTES)], bytes.len() <= GUESSED_BYTES);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

/// The text of a page or an XML file: in the encoding that it declares, where its bytes are no UTF-8.
pub(crate) fn marked_up(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(DECLARATION_BYTES)];
    let is_utf8 = match std::str::from_utf8(bytes) {
        // Some encodings write everything in the letters of ASCII.
        Ok(_) => !bytes.contains(&b'\x1b'),
        Err(error) => error.error_len().is_none(),
    };
    let declared = (!is_utf8).then(|| declared(head)).flatten();
    match declared.and_then(|name| charset_decoder(name.as_bytes())) {
        Some(decode) => Some(decode(bytes)),
        None => text(bytes),
    }
}

/// The encoding in `<?xml version="1.0" encoding="ISO-8859-1"?>` or `<meta charset="ISO-8859-1">`.
fn declared(head: &[u8]) -> Option<String> {
    let head: String = head.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    let xml = head.trim_start().strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    let named = xml.and_then(|(declaration, _)| named_behind(declaration, "encoding"));
    named.or_else(|| {
        let elements = head.split("<meta").skip(1).filter_map(|rest| rest.split('>').next());
        elements.into_iter().find_map(|element| named_behind(element, "charset"))
    })
}

/// The word behind `name=`, with or without quotes.
fn named_behind(text: &str, name: &str) -> Option<String> {
    let (_, value) = text.split_once(name)?;
    let value = value.trim_start().strip_prefix('=')?.trim_start_matches([' ', '"', '\'']);
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || "-_.:".contains(c));
    // The declaration could be read as single bytes, so the text is not UTF-16.
    let word = value.split(is_end).next()?;
    (!word.is_empty() && !word.starts_with("utf-16")).then(|| word.to_owned())
}

fn utf16(bytes: &[u8], read: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| read([pair[0], pair[1]]));
    let chars = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
    chars.collect()
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
        let unmarked = |unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "The café opens.".encode_utf16().flat_map(unit).collect()
        };
        for unit in [u16::to_le_bytes, u16::to_be_bytes] {
            assert_eq!(read(&unmarked(unit)), Some("The café opens.".to_owned()));
        }
        let declared = b"<?xml version=\"1.0\" encoding='koi8-r'?><a>\xc4\xc1</a>";
        assert!(marked_up(declared).unwrap().ends_with("<a>да</a>"));
        let latin = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>ni\xf1o</a>";
        assert!(marked_up(latin).unwrap().ends_with("<a>niño</a>"));
        assert_eq!(
            marked_up("<?xml encoding='latin1'?>é".as_bytes()).unwrap(),
            "<?xml encoding='latin1'?>é"
        );
        assert_eq!(marked_up(b"<a>\xf1</a>").unwrap(), "<a>ñ</a>");
        assert_eq!(read(b"a\0b"), None);
        assert_eq!(read(b"caf\xc3"), Some("caf".to_owned()), "a cut character");
    }

    #[test]
    fn a_text_that_names_no_encoding_is_read_in_the_one_that_fits() {
        for (name, written) in [
            ("windows-1251", "Встреча перенесена на пятницу, потому что зал закрыт на ремонт."),
            ("koi8-r", "Встреча перенесена на пятницу, потому что зал закрыт на ремонт."),
            (
                "windows-1250",
                "Schůze byla přeložena na pátek, protože sál je zavřený a šatna taky.",
            ),
            (
                "windows-1253",
                "Η συνάντηση μεταφέρθηκε για την Παρασκευή, επειδή η αίθουσα είναι κλειστή.",
            ),
            ("windows-1252", "La réunion est reportée à vendredi, parce que la salle est fermée."),
            ("shift_jis", "会議は金曜日に延期されました。部屋が閉まっているためです。"),
            ("euc-kr", "회의가 금요일로 연기되었습니다. 방이 닫혀 있기 때문입니다."),
            ("gb18030", "会议推迟到星期五，因为房间正在装修。"),
            ("big5", "會議延到星期五，因為房間正在裝修。"),
        ] {
            let encoding = encoding_rs::Encoding::for_label(name.as_bytes()).unwrap();
            let (bytes, _, has_errors) = encoding.encode(written);
            assert!(!has_errors);
            assert_eq!(text(&bytes).as_deref(), Some(written), "{name}");
        }
    }

    #[test]
    fn a_damaged_byte_makes_no_other_encoding_of_a_text() {
        assert_eq!(text(b"caf\xc3\xa9 \xff ni\xc3\xb1o").unwrap(), "café \u{fffd} niño");
    }

    #[test]
    fn a_page_is_read_in_the_encoding_that_it_declares() {
        for (page, expected) in [
            (&b"<html><meta charset=\"windows-1251\"><p>\xc4\xe0"[..], "Да"),
            (b"<head><META http-equiv=Content-Type content='text/html; charset=Shift_JIS'><p>\x93\xfa\x96\x7b", "日本"),
            (b"<meta name=viewport><meta charset=iso-2022-jp><p>\x1b$BF|K\\\x1b(B", "日本"),
            (b"<meta charset=windows-1251><p>\xc3\xa9", "é"),
            (b"<meta charset=unknown><p>\xe9!", "é!"),
            (b"<meta charset=utf-16><p>\xe9!", "é!"),
            (b"<p>charset=windows-1251 \xe9!", "é!"),
        ] {
            let text = marked_up(page).unwrap();
            assert!(text.ends_with(expected), "{text}");
        }
    }

    #[test]
    fn colours_of_a_terminal_are_no_text() {
        assert_eq!(text(b"\x1b[1;31mError\x1b[0m: \x1b[Kfull").unwrap(), "Error: full");
        assert_eq!(text(b"a\x1bb\x1b[").unwrap(), "a\x1bb\x1b[");
    }
}
