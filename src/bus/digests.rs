//! Reads the Digest Bus from another program, starting from its indexes.
//!
//! ```no_run
//! use std::path::Path;
//! use summarizer::bus::digests::DigestBus;
//!
//! # fn main() -> Result<(), summarizer::bus::BusError> {
//! let bus = DigestBus::open(Path::new("buses"))?;
//! for entry in bus.indexes()?.entries() {
//!     let bag = bus.bag(&entry)?;
//!     for memo in bag.memos()? {
//!         println!("{}: {}", memo.title, memo.markdown.len());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Contract. All indexes are read through one descriptor of `index` and checked against
//! `index.sha256`, so they belong to one publication. A bag is checked byte for byte: `bag.json` and
//! `trace.json` by their hashes in the registry, all other files by `bag_dir_sha256` in the trace. A
//! published bag never changes. It can leave the registry and be removed later; the reader then
//! returns [`BusError::Missing`], and the caller reads the indexes again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{BusError, REOPENS_MAX, SAME_FAULT_MAX};
use crate::contract::digest_bus::{
    BAG_VERSION, BY_WINDOW_FILE, INDEX_DIR, INDEX_VERSIONS, MEMO_INDEX_VERSION, MEMO_META_VERSION,
    REGISTRY_FILE, SHA256_FILE, TRACE_VERSION,
};
use crate::contract::hash::{Digest, sha256};
use crate::os::dir::DirHandle;

/// The Digest Bus under a bus home.
#[derive(Debug, Clone)]
pub struct DigestBus {
    home: PathBuf,
}

/// All index files of one publication.
#[derive(Debug, Clone, PartialEq)]
pub struct Indexes {
    files: BTreeMap<String, Value>,
    sums: Vec<u8>,
}

/// A bag as the registry names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BagEntry {
    /// Such as `bag_5f0c…`; see docs/adr/0042-bag-ids.md.
    pub bag_id: String,
    /// `tagbag`, `pairbag` or `cohort`.
    pub bag_type: String,
    /// The selector that chose its summaries.
    pub selector_id: String,
    /// The label of its window.
    pub window_label: String,
    /// The first and the last day of its window; a window without end has none.
    pub(crate) start_day: Option<String>,
    pub(crate) end_day: Option<String>,
    /// Its folder, relative to the bus home.
    pub path: String,
    /// Hash of its `bag.json`.
    pub bag_meta_sha256: String,
    /// Hash of its `trace.json`.
    pub trace_sha256: String,
    /// How many memos it has.
    pub published_memos: u64,
}

/// A bag, every byte of it verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Bag {
    /// `meta/bag.json`.
    pub meta: Value,
    /// `meta/trace.json`.
    pub trace: Value,
    path: String,
    files: BTreeMap<String, Vec<u8>>,
}

/// A memo of a bag.
#[derive(Debug, Clone, PartialEq)]
pub struct Memo {
    /// The name of its file without `.md`.
    pub slug: String,
    /// The member `title` of its sidecar.
    pub title: String,
    /// The whole file, with front matter.
    pub markdown: String,
    /// The file `<slug>.meta.json` beside it.
    pub meta: Value,
}

impl Memo {
    /// Whether it contains private items: its front matter says `publish: false`.
    pub(crate) fn is_private(&self) -> bool {
        is_private(&self.markdown)
    }
}

/// Whether the front matter of a memo says `publish: false`.
pub(crate) fn is_private(memo: &str) -> bool {
    let mut lines = memo.lines();
    lines.next() == Some("---")
        && lines.take_while(|line| *line != "---").any(|line| line == "publish: false")
}

impl DigestBus {
    /// Opens the bus under a bus home, the folder that holds `index` and `digests`.
    pub fn open(bus_home: &Path) -> Result<DigestBus, BusError> {
        let bus = DigestBus { home: bus_home.to_owned() };
        bus.index()?;
        Ok(bus)
    }

    fn index(&self) -> Result<DirHandle, BusError> {
        DirHandle::open(&self.home.join(INDEX_DIR)).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => BusError::Missing { path: INDEX_DIR.to_owned() },
            _ => BusError::Read { path: INDEX_DIR.to_owned(), source },
        })
    }

    /// The indexes as they are now.
    pub fn indexes(&self) -> Result<Indexes, BusError> {
        let mut last = None;
        let mut repeated = 0;
        for _ in 1..REOPENS_MAX {
            let fault = match read_indexes(&self.index()?)? {
                Ok(indexes) => return Ok(indexes),
                Err(fault) => fault,
            };
            repeated = if last.as_ref() == Some(&fault) { repeated + 1 } else { 1 };
            last = Some(fault);
            if repeated == SAME_FAULT_MAX {
                break;
            }
        }
        let path = last.map_or_else(|| INDEX_DIR.to_owned(), |(path, _)| path);
        Err(BusError::Mismatch { path })
    }

    /// A bag that an index names; [`BusError::Missing`] when it was removed meanwhile.
    pub fn bag(&self, entry: &BagEntry) -> Result<Bag, BusError> {
        let read = self.read_bag(entry);
        if !matches!(read, Err(BusError::Mismatch { .. })) {
            return read;
        }
        // A bag that is removed is renamed before its files are deleted, and a repaired bag is
        // exchanged. A reader that had the old folder open may have seen it incomplete, so it tries
        // once more.
        self.read_bag(entry)
    }

    fn read_bag(&self, entry: &BagEntry) -> Result<Bag, BusError> {
        let missing = || BusError::Missing { path: entry.path.clone() };
        if entry.path.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
            return Err(missing());
        }
        let folder = DirHandle::open(&self.home.join(&entry.path)).map_err(|_| missing())?;
        let read = |name: &str| match folder.read(name) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
            Err(source) => Err(BusError::Read { path: format!("{}/{name}", entry.path), source }),
        };
        let known = |name: &str, hash: &str, version: &str| -> Result<Value, BusError> {
            let bytes = read(name)?;
            let path = format!("{}/{name}", entry.path);
            if hash.parse::<Digest>() != Ok(sha256(&bytes)) {
                return Err(BusError::Mismatch { path });
            }
            parse(&path, &bytes, version)
        };
        let meta = known("meta/bag.json", &entry.bag_meta_sha256, BAG_VERSION)?;
        let trace = known("meta/trace.json", &entry.trace_sha256, TRACE_VERSION)?;
        let mut files = BTreeMap::new();
        for part in ["meta", "memo", "data", "assets"] {
            let names = match folder.list(part) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(|_| missing())?,
            };
            for name in names {
                let name = format!("{part}/{name}");
                files.insert(name.clone(), read(&name)?);
            }
        }
        files.remove("meta/trace.json");
        let lines: String =
            files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect();
        let declared = trace["integrity"]["bag_dir_sha256"].as_str().unwrap_or_default();
        if declared.parse() != Ok(sha256(lines)) {
            return Err(BusError::Mismatch { path: entry.path.clone() });
        }
        Ok(Bag { meta, trace, path: entry.path.clone(), files })
    }
}

impl Indexes {
    /// One index by its file name.
    pub fn file(&self, name: &str) -> Option<&Value> {
        self.files.get(name)
    }

    /// The hashes of all index files, as published.
    pub fn sums(&self) -> &[u8] {
        &self.sums
    }

    /// Every published bag.
    pub fn entries(&self) -> Vec<BagEntry> {
        let registry = &self.files[REGISTRY_FILE];
        registry["entries"].as_array().into_iter().flatten().map(entry).collect()
    }

    /// The labels of the windows that have bags, sorted.
    pub fn windows(&self) -> Vec<&str> {
        let windows = self.files[BY_WINDOW_FILE]["windows"].as_object();
        windows.into_iter().flatten().map(|(label, _)| label.as_str()).collect()
    }

    /// The bags of one window.
    pub fn window(&self, label: &str) -> Vec<BagEntry> {
        let refs = self.files[BY_WINDOW_FILE]["windows"][label]["bag_refs"].as_array();
        let named: BTreeSet<&str> =
            refs.into_iter().flatten().filter_map(|one| one["bag_id"].as_str()).collect();
        self.entries().into_iter().filter(|one| named.contains(one.bag_id.as_str())).collect()
    }
}

impl Bag {
    /// Its memos, in the order of its memo index.
    pub fn memos(&self) -> Result<Vec<Memo>, BusError> {
        let index = self.json("memo/index.json", MEMO_INDEX_VERSION)?;
        let memos = index["memos"].as_array().into_iter().flatten();
        memos
            .map(|memo| {
                let text = |name: &str| memo[name].as_str().unwrap_or_default().to_owned();
                let meta_path = text("meta_path");
                Ok(Memo {
                    slug: text("memo_slug"),
                    title: text("title"),
                    markdown: String::from_utf8_lossy(self.bytes(&text("path"))?).into_owned(),
                    meta: self.json(&meta_path, MEMO_META_VERSION)?,
                })
            })
            .collect()
    }

    /// One file of the bag, by its path in the bag's folder.
    pub fn bytes(&self, name: &str) -> Result<&[u8], BusError> {
        let missing = || BusError::Missing { path: format!("{}/{name}", self.path) };
        self.files.get(name).map(Vec::as_slice).ok_or_else(missing)
    }

    fn json(&self, name: &str, version: &str) -> Result<Value, BusError> {
        parse(&format!("{}/{name}", self.path), self.bytes(name)?, version)
    }
}

fn entry(value: &Value) -> BagEntry {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    BagEntry {
        bag_id: text("bag_id"),
        bag_type: text("bag_type"),
        selector_id: text("selector_id"),
        window_label: text("window_label"),
        start_day: value["start_day"].as_str().map(str::to_owned),
        end_day: value["end_day"].as_str().map(str::to_owned),
        path: text("path"),
        bag_meta_sha256: text("bag_meta_sha256"),
        trace_sha256: text("trace_sha256"),
        published_memos: value["published_memos"].as_u64().unwrap_or_default(),
    }
}

fn parse(path: &str, bytes: &[u8], version: &str) -> Result<Value, BusError> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| BusError::Malformed {
        path: path.to_owned(),
        line: None,
        what: error.to_string(),
    })?;
    let seen = value["schema_version"].as_str().unwrap_or_default();
    match seen == version {
        true => Ok(value),
        false => Err(BusError::Version { path: path.to_owned(), seen: seen.to_owned() }),
    }
}

/// A fault, identified by the bytes that were found.
type Fault = (String, Option<Digest>);

fn read_indexes(handle: &DirHandle) -> Result<Result<Indexes, Fault>, BusError> {
    let read = |name: &str| match handle.read(name) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(BusError::Read { path: format!("{INDEX_DIR}/{name}"), source }),
    };
    let fault =
        |name: &str, bytes: Option<&[u8]>| (format!("{INDEX_DIR}/{name}"), bytes.map(sha256));
    let Some(sums) = read(SHA256_FILE)? else { return Ok(Err(fault(SHA256_FILE, None))) };
    let mut files = BTreeMap::new();
    for line in String::from_utf8_lossy(&sums).lines() {
        let (hash, name) = line.split_once("  ").unwrap_or_default();
        let bytes = if name.contains('/') { None } else { read(name)? };
        let Some(bytes) = bytes.filter(|bytes| hash.parse() == Ok(sha256(bytes))) else {
            return Ok(Err(fault(name, Some(&sums))));
        };
        if let Some((_, version)) = INDEX_VERSIONS.iter().find(|(known, _)| *known == name) {
            files.insert(name.to_owned(), parse(&format!("{INDEX_DIR}/{name}"), &bytes, version)?);
        }
    }
    for name in [REGISTRY_FILE, BY_WINDOW_FILE] {
        if !files.contains_key(name) {
            return Ok(Err(fault(name, Some(&sums))));
        }
    }
    Ok(Ok(Indexes { files, sums }))
}
