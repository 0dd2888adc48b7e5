//! Rebuilds the requests of a lost log from evidence, in the order of the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::request::given_key;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{AckStatus, ReasonCode, Stream, SummaryKind, Urgency, Warnings};
use crate::facts::attempt::Recovered;
use crate::facts::digest::DigestFact;
use crate::facts::recovery::RecoveryReport;
use crate::facts::session::SessionReport;
use crate::log::{ReadError, codec};
use crate::os::{Disk, Machine};
use crate::registry::SharedFlows;
use crate::seam::arrival::{arrival, request_bytes};
use crate::seam::line::{LineContent, parse_accepted, parse_line};
use crate::seam::position::{AdoptAt, Change, Position, adopt_position, describe_change};
use crate::seam::tail::{Batch, TailOptions, Tailer};
use crate::sequencer::engine::{CheckpointWhen, Engine, EngineError, SessionStart};
use crate::sequencer::mark::QueueMark;
use crate::state::apply::item_digest;
use crate::state::decide::{
    Arrival, Failed, FlowStanding, Outcome, Report as AttemptReport, RetryHint,
};
use crate::state::event::{AckHead, Event, SessionEnd, SummaryPointer, TakenRequest};
use crate::state::{Past as _, Status};
use crate::upkeep::forget::{self, Traces, Wanted, line_of};
use crate::upkeep::tombstones::Tombstones;

use super::acks::{Ack, LineAcks};
use super::cuts::cut_where_cut;
use super::error::RecoverError;
use super::evidence::{Evidence, Places};
use super::losses::lose;

/// Queue lines that are taken between two commits.
const LINES_AT_ONCE: usize = 1000;
/// Bytes of those lines.
const BYTES_AT_ONCE: usize = 4 << 20;

/// What it means that nothing says what became of a line that was read.
const WITHOUT_ACKS: &str =
    "requests of which no ack tells: they are open again, and may get a second answer";
/// What it means that an ack names another line than its request has.
const ACKS_ELSEWHERE: &str =
    "requests whose last ack names another line than theirs: they ended as it says";

/// How lines are read.
pub struct Rules<'a> {
    pub flows: &'a SharedFlows,
    /// The session of the recovery.
    pub run: SessionStart,
    pub tail: TailOptions,
    /// The first fact of `forget` that the old log may not have carried out.
    pub forget_from: Option<Seq>,
    /// What a `forget` names that is not finished. The old log may not know of it.
    pub forgetting: Option<Wanted>,
    /// All that was ever forgotten in the home.
    pub(crate) tombstones: Tombstones,
}

/// Rebuilds what came after the records that the engine has.
pub fn rebuild(
    machine: &Machine,
    places: &Places<'_>,
    engine: Engine,
    by: Rules<'_>,
    report: &mut RecoveryReport,
    progress: &mut dyn FnMut(f64),
) -> Result<Engine, RecoverError> {
    let disk = &machine.disk;
    let now = machine.clock.now();
    let Rules { flows, run, tail, forget_from, forgetting, tombstones } = by;
    report.records_kept = engine.log().head().0.0;
    let mut evidence = Evidence::read(disk, places, engine.log().head().0, report)?;
    if let Some(wanted) = &forgetting {
        evidence.forgotten.extend(wanted.summaries.iter().cloned());
    }
    let said = tombstones.values().flat_map(|one| one.summaries.keys());
    // What is published was made again since.
    let gone: Vec<String> =
        said.filter(|id| !evidence.outputs.contains_key(*id)).cloned().collect();
    evidence.forgotten.extend(gone);
    let taken = taken_until(&engine)?;
    let (later, lost, lines_gone) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let (is_other_queue, open_ids) = (false, BTreeMap::new());
    let mut recovery = Recovery {
        engine,
        taken,
        evidence,
        report,
        now,
        flows,
        later,
        lost,
        lines_gone,
        tombstones,
        is_other_queue,
        open_ids,
    };
    recovery.engine.begin_session(run, now)?;
    recovery.commit(None)?;
    recovery.earlier_requests()?;
    recovery.queue_lines(disk, places, tail, progress)?;
    recovery.waiting_requests()?;
    recovery.acks_without_lines()?;
    recovery.adopt_outputs()?;
    recovery.run_records()?;
    recovery.finish(forget_from, forgetting)
}

/// One past the offset of the last line that the kept records took. The mark may say less: damage within a
/// commit keeps its first records, and the mark stands at its end.
fn taken_until(engine: &Engine) -> Result<u64, RecoverError> {
    let (log, mut last) = (engine.log(), Seq(0));
    let mut note = |seq, _: &[u8]| {
        last = seq;
        ControlFlow::Continue(())
    };
    log.marks_in(Seq(1), log.head().0, &mut note).map_err(EngineError::from)?;
    let mut taken = QueueMark::decode(&log.mark())?.position.offset;
    log.try_scan(last.next(), None, |entry| {
        let event = entry.event()?;
        let place = match &event {
            Event::LineQuarantined(bad) => Some((bad.line, bad.offset)),
            event => event.taken().map(|request| (request.head.line, request.head.offset)),
        };
        // A request that a recovery knows by its summary only has no line.
        if let Some((_, offset)) = place.filter(|(line, _)| *line > 0) {
            taken = taken.max(offset + 1);
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })
    .map_err(EngineError::from)?;
    Ok(taken)
}

struct Recovery<'a> {
    engine: Engine,
    /// Lines that begin before this offset are in the kept records.
    taken: u64,
    evidence: Evidence,
    report: &'a mut RecoveryReport,
    now: Timestamp,
    flows: &'a SharedFlows,
    /// Requests that ended as duplicates of work that may not be known yet, with their last ack.
    later: Vec<(Seq, Ack)>,
    /// Summaries that acks name and that are not published.
    lost: BTreeSet<String>,
    /// Quarantined lines that were taken back, read from the queue again.
    lines_gone: BTreeSet<Digest>,
    /// All that was ever forgotten in the home.
    tombstones: Tombstones,
    /// Whether the lines of the queue have other numbers than before.
    is_other_queue: bool,
    /// Requests that are open because the last ack of their line says so.
    open_ids: BTreeMap<String, Seq>,
}

/// What is forgotten again, for one fact.
#[derive(Default)]
struct Again {
    summaries: BTreeMap<String, (Seq, SummaryPointer)>,
    bags: BTreeSet<String>,
    lines: Vec<Seq>,
}

impl Recovery<'_> {
    fn commit(&mut self, mark: Option<Vec<u8>>) -> Result<(), RecoverError> {
        self.settle()?;
        self.engine.commit(mark, CheckpointWhen::Due, &[], self.now)?;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), RecoverError> {
        while self.engine.state().has_unsettled() {
            self.engine.settle(self.now)?;
        }
        Ok(())
    }

    /// Ends requests that the kept records hold open and whose acks say how they ended.
    fn earlier_requests(&mut self) -> Result<(), RecoverError> {
        // By offset and id: one request id may have been accepted more than once.
        let mut open = BTreeMap::new();
        {
            let past = self.engine.past();
            for (seq, _) in self.engine.state().open_from(Seq(0)) {
                let head = past.head(seq).map_err(EngineError::from)?;
                open.insert((head.offset, head.request_id), seq);
            }
        }
        let before: Vec<u64> =
            self.evidence.lines.range(..self.taken).map(|(offset, _)| *offset).collect();
        for offset in before {
            let Some(acks) = self.evidence.lines.get_mut(&offset) else { continue };
            acks.used = true;
            let ack = acks.ack.clone();
            let Some(request_id) = ack.request_id.clone() else { continue };
            let Some(seq) = open.get(&(offset, request_id)).copied() else { continue };
            match self.engine.state().open_request(seq).map(|open| open.row.status) {
                Some(Status::Parked | Status::Held) => self.later.push((seq, ack)),
                Some(_) => self.end(seq, ack)?,
                None => {}
            }
        }
        self.commit(None)
    }

    fn queue_lines(
        &mut self,
        disk: &Arc<dyn Disk>,
        places: &Places<'_>,
        tail: TailOptions,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(), RecoverError> {
        let old = QueueMark::decode(&self.engine.log().mark())?.position;
        let start = self.where_to_read(disk, places.queue, &old)?;
        let until = self.evidence.consumed.max(self.taken);
        // An unfinished line is cut off only if the quarantine says that it was.
        let len = disk.stat(places.queue).ok().flatten().map_or(0, |stat| stat.len);
        let ends_cut = self.evidence.cuts.contains(&len);
        let grace = if ends_cut { 0 } else { i64::MAX / 4 };
        let tail = TailOptions { partial_line_grace_ms: grace, ..tail };
        let mut tailer = Tailer::open(Arc::clone(disk), places.queue, start, tail)?;
        let mut shift = 0;
        while tailer.position().offset < until {
            // Lines without evidence are new, and the next session takes them. So reading must end
            // exactly after the last known line, whose first byte is the last one before `until`.
            let left = until - tailer.position().offset;
            let lines = if left == 1 { 1 } else { LINES_AT_ONCE };
            let bytes = usize::try_from(left).unwrap_or(BYTES_AT_ONCE).min(BYTES_AT_ONCE);
            let Some(mut batch) = tailer.next_batch(self.now, lines, bytes)? else { break };
            shift = cut_where_cut(&mut batch, &self.evidence.cuts, shift);
            self.take(&batch)?;
            self.engine.lines_taken(&batch.consumed, self.now)?;
            tailer.sync()?;
            let mark = QueueMark { position: batch.end, consumed: Some(batch.consumed) };
            self.commit(Some(mark.encode()))?;
            progress(tailer.position().offset as f64 / until.max(1) as f64);
        }
        Ok(())
    }

    /// Where reading continues in the queue as it is now.
    fn where_to_read(
        &mut self,
        disk: &Arc<dyn Disk>,
        queue: &Path,
        old: &Position,
    ) -> Result<Position, RecoverError> {
        let Some(change) = describe_change(disk, queue, old)? else { return Ok(old.clone()) };
        self.report.queue_change = Some(format!("the queue file {change}"));
        let at = match change {
            Change::Replaced { same_bytes: true } => AdoptAt::SameOffset,
            _ => AdoptAt::Start,
        };
        if at == AdoptAt::Start {
            // Offsets have another meaning now. Ids and keys still make known lines duplicates.
            self.evidence.lines.values_mut().for_each(|acks| acks.used = true);
            self.evidence.consumed = 0;
            self.taken = 0;
            self.is_other_queue = true;
        }
        let adopted = adopt_position(disk, queue, old, at)?;
        let offset = adopted.position.offset;
        let event = Event::QueueAdopted { change: change.to_string(), offset };
        self.engine.record(event, self.now)?;
        let mark = QueueMark { position: adopted.position.clone(), consumed: adopted.passed };
        self.commit(Some(mark.encode()))?;
        Ok(adopted.position)
    }

    fn take(&mut self, batch: &Batch) -> Result<(), RecoverError> {
        let taken = self.taken;
        for span in batch.lines.iter().filter(|span| span.offset >= taken) {
            self.report.lines += 1;
            let was_request =
                self.evidence.lines.get(&span.offset).is_some_and(LineAcks::was_request);
            let parse = if was_request { parse_accepted } else { parse_line };
            match parse(batch, span).content {
                LineContent::Blank => {}
                LineContent::Quarantined(line) => {
                    if let Some(acks) = self.evidence.lines.get_mut(&span.offset) {
                        acks.used = true;
                    }
                    let is_gone = self.evidence.blanks.contains(&line.offset);
                    self.lines_gone.extend(is_gone.then_some(line.sha256));
                    self.engine.bad_line(*line, self.now)?;
                }
                LineContent::Request(request) => {
                    let flows = Arc::clone(&self.flows.read());
                    let text = request_bytes(batch, span);
                    let place = (span.number, span.offset);
                    let arrived = arrival(*request, place, text, flows.as_ref());
                    self.request(arrived, span.offset)?;
                }
            }
        }
        Ok(())
    }

    /// Takes a request as the lost log did, and ends it as it ended.
    fn request(&mut self, mut arrived: Arrival, offset: u64) -> Result<(), RecoverError> {
        let id = arrived.request.head.request_id.clone();
        let acks = self.evidence.lines.get_mut(&offset).filter(|acks| !acks.used);
        let acks = acks.filter(|acks| acks.ack.request_id.as_deref() == Some(&id)).map(|acks| {
            acks.used = true;
            acks.clone()
        });
        if let Some(acks) = &acks {
            as_it_was(&mut arrived, acks);
        }
        self.engine.arrival(arrived, self.now)?;
        let seq = self.engine.state().applied;
        let Some(status) = self.engine.state().open_request(seq).map(|open| open.row.status) else {
            self.report.ended += 1;
            return Ok(());
        };
        match acks {
            Some(acks) if status == Status::Parked => self.later.push((seq, acks.ack)),
            Some(acks) if acks.ack.is_open() => drop(self.open_ids.insert(id, seq)),
            Some(acks) => self.end(seq, acks.ack)?,
            None if self.is_other_queue => {}
            None => lose(self.report, "request_acks", WITHOUT_ACKS, &id),
        }
        Ok(())
    }

    /// Ends an open request the way its last ack says.
    fn end(&mut self, seq: Seq, ack: Ack) -> Result<(), RecoverError> {
        if ack.is_open() {
            return Ok(());
        }
        match ack.status() {
            Some(AckStatus::Completed) => match ack.pointer() {
                Some(pointer) => self.produced(seq, &ack, pointer),
                None => {
                    let reason = ack.reason().unwrap_or(ReasonCode::SkippedEmptyContent);
                    self.day_unknown(&ack);
                    let (warnings, input) = (ack.warnings(), ack.input());
                    self.tried(seq, Outcome::Skipped { reason, warnings, input })
                }
            },
            Some(AckStatus::Duplicate) => {
                self.later.push((seq, ack));
                Ok(())
            }
            Some(AckStatus::FailedPermanent) if ack.reason() == Some(ReasonCode::Cancelled) => {
                self.report.ended += 1;
                let id = ack.request_id.clone().unwrap_or_default();
                Ok(self.engine.cancel(&id, self.now)?)
            }
            Some(AckStatus::FailedPermanent) => self.failed(seq, &ack, RetryHint::Never),
            Some(AckStatus::RejectedInvalidInput) => {
                self.failed(seq, &ack, RetryHint::InvalidInput)
            }
            _ => Ok(()),
        }
    }

    fn failed(&mut self, seq: Seq, ack: &Ack, again: RetryHint) -> Result<(), RecoverError> {
        self.day_unknown(ack);
        let message = ack.message.clone().unwrap_or_default();
        let (reason, cause, input) = (ack.reason(), ack.cause(), ack.input());
        self.tried(
            seq,
            Outcome::Failed(Failed { again, reason, cause, message, input, error: None }),
        )
    }

    fn day_unknown(&mut self, ack: &Ack) {
        let means = "skipped and failed requests whose day is not known: they count on the day \
                     they were made";
        lose(self.report, "days", means, ack.request_id.as_deref().unwrap_or_default());
    }

    fn produced(
        &mut self,
        seq: Seq,
        ack: &Ack,
        pointer: SummaryPointer,
    ) -> Result<(), RecoverError> {
        if self.evidence.forgotten.contains(&pointer.summary_id) {
            return self.forgotten(seq, ack, pointer);
        }
        let Some(output) = self.evidence.outputs.get(&pointer.summary_id) else {
            let means = "summaries that are no longer published: their requests are open again";
            if self.lost.insert(pointer.summary_id.clone()) {
                lose(self.report, "outputs", means, &pointer.summary_id);
            }
            return Ok(());
        };
        let (summary, item) = (output.pointer.clone(), output.line.clone());
        let input = self.evidence.input(&summary, Some(ack.origin()));
        self.report.outputs_recognized += 1;
        let warnings = ack.warnings();
        self.tried(seq, Outcome::Produced { summary, item, warnings, input, provenance: None })
    }

    /// A summary that a person took back: it was made, and at the end it is forgotten again.
    fn forgotten(
        &mut self,
        seq: Seq,
        ack: &Ack,
        summary: SummaryPointer,
    ) -> Result<(), RecoverError> {
        let input = self.evidence.input(&summary, Some(ack.origin()));
        let (item, warnings) = (b"{}".to_vec(), ack.warnings());
        self.report.ended += 1;
        self.tried(seq, Outcome::Produced { summary, item, warnings, input, provenance: None })
    }

    /// The moment at which a line was taken back.
    fn line_gone_at(&self, event: &Event) -> Option<Timestamp> {
        let (number, hash) = line_of(event)?;
        let is_it =
            |(known, of): &(u64, Digest)| *of == hash && (*known == number || self.is_other_queue);
        let mut all = self.tombstones.iter();
        all.find(|(_, one)| one.lines.iter().any(is_it)).map(|(at, _)| *at)
    }

    /// Forgets again what was forgotten in the lost log: the bodies that the kept facts name, and what has lost
    /// its fact. Returns the first fact that is left to be carried out, and the last fact.
    fn forget_again(
        &mut self,
        from: Option<Seq>,
        forgetting: Option<Wanted>,
    ) -> Result<[Option<Seq>; 2], RecoverError> {
        self.commit(None)?;
        let log = self.engine.log().clone();
        let (mut bodies, mut left, mut last) = (Vec::new(), None, None);
        let (mut again, mut kept) = (Again::default(), BTreeSet::new());
        let (mut lines, mut known) = (BTreeMap::<Timestamp, Vec<Seq>>::new(), BTreeSet::new());
        log.try_scan::<ReadError>(Seq(1), None, |entry| {
            let is_gone = || log.body_is_dropped(entry.seq);
            let shown = [codec::SUMMARY_PRODUCED, codec::DIGEST, codec::FORGOTTEN];
            let is_line = entry.has_body && codec::holds_line(entry.tag);
            if !is_line && !shown.contains(&entry.tag) {
                return Ok(ControlFlow::Continue(()));
            }
            match entry.event()? {
                Event::SummaryProduced { summary, .. }
                    if self.evidence.forgotten.contains(&summary.summary_id) || is_gone()? =>
                {
                    again.summaries.insert(summary.summary_id.clone(), (entry.seq, summary));
                }
                Event::Digest(DigestFact::Bag(bag)) if is_gone()? => {
                    again.bags.insert(bag.bag_id);
                }
                Event::Forgotten(fact) => {
                    for one in &fact.summaries {
                        again.summaries.remove(&one.summary_id);
                    }
                    for bag in &fact.bags {
                        again.bags.remove(bag);
                    }
                    bodies.extend(fact.bodies);
                    kept.insert(entry.at);
                    last = Some(entry.seq);
                    if from.is_some_and(|from| from <= entry.seq) {
                        left.get_or_insert(entry.seq);
                    }
                }
                event if is_line => {
                    if let Some(at) = self.line_gone_at(&event) {
                        lines.entry(at).or_default().push(entry.seq);
                        known.extend(line_of(&event).map(|(_, hash)| hash));
                    }
                }
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        })
        .map_err(EngineError::from)?;
        // What a kept fact names must not be named twice, so `look` must not find it.
        self.engine.store().forget(&bodies).map_err(EngineError::from)?;
        let named: BTreeSet<Seq> = bodies.into_iter().collect();
        for (at, one) in std::mem::take(&mut self.tombstones) {
            let lines = lines.remove(&at).unwrap_or_default();
            let lines = lines.into_iter().filter(|seq| !named.contains(seq)).collect();
            let mut of_fact = Again { lines, ..Again::default() };
            for id in one.summaries.keys() {
                let found = again.summaries.remove_entry(id);
                of_fact.summaries.extend(found);
            }
            let is_whole = kept.contains(&at);
            if is_whole && of_fact.lines.is_empty() && of_fact.summaries.is_empty() {
                continue;
            }
            let (sources, files) = (one.sources, one.files);
            let wanted = Wanted { sources, files, ..Wanted::default() };
            // With its own moment: it is the day that a person is told.
            last = Some(self.forget_one(&wanted, Traces::default(), of_fact, at)?);
        }
        let mut gone = std::mem::take(&mut self.lines_gone);
        gone.retain(|hash| !known.contains(hash));
        let has_more = !again.summaries.is_empty() || !again.bags.is_empty() || !gone.is_empty();
        if has_more || forgetting.is_some() {
            let is_unfinished = forgetting.is_some();
            let mut wanted = forgetting.unwrap_or_default();
            wanted.lines.extend(gone);
            wanted.summaries = again.summaries.keys().cloned().collect();
            let found = forget::look(&log, &wanted, &mut |_| {});
            let found = found.map_err(EngineError::from)?;
            let first = self.forget_one(&wanted, found, again, self.now)?;
            last = Some(first);
            if is_unfinished {
                left.get_or_insert(first);
            }
        }
        Ok([left, last])
    }

    /// Writes a fact and carries it out in the log. Returns the fact.
    fn forget_one(
        &mut self,
        wanted: &Wanted,
        mut found: Traces,
        mut again: Again,
        at: Timestamp,
    ) -> Result<Seq, RecoverError> {
        // A body whose key is gone tells nothing, so `look` does not find it.
        found.bags.append(&mut again.bags);
        found.bodies.append(&mut again.lines);
        for (id, (body, summary)) in again.summaries {
            found.bodies.push(body);
            found.summaries.insert(id, summary);
        }
        found.bodies.sort_unstable();
        found.bodies.dedup();
        let first = forget::record(&mut self.engine, wanted, &found, at)?;
        self.commit(None)?;
        self.engine.store().forget(&found.bodies).map_err(EngineError::from)?;
        Ok(first)
    }

    /// Records one attempt with this outcome.
    fn tried(&mut self, seq: Seq, outcome: Outcome) -> Result<(), RecoverError> {
        let Some(open) = self.engine.state().open_request(seq) else { return Ok(()) };
        let attempt = open.row.attempts + 1;
        if !matches!(open.row.status, Status::Waiting | Status::Backoff) {
            return Ok(());
        }
        if !matches!(outcome, Outcome::Produced { .. }) {
            self.report.ended += 1;
        }
        self.engine.record(Event::AttemptStarted { request: seq, attempt }, self.now)?;
        let epoch = self.engine.state().epoch();
        self.engine.report(AttemptReport { request: seq, attempt, epoch, outcome }, self.now)?;
        Ok(())
    }

    /// Ends requests that were duplicates, now that all lines are read: the request with the same work
    /// or key may come later in the queue, or may have ended without an output.
    fn waiting_requests(&mut self) -> Result<(), RecoverError> {
        self.commit(None)?;
        for (seq, ack) in std::mem::take(&mut self.later) {
            if ack.status() != Some(AckStatus::Duplicate) {
                self.end(seq, ack)?;
                self.commit(None)?;
                continue;
            }
            let Some(pointer) = ack.pointer() else { continue };
            if !self.knows(&pointer.summary_id)? {
                // No known request made it, so it counts as this request's own.
                self.produced(seq, &ack, pointer)?;
                continue;
            }
            let (input, warnings) = (ack.input(), ack.warnings());
            let sources = Box::default();
            self.tried(seq, Outcome::Resolved { summary: pointer, warnings, input, sources })?;
        }
        self.commit(None)
    }

    fn knows(&self, summary_id: &str) -> Result<bool, RecoverError> {
        let past = self.engine.past();
        let item = item_digest(summary_id).head();
        let found = self.engine.state().find(&past, KeyIndex::SummaryId, &item);
        Ok(found.map_err(EngineError::from)?.is_some_and(|seq| seq != Seq(0)))
    }

    /// Keeps id and key of requests whose line is gone but whose ack names a summary.
    fn acks_without_lines(&mut self) -> Result<(), RecoverError> {
        let lines = std::mem::take(&mut self.evidence.lines);
        for acks in lines.into_values().filter(|acks| !acks.used) {
            let ack = acks.ack;
            let id = ack.request_id.clone().unwrap_or_default();
            let completed = ack.status() == Some(AckStatus::Completed);
            let is_end = completed || ack.status() == Some(AckStatus::FailedPermanent);
            if let Some(seq) = self.open_ids.get(&id).copied().filter(|_| is_end) {
                lose(self.report, "acks_elsewhere", ACKS_ELSEWHERE, &id);
                self.end(seq, ack)?;
                continue;
            }
            let output = ack.pointer().filter(|_| completed);
            let Some(pointer) = output else {
                let means = "requests known only by their acks: their queue lines are gone";
                lose(self.report, "requests", means, &id);
                continue;
            };
            if !self.evidence.outputs.contains_key(&pointer.summary_id)
                || self.knows(&pointer.summary_id)?
            {
                continue;
            }
            let means = "completed requests whose text is gone with the queue; id, key and \
                         summary are known";
            lose(self.report, "request_texts", means, &id);
            let key = ack.idempotency_key.clone().unwrap_or_else(|| id.clone());
            let head = AckHead {
                request_id: id,
                key,
                line: ack.line.unwrap_or(0),
                offset: ack.offset.unwrap_or(0),
            };
            self.made_by(head, &pointer.summary_id, Some(ack.origin()), ack.warnings())?;
            self.report.outputs_recognized += 1;
        }
        self.commit(None)
    }

    /// Keeps published summaries whose request is not known.
    fn adopt_outputs(&mut self) -> Result<(), RecoverError> {
        let ids: Vec<String> = self.evidence.outputs.keys().cloned().collect();
        for (index, summary_id) in ids.iter().enumerate() {
            if self.knows(summary_id)? {
                continue;
            }
            let name = format!("recovered:{summary_id}");
            let head = AckHead { request_id: name.clone(), key: name, line: 0, offset: 0 };
            self.made_by(head, summary_id, None, Warnings::default())?;
            self.report.outputs_adopted += 1;
            if index % LINES_AT_ONCE == 0 {
                self.commit(None)?;
            }
        }
        self.commit(None)
    }

    /// Keeps the rows of runs that the kept records do not know. Summaries name these runs.
    fn run_records(&mut self) -> Result<(), RecoverError> {
        let mut rows = std::mem::take(&mut self.evidence.runs);
        if rows.is_empty() {
            return Ok(());
        }
        let log = self.engine.log().clone();
        log.try_scan(Seq(1), None, |entry| {
            let names_run = [codec::SESSION_STARTED, codec::DIGEST, codec::RUN_RECORD_KEPT];
            if names_run.contains(&entry.tag) {
                let run_id = match entry.event()? {
                    Event::SessionStarted { run_id, .. } => run_id,
                    Event::Digest(DigestFact::Finished(finished)) => finished.run_id,
                    Event::RunRecordKept(kept) => kept.run_id,
                    _ => return Ok(ControlFlow::Continue(())),
                };
                rows.remove(&run_id);
            }
            Ok::<_, ReadError>(ControlFlow::Continue(()))
        })
        .map_err(EngineError::from)?;
        for (index, kept) in rows.into_values().enumerate() {
            self.report.run_records += 1;
            self.engine.record(Event::RunRecordKept(Box::new(kept)), self.now)?;
            if index % LINES_AT_ONCE == 0 {
                self.commit(None)?;
            }
        }
        self.commit(None)
    }

    /// Records a request that is known only by its summary.
    fn made_by(
        &mut self,
        head: AckHead,
        summary_id: &str,
        origin: Option<Recovered>,
        warnings: Warnings,
    ) -> Result<(), RecoverError> {
        let Some(output) = self.evidence.outputs.get(summary_id) else { return Ok(()) };
        let item: Value = serde_json::from_slice(&output.line).unwrap_or_default();
        let template = item["prompt"]["template_id"].as_str().unwrap_or_default();
        let (flow_id, variant) = match template.split_once('@') {
            Some((flow, variant)) => (flow.to_owned(), Some(variant.to_owned())),
            None => (template.to_owned(), None),
        };
        let kind = match output.pointer.stream {
            Stream::Events => SummaryKind::EventSummary,
            Stream::Sessions => SummaryKind::SessionSummary,
            Stream::Documents => SummaryKind::DocumentSummary,
            Stream::ChunkSets => SummaryKind::ChunkSetSummary,
        };
        let created_at = item["ts_abs_ms"].as_i64().map_or(self.now, Timestamp);
        let (summary, line) = (output.pointer.clone(), output.line.clone());
        let request = TakenRequest {
            key: key_digest(&head.key),
            id: sha256(&head.request_id),
            work: sha256(format!("recovered:{summary_id}")).head(),
            producer: "recovered".to_owned(),
            flow_id,
            variant,
            kind,
            bus: None,
            priority: 5,
            urgency: Urgency::Now,
            created_at,
            not_before: None,
            deadline: None,
            warnings: Warnings::default(),
            previous: None,
            supersedes: None,
            // The request line is not known, and the rebuilt log does not invent it.
            line: b"{}".to_vec().into(),
            head,
        };
        let request = Box::new(request);
        self.engine.arrival(
            Arrival {
                request,
                flow: FlowStanding::Active,
                refused: None,
                source: Warnings::default(),
            },
            self.now,
        )?;
        let seq = self.engine.state().applied;
        let input = self.evidence.input(&summary, origin);
        self.tried(
            seq,
            Outcome::Produced { summary, item: line, warnings, input, provenance: None },
        )
    }

    fn finish(
        mut self,
        forget_from: Option<Seq>,
        forgetting: Option<Wanted>,
    ) -> Result<Engine, RecoverError> {
        self.report.open = self.engine.state().open_count() as u64;
        if self.report.records_lost {
            let means = "histories of tries, paid answers without a summary, and digest builds \
                         of the lost part: only files tell of them";
            self.report.unknown.entry("histories".to_owned()).or_default().means = means.to_owned();
        }
        let [left, last] = self.forget_again(forget_from, forgetting)?;
        while forget::end_waiting(&mut self.engine, &Wanted::default(), self.now)? {
            self.commit(None)?;
        }
        let report = Box::new(self.report.clone());
        self.engine.record(Event::LogRecovered(report), self.now)?;
        self.engine.end_session(SessionEnd::Clean, SessionReport::default(), self.now)?;
        self.settle()?;
        let cursors = match (left, last) {
            // The next command that opens the home carries it out.
            (Some(left), _) => vec![forget::begun(left)],
            (None, Some(last)) => forget::carried_out(last).to_vec(),
            (None, None) => Vec::new(),
        };
        self.engine.commit(None, CheckpointWhen::Changed, &cursors, self.now)?;
        Ok(self.engine)
    }
}

/// Makes the decision of the lost log apply again. Registry and rules may have changed since: a refused
/// request stays refused for the same reason, and an accepted one stays accepted.
fn as_it_was(arrived: &mut Arrival, acks: &LineAcks) {
    arrived.request.warnings = arrived.request.warnings.union(acks.ack.warnings());
    let message = acks.ack.message.clone().unwrap_or_default();
    match (acks.ack.status(), acks.accepted) {
        (Some(AckStatus::RejectedUnknownFlow), _) => {
            arrived.flow = match acks.ack.reason() {
                Some(ReasonCode::FlowDisabled) => FlowStanding::Disabled,
                Some(ReasonCode::UnknownVariant) => FlowStanding::UnknownVariant,
                _ => FlowStanding::Unknown,
            };
        }
        (Some(AckStatus::RejectedInvalidInput), false)
            if acks.ack.reason() != Some(ReasonCode::RequestIdConflict) =>
        {
            arrived.refused = acks.ack.reason().map(|reason| (reason, message));
        }
        _ => {
            arrived.refused = None;
            arrived.flow = FlowStanding::Active;
        }
    }
}

/// The digest of an idempotency key from its text in an ack.
fn key_digest(text: &str) -> Digest {
    let derived = text.strip_prefix("derived:").and_then(|hex| hex.parse().ok());
    derived.unwrap_or_else(|| given_key(text))
}
