//! Input: reports of workers.

use crate::state::decide::{Outcome, Report};

use super::error::ServiceError;
use super::state::ServiceLoop;

/// Most reports taken before the loop looks at questions and lines again.
const REPORTS_PER_TURN: usize = 4096;

impl ServiceLoop {
    pub(super) fn poll_reports(&mut self) -> Result<(), ServiceError> {
        for _ in 0..REPORTS_PER_TURN {
            let Ok(report) = self.attempts.reports.try_recv() else { break };
            self.take_report(report)?;
        }
        Ok(())
    }

    pub(super) fn take_report(&mut self, report: Report) -> Result<(), ServiceError> {
        let now = self.now();
        let (request, attempt) = (report.request, report.attempt);
        let (resolved, answered) = match &report.outcome {
            Outcome::Resolved { .. } => (true, None),
            Outcome::Responded { call, .. } => (false, Some(*call)),
            _ => (false, None),
        };
        let counted = self.engine.report(report, now)?;
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
