//! Where a request stands.

/// Where a request stands.
///
/// `Waiting` covers both "its time has not come" and "ready": which of the two is a question of
/// the clock, not of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Status {
    /// Taken in; waits for another request with the same key.
    Parked = 1,
    /// Accepted; may start when its time has come.
    Waiting = 2,
    /// An attempt is under way.
    Running = 3,
    /// An attempt failed; the next one may start when the delay is over.
    Backoff = 4,
    /// Waits for another request that makes the same item.
    Held = 5,
    /// Ended with an item.
    Completed = 10,
    /// Ended: rightly not summarized.
    Skipped = 11,
    /// Ended: failed for good.
    Failed = 12,
    /// Ended: its input turned out to be invalid after it was accepted.
    FailedInput = 13,
    /// Ended: the output existed.
    Duplicate = 14,
    /// Ended by an operator.
    Cancelled = 15,
    /// Not accepted: the flow does not exist.
    RejectedFlow = 16,
    /// Never accepted: invalid input.
    RejectedInput = 17,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 13] = [
        Status::Parked,
        Status::Waiting,
        Status::Running,
        Status::Backoff,
        Status::Held,
        Status::Completed,
        Status::Skipped,
        Status::Failed,
        Status::FailedInput,
        Status::Duplicate,
        Status::Cancelled,
        Status::RejectedFlow,
        Status::RejectedInput,
    ];

    /// The word for people and queries.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Parked => "parked",
            Status::Waiting => "waiting",
            Status::Running => "running",
            Status::Backoff => "backoff",
            Status::Held => "held",
            Status::Completed => "completed",
            Status::Skipped => "skipped",
            Status::Failed => "failed_permanent",
            Status::FailedInput => "failed_input",
            Status::Duplicate => "duplicate",
            Status::Cancelled => "cancelled",
            Status::RejectedFlow => "rejected_unknown_flow",
            Status::RejectedInput => "rejected_invalid_input",
        }
    }

    /// The status with this word.
    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// The status with this number in the log.
    pub(crate) fn from_code(code: u8) -> Option<Status> {
        Status::ALL.into_iter().find(|status| *status as u8 == code)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_round_trip() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(status));
            assert_eq!(Status::from_code(status as u8), Some(status));
        }
        assert_eq!(Status::parse("ready"), None);
    }
}
