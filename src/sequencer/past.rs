//! What the core may ask about earlier events: those of the batches that are not durable yet, and
//! behind them the log and its tables.

use std::collections::VecDeque;

use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Timestamp;
use crate::log::codec;
use crate::log::{ReadError, Reader};
use crate::sequencer::recent_heads::RecentHeads;
use crate::state::event::{AckHead, Event, Output, TakenRequest};
use crate::state::{Digest16, Past, Row};

/// One event that is not durable yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    pub seq: Seq,
    pub at: Timestamp,
    pub event: Event,
}

/// A batch that the writer has.
#[derive(Debug)]
pub struct Sealed {
    /// With consecutive sequences.
    pub events: Vec<Pending>,
    /// The sequence its checkpoint stands for, if it has one.
    pub checkpoint: Option<Seq>,
}

/// The past as of the batch under way.
pub struct PastView<'a> {
    log: &'a Reader,
    writing: &'a VecDeque<Sealed>,
    filling: &'a [Pending],
    heads: &'a RecentHeads,
}

impl<'a> PastView<'a> {
    pub(super) fn new(
        log: &'a Reader,
        writing: &'a VecDeque<Sealed>,
        filling: &'a [Pending],
        heads: &'a RecentHeads,
    ) -> PastView<'a> {
        PastView { log, writing, filling, heads }
    }

    fn with_event<T>(
        &self,
        seq: Seq,
        look: impl FnOnce(&Event) -> Option<T>,
        expected: &'static str,
    ) -> Result<T, ReadError> {
        let unexpected = || ReadError::unexpected(seq, format!("it should be {expected}"));
        // Newest batch first: most questions are about recent events.
        let writing = self.writing.iter().rev().map(|sealed| &sealed.events[..]);
        for batch in std::iter::once(self.filling).chain(writing) {
            let first = batch.first().map(|pending| pending.seq);
            if let Some(first) = first.filter(|first| seq >= *first) {
                let pending = batch.get((seq.0 - first.0) as usize).ok_or_else(unexpected)?;
                return look(&pending.event).ok_or_else(unexpected);
            }
        }
        let event = self.log.event(seq)?.ok_or_else(unexpected)?;
        look(&event).ok_or_else(unexpected)
    }
}

impl Past for PastView<'_> {
    type Error = ReadError;

    fn find(&self, index: KeyIndex, digest: &Digest16) -> Result<Option<Seq>, ReadError> {
        Ok(self.log.find(index, digest)?.map(Seq))
    }

    fn row(&self, request: Seq) -> Result<Option<Row>, ReadError> {
        let Some(bytes) = self.log.row(request)? else { return Ok(None) };
        codec::decode_row(&bytes)
            .map(Some)
            .map_err(|source| ReadError::Event { seq: request, source })
    }

    fn taken(&self, request: Seq) -> Result<TakenRequest, ReadError> {
        self.with_event(request, |event| event.taken().cloned(), "a request")
    }

    fn head(&self, request: Seq) -> Result<AckHead, ReadError> {
        if let Some(head) = self.heads.find(request) {
            return Ok(head);
        }
        let head = |event: &Event| event.taken().map(|taken| taken.head.clone());
        self.with_event(request, head, "a request")
    }

    fn output(&self, ended: Seq) -> Result<Output, ReadError> {
        self.with_event(ended, Event::output, "an ending with an output")
    }
}
