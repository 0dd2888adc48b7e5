//! The content words of a text, by which it is compared with another.

use std::collections::BTreeMap;

use super::super::text::stopwords;
use super::super::text::words::{fold, for_each_token};

/// Content words of at least so many bytes as they are written, by what they are compared by: folded,
/// a plural ending off.
pub(crate) fn content_words(text: &str, least: usize) -> BTreeMap<String, String> {
    /// Shorter words end in `s` for other reasons.
    const PLURAL_BYTES_MIN: usize = 5;
    let mut found = BTreeMap::new();
    for_each_token(text, |start, end| {
        let word = fold(&text[start..end]);
        if word.len() < least || stopwords::is_stop_word(&word) {
            return;
        }
        let plural = word.len() >= PLURAL_BYTES_MIN;
        let bare = if plural { word.trim_end_matches('s') } else { &word };
        found.entry(bare.to_string()).or_insert_with(|| text[start..end].to_lowercase());
    });
    found
}
