//! Shipping: a host that follows reads its queue as a leader does, and sends each batch to the leader.
//!
//! Contract. It begins where the log of this host says that its queue is taken in. When the log shows
//! another place than the end of a batch that was shipped, it begins again there. Bytes are durable in
//! the queue file before they are shipped.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use crate::contract::time::Timestamp;
use crate::os::Disk;
use crate::seam::position::{Position, QueueError, as_adopted};
use crate::seam::tail::{TailOptions, Tailer};
use crate::sequencer::copies::CopyError;
use crate::sequencer::mark::QueueMarks;

use super::lines::{LinesError, pack};
use super::shared_lines::{SharedLines, Shipped, ShippedLines};
use super::shared_log::{Member, SharedError};

#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    #[error(transparent)]
    Shared(#[from] SharedError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Lines(#[from] LinesError),
    #[error(
        "another process ships lines under the name of the host {0}; each host needs a name of its own"
    )]
    Doubled(String),
}

/// The queue of this host.
#[derive(Clone)]
pub struct OwnQueue {
    pub disk: Arc<dyn Disk>,
    pub path: PathBuf,
    /// Which file a person named as the queue: `seam::position::note_adopted`.
    pub adopted: PathBuf,
    pub tail: TailOptions,
    pub lines_max: usize,
    pub bytes_max: usize,
    /// So many bytes are shipped that the log does not have yet, and one batch more. The rest waits in the file.
    pub ahead_max: u64,
}

impl OwnQueue {
    /// Where it continues by the marks of a log.
    pub fn place(&self, host: &str, marks: &QueueMarks) -> Result<Position, QueueError> {
        let place = marks.place_in(host, &self.disk, &self.path)?;
        as_adopted(&self.disk, &self.path, place, &self.adopted)
    }
}

/// What a step of shipping did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    Shipped,
    /// Every finished line was shipped, or as many as may be.
    Nothing,
}

pub struct Shipper<S> {
    lines: S,
    me: Member,
    queue: OwnQueue,
    under_way: Option<UnderWay>,
}

/// What was shipped since the last beginning.
struct UnderWay {
    tailer: Tailer,
    /// The ends of batches that the log has not passed yet, after the place it has.
    ends: VecDeque<Position>,
    /// Read, and not known to be shipped.
    next: Option<(ShippedLines, Position)>,
}

impl<S: SharedLines> Shipper<S> {
    pub fn new(lines: S, me: Member, queue: OwnQueue) -> Shipper<S> {
        Shipper { lines, me, queue, under_way: None }
    }

    /// How many bytes were shipped that the log does not have yet.
    #[cfg(any(test, feature = "internals"))]
    pub fn behind(&self) -> u64 {
        self.under_way.as_ref().map_or(0, UnderWay::behind)
    }

    /// Whether it has begun. A beginning needs marks as new as can be; what comes after it does not.
    pub fn has_begun(&self) -> bool {
        self.under_way.is_some()
    }

    /// Ships one batch at most. `marks` are those of the own log.
    pub fn step(&mut self, marks: &QueueMarks, now: Timestamp) -> Result<Did, ShipError> {
        let did = self.try_step(marks, now);
        if matches!(did, Err(ShipError::Queue(_) | ShipError::Doubled(_))) {
            self.under_way = None;
        }
        did
    }

    fn try_step(&mut self, marks: &QueueMarks, now: Timestamp) -> Result<Did, ShipError> {
        let mut under_way = match self.under_way.take() {
            Some(under_way) => under_way,
            None => self.begin(marks)?,
        };
        if !under_way.passed(&self.me.host, marks) {
            // The log has another place: this host led, or an earlier start of it shipped.
            under_way = self.begin(marks)?;
        }
        let may_read = under_way.behind() < self.queue.ahead_max;
        let UnderWay { tailer, ends, next } = self.under_way.insert(under_way);
        if next.is_none() && may_read {
            let batch = tailer.next_batch(now, self.queue.lines_max, self.queue.bytes_max)?;
            tailer.sync()?;
            *next = match batch {
                Some(batch) => Some((pack(&batch)?, batch.end)),
                None => None,
            };
        }
        let Some((lines, end)) = next else {
            tailer.rest();
            return self.look_again();
        };
        let landed = match self.lines.ship(&self.me, lines)? {
            Shipped::Landed => true,
            Shipped::Elsewhere => match self.lines.shipped(&self.me)? {
                // An earlier try without an answer.
                Some(at) if at == lines.end => true,
                Some(_) => false,
                None => return Err(ShipError::Doubled(self.me.host.clone())),
            },
        };
        match landed {
            true => {
                ends.push_back(end.clone());
                *next = None;
            }
            // A beginning without an answer was carried out late.
            false => self.under_way = None,
        }
        Ok(Did::Shipped)
    }

    fn begin(&mut self, marks: &QueueMarks) -> Result<UnderWay, ShipError> {
        let place = self.queue.place(&self.me.host, marks)?;
        let (disk, path) = (Arc::clone(&self.queue.disk), &self.queue.path);
        let tailer = Tailer::open(disk, path, place.clone(), self.queue.tail)?;
        self.lines.begin(&self.me, place.offset)?;
        Ok(UnderWay { tailer, ends: VecDeque::from([place]), next: None })
    }

    /// While lines wait to be taken in, they must still be there: a beginning without an answer may have been
    /// carried out after them.
    fn look_again(&mut self) -> Result<Did, ShipError> {
        let Some(UnderWay { ends, .. }) = &self.under_way else { return Ok(Did::Nothing) };
        if let (Some(last), true) = (ends.back(), ends.len() > 1) {
            match self.lines.shipped(&self.me)? {
                Some(at) if at == last.offset => {}
                Some(_) => self.under_way = None,
                None => return Err(ShipError::Doubled(self.me.host.clone())),
            }
        }
        Ok(Did::Nothing)
    }
}

impl UnderWay {
    fn behind(&self) -> u64 {
        let ends = self.ends.front().zip(self.ends.back());
        ends.map_or(0, |(first, last)| last.offset - first.offset)
    }

    /// Forgets the ends that the log has passed; false when the log has a place that is none of them.
    fn passed(&mut self, host: &str, marks: &QueueMarks) -> bool {
        let Some(mark) = marks.by_host.get(host) else { return true };
        let at = &mark.position;
        let is_it = |end: &Position| (end.offset, end.chain) == (at.offset, at.chain);
        match self.ends.iter().position(is_it) {
            Some(passed) => {
                self.ends.drain(..passed);
                true
            }
            None => false,
        }
    }
}
