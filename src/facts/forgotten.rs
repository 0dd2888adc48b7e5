//! What a person took back.

use serde::Serialize;

use crate::contract::ids::Seq;
use crate::state::event::SummaryPointer;

/// Texts were forgotten: from this record on, nobody can read what was made of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// How many sources were named.
    pub sources: u64,
    /// The summaries that are gone, each once.
    pub summaries: Vec<SummaryPointer>,
    /// The bags that held some of them.
    pub bags: Vec<String>,
    /// Records whose bodies can never be read again: of those summaries and bags, and of answers.
    pub bodies: Vec<Seq>,
}
