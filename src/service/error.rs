//! Why the service stopped.

use crate::log::LogError;
use crate::projections::projector::ProjectorError;
use crate::seam::position::QueueError;
use crate::sequencer::copies::CopyError;
use crate::sequencer::engine::EngineError;
use crate::sequencer::mark::MarkError;
use crate::upkeep::retention::RetainError;

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("write the missing lines of run/ack.jsonl and run/quarantine.jsonl from the log")]
    Projector(#[from] ProjectorError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Mark(#[from] MarkError),
    #[error("read what was taken in of the queues")]
    Log(#[source] LogError),
    /// A bug: the threads that read queues hand over only what continues them.
    #[error("lines of the queue {host:?} at byte {start} do not continue what was taken in")]
    Misplaced { host: String, start: u64 },
    #[error("another host of the cluster leads now")]
    Deposed,
    #[error("remove data older than the retention period")]
    Retain(#[from] RetainError),
    #[error("start a thread")]
    Thread(#[from] std::io::Error),
}

impl From<CopyError> for ServiceError {
    fn from(error: CopyError) -> ServiceError {
        match error {
            CopyError::Queue(error) => error.into(),
            CopyError::Mark(error) => error.into(),
            CopyError::Log(error) => ServiceError::Log(error),
        }
    }
}

impl ServiceError {
    /// Whether this host leads no more: another one leads, or the shared log is out of reach. Its home is
    /// whole, and it may follow.
    pub(crate) fn leads_no_more(&self) -> bool {
        match self {
            ServiceError::Deposed => true,
            #[cfg(feature = "cluster")]
            ServiceError::Engine(EngineError::Commit(LogError::Shared(_))) => true,
            _ => false,
        }
    }
}
