//! The fold of one run: events in dense order, one at a time, into the working state, the ledger
//! and the counts since the last snapshot.
//!
//! Contract: a pure function of (state, event). A verbose event only moves the position. An event
//! that the state cannot accept is an error and changes nothing.

use super::event::{Body, Class, RunEvent};
use super::evidence::{Place, evidence_id, is_derived};
use super::payload::*;
use super::session_figures::SessionFigures;
use super::state::{
    ClaimState, ClaimStatus, ConflictState, ConstraintState, EvidenceLedger, FailureState,
    LedgerClaim, Refs, RunState,
};
use super::text::SharedText;
use super::window::{SinceSnapshot, Terminal};
use crate::contract::hash::Digest;
use crate::contract::time::Timestamp;

/// Most next actions that a snapshot keeps.
pub(crate) const NEXT_ACTIONS_MAX: usize = 3;

/// Why the state cannot accept an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("run_id is {found}, but this log belongs to the run {expected}")]
    OtherRun { expected: SharedText, found: SharedText },
    /// A line is missing or repeated.
    #[error("seq is {found}, expected {expected}: the log has a gap or a repeat")]
    NotDense { expected: u64, found: u64 },
    /// The first event that is not verbose must start the run.
    #[error("the run has not started: RUN_STARTED must come first")]
    NotStarted,
    /// An event names an id that no earlier event introduced.
    #[error("unknown {kind} id {id}")]
    Unknown { kind: &'static str, id: SharedText },
    /// An event introduces an id again with other content.
    #[error("{kind} id {id} was already used with other content")]
    Reused { kind: &'static str, id: SharedText },
    /// An event changes a claim that is retracted.
    #[error("claim {id} was retracted and cannot change any more")]
    Retracted { id: SharedText },
}

fn unknown(kind: &'static str, id: &SharedText) -> InputError {
    InputError::Unknown { kind, id: id.clone() }
}

fn reused(kind: &'static str, id: &SharedText) -> InputError {
    InputError::Reused { kind, id: id.clone() }
}

/// What must never change inside a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Invariants {
    /// The objective of the run.
    pub objective: SharedText,
    pub(crate) done_definition: DoneDefinition,
}

/// Counts that a person should see and that no snapshot contains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notices {
    /// Verbose events of unknown types.
    pub unknown_types: u64,
    /// Derived evidence ids that do not match their chunk and span.
    pub(crate) mismatched_evidence: u64,
}

/// A run folded up to one position of its log.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFold {
    /// `None` before the first event.
    pub run_id: Option<SharedText>,
    pub seq: u64,
    /// Time of the last event that is not verbose.
    pub(crate) last_ts: Timestamp,
    pub newest_step: u64,
    /// The newest step at the last snapshot.
    pub step_at_snapshot: u64,
    /// Sequence of the next snapshot: the stamp of every change until then.
    pub(crate) stamp: u64,
    /// The latest `RUN_STARTED`, with policy changes applied.
    pub started: Option<RunStarted>,
    /// The first `RUN_STARTED`.
    pub first: Option<Invariants>,
    /// True right after an `OBSERVE_DONE`.
    pub(crate) at_step_end: bool,
    pub state: RunState,
    pub ledger: EvidenceLedger,
    pub window: SinceSnapshot,
    pub notices: Notices,
    /// What the service's own session did so far.
    pub(crate) session: Option<SessionFigures>,
    /// True when evidence arrived without a namespace.
    pub(crate) namespace_missing: bool,
}

impl Default for RunFold {
    fn default() -> Self {
        RunFold {
            run_id: None,
            seq: 0,
            last_ts: Timestamp::default(),
            newest_step: 0,
            step_at_snapshot: 0,
            stamp: 1,
            started: None,
            first: None,
            at_step_end: false,
            state: RunState::default(),
            ledger: EvidenceLedger::default(),
            window: SinceSnapshot::default(),
            notices: Notices::default(),
            session: None,
            namespace_missing: false,
        }
    }
}

impl RunFold {
    /// Folds the next event of the log.
    pub fn fold(&mut self, event: &RunEvent) -> Result<(), InputError> {
        self.check_place(event)?;
        let class = event.class();
        if class == Class::Verbose {
            self.seq = event.seq;
            self.run_id.get_or_insert_with(|| event.run_id.clone());
            if let Body::Verbose { known: false, .. } = event.body {
                self.notices.unknown_types += 1;
            }
            return Ok(());
        }
        if self.started.is_none() && !matches!(event.body, Body::RunStarted(_)) {
            return Err(InputError::NotStarted);
        }
        self.apply(event)?;
        self.seq = event.seq;
        self.run_id.get_or_insert_with(|| event.run_id.clone());
        self.last_ts = event.ts;
        self.at_step_end = matches!(event.body, Body::ObserveDone(_));
        self.window.enter_step(event.step_id);
        self.newest_step = self.newest_step.max(event.step_id.unwrap_or(0));
        Ok(())
    }

    /// True when the event begins a step newer than any before it.
    pub(crate) fn begins_newer_step(&self, event: &RunEvent) -> bool {
        event.class() != Class::Verbose && event.step_id.is_some_and(|step| step > self.newest_step)
    }

    fn check_place(&self, event: &RunEvent) -> Result<(), InputError> {
        if let Some(expected) = &self.run_id
            && *expected != event.run_id
        {
            let (expected, found) = (expected.clone(), event.run_id.clone());
            return Err(InputError::OtherRun { expected, found });
        }
        let expected = self.seq + 1;
        if event.seq != expected {
            return Err(InputError::NotDense { expected, found: event.seq });
        }
        Ok(())
    }

    fn apply(&mut self, event: &RunEvent) -> Result<(), InputError> {
        let step = event.step_id;
        match &event.body {
            Body::RunStarted(started) => self.start(started),
            Body::PlanDone(_) => self.count(event, Terminal::Plan),
            Body::ActDone(_) => self.count(event, Terminal::Act),
            Body::ObserveDone(observed) => {
                self.count(event, Terminal::Observe);
                self.window.next_actions =
                    observed.next_actions.iter().take(NEXT_ACTIONS_MAX).cloned().collect();
            }
            Body::Manifest(manifest) => {
                self.window.note_manifest(step.unwrap_or(0), manifest);
                for chunk in &manifest.selected_chunk_ids {
                    self.state.coverage.see_chunk(chunk);
                }
            }
            Body::ChunksSeen(seen) => {
                self.state.coverage.see_source(&seen.source_id, self.stamp);
                for chunk in &seen.chunk_ids {
                    self.state.coverage.see_chunk(chunk);
                }
            }
            Body::ClaimAdded(added) => return self.add_claim(added),
            Body::EvidenceAttached(attached) => return self.attach(step, attached),
            Body::ClaimVerified(ruled) => return self.rule(ruled, ClaimStatus::Verified),
            Body::ClaimRetracted(ruled) => return self.rule(ruled, ClaimStatus::Retracted),
            Body::ConflictRecorded(recorded) => return self.add_conflict(recorded),
            Body::ConflictResolved(resolved) => {
                let conflict = self
                    .state
                    .conflicts
                    .get_mut(&resolved.conflict_id)
                    .ok_or_else(|| unknown("conflict", &resolved.conflict_id))?;
                conflict.resolution = Some(resolved.resolution.clone());
                self.state.changes.conflicts.touch(&resolved.conflict_id, self.stamp);
            }
            Body::QuestionOpened(question) => return self.open_question(question),
            Body::QuestionClosed(question) => {
                if !self.state.questions.close(&question.question_id) {
                    return Err(unknown("question", &question.question_id));
                }
                self.window.deltas.questions_closed += 1;
            }
            Body::ConstraintSet(set) => self.set_constraint(set),
            Body::ConstraintViolated(violated) => {
                if let Some(held) = self.state.constraints.get_mut(&violated.constraint_id) {
                    held.violations += 1;
                    self.state.changes.constraints.touch(&violated.constraint_id, self.stamp);
                }
            }
            Body::FailureRecorded(recorded) => return self.record_failure(recorded),
            Body::FailureResolved(resolved) => return self.resolve_failure(resolved),
            Body::PolicyChanged(changed) => {
                if let Some(started) = &mut self.started {
                    started.policy_snapshot_ref.clone_from(&changed.policy_snapshot_ref);
                }
            }
            Body::RunStopped(_)
            | Body::SnapshotWritten(_)
            | Body::CompactionFailed(_)
            | Body::Noted(_)
            | Body::Verbose { .. } => {}
        }
        Ok(())
    }

    fn start(&mut self, started: &RunStarted) {
        self.first.get_or_insert_with(|| Invariants {
            objective: started.objective.clone(),
            done_definition: started.done_definition.clone(),
        });
        self.started = Some(started.clone());
    }

    fn count(&mut self, event: &RunEvent, terminal: Terminal) {
        self.window.count(event.step_id.unwrap_or(0), terminal, event.agent_role);
    }

    fn add_claim(&mut self, added: &ClaimAdded) -> Result<(), InputError> {
        if let Some(held) = self.ledger.claims.get(&added.claim_id) {
            let same = held.statement == added.statement;
            return if same { Ok(()) } else { Err(reused("claim", &added.claim_id)) };
        }
        if let Some(older) = &added.supersedes
            && !self.ledger.claims.contains_key(older)
        {
            return Err(unknown("claim", older));
        }
        let status = ClaimStatus::Candidate;
        let statement = added.statement.clone();
        let held = LedgerClaim { statement: statement.clone(), status };
        self.ledger.claims.insert(added.claim_id.clone(), held);
        let supersedes = added.supersedes.clone();
        let claim = ClaimState { status, statement, refs: Refs::new(), supersedes };
        self.state.claims.insert(added.claim_id.clone(), claim);
        self.state.claim_changed(&added.claim_id, self.stamp);
        self.window.deltas.claims_added += 1;
        Ok(())
    }

    fn attach(&mut self, step: Option<u64>, attached: &EvidenceAttached) -> Result<(), InputError> {
        let EvidencePointer { evidence_id: id, chunk_id, span, source_id, .. } = &attached.evidence;
        let place = Place { chunk_id: chunk_id.clone(), span: *span };
        if self.ledger.evidence.get(id).is_some_and(|known| *known != place) {
            return Err(reused("evidence", id));
        }
        let claim = self
            .state
            .claims
            .get_mut(&attached.claim_id)
            .ok_or_else(|| unknown("claim", &attached.claim_id))?;
        if claim.refs.insert(id.clone(), place.clone()).is_none() {
            self.window.deltas.evidence_attached += 1;
            let fresh = (attached.claim_id.clone(), id.clone());
            self.state.changes.fresh_refs.insert(fresh);
            self.state.claim_changed(&attached.claim_id, self.stamp);
        }
        if !self.ledger.evidence.contains_key(id) {
            self.judge_id(&attached.evidence);
            self.ledger.evidence.insert(id.clone(), place);
        }
        self.state.coverage.see_source(source_id, self.stamp);
        self.state.coverage.cite(chunk_id);
        self.window.note_evidence(step);
        Ok(())
    }

    /// Recomputes a derived id when its namespace is known. Foreign ids are accepted as they are.
    fn judge_id(&mut self, evidence: &EvidencePointer) {
        let of_run = self.started.as_ref().and_then(|started| started.evidence_namespace.as_ref());
        let Some(namespace) = evidence.evidence_namespace.as_ref().or(of_run) else {
            self.namespace_missing = true;
            return;
        };
        if !is_derived(&evidence.evidence_id) {
            return;
        }
        let quote = evidence.quote_sha256.as_ref().and_then(|hex| hex.parse::<Digest>().ok());
        let expected = evidence_id(namespace, &evidence.chunk_id, evidence.span, quote);
        if *evidence.evidence_id != *expected {
            self.notices.mismatched_evidence += 1;
        }
    }

    fn rule(&mut self, ruled: &ClaimRuled, status: ClaimStatus) -> Result<(), InputError> {
        let id = &ruled.claim_id;
        let held = self.ledger.claims.get_mut(id).ok_or_else(|| unknown("claim", id))?;
        let claim = self.state.claims.get_mut(id).ok_or_else(|| unknown("claim", id))?;
        if held.status == status {
            return Ok(());
        }
        if held.status == ClaimStatus::Retracted {
            return Err(InputError::Retracted { id: id.clone() });
        }
        if held.status == ClaimStatus::Verified {
            self.state.verified -= 1;
        }
        held.status = status;
        claim.status = status;
        self.state.claim_changed(id, self.stamp);
        match status {
            ClaimStatus::Verified => {
                self.state.verified += 1;
                self.window.deltas.claims_verified += 1;
            }
            _ => self.window.deltas.claims_retracted += 1,
        }
        Ok(())
    }

    fn add_conflict(&mut self, recorded: &ConflictRecorded) -> Result<(), InputError> {
        let conflict = ConflictState {
            description: recorded.description.clone(),
            side_a: self.places(&recorded.side_a_evidence_ids)?,
            side_b: self.places(&recorded.side_b_evidence_ids)?,
            resolution: None,
        };
        if let Some(held) = self.state.conflicts.get(&recorded.conflict_id) {
            let same = held.description == conflict.description
                && held.side_a == conflict.side_a
                && held.side_b == conflict.side_b;
            return if same { Ok(()) } else { Err(reused("conflict", &recorded.conflict_id)) };
        }
        self.state.conflicts.insert(recorded.conflict_id.clone(), conflict);
        self.state.changes.conflicts.touch(&recorded.conflict_id, self.stamp);
        self.window.deltas.conflicts_added += 1;
        Ok(())
    }

    fn places(&self, ids: &[SharedText]) -> Result<Refs, InputError> {
        ids.iter()
            .map(|id| {
                let place = self.ledger.evidence.get(id).ok_or_else(|| unknown("evidence", id))?;
                Ok((id.clone(), place.clone()))
            })
            .collect()
    }

    fn open_question(&mut self, question: &QuestionPayload) -> Result<(), InputError> {
        let id = &question.question_id;
        let text = question.text.as_ref().unwrap_or(id);
        if let Some(held) = self.state.questions.get(id) {
            return if held == text { Ok(()) } else { Err(reused("question", id)) };
        }
        self.state.questions.open(id.clone(), text.clone());
        self.window.deltas.questions_opened += 1;
        Ok(())
    }

    fn set_constraint(&mut self, set: &ConstraintPayload) {
        let text = set.text.clone().unwrap_or_else(|| set.constraint_id.clone());
        match self.state.constraints.get_mut(&set.constraint_id) {
            Some(held) => held.text = text,
            None => {
                let constraint = ConstraintState { text, violations: 0 };
                self.state.constraints.insert(set.constraint_id.clone(), constraint);
            }
        }
        self.state.changes.constraints.touch(&set.constraint_id, self.stamp);
    }

    fn record_failure(&mut self, recorded: &FailureRecorded) -> Result<(), InputError> {
        let id = &recorded.failure_id;
        let primary = self.state.failure_aliases.get(id).unwrap_or(id);
        if let Some(held) = self.state.failures.get(primary)
            && held.fingerprint != recorded.fingerprint
        {
            return Err(reused("failure", id));
        }
        let known = self.state.failures_by_fingerprint.get(&recorded.fingerprint).cloned();
        if let Some(primary) = known {
            if primary != *id {
                self.state.failure_aliases.insert(id.clone(), primary.clone());
                self.state.changes.fresh_aliases.insert(id.clone());
            }
            self.state.changes.failures.touch(&primary, self.stamp);
            if let Some(held) = self.state.failures.get_mut(&primary) {
                held.occurrences += 1;
                held.active = true;
                held.severity = held.severity.max(recorded.severity);
            }
            return Ok(());
        }
        let failure = FailureState {
            category: recorded.signal_type.clone(),
            place: recorded.place.clone(),
            why: recorded.why.clone(),
            severity: recorded.severity,
            active: true,
            occurrences: 1,
            fingerprint: recorded.fingerprint.clone(),
        };
        self.state.failures_by_fingerprint.insert(recorded.fingerprint.clone(), id.clone());
        self.state.failures.insert(id.clone(), failure);
        self.state.changes.failures.touch(id, self.stamp);
        self.window.deltas.failures_added += 1;
        Ok(())
    }

    fn resolve_failure(&mut self, resolved: &FailureResolved) -> Result<(), InputError> {
        let id = &resolved.failure_id;
        let primary = self.state.failure_aliases.get(id).unwrap_or(id);
        let held = self.state.failures.get_mut(primary).ok_or_else(|| unknown("failure", id))?;
        held.active = false;
        self.state.changes.failures.touch(primary, self.stamp);
        Ok(())
    }
}
