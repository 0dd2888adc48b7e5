//! What an ending says about itself in the log, as projections read it: where it counts, what was
//! read, and what went wrong. Read once for each event and shared by all of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::vocabulary::{Bus, ErrorClass, Stream};

/// The facts of an ending. Absent members were not known.
#[derive(Debug, Default, Deserialize)]
pub struct OutcomeFacts {
    /// The stream it counts on.
    pub stream: Option<Stream>,
    /// The day it counts on.
    pub day: Option<String>,
    /// What was read.
    #[serde(default)]
    pub inputs: Vec<InputFact>,
    /// The selection manifest that was read.
    pub selection: Option<SelectionFact>,
    /// Warnings of the readers.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Sources of the summary.
    #[serde(default)]
    pub counts: SourceCounts,
    /// What went wrong.
    pub error: Option<ErrorFact>,
    /// How the item was made.
    #[serde(default)]
    pub provenance: Provenance,
}

/// Something that was read.
#[derive(Debug, Serialize, Deserialize)]
pub struct InputFact {
    /// The data file, relative to the bus home.
    pub path: String,
    /// The bus.
    pub bus: Bus,
    /// The partition.
    pub partition: String,
    /// Hash of the data.
    pub data_sha256: Option<String>,
    /// The manifest, relative to the bus home.
    pub manifest_path: Option<String>,
    /// Hash of the manifest.
    pub manifest_sha256: Option<String>,
    /// Version of its records.
    pub schema_version: Option<String>,
}

/// A selection manifest that was read.
#[derive(Debug, Serialize, Deserialize)]
pub struct SelectionFact {
    /// Its path.
    pub path: String,
    /// Hash of the file.
    pub sha256: String,
    /// The hash recorded in it.
    pub selection_hash: String,
}

/// How many sources were used.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct SourceCounts {
    /// All of them.
    #[serde(default)]
    pub sources: u64,
    /// Left out.
    #[serde(default)]
    pub skipped: u64,
}

/// An error in the shared taxonomy.
#[derive(Debug, Clone, Deserialize)]
pub struct ErrorFact {
    /// One of the six classes.
    pub class: ErrorClass,
    /// The finer code.
    #[serde(default)]
    pub subtype: String,
    /// What the class requires.
    #[serde(default)]
    pub details: Value,
}

/// How an item was made.
#[derive(Debug, Default, Deserialize)]
pub struct Provenance {
    /// Tokens by kind.
    #[serde(default)]
    pub usage: BTreeMap<String, u64>,
}

impl OutcomeFacts {
    /// Reads them; facts of another shape say nothing.
    pub fn of(facts: &str) -> OutcomeFacts {
        serde_json::from_str(facts).unwrap_or_default()
    }
}
