//! Compares the published digests with the log, byte for byte.
//!
//! Contract. The log is read from its beginning; no cache is used and nothing is written. Each
//! difference names one file or folder. Files that an interrupted build still has to publish are
//! not differences, because the next start publishes them. Neither are the digests of an earlier
//! log while this log has no build.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::index;
use super::publish::{DigestError, Digests, disk_error};
use crate::contract::digest_bus::INDEX_DIR;
use crate::contract::ids::Seq;
use crate::export::difference::Comparison;
use crate::export::run_record::RUN_RECORDS_DIR;
use crate::log::{ReadError, Reader};
use crate::os::Disk;
use crate::verify::read_files;

const FILE_BYTES_MAX: u64 = 1 << 30;

pub fn with_log(
    disk: &Arc<dyn Disk>,
    buses: &Path,
    log: &Reader,
) -> Result<Comparison, DigestError> {
    let mut digests = Digests::open(disk, buses, log);
    digests.read(None)?;
    let mut found = Comparison::default();
    if let Some(open) = digests.catalog().open() {
        found.notes.push(format!(
            "the digest build {} was cut short: the next start finishes it, and until then digests \
             are not compared",
            open.started.run_id
        ));
        return Ok(found);
    }
    let disk = disk.as_ref();
    if digests.catalog().change().is_none() {
        let index = buses.join(INDEX_DIR);
        let published = disk.stat(&index).map_err(disk_error("inspect", &index))?.is_some();
        // After a recovery the digests of the earlier log stay until a build replaces them.
        if published || !digests.orphans()?.is_empty() {
            let note = "the published digests are of an earlier log: run `summarizer digest build`";
            found.notes.push(note.to_owned());
        }
        return Ok(found);
    }
    let waits = waiting(disk, buses, &digests)?;
    for entry in digests.catalog().entries().values() {
        let path = entry.facts.path();
        let root = buses.join(&path);
        let may_miss = waits.as_ref().is_some_and(|waits| entry.seq > waits.after);
        if may_miss && disk.stat(&root).map_err(disk_error("inspect", &root))?.is_none() {
            continue;
        }
        let meant = digests.files_in_log(entry.seq, &entry.facts)?;
        let meant = meant.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
        folder(disk, buses, &path, &meant, &mut found)?;
    }
    let indexes = index::render(digests.catalog())?;
    let indexes: BTreeMap<String, Vec<u8>> =
        indexes.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    if waits.is_none() {
        folder(disk, buses, INDEX_DIR, &indexes, &mut found)?;
    }
    let known = found.differences.len();
    for path in digests.orphans()? {
        let what = match digests.was_removed(&path) {
            true => "was removed by gc but exists",
            false => "is the folder of no bag in the log",
        };
        found.differs(path, what);
    }
    let strange = found.differences.len() - known;
    for (run_id, seq) in digests.catalog().runs() {
        if waits.as_ref().is_some_and(|waits| waits.run_id == *run_id) {
            continue;
        }
        let path = record_path(run_id);
        let file = buses.join(&path);
        let there = disk.read_if_present(&file).map_err(disk_error("read", &file))?;
        let meant = log.body(*seq).map_err(ReadError::Log)?.ok_or(ReadError::no_body(*seq))?;
        found.file(path, Some(&meant), there.as_deref());
    }
    if let Some(UnpublishedBuild { run_id, .. }) = waits {
        found.notes.push(format!(
            "the files of the digest build {run_id} are not published whole: the next start does it"
        ));
    }
    // A folder that no event speaks of cannot be written again from the log.
    if strange > 0 && strange == found.differences.len() {
        found.fix = Some("summarizer digest gc --orphans");
    }
    Ok(found)
}

fn record_path(run_id: &str) -> String {
    format!("{RUN_RECORDS_DIR}/{run_id}.run_record.json")
}

/// The last build, when its files are not published whole. Its record is the last of them.
struct UnpublishedBuild {
    run_id: String,
    /// Bags of later events belong to it.
    after: Seq,
}

fn waiting(
    disk: &dyn Disk,
    buses: &Path,
    digests: &Digests,
) -> Result<Option<UnpublishedBuild>, DigestError> {
    let mut runs: Vec<(Seq, &String)> =
        digests.catalog().runs().iter().map(|(run_id, seq)| (*seq, run_id)).collect();
    runs.sort_unstable();
    let Some((_, run_id)) = runs.pop() else { return Ok(None) };
    let record = buses.join(record_path(run_id));
    let there = disk.stat(&record).map_err(disk_error("inspect", &record))?;
    let after = runs.last().map_or(Seq::ZERO, |(seq, _)| *seq);
    Ok(there.is_none().then(|| UnpublishedBuild { run_id: run_id.clone(), after }))
}

/// Compares the files of a folder with the files that should be in it.
fn folder(
    disk: &dyn Disk,
    buses: &Path,
    path: &str,
    meant: &BTreeMap<String, Vec<u8>>,
    found: &mut Comparison,
) -> Result<(), DigestError> {
    let root = buses.join(path);
    let there = read_files(disk, &root, FILE_BYTES_MAX).map_err(disk_error("read", &root))?;
    if there.is_empty() && !meant.is_empty() {
        found.differs(path, "is missing");
        return Ok(());
    }
    let unknown = there.keys().filter(|name| !meant.contains_key(*name));
    for name in meant.keys().chain(unknown) {
        let file = format!("{path}/{name}");
        let (meant, there) = (meant.get(name), there.get(name));
        found.file(file, meant.map(Vec::as_slice), there.map(Vec::as_slice));
    }
    Ok(())
}
