//! A run log as a file: read in bounded pieces, one validated event at a time.
//!
//! Forgiving at the tail only: a last line without a line end that is no event yet is left for
//! later. A repeat of an earlier event, told by the producer's own event id, keeps its place in
//! the sequence but counts for nothing; the same id with other content is corruption.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::event::{Body, EventError, LINE_BYTES_MAX, RunEvent};
use super::text::Text;
use crate::contract::hash::Digest;
use crate::os::{Disk, DiskFile, Open};

const READ_BYTES: usize = 1 << 20;

/// Why a run log cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed.
    #[error("read the run log: {0}")]
    Io(#[from] io::Error),
    /// A line is not a run event.
    #[error("line {line}: {source}")]
    Line {
        /// 1-based.
        line: u64,
        /// What is wrong.
        source: EventError,
    },
    /// A line is longer than any event.
    #[error("line {line} is longer than {LINE_BYTES_MAX} bytes")]
    TooLong {
        /// 1-based.
        line: u64,
    },
    /// An event id names two different events.
    #[error("line {line}: event_id {id} was used for another event")]
    IdReused {
        /// 1-based.
        line: u64,
        /// The id.
        id: Text,
    },
}

/// Reads one run log from its beginning.
pub struct RunLogReader {
    file: Arc<dyn DiskFile>,
    offset: u64,
    buffer: Vec<u8>,
    used: usize,
    line: u64,
    at_end: bool,
    repeats: Repeats,
    /// True when the last line is still being written.
    pub unfinished: bool,
}

impl RunLogReader {
    /// Opens a log.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<RunLogReader, LogError> {
        Ok(RunLogReader {
            file: disk.open(path, Open::Read)?,
            offset: 0,
            buffer: Vec::new(),
            used: 0,
            line: 0,
            at_end: false,
            repeats: Repeats::default(),
            unfinished: false,
        })
    }

    /// The next event, or `None` at the end.
    pub fn next_event(&mut self) -> Result<Option<RunEvent>, LogError> {
        loop {
            if let Some(length) = self.line_length() {
                let line = self.used..self.used + length;
                self.used += length + 1;
                self.line += 1;
                if self.buffer[line.clone()].iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                let event = RunEvent::parse(&self.buffer[line])
                    .map_err(|source| LogError::Line { line: self.line, source })?;
                return self.admit(event).map(Some);
            }
            if self.buffer.len() - self.used > LINE_BYTES_MAX {
                return Err(LogError::TooLong { line: self.line + 1 });
            }
            if self.at_end {
                return self.last_line();
            }
            self.refill()?;
        }
    }

    /// The line last read, 1-based.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Bytes taken from the file so far.
    pub fn bytes_read(&self) -> u64 {
        self.offset
    }

    fn line_length(&self) -> Option<usize> {
        self.buffer[self.used..].iter().position(|byte| *byte == b'\n')
    }

    fn refill(&mut self) -> Result<(), LogError> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let kept = self.buffer.len();
        self.buffer.resize(kept + READ_BYTES, 0);
        let count = self.file.read_at(&mut self.buffer[kept..], self.offset)?;
        self.buffer.truncate(kept + count);
        self.offset += count as u64;
        self.at_end = count == 0;
        Ok(())
    }

    fn last_line(&mut self) -> Result<Option<RunEvent>, LogError> {
        let rest = self.used..self.buffer.len();
        self.used = self.buffer.len();
        if self.buffer[rest.clone()].iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        self.line += 1;
        match RunEvent::parse(&self.buffer[rest]) {
            Ok(event) => self.admit(event).map(Some),
            Err(_) => {
                self.unfinished = true;
                Ok(None)
            }
        }
    }

    fn admit(&mut self, event: RunEvent) -> Result<RunEvent, LogError> {
        let line = self.line;
        self.repeats.admit(event).map_err(|id| LogError::IdReused { line, id })
    }

    /// Events that repeat an earlier one.
    pub fn repeats(&self) -> u64 {
        self.repeats.count
    }
}

/// The ids that producers gave to the events of one run.
#[derive(Debug, Clone, Default)]
pub struct Repeats {
    ids: HashMap<Text, Digest>,
    /// Events that repeated an earlier one.
    pub count: u64,
}

impl Repeats {
    /// The event, turned into one that counts for nothing when it repeats an earlier one; the id
    /// as an error when it belongs to another event.
    pub fn admit(&mut self, mut event: RunEvent) -> Result<RunEvent, Text> {
        let Some(id) = event.given_id.clone() else { return Ok(event) };
        let digest = event.content_digest();
        match self.ids.get(&id) {
            None => {
                self.ids.insert(id, digest);
                Ok(event)
            }
            Some(known) if *known == digest => {
                self.count += 1;
                let name = Text::from(event.type_name());
                event.body = Body::Verbose { name, known: true };
                Ok(event)
            }
            Some(_) => Err(id),
        }
    }
}
