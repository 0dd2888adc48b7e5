//! The form of the lists of versions: which summaries of a day are no longer the newest of their source,
//! or are about a source that became private.
//!
//! Contract. `versions/<day>.versions.jsonl` in the bus home has one line for each such summary of that
//! day, of all streams, ordered by id. A day without any has no file. Items of the Summary Bus stay as they
//! are: a reader that knows nothing of these lists sees all versions.
//!
//! See docs/adr/0110-the-newest-version-of-a-source.md.

use serde::{Deserialize, Serialize};

use crate::contract::time::Day;

/// The folder, relative to the bus home.
pub(crate) const VERSIONS_DIR: &str = "versions";
const SUFFIX: &str = ".versions.jsonl";
const SCHEMA: &str = "summary_version.v1";

/// The file name of the list for one day.
pub(crate) fn file_name(day: Day) -> String {
    format!("{day}{SUFFIX}")
}

/// What is known of a summary beside its item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionMark {
    schema_version: String,
    /// The summary that is listed.
    pub summary_id: String,
    /// The next newer summary of the same flow, question and sources.
    pub replaced_by: Option<String>,
    /// When that one was made.
    pub replaced_at: Option<String>,
    /// False when a newer summary calls one of its sources private.
    pub publish: Option<bool>,
}

impl VersionMark {
    pub(crate) fn new(
        summary_id: &str,
        replaced: Option<(String, String)>,
        is_private: bool,
    ) -> VersionMark {
        let (by, at) = replaced.unzip();
        VersionMark {
            schema_version: SCHEMA.to_owned(),
            summary_id: summary_id.to_owned(),
            replaced_by: by,
            replaced_at: at,
            publish: is_private.then_some(false),
        }
    }

    /// Whether another summary took its place.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced_by.is_some()
    }

    /// Whether a source of it became private.
    pub(crate) fn is_private(&self) -> bool {
        self.publish == Some(false)
    }

    /// The day it was replaced, in UTC.
    pub(crate) fn replaced_on(&self) -> Option<&str> {
        self.replaced_at.as_deref()?.get(..10)
    }
}
