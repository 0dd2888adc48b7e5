//! The dataset: all flows with their variants, and whether each may run.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::pack::{PackError, PackFiles};
use super::record::{FlowPackRecord, RECORD_VERSION, Status, label};
use crate::contract::hash::Digest;
use crate::contract::schema::{self, REGISTRY};
use crate::export::item::META_NAMES;
use crate::os::Disk;

/// File name of the dataset inside a registry.
pub(crate) const DATASET: &str = "registry.flow_packs.v1.jsonl";
/// Folder of a home that replaces the embedded registry when it holds a dataset.
pub(crate) const HOME_FOLDER: &str = "flow_registry";
/// Most records in one dataset.
pub(crate) const RECORDS_MAX: usize = 10_000;

/// Why a registry cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The dataset could not be read.
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A line is not a record.
    #[error("read line {line} of the registry: {reason}")]
    Line {
        /// 1-based line.
        line: usize,
        reason: String,
    },
    /// Two records claim the same flow and variant.
    #[error("read line {line} of the registry: {} is registered twice", label(flow_id, variant.as_deref()))]
    Twice {
        /// 1-based line of the second.
        line: usize,
        flow_id: String,
        variant: Option<String>,
    },
    #[error("read the registry: it has more than {RECORDS_MAX} records, which is the limit")]
    TooMany,
}

/// Where a registry's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In the binary.
    Embedded,
    /// In a directory that holds the dataset.
    Directory(PathBuf),
}

/// What the dataset says about a flow reference.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution<'a> {
    /// Run it.
    Active(&'a FlowPackRecord),
    /// Run it, and warn.
    Deprecated(&'a FlowPackRecord),
    /// Must not run.
    Disabled(&'a FlowPackRecord),
    /// No record has this kind and flow id.
    UnknownFlow,
    /// The flow exists, but not in this variant.
    UnknownVariant {
        /// The variants that exist; `None` is the default.
        known: Vec<Option<&'a str>>,
    },
}

/// A flow whose pack changed after its id was first used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    pub flow_id: String,
    pub variant: Option<String>,
    /// Hash of the pack at first use.
    pub(crate) first_used: Digest,
    /// Hash of the registered pack.
    pub now: Digest,
}

impl Mutation {
    /// The report, with what to do about it.
    pub fn what(&self) -> String {
        let Mutation { flow_id, variant, first_used, now } = self;
        let name = label(flow_id, variant.as_deref());
        format!(
            "flow_id_mutated: {name} was first used with pack {} and is now registered with {}; \
             give the changed flow a new version suffix, or accept the change with \
             `summarizer reload --accept-mutations`",
            short(*first_used),
            short(*now)
        )
    }
}

/// The beginning of a hash, enough to distinguish packs in a message.
fn short(hash: Digest) -> String {
    hash.hex().chars().take(12).collect()
}

/// A loaded dataset. Records keep the order of the file.
#[derive(Debug, Clone)]
pub struct Registry {
    source: Source,
    records: Vec<FlowPackRecord>,
    by_flow: BTreeMap<String, Vec<usize>>,
}

impl Registry {
    /// The registry built into the binary.
    pub fn embedded() -> Result<Registry, RegistryError> {
        let bytes = embedded_file(DATASET).unwrap_or_default();
        Self::parse(Source::Embedded, bytes)
    }

    /// The registry in a directory.
    pub fn open(disk: &dyn Disk, root: &Path) -> Result<Registry, RegistryError> {
        let (registry, faults) = Self::open_with_faults(disk, root)?;
        faults.into_iter().next().map_or(Ok(registry), Err)
    }

    fn open_with_faults(
        disk: &dyn Disk,
        root: &Path,
    ) -> Result<(Registry, Vec<RegistryError>), RegistryError> {
        let path = root.join(DATASET);
        let bytes = disk
            .read(&path)
            .map_err(|source| RegistryError::Read { path: path.clone(), source })?;
        Ok(Self::read(Source::Directory(root.to_owned()), &bytes))
    }

    /// The registry of a home: its own when it has one, else the embedded one.
    pub fn of_home(disk: &dyn Disk, home: &Path) -> Result<Registry, RegistryError> {
        let (registry, faults) = Self::of_home_with_faults(disk, home)?;
        faults.into_iter().next().map_or(Ok(registry), Err)
    }

    /// The usable records of a home, and what is wrong with each of the others.
    pub(crate) fn of_home_with_faults(
        disk: &dyn Disk,
        home: &Path,
    ) -> Result<(Registry, Vec<RegistryError>), RegistryError> {
        let root = home.join(HOME_FOLDER);
        let dataset = root.join(DATASET);
        match disk.stat(&dataset) {
            Ok(Some(_)) => Self::open_with_faults(disk, &root),
            Ok(None) => Ok((Self::embedded()?, Vec::new())),
            Err(source) => Err(RegistryError::Read { path: dataset, source }),
        }
    }

    /// Reads a dataset from bytes.
    pub fn parse(source: Source, bytes: &[u8]) -> Result<Registry, RegistryError> {
        let (registry, faults) = Self::read(source, bytes);
        faults.into_iter().next().map_or(Ok(registry), Err)
    }

    fn read(source: Source, bytes: &[u8]) -> (Registry, Vec<RegistryError>) {
        let mut registry = Registry { source, records: Vec::new(), by_flow: BTreeMap::new() };
        let mut faults = Vec::new();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if !line.iter().all(u8::is_ascii_whitespace) {
                faults.extend(registry.add_line(index + 1, line).err());
            }
        }
        (registry, faults)
    }

    fn add_line(&mut self, line: usize, bytes: &[u8]) -> Result<(), RegistryError> {
        let bad = |reason: String| RegistryError::Line { line, reason };
        if self.records.len() >= RECORDS_MAX {
            return Err(RegistryError::TooMany);
        }
        let value: Value = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
        if let Some(first) = schema::check(RECORD_VERSION, &value).first() {
            return Err(bad(first.to_string()));
        }
        let record: FlowPackRecord =
            serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
        if self.find(&record.flow_id, record.variant.as_deref()).is_some() {
            let FlowPackRecord { flow_id, variant, .. } = record;
            return Err(RegistryError::Twice { line, flow_id, variant });
        }
        self.by_flow.entry(record.flow_id.clone()).or_default().push(self.records.len());
        self.records.push(record);
        Ok(())
    }

    /// All records, in file order.
    pub fn records(&self) -> &[FlowPackRecord] {
        &self.records
    }

    /// The record of a flow and variant.
    pub fn find(&self, flow_id: &str, variant: Option<&str>) -> Option<&FlowPackRecord> {
        let indexes = self.by_flow.get(flow_id)?;
        indexes.iter().map(|index| &self.records[*index]).find(|r| r.variant.as_deref() == variant)
    }

    /// What the dataset says about a flow reference.
    pub fn resolve(&self, kind: &str, flow_id: &str, variant: Option<&str>) -> Resolution<'_> {
        let Some(indexes) = self.by_flow.get(flow_id).filter(|_| kind == "registry") else {
            return Resolution::UnknownFlow;
        };
        let Some(record) = self.find(flow_id, variant) else {
            let known = indexes.iter().map(|i| self.records[*i].variant.as_deref()).collect();
            return Resolution::UnknownVariant { known };
        };
        match record.status {
            Status::Active => Resolution::Active(record),
            Status::Deprecated => Resolution::Deprecated(record),
            Status::Disabled => Resolution::Disabled(record),
        }
    }

    /// Reads the files of a pack, without judging them.
    pub fn files(&self, disk: &dyn Disk, record: &FlowPackRecord) -> Result<PackFiles, PackError> {
        match &self.source {
            Source::Embedded => embedded_pack(&record.pack_dir),
            Source::Directory(root) => PackFiles::read(disk, &pack_path(root, &record.pack_dir)?),
        }
    }

    /// Reads the files of a pack and verifies them against its record.
    pub fn verified_files(
        &self,
        disk: &dyn Disk,
        record: &FlowPackRecord,
    ) -> Result<PackFiles, PackError> {
        let files = self.files(disk, record)?;
        match record.verify(&files) {
            Ok(()) => Ok(files),
            Err(error) => Err(with_differences(error, record, &files)),
        }
    }

    /// Members of `meta` of a summary that the program or a registered pack writes.
    pub(crate) fn meta_names(&self, disk: &dyn Disk) -> BTreeSet<String> {
        let mut names: BTreeSet<String> =
            META_NAMES.iter().map(|name| (*name).to_owned()).collect();
        for record in self.records() {
            let Ok(files) = self.files(disk, record) else { continue };
            let projection = files.get("projection.json").ok().flatten().unwrap_or_default();
            let value: Value = serde_json::from_slice(projection).unwrap_or_default();
            names.extend(
                value["meta"].as_object().into_iter().flatten().map(|(name, _)| name.clone()),
            );
        }
        names
    }

    /// Flows whose pack differs from the one first used under their id.
    pub fn mutations<'a>(
        &self,
        first_used: impl IntoIterator<Item = (&'a str, Option<&'a str>, Digest)>,
    ) -> Vec<Mutation> {
        let mut found = Vec::new();
        for (flow_id, variant, first_used) in first_used {
            let Some(now) = self.find(flow_id, variant).and_then(FlowPackRecord::pack_hash) else {
                continue;
            };
            if now != first_used {
                let variant = variant.map(str::to_owned);
                found.push(Mutation { flow_id: flow_id.to_owned(), variant, first_used, now });
            }
        }
        found
    }
}

/// Names the files that differ also when the record does not list them, if the embedded pack is the one
/// the record speaks of.
fn with_differences(error: PackError, record: &FlowPackRecord, files: &PackFiles) -> PackError {
    match error {
        PackError::Changed { flow, recorded, actual, differences } if differences.is_empty() => {
            let original = embedded_pack(&record.pack_dir).ok();
            let original = original.filter(|pack| record.pack_hash() == Some(pack.pack_hash()));
            let differences = original.map(|pack| pack.differences_of(files)).unwrap_or_default();
            PackError::Changed { flow, recorded, actual, differences }
        }
        error => error,
    }
}

/// The folder of a pack: relative to the registry and inside it, or absolute.
fn pack_path(root: &Path, pack_dir: &str) -> Result<PathBuf, PackError> {
    let path = Path::new(pack_dir);
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(PackError::Outside { path: pack_dir.to_owned() });
    }
    Ok(root.join(path))
}

/// A path inside a pack in the form its files are listed under; refused when it leads out.
pub(crate) fn clean_path(path: &str) -> Result<String, PackError> {
    super::pack::clean(path)
}

fn embedded_file(path: &str) -> Option<&'static [u8]> {
    REGISTRY.iter().find(|(name, _)| *name == path).map(|(_, bytes)| *bytes)
}

fn embedded_pack(pack_dir: &str) -> Result<PackFiles, PackError> {
    let prefix = format!("{}/", pack_dir.trim_end_matches('/'));
    let inside =
        REGISTRY.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&prefix)?, *bytes)));
    let files = inside.map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect();
    PackFiles::from_map(files)
}

/// Every file of the embedded registry, for those who want to edit it.
pub(crate) fn embedded_files() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    REGISTRY.iter().map(|(path, bytes)| (*path, *bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;

    fn line(flow_id: &str, variant: &str, status: &str) -> String {
        format!(
            r#"{{"schema_version":"flow_pack_record.v1","flow_id":"{flow_id}","variant":{variant},"status":"{status}","pack_dir":"packs/{flow_id}","entry_dag":"flow.dag.yaml","integrity":{{"pack_hash":"{}"}}}}"#,
            sha256(flow_id)
        ) + "\n"
    }

    fn registry(lines: &[String]) -> Registry {
        Registry::parse(Source::Embedded, lines.concat().as_bytes()).unwrap()
    }

    #[test]
    fn every_resolution_is_reachable() {
        let registry = registry(&[
            line("a.v1", "null", "active"),
            line("a.v1", r#""fast""#, "deprecated"),
            line("a.v1", r#""old""#, "disabled"),
            line("b.v1", r#""only""#, "active"),
        ]);
        assert!(matches!(registry.resolve("registry", "a.v1", None), Resolution::Active(_)));
        assert!(matches!(
            registry.resolve("registry", "a.v1", Some("fast")),
            Resolution::Deprecated(_)
        ));
        assert!(matches!(
            registry.resolve("registry", "a.v1", Some("old")),
            Resolution::Disabled(_)
        ));
        assert_eq!(registry.resolve("registry", "c.v1", None), Resolution::UnknownFlow);
        assert_eq!(registry.resolve("path", "a.v1", None), Resolution::UnknownFlow);
        assert_eq!(
            registry.resolve("registry", "b.v1", None),
            Resolution::UnknownVariant { known: vec![Some("only")] }
        );
        let old = registry.resolve("registry", "a.v1", Some("old"));
        assert!(matches!(old, Resolution::Disabled(_)), "{old:?}");
    }

    #[test]
    fn a_bad_dataset_says_which_line() {
        let twice = line("a.v1", "null", "active").repeat(2);
        let error = Registry::parse(Source::Embedded, twice.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "read line 2 of the registry: a.v1 is registered twice");
        let error = Registry::parse(Source::Embedded, b"\n{\"flow_id\":1}\n").unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("read line 2 of the registry: \"entry_dag\""), "{told}");
    }

    #[test]
    fn a_flow_that_changed_under_its_id_is_reported() {
        let registry = registry(&[line("a.v1", "null", "active"), line("b.v1", "null", "active")]);
        let other = sha256("something else");
        let used =
            [("a.v1", None, sha256("a.v1")), ("b.v1", None, other), ("gone.v1", None, other)];
        let found = registry.mutations(used);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].flow_id.as_str(), found[0].first_used), ("b.v1", other));
    }

    #[test]
    fn a_pack_folder_cannot_leave_the_registry() {
        let root = Path::new("/srv/registry");
        assert_eq!(pack_path(root, "packs/a").unwrap(), Path::new("/srv/registry/packs/a"));
        assert_eq!(pack_path(root, "/opt/packs/a").unwrap(), Path::new("/opt/packs/a"));
        assert!(matches!(pack_path(root, "packs/../../etc"), Err(PackError::Outside { .. })));
    }

    #[test]
    fn every_embedded_pack_is_the_one_its_record_names() {
        let disk = crate::os::real::HostDisk;
        let registry = Registry::embedded().unwrap();
        for record in registry.records() {
            registry.verified_files(&disk, record).unwrap_or_else(|error| {
                panic!("{}: {error}", label(&record.flow_id, record.variant.as_deref()))
            });
        }
    }
}
