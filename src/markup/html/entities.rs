//! Character references: `&amp;`, `&#8217;`, `&#x2019;`, `&copy`.
//!
//! `entities.txt` is the table of the HTML standard (<https://html.spec.whatwg.org/entities.json>): a
//! name on each line, with its `;` where it needs one, and the code points it stands for in
//! hexadecimal, sorted by bytes. A data file adds nothing to the time a build takes.

use std::sync::LazyLock;

static NAMES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    include_str!("entities.txt").lines().filter_map(|line| line.split_once(' ')).collect()
});

/// Longest name, with its `;`.
const NAME_BYTES_MAX: usize = 32;
/// Longest name that needs no `;`.
const OPEN_NAME_BYTES_MAX: usize = 6;

/// The characters of a reference: one or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) first: char,
    pub(super) second: Option<char>,
    /// Bytes of the reference.
    pub(super) bytes: usize,
}

/// The reference a text begins with, as a browser reads it.
pub(super) fn read(rest: &str) -> Option<Reference> {
    let body = rest.strip_prefix('&')?;
    if let Some(number) = body.strip_prefix('#') {
        let (code, bytes) = number_of(number)?;
        let ends = usize::from(number.as_bytes().get(bytes) == Some(&b';'));
        return Some(Reference { first: character(code), second: None, bytes: 2 + bytes + ends });
    }
    let run = name_length(body);
    let closed = body.as_bytes().get(run) == Some(&b';');
    closed.then(|| named(&body[..=run])).flatten().or_else(|| {
        let longest = run.min(OPEN_NAME_BYTES_MAX);
        (2..=longest).rev().find_map(|length| named(&body[..length]))
    })
}

/// The reference a text begins with, if it ends in `;`: so that the `&b=2` of an address and `R&D`
/// are what they are.
pub(super) fn read_closed(rest: &str) -> Option<(char, usize)> {
    let found = read(rest)?;
    let closed = rest[..found.bytes].ends_with(';');
    let shown = !found.first.is_control() || found.first == '\n';
    let known = found.first != char::REPLACEMENT_CHARACTER;
    (closed && shown && known && found.second.is_none()).then_some((found.first, found.bytes))
}

fn name_length(body: &str) -> usize {
    body.bytes().take(NAME_BYTES_MAX).take_while(u8::is_ascii_alphanumeric).count()
}

fn named(name: &str) -> Option<Reference> {
    let place = NAMES.binary_search_by(|(one, _)| (*one).cmp(name)).ok()?;
    let mut codes = NAMES[place].1.split(' ').map(|code| u32::from_str_radix(code, 16));
    let first = char::from_u32(codes.next()?.ok()?)?;
    let second = codes.next().and_then(|code| char::from_u32(code.ok()?));
    Some(Reference { first, second, bytes: name.len() + 1 })
}

/// The number after `#` and its bytes, without the `;`.
fn number_of(number: &str) -> Option<(u32, usize)> {
    let (digits, radix) = match number.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    let count = digits.chars().take_while(|c| c.is_digit(radix)).count();
    let too_large = |_| u32::MAX;
    let code = u32::from_str_radix(&digits[..count], radix).unwrap_or_else(too_large);
    (count > 0).then_some((code, number.len() - digits.len() + count))
}

/// The character of a number; pages written on Windows give its own code points for quotes and dashes.
fn character(code: u32) -> char {
    const WINDOWS: [u32; 32] = [
        0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039,
        0x152, 0x8d, 0x17d, 0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
        0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
    ];
    let code = match code {
        0x80..=0x9f => WINDOWS[(code - 0x80) as usize],
        code => code,
    };
    char::from_u32(code).filter(|c| *c != '\0').unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(source: &str) -> Option<(String, usize)> {
        let found = read(source)?;
        Some(([Some(found.first), found.second].into_iter().flatten().collect(), found.bytes))
    }

    #[test]
    fn the_table_is_sorted_and_complete() {
        assert_eq!(NAMES.len(), 2231);
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (name, _) in NAMES.iter() {
            assert!(named(name).is_some(), "{name}");
            assert!(name.len() <= NAME_BYTES_MAX, "{name}");
            assert!(name.ends_with(';') || name.len() <= OPEN_NAME_BYTES_MAX, "{name}");
        }
    }

    #[test]
    fn names_and_numbers_are_read_as_a_browser_reads_them() {
        let said = |text: &str, bytes| Some((text.to_owned(), bytes));
        assert_eq!(text("&eacute;t&eacute;"), said("é", 8));
        assert_eq!(text("&copy 2026"), said("©", 5));
        assert_eq!(text("&notit;"), said("¬", 4));
        assert_eq!(text("&notin;"), said("∉", 7));
        assert_eq!(text("&NotEqualTilde;"), said("\u{2242}\u{338}", 15));
        assert_eq!(text("&#8217;s"), said("’", 7));
        assert_eq!(text("&#x1F600"), said("😀", 8));
        assert_eq!(text("&#150;"), said("–", 6));
        assert_eq!(text("&#99999999999;"), said("\u{fffd}", 14));
        for no in ["&b=2", "&;", "&#;", "&#x;", "&nosuch;", "& x", "&", "&#é"] {
            assert_eq!(text(no), None, "{no}");
        }
    }

    #[test]
    fn a_closed_reference_ends_in_a_semicolon() {
        assert_eq!(read_closed("&eacute;t"), Some(('é', 8)));
        assert_eq!(read_closed("&nbsp;"), Some(('\u{a0}', 6)));
        for no in ["&b=2", "&amp", "&copy 2026", "&notit;", "&#xD800;", "&#0;", "&#7;"] {
            assert_eq!(read_closed(no), None, "{no}");
        }
    }
}
