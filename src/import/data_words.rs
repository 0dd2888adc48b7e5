//! Whether data says anything: a JSON file of numbers has nothing to summarize.
//!
//! Contract: pure. The names of members and of columns say nothing by themselves. A text that is cut off is judged by
//! what is there.

use std::borrow::Cow;

/// Bytes of a letter that is written as two escapes.
const LETTER_BYTES_MAX: usize = 12;
/// Values that stand for a missing or a plain value.
const NOT_SAID: [&str; 7] = ["nan", "null", "none", "nil", "na", "true", "false"];

/// Whether a value of a JSON text has a word.
pub(super) fn json_has_words(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('"') {
        let Some(end) = end_of_string(after) else { return has_word(&unescaped(after)) };
        let (string, behind) = (&after[..end], &after[end + 1..]);
        let is_name = behind.trim_start().starts_with(':');
        if !is_name && has_word(&unescaped(string)) {
            return true;
        }
        rest = behind;
    }
    false
}

/// Whether a row below the first has a word. One row alone counts.
pub(super) fn table_has_words(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let mut below = lines.peekable();
    match below.peek() {
        None => has_word(first),
        Some(_) => below.any(has_word),
    }
}

/// What a string of JSON says: many programs write every letter beyond ASCII as `\u041f`. A string that is cut off
/// may end within such a letter.
fn unescaped(string: &str) -> Cow<'_, str> {
    if !string.contains('\\') {
        return Cow::Borrowed(string);
    }
    let ends = (0..=LETTER_BYTES_MAX).filter_map(|cut| string.len().checked_sub(cut));
    let mut read = ends.filter_map(|end| {
        serde_json::from_str::<String>(&format!("\"{}\"", string.get(..end)?)).ok()
    });
    read.next().map_or(Cow::Borrowed(string), Cow::Owned)
}

/// Where a string of JSON ends.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

/// Two letters or more without a digit beside them, as no number, time or id has; or a sign that is a word.
fn has_word(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.any(|word| {
        let is_letters = word.chars().all(char::is_alphabetic);
        let is_long = word.chars().nth(1).is_some() || word.chars().any(|c| c > '\u{2e7f}');
        is_letters && is_long && !NOT_SAID.contains(&word.to_ascii_lowercase().as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_times_and_ids_are_no_words() {
        for data in [
            r#"{"a":1}"#,
            "[1, 2.5e7, null, true]",
            r#"{"at": "2026-02-11T10:00:00Z", "id": "9f8e7d6c-1a2b", "state": null}"#,
            r#"{"a \"quoted\" name": "", "b": ["true", "N/A"]}"#,
            r#"{"a": "1\n2\t3\u0020\u00b0", "\u041f\u0440": 1}"#,
            "[]",
        ] {
            assert!(!json_has_words(data), "{data}");
        }
        for data in [
            r#"{"state": "ok"}"#,
            r#"["a \"word\""]"#,
            r#"{"a": "屋"}"#,
            r#"{"at":1}
{"m":"Roof"}"#,
            r#"{"text": "cut in the middle of"#,
            r#"{"m": "\u041f\u0440\u0438\u0432\u0435\u0442"}"#,
            r#"["\u5c4b"]"#,
            r#"["\ud840\udc00"]"#,
            r#"{"m": "\u041f\u0440\u0438\ud840\ud"#,
        ] {
            assert!(json_has_words(data), "{data}");
        }
        assert!(!table_has_words("day,amount\n2026-01-03,240\n2026-01-04,35\n"));
        assert!(table_has_words("day,item\n2026-01-03,Pump\n"));
        assert!(table_has_words("day,item\n"), "the names of columns alone");
    }
}
