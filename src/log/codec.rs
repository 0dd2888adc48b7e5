//! Events, rows and the small facts of a checkpoint as bytes, and back.
//!
//! Contract. A payload is bincode 2 (`standard`: little endian, variable-length integers) of the
//! fields in the order written here; tag and version stand outside, in the record's envelope.
//! Tags are never reused, fields are never reordered; a new field is a new version of its tag,
//! whose decoder keeps reading the old one. bincode is frozen upstream, so its bytes are pinned
//! by the golden fixtures in the tests, and nothing outside this file names it.
//!
//! Decoding is strict: unknown tags, unknown words, left-over bytes and lengths above the limit
//! are errors, because a record of ours that does not read is a damaged record.

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::enc::write::Writer;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};

use crate::contract::bytes::SharedBytes;
use crate::contract::hash::{Digest, Hasher};
use crate::contract::ids::Seq;
use crate::contract::json::jcs;
use crate::contract::schema::Violation;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{
    AckStatus, Bus, ErrorClass, FailureCause, QuarantineReason, ReasonCode, Stream, SummaryKind,
    Urgency, Warnings,
};
use crate::facts::JsonObject;
use crate::facts::agent_run::{
    AgentRunFact, CompactionFailed, EventsAppended, FileMark, SnapshotPointer, SnapshotTaken,
};
use crate::facts::attempt::{
    FilePlaces, InputFacts, Recovered, SelectionInput, SourceCounts, SourcePlace, SourcePlaces,
    UpstreamInput,
};
use crate::facts::batch::{
    BatchEnd, BatchFact, BatchedQuestion, EndedBatch, PreparedBatch, SubmittedBatch,
};
use crate::facts::dialect::{Dialect, LearnedDialect};
use crate::facts::digest::{
    BagFacts, BagType, BagsCollected, BuildFinished, BuildPublished, BuildStarted, Channel,
    DigestFact, GroupFacts, MemoFacts, PairFacts, TaskSettled, WindowFacts, WindowType,
};
use crate::facts::failure::{ErrorDetails, ErrorFacts, ModelFailure};
use crate::facts::model::{AnswerFacts, CallFacts, ModelIdentity, Provenance, StopReason, Usage};
use crate::facts::note::{DaysMissing, InputNote};
use crate::facts::publication::{DayOpened, PublishFailed};
use crate::facts::queue::{ConsumedBatch, Identity, Position, QueueMark, QueueMarks};
use crate::facts::recovery::{Loss, RecoveryReport, RunRecordKept};
use crate::facts::retention::{
    AcksArchived, AcksMoved, AnswersDropped, FramesArchived, RetentionApplied, RetentionFact,
};
use crate::facts::session::{
    Host, PauseCause, Promoted, Promotion, SessionReport, WaitReason, WaitingWork, WorkLeft,
};
use crate::limits::EVENT_BYTES_MAX;
use crate::state::batches::{Batches, FinishedBatch, FinishedBatches, OpenBatch, Unanswered};
use crate::state::dialects::{KnownDialect, KnownDialects};
use crate::state::event::{
    AckHead, BadLine, Charge, Event, Forgotten, PassedOver, RawLine, RawMember, RequestLine,
    SealedLine, SessionEnd, SummaryPointer, Superseded, TakenRequest, ToldWait,
};
use crate::state::failing_providers::{FailingProvider, FailingProviders};
use crate::state::flows::{Charged, DayCharged, Flows};
use crate::state::schedule::Place;
use crate::state::{Ledger, Open, Particulars, Row, SessionInfo, Status, Totals};

/// Bytes that do not read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// No event has this tag and version.
    #[error("unknown event tag {tag} version {version}")]
    UnknownTag { tag: u16, version: u32 },
    /// The payload is not what the tag promises.
    #[error("decode {what}: {why}")]
    Malformed {
        /// What was being read.
        what: &'static str,
        why: String,
    },
}

type Configuration = bincode::config::Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    bincode::config::Limit<EVENT_BYTES_MAX>,
>;

const CONFIGURATION: Configuration = bincode::config::standard().with_limit::<EVENT_BYTES_MAX>();

/// Changes whenever the meaning of stored rows changes: tables with another fingerprint are
/// thrown away and rebuilt from the log, never upgraded by guessing.
pub(crate) const STATE_FINGERPRINT: &[u8] = b"state.v2";

/// Rows and open requests are about this long, so encoding one allocates once.
const ROW_ROOM: usize = 128;

fn bytes_of<T: Encode>(value: T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ROW_ROOM);
    append(value, &mut bytes);
    bytes
}

fn append<T: Encode>(value: T, out: &mut Vec<u8>) {
    bincode::encode_into_writer(value, Appender(out), CONFIGURATION)
        .expect("encoding into memory cannot fail: every type here has a finite form");
}

/// In one pass: bincode's own way into a vector encodes everything twice, to know its length.
struct Appender<'a>(&'a mut Vec<u8>);

impl Writer for Appender<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

fn read<T: Decode<()>>(what: &'static str, bytes: &[u8]) -> Result<T, CodecError> {
    let (value, used) = bincode::decode_from_slice(bytes, CONFIGURATION)
        .map_err(|error| CodecError::Malformed { what, why: error.to_string() })?;
    if used != bytes.len() {
        let why = format!("{} bytes are left over", bytes.len() - used);
        return Err(CodecError::Malformed { what, why });
    }
    Ok(value)
}

/// Fields of a struct, in the order they are stored.
macro_rules! wire_struct {
    ($($name:ident { $($field:ident),+ $(,)? })+) => {$(
        impl Encode for $name {
            fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
                $(self.$field.encode(encoder)?;)+
                Ok(())
            }
        }
        impl<C> Decode<C> for $name {
            fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
                Ok($name { $($field: Decode::decode(decoder)?,)+ })
            }
        }
    )+};
}

/// Words stored as their number.
macro_rules! wire_words {
    ($($name:ident),+ $(,)?) => {$(
        impl Encode for $name {
            fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
                self.code().encode(encoder)
            }
        }
        impl<C> Decode<C> for $name {
            fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
                let code = u8::decode(decoder)?;
                $name::from_code(code).ok_or_else(|| {
                    DecodeError::OtherString(format!("no {} has number {code}", stringify!($name)))
                })
            }
        }
    )+};
}

/// Wrappers stored as what they wrap.
macro_rules! wire_newtype {
    ($($name:ident($inner:ty);)+) => {$(
        impl Encode for $name {
            fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
                self.0.encode(encoder)
            }
        }
        impl<C> Decode<C> for $name {
            fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
                <$inner as Decode<C>>::decode(decoder).map($name)
            }
        }
    )+};
}

/// Enums with members: the number of the variant, then its members in the order they are stored.
macro_rules! wire_enum {
    ($($name:ident {
        $($code:literal $variant:ident $({ $($field:ident),+ $(,)? })? $(($inner:ident))?,)+
    })+) => {$(
        impl Encode for $name {
            fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
                match self {$(
                    $name::$variant $({ $($field),+ })? $(($inner))? => {
                        let code: u8 = $code;
                        code.encode(encoder)?;
                        $($($field.encode(encoder)?;)+)?
                        $($inner.encode(encoder)?;)?
                    }
                )+}
                Ok(())
            }
        }
        impl<C> Decode<C> for $name {
            fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
                match u8::decode(decoder)? {
                    $($code => {
                        $($(let $field = Decode::decode(decoder)?;)+)?
                        $(let $inner = Decode::decode(decoder)?;)?
                        Ok($name::$variant $({ $($field),+ })? $(($inner))?)
                    })+
                    code => {
                        let name = stringify!($name);
                        Err(DecodeError::OtherString(format!("no {name} has number {code}")))
                    }
                }
            }
        }
    )+};
}

wire_newtype! {
    Seq(u64);
    Timestamp(i64);
    Digest([u8; 32]);
    Warnings(u16);
}

impl Encode for SharedBytes {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        <[u8] as Encode>::encode(self, encoder)
    }
}

impl<C> Decode<C> for SharedBytes {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Vec::<u8>::decode(decoder).map(SharedBytes::from)
    }
}

wire_words! {
    AckStatus, BagType, BatchEnd, Bus, Channel, ErrorClass, FailureCause, PauseCause, Promotion,
    QuarantineReason, RawMember, ReasonCode, SessionEnd, Status, StopReason, Stream, SummaryKind, Urgency,
    WindowType,
}

wire_struct! {
    AckHead { request_id, key, line, offset }
    ToldWait { head, behind_request_id, warnings }
    SealedLine { sha256, length }
    SummaryPointer { summary_id, stream, day }
    Superseded { status, reason, ack }
    TakenRequest {
        head, key, id, work, producer, flow_id, variant, kind, bus, priority, urgency, created_at,
        not_before, deadline, warnings, previous, supersedes, line,
    }
    Charge {
        provider, model, day, input_tokens, output_tokens, cost_nanos, estimated,
    }
    PassedOver { provider, model, cause, message, answered_by }
    FailingProvider { failure, times, since, last }
    FailingProviders { by_name }
    Charged { calls, input_tokens, output_tokens, cost_nanos }
    DayCharged { day, by_provider }
    Flows { used, charged }
    BadLine { line, offset, length, sha256, reason, request_id, errors, errors_omitted, raw }
    Violation { pointer, message }
    Row {
        status, reason, cause, attempts, taken_at, last, previous, output_of, key_rest, id_rest, work,
    }
    SessionInfo { run_id, command, started, started_at }
    Totals { by_status, by_reason, quarantined, taken }
    Ledger { totals, paused, session, producers, digests_open }
    Host { os, arch, hostname, timezone, pid }
    Promoted { path, manifest_path, data_hash, schema_version, promotion_status }
    SessionReport { events, lines, commits, outcomes, outputs, snapshot, error }
    WorkLeft { waits, unread_bytes }
    WaitingWork { reason, requests, next }
    SnapshotPointer { run_id, sequence, snapshot_id, seq }
    InputFacts {
        stream, day, inputs, inputs_omitted, source_text_hash, counts, notes, selection, recovered,
    }
    UpstreamInput {
        path, bus, partition, data_sha256, data_bytes, manifest_path, manifest_sha256,
        schema_version,
    }
    DaysMissing { bus, listed, more }
    SelectionInput { path, sha256, selection_hash }
    SourceCounts { sources, used, skipped }
    SourcePlaces { files, omitted }
    FilePlaces { file, sources }
    SourcePlace { id, line, offset, len, text_bytes }
    Recovered { ack_seq, log_head, at }
    AnswerFacts { identity, usage, stop }
    ModelIdentity {
        provider, model_name, model_version, temperature, max_tokens, deterministic_mode, seed,
    }
    Usage { input_tokens, output_tokens }
    Provenance {
        flow, pack_hash, prompt_hash, rendered_prompt_sha256, engine, engine_version, model, usage,
        calls, warnings, configured_params,
    }
    CallFacts { node, turn, request_hash, rendered_sha256, reused, stop }
    ErrorFacts { class, subtype, details }
    ModelFailure {
        provider, model_name, prompt_hash, selection_manifest_refs, retryable, usage, calls,
        violations,
    }
    DayOpened { day, inputs }
    PublishFailed { message, violation }
    EventsAppended { run_id, first_seq, last_seq, previous, sha256, source }
    FileMark { file, end, lines, covered, sha256 }
    SnapshotTaken {
        run_id, sequence, snapshot_id, to_seq, previous, sha256, covers, resume_from, closes,
    }
    CompactionFailed { run_id, sequence, after_seq, message, covers, resume_from }
    BuildStarted { run_id, trigger }
    BuildPublished { run_id, bags }
    BagsCollected { run_id, bags }
    BuildFinished { run_id, ok, day, row, considered, selectors }
    BagFacts {
        bag_id, bag_type, window, group, selector_id, selector_version, selector_hash,
        summaries_hash, title, tags, pair, candidate, selected, memos, bag_meta_sha256,
        trace_sha256, created_at, run_id,
    }
    WindowFacts { window_type, start_day, end_day, label, tz }
    GroupFacts { by, key }
    PairFacts { count, lift, npmi, edge_score }
    MemoFacts { memo_slug, channel }
    TaskSettled { task_id, done, summary_id }
    Forgotten { sources, files, summaries, bags, bodies }
    PreparedBatch { batch, provider, model, questions }
    BatchedQuestion { request, call, identity, expected, redacted }
    SubmittedBatch { batch, server_id }
    EndedBatch { batch, end, answered, refused, message }
    OpenBatch { provider, model, prepared_at, server_id, questions, answered }
    Batches { open, direct, unanswered }
    Unanswered { calls }
    FinishedBatch {
        batch, provider, model, server_id, prepared_at, ended_at, questions, answered, refused, end,
        cost_nanos, message,
    }
    FinishedBatches { spent, recent, batches, answered, cost_nanos }
    Dialect { left_out, renamed, refused_json, no_system, answer_max, context }
    LearnedDialect { provider, server, model, dialect }
    KnownDialect { server, dialect, learned_at }
    KnownDialects { by_model }
    AnswersDropped { dropped, bytes, before }
    AcksMoved { through, lines, file, hash }
    RetentionApplied { answers, acks, frames, by }
    AcksArchived { moved, bytes, before }
    FramesArchived { records, segments, bytes, before }
    RecoveryReport {
        records_kept, records_lost, damage, acks_read, acks_unreadable, lines, queue_change,
        outputs_recognized, outputs_adopted, run_records, ended, open, unknown,
    }
    Loss { means, count, examples }
    RunRecordKept { run_id, day, row }
    QueueMark { position, consumed }
    QueueMarks { by_host }
    Position { offset, lines, identity, chain, tail_len, tail }
    Identity { device, inode, head_len, head }
    ConsumedBatch { start, end, hash }
}

/// The bytes that stand in the record itself. What is known of others follows the event.
impl Encode for RequestLine {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        <[u8] as Encode>::encode(self, encoder)
    }
}

impl<C> Decode<C> for RequestLine {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        SharedBytes::decode(decoder).map(RequestLine::from)
    }
}

wire_enum! {
    WaitReason {
        1 Cause(why),
        2 Reason(why),
        3 Unknown,
        4 Pause(why),
    }
    InputNote {
        1 DaysMissing(missing),
        2 SessionCutFromOtherEvents { path, session },
        3 AppendedAfterManifest { path },
        4 ManifestName { path },
        5 UndatedFiles { texts },
        6 UnreadableFiles { files },
    }
    AgentRunFact {
        1 EventsAppended(fact),
        2 SnapshotTaken(fact),
        3 CompactionFailed(fact),
    }
    DigestFact {
        1 Started(fact),
        2 Bag(fact),
        3 Published(fact),
        4 Collected(fact),
        5 Finished(fact),
        6 TaskSettled(fact),
    }
    BatchFact {
        1 Prepared(fact),
        2 Submitted(fact),
        3 Ended(fact),
    }
    RetentionFact {
        1 AnswersDropped(fact),
        2 AcksMoved(fact),
        3 Applied(fact),
    }
    ErrorDetails {
        1 Input { input_name, expected_path, expected_manifest_path, source_id },
        2 Schema {
            artifact_family, schema_version_seen, schema_version_supported,
            validation_error_summary, sample_evidence,
        },
        3 Integrity {
            manifest_path, observed_hash, declared_hash, observed_counts, declared_counts,
        },
        4 Storage { storage_location, operation },
        5 Model(failure),
        6 Provider { flow_id },
        7 Unasked,
        8 Pack { flow },
        9 Param { param },
        10 Item,
        11 Publication { publish_target, staging_path, promotion_status },
    }
    RawLine {
        1 Whole(bytes),
        2 Prefix(bytes),
        3 Away { member, shown },
    }
}

/// The JSON that a person wrote is stored as canonical JSON: it has no shape of ours.
impl Encode for JsonObject {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        let text = if self.0.is_empty() { String::new() } else { jcs(&self.0.clone().into()) };
        text.encode(encoder)
    }
}

impl<C> Decode<C> for JsonObject {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let text = String::decode(decoder)?;
        if text.is_empty() {
            return Ok(JsonObject::default());
        }
        let object = serde_json::from_str(&text);
        object.map(JsonObject).map_err(|error| DecodeError::OtherString(error.to_string()))
    }
}

impl Encode for Day {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.days().encode(encoder)
    }
}

impl<C> Decode<C> for Day {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let days = i32::decode(decoder)?;
        Day::of_days(days).ok_or_else(|| DecodeError::OtherString(format!("no day is {days}")))
    }
}

impl Encode for Open {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        let some = self.particulars();
        (self.row, self.key, some.work_item).encode(encoder)?;
        (self.priority, self.producer, self.eligible_at, self.since).encode(encoder)?;
        (some.deadline, some.not_before, self.warnings, some.supersedes).encode(encoder)?;
        (&some.replies, some.lost).encode(encoder)
    }
}

impl<C> Decode<C> for Open {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let (row, key, work_item) = Decode::decode(decoder)?;
        let (priority, producer, eligible_at, since) = Decode::decode(decoder)?;
        let (deadline, not_before, warnings, supersedes) = Decode::decode(decoder)?;
        let (replies, lost) = Decode::decode(decoder)?;
        let some = Particulars { work_item, deadline, not_before, supersedes, replies, lost };
        let particulars = some.boxed();
        let place = Place::Nowhere;
        Ok(Open { row, key, priority, producer, eligible_at, since, warnings, particulars, place })
    }
}

/// The number of `TaskSettled` among the facts of digests, and so its first byte.
const SETTLED: u8 = 6;

/// The version that an event is written at.
fn version_of(event: &Event) -> u32 {
    match event {
        Event::Digest(DigestFact::TaskSettled(_)) | Event::WorkHeld { .. } => 2,
        event if sealed_line(event).is_some() => 2,
        _ => 1,
    }
}

fn sealed_line(event: &Event) -> Option<SealedLine> {
    event.taken()?.line.sealed()
}

/// A request whose line lies beside its record: what is known of the line follows the event of version 1.
fn decode_sealed_line(tag: u16, version: u32, payload: &[u8]) -> Option<Result<Event, CodecError>> {
    const WHAT: &str = "a request with a sealed line";
    fn of<T: Decode<()>>(
        payload: &[u8],
        event: impl FnOnce(Box<TakenRequest>, T) -> Event,
    ) -> Result<Event, CodecError> {
        let (mut request, rest, sealed): (Box<TakenRequest>, T, SealedLine) = read(WHAT, payload)?;
        request.line = RequestLine::away(sealed);
        Ok(event(request, rest))
    }
    Some(match (tag, version) {
        (ACCEPTED, 2) => of(payload, |request, ()| Event::RequestAccepted(request)),
        (PARKED, 2) => of(payload, |request, (behind, behind_request_id)| Event::RequestParked {
            request,
            behind,
            behind_request_id,
        }),
        (REJECTED, 2) => of(payload, |request, (status, reason, message)| Event::RequestRejected {
            request,
            status,
            reason,
            message,
        }),
        (DUPLICATE, 2) => of(payload, |request, (of, of_request_id, reason, summary)| {
            Event::DuplicateReceived { request, of, of_request_id, reason, summary }
        }),
        _ => return None,
    })
}

/// A settled task. At version 1 it had the words of the task, which are the body of the record now.
fn decode_settled(tag: u16, version: u32, payload: &[u8]) -> Option<Result<Event, CodecError>> {
    const WHAT: &str = "TaskSettled";
    let fact = match (tag, version, payload.first()) {
        (DIGEST, 1, Some(&SETTLED)) => read(WHAT, payload).map(
            |(_, task_id, done, _, summary_id): (u8, String, bool, String, String)| {
                DigestFact::TaskSettled(TaskSettled { task_id, done, summary_id })
            },
        ),
        (DIGEST, 2, Some(&SETTLED)) => read(WHAT, payload),
        _ => return None,
    };
    Some(fact.map(Event::Digest))
}

/// Work that waits for another request. At version 1 nothing told its producer, so it has no ack.
fn decode_held(tag: u16, version: u32, payload: &[u8]) -> Option<Result<Event, CodecError>> {
    const WHAT: &str = "WorkHeld";
    Some(match (tag, version) {
        (HELD, 1) => read(WHAT, payload).map(|(request, attempt, behind, summary)| {
            Event::WorkHeld { request, attempt, behind, summary, told: None }
        }),
        (HELD, 2) => read(WHAT, payload).map(|(request, attempt, behind, summary, told)| {
            Event::WorkHeld { request, attempt, behind, summary, told }
        }),
        _ => return None,
    })
}

/// The event list: tag, variant, members in stored order. Each is at version 1, but for what
/// `version_of` says. Variants in braces store their members one after the other, variants in
/// parentheses the value they hold.
macro_rules! event_codec {
    ($($tag:literal $variant:ident $({ $($field:ident),+ $(,)? })? $(($inner:ident))?,)+) => {
        /// Tag, version and payload of an event.
        #[cfg(any(test, feature = "internals"))]
        pub fn encode(event: &Event) -> (u16, u32, Vec<u8>) {
            let mut payload = Vec::new();
            let (tag, version) = encode_into(event, &mut payload);
            (tag, version, payload)
        }

        /// Appends the payload of an event; gives its tag and version.
        pub(crate) fn encode_into(event: &Event, out: &mut Vec<u8>) -> (u16, u32) {
            match event {
                $(Event::$variant $({ $($field),+ })? $(($inner))? => {
                    append($(($($field,)+))? $($inner)?, out);
                    if let Some(sealed) = sealed_line(event) {
                        append(sealed, out);
                    }
                    ($tag, version_of(event))
                })+
            }
        }

        /// The event that a tag, a version and a payload stand for.
        pub fn decode(tag: u16, version: u32, payload: &[u8]) -> Result<Event, CodecError> {
            let versioned = decode_settled(tag, version, payload);
            let versioned = versioned.or_else(|| decode_held(tag, version, payload));
            let versioned = versioned.or_else(|| decode_sealed_line(tag, version, payload));
            if let Some(event) = versioned {
                return event;
            }
            match (tag, version) {
                $(($tag, 1) => {
                    let $(($($field,)+))? $($inner)? = read(stringify!($variant), payload)?;
                    Ok(Event::$variant $({ $($field),+ })? $(($inner))?)
                })+
                _ => Err(CodecError::UnknownTag { tag, version }),
            }
        }

        /// Every tag and its name: part of the format.
        #[cfg(any(test, feature = "internals"))]
        pub const TAGS: &[(u16, &str)] = &[$(($tag, stringify!($variant)),)+];
    };
}

event_codec! {
    1 SessionStarted { run_id, command, version, config, host },
    2 SessionFinished { run_id, started, end, report },
    3 LineQuarantined(line),
    4 RequestAccepted(request),
    5 RequestParked { request, behind, behind_request_id },
    6 ParkedAccepted { request, head, warnings },
    7 RequestRejected { request, status, reason, message },
    8 DuplicateReceived { request, of, of_request_id, reason, summary },
    9 RequestDuplicated {
        request, head, of, of_request_id, reason, summary, warnings, supersedes,
    },
    10 AttemptStarted { request, attempt },
    11 InputResolved { request, attempt, summary, warnings, input, sources },
    12 WorkHeld { request, attempt, behind, summary, told },
    13 WorkReleased { request },
    14 ModelResponded { request, attempt, call, body_sha256, answer },
    15 SummaryProduced {
        request, attempt, head, summary, body_sha256, warnings, supersedes, input, provenance,
    },
    16 AttemptFailed {
        request, attempt, head, status, reason, cause, message, retry_at, counted, warnings, supersedes,
        input, error,
    },
    17 RequestSkipped { request, attempt, head, reason, warnings, supersedes, input },
    18 RequestCancelled { request, head, warnings, supersedes },
    19 DelayEnded { request },
    20 IntakePaused { cause },
    21 IntakeResumed { cause },
    22 ConfigReloaded { config },
    23 QuarantineReleased { quarantined, request_id },
    24 QueueAdopted { change, offset },
    25 CheckpointTaken { applied, state, rows },
    26 FlowUsed { flow_id, variant, pack_hash, replaces },
    27 ModelCharged { request, attempt, charge },
    28 DayOpened(opened),
    29 PublishFailed(failed),
    30 AgentRun(fact),
    31 Digest(fact),
    32 Retention(fact),
    33 LogRecovered(report),
    34 ReceiptKept { body_sha256 },
    35 KeyYielded { request, head, behind, behind_request_id, warnings },
    36 ProviderPassedOver { request, attempt, failure },
    37 WorkLeft(left),
    38 Batch(fact),
    39 RunRecordKept(kept),
    40 DialectLearned(learned),
    41 SourceBecamePrivate { request, made, summary },
    42 Forgotten(forgotten),
    43 LinesPassed { start, end },
}

/// Tags for readers that look for one kind of event and skip the rest undecoded.
pub const SESSION_STARTED: u16 = 1;
pub(crate) const LINE_QUARANTINED: u16 = 3;
const ACCEPTED: u16 = 4;
const PARKED: u16 = 5;
const REJECTED: u16 = 7;
const DUPLICATE: u16 = 8;
/// Events that bring a request in.
pub(crate) const TAKEN: [u16; 4] = [ACCEPTED, PARKED, REJECTED, DUPLICATE];
/// Whether an event is about a line of the queue, which may be the body of its record.
pub(crate) fn holds_line(tag: u16) -> bool {
    tag == LINE_QUARANTINED || TAKEN.contains(&tag)
}
pub(crate) const INPUT_RESOLVED: u16 = 11;
pub(crate) const MODEL_RESPONDED: u16 = 14;
pub(crate) const SUMMARY_PRODUCED: u16 = 15;
pub(crate) const MODEL_CHARGED: u16 = 27;
pub(crate) const AGENT_RUN: u16 = 30;
const HELD: u16 = 12;
pub(crate) const DIGEST: u16 = 31;
pub(crate) const RUN_RECORD_KEPT: u16 = 39;
pub(crate) const SOURCE_BECAME_PRIVATE: u16 = 41;
pub(crate) const FORGOTTEN: u16 = 42;

/// A row as bytes.
pub fn encode_row(row: &Row) -> Vec<u8> {
    bytes_of(row)
}

/// A row from bytes.
pub fn decode_row(bytes: &[u8]) -> Result<Row, CodecError> {
    read("row", bytes)
}

/// An open request as bytes.
pub fn encode_open(open: &Open) -> Vec<u8> {
    bytes_of(open)
}

/// An open request from bytes.
pub fn decode_open(bytes: &[u8]) -> Result<Open, CodecError> {
    read("open request", bytes)
}

/// The small facts of a checkpoint as bytes.
pub fn encode_ledger(ledger: &Ledger) -> Vec<u8> {
    bytes_of(ledger)
}

/// The small facts of a checkpoint from bytes.
pub fn decode_ledger(bytes: &[u8]) -> Result<Ledger, CodecError> {
    read("ledger", bytes)
}

/// What stays known of flows and models as bytes.
pub fn encode_flows(flows: &Flows) -> Vec<u8> {
    bytes_of(flows)
}

/// The providers that fail behind their fallbacks as bytes.
pub(crate) fn encode_failing(failing: &FailingProviders) -> Vec<u8> {
    bytes_of(failing)
}

/// The providers that fail behind their fallbacks from bytes.
pub(crate) fn decode_failing(bytes: &[u8]) -> Result<FailingProviders, CodecError> {
    read("failing providers", bytes)
}

/// The batches under way as bytes.
pub(crate) fn encode_batches(batches: &Batches) -> Vec<u8> {
    bytes_of(batches)
}

/// The batches under way from bytes.
pub(crate) fn decode_batches(bytes: &[u8]) -> Result<Batches, CodecError> {
    read("batches", bytes)
}

/// The batches that have ended as bytes.
pub(crate) fn encode_finished_batches(finished: &FinishedBatches) -> Vec<u8> {
    bytes_of(finished)
}

/// The batches that have ended from bytes.
pub(crate) fn decode_finished_batches(bytes: &[u8]) -> Result<FinishedBatches, CodecError> {
    read("finished batches", bytes)
}

/// The dialects of models as bytes.
pub(crate) fn encode_dialects(dialects: &KnownDialects) -> Vec<u8> {
    bytes_of(dialects)
}

/// The dialects of models from bytes.
pub(crate) fn decode_dialects(bytes: &[u8]) -> Result<KnownDialects, CodecError> {
    read("dialects", bytes)
}

/// What stays known of flows and models from bytes.
pub fn decode_flows(bytes: &[u8]) -> Result<Flows, CodecError> {
    read("flows", bytes)
}

/// How far an append-only projection had got when its file was last made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// The last event it has taken in.
    pub applied: Seq,
    /// The length of its file at that moment.
    pub bytes: u64,
}

wire_struct! { Cursor { applied, bytes } }

/// A cursor as bytes.
pub fn encode_cursor(cursor: &Cursor) -> Vec<u8> {
    bytes_of(cursor)
}

/// A cursor from bytes.
pub fn decode_cursor(bytes: &[u8]) -> Result<Cursor, CodecError> {
    read("cursor", bytes)
}

/// Bytes of the seal before a queue mark.
const SEAL: usize = 8;

/// What goes before the fields of the marks of several hosts when they are hashed, so that their seal is
/// never that of one mark.
const SEVERAL: &str = "queues of several hosts";

fn sealed(domain: &str, fields: &[u8]) -> [u8; SEAL] {
    let hash = Hasher::new().update(domain).update(fields).finish();
    std::array::from_fn(|at| hash.0[at])
}

/// A queue mark as bytes: the first eight bytes of its sha256, then its fields. The seal is needed
/// because the newest mark may lie in `meta`, which no frame covers.
pub fn encode_mark(mark: &QueueMark) -> Vec<u8> {
    encode_sealed("", mark)
}

/// The queue marks of all hosts as bytes. A host that has its log alone has one mark; marks of several
/// hosts have a seal of their own.
pub fn encode_marks(marks: &QueueMarks) -> Vec<u8> {
    match marks.alone() {
        Some(mark) => encode_mark(mark),
        None => encode_sealed(SEVERAL, marks),
    }
}

fn encode_sealed<T: Encode>(domain: &str, value: &T) -> Vec<u8> {
    let fields = bytes_of(value);
    let mut bytes = sealed(domain, &fields).to_vec();
    bytes.extend_from_slice(&fields);
    bytes
}

/// The queue marks of all hosts from bytes.
pub fn decode_marks(bytes: &[u8]) -> Result<QueueMarks, CodecError> {
    if let Some(mark) = decode_sealed("", bytes)? {
        return Ok(QueueMarks::of_one(mark));
    }
    decode_sealed(SEVERAL, bytes)?.ok_or_else(broken_seal)
}

const MARK: &str = "queue mark";

fn broken_seal() -> CodecError {
    CodecError::Malformed { what: MARK, why: "its seal does not match".to_owned() }
}

/// `None` when the seal is another one.
fn decode_sealed<T: Decode<()>>(domain: &str, bytes: &[u8]) -> Result<Option<T>, CodecError> {
    match bytes.split_at_checked(SEAL) {
        Some((seal, fields)) if seal == sealed(domain, fields) => read(MARK, fields).map(Some),
        _ => Ok(None),
    }
}
