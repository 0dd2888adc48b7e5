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

use crate::contract::bytes::Piece;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::schema::Violation;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{
    AckStatus, Bus, QuarantineReason, ReasonCode, Stream, SummaryKind, Urgency, Warnings,
};
use crate::limits::EVENT_BYTES_MAX;
use crate::state::event::{
    AckHead, BadLine, Charge, Event, PauseCause, RawLine, RunEnd, SummaryPointer, Superseded,
    TakenRequest,
};
use crate::state::flows::{Charged, DayCharged, Flows};
use crate::state::schedule::Place;
use crate::state::{Ledger, Open, Particulars, Row, RunInfo, Status, Totals};

/// Bytes that do not read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// No event has this tag and version.
    #[error("unknown event tag {tag} version {version}")]
    UnknownTag {
        /// The tag.
        tag: u16,
        /// Its version.
        version: u32,
    },
    /// The payload is not what the tag promises.
    #[error("decode {what}: {why}")]
    Malformed {
        /// What was being read.
        what: &'static str,
        /// What is wrong.
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
pub const STATE_FINGERPRINT: &[u8] = b"state.v2";

fn bytes_of<T: Encode>(value: T) -> Vec<u8> {
    let mut bytes = Vec::new();
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
macro_rules! wire_word {
    ($($name:ident: $code:expr, $from:expr;)+) => {$(
        impl Encode for $name {
            fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
                let code: fn(&$name) -> u8 = $code;
                code(self).encode(encoder)
            }
        }
        impl<C> Decode<C> for $name {
            fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
                let code = u8::decode(decoder)?;
                let from: fn(u8) -> Option<$name> = $from;
                from(code).ok_or_else(|| {
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

wire_newtype! {
    Seq(u64);
    Timestamp(i64);
    Digest([u8; 32]);
    Warnings(u16);
}

impl Encode for Piece {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        <[u8] as Encode>::encode(self, encoder)
    }
}

impl<C> Decode<C> for Piece {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Vec::<u8>::decode(decoder).map(Piece::from)
    }
}

wire_word! {
    AckStatus: |word| word.code(), AckStatus::from_code;
    Bus: |word| word.code(), Bus::from_code;
    QuarantineReason: |word| word.code(), QuarantineReason::from_code;
    ReasonCode: |word| word.code(), ReasonCode::from_code;
    Stream: |word| word.code(), Stream::from_code;
    SummaryKind: |word| word.code(), SummaryKind::from_code;
    Urgency: |word| word.code(), Urgency::from_code;
    Status: |status| *status as u8, Status::from_code;
    PauseCause: |cause| *cause as u8, |code| {
        [PauseCause::Operator, PauseCause::OpenRequests, PauseCause::DiskSpace]
            .into_iter()
            .find(|cause| *cause as u8 == code)
    };
    RunEnd: |end| *end as u8, |code| {
        [RunEnd::Clean, RunEnd::Failed, RunEnd::Crashed].into_iter().find(|end| *end as u8 == code)
    };
}

wire_struct! {
    AckHead { request_id, key, line, offset }
    SummaryPointer { summary_id, stream, day }
    Superseded { status, reason, ack }
    TakenRequest {
        head, key, id, work, producer, flow_id, variant, kind, bus, priority, urgency, created_at,
        not_before, deadline, warnings, previous, supersedes, line,
    }
    Charge {
        provider, model, day, input_tokens, output_tokens, cost_nanos, estimated,
    }
    Charged { calls, input_tokens, output_tokens, cost_nanos }
    DayCharged { day, by_provider }
    Flows { used, charged }
    BadLine { line, offset, length, sha256, reason, request_id, errors, errors_omitted, raw }
    Violation { pointer, message }
    Row {
        status, reason, attempts, taken_at, last, previous, output_of, key_rest, id_rest, work,
    }
    RunInfo { run_id, command, started, started_at }
    Totals { by_status, by_reason, quarantined, taken }
    Ledger { totals, paused, run, producers }
}

impl Encode for Day {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.to_string().encode(encoder)
    }
}

impl<C> Decode<C> for Day {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let text = String::decode(decoder)?;
        text.parse().map_err(|_| DecodeError::OtherString(format!("{text:?} is not a day")))
    }
}

impl Encode for RawLine {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        match self {
            RawLine::Whole(bytes) => (0u8, bytes).encode(encoder),
            RawLine::Prefix(bytes) => (1u8, bytes).encode(encoder),
        }
    }
}

impl<C> Decode<C> for RawLine {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        match Decode::decode(decoder)? {
            (0u8, bytes) => Ok(RawLine::Whole(bytes)),
            (1u8, bytes) => Ok(RawLine::Prefix(bytes)),
            (form, _) => Err(DecodeError::OtherString(format!("no raw form has number {form}"))),
        }
    }
}

impl Encode for Open {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        let some = self.particulars();
        (self.row, self.key, some.work_item).encode(encoder)?;
        (self.priority, self.producer, self.eligible_at, self.since).encode(encoder)?;
        (some.deadline, some.not_before, self.warnings, some.supersedes).encode(encoder)?;
        some.replies.encode(encoder)
    }
}

impl<C> Decode<C> for Open {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let (row, key, work_item) = Decode::decode(decoder)?;
        let (priority, producer, eligible_at, since) = Decode::decode(decoder)?;
        let (deadline, not_before, warnings, supersedes) = Decode::decode(decoder)?;
        let replies = Decode::decode(decoder)?;
        let some = Particulars { work_item, deadline, not_before, supersedes, replies };
        let particulars = some.boxed();
        let place = Place::Nowhere;
        Ok(Open { row, key, priority, producer, eligible_at, since, warnings, particulars, place })
    }
}

/// The tag of [`Event::ModelResponded`].
pub const MODEL_RESPONDED: u16 = 14;
/// The tag of [`Event::LineQuarantined`], for scans that look for nothing else.
pub const LINE_QUARANTINED: u16 = 3;
/// The tag of [`Event::SummaryProduced`].
pub const SUMMARY_PRODUCED: u16 = 15;
/// Tag of what a call cost, for readers that look for nothing else.
pub const MODEL_CHARGED: u16 = 28;
/// The tag of [`Event::RunStarted`], likewise.
pub const RUN_STARTED: u16 = 1;
/// The tag of [`Event::Noted`], likewise.
pub const NOTED: u16 = 26;

/// The event list: tag, variant, fields in stored order. Each is at version 1.
macro_rules! event_codec {
    ($($tag:literal $variant:ident { $($field:ident),+ $(,)? })+) => {
        /// Tag, version and payload of an event.
        pub fn encode(event: &Event) -> (u16, u32, Vec<u8>) {
            let mut payload = Vec::new();
            let (tag, version) = encode_into(event, &mut payload);
            (tag, version, payload)
        }

        /// Appends the payload of an event; gives its tag and version.
        pub fn encode_into(event: &Event, out: &mut Vec<u8>) -> (u16, u32) {
            match event {
                Event::LineQuarantined(line) => {
                    append(&**line, out);
                    (3, 1)
                }
                Event::RequestAccepted(request) => {
                    append(&**request, out);
                    (4, 1)
                }
                $(Event::$variant { $($field),+ } => {
                    append(($($field,)+), out);
                    ($tag, 1)
                })+
            }
        }

        /// The event a tag, a version and a payload stand for.
        pub fn decode(tag: u16, version: u32, payload: &[u8]) -> Result<Event, CodecError> {
            match (tag, version) {
                (3, 1) => Ok(Event::LineQuarantined(Box::new(read("LineQuarantined", payload)?))),
                (4, 1) => Ok(Event::RequestAccepted(Box::new(read("RequestAccepted", payload)?))),
                $(($tag, 1) => {
                    let ($($field,)+) = read(stringify!($variant), payload)?;
                    Ok(Event::$variant { $($field),+ })
                })+
                _ => Err(CodecError::UnknownTag { tag, version }),
            }
        }

        /// Every tag and its name: part of the format.
        pub const TAGS: &[(u16, &str)] = &[
            (3, "LineQuarantined"),
            (4, "RequestAccepted"),
            $(($tag, stringify!($variant)),)+
        ];
    };
}

event_codec! {
    1 RunStarted { run_id, command, version, config, environment }
    2 RunFinished { run_id, started, end, report }
    5 RequestParked { request, behind }
    6 ParkedAccepted { request, head, warnings }
    7 RequestRejected { request, status, reason, message }
    8 DuplicateReceived { request, of, of_request_id, reason, summary }
    9 RequestDuplicated {
        request, head, of, of_request_id, reason, summary, warnings, supersedes,
    }
    10 AttemptStarted { request, attempt }
    11 InputResolved { request, attempt, summary, warnings, facts }
    12 WorkHeld { request, attempt, behind, summary }
    13 WorkReleased { request }
    14 ModelResponded { request, attempt, call, body_sha256, facts }
    15 SummaryProduced {
        request, attempt, head, summary, body_sha256, warnings, supersedes, facts,
    }
    16 AttemptFailed {
        request, attempt, head, status, reason, message, retry_at, counted, warnings, supersedes,
        facts,
    }
    17 RequestSkipped { request, attempt, head, reason, warnings, supersedes, facts }
    18 RequestCancelled { request, head, warnings, supersedes }
    19 DelayEnded { request }
    20 IntakePaused { cause }
    21 IntakeResumed { cause }
    22 ConfigReloaded { config }
    23 QuarantineReleased { quarantined, request_id }
    24 QueueAdopted { change, offset }
    25 CheckpointTaken { applied, state, rows }
    26 Noted { kind, facts }
    27 FlowUsed { flow_id, variant, pack_hash, replaces }
    28 ModelCharged { request, attempt, charge }
}

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
