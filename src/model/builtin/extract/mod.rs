//! Things a text mentions, found by rules and never made up: dates and times, amounts, addresses,
//! names, cues. Every finding is a byte range of one part with the sentence it stands in.

mod corrected;
pub mod cues;
pub mod dates;
pub mod names;
pub mod tokens;
pub(crate) mod written;

/// A stretch of one part that says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mention {
    pub sentence: usize,
    /// First byte in the part.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}
