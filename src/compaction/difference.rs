//! Where the files of a snapshot differ from the log.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub sequence: u64,
    pub file: String,
    /// What is wrong with it.
    pub problem: String,
}
