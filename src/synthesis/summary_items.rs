//! Reads summary items of a Summary Bus by manifest, for packs made from summaries that exist.
//!
//! A daily file is believed only when its manifest names its bytes and their hash. The two are read
//! one after the other, so a publisher that exchanges the tree in between is met by reading again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::run_dir::read_bounded;
use crate::contract::hash::{Digest, sha256};
use crate::os::Disk;

/// Largest daily file read.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Largest manifest read.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// How often a pair that does not match is read again.
const ATTEMPTS: usize = 3;

/// The streams of the bus.
pub const STREAMS: [&str; 4] = ["events", "sessions", "documents", "chunk_sets"];

/// A summary item.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryItem {
    /// Its id.
    pub summary_id: String,
    /// Its stream.
    pub stream: String,
    /// Its day.
    pub day: String,
    /// Its text.
    pub text: String,
}

/// Why the bus could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// Reading failed.
    #[error("read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A manifest is no manifest.
    #[error("read {path}: not a manifest of the Summary Bus")]
    BadManifest {
        /// The file.
        path: String,
    },
    /// A daily file is not the one its manifest describes.
    #[error("read {path}: its manifest describes other bytes")]
    Mismatch {
        /// The file.
        path: String,
    },
    /// A line is no summary item.
    #[error("read {path}: line {line} is no summary item")]
    BadLine {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
    },
}

/// Finds items by id below `<bus home>/summaries`; those absent are absent from the answer.
/// `days` narrows the search where it is known.
pub fn find(
    disk: &dyn Disk,
    bus_home: &Path,
    ids: &BTreeSet<String>,
    days: Option<&BTreeSet<String>>,
) -> Result<BTreeMap<String, SummaryItem>, BusError> {
    let mut found = BTreeMap::new();
    let manifests = bus_home.join("summaries/manifest");
    let names = match disk.list(&manifests) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(source) => {
            return Err(BusError::Read { path: manifests.display().to_string(), source });
        }
    };
    for name in names {
        let Some((day, stream)) = partition(&name) else { continue };
        if days.is_some_and(|days| !days.contains(day)) {
            continue;
        }
        let data = bus_home.join(format!("summaries/{stream}/{day}.{stream}.summary.jsonl"));
        let bytes = verified(disk, &manifests.join(&name), &data)?;
        collect(&bytes, &data, day, stream, ids, &mut found)?;
    }
    Ok(found)
}

fn partition(manifest: &str) -> Option<(&str, &str)> {
    let (day, stream) = manifest.strip_suffix(".summary.manifest.json")?.split_once('.')?;
    STREAMS.contains(&stream).then_some((day, stream))
}

fn verified(disk: &dyn Disk, manifest: &Path, data: &Path) -> Result<Vec<u8>, BusError> {
    let shown = |path: &Path| path.display().to_string();
    let read = |path: &Path, limit| {
        read_bounded(disk, path, limit)
            .map_err(|source| BusError::Read { path: shown(path), source })
    };
    for _ in 0..ATTEMPTS {
        let value: Value = serde_json::from_slice(&read(manifest, MANIFEST_BYTES_MAX)?)
            .map_err(|_| BusError::BadManifest { path: shown(manifest) })?;
        let claimed = value["integrity"]["sha256"].as_str().and_then(|hash| hash.parse().ok());
        let claimed: Digest =
            claimed.ok_or_else(|| BusError::BadManifest { path: shown(manifest) })?;
        let bytes = read(data, FILE_BYTES_MAX)?;
        if sha256(&bytes) == claimed && value["integrity"]["bytes"] == bytes.len() {
            return Ok(bytes);
        }
    }
    Err(BusError::Mismatch { path: shown(data) })
}

fn collect(
    bytes: &[u8],
    path: &Path,
    day: &str,
    stream: &str,
    ids: &BTreeSet<String>,
    found: &mut BTreeMap<String, SummaryItem>,
) -> Result<(), BusError> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    for (index, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let bad = || BusError::BadLine { path: path.display().to_string(), line: index + 1 };
        let value: Value = serde_json::from_slice(line).map_err(|_| bad())?;
        let id = value["summary_id"].as_str().ok_or_else(bad)?;
        if !ids.contains(id) {
            continue;
        }
        let text = value["outputs"]["summary_text"].as_str().ok_or_else(bad)?;
        let item = SummaryItem {
            summary_id: id.to_owned(),
            stream: stream.to_owned(),
            day: day.to_owned(),
            text: text.to_owned(),
        };
        found.insert(id.to_owned(), item);
    }
    Ok(())
}
