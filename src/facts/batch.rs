//! Questions that go to a provider as one batch, and what became of the batch.

use serde::{Deserialize, Serialize};

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::vocabulary::words;
use crate::facts::model::{ModelIdentity, Usage};

/// A step of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", content = "content", rename_all = "snake_case")]
pub enum BatchFact {
    /// It is about to be sent.
    Prepared(PreparedBatch),
    /// The server has it.
    Submitted(SubmittedBatch),
    /// Its answers are in the log, or will never come.
    Ended(EndedBatch),
}

/// A batch that is about to be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreparedBatch {
    /// Our own name for it, which the server is told where it keeps such names.
    pub batch: String,
    pub provider: String,
    pub model: String,
    pub questions: Vec<BatchedQuestion>,
}

/// One question of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchedQuestion {
    /// The request it is for.
    pub request: Seq,
    /// Hash of everything that is asked. The server gets it as the name of the question.
    pub call: Digest,
    /// Who is asked, as far as that is known before the answer.
    pub identity: ModelIdentity,
    /// What is reserved for it in the budget of the day.
    pub expected: Usage,
    /// How many places of the prompt were redacted.
    pub redacted: u64,
}

/// A batch that the server has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedBatch {
    pub batch: String,
    /// The name that the server gave it.
    pub server_id: String,
}

/// How a batch ended. Questions without an answer that are not refused are asked again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedBatch {
    pub batch: String,
    pub end: BatchEnd,
    pub answered: u64,
    /// Questions that are asked directly from now on, because the server refused them in a batch, or because
    /// several batches gave them no answer.
    pub refused: Vec<Digest>,
    /// What the server said, for people.
    pub message: String,
}

impl BatchEnd {
    /// Whether the server had the batch for its whole time, so that a question without an answer may be the
    /// reason why it has none.
    pub(crate) fn was_worked_on(self) -> bool {
        matches!(self, BatchEnd::Completed | BatchEnd::Expired | BatchEnd::Lost)
    }
}

words! {
    /// How a batch ended.
    BatchEnd {
        /// The server worked through it.
        Completed = 1 "completed",
        /// The server did not finish it in time.
        Expired = 2 "expired",
        Cancelled = 3 "cancelled",
        /// The server refused it as a whole.
        Refused = 4 "refused",
        /// The server does not have it, or the server is not configured any more.
        Lost = 5 "lost",
    }
}
