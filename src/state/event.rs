//! The closed list of facts. An event is in the past tense, carries everything a projection of it
//! needs, and never changes: a new need is a new variant or a new version in the codec.
//!
//! Sequence number, time and hash belong to the record that holds the event, not to the event.

use std::ops::Deref;

use crate::contract::bytes::SharedBytes;
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::schema::Violation;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{
    AckStatus, Bus, FailureCause, QuarantineReason, ReasonCode, Stream, SummaryKind, Urgency,
    Warning, Warnings, words,
};
use crate::facts::agent_run::AgentRunFact;
use crate::facts::attempt::{InputFacts, SourcePlaces};
use crate::facts::batch::BatchFact;
use crate::facts::dialect::LearnedDialect;
use crate::facts::digest::DigestFact;
use crate::facts::failure::ErrorFacts;
use crate::facts::model::{AnswerFacts, Provenance};
use crate::facts::publication::{DayOpened, PublishFailed};
use crate::facts::recovery::{RecoveryReport, RunRecordKept};
use crate::facts::retention::RetentionFact;
use crate::facts::session::{Host, PauseCause, SessionReport, WorkLeft};

/// The attempt of an answer that came with a batch: none was under way for it.
pub(crate) const OF_BATCH: u32 = 0;

/// What every ack about a request repeats, so that an ack is a function of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckHead {
    /// The caller's id of the request.
    pub request_id: String,
    /// The effective idempotency key.
    pub key: String,
    /// Physical line in the queue, from 1.
    pub line: u64,
    /// Byte offset of that line.
    pub offset: u64,
}

/// What the ack of a request says that waits for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldWait {
    pub head: AckHead,
    /// The id of the request that it waits for.
    pub behind_request_id: String,
    /// What its acks warn of.
    pub warnings: Warnings,
}

/// Where a summary item is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryPointer {
    pub summary_id: String,
    pub stream: Stream,
    pub day: Day,
}

impl SummaryPointer {
    /// The day file that holds the item, relative to the bus home.
    pub fn path(&self) -> String {
        let Self { stream, day, .. } = self;
        format!("summaries/{stream}/{day}.{stream}.summary.jsonl")
    }
}

/// Texts that a person took back: from this record on, nobody can read what was made of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// The ids of the sources that were named, and of their parts.
    pub sources: Vec<String>,
    /// The names of the files that were named.
    pub files: Vec<String>,
    /// The summaries that are gone, each once.
    pub summaries: Vec<SummaryPointer>,
    /// The bags that held some of them.
    pub bags: Vec<String>,
    /// Records whose bodies can never be read again: of those summaries and bags, and of answers.
    pub bodies: Vec<Seq>,
}

/// An output and the request that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The request that made it.
    pub of: Seq,
    pub of_request_id: String,
    pub summary: SummaryPointer,
    /// What its ack warned of.
    pub warnings: Warnings,
}

impl Output {
    /// Warnings that are true for each request that gets this output.
    pub(super) fn shared_warnings(&self) -> Warnings {
        match self.warnings.contains(Warning::UpstreamDaysMissing) {
            true => Warnings::default().with(Warning::UpstreamDaysMissing),
            false => Warnings::default(),
        }
    }
}

/// A request as it was taken in: the whole line, and the few facts the core decides by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenRequest {
    pub head: AckHead,
    /// Digest of the effective idempotency key.
    pub key: Digest,
    /// Digest of the request id.
    pub id: Digest,
    /// First half of the digest of the work itself, whatever key it was given.
    pub work: [u8; 16],
    /// `requested_by.repo`: the producer, because producers alternate.
    pub producer: String,
    /// The flow asked for.
    pub flow_id: String,
    /// Its variant, if one was named.
    pub variant: Option<String>,
    /// What is asked for.
    pub kind: SummaryKind,
    /// Where the input lives; a selection manifest names its bus itself.
    pub bus: Option<Bus>,
    /// 1 is most urgent, 5 least.
    pub priority: u8,
    /// Whether `not_before` is strict.
    pub urgency: Urgency,
    /// When the caller made it.
    pub created_at: Timestamp,
    /// Not to run before this.
    pub not_before: Option<Timestamp>,
    /// The time by which the summary is wanted.
    pub deadline: Option<Timestamp>,
    /// What its acks warn of.
    pub warnings: Warnings,
    /// The previous row of the same request id, if any.
    pub previous: Option<Seq>,
    /// The earlier ending this request starts over from.
    pub supersedes: Option<Superseded>,
    /// The line as it was read, without its terminator.
    pub line: RequestLine,
}

/// What is known of bytes that lie sealed beside a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedLine {
    pub sha256: Digest,
    pub length: u64,
}

/// The line of a request. One that may hold words of a text lies sealed beside the record, so that a person can
/// take it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    bytes: SharedBytes,
    sealed: Option<SealedLine>,
}

impl From<SharedBytes> for RequestLine {
    fn from(bytes: SharedBytes) -> RequestLine {
        RequestLine { bytes, sealed: None }
    }
}

impl From<Vec<u8>> for RequestLine {
    fn from(bytes: Vec<u8>) -> RequestLine {
        SharedBytes::from(bytes).into()
    }
}

/// The bytes that are at hand: none of a line that lies beside its record or was taken back.
impl Deref for RequestLine {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl RequestLine {
    /// A line that lies sealed beside its record.
    pub fn to_seal(bytes: SharedBytes) -> RequestLine {
        let sealed = SealedLine { sha256: sha256(&bytes[..]), length: bytes.len() as u64 };
        RequestLine { bytes, sealed: Some(sealed) }
    }

    /// What the record itself says of a line that lies beside it.
    pub(crate) fn away(sealed: SealedLine) -> RequestLine {
        RequestLine { bytes: Vec::new().into(), sealed: Some(sealed) }
    }

    pub(crate) fn sealed(&self) -> Option<SealedLine> {
        self.sealed
    }

    /// Whether the bytes are not at hand: they were not read, or a person took them back.
    pub(crate) fn is_away(&self) -> bool {
        self.sealed.is_some_and(|sealed| sealed.length > 0) && self.bytes.is_empty()
    }

    pub(crate) fn sha256(&self) -> Digest {
        self.sealed.map_or_else(|| sha256(&self.bytes[..]), |sealed| sealed.sha256)
    }

    pub(crate) fn length(&self) -> u64 {
        self.sealed.map_or(self.bytes.len() as u64, |sealed| sealed.length)
    }
}

/// An earlier ending, without output, of the same request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superseded {
    /// What it ended as: this stops counting.
    pub status: super::Status,
    /// Why, as far as it was counted.
    pub reason: Option<ReasonCode>,
    /// The event that ended it, which is also the `ack_seq` of its terminal ack.
    pub ack: Seq,
}

words! {
    /// The member of a quarantine record that shows the bytes of the line.
    RawMember {
        /// All of it, as text.
        Text = 1 "raw",
        /// All of it, which is no text.
        Base64 = 2 "raw_base64",
        /// The beginning of an over-long one.
        Prefix = 3 "raw_prefix",
    }
}

/// The bytes of a quarantined line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawLine {
    /// All of it.
    Whole(Vec<u8>),
    /// The beginning of an over-long one.
    Prefix(Vec<u8>),
    /// They lie sealed beside the record, or a person took them back.
    Away {
        member: RawMember,
        /// Bytes of that member as JSON, without its quotation marks. Blanks of this length stand in its place once the
        /// line was taken back, so that all records behind it keep their places in the file.
        shown: u64,
    },
}

/// A queue line that is not a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Physical line, from 1.
    pub line: u64,
    /// Byte offset of the line.
    pub offset: u64,
    /// Its length in bytes, terminator excluded.
    pub length: u64,
    /// SHA-256 of those bytes.
    pub sha256: Digest,
    /// Why it was quarantined.
    pub reason: QuarantineReason,
    /// Its request id, when one could be read.
    pub request_id: Option<String>,
    /// What is wrong with it, by place.
    pub errors: Vec<Violation>,
    /// How many more violations there are.
    pub errors_omitted: u64,
    pub raw: RawLine,
}

words! {
    /// How a session ended.
    SessionEnd {
        /// It finished its work and said so.
        Clean = 1 "clean",
        /// It stopped on an error and said so.
        Failed = 2 "failed",
        /// It wrote no end; the next session wrote it.
        Crashed = 3 "crashed",
    }
}

/// What one call of a model cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The provider that bills.
    pub provider: String,
    pub model: String,
    /// The day it counts on.
    pub day: Day,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Billionths of the currency of the prices.
    pub cost_nanos: u64,
    /// True when the tokens were not counted and the reserved amount is charged: for a lost answer,
    /// or a server that does not count.
    pub estimated: bool,
}

/// A provider that failed while one of its fallbacks answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// Name of the provider in the configuration.
    pub provider: String,
    pub model: String,
    pub cause: FailureCause,
    pub message: String,
    /// The provider that answered instead.
    pub answered_by: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A command took the home. Its sequence number is the epoch of every claim it makes.
    SessionStarted {
        run_id: String,
        command: String,
        /// Version of the program.
        version: String,
        /// Hash of the effective configuration.
        config: Digest,
        host: Box<Host>,
    },
    SessionFinished {
        run_id: String,
        /// The event that started the session.
        started: Seq,
        end: SessionEnd,
        /// What only the session itself can know, such as the files it published.
        report: Box<SessionReport>,
    },
    /// A queue line was quarantined.
    LineQuarantined(Box<BadLine>),
    /// A request was taken in and will be worked on.
    RequestAccepted(Box<TakenRequest>),
    /// A request was taken in, but its key is in flight: it waits for that outcome.
    RequestParked {
        request: Box<TakenRequest>,
        /// The request that it waits for.
        behind: Seq,
        /// The id of that request.
        behind_request_id: String,
    },
    /// A request that was not due yet gave its key to another that may start sooner. It waits for
    /// the outcome of that one.
    KeyYielded {
        /// The request that was not due.
        request: Seq,
        head: AckHead,
        /// The request that goes first: the next record.
        behind: Seq,
        /// The id of that request.
        behind_request_id: String,
        /// What its acks warn of.
        warnings: Warnings,
    },
    /// The request that it waited for ended without an output, so this one takes over the key.
    ParkedAccepted {
        request: Seq,
        head: AckHead,
        /// What its acks warn of.
        warnings: Warnings,
    },
    /// A valid request that will not be worked on.
    RequestRejected {
        request: Box<TakenRequest>,
        /// `rejected_unknown_flow` or `rejected_invalid_input`.
        status: AckStatus,
        reason: Option<ReasonCode>,
        /// For people.
        message: String,
    },
    /// A request whose output already exists was accepted and ended in the same batch.
    DuplicateReceived {
        request: Box<TakenRequest>,
        /// The request that made the output.
        of: Seq,
        of_request_id: String,
        /// Always `output_exists`.
        reason: ReasonCode,
        summary: SummaryPointer,
    },
    /// The source of a summary has become private: a request that asked for the summary again found it so.
    SourceBecamePrivate {
        /// The request that asked again.
        request: Seq,
        /// The event of the summary.
        made: Seq,
        summary: SummaryPointer,
    },
    /// A person took texts back.
    Forgotten(Box<Forgotten>),
    /// A parked or running request turned out to ask for an output that exists.
    RequestDuplicated {
        request: Seq,
        head: AckHead,
        /// The request that made the output.
        of: Seq,
        of_request_id: String,
        /// `key_in_flight` or `identical_work`.
        reason: ReasonCode,
        summary: SummaryPointer,
        /// What the ack warns of.
        warnings: Warnings,
        /// The ack this one replaces.
        supersedes: Option<Seq>,
    },
    AttemptStarted {
        request: Seq,
        /// Counted from 1.
        attempt: u32,
    },
    /// The input was found and hashed; the work is now identified.
    InputResolved {
        request: Seq,
        attempt: u32,
        /// The item it will make if the model stays the same.
        summary: SummaryPointer,
        /// Warnings found on the way.
        warnings: Warnings,
        input: Box<InputFacts>,
        /// Where each source lies.
        sources: Box<SourcePlaces>,
    },
    /// Another request is making the same item. This request waits for its outcome.
    WorkHeld {
        request: Seq,
        /// The attempt that noticed it.
        attempt: u32,
        /// The request that it waits for.
        behind: Seq,
        /// The item that both requests would make.
        summary: SummaryPointer,
        /// What its ack says. An earlier release told nothing.
        told: Option<ToldWait>,
    },
    /// The one it waited for ended without an output: it is ready again.
    WorkReleased { request: Seq },
    /// A model answered. The answer is paid for, so it is a fact; its text is the record's body.
    ModelResponded {
        request: Seq,
        attempt: u32,
        /// Hash of everything that was asked.
        call: Digest,
        /// SHA-256 of the body.
        body_sha256: Digest,
        /// The model that answered, and the cost.
        answer: Box<AnswerFacts>,
    },
    /// A summary item exists. Its line is the record's body.
    SummaryProduced {
        request: Seq,
        attempt: u32,
        head: AckHead,
        /// Where the item is.
        summary: SummaryPointer,
        /// SHA-256 of the body.
        body_sha256: Digest,
        /// What the ack warns of.
        warnings: Warnings,
        /// The ack this one replaces.
        supersedes: Option<Seq>,
        input: Box<InputFacts>,
        /// How the item was made; `None` for an item of a lost log, where this is not known.
        provenance: Option<Box<Provenance>>,
    },
    /// An attempt failed. Without `retry_at` the request ended.
    AttemptFailed {
        request: Seq,
        attempt: u32,
        head: AckHead,
        /// `failed_transient`, `failed_permanent` or `rejected_invalid_input`.
        status: AckStatus,
        reason: Option<ReasonCode>,
        /// The cause of the failure, in addition to the reason.
        cause: Option<FailureCause>,
        /// For people.
        message: String,
        /// When the next attempt may start.
        retry_at: Option<Timestamp>,
        /// Whether it counts against the allowed number of attempts.
        counted: bool,
        /// What the ack warns of.
        warnings: Warnings,
        /// The ack this one replaces.
        supersedes: Option<Seq>,
        input: Box<InputFacts>,
        /// What went wrong; `None` when the attempt ended without a report.
        error: Option<Box<ErrorFacts>>,
    },
    /// The request was rightly not summarized.
    RequestSkipped {
        request: Seq,
        /// The attempt that noticed it.
        attempt: u32,
        head: AckHead,
        /// One of the `skipped_` reasons.
        reason: ReasonCode,
        /// What the ack warns of.
        warnings: Warnings,
        /// The ack this one replaces.
        supersedes: Option<Seq>,
        input: Box<InputFacts>,
    },
    /// An operator ended the request.
    RequestCancelled {
        request: Seq,
        head: AckHead,
        /// What the ack warns of.
        warnings: Warnings,
        /// The ack this one replaces.
        supersedes: Option<Seq>,
    },
    /// An operator cut a delay short: a backoff or a soft one.
    DelayEnded { request: Seq },
    /// Nothing new is taken in or started.
    IntakePaused { cause: PauseCause },
    IntakeResumed {
        /// Which cause went away.
        cause: PauseCause,
    },
    /// New settings are in force.
    ConfigReloaded {
        /// Hash of the effective configuration.
        config: Digest,
    },
    /// A corrected form of a bad line was appended to the queue.
    QuarantineReleased {
        quarantined: Seq,
        /// The request id of the corrected line.
        request_id: String,
    },
    /// An operator accepted that the queue file was rewritten or replaced.
    QueueAdopted {
        /// What had changed, for people.
        change: String,
        /// The byte from which reading continues.
        offset: u64,
    },
    /// A part of a queue was read and no other record came of it: its lines are blank, or kept records
    /// have them. The log remembers each part of a queue beside a record.
    LinesPassed {
        /// First byte of the part.
        start: u64,
        /// The byte after its last.
        end: u64,
    },
    /// The tables were brought up to this record.
    CheckpointTaken {
        /// The last event whose effects are in the tables.
        applied: Seq,
        /// Digest over everything checkpoints wrote so far.
        state: Digest,
        /// Rows this one wrote.
        rows: u64,
    },
    /// A flow was used for the first time, or an operator accepted that its id stands for another
    /// pack from now on.
    FlowUsed {
        flow_id: String,
        variant: Option<String>,
        /// The pack it stands for.
        pack_hash: Digest,
        /// The pack it stood for before, when an operator accepted a change.
        replaces: Option<Digest>,
    },
    /// A call of a model was paid for, whatever became of it.
    ModelCharged {
        /// The request it was for.
        request: Seq,
        attempt: u32,
        charge: Charge,
    },
    /// A provider failed, and one of its fallbacks answered.
    ProviderPassedOver {
        /// The request it was for.
        request: Seq,
        attempt: u32,
        failure: Box<PassedOver>,
    },
    /// What a model accepts was learned from a refusal or from a prompt that was cut.
    DialectLearned(Box<LearnedDialect>),
    /// An operator made a day exist.
    DayOpened(Box<DayOpened>),
    /// Committed summaries could not be published.
    PublishFailed(PublishFailed),
    /// A session ends while work waits whose time had come.
    WorkLeft(Box<WorkLeft>),
    /// Events or a snapshot of an agent run.
    AgentRun(Box<AgentRunFact>),
    /// A step of a digest build.
    Digest(DigestFact),
    /// A step of a batch of questions.
    Batch(Box<BatchFact>),
    /// A step of retention.
    Retention(RetentionFact),
    /// This log was made again from a damaged one and from files.
    LogRecovered(Box<RecoveryReport>),
    /// The recovery found a run record of the lost part on the bus.
    RunRecordKept(Box<RunRecordKept>),
    /// Something was synthesized or checked. The receipt, `synthesis_receipt.v1`, is the record's
    /// body.
    ReceiptKept {
        /// SHA-256 of the body.
        body_sha256: Digest,
    },
}

/// An event that is ready to be committed, with the bytes stored beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    pub event: Event,
    pub body: Option<Vec<u8>>,
}

impl Note {
    /// A fact without a body.
    pub fn new(event: Event) -> Note {
        Note { event, body: None }
    }

    /// A fact with its bytes.
    pub(crate) fn with_body(event: Event, body: Vec<u8>) -> Note {
        Note { event, body: Some(body) }
    }
}

impl Event {
    /// The output that an end event names, also when another request made it.
    pub fn output(&self) -> Option<Output> {
        let (of, of_request_id, summary, warnings) = match self {
            Event::SummaryProduced { request, head, summary, warnings, .. } => {
                (request, &head.request_id, summary, warnings)
            }
            Event::DuplicateReceived { request, of, of_request_id, summary, .. } => {
                (of, of_request_id, summary, &request.warnings)
            }
            Event::RequestDuplicated { of, of_request_id, summary, warnings, .. } => {
                (of, of_request_id, summary, warnings)
            }
            _ => return None,
        };
        let (of_request_id, summary) = (of_request_id.clone(), summary.clone());
        Some(Output { of: *of, of_request_id, summary, warnings: *warnings })
    }

    /// The request an event is about, for events about one.
    pub fn request(&self) -> Option<Seq> {
        match self {
            Event::ParkedAccepted { request, .. }
            | Event::KeyYielded { request, .. }
            | Event::RequestDuplicated { request, .. }
            | Event::AttemptStarted { request, .. }
            | Event::InputResolved { request, .. }
            | Event::WorkHeld { request, .. }
            | Event::WorkReleased { request }
            | Event::ModelResponded { request, .. }
            | Event::ModelCharged { request, .. }
            | Event::ProviderPassedOver { request, .. }
            | Event::SummaryProduced { request, .. }
            | Event::AttemptFailed { request, .. }
            | Event::RequestSkipped { request, .. }
            | Event::RequestCancelled { request, .. }
            | Event::DelayEnded { request } => Some(*request),
            Event::SessionStarted { .. }
            | Event::SessionFinished { .. }
            | Event::LineQuarantined(_)
            | Event::RequestAccepted(_)
            | Event::RequestParked { .. }
            | Event::RequestRejected { .. }
            | Event::DuplicateReceived { .. }
            | Event::IntakePaused { .. }
            | Event::IntakeResumed { .. }
            | Event::ConfigReloaded { .. }
            | Event::QuarantineReleased { .. }
            | Event::QueueAdopted { .. }
            | Event::LinesPassed { .. }
            | Event::CheckpointTaken { .. }
            | Event::FlowUsed { .. }
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

    /// The request an event brought in, for events that did.
    pub fn taken(&self) -> Option<&TakenRequest> {
        match self {
            Event::RequestAccepted(request)
            | Event::RequestParked { request, .. }
            | Event::RequestRejected { request, .. }
            | Event::DuplicateReceived { request, .. } => Some(request),
            _ => None,
        }
    }

    fn taken_mut(&mut self) -> Option<&mut TakenRequest> {
        match self {
            Event::RequestAccepted(request)
            | Event::RequestParked { request, .. }
            | Event::RequestRejected { request, .. }
            | Event::DuplicateReceived { request, .. } => Some(request),
            _ => None,
        }
    }

    /// Whether a line that the event is about is not at hand and lies beside the record.
    pub(crate) fn has_line_beside(&self) -> bool {
        match self {
            Event::LineQuarantined(bad) => matches!(bad.raw, RawLine::Away { .. }),
            event => event.taken().is_some_and(|taken| taken.line.is_away()),
        }
    }

    /// The bytes of the line that are to be sealed beside the record, and the event without them.
    pub fn without_line(&self) -> Option<(Event, Vec<u8>)> {
        let line = &self.taken()?.line;
        let sealed = line.sealed().filter(|_| !line.is_away())?;
        let mut event = self.clone();
        event.taken_mut()?.line = RequestLine::away(sealed);
        Some((event, line.to_vec()))
    }

    /// Puts the bytes back that lie beside the record.
    pub(crate) fn put_line(&mut self, bytes: Vec<u8>) {
        if let Event::LineQuarantined(bad) = self {
            bad.raw = match bad.raw {
                RawLine::Away { member: RawMember::Prefix, .. } => RawLine::Prefix(bytes),
                _ => RawLine::Whole(bytes),
            };
        } else if let Some(taken) = self.taken_mut() {
            taken.line.bytes = bytes.into();
        }
    }

    /// Whether the event says nothing about whether its request continues or has ended.
    pub(crate) fn is_beside(&self) -> bool {
        matches!(
            self,
            Event::ModelCharged { .. }
                | Event::ProviderPassedOver { .. }
                | Event::DelayEnded { .. }
        )
    }

    /// The event's name, as `log dump` shows it.
    pub fn name(&self) -> &'static str {
        match self {
            Event::SessionStarted { .. } => "SessionStarted",
            Event::SessionFinished { .. } => "SessionFinished",
            Event::LineQuarantined(_) => "LineQuarantined",
            Event::RequestAccepted(_) => "RequestAccepted",
            Event::RequestParked { .. } => "RequestParked",
            Event::KeyYielded { .. } => "KeyYielded",
            Event::ParkedAccepted { .. } => "ParkedAccepted",
            Event::RequestRejected { .. } => "RequestRejected",
            Event::DuplicateReceived { .. } => "DuplicateReceived",
            Event::RequestDuplicated { .. } => "RequestDuplicated",
            Event::AttemptStarted { .. } => "AttemptStarted",
            Event::InputResolved { .. } => "InputResolved",
            Event::WorkHeld { .. } => "WorkHeld",
            Event::WorkReleased { .. } => "WorkReleased",
            Event::ModelResponded { .. } => "ModelResponded",
            Event::SummaryProduced { .. } => "SummaryProduced",
            Event::AttemptFailed { .. } => "AttemptFailed",
            Event::RequestSkipped { .. } => "RequestSkipped",
            Event::RequestCancelled { .. } => "RequestCancelled",
            Event::DelayEnded { .. } => "DelayEnded",
            Event::IntakePaused { .. } => "IntakePaused",
            Event::IntakeResumed { .. } => "IntakeResumed",
            Event::ConfigReloaded { .. } => "ConfigReloaded",
            Event::QuarantineReleased { .. } => "QuarantineReleased",
            Event::QueueAdopted { .. } => "QueueAdopted",
            Event::LinesPassed { .. } => "LinesPassed",
            Event::CheckpointTaken { .. } => "CheckpointTaken",
            Event::FlowUsed { .. } => "FlowUsed",
            Event::ModelCharged { .. } => "ModelCharged",
            Event::ProviderPassedOver { .. } => "ProviderPassedOver",
            Event::DayOpened(_) => "DayOpened",
            Event::PublishFailed(_) => "PublishFailed",
            Event::WorkLeft(_) => "WorkLeft",
            Event::AgentRun(_) => "AgentRun",
            Event::Digest(_) => "Digest",
            Event::Batch(_) => "Batch",
            Event::DialectLearned(_) => "DialectLearned",
            Event::SourceBecamePrivate { .. } => "SourceBecamePrivate",
            Event::Forgotten(_) => "Forgotten",
            Event::Retention(_) => "Retention",
            Event::LogRecovered(_) => "LogRecovered",
            Event::RunRecordKept(_) => "RunRecordKept",
            Event::ReceiptKept { .. } => "ReceiptKept",
        }
    }
}
