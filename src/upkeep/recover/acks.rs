//! Acks as evidence of what a lost log held.

use serde::Deserialize;

use crate::contract::ids::Seq;
use crate::contract::vocabulary::{AckStatus, FailureCause, ReasonCode, Stream, Warning, Warnings};
use crate::facts::attempt::{InputFacts, Recovered};
use crate::state::event::SummaryPointer;

/// What the acks say about one queue line, as of the last of them.
#[derive(Debug, Clone)]
pub(crate) struct LineAcks {
    pub ack: Ack,
    /// Whether it was accepted before it ended.
    pub accepted: bool,
    pub used: bool,
}

impl LineAcks {
    /// Whether the lost log took the line as a request.
    pub(crate) fn was_request(&self) -> bool {
        self.accepted
            || self.ack.status().is_some_and(|status| status != AckStatus::RejectedInvalidSchema)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Ack {
    pub ack_seq: u64,
    pub at: String,
    pub idempotency_key: Option<String>,
    pub line: Option<u64>,
    pub log_head: String,
    pub message: Option<String>,
    pub offset: Option<u64>,
    pub reason_code: Option<String>,
    /// Optional, so that an ack without it can be read.
    #[serde(default)]
    pub(crate) cause: Option<String>,
    pub request_id: Option<String>,
    pub status: String,
    pub summary: Option<AckSummary>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct AckSummary {
    pub day: String,
    pub stream: String,
    pub summary_id: String,
}

impl Ack {
    /// Reads a line. One whose status or summary means nothing is damaged: nobody knows what it ended.
    pub(super) fn read(line: &[u8]) -> Option<Ack> {
        let ack: Ack = serde_json::from_slice(line).ok()?;
        let is_whole = ack.status().is_some() && (ack.summary.is_none() || ack.pointer().is_some());
        is_whole.then_some(ack)
    }

    pub(super) fn status(&self) -> Option<AckStatus> {
        AckStatus::parse(&self.status)
    }

    pub(super) fn reason(&self) -> Option<ReasonCode> {
        self.reason_code.as_deref().and_then(ReasonCode::parse)
    }

    pub(crate) fn cause(&self) -> Option<FailureCause> {
        self.cause.as_deref().and_then(FailureCause::parse)
    }

    pub(super) fn warnings(&self) -> Warnings {
        let known = Warning::ALL.iter().filter(|w| self.warnings.iter().any(|s| s == w.as_str()));
        known.fold(Warnings::default(), |set, warning| set.with(*warning))
    }

    pub(super) fn pointer(&self) -> Option<SummaryPointer> {
        let AckSummary { day, stream, summary_id } = self.summary.as_ref()?;
        Some(SummaryPointer {
            summary_id: summary_id.clone(),
            stream: Stream::parse(stream)?,
            day: day.parse().ok()?,
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.status(), Some(AckStatus::Accepted | AckStatus::FailedTransient))
    }

    /// The event of the lost log that the ack quotes.
    pub(super) fn origin(&self) -> Recovered {
        let log_head = self.log_head.parse().ok();
        Recovered { ack_seq: Seq(self.ack_seq), log_head, at: self.at.clone() }
    }

    /// The input facts of an attempt that only the ack shows.
    pub(super) fn input(&self) -> Box<InputFacts> {
        Box::new(InputFacts { recovered: Some(self.origin()), ..InputFacts::default() })
    }
}
