//! Compares the published digests with the log, byte for byte.
//!
//! Contract. The log is read from its beginning; no cache is used and nothing is written. Each
//! difference names one file or folder. Files that an interrupted build still has to publish are
//! not differences, because the next start publishes them. Neither are the digests of an earlier
//! log while this log has no build.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::difference::Difference;
use super::index;
use super::publish::{DigestError, Digests, disk_error};
use crate::contract::digest_bus::INDEX_DIR;
use crate::export::run_record::RUN_RECORDS_DIR;
use crate::log::{ReadError, Reader};
use crate::os::Disk;
use crate::verify::read_files;

const FILE_BYTES_MAX: u64 = 1 << 30;

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Bags compared.
    pub bags: usize,
    pub differences: Vec<Difference>,
    /// Run id of an interrupted build. When it is set, nothing was compared.
    pub cut_short: Option<String>,
    /// True when digests exist but this log has no build: they belong to an earlier log, for
    /// example after a recovery, and stay until a build replaces them.
    pub of_another_log: bool,
}

pub fn with_log(
    disk: &Arc<dyn Disk>,
    buses: &Path,
    log: &Reader,
) -> Result<Comparison, DigestError> {
    let mut digests = Digests::open(disk, buses, log);
    digests.read(None)?;
    let mut found = Comparison::default();
    if let Some(open) = digests.catalog().open() {
        found.cut_short = Some(open.started.run_id.clone());
        return Ok(found);
    }
    let disk = disk.as_ref();
    if digests.catalog().change().is_none() {
        let index = buses.join(INDEX_DIR);
        let published = disk.stat(&index).map_err(disk_error("inspect", &index))?.is_some();
        found.of_another_log = published || !digests.orphans()?.is_empty();
        return Ok(found);
    }
    for entry in digests.catalog().entries().values() {
        found.bags += 1;
        let path = entry.facts.path();
        let meant = digests.files_in_log(entry.seq, &entry.facts)?;
        let meant = meant.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
        let bag_id = Some(entry.facts.bag_id.as_str());
        folder(disk, buses, &path, &meant, bag_id, &mut found.differences)?;
    }
    let indexes = index::render(digests.catalog())?;
    let indexes: BTreeMap<String, Vec<u8>> =
        indexes.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    folder(disk, buses, INDEX_DIR, &indexes, None, &mut found.differences)?;
    for path in digests.orphans()? {
        let what = match digests.was_removed(&path) {
            true => "was removed by gc but exists",
            false => "is the folder of no bag in the log",
        };
        found.differences.push(Difference { path, what, bag_id: None });
    }
    for (run_id, seq) in digests.catalog().runs() {
        let path = format!("{RUN_RECORDS_DIR}/{run_id}.run_record.json");
        let file = buses.join(&path);
        let there = disk.read_if_present(&file).map_err(disk_error("read", &file))?;
        let meant = log.body(*seq).map_err(ReadError::Log)?.ok_or(ReadError::no_body(*seq))?;
        file_differs(path, Some(&meant), there.as_ref(), None, &mut found.differences);
    }
    Ok(found)
}

/// Compares the files of a folder with the files that should be in it.
fn folder(
    disk: &dyn Disk,
    buses: &Path,
    path: &str,
    meant: &BTreeMap<String, Vec<u8>>,
    bag_id: Option<&str>,
    differences: &mut Vec<Difference>,
) -> Result<(), DigestError> {
    let root = buses.join(path);
    let there = read_files(disk, &root, FILE_BYTES_MAX).map_err(disk_error("read", &root))?;
    if there.is_empty() && !meant.is_empty() {
        let (path, bag_id) = (path.to_owned(), bag_id.map(str::to_owned));
        differences.push(Difference { path, what: "is missing", bag_id });
        return Ok(());
    }
    let unknown = there.keys().filter(|name| !meant.contains_key(*name));
    for name in meant.keys().chain(unknown) {
        let file = format!("{path}/{name}");
        file_differs(file, meant.get(name), there.get(name), bag_id, differences);
    }
    Ok(())
}

fn file_differs(
    path: String,
    meant: Option<&Vec<u8>>,
    there: Option<&Vec<u8>>,
    bag_id: Option<&str>,
    differences: &mut Vec<Difference>,
) {
    let what = match (meant, there) {
        (Some(meant), Some(there)) if meant == there => return,
        (None, None) => return,
        (Some(_), Some(_)) => "differs from the log",
        (Some(_), None) => "is missing",
        (None, Some(_)) => "is not in the log",
    };
    differences.push(Difference { path, what, bag_id: bag_id.map(str::to_owned) });
}
