//! The text that is summarized, and its hash.
//!
//! Contract: `summarizer.text` version `1` is the sequence of steps in [`normalize`], in that
//! order. The hash is the SHA-256 of the canonical JSON of the ordered array of `{id, text}`,
//! every source in its place, also those whose text is empty. `docs/source-text-hash.md` tells
//! other programs how to recompute it.
//!
//! See docs/adr/0010-source-text-hash.md.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use crate::contract::hash::{Digest, Hasher};

/// `selection.normalization.name`.
pub(crate) const NORMALIZATION_NAME: &str = "summarizer.text";
/// `selection.normalization.version`.
pub(crate) const NORMALIZATION_VERSION: &str = "1";

/// Normalizes one text: NFC; CRLF, CR, vertical tab, form feed and NEXT LINE to LF; control characters other than TAB and LF, and
/// U+FEFF, removed; spaces and tabs at line ends removed; two or more blank lines become one;
/// leading and trailing LF removed.
pub(crate) fn normalize(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let composed: Cow<'_, str> = match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => Cow::Borrowed(text),
        _ => Cow::Owned(text.nfc().collect()),
    };
    Cow::Owned(tidy_lines(&without_controls(&composed)))
}

/// True for text that normalization would return unchanged, found without looking at Unicode
/// tables: the common case, and the cheap one.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut previous = b'\n';
    let mut newlines = 1_u8;
    for byte in bytes {
        match byte {
            b'\n' => {
                newlines += 1;
                if newlines > 2 || matches!(previous, b' ' | b'\t') {
                    return false;
                }
            }
            b' '..=b'~' | b'\t' => newlines = 0,
            _ => return false,
        }
        previous = *byte;
    }
    bytes.is_empty() || (!matches!(bytes[0], b'\n') && !matches!(previous, b' ' | b'\t' | b'\n'))
}

fn without_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {
                chars.next_if_eq(&'\n');
                out.push('\n');
            }
            '\t' | '\n' => out.push(c),
            '\u{b}' | '\u{c}' | '\u{85}' => out.push('\n'),
            '\u{feff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

fn tidy_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut blank = false;
    for line in text.split('\n') {
        let line = line.trim_end_matches([' ', '\t']);
        if line.is_empty() {
            blank = true;
            continue;
        }
        if !out.is_empty() {
            out.push_str(if blank { "\n\n" } else { "\n" });
        }
        blank = false;
        out.push_str(line);
    }
    out
}

/// Hashes the ordered array of `{id, text}` without building it.
pub(crate) struct SourceTextHasher {
    hasher: Hasher,
    buffer: Vec<u8>,
    empty: bool,
}

impl Default for SourceTextHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl SourceTextHasher {
    /// Starts with an empty array.
    pub(crate) fn new() -> SourceTextHasher {
        SourceTextHasher { hasher: Hasher::new(), buffer: vec![b'['], empty: true }
    }

    /// Appends one source; `text` must be normalized already.
    pub(crate) fn push(&mut self, id: &str, text: &str) {
        if !self.empty {
            self.buffer.push(b',');
        }
        self.empty = false;
        self.buffer.extend_from_slice(b"{\"id\":");
        push_json_string(&mut self.buffer, id);
        self.buffer.extend_from_slice(b",\"text\":");
        push_json_string(&mut self.buffer, text);
        self.buffer.push(b'}');
        self.hasher.update(&self.buffer);
        self.buffer.clear();
    }

    /// The `source_text_hash`.
    pub(crate) fn finish(mut self) -> Digest {
        self.buffer.push(b']');
        self.hasher.update(&self.buffer);
        self.hasher.finish()
    }
}

// serde_json escapes strings exactly as RFC 8785 does; a test holds the two together.
fn push_json_string(buffer: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(buffer, text).expect("a string always serializes into memory");
}

/// The hash of an ordered list of `(id, normalized text)`.
pub fn source_text_hash<'a>(sources: impl IntoIterator<Item = (&'a str, &'a str)>) -> Digest {
    let mut hasher = SourceTextHasher::new();
    for (id, text) in sources {
        hasher.push(id, text);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::json::jcs_hash;
    use proptest::prelude::*;
    use serde_json::json;

    fn slowly(text: &str) -> String {
        let composed: String = text.nfc().collect();
        tidy_lines(&without_controls(&composed))
    }

    #[test]
    fn each_rule_of_version_1_is_applied() {
        for (raw, normal) in [
            ("", ""),
            ("Cafe\u{301}", "Caf\u{e9}"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("a\u{0}b\u{7f}c\u{feff}e\tf", "abce\tf"),
            ("a\u{85}b\u{c}c\u{b}d\u{85}\u{85}\u{85}e\u{c}", "a\nb\nc\nd\n\ne"),
            ("a \t\nb\t", "a\nb"),
            ("a\n\n\n\n b", "a\n\n b"),
            ("a\n \n\t\nb", "a\n\nb"),
            ("\n\n  a\n\n", "  a"),
            (" \n ", ""),
            ("\u{2028}x\u{200b}", "\u{2028}x\u{200b}"),
        ] {
            assert_eq!(normalize(raw), normal, "{raw:?}");
        }
    }

    #[test]
    fn frozen_hashes() {
        let none: [(&str, &str); 0] = [];
        assert_eq!(
            source_text_hash(none).hex(),
            "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
        );
        let two = [("evt_001", "Hello\nworld"), ("evt_002", "")];
        let array =
            json!([{"id": "evt_001", "text": "Hello\nworld"}, {"id": "evt_002", "text": ""}]);
        assert_eq!(source_text_hash(two), jcs_hash(&array));
        assert_eq!(
            source_text_hash(two).hex(),
            "6211b5ee2095e498db52990707c47d6290caa8703d2d43e797fab1c9e835a28b"
        );
        let composed = normalize("Cafe\u{301} \r\n\r\n\r\nEnd");
        assert_eq!(
            source_text_hash([("evt_001", composed.as_ref())]).hex(),
            "887adc098fb6f59542f2d6f3392e287ae35a5d15ca8cec7ae261ab492b86d9bf"
        );
    }

    proptest! {
        #![proptest_config(crate::proptests::config())]

        #[test]
        fn the_fast_path_agrees_with_the_rules(text in "[ \\t\\n\\ra-c\u{e9}\u{301}\u{0}\u{85}]{0,24}") {
            prop_assert_eq!(normalize(&text), slowly(&text));
        }

        #[test]
        fn the_streamed_hash_is_the_hash_of_the_array(
            sources in prop::collection::vec((any::<String>(), any::<String>()), 0..5)
        ) {
            let array: Vec<_> = sources.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
            let pairs = sources.iter().map(|(id, text)| (id.as_str(), text.as_str()));
            prop_assert_eq!(source_text_hash(pairs), jcs_hash(&json!(array)));
        }
    }
}
