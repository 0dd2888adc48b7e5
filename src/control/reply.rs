//! How an answer is given: immediately, or read from the log by another thread.

use std::sync::Arc;

use crate::config::Config;
use crate::contract::time::Timestamp;
use crate::control::question::Answer;
use crate::control::waits::WaitingCalls;
use crate::explain::ExplainError;
use crate::home::Home;
use crate::log::codec::CodecError;
use crate::log::{LogError, ReadError};
use crate::os::Machine;
use crate::projections::runs::described;
use crate::registry::SharedFlows;
use crate::upkeep::forget::ForgetError;
use crate::upstream::IndexStore;
use crate::work::isolation::processes::Isolation;

/// An answer, or the work that leads to one.
pub enum Reply {
    Now(Answer),
    /// To be read from the log, by any thread.
    Later(Box<dyn FnOnce() -> Answer + Send>),
}

/// What an answer can depend on beside the engine.
pub struct QuestionContext<'a> {
    /// The moment of asking.
    pub now: Timestamp,
    pub machine: &'a Machine,
    pub home: &'a Home,
    pub config: &'a Config,
    /// Where upstream ids are looked up.
    pub index: &'a Arc<dyn IndexStore>,
    pub flows: &'a SharedFlows,
    /// Where flows run that an answer needs.
    pub(crate) processes: Isolation,
    /// Bytes of the queue file.
    pub(crate) queue_bytes: u64,
    /// Bytes free on its disk.
    pub free_bytes: Option<u64>,
    /// Calls of attempts under way that wait before they are sent.
    pub(crate) waiting_calls: WaitingCalls,
}

/// Why an answer could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("read the row of a request")]
    Row(#[from] CodecError),
    #[error(transparent)]
    Explain(#[from] ExplainError),
    #[error(transparent)]
    Forget(#[from] ForgetError),
    #[error("write the explanation as JSON")]
    Json(#[from] serde_json::Error),
}

impl From<LogError> for AnswerError {
    fn from(error: LogError) -> AnswerError {
        AnswerError::Read(error.into())
    }
}

/// A reply that is read by another thread; an error is a refusal with its causes.
pub(super) fn later(work: impl FnOnce() -> Result<Answer, AnswerError> + Send + 'static) -> Reply {
    Reply::Later(Box::new(move || {
        work().unwrap_or_else(|error| Answer::Refused(described(&error)))
    }))
}

pub(super) fn refused(why: impl Into<String>) -> Reply {
    Reply::Now(Answer::Refused(why.into()))
}

pub(super) fn not_found(what: String) -> Reply {
    Reply::Now(Answer::NotFound(what))
}
