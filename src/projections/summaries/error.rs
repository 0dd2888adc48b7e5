//! Why the Summary Bus could not be published.

use std::io;

use crate::export::publish::PublishError;
use crate::export::summary_bus::RenderError;
use crate::log::{LogError, ReadError};

/// The bus could not be published.
#[derive(Debug, thiserror::Error)]
pub enum SummariesError {
    /// The log, or a record of it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A day that does not add up.
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error("publish the summaries")]
    Publish(#[from] PublishError),
    /// The published files could not be looked at or written.
    #[error("write the published files")]
    Disk(#[from] io::Error),
    /// What it says is the same at each try, so that it is told once.
    #[error(
        "too little room on the disk of {path}: a publication leaves {} MiB free for the log, which is half \
         of commit.disk_headroom",
        keeps >> 20
    )]
    NoRoom { path: String, keeps: u64 },
    /// A run record or a row that is no JSON.
    #[error("render a run record")]
    Record(#[from] serde_json::Error),
    /// What is kept beside the log.
    #[error("store the state of the publisher for the next start")]
    Cache(#[source] LogError),
    /// Another projection that the publisher keeps.
    #[error("write the files beside the summaries")]
    Beside(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The thread had to stop.
    #[error("the publisher ended early")]
    Ended,
}

impl From<LogError> for SummariesError {
    fn from(error: LogError) -> SummariesError {
        SummariesError::Read(error.into())
    }
}

impl SummariesError {
    /// Whether what was to be published is wrong, rather than the disk.
    pub(crate) fn is_violation(&self) -> bool {
        matches!(
            self,
            SummariesError::Render(RenderError::Order { .. } | RenderError::Unreconciled { .. })
                | SummariesError::Render(RenderError::NotAnItem(_))
                | SummariesError::Publish(PublishError::Invalid(_))
                | SummariesError::Read(ReadError::Unexpected { .. })
        )
    }
}
