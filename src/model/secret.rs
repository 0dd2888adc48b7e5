//! A key that no output shows.

use std::fmt;

/// Shorter keys are not replaced in what a server says. A word such as `ollama`, which fills the
/// field where a server wants any key, is not a secret and may well occur in an answer.
const SECRET_BYTES_MIN: usize = 8;

/// A key. Its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(key: impl Into<String>) -> Secret {
        Secret(key.into())
    }

    /// The key, for the one header that carries it.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// The text with every occurrence of the key replaced.
    pub(super) fn hide_in(&self, text: &str) -> String {
        if self.is_short() { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }

    pub(super) fn is_short(&self) -> bool {
        self.0.len() < SECRET_BYTES_MIN
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}
