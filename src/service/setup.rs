//! What the caller gives to the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crossbeam_channel::Receiver;

use crate::config::Config;
use crate::contract::time::Timestamp;
use crate::control::question::Answer;
use crate::export::Committed;
use crate::home::Home;
use crate::model::BatchLane;
use crate::os::Machine;
use crate::projections::digester::DigestClient;
use crate::projections::runs::{AgentRuns, NoteOrder};
use crate::projections::summaries::Publishing;
use crate::registry::{Mutation, SharedFlows};
use crate::sequencer::engine::{Engine, SessionStart};
use crate::sequencer::intake::OtherQueues;
use crate::state::flows::Flows;
use crate::upstream::IndexStore;
use crate::work::isolation::processes::Isolation;
use crate::work::lead::Lead;
use crate::work::other_workers::OtherWorkers;
use crate::work::worker::Worker;

use super::aside::Aside;

/// When the loop ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Until a signal or a command ends it.
    Stopped,
    /// Until no request is left that may run now, or that may run by the given time.
    Drained(Option<Timestamp>),
}

/// How a signal handler or a test asks the loop to stop.
#[derive(Debug, Clone, Default)]
pub struct StopSignal {
    asked: Arc<AtomicU8>,
    /// Set as soon as the loop should stop, whoever wants it.
    flag: Arc<AtomicBool>,
}

impl StopSignal {
    /// Asks once more; returns how often it was asked before.
    pub fn raise(&self) -> u8 {
        self.flag.store(true, Ordering::Release);
        self.asked.fetch_add(1, Ordering::AcqRel)
    }

    /// Ends the loop for another host. It does not count as asked: the next who asks is the first.
    #[cfg_attr(
        not(feature = "cluster"),
        allow(dead_code, reason = "only hosts that share a log ask")
    )]
    pub(crate) fn hand_over(&self) {
        self.flag.store(true, Ordering::Release);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Whether a person or a supervisor asked for the end.
    #[cfg_attr(
        not(feature = "cluster"),
        allow(dead_code, reason = "only hosts that share a log ask")
    )]
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire) > 0
    }

    /// A flag that is set as soon as it is asked.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Whether it was asked more than once: then the loop does not wait for attempts.
    pub(super) fn is_urgent(&self) -> bool {
        self.asked.load(Ordering::Acquire) > 1
    }
}

/// Reads configuration and registry again. It gets the flows that the log knows, and whether a flow
/// may be bound to another pack. An error is the reason why the old settings stay in force.
pub(crate) type Reload = Box<dyn FnMut(&Flows, bool) -> Result<Reloaded, String> + Send>;

/// Gives the address of the page, and starts the page when it does not run.
pub(crate) type ShowPage = Arc<dyn Fn() -> Answer + Send + Sync>;

/// Called for each durable batch with its events and the engine.
pub(crate) type Watch = Box<dyn FnMut(&[Committed], &Engine) + Send>;

/// Names the session of the next day. `None` means that the name could not be made, and the session
/// continues under its old name.
pub(crate) type NextSession = Box<dyn FnMut() -> Option<SessionStart> + Send>;

/// New settings that have been checked.
pub struct Reloaded {
    pub config: Config,
    /// Flows that are bound to another pack from now on.
    pub accepted: Vec<Mutation>,
}

/// Everything the loop needs.
pub struct Service {
    pub machine: Machine,
    pub home: Home,
    pub config: Config,
    /// Where upstream ids are looked up.
    pub index: Arc<dyn IndexStore>,
    pub flows: SharedFlows,
    pub worker: Arc<dyn Worker>,
    /// Where flows run that are no attempts.
    pub(crate) processes: Isolation,
    /// The session that begins.
    pub session: SessionStart,
    pub stop: StopSignal,
    /// Without it one session continues past midnight.
    pub(crate) next_session: Option<NextSession>,
    pub reload: Option<Reload>,
    pub publishing: Option<Publishing>,
    pub watch: Option<Watch>,
    pub page: Option<ShowPage>,
    pub runs: Option<Arc<AgentRuns>>,
    /// Orders of notes, about agent runs and digests.
    pub notes: Option<Receiver<NoteOrder>>,
    pub digests: Option<DigestClient>,
    /// Orders for which the loop ends. Without it there are none.
    pub(crate) aside: Option<Aside>,
    /// Where scheduled questions wait for their batch.
    pub(crate) batches: Option<Arc<BatchLane>>,
    /// The queues of other hosts that share the log.
    pub others: Option<Box<dyn OtherQueues>>,
    /// The workers of other hosts.
    pub other_workers: Option<Box<dyn OtherWorkers>>,
    /// While this host leads others. When the lead has ended, it may commit nothing more.
    pub lead: Option<Arc<Lead>>,
}

#[cfg(test)]
mod tests {
    use super::StopSignal;

    #[test]
    fn a_lead_that_is_handed_over_ends_the_loop_and_nobody_has_asked_yet() {
        let stop = StopSignal::default();
        stop.hand_over();
        assert!(stop.is_raised() && !stop.is_asked() && !stop.is_urgent());
        assert_eq!(stop.raise(), 0, "the first one ends in order");
        assert!(stop.is_asked() && !stop.is_urgent());
        assert_eq!(stop.raise(), 1, "the second ends at once");
        assert!(stop.is_urgent());
    }
}
