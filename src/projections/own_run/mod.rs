//! The service's own session: committed events become the facts of its life, and the snapshots of its
//! segments become facts of the log.
//!
//! Contract. The run events are derived, never stored: the same log gives the same segments. A
//! snapshot says which event of the log it covers; after a restart the open segment is derived again
//! from the end of the last closed one, and snapshots that were noted are taken at the same places
//! without being noted twice. A snapshot that fails its checks is built once more from the segment
//! as the log gives it again, record by record; the retry uses nothing that was in memory. It
//! runs behind the sequencer and stops nothing: a segment whose snapshot fails twice is noted as
//! failed, and the next one opens.
//!
//! See docs/adr/0059-resuming-the-service-run.md.

mod said;
mod tallied;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use self::said::{Item, shortened, signal_of, sources_of};
use self::tallied::{figures_until, tally_of};
use crate::compaction::agent_runs::facts::{
    ClosedSegment, SnapshotBody, compared, overview_of, own_snapshot_at, scan_facts, taken_of,
};
use crate::compaction::agent_runs::{NoteCommitter, VerifyError};
use crate::compaction::compactor::Compactor;
use crate::compaction::event::{Body, RunEvent};
use crate::compaction::files::SnapshotStore;
use crate::compaction::payload::FailureSeverity;
use crate::compaction::service_run::{Emitted, Fact, Rederive, Refold, ServiceRun, segment_of};
use crate::compaction::session_figures::SessionFigures;
use crate::compaction::snapshot::{FailureAction, Snapshot};
use crate::compaction::text::SharedText;
use crate::compaction::trigger::Thresholds;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::AckStatus;
use crate::export::difference::Difference;
use crate::facts::agent_run::{AgentRunFact, CompactionFailed, SnapshotTaken};
use crate::log::codec;
use crate::log::{ReadError, Reader};
use crate::state::event::{Event, Note};

/// Thresholds that no segment reaches: snapshots come where the log says they were.
const NEVER: Thresholds = Thresholds { event_threshold: u64::MAX, step_fallback: u64::MAX };

/// Why the service's own session cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnRunError {
    /// The log does not hold what it should.
    #[error(transparent)]
    Fact(#[from] ReadError),
    /// A snapshot could not be committed.
    #[error("commit a snapshot of the session: {0}")]
    Commit(String),
}

pub(crate) struct OwnRun {
    log: Reader,
    thresholds: Thresholds,
    follow: Option<Follow>,
}

/// A position in the log and the run as of it.
struct Follow {
    read_to: Seq,
    /// Up to here, ends belong to a closed segment.
    warm_to: Seq,
    run: Option<(String, ServiceRun)>,
    /// The figures before the first session that is read.
    before: SessionFigures,
    /// The run of the last closed segment and its number, for the segment that continues it.
    closed: Option<(String, u64)>,
    /// Where the input of each attempt under way was resolved.
    in_flight: BTreeMap<SharedText, Seq>,
    /// Snapshots the log holds that are not reached yet.
    recorded: VecDeque<(Seq, SnapshotTaken)>,
    /// Whether those are also returned again.
    keeps_recorded: bool,
    /// From where the open segment can be derived again.
    origin: Origin,
    /// Set where that is being done: what the segment is folded into.
    refold: Option<Refold>,
    /// The newest run event and the record of the newest snapshot of the open segment.
    last_event: u64,
    last_snapshot: Option<(String, Seq)>,
}

/// A place in the log from which the segments after it follow.
#[derive(Clone, Default)]
struct Origin {
    read_to: Seq,
    closed: Option<ClosedSegment>,
    /// The figures of the session as of there.
    figures: SessionFigures,
}

/// A snapshot or a failure that is to be noted.
enum Due {
    Taken(SnapshotTaken, Box<SnapshotBody>),
    Failed(CompactionFailed, Vec<u8>),
}

impl OwnRun {
    /// The run in a log. Nothing is read yet.
    pub(crate) fn new(log: &Reader, thresholds: Thresholds) -> OwnRun {
        OwnRun { log: log.clone(), thresholds, follow: None }
    }

    /// Puts other thresholds in force, from the next event on.
    pub(crate) fn retune(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// The segment being written.
    pub(crate) fn segment(&self) -> Option<String> {
        self.follow.as_ref()?.run.as_ref()?.1.current()
    }

    /// Takes in what was committed since the last time, and notes the snapshots due in it.
    pub(crate) fn catch_up(
        &mut self,
        committer: &mut dyn NoteCommitter,
    ) -> Result<(), OwnRunError> {
        let mut follow = match self.follow.take() {
            Some(follow) => follow,
            None => Follow::open(&self.log)?,
        };
        // Only a run that got here is kept: after a failure it is derived again.
        loop {
            let due = follow.read(&self.log, self.thresholds)?;
            if due.is_empty() {
                break;
            }
            follow.note(committer, due)?;
        }
        self.follow = Some(follow);
        Ok(())
    }

    /// Takes a snapshot of the open segment now; the segment and whether there was news.
    pub(crate) fn snapshot_now(
        &mut self,
        committer: &mut dyn NoteCommitter,
    ) -> Result<Option<SnapshotTaken>, OwnRunError> {
        self.catch_up(committer)?;
        let Some(mut follow) = self.follow.take() else { return Ok(None) };
        let at = follow.read_to;
        let emitted = follow.snapshot(&self.log, at)?;
        let due = follow.due(at, emitted);
        let taken = due.iter().find_map(|due| match due {
            Due::Taken(fact, _) => Some(fact.clone()),
            Due::Failed(..) => None,
        });
        follow.note(committer, due)?;
        self.follow = Some(follow);
        Ok(taken)
    }

    /// The service ends: the open segment is closed with its snapshot.
    pub(crate) fn close(&mut self, committer: &mut dyn NoteCommitter) -> Result<(), OwnRunError> {
        self.catch_up(committer)?;
        let Some(mut follow) = self.follow.take() else { return Ok(()) };
        let at = follow.read_to;
        let emitted = follow.apply(&self.log, at, Timestamp(0), &Fact::Finished)?;
        let due = follow.due(at, emitted);
        follow.note(committer, due)?;
        self.follow = Some(follow);
        Ok(())
    }
}

impl Follow {
    /// From the end of the last closed segment.
    fn open(log: &Reader) -> Result<Follow, ReadError> {
        let closed = overview_of(log)?.closed;
        let mut recorded = VecDeque::new();
        let from = closed.as_ref().map_or(Seq(1), |closed| closed.seq.next());
        scan_facts(log, from, None, &mut |seq, _, fact| {
            if let AgentRunFact::SnapshotTaken(fact) = fact
                && fact.covers.is_some()
            {
                recorded.push_back((seq, fact));
            }
            Ok(())
        })?;
        let figures = match &closed {
            Some(closed) => figures_at(log, closed)?,
            None => SessionFigures::default(),
        };
        Ok(Follow::from(closed, figures, recorded))
    }

    fn from(
        closed: Option<ClosedSegment>,
        figures: SessionFigures,
        recorded: VecDeque<(Seq, SnapshotTaken)>,
    ) -> Follow {
        let mut follow = Follow {
            read_to: Seq(0),
            warm_to: Seq(0),
            run: None,
            before: figures.clone(),
            closed: None,
            in_flight: BTreeMap::new(),
            recorded,
            keeps_recorded: false,
            origin: Origin::default(),
            refold: None,
            last_event: 0,
            last_snapshot: None,
        };
        follow.origin.closed.clone_from(&closed);
        follow.origin.figures.clone_from(&figures);
        if let Some(closed) = closed {
            follow.read_to = Seq(closed.resume_from.0.saturating_sub(1));
            follow.warm_to = closed.covers;
            let run = ServiceRun::resumed(&closed.run_id, NEVER, closed.segment, figures);
            follow.run = Some((closed.run_id.clone(), run));
            follow.closed = Some((closed.run_id, closed.segment));
        }
        follow.origin.read_to = follow.read_to;
        follow
    }

    /// A segment as the log gives it again: derived from where the last one closed up to a record,
    /// with its snapshots where the log says they were, and folded up to one of its events.
    fn derive_again(
        log: &Reader,
        origin: &Origin,
        until: Seq,
        (segment, to_seq): (&SharedText, u64),
    ) -> Result<Option<Compactor>, ReadError> {
        let covered = origin.closed.as_ref().map_or(Seq(0), |closed| closed.covers);
        let mut recorded = VecDeque::new();
        scan_facts(log, origin.read_to.next(), None, &mut |seq, _, fact| {
            if let AgentRunFact::SnapshotTaken(fact) = fact
                && fact.covers.is_some_and(|covers| covers > covered && covers <= until)
            {
                recorded.push_back((seq, fact));
            }
            Ok(())
        })?;
        let mut follow = Follow::from(origin.closed.clone(), origin.figures.clone(), recorded);
        follow.read_to = origin.read_to;
        follow.refold = Some(Refold::new(segment, to_seq));
        follow.scan(log, Some(until), &mut |follow, log, entry| {
            follow.step(log, entry.seq, entry.at, &entry.event, NEVER).map(|_| true)
        })?;
        Ok(follow.refold.and_then(Refold::finish))
    }

    /// Reads on until something is due or the end of the log is reached.
    fn read(&mut self, log: &Reader, thresholds: Thresholds) -> Result<Vec<Due>, ReadError> {
        let mut due = Vec::new();
        self.scan(log, None, &mut |follow, log, entry| {
            let in_force = if follow.recorded.is_empty() { thresholds } else { NEVER };
            due = follow.step(log, entry.seq, entry.at, &entry.event, in_force)?;
            Ok(due.is_empty())
        })?;
        Ok(due)
    }

    /// Hands on each record from here on, until one says that it was enough.
    fn scan(
        &mut self,
        log: &Reader,
        until: Option<Seq>,
        each: &mut dyn FnMut(&mut Follow, &Reader, &Stamped) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        log.try_scan(self.read_to.next(), until, |entry| {
            let (seq, at, event) = (entry.seq, entry.at, entry.event()?);
            let goes_on = each(self, log, &Stamped { seq, at, event })?;
            self.read_to = seq;
            Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })
    }

    fn step(
        &mut self,
        log: &Reader,
        seq: Seq,
        at: Timestamp,
        event: &Event,
        thresholds: Thresholds,
    ) -> Result<Vec<Due>, ReadError> {
        let mut emitted = Vec::new();
        let ended = self.figures();
        let begins = matches!(event, Event::SessionStarted { .. });
        if let Event::SessionStarted { run_id, command, .. } = event {
            emitted.extend(self.apply(log, seq, at, &Fact::Finished)?);
            let segments = match &self.closed {
                Some((closed, segment)) if closed == run_id => *segment,
                _ => 0,
            };
            let figures = SessionFigures::begun(run_id, command, at, &ended);
            let run = ServiceRun::resumed(run_id, thresholds, segments, figures);
            self.run = Some((run_id.clone(), run));
            self.in_flight.clear();
        }
        if let Some((_, run)) = &mut self.run {
            run.retune(thresholds);
        }
        if seq > self.warm_to
            && let Some((_, run)) = &mut self.run
            && let Some(tally) = tally_of(log, (seq, at), event)?
        {
            run.count(&tally, at);
        }
        if let Some(fact) = self.fact(log, seq, event)? {
            emitted.extend(self.apply(log, seq, at, &fact)?);
        }
        let closed_before = self.origin.closed.clone();
        let mut due = self.due(seq, emitted);
        if begins
            && self.origin.closed != closed_before
            && let Some(closed) = &mut self.origin.closed
        {
            // A session that did not record its end is closed where the next one begins. What follows
            // belongs to the next one, so its beginning is read again.
            closed.resume_from = seq;
            self.origin.read_to = Seq(seq.0.saturating_sub(1));
            self.origin.figures = ended;
            for one in &mut due {
                match one {
                    Due::Taken(fact, _) => fact.resume_from = Some(seq),
                    Due::Failed(fact, _) => fact.resume_from = Some(seq),
                }
            }
        }
        while self.recorded.front().is_some_and(|(_, fact)| fact.covers == Some(seq)) {
            let Some((record, fact)) = self.recorded.pop_front() else { break };
            let is_it = |due: &Due| match due {
                Due::Taken(taken, _) => {
                    (&taken.run_id, taken.sequence) == (&fact.run_id, fact.sequence)
                }
                Due::Failed(..) => false,
            };
            if !due.iter().any(is_it) {
                let emitted = match fact.closes {
                    false => self.snapshot(log, seq)?,
                    true => self.apply(log, seq, at, &Fact::Finished)?,
                };
                let forced = self.due(seq, emitted);
                due.extend(forced);
            }
            if !self.keeps_recorded {
                due.retain(|due| !is_it(due));
            }
            self.last_snapshot = Some((fact.run_id, record));
        }
        Ok(due)
    }

    /// What a fact leads to; everything up to `until` of the log is known.
    fn apply(
        &mut self,
        log: &Reader,
        until: Seq,
        at: Timestamp,
        fact: &Fact,
    ) -> Result<Vec<Emitted>, ReadError> {
        self.run_with(log, until, |run, again| run.apply(at, fact, again))
    }

    /// A snapshot of the open segment, if anything happened since the last one.
    fn snapshot(&mut self, log: &Reader, until: Seq) -> Result<Vec<Emitted>, ReadError> {
        self.run_with(log, until, |run, again| run.snapshot_now(again))
    }

    fn run_with(
        &mut self,
        log: &Reader,
        until: Seq,
        act: impl FnOnce(&mut ServiceRun, Rederive<'_>) -> Vec<Emitted>,
    ) -> Result<Vec<Emitted>, ReadError> {
        let Some((_, run)) = &mut self.run else { return Ok(Vec::new()) };
        let (origin, deriving) = (&self.origin, self.refold.is_some());
        let mut failure = None;
        let emitted = act(run, &mut |segment, to_seq| {
            if deriving {
                return None;
            }
            let derived = Follow::derive_again(log, origin, until, (segment, to_seq));
            derived.unwrap_or_else(|error| {
                failure = Some(error);
                None
            })
        });
        failure.map_or(Ok(emitted), Err)
    }

    /// The fact of an event; what ended before the last closed segment is only forgotten.
    fn fact(&mut self, log: &Reader, seq: Seq, event: &Event) -> Result<Option<Fact>, ReadError> {
        let Some((_, run)) = &self.run else { return Ok(None) };
        let Some(request) = event.request() else {
            return Ok(matches!(event, Event::SessionFinished { .. }).then_some(Fact::Finished));
        };
        let request_id = SharedText::from(format!("req:{request}"));
        let fact = match event {
            Event::InputResolved { sources, .. } => {
                self.in_flight.insert(request_id.clone(), seq);
                return Ok(Some(Fact::Resolved { request_id, sources: sources_of(sources) }));
            }
            // What a call costs is another event, and how long it took is not recorded.
            Event::ModelResponded { .. } => {
                return Ok(Some(Fact::Answered { request_id, cost_usd: None, latency_ms: None }));
            }
            Event::SummaryProduced { summary, .. } => {
                match Item::at(log, seq)?.filter(Item::is_for_all) {
                    Some(item) => {
                        let what = item.what().into();
                        let pointers = item.pointers(|chunk| run.source_of(&request_id, chunk));
                        let sources = run.sources_of(&request_id);
                        let (request_id, summary_id) =
                            (request_id.clone(), SharedText::from(summary.summary_id.as_str()));
                        Fact::Produced { request_id, summary_id, what, sources, pointers }
                    }
                    None => Fact::ProducedUnnamed { request_id: request_id.clone() },
                }
            }
            Event::RequestSkipped { .. } => Fact::Skipped { request_id: request_id.clone() },
            Event::AttemptFailed { attempt, status, reason, message, error, .. } => {
                let signal = signal_of(error.as_ref().map(|error| error.class));
                let subtype = error.as_ref().map_or("", |error| &error.subtype);
                let reason = reason.map_or("NONE", |reason| reason.as_str());
                let lasting = *status != AckStatus::FailedTransient;
                Fact::Failed {
                    request_id: request_id.clone(),
                    signal_type: signal.into(),
                    severity: if lasting { FailureSeverity::High } else { FailureSeverity::Medium },
                    fingerprint: format!("{signal}|{reason}|{subtype}").into(),
                    place: format!("request {request} / attempt {attempt}").into(),
                    why: shortened(message).into(),
                }
            }
            Event::RequestCancelled { .. }
            | Event::RequestDuplicated { .. }
            | Event::WorkHeld { .. } => Fact::Dropped { request_id: request_id.clone() },
            _ => return Ok(None),
        };
        self.in_flight.remove(&request_id);
        Ok(Some(if seq <= self.warm_to { Fact::Dropped { request_id } } else { fact }))
    }

    /// What the session that is read did so far.
    fn figures(&self) -> SessionFigures {
        self.run.as_ref().map_or(&self.before, |(_, run)| run.figures()).clone()
    }

    /// What is to be noted of what the run emitted at an event of the log.
    fn due(&mut self, at: Seq, emitted: Vec<Emitted>) -> Vec<Due> {
        if let Some(refold) = &mut self.refold {
            emitted.iter().for_each(|emitted| refold.take(emitted));
        }
        let mut due: Vec<Due> = Vec::new();
        let resume_from = self.in_flight.values().min().copied().unwrap_or(at.next());
        let mut closed = None;
        for one in emitted {
            match one {
                Emitted::Event(event) => {
                    self.last_event = event.seq;
                    if stops(&event)
                        && let Some(Due::Taken(fact, _)) = due.last_mut()
                    {
                        fact.closes = true;
                        closed = Some(SharedText::from(fact.run_id.as_str()));
                    }
                }
                Emitted::Snapshot(built) => {
                    let mut fact = taken_of(&built, self.last_event, Seq(0));
                    fact.covers = Some(at);
                    fact.resume_from = Some(resume_from);
                    due.push(Due::Taken(fact, Box::new(SnapshotBody::of(&built, None))));
                }
                Emitted::SegmentFailed { run_id, message, snapshot } => {
                    closed = Some(run_id.clone());
                    let sequence = snapshot.as_ref().map_or(0, |snapshot| snapshot.sequence);
                    let fact = CompactionFailed {
                        run_id: run_id.to_string(),
                        sequence,
                        after_seq: self.last_event,
                        message,
                        covers: Some(at),
                        resume_from: Some(resume_from),
                    };
                    let body = snapshot.map(|snapshot| snapshot.to_bytes());
                    due.push(Due::Failed(fact, body.unwrap_or_default()));
                }
            }
        }
        if let Some((run_id, segment)) = closed.and_then(|segment| segment_of(&segment)) {
            self.closed = Some((run_id.clone(), segment));
            let covers = at;
            let read_to = Seq(resume_from.0.saturating_sub(1));
            let closed = ClosedSegment { run_id, segment, covers, resume_from, seq: covers };
            let figures = self.figures();
            self.origin = Origin { read_to, closed: Some(closed), figures };
        }
        due
    }

    fn note(
        &mut self,
        committer: &mut dyn NoteCommitter,
        due: Vec<Due>,
    ) -> Result<(), OwnRunError> {
        if due.is_empty() {
            return Ok(());
        }
        let mut names = Vec::new();
        for one in &due {
            match one {
                Due::Taken(fact, _) => names.push(Some(fact.run_id.clone())),
                Due::Failed(fact, _) => {
                    let (run_id, why) = (&fact.run_id, &fact.message);
                    tracing::warn!(
                        run_id,
                        why,
                        "a segment of the service's run ended: SYSTEM_ERROR"
                    );
                    names.push(None);
                }
            }
        }
        let mut last = self.last_snapshot.clone();
        let make = move |first: Seq| {
            let note = |(at, due): (u64, Due)| match due {
                Due::Taken(mut fact, body) => {
                    let before = last.replace((fact.run_id.clone(), Seq(at)));
                    let before = before.filter(|(run_id, _)| *run_id == fact.run_id);
                    fact.previous = before.map_or(Seq(0), |(_, record)| record);
                    let fact = Box::new(AgentRunFact::SnapshotTaken(fact));
                    Note::with_body(Event::AgentRun(fact), body.to_bytes())
                }
                Due::Failed(fact, body) => {
                    let event = Event::AgentRun(Box::new(AgentRunFact::CompactionFailed(fact)));
                    Note { event, body: Some(body).filter(|body| !body.is_empty()) }
                }
            };
            (first.0..).zip(due).map(note).collect()
        };
        let first = committer.note(Box::new(make)).map_err(OwnRunError::Commit)?;
        for (at, run_id) in (first.0..).zip(names) {
            if let Some(run_id) = run_id {
                self.last_snapshot = Some((run_id, Seq(at)));
            }
        }
        Ok(())
    }
}

/// The figures of a session as of the end of one of its segments.
fn figures_at(log: &Reader, closed: &ClosedSegment) -> Result<SessionFigures, ReadError> {
    if let Some(Event::AgentRun(fact)) = log.event(closed.seq)?
        && let AgentRunFact::SnapshotTaken(_) = *fact
    {
        let (_, body) = own_snapshot_at(log, closed.seq)?;
        let snapshot = body.map(|body| serde_json::from_str::<Snapshot>(&body.snapshot));
        let snapshot =
            snapshot.transpose().map_err(|error| ReadError::unexpected(closed.seq, error))?;
        if let Some(figures) = snapshot.and_then(|one| one.ext).and_then(|ext| ext.session) {
            return Ok(figures);
        }
    }
    // A segment that failed has no snapshot, and that of another was taken back. A session that did not
    // record its end was closed where the next one begins, which is read again.
    let next_begins = matches!(log.event(closed.covers)?, Some(Event::SessionStarted { .. }));
    figures_until(log, Seq(closed.covers.0 - u64::from(next_begins)))
}

/// A record of the log, read.
struct Stamped {
    seq: Seq,
    at: Timestamp,
    event: Event,
}

fn stops(event: &RunEvent) -> bool {
    matches!(event.body, Body::RunStopped(_))
}

/// Derives a segment again from the log and compares every snapshot of it: what is built again,
/// what the log holds, and the files.
pub(crate) fn verify(
    log: &Reader,
    segment: &str,
    files: &SnapshotStore,
) -> Result<(u64, Vec<Difference>), VerifyError> {
    let base = segment_of(segment).map(|(run_id, _)| run_id).unwrap_or_default();
    let mut recorded = VecDeque::new();
    let mut begun = None;
    scan_run(log, &base, &mut begun, &mut recorded)?;
    let mut stored = Vec::new();
    for (record, fact) in &recorded {
        if fact.run_id == segment {
            stored.push((*record, fact.clone()));
        }
    }
    let last = recorded.back().and_then(|(_, fact)| fact.covers);
    let read_to = Seq(begun.unwrap_or(Seq(1)).0.saturating_sub(1));
    let mut follow = Follow::from(None, figures_until(log, read_to)?, recorded);
    follow.keeps_recorded = true;
    follow.read_to = read_to;
    follow.origin.read_to = follow.read_to;
    let mut again = BTreeMap::new();
    follow.scan(log, last, &mut |follow, log, entry| {
        for one in follow.step(log, entry.seq, entry.at, &entry.event, NEVER)? {
            if let Due::Taken(fact, body) = one {
                again.insert((fact.run_id, fact.sequence), body);
            }
        }
        Ok(true)
    })?;
    let mut differences = Vec::new();
    for (record, fact) in &stored {
        let (_, body) = own_snapshot_at(log, *record)?;
        let Some(body) = body else {
            differences.extend(files.left_of(fact)?);
            continue;
        };
        let rebuilt = again.remove(&(fact.run_id.clone(), fact.sequence));
        let rebuilt = rebuilt.map(|rebuilt| as_tried(*rebuilt, &body));
        differences.extend(compared(fact.sequence, &body, rebuilt.as_ref()));
        differences.extend(files.differences(fact, &body)?);
    }
    Ok((stored.len() as u64, differences))
}

/// A snapshot that was built twice, because its first checks failed, is built once when it is
/// derived again. It takes over the note about the second build. A summary that a person took back since counts as
/// private when it is derived again, so the smaller number stays.
fn as_tried(mut rebuilt: SnapshotBody, stored: &SnapshotBody) -> SnapshotBody {
    let read = |body: &SnapshotBody| serde_json::from_str::<Snapshot>(&body.snapshot).ok();
    if let (Some(mut again), Some(stored)) = (read(&rebuilt), read(stored)) {
        let action = stored.validation.failure_action_taken;
        let was_retried = action == FailureAction::Retry;
        if was_retried {
            again.validation.failure_action_taken = action;
        }
        let figures = |snapshot: &Snapshot| snapshot.ext.as_ref()?.session.clone();
        let mut has_fewer = false;
        if let (Some(then), Some(now)) =
            (figures(&stored), again.ext.as_mut().and_then(|ext| ext.session.as_mut()))
        {
            let counts = [(then.counts, &mut now.counts), (then.day.counts, &mut now.day.counts)];
            for (then, now) in counts {
                has_fewer |= then.private < now.private;
                now.private = now.private.min(then.private);
            }
        }
        if was_retried || has_fewer {
            rebuilt.snapshot = String::from_utf8_lossy(&again.to_bytes()).into_owned();
        }
    }
    rebuilt
}

/// Where a run of the service began, and every snapshot of it.
fn scan_run(
    log: &Reader,
    base: &str,
    begun: &mut Option<Seq>,
    recorded: &mut VecDeque<(Seq, SnapshotTaken)>,
) -> Result<(), ReadError> {
    log.try_scan(Seq(1), None, |entry| {
        let starts = entry.tag == codec::SESSION_STARTED && begun.is_none();
        if !starts && entry.tag != codec::AGENT_RUN {
            return Ok(ControlFlow::Continue(()));
        }
        match entry.event()? {
            Event::SessionStarted { run_id, .. } if run_id == base => *begun = Some(entry.seq),
            Event::AgentRun(fact) => {
                if let AgentRunFact::SnapshotTaken(fact) = *fact
                    && fact.covers.is_some()
                    && segment_of(&fact.run_id).is_some_and(|(run_id, _)| run_id == base)
                {
                    recorded.push_back((entry.seq, fact));
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })
}

#[cfg(test)]
mod tests;
