//! Reads a run log file in bounded blocks, one validated event at a time.
//!
//! Only the tail is forgiven: a last line without a line end that is not an event yet is left for
//! later. An event that repeats an earlier event id keeps its `seq` but counts for nothing. The
//! same id with other content is corruption.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::event::{Body, EventError, LINE_BYTES_MAX, RunEvent};
use super::lines::{self, ParsedLine};
use super::text::SharedText;
use crate::contract::hash::Digest;
use crate::os::{Disk, DiskFile, Open};

/// Bytes parsed in one step: enough for all cores, small enough for memory.
const BLOCK_BYTES: usize = 2 << 20;

const _: () = assert!(LINE_BYTES_MAX < BLOCK_BYTES);

#[derive(Debug, thiserror::Error)]
pub enum RunLogReadError {
    #[error("read the run log: {0}")]
    Io(#[from] io::Error),
    /// A line is not a run event.
    #[error("line {line}: {source}")]
    Line { line: u64, source: EventError },
    #[error("line {line}: event_id {id} was used for another event")]
    IdReused { line: u64, id: SharedText },
}

/// Reads one run log from its beginning.
pub(crate) struct RunLogReader {
    file: Arc<dyn DiskFile>,
    offset: u64,
    /// Bytes that were read but not parsed yet.
    rest: Vec<u8>,
    ready: VecDeque<ParsedLine>,
    /// Lines parsed so far.
    lines: u64,
    line: u64,
    whole: Option<Digest>,
    at_end: bool,
    repeats: Repeats,
    /// True when the last line is still being written.
    pub unfinished: bool,
}

impl RunLogReader {
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<RunLogReader, RunLogReadError> {
        Ok(RunLogReader {
            file: disk.open(path, Open::Read)?,
            offset: 0,
            rest: Vec::new(),
            ready: VecDeque::new(),
            lines: 0,
            line: 0,
            whole: None,
            at_end: false,
            repeats: Repeats::default(),
            unfinished: false,
        })
    }

    /// The next event, or `None` at the end.
    pub(crate) fn next_event(&mut self) -> Result<Option<RunEvent>, RunLogReadError> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                (self.line, self.whole) = (line.number, line.whole);
                let event = line
                    .event
                    .map_err(|source| RunLogReadError::Line { line: line.number, source })?;
                let admitted = self.repeats.admit(event, line.digest);
                let reused = |id| RunLogReadError::IdReused { line: line.number, id };
                return admitted.map(Some).map_err(reused);
            }
            if self.at_end {
                return Ok(None);
            }
            self.read_block()?;
        }
    }

    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The hash of all that the last event says; `None` for a verbose one.
    pub(crate) fn whole(&self) -> Option<Digest> {
        self.whole
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.offset
    }

    /// Reads the next block and parses its whole lines.
    fn read_block(&mut self) -> Result<(), RunLogReadError> {
        let mut filled = self.rest.len();
        self.rest.resize(filled + BLOCK_BYTES, 0);
        while filled < self.rest.len() && !self.at_end {
            let count = self.file.read_at(&mut self.rest[filled..], self.offset)?;
            self.at_end = count == 0;
            self.offset += count as u64;
            filled += count;
        }
        self.rest.truncate(filled);
        let whole = memchr::memrchr(b'\n', &self.rest).map_or(0, |end| end + 1);
        let parsed = lines::parse_whole(&self.rest[..whole], self.lines + 1);
        let failed = parsed.last().is_some_and(|line| line.event.is_err());
        self.ready.extend(parsed);
        self.lines += lines::count(&self.rest[..whole]);
        self.rest.drain(..whole);
        if failed {
            self.at_end = true;
            self.rest.clear();
        } else if self.rest.len() > LINE_BYTES_MAX {
            self.refuse(EventError::TooLong);
        } else if self.at_end {
            self.last_line();
        }
        Ok(())
    }

    /// Queues the error after the lines before it.
    fn refuse(&mut self, error: EventError) {
        self.at_end = true;
        let (number, place) = (self.lines + 1, 0..0);
        self.ready.push_back(ParsedLine {
            number,
            place,
            event: Err(error),
            digest: None,
            whole: None,
        });
    }

    /// Parses a last line without a line end. If it is not an event yet, it is left for later.
    fn last_line(&mut self) {
        for line in lines::parse_whole(&self.rest, self.lines + 1) {
            match line.event {
                Ok(_) => self.ready.push_back(line),
                Err(_) => self.unfinished = true,
            }
        }
    }

    /// Events that repeat an earlier one.
    pub(crate) fn repeats(&self) -> u64 {
        self.repeats.count
    }
}

/// The ids that producers gave to the events of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Repeats {
    ids: HashMap<SharedText, Digest>,
    /// Events that repeated an earlier one.
    pub count: u64,
}

impl Repeats {
    /// Returns the event. An event that repeats an earlier one becomes verbose. The error is an id
    /// that belongs to another event. `digest` is the content digest; events without a producer's
    /// id need none.
    pub(crate) fn admit(
        &mut self,
        mut event: RunEvent,
        digest: Option<Digest>,
    ) -> Result<RunEvent, SharedText> {
        let (Some(id), Some(digest)) = (event.given_id.clone(), digest) else { return Ok(event) };
        match self.ids.get(&id) {
            None => {
                self.ids.insert(id, digest);
                Ok(event)
            }
            Some(known) if *known == digest => {
                self.count += 1;
                let name = SharedText::from(event.type_name());
                event.body = Body::Verbose { name, known: true };
                Ok(event)
            }
            Some(_) => Err(id),
        }
    }
}
