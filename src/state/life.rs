//! The life of a request as one table: which event may meet which status, and what follows.
//!
//! See docs/adr/0035-pausing-intake-and-starts.md.
//! See docs/adr/0040-input-errors-after-acceptance.md.

use super::event::Event;
use super::status::Status;
use crate::contract::vocabulary::AckStatus;

impl Status {
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
            (Some(Waiting | Backoff), Event::KeyYielded { .. }) => Some(Parked),
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
    fn no_event_follows_the_end_of_a_request() {
        let request = crate::contract::ids::Seq(1);
        let events = [
            Event::AttemptStarted { request, attempt: 1 },
            Event::WorkReleased { request },
            Event::DelayEnded { request },
        ];
        for status in Status::ALL.iter().copied().filter(|status| !status.is_open()) {
            for event in &events {
                assert_eq!(Status::after(Some(status), event), None, "{status:?} {event:?}");
            }
        }
    }
}
