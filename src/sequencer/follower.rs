//! The follower: a home that takes the commits of another host.
//!
//! Contract. A shipped commit is checked, applied to the state and written whole, or the follower
//! stops: after an error it refuses everything, and opening it again continues from what is durable.
//! The log becomes that of the leader byte for byte. A checkpoint is taken where the leader took its
//! own, so the tables are those of the leader too, and their digest is compared each time.
//!
//! The follower decides nothing. To lead, close it and open an engine on the same store.

use std::collections::VecDeque;
use std::io;

use crate::compaction::agent_runs::facts::RunHeads;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::export::Committed;
use crate::log::checkpoint::{chain_digest, tables};
use crate::log::codec::{CodecError, Cursor};
use crate::log::{Checkpoint, LogError, ReadError, Reader, Shipment, Store};
use crate::sequencer::engine::{EngineError, add_documents, load};
use crate::sequencer::past::{PastView, Sealed};
use crate::sequencer::recent_heads::RecentHeads;
use crate::sequencer::view::View;
use crate::state::event::Event;
use crate::state::{Impossible, State};

#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error("open the log of a follower")]
    Open(#[from] EngineError),
    #[error("take a commit of another host")]
    Log(#[from] LogError),
    #[error("read an event of another host")]
    Read(#[from] ReadError),
    #[error("apply an event of another host")]
    Impossible(#[from] Impossible),
    #[error(
        "the state at checkpoint {at} is not the one that the leader had; one of the two programs or homes is \
         damaged: run `summarizer replay --verify` on both hosts"
    )]
    Drifted { at: Seq },
    #[error("a commit goes on after the checkpoint at {at}")]
    CheckpointInside { at: Seq },
    #[error("prepare what an event of another host wants of this one")]
    Prepare(#[source] io::Error),
    #[error("an earlier error stopped the follower; open it again")]
    Stopped,
}

impl FollowError {
    /// A newer program wrote what this one does not know. Nothing was changed.
    pub fn is_of_newer(&self) -> bool {
        matches!(
            self,
            FollowError::Log(LogError::NewerCommit { .. })
                | FollowError::Read(ReadError::Event { source: CodecError::UnknownTag { .. }, .. })
        )
    }
}

/// What a host does about some events beside its log.
pub trait Beside: Send {
    /// Before the event is in the log of this host.
    fn before(&mut self, event: &Event) -> io::Result<()>;

    /// Positions that follow from an event, for the next checkpoint.
    fn positions(&self, seq: Seq, event: &Event) -> Vec<(&'static str, Cursor)>;
}

pub struct Follower {
    store: Store,
    log: Reader,
    state: State,
    runs: RunHeads,
    digest: Digest,
    stopped: bool,
    beside: Option<Box<dyn Beside>>,
    /// Positions that followed from events since the last checkpoint.
    positions: Vec<(&'static str, Cursor)>,
    /// A follower has no batches and remembers no heads.
    no_batches: VecDeque<Sealed>,
    no_heads: RecentHeads,
}

impl Follower {
    /// Brings the state up to the end of the log. `progress` gets the share that is replayed.
    pub fn open(
        store: Store,
        now: Timestamp,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Follower, FollowError> {
        let log = store.reader();
        let (state, runs, digest) = load(&log, now, progress)?;
        let (no_batches, no_heads) = (VecDeque::new(), RecentHeads::default());
        let (stopped, beside, positions) = (false, None, Vec::new());
        Ok(Follower {
            store,
            log,
            state,
            runs,
            digest,
            stopped,
            beside,
            positions,
            no_batches,
            no_heads,
        })
    }

    /// A follower with what its host does about some events.
    pub fn with(self, beside: Box<dyn Beside>) -> Follower {
        Follower { beside: Some(beside), ..self }
    }

    /// The store, for what a host keeps of its log.
    pub(crate) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// The last record and its hash.
    pub fn head(&self) -> (Seq, Digest) {
        self.store.head()
    }

    #[cfg(any(test, feature = "internals"))]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A reader of committed records, for any thread.
    pub fn log(&self) -> &Reader {
        &self.log
    }

    /// What this home knows.
    pub fn view(&self) -> View<'_> {
        let past = PastView::new(&self.log, &self.no_batches, &[], &self.no_heads);
        View::new(&self.state, &self.log, &self.runs, past)
    }

    /// Takes the next commit, and returns its events once they are durable here. `cursors` say how
    /// far the append-only projections of this host are durable.
    pub fn take(
        &mut self,
        shipped: &[u8],
        cursors: &[(&str, Cursor)],
    ) -> Result<Vec<Committed>, FollowError> {
        if self.stopped {
            return Err(FollowError::Stopped);
        }
        let taken = self.try_take(shipped, cursors);
        self.stopped = taken.as_ref().is_err_and(|error| !error.is_of_newer());
        taken
    }

    fn try_take(
        &mut self,
        shipped: &[u8],
        cursors: &[(&str, Cursor)],
    ) -> Result<Vec<Committed>, FollowError> {
        let shipment = Shipment::read(shipped)?;
        let (end, hash) = self.store.head();
        if shipment.packed.from() != (end, hash) {
            let (expected, actual) = (shipment.packed.from().0.next(), end.next());
            return Err(LogError::Position { expected, actual }.into());
        }
        // All events are read before one is applied, so that a commit of a newer program changes nothing here.
        let mut committed = Vec::new();
        shipment.each(|entry| {
            let event = entry.event()?;
            committed.push(Committed { seq: entry.seq, at: entry.at, hash: entry.hash(), event });
            Ok::<(), FollowError>(())
        })?;
        let mut checkpoint = None;
        for event in &committed {
            if let Some(Checkpoint { applied: at, .. }) = checkpoint {
                return Err(FollowError::CheckpointInside { at });
            }
            checkpoint = self.apply(event, cursors)?;
        }
        if let Some(beside) = &mut self.beside {
            let mut events = committed.iter().map(|one| &one.event);
            events.try_for_each(|event| beside.before(event)).map_err(FollowError::Prepare)?;
        }
        let is_checkpoint = checkpoint.is_some();
        self.store.append_packed(shipment.packed, &shipment.mark, checkpoint)?;
        if is_checkpoint {
            self.state.checkpointed();
            self.runs.checkpointed();
        }
        let log = self.store.reader();
        for one in committed.iter_mut().filter(|one| one.event.has_line_beside()) {
            let event = std::mem::replace(&mut one.event, Event::DelayEnded { request: one.seq });
            one.event = log.with_line(one.seq, event)?;
        }
        Ok(committed)
    }

    /// Applies an event; a checkpoint of the leader becomes one of this host.
    fn apply(
        &mut self,
        Committed { seq, at, event, .. }: &Committed,
        cursors: &[(&str, Cursor)],
    ) -> Result<Option<Checkpoint>, FollowError> {
        let checkpoint = match event {
            Event::CheckpointTaken { state, .. } => Some(self.tables(*seq, *state)?),
            _ => None,
        };
        self.state.apply(*seq, *at, event)?;
        self.runs.apply(&self.log, *seq, event)?;
        if let Some(beside) = &self.beside {
            self.positions.extend(beside.positions(*seq, event));
        }
        let Some(mut checkpoint) = checkpoint else { return Ok(None) };
        checkpoint.applied = *seq;
        let positions = std::mem::take(&mut self.positions);
        let is_newer = |name: &str| positions.iter().any(|(newer, _)| *newer == name);
        let mut all: Vec<_> = cursors.iter().copied().filter(|(name, _)| !is_newer(name)).collect();
        for position in positions {
            all.push(position);
        }
        add_documents(&mut checkpoint, &self.digest, &self.runs, &all);
        self.state.checkpoint_begun();
        self.runs.checkpoint_begun();
        Ok(Some(checkpoint))
    }

    /// The tables before the checkpoint's own event, as the leader wrote them.
    fn tables(&mut self, at: Seq, recorded: Digest) -> Result<Checkpoint, FollowError> {
        let written = tables(&self.state);
        self.digest = chain_digest(&self.digest, &written);
        if self.digest != recorded {
            return Err(FollowError::Drifted { at });
        }
        Ok(written)
    }

    /// The store, for an engine that leads from here on.
    pub fn into_store(self) -> Store {
        self.store
    }
}
