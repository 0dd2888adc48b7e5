//! What a session did, counted from its committed events.

use std::collections::BTreeMap;

use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{FailureCause, ReasonCode};
use crate::export::Committed;
use crate::facts::agent_run::SnapshotPointer;
use crate::facts::session::{Promoted, SessionReport};
use crate::state::event::{Event, PassedOver};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionCounts {
    pub events: u64,
    pub lines: u64,
    /// Outcomes, by what `status` calls them.
    pub outcomes: BTreeMap<&'static str, u64>,
    pub commits: u64,
    /// Failures that still stand: of requests that ended with one, and of those that wait for
    /// another attempt.
    failures: BTreeMap<FailureKind, Failure>,
    /// Requests that wait for another attempt, and when it may begin.
    waiting: BTreeMap<Seq, (FailureKind, Timestamp)>,
    /// Providers that failed while a fallback answered, by provider and cause, with how often.
    passed_over: BTreeMap<(String, FailureCause), (u64, PassedOver)>,
}

/// What makes two failures one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FailureKind {
    /// Whether the requests have ended.
    pub(crate) has_ended: bool,
    pub(crate) reason: Option<ReasonCode>,
    pub(crate) cause: Option<FailureCause>,
}

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) requests: u64,
    /// Of the first of them.
    pub(crate) request_id: String,
    pub(crate) message: String,
    /// When the next attempt of one of them may begin.
    pub(crate) next: Option<Timestamp>,
}

impl FailureKind {
    /// Whether a limit was kept and nothing went wrong.
    pub(crate) fn is_put_off(&self) -> bool {
        matches!(self.cause, Some(FailureCause::Budget | FailureCause::RateLimit))
            && !self.has_ended
    }
}

impl SessionCounts {
    /// How many requests ended this way.
    pub fn count(&self, outcome: &str) -> u64 {
        self.outcomes.get(outcome).copied().unwrap_or(0)
    }

    pub(super) fn observe(&mut self, committed: &Committed) {
        self.events += 1;
        self.observe_failures(&committed.event);
        if let Event::ProviderPassedOver { failure, .. } = &committed.event {
            let kind = (failure.provider.clone(), failure.cause);
            let known = self.passed_over.entry(kind);
            known.or_insert_with(|| (0, (**failure).clone())).0 += 1;
        }
        let outcome = match &committed.event {
            Event::LineQuarantined(_) => "quarantined",
            Event::RequestAccepted(_) => "accepted",
            Event::RequestParked { .. } => "parked",
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

    /// Keeps the failures that still stand.
    fn observe_failures(&mut self, event: &Event) {
        let Some(request) = event.request() else { return };
        if event.is_beside() {
            return;
        }
        if let Some((kind, _)) = self.waiting.remove(&request)
            && let Some(failure) = self.failures.get_mut(&kind)
        {
            failure.requests -= 1;
            if failure.requests == 0 {
                self.failures.remove(&kind);
            }
        }
        let Event::AttemptFailed { head, reason, cause, message, retry_at, .. } = event else {
            return;
        };
        let (reason, cause, has_ended) = (*reason, *cause, retry_at.is_none());
        let kind = FailureKind { has_ended, reason, cause };
        let failure = self.failures.entry(kind).or_insert_with(|| Failure {
            requests: 0,
            request_id: head.request_id.clone(),
            message: message.clone(),
            next: None,
        });
        failure.requests += 1;
        self.waiting.extend(retry_at.map(|at| (request, (kind, at))));
    }

    /// Providers that failed while a fallback answered, each with the number of calls.
    pub(crate) fn passed_over(&self) -> impl Iterator<Item = &(u64, PassedOver)> {
        self.passed_over.values()
    }

    /// The failures that still stand, those that ended requests last.
    pub(crate) fn failures(&self) -> Vec<(FailureKind, Failure)> {
        let failures = self.failures.iter().map(|(kind, failure)| {
            let of_kind = self.waiting.values().filter(|(of, _)| of == kind);
            let next = of_kind.map(|(_, at)| *at).min();
            (*kind, Failure { next, ..failure.clone() })
        });
        failures.collect()
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
        for (kind, (calls, failure)) in other.passed_over {
            self.passed_over.entry(kind).or_insert((0, failure)).0 += calls;
        }
        for (kind, failure) in other.failures {
            match self.failures.get_mut(&kind) {
                Some(known) => known.requests += failure.requests,
                None => drop(self.failures.insert(kind, failure)),
            }
        }
        self.waiting.extend(other.waiting);
    }
}
