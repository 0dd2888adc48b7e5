//! The files of a flow as its author has them: a folder, or one flow file of it.
//!
//! Contract: a folder gives its files as a pack. What `additional_includes` of its flow name outside
//! the folder comes along under the last part of its name, as PromptFlow copies it. Such a file must
//! lie in the repository of the folder or, without a repository, in the folder above it. So a flow from
//! somebody else cannot read the rest of the disk. A prompty file needs no folder of its own; the
//! files that it names come along in the same way, each under its path, where `_above` stands for `..`.
//!
//! See docs/adr/0112-flows-run-where-they-lie.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::dag::{is_outside, last_part};
use super::pack::LoadError;
use super::prompty::{self, ABOVE, Reference};
use super::{pyvalue, yaml};
use crate::os::Disk;
use crate::registry::{PackError, PackFiles};

/// The flow file of PromptFlow.
pub(crate) const DAG: &str = "flow.dag.yaml";
/// The flow file of a flow that is a Python program.
pub(crate) const FLEX: &str = "flow.flex.yaml";

/// Most files that a prompty file and its bases name.
const REFERENCES_MAX: usize = 256;

/// A flow on disk.
pub(crate) struct FlowOnDisk {
    pub files: PackFiles,
    /// The flow file, where the path names one.
    pub entry: Option<String>,
    /// The name of the folder, or of the prompty file without its ending.
    pub name: String,
}

/// Whether a path looks like that of a flow file.
pub(crate) fn is_flow_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".prompty") || name.ends_with(".yaml") || name.ends_with(".yml")
}

/// Reads the flow at a path: a folder, a flow file or a prompty file.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<FlowOnDisk, LoadError> {
    let name_of = |path: &Path| {
        let real = disk.real_path(path).unwrap_or_else(|_| path.to_owned());
        real.file_name().map_or("flow".to_owned(), |name| name.to_string_lossy().into_owned())
    };
    if !is_flow_file(path) || matches!(disk.stat(path), Ok(Some(stat)) if stat.is_dir) {
        let files = PackFiles::read(disk, path)?;
        let entry = if files.get(DAG)?.is_some() { DAG } else { FLEX };
        let files = with_includes(disk, path, files, entry)?;
        let files = match flow_file(&files) {
            Ok(only) if only.ends_with(".prompty") => with_references(disk, path, files, &only)?,
            _ => files,
        };
        return Ok(FlowOnDisk { files, entry: None, name: name_of(path) });
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if let Some(name) = file.strip_suffix(".prompty") {
        let name = name.to_owned();
        let files = match PackFiles::read(disk, folder) {
            Ok(files) => files,
            // A prompty file may lie among anything.
            Err(_) => alone(disk, path, &file)?,
        };
        let files = with_references(disk, folder, files, &file)?;
        return Ok(FlowOnDisk { files, entry: Some(file), name });
    }
    let files = with_includes(disk, folder, PackFiles::read(disk, folder)?, &file)?;
    Ok(FlowOnDisk { files, entry: Some(file), name: name_of(folder) })
}

/// Whether a file is a prompty file of the folder, and not one that another builds on.
fn is_own_prompty(path: &str) -> bool {
    path.ends_with(".prompty") && !path.split('/').any(|part| part == ABOVE)
}

/// The flow file of a folder: `flow.dag.yaml`, else `flow.flex.yaml`, else its only prompty file.
pub(super) fn flow_file(files: &PackFiles) -> Result<String, LoadError> {
    let missing = || LoadError::Missing { path: DAG.to_owned(), by: "a pack".to_owned() };
    if files.get(DAG)?.is_some() {
        return Ok(DAG.to_owned());
    }
    if files.get(FLEX)?.is_some() {
        return Ok(FLEX.to_owned());
    }
    let prompty: Vec<&str> =
        files.iter().map(|(path, _)| path).filter(|path| is_own_prompty(path)).collect();
    match prompty.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err(missing()),
        several => Err(LoadError::Several { paths: several.join(", ") }),
    }
}

fn alone(disk: &dyn Disk, path: &Path, file: &str) -> Result<PackFiles, LoadError> {
    let bytes =
        disk.read(path).map_err(|source| PackError::Read { path: path.to_owned(), source })?;
    Ok(PackFiles::from_map(BTreeMap::from([(file.to_owned(), bytes)]))?)
}

/// The files of a folder with what its flow includes from outside.
fn with_includes(
    disk: &dyn Disk,
    folder: &Path,
    mut files: PackFiles,
    entry: &str,
) -> Result<PackFiles, LoadError> {
    let outside: Vec<String> = includes(&files, entry).filter(|path| is_outside(path)).collect();
    if outside.is_empty() {
        return Ok(files);
    }
    let root = reach(disk, folder);
    for include in outside {
        let missing =
            || LoadError::Missing { path: include.clone(), by: "additional_includes".to_owned() };
        let real = disk.real_path(&folder.join(&include)).map_err(|_| missing())?;
        if !root.as_ref().is_some_and(|root| is_within(root, &real)) {
            return Err(PackError::Outside { path: include }.into());
        }
        // The name in the flow counts, and not that of the target of a link.
        let name = last_part(&include);
        if !files.include(disk, &real, &name)? {
            return Err(missing());
        }
    }
    Ok(files)
}

/// The files of a folder with what its prompty file names outside of it, or beside it where the file
/// lies among anything.
fn with_references(
    disk: &dyn Disk,
    folder: &Path,
    mut files: PackFiles,
    entry: &str,
) -> Result<PackFiles, LoadError> {
    let mut open = vec![entry.to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(file) = open.pop().filter(|_| seen.len() < REFERENCES_MAX) {
        let text = files.get(&file)?.unwrap_or_default();
        for Reference { name, is_example } in prompty::references(&String::from_utf8_lossy(text)) {
            let Some(path) = prompty::path_in_pack(&file, &name) else { continue };
            if !seen.insert(path.clone()) {
                continue;
            }
            if files.get(&path)?.is_none() {
                let here: PathBuf =
                    path.split('/').map(|part| if part == ABOVE { ".." } else { part }).collect();
                // Loading the flow names the file that is missing.
                let Ok(real) = disk.real_path(&folder.join(here)) else { continue };
                if !reach(disk, folder).is_some_and(|root| is_within(&root, &real)) {
                    match is_example {
                        true => continue,
                        false => return Err(PackError::Outside { path: name }.into()),
                    }
                }
                files.include(disk, &real, &path)?;
            }
            open.extend(Some(path).filter(|path| path.ends_with(".prompty")));
        }
    }
    Ok(files)
}

/// What `additional_includes` of a flow file name; nothing where the file cannot be read, because
/// loading the pack tells why.
fn includes(files: &PackFiles, entry: &str) -> impl Iterator<Item = String> + use<> {
    let bytes = files.get(entry).ok().flatten().unwrap_or_default();
    let value = yaml::parse(&String::from_utf8_lossy(bytes)).unwrap_or_default();
    let listed = value.get("additional_includes").and_then(Value::as_array).cloned();
    listed.unwrap_or_default().into_iter().map(|path| pyvalue::to_str(&path))
}

/// Whether a file lies in a folder, and neither it nor a folder around it is hidden: keys lie in such.
fn is_within(root: &Path, real: &Path) -> bool {
    let is_hidden = |part: &std::ffi::OsStr| part.to_string_lossy().starts_with('.');
    real.strip_prefix(root).is_ok_and(|below| !below.iter().any(is_hidden))
}

/// The folder in which includes must lie.
fn reach(disk: &dyn Disk, folder: &Path) -> Option<PathBuf> {
    let real = disk.real_path(folder).ok()?;
    let is_repository = |folder: &&Path| matches!(disk.stat(&folder.join(".git")), Ok(Some(_)));
    let repository = real.ancestors().find(is_repository).map(Path::to_owned);
    repository.or_else(|| real.parent().map(Path::to_owned))
}
