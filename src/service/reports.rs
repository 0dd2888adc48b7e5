//! Input: reports of workers.

use std::time::Duration;

use crate::contract::vocabulary::ReasonCode;
use crate::state::Status;
use crate::state::decide::{Outcome, Report, RetryHint};
use crate::work::other_workers::{FromOthers, Unasked};
use crate::work::pool::StartedAttempt;

use super::budget;
use super::error::ServiceError;
use super::state::ServiceLoop;

/// Most reports taken before the loop looks at questions and lines again.
const REPORTS_PER_TURN: usize = 4096;

/// How long a request whose source may be on a host that is away waits, at least and at most.
const AWAY_MIN: Duration = Duration::from_secs(5);
const AWAY_STEP_MAX: Duration = Duration::from_secs(60);

/// Whether an attempt ended because this host does not have what the request names. Another one may have it.
fn lacks_source(report: &Report) -> bool {
    let Outcome::Failed(failed) = &report.outcome else { return false };
    matches!(
        failed.reason,
        Some(
            ReasonCode::UnknownSourceId
                | ReasonCode::MissingUpstreamManifest
                | ReasonCode::SelectionManifestMissing
        )
    )
}

/// What this host found counts, when every host was asked. A host that could not be asked may have the source, so the
/// request is put off: without counting the attempt while a host is away, which ends with the time that the host is
/// waited for, and as an attempt that failed when a host runs and does not get to it.
fn put_off(mut report: Report, unasked: &[Unasked]) -> Report {
    let Outcome::Failed(failed) = &mut report.outcome else { return report };
    let longest = unasked.iter().map(|host| host.away).max();
    failed.again = match longest {
        None => return report,
        Some(None) => RetryHint::Later,
        // The longer it is away, the less often it is looked for.
        Some(Some(away)) => {
            RetryHint::After(away.clamp(AWAY_MIN, AWAY_STEP_MAX).as_millis() as i64)
        }
    };
    let told = |Unasked { host, away }: &Unasked| match away {
        None => format!("{host} may have it, and did not get to it"),
        Some(away) => {
            format!("{host} may have it, and was not heard of for {} s", away.as_secs())
        }
    };
    let told: Vec<String> = unasked.iter().map(told).collect();
    failed.message = format!("{}; the host {}", failed.message, told.join("; the host "));
    report
}

impl ServiceLoop {
    pub(super) fn poll_reports(&mut self) -> Result<(), ServiceError> {
        for _ in 0..REPORTS_PER_TURN {
            let Ok(report) = self.attempts.reports.try_recv() else { break };
            self.take_report(report)?;
        }
        let from_others = self.attempts.inbox_of_others();
        for told in from_others.try_iter().take(REPORTS_PER_TURN) {
            self.take_from_others(told)?;
        }
        Ok(())
    }

    pub(super) fn take_from_others(&mut self, told: FromOthers) -> Result<(), ServiceError> {
        match told {
            FromOthers::Report(report) => self.take_report(report),
            FromOthers::Returned(started) => {
                if self.comes_back(&started) {
                    self.begin_here(started);
                }
                Ok(())
            }
            FromOthers::NotFound { started, unasked } => {
                if !self.comes_back(&started) {
                    return Ok(());
                }
                let others = self.attempts.others.as_mut();
                match others.and_then(|all| all.asked.remove(&started.request)) {
                    Some(report) => self.count_report(put_off(report, &unasked)),
                    None => Ok(()),
                }
            }
        }
    }

    /// Whether an attempt that the others give back goes on here. With a stop it stays open for the next session.
    fn comes_back(&mut self, started: &StartedAttempt) -> bool {
        let others = self.attempts.others.as_mut();
        let had_it = others.is_some_and(|all| all.take_back(started));
        had_it && !self.service.stop.is_raised() && self.is_under_way(started)
    }

    fn is_under_way(&self, started: &StartedAttempt) -> bool {
        let state = self.engine.state();
        let open = state.open_request(started.request).filter(|_| state.epoch() == started.epoch);
        open.is_some_and(|open| {
            open.row.status == Status::Running && open.row.attempts == started.attempt
        })
    }

    pub(super) fn take_report(&mut self, report: Report) -> Result<(), ServiceError> {
        let (others, has_batches) =
            (self.attempts.others.as_mut(), self.service.config.has_batches());
        match lacks_source(&report) && others.is_some_and(|others| others.ask(&report, has_batches))
        {
            true => Ok(()),
            false => self.count_report(report),
        }
    }

    fn count_report(&mut self, report: Report) -> Result<(), ServiceError> {
        let now = self.now();
        let (request, attempt) = (report.request, report.attempt);
        let (resolved, answered) = match &report.outcome {
            Outcome::Resolved { .. } => (true, None),
            Outcome::Responded { call, .. } => (false, Some(*call)),
            _ => (false, None),
        };
        let counted = self.engine.report(report, now)?;
        budget::after_report(&mut self.engine, &mut self.attempts.begun_before, request, now)?;
        // A report that does not count belongs to an attempt that has ended. No event of it will be
        // committed, so a worker that waits for one must be released here.
        if let Some(call) = answered.filter(|_| !counted) {
            self.attempts.pool.answered(request, &call);
        }
        if resolved && !counted {
            self.attempts.pool.drop_attempt(request, attempt);
        }
        Ok(())
    }
}
