//! The batches that are under way, and the questions that a batch refused.
//!
//! See docs/adr/0114-batches-of-scheduled-questions.md.

use std::collections::BTreeMap;

use super::event::Charge;
use super::{State, Status};
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::facts::batch::{BatchEnd, BatchFact, BatchedQuestion};

/// Batches that a question is part of at most.
const BATCHES_MAX: usize = 3;
/// Ended batches that stay known one by one.
const RECENT_MAX: usize = 20;

/// A batch that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenBatch {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) prepared_at: Timestamp,
    /// The name that the server gave it; `None` until the server is known to have it.
    pub(crate) server_id: Option<String>,
    /// The questions without an answer in the log.
    pub(crate) questions: BTreeMap<(Seq, Digest), BatchedQuestion>,
    /// How many of its questions have an answer.
    pub(crate) answered: u64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Batches {
    /// By our own name.
    pub(crate) open: BTreeMap<String, OpenBatch>,
    /// Questions that are asked directly, by request.
    pub(crate) direct: BTreeMap<Seq, Vec<Digest>>,
    pub(crate) unanswered: Unanswered,
}

/// The questions that a server worked on in a batch and did not answer: each as often as that happened, by
/// request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unanswered {
    pub(crate) calls: BTreeMap<Seq, Vec<Digest>>,
}

impl Unanswered {
    /// Counts one more batch without an answer; true when there were so many that the question goes into no
    /// further one.
    pub(crate) fn add(&mut self, request: Seq, call: Digest) -> bool {
        let calls = self.calls.entry(request).or_default();
        calls.push(call);
        calls.iter().filter(|one| **one == call).count() >= BATCHES_MAX
    }

    /// The request has ended.
    pub(crate) fn forget(&mut self, request: Seq) {
        self.calls.remove(&request);
    }
}

/// A batch that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinishedBatch {
    pub(crate) batch: String,
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) server_id: Option<String>,
    pub(crate) prepared_at: Timestamp,
    pub(crate) ended_at: Timestamp,
    pub(crate) questions: u64,
    pub(crate) answered: u64,
    /// Questions that are asked directly.
    pub(crate) refused: u64,
    pub(crate) end: BatchEnd,
    /// What its answers cost, in billionths.
    pub(crate) cost_nanos: u64,
    pub(crate) message: String,
}

/// What stays known of batches that have ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FinishedBatches {
    /// What answers of batches under way have cost so far, by our own name.
    pub(crate) spent: BTreeMap<String, u64>,
    /// The newest ones, oldest first.
    pub(crate) recent: Vec<FinishedBatch>,
    pub(crate) batches: u64,
    pub(crate) answered: u64,
    pub(crate) cost_nanos: u64,
}

impl FinishedBatches {
    fn add(&mut self, finished: FinishedBatch) {
        self.batches += 1;
        self.answered += finished.answered;
        self.cost_nanos = self.cost_nanos.saturating_add(finished.cost_nanos);
        if self.recent.len() >= RECENT_MAX {
            self.recent.remove(0);
        }
        self.recent.push(finished);
    }
}

impl Batches {
    pub(super) fn waits(&self, request: Seq) -> bool {
        let first = (request, Digest::ZERO);
        let next = |batch: &OpenBatch| batch.questions.range(first..).next().map(|(key, _)| key.0);
        self.open.values().any(|batch| next(batch) == Some(request))
    }
}

impl State {
    /// The batches under way, if there ever was one.
    pub(crate) fn batches(&self) -> Option<&Batches> {
        self.batches.as_ref()
    }

    /// The batches that have ended, if there are any.
    pub(crate) fn finished_batches(&self) -> Option<&FinishedBatches> {
        self.finished_batches.as_ref()
    }

    /// Puts back what a checkpoint holds.
    pub(crate) fn restore_batches(
        &mut self,
        batches: Option<Batches>,
        finished: Option<FinishedBatches>,
    ) {
        (self.batches, self.finished_batches) = (batches, finished);
    }

    /// An answer that came with a batch was charged. It is charged before it leaves the batch.
    pub(super) fn batch_charged(&mut self, request: Seq, charge: &Charge) {
        let open = self.batches.iter().flat_map(|batches| &batches.open);
        let first = (request, Digest::ZERO);
        let of = open.filter(|(_, batch)| batch.provider == charge.provider).find(|(_, batch)| {
            batch.questions.range(first..).next().is_some_and(|(key, _)| key.0 == request)
        });
        if let Some((name, _)) = of {
            let spent = &mut self.finished_batches.get_or_insert_default().spent;
            let spent = spent.entry(name.clone()).or_default();
            *spent = spent.saturating_add(charge.cost_nanos);
        }
    }

    /// A batch takes a step. Requests that wait for nothing of it any more may start.
    pub(super) fn batch_step(&mut self, at: Timestamp, fact: &BatchFact) {
        let batches = self.batches.get_or_insert_default();
        match fact {
            BatchFact::Prepared(prepared) => {
                let questions = prepared.questions.iter();
                let batch = OpenBatch {
                    provider: prepared.provider.clone(),
                    model: prepared.model.clone(),
                    prepared_at: at,
                    server_id: None,
                    questions: questions
                        .map(|one| ((one.request, one.call), one.clone()))
                        .collect(),
                    answered: 0,
                };
                batches.open.insert(prepared.batch.clone(), batch);
            }
            BatchFact::Submitted(submitted) => {
                if let Some(batch) = batches.open.get_mut(&submitted.batch) {
                    batch.server_id = Some(submitted.server_id.clone());
                }
            }
            BatchFact::Ended(ended) => {
                let Some(batch) = batches.open.remove(&ended.batch) else { return };
                let finished = self.finished_batches.get_or_insert_default();
                let cost_nanos = finished.spent.remove(&ended.batch).unwrap_or(0);
                finished.add(FinishedBatch {
                    batch: ended.batch.clone(),
                    provider: batch.provider.clone(),
                    model: batch.model.clone(),
                    server_id: batch.server_id.clone(),
                    prepared_at: batch.prepared_at,
                    ended_at: at,
                    questions: batch.answered + batch.questions.len() as u64,
                    answered: batch.answered,
                    refused: ended.refused.len() as u64,
                    end: ended.end,
                    cost_nanos,
                    message: ended.message.clone(),
                });
                let left: Vec<(Seq, Digest)> = batch.questions.into_keys().collect();
                let counts = batch.server_id.is_some() && ended.end.was_worked_on();
                for (request, call) in &left {
                    if self.open.contains_key(request) {
                        let batches = self.batches.get_or_insert_default();
                        if ended.refused.contains(call) {
                            batches.direct.entry(*request).or_default().push(*call);
                        } else if counts {
                            batches.unanswered.add(*request, *call);
                        }
                    }
                    self.may_go_on(*request, at);
                }
            }
        }
    }

    /// An answer came with a batch. It counts whatever its request does meanwhile.
    pub(super) fn batch_answered(&mut self, seq: Seq, at: Timestamp, request: Seq, call: Digest) {
        for batch in self.batches.iter_mut().flat_map(|batches| batches.open.values_mut()) {
            if batch.questions.remove(&(request, call)).is_some() {
                batch.answered += 1;
            }
        }
        let Some(open) = self.open.get_mut(&request) else { return };
        open.particulars_mut().replies.push(seq);
        self.changed.open.insert(request);
        self.may_go_on(request, at);
    }

    /// Ends the wait of a request without a question in a batch.
    fn may_go_on(&mut self, request: Seq, at: Timestamp) {
        if self.batches.as_ref().is_some_and(|batches| batches.waits(request)) {
            return;
        }
        let Some(open) = self.open.get_mut(&request) else { return };
        if open.row.status != Status::Backoff || open.eligible_at <= at {
            return;
        }
        open.eligible_at = open.particulars().not_before.unwrap_or(Timestamp(i64::MIN));
        self.changed.open.insert(request);
        self.reschedule(request, at);
    }

    /// A request has ended, and nothing is asked for it any more.
    pub(super) fn no_batches_for(&mut self, request: Seq) {
        if let Some(batches) = &mut self.batches {
            batches.direct.remove(&request);
            batches.unanswered.forget(request);
        }
    }
}
