//! What a server or a program says of a failure, without words of the texts it was about.
//!
//! Contract. The message of a failed attempt stays in the log and in the acks, also when its text is forgotten. So in the
//! parts that others wrote, each word that also stands in one of the texts is replaced before the message is kept. Short
//! words and stop words of a language stay: they tell nothing of a text, and a message needs them. One mark stands for
//! several words in a row.
//!
//! See docs/adr/0137-lines-that-a-person-takes-back.md.

use std::collections::HashSet;

use crate::model::builtin::lexicon::lexicon;

/// Stands for words that were left out.
const LEFT_OUT: &str = "…";
/// A word of fewer letters, or a number of fewer digits, is no word of a text.
const LETTERS_MIN: usize = 4;
const DIGITS_MIN: usize = 3;

/// A message without the words of these texts.
pub(super) fn without_words_of(message: &str, texts: &[&str]) -> String {
    let mut wanted: HashSet<String> =
        words(message).filter_map(|(word, _)| telling(word)).collect();
    let mut found = HashSet::new();
    for (word, _) in texts.iter().flat_map(|text| words(text)) {
        if wanted.is_empty() {
            break;
        }
        found.extend(telling(word).and_then(|word| wanted.take(&word)));
    }
    if found.is_empty() {
        return message.to_owned();
    }
    let (mut out, mut kept_until, mut is_gap) = (String::new(), 0, false);
    for (word, at) in words(message) {
        let is_left_out = telling(word).is_some_and(|word| found.contains(&word));
        if is_left_out {
            if !is_gap {
                out.push_str(&message[kept_until..at]);
                out.push_str(LEFT_OUT);
            }
            is_gap = true;
            kept_until = at + word.len();
        } else {
            is_gap = false;
        }
    }
    out.push_str(&message[kept_until..]);
    out
}

/// A word as it is compared; `None` for one that tells nothing of a text.
fn telling(word: &str) -> Option<String> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    if word.chars().count() < if is_number { DIGITS_MIN } else { LETTERS_MIN } {
        return None;
    }
    let folded = word.to_lowercase();
    let is_stop = lexicon().languages.iter().any(|one| one.stop_words.contains(folded.as_str()));
    (!is_stop).then_some(folded)
}

/// The words of a text with their places. A letter after a backslash is a sign that a program escaped.
fn words(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        loop {
            let start = rest + text[rest..].find(|c: char| c.is_alphanumeric() || c == '\\')?;
            if text[start..].starts_with('\\') {
                rest = start + escaped(&text[start..]);
                continue;
            }
            let length = text[start..].find(|c: char| !c.is_alphanumeric());
            rest = length.map_or(text.len(), |length| start + length);
            return Some((&text[start..rest], start));
        }
    })
}

/// The length of an escaped sign: `\n`, `\x0a` or `\u000a`.
fn escaped(text: &str) -> usize {
    let digits = match text.chars().nth(1) {
        Some('x') => 2,
        Some('u') => 4,
        _ => 0,
    };
    text.char_indices().nth(2 + digits).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "The zucchini was planted by Uncle Theobald.\nIt costs 720 EUR.";

    #[test]
    fn a_message_quotes_no_word_of_the_text_and_keeps_all_others() {
        for (message, expected) in [
            ("the model is overloaded", "the model is overloaded"),
            ("KeyError: 'zucchini'", "KeyError: '…'"),
            ("refused \"Zucchini was planted\": by rule 7", "refused \"… was …\": by rule 7"),
            ("ValueError: 'by Uncle Theobald.\\nIt costs 720'", "ValueError: 'by ….\\nIt …'"),
            ("bad value zucchini, planted", "bad value …"),
            ("status 400 and 720", "status 400 and …"),
        ] {
            assert_eq!(without_words_of(message, &[TEXT]), expected);
        }
    }

    #[test]
    fn escaped_signs_are_no_letters_of_a_word() {
        for message in ["'\\nTheobald'", "'\\x0aTheobald'", "'\\u000aTheobald'", "\\"] {
            assert!(!without_words_of(message, &[TEXT]).contains("Theobald"), "{message}");
        }
    }
}
