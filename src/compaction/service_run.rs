//! The service's session as an agent run. Committed facts become `run_event.v1` events. Each
//! attempt at a request is a step: input resolved = PLAN_DONE, model answered = ACT_DONE, output
//! recorded = OBSERVE_DONE. A produced summary is a claim with pointers to the spans it rests on.
//! Only a summary that is not private is named, and what was read for it; every other attempt is only
//! counted.
//!
//! Contract: a pure function of facts in commit order. Equal facts give equal events, segments and
//! snapshots. An attempt is written as one block when it ends, so steps never interleave, however
//! many workers there are. Memory is bounded: the run is cut into segments `<run_id>.<n>`. A
//! segment ends after [`SEGMENT_REQUESTS_MAX`] attempts or before its state would exceed
//! [`SEGMENT_STATE_BYTES_MAX`]. A snapshot that fails its checks is built a second time from the
//! segment as derived again by the caller ([`Rederive`], [`Refold`]). If that fails too, the
//! segment ends with SYSTEM_ERROR and the next attempt opens the next segment.
//!
//! The caller stores the snapshots and reads the log; this module does neither.
//!
//! See docs/adr/0024-service-run-in-segments.md.

use std::collections::BTreeMap;

use serde_json::json;

use super::build::{BuildPass, BuiltSnapshot, SnapshotForm};
use super::compactor::{Compactor, stop_events};
use super::event::{Body, Phase, RunEvent};
use super::payload::*;
use super::session_figures::{SessionFigures, Tally};
use super::snapshot::Snapshot;
use super::text::SharedText;
use super::trigger::Thresholds;
use crate::contract::hash::sha256;
use crate::contract::time::Timestamp;

/// Most attempts of a segment.
pub(crate) const SEGMENT_REQUESTS_MAX: u64 = 64;
/// Most bytes of state of a segment.
pub(crate) const SEGMENT_STATE_BYTES_MAX: usize = 48 << 10;
/// Most pointers of one claim. The summary itself carries all of them.
pub(crate) const CLAIM_POINTERS_MAX: usize = 32;
/// Most chunk ids of one event. More go into further events.
pub(crate) const EVENT_CHUNKS_MAX: usize = 256;

/// Objective of every segment. It distinguishes them from the runs of agents.
pub(crate) const OBJECTIVE: &str =
    "Turn every accepted summary request into exactly one recorded outcome";
const DONE: &str = "every attempt of this segment ended as produced, skipped or failed";

/// Thresholds that are reached only when a segment closes.
pub(crate) const AT_CLOSE_ONLY: Thresholds = Thresholds {
    event_threshold: 3 * SEGMENT_REQUESTS_MAX + 1,
    step_fallback: SEGMENT_REQUESTS_MAX + 1,
};

/// A source that an attempt reads.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceRead {
    pub source_id: SharedText,
    pub chunk_ids: Vec<SharedText>,
}

/// A pointer to a span that a summary rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct CitedSpan {
    pub evidence: EvidencePointer,
    /// True when the span contains exactly the words, not similar ones.
    pub exact: bool,
}

/// A committed fact of the session.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// The input of an attempt is resolved.
    Resolved {
        request_id: SharedText,
        sources: Vec<SourceRead>,
    },
    Answered {
        request_id: SharedText,
        cost_usd: Option<f64>,
        latency_ms: Option<f64>,
    },
    /// The attempt ended with a recorded summary.
    Produced {
        request_id: SharedText,
        summary_id: SharedText,
        /// What was summarized by which flow, in words.
        what: SharedText,
        sources: u64,
        pointers: Vec<CitedSpan>,
    },
    /// The attempt ended with a recorded summary that is private.
    ProducedUnnamed {
        request_id: SharedText,
    },
    /// The attempt ended without a summary, as it should.
    Skipped {
        request_id: SharedText,
    },
    /// The attempt ended outside its worker: it was cancelled or held back, or its end is counted
    /// elsewhere.
    Dropped {
        request_id: SharedText,
    },
    Failed {
        request_id: SharedText,
        /// Its kind, such as `TOOL_RUNTIME_ERROR`.
        signal_type: SharedText,
        severity: FailureSeverity,
        fingerprint: SharedText,
        place: SharedText,
        why: SharedText,
    },
    Finished,
}

/// What a fact leads to, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Emitted {
    /// A run event of the open segment.
    Event(RunEvent),
    /// A snapshot that came into force.
    Snapshot(Box<BuiltSnapshot>),
    /// A segment ended with SYSTEM_ERROR.
    SegmentFailed {
        run_id: SharedText,
        message: String,
        /// The failed snapshot, if that is the reason.
        snapshot: Option<Box<Snapshot>>,
    },
}

/// Derives a segment again, up to and including event `seq`. The second build pass uses it. `None`
/// when that is impossible.
pub(crate) type Rederive<'a> = &'a mut dyn FnMut(&SharedText, u64) -> Option<Compactor>;

/// A segment folded from events that another derivation emits, up to one event.
#[derive(Debug, Clone)]
pub(crate) struct Refold {
    segment: SharedText,
    to_seq: u64,
    compactor: Option<Compactor>,
}

impl Refold {
    pub(crate) fn new(segment: &SharedText, to_seq: u64) -> Refold {
        let compactor = Some(Compactor::new(AT_CLOSE_ONLY));
        Refold { segment: segment.clone(), to_seq, compactor }
    }

    pub(crate) fn take(&mut self, emitted: &Emitted) {
        let Some(compactor) = &mut self.compactor else { return };
        let here = compactor.fold_state().seq;
        match emitted {
            _ if here >= self.to_seq => {}
            Emitted::Event(event) if event.run_id == self.segment => {
                if compactor.fold(event).is_err() {
                    self.compactor = None;
                }
            }
            Emitted::Snapshot(built) if built.snapshot.run_id == self.segment => {
                compactor.adopt(built.previous.clone());
            }
            Emitted::Event(_) | Emitted::Snapshot(_) | Emitted::SegmentFailed { .. } => {}
        }
    }

    /// The folded segment, if the event was reached.
    pub(crate) fn finish(self) -> Option<Compactor> {
        self.compactor.filter(|compactor| compactor.fold_state().seq == self.to_seq)
    }
}

/// Splits `<run_id>.<n>`.
pub(crate) fn segment_of(segment: &str) -> Option<(String, u64)> {
    let (run_id, number) = segment.rsplit_once('.')?;
    Some((run_id.to_owned(), number.parse().ok()?))
}

/// Projects facts into run events and segment snapshots.
#[derive(Debug, Clone)]
pub(crate) struct ServiceRun {
    run_id: SharedText,
    thresholds: Thresholds,
    segments: u64,
    figures: SessionFigures,
    open: Option<OpenSegment>,
    in_flight: BTreeMap<SharedText, InFlight>,
}

/// An attempt that has not ended. At most one for each worker.
#[derive(Debug, Clone)]
struct InFlight {
    resolved_at: Timestamp,
    sources: Vec<SourceRead>,
    answered: Option<(Timestamp, ActDone)>,
}

#[derive(Debug, Clone)]
struct OpenSegment {
    run_id: SharedText,
    compactor: Compactor,
    attempts: u64,
    state_bytes: usize,
    last_at: Timestamp,
}

/// Whether the ids of what an attempt read may stand in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Yes,
    /// It was private, or nothing says whether it was.
    No,
}

/// One step, ready to be written.
struct StepEvents {
    events: Vec<(Timestamp, Phase, Body)>,
    state_bytes: usize,
}

impl ServiceRun {
    /// The run log of one session, after `segments` segments that ended and with the figures as of
    /// their end. `run_id` must leave room for a segment number.
    pub(crate) fn resumed(
        run_id: &str,
        thresholds: Thresholds,
        segments: u64,
        figures: SessionFigures,
    ) -> ServiceRun {
        let (run_id, in_flight) = (SharedText::from(run_id), BTreeMap::new());
        ServiceRun { run_id, thresholds, segments, figures, open: None, in_flight }
    }

    /// What the session did so far.
    pub(crate) fn figures(&self) -> &SessionFigures {
        &self.figures
    }

    /// Takes in what the session did or met. Precedes the fact of the same event.
    pub(crate) fn count(&mut self, tally: &Tally, at: Timestamp) {
        self.figures.count(tally, at);
    }

    pub(crate) fn current(&self) -> Option<String> {
        self.open.as_ref().map(|open| open.run_id.to_string())
    }

    pub(crate) fn retune(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
        if let Some(open) = &mut self.open {
            open.compactor.retune(thresholds);
        }
    }

    /// Number of chunks that a running attempt reads.
    pub(crate) fn sources_of(&self, request_id: &SharedText) -> u64 {
        let sources = self.in_flight.get(request_id).map(|attempt| attempt.sources.iter());
        sources.into_iter().flatten().map(|source| source.chunk_ids.len() as u64).sum()
    }

    /// Source of a chunk that a running attempt reads.
    pub(crate) fn source_of(&self, request_id: &SharedText, chunk: &str) -> Option<SharedText> {
        let sources = &self.in_flight.get(request_id)?.sources;
        let holds = |source: &&SourceRead| source.chunk_ids.iter().any(|id| **id == *chunk);
        sources.iter().find(holds).map(|source| source.source_id.clone())
    }

    /// Applies the next committed fact.
    pub(crate) fn apply(
        &mut self,
        at: Timestamp,
        fact: &Fact,
        again: Rederive<'_>,
    ) -> Vec<Emitted> {
        let mut out = Vec::new();
        match fact {
            Fact::Resolved { request_id, sources } => {
                let sources = sources.clone();
                let begun = InFlight { resolved_at: at, sources, answered: None };
                self.in_flight.insert(request_id.clone(), begun);
            }
            Fact::Answered { request_id, cost_usd, latency_ms } => {
                if let Some(attempt) = self.in_flight.get_mut(request_id) {
                    // An attempt may call the model several times; its cost is the sum.
                    let before = attempt.answered.as_ref().map(|(_, done)| done);
                    let sum = |old: Option<f64>, new: &Option<f64>| match (old, *new) {
                        (Some(old), Some(new)) => Some(old + new),
                        (old, new) => old.or(new),
                    };
                    let cost_usd = sum(before.and_then(|done| done.cost_usd), cost_usd);
                    let latency_ms = sum(before.and_then(|done| done.latency_ms), latency_ms);
                    let plan_id = request_id.clone();
                    let done = ActDone { plan_id, outcome: ActOutcome::Ok, cost_usd, latency_ms };
                    attempt.answered = Some((at, done));
                }
            }
            Fact::ProducedUnnamed { request_id } => {
                self.answered(request_id, at);
                let mut step = self.begun(request_id, Named::No);
                step.observe(at, true);
                self.write(step, at, again, &mut out);
            }
            Fact::Produced { request_id, summary_id, what, sources, pointers } => {
                self.answered(request_id, at);
                let mut step = self.begun(request_id, Named::Yes);
                step.claim(at, summary_id, (what, *sources), pointers);
                step.observe(at, true);
                self.write(step, at, again, &mut out);
            }
            Fact::Dropped { request_id } => drop(self.in_flight.remove(request_id)),
            Fact::Skipped { request_id } => {
                let mut step = self.begun(request_id, Named::No);
                step.observe(at, false);
                self.write(step, at, again, &mut out);
            }
            Fact::Failed { request_id, signal_type, severity, fingerprint, place, why } => {
                let mut step = self.begun(request_id, Named::No);
                let digest = sha256(fingerprint.as_bytes()).hex();
                step.fail(
                    at,
                    FailureRecorded {
                        failure_id: format!("fail_{}", &digest[..16]).into(),
                        signal_type: signal_type.clone(),
                        severity: *severity,
                        fingerprint: fingerprint.clone(),
                        place: place.clone(),
                        why: why.clone(),
                    },
                );
                self.write(step, at, again, &mut out);
            }
            Fact::Finished => {
                self.in_flight.clear();
                self.close(again, &mut out);
            }
        }
        out
    }

    /// Takes a snapshot of the open segment now, if anything happened since the last one.
    pub(crate) fn snapshot_now(&mut self, again: Rederive<'_>) -> Vec<Emitted> {
        let mut out = Vec::new();
        if self.open.as_ref().is_some_and(|open| open.compactor.has_news()) {
            self.take(again, &mut out);
        }
        out
    }

    /// A provider without cost reports no answer, but the model did answer.
    fn answered(&mut self, request_id: &SharedText, at: Timestamp) {
        if let Some(attempt) = self.in_flight.get_mut(request_id) {
            attempt.answered.get_or_insert_with(|| {
                let (plan_id, outcome) = (request_id.clone(), ActOutcome::Ok);
                (at, ActDone { plan_id, outcome, cost_usd: None, latency_ms: None })
            });
        }
    }

    /// The events of an attempt up to its end.
    fn begun(&mut self, request_id: &SharedText, named: Named) -> StepEvents {
        let mut step = StepEvents { events: Vec::new(), state_bytes: 0 };
        let Some(mut attempt) = self.in_flight.remove(request_id) else { return step };
        if named == Named::No {
            attempt.sources.clear();
        }
        step.resolve(request_id, &attempt);
        if let Some((at, done)) = attempt.answered {
            step.events.push((at, Phase::Act, Body::ActDone(done)));
        }
        step
    }

    fn write(
        &mut self,
        step: StepEvents,
        at: Timestamp,
        again: Rederive<'_>,
        out: &mut Vec<Emitted>,
    ) {
        let no_room = |open: &OpenSegment| {
            open.attempts > 0 && open.state_bytes + step.state_bytes > SEGMENT_STATE_BYTES_MAX
        };
        if self.open.as_ref().is_some_and(no_room) {
            self.close(again, out);
        }
        self.open_segment(at, out);
        if let Some(open) = &mut self.open {
            open.attempts += 1;
            open.state_bytes += step.state_bytes;
            open.last_at = at;
        }
        let step_id = self.open.as_ref().map(|open| open.attempts);
        for (at, phase, body) in step.events {
            if !self.append(at, step_id, phase, body, out) {
                return;
            }
        }
        if self.open.as_ref().is_some_and(|open| open.compactor.due()) && !self.take(again, out) {
            return;
        }
        if self.open.as_ref().is_some_and(|open| open.attempts >= SEGMENT_REQUESTS_MAX) {
            self.close(again, out);
        }
    }

    fn open_segment(&mut self, at: Timestamp, out: &mut Vec<Emitted>) {
        if self.open.is_some() {
            return;
        }
        self.segments += 1;
        self.open = Some(OpenSegment {
            run_id: format!("{}.{}", self.run_id, self.segments).into(),
            compactor: Compactor::new(self.thresholds),
            attempts: 0,
            state_bytes: 0,
            last_at: at,
        });
        let started = RunStarted {
            objective: OBJECTIVE.into(),
            done_definition: DoneDefinition(DONE.into()),
            provenance_mode: ProvenanceMode::AuditOnly,
            policy_snapshot_ref: None,
            evidence_namespace: None,
            budgets: None,
        };
        self.append(at, None, Phase::Run, Body::RunStarted(Box::new(started)), out);
    }

    /// Appends one event to the open segment; false when that ended the segment.
    fn append(
        &mut self,
        ts: Timestamp,
        step_id: Option<u64>,
        phase: Phase,
        body: Body,
        out: &mut Vec<Emitted>,
    ) -> bool {
        let Some(open) = &mut self.open else { return false };
        let seq = open.compactor.fold_state().seq + 1;
        let run_id = open.run_id.clone();
        let event =
            RunEvent { run_id, seq, ts, step_id, phase, agent_role: None, given_id: None, body };
        if let Err(error) = open.compactor.fold(&event) {
            self.fail(format!("{event}: {error}"), None, out);
            return false;
        }
        out.push(Emitted::Event(event));
        true
    }

    /// Takes a snapshot; false when that ended the segment.
    fn take(&mut self, again: Rederive<'_>, out: &mut Vec<Emitted>) -> bool {
        let Some(open) = &mut self.open else { return false };
        open.compactor.tell_session(&self.figures);
        let Some(mut built) = open.compactor.build(BuildPass::First, SnapshotForm::Full) else {
            return true;
        };
        if !built.snapshot.passes() {
            if let Some(mut derived) = again(&open.run_id, open.compactor.fold_state().seq) {
                derived.retune(self.thresholds);
                derived.tell_session(&self.figures);
                open.compactor = derived;
            }
            let second = open.compactor.build(BuildPass::Second, SnapshotForm::Full);
            let Some(second) = second else { return true };
            built = second;
        }
        if !built.snapshot.passes() {
            let [failed, stopped] = stop_events(&built.snapshot, open.compactor.fold_state());
            let names: Vec<_> =
                built.snapshot.failed_checks().map(|check| check.name.clone()).collect();
            out.extend([Emitted::Event(failed), Emitted::Event(stopped)]);
            let message = format!("its snapshot failed {}", names.join(", "));
            self.fail(message, Some(Box::new(built.snapshot)), out);
            return false;
        }
        open.compactor.adopt(built.previous.clone());
        let written = SnapshotWritten {
            snapshot_id: built.snapshot.snapshot_id.as_str().into(),
            sequence: built.snapshot.sequence,
        };
        let at = open.last_at;
        out.push(Emitted::Snapshot(Box::new(built)));
        self.append(at, None, Phase::Checkpoint, Body::SnapshotWritten(written), out)
    }

    fn close(&mut self, again: Rederive<'_>, out: &mut Vec<Emitted>) {
        let Some(at) = self.open.as_ref().map(|open| open.last_at) else { return };
        let news = self
            .open
            .as_ref()
            .is_some_and(|open| !open.compactor.fold_state().window.steps.is_empty());
        if news && !self.take(again, out) {
            return;
        }
        let stopped = RunStopped { stop_reason: RunStopReason::ObjectiveAchieved, message: None };
        self.append(at, None, Phase::Run, Body::RunStopped(stopped), out);
        self.open = None;
    }

    fn fail(&mut self, message: String, snapshot: Option<Box<Snapshot>>, out: &mut Vec<Emitted>) {
        if let Some(open) = self.open.take() {
            out.push(Emitted::SegmentFailed { run_id: open.run_id, message, snapshot });
        }
    }
}

impl StepEvents {
    fn resolve(&mut self, request_id: &SharedText, attempt: &InFlight) {
        let at = attempt.resolved_at;
        let chunks: Vec<SharedText> =
            attempt.sources.iter().flat_map(|source| source.chunk_ids.iter().cloned()).collect();
        let listed: Vec<SharedText> = chunks.iter().take(EVENT_CHUNKS_MAX).cloned().collect();
        let manifest = ContextManifest {
            manifest_id: format!("cm_{}", &sha256(format!("{request_id}@{at}")).hex()[..16]).into(),
            candidate_chunk_ids: listed.clone(),
            selected_chunk_ids: listed,
            excluded: Vec::new(),
            filters: json!(null),
            reranker: None,
            acceptance_threshold: None,
            max_score: None,
        };
        self.events.push((at, Phase::Compile, Body::Manifest(Box::new(manifest))));
        for source in &attempt.sources {
            self.see(at, source);
        }
        let planned = PlanDone {
            plan_id: request_id.clone(),
            action_type: "SYNTHESIZE".into(),
            action_signature: None,
        };
        self.events.push((at, Phase::Plan, Body::PlanDone(planned)));
    }

    fn see(&mut self, at: Timestamp, source: &SourceRead) {
        self.state_bytes += item_bytes(&source.source_id);
        self.state_bytes += source.chunk_ids.iter().map(|id| item_bytes(id)).sum::<usize>();
        let mut batches: Vec<&[SharedText]> = source.chunk_ids.chunks(EVENT_CHUNKS_MAX).collect();
        if batches.is_empty() {
            batches.push(&[]);
        }
        for batch in batches {
            let (source_id, chunk_ids) = (source.source_id.clone(), batch.to_vec());
            let seen = Body::ChunksSeen(ChunksSeen { source_id, chunk_ids });
            self.events.push((at, Phase::Act, seen));
        }
    }

    fn claim(
        &mut self,
        at: Timestamp,
        summary_id: &SharedText,
        (what, sources): (&SharedText, u64),
        pointers: &[CitedSpan],
    ) {
        let sources = match sources {
            1 => "1 source".to_owned(),
            _ => format!("{sources} sources"),
        };
        let statement = SharedText::from(format!("{what}, from {sources}"));
        self.state_bytes += CLAIM_BYTES + json_bytes(summary_id) + json_bytes(&statement);
        let claim_id = summary_id.clone();
        let added = ClaimAdded { claim_id: claim_id.clone(), statement, supersedes: None };
        self.events.push((at, Phase::Observe, Body::ClaimAdded(added)));
        let exact = pointers.iter().filter(|pointer| pointer.exact);
        let loose = pointers.iter().filter(|pointer| !pointer.exact);
        for pointer in exact.chain(loose).take(CLAIM_POINTERS_MAX) {
            let evidence = pointer.evidence.clone();
            self.state_bytes += POINTER_BYTES
                + json_bytes(&evidence.evidence_id)
                + json_bytes(&evidence.chunk_id)
                + 2 * item_bytes(&evidence.chunk_id)
                + item_bytes(&evidence.source_id);
            let attached = EvidenceAttached { claim_id: claim_id.clone(), evidence };
            self.events.push((at, Phase::Observe, Body::EvidenceAttached(Box::new(attached))));
        }
        if pointers.iter().any(|pointer| pointer.exact) {
            let ruled = ClaimRuled { claim_id, reason: None };
            self.events.push((at, Phase::Observe, Body::ClaimVerified(ruled)));
        }
    }

    fn fail(&mut self, at: Timestamp, failure: FailureRecorded) {
        self.state_bytes += FAILURE_BYTES
            + json_bytes(&failure.signal_type)
            + json_bytes(&failure.fingerprint)
            + json_bytes(&failure.place)
            + json_bytes(&failure.why);
        self.events.push((at, Phase::Act, Body::FailureRecorded(Box::new(failure))));
    }

    fn observe(&mut self, at: Timestamp, progress: bool) {
        let observed = ObserveDone { progress, next_actions: Vec::new() };
        self.events.push((at, Phase::Observe, Body::ObserveDone(observed)));
    }
}

// Upper bounds of the size of a record in the file form besides its strings: keys, punctuation,
// indentation and the longest numbers.
const CLAIM_BYTES: usize = 180;
const POINTER_BYTES: usize = 260;
const FAILURE_BYTES: usize = 340;

fn json_bytes(text: &str) -> usize {
    let plain = text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    match plain {
        true => text.len() + 2,
        false => serde_json::to_string(text).map_or(0, |json| json.len()),
    }
}

/// One string in a coverage list: indentation, comma, line end.
fn item_bytes(text: &str) -> usize {
    json_bytes(text) + 12
}

#[cfg(test)]
impl ServiceRun {
    /// Damages the open segment in memory, so that its next snapshot fails.
    pub(crate) fn forget_evidence(&mut self) {
        if let Some(open) = &mut self.open {
            open.compactor.forget_evidence();
        }
    }
}

#[cfg(test)]
mod tests;
