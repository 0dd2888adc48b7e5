//! What the properties of a PDF file say of it: its key words, its label, its XMP data.
//!
//! Contract: reads what stands in the file uncompressed, as most programs write it. Properties in compressed
//! objects are not seen.

use memchr::memmem;

use super::xml;
use crate::contract::publish::is_plain_mark;
use crate::markup::marks::Marks;

/// Longest name and longest text that are looked at, in bytes.
const NAME_BYTES_MAX: usize = 80;
const TEXT_BYTES_MAX: usize = 1 << 10;

/// What the properties say of the file.
pub(super) fn marks(bytes: &[u8]) -> Marks {
    let mut marks = Marks::default();
    let mut note = |name: &str, value: &str| {
        marks.said(is_plain_mark(name, &value.into()).then_some(false));
        marks.note(name, value);
    };
    memchr::memchr_iter(b'/', bytes).for_each(|at| property(&bytes[at + 1..], &mut note));
    memmem::find_iter(bytes, b"<x:xmpmeta").for_each(|at| xmp(&bytes[at..], &mut note));
    marks
}

/// `/Keywords (private)`, or the same in hexadecimal digits.
fn property(rest: &[u8], note: &mut dyn FnMut(&str, &str)) {
    let is_regular = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let name = rest.iter().take(NAME_BYTES_MAX).take_while(|byte| is_regular(byte)).count();
    let (name, rest) = rest.split_at(name);
    let rest = rest.trim_ascii_start();
    let text = match rest.first() {
        Some(b'(') => literal(&rest[1..]),
        Some(b'<') => hexadecimal(&rest[1..]),
        _ => return,
    };
    let name = std::str::from_utf8(name).unwrap_or_default();
    note(name, &characters(&text));
}

fn literal(rest: &[u8]) -> Vec<u8> {
    let (mut text, mut bytes) = (Vec::new(), rest.iter().take(TEXT_BYTES_MAX));
    while let Some(byte) = bytes.next() {
        match byte {
            b')' => break,
            b'\\' => text.extend(bytes.next()),
            byte => text.push(*byte),
        }
    }
    text
}

fn hexadecimal(rest: &[u8]) -> Vec<u8> {
    let digits = rest.iter().take(TEXT_BYTES_MAX).take_while(|byte| **byte != b'>');
    let digits: Vec<u32> = digits.filter_map(|byte| char::from(*byte).to_digit(16)).collect();
    digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
}

/// A text with a byte-order mark is UTF-16.
fn characters(text: &[u8]) -> String {
    let Some(units) = text.strip_prefix(b"\xfe\xff") else {
        return text.iter().map(|byte| char::from(*byte)).collect();
    };
    let units = units.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    char::decode_utf16(units).filter_map(Result::ok).collect()
}

fn xmp(rest: &[u8], note: &mut dyn FnMut(&str, &str)) {
    const END: &[u8] = b"</x:xmpmeta>";
    let Some(end) = memmem::find(rest, END) else { return };
    let text = String::from_utf8_lossy(&rest[..end + END.len()]);
    let Ok(parsed) = xml::parse(&text) else { return };
    for node in parsed.descendants().filter(|node| node.is_element()) {
        let texts = node.descendants().filter(|one| one.is_text()).filter_map(|one| one.text());
        let texts: Vec<&str> = texts.map(str::trim).filter(|text| !text.is_empty()).collect();
        // The subjects of Dublin Core are key words.
        let name = match node.tag_name().name() {
            "subject" => "keywords",
            name => name,
        };
        note(name, &texts.join(", "));
        node.attributes().for_each(|one| note(one.name(), one.value()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_of_a_file_are_marks_and_its_pages_are_not() {
        for (properties, expected) in [
            ("/Title (A) /Keywords (garden, private)", true),
            ("/Keywords<7072697661\n7465>", true),
            ("/Keywords <70726976617465>", true),
            ("/Keywords <FEFF0070007200690076006100740065>", true),
            ("/Keywords (a\\), confidential)", true),
            ("/MSIP_Label_1-a_Name (Confidential)", true),
            ("/Keywords (private sector)", false),
            ("/Title (Private)", false),
            ("(private) Tj /F1 12 Tf", false),
            (
                "<x:xmpmeta xmlns:x='x'><pdf:Keywords xmlns:pdf='p'>private</pdf:Keywords></x:xmpmeta>",
                true,
            ),
            ("<x:xmpmeta xmlns:x='x'><d xmlns:pdf='p' pdf:Keywords='private'/></x:xmpmeta>", true),
            (
                "<x:xmpmeta xmlns:x='x'><dc:subject xmlns:dc='d'><li>home</li> <li>private</li></dc:subject></x:xmpmeta>",
                true,
            ),
        ] {
            let said = marks(properties.as_bytes()).publish;
            assert_eq!(said == Some(false), expected, "{properties}");
        }
        let marks = marks(b"/Keywords (garden, health) /local_only (true)");
        assert!(marks.local_only && marks.filed_under.contains("health"), "{marks:?}");
    }
}
