//! What a session did, counted from its committed events.

use std::collections::BTreeMap;

use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{FailureCause, ReasonCode};
use crate::export::Committed;
use crate::facts::agent_run::SnapshotPointer;
use crate::facts::session::{Promoted, SessionReport};
use crate::state::Digest16;
use crate::state::event::{Event, PassedOver};

/// Messages of one kind of failure that are kept.
const MESSAGES_MAX: usize = 5;

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
    /// Requests that wait for another attempt, when it may begin, and the hash of what was said.
    waiting: BTreeMap<Seq, (FailureKind, Timestamp, Digest16)>,
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) requests: u64,
    /// What was said, each message once.
    pub(crate) told: Vec<FailureMessage>,
    /// Requests whose messages are not kept.
    pub(crate) untold: u64,
    /// When the next attempt of one of them may begin.
    pub(crate) next: Option<Timestamp>,
}

/// One message about requests that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailureMessage {
    pub(crate) message: String,
    pub(crate) requests: u64,
    /// The first of these requests; empty when it is not among them any more.
    pub(crate) request_id: String,
    pub(crate) request: Seq,
}

impl Failure {
    fn tell(&mut self, told: FailureMessage) {
        match self.told.iter().position(|known| known.message == told.message) {
            Some(at) => self.told[at].requests += told.requests,
            None if self.told.len() < MESSAGES_MAX => self.told.push(told),
            None => self.untold += told.requests,
        }
    }

    /// A request that waited has another outcome now.
    fn take_back(&mut self, request: Seq, message: &Digest16) {
        self.requests -= 1;
        let known = self.told.iter_mut().find(|told| sha256(&told.message).head() == *message);
        match known {
            Some(known) => {
                known.requests = known.requests.saturating_sub(1);
                if known.request == request {
                    known.request_id.clear();
                }
            }
            None => self.untold = self.untold.saturating_sub(1),
        }
        self.told.retain(|told| told.requests > 0);
    }

    fn add(&mut self, other: Failure) {
        self.requests += other.requests;
        self.untold += other.untold;
        other.told.into_iter().for_each(|told| self.tell(told));
    }
}

impl FailureKind {
    /// Whether a limit was kept and nothing went wrong.
    pub(crate) fn is_put_off(&self) -> bool {
        self.cause.is_some_and(FailureCause::puts_off) && !self.has_ended
    }
}

impl SessionCounts {
    /// How many requests ended this way.
    pub fn count(&self, outcome: &str) -> u64 {
        self.outcomes.get(outcome).copied().unwrap_or(0)
    }

    pub(super) fn observe(&mut self, committed: &Committed) {
        self.events += 1;
        self.observe_failures(committed);
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
            Event::AttemptFailed { cause: Some(FailureCause::Batch), .. } => "waiting_for_batch",
            Event::AttemptFailed { .. } => "failed_transient",
            Event::RequestCancelled { .. } => "cancelled",
            _ => return,
        };
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    /// Keeps the failures that still stand.
    fn observe_failures(&mut self, committed: &Committed) {
        let event = &committed.event;
        let is_rejected = matches!(event, Event::RequestRejected { .. });
        let request = event.request().or(is_rejected.then_some(committed.seq));
        let Some(request) = request.filter(|_| !event.is_beside()) else { return };
        if let Some((kind, _, message)) = self.waiting.remove(&request)
            && let Some(failure) = self.failures.get_mut(&kind)
        {
            failure.take_back(request, &message);
            if failure.requests == 0 {
                self.failures.remove(&kind);
            }
        }
        let (kind, request_id, message, retry_at) = match event {
            Event::AttemptFailed { head, reason, cause, message, retry_at, .. } => {
                let (reason, cause, has_ended) = (*reason, *cause, retry_at.is_none());
                let kind = FailureKind { has_ended, reason, cause };
                (kind, &head.request_id, message, *retry_at)
            }
            Event::RequestRejected { request: taken, reason, message, .. } => {
                let kind = FailureKind { has_ended: true, reason: *reason, cause: None };
                (kind, &taken.head.request_id, message, None)
            }
            _ => return,
        };
        let failure = self.failures.entry(kind).or_default();
        failure.requests += 1;
        let (message, request_id) = (message.clone(), request_id.clone());
        let digest = sha256(&message).head();
        failure.tell(FailureMessage { message, requests: 1, request_id, request });
        self.waiting.extend(retry_at.map(|at| (request, (kind, at, digest))));
    }

    /// Providers that failed while a fallback answered, each with the number of calls.
    pub(crate) fn passed_over(&self) -> impl Iterator<Item = &(u64, PassedOver)> {
        self.passed_over.values()
    }

    /// The failures that still stand, those that ended requests last.
    pub(crate) fn failures(&self) -> Vec<(FailureKind, Failure)> {
        let failures = self.failures.iter().map(|(kind, failure)| {
            let of_kind = self.waiting.values().filter(|(of, ..)| of == kind);
            let next = of_kind.map(|(_, at, _)| *at).min();
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
                Some(known) => known.add(failure),
                None => drop(self.failures.insert(kind, failure)),
            }
        }
        self.waiting.extend(other.waiting);
    }
}
