//! Characters that steer a terminal, and how they are shown instead: [`escaped`] in JSON and in lines for programs,
//! [`named`] in what a person reads.
//!
//! See docs/adr/0139-naming-what-steers.md.

use std::borrow::Cow;

/// Whether a character moves the cursor, rings, changes colours, ends a line in some readers, or turns
/// the direction of writing. Line feeds and tabs are harmless.
pub fn steers(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
        )
        || matches!(c, '\u{fdd0}'..='\u{fdef}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with every such character as `\uXXXX`. JSON stays the same value.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if !steers(c) {
            shown.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            shown.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(shown)
}

/// Whether a character is left out where a person reads: it has no width, and hides and turns nothing by itself.
fn is_left_out(c: char) -> bool {
    matches!(c, '\r' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
}

/// The text as a person reads it on a terminal, in a memo and on a page: such a character is shown by its name, `(U+202E)`,
/// and nothing obeys it. Line feeds and tabs stay, other ends of lines are spaces, and marks without a width are left out.
pub fn named(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| steers(c) || is_left_out(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((number, after)) = turned_number(rest) {
            shown.push_str(number);
            rest = after;
            continue;
        }
        match c {
            c if is_left_out(c) => {}
            c if !steers(c) => shown.push(c),
            c if c.is_whitespace() => shown.push(' '),
            c => shown.push_str(&format!("(U+{:04X})", u32::from(c))),
        }
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(shown)
}

/// A number of a telephone at the beginning of a text, between two characters that turn it from left to right, and what
/// follows it. Telephones write every number so, and it reads the same without them.
fn turned_number(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix(['\u{202a}', '\u{2066}', '\u{2068}'])?;
    let is_of_number =
        |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '(' | ')' | ' ' | '\u{a0}');
    let (number, after) = inner.split_at(inner.find(|c| !is_of_number(c))?);
    let after = after.strip_prefix(['\u{202c}', '\u{2069}'])?;
    (!number.is_empty()).then_some((number, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_named_where_a_person_reads() {
        for (text, shown) in [
            ("a\u{1b}[2J\u{202e}b\u{2066}\u{e0041}", "a(U+001B)[2J(U+202E)b(U+2066)(U+E0041)"),
            ("a\r\n\tb\u{2028}c\u{c}d\u{200e}\u{200b}\u{feff}é", "a\n\tb c dé"),
            ("\u{202a}+49 170 (12)-3\u{202c}: Hi", "+49 170 (12)-3: Hi"),
            ("\u{2066}12\u{202e}3\u{2069}", "(U+2066)12(U+202E)3(U+2069)"),
            ("\u{202a}\u{202c}\u{202a}1", "(U+202A)(U+202C)(U+202A)1"),
        ] {
            assert_eq!(named(text), shown);
        }
        assert!(matches!(named("as it is\n\té 🏽"), Cow::Borrowed(_)));
    }

    #[test]
    fn steering_characters_are_shown_and_json_keeps_its_value() {
        let text = "a\u{1b}[2J\u{7}\u{202e}\u{2028}\u{9b}\u{e0041}\té\n";
        let shown = escaped(text);
        assert_eq!(shown, "a\\u001b[2J\\u0007\\u202e\\u2028\\u009b\\udb40\\udc41\té\n");
        let json = serde_json::to_string(text).unwrap();
        let again: String = serde_json::from_str(&escaped(&json)).unwrap();
        assert_eq!(again, text);
    }
}
