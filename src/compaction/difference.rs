//! Where the files of a snapshot differ from the log.

use serde::{Deserialize, Serialize};

/// One thing `verify` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The snapshot.
    pub sequence: u64,
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub problem: String,
}
