//! What a worker reports, as bytes for the host that leads, and back.
//!
//! Contract. A report travels as the event that it becomes, in the form that the log has, with its body. The
//! leader fills in what only it knows. The receiver checks all bytes.
//!
//! ```text
//! u8 version = 1 · u8 kind
//! kind 0: the job is given back, and nothing follows
//! kind 1: u8 hint · i64 milliseconds       whether another attempt may help; zero for other outcomes
//!         u16 tag · u32 version · u32 length · payload       the event
//!         the body
//! [32] sha256 of everything before
//! ```

use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::vocabulary::{AckStatus, Warnings};
use crate::log::codec::{self, CodecError};
use crate::state::decide::{Failed, Outcome, RetryHint};
use crate::state::event::{AckHead, Event};

const VERSION: u8 = 1;
const HASH: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum OutcomeError {
    #[error("a report was changed or cut")]
    Damaged,
    #[error("a report has form {0}, and this program reads form {VERSION}")]
    Form(u8),
    #[error(transparent)]
    Event(#[from] CodecError),
    #[error("a report has an event that no worker reports")]
    Misplaced,
}

/// What a worker says of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerReport {
    Outcome(Outcome),
    /// It cannot carry the job out.
    GivenBack,
}

/// The report for the host that leads.
pub fn pack(told: WorkerReport) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    match told {
        WorkerReport::GivenBack => bytes.push(0),
        WorkerReport::Outcome(outcome) => {
            bytes.push(1);
            let hint = match &outcome {
                Outcome::Failed(failed) => hint_parts(failed.again),
                _ => (0, 0),
            };
            let (event, body) = event_of(outcome);
            let mut payload = Vec::new();
            let (tag, version) = codec::encode_into(&event, &mut payload);
            bytes.push(hint.0);
            bytes.extend_from_slice(&hint.1.to_le_bytes());
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&version.to_le_bytes());
            bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&payload);
            bytes.extend_from_slice(&body);
        }
    }
    let check = sha256(&bytes);
    bytes.extend_from_slice(&check.0);
    bytes
}

/// What a worker reported.
pub fn unpack(bytes: &[u8]) -> Result<WorkerReport, OutcomeError> {
    match bytes.first() {
        Some(&VERSION) | None => {}
        Some(other) => return Err(OutcomeError::Form(*other)),
    }
    let at = bytes.len().checked_sub(HASH).ok_or(OutcomeError::Damaged)?;
    let (content, check) = bytes.split_at(at);
    if sha256(content).0 != *check {
        return Err(OutcomeError::Damaged);
    }
    let mut fields = Fields(content);
    match (fields.array(), fields.array()) {
        (Some([VERSION]), Some([0])) if fields.0.is_empty() => return Ok(WorkerReport::GivenBack),
        (Some([VERSION]), Some([1])) => {}
        _ => return Err(OutcomeError::Damaged),
    }
    let (hint, event, body) = fields.rest().ok_or(OutcomeError::Damaged)?;
    let (tag, version, payload) = event;
    outcome_of(codec::decode(tag, version, payload)?, body, hint).map(WorkerReport::Outcome)
}

type Parts<'b> = (RetryHint, (u16, u32, &'b [u8]), &'b [u8]);

struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_at_checked(N)?;
        self.0 = rest;
        taken.try_into().ok()
    }

    fn rest(&mut self) -> Option<Parts<'b>> {
        let ([hint], ms) = (self.array()?, i64::from_le_bytes(self.array()?));
        let hint = match hint {
            0 => RetryHint::Later,
            1 => RetryHint::After(ms),
            2 => RetryHint::Never,
            3 => RetryHint::InvalidInput,
            _ => return None,
        };
        let tag = u16::from_le_bytes(self.array()?);
        let version = u32::from_le_bytes(self.array()?);
        let length = u32::from_le_bytes(self.array()?) as usize;
        let (payload, body) = self.0.split_at_checked(length)?;
        Some((hint, (tag, version, payload), body))
    }
}

fn hint_parts(hint: RetryHint) -> (u8, i64) {
    match hint {
        RetryHint::Later => (0, 0),
        RetryHint::After(ms) => (1, ms),
        RetryHint::Never => (2, 0),
        RetryHint::InvalidInput => (3, 0),
    }
}

/// The event that the outcome becomes, with nothing in the members that the leader fills in.
fn event_of(outcome: Outcome) -> (Event, Vec<u8>) {
    let (request, attempt, supersedes) = (Seq(0), 0, None);
    let head = AckHead { request_id: String::new(), key: String::new(), line: 0, offset: 0 };
    let event = match outcome {
        Outcome::Resolved { summary, warnings, input, sources } => {
            Event::InputResolved { request, attempt, summary, warnings, input, sources }
        }
        Outcome::Responded { call, body, answer } => {
            let body_sha256 = sha256(&body);
            return (Event::ModelResponded { request, attempt, call, body_sha256, answer }, body);
        }
        Outcome::FlowUsed { flow_id, variant, pack_hash } => {
            Event::FlowUsed { flow_id, variant, pack_hash, replaces: None }
        }
        Outcome::Charged(charge) => Event::ModelCharged { request, attempt, charge },
        Outcome::PassedOver(failure) => Event::ProviderPassedOver { request, attempt, failure },
        Outcome::Learned(learned) => Event::DialectLearned(learned),
        Outcome::Produced { summary, item, warnings, input, provenance } => {
            let body_sha256 = sha256(&item);
            let event = Event::SummaryProduced {
                request,
                attempt,
                head,
                summary,
                body_sha256,
                warnings,
                supersedes,
                input,
                provenance,
            };
            return (event, item);
        }
        Outcome::Skipped { reason, warnings, input } => {
            Event::RequestSkipped { request, attempt, head, reason, warnings, supersedes, input }
        }
        Outcome::Failed(Failed { again: _, reason, cause, message, input, error }) => {
            Event::AttemptFailed {
                request,
                attempt,
                head,
                status: AckStatus::FailedTransient,
                reason,
                cause,
                message,
                retry_at: None,
                counted: true,
                warnings: Warnings::default(),
                supersedes,
                input,
                error,
            }
        }
    };
    (event, Vec::new())
}

fn outcome_of(event: Event, body: &[u8], again: RetryHint) -> Result<Outcome, OutcomeError> {
    let stated = |hash: Digest| match sha256(body) == hash {
        true => Ok(body.to_vec()),
        false => Err(OutcomeError::Damaged),
    };
    Ok(match event {
        Event::InputResolved { summary, warnings, input, sources, .. } => {
            Outcome::Resolved { summary, warnings, input, sources }
        }
        Event::ModelResponded { call, body_sha256, answer, .. } => {
            Outcome::Responded { call, body: stated(body_sha256)?, answer }
        }
        Event::FlowUsed { flow_id, variant, pack_hash, replaces: None } => {
            Outcome::FlowUsed { flow_id, variant, pack_hash }
        }
        Event::ModelCharged { charge, .. } => Outcome::Charged(charge),
        Event::ProviderPassedOver { failure, .. } => Outcome::PassedOver(failure),
        Event::DialectLearned(learned) => Outcome::Learned(learned),
        Event::SummaryProduced { summary, body_sha256, warnings, input, provenance, .. } => {
            let item = stated(body_sha256)?;
            Outcome::Produced { summary, item, warnings, input, provenance }
        }
        Event::RequestSkipped { reason, warnings, input, .. } => {
            Outcome::Skipped { reason, warnings, input }
        }
        Event::AttemptFailed { reason, cause, message, input, error, .. } => {
            Outcome::Failed(Failed { again, reason, cause, message, input, error })
        }
        _ => return Err(OutcomeError::Misplaced),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::vocabulary::{FailureCause, ReasonCode};
    use crate::state::event::Charge;

    fn outcomes() -> Vec<Outcome> {
        let failed = |again| {
            Outcome::Failed(Failed {
                again,
                reason: Some(ReasonCode::Timeout),
                cause: Some(FailureCause::Timeout),
                message: "late".to_owned(),
                input: Box::default(),
                error: None,
            })
        };
        let charge = Charge {
            provider: "p".to_owned(),
            model: "m".to_owned(),
            day: crate::contract::time::Day::of_days(20_000).unwrap(),
            input_tokens: 3,
            output_tokens: 4,
            cost_nanos: 5,
            estimated: true,
        };
        vec![
            Outcome::FlowUsed {
                flow_id: "f".to_owned(),
                variant: None,
                pack_hash: Digest([7; 32]),
            },
            Outcome::Charged(charge),
            Outcome::Skipped {
                reason: ReasonCode::SkippedByPolicy,
                warnings: Warnings::default(),
                input: Box::default(),
            },
            failed(RetryHint::Later),
            failed(RetryHint::After(-7)),
            failed(RetryHint::Never),
            failed(RetryHint::InvalidInput),
        ]
    }

    #[test]
    fn a_report_arrives_as_it_was_made() {
        for told in
            outcomes().into_iter().map(WorkerReport::Outcome).chain([WorkerReport::GivenBack])
        {
            assert_eq!(unpack(&pack(told.clone())).unwrap(), told);
        }
    }

    #[test]
    fn a_changed_or_missing_byte_of_a_report_is_an_error() {
        for told in
            outcomes().into_iter().map(WorkerReport::Outcome).chain([WorkerReport::GivenBack])
        {
            let bytes = pack(told);
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(unpack(&changed).is_err(), "byte {at} changed");
                assert!(unpack(&bytes[..at]).is_err(), "{at} bytes");
            }
        }
    }
}
