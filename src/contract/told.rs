//! What is said of a failure. Words of this program and words of others are kept apart.
//!
//! Contract. A message stays in the log when the text that it is about is forgotten. Only the words of others (a server,
//! a program, a template, a parameter) can repeat that text. So each part of a message says who wrote it, and whoever
//! keeps the message hides words in the parts of others only.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A message, in parts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToldFailure(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Ours(String),
    Theirs(String),
}

impl ToldFailure {
    /// Words that this program did not write, and that may repeat a text.
    pub fn by_others(words: impl Into<String>) -> ToldFailure {
        ToldFailure(vec![Part::Theirs(words.into())])
    }

    /// With more behind it.
    #[must_use]
    pub fn and(mut self, more: impl Into<ToldFailure>) -> ToldFailure {
        self.0.extend(more.into().0);
        self
    }

    /// Puts other words in the place of the words of others.
    pub(crate) fn rewrite(&mut self, rewritten: &dyn Fn(&str) -> String) {
        for part in &mut self.0 {
            if let Part::Theirs(words) = part {
                *words = rewritten(words);
            }
        }
    }
}

impl Part {
    fn words(&self) -> &str {
        match self {
            Part::Ours(words) | Part::Theirs(words) => words,
        }
    }
}

impl From<String> for ToldFailure {
    fn from(ours: String) -> ToldFailure {
        ToldFailure(vec![Part::Ours(ours)])
    }
}

impl From<&str> for ToldFailure {
    fn from(ours: &str) -> ToldFailure {
        ours.to_owned().into()
    }
}

impl fmt::Display for ToldFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| f.write_str(part.words()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_others_are_rewritten() {
        let mut told = ToldFailure::from("it said: ")
            .and(ToldFailure::by_others("credit"))
            .and("; add credit");
        assert_eq!(told.to_string(), "it said: credit; add credit");
        told.rewrite(&|words| words.replace("credit", "…"));
        assert_eq!(told.to_string(), "it said: …; add credit");
    }
}
