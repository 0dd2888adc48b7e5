//! The bytes of every event, row and table as they have been written since format 1: a change here
//! is a change of the durable format and needs a new version of the tag instead.
//!
//! `UPDATE_GOLDEN=1` writes lines for tags that are new; it never changes a line that is there.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes its own golden file"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::ids::Seq;
use summarizer::contract::schema::Violation;
use summarizer::contract::time::Timestamp;
use summarizer::contract::vocabulary::{
    AckStatus, Bus, QuarantineReason, ReasonCode, Stream, SummaryKind, Urgency, Warning, Warnings,
};
use summarizer::log::codec::{self, Cursor};
use summarizer::state::event::{
    AckHead, BadLine, Charge, Event, PauseCause, RawLine, RunEnd, SummaryPointer, Superseded,
    TakenRequest,
};
use summarizer::state::flows::{Charged, DayCharged, Flows};
use summarizer::state::schedule::Place;
use summarizer::state::{Ledger, Open, Particulars, Row, RunInfo, Status, Totals};

fn head() -> AckHead {
    AckHead { request_id: "req-é".into(), key: "key".into(), line: 7, offset: 4096 }
}

fn summary() -> SummaryPointer {
    SummaryPointer {
        summary_id: "sum_0".into(),
        stream: Stream::Documents,
        day: "2026-02-11".parse().unwrap(),
    }
}

fn taken() -> Box<TakenRequest> {
    Box::new(TakenRequest {
        head: head(),
        key: sha256("key"),
        id: sha256("req"),
        work: sha256("work").head(),
        producer: "repo".into(),
        flow_id: "flow.v1".into(),
        variant: Some("strict".into()),
        kind: SummaryKind::DocumentSummary,
        bus: Some(Bus::Other),
        priority: 2,
        urgency: Urgency::Scheduled,
        created_at: Timestamp(1_770_850_931_000),
        not_before: Some(Timestamp(1_770_850_932_000)),
        deadline: None,
        warnings: warnings(),
        previous: Some(Seq(3)),
        supersedes: Some(Superseded {
            status: Status::Failed,
            reason: Some(ReasonCode::ModelError),
            ack: Seq(9),
        }),
        line: b"{\"a\":1}".to_vec().into(),
    })
}

fn warnings() -> Warnings {
    Warnings::default().with(Warning::FlowDeprecated).with(Warning::RepeatedIds)
}

fn samples() -> Vec<Event> {
    let (request, attempt, facts) = (Seq(300), 2, "{}".to_owned());
    let bad = BadLine {
        line: 1,
        offset: 0,
        length: 5,
        sha256: sha256("bad"),
        reason: QuarantineReason::NotUtf8,
        request_id: None,
        errors: vec![Violation { pointer: "/a".into(), message: "no".into() }],
        errors_omitted: 4,
        raw: RawLine::Prefix(vec![0xff, 0x00]),
    };
    vec![
        Event::RunStarted {
            run_id: "run_1".into(),
            command: "drain".into(),
            version: "0.1.0".into(),
            config: sha256("config"),
            environment: facts.clone(),
        },
        Event::RunFinished {
            run_id: "run_1".into(),
            started: Seq(1),
            end: RunEnd::Crashed,
            report: facts.clone(),
        },
        Event::LineQuarantined(Box::new(bad)),
        Event::RequestAccepted(taken()),
        Event::RequestParked { request: taken(), behind: Seq(4) },
        Event::ParkedAccepted { request, head: head(), warnings: warnings() },
        Event::RequestRejected {
            request: taken(),
            status: AckStatus::RejectedUnknownFlow,
            reason: Some(ReasonCode::FlowDisabled),
            message: "disabled".into(),
        },
        Event::DuplicateReceived {
            request: taken(),
            of: Seq(4),
            of_request_id: "first".into(),
            reason: ReasonCode::OutputExists,
            summary: summary(),
        },
        Event::RequestDuplicated {
            request,
            head: head(),
            of: Seq(4),
            of_request_id: "first".into(),
            reason: ReasonCode::IdenticalWork,
            summary: summary(),
            warnings: warnings(),
            supersedes: Some(Seq(9)),
        },
        Event::AttemptStarted { request, attempt },
        Event::InputResolved {
            request,
            attempt,
            summary: summary(),
            warnings: warnings(),
            facts: facts.clone(),
        },
        Event::WorkHeld { request, attempt, behind: Seq(5), summary: summary() },
        Event::WorkReleased { request },
        Event::ModelResponded {
            request,
            attempt,
            call: sha256("call"),
            body_sha256: sha256("body"),
            facts: facts.clone(),
        },
        Event::SummaryProduced {
            request,
            attempt,
            head: head(),
            summary: summary(),
            body_sha256: sha256("item"),
            warnings: warnings(),
            supersedes: Some(Seq(9)),
            facts: facts.clone(),
        },
        Event::AttemptFailed {
            request,
            attempt,
            head: head(),
            status: AckStatus::FailedTransient,
            reason: Some(ReasonCode::Timeout),
            message: "slow".into(),
            retry_at: Some(Timestamp(1_770_850_999_999)),
            counted: true,
            warnings: warnings(),
            supersedes: None,
            facts: facts.clone(),
        },
        Event::RequestSkipped {
            request,
            attempt,
            head: head(),
            reason: ReasonCode::SkippedEmptyContent,
            warnings: warnings(),
            supersedes: None,
            facts: facts.clone(),
        },
        Event::RequestCancelled { request, head: head(), warnings: warnings(), supersedes: None },
        Event::DelayEnded { request },
        Event::IntakePaused { cause: PauseCause::DiskSpace },
        Event::IntakeResumed { cause: PauseCause::Operator },
        Event::ConfigReloaded { config: sha256("config") },
        Event::QuarantineReleased { quarantined: Seq(6), request_id: "fixed".into() },
        Event::QueueAdopted { change: "shrank".into(), offset: 12 },
        Event::CheckpointTaken { applied: Seq(40), state: sha256("state"), rows: 3 },
        Event::FlowUsed {
            flow_id: "flow.v1".into(),
            variant: Some("strict".into()),
            pack_hash: sha256("pack"),
            replaces: Some(sha256("older")),
        },
        Event::ModelCharged {
            request,
            attempt,
            charge: Charge {
                provider: "local".into(),
                model: "m".into(),
                day: "2026-02-11".parse().unwrap(),
                input_tokens: 300,
                output_tokens: 7,
                cost_nanos: 1 << 40,
                estimated: true,
            },
        },
        Event::Noted { kind: "pack_built".into(), facts },
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Golden lines by name: `name hex`.
fn check(file: &str, current: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let path = format!("{}/tests/golden/codec/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut golden: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, hex)| (name.to_owned(), hex.to_owned()))
        .collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        for (name, hex) in current {
            golden.entry(name.clone()).or_insert_with(|| hex.clone());
        }
        let text: String = golden.iter().map(|(name, hex)| format!("{name} {hex}\n")).collect();
        std::fs::write(&path, text).unwrap();
    }
    golden
}

#[test]
fn events_are_written_and_read_as_ever() {
    let samples = samples();
    let current: BTreeMap<String, String> = samples
        .iter()
        .map(|event| {
            let (tag, version, payload) = codec::encode(event);
            (format!("{tag:03}.{version}.{}", event.name()), hex(&payload))
        })
        .collect();
    let golden = check("events.txt", &current);
    assert_eq!(golden, current, "the durable bytes of an event changed");
    for (name, hex) in &golden {
        let mut parts = name.split('.');
        let tag: u16 = parts.next().unwrap().parse().unwrap();
        let version: u32 = parts.next().unwrap().parse().unwrap();
        let read = codec::decode(tag, version, &bytes(hex)).unwrap();
        assert!(samples.contains(&read), "{name} reads as {read:?}");
    }
}

#[test]
fn every_tag_has_a_golden_event_and_none_is_used_twice() {
    let covered: BTreeSet<u16> = samples().iter().map(|event| codec::encode(event).0).collect();
    let tags: BTreeSet<u16> = codec::TAGS.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(covered, tags);
    assert_eq!(tags.len(), codec::TAGS.len(), "a tag is used twice");
}

#[test]
fn tables_are_written_and_read_as_ever() {
    let row = Row {
        status: Status::Duplicate,
        reason: Some(ReasonCode::OutputExists),
        attempts: 2,
        taken_at: Timestamp(-5),
        last: Seq(70_000),
        previous: Seq(1),
        output_of: Seq(2),
        key_rest: [1; 16],
        id_rest: [2; 16],
        work: [3; 16],
    };
    let some = Particulars {
        work_item: Some([5; 16]),
        deadline: Some(Timestamp(12)),
        not_before: Some(Timestamp(13)),
        supersedes: Some(Seq(8)),
        replies: vec![Seq(80), Seq(81)],
    };
    let open = Open {
        row: Row { status: Status::Backoff, ..row },
        key: [4; 16],
        priority: 1,
        producer: 9,
        eligible_at: Timestamp(10),
        since: Timestamp(11),
        warnings: warnings(),
        particulars: some.boxed(),
        place: Place::Nowhere,
    };
    let ledger = Ledger {
        totals: Totals {
            by_status: BTreeMap::from([(Status::Completed, 5)]),
            by_reason: BTreeMap::from([(ReasonCode::Cancelled, 1)]),
            quarantined: 2,
            taken: 8,
        },
        paused: vec![PauseCause::Operator],
        run: Some(RunInfo {
            run_id: "run_1".into(),
            command: "serve".into(),
            started: Seq(1),
            started_at: Timestamp(2),
        }),
        producers: vec![(0, "repo".into(), Seq(3))],
    };
    let charged = Charged { calls: 2, input_tokens: 3, output_tokens: 4, cost_nanos: 500 };
    let flows = Flows {
        used: BTreeMap::from([(("flow.v1".to_owned(), None), sha256("pack"))]),
        charged: Some(DayCharged {
            day: "2026-02-11".parse().unwrap(),
            by_provider: BTreeMap::from([("local".to_owned(), charged)]),
        }),
    };
    let cursor = Cursor { applied: Seq(9), bytes: 1 << 33 };
    let current = BTreeMap::from([
        ("cursor".to_owned(), hex(&codec::encode_cursor(&cursor))),
        ("flows".to_owned(), hex(&codec::encode_flows(&flows))),
        ("ledger".to_owned(), hex(&codec::encode_ledger(&ledger))),
        ("open".to_owned(), hex(&codec::encode_open(&open))),
        ("row".to_owned(), hex(&codec::encode_row(&row))),
    ]);
    let golden = check("tables.txt", &current);
    assert_eq!(golden, current, "the durable bytes of a table changed");
    assert_eq!(codec::decode_cursor(&bytes(&golden["cursor"])).unwrap(), cursor);
    assert_eq!(codec::decode_flows(&bytes(&golden["flows"])).unwrap(), flows);
    assert_eq!(codec::decode_ledger(&bytes(&golden["ledger"])).unwrap(), ledger);
    assert_eq!(codec::decode_open(&bytes(&golden["open"])).unwrap(), open);
    assert_eq!(codec::decode_row(&bytes(&golden["row"])).unwrap(), row);
}

#[test]
fn damaged_payloads_are_errors_and_never_panics() {
    for event in samples() {
        let (tag, version, payload) = codec::encode(&event);
        assert!(codec::decode(tag, version + 1, &payload).is_err(), "an unknown version");
        for end in 0..payload.len() {
            assert!(
                codec::decode(tag, version, &payload[..end]).is_err(),
                "{event:?} cut at {end}"
            );
        }
        let mut longer = payload.clone();
        longer.push(0);
        assert!(codec::decode(tag, version, &longer).is_err(), "left-over bytes");
        for at in 0..payload.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = payload.clone();
                damaged[at] ^= flip;
                // Whatever it reads as, it must not panic or allocate without bound.
                drop(codec::decode(tag, version, &damaged));
            }
        }
    }
    assert!(codec::decode(999, 1, b"").is_err());
    assert_eq!(Digest::ZERO.hex().len(), 64);
}
