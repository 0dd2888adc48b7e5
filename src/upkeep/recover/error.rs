//! Why a log could not be made again.

use crate::log::LogError;
use crate::seam::position::QueueError;
use crate::sequencer::engine::{EngineError, OperatorError};
use crate::sequencer::mark::MarkError;
use crate::upkeep::copy::CopyError;

#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error("read the readable part of the log")]
    Log(#[from] LogError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("cancel again a request whose ack says that it was cancelled")]
    Operator(#[from] OperatorError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Mark(#[from] MarkError),
    #[error("read {path}")]
    Evidence { path: String, source: std::io::Error },
}
