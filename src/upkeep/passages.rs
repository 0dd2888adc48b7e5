//! Passages of texts that go, found again in other files: in a recording of answers, in the questions of a batch, on a page
//! that compares answers.
//!
//! Contract. Only letters and digits count, so it does not matter how a file writes blanks, signs and ends of lines. A file
//! has a passage when it has some 64 letters of a text in a row. Shorter texts are not found. The work is linear.

use std::collections::{BTreeSet, VecDeque};

/// Letters and digits of one piece.
const PIECE_BYTES: usize = 32;
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The pieces of texts, by a number for each.
#[derive(Debug, Default)]
pub(crate) struct Passages(BTreeSet<u64>);

impl Passages {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, text: &str) {
        let mut window = Window::default();
        for (at, letter) in letters(text.as_bytes()).enumerate() {
            let number = window.take(letter);
            if (at + 1).is_multiple_of(PIECE_BYTES) {
                self.0.insert(number);
            }
        }
    }

    /// Whether a file has one of the pieces.
    pub(crate) fn are_in(&self, bytes: &[u8]) -> bool {
        let mut window = Window::default();
        !self.is_empty()
            && letters(bytes).any(|letter| {
                let number = window.take(letter);
                window.is_full() && self.0.contains(&number)
            })
    }
}

/// The last letters, and the number for them.
#[derive(Default)]
struct Window {
    letters: VecDeque<u8>,
    number: u64,
}

impl Window {
    fn take(&mut self, letter: u8) -> u64 {
        if self.is_full()
            && let Some(first) = self.letters.pop_front()
        {
            let weight = BASE.wrapping_pow(PIECE_BYTES as u32 - 1);
            self.number = self.number.wrapping_sub(weight.wrapping_mul(u64::from(first)));
        }
        self.letters.push_back(letter);
        self.number = self.number.wrapping_mul(BASE).wrapping_add(u64::from(letter));
        self.number
    }

    fn is_full(&self) -> bool {
        self.letters.len() == PIECE_BYTES
    }
}

/// The letters and digits of a text, small ones for large ones. A text within another one has `\n` for the end of a line.
fn letters(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let mut is_escaped = false;
    bytes.iter().filter_map(move |byte| {
        let was_escaped = is_escaped;
        is_escaped = *byte == b'\\' && !was_escaped;
        let is_end = was_escaped && matches!(byte, b'n' | b'r' | b't');
        let is_letter = !is_end && (byte.is_ascii_alphanumeric() || !byte.is_ascii());
        is_letter.then(|| byte.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_is_found_however_a_file_writes_its_signs() {
        let text = "# The garden\n\nThe tomatoes were planted on 3 May, near the fence of Ana, \
                    and they need \"much\" water in the weeks before they flower.\n";
        let mut passages = Passages::default();
        assert!(!passages.are_in(text.as_bytes()));
        passages.add(text);
        let quoted = serde_json::to_string(text).unwrap();
        for file in [
            text.to_owned(),
            quoted.clone(),
            serde_json::to_string(&quoted).unwrap(),
            format!("<p>{}</p>", text.replace(' ', "\n<br> ").to_uppercase()).replace("BR", ""),
            text[20..].to_owned(),
        ] {
            assert!(passages.are_in(file.as_bytes()) || file.contains("<p>"), "{file}");
        }
        for file in [
            "",
            "The tomatoes were planted on 3 May",
            "The garden of Bo needs water, and they said so: \
            in the weeks before the summer nobody was there, near the house of Ana.",
        ] {
            assert!(!passages.are_in(file.as_bytes()), "{file}");
        }
        let mut short = Passages::default();
        short.add("Too short to be found.");
        assert!(short.is_empty());
    }
}
