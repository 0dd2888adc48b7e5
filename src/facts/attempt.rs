//! What an attempt found: the day it counts on, the upstream files it read, the place of each
//! source.

use serde::{Deserialize, Serialize};

use super::note::InputNote;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::contract::vocabulary::{Bus, Stream};

/// What is known of an attempt's input. Before the input is resolved only stream and day are known;
/// an attempt that failed inside the service knows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InputFacts {
    /// The upstream files that were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<UpstreamInput>,
    /// How many more files were read than are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inputs_omitted: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_text_hash: Option<Digest>,
    #[serde(default)]
    pub counts: SourceCounts,
    /// What the readers warned of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<InputNote>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionInput>,
    /// The partition the attempt counts on.
    pub stream: Option<Stream>,
    pub day: Option<Day>,
    /// Set for what `recover` learned from an ack of a lost log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<Recovered>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An upstream partition or file that was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UpstreamInput {
    /// The data file, relative to the bus home.
    pub path: String,
    pub bus: Bus,
    /// The upstream partition; `other` for plain files.
    pub partition: String,
    /// Hash of the data that was read.
    pub data_sha256: Option<Digest>,
    /// Length of the data that was read.
    pub data_bytes: Option<u64>,
    /// The manifest, relative to the bus home.
    pub manifest_path: Option<String>,
    pub manifest_sha256: Option<Digest>,
    /// Version of its records.
    pub schema_version: Option<String>,
}

/// A selection manifest that was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SelectionInput {
    /// Its path, relative to the bus home.
    pub path: String,
    /// Hash of the file.
    pub sha256: Digest,
    /// The hash recorded in the file, as its writer spelled it.
    pub selection_hash: String,
}

/// How many sources an item was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceCounts {
    pub sources: u64,
    /// Those with text.
    pub used: u64,
    /// Those without.
    pub skipped: u64,
}

/// The place of every source, in the order of the sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourcePlaces {
    /// Neighbours of one file share its name: a day has thousands of sources in one file.
    pub files: Vec<FilePlaces>,
    /// How many sources are not listed for want of room.
    pub omitted: u64,
}

/// Sources that follow each other in one upstream file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlaces {
    pub file: String,
    pub sources: Vec<SourcePlace>,
}

/// About what a place takes in its printed form, beside its id: the bound on places counts by it.
pub(crate) const PLACE_BYTES: usize = 128;

/// Where the record of a source lies in its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourcePlace {
    pub id: String,
    pub line: u64,
    /// First byte of the record.
    pub offset: u64,
    /// Bytes of the record.
    pub len: u64,
    /// Bytes of the normalized text.
    pub text_bytes: u64,
}

impl SourcePlaces {
    /// Every listed source with its file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SourcePlace)> {
        self.files
            .iter()
            .flat_map(|file| file.sources.iter().map(|source| (file.file.as_str(), source)))
    }

    /// About how many bytes the list takes in the log.
    pub(crate) fn weight(&self) -> usize {
        let of_source = |source: &SourcePlace| source.id.len() + PLACE_BYTES;
        let of_file = |file: &FilePlaces| file.sources.iter().map(of_source).sum::<usize>();
        self.files.iter().map(|file| file.file.len() + of_file(file)).sum()
    }

    /// Adds the next source.
    pub fn push(&mut self, file: &str, place: SourcePlace) {
        match self.files.last_mut().filter(|last| last.file == file) {
            Some(last) => last.sources.push(place),
            None => {
                self.files.push(FilePlaces { file: file.to_owned(), sources: vec![place] });
            }
        }
    }
}

/// The ack of a lost log that reported the end of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    pub ack_seq: Seq,
    /// Hash of the lost record, when the ack named one.
    pub log_head: Option<Digest>,
    /// When the lost record was stamped, as the ack spelled it.
    pub at: String,
}
