//! Which language a text is written in, by its commonest little words.
//!
//! English and Spanish are what the rest is tuned for; four neighbours are told apart so that they
//! are not mistaken for them. Too little evidence gives `und`, never a guess.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::words;

/// Longer words are no markers, whatever their case.
const MARKER_BYTES_MAX: usize = 21;
/// Bytes looked at from the start of the text: more changes nothing.
const SAMPLE_BYTES: usize = 16 << 10;

/// A language the program can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// `en`
    English,
    /// `es`
    Spanish,
    /// `pt`
    Portuguese,
    /// `fr`
    French,
    /// `de`
    German,
    /// `it`
    Italian,
    /// `und`: not enough evidence
    Undetermined,
}

const MARKERS: [(Language, &str); 6] = [
    (
        Language::English,
        "the and of to is that it for you with this are was have not be we will your from they at by would can",
    ),
    (
        Language::Spanish,
        "el los las que una por con para del se es lo como pero más está muy también hay y al su sus este esta porque qué",
    ),
    (
        Language::Portuguese,
        "o os não uma com para do da dos das é em no na você mais também são ao está pelo pela isso foi e um",
    ),
    (
        Language::French,
        "le les des est et une dans pour pas que vous nous sur avec ce il qui au du sont cette être plus mais",
    ),
    (
        Language::German,
        "der die das und ist nicht ein eine mit für auf den von zu dem ich sie wir auch sich im des werden wird",
    ),
    (
        Language::Italian,
        "il gli che di è per una con non sono del della anche più questo nel alla dei le ma ho ed loro ci",
    ),
];

impl Language {
    /// ISO 639-1 code, or `und`.
    pub fn code(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::Spanish => "es",
            Language::Portuguese => "pt",
            Language::French => "fr",
            Language::German => "de",
            Language::Italian => "it",
            Language::Undetermined => "und",
        }
    }

    /// The language most of whose little words the text uses.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Language {
        let mut counts = [0_u32; MARKERS.len()];
        let mut left = SAMPLE_BYTES;
        for part in parts {
            let sample = prefix(part, left);
            count_markers(sample, &mut counts);
            left -= sample.len();
            if left == 0 {
                break;
            }
        }
        let best = (0..MARKERS.len()).max_by_key(|&index| (counts[index], MARKERS.len() - index));
        match best {
            Some(index) if counts[index] >= 2 => MARKERS[index].0,
            _ => Language::Undetermined,
        }
    }
}

fn count_markers(sample: &str, counts: &mut [u32; MARKERS.len()]) {
    for (character, language) in [('ñ', 1), ('¿', 1), ('¡', 1), ('ã', 2), ('õ', 2), ('ß', 4)]
    {
        counts[language] += sample.contains(character) as u32;
    }
    let markers = markers();
    let mut lower = String::new();
    words::for_each_token(sample, |start, end| {
        let token = &sample[start..end];
        if token.len() > MARKER_BYTES_MAX {
            return;
        }
        words::lower_case_into(token, &mut lower);
        let Some(languages) = markers.get(lower.as_str()) else { return };
        for (index, count) in counts.iter_mut().enumerate() {
            *count += u32::from(languages >> index & 1);
        }
    });
}

/// Which languages have a marker, as bits in the order of [`MARKERS`].
fn markers() -> &'static HashMap<&'static str, u8, words::Fast> {
    static ALL: OnceLock<HashMap<&'static str, u8, words::Fast>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = HashMap::default();
        for (index, (_, markers)) in MARKERS.iter().enumerate() {
            for marker in markers.split(' ') {
                *all.entry(marker).or_insert(0) |= 1 << index;
            }
        }
        all
    })
}

/// The longest prefix of at most `bytes` bytes that ends between characters.
pub fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_neighbours_apart() {
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
            assert_eq!(Language::of([text]).code(), code, "{text}");
        }
    }
}
