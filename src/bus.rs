//! Reading the Summary Bus from another program; [`digests`] reads the Digest Bus.
//!
//! ```no_run
//! use std::path::Path;
//! use summarizer::bus::SummaryBus;
//! use summarizer::contract::vocabulary::Stream;
//!
//! # fn main() -> Result<(), summarizer::bus::BusError> {
//! let bus = SummaryBus::open(Path::new("buses"))?;
//! for day in bus.days(Stream::Sessions)? {
//!     for item in bus.partition(Stream::Sessions, day)?.items() {
//!         println!("{}", item?.value["outputs"]["summary_text"]);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Contract: a partition is read by its manifest. The reader returns only bytes whose hash and
//! length match the manifest. It opens `summaries` once and resolves all paths relative to that
//! descriptor. When a file does not match, because the tree it opened has become the next shadow, it
//! opens `summaries` again and retries. So a reader never waits for the service and never sees half
//! a publication. Unknown fields are passed through; unknown versions are errors.

pub mod digests;
pub(crate) mod search;
pub mod versions;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::contract::hash::{Digest, sha256};
use crate::contract::time::{Day, Timestamp, parse_instant};
use crate::contract::vocabulary::Stream;
use crate::export::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::os::dir::DirHandle;

/// Most times that a reader opens the tree again.
const REOPENS_MAX: usize = 100;
/// A fault that repeats this often in a row is damage, not a race. Checking whether the opened tree
/// is still the live one would prove nothing, because it may have become live again meanwhile.
const SAME_FAULT_MAX: usize = 5;
/// Most bytes of a data file that are read into memory.
const PARTITION_BYTES_MAX: u64 = 4 << 30;

/// Why a bus cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The file system failed.
    #[error("read {path}")]
    Read {
        /// The file, relative to the bus home.
        path: String,
        /// The error of the file system.
        #[source]
        source: io::Error,
    },
    /// The partition or bag does not exist.
    #[error("find {path}: it does not exist")]
    Missing {
        /// The missing file, relative to the bus home.
        path: String,
    },
    /// A file is not valid.
    #[error("{path}{}: {what}", line.map(|line| format!(":{line}")).unwrap_or_default())]
    Malformed {
        /// The file, relative to the bus home.
        path: String,
        /// The line, from 1, when the fault is in one line.
        line: Option<u64>,
        /// The fault, for people.
        what: String,
    },
    /// The version is unknown to this reader.
    #[error("{path}: version {seen} is not supported")]
    Version {
        /// The file, relative to the bus home.
        path: String,
        /// The version that the file names.
        seen: String,
    },
    /// The data does not match its manifest.
    #[error("{path} does not match its manifest or index")]
    Mismatch {
        /// The data file, relative to the bus home.
        path: String,
    },
}

/// The Summary Bus under a bus home.
#[derive(Debug, Clone)]
pub struct SummaryBus {
    summaries: PathBuf,
}

impl SummaryBus {
    /// Opens the bus under a bus home, the folder that holds `summaries`.
    pub fn open(bus_home: &Path) -> Result<SummaryBus, BusError> {
        let bus = SummaryBus { summaries: bus_home.join(SUMMARIES_DIR) };
        bus.handle()?;
        Ok(bus)
    }

    /// The days of a stream that have a manifest, sorted.
    pub fn days(&self, stream: Stream) -> Result<Vec<Day>, BusError> {
        let names = match self.handle()?.list("manifest") {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(BusError::Read { path: "manifest".to_owned(), source }),
        };
        let keys = names.iter().filter_map(|name| PartitionKey::of_manifest(name));
        let mut days: Vec<Day> =
            keys.filter(|key| key.stream == stream).map(|key| key.day).collect();
        days.sort();
        Ok(days)
    }

    /// One verified partition.
    pub fn partition(&self, stream: Stream, day: Day) -> Result<Partition, BusError> {
        let key = PartitionKey { stream, day };
        let mut last = None;
        let mut repeated = 0;
        for _ in 1..REOPENS_MAX {
            let read = read_partition(&self.handle()?, key)?;
            let fault = match read {
                PartitionRead::Whole(partition) => return Ok(*partition),
                PartitionRead::Gap(fault) | PartitionRead::Mismatch(fault) => fault,
            };
            repeated = if last.as_ref() == Some(&fault) { repeated + 1 } else { 1 };
            if repeated == SAME_FAULT_MAX {
                break;
            }
            last = Some(fault);
        }
        match read_partition(&self.handle()?, key)? {
            PartitionRead::Whole(partition) => Ok(*partition),
            PartitionRead::Gap(fault) => Err(BusError::Missing { path: fault.path }),
            PartitionRead::Mismatch(fault) => Err(BusError::Mismatch { path: fault.path }),
        }
    }

    /// The first and the last time of the sources of a partition, as its manifest says them; its data is not
    /// opened. `None` where the manifest says none.
    pub(crate) fn source_times(
        &self,
        stream: Stream,
        day: Day,
    ) -> Result<Option<(Timestamp, Timestamp)>, BusError> {
        let manifest = read(&self.handle()?, &PartitionKey { stream, day }.manifest_file())?;
        let manifest: Option<Value> =
            manifest.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let time = |name: &str| {
            let written = manifest.as_ref()?["time_range"][name].as_str()?;
            parse_instant(written).ok().map(|instant| instant.at)
        };
        Ok(time("min_ts").zip(time("max_ts")))
    }

    fn handle(&self) -> Result<DirHandle, BusError> {
        DirHandle::open(&self.summaries).map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> BusError {
        BusError::Read { path: self.summaries.display().to_string(), source }
    }
}

/// A partition whose bytes match its manifest.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Its stream and day.
    pub key: PartitionKey,
    /// The manifest that names the data file.
    pub manifest: Value,
    /// Hash of its data.
    pub sha256: Digest,
    data: Vec<u8>,
}

impl Partition {
    /// The bytes, exactly as published.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Its items, in order.
    pub fn items(&self) -> impl Iterator<Item = Result<Item, BusError>> + '_ {
        let lines = self.data.split(|byte| *byte == b'\n').enumerate();
        lines.filter(|(_, line)| !line.is_empty()).map(|(index, line)| self.item(index, line))
    }

    fn item(&self, index: usize, line: &[u8]) -> Result<Item, BusError> {
        let (path, line_number) = (self.key.data_file(), index as u64 + 1);
        let value: Value = serde_json::from_slice(line).map_err(|error| BusError::Malformed {
            path: path.clone(),
            line: Some(line_number),
            what: error.to_string(),
        })?;
        let seen = value["schema_version"].as_str().unwrap_or_default();
        if seen != self.key.stream.item_version() {
            return Err(BusError::Version { path, seen: seen.to_owned() });
        }
        Ok(Item { line: line_number, value })
    }
}

/// One summary.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its 1-based line.
    pub line: u64,
    /// The object, unknown fields included.
    pub value: Value,
}

impl Item {
    /// The member `summary_id`; empty when it is missing.
    pub fn summary_id(&self) -> &str {
        self.value["summary_id"].as_str().unwrap_or_default()
    }

    /// The member `outputs.summary_text`; empty when it is missing.
    pub fn summary_text(&self) -> &str {
        self.value["outputs"]["summary_text"].as_str().unwrap_or_default()
    }

    /// All upstream ids that it names, in any member that may name one.
    pub fn upstream_ids(&self) -> impl Iterator<Item = &str> {
        let lists =
            ["/source_ids", "/event_ids", "/chunk_ids", "/document_ids", "/selection/session_ids"];
        let listed = lists
            .into_iter()
            .filter_map(|pointer| self.value.pointer(pointer)?.as_array())
            .flatten()
            .filter_map(Value::as_str);
        listed.chain(self.value["document_id"].as_str())
    }
}

/// The result of reading the tree once.
enum PartitionRead {
    Whole(Box<Partition>),
    Gap(Fault),
    Mismatch(Fault),
}

/// A fault, identified by the bytes that were found.
#[derive(PartialEq, Eq)]
struct Fault {
    path: String,
    manifest: Option<Digest>,
    data: Option<Digest>,
}

fn read_partition(handle: &DirHandle, key: PartitionKey) -> Result<PartitionRead, BusError> {
    let (manifest_path, data_path) = (key.manifest_file(), key.data_file());
    let gap = |path: &str| {
        PartitionRead::Gap(Fault { path: path.to_owned(), manifest: None, data: None })
    };
    let Some(manifest_bytes) = read(handle, &manifest_path)? else {
        return Ok(gap(&manifest_path));
    };
    let manifest: Value = serde_json::from_slice(&manifest_bytes).map_err(|error| {
        let path = manifest_path.clone();
        BusError::Malformed { path, line: None, what: error.to_string() }
    })?;
    let seen = manifest["schema_version"].as_str().unwrap_or_default();
    if seen != key.stream.manifest_version() {
        return Err(BusError::Version { path: manifest_path, seen: seen.to_owned() });
    }
    let declared = manifest["integrity"]["sha256"].as_str().unwrap_or_default().parse::<Digest>();
    let Some(data) = read(handle, &data_path)? else { return Ok(gap(&data_path)) };
    let observed = sha256(&data);
    if declared != Ok(observed) || manifest["integrity"]["bytes"] != data.len() as u64 {
        let (manifest, data) = (Some(sha256(&manifest_bytes)), Some(observed));
        return Ok(PartitionRead::Mismatch(Fault { path: data_path, manifest, data }));
    }
    Ok(PartitionRead::Whole(Box::new(Partition { key, manifest, sha256: observed, data })))
}

fn read(handle: &DirHandle, path: &str) -> Result<Option<Vec<u8>>, BusError> {
    let mut bytes = Vec::new();
    let outcome = handle
        .open_file(path)
        .and_then(|file| file.take(PARTITION_BYTES_MAX).read_to_end(&mut bytes));
    match outcome {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(BusError::Read { path: path.to_owned(), source }),
    }
}
