//! A file that only grows. Its content is a function of the log.
//!
//! Contract. Lines are appended after their events are committed, without waiting for the disk.
//! From time to time the file is made durable and a cursor (last event, length) is kept with the
//! next checkpoint. Each process that takes the home first repairs the file: from the cursor on, the
//! expected bytes are generated again, compared and written again; missing bytes are appended,
//! only a differing suffix is cut, a missing or shorter file is written whole. So no crash, lost
//! page, failed sync or edit leaves a repeated or a missing line.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Committed;
use crate::contract::ids::Seq;
use crate::log::codec::Cursor;
use crate::log::{LogError, ReadError, Reader};
use crate::os::{Disk, DiskFile, Open};

/// How many bytes are collected before they are written or compared.
const CHUNK_BYTES: usize = 1 << 20;

/// The projection could not be brought or kept up to date.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    #[error("{doing} {path}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        source: io::Error,
    },
    /// The log, or a record of it.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<LogError> for ProjectionError {
    fn from(error: LogError) -> ProjectionError {
        ProjectionError::Read(error.into())
    }
}

/// Which line an event becomes.
pub(crate) type Project = fn(&Committed) -> Option<String>;

/// Which events a file shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Range {
    /// Those after this one; earlier ones were moved away by retention.
    pub after: Seq,
    /// Up to and with this one; all when absent.
    pub until: Option<Seq>,
}

/// The file and how far it has got.
pub(crate) struct AppendOnly {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    project: Project,
    applied: Seq,
    bytes: u64,
    buffer: Vec<u8>,
}

/// What a repair found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repair {
    /// Bytes that had to be cut.
    pub cut: u64,
    /// Bytes that had to be appended.
    pub appended: u64,
}

impl AppendOnly {
    /// Opens the file and makes it equal to what the range of the log says.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        project: Project,
        cursor: Cursor,
        log: &Reader,
        range: Range,
    ) -> Result<(AppendOnly, Repair), ProjectionError> {
        let Range { after, until } = range;
        let file = match disk.open(path, Open::ReadWrite) {
            Ok(file) => file,
            Err(source) => {
                return Err(ProjectionError::File { doing: "open", path: path.to_owned(), source });
            }
        };
        let mut projection = AppendOnly {
            disk,
            path: path.to_owned(),
            file,
            project,
            applied: after,
            bytes: 0,
            buffer: Vec::new(),
        };
        let length = projection.length()?;
        if cursor.bytes <= length && cursor.applied >= after {
            (projection.applied, projection.bytes) = (cursor.applied, cursor.bytes);
        }
        let repair = projection.repair(length, log, until)?;
        Ok((projection, repair))
    }

    /// Appends the lines of newly committed events. Events it has seen already are passed over.
    pub(crate) fn take(&mut self, events: &[Committed]) -> Result<(), ProjectionError> {
        for committed in events.iter().filter(|committed| committed.seq > self.applied) {
            if let Some(line) = (self.project)(committed) {
                self.buffer.extend_from_slice(line.as_bytes());
            }
        }
        if let Some(last) = events.last() {
            self.applied = self.applied.max(last.seq);
        }
        self.write_buffer()
    }

    /// Makes everything appended so far durable and says how far that is.
    pub(crate) fn sync(&mut self) -> Result<Cursor, ProjectionError> {
        self.write_buffer()?;
        self.file.sync().map_err(|source| self.failed("sync", source))?;
        Ok(Cursor { applied: self.applied, bytes: self.bytes })
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The last event taken in.
    pub(crate) fn applied(&self) -> Seq {
        self.applied
    }

    fn repair(
        &mut self,
        length: u64,
        log: &Reader,
        until: Option<Seq>,
    ) -> Result<Repair, ProjectionError> {
        let mut matched = self.bytes;
        let mut differs = false;
        let from = self.applied.next();
        log.try_scan::<ProjectionError>(from, until, |entry| {
            if let Some(line) = (self.project)(&Committed::of(&entry, log)?) {
                self.buffer.extend_from_slice(line.as_bytes());
            }
            self.applied = entry.seq;
            if self.buffer.len() >= CHUNK_BYTES {
                self.settle(&mut matched, &mut differs, length)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.settle(&mut matched, &mut differs, length)?;
        if !differs && length > matched {
            self.file.set_len(matched).map_err(|source| self.failed("cut", source))?;
        }
        self.sync()?;
        let parent = self.path.parent().unwrap_or(Path::new("."));
        self.disk
            .sync_dir(parent)
            .map_err(|source| self.failed("sync the directory of", source))?;
        Ok(Repair { cut: length.saturating_sub(matched), appended: self.bytes - matched })
    }

    /// Compares the buffered bytes with the file as long as they agree, then appends.
    fn settle(
        &mut self,
        matched: &mut u64,
        differs: &mut bool,
        length: u64,
    ) -> Result<(), ProjectionError> {
        if !*differs {
            let same = self.common_prefix(length)?;
            // Written again although it is there: after a failed sync the system may show bytes
            // that never reached the disk, and only bytes written since make a later sync true.
            self.file
                .write_all_at(&self.buffer[..same], self.bytes)
                .map_err(|source| self.failed("write again", source))?;
            self.buffer.drain(..same);
            self.bytes += same as u64;
            *matched = self.bytes;
            if self.buffer.is_empty() {
                return Ok(());
            }
            *differs = true;
            if length > self.bytes {
                self.file.set_len(self.bytes).map_err(|source| self.failed("cut", source))?;
            }
        }
        self.write_buffer()
    }

    fn common_prefix(&self, length: u64) -> Result<usize, ProjectionError> {
        let available = usize::try_from(length.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        let mut found = vec![0; self.buffer.len().min(available)];
        let mut filled = 0;
        while filled < found.len() {
            let count = self
                .file
                .read_at(&mut found[filled..], self.bytes + filled as u64)
                .map_err(|source| self.failed("read", source))?;
            if count == 0 {
                break;
            }
            filled += count;
        }
        let pairs = found[..filled].iter().zip(&self.buffer);
        Ok(pairs.take_while(|(found, expected)| found == expected).count())
    }

    fn write_buffer(&mut self) -> Result<(), ProjectionError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file
            .write_all_at(&self.buffer, self.bytes)
            .map_err(|source| self.failed("append to", source))?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn length(&self) -> Result<u64, ProjectionError> {
        self.file.stat().map(|stat| stat.len).map_err(|source| self.failed("look at", source))
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> ProjectionError {
        ProjectionError::File { doing, path: self.path.clone(), source }
    }
}

/// Compares a file with the lines of all events after one; what differs first. Nothing is written.
pub(crate) fn compare(
    disk: &Arc<dyn Disk>,
    path: &Path,
    project: Project,
    log: &Reader,
    range: Range,
) -> Result<Option<String>, ProjectionError> {
    let failed = |source| ProjectionError::File { doing: "read", path: path.to_owned(), source };
    if disk.stat(path).map_err(failed)?.is_none() {
        return Ok(Some("is missing".to_owned()));
    }
    let file = disk.open(path, Open::Read).map_err(failed)?;
    let mut follower = Follower { file, offset: 0, expected: Vec::new(), ended: false };
    let mut difference = None;
    log.try_scan::<ProjectionError>(range.after.next(), range.until, |entry| {
        if let Some(line) = project(&Committed::of(&entry, log)?) {
            follower.expected.extend_from_slice(line.as_bytes());
        }
        if follower.expected.len() >= CHUNK_BYTES {
            difference = follower.compare().map_err(failed)?;
        }
        Ok(match difference {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        })
    })?;
    if difference.is_some() {
        return Ok(difference);
    }
    if let Some(difference) = follower.compare().map_err(failed)? {
        return Ok(Some(difference));
    }
    let length = follower.file.stat().map_err(failed)?.len;
    Ok(match (follower.ended, length > follower.offset) {
        (true, _) => Some(format!("ends at byte {}, lines are missing", length)),
        (_, true) => {
            Some(format!("has bytes the log does not know after byte {}", follower.offset))
        }
        _ => None,
    })
}

struct Follower {
    file: Arc<dyn DiskFile>,
    offset: u64,
    expected: Vec<u8>,
    ended: bool,
}

impl Follower {
    /// Compares what is expected next with the file.
    fn compare(&mut self) -> io::Result<Option<String>> {
        let mut found = vec![0; self.expected.len()];
        let mut filled = 0;
        while filled < found.len() && !self.ended {
            let count = self.file.read_at(&mut found[filled..], self.offset + filled as u64)?;
            self.ended = count == 0;
            filled += count;
        }
        let pairs = found[..filled].iter().zip(&self.expected);
        let same = pairs.take_while(|(found, expected)| found == expected).count();
        self.offset += same as u64;
        self.expected.clear();
        Ok((same < filled).then(|| format!("differs from the log at byte {}", self.offset)))
    }
}
