//! Copies a log record by record into a new store, with the same identity, bytes, hashes and marks.
//! Tables are rebuilt from the records at the checkpoints that the log recorded.
//!
//! Contract: the hash of every record is computed again before it is written. So a copy is either the
//! same log, or an error that names the first record that differs. Records travel in pages, so that a
//! copy can be taken beside a running service and memory stays flat. The source is not changed.
//!
//! See docs/adr/0062-backup-as-logical-copy.md.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::compaction::agent_runs::facts::RunHeads;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::facts::retention::RetentionFact;
use crate::log::checkpoint::{identity, tables};
use crate::log::codec::Cursor;
use crate::log::{ChainReport, record_hash};
use crate::log::{
    Checkpoint, Commit, Fresh, LogError, NewRecord, Options, ReadError, Reader, Store, genesis,
};
use crate::os::Disk;
use crate::projections::line_files::{ACKS, ACKS_FLOOR};
use crate::sequencer::engine::cursor_documents;
use crate::state::event::Event;
use crate::state::{Impossible, State};
use crate::upkeep::forget::carried_out;

/// Payload and body bytes after which a page ends.
const PAGE_BYTES: usize = 4 << 20;
/// Records after which a page ends.
const PAGE_RECORDS: usize = 20_000;
/// Records written in one transaction.
const WRITTEN_AT_ONCE: usize = 20_000;

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("copy the log")]
    Log(#[from] LogError),
    #[error("apply an event of the copied log")]
    Impossible(#[from] Impossible),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("event {seq} does not match its hash")]
    Hash { seq: Seq },
    #[error("read a page of the copied log: {0}")]
    Page(String),
}

/// A record with its place in the hash chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    pub seq: Seq,
    /// With its body.
    pub record: NewRecord,
    pub hash: Digest,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub records: Vec<Copied>,
    /// The marks of the queue, each with the last record of its commit.
    pub marks: Vec<(Seq, Vec<u8>)>,
    /// Why the page ends early: the next record cannot be read.
    pub damage: Option<String>,
}

impl Page {
    /// Reads the records from `from` on, up to and with `until` or a bounded number of bytes. A record
    /// that cannot be read ends the page, which says why.
    pub(crate) fn read(log: &Reader, from: Seq, until: Seq) -> Page {
        let mut page = Page::default();
        let mut bytes = 0;
        let mut damage = None;
        let scanned = log.scan(from, Some(until), &mut |entry| {
            let body = match entry.has_body.then(|| log.body(entry.seq)) {
                None => None,
                Some(Ok(Some(body))) => Some(body),
                Some(Ok(None)) if log.body_is_dropped(entry.seq).unwrap_or(false) => None,
                Some(Ok(None)) => {
                    damage = Some(format!("the body of event {} is missing", entry.seq));
                    return ControlFlow::Break(());
                }
                Some(Err(error)) => {
                    damage = Some(error.to_string());
                    return ControlFlow::Break(());
                }
            };
            bytes += entry.payload.len() + body.as_ref().map_or(0, Vec::len);
            page.records.push(Copied {
                seq: entry.seq,
                hash: entry.hash(),
                record: NewRecord {
                    at: entry.at,
                    tag: entry.tag,
                    version: entry.version,
                    payload: entry.payload.to_vec(),
                    body,
                },
            });
            let full = bytes >= PAGE_BYTES || page.records.len() >= PAGE_RECORDS;
            if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        page.damage = damage.or_else(|| scanned.err().map(|error| error.to_string()));
        if let (Some(first), Some(last)) = (page.records.first(), page.records.last()) {
            let marks = log.marks_in(first.seq, last.seq, &mut |seq, mark| {
                page.marks.push((seq, mark.to_vec()));
                ControlFlow::Continue(())
            });
            if let Err(error) = marks {
                page.damage.get_or_insert_with(|| error.to_string());
            }
        }
        page
    }

    /// The form in which it is sent over the control socket.
    pub(crate) fn to_wire(&self) -> WirePage {
        let records = self.records.iter().map(|copied| WireRecord {
            seq: copied.seq.0,
            at: copied.record.at.0,
            tag: copied.record.tag,
            version: copied.record.version,
            payload: STANDARD.encode(&copied.record.payload),
            body: copied.record.body.as_ref().map(|body| STANDARD.encode(body)),
            hash: copied.hash.hex(),
        });
        let marks = self.marks.iter().map(|(seq, mark)| (seq.0, STANDARD.encode(mark)));
        WirePage { records: records.collect(), marks: marks.collect(), damage: self.damage.clone() }
    }
}

/// A page as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WirePage {
    records: Vec<WireRecord>,
    marks: Vec<(u64, String)>,
    damage: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireRecord {
    seq: u64,
    at: i64,
    tag: u16,
    version: u32,
    payload: String,
    body: Option<String>,
    hash: String,
}

impl TryFrom<WirePage> for Page {
    type Error = CopyError;

    fn try_from(wire: WirePage) -> Result<Page, CopyError> {
        let bytes =
            |text: &str| STANDARD.decode(text).map_err(|error| CopyError::Page(error.to_string()));
        let mut page = Page { damage: wire.damage, ..Page::default() };
        for record in wire.records {
            let hash = record.hash.parse::<Digest>();
            page.records.push(Copied {
                seq: Seq(record.seq),
                hash: hash.map_err(|error| CopyError::Page(error.to_string()))?,
                record: NewRecord {
                    at: Timestamp(record.at),
                    tag: record.tag,
                    version: record.version,
                    payload: bytes(&record.payload)?,
                    body: record.body.as_deref().map(bytes).transpose()?,
                },
            });
        }
        for (seq, mark) in wire.marks {
            page.marks.push((Seq(seq), bytes(&mark)?));
        }
        Ok(page)
    }
}

pub(crate) struct LogCopy {
    store: Store,
    state: State,
    runs: RunHeads,
    records: Vec<NewRecord>,
    marks: Vec<(Seq, Vec<u8>)>,
    last: (Seq, Digest),
    /// The last `forget` in it. A copy has no keys of what went.
    forgotten: Option<Seq>,
    /// The last event whose acks were moved to files of their own.
    acks_moved: Option<Seq>,
    /// Runs whose records only the files have.
    kept_runs: Vec<String>,
}

impl LogCopy {
    /// Makes a new store with the identity of the copied log.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        path: &Path,
        options: Options,
        fresh: Fresh,
    ) -> Result<LogCopy, CopyError> {
        let store_id = fresh.store_id;
        let store = Store::open(Arc::clone(disk), path, options, fresh, &mut |_| {})?;
        let last = (Seq::ZERO, genesis(store_id));
        let (state, runs) = (State::default(), RunHeads::default());
        Ok(LogCopy {
            store,
            state,
            runs,
            records: Vec::new(),
            marks: Vec::new(),
            last,
            forgotten: None,
            acks_moved: None,
            kept_runs: Vec::new(),
        })
    }

    /// The last copied record and its hash.
    pub(crate) fn last(&self) -> (Seq, Digest) {
        self.last
    }

    pub(crate) fn take(&mut self, page: Page) -> Result<(), CopyError> {
        let mut marks = page.marks.into_iter().peekable();
        for copied in page.records {
            let seq = copied.seq;
            while let Some(mark) = marks.next_if(|(end, _)| *end <= seq) {
                self.marks.push(mark);
            }
            self.take_one(copied)?;
        }
        self.marks.extend(marks);
        self.write(None)
    }

    fn take_one(&mut self, copied: Copied) -> Result<(), CopyError> {
        let Copied { seq, record, hash } = copied;
        let (at, tag, version) = (record.at, record.tag, record.version);
        let expected = record_hash(&self.last.1, seq, at, tag, version, &record.payload);
        if seq != self.last.0.next() || expected != hash {
            return Err(CopyError::Hash { seq });
        }
        let event = record.event(seq)?;
        // A checkpoint writes the changes before its own event, so the tables are taken before the event
        // is applied.
        let mut checkpoint = None;
        if let Event::CheckpointTaken { state, .. } = &event {
            let mut written = tables(&self.state);
            written.applied = seq;
            written.documents.extend(identity(state));
            written.documents.extend(self.runs.documents());
            checkpoint = Some(written);
        }
        match &event {
            Event::Forgotten(_) => self.forgotten = Some(seq),
            Event::Retention(RetentionFact::AcksMoved(fact)) => {
                self.acks_moved = Some(fact.through)
            }
            Event::RunRecordKept(kept) => self.kept_runs.push(kept.run_id.clone()),
            _ => {}
        }
        self.state.apply(seq, at, &event)?;
        self.runs.apply(&self.store.reader(), seq, &event)?;
        self.records.push(record);
        self.last = (seq, hash);
        match checkpoint {
            Some(checkpoint) => {
                self.write(Some(checkpoint))?;
                self.state.checkpointed();
                self.runs.checkpointed();
                Ok(())
            }
            None if self.records.len() >= WRITTEN_AT_ONCE => self.write(None),
            None => Ok(()),
        }
    }

    fn write(&mut self, checkpoint: Option<Checkpoint>) -> Result<(), CopyError> {
        if self.records.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.records);
        let mut marks = std::mem::take(&mut self.marks);
        // The mark of the last record is the mark of this commit; the earlier ones are stored beside it.
        let last = marks.pop_if(|(end, _)| *end == self.last.0);
        let mark = last.map(|(_, mark)| mark).unwrap_or_default();
        let first = Seq(self.last.0.0 + 1 - records.len() as u64);
        let commit = Commit { first, records: &records, mark: &mark, checkpoint };
        self.store.append_marked(commit, &marks)?;
        Ok(())
    }

    /// Notes that every `forget` in the log was carried out: a copy has nothing that went. What is not finished has
    /// a mark of its own.
    pub(crate) fn note_forgotten(&mut self) -> Result<(), CopyError> {
        self.forgotten.map_or(Ok(()), |last| self.note(&carried_out(last)))
    }

    /// Notes that the acks up to the last move are in files of their own; false when none was moved.
    pub(crate) fn note_moved_acks(&mut self) -> Result<bool, CopyError> {
        let Some(applied) = self.acks_moved else { return Ok(false) };
        let kept = Cursor { applied, bytes: 0 };
        self.note(&[(ACKS_FLOOR, kept), (ACKS, kept)])?;
        Ok(true)
    }

    fn note(&mut self, cursors: &[(&str, Cursor)]) -> Result<(), CopyError> {
        let documents = cursor_documents(cursors).collect();
        let applied = self.store.applied();
        let checkpoint = Some(Checkpoint { documents, applied, ..Checkpoint::default() });
        let first = self.last.0.next();
        self.store.append(Commit { first, records: &[], mark: b"", checkpoint })?;
        Ok(())
    }

    /// Runs whose records the log cannot write again, because they are older than it.
    pub(crate) fn kept_runs(&self) -> &[String] {
        &self.kept_runs
    }

    /// Stores a queue position, for a queue file that is another one now.
    pub(crate) fn set_mark(&mut self, mark: &[u8]) -> Result<(), CopyError> {
        let first = self.last.0.next();
        self.store.append(Commit { first, records: &[], mark, checkpoint: None })?;
        Ok(())
    }

    /// Reads the whole copy back and checks its hashes.
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(f64)) -> Result<ChainReport, CopyError> {
        Ok(self.store.reader().verify(Seq(1), None, progress)?)
    }

    pub(crate) fn reader(&self) -> Reader {
        self.store.reader()
    }

    /// The store, with every record that was taken: an error may have come before the rest of its page.
    pub(crate) fn into_store(mut self) -> Result<Store, CopyError> {
        let last = self.last.0;
        self.marks.retain(|(end, _)| *end <= last);
        self.write(None)?;
        Ok(self.store)
    }
}
