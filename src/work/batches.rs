//! The thread that sends batches, looks after them, and brings their answers into the log.
//!
//! Contract. A batch is written into the log before it is sent, with the names of its questions. After a
//! crash the server is asked whether it has the batch, so nothing is sent twice and nothing is lost.
//! Each answer is an event before its request continues. Questions without an answer are asked again in a
//! later batch, alone. So are questions of which the server refused a part that is left out by then.
//! Other questions that the server refused in a batch are asked directly.
//!
//! See docs/adr/0114-batches-of-scheduled-questions.md.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::flow_worker::FlowWorker;
use super::item::model_name;
use super::paid_replies::nanos;
use crate::compaction::agent_runs::NoteCommitter;
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::vocabulary::FailureCause;
use crate::facts::batch::{
    BatchEnd, BatchFact, BatchedQuestion, EndedBatch, PreparedBatch, SubmittedBatch,
};
use crate::facts::model::AnswerFacts;
use crate::model::{
    AskedModel, BatchAnswer, BatchApi, BatchLane, ErrorClass, FoundBatch, ModelError, ModelReply,
    QueuedQuestion, RefusedBatch,
};
use crate::os::Clock;
use crate::state::State;
use crate::state::batches::{FinishedBatch, FinishedBatches, OpenBatch, Unanswered};
use crate::state::event::{Charge, Event, Note, OF_BATCH};

/// Most questions of one batch, and most bytes of them.
const QUESTIONS_MAX: usize = 10_000;
const BYTES_MAX: usize = 64 << 20;
/// Answers are committed when they reach this size.
const COMMIT_BYTES: usize = 4 << 20;
/// How often the thread looks whether something is due.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long the end of the service waits for an answer of a server.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait after failures of a server.
const REST_MAX: Duration = Duration::from_secs(900);

/// A batch that has not ended, as this process knows it.
struct Tracked {
    batch: OpenBatch,
    /// What is sent; `None` for a batch of an earlier process.
    lines: Option<Vec<(String, Value)>>,
    next: Instant,
    /// Failures in a row to reach the server.
    failures: u32,
    /// Requests that ended without an answer.
    ended: BTreeSet<Seq>,
    is_cancelled: bool,
}

/// The batches of a running service.
pub(crate) struct BatchThread {
    lane: Arc<BatchLane>,
    thread: std::thread::JoinHandle<()>,
}

impl BatchThread {
    /// Begins with the batches that the log knows. `session` names this process.
    pub(crate) fn start(
        worker: Arc<FlowWorker>,
        committer: Box<dyn NoteCommitter + Send>,
        known: &State,
        clock: Arc<dyn Clock>,
        session: &str,
    ) -> std::io::Result<BatchThread> {
        let lane = worker.lane();
        let batches = known.batches();
        let mut open = BTreeMap::new();
        for (name, batch) in batches.into_iter().flat_map(|known| &known.open) {
            for question in batch.questions.values() {
                let reserved = worker.batch_price(&batch.provider).spent(question.expected);
                lane.adopt(question.request, question.call, reserved);
            }
            let mut tracked = Tracked::of(batch.clone(), None);
            // A request that was cancelled before this thread began tells nobody any more.
            let asked = batch.questions.keys().map(|(request, _)| *request);
            tracked.ended = asked.filter(|one| known.open_request(*one).is_none()).collect();
            open.insert(name.clone(), tracked);
        }
        rest_as_before(&worker, &open, known.finished_batches());
        for (request, calls) in batches.into_iter().flat_map(|known| &known.direct) {
            calls.iter().for_each(|call| lane.ask_directly(*request, *call));
        }
        let own = Arc::clone(&lane);
        let (session, sent) = (session.to_owned(), AtomicU64::new(0));
        let unanswered = batches.map(|known| known.unanswered.clone()).unwrap_or_default();
        let mut looker =
            Looker { worker, lane: own, committer, clock, session, sent, open, unanswered };
        let thread = std::thread::Builder::new().name("batches".to_owned());
        Ok(BatchThread { lane, thread: thread.spawn(move || looker.run())? })
    }

    pub(crate) fn lane(&self) -> Arc<BatchLane> {
        Arc::clone(&self.lane)
    }

    /// Ends the thread. What was not sent is asked again by its requests. A thread that waits for a
    /// server is left behind: what it sent is found at the next start.
    pub(crate) fn finish(self) {
        self.lane.stop();
        let begun = Instant::now();
        while !self.thread.is_finished() && begun.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Tracked {
    fn of(batch: OpenBatch, lines: Option<Vec<(String, Value)>>) -> Tracked {
        let ended = BTreeSet::new();
        Tracked { batch, lines, next: Instant::now(), failures: 0, ended, is_cancelled: false }
    }
}

struct Looker {
    worker: Arc<FlowWorker>,
    lane: Arc<BatchLane>,
    committer: Box<dyn NoteCommitter + Send>,
    clock: Arc<dyn Clock>,
    session: String,
    sent: AtomicU64,
    open: BTreeMap<String, Tracked>,
    /// As the state has it.
    unanswered: Unanswered,
}

/// The service is ending: nothing can be committed any more.
struct Ending;

impl Looker {
    fn run(&mut self) {
        while self.pass().is_ok() && self.lane.wait(LOOK_EVERY) {}
    }

    fn pass(&mut self) -> Result<(), Ending> {
        for request in self.lane.take_ended() {
            self.unanswered.forget(request);
            for tracked in self.open.values_mut() {
                tracked.ended.insert(request);
            }
        }
        let now = Instant::now();
        let is_due =
            |tracked: &Tracked| tracked.next <= now || tracked.failures == 0 && tracked.unwanted();
        let due = self.open.iter().filter(|(_, tracked)| is_due(tracked));
        let due: Vec<String> = due.map(|(name, _)| name.clone()).collect();
        for name in due {
            self.look(&name)?;
        }
        self.send()?;
        self.lane.is_through();
        Ok(())
    }

    /// Sends the questions whose time has come.
    fn send(&mut self) -> Result<(), Ending> {
        let (now, worker) = (self.clock.now(), Arc::clone(&self.worker));
        let due = self.lane.take_due(|provider, queued, count| {
            let waited = now.ms_since(queued.since);
            count >= QUESTIONS_MAX || waited >= worker.batch_wait_ms(provider)
        });
        let mut kinds: BTreeMap<(String, String), Vec<QueuedQuestion>> = BTreeMap::new();
        for queued in due {
            let identity = &queued.question.identity;
            let kind = (identity.provider.clone(), identity.model_name.clone());
            kinds.entry(kind).or_default().push(queued);
        }
        for ((provider, model), queued) in kinds {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for one in queued {
                let size = one.body.to_string().len();
                if batch.len() == QUESTIONS_MAX || (bytes + size > BYTES_MAX && !batch.is_empty()) {
                    self.send_one(&provider, &model, std::mem::take(&mut batch))?;
                    bytes = 0;
                }
                bytes += size;
                batch.push(one);
            }
            self.send_one(&provider, &model, batch)?;
        }
        Ok(())
    }

    fn send_one(
        &mut self,
        provider: &str,
        model: &str,
        queued: Vec<QueuedQuestion>,
    ) -> Result<(), Ending> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let first = queued.first().map(|one| one.question.call.hex()).unwrap_or_default();
        let hash = sha256(format!("{} {number} {first}", self.session)).hex();
        let name = format!("sumbatch_{}", &hash[..24]);
        // Several requests may have the same question; it is asked once.
        let mut lines = BTreeMap::new();
        let mut questions = Vec::with_capacity(queued.len());
        for QueuedQuestion { question, body, .. } in queued {
            lines.insert(question.call.hex(), body);
            questions.push(question);
        }
        let prepared = PreparedBatch {
            batch: name.clone(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            questions: questions.clone(),
        };
        let batch = OpenBatch {
            provider: provider.to_owned(),
            model: model.to_owned(),
            prepared_at: self.clock.now(),
            server_id: None,
            questions: questions.into_iter().map(|one| ((one.request, one.call), one)).collect(),
            answered: 0,
        };
        self.note(BatchFact::Prepared(prepared))?;
        self.open.insert(name.clone(), Tracked::of(batch, Some(lines.into_iter().collect())));
        self.submit(&name)
    }

    /// Sends a batch that the server does not have.
    fn submit(&mut self, name: &str) -> Result<(), Ending> {
        let Some(tracked) = self.open.get(name) else { return Ok(()) };
        let Some(provider) = self.worker.batch_provider(&tracked.batch.provider) else {
            return Ok(());
        };
        let (Some(api), Some(lines)) = (provider.batches(), &tracked.lines) else { return Ok(()) };
        match api.submit(name, lines) {
            Ok(server_id) => self.submitted(name, server_id),
            // The same batch is taken once the account has credit.
            Err(error) if error.cause() == FailureCause::QuotaUsedUp => {
                self.failed(name, &error);
                Ok(())
            }
            Err(error) if error.class() == ErrorClass::Permanent => {
                let message = error.to_string();
                // Asked directly, each request is told the reason.
                self.ended(name, BatchEnd::Refused, message, true)
            }
            Err(error) => {
                self.failed(name, &error);
                Ok(())
            }
        }
    }

    fn submitted(&mut self, name: &str, server_id: String) -> Result<(), Ending> {
        let (batch, id) = (name.to_owned(), server_id.clone());
        self.note(BatchFact::Submitted(SubmittedBatch { batch, server_id: id }))?;
        if let Some(tracked) = self.open.get_mut(name) {
            tracing::info!(batch = name, server_id, "a batch was submitted");
            let poll = self.worker.batch_poll(&tracked.batch.provider);
            (tracked.batch.server_id, tracked.lines) = (Some(server_id), None);
            (tracked.failures, tracked.next) = (0, Instant::now() + poll);
        }
        Ok(())
    }

    /// The server could not be reached. Whether it got the batch is found out later.
    fn failed(&mut self, name: &str, error: &ModelError) {
        tracing::warn!(batch = name, %error, "the server of the batch did not answer; it is asked later");
        if let Some(tracked) = self.open.get_mut(name) {
            tracked.failures += 1;
            let poll = self.worker.batch_poll(&tracked.batch.provider);
            let rest = poll.saturating_mul(1 << tracked.failures.min(8)).min(REST_MAX);
            tracked.next = Instant::now() + error.retry_after().unwrap_or_default().max(rest);
        }
    }

    /// The server has too much under way for this batch.
    fn rest(&self, name: &str) {
        let Some(Tracked { batch, .. }) = self.open.get(name) else { return };
        let is_other = |(other, tracked): (&String, &Tracked)| {
            other != name
                && tracked.batch.provider == batch.provider
                && tracked.batch.server_id.is_some()
        };
        let refused = RefusedBatch {
            questions: batch.questions.len(),
            is_alone: !self.open.iter().any(is_other),
            at: self.clock.now(),
            first: self.worker.batch_poll(&batch.provider),
        };
        self.lane.rest(&batch.provider, &batch.model, refused);
    }

    /// Asks the server about one batch.
    fn look(&mut self, name: &str) -> Result<(), Ending> {
        let Some(tracked) = self.open.get(name) else { return Ok(()) };
        let Some(provider) = self.worker.batch_provider(&tracked.batch.provider) else {
            // Nobody can ask for it any more. Its requests are asked as they are configured now.
            let provider = &tracked.batch.provider;
            let message = format!("the provider `{provider}` is not configured any more");
            return self.ended(name, BatchEnd::Lost, message, false);
        };
        let Some(api) = provider.batches() else { return Ok(()) };
        let Some(id) = tracked.batch.server_id.clone() else { return self.find(name, api) };
        let model = tracked.batch.model.clone();
        let ago = self.clock.now().ms_since(tracked.batch.prepared_at).max(0).unsigned_abs();
        if tracked.unwanted() {
            match api.cancel(&id) {
                Ok(()) => tracing::info!(batch = name, "the batch is cancelled"),
                // It is cancelled when the server answers again.
                Err(error)
                    if matches!(error.class(), ErrorClass::Pause | ErrorClass::Transient) =>
                {
                    self.failed(name, &error);
                    return Ok(());
                }
                Err(error) => tracing::warn!(batch = name, %error, "cannot cancel the batch"),
            }
            if let Some(tracked) = self.open.get_mut(name) {
                tracked.is_cancelled = true;
            }
        }
        let looked = match api.look(&id) {
            Ok(looked) => looked,
            Err(error) if error.cause() == FailureCause::NotFound => {
                return self.ended(name, BatchEnd::Lost, error.to_string(), false);
            }
            Err(error) => {
                self.failed(name, &error);
                return Ok(());
            }
        };
        let Some(end) = looked.end else {
            if let Some(tracked) = self.open.get_mut(name) {
                let poll = self.worker.batch_poll(&tracked.batch.provider);
                (tracked.failures, tracked.next) = (0, Instant::now() + poll);
            }
            return Ok(());
        };
        if end == BatchEnd::Refused {
            let later = is_for_later(&looked.message);
            if later {
                self.rest(name);
            }
            return self.ended(name, end, looked.message, !later);
        }
        let before = api.dialect(&model);
        let (ago, known) = (Duration::from_millis(ago), &before.dialect);
        let asked = AskedModel { model: &model, ago, known };
        match api.answers(&id, asked) {
            Ok(answers) => {
                let learned = api.dialect(&model);
                if learned != before {
                    self.commit(vec![Note::new(Event::DialectLearned(Box::new(learned)))])?;
                }
                self.collect(name, end, answers)?;
                api.clear(&id);
                Ok(())
            }
            // The server keeps answers for a month only.
            Err(error) if error.cause() == FailureCause::NotFound => {
                self.ended(name, BatchEnd::Lost, error.to_string(), false)
            }
            Err(error) => {
                self.failed(name, &error);
                Ok(())
            }
        }
    }

    /// Finds out whether the server has a batch that was about to be sent.
    fn find(&mut self, name: &str, api: &dyn BatchApi) -> Result<(), Ending> {
        let Some(tracked) = self.open.get(name) else { return Ok(()) };
        let names = tracked.batch.questions.keys().map(|(_, call)| call.hex()).collect();
        match api.find(name, &names, tracked.batch.prepared_at) {
            Ok(FoundBatch::At(id)) => self.submitted(name, id),
            Ok(FoundBatch::Nowhere) if tracked.nobody_waits() => {
                let message = "nobody waits for its answers any more".to_owned();
                self.ended(name, BatchEnd::Cancelled, message, false)
            }
            Ok(FoundBatch::Nowhere) if tracked.lines.is_some() => self.submit(name),
            Ok(FoundBatch::Nowhere) => {
                let message = "it did not arrive at the server".to_owned();
                self.ended(name, BatchEnd::Lost, message, false)
            }
            Ok(FoundBatch::Perhaps) => {
                let poll = self.worker.batch_poll(&tracked.batch.provider);
                if let Some(tracked) = self.open.get_mut(name) {
                    tracked.next = Instant::now() + poll;
                }
                Ok(())
            }
            Err(error) => {
                self.failed(name, &error);
                Ok(())
            }
        }
    }

    /// Brings the answers into the log, then the end of the batch.
    fn collect(
        &mut self,
        name: &str,
        end: BatchEnd,
        answers: Vec<(String, BatchAnswer)>,
    ) -> Result<(), Ending> {
        let Some(tracked) = self.open.get(name) else { return Ok(()) };
        let mut of_call: BTreeMap<String, Vec<BatchedQuestion>> = BTreeMap::new();
        for question in tracked.batch.questions.values() {
            of_call.entry(question.call.hex()).or_default().push(question.clone());
        }
        let price = self.worker.batch_price(&tracked.batch.provider);
        let (mut refused, mut answered) = (Vec::new(), tracked.batch.answered);
        let (mut notes, mut bytes, mut stored) = (Vec::new(), 0, Vec::new());
        let mut otherwise = 0;
        for (call, answer) in answers {
            let Some(questions) = of_call.remove(&call) else { continue };
            let reply = match answer {
                BatchAnswer::Reply(reply) => *reply,
                // What the server says of one question may repeat its text, and the record of a batch is kept for ever.
                BatchAnswer::Otherwise(_) => {
                    otherwise += 1;
                    continue;
                }
                BatchAnswer::Refused(_) => {
                    refused.extend(questions.first().map(|one| one.call));
                    continue;
                }
                BatchAnswer::Again => continue,
            };
            for (place, question) in questions.into_iter().enumerate() {
                let (billed, estimated) = match reply.usage.total() {
                    _ if place > 0 => (Default::default(), false),
                    0 => (question.expected, true),
                    _ => (reply.usage, false),
                };
                let used = price.spent(billed);
                let day = self.lane.settle(question.request, question.call, used);
                answered += 1;
                let reply = of_question(&question, reply.clone());
                let charge = Charge {
                    provider: reply.identity.provider.clone(),
                    model: model_name(&reply.identity).to_owned(),
                    day,
                    input_tokens: billed.input_tokens,
                    output_tokens: billed.output_tokens,
                    cost_nanos: nanos(used.cost),
                    estimated,
                };
                let (request, attempt) = (question.request, OF_BATCH);
                if place == 0 {
                    notes.push(Note::new(Event::ModelCharged { request, attempt, charge }));
                }
                let Ok(body) = serde_json::to_vec(&reply) else { continue };
                bytes += body.len();
                let (identity, usage, stop) = (reply.identity, reply.usage, reply.stop);
                let answer = Box::new(AnswerFacts { identity, usage, stop });
                let (call, body_sha256) = (question.call, sha256(&body));
                let event = Event::ModelResponded { request, attempt, call, body_sha256, answer };
                notes.push(Note::with_body(event, body));
                stored.push((request, call));
            }
            if bytes >= COMMIT_BYTES {
                self.commit(std::mem::take(&mut notes))?;
                stored.drain(..).for_each(|(request, call)| self.lane.answered(request, call));
                bytes = 0;
            }
        }
        if !notes.is_empty() {
            self.commit(notes)?;
        }
        stored.into_iter().for_each(|(request, call)| self.lane.answered(request, call));
        if let Some(Tracked { batch, .. }) = self.open.get(name).filter(|_| answered > 0) {
            self.lane.has_room(&batch.provider, &batch.model);
        }
        let message = refusals(refused.len(), otherwise);
        self.end(name, EndedBatch { batch: name.to_owned(), end, answered, refused, message })
    }

    /// A batch ends without answers.
    fn ended(
        &mut self,
        name: &str,
        end: BatchEnd,
        message: String,
        directly: bool,
    ) -> Result<(), Ending> {
        let Some(tracked) = self.open.get(name) else { return Ok(()) };
        let calls: BTreeSet<Digest> =
            tracked.batch.questions.keys().filter(|_| directly).map(|(_, call)| *call).collect();
        let (answered, refused) = (tracked.batch.answered, calls.into_iter().collect());
        self.end(name, EndedBatch { batch: name.to_owned(), end, answered, refused, message })
    }

    fn end(&mut self, name: &str, mut ended: EndedBatch) -> Result<(), Ending> {
        let Some(tracked) = self.open.remove(name) else { return Ok(()) };
        if tracked.batch.server_id.is_some() && ended.end.was_worked_on() {
            let questions = tracked.batch.questions.keys();
            let left = questions.filter(|(request, call)| {
                !tracked.ended.contains(request)
                    && !ended.refused.contains(call)
                    && self.lane.waits_for(*request, *call)
            });
            let left: Vec<(Seq, Digest)> = left.copied().collect();
            let given_up =
                left.into_iter().filter(|(request, call)| self.unanswered.add(*request, *call));
            let given_up: BTreeSet<Digest> = given_up.map(|(_, call)| call).collect();
            if !given_up.is_empty() {
                let many = given_up.len();
                let why = format!(
                    "{many} without an answer in several batches, so they are asked directly"
                );
                ended.message = match ended.message.as_str() {
                    "" => why,
                    said => format!("{said}; {why}"),
                };
            }
            ended.refused.extend(given_up);
        }
        let (end, refused) = (ended.end.as_str(), ended.refused.len());
        tracing::info!(batch = name, end, answered = ended.answered, refused, "a batch ended");
        // Before the commit: it lets the requests start, and they must not find the old place.
        for (request, call) in tracked.batch.questions.keys() {
            self.lane.release(*request, *call);
            if ended.refused.contains(call) {
                self.lane.ask_directly(*request, *call);
            }
        }
        self.note(BatchFact::Ended(ended))
    }

    fn note(&mut self, fact: BatchFact) -> Result<(), Ending> {
        self.commit(vec![Note::new(Event::Batch(Box::new(fact)))])
    }

    fn commit(&mut self, notes: Vec<Note>) -> Result<(), Ending> {
        self.committer.note(Box::new(move |_| notes)).map(drop).map_err(|_| Ending)
    }
}

impl Tracked {
    /// No request waits for its answers any more, and its server does not know that yet.
    fn unwanted(&self) -> bool {
        !self.is_cancelled && self.batch.server_id.is_some() && self.nobody_waits()
    }

    fn nobody_waits(&self) -> bool {
        let mut requests = self.batch.questions.keys().map(|(request, _)| request);
        !self.ended.is_empty() && requests.all(|request| self.ended.contains(request))
    }
}

/// Servers that had too much before this process began get smaller batches, and none too early.
fn rest_as_before(
    worker: &FlowWorker,
    open: &BTreeMap<String, Tracked>,
    finished: Option<&FinishedBatches>,
) {
    let lane = worker.lane();
    let finished = finished.map(|finished| finished.recent.as_slice()).unwrap_or_default();
    for ended in finished {
        let (provider, model) = (ended.provider.as_str(), ended.model.as_str());
        if ended.answered > 0 {
            lane.has_room(provider, model);
        }
        if ended.end != BatchEnd::Refused || !is_for_later(&ended.message) {
            continue;
        }
        let is_other =
            |other: &OpenBatch| other.provider == provider && other.prepared_at < ended.ended_at;
        let was_other = |other: &FinishedBatch| {
            other.provider == provider
                && other.batch != ended.batch
                && other.server_id.is_some()
                && other.prepared_at < ended.ended_at
                && ended.ended_at < other.ended_at
        };
        let refused = RefusedBatch {
            questions: usize::try_from(ended.questions).unwrap_or(usize::MAX),
            is_alone: !open.values().any(|tracked| is_other(&tracked.batch))
                && !finished.iter().any(was_other),
            at: ended.ended_at,
            first: worker.batch_poll(provider),
        };
        lane.rest(provider, model, refused);
    }
}

/// Whether a refused batch only came too early: an account that has too much under way takes it later.
fn is_for_later(message: &str) -> bool {
    message.contains("limit")
}

/// The answer as the question's own: a batch does not know who was asked how.
fn of_question(question: &BatchedQuestion, reply: ModelReply) -> ModelReply {
    let answered = match reply.identity.model_version.as_str() {
        "" => reply.identity.model_name.as_str(),
        version => version,
    };
    let mut identity = question.identity.clone();
    if answered != identity.model_name {
        identity.model_version = answered.to_owned();
    }
    ModelReply { identity, redacted: question.redacted, ..reply }
}

/// What became of the questions that the server did not take as they were.
fn refusals(refused: usize, otherwise: usize) -> String {
    let refused = (refused > 0)
        .then(|| format!("{refused} refused, so they are asked directly, which says why"));
    let otherwise = (otherwise > 0).then(|| {
        format!("{otherwise} with a part that the server refuses, so they are asked without it")
    });
    refused.into_iter().chain(otherwise).collect::<Vec<_>>().join("; ")
}
