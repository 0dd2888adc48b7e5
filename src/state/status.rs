//! The life of a request as one table: which event may meet which status, and what follows.
//!
//! See docs/adr/0035-pausing-intake-and-starts.md.
//! See docs/adr/0040-input-errors-after-acceptance.md.

use super::event::Event;
use crate::contract::vocabulary::AckStatus;

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
    /// A try is under way.
    Running = 3,
    /// A try failed; the next may start when the delay is over.
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
    /// Never accepted: no such flow.
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
    pub fn from_code(code: u8) -> Option<Status> {
        Status::ALL.into_iter().find(|status| *status as u8 == code)
    }

    /// Whether something is still to come.
    pub fn is_open(self) -> bool {
        (self as u8) < Status::Completed as u8
    }

    /// Whether the request was never accepted.
    pub fn is_rejection(self) -> bool {
        matches!(self, Status::RejectedFlow | Status::RejectedInput)
    }

    /// Whether the ending leaves an output to point at.
    pub fn has_output(self) -> bool {
        matches!(self, Status::Completed | Status::Duplicate)
    }

    /// Whether the same request may be tried again as a new acceptance.
    pub fn may_start_over(self) -> bool {
        !self.is_open() && !self.has_output()
    }

    /// The status an event leads to, or `None` when the two cannot meet.
    ///
    /// `from` is `None` for events that bring a request in.
    pub fn after(from: Option<Status>, event: &Event) -> Option<Status> {
        use Status::{Backoff, Held, Parked, Running, Waiting};
        match (from, event) {
            (None, Event::RequestAccepted(_)) => Some(Waiting),
            (None, Event::RequestParked { .. }) => Some(Parked),
            (None, Event::DuplicateReceived { .. }) => Some(Status::Duplicate),
            (None, Event::RequestRejected { status, .. }) => match status {
                AckStatus::RejectedUnknownFlow => Some(Status::RejectedFlow),
                AckStatus::RejectedInvalidInput => Some(Status::RejectedInput),
                _ => None,
            },
            (Some(Parked), Event::ParkedAccepted { .. }) => Some(Waiting),
            (Some(Waiting | Backoff), Event::AttemptStarted { .. }) => Some(Running),
            (Some(Waiting), Event::DelayEnded { .. }) => Some(Waiting),
            (Some(Backoff), Event::DelayEnded { .. }) => Some(Backoff),
            (Some(Running), Event::InputResolved { .. } | Event::ModelResponded { .. }) => {
                Some(Running)
            }
            (Some(Running), Event::WorkHeld { .. }) => Some(Held),
            (Some(Held), Event::WorkReleased { .. }) => Some(Waiting),
            (Some(Running), Event::SummaryProduced { .. }) => Some(Status::Completed),
            (Some(Running), Event::RequestSkipped { .. }) => Some(Status::Skipped),
            (Some(Running), Event::AttemptFailed { retry_at: Some(_), .. }) => Some(Backoff),
            (Some(Running), Event::AttemptFailed { status, .. }) => match status {
                AckStatus::FailedPermanent => Some(Status::Failed),
                AckStatus::RejectedInvalidInput => Some(Status::FailedInput),
                _ => None,
            },
            (Some(Parked | Held | Running), Event::RequestDuplicated { .. }) => {
                Some(Status::Duplicate)
            }
            (Some(from), Event::RequestCancelled { .. }) if from.is_open() => {
                Some(Status::Cancelled)
            }
            _ => None,
        }
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

    #[test]
    fn nothing_follows_an_ending() {
        let request = crate::contract::ids::Seq(1);
        let events = [
            Event::AttemptStarted { request, attempt: 1 },
            Event::WorkReleased { request },
            Event::DelayEnded { request },
        ];
        for status in Status::ALL.into_iter().filter(|status| !status.is_open()) {
            for event in &events {
                assert_eq!(Status::after(Some(status), event), None, "{status:?} {event:?}");
            }
        }
    }
}
