//! The state again from the log alone, and the proof that nothing has drifted.
//!
//! Contract. Replay decodes and applies; it never picks, never calls out, never writes to the home.
//! It imports no model, flow, upstream or seam, so the compiler proves that it cannot. Memory stays
//! flat: at every checkpoint the rows that the service moved to its tables leave here too, after
//! their digest was compared with the one the service recorded.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::log::checkpoint::{chain_digest, stored_digest, tables};
use crate::log::codec;
use crate::log::{Entry, LogError, ReadError, Reader};
use crate::state::event::Event;
use crate::state::{Impossible, State};

/// Differences listed.
const DIFFERENCES_MAX: usize = 100;

/// The log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log, or a record of it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A fact that cannot follow.
    #[error("apply an event")]
    Impossible(#[from] Impossible),
}

impl From<LogError> for ReplayError {
    fn from(error: LogError) -> ReplayError {
        ReplayError::Read(error.into())
    }
}

/// How far to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// To the end.
    Head,
    /// Up to and with this event.
    Seq(Seq),
    /// Up to the last event stamped at or before this moment.
    Time(Timestamp),
}

/// A state that was built from the log alone.
pub struct Replayed {
    pub state: State,
    /// Events applied, by name.
    pub events: BTreeMap<&'static str, u64>,
    /// The time of the last one.
    pub(crate) last_at: Option<Timestamp>,
    /// The digest over what its checkpoints would have written.
    pub digest: Digest,
    /// Everything that is not what the service recorded or left behind.
    pub differences: Vec<String>,
}

/// Whether replay also looks at what the service left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Only rebuild.
    Nothing,
    /// Compare each row of the tables as well.
    Tables,
}

/// Rebuilds the state. `progress` hears how much of the log is done, from 0 to 1.
pub fn rebuild(
    log: &Reader,
    until: Until,
    compare: Compare,
    progress: &mut dyn FnMut(f64),
) -> Result<Replayed, ReplayError> {
    let (head, _) = log.head();
    let last = match until {
        Until::Seq(seq) => Some(seq),
        Until::Head | Until::Time(_) => None,
    };
    let mut replay = Replay {
        log,
        compare,
        state: State::default(),
        digest: Digest::ZERO,
        events: BTreeMap::new(),
        last_at: None,
        differences: Vec::new(),
    };
    log.try_scan::<ReplayError>(Seq(1), last, |entry| {
        if matches!(until, Until::Time(time) if entry.at > time) {
            return Ok(ControlFlow::Break(()));
        }
        if entry.seq.0 % 65_536 == 0 {
            progress(entry.seq.0 as f64 / head.0.max(1) as f64);
        }
        replay.step(&entry)?;
        Ok(ControlFlow::Continue(()))
    })?;
    if compare == Compare::Tables && until == Until::Head {
        replay.compare_open()?;
        let stored = stored_digest(log)?;
        if stored.is_some_and(|stored| stored != replay.digest) {
            replay.differs("the stored state digest is not the one the log leads to".to_owned());
        }
    }
    let Replay { state, digest, events, last_at, differences, .. } = replay;
    Ok(Replayed { state, events, last_at, digest, differences })
}

struct Replay<'a> {
    log: &'a Reader,
    compare: Compare,
    state: State,
    digest: Digest,
    events: BTreeMap<&'static str, u64>,
    last_at: Option<Timestamp>,
    differences: Vec<String>,
}

impl Replay<'_> {
    fn step(&mut self, entry: &Entry<'_>) -> Result<(), ReplayError> {
        let event = entry.event()?;
        // What a checkpoint wrote is what had changed before its own event.
        if let Event::CheckpointTaken { state, .. } = &event {
            self.checkpoint(entry.seq, *state)?;
        }
        self.state.apply(entry.seq, entry.at, &event)?;
        *self.events.entry(event.name()).or_default() += 1;
        self.last_at = Some(entry.at);
        Ok(())
    }

    fn checkpoint(&mut self, seq: Seq, recorded: Digest) -> Result<(), ReplayError> {
        let written = tables(&self.state);
        self.digest = chain_digest(&self.digest, &written);
        if self.digest != recorded {
            self.differs(format!("checkpoint {seq} recorded another state digest"));
            // Continue from the recorded state, so that one difference is reported once.
            self.digest = recorded;
        }
        if self.compare == Compare::Tables {
            for (request, row) in &written.rows {
                if self.log.row(*request)?.as_ref() != Some(row) {
                    self.differs(format!("the table row of request {request} is another"));
                }
            }
        }
        self.state.checkpoint_begun();
        self.state.checkpointed();
        Ok(())
    }

    /// Open requests in the tables are those of the last checkpoint.
    fn compare_open(&mut self) -> Result<(), ReplayError> {
        let mut stored = BTreeMap::new();
        self.log.open_rows(&mut |seq, bytes| {
            stored.insert(seq, bytes.to_vec());
            ControlFlow::Continue(())
        })?;
        let changed = &self.state.changed().open;
        let open = self.state.open_from(Seq(0)).filter(|(seq, _)| !changed.contains(seq));
        let expected: BTreeMap<Seq, Vec<u8>> =
            open.map(|(seq, open)| (seq, codec::encode_open(open))).collect();
        let stale: Vec<Seq> = changed.iter().copied().collect();
        for seq in stale {
            stored.remove(&seq);
        }
        if stored != expected {
            self.differs("the table of open requests is not what the log leads to".to_owned());
        }
        Ok(())
    }

    fn differs(&mut self, what: String) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what);
        }
    }
}
