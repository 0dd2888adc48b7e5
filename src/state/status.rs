//! Where a request stands.

use crate::contract::vocabulary::words;

words! {
    /// Where a request stands.
    ///
    /// `Waiting` covers both "its time has not come" and "ready": which of the two is a question of
    /// the clock, not of a fact.
    Status {
        /// Taken in; waits for another request with the same key.
        Parked = 1 "parked",
        /// Accepted; may start when its time has come.
        Waiting = 2 "waiting",
        /// An attempt is under way.
        Running = 3 "running",
        /// An attempt failed; the next one may start when the delay is over.
        Backoff = 4 "backoff",
        /// Waits for another request that makes the same item.
        Held = 5 "held",
        /// Ended with an item.
        Completed = 10 "completed",
        /// Ended: rightly not summarized.
        Skipped = 11 "skipped",
        /// Ended: failed for good.
        Failed = 12 "failed_permanent",
        /// Ended: its input turned out to be invalid after it was accepted.
        FailedInput = 13 "failed_input",
        /// Ended: the output existed.
        Duplicate = 14 "duplicate",
        /// Ended by an operator.
        Cancelled = 15 "cancelled",
        /// Not accepted: the flow does not exist.
        RejectedFlow = 16 "rejected_unknown_flow",
        /// Never accepted: invalid input.
        RejectedInput = 17 "rejected_invalid_input",
    }
}

impl Status {
    /// Whether the request has not ended.
    pub(crate) fn is_open(self) -> bool {
        (self as u8) < Status::Completed as u8
    }

    /// Whether the request was never accepted.
    pub(crate) fn is_rejection(self) -> bool {
        matches!(self, Status::RejectedFlow | Status::RejectedInput)
    }

    /// Whether the ending leaves an output to point at.
    pub(crate) fn has_output(self) -> bool {
        matches!(self, Status::Completed | Status::Duplicate)
    }

    /// Whether the same request may be tried again as a new acceptance.
    pub(crate) fn may_start_over(self) -> bool {
        !self.is_open() && !self.has_output()
    }
}
