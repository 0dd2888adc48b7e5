//! One run being compacted: events go in one at a time, and snapshots come out where they are due.
//!
//! The caller asks `due_before` for the next event, folds the event, asks `due`, and builds a
//! snapshot where either returns true. A snapshot changes nothing until the caller has stored it
//! and calls `adopt`; until then the snapshot before stays in force.

use super::build::{self, BuildPass, BuiltSnapshot, SnapshotForm};
use super::event::{Body, Phase, RunEvent};
use super::fold::{InputError, RunFold};
use super::payload::{CompactionFailed, RunStopReason, RunStopped};
use super::previous::Previous;
use super::session_figures::SessionFigures;
use super::snapshot::Snapshot;
use super::text::SharedText;
use super::trigger::Thresholds;
use super::window::SinceSnapshot;

/// A run and its snapshot in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Compactor {
    thresholds: Thresholds,
    fold: RunFold,
    previous: Option<Previous>,
}

impl Compactor {
    /// A run of which nothing is known yet.
    pub fn new(thresholds: Thresholds) -> Compactor {
        Compactor { thresholds, fold: RunFold::default(), previous: None }
    }

    /// A run that continues from a restored fold.
    pub(super) fn resumed(thresholds: Thresholds, fold: RunFold, previous: Previous) -> Compactor {
        Compactor { thresholds, fold, previous: Some(previous) }
    }

    /// The run as folded so far.
    pub fn fold_state(&self) -> &RunFold {
        &self.fold
    }

    /// The thresholds of its trigger.
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// Puts other thresholds in force, from the next event on.
    pub(crate) fn retune(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// True when a snapshot is due before this event is folded: it begins a newer step.
    pub fn due_before(&self, event: &RunEvent) -> bool {
        self.fold.begins_newer_step(event) && self.is_reached()
    }

    /// True when a snapshot is due after the event just folded: it ended a step.
    pub fn due(&self) -> bool {
        self.fold.at_step_end && self.is_reached()
    }

    /// True when something happened since the snapshot in force.
    pub(crate) fn has_news(&self) -> bool {
        self.fold.started.is_some()
            && (self.previous.is_none() || self.fold.window != SinceSnapshot::default())
    }

    /// Folds the next event.
    pub fn fold(&mut self, event: &RunEvent) -> Result<(), InputError> {
        self.fold.fold(event)
    }

    /// Sets what the next snapshot says about the service's own session.
    pub(super) fn tell_session(&mut self, figures: &SessionFigures) {
        self.fold.session = Some(figures.clone());
    }

    /// Builds and judges a snapshot of this moment; `None` before the run has started.
    pub fn build(&self, attempt: BuildPass, form: SnapshotForm) -> Option<BuiltSnapshot> {
        let (started, first) = (self.fold.started.as_ref()?, self.fold.first.as_ref()?);
        let built = build::build(&self.fold, started, first, self.previous.as_ref(), attempt);
        Some(match form {
            SnapshotForm::Full => built,
            SnapshotForm::StrictV1 => build::strict(&built, &self.fold),
        })
    }

    /// Puts a stored snapshot of this moment in force.
    pub fn adopt(&mut self, previous: Previous) {
        let had_chain = self.previous.as_ref().is_some_and(|previous| previous.spill.is_some());
        // A snapshot without a chain says nothing about when its records changed. The first file of
        // a chain lists everything as of its snapshot. A restored run knows no more than that.
        let restamp = match (&previous.spill, had_chain) {
            (None, _) => Some(0),
            (Some(_), false) => Some(previous.sequence),
            (Some(_), true) => None,
        };
        self.fold.state.snapshot_taken(restamp);
        self.fold.stamp = previous.sequence + 1;
        self.fold.window = SinceSnapshot::default();
        self.fold.at_step_end = false;
        self.fold.step_at_snapshot = self.fold.newest_step;
        self.previous = Some(previous);
    }

    fn is_reached(&self) -> bool {
        self.thresholds.reached(&self.fold.window)
    }
}

#[cfg(test)]
impl Compactor {
    /// Spoils the ledger, so that a snapshot with any pointer fails its checks.
    pub(crate) fn forget_evidence(&mut self) {
        self.fold.ledger.evidence.clear();
    }
}

/// The two events that record a run stopped by its gate, to follow `seq` in the run's log.
pub(crate) fn stop_events(failed: &Snapshot, after: &RunFold) -> [RunEvent; 2] {
    let names: Vec<&str> = failed.failed_checks().map(|check| check.name.as_str()).collect();
    let message = format!("snapshot {} failed {}", failed.sequence, names.join(", "));
    let event = |offset: u64, body: Body| RunEvent {
        run_id: failed.run_id.clone(),
        seq: after.seq + offset,
        ts: after.last_ts,
        step_id: None,
        phase: if offset == 1 { Phase::Checkpoint } else { Phase::Run },
        agent_role: None,
        given_id: None,
        body,
    };
    let checks = failed.validation.checks.clone();
    let stopped = RunStopped {
        stop_reason: RunStopReason::SystemError,
        message: Some(SharedText::from(message)),
    };
    [
        event(1, Body::CompactionFailed(CompactionFailed { attempt: 2, checks })),
        event(2, Body::RunStopped(stopped)),
    ]
}
