//! One publication: writes the changed days into the shadow tree, reads them back and shows them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::day_index::DayIndex;
use super::day_writer::{described, write_lines};
use super::error::SummariesError;
use crate::contract::hash::Digest;
use crate::export::fingerprint::Fingerprint;
use crate::export::publish::Publisher;
use crate::export::summary_bus::{PartitionFacts, PartitionKey, PartitionWriter, Written};
use crate::log::Reader;
use crate::os::{Disk, Open};
use crate::verify::spread::Helpers;
use crate::verify::{Gate, Report};

/// Bytes in one read when a file is checked.
const READ_BYTES: usize = 256 << 10;

/// A day that is shown.
pub(super) struct ShownDay {
    pub key: PartitionKey,
    pub sha256: Digest,
    pub bytes: u64,
    pub lines: u64,
}

/// Writes these days, and shows them when they are what was meant.
pub(super) fn stage<'t>(
    log: &'t Reader,
    index: &DayIndex,
    publisher: &mut Publisher,
    disk: &Arc<dyn Disk>,
    days: &'t [(Gate, PartitionKey, &PartitionFacts)],
    helpers: Helpers<'t>,
) -> Result<Vec<ShownDay>, SummariesError> {
    let mut publication = publisher.begin()?;
    let mut staged = Vec::with_capacity(days.len());
    for (gate, key, facts) in days {
        let mut writer = PartitionWriter::new(*key, publication.create(&key.data_file())?);
        write_lines(log, gate, &helpers, index.items(key), &mut writer)?;
        let Written { sink, bytes, sha256, fingerprint, manifest } = writer.finish(facts)?;
        publication.finish(sink)?;
        publication.put(&key.manifest_file(), &manifest)?;
        let lines = facts.counts.produced;
        staged.push((gate, *key, Staged { lines, bytes, sha256, fingerprint, manifest }));
    }
    drop(helpers);
    let mut shown = Vec::with_capacity(staged.len());
    publication.commit(|tree| {
        for (gate, key, staged) in &staged {
            check(disk.as_ref(), tree, gate, *key, staged)?;
            let Staged { sha256, bytes, lines, .. } = *staged;
            shown.push(ShownDay { key: *key, sha256, bytes, lines });
        }
        Ok::<(), String>(())
    })?;
    Ok(shown)
}

/// What was written for a day of a stream.
struct Staged {
    lines: u64,
    bytes: u64,
    sha256: Digest,
    fingerprint: Fingerprint,
    manifest: Vec<u8>,
}

/// Checks that the staged files hold the written bytes, and that counts and hashes agree. Every line
/// was checked and hashed while it was written.
fn check(
    disk: &dyn Disk,
    tree: &Path,
    gate: &Gate,
    key: PartitionKey,
    staged: &Staged,
) -> Result<(), String> {
    let unread = |error| format!("read back {}: {error}", key.data_file());
    let written = disk.read(&tree.join(key.manifest_file())).map_err(unread)?;
    if written != staged.manifest {
        return Err(format!("{} differs from what was written", key.manifest_file()));
    }
    let found = read_back(disk, &tree.join(key.data_file())).map_err(unread)?;
    if found.finish() != staged.fingerprint.finish() {
        return Err(format!("{} differs from what was written", key.data_file()));
    }
    let mut report = Report::default();
    gate.manifest(&staged.manifest, staged.lines, (staged.bytes, staged.sha256), &mut report);
    report.violations.first().map_or(Ok(()), |first| Err(described(first)))
}

pub(super) fn read_back(disk: &dyn Disk, path: &Path) -> io::Result<Fingerprint> {
    let file = disk.open(path, Open::Read)?;
    let len = file.stat()?.len;
    let mut buffer = vec![0; usize::try_from(len).unwrap_or(READ_BYTES).min(READ_BYTES)];
    let (mut found, mut at) = (Fingerprint::default(), 0);
    while at < len {
        match file.read_at(&mut buffer, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                found.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
    Ok(found)
}
