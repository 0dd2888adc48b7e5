//! What a home knows, for whoever only asks: of an engine, or of a follower.

use crate::compaction::agent_runs::facts::RunHeads;
use crate::log::Reader;
use crate::sequencer::past::PastView;
use crate::state::State;

pub struct View<'a> {
    state: &'a State,
    log: &'a Reader,
    runs: &'a RunHeads,
    past: PastView<'a>,
}

impl<'a> View<'a> {
    pub(super) fn new(
        state: &'a State,
        log: &'a Reader,
        runs: &'a RunHeads,
        past: PastView<'a>,
    ) -> View<'a> {
        View { state, log, runs, past }
    }

    pub fn state(&self) -> &'a State {
        self.state
    }

    /// A reader of committed records, for any thread.
    pub fn log(&self) -> &'a Reader {
        self.log
    }

    /// The agent runs and their snapshots.
    pub fn runs(&self) -> &'a RunHeads {
        self.runs
    }

    /// What is durable and what is not yet, as one past.
    pub fn past(&self) -> &PastView<'a> {
        &self.past
    }
}
