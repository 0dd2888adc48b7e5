//! What a session did, counted from its committed events.

use std::collections::BTreeMap;

use crate::export::Committed;
use crate::facts::agent_run::SnapshotPointer;
use crate::facts::session::{Promoted, SessionReport};
use crate::state::event::Event;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionCounts {
    pub events: u64,
    pub lines: u64,
    /// Outcomes, by what `status` calls them.
    pub outcomes: BTreeMap<&'static str, u64>,
    pub commits: u64,
}

impl SessionCounts {
    /// How many requests ended this way.
    pub fn count(&self, outcome: &str) -> u64 {
        self.outcomes.get(outcome).copied().unwrap_or(0)
    }

    pub(super) fn observe(&mut self, committed: &Committed) {
        self.events += 1;
        let outcome = match &committed.event {
            Event::LineQuarantined(_) => "quarantined",
            Event::RequestAccepted(_) => "accepted",
            Event::RequestRejected { .. } => "rejected",
            Event::DuplicateReceived { .. } | Event::RequestDuplicated { .. } => "duplicate",
            Event::SummaryProduced { .. } => "completed",
            Event::RequestSkipped { .. } => "skipped",
            Event::AttemptFailed { retry_at: None, .. } => "failed",
            Event::AttemptFailed { .. } => "failed_transient",
            Event::RequestCancelled { .. } => "cancelled",
            _ => return,
        };
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    /// The report that the end of a session carries: its counts and what it promoted.
    pub(super) fn report(
        &self,
        outputs: Vec<Promoted>,
        snapshot: Option<SnapshotPointer>,
        error: Option<&str>,
    ) -> SessionReport {
        let outcomes = self.outcomes.iter().map(|(name, count)| ((*name).to_owned(), *count));
        SessionReport {
            events: self.events,
            lines: self.lines,
            commits: self.commits,
            outcomes: outcomes.collect(),
            outputs,
            snapshot,
            error: error.map(str::to_owned),
        }
    }

    pub(super) fn add(&mut self, other: SessionCounts) {
        self.events += other.events;
        self.lines += other.lines;
        self.commits += other.commits;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
    }
}
