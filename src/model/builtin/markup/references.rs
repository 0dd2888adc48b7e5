//! Character references: `&amp;`, `&#8217;`, `&#x2019;`. Only those that end in `;` are read, so that
//! the `&b=2` of an address and `R&D` are what they are.

/// Longest name.
const NAME_BYTES_MAX: usize = 8;

/// Names and their characters: Latin-1 in the order of its code points from U+00A0.
const LATIN: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para \
middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave \
Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc \
atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash \
ugrave uacute ucirc uuml yacute thorn yuml";

const OTHERS: [(&str, char); 62] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("AMP", '&'),
    ("LT", '<'),
    ("GT", '>'),
    ("QUOT", '"'),
    ("OElig", 'Œ'),
    ("oelig", 'œ'),
    ("Scaron", 'Š'),
    ("scaron", 'š'),
    ("Yuml", 'Ÿ'),
    ("circ", 'ˆ'),
    ("tilde", '˜'),
    ("ensp", '\u{2002}'),
    ("emsp", '\u{2003}'),
    ("thinsp", '\u{2009}'),
    ("zwnj", '\u{200c}'),
    ("zwj", '\u{200d}'),
    ("lrm", '\u{200e}'),
    ("rlm", '\u{200f}'),
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("dagger", '†'),
    ("bull", '•'),
    ("hellip", '…'),
    ("permil", '‰'),
    ("prime", '′'),
    ("lsaquo", '‹'),
    ("rsaquo", '›'),
    ("euro", '€'),
    ("trade", '™'),
    ("larr", '←'),
    ("uarr", '↑'),
    ("rarr", '→'),
    ("darr", '↓'),
    ("harr", '↔'),
    ("rArr", '⇒'),
    ("minus", '−'),
    ("infin", '∞'),
    ("asymp", '≈'),
    ("ne", '≠'),
    ("le", '≤'),
    ("ge", '≥'),
    ("sum", '∑'),
    ("radic", '√'),
    ("alpha", 'α'),
    ("beta", 'β'),
    ("mu", 'μ'),
    ("pi", 'π'),
    ("check", '✓'),
    ("star", '☆'),
    ("num", '#'),
    ("commat", '@'),
];

/// The reference a text begins with: its character and its bytes.
pub fn read(rest: &str) -> Option<(char, usize)> {
    let body = rest.strip_prefix('&')?;
    if let Some(number) = body.strip_prefix('#') {
        return numeric(number).map(|(character, bytes)| (character, bytes + 2));
    }
    let named = body.bytes().take(NAME_BYTES_MAX + 1).take_while(u8::is_ascii_alphanumeric).count();
    if named == 0 || body.as_bytes().get(named) != Some(&b';') {
        return None;
    }
    let name = &body[..named];
    let latin = LATIN.split(' ').position(|one| one == name);
    let character = match latin {
        Some(place) => char::from_u32(0xa0 + u32::try_from(place).ok()?),
        None => OTHERS.iter().find(|(one, _)| *one == name).map(|(_, character)| *character),
    };
    Some((character?, named + 2))
}

fn numeric(number: &str) -> Option<(char, usize)> {
    let (digits, radix) = match number.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    let count = digits.bytes().take(8).take_while(u8::is_ascii_hexdigit).count();
    if digits.as_bytes().get(count) != Some(&b';') {
        return None;
    }
    let code = u32::from_str_radix(&digits[..count], radix).ok()?;
    // Pages written on Windows give its own code points for quotes and dashes.
    let code = match code {
        0x85 => 0x2026,
        0x91 => 0x2018,
        0x92 => 0x2019,
        0x93 => 0x201c,
        0x94 => 0x201d,
        0x96 => 0x2013,
        0x97 => 0x2014,
        code => code,
    };
    let character =
        char::from_u32(code).filter(|character| !character.is_control() || *character == '\n')?;
    Some((character, number.len() - digits.len() + count + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_what_is_neither() {
        assert_eq!(read("&eacute;t&eacute;"), Some(('é', 8)));
        assert_eq!(read("&yuml;"), Some(('ÿ', 6)));
        assert_eq!(read("&nbsp;"), Some(('\u{a0}', 6)));
        assert_eq!(read("&#8217;s"), Some(('’', 7)));
        assert_eq!(read("&#x1F600;"), Some(('😀', 9)));
        for no in ["&b=2", "&amp", "&;", "&#;", "&#x;", "&#xD800;", "&#0;", "&nosuch;", "& x"] {
            assert_eq!(read(no), None, "{no}");
        }
    }
}
