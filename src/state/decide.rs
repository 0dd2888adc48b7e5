//! What follows from an input: a pure look at the state that names events and changes nothing.
//!
//! The caller applies the events in order before the next decision, commits the batch, and only
//! then acts on them.
//!
//! See docs/adr/0032-acks-of-parked-requests.md.
//! See docs/adr/0033-when-a-request-id-is-bound.md.

use super::apply::{eligible_at, item_digest};
use super::event::{
    AckHead, Charge, Event, Note, Output, PassedOver, SummaryPointer, Superseded, TakenRequest,
    ToldWait,
};
use super::{Digest16, Open, Past, Row, State, Status};
use crate::contract::hash::sha256;
use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{
    AckStatus, FailureCause, ReasonCode, Urgency, Warning, Warnings,
};
use crate::facts::attempt::{InputFacts, SourcePlaces};
use crate::facts::dialect::LearnedDialect;
use crate::facts::failure::ErrorFacts;
use crate::facts::model::{AnswerFacts, Provenance};
use crate::facts::session::PauseCause;

/// What the registry says about the flow a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowStanding {
    /// It runs.
    Active,
    /// It runs, with a warning.
    Deprecated,
    /// It is registered but must not run.
    Disabled,
    /// Nobody registered it.
    Unknown,
    /// The flow is registered, the variant is not.
    UnknownVariant,
}

/// A valid request line with everything about it resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The request; `previous`, `supersedes` and the warnings of its fate are filled in here.
    pub request: Box<TakenRequest>,
    /// What the registry says.
    pub flow: FlowStanding,
    /// Why its input can be refused without looking further.
    pub refused: Option<(ReasonCode, String)>,
    /// What became upstream of its source since the output of its key was made.
    pub source: Warnings,
}

/// How many attempts a request gets, and the delays between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts before a request fails.
    pub attempts_max: u32,
    /// Delay after the first failed attempt.
    pub(crate) base_delay_ms: i64,
    /// Longest delay.
    pub(crate) delay_ms_max: i64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { attempts_max: 5, base_delay_ms: 2_000, delay_ms_max: 600_000 }
    }
}

/// The report of a worker about an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub request: Seq,
    pub attempt: u32,
    /// The epoch in which the attempt was started.
    pub epoch: Seq,
    pub outcome: Outcome,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The input is known; the work can be identified before it is paid for.
    Resolved {
        /// The item it would make.
        summary: SummaryPointer,
        /// Warnings found on the way.
        warnings: Warnings,
        input: Box<InputFacts>,
        /// Where each source lies.
        sources: Box<SourcePlaces>,
    },
    Responded {
        /// Hash of everything that was asked.
        call: crate::contract::hash::Digest,
        body: Vec<u8>,
        /// The model that answered, and the cost.
        answer: Box<AnswerFacts>,
    },
    /// A flow was used with this pack.
    FlowUsed {
        flow_id: String,
        variant: Option<String>,
        pack_hash: crate::contract::hash::Digest,
    },
    /// A call was paid for.
    Charged(Charge),
    /// A provider failed, and one of its fallbacks answered.
    PassedOver(Box<PassedOver>),
    /// The dialect of a model changed.
    Learned(Box<LearnedDialect>),
    /// The item is made.
    Produced {
        summary: SummaryPointer,
        item: Vec<u8>,
        /// Warnings found on the way.
        warnings: Warnings,
        input: Box<InputFacts>,
        /// How the item was made; `None` for an item of a lost log.
        provenance: Option<Box<Provenance>>,
    },
    /// The input has no text to summarize, and that is no error.
    Skipped {
        /// One of the `skipped_` reasons.
        reason: ReasonCode,
        /// Warnings found on the way.
        warnings: Warnings,
        input: Box<InputFacts>,
    },
    Failed(Failed),
}

/// What the ack says of a request whose line was taken back before it ended.
pub(crate) const PARAMETERS_GONE: &str = "its parameters were forgotten by request";
/// The same of one whose line has no words of its own and names what was taken back.
pub(crate) const SOURCE_GONE: &str = "its source was forgotten by request";

/// How an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Whether and when trying again may help.
    pub again: RetryHint,
    pub reason: Option<ReasonCode>,
    /// The cause of the failure, in addition to the reason.
    pub cause: Option<FailureCause>,
    /// For people.
    pub message: String,
    pub input: Box<InputFacts>,
    /// What went wrong; `None` when the attempt ended without a report.
    pub error: Option<Box<ErrorFacts>>,
}

/// Whether trying again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryHint {
    /// Yes, after the usual delay.
    Later,
    /// Yes, not before this many milliseconds; the request did not cause the failure, so no attempt
    /// is counted.
    After(i64),
    /// No.
    Never,
    /// No: the input itself is invalid.
    InvalidInput,
}

/// An operator's order that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused<E> {
    /// There is no such request.
    #[error("no request {0}")]
    NoSuchRequest(String),
    /// Its status does not allow the order.
    #[error("request {request_id} is {status}: {why}")]
    WrongState {
        request_id: String,
        status: &'static str,
        /// What would be needed.
        why: &'static str,
    },
    /// The past could not be read.
    #[error("read the log: {0}")]
    Past(E),
}

/// Delay before the attempt after `attempt`. The nominal delay doubles each time. The jitter depends
/// only on the request and the attempt, and gives between half and all of the nominal delay.
pub(crate) fn backoff_ms(policy: &RetryPolicy, request_id: &str, attempt: u32) -> i64 {
    let doublings = attempt.saturating_sub(1).min(40);
    let nominal = policy.base_delay_ms.saturating_mul(1 << doublings).min(policy.delay_ms_max);
    let hash = sha256(format!("{request_id}#{attempt}")).0;
    let fraction = i64::from(u16::from_le_bytes([hash[0], hash[1]]));
    nominal / 2 + (nominal - nominal / 2) * fraction / i64::from(u16::MAX)
}

impl State {
    /// A valid line arrived.
    pub fn arrival<P: Past>(
        &self,
        past: &P,
        arrival: Arrival,
        now: Timestamp,
        out: &mut Vec<Event>,
    ) -> Result<(), P::Error> {
        let Arrival { mut request, flow, refused, source } = arrival;
        let newest = self.newest(past, &request)?;
        request.previous = newest.map(|(seq, _)| seq);
        if let Some((reason, message)) = refused {
            request.supersedes = superseded(newest);
            out.push(rejected(request, AckStatus::RejectedInvalidInput, Some(reason), message));
            return Ok(());
        }
        if self.conflicts(past, &request, newest)? {
            // The new refusal replaces an earlier refusal, but not an earlier acceptance of the id.
            request.supersedes = superseded(newest.filter(|(_, row)| row.status.is_rejection()));
            let message = "this request_id was used with another idempotency key".to_owned();
            let reason = Some(ReasonCode::RequestIdConflict);
            out.push(rejected(request, AckStatus::RejectedInvalidInput, reason, message));
            return Ok(());
        }
        let runnable = matches!(flow, FlowStanding::Active | FlowStanding::Deprecated);
        if flow == FlowStanding::Deprecated {
            request.warnings = request.warnings.with(Warning::FlowDeprecated);
        }
        let holder = self.holder(past, &request)?;
        // A request that cannot run cannot take over a key, so it does not wait for an open holder.
        // An existing output still answers it.
        if let Some(holder) = holder.filter(|(_, row)| runnable || !row.status.is_open()) {
            return self.meets_its_key(past, (request, source), newest, holder, now, out);
        }
        request.supersedes = superseded(newest);
        let (reason, message) = match flow {
            FlowStanding::Active | FlowStanding::Deprecated => return accepted(request, out),
            FlowStanding::Disabled => {
                (Some(ReasonCode::FlowDisabled), format!("flow {} is disabled", request.flow_id))
            }
            FlowStanding::Unknown => (None, format!("no flow {} is registered", request.flow_id)),
            FlowStanding::UnknownVariant => {
                let variant = request.variant.as_deref().unwrap_or("(default)");
                let message = format!("flow {} has no variant {variant}", request.flow_id);
                (Some(ReasonCode::UnknownVariant), message)
            }
        };
        out.push(rejected(request, AckStatus::RejectedUnknownFlow, reason, message));
        Ok(())
    }

    /// The key is taken: by an output, or by a request in flight.
    fn meets_its_key<P: Past>(
        &self,
        past: &P,
        (mut request, source): (Box<TakenRequest>, Warnings),
        newest: Option<(Seq, Row)>,
        (holder, row): (Seq, Row),
        now: Timestamp,
        out: &mut Vec<Event>,
    ) -> Result<(), P::Error> {
        if row.work != request.work {
            let warning = Warning::IdempotencyKeyReusedWithDifferentWork;
            request.warnings = request.warnings.with(warning);
        }
        // Set when the request starts over after an earlier ending of its id without output.
        request.supersedes = superseded(newest);
        if row.status.is_open() {
            let head = past.head(holder)?;
            match self.open.get(&holder).filter(|open| goes_before(&request, open, now)) {
                Some(open) => {
                    // The record after this one takes the newcomer in, and with it the key.
                    let behind = Seq(self.applied.0 + 2);
                    let behind_request_id = request.head.request_id.clone();
                    let (request, warnings) = (holder, open.warnings);
                    out.push(Event::KeyYielded {
                        request,
                        head,
                        behind,
                        behind_request_id,
                        warnings,
                    });
                }
                None => {
                    // The holder has read its sources. When it reads them again, this is taken back.
                    if matches!(row.status, Status::Running | Status::Held) {
                        request.warnings = request.warnings.union(source);
                    }
                    let wanted_at = wanted_at(&request, now);
                    let (behind, behind_request_id) = (holder, head.request_id);
                    out.push(Event::RequestParked { request, behind, behind_request_id });
                    out.extend(wanted_at.and_then(|at| self.brought_forward(holder, at)));
                    return Ok(());
                }
            }
            return accepted(request, out);
        }
        let output = past.output(row.last)?;
        request.warnings = request.warnings.union(source);
        let is_private = request.warnings.contains(Warning::SourcePrivate);
        request.warnings = request.warnings.union(output.shared_warnings());
        let Output { of, of_request_id, summary, .. } = output;
        let reason = ReasonCode::OutputExists;
        // A key with an output is held by the request that made it, so this is the event of the summary.
        let made = row.last;
        let became_private = is_private.then(|| Event::SourceBecamePrivate {
            request: Seq(self.applied.0 + 1),
            made,
            summary: summary.clone(),
        });
        out.push(Event::DuplicateReceived { request, of, of_request_id, reason, summary });
        out.extend(became_private);
        Ok(())
    }

    /// A `now` request waits for the outcome of another one. If that one is scheduled and waits for
    /// its next attempt, the wait ends. Only the first `now` request ends it: later failures have
    /// their usual delays.
    fn brought_forward(&self, behind: Seq, wanted_at: Timestamp) -> Option<Event> {
        let request = self.makes_the_outcome(behind);
        let open = self.open.get(&request)?;
        let waits = matches!(open.row.status, Status::Waiting | Status::Backoff);
        let is_later = open.eligible_at > wanted_at;
        (waits && is_later && self.gives_way(request)).then_some(Event::DelayEnded { request })
    }

    /// The newest row of the same request id.
    fn newest<P: Past>(
        &self,
        past: &P,
        request: &TakenRequest,
    ) -> Result<Option<(Seq, Row)>, P::Error> {
        let Some(seq) = self.find(past, KeyIndex::RequestId, &request.id.head())? else {
            return Ok(None);
        };
        let row = self.row(past, seq)?;
        Ok(row.filter(|row| row.id_rest == request.id.0[16..]).map(|row| (seq, row)))
    }

    /// Whether an accepted request of the same id had another key. Rejections bind no id.
    fn conflicts<P: Past>(
        &self,
        past: &P,
        request: &TakenRequest,
        mut newest: Option<(Seq, Row)>,
    ) -> Result<bool, P::Error> {
        while let Some((_, row)) = newest {
            if !row.status.is_rejection() {
                return Ok(row.key_rest != request.key.0[16..]);
            }
            newest = match row.previous {
                Seq(0) => None,
                previous => self.row(past, previous)?.map(|row| (previous, row)),
            };
        }
        Ok(false)
    }

    /// The request that holds the key of this request, if there is one.
    fn holder<P: Past>(
        &self,
        past: &P,
        request: &TakenRequest,
    ) -> Result<Option<(Seq, Row)>, P::Error> {
        let key = request.key.head();
        let holder = self.find(past, KeyIndex::Idempotency, &key)?.filter(|seq| *seq != Seq(0));
        // The key is free but reserved: the request that waited longest gets it next.
        let next = || self.parked.get(&key).and_then(|waiters| waiters.first()).copied();
        let Some(seq) = holder.or_else(next) else { return Ok(None) };
        let row = self.row(past, seq)?;
        Ok(row.map(|row| (seq, row)))
    }

    /// Looks in memory, then in the tables.
    pub fn find<P: Past>(
        &self,
        past: &P,
        index: KeyIndex,
        digest: &Digest16,
    ) -> Result<Option<Seq>, P::Error> {
        for recent in [&self.changed, &self.leaving] {
            if let Some(seq) = recent.index(index).get(digest) {
                return Ok(Some(*seq));
            }
        }
        past.find(index, digest)
    }

    /// The row of any request that ever came in.
    pub fn row<P: Past>(&self, past: &P, request: Seq) -> Result<Option<Row>, P::Error> {
        if let Some(open) = self.open.get(&request) {
            return Ok(Some(open.row));
        }
        for rows in self.recent_rows() {
            if let Some(row) = rows.get(&request) {
                return Ok(Some(*row));
            }
        }
        past.row(request)
    }

    /// The newest row of a request id given as text.
    pub(crate) fn newest_of_id<P: Past>(
        &self,
        past: &P,
        request_id: &str,
    ) -> Result<Option<(Seq, Row)>, P::Error> {
        let digest = sha256(request_id);
        let Some(seq) = self.find(past, KeyIndex::RequestId, &digest.head())? else {
            return Ok(None);
        };
        let row = self.row(past, seq)?;
        Ok(row.filter(|row| row.id_rest == digest.0[16..]).map(|row| (seq, row)))
    }

    /// Decides about the report of a worker. When the attempt is no longer under way, only two kinds
    /// of facts still count: a flow was used, or money was spent.
    pub fn report<P: Past>(
        &self,
        past: &P,
        report: Report,
        policy: &RetryPolicy,
        now: Timestamp,
        out: &mut Vec<Note>,
    ) -> Result<(), P::Error> {
        let Report { request, attempt, epoch, outcome } = report;
        let current = |open: &&Open| {
            open.row.status == Status::Running
                && open.row.attempts == attempt
                && self.epoch() == epoch
        };
        let open = self.open.get(&request).map(|open| &**open).filter(current);
        let about = open.map(|open| About { request, attempt, open });
        let note = match (outcome, about) {
            (Outcome::FlowUsed { flow_id, variant, pack_hash }, _) => {
                if self.flows().pack_of(&flow_id, variant.as_deref()).is_some() {
                    return Ok(());
                }
                Note::new(Event::FlowUsed { flow_id, variant, pack_hash, replaces: None })
            }
            (Outcome::Charged(charge), _) => {
                Note::new(Event::ModelCharged { request, attempt, charge })
            }
            (Outcome::PassedOver(failure), _) => {
                Note::new(Event::ProviderPassedOver { request, attempt, failure })
            }
            (Outcome::Learned(learned), _) => {
                if self.dialects().is_some_and(|known| known.says(&learned, now)) {
                    return Ok(());
                }
                Note::new(Event::DialectLearned(learned))
            }
            (_, None) => return Ok(()),
            (Outcome::Resolved { summary, warnings, input, sources }, Some(about)) => {
                let event = match self.met_its_item(past, &about, &summary)? {
                    Some(event @ Event::WorkHeld { behind, .. }) => {
                        out.push(Note::new(event));
                        let forward = self.is_urgent(request).then_some(now);
                        let forward = forward.and_then(|now| self.brought_forward(behind, now));
                        out.extend(forward.map(Note::new));
                        return Ok(());
                    }
                    Some(event) => event,
                    None => {
                        Event::InputResolved { request, attempt, summary, warnings, input, sources }
                    }
                };
                Note::new(event)
            }
            (Outcome::Responded { call, body, answer }, Some(_)) => {
                let body_sha256 = sha256(&body);
                let event = Event::ModelResponded { request, attempt, call, body_sha256, answer };
                Note::with_body(event, body)
            }
            (Outcome::Produced { summary, item, warnings, input, provenance }, Some(about)) => {
                if let Some(event) = self.same_item(past, &about, &summary)? {
                    out.push(Note::new(event));
                    return Ok(());
                }
                let event = Event::SummaryProduced {
                    request,
                    attempt,
                    head: past.head(request)?,
                    summary,
                    body_sha256: sha256(&item),
                    warnings: final_warnings(about.open, warnings, now),
                    supersedes: about.open.particulars().supersedes,
                    input,
                    provenance,
                };
                Note::with_body(event, item)
            }
            (Outcome::Skipped { reason, warnings, input }, Some(about)) => {
                Note::new(Event::RequestSkipped {
                    request,
                    attempt,
                    head: past.head(request)?,
                    reason,
                    warnings: final_warnings(about.open, warnings, now),
                    supersedes: about.open.particulars().supersedes,
                    input,
                })
            }
            (Outcome::Failed(failed), Some(about)) => {
                let head = past.head(request)?;
                Note::new(attempt_failed(&about, failed, head, policy, now))
            }
        };
        out.push(note);
        Ok(())
    }

    /// The work is identified. The item may exist, or another request may be making it: then this
    /// attempt ends here.
    fn met_its_item<P: Past>(
        &self,
        past: &P,
        about: &About<'_>,
        summary: &SummaryPointer,
    ) -> Result<Option<Event>, P::Error> {
        if let Some(event) = self.same_item(past, about, summary)? {
            return Ok(Some(event));
        }
        let item = item_digest(&summary.summary_id).head();
        let (request, attempt) = (about.request, about.attempt);
        let behind = self.making.get(&item).copied().filter(|behind| *behind != request);
        let Some(behind) = behind else { return Ok(None) };
        Ok(Some(Event::WorkHeld {
            request,
            attempt,
            behind,
            summary: summary.clone(),
            told: Some(ToldWait {
                head: past.head(request)?,
                behind_request_id: past.head(behind)?.request_id,
                warnings: about.open.warnings,
            }),
        }))
    }

    /// The ending of a request whose item exists already.
    fn same_item<P: Past>(
        &self,
        past: &P,
        about: &About<'_>,
        summary: &SummaryPointer,
    ) -> Result<Option<Event>, P::Error> {
        let item = item_digest(&summary.summary_id).head();
        let Some(of) = self.find(past, KeyIndex::SummaryId, &item)? else { return Ok(None) };
        let Some(row) = self.row(past, of)? else { return Ok(None) };
        let existing = past.output(row.last)?;
        if existing.summary.summary_id != summary.summary_id {
            return Ok(None);
        }
        let warnings = about.open.warnings.union(existing.shared_warnings());
        Ok(Some(Event::RequestDuplicated {
            request: about.request,
            head: past.head(about.request)?,
            of: existing.of,
            of_request_id: existing.of_request_id,
            reason: ReasonCode::IdenticalWork,
            summary: existing.summary,
            warnings,
            supersedes: about.open.particulars().supersedes,
        }))
    }

    /// Settles at most `limit` waiters whose holder ended; returns whether any are left.
    pub fn settle<P: Past>(
        &mut self,
        past: &P,
        limit: usize,
        out: &mut Vec<Event>,
    ) -> Result<(), P::Error> {
        while let Some(key) = self.unsettled_keys.first().copied() {
            let waiters: Vec<Seq> = match self.parked.get(&key) {
                Some(waiters) => waiters.iter().copied().take(limit).collect(),
                None => Vec::new(),
            };
            let holder = self.find(past, KeyIndex::Idempotency, &key)?.unwrap_or(Seq(0));
            let row = if holder == Seq(0) { None } else { self.row(past, holder)? };
            let in_flight = row.is_some_and(|row| row.status.is_open());
            if waiters.is_empty() || in_flight {
                self.unsettled_keys.remove(&key);
                continue;
            }
            return match row.filter(|row| row.status.has_output()) {
                Some(row) => {
                    let found = past.output(row.last)?;
                    let private = self.told_private(past, &waiters, &found)?;
                    self.duplicated(past, &waiters, found, ReasonCode::KeyInFlight, out)?;
                    out.extend(private);
                    Ok(())
                }
                None => self.promoted(past, &key, out),
            };
        }
        while let Some(item) = self.unsettled_items.first().copied() {
            let waiters: Vec<Seq> = match self.held.get(&item) {
                Some(waiters) => waiters.iter().copied().take(limit).collect(),
                None => Vec::new(),
            };
            if waiters.is_empty() || self.making.contains_key(&item) {
                self.unsettled_items.remove(&item);
                continue;
            }
            let maker = self.find(past, KeyIndex::SummaryId, &item)?;
            let row = match maker {
                Some(maker) => self.row(past, maker)?,
                None => None,
            };
            if let Some(row) = row {
                let found = past.output(row.last)?;
                return self.duplicated(past, &waiters, found, ReasonCode::IdenticalWork, out);
            }
            out.extend(waiters.into_iter().map(|request| Event::WorkReleased { request }));
            return Ok(());
        }
        Ok(())
    }

    /// When a source became private after the holder of the key read it, and before one of the waiters asked.
    fn told_private<P: Past>(
        &self,
        past: &P,
        waiters: &[Seq],
        found: &Output,
    ) -> Result<Option<Event>, P::Error> {
        let tells = |request: &&Seq| {
            let open = self.open.get(request);
            open.is_some_and(|open| open.warnings.contains(Warning::SourcePrivate))
        };
        let Some(request) = waiters.iter().find(tells).copied() else { return Ok(None) };
        let maker = self.row(past, found.of)?;
        let summary = found.summary.clone();
        Ok(maker.map(|row| Event::SourceBecamePrivate { request, made: row.last, summary }))
    }

    fn duplicated<P: Past>(
        &self,
        past: &P,
        waiters: &[Seq],
        found: Output,
        reason: ReasonCode,
        out: &mut Vec<Event>,
    ) -> Result<(), P::Error> {
        for request in waiters {
            let open = self.open.get(request);
            let warnings = open.map_or(Warnings::default(), |open| open.warnings);
            let warnings = warnings.union(found.shared_warnings());
            let supersedes = open.and_then(|open| open.particulars().supersedes);
            out.push(Event::RequestDuplicated {
                request: *request,
                head: past.head(*request)?,
                of: found.of,
                of_request_id: found.of_request_id.clone(),
                reason,
                summary: found.summary.clone(),
                warnings,
                supersedes,
            });
        }
        Ok(())
    }

    /// The waiter that may start first takes over the key; the other waiters now wait for this one.
    fn promoted<P: Past>(
        &self,
        past: &P,
        key: &Digest16,
        out: &mut Vec<Event>,
    ) -> Result<(), P::Error> {
        let waiters = self.parked.get(key).into_iter().flatten();
        let waiters = waiters.filter_map(|request| Some((*request, self.open.get(request)?)));
        let first = waiters.min_by_key(|(request, open)| (open.eligible_at, *request));
        let Some((request, open)) = first else { return Ok(()) };
        // It does not share its key with an output after all.
        let warnings = open.warnings.without_sources();
        out.push(Event::ParkedAccepted { request, head: past.head(request)?, warnings });
        Ok(())
    }

    /// The process ended without a `SessionFinished`. An attempt under way that was the last one of its
    /// request ends the request.
    pub(crate) fn lost_for_good<P: Past>(
        &self,
        past: &P,
        policy: &RetryPolicy,
        now: Timestamp,
    ) -> Result<Vec<Event>, P::Error> {
        let running = self.running.iter().filter_map(|request| {
            let open = self.open.get(request)?;
            let attempt = open.row.attempts;
            (attempt >= policy.attempts_max).then_some(About { request: *request, attempt, open })
        });
        let mut events = Vec::new();
        for about in running {
            let failed = Failed {
                again: RetryHint::Later,
                reason: None,
                cause: Some(FailureCause::Program),
                message: "the service ended while it worked on the request".to_owned(),
                input: Box::default(),
                error: None,
            };
            let head = past.head(about.request)?;
            events.push(attempt_failed(&about, failed, head, policy, now));
        }
        Ok(events)
    }

    /// Starts the first request in the order of the schedule.
    pub(crate) fn start_next(&self, out: &mut Vec<Event>) -> Option<Seq> {
        let request = self.next_ready()?;
        let attempt = self.open.get(&request)?.row.attempts + 1;
        out.push(Event::AttemptStarted { request, attempt });
        Some(request)
    }

    /// An operator ends a request.
    pub fn cancel<P: Past>(
        &self,
        past: &P,
        request_id: &str,
        out: &mut Vec<Event>,
    ) -> Result<(), Refused<P::Error>> {
        let (request, row) = self.known(past, request_id)?;
        let Some(open) = self.open.get(&request) else {
            return Err(wrong_state(request_id, &row, "it has ended already"));
        };
        let head = past.head(request).map_err(Refused::Past)?;
        let (warnings, supersedes) = (open.warnings, open.particulars().supersedes);
        out.push(Event::RequestCancelled { request, head, warnings, supersedes });
        Ok(())
    }

    /// An operator retries a request: its delay ends, or it starts over after an ending without output.
    pub fn retry<P: Past>(
        &self,
        past: &P,
        request_id: &str,
        flow_of: impl Fn(&TakenRequest) -> FlowStanding,
        now: Timestamp,
        out: &mut Vec<Event>,
    ) -> Result<(), Refused<P::Error>> {
        let (request, row) = self.known(past, request_id)?;
        if let Some(open) = self.open.get(&request) {
            let may_end = open.row.status == Status::Backoff
                || (open.row.status == Status::Waiting && open.particulars().not_before.is_none());
            if !may_end {
                let why = "only a backoff or a soft delay can be cut short";
                return Err(wrong_state(request_id, &row, why));
            }
            out.push(Event::DelayEnded { request });
            return Ok(());
        }
        if !row.status.may_start_over() {
            return Err(wrong_state(request_id, &row, "its output exists"));
        }
        let mut taken = past.taken(request).map_err(Refused::Past)?;
        if taken.line.is_away() {
            return Err(wrong_state(request_id, &row, "its line was forgotten; ask for it anew"));
        }
        taken.warnings = Warnings::default();
        let flow = flow_of(&taken);
        let request = Box::new(taken);
        let arrival = Arrival { request, flow, refused: None, source: Warnings::default() };
        self.arrival(past, arrival, now, out).map_err(Refused::Past)
    }

    /// An operator or a limit stops or restarts intake. A repeated order makes no event.
    pub fn pause(&self, cause: PauseCause, pause: bool, out: &mut Vec<Event>) {
        match (self.paused.contains(&cause), pause) {
            (false, true) => out.push(Event::IntakePaused { cause }),
            (true, false) => out.push(Event::IntakeResumed { cause }),
            _ => {}
        }
    }

    fn known<P: Past>(&self, past: &P, request_id: &str) -> Result<(Seq, Row), Refused<P::Error>> {
        self.newest_of_id(past, request_id)
            .map_err(Refused::Past)?
            .ok_or_else(|| Refused::NoSuchRequest(request_id.to_owned()))
    }
}

struct About<'a> {
    request: Seq,
    attempt: u32,
    open: &'a Open,
}

/// Whether a newcomer may start before the holder of its key, which has not begun: `now` never waits
/// for what is scheduled, due or not.
fn goes_before(newcomer: &TakenRequest, holder: &Open, now: Timestamp) -> bool {
    let some = holder.particulars();
    let has_begun = some.work_item.is_some() || !some.replies.is_empty();
    let waits = matches!(holder.row.status, Status::Waiting | Status::Backoff);
    let starts_at = eligible_at(newcomer, now);
    let sooner = holder.eligible_at > now && starts_at < holder.eligible_at;
    let ahead = newcomer.urgency == Urgency::Now && holder.is_scheduled() && starts_at <= now;
    waits && !has_begun && (sooner || ahead)
}

/// When a newcomer may start. `None`: it is scheduled, so it ends no wait of others.
fn wanted_at(newcomer: &TakenRequest, now: Timestamp) -> Option<Timestamp> {
    (newcomer.urgency == Urgency::Now).then(|| eligible_at(newcomer, now))
}

fn accepted<E>(request: Box<TakenRequest>, out: &mut Vec<Event>) -> Result<(), E> {
    out.push(Event::RequestAccepted(request));
    Ok(())
}

fn rejected(
    request: Box<TakenRequest>,
    status: AckStatus,
    reason: Option<ReasonCode>,
    message: String,
) -> Event {
    Event::RequestRejected { request, status, reason, message }
}

fn superseded(newest: Option<(Seq, Row)>) -> Option<Superseded> {
    let (_, row) = newest?;
    let Row { status, reason, last, .. } = row;
    status.may_start_over().then_some(Superseded { status, reason, ack: last })
}

/// The output a holder points at: its own, or the one it turned out to duplicate.
fn attempt_failed(
    about: &About<'_>,
    failed: Failed,
    head: AckHead,
    policy: &RetryPolicy,
    now: Timestamp,
) -> Event {
    let attempt = about.attempt;
    let exhausted = attempt >= policy.attempts_max;
    let usual = backoff_ms(policy, &head.request_id, attempt);
    let mut message = failed.message;
    let (status, reason, retry_at, counted) = match failed.again {
        RetryHint::After(ms) => {
            let retry_at = Some(now.plus_ms(ms.max(0)));
            (AckStatus::FailedTransient, failed.reason, retry_at, false)
        }
        RetryHint::Later if exhausted => {
            message = match attempt {
                1 => format!("the only attempt failed: {message}"),
                _ => format!("{attempt} attempts failed; the last one: {message}"),
            };
            (AckStatus::FailedPermanent, Some(ReasonCode::AttemptsExhausted), None, true)
        }
        RetryHint::Later => {
            (AckStatus::FailedTransient, failed.reason, Some(now.plus_ms(usual)), true)
        }
        RetryHint::Never => (AckStatus::FailedPermanent, failed.reason, None, true),
        RetryHint::InvalidInput => (AckStatus::RejectedInvalidInput, failed.reason, None, true),
    };
    let open = about.open;
    let warnings = match retry_at {
        Some(_) => open.warnings,
        None => final_warnings(open, Warnings::default(), now),
    };
    Event::AttemptFailed {
        request: about.request,
        attempt,
        head,
        status,
        reason,
        cause: failed.cause,
        message,
        retry_at,
        counted,
        warnings,
        supersedes: open.particulars().supersedes,
        input: failed.input,
        error: failed.error,
    }
}

fn final_warnings(open: &Open, found: Warnings, now: Timestamp) -> Warnings {
    let warnings = open.warnings.union(found);
    match open.particulars().deadline {
        Some(deadline) if now > deadline => warnings.with(Warning::DeadlineMissed),
        _ => warnings,
    }
}

fn wrong_state<E>(request_id: &str, row: &Row, why: &'static str) -> Refused<E> {
    Refused::WrongState { request_id: request_id.to_owned(), status: row.status.as_str(), why }
}
