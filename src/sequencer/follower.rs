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
use crate::log::codec::Cursor;
use crate::log::{Checkpoint, LogError, ReadError, Reader, Shipment, Store};
use crate::sequencer::engine::{EngineError, add_documents, load};
use crate::sequencer::forgetting::carried_out;
use crate::sequencer::past::{PastView, Sealed};
use crate::sequencer::recent_heads::RecentHeads;
use crate::sequencer::view::View;
use crate::state::event::{Event, Forgotten};
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
    #[error("note what the shared log tells this host to forget")]
    Note(#[source] io::Error),
    #[error("an earlier error stopped the follower; open it again")]
    Stopped,
}

/// Notes durably what this host is to forget, before the fact is in its log.
pub type NoteForgetting = Box<dyn FnMut(&Forgotten) -> io::Result<()> + Send>;

pub struct Follower {
    store: Store,
    log: Reader,
    state: State,
    runs: RunHeads,
    digest: Digest,
    stopped: bool,
    note: Option<NoteForgetting>,
    /// The last fact of forgetting since the last checkpoint. A note beside the log says what is left of it.
    forgotten: Option<Seq>,
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
        let (stopped, note, forgotten) = (false, None, None);
        Ok(Follower {
            store,
            log,
            state,
            runs,
            digest,
            stopped,
            note,
            forgotten,
            no_batches,
            no_heads,
        })
    }

    /// A follower that notes what its host is to forget.
    pub fn noting(self, note: NoteForgetting) -> Follower {
        Follower { note: Some(note), ..self }
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
        self.stopped = taken.is_err();
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
        let mut committed = Vec::new();
        let mut checkpoint = None;
        shipment.each(|entry| {
            if let Some(Checkpoint { applied: at, .. }) = checkpoint {
                return Err(FollowError::CheckpointInside { at });
            }
            let event = Committed::of(entry)?;
            checkpoint = self.apply(&event, cursors)?;
            committed.push(event);
            Ok(())
        })?;
        for Committed { event, .. } in &committed {
            if let (Event::Forgotten(fact), Some(note)) = (event, &mut self.note) {
                note(fact).map_err(FollowError::Note)?;
            }
        }
        let is_checkpoint = checkpoint.is_some();
        self.store.append_packed(shipment.packed, &shipment.mark, checkpoint)?;
        if is_checkpoint {
            self.state.checkpointed();
            self.runs.checkpointed();
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
        if let Event::Forgotten(_) = event {
            self.forgotten = Some(*seq);
        }
        let Some(mut checkpoint) = checkpoint else { return Ok(None) };
        checkpoint.applied = *seq;
        let mut all = cursors.to_vec();
        for position in self.forgotten.take().into_iter().flat_map(carried_out) {
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
