//! Where the published digests differ from the log.

/// One file or folder that is not what the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where, relative to the bus home.
    pub path: String,
    /// What is wrong with it.
    pub what: &'static str,
    /// The bag it belongs to, when that bag can be written again from the log.
    pub bag_id: Option<String>,
}
