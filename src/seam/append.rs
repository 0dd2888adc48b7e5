//! The caller's side of the queue: add requests so that no line is ever torn or spliced.
//!
//! [`append`] validates, takes the advisory lock on the queue file, ends an unfinished last line,
//! writes whole lines, syncs, and only then reports success. [`submit`] is the same for one
//! request on this host, for other programs that link this library.
//!
//! A producer in another language is safe without the lock if it writes a whole line, its `\n`
//! included, with a single `write` on a descriptor opened for appending. It must not use buffered
//! output: a line split into two writes can be cut apart by another writer.
//!
//! See docs/adr/0008-appending-to-the-queue.md.

use std::io;
use std::path::{Path, PathBuf};

use crate::contract::json;
use crate::contract::request::{Refusal, Request};
use crate::limits::LINE_BYTES_MAX;
use crate::os::{Disk, DiskFile, Open, real::HostDisk};

/// Lines are put together up to this size; a longer line is written alone.
const WRITE_BYTES: usize = 64 << 10;

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Lines added.
    pub lines: usize,
    /// True when somebody had left the last line unfinished and it was ended first.
    pub ended_unfinished_line: bool,
}

/// Why nothing, or not everything, was added.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// A record is no request. Nothing was written.
    #[error("record {index} is not a valid request ({})", .refusal.reason)]
    Refused {
        /// Which record, from 0.
        index: usize,
        /// The first rule that the request breaks.
        refusal: Box<Refusal>,
    },
    /// A record is longer than a line may be. Nothing was written.
    #[error("record {index} has {bytes} bytes, more than {LINE_BYTES_MAX}")]
    TooLong {
        /// Which record, from 0.
        index: usize,
        /// Its bytes as one line.
        bytes: usize,
    },
    /// The machine failed. Some lines may be in the file; to append them all again is safe,
    /// because their request ids and keys make repeats duplicates.
    #[error("could not {action} {}", path.display())]
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The file or folder it was for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Adds one request, given as JSON text, to a queue file of this host.
pub fn submit(queue: &Path, record: &str) -> Result<Request, AppendError> {
    let disk: &dyn Disk = &HostDisk;
    append(disk, queue, &[record])?;
    validate(0, record)
}

/// Adds requests, given as JSON texts, and makes them durable. All are validated before the first
/// is written.
pub fn append(disk: &dyn Disk, queue: &Path, records: &[&str]) -> Result<Appended, AppendError> {
    let mut lines = Vec::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        validate(index, record)?;
        let line = one_line(record);
        if line.len() > LINE_BYTES_MAX {
            return Err(AppendError::TooLong { index, bytes: line.len() });
        }
        lines.push(line);
    }
    let failed = |action| {
        let path = queue.to_owned();
        move |source| AppendError::Io { action, path, source }
    };
    let file = open(disk, queue).map_err(failed("open the queue file"))?;
    file.lock().map_err(failed("lock the queue file"))?;
    let written = write_lines(file.as_ref(), &lines).map_err(failed("append to the queue file"));
    let synced = file.sync().map_err(failed("sync the queue file"));
    // Closing the file would give the lock back too; here it is given back before the report.
    file.unlock().map_err(failed("unlock the queue file"))?;
    let ended_unfinished_line = written?;
    synced?;
    Ok(Appended { lines: lines.len(), ended_unfinished_line })
}

fn validate(index: usize, record: &str) -> Result<Request, AppendError> {
    Request::parse(record.as_bytes())
        .map_err(|refusal| AppendError::Refused { index, refusal: Box::new(refusal) })
}

/// The text on one line, for readers that split at any Unicode line end too. In valid JSON a line end is only
/// ever white space between tokens.
fn one_line(record: &str) -> String {
    json::one_line(record.trim().replace(['\n', '\r'], " "))
}

/// Opens the queue, creating it durably if it is not there.
fn open(disk: &dyn Disk, queue: &Path) -> io::Result<std::sync::Arc<dyn DiskFile>> {
    let parent = queue.parent().unwrap_or(Path::new("."));
    if disk.stat(queue)?.is_some() {
        return disk.open(&disk.within(parent, queue)?, Open::ReadWrite);
    }
    disk.create_dir_all(parent)?;
    let file = disk.open(queue, Open::ReadWrite)?;
    disk.sync_dir(parent)?;
    Ok(file)
}

/// Writes whole lines; true when an unfinished one was ended first.
fn write_lines(file: &dyn DiskFile, lines: &[String]) -> io::Result<bool> {
    let unfinished = ends_unfinished(file)?;
    let mut pending = Vec::new();
    if unfinished && !lines.is_empty() {
        pending.push(b'\n');
    }
    for line in lines {
        if !pending.is_empty() && pending.len() + line.len() >= WRITE_BYTES {
            file.append(&pending)?;
            pending.clear();
        }
        pending.extend_from_slice(line.as_bytes());
        pending.push(b'\n');
    }
    if !pending.is_empty() {
        file.append(&pending)?;
    }
    Ok(unfinished)
}

fn ends_unfinished(file: &dyn DiskFile) -> io::Result<bool> {
    let Some(last) = file.stat()?.len.checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    Ok(file.read_at(&mut byte, last)? == 1 && byte[0] != b'\n')
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests write files as other callers do")]
mod tests {
    use super::*;

    const RECORD: &str = include_str!("../../tests/fixtures/seam/request_a.json");

    fn appended(path: &Path, records: &[&str]) -> Result<Appended, AppendError> {
        append(&HostDisk, path, records)
    }

    #[test]
    fn a_line_has_no_line_end_of_any_kind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.jsonl");
        let mut record: serde_json::Value = serde_json::from_str(RECORD).unwrap();
        record["params"] = serde_json::json!({"note": "a\u{2028}b\u{85}c\u{2029}d"});
        appended(&path, &[&record.to_string()]).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(!written.contains(['\u{2028}', '\u{2029}', '\u{85}']), "{written}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), record);
    }

    #[test]
    fn a_pretty_record_becomes_one_line_in_a_new_queue() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run").join("queue.jsonl");
        assert!(RECORD.trim().contains('\n'));
        let request = submit(&path, RECORD).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with("}\n"));
        assert_eq!(Request::parse(text.as_bytes()), Ok(request));
    }

    #[test]
    fn an_unfinished_line_is_ended_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.jsonl");
        std::fs::write(&path, "{\"half\":").unwrap();
        let first = appended(&path, &[RECORD, RECORD]).unwrap();
        assert_eq!(first, Appended { lines: 2, ended_unfinished_line: true });
        assert!(!appended(&path, &[RECORD]).unwrap().ended_unfinished_line);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (4, "{\"half\":"));
        assert!(lines[1..].iter().all(|line| Request::parse(line.as_bytes()).is_ok()));
    }

    #[test]
    fn one_bad_record_keeps_all_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.jsonl");
        match appended(&path, &[RECORD, "{}"]) {
            Err(AppendError::Refused { index: 1, refusal }) => assert!(!refusal.errors.is_empty()),
            other => panic!("{other:?}"),
        }
        let long = RECORD.replacen('{', &format!("{{\"x\":\"{}\",", "y".repeat(LINE_BYTES_MAX)), 1);
        assert!(matches!(appended(&path, &[&long]), Err(AppendError::TooLong { index: 0, .. })));
        assert!(!path.exists());
    }

    #[test]
    fn appending_no_requests_changes_no_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.jsonl");
        std::fs::write(&path, "half").unwrap();
        appended(&path, &[]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"half");
    }
}
