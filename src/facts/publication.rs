//! Days of the Summary Bus: opened by a person, or not published.

use serde::{Deserialize, Serialize};

use super::attempt::UpstreamInput;
use crate::contract::time::Day;

/// A day exists from now on in every stream, even without summaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayOpened {
    pub day: Day,
    /// The upstream partitions of that day, as they were read.
    #[serde(default)]
    pub inputs: Vec<UpstreamInput>,
}

/// Committed summaries are not visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishFailed {
    pub message: String,
    /// True when the files would break a rule of the contract; false when the disk failed.
    pub violation: bool,
}
