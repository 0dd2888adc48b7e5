//! Where the published digests differ from the log.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Relative to the bus home.
    pub path: String,
    /// What is wrong with it.
    pub what: &'static str,
    /// The bag it belongs to, if the log can write that bag again.
    pub bag_id: Option<String>,
}
