//! `summary_ack.v1`: what became of a line, one JCS line per event that says so.
//!
//! An ack is a function of one event and its record; `ack_seq`, `log_head` and `at` are the
//! record's sequence, hash and time, so an ack that a caller keeps is an outside anchor of the log.
//!
//! See docs/adr/0031-acks-from-single-events.md.

use std::borrow::Cow;

use serde::Serialize;

use super::Committed;
use crate::contract::json::one_line;
use crate::contract::vocabulary::{AckStatus, FailureCause, ReasonCode, Stream, Warning, Warnings};
use crate::facts::model::Provenance;
use crate::facts::note::InputNote;
use crate::state::event::{AckHead, Event, SummaryPointer, TakenRequest};

/// Fields in the order JCS demands, so that serializing in order is canonical.
#[derive(Serialize)]
struct Ack<'a> {
    ack_seq: u64,
    at: String,
    attempt: Option<u32>,
    cause: Option<FailureCause>,
    duplicate_of: Option<&'a str>,
    idempotency_key: Option<&'a str>,
    line: Option<u64>,
    log_head: String,
    message: Option<Cow<'a, str>>,
    offset: Option<u64>,
    reason_code: Option<ReasonCode>,
    request_id: Option<&'a str>,
    retry_at: Option<String>,
    schema_version: &'static str,
    status: AckStatus,
    summary: Option<Summary<'a>>,
    supersedes: Option<u64>,
    warnings: Vec<&'static str>,
}

#[derive(Serialize)]
struct Summary<'a> {
    day: String,
    path: String,
    stream: Stream,
    summary_id: &'a str,
}

impl<'a> Summary<'a> {
    fn of(pointer: &'a SummaryPointer) -> Summary<'a> {
        Summary {
            day: pointer.day.to_string(),
            path: pointer.path(),
            stream: pointer.stream,
            summary_id: &pointer.summary_id,
        }
    }
}

/// The ack an event projects to, terminator included; `None` for events that are not the outcome of a request.
pub fn line(committed: &Committed) -> Option<String> {
    let mut ack = outcome(&committed.event)?;
    ack.ack_seq = committed.seq.0;
    ack.at = committed.at.to_string();
    ack.log_head = committed.hash.hex();
    let text = serde_json::to_string(&ack).expect("an ack has string keys and finite numbers");
    let mut text = one_line(text);
    text.push('\n');
    Some(text)
}

/// Where the summary is that an event gave a request.
pub(crate) fn summary_of(event: &Event) -> Option<serde_json::Value> {
    outcome(event)?.summary.and_then(|summary| serde_json::to_value(summary).ok())
}

/// The days of a range which are not published.
fn missing_days(notes: &[InputNote]) -> Option<Cow<'_, str>> {
    notes.iter().find_map(|note| match note {
        InputNote::DaysMissing(missing) => Some(missing.to_string().into()),
        _ => None,
    })
}

fn outcome(event: &Event) -> Option<Ack<'_>> {
    match event {
        Event::LineQuarantined(bad) => Some(Ack {
            line: Some(bad.line),
            offset: Some(bad.offset),
            request_id: bad.request_id.as_deref(),
            message: Some(match bad.errors.first() {
                Some(error) => format!("{}: {error}", bad.reason.as_str()).into(),
                None => bad.reason.as_str().into(),
            }),
            ..blank(AckStatus::RejectedInvalidSchema)
        }),
        Event::RequestAccepted(taken) => Some(about_taken(AckStatus::Accepted, taken)),
        Event::RequestParked { request, behind_request_id, .. } => {
            // Whether the outcome is older than the sources is known when it is there.
            let warnings = request.warnings.without_sources();
            Some(waiting(
                SAME_KEY,
                behind_request_id,
                about(AckStatus::Accepted, &request.head, warnings),
            ))
        }
        Event::KeyYielded { head, behind_request_id, warnings, .. } => {
            Some(waiting(SAME_KEY, behind_request_id, about(AckStatus::Accepted, head, *warnings)))
        }
        Event::WorkHeld { told, .. } => {
            let told = told.as_ref()?;
            let ack = about(AckStatus::Accepted, &told.head, told.warnings.without_sources());
            Some(waiting(SAME_WORK, &told.behind_request_id, ack))
        }
        Event::ParkedAccepted { head, warnings, .. } => {
            Some(about(AckStatus::Accepted, head, *warnings))
        }
        Event::RequestRejected { request, status, reason, message } => Some(Ack {
            reason_code: *reason,
            message: Some(message.into()),
            ..about_taken(*status, request)
        }),
        Event::DuplicateReceived { request, of_request_id, reason, summary, .. } => Some(Ack {
            reason_code: Some(*reason),
            duplicate_of: Some(of_request_id),
            summary: Some(Summary::of(summary)),
            ..about_taken(AckStatus::Duplicate, request)
        }),
        Event::RequestDuplicated {
            head,
            of_request_id,
            reason,
            summary,
            warnings,
            supersedes,
            ..
        } => Some(Ack {
            reason_code: Some(*reason),
            duplicate_of: Some(of_request_id),
            summary: Some(Summary::of(summary)),
            supersedes: supersedes.map(|seq| seq.0),
            ..about(AckStatus::Duplicate, head, *warnings)
        }),
        Event::SummaryProduced {
            attempt,
            head,
            summary,
            warnings,
            supersedes,
            input,
            provenance,
            ..
        } => {
            let is_ignored = warnings.iter().any(|one| one == Warning::ParamIgnored);
            let provenance = provenance.as_deref().filter(|_| is_ignored);
            let ignored = provenance.and_then(Provenance::ignored_params).map(Cow::Borrowed);
            let told = missing_days(&input.notes).into_iter().chain(ignored);
            let told = told.reduce(|one, other| format!("{one}; {other}").into());
            Some(Ack {
                attempt: Some(*attempt),
                message: told,
                summary: Some(Summary::of(summary)),
                supersedes: supersedes.map(|seq| seq.0),
                ..about(AckStatus::Completed, head, *warnings)
            })
        }
        Event::RequestSkipped { attempt, head, reason, warnings, supersedes, input, .. } => {
            Some(Ack {
                attempt: Some(*attempt),
                message: missing_days(&input.notes),
                reason_code: Some(*reason),
                supersedes: supersedes.map(|seq| seq.0),
                ..about(AckStatus::Completed, head, *warnings)
            })
        }
        Event::AttemptFailed {
            attempt,
            head,
            status,
            reason,
            cause,
            message,
            retry_at,
            warnings,
            supersedes,
            ..
        } => Some(Ack {
            attempt: Some(*attempt),
            reason_code: *reason,
            cause: *cause,
            message: Some(message.into()),
            retry_at: retry_at.map(|at| at.to_string()),
            supersedes: supersedes.filter(|_| retry_at.is_none()).map(|seq| seq.0),
            ..about(*status, head, *warnings)
        }),
        Event::RequestCancelled { head, warnings, supersedes, .. } => Some(Ack {
            reason_code: Some(ReasonCode::Cancelled),
            supersedes: supersedes.map(|seq| seq.0),
            ..about(AckStatus::FailedPermanent, head, *warnings)
        }),
        Event::SessionStarted { .. }
        | Event::SessionFinished { .. }
        | Event::AttemptStarted { .. }
        | Event::InputResolved { .. }
        | Event::WorkReleased { .. }
        | Event::ModelResponded { .. }
        | Event::DelayEnded { .. }
        | Event::IntakePaused { .. }
        | Event::IntakeResumed { .. }
        | Event::ConfigReloaded { .. }
        | Event::QuarantineReleased { .. }
        | Event::QueueAdopted { .. }
        | Event::LinesPassed { .. }
        | Event::CheckpointTaken { .. }
        | Event::FlowUsed { .. }
        | Event::ModelCharged { .. }
        | Event::ProviderPassedOver { .. }
        | Event::DayOpened(_)
        | Event::PublishFailed(_)
        | Event::WorkLeft(_)
        | Event::AgentRun(_)
        | Event::Digest(_)
        | Event::Batch(_)
        | Event::DialectLearned(_)
        | Event::SourceBecamePrivate { .. }
        | Event::Forgotten(_)
        | Event::Retention(_)
        | Event::LogRecovered(_)
        | Event::RunRecordKept(_)
        | Event::ReceiptKept { .. } => None,
    }
}

fn blank(status: AckStatus) -> Ack<'static> {
    Ack {
        ack_seq: 0,
        at: String::new(),
        attempt: None,
        cause: None,
        duplicate_of: None,
        idempotency_key: None,
        line: None,
        log_head: String::new(),
        message: None,
        offset: None,
        reason_code: None,
        request_id: None,
        retry_at: None,
        schema_version: "summary_ack.v1",
        status,
        summary: None,
        supersedes: None,
        warnings: Vec::new(),
    }
}

fn about(status: AckStatus, head: &AckHead, warnings: Warnings) -> Ack<'_> {
    Ack {
        request_id: Some(&head.request_id),
        idempotency_key: Some(&head.key),
        line: Some(head.line),
        offset: Some(head.offset),
        warnings: warnings.iter().map(|warning| warning.as_str()).collect(),
        ..blank(status)
    }
}

/// Why a request waits for another one: they have one key, or they ask for the same work.
type WaitReason = (ReasonCode, &'static str);
const SAME_KEY: WaitReason = (ReasonCode::KeyInFlight, "has the same key");
const SAME_WORK: WaitReason = (ReasonCode::IdenticalWork, "asks for the same work");

/// The ack of a request that waits for the outcome of another one.
fn waiting<'a>((reason, shared): WaitReason, behind: &str, ack: Ack<'a>) -> Ack<'a> {
    // Another request may take the place of this one before the outcome is there.
    let message = format!("waits for a request that {shared}: {behind} at this time");
    Ack { reason_code: Some(reason), message: Some(message.into()), ..ack }
}

/// An ack of a request that just came in. An ending in the same batch replaces an earlier ending.
fn about_taken(status: AckStatus, taken: &TakenRequest) -> Ack<'_> {
    let ends_here = status != AckStatus::Accepted;
    let supersedes = taken.supersedes.filter(|_| ends_here).map(|superseded| superseded.ack.0);
    Ack { supersedes, ..about(status, &taken.head, taken.warnings) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::Digest;
    use crate::contract::ids::Seq;
    use crate::contract::time::Timestamp;
    use crate::contract::vocabulary::Warning;

    fn committed(event: Event) -> Committed {
        Committed { seq: Seq(7), at: Timestamp(1_770_850_931_000), hash: Digest([0xab; 32]), event }
    }

    fn head() -> AckHead {
        AckHead { request_id: "r\u{1}\"é".into(), key: "k".into(), line: 3, offset: 90 }
    }

    #[test]
    fn a_completed_ack_is_canonical_and_points_at_the_item() {
        let event = Event::SummaryProduced {
            request: Seq(2),
            attempt: 1,
            head: head(),
            summary: SummaryPointer {
                summary_id: "sum_1".into(),
                stream: Stream::Events,
                day: "2026-02-11".parse().unwrap(),
            },
            body_sha256: Digest::ZERO,
            warnings: Warnings::default().with(Warning::DeadlineMissed),
            supersedes: Some(Seq(5)),
            input: Box::default(),
            provenance: None,
        };
        let text = line(&committed(event)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{}\n", crate::contract::json::line(&value)), text);
        assert_eq!(value["status"], "completed");
        assert_eq!(value["at"], "2026-02-11T23:02:11.000Z");
        assert_eq!(value["summary"]["path"], "summaries/events/2026-02-11.events.summary.jsonl");
        assert_eq!(value["warnings"], serde_json::json!(["deadline_missed"]));
        assert_eq!((&value["ack_seq"], &value["supersedes"]), (&7.into(), &5.into()));
    }

    #[test]
    fn only_outcomes_are_acked() {
        assert_eq!(line(&committed(Event::AttemptStarted { request: Seq(1), attempt: 1 })), None);
        assert_eq!(line(&committed(Event::WorkReleased { request: Seq(1) })), None);
    }

    #[test]
    fn a_skip_has_no_summary_and_says_why() {
        let event = Event::RequestSkipped {
            request: Seq(2),
            attempt: 1,
            head: head(),
            reason: ReasonCode::SkippedEmptyContent,
            warnings: Warnings::default(),
            supersedes: None,
            input: Box::default(),
        };
        let value: serde_json::Value =
            serde_json::from_str(&line(&committed(event)).unwrap()).unwrap();
        assert_eq!(value["status"], "completed");
        assert!(value["summary"].is_null());
        assert_eq!(value["reason_code"], "skipped_empty_content");
    }
}
