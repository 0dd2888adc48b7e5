//! Characters that steer a terminal, and how they are shown instead.

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

#[cfg(test)]
mod tests {
    use super::*;

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
