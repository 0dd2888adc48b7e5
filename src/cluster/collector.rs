//! Collecting: the host that leads reads the lines that other hosts shipped.
//!
//! Contract. It hands out only batches that continue the marks of the log and what it handed out before,
//! in the order of each queue, and no queue that begins as another one does: its host finds that out when it has the
//! first lines of the other one in its log. All else is passed over. What it hands out is taken in in this order, or this
//! host leads no more.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::log::Reader;
use crate::seam::position::open_queue;
use crate::seam::tail::Batch;
use crate::sequencer::copies::first_line;
use crate::sequencer::intake::OtherQueues;
use crate::sequencer::mark::{QueueMark, QueueMarks};

use super::lines::unpack;
use super::shared_lines::SharedLines;
use super::shared_log::SharedError;
use super::shipper::OwnQueue;

/// About how many bytes of lines are read at a time from one host.
const READ_BYTES: usize = 1 << 20;
/// Most bytes of a first line that are compared.
const FIRST_LINE: usize = 64 << 10;
/// How long lines that cannot be read, or are of a copy, are left alone. Their host may replace them.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How often lines that were taken in are removed.
const TIDY_EVERY: Duration = Duration::from_secs(5);

pub struct Collector<S> {
    lines: S,
    me: String,
    /// The queue of this host, if its lines are taken in.
    own: Option<OwnQueue>,
    /// The first lines of queues that began to come here.
    firsts: BTreeMap<String, Vec<u8>>,
    /// The marks after what was handed out.
    at: QueueMarks,
    found: VecDeque<(String, Batch)>,
    /// Up to where the lines of each host were removed.
    dropped: BTreeMap<String, u64>,
    /// Where lines of a host are left alone, and when they were looked at.
    unread: BTreeMap<String, (u64, Instant)>,
}

impl<S: SharedLines> Collector<S> {
    /// `marks` are those of the log that this host leads with.
    pub fn new(lines: S, me: String, marks: QueueMarks, own: Option<OwnQueue>) -> Collector<S> {
        let (found, dropped, unread) = (VecDeque::new(), BTreeMap::new(), BTreeMap::new());
        Collector { lines, me, own, firsts: BTreeMap::new(), at: marks, found, dropped, unread }
    }

    /// The next batch of another host, and its name.
    pub fn next_batch(&mut self) -> Result<Option<(String, Batch)>, SharedError> {
        if self.found.is_empty() {
            self.look()?;
        }
        Ok(self.found.pop_front())
    }

    fn look(&mut self) -> Result<(), SharedError> {
        for (host, end) in self.lines.ends()? {
            let from = taken_in(&self.at, &host);
            let rests =
                self.unread.get(&host).is_some_and(|(_, at)| at.elapsed() < READ_AGAIN_AFTER);
            if host == self.me || end <= from || rests {
                continue;
            }
            for shipped in self.lines.lines_after(&host, from, READ_BYTES)? {
                let batch = match unpack(&shipped) {
                    Ok(batch) => batch,
                    Err(error) => {
                        let was = self.unread.insert(host.clone(), (shipped.start, Instant::now()));
                        if was.is_none_or(|(start, _)| start != shipped.start) {
                            let at = shipped.start;
                            tracing::warn!(%error, host, at, "lines cannot be read, and wait");
                        }
                        break;
                    }
                };
                if self.is_copy(&host, &batch) {
                    self.unread.insert(host.clone(), (shipped.start, Instant::now()));
                    break;
                }
                if self.at.advance(&host, batch.end.clone(), batch.consumed) {
                    self.found.push_back((host.clone(), batch));
                }
            }
        }
        Ok(())
    }

    /// Whether it is the beginning of a queue that begins as another one does. Copies of one queue may come here at the
    /// same time, before either of their hosts knows of the other.
    fn is_copy(&mut self, host: &str, batch: &Batch) -> bool {
        if batch.consumed.start > 0 || self.at.by_host.contains_key(host) {
            return false;
        }
        let Some(line) = first_line(&batch.bytes) else { return false };
        let line = &line[..line.len().min(FIRST_LINE)];
        let mut others = self.firsts.iter().filter(|(other, _)| *other != host);
        if others.any(|(_, first)| first == line) || self.own_begins_with(line) {
            return true;
        }
        self.firsts.insert(host.to_owned(), line.to_vec());
        false
    }

    fn own_begins_with(&self, line: &[u8]) -> bool {
        let Some(OwnQueue { disk, path, .. }) = &self.own else { return false };
        let mut first = vec![0; line.len()];
        let read = open_queue(disk.as_ref(), path).and_then(|file| file.read_at(&mut first, 0));
        // A file that cannot be read takes nothing in, and its reader says why.
        read.is_ok_and(|count| count == line.len()) && first == line
    }

    /// Removes lines below the marks of the log.
    pub fn tidy(&mut self, marks: &QueueMarks) -> Result<(), SharedError> {
        for (host, QueueMark { position, .. }) in &marks.by_host {
            if self.dropped.get(host) != Some(&position.offset) {
                self.lines.drop_lines(host, position.offset)?;
                self.dropped.insert(host.clone(), position.offset);
            }
        }
        Ok(())
    }
}

fn taken_in(marks: &QueueMarks, host: &str) -> u64 {
    marks.by_host.get(host).map_or(0, |mark| mark.position.offset)
}

/// A collector beside a running service.
pub struct Collecting<S> {
    collector: Collector<S>,
    log: Reader,
    tidied: Instant,
}

impl<S: SharedLines> Collecting<S> {
    pub fn new(collector: Collector<S>, log: Reader) -> Collecting<S> {
        Collecting { collector, log, tidied: Instant::now() }
    }

    fn tidy(&mut self) -> Result<(), SharedError> {
        if self.tidied.elapsed() < TIDY_EVERY {
            return Ok(());
        }
        self.tidied = Instant::now();
        match QueueMarks::decode(&self.log.mark()) {
            Ok(marks) => self.collector.tidy(&marks),
            // Whoever leads next says so.
            Err(_) => Ok(()),
        }
    }
}

impl<S: SharedLines> OtherQueues for Collecting<S> {
    fn next(&mut self) -> Option<(String, Batch)> {
        let tidied = self.tidy();
        match tidied.and_then(|()| self.collector.next_batch()) {
            Ok(next) => next,
            Err(error) => {
                tracing::debug!(%error, "the lines of other hosts wait");
                None
            }
        }
    }
}
