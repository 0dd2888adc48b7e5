//! How facts change the state: the single transition function, live and in replay.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Event, OF_BATCH, SessionEnd, TakenRequest};
use super::schedule::Place;
use super::{Digest16, Open, Particulars, Row, SessionInfo, State, Status};
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{ReasonCode, Urgency};
use crate::facts::digest::DigestFact;

/// Longest wait for the next attempt, from the start of a session on: a budget or a quota waits for the
/// next day at most.
pub(super) const RETRY_WAIT_MS_MAX: i64 = 3 * 24 * 60 * 60 * 1000;

/// An event that is not possible in the present state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({event}) is not possible in this state: {why}")]
pub struct Impossible {
    pub seq: Seq,
    pub event: &'static str,
    pub why: String,
}

impl State {
    /// Applies one committed (or about to be committed) event.
    pub fn apply(&mut self, seq: Seq, at: Timestamp, event: &Event) -> Result<(), Impossible> {
        if seq.0 != self.applied.0 + 1 {
            return Err(impossible(seq, event, format!("it should be {}", self.applied.0 + 1)));
        }
        self.applied = seq;
        if let Some(taken) = event.taken() {
            return self.take_in(seq, at, event, taken);
        }
        // About a request, but true also when that is over.
        if let Event::ModelCharged { request, attempt, charge } = event {
            if *attempt == OF_BATCH {
                self.batch_charged(*request, charge);
            }
            self.flows.charge(charge);
            if !charge.estimated {
                self.provider_answered(&charge.provider);
            }
            return Ok(());
        }
        if let Event::ProviderPassedOver { failure, .. } = event {
            self.failing_providers.get_or_insert_default().passed_over(at, failure);
            return Ok(());
        }
        if let Event::ModelResponded { request, attempt: OF_BATCH, call, .. } = event {
            self.batch_answered(seq, at, *request, *call);
            return Ok(());
        }
        if let Event::SummaryProduced { provenance: Some(made), .. } = event {
            self.provider_answered(&made.model.provider);
        }
        if let Some(request) = event.request() {
            return self.change(seq, at, event, request);
        }
        match event {
            Event::SessionStarted { run_id, command, .. } => {
                let run_id = run_id.clone();
                let command = command.clone();
                self.session = Some(SessionInfo { run_id, command, started: seq, started_at: at });
                self.release_claims(at);
                self.bound_retries(at);
            }
            Event::SessionFinished { started, end, .. } => {
                self.session.take_if(|session| session.started == *started);
                if *end == SessionEnd::Crashed {
                    self.lose_attempts(at);
                }
            }
            Event::LineQuarantined(_) => self.totals.quarantined += 1,
            Event::Digest(DigestFact::Started(_)) => self.digests_open = true,
            Event::Digest(DigestFact::Finished(_)) => self.digests_open = false,
            Event::Batch(fact) => self.batch_step(at, fact),
            Event::DialectLearned(learned) => {
                self.dialects.get_or_insert_default().learned(at, learned);
            }
            Event::IntakePaused { cause } => {
                self.paused.insert(*cause);
            }
            Event::IntakeResumed { cause } => {
                self.paused.remove(cause);
            }
            Event::FlowUsed { flow_id, variant, pack_hash, replaces } => {
                let known = self.flows.pack_of(flow_id, variant.as_deref());
                if known != *replaces {
                    return Err(impossible(seq, event, "it stood for another pack before"));
                }
                self.flows.used(flow_id, variant.as_deref(), *pack_hash);
            }
            _ => {}
        }
        Ok(())
    }

    fn provider_answered(&mut self, provider: &str) {
        if let Some(failing) = &mut self.failing_providers {
            failing.answered(provider);
        }
    }

    /// A request comes in, with whatever fate.
    fn take_in(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &Event,
        taken: &TakenRequest,
    ) -> Result<(), Impossible> {
        let status = Status::after(None, event)
            .ok_or_else(|| impossible(seq, event, "a rejection cannot have its status"))?;
        let (reason, output_of) = match event {
            Event::RequestRejected { reason, .. } => (*reason, Seq(0)),
            Event::DuplicateReceived { reason, of, .. } => (Some(*reason), *of),
            Event::RequestParked { .. } => (Some(ReasonCode::KeyInFlight), Seq(0)),
            _ => (None, Seq(0)),
        };
        let row = Row {
            status,
            reason,
            cause: None,
            attempts: 0,
            taken_at: at,
            last: seq,
            previous: taken.previous.unwrap_or(Seq(0)),
            output_of,
            key_rest: rest(&taken.key.0),
            id_rest: rest(&taken.id.0),
            work: taken.work,
        };
        self.totals.taken += 1;
        self.count(status, reason);
        if let Some(superseded) = taken.supersedes {
            self.discount(superseded.status, superseded.reason);
        }
        self.changed.ids.insert(taken.id.head(), seq);
        if !status.is_open() {
            self.changed.rows.insert(seq, row);
            return Ok(());
        }
        self.open_up(seq, at, taken, row);
        if let Event::RequestParked { behind, .. } = event
            && taken.urgency == Urgency::Now
        {
            self.has_new_waiter(*behind, at);
        }
        Ok(())
    }

    fn open_up(&mut self, seq: Seq, at: Timestamp, taken: &TakenRequest, row: Row) {
        let producer = self.producers.index_of(&taken.producer);
        self.producers.opened(producer);
        let eligible_at = eligible_at(taken, at);
        let key = taken.key.head();
        let status = row.status;
        let particulars = Particulars {
            deadline: taken.deadline,
            not_before: taken.not_before.filter(|_| taken.urgency == Urgency::Scheduled),
            supersedes: taken.supersedes.map(|superseded| superseded.ack),
            ..Particulars::default()
        };
        let open = Open {
            row,
            key,
            priority: taken.priority,
            producer,
            eligible_at,
            since: eligible_at.max(at),
            warnings: taken.warnings,
            particulars: particulars.boxed(),
            place: Place::Nowhere,
        };
        self.open.insert(seq, Box::new(open));
        self.changed.open.insert(seq);
        if status == Status::Parked {
            self.parked.entry(key).or_default().insert(seq);
        } else {
            self.changed.keys.insert(key, seq);
            self.reschedule(seq, at);
        }
    }

    /// Something happens to an open request.
    fn change(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &Event,
        request: Seq,
    ) -> Result<(), Impossible> {
        let Some(open) = self.open.get(&request) else {
            return Err(impossible(seq, event, format!("request {request} is not open")));
        };
        let (from, key, item) = (open.row.status, open.key, open.particulars().work_item);
        let is_in_schedule = open.place != Place::Nowhere;
        let Some(to) = Status::after(Some(from), event) else {
            return Err(impossible(seq, event, format!("request {request} is {}", from.as_str())));
        };
        check_attempt(seq, event, open)?;
        if is_in_schedule {
            self.unschedule(request);
        }
        if (from, to) != (Status::Running, Status::Running) {
            self.leave(request, from, key, item);
        }
        self.touch(request, seq, to, event);
        self.give_up(request, item);
        self.enter((seq, at), request, (from, to), event);
        if to != from {
            self.discount(from, None);
            self.count(to, event_reason(event));
        }
        if !to.is_open() {
            self.close(request, from, event);
        }
        Ok(())
    }

    fn leave(&mut self, request: Seq, from: Status, key: Digest16, item: Option<Digest16>) {
        match (from, item) {
            (Status::Running, _) => {
                self.running.remove(&request);
                self.running_scheduled.remove(&request);
            }
            (Status::Parked, _) => {
                let nobody_left = remove_waiter(&mut self.parked, &key, request);
                if nobody_left {
                    self.unsettled_keys.remove(&key);
                }
            }
            (Status::Held, Some(item)) => {
                let nobody_left = remove_waiter(&mut self.held, &item, request);
                if nobody_left {
                    self.unsettled_items.remove(&item);
                }
            }
            _ => {}
        }
    }

    /// What the event itself says about the request.
    fn touch(&mut self, request: Seq, seq: Seq, to: Status, event: &Event) {
        self.changed.open.insert(request);
        let Some(open) = self.open.get_mut(&request) else { return };
        open.row.status = to;
        open.row.last = seq;
        match event {
            Event::ParkedAccepted { warnings, .. } => open.warnings = *warnings,
            Event::AttemptStarted { attempt, .. } => open.row.attempts = *attempt,
            Event::InputResolved { summary, warnings, .. } => {
                open.warnings = open.warnings.union(*warnings);
                let item = item_digest(&summary.summary_id).head();
                open.particulars_mut().work_item = Some(item);
            }
            Event::AttemptFailed { counted, retry_at, .. } => {
                if !counted {
                    open.row.attempts = open.row.attempts.saturating_sub(1);
                }
                if let Some(retry_at) = retry_at {
                    let not_before = open.particulars().not_before;
                    open.eligible_at = not_before.map_or(*retry_at, |at| at.max(*retry_at));
                }
            }
            // The attempt only found that another request makes the item, so it does not count.
            Event::WorkHeld { summary, .. } => {
                open.row.attempts = open.row.attempts.saturating_sub(1);
                let item = item_digest(&summary.summary_id).head();
                open.particulars_mut().work_item = Some(item);
            }
            Event::ModelResponded { .. } => open.particulars_mut().replies.push(seq),
            Event::DelayEnded { .. } => {
                let not_before = open.particulars().not_before;
                open.eligible_at = not_before.unwrap_or(Timestamp(i64::MIN));
            }
            Event::RequestDuplicated { of, .. } => open.row.output_of = *of,
            _ => {}
        }
        // The cause of one attempt does not apply to the next one.
        if !matches!(
            event,
            Event::InputResolved { .. } | Event::ModelResponded { .. } | Event::DelayEnded { .. }
        ) {
            open.row.reason = event_reason(event);
            open.row.cause = match event {
                Event::AttemptFailed { cause, .. } => *cause,
                _ => None,
            };
        }
    }

    /// Where the request goes.
    fn enter(
        &mut self,
        (seq, at): (Seq, Timestamp),
        request: Seq,
        (from, to): (Status, Status),
        event: &Event,
    ) {
        match to {
            Status::Waiting | Status::Backoff => {
                if matches!(event, Event::ParkedAccepted { .. })
                    && let Some(open) = self.open.get(&request)
                {
                    self.changed.keys.insert(open.key, request);
                }
                self.reschedule(request, at);
            }
            Status::Parked => {
                if let Some(open) = self.open.get(&request) {
                    self.parked.entry(open.key).or_default().insert(request);
                }
            }
            Status::Running => {
                if from != Status::Running {
                    self.is_running(request);
                    self.reads_again(request);
                }
                self.enter_running(seq, request, event);
            }
            Status::Held => {
                let item = self.open.get(&request).and_then(|open| open.particulars().work_item);
                if let Some(item) = item {
                    self.held.entry(item).or_default().insert(request);
                }
                if let Event::WorkHeld { behind, .. } = event
                    && self.is_urgent(request)
                {
                    self.has_new_waiter(*behind, at);
                }
            }
            _ => {}
        }
    }

    /// An attempt begins and reads its sources as they are now, also for the requests that wait for it.
    fn reads_again(&mut self, request: Seq) {
        let key = self.open.get(&request).map(|open| open.key);
        let waiters = key.and_then(|key| self.parked.get(&key));
        for waiter in waiters.into_iter().flatten() {
            let Some(open) = self.open.get_mut(waiter) else { continue };
            let warnings = open.warnings.without_sources();
            if warnings != open.warnings {
                open.warnings = warnings;
                self.changed.open.insert(*waiter);
            }
        }
    }

    /// A scheduled request that a `now` request waits for is as urgent as that one.
    fn has_new_waiter(&mut self, behind: Seq, at: Timestamp) {
        let maker = self.makes_the_outcome(behind);
        let ready = self.open.get(&maker).is_some_and(|open| open.place != Place::Nowhere);
        if ready {
            self.reschedule(maker, at);
        }
    }

    fn enter_running(&mut self, seq: Seq, request: Seq, event: &Event) {
        match event {
            Event::AttemptStarted { .. } => {
                let Some(producer) = self.open.get(&request).map(|open| open.producer) else {
                    return;
                };
                let before = self.producers.started(producer, seq);
                self.schedule.producer_started(producer, before, seq);
            }
            Event::InputResolved { .. } => {
                let item = self.open.get(&request).and_then(|open| open.particulars().work_item);
                self.making.extend(item.map(|item| (item, request)));
            }
            _ => {}
        }
    }

    /// When a request changes to another item, to make it or to wait for it, it no longer makes the
    /// item `before`. Requests that wait for that item must not wait for this request any more.
    fn give_up(&mut self, request: Seq, before: Option<Digest16>) {
        let Some(before) = before else { return };
        let now = self.open.get(&request).and_then(|open| open.particulars().work_item);
        if now != Some(before) {
            self.unmake(request, before);
        }
    }

    /// An ended request leaves memory, gives back its key or hands it to its output, and wakes
    /// the requests that waited for it.
    fn close(&mut self, request: Seq, from: Status, event: &Event) {
        let Some(open) = self.open.remove(&request) else { return };
        self.suspects.remove(&request);
        self.no_batches_for(request);
        self.producers.closed(open.producer);
        self.changed.rows.insert(request, open.row);
        // A parked request never held its key; the request that it waited for still holds it.
        if from != Status::Parked {
            let holder = match open.row.status {
                Status::Completed => request,
                Status::Duplicate => open.row.output_of,
                _ => Seq(0),
            };
            self.changed.keys.insert(open.key, holder);
            if self.parked.contains_key(&open.key) {
                self.unsettled_keys.insert(open.key);
            }
        }
        if let Some(item) = open.particulars().work_item {
            self.unmake(request, item);
        }
        if let Event::SummaryProduced { summary, .. } = event {
            let item = item_digest(&summary.summary_id).head();
            self.changed.summaries.insert(item, request);
            if self.held.contains_key(&item) {
                self.unsettled_items.insert(item);
            }
        }
    }

    fn unmake(&mut self, request: Seq, item: Digest16) {
        if self.making.get(&item) == Some(&request) {
            self.making.remove(&item);
            if self.held.contains_key(&item) {
                self.unsettled_items.insert(item);
            }
        }
    }

    /// The process ended without a `SessionFinished`. Each attempt under way counts, because it may be the
    /// cause.
    fn lose_attempts(&mut self, at: Timestamp) {
        for request in &self.running {
            if let Some(open) = self.open.get_mut(request) {
                open.row.attempts += 1;
                open.particulars_mut().lost += 1;
                if open.is_suspect() {
                    self.suspects.insert(*request);
                }
            }
        }
        self.release_claims(at);
    }

    /// A new session releases every claim of an older epoch immediately. It needs no timer to know that
    /// the old owner is gone: only one process can hold the store, and it is this one.
    fn release_claims(&mut self, at: Timestamp) {
        self.running_scheduled.clear();
        for request in std::mem::take(&mut self.running) {
            if let Some(open) = self.open.get_mut(&request) {
                open.row.status = Status::Waiting;
                open.row.attempts = open.row.attempts.saturating_sub(1);
                self.changed.open.insert(request);
            }
            self.discount(Status::Running, None);
            self.count(Status::Waiting, None);
            self.reschedule(request, at);
        }
    }

    /// A clock that was ahead for a while may have put the next attempt of a request years away. A new
    /// session bounds that wait. An order of the request itself (`not_before`) stands.
    fn bound_retries(&mut self, at: Timestamp) {
        let latest = at.plus_ms(RETRY_WAIT_MS_MAX);
        let batches = self.batches.as_ref();
        let is_far = |request: Seq, open: &Open| {
            open.row.status == Status::Backoff
                && open.eligible_at > latest
                && open.particulars().not_before.is_none_or(|asked| asked < open.eligible_at)
                && !batches.is_some_and(|batches| batches.waits(request))
        };
        let open = self.open.iter().filter(|(request, open)| is_far(**request, open));
        let far: Vec<Seq> = open.map(|(request, _)| *request).collect();
        for request in far {
            let Some(open) = self.open.get_mut(&request) else { continue };
            open.eligible_at =
                open.particulars().not_before.map_or(latest, |asked| latest.max(asked));
            self.changed.open.insert(request);
            self.reschedule(request, at);
        }
    }

    fn count(&mut self, status: Status, reason: Option<ReasonCode>) {
        *self.totals.by_status.entry(status).or_default() += 1;
        if let Some(reason) = reason
            && !status.is_open()
        {
            *self.totals.by_reason.entry(reason).or_default() += 1;
        }
    }

    fn discount(&mut self, status: Status, reason: Option<ReasonCode>) {
        let count = self.totals.by_status.entry(status).or_default();
        *count = count.saturating_sub(1);
        if let Some(reason) = reason {
            let count = self.totals.by_reason.entry(reason).or_default();
            *count = count.saturating_sub(1);
        }
    }
}

/// What the summary index is keyed by.
pub(crate) fn item_digest(summary_id: &str) -> Digest {
    sha256(summary_id)
}

/// When a request may start. A strict delay is kept whatever happens; a soft one is dropped when
/// keeping it would miss the deadline.
pub(super) fn eligible_at(taken: &TakenRequest, at: Timestamp) -> Timestamp {
    match (taken.not_before, taken.urgency) {
        (None, _) => at,
        (Some(not_before), Urgency::Scheduled) => not_before,
        (Some(not_before), Urgency::Now) => match taken.deadline {
            Some(deadline) if deadline <= not_before => at,
            _ => not_before,
        },
    }
}

/// A report must be about the attempt that is under way.
fn check_attempt(seq: Seq, event: &Event, open: &Open) -> Result<(), Impossible> {
    let (attempt, expected) = match event {
        Event::AttemptStarted { attempt, .. } => (*attempt, open.row.attempts + 1),
        Event::InputResolved { attempt, .. }
        | Event::WorkHeld { attempt, .. }
        | Event::ModelResponded { attempt, .. }
        | Event::SummaryProduced { attempt, .. }
        | Event::AttemptFailed { attempt, .. }
        | Event::RequestSkipped { attempt, .. } => (*attempt, open.row.attempts),
        _ => return Ok(()),
    };
    if attempt == expected {
        return Ok(());
    }
    Err(impossible(seq, event, format!("attempt {attempt} where {expected} is due")))
}

fn event_reason(event: &Event) -> Option<ReasonCode> {
    match event {
        Event::RequestDuplicated { reason, .. } | Event::RequestSkipped { reason, .. } => {
            Some(*reason)
        }
        Event::AttemptFailed { reason, .. } => *reason,
        Event::KeyYielded { .. } => Some(ReasonCode::KeyInFlight),
        Event::WorkHeld { .. } => Some(ReasonCode::IdenticalWork),
        Event::RequestCancelled { .. } => Some(ReasonCode::Cancelled),
        _ => None,
    }
}

/// Removes a waiter; true when no waiter is left.
fn remove_waiter(
    waiters: &mut BTreeMap<Digest16, BTreeSet<Seq>>,
    behind: &Digest16,
    request: Seq,
) -> bool {
    let Some(set) = waiters.get_mut(behind) else { return true };
    set.remove(&request);
    let none_left = set.is_empty();
    if none_left {
        waiters.remove(behind);
    }
    none_left
}

fn rest(digest: &[u8; 32]) -> Digest16 {
    let mut half = [0; 16];
    half.copy_from_slice(&digest[16..]);
    half
}

fn impossible(seq: Seq, event: &Event, why: impl Into<String>) -> Impossible {
    Impossible { seq, event: event.name(), why: why.into() }
}
