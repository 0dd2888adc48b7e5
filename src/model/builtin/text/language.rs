//! Which language a text is written in, by its commonest little words.
//!
//! Too little evidence gives `und`, never a guess.

use super::super::lexicon::{Language, lexicon};
use super::words;
use crate::markup::prefix;

/// Longer words are no markers, whatever their case.
const MARKER_BYTES_MAX: usize = 21;
/// Bytes looked at from the start of the text: more changes nothing.
const SAMPLE_BYTES: usize = 16 << 10;
const MARKERS_MIN: u32 = 2;

/// The language most of whose little words the parts of a text use.
pub(crate) fn language_of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Language {
    let mut counts = vec![0_u32; lexicon().languages.len()];
    let mut left = SAMPLE_BYTES;
    for part in parts {
        let sample = prefix(part, left);
        count_markers(sample, &mut counts);
        left -= sample.len();
        if left == 0 {
            break;
        }
    }
    // Of equal counts the earlier language wins.
    let best = (0..counts.len()).rev().max_by_key(|&index| counts[index]);
    match best {
        Some(index) if counts[index] >= MARKERS_MIN => Language::at(index),
        _ => Language::UNDETERMINED,
    }
}

fn count_markers(sample: &str, counts: &mut [u32]) {
    for (count, habits) in counts.iter_mut().zip(&lexicon().languages) {
        let letters = habits.marker_letters.chars();
        *count += letters.filter(|letter| sample.contains(*letter)).count() as u32;
    }
    let mut lower = String::new();
    words::for_each_token(sample, |start, end| {
        let token = &sample[start..end];
        if token.len() > MARKER_BYTES_MAX {
            return;
        }
        words::lower_case_into(token, &mut lower);
        let Some(languages) = lexicon().markers.get(lower.as_str()) else { return };
        for (index, count) in counts.iter_mut().enumerate() {
            *count += languages >> index & 1;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_languages_are_told_apart() {
        let cases = [
            ("The meeting was moved to Friday and we will need your answer.", "en"),
            ("La reunión se pasó al viernes y necesitamos que respondas por favor.", "es"),
            ("A reunião foi adiada e não sabemos mais do que isso.", "pt"),
            ("La réunion est reportée et nous avons besoin de votre réponse pour le plan.", "fr"),
            ("Die Besprechung ist verschoben und wir brauchen eine Antwort auf das Angebot.", "de"),
            ("🙂🙂🙂", "und"),
            ("", "und"),
        ];
        for (text, code) in cases {
            assert_eq!(language_of([text]).code(), code, "{text}");
        }
    }
}
